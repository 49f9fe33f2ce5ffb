/* Section [alerts], and the key of [security] that a rule is about. */
#ifndef DF_ALERTS_SETTINGS_H
#define DF_ALERTS_SETTINGS_H

#include "base/config.h"

struct df_alerts_settings {
    const struct df_secret *pagerduty_routing_key; /* NULL: no PagerDuty */
    const char *pagerduty_url;
    const struct df_secret *teams_url; /* NULL: no Teams */
    const char *console_url;           /* NULL: no link in messages */
    int64_t interval_ms;
    int64_t batch_stuck_ms;
    int64_t delivery_stuck_ms;
    int64_t webhook_failures;
    int64_t error_rate_percent;
    int64_t error_rate_min;
    int64_t error_rate_ms;
    int64_t secret_waits_ms;
    int64_t client_secret_max_ms; /* 0: no limit */
};

extern const struct df_config_key df_alerts_keys[];
extern const struct df_config_key df_secret_age_keys[]; /* of [security] */

void df_alerts_check_settings(const struct df_alerts_settings *s, struct df_buf *complaints);

#endif

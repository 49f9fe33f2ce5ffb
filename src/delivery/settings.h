/* Section [delivery]. */
#ifndef DF_DELIVERY_SETTINGS_H
#define DF_DELIVERY_SETTINGS_H

#include "base/config.h"
#include "resilience/retry.h"

struct df_delivery_settings {
    struct df_retry_policy retry;
    int64_t give_up_ms; /* after a row's first failure */
    int64_t lease_ms;
    int64_t timeout_ms;
    int64_t concurrency;    /* calls at the same time to one destination */
    int64_t client_threads; /* 0: one for every two processors, at most 8 */
};

extern const struct df_config_key df_delivery_keys[];

void df_delivery_check_settings(const struct df_delivery_settings *s, struct df_buf *complaints);

#endif

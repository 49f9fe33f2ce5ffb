/* Of section [log]: where lines are sent, and the spool in which they wait. */
#ifndef DF_SHIP_SETTINGS_H
#define DF_SHIP_SETTINGS_H

#include "base/config.h"

struct df_ship_settings {
    const char *url; /* loki://…, elastic://…, otlp://…; NULL: nothing is sent */
    const struct df_secret *token; /* NULL: none */
    const char *labels;            /* name=value, separated by commas; NULL: none */
    int64_t spool_max_bytes;
    int64_t spool_max_ms;
    int64_t batch_bytes;
    int64_t interval_ms;
    int64_t timeout_ms;
};

extern const struct df_config_key df_ship_keys[];

/* Each complaint is a line: "[section] name: why". */
void df_ship_check_settings(const struct df_ship_settings *s, struct df_buf *complaints);
/* Complains if the lines would leave this machine in the clear. */
void df_ship_check_tls(const struct df_ship_settings *s, struct df_buf *complaints);

#endif

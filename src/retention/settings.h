/* Section [retention]: how long what is over is kept, by kind. 0: for ever. */
#ifndef DF_RETENTION_SETTINGS_H
#define DF_RETENTION_SETTINGS_H

#include "base/config.h"

struct df_retention_settings {
    int64_t batches_ms;
    int64_t events_ms;
    int64_t deliveries_ms;
    int64_t attempts_ms;
    int64_t tickets_ms;
    int64_t acks_ms;
    int64_t counterparties_ms;
    int64_t integrations_ms;
    int64_t audit_ms;
    int64_t alerts_ms;
};

extern const struct df_config_key df_retention_keys[];

#endif

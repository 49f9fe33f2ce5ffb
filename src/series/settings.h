/* Section [series]. */
#ifndef DF_SERIES_SETTINGS_H
#define DF_SERIES_SETTINGS_H

#include "base/config.h"

struct df_series_settings {
    bool enabled;
    int64_t interval_ms;
    int64_t max_clients;
};

extern const struct df_config_key df_series_keys[];

#endif

/* Sections [admin] and [auth]. */
#ifndef DF_ACCESS_SETTINGS_H
#define DF_ACCESS_SETTINGS_H

#include "base/config.h"

struct df_auth_settings {
    const struct df_secret *admin_key; /* NULL: /admin answers 404 */
    int64_t failures_per_minute;
    int64_t hash_threads;
};

extern const struct df_config_key df_admin_keys[];
extern const struct df_config_key df_auth_keys[];

#endif

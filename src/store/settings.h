/* Section [database]. */
#ifndef DF_STORE_SETTINGS_H
#define DF_STORE_SETTINGS_H

#include "base/config.h"

struct df_store_settings {
    const char *url;    /* never NULL once loaded; the default depends on server.data_dir */
    int64_t pool_size;  /* connections in all; 0: chosen for the database */
    bool migrate;       /* apply the schema scripts at start */
    int64_t group_max;  /* jobs in one commit; 0: 256 */
    int64_t queue_size; /* jobs waiting for each kind of worker; 0: 4096 */
};

extern const struct df_config_key df_store_keys[];

void df_store_check_settings(const struct df_store_settings *s, struct df_buf *complaints);

#endif

/* Section [redis], and the keys of [imports] that concern locks. */
#ifndef DF_LOCKS_SETTINGS_H
#define DF_LOCKS_SETTINGS_H

#include "base/config.h"

enum df_lock_provider { DF_LOCKS_SQL, DF_LOCKS_REDIS };

struct df_locks_settings {
    int provider; /* enum df_lock_provider */
    int64_t lease_ms;
    const struct df_secret *redis_urls; /* may hold passwords; NULL: none */
    const char *redis_prefix;           /* of all keys */
    int64_t redis_timeout_ms;           /* of one server's answer */
};

extern const struct df_config_key df_lock_keys[];  /* of [imports] */
extern const struct df_config_key df_redis_keys[]; /* of [redis] */

/* Checks that concern more than one key; adds one line for each complaint. */
void df_locks_check_settings(const struct df_locks_settings *s, struct df_buf *complaints);
/* How many Redis servers are used; 0: none. */
size_t df_locks_servers(const struct df_locks_settings *s);
/* Complains of servers that are reached over the network in the clear. */
void df_locks_check_tls(const struct df_locks_settings *s, struct df_buf *complaints);

#endif

/* Sections [admin], [admin.NAME] and [auth]. */
#ifndef DF_ACCESS_SETTINGS_H
#define DF_ACCESS_SETTINGS_H

#include "base/config.h"

/* What a key for /admin may do; each role includes those before it. */
enum df_admin_role { DF_ADMIN_READ, DF_ADMIN_OPERATE, DF_ADMIN_ADMIN };

/* A section [admin.NAME], or the key of [admin]. */
struct df_admin {
    const char *name; /* NULL: the key of [admin] */
    const struct df_secret *key;
    int role; /* enum df_admin_role */
};

struct df_auth_settings {
    const struct df_secret *admin_key; /* of [admin]; NULL: it has none */
    struct df_admin *admins;           /* [admin.NAME] */
    size_t admin_count;
    int64_t failures_per_minute;
    int64_t hash_threads;
};

extern const struct df_config_key df_admin_keys[];
extern const struct df_config_key df_auth_keys[];
extern const struct df_config_group df_admin_group;

/* "read", "operate", "admin" */
const char *df_admin_role_name(int role);
/* Whether there is a key at all; if not, /admin answers 404. */
bool df_auth_has_admin(const struct df_auth_settings *s);
/* Complains of keys that are missing, used twice, or so short that others could guess them.
 * loopback: only this machine can call. */
void df_auth_check_settings(const struct df_auth_settings *s, bool loopback,
                            struct df_buf *complaints);
/* Warns of keys that are accepted, but short. */
void df_auth_warn_settings(const struct df_auth_settings *s, struct df_buf *warnings);

#endif

#include "access/settings.h"

#define S struct df_auth_settings

/* clang-format off */
const struct df_config_key df_admin_keys[] = {
    DF_KEY_SECRET("key", S, admin_key, "The value of X-Admin-Key; without a key /admin answers 404. Use at least 24 characters; under 12 it is refused, unless server.listen is loopback."),
    {.key = NULL},
};

const struct df_config_key df_auth_keys[] = {
    DF_KEY_INT("failures_per_minute", S, failures_per_minute, "60", 1, 100000, "Failed logins of one client id from one address (IPv6: its /64) before it gets 429; of all ids together ten times as many. A secret that was right from there in the last day always passes."),
    DF_KEY_INT("hash_threads", S, hash_threads, "1", 1, 16, "Password hashes computed in parallel; each takes 19 MiB."),
    {.key = NULL},
};
/* clang-format on */

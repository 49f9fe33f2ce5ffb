#include "access/settings.h"

#define S struct df_auth_settings

/* clang-format off */
const struct df_config_key df_admin_keys[] = {
    DF_KEY_SECRET("key", S, admin_key, "What X-Admin-Key must hold; without it /admin answers 404. At least 24 characters; under 12 it is refused, unless server.listen is loopback."),
    {.key = NULL},
};

const struct df_config_key df_auth_keys[] = {
    DF_KEY_INT("failures_per_minute", S, failures_per_minute, "60", 1, 100000, "Failed logins of one client id from one address (IPv6: its /64) before they get 429; of all ids ten times as many. A secret that was right from there in the last day always passes."),
    DF_KEY_INT("hash_threads", S, hash_threads, "1", 1, 16, "Password hashes computed side by side; each takes 19 MiB meanwhile."),
    {.key = NULL},
};
/* clang-format on */

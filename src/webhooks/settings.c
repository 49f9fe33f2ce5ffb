#include "webhooks/settings.h"

#define S struct df_webhooks_settings

/* clang-format off */
const struct df_config_key df_private_target_keys[] = {
    DF_KEY_BOOL("allow_private_targets", S, allow_private, "off", "Let clients' webhooks reach loopback and private addresses. Destinations that the operator configures may be anywhere."),
    {.key = NULL},
};

const struct df_config_key df_webhooks_keys[] = {
    DF_KEY_INT_LIST("retry_delays_ms", S, retry_delays_ms, "15000,30000,60000,300000,900000", 0, DF_DAYS, "Delays before the retries of a webhook; after the last retry it is given up."),
    DF_KEY_INT("timeout_ms", S, timeout_ms, "15000", 1, DF_HOURS, "Longest time for one attempt."),
    DF_KEY_INT_IN(DF_HOURS, "rotation_overlap_hours", S, rotation_overlap_ms, "24", 0, 720, "How long webhooks also carry the old secret's signature after a rotation."),
    DF_KEY_INT_IN(DF_DAYS, "rotate_days", S, rotate_ms, "90", 1, 3650, "Subscriptions with autoRotate get a new secret when theirs is this old."),
    DF_KEY_INT("max_per_client", S, max_per_client, "20", 1, 100000, "Subscriptions that a client may have."),
    DF_KEY_INT_IN(DF_DAYS, "disable_after_days", S, disable_after_ms, "5", 1, 365, "A subscription is disabled when all its deliveries have failed for this long."),
    {.key = NULL},
};
/* clang-format on */

#include "webhooks/settings.h"

#define S struct df_webhooks_settings

/* clang-format off */
const struct df_config_key df_private_target_keys[] = {
    DF_KEY_BOOL("allow_private_targets", S, allow_private, "off", "Let clients' webhooks reach loopback and private addresses. Destinations that the operator configures may be anywhere."),
    {.key = NULL},
};

const struct df_config_key df_master_key_keys[] = {
    DF_KEY_SECRET("master_key", S, key, "Key of webhook secrets in the database, 32 bytes as 64 hexadecimal digits or in base64; without it they are not encrypted."),
    DF_KEY_SECRET("master_old_key", S, old_key, "The previous key: secrets under it are still read, and encrypted with the new one at start."),
    {.key = NULL},
};

const struct df_config_key df_webhooks_keys[] = {
    DF_KEY_INT_LIST("retry_delays_ms", S, retry_delays_ms, "15000,30000,60000,300000,900000", 0, DF_DAYS, "Delays before the retries of a webhook; after the last retry it is given up."),
    DF_KEY_INT("timeout_ms", S, timeout_ms, "15000", 1, DF_HOURS, "Longest time for one attempt."),
    DF_KEY_INT_IN(DF_HOURS, "rotation_overlap_hours", S, rotation_overlap_ms, "24", 0, 720, "How long webhooks also carry the old secret's signature after a rotation."),
    DF_KEY_INT("max_per_client", S, max_per_client, "20", 1, 100000, "Subscriptions that a client may have."),
    DF_KEY_INT_IN(DF_DAYS, "disable_after_days", S, disable_after_ms, "5", 1, 365, "A subscription is disabled when all its deliveries have failed for this long."),
    {.key = NULL},
};
/* clang-format on */

static void check_key(const char *name, const struct df_secret *text, struct df_buf *complaints)
{
    struct df_secret *key = df_secret_key_new(df_secret_str(text));

    if (text && !key)
        df_buf_addf(complaints,
                    "[security] %s must be a key of 32 bytes as 64 hexadecimal digits or in base64 "
                    "(openssl rand -hex 32)\n",
                    name);
    df_secret_free(key);
}

void df_webhooks_check_settings(const struct df_webhooks_settings *s, struct df_buf *complaints)
{
    check_key("master_key", s->key, complaints);
    check_key("master_old_key", s->old_key, complaints);
    if (s->old_key && !s->key)
        df_buf_addz(complaints, "[security] master_old_key is set and master_key is not\n");
}

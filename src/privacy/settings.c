#include "privacy/settings.h"

#include "privacy/mask.h"

static const char *const mode_names[] = {[DF_MASK_STARS] = "mask",
                                         [DF_MASK_HASH] = "hash",
                                         [DF_MASK_DROP] = "drop",
                                         [DF_MASK_KEEP] = "keep",
                                         NULL};

#define S struct df_sensitive_settings

/* clang-format off */
const struct df_config_key df_sensitive_keys[] = {
    DF_KEY_STRING("fields", S, fields, "phone, document, email, name, address", "Names of the fields that are masked, or paths like contact.phone, separated by commas. One of these five words stands for all its names in Portuguese and English. Case, accents, _ and - do not count."),
    DF_KEY_ENUM("mode", S, mode, "mask", mode_names, "What is stored instead of a value: stars (mask), a keyed hash (hash), nothing (drop); keep stores everything as it came."),
    DF_KEY_INT_IN(DF_HOURS, "payload_ttl_hours", S, payload_ttl_ms, "168", 1, 87600, "How long after a batch's end its failed records stay, encrypted, for reports and retries."),
    {.key = NULL},
};
/* clang-format on */

void df_sensitive_check_settings(const struct df_sensitive_settings *s, struct df_buf *complaints)
{
    struct df_err err = DF_ERR_INIT;
    struct df_masker *m = NULL;

    if (df_masker_new(s, NULL, &m, &err) != DF_OK)
        df_buf_addf(complaints, "[sensitive_data] fields: %s\n", err.detail);
    df_masker_free(m);
}

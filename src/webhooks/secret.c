#include "webhooks/secret.h"

#include "delivery/sign.h"

#include <sodium.h>

#define PREFIX     "whsec_"
#define MADE_BYTES 32

void df_webhook_secret_make(const struct df_clock *clock, struct df_webhook_secret *ret)
{
    const size_t at = sizeof(PREFIX) - 1;
    unsigned char bytes[MADE_BYTES];

    df_random(clock, bytes, sizeof(bytes));
    memcpy(ret->text, PREFIX, sizeof(PREFIX));
    (void)sodium_bin2base64(ret->text + at, sizeof(ret->text) - at, bytes, sizeof(bytes),
                            sodium_base64_VARIANT_ORIGINAL);
    df_wipe(bytes, sizeof(bytes));
}

/* Receivers write the secret into configuration files and shells, so it must not contain characters
 * that these treat specially. */
enum df_code df_webhook_secret_check(struct df_str secret, struct df_err *err)
{
    if (secret.len > DF_WEBHOOK_SECRET_MAX)
        return df_err_set(err, DF_E_BAD_REQUEST, "must not be longer than %d characters",
                          DF_WEBHOOK_SECRET_MAX);
    for (size_t i = 0; i < secret.len; i++)
        if (secret.ptr[i] <= ' ' || secret.ptr[i] > '~')
            return df_err_set(err, DF_E_BAD_REQUEST,
                              "must be of visible ASCII characters, without spaces");
    return df_sign_check_secret(secret, err);
}

struct df_str df_webhook_secret_seal(struct df_keys *keys, struct df_str subscription,
                                     struct df_str secret, struct df_arena *a)
{
    struct df_buf sealed;

    df_buf_init(&sealed, secret.len + DF_SEALED_EXTRA);
    df_keys_seal(keys, DF_KEY_SECRET, subscription, secret, &sealed);
    struct df_str kept = df_arena_str(a, df_buf_str(&sealed));
    df_buf_release(&sealed);
    return kept;
}

static enum df_code open_secret(struct df_keys *keys, struct df_str subscription,
                                struct df_str plain, struct df_str sealed, struct df_arena *a,
                                struct df_str *ret, struct df_err *err)
{
    if (sealed.ptr)
        return df_keys_open(keys, DF_KEY_SECRET, subscription, sealed, a, ret, err);
    *ret = df_arena_str(a, plain);
    return DF_OK;
}

enum df_code df_webhook_secret_open(struct df_keys *keys, struct df_str subscription,
                                    const struct df_webhook_secret_columns *columns, int64_t now_ms,
                                    struct df_arena *a, struct df_str *ret,
                                    struct df_str *ret_previous, struct df_err *err)
{
    struct df_err ignored = DF_ERR_INIT;
    struct df_str previous = DF_STR_NULL;
    enum df_code code =
        open_secret(keys, subscription, columns->secret, columns->encrypted, a, ret, err);

    if (code != DF_OK)
        return code;
    if (!ret->ptr)
        return df_err_set(err, DF_E_CONFIG, "the subscription has no secret");
    if (columns->previous_expires_at > now_ms &&
        open_secret(keys, subscription, columns->previous, columns->previous_encrypted, a,
                    &previous, &ignored) != DF_OK)
        previous = DF_STR_NULL;
    *ret_previous = previous;
    return DF_OK;
}

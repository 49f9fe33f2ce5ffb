#include "webhooks/secret.h"

#include "delivery/sign.h"

#include <assert.h>
#include <sodium.h>
#include <stdlib.h>

#define PREFIX      "whsec_"
#define MADE_BYTES  32
#define VERSION     1
#define NONCE_BYTES crypto_aead_xchacha20poly1305_ietf_NPUBBYTES
#define TAG_BYTES   crypto_aead_xchacha20poly1305_ietf_ABYTES
#define HEAD_BYTES  (1 + NONCE_BYTES)

static_assert(HEAD_BYTES + DF_WEBHOOK_SECRET_MAX + TAG_BYTES == DF_WEBHOOK_SEALED_MAX,
              "the header's figures are libsodium's");
static_assert(crypto_aead_xchacha20poly1305_ietf_KEYBYTES == DF_SECRET_KEY_BYTES, "likewise");

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

static const unsigned char *key_of(const struct df_secret *master)
{
    struct df_str key = df_secret_str(master);

    assert(key.len == DF_SECRET_KEY_BYTES);
    return (const unsigned char *)key.ptr;
}

void df_webhook_secret_seal(const struct df_secret *master, const struct df_clock *clock,
                            struct df_str subscription, struct df_str secret,
                            struct df_webhook_sealed *ret)
{
    unsigned long long len = 0;

    assert(secret.len <= DF_WEBHOOK_SECRET_MAX);
    ret->plain = master ? DF_STR_NULL : secret;
    ret->sealed = DF_STR_NULL;
    if (!master)
        return;
    ret->bytes[0] = VERSION;
    df_random(clock, ret->bytes + 1, NONCE_BYTES);
    if (crypto_aead_xchacha20poly1305_ietf_encrypt(
            ret->bytes + HEAD_BYTES, &len, (const unsigned char *)secret.ptr, secret.len,
            (const unsigned char *)subscription.ptr, subscription.len, NULL, ret->bytes + 1,
            key_of(master)) != 0)
        abort();
    ret->sealed = df_str_n((const char *)ret->bytes, HEAD_BYTES + (size_t)len);
}

static bool unseal(const struct df_secret *master, struct df_str subscription, struct df_str sealed,
                   struct df_arena *a, struct df_str *ret)
{
    const unsigned char *bytes = (const unsigned char *)sealed.ptr;
    unsigned long long len = 0;

    if (sealed.len < HEAD_BYTES + TAG_BYTES || sealed.len > DF_WEBHOOK_SEALED_MAX ||
        bytes[0] != VERSION)
        return false;
    unsigned char *plain = df_arena_alloc(a, sealed.len);
    if (crypto_aead_xchacha20poly1305_ietf_decrypt(
            plain, &len, NULL, bytes + HEAD_BYTES, sealed.len - HEAD_BYTES,
            (const unsigned char *)subscription.ptr, subscription.len, bytes + 1,
            key_of(master)) != 0)
        return false;
    *ret = df_str_n((const char *)plain, (size_t)len);
    return true;
}

static enum df_code open_secret(const struct df_webhook_keys *keys, struct df_str subscription,
                                struct df_str plain, struct df_str sealed, struct df_arena *a,
                                struct df_str *ret, struct df_err *err)
{
    if (!sealed.ptr) {
        *ret = df_arena_str(a, plain);
        return DF_OK;
    }
    if (keys->master && unseal(keys->master, subscription, sealed, a, ret))
        return DF_OK;
    if (keys->old_master && unseal(keys->old_master, subscription, sealed, a, ret))
        return DF_OK;
    return df_err_set(err, DF_E_CONFIG,
                      keys->master
                          ? "the secret was not encrypted with this security.master_key, nor with "
                            "security.master_old_key"
                          : "the secret is encrypted and security.master_key is not set");
}

enum df_code df_webhook_secret_open(const struct df_webhook_keys *keys, struct df_str subscription,
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

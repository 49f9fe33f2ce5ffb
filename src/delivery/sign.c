#include "delivery/sign.h"

#include "base/secret.h"

#include <openssl/evp.h>
#include <pthread.h>
#include <sodium.h>
#include <stdlib.h>

#define DIGEST          32
#define KEY_MIN         24 /* what Standard Webhooks asks for */
#define KEY_MAX         64
#define SECRET_MIN      16
#define STANDARD_PREFIX DF_STR("whsec_")

/* --- the keyed hash --- */

static EVP_MAC *hmac;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Looking the algorithm up costs more than using it, so it is kept for the life of the process. */
static void find_hmac(void)
{
    hmac = EVP_MAC_fetch(NULL, "HMAC", NULL);
}

/* Signing fails only without memory or without SHA-256. Nothing unsigned may go out, so the process
 * ends. */
static void must_succeed(bool ok)
{
    if (!ok)
        abort();
}

/* HMAC-SHA256 of the parts, one after another. */
static void hmac_of(struct df_str key, const struct df_str *parts, size_t count,
                    unsigned char out[DIGEST])
{
    char digest[] = "SHA256";
    const OSSL_PARAM params[] = {OSSL_PARAM_construct_utf8_string("digest", digest, 0),
                                 OSSL_PARAM_construct_end()};
    const void *key_bytes = key.ptr ? key.ptr : "";
    size_t len = 0;

    (void)pthread_once(&once, find_hmac);
    must_succeed(hmac);
    EVP_MAC_CTX *ctx = EVP_MAC_CTX_new(hmac);
    must_succeed(ctx && EVP_MAC_init(ctx, key_bytes, key.len, params) == 1);
    for (size_t i = 0; i < count; i++)
        if (parts[i].len > 0)
            must_succeed(EVP_MAC_update(ctx, (const void *)parts[i].ptr, parts[i].len) == 1);
    must_succeed(EVP_MAC_final(ctx, out, &len, DIGEST) == 1 && len == DIGEST);
    EVP_MAC_CTX_free(ctx);
}

/* --- secrets --- */

static bool decode_key(struct df_str secret, unsigned char out[KEY_MAX], size_t *ret_len)
{
    const struct df_str prefix = STANDARD_PREFIX;

    return sodium_base642bin(out, KEY_MAX, secret.ptr + prefix.len, secret.len - prefix.len, NULL,
                             ret_len, NULL, sodium_base64_VARIANT_ORIGINAL) == 0;
}

/* The key as Standard Webhooks has it; a decoded one is written to `room`. */
static struct df_str standard_key(struct df_str secret, unsigned char room[KEY_MAX])
{
    size_t len = 0;

    if (df_str_starts(secret, STANDARD_PREFIX) && decode_key(secret, room, &len))
        return df_str_n((const char *)room, len);
    return secret;
}

enum df_code df_sign_check_secret(struct df_str secret, struct df_err *err)
{
    if (df_str_starts(secret, STANDARD_PREFIX)) {
        unsigned char key[KEY_MAX];
        size_t len = 0;
        bool ok = decode_key(secret, key, &len) && len >= KEY_MIN;
        df_wipe(key, sizeof(key));
        return ok ? DF_OK
                  : df_err_set(
                        err, DF_E_CONFIG,
                        "after whsec_ must_succeed stand %d to %d bytes in base64, with padding",
                        KEY_MIN, KEY_MAX);
    }
    if (secret.len < SECRET_MIN)
        return df_err_set(err, DF_E_CONFIG, "the secret is shorter than %d characters", SECRET_MIN);
    return DF_OK;
}

/* --- signatures --- */

static void to_hex(const unsigned char digest[DIGEST], char out[DF_SIGN_HEX + 1])
{
    (void)sodium_bin2hex(out, DF_SIGN_HEX + 1, digest, DIGEST);
}

void df_sign_hex(struct df_str secret, struct df_str body, char out[DF_SIGN_HEX + 1])
{
    unsigned char digest[DIGEST];

    hmac_of(secret, &body, 1, digest);
    to_hex(digest, out);
}

/* "v1=<hex>" */
static struct df_str sign_own(struct df_str secret, struct df_str time, struct df_str body,
                              struct df_arena *a)
{
    const struct df_str parts[] = {time, DF_STR("."), body};
    unsigned char digest[DIGEST];
    char *out = df_arena_alloc(a, 3 + DF_SIGN_HEX + 1);

    hmac_of(secret, parts, sizeof(parts) / sizeof(parts[0]), digest);
    memcpy(out, "v1=", sizeof("v1="));
    to_hex(digest, out + 3);
    return df_str_n(out, 3 + DF_SIGN_HEX);
}

/* "v1,<base64>" */
static struct df_str sign_standard(struct df_str secret, struct df_str id, struct df_str time,
                                   struct df_str body, struct df_arena *a)
{
    enum { BASE64 = sodium_base64_ENCODED_LEN(DIGEST, sodium_base64_VARIANT_ORIGINAL) };
    const struct df_str parts[] = {id, DF_STR("."), time, DF_STR("."), body};
    unsigned char digest[DIGEST];
    unsigned char key[KEY_MAX];
    char *out = df_arena_alloc(a, 3 + BASE64);

    hmac_of(standard_key(secret, key), parts, sizeof(parts) / sizeof(parts[0]), digest);
    df_wipe(key, sizeof(key));
    memcpy(out, "v1,", sizeof("v1,"));
    (void)sodium_bin2base64(out + 3, BASE64, digest, DIGEST, sodium_base64_VARIANT_ORIGINAL);
    return df_str_n(out, 3 + BASE64 - 1);
}

static struct df_str join_values(struct df_arena *a, struct df_str first, const char *between,
                                 struct df_str second)
{
    return df_arena_printf(a, DF_STR_FMT "%s" DF_STR_FMT, DF_STR_ARG(first), between,
                           DF_STR_ARG(second));
}

void df_sign(struct df_str secret, struct df_str old_secret, struct df_str id, int64_t unix_seconds,
             struct df_str body, struct df_arena *a, struct df_call_header ret[DF_SIGN_HEADERS])
{
    struct df_str time = df_arena_printf(a, "%lld", (long long)unix_seconds);
    struct df_str signature = sign_own(secret, time, body, a);
    struct df_str webhook = sign_standard(secret, id, time, body, a);

    if (old_secret.ptr) {
        signature = join_values(a, signature, ", ", sign_own(old_secret, time, body, a));
        webhook = join_values(a, webhook, " ", sign_standard(old_secret, id, time, body, a));
    }
    ret[0] = (struct df_call_header){DF_STR("X-DataFlow-Timestamp"), time};
    ret[1] = (struct df_call_header){DF_STR("X-DataFlow-Signature"), signature};
    ret[2] = (struct df_call_header){DF_STR("webhook-id"), id};
    ret[3] = (struct df_call_header){DF_STR("webhook-timestamp"), time};
    ret[4] = (struct df_call_header){DF_STR("webhook-signature"), webhook};
}

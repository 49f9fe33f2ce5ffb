/*
 * A password is compared by keyed hash. The secret's hash is computed when the secret is created,
 * so that the time of a comparison depends only on the given text. The key is drawn at start;
 * without it, an attacker cannot search for texts whose hashes begin alike.
 */
#include "base/secret.h"

#include "base/mem.h"

#include <pthread.h>
#include <sodium.h>
#include <stdlib.h>

#define HASH_BYTES 32

struct df_secret {
    size_t len;
    unsigned char hash[HASH_BYTES];
    char bytes[];
};

static unsigned char hash_key[crypto_generichash_KEYBYTES];

static void init_once(void)
{
    if (sodium_init() < 0)
        abort();
    randombytes_buf(hash_key, sizeof(hash_key));
}

static void init_secrets(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, init_once);
}

static void hash_of(struct df_str s, unsigned char hash[HASH_BYTES])
{
    if (crypto_generichash(hash, HASH_BYTES, (const unsigned char *)s.ptr, s.len, hash_key,
                           sizeof(hash_key)) != 0)
        abort();
}

struct df_secret *df_secret_new(struct df_str s)
{
    if (!s.ptr)
        return NULL;
    init_secrets();

    /* sodium_malloc aligns the end of the memory; with a multiple of 16 the beginning is aligned
     * too. */
    size_t size;
    if (__builtin_add_overflow(s.len, sizeof(struct df_secret) + 16, &size))
        df_oom();
    struct df_secret *secret = sodium_malloc(size & ~(size_t)15);
    if (!secret)
        df_oom();
    secret->len = s.len;
    memcpy(secret->bytes, s.ptr, s.len);
    secret->bytes[s.len] = '\0';
    hash_of(s, secret->hash);
    (void)sodium_mprotect_readonly(secret);
    return secret;
}

struct df_secret *df_secret_key_new(struct df_str text)
{
    unsigned char key[DF_SECRET_KEY_BYTES];
    size_t len = 0;
    struct df_secret *secret = NULL;
    bool hex = text.len == 2 * sizeof(key);
    int variant =
        text.len == 44 ? sodium_base64_VARIANT_ORIGINAL : sodium_base64_VARIANT_ORIGINAL_NO_PADDING;

    if (!text.ptr)
        return NULL;
    init_secrets();
    int rc =
        hex ? sodium_hex2bin(key, sizeof(key), text.ptr, text.len, NULL, &len, NULL)
            : sodium_base642bin(key, sizeof(key), text.ptr, text.len, NULL, &len, NULL, variant);
    if (rc == 0 && len == sizeof(key))
        secret = df_secret_new(df_str_n((const char *)key, sizeof(key)));
    df_wipe(key, sizeof(key));
    return secret;
}

void df_secret_free(struct df_secret *s)
{
    sodium_free(s);
}

struct df_str df_secret_str(const struct df_secret *s)
{
    return s ? df_str_n(s->bytes, s->len) : DF_STR_NULL;
}

bool df_secret_matches(const struct df_secret *s, struct df_str given)
{
    unsigned char hash[HASH_BYTES];

    if (!s || s->len == 0 || given.len == 0)
        return false;
    hash_of(given, hash);
    bool same = sodium_memcmp(hash, s->hash, HASH_BYTES) == 0;
    sodium_memzero(hash, sizeof(hash));
    return same;
}

bool df_bytes_equal(const void *a, const void *b, size_t len)
{
    return len == 0 || sodium_memcmp(a, b, len) == 0;
}

void df_wipe(void *ptr, size_t len)
{
    if (len > 0)
        sodium_memzero(ptr, len);
}

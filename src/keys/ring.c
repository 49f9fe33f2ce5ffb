#include "keys/keys.h"

#include "base/lock.h"
#include "base/mem.h"
#include "base/secret.h"

#include <assert.h>
#include <sodium.h>
#include <stdlib.h>

#define VERSION     2
#define FORMER      1 /* of webhook secrets, before there were data keys: nonce, text and tag */
#define ID_BYTES    4
#define NONCE_BYTES crypto_aead_xchacha20poly1305_ietf_NPUBBYTES
#define TAG_BYTES   crypto_aead_xchacha20poly1305_ietf_ABYTES
#define HEAD_BYTES  (1 + ID_BYTES + NONCE_BYTES)
#define FORMER_MAX  3
#define KDF_CONTEXT "dataflow" /* crypto_kdf_CONTEXTBYTES */

static_assert(HEAD_BYTES + TAG_BYTES == DF_SEALED_EXTRA, "the header's figure is libsodium's");
static_assert(crypto_aead_xchacha20poly1305_ietf_KEYBYTES == DF_KEY_BYTES, "likewise");
static_assert(crypto_kdf_KEYBYTES == DF_KEY_BYTES, "likewise");
static_assert(crypto_auth_hmacsha256_BYTES == DF_HASH_BYTES, "likewise");

struct ring_key {
    uint32_t id;
    struct df_secret *key;
    struct ring_key *next;
};

struct df_keys {
    const struct df_clock *clock;
    struct df_secret *index;
    struct df_secret *audit;
    struct df_mutex lock;
    struct ring_key *keys DF_GUARDED_BY(lock); /* never removed before the ring is freed */
    const struct ring_key *current DF_GUARDED_BY(lock);
    struct df_secret *former[FORMER_MAX]; /* set before other threads use the ring */
    void (*unknown)(void *arg);
    void *unknown_arg;
};

static struct df_secret *guard(const unsigned char key[DF_KEY_BYTES])
{
    return df_secret_new(df_str_n((const char *)key, DF_KEY_BYTES));
}

static const unsigned char *bytes_of(const struct df_secret *key)
{
    return (const unsigned char *)df_secret_str(key).ptr;
}

struct df_keys *df_keys_new(const struct df_clock *clock, const unsigned char index[DF_KEY_BYTES],
                            const unsigned char audit[DF_KEY_BYTES])
{
    struct df_keys *k = df_calloc(1, sizeof *k);

    k->clock = clock;
    k->index = guard(index);
    k->audit = guard(audit);
    df_mutex_init(&k->lock);
    return k;
}

void df_keys_free(struct df_keys *k)
{
    if (!k)
        return;
    for (struct ring_key *r = k->keys, *next; r; r = next) {
        next = r->next;
        df_secret_free(r->key);
        free(r);
    }
    for (size_t i = 0; i < FORMER_MAX; i++)
        df_secret_free(k->former[i]);
    df_secret_free(k->index);
    df_secret_free(k->audit);
    df_mutex_destroy(&k->lock);
    free(k);
}

static const struct ring_key *find_locked(const struct df_keys *k, uint32_t id) DF_REQUIRES(k->lock)
{
    for (const struct ring_key *r = k->keys; r; r = r->next)
        if (r->id == id)
            return r;
    return NULL;
}

static const struct ring_key *find_key(struct df_keys *k, uint32_t id)
{
    df_lock(&k->lock);
    const struct ring_key *r = find_locked(k, id);
    df_unlock(&k->lock);
    return r;
}

static const struct ring_key *current_key(struct df_keys *k)
{
    df_lock(&k->lock);
    const struct ring_key *r = k->current;
    df_unlock(&k->lock);
    return r;
}

void df_keys_add(struct df_keys *k, uint32_t id, const unsigned char key[DF_KEY_BYTES])
{
    assert(id != 0);
    df_lock(&k->lock);
    if (!find_locked(k, id)) {
        struct ring_key *r = df_malloc(sizeof *r);
        *r = (struct ring_key){.id = id, .key = guard(key), .next = k->keys};
        k->keys = r;
    }
    df_unlock(&k->lock);
}

bool df_keys_has(struct df_keys *k, uint32_t id)
{
    return find_key(k, id);
}

void df_keys_add_former(struct df_keys *k, struct df_str key)
{
    size_t i = 0;

    assert(key.len == DF_KEY_BYTES);
    while (k->former[i])
        i++;
    assert(i < FORMER_MAX);
    k->former[i] = df_secret_new(key);
}

void df_keys_on_unknown(struct df_keys *k, void (*unknown)(void *arg), void *arg)
{
    k->unknown = unknown;
    k->unknown_arg = arg;
}

void df_keys_use(struct df_keys *k, uint32_t id)
{
    df_lock(&k->lock);
    k->current = find_locked(k, id);
    assert(k->current);
    df_unlock(&k->lock);
}

uint32_t df_keys_current(const struct df_keys *k)
{
    return current_key((struct df_keys *)(uintptr_t)k)->id;
}

static void derive(const struct ring_key *r, enum df_key_purpose purpose,
                   unsigned char out[DF_KEY_BYTES])
{
    (void)crypto_kdf_derive_from_key(out, DF_KEY_BYTES, purpose, KDF_CONTEXT, bytes_of(r->key));
}

bool df_keys_derive(struct df_keys *k, uint32_t id, enum df_key_purpose purpose,
                    unsigned char out[DF_KEY_BYTES])
{
    const struct ring_key *r = find_key(k, id);

    if (r)
        derive(r, purpose, out);
    else if (k->unknown)
        k->unknown(k->unknown_arg);
    return r;
}

/* --- short values --- */

void df_keys_seal(struct df_keys *k, enum df_key_purpose purpose, struct df_str label,
                  struct df_str plain, struct df_buf *out)
{
    const struct ring_key *r = current_key(k);
    unsigned char key[DF_KEY_BYTES], head[HEAD_BYTES];
    unsigned long long len = 0;

    head[0] = VERSION;
    for (int i = 0; i < ID_BYTES; i++)
        head[1 + i] = (unsigned char)(r->id >> (24 - 8 * i));
    df_random(k->clock, head + 1 + ID_BYTES, NONCE_BYTES);
    df_buf_add(out, head, sizeof head);
    unsigned char *text = (unsigned char *)df_buf_grow(out, plain.len + TAG_BYTES);
    if (!text)
        return;
    derive(r, purpose, key);
    (void)crypto_aead_xchacha20poly1305_ietf_encrypt(text, &len, (const unsigned char *)plain.ptr,
                                                     plain.len, (const unsigned char *)label.ptr,
                                                     label.len, NULL, head + 1 + ID_BYTES, key);
    df_buf_grown(out, (size_t)len);
    df_wipe(key, sizeof key);
}

uint32_t df_sealed_key(struct df_str sealed)
{
    const unsigned char *b = (const unsigned char *)sealed.ptr;

    if (sealed.len < 1 + ID_BYTES || b[0] != VERSION)
        return 0;
    return (uint32_t)b[1] << 24 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 8 | b[4];
}

/* Opens what an older release encrypted with the master key itself. */
static enum df_code open_former(struct df_keys *k, struct df_str label, struct df_str sealed,
                                struct df_arena *a, struct df_str *ret, struct df_err *err)
{
    const unsigned char *b = (const unsigned char *)sealed.ptr;
    unsigned char *plain = df_arena_alloc(a, sealed.len);
    unsigned long long len = 0;

    for (size_t i = 0; i < FORMER_MAX && k->former[i]; i++) {
        if (crypto_aead_xchacha20poly1305_ietf_decrypt(
                plain, &len, NULL, b + 1 + NONCE_BYTES, sealed.len - 1 - NONCE_BYTES,
                (const unsigned char *)label.ptr, label.len, b + 1, bytes_of(k->former[i])) == 0) {
            *ret = df_str_n((const char *)plain, (size_t)len);
            return DF_OK;
        }
    }
    return df_err_set(err, DF_E_CONFIG,
                      "a secret was encrypted with another security.master_key, or changed");
}

static bool is_former(enum df_key_purpose purpose, struct df_str sealed)
{
    return purpose == DF_KEY_SECRET && sealed.len >= 1 + NONCE_BYTES + TAG_BYTES &&
           sealed.ptr[0] == FORMER;
}

enum df_code df_keys_open(struct df_keys *k, enum df_key_purpose purpose, struct df_str label,
                          struct df_str sealed, struct df_arena *a, struct df_str *ret,
                          struct df_err *err)
{
    const unsigned char *b = (const unsigned char *)sealed.ptr;
    unsigned char key[DF_KEY_BYTES];
    unsigned long long len = 0;
    uint32_t id = df_sealed_key(sealed);

    if (is_former(purpose, sealed))
        return open_former(k, label, sealed, a, ret, err);
    if (id == 0 || sealed.len < HEAD_BYTES + TAG_BYTES)
        return df_err_set(err, DF_E_INTERNAL, "an encrypted value is damaged");
    if (!df_keys_derive(k, id, purpose, key))
        return df_err_set(err, DF_E_CONFIG,
                          "an encrypted value is under data key %u, which is not "
                          "known here",
                          (unsigned)id);
    unsigned char *plain = df_arena_alloc(a, sealed.len - HEAD_BYTES);
    int bad = crypto_aead_xchacha20poly1305_ietf_decrypt(
        plain, &len, NULL, b + HEAD_BYTES, sealed.len - HEAD_BYTES,
        (const unsigned char *)label.ptr, label.len, b + 1 + ID_BYTES, key);
    df_wipe(key, sizeof key);
    if (bad)
        return df_err_set(err, DF_E_INTERNAL, "an encrypted value was changed, or moved");
    *ret = df_str_n((const char *)plain, (size_t)len);
    return DF_OK;
}

/* --- keyed hashes --- */

static void hash_with(const unsigned char key[DF_KEY_BYTES], struct df_str domain,
                      struct df_str value, unsigned char out[DF_HASH_BYTES])
{
    crypto_auth_hmacsha256_state s;

    (void)crypto_auth_hmacsha256_init(&s, key, DF_KEY_BYTES);
    (void)crypto_auth_hmacsha256_update(&s, (const unsigned char *)domain.ptr, domain.len);
    (void)crypto_auth_hmacsha256_update(&s, (const unsigned char *)"", 1);
    (void)crypto_auth_hmacsha256_update(&s, (const unsigned char *)value.ptr, value.len);
    (void)crypto_auth_hmacsha256_final(&s, out);
}

void df_keys_hash(const struct df_keys *k, struct df_str domain, struct df_str value,
                  unsigned char out[DF_HASH_BYTES])
{
    hash_with(bytes_of(k->index), domain, value, out);
}

void df_keys_audit_mac(const struct df_keys *k, struct df_str data,
                       unsigned char out[DF_HASH_BYTES])
{
    hash_with(bytes_of(k->audit), DF_STR("audit"), data, out);
}

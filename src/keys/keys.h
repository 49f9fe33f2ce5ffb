/*
 * The keys of what is stored. Secrets, kept payloads and files are encrypted under data keys, which
 * the table DataKeys holds encrypted under the master key. Every ciphertext names its data key, so
 * that older keys open what they closed; new ciphertexts are made with the current one.
 *
 * Two keys are never replaced: that of the index, under which people are looked up by hashes of
 * their numbers, and that of the audit log's chain.
 *
 * A ring holds all of them in guarded memory. Any thread may use it; a key may be added, and become
 * the current one, while others use it.
 */
#ifndef DF_KEYS_KEYS_H
#define DF_KEYS_KEYS_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"

struct df_keys;

#define DF_KEY_BYTES  32
#define DF_HASH_BYTES 32

/* What a ciphertext is for. One made for one purpose does not open for another. */
enum df_key_purpose {
    DF_KEY_SECRET = 1,  /* secrets of webhooks */
    DF_KEY_PAYLOAD = 2, /* records that are kept for reports and retries */
    DF_KEY_FILE = 3,    /* uploads */
};

/* The ring has no data key yet. The keys are copied. */
struct df_keys *df_keys_new(const struct df_clock *clock, const unsigned char index[DF_KEY_BYTES],
                            const unsigned char audit[DF_KEY_BYTES]);
void df_keys_free(struct df_keys *k);

/* id is not 0. A key that is there already is left as it is. */
void df_keys_add(struct df_keys *k, uint32_t id, const unsigned char key[DF_KEY_BYTES]);
bool df_keys_has(struct df_keys *k, uint32_t id);
/* The key that new ciphertexts are made with; it was added. */
void df_keys_use(struct df_keys *k, uint32_t id);
uint32_t df_keys_current(const struct df_keys *k);
/* A master key under which older releases encrypted webhook secrets themselves: it opens these. */
void df_keys_add_former(struct df_keys *k, struct df_str key);

/* Called, on any thread, when a ciphertext names a key that the ring does not have: another process
 * may have made it. Set before other threads use the ring. */
void df_keys_on_unknown(struct df_keys *k, void (*unknown)(void *arg), void *arg);

/* --- short values --- */

#define DF_SEALED_EXTRA (1 + 4 + 24 + 16) /* version, key id, nonce, tag */

/* Appends the ciphertext. `label` names the place where it will stand (a row's id): at another
 * place it does not open. */
void df_keys_seal(struct df_keys *k, enum df_key_purpose purpose, struct df_str label,
                  struct df_str plain, struct df_buf *out);
/* The data key's id, from the first five bytes; 0: these are no ciphertext of this form,
 * or a webhook secret that an older release encrypted. */
uint32_t df_sealed_key(struct df_str sealed);
/*
 * Memory: the arena; wipe secrets after use. DF_E_CONFIG: the key is not in the ring.
 * DF_E_INTERNAL: the bytes were changed, or made for another place.
 */
enum df_code df_keys_open(struct df_keys *k, enum df_key_purpose purpose, struct df_str label,
                          struct df_str sealed, struct df_arena *a, struct df_str *ret,
                          struct df_err *err) DF_MUST_CHECK;

/* The key for long values, which their own format encrypts (files/crypt.h). False: not in the
 * ring. df_wipe() it after use. */
bool df_keys_derive(struct df_keys *k, uint32_t id, enum df_key_purpose purpose,
                    unsigned char out[DF_KEY_BYTES]);

/* --- keyed hashes (HMAC-SHA256) --- */

/* Under the index key. Hashes of different domains ("phone", "item", …) have nothing in common. */
void df_keys_hash(const struct df_keys *k, struct df_str domain, struct df_str value,
                  unsigned char out[DF_HASH_BYTES]);
/* Under the audit key. */
void df_keys_audit_mac(const struct df_keys *k, struct df_str data,
                       unsigned char out[DF_HASH_BYTES]);

#endif

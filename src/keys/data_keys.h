/*
 * The table DataKeys. The first process that opens it draws a data key, the index key and the audit
 * key; the primary key decides between several that do so at once. Later processes unwrap what is
 * there. A data key that somebody adds (rotation) is used a while after it was written, so that all
 * processes know it by then; they look every few seconds.
 */
#ifndef DF_KEYS_DATA_KEYS_H
#define DF_KEYS_DATA_KEYS_H

#include "keys/master.h"
#include "store/store.h"

#define DF_KEY_PURPOSE_MAX 20
#define DF_KEY_LABEL_MAX   (DF_KEY_PURPOSE_MAX + 16)
#define DF_KEY_FOLLOW_MS   5000 /* processes look for new keys this often */
#define DF_KEY_SELDOM_MS                                                                           \
    25000                          /* those that take no requests; less than what a rotation       \
                                      allows them (rekey.c) */
#define DF_KEY_ACTIVATION_MS 15000 /* from the writing of a new key to its use */

/* A row. Text and bytes are in the arena that it was read with. */
struct df_data_key {
    uint32_t id;
    struct df_str purpose; /* "data", "index", "audit" */
    struct df_str wrapped;
    struct df_str master_id;
    int64_t created_ms, active_ms;
    int64_t retired_ms; /* -1: it is not */
    struct df_data_key *next;
};

/* Wraps a key and looks whether it opens again, since it may replace the only copy. */
enum df_code df_wrap_surely(struct df_master *m, struct df_str label,
                            const unsigned char key[DF_KEY_BYTES], struct df_buf *out,
                            struct df_err *err) DF_MUST_CHECK;
/* The row that a wrapped key belongs to: at another place it does not open. */
struct df_str df_data_key_label(struct df_str purpose, uint32_t id, char text[DF_KEY_LABEL_MAX]);

/* By id. */
enum df_code df_data_keys_read(struct df_db *db, struct df_arena *a, struct df_data_key **ret,
                               struct df_err *err) DF_MUST_CHECK;
/* The data key that new ciphertexts are made with at this time; NULL: there is none. */
const struct df_data_key *df_data_keys_current(const struct df_data_key *keys, int64_t now_ms);

/* The ring and the master that opened it. */
struct df_data_keys {
    struct df_keys *ring;
    struct df_master *master;
    const struct df_clock *clock;
};

/*
 * Opens the master and the keys, draws keys for an empty table, and wraps those anew that are under
 * security.master_old_key or data_dir/master.key while another master is configured. DF_E_CONFIG:
 * the keys are under another master; the message says what to do. With look_only, DF_E_NOT_FOUND:
 * there is no key yet.
 */
enum df_code df_data_keys_open(struct df_db *db, const struct df_master_options *opt,
                               struct df_data_keys *ret, struct df_err *err) DF_MUST_CHECK;
void df_data_keys_release(struct df_data_keys *d); /* zeroed is fine */

/* Adds what other processes made, and changes to the key whose time has come. Waits for the store,
 * and for the master if there is a new key. */
enum df_code df_data_keys_follow(struct df_data_keys *d, struct df_store *store,
                                 struct df_err *err) DF_MUST_CHECK;

/* --- rewrap.c --- */

/* Wraps keys anew that are under another version of the master than the newest data key. Part of
 * df_data_keys_follow. */
enum df_code df_data_keys_rewrap(struct df_data_keys *d, struct df_store *store,
                                 const struct df_data_key *keys, struct df_err *err) DF_MUST_CHECK;

/* --- rotation --- */

struct df_new_key {
    unsigned char wrapped[DF_WRAPPED_MAX];
    size_t wrapped_len;
    uint32_t id;
};

/* Draws the data key with the next id and wraps it; nothing is stored. Waits for the store and the
 * master. */
enum df_code df_data_keys_draw(struct df_data_keys *d, struct df_store *store,
                               struct df_new_key *ret, struct df_err *err) DF_MUST_CHECK;
/* The same on a connection, outside a transaction. */
enum df_code df_data_keys_draw_on(struct df_data_keys *d, struct df_db *db, struct df_new_key *ret,
                                  struct df_err *err) DF_MUST_CHECK;
/* In the caller's transaction. DF_E_CONFLICT: somebody else made a key meanwhile. */
enum df_code df_data_keys_add(struct df_data_keys *d, struct df_db *db, const struct df_new_key *n,
                              int64_t now_ms, struct df_err *err) DF_MUST_CHECK;
/* Nothing is left under the keys before this one. Waits for the store. ret_retired: how many. */
enum df_code df_data_keys_retire(struct df_store *store, uint32_t current, int64_t now_ms,
                                 int64_t *ret_retired, struct df_err *err) DF_MUST_CHECK;

#endif

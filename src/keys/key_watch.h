/*
 * The threads of a process that follow DataKeys (data_keys.h). One looks every few seconds, and at
 * once when somebody meets a key that the ring does not have. Another draws new keys for requests,
 * which may take a while: the master may be in a vault.
 */
#ifndef DF_KEYS_KEY_WATCH_H
#define DF_KEYS_KEY_WATCH_H

#include "keys/data_keys.h"

struct df_key_watch;

/* Both outlive it. */
struct df_key_watch *df_key_watch_new(struct df_data_keys *keys, struct df_store *store,
                                      int64_t follow_ms);
/* Draws in hand are finished; later ones are refused. Before the store ends. NULL is fine. */
void df_key_watch_stop(struct df_key_watch *k);
void df_key_watch_free(struct df_key_watch *k); /* NULL is fine */

/* A key that somebody wants. */
struct df_draw {
    struct df_new_key key;
    /* On a thread of its own. err is valid during the call. */
    void (*done)(struct df_draw *d, enum df_code code, const struct df_err *err);
};

/* False: too many are waiting, or it stops; `done` is not called. Any thread. */
bool df_key_watch_draw(struct df_key_watch *k, struct df_draw *d);
/* Looks soon: a key was stored. Any thread. */
void df_key_watch_wake(struct df_key_watch *k);
/* In the caller's transaction, after the draw. */
enum df_code df_key_watch_add(struct df_key_watch *k, struct df_db *db, const struct df_new_key *n,
                              int64_t now_ms, struct df_err *err) DF_MUST_CHECK;

#endif

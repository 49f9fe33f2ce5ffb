/*
 * The keys that have been seen, by their hashes. Sharded, so that threads rarely contend and a
 * growing table delays only a fraction of them. Thread-safe.
 */
#ifndef DF_SANDBOX_KEYSET_H
#define DF_SANDBOX_KEYSET_H

#include "base/hash_set.h"

struct df_sb_keyset;

enum df_sb_key { DF_SB_KEY_NEW, DF_SB_KEY_SEEN, DF_SB_KEY_DROPPED /* new, but the set is full */ };

struct df_sb_keyset *df_sb_keyset_new(size_t max_keys);
void df_sb_keyset_free(struct df_sb_keyset *k);
void df_sb_keyset_clear(struct df_sb_keyset *k);
enum df_sb_key df_sb_keyset_add(struct df_sb_keyset *k, struct df_hash128 hash);

#endif

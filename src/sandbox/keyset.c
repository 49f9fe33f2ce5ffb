#include "sandbox/keyset.h"

#include "base/lock.h"
#include "base/mem.h"

#include <stdlib.h>

#define SHARDS 64

struct shard {
    struct df_mutex lock;
    struct df_hash_set keys DF_GUARDED_BY(lock);
};

struct df_sb_keyset {
    size_t max_of_shard;
    struct shard shards[SHARDS];
};

struct df_sb_keyset *df_sb_keyset_new(size_t max_keys)
{
    struct df_sb_keyset *k = df_calloc(1, sizeof(*k));

    k->max_of_shard = max_keys / SHARDS + 1;
    for (size_t i = 0; i < SHARDS; i++)
        df_mutex_init(&k->shards[i].lock);
    return k;
}

void df_sb_keyset_free(struct df_sb_keyset *k)
{
    if (!k)
        return;
    df_sb_keyset_clear(k);
    for (size_t i = 0; i < SHARDS; i++)
        df_mutex_destroy(&k->shards[i].lock);
    free(k);
}

void df_sb_keyset_clear(struct df_sb_keyset *k)
{
    for (size_t i = 0; i < SHARDS; i++) {
        df_lock(&k->shards[i].lock);
        df_hash_set_release(&k->shards[i].keys);
        df_unlock(&k->shards[i].lock);
    }
}

enum df_sb_key df_sb_keyset_add(struct df_sb_keyset *k, struct df_hash128 hash)
{
    if (df_hash_is_none(&hash))
        hash.low = 1;
    struct shard *s = &k->shards[hash.low % SHARDS];
    enum df_sb_key result = DF_SB_KEY_SEEN;

    df_lock(&s->lock);
    if (df_hash_set_is_full(&s->keys))
        df_hash_set_grow(&s->keys);
    struct df_hash128 *slot = df_hash_set_find(&s->keys, &hash);
    if (df_hash_is_none(slot)) {
        result = s->keys.count < k->max_of_shard ? DF_SB_KEY_NEW : DF_SB_KEY_DROPPED;
        if (result == DF_SB_KEY_NEW) {
            *slot = hash;
            s->keys.count++;
        }
    }
    df_unlock(&s->lock);
    return result;
}

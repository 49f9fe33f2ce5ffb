#include "sandbox/keyset.h"

#include "base/lock.h"
#include "base/mem.h"

#include <stdlib.h>

#define SHARDS    64
#define FIRST_CAP 64

struct shard {
    struct df_mutex lock;
    struct df_sb_hash *slots; /* {0, 0} is free */
    size_t cap;               /* a power of two, or 0 */
    size_t count;
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
        struct shard *s = &k->shards[i];
        df_lock(&s->lock);
        free(s->slots);
        s->slots = NULL;
        s->cap = 0;
        s->count = 0;
        df_unlock(&s->lock);
    }
}

/* The slot that holds the hash, or the free one where it belongs. */
static struct df_sb_hash *find(struct df_sb_hash *slots, size_t cap, struct df_sb_hash hash)
{
    size_t i = hash.b & (cap - 1);
    while ((slots[i].a | slots[i].b) && (slots[i].a != hash.a || slots[i].b != hash.b))
        i = (i + 1) & (cap - 1);
    return &slots[i];
}

static void grow(struct shard *s)
{
    size_t cap = s->cap ? s->cap * 2 : FIRST_CAP;
    struct df_sb_hash *slots = df_calloc(cap, sizeof(*slots));

    for (size_t i = 0; i < s->cap; i++)
        if (s->slots[i].a | s->slots[i].b)
            *find(slots, cap, s->slots[i]) = s->slots[i];
    free(s->slots);
    s->slots = slots;
    s->cap = cap;
}

enum df_sb_key df_sb_keyset_add(struct df_sb_keyset *k, struct df_sb_hash hash)
{
    if ((hash.a | hash.b) == 0)
        hash.a = 1;
    struct shard *s = &k->shards[hash.a % SHARDS];
    enum df_sb_key result = DF_SB_KEY_SEEN;

    df_lock(&s->lock);
    if (s->count >= s->cap / 4 * 3)
        grow(s);
    struct df_sb_hash *slot = find(s->slots, s->cap, hash);
    if (!(slot->a | slot->b)) {
        result = s->count < k->max_of_shard ? DF_SB_KEY_NEW : DF_SB_KEY_DROPPED;
        if (result == DF_SB_KEY_NEW) {
            *slot = hash;
            s->count++;
        }
    }
    df_unlock(&s->lock);
    return result;
}

#include "resilience/throttle.h"

#include "base/lock.h"
#include "base/mem.h"

#include <sodium.h>
#include <stdlib.h>

#define SLOTS 4096 /* power of two */
#define PROBE 8    /* neighbouring slots that are checked */

struct bucket {
    uint64_t key; /* keyed hash, so that a peer cannot aim for collisions. 0: free */
    double tokens;
    int64_t at_ns;
};

struct df_throttle {
    struct df_mutex lock;
    const struct df_clock *clock;
    double capacity;
    double per_ns;
    unsigned char hash_key[crypto_shorthash_KEYBYTES];
    struct bucket slots[SLOTS] DF_GUARDED_BY(lock);
};

struct df_throttle *df_throttle_new(int64_t capacity, int64_t per_minute,
                                    const struct df_clock *clock)
{
    struct df_throttle *t = df_calloc(1, sizeof *t);
    df_mutex_init(&t->lock);
    t->clock = clock;
    t->capacity = (double)capacity;
    t->per_ns = (double)per_minute / 60e9;
    df_random(clock, t->hash_key, sizeof t->hash_key);
    return t;
}

void df_throttle_free(struct df_throttle *t)
{
    if (!t)
        return;
    df_mutex_destroy(&t->lock);
    free(t);
}

static uint64_t hash_key_of(const struct df_throttle *t, struct df_str key)
{
    uint64_t h;
    crypto_shorthash((unsigned char *)&h, (const unsigned char *)key.ptr, key.len, t->hash_key);
    return h ? h : 1;
}

static void refill_bucket(const struct df_throttle *t, struct bucket *b, int64_t now)
{
    b->tokens += (double)(now - b->at_ns) * t->per_ns;
    if (b->tokens > t->capacity)
        b->tokens = t->capacity;
    b->at_ns = now;
}

/* The key's bucket; with `make`, a new one in a free slot or in place of the fullest neighbour. */
static struct bucket *find_bucket(struct df_throttle *t, uint64_t key, int64_t now, bool make)
    DF_REQUIRES(t->lock)
{
    struct bucket *fullest = NULL;
    for (size_t i = 0; i < PROBE; i++) {
        struct bucket *b = &t->slots[(key + i) & (SLOTS - 1)];
        if (b->key == key) {
            refill_bucket(t, b, now);
            return b;
        }
        if (!b->key)
            b->tokens = t->capacity;
        else
            refill_bucket(t, b, now);
        if (!fullest || b->tokens > fullest->tokens)
            fullest = b;
    }
    if (!make)
        return NULL;
    *fullest = (struct bucket){.key = key, .tokens = t->capacity, .at_ns = now};
    return fullest;
}

bool df_throttle_blocked(struct df_throttle *t, struct df_str key, int64_t *ret_wait_ms)
{
    uint64_t h = hash_key_of(t, key);
    int64_t now = df_mono_ns(t->clock);
    df_lock(&t->lock);
    struct bucket *b = find_bucket(t, h, now, false);
    bool blocked = b && b->tokens < 1;
    if (blocked)
        *ret_wait_ms = (int64_t)((1 - b->tokens) / t->per_ns / 1e6) + 1;
    df_unlock(&t->lock);
    return blocked;
}

void df_throttle_charge(struct df_throttle *t, struct df_str key)
{
    uint64_t h = hash_key_of(t, key);
    int64_t now = df_mono_ns(t->clock);
    df_lock(&t->lock);
    struct bucket *b = find_bucket(t, h, now, true);
    b->tokens = b->tokens - 1 > -t->capacity ? b->tokens - 1 : -t->capacity;
    df_unlock(&t->lock);
}

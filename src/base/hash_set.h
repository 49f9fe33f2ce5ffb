/*
 * A set of 128-bit hashes, to know which of millions of keys were seen. base/map.h would take some
 * 60 bytes a key; this set takes 16, or 21 with free slots. The slots are nearly in the order of
 * the hashes, so that writing the set to disk is sequential. The caller computes the hashes, which
 * are never zero. Nothing is removed. One thread at a time.
 */
#ifndef DF_BASE_HASH_SET_H
#define DF_BASE_HASH_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct df_hash128 {
    uint64_t high, low; /* both zero: none */
};

/* Zeroed: empty, and without a table. */
struct df_hash_set {
    struct df_hash128 *slots;
    unsigned bits; /* of the number of slots */
    uint64_t count;
};

static inline bool df_hash_is_none(const struct df_hash128 *h)
{
    return (h->high | h->low) == 0;
}

static inline bool df_hash_same(const struct df_hash128 *a, const struct df_hash128 *b)
{
    return a->high == b->high && a->low == b->low;
}

/* Whether the set must grow before the next hash: three quarters are used, or there is no table. */
bool df_hash_set_is_full(const struct df_hash_set *s);

/* Makes the first table, or one twice as large. */
void df_hash_set_grow(struct df_hash_set *s);

/* The slot of the hash, or the empty slot where it belongs: a caller that writes it there also
 * increments `count`. The set must have a table. */
struct df_hash128 *df_hash_set_find(const struct df_hash_set *s, const struct df_hash128 *hash);

void df_hash_set_release(struct df_hash_set *s);

#endif

/*
 * A set of 128-bit hashes: which of millions of keys were seen. Not base/map.h, which takes some 60
 * bytes a key: here it is 16, at most 21 of the table, and the slots are in the order of the
 * hashes, nearly, so that what goes to disk goes there from one end to the other. Hashes come from
 * the caller and are not zero. Nothing is removed. One thread at a time.
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

/* Whether it must grow before the next one is added: three quarters are used, or there is none. */
bool df_hash_set_is_full(const struct df_hash_set *s);

/* Makes the first table, or one twice as large. */
void df_hash_set_grow(struct df_hash_set *s);

/* Where it is, or, if that slot is none, belongs: who writes it there counts it too. There is a
 * table. */
struct df_hash128 *df_hash_set_find(const struct df_hash_set *s, const struct df_hash128 *hash);

void df_hash_set_release(struct df_hash_set *s);

#endif

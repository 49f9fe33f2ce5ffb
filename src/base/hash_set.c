#include "base/hash_set.h"

#include "base/mem.h"

#include <stdlib.h>

#define BITS_FIRST 6

bool df_hash_set_is_full(const struct df_hash_set *s)
{
    return !s->slots || s->count >= ((uint64_t)3 << s->bits) / 4;
}

struct df_hash128 *df_hash_set_find(const struct df_hash_set *s, const struct df_hash128 *hash)
{
    uint64_t mask = ((uint64_t)1 << s->bits) - 1;
    uint64_t i = hash->high >> (64 - s->bits);

    while (!df_hash_is_none(&s->slots[i]) && !df_hash_same(&s->slots[i], hash))
        i = (i + 1) & mask;
    return &s->slots[i];
}

void df_hash_set_grow(struct df_hash_set *s)
{
    struct df_hash_set next = {.bits = s->slots ? s->bits + 1 : BITS_FIRST, .count = s->count};

    next.slots = df_calloc((size_t)1 << next.bits, sizeof(*next.slots));
    for (size_t i = 0; s->slots && i < (size_t)1 << s->bits; i++)
        if (!df_hash_is_none(&s->slots[i]))
            *df_hash_set_find(&next, &s->slots[i]) = s->slots[i];
    free(s->slots);
    *s = next;
}

void df_hash_set_release(struct df_hash_set *s)
{
    free(s->slots);
    *s = (struct df_hash_set){.count = 0};
}

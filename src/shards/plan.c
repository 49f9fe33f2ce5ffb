#include "shards/plan.h"

#include "shards/shards.h"

static unsigned count_of(uint32_t set)
{
    return (unsigned)__builtin_popcount(set);
}

/* Up to `count` shards of a set, those with the lowest numbers. */
static uint32_t pick(uint32_t from, unsigned count)
{
    uint32_t picked = 0;
    for (; from && count > 0; count--) {
        picked |= from & -from;
        from &= from - 1;
    }
    return picked;
}

/* Adds shards of `from` until the set has `count`. */
static void fill_up(uint32_t *set, uint32_t from, unsigned count)
{
    if (count_of(*set) < count)
        *set |= pick(from & ~*set, count - count_of(*set));
}

unsigned shard_share(unsigned owners, unsigned rank)
{
    if (rank >= owners)
        return 0;
    return DF_SHARDS / owners + (rank < DF_SHARDS % owners);
}

struct shard_plan shard_plan_make(const struct shard_look *look)
{
    unsigned share = shard_share(look->owners, look->rank);
    uint32_t have = look->mine | look->stray;
    struct shard_plan plan = {0};

    fill_up(&have, look->lost, share);
    fill_up(&have, look->free, share);
    plan.take = have & ~look->mine;
    unsigned surplus = count_of(have) > share ? count_of(have) - share : 0;
    fill_up(&plan.leaving, look->mine & look->leaving, surplus);
    fill_up(&plan.leaving, look->mine & ~look->busy, surplus);
    fill_up(&plan.leaving, look->mine, surplus);
    return plan;
}

/* What a process does with the shards of one channel: pure decisions on sets of shards (bit n is
 * shard n). Private to the room. */
#ifndef DF_SHARDS_PLAN_H
#define DF_SHARDS_PLAN_H

#include <stdbool.h>
#include <stdint.h>

struct shard_look {
    uint32_t mine;    /* owned by this process, as both it and the database say */
    uint32_t stray;   /* this process's by the database only: it lost them, or never knew */
    uint32_t lost;    /* their owner is lost */
    uint32_t free;    /* of nobody */
    uint32_t busy;    /* rows are in flight */
    uint32_t leaving; /* to be handed over, as decided before */
    unsigned owners;  /* processes that serve the channel */
    unsigned rank;    /* of this one among them, from 0; owners or more: it does not serve it */
};

struct shard_plan {
    uint32_t take;
    uint32_t leaving; /* among `mine` */
};

/* How many shards are the share of each: they differ by one at most, and the first have more. */
unsigned shard_share(unsigned owners, unsigned rank);

/*
 * Takes what is lost or free up to the share, and every stray one: nobody else may take those while
 * the owner that they name is alive. Hands over what is more than the share, first what is being
 * handed over already, then what has no rows in flight.
 */
struct shard_plan shard_plan_make(const struct shard_look *look);

#endif

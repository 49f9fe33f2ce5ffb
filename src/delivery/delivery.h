/*
 * The delivery engine: one for all channels. A thread of its own decides; the store claims and
 * settles, the HTTP client sends.
 *
 * A claim finds rows of the shards that the process owns (shards/shards.h) and writes nothing; a
 * settlement writes what came of many rows in one commit. Each channel has at most one of each
 * under way. While a settlement runs, answers gather for the next.
 *
 * New work wakes the engine at once (df_delivery_wake, from any thread); a look every poll_ms is
 * the backstop, and finds rows of other processes where the database cannot notify.
 *
 * Each target and each host has a breaker; what a target that is away would get waits for it. Each
 * destination (scheme, host, port) and each tenant has a share of the slots and of the memory, so
 * that one that hangs keeps nobody else waiting.
 */
#ifndef DF_DELIVERY_DELIVERY_H
#define DF_DELIVERY_DELIVERY_H

#include "delivery/channel.h"
#include "delivery/settings.h"
#include "shards/shards.h"
#include "store/store.h"

struct df_delivery;

struct df_delivery_options {
    struct df_store *store;
    struct df_outbound *outbound;
    struct df_shards *shards; /* NULL: the process knows the channels, and delivers nothing */
    const struct df_clock *clock;
    struct df_delivery_settings settings;
    int64_t poll_ms;       /* 0: 1000 */
    int64_t max_row_bytes; /* larger rows are not sent; 0: 16 MiB */
    /* What is kept of a peer's answer; any thread. NULL: df_mask_note. */
    struct df_str (*mask)(const void *arg, struct df_str answer, size_t max_units,
                          struct df_arena *a);
    const void *mask_arg;
};

struct df_delivery *df_delivery_new(const struct df_delivery_options *opt);
/* Before start. The channel lives as long as the engine. */
void df_delivery_add(struct df_delivery *d, const struct df_channel *c);
void df_delivery_start(struct df_delivery *d);

/* There is new work in this channel. Cheap; any thread. `since`: rows were committed that are due
 * from due_ms (wall clock) on; without it, from half a second ago on. */
void df_delivery_wake(struct df_delivery *d, const struct df_channel *c);
void df_delivery_wake_since(struct df_delivery *d, const struct df_channel *c, int64_t due_ms);

/*
 * The end, in three steps; NULL is fine in each. stop claims nothing more and waits up to drain_ms
 * for the calls on their way. Then the caller stops the client, which cuts the rest off. end joins
 * the engine's thread and settles what came back; rows that could not be settled are claimed again
 * when their lease is over. Then the caller closes the store, whose last jobs may still wake the
 * engine. free comes last.
 */
void df_delivery_stop(struct df_delivery *d, int64_t drain_ms);
void df_delivery_end(struct df_delivery *d);
void df_delivery_free(struct df_delivery *d);

size_t df_delivery_channels(const struct df_delivery *d);
const struct df_channel *df_delivery_channel(const struct df_delivery *d, size_t i);
/* NULL: there is none of that name. */
const struct df_channel *df_delivery_find(const struct df_delivery *d, struct df_str name);

/* When the target of a channel is probed next (wall clock), with rows that wait for it. -1: the
 * target is not away, or is paused, or this process does not send to it. Any thread. */
int64_t df_delivery_probe_ms(struct df_delivery *d, struct df_str channel, struct df_str target);
/* When a row is tried next, for clients, to whom no time means never again: the next probe of the
 * target that it waits for (held_for; absent: none), or, where this process does not know that, its
 * due time, by which it is tried at the latest. The engine may be NULL. */
int64_t df_delivery_next_ms(struct df_delivery *d, const char *channel, struct df_str held_for,
                            int64_t due_ms);

#endif

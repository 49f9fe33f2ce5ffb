/*
 * Who does which work. The rows of a channel belong to 16 shards by their ids; a process owns
 * shards for as long as it renews its lease, and takes, sends and settles their rows alone. So
 * taking work writes nothing: rows in flight live in the owner's memory.
 *
 * WorkOwners has a row for each process, with its lease, a time of the database's clock. WorkShards
 * has the owner of each shard and its epoch, which grows with each change of the owner.
 *
 * - The lease. A thread renews it every second. The process counts from before the renewal was
 *   sent, on CLOCK_BOOTTIME, which goes on while the machine sleeps; calls end a quarter of the
 *   lease before its end. A renewal that comes late revives the lease, unless another process took
 *   the shards meanwhile.
 * - Taking. Who takes the shards of a lost owner first deletes the owner's row, under the condition
 *   that its lease is over or that its process is known to be gone (base/instance.h), then changes
 *   owner and epoch. Shards that nobody owns are taken up to a fair share.
 * - Settling. A settlement locks its shards' rows in its transaction and compares the epochs
 *   (df_shards_lock). So it is either committed before the shard changes hands, or finds another
 *   epoch and settles nothing.
 * - Handing over. When a process joins, those that own more than a fair share stop taking rows of
 *   some shards, wait until none of their rows is in flight, and release them.
 *
 * README.md has the argument. Threads: all functions from any thread, except as noted.
 */
#ifndef DF_SHARDS_SHARDS_H
#define DF_SHARDS_SHARDS_H

#include "base/clock.h"
#include "store/store.h"

#define DF_SHARDS     16
#define DF_SHARDS_ALL UINT32_C(0xffff)

struct df_shards;
struct df_shard_group; /* the shards of one channel */

struct df_shards_options {
    struct df_store *store;
    const struct df_clock *clock;
    const struct df_instance *instance; /* this process, and which others are gone; NULL: unknown */
    const char *version;                /* of the program */
    int64_t lease_ms;
};

struct df_shards *df_shards_new(const struct df_shards_options *opt);

/*
 * Before start. `changed` tells that the process may take rows of more shards, or of fewer. `taken`
 * are those that came with the change. Those among them whose last owner did not end as it should
 * are told by a call of their own before, as `unclean`, when none of their rows can be taken yet:
 * what that owner left as Sending is to be reset, and one of its rows may have been the cause.
 * Called on the thread of the shards, and by start, without a lock held.
 */
struct df_shard_group *df_shards_add(struct df_shards *s, const char *channel,
                                     void (*changed)(void *arg, uint32_t taken, uint32_t unclean),
                                     void *arg);
/* Takes what it can before it returns, so that work begins at once; the rest follows. */
void df_shards_start(struct df_shards *s);

/*
 * The end: stop takes no more; what is in flight goes on under the lease, which is still renewed.
 * end, after the last settlement, gives all shards back in one transaction and ends the thread: for
 * others this was a clean end. free comes last. NULL is fine in each.
 */
void df_shards_stop(struct df_shards *s);
void df_shards_end(struct df_shards *s);
void df_shards_free(struct df_shards *s);

/* The shard of a row's id: a number, or a UUID. */
unsigned df_shard_of(struct df_str id);

/*
 * The shards whose rows may be taken now; their epochs in epochs[shard]. 0: none, as when the lease
 * is nearly over.
 *
 * A shard may be handed over while its rows are being read. So a claim enters the shards first,
 * then asks which of them are its own, reads rows of these, and leaves the shards when it has
 * entered the rows. For the same reason, who has yet to reset what a lost owner left enters the
 * shard in `changed`, and leaves it when that is done: a shard that is left is handed over as a
 * clean one.
 *
 * Entering keeps a shard from being handed over, not from being lost with the lease: so time is
 * asked for before each call.
 */
uint32_t df_shards_mine(struct df_shard_group *g, int64_t epochs[DF_SHARDS]);
/* All shards that this process owns: also those that it is about to hand over, and when no time is
 * left of the lease. For who has something to end in shards that it has entered. */
uint32_t df_shards_owned(struct df_shard_group *g, int64_t epochs[DF_SHARDS]);
/* How long a call that begins now may take, for a row of the shard that was taken under this epoch:
 * to a quarter of the lease before its end. 0 or less: no time is left, or the shard was lost since
 * then. */
int64_t df_shards_left_ms(struct df_shard_group *g, unsigned shard, int64_t epoch);

/* A row of the shard was taken, or is settled or dropped. A shard with rows in flight is not handed
 * over. */
void df_shards_enter(struct df_shard_group *g, unsigned shard);
void df_shards_leave(struct df_shard_group *g, unsigned shard);

/*
 * In a settlement's transaction, before it writes anything else: locks the rows of these shards.
 * epochs[shard] is the epoch of each that is still this process's, and -1 for all others. A row
 * whose epoch at its taking differs must not be settled.
 */
enum df_code df_shards_lock(struct df_db *db, const struct df_shard_group *g, uint32_t shards,
                            int64_t epochs[DF_SHARDS], struct df_err *err) DF_MUST_CHECK;

/* A settlement found that these shards are another's: no rows are taken of them until the tables
 * were read again. */
void df_shards_doubt(struct df_shard_group *g, uint32_t shards);
/* This process cannot do the channel's work, and others can: for so long it owns none of its
 * shards, unless it is the only one that serves the channel. */
void df_shards_yield(struct df_shard_group *g, int64_t for_ms);

/* --- marks: rows that are taken with care after an unclean end (marks.c) --- */

#define DF_MARKS_MAX 5 /* a row that was taken so often without an end is set aside */

/* How often each row of the channel that has a mark was taken; at most `limit` of them. */
enum df_code df_marks_read(struct df_db *db, const char *channel, size_t limit,
                           void (*mark)(void *arg, struct df_str id, int64_t taken), void *arg,
                           struct df_err *err) DF_MUST_CHECK;
/* In a transaction that is committed before anything is done with the rows: counts one more taking
 * of each. */
enum df_code df_marks_add(struct df_db *db, const char *channel, const struct df_str *ids,
                          size_t count, int64_t now_ms, struct df_err *err) DF_MUST_CHECK;
/* With their settlement. Rows without a mark are fine. */
enum df_code df_marks_clear(struct df_db *db, const char *channel, const struct df_str *ids,
                            size_t count, struct df_err *err) DF_MUST_CHECK;

#endif

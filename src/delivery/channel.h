/*
 * A channel: what the delivery engine has to know about one outbox. A handful of named queries and
 * a function that builds the request; nothing else differs between channels.
 *
 * Whatever table it is, a row has a state, a counter of attempts and one time, `due`: when it may
 * be taken. Waiting rows are due when they were written, claimed ones when the lease is over,
 * failed ones when it is time to try again; rows that are sent, or that wait for a person, are not
 * due at all (NULL), so that an index over `due` holds only what there is to do.
 *
 *     Pending --claim--> Sending --2xx--------------------------> Sent
 *        ^                |  |  '--4xx, or attempts used up-----> Error (due NULL: for a person)
 *        |     lease over |  '--5xx, network, 429, breaker------> Error (due later: claimed again)
 *        |                v                                          |
 *        '----------- claimed again <--------------------------------'   retry by a person: Pending
 *
 * Whoever lost its lease can settle nothing: README.md, lease and fence.
 */
#ifndef DF_DELIVERY_CHANNEL_H
#define DF_DELIVERY_CHANNEL_H

#include "delivery/outbox.sqlt.h"
#include "outbound/outbound.h"
#include "resilience/retry.h"
#include "store/db.h"

/* What is sent. Memory: the arena, which lives until the row is settled. */
struct df_delivery_request {
    const char *method; /* NULL: POST */
    const char *url;
    struct df_str body;
    struct df_headers headers; /* but for those that follow; its arena is set */
    struct df_str idempotency_key;
    struct df_str correlation_header; /* X-Correlation-Id; absent: none */
    struct df_str trace_id;           /* the trace that it belongs to; absent: a new one */
    /* Whose breaker and share of the slots it is; absent: the destination's (scheme, host, port).
     */
    struct df_str breaker;
    struct df_str correlation_id; /* of log lines */
    struct df_str client_id;      /* likewise; absent: it is of none */
    struct df_str tenant;         /* whose share of the slots it takes; absent: the channel's own */
    struct df_str batch_id;
    struct df_str subscription_id;
    bool private_too;   /* the operator chose the address, or lets tenants choose any */
    int64_t timeout_ms; /* of the attempt; 0: the engine's */
};

struct df_metric;

struct df_channel {
    const char *name; /* "ticket-return": in URLs, metrics, Idempotency-Key */
    enum df_type id_type;

    /*
     * What its states are called, in the order Pending, Sending, Sent, Error, which are their names
     * where this is NULL; a NULL among them: there is no such state.
     */
    const char *const *states;

    /*
     * Queries take those of the parameters named below that they need (DF_ANY).
     *
     * What a query answers with has the columns that outbox.sqlt names for it (its shapes).
     *
     * claim (now, lease_until, limit) takes rows that are due. Bytes is how many the row has to
     * send, about. The fence is what a settle must find unchanged:
     * the attempt, or that plus something that stands for the version of a row whose content may be
     * replaced meanwhile.
     *
     * NULL: somebody else delivers, and the channel is here for people alone; nothing up to
     * `waiting` is asked then, nor `build`.
     */
    const struct df_query *claim;
    /* load (ids): of rows just claimed, with what `build` wants behind the columns of all. Asked in
     * pieces, as many rows as there is memory for; what is too large is never asked for.
     */
    const struct df_query *load;
    /* The same, but the newest first. NULL: all rows have one destination. */
    const struct df_query *claim_newest;
    /*
     * What became of rows. `sent` is for many at once and answers with the ids of those it has
     * changed; failures have a reason each, and are settled one by one.
     *
     * - sent     (now, ids, fence, lease_until), ids as for EACH_INT and EACH_UUID
     * - failed   (now, due, error, http_status, id, fence, lease_until): due is NULL when it is not
     *   to be tried again, http_status when there was no answer
     * - deferred (now, due, id, fence, lease_until): it was not tried after all; the attempt is
     *   taken back
     */
    const struct df_query *sent;
    const struct df_query *failed;
    const struct df_query *deferred;
    /*
     * For rows that are not the channel's alone; NULL otherwise.
     *
     * - lock   (ids): before anything is settled, takes the rows in the order that everybody does,
     *   or two who settle the same ones in another order would wait for each other
     * - mirror (now, ids): after all, copies what the rows now say to where else it is shown
     * - settled (now, ids): after that, for what takes more than a query. May run again, as all of
     * a cycle
     */
    const struct df_query *lock;
    const struct df_query *mirror;
    enum df_code (*settled)(const struct df_channel *c, struct df_db *db, struct df_value now,
                            struct df_value ids, struct df_arena *a, struct df_err *err);
    /* After a cycle's commit, once, while the arena of `settled` still lives: what is to be told of
     * it. NULL: nothing. */
    void (*committed)(const struct df_channel *c);
    /*
     * After the clock was set back. ahead (now): when the latest of the rows that are not due yet
     * was written or last tried, or NULL. rebase (now, lease_until, until, limit): rows that were,
     * after lease_until and not after `until`, and are due after lease_until, are due now.
     */
    const struct df_query *ahead;
    const struct df_query *rebase;
    /* next_due: when the next row is due, or NULL. waiting: how many rows are not settled, and when
     * the oldest was written. */
    const struct df_query *next_due;
    const struct df_query *waiting;

    /*
     * For people.
     *
     * - counts: for each state
     * - list (status: NULL is any; limit, offset), total (status), get (id)
     * - retry (now, id): makes it Pending and due, with all its attempts again, if it is in Error
     * - retry_all (now): the same for all that are in Error
     */
    const struct df_query *counts;
    const struct df_query *list;
    const struct df_query *total;
    const struct df_query *get;
    const struct df_query *retry;
    const struct df_query *retry_all;
    const struct df_query *retry_all_mirror; /* (now); NULL: none */
    bool payload_is_blob;                    /* bytes of any kind, not text */

    /*
     * Whose the row of `load` is that r stands on: sets `tenant` and `breaker`, cheaply. Asked
     * before `build`, which is spared where they have their share already. NULL: they are not known
     * before.
     */
    void (*whose)(const struct df_channel *c, struct df_result *r, struct df_arena *a,
                  struct df_delivery_request *ret);
    /*
     * Builds the request of the row of `load` that r stands on. An error is the
     * row's own and ends it: what cannot be built today cannot be built tomorrow.
     */
    enum df_code (*build)(const struct df_channel *c, struct df_str id, struct df_result *r,
                          struct df_arena *a, struct df_delivery_request *ret, struct df_err *err);
    const struct df_retry_policy *schedule; /* its own schedule; NULL: the engine's */
    /* What an answer of the peer means where it is not what the engine takes it for; NULL: it is.
     */
    struct df_out_judgement (*classify)(unsigned http_status);
    /* The log events of a failure that is tried again, and of one that is not; NULL: DeliveryRetry,
     * DeliveryFailed. */
    const char *retry_event;
    const char *failed_event;
    struct df_metric *failures; /* counts both; NULL: nothing of its own does */
    /* Whether it is configured; a channel that is not keeps its rows. */
    const char *missing; /* the key to set; NULL: it is configured */
    /* Without claim: tells whoever delivers of new work. Any thread; NULL: nobody. */
    void (*wake)(const struct df_channel *c);
    const void *arg; /* the channel's own */
};

/* The queries that outbox.sqlt makes for a table. */
#define DF_CHANNEL_OUTBOX(name)                                                                    \
    .claim = &df_q_##name##_claim, .claim_newest = &df_q_##name##_claim_newest,                    \
    .load = &df_q_##name##_load, .ahead = &df_q_##name##_ahead, .rebase = &df_q_##name##_rebase,   \
    .sent = &df_q_##name##_sent, .failed = &df_q_##name##_failed,                                  \
    .deferred = &df_q_##name##_deferred, .next_due = &df_q_##name##_next_due,                      \
    .waiting = &df_q_##name##_waiting, .counts = &df_q_##name##_counts,                            \
    .list = &df_q_##name##_list, .total = &df_q_##name##_total, .get = &df_q_##name##_get,         \
    .retry = &df_q_##name##_retry, .retry_all = &df_q_##name##_retry_all

/* The list of this one id, written to out. */
#define DF_CHANNEL_IDS_SIZE 64
struct df_value df_channel_ids(struct df_value id, char out[DF_CHANNEL_IDS_SIZE]);
/* The id as the channel's table has it; NULL when it is none. */
struct df_value df_channel_id(const struct df_channel *c, struct df_str id);

#endif

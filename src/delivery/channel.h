/*
 * A channel: what the delivery engine has to know about one outbox. A handful of named queries and
 * a function that builds the request; nothing else differs between channels.
 *
 * In every channel a row has a state, a counter of tries, one of failures that count, and one time,
 * `due`: when it may be taken. Waiting rows are due when they were written, failed ones when it is
 * time to try again; rows that are sent, or that wait for a person, are not due at all (NULL), so
 * that an index over `due` holds only what there is to do. A row whose target is away waits for the
 * target; its due time is only the backstop.
 *
 *     Pending --taken, tried --2xx----------------------> Sent
 *        ^        ^      |  '--refused, or given up-----> Error (due NULL: for a person)
 *        |        |      '--failed, to be tried again---> Error (due later: taken again)
 *        |        '------------------------------------------'
 *        '-- retry by a person                 Sending: has been on its way for a second
 *
 * A row that is taken stays as it is; the process that owns its shard (shards/shards.h) knows that
 * it is on its way. Who lost the shard can settle nothing: see README.md.
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
    struct df_headers headers; /* without those that follow; its arena is set */
    struct df_str idempotency_key;
    struct df_str correlation_header; /* X-Correlation-Id; absent: none */
    struct df_str trace_parent;       /* the context in which the row was written; absent: none */
    struct df_str trace_id;           /* of the trace it continues; absent: that of trace_parent */
    /* The target's name for health and pauses; absent: the URL without its query. */
    struct df_str target;
    /* The key of its breaker and of its share of slots; absent: the target's breaker, and the
     * destination's share. */
    struct df_str breaker;
    struct df_str correlation_id; /* for log lines */
    struct df_str client_id;      /* for log lines; absent: none */
    struct df_str client_key;     /* the client's id, for figures; absent: the tenant */
    struct df_str tenant;         /* whose share of slots it uses; absent: the channel's own */
    struct df_str batch_id;
    struct df_str subscription_id;
    bool private_too;   /* the operator chose the address, or lets tenants choose any */
    int64_t timeout_ms; /* for the attempt; 0: the engine's */
};

struct df_metric;

struct df_channel {
    const char *name; /* "ticket-return": in URLs, metrics, Idempotency-Key */
    enum df_type id_type;

    /*
     * The names of the states, in the order Pending, Sending, Sent, Error. NULL: these names. A
     * NULL entry: the channel has no such state.
     */
    const char *const *states;

    /*
     * A query takes the parameters it needs out of those named below (DF_ANY). Its result has the
     * columns that outbox.sqlt names for it (its shapes).
     *
     * claim (now, after, after_id, shards, limit) reads rows that are due, ordered by due time and
     * id, behind the row with `after` and `after_id`. `shards` has a bit for each shard whose rows
     * are wanted. Version is that of the content, if it may be replaced; Bytes is about how many
     * bytes the row sends. The rest is what the row went through.
     *
     * NULL: another part of the server delivers, and the channel exists only for the pages and
     * commands of outboxes. The queries up to `waiting`, and `build`, are not used then.
     */
    const struct df_query *claim;
    /* load (ids): rows just claimed, with what `build` reads behind the id. Run in
     * pieces, as memory allows; rows that are too large are never loaded. */
    const struct df_query *load;
    /* claim_newest (now, shards, limit): the newest first. NULL: all rows have one destination. */
    const struct df_query *claim_newest;
    /*
     * For rows that wait for a target (not with a `schedule`): claim_held and claim_probe (target,
     * shards, limit) are like `claim`, oldest first and least recently tried first. held (channel,
     * limit): the targets that rows wait for.
     */
    const struct df_query *claim_held;
    const struct df_query *claim_probe;
    const struct df_query *held;
    /*
     * These record outcomes, one row each, many rows in one run (df_db_exec_many). A row that is
     * not changed was replaced, or started over by a person, since it was taken.
     *
     * - sent (now, id, version, started, http_status, duration_ms)
     * - failed (now, started, id, version, was_due, due, error, http_status, attempts,
     *   first_failed, counted, mark, held_for, held_at): was_due is the due time that the claim
     *   read; due is NULL if the row is not tried again, http_status is NULL if there was no
     *   answer; attempts are the failures that count, counted is when the last of them was;
     *   held_for is the target that the row waits for, or NULL
     * - deferred (id, version, was_due, due, held_for, held_at): the row was not tried
     */
    const struct df_query *sent;
    const struct df_query *failed;
    const struct df_query *deferred;
    /* sending (now, id, version): the row has been on its way for long enough to be seen. reset
     * (shards): rows that a lost owner left so wait again; returns their ids. */
    const struct df_query *sending;
    const struct df_query *reset;
    /*
     * For rows that other parts write or show too; NULL otherwise.
     *
     * - lock (ids): runs before anything is settled and locks the rows in the order of their ids,
     *   as every writer of many rows does; otherwise two of them could deadlock
     * - mirror (now, ids): runs last and copies what the rows say now to the other table
     * - settled (now, ids): runs after `mirror`, for what takes more than a query. Like all of a
     *   cycle it may run more than once
     */
    const struct df_query *lock;
    const struct df_query *mirror;
    enum df_code (*settled)(const struct df_channel *c, struct df_db *db, struct df_value now,
                            struct df_value ids, struct df_arena *a, struct df_err *err);
    /* Runs once after a cycle's commit, while the arena of `settled` still lives, to announce what
     * changed. NULL: nothing to announce. */
    void (*committed)(const struct df_channel *c);
    /*
     * Used after the clock was set back. ahead (now) looks at rows that are not due yet and returns
     * the latest time at which one was written or last tried, or NULL. rebase (now, lease_until,
     * until, limit) makes rows due now that were written or last tried after lease_until and not
     * after `until`, and are due after lease_until.
     */
    const struct df_query *ahead;
    const struct df_query *rebase;
    /* next_due (now): when the next row is due after now, or NULL. waiting: how many rows are not
     * settled, and when the oldest was written, and how many of them wait for their target. */
    const struct df_query *next_due;
    const struct df_query *waiting;
    /*
     * Rows that wait for a person. given_up (rows, limit, since): by target, with the number of
     * rows, the times of the first and the last, and the last error; no more than `limit` targets,
     * those with most rows first. It looks at no more than `rows` rows, the newest. given_up_total
     * (since): how many. `since` is for channels that keep rows that nobody has to look after any
     * more.
     */
    const struct df_query *given_up;
    const struct df_query *given_up_total;

    /*
     * For the pages and commands of outboxes.
     *
     * - counts: rows of each state
     * - stuck: how many rows wait, wait for their target and were given up, and since when
     * - rows, and three ways to the keys of a page in both orders (access/list.h): of all rows, of
     *   one status, of those that were given up. They take the filter
     * - get (id)
     * - retry (now, id): makes a row in Error Pending and due, with all attempts to go
     * - retry_some (now, limit, the filter): the same for rows in Error; returns their ids.
     * `mirror` follows
     * - retry_total (the filter): how many rows it would take
     * - dismiss, dismiss_some, dismiss_total: the same for rows that were given up and that a
     * person wants no more of
     * - dismissed (at, ids), may be NULL: follows a dismissal, and a retry with `at` NULL
     *
     * The filter: target (NULL: any), target_query (a pattern for the target with a query), own (1:
     * the target is own_target), error (a pattern with '!' as its escape; NULL: any), since, until;
     * retries also take given_up (1: not what is tried again by itself).
     */
    const struct df_query *counts;
    const struct df_query *stuck;
    const struct df_query *rows;
    const struct df_query *keys[2]; /* newest first, oldest first */
    const struct df_query *status_keys[2];
    const struct df_query *given_up_keys[2];
    const char *usual_status; /* that most rows have; NULL: its index gives the order of lists */
    const struct df_query *get;
    const struct df_query *retry;
    const struct df_query *retry_some;
    const struct df_query *retry_total;
    const struct df_query *dismiss;
    const struct df_query *dismiss_some;
    const struct df_query *dismiss_total;
    const struct df_query *dismissed;
    bool payload_is_blob;   /* bytes of any kind, not text */
    const char *own_target; /* where rows go that name no target, a URL; NULL: they all name one */

    /*
     * Sets `tenant` and `breaker` of the row of `load` that r stands on, at little cost. Called
     * before `build`, which is skipped if tenant or breaker already have their share. NULL: they
     * are known only after `build`.
     */
    void (*whose)(const struct df_channel *c, struct df_result *r, struct df_arena *a,
                  struct df_delivery_request *ret);
    /*
     * Builds the request of the row of `load` that r stands on. An error ends the row: what cannot
     * be built today cannot be built tomorrow. After DF_E_BUSY it is tried again later.
     */
    enum df_code (*build)(const struct df_channel *c, struct df_str id, struct df_result *r,
                          struct df_arena *a, struct df_delivery_request *ret, struct df_err *err);
    /* Its own schedule, in which every failure counts and nothing waits for its target; NULL: the
     * engine's (resilience/tries.h). */
    const struct df_retry_policy *schedule;
    /* What an answer of the peer means; NULL: df_outbound_judge_status. */
    struct df_out_judgement (*classify)(unsigned http_status);
    /* The log events of a failure that is tried again, and of one that is not; NULL: DeliveryRetry,
     * DeliveryGivenUp. */
    const char *retry_event;
    const char *failed_event;
    struct df_metric *failures; /* counts both kinds of failure; NULL: not counted apart */
    /* The setting that is missing; NULL: the channel is configured. Until then its rows wait. */
    const char *missing;
    /* Without `claim`: tells the part that delivers of new work. Any thread; NULL: none. */
    void (*wake)(const struct df_channel *c);
    const void *arg; /* the channel's own */
};

#define DF_CHANNEL_LISTS(name)                                                                     \
    .rows = &df_q_##name##_rows, .keys = {&df_q_##name##_keys, &df_q_##name##_keys_oldest},        \
    .status_keys = {&df_q_##name##_status_keys, &df_q_##name##_status_keys_oldest},                \
    .given_up_keys = {&df_q_##name##_given_up_keys, &df_q_##name##_given_up_keys_oldest}

/* The queries that outbox.sqlt makes for a table. */
#define DF_CHANNEL_OUTBOX(name)                                                                    \
    .claim = &df_q_##name##_claim, .claim_newest = &df_q_##name##_claim_newest,                    \
    .claim_held = &df_q_##name##_claim_held, .claim_probe = &df_q_##name##_claim_probe,            \
    .held = &df_q_##name##_held, .load = &df_q_##name##_load, .ahead = &df_q_##name##_ahead,       \
    .rebase = &df_q_##name##_rebase, .sent = &df_q_##name##_sent, .failed = &df_q_##name##_failed, \
    .deferred = &df_q_##name##_deferred, .sending = &df_q_##name##_sending,                        \
    .reset = &df_q_##name##_reset, .next_due = &df_q_##name##_next_due,                            \
    .waiting = &df_q_##name##_waiting, .given_up = &df_q_##name##_given_up,                        \
    .given_up_total = &df_q_##name##_given_up_total, .counts = &df_q_##name##_counts,              \
    .stuck = &df_q_##name##_stuck, DF_CHANNEL_LISTS(name), .get = &df_q_##name##_get,              \
    .retry = &df_q_##name##_retry, .retry_some = &df_q_##name##_retry_some,                        \
    .retry_total = &df_q_##name##_retry_total, .dismiss = &df_q_##name##_dismiss,                  \
    .dismiss_some = &df_q_##name##_dismiss_some, .dismiss_total = &df_q_##name##_dismiss_total

/* `since` of given_up and given_up_total: what was given up before is no news. */
#define DF_CHANNEL_GIVEN_UP_MS (INT64_C(30) * 24 * 3600 * 1000)

/* A list of ids with this one id, written to out. */
#define DF_CHANNEL_IDS_SIZE 64
struct df_value df_channel_ids(struct df_value id, char out[DF_CHANNEL_IDS_SIZE]);
/* The id as a value of the channel's id type; NULL if the text is no such id. */
struct df_value df_channel_id(const struct df_channel *c, struct df_str id);

#endif

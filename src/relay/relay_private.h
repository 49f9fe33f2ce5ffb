/* What the parts of the relay share: relay.c (start and end), worker.c (threads), claim.c and
 * batch.c (a batch), judge.c and memory.c (outcomes), health.c (the destination), check.c (the
 * table). */
#ifndef DF_RELAY_PRIVATE_H
#define DF_RELAY_PRIVATE_H

#include "base/list.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/map.h"
#include "base/metrics.h"
#include "relay/sql.h"
#include "resilience/tries.h"

#include <stdatomic.h>

#define RELAY_WORKERS 4 /* default; each has a transaction open while its batch is sent */
#define RELAY_RESTING 10000

enum relay_outcome {
    RELAY_PROCESSED,
    RELAY_RETRY,
    RELAY_FAILED,
    RELAY_HELD,     /* failed, and waits for its destination; the row stays as it was */
    RELAY_DEFERRED, /* claimed and not sent: the breaker, an earlier event, the stop */
    RELAY_OUTCOMES
};

/* An event that is not to be tried before due_ms, for tables without next_attempt_at. */
struct relay_resting {
    char *id;
    int64_t due_ms; /* monotonic */
};

/* An event that failed (memory.c). */
struct relay_known {
    struct df_link tried;
    struct df_link held;
    struct df_tries tries;
    int64_t attempts; /* of the row, as this relay left it */
    char id[];
};

struct relay_memory {
    struct df_map by_id;
    struct df_list by_try; /* the least recently tried first */
    struct df_list held;   /* the same, of those that wait for the destination */
};

/* How the destination is. With a store all processes share it (health.c): the row of
 * DeliveryTargets is read and written once a second. */
struct relay_health {
    bool known;      /* whether it is paused is known */
    int64_t arrived; /* events that arrived, ever, as last read; without a store: since the start */
    int64_t unwritten;     /* those that are not in the table yet */
    int64_t down_since_ms; /* wall clock; 0: well */
    int64_t paused_ms;     /* wall clock; 0: not paused */
    int64_t last_arrived_ms;
    int64_t last_failed_ms;
    char last_error[1024];
};

/* The statements for the table as it was found; counted, since workers share them. */
struct relay_shape {
    struct relay_sql sql;
    bool rows_lock; /* else only one worker claims */
    atomic_int users;
};

struct relay_worker {
    struct df_relay *relay;
    size_t index;
    struct df_thread thread;
    struct df_db *db;
    struct relay_shape *shape; /* the one whose statements the connection has prepared */
    struct df_sink *sink;
    struct df_arena arena;
    struct df_backoff backoff;
    bool probing; /* the batch is of probes */
};

struct df_relay {
    const struct df_relay_settings *s;
    struct df_relay_options opt;
    const struct df_dispatcher *dispatcher;
    struct df_sink_options sink_options;
    struct df_retry_policy retry;
    struct df_breaker *breaker;
    struct df_notifier *notifier;
    enum df_dialect dialect;
    struct relay_worker *workers;
    size_t worker_count;
    int lock_fd; /* SQLite: holds the lock that lets one relay work; -1: none */

    _Atomic bool given_up; /* the drain is over */

    struct df_mutex lock;
    pthread_cond_t changed;
    bool stopping DF_GUARDED_BY(lock);
    bool woken DF_GUARDED_BY(lock);
    uint64_t wakes DF_GUARDED_BY(lock);
    uint64_t served DF_GUARDED_BY(lock);   /* wake-ups after which a claim found no more rows */
    int64_t again_ms DF_GUARDED_BY(lock);  /* monotonic: a row that failed is due; 0: none */
    bool looked_after DF_GUARDED_BY(lock); /* a worker waits that will look for new events */
    size_t more DF_GUARDED_BY(lock);       /* workers that full claims have called */
    size_t in_hand DF_GUARDED_BY(lock);    /* workers with a batch */
    size_t room
        DF_GUARDED_BY(lock); /* rows for a claim: doubles after success, halves after failure */
    /* NULL: the table is not right, or was not looked at. */
    struct relay_shape *shape DF_GUARDED_BY(lock);
    struct relay_resting *resting DF_GUARDED_BY(lock);
    size_t resting_count DF_GUARDED_BY(lock);
    /* The id of the last row that a full claim took; NULL: begin at the start. */
    char *after DF_GUARDED_BY(lock);
    int64_t from_start_ms DF_GUARDED_BY(lock); /* monotonic: when a claim last began there */
    int64_t window DF_GUARDED_BY(lock);        /* order=aggregate: how many rows a claim looks at */
    int64_t full_ms DF_GUARDED_BY(lock);       /* monotonic: when it last looked at all of them */
    bool full_in_vain DF_GUARDED_BY(lock);     /* nothing was found since, whatever the window */
    int64_t counted_ms DF_GUARDED_BY(lock);    /* monotonic */
    int64_t count_failed_ms DF_GUARDED_BY(lock); /* monotonic: when to count them again */
    int64_t shut_until_ms DF_GUARDED_BY(lock);   /* monotonic: no probe before, by Retry-After */
    struct relay_memory memory DF_GUARDED_BY(lock);
    struct relay_health health DF_GUARDED_BY(lock);
    struct df_relay_status status DF_GUARDED_BY(lock);

    struct df_metric *attempts[RELAY_OUTCOMES];
    struct df_metric *duration;
    struct df_metric *waiting;
    struct df_metric *oldest;
    struct df_metric *failed;
    struct df_metric *failed_total;
    struct df_metric *up;
};

/* --- check.c --- */

/*
 * Looks at the table. DF_OK: *ret is what was found and *ret_sql the statements for it, which were
 * tried; there may still be complaints (an index that is missing). DF_E_CONFIG: complaints say what
 * is wrong, one a line. Else the database's error.
 */
enum df_code relay_check(struct df_db *db, const struct df_relay_settings *s,
                         struct relay_table *ret, struct relay_sql *ret_sql,
                         struct df_buf *complaints, struct df_err *err) DF_MUST_CHECK;
/* "schema.table" with each part quoted, for the caller to free. lower: in lower case, as PostgreSQL
 * stores names that were written without quotes. */
char *relay_quoted_table(enum df_dialect d, const char *table, bool lower);
enum df_code relay_count(struct df_db *db, const struct relay_query *q, int64_t *ret_rows,
                         int64_t *ret_oldest_ms, struct df_err *err) DF_MUST_CHECK;
enum df_code relay_connect(const struct df_relay_settings *s, struct df_db **ret,
                           struct df_err *err) DF_MUST_CHECK;

/* --- claim.c --- */

struct relay_claimed {
    struct df_event e;
    struct relay_claimed *next; /* the next event of its aggregate; NULL: none in this batch */
    struct df_breaker_permit permit;
    int64_t attempts; /* as the row has it */
    bool due;
    bool tail;    /* it is the `next` of another row */
    bool fetched; /* its payload is there, or is NULL */
    int64_t size; /* of the payload */
    enum relay_outcome outcome;
    int64_t counted;  /* RETRY, FAILED: the new attempts */
    int64_t delay_ms; /* RETRY */
    const char *why;  /* FAILED: refused, count, time */
};

struct relay_batch {
    struct relay_claimed *rows;
    size_t count;
    size_t heads;
    int64_t window; /* order=aggregate: among how many rows the heads were found */
    size_t sent;    /* handed to the dispatcher */
    size_t bytes;   /* of payloads, counted for all relays of the process */
    bool full;      /* there are more rows */
    bool cut;       /* there was no room for all: there are more rows, and they are large */
    bool waits;     /* nothing was taken: other batches use up all the bytes */
    bool beyond;    /* the claim did not begin at the start: there may be rows before it */
};

/* Claims rows and fetches their payloads. The caller releases the batch, after an error too. */
enum df_code relay_claim(struct relay_worker *w, size_t limit, struct relay_batch *b,
                         struct df_err *err) DF_MUST_CHECK;
/* Gives the batch's bytes back. */
void relay_batch_release(struct relay_batch *b);
/* Keeps an event from being claimed for delay_ms, where the table has no next_attempt_at. */
void relay_rest(struct df_relay *r, struct df_str id, int64_t delay_ms);
/* Nobody rests any more. */
void relay_wake_resting(struct df_relay *r) DF_REQUIRES(r->lock);

#define RELAY_ROOM_MIN 8          /* rows of a claim, at least */
#define RELAY_LIST_MAX (64 << 20) /* bytes of a list of ids */

/* --- batch.c --- */

/*
 * Claims, sends, marks and commits. On an error the table is unchanged. Breaker and retries concern
 * the sending alone; the commit is made once and either holds or does not.
 */
enum df_code relay_run_batch(struct relay_worker *w, size_t limit, struct relay_batch *b,
                             struct df_err *err) DF_MUST_CHECK;
bool relay_stopping(struct df_relay *r);

/* --- memory.c --- */

/* NULL: it has not failed, or that was forgotten. */
struct relay_known *relay_recall(struct df_relay *r, struct df_str id) DF_REQUIRES(r->lock);
void relay_forget(struct df_relay *r, struct df_str id) DF_REQUIRES(r->lock);
/* Notes a failing try of an event whose row has so many attempts; `most` give it up. Returns what
 * the rule wants to know. */
struct df_tries *relay_note_try(struct df_relay *r, struct df_str id, int64_t attempts,
                                int64_t most, int64_t now_ms) DF_REQUIRES(r->lock);
/* The event, which was tried, waits for the destination. */
void relay_hold(struct df_relay *r, struct df_str id) DF_REQUIRES(r->lock);
/* The `count` least recently tried of those may be tried again. */
void relay_unhold(struct df_relay *r, size_t count) DF_REQUIRES(r->lock);
void relay_memory_release(struct df_relay *r);

/* --- judge.c --- */

/* Decides what becomes of events that were sent, and gives their permits back. arrived_before: what
 * relay_arrived said before they were sent. Whether the destination is to blame for a failure. */
bool relay_judge_round(struct df_relay *r, struct relay_claimed *const *round, size_t n,
                       int64_t arrived_before);
/* Makes the event FAILED. */
void relay_give_up(const struct df_relay *r, struct relay_claimed *c,
                   enum df_tries_verdict verdict);
/* Events that arrived, ever. */
int64_t relay_arrived(const struct df_relay *r) DF_REQUIRES(r->lock);
/* Notices that the destination went away, or is back: then what waits for it goes. */
void relay_note_breaker(struct df_relay *r, const struct df_breaker_snapshot *s)
    DF_REQUIRES(r->lock);

/* --- worker.c --- */

void relay_work(void *arg);

/* --- relay.c --- */

void relay_shape_drop(struct relay_shape *shape); /* NULL is fine */
/* Sets the problem that status shows; "": none. */
void relay_problem(struct df_relay *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)))
DF_REQUIRES(r->lock);

#endif

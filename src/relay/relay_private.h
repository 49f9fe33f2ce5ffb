/* What the parts of the relay share: relay.c (start and end), worker.c (threads), claim.c and
 * batch.c (a batch), check.c (the table). */
#ifndef DF_RELAY_PRIVATE_H
#define DF_RELAY_PRIVATE_H

#include "base/log.h"
#include "base/loop.h"
#include "base/metrics.h"
#include "relay/sql.h"

#include <stdatomic.h>

#define RELAY_WORKERS 4 /* default; each has a transaction open while its batch is sent */
#define RELAY_RESTING 10000

enum relay_outcome {
    RELAY_PROCESSED,
    RELAY_RETRY,
    RELAY_FAILED,
    RELAY_DEFERRED, /* claimed and not sent: the breaker, an earlier event, the stop */
    RELAY_OUTCOMES
};

/* An event that is not to be tried before due_ms, for tables without next_attempt_at. */
struct relay_resting {
    char *id;
    int64_t due_ms; /* monotonic */
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
    struct df_relay_status status DF_GUARDED_BY(lock);

    struct df_metric *attempts[RELAY_OUTCOMES];
    struct df_metric *duration;
    struct df_metric *waiting;
    struct df_metric *oldest;
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
    bool due;
    bool tail;    /* it is the `next` of another row */
    bool fetched; /* its payload is there, or is NULL */
    int64_t size; /* of the payload */
    enum relay_outcome outcome;
    int64_t delay_ms;
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

/* --- worker.c --- */

void relay_work(void *arg);

/* --- relay.c --- */

void relay_shape_drop(struct relay_shape *shape); /* NULL is fine */
/* Sets the problem that status shows; "": none. */
void relay_problem(struct df_relay *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)))
DF_REQUIRES(r->lock);

#endif

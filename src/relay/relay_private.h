/* What the parts of the relay share: relay.c (its life), batch.c (a batch), worker.c (threads),
 * check.c (the table).
 */
#ifndef DF_RELAY_PRIVATE_H
#define DF_RELAY_PRIVATE_H

#include "base/log.h"
#include "base/loop.h"
#include "base/metrics.h"
#include "relay/sql.h"

#include <stdatomic.h>

#define RELAY_WORKERS                                                                              \
    4 /* unless configured; each has a transaction open while its batch is sent                    \
       */
#define RELAY_RESTING 10000

enum relay_outcome {
    RELAY_PROCESSED,
    RELAY_RETRY,
    RELAY_FAILED,
    RELAY_DEFERRED, /* claimed and not sent after all: the breaker, an earlier event, the end */
    RELAY_OUTCOMES
};

/* An event that is not to be tried before due_ms, where the table cannot tell. */
struct relay_resting {
    char *id;
    int64_t due_ms; /* monotonic */
};

/* The statements for the table as it was when somebody looked; shared by those who use them. */
struct relay_shape {
    struct relay_sql sql;
    bool rows_lock; /* else one worker has the table to itself */
    atomic_int users;
};

struct relay_worker {
    struct df_relay *relay;
    size_t index;
    struct df_thread thread;
    struct df_db *db;
    struct relay_shape *shape; /* what the connection has prepared */
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
    int lock_fd; /* SQLite: the lock that makes it the one relay; -1 */

    _Atomic bool given_up; /* the drain is over */

    struct df_mutex lock; /* guards all that follows */
    pthread_cond_t changed;
    bool stopping;
    bool woken;
    bool looked_after; /* somebody waits who will look for new events */
    size_t more;       /* claims that were full: as many workers are wanted beside the first */
    size_t in_hand;    /* workers with a batch */
    size_t room;       /* rows for a claim: grows while all goes well, halves when it does not */
    struct relay_shape *shape; /* NULL: the table is not right, or nobody has looked */
    struct relay_resting *resting;
    size_t resting_count;
    char *after;           /* id of the last row that a full claim took; NULL: begin at the start */
    int64_t from_start_ms; /* when a claim last did; monotonic */
    int64_t full_ms;    /* order=aggregate: when all pending rows were last looked at; monotonic */
    bool full_in_vain;  /* and nothing was found */
    int64_t counted_ms; /* monotonic */
    struct df_relay_status status;

    struct df_metric *attempts[RELAY_OUTCOMES];
    struct df_metric *duration;
    struct df_metric *waiting;
    struct df_metric *oldest;
    struct df_metric *up;
};

/* --- check.c --- */

/*
 * Looks at the table. DF_OK: *ret is what it has, *ret_sql the statements for it, tried; there may
 * be complaints nevertheless (an index that is missing). DF_E_CONFIG: complaints say what is wrong,
 * one a line. Else the database's error.
 */
enum df_code relay_check(struct df_db *db, const struct df_relay_settings *s,
                         struct relay_table *ret, struct relay_sql *ret_sql,
                         struct df_buf *complaints, struct df_err *err) DF_MUST_CHECK;
/* "schema.table", each part quoted; lower: in lower case, as PostgreSQL stores what was not quoted.
 */
char *relay_quoted_table(enum df_dialect d, const char *table, bool lower);
enum df_code relay_count(struct df_db *db, const struct relay_query *q, int64_t *ret_rows,
                         int64_t *ret_oldest_ms, struct df_err *err) DF_MUST_CHECK;
enum df_code relay_connect(const struct df_relay_settings *s, struct df_db **ret,
                           struct df_err *err) DF_MUST_CHECK;

/* --- batch.c --- */

struct relay_claimed;

struct relay_batch {
    struct relay_claimed *rows;
    size_t count;
    size_t heads;
    size_t sent;  /* handed to the dispatcher */
    size_t bytes; /* of payloads, taken from what all relays may have in hand */
    bool full;    /* there is more */
    bool cut;     /* for want of room: there is more, and it is large */
    bool waits;   /* nothing was taken: other batches have all the bytes in hand */
    bool beyond;  /* claimed from somewhere on: there may be more before it */
};

/*
 * Claim, send, mark, commit: on an error nothing of it is in the table. The breaker and retries are
 * around the sending; the commit is made once and either holds or does not.
 */
enum df_code relay_run_batch(struct relay_worker *w, size_t limit, struct relay_batch *b,
                             struct df_err *err) DF_MUST_CHECK;
bool relay_stopping(struct df_relay *r);

/* --- worker.c --- */

void relay_work(void *arg);

/* --- relay.c --- */

void relay_shape_drop(struct relay_shape *shape); /* NULL is fine */
/* What stands in the way, for status; "" when nothing does. Under the lock. */
void relay_problem(struct df_relay *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif

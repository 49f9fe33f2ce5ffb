/* What store.c (pool, connections, readers) and writer.c (group commit) share. */
#ifndef DF_STORE_STORE_PRIVATE_H
#define DF_STORE_STORE_PRIVATE_H

#include "base/lock.h"
#include "base/loop.h"
#include "base/metrics.h"
#include "store/store.h"

#include <stdatomic.h>

/* How often a deadlock or another conflict is retried before it is reported to the caller. */
#define STORE_CONFLICTS_MAX 5
/* How long a job waits for a database that is away, from when it was queued. */
#define STORE_PATIENCE_NS (INT64_C(2) * 1000000000)

struct store_metrics {
    struct df_metric *jobs_ok[2]; /* by kind: readers, writers */
    struct df_metric *jobs_failed[2];
    struct df_metric *jobs_refused[2];
    struct df_metric *job_seconds[2];
    struct df_metric *waiting[2];
    struct df_metric *workers[2];
    struct df_metric *busy[2];
    struct df_metric *group_size;
    struct df_metric *commit_seconds;
    struct df_metric *connections;
    struct df_metric *reconnects;
    struct df_metric *failovers;
};

/* A thread and its connection. No other thread touches the connection. */
struct store_worker {
    struct df_store *store;
    struct df_thread thread;
    bool writer;
    struct df_db *db;    /* NULL: not connected (yet) */
    bool was_connected;  /* the next connection is a reconnection */
    int64_t proven_ns;   /* when the connection was last known to work */
    int64_t next_try_ns; /* when to connect again; 0: as soon as a job needs it */
    struct df_backoff backoff;
    struct df_err refusal; /* why the last attempt to connect failed */

    /* Writers: the group in hand and its row jobs' values, row after row. */
    void **items; /* as the queue gave them */
    struct df_job **jobs;
    int64_t *affected;
    struct df_value *values;
    size_t value_cap;
    int64_t commit_failed_ns; /* when a failed commit was last logged */
    uint64_t commit_failures; /* failed commits since then */
};

struct df_store {
    char *url;
    enum df_dialect dialect;
    const struct df_clock *clock;
    size_t group_max;
    size_t savepoints_max;     /* in one transaction */
    struct df_queue queues[2]; /* by kind: readers, writers */
    struct store_worker *workers;
    size_t worker_count;
    _Atomic bool down;
    _Atomic uint64_t failovers; /* see df_store_failovers */
    struct df_mutex lock;
    uint64_t history DF_GUARDED_BY(lock); /* of the newest connection; 0: not known */
    char server[DF_DB_SERVER_MAX] DF_GUARDED_BY(lock);
    _Atomic int64_t
        lost_ns; /* when a connection was last lost; connections proven before that are suspect */
    _Atomic int64_t full_ns; /* when a job last failed for want of room; 0: never */
    const struct store_metrics *metrics;
};

static inline int64_t store_now_ns(void)
{
    return df_mono_ns(df_clock_real());
}

/*
 * Makes sure that w->db is connected and, after an idle time, still alive. Retries until
 * deadline_ns; tries at least once, unless the worker is still pausing after a failure.
 */
enum df_code df_store_connect(struct store_worker *w, int64_t deadline_ns,
                              struct df_err *err) DF_MUST_CHECK;
/* The connection died while a job used it: drops it, logs it, and has the worker reconnect. */
void df_store_lost(struct store_worker *w, const struct df_err *why);
/* Pauses before work that met a conflict is retried; the pause is random and grows with every
 * attempt. */
void df_store_pause(const struct df_store *s, int attempt);
/* Counts the jobs, then calls `done` for each, in order. Afterwards the jobs belong to their owners
 * again. */
void df_store_finish(const struct store_worker *w, struct df_job **jobs, size_t count);

/* Runs jobs and commits them, in one transaction or a few; sets their codes and finishes them. */
void df_writer_run(struct store_worker *w, struct df_job **jobs, size_t count);

#endif

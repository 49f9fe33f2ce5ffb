/*
 * The store: a pool of connections with threads of their own, to which the rest of the program
 * hands jobs. Readers run one job after another. Writers commit in groups: a writer takes what is
 * queued, runs each job under a savepoint, commits once, and only then answers all of them. So a
 * hundred waiting requests cost one fsync, and a job that fails does not fail the others.
 *
 * One writer on SQLite (the database has one write lock), a few on the servers.
 *
 * A job's `run` may be called more than once (a deadlock, a connection lost before the commit, a
 * batch taken apart after a failure): it must set its results afresh each time and touch nothing
 * but the database and the job. `done` is called exactly once, on the store's thread, after the
 * commit (writers) or the run (readers); code is DF_OK when and only when the job's work is
 * durable. A commit whose outcome is unknown (the connection died in it) is reported as
 * DF_E_DB_UNAVAILABLE: the caller may not answer 2xx.
 *
 * A row job has `query` and `params` instead of `run`: neighbours with the same query are written
 * by one df_db_exec_many. That is the fast way for single statements. A job with `run` may have
 * `run_all` too: neighbours with the same one are run by one call, all or none of them, so that
 * they share statements. If it fails, it is called for each half of them; a job that is left
 * alone is run by `run`.
 *
 * Readers run outside a transaction; a job may begin one of its own (df_db_begin with write=false)
 * to see several tables at one moment. Readers' connections cannot write.
 *
 * While the database is away, jobs fail with DF_E_DB_UNAVAILABLE after at most two seconds of
 * trying; when it is back, work resumes by itself. While its disk is full, jobs that need room fail
 * with DF_E_DISK_FULL and the others go on.
 *
 * Threads: df_store_write and df_store_read may be called from any thread. Queues are bounded.
 */
#ifndef DF_STORE_STORE_H
#define DF_STORE_STORE_H

#include "base/log.h"
#include "base/trace.h"
#include "store/db.h"
#include "store/settings.h"

struct df_store;

struct df_job {
    enum df_code (*run)(struct df_db *db, struct df_job *job, struct df_err *err);
    /* May be NULL. Writers only; count is at least 2. */
    enum df_code (*run_all)(struct df_db *db, struct df_job **jobs, size_t count,
                            struct df_err *err);
    void (*done)(struct df_job *job, enum df_code code, const struct df_err *err);
    const struct df_log_ctx *log; /* in force during run and done; may be NULL */
    const struct df_trace *trace; /* what a write's span, "commit", is part of; NULL: none */

    /* Row job (run is NULL). Borrowed until done. */
    const struct df_query *query;
    const struct df_value *params;
    int64_t affected;

    /* Private to the store. */
    void *waiter;
    enum df_code code;
    struct df_err err;
    int64_t queued_ns;
    bool expelled; /* failed and undid the whole transaction: the others run again without it */
};

struct df_store_options {
    struct df_store_settings settings;
    const struct df_clock *clock; /* its randomness spreads retries; waiting is in real time */
};

/* Opens the first connection, so that a wrong URL or password is reported here, and starts the
 * threads. */
enum df_code df_store_open(const struct df_store_options *opt, struct df_store **ret,
                           struct df_err *err) DF_MUST_CHECK;
/* Refuses new jobs and finishes those queued: no `done` is called afterwards. NULL is fine. */
void df_store_stop(struct df_store *s);
/* Stops the store if it still runs, and frees it. NULL is fine. */
void df_store_close(struct df_store *s);

/* false: the queue is full or closed, `done` will not be called; answer 503. */
bool df_store_write(struct df_store *s, struct df_job *job);
bool df_store_read(struct df_store *s, struct df_job *job);

/* The same, but wait for the job's end: for the command line and start-up, never on an HTTP
 * thread. */
enum df_code df_store_write_wait(struct df_store *s, struct df_job *job,
                                 struct df_err *err) DF_MUST_CHECK;
enum df_code df_store_read_wait(struct df_store *s, struct df_job *job,
                                struct df_err *err) DF_MUST_CHECK;

enum df_dialect df_store_dialect(const struct df_store *s);

/*
 * How often another server has taken over from the one before, as far as this process has seen. It
 * grows before the first job runs on the new server. The last commits on the one before may be
 * lost: whoever has state in memory that must not be ahead of the database compares, and reads it
 * afresh.
 */
uint64_t df_store_failovers(const struct df_store *s);

/* Whether a job failed for want of room on a disk in the last ten seconds. */
bool df_store_disk_full(const struct df_store *s);

#endif

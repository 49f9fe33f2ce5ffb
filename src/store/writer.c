/*
 * The group-committing writer.
 *
 * A commit costs an fsync, whatever is in it. So a writer takes the jobs that are queued, runs them
 * in one transaction and commits once for all; while it waits for the disk the next group gathers.
 * Nothing is gained by waiting for more jobs, and nothing waits: a lonely job is committed at once.
 *
 * Jobs do not know of each other. Each runs under a savepoint of its own. A job that fails is
 * rolled back to its savepoint and gets its error, while the others go on. Neighbouring row jobs
 * with the same query share a savepoint and one df_db_exec_many. When one of their rows fails, the
 * rows before it are written again, its job gets the error, and the rows after it go on as a batch;
 * after too many failures the rows are written one by one. Neighbours with the same run_all share a
 * savepoint too; when it fails, each half of them is run so, down to a job alone. A few bad jobs
 * thus cost the others few calls, and few savepoints.
 *
 * What can happen to a group as a whole (enum outcome):
 *
 * - SETTLED: committed, or every job failed through its own fault and nothing was left to commit.
 * - AGAIN: a deadlock or a lock that was not granted. The group is rolled back and run again after
 *   a short pause, up to STORE_CONFLICTS_MAX times. In the last round a job that meets a conflict
 *   fails alone.
 * - EXPELLED: a job failed through its own fault, and the database rolled the whole transaction
 *   back for it, as SQL Server does for some errors. The others run again without it.
 * - LOST: the connection died before COMMIT was sent, so nothing was committed. The group runs once
 *   more, on a new connection.
 * - FAILED: everything else. The connection died during COMMIT, so that its outcome is unknown, or
 *   a disk is full. All jobs fail.
 */
#include "base/log.h"
#include "base/mem.h"
#include "store/store_private.h"

#include <assert.h>
#include <stdlib.h>

/* Failing rows in one batch after which the rest goes one by one. */
#define ROW_FAILURES_MAX 8
#define LOG_PAUSE_NS     INT64_C(1000000000)

enum outcome { GOES_ON, SETTLED, AGAIN, EXPELLED, LOST, FAILED };

struct group {
    struct store_worker *w;
    struct df_db *db;
    struct df_job **jobs;
    size_t count;
    bool single;       /* no batches: a batch undid the whole transaction */
    bool last_round;   /* a conflict now fails only the job that meets it */
    struct df_err err; /* why the group as a whole failed */
};

static void reset_job(struct df_job *job)
{
    job->code = DF_OK;
    job->affected = 0;
    job->err.code = DF_OK;
    job->err.offset = -1;
    job->err.detail[0] = '\0';
}

static void fail_job(struct df_job *job, enum df_code code, const struct df_err *err)
{
    assert(code != DF_OK);
    job->code = code;
    job->err = *err;
    job->err.code = code;
}

/*
 * After a failure under a savepoint: can the group go on? The database may have rolled the whole
 * transaction back because of the error. Then only the job at fault fails, unless the error
 * concerns all jobs, as a full disk does.
 */
static enum outcome contain_failure(struct group *g, enum df_code code, const struct df_err *err)
{
    struct df_err why = DF_ERR_INIT;

    g->err = *err;
    g->err.code = code;
    if (!df_db_alive(g->db))
        return LOST;
    if (df_code_retry(code) == DF_RETRY_NOW && !g->last_round)
        return AGAIN;
    if (df_db_rollback_to(g->db, &why) == DF_OK)
        return GOES_ON;
    if (!df_db_alive(g->db))
        return LOST;
    return df_code_retry(code) == DF_RETRY_LATER ? FAILED : EXPELLED;
}

static enum outcome run_job(struct group *g, struct df_job *job)
{
    struct df_err err = DF_ERR_INIT;
    enum df_code code = df_db_savepoint(g->db, &err);

    reset_job(job);
    if (code == DF_OK) {
        const struct df_log_ctx *outer = df_log_ctx_use(job->log);
        code = job->run(g->db, job, &err);
        df_log_ctx_use(outer);
    }
    if (code == DF_OK)
        code = df_db_release(g->db, &err);
    if (code == DF_OK)
        return GOES_ON;
    fail_job(job, code, &err);
    enum outcome o = contain_failure(g, code, &err);
    job->expelled = o == EXPELLED;
    return o;
}

/* Runs jobs by one call. If it fails, the halves find the jobs at fault. */
static enum outcome run_together(struct group *g, struct df_job **jobs, size_t count)
{
    if (count == 1)
        return run_job(g, jobs[0]);
    struct df_err err = DF_ERR_INIT;
    enum df_code code = df_db_savepoint(g->db, &err);

    for (size_t i = 0; i < count; i++)
        reset_job(jobs[i]);
    if (code == DF_OK)
        code = jobs[0]->run_all(g->db, jobs, count, &err);
    if (code == DF_OK)
        code = df_db_release(g->db, &err);
    if (code == DF_OK)
        return GOES_ON;
    enum outcome o = contain_failure(g, code, &err);
    if (o == EXPELLED)
        g->single = true; /* the next round finds the job at fault */
    if (o == GOES_ON)
        o = run_together(g, jobs, count / 2);
    return o == GOES_ON ? run_together(g, jobs + count / 2, count - count / 2) : o;
}

/* --- row jobs --------------------------------------------------------------------------------- */

/* The values of `count` jobs, row after row. A single job's values are used in place. */
static const struct df_value *gather_values(struct store_worker *w, struct df_job **jobs,
                                            size_t count)
{
    size_t width = jobs[0]->query->param_count;
    if (count == 1 || width == 0)
        return jobs[0]->params;

    size_t need;
    if (__builtin_mul_overflow(width, count, &need) || need > SIZE_MAX / sizeof(struct df_value))
        df_oom();
    if (need > w->value_cap) {
        free(w->values);
        w->values = df_malloc(need * sizeof(struct df_value));
        w->value_cap = need;
    }
    for (size_t i = 0; i < count; i++)
        memcpy(w->values + i * width, jobs[i]->params, width * sizeof(struct df_value));
    return w->values;
}

static enum df_code write_rows(struct group *g, struct df_job **jobs, size_t count,
                               int64_t *ret_failed_row, struct df_err *err)
{
    struct store_worker *w = g->w;
    const struct df_query *q = jobs[0]->query;

    *ret_failed_row = -1;
    enum df_code code = df_db_savepoint(g->db, err);
    if (code == DF_OK)
        code = df_db_exec_many(g->db, q, gather_values(w, jobs, count), q->param_count, count, NULL,
                               NULL, w->affected, ret_failed_row, err);
    if (code == DF_OK)
        code = df_db_release(g->db, err);
    for (size_t i = 0; i < count && code == DF_OK; i++) {
        reset_job(jobs[i]);
        jobs[i]->affected = w->affected[i];
    }
    return code;
}

static enum outcome run_rows(struct group *g, struct df_job **jobs, size_t count)
{
    size_t failures = g->single ? ROW_FAILURES_MAX : 0;
    size_t failed = SIZE_MAX; /* known to fail; skipped once the rows before it are written */
    size_t start = 0;
    size_t len = g->single ? 1 : count;

    while (start < count) {
        struct df_err err = DF_ERR_INIT;
        int64_t row;
        if (start == failed) {
            start++;
            len = failures < ROW_FAILURES_MAX ? count - start : 1;
            continue;
        }
        enum df_code code = write_rows(g, jobs + start, len, &row, &err);
        if (code == DF_OK) {
            start += len;
            if (start != failed)
                len = failures < ROW_FAILURES_MAX ? count - start : 1;
            continue;
        }
        assert(row >= -1 && row < (int64_t)len);
        enum outcome o = contain_failure(g, code, &err);
        if (o == EXPELLED && row < 0 && len > 1) {
            g->single = true; /* the next round finds the job at fault */
        } else if (o == EXPELLED) {
            struct df_job *job = jobs[start + (row < 0 ? 0 : (size_t)row)];
            fail_job(job, code, &err);
            job->expelled = true;
        }
        if (o != GOES_ON)
            return o;
        failures++;
        if (row < 0 && len > 1) {
            len = 1;
            failures = ROW_FAILURES_MAX;
            continue;
        }
        len = row < 0 ? 0 : (size_t)row;
        failed = start + len;
        fail_job(jobs[failed], code, &err);
    }
    return GOES_ON;
}

static bool run_as_one(const struct df_job *a, const struct df_job *b)
{
    if (a->expelled || b->expelled)
        return false;
    if (a->run || b->run)
        return a->run_all && a->run_all == b->run_all;
    return a->query == b->query;
}

/* How many jobs, from the first on, share a savepoint. */
static size_t run_length(struct df_job **jobs, size_t count)
{
    size_t n = 1;

    while (n < count && run_as_one(jobs[0], jobs[n]))
        n++;
    return n;
}

/* --- groups ----------------------------------------------------------------------------------- */

/* Logs at most once a second: a full disk fails thousands of commits, and may hold the log too. */
static void log_commit_failed(const struct group *g)
{
    struct store_worker *w = g->w;
    int64_t now = store_now_ns();

    w->commit_failures++;
    if (w->commit_failed_ns && now - w->commit_failed_ns < LOG_PAUSE_NS)
        return;
    struct df_log_field fields[] = {DF_FI("jobs", g->count), DF_FI("commits", w->commit_failures),
                                    DF_F("error", df_str_c(df_code_name(g->err.code)))};
    df_log_write(DF_LOG_ERROR, "CommitFailed", fields, 3, "%s", g->err.detail);
    w->commit_failed_ns = now;
    w->commit_failures = 0;
}

static enum outcome commit_group(struct group *g)
{
    struct df_err why = DF_ERR_INIT;
    int64_t start = store_now_ns();
    enum df_code code = df_db_commit(g->db, &why);

    if (code == DF_OK) {
        const struct store_metrics *m = g->w->store->metrics;
        g->w->proven_ns = store_now_ns();
        df_metric_observe(m->commit_seconds, (double)(g->w->proven_ns - start) / 1e9);
        df_metric_observe(m->group_size, (double)g->count);
        return SETTLED;
    }
    g->err = why;
    if (!df_db_alive(g->db)) {
        df_err_set(&g->err, DF_E_DB_UNAVAILABLE, "whether the work was committed is not known: %s",
                   why.detail);
        log_commit_failed(g);
        return FAILED;
    }
    if (df_code_retry(code) == DF_RETRY_NOW && !g->last_round)
        return AGAIN;
    log_commit_failed(g);
    return FAILED;
}

/* Runs jobs that share a savepoint. */
static enum outcome run_unit(struct group *g, struct df_job **jobs, size_t count)
{
    enum outcome o = GOES_ON;

    if (jobs[0]->expelled)
        return GOES_ON;
    if (!jobs[0]->run)
        return run_rows(g, jobs, count);
    if (count > 1 && !g->single)
        return run_together(g, jobs, count);
    for (size_t i = 0; i < count && o == GOES_ON; i++)
        o = run_job(g, jobs[i]);
    return o;
}

static enum outcome run_jobs(struct group *g)
{
    size_t ok = 0;

    for (size_t i = 0; i < g->count;) {
        size_t n = run_length(g->jobs + i, g->count - i);
        enum outcome o = run_unit(g, g->jobs + i, n);
        if (o != GOES_ON)
            return o;
        for (size_t end = i + n; i < end; i++)
            ok += g->jobs[i]->code == DF_OK;
    }
    if (ok == 0) {
        df_db_rollback(g->db);
        return SETTLED;
    }
    return commit_group(g);
}

static enum outcome try_group(struct group *g)
{
    g->err = DF_ERR_INIT;
    enum df_code code = df_db_begin(g->db, true, &g->err);
    enum outcome o;

    if (code == DF_OK)
        o = run_jobs(g);
    else if (!df_db_alive(g->db))
        o = LOST;
    else
        o = df_code_retry(code) == DF_RETRY_NOW && !g->last_round ? AGAIN : FAILED;
    df_db_reset(g->db);
    return o;
}

/* Runs the group until it is settled or has failed; afterwards every job has its code. */
static void run_group(struct group *g)
{
    struct store_worker *w = g->w;
    bool lost_before = false;
    int conflicts = 0;

    for (;;) {
        enum outcome o = FAILED;
        enum df_code code = df_store_connect(w, g->jobs[0]->queued_ns + STORE_PATIENCE_NS, &g->err);
        if (code == DF_OK) {
            g->db = w->db;
            g->last_round = conflicts == STORE_CONFLICTS_MAX;
            o = try_group(g);
            if (!df_db_alive(w->db))
                df_store_lost(w, &g->err);
        }
        if (o == SETTLED)
            return;
        if (o == AGAIN) {
            df_store_pause(w->store, conflicts++);
        } else if (o == EXPELLED) {
            continue; /* ends: each round has one job fewer, or writes row by row */
        } else if (o == LOST && !lost_before) {
            lost_before = true;
        } else {
            for (size_t i = 0; i < g->count; i++) {
                assert(!g->jobs[i]->expelled || g->jobs[i]->code != DF_OK);
                if (!g->jobs[i]->expelled)
                    fail_job(g->jobs[i], g->err.code, &g->err);
            }
            return;
        }
    }
}

void df_writer_run(struct store_worker *w, struct df_job **jobs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        jobs[i]->expelled = false;
    for (size_t done = 0; done < count;) {
        size_t n = 0;
        for (size_t units = 0; done + n < count && units < w->store->savepoints_max; units++)
            n += run_length(jobs + done + n, count - done - n);
        struct group g = {.w = w, .jobs = jobs + done, .count = n};
        run_group(&g);
        df_store_finish(w, jobs + done, n);
        done += n;
    }
}

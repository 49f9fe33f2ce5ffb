/*
 * The pool: threads, their connections, and the readers. Writers are in writer.c.
 *
 * A connection that dies is replaced by its worker: at once, then after pauses that double from
 * BACKOFF_FIRST_MS to BACKOFF_LAST_MS, whether or not a job asks for it. A connection that has been
 * idle for long, or was last seen alive before another worker lost its own, is pinged before it
 * gets a job: a job that meets a dead connection has to run again.
 */
#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"
#include "store/store_private.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#define BACKOFF_FIRST_MS   50
#define BACKOFF_LAST_MS    2000
#define RECONNECT_LIMIT_MS 2000
#define IDLE_NS            (INT64_C(300) * 1000000000) /* what lies between may forget it then */
#define FULL_NS            (INT64_C(10) * 1000000000)
/* Another process holds SQLite's lock for longer than this only when something is wrong. */
#define SQLITE_LOCK_MS 5000
/* PostgreSQL caches 64 subtransactions of a transaction; beyond that, reads become slow for every
 * session. */
#define POSTGRES_SAVEPOINTS 60
#define POOL_MAX            1024
#define QUEUE_MAX           (1 << 20)

/* --- figures ---------------------------------------------------------------------------------- */

static const double group_buckets[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024};

DF_METRIC_FAMILY(jobs_total) = {
    .name = "dataflow_db_jobs_total",
    .help = "Jobs handed to the store, by kind (read, write) and outcome (ok, failed, refused).",
    .type = DF_COUNTER,
    .labels = {"kind", "outcome"},
};
DF_METRIC_FAMILY(job_seconds) = {
    .name = "dataflow_db_job_seconds",
    .help = "Time from queueing a job to its end, which for writes is the commit.",
    .type = DF_HISTOGRAM,
    DF_METRIC_SECONDS,
    .labels = {"kind"},
};
DF_METRIC_FAMILY(queue_waiting) = {
    .name = "dataflow_db_queue_waiting",
    .help = "Jobs queued and not yet begun, by kind. Growing: the database is too slow.",
    .type = DF_GAUGE,
    .labels = {"kind"},
};
DF_METRIC_FAMILY(group_size) = {
    .name = "dataflow_db_group_size",
    .help = "Jobs in one commit.",
    .type = DF_HISTOGRAM,
    .buckets = group_buckets,
    .bucket_count = sizeof(group_buckets) / sizeof(group_buckets[0]),
};
DF_METRIC_FAMILY(commit_seconds) = {
    .name = "dataflow_db_commit_seconds",
    .help = "A commit, fsync included.",
    .type = DF_HISTOGRAM,
    DF_METRIC_SECONDS,
};
DF_METRIC_FAMILY(connections) = {
    .name = "dataflow_db_connections",
    .help = "Open database connections of the store.",
    .type = DF_GAUGE,
};
DF_METRIC_FAMILY(workers) = {
    .name = "dataflow_db_workers",
    .help = "Threads of the store, each with a connection of its own, by kind.",
    .type = DF_GAUGE,
    .labels = {"kind"},
};
DF_METRIC_FAMILY(busy_workers) = {
    .name = "dataflow_db_workers_busy",
    .help = "Threads of the store that have a job in hand, by kind.",
    .type = DF_GAUGE,
    .labels = {"kind"},
};
DF_METRIC_FAMILY(reconnects) = {
    .name = "dataflow_db_reconnects_total",
    .help = "Connections that replaced a lost one.",
    .type = DF_COUNTER,
};

DF_METRIC_FAMILY(failovers) = {
    .name = "dataflow_db_failovers_total",
    .help = "How often another database server has taken over.",
    .type = DF_COUNTER,
};

static struct store_metrics metrics;
static pthread_once_t metrics_once = PTHREAD_ONCE_INIT;

static struct df_metric *jobs_series(struct df_str kind, struct df_str outcome)
{
    return df_metric_get(&jobs_total, (const struct df_str[]){kind, outcome});
}

static void init_metrics(void)
{
    static const struct df_str kinds[2] = {{"read", 4}, {"write", 5}};
    struct df_metric_family *all[] = {&jobs_total,     &job_seconds, &queue_waiting, &group_size,
                                      &commit_seconds, &connections, &reconnects,    &failovers,
                                      &workers,        &busy_workers};

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        df_metric_register(all[i]);
    for (size_t i = 0; i < 2; i++) {
        metrics.jobs_ok[i] = jobs_series(kinds[i], DF_STR("ok"));
        metrics.jobs_failed[i] = jobs_series(kinds[i], DF_STR("failed"));
        metrics.jobs_refused[i] = jobs_series(kinds[i], DF_STR("refused"));
        metrics.job_seconds[i] = df_metric_get(&job_seconds, &kinds[i]);
        metrics.waiting[i] = df_metric_get(&queue_waiting, &kinds[i]);
        metrics.workers[i] = df_metric_get(&workers, &kinds[i]);
        metrics.busy[i] = df_metric_get(&busy_workers, &kinds[i]);
    }
    metrics.group_size = df_metric_get(&group_size, NULL);
    metrics.commit_seconds = df_metric_get(&commit_seconds, NULL);
    metrics.connections = df_metric_get(&connections, NULL);
    metrics.reconnects = df_metric_get(&reconnects, NULL);
    metrics.failovers = df_metric_get(&failovers, NULL);
}

static void collect_waiting(void *arg)
{
    struct df_store *s = arg;
    for (size_t i = 0; i < 2; i++)
        df_metric_set(s->metrics->waiting[i], (double)df_queue_count(&s->queues[i]));
}

/* --- connections ------------------------------------------------------------------------------ */

static void close_connection(struct store_worker *w)
{
    if (!w->db)
        return;
    df_db_close(w->db);
    w->db = NULL;
    df_metric_add(w->store->metrics->connections, -1);
}

/* The server of a new connection: is it another one than before? */
static void note_server(struct df_store *s, const struct df_db *db)
{
    char before[DF_DB_SERVER_MAX];
    uint64_t history = df_db_history(db);

    df_lock(&s->lock);
    bool other = s->history && history && s->history != history;
    memcpy(before, s->server, sizeof(before));
    (void)snprintf(s->server, sizeof(s->server), "%s", df_db_server(db));
    s->history = history ? history : s->history;
    df_unlock(&s->lock);
    if (!other)
        return;
    atomic_fetch_add(&s->failovers, 1);
    df_metric_add(s->metrics->failovers, 1);
    struct df_log_field fields[] = {DF_F("host", df_str_c(df_db_server(db))),
                                    DF_F("before", df_str_c(before))};
    df_log_write(DF_LOG_WARN, "DatabaseFailedOver", fields, 2,
                 "another database server has taken over");
}

static void adopt_connection(struct store_worker *w, struct df_db *take_db)
{
    struct df_store *s = w->store;
    const char *server = df_db_server(take_db);
    struct df_log_field host = DF_F("host", df_str_c(server));

    assert(!w->db);
    w->db = take_db;
    w->proven_ns = store_now_ns();
    df_backoff_reset(&w->backoff);
    w->next_try_ns = 0;
    df_metric_add(s->metrics->connections, 1);
    if (w->was_connected)
        df_metric_add(s->metrics->reconnects, 1);
    w->was_connected = true;
    note_server(s, take_db);
    if (atomic_exchange(&s->down, false))
        df_log_write(DF_LOG_INFO, "DatabaseRestored", &host, server[0] ? 1 : 0,
                     "the database is back");
}

static void tell_lost(struct df_store *s, const char *why)
{
    char server[DF_DB_SERVER_MAX];

    if (atomic_exchange(&s->down, true))
        return;
    df_lock(&s->lock);
    memcpy(server, s->server, sizeof(server));
    df_unlock(&s->lock);
    struct df_log_field host = DF_F("host", df_str_c(server));
    df_log_write(DF_LOG_ERROR, "DatabaseLost", &host, server[0] ? 1 : 0, "%s", why);
}

void df_store_lost(struct store_worker *w, const struct df_err *why)
{
    atomic_store(&w->store->lost_ns, store_now_ns());
    tell_lost(w->store, why->detail);
    close_connection(w);
    w->next_try_ns = store_now_ns(); /* at once, even if no job needs it */
}

static enum df_code open_connection(const struct store_worker *w, int64_t timeout_ms,
                                    struct df_db **ret, struct df_err *err)
{
    struct df_db_options opt = {
        .url = w->store->url,
        .connect_timeout_ms = timeout_ms,
        .statement_timeout_ms = w->store->dialect == DF_SQLITE ? SQLITE_LOCK_MS : 0,
        .read_only = !w->writer,
        .existing = w->was_connected, /* an unmounted disk leaves an empty directory behind */
    };
    return df_db_open(&opt, ret, err);
}

static void try_connect(struct store_worker *w)
{
    struct df_db *db = NULL;
    struct df_err err = DF_ERR_INIT;

    if (open_connection(w, RECONNECT_LIMIT_MS, &db, &err) == DF_OK) {
        adopt_connection(w, db);
        return;
    }
    w->refusal = err;
    int64_t half = df_backoff_more(&w->backoff) / 2;
    int64_t pause_ms = half + (int64_t)df_random_below(w->store->clock, (uint64_t)half + 1);
    w->next_try_ns = store_now_ns() + pause_ms * 1000000;
    tell_lost(w->store, err.detail);
}

/* Closes an idle or suspect connection that does not answer. */
static void drop_dead_connection(struct store_worker *w)
{
    int64_t now = store_now_ns();

    if (!w->db)
        return;
    if (now - w->proven_ns < IDLE_NS && w->proven_ns >= atomic_load(&w->store->lost_ns))
        return; /* a connection to a primary of the past fails in its first call */
    if (df_db_ping(w->db, NULL) == DF_OK)
        w->proven_ns = now;
    else
        close_connection(w);
}

enum df_code df_store_connect(struct store_worker *w, int64_t deadline_ns, struct df_err *err)
{
    drop_dead_connection(w);
    while (!w->db) {
        int64_t now = store_now_ns();
        if (w->next_try_ns > now) {
            if (w->next_try_ns > deadline_ns)
                return df_err_set(
                    err, w->refusal.code == DF_E_DISK_FULL ? DF_E_DISK_FULL : DF_E_DB_UNAVAILABLE,
                    "%s", w->refusal.detail);
            df_sleep_ms((w->next_try_ns - now) / 1000000 + 1);
        }
        try_connect(w);
    }
    return DF_OK;
}

void df_store_pause(const struct df_store *s, int attempt)
{
    uint64_t most_ms = UINT64_C(4) << attempt;
    df_sleep_ms(1 + (int64_t)df_random_below(s->clock, most_ms));
}

/* --- workers ---------------------------------------------------------------------------------- */

void df_store_finish(const struct store_worker *w, struct df_job **jobs, size_t count)
{
    const struct store_metrics *m = w->store->metrics;
    int64_t now = store_now_ns();
    size_t ok = 0;

    for (size_t i = 0; i < count; i++) {
        ok += jobs[i]->code == DF_OK;
        if (jobs[i]->code == DF_E_DISK_FULL)
            atomic_store(&w->store->full_ns, now);
        df_metric_observe(m->job_seconds[w->writer], (double)(now - jobs[i]->queued_ns) / 1e9);
    }
    if (ok > 0)
        df_metric_add(m->jobs_ok[w->writer], (double)ok);
    if (ok < count)
        df_metric_add(m->jobs_failed[w->writer], (double)(count - ok));
    for (size_t i = 0; i < count; i++) {
        const struct df_log_ctx *outer = df_log_ctx_use(jobs[i]->log);
        jobs[i]->done(jobs[i], jobs[i]->code, &jobs[i]->err);
        df_log_ctx_use(outer);
    }
}

static enum df_code read_once(struct df_db *db, struct df_job *job)
{
    const struct df_log_ctx *outer = df_log_ctx_use(job->log);
    enum df_code code = job->run ? job->run(db, job, &job->err)
                                 : df_db_exec(db, job->query, job->params, job->query->param_count,
                                              &job->affected, &job->err);
    df_log_ctx_use(outer);
    df_db_reset(db);
    return code;
}

static void run_read(struct store_worker *w, struct df_job *job)
{
    bool lost_before = false;
    int conflicts = 0;

    for (;;) {
        job->err = DF_ERR_INIT;
        job->code = df_store_connect(w, job->queued_ns + STORE_PATIENCE_NS, &job->err);
        if (job->code != DF_OK)
            break;
        job->code = read_once(w->db, job);
        if (!df_db_alive(w->db)) {
            df_store_lost(w, &job->err);
            if (job->code == DF_OK || lost_before)
                break;
            lost_before = true;
            continue;
        }
        w->proven_ns = store_now_ns();
        if (df_code_retry(job->code) != DF_RETRY_NOW || conflicts == STORE_CONFLICTS_MAX)
            break;
        df_store_pause(w->store, conflicts++);
    }
    df_store_finish(w, &job, 1);
}

/* How long to wait for a job before it is time to reconnect; -1: for ever. */
static int64_t wait_ms(const struct store_worker *w)
{
    if (w->db || w->next_try_ns == 0)
        return -1;
    int64_t left = w->next_try_ns - store_now_ns();
    return left > 0 ? left / 1000000 + 1 : 0;
}

static void work_off_jobs(void *arg)
{
    struct store_worker *w = arg;
    struct df_queue *q = &w->store->queues[w->writer];
    size_t max = w->writer ? w->store->group_max : 1;
    const struct store_metrics *m = w->store->metrics;

    df_metric_add(m->workers[w->writer], 1);
    for (;;) {
        size_t n = df_queue_pop(q, w->items, max, wait_ms(w));
        if (n == 0 && df_queue_closed(q) && df_queue_count(q) == 0)
            break;
        if (n == 0 && !w->db && w->next_try_ns > 0)
            try_connect(w);
        for (size_t i = 0; i < n; i++)
            w->jobs[i] = w->items[i];
        if (n == 0)
            continue;
        df_metric_add(m->busy[w->writer], 1);
        if (w->writer)
            df_writer_run(w, w->jobs, n);
        else
            run_read(w, w->jobs[0]);
        df_metric_add(m->busy[w->writer], -1);
    }
    df_metric_add(m->workers[w->writer], -1);
    close_connection(w);
}

/* --- opening and closing ---------------------------------------------------------------------- */

static int64_t bounded_setting(int64_t v, int64_t def, int64_t min, int64_t max)
{
    int64_t n = v > 0 ? v : def;
    return n < min ? min : n > max ? max : n;
}

static void add_workers(struct df_store *s, int64_t pool_size)
{
    bool sqlite = s->dialect == DF_SQLITE;
    size_t count = (size_t)bounded_setting(pool_size, sqlite ? 3 : 8, 2, POOL_MAX);
    size_t writers = sqlite || count < 4 ? 1 : count / 4;

    s->workers = df_calloc(count, sizeof(*s->workers));
    s->worker_count = count;
    for (size_t i = 0; i < count; i++) {
        struct store_worker *w = &s->workers[i];
        w->store = s;
        w->writer = i < writers;
        w->backoff = (struct df_backoff){.min_ms = BACKOFF_FIRST_MS, .max_ms = BACKOFF_LAST_MS};
        size_t max = w->writer ? s->group_max : 1;
        w->items = df_calloc(max, sizeof(void *));
        w->jobs = df_calloc(max, sizeof(struct df_job *));
        w->affected = df_calloc(max, sizeof(int64_t));
    }
}

static void start_workers(struct df_store *s)
{
    for (size_t i = 0; i < s->worker_count; i++) {
        struct store_worker *w = &s->workers[i];
        char name[16];
        (void)snprintf(name, sizeof(name), "%s-%u", w->writer ? "writer" : "reader",
                       (unsigned)i & 0xffff);
        df_thread_start(&w->thread, name, work_off_jobs, w);
    }
}

enum df_code df_store_open(const struct df_store_options *opt, struct df_store **ret,
                           struct df_err *err)
{
    struct df_db *db = NULL;
    enum df_dialect dialect;
    enum df_code code = df_db_dialect_of(opt->settings.url, &dialect, err);
    if (code != DF_OK)
        return code;

    pthread_once(&metrics_once, init_metrics);
    struct df_store *s = df_calloc(1, sizeof(*s));
    s->url = df_strdup(df_str_c(opt->settings.url));
    s->dialect = dialect;
    s->clock = opt->clock ? opt->clock : df_clock_real();
    s->group_max = (size_t)bounded_setting(opt->settings.group_max, 256, 1, QUEUE_MAX);
    s->savepoints_max = dialect == DF_POSTGRES ? POSTGRES_SAVEPOINTS : SIZE_MAX;
    s->metrics = &metrics;
    df_mutex_init(&s->lock);
    for (size_t i = 0; i < 2; i++)
        df_queue_init(&s->queues[i],
                      (size_t)bounded_setting(opt->settings.queue_size, 4096, 1, QUEUE_MAX));
    add_workers(s, opt->settings.pool_size);
    df_metric_on_collect(collect_waiting, s);

    code = open_connection(&s->workers[0], 0, &db, err);
    if (code == DF_OK) {
        adopt_connection(&s->workers[0], db);
        start_workers(s);
    } else {
        df_store_close(s);
        return code;
    }
    *ret = s;
    return DF_OK;
}

void df_store_stop(struct df_store *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < 2; i++)
        df_queue_close(&s->queues[i]);
    for (size_t i = 0; i < s->worker_count; i++) {
        struct store_worker *w = &s->workers[i];
        df_thread_join(&w->thread);
        close_connection(w);
    }
}

void df_store_close(struct df_store *s)
{
    if (!s)
        return;
    df_store_stop(s);
    for (size_t i = 0; i < s->worker_count; i++) {
        struct store_worker *w = &s->workers[i];
        free(w->items);
        free(w->jobs);
        free(w->affected);
        free(w->values);
    }
    df_metric_off_collect(collect_waiting, s);
    for (size_t i = 0; i < 2; i++)
        df_queue_release(&s->queues[i]);
    df_mutex_destroy(&s->lock);
    free(s->workers);
    free(s->url);
    free(s);
}

/* --- what callers use ------------------------------------------------------------------------- */

static bool submit_job(struct df_store *s, struct df_job *job, bool write)
{
    assert(job->done && (job->run || job->query));
    job->queued_ns = store_now_ns();
    if (df_queue_push(&s->queues[write], job))
        return true;
    df_metric_add(s->metrics->jobs_refused[write], 1);
    return false;
}

bool df_store_write(struct df_store *s, struct df_job *job)
{
    return submit_job(s, job, true);
}

bool df_store_read(struct df_store *s, struct df_job *job)
{
    return submit_job(s, job, false);
}

struct waiter {
    struct df_mutex lock;
    pthread_cond_t ended;
    bool done DF_GUARDED_BY(lock);
    enum df_code code; /* set before done, and not changed afterwards */
    struct df_err err;
};

static void wake_waiter(struct df_job *job, enum df_code code, const struct df_err *err)
{
    struct waiter *waiter = job->waiter;

    assert(waiter);
    df_lock(&waiter->lock);
    waiter->code = code;
    waiter->err = *err;
    waiter->done = true;
    pthread_cond_signal(&waiter->ended);
    df_unlock(&waiter->lock);
}

static enum df_code submit_and_wait(struct df_store *s, struct df_job *job, bool write,
                                    struct df_err *err)
{
    struct waiter waiter = {.lock = DF_MUTEX_INIT, .ended = PTHREAD_COND_INITIALIZER};

    job->waiter = &waiter;
    job->done = wake_waiter;
    if (!submit_job(s, job, write)) {
        job->waiter = NULL;
        bool closed = df_queue_closed(&s->queues[write]);
        return df_err_set(err, closed ? DF_E_DRAINING : DF_E_BUSY,
                          closed ? "the store is closed" : "too much work is waiting");
    }
    df_lock(&waiter.lock);
    while (!waiter.done)
        df_cond_wait(&waiter.ended, &waiter.lock);
    df_unlock(&waiter.lock);
    job->waiter = NULL;
    df_mutex_destroy(&waiter.lock);
    pthread_cond_destroy(&waiter.ended);
    if (waiter.code != DF_OK && err)
        *err = waiter.err;
    return waiter.code;
}

enum df_code df_store_write_wait(struct df_store *s, struct df_job *job, struct df_err *err)
{
    return submit_and_wait(s, job, true, err);
}

enum df_code df_store_read_wait(struct df_store *s, struct df_job *job, struct df_err *err)
{
    return submit_and_wait(s, job, false, err);
}

enum df_dialect df_store_dialect(const struct df_store *s)
{
    return s->dialect;
}

uint64_t df_store_failovers(const struct df_store *s)
{
    return atomic_load(&s->failovers);
}

bool df_store_disk_full(const struct df_store *s)
{
    int64_t at = atomic_load(&s->full_ns);
    return at && store_now_ns() - at < FULL_NS;
}

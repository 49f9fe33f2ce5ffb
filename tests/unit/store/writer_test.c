/*
 * The store: readers, the group-committing writer, lost connections, crashes. On every back end
 * there is; where a connection must die, on PostgreSQL alone.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/metrics.h"
#include "store/store.h"
#include "testdb.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>

static enum df_dialect dialect;
static struct testdb t;
static struct df_err err;

TESTDB_QUERY(key_insert, 2, "INSERT INTO Keys (Id, Name) VALUES (?1, ?2)",
             "INSERT INTO Keys (Id, Name) VALUES ($1, $2)",
             "INSERT INTO Keys (Id, Name) VALUES (?, ?)");
TESTDB_QUERY_MARKED(key_rename, 2, "UPDATE Keys SET Name = ?2 WHERE Id = ?1",
                    "UPDATE Keys SET Name = $2 WHERE Id = $1",
                    "UPDATE Keys SET Name = ? WHERE Id = ?", 1, 0);
TESTDB_QUERY(key_count, 0, "SELECT COUNT(*) FROM Keys", "SELECT COUNT(*) FROM Keys",
             "SELECT COUNT(*) FROM Keys");
TESTDB_QUERY(key_ids, 0, "SELECT Id FROM Keys ORDER BY Id", "SELECT Id FROM Keys ORDER BY Id",
             "SELECT Id FROM Keys ORDER BY Id");
TESTDB_QUERY(backend_pid, 0, "SELECT 0", "SELECT pg_backend_pid()", "SELECT @@SPID");

static void create_tables(void)
{
    struct df_db *db = testdb_open(&t);
    testdb_script(db, dialect == DF_SQLITE
                          ? "CREATE TABLE Keys (Id INTEGER PRIMARY KEY, Name TEXT NOT NULL UNIQUE)"
                          : "CREATE TABLE Keys (Id BIGINT PRIMARY KEY,"
                            " Name VARCHAR(400) NOT NULL UNIQUE)");
    df_db_close(db);
}

static int setup(void **state)
{
    (void)state;
    testdb_init(&t, dialect);
    create_tables();
    err = DF_ERR_INIT;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    testdb_release(&t);
    return 0;
}

static struct df_store *open_store(int64_t queue_size, int64_t group_max)
{
    struct df_store *s = NULL;
    /* One writer, so that groups and their order are known. */
    struct df_store_options opt = {.settings.url = t.url,
                                   .settings.pool_size = 3,
                                   .settings.queue_size = queue_size,
                                   .settings.group_max = group_max};
    assert_ok(df_store_open(&opt, &s, &err), &err);
    return s;
}

static int64_t stored(void)
{
    struct df_db *db = testdb_open(&t);
    int64_t n = testdb_int(db, &key_count);
    df_db_close(db);
    return n;
}

/* --- jobs that write one key ------------------------------------------------------------------ */

struct key_job {
    struct df_job job;
    struct df_value params[2];
    char name[40];
    int runs;
    int fails; /* so many runs end with fail_code */
    enum df_code fail_code;
    int done_calls;
    enum df_code code;
    size_t done_at; /* position among all that were done */
};

static atomic_size_t done_count;
static sem_t done_sem;

static void key_done(struct df_job *job, enum df_code code, const struct df_err *e)
{
    struct key_job *k = (struct key_job *)job;
    (void)e;
    k->code = code;
    k->done_calls++;
    k->done_at = done_count++;
    sem_post(&done_sem);
}

static enum df_code key_run(struct df_db *db, struct df_job *job, struct df_err *e)
{
    struct key_job *k = (struct key_job *)job;
    k->runs++;
    enum df_code code = df_db_exec(db, &key_insert, k->params, 2, NULL, e);
    if (code == DF_OK && k->fails > 0) {
        k->fails--;
        return df_err_set(e, k->fail_code, "the test wants it so");
    }
    return code;
}

static void key_init(struct key_job *k, int64_t id, bool row)
{
    *k = (struct key_job){.job = {.done = key_done}};
    (void)snprintf(k->name, sizeof(k->name), "key-%lld", (long long)id);
    k->params[0] = df_int(id);
    k->params[1] = df_text(df_str_c(k->name));
    if (row) {
        k->job.query = &key_insert;
        k->job.params = k->params;
    } else {
        k->job.run = key_run;
    }
}

static void wait_done(size_t n)
{
    for (size_t i = 0; i < n; i++) {
        while (sem_wait(&done_sem) != 0) {
        }
    }
}

/* --- a job that holds the writer until it is told
 * -------------------------------------------------- */

struct gate {
    struct df_job job;
    sem_t entered;
    sem_t open;
};

static enum df_code gate_run(struct df_db *db, struct df_job *job, struct df_err *e)
{
    struct gate *g = (struct gate *)job;
    (void)db;
    (void)e;
    sem_post(&g->entered);
    while (sem_wait(&g->open) != 0) {
    }
    return DF_OK;
}

static void gate_done(struct df_job *job, enum df_code code, const struct df_err *e)
{
    (void)job;
    (void)code;
    (void)e;
    sem_post(&done_sem);
}

/* What is queued until gate_open is one group. */
static void gate_close(struct gate *g, struct df_store *s, bool write)
{
    *g = (struct gate){.job = {.run = gate_run, .done = gate_done}};
    sem_init(&g->entered, 0, 0);
    sem_init(&g->open, 0, 0);
    assert_true(write ? df_store_write(s, &g->job) : df_store_read(s, &g->job));
    while (sem_wait(&g->entered) != 0) {
    }
}

static void gate_open(struct gate *g)
{
    sem_post(&g->open);
}

/* --- groups ----------------------------------------------------------------------------------- */

#define GROUP 100

static void run_behind_gate(struct df_store *s, struct key_job *jobs, size_t count)
{
    struct gate g;
    done_count = 0;
    gate_close(&g, s, true);
    for (size_t i = 0; i < count; i++)
        assert_true(df_store_write(s, &jobs[i].job));
    gate_open(&g);
    wait_done(count + 1);
}

static void check_group(const struct key_job *jobs, size_t count, size_t bad, enum df_code code)
{
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(jobs[i].code, i == bad ? code : DF_OK);
        assert_int_equal(jobs[i].done_calls, 1);
        assert_int_equal(jobs[i].done_at, i);
    }
}

static void a_failing_job_takes_nobody_with_it(void **state)
{
    (void)state;
    static struct key_job jobs[GROUP];
    struct df_store *s = open_store(0, 0);
    /* 0: all run, 1: all rows, 2: mixed */
    for (int64_t kind = 0; kind < 3; kind++) {
        for (size_t i = 0; i < GROUP; i++)
            key_init(&jobs[i], kind * 1000 + (int64_t)i, kind == 1 || (kind == 2 && i % 7 > 2));
        jobs[37].params[1] = df_text(df_str_c(jobs[11].name)); /* not unique */
        run_behind_gate(s, jobs, GROUP);
        check_group(jobs, GROUP, 37, DF_E_DB_UNIQUE);
        assert_int_equal(stored(), (kind + 1) * (GROUP - 1));
    }
    df_store_close(s);
}

static void rows_that_fail_are_told_apart_wherever_they_stand(void **state)
{
    (void)state;
    enum { N = 64 };
    static const uint64_t patterns[] = {
        0x1,
        0x8000000000000000,
        0x3,
        0x8000000000000001,
        0xAAAAAAAAAAAAAAAA,
        0xFFFFFFFFFFFFFFFF,
        0x00FF000000FF0010,
        0x7FFFFFFFFFFFFFFF,
        0,
    };
    static struct key_job jobs[N];
    struct df_store *s = open_store(0, 0);
    int64_t total = 0;

    for (size_t p = 0; p < sizeof(patterns) / sizeof(patterns[0]); p++) {
        for (size_t i = 0; i < N; i++) {
            key_init(&jobs[i], (int64_t)(p * N + i), true);
            if (patterns[p] >> i & 1)
                jobs[i].params[1] = i % 3 ? df_null(DF_TEXT) : df_text(df_str_n("a\0", 2));
        }
        run_behind_gate(s, jobs, N);
        for (size_t i = 0; i < N; i++) {
            bool bad = patterns[p] >> i & 1;
            enum df_code code = i % 3 ? DF_E_DB_CONSTRAINT : DF_E_INVALID_TEXT;
            assert_int_equal(jobs[i].code, bad ? code : DF_OK);
            assert_int_equal(jobs[i].done_at, i);
            assert_int_equal(jobs[i].job.affected, bad ? 0 : 1);
            total += !bad;
        }
        assert_int_equal(stored(), total);
    }
    df_store_close(s);
}

static void row_jobs_count_what_they_changed(void **state)
{
    (void)state;
    static struct key_job jobs[4];
    struct df_store *s = open_store(0, 0);
    for (int64_t i = 0; i < 4; i++) {
        key_init(&jobs[i], i < 2 ? i : i - 1, true); /* 0, 1, 1, 2 */
        if (i >= 2) {
            jobs[i].job.query = &key_rename;
            jobs[i].name[0] = 'n';
        }
    }
    run_behind_gate(s, jobs, 4);
    static const int64_t affected[] = {1, 1, 1, 0};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(jobs[i].code, DF_OK);
        assert_int_equal(jobs[i].job.affected, affected[i]);
    }
    df_store_close(s);
}

static void a_conflict_is_run_again_and_a_lasting_one_fails_alone(void **state)
{
    (void)state;
    static struct key_job jobs[10];
    struct df_store *s = open_store(0, 0);
    for (size_t i = 0; i < 10; i++)
        key_init(&jobs[i], (int64_t)i, i >= 8);
    jobs[3].fails = 2;
    jobs[3].fail_code = DF_E_DB_CONFLICT;
    run_behind_gate(s, jobs, 10);
    check_group(jobs, 10, SIZE_MAX, DF_OK);
    assert_int_equal(jobs[3].runs, 3);
    assert_int_equal(stored(), 10);

    for (size_t i = 0; i < 10; i++)
        key_init(&jobs[i], 100 + (int64_t)i, i >= 8);
    jobs[3].fails = 1000;
    jobs[3].fail_code = DF_E_DB_CONFLICT;
    run_behind_gate(s, jobs, 10);
    check_group(jobs, 10, 3, DF_E_DB_CONFLICT);
    assert_int_equal(jobs[3].runs, 6);
    assert_int_equal(stored(), 19);
    df_store_close(s);
}

static void what_a_failed_job_wrote_is_undone(void **state)
{
    (void)state;
    static struct key_job jobs[3];
    struct df_store *s = open_store(0, 0);
    for (size_t i = 0; i < 3; i++) {
        key_init(&jobs[i], (int64_t)i, false);
        jobs[i].fails = i == 1;
        jobs[i].fail_code = DF_E_VALIDATION;
    }
    run_behind_gate(s, jobs, 3);
    check_group(jobs, 3, 1, DF_E_VALIDATION);
    assert_int_equal(jobs[1].runs, 1);
    assert_int_equal(stored(), 2);

    /* All of a group failed: nothing is left to commit. */
    key_init(&jobs[0], 50, false);
    jobs[0].fails = 1;
    jobs[0].fail_code = DF_E_CONFLICT;
    run_behind_gate(s, jobs, 1);
    assert_int_equal(jobs[0].code, DF_E_CONFLICT);
    assert_int_equal(stored(), 2);
    df_store_close(s);
}

static enum df_code sloppy_run(struct df_db *db, struct df_job *job, struct df_err *e)
{
    struct df_result *r = NULL;
    (void)job;
    return df_db_query(db, &key_ids, DF_NO_PARAMS, &r, e); /* never frees it */
}

static enum df_code swallow_run(struct df_db *db, struct df_job *job, struct df_err *e)
{
    (void)job;
    (void)!df_db_exec(db, &key_insert, DF_PARAMS(df_int(1), df_text(DF_STR("x"))), NULL, e);
    return DF_OK; /* whatever happened */
}

static enum df_code meddling_run(struct df_db *db, struct df_job *job, struct df_err *e)
{
    (void)job;
    return df_db_savepoint(db, e);
}

static void careless_jobs_harm_only_themselves(void **state)
{
    (void)state;
    enum df_code (*const careless[])(struct df_db *, struct df_job *,
                                     struct df_err *) = {sloppy_run, swallow_run, meddling_run};
    static struct key_job jobs[5];
    struct df_store *s = open_store(0, 0);
    for (size_t i = 0; i < 5; i++)
        key_init(&jobs[i], (int64_t)i, false);
    for (size_t i = 0; i < 3; i++)
        jobs[i + 2].job.run = careless[i];
    run_behind_gate(s, jobs, 5);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(jobs[i].code == DF_OK, i < 2);
    assert_int_equal(stored(), 2);
    df_store_close(s);
}

static void groups_larger_than_the_maximum_are_committed_in_several(void **state)
{
    (void)state;
    static struct key_job jobs[GROUP];
    struct df_store *s = open_store(0, 7);
    for (size_t i = 0; i < GROUP; i++)
        key_init(&jobs[i], (int64_t)i, i % 2);
    run_behind_gate(s, jobs, GROUP);
    check_group(jobs, GROUP, SIZE_MAX, DF_OK);
    assert_int_equal(stored(), GROUP);
    df_store_close(s);
}

/* --- queues ----------------------------------------------------------------------------------- */

static void a_full_queue_refuses(void **state)
{
    (void)state;
    static struct key_job jobs[3];
    struct df_store *s = open_store(2, 0);
    struct gate g;
    gate_close(&g, s, true);
    for (size_t i = 0; i < 3; i++) {
        key_init(&jobs[i], (int64_t)i, true);
        assert_int_equal(df_store_write(s, &jobs[i].job), i < 2);
    }
    assert_code(df_store_write_wait(s, &jobs[2].job, &err), DF_E_BUSY, &err);
    gate_open(&g);
    wait_done(3);
    assert_int_equal(jobs[2].done_calls, 0);
    df_store_close(s);
    assert_int_equal(stored(), 2);
}

static void closing_finishes_what_is_queued(void **state)
{
    (void)state;
    enum { N = 1000 };
    static struct key_job jobs[N];
    struct df_store *s = open_store(0, 0);
    for (size_t i = 0; i < N; i++) {
        key_init(&jobs[i], (int64_t)i, i % 3 > 0);
        assert_true(df_store_write(s, &jobs[i].job));
    }
    df_store_close(s);
    for (size_t i = 0; i < N; i++) {
        assert_int_equal(jobs[i].code, DF_OK);
        assert_int_equal(jobs[i].done_calls, 1);
        assert_int_equal(sem_trywait(&done_sem), 0);
    }
    assert_int_equal(stored(), N);
    df_store_close(NULL);
}

static void a_store_that_cannot_open_says_so(void **state)
{
    (void)state;
    struct df_store *s = NULL;
    struct df_store_options opt = {.settings.url = "sqlite:/nonexistent/x.db"};
    assert_code(df_store_open(&opt, &s, &err), DF_E_DB_UNAVAILABLE, &err);
    opt.settings.url = "postgres://nobody:hunter2@127.0.0.1:1/x";
    assert_code(df_store_open(&opt, &s, &err), DF_E_DB_UNAVAILABLE, &err);
    assert_null(strstr(err.detail, "hunter2"));
    opt.settings.url = "nonsense";
    assert_code(df_store_open(&opt, &s, &err), DF_E_CONFIG, &err);
    assert_null(s);
}

/* --- readers ---------------------------------------------------------------------------------- */

struct read_job {
    struct df_job job;
    const struct df_query *query;
    int64_t value;
};

static enum df_code read_run(struct df_db *db, struct df_job *job, struct df_err *e)
{
    struct read_job *rj = (struct read_job *)job;
    struct df_result *r = NULL;
    enum df_code code = df_db_query(db, rj->query, DF_NO_PARAMS, &r, e);
    if (code != DF_OK)
        return code;
    code = df_result_step(r, e);
    if (code == DF_ROW) {
        rj->value = df_col_int(r, 0);
        code = DF_OK;
    }
    df_result_free(r);
    return code;
}

static int64_t read_int(struct df_store *s, const struct df_query *q)
{
    struct read_job rj = {.job = {.run = read_run}, .query = q};
    assert_ok(df_store_read_wait(s, &rj.job, &err), &err);
    return rj.value;
}

static void readers_see_what_was_answered(void **state)
{
    (void)state;
    struct df_store *s = open_store(0, 0);
    struct key_job k;
    assert_int_equal(df_store_dialect(s), dialect);
    for (int64_t i = 0; i < 20; i++) {
        key_init(&k, i, i % 2);
        assert_ok(df_store_write_wait(s, &k.job, &err), &err);
        assert_int_equal(read_int(s, &key_count), i + 1);
    }
    key_init(&k, 3, true);
    assert_code(df_store_write_wait(s, &k.job, &err), DF_E_DB_UNIQUE, &err);
    assert_non_null(strstr(err.detail, "key_insert"));
    df_store_close(s);
}

static void readers_do_not_wait_for_the_writer(void **state)
{
    (void)state;
    struct df_store *s = open_store(0, 0);
    struct gate g;
    gate_close(&g, s, true);
    assert_int_equal(read_int(s, &key_count), 0);
    gate_open(&g);
    wait_done(1);
    df_store_close(s);
}

static void readers_cannot_write_and_leave_nothing_open(void **state)
{
    (void)state;
    struct df_store *s = open_store(0, 0);
    struct key_job k;
    struct df_job sloppy = {.run = sloppy_run};
    key_init(&k, 1, false);
    assert_code(df_store_read_wait(s, &k.job, &err), DF_E_USAGE, &err);
    for (int i = 0; i < 6; i++) {
        assert_ok(df_store_read_wait(s, &sloppy, &err), &err);
        assert_int_equal(read_int(s, &key_count), 0);
    }
    df_store_close(s);
}

/* --- many producers --------------------------------------------------------------------------- */

struct producer {
    struct df_store *store;
    int64_t first;
    int failed;
};

static void *produce(void *arg)
{
    struct producer *p = arg;
    for (int64_t i = 0; i < 40; i++) {
        struct df_err e = DF_ERR_INIT;
        struct key_job k;
        key_init(&k, p->first + i, i % 4);
        p->failed += df_store_write_wait(p->store, &k.job, &e) != DF_OK;
    }
    return NULL;
}

static void many_producers_are_all_served(void **state)
{
    (void)state;
    enum { PRODUCERS = 8 };
    struct producer producers[PRODUCERS];
    pthread_t threads[PRODUCERS];
    struct df_store *s = NULL;
    struct df_store_options opt = {.settings.url = t.url}; /* as in production */
    assert_ok(df_store_open(&opt, &s, &err), &err);
    for (size_t i = 0; i < PRODUCERS; i++) {
        producers[i] = (struct producer){.store = s, .first = (int64_t)i * 1000};
        assert_int_equal(pthread_create(&threads[i], NULL, produce, &producers[i]), 0);
    }
    for (size_t i = 0; i < PRODUCERS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(producers[i].failed, 0);
    }
    df_store_close(s);
    assert_int_equal(stored(), PRODUCERS * 40);
}

static void figures_are_kept(void **state)
{
    (void)state;
    struct df_buf out;
    struct df_store *s = open_store(0, 0);
    struct key_job k;
    key_init(&k, 1, true);
    assert_ok(df_store_write_wait(s, &k.job, &err), &err);
    df_buf_init(&out, 1 << 20);
    df_metrics_write(&out);
    static const char *const names[] = {
        "dataflow_db_jobs_total{kind=\"write\",outcome=\"ok\"}",
        "dataflow_db_job_seconds_count{kind=\"write\"}",
        "dataflow_db_group_size_count",
        "dataflow_db_commit_seconds_count",
        "dataflow_db_queue_waiting{kind=\"read\"} 0",
        "dataflow_db_connections 1",
        "dataflow_db_reconnects_total",
        "dataflow_db_statement_seconds_count{call=\"commit\"}",
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (!strstr(out.ptr, names[i]))
            fail_msg("no %s", names[i]);
    }
    df_buf_release(&out);
    df_store_close(s);
}

/* --- jobs that take the transaction with them ------------------------------------------------- */

/* As SQL Server does for some errors. PostgreSQL never does; SQLite when told so. */
static enum df_code sabotage_run(struct df_db *db, struct df_job *job, struct df_err *e)
{
    struct key_job *k = (struct key_job *)job;
    k->runs++;
    enum df_code code = df_db_exec(db, &key_insert, k->params, 2, NULL, e);
    if (code == DF_OK)
        code = df_db_script(db, "ROLLBACK TRANSACTION", e);
    return code == DF_OK ? df_err_set(e, DF_E_DB_CONSTRAINT, "the value is bad") : code;
}

static void who_takes_the_transaction_with_it_takes_nobody_else(void **state)
{
    (void)state;
    if (dialect == DF_POSTGRES)
        skip();
    enum { N = 20 };
    static struct key_job jobs[N];
    struct df_store *s = open_store(0, 0);
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < N; i++)
            key_init(&jobs[i], (int64_t)round * 100 + (int64_t)i, round);
        for (size_t i = 3; i < N; i += 7)
            jobs[i].job.run = sabotage_run;
        run_behind_gate(s, jobs, N);
        for (size_t i = 0; i < N; i++) {
            bool bad = i % 7 == 3;
            assert_int_equal(jobs[i].code, bad ? DF_E_DB_CONSTRAINT : DF_OK);
            assert_int_equal(jobs[i].done_at, i);
            if (bad)
                assert_int_equal(jobs[i].runs, 1);
        }
        assert_int_equal(stored(), (round + 1) * (N - 3));
    }
    df_store_close(s);
}

/* --- lost connections ------------------------------------------------------------------------- */

static void kill_backend(int64_t pid)
{
    char sql[64];
    (void)snprintf(sql, sizeof(sql),
                   dialect == DF_POSTGRES ? "SELECT pg_terminate_backend(%lld)" : "KILL %lld",
                   (long long)pid);
    testdb_admin(&t, sql);
}

static enum df_code pid_run(struct df_db *db, struct df_job *job, struct df_err *e)
{
    return read_run(db, job, e);
}

static void the_store_replaces_connections_that_were_cut(void **state)
{
    (void)state;
    if (dialect == DF_SQLITE)
        skip();
    struct df_store *s = open_store(0, 0);
    for (int64_t i = 0; i < 3; i++) {
        struct read_job writer = {.job = {.run = pid_run}, .query = &backend_pid};
        struct key_job k;
        assert_ok(df_store_write_wait(s, &writer.job, &err), &err);
        kill_backend(writer.value);
        kill_backend(read_int(s, &backend_pid));
        key_init(&k, i, i % 2);
        assert_ok(df_store_write_wait(s, &k.job, &err), &err);
        assert_int_equal(read_int(s, &key_count), i + 1);
    }
    df_store_close(s);
}

static enum df_code suicide_run(struct df_db *db, struct df_job *job, struct df_err *e)
{
    struct key_job *k = (struct key_job *)job;
    k->runs++;
    if (k->fails-- > 0) {
        kill_backend(testdb_int(db, &backend_pid));
        return df_db_ping(db, e);
    }
    return df_db_exec(db, &key_insert, k->params, 2, NULL, e);
}

static void a_group_cut_before_its_commit_is_run_again_once(void **state)
{
    (void)state;
    if (dialect == DF_SQLITE)
        skip();
    static struct key_job jobs[10];
    struct df_store *s = open_store(0, 0);
    for (int fails = 1; fails <= 2; fails++) {
        for (size_t i = 0; i < 10; i++)
            key_init(&jobs[i], (int64_t)fails * 100 + (int64_t)i, i > 7);
        jobs[5].job.run = suicide_run;
        jobs[5].fails = fails;
        run_behind_gate(s, jobs, 10);
        for (size_t i = 0; i < 10; i++) {
            assert_int_equal(jobs[i].code, fails == 1 ? DF_OK : DF_E_DB_UNAVAILABLE);
            assert_int_equal(jobs[i].done_at, i);
        }
        assert_int_equal(jobs[5].runs, 2);
        assert_int_equal(stored(), 10);
    }
    df_store_close(s);
}

/* Whether the transaction happened cannot be known: it is not run again, and not called a success.
 */
static void a_group_cut_in_its_commit_is_not_run_again(void **state)
{
    (void)state;
    if (dialect != DF_POSTGRES)
        skip();
    static struct key_job jobs[5];
    struct df_db *db = testdb_open(&t);
    testdb_script(db,
                  "CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
                  " PERFORM pg_terminate_backend(pg_backend_pid()); PERFORM pg_sleep(10); RETURN "
                  "NULL; END $$;"
                  "CREATE CONSTRAINT TRIGGER Die AFTER INSERT ON Keys DEFERRABLE INITIALLY DEFERRED"
                  " FOR EACH ROW WHEN (NEW.Id = 3) EXECUTE FUNCTION die();");
    df_db_close(db);
    struct df_store *s = open_store(0, 0);
    for (size_t i = 0; i < 5; i++)
        key_init(&jobs[i], (int64_t)i, false);
    run_behind_gate(s, jobs, 5);
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(jobs[i].code, DF_E_DB_UNAVAILABLE);
        assert_int_equal(jobs[i].runs, 1);
    }
    assert_non_null(strstr(jobs[0].job.err.detail, "not known"));
    key_init(&jobs[0], 7, false);
    assert_ok(df_store_write_wait(s, &jobs[0].job, &err), &err);
    df_store_close(s);
    assert_int_equal(stored(), 1);
}

static void set_connections_allowed(bool allowed)
{
    char sql[1024];
    (void)snprintf(
        sql, sizeof(sql),
        "ALTER ROLE %s_user %s;"
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '%s_user'",
        t.schema, allowed ? "LOGIN" : "NOLOGIN", t.schema);
    testdb_admin(&t, sql);
}

static void while_the_database_is_away_jobs_fail_and_then_all_goes_on(void **state)
{
    (void)state;
    if (dialect != DF_POSTGRES)
        skip();
    char url[2048];
    char sql[1024];
    struct df_store *s = NULL;
    struct key_job k;

    (void)snprintf(sql, sizeof(sql),
                   "CREATE ROLE %s_user LOGIN PASSWORD 'x'; GRANT ALL ON SCHEMA %s TO %s_user;"
                   "GRANT ALL ON ALL TABLES IN SCHEMA %s TO %s_user",
                   t.schema, t.schema, t.schema, t.schema, t.schema);
    testdb_admin(&t, sql);
    (void)snprintf(url, sizeof(url), "%s&user=%s_user&password=x", t.url, t.schema);
    struct df_store_options opt = {.settings.url = url, .settings.pool_size = 3};
    assert_ok(df_store_open(&opt, &s, &err), &err);
    key_init(&k, 1, true);
    assert_ok(df_store_write_wait(s, &k.job, &err), &err);

    set_connections_allowed(false);
    for (int64_t i = 2; i < 6; i++) {
        key_init(&k, i, true);
        assert_code(df_store_write_wait(s, &k.job, &err), DF_E_DB_UNAVAILABLE, &err);
        struct read_job rj = {.job = {.run = read_run}, .query = &key_count};
        assert_code(df_store_read_wait(s, &rj.job, &err), DF_E_DB_UNAVAILABLE, &err);
    }
    set_connections_allowed(true);
    enum df_code code = DF_E_DB_UNAVAILABLE;
    for (int i = 0; i < 1200 && code == DF_E_DB_UNAVAILABLE; i++) {
        key_init(&k, 7, true);
        code = df_store_write_wait(s, &k.job, &err);
        (void)usleep(50000);
    }
    assert_ok(code, &err);
    df_store_close(s);
    assert_int_equal(stored(), 2);
    (void)snprintf(sql, sizeof(sql), "DROP OWNED BY %s_user; DROP ROLE %s_user", t.schema,
                   t.schema);
    testdb_admin(&t, sql);
}

/* --- a full disk ------------------------------------------------------------------------------ */

static enum df_code set_limit_run(struct df_db *db, struct df_job *job, struct df_err *e)
{
    struct key_job *k = (struct key_job *)job;
    return df_db_script(db, k->name, e);
}

static void set_page_limit(struct df_store *s, int pages)
{
    struct key_job k;
    key_init(&k, 0, false);
    k.job.run = set_limit_run;
    (void)snprintf(k.name, sizeof(k.name), "PRAGMA max_page_count=%d", pages);
    assert_ok(df_store_write_wait(s, &k.job, &err), &err);
}

static void a_full_disk_is_told_and_survived(void **state)
{
    (void)state;
    if (dialect != DF_SQLITE)
        skip();
    enum { LARGE = 200000 };
    static char large[LARGE];
    static struct key_job jobs[6];
    struct df_store *s = open_store(0, 0);

    memset(large, 'x', LARGE);
    set_page_limit(s, 10);
    for (size_t i = 0; i < 6; i++)
        key_init(&jobs[i], (int64_t)i, i % 2);
    jobs[3].params[1] = df_text(df_str_n(large, LARGE));
    run_behind_gate(s, jobs, 6);
    assert_int_equal(jobs[3].code, DF_E_DISK_FULL);
    assert_non_null(strstr(jobs[3].job.err.detail, "disk is full"));
    int64_t ok = 0;
    for (size_t i = 0; i < 6; i++)
        ok += jobs[i].code == DF_OK;
    assert_int_equal(stored(), ok);

    set_page_limit(s, 100000);
    key_init(&jobs[0], 100, true);
    jobs[0].params[1] = df_text(df_str_n(large, LARGE));
    assert_ok(df_store_write_wait(s, &jobs[0].job, &err), &err);
    df_store_close(s);
    assert_int_equal(stored(), ok + 1);
}

/* --- crashes ---------------------------------------------------------------------------------- */

static int ack_fd;

static void ack_done(struct df_job *job, enum df_code code, const struct df_err *e)
{
    struct key_job *k = (struct key_job *)job;
    (void)e;
    k->code = code;
    if (code == DF_OK && write(ack_fd, &k->params[0].i, sizeof(int64_t)) != sizeof(int64_t))
        _exit(1);
    sem_post(&done_sem);
}

/* Writes keys and tells of each that was committed, until it is killed. */
__attribute__((noreturn)) static void write_until_killed(int64_t first)
{
    enum { WINDOW = 32 };
    static struct key_job jobs[WINDOW];
    struct df_store *s = NULL;
    struct df_err e = DF_ERR_INIT;
    struct df_store_options opt = {.settings.url = t.url};

    if (df_store_open(&opt, &s, &e) != DF_OK)
        _exit(1);
    for (int64_t id = first;; id += WINDOW) {
        for (int64_t i = 0; i < WINDOW; i++) {
            key_init(&jobs[i], id + i, i % 5);
            jobs[i].job.done = ack_done;
            if (!df_store_write(s, &jobs[i].job))
                _exit(1);
        }
        wait_done(WINDOW);
    }
}

static size_t read_acks(int fd, int64_t *ids, size_t max, size_t stop_at, pid_t child)
{
    size_t n = 0;
    while (n < max && read(fd, &ids[n], sizeof(int64_t)) == sizeof(int64_t)) {
        if (++n == stop_at)
            kill(child, SIGKILL);
    }
    return n;
}

static void check_stored(const int64_t *ids, size_t count, int64_t first)
{
    enum { MAX = 100000 };
    static bool present[MAX];
    struct df_db *db = testdb_open(&t);
    struct df_result *r = NULL;

    memset(present, 0, sizeof(present));
    assert_ok(df_db_query(db, &key_ids, DF_NO_PARAMS, &r, &err), &err);
    while (df_result_step(r, &err) == DF_ROW) {
        int64_t id = df_col_int(r, 0) - first;
        if (id >= 0 && id < MAX)
            present[id] = true;
    }
    df_result_free(r);
    df_db_close(db);
    for (size_t i = 0; i < count; i++)
        assert_true(present[ids[i] - first]);
}

static void what_was_acknowledged_survives_kill_9(void **state)
{
    (void)state;
    static const size_t stops[] = {1, 33, 100, 517};
    static int64_t ids[100000];

    for (size_t i = 0; i < sizeof(stops) / sizeof(stops[0]); i++) {
        int fds[2];
        int64_t first = (int64_t)i * 1000000;
        assert_int_equal(pipe(fds), 0);
        pid_t child = fork();
        if (child == 0) {
            (void)close(fds[0]);
            ack_fd = fds[1];
            write_until_killed(first);
        }
        assert_true(child > 0);
        (void)close(fds[1]);
        size_t n = read_acks(fds[0], ids, sizeof(ids) / sizeof(ids[0]), stops[i], child);
        int status = 0;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        (void)close(fds[0]);
        assert_true(n >= stops[i]);
        check_stored(ids, n, first);
    }
}

int main(void)
{
#define ON_EACH(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        ON_EACH(a_failing_job_takes_nobody_with_it),
        ON_EACH(rows_that_fail_are_told_apart_wherever_they_stand),
        ON_EACH(row_jobs_count_what_they_changed),
        ON_EACH(a_conflict_is_run_again_and_a_lasting_one_fails_alone),
        ON_EACH(what_a_failed_job_wrote_is_undone),
        ON_EACH(careless_jobs_harm_only_themselves),
        ON_EACH(groups_larger_than_the_maximum_are_committed_in_several),
        ON_EACH(a_full_queue_refuses),
        ON_EACH(closing_finishes_what_is_queued),
        ON_EACH(a_store_that_cannot_open_says_so),
        ON_EACH(readers_see_what_was_answered),
        ON_EACH(readers_do_not_wait_for_the_writer),
        ON_EACH(readers_cannot_write_and_leave_nothing_open),
        ON_EACH(many_producers_are_all_served),
        ON_EACH(figures_are_kept),
        ON_EACH(who_takes_the_transaction_with_it_takes_nobody_else),
        ON_EACH(the_store_replaces_connections_that_were_cut),
        ON_EACH(a_group_cut_before_its_commit_is_run_again_once),
        ON_EACH(a_group_cut_in_its_commit_is_not_run_again),
        ON_EACH(while_the_database_is_away_jobs_fail_and_then_all_goes_on),
        ON_EACH(a_full_disk_is_told_and_survived),
        ON_EACH(what_was_acknowledged_survives_kill_9),
    };
    sem_init(&done_sem, 0, 0);
    return testdb_run_tests("writer", &dialect, tests, sizeof(tests) / sizeof(tests[0]));
}

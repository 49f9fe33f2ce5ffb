/* Jobs that run together (df_job.run_all): order, failures, conflicts, lost connections. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "store/store.h"
#include "testdb.h"

#include <semaphore.h>

#define N 40

static enum df_dialect dialect;
static struct testdb t;
static struct df_store *store;
static struct df_err err;

TESTDB_QUERY(key_insert, 1, "INSERT INTO Keys (Id) VALUES (?1)",
             "INSERT INTO Keys (Id) VALUES ($1)", "INSERT INTO Keys (Id) VALUES (?)");
TESTDB_QUERY(key_count, 0, "SELECT COUNT(*) FROM Keys", "SELECT COUNT(*) FROM Keys",
             "SELECT COUNT(*) FROM Keys");
TESTDB_QUERY(backend_pid, 0, "SELECT 0", "SELECT pg_backend_pid()", "SELECT @@SPID");

/* What a run of the test wants to happen, and what it saw. */
static struct {
    enum df_code code; /* with which run_all ends */
    int times;         /* how often */
    bool rolls_back;   /* everything, as SQL Server does */
    bool cuts;         /* the connection */
    bool by_job;       /* run_all fails as long as a job that fails is among its jobs */
} plan;
static size_t together_calls, together_jobs, alone_calls, done_calls;
static sem_t done_sem;

struct job {
    struct df_job job;
    int64_t id;
    enum df_code fails; /* when it runs alone */
    enum df_code code;
    size_t done_at;
};

static int setup(void **state)
{
    (void)state;
    testdb_init(&t, dialect);
    struct df_db *db = testdb_open(&t);
    testdb_script(db, "CREATE TABLE Keys (Id BIGINT PRIMARY KEY)");
    df_db_close(db);
    struct df_store_options opt = {.settings.url = t.url, .settings.pool_size = 3};
    assert_ok(df_store_open(&opt, &store, &err), &err);
    memset(&plan, 0, sizeof(plan));
    together_calls = together_jobs = alone_calls = done_calls = 0;
    sem_init(&done_sem, 0, 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    df_store_close(store);
    testdb_release(&t);
    return 0;
}

static int64_t stored(void)
{
    struct df_db *db = testdb_open(&t);
    int64_t n = testdb_int(db, &key_count);
    df_db_close(db);
    return n;
}

static void cut(struct df_db *db)
{
    char sql[64];
    (void)snprintf(sql, sizeof(sql),
                   dialect == DF_POSTGRES ? "SELECT pg_terminate_backend(%lld)" : "KILL %lld",
                   (long long)testdb_int(db, &backend_pid));
    testdb_admin(&t, sql);
}

static enum df_code run_alone(struct df_db *db, struct df_job *base, struct df_err *e)
{
    struct job *j = (struct job *)base;
    alone_calls++;
    enum df_code code = df_db_exec(db, &key_insert, DF_PARAMS(df_int(j->id)), NULL, e);
    return code == DF_OK && j->fails != DF_OK ? df_err_set(e, j->fails, "alone") : code;
}

static enum df_code run_together(struct df_db *db, struct df_job **jobs, size_t count,
                                 struct df_err *e)
{
    enum df_code code = DF_OK;

    together_calls++;
    together_jobs += count;
    assert_true(count > 1);
    for (size_t i = 0; i < count && code == DF_OK; i++)
        code = df_db_exec(db, &key_insert, DF_PARAMS(df_int(((struct job *)jobs[i])->id)), NULL, e);
    for (size_t i = 0; i < count && code == DF_OK && plan.by_job; i++)
        code = ((struct job *)jobs[i])->fails;
    if (code != DF_OK || plan.times == 0)
        return code;
    plan.times--;
    if (plan.cuts) {
        cut(db);
        return df_db_ping(db, e);
    }
    if (plan.rolls_back)
        assert_ok(df_db_script(db, "ROLLBACK TRANSACTION", e), e);
    return df_err_set(e, plan.code, "together");
}

static void job_done(struct df_job *base, enum df_code code, const struct df_err *e)
{
    struct job *j = (struct job *)base;
    (void)e;
    j->code = code;
    j->done_at = done_calls++;
    sem_post(&done_sem);
}

static sem_t entered, opened;

static enum df_code gate_run(struct df_db *db, struct df_job *job, struct df_err *e)
{
    (void)db;
    (void)job;
    (void)e;
    sem_post(&entered);
    while (sem_wait(&opened) != 0) {
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

/* Runs the jobs as one group. */
static void run_group(struct job *jobs)
{
    struct df_job gate = {.run = gate_run, .done = gate_done};

    sem_init(&entered, 0, 0);
    sem_init(&opened, 0, 0);
    assert_true(df_store_write(store, &gate));
    while (sem_wait(&entered) != 0) {
    }
    for (size_t i = 0; i < N; i++)
        assert_true(df_store_write(store, &jobs[i].job));
    sem_post(&opened);
    for (size_t i = 0; i < N + 1; i++) {
        while (sem_wait(&done_sem) != 0) {
        }
    }
}

static void init_jobs(struct job *jobs)
{
    for (size_t i = 0; i < N; i++)
        jobs[i] = (struct job){
            .job = {.run = run_alone, .run_all = run_together, .done = job_done},
            .id = (int64_t)i,
        };
}

/* All but `bad` succeeded, in order. */
static void check(const struct job *jobs, size_t bad, enum df_code code)
{
    for (size_t i = 0; i < N; i++) {
        assert_int_equal(jobs[i].code, i == bad ? code : DF_OK);
        assert_int_equal(jobs[i].done_at, i);
    }
    assert_int_equal(stored(), bad < N ? N - 1 : N);
}

static void neighbours_run_by_one_call(void **state)
{
    (void)state;
    static struct job jobs[N];
    init_jobs(jobs);
    run_group(jobs);
    check(jobs, N, DF_OK);
    assert_int_equal(together_calls, 1);
    assert_int_equal(together_jobs, N);
    assert_int_equal(alone_calls, 0);
}

static void others_between_them_keep_their_place(void **state)
{
    (void)state;
    static struct job jobs[N];
    struct df_value row = df_int(7);
    init_jobs(jobs);
    jobs[0].job.run_all = NULL;
    jobs[7].job = (struct df_job){.query = &key_insert, .params = &row, .done = job_done};
    jobs[20].job.run_all = NULL;
    jobs[22].job.run_all = NULL; /* 21 has no neighbour left */
    run_group(jobs);
    check(jobs, N, DF_OK);
    assert_int_equal(together_calls, 3); /* 1 to 6, 8 to 19, 23 to the end */
    assert_int_equal(together_jobs, N - 5);
    assert_int_equal(alone_calls, 4);
}

/* A call of 40 is halved six times at most until the job at fault is alone. */
static void the_job_at_fault_is_found_by_halves(void **state)
{
    (void)state;
    static const size_t places[] = {0, 17, N - 1};
    for (size_t p = 0; p < 3; p++) {
        static struct job jobs[N];
        (void)(p > 0 ? setup(NULL) : 0);
        init_jobs(jobs);
        plan.by_job = true;
        jobs[places[p]].fails = DF_E_VALIDATION;
        run_group(jobs);
        check(jobs, places[p], DF_E_VALIDATION);
        assert_in_range(together_calls, 5, 1 + 2 * 6);
        assert_in_range(alone_calls, 1, 3);
        (void)(p < 2 ? teardown(NULL) : 0);
    }
}

/* They fit beside each other into no call. */
static void two_with_the_same_key_part_by_halves(void **state)
{
    (void)state;
    static struct job jobs[N];
    init_jobs(jobs);
    jobs[30].id = 3;
    run_group(jobs);
    check(jobs, 30, DF_E_DB_UNIQUE);
    assert_in_range(alone_calls, 1, 3);
}

static void if_all_fail_each_has_its_error(void **state)
{
    (void)state;
    static struct job jobs[N];
    init_jobs(jobs);
    plan.by_job = true;
    for (size_t i = 0; i < N; i++)
        jobs[i].fails = i % 2 ? DF_E_VALIDATION : DF_E_NOT_FOUND;
    run_group(jobs);
    for (size_t i = 0; i < N; i++) {
        assert_int_equal(jobs[i].code, jobs[i].fails);
        assert_int_equal(jobs[i].done_at, i);
    }
    assert_int_equal(alone_calls, N);
    assert_int_equal(stored(), 0);
}

static void a_conflict_runs_the_group_again(void **state)
{
    (void)state;
    static struct job jobs[N];
    init_jobs(jobs);
    plan.code = DF_E_DB_CONFLICT;
    plan.times = 2;
    run_group(jobs);
    check(jobs, N, DF_OK);
    assert_int_equal(together_calls, 3);
    assert_int_equal(alone_calls, 0);
}

static void a_lasting_conflict_ends_with_each_alone(void **state)
{
    (void)state;
    static struct job jobs[N];
    init_jobs(jobs);
    plan.code = DF_E_DB_CONFLICT;
    plan.times = 1000;
    jobs[5].fails = DF_E_DB_CONFLICT;
    run_group(jobs);
    check(jobs, 5, DF_E_DB_CONFLICT);
    assert_int_equal(alone_calls, N);
}

static void a_call_that_undoes_everything_is_taken_apart(void **state)
{
    (void)state;
    if (dialect == DF_POSTGRES)
        skip(); /* its transaction is gone only with the connection */
    static struct job jobs[N];
    init_jobs(jobs);
    plan.code = DF_E_DB_CONSTRAINT;
    plan.times = 1000;
    plan.rolls_back = true;
    jobs[9].fails = DF_E_VALIDATION;
    run_group(jobs);
    check(jobs, 9, DF_E_VALIDATION);
    assert_int_equal(together_calls, 1);
    assert_int_equal(alone_calls, N);
}

static void a_lost_connection_runs_them_again_together(void **state)
{
    (void)state;
    if (dialect == DF_SQLITE)
        skip();
    static struct job jobs[N];
    init_jobs(jobs);
    plan.times = 1;
    plan.cuts = true;
    run_group(jobs);
    check(jobs, N, DF_OK);
    assert_int_equal(together_calls, 2);
    assert_int_equal(alone_calls, 0);
}

int main(void)
{
#define ON_EACH(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        ON_EACH(neighbours_run_by_one_call),
        ON_EACH(others_between_them_keep_their_place),
        ON_EACH(the_job_at_fault_is_found_by_halves),
        ON_EACH(two_with_the_same_key_part_by_halves),
        ON_EACH(if_all_fail_each_has_its_error),
        ON_EACH(a_conflict_runs_the_group_again),
        ON_EACH(a_lasting_conflict_ends_with_each_alone),
        ON_EACH(a_call_that_undoes_everything_is_taken_apart),
        ON_EACH(a_lost_connection_runs_them_again_together),
    };
    return testdb_run_tests("together", &dialect, tests, sizeof(tests) / sizeof(tests[0]));
}

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/instance.h"
#include "base/metrics.h"
#include "base/secret.h"
#include "fake_clock.h"
#include "locks/locks_private.h"
#include "store/schema.h"

#include "redis_process.h"
#include "testdb.h"

#include <curl/curl.h>

/*
 * What holds of every provider: rows of SQLite and PostgreSQL, one Redis server and three. A
 * process is an instance with its own directory. One that stands still has a clock that stands
 * still: it extends nothing, and for the provider its time goes on.
 */

#define LEASE_MS 1000

struct process {
    struct df_fake_clock clock;
    char dir[128];
    struct df_instance *instance;
    struct df_locks *locks;
};

static enum df_dialect dialect;
static size_t redis_count; /* 0: sql */
static struct testdb test;
static struct df_store *store;
static struct redis_process redis[3];
static struct df_secret *urls;
static int64_t lease_ms;
static struct df_err err;

/* One database for a group: its processes remove what they wrote, and the rest is removed here. */
static int start_group(void **state)
{
    struct df_store_options opt = {.settings.pool_size = 4};

    (void)state;
    testdb_init(&test, dialect);
    struct df_db *db = testdb_open(&test);
    assert_ok(df_schema_apply(db, NULL, &err), &err);
    df_db_close(db);
    opt.settings.url = test.url;
    assert_ok(df_store_open(&opt, &store, &err), &err);
    return 0;
}

static int stop_group(void **state)
{
    (void)state;
    df_store_close(store);
    testdb_release(&test);
    return 0;
}

static int start(void **state)
{
    char text[256] = "";
    struct df_db *db = testdb_open(&test);

    (void)state;
    testdb_script(db, "DELETE FROM LockInstallation; DELETE FROM LockProviders;"
                      " DELETE FROM NamedLocks;");
    df_db_close(db);
    for (size_t i = 0; i < redis_count; i++) {
        redis[i] = (struct redis_process){.pid = 0};
        redis_start(&redis[i]);
        size_t at = strlen(text);
        (void)snprintf(text + at, sizeof text - at, "%sredis://127.0.0.1:%d/1", at > 0 ? "," : "",
                       redis[i].port);
    }
    urls = df_secret_new(df_str_c(text));
    lease_ms = LEASE_MS;
    return 0;
}

static int stop(void **state)
{
    (void)state;
    for (size_t i = 0; i < redis_count; i++)
        redis_kill(&redis[i]);
    df_secret_free(urls);
    return 0;
}

static enum df_code open_as(struct process *p, const char *dir, bool stands_still, int provider)
{
    *p = (struct process){.locks = NULL};
    df_fake_clock_init(&p->clock, 1700000000000, 42);
    (void)snprintf(p->dir, sizeof p->dir, "%s/%s", test.dir, dir);
    p->instance = df_instance_hold(p->dir, df_clock_real());
    return df_locks_open(
        &(struct df_locks_options){.settings = {.provider = provider,
                                                .lease_ms = lease_ms,
                                                .redis_urls = urls,
                                                .redis_prefix = "test",
                                                .redis_timeout_ms = lease_ms / 3},
                                   .store = store,
                                   .clock = stands_still ? &p->clock.base : df_clock_real(),
                                   .instance = p->instance,
                                   .acquires = true},
        &p->locks, &err);
}

static int own_provider(void)
{
    return redis_count > 0 ? DF_LOCKS_REDIS : DF_LOCKS_SQL;
}

static void open_process(struct process *p, const char *dir, bool stands_still)
{
    assert_ok(open_as(p, dir, stands_still, own_provider()), &err);
}

static void close_process(struct process *p)
{
    df_locks_free(p->locks);
    df_instance_drop(p->instance);
}

/* The kernel gives back what a process that was killed had locked. */
static void look_killed(struct process *p)
{
    (void)close(p->instance->fd);
    p->instance->fd = -1;
}

static void acquire_soon(struct process *p, const char *name, struct df_lease *lease)
{
    while (!df_locks_acquire(p->locks, name, lease))
        df_sleep_ms(10);
}

static void one_process_has_it_at_a_time(void **state)
{
    (void)state;
    struct process a, b;
    struct df_lease mine = {0}, theirs = {0}, other = {0};

    lease_ms = 30000;
    open_process(&a, "a", true);
    open_process(&b, "b", true);
    assert_true(df_locks_acquire(a.locks, "x", &mine));
    assert_int_equal(df_lease_left_ms(a.locks, &mine), 30000 - 302 - 3000);
    assert_false(df_locks_acquire(b.locks, "x", &theirs));
    assert_true(df_locks_acquire(b.locks, "y", &other));
    df_locks_release(a.locks, &mine);
    assert_true(df_lease_left_ms(b.locks, &other) > 0);
    acquire_soon(&b, "x", &theirs);
    assert_false(df_locks_acquire(a.locks, "x", &mine));
    df_locks_release(b.locks, &theirs);
    df_locks_release(b.locks, &other);
    close_process(&a);
    close_process(&b);
}

static void of_many_that_want_it_one_gets_it(void **state)
{
    (void)state;
    enum { MANY = 4 };
    struct process p[MANY];
    struct df_lease lease[MANY];
    char dir[16];

    lease_ms = 30000;
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(dir, sizeof dir, "%d", i);
        open_process(&p[i], dir, true);
    }
    for (int round = 0; round < 5; round++) {
        int have = 0;
        memset(lease, 0, sizeof lease);
        for (int i = 0; i < MANY; i++)
            have += df_locks_acquire(p[(i + round) % MANY].locks, "x", &lease[(i + round) % MANY]);
        assert_int_equal(have, 1);
        for (int i = 0; i < MANY; i++)
            df_locks_release(p[i].locks, &lease[i]);
        acquire_soon(&p[0], "x", &lease[0]); /* the release has arrived */
        df_locks_release(p[0].locks, &lease[0]);
        acquire_soon(&p[1], "x", &lease[1]);
        df_locks_release(p[1].locks, &lease[1]);
        acquire_soon(&p[0], "x", &lease[0]);
        df_locks_release(p[0].locks, &lease[0]);
    }
    for (int i = 0; i < MANY; i++)
        close_process(&p[i]);
}

static double outcomes(const char *name)
{
    char line[96], *at;
    struct df_buf out;
    double n = 0;

    (void)snprintf(line, sizeof line,
                   "dataflow_lock_outcomes_total{provider=\"%s\",outcome=\"%s\"} ",
                   own_provider() == DF_LOCKS_REDIS ? "redis" : "sql", name);
    df_buf_init(&out, 1 << 20);
    df_metrics_write(&out);
    df_buf_addc(&out, '\0');
    at = strstr(df_buf_str(&out).ptr, line);
    if (at)
        n = strtod(at + strlen(line), NULL);
    df_buf_release(&out);
    return n;
}

static void an_owner_that_extends_keeps_it_for_longer_than_a_lease(void **state)
{
    (void)state;
    struct process a, b;
    struct df_lease mine = {0}, theirs = {0};

    lease_ms = 3000;
    open_process(&a, "a", false);
    open_process(&b, "b", false);
    double before = outcomes("extended");
    assert_true(df_locks_acquire(a.locks, "x", &mine));
    while (outcomes("extended") < before + 4) { /* every third of a lease */
        assert_false(df_locks_acquire(b.locks, "x", &theirs));
        df_sleep_ms(50);
    }
    assert_true(df_lease_left_ms(a.locks, &mine) > 0);
    df_locks_release(a.locks, &mine);
    close_process(&a);
    close_process(&b);
}

/* It stands still, as if stopped. When it goes on, it finds that the lock is lost, and neither
 * extends nor releases what another has now. */
static void an_owner_that_stands_still_is_followed_when_the_lease_is_over(void **state)
{
    (void)state;
    struct process a, b, c;
    struct df_lease mine = {0}, theirs = {0}, third = {0};

    open_process(&a, "a", true);
    open_process(&b, "b", false);
    assert_true(df_locks_acquire(a.locks, "x", &mine));
    acquire_soon(&b, "x", &theirs);
    double lost = outcomes("lost");
    a.clock.wall += 3600000; /* and its wall clock is set */
    df_fake_clock_advance_ms(&a.clock, LEASE_MS / 2);
    while (outcomes("lost") < lost + 1)
        df_sleep_ms(5);
    assert_true(df_lease_left_ms(a.locks, &mine) <= 0);
    df_locks_release(a.locks, &mine);
    open_process(&c, "c", false);
    assert_false(df_locks_acquire(c.locks, "x", &third));
    assert_true(df_lease_left_ms(b.locks, &theirs) > 0);
    df_locks_release(b.locks, &theirs);
    close_process(&a);
    close_process(&b);
    close_process(&c);
}

static void a_process_that_is_known_to_be_gone_is_followed_at_once(void **state)
{
    (void)state;
    struct process a, b, c;
    struct df_lease mine = {0}, theirs = {0}, third = {0};

    lease_ms = 30000;
    open_process(&a, "shared", true);
    open_process(&b, "shared", true);
    open_process(&c, "c", true);
    assert_true(df_locks_acquire(a.locks, "x", &mine));
    look_killed(&a);
    assert_false(df_locks_acquire(c.locks, "x", &third)); /* it does not know */
    assert_true(df_locks_acquire(b.locks, "x", &theirs));
    df_locks_release(a.locks, &mine); /* by another value */
    assert_false(df_locks_acquire(c.locks, "x", &third));
    df_locks_release(b.locks, &theirs);
    close_process(&a);
    close_process(&b);
    close_process(&c);
}

static void a_lock_that_is_broken_goes_to_the_next(void **state)
{
    (void)state;
    struct process a, b;
    struct df_lease mine = {0}, theirs = {0};

    lease_ms = 30000;
    open_process(&a, "a", true);
    open_process(&b, "b", false);
    assert_true(df_locks_acquire(a.locks, "x", &mine));
    df_locks_break(b.locks, "x");
    acquire_soon(&b, "x", &theirs);
    double lost = outcomes("lost");
    df_fake_clock_advance_ms(&a.clock, 10001);
    while (outcomes("lost") < lost + 1)
        df_sleep_ms(5);
    assert_true(df_lease_left_ms(a.locks, &mine) <= 0);
    df_locks_release(a.locks, &mine);
    df_locks_release(b.locks, &theirs);
    close_process(&a);
    close_process(&b);
}

/* The provider is that of the processes that are alive. */
static void another_provider_is_refused_beside_this_one(void **state)
{
    (void)state;
    struct process a, b;
    int other = redis_count > 0 ? DF_LOCKS_SQL : DF_LOCKS_REDIS;

    open_process(&a, "shared", true);
    assert_code(open_as(&b, "b", true, other), DF_E_CONFIG, &err);
    assert_non_null(strstr(err.detail, "stop all that import"));
    df_instance_drop(b.instance);
    look_killed(&a); /* its row is still there */
    if (redis_count > 0) {
        assert_ok(open_as(&b, "shared", true, other), &err);
        close_process(&b);
    }
    close_process(&a);
}

/* --- Redis ------------------------------------------------------------------------------------ */

static size_t quorum(void)
{
    return redis_count / 2 + 1;
}

static void await_well(struct process *p, bool well)
{
    while (df_locks_well(p->locks, &err) != well)
        df_sleep_ms(5);
}

static void the_first_use_does_not_wait(void **state)
{
    (void)state;
    struct process a, b;
    struct df_lease lease = {0};

    lease_ms = 60000;
    open_process(&a, "a", true);
    assert_true(df_locks_well(a.locks, &err));
    assert_true(df_locks_acquire(a.locks, "x", &lease));
    df_locks_release(a.locks, &lease);
    open_process(&b, "b", true); /* nor does the second process */
    acquire_soon(&b, "x", &lease);
    df_locks_release(b.locks, &lease);
    close_process(&a);
    close_process(&b);
}

/* A minority changes nothing; of the majority the locks wait for one lease. */
static void servers_that_restart_without_memory_stay_out_for_a_lease(void **state)
{
    (void)state;
    struct process a, b;
    struct df_lease mine = {0}, theirs = {0};

    lease_ms = 2000;
    open_process(&a, "a", true);
    open_process(&b, "b", false);
    assert_true(df_locks_acquire(a.locks, "x", &mine));
    for (size_t i = 0; i < quorum(); i++)
        redis_kill(&redis[i]);
    await_well(&b, false);
    int64_t from_ms = df_mono_ms(df_clock_real());
    for (size_t i = 0; i < quorum(); i++)
        redis_start(&redis[i]);
    acquire_soon(&b, "x", &theirs);
    /* Never before what the first owner was given is over. */
    assert_true(df_mono_ms(df_clock_real()) - from_ms >= lease_ms);
    await_well(&b, true);
    df_locks_release(b.locks, &theirs);
    df_locks_release(a.locks, &mine);
    close_process(&a);
    close_process(&b);
}

static void a_server_that_evicts_is_refused(void **state)
{
    (void)state;
    struct process a;

    redis_kill(&redis[0]);
    redis[0].policy = "allkeys-lru";
    redis_start(&redis[0]);
    assert_code(open_as(&a, "a", true, DF_LOCKS_REDIS), DF_E_CONFIG, &err);
    assert_non_null(strstr(err.detail, "maxmemory-policy is allkeys-lru"));
    assert_non_null(strstr(err.detail, "noeviction"));
    df_instance_drop(a.instance);
}

#define T(f) cmocka_unit_test_setup_teardown(f, start, stop)

int main(void)
{
    const struct CMUnitTest all[] = {
        T(one_process_has_it_at_a_time),
        T(of_many_that_want_it_one_gets_it),
        T(an_owner_that_extends_keeps_it_for_longer_than_a_lease),
        T(an_owner_that_stands_still_is_followed_when_the_lease_is_over),
        T(a_process_that_is_known_to_be_gone_is_followed_at_once),
        T(a_lock_that_is_broken_goes_to_the_next),
        T(another_provider_is_refused_beside_this_one),
    };
    const struct CMUnitTest of_redis[] = {
        T(the_first_use_does_not_wait),
        T(servers_that_restart_without_memory_stay_out_for_a_lease),
        T(a_server_that_evicts_is_refused),
    };
    int failed = 0;

    (void)curl_global_init(CURL_GLOBAL_DEFAULT);
    for (int d = 0; d < DF_DIALECT_COUNT; d++) {
        dialect = (enum df_dialect)d;
        if (testdb_available(dialect))
            failed += cmocka_run_group_tests_name("locks of sql", all, start_group, stop_group);
    }
    testdb_print_skipped();
    dialect = DF_SQLITE;
    if (!redis_available())
        (void)printf("SKIP redis: there is no " REDIS_PROGRAM "\n");
    for (redis_count = 1; redis_available() && redis_count <= 3; redis_count += 2) {
        failed += cmocka_run_group_tests_name("locks of redis", all, start_group, stop_group);
        failed += cmocka_run_group_tests_name("redis", of_redis, start_group, stop_group);
    }
    return failed;
}

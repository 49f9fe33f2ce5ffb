/*
 * The relay with a dispatcher that the test answers for, on every database: what is claimed, in
 * which order, what is marked, what the start-up check says. Real tables, real locks; the brokers
 * have tests of their own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/mem.h"
#include "fake_clock.h"
#include "relay/relay.h"
#include "relay/relay_private.h"
#include "testdb.h"

#include <sched.h>

/* Settings have strings that somebody frees; here they are literals, and nobody does. */
#pragma GCC diagnostic ignored "-Wwrite-strings"
#pragma GCC diagnostic ignored "-Wdiscarded-qualifiers"

#define WAIT_MS    60000
#define GIVE_UP_MS (INT64_C(72) * 3600 * 1000)
#define OPEN_MS    10000 /* of breakers on a clock of the test's */

/* --- a dispatcher that remembers --- */

struct sent {
    char id[64];
    char aggregate[64];
    int64_t attempt;
};

static struct {
    pthread_mutex_t lock;
    struct sent log[4096];
    size_t count;
    size_t in_flight[8]; /* of aggregate "a0" to "a7" */
    bool overlapped;
    /* What becomes of an event; NULL: it arrives. */
    enum df_dispatch_outcome (*answer)(const struct df_event *e);
    int64_t slow_ms;
} sink = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void sink_reset(enum df_dispatch_outcome (*answer)(const struct df_event *))
{
    sink.count = 0;
    sink.overlapped = false;
    sink.answer = answer;
    sink.slow_ms = 0;
    memset(sink.in_flight, 0, sizeof sink.in_flight);
}

static size_t *flight_of(const struct df_event *e)
{
    struct df_str a = e->aggregate_id;
    return a.len == 2 && a.ptr[0] == 'a' && a.ptr[1] >= '0' && a.ptr[1] < '8'
               ? &sink.in_flight[a.ptr[1] - '0']
               : NULL;
}

static void note(const struct df_event *e)
{
    size_t *flight = flight_of(e);
    struct sent *s = &sink.log[sink.count];

    assert_true(sink.count < sizeof sink.log / sizeof sink.log[0]);
    (void)snprintf(s->id, sizeof s->id, DF_STR_FMT, DF_STR_ARG(e->id));
    (void)snprintf(s->aggregate, sizeof s->aggregate, DF_STR_FMT, DF_STR_ARG(e->aggregate_id));
    s->attempt = e->attempt;
    sink.count++;
    if (flight && (*flight)++ > 0)
        sink.overlapped = true;
}

static void fake_dispatch(struct df_sink *s, struct df_event *const *events, size_t n,
                          struct df_arena *a)
{
    (void)s;
    pthread_mutex_lock(&sink.lock);
    for (size_t i = 0; i < n; i++)
        note(events[i]);
    int64_t slow_ms = sink.slow_ms;
    pthread_mutex_unlock(&sink.lock);
    if (slow_ms > 0)
        (void)nanosleep(&(struct timespec){.tv_nsec = slow_ms * 1000000}, NULL);
    pthread_mutex_lock(&sink.lock);
    for (size_t i = 0; i < n; i++) {
        size_t *flight = flight_of(events[i]);
        if (flight)
            (*flight)--;
        events[i]->outcome = sink.answer ? sink.answer(events[i]) : DF_DISPATCHED;
        if (events[i]->outcome != DF_DISPATCHED)
            events[i]->error = df_arena_str(a, DF_STR("it did not arrive: não, \xF0\x9F\x98\x80"));
        events[i]->duration_ms = 1;
    }
    pthread_mutex_unlock(&sink.lock);
}

static enum df_code fake_open(const struct df_sink_options *opt, struct df_sink **ret,
                              struct df_err *err)
{
    static char thing;
    (void)opt;
    (void)err;
    *ret = (struct df_sink *)(void *)&thing;
    return DF_OK;
}

static void fake_close(struct df_sink *s)
{
    (void)s;
}

static const struct df_dispatcher fake = {
    .name = "fake", .open = fake_open, .dispatch = fake_dispatch, .close = fake_close};

static size_t sent_count(void)
{
    pthread_mutex_lock(&sink.lock);
    size_t n = sink.count;
    pthread_mutex_unlock(&sink.lock);
    return n;
}

/* --- tables --- */

#define TABLE_SQLITE                                                                               \
    "CREATE TABLE outbox_events (id TEXT NOT NULL PRIMARY KEY, event_type TEXT NOT NULL, payload " \
    "TEXT NOT NULL, status TEXT NOT NULL, attempts INTEGER NOT NULL DEFAULT 0, created_at TEXT "   \
    "NOT NULL, aggregate_type TEXT, aggregate_id TEXT, next_attempt_at TEXT, processed_at TEXT, "  \
    "last_error TEXT, correlation_id TEXT, trace_id TEXT, span_id TEXT)"
#define TABLE_POSTGRES                                                                             \
    "CREATE TABLE outbox_events (id uuid PRIMARY KEY, event_type varchar(200) NOT NULL, payload "  \
    "jsonb NOT NULL, status varchar(20) NOT NULL, attempts int NOT NULL DEFAULT 0, created_at "    \
    "timestamptz NOT NULL, aggregate_type varchar(200), aggregate_id varchar(200), "               \
    "next_attempt_at timestamptz, processed_at timestamptz, last_error varchar(20), "              \
    "correlation_id varchar(128), trace_id varchar(32), span_id varchar(16))"
#define TABLE_SQLSERVER                                                                            \
    "CREATE TABLE outbox_events (id uniqueidentifier NOT NULL PRIMARY KEY, event_type "            \
    "nvarchar(200) NOT NULL, payload nvarchar(max) NOT NULL, status varchar(20) NOT NULL, "        \
    "attempts int NOT NULL DEFAULT 0, created_at datetime2 NOT NULL, aggregate_type "              \
    "nvarchar(200), aggregate_id nvarchar(200), next_attempt_at datetime2, processed_at "          \
    "datetime2, last_error nvarchar(2000), correlation_id nvarchar(128), trace_id varchar(32), "   \
    "span_id varchar(16))"
/* With nothing but what the source names, called otherwise, and numbers for ids. */
#define SMALL_SQLITE                                                                               \
    "CREATE TABLE \"Out Box\" (\"Id\" INTEGER PRIMARY KEY, \"Type\" TEXT, \"Body\" TEXT, "         \
    "\"State\" TEXT, \"Tries\" INTEGER, \"At\" INTEGER)"
#define SMALL_POSTGRES                                                                             \
    "CREATE TABLE \"Out Box\" (\"Id\" bigint PRIMARY KEY, \"Type\" text, \"Body\" text, "          \
    "\"State\" text, \"Tries\" int, \"At\" timestamp)"
#define SMALL_SQLSERVER                                                                            \
    "CREATE TABLE [Out Box] ([Id] bigint PRIMARY KEY, [Type] nvarchar(100), [Body] "               \
    "nvarchar(max), [State] nvarchar(20), [Tries] int, [At] datetime2)"

TESTDB_QUERY(insert_event, 3,
             "INSERT INTO outbox_events (id, event_type, payload, status, created_at, "
             "aggregate_type, aggregate_id, correlation_id) VALUES (?1, 'Order', '{\"n\":1}', "
             "'PENDING', ?2, 'order', ?3, 'corr-' || ?3)",
             "INSERT INTO outbox_events (id, event_type, payload, status, created_at, "
             "aggregate_type, aggregate_id, correlation_id) VALUES (CAST($1 AS uuid), 'Order', "
             "'{\"n\":1}', 'PENDING', CAST($2 AS timestamptz), 'order', CAST($3 AS text), 'corr-' "
             "|| CAST($3 AS text))",
             "INSERT INTO outbox_events (id, event_type, payload, status, created_at, "
             "aggregate_type, aggregate_id) VALUES (?, 'Order', '{\"n\":1}', 'PENDING', ?, "
             "'order', ?)");
#define COUNT(state) "SELECT COUNT(*) FROM outbox_events WHERE status = '" state "'"
TESTDB_QUERY(count_pending, 0, COUNT("PENDING"), COUNT("PENDING"), COUNT("PENDING"));
TESTDB_QUERY(count_processed, 0, COUNT("PROCESSED"), COUNT("PROCESSED"), COUNT("PROCESSED"));
TESTDB_QUERY(count_failed, 0, COUNT("FAILED"), COUNT("FAILED"), COUNT("FAILED"));
#define STAMPED                                                                                    \
    "SELECT COUNT(*) FROM outbox_events WHERE processed_at IS NOT NULL AND last_error IS NULL "    \
    "AND next_attempt_at IS NULL"
TESTDB_QUERY(count_stamped, 0, STAMPED, STAMPED, STAMPED);
#define DUE "SELECT COUNT(*) FROM outbox_events WHERE next_attempt_at IS NOT NULL"
TESTDB_QUERY(count_due, 0, DUE, DUE, DUE);
#define ATTEMPTS "SELECT COALESCE(SUM(attempts), 0) FROM outbox_events"
TESTDB_QUERY(sum_attempts, 0, ATTEMPTS, ATTEMPTS, ATTEMPTS);
#define WAITING_LATER                                                                              \
    "SELECT COUNT(*) FROM outbox_events WHERE next_attempt_at IS NOT NULL AND last_error LIKE "    \
    "'it did not%'"
TESTDB_QUERY(count_later, 0, WAITING_LATER, WAITING_LATER, WAITING_LATER);
#define PROCESSED_SMALL(q) "SELECT COUNT(*) FROM " q(Out Box) " WHERE " q(State) " = 'done'"
#define DOUBLE_QUOTED(n)   "\"" #n "\""
#define BRACKETED(n)       "[" #n "]"
TESTDB_QUERY(count_small, 0, PROCESSED_SMALL(DOUBLE_QUOTED), PROCESSED_SMALL(DOUBLE_QUOTED),
             PROCESSED_SMALL(BRACKETED));

static int64_t count(struct df_db *db, const struct df_query *q)
{
    struct df_err err = DF_ERR_INIT;
    int64_t n = -1;
    assert_ok(df_db_query_int(db, q, DF_NO_PARAMS, &n, &err), &err);
    return n;
}

static void wait_for(struct df_db *db, const struct df_query *q, int64_t want)
{
    int64_t until = df_mono_ms(df_clock_real()) + WAIT_MS;
    int64_t n;
    while ((n = count(db, q)) != want) {
        if (df_mono_ms(df_clock_real()) > until)
            fail_msg("%s is %lld, not %lld", q->name, (long long)n, (long long)want);
        (void)nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
}

struct fixture {
    struct testdb t;
    struct df_db *db;
    struct df_outbound outbound; /* its breakers alone */
    struct df_relay_settings s;
};

static const char *by_dialect(enum df_dialect d, const char *lite, const char *pg, const char *ms)
{
    return d == DF_SQLITE ? lite : d == DF_POSTGRES ? pg : ms;
}

static char *column_defaults[DF_RELAY_COLUMNS] = {
    "id",         "event_type",     "payload",      "status",          "attempts",
    "created_at", "aggregate_type", "aggregate_id", "next_attempt_at", "processed_at",
    "last_error", "correlation_id", "trace_id",     "span_id",         "trace_flags"};

static void fixture_init(struct fixture *f, enum df_dialect d, const char *table_sql)
{
    *f = (struct fixture){0};
    testdb_init(&f->t, d);
    f->db = testdb_open(&f->t);
    if (table_sql)
        testdb_script(f->db, table_sql);
    f->outbound.breakers = df_breakers_new(
        &(struct df_breaker_settings){
            .window = 10, .min_calls = 5, .failure_rate = 50, .open_ms = 50, .half_open_calls = 3},
        df_clock_real());
    f->s = (struct df_relay_settings){
        .name = "test",
        .url = f->t.url,
        .table = "outbox_events",
        .state_pending = "PENDING",
        .state_processed = "PROCESSED",
        .state_failed = "FAILED",
        .poll_ms = 10,
        .batch = 200,
        .max_retries = 2,
        .retry_base_ms = 1,
        .retry_cap_ms = 5,
        .timeout_ms = 5000,
    };
    memcpy(f->s.columns, column_defaults, sizeof column_defaults);
}

static void fixture_release(struct fixture *f)
{
    df_breakers_free(f->outbound.breakers);
    df_db_close(f->db);
    testdb_release(&f->t);
}

static struct df_relay *start(struct fixture *f)
{
    return df_relay_start(&(struct df_relay_options){.settings = &f->s,
                                                     .outbound = &f->outbound,
                                                     .clock = df_clock_real(),
                                                     .dispatcher = &fake,
                                                     .give_up_ms = GIVE_UP_MS});
}

static void end(struct df_relay *r)
{
    df_relay_stop(r, WAIT_MS);
    df_relay_free(r);
}

/* Event n, written at the n-th millisecond; its id tells n. */
static void add_event(struct fixture *f, int n, const char *aggregate)
{
    struct df_err err = DF_ERR_INIT;
    char id[40];
    (void)snprintf(id, sizeof id, "01900000-0000-7000-8000-%012d", n);
    assert_ok(df_db_exec(f->db, &insert_event,
                         DF_PARAMS(df_uuid(df_str_c(id)), df_time(1700000000000 + n),
                                   df_text(df_str_c(aggregate))),
                         NULL, &err),
              &err);
}

static void add_events(struct fixture *f, int n, int aggregates)
{
    struct df_err err = DF_ERR_INIT;
    assert_ok(df_db_begin(f->db, true, &err), &err);
    for (int i = 0; i < n; i++) {
        char aggregate[16];
        (void)snprintf(aggregate, sizeof aggregate, "a%d", i % aggregates);
        add_event(f, i, aggregate);
    }
    assert_ok(df_db_commit(f->db, &err), &err);
}

static const char *full_table(enum df_dialect d)
{
    return by_dialect(d, TABLE_SQLITE, TABLE_POSTGRES, TABLE_SQLSERVER);
}

/* --- what it does --- */

static void check_all_arrive_and_are_marked(enum df_dialect d)
{
    struct fixture f;
    struct df_relay_status st;

    fixture_init(&f, d, full_table(d));
    sink_reset(NULL);
    add_events(&f, 700, 8);
    struct df_relay *r = start(&f);
    wait_for(f.db, &count_processed, 700);
    assert_int_equal(count(f.db, &count_stamped), 700);
    assert_int_equal(count(f.db, &sum_attempts), 0);
    assert_int_equal(sent_count(), 700);
    add_event(&f, 1000, "a1");
    wait_for(f.db, &count_processed, 701);
    df_relay_stop(r, WAIT_MS);
    df_relay_status(r, &st);
    assert_int_equal(st.dispatched, 701);
    assert_true(st.running);
    assert_string_equal(st.problem, "");
    df_relay_free(r);
    fixture_release(&f);
}

/* Claims go on where the last one ended: what is committed before that is found nevertheless. */
static void check_late_events_arrive(enum df_dialect d)
{
    struct fixture f;
    int64_t until = df_mono_ms(df_clock_real()) + WAIT_MS;

    fixture_init(&f, d, full_table(d));
    f.s.batch = 10;
    sink_reset(NULL);
    sink.slow_ms = 2;
    for (int i = 0; i < 300; i++)
        add_event(&f, 1000 + i, "a1");
    struct df_relay *r = start(&f);
    while (sent_count() < 100 && df_mono_ms(df_clock_real()) < until)
        (void)sched_yield();
    for (int i = 0; i < 15; i++)
        add_event(&f, i, "a1");
    wait_for(f.db, &count_processed, 315);
    assert_int_equal(sent_count(), 315);
    end(r);
    fixture_release(&f);
}

/* A worker that is called comes once, also if it is the one that waits for new events. */
static void check_a_call_is_heard_once(enum df_dialect d)
{
    struct fixture f;
    int64_t until = df_mono_ms(df_clock_real()) + WAIT_MS;
    size_t more = 1;

    fixture_init(&f, d, full_table(d));
    f.s.workers = 1;
    sink_reset(NULL);
    struct df_relay *r = start(&f);
    df_lock(&r->lock);
    r->more = more;
    df_unlock(&r->lock);
    while (more > 0 && df_mono_ms(df_clock_real()) < until) {
        (void)sched_yield();
        df_lock(&r->lock);
        more = r->more;
        df_unlock(&r->lock);
    }
    assert_int_equal(more, 0);
    end(r);
    fixture_release(&f);
}

static enum df_dispatch_outcome never_the_3s(const struct df_event *e)
{
    return df_str_ends(e->id, DF_STR("3")) ? DF_DISPATCH_RETRY : DF_DISPATCHED;
}

/* Events that always fail among others that arrive. */
static void check_poisoned_events_end_as_failed(enum df_dialect d)
{
    struct fixture f;
    int64_t until = df_mono_ms(df_clock_real()) + WAIT_MS;
    int n = 20;

    fixture_init(&f, d, full_table(d));
    sink_reset(never_the_3s);
    add_events(&f, n, 8);
    struct df_relay *r = start(&f);
    while (count(f.db, &count_failed) < 2 && df_mono_ms(df_clock_real()) < until) {
        add_event(&f, n, "a1");
        n += n % 10 == 2 ? 2 : 1;
        (void)nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
    wait_for(f.db, &count_pending, 0);
    end(r);
    assert_int_equal(count(f.db, &count_failed), 2);
    assert_int_equal(count(f.db, &sum_attempts), 6); /* max_retries is 2: the third exceeds it */
    fixture_release(&f);
}

static enum df_dispatch_outcome refuse_some(const struct df_event *e)
{
    return df_str_ends(e->id, DF_STR("3")) ? DF_DISPATCH_PERMANENT : DF_DISPATCHED;
}

static void check_a_refused_event_fails_at_once(enum df_dialect d)
{
    struct fixture f;

    fixture_init(&f, d, full_table(d));
    sink_reset(refuse_some);
    add_events(&f, 20, 8);
    struct df_relay *r = start(&f);
    wait_for(f.db, &count_failed, 2);
    wait_for(f.db, &count_processed, 18);
    end(r);
    assert_int_equal(sent_count(), 20);
    fixture_release(&f);
}

static _Atomic int broken;

static enum df_dispatch_outcome while_broken(const struct df_event *e)
{
    (void)e;
    return broken ? DF_DISPATCH_RETRY : DF_DISPATCHED;
}

static enum df_dispatch_outcome second_time(const struct df_event *e)
{
    return e->attempt > 1 ? DF_DISPATCHED : DF_DISPATCH_RETRY;
}

static void check_next_attempt_is_waited_for(enum df_dialect d)
{
    struct fixture f;

    fixture_init(&f, d, full_table(d));
    f.s.retry_base_ms = f.s.retry_cap_ms = 3600000;
    sink_reset(while_broken);
    broken = 1;
    add_events(&f, 3, 3);
    struct df_relay *r = start(&f);
    wait_for(f.db, &count_later, 3);
    end(r);
    assert_int_equal(sent_count(), 3);
    broken = 0;
    /* And when it is there, they go; the test makes it so. */
    testdb_script(f.db, "UPDATE outbox_events SET next_attempt_at = created_at");
    r = start(&f);
    wait_for(f.db, &count_processed, 3);
    end(r);
    assert_int_equal(count(f.db, &count_stamped), 3);
    assert_int_equal(count(f.db, &sum_attempts), 0); /* no other event arrived meanwhile */
    fixture_release(&f);
}

static _Atomic int refusals;

static enum df_dispatch_outcome refuse_some_more(const struct df_event *e)
{
    (void)e;
    return refusals-- > 0 ? DF_DISPATCH_RETRY : DF_DISPATCHED;
}

static void check_who_is_woken_need_not_poll(enum df_dialect d)
{
    struct fixture f;

    fixture_init(&f, d, full_table(d));
    f.s.poll_ms = 86400000;
    sink_reset(refuse_some_more);
    refusals = 2;
    struct df_relay *r = start(&f);
    for (int i = 1; i <= 3; i++) {
        add_event(&f, i, "a1");
        df_relay_wake(r);
        df_relay_flush(r, WAIT_MS);
        assert_true(sent_count() >= (size_t)i);
        wait_for(f.db, &count_processed,
                 i); /* the first one fails: nobody wakes it when it is due */
    }
    end(r);
    fixture_release(&f);
}

/* Only the six columns of the source, with other names, and retries that wait in memory. */
static void check_a_small_table_will_do(enum df_dialect d)
{
    struct fixture f;
    static char *names[] = {"Id", "type", "Body", "State", "Tries", "At"};
    const char *time =
        by_dialect(d, "1700000000000", "'2026-01-01T00:00:00'", "'2026-01-01T00:00:00'");

    fixture_init(&f, d, by_dialect(d, SMALL_SQLITE, SMALL_POSTGRES, SMALL_SQLSERVER));
    f.s.table = "Out Box";
    memcpy(f.s.columns, names, sizeof names);
    f.s.state_pending = "it's new";
    f.s.state_processed = "done";
    f.s.state_failed = "gone";
    sink_reset(second_time);
    for (int i = 1; i <= 30; i++) {
        char sql[256];
        (void)snprintf(sql, sizeof sql, "INSERT INTO %s VALUES (%d, 't', 'x', 'it''s new', 0, %s)",
                       d == DF_SQLSERVER ? "[Out Box]" : "\"Out Box\"", i, time);
        testdb_script(f.db, sql);
    }
    struct df_relay *r = start(&f);
    wait_for(f.db, &count_small, 30);
    end(r);
    assert_int_equal(sent_count(), 60);
    fixture_release(&f);
}

/* --- order --- */

/* Each aggregate's events first arrive in the order in which they were written. */
static void assert_ordered(int n, int aggregates)
{
    int last[8];
    size_t seen = 0;
    bool *had = df_calloc((size_t)n, sizeof *had);

    memset(last, -1, sizeof last);
    for (size_t i = 0; i < sink.count; i++) {
        int e = atoi(sink.log[i].id + 24);
        int a = e % aggregates;
        if (had[e])
            continue;
        had[e] = true;
        assert_int_equal(e, last[a] < 0 ? a : last[a] + aggregates);
        last[a] = e;
        seen++;
    }
    assert_int_equal(seen, n);
    free(had);
}

static enum df_dispatch_outcome sometimes(const struct df_event *e)
{
    static unsigned turn;
    return e->attempt <= 3 && turn++ % 7 == 3 ? DF_DISPATCH_RETRY : DF_DISPATCHED;
}

static void check_order(enum df_dialect d, size_t relays)
{
    struct fixture f;
    struct df_relay *r[4] = {0};

    fixture_init(&f, d, full_table(d));
    f.s.order = DF_RELAY_ORDER_AGGREGATE;
    f.s.max_retries = 100;
    f.s.batch = 20;
    sink_reset(sometimes);
    sink.slow_ms = 1;
    add_events(&f, 240, 6);
    for (size_t i = 0; i < relays; i++)
        r[i] = start(&f);
    wait_for(f.db, &count_processed, 240);
    for (size_t i = 0; i < relays; i++)
        end(r[i]);
    assert_false(sink.overlapped);
    assert_ordered(240, 6);
    fixture_release(&f);
}

static void check_order_by_one(enum df_dialect d)
{
    check_order(d, 1);
}

/* Babelfish ignores the hints that several relays rely on. */
static bool rows_lock(enum df_dialect d)
{
    TESTDB_QUERY(is_babelfish, 0, "SELECT 0", "SELECT 0",
                 "SELECT CASE WHEN CAST(SERVERPROPERTY('Babelfish') AS INT) = 1 THEN 1 ELSE 0 END");
    struct testdb t;
    testdb_init(&t, d);
    struct df_db *db = testdb_open(&t);
    int64_t n = count(db, &is_babelfish);
    df_db_close(db);
    testdb_release(&t);
    return n == 0;
}

static void check_order_by_four(enum df_dialect d)
{
    if (!rows_lock(d))
        return;
    check_order(d, 4);
}

static enum df_dispatch_outcome not_a0(const struct df_event *e)
{
    return df_str_eq(e->aggregate_id, DF_STR("a0")) ? DF_DISPATCH_RETRY : DF_DISPATCHED;
}

/* More than a claim looks at first wait behind one that failed: the others go nevertheless. */
static void check_a_long_chain_holds_nobody_up(enum df_dialect d)
{
    struct fixture f;
    struct df_err err = DF_ERR_INIT;

    fixture_init(&f, d, full_table(d));
    f.s.order = DF_RELAY_ORDER_AGGREGATE;
    f.s.max_retries = 1000;
    f.s.retry_base_ms = f.s.retry_cap_ms = 3600000;
    sink_reset(not_a0);
    assert_ok(df_db_begin(f.db, true, &err), &err);
    for (int i = 0; i < 1200; i++)
        add_event(&f, i, "a0");
    for (int i = 1200; i < 1230; i++)
        add_event(&f, i, i % 2 ? "a1" : "a2");
    assert_ok(df_db_commit(f.db, &err), &err);
    struct df_relay *r = start(&f);
    wait_for(f.db, &count_processed, 30);
    end(r);
    assert_int_equal(sent_count(), 31);
    fixture_release(&f);
}

/* A head that is not due yet holds its own aggregate back, and no other. */
static void check_a_head_that_is_not_due_holds_its_aggregate(enum df_dialect d)
{
    struct fixture f;

    fixture_init(&f, d, full_table(d));
    f.s.order = DF_RELAY_ORDER_AGGREGATE;
    sink_reset(NULL);
    add_events(&f, 24, 4);
    testdb_script(f.db, by_dialect(d,
                                   "UPDATE outbox_events SET next_attempt_at = "
                                   "'2999-01-01T00:00:00Z' WHERE id LIKE '%000'",
                                   "UPDATE outbox_events SET next_attempt_at = '2999-01-01' "
                                   "WHERE CAST(id AS text) LIKE '%000'",
                                   "UPDATE outbox_events SET next_attempt_at = '2999-01-01' "
                                   "WHERE CAST(id AS CHAR(36)) LIKE '%000'"));
    struct df_relay *r = start(&f);
    wait_for(f.db, &count_processed, 18);
    end(r);
    assert_int_equal(sent_count(), 18);
    assert_int_equal(count(f.db, &count_pending), 6);
    testdb_script(f.db, "UPDATE outbox_events SET next_attempt_at = NULL");
    r = start(&f);
    wait_for(f.db, &count_processed, 24);
    end(r);
    assert_false(sink.overlapped);
    assert_ordered(24, 4);
    fixture_release(&f);
}

static enum df_dispatch_outcome refuse_first(const struct df_event *e)
{
    int n = atoi(e->id.ptr + 24);
    return n == 0 ? DF_DISPATCH_RETRY : n == 1 ? DF_DISPATCH_PERMANENT : DF_DISPATCHED;
}

/* One head always fails, one is refused: the first blocks its aggregate alone, the second none. */
static void check_a_poisoned_head_blocks_its_aggregate_alone(enum df_dialect d)
{
    struct fixture f;

    fixture_init(&f, d, full_table(d));
    f.s.order = DF_RELAY_ORDER_AGGREGATE;
    f.s.max_retries = 1000;
    sink_reset(refuse_first);
    add_events(&f, 40, 4);
    struct df_relay *r = start(&f);
    wait_for(f.db, &count_processed, 29);
    wait_for(f.db, &count_failed, 1);
    end(r);
    assert_int_equal(count(f.db, &count_pending), 10);
    for (size_t i = 0; i < sink.count; i++)
        if (strcmp(sink.log[i].aggregate, "a0") == 0)
            assert_int_equal(atoi(sink.log[i].id + 24), 0);
    fixture_release(&f);
}

/* Nobody sends what another relay has in hand. */
static void check_four_at_once_send_each_once(enum df_dialect d)
{
    struct fixture f;
    struct df_relay *r[4];

    if (!rows_lock(d))
        return;
    fixture_init(&f, d, full_table(d));
    f.s.batch = 25;
    sink_reset(NULL);
    sink.slow_ms = 2;
    add_events(&f, 1500, 8);
    for (size_t i = 0; i < 4; i++)
        r[i] = start(&f);
    wait_for(f.db, &count_processed, 1500);
    for (size_t i = 0; i < 4; i++)
        end(r[i]);
    assert_int_equal(sent_count(), 1500);
    fixture_release(&f);
}

/* --- the start-up check --- */

static void check_of_the_table(enum df_dialect d)
{
    static const struct {
        const char *sql; /* for SQLite, which takes any type; the others below */
        const char *says;
    } cases[] = {
        {"CREATE TABLE other (id int)", "does not exist"},
        {"CREATE TABLE outbox_events (id int, event_type varchar(9), status varchar(9), attempts "
         "int)",
         "has no column payload: set column_payload"},
        {"CREATE TABLE outbox_events (id int, event_type varchar(9), status varchar(9), attempts "
         "int)",
         "has no column created_at"},
    };
    static const char typed[] =
        "CREATE TABLE outbox_events (id int, event_type varchar(9), payload varchar(9), status "
        "varchar(9), attempts varchar(9), created_at int)";

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fixture f;
        struct df_err err = DF_ERR_INIT;
        struct df_relay_status st;
        struct df_buf complaints;
        fixture_init(&f, d, cases[i].sql);
        df_buf_init(&complaints, 65536);
        assert_code(df_relay_look(&f.s, &st, &complaints, &err), DF_E_CONFIG, &err);
        assert_non_null(strstr(complaints.ptr, cases[i].says));
        df_buf_release(&complaints);
        fixture_release(&f);
    }
    if (d != DF_SQLITE) {
        struct fixture f;
        struct df_err err = DF_ERR_INIT;
        struct df_relay_status st;
        struct df_buf complaints;
        fixture_init(&f, d, typed);
        f.s.order = DF_RELAY_ORDER_AGGREGATE;
        df_buf_init(&complaints, 65536);
        assert_code(df_relay_look(&f.s, &st, &complaints, &err), DF_E_CONFIG, &err);
        assert_non_null(strstr(complaints.ptr, "column attempts of outbox_events is"));
        assert_non_null(strstr(complaints.ptr, "it must be an integer"));
        assert_non_null(strstr(complaints.ptr, "column created_at of outbox_events is int"));
        assert_non_null(strstr(complaints.ptr, "order=aggregate needs a column aggregate_id"));
        df_buf_release(&complaints);
        fixture_release(&f);
    }
}

static void check_a_table_may_come_later(enum df_dialect d)
{
    struct fixture f;
    struct df_relay_status st;

    fixture_init(&f, d, NULL);
    sink_reset(NULL);
    struct df_relay *r = start(&f);
    do {
        (void)sched_yield();
        df_relay_status(r, &st);
    } while (st.problem[0] == '\0');
    assert_non_null(strstr(st.problem, "does not exist"));
    assert_false(st.running);
    testdb_script(f.db, full_table(d));
    add_events(&f, 5, 5);
    wait_for(f.db, &count_processed, 5);
    end(r);
    fixture_release(&f);
}

/* --- the breaker --- */

static void blaming_dispatch(struct df_sink *s, struct df_event *const *events, size_t n,
                             struct df_arena *a)
{
    fake_dispatch(s, events, n, a);
    for (size_t i = 0; i < n; i++)
        events[i]->breaker =
            events[i]->outcome == DF_DISPATCH_RETRY ? DF_BREAKER_FAILURE : DF_BREAKER_SUCCESS;
}

static const struct df_dispatcher blaming = {
    .name = "blaming", .open = fake_open, .dispatch = blaming_dispatch, .close = fake_close};

static void wait_for_state(struct df_breaker *b, enum df_breaker_state want)
{
    struct df_breaker_snapshot snap;
    int64_t until = df_mono_ms(df_clock_real()) + WAIT_MS;
    do {
        (void)sched_yield();
        df_breaker_snapshot(b, &snap);
        assert_true(df_mono_ms(df_clock_real()) < until);
    } while (snap.state != want);
}

/* Breaker and relay go by the same clock, which the test moves. */
static struct df_relay *start_on_clock(struct fixture *f, struct df_fake_clock *clock)
{
    df_breakers_free(f->outbound.breakers);
    df_fake_clock_init(clock, 1700000000000, 1);
    f->outbound.breakers = df_breakers_new(&(struct df_breaker_settings){.window = 10,
                                                                         .min_calls = 5,
                                                                         .failure_rate = 50,
                                                                         .open_ms = OPEN_MS,
                                                                         .half_open_calls = 3},
                                           &clock->base);
    return df_relay_start(&(struct df_relay_options){.settings = &f->s,
                                                     .outbound = &f->outbound,
                                                     .clock = &clock->base,
                                                     .dispatcher = &blaming,
                                                     .give_up_ms = GIVE_UP_MS});
}

static void wait_for_sent(struct df_fake_clock *clock, size_t want)
{
    int64_t until = df_mono_ms(df_clock_real()) + WAIT_MS;
    while (sent_count() < want) {
        if (df_mono_ms(df_clock_real()) > until)
            fail_msg("%zu events were sent, not %zu", sent_count(), want);
        df_fake_clock_advance_ms(clock, 100); /* for whoever looks for work now and then */
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

/* Lets time pass, until the relay has done what it does by then. */
static void pass_time(struct df_fake_clock *clock, int64_t ms)
{
    df_fake_clock_advance_ms(clock, ms);
    (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static size_t distinct_sent(size_t from, size_t to)
{
    size_t distinct = 0;
    pthread_mutex_lock(&sink.lock);
    for (size_t i = from; i < to; i++) {
        size_t j = from;
        while (strcmp(sink.log[j].id, sink.log[i].id) != 0)
            j++;
        distinct += i == j;
    }
    pthread_mutex_unlock(&sink.lock);
    return distinct;
}

/* While it is open nothing is sent; then three probes, no more, and of other events. */
static void check_an_open_breaker_sends_probes_alone(enum df_dialect d)
{
    struct fixture f;
    struct df_fake_clock clock;

    fixture_init(&f, d, full_table(d));
    f.s.batch = 8;
    f.s.workers = 1;
    sink_reset(while_broken);
    broken = 1;
    add_events(&f, 100, 8);
    struct df_relay *r = start_on_clock(&f, &clock);
    struct df_breaker *b = df_breakers_get(f.outbound.breakers, DF_STR("relay:test"));
    wait_for_state(b, DF_BREAKER_OPEN);
    assert_int_equal(sent_count(), 8);
    for (int i = 0; i < 5; i++)
        pass_time(&clock, OPEN_MS / 10);
    df_relay_wake(r);
    assert_int_equal(sent_count(), 8);
    df_fake_clock_advance_ms(&clock, OPEN_MS);
    wait_for_sent(&clock, 11);
    wait_for_state(b, DF_BREAKER_OPEN);
    assert_int_equal(sent_count(), 11);
    assert_int_equal(distinct_sent(0, 11), 11);
    /* What waits for the destination has no due time, and goes when it is back. */
    assert_int_equal(count(f.db, &count_due), 0);
    broken = 0;
    df_fake_clock_advance_ms(&clock, OPEN_MS);
    wait_for_sent(&clock, 111);
    wait_for(f.db, &count_processed, 100);
    wait_for_state(b, DF_BREAKER_CLOSED);
    assert_int_equal(count(f.db, &sum_attempts), 0);
    df_breakers_put(f.outbound.breakers, b);
    end(r);
    fixture_release(&f);
}

/* A destination that is away for almost three days. */
static void outlast(enum df_dialect d, int order)
{
    struct fixture f;
    struct df_fake_clock clock;

    fixture_init(&f, d, full_table(d));
    f.s.order = order;
    f.s.max_retries = 0;
    f.s.workers = 1;
    f.s.retry_cap_ms = 60000;
    sink_reset(while_broken);
    broken = 1;
    add_events(&f, 40, 8);
    struct df_relay *r = start_on_clock(&f, &clock);
    wait_for_sent(&clock, 5);
    for (int hour = 0; hour < 71; hour++) {
        size_t before = sent_count();
        df_fake_clock_advance_ms(&clock, 3600000);
        wait_for_sent(&clock, before + 1);
    }
    assert_int_equal(count(f.db, &count_pending), 40);
    assert_int_equal(count(f.db, &sum_attempts), 0);
    struct df_relay_status st;
    df_relay_status(r, &st);
    assert_true(st.down_since_ms > 0);
    assert_string_equal(df_relay_state_name(&st), "down");
    broken = 0;
    df_fake_clock_advance_ms(&clock, OPEN_MS);
    /* Not so many sent: one of the probes before may be on its way still. */
    int64_t until = df_mono_ms(df_clock_real()) + WAIT_MS;
    while (count(f.db, &count_processed) < 40) {
        assert_true(df_mono_ms(df_clock_real()) < until);
        df_fake_clock_advance_ms(&clock, 100);
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    df_relay_status(r, &st);
    assert_int_equal(st.down_since_ms, 0);
    assert_int_equal(st.given_up, 0);
    end(r);
    fixture_release(&f);
}

static void check_an_outage_gives_nothing_up(enum df_dialect d)
{
    outlast(d, DF_RELAY_ORDER_NONE);
}

static void check_an_outage_gives_nothing_up_in_order(enum df_dialect d)
{
    outlast(d, DF_RELAY_ORDER_AGGREGATE);
}

static enum df_dispatch_outcome poisoned_first(const struct df_event *e)
{
    return broken || atoi(e->id.ptr + 24) < 6 ? DF_DISPATCH_RETRY : DF_DISPATCHED;
}

/* The six oldest events always fail: as probes they would keep the destination shut for ever. */
static void check_poisoned_probes_do_not_keep_it_shut(enum df_dialect d)
{
    struct fixture f;
    struct df_fake_clock clock;
    int64_t until = df_mono_ms(df_clock_real()) + WAIT_MS;

    fixture_init(&f, d, full_table(d));
    f.s.workers = 1;
    f.s.batch = 6;
    sink_reset(poisoned_first);
    broken = 1;
    add_events(&f, 60, 60);
    struct df_relay *r = start_on_clock(&f, &clock);
    wait_for_sent(&clock, 6);
    broken = 0;
    while (count(f.db, &count_processed) < 54 && df_mono_ms(df_clock_real()) < until)
        pass_time(&clock, 100);
    assert_int_equal(count(f.db, &count_processed), 54);
    assert_int_equal(count(f.db, &count_pending) + count(f.db, &count_failed), 6);
    end(r);
    fixture_release(&f);
}

/* --- the end --- */

static void check_stopping_leaves_the_rest(enum df_dialect d)
{
    struct fixture f;

    fixture_init(&f, d, full_table(d));
    f.s.batch = 4;
    sink_reset(NULL);
    sink.slow_ms = 20;
    add_events(&f, 400, 8);
    struct df_relay *r = start(&f);
    while (sent_count() < 8)
        (void)sched_yield();
    end(r);
    int64_t done = count(f.db, &count_processed);
    assert_int_equal(done, (int64_t)sent_count());
    assert_int_equal(count(f.db, &count_pending), 400 - done);
    fixture_release(&f);
}

/* --- statements --- */

static void test_names_and_texts_are_quoted(void **state)
{
    struct df_buf b;
    (void)state;
    df_buf_init(&b, 1024);
    relay_quote_name(DF_POSTGRES, DF_STR("a\"b; --"), &b);
    assert_string_equal(b.ptr, "\"a\"\"b; --\"");
    df_buf_reset(&b);
    relay_quote_name(DF_SQLSERVER, DF_STR("a]b"), &b);
    assert_string_equal(b.ptr, "[a]]b]");
    df_buf_reset(&b);
    relay_quote_text(DF_SQLSERVER, DF_STR("it's"), &b);
    assert_string_equal(b.ptr, "'it''s'");
    df_buf_reset(&b);
    relay_quote_text(DF_SQLSERVER, DF_STR("ação"), &b);
    assert_string_equal(b.ptr, "N'ação'");
    df_buf_reset(&b);
    relay_list_open(DF_POSTGRES, &b);
    relay_list_add(DF_POSTGRES, DF_STR("a\"\\,}"), &b);
    relay_list_add(DF_POSTGRES, DF_STR("NULL"), &b);
    relay_list_close(DF_POSTGRES, &b);
    assert_string_equal(b.ptr, "{\"a\\\"\\\\,}\",\"NULL\"}");
    df_buf_release(&b);
}

static void test_targets_are_shown_without_secrets(void **state)
{
    static const struct {
        char *target;
        const char *shown;
    } cases[] = {
        {NULL, ""},
        {"http://user:pass@host:1/p?key=secret#x", "http://host:1/p"},
        {"amqp://u:p@h/v", "amqp://h/v"},
        {"a:1,b:2", "a:1,b:2"},
        {"kafka://a:1,b:2/topic", "kafka://a:1,b:2/topic"},
        {"http://host/p@th", "http://host/p@th"},
    };
    char out[64];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct df_relay_settings s = {.target = cases[i].target};
        df_relay_target_masked(&s, out, sizeof out);
        assert_string_equal(out, cases[i].shown);
    }
}

#define ON_EACH(f)                                                                                 \
    static void test_##f(void **state)                                                             \
    {                                                                                              \
        (void)state;                                                                               \
        for (enum df_dialect d = DF_SQLITE; d < DF_DIALECT_COUNT; d++) {                           \
            if (testdb_available(d))                                                               \
                check_##f(d);                                                                      \
        }                                                                                          \
    }
ON_EACH(all_arrive_and_are_marked)
ON_EACH(late_events_arrive)
ON_EACH(a_call_is_heard_once)
ON_EACH(poisoned_events_end_as_failed)
ON_EACH(a_refused_event_fails_at_once)
ON_EACH(next_attempt_is_waited_for)
ON_EACH(who_is_woken_need_not_poll)
ON_EACH(a_small_table_will_do)
ON_EACH(order_by_one)
ON_EACH(order_by_four)
ON_EACH(a_long_chain_holds_nobody_up)
ON_EACH(a_head_that_is_not_due_holds_its_aggregate)
ON_EACH(a_poisoned_head_blocks_its_aggregate_alone)
ON_EACH(four_at_once_send_each_once)
ON_EACH(of_the_table)
ON_EACH(a_table_may_come_later)
ON_EACH(an_open_breaker_sends_probes_alone)
ON_EACH(an_outage_gives_nothing_up)
ON_EACH(an_outage_gives_nothing_up_in_order)
ON_EACH(poisoned_probes_do_not_keep_it_shut)
ON_EACH(stopping_leaves_the_rest)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_and_texts_are_quoted),
        cmocka_unit_test(test_targets_are_shown_without_secrets),
        cmocka_unit_test(test_of_the_table),
        cmocka_unit_test(test_all_arrive_and_are_marked),
        cmocka_unit_test(test_late_events_arrive),
        cmocka_unit_test(test_a_call_is_heard_once),
        cmocka_unit_test(test_poisoned_events_end_as_failed),
        cmocka_unit_test(test_a_refused_event_fails_at_once),
        cmocka_unit_test(test_next_attempt_is_waited_for),
        cmocka_unit_test(test_who_is_woken_need_not_poll),
        cmocka_unit_test(test_a_small_table_will_do),
        cmocka_unit_test(test_order_by_one),
        cmocka_unit_test(test_order_by_four),
        cmocka_unit_test(test_a_long_chain_holds_nobody_up),
        cmocka_unit_test(test_a_head_that_is_not_due_holds_its_aggregate),
        cmocka_unit_test(test_a_poisoned_head_blocks_its_aggregate_alone),
        cmocka_unit_test(test_four_at_once_send_each_once),
        cmocka_unit_test(test_a_table_may_come_later),
        cmocka_unit_test(test_an_open_breaker_sends_probes_alone),
        cmocka_unit_test(test_an_outage_gives_nothing_up),
        cmocka_unit_test(test_an_outage_gives_nothing_up_in_order),
        cmocka_unit_test(test_poisoned_probes_do_not_keep_it_shut),
        cmocka_unit_test(test_stopping_leaves_the_rest),
    };
    testdb_print_skipped();
    df_log_init(DF_LOG_ERROR, DF_LOG_JSON, df_clock_real());
    return cmocka_run_group_tests(tests, NULL, NULL);
}

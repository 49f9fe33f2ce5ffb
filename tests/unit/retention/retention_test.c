/*
 * The retention job with an injected clock, on every database there is: whose turn it is, that a
 * pass gets past what stays and what a wrong clock wrote, that portions are read by an index, and
 * the removal of a batch step by step. What is removed and what is not, over HTTP:
 * tests/integration/retention.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "delivery/attempts.sql.h"
#include "fake_clock.h"
#include "retention/retention.h"
#include "retention/retention.sql.h"
#include "store/schema.h"
#include "testdb.h"

#define START INT64_C(1700000000000)
#define HOUR  INT64_C(3600000)
#define DAY   (24 * HOUR)
#define BATCH "018bcfe5-6800-7000-8000-000000000003"

static enum df_dialect dialect;
static struct testdb t;
static struct df_db *db;
static struct df_err err;
static struct df_store *store;
static struct df_storage *storage;
static struct df_arena arena;
static struct df_fake_clock clock_;

static int setup(void **state)
{
    (void)state;
    testdb_init(&t, dialect);
    db = testdb_open(&t);
    assert_ok(df_schema_apply(db, NULL, &err), &err);
    df_fake_clock_init(&clock_, START, 5);
    df_arena_init(&arena);
    assert_ok(df_store_open(&(struct df_store_options){.settings.url = t.url}, &store, &err), &err);
    assert_ok(df_storage_new(&(struct df_storage_options){.data_dir = t.dir, .clock = &clock_.base},
                             &storage, &err),
              &err);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    df_store_close(store);
    df_storage_free(storage);
    df_db_close(db);
    df_arena_release(&arena);
    testdb_release(&t);
    return 0;
}

static struct df_retention *make(void)
{
    return df_retention_new(&(struct df_retention_options){
        .url = t.url,
        .store = store,
        .storage = storage,
        .clock = &clock_.base,
        .settings = {.attempts_ms = 30 * DAY, .events_ms = 30 * DAY, .batches_ms = 30 * DAY}});
}

static int64_t run_all(struct df_retention *r, const char *kind)
{
    struct df_retention_count counts[DF_RETENTION_KINDS_MAX];
    size_t count = 0;
    int64_t rows = -1;

    assert_ok(df_retention_run(r, counts, &count, &err), &err);
    for (size_t i = 0; i < count; i++)
        rows = strcmp(counts[i].kind, kind) == 0 ? counts[i].rows : rows;
    return rows;
}

TESTDB_QUERY(attempts_left, 0, "SELECT COUNT(*) FROM DeliveryAttempts",
             "SELECT COUNT(*) FROM DeliveryAttempts", "SELECT COUNT(*) FROM DeliveryAttempts");
TESTDB_QUERY(items_left, 0, "SELECT COUNT(*) FROM ImportItem", "SELECT COUNT(*) FROM ImportItem",
             "SELECT COUNT(*) FROM ImportItem");
TESTDB_QUERY(batches_left, 0, "SELECT COUNT(*) FROM ImportBatch",
             "SELECT COUNT(*) FROM ImportBatch", "SELECT COUNT(*) FROM ImportBatch");

static void add_attempts(size_t count, int64_t age_ms)
{
    struct df_p_delivery_attempt_insert *rows = df_calloc(count, sizeof(*rows));

    for (size_t i = 0; i < count; i++)
        rows[i] = (struct df_p_delivery_attempt_insert){
            .channel = df_text(DF_STR("functional-ack")),
            .row_key = df_text(DF_STR("7")),
            .attempt = df_int(1),
            .attempted_at = df_time(df_wall_ms(&clock_.base) - age_ms),
            .outcome = df_text(DF_STR("Sent")),
            .http_status = df_int(200),
            .duration_ms = df_int(7),
            .answer = df_text(DF_STR("ok")),
            .error = df_null(DF_TEXT),
            .counted = df_int(1),
        };
    assert_ok(df_db_begin(db, true, &err), &err);
    assert_ok(df_db_exec_many(db, DF_MANY(delivery_attempt_insert, rows), count, NULL, NULL, NULL,
                              NULL, &err),
              &err);
    assert_ok(df_db_commit(db, &err), &err);
    free(rows);
}

/* All of them, past those that a wrong clock dated in the future, and no younger one. */
static void a_pass_removes_all_that_is_old(void **state)
{
    (void)state;
    enum { FUTURE = 600, OLD = 9000, YOUNG = 700 };
    struct df_retention *r = make();

    add_attempts(FUTURE, -400 * DAY);
    add_attempts(OLD, 31 * DAY);
    add_attempts(YOUNG, 29 * DAY);
    assert_int_equal(run_all(r, "attempts"), OLD);
    assert_int_equal(testdb_int(db, &attempts_left), FUTURE + YOUNG);
    df_fake_clock_advance_ms(&clock_, 2 * DAY);
    assert_int_equal(run_all(r, "attempts"), YOUNG);
    df_retention_free(r);
}

/* Turns until a run has ended; how many there were. */
static int run_turns(struct df_retention *r)
{
    for (int turns = 1; turns < 100000; turns++) {
        int64_t pause_ms = df_retention_turn(r);
        assert_true(pause_ms > 0);
        if (pause_ms >= 60000)
            return turns;
    }
    fail_msg("the run has no end");
    return 0;
}

static void a_process_runs_at_its_start_and_one_of_them_every_hour(void **state)
{
    (void)state;
    struct df_retention *first = make(), *second = make();

    assert_true(run_turns(first) > 1);
    assert_true(run_turns(second) > 1);
    assert_int_equal(run_turns(first), 1); /* not its time yet */
    df_fake_clock_advance_ms(&clock_, HOUR + 1);
    assert_true(run_turns(second) > 1);
    assert_int_equal(run_turns(first), 1); /* the other had it */
    df_fake_clock_advance_ms(&clock_, HOUR + 1);
    assert_true(run_turns(first) > 1);
    assert_int_equal(run_turns(second), 1);
    df_retention_free(first);
    df_retention_free(second);
}

/* A portion costs as much as it has rows, not as the table has. */
static void portions_are_read_by_an_index_and_removed_by_key(void **state)
{
    (void)state;
    static const struct {
        const struct df_query *query;
        const char *sqlite;
    } picks[] = {
        {&df_q_old_event_pick, "INDEX IX_outbox_events_over"},
        {&df_q_old_delivery_pick, "INDEX IX_WebhookDeliveries_CreatedAt"},
        {&df_q_old_failure_pick, "INTEGER PRIMARY KEY"},
        {&df_q_old_attempt_pick, "INTEGER PRIMARY KEY"},
        {&df_q_old_ticket_pick, "INTEGER PRIMARY KEY"},
        {&df_q_old_ack_pick, "INTEGER PRIMARY KEY"},
        {&df_q_old_counterparty_pick, "INTEGER PRIMARY KEY"},
        {&df_q_old_call_pick, "INDEX IX_IntegrationCalls_CreatedAt"},
        {&df_q_old_alert_pick, "INDEX IX_Alerts_FiredAt"},
        {&df_q_retention_batches, "INDEX IX_ImportBatch_CreatedAt"},
        /* And what is over is looked up again by its key. */
        {&df_q_old_event_sure, "INDEX sqlite_autoindex_outbox_events_1"},
        {&df_q_old_delivery_sure, "INDEX sqlite_autoindex_WebhookDeliveries_1"},
        {&df_q_old_failure_sure, "INTEGER PRIMARY KEY"},
        {&df_q_old_attempt_sure, "INTEGER PRIMARY KEY"},
        {&df_q_old_ticket_sure, "INTEGER PRIMARY KEY"},
        {&df_q_old_ack_sure, "INTEGER PRIMARY KEY"},
        {&df_q_old_counterparty_sure, "INTEGER PRIMARY KEY"},
        {&df_q_old_call_sure, "INDEX sqlite_autoindex_IntegrationCalls_1"},
        {&df_q_old_alert_sure, "INDEX sqlite_autoindex_Alerts_1"},
    };
    static struct df_query explain[sizeof picks / sizeof picks[0]];
    static char sql[sizeof picks / sizeof picks[0]][8192];

    if (dialect != DF_SQLITE)
        skip();
    for (size_t i = 0; i < sizeof picks / sizeof picks[0]; i++) {
        struct df_value none[8];
        struct df_result *r = NULL;
        bool by_index = false;
        for (size_t p = 0; p < picks[i].query->param_count; p++)
            none[p] = df_null(DF_INT);
        (void)snprintf(sql[i], sizeof sql[i], "EXPLAIN QUERY PLAN %s",
                       df_query_sql(picks[i].query, DF_SQLITE));
        explain[i] = *picks[i].query;
        explain[i].is_packed = false;
        explain[i].column_count = 0; /* the plan has its own */
        explain[i].is_packed = false;
        explain[i].text[DF_SQLITE].sql = sql[i];
        assert_ok(df_db_query(db, &explain[i], none, explain[i].param_count, &r, &err), &err);
        while (df_result_step(r, &err) == DF_ROW) {
            const char *line = df_arena_cstr(&arena, df_col_text(r, 3));
            by_index =
                by_index || (strncmp(line, "SEARCH c ", 9) == 0 && strstr(line, picks[i].sqlite));
            assert_true(!strstr(line, "SCAN") || strstr(line, "json_each"));
            /* Of rows of one moment, no more. */
            assert_null(strstr(line, "FOR ORDER BY"));
        }
        df_result_free(r);
        if (!by_index)
            fail_msg("%s does not use %s", picks[i].query->name, picks[i].sqlite);
    }
}

/* --- a batch --- */

static void add_batch(int status)
{
    char text[2048];

    (void)snprintf(text, sizeof text,
                   "INSERT INTO Clients (Id, Name, ClientIdentifier, SecretHash, SecretSalt)"
                   " VALUES ('" BATCH "', 'Acme', 'acme', %s, %s);"
                   "INSERT INTO ImportBatch (Id, ClientId, Status, FileName, FileType, CreatedAt)"
                   " VALUES ('" BATCH "', '" BATCH "', %d, 'a.csv', 2, '2020-01-01');",
                   dialect == DF_POSTGRES ? "''" : "0x00", dialect == DF_POSTGRES ? "''" : "0x00",
                   status);
    if (dialect == DF_SQLITE)
        for (char *at; (at = strstr(text, "0x00"));)
            memcpy(at, "x'' ", 4);
    testdb_script(db, text);
    for (int i = 0; i < 700; i++) {
        (void)snprintf(
            text, sizeof text,
            "INSERT INTO ImportItem (BatchId, Sequence, Status) VALUES ('" BATCH "', %d, 0)", i);
        testdb_script(db, text);
    }
}

static void a_batch_goes_in_steps_and_its_row_last(void **state)
{
    (void)state;
    struct df_remove_options opt = {.store = store, .storage = storage, .clock = &clock_.base};
    struct df_removed counts = {0};
    struct df_uuid id;
    bool done = false;
    int steps = 0;

    assert_true(df_uuid_parse(DF_STR(BATCH), &id));
    assert_code(df_batch_remove_step(&opt, &id, &counts, &done, &err), DF_E_NOT_FOUND, &err);
    add_batch(3);
    while (!done) {
        int64_t items = testdb_int(db, &items_left);
        assert_ok(df_batch_remove_step(&opt, &id, &counts, &done, &err), &err);
        assert_true(items - testdb_int(db, &items_left) <= 300);
        assert_true(done || testdb_int(db, &batches_left) == 1);
        steps++;
    }
    assert_true(steps >= 4);
    assert_int_equal(counts.items, 700);
    assert_int_equal(counts.batches, 1);
    assert_int_equal(testdb_int(db, &batches_left), 0);
    assert_code(df_batch_remove_step(&opt, &id, &counts, &done, &err), DF_E_NOT_FOUND, &err);
}

/* Large rows go a few at a time, however many there may be in a step. */
static void a_step_removes_no_more_than_a_mebibyte(void **state)
{
    (void)state;
    enum { ITEMS = 45, KIB = 100 };
    struct df_remove_options opt = {.store = store, .storage = storage, .clock = &clock_.base};
    struct df_removed counts = {0};
    struct df_uuid id;
    bool done = false;

    assert_true(df_uuid_parse(DF_STR(BATCH), &id));
    add_batch(3);
    testdb_script(
        db, dialect == DF_SQLITE     ? "DELETE FROM ImportItem WHERE Sequence >= 45;"
                                       "UPDATE ImportItem SET PayloadJson = hex(zeroblob(51200))"
            : dialect == DF_POSTGRES ? "DELETE FROM ImportItem WHERE Sequence >= 45;"
                                       "UPDATE ImportItem SET PayloadJson = repeat('x', 102400)"
                                     : "DELETE FROM ImportItem WHERE Sequence >= 45;"
                                       "UPDATE ImportItem SET PayloadJson ="
                                       " REPLICATE(CAST('x' AS VARCHAR(MAX)), 102400)");
    while (!done) {
        int64_t items = testdb_int(db, &items_left);
        assert_ok(df_batch_remove_step(&opt, &id, &counts, &done, &err), &err);
        assert_true((items - testdb_int(db, &items_left)) * KIB <= 1024);
    }
    assert_int_equal(counts.items, ITEMS);
    assert_int_equal(testdb_int(db, &batches_left), 0);
}

/* Targets are in the order in which they were first used, not of when they were used last. */
static void an_old_target_behind_many_young_ones_goes(void **state)
{
    (void)state;
    struct df_retention *r = make();
    char text[256];

    for (int i = 0; i < 301; i++) {
        (void)snprintf(text, sizeof text,
                       "INSERT INTO DeliveryTargets (Channel, Target, UpdatedAt)"
                       " VALUES ('webhooks', 't%d', '%s')",
                       i, i < 300 ? "2023-11-14T00:00:00.000Z" : "2020-01-01T00:00:00.000Z");
        testdb_script(db, text);
    }
    assert_int_equal(run_all(r, "targets"), 1);
    df_retention_free(r);
}

static void a_batch_that_is_not_over_stays(void **state)
{
    (void)state;
    struct df_remove_options opt = {.store = store, .storage = storage, .clock = &clock_.base};
    struct df_removed counts = {0};
    struct df_uuid id;
    bool done = false;

    assert_true(df_uuid_parse(DF_STR(BATCH), &id));
    add_batch(1);
    assert_code(df_batch_remove_step(&opt, &id, &counts, &done, &err), DF_E_CONFLICT, &err);
    assert_int_equal(testdb_int(db, &items_left), 700);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_pass_removes_all_that_is_old),
        TEST(a_process_runs_at_its_start_and_one_of_them_every_hour),
        TEST(portions_are_read_by_an_index_and_removed_by_key),
        TEST(a_batch_goes_in_steps_and_its_row_last),
        TEST(a_batch_that_is_not_over_stays),
        TEST(a_step_removes_no_more_than_a_mebibyte),
        TEST(an_old_target_behind_many_young_ones_goes),
    };
    df_log_init(DF_LOG_ERROR, DF_LOG_JSON, df_clock_real());
    return testdb_run_tests("retention", &dialect, tests, sizeof(tests) / sizeof(tests[0]));
}

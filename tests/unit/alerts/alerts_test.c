/*
 * The rules with an injected clock, on every database there is: each fires once, resolves when the
 * condition is gone, and fires again; and what is written for the sinks. The messages as they
 * arrive: tests/integration/alerts/test_alerts.py.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "alerts/alerts.h"
#include "alerts/alerts.sql.h"
#include "alerts/messages.sql.h"
#include "base/log.h"
#include "base/uuid.h"
#include "fake_clock.h"
#include "store/schema.h"
#include "testdb.h"

#define MINUTE INT64_C(60000)
#define START  INT64_C(1700000000000)
#define CLIENT "018bcfe5-6800-7000-8000-000000000001"
#define SENT   "UPDATE AlertDeliveries SET NextAttemptAt = NULL, Status = 'Sent'"
#define HOOK   "018bcfe5-6800-7000-8000-000000000002"

static enum df_dialect dialect;
static struct testdb t;
static struct df_db *db;
static struct df_err err;
static struct df_store *store;
static struct df_delivery *engine, *other_engine;
static struct df_alerts *alerts, *other;
static struct df_fake_clock clock_;
static struct df_secret *key, *url;

/* --- the house -------------------------------------------------------------------------------- */

static struct df_alerts *make(struct df_delivery **ret_engine)
{
    struct df_alerts *a = df_alerts_new(&(struct df_alerts_options){
        .store = store,
        .clock = &clock_.base,
        .settings = {.pagerduty_routing_key = key,
                     .pagerduty_url = "http://127.0.0.1:1/",
                     .teams_url = url,
                     .interval_ms = MINUTE,
                     .batch_stuck_ms = 60 * MINUTE,
                     .delivery_stuck_ms = 90 * MINUTE,
                     .webhook_failures = 3,
                     .error_rate_percent = 20,
                     .error_rate_min = 100,
                     .error_rate_ms = 60 * MINUTE},
    });
    *ret_engine = df_delivery_new(&(struct df_delivery_options){.clock = &clock_.base});
    df_alerts_add_channel(a, *ret_engine);
    return a;
}

TESTDB_QUERY(add_client, 1,
             "INSERT INTO Clients (Id, Name, ClientIdentifier, SecretHash, SecretSalt)"
             " VALUES ('" CLIENT "', 'Acme', 'acme', ?1, ?1)",
             "INSERT INTO Clients (Id, Name, ClientIdentifier, SecretHash, SecretSalt)"
             " VALUES ('" CLIENT "', 'Acme', 'acme', $1, CAST('' AS bytea))",
             "INSERT INTO Clients (Id, Name, ClientIdentifier, SecretHash, SecretSalt)"
             " VALUES ('" CLIENT "', 'Acme', 'acme', ?, 0x00)");

static int setup(void **state)
{
    (void)state;
    testdb_init(&t, dialect);
    db = testdb_open(&t);
    assert_ok(df_schema_apply(db, NULL, &err), &err);
    df_fake_clock_init(&clock_, START, 5);
    assert_ok(df_store_open(&(struct df_store_options){.settings.url = t.url}, &store, &err), &err);
    key = df_secret_new(DF_STR("routing-key"));
    url = df_secret_new(DF_STR("http://127.0.0.1:1/teams"));
    alerts = make(&engine);
    other = make(&other_engine);
    assert_ok(df_db_exec(db, &add_client, DF_PARAMS(df_blob(DF_STR("x"))), NULL, &err), &err);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    df_store_close(store);
    df_delivery_free(engine);
    df_delivery_free(other_engine);
    df_alerts_free(alerts);
    df_alerts_free(other);
    df_secret_free(key);
    df_secret_free(url);
    df_db_close(db);
    testdb_release(&t);
    return 0;
}

static int64_t now(void)
{
    return df_wall_ms(&clock_.base);
}

static void after_minutes(int64_t n)
{
    df_fake_clock_advance_ms(&clock_, n * MINUTE);
    df_alerts_evaluate(alerts);
}

/* --- what is in the database ------------------------------------------------------------------ */

TESTDB_QUERY(add_batch, 6,
             "INSERT INTO ImportBatch (Id, ClientId, FileName, FileType, Status, StartedAt,"
             " UpdatedAt, ProcessedRecords, ErrorCount, CompletedAt)"
             " VALUES (?1, '" CLIENT "', 'x', 0, ?2, ?3, ?3, ?4, ?5, ?6)",
             "INSERT INTO ImportBatch (Id, ClientId, FileName, FileType, Status, StartedAt,"
             " UpdatedAt, ProcessedRecords, ErrorCount, CompletedAt)"
             " VALUES ($1, '" CLIENT "', 'x', 0, $2, $3, $3, $4, $5, $6)",
             "INSERT INTO ImportBatch (Id, ClientId, FileName, FileType, Status, StartedAt,"
             " ProcessedRecords, ErrorCount, CompletedAt)"
             " VALUES (?, '" CLIENT "', 'x', 0, ?, ?, ?, ?, ?)");
TESTDB_QUERY(touch_batch, 2, "UPDATE ImportBatch SET UpdatedAt = ?1 WHERE Id = ?2",
             "UPDATE ImportBatch SET UpdatedAt = $1 WHERE Id = $2",
             "UPDATE ImportBatch SET UpdatedAt = ? WHERE Id = ?");
TESTDB_QUERY(begin_batch, 2, "UPDATE ImportBatch SET StartedAt = ?1, Status = 1 WHERE Id = ?2",
             "UPDATE ImportBatch SET StartedAt = $1, Status = 1 WHERE Id = $2",
             "UPDATE ImportBatch SET StartedAt = ?, Status = 1 WHERE Id = ?");
TESTDB_QUERY(give_way, 2, "UPDATE ImportBatch SET GaveWayAt = ?1 WHERE Id = ?2",
             "UPDATE ImportBatch SET GaveWayAt = $1 WHERE Id = $2",
             "UPDATE ImportBatch SET GaveWayAt = ? WHERE Id = ?");
TESTDB_QUERY(take_turn, 2, "UPDATE ImportBatch SET GaveWayAt = NULL, TurnAt = ?1 WHERE Id = ?2",
             "UPDATE ImportBatch SET GaveWayAt = NULL, TurnAt = $1 WHERE Id = $2",
             "UPDATE ImportBatch SET GaveWayAt = NULL, TurnAt = ? WHERE Id = ?");
TESTDB_QUERY(begin_outage, 2, "UPDATE ImportBatch SET Status = 0, OutageSince = ?1 WHERE Id = ?2",
             "UPDATE ImportBatch SET Status = 0, OutageSince = $1 WHERE Id = $2",
             "UPDATE ImportBatch SET Status = 0, OutageSince = ? WHERE Id = ?");
TESTDB_QUERY(
    probe_batch, 2,
    "UPDATE ImportBatch SET Status = 1 - Status, TurnAt = ?1, UpdatedAt = ?1 WHERE Id = ?2",
    "UPDATE ImportBatch SET Status = 1 - Status, TurnAt = $1, UpdatedAt = $1 WHERE Id = $2",
    "UPDATE ImportBatch SET Status = 1 - Status, TurnAt = ? WHERE Id = ?");
TESTDB_QUERY(end_outage, 2,
             "UPDATE ImportBatch SET Status = 1, OutageSince = NULL, TurnAt = ?1 WHERE Id = ?2",
             "UPDATE ImportBatch SET Status = 1, OutageSince = NULL, TurnAt = $1 WHERE Id = $2",
             "UPDATE ImportBatch SET Status = 1, OutageSince = NULL, TurnAt = ? WHERE Id = ?");
TESTDB_QUERY(settle_chunk, 3,
             "INSERT INTO ImportChunk (BatchId, ChunkId, RecordOffset, RecordCount, ContentHash,"
             " Status, UpdatedAt) VALUES (?1, ?2, 0, 1, printf('%064d', 0), 3, ?3)",
             "INSERT INTO ImportChunk (BatchId, ChunkId, RecordOffset, RecordCount, ContentHash,"
             " Status, UpdatedAt) VALUES ($1, $2, 0, 1, repeat('0', 64), 3, $3)",
             "INSERT INTO ImportChunk (BatchId, ChunkId, RecordOffset, RecordCount, ContentHash,"
             " Status, UpdatedAt) VALUES (?, ?, 0, 1, REPLICATE('0', 64), 3, ?)");
TESTDB_QUERY(add_failure, 1,
             "INSERT INTO WebhookDeliveryFailures (SubscriptionId, EventId, Event, PayloadJson,"
             " CreatedAt) VALUES ('" HOOK "', '" HOOK "', 'BatchFailed', '{}', ?1)",
             "INSERT INTO WebhookDeliveryFailures (SubscriptionId, EventId, Event, PayloadJson,"
             " CreatedAt) VALUES ('" HOOK "', '" HOOK "', 'BatchFailed', '{}', $1)",
             "INSERT INTO WebhookDeliveryFailures (SubscriptionId, EventId, Event, PayloadJson,"
             " CreatedAt) VALUES ('" HOOK "', '" HOOK "', 'BatchFailed', '{}', ?)");

static struct df_uuid batch(int status, int64_t started_ms, int64_t processed, int64_t errors,
                            int64_t completed_ms)
{
    struct df_uuid id = df_uuid_v7(df_clock_real());

    assert_ok(df_db_exec(db, &add_batch,
                         DF_PARAMS(df_uuid(df_uuid_str(&id)), df_int(status), df_time(started_ms),
                                   df_int(processed), df_int(errors),
                                   completed_ms < 0 ? df_null(DF_TIME) : df_time(completed_ms)),
                         NULL, &err),
              &err);
    assert_ok(df_db_exec(db, &touch_batch,
                         DF_PARAMS(df_time(started_ms), df_uuid(df_uuid_str(&id))), NULL, &err),
              &err);
    return id;
}

static void set_time(const struct df_query *q, int64_t ms, const struct df_uuid *id)
{
    assert_ok(df_db_exec(db, q, DF_PARAMS(df_time(ms), df_uuid(df_uuid_str(id))), NULL, &err),
              &err);
}

static void settle(const struct df_uuid *id, int64_t chunk)
{
    assert_ok(df_db_exec(db, &settle_chunk,
                         DF_PARAMS(df_uuid(df_uuid_str(id)), df_int(chunk), df_time(now())), NULL,
                         &err),
              &err);
}

static void hook(void)
{
    testdb_script(db, "INSERT INTO WebhookSubscriptions (Id, ClientId, Url, Secret)"
                      " VALUES ('" HOOK "', '" CLIENT "', 'https://x', 's')");
}

static void fail_delivery(void)
{
    assert_ok(df_db_exec(db, &add_failure, DF_PARAMS(df_time(now())), NULL, &err), &err);
}

#define COUNT(var, text) TESTDB_QUERY(var, 0, text, text, text)
COUNT(all_alerts, "SELECT COUNT(*) FROM Alerts");
COUNT(firing_alerts, "SELECT COUNT(*) FROM Alerts WHERE Status = 'firing' AND ResolvedAt IS NULL");
COUNT(triggers, "SELECT COUNT(*) FROM AlertDeliveries WHERE EventAction = 'trigger'");
COUNT(resolves, "SELECT COUNT(*) FROM AlertDeliveries WHERE EventAction = 'resolve'");
COUNT(secrets, "SELECT COUNT(*) FROM AlertDeliveries WHERE PayloadJson LIKE '%routing-key%'"
               " OR PayloadJson LIKE '%/teams%'");
COUNT(severe, "SELECT COUNT(*) FROM Alerts WHERE Severity = 'error' AND Status = 'firing'");

static void expect_alerts(int64_t all, int64_t firing)
{
    assert_int_equal(testdb_int(db, &all_alerts), all);
    assert_int_equal(testdb_int(db, &firing_alerts), firing);
    /* Two sinks, and each is told of every beginning and every end, once. */
    assert_int_equal(testdb_int(db, &triggers), 2 * all);
    assert_int_equal(testdb_int(db, &resolves), 2 * (all - firing));
    assert_int_equal(testdb_int(db, &secrets), 0);
}

/* --- tests ------------------------------------------------------------------------------------ */

static void a_stuck_batch_fires_once_resolves_and_fires_again(void **state)
{
    (void)state;
    struct df_uuid id = batch(1, START, 0, 0, -1);

    after_minutes(59);
    expect_alerts(0, 0);
    /* Owners that come and die change UpdatedAt: that is no progress. */
    set_time(&touch_batch, now(), &id);
    after_minutes(2);
    expect_alerts(1, 1);
    for (int i = 0; i < 3; i++)
        after_minutes(5);
    expect_alerts(1, 1);
    settle(&id, 0);
    after_minutes(1);
    expect_alerts(1, 0);
    after_minutes(58);
    expect_alerts(1, 0);
    after_minutes(2);
    expect_alerts(2, 1);
    settle(&id, 1);
    after_minutes(1);
    expect_alerts(2, 0);
}

static void a_batch_that_nobody_takes_is_stuck_too(void **state)
{
    (void)state;
    struct df_uuid first = batch(0, START, 0, 0, -1);
    struct df_uuid second = batch(0, START + 1, 0, 0, -1);

    after_minutes(61);
    expect_alerts(1, 1); /* the first in line; the second only waits for it */
    set_time(&begin_batch, now(), &first);
    after_minutes(1);
    expect_alerts(1, 0);
    set_time(&touch_batch, now(), &second);
}

static void a_batch_that_gave_way_is_not_stuck_while_others_are_worked_on(void **state)
{
    (void)state;
    struct df_uuid waits = batch(1, START, 0, 0, -1);
    struct df_uuid works = batch(1, START, 0, 0, -1);

    set_time(&give_way, START, &waits);
    for (int i = 0; i < 3; i++) {
        after_minutes(50);
        settle(&works, i);
    }
    expect_alerts(0, 0);
    set_time(&take_turn, now(), &waits); /* nothing was settled yet, for how should it */
    set_time(&give_way, now(), &works);
    after_minutes(50);
    expect_alerts(0, 0);
    after_minutes(11);
    expect_alerts(1, 1);
    settle(&waits, 0);
    after_minutes(1);
    expect_alerts(1, 0);
    /* Nobody takes either. */
    set_time(&give_way, now(), &waits);
    after_minutes(50);
    expect_alerts(1, 0);
    after_minutes(11);
    expect_alerts(3, 2);
}

/* A batch of which OmniFlow takes nothing is probed again and again: that is no progress. */
static void an_outage_is_told_once_from_its_beginning(void **state)
{
    (void)state;
    struct df_uuid first = batch(1, START, 0, 0, -1);
    struct df_uuid second = batch(1, START, 0, 0, -1);

    set_time(&begin_outage, START, &first);
    set_time(&begin_outage, START + 1, &second);
    for (int i = 0; i < 5; i++) {
        after_minutes(10);
        set_time(&probe_batch, now(), &first);
        set_time(&probe_batch, now(), &second);
    }
    expect_alerts(0, 0);
    for (int i = 0; i < 5; i++) {
        after_minutes(11);
        set_time(&probe_batch, now(), &first);
        expect_alerts(1, 1); /* the longest outage; the second batch is in the same */
    }
    set_time(&end_outage, now(), &first);
    set_time(&end_outage, now(), &second);
    after_minutes(1);
    expect_alerts(1, 0);
}

static void one_process_evaluates_in_each_interval(void **state)
{
    (void)state;
    (void)batch(1, START, 0, 0, -1);
    df_fake_clock_advance_ms(&clock_, 61 * MINUTE);
    df_alerts_evaluate(alerts);
    df_alerts_evaluate(other);
    expect_alerts(1, 1);

    (void)batch(1, START, 0, 0, -1);
    df_fake_clock_advance_ms(&clock_, MINUTE / 2);
    df_alerts_evaluate(other);
    expect_alerts(1, 1); /* not yet */
    df_fake_clock_advance_ms(&clock_, MINUTE / 2);
    df_alerts_evaluate(other);
    df_alerts_evaluate(alerts);
    expect_alerts(2, 2);
    /* A clock that was set back stops nothing. */
    (void)batch(1, START - 600 * MINUTE, 0, 0, -1);
    df_fake_clock_advance_ms(&clock_, -120 * MINUTE);
    df_alerts_evaluate(alerts);
    assert_int_equal(testdb_int(db, &all_alerts), 3);
}

static void a_webhook_that_is_given_up_again_and_again(void **state)
{
    (void)state;
    hook();
    fail_delivery();
    fail_delivery();
    after_minutes(1);
    expect_alerts(0, 0);
    fail_delivery();
    after_minutes(1);
    expect_alerts(1, 1);
    assert_int_equal(testdb_int(db, &severe), 0);
    after_minutes(61);
    expect_alerts(1, 0);
    for (int i = 0; i < 3; i++)
        fail_delivery();
    after_minutes(1);
    expect_alerts(2, 1);
    testdb_script(db, dialect == DF_SQLSERVER
                          ? "UPDATE WebhookDeliveryFailures SET ReplayedAt = SYSUTCDATETIME()"
                          : "UPDATE WebhookDeliveryFailures SET ReplayedAt = CURRENT_TIMESTAMP");
    after_minutes(1);
    expect_alerts(2, 0);
}

static void a_webhook_that_was_disabled(void **state)
{
    (void)state;
    const char *off = dialect == DF_POSTGRES ? "false" : "0";
    const char *on = dialect == DF_POSTGRES ? "true" : "1";
    char sql[256];

    hook();
    /* By its owner: no alert, nor of what waited and was given up. */
    (void)snprintf(sql, sizeof(sql),
                   "UPDATE WebhookSubscriptions SET IsActive = %s,"
                   " DisabledReason = 'Switched off by the client.'",
                   off);
    testdb_script(db, sql);
    for (int i = 0; i < 3; i++)
        fail_delivery();
    after_minutes(1);
    expect_alerts(0, 0);
    testdb_script(db, "UPDATE WebhookSubscriptions SET DisabledReason = '410 Gone'");
    after_minutes(1);
    expect_alerts(1, 1);
    assert_int_equal(testdb_int(db, &severe), 1);
    testdb_script(db, SENT); /* or that they wait would be the next alert */
    after_minutes(600);
    expect_alerts(1, 1);
    (void)snprintf(sql, sizeof(sql), "UPDATE WebhookSubscriptions SET IsActive = %s", on);
    testdb_script(db, sql);
    after_minutes(1);
    expect_alerts(1, 0);
}

static void an_error_rate_over_the_threshold(void **state)
{
    (void)state;
    (void)batch(4, START, 1000, 200, START); /* 20 %: not over it */
    after_minutes(1);
    expect_alerts(0, 0);
    (void)batch(1, now(), 10, 5, -1); /* one in work counts: 205 of 1010 */
    after_minutes(1);
    expect_alerts(1, 1);
    after_minutes(1);
    expect_alerts(1, 1);
    /* Only the one in work is left after an hour, and that is too little to tell. */
    after_minutes(56);
    expect_alerts(1, 1);
    (void)batch(4, START, 90, 90, START - 1);
    after_minutes(2);
    expect_alerts(2, 1); /* that it is stuck by now is another alert */
}

static void a_channel_whose_rows_wait(void **state)
{
    (void)state;
    struct df_uuid id = batch(1, START, 0, 0, -1);

    after_minutes(61); /* its messages are what waits */
    expect_alerts(1, 1);
    settle(&id, 0);
    after_minutes(1);
    expect_alerts(1, 0);
    settle(&id, 1);
    for (int i = 2; i < 5; i++) {
        after_minutes(29);
        settle(&id, i);
    }
    expect_alerts(1, 0);
    after_minutes(3);
    assert_int_equal(testdb_int(db, &firing_alerts), 1);
    testdb_script(db, SENT);
    after_minutes(1);
    expect_alerts(2, 0);
}

static void count_row(void *arg, struct df_result *r)
{
    (void)r;
    ++*(size_t *)arg;
}

static size_t claim(void)
{
    size_t n = 0;

    assert_ok(df_db_each(db,
                         DF_Q(alert_delivery_claim, .now = df_time(now()), .after = df_time(0),
                              .after_id = df_uuid(DF_STR("00000000-0000-0000-0000-000000000000")),
                              .shards = df_int(0xffff), .limit = df_int(10)),
                         count_row, &n, &err),
              &err);
    return n;
}

static void a_resolution_does_not_overtake_its_alert(void **state)
{
    (void)state;
    struct df_uuid id = batch(1, START, 0, 0, -1);

    after_minutes(61);
    settle(&id, 0);
    after_minutes(1);
    expect_alerts(1, 0);
    assert_int_equal(claim(), 2); /* the beginnings, to both sinks */
    testdb_script(db, "UPDATE AlertDeliveries SET NextAttemptAt = NULL, Status = 'Sent'"
                      " WHERE EventAction = 'trigger' AND Sink = 'teams'");
    assert_int_equal(claim(), 2); /* the beginning to one, the end to the other */
    testdb_script(db, "UPDATE AlertDeliveries SET NextAttemptAt = NULL, Status = 'Sent'"
                      " WHERE EventAction = 'resolve' AND Sink = 'teams'");
    assert_int_equal(claim(), 1);
    /* Given up is an end too. */
    testdb_script(db, "UPDATE AlertDeliveries SET NextAttemptAt = NULL, Status = 'Error'"
                      " WHERE EventAction = 'trigger' AND Sink = 'pagerduty'");
    assert_int_equal(claim(), 1);
    /* And once its alert is over, it is not sent after all: nobody would take it back. */
    int64_t again = -1;
    struct df_value none = df_null(DF_TEXT);
    assert_ok(df_db_query_int(db,
                              DF_Q(alert_delivery_retry_total, .target = none, .error = none,
                                   .given_up = df_int(0), .since = df_time(0),
                                   .until = df_time(253402300799000)),
                              &again, &err),
              &err);
    assert_int_equal(again, 0);
}

static void a_storm_does_not_page_for_each(void **state)
{
    (void)state;
    for (int i = 0; i < 105; i++)
        (void)batch(1, START, 0, 0, -1);
    after_minutes(61);
    expect_alerts(100, 100);
    after_minutes(1);
    expect_alerts(100, 100);
}

/* On SQLite nobody else writes meanwhile: no rule may go through a table that only grows. */
static void no_rule_reads_all_that_ever_was(void **state)
{
    (void)state;
    static struct df_query explain[3]; /* a connection knows statements by their address */
    static char sql[3][4096];
    const struct df_query *const rules[] = {&df_q_alert_batches_stuck, &df_q_alert_webhooks_failing,
                                            &df_q_alert_error_rates};
    if (dialect != DF_SQLITE)
        skip();
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        struct df_value none[8];
        struct df_result *r = NULL;
        for (size_t p = 0; p < rules[i]->param_count; p++)
            none[p] = df_null(DF_INT);
        (void)snprintf(sql[i], sizeof(sql[i]), "EXPLAIN QUERY PLAN %s",
                       df_query_sql(rules[i], DF_SQLITE));
        explain[i] = *rules[i];
        explain[i].is_packed = false;
        explain[i].column_count = 0; /* the plan has its own */
        explain[i].text[DF_SQLITE].sql = sql[i];
        assert_ok(df_db_query(db, &explain[i], none, explain[i].param_count, &r, &err), &err);
        while (df_result_step(r, &err) == DF_ROW) {
            struct df_str step = df_col_text(r, 3);
            assert_null(memmem(step.ptr, step.len, "SCAN ImportBatch", 16));
            assert_null(memmem(step.ptr, step.len, "SCAN WebhookDeliveryFailures", 28));
            assert_null(memmem(step.ptr, step.len, "SCAN f", 6));
            assert_null(memmem(step.ptr, step.len, "SCAN b ", 7));
        }
        df_result_free(r);
    }
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_stuck_batch_fires_once_resolves_and_fires_again),
        TEST(a_batch_that_nobody_takes_is_stuck_too),
        TEST(a_batch_that_gave_way_is_not_stuck_while_others_are_worked_on),
        TEST(an_outage_is_told_once_from_its_beginning),
        TEST(one_process_evaluates_in_each_interval),
        TEST(a_webhook_that_is_given_up_again_and_again),
        TEST(a_webhook_that_was_disabled),
        TEST(an_error_rate_over_the_threshold),
        TEST(a_channel_whose_rows_wait),
        TEST(a_resolution_does_not_overtake_its_alert),
        TEST(a_storm_does_not_page_for_each),
        TEST(no_rule_reads_all_that_ever_was),
    };
    df_log_init(DF_LOG_ERROR, DF_LOG_JSON, df_clock_real());
    return testdb_run_tests("alerts", &dialect, tests, sizeof(tests) / sizeof(tests[0]));
}

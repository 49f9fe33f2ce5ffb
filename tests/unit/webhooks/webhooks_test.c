/*
 * Webhooks on every database there is, with the engine, a real HTTP server as the receiver and a
 * clock that moves only when told: the schedule to the millisecond, what ends it, and what becomes
 * of the rest.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/log.h"
#include "capture.h"
#include "delivery/sign.h"
#include "delivery/verify.h"
#include "fake_clock.h"
#include "net/http.h"
#include "shards/shards.h"
#include "store/schema.h"
#include "testdb.h"
#include "webhooks/channel.sql.h"
#include "webhooks/subscriptions.h"
#include "webhooks/webhooks.h"

#include <pthread.h>
#include <stdatomic.h>

#define CLIENT "11111111-1111-4111-8111-111111111111"
#define HOOK   "22222222-2222-4222-8222-222222222222"
#define QUIET  "33333333-3333-4333-8333-333333333333"
#define BATCH  "44444444-4444-4444-8444-444444444444"
#define SECRET "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
#define OLD    "the old secret, sixteen"
#define DAY_MS (INT64_C(24) * 3600 * 1000)
#define START  INT64_C(1700000000000)
#define THE_BODY                                                                                   \
    "{\"event\":\"BatchCompleted\",\"clientId\":\"a\xC3\xA7\xC3\xA3o \xF0\x9F\x98\x80\"}"

static const int64_t delays[] = {15000, 30000, 60000, 300000, 900000};
enum { DELAYS = sizeof(delays) / sizeof(delays[0]) };

static enum df_dialect dialect;
static struct testdb t;
static struct df_db *db;
static struct df_err err;
static struct df_store *store;
static struct df_outbound outbound;
static struct df_shards *shards;
static struct df_delivery *engine;
static struct df_webhooks *webhooks;
static struct df_http_server *http;
static struct df_fake_clock now;
static struct df_int_list schedule;
static int64_t poll_ms;

/* --- the receiver ----------------------------------------------------------------------------- */

static _Atomic unsigned plan[16]; /* answers in turn; then `rest` */
static _Atomic size_t plan_count;
static _Atomic unsigned rest;
static _Atomic size_t seen; /* requests to /in */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct df_verify_result verified[DF_VERIFY_KINDS]; /* of the last one */
static bool signed_by_both;
static char last_key[128];

static void verify(struct df_req *req)
{
    const struct df_signed m = {
        .body = df_req_body(req),
        .timestamp = df_req_header(req, "X-DataFlow-Timestamp"),
        .signature = df_req_header(req, "X-DataFlow-Signature"),
        .webhook_id = df_req_header(req, "webhook-id"),
        .webhook_timestamp = df_req_header(req, "webhook-timestamp"),
        .webhook_signature = df_req_header(req, "webhook-signature"),
    };
    struct df_call_header both[DF_SIGN_HEADERS];
    struct df_arena arena;
    int64_t time_s = 0;

    df_arena_init(&arena);
    (void)df_str_to_i64(m.timestamp, &time_s);
    df_sign(DF_STR(SECRET), DF_STR(OLD), m.webhook_id, time_s, m.body, &arena, both);
    pthread_mutex_lock(&lock);
    df_verify(DF_STR(SECRET), &m, df_wall_ms(&now.base) / 1000, 300, verified);
    signed_by_both =
        df_str_eq(m.signature, both[1].value) && df_str_eq(m.webhook_signature, both[4].value);
    (void)snprintf(last_key, sizeof(last_key), DF_STR_FMT,
                   DF_STR_ARG(df_req_header(req, "Idempotency-Key")));
    pthread_mutex_unlock(&lock);
    df_arena_release(&arena);
}

static void take(struct df_req *req)
{
    size_t n = seen++;
    verify(req);
    unsigned status = n < plan_count ? plan[n] : rest;
    if (status == 429)
        (void)df_req_add_header(req, "Retry-After", DF_STR("120"));
    df_req_answer_static(req, status, "text/plain", DF_STR("as planned"));
}

static void take_quietly(struct df_req *req)
{
    df_req_answer_static(req, 204, "text/plain", DF_STR(""));
}

static const struct df_route routes[] = {
    {.method = "POST", .pattern = "/in", .body = DF_BODY_ANY, .handle = take},
    {.method = "POST", .pattern = "/quiet", .body = DF_BODY_ANY, .handle = take_quietly},
    {.method = NULL},
};

/* --- the server ------------------------------------------------------------------------------- */

static void make_engine(void)
{
    struct df_store_options so = {.settings.url = t.url};

    assert_ok(df_store_open(&so, &store, &err), &err);
    assert_ok(df_outbound_open(&outbound, &(struct df_http_client_options){0},
                               &(struct df_breaker_settings){.window = 10,
                                                             .min_calls = 5,
                                                             .failure_rate = 50,
                                                             .open_ms = 10000,
                                                             .half_open_calls = 3},
                               &now.base, &err),
              &err);
    /* The lease is of the machine's clock: no test is about it. */
    shards = df_shards_new(&(struct df_shards_options){
        .store = store, .clock = df_clock_real(), .version = "test", .lease_ms = 60000});
    engine = df_delivery_new(&(struct df_delivery_options){.store = store,
                                                           .shards = shards,
                                                           .outbound = &outbound,
                                                           .clock = &now.base,
                                                           .settings.lease_ms = 60000,
                                                           .settings.timeout_ms = 5000,
                                                           .poll_ms = poll_ms});
    webhooks =
        df_webhooks_new(&(struct df_webhooks_options){.store = store,
                                                      .clock = &now.base,
                                                      .settings = {.retry_delays_ms = schedule,
                                                                   .timeout_ms = 5000,
                                                                   .disable_after_ms = 5 * DAY_MS,
                                                                   .allow_private = true}});
    df_webhooks_add_channels(webhooks, engine);
}

static void start_engine(void)
{
    make_engine();
    df_shards_start(shards);
    df_delivery_start(engine);
}

static void stop_engine(void)
{
    df_webhooks_stop(webhooks);
    df_shards_stop(shards);
    df_delivery_stop(engine, 5000);
    df_outbound_stop(&outbound);
    df_delivery_end(engine);
    df_shards_end(shards);
    df_store_close(store);
    df_delivery_free(engine);
    df_shards_free(shards);
    df_webhooks_free(webhooks);
    df_outbound_close(&outbound);
    engine = NULL;
}

static void add_rows(void)
{
    static const char *const sql =
        "INSERT INTO Clients (Id, Name, ClientIdentifier, SecretHash, SecretSalt)"
        " VALUES ('" CLIENT "', 'n', 'i', %s, %s);"
        "INSERT INTO WebhookSubscriptions (Id, ClientId, Url, Secret)"
        " VALUES ('" HOOK "', '" CLIENT "', 'http://%s/in', '" SECRET "');"
        "INSERT INTO WebhookSubscriptions (Id, ClientId, Url, Secret, Events)"
        " VALUES ('" QUIET "', '" CLIENT "', 'http://%s/quiet', '" SECRET "', 'BatchStarted');"
        "INSERT INTO ImportBatch (Id, ClientId, FileName, FileType)"
        " VALUES ('" BATCH "', '" CLIENT "', 'x', 1);";
    const char *blob = dialect == DF_SQLITE ? "x'00'" : dialect == DF_POSTGRES ? "'\\x00'" : "0x00";
    char text[2048];

    (void)snprintf(text, sizeof(text), sql, blob, blob, df_http_address(http),
                   df_http_address(http));
    testdb_script(db, text);
}

static int setup(void **state)
{
    (void)state;
    size_t applied = 0;
    const struct df_route_table tables[] = {{.routes = routes}, {.routes = NULL}};
    struct df_http_options opt = {.settings.listen = "127.0.0.1:0",
                                  .settings.threads = 2,
                                  .settings.max_body_bytes = 65536,
                                  .tables = tables};

    df_fake_clock_init(&now, START, 1);
    testdb_init(&t, dialect);
    db = testdb_open(&t);
    assert_ok(df_schema_apply(db, &applied, &err), &err);
    assert_ok(df_http_start(&opt, &http, &err), &err);
    seen = plan_count = 0;
    rest = 200;
    schedule.count = DELAYS;
    memcpy(schedule.items, delays, sizeof(delays));
    poll_ms = 100;
    add_rows();
    start_engine();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    if (engine)
        stop_engine();
    df_http_stop(http);
    df_db_close(db);
    testdb_release(&t);
    return 0;
}

static void set_plan(size_t count, const unsigned *statuses, unsigned then)
{
    for (size_t i = 0; i < count; i++)
        plan[i] = statuses[i];
    plan_count = count;
    rest = then;
}

/* --- rows ------------------------------------------------------------------------------------- */

#define SAME_QUERY(var, sql) TESTDB_QUERY(var, 0, sql, sql, sql)
#define OF_HOOK              " FROM WebhookDeliveries WHERE SubscriptionId = '" HOOK "'"
SAME_QUERY(attempts, "SELECT COALESCE(MAX(AttemptCount), 0)" OF_HOOK);
SAME_QUERY(count_sent, "SELECT COUNT(*)" OF_HOOK " AND Status = 'Sent' AND NextAttemptAt IS NULL"
                       " AND LastError IS NULL AND SentAt IS NOT NULL");
SAME_QUERY(count_ended,
           "SELECT COUNT(*)" OF_HOOK " AND Status = 'Error' AND NextAttemptAt IS NULL");
SAME_QUERY(quiet_waiting, "SELECT COUNT(*) FROM WebhookDeliveries WHERE SubscriptionId = '" QUIET
                          "' AND Status <> 'Sent'");
SAME_QUERY(count_buried, "SELECT COUNT(*) FROM WebhookDeliveryFailures AS f"
                         " JOIN WebhookDeliveries AS d ON d.Id = f.DeliveryId"
                         " WHERE f.EventId = d.EventId AND f.ReplayedAt IS NULL");
SAME_QUERY(buried_whole, "SELECT COUNT(*) FROM WebhookDeliveryFailures WHERE Attempts = 6 AND"
                         " LastStatus = 500 AND LastError IS NOT NULL AND FirstAttemptAt IS NOT"
                         " NULL AND LastAttemptAt > FirstAttemptAt");
SAME_QUERY(count_failing,
           "SELECT COUNT(*) FROM WebhookSubscriptions WHERE FailureSince IS NOT NULL");
SAME_QUERY(count_disabled, "SELECT COUNT(*) FROM WebhookSubscriptions WHERE Id = '" HOOK
                           "' AND DisabledAt IS NOT NULL AND DisabledReason IS NOT NULL AND"
                           " CAST(IsActive AS INT) = 0");
SAME_QUERY(count_notified,
           "SELECT COUNT(*) FROM ImportBatch WHERE CAST(WebhookNotified AS INT) = 1");
SAME_QUERY(history, "SELECT COUNT(*) FROM DeliveryAttempts WHERE Channel = 'webhooks' AND RowKey IN"
                    " (SELECT LOWER(CAST(Id AS VARCHAR(64)))" OF_HOOK ")");
SAME_QUERY(count_previous, "SELECT COUNT(*) FROM WebhookSubscriptions WHERE PreviousSecret IS NOT"
                           " NULL AND PreviousSecretExpiresAt IS NOT NULL");
SAME_QUERY(next_attempt, "SELECT NextAttemptAt" OF_HOOK);

static void await(const struct df_query *q, int64_t want)
{
    int64_t got = -1;
    for (int i = 0; i < 6000; i++) {
        got = testdb_int(db, q);
        if (got == want)
            return;
        (void)usleep(10000);
    }
    fail_msg("%s: %lld, not %lld", q->name, (long long)got, (long long)want);
}

/* Every subscription that wants it: BatchCompleted is for HOOK, BatchStarted for QUIET. */
static void emit(const char *event)
{
    int64_t made = 0;
    const struct df_webhook_event e = {.client_id = DF_STR(CLIENT),
                                       .event = event,
                                       .reference = DF_STR(BATCH),
                                       .batch_id = DF_STR(BATCH),
                                       .body = DF_STR(THE_BODY),
                                       .correlation_id = DF_STR("c \xC3\xA7"),
                                       .now_ms = df_wall_ms(&now.base)};
    assert_ok(df_webhooks_emit(db, &now.base, &e, &made, &err), &err);
    assert_int_equal(made, 1);
    df_webhooks_wake(webhooks);
}

/* Until the engine has looked at what is due now: what it finds besides has come back. */
static void let_it_look(void)
{
    emit("BatchStarted");
    await(&quiet_waiting, 0);
}

static void advance(int64_t ms)
{
    df_fake_clock_advance_ms(&now, ms);
    df_webhooks_wake(webhooks);
}

static int64_t due_at(void)
{
    struct df_result *r = NULL;
    assert_ok(df_db_query(db, &next_attempt, DF_NO_PARAMS, &r, &err), &err);
    assert_int_equal(df_result_step(r, &err), DF_ROW);
    int64_t at = df_col_null(r, 0) ? -1 : df_col_time(r, 0);
    df_result_free(r);
    return at;
}

/* --- tests ------------------------------------------------------------------------------------ */

static void the_schedule_is_kept_to_the_letter_and_ends_in_a_dead_letter(void **state)
{
    (void)state;
    rest = 500;
    emit("BatchCompleted");
    for (size_t i = 0; i < DELAYS; i++) {
        await(&attempts, (int64_t)i + 1);
        assert_int_equal(due_at(), df_wall_ms(&now.base) + delays[i]);
        advance(delays[i] - 1);
        let_it_look();
        assert_int_equal(seen, i + 1);
        advance(1);
    }
    await(&count_ended, 1);
    assert_int_equal(seen, DELAYS + 1);
    assert_int_equal(testdb_int(db, &count_buried), 1);
    assert_int_equal(testdb_int(db, &buried_whole), 1);
    assert_int_equal(testdb_int(db, &history), DELAYS + 1);
    assert_int_equal(testdb_int(db, &count_failing), 1);
    assert_int_equal(testdb_int(db, &count_notified), 0);
    advance(DAY_MS);
    let_it_look();
    assert_int_equal(seen, DELAYS + 1);
}

static void who_fails_four_times_and_then_accepts_has_it(void **state)
{
    (void)state;
    set_plan(4, (const unsigned[]){500, 404, 302, 503}, 202);
    emit("BatchCompleted");
    for (size_t i = 0; i < 4; i++) {
        await(&attempts, (int64_t)i + 1);
        assert_int_equal(testdb_int(db, &count_failing), 1);
        advance(delays[i]);
    }
    await(&count_sent, 1);
    assert_int_equal(seen, 5);
    assert_int_equal(testdb_int(db, &attempts), 5);
    assert_int_equal(testdb_int(db, &count_buried), 0);
    assert_int_equal(testdb_int(db, &count_failing), 0);
    assert_int_equal(testdb_int(db, &count_notified), 1);
}

static void retry_after_is_honoured(void **state)
{
    (void)state;
    set_plan(1, (const unsigned[]){429}, 200);
    emit("BatchCompleted");
    await(&attempts, 1);
    assert_int_equal(due_at(), df_wall_ms(&now.base) + 120000);
    advance(119999);
    let_it_look();
    assert_int_equal(seen, 1);
    advance(1);
    await(&count_sent, 1);
}

static void assert_all_verified(void)
{
    for (size_t i = 0; i < DF_VERIFY_KINDS; i++) {
        assert_true(verified[i].present);
        assert_null(verified[i].why);
    }
}

static void what_arrives_is_signed_with_both_secrets_in_a_rotation(void **state)
{
    (void)state;
    emit("BatchCompleted");
    await(&count_sent, 1);
    pthread_mutex_lock(&lock);
    assert_all_verified();
    assert_false(signed_by_both);
    assert_memory_equal(last_key, "webhooks:", 9);
    pthread_mutex_unlock(&lock);

    /* The body has one signature, the current one's; the headers have both. */
    testdb_script(db, "UPDATE WebhookSubscriptions SET PreviousSecret = '" OLD "',"
                      " PreviousSecretExpiresAt = '2023-11-15 22:13:20' WHERE Id = '" HOOK "';");
    emit("BatchCompleted");
    await(&count_sent, 2);
    pthread_mutex_lock(&lock);
    assert_all_verified();
    assert_true(signed_by_both);
    pthread_mutex_unlock(&lock);
}

static void gone_disables_at_once_and_what_waits_is_given_up(void **state)
{
    (void)state;
    set_plan(2, (const unsigned[]){500, 410}, 200);
    emit("BatchCompleted");
    await(&attempts, 1);
    emit("BatchCompleted");
    await(&count_ended, 2);
    assert_int_equal(testdb_int(db, &count_disabled), 1);
    assert_int_equal(testdb_int(db, &count_buried), 2);
    advance(DAY_MS);
    let_it_look();
    assert_int_equal(seen, 2);
}

static void days_of_nothing_but_failures_disable(void **state)
{
    (void)state;
    rest = 500;
    emit("BatchCompleted");
    await(&attempts, 1);
    advance(5 * DAY_MS - 1);
    await(&attempts, 2);
    assert_int_equal(testdb_int(db, &count_disabled), 0);
    advance(delays[1]);
    await(&count_disabled, 1);
    assert_int_equal(testdb_int(db, &count_ended), 1);
    assert_int_equal(testdb_int(db, &count_buried), 1);
}

static void what_a_person_retries_after_all_is_no_dead_letter_any_more(void **state)
{
    (void)state;
    set_plan(1, (const unsigned[]){410}, 200);
    emit("BatchCompleted");
    await(&count_ended, 1);
    assert_int_equal(testdb_int(db, &count_buried), 1);
    testdb_script(db, dialect == DF_POSTGRES ? "UPDATE WebhookSubscriptions SET IsActive = true;"
                                             : "UPDATE WebhookSubscriptions SET IsActive = 1;");
    testdb_script(db, "UPDATE WebhookDeliveries SET Status = 'Pending', AttemptCount = 0,"
                      " NextAttemptAt = CreatedAt WHERE Status = 'Error';");
    df_webhooks_wake(webhooks);
    await(&count_sent, 1);
    assert_int_equal(testdb_int(db, &count_buried), 0);
    assert_int_equal(testdb_int(db, &count_notified), 1);
}

static void count_row(void *arg, struct df_result *r)
{
    (void)r;
    ++*(int64_t *)arg;
}

/* Every row in Error, but for those that a retry of many leaves out. */
static int64_t retry_all(void)
{
    struct df_value now_value = df_time(df_wall_ms(&now.base));
    struct df_value none = df_null(DF_TEXT);
    int64_t rows = 0, total = -1;

    assert_ok(df_db_query_int(db,
                              DF_Q(webhook_retry_total, .target = none, .target_query = none,
                                   .error = none, .given_up = df_int(0), .since = df_time(0),
                                   .until = df_time(253402300799000)),
                              &total, &err),
              &err);
    assert_ok(
        df_db_each(db,
                   DF_Q(webhook_retry_some, .now = now_value, .target = none, .target_query = none,
                        .error = none, .given_up = df_int(0), .since = df_time(0),
                        .until = df_time(253402300799000), .limit = df_int(100)),
                   count_row, &rows, &err),
        &err);
    assert_int_equal(rows, total);
    return rows;
}

static void all_that_failed_again_but_for_what_was_replayed_or_has_no_receiver(void **state)
{
    (void)state;
    const char *replayed = dialect == DF_SQLSERVER ? "SYSUTCDATETIME()" : "CURRENT_TIMESTAMP";
    char sql[256];

    set_plan(2, (const unsigned[]){500, 410}, 200);
    emit("BatchCompleted");
    await(&attempts, 1);
    emit("BatchCompleted");
    await(&count_buried, 2);
    assert_int_equal(retry_all(), 0);
    testdb_script(db, dialect == DF_POSTGRES ? "UPDATE WebhookSubscriptions SET IsActive = true;"
                                             : "UPDATE WebhookSubscriptions SET IsActive = 1;");
    (void)snprintf(sql, sizeof(sql),
                   "UPDATE WebhookDeliveryFailures SET ReplayedAt = %s WHERE LastStatus = 410;",
                   replayed);
    testdb_script(db, sql);
    assert_int_equal(retry_all(), 1);
    df_webhooks_wake(webhooks);
    await(&count_sent, 1);
    assert_int_equal(testdb_int(db, &count_ended), 1);
}

static void a_process_that_died_repeats_nothing_before_its_time(void **state)
{
    (void)state;
    set_plan(1, (const unsigned[]){500}, 200);
    emit("BatchCompleted");
    await(&attempts, 1);
    stop_engine();
    start_engine();
    advance(delays[0] - 1);
    let_it_look();
    assert_int_equal(seen, 1);
    advance(1);
    await(&count_sent, 1);
    assert_int_equal(seen, 2);
}

static void a_previous_secret_is_removed_when_its_time_is_over(void **state)
{
    (void)state;
    /* START is 22:13:20 of the day before. */
    testdb_script(db,
                  "UPDATE WebhookSubscriptions SET PreviousSecret = '" OLD "',"
                  " PreviousSecretExpiresAt = '2023-11-15T22:13:20.000Z' WHERE Id = '" HOOK "';");
    df_fake_clock_advance_ms(&now, DAY_MS - 1);
    df_subscriptions_forget_previous(store, &now.base);
    assert_int_equal(testdb_int(db, &count_previous), 1);
    df_fake_clock_advance_ms(&now, 1);
    df_subscriptions_forget_previous(store, &now.base);
    assert_int_equal(testdb_int(db, &count_previous), 0);
}

/* A cycle as the store runs it: rolled back, run again, committed. */
static void that_one_is_disabled_is_told_once_after_the_commit(void **state)
{
    char ids[DF_CHANNEL_IDS_SIZE];
    struct df_arena arena;

    (void)state;
    stop_engine();
    make_engine(); /* not started */
    const struct df_channel *c = df_delivery_find(engine, DF_STR("webhooks"));
    testdb_script(db, "INSERT INTO WebhookDeliveries (Id, SubscriptionId, EventId, Event,"
                      " PayloadJson, Status, AttemptCount, NextAttemptAt, LastStatus) VALUES"
                      " ('" BATCH "', '" HOOK "', '" BATCH "', 'BatchFailed', '{}', 'Error', 1,"
                      " NULL, 410);");
    struct df_value buried = df_channel_ids(df_uuid(DF_STR(BATCH)), ids);
    capture();
    df_arena_init(&arena);
    for (int i = 0; i < 2; i++) {
        assert_ok(df_db_begin(db, true, &err), &err);
        assert_ok(c->settled(c, db, df_time(START), buried, &arena, &err), &err);
        if (i == 0)
            df_db_rollback(db);
    }
    assert_int_equal(captured_with("\"level\":\"error\""), 0);
    assert_ok(df_db_commit(db, &err), &err);
    capture();
    c->committed(c);
    c->committed(c); /* the next cycle's, which disables none */
    assert_int_equal(captured_with("\"level\":\"error\""), 1);
    assert_int_equal(testdb_int(db, &count_disabled), 1);
    df_arena_release(&arena);
}

static int64_t settle_one(const struct df_query *q)
{
    struct df_value at = df_time(START);
    struct df_value none = df_null(DF_TIME);
    int64_t changed = -1;

    assert_ok(
        df_db_exec(db,
                   DF_ANY(q, {"now", at}, {"started", at}, {"id", df_uuid(DF_STR(BATCH))},
                          {"version", df_int(1)}, {"was_due", at}, {"due", at},
                          {"error", df_text(DF_STR("HTTP 500"))}, {"http_status", df_int(200)},
                          {"duration_ms", df_int(5)}, {"attempts", df_int(1)}, {"first_failed", at},
                          {"counted", none}, {"mark", df_null(DF_INT)},
                          {"held_for", df_null(DF_INT)}, {"held_at", none}),
                   &changed, &err),
        &err);
    return changed;
}

/* Its row looks as if it waited, and is ended with the others. */
static void one_on_its_way_to_a_disabled_subscription_arrives_after_all(void **state)
{
    static const char *const states[] = {"'Pending', NULL", "'Error', NULL",
                                         "'Sending', '2023-11-14T22:13:20.000Z'"};
    struct df_value hook = df_uuid(DF_STR(HOOK));
    char ids[DF_CHANNEL_IDS_SIZE], sql[512];
    struct df_arena arena;

    (void)state;
    stop_engine();
    make_engine(); /* not started */
    const struct df_channel *c = df_delivery_find(engine, DF_STR("webhooks"));
    df_arena_init(&arena);
    for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
        testdb_script(db, "DELETE FROM WebhookDeliveryFailures;");
        testdb_script(db, "DELETE FROM WebhookDeliveries;");
        (void)snprintf(sql, sizeof(sql),
                       "INSERT INTO WebhookDeliveries (Id, SubscriptionId, EventId, Event,"
                       " PayloadJson, NextAttemptAt, Status, SendingSince) VALUES ('" BATCH
                       "', '" HOOK "', '" BATCH
                       "', 'BatchFailed', '{}', '2023-11-14T22:13:20.000Z', %s);",
                       states[i]);
        testdb_script(db, sql);
        assert_ok(df_db_exec(db,
                             DF_Q(webhook_end_waiting, .error = df_text(DF_STR("disabled")),
                                  .subscription_id = hook),
                             NULL, &err),
                  &err);
        assert_ok(
            df_db_exec(db,
                       DF_Q(webhook_bury_waiting, .now = df_time(START), .subscription_id = hook),
                       NULL, &err),
            &err);
        assert_int_equal(testdb_int(db, &count_buried), 1);
        /* What fails finds it ended. */
        assert_int_equal(settle_one(c->failed), 0);
        assert_int_equal(settle_one(c->deferred), 0);
        assert_int_equal(testdb_int(db, &count_ended), 1);
        assert_int_equal(settle_one(c->sent), 1);
        assert_ok(c->settled(c, db, df_time(START), df_channel_ids(df_uuid(DF_STR(BATCH)), ids),
                             &arena, &err),
                  &err);
        assert_int_equal(testdb_int(db, &count_sent), 1);
        assert_int_equal(testdb_int(db, &count_buried), 0);
    }
    df_arena_release(&arena);
}

/* Nobody wakes the engine, and by itself it looks once an hour: the cycle that only settled must
 * have kept in mind when the row is due. */
static void a_retry_goes_out_when_it_is_due_though_nobody_wakes_the_engine(void **state)
{

    (void)state;
    stop_engine();
    schedule = (struct df_int_list){.items = {50, 50, 50, 50, 50}, .count = DELAYS};
    poll_ms = DAY_MS / 24;
    start_engine();
    set_plan(2, (const unsigned[]){500, 500}, 200);
    emit("BatchCompleted");
    await(&attempts, 1);
    /* A step that is taken while the engine works out how long to wait is not part of its wait. */
    for (int i = 0; i < 600 && testdb_int(db, &count_sent) != 1; i++) {
        df_fake_clock_advance_ms(&now, 50);
        (void)usleep(20000);
    }
    assert_int_equal(testdb_int(db, &count_sent), 1);
}

static void *commit_soon(void *arg)
{
    struct df_err late = DF_ERR_INIT;

    (void)usleep(200000); /* the emitting statement has begun by then, and waits */
    assert_ok(df_db_commit(arg, &late), &late);
    return NULL;
}

static void one_that_is_being_deleted_is_told_nothing(void **state)
{
    (void)state;
    pthread_t thread;
    int64_t made = -1;
    const struct df_webhook_event e = {.client_id = DF_STR(CLIENT),
                                       .event = "BatchCompleted",
                                       .body = DF_STR(THE_BODY),
                                       .now_ms = df_wall_ms(&now.base)};
    if (dialect != DF_POSTGRES) /* SQLite has one that writes; Babelfish does not lock so */
        skip();
    struct df_db *other = testdb_open(&t);
    assert_ok(df_db_begin(other, true, &err), &err);
    testdb_script(other, "DELETE FROM WebhookSubscriptions WHERE Id = '" HOOK "'");
    assert_int_equal(pthread_create(&thread, NULL, commit_soon, other), 0);
    assert_ok(df_webhooks_emit(db, &now.base, &e, &made, &err), &err);
    assert_int_equal(made, 0);
    pthread_join(thread, NULL);
    df_db_close(other);
}

static void who_disables_does_not_wait_for_who_settles(void **state)
{
    (void)state;
    pthread_t thread;
    int64_t ended = -1;

    if (dialect != DF_POSTGRES)
        skip();
    rest = 500;
    emit("BatchCompleted");
    await(&attempts, 1);
    struct df_db *other = testdb_open(&t);
    assert_ok(df_db_begin(other, true, &err), &err);
    testdb_script(other, "UPDATE WebhookDeliveries SET LastStatus = 500");
    assert_int_equal(pthread_create(&thread, NULL, commit_soon, other), 0);
    assert_ok(df_db_exec(db,
                         DF_Q(webhook_end_waiting, .error = df_text(DF_STR("disabled")),
                              .subscription_id = df_uuid(DF_STR(HOOK))),
                         &ended, &err),
              &err);
    assert_int_equal(ended, 0);
    pthread_join(thread, NULL);
    df_db_close(other);
}

int main(void)
{
#define ON_EACH(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        ON_EACH(the_schedule_is_kept_to_the_letter_and_ends_in_a_dead_letter),
        ON_EACH(who_fails_four_times_and_then_accepts_has_it),
        ON_EACH(retry_after_is_honoured),
        ON_EACH(what_arrives_is_signed_with_both_secrets_in_a_rotation),
        ON_EACH(gone_disables_at_once_and_what_waits_is_given_up),
        ON_EACH(days_of_nothing_but_failures_disable),
        ON_EACH(what_a_person_retries_after_all_is_no_dead_letter_any_more),
        ON_EACH(all_that_failed_again_but_for_what_was_replayed_or_has_no_receiver),
        ON_EACH(a_process_that_died_repeats_nothing_before_its_time),
        ON_EACH(a_previous_secret_is_removed_when_its_time_is_over),
        ON_EACH(that_one_is_disabled_is_told_once_after_the_commit),
        ON_EACH(one_on_its_way_to_a_disabled_subscription_arrives_after_all),
        ON_EACH(a_retry_goes_out_when_it_is_due_though_nobody_wakes_the_engine),
        ON_EACH(one_that_is_being_deleted_is_told_nothing),
        ON_EACH(who_disables_does_not_wait_for_who_settles),
    };
    return testdb_run_tests("webhooks", &dialect, tests, sizeof(tests) / sizeof(tests[0]));
}

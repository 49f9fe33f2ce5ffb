/*
 * The delivery engine on every database there is, with a real HTTP server as the destination: every
 * transition of the state machine in channel.h, what is recorded of it, and that one destination
 * keeps no other waiting.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/metrics.h"
#include "delivery/attempts.sql.h"
#include "interface/channels.sql.h"
#include "interface/interface.h"
#include "net/http.h"
#include "shards/shards.h"
#include "store/schema.h"
#include "testdb.h"

#include <pthread.h>
#include <stdatomic.h>

#define HOURS (INT64_C(3600) * 1000)

static enum df_dialect dialect;
static struct testdb t;
static struct df_db *db;
static struct df_err err;
static struct df_store *store;
static struct df_outbound outbound;
static struct df_shards *shards;
static struct df_delivery *engine;
static struct df_interface *interface;
static struct df_http_server *http;
static struct df_http_server *other_http;
static struct df_secret *key;
static char urls[3][128];
static struct df_arena arena;

/* --- the destination -------------------------------------------------------------------------- */

/* What comes is answered in turn with these; then with 200. */
static _Atomic unsigned plan[64];
static _Atomic size_t plan_count;
static _Atomic size_t seen;
static _Atomic bool holding; /* requests are kept until it ends */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char last_headers[1024];
static char last_body[256];

static void remember(struct df_req *req)
{
    static const char *const names[] = {"Content-Type", "x-Gateway-APIKey", "X-Correlation-Id",
                                        "Idempotency-Key", "traceparent"};
    size_t len = 0;
    struct df_str body = df_req_body(req);

    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        len +=
            (size_t)snprintf(last_headers + len, sizeof(last_headers) - len, "%s=" DF_STR_FMT "\n",
                             names[i], DF_STR_ARG(df_req_header(req, names[i])));
    (void)snprintf(last_body, sizeof(last_body), DF_STR_FMT, DF_STR_ARG(body));
    pthread_mutex_unlock(&lock);
}

static void take(struct df_req *req)
{
    size_t n = seen++;
    remember(req);
    while (holding)
        (void)usleep(5000);
    unsigned status = n < plan_count ? plan[n] : 200;
    if (status == 0) {
        df_req_drop(req);
        return;
    }
    if (status == 429)
        (void)df_req_add_header(req, "Retry-After", DF_STR("1"));
    df_req_answer_static(req, status, "text/plain", DF_STR("as planned \xC3\xA7"));
}

static const struct df_route routes[] = {
    {.method = "POST", .pattern = "/in", .body = DF_BODY_ANY, .handle = take},
    {.method = NULL},
};

static void answer_ok(struct df_req *req)
{
    df_req_answer_static(req, 200, "text/plain", DF_STR("ok"));
}

static const struct df_route other_routes[] = {
    {.method = "POST", .pattern = "/in", .body = DF_BODY_ANY, .handle = answer_ok},
    {.method = NULL},
};

static struct df_http_server *start_http(const struct df_route *table, char *url, size_t size)
{
    struct df_http_server *s = NULL;
    const struct df_route_table tables[] = {{.routes = table}, {.routes = NULL}};
    struct df_http_options opt = {.settings.listen = "127.0.0.1:0",
                                  .settings.threads = 8,
                                  .settings.max_body_bytes = 4 << 20,
                                  .tables = tables};
    assert_ok(df_http_start(&opt, &s, &err), &err);
    (void)snprintf(url, size, "http://%s/in", df_http_address(s));
    return s;
}

/* --- time ------------------------------------------------------------------------------------- */

/* The real clock, ahead of itself by so much, and how often it was asked. */
static _Atomic int64_t ahead_ms;
static _Atomic int64_t set_ms; /* the wall clock alone */
static _Atomic size_t asked;
/* The next request is built, after its row was claimed, while so much time passes. */
static _Atomic int64_t build_ms;

static int64_t ahead_wall_ms(const struct df_clock *c)
{
    (void)c;
    asked++;
    return df_wall_ms(df_clock_real()) + ahead_ms + set_ms;
}

static int64_t ahead_mono_ns(const struct df_clock *c)
{
    (void)c;
    asked++;
    return df_mono_ns(df_clock_real()) + ahead_ms * 1000000;
}

static void ahead_random(const struct df_clock *c, void *ptr, size_t len)
{
    (void)c;
    ahead_ms += atomic_exchange(&build_ms, 0);
    df_random(df_clock_real(), ptr, len);
}

static const struct df_clock_ops ahead_ops = {
    .wall_ms = ahead_wall_ms, .mono_ns = ahead_mono_ns, .random = ahead_random};
static const struct df_clock ahead = {&ahead_ops};

/* --- the engine ------------------------------------------------------------------------------- */

struct setting {
    int64_t max_attempts;
    int64_t base_ms;
    int64_t open_ms;
    int64_t lease_ms;
    bool unconfigured;
};

static void start_engine(const struct setting *s)
{
    struct df_store_options so = {.settings.url = t.url};
    const struct df_delivery_settings settings = {
        .retry = {.base_ms = s->base_ms, .cap_ms = s->base_ms * 4, .max_attempts = s->max_attempts},
        .give_up_ms = 72 * HOURS,
        .lease_ms = s->lease_ms,
        .timeout_ms = 5000,
    };

    assert_ok(df_store_open(&so, &store, &err), &err);
    assert_ok(df_outbound_open(&outbound, &(struct df_http_client_options){0},
                               &(struct df_breaker_settings){.window = 10,
                                                             .min_calls = 5,
                                                             .failure_rate = 50,
                                                             .open_ms = s->open_ms,
                                                             .half_open_calls = 1},
                               df_clock_real(), &err),
              &err);
    shards = df_shards_new(&(struct df_shards_options){
        .store = store, .clock = &ahead, .version = "test", .lease_ms = s->lease_ms});
    engine = df_delivery_new(&(struct df_delivery_options){.store = store,
                                                           .outbound = &outbound,
                                                           .shards = shards,
                                                           .clock = &ahead,
                                                           .settings = settings,
                                                           .poll_ms = 100,
                                                           .max_row_bytes = 2 << 20});
    interface = df_interface_new(&(struct df_interface_options){
        .store = store,
        .clock = &ahead,
        .settings = {.functional_ack_url = s->unconfigured ? NULL : urls[0],
                     .ticket_return_url = urls[0],
                     .ticket_send_url = urls[0],
                     .api_key = key,
                     .api_key_header = "x-Gateway-APIKey",
                     .ack_business_application = "CRN"},
        .delivery_settings = settings,
    });
    df_interface_add_channels(interface, engine);
    df_shards_start(shards);
    df_delivery_start(engine);
}

static void stop_engine(int64_t drain_ms)
{
    df_shards_stop(shards);
    df_delivery_stop(engine, drain_ms);
    df_interface_stop(interface);
    df_outbound_stop(&outbound);
    df_delivery_end(engine);
    df_shards_end(shards);
    df_store_close(store);
    df_delivery_free(engine);
    df_shards_free(shards);
    df_interface_free(interface);
    df_outbound_close(&outbound);
    engine = NULL;
}

static const struct setting quick = {
    .max_attempts = 3, .base_ms = 20, .open_ms = 60000, .lease_ms = 60000};

static int setup(void **state)
{
    (void)state;
    size_t applied = 0;
    testdb_init(&t, dialect);
    db = testdb_open(&t);
    assert_ok(df_schema_apply(db, &applied, &err), &err);
    http = start_http(routes, urls[0], sizeof(urls[0]));
    other_http = start_http(other_routes, urls[1], sizeof(urls[1]));
    key = df_secret_new(DF_STR("k-4711"));
    seen = plan_count = 0;
    ahead_ms = build_ms = set_ms = 0;
    holding = false;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    holding = false;
    if (engine)
        stop_engine(5000);
    df_http_stop(http);
    df_http_stop(other_http);
    df_secret_free(key);
    df_arena_release(&arena);
    df_db_close(db);
    testdb_release(&t);
    return 0;
}

static void set_plan(size_t count, const unsigned *statuses)
{
    for (size_t i = 0; i < count; i++)
        plan[i] = statuses[i];
    plan_count = count;
}

/* --- rows ------------------------------------------------------------------------------------- */

TESTDB_QUERY(ack_insert, 4,
             "INSERT INTO TB_FUNCTIONAL_ACK_OUTBOX (BusinessDocId, PayloadJson, TargetUrl,"
             " NextAttemptAt) VALUES (?1, ?2, ?3, ?4)",
             "INSERT INTO TB_FUNCTIONAL_ACK_OUTBOX (BusinessDocId, PayloadJson, TargetUrl,"
             " NextAttemptAt) VALUES ($1, $2, $3, $4)",
             "INSERT INTO TB_FUNCTIONAL_ACK_OUTBOX (BusinessDocId, PayloadJson, TargetUrl,"
             " NextAttemptAt) VALUES (?, ?, ?, ?)");
#define COUNT_WHERE(where)   "SELECT COUNT(*) FROM TB_FUNCTIONAL_ACK_OUTBOX WHERE " where
#define SAME_QUERY(var, sql) TESTDB_QUERY(var, 0, sql, sql, sql)
SAME_QUERY(count_sent, COUNT_WHERE("Status = 'Sent' AND SentAt IS NOT NULL AND"
                                   " NextAttemptAt IS NULL"));
SAME_QUERY(count_dead, COUNT_WHERE("Status = 'Error' AND NextAttemptAt IS NULL AND"
                                   " LastError IS NOT NULL"));
SAME_QUERY(count_waiting, COUNT_WHERE("NextAttemptAt IS NOT NULL"));
SAME_QUERY(count_pending, COUNT_WHERE("Status = 'Pending'"));
SAME_QUERY(count_sending, COUNT_WHERE("Status = 'Sending'"));
SAME_QUERY(attempts_sum, "SELECT SUM(AttemptCount) FROM TB_FUNCTIONAL_ACK_OUTBOX");
SAME_QUERY(tries_sum, "SELECT SUM(TryCount) FROM TB_FUNCTIONAL_ACK_OUTBOX");
SAME_QUERY(history_count, "SELECT COUNT(*) FROM DeliveryAttempts");
/* At the first try: the row tells of it, and DeliveryAttempts does not. */
SAME_QUERY(sent_at_once, COUNT_WHERE("Status = 'Sent' AND SentStatus = 200 AND SentMs >= 0 AND"
                                     " TryCount = 1 AND LastAttemptAt <= SentAt"));

static void add_acks(size_t count, const char *url)
{
    for (size_t i = 0; i < count; i++) {
        char id[32];
        (void)snprintf(id, sizeof(id), "D \xC3\xA7%zu", i);
        assert_ok(
            df_db_exec(db, &ack_insert,
                       DF_PARAMS(df_text(df_str_c(id)), df_text(DF_STR("{\"a\":1}")),
                                 df_text(df_str_c(url)), df_time(df_wall_ms(df_clock_real()))),
                       NULL, &err),
            &err);
    }
}

static void wake(void)
{
    df_interface_wake(interface, DF_WORK_ACKS);
}

/* Until the query gives this; fails after a while. */
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

/* --- tests ------------------------------------------------------------------------------------ */

static void what_is_written_is_sent(void **state)
{
    (void)state;
    enum { N = 300 };
    start_engine(&quick);
    add_acks(N, "");
    wake();
    await(&count_sent, N);
    assert_int_equal(seen, N);
    assert_int_equal(testdb_int(db, &attempts_sum), N);
    assert_int_equal(testdb_int(db, &sent_at_once), N);
    assert_int_equal(testdb_int(db, &history_count), 0);
    pthread_mutex_lock(&lock);
    assert_non_null(strstr(last_headers, "Content-Type=application/json\n"));
    assert_non_null(strstr(last_headers, "x-Gateway-APIKey=k-4711\n"));
    assert_non_null(strstr(last_headers, "X-Correlation-Id=D%20%C3%A7"));
    assert_non_null(strstr(last_headers, "Idempotency-Key=functional-ack:"));
    assert_non_null(strstr(last_headers, "traceparent=00-"));
    assert_string_equal(last_body, "{\"a\":1}");
    pthread_mutex_unlock(&lock);
}

static void what_fails_is_tried_again_until_it_succeeds(void **state)
{
    (void)state;
    set_plan(2, (const unsigned[]){503, 0});
    start_engine(&quick);
    add_acks(1, "");
    wake();
    await(&count_sent, 1);
    /* A connection that was kept alive and is gone when the request comes is the client's affair.
     */
    assert_int_equal(seen, 3);
    int64_t tries = testdb_int(db, &tries_sum);
    assert_true(tries == 2 || tries == 3);
    assert_int_equal(testdb_int(db, &history_count), tries);
    assert_int_equal(testdb_int(db, &attempts_sum), 1); /* the success alone counts */
}

static void what_was_given_up_waits_for_a_person(void **state)
{
    (void)state;
    SAME_QUERY(cleared, COUNT_WHERE("FirstFailedAt IS NULL AND CountedAt IS NULL AND"
                                    " TargetMark IS NULL AND AttemptCount = 0"));
    set_plan(3, (const unsigned[]){500, 502, 409});
    start_engine(&quick);
    add_acks(1, "");
    wake();
    await(&count_dead, 1);
    assert_int_equal(seen, 3);
    assert_int_equal(testdb_int(db, &attempts_sum), quick.max_attempts);
    assert_int_equal(testdb_int(db, &tries_sum), 3);
    assert_ok(df_db_exec(db,
                         DF_ANY(&df_q_ack_retry_some, {"now", df_time(df_wall_ms(&ahead))},
                                {"limit", df_int(10)}, {"target", df_null(DF_TEXT)},
                                {"target_query", df_null(DF_TEXT)}, {"own", df_int(0)},
                                {"error", df_null(DF_TEXT)}, {"given_up", df_int(1)},
                                {"since", df_time(0)}, {"until", df_time(INT64_C(4102444800000))}),
                         NULL, &err),
              &err);
    assert_int_equal(testdb_int(db, &cleared), 1);
    wake();
    await(&count_sent, 1);
    assert_int_equal(testdb_int(db, &history_count), 4);
    assert_int_equal(testdb_int(db, &attempts_sum), 1);
    assert_int_equal(testdb_int(db, &tries_sum), 4);
}

static void what_cannot_succeed_is_not_tried_again(void **state)
{
    (void)state;
    static const unsigned statuses[] = {400, 409, 301, 410};
    set_plan(4, statuses);
    start_engine(&quick);
    add_acks(4, "");
    add_acks(1, "not a url");
    add_acks(1, "ftp://example.com/x");
    wake();
    await(&count_dead, 6);
    assert_int_equal(testdb_int(db, &count_waiting), 0);
    assert_int_equal(seen, 4);
}

static void a_channel_without_a_target_keeps_its_rows(void **state)
{
    (void)state;
    struct setting s = quick;
    s.unconfigured = true;
    start_engine(&s);
    add_acks(3, "");
    wake();
    (void)usleep(300000);
    assert_int_equal(testdb_int(db, &count_pending), 3);
    stop_engine(1000);
    start_engine(&quick);
    await(&count_sent, 3);
}

/* A process of an older release, which wrote its lease into the row. */
static void what_an_older_release_left_behind_is_taken_when_its_lease_is_over(void **state)
{
    (void)state;
    TESTDB_QUERY(abandon, 1,
                 "UPDATE TB_FUNCTIONAL_ACK_OUTBOX SET AttemptCount = 1, NextAttemptAt = ?1",
                 "UPDATE TB_FUNCTIONAL_ACK_OUTBOX SET AttemptCount = 1, NextAttemptAt = $1",
                 "UPDATE TB_FUNCTIONAL_ACK_OUTBOX SET AttemptCount = 1, NextAttemptAt = ?");
    add_acks(2, "");
    int64_t later = df_wall_ms(df_clock_real()) + 700;
    assert_ok(df_db_exec(db, &abandon, DF_PARAMS(df_time(later)), NULL, &err), &err);
    start_engine(&quick);
    await(&count_sent, 2);
    assert_true(df_wall_ms(df_clock_real()) >= later);
    assert_int_equal(testdb_int(db, &attempts_sum), 4);
}

static void await_seen(size_t want)
{
    for (int i = 0; i < 6000 && seen < want; i++)
        (void)usleep(10000);
    assert_int_equal(seen, want);
}

/* The shard went to another while the request was under way: the other one has the row. */
static void who_lost_a_shard_settles_nothing(void **state)
{
    (void)state;
    SAME_QUERY(steal, "UPDATE WorkShards SET Epoch = Epoch + 1");
    SAME_QUERY(stale, "SELECT COUNT(*) FROM DeliveryAttempts WHERE Outcome = 'Stale'");
    holding = true;
    start_engine(&quick);
    add_acks(1, "");
    wake();
    await_seen(1);
    assert_ok(df_db_exec(db, &steal, DF_NO_PARAMS, NULL, &err), &err);
    holding = false;
    await(&stale, 1);
    await(&count_sent, 1); /* by whoever has the shard then */
    assert_int_equal(seen, 2);
    assert_int_equal(testdb_int(db, &tries_sum), 1);
    assert_int_equal(testdb_int(db, &attempts_sum), 1);
}

/* A person starts a row over while it is on its way: what fails then says nothing about that. */
static void a_failure_changes_nothing_of_a_row_that_was_started_over(void **state)
{
    (void)state;
    SAME_QUERY(start_over, "UPDATE TB_FUNCTIONAL_ACK_OUTBOX SET NextAttemptAt ="
                           " '2020-01-01T00:00:00.000Z'");
    SAME_QUERY(stale, "SELECT COUNT(*) FROM DeliveryAttempts WHERE Outcome = 'Error'");
    if (dialect == DF_SQLSERVER)
        skip();
    set_plan(1, (const unsigned[]){409});
    holding = true;
    start_engine(&quick);
    add_acks(1, "");
    wake();
    await_seen(1);
    assert_ok(df_db_exec(db, &start_over, DF_NO_PARAMS, NULL, &err), &err);
    holding = false;
    await(&count_sent, 1);
    assert_int_equal(testdb_int(db, &stale), 1);
    assert_int_equal(seen, 2);
}

/* What takes long enough for a person to see is shown as Sending, and no longer when it is back. */
static void what_takes_long_is_shown(void **state)
{
    (void)state;
    holding = true;
    start_engine(&quick);
    add_acks(3, "");
    wake();
    await_seen(3);
    assert_int_equal(testdb_int(db, &count_sending), 0);
    ahead_ms += 1100;
    wake();
    await(&count_sending, 3);
    holding = false;
    await(&count_sent, 3);
    assert_int_equal(testdb_int(db, &count_sending), 0);
    assert_int_equal(testdb_int(db, &history_count), 0);
}

static double metric_of(const char *name)
{
    struct df_buf text;
    df_buf_init(&text, 1 << 20);
    df_metrics_write(&text);
    const char *at = strstr(df_buf_str(&text).ptr, name);
    double n = at ? strtod(at + strlen(name), NULL) : 0;
    df_buf_release(&text);
    return n;
}

static double in_hand(void)
{
    return metric_of("\ndataflow_delivery_in_flight{channel=\"functional-ack\"} ");
}

static void what_could_not_be_sent_within_the_lease_is_claimed_again(void **state)
{
    (void)state;

    start_engine(&quick);
    build_ms = quick.lease_ms * 4 / 5;
    add_acks(1, "");
    wake();
    await(&count_sent, 1);
    assert_int_equal(seen, 1);
    assert_int_equal(testdb_int(db, &attempts_sum), 1);
    assert_int_equal(testdb_int(db, &tries_sum), 1);
}

static void a_broken_destination_rests_and_no_attempt_is_counted(void **state)
{
    (void)state;
    unsigned statuses[64];
    struct setting s = quick;
    s.max_attempts = 100;
    s.open_ms = 500;
    s.base_ms = 1;
    for (size_t i = 0; i < 5; i++)
        statuses[i] = 500;
    set_plan(5, statuses);
    start_engine(&s);
    add_acks(40, "");
    wake();
    await(&count_sent, 40);
    /* Five failures opened it; nothing came until a probe was let through. */
    assert_true(seen >= 45);
    assert_int_equal(testdb_int(db, &tries_sum),
                     testdb_int(db, &history_count) + testdb_int(db, &sent_at_once));
    assert_int_equal(testdb_int(db, &attempts_sum), 40);
}

static void one_destination_that_hangs_keeps_no_other_waiting(void **state)
{
    (void)state;
    holding = true;
    start_engine(&quick);
    add_acks(50, "");
    wake();
    for (int i = 0; i < 3000 && seen == 0; i++)
        (void)usleep(10000);
    add_acks(50, urls[1]);
    wake();
    await(&count_sent, 50);
    /* Its share of 16, and perhaps a claim of 32 that is about to be put back: not all are held. */
    assert_in_range((int)in_hand(), 1, 48);
    holding = false;
    await(&count_sent, 100);
}

static void what_is_under_way_at_the_end_is_finished_or_given_back(void **state)
{
    (void)state;
    holding = true;
    start_engine(&quick);
    add_acks(5, "");
    wake();
    for (int i = 0; i < 3000 && seen < 5; i++)
        (void)usleep(10000);
    stop_engine(0);
    assert_int_equal(testdb_int(db, &count_sending), 0);
    assert_int_equal(testdb_int(db, &count_waiting), 5);
    holding = false;
    start_engine(&quick);
    await(&count_sent, 5);
}

static void *stop_slowly(void *arg)
{
    df_delivery_stop(arg, 60000);
    return NULL;
}

/* However long what is under way takes. */
static void whoever_waits_at_the_end_sleeps(void **state)
{
    pthread_t stopper;
    (void)state;

    holding = true;
    start_engine(&quick);
    add_acks(1, "");
    wake();
    for (int i = 0; i < 3000 && seen < 1; i++)
        (void)usleep(10000);
    ahead_ms = 4800; /* figures, taken every 5 s, are due soon after the end has begun */
    wake();
    assert_int_equal(pthread_create(&stopper, NULL, stop_slowly, engine), 0);
    (void)usleep(300000);
    size_t before = asked;
    (void)usleep(50000);
    assert_in_range(asked - before, 0, 1000);
    holding = false;
    assert_int_equal(pthread_join(stopper, NULL), 0);
    assert_int_equal(testdb_int(db, &count_sent), 1);
}

/* --- clocks that are set ---------------------------------------------------------------------- */

/* Hours forward, and back again: claims find what this process is sending, and leave it alone. */
static void a_clock_that_is_set_sends_nothing_twice(void **state)
{
    (void)state;
    holding = true;
    start_engine(&quick);
    add_acks(5, "");
    wake();
    await_seen(5);
    for (int round = 0; round < 3; round++) {
        set_ms += 3 * HOURS;
        wake();
        (void)usleep(200000);
    }
    set_ms = -3 * HOURS;
    wake();
    assert_int_equal(seen, 5);
    holding = false;
    await(&count_sent, 5);
    assert_int_equal(seen, 5);
    assert_int_equal(testdb_int(db, &tries_sum), 5);
    assert_int_equal(testdb_int(db, &history_count), 0);
}

/* Of one ticket an older and a newer content are never on their way at once. */
static void a_newer_content_waits_for_the_older_to_come_back(void **state)
{
    (void)state;
    static const char *const sql =
        "INSERT INTO TB_TICKET_INTERFACE (BusinessEntity, BusinessDocId, CompanyCode, BranchCode,"
        " DestinationCode, PhaseCode, ShipmentEvent, FunctionalAckIsRequired,"
        " TargetApplicationCode, RawPayloadJson, Status, NextAttemptAt, GatewaySendNextAttemptAt)"
        " VALUES ('TCK', 'T1', 'c', 'b', 'd', 15, 'RCD', '0', 'ASB', '{\"v\":1}', 'Processed', "
        "NULL,"
        " '2020-01-01T00:00:00.000%s');";
    static const char *const newer =
        "UPDATE TB_TICKET_INTERFACE SET RawPayloadJson = '{\"v\":2}', PayloadVersion = "
        "PayloadVersion"
        " + 1, GatewaySendStatus = 'Pending', GatewaySendAttemptCount = 0,"
        " GatewaySendNextAttemptAt = '2020-01-01T00:00:00.000%s';";
    SAME_QUERY(gateway_sent, "SELECT COUNT(*) FROM TB_TICKET_INTERFACE WHERE GatewaySendStatus ="
                             " 'Sent' AND GatewaySendAttemptCount = 1");
    SAME_QUERY(stale, "SELECT COUNT(*) FROM DeliveryAttempts WHERE Outcome = 'Sent'");
    char text[1024];

    holding = true;
    (void)snprintf(text, sizeof(text), sql, dialect == DF_SQLSERVER ? "" : "Z");
    testdb_script(db, text);
    start_engine(&quick);
    await_seen(1);
    (void)snprintf(text, sizeof(text), newer, dialect == DF_SQLSERVER ? "" : "Z");
    testdb_script(db, text);
    df_interface_wake(interface, DF_WORK_GATEWAY);
    (void)usleep(300000);
    assert_int_equal(seen, 1);
    holding = false;
    await(&gateway_sent, 1);
    assert_int_equal(seen, 2);
    assert_int_equal(testdb_int(db, &stale), 1);
    pthread_mutex_lock(&lock);
    assert_string_equal(last_body, "{\"v\":2}");
    pthread_mutex_unlock(&lock);
}

TESTDB_QUERY(ack_as_it_was, 5,
             "INSERT INTO TB_FUNCTIONAL_ACK_OUTBOX (BusinessDocId, PayloadJson, TargetUrl, Status,"
             " AttemptCount, CreatedAt, LastAttemptAt, NextAttemptAt)"
             " VALUES ('D', '{}', '', ?1, ?2, ?3, ?4, ?5)",
             "INSERT INTO TB_FUNCTIONAL_ACK_OUTBOX (BusinessDocId, PayloadJson, TargetUrl, Status,"
             " AttemptCount, CreatedAt, LastAttemptAt, NextAttemptAt)"
             " VALUES ('D', '{}', '', $1, $2, $3, $4, $5)",
             "INSERT INTO TB_FUNCTIONAL_ACK_OUTBOX (BusinessDocId, PayloadJson, TargetUrl, Status,"
             " AttemptCount, CreatedAt, LastAttemptAt, NextAttemptAt)"
             " VALUES ('D', '{}', '', ?, ?, ?, ?, ?)");

static void add_as_it_was(const char *status, int64_t attempts, int64_t created, int64_t tried,
                          int64_t due)
{
    int64_t now = df_wall_ms(&ahead);
    assert_ok(
        df_db_exec(db, &ack_as_it_was,
                   DF_PARAMS(df_text(df_str_c(status)), df_int(attempts), df_time(now + created),
                             tried ? df_time(now + tried) : df_null(DF_TIME), df_time(now + due)),
                   NULL, &err),
        &err);
}

/* Time passes, as far as a few leases. */
static void await_with_time(const struct df_query *q, int64_t want)
{
    for (int i = 0; i < 600 && testdb_int(db, q) != want; i++) {
        ahead_ms += 1000;
        wake();
        (void)usleep(20000);
    }
    assert_int_equal(testdb_int(db, q), want);
}

/* What was written, tried and claimed when the clock was ahead: it does not wait for that time. */
static void rows_from_before_the_clock_was_set_back_do_not_wait(void **state)
{
    (void)state;
    SAME_QUERY(left, COUNT_WHERE("Status = 'Error' AND NextAttemptAt IS NOT NULL"));

    add_as_it_was("Pending", 0, 3 * HOURS, 0, 3 * HOURS);
    add_as_it_was("Error", 1, -HOURS, 3 * HOURS, 3 * HOURS + 5000);
    add_as_it_was("Pending", 1, 3 * HOURS, 3 * HOURS, 3 * HOURS + 60000); /* its process died */
    /* A wait that somebody meant. */
    add_as_it_was("Error", 1, -HOURS, -1000, 2 * HOURS);
    start_engine(&quick);
    await_with_time(&count_sent, 3);
    assert_int_equal(testdb_int(db, &left), 1);
    assert_int_equal(seen, 3);
}

static void a_clock_set_back_while_it_runs_keeps_nothing_waiting(void **state)
{
    (void)state;
    struct setting s = quick;
    SAME_QUERY(failed, COUNT_WHERE("Status = 'Error' AND NextAttemptAt IS NOT NULL"));

    s.base_ms = HOURS; /* the next attempt is later than all of this */
    set_plan(2, (const unsigned[]){503, 503});
    set_ms = 3 * HOURS;
    start_engine(&s);
    add_acks(2, "");
    wake();
    await(&failed, 2);
    ahead_ms += 6000; /* the engine has seen this clock */
    wake();
    (void)usleep(200000);
    set_ms = 0;
    await_with_time(&count_sent, 2);
    assert_int_equal(seen, 4);
}

/* --- memory ----------------------------------------------------------------------------------- */

static void add_large(size_t count, size_t bytes)
{
    char *body = df_malloc(bytes);
    memset(body, 'x', bytes);
    body[0] = body[bytes - 1] = '"';
    for (size_t i = 0; i < count; i++)
        assert_ok(df_db_exec(db, &ack_insert,
                             DF_PARAMS(df_text(DF_STR("D")), df_text(df_str_n(body, bytes)),
                                       df_text(DF_STR("")), df_time(df_wall_ms(df_clock_real()))),
                             NULL, &err),
                  &err);
    free(body);
}

/* 8 MiB of a channel, half of them for one destination. */
static void no_more_is_claimed_than_there_is_memory_for(void **state)
{
    (void)state;
    holding = true;
    add_large(24, 1 << 20);
    start_engine(&quick);
    await_seen(4);
    for (int i = 0; i < 100; i++) {
        ahead_ms += 10; /* others are claimed, and let go of */
        (void)usleep(10000);
    }
    assert_int_equal(seen, 4);
    assert_in_range((int)in_hand(), 4, 8);
    holding = false;
    await_with_time(&count_sent, 24);
    assert_int_equal(testdb_int(db, &attempts_sum), 24);
}

static void what_is_too_large_is_not_sent(void **state)
{
    (void)state;
    SAME_QUERY(too_large, COUNT_WHERE("Status = 'Error' AND NextAttemptAt IS NULL AND"
                                      " LastError LIKE 'there are % bytes to send%'"));

    add_large(1, (5 << 20) / (dialect == DF_SQLSERVER ? 2 : 1));
    add_large(2, 64 << 10);
    start_engine(&quick);
    await(&count_sent, 2);
    await(&too_large, 1);
    assert_int_equal(seen, 2);
    assert_int_equal(testdb_int(db, &history_count), 0);
}

struct names {
    size_t count;
    int64_t calls;
    char at[2][128];
};

static void note_name(void *arg, const struct df_breaker_snapshot *s)
{
    struct names *n = arg;

    if (n->count < 2)
        (void)snprintf(n->at[n->count], sizeof(n->at[0]), DF_STR_FMT, DF_STR_ARG(s->name));
    n->count++;
    n->calls += s->calls;
}

static void a_target_and_its_host_have_one_breaker_each_however_they_are_written(void **state)
{
    (void)state;
    static const char *const forms[][2] = {
        {"http://", "/in"}, {"HTTP://", "/in?x=1"}, {"http://u:p@", "/in#f"}};
    struct names names = {0};
    char name[128];

    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        char url[128];
        (void)snprintf(url, sizeof(url), "%s%s%s", forms[i][0], df_http_address(http), forms[i][1]);
        add_acks(1, url);
    }
    start_engine(&quick);
    await(&count_sent, 3);
    df_breakers_each(outbound.breakers, note_name, &names);
    /* One for the target, one for the host. */
    assert_int_equal(names.count, 2);
    assert_int_equal(names.calls, 6);
    (void)snprintf(name, sizeof(name), "functional-ack http://%s/in", df_http_address(http));
    assert_string_equal(names.at[0], name);
    (void)snprintf(name, sizeof(name), "http://%s", df_http_address(http));
    assert_string_equal(names.at[1], name);
}

static void the_outcome_of_a_return_stands_in_its_ticket(void **state)
{
    (void)state;
    static const char *const sql =
        "INSERT INTO TB_TICKET_INTERFACE (BusinessEntity, BusinessDocId, CompanyCode, BranchCode,"
        " DestinationCode, PhaseCode, ShipmentEvent, FunctionalAckIsRequired,"
        " TargetApplicationCode, RawPayloadJson, Status, NextAttemptAt)"
        " VALUES ('TCK', 'T1', 'c', 'b', 'd', 15, 'RCD', '0', 'ASB', '{}', 'Processed', NULL);"
        "INSERT INTO TB_TICKET_RETURN_OUTBOX (BusinessEntity, BusinessDocId, PhaseCode,"
        " PayloadJson, TargetUrl, NextAttemptAt)"
        " VALUES ('TCK', 'T1', 15, '{}', '', '2020-01-01T00:00:00.000%s');";
    SAME_QUERY(returned, "SELECT COUNT(*) FROM TB_TICKET_INTERFACE WHERE ReturnStatus = 'Sent' AND"
                         " ReturnAttemptCount = 1 AND ReturnSentAt IS NOT NULL");
    char text[1024];
    (void)snprintf(text, sizeof(text), sql, dialect == DF_SQLSERVER ? "" : "Z");
    testdb_script(db, text);
    set_plan(1, (const unsigned[]){503});
    start_engine(&quick);
    await(&returned, 1);
}

int main(void)
{
#define ON_EACH(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        ON_EACH(what_is_written_is_sent),
        ON_EACH(what_fails_is_tried_again_until_it_succeeds),
        ON_EACH(what_was_given_up_waits_for_a_person),
        ON_EACH(what_cannot_succeed_is_not_tried_again),
        ON_EACH(a_channel_without_a_target_keeps_its_rows),
        ON_EACH(what_an_older_release_left_behind_is_taken_when_its_lease_is_over),
        ON_EACH(who_lost_a_shard_settles_nothing),
        ON_EACH(a_failure_changes_nothing_of_a_row_that_was_started_over),
        ON_EACH(what_takes_long_is_shown),
        ON_EACH(what_could_not_be_sent_within_the_lease_is_claimed_again),
        ON_EACH(a_broken_destination_rests_and_no_attempt_is_counted),
        ON_EACH(one_destination_that_hangs_keeps_no_other_waiting),
        ON_EACH(what_is_under_way_at_the_end_is_finished_or_given_back),
        ON_EACH(whoever_waits_at_the_end_sleeps),
        ON_EACH(a_clock_that_is_set_sends_nothing_twice),
        ON_EACH(a_newer_content_waits_for_the_older_to_come_back),
        ON_EACH(rows_from_before_the_clock_was_set_back_do_not_wait),
        ON_EACH(a_clock_set_back_while_it_runs_keeps_nothing_waiting),
        ON_EACH(no_more_is_claimed_than_there_is_memory_for),
        ON_EACH(what_is_too_large_is_not_sent),
        ON_EACH(a_target_and_its_host_have_one_breaker_each_however_they_are_written),
        ON_EACH(the_outcome_of_a_return_stands_in_its_ticket),
    };
    return testdb_run_tests("delivery", &dialect, tests, sizeof(tests) / sizeof(tests[0]));
}

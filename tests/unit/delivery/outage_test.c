/*
 * Outages, on every database there is: what waits for a target, what counts, what is given up, and
 * that all of it arrives when the target is back. The clock is the real one, ahead of itself as the
 * test likes; breakers go by it too.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/metrics.h"
#include "interface/channels.sql.h"
#include "interface/interface.h"
#include "net/http.h"
#include "store/schema.h"
#include "testdb.h"

#include <pthread.h>
#include <stdatomic.h>

#define HOURS (INT64_C(3600) * 1000)

static enum df_dialect dialect;
static struct testdb t;
static struct df_db *db;
static struct df_err err;

/* --- the destination -------------------------------------------------------------------------- */

/* What each path answers; a body with "poison" gets 500 whatever this says, and who comes with the
 * key "stranger" is 503. */
static _Atomic unsigned ack_status;
static _Atomic unsigned send_status;
static _Atomic int retry_after_s; /* of a failure; 0: none */
static _Atomic size_t hold_after; /* requests beyond so many are kept until it changes */
static _Atomic size_t seen;       /* requests */
static _Atomic size_t strangers;
static _Atomic size_t taken;
static _Atomic size_t last_number; /* of the last body {"n":N} that was taken */
static _Atomic size_t overtaken;   /* how far a body came behind a newer one, at most */
static struct df_http_server *http;
static char address[64];
static char ack_url[128];
static char send_url[128];

static bool body_has(struct df_req *req, const char *what)
{
    return memmem(df_req_body(req).ptr, df_req_body(req).len, what, strlen(what));
}

static void note_order(struct df_req *req)
{
    struct df_str body = df_req_body(req);
    int64_t n = 0;

    if (body.len < 6 || !df_str_to_i64(df_str_n(body.ptr + 5, body.len - 6), &n) || taken++ == 0)
        return; /* the first may be a probe, which is any row */
    size_t last = last_number;
    if ((size_t)n > last)
        last_number = (size_t)n;
    else if (last - (size_t)n > overtaken)
        overtaken = last - (size_t)n;
}

static void answer_planned(struct df_req *req, unsigned status)
{
    char seconds[16];

    size_t n = ++seen;
    while (n > hold_after)
        (void)usleep(5000);
    if (status == 0) {
        df_req_drop(req);
        return;
    }
    if (body_has(req, "poison"))
        status = status == 200 ? 500 : status;
    if (df_str_eq(df_req_header(req, "x-Gateway-APIKey"), DF_STR("stranger"))) {
        strangers++;
        status = 503;
    }
    if (status == 200)
        note_order(req);
    if (status != 200 && retry_after_s > 0) {
        (void)snprintf(seconds, sizeof(seconds), "%d", retry_after_s);
        (void)df_req_add_header(req, "Retry-After", df_str_c(seconds));
    }
    df_req_answer_static(req, status, "text/plain", DF_STR("as planned"));
}

static void take_ack(struct df_req *req)
{
    answer_planned(req, ack_status);
}

static void take_send(struct df_req *req)
{
    answer_planned(req, send_status);
}

static const struct df_route routes[] = {
    {.method = "POST", .pattern = "/ack", .body = DF_BODY_ANY, .handle = take_ack},
    {.method = "POST", .pattern = "/send", .body = DF_BODY_ANY, .handle = take_send},
    {.method = NULL},
};

static void start_http(const char *listen)
{
    const struct df_route_table tables[] = {{.routes = routes}, {.routes = NULL}};
    struct df_http_options opt = {.settings.listen = listen,
                                  .settings.threads = 4,
                                  .settings.max_body_bytes = 1 << 20,
                                  .tables = tables};
    assert_ok(df_http_start(&opt, &http, &err), &err);
    (void)snprintf(address, sizeof(address), "%s", df_http_address(http));
    (void)snprintf(ack_url, sizeof(ack_url), "http://%s/ack", address);
    (void)snprintf(send_url, sizeof(send_url), "http://%s/send", address);
}

/* --- time ------------------------------------------------------------------------------------- */

static _Atomic int64_t ahead_ms;

static int64_t ahead_wall_ms(const struct df_clock *c)
{
    (void)c;
    return df_wall_ms(df_clock_real()) + ahead_ms;
}

static int64_t ahead_mono_ns(const struct df_clock *c)
{
    (void)c;
    return df_mono_ns(df_clock_real()) + ahead_ms * 1000000;
}

static void ahead_random(const struct df_clock *c, void *ptr, size_t len)
{
    (void)c;
    df_random(df_clock_real(), ptr, len);
}

static const struct df_clock_ops ahead_ops = {
    .wall_ms = ahead_wall_ms, .mono_ns = ahead_mono_ns, .random = ahead_random};
static const struct df_clock ahead = {&ahead_ops};

/* --- processes -------------------------------------------------------------------------------- */

struct setting {
    int64_t base_ms;
    int64_t open_ms;
    int64_t half_open_calls;
    bool of_tenant; /* only acks, and they are a tenant's */
};

static const struct setting usual = {.base_ms = 100, .open_ms = 10000, .half_open_calls = 1};

/* One process: engine, interface, client, store. */
static struct process {
    struct df_store *store;
    struct df_outbound outbound;
    struct df_shards *shards;
    struct df_delivery *engine;
    struct df_interface *interface;
    struct df_secret *key;
    struct df_channel acks; /* of a tenant */
} processes[2];

static void whose_ack(const struct df_channel *c, struct df_result *r, struct df_arena *a,
                      struct df_delivery_request *ret)
{
    (void)c, (void)r, (void)a;
    ret->tenant = DF_STR("tenant");
    ret->breaker = df_str_c(ack_url);
}

/* The channel of acks as it would be if its rows were a tenant's. */
static void add_acks_of_tenant(struct process *p)
{
    struct df_delivery *other =
        df_delivery_new(&(struct df_delivery_options){.store = p->store, .clock = &ahead});

    df_interface_add_channels(p->interface, other);
    p->acks = *df_delivery_find(other, DF_STR("functional-ack"));
    p->acks.whose = whose_ack;
    df_delivery_add(p->engine, &p->acks);
    df_delivery_free(other);
}

static void start_process(struct process *p, const struct setting *s, const char *key)
{
    struct df_store_options so = {.settings.url = t.url};
    const struct df_delivery_settings settings = {
        .retry = {.base_ms = s->base_ms, .cap_ms = s->base_ms * 4, .max_attempts = 3},
        .give_up_ms = 72 * HOURS,
        .lease_ms = 60000,
        .timeout_ms = 5000,
    };
    const struct df_breaker_settings breaker = {.window = 10,
                                                .min_calls = 5,
                                                .failure_rate = 50,
                                                .open_ms = s->open_ms,
                                                .half_open_calls = s->half_open_calls};

    assert_ok(df_store_open(&so, &p->store, &err), &err);
    assert_ok(
        df_outbound_open(&p->outbound, &(struct df_http_client_options){0}, &breaker, &ahead, &err),
        &err);
    p->key = df_secret_new(df_str_c(key));
    p->shards = df_shards_new(&(struct df_shards_options){
        .store = p->store, .clock = &ahead, .version = "test", .lease_ms = settings.lease_ms});
    p->engine = df_delivery_new(&(struct df_delivery_options){.store = p->store,
                                                              .outbound = &p->outbound,
                                                              .shards = p->shards,
                                                              .clock = &ahead,
                                                              .settings = settings,
                                                              .poll_ms = 50});
    p->interface = df_interface_new(&(struct df_interface_options){
        .store = p->store,
        .clock = &ahead,
        .settings = {.functional_ack_url = ack_url,
                     .ticket_return_url = send_url,
                     .ticket_send_url = send_url,
                     .api_key = p->key,
                     .api_key_header = "x-Gateway-APIKey",
                     .ack_business_application = "CRN"},
        .delivery_settings = settings,
    });
    if (s->of_tenant)
        add_acks_of_tenant(p);
    else
        df_interface_add_channels(p->interface, p->engine);
    df_shards_start(p->shards);
    df_delivery_start(p->engine);
}

static void stop_process(struct process *p)
{
    if (!p->engine)
        return;
    df_shards_stop(p->shards);
    df_delivery_stop(p->engine, 5000);
    df_interface_stop(p->interface);
    df_outbound_stop(&p->outbound);
    df_delivery_end(p->engine);
    df_shards_end(p->shards);
    df_store_close(p->store);
    df_delivery_free(p->engine);
    df_shards_free(p->shards);
    df_interface_free(p->interface);
    df_outbound_close(&p->outbound);
    df_secret_free(p->key);
    *p = (struct process){0};
}

static int setup(void **state)
{
    (void)state;
    size_t applied = 0;
    testdb_init(&t, dialect);
    db = testdb_open(&t);
    assert_ok(df_schema_apply(db, &applied, &err), &err);
    ack_status = send_status = 200;
    retry_after_s = 0;
    hold_after = SIZE_MAX;
    seen = strangers = taken = last_number = overtaken = 0;
    ahead_ms = 0;
    start_http("127.0.0.1:0");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    hold_after = SIZE_MAX;
    for (size_t i = 0; i < 2; i++)
        stop_process(&processes[i]);
    df_http_stop(http);
    df_db_close(db);
    testdb_release(&t);
    return 0;
}

/* --- rows ------------------------------------------------------------------------------------- */

#define SAME_QUERY(var, sql) TESTDB_QUERY(var, 0, sql, sql, sql)
#define ACKS(what, where)    "SELECT " what " FROM TB_FUNCTIONAL_ACK_OUTBOX WHERE " where
SAME_QUERY(acks_sent, ACKS("COUNT(*)", "Status = 'Sent' AND HeldFor IS NULL"));
SAME_QUERY(acks_held, ACKS("COUNT(*)", "HeldFor IS NOT NULL AND HeldAt IS NOT NULL AND"
                                       " NextAttemptAt IS NOT NULL AND Status <> 'Sending'"));
SAME_QUERY(acks_pending, ACKS("COUNT(*)", "Status = 'Pending' AND HeldFor IS NULL"));
SAME_QUERY(acks_given_up, ACKS("COUNT(*)", "Status = 'Error' AND NextAttemptAt IS NULL"));
SAME_QUERY(acks_counted, ACKS("SUM(AttemptCount)", "Status <> 'Sent'"));
SAME_QUERY(acks_attempts, ACKS("SUM(AttemptCount)", "1 = 1"));
SAME_QUERY(acks_tries, ACKS("SUM(TryCount)", "1 = 1"));
SAME_QUERY(tickets_sent, "SELECT COUNT(*) FROM TB_TICKET_INTERFACE WHERE GatewaySendStatus = 'Sent'"
                         " AND GatewaySendAttemptCount = 1");
SAME_QUERY(tickets_held, "SELECT COUNT(*) FROM TB_TICKET_INTERFACE WHERE GatewaySendHeldFor IS NOT"
                         " NULL AND GatewaySendAttemptCount = 0");
SAME_QUERY(attempts_counted, "SELECT COUNT(*) FROM DeliveryAttempts WHERE Counted = 1 AND"
                             " Outcome <> 'Sent'");
SAME_QUERY(targets_down, "SELECT COUNT(*) FROM DeliveryTargets WHERE DownSince IS NOT NULL AND"
                         " LastError IS NOT NULL");
SAME_QUERY(arrived, "SELECT SUM(Arrived) FROM DeliveryTargets");

/* Rows {"n":N} from `from`, each written a second after the one before; or what `body` says. */
static void add_acks(size_t from, size_t count, const char *body)
{
    TESTDB_QUERY(insert, 4,
                 "INSERT INTO TB_FUNCTIONAL_ACK_OUTBOX (BusinessDocId, PayloadJson, TargetUrl,"
                 " CreatedAt, NextAttemptAt) VALUES (?1, ?2, '', ?3, ?4)",
                 "INSERT INTO TB_FUNCTIONAL_ACK_OUTBOX (BusinessDocId, PayloadJson, TargetUrl,"
                 " CreatedAt, NextAttemptAt) VALUES ($1, $2, '', $3, $4)",
                 "INSERT INTO TB_FUNCTIONAL_ACK_OUTBOX (BusinessDocId, PayloadJson, TargetUrl,"
                 " CreatedAt, NextAttemptAt) VALUES (?, ?, '', ?, ?)");
    int64_t now_ms = df_wall_ms(&ahead);

    assert_ok(df_db_begin(db, true, &err), &err);
    for (size_t i = from; i < from + count; i++) {
        char text[32];
        (void)snprintf(text, sizeof(text), "{\"n\":%zu}", i);
        assert_ok(
            df_db_exec(db, &insert,
                       DF_PARAMS(df_text(DF_STR("D")), df_text(df_str_c(body ? body : text)),
                                 df_time(now_ms - HOURS + (int64_t)i * 1000), df_time(now_ms)),
                       NULL, &err),
            &err);
    }
    assert_ok(df_db_commit(db, &err), &err);
    for (size_t i = 0; i < 2; i++) {
        if (processes[i].engine && processes[i].acks.name)
            df_delivery_wake(processes[i].engine, &processes[i].acks);
        else if (processes[i].engine)
            df_interface_wake(processes[i].interface, DF_WORK_ACKS);
    }
}

static void add_tickets(size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char sql[768];
        (void)snprintf(
            sql, sizeof(sql),
            "INSERT INTO TB_TICKET_INTERFACE (BusinessEntity, BusinessDocId, CompanyCode,"
            " BranchCode, DestinationCode, PhaseCode, ShipmentEvent, FunctionalAckIsRequired,"
            " TargetApplicationCode, RawPayloadJson, Status, NextAttemptAt,"
            " GatewaySendNextAttemptAt) VALUES ('TCK', 'T%zu', 'c', 'b', 'd', 15, 'RCD', '0',"
            " 'ASB', '{}', 'Processed', NULL, '2020-01-01T00:00:00.000%s');",
            i, dialect == DF_SQLSERVER ? "" : "Z");
        testdb_script(db, sql);
    }
    for (size_t i = 0; i < 2; i++)
        if (processes[i].engine)
            df_interface_wake(processes[i].interface, DF_WORK_GATEWAY);
}

/* Until the query gives this, while `step_ms` pass with every look. */
static void await_passing(const struct df_query *q, int64_t want, int64_t step_ms)
{
    int64_t got = -1;
    for (int i = 0; i < 1500; i++) {
        got = testdb_int(db, q);
        if (got == want)
            return;
        ahead_ms += step_ms;
        (void)usleep(20000);
    }
    fail_msg("%s: %lld, not %lld", q->name, (long long)got, (long long)want);
}

static void await(const struct df_query *q, int64_t want)
{
    await_passing(q, want, 0);
}

/* --- tests ------------------------------------------------------------------------------------ */

static void one_url_that_is_down_holds_its_rows_and_no_others(void **state)
{
    (void)state;
    ack_status = 503;
    start_process(&processes[0], &usual, "k");
    add_acks(1, 20, NULL);
    await_passing(&acks_held, 20, 200);
    add_tickets(20); /* the same host */
    await(&tickets_sent, 20);
    await(&targets_down, 1);
    assert_int_equal(testdb_int(db, &acks_counted), 0);
    assert_int_equal(testdb_int(db, &acks_given_up), 0);
    ack_status = 200;
    await_passing(&acks_sent, 20, 1000);
    await(&targets_down, 0);
    await(&arrived, 40);
    assert_int_equal(testdb_int(db, &acks_attempts), 20);
    assert_true(testdb_int(db, &acks_tries) > 20);
    assert_int_equal(testdb_int(db, &attempts_counted), 0);
}

static void a_host_that_is_away_holds_the_rows_of_all_its_targets(void **state)
{
    (void)state;
    char listen[64];

    (void)snprintf(listen, sizeof(listen), "%s", address);
    df_http_stop(http);
    http = NULL;
    start_process(&processes[0], &usual, "k");
    add_acks(1, 30, NULL);
    await_passing(&acks_held, 30, 200);
    /* No ticket was tried before, and hardly one is now. */
    add_tickets(10);
    await_passing(&tickets_held, 10, 20);
    start_http(listen);
    await_passing(&acks_sent, 30, 1000);
    await_passing(&tickets_sent, 10, 1000);
    assert_int_equal(testdb_int(db, &acks_attempts), 30);
    assert_int_equal(testdb_int(db, &attempts_counted), 0);
}

/* The oldest row, which is the first to be probed, would keep the target shut for ever. */
static void a_poisoned_row_does_not_keep_its_target_shut(void **state)
{
    (void)state;
    ack_status = 503;
    start_process(&processes[0], &usual, "k");
    add_acks(1, 1, "{\"poison\":1}");
    await_passing(&acks_held, 1, 500); /* alone, until five tries have opened the breaker */
    add_acks(2, 5, NULL);
    await(&acks_held, 6);
    ack_status = 200;
    await_passing(&acks_sent, 5, 1000);
    assert_int_equal(testdb_int(db, &acks_given_up), 0);
}

static void what_waited_goes_oldest_first_and_is_not_touched_before(void **state)
{
    (void)state;
    enum { N = 1000 };
    SAME_QUERY(as_before, ACKS("COUNT(*)", "HeldFor IS NOT NULL AND TryCount = 0 AND"
                                           " Status = 'Pending'"));
    struct setting s = usual;

    s.open_ms = HOURS / 4;
    ack_status = 503;
    start_process(&processes[0], &s, "k");
    /* They were held in another order than they were written in. */
    add_acks(N - 19, 20, NULL);
    await_passing(&acks_held, 20, 200);
    add_acks(N / 2, N / 2 - 19, NULL);
    await(&acks_held, N / 2 + 1);
    add_acks(1, N / 2 - 1, NULL);
    await(&acks_held, N);
    int64_t tries = testdb_int(db, &acks_tries);
    size_t calls = seen;
    int64_t untouched = testdb_int(db, &as_before);
    assert_true(untouched >= N - 20);
    ahead_ms += HOURS / 8; /* the breaker stays open: nobody looks at them */
    (void)usleep(300000);
    assert_int_equal(seen, calls);
    assert_int_equal(testdb_int(db, &acks_tries), tries);
    assert_int_equal(testdb_int(db, &as_before), untouched);
    ack_status = 200;
    ahead_ms += HOURS / 8;
    await(&acks_sent, N);
    assert_in_range(last_number, N - 1, N);
    assert_in_range(overtaken, 0, N / 2 - 100); /* some are on their way side by side */
    assert_int_equal(testdb_int(db, &acks_tries), tries + N);
}

static void a_restart_in_the_middle_loses_nothing(void **state)
{
    (void)state;
    ack_status = 503;
    start_process(&processes[0], &usual, "k");
    add_acks(1, 25, NULL);
    await_passing(&acks_held, 25, 200);
    for (int i = 0; i < 3; i++) { /* while it is down; it begins with a closed breaker */
        stop_process(&processes[0]);
        assert_int_equal(testdb_int(db, &acks_given_up), 0);
        start_process(&processes[0], &usual, "k");
        ahead_ms += HOURS;
        await_passing(&acks_held, 25, 200);
    }
    stop_process(&processes[0]);
    ack_status = 200; /* it is back while nobody runs */
    start_process(&processes[0], &usual, "k");
    await(&acks_sent, 25);
    assert_int_equal(testdb_int(db, &acks_attempts), 25);
    await(&targets_down, 0);
}

static void a_paused_target_gets_nothing_until_it_is_resumed(void **state)
{
    (void)state;
    SAME_QUERY(paused, "SELECT COUNT(*) FROM DeliveryTargets WHERE PausedAt IS NOT NULL");
    char sql[512];

    start_process(&processes[0], &usual, "k");
    add_acks(1, 1, NULL);
    await(&acks_sent, 1);
    await(&arrived, 1);
    (void)snprintf(sql, sizeof(sql),
                   "UPDATE DeliveryTargets SET PausedAt = CreatedAt, PausedBy = 'me'"
                   " WHERE Channel = 'functional-ack' AND Target = '%s';",
                   ack_url);
    testdb_script(db, sql);
    assert_int_equal(testdb_int(db, &paused), 1);
    (void)usleep(500000); /* it is read every poll_ms */
    add_acks(2, 10, NULL);
    await(&acks_held, 10);
    add_tickets(3);
    await(&tickets_sent, 3);
    assert_int_equal(seen, 4);
    ahead_ms += 2 * HOURS; /* not by the backstop either */
    (void)usleep(500000);
    assert_int_equal(seen, 4);
    assert_int_equal(testdb_int(db, &acks_held), 10);
    testdb_script(db, "UPDATE DeliveryTargets SET PausedAt = NULL;");
    await(&acks_sent, 11);
}

static void a_paused_channel_claims_nothing_until_it_is_resumed(void **state)
{
    (void)state;
    testdb_script(db, "INSERT INTO DeliveryTargets (Channel, Target, PausedAt) VALUES"
                      " ('functional-ack', '', '2026-01-01T00:00:00.000');");
    start_process(&processes[0], &usual, "k");
    (void)usleep(500000);
    add_acks(1, 10, NULL);
    add_tickets(3);
    await(&tickets_sent, 3);
    (void)usleep(300000);
    assert_int_equal(testdb_int(db, &acks_pending), 10);
    testdb_script(db, "UPDATE DeliveryTargets SET PausedAt = NULL;");
    await(&acks_sent, 10);
}

/* Whatever the process that cannot reach the target takes, the other one delivers. */
static void what_one_process_cannot_reach_another_delivers(void **state)
{
    (void)state;
    start_process(&processes[0], &usual, "stranger");
    add_acks(1, 50, NULL);
    await_passing(&acks_held, 50, 200);
    start_process(&processes[1], &usual, "k");
    await(&acks_sent, 50);
    for (size_t i = 0; i < 5; i++)
        add_acks(51 + 50 * i, 50, NULL);
    await_passing(&acks_sent, 300, 100);
    assert_true(strangers > 0);
    assert_int_equal(testdb_int(db, &acks_attempts) - testdb_int(db, &attempts_counted), 300);
    assert_int_equal(testdb_int(db, &acks_given_up), 0);
}

static void a_poisoned_row_among_others_is_given_up_by_count(void **state)
{
    (void)state;
    SAME_QUERY(given_up, ACKS("COUNT(*)", "Status = 'Error' AND NextAttemptAt IS NULL AND"
                                          " AttemptCount = 3 AND TryCount >= 3 AND FirstFailedAt"
                                          " IS NOT NULL AND CountedAt >= FirstFailedAt AND"
                                          " TargetMark >= 3 AND HeldFor IS NULL"));
    struct setting s = usual;
    size_t sent = 0;

    s.open_ms = 1000;
    start_process(&processes[0], &s, "k");
    add_acks(1, 1, "{\"poison\":1}");
    for (int i = 0; i < 100 && testdb_int(db, &given_up) == 0; i++) {
        add_acks(2 + sent, 20, NULL);
        sent += 20;
        await_passing(&acks_sent, (int64_t)sent, 100);
        ahead_ms += 400; /* retry_cap_ms */
    }
    assert_int_equal(testdb_int(db, &given_up), 1);
    assert_int_equal(testdb_int(db, &attempts_counted), 3);
}

static void a_row_alone_is_given_up_by_time_after_fifty_tries(void **state)
{
    (void)state;
    SAME_QUERY(tried, ACKS("COUNT(*)", "TryCount >= 5 AND AttemptCount = 0"));
    SAME_QUERY(in_time, ACKS("COUNT(*)", "AttemptCount = 3 AND TryCount >= 50"));

    ack_status = 500;
    start_process(&processes[0], &usual, "k");
    add_acks(1, 1, NULL);
    await_passing(&tried, 1, 200);
    ahead_ms += 100 * HOURS; /* long enough, but it was not tried often */
    await_passing(&acks_given_up, 1, 2000);
    assert_int_equal(testdb_int(db, &in_time), 1);
    assert_int_equal(testdb_int(db, &attempts_counted), 1); /* the one that gave it up */
}

/* What a probe is told to wait, all wait. */
static void a_target_that_asks_for_time_gets_it(void **state)
{
    (void)state;
    struct setting s = usual;

    s.open_ms = 100;
    s.base_ms = HOURS / 4; /* retry_cap_ms is an hour */
    ack_status = 429;
    start_process(&processes[0], &s, "k");
    add_acks(1, 20, NULL);
    await_passing(&acks_held, 20, 10000);
    retry_after_s = 1800;
    size_t before = seen;
    for (int i = 0; i < 500 && seen == before; i++) {
        ahead_ms += 10;
        (void)usleep(10000);
    }
    assert_int_equal(seen, before + 1); /* a probe */
    ahead_ms += HOURS / 4;
    (void)usleep(300000);
    assert_int_equal(seen, before + 1);
    ack_status = 200;
    await_passing(&acks_sent, 20, 5000);
    assert_int_equal(testdb_int(db, &attempts_counted), 0);
}

static double deferred(void)
{
    static const char name[] = "\ndataflow_delivery_attempts_total{channel=\"functional-ack\","
                               "outcome=\"deferred\"} ";
    struct df_buf text;
    df_buf_init(&text, 1 << 20);
    df_metrics_write(&text);
    const char *at = strstr(df_buf_str(&text).ptr, name);
    double n = at ? strtod(at + strlen(name), NULL) : 0;
    df_buf_release(&text);
    return n;
}

static void await_seen(size_t count)
{
    for (int i = 0; i < 1500 && seen < count; i++)
        (void)usleep(10000);
    assert_true(seen >= count);
}

/* Calls without an answer leave a destination four slots; there are more probes than that. */
static void probes_that_find_no_slot_are_not_claimed_again_and_again(void **state)
{
    (void)state;
    struct setting s = usual;

    s.half_open_calls = 9;
    ack_status = 0;
    start_process(&processes[0], &s, "k");
    add_acks(1, 40, NULL);
    await_passing(&acks_held, 40, 200);
    size_t before = seen;
    hold_after = before;
    ahead_ms += s.open_ms;
    await_seen(before + 4);
    double put_back = deferred();
    (void)usleep(1000000);
    assert_int_equal(seen, before + 4);
    assert_in_range((uint64_t)(deferred() - put_back), 0, 50);
    ack_status = 200;
    hold_after = SIZE_MAX;
    await_passing(&acks_sent, 40, 1000);
}

/* The bytes of eight rows are all that a destination may have; it has slots for more. */
static void large_rows_that_find_no_room_are_not_claimed_again_and_again(void **state)
{
    (void)state;
    enum { N = 30, BYTES = 500 * 1024 };
    char *body = df_malloc(BYTES + 1);

    memset(body, '1', BYTES);
    body[BYTES] = '\0';
    ack_status = 503;
    start_process(&processes[0], &usual, "k");
    add_acks(1, N, body);
    free(body);
    await_passing(&acks_held, N, 200);
    ack_status = 200;
    hold_after = seen + 1; /* the probe */
    ahead_ms += usual.open_ms;
    await(&acks_sent, 1);
    (void)usleep(200000);
    double put_back = deferred();
    (void)usleep(1000000);
    assert_in_range((uint64_t)(deferred() - put_back), 0, 50);
    assert_true(testdb_int(db, &acks_held) >= N - 1 - 16);
    hold_after = SIZE_MAX;
    await_passing(&acks_sent, N, 1000);
}

/* A destination may have more rows on their way than one tenant. */
static void what_is_over_the_share_of_a_tenant_goes_on_waiting_for_the_target(void **state)
{
    (void)state;
    enum { FIRST = 1000, N = 700 };
    SAME_QUERY(sending, ACKS("COUNT(*)", "Status = 'Sending'"));
    struct setting s = usual;

    s.of_tenant = true;
    start_process(&processes[0], &s, "k");
    add_acks(1, FIRST, NULL); /* with every answer both shares grow */
    await(&acks_sent, FIRST);
    ack_status = 503;
    add_acks(FIRST + 1, N, NULL);
    await_passing(&acks_held, N, 200);
    ack_status = 200;
    hold_after = seen + 1; /* the probe */
    ahead_ms += s.open_ms;
    await(&acks_sent, FIRST + 1);
    await(&sending, 256);
    for (int i = 0; i < 50; i++) {
        assert_int_equal(testdb_int(db, &acks_pending), 0);
        (void)usleep(10000);
    }
    hold_after = SIZE_MAX;
    await_passing(&acks_sent, FIRST + N, 100);
}

static void what_was_paused_before_the_start_gets_nothing(void **state)
{
    (void)state;
    SAME_QUERY(paused, "SELECT COUNT(*) FROM DeliveryTargets WHERE PausedAt IS NOT NULL");
    char sql[512];

    (void)snprintf(sql, sizeof(sql),
                   "INSERT INTO DeliveryTargets (Channel, Target, PausedAt) VALUES"
                   " ('functional-ack', '%s', '2026-01-01T00:00:00.000'),"
                   " ('ticket-gateway', '', '2026-01-01T00:00:00.000');",
                   ack_url);
    testdb_script(db, sql);
    assert_int_equal(testdb_int(db, &paused), 2);
    add_acks(1, 20, NULL);
    add_tickets(20);
    for (int i = 0; i < 3; i++) {
        start_process(&processes[0], &usual, "k");
        await(&acks_held, 20);
        (void)usleep(200000);
        stop_process(&processes[0]);
        assert_int_equal(seen, 0);
    }
    start_process(&processes[0], &usual, "k");
    testdb_script(db, "UPDATE DeliveryTargets SET PausedAt = NULL;");
    await(&acks_sent, 20);
    await(&tickets_sent, 20);
    assert_int_equal(seen, 40);
}

static void a_target_that_was_paused_before_its_first_row_gets_nothing(void **state)
{
    (void)state;
    char sql[512];

    start_process(&processes[0], &usual, "k");
    add_tickets(1);
    await(&tickets_sent, 1); /* what is paused was read before */
    (void)snprintf(sql, sizeof(sql),
                   "INSERT INTO DeliveryTargets (Channel, Target, PausedAt) VALUES"
                   " ('functional-ack', '%s', '2026-01-01T00:00:00.000');",
                   ack_url);
    testdb_script(db, sql);
    (void)usleep(500000); /* it is read every poll_ms */
    add_acks(1, 10, NULL);
    await(&acks_held, 10);
    assert_int_equal(seen, 1);
}

/* A database that does not answer at the start only delays. */
static void nothing_is_claimed_before_pauses_are_known(void **state)
{
    (void)state;
    bool by_procedure = dialect == DF_SQLSERVER;

    testdb_script(db, by_procedure ? "EXEC sp_rename 'DeliveryTargets', 'TargetsAway';"
                                   : "ALTER TABLE DeliveryTargets RENAME TO TargetsAway;");
    add_acks(1, 10, NULL);
    start_process(&processes[0], &usual, "k");
    (void)usleep(500000);
    assert_int_equal(seen, 0);
    assert_int_equal(testdb_int(db, &acks_pending), 10);
    testdb_script(db, by_procedure ? "EXEC sp_rename 'TargetsAway', 'DeliveryTargets';"
                                   : "ALTER TABLE TargetsAway RENAME TO DeliveryTargets;");
    await(&acks_sent, 10);
}

int main(void)
{
#define ON_EACH(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        ON_EACH(one_url_that_is_down_holds_its_rows_and_no_others),
        ON_EACH(a_host_that_is_away_holds_the_rows_of_all_its_targets),
        ON_EACH(a_poisoned_row_does_not_keep_its_target_shut),
        ON_EACH(what_waited_goes_oldest_first_and_is_not_touched_before),
        ON_EACH(a_restart_in_the_middle_loses_nothing),
        ON_EACH(a_paused_target_gets_nothing_until_it_is_resumed),
        ON_EACH(a_paused_channel_claims_nothing_until_it_is_resumed),
        ON_EACH(what_one_process_cannot_reach_another_delivers),
        ON_EACH(a_poisoned_row_among_others_is_given_up_by_count),
        ON_EACH(a_row_alone_is_given_up_by_time_after_fifty_tries),
        ON_EACH(a_target_that_asks_for_time_gets_it),
        ON_EACH(probes_that_find_no_slot_are_not_claimed_again_and_again),
        ON_EACH(large_rows_that_find_no_room_are_not_claimed_again_and_again),
        ON_EACH(what_is_over_the_share_of_a_tenant_goes_on_waiting_for_the_target),
        ON_EACH(what_was_paused_before_the_start_gets_nothing),
        ON_EACH(a_target_that_was_paused_before_its_first_row_gets_nothing),
        ON_EACH(nothing_is_claimed_before_pauses_are_known),
    };
    return testdb_run_tests("outage", &dialect, tests, sizeof(tests) / sizeof(tests[0]));
}

/*
 * The rule DeliveryGivenUp with an injected clock, on every database there is: what fires it, how
 * it is brought up to date, when it resolves, and what it does not tell to others. As people see
 * it: tests/integration/alerts/test_given_up.py.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "alerts/alerts.h"
#include "alerts/alerts.sql.h"
#include "alerts/alerts_private.h"
#include "base/log.h"
#include "fake_clock.h"
#include "interface/interface.h"
#include "store/schema.h"
#include "testdb.h"
#include "webhooks/webhooks.h"

#define MINUTE INT64_C(60000)
#define DAY    (24 * 60 * MINUTE)
#define START  INT64_C(1700000000000)
#define CLIENT "018bcfe5-6800-7000-8000-000000000001"
#define HOOK   "018bcfe5-6800-7000-8000-000000000002"
#define ACKS   "http://gw.example/acks"

static enum df_dialect dialect;
static struct testdb t;
static struct df_db *db;
static struct df_err err;
static struct df_store *store;
static struct df_fake_clock clock_;
static struct df_secret *key, *url;

/* A process: its engine is never started. */
static struct house {
    struct df_delivery *engine;
    struct df_interface *interface;
    struct df_webhooks *webhooks;
    struct df_alerts *alerts;
} one, two;

/* --- the house -------------------------------------------------------------------------------- */

static void build_house(struct house *h)
{
    h->engine = df_delivery_new(&(struct df_delivery_options){.clock = &clock_.base});
    h->interface = df_interface_new(&(struct df_interface_options){
        .store = store,
        .clock = &clock_.base,
        .settings = {.functional_ack_url = ACKS,
                     .ticket_send_url = "http://gw.example/tickets?key=hidden"},
    });
    h->webhooks =
        df_webhooks_new(&(struct df_webhooks_options){.store = store, .clock = &clock_.base});
    h->alerts = df_alerts_new(&(struct df_alerts_options){
        .store = store,
        .clock = &clock_.base,
        .settings = {.pagerduty_routing_key = key,
                     .pagerduty_url = "http://127.0.0.1:1/",
                     .teams_url = url,
                     .console_url = "https://df.example/",
                     .interval_ms = MINUTE,
                     .batch_stuck_ms = 60 * MINUTE,
                     .delivery_stuck_ms = 1000 * DAY,
                     .webhook_failures = 1000,
                     .error_rate_percent = 20,
                     .error_rate_min = 100,
                     .error_rate_ms = 60 * MINUTE},
    });
    df_interface_add_channels(h->interface, h->engine);
    df_webhooks_add_channels(h->webhooks, h->engine);
    df_alerts_add_channel(h->alerts, h->engine);
    df_alerts_add_source(h->alerts, &(struct df_alerts_source){
                                        .name = "tickets", .given_up = df_interface_given_up()});
}

static void leave_house(struct house *h)
{
    df_delivery_free(h->engine);
    df_interface_free(h->interface);
    df_webhooks_free(h->webhooks);
    df_alerts_free(h->alerts);
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
    build_house(&one);
    build_house(&two);
    assert_ok(df_db_exec(db, &add_client, DF_PARAMS(df_blob(DF_STR("x"))), NULL, &err), &err);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    df_store_close(store);
    leave_house(&one);
    leave_house(&two);
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

static void after(int64_t ms)
{
    df_fake_clock_advance_ms(&clock_, ms);
    df_alerts_evaluate(one.alerts);
}

/* --- what is in the database ------------------------------------------------------------------ */

TESTDB_QUERY(add_ack, 4,
             "INSERT INTO TB_FUNCTIONAL_ACK_OUTBOX (BusinessDocId, PayloadJson, TargetUrl, Status,"
             " LastError, LastAttemptAt, NextAttemptAt)"
             " VALUES ('A', '{}', ?1, ?2, ?3, ?4, NULL)",
             "INSERT INTO TB_FUNCTIONAL_ACK_OUTBOX (BusinessDocId, PayloadJson, TargetUrl, Status,"
             " LastError, LastAttemptAt, NextAttemptAt)"
             " VALUES ('A', '{}', $1, $2, $3, $4, NULL)",
             "INSERT INTO TB_FUNCTIONAL_ACK_OUTBOX (BusinessDocId, PayloadJson, TargetUrl, Status,"
             " LastError, LastAttemptAt, NextAttemptAt)"
             " VALUES ('A', '{}', ?, ?, ?, ?, NULL)");
TESTDB_QUERY(add_failure, 1,
             "INSERT INTO WebhookDeliveryFailures (SubscriptionId, EventId, Event, PayloadJson,"
             " LastError, CreatedAt) VALUES ('" HOOK "', '" HOOK
             "', 'BatchFailed', '{}', 'HTTP 500', ?1)",
             "INSERT INTO WebhookDeliveryFailures (SubscriptionId, EventId, Event, PayloadJson,"
             " LastError, CreatedAt) VALUES ('" HOOK "', '" HOOK
             "', 'BatchFailed', '{}', 'HTTP 500', $1)",
             "INSERT INTO WebhookDeliveryFailures (SubscriptionId, EventId, Event, PayloadJson,"
             " LastError, CreatedAt) VALUES ('" HOOK "', '" HOOK
             "', 'BatchFailed', '{}', 'HTTP 500', ?)");
TESTDB_QUERY(add_relay, 3,
             "INSERT INTO DeliveryTargets (Channel, Target, GivenUp, GivenUpError, UpdatedAt)"
             " VALUES ('relay', ?1, ?2, 'HTTP 400', ?3)",
             "INSERT INTO DeliveryTargets (Channel, Target, GivenUp, GivenUpError, UpdatedAt)"
             " VALUES ('relay', $1, $2, 'HTTP 400', $3)",
             "INSERT INTO DeliveryTargets (Channel, Target, GivenUp, GivenUpError, UpdatedAt)"
             " VALUES ('relay', ?, ?, 'HTTP 400', ?)");
TESTDB_QUERY(add_ticket, 3,
             "INSERT INTO TB_TICKET_INTERFACE (BusinessEntity, BusinessDocId, CompanyCode,"
             " BranchCode, DestinationCode, PhaseCode, ShipmentEvent, FunctionalAckIsRequired,"
             " TargetApplicationCode, RawPayloadJson, Status, LastError, FirstFailedAt,"
             " NextAttemptAt) VALUES ('E', ?1, 'C', 'B', 'D', 15, 'S', 0, 'T', '{}', ?2,"
             " 'Key (cpf)=(12345678909) exists', ?3, NULL)",
             "INSERT INTO TB_TICKET_INTERFACE (BusinessEntity, BusinessDocId, CompanyCode,"
             " BranchCode, DestinationCode, PhaseCode, ShipmentEvent, FunctionalAckIsRequired,"
             " TargetApplicationCode, RawPayloadJson, Status, LastError, FirstFailedAt,"
             " NextAttemptAt) VALUES ('E', $1, 'C', 'B', 'D', 15, 'S', false, 'T', '{}', $2,"
             " 'Key (cpf)=(12345678909) exists', $3, NULL)",
             "INSERT INTO TB_TICKET_INTERFACE (BusinessEntity, BusinessDocId, CompanyCode,"
             " BranchCode, DestinationCode, PhaseCode, ShipmentEvent, FunctionalAckIsRequired,"
             " TargetApplicationCode, RawPayloadJson, Status, LastError, FirstFailedAt,"
             " NextAttemptAt) VALUES ('E', ?, 'C', 'B', 'D', 15, 'S', 0, 'T', '{}', ?,"
             " 'Key (cpf)=(12345678909) exists', ?, NULL)");

static void give_up_ack(const char *target, const char *error)
{
    assert_ok(df_db_exec(db, &add_ack,
                         DF_PARAMS(df_text(df_str_c(target)), df_text(DF_STR("Error")),
                                   df_text(df_str_c(error)), df_time(now())),
                         NULL, &err),
              &err);
}

static void give_up_acks(int count)
{
    for (int i = 0; i < count; i++)
        give_up_ack(ACKS, "HTTP 400");
}

static void ticket(const char *id, const char *status, bool failed)
{
    assert_ok(df_db_exec(db, &add_ticket,
                         DF_PARAMS(df_text(df_str_c(id)), df_text(df_str_c(status)),
                                   failed ? df_time(now()) : df_null(DF_TIME)),
                         NULL, &err),
              &err);
}

static void relay(const char *name, int64_t given_up)
{
    assert_ok(df_db_exec(db, &add_relay,
                         DF_PARAMS(df_text(df_str_c(name)), df_int(given_up), df_time(now())), NULL,
                         &err),
              &err);
}

static void hook(void)
{
    testdb_script(db, "INSERT INTO WebhookSubscriptions (Id, ClientId, Url, Secret)"
                      " VALUES ('" HOOK "', '" CLIENT "', 'https://x', 's')");
}

#define RETRY_ACKS                                                                                 \
    "UPDATE TB_FUNCTIONAL_ACK_OUTBOX SET Status = 'Pending', NextAttemptAt = CreatedAt"
#define COUNT(var, text) TESTDB_QUERY(var, 0, text, text, text)
COUNT(all_alerts, "SELECT COUNT(*) FROM Alerts WHERE RuleName = 'DeliveryGivenUp'");
COUNT(firing_alerts, "SELECT COUNT(*) FROM Alerts WHERE Status = 'firing' AND ResolvedAt IS NULL");
COUNT(triggers, "SELECT COUNT(*) FROM AlertDeliveries WHERE EventAction = 'trigger'");
COUNT(resolves, "SELECT COUNT(*) FROM AlertDeliveries WHERE EventAction = 'resolve'");
COUNT(leaks, "SELECT COUNT(*) FROM AlertDeliveries WHERE PayloadJson LIKE '%12345678909%'"
             " OR PayloadJson LIKE '%hidden%'");
COUNT(stored_leaks, "SELECT COUNT(*) FROM Alerts WHERE DetailsJson LIKE '%12345678909%'"
                    " OR Summary LIKE '%12345678909%' OR DetailsJson LIKE '%hidden%'");

/* The texts of the alerts that fire, by subject, each between bars. */
struct texts {
    struct df_buf subjects;
    struct df_buf summaries;
    struct df_buf details;
};

static void add_texts(void *arg, struct df_result *r)
{
    struct texts *x = arg;

    df_buf_addf(&x->subjects, "|" DF_STR_FMT, DF_STR_ARG(df_col_text(r, alert_firing_Subject)));
    df_buf_addf(&x->summaries, "|" DF_STR_FMT, DF_STR_ARG(df_col_text(r, alert_firing_Summary)));
    df_buf_addf(&x->details, "|" DF_STR_FMT, DF_STR_ARG(df_col_text(r, alert_firing_DetailsJson)));
}

static struct texts firing_texts(void)
{
    struct texts x;

    df_buf_init(&x.subjects, 1 << 20);
    df_buf_init(&x.summaries, 1 << 20);
    df_buf_init(&x.details, 1 << 20);
    assert_ok(df_db_each(db, DF_Q0(alert_firing), add_texts, &x, &err), &err);
    return x;
}

static void release_texts(struct texts *x)
{
    df_buf_release(&x->subjects);
    df_buf_release(&x->summaries);
    df_buf_release(&x->details);
}

static bool has(const struct df_buf *text, const char *words)
{
    struct df_str s = df_buf_str(text);
    return s.len > 0 && memmem(s.ptr, s.len, words, strlen(words));
}

static void expect(int64_t all, int64_t firing)
{
    assert_int_equal(testdb_int(db, &all_alerts), all);
    assert_int_equal(testdb_int(db, &firing_alerts), firing);
    assert_int_equal(testdb_int(db, &leaks), 0);
    assert_int_equal(testdb_int(db, &stored_leaks), 0);
}

/* --- tests ------------------------------------------------------------------------------------ */

static void one_document_fires_more_are_counted_many_are_told_and_a_retry_resolves(void **state)
{
    (void)state;
    after(MINUTE);
    expect(0, 0);
    give_up_acks(1);
    after(MINUTE);
    expect(1, 1);
    struct texts x = firing_texts();
    assert_true(has(&x.subjects, "|functional-ack " ACKS));
    assert_true(has(&x.summaries, "1 document of functional-ack " ACKS " was given up and waits"));
    assert_true(has(&x.summaries, "HTTP 400"));
    assert_true(has(&x.details, "\"channel\":\"functional-ack\""));
    assert_true(has(&x.details, "\"target\":\"" ACKS "\""));
    assert_true(has(&x.details, "\"documents\":1,"));
    assert_true(has(&x.details, "dataflow outbox retry functional-ack --target " ACKS));
    assert_true(has(&x.details, "https://df.example/#outbox?channel=functional-ack&status=Error"));
    release_texts(&x);
    assert_int_equal(testdb_int(db, &triggers), 2);

    give_up_acks(9); /* the figure is right, and nobody is told again */
    after(MINUTE);
    x = firing_texts();
    assert_true(
        has(&x.summaries, "10 documents of functional-ack " ACKS " were given up and wait"));
    assert_true(has(&x.details, "\"documents\":10,"));
    release_texts(&x);
    assert_int_equal(testdb_int(db, &triggers), 2);
    give_up_acks(1); /* eleven: ten more than were told of */
    after(MINUTE);
    assert_int_equal(testdb_int(db, &triggers), 4);
    give_up_acks(10); /* 21 is not twice as many */
    after(MINUTE);
    after(MINUTE);
    assert_int_equal(testdb_int(db, &triggers), 4);
    expect(1, 1);
    assert_int_equal(testdb_int(db, &resolves), 0);

    testdb_script(db, RETRY_ACKS);
    after(MINUTE);
    expect(1, 0);
    assert_int_equal(testdb_int(db, &resolves), 2);
    give_up_acks(1); /* another alert */
    after(MINUTE);
    expect(2, 1);
}

static void rows_that_wait_or_were_sent_are_no_alert(void **state)
{
    (void)state;
    give_up_acks(3);
    testdb_script(db, "UPDATE TB_FUNCTIONAL_ACK_OUTBOX SET NextAttemptAt = CreatedAt");
    after(MINUTE);
    expect(0, 0); /* Error, and due */
    testdb_script(db, "UPDATE TB_FUNCTIONAL_ACK_OUTBOX SET NextAttemptAt = NULL, Status = 'Sent'");
    after(MINUTE);
    expect(0, 0);
}

static void each_target_has_its_alert_whatever_its_query(void **state)
{
    (void)state;
    char path[160];

    memset(path, 'a', sizeof(path) - 1);
    path[sizeof(path) - 1] = '\0';
    give_up_ack("http://a.example/x?token=hidden", "HTTP 400: cpf 12345678909 is not known");
    give_up_ack("http://a.example/x?token=hidden2", "HTTP 422: cpf 12345678909 is not known");
    give_up_ack("http://b.example/x", "could not connect");
    for (int i = 0; i < 2; i++) {
        char target[256];
        (void)snprintf(target, sizeof(target), "http://c.example/%s/%d", path, i);
        give_up_ack(target, "HTTP 400");
    }
    after(MINUTE);
    expect(4, 4); /* long names that begin alike are told apart */
    struct texts x = firing_texts();
    assert_true(has(&x.subjects, "|functional-ack http://a.example/x"));
    assert_true(has(&x.details, "\"documents\":2,"));
    assert_true(has(&x.summaries, "could not connect"));
    release_texts(&x);
}

/* Names of the rule's subjects must not keep the evaluation from being written. */
static void a_target_in_another_alphabet(void **state)
{
    (void)state;
    give_up_ack("http://\xd0\xbf\xd1\x80\xd0\xb8\xd0\xbc\xd0\xb5\xd1\x80.example/\x01", "HTTP 400");
    after(MINUTE);
    expect(1, 1);
    struct texts x = firing_texts();
    assert_true(has(&x.subjects, "|functional-ack http://#"));
    release_texts(&x);
}

static void a_row_without_a_target_goes_where_the_settings_say(void **state)
{
    (void)state;
    ticket("T1", "Processed", false);
    testdb_script(db, "UPDATE TB_TICKET_INTERFACE SET GatewaySendStatus = 'Error',"
                      " GatewaySendNextAttemptAt = NULL, GatewaySendLastError = 'HTTP 400'");
    after(MINUTE);
    expect(1, 1);
    struct texts x = firing_texts();
    assert_true(has(&x.subjects, "|ticket-gateway http://gw.example/tickets"));
    release_texts(&x);
}

static void tickets_whose_processing_was_given_up_but_none_that_is_invalid(void **state)
{
    (void)state;
    ticket("invalid", "Error", false);
    ticket("processed", "Processed", true);
    after(MINUTE);
    expect(0, 0);
    ticket("given up", "Error", true);
    ticket("this too", "Error", true);
    after(MINUTE);
    expect(1, 1);
    struct texts x = firing_texts();
    assert_true(has(&x.subjects, "|tickets"));
    assert_true(has(&x.details, "\"documents\":2,"));
    assert_true(has(&x.details, "reprocess"));
    release_texts(&x);
    testdb_script(db, "UPDATE TB_TICKET_INTERFACE SET Status = 'Awaiting', FirstFailedAt = NULL");
    after(MINUTE);
    expect(1, 0);
}

static void events_that_a_relay_has_given_up(void **state)
{
    (void)state;
    relay("shop", 3);
    relay("well", 0);
    after(MINUTE);
    expect(1, 1);
    struct texts x = firing_texts();
    assert_true(has(&x.subjects, "|relay shop"));
    assert_true(has(&x.details, "\"documents\":3,"));
    assert_true(has(&x.summaries, "HTTP 400"));
    release_texts(&x);
    testdb_script(db, "UPDATE DeliveryTargets SET GivenUp = 0");
    after(MINUTE);
    expect(1, 0);
    testdb_script(db, "UPDATE DeliveryTargets SET GivenUp = 1 WHERE Target = 'shop'");
    after(MINUTE);
    expect(2, 1);
    after(2 * DAY); /* the relay is configured no more */
    expect(2, 0);
}

static void one_webhook_until_it_is_replayed(void **state)
{
    (void)state;
    const char *off = dialect == DF_POSTGRES ? "false" : "0";
    char sql[256];

    hook();
    assert_ok(df_db_exec(db, &add_failure, DF_PARAMS(df_time(now())), NULL, &err), &err);
    after(MINUTE);
    expect(1, 1);
    struct texts x = firing_texts();
    assert_true(has(&x.subjects, "|webhooks " HOOK));
    assert_true(has(&x.details, "replay?subscriptionId=" HOOK));
    release_texts(&x);
    testdb_script(db, dialect == DF_SQLSERVER
                          ? "UPDATE WebhookDeliveryFailures SET ReplayedAt = SYSUTCDATETIME()"
                          : "UPDATE WebhookDeliveryFailures SET ReplayedAt = CURRENT_TIMESTAMP");
    after(MINUTE);
    expect(1, 0);
    /* What waited for a subscription that its owner switched off was to be given up. */
    assert_ok(df_db_exec(db, &add_failure, DF_PARAMS(df_time(now())), NULL, &err), &err);
    (void)snprintf(sql, sizeof(sql),
                   "UPDATE WebhookSubscriptions SET IsActive = %s,"
                   " DisabledReason = 'Switched off by the client.'",
                   off);
    testdb_script(db, sql);
    after(MINUTE);
    expect(1, 0);
}

static void messages_about_alerts_raise_no_alert(void **state)
{
    (void)state;
    give_up_acks(1);
    after(MINUTE);
    expect(1, 1);
    testdb_script(db, "UPDATE AlertDeliveries SET NextAttemptAt = NULL, Status = 'Error',"
                      " LastError = 'HTTP 400'");
    after(MINUTE);
    after(MINUTE);
    expect(1, 1);
}

static void two_processes_and_a_restart_make_one_alert(void **state)
{
    (void)state;
    give_up_acks(1);
    after(MINUTE);
    df_alerts_evaluate(two.alerts);
    df_fake_clock_advance_ms(&clock_, MINUTE);
    df_alerts_evaluate(two.alerts);
    df_alerts_evaluate(one.alerts);
    leave_house(&one);
    build_house(&one);
    after(MINUTE);
    expect(1, 1);
    assert_int_equal(testdb_int(db, &triggers), 2);
}

/* Not all rows are looked at then; what was not seen may still be there. */
static void an_alert_is_not_resolved_because_others_have_too_many_rows(void **state)
{
    (void)state;
    if (dialect == DF_SQLSERVER)
        skip(); /* has no WITH RECURSIVE */
    give_up_ack("http://first.example/", "HTTP 400");
    relay("shop", 3);
    after(MINUTE);
    expect(2, 2);
    testdb_script(db, "UPDATE DeliveryTargets SET GivenUp = 0"); /* that of others goes */
    testdb_script(db,
                  "INSERT INTO TB_FUNCTIONAL_ACK_OUTBOX (BusinessDocId, PayloadJson, TargetUrl,"
                  " Status, NextAttemptAt, LastAttemptAt)"
                  " WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10050)"
                  " SELECT 'B', '{}', '" ACKS "', 'Error', NULL, CURRENT_TIMESTAMP FROM n");
    after(MINUTE);
    expect(3, 2);
    struct texts x = firing_texts();
    assert_true(has(&x.details, "\"documents\":10000,"));
    release_texts(&x);
    testdb_script(db, RETRY_ACKS);
    after(MINUTE);
    expect(3, 0);
}

static void when_people_are_told_again(void **state)
{
    (void)state;
    static const struct {
        int64_t reported;
        int64_t documents;
        bool grown;
    } cases[] = {
        {0, 9, false},         {0, 10, true},     {1, 1, false},    {1, 10, false},
        {1, 11, true},         {9, 18, false},    {10, 19, false},  {10, 20, true},
        {11, 21, false},       {100, 199, false}, {100, 200, true}, {100, 5, false},
        {10000, 10000, false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(alert_has_grown(cases[i].reported, cases[i].documents), cases[i].grown);
}

/* --- what it costs ---------------------------------------------------------------------------- */

static void expect_no_scan(const struct df_query *q, size_t slot)
{
    static struct df_query explain[16]; /* a connection knows statements by their address */
    static char sql[16][4096];
    struct df_value none[8];
    struct df_result *r = NULL;
    bool used = false;

    assert_true(slot < 16 && q->param_count <= 8);
    for (size_t p = 0; p < q->param_count; p++)
        none[p] = df_null(DF_INT);
    (void)snprintf(sql[slot], sizeof(sql[slot]), "EXPLAIN QUERY PLAN %s",
                   df_query_sql(q, DF_SQLITE));
    explain[slot] = *q;
    explain[slot].is_packed = false;
    explain[slot].column_count = 0; /* the plan has its own */
    explain[slot].text[DF_SQLITE].sql = sql[slot];
    assert_ok(df_db_query(db, &explain[slot], none, q->param_count, &r, &err), &err);
    while (df_result_step(r, &err) == DF_ROW) {
        struct df_str step = df_col_text(r, 3);
        bool table =
            memmem(step.ptr, step.len, "TB_", 3) || memmem(step.ptr, step.len, "Webhook", 7) ||
            memmem(step.ptr, step.len, "SCAN f", 6) || memmem(step.ptr, step.len, "SCAN s", 6);
        bool scan = memmem(step.ptr, step.len, "SCAN", 4);
        bool part = memmem(step.ptr, step.len, "AwaitsPerson", 12);
        used = used || part;
        if (table && scan && !part)
            fail_msg("%s: " DF_STR_FMT, q->name, DF_STR_ARG(step));
    }
    df_result_free(r);
    assert_true(used);
}

/* On SQLite nobody else writes meanwhile: only the indexes of what was given up are gone through.
 */
static void the_rule_does_not_read_what_was_sent(void **state)
{
    (void)state;
    size_t slot = 0;

    if (dialect != DF_SQLITE)
        skip();
    for (size_t i = 0; i < df_delivery_channels(one.engine); i++) {
        const struct df_channel *c = df_delivery_channel(one.engine, i);
        expect_no_scan(c->given_up, slot++);
        expect_no_scan(c->given_up_total, slot++);
    }
    expect_no_scan(df_interface_given_up(), slot++);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(one_document_fires_more_are_counted_many_are_told_and_a_retry_resolves),
        TEST(rows_that_wait_or_were_sent_are_no_alert),
        TEST(each_target_has_its_alert_whatever_its_query),
        TEST(a_target_in_another_alphabet),
        TEST(a_row_without_a_target_goes_where_the_settings_say),
        TEST(tickets_whose_processing_was_given_up_but_none_that_is_invalid),
        TEST(events_that_a_relay_has_given_up),
        TEST(one_webhook_until_it_is_replayed),
        TEST(messages_about_alerts_raise_no_alert),
        TEST(two_processes_and_a_restart_make_one_alert),
        TEST(an_alert_is_not_resolved_because_others_have_too_many_rows),
        TEST(when_people_are_told_again),
        TEST(the_rule_does_not_read_what_was_sent),
    };
    df_log_init(DF_LOG_ERROR, DF_LOG_JSON, df_clock_real());
    return testdb_run_tests("alerts of what was given up", &dialect, tests,
                            sizeof(tests) / sizeof(tests[0]));
}

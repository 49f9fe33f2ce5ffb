/*
 * The queries of the interface's channels on every database there is: which key a content goes out
 * under, what becomes of an attempt whose content is replaced while it is on its way, and that what
 * arrived stays in the history. What holds for every channel is in delivery/queries_test.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "delivery/attempts.sql.h"
#include "delivery/channel.h"
#include "delivery/history.h"
#include "interface/channels.sql.h"
#include "interface/processing.sql.h"
#include "interface/reprocess.sql.h"
#include "interface/tickets.sql.h"
#include "store/schema.h"
#include "testdb.h"

#define T0 INT64_C(1800000000000)

static enum df_dialect dialect;
static struct testdb t;
static struct df_db *db;
static struct df_err err;

static int setup(void **state)
{
    (void)state;
    size_t applied = 0;
    testdb_init(&t, dialect);
    db = testdb_open(&t);
    assert_ok(df_schema_apply(db, &applied, &err), &err);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    df_db_close(db);
    testdb_release(&t);
    return 0;
}

/* --- what the tests do ------------------------------------------------------------------------ */

#define SAME(var, sql) TESTDB_QUERY(var, 0, sql, sql, sql)

#define STATE(p, table)                                                                            \
    "SELECT " p "Status, " p "TryCount, " p "AttemptCount, " p "NextAttemptAt, " p "KeyForm, "     \
    "PayloadVersion, " p "LastAttemptAt, " p "SentStatus, " p "SentMs FROM " table
SAME(return_state, STATE("", "TB_TICKET_RETURN_OUTBOX"));
SAME(gateway_state, STATE("GatewaySend", "TB_TICKET_INTERFACE"));
SAME(return_id, "SELECT MAX(Id) FROM TB_TICKET_RETURN_OUTBOX");
SAME(ticket_id, "SELECT MAX(Id) FROM TB_TICKET_INTERFACE");
SAME(ack_id, "SELECT MAX(Id) FROM TB_FUNCTIONAL_ACK_OUTBOX");

/* Each has one row. */
struct channel {
    const char *name;
    const struct df_query *claim, *load, *sent, *failed, *deferred, *state, *id;
    size_t form_column; /* of what is loaded */
};

static const struct channel returns = {
    .name = "ticket-return",
    .claim = &df_q_ticket_return_claim,
    .load = &df_q_ticket_return_load,
    .sent = &df_q_ticket_return_sent,
    .failed = &df_q_ticket_return_failed,
    .deferred = &df_q_ticket_return_deferred,
    .state = &return_state,
    .id = &return_id,
    .form_column = ticket_return_load_KeyForm,
};
static const struct channel gateway = {
    .name = "ticket-gateway",
    .claim = &df_q_gateway_claim,
    .load = &df_q_gateway_load,
    .sent = &df_q_gateway_sent,
    .failed = &df_q_gateway_failed,
    .deferred = &df_q_gateway_deferred,
    .state = &gateway_state,
    .id = &ticket_id,
    .form_column = gateway_load_GatewaySendKeyForm,
};
static const struct channel *const both[] = {&returns, &gateway};

struct row {
    char status[32];
    int64_t tries, attempts, due, form, version, last, http, ms; /* -1: none */
};

static int64_t time_or_none(const struct df_result *r, size_t col)
{
    return df_col_null(r, col) ? -1 : df_col_time(r, col);
}

static int64_t int_or_none(const struct df_result *r, size_t col)
{
    return df_col_null(r, col) ? -1 : df_col_int(r, col);
}

static struct row look(const struct channel *c)
{
    struct df_result *r = NULL;
    struct row row = {0};

    assert_ok(df_db_query(db, c->state, DF_NO_PARAMS, &r, &err), &err);
    assert_int_equal(df_result_step(r, &err), DF_ROW);
    (void)snprintf(row.status, sizeof(row.status), DF_STR_FMT, DF_STR_ARG(df_col_text(r, 0)));
    row.tries = df_col_int(r, 1);
    row.attempts = df_col_int(r, 2);
    row.due = time_or_none(r, 3);
    row.form = int_or_none(r, 4);
    row.version = df_col_int(r, 5);
    row.last = time_or_none(r, 6);
    row.http = int_or_none(r, 7);
    row.ms = int_or_none(r, 8);
    df_result_free(r);
    return row;
}

static void expect(const struct channel *c, const char *status, int64_t attempts, int64_t due)
{
    struct row row = look(c);
    assert_string_equal(row.status, status);
    assert_int_equal(row.attempts, attempts);
    assert_int_equal(row.due, due);
}

struct claim {
    size_t rows;
    int64_t version, due, form;
    size_t form_column;
};

static void read_claim(void *arg, struct df_result *r)
{
    struct claim *k = arg;

    k->rows++;
    k->version = df_col_int(r, channel_claim_Version);
    k->due = df_col_time(r, channel_claim_DueAt);
}

static void read_form(void *arg, struct df_result *r)
{
    struct claim *k = arg;
    k->form = df_col_int(r, k->form_column);
}

/* False: nothing is due. */
static bool claim(const struct channel *c, int64_t now, struct claim *ret)
{
    char ids[DF_CHANNEL_IDS_SIZE];

    *ret = (struct claim){.form_column = c->form_column};
    assert_ok(df_db_each(db,
                         DF_ANY(c->claim, {"now", df_time(now)}, {"after", df_time(0)},
                                {"after_id", df_int(-1)}, {"shards", df_int(0xffff)},
                                {"limit", df_int(10)}),
                         read_claim, ret, &err),
              &err);
    if (ret->rows == 0)
        return false;
    assert_int_equal(ret->rows, 1);
    struct df_value id = df_int(testdb_int(db, c->id));
    assert_ok(
        df_db_each(db, DF_ANY(c->load, {"ids", df_channel_ids(id, ids)}), read_form, ret, &err),
        &err);
    return true;
}

enum outcome { SENT, RETRY, DEAD, DEFERRED };

/* How many rows it changed. */
static int64_t settle(const struct channel *c, const struct claim *k, enum outcome o, int64_t now,
                      int64_t due)
{
    const struct df_query *q = o == SENT ? c->sent : o == DEFERRED ? c->deferred : c->failed;
    int64_t affected = -1;

    assert_ok(df_db_exec(db,
                         DF_ANY(q, {"now", df_time(now)}, {"started", df_time(now - 1)},
                                {"due", o == DEAD ? df_null(DF_TIME) : df_time(due)},
                                {"error", df_text(DF_STR("HTTP 503"))},
                                {"http_status", df_int(o == SENT ? 202 : 503)},
                                {"duration_ms", df_int(1)}, {"id", df_int(testdb_int(db, c->id))},
                                {"version", df_int(k->version)}, {"was_due", df_time(k->due)},
                                {"attempts", df_int(1)}, {"first_failed", df_time(now)},
                                {"counted", df_null(DF_TIME)}, {"mark", df_int(7)},
                                {"held_for", df_null(DF_INT)}, {"held_at", df_null(DF_TIME)}),
                         &affected, &err),
              &err);
    return affected;
}

/* What a client sends, processed as it is accepted: the return is made, or replaced. */
static void post(int payload, int64_t now)
{
    char hash[65], ids[DF_CHANNEL_IDS_SIZE];
    int64_t replaced = 0;

    (void)snprintf(hash, sizeof(hash), "%064d", payload);
    assert_ok(df_db_one(db,
                        DF_Q(ticket_upsert, .entity = df_text(DF_STR("TCK")),
                             .doc = df_text(DF_STR("T1")), .phase = df_int(15),
                             .company = df_text(DF_STR("c")), .branch = df_text(DF_STR("b")),
                             .destination = df_text(DF_STR("d")), .event = df_text(DF_STR("RCD")),
                             .ack = df_bool(false), .target = df_text(DF_STR("ASB")),
                             .payload = df_text(DF_STR("{}")), .hash = df_text(df_str_c(hash)),
                             .now = df_time(now),
                             .client = df_uuid(DF_STR("0190a000-0000-7000-8000-000000000001")),
                             .all = df_int(0), .status = df_text(DF_STR("Processed")),
                             .error = df_null(DF_TEXT), .tries = df_int(1), .attempts = df_int(1),
                             .due = df_null(DF_TIME), .gateway_due = df_time(now),
                             .trace = df_null(DF_TEXT)),
                        NULL, NULL, NULL, &err),
              &err);
    struct df_value id = df_int(testdb_int(db, &ticket_id));
    assert_ok(df_db_exec(db, DF_Q(ticket_keep_sent, .ids = df_channel_ids(id, ids)), NULL, &err),
              &err);
    assert_ok(df_db_exec(db,
                         DF_Q(return_replace, .payload = df_text(DF_STR("{}")), .now = df_time(now),
                              .trace = df_null(DF_TEXT), .ticket = id),
                         &replaced, &err),
              &err);
    if (replaced > 0 || payload > 1)
        return;
    assert_ok(df_db_exec(db,
                         DF_Q(return_insert, .entity = df_text(DF_STR("TCK")),
                              .doc_id = df_text(DF_STR("T1")), .phase = df_int(15),
                              .payload = df_text(DF_STR("{}")), .target_url = df_text(DF_STR("")),
                              .now = df_time(now), .trace = df_null(DF_TEXT)),
                         NULL, &err),
              &err);
}

/* A ticket that was processed at T0, and nothing else. */
static void begin(void)
{
    testdb_script(db, "DELETE FROM DeliveryAttempts;");
    testdb_script(db, "DELETE FROM TB_TICKET_RETURN_OUTBOX;");
    testdb_script(db, "DELETE FROM TB_TICKET_INTERFACE;");
    post(1, T0);
}

/* --- the tests -------------------------------------------------------------------------------- */

static void settled_when_nothing_was_replaced(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        const struct channel *c = both[i];
        struct claim k;
        begin();
        assert_true(claim(c, T0, &k));
        expect(c, "Pending", 0, T0); /* a claim writes nothing */
        assert_int_equal(settle(c, &k, DEFERRED, T0 + 1, T0 + 5), 1);
        expect(c, "Pending", 0, T0 + 5);
        assert_false(claim(c, T0 + 4, &k));
        assert_true(claim(c, T0 + 5, &k));
        assert_int_equal(settle(c, &k, RETRY, T0 + 6, T0 + 9), 1);
        expect(c, "Error", 1, T0 + 9);
        assert_true(claim(c, T0 + 9, &k));
        assert_int_equal(settle(c, &k, DEFERRED, T0 + 10, T0 + 12), 1);
        expect(c, "Error", 1, T0 + 12);
        assert_true(claim(c, T0 + 12, &k));
        assert_int_equal(settle(c, &k, SENT, T0 + 13, 0), 1);
        expect(c, "Sent", 2, -1);
        assert_int_equal(look(c).tries, 2);
        assert_int_equal(settle(c, &k, SENT, T0 + 14, 0), 0);
        begin();
        assert_true(claim(c, T0, &k));
        assert_int_equal(settle(c, &k, DEAD, T0 + 1, 0), 1);
        expect(c, "Error", 1, -1);
    }
}

/* Whatever becomes of the old one, it says nothing of the new one, which is due. */
static void an_attempt_of_a_replaced_content_changes_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        for (int o = SENT; o <= DEFERRED; o++) {
            const struct channel *c = both[i];
            struct claim old, new;
            begin();
            assert_true(claim(c, T0, &old));
            for (int payload = 2; payload <= 3; payload++) {
                post(payload, T0 + payload);
                expect(c, "Pending", 0, T0 + payload);
            }
            assert_int_equal(settle(c, &old, (enum outcome)o, T0 + 5, T0 + 7), 0);
            expect(c, "Pending", 0, T0 + 3);
            assert_int_equal(look(c).tries, 0);
            assert_true(claim(c, T0 + 8, &new));
            assert_int_equal(new.version, 3);
            assert_int_equal(settle(c, &new, SENT, T0 + 10, 0), 1);
            expect(c, "Sent", 1, -1);
            assert_int_equal(settle(c, &old, (enum outcome)o, T0 + 11, T0 + 12), 0);
            expect(c, "Sent", 1, -1);
        }
    }
}

/* What an older release left, and what this one makes of it. */
static void the_key_of_a_content_stays(void **state)
{
    (void)state;
    static const struct {
        bool tried;
        int attempts;
        const char *form;
        int64_t returns, gateway;
    } cases[] = {
        {false, 0, "NULL", 1, 1}, /* new */
        {true, 2, "NULL", 0, 0},  /* failed */
        {true, 0, "NULL", 1, 0},  /* replaced, or tried again by a person: script 120 tells */
        {true, 0, "0", 0, 0},     /* the latter, as the script marks it */
        {true, 2, "1", 1, 1},     /* failed, since there is KeyForm */
        {true, 0, "1", 1, 1},     /* and tried again by a person */
    };
    for (size_t n = 0; n < sizeof(cases) / sizeof(cases[0]); n++) {
        char sql[512];
        begin();
        (void)snprintf(sql, sizeof(sql),
                       "UPDATE TB_TICKET_RETURN_OUTBOX SET LastAttemptAt = %s, AttemptCount = %d,"
                       " KeyForm = %s;",
                       cases[n].tried ? "CreatedAt" : "NULL", cases[n].attempts, cases[n].form);
        testdb_script(db, sql);
        (void)snprintf(sql, sizeof(sql),
                       "UPDATE TB_TICKET_INTERFACE SET GatewaySendLastAttemptAt = %s,"
                       " GatewaySendAttemptCount = %d, GatewaySendKeyForm = %s;",
                       cases[n].tried ? "CreatedAt" : "NULL", cases[n].attempts, cases[n].form);
        testdb_script(db, sql);
        for (size_t i = 0; i < 2; i++) {
            const struct channel *c = both[i];
            int64_t want = i == 0 ? cases[n].returns : cases[n].gateway;
            struct claim k;
            /* Taken and lost, put off, and failed: it is the same each time. */
            static const enum outcome outcomes[] = {DEFERRED, RETRY, RETRY};
            assert_true(claim(c, T0, &k));
            for (size_t again = 0; again < 3; again++) {
                assert_true(claim(c, T0 + (int64_t)again, &k));
                assert_int_equal(k.form, want);
                assert_int_equal(settle(c, &k, outcomes[again], T0 + 1, T0 + 1 + (int64_t)again),
                                 1);
            }
            assert_int_equal(look(c).form, want);
        }
        post(2, T0 + 9);
        for (size_t i = 0; i < 2; i++) {
            struct claim k;
            assert_true(claim(both[i], T0 + 9, &k));
            assert_int_equal(k.form, 1);
        }
    }
}

static void an_ack_keeps_the_key_it_was_tried_with(void **state)
{
    (void)state;
    static const struct channel acks = {.claim = &df_q_ack_claim,
                                        .load = &df_q_ack_load,
                                        .failed = &df_q_ack_failed,
                                        .id = &ack_id,
                                        .form_column = ack_load_KeyForm};
    static const struct {
        const char *tried, *form;
        int64_t want;
    } cases[] = {{"NULL", "NULL", 1}, {"CreatedAt", "NULL", 0}, {"CreatedAt", "1", 1}};
    for (size_t n = 0; n < sizeof(cases) / sizeof(cases[0]); n++) {
        char sql[512];
        struct claim k;
        testdb_script(db, "DELETE FROM TB_FUNCTIONAL_ACK_OUTBOX;");
        testdb_script(db, "INSERT INTO TB_FUNCTIONAL_ACK_OUTBOX (BusinessDocId, PayloadJson,"
                          " TargetUrl) VALUES ('D', '{}', '');");
        (void)snprintf(sql, sizeof(sql),
                       "UPDATE TB_FUNCTIONAL_ACK_OUTBOX SET NextAttemptAt = CreatedAt,"
                       " LastAttemptAt = %s, KeyForm = %s;",
                       cases[n].tried, cases[n].form);
        testdb_script(db, sql);
        for (int64_t again = 0; again < 2; again++) {
            assert_true(claim(&acks, T0 + again, &k));
            assert_int_equal(k.form, cases[n].want);
            assert_int_equal(settle(&acks, &k, RETRY, T0, T0 + again), 1);
        }
    }
}

/* --- the history --- */

struct history {
    char text[256];
};

static void note_attempt(void *arg, const struct df_delivery_attempt *a)
{
    struct history *h = arg;
    size_t len = strlen(h->text);

    (void)snprintf(h->text + len, sizeof(h->text) - len, DF_STR_FMT "%lld:%lld ",
                   DF_STR_ARG(a->outcome), (long long)a->attempt, (long long)a->http_status);
    assert_true(a->attempted_ms >= T0);
}

/* The attempts of the channel's row as people see them. */
static void expect_history(const struct channel *c, size_t limit, const char *want)
{
    struct row row = look(c);
    struct df_sent_try sent =
        df_sent_try(df_str_c(row.status), row.tries, row.last, row.http < 0 ? 0 : row.http, row.ms);
    struct history h = {""};
    char key[24];

    (void)snprintf(key, sizeof(key), "%lld", (long long)testdb_int(db, c->id));
    assert_ok(
        df_history_each(db, df_str_c(c->name), df_str_c(key), &sent, limit, note_attempt, &h, &err),
        &err);
    assert_string_equal(h.text, want);
}

/* As the engine records it. */
static void record(const struct channel *c, const char *outcome, int64_t attempt, int64_t at)
{
    char key[24];

    (void)snprintf(key, sizeof(key), "%lld", (long long)testdb_int(db, c->id));
    assert_ok(df_db_exec(db,
                         DF_Q(delivery_attempt_insert, .channel = df_text(df_str_c(c->name)),
                              .row_key = df_text(df_str_c(key)), .attempt = df_int(attempt),
                              .attempted_at = df_time(at), .outcome = df_text(df_str_c(outcome)),
                              .http_status = df_int(500), .duration_ms = df_int(1),
                              .answer = df_null(DF_TEXT), .error = df_null(DF_TEXT),
                              .counted = df_int(1)),
                         NULL, &err),
              &err);
}

static void the_history_has_what_arrived_once(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        const struct channel *c = both[i];
        struct claim k;

        begin();
        expect_history(c, 9, "");
        assert_true(claim(c, T0, &k));
        assert_int_equal(settle(c, &k, SENT, T0 + 5, 0), 1);
        expect_history(c, 9, "Sent1:202 ");
        /* A content that was replaced on its way arrived as well, before this one. */
        record(c, "Sent", 1, T0 + 2);
        expect_history(c, 9, "Sent1:202 Sent1:500 ");
        expect_history(c, 1, "Sent1:202 ");

        begin();
        assert_true(claim(c, T0, &k));
        assert_int_equal(settle(c, &k, RETRY, T0 + 5, T0 + 6), 1);
        record(c, "Retry", 1, T0 + 4);
        expect_history(c, 9, "Retry1:500 ");
        assert_true(claim(c, T0 + 6, &k));
        assert_int_equal(settle(c, &k, SENT, T0 + 7, 0), 1);
        record(c, "Sent", 2, T0 + 6); /* it was not the first try */
        expect_history(c, 9, "Sent2:500 Retry1:500 ");
        /* When old attempts are removed, the row still tells of it. */
        testdb_script(db, "DELETE FROM DeliveryAttempts;");
        expect_history(c, 9, "Sent2:202 ");
    }
    /* An older release sent it. */
    begin();
    testdb_script(db, "UPDATE TB_TICKET_RETURN_OUTBOX SET Status = 'Sent', TryCount = 1;");
    expect_history(&returns, 9, "");
    record(&returns, "Sent", 1, T0);
    expect_history(&returns, 9, "Sent1:500 ");
}

static void send_both(int64_t now)
{
    for (size_t i = 0; i < 2; i++) {
        struct claim k;
        if (claim(both[i], now, &k))
            assert_int_equal(settle(both[i], &k, SENT, now, 0), 1);
    }
}

static void a_new_payload_leaves_what_arrived_in_the_history(void **state)
{
    (void)state;
    begin();
    send_both(T0 + 2);
    expect_history(&gateway, 9, "Sent1:202 ");
    post(2, T0 + 3);
    expect_history(&gateway, 9, "Sent1:202 ");
    post(3, T0 + 4); /* nothing arrived of the second */
    expect_history(&gateway, 9, "Sent1:202 ");
    send_both(T0 + 5);
    expect_history(&gateway, 9, "Sent2:202 Sent1:202 ");
    expect_history(&returns, 9, "Sent1:202 "); /* one that was sent is not sent again */
    /* A second try has its row already. */
    record(&gateway, "Sent", 2, T0 + 4);
    post(4, T0 + 6);
    expect_history(&gateway, 9, "Sent2:500 Sent1:202 ");
}

static void what_is_processed_again_keeps_its_history(void **state)
{
    (void)state;
    char ids[DF_CHANNEL_IDS_SIZE];

    begin();
    send_both(T0 + 2);
    struct df_value id = df_channel_ids(df_int(testdb_int(db, &ticket_id)), ids);
    for (int again = 0; again < 2; again++) { /* a person, twice */
        static const char *const statuses[] = {"Error", NULL};
        for (size_t i = 0; i < 2; i++) { /* of those in Error there is none */
            struct df_value status =
                statuses[i] ? df_text(df_str_c(statuses[i])) : df_null(DF_TEXT);
            assert_ok(
                df_db_exec(db, DF_Q(reprocess_keep_sent, .ids = id, .status = status), NULL, &err),
                &err);
        }
        assert_ok(df_db_exec(db, DF_Q(reprocess_keep_returns, .ids = id), NULL, &err), &err);
        assert_ok(df_db_exec(db,
                             DF_Q(reprocess_start, .now = df_time(T0 + 3), .ids = id,
                                  .status = df_null(DF_TEXT)),
                             NULL, &err),
                  &err);
        expect_history(&gateway, 9, "Sent1:202 ");
        expect_history(&returns, 9, "Sent1:202 ");
    }
    assert_ok(
        df_db_exec(db,
                   DF_Q(return_replace, .payload = df_text(DF_STR("{}")), .now = df_time(T0 + 4),
                        .trace = df_null(DF_TEXT), .ticket = df_int(testdb_int(db, &ticket_id))),
                   NULL, &err),
        &err);
    expect_history(&returns, 9, "Sent1:202 ");
    send_both(T0 + 5);
    expect_history(&returns, 9, "Sent2:202 Sent1:202 ");
}

int main(void)
{
#define ON_EACH(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        ON_EACH(settled_when_nothing_was_replaced),
        ON_EACH(an_attempt_of_a_replaced_content_changes_nothing),
        ON_EACH(the_key_of_a_content_stays),
        ON_EACH(an_ack_keeps_the_key_it_was_tried_with),
        ON_EACH(the_history_has_what_arrived_once),
        ON_EACH(a_new_payload_leaves_what_arrived_in_the_history),
        ON_EACH(what_is_processed_again_keeps_its_history),
    };
    return testdb_run_tests("interface channels", &dialect, tests,
                            sizeof(tests) / sizeof(tests[0]));
}

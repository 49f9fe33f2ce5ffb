/*
 * The queries of the interface's channels on every database there is: which key a content goes out
 * under, and that a content which is replaced while it is on its way holds the new one back, and no
 * longer than its lease.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "delivery/channel.h"
#include "interface/channels.sql.h"
#include "interface/processing.sql.h"
#include "interface/tickets.sql.h"
#include "store/schema.h"
#include "testdb.h"

#define T0       INT64_C(1800000000000)
#define LEASE_MS 60000

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

#define RETURN_STATE                                                                               \
    "SELECT Status, AttemptCount, NextAttemptAt, HeldUntil, KeyForm, PayloadVersion"               \
    " FROM TB_TICKET_RETURN_OUTBOX"
#define GATEWAY_STATE                                                                              \
    "SELECT GatewaySendStatus, GatewaySendAttemptCount, GatewaySendNextAttemptAt,"                 \
    " GatewaySendHeldUntil, GatewaySendKeyForm, PayloadVersion FROM TB_TICKET_INTERFACE"
SAME(return_state, RETURN_STATE);
SAME(gateway_state, GATEWAY_STATE);
SAME(return_id, "SELECT MAX(Id) FROM TB_TICKET_RETURN_OUTBOX");
SAME(ticket_id, "SELECT MAX(Id) FROM TB_TICKET_INTERFACE");
SAME(ack_id, "SELECT MAX(Id) FROM TB_FUNCTIONAL_ACK_OUTBOX");

/* Each has one row. */
struct channel {
    const struct df_query *claim, *load, *sent, *failed, *deferred, *state, *id;
    size_t form_column; /* of what is loaded */
};

static const struct channel returns = {
    .claim = &df_q_ticket_return_claim,
    .load = &df_q_ticket_return_load,
    .sent = &df_q_ticket_return_sent,
    .failed = &df_q_ticket_return_failed,
    .deferred = &df_q_ticket_return_deferred,
    .state = &return_state,
    .id = &return_id,
    .form_column = 6,
};
static const struct channel gateway = {
    .claim = &df_q_gateway_claim,
    .load = &df_q_gateway_load,
    .sent = &df_q_gateway_sent,
    .failed = &df_q_gateway_failed,
    .deferred = &df_q_gateway_deferred,
    .state = &gateway_state,
    .id = &ticket_id,
    .form_column = 5,
};
static const struct channel *const both[] = {&returns, &gateway};

struct row {
    char status[32];
    int64_t attempts;
    int64_t due; /* -1: none */
    int64_t held;
    int64_t form; /* -1: none */
    int64_t version;
};

static int64_t time_or_none(const struct df_result *r, size_t col)
{
    return df_col_null(r, col) ? -1 : df_col_time(r, col);
}

static struct row look(const struct channel *c)
{
    struct df_result *r = NULL;
    struct row row = {0};

    assert_ok(df_db_query(db, c->state, DF_NO_PARAMS, &r, &err), &err);
    assert_int_equal(df_result_step(r, &err), DF_ROW);
    (void)snprintf(row.status, sizeof(row.status), DF_STR_FMT, DF_STR_ARG(df_col_text(r, 0)));
    row.attempts = df_col_int(r, 1);
    row.due = time_or_none(r, 2);
    row.held = time_or_none(r, 3);
    row.form = df_col_null(r, 4) ? -1 : df_col_int(r, 4);
    row.version = df_col_int(r, 5);
    df_result_free(r);
    return row;
}

static void expect(const struct channel *c, const char *status, int64_t attempts, int64_t due,
                   int64_t held)
{
    struct row row = look(c);
    assert_string_equal(row.status, status);
    assert_int_equal(row.attempts, attempts);
    assert_int_equal(row.due, due);
    assert_int_equal(row.held, held);
}

/* Runs a query of the channel and gives how many rows it answered with; *ret_form, *ret_fence: of
 * the last one. */
static size_t ask(const struct df_query *q, const struct df_value *params, size_t param_count,
                  size_t form_column, int64_t *ret_form, int64_t *ret_fence)
{
    struct df_result *r = NULL;
    size_t count = 0;

    assert_ok(df_db_query(db, q, params, param_count, &r, &err), &err);
    while (df_result_step(r, &err) == DF_ROW) {
        count++;
        if (ret_form)
            *ret_form = df_col_int(r, form_column);
        if (ret_fence)
            *ret_fence = df_col_int(r, 2);
    }
    df_result_free(r);
    return count;
}

struct claim {
    int64_t fence;
    int64_t lease;
    int64_t form;
};

/* False: nothing is due. */
static bool claim(const struct channel *c, int64_t now, struct claim *ret)
{
    char ids[DF_CHANNEL_IDS_SIZE];

    ret->lease = now + LEASE_MS;
    if (ask(DF_ANY(c->claim, {"now", df_time(now)}, {"lease_until", df_time(ret->lease)},
                   {"limit", df_int(10)}),
            0, NULL, &ret->fence) != 1)
        return false;
    struct df_value id = df_int(testdb_int(db, c->id));
    assert_int_equal(
        ask(DF_ANY(c->load, {"ids", df_channel_ids(id, ids)}), c->form_column, &ret->form, NULL),
        1);
    return true;
}

enum outcome { SENT, RETRY, DEAD, DEFERRED };

/* How many rows were still ours. */
static int64_t settle(const struct channel *c, const struct claim *k, enum outcome o, int64_t now,
                      int64_t due)
{
    char ids[DF_CHANNEL_IDS_SIZE];
    struct df_value id = df_int(testdb_int(db, c->id));
    struct df_value fence = df_int(k->fence);
    struct df_value lease = df_time(k->lease);
    const struct df_query *q = o == DEFERRED ? c->deferred : c->failed;
    int64_t affected = -1;
    if (o == SENT)
        return (int64_t)ask(DF_ANY(c->sent, {"now", df_time(now)}, {"ids", df_channel_ids(id, ids)},
                                   {"fence", fence}, {"lease_until", lease}),
                            0, NULL, NULL);
    assert_ok(
        df_db_exec(db,
                   DF_ANY(q, {"now", df_time(now)},
                          {"due", o == DEAD ? df_null(DF_TIME) : df_time(due)},
                          {"error", df_text(DF_STR("HTTP 503"))}, {"http_status", df_int(503)},
                          {"id", id}, {"fence", fence}, {"lease_until", lease},
                          {"attempts", df_int(1)}, {"first_failed", df_time(now)},
                          {"counted", df_null(DF_TIME)}, {"mark", df_int(7)},
                          {"held_for", df_null(DF_INT)}, {"held_at", df_null(DF_TIME)}),
                   &affected, &err),
        &err);
    return affected;
}

/* What a client sends, and the work on it: the return is made, or replaced. */
static void post(int payload, int64_t now)
{
    char hash[65];
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
                             .all = df_int(0)),
                        NULL, NULL, NULL, &err),
              &err);
}

static void read_fence(void *arg, struct df_result *r)
{
    *(int64_t *)arg = df_col_int(r, process_claim_Fence);
}

static void process(int64_t now)
{
    char ids[DF_CHANNEL_IDS_SIZE];
    struct df_value id = df_int(testdb_int(db, &ticket_id));
    int64_t fence = 0;
    int64_t replaced = 0;

    assert_ok(
        df_db_one(db,
                  DF_Q(process_claim, .now = df_time(now), .lease_until = df_time(now + LEASE_MS),
                       .ids = df_channel_ids(id, ids)),
                  read_fence, &fence, NULL, &err),
        &err);
    assert_ok(df_db_one(db,
                        DF_Q(process_done, .now = df_time(now), .ids = df_channel_ids(id, ids),
                             .fence = df_int(fence)),
                        NULL, NULL, NULL, &err),
              &err);
    assert_ok(df_db_exec(db,
                         DF_Q(return_replace, .payload = df_text(DF_STR("{}")), .now = df_time(now),
                              .ticket = id),
                         &replaced, &err),
              &err);
    if (replaced > 0)
        return;
    assert_ok(df_db_exec(db,
                         DF_Q(return_insert, .entity = df_text(DF_STR("TCK")),
                              .doc_id = df_text(DF_STR("T1")), .phase = df_int(15),
                              .payload = df_text(DF_STR("{}")), .target_url = df_text(DF_STR("")),
                              .now = df_time(now)),
                         NULL, &err),
              &err);
}

/* A ticket that was processed at T0, and nothing else. */
static void begin(void)
{
    testdb_script(db, "DELETE FROM TB_TICKET_RETURN_OUTBOX;");
    testdb_script(db, "DELETE FROM TB_TICKET_INTERFACE;");
    post(1, T0);
    process(T0);
}

/* --- the tests -------------------------------------------------------------------------------- */

static void settled_as_ever_when_nothing_was_replaced(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        const struct channel *c = both[i];
        struct claim k;
        begin();
        assert_true(claim(c, T0, &k));
        expect(c, "Sending", 0, T0 + LEASE_MS, -1);
        assert_int_equal(settle(c, &k, DEFERRED, T0 + 1, T0 + 5), 1);
        expect(c, "Pending", 0, T0 + 5, -1);
        assert_true(claim(c, T0 + 5, &k));
        assert_int_equal(settle(c, &k, RETRY, T0 + 6, T0 + 9), 1);
        expect(c, "Error", 1, T0 + 9, -1);
        assert_true(claim(c, T0 + 9, &k));
        assert_int_equal(settle(c, &k, DEFERRED, T0 + 10, T0 + 12), 1);
        expect(c, "Error", 1, T0 + 12, -1);
        assert_true(claim(c, T0 + 12, &k));
        assert_int_equal(settle(c, &k, SENT, T0 + 13, 0), 1);
        expect(c, "Sent", 2, -1, -1);
        assert_int_equal(settle(c, &k, SENT, T0 + 14, 0), 0);
        begin();
        assert_true(claim(c, T0, &k));
        assert_int_equal(settle(c, &k, DEAD, T0 + 1, 0), 1);
        expect(c, "Error", 1, -1, -1);
    }
}

/* Whatever becomes of the old one: the new one is due from then on, with all its attempts. */
static void the_new_content_is_due_when_the_old_one_has_come_back(void **state)
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
                process(T0 + payload);
                expect(c, "Pending", 0, T0 + LEASE_MS, T0 + LEASE_MS);
            }
            assert_false(claim(c, T0 + LEASE_MS - 1, &new));
            /* An attempt of another lease is not taken for it. */
            const struct claim other = {.fence = old.fence, .lease = old.lease + 1};
            assert_int_equal(settle(c, &other, (enum outcome)o, T0 + 4, T0 + 7), 0);
            expect(c, "Pending", 0, T0 + LEASE_MS, T0 + LEASE_MS);
            assert_int_equal(settle(c, &old, (enum outcome)o, T0 + 5, T0 + 7), 1);
            expect(c, "Pending", 0, T0 + 5, -1);
            assert_true(claim(c, T0 + 8, &new));
            assert_int_equal(settle(c, &old, (enum outcome)o, T0 + 9, T0 + 9), 0);
            expect(c, "Sending", 0, T0 + 8 + LEASE_MS, -1);
            assert_int_equal(look(c).version, 3);
            assert_int_equal(settle(c, &new, SENT, T0 + 10, 0), 1);
            expect(c, "Sent", 1, -1, -1);
        }
    }
}

static void the_new_content_waits_no_longer_than_the_lease(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        const struct channel *c = both[i];
        struct claim old, new;
        begin();
        assert_true(claim(c, T0, &old));
        post(2, T0 + 1);
        process(T0 + 1);
        assert_true(claim(c, T0 + LEASE_MS, &new));
        assert_int_equal(settle(c, &old, SENT, T0 + LEASE_MS + 1, 0), 0);
        expect(c, "Sending", 0, T0 + 2 * LEASE_MS, -1);
        /* One that was left behind holds nothing back. */
        post(3, T0 + 5 * LEASE_MS);
        process(T0 + 5 * LEASE_MS);
        assert_int_equal(look(c).due, T0 + 5 * LEASE_MS);
    }
}

/* To the gateway goes only what was processed. */
static void the_end_of_the_old_send_makes_nothing_due_that_is_not_processed(void **state)
{
    (void)state;
    for (int o = SENT; o <= DEFERRED; o++) {
        struct claim k;
        begin();
        assert_true(claim(&gateway, T0, &k));
        post(2, T0 + 1);
        expect(&gateway, "Pending", 0, -1, T0 + LEASE_MS);
        assert_int_equal(settle(&gateway, &k, (enum outcome)o, T0 + 2, T0 + 3), 1);
        expect(&gateway, "Pending", 0, -1, -1);
        process(T0 + 4);
        expect(&gateway, "Pending", 0, T0 + 4, -1);
    }
}

/* What a version of the program left that knows nothing of KeyForm. */
static void the_first_claim_decides_on_the_key(void **state)
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
        struct claim k;
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
        for (int again = 0; again < 2; again++) { /* it stays */
            assert_true(claim(&returns, T0 + again * LEASE_MS, &k));
            assert_int_equal(k.form, cases[n].returns);
            assert_true(claim(&gateway, T0 + again * LEASE_MS, &k));
            assert_int_equal(k.form, cases[n].gateway);
        }
        post(2, T0 + 5 * LEASE_MS);
        process(T0 + 5 * LEASE_MS);
        assert_true(claim(&returns, T0 + 5 * LEASE_MS, &k) && k.form == 1);
        assert_true(claim(&gateway, T0 + 5 * LEASE_MS, &k) && k.form == 1);
    }
}

static void an_ack_keeps_the_key_it_was_tried_with(void **state)
{
    (void)state;
    static const struct channel acks = {
        .claim = &df_q_ack_claim, .load = &df_q_ack_load, .id = &ack_id, .form_column = 6};
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
        assert_true(claim(&acks, T0, &k));
        assert_int_equal(k.form, cases[n].want);
    }
}

int main(void)
{
#define ON_EACH(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        ON_EACH(settled_as_ever_when_nothing_was_replaced),
        ON_EACH(the_new_content_is_due_when_the_old_one_has_come_back),
        ON_EACH(the_new_content_waits_no_longer_than_the_lease),
        ON_EACH(the_end_of_the_old_send_makes_nothing_due_that_is_not_processed),
        ON_EACH(the_first_claim_decides_on_the_key),
        ON_EACH(an_ack_keeps_the_key_it_was_tried_with),
    };
    return testdb_run_tests("interface channels", &dialect, tests,
                            sizeof(tests) / sizeof(tests[0]));
}

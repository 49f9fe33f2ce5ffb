/*
 * The queries of every channel on every database there is: which rows a claim reads, that the 16
 * shards divide the rows among them, and what a settlement finds changed. Delivery itself is
 * tested in delivery_test.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "alerts/messages.sql.h"
#include "base/arena.h"
#include "base/clock.h"
#include "delivery/channel.h"
#include "integrations/calls.sql.h"
#include "interface/channels.sql.h"
#include "store/rows.h"
#include "store/schema.h"
#include "testdb.h"
#include "webhooks/channel.sql.h"

#define T0     INT64_C(1800000000000)
#define ALL    0xffff
#define CLIENT "11111111-1111-4111-8111-111111111111"
#define HOOK   "22222222-2222-4222-8222-222222222222"
#define ALERT  "33333333-3333-4333-8333-333333333333"
#define UUID_  "0190a000-0000-7000-8000-"

static enum df_dialect dialect;
static struct testdb t;
static struct df_db *db;
static struct df_err err;

/* --- the channels --- */

/* The first of its columns differs from row to row: the id, or a part of the key. `values` are
 * those of the others. */
struct subject {
    struct df_channel c;
    const char *table;
    const char *prefix; /* of its columns */
    const char *due_index;
    const char *columns;
    const char *values;
    const struct df_query *state, *first;
};

#define SAME(var, sql) TESTDB_QUERY(var, 0, sql, sql, sql)
#define STATE(var, table, p)                                                                       \
    SAME(var##_state, "SELECT " p "Status, " p "TryCount, " p "AttemptCount, " p                   \
                      "NextAttemptAt, " p "SendingSince, " p "LastAttemptAt, " p "SentStatus, " p  \
                      "SentMs, " p "SentAt, " p "LastError, " p "HeldFor FROM " table);            \
    SAME(var##_first, "SELECT Id FROM " table)

STATE(acks, "TB_FUNCTIONAL_ACK_OUTBOX", "");
STATE(returns, "TB_TICKET_RETURN_OUTBOX", "");
STATE(gateway, "TB_TICKET_INTERFACE", "GatewaySend");
STATE(calls, "IntegrationCalls", "");
STATE(messages, "AlertDeliveries", "");
STATE(hooks, "WebhookDeliveries", "");

static const struct subject subjects[] = {
    {
        .c = {.name = "functional-ack", .id_type = DF_INT, DF_CHANNEL_OUTBOX(ack)},
        .table = "TB_FUNCTIONAL_ACK_OUTBOX",
        .prefix = "",
        .due_index = "IX_TB_FUNCTIONAL_ACK_OUTBOX_Due",
        .columns = "BusinessDocId, PayloadJson, TargetUrl",
        .values = "'{}', ''",
        .state = &acks_state,
        .first = &acks_first,
    },
    {
        .c = {.name = "ticket-return", .id_type = DF_INT, DF_CHANNEL_OUTBOX(ticket_return)},
        .table = "TB_TICKET_RETURN_OUTBOX",
        .prefix = "",
        .due_index = "IX_TB_TICKET_RETURN_OUTBOX_Due",
        .columns = "BusinessDocId, BusinessEntity, PhaseCode, PayloadJson, TargetUrl",
        .values = "'TCK', 15, '{}', ''",
        .state = &returns_state,
        .first = &returns_first,
    },
    {
        .c = {.name = "ticket-gateway",
              .id_type = DF_INT,
              .claim = &df_q_gateway_claim,
              .claim_held = &df_q_gateway_claim_held,
              .claim_probe = &df_q_gateway_claim_probe,
              .load = &df_q_gateway_load,
              .sent = &df_q_gateway_sent,
              .failed = &df_q_gateway_failed,
              .deferred = &df_q_gateway_deferred,
              .sending = &df_q_gateway_sending,
              .reset = &df_q_gateway_reset,
              .next_due = &df_q_gateway_next_due},
        .table = "TB_TICKET_INTERFACE",
        .prefix = "GatewaySend",
        .due_index = "IX_TB_TICKET_INTERFACE_GatewayDue",
        .columns =
            "BusinessDocId, BusinessEntity, CompanyCode, BranchCode, DestinationCode, PhaseCode,"
            " ShipmentEvent, FunctionalAckIsRequired, TargetApplicationCode, RawPayloadJson",
        .values = "'TCK', 'c', 'b', 'd', 15, 'RCD', '0', 'ASB', '{}'",
        .state = &gateway_state,
        .first = &gateway_first,
    },
    {
        .c = {.name = "integrations", .id_type = DF_UUID, DF_CHANNEL_OUTBOX(integration_call)},
        .table = "IntegrationCalls",
        .prefix = "",
        .due_index = "IX_IntegrationCalls_Due",
        .columns = "Id, ClientId, IntegrationName, Method, Path, HeadersJson",
        .values = "'" CLIENT "', 'n', 'POST', '/', '[]'",
        .state = &calls_state,
        .first = &calls_first,
    },
    {
        .c = {.name = "alerts", .id_type = DF_UUID, DF_CHANNEL_OUTBOX(alert_delivery)},
        .table = "AlertDeliveries",
        .prefix = "",
        .due_index = "IX_AlertDeliveries_Due",
        .columns = "Id, AlertId, Sink, EventAction, PayloadJson",
        .values = "'" ALERT "', 'teams', 'trigger', '{}'",
        .state = &messages_state,
        .first = &messages_first,
    },
    {
        .c = {.name = "webhooks", .id_type = DF_UUID, DF_CHANNEL_OUTBOX(webhook)},
        .table = "WebhookDeliveries",
        .prefix = "",
        .due_index = "IX_WebhookDeliveries_Due",
        .columns = "Id, SubscriptionId, EventId, Event, PayloadJson",
        .values = "'" HOOK "', '" ALERT "', 'BatchFailed', '{}'",
        .state = &hooks_state,
        .first = &hooks_first,
    },
};
enum { SUBJECTS = sizeof(subjects) / sizeof(subjects[0]) };

static bool has_version(const struct subject *s)
{
    return s->c.claim == &df_q_ticket_return_claim || s->c.claim == &df_q_gateway_claim;
}

/* --- rows --- */

static int setup(void **state)
{
    (void)state;
    size_t applied = 0;
    char text[1024];
    const char *blob = dialect == DF_SQLITE ? "x'00'" : dialect == DF_POSTGRES ? "'\\x00'" : "0x00";

    testdb_init(&t, dialect);
    db = testdb_open(&t);
    assert_ok(df_schema_apply(db, &applied, &err), &err);
    (void)snprintf(text, sizeof(text),
                   "INSERT INTO Clients (Id, Name, ClientIdentifier, SecretHash, SecretSalt)"
                   " VALUES ('" CLIENT "', 'n', 'i', %s, %s);"
                   "INSERT INTO WebhookSubscriptions (Id, ClientId, Url, Secret)"
                   " VALUES ('" HOOK "', '" CLIENT "', 'http://x/', 's');"
                   "INSERT INTO Alerts (Id, RuleName, Subject, DedupKey, Severity, Summary,"
                   " DetailsJson) VALUES ('" ALERT "', 'Test', 's', 'k', 'info', 's', '{}');",
                   blob, blob);
    testdb_script(db, text);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    df_db_close(db);
    testdb_release(&t);
    return 0;
}

static void clear(const struct subject *s)
{
    char sql[128];

    (void)snprintf(sql, sizeof(sql), "DELETE FROM %s;", s->table);
    testdb_script(db, sql);
}

/* Adds a row: the n-th, which the last digits of a UUID are too. `due` is a time as SQL has it. */
static void add(const struct subject *s, unsigned n, const char *due)
{
    char key[64], values[256], sql[1024];

    (void)snprintf(key, sizeof(key), "'" UUID_ "%012x'", n);
    (void)snprintf(values, sizeof(values), "%s, %s", key, s->values);
    (void)snprintf(sql, sizeof(sql), "INSERT INTO %s (%s, %sNextAttemptAt) VALUES (%s, %s);",
                   s->table, s->columns, s->prefix, values, due);
    testdb_script(db, sql);
}

static void add_at(const struct subject *s, unsigned n, int64_t due_ms)
{
    char time[DF_TIME_LEN + 1], due[DF_TIME_LEN + 3];

    df_time_format(due_ms, time);
    (void)snprintf(due, sizeof(due), "'%s'", time);
    add(s, n, due);
}

/* Sets columns of all rows; the names are without the prefix, which stands for each '#'. */
static void set(const struct subject *s, const char *what)
{
    char sql[1024];
    size_t len = (size_t)snprintf(sql, sizeof(sql), "UPDATE %s SET ", s->table);

    for (; *what; what++) {
        if (*what == '#')
            len += (size_t)snprintf(sql + len, sizeof(sql) - len, "%s", s->prefix);
        else
            sql[len++] = *what;
    }
    sql[len] = '\0';
    testdb_script(db, sql);
}

struct claimed {
    char id[40];
    int64_t version, tries, due_ms;
};

struct page {
    struct claimed at[256];
    size_t count;
};

static void note_claimed(void *arg, struct df_result *r)
{
    struct page *p = arg;
    struct claimed *k = &p->at[p->count++];

    assert_true(p->count <= 256);
    (void)snprintf(k->id, sizeof(k->id), DF_STR_FMT, DF_STR_ARG(df_col_text(r, channel_claim_Id)));
    k->version = df_col_int(r, channel_claim_Version);
    k->tries = df_col_int(r, channel_claim_Tries);
    k->due_ms = df_col_time(r, channel_claim_DueAt);
}

/* Reads the page behind the row `after`; NULL: from the beginning. */
static struct page claim(const struct subject *s, const struct df_query *q, uint32_t shards,
                         int64_t limit, const struct claimed *after)
{
    static const struct claimed none = {.due_ms = 0, .id = "0"};
    struct page page = {.count = 0};
    const struct claimed *a = after ? after : &none;
    struct df_str id =
        after || s->c.id_type == DF_INT ? df_str_c(a->id) : DF_STR(UUID_ "000000000000");

    assert_ok(df_db_each(db,
                         DF_ANY(q, {"now", df_time(T0)}, {"after", df_time(a->due_ms)},
                                {"after_id", df_channel_id(&s->c, id)}, {"target", df_int(7)},
                                {"shards", df_int(shards)}, {"limit", df_int(limit)}),
                         note_claimed, &page, &err),
              &err);
    return page;
}

static struct claimed claim_one(const struct subject *s)
{
    struct page page = claim(s, s->c.claim, ALL, 10, NULL);

    assert_int_equal(page.count, 1);
    return page.at[0];
}

struct row {
    char status[32], error[64];
    int64_t tries, attempts, due, since, last, http, ms, sent, held;
};

static int64_t time_or_none(const struct df_result *r, size_t col)
{
    return df_col_null(r, col) ? -1 : df_col_time(r, col);
}

static int64_t int_or_none(const struct df_result *r, size_t col)
{
    return df_col_null(r, col) ? -1 : df_col_int(r, col);
}

/* The only row. */
static struct row look(const struct subject *s)
{
    struct df_result *r = NULL;
    struct row row;

    assert_ok(df_db_query(db, s->state, DF_NO_PARAMS, &r, &err), &err);
    assert_int_equal(df_result_step(r, &err), DF_ROW);
    (void)snprintf(row.status, sizeof(row.status), DF_STR_FMT, DF_STR_ARG(df_col_text(r, 0)));
    row.tries = df_col_int(r, 1);
    row.attempts = df_col_int(r, 2);
    row.due = time_or_none(r, 3);
    row.since = time_or_none(r, 4);
    row.last = time_or_none(r, 5);
    row.http = int_or_none(r, 6);
    row.ms = int_or_none(r, 7);
    row.sent = time_or_none(r, 8);
    (void)snprintf(row.error, sizeof(row.error), DF_STR_FMT, DF_STR_ARG(df_col_text(r, 9)));
    row.held = int_or_none(r, 10);
    df_result_free(r);
    return row;
}

/* What a settlement says of the row k; gives how many rows it changed. */
static int64_t settle(const struct subject *s, const struct df_query *q, const struct claimed *k,
                      int64_t due_ms)
{
    int64_t affected = -1;

    assert_ok(df_db_exec(db,
                         DF_ANY(q, {"now", df_time(T0 + 9)}, {"started", df_time(T0 + 1)},
                                {"id", df_channel_id(&s->c, df_str_c(k->id))},
                                {"version", df_int(k->version)}, {"was_due", df_time(k->due_ms)},
                                {"due", due_ms > 0 ? df_time(due_ms) : df_null(DF_TIME)},
                                {"error", df_text(DF_STR("HTTP 503"))},
                                {"http_status", df_int(204)}, {"duration_ms", df_int(8)},
                                {"attempts", df_int(1)}, {"first_failed", df_time(T0)},
                                {"counted", df_null(DF_TIME)}, {"mark", df_int(7)},
                                {"held_for", df_null(DF_INT)}, {"held_at", df_null(DF_TIME)}),
                         &affected, &err),
              &err);
    return affected;
}

static void count_row(void *arg, struct df_result *r)
{
    (void)r;
    (*(size_t *)arg)++;
}

static size_t reset(const struct subject *s, uint32_t shards)
{
    size_t count = 0;

    assert_ok(
        df_db_each(db, DF_ANY(s->c.reset, {"shards", df_int(shards)}), count_row, &count, &err),
        &err);
    return count;
}

/* One row that is due at T0, taken. */
static struct claimed begin(const struct subject *s)
{
    clear(s);
    add_at(s, 5, T0);
    return claim_one(s);
}

/* --- claims --- */

static unsigned shard_of(const struct subject *s, const char *id)
{
    size_t len = strlen(id);

    return s->c.id_type == DF_INT ? (unsigned)(strtoull(id, NULL, 10) % 16)
                                  : (unsigned)strtoul(id + len - 1, NULL, 16);
}

static void the_shards_divide_the_rows(void **state)
{
    (void)state;
    for (const struct subject *s = subjects; s < subjects + SUBJECTS; s++) {
        const struct df_query *queries[] = {s->c.claim, s->c.claim_newest, s->c.claim_held,
                                            s->c.claim_probe};
        clear(s);
        for (unsigned n = 1; n <= 40; n++)
            add_at(s, n * 7, T0 - n);
        set(s, "#HeldFor = 7, #HeldAt = CreatedAt");
        for (size_t q = 0; q < 4; q++) {
            size_t found = 0;
            if (!queries[q])
                continue; /* the gateway is one destination */
            for (unsigned shard = 0; shard < 16; shard++) {
                struct page page = claim(s, queries[q], 1u << shard, 100, NULL);
                for (size_t i = 0; i < page.count; i++)
                    assert_int_equal(shard_of(s, page.at[i].id), shard);
                found += page.count;
            }
            assert_int_equal(found, 40);
            assert_int_equal(claim(s, queries[q], ALL, 100, NULL).count, 40);
            assert_int_equal(claim(s, queries[q], 0, 100, NULL).count, 0);
        }
    }
}

static void a_claim_goes_through_the_rows_by_due_time_and_id(void **state)
{
    (void)state;
    for (const struct subject *s = subjects; s < subjects + SUBJECTS; s++) {
        struct claimed last = {.due_ms = 0};
        size_t found = 0;

        clear(s);
        for (unsigned n = 1; n <= 50; n++)
            add_at(s, n, T0 - 100 + n / 20 * 10); /* many are due at one time */
        add_at(s, 51, T0);
        add_at(s, 52, T0 + 1); /* not yet */
        add(s, 53, "NULL");
        for (;;) {
            struct page page = claim(s, s->c.claim, ALL, 7, found > 0 ? &last : NULL);
            for (size_t i = 0; i < page.count; i++, found++) {
                const struct claimed *k = &page.at[i];
                if (found > 0)
                    assert_true(k->due_ms > last.due_ms ||
                                (k->due_ms == last.due_ms &&
                                 (s->c.id_type == DF_UUID
                                      ? strcmp(k->id, last.id) > 0
                                      : strtoll(k->id, NULL, 10) > strtoll(last.id, NULL, 10))));
                last = *k;
            }
            if (page.count < 7)
                break;
        }
        assert_int_equal(found, 51);
        assert_int_equal(last.due_ms, T0);
        if (s->c.claim_newest)
            assert_string_equal(claim(s, s->c.claim_newest, ALL, 1, NULL).at[0].id, last.id);
    }
}

static void held_rows_are_claimed_for_their_target_alone(void **state)
{
    (void)state;
    for (const struct subject *s = subjects; s < subjects + SUBJECTS; s++) {
        clear(s);
        add_at(s, 1, T0 + 3600000);
        assert_int_equal(claim(s, s->c.claim_held, ALL, 10, NULL).count, 0);
        set(s, "#HeldFor = 8");
        assert_int_equal(claim(s, s->c.claim_probe, ALL, 10, NULL).count, 0);
        set(s, "#HeldFor = 7");
        assert_int_equal(claim(s, s->c.claim_held, ALL, 10, NULL).count, 1);
        assert_int_equal(claim(s, s->c.claim_probe, ALL, 10, NULL).count, 1);
        set(s, "#NextAttemptAt = NULL");
        assert_int_equal(claim(s, s->c.claim_held, ALL, 10, NULL).count, 0);
    }
}

static void read_due(void *arg, struct df_result *r)
{
    *(int64_t *)arg = time_or_none(r, channel_next_due_DueAt);
}

static void the_next_row_is_the_first_that_is_not_due(void **state)
{
    (void)state;
    for (const struct subject *s = subjects; s < subjects + SUBJECTS; s++) {
        static const int64_t dues[] = {-1, T0 + 4};
        clear(s);
        add_at(s, 1, T0);
        for (size_t i = 0; i < 2; i++) {
            int64_t due = 0;
            assert_ok(
                df_db_each(db, DF_ANY(s->c.next_due, {"now", df_time(T0)}), read_due, &due, &err),
                &err);
            assert_int_equal(due, dues[i]);
            add_at(s, 3 + 2 * (unsigned)i, T0 + 4);
            add_at(s, 4 + 2 * (unsigned)i, T0 + 5);
        }
    }
}

/* --- settlements --- */

static void what_arrived_is_sent_whatever_its_due_time(void **state)
{
    (void)state;
    static const char *const meanwhile[] = {
        "#Status = #Status",                                       /* nothing happened */
        "#Status = 'Error', #NextAttemptAt = NULL",                /* it was ended */
        "#Status = 'Pending', #AttemptCount = 0, #TargetMark = 2", /* a person's retry */
        "#Status = 'Sending', #SendingSince = CreatedAt",
        "#HeldFor = 7, #HeldAt = CreatedAt, #LastError = 'x'",
    };
    for (const struct subject *s = subjects; s < subjects + SUBJECTS; s++) {
        for (size_t i = 0; i < sizeof(meanwhile) / sizeof(meanwhile[0]); i++) {
            struct claimed k = begin(s);
            set(s, meanwhile[i]);
            assert_int_equal(settle(s, s->c.sent, &k, 0), 1);
            struct row row = look(s);
            assert_string_equal(row.status, "Sent");
            assert_int_equal(row.tries, 1);
            assert_int_equal(row.attempts, 1);
            assert_int_equal(row.due, -1);
            assert_int_equal(row.since, -1);
            assert_int_equal(row.held, -1);
            assert_int_equal(row.last, T0 + 1);
            assert_int_equal(row.sent, T0 + 9);
            assert_int_equal(row.http, 204);
            assert_int_equal(row.ms, 8);
            assert_string_equal(row.error, "");
            assert_int_equal(settle(s, s->c.sent, &k, 0), 0); /* once */
            assert_int_equal(look(s).tries, 1);
        }
    }
}

static void another_version_is_left_as_it_is(void **state)
{
    (void)state;
    for (const struct subject *s = subjects; s < subjects + SUBJECTS; s++) {
        const struct df_query *queries[] = {s->c.sent, s->c.failed, s->c.deferred, s->c.sending};
        struct claimed k = begin(s);

        assert_int_equal(k.version, 1);
        if (has_version(s))
            set(s, "PayloadVersion = PayloadVersion + 1");
        else
            k.version++;
        for (size_t i = 0; i < 4; i++)
            assert_int_equal(settle(s, queries[i], &k, T0 + 5), 0);
        struct row row = look(s);
        assert_string_equal(row.status, "Pending");
        assert_int_equal(row.tries, 0);
        assert_int_equal(row.due, T0);
        if (!has_version(s))
            continue;
        k = claim_one(s); /* due at once */
        assert_int_equal(k.version, 2);
        assert_int_equal(settle(s, s->c.sent, &k, 0), 1);
    }
}

static void a_failure_is_written_if_the_due_time_is_the_same(void **state)
{
    (void)state;
    static const char *const other[] = {
        "#NextAttemptAt = '2027-01-15T08:00:00.001Z'", /* a person's retry; T0 is 1 ms before */
        "#NextAttemptAt = '2027-01-15T07:59:59.999Z'",
        "#NextAttemptAt = NULL", /* ended meanwhile */
    };
    for (const struct subject *s = subjects; s < subjects + SUBJECTS; s++) {
        struct claimed k;
        for (size_t i = 0; i < sizeof(other) / sizeof(other[0]); i++) {
            k = begin(s);
            set(s, other[i]);
            assert_int_equal(settle(s, s->c.failed, &k, T0 + 5), 0);
            assert_int_equal(settle(s, s->c.deferred, &k, T0 + 5), 0);
            assert_int_equal(look(s).tries, 0);
        }
        for (int dead = 0; dead < 2; dead++) {
            k = begin(s);
            set(s, "#Status = 'Sending', #SendingSince = CreatedAt");
            assert_int_equal(settle(s, s->c.failed, &k, dead ? 0 : T0 + 5), 1);
            struct row row = look(s);
            assert_string_equal(row.status, "Error");
            assert_int_equal(row.tries, 1);
            assert_int_equal(row.attempts, 1);
            assert_int_equal(row.due, dead ? -1 : T0 + 5);
            assert_int_equal(row.since, -1);
            assert_int_equal(row.last, T0 + 1);
            assert_int_equal(row.http, -1);
            assert_string_equal(row.error, "HTTP 503");
            /* The same failure again finds another due time. */
            assert_int_equal(settle(s, s->c.failed, &k, T0 + 5), 0);
        }
    }
}

static void a_row_that_was_not_tried_is_as_it_was(void **state)
{
    (void)state;
    static const struct {
        const char *before, *status;
        int64_t attempts;
    } cases[] = {
        {"#AttemptCount = 0", "Pending", 0},
        {"#AttemptCount = 2, #Status = 'Error'", "Error", 2},
        {"#FirstFailedAt = CreatedAt, #Status = 'Error'", "Error", 0},
        {"#Status = 'Sending', #SendingSince = CreatedAt", "Pending", 0},
    };
    for (const struct subject *s = subjects; s < subjects + SUBJECTS; s++) {
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
            struct claimed k = begin(s);
            set(s, cases[i].before);
            assert_int_equal(settle(s, s->c.deferred, &k, T0 + 5), 1);
            struct row row = look(s);
            assert_string_equal(row.status, cases[i].status);
            assert_int_equal(row.attempts, cases[i].attempts);
            assert_int_equal(row.tries, 0);
            assert_int_equal(row.due, T0 + 5);
            assert_int_equal(row.since, -1);
            assert_int_equal(row.last, -1);
        }
    }
}

static void what_a_lost_owner_left_on_its_way_waits_again(void **state)
{
    (void)state;
    static const struct {
        const char *before, *after;
    } cases[] = {{"#AttemptCount = 0", "Pending"},
                 {"#AttemptCount = 1, #Status = 'Error'", "Error"},
                 {"#FirstFailedAt = CreatedAt, #Status = 'Error'", "Error"}};

    for (const struct subject *s = subjects; s < subjects + SUBJECTS; s++) {
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
            struct claimed k = begin(s);
            uint32_t own = 1u << shard_of(s, k.id);
            set(s, cases[i].before);
            assert_int_equal(reset(s, ALL), 0);
            assert_int_equal(settle(s, s->c.sending, &k, 0), 1);
            assert_string_equal(look(s).status, "Sending");
            assert_int_equal(look(s).since, T0 + 9);
            assert_int_equal(settle(s, s->c.sending, &k, 0), 0); /* it is so already */
            assert_int_equal(reset(s, ALL & ~own), 0);
            assert_int_equal(reset(s, own), 1);
            struct row row = look(s);
            assert_string_equal(row.status, cases[i].after);
            assert_int_equal(row.since, -1);
            assert_int_equal(row.due, T0);
            assert_int_equal(settle(s, s->c.sent, &k, 0), 1);
            assert_int_equal(settle(s, s->c.sending, &k, 0), 0); /* too late */
            assert_int_equal(reset(s, ALL), 0);
        }
    }
}

/* As the engine does it: on PostgreSQL one statement for all. */
static void many_rows_are_settled_at_once(void **state)
{
    (void)state;
    enum { ROWS = 20 };
    for (const struct subject *s = subjects; s < subjects + SUBJECTS; s++) {
        const struct df_query *queries[] = {s->c.deferred, s->c.sent};
        struct df_arena arena;

        df_arena_init(&arena);
        clear(s);
        for (unsigned n = 1; n <= ROWS; n++)
            add_at(s, n, T0 - n);
        for (size_t q = 0; q < 2; q++) {
            struct page page = claim(s, s->c.claim, ALL, 100, NULL);
            struct df_rows rows = df_rows_for(&arena, queries[q], ROWS);
            int64_t affected[ROWS];

            assert_int_equal(page.count, ROWS);
            for (unsigned i = 0; i < ROWS; i++) /* every fifth is of another version */
                df_rows_put(&rows,
                            DF_ANY(queries[q], {"now", df_time(T0 + 9)},
                                   {"started", df_time(T0 + 1)}, {"http_status", df_int(200)},
                                   {"duration_ms", df_int(i)}, {"due", df_time(T0 - 50 - i)},
                                   {"id", df_channel_id(&s->c, df_str_c(page.at[i].id))},
                                   {"version", df_int(page.at[i].version + (i % 5 == 0))},
                                   {"was_due", df_time(page.at[i].due_ms)},
                                   {"held_for", df_null(DF_INT)}, {"held_at", df_null(DF_TIME)}));
            assert_ok(df_db_begin(db, true, &err), &err);
            assert_ok(df_rows_run(db, &rows, affected, &err), &err);
            assert_ok(df_db_commit(db, &err), &err);
            for (unsigned i = 0; i < ROWS; i++)
                assert_int_equal(affected[i], i % 5 != 0);
        }
        assert_int_equal(claim(s, s->c.claim, ALL, 100, NULL).count, ROWS / 5);
        df_arena_release(&arena);
    }
}

/* Other programs write times as they like. What the claim read is what a failure finds. */
static void a_time_in_another_form_is_the_same_time(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t due_ms;
    } cases[] = {
        {"'2027-01-15T08:00:00.000Z'", T0},
        {"'2027-01-15 08:00:00'", T0},
        {"'2027-01-15T08:00:00'", T0},
        {"'2027-01-15T08:00:00.0009Z'", -1},
        {"'2027-01-15 08:00:00.000999'", -1},
        {"'2027-01-15T06:00:00-02:00'", T0},
        {"'2027-01-15T08:00:00.000+00:00'", T0},
        {"'2027-01-15'", T0 - 8 * 3600000},
        {"'2027-01-15T07:59Z'", T0 - 60000},
        {"''", 1},
        {"'2026-99-99'", 1},
        {"0", 1},
        {"1700000000", 1},
    };

    if (dialect != DF_SQLITE)
        skip();
    for (const struct subject *s = subjects; s < subjects + SUBJECTS; s++) {
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
            clear(s);
            add(s, 5, cases[i].text);
            struct claimed k = claim_one(s);
            if (cases[i].due_ms >= 0)
                assert_int_equal(k.due_ms, cases[i].due_ms);
            assert_int_equal(settle(s, s->c.deferred, &k, T0), 1);
            clear(s);
            add(s, 5, cases[i].text);
            k = claim_one(s);
            assert_int_equal(settle(s, s->c.failed, &k, T0 + 5), 1);
            assert_int_equal(look(s).due, T0 + 5);
        }
    }
}

/* --- plans --- */

/* Many rows, one in twenty of them due; the others were sent. */
static void add_many(const struct subject *s, unsigned count)
{
    char values[256], sql[1024];
    bool sqlite = dialect == DF_SQLITE;
    const char *key = sqlite                    ? "printf('" UUID_ "%012x', n)"
                      : s->c.id_type == DF_UUID ? "CAST('" UUID_
                                                  "' || lpad(to_hex(n), 12, '0') AS uuid)"
                                                : "'" UUID_ "' || CAST(n AS varchar)";
    const char *due = sqlite ? "strftime('%Y-%m-%dT%H:%M:%fZ', 1799900000 + n, 'unixepoch')"
                             : "to_timestamp(1799900000 + n)";

    clear(s);
    (void)snprintf(values, sizeof(values), "%s, %s", key, s->values);
    (void)snprintf(sql, sizeof(sql),
                   "WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < %u)"
                   " INSERT INTO %s (%s, %sStatus, %sNextAttemptAt) SELECT %s,"
                   " CASE WHEN n %% 20 = 0 THEN 'Pending' ELSE 'Sent' END,"
                   " CASE WHEN n %% 20 = 0 THEN %s END FROM s;",
                   count, s->table, s->columns, s->prefix, s->prefix, values, due);
    testdb_script(db, sql);
    if (!sqlite) {
        (void)snprintf(sql, sizeof(sql), "ANALYZE %s;", s->table);
        testdb_script(db, sql);
    }
}

struct plan {
    bool by_due;
    bool sorted;
    char text[4096];
};

static void note_plan(void *arg, struct df_result *r)
{
    struct plan *p = arg;
    size_t len = strlen(p->text);
    struct df_str line = df_col_text(r, dialect == DF_SQLITE ? 3 : 0);

    (void)snprintf(p->text + len, sizeof(p->text) - len, DF_STR_FMT "\n", DF_STR_ARG(line));
}

static void explain(const struct subject *s, const struct df_query *q, struct plan *ret)
{
    /* A connection knows a query by its address and its name. */
    static struct {
        struct df_query q;
        char name[64], text[4096];
    } made[SUBJECTS * 3];
    static size_t used;
    size_t n = used++ % (SUBJECTS * 3);

    (void)snprintf(made[n].name, sizeof(made[n].name), "explain_%s", q->name);
    (void)snprintf(made[n].text, sizeof(made[n].text), "EXPLAIN %s %s",
                   dialect == DF_SQLITE ? "QUERY PLAN" : "", df_query_sql(q, dialect));
    made[n].q = *q;
    made[n].q.is_packed = false;
    made[n].q.name = made[n].name;
    made[n].q.column_count = 0;
    made[n].q.text[dialect].sql = made[n].text;
    *ret = (struct plan){.by_due = false};
    assert_ok(
        df_db_each(
            db,
            DF_ANY(&made[n].q, {"now", df_time(T0)}, {"after", df_time(T0 - 100000000)},
                   {"after_id",
                    df_channel_id(&s->c, s->c.id_type == DF_INT ? DF_STR("0") : DF_STR(CLIENT))},
                   {"shards", df_int(ALL)}, {"limit", df_int(100)}),
            note_plan, ret, &err),
        &err);
    char bitmap[64];
    (void)snprintf(bitmap, sizeof(bitmap), "Bitmap Heap Scan on %s c", s->table);
    ret->by_due = strcasestr(ret->text, s->due_index) && !strcasestr(ret->text, bitmap);
    ret->sorted = strstr(ret->text, "Sort") || strstr(ret->text, "TEMP B-TREE");
}

static void claims_go_by_the_index_over_due_time_and_id(void **state)
{
    (void)state;
    if (dialect == DF_SQLSERVER)
        skip();
    for (const struct subject *s = subjects; s < subjects + SUBJECTS; s++) {
        const struct df_query *queries[] = {s->c.claim, s->c.claim_newest, s->c.next_due};
        add_many(s, 20000);
        for (size_t i = 0; i < 3; i++) {
            struct plan plan;
            if (!queries[i])
                continue;
            explain(s, queries[i], &plan);
            if (!plan.by_due || plan.sorted)
                fail_msg("%s:\n%s", queries[i]->name, plan.text);
        }
    }
}

int main(void)
{
#define ON_EACH(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        ON_EACH(the_shards_divide_the_rows),
        ON_EACH(a_claim_goes_through_the_rows_by_due_time_and_id),
        ON_EACH(held_rows_are_claimed_for_their_target_alone),
        ON_EACH(the_next_row_is_the_first_that_is_not_due),
        ON_EACH(what_arrived_is_sent_whatever_its_due_time),
        ON_EACH(another_version_is_left_as_it_is),
        ON_EACH(a_failure_is_written_if_the_due_time_is_the_same),
        ON_EACH(a_row_that_was_not_tried_is_as_it_was),
        ON_EACH(what_a_lost_owner_left_on_its_way_waits_again),
        ON_EACH(many_rows_are_settled_at_once),
        ON_EACH(a_time_in_another_form_is_the_same_time),
        ON_EACH(claims_go_by_the_index_over_due_time_and_id),
    };
    return testdb_run_tests("queries of channels", &dialect, tests,
                            sizeof(tests) / sizeof(tests[0]));
}

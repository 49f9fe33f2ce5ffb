/*
 * Tickets that are processed as they are accepted, alone and many at once, on every database there
 * is: what is written for each, and that nothing is written for those that are refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "interface/processing_private.h"
#include "store/schema.h"
#include "testdb.h"

#include <stdio.h>

#define MAX    8
#define OWNER  "01900000-0000-7000-8000-000000000001"
#define OTHER  "01900000-0000-7000-8000-000000000002"
#define FIT    ""
#define UNFIT  "\"phaseCode\": 6, \"weights\": {\"gross\": 1, \"tare\": 2, \"net\": 3},"
#define NO_ACK "\"functionalAckIsRequired\": false,"

static enum df_dialect dialect;
static struct testdb t;
static struct df_store *store;
static struct df_interface *interface;
static struct df_arena arena;
static struct df_err err;

static int setup(void **state)
{
    (void)state;
    size_t applied = 0;
    testdb_init(&t, dialect);
    struct df_db *db = testdb_open(&t);
    assert_ok(df_schema_apply(db, &applied, &err), &err);
    df_db_close(db);
    struct df_store_options opt = {.settings.url = t.url, .settings.pool_size = 3};
    assert_ok(df_store_open(&opt, &store, &err), &err);
    interface = df_interface_new(&(struct df_interface_options){
        .store = store,
        .clock = df_clock_real(),
        .settings = {.ack_business_application = "DF"},
        .delivery_settings = {.retry = {.max_attempts = 5}},
    });
    interface->processes = true;
    df_arena_init(&arena);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    df_arena_release(&arena);
    df_interface_free(interface);
    df_store_close(store);
    testdb_release(&t);
    return 0;
}

/* --- what the tests do ------------------------------------------------------------------------ */

/* A ticket of the document; `more` are members of the payload that come first. */
static struct ticket_acceptance *make(const char *doc, const char *branch, const char *more)
{
    struct ticket_acceptance *c = DF_ARENA_NEW(&arena, struct ticket_acceptance);
    const struct df_json *root = NULL;
    struct df_input in;

    c->arena = &arena;
    c->payload = df_arena_printf(
        &arena,
        "{%s \"businessEntity\": \"TCK\", \"businessDocId\": \"%s\", \"companyCode\": \"1\","
        " \"branchCode\": \"%s\", \"destinationCode\": \"D\", \"shipmentEvent\": \"E\","
        " \"targetApplicationCode\": \"T\" %s %s}",
        more, doc, branch, strstr(more, "phaseCode") ? "" : ", \"phaseCode\": 15",
        strstr(more, "AckIs") ? "" : ", \"functionalAckIsRequired\": true");
    assert_ok(df_json_parse(&arena, c->payload, &root, &err), &err);
    df_input_init(&in, &arena, root);
    df_ticket_read(&in, &c->parsed);
    assert_int_equal(in.error_count, 0);
    df_checksum_of(c->payload, c->hash);
    c->reach = (struct df_reach){.client_id = DF_STR(OWNER)};
    ticket_acceptance_judge(c, &in, interface);
    return c;
}

struct call {
    struct df_job job;
    struct ticket_acceptance **all;
    size_t count;
};

static enum df_code run_call(struct df_db *db, struct df_job *job, struct df_err *e)
{
    struct call *c = (struct call *)job;
    struct ticket_acceptance *all[MAX];

    if (c->count == 1)
        return ticket_accept(db, interface, c->all[0], e);
    memcpy(all, c->all, c->count * sizeof(*all));
    return ticket_accept_all(db, interface, all, c->count, e);
}

static enum df_code accept(struct ticket_acceptance **all, size_t count)
{
    struct call c = {.job = {.run = run_call}, .all = all, .count = count};
    return df_store_write_wait(store, &c.job, &err);
}

static int64_t count_of(const char *sql)
{
    const struct df_query q = {.name = "count", .text = {{sql}, {sql}, {sql}}};
    struct df_db *db = testdb_open(&t);
    int64_t n = testdb_int(db, &q);
    df_db_close(db);
    return n;
}

static void script(const char *sql)
{
    struct df_db *db = testdb_open(&t);
    testdb_script(db, sql);
    df_db_close(db);
}

/* The row of a document, and how many returns and acks it has. */
static void expect(const char *doc, const char *condition, int64_t returns, int64_t acks)
{
    char sql[700];

    (void)snprintf(sql, sizeof(sql),
                   "SELECT COUNT(*) FROM TB_TICKET_INTERFACE WHERE BusinessDocId = '%s' AND (%s)",
                   doc, condition);
    if (count_of(sql) != 1)
        fail_msg("%s is not as it should: %s", doc, condition);
    (void)snprintf(sql, sizeof(sql),
                   "SELECT COUNT(*) FROM TB_TICKET_RETURN_OUTBOX WHERE BusinessDocId = '%s'"
                   " AND Status = 'Pending' AND NextAttemptAt IS NOT NULL",
                   doc);
    assert_int_equal(count_of(sql), returns);
    (void)snprintf(sql, sizeof(sql),
                   "SELECT COUNT(*) FROM TB_FUNCTIONAL_ACK_OUTBOX WHERE BusinessDocId = '%s'"
                   " AND Status = 'Pending' AND ClientId = '" OWNER "'",
                   doc);
    assert_int_equal(count_of(sql), acks);
}

#define PROCESSED                                                                                  \
    "Status = 'Processed' AND AttemptCount = 1 AND LastError IS NULL AND NextAttemptAt IS NULL"    \
    " AND GatewaySendStatus = 'Pending' AND GatewaySendNextAttemptAt IS NOT NULL"                  \
    " AND ClientId = '" OWNER "'"
#define REJECTED                                                                                   \
    "Status = 'Error' AND AttemptCount = 5 AND LastError LIKE '%gross%' AND NextAttemptAt IS NULL" \
    " AND FirstFailedAt IS NULL AND GatewaySendNextAttemptAt IS NULL"
#define AWAITING                                                                                   \
    "Status = 'Awaiting' AND AttemptCount = 0 AND TryCount = 0 AND LastError IS NULL"              \
    " AND NextAttemptAt IS NOT NULL AND GatewaySendNextAttemptAt IS NULL"

/* --- the tests -------------------------------------------------------------------------------- */

static void check_answer(const struct ticket_acceptance *c, bool changed, bool created,
                         const char *status)
{
    assert_int_equal(c->changed, changed);
    assert_int_equal(c->created, created);
    assert_true(df_str_eq(c->status, df_str_c(status)));
    assert_true(c->t.id > 0);
}

static void new_ones_are_written_with_their_outcome(void **state)
{
    (void)state;
    struct ticket_acceptance *all[] = {make("A", "1", FIT), make("B", "1", UNFIT),
                                       make("C", "1", NO_ACK), make("D", "1", FIT)};
    assert_ok(accept(all, 3), &err);
    assert_ok(accept(all + 3, 1), &err);
    for (size_t i = 0; i < 4; i++)
        check_answer(all[i], true, true, "Awaiting");
    assert_true(all[0]->t.id != all[1]->t.id && all[1]->t.id != all[2]->t.id);
    expect("A", PROCESSED " AND TryCount = 1 AND PayloadVersion = 1", 1, 1);
    expect("B", REJECTED " AND TryCount = 1", 0, 1);
    expect("C", PROCESSED, 1, 0);
    expect("D", PROCESSED " AND TryCount = 1 AND PayloadVersion = 1", 1, 1);
}

static void replaced_ones_start_over(void **state)
{
    (void)state;
    struct ticket_acceptance *first[] = {make("A", "1", FIT), make("B", "1", UNFIT),
                                         make("C", "1", FIT), make("D", "1", FIT)};
    struct ticket_acceptance *second[] = {make("A", "2", FIT),
                                          make("B", "2",
                                               "\"phaseCode\": 6,"
                                               "\"weights\": {\"net\": 3},"),
                                          make("N", "1", FIT), make("D", "2", FIT)};
    assert_ok(accept(first, 4), &err);
    assert_ok(accept(second, 3), &err);
    assert_ok(accept(second + 3, 1), &err);
    check_answer(second[0], true, false, "Awaiting");
    check_answer(second[2], true, true, "Awaiting");
    assert_int_equal(second[0]->t.id, first[0]->t.id);
    expect("A", PROCESSED " AND TryCount = 2 AND PayloadVersion = 2 AND BranchCode = '2'", 1, 2);
    expect("B", PROCESSED " AND TryCount = 2 AND PayloadVersion = 2", 1, 2);
    expect("C", PROCESSED " AND PayloadVersion = 1", 1, 1);
    expect("D", PROCESSED " AND TryCount = 2 AND PayloadVersion = 2", 1, 2);
    assert_int_equal(count_of("SELECT COUNT(*) FROM TB_TICKET_RETURN_OUTBOX"
                              " WHERE PayloadVersion = 2 AND PayloadJson LIKE '%\"2\"%'"),
                     2);
}

static void the_same_payload_changes_nothing(void **state)
{
    (void)state;
    struct ticket_acceptance *first[] = {make("A", "1", FIT), make("B", "1", UNFIT)};
    struct ticket_acceptance *again[] = {make("A", "1", FIT), make("B", "1", UNFIT),
                                         make("C", "1", FIT)};
    assert_ok(accept(first, 2), &err);
    assert_ok(accept(again, 3), &err);
    check_answer(again[0], false, false, "Processed");
    check_answer(again[1], false, false, "Error");
    check_answer(again[2], true, true, "Awaiting");
    assert_int_equal(again[0]->t.id, first[0]->t.id);
    expect("A", PROCESSED " AND PayloadVersion = 1 AND TryCount = 1", 1, 1);
    expect("B", REJECTED " AND PayloadVersion = 1 AND TryCount = 1", 0, 1);
    expect("C", PROCESSED, 1, 1);
}

static void another_clients_ticket_is_refused_and_all_clients_reach_it(void **state)
{
    (void)state;
    struct ticket_acceptance *first[] = {make("A", "1", FIT)};
    assert_ok(accept(first, 1), &err);

    struct ticket_acceptance *theirs[] = {make("A", "2", FIT), make("B", "1", FIT)};
    theirs[0]->reach.client_id = DF_STR(OTHER);
    assert_code(accept(theirs, 2), DF_E_ANOTHER_CLIENT, &err);
    assert_code(accept(theirs, 1), DF_E_ANOTHER_CLIENT, &err);
    expect("A", PROCESSED " AND PayloadVersion = 1", 1, 1);
    assert_int_equal(count_of("SELECT COUNT(*) FROM TB_TICKET_INTERFACE"), 1);

    /* The owner stays, and the ack is the owner's. */
    theirs[0]->reach.all = true;
    assert_ok(accept(theirs, 2), &err);
    expect("A", PROCESSED " AND PayloadVersion = 2", 1, 2);
    expect("B", PROCESSED, 1, 1);
}

static void two_with_one_key_do_not_go_together(void **state)
{
    (void)state;
    if (dialect == DF_SQLSERVER)
        skip(); /* each is written by itself */
    struct ticket_acceptance *all[] = {make("A", "1", FIT), make("B", "1", FIT),
                                       make("A", "2", FIT)};
    assert_code(accept(all, 3), DF_E_DB_UNIQUE, &err);
    assert_int_equal(count_of("SELECT COUNT(*) FROM TB_TICKET_INTERFACE"), 0);
    for (size_t i = 0; i < 3; i++)
        assert_ok(accept(all + i, 1), &err);
    expect("A", PROCESSED " AND PayloadVersion = 2", 1, 2);

    /* Phases are tickets of their own. */
    struct ticket_acceptance *phases[] = {
        make("P", "1", FIT), make("P", "1", "\"phaseCode\": 6, \"weights\": {\"net\": 3},")};
    assert_ok(accept(phases, 2), &err);
    assert_int_equal(count_of("SELECT COUNT(*) FROM TB_TICKET_RETURN_OUTBOX"
                              " WHERE BusinessDocId = 'P'"),
                     2);
}

static void what_the_database_refuses_is_accepted_and_waits(void **state)
{
    (void)state;
    struct ticket_acceptance *all[] = {make("BAD", "1", FIT), make("B", "1", FIT)};
    script(dialect == DF_SQLITE
               ? "CREATE TRIGGER refusal BEFORE INSERT ON TB_TICKET_RETURN_OUTBOX"
                 " WHEN NEW.BusinessDocId = 'BAD' BEGIN SELECT RAISE(ABORT, 'no'); END"
               : "ALTER TABLE TB_TICKET_RETURN_OUTBOX ADD CONSTRAINT refusal"
                 " CHECK (BusinessDocId <> 'BAD')");
    assert_true(accept(all, 2) != DF_OK);
    assert_int_equal(count_of("SELECT COUNT(*) FROM TB_TICKET_INTERFACE"), 0);
    assert_ok(accept(all, 1), &err);
    assert_ok(accept(all + 1, 1), &err);
    check_answer(all[0], true, true, "Awaiting");
    assert_false(all[0]->judged);
    assert_true(all[1]->judged);
    expect("BAD", AWAITING, 0, 0);
    expect("B", PROCESSED, 1, 1);
}

static void who_does_not_process_only_stores(void **state)
{
    (void)state;
    interface->processes = false;
    struct ticket_acceptance *all[] = {make("A", "1", FIT), make("B", "1", UNFIT)};
    assert_ok(accept(all, 2), &err);
    check_answer(all[0], true, true, "Awaiting");
    expect("A", AWAITING, 0, 0);
    expect("B", AWAITING, 0, 0);
}

/* As a settlement of returns does first, since who replaces a ticket locks it before its return. */
static void tickets_are_locked_before_their_returns(void **state)
{
    (void)state;
    if (dialect != DF_POSTGRES)
        skip(); /* the others have no way to ask what is locked */
    struct ticket_acceptance *all[] = {make("A", "1", FIT), make("B", "1", FIT)};
    struct df_db *db = testdb_open(&t);
    char ids[DF_CHANNEL_IDS_SIZE];

    assert_ok(accept(all, 2), &err);
    int64_t id = count_of("SELECT Id FROM TB_TICKET_RETURN_OUTBOX WHERE BusinessDocId = 'A'");
    assert_ok(df_db_begin(db, true, &err), &err);
    assert_ok(df_db_exec(db,
                         DF_ANY(interface->channels[CHANNEL_RETURN].lock,
                                {"ids", df_channel_ids(df_int(id), ids)}),
                         NULL, &err),
              &err);
    assert_int_equal(count_of("WITH free AS (SELECT BusinessDocId FROM TB_TICKET_INTERFACE"
                              " FOR UPDATE SKIP LOCKED)"
                              " SELECT COUNT(*) + SUM(CASE WHEN BusinessDocId = 'B' THEN 10 END)"
                              " FROM free"),
                     11);
    assert_int_equal(count_of("WITH free AS (SELECT Id FROM TB_TICKET_RETURN_OUTBOX"
                              " FOR UPDATE SKIP LOCKED) SELECT COUNT(*) FROM free"),
                     2);
    df_db_rollback(db);
    df_db_close(db);
}

int main(void)
{
#define ON_EACH(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        ON_EACH(new_ones_are_written_with_their_outcome),
        ON_EACH(replaced_ones_start_over),
        ON_EACH(the_same_payload_changes_nothing),
        ON_EACH(another_clients_ticket_is_refused_and_all_clients_reach_it),
        ON_EACH(two_with_one_key_do_not_go_together),
        ON_EACH(what_the_database_refuses_is_accepted_and_waits),
        ON_EACH(who_does_not_process_only_stores),
        ON_EACH(tickets_are_locked_before_their_returns),
    };
    return testdb_run_tests("accept", &dialect, tests, sizeof(tests) / sizeof(tests[0]));
}

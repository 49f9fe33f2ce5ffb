/*
 * What begins to wait while it is being removed or erased, on every database there is: somebody
 * else has changed a row and commits once the removal waits for it. Retention, purge and erasure
 * leave the document as it is then, and all that hangs on it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/log.h"
#include "fake_clock.h"
#include "keys_from.h"
#include "retention/purge.h"
#include "retention/retention.h"
#include "store/schema.h"
#include "testdb.h"

#include <pthread.h>
#include <stdatomic.h>

#define START  INT64_C(1700000000000)
#define DAY    INT64_C(86400000)
#define CLIENT "018bcfe5-6800-7000-8000-000000000003"
#define PHONE  "+5511987654321"

static enum df_dialect dialect;
static struct testdb t;
static struct df_db *db;
static struct df_err err;
static struct df_store *store;
static struct df_storage *storage;
static struct df_keys *keys;
static struct df_purge *purge;
static struct df_fake_clock clock_;

TESTDB_QUERY(waiting_for_us, 0, "SELECT 1",
             "SELECT COUNT(*) FROM pg_locks WHERE NOT granted AND pg_backend_pid() = "
             "ANY(pg_blocking_pids(pid))",
             "SELECT 1");
#define EVERYWHERE(name, text) TESTDB_QUERY(name, 0, text, text, text)
EVERYWHERE(tickets, "SELECT COUNT(*) FROM TB_TICKET_INTERFACE");
EVERYWHERE(returns_as_sent,
           "SELECT COUNT(*) FROM TB_TICKET_RETURN_OUTBOX WHERE PayloadJson = '{\"a\":1}'");
EVERYWHERE(tickets_as_sent,
           "SELECT COUNT(*) FROM TB_TICKET_INTERFACE WHERE RawPayloadJson = '{\"a\":1}'");
EVERYWHERE(attempts, "SELECT COUNT(*) FROM DeliveryAttempts");
EVERYWHERE(entries, "SELECT COUNT(*) FROM SubjectIndex");

/* A ticket that was processed, with a return that was dismissed, an attempt at each, and a name. */
static void add_ticket(void)
{
    struct df_subject person;
    char text[2048];
    const char *none = dialect == DF_SQLITE ? "x''" : dialect == DF_POSTGRES ? "''" : "0x00";

    (void)snprintf(
        text, sizeof text,
        "INSERT INTO Clients (Id, Name, ClientIdentifier, SecretHash, SecretSalt)"
        " VALUES ('" CLIENT "', 'Acme', 'acme', %s, %s);"
        "INSERT INTO TB_TICKET_INTERFACE (BusinessEntity, BusinessDocId, CompanyCode, BranchCode,"
        " DestinationCode, PhaseCode, ShipmentEvent, FunctionalAckIsRequired, "
        "TargetApplicationCode,"
        " Status, RawPayloadJson, CreatedAt, UpdatedAt, GatewaySendStatus, ClientId,"
        " NextAttemptAt, GatewaySendNextAttemptAt)"
        " VALUES ('e', 'd', 'c', 'b', 'x', 1, 's', %s, 't', 'Processed', '{\"a\":1}', '2020-01-01',"
        " '2020-01-01', 'Sent', '" CLIENT "', NULL, NULL);"
        "INSERT INTO TB_TICKET_RETURN_OUTBOX (BusinessEntity, BusinessDocId, PhaseCode, "
        "PayloadJson,"
        " TargetUrl, Status, CreatedAt, DismissedAt, NextAttemptAt)"
        " VALUES ('e', 'd', 1, '{\"a\":1}', 'http://x', 'Error', '2020-01-01', '2020-01-02', NULL);"
        "INSERT INTO DeliveryAttempts (Channel, RowKey, Attempt, AttemptedAt, Outcome, DurationMs)"
        " VALUES ('ticket-gateway', '1', 1, '2020-01-01', 'Sent', 5),"
        " ('ticket-return', '1', 1, '2020-01-01', 'Failed', 5);",
        none, none, dialect == DF_POSTGRES ? "false" : "0");
    testdb_script(db, text);
    assert_ok(df_subject_parse(keys, DF_SUBJECT_PHONE, DF_STR(PHONE), &person, &err), &err);
    assert_ok(df_db_begin(db, true, &err), &err);
    assert_ok(df_subjects_write(db, "ticket", DF_STR("1"), &person, 1, true, &err), &err);
    assert_ok(df_db_commit(db, &err), &err);
}

static int setup(void **state)
{
    static const unsigned char key[DF_KEY_BYTES] = {1};

    (void)state;
    testdb_init(&t, dialect);
    db = testdb_open(&t);
    assert_ok(df_schema_apply(db, NULL, &err), &err);
    df_fake_clock_init(&clock_, START, 5);
    keys = df_keys_from(&clock_.base, key);
    assert_ok(df_store_open(&(struct df_store_options){.settings.url = t.url}, &store, &err), &err);
    assert_ok(df_storage_new(&(struct df_storage_options){.data_dir = t.dir, .clock = &clock_.base},
                             &storage, &err),
              &err);
    purge = df_purge_new(&(struct df_purge_options){.store = store,
                                                    .storage = storage,
                                                    .keys = keys,
                                                    .clock = &clock_.base,
                                                    .data_dir = t.dir});
    add_ticket();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    df_purge_stop(purge);
    df_purge_free(purge);
    df_store_close(store);
    df_storage_free(storage);
    df_keys_free(keys);
    df_db_close(db);
    testdb_release(&t);
    return 0;
}

/* --- what removes --- */

struct removal {
    enum df_code (*run)(struct df_err *err);
    enum df_code code;
    struct df_err err;
    atomic_bool ended;
};

static enum df_code retain(struct df_err *e)
{
    struct df_retention_count counts[DF_RETENTION_KINDS_MAX];
    size_t count = 0;
    struct df_retention *r =
        df_retention_new(&(struct df_retention_options){.url = t.url,
                                                        .store = store,
                                                        .storage = storage,
                                                        .clock = &clock_.base,
                                                        .settings = {.tickets_ms = 30 * DAY}});
    enum df_code code = df_retention_run(r, counts, &count, e);

    df_retention_free(r);
    return code;
}

static enum df_code run_purge(const struct df_purge_request *req, struct df_err *e)
{
    const struct df_actor by = {.name = DF_STR("test")};
    struct df_purge_outcome out = {.done = false};

    return df_purge_run(purge, req, &by, &out, e);
}

static enum df_code purge_client(struct df_err *e)
{
    return run_purge(&(struct df_purge_request){.kind = DF_PURGE_CLIENT, .client = DF_STR("acme")},
                     e);
}

static enum df_code erase_person(struct df_err *e)
{
    struct df_purge_request req = {.kind = DF_PURGE_SUBJECT};
    enum df_code code = df_subject_parse(keys, DF_SUBJECT_PHONE, DF_STR(PHONE), &req.subject, e);

    return code == DF_OK ? run_purge(&req, e) : code;
}

static void *run_removal(void *arg)
{
    struct removal *r = arg;

    r->code = r->run(&r->err);
    atomic_store(&r->ended, true);
    return NULL;
}

/* Has the change committed while the removal waits for its row. */
static void remove_while(enum df_code (*run)(struct df_err *err), const char *change)
{
    struct removal r = {.run = run, .err = DF_ERR_INIT};
    pthread_t thread;

    assert_ok(df_db_begin(db, true, &err), &err);
    testdb_script(db, change);
    assert_int_equal(pthread_create(&thread, NULL, run_removal, &r), 0);
    while (testdb_int(db, &waiting_for_us) == 0 && !atomic_load(&r.ended))
        df_sleep_ms(5);
    assert_ok(df_db_commit(db, &err), &err);
    assert_int_equal(pthread_join(thread, NULL), 0);
    if (r.code != DF_E_CONFLICT)
        assert_ok(r.code, &r.err);
}

static void assert_all_is_there(void)
{
    assert_int_equal(testdb_int(db, &tickets_as_sent), 1);
    assert_int_equal(testdb_int(db, &returns_as_sent), 1);
    assert_int_equal(testdb_int(db, &attempts), 2);
    assert_int_equal(testdb_int(db, &entries), 1);
}

#define RETRY_RETURN                                                                               \
    "UPDATE TB_TICKET_RETURN_OUTBOX SET Status = 'Pending', DismissedAt = NULL,"                   \
    " NextAttemptAt = '2023-01-01'"
#define TICKET_AGAIN                                                                               \
    "UPDATE TB_TICKET_INTERFACE SET Status = 'Awaiting', NextAttemptAt = '2023-01-01'"

static void a_return_that_is_retried_stays(void **state)
{
    enum df_code (*const removals[])(struct df_err *) = {retain, purge_client, erase_person};

    (void)state;
    for (size_t i = 0; i < sizeof removals / sizeof removals[0]; i++) {
        remove_while(removals[i], RETRY_RETURN);
        assert_all_is_there();
        testdb_script(db, "UPDATE TB_TICKET_RETURN_OUTBOX SET Status = 'Error',"
                          " DismissedAt = '2020-01-02', NextAttemptAt = NULL");
    }
}

static void a_ticket_that_comes_again_stays(void **state)
{
    enum df_code (*const removals[])(struct df_err *) = {retain, purge_client, erase_person};

    (void)state;
    for (size_t i = 0; i < sizeof removals / sizeof removals[0]; i++) {
        remove_while(removals[i], TICKET_AGAIN);
        assert_all_is_there();
        testdb_script(db,
                      "UPDATE TB_TICKET_INTERFACE SET Status = 'Processed', NextAttemptAt = NULL");
    }
}

/* The same without anybody else. */
static void what_does_not_wait_goes(void **state)
{
    (void)state;
    assert_ok(erase_person(&err), &err);
    assert_int_equal(testdb_int(db, &tickets), 1);
    assert_int_equal(testdb_int(db, &tickets_as_sent), 0);
    assert_int_equal(testdb_int(db, &returns_as_sent), 0);
    assert_ok(purge_client(&err), &err);
    assert_int_equal(testdb_int(db, &tickets), 0);
    assert_int_equal(testdb_int(db, &attempts), 0);
}

static void a_stop_does_not_wait_for_a_long_count(void **state)
{
    const struct df_purge_request all = {
        .kind = DF_PURGE_CLIENT, .client = DF_STR("acme"), .dry_run = true};
    (void)state;

    testdb_script(db, "INSERT INTO ImportBatch (Id, ClientId, Status, FileName, FileType) VALUES "
                      "('01a1dec4-0000-7000-8000-000000000009', '" CLIENT "', 3, 'a', 2)");
    assert_ok(run_purge(&all, &err), &err);
    df_purge_stop(purge);
    assert_int_equal(run_purge(&all, &err), DF_E_BUSY);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_return_that_is_retried_stays),
        TEST(a_ticket_that_comes_again_stays),
        TEST(what_does_not_wait_goes),
        TEST(a_stop_does_not_wait_for_a_long_count),
    };
    df_log_init(DF_LOG_ERROR, DF_LOG_JSON, df_clock_real());
    return testdb_run_tests("meanwhile", &dialect, tests, sizeof(tests) / sizeof(tests[0]));
}

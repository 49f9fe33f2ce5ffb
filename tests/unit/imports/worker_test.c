#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "access/clients.h"
#include "base/instance.h"
#include "fake_clock.h"
#include "imports/batch.h"
#include "imports/imports.h"
#include "imports/process/process.sql.h"
#include "imports/process/process_private.h"
#include "net/http.h"
#include "store/schema.h"

#include "testdb.h"

#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>

/*
 * Who takes a batch whose file is not here, and when: what takes half an hour by the clock. The
 * rest of the processing: tests/integration/imports/test_imports_process.py.
 */

#define LOCK_TIMEOUT_MS 1800000
#define PATH_MAX_BYTES  4096
#define OTHER_HOST      "elsewhere/6f1c0a7e-0000-4000-8000-00000000000a"

static enum df_dialect dialect; /* of the group that runs */
static struct testdb test;
static struct df_db *db;
static struct df_fake_clock clock_;
static struct df_store *store;
static struct df_storage *storage;
static struct df_outbound outbound;
static struct df_imports *imports;
static struct df_locks *locks;
static struct df_instance *instance;
static struct df_client client;
static struct df_err err;

/* OmniFlow, for those who want one: keeps what comes until it may answer. */
static struct df_http_server *omniflow;
static _Atomic size_t came;
static _Atomic bool holding;
static char omniflow_url[128] = "http://127.0.0.1:9";

static struct df_req *kept[8]; /* with `keeping`: requests for the test to answer */
static _Atomic size_t kept_count;
static _Atomic bool keeping;

static void take_chunk(struct df_req *req)
{
    if (keeping) {
        size_t n = kept_count++;
        if (n >= sizeof kept / sizeof *kept)
            abort();
        df_req_suspend(req);
        kept[n] = req;
        came++;
        return;
    }
    came++;
    while (holding)
        usleep(5000);
    df_req_answer_static(req, 200, "application/json", DF_STR("{\"status\":\"Imported\"}"));
}

static const struct df_route chunk_routes[] = {
    {.method = "POST", .pattern = "/api/leads/import", .body = DF_BODY_ANY, .handle = take_chunk},
    {.method = NULL},
};

static bool concurrent;

static int start(void **state)
{
    const struct df_actor tester = {.name = {"tester", 6}, .ip = {"192.0.2.1", 9}};
    struct df_secret_hash hash = {0};

    (void)state;
    df_fake_clock_init(&clock_, 1700000000000, 42);
    testdb_init(&test, dialect);
    db = testdb_open(&test);
    assert_ok(df_schema_apply(db, NULL, &err), &err);
    client = (struct df_client){.id = df_uuid_v7(&clock_.base), .scopes = DF_SCOPES_ALL};
    (void)snprintf(client.identifier, sizeof client.identifier, "a");
    (void)snprintf(client.name, sizeof client.name, "a");
    assert_ok(df_client_insert(db, &client, &hash, &tester, 1700000000000, &err), &err);
    /* With three connections the store has one writer. */
    struct df_store_options store_opt = {.settings.url = test.url, .settings.pool_size = 3};
    assert_ok(df_store_open(&store_opt, &store, &err), &err);
    assert_ok(df_storage_new(&(struct df_storage_options){.data_dir = test.dir}, &storage, &err),
              &err);
    assert_ok(df_outbound_open(&outbound, &(struct df_http_client_options){0},
                               &(struct df_breaker_settings){.window = 10,
                                                             .min_calls = 5,
                                                             .failure_rate = 50,
                                                             .open_ms = 1000,
                                                             .half_open_calls = 1},
                               &clock_.base, &err),
              &err);
    instance = df_instance_hold(test.dir, df_clock_real());
    assert_ok(df_locks_open(&(struct df_locks_options){.settings.lease_ms = 30000,
                                                       .store = store,
                                                       .clock = &clock_.base,
                                                       .instance = instance,
                                                       .acquires = true},
                            &locks, &err),
              &err);
    imports = df_imports_new(&(struct df_imports_options){
        .store = store,
        .storage = storage,
        .outbound = &outbound,
        .clock = &clock_.base,
        .data_dir = test.dir,
        .instance = instance,
        .locks = locks,
        .give_up_ms = INT64_C(72) * 3600 * 1000,
        .settings = {.url = omniflow_url,
                     .mode = concurrent ? DF_IMPORTS_CONCURRENT : DF_IMPORTS_EXCLUSIVE,
                     .workers = 3,
                     .api_key_header = "X-Api-Key",
                     .batch_size = 10,
                     .max_parallel_chunks = 3,
                     .max_retries = 3,
                     .retry_delays_ms = {.items = {0}, .count = 1},
                     .timeout_ms = 60000,
                     .ack_timeout_ms = 1000,
                     .lock_timeout_ms = LOCK_TIMEOUT_MS,
                     .poll_ms = 10},
    });
    df_imports_start(imports);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    df_imports_stop(imports, 10000);
    df_outbound_stop(&outbound);
    df_imports_end(imports);
    df_locks_free(locks);
    df_store_close(store);
    df_imports_free(imports);
    df_instance_drop(instance);
    df_outbound_close(&outbound);
    df_storage_free(storage);
    df_db_close(db);
    testdb_release(&test);
    return 0;
}

static void time_text(char out[DF_TIME_LEN + 1])
{
    df_time_format(df_wall_ms(&clock_.base), out);
    if (dialect == DF_SQLSERVER)
        out[DF_TIME_LEN - 1] = '\0'; /* DATETIME2 knows no zone */
}

static struct df_uuid add_batch(enum df_batch_status status, const char *host)
{
    struct df_uuid id = df_uuid_v7(&clock_.base);
    char now[DF_TIME_LEN + 1];
    char sql[1024];

    time_text(now);
    (void)snprintf(sql, sizeof sql,
                   "INSERT INTO ImportBatch (Id, ClientId, Status, FileName, FileType, "
                   "FileSizeBytes, CreatedAt, LockedAt, ProcessingHost) VALUES ('%s', '%s', %d, "
                   "'x.json', 0, 2, '%s', '%s', '%s');",
                   id.text, client.id.text, status, now, now, host);
    testdb_script(db, sql);
    return id;
}

/* Its owner, who is alive, has renewed its lease. */
static void renew(const struct df_uuid *id)
{
    char now[DF_TIME_LEN + 1];
    char sql[256];

    time_text(now);
    (void)snprintf(sql, sizeof sql, "UPDATE ImportBatch SET LockedAt = '%s' WHERE Id = '%s';", now,
                   id->text);
    testdb_script(db, sql);
}

static void set_status(const struct df_uuid *id, enum df_batch_status status)
{
    char sql[256];

    (void)snprintf(sql, sizeof sql, "UPDATE ImportBatch SET Status = %d WHERE Id = '%s';", status,
                   id->text);
    testdb_script(db, sql);
}

TESTDB_QUERY(status_of, 1, "SELECT Status FROM ImportBatch WHERE Id = ?1",
             "SELECT Status FROM ImportBatch WHERE Id = $1",
             "SELECT Status FROM ImportBatch WHERE Id = ?");

static int64_t status(const struct df_uuid *id)
{
    int64_t found = -1;
    assert_ok(df_db_query_int(db, &status_of, DF_PARAMS(df_uuid(df_uuid_str(id))), &found, &err),
              &err);
    return found;
}

static void expect_soon(const struct df_uuid *id, enum df_batch_status want)
{
    for (int i = 0; i < 6000 && status(id) != want && !df_batch_is_over(status(id)); i++) {
        df_imports_wake(imports); /* its clock stands still */
        usleep(10000);
    }
    assert_int_equal(status(id), want);
}

static uint64_t looks(void)
{
    df_lock(&imports->lock);
    uint64_t n = imports->looks;
    df_unlock(&imports->lock);
    return n;
}

/* Two more, and what the first found was tried before the second. */
static void let_it_look(void)
{
    uint64_t before = looks();

    for (int i = 0; i < 6000 && looks() < before + 2; i++) {
        df_imports_wake(imports);
        usleep(10000);
    }
    assert_true(looks() >= before + 2);
}

static void a_file_that_nobody_has_fails_its_batch_after_the_timeout(void **state)
{
    (void)state;
    struct df_uuid id = add_batch(DF_BATCH_PENDING, "");
    df_imports_wake(imports);
    let_it_look();
    assert_int_equal(status(&id), DF_BATCH_PENDING);
    df_fake_clock_advance_ms(&clock_, LOCK_TIMEOUT_MS - 1000);
    let_it_look();
    assert_int_equal(status(&id), DF_BATCH_PENDING);
    df_fake_clock_advance_ms(&clock_, 2000);
    expect_soon(&id, DF_BATCH_FAILED);
}

static void time_in_a_queue_does_not_count(void **state)
{
    (void)state;
    struct df_uuid busy = add_batch(DF_BATCH_PROCESSING, OTHER_HOST);
    struct df_uuid id = add_batch(DF_BATCH_PENDING, "");
    for (int i = 0; i < 3; i++) {
        df_fake_clock_advance_ms(&clock_, LOCK_TIMEOUT_MS - 1000);
        renew(&busy);
        let_it_look();
    }
    assert_int_equal(status(&id), DF_BATCH_PENDING);
    set_status(&busy, DF_BATCH_COMPLETED);
    let_it_look();
    assert_int_equal(status(&id), DF_BATCH_PENDING);
    df_fake_clock_advance_ms(&clock_, LOCK_TIMEOUT_MS + 1000);
    expect_soon(&id, DF_BATCH_FAILED);
}

/* The same of an owner that holds the lock of the installation, in another process. */
static void time_behind_the_lock_of_another_does_not_count(void **state)
{
    (void)state;
    struct df_uuid busy = add_batch(DF_BATCH_PROCESSING, OTHER_HOST);
    testdb_script(db, "UPDATE ImportBatch SET FencingToken = 5, LockToken = 5;"
                      "INSERT INTO NamedLocks (Name, Owner, LeaseMs, ExpiresAt) VALUES"
                      " ('exclusive', '6f1c0a7e-0000-4000-8000-00000000000a/0', 30000,"
                      " '2999-01-01');");
    struct df_uuid id = add_batch(DF_BATCH_PENDING, "");
    for (int i = 0; i < 3; i++) {
        df_fake_clock_advance_ms(&clock_, LOCK_TIMEOUT_MS - 1000);
        testdb_script(db, "UPDATE NamedLocks SET Renewals = Renewals + 1;");
        renew(&busy);
        let_it_look();
    }
    assert_int_equal(status(&busy), DF_BATCH_PROCESSING);
    set_status(&busy, DF_BATCH_COMPLETED);
    testdb_script(db, "DELETE FROM NamedLocks;");
    let_it_look();
    assert_int_equal(status(&id), DF_BATCH_PENDING);
    df_fake_clock_advance_ms(&clock_, LOCK_TIMEOUT_MS + 1000);
    expect_soon(&id, DF_BATCH_FAILED);
}

static void an_owner_that_does_not_renew_is_followed_after_the_timeout(void **state)
{
    (void)state;
    struct df_uuid id = add_batch(DF_BATCH_PROCESSING, OTHER_HOST);
    let_it_look();
    df_fake_clock_advance_ms(&clock_, LOCK_TIMEOUT_MS - 1000);
    let_it_look();
    assert_int_equal(status(&id), DF_BATCH_PROCESSING);
    df_fake_clock_advance_ms(&clock_, 2000); /* it is nobody's now, but its file is not here */
    let_it_look();
    assert_int_equal(status(&id), DF_BATCH_PROCESSING);
    df_fake_clock_advance_ms(&clock_, LOCK_TIMEOUT_MS + 1000);
    expect_soon(&id, DF_BATCH_FAILED);
}

TESTDB_QUERY(forget_tokens, 0, "UPDATE BatchLocks SET FencingToken = 0",
             "UPDATE BatchLocks SET FencingToken = 0", "UPDATE BatchLocks SET FencingToken = 0");

static int64_t next_token(void)
{
    int64_t token = 0;
    struct df_value now = df_int(df_wall_ms(&clock_.base));

    assert_ok(df_db_query_int(db, DF_Q(claim_begin, .now = now), &token, &err), &err);
    return token;
}

/* As after a failover to a standby that lacks the last claims. */
static void a_token_is_not_given_twice_though_the_database_forgets_it(void **state)
{
    (void)state;
    int64_t given = next_token();
    assert_true(given >= df_wall_ms(&clock_.base));
    assert_true(next_token() > given);
    df_fake_clock_advance_ms(&clock_, 60000);
    assert_ok(df_db_exec(db, &forget_tokens, DF_NO_PARAMS, NULL, &err), &err);
    assert_true(next_token() > given + 1);
}

static void refuse_ack(struct import_batch *b, int64_t chunk, struct df_str ack)
{
    (void)b, (void)chunk, (void)ack;
    fail_msg("an ack of a chunk that nobody has");
}

/* After a takeover: the batch is in work, and its first chunk is not cut yet. */
static void an_ack_that_comes_when_no_chunk_is_in_hand_is_no_failure(void **state)
{
    (void)state;
    struct df_imports owner = {.opt = {.store = store}};
    struct import_batch b = {.imports = &owner, .id = df_uuid_v7(&clock_.base)};
    assert_ok(import_read_acks(&b, refuse_ack, &err), &err);
}

static int start_beside_omniflow(void **state)
{
    const struct df_route_table tables[] = {{.routes = chunk_routes}, {.routes = NULL}};
    const struct df_http_options opt = {.settings.listen = "127.0.0.1:0",
                                        .settings.threads = 4,
                                        .settings.max_body_bytes = 1 << 20,
                                        .tables = tables};

    assert_ok(df_http_start(&opt, &omniflow, &err), &err);
    (void)snprintf(omniflow_url, sizeof omniflow_url, "http://%s", df_http_address(omniflow));
    concurrent = holding = true;
    keeping = false;
    came = kept_count = 0;
    return start(state);
}

static int stop_beside_omniflow(void **state)
{
    holding = concurrent = false;
    (void)stop(state);
    df_http_stop(omniflow);
    (void)snprintf(omniflow_url, sizeof omniflow_url, "http://127.0.0.1:9");
    return 0;
}

static void add_file(const struct df_uuid *id, const char *body)
{
    char path[PATH_MAX_BYTES];

    (void)snprintf(path, sizeof path, "%s/imports/%s", test.dir, id->text);
    assert_int_equal(mkdir(path, 0700), 0);
    (void)snprintf(path, sizeof path, "%s/imports/%s/original", test.dir, id->text);
    assert_int_equal(mkdir(path, 0700), 0);
    (void)snprintf(path, sizeof path, "%s/imports/%s/original/x.json", test.dir, id->text);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(body, f) >= 0 && fclose(f) == 0);
}

/* The wall clock alone, by more than the lock's time: the batch is still this process's. */
static void a_clock_that_is_set_gives_no_batch_away(void **state)
{
    (void)state;
    struct df_uuid id = df_uuid_v7(&clock_.base);
    char sql[512];
    char now[DF_TIME_LEN + 1];

    add_file(&id, "[{\"PhoneNumber\": \"+5551999000001\"}]");
    time_text(now);
    (void)snprintf(sql, sizeof sql,
                   "INSERT INTO ImportBatch (Id, ClientId, Status, FileName, FileType,"
                   " FileSizeBytes, CreatedAt) VALUES ('%s', '%s', %d, 'x.json', 0, 36, '%s');",
                   id.text, client.id.text, DF_BATCH_PENDING, now);
    testdb_script(db, sql);
    df_imports_wake(imports);
    for (int i = 0; i < 6000 && came < 1; i++)
        usleep(10000);
    assert_int_equal(came, 1);
    clock_.wall += 3 * LOCK_TIMEOUT_MS;
    df_imports_maintain(imports);
    /* There is something to claim, so that claims are made: a batch whose file is not here. */
    (void)add_batch(DF_BATCH_PENDING, "");
    df_imports_wake(imports);
    let_it_look();
    assert_int_equal(came, 1);
    holding = false;
    expect_soon(&id, DF_BATCH_COMPLETED);
    assert_int_equal(came, 1);
}

/* A batch that an owner left, with this file of so many records, each of which is a chunk. */
static struct df_uuid add_left_batch(const char *file, int records, int processed)
{
    struct df_uuid id = df_uuid_v7(&clock_.base);
    char now[DF_TIME_LEN + 1];
    char sql[1024];

    add_file(&id, file);
    time_text(now);
    (void)snprintf(sql, sizeof sql,
                   "INSERT INTO ImportBatch (Id, ClientId, Status, FileName, FileType,"
                   " FileSizeBytes, CreatedAt, BatchSize, CutRules, TotalRecords,"
                   " ProcessedRecords) VALUES ('%s', '%s', %d, 'x.json', 0, %zu, '%s', 1, %d, %d,"
                   " %d);",
                   id.text, client.id.text, DF_BATCH_PROCESSING, strlen(file), now,
                   IMPORT_RULES_RUNS, records, processed);
    testdb_script(db, sql);
    return id;
}

static void add_settled_chunk(const struct df_uuid *id, int chunk)
{
    char sql[512];

    (void)snprintf(sql, sizeof sql,
                   "INSERT INTO ImportChunk (BatchId, ChunkId, RecordOffset, RecordCount,"
                   " ContentHash, Status) VALUES ('%s', %d, %d, 1, '%064d', %d);",
                   id->text, chunk, chunk, 0, DF_CHUNK_IMPORTED);
    testdb_script(db, sql);
}

TESTDB_QUERY(settled_chunks, 0, "SELECT COUNT(*) FROM ImportChunk WHERE Status >= 3",
             "SELECT COUNT(*) FROM ImportChunk WHERE Status >= 3",
             "SELECT COUNT(*) FROM ImportChunk WHERE Status >= 3");
TESTDB_QUERY(processed, 0, "SELECT ProcessedRecords FROM ImportBatch",
             "SELECT ProcessedRecords FROM ImportBatch",
             "SELECT ProcessedRecords FROM ImportBatch");

/* The owner died with a chunk that had nothing to send, and with chunks that the breaker held back;
 * later ones were settled. */
static void chunks_without_a_row_are_not_taken_for_settled(void **state)
{
    (void)state;
    static const char file[] =
        "[{\"PhoneNumber\": \"+5551999000001\"}, {}, {\"PhoneNumber\": \"+5551999000003\"},"
        " {\"PhoneNumber\": \"+5551999000004\"}, {\"PhoneNumber\": \"+5551999000005\"},"
        " {\"PhoneNumber\": \"+5551999000006\"}, {\"PhoneNumber\": \"+5551999000007\"}]";

    holding = false;
    /* At once: the worker's first look may come late. */
    assert_ok(df_db_begin(db, true, &err), &err);
    struct df_uuid id = add_left_batch(file, 7, 2);
    add_settled_chunk(&id, 3);
    add_settled_chunk(&id, 6);
    assert_ok(df_db_commit(db, &err), &err);
    expect_soon(&id, DF_BATCH_COMPLETED);
    assert_int_equal(came, 4); /* 1, 4, 5 and 7 */
    assert_int_equal(testdb_int(db, &settled_chunks), 7);
    assert_int_equal(testdb_int(db, &processed), 7);
}

/* --- while chunks are settled ----------------------------------------------------------------- */

static sem_t gate_entered, gate_opened, gate_ended;

static enum df_code gate_run(struct df_db *d, struct df_job *job, struct df_err *e)
{
    (void)d, (void)job, (void)e;
    sem_post(&gate_entered);
    while (sem_wait(&gate_opened) != 0) {
    }
    return DF_OK;
}

static void gate_done(struct df_job *job, enum df_code code, const struct df_err *e)
{
    (void)job, (void)code, (void)e;
    sem_post(&gate_ended);
}

static void expect_calls(size_t count)
{
    for (int i = 0; i < 6000 && came < count; i++)
        usleep(10000);
    assert_int_equal(came, count);
}

static void answer(size_t nth, unsigned http_status, struct df_str body)
{
    df_req_answer_static(kept[nth], http_status, "application/json", body);
    df_req_resume(kept[nth]);
}

/* The worker has taken so many answers that are no failure. */
static bool has_taken(int64_t count)
{
    for (int i = 0; i < 1500 && import_peer_now(imports).arrived < count; i++)
        usleep(10000);
    return import_peer_now(imports).arrived == count;
}

static bool has_taken_a_failure(void)
{
    for (int i = 0; i < 1500 && !import_peer_now(imports).error[0]; i++)
        usleep(10000);
    return import_peer_now(imports).error[0] != '\0';
}

/*
 * Three chunks are on their way, and the writer is held up. The first answer makes the worker
 * settle; the second wants a commit that writes a chunk's row. If the worker began that commit
 * beside the settlement, it would wait for it, and not take the third answer.
 */
static struct df_uuid settle_beside(unsigned http_status, struct df_str body)
{
    static const char file[] =
        "[{\"PhoneNumber\": \"+5551999000001\"}, {\"PhoneNumber\": \"+5551999000002\"},"
        " {\"PhoneNumber\": \"+5551999000003\"}]";
    static struct df_job gate = {.run = gate_run, .done = gate_done};
    bool fails = http_status >= 500;

    keeping = true;
    holding = false;
    sem_init(&gate_entered, 0, 0);
    sem_init(&gate_opened, 0, 0);
    sem_init(&gate_ended, 0, 0);
    struct df_uuid id = add_left_batch(file, 3, 0);
    df_imports_wake(imports);
    expect_calls(3);
    assert_true(df_store_write(store, &gate));
    while (sem_wait(&gate_entered) != 0) {
    }
    answer(0, 200, DF_STR("{\"status\":\"Imported\"}"));
    bool first = has_taken(1);
    answer(1, http_status, body);
    bool second = fails ? has_taken_a_failure() : has_taken(2);
    answer(2, 200, DF_STR("{\"status\":\"Imported\"}"));
    bool third = has_taken(fails ? 2 : 3);
    sem_post(&gate_opened);
    while (sem_wait(&gate_ended) != 0) {
    }
    assert_true(first && second);
    assert_true(third);
    return id;
}

TESTDB_QUERY(awaiting_chunks, 0, "SELECT COUNT(*) FROM ImportChunk WHERE Status = 2",
             "SELECT COUNT(*) FROM ImportChunk WHERE Status = 2",
             "SELECT COUNT(*) FROM ImportChunk WHERE Status = 2");

static void a_promise_is_stored_after_the_settlement_under_way(void **state)
{
    (void)state;
    struct df_uuid id = settle_beside(202, DF_STR("{\"ackId\":\"a\"}"));

    for (int i = 0; i < 6000 && testdb_int(db, &awaiting_chunks) == 0; i++)
        usleep(10000);
    assert_int_equal(testdb_int(db, &awaiting_chunks), 1);
    testdb_script(db, "UPDATE ImportChunk SET AckJson = '{\"status\":\"Imported\"}'"
                      " WHERE Status = 2 AND AckId = 'a';");
    df_fake_clock_advance_ms(&clock_, IMPORT_ACK_POLL_MS);
    expect_soon(&id, DF_BATCH_COMPLETED);
    assert_int_equal(came, 3);
    assert_int_equal(testdb_int(db, &settled_chunks), 3);
}

static void a_chunk_is_sent_again_after_the_settlement_under_way(void **state)
{
    (void)state;
    struct df_uuid id = settle_beside(503, DF_STR("{}"));

    expect_calls(4);
    answer(3, 200, DF_STR("{\"status\":\"Imported\"}"));
    expect_soon(&id, DF_BATCH_COMPLETED);
    assert_int_equal(came, 4);
    assert_int_equal(testdb_int(db, &settled_chunks), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_file_that_nobody_has_fails_its_batch_after_the_timeout,
                                        start, stop),
        cmocka_unit_test_setup_teardown(time_in_a_queue_does_not_count, start, stop),
        cmocka_unit_test_setup_teardown(a_token_is_not_given_twice_though_the_database_forgets_it,
                                        start, stop),
        cmocka_unit_test_setup_teardown(time_behind_the_lock_of_another_does_not_count, start,
                                        stop),
        cmocka_unit_test_setup_teardown(a_clock_that_is_set_gives_no_batch_away,
                                        start_beside_omniflow, stop_beside_omniflow),
        cmocka_unit_test_setup_teardown(chunks_without_a_row_are_not_taken_for_settled,
                                        start_beside_omniflow, stop_beside_omniflow),
        cmocka_unit_test_setup_teardown(a_promise_is_stored_after_the_settlement_under_way,
                                        start_beside_omniflow, stop_beside_omniflow),
        cmocka_unit_test_setup_teardown(a_chunk_is_sent_again_after_the_settlement_under_way,
                                        start_beside_omniflow, stop_beside_omniflow),
        cmocka_unit_test_setup_teardown(an_owner_that_does_not_renew_is_followed_after_the_timeout,
                                        start, stop),
        cmocka_unit_test_setup_teardown(an_ack_that_comes_when_no_chunk_is_in_hand_is_no_failure,
                                        start, stop),
    };
    int failed = 0;
    for (int d = 0; d < DF_DIALECT_COUNT; d++) {
        dialect = (enum df_dialect)d;
        if (testdb_available(dialect))
            failed += cmocka_run_group_tests_name(df_dialect_name(dialect), tests, NULL, NULL);
    }
    testdb_print_skipped();
    return failed;
}

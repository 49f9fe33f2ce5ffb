/*
 * What the loop of the tickets takes up after a process that did not end as it should, and what it
 * does when others change tickets and shards meanwhile, on every database there is. The shards'
 * time is a fake clock's: nothing happens on their thread unless a test moves it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/metrics.h"
#include "fake_clock.h"
#include "interface/processing_private.h"
#include "store/schema.h"
#include "testdb.h"

#include <stdio.h>

#define WHY DF_STR("it is not read")

static enum df_dialect dialect;
static struct testdb t;
static struct df_fake_clock clocks;
static struct df_store *store;
static struct df_shards *shards;
static struct df_interface *interface;
static struct ticket_batch *b;
static struct df_err err;

static void script(const char *sql)
{
    struct df_db *db = testdb_open(&t);
    testdb_script(db, sql);
    df_db_close(db);
}

static int64_t count_of(const char *sql)
{
    const struct df_query q = {.name = "count", .text = {{sql}, {sql}, {sql}}};
    struct df_db *db = testdb_open(&t);
    int64_t n = testdb_int(db, &q);
    df_db_close(db);
    return n;
}

/* A ticket in each shard. */
static void insert_tickets(void)
{
    char sql[700];

    for (int n = 0; n < DF_SHARDS; n++) {
        (void)snprintf(
            sql, sizeof(sql),
            "INSERT INTO TB_TICKET_INTERFACE (BusinessEntity, BusinessDocId, CompanyCode,"
            " BranchCode, DestinationCode, PhaseCode, ShipmentEvent, FunctionalAckIsRequired,"
            " TargetApplicationCode, RawPayloadJson, Status, NextAttemptAt, ProcessingSince)"
            " VALUES ('TCK', 'D%d', '1', 'B', 'D', 15, 'RCD', %s, 'ASB', '{}', 'Processing',"
            " '2026-01-01T00:00:00Z', '2026-01-01T00:00:00Z')",
            n, dialect == DF_POSTGRES ? "false" : "0");
        script(sql);
    }
}

static void on_change(void *arg, uint32_t taken, uint32_t unclean)
{
    (void)taken;
    ticket_care_lost(arg, unclean);
}

static struct df_shards *new_shards(void)
{
    return df_shards_new(&(struct df_shards_options){
        .store = store, .clock = &clocks.base, .version = "1.0", .lease_ms = 600000});
}

/* All shards are taken from a process that is gone. */
static int setup(void **state)
{
    size_t applied = 0;
    char sql[200];

    (void)state;
    err = DF_ERR_INIT;
    testdb_init(&t, dialect);
    df_fake_clock_init(&clocks, INT64_C(1790000000000), 7);
    struct df_db *db = testdb_open(&t);
    assert_ok(df_schema_apply(db, &applied, &err), &err);
    df_db_close(db);
    for (int n = 0; n < DF_SHARDS; n++) {
        (void)snprintf(sql, sizeof(sql),
                       "INSERT INTO WorkShards (Channel, Shard, OwnerId, Epoch)"
                       " VALUES ('tickets', %d, '01900000-0000-7000-8000-000000000001', 3)",
                       n);
        script(sql);
    }
    insert_tickets();
    struct df_store_options opt = {.settings.url = t.url, .clock = df_clock_real()};
    assert_ok(df_store_open(&opt, &store, &err), &err);
    interface = df_interface_new(&(struct df_interface_options){
        .store = store,
        .clock = df_clock_real(),
        .delivery_settings = {.retry = {.max_attempts = 5}},
    });
    shards = new_shards();
    interface->shards = df_shards_add(shards, TICKET_CHANNEL, on_change, interface);
    b = df_calloc(1, sizeof(*b));
    b->i = interface;
    df_arena_init(&b->params);
    df_shards_start(shards);
    b->shards = df_shards_mine(interface->shards, b->epochs);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    df_shards_stop(shards);
    df_shards_end(shards);
    df_shards_free(shards);
    df_arena_release(&b->params);
    free(b);
    df_interface_free(interface);
    df_store_close(store);
    testdb_release(&t);
    return 0;
}

static double counted(const char *outcome)
{
    struct df_buf text;
    char name[100];

    (void)snprintf(name, sizeof(name), "dataflow_tickets_processed_total{outcome=\"%s\"} ",
                   outcome);
    df_buf_init(&text, 1 << 20);
    df_metrics_write(&text);
    const char *at = strstr(df_buf_str(&text).ptr, name);
    double n = at ? strtod(at + strlen(name), NULL) : 0;
    df_buf_release(&text);
    return n;
}

/* --- shards ----------------------------------------------------------------------------------- */

static void ignore_change(void *arg, uint32_t taken, uint32_t unclean)
{
    (void)arg;
    (void)taken;
    (void)unclean;
}

static int count_mine(struct df_shard_group *g)
{
    int64_t epochs[DF_SHARDS];
    return __builtin_popcount(df_shards_mine(g, epochs));
}

/* Lets the shards' threads run until it is so. */
#define UNTIL(what)                                                                                \
    do {                                                                                           \
        int until_left = 20000;                                                                    \
        while (!(what) && until_left-- > 0) {                                                      \
            df_fake_clock_advance_ms(&clocks, 100);                                                \
            df_sleep_ms(1);                                                                        \
        }                                                                                          \
        assert_true(what);                                                                         \
    } while (0)

#define PROCESSING "SELECT COUNT(*) FROM TB_TICKET_INTERFACE WHERE Status = 'Processing'"

/* Another process comes before the loop has looked at what the lost one left. */
static void what_is_to_be_handed_over_is_reset_before(void **state)
{
    struct df_shards *other = new_shards();
    struct df_shard_group *theirs = df_shards_add(other, TICKET_CHANNEL, ignore_change, NULL);

    (void)state;
    df_shards_start(other);
    UNTIL(count_mine(interface->shards) == DF_SHARDS / 2);
    b->shards = df_shards_mine(interface->shards, b->epochs);
    assert_int_equal(count_of(PROCESSING), DF_SHARDS);
    assert_ok(ticket_care_begin(b, &err), &err);
    assert_int_equal(count_of(PROCESSING), 0);
    assert_int_equal(b->care.shards, DF_SHARDS_ALL);
    assert_int_equal(count_mine(theirs), 0);

    assert_ok(ticket_care_end(b, &err), &err);
    UNTIL(count_mine(theirs) == DF_SHARDS / 2);
    df_shards_stop(other);
    df_shards_end(other);
    df_shards_free(other);
}

/* As when they are lost and taken once more: before the loop has heard of them, and after. */
static void what_is_told_of_twice_is_entered_once(void **state)
{
    (void)state;
    ticket_care_lost(interface, 0xff);
    assert_ok(ticket_care_begin(b, &err), &err);
    ticket_care_lost(interface, 0xff00);
    assert_ok(ticket_care_begin(b, &err), &err);
    assert_int_equal(b->care.held, DF_SHARDS_ALL);
    assert_ok(ticket_care_end(b, &err), &err);
    assert_int_equal(b->care.held, 0);

    struct df_shards *other = new_shards();
    struct df_shard_group *theirs = df_shards_add(other, TICKET_CHANNEL, ignore_change, NULL);
    df_shards_start(other);
    UNTIL(count_mine(theirs) == DF_SHARDS / 2); /* nothing is entered any more */
    df_shards_stop(other);
    df_shards_end(other);
    df_shards_free(other);
}

static void add_due(const char *doc)
{
    char sql[100];

    (void)snprintf(sql, sizeof(sql),
                   "SELECT Id FROM TB_TICKET_INTERFACE WHERE BusinessDocId = '%s'", doc);
    b->due[b->due_count++] = (struct ticket_cursor){.id = count_of(sql), .version = 1};
}

/* It is no failure: nothing else in the writer's group has to run again. */
static void who_lost_a_shard_marks_nothing_and_goes_on_with_the_others(void **state)
{
    bool none = false;
    char sql[100];

    (void)state;
    assert_ok(ticket_care_begin(b, &err), &err);
    add_due("D1");
    add_due("D2");
    unsigned lost = ticket_shard(b->due[0].id);
    (void)snprintf(sql, sizeof(sql), "UPDATE WorkShards SET Epoch = Epoch + 1 WHERE Shard = %u",
                   lost);
    script(sql);
    assert_ok(ticket_care_mark(b, &none, &err), &err);
    assert_true(none);
    assert_int_equal(count_of("SELECT COUNT(*) FROM WorkMarks"), 0);
    assert_int_equal(b->due_count, 0);
    assert_int_equal(b->care.shards, DF_SHARDS_ALL & ~(UINT32_C(1) << lost));

    b->shards = b->care.shards;
    add_due("D2");
    assert_ok(ticket_care_mark(b, &none, &err), &err);
    assert_false(none);
    assert_int_equal(count_of("SELECT COUNT(*) FROM WorkMarks"), 1);
}

/* --- tickets that are not read ---------------------------------------------------------------- */

static void only_the_payload_that_was_found_is_refused(void **state)
{
    double before = counted("rejected");

    (void)state;
    add_due("D7");
    script("UPDATE TB_TICKET_INTERFACE SET PayloadVersion = 2 WHERE BusinessDocId = 'D7'");
    assert_ok(ticket_refuse_unread(b, WHY, false, &err), &err);
    assert_int_equal(count_of("SELECT COUNT(*) FROM TB_TICKET_INTERFACE WHERE Status = 'Error'"),
                     0);
    assert_true(counted("rejected") == before);

    b->due[0].version = 2;
    assert_ok(ticket_refuse_unread(b, WHY, false, &err), &err);
    assert_int_equal(count_of("SELECT COUNT(*) FROM TB_TICKET_INTERFACE WHERE Status = 'Error'"
                              " AND BusinessDocId = 'D7' AND NextAttemptAt IS NULL"),
                     1);
    assert_true(counted("rejected") == before + 1);
}

int main(void)
{
#define ON_EACH(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        ON_EACH(what_is_to_be_handed_over_is_reset_before),
        ON_EACH(what_is_told_of_twice_is_entered_once),
        ON_EACH(who_lost_a_shard_marks_nothing_and_goes_on_with_the_others),
        ON_EACH(only_the_payload_that_was_found_is_refused),
    };
    return testdb_run_tests("care", &dialect, tests, sizeof(tests) / sizeof(tests[0]));
}

/*
 * Owning shards, on every back end there is. Each process of a test has a store of its own; its
 * time is a fake clock's, while leases in the database go by the database's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/instance.h"
#include "fake_clock.h"
#include "shards/shards.h"
#include "store/schema.h"
#include "testdb.h"

#include <stdatomic.h>

#define LEASE_MS 600000 /* no test waits for it */

static enum df_dialect dialect;
static struct testdb t;
static struct df_err err;
static struct df_fake_clock clocks;

struct process {
    struct df_store *store;
    struct df_shards *shards;
    struct df_shard_group *acks, *tickets;
    struct df_instance *instance;
    _Atomic uint32_t taken, unclean;
    _Atomic uint32_t early, late; /* unclean ones whose rows could be taken when it was told of
                                     them, and those taken whose rows could not */
    _Atomic int told;
};

static int setup(void **state)
{
    size_t applied;
    (void)state;
    testdb_init(&t, dialect);
    err = DF_ERR_INIT;
    df_fake_clock_init(&clocks, INT64_C(1790000000000), 7);
    struct df_db *db = testdb_open(&t);
    assert_ok(df_schema_apply(db, &applied, &err), &err);
    df_db_close(db);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    testdb_release(&t);
    return 0;
}

static void on_change(void *arg, uint32_t taken, uint32_t unclean)
{
    struct process *p = arg;
    int64_t epochs[DF_SHARDS];
    uint32_t mine = df_shards_mine(p->acks, epochs);
    p->early |= unclean & mine;
    p->late |= taken & ~mine;
    p->taken |= taken;
    p->unclean |= unclean;
    p->told++;
}

static void ignore_change(void *arg, uint32_t taken, uint32_t unclean)
{
    (void)arg;
    (void)taken;
    (void)unclean;
}

/* Serves the channel acks, tickets, or both. */
static void begin(struct process *p, bool acks, bool tickets)
{
    struct df_store_options so = {.settings.url = t.url, .clock = df_clock_real()};

    *p = (struct process){.instance = p->instance};
    assert_ok(df_store_open(&so, &p->store, &err), &err);
    p->shards = df_shards_new(&(struct df_shards_options){.store = p->store,
                                                          .clock = &clocks.base,
                                                          .instance = p->instance,
                                                          .version = "1.0",
                                                          .lease_ms = LEASE_MS});
    if (acks)
        p->acks = df_shards_add(p->shards, "acks", on_change, p);
    if (tickets)
        p->tickets = df_shards_add(p->shards, "tickets", ignore_change, p);
    df_shards_start(p->shards);
}

static void finish(struct process *p)
{
    df_shards_stop(p->shards);
    df_shards_end(p->shards);
    df_shards_free(p->shards);
    df_store_close(p->store);
    p->shards = NULL;
}

/* As kill -9: what it wrote stays. */
static void kill_process(struct process *p)
{
    df_shards_free(p->shards);
    df_store_close(p->store);
    p->shards = NULL;
}

static uint32_t mine(struct df_shard_group *g)
{
    int64_t epochs[DF_SHARDS];
    return df_shards_mine(g, epochs);
}

static int count(struct df_shard_group *g)
{
    return __builtin_popcount(mine(g));
}

/* For a row of shard 0 that is taken now. */
static int64_t left(struct df_shard_group *g)
{
    int64_t epochs[DF_SHARDS];
    (void)df_shards_mine(g, epochs);
    return df_shards_left_ms(g, 0, epochs[0]);
}

/* Lets the processes' threads run until it is so. */
#define UNTIL(what)                                                                                \
    do {                                                                                           \
        int until_left = 20000;                                                                    \
        while (!(what) && until_left-- > 0) {                                                      \
            df_fake_clock_advance_ms(&clocks, 100);                                                \
            df_sleep_ms(1);                                                                        \
        }                                                                                          \
        assert_true(what);                                                                         \
    } while (0)

static void sql(const char *text)
{
    struct df_db *db = testdb_open(&t);
    testdb_script(db, text);
    df_db_close(db);
}

TESTDB_QUERY(owners, 0, "SELECT COUNT(*) FROM WorkOwners", "SELECT COUNT(*) FROM WorkOwners",
             "SELECT COUNT(*) FROM WorkOwners");
TESTDB_QUERY(owned, 0, "SELECT COUNT(*) FROM WorkShards WHERE OwnerId IS NOT NULL",
             "SELECT COUNT(*) FROM WorkShards WHERE OwnerId IS NOT NULL",
             "SELECT COUNT(*) FROM WorkShards WHERE OwnerId IS NOT NULL");

static int64_t count_rows(const struct df_query *q)
{
    struct df_db *db = testdb_open(&t);
    int64_t n = testdb_int(db, q);
    df_db_close(db);
    return n;
}

/* Locks all shards of the channel in a transaction of its own, as a settlement. */
static uint32_t lock_all(const struct df_shard_group *g, int64_t epochs[DF_SHARDS])
{
    struct df_db *db = testdb_open(&t);
    uint32_t locked = 0;
    assert_ok(df_db_begin(db, true, &err), &err);
    assert_ok(df_shards_lock(db, g, DF_SHARDS_ALL, epochs, &err), &err);
    assert_ok(df_db_commit(db, &err), &err);
    df_db_close(db);
    for (unsigned n = 0; n < DF_SHARDS; n++)
        locked |= epochs[n] >= 0 ? UINT32_C(1) << n : 0;
    return locked;
}

static void one_process_has_all_at_once_and_gives_all_back(void **state)
{
    struct process a = {0};
    int64_t epochs[DF_SHARDS], locked[DF_SHARDS];

    (void)state;
    begin(&a, true, true);
    assert_int_equal(df_shards_mine(a.acks, epochs), DF_SHARDS_ALL);
    assert_int_equal(mine(a.tickets), DF_SHARDS_ALL);
    assert_int_equal(a.taken, DF_SHARDS_ALL);
    assert_int_equal(a.unclean, 0);
    assert_int_equal(lock_all(a.acks, locked), DF_SHARDS_ALL);
    assert_memory_equal(epochs, locked, sizeof(epochs));
    assert_int_equal(left(a.acks), LEASE_MS - LEASE_MS / 4);
    finish(&a);
    assert_int_equal(count_rows(&owners), 0);
    assert_int_equal(count_rows(&owned), 0);

    begin(&a, true, true);
    assert_int_equal(mine(a.acks), DF_SHARDS_ALL);
    assert_int_equal(a.unclean, 0);
    finish(&a);
}

static void a_lock_gives_only_what_was_asked_for(void **state)
{
    struct process a = {0};
    int64_t epochs[DF_SHARDS];

    (void)state;
    begin(&a, true, false);
    struct df_db *db = testdb_open(&t);
    assert_ok(df_db_begin(db, true, &err), &err);
    assert_ok(df_shards_lock(db, a.acks, 0x8001, epochs, &err), &err);
    assert_ok(df_db_commit(db, &err), &err);
    df_db_close(db);
    for (unsigned n = 0; n < DF_SHARDS; n++)
        assert_int_equal(epochs[n] >= 0, n == 0 || n == 15);
    finish(&a);
}

static void a_second_one_gets_half_of_what_it_serves(void **state)
{
    struct process a = {0}, b = {0};

    (void)state;
    begin(&a, true, true);
    begin(&b, true, false);
    UNTIL(count(a.acks) == 8 && count(b.acks) == 8);
    assert_int_equal(mine(a.acks) ^ mine(b.acks), DF_SHARDS_ALL);
    assert_int_equal(b.unclean, 0);
    assert_int_equal(mine(a.tickets), DF_SHARDS_ALL);
    finish(&b);
    UNTIL(mine(a.acks) == DF_SHARDS_ALL);
    assert_int_equal(a.unclean, 0);
    finish(&a);
}

static void three_share_and_one_that_serves_nothing_does_not_count(void **state)
{
    struct process p[4] = {{0}};

    (void)state;
    for (int i = 0; i < 4; i++)
        begin(&p[i], i < 3, false);
    UNTIL(count(p[0].acks) == 6 && count(p[1].acks) == 5 && count(p[2].acks) == 5);
    assert_int_equal(mine(p[0].acks) | mine(p[1].acks) | mine(p[2].acks), DF_SHARDS_ALL);
    finish(&p[0]);
    UNTIL(count(p[1].acks) == 8 && count(p[2].acks) == 8);
    for (int i = 1; i < 4; i++)
        finish(&p[i]);
}

static void a_hand_over_waits_for_rows_in_flight(void **state)
{
    struct process a = {0}, b = {0};
    int64_t epochs[DF_SHARDS];

    (void)state;
    begin(&a, true, false);
    for (unsigned n = 0; n < DF_SHARDS; n++)
        df_shards_enter(a.acks, n);
    begin(&b, true, false);
    UNTIL(count(a.acks) == 8); /* it takes no more rows of the others */
    for (int i = 0; i < 50; i++) {
        df_fake_clock_advance_ms(&clocks, 500);
        df_sleep_ms(1);
    }
    assert_int_equal(mine(b.acks), 0);
    assert_int_equal(lock_all(a.acks, epochs), DF_SHARDS_ALL); /* and settles these */

    uint32_t leaving = DF_SHARDS_ALL & ~mine(a.acks);
    unsigned first = (unsigned)__builtin_ctz(leaving);
    df_shards_leave(a.acks, first);
    UNTIL(mine(b.acks) == UINT32_C(1) << first);
    assert_int_equal(lock_all(a.acks, epochs), DF_SHARDS_ALL & ~(UINT32_C(1) << first));
    for (unsigned n = 0; n < DF_SHARDS; n++) {
        if (n != first)
            df_shards_leave(a.acks, n);
    }
    UNTIL(count(b.acks) == 8);
    assert_int_equal(b.unclean, 0);
    finish(&a);
    finish(&b);
}

static void rows_never_settled_make_an_end_unclean(void **state)
{
    struct process a = {0};

    (void)state;
    begin(&a, true, false);
    df_shards_enter(a.acks, 3);
    finish(&a);
    assert_int_equal(count_rows(&owners), 0);
    begin(&a, true, false);
    assert_int_equal(mine(a.acks), DF_SHARDS_ALL);
    assert_int_equal(a.unclean, 1u << 3);
    finish(&a);
}

static void what_is_known_to_be_gone_is_taken_at_once(void **state)
{
    struct process a = {0}, b = {0};

    (void)state;
    a.instance = df_instance_hold(t.dir, df_clock_real());
    b.instance = df_instance_hold(t.dir, df_clock_real());
    begin(&a, true, true);
    kill_process(&a);
    (void)close(a.instance->fd); /* as the kernel does */
    begin(&b, true, true);
    assert_int_equal(mine(b.acks), DF_SHARDS_ALL);
    assert_int_equal(b.unclean, DF_SHARDS_ALL);
    assert_int_equal(count_rows(&owners), 1);
    finish(&b);
    a.instance->fd = -1;
    df_instance_drop(a.instance);
    df_instance_drop(b.instance);
}

/* By the database's clock; on SQLite by that of the one who waits. */
static void what_may_be_alive_is_taken_after_its_lease(void **state)
{
    struct process a = {0}, b = {0};

    (void)state;
    begin(&a, true, false);
    kill_process(&a);
    begin(&b, true, false);
    for (int i = 0; i < 20; i++) {
        df_fake_clock_advance_ms(&clocks, 1000);
        df_sleep_ms(1);
    }
    assert_int_equal(mine(b.acks), 0);
    if (dialect == DF_SQLITE) {
        for (int i = 0; i < 100; i++) {
            df_fake_clock_advance_ms(&clocks, LEASE_MS / 100);
            df_sleep_ms(1);
        }
    } else {
        sql("UPDATE WorkOwners SET LeaseUntil = '2026-01-01T00:00:00Z' WHERE LeaseUntil < "
            "(SELECT MAX(LeaseUntil) FROM WorkOwners)");
    }
    UNTIL(mine(b.acks) == DF_SHARDS_ALL && b.unclean == DF_SHARDS_ALL);
    assert_int_equal(count_rows(&owners), 1);
    finish(&b);
}

/* A process that was suspended: it takes nothing until it has renewed its lease, and then goes on,
 * since nobody took its shards. */
static void a_late_renewal_revives_the_lease(void **state)
{
    struct process a = {0};
    int64_t before[DF_SHARDS], after[DF_SHARDS];

    (void)state;
    begin(&a, true, false);
    assert_int_equal(df_shards_mine(a.acks, before), DF_SHARDS_ALL);
    int told = a.told;
    struct df_db *db = testdb_open(&t);
    assert_ok(df_db_begin(db, true, &err), &err);
    testdb_script(db, "UPDATE WorkOwners SET Version = '1.1'"); /* renewals wait for this */
    df_fake_clock_advance_ms(&clocks, LEASE_MS - LEASE_MS / 4);
    assert_true(left(a.acks) <= 0);
    assert_int_equal(mine(a.acks), 0);
    assert_ok(df_db_commit(db, &err), &err);
    df_db_close(db);
    UNTIL(df_shards_mine(a.acks, after) == DF_SHARDS_ALL && a.told > told);
    assert_memory_equal(before, after, sizeof(before));
    assert_int_equal(a.unclean, 0);
    finish(&a);
}

/* Another process deleted the row and took a part. The first one's settlements find other epochs,
 * and it registers anew. */
static void who_was_taken_for_lost_settles_nothing(void **state)
{
    struct process a = {0}, b = {0};
    int64_t before[DF_SHARDS], now[DF_SHARDS];

    (void)state;
    begin(&a, true, false);
    assert_int_equal(df_shards_mine(a.acks, before), DF_SHARDS_ALL);
    sql("DELETE FROM WorkOwners");
    begin(&b, true, false);
    assert_int_equal(mine(b.acks), DF_SHARDS_ALL);
    assert_int_equal(b.unclean, DF_SHARDS_ALL);
    assert_int_equal(lock_all(a.acks, now), 0);
    UNTIL(count(a.acks) == 8 && count(b.acks) == 8);
    for (unsigned n = 0; n < DF_SHARDS; n++) /* and sends nothing that it took before */
        assert_int_equal(df_shards_left_ms(a.acks, n, before[n]), 0);
    uint32_t again = lock_all(a.acks, now);
    assert_int_equal(again, mine(a.acks));
    for (unsigned n = 0; n < DF_SHARDS; n++)
        assert_true(now[n] != before[n]);
    finish(&a);
    finish(&b);
}

/* Nobody took anything: it finds its shards again, with other epochs, as what it had lost. */
static void who_lost_its_row_takes_its_shards_anew(void **state)
{
    struct process a = {0};
    int64_t before[DF_SHARDS], now[DF_SHARDS];

    (void)state;
    begin(&a, true, false);
    assert_int_equal(df_shards_mine(a.acks, before), DF_SHARDS_ALL);
    sql("DELETE FROM WorkOwners");
    UNTIL(a.unclean == DF_SHARDS_ALL && df_shards_mine(a.acks, now) == DF_SHARDS_ALL);
    for (unsigned n = 0; n < DF_SHARDS; n++)
        assert_true(now[n] > before[n]);
    finish(&a);
    assert_int_equal(count_rows(&owned), 0);
}

/* Otherwise a row that killed its last sender could be taken before anybody takes care. */
static void unclean_shards_are_told_of_before_rows_are_taken(void **state)
{
    struct process a = {0};

    (void)state;
    begin(&a, true, false);
    df_shards_enter(a.acks, 3);
    finish(&a);
    begin(&a, true, false);
    assert_int_equal(a.unclean, 1u << 3);
    assert_int_equal(a.taken, DF_SHARDS_ALL);
    sql("DELETE FROM WorkOwners");
    UNTIL(a.unclean == DF_SHARDS_ALL && mine(a.acks) == DF_SHARDS_ALL);
    assert_int_equal(a.early, 0);
    assert_int_equal(a.late, 0);
    finish(&a);
}

static void who_yields_a_channel_leaves_it_to_others_for_a_while(void **state)
{
    struct process a = {0}, b = {0};

    (void)state;
    begin(&a, true, true);
    df_shards_yield(a.acks, 2000); /* there are no others yet */
    df_fake_clock_advance_ms(&clocks, 1500);
    df_sleep_ms(20);
    assert_int_equal(mine(a.acks), DF_SHARDS_ALL);

    begin(&b, true, true);
    UNTIL(count(a.acks) == 8 && count(b.acks) == 8);
    df_shards_yield(a.acks, LEASE_MS);
    UNTIL(mine(b.acks) == DF_SHARDS_ALL);
    assert_int_equal(mine(a.acks), 0);
    UNTIL(count(a.tickets) == 8 && count(b.tickets) == 8);
    df_shards_yield(a.acks, 0);
    UNTIL(count(a.acks) == 8 && count(b.acks) == 8);
    finish(&a);
    finish(&b);
}

static void doubted_shards_are_left_alone_until_the_tables_were_read(void **state)
{
    struct process a = {0};
    struct df_db *db = testdb_open(&t);

    (void)state;
    begin(&a, true, false);
    assert_ok(df_db_begin(db, true, &err), &err);
    testdb_script(db, "UPDATE WorkOwners SET Version = '1.1'"); /* renewals wait for this */
    df_fake_clock_advance_ms(&clocks, 1000);
    df_sleep_ms(20);
    df_shards_doubt(a.acks, 0xf0);
    assert_int_equal(mine(a.acks), DF_SHARDS_ALL & ~UINT32_C(0xf0));
    assert_ok(df_db_commit(db, &err), &err);
    df_db_close(db);
    UNTIL(mine(a.acks) == DF_SHARDS_ALL);
    finish(&a);
}

/* --- marks --- */

struct marks {
    int count;
    int64_t taken;
    char last[65];
};

static void see_mark(void *arg, struct df_str id, int64_t taken)
{
    struct marks *m = arg;
    m->count++;
    m->taken += taken;
    (void)snprintf(m->last, sizeof(m->last), DF_STR_FMT, DF_STR_ARG(id));
}

static struct marks read_marks(struct df_db *db, const char *channel, size_t limit)
{
    struct marks m = {0};
    assert_ok(df_marks_read(db, channel, limit, see_mark, &m, &err), &err);
    return m;
}

static void marks_count_takings_until_they_are_cleared(void **state)
{
    const struct df_str ids[] = {DF_STR("17"), DF_STR("0190a0b0-1111-7222-8333-444455556660")};
    struct df_db *db = testdb_open(&t);

    (void)state;
    assert_ok(df_db_begin(db, true, &err), &err);
    assert_ok(df_marks_add(db, "acks", ids, 2, 1000, &err), &err);
    assert_ok(df_marks_add(db, "acks", ids, 1, 2000, &err), &err);
    assert_ok(df_marks_add(db, "tickets", ids, 0, 2000, &err), &err);
    assert_ok(df_db_commit(db, &err), &err);
    struct marks m = read_marks(db, "acks", 10);
    assert_int_equal(m.count, 2);
    assert_int_equal(m.taken, 3);
    assert_string_equal(m.last, "17"); /* the last that was marked */
    assert_int_equal(read_marks(db, "acks", 1).count, 1);
    assert_int_equal(read_marks(db, "tickets", 10).count, 0);

    assert_ok(df_db_begin(db, true, &err), &err);
    assert_ok(df_marks_clear(db, "tickets", ids, 2, &err), &err);
    assert_ok(df_marks_clear(db, "acks", ids, 1, &err), &err);
    assert_ok(df_marks_clear(db, "acks", ids, 0, &err), &err);
    assert_ok(df_db_commit(db, &err), &err);
    m = read_marks(db, "acks", 10);
    assert_int_equal(m.count, 1);
    assert_string_equal(m.last, ids[1].ptr);
    df_db_close(db);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(one_process_has_all_at_once_and_gives_all_back),
        TEST(a_lock_gives_only_what_was_asked_for),
        TEST(a_second_one_gets_half_of_what_it_serves),
        TEST(three_share_and_one_that_serves_nothing_does_not_count),
        TEST(a_hand_over_waits_for_rows_in_flight),
        TEST(rows_never_settled_make_an_end_unclean),
        TEST(what_is_known_to_be_gone_is_taken_at_once),
        TEST(what_may_be_alive_is_taken_after_its_lease),
        TEST(a_late_renewal_revives_the_lease),
        TEST(who_was_taken_for_lost_settles_nothing),
        TEST(who_lost_its_row_takes_its_shards_anew),
        TEST(unclean_shards_are_told_of_before_rows_are_taken),
        TEST(who_yields_a_channel_leaves_it_to_others_for_a_while),
        TEST(doubted_shards_are_left_alone_until_the_tables_were_read),
        TEST(marks_count_takings_until_they_are_cleared),
    };
    return testdb_run_tests("shards", &dialect, tests, sizeof(tests) / sizeof(tests[0]));
}

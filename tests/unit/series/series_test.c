/*
 * Figures in the database with an injected clock, on every database there is: processes add up,
 * hours are made of minutes, old rows go, and a year does not let the tables grow.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/loop.h"
#include "base/tally.h"
#include "fake_clock.h"
#include "series/series.h"
#include "store/schema.h"
#include "testdb.h"

#define MINUTE  INT64_C(60000)
#define HOUR    (60 * MINUTE)
#define DAY     (24 * HOUR)
#define START   INT64_C(1699999200000) /* on the hour */
#define CLIENTS 5

static enum df_dialect dialect;
static struct testdb t;
static struct df_db *db;
static struct df_err err;
static struct df_store *store;
static struct df_series *series, *other;
static struct df_fake_clock clock_;

static struct df_series *make(void)
{
    return df_series_new(&(struct df_series_options){
        .store = store,
        .clock = &clock_.base,
        .settings = {.enabled = true, .interval_ms = MINUTE, .max_clients = CLIENTS}});
}

static int setup(void **state)
{
    (void)state;
    testdb_init(&t, dialect);
    db = testdb_open(&t);
    assert_ok(df_schema_apply(db, NULL, &err), &err);
    df_fake_clock_init(&clock_, START, 5);
    assert_ok(df_store_open(&(struct df_store_options){.settings.url = t.url}, &store, &err), &err);
    series = make();
    other = make();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    df_series_free(series);
    df_series_free(other);
    df_tally_stop();
    df_store_close(store);
    df_db_close(db);
    testdb_release(&t);
    return 0;
}

TESTDB_QUERY(points, 1, "SELECT COUNT(*) FROM SeriesPoints WHERE Grain = ?1",
             "SELECT COUNT(*) FROM SeriesPoints WHERE Grain = $1",
             "SELECT COUNT(*) FROM SeriesPoints WHERE Grain = ?");
TESTDB_QUERY(marks, 0, "SELECT COUNT(*) FROM SeriesMarks", "SELECT COUNT(*) FROM SeriesMarks",
             "SELECT COUNT(*) FROM SeriesMarks");
TESTDB_QUERY(accepted, 3,
             "SELECT COALESCE(SUM(Accepted), 0) FROM SeriesPoints"
             " WHERE Grain = ?1 AND ClientId = ?2 AND PointAt = ?3",
             "SELECT CAST(COALESCE(SUM(Accepted), 0) AS bigint) FROM SeriesPoints"
             " WHERE Grain = $1 AND ClientId = $2 AND PointAt = $3",
             "SELECT COALESCE(SUM(Accepted), 0) FROM SeriesPoints"
             " WHERE Grain = ? AND ClientId = ? AND PointAt = ?");
TESTDB_QUERY(waiting_rows, 0,
             "SELECT COUNT(*) FROM SeriesPoints WHERE ClientId = '' AND Waiting = 0",
             "SELECT COUNT(*) FROM SeriesPoints WHERE ClientId = '' AND Waiting = 0",
             "SELECT COUNT(*) FROM SeriesPoints WHERE ClientId = '' AND Waiting = 0");
TESTDB_QUERY(
    add_point, 2,
    "INSERT INTO SeriesPoints (Grain, PointAt, ClientId, Channel) VALUES (?1, ?2, '', 'x')",
    "INSERT INTO SeriesPoints (Grain, PointAt, ClientId, Channel) VALUES ($1, $2, '', 'x')",
    "INSERT INTO SeriesPoints (Grain, PointAt, ClientId, Channel) VALUES (?, ?, '', 'x')");

static int64_t count_of(int grain)
{
    int64_t n = -1;
    assert_ok(df_db_query_int(db, &points, DF_PARAMS(df_int(grain)), &n, &err), &err);
    return n;
}

static int64_t number(const struct df_query *q)
{
    int64_t n = -1;
    assert_ok(df_db_query_int(db, q, DF_NO_PARAMS, &n, &err), &err);
    return n;
}

static int64_t accepted_of(int grain, const char *client, int64_t at_ms)
{
    int64_t n = -1;
    assert_ok(df_db_query_int(db, &accepted,
                              DF_PARAMS(df_int(grain), df_text(df_str_c(client)), df_time(at_ms)),
                              &n, &err),
              &err);
    return n;
}

static void count_for(const char *client, int64_t n)
{
    df_tally(df_str_c(client), DF_STR("tickets"), &(struct df_tallied){.accepted = n});
}

static void write_now(struct df_series *s)
{
    assert_ok(df_series_write(s, df_wall_ms(&clock_.base), &err), &err);
}

/* Turns until the process has nothing to do for now. */
static void keep_up(struct df_series *s)
{
    for (int i = 0; i < 5000; i++) {
        int64_t pause_ms = df_series_turn(s);
        assert_int_not_equal(pause_ms, DF_LOOP_FAILED);
        if (pause_ms > 500 || pause_ms == 1)
            return;
    }
    fail_msg("the upkeep does not end");
}

static void processes_add_to_the_same_minute(void **state)
{
    (void)state;
    count_for("a", 3);
    count_for("b", 1);
    write_now(series);
    count_for("a", 4);
    count_for("", 10);
    write_now(other);
    assert_int_equal(accepted_of(60, "a", START), 7);
    assert_int_equal(accepted_of(60, "b", START), 1);
    assert_int_equal(accepted_of(60, "", START), 18);
    df_fake_clock_advance_ms(&clock_, MINUTE);
    count_for("a", 2);
    write_now(series);
    assert_int_equal(accepted_of(60, "a", START), 7);
    assert_int_equal(accepted_of(60, "a", START + MINUTE), 2);
    assert_int_equal(number(&marks), 1); /* a process starts counting anew */
}

static void the_most_active_clients_have_rows_of_their_own(void **state)
{
    (void)state;
    char client[16];

    for (int i = 1; i <= 12; i++) {
        (void)snprintf(client, sizeof client, "c%02d", i);
        count_for(client, i);
    }
    write_now(series);
    assert_int_equal(count_of(60), CLIENTS + 2); /* with everybody, and the others */
    assert_int_equal(accepted_of(60, "c12", START), 12);
    assert_int_equal(accepted_of(60, "c08", START), 8);
    assert_int_equal(accepted_of(60, "c07", START), 0);
    assert_int_equal(accepted_of(60, "other", START), 1 + 2 + 3 + 4 + 5 + 6 + 7);
    assert_int_equal(accepted_of(60, "", START), 78);
}

static void what_could_not_be_written_comes_later(void **state)
{
    (void)state;
    struct df_err why = DF_ERR_INIT;

    count_for("a", 3);
    df_store_stop(store);
    assert_int_not_equal(df_series_write(series, START, &why), DF_OK);
    df_store_close(store);
    assert_ok(df_store_open(&(struct df_store_options){.settings.url = t.url}, &store, &err), &err);
    df_series_free(other);
    other = df_series_new(&(struct df_series_options){
        .store = store, .clock = &clock_.base, .settings = {.max_clients = CLIENTS}});
    count_for("a", 1);
    write_now(other);
    assert_int_equal(accepted_of(60, "a", START), 4);
    df_series_free(series);
    series = make();
}

static void an_hour_is_made_of_its_minutes_as_often_as_one_likes(void **state)
{
    (void)state;
    char client[16];

    for (int i = 0; i < 60; i++) { /* each minute has another client, and one has them all */
        (void)snprintf(client, sizeof client, "c%02d", i);
        count_for(client, 1);
        count_for("big", 2);
        write_now(series);
        df_fake_clock_advance_ms(&clock_, MINUTE);
    }
    keep_up(series);
    assert_int_equal(count_of(3600), 0); /* the last minute may be on its way */
    df_fake_clock_advance_ms(&clock_, 2 * MINUTE);
    keep_up(series);
    assert_int_equal(accepted_of(3600, "", START), 180);
    assert_int_equal(accepted_of(3600, "big", START), 120);
    assert_int_equal(accepted_of(3600, "c00", START), 1);
    assert_int_equal(accepted_of(3600, "c59", START), 0);
    assert_int_equal(accepted_of(3600, "other", START), 56);
    /* A late minute: another process makes the hour anew after its start. */
    count_for("big", 5);
    assert_ok(df_series_write(series, START + HOUR - 1, &err), &err);
    int64_t rows = count_of(3600);
    df_fake_clock_advance_ms(&clock_, MINUTE);
    keep_up(other);
    assert_int_equal(accepted_of(3600, "big", START), 125);
    assert_int_equal(accepted_of(3600, "", START), 185);
    assert_int_equal(count_of(3600), rows);
}

static void one_process_notes_what_waits(void **state)
{
    (void)state;
    keep_up(series);
    int64_t rows = number(&waiting_rows);
    assert_int_equal(rows, 8);
    keep_up(other); /* the minute is taken */
    keep_up(series);
    assert_int_equal(number(&waiting_rows), rows);
    df_fake_clock_advance_ms(&clock_, MINUTE);
    keep_up(other);
    assert_int_equal(number(&waiting_rows), 2 * rows);
}

static void minutes_go_after_a_day_and_hours_after_ninety(void **state)
{
    (void)state;
    count_for("a", 1);
    write_now(series);
    df_fake_clock_advance_ms(&clock_, 24 * HOUR);
    keep_up(series);
    assert_int_equal(accepted_of(60, "a", START), 1);
    assert_int_equal(accepted_of(3600, "a", START), 1);
    df_fake_clock_advance_ms(&clock_, HOUR + MINUTE);
    keep_up(series);
    assert_int_equal(accepted_of(60, "a", START), 0);
    assert_int_equal(accepted_of(3600, "a", START), 1);
    df_fake_clock_advance_ms(&clock_, 88 * DAY);
    keep_up(series);
    assert_int_equal(accepted_of(3600, "a", START), 1);
    assert_int_equal(number(&marks), 1);
    df_fake_clock_advance_ms(&clock_, DAY);
    keep_up(series);
    assert_int_equal(accepted_of(3600, "a", START), 0);
    assert_int_equal(number(&marks), 0);
}

/* Nobody kept the figures for a month: the minutes become hours before they go. */
static void minutes_wait_for_their_hour(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        count_for("a", 1);
        write_now(series);
        df_fake_clock_advance_ms(&clock_, 10 * DAY);
    }
    keep_up(series);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(accepted_of(3600, "a", START + 10 * DAY * i), 1);
        assert_int_equal(accepted_of(60, "a", START + 10 * DAY * i), 0);
    }
}

static void a_year_does_not_let_the_tables_grow(void **state)
{
    (void)state;
    char client[16];
    int64_t most_minutes = 0, most_hours = 0;

    for (int day = 0; day < 366; day += 3) { /* other clients each time */
        for (int i = 0; i < 2 * CLIENTS; i++) {
            (void)snprintf(client, sizeof client, "c%d", day * 7 + i);
            count_for(client, 1 + i);
        }
        df_tally_mark(DF_MARK_BREAKER_OPENED, df_wall_ms(&clock_.base), DF_STR("x"));
        write_now(series);
        keep_up(series);
        df_fake_clock_advance_ms(&clock_, 3 * DAY);
        if (count_of(60) > most_minutes)
            most_minutes = count_of(60);
        if (count_of(3600) > most_hours)
            most_hours = count_of(3600);
    }
    /* A day has its clients, the others, everybody, and what waits in eight places. */
    int64_t day_rows = CLIENTS + 2 + 8;
    assert_true(most_minutes <= 3 * day_rows);
    assert_true(most_hours <= 32 * day_rows && most_hours > 25 * CLIENTS);
    assert_true(number(&marks) <= 32);
}

static void points_of_a_clock_that_was_ahead_go(void **state)
{
    (void)state;
    assert_ok(
        df_db_exec(db, &add_point, DF_PARAMS(df_int(60), df_time(START + 400 * DAY)), NULL, &err),
        &err);
    assert_ok(
        df_db_exec(db, &add_point, DF_PARAMS(df_int(3600), df_time(START + 400 * DAY)), NULL, &err),
        &err);
    count_for("a", 1);
    write_now(series);
    df_fake_clock_advance_ms(&clock_, HOUR + 3 * MINUTE);
    keep_up(series);
    assert_int_equal(accepted_of(3600, "a", START), 1);
    assert_int_equal(accepted_of(60, "", START + 400 * DAY), 0);
    /* The turn is taken nevertheless, and what was noted before is now ahead. */
    df_fake_clock_advance_ms(&clock_, -30 * DAY);
    keep_up(series);
    assert_int_equal(number(&waiting_rows), 8);
    assert_int_equal(accepted_of(60, "a", START), 0);
}

static void await_accepted(const char *client, int64_t at_ms, int64_t want)
{
    for (int i = 0; i < 6000 && accepted_of(60, client, at_ms) != want; i++)
        (void)usleep(10000);
    assert_int_equal(accepted_of(60, client, at_ms), want);
}

/* The loop may be late, but an hour may be made already when the clock has leapt. */
static void what_is_counted_before_a_leap_belongs_behind_it(void **state)
{
    (void)state;
    df_series_start(series);
    for (int i = 0; i < 6000 && number(&marks) == 0; i++)
        (void)usleep(10000);
    (void)df_fake_clock_await(&clock_);
    count_for("a", 3);
    df_fake_clock_advance_ms(&clock_, MINUTE + MINUTE / 2);
    await_accepted("a", START, 3);
    (void)df_fake_clock_await(&clock_);
    count_for("b", 2);
    df_fake_clock_advance_ms(&clock_, 2 * DAY);
    await_accepted("b", START + 2 * DAY + MINUTE, 2);
    assert_int_equal(accepted_of(60, "", START + MINUTE), 0);
    df_series_end(series);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(processes_add_to_the_same_minute),
        TEST(the_most_active_clients_have_rows_of_their_own),
        TEST(what_could_not_be_written_comes_later),
        TEST(an_hour_is_made_of_its_minutes_as_often_as_one_likes),
        TEST(one_process_notes_what_waits),
        TEST(minutes_go_after_a_day_and_hours_after_ninety),
        TEST(minutes_wait_for_their_hour),
        TEST(a_year_does_not_let_the_tables_grow),
        TEST(points_of_a_clock_that_was_ahead_go),
        TEST(what_is_counted_before_a_leap_belongs_behind_it),
    };

    df_log_init(DF_LOG_ERROR, DF_LOG_JSON, df_clock_real());
    return testdb_run_tests("series", &dialect, tests, sizeof(tests) / sizeof(tests[0]));
}

/* clock.h and uuid.h */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/lock.h"
#include "base/uuid.h"
#include "fake_clock.h"

#include <stdlib.h>
#include <time.h>

#define LEN(a) (sizeof(a) / sizeof((a)[0]))

static void a_fake_clock_moves_only_when_told(void **state)
{
    struct df_fake_clock f;
    const struct df_clock *c = &f.base;
    (void)state;

    df_fake_clock_init(&f, 1000, 1);
    int64_t mono = df_mono_ms(c);
    assert_int_equal(df_wall_ms(c), 1000);
    df_fake_clock_advance_ms(&f, 250);
    assert_int_equal(df_wall_ms(c), 1250);
    assert_int_equal(df_mono_ms(c), mono + 250);
    df_fake_clock_advance_ms(&f, -1000);
    assert_int_equal(df_wall_ms(c), 250);
    assert_int_equal(df_mono_ms(c), mono + 250);
}

static void fake_randomness_repeats_with_its_seed(void **state)
{
    struct df_fake_clock a, b;
    unsigned char x[37], y[37];
    (void)state;

    df_fake_clock_init(&a, 0, 7);
    df_fake_clock_init(&b, 0, 7);
    df_random(&a.base, x, sizeof(x));
    df_random(&b.base, y, sizeof(y));
    assert_memory_equal(x, y, sizeof(x));
    df_random(&b.base, y, sizeof(y));
    assert_memory_not_equal(x, y, sizeof(x));
    df_fake_clock_init(&b, 0, 8);
    df_random(&b.base, y, sizeof(y));
    assert_memory_not_equal(x, y, sizeof(x));
}

static void real_randomness_differs_at_every_size(void **state)
{
    const struct df_clock *c = df_clock_real();
    static unsigned char x[5000], y[5000];
    (void)state;

    for (size_t len = 16; len <= sizeof(x); len = len * 3 / 2) {
        df_random(c, x, len);
        df_random(c, y, len);
        assert_memory_not_equal(x, y, len);
        /* No 16 bytes stay untouched. */
        for (size_t at = 0; at + 16 <= len; at += 16)
            assert_memory_not_equal(x + at, (char[16]){0}, 16);
        memset(x, 0, sizeof(x));
    }
    df_random(c, x, 0);
}

static void random_below_stays_below_and_reaches_everything(void **state)
{
    struct df_fake_clock f;
    unsigned seen[6] = {0};
    (void)state;

    df_fake_clock_init(&f, 0, 3);
    for (int i = 0; i < 6000; i++) {
        uint64_t r = df_random_below(&f.base, 6);
        assert_in_range(r, 0, 5);
        seen[r]++;
    }
    for (size_t i = 0; i < LEN(seen); i++)
        assert_in_range(seen[i], 800, 1200);
    assert_int_equal(df_random_below(&f.base, 1), 0);
    for (int i = 0; i < 100; i++)
        assert_true(df_random_below(&f.base, (UINT64_C(1) << 63) + 1) <= UINT64_C(1) << 63);
}

static void real_time_goes_on(void **state)
{
    const struct df_clock *c = df_clock_real();
    (void)state;

    assert_true(df_wall_ms(c) > INT64_C(1700000000000));
    int64_t before = df_mono_ns(c);
    assert_true(df_mono_ns(c) >= before);
}

static void times_are_written_as_iso_8601(void **state)
{
    static const struct {
        int64_t ms;
        const char *text;
    } cases[] = {
        {0, "1970-01-01T00:00:00.000Z"},
        {-1, "1969-12-31T23:59:59.999Z"},
        {INT64_C(951782400000), "2000-02-29T00:00:00.000Z"},
        {INT64_C(1794712565123), "2026-11-15T03:16:05.123Z"},
        {INT64_C(-62167219200000), "0000-01-01T00:00:00.000Z"},
        {INT64_C(253402300799999), "9999-12-31T23:59:59.999Z"},
        {INT64_MAX, "9999-12-31T23:59:59.999Z"},
        {INT64_MIN, "0000-01-01T00:00:00.000Z"},
    };
    char text[DF_TIME_LEN + 1];
    (void)state;
    for (size_t i = 0; i < LEN(cases); i++) {
        df_time_format(cases[i].ms, text);
        assert_string_equal(text, cases[i].text);
    }
}

/* The C library counts the same days, over four hundred years and more. */
static void every_day_agrees_with_the_c_library(void **state)
{
    (void)state;
    for (int64_t day = -100000; day < 200000; day++) {
        char mine[DF_TIME_LEN + 1];
        char theirs[40];
        struct tm tm;
        time_t t = day * 86400 + (day * 7919 % 86400 + 86400) % 86400;
        int64_t back;

        df_time_format((int64_t)t * 1000 + 7, mine);
        gmtime_r(&t, &tm);
        strftime(theirs, sizeof(theirs), "%Y-%m-%dT%H:%M:%S.007Z", &tm);
        assert_string_equal(mine, theirs);
        assert_true(df_time_parse(df_str_c(mine), &back));
        assert_int_equal(back, (int64_t)t * 1000 + 7);
    }
}

static bool is_leap(int year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

/* The day after, without the calendar under test. */
static void next_day(struct df_date_time *t)
{
    static const int lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int length = lengths[t->month - 1] + (t->month == 2 && is_leap(t->year));

    t->day = t->day % length + 1;
    t->month = t->day == 1 ? t->month % 12 + 1 : t->month;
    t->year += t->day == 1 && t->month == 1;
}

static void every_day_is_split_and_joined(void **state)
{
    struct df_date_time day = {.year = 1, .month = 1, .day = 1};
    int64_t midnight_ms = INT64_C(-62135596800000);
    (void)state;

    for (; day.year <= 9999; next_day(&day), midnight_ms += 86400000) {
        struct df_date_time t = day;
        int64_t ms = (midnight_ms / 86400000 * 7919 % 86400000 + 86400000) % 86400000;
        t.hour = (int)(ms / 3600000);
        t.minute = (int)(ms / 60000 % 60);
        t.second = (int)(ms / 1000 % 60);
        t.ms = (int)(ms % 1000);

        struct df_date_time split = df_time_split(midnight_ms + ms);
        assert_memory_equal(&split, &t, sizeof(t));
        assert_int_equal(df_time_join(&t), midnight_ms + ms);
        assert_int_equal(df_time_join(&day), midnight_ms);
        split = df_time_split(midnight_ms - 1);
        assert_int_equal(split.hour * 3600 + split.minute * 60 + split.second, 86399);
    }
    assert_int_equal(midnight_ms, INT64_C(253402300800000));
}

static void joining_agrees_with_the_c_library(void **state)
{
    struct df_fake_clock f;
    (void)state;

    df_fake_clock_init(&f, 0, 11);
    for (int i = 0; i < 20000; i++) {
        /* From 0001-01-01 to 9999-12-31. */
        time_t at = (time_t)df_random_below(&f.base, UINT64_C(315537897600)) - 62135596800;
        struct df_date_time t = df_time_split((int64_t)at * 1000 + i % 1000);
        struct tm tm = {
            .tm_year = t.year - 1900,
            .tm_mon = t.month - 1,
            .tm_mday = t.day,
            .tm_hour = t.hour,
            .tm_min = t.minute,
            .tm_sec = t.second,
        };
        assert_int_equal(timegm(&tm), at);
        assert_int_equal(df_time_join(&t), (int64_t)at * 1000 + i % 1000);
    }
}

static void times_past_four_digits_of_a_year_are_the_nearest(void **state)
{
    static const struct df_date_time first = {0, 1, 1, 0, 0, 0, 0};
    static const struct df_date_time last = {9999, 12, 31, 23, 59, 59, 999};
    static const int64_t early[] = {INT64_MIN, INT64_C(-62167219200001), INT64_C(-62167219200000)};
    static const int64_t late[] = {INT64_MAX, INT64_C(253402300800000), INT64_C(253402300799999)};
    (void)state;

    for (size_t i = 0; i < LEN(early); i++) {
        struct df_date_time t = df_time_split(early[i]);
        assert_memory_equal(&t, &first, sizeof(t));
        t = df_time_split(late[i]);
        assert_memory_equal(&t, &last, sizeof(t));
    }
}

static void times_are_read_in_all_their_forms(void **state)
{
    static const struct {
        const char *text;
        int64_t ms;
    } cases[] = {
        {"1970-01-01", 0},
        {"1970-01-01T00:00:01", 1000},
        {"1970-01-01 00:00:01Z", 1000},
        {"1970-01-01T00:00:00.5Z", 500},
        {"1970-01-01T00:00:00.123456789Z", 123},
        {"1970-01-01T00:00:00.9999", 999},
        {"1970-01-01T03:00:00+03:00", 0},
        {"1969-12-31T21:00:00-03:00", 0},
        {"1970-01-01T05:30:00+0530", 0},
        {"1970-01-01T05:00:00+05", 0},
        {"2000-02-29T00:00:00Z", INT64_C(951782400000)},
        {"0000-01-01", INT64_C(-62167219200000)},
    };
    (void)state;
    for (size_t i = 0; i < LEN(cases); i++) {
        int64_t ms;
        assert_true(df_time_parse(df_str_c(cases[i].text), &ms));
        assert_int_equal(ms, cases[i].ms);
    }
}

static void what_is_no_time_is_refused(void **state)
{
    static const char *const cases[] = {
        "",
        "1970",
        "1970-01",
        "1970-1-1",
        "1970-00-01",
        "1970-13-01",
        "1970-01-00",
        "1970-01-32",
        "1970-04-31",
        "1970-02-29",
        "1900-02-29",
        "-970-01-01",
        "01970-01-01",
        "1970-01-01T",
        "1970-01-01x00:00:00",
        "1970-01-01T00:00",
        "1970-01-01T24:00:00",
        "1970-01-01T00:60:00",
        "1970-01-01T00:00:60",
        "1970-01-01T00:00:00.",
        "1970-01-01T00:00:00.x",
        "1970-01-01T00:00:00z",
        "1970-01-01T00:00:00ZZ",
        "1970-01-01T00:00:00 Z",
        "1970-01-01T00:00:00+3",
        "1970-01-01T00:00:00+03:",
        "1970-01-01T00:00:00+03:60",
        "1970-01-01T00:00:00+24:00",
        "1970-01-01T00:00:00+03:00x",
        " 1970-01-01",
        "1970-01-01 ",
        "1970/01/01",
    };
    int64_t ms = 42;
    (void)state;
    for (size_t i = 0; i < LEN(cases); i++) {
        if (df_time_parse(df_str_c(cases[i]), &ms))
            fail_msg("accepted: %s", cases[i]);
    }
    assert_false(df_time_parse(DF_STR_NULL, &ms));
    assert_int_equal(ms, 42);
}

static void a_timed_wait_says_when_time_is_up(void **state)
{
    struct df_mutex m = DF_MUTEX_INIT;
    pthread_cond_t c;
    (void)state;

    df_cond_init(&c);
    df_lock(&m);
    int64_t before = df_mono_ns(df_clock_real());
    while (df_cond_wait_ms(&c, &m, 20)) {
    }
    assert_true(df_mono_ns(df_clock_real()) - before >= 20000000);
    while (df_cond_wait_ms(&c, &m, -5)) {
    }
    df_unlock(&m);
    pthread_cond_destroy(&c);
}

/* --- UUIDs ------------------------------------------------------------------------------------ */

static void version_4_is_marked_and_differs(void **state)
{
    (void)state;
    struct df_uuid a = df_uuid_v4(df_clock_real());
    struct df_uuid b = df_uuid_v4(df_clock_real());
    struct df_uuid parsed;

    assert_string_not_equal(a.text, b.text);
    assert_int_equal(a.text[14], '4');
    assert_non_null(strchr("89ab", a.text[19]));
    assert_true(df_uuid_parse(df_uuid_str(&a), &parsed));
    assert_string_equal(a.text, parsed.text);
}

static void version_7_carries_the_time(void **state)
{
    struct df_fake_clock f;
    (void)state;

    df_fake_clock_init(&f, INT64_C(0x0123456789AB), 5);
    struct df_uuid u = df_uuid_v7(&f.base);
    assert_memory_equal(u.text, "01234567-89ab-7", 15);
    assert_non_null(strchr("89ab", u.text[19]));
}

static void version_7_ascends_even_when_the_clock_stands_or_goes_back(void **state)
{
    struct df_fake_clock f;
    (void)state;

    df_fake_clock_init(&f, INT64_C(1800000000000), 5);
    struct df_uuid last = df_uuid_v7(&f.base);
    for (int i = 0; i < 20000; i++) {
        if (i == 5000)
            df_fake_clock_advance_ms(&f, -500);
        if (i == 10000)
            df_fake_clock_advance_ms(&f, 600);
        struct df_uuid next = df_uuid_v7(&f.base);
        assert_true(strcmp(last.text, next.text) < 0);
        last = next;
    }
}

/* SQL Server compares the last six bytes first. */
static void version_7_of_one_millisecond_ascends_in_its_tail(void **state)
{
    struct df_fake_clock f;
    (void)state;

    df_fake_clock_init(&f, INT64_C(1800000000000), 5);
    struct df_uuid last = df_uuid_v7(&f.base);
    for (int i = 0; i < 1000; i++) {
        struct df_uuid next = df_uuid_v7(&f.base);
        assert_memory_equal(last.text, next.text, 13);
        assert_true(strcmp(last.text + 24, next.text + 24) < 0);
        last = next;
    }
}

static void those_after_one_ascend_until_the_next(void **state)
{
    struct df_fake_clock f;
    (void)state;

    df_fake_clock_init(&f, INT64_C(1800000000000), 5);
    struct df_uuid first = df_uuid_v7(&f.base);
    struct df_uuid last = df_uuid_after(&first, 0);
    assert_string_equal(first.text, last.text);
    for (uint64_t i = 1; i < 5000; i++) {
        struct df_uuid next = df_uuid_after(&first, i);
        assert_true(strcmp(last.text, next.text) < 0);
        assert_memory_equal(first.text, next.text, 24);
        last = next;
    }
    struct df_uuid other = df_uuid_v7(&f.base);
    assert_true(strcmp(last.text, other.text) < 0);
    assert_true(strcmp(last.text + 24, other.text + 24) < 0);
    assert_true(df_uuid_parse(DF_STR("ffffffff-ffff-7fff-bfff-ffffffffffff"), &first));
    last = df_uuid_after(&first, 2);
    assert_string_equal(last.text, "ffffffff-ffff-7fff-bfff-000000000001");
}

#define PER_THREAD 5000

static void *make_uuids(void *arg)
{
    struct df_uuid *out = arg;
    for (int i = 0; i < PER_THREAD; i++)
        out[i] = df_uuid_v7(df_clock_real());
    return NULL;
}

static int compare(const void *a, const void *b)
{
    return strcmp(((const struct df_uuid *)a)->text, ((const struct df_uuid *)b)->text);
}

static void version_7_ascends_in_each_thread_and_never_repeats(void **state)
{
    enum { THREADS = 4 };
    static struct df_uuid all[THREADS * PER_THREAD];
    pthread_t threads[THREADS];
    (void)state;

    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, make_uuids, all + i * PER_THREAD), 0);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (size_t i = 1; i < LEN(all); i++) {
        if (i % PER_THREAD != 0)
            assert_true(compare(&all[i - 1], &all[i]) < 0);
    }
    qsort(all, LEN(all), sizeof(all[0]), compare);
    /* The stamp alone, without the random part, tells them apart. */
    for (size_t i = 1; i < LEN(all); i++)
        assert_true(strncmp(all[i - 1].text, all[i].text, 18) < 0);
}

static void uuids_are_read_in_any_case_and_in_braces(void **state)
{
    static const char *const bad[] = {
        "",
        "0190f5fe-7c00-7a00-8000-00000000000",
        "0190f5fe-7c00-7a00-8000-0000000000011",
        "0190f5fe7c007a00800000000000000100000",
        "0190f5fe-7c00-7a00-8000-00000000000g",
        "0190f5fe-7c00-7a00-8000_000000000001",
        "0190f5fe--c00-7a00-8000-000000000001",
        "{0190f5fe-7c00-7a00-8000-000000000001",
        "{0190f5fe-7c00-7a00-8000-000000000001)",
        "[0190f5fe-7c00-7a00-8000-000000000001]",
        " 0190f5fe-7c00-7a00-8000-000000000001",
        "{}",
    };
    struct df_uuid u;
    (void)state;

    assert_true(df_uuid_parse(DF_STR("0190F5FE-7c00-7A00-8000-00000000000f"), &u));
    assert_string_equal(u.text, "0190f5fe-7c00-7a00-8000-00000000000f");
    assert_true(df_uuid_parse(DF_STR("{0190F5FE-7C00-7A00-8000-00000000000A}"), &u));
    assert_string_equal(u.text, "0190f5fe-7c00-7a00-8000-00000000000a");
    for (size_t i = 0; i < LEN(bad); i++)
        assert_false(df_uuid_parse(df_str_c(bad[i]), &u));
    assert_false(df_uuid_parse(DF_STR_NULL, &u));
    assert_string_equal(u.text, "0190f5fe-7c00-7a00-8000-00000000000a");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fake_clock_moves_only_when_told),
        cmocka_unit_test(fake_randomness_repeats_with_its_seed),
        cmocka_unit_test(real_randomness_differs_at_every_size),
        cmocka_unit_test(random_below_stays_below_and_reaches_everything),
        cmocka_unit_test(real_time_goes_on),
        cmocka_unit_test(times_are_written_as_iso_8601),
        cmocka_unit_test(every_day_agrees_with_the_c_library),
        cmocka_unit_test(every_day_is_split_and_joined),
        cmocka_unit_test(joining_agrees_with_the_c_library),
        cmocka_unit_test(times_past_four_digits_of_a_year_are_the_nearest),
        cmocka_unit_test(times_are_read_in_all_their_forms),
        cmocka_unit_test(what_is_no_time_is_refused),
        cmocka_unit_test(a_timed_wait_says_when_time_is_up),
        cmocka_unit_test(version_4_is_marked_and_differs),
        cmocka_unit_test(version_7_carries_the_time),
        cmocka_unit_test(version_7_ascends_even_when_the_clock_stands_or_goes_back),
        cmocka_unit_test(version_7_of_one_millisecond_ascends_in_its_tail),
        cmocka_unit_test(those_after_one_ascend_until_the_next),
        cmocka_unit_test(version_7_ascends_in_each_thread_and_never_repeats),
        cmocka_unit_test(uuids_are_read_in_any_case_and_in_braces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

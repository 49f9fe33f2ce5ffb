/* zone.h: against a table made with Python's zoneinfo, and against the C library at run time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/zone.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define LEN(a) (sizeof(a) / sizeof((a)[0]))

static int64_t at(const char *iso)
{
    int64_t ms;
    assert_true(df_time_parse(df_str_c(iso), &ms));
    return ms;
}

static struct df_zone *zone(const char *name)
{
    struct df_err err = DF_ERR_INIT;
    struct df_zone *z = NULL;
    if (df_zone_open(name, &z, &err) != DF_OK)
        fail_msg("%s: %s", name, err.detail);
    return z;
}

/* --- offsets --- */

/* Times past, which no later edition of the zone data will change. */
static const struct {
    const char *zone, *utc;
    int32_t offset_s;
} offsets[] = {
    {"America/Sao_Paulo", "2018-02-18T01:59:59Z", -7200},
    {"America/Sao_Paulo", "2018-02-18T02:00:00Z", -10800},
    {"America/Sao_Paulo", "2018-11-04T02:59:59Z", -10800},
    {"America/Sao_Paulo", "2018-11-04T03:00:00Z", -7200},
    {"America/Sao_Paulo", "2019-02-17T02:00:00Z", -10800},
    {"America/Sao_Paulo", "2019-12-15T12:00:00Z", -10800},
    {"America/Sao_Paulo", "1914-01-01T03:06:27Z", -11188},
    {"America/Sao_Paulo", "1900-01-01T00:00:00Z", -11188},
    {"America/New_York", "2024-03-10T06:59:59Z", -18000},
    {"America/New_York", "2024-03-10T07:00:00Z", -14400},
    {"America/New_York", "2024-11-03T05:59:59Z", -14400},
    {"America/New_York", "2024-11-03T06:00:00Z", -18000},
    {"Europe/Lisbon", "2024-03-31T01:00:00Z", 3600},
    {"Europe/Dublin", "2024-07-01T00:00:00Z", 3600},
    {"Europe/Dublin", "2024-01-01T00:00:00Z", 0},
    {"Asia/Kolkata", "2024-01-01T00:00:00Z", 19800},
    {"Asia/Kathmandu", "2024-01-01T00:00:00Z", 20700},
    {"Australia/Lord_Howe", "2024-01-01T00:00:00Z", 39600},
    {"Australia/Lord_Howe", "2024-07-01T00:00:00Z", 37800},
    {"Pacific/Apia", "2011-12-30T09:59:59Z", -36000},
    {"Pacific/Apia", "2011-12-30T10:00:00Z", 50400},
    {"Asia/Tehran", "2022-08-01T00:00:00Z", 16200},
    {"Africa/Casablanca", "2023-04-01T00:00:00Z", 0},
    {"America/Manaus", "1993-12-01T00:00:00Z", -10800},
    {"Etc/GMT+12", "2024-01-01T00:00:00Z", -43200},
    {"UTC", "2024-01-01T00:00:00Z", 0},
};

static void offsets_are_those_of_the_table(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(offsets); i++) {
        struct df_zone *z = zone(offsets[i].zone);
        int32_t got = df_zone_offset(z, at(offsets[i].utc));
        if (got != offsets[i].offset_s)
            fail_msg("%s at %s: %d", offsets[i].zone, offsets[i].utc, got);
        df_zone_free(z);
    }
}

static void compare_with_libc(const char *name, int64_t from_s, int64_t to_s, int64_t step_s)
{
    struct df_zone *z = zone(name);
    setenv("TZ", name, 1);
    tzset();
    for (int64_t t = from_s; t < to_s; t += step_s) {
        time_t tt = (time_t)t;
        struct tm tm;
        assert_non_null(localtime_r(&tt, &tm));
        if (df_zone_offset(z, t * 1000) != (int32_t)tm.tm_gmtoff)
            fail_msg("%s at %lld: %d, the C library says %ld", name, (long long)t,
                     df_zone_offset(z, t * 1000), tm.tm_gmtoff);
        struct df_date_time d = df_zone_local(z, t * 1000);
        assert_int_equal(d.year, tm.tm_year + 1900);
        assert_int_equal(d.month, tm.tm_mon + 1);
        assert_int_equal(d.day, tm.tm_mday);
        assert_int_equal(d.hour, tm.tm_hour);
        assert_int_equal(d.minute, tm.tm_min);
        assert_int_equal(df_weekday(d.year, d.month, d.day), tm.tm_wday);
    }
    df_zone_free(z);
    unsetenv("TZ");
}

/* Past the last change written down (2037 in fat files, earlier in others) the rule counts. The
 * step is no divisor of a day, so that all hours are met. */
static void every_zone_agrees_with_the_c_library(void **state)
{
    (void)state;
    FILE *list = fopen("/usr/share/zoneinfo/tzdata.zi", "r");
    assert_non_null(list);
    char line[512];
    size_t zones = 0;
    while (fgets(line, sizeof line, list)) {
        char name[128];
        if (sscanf(line, "Z %127s", name) != 1)
            continue;
        zones++;
        compare_with_libc(name, at("1901-01-01") / 1000, at("2120-01-01") / 1000, 2000003);
    }
    fclose(list);
    assert_true(zones > 300);
}

static void every_hour_agrees_with_the_c_library(void **state)
{
    static const char *const names[] = {"America/Sao_Paulo",   "America/New_York", "Europe/London",
                                        "Australia/Lord_Howe", "Africa/Cairo",     "America/Nuuk",
                                        "Africa/Casablanca",   "Asia/Gaza"};
    (void)state;
    for (size_t i = 0; i < LEN(names); i++) {
        compare_with_libc(names[i], at("2016-01-01") / 1000, at("2028-01-01") / 1000, 3600);
        compare_with_libc(names[i], at("2090-01-01") / 1000, at("2092-01-01") / 1000, 3600);
    }
}

/* --- local times --- */

static const struct {
    const char *zone, *local, *utc, *why;
} locals[] = {
    {"America/New_York", "2024-01-15T12:00:00", "2024-01-15T17:00:00Z", "winter"},
    {"America/New_York", "2024-07-15T12:00:00", "2024-07-15T16:00:00Z", "summer"},
    {"America/New_York", "2024-03-10T01:59:59", "2024-03-10T06:59:59Z", "before the gap"},
    {"America/New_York", "2024-03-10T02:00:00", "2024-03-10T07:00:00Z", "the gap's start"},
    {"America/New_York", "2024-03-10T02:30:00.5", "2024-03-10T07:00:00Z", "in the gap"},
    {"America/New_York", "2024-03-10T03:00:00", "2024-03-10T07:00:00Z", "the gap's end"},
    {"America/New_York", "2024-03-10T03:00:01", "2024-03-10T07:00:01Z", "after the gap"},
    {"America/New_York", "2024-11-03T00:59:59", "2024-11-03T04:59:59Z", "before the overlap"},
    {"America/New_York", "2024-11-03T01:00:00", "2024-11-03T05:00:00Z", "the first of two"},
    {"America/New_York", "2024-11-03T01:59:59.9", "2024-11-03T05:59:59.9Z", "the first of two"},
    {"America/New_York", "2024-11-03T02:00:00", "2024-11-03T07:00:00Z", "after the overlap"},
    {"America/Sao_Paulo", "2018-11-04T00:00:00", "2018-11-04T03:00:00Z", "midnight left out"},
    {"America/Sao_Paulo", "2018-11-04T00:30:00", "2018-11-04T03:00:00Z", "in the gap"},
    {"America/Sao_Paulo", "2018-02-17T23:30:00", "2018-02-18T01:30:00Z", "the first of two"},
    {"America/Sao_Paulo", "2018-02-18T00:00:00", "2018-02-18T03:00:00Z", "after the overlap"},
    {"Pacific/Apia", "2011-12-30T12:00:00", "2011-12-30T10:00:00Z", "a day left out"},
    {"Pacific/Apia", "2011-12-31T00:00:00", "2011-12-30T10:00:00Z", "the day after it"},
    {"Pacific/Apia", "2011-12-29T23:59:59", "2011-12-30T09:59:59Z", "the day before it"},
    {"Asia/Kolkata", "2023-12-31T24:00:00", "2023-12-31T18:30:00Z", "24:00 at the year's end"},
    {"UTC", "2024-02-29T12:00:00", "2024-02-29T12:00:00Z", "UTC"},
};

static struct df_date_time fields(const char *iso)
{
    struct df_date_time d = {0};
    int n =
        sscanf(iso, "%d-%d-%dT%d:%d:%d", &d.year, &d.month, &d.day, &d.hour, &d.minute, &d.second);
    assert_int_equal(n, 6);
    if (strlen(iso) > 19)
        d.ms = (iso[20] - '0') * 100;
    return d;
}

static void a_local_time_is_the_first_moment_at_or_after_it(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(locals); i++) {
        struct df_zone *z = zone(locals[i].zone);
        struct df_date_time d = fields(locals[i].local);
        char got[DF_TIME_LEN + 1];
        df_time_format(df_zone_to_utc(z, &d), got);
        if (at(got) != at(locals[i].utc))
            fail_msg("%s %s (%s): %s", locals[i].zone, locals[i].local, locals[i].why, got);
        df_zone_free(z);
    }
}

/* By its definition, around every change of some years: no earlier minute shows that time or later
 * (within the two days that a change can move). */
static void local_times_keep_to_the_definition(void **state)
{
    static const char *const names[] = {"America/New_York", "America/Sao_Paulo", "Pacific/Apia",
                                        "Australia/Lord_Howe", "America/Nuuk"};
    (void)state;
    for (size_t i = 0; i < LEN(names); i++) {
        struct df_zone *z = zone(names[i]);
        for (int64_t t = at("2010-01-01"); t < at("2020-01-01"); t += 1800000) {
            struct df_date_time d = df_time_split(t);
            int64_t utc = df_zone_to_utc(z, &d);
            struct df_date_time shown = df_zone_local(z, utc), before = df_zone_local(z, utc - 1);
            assert_true(df_time_join(&shown) >= t);
            assert_true(df_time_join(&before) < t);
        }
        df_zone_free(z);
    }
}

static void moments_out_of_range_are_the_nearest(void **state)
{
    struct df_zone *z = zone("America/New_York");
    (void)state;
    assert_int_equal(df_zone_local(z, INT64_MAX).year, 9998);
    assert_int_equal(df_zone_local(z, INT64_MIN).year, 0); /* the first hours of year 1, UTC */
    assert_int_equal(df_zone_offset(z, INT64_MAX), -18000);
    df_zone_free(z);
}

/* --- names and files --- */

static void names_that_lead_elsewhere_are_refused(void **state)
{
    static const char *const names[] = {"",
                                        "/etc/passwd",
                                        "../../../etc/passwd",
                                        "America/../UTC",
                                        "America/Sao_Paulo/",
                                        "America//Sao_Paulo",
                                        "./UTC",
                                        "America/Sao Paulo",
                                        "America/S\xC3\xA3o_Paulo",
                                        "tzdata.zi",
                                        ":UTC",
                                        "America\n",
                                        "America",
                                        "Nowhere/Land",
                                        "EST5EDT,M3.2.0,M11.1.0"};
    (void)state;
    for (size_t i = 0; i < LEN(names); i++) {
        struct df_err err = DF_ERR_INIT;
        struct df_zone *z = NULL;
        if (df_zone_open(names[i], &z, &err) != DF_E_CONFIG)
            fail_msg("\"%s\" was taken", names[i]);
        assert_null(z);
        assert_true(strlen(err.detail) > 0);
    }
    char longer[4096];
    memset(longer, 'a', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    struct df_zone *z = NULL;
    assert_int_equal(df_zone_open(longer, &z, NULL), DF_E_CONFIG);
}

static void another_directory_may_be_named(void **state)
{
    (void)state;
    setenv("TZDIR", "/nonexistent", 1);
    struct df_zone *z = NULL;
    assert_int_equal(df_zone_open("America/Sao_Paulo", &z, NULL), DF_E_CONFIG);
    assert_int_equal(df_zone_open("UTC", &z, NULL), DF_OK); /* needs no file */
    df_zone_free(z);
    setenv("TZDIR", "/usr/share/zoneinfo/America", 1);
    z = zone("Sao_Paulo");
    assert_int_equal(df_zone_offset(z, at("2020-06-01")), -10800);
    df_zone_free(z);
    unsetenv("TZDIR");
}

static void add_be(struct df_buf *b, uint64_t v, int bytes)
{
    for (int i = bytes - 1; i >= 0; i--)
        df_buf_addc(b, (char)(v >> (8 * i)));
}

static void add_head(struct df_buf *b, char version, uint32_t times, uint32_t types, uint32_t leaps)
{
    df_buf_addz(b, "TZif");
    df_buf_addc(b, version);
    for (int i = 0; i < 15; i++)
        df_buf_addc(b, 0);
    const uint32_t counts[] = {0, 0, leaps, times, types, 4};
    for (size_t i = 0; i < LEN(counts); i++)
        add_be(b, counts[i], 4);
}

/* A file of version 2 without transitions, whose rule is the text. */
static enum df_code parse_rule(const char *rule, struct df_zone **ret)
{
    struct df_buf b;
    df_buf_init(&b, 4096);
    for (int part = 0; part < 2; part++) {
        add_head(&b, '2', 0, 1, 0);
        add_be(&b, 0, 6);
        df_buf_add(&b, "UTC\0", 4);
    }
    df_buf_addf(&b, "\n%s\n", rule);
    enum df_code code = df_zone_parse(df_buf_str(&b), ret, NULL);
    df_buf_release(&b);
    return code;
}

static const struct {
    const char *rule, *utc;
    int32_t offset_s;
} rules[] = {
    {"<-03>3", "2050-01-01T00:00:00Z", -10800},
    {"<+0545>-5:45", "2050-01-01T00:00:00Z", 20700},
    {"EST5EDT,M3.2.0,M11.1.0", "2050-03-13T06:59:59Z", -18000},
    {"EST5EDT,M3.2.0,M11.1.0", "2050-03-13T07:00:00Z", -14400},
    {"EST5EDT,M3.2.0,M11.1.0", "2050-11-06T05:59:59Z", -14400},
    {"EST5EDT,M3.2.0,M11.1.0", "2050-11-06T06:00:00Z", -18000},
    /* South of the equator summer time goes over the year's end. */
    {"AEST-10AEDT,M10.1.0,M4.1.0/3", "2050-01-01T00:00:00Z", 39600},
    {"AEST-10AEDT,M10.1.0,M4.1.0/3", "2050-07-01T00:00:00Z", 36000},
    {"<+1030>-10:30<+11>-11,M10.1.0,M4.1.0", "2050-01-01T00:00:00Z", 39600},
    /* The last Sunday, and a time before midnight. */
    {"<-02>2<-01>,M3.5.0/-1,M10.5.0/0", "2050-03-27T00:59:59Z", -7200},
    {"<-02>2<-01>,M3.5.0/-1,M10.5.0/0", "2050-03-27T01:00:00Z", -3600},
    /* More than a day after the day named. */
    {"EET-2EEST,M3.4.4/50,M10.4.4/50", "2050-03-26T00:00:00Z", 10800},
    {"EET-2EEST,M3.4.4/50,M10.4.4/50", "2050-03-25T23:59:59Z", 7200},
    /* Day of the year, with and without the leap day; 2048 is a leap year. */
    {"AAA1BBB,J60/0,J300/0", "2048-03-01T00:59:59Z", -3600},
    {"AAA1BBB,J60/0,J300/0", "2048-03-01T01:00:00Z", 0},
    {"AAA1BBB,59/0,299/0", "2048-02-29T00:59:59Z", -3600},
    {"AAA1BBB,59/0,299/0", "2048-02-29T01:00:00Z", 0},
    /* Summer time all the year. */
    {"EST5EDT,0/0,J365/25", "2050-12-31T23:59:59Z", -14400},
    {"EST5EDT,0/0,J365/25", "2051-01-01T04:59:59Z", -14400},
    {"EST5EDT,0/0,J365/25", "2051-01-01T05:00:00Z", -14400},
    /* Winter time is the exception (Dublin). */
    {"IST-1GMT0,M10.5.0,M3.5.0/1", "2050-01-01T00:00:00Z", 0},
    {"IST-1GMT0,M10.5.0,M3.5.0/1", "2050-07-01T00:00:00Z", 3600},
};

static void rules_hold_after_the_last_change(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(rules); i++) {
        struct df_zone *z = NULL;
        assert_int_equal(parse_rule(rules[i].rule, &z), DF_OK);
        int32_t got = df_zone_offset(z, at(rules[i].utc));
        if (got != rules[i].offset_s)
            fail_msg("%s at %s: %d", rules[i].rule, rules[i].utc, got);
        df_zone_free(z);
    }
}

static void rules_that_are_none_are_refused(void **state)
{
    static const char *const bad[] = {"EST",
                                      "EST5EDT",
                                      "EST25",
                                      "EST5EDT,M3.2",
                                      "EST5EDT,M3.2.0",
                                      "EST5EDT,M13.1.0,M1.1.0",
                                      "EST5:60",
                                      "EST5EDT,M3.6.0,J1",
                                      "EST5EDT,M3.2.7,J1",
                                      "EST5EDT,J0,J1",
                                      "EST5EDT,J366,J1",
                                      "EST5EDT,M3.2.0/168,J1",
                                      "A1B2,J60,J300",
                                      "<ES>5",
                                      "<EST5",
                                      "EST5EDT,M3.2.0,M11.1.0,",
                                      "5",
                                      "EST5EDT,M3.2.0,M11.1.0/",
                                      "EST99999999999999"};
    (void)state;
    for (size_t i = 0; i < LEN(bad); i++) {
        struct df_zone *z = NULL;
        if (parse_rule(bad[i], &z) != DF_E_CONFIG)
            fail_msg("%s was taken", bad[i]);
    }
}

/* The first version: times of 32 bits, no footer. */
static void files_of_version_1_are_read(void **state)
{
    struct df_buf b;
    struct df_zone *z = NULL;
    (void)state;
    df_buf_init(&b, 4096);
    add_head(&b, '\0', 2, 2, 0);
    add_be(&b, (uint32_t)-1000, 4);
    add_be(&b, 1000, 4);
    df_buf_add(&b, "\1\0", 2);
    add_be(&b, (uint32_t)-7200, 4), add_be(&b, 0, 2);
    add_be(&b, 3600, 4), add_be(&b, 0, 2);
    df_buf_add(&b, "UTC\0", 4);
    assert_int_equal(df_zone_parse(df_buf_str(&b), &z, NULL), DF_OK);
    assert_int_equal(df_zone_offset(z, -1001000), -7200);
    assert_int_equal(df_zone_offset(z, -1000001), -7200);
    assert_int_equal(df_zone_offset(z, -1000000), 3600);
    assert_int_equal(df_zone_offset(z, 999999), 3600);
    assert_int_equal(df_zone_offset(z, 1000000), -7200);
    df_zone_free(z);
    df_buf_release(&b);
}

/* Every prefix of a good file, and every byte of it changed: taken or refused, never worse. */
static void broken_files_do_no_harm(void **state)
{
    (void)state;
    FILE *f = fopen("/usr/share/zoneinfo/America/New_York", "rb");
    assert_non_null(f);
    char data[8192];
    size_t len = fread(data, 1, sizeof data, f);
    fclose(f);
    assert_in_range(len, 500, sizeof data - 1);
    for (size_t cut = 0; cut < len; cut++) {
        char *copy = malloc(cut ? cut : 1); /* its own block: overruns are seen */
        memcpy(copy, data, cut);
        struct df_zone *z = NULL;
        assert_int_equal(df_zone_parse(df_str_n(copy, cut), &z, NULL), DF_E_CONFIG);
        free(copy);
    }
    for (size_t i = 0; i < len; i++) {
        for (int flip = 1; flip < 256; flip <<= 1) {
            data[i] = (char)(data[i] ^ flip);
            struct df_zone *z = NULL;
            if (df_zone_parse(df_str_n(data, len), &z, NULL) == DF_OK) {
                struct df_date_time d = df_zone_local(z, at("2030-06-01"));
                assert_true(df_zone_to_utc(z, &d) != 0);
                df_zone_free(z);
            }
            data[i] = (char)(data[i] ^ flip);
        }
    }
}

static void leap_seconds_are_not_taken_for_time(void **state)
{
    struct df_buf b;
    struct df_zone *z = NULL;
    (void)state;
    df_buf_init(&b, 4096);
    add_head(&b, '\0', 0, 1, 1);
    add_be(&b, 0, 6);
    df_buf_add(&b, "UTC\0", 4);
    add_be(&b, 78796800, 4), add_be(&b, 1, 4);
    struct df_err err = DF_ERR_INIT;
    assert_int_equal(df_zone_parse(df_buf_str(&b), &z, &err), DF_E_CONFIG);
    assert_non_null(strstr(err.detail, "leap seconds"));
    df_buf_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(offsets_are_those_of_the_table),
        cmocka_unit_test(every_zone_agrees_with_the_c_library),
        cmocka_unit_test(every_hour_agrees_with_the_c_library),
        cmocka_unit_test(a_local_time_is_the_first_moment_at_or_after_it),
        cmocka_unit_test(local_times_keep_to_the_definition),
        cmocka_unit_test(moments_out_of_range_are_the_nearest),
        cmocka_unit_test(names_that_lead_elsewhere_are_refused),
        cmocka_unit_test(another_directory_may_be_named),
        cmocka_unit_test(rules_hold_after_the_last_change),
        cmocka_unit_test(rules_that_are_none_are_refused),
        cmocka_unit_test(files_of_version_1_are_read),
        cmocka_unit_test(broken_files_do_no_harm),
        cmocka_unit_test(leap_seconds_are_not_taken_for_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

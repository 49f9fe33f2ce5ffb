/* maintenance.h: the grammar, and what is in force when. 2026-11-15 is a Sunday. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "access/maintenance.h"

#define LEN(a) (sizeof(a) / sizeof((a)[0]))

static int64_t at(const char *iso)
{
    int64_t ms;
    if (!iso)
        return -1;
    if (!df_time_parse(df_str_c(iso), &ms))
        fail_msg("%s is no time", iso);
    return ms;
}

static const struct {
    const char *windows, *now, *until, *next, *next_until;
} times[] = {
    {"", "2026-11-15T03:00:00Z", NULL, NULL, NULL},
    /* every day */
    {"02:00-04:00", "2026-11-15T01:59:59.999Z", NULL, "2026-11-15T02:00:00Z",
     "2026-11-15T04:00:00Z"},
    {"02:00-04:00", "2026-11-15T02:00:00Z", "2026-11-15T04:00:00Z", "2026-11-16T02:00:00Z",
     "2026-11-16T04:00:00Z"},
    {"02:00-04:00", "2026-11-15T04:00:00Z", NULL, "2026-11-16T02:00:00Z", "2026-11-16T04:00:00Z"},
    /* over midnight, the month's and the year's end */
    {"23:00-01:00", "2026-12-31T23:30:00Z", "2027-01-01T01:00:00Z", "2027-01-01T23:00:00Z",
     "2027-01-02T01:00:00Z"},
    {"23:00-01:00", "2028-02-29T00:30:00Z", "2028-02-29T01:00:00Z", "2028-02-29T23:00:00Z",
     "2028-03-01T01:00:00Z"},
    {"20:00-24:00", "2026-11-30T23:59:59Z", "2026-12-01T00:00:00Z", "2026-12-01T20:00:00Z",
     "2026-12-02T00:00:00Z"},
    /* by the day of the week; it belongs to the day it starts on */
    {"Sun 02:00-04:00", "2026-11-15T03:00:00Z", "2026-11-15T04:00:00Z", "2026-11-22T02:00:00Z",
     "2026-11-22T04:00:00Z"},
    {"Sun 02:00-04:00", "2026-11-16T03:00:00Z", NULL, "2026-11-22T02:00:00Z",
     "2026-11-22T04:00:00Z"},
    {"Sat 22:00-06:00", "2026-11-15T05:00:00Z", "2026-11-15T06:00:00Z", "2026-11-21T22:00:00Z",
     "2026-11-22T06:00:00Z"},
    {"Sat 22:00-06:00", "2026-11-14T05:00:00Z", NULL, "2026-11-14T22:00:00Z",
     "2026-11-15T06:00:00Z"},
    {"Sat,Sun 02:00-04:00", "2026-11-14T12:00:00Z", NULL, "2026-11-15T02:00:00Z",
     "2026-11-15T04:00:00Z"},
    {"mon-FRI 02:00-04:00", "2026-11-14T03:00:00Z", NULL, "2026-11-16T02:00:00Z",
     "2026-11-16T04:00:00Z"},
    {"Fri-Mon 02:00-04:00", "2026-11-15T03:00:00Z", "2026-11-15T04:00:00Z", "2026-11-16T02:00:00Z",
     "2026-11-16T04:00:00Z"},
    {"Fri-Mon 02:00-04:00", "2026-11-17T03:00:00Z", NULL, "2026-11-20T02:00:00Z",
     "2026-11-20T04:00:00Z"},
    {"Wed, Sat 02:00-04:00", "2026-11-15T03:00:00Z", NULL, "2026-11-18T02:00:00Z",
     "2026-11-18T04:00:00Z"},
    /* once */
    {"2026-11-20T02:00Z/2026-11-20T04:00Z", "2026-11-15T03:00:00Z", NULL, "2026-11-20T02:00:00Z",
     "2026-11-20T04:00:00Z"},
    {"2026-11-20T02:00Z/2026-11-20T04:00Z", "2026-11-20T02:00:00Z", "2026-11-20T04:00:00Z", NULL,
     NULL},
    {"2026-11-20T02:00Z/2026-11-20T04:00Z", "2026-11-20T04:00:00Z", NULL, NULL, NULL},
    {"2026-11-20T02:00:30Z/2026-11-22T04:00:00.500Z", "2026-11-21T00:00:00Z",
     "2026-11-22T04:00:00.500Z", NULL, NULL},
    {"2026-01-01T00:00Z/2027-01-01T00:00Z", "2026-03-01T00:00:00Z", "2027-01-01T00:00:00Z", NULL,
     NULL},
    /* several: the first of them; what overlaps or follows on is one */
    {"02:00-04:00; Sun 12:00-13:00", "2026-11-15T05:00:00Z", NULL, "2026-11-15T12:00:00Z",
     "2026-11-15T13:00:00Z"},
    {"02:00-04:00;03:00-05:00", "2026-11-15T02:30:00Z", "2026-11-15T05:00:00Z",
     "2026-11-16T02:00:00Z", "2026-11-16T05:00:00Z"},
    {"04:00-05:00;02:00-04:00", "2026-11-15T02:30:00Z", "2026-11-15T05:00:00Z",
     "2026-11-16T02:00:00Z", "2026-11-16T05:00:00Z"},
    {"Sat 00:00-24:00;Sun 00:00-24:00", "2026-11-13T12:00:00Z", NULL, "2026-11-14T00:00:00Z",
     "2026-11-16T00:00:00Z"},
    {"2026-11-15T04:00Z/2026-11-15T06:00Z;02:00-04:00;", "2026-11-15T03:00:00Z",
     "2026-11-15T06:00:00Z", "2026-11-16T02:00:00Z", "2026-11-16T04:00:00Z"},
};

static void check(size_t i, const char *what, int64_t got, const char *want)
{
    char text[DF_TIME_LEN + 1] = "none";
    if (got >= 0)
        df_time_format(got, text);
    if (got != at(want))
        fail_msg("\"%s\" at %s, %s: %s", times[i].windows, times[i].now, what, text);
}

static void windows_begin_and_end(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(times); i++) {
        struct df_maintenance m = {0};
        struct df_err err = DF_ERR_INIT;
        if (df_maintenance_add(&m, df_str_c(times[i].windows), &err) != DF_OK)
            fail_msg("\"%s\": %s", times[i].windows, err.detail);
        struct df_maintenance_times t = df_maintenance_next(&m, at(times[i].now));
        check(i, "until", t.until_ms, times[i].until);
        check(i, "next", t.next_ms, times[i].next);
        check(i, "next until", t.next_ms < 0 ? -1 : df_maintenance_next(&m, t.next_ms).until_ms,
              times[i].next_until);
    }
}

static void windows_without_an_end_are_told_a_month_ahead(void **state)
{
    static const char *const endless[] = {"00:00-24:00", "12:00-00:00;00:00-12:00",
                                          "Sun-Sat 00:00-24:00"};
    (void)state;
    for (size_t i = 0; i < LEN(endless); i++) {
        struct df_maintenance m = {0};
        assert_int_equal(df_maintenance_add(&m, df_str_c(endless[i]), NULL), DF_OK);
        int64_t now = at("2026-11-15T03:00:00Z");
        int64_t days = (df_maintenance_next(&m, now).until_ms - now) / 86400000;
        assert_in_range(days, 30, 32);
    }
}

static void what_is_no_window_is_refused(void **state)
{
    static const char *const bad[] = {
        "x",
        "02:00",
        "02:00-",
        "-04:00",
        "2:00-4:00",
        "02:00 - 04:00",
        "02:00-02:00",
        "24:00-02:00",
        "02:00-24:01",
        "02:60-03:00",
        "25:00-26:00",
        "-1:00-02:00",
        "Sunday 02:00-04:00",
        "Sun",
        "Sun,",
        "Sun, 02:00-04:00",
        ",Sun 02:00-04:00",
        "Mon-Tue-Wed 02:00-04:00",
        "Sun 02:00-04:00 Sat",
        "2026-11-20T02:00/2026-11-20T04:00",
        "2026-11-20T02:00Z",
        "2026-11-20T02:00Z/",
        "/2026-11-20T02:00Z",
        "2026-11-20T04:00Z/2026-11-20T02:00Z",
        "2026-11-20T04:00Z/2026-11-20T04:00Z",
        "2026-02-30T02:00Z/2026-03-20T04:00Z",
        "2026-11-20T02:00-03:00/2026-11-20T04:00-03:00",
        "2026-11-20/2026-11-21",
        "02:00-04:00;x",
        "02:00-04:00,05:00-06:00",
    };
    (void)state;
    for (size_t i = 0; i < LEN(bad); i++) {
        struct df_maintenance m = {.count = 1};
        struct df_err err = DF_ERR_INIT;
        if (df_maintenance_add(&m, df_str_c(bad[i]), &err) != DF_E_VALIDATION)
            fail_msg("\"%s\" was taken", bad[i]);
        assert_int_equal(m.count, 1);
        assert_true(strlen(err.detail) > 0);
    }
}

static void the_window_in_force_has_begun_at(void **state)
{
    static const struct {
        const char *windows, *now, *since;
    } cases[] = {
        {"02:00-04:00", "2026-11-15T01:00:00Z", NULL},
        {"02:00-04:00", "2026-11-15T03:00:00Z", "2026-11-15T02:00:00Z"},
        {"23:00-01:00", "2027-01-01T00:30:00Z", "2026-12-31T23:00:00Z"},
        {"Sat 22:00-06:00", "2026-11-15T05:00:00Z", "2026-11-14T22:00:00Z"},
        {"02:00-04:00; 01:00-05:00", "2026-11-15T03:00:00Z", "2026-11-15T01:00:00Z"},
        {"2026-11-10T00:00Z/2026-11-20T00:00Z; 02:00-04:00", "2026-11-15T03:00:00Z",
         "2026-11-10T00:00:00Z"},
    };
    (void)state;
    for (size_t i = 0; i < LEN(cases); i++) {
        struct df_maintenance m = {0};
        assert_int_equal(df_maintenance_add(&m, df_str_c(cases[i].windows), NULL), DF_OK);
        check(i, "since", df_maintenance_next(&m, at(cases[i].now)).since_ms, cases[i].since);
    }
}

static void windows_are_bounded(void **state)
{
    struct df_maintenance m = {0};
    (void)state;
    for (int i = 0; i < DF_MAINTENANCE_MAX; i++)
        assert_int_equal(df_maintenance_add(&m, DF_STR("02:00-04:00"), NULL), DF_OK);
    assert_int_equal(df_maintenance_add(&m, DF_STR("02:00-04:00"), NULL), DF_E_VALIDATION);
    assert_int_equal(df_maintenance_add(&m, DF_STR(" ; "), NULL), DF_OK);
    assert_int_equal(m.count, DF_MAINTENANCE_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_begin_and_end),
        cmocka_unit_test(the_window_in_force_has_begun_at),
        cmocka_unit_test(windows_without_an_end_are_told_a_month_ahead),
        cmocka_unit_test(what_is_no_window_is_refused),
        cmocka_unit_test(windows_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* policy.h: what is refused, in which order, and what has to wait until when. 2026-11-15 is a
 * Sunday; Sao Paulo is at UTC-3 since 2019, New York changes its clocks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "imports/policy.h"

#include <stdio.h>

#define LEN(a) (sizeof(a) / sizeof((a)[0]))
#define MB     DF_POLICY_MB

static struct df_zone *sao_paulo, *new_york;

static int open_zones(void **state)
{
    struct df_err err = DF_ERR_INIT;
    (void)state;
    assert_int_equal(df_zone_open("America/Sao_Paulo", &sao_paulo, &err), DF_OK);
    assert_int_equal(df_zone_open("America/New_York", &new_york, &err), DF_OK);
    return 0;
}

static int close_zones(void **state)
{
    (void)state;
    df_zone_free(sao_paulo);
    df_zone_free(new_york);
    return 0;
}

static int64_t at(const char *iso)
{
    int64_t ms;
    if (!iso)
        return -1;
    if (!df_time_parse(df_str_c(iso), &ms))
        fail_msg("%s is no time", iso);
    return ms;
}

/* "key=value key=value", the last one up to the text's end: a window has blanks. */
static void set(struct df_policy *p, const char *text)
{
    struct df_policy_patch patch = {0};
    df_policy_init(p);
    df_policy_init(&patch.values);
    struct df_str rest = df_str_c(text);
    while (rest.len > 0) {
        struct df_str pair = rest, key;
        if (!df_str_starts(rest, DF_STR("maintenanceWindow")))
            rest = df_str_cut(rest, ' ', &pair);
        else
            rest = DF_STR_NULL;
        struct df_str value = df_str_cut(pair, '=', &key);
        enum df_policy_field f;
        struct df_err err = DF_ERR_INIT;
        if (!df_policy_field_find(key, &f) || df_policy_patch_set(&patch, f, value, &err) != DF_OK)
            fail_msg("%s: %s", text, err.detail);
    }
    *p = patch.values;
}

/* --- what is refused --- */

static const struct {
    const char *policy;
    const char *now;
    int64_t uploads, batches, stored, size;
    enum df_code code;
    int64_t retry_after_s;
} admissions[] = {
    /* no policy, no limit */
    {"", "2026-11-16T12:00:00Z", 1000, 100000, INT64_MAX / 2, INT64_MAX / 2, DF_OK, 0},
    /* maintenance comes first */
    {"concurrentUploads=1 maxFileSizeMb=1 maintenanceWindow=02:00-04:00",
     "2026-11-16T02:00:00.001Z", 5, 0, 0, 9 * MB, DF_E_MAINTENANCE_WINDOW, 7200},
    {"maintenanceWindow=02:00-04:00", "2026-11-16T03:59:59.999Z", 0, 0, 0, 0,
     DF_E_MAINTENANCE_WINDOW, 1},
    {"maintenanceWindow=02:00-04:00", "2026-11-16T04:00:00Z", 0, 0, 0, 0, DF_OK, 0},
    {"maintenanceWindow=Sun 02:00-04:00", "2026-11-16T03:00:00Z", 0, 0, 0, 0, DF_OK, 0},
    /* then uploads at a time */
    {"concurrentUploads=2", "2026-11-16T12:00:00Z", 1, 0, 0, 0, DF_OK, 0},
    {"concurrentUploads=2 maxFileSizeMb=1", "2026-11-16T12:00:00Z", 2, 0, 0, 9 * MB,
     DF_E_CONCURRENT_UPLOADS, DF_POLICY_UPLOAD_RETRY_S},
    /* then the size */
    {"maxFileSizeMb=1", "2026-11-16T12:00:00Z", 0, 0, 0, MB, DF_OK, 0},
    {"maxFileSizeMb=1 maxBatchPerDay=1", "2026-11-16T12:00:00Z", 0, 1, 0, MB + 1,
     DF_E_MAX_FILE_SIZE, 0},
    /* then the day's batches; the day ends at 03:00 UTC */
    {"maxBatchPerDay=3", "2026-11-16T12:00:00Z", 0, 2, 0, 0, DF_OK, 0},
    {"maxBatchPerDay=3 tempStorageQuotaMb=1", "2026-11-16T12:00:00Z", 0, 3, 9 * MB, 0,
     DF_E_MAX_BATCH_PER_DAY, 15 * 3600},
    {"maxBatchPerDay=3", "2026-11-17T02:59:59.500Z", 0, 3, 0, 0, DF_E_MAX_BATCH_PER_DAY, 1},
    /* then the room */
    {"tempStorageQuotaMb=10", "2026-11-16T12:00:00Z", 0, 0, 9 * MB, MB, DF_OK, 0},
    {"tempStorageQuotaMb=10", "2026-11-16T12:00:00Z", 0, 0, 9 * MB, MB + 1, DF_E_TEMP_STORAGE_QUOTA,
     0},
    {"tempStorageQuotaMb=10", "2026-11-16T12:00:00Z", 0, 0, 10 * MB, 0, DF_E_TEMP_STORAGE_QUOTA, 0},
    {"tempStorageQuotaMb=10", "2026-11-16T12:00:00Z", 0, 0, 99 * MB, 0, DF_E_TEMP_STORAGE_QUOTA, 0},
};

static void rules_refuse_in_the_contracts_order(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(admissions); i++) {
        struct df_policy p;
        set(&p, admissions[i].policy);
        struct df_policy_facts f = {.policy = &p,
                                    .zone = sao_paulo,
                                    .now_ms = at(admissions[i].now),
                                    .uploads = admissions[i].uploads,
                                    .batches_today = admissions[i].batches,
                                    .stored_bytes = admissions[i].stored,
                                    .size_bytes = admissions[i].size};
        struct df_err err = DF_ERR_INIT;
        int64_t retry_after_s = -1;
        enum df_code code = df_policy_admit(&f, &retry_after_s, &err);
        if (code != admissions[i].code || retry_after_s != admissions[i].retry_after_s)
            fail_msg("%zu: %s at %s: %s, again in %lld s", i, admissions[i].policy,
                     admissions[i].now, df_code_name(code), (long long)retry_after_s);
        if (code != DF_OK)
            assert_non_null(strstr(err.detail, "again") ? err.detail
                                                        : strstr(err.detail, "smaller files"));
    }
}

static void codes_name_the_rule(void **state)
{
    (void)state;
    assert_string_equal(df_code_name(DF_E_MAX_FILE_SIZE), "MaxFileSizeMb");
    assert_int_equal(df_code_http(DF_E_MAX_FILE_SIZE), 409);
    assert_string_equal(df_code_name(DF_E_MAX_BATCH_PER_DAY), "MaxBatchPerDay");
    assert_int_equal(df_code_http(DF_E_MAX_BATCH_PER_DAY), 409);
    assert_string_equal(df_code_name(DF_E_TEMP_STORAGE_QUOTA), "TempStorageQuotaMb");
    assert_int_equal(df_code_http(DF_E_TEMP_STORAGE_QUOTA), 409);
    assert_string_equal(df_code_name(DF_E_CONCURRENT_UPLOADS), "ConcurrentUploads");
    assert_int_equal(df_code_http(DF_E_CONCURRENT_UPLOADS), 429);
    assert_string_equal(df_code_name(DF_E_MAINTENANCE_WINDOW), "MaintenanceWindow");
    assert_int_equal(df_code_http(DF_E_MAINTENANCE_WINDOW), 503);
}

/* Also where each goes on in the other. */
static void the_servers_windows_and_the_clients_both_count(void **state)
{
    struct df_maintenance server = {0};
    struct df_policy p;
    (void)state;
    assert_int_equal(df_maintenance_add(&server, DF_STR("02:00-04:00;05:00-06:00"), NULL), DF_OK);
    set(&p, "maintenanceWindow=04:00-05:00;06:00-06:30");
    struct df_policy_facts f = {
        .policy = &p, .maintenance = &server, .now_ms = at("2026-11-16T02:30:00Z")};
    int64_t retry_after_s;
    assert_int_equal(df_policy_admit(&f, &retry_after_s, NULL), DF_E_MAINTENANCE_WINDOW);
    assert_int_equal(retry_after_s, 4 * 3600);
    f.now_ms = at("2026-11-16T06:30:00Z");
    assert_int_equal(df_policy_admit(&f, &retry_after_s, NULL), DF_OK);
}

/* A row that was not written by us. */
static void a_window_that_cannot_be_read_is_none(void **state)
{
    struct df_policy p;
    int64_t retry_after_s;
    (void)state;
    df_policy_init(&p);
    snprintf(p.maintenance_window, sizeof p.maintenance_window, "02:00-04:00;every other Sunday");
    struct df_policy_facts f = {.policy = &p, .now_ms = at("2026-11-16T03:00:00Z")};
    assert_int_equal(df_policy_admit(&f, &retry_after_s, NULL), DF_OK);
}

static void the_limit_is_where_the_size_is_refused(void **state)
{
    static const struct {
        const char *policy;
        int64_t stored, limit;
    } cases[] = {
        {"", 0, INT64_MAX},
        {"maxFileSizeMb=3", 0, 3 * MB},
        {"tempStorageQuotaMb=5", 2 * MB, 3 * MB},
        {"maxFileSizeMb=3 tempStorageQuotaMb=5", MB, 3 * MB},
        {"maxFileSizeMb=3 tempStorageQuotaMb=5", 4 * MB, MB},
        {"tempStorageQuotaMb=5", 9 * MB, 0},
        {"maxFileSizeMb=1048576", 0, MB * MB},
    };
    (void)state;
    for (size_t i = 0; i < LEN(cases); i++) {
        struct df_policy p;
        set(&p, cases[i].policy);
        struct df_policy_facts f = {.policy = &p, .stored_bytes = cases[i].stored};
        int64_t limit = df_policy_size_limit(&f);
        assert_int_equal(limit, cases[i].limit);
        f.size_bytes = limit;
        if (limit > 0)
            assert_int_equal(df_policy_check_size(&f, NULL), DF_OK);
        if (limit == INT64_MAX)
            continue;
        f.size_bytes = limit + 1;
        assert_int_not_equal(df_policy_check_size(&f, NULL), DF_OK);
    }
}

static void a_day_is_the_business_zones(void **state)
{
    static const struct {
        const char *zone, *now, *start, *end;
    } days[] = {
        {"SP", "2026-11-16T02:59:59Z", "2026-11-15T03:00:00Z", "2026-11-16T03:00:00Z"},
        {"SP", "2026-11-16T03:00:00Z", "2026-11-16T03:00:00Z", "2026-11-17T03:00:00Z"},
        {"SP", "2027-01-01T01:00:00Z", "2026-12-31T03:00:00Z", "2027-01-01T03:00:00Z"},
        /* 25 and 23 hours; and a day that had no midnight */
        {"NY", "2026-11-01T12:00:00Z", "2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z"},
        {"NY", "2026-03-08T12:00:00Z", "2026-03-08T05:00:00Z", "2026-03-09T04:00:00Z"},
        {"SP", "2018-11-04T12:00:00Z", "2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z"},
        {"SP", "2018-02-18T02:30:00Z", "2018-02-17T02:00:00Z", "2018-02-18T03:00:00Z"},
        {"", "2026-11-16T02:59:59Z", "2026-11-16T00:00:00Z", "2026-11-17T00:00:00Z"},
    };
    (void)state;
    for (size_t i = 0; i < LEN(days); i++) {
        const struct df_zone *z = days[i].zone[0] == 'S'   ? sao_paulo
                                  : days[i].zone[0] == 'N' ? new_york
                                                           : NULL;
        int64_t start, end;
        df_policy_day(z, at(days[i].now), &start, &end);
        if (start != at(days[i].start) || end != at(days[i].end))
            fail_msg("%s %s: %lld to %lld", days[i].zone, days[i].now, (long long)start,
                     (long long)end);
    }
}

/* --- what has to wait --- */

#define HOURS    "AllowedStartHour"
#define REQUIRED "RequireSchedulingForLarge"
#define BUSINESS "BusinessHoursOnly"

static const struct {
    const char *policy, *zone, *now;
    int64_t size_mb;
    const char *rule, *when; /* NULL: at once */
} schedules[] = {
    {"", "SP", "2026-11-16T15:00:00Z", 1000, NULL, NULL},

    /* allowed hours, UTC */
    {"allowedStartHour=8 allowedEndHour=18", "SP", "2026-11-16T07:59:59.999Z", 1, HOURS,
     "2026-11-16T08:00:00Z"},
    {"allowedStartHour=8 allowedEndHour=18", "SP", "2026-11-16T08:00:00Z", 1, NULL, NULL},
    {"allowedStartHour=8 allowedEndHour=18", "SP", "2026-11-16T17:59:59.999Z", 1, NULL, NULL},
    {"allowedStartHour=8 allowedEndHour=18", "SP", "2026-11-16T18:00:00Z", 1, HOURS,
     "2026-11-17T08:00:00Z"},
    {"allowedStartHour=8 allowedEndHour=18", "SP", "2026-12-31T20:00:00Z", 1, HOURS,
     "2027-01-01T08:00:00Z"},
    {"allowedStartHour=8 allowedEndHour=18", "SP", "2028-02-28T20:00:00Z", 1, HOURS,
     "2028-02-29T08:00:00Z"},
    /* over midnight */
    {"allowedStartHour=22 allowedEndHour=6", "SP", "2026-11-16T21:59:00Z", 1, HOURS,
     "2026-11-16T22:00:00Z"},
    {"allowedStartHour=22 allowedEndHour=6", "SP", "2026-11-16T23:00:00Z", 1, NULL, NULL},
    {"allowedStartHour=22 allowedEndHour=6", "SP", "2027-01-01T05:59:59Z", 1, NULL, NULL},
    {"allowedStartHour=22 allowedEndHour=6", "SP", "2027-01-01T06:00:00Z", 1, HOURS,
     "2027-01-01T22:00:00Z"},
    {"allowedStartHour=22 allowedEndHour=0", "SP", "2026-11-16T23:59:59Z", 1, NULL, NULL},
    {"allowedStartHour=22 allowedEndHour=0", "SP", "2026-11-17T00:00:00Z", 1, HOURS,
     "2026-11-17T22:00:00Z"},
    /* 24; one of the two; the same hour twice is the whole day */
    {"allowedStartHour=20 allowedEndHour=24", "SP", "2026-11-16T23:59:59Z", 1, NULL, NULL},
    {"allowedStartHour=20 allowedEndHour=24", "SP", "2026-11-17T00:00:00Z", 1, HOURS,
     "2026-11-17T20:00:00Z"},
    {"allowedStartHour=20", "SP", "2026-11-16T19:00:00Z", 1, HOURS, "2026-11-16T20:00:00Z"},
    {"allowedEndHour=6", "SP", "2026-11-16T06:00:00Z", 1, HOURS, "2026-11-17T00:00:00Z"},
    {"allowedStartHour=0 allowedEndHour=24", "SP", "2026-11-16T00:00:00Z", 1, NULL, NULL},
    {"allowedStartHour=8 allowedEndHour=8", "SP", "2026-11-16T07:00:00Z", 1, NULL, NULL},
    {"allowedStartHour=8 allowedEndHour=8", "SP", "2026-11-16T08:00:00Z", 1, NULL, NULL},

    /* large in business hours: Monday to Friday, 8 to 18 = 11:00 to 21:00 UTC */
    {"businessHoursOnly=true largeThresholdMb=10", "SP", "2026-11-16T15:00:00Z", 10, NULL, NULL},
    {"businessHoursOnly=true largeThresholdMb=10", "SP", "2026-11-16T15:00:00Z", 11, BUSINESS,
     "2026-11-16T21:00:00Z"},
    {"businessHoursOnly=true", "SP", "2026-11-16T15:00:00Z", 50, NULL, NULL},
    {"businessHoursOnly=true", "SP", "2026-11-16T15:00:00Z", 51, BUSINESS, "2026-11-16T21:00:00Z"},
    {"businessHoursOnly=false largeThresholdMb=10", "SP", "2026-11-16T15:00:00Z", 11, NULL, NULL},
    {"largeThresholdMb=10", "SP", "2026-11-16T15:00:00Z", 11, NULL, NULL},
    {"businessHoursOnly=true largeThresholdMb=10", "SP", "2026-11-16T10:59:59.999Z", 11, NULL,
     NULL},
    {"businessHoursOnly=true largeThresholdMb=10", "SP", "2026-11-16T11:00:00Z", 11, BUSINESS,
     "2026-11-16T21:00:00Z"},
    {"businessHoursOnly=true largeThresholdMb=10", "SP", "2026-11-16T21:00:00Z", 11, NULL, NULL},
    {"businessHoursOnly=true largeThresholdMb=10", "SP", "2026-11-14T15:00:00Z", 11, NULL, NULL},
    {"businessHoursOnly=true largeThresholdMb=10", "SP", "2026-11-15T15:00:00Z", 11, NULL, NULL},
    {"businessHoursOnly=true largeThresholdMb=10", "SP", "2026-11-20T20:59:59Z", 11, BUSINESS,
     "2026-11-20T21:00:00Z"},
    {"businessHoursOnly=true largeThresholdMb=0 businessStartHour=9 businessEndHour=12", "SP",
     "2026-11-16T14:00:00Z", 1, BUSINESS, "2026-11-16T15:00:00Z"},
    /* a night shift belongs to the day it starts on: Friday's ends on Saturday, Sunday has none */
    {"businessHoursOnly=true largeThresholdMb=0 businessStartHour=22 businessEndHour=6", "SP",
     "2026-11-21T05:00:00Z", 1, BUSINESS, "2026-11-21T09:00:00Z"},
    {"businessHoursOnly=true largeThresholdMb=0 businessStartHour=22 businessEndHour=6", "SP",
     "2026-11-16T05:00:00Z", 1, NULL, NULL},
    /* all day, all week: the weekend is left, and begins there, not here */
    {"businessHoursOnly=true largeThresholdMb=0 businessStartHour=0 businessEndHour=24", "SP",
     "2026-11-16T15:00:00Z", 1, BUSINESS, "2026-11-21T03:00:00Z"},
    /* clocks that change: New York, 8 to 18 is 13:00-23:00 UTC in winter, 12:00-22:00 in summer */
    {"businessHoursOnly=true largeThresholdMb=0", "NY", "2026-03-06T22:30:00Z", 1, BUSINESS,
     "2026-03-06T23:00:00Z"},
    {"businessHoursOnly=true largeThresholdMb=0", "NY", "2026-03-09T22:30:00Z", 1, NULL, NULL},
    {"businessHoursOnly=true largeThresholdMb=0", "NY", "2026-03-09T12:00:00Z", 1, BUSINESS,
     "2026-03-09T22:00:00Z"},
    {"businessHoursOnly=true largeThresholdMb=0", "NY", "2026-10-30T22:30:00Z", 1, NULL, NULL},
    {"businessHoursOnly=true largeThresholdMb=0", "NY", "2026-11-02T22:30:00Z", 1, BUSINESS,
     "2026-11-02T23:00:00Z"},
    /* Sao Paulo before 2019: UTC-2 from November to February */
    {"businessHoursOnly=true largeThresholdMb=0", "SP", "2018-11-05T20:30:00Z", 1, NULL, NULL},
    {"businessHoursOnly=true largeThresholdMb=0", "SP", "2018-11-02T20:30:00Z", 1, BUSINESS,
     "2018-11-02T21:00:00Z"},
    {"businessHoursOnly=true largeThresholdMb=0", "SP", "2018-12-31T19:00:00Z", 1, BUSINESS,
     "2018-12-31T20:00:00Z"},

    /* both: the end of business hours, and then the next allowed hour */
    {"businessHoursOnly=true largeThresholdMb=0 allowedStartHour=2 allowedEndHour=16", "SP",
     "2026-11-16T15:00:00Z", 1, BUSINESS, "2026-11-17T02:00:00Z"},
    /* allowed hours within business hours: for large files the weekend is left */
    {"businessHoursOnly=true largeThresholdMb=0 allowedStartHour=12 allowedEndHour=20", "SP",
     "2026-11-16T15:00:00Z", 1, BUSINESS, "2026-11-21T12:00:00Z"},
    {"businessHoursOnly=true largeThresholdMb=0 allowedStartHour=12 allowedEndHour=20", "SP",
     "2026-11-16T22:00:00Z", 1, HOURS, "2026-11-21T12:00:00Z"},
    {"businessHoursOnly=true largeThresholdMb=10 allowedStartHour=12 allowedEndHour=20", "SP",
     "2026-11-16T22:00:00Z", 1, HOURS, "2026-11-17T12:00:00Z"},

    /* scheduling required: outside business hours, and never at once */
    {"requireSchedulingForLarge=true largeThresholdMb=10", "SP", "2026-11-16T15:00:00Z", 10, NULL,
     NULL},
    {"requireSchedulingForLarge=true largeThresholdMb=10", "SP", "2026-11-16T15:00:00Z", 11,
     REQUIRED, "2026-11-16T21:00:00Z"},
    {"requireSchedulingForLarge=true largeThresholdMb=10", "SP", "2026-11-16T23:10:00Z", 11,
     REQUIRED, "2026-11-17T00:00:00Z"},
    {"requireSchedulingForLarge=true largeThresholdMb=10", "SP", "2026-11-16T23:00:00Z", 11,
     REQUIRED, "2026-11-17T00:00:00Z"},
    {"requireSchedulingForLarge=true largeThresholdMb=10", "SP", "2026-11-16T10:30:00Z", 11,
     REQUIRED, "2026-11-16T21:00:00Z"},
    {"requireSchedulingForLarge=true largeThresholdMb=10", "SP", "2026-12-31T23:30:00Z", 11,
     REQUIRED, "2027-01-01T00:00:00Z"},
    {"requireSchedulingForLarge=true", "SP", "2026-11-16T23:10:00Z", 51, REQUIRED,
     "2026-11-17T00:00:00Z"},
    {"requireSchedulingForLarge=true", "SP", "2026-11-16T23:10:00Z", 50, NULL, NULL},
    {"requireSchedulingForLarge=true largeThresholdMb=0 allowedStartHour=1 allowedEndHour=5", "SP",
     "2026-11-16T02:10:00Z", 1, REQUIRED, "2026-11-16T03:00:00Z"},
    {"requireSchedulingForLarge=true largeThresholdMb=0 allowedStartHour=1 allowedEndHour=5", "SP",
     "2026-11-16T04:10:00Z", 1, REQUIRED, "2026-11-17T01:00:00Z"},

    /* whoever waits does not wait for a maintenance window; it alone makes nobody wait */
    {"allowedStartHour=2 allowedEndHour=6 maintenanceWindow=02:00-03:30", "SP",
     "2026-11-16T01:00:00Z", 1, HOURS, "2026-11-16T03:30:00Z"},
    {"allowedStartHour=2 allowedEndHour=6 maintenanceWindow=02:00-07:00", "SP",
     "2026-11-16T01:00:00Z", 1, HOURS, NULL},
    {"maintenanceWindow=02:00-04:00", "SP", "2026-11-16T03:00:00Z", 1, NULL, NULL},
};

static void check_schedule(size_t i)
{
    struct df_policy p;
    set(&p, schedules[i].policy);
    struct df_policy_facts f = {.policy = &p,
                                .zone = schedules[i].zone[0] == 'S' ? sao_paulo : new_york,
                                .now_ms = at(schedules[i].now),
                                .size_bytes = schedules[i].size_mb * MB};
    struct df_policy_decision d = df_policy_schedule(&f);
    char when[DF_TIME_LEN + 1] = "at once";
    if (d.scheduled)
        df_time_format(d.scheduled_for_ms, when);
    bool same_rule = d.rule && schedules[i].rule ? strcmp(d.rule, schedules[i].rule) == 0
                                                 : !d.rule && !schedules[i].rule;
    /* A rule without a time: there is none, and after two months it is let go. */
    bool same_time = schedules[i].rule && !schedules[i].when
                         ? d.scheduled_for_ms >= f.now_ms + INT64_C(62) * 86400000
                         : d.scheduled_for_ms == at(schedules[i].when);
    if (d.scheduled != (schedules[i].rule != NULL) || !same_rule || !same_time)
        fail_msg("%zu: %s, %s, %lld MB: %s by %s", i, schedules[i].policy, schedules[i].now,
                 (long long)schedules[i].size_mb, when, d.rule ? d.rule : "no rule");
}

static void files_wait_for_the_first_moment_that_suits(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(schedules); i++)
        check_schedule(i);
}

/* By brute force, minute by minute over the week of a change of clocks. */
static void the_moment_is_the_first(void **state)
{
    struct df_policy p;
    (void)state;
    set(&p, "businessHoursOnly=true largeThresholdMb=0 allowedStartHour=20 allowedEndHour=13 "
            "maintenanceWindow=Tue 22:00-23:30");
    struct df_policy_facts f = {.policy = &p, .zone = new_york, .size_bytes = MB};
    int64_t suits = at("2026-03-16T00:00:00Z"); /* allowed, and off business */
    for (int64_t t = suits; t >= at("2026-03-05T00:00:00Z"); t -= 60000) {
        f.now_ms = t;
        struct df_policy_decision d = df_policy_schedule(&f);
        if (!d.scheduled) {
            int64_t retry_after_s;
            if (df_policy_admit(&f, &retry_after_s, NULL) == DF_OK)
                suits = t;
            continue;
        }
        assert_int_equal(d.scheduled_for_ms, suits);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_refuse_in_the_contracts_order),
        cmocka_unit_test(codes_name_the_rule),
        cmocka_unit_test(the_servers_windows_and_the_clients_both_count),
        cmocka_unit_test(a_window_that_cannot_be_read_is_none),
        cmocka_unit_test(the_limit_is_where_the_size_is_refused),
        cmocka_unit_test(a_day_is_the_business_zones),
        cmocka_unit_test(files_wait_for_the_first_moment_that_suits),
        cmocka_unit_test(the_moment_is_the_first),
    };
    return cmocka_run_group_tests(tests, open_zones, close_zones);
}

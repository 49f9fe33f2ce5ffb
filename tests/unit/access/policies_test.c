#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "access/audit_list.h"
#include "access/clients.h"
#include "access/policies.h"
#include "fake_clock.h"
#include "store/schema.h"

#include "testdb.h"

/* The same operations over HTTP and by the command line: tests/integration/access/test_policies.py.
 */

#define LEN(a) (sizeof(a) / sizeof((a)[0]))

static enum df_dialect dialect; /* of the group that runs */
static struct testdb test;
static struct df_db *db;
static struct df_fake_clock clock_;
static const struct df_actor tester = {.name = {"tester", 6}, .ip = {"192.0.2.1", 9}};

static int open_db(void **state)
{
    (void)state;
    struct df_err err = DF_ERR_INIT;
    testdb_init(&test, dialect);
    db = testdb_open(&test);
    assert_ok(df_schema_apply(db, NULL, &err), &err);
    df_fake_clock_init(&clock_, 1700000000000, 42);
    return 0;
}

static int close_db(void **state)
{
    (void)state;
    df_db_close(db);
    testdb_release(&test);
    return 0;
}

static struct df_client add(const char *identifier)
{
    struct df_err err = DF_ERR_INIT;
    struct df_client c = {.id = df_uuid_v7(&clock_.base), .scopes = DF_SCOPES_ALL};
    struct df_secret_hash h = {0};
    snprintf(c.identifier, sizeof c.identifier, "%s", identifier);
    snprintf(c.name, sizeof c.name, "%s", identifier);
    assert_ok(df_client_insert(db, &c, &h, &tester, df_wall_ms(&clock_.base), &err), &err);
    return c;
}

static void give(struct df_policy_patch *patch, const char *name, const char *value)
{
    enum df_policy_field f;
    struct df_err err = DF_ERR_INIT;
    assert_true(df_policy_field_find(df_str_c(name), &f));
    assert_ok(df_policy_patch_set(patch, f, df_str_c(value), &err), &err);
}

static void write_policy(const struct df_policy *p, char *text, size_t size)
{
    struct df_buf out;
    struct df_json_out json;
    df_buf_init(&out, size - 1);
    df_json_out_init(&json, &out);
    df_policy_write_json(DF_STR("x"), p, &json);
    snprintf(text, size, "%s", df_buf_str(&out).ptr);
    df_buf_release(&out);
}

/* What is told is what is stored. */
static struct df_policy change(const char *identifier, const struct df_policy_patch *patch)
{
    struct df_err err = DF_ERR_INIT;
    struct df_uuid id;
    struct df_policy p, read;
    assert_ok(df_db_begin(db, true, &err), &err);
    assert_ok(
        df_policy_change(db, df_str_c(identifier), patch, &tester, &clock_.base, &id, &p, &err),
        &err);
    assert_ok(df_db_commit(db, &err), &err);
    assert_ok(df_policy_get(db, df_str_c(identifier), NULL, &read, &err), &err);
    char told[4000], stored[4000];
    write_policy(&p, told, sizeof told);
    write_policy(&read, stored, sizeof stored);
    assert_string_equal(told, stored);
    return p;
}

/* How many rows the audit log has, and what the newest says. */
static int64_t audit(char *newest, size_t size)
{
    struct df_err err = DF_ERR_INIT;
    struct df_buf out;
    struct df_json_out json;
    const struct df_audit_filter all = {0};
    struct df_audit_page page = {.limit = 1};
    df_buf_init(&out, 1 << 20);
    df_json_out_init(&json, &out);
    assert_ok(df_audit_json(db, &all, &page, &json, &err), &err);
    assert_ok(df_audit_count(db, &all, &page, &err), &err);
    snprintf(newest, size, "%s", df_buf_str(&out).ptr);
    df_buf_release(&out);
    return page.total;
}

/* --- fields --- */

static void fields_are_found_by_both_names(void **state)
{
    (void)state;
    for (int i = 0; i < DF_POLICY_FIELD_COUNT; i++) {
        enum df_policy_field f;
        const char *column = df_policy_field_column((enum df_policy_field)i);
        const char *name = df_policy_field_name((enum df_policy_field)i);
        assert_true(df_policy_field_find(df_str_c(column), &f) && (int)f == i);
        assert_true(df_policy_field_find(df_str_c(name), &f) && (int)f == i);
        assert_int_equal(name[0], column[0] | 0x20);
        assert_string_equal(name + 1, column + 1);
    }
    enum df_policy_field f;
    assert_false(df_policy_field_find(DF_STR(""), &f));
    assert_false(df_policy_field_find(DF_STR("maxFileSize"), &f));
    assert_false(df_policy_field_find(DF_STR("Id"), &f));
    assert_false(df_policy_field_find(DF_STR("CreatedAt"), &f));
}

static const struct {
    const char *name, *value;
} bad_values[] = {
    {"maxFileSizeMb", "0"},
    {"maxFileSizeMb", "-1"},
    {"maxFileSizeMb", "1048577"},
    {"maxFileSizeMb", "1.5"},
    {"maxFileSizeMb", "ten"},
    {"maxFileSizeMb", "99999999999999999999"},
    {"maxFileSizeMb", "true"},
    {"maxBatchPerDay", "0"},
    {"allowedStartHour", "24"},
    {"allowedStartHour", "-1"},
    {"allowedEndHour", "25"},
    {"largeThresholdMb", "-1"},
    {"batchSize", "0"},
    {"batchSize", "10001"},
    {"requestsPerMinute", "0"},
    {"concurrentUploads", "0"},
    {"businessStartHour", "24"},
    {"businessEndHour", "25"},
    {"businessHoursOnly", "2"},
    {"requireSchedulingForLarge", "maybe"},
    {"tempStorageQuotaMb", "0"},
    {"maxConcurrentBatches", "0"},
    {"maintenanceWindow", "always"},
    {"maintenanceWindow", "02:00-02:00"},
    {"maintenanceWindow", ";"},
};

static void values_out_of_range_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < LEN(bad_values); i++) {
        struct df_policy_patch patch = {0};
        struct df_err err = DF_ERR_INIT;
        enum df_policy_field f;
        assert_true(df_policy_field_find(df_str_c(bad_values[i].name), &f));
        if (df_policy_patch_set(&patch, f, df_str_c(bad_values[i].value), &err) != DF_E_VALIDATION)
            fail_msg("%s=%s was taken", bad_values[i].name, bad_values[i].value);
        assert_true(strlen(err.detail) > 0);
    }
    struct df_policy_patch patch = {0};
    give(&patch, "batchSize", "5");
    assert_int_equal(df_policy_patch_set(&patch, DF_POLICY_BatchSize, DF_STR("5"), NULL),
                     DF_E_VALIDATION);
}

static void a_window_may_be_as_long_as_its_column(void **state)
{
    char text[DF_POLICY_WINDOW_MAX + 2] = "02:00-04:00;";
    struct df_policy_patch patch = {0}, longer = {0};
    (void)state;
    memset(text + 12, ' ', sizeof text - 12);
    memcpy(text + DF_POLICY_WINDOW_MAX - 11, "05:00-06:00", 12); /* with its NUL */
    give(&patch, "maintenanceWindow", text);
    assert_int_equal(strlen(patch.values.maintenance_window), DF_POLICY_WINDOW_MAX);

    memcpy(text + DF_POLICY_WINDOW_MAX - 11, " 05:00-06:00", 13);
    assert_int_equal(
        df_policy_patch_set(&longer, DF_POLICY_MaintenanceWindow, df_str_c(text), NULL),
        DF_E_VALIDATION);
}

/* --- rows --- */

static void without_a_row_all_is_the_default(void **state)
{
    struct df_policy p;
    struct df_err err = DF_ERR_INIT;
    (void)state;
    add("nothing-set");
    assert_ok(df_policy_get(db, DF_STR("nothing-set"), NULL, &p, &err), &err);
    for (int i = 0; i < DF_POLICY_FIELD_COUNT; i++) {
        char text[DF_POLICY_WINDOW_MAX + 1];
        struct df_str value = df_policy_field_text(&p, (enum df_policy_field)i, text);
        assert_string_equal(value.ptr, i == DF_POLICY_RequireSchedulingForLarge ? "false" : "");
    }
    assert_int_equal(p.created_at, -1);
    assert_int_equal(df_policy_get(db, DF_STR("nobody"), NULL, &p, &err), DF_E_NOT_FOUND);
}

static const char *const all[][3] = {
    {"maxFileSizeMb", "1048576", "1"},
    {"maxBatchPerDay", "20", "1"},
    {"allowedStartHour", "23", "0"},
    {"allowedEndHour", "24", "0"},
    {"requireSchedulingForLarge", "true", "false"},
    {"largeThresholdMb", "10", "0"},
    {"batchSize", "10000", "1"},
    {"requestsPerMinute", "600", "1"},
    {"concurrentUploads", "2", "1"},
    {"businessHoursOnly", "true", "false"},
    {"businessStartHour", "9", "0"},
    {"businessEndHour", "24", "0"},
    {"maintenanceWindow", "Sun 02:00-04:00; 2026-11-20T02:00Z/2026-11-20T04:00Z", "23:00-01:00"},
    {"tempStorageQuotaMb", "500", "1"},
    {"maxConcurrentBatches", "256", "1"},
    {"maxRecords", "2147483647", "1"},
};

/* Twice: the first makes the row, the second changes it. */
static void a_policy_comes_back_as_it_was_set(void **state)
{
    (void)state;
    add("all-set");
    assert_int_equal(LEN(all), DF_POLICY_FIELD_COUNT);
    int64_t created = 0;
    for (int round = 1; round <= 2; round++) {
        struct df_policy_patch patch = {0};
        for (size_t i = 0; i < LEN(all); i++)
            give(&patch, all[i][0], all[i][round]);
        df_fake_clock_advance_ms(&clock_, 1000);
        struct df_policy p = change("all-set", &patch);
        for (size_t i = 0; i < LEN(all); i++) {
            char text[DF_POLICY_WINDOW_MAX + 1];
            enum df_policy_field f;
            assert_true(df_policy_field_find(df_str_c(all[i][0]), &f));
            assert_string_equal(df_policy_field_text(&p, f, text).ptr, all[i][round]);
        }
        created = round == 1 ? p.created_at : created;
        assert_int_equal(p.created_at, created);
        assert_int_equal(p.updated_at, df_wall_ms(&clock_.base));
    }
}

static void a_change_keeps_the_rest(void **state)
{
    (void)state;
    add("some-set");
    struct df_policy_patch first = {0}, second = {0};
    give(&first, "maxFileSizeMb", "10");
    give(&first, "businessHoursOnly", "false");
    give(&first, "maintenanceWindow", "02:00-04:00");
    change("some-set", &first);

    give(&second, "batchSize", "7");
    give(&second, "maintenanceWindow", "");
    struct df_policy p = change("some-set", &second);
    assert_int_equal(p.max_file_size_mb, 10);
    assert_int_equal(p.business_hours_only, 0);
    assert_int_equal(p.batch_size, 7);
    assert_string_equal(p.maintenance_window, "");
}

static void changes_are_audited_with_what_was_and_is(void **state)
{
    char row[2000];
    (void)state;
    add("audited");
    struct df_policy_patch patch = {0}, same = {0}, nothing = {0};
    give(&patch, "maxFileSizeMb", "10");
    give(&patch, "maintenanceWindow", "02:00-04:00");
    change("audited", &patch);
    int64_t count = audit(row, sizeof row);
    assert_non_null(strstr(row, "\"action\":\"PolicyChanged\",\"target\":\"audited\""));
    assert_non_null(strstr(row, "\"details\":{\"maxFileSizeMb\":{\"from\":null,\"to\":10},"
                                "\"maintenanceWindow\":{\"from\":null,\"to\":\"02:00-04:00\"}}"));

    /* What changes nothing leaves no trace. */
    give(&same, "maxFileSizeMb", "10");
    int64_t updated = change("audited", &same).updated_at;
    df_fake_clock_advance_ms(&clock_, 5000);
    assert_int_equal(change("audited", &nothing).updated_at, updated);
    assert_int_equal(audit(row, sizeof row), count);

    struct df_err err = DF_ERR_INIT;
    struct df_uuid id;
    struct df_policy p;
    for (int round = 0; round < 2; round++) {
        assert_ok(df_db_begin(db, true, &err), &err);
        assert_ok(df_policy_reset(db, DF_STR("audited"), &tester, &clock_.base, &id, &err), &err);
        assert_ok(df_db_commit(db, &err), &err);
        assert_int_equal(audit(row, sizeof row), count + 1);
        assert_non_null(strstr(row, "PolicyReset"));
        assert_non_null(strstr(row, "\"maxFileSizeMb\":{\"from\":10,\"to\":null}"));
    }
    assert_ok(df_policy_get(db, DF_STR("audited"), NULL, &p, &err), &err);
    assert_int_equal(p.created_at, -1);
}

static void nobodys_policy_is_not_found(void **state)
{
    struct df_err err = DF_ERR_INIT;
    struct df_uuid id;
    struct df_policy p;
    struct df_policy_patch patch = {0};
    (void)state;
    assert_ok(df_db_begin(db, true, &err), &err);
    assert_int_equal(
        df_policy_change(db, DF_STR("nobody"), &patch, &tester, &clock_.base, &id, &p, &err),
        DF_E_NOT_FOUND);
    df_db_rollback(db);
    assert_ok(df_db_begin(db, true, &err), &err);
    assert_int_equal(df_policy_reset(db, DF_STR("nobody"), &tester, &clock_.base, &id, &err),
                     DF_E_NOT_FOUND);
    df_db_rollback(db);
}

/* Others write the table too. */
static void a_row_that_others_wrote_does_no_harm(void **state)
{
    TESTDB_QUERY(spoil, 1,
                 "UPDATE ClientPolicies SET MaxFileSizeMb = -5, BatchSize = 0, MaxConcurrentBatches"
                 " = 100000, MaintenanceWindow = 'next week' WHERE ClientId = ?1",
                 "UPDATE ClientPolicies SET MaxFileSizeMb = -5, BatchSize = 0, MaxConcurrentBatches"
                 " = 100000, MaintenanceWindow = 'next week' WHERE ClientId = $1",
                 "UPDATE ClientPolicies SET MaxFileSizeMb = -5, BatchSize = 0, MaxConcurrentBatches"
                 " = 100000, MaintenanceWindow = 'next week' WHERE ClientId = ?");
    struct df_err err = DF_ERR_INIT;
    struct df_policy p;
    (void)state;
    struct df_client c = add("spoilt");
    struct df_policy_patch patch = {0};
    give(&patch, "maxBatchPerDay", "3");
    change("spoilt", &patch);
    assert_ok(df_db_exec(db, &spoil, DF_PARAMS(df_uuid(df_uuid_str(&c.id))), NULL, &err), &err);
    assert_ok(df_policy_load(db, df_uuid_str(&c.id), &p, &err), &err);
    assert_int_equal(p.max_batch_per_day, 3);
    assert_int_equal(p.max_file_size_mb, DF_POLICY_NONE);
    assert_int_equal(p.batch_size, DF_POLICY_NONE);
    assert_int_equal(p.max_concurrent_batches, 256);
    assert_string_equal(p.maintenance_window, "next week");
}

/* --- in memory --- */

static int64_t remembered(struct df_policies *cache, const struct df_client *c)
{
    struct df_policy p;
    struct df_err err = DF_ERR_INIT;
    assert_ok(df_policies_get(cache, db, &c->id, &p, &err), &err);
    return p.batch_size;
}

static void what_is_remembered_is_three_seconds_old_at_most(void **state)
{
    struct df_policies *cache = df_policies_new(&clock_.base);
    struct df_client c = add("remembered");
    struct df_policy_patch first = {0}, second = {0};
    (void)state;
    give(&first, "batchSize", "1");
    give(&second, "batchSize", "2");
    change("remembered", &first);

    assert_int_equal(remembered(cache, &c), 1);
    change("remembered", &second); /* elsewhere */
    df_fake_clock_advance_ms(&clock_, 2999);
    assert_int_equal(remembered(cache, &c), 1);
    df_fake_clock_advance_ms(&clock_, 1);
    assert_int_equal(remembered(cache, &c), 2);

    change("remembered", &first); /* here */
    df_policies_forget(cache, &c.id);
    assert_int_equal(remembered(cache, &c), 1);
    df_policies_free(cache);
    df_policies_free(NULL);
}

static void many_clients_do_not_mix(void **state)
{
    struct df_policies *cache = df_policies_new(&clock_.base);
    struct df_client clients[40];
    (void)state;
    for (size_t i = 0; i < LEN(clients); i++) {
        char name[32], size[8];
        snprintf(name, sizeof name, "one-of-many-%zu", i);
        snprintf(size, sizeof size, "%zu", i + 1);
        clients[i] = add(name);
        struct df_policy_patch patch = {0};
        give(&patch, "batchSize", size);
        change(name, &patch);
    }
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < LEN(clients); i++)
            assert_int_equal(remembered(cache, &clients[i]), (int64_t)i + 1);
    /* Thousands that have no row push them out, and nothing else. */
    for (int i = 0; i < 2000; i++) {
        struct df_client stranger = {.id = df_uuid_v4(&clock_.base)};
        assert_int_equal(remembered(cache, &stranger), DF_POLICY_NONE);
    }
    for (size_t i = 0; i < LEN(clients); i++)
        assert_int_equal(remembered(cache, &clients[i]), (int64_t)i + 1);
    df_policies_free(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_are_found_by_both_names),
        cmocka_unit_test(values_out_of_range_are_refused),
        cmocka_unit_test(a_window_may_be_as_long_as_its_column),
        cmocka_unit_test(without_a_row_all_is_the_default),
        cmocka_unit_test(a_policy_comes_back_as_it_was_set),
        cmocka_unit_test(a_change_keeps_the_rest),
        cmocka_unit_test(changes_are_audited_with_what_was_and_is),
        cmocka_unit_test(nobodys_policy_is_not_found),
        cmocka_unit_test(a_row_that_others_wrote_does_no_harm),
        cmocka_unit_test(what_is_remembered_is_three_seconds_old_at_most),
        cmocka_unit_test(many_clients_do_not_mix),
    };
    int failed = 0;
    for (int d = 0; d < DF_DIALECT_COUNT; d++) {
        dialect = (enum df_dialect)d;
        if (testdb_available(dialect))
            failed +=
                cmocka_run_group_tests_name(df_dialect_name(dialect), tests, open_db, close_db);
    }
    testdb_print_skipped();
    return failed;
}

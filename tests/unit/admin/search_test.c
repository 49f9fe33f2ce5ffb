/*
 * That no look-up of the search, no list of tickets that names a document, a client or a status,
 * and no reprocess that names one of the last two goes through a table: each begins with an index.
 * The answers themselves: tests/integration/admin/test_search.py.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "all_queries.h"
#include "base/log.h"
#include "store/schema.h"
#include "testdb.h"

#define UUID DF_STR("018bcfe5-6800-7000-8000-000000000001")

static enum df_dialect dialect;
static struct testdb t;
static struct df_db *db;
static struct df_err err;

static int setup(void **state)
{
    (void)state;
    testdb_init(&t, dialect);
    db = testdb_open(&t);
    assert_ok(df_schema_apply(db, NULL, &err), &err);
    if (dialect == DF_POSTGRES) /* the tables are empty, and nothing would be too costly */
        testdb_script(db, "SET enable_seqscan = off;");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    df_db_close(db);
    testdb_release(&t);
    return 0;
}

/* What the database means to do, as text. */
static void plan_of(const struct df_query *q, struct df_query *explain, char *sql, size_t size,
                    struct df_buf *out)
{
    struct df_result *r = NULL;
    struct df_value text = df_text(DF_STR("x"));
    struct df_value when = df_time(0);

    assert_true((size_t)snprintf(sql, size, "EXPLAIN %s %s",
                                 dialect == DF_SQLITE ? "QUERY PLAN" : "",
                                 df_query_sql(q, dialect)) < size);
    *explain = *q;
    explain->is_packed = false;
    explain->column_count = 0; /* the plan has its own */
    explain->text[dialect].sql = sql;
    assert_ok(
        df_db_query(db,
                    DF_ANY(explain, {"text", text}, {"text_end", text}, {"number", df_int(1)},
                           {"uuid", df_uuid(UUID)}, {"limit", df_int(20)}, {"entity", text},
                           {"doc", text}, {"phase", df_int(1)}, {"status", text},
                           {"return_status", text}, {"gateway_status", text},
                           {"any_client", df_int(0)}, {"client", df_uuid(UUID)}, {"since", when},
                           {"until", when}, {"from_start", df_int(0)}, {"after_at", when},
                           {"after_id", df_int(1)}, {"offset", df_int(0)}, {"error", text}),
                    &r, &err),
        &err);
    while (df_result_step(r, &err) == DF_ROW) {
        df_buf_adds(out, df_col_text(r, dialect == DF_SQLITE ? 3 : 0));
        df_buf_addc(out, '\n');
    }
    df_buf_addc(out, '\0');
    df_result_free(r);
}

/* SQLite says SCAN for what has no condition on an index, and for the few rows `s` that are
 * counted; PostgreSQL says Index Cond for what has one. */
static bool goes_by_an_index(const char *plan)
{
    if (dialect == DF_SQLITE) {
        for (const char *at = plan; (at = strstr(at, "SCAN ")); at++)
            if (strncmp(at, "SCAN s\n", 7) != 0)
                return false;
        return strstr(plan, "SEARCH");
    }
    return !strstr(plan, "Seq Scan") && strstr(plan, "Index Cond");
}

static size_t check_queries(const char *prefix)
{
    static struct df_query explain[64]; /* a connection knows statements by their address */
    static char sql[64][8192];
    size_t count = 0;

    for (size_t i = 0; i < df_all_queries_count; i++) {
        const struct df_query *q = df_all_queries[i];
        struct df_buf plan;
        if (strncmp(q->name, prefix, strlen(prefix)) != 0)
            continue;
        assert_true(count < 64);
        df_buf_init(&plan, 1 << 20);
        plan_of(q, &explain[count], sql[count], sizeof sql[count], &plan);
        if (!goes_by_an_index(df_buf_str(&plan).ptr))
            fail_msg("%s: %s", q->name, df_buf_str(&plan).ptr);
        df_buf_release(&plan);
        count++;
    }
    return count;
}

static void no_look_up_goes_through_a_table(void **state)
{
    (void)state;
    if (dialect == DF_SQLSERVER)
        skip();
    assert_true(check_queries("search_") >= 20);
}

static void no_list_by_document_client_or_status_goes_through_a_table(void **state)
{
    (void)state;
    if (dialect == DF_SQLSERVER)
        skip();
    assert_int_equal(check_queries("doc_tickets_"), 2);
    assert_int_equal(check_queries("client_tickets_"), 2);
    assert_int_equal(check_queries("status_tickets_"), 2);
    assert_int_equal(check_queries("return_tickets_"), 2);
    assert_int_equal(check_queries("gateway_tickets_"), 2);
}

static void no_reprocess_by_client_or_status_goes_through_a_table(void **state)
{
    (void)state;
    if (dialect == DF_SQLSERVER)
        skip();
    assert_int_equal(check_queries("reprocess_client_"), 2);
    assert_int_equal(check_queries("reprocess_status_"), 2);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(no_look_up_goes_through_a_table),
        TEST(no_list_by_document_client_or_status_goes_through_a_table),
        TEST(no_reprocess_by_client_or_status_goes_through_a_table),
    };
    df_log_init(DF_LOG_ERROR, DF_LOG_JSON, df_clock_real());
    return testdb_run_tests("search", &dialect, tests, sizeof(tests) / sizeof(tests[0]));
}

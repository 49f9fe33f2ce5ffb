/*
 * Queries with a second text for many rows (`many`) do on PostgreSQL, with arrays, what their first
 * text does row by row. Every test runs on every database: only one of them has arrays, and nobody
 * may notice. What is only on PostgreSQL says so.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "store/db.h"
#include "testdb.h"

static enum df_dialect dialect;
static struct testdb t;
static struct df_db *db;
static struct df_err err;

static const char *const tables[DF_DIALECT_COUNT] = {
    [DF_SQLITE] = "CREATE TABLE Items (Id INTEGER PRIMARY KEY, I INTEGER CHECK (I <> 13), T TEXT,"
                  " B BLOB, Bo INTEGER, Ti TEXT, U TEXT, Runs INTEGER NOT NULL DEFAULT 0);",
    [DF_POSTGRES] = "CREATE TABLE Items (Id BIGINT PRIMARY KEY, I INT CHECK (I <> 13), T TEXT,"
                    " B BYTEA, Bo BOOLEAN, Ti TIMESTAMPTZ, U UUID, Runs INT NOT NULL DEFAULT 0);",
    [DF_SQLSERVER] =
        "CREATE TABLE Items (Id BIGINT PRIMARY KEY, I INT CHECK (I <> 13), T NVARCHAR(MAX),"
        " B VARBINARY(MAX), Bo BIT, Ti DATETIME2, U UNIQUEIDENTIFIER,"
        " Runs INT NOT NULL DEFAULT 0);\n",
};

#define QUERY(var, count, postgres_, many_, sqlite_, sqlserver_)                                   \
    static const struct df_query var = {                                                           \
        .name = #var,                                                                              \
        .param_count = (count),                                                                    \
        .text = {[DF_SQLITE] = {.sql = (sqlite_)},                                                 \
                 [DF_POSTGRES] = {.sql = (postgres_)},                                             \
                 [DF_SQLSERVER] = {.sql = (sqlserver_),                                            \
                                   .markers = in_order,                                            \
                                   .marker_count = (count)}},                                      \
        .many = (many_),                                                                           \
    }
static const unsigned char in_order[] = {0, 1, 2, 3, 4, 5, 6};

/* The parameters' order is that of the markers: I, T, B, Bo, Ti, U, Id. */
#define SET(mark)                                                                                  \
    "UPDATE Items SET I = " mark(1) ", T = " mark(2) ", B = " mark(3) ", Bo = " mark(              \
        4) ", Ti = " mark(5) ", U = " mark(6) ", Runs = Runs + 1 WHERE Id = " mark(7)
#define DOLLAR(n)   "$" #n
#define QUESTION(n) "?" #n
#define BARE(n)     "?"
QUERY(item_set, 7, SET(DOLLAR),
      "UPDATE Items SET I = n.i, T = n.t, B = n.b, Bo = n.bo, Ti = n.ti, U = n.u, Runs = Runs + 1"
      " FROM UNNEST(CAST($1 AS INT[]), $2, $3, $4, $5, $6, CAST($7 AS BIGINT[])) AS n (i, t, b, "
      "bo, ti, u, id)"
      " WHERE Items.Id = n.id",
      SET(QUESTION), SET(BARE));

/* What a run of the first text looks like tells that the second was used: I differs. */
QUERY(item_mark, 2, "UPDATE Items SET I = $1, T = 'one' WHERE Id = $2",
      "UPDATE Items SET I = n.i, T = 'many' FROM UNNEST($1, $2) AS n (i, id) WHERE Items.Id = n.id",
      "UPDATE Items SET I = ?1, T = 'one' WHERE Id = ?2",
      "UPDATE Items SET I = ?, T = 'one' WHERE Id = ?");
QUERY(item_mark_numbered, 2, "UPDATE Items SET I = $1, T = 'one' WHERE Id = $2",
      "UPDATE Items SET I = n.i, T = 'many' FROM UNNEST($1, $2) WITH ORDINALITY AS n (i, id, Nth)"
      " WHERE Items.Id = n.id RETURNING n.Nth",
      "UPDATE Items SET I = ?1, T = 'one' WHERE Id = ?2",
      "UPDATE Items SET I = ?, T = 'one' WHERE Id = ?");
QUERY(item_take, 2, "UPDATE Items SET I = I + $1 WHERE Id = $2 RETURNING Id, T",
      "UPDATE Items SET I = Items.I + n.i FROM UNNEST($1, $2) WITH ORDINALITY AS n (i, id, Nth)"
      " WHERE Items.Id = n.id RETURNING Items.Id, Items.T, n.Nth",
      "UPDATE Items SET I = I + ?1 WHERE Id = ?2 RETURNING Id, T",
      "UPDATE Items SET I = I + ? OUTPUT inserted.Id, inserted.T WHERE Id = ?");

TESTDB_QUERY(item_insert, 2, "INSERT INTO Items (Id, T) VALUES (?1, ?2)",
             "INSERT INTO Items (Id, T) VALUES ($1, $2)",
             "INSERT INTO Items (Id, T) VALUES (?, ?)");
TESTDB_QUERY(item_get, 1, "SELECT I, T, B, Bo, Ti, U, Runs FROM Items WHERE Id = ?1",
             "SELECT I, T, B, Bo, Ti, U, Runs FROM Items WHERE Id = $1",
             "SELECT I, T, B, Bo, Ti, U, Runs FROM Items WHERE Id = ?");
TESTDB_QUERY(item_count, 0, "SELECT COUNT(*) FROM Items", "SELECT COUNT(*) FROM Items",
             "SELECT COUNT(*) FROM Items");
TESTDB_QUERY(item_marked, 0, "SELECT COUNT(*) FROM Items WHERE I IS NOT NULL",
             "SELECT COUNT(*) FROM Items WHERE I IS NOT NULL",
             "SELECT COUNT(*) FROM Items WHERE I IS NOT NULL");
TESTDB_QUERY(item_marked_many, 0, "SELECT COUNT(*) FROM Items WHERE T = 'many'",
             "SELECT COUNT(*) FROM Items WHERE T = 'many'",
             "SELECT COUNT(*) FROM Items WHERE T = 'many'");
TESTDB_QUERY(item_mixed, 3,
             "INSERT INTO Items (Id, T, Ti, I) VALUES (?1, upper('$2 it''s' || ?2), ?3, 2 + 5)",
             "INSERT INTO Items (Id, T, Ti, I) VALUES ($1, upper('$2 it''s' || $2), $3, 2 + 5)",
             "INSERT INTO Items (Id, T, Ti, I) VALUES (?, UPPER('$2 it''s' + ?), ?, 2 + 5)");

enum { MAX_ROWS = 5000 };
static struct df_value params[7 * MAX_ROWS];
static int64_t affected[MAX_ROWS];

static int setup(void **state)
{
    (void)state;
    testdb_init(&t, dialect);
    db = testdb_open(&t);
    testdb_script(db, tables[dialect]);
    err = DF_ERR_INIT;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    df_db_close(db);
    db = NULL;
    testdb_release(&t);
    return 0;
}

static void begin(void)
{
    assert_ok(df_db_begin(db, true, &err), &err);
}

static void commit(void)
{
    assert_ok(df_db_commit(db, &err), &err);
}

/* Items with the keys 0 to count - 1. */
static void fill_items(size_t count)
{
    for (size_t i = 0; i < count; i++) {
        params[2 * i] = df_int((int64_t)i);
        params[2 * i + 1] = df_text(DF_STR("new"));
    }
    begin();
    assert_ok(df_db_exec_many(db, &item_insert, params, 2, count, NULL, NULL, affected, NULL, &err),
              &err);
    commit();
    for (size_t i = 0; i < count; i++)
        assert_int_equal(affected[i], 1);
    assert_int_equal(testdb_int(db, &item_count), count);
}

static void fill_marks(size_t count)
{
    for (size_t i = 0; i < count; i++) {
        params[2 * i] = df_int(100 + (int64_t)i);
        params[2 * i + 1] = df_int((int64_t)i);
    }
}

static enum df_code mark(const struct df_query *q, size_t count, int64_t *ret_failed)
{
    return df_db_exec_many(db, q, params, 2, count, NULL, NULL, affected, ret_failed, &err);
}

static void check_same(struct df_str got, struct df_str want)
{
    assert_int_equal(got.len, want.len);
    assert_memory_equal(got.ptr, want.ptr, want.len);
}

static void set_row(struct df_value *p, size_t i)
{
    static const char *const texts[] = {"",           "a\xC3\xA7\xC3\xA3o", "{\"a\",NULL}",
                                        "'; -- \\\\", "\xF0\x9F\x9A\x80",   " \t\r\n "};
    static const char bytes[] = "\0\xff\\x00{}\"";

    p[0] =
        i % 5 ? df_int(i % 2 ? INT32_MIN + (int64_t)i : INT32_MAX - (int64_t)i) : df_null(DF_INT);
    p[1] = i % 3 ? df_text(df_str_c(texts[i % 6])) : df_null(DF_TEXT);
    p[2] = i % 4 ? df_blob(df_str_n(bytes, i % sizeof(bytes))) : df_null(DF_BLOB);
    p[3] = i % 7 ? df_bool(i % 2) : df_null(DF_BOOL);
    p[4] = i % 6 ? df_time(i == 1   ? -62135596800000
                           : i == 2 ? 253402300799999
                                    : 1794712565123 + (int64_t)i * 86400001)
                 : df_null(DF_TIME);
    p[5] = i % 8 ? df_uuid(DF_STR("{01890A5D-AC96-774B-BCCE-B302099A8057}")) : df_null(DF_UUID);
    p[6] = df_int((int64_t)i);
}

static void check_row(const struct df_value *p)
{
    struct df_result *r = NULL;

    assert_ok(df_db_query(db, &item_get, DF_PARAMS(p[6]), &r, &err), &err);
    assert_int_equal(df_result_step(r, &err), DF_ROW);
    for (size_t c = 0; c < 6; c++)
        assert_int_equal(df_col_null(r, c), p[c].null);
    assert_true(p[0].null || df_col_int(r, 0) == p[0].i);
    if (!p[1].null)
        check_same(df_col_text(r, 1), p[1].s);
    if (!p[2].null)
        check_same(df_col_blob(r, 2), p[2].s);
    assert_true(p[3].null || df_col_bool(r, 3) == (p[3].i != 0));
    assert_true(p[4].null || df_col_time(r, 4) == p[4].i);
    if (!p[5].null)
        check_same(df_col_text(r, 5), DF_STR("01890a5d-ac96-774b-bcce-b302099a8057"));
    assert_int_equal(df_col_int(r, 6), 1);
    df_result_free(r);
}

static void values_of_every_type_arrive_in_any_number_of_rows(void **state)
{
    (void)state;
    static const size_t counts[] = {1, 2, 3, 64, MAX_ROWS};

    for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
        fill_items(counts[c]);
        for (size_t i = 0; i < counts[c]; i++)
            set_row(&params[7 * i], i);
        begin();
        assert_ok(
            df_db_exec_many(db, &item_set, params, 7, counts[c], NULL, NULL, affected, NULL, &err),
            &err);
        commit();
        for (size_t i = 0; i < counts[c]; i++) {
            assert_int_equal(affected[i], 1);
            if (i < 200 || i % 97 == 0)
                check_row(&params[7 * i]);
        }
        testdb_script(db, "DELETE FROM Items");
    }
}

static void arrays_are_used_for_two_rows_and_more_on_postgres(void **state)
{
    (void)state;
    bool arrays = dialect == DF_POSTGRES;

    fill_items(3);
    fill_marks(3);
    begin();
    assert_ok(mark(&item_mark, 1, NULL), &err);
    assert_int_equal(testdb_int(db, &item_marked_many), 0);
    assert_ok(mark(&item_mark, 2, NULL), &err);
    assert_int_equal(testdb_int(db, &item_marked_many), arrays ? 2 : 0);
    assert_ok(mark(&item_mark_numbered, 3, NULL), &err);
    assert_int_equal(testdb_int(db, &item_marked_many), arrays ? 3 : 0);
    commit();
    assert_int_equal(testdb_int(db, &item_marked), 3);
}

static void rows_that_change_nothing_are_told_apart(void **state)
{
    (void)state;
    static const struct df_query *const ways[] = {&item_mark, &item_mark_numbered};

    fill_items(50);
    for (size_t w = 0; w < 2; w++) {
        fill_marks(50);
        for (size_t i = 0; i < 50; i += 7)
            params[2 * i + 1] = df_int(1000);
        begin();
        assert_ok(mark(ways[w], 50, NULL), &err);
        for (size_t i = 0; i < 50; i++)
            assert_int_equal(affected[i], i % 7 ? 1 : 0);
        assert_int_equal(testdb_int(db, &item_marked), 42);
        df_db_rollback(db);
    }
}

/* Who does not ask which rows were changed gets no second run. */
static void a_row_that_changes_nothing_keeps_the_arrays(void **state)
{
    (void)state;
    fill_items(2);
    fill_marks(3);
    begin();
    assert_ok(df_db_exec_many(db, &item_mark, params, 2, 3, NULL, NULL, NULL, NULL, &err), &err);
    assert_int_equal(testdb_int(db, &item_marked), 2);
    assert_int_equal(testdb_int(db, &item_marked_many), dialect == DF_POSTGRES ? 2 : 0);
    commit();
}

static void the_failing_row_is_told_and_nothing_stays(void **state)
{
    (void)state;
    static const size_t bad_rows[] = {0, 1, 2500, MAX_ROWS - 1};
    static const struct df_query *const ways[] = {&item_mark, &item_mark_numbered};

    fill_items(MAX_ROWS);
    for (size_t i = 0; i < 8; i++) {
        int64_t failed = -1;
        size_t bad = bad_rows[i / 2];
        fill_marks(MAX_ROWS);
        params[2 * bad] = df_int(13);
        begin();
        assert_ok(df_db_savepoint(db, &err), &err);
        assert_code(mark(ways[i % 2], MAX_ROWS, &failed), DF_E_DB_CONSTRAINT, &err);
        assert_int_equal(failed, bad);
        assert_ok(df_db_rollback_to(db, &err), &err);
        assert_int_equal(testdb_int(db, &item_marked), 0);
        params[2 * bad] = df_int(14);
        assert_ok(mark(ways[i % 2], MAX_ROWS, &failed), &err);
        assert_int_equal(failed, -1);
        assert_int_equal(testdb_int(db, &item_marked), MAX_ROWS);
        df_db_rollback(db);
    }
}

struct taken {
    size_t count;
    int64_t sum;
    bool right;
};

static void see_taken(void *arg, size_t row, struct df_result *r)
{
    struct taken *seen = arg;
    struct df_err refused = DF_ERR_INIT;

    seen->count++;
    seen->sum += (int64_t)row;
    seen->right = seen->right && row < MAX_ROWS && df_col_int(r, 0) == params[2 * row + 1].i &&
                  df_str_eq(df_col_text(r, 1), DF_STR("new")) &&
                  df_db_ping(db, &refused) == DF_E_USAGE;
}

static void rows_that_are_returned_belong_to_their_rows(void **state)
{
    (void)state;
    struct taken seen = {.right = true};

    fill_items(MAX_ROWS);
    fill_marks(MAX_ROWS);
    for (size_t i = 0; i < MAX_ROWS; i++) /* the keys from the last to the first */
        params[2 * i + 1] = df_int(MAX_ROWS - 1 - (int64_t)i);
    params[2 * 4999 + 1] = df_int(1000000);
    begin();
    assert_ok(df_db_exec_many(db, &item_take, params, 2, MAX_ROWS, see_taken, &seen, affected, NULL,
                              &err),
              &err);
    commit();
    assert_true(seen.right);
    assert_int_equal(seen.count, MAX_ROWS - 1);
    assert_int_equal(seen.sum, (int64_t)MAX_ROWS * (MAX_ROWS - 1) / 2 - 4999);
    for (size_t i = 0; i < MAX_ROWS; i++)
        assert_int_equal(affected[i], i == 4999 ? 0 : 1);
}

/* The arrays have the types of the first values seen; others go one by one. */
static void values_of_another_type_than_the_first_are_taken(void **state)
{
    (void)state;
    fill_items(4);
    fill_marks(4);
    params[0] = df_null(DF_INT);
    begin();
    assert_ok(mark(&item_mark, 4, NULL), &err);
    assert_int_equal(testdb_int(db, &item_marked), 3);
    params[0] = df_text(DF_STR("7"));
    assert_ok(mark(&item_mark, 4, NULL), &err);
    assert_int_equal(testdb_int(db, &item_marked), 4);
    assert_int_equal(testdb_int(db, &item_marked_many), 0);
    params[0] = df_null(DF_TEXT);
    assert_ok(mark(&item_mark, 4, NULL), &err);
    assert_int_equal(testdb_int(db, &item_marked), 3);
    commit();
}

static void expressions_of_an_insert_stay_what_they_are(void **state)
{
    (void)state;
    enum { N = 100 };
    struct df_value last = df_int(N - 1);
    struct df_result *r = NULL;

    for (size_t i = 0; i < N; i++) {
        params[3 * i] = df_int((int64_t)i);
        params[3 * i + 1] = df_text(DF_STR("\xC3\xA7 a'b"));
        params[3 * i + 2] = df_time(1794712565123 + (int64_t)i);
    }
    begin();
    assert_ok(df_db_exec_many(db, &item_mixed, params, 3, N, NULL, NULL, affected, NULL, &err),
              &err);
    commit();
    assert_int_equal(testdb_int(db, &item_count), N);
    assert_ok(df_db_query(db, &item_get, &last, 1, &r, &err), &err);
    assert_int_equal(df_result_step(r, &err), DF_ROW);
    assert_int_equal(df_col_int(r, 0), 7);
    assert_true(df_str_starts(df_col_text(r, 1), DF_STR("$2 IT'S")));
    assert_true(df_str_ends(df_col_text(r, 1), DF_STR(" A'B")));
    assert_int_equal(df_col_time(r, 4), 1794712565123 + N - 1);
    df_result_free(r);
}

/* The second text is the driver's affair: a change of the table under it is survived too. */
static void arrays_survive_a_changed_schema(void **state)
{
    (void)state;
    fill_items(10);
    fill_marks(10);
    begin();
    assert_ok(mark(&item_mark_numbered, 10, NULL), &err);
    commit();
    if (dialect == DF_POSTGRES)
        testdb_script(db, "ALTER TABLE Items ALTER COLUMN I TYPE BIGINT");
    begin();
    assert_ok(mark(&item_mark_numbered, 10, NULL), &err);
    commit();
    assert_int_equal(testdb_int(db, &item_marked), 10);
    fill_marks(0);
    begin();
    assert_ok(mark(&item_mark, 0, NULL), &err);
    commit();
}

int main(void)
{
#define ON_EACH(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        ON_EACH(values_of_every_type_arrive_in_any_number_of_rows),
        ON_EACH(arrays_are_used_for_two_rows_and_more_on_postgres),
        ON_EACH(rows_that_change_nothing_are_told_apart),
        ON_EACH(a_row_that_changes_nothing_keeps_the_arrays),
        ON_EACH(the_failing_row_is_told_and_nothing_stays),
        ON_EACH(rows_that_are_returned_belong_to_their_rows),
        ON_EACH(values_of_another_type_than_the_first_are_taken),
        ON_EACH(expressions_of_an_insert_stay_what_they_are),
        ON_EACH(arrays_survive_a_changed_schema),
    };
    return testdb_run_tests("many", &dialect, tests, sizeof(tests) / sizeof(tests[0]));
}

/*
 * One suite for every database: what db.h promises holds on each back end there is. Nothing here
 * knows which one it runs on, except where a database is asked to misbehave.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "store/db.h"
#include "testdb.h"

#include <sys/stat.h>

static enum df_dialect dialect;
static struct testdb t;
static struct df_db *db;
static struct df_err err;

static const char *const tables[DF_DIALECT_COUNT] = {
    [DF_SQLITE] = "CREATE TABLE Kinds (Id INTEGER PRIMARY KEY, I INTEGER, R REAL, T TEXT, B BLOB,"
                  " Bo INTEGER, Ti TEXT, U TEXT);"
                  "CREATE TABLE Keys (Id INTEGER PRIMARY KEY, Name TEXT NOT NULL UNIQUE,"
                  " Amount INTEGER NOT NULL DEFAULT 1 CHECK (Amount > 0));"
                  "CREATE TABLE Parts (Id INTEGER PRIMARY KEY, KeyId INTEGER REFERENCES Keys(Id));",
    [DF_POSTGRES] =
        "CREATE TABLE Kinds (Id BIGINT PRIMARY KEY, I BIGINT, R DOUBLE PRECISION, T TEXT,"
        " B BYTEA, Bo BOOLEAN, Ti TIMESTAMPTZ, U UUID);"
        "CREATE TABLE Keys (Id BIGINT PRIMARY KEY, Name TEXT NOT NULL UNIQUE,"
        " Amount BIGINT NOT NULL DEFAULT 1 CHECK (Amount > 0));"
        "CREATE TABLE Parts (Id BIGINT PRIMARY KEY, KeyId BIGINT REFERENCES Keys(Id));",
    [DF_SQLSERVER] =
        "CREATE TABLE Kinds (Id BIGINT PRIMARY KEY, I BIGINT, R FLOAT, T NVARCHAR(MAX),"
        " B VARBINARY(MAX), Bo BIT, Ti DATETIME2, U UNIQUEIDENTIFIER);\n"
        "CREATE TABLE Keys (Id BIGINT PRIMARY KEY, Name NVARCHAR(400) NOT NULL UNIQUE,"
        " Amount BIGINT NOT NULL DEFAULT 1 CHECK (Amount > 0));\nGO\n"
        "CREATE TABLE Parts (Id BIGINT PRIMARY KEY, KeyId BIGINT REFERENCES Keys(Id));\n",
};

TESTDB_QUERY(kinds_insert, 8,
             "INSERT INTO Kinds (Id, I, R, T, B, Bo, Ti, U) VALUES (?1,?2,?3,?4,?5,?6,?7,?8)",
             "INSERT INTO Kinds (Id, I, R, T, B, Bo, Ti, U) VALUES ($1,$2,$3,$4,$5,$6,$7,$8)",
             "INSERT INTO Kinds (Id, I, R, T, B, Bo, Ti, U) VALUES (?,?,?,?,?,?,?,?)");
TESTDB_QUERY(kinds_insert_few, 7,
             "INSERT INTO Kinds (Id, I, R, T, Bo, Ti, U) VALUES (?1,?2,?3,?4,?5,?6,?7)",
             "INSERT INTO Kinds (Id, I, R, T, Bo, Ti, U) VALUES ($1,$2,$3,$4,$5,$6,$7)",
             "INSERT INTO Kinds (Id, I, R, T, Bo, Ti, U) VALUES (?, ?, ?, ?, ?, ?, ?)");
TESTDB_QUERY(kinds_get, 1, "SELECT I, R, T, B, Bo, Ti, U FROM Kinds WHERE Id = ?1",
             "SELECT I, R, T, B, Bo, Ti, U FROM Kinds WHERE Id = $1",
             "SELECT I, R, T, B, Bo, Ti, U FROM Kinds WHERE Id = ?");
TESTDB_QUERY(kinds_by_values, 3, "SELECT Id FROM Kinds WHERE Ti = ?1 AND U = ?2 AND Bo = ?3",
             "SELECT Id FROM Kinds WHERE Ti = $1 AND U = $2 AND Bo = $3",
             "SELECT Id FROM Kinds WHERE Ti = ? AND U = ? AND Bo = ?");
TESTDB_QUERY(key_insert, 2, "INSERT INTO Keys (Id, Name) VALUES (?1, ?2)",
             "INSERT INTO Keys (Id, Name) VALUES ($1, $2)",
             "INSERT INTO Keys (Id, Name) VALUES (?, ?)");
TESTDB_QUERY(key_insert_amount, 3, "INSERT INTO Keys (Id, Name, Amount) VALUES (?1, ?2, ?3)",
             "INSERT INTO Keys (Id, Name, Amount) VALUES ($1, $2, $3)",
             "INSERT INTO Keys (Id, Name, Amount) VALUES (?, ?, ?)");
TESTDB_QUERY_MARKED(
    key_insert_returning, 2,
    "INSERT INTO Keys (Id, Name) VALUES (?1, ?2) ON CONFLICT DO NOTHING RETURNING Id, Name",
    "INSERT INTO Keys (Id, Name) VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING Id, Name",
    "INSERT INTO Keys (Id, Name) OUTPUT inserted.Id, inserted.Name SELECT ?, ?"
    " WHERE NOT EXISTS (SELECT 1 FROM Keys WITH (UPDLOCK, HOLDLOCK) WHERE Id = ? OR Name = ?)",
    0, 1, 0, 1);
TESTDB_QUERY(key_add, 1, "UPDATE Keys SET Amount = Amount + ?1",
             "UPDATE Keys SET Amount = Amount + $1", "UPDATE Keys SET Amount = Amount + ?");
TESTDB_QUERY(key_add_to, 2, "UPDATE Keys SET Amount = Amount + ?1 WHERE Id = ?2",
             "UPDATE Keys SET Amount = Amount + $1 WHERE Id = $2",
             "UPDATE Keys SET Amount = Amount + ? WHERE Id = ?");
TESTDB_QUERY(key_count, 0, "SELECT COUNT(*) FROM Keys", "SELECT COUNT(*) FROM Keys",
             "SELECT COUNT(*) FROM Keys");
TESTDB_QUERY(key_sum, 0, "SELECT SUM(Amount), AVG(Amount) FROM Keys",
             "SELECT SUM(Amount), AVG(Amount) FROM Keys",
             "SELECT SUM(Amount), AVG(CAST(Amount AS FLOAT)) FROM Keys");
TESTDB_QUERY(key_list, 0, "SELECT Id, Name FROM Keys ORDER BY Id",
             "SELECT Id, Name FROM Keys ORDER BY Id", "SELECT Id, Name FROM Keys ORDER BY Id");
TESTDB_QUERY(key_first, 0, "SELECT MIN(Id) FROM Keys", "SELECT MIN(Id) FROM Keys",
             "SELECT MIN(Id) FROM Keys");
TESTDB_QUERY(part_insert, 2, "INSERT INTO Parts (Id, KeyId) VALUES (?1, ?2)",
             "INSERT INTO Parts (Id, KeyId) VALUES ($1, $2)",
             "INSERT INTO Parts (Id, KeyId) VALUES (?, ?)");
TESTDB_QUERY(nonsense, 0, "SELECT Nothing FROM Nowhere", "SELECT Nothing FROM Nowhere",
             "SELECT Nothing FROM Nowhere");

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

static enum df_code insert_key(struct df_db *on, int64_t id, const char *name)
{
    return df_db_exec(on, &key_insert, DF_PARAMS(df_int(id), df_text(df_str_c(name))), NULL, &err);
}

static int64_t keys(void)
{
    return testdb_int(db, &key_count);
}

/* --- values ----------------------------------------------------------------------------------- */

struct kinds {
    int64_t i;
    int64_t r; /* in a column of real numbers */
    struct df_str text;
    struct df_str blob;
    bool b;
    int64_t time;
    const char *uuid;
};

static void put_kinds(int64_t id, const struct kinds *k)
{
    assert_ok(df_db_exec(db, &kinds_insert,
                         DF_PARAMS(df_int(id), df_int(k->i), df_int(k->r), df_text(k->text),
                                   df_blob(k->blob), df_bool(k->b), df_time(k->time),
                                   df_uuid(df_str_c(k->uuid))),
                         NULL, &err),
              &err);
}

static void check_str(struct df_str got, struct df_str want)
{
    assert_non_null(got.ptr);
    assert_int_equal(got.len, want.len);
    assert_true(memcmp(got.ptr, want.ptr, want.len) == 0);
}

static void check_kinds(int64_t id, const struct kinds *k, const char *uuid)
{
    struct df_result *r = NULL;
    assert_ok(df_db_query(db, &kinds_get, DF_PARAMS(df_int(id)), &r, &err), &err);
    assert_int_equal(df_result_columns(r), 7);
    assert_int_equal(df_result_step(r, &err), DF_ROW);
    for (size_t i = 0; i < 7; i++)
        assert_false(df_col_null(r, i));
    assert_true(df_col_int(r, 0) == k->i);
    assert_true(df_col_int(r, 1) == k->r);
    check_str(df_col_text(r, 2), k->text);
    check_str(df_col_blob(r, 3), k->blob);
    assert_int_equal(df_col_bool(r, 4), k->b);
    assert_int_equal(df_col_int(r, 4), k->b);
    assert_true(df_col_time(r, 5) == k->time);
    char iso[DF_TIME_LEN + 1];
    df_time_format(k->time, iso);
    check_str(df_col_text(r, 5), df_str_c(iso));
    check_str(df_col_text(r, 6), df_str_c(uuid));
    assert_int_equal(df_result_step(r, &err), DF_DONE);
    assert_int_equal(df_result_step(r, &err), DF_DONE);
    df_result_free(r);
}

static void every_type_comes_back_as_it_went(void **state)
{
    (void)state;
    static const char every_byte[] = "\0\1\n\r\t\\'\"\x7f\x80\xff\0";
    const struct kinds cases[] = {
        {0, 0, DF_STR(""), DF_STR(""), false, 0, "00000000-0000-0000-0000-000000000000"},
        {INT64_MAX,
         123456789012345,
         DF_STR("\xF0\x9F\x9A\x80 a\xC3\xA7\xC3\xA3o '\" \\ %s"),
         {every_byte, sizeof(every_byte) - 1},
         true,
         1794712565123,
         "ffffffff-ffff-4fff-8fff-ffffffffffff"},
        {INT64_MIN, -4, DF_STR("\n\t\x01\x7f"), DF_STR("x"), true, -1,
         "01890a5d-ac96-774b-bcce-b302099a8057"},
        {-1, 1, DF_STR(" trailing "), DF_STR("\\x41"), false, -62135596800000,
         "01890a5d-ac96-774b-bcce-b302099a8057"},
        {1, 1000000, DF_STR("NULL"), DF_STR("\0"), false, 253402300799999,
         "01890a5d-ac96-774b-bcce-b302099a8057"},
        {42, -5, DF_STR("{\"a\":[1]}"), DF_STR("\n"), true, -11644473599999,
         "01890a5d-ac96-774b-bcce-b302099a8057"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        put_kinds((int64_t)i, &cases[i]);
        check_kinds((int64_t)i, &cases[i], cases[i].uuid);
    }
}

static void uuids_are_stored_in_lower_case(void **state)
{
    (void)state;
    struct kinds k = {
        .text = DF_STR("x"), .blob = DF_STR("x"), .uuid = "01890A5D-AC96-774B-BCCE-B302099A8057"};
    put_kinds(1, &k);
    check_kinds(1, &k, "01890a5d-ac96-774b-bcce-b302099a8057");
    k.uuid = "{01890A5D-ac96-774B-BCCE-B302099A8057}";
    put_kinds(2, &k);
    check_kinds(2, &k, "01890a5d-ac96-774b-bcce-b302099a8057");
}

static void values_are_found_by_what_they_are(void **state)
{
    (void)state;
    struct kinds k = {.text = DF_STR("x"),
                      .blob = DF_STR("x"),
                      .b = true,
                      .time = 1794712565123,
                      .uuid = "01890a5d-ac96-774b-bcce-b302099a8057"};
    put_kinds(7, &k);

    struct df_result *r = NULL;
    assert_ok(df_db_query(db, &kinds_by_values,
                          DF_PARAMS(df_time(k.time),
                                    df_uuid(DF_STR("01890A5D-AC96-774B-BCCE-B302099A8057")),
                                    df_bool(true)),
                          &r, &err),
              &err);
    assert_int_equal(df_result_step(r, &err), DF_ROW);
    assert_int_equal(df_col_int(r, 0), 7);
    df_result_free(r);
}

static void null_is_not_empty(void **state)
{
    (void)state;
    assert_ok(df_db_exec(db, &kinds_insert,
                         DF_PARAMS(df_int(1), df_null(DF_INT), df_null(DF_INT),
                                   df_text(DF_STR_NULL), df_blob(DF_STR_NULL), df_null(DF_BOOL),
                                   df_null(DF_TIME), df_uuid(DF_STR_NULL)),
                         NULL, &err),
              &err);
    struct df_result *r = NULL;
    assert_ok(df_db_query(db, &kinds_get, DF_PARAMS(df_int(1)), &r, &err), &err);
    assert_int_equal(df_result_step(r, &err), DF_ROW);
    for (size_t i = 0; i < 7; i++)
        assert_true(df_col_null(r, i));
    assert_int_equal(df_col_int(r, 0), 0);
    assert_int_equal(df_col_int(r, 1), 0);
    assert_null(df_col_text(r, 2).ptr);
    assert_null(df_col_blob(r, 3).ptr);
    assert_false(df_col_bool(r, 4));
    assert_int_equal(df_col_time(r, 5), -1);
    assert_null(df_col_text(r, 6).ptr);
    df_result_free(r);
}

static void five_megabytes_come_back_whole(void **state)
{
    (void)state;
    enum { SIZE = 5 << 20 };
    char *text = malloc(SIZE);
    char *blob = malloc(SIZE);
    assert_non_null(text);
    assert_non_null(blob);
    for (size_t i = 0; i < SIZE; i++) {
        text[i] = (char)('a' + i % 26);
        blob[i] = (char)(i * 7 + i / 256);
    }
    struct kinds k = {
        .text = {text, SIZE}, .blob = {blob, SIZE}, .uuid = "01890a5d-ac96-774b-bcce-b302099a8057"};
    put_kinds(1, &k);
    check_kinds(1, &k, k.uuid);
    free(text);
    free(blob);
}

static void parameters_may_change_once_the_query_has_run(void **state)
{
    (void)state;
    char name[] = "alpha";
    struct df_result *r = NULL;
    begin();
    assert_ok(df_db_query(db, &key_insert_returning,
                          DF_PARAMS(df_int(1), df_text(df_str_n(name, 5))), &r, &err),
              &err);
    memset(name, 'X', 5);
    assert_int_equal(df_result_step(r, &err), DF_ROW);
    check_str(df_col_text(r, 1), DF_STR("alpha"));
    df_result_free(r);
    commit();
}

static void sums_and_averages_are_numbers(void **state)
{
    (void)state;
    for (int64_t i = 1; i <= 4; i++)
        assert_ok(df_db_exec(db, &key_insert_amount,
                             DF_PARAMS(df_int(i), df_text(df_str_n("abcd" + i - 1, 1)), df_int(i)),
                             NULL, &err),
                  &err);
    struct df_result *r = NULL;
    assert_ok(df_db_query(db, &key_sum, DF_NO_PARAMS, &r, &err), &err);
    assert_int_equal(df_result_step(r, &err), DF_ROW);
    assert_int_equal(df_col_int(r, 0), 10);
    assert_int_equal(df_col_int(r, 1), 2);
    df_result_free(r);
}

static void values_that_one_database_could_not_keep_are_refused_by_all(void **state)
{
    (void)state;
    static const struct {
        size_t param;
        struct df_value value;
        enum df_code code;
    } cases[] = {
        {3, {.type = DF_TEXT, .s = {"a\0b", 3}}, DF_E_INVALID_TEXT},
        {3, {.type = DF_TEXT, .s = {"\0", 1}}, DF_E_INVALID_TEXT},
        {3, {.type = DF_TEXT, .s = {"\xff", 1}}, DF_E_INVALID_TEXT},
        {3, {.type = DF_TEXT, .s = {"\xed\xa0\x80", 3}}, DF_E_INVALID_TEXT},
        {3, {.type = DF_TEXT, .s = {"\xc0\x80", 2}}, DF_E_INVALID_TEXT},
        {3, {.type = DF_TEXT, .s = {"", (size_t)DF_VALUE_MAX + 1}}, DF_E_TOO_LARGE},
        {4, {.type = DF_BLOB, .s = {"", (size_t)DF_VALUE_MAX + 1}}, DF_E_TOO_LARGE},
        {7, {.type = DF_UUID, .s = {"", 0}}, DF_E_INVALID_TEXT},
        {7,
         {.type = DF_UUID, .s = {"01890a5d-ac96-774b-bcce-b302099a805g", 36}},
         DF_E_INVALID_TEXT},
        {6, {.type = DF_TIME, .i = INT64_MAX}, DF_E_USAGE},
        {6, {.type = DF_TIME, .i = -62135596800001}, DF_E_USAGE},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct df_value params[8] = {df_int(1),        df_null(DF_INT),  df_null(DF_INT),
                                     df_null(DF_TEXT), df_null(DF_BLOB), df_null(DF_BOOL),
                                     df_null(DF_TIME), df_null(DF_UUID)};
        params[cases[i].param] = cases[i].value;
        assert_code(df_db_exec(db, &kinds_insert, params, 8, NULL, &err), cases[i].code, &err);
        assert_true(df_db_alive(db));
    }
}

static void a_wrong_number_of_parameters_is_refused(void **state)
{
    (void)state;
    struct df_result *r = NULL;
    assert_code(df_db_exec(db, &key_insert, DF_PARAMS(df_int(1)), NULL, &err), DF_E_USAGE, &err);
    assert_code(df_db_query(db, &key_count, DF_PARAMS(df_int(1)), &r, &err), DF_E_USAGE, &err);
    begin();
    assert_code(
        df_db_exec_many(db, &key_insert, DF_PARAMS(df_int(1)), 1, NULL, NULL, NULL, NULL, &err),
        DF_E_USAGE, &err);
    df_db_rollback(db);
}

static void a_parameter_that_was_left_out_is_refused(void **state)
{
    (void)state;
    struct df_value params[2] = {df_int(1)};
    assert_code(df_db_exec(db, &key_insert, params, 2, NULL, &err), DF_E_USAGE, &err);
    assert_int_equal(keys(), 0);
}

static void parameters_are_bound_by_name_in_any_order(void **state)
{
    (void)state;
    static const char *const names[] = {"id", "name"};
    struct df_query named = key_insert;
    named.params = names;
    assert_ok(df_db_exec(db,
                         DF_ANY(&named, {"other", df_int(3)}, {"name", df_text(DF_STR("x"))},
                                {"id", df_int(7)}),
                         NULL, &err),
              &err);
    assert_int_equal(testdb_int(db, &key_first), 7);
}

/* --- results ---------------------------------------------------------------------------------- */

static void see_key(void *arg, struct df_result *r)
{
    struct df_buf *seen = arg;
    df_buf_addf(seen, "%lld=" DF_STR_FMT " ", (long long)df_col_int(r, 0),
                DF_STR_ARG(df_col_text(r, 1)));
}

static void each_row_is_given_once_in_order(void **state)
{
    (void)state;
    struct df_buf seen;
    df_buf_init(&seen, 256);
    assert_ok(df_db_each(db, DF_NO_VALUES(&key_list), see_key, &seen, &err), &err);
    assert_int_equal(seen.len, 0);
    assert_ok(insert_key(db, 2, "b"), &err);
    assert_ok(insert_key(db, 1, "a"), &err);
    assert_ok(df_db_each(db, DF_NO_VALUES(&key_list), see_key, &seen, &err), &err);
    check_str(df_buf_str(&seen), DF_STR("1=a 2=b "));
    assert_code(df_db_each(db, DF_NO_VALUES(&nonsense), see_key, &seen, &err), DF_E_DB, &err);
    assert_int_equal(keys(), 2); /* no result was left open */
    df_buf_release(&seen);
}

static void one_row_is_the_first_or_none(void **state)
{
    (void)state;
    struct df_buf seen;
    bool found = true;
    df_buf_init(&seen, 256);
    assert_ok(df_db_one(db, DF_NO_VALUES(&key_list), see_key, &seen, &found, &err), &err);
    assert_false(found);
    assert_code(df_db_one(db, DF_NO_VALUES(&key_list), see_key, &seen, NULL, &err), DF_E_NOT_FOUND,
                &err);
    assert_ok(insert_key(db, 1, "a"), &err);
    assert_ok(insert_key(db, 2, "b"), &err);
    assert_ok(df_db_one(db, DF_NO_VALUES(&key_list), see_key, &seen, &found, &err), &err);
    assert_true(found);
    check_str(df_buf_str(&seen), DF_STR("1=a "));
    assert_int_equal(keys(), 2);
    df_buf_release(&seen);
}

static void other_columns_than_were_read_for_are_refused(void **state)
{
    (void)state;
    struct df_query narrow = key_list;
    struct df_result *r = NULL;
    narrow.column_count = 1;
    assert_code(df_db_query(db, DF_NO_VALUES(&narrow), &r, &err), DF_E_INTERNAL, &err);
    assert_int_equal(keys(), 0);
}

static void a_connection_has_one_result_at_a_time(void **state)
{
    (void)state;
    struct df_result *r = NULL;
    struct df_result *second = NULL;
    assert_ok(df_db_query(db, &key_count, DF_NO_PARAMS, &r, &err), &err);
    assert_code(df_db_query(db, &key_count, DF_NO_PARAMS, &second, &err), DF_E_USAGE, &err);
    assert_code(insert_key(db, 1, "a"), DF_E_USAGE, &err);
    df_result_free(r);
    df_result_free(NULL);
    assert_ok(insert_key(db, 1, "a"), &err);
}

static void a_result_may_be_freed_before_its_end(void **state)
{
    (void)state;
    for (int64_t i = 0; i < 10; i++) {
        char name[8];
        (void)snprintf(name, sizeof(name), "k%d", (int)i);
        assert_ok(insert_key(db, i, name), &err);
    }
    for (int round = 0; round < 3; round++) {
        struct df_result *r = NULL;
        assert_ok(df_db_query(db, &key_list, DF_NO_PARAMS, &r, &err), &err);
        assert_int_equal(df_result_step(r, &err), DF_ROW);
        assert_int_equal(df_col_int(r, 0), 0);
        df_result_free(r);
    }
}

static void a_query_has_run_though_its_rows_are_not_looked_at(void **state)
{
    (void)state;
    struct df_result *r = NULL;
    assert_ok(df_db_query(db, &key_insert_returning, DF_PARAMS(df_int(1), df_text(DF_STR("a"))), &r,
                          &err),
              &err);
    df_result_free(r);
    assert_int_equal(keys(), 1);
}

/* Outside a transaction: committed before the first row is looked at, and nobody is kept waiting.
 */
static void a_query_that_writes_is_committed_when_it_returns(void **state)
{
    (void)state;
    TESTDB_QUERY(key_touch, 0, "UPDATE Keys SET Amount = Amount + 1 RETURNING Id, Name, Amount",
                 "UPDATE Keys SET Amount = Amount + 1 RETURNING Id, Name, Amount",
                 "UPDATE Keys SET Amount = Keys.Amount + 1"
                 " OUTPUT inserted.Id, inserted.Name, inserted.Amount");
    enum { N = 20 };
    struct df_db *other = testdb_open(&t);
    struct df_result *r = NULL;
    int64_t ids = 0;

    for (int64_t i = 0; i < N; i++) {
        char name[8];
        (void)snprintf(name, sizeof(name), "k%d", (int)i);
        assert_ok(insert_key(db, i, name), &err);
    }
    assert_ok(df_db_query(db, &key_touch, DF_NO_PARAMS, &r, &err), &err);
    assert_int_equal(testdb_int(other, &key_sum), 2 * N);
    assert_ok(df_db_exec(other, &key_add, DF_PARAMS(df_int(1)), NULL, &err), &err);
    assert_int_equal(df_result_columns(r), 3);
    for (size_t i = 0; i < N; i++) {
        char name[8];
        assert_int_equal(df_result_step(r, &err), DF_ROW);
        ids += df_col_int(r, 0);
        (void)snprintf(name, sizeof(name), "k%d", (int)df_col_int(r, 0));
        check_str(df_col_text(r, 1), df_str_c(name));
        check_str(df_col_blob(r, 1), df_str_c(name));
        assert_int_equal(df_col_int(r, 2), 2);
        assert_false(df_col_null(r, 2));
    }
    assert_int_equal(ids, N * (N - 1) / 2);
    assert_int_equal(df_result_step(r, &err), DF_DONE);
    df_result_free(r);
    df_db_close(other);
}

static void affected_counts_rows_written(void **state)
{
    (void)state;
    int64_t n = -1;
    assert_ok(insert_key(db, 1, "a"), &err);
    assert_ok(insert_key(db, 2, "b"), &err);
    assert_ok(df_db_exec(db, &key_add, DF_PARAMS(df_int(1)), &n, &err), &err);
    assert_int_equal(n, 2);
    assert_ok(df_db_exec(db, &key_add_to, DF_PARAMS(df_int(1), df_int(99)), &n, &err), &err);
    assert_int_equal(n, 0);
    assert_ok(df_db_exec(db, &key_add, DF_PARAMS(df_int(1)), &n, &err), &err);
    assert_ok(df_db_exec(db, &key_count, DF_NO_PARAMS, &n, &err), &err);
    assert_int_equal(n, 0);
    assert_ok(
        df_db_exec(db, &key_insert_returning, DF_PARAMS(df_int(1), df_text(DF_STR("x"))), &n, &err),
        &err);
    assert_int_equal(n, 0);
    assert_ok(
        df_db_exec(db, &key_insert_returning, DF_PARAMS(df_int(3), df_text(DF_STR("x"))), &n, &err),
        &err);
    assert_int_equal(n, 1);
}

/* --- errors ----------------------------------------------------------------------------------- */

static void errors_have_the_same_code_everywhere(void **state)
{
    (void)state;
    struct df_result *r = NULL;
    assert_ok(insert_key(db, 1, "a"), &err);
    assert_code(insert_key(db, 1, "b"), DF_E_DB_UNIQUE, &err);
    assert_code(insert_key(db, 2, "a"), DF_E_DB_UNIQUE, &err);
    assert_code(insert_key(db, 2, NULL), DF_E_DB_CONSTRAINT, &err);
    assert_code(df_db_exec(db, &key_insert_amount,
                           DF_PARAMS(df_int(2), df_text(DF_STR("b")), df_int(0)), NULL, &err),
                DF_E_DB_CONSTRAINT, &err);
    assert_code(df_db_exec(db, &part_insert, DF_PARAMS(df_int(1), df_int(77)), NULL, &err),
                DF_E_DB_CONSTRAINT, &err);
    assert_code(df_db_query(db, &nonsense, DF_NO_PARAMS, &r, &err), DF_E_DB, &err);
    assert_code(df_db_query(db, &key_insert_amount,
                            DF_PARAMS(df_int(1), df_text(DF_STR("z")), df_int(1)), &r, &err),
                DF_E_DB_UNIQUE, &err);
    assert_true(df_db_alive(db));
    assert_int_equal(keys(), 1);
}

static void errors_name_the_query_and_not_the_values(void **state)
{
    (void)state;
    assert_ok(insert_key(db, 1, "12345678901"), &err);
    assert_code(insert_key(db, 2, "12345678901"), DF_E_DB_UNIQUE, &err);
    assert_non_null(strstr(err.detail, "key_insert"));
    assert_null(strstr(err.detail, "12345678901"));
}

static void who_waits_too_long_for_a_lock_has_a_conflict(void **state)
{
    (void)state;
    struct df_db *other = NULL;
    struct df_db_options opt = {.url = t.url, .statement_timeout_ms = 300};
    assert_ok(df_db_open(&opt, &other, &err), &err);
    assert_ok(insert_key(db, 1, "a"), &err);
    begin();
    assert_ok(df_db_exec(db, &key_add, DF_PARAMS(df_int(1)), NULL, &err), &err);

    enum df_code code = df_db_begin(other, true, &err);
    if (code == DF_OK)
        code = df_db_exec(other, &key_add, DF_PARAMS(df_int(1)), NULL, &err);
    assert_code(code, DF_E_DB_CONFLICT, &err);
    assert_int_equal(df_code_retry(code), DF_RETRY_NOW);
    df_db_rollback(other);
    commit();
    assert_ok(df_db_exec(other, &key_add, DF_PARAMS(df_int(1)), NULL, &err), &err);
    df_db_close(other);
}

static void a_reading_connection_cannot_write(void **state)
{
    (void)state;
    struct df_db *reader = NULL;
    struct df_db_options opt = {.url = t.url, .read_only = true};
    assert_ok(df_db_open(&opt, &reader, &err), &err);
    assert_code(insert_key(reader, 1, "a"), DF_E_USAGE, &err);
    assert_true(df_db_alive(reader));
    assert_int_equal(testdb_int(reader, &key_count), 0);
    df_db_close(reader);
}

/* --- transactions ----------------------------------------------------------------------------- */

static void what_is_rolled_back_never_was(void **state)
{
    (void)state;
    begin();
    assert_true(df_db_in_transaction(db));
    assert_ok(insert_key(db, 1, "a"), &err);
    df_db_rollback(db);
    assert_false(df_db_in_transaction(db));
    df_db_rollback(db);
    assert_int_equal(keys(), 0);
    begin();
    assert_ok(insert_key(db, 1, "a"), &err);
    commit();
    assert_int_equal(keys(), 1);
}

static void others_see_only_what_is_committed(void **state)
{
    (void)state;
    struct df_db *other = testdb_open(&t);
    begin();
    assert_ok(insert_key(db, 1, "a"), &err);
    assert_int_equal(testdb_int(other, &key_count), 0);
    commit();
    assert_int_equal(testdb_int(other, &key_count), 1);
    df_db_close(other);
}

static void who_begins_to_read_sees_one_moment(void **state)
{
    (void)state;
    struct df_db *other = testdb_open(&t);
    assert_ok(df_db_begin(other, false, &err), &err);
    assert_int_equal(testdb_int(other, &key_count), 0);
    assert_ok(insert_key(db, 1, "a"), &err);
    assert_int_equal(testdb_int(other, &key_count), 0);
    df_db_rollback(other);
    assert_int_equal(testdb_int(other, &key_count), 1);
    df_db_close(other);
}

static void a_failed_transaction_takes_nothing_until_rolled_back(void **state)
{
    (void)state;
    begin();
    assert_ok(insert_key(db, 1, "a"), &err);
    assert_code(insert_key(db, 1, "b"), DF_E_DB_UNIQUE, &err);
    assert_code(insert_key(db, 2, "b"), DF_E_DB, &err);
    assert_code(df_db_savepoint(db, &err), DF_E_DB, &err);
    assert_code(df_db_commit(db, &err), DF_E_DB, &err);
    assert_false(df_db_in_transaction(db));
    assert_int_equal(keys(), 0);
}

static void rolling_back_to_a_savepoint_saves_the_rest(void **state)
{
    (void)state;
    begin();
    assert_ok(insert_key(db, 1, "a"), &err);

    assert_ok(df_db_savepoint(db, &err), &err);
    assert_ok(insert_key(db, 2, "b"), &err);
    assert_ok(df_db_release(db, &err), &err);

    assert_ok(df_db_savepoint(db, &err), &err);
    assert_ok(insert_key(db, 3, "c"), &err);
    assert_code(insert_key(db, 4, "a"), DF_E_DB_UNIQUE, &err);
    assert_ok(df_db_rollback_to(db, &err), &err);

    assert_ok(df_db_savepoint(db, &err), &err);
    assert_ok(df_db_rollback_to(db, &err), &err);
    assert_ok(df_db_savepoint(db, &err), &err);
    assert_ok(df_db_release(db, &err), &err);

    assert_ok(df_db_savepoint(db, &err), &err);
    assert_ok(insert_key(db, 5, "c"), &err);
    assert_ok(df_db_release(db, &err), &err);
    assert_ok(df_db_savepoint(db, &err), &err);
    assert_code(insert_key(db, 5, "d"), DF_E_DB_UNIQUE, &err);
    assert_ok(df_db_rollback_to(db, &err), &err);
    commit();

    struct df_result *r = NULL;
    static const int64_t want[] = {1, 2, 5};
    assert_ok(df_db_query(db, &key_list, DF_NO_PARAMS, &r, &err), &err);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(df_result_step(r, &err), DF_ROW);
        assert_int_equal(df_col_int(r, 0), want[i]);
    }
    assert_int_equal(df_result_step(r, &err), DF_DONE);
    df_result_free(r);
}

static void calls_out_of_order_are_refused(void **state)
{
    (void)state;
    assert_code(df_db_commit(db, &err), DF_E_USAGE, &err);
    assert_code(df_db_savepoint(db, &err), DF_E_USAGE, &err);
    assert_code(df_db_release(db, &err), DF_E_USAGE, &err);
    assert_code(df_db_rollback_to(db, &err), DF_E_USAGE, &err);
    begin();
    assert_code(df_db_begin(db, true, &err), DF_E_USAGE, &err);
    assert_code(df_db_schema_lock(db, &err), DF_E_USAGE, &err);
    assert_ok(df_db_savepoint(db, &err), &err);
    assert_code(df_db_savepoint(db, &err), DF_E_USAGE, &err);
    assert_code(df_db_commit(db, &err), DF_E_USAGE, &err);
    assert_false(df_db_in_transaction(db));
    begin();
    commit();
    assert_code(df_db_exec_many(db, &key_insert, NULL, 2, 0, NULL, NULL, NULL, NULL, &err),
                DF_E_USAGE, &err);
}

static void reset_ends_whatever_was_left_open(void **state)
{
    (void)state;
    struct df_result *r = NULL;
    begin();
    assert_ok(insert_key(db, 1, "a"), &err);
    assert_ok(df_db_query(db, &key_count, DF_NO_PARAMS, &r, &err), &err);
    df_db_reset(db);
    assert_int_equal(keys(), 0);
    df_db_reset(db);
}

/* --- many rows -------------------------------------------------------------------------------- */

#define MANY 200

struct seen {
    size_t rows[MANY];
    size_t count;
    bool right;
};

static void see_row(void *arg, size_t row, struct df_result *r)
{
    struct seen *s = arg;
    char name[16];
    struct df_err refused = DF_ERR_INIT;

    (void)snprintf(name, sizeof(name), "n%zu", row);
    s->right = s->right && df_col_int(r, 0) == (int64_t)row &&
               df_str_eq(df_col_text(r, 1), df_str_c(name)) &&
               df_db_ping(db, &refused) == DF_E_USAGE;
    s->rows[s->count++] = row;
}

static void fill_names(struct df_value params[2 * MANY], char names[MANY][16])
{
    for (size_t i = 0; i < MANY; i++) {
        (void)snprintf(names[i], 16, "n%zu", i);
        params[2 * i] = df_int((int64_t)i);
        params[2 * i + 1] = df_text(df_str_c(names[i]));
    }
}

static void many_rows_return_theirs_in_order(void **state)
{
    (void)state;
    struct df_value params[2 * MANY];
    char names[MANY][16];
    int64_t affected[MANY];
    int64_t failed = 7;
    struct seen seen = {.right = true};

    fill_names(params, names);
    assert_ok(insert_key(db, 50, "taken"), &err);
    assert_ok(insert_key(db, 1000, "n60"), &err);
    begin();
    assert_ok(df_db_exec_many(db, &key_insert_returning, params, 2, MANY, see_row, &seen, affected,
                              &failed, &err),
              &err);
    commit();
    assert_int_equal(failed, -1);
    assert_true(seen.right);
    assert_int_equal(seen.count, MANY - 2);
    for (size_t i = 0, at = 0; i < MANY; i++) {
        bool taken = i == 50 || i == 60;
        assert_int_equal(affected[i], taken ? 0 : 1);
        if (!taken)
            assert_int_equal(seen.rows[at++], i);
    }
    assert_int_equal(keys(), MANY);
}

static void many_rows_without_an_answer_are_counted(void **state)
{
    (void)state;
    struct df_value params[2 * MANY];
    char names[MANY][16];
    int64_t affected[MANY];
    static const size_t counts[] = {1, 2, 3, 5, 64, 65, MANY};

    fill_names(params, names);
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        begin();
        assert_ok(df_db_exec_many(db, &key_insert, params, 2, counts[i], NULL, NULL, affected, NULL,
                                  &err),
                  &err);
        for (size_t row = 0; row < counts[i]; row++)
            assert_int_equal(affected[row], 1);
        assert_int_equal(keys(), counts[i]);
        for (size_t row = 0; row < counts[i]; row++) {
            params[2 * row] = df_int(1);
            params[2 * row + 1] = df_int((int64_t)(row % 2 ? 1000 : 0));
        }
        assert_ok(df_db_exec_many(db, &key_add_to, params, 2, counts[i], NULL, NULL, affected, NULL,
                                  &err),
                  &err);
        for (size_t row = 0; row < counts[i]; row++)
            assert_int_equal(affected[row], row % 2 ? 0 : 1);
        df_db_rollback(db);
        fill_names(params, names);
    }
}

/* Every kind of value in many rows at once, which some drivers send in another way than in one. */
static void pass_many_of_every_type(bool blobs)
{
    enum { N = 40 };
    static const char *const texts[] = {
        "",     "a\xC3\xA7\xC3\xA3o", "\xF0\x9F\x9A\x80\"\\/\b\x01\x7f",
        "null", "\xE2\x80\xA8'; --",  " \t\r\n "};
    struct df_value params[8 * N];
    struct df_str all[N];
    char *large = malloc(10000);
    assert_non_null(large);
    memset(large, 'x', 10000);

    for (size_t i = 0; i < N; i++) {
        all[i] = i == 7 ? df_str_n(large, 10000) : df_str_c(texts[i % 6]);
        struct df_value *p = &params[8 * i];
        p[0] = df_int((int64_t)i);
        p[1] = i % 5 ? df_int(i % 2 ? INT64_MIN + (int64_t)i : INT64_MAX - (int64_t)i)
                     : df_null(DF_INT);
        p[2] = i % 4 ? df_int((int64_t)i + 1) : df_null(DF_INT);
        p[3] = i % 3 || i == 7 ? df_text(all[i]) : df_null(DF_TEXT);
        p[4] = df_null(DF_BLOB);
        p[5] = i % 7 ? df_bool(i % 2) : df_null(DF_BOOL);
        p[6] = i % 6 ? df_time(i == 1 ? -62135596800000 : 1794712565123 + (int64_t)i * 86400001)
                     : df_null(DF_TIME);
        p[7] = i % 8 ? df_uuid(DF_STR("01890A5D-AC96-774B-BCCE-B302099A8057")) : df_null(DF_UUID);
    }
    /* With the blob, and without: not every way of sending can hold one. */
    begin();
    if (!blobs) {
        struct df_value few[7 * N];
        for (size_t i = 0; i < N; i++) {
            memcpy(&few[7 * i], &params[8 * i], 4 * sizeof(few[0]));
            memcpy(&few[7 * i + 4], &params[8 * i + 5], 3 * sizeof(few[0]));
        }
        assert_ok(df_db_exec_many(db, &kinds_insert_few, few, 7, N, NULL, NULL, NULL, NULL, &err),
                  &err);
    } else {
        assert_ok(df_db_exec_many(db, &kinds_insert, params, 8, N, NULL, NULL, NULL, NULL, &err),
                  &err);
    }
    commit();
    for (size_t i = 0; i < N; i++) {
        const struct df_value *p = &params[8 * i];
        struct df_result *r = NULL;
        assert_ok(df_db_query(db, &kinds_get, DF_PARAMS(df_int((int64_t)i)), &r, &err), &err);
        assert_int_equal(df_result_step(r, &err), DF_ROW);
        for (size_t c = 1; c < 8; c++)
            assert_int_equal(df_col_null(r, c - 1), p[c].null);
        assert_true(p[1].null || df_col_int(r, 0) == p[1].i);
        assert_true(p[2].null || df_col_int(r, 1) == p[2].i);
        if (!p[3].null)
            check_str(df_col_text(r, 2), p[3].s);
        assert_true(p[5].null || df_col_bool(r, 4) == (p[5].i != 0));
        assert_true(p[6].null || df_col_time(r, 5) == p[6].i);
        if (!p[7].null)
            check_str(df_col_text(r, 6), DF_STR("01890a5d-ac96-774b-bcce-b302099a8057"));
        df_result_free(r);
    }
    free(large);
}

static void many_rows_of_every_type_come_back_as_they_went(void **state)
{
    (void)state;
    pass_many_of_every_type(true);
}

static void many_rows_without_blobs_come_back_as_they_went(void **state)
{
    (void)state;
    pass_many_of_every_type(false);
}

static void the_failing_row_of_many_is_told(void **state)
{
    (void)state;
    static const size_t bad_rows[] = {0, 1, 77, MANY - 1};
    struct df_value params[2 * MANY];
    char names[MANY][16];

    for (size_t i = 0; i < sizeof(bad_rows) / sizeof(bad_rows[0]); i++) {
        int64_t failed = -1;
        fill_names(params, names);
        begin();
        assert_ok(insert_key(db, 5000, "first"), &err);
        assert_ok(df_db_savepoint(db, &err), &err);
        params[2 * bad_rows[i]] = df_int(5000);
        assert_code(
            df_db_exec_many(db, &key_insert, params, 2, MANY, NULL, NULL, NULL, &failed, &err),
            DF_E_DB_UNIQUE, &err);
        assert_int_equal(failed, bad_rows[i]);
        assert_ok(df_db_rollback_to(db, &err), &err);
        assert_int_equal(keys(), 1);

        assert_ok(df_db_savepoint(db, &err), &err);
        params[2 * bad_rows[i] + 1] = df_text(df_str_n("\0", 1));
        assert_code(
            df_db_exec_many(db, &key_insert, params, 2, MANY, NULL, NULL, NULL, &failed, &err),
            DF_E_INVALID_TEXT, &err);
        assert_int_equal(failed, bad_rows[i]);
        df_db_rollback(db);
    }
    assert_int_equal(keys(), 0);
}

struct volume {
    size_t rows;
    size_t bytes;
};

static void see_volume(void *arg, size_t row, struct df_result *r)
{
    struct volume *v = arg;
    v->rows += row == v->rows;
    v->bytes += df_col_text(r, 1).len;
}

/* Fifty megabytes each way at once: neither side may wait for the other to read first. */
static void many_large_rows_pass_both_ways(void **state)
{
    (void)state;
    enum { ROWS = 5000, SIZE = 10000 };
    struct df_value *params = calloc((size_t)2 * ROWS, sizeof(*params));
    char *text = malloc((size_t)SIZE + ROWS);
    struct volume v = {0};
    assert_non_null(params);
    assert_non_null(text);
    /* Different tails of one buffer: no two names are the same. */
    for (size_t i = 0; i < SIZE + ROWS; i++)
        text[i] = (char)('a' + (i * i / 7 + i / 26) % 26);
    for (size_t i = 0; i < ROWS; i++) {
        params[2 * i] = df_int((int64_t)i);
        params[2 * i + 1] = df_text(df_str_n(text + i, SIZE));
    }
    static const char *const plain[DF_DIALECT_COUNT] = {
        [DF_SQLITE] = "CREATE TABLE Large (Id INTEGER PRIMARY KEY, Name TEXT)",
        [DF_POSTGRES] = "CREATE TABLE Large (Id BIGINT PRIMARY KEY, Name TEXT)",
        [DF_SQLSERVER] = "CREATE TABLE Large (Id BIGINT PRIMARY KEY, Name NVARCHAR(MAX))",
    };
    TESTDB_QUERY(large_insert, 2, "INSERT INTO Large (Id, Name) VALUES (?1, ?2) RETURNING Id, Name",
                 "INSERT INTO Large (Id, Name) VALUES ($1, $2) RETURNING Id, Name",
                 "INSERT INTO Large (Id, Name) OUTPUT inserted.Id, inserted.Name VALUES (?, ?)");
    testdb_script(db, plain[dialect]);
    begin();
    assert_ok(df_db_exec_many(db, &large_insert, params, 2, ROWS, see_volume, &v, NULL, NULL, &err),
              &err);
    commit();
    assert_int_equal(v.rows, ROWS);
    assert_int_equal(v.bytes, (size_t)ROWS * SIZE);

    /* A failure in the middle of so much leaves the connection in step. */
    int64_t failed = -1;
    v = (struct volume){0};
    begin();
    assert_code(
        df_db_exec_many(db, &large_insert, params, 2, ROWS, see_volume, &v, NULL, &failed, &err),
        DF_E_DB_UNIQUE, &err);
    assert_int_equal(failed, 0);
    df_db_rollback(db);
    assert_ok(df_db_ping(db, &err), &err);
    free(params);
    free(text);
}

static void more_queries_than_the_cache_holds_all_work(void **state)
{
    (void)state;
    enum { COUNT = 400 };
    static struct df_query queries[COUNT];
    static char texts[COUNT][32];

    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < COUNT; i++) {
            (void)snprintf(texts[i], sizeof(texts[i]), "SELECT %zu", i);
            queries[i].name = "select";
            for (size_t d = 0; d < DF_DIALECT_COUNT; d++)
                queries[i].text[d].sql = texts[i];
            assert_int_equal(testdb_int(db, &queries[i]), i);
        }
    }
}

/* --- schema ----------------------------------------------------------------------------------- */

static void a_script_tells_the_line_of_its_error(void **state)
{
    (void)state;
    assert_code(df_db_script(db,
                             "-- a comment, \xC3\xA7\xC3\xA3o\nCREATE TABLE Fine (Id INTEGER);\n\n"
                             "CREATE TABEL Broken (Id INTEGER);\n",
                             &err),
                DF_E_DB, &err);
    assert_non_null(strstr(err.detail, "line 4"));
    testdb_script(db, "");
    testdb_script(db, "-- nothing\n");
    assert_int_equal(keys(), 0);
}

static void a_script_that_fails_leaves_no_transaction_open(void **state)
{
    (void)state;
    assert_code(
        df_db_script(
            db, "BEGIN; INSERT INTO Keys (Id, Name) VALUES (1, 'a'); SELECT * FROM Nowhere;", &err),
        DF_E_DB, &err);
    assert_int_equal(keys(), 0);
    assert_ok(insert_key(db, 1, "a"), &err);
    begin();
    testdb_script(db, "INSERT INTO Keys (Id, Name) VALUES (2, 'b'); INSERT INTO Keys (Id, Name) "
                      "VALUES (3, 'c');");
    df_db_rollback(db);
    assert_int_equal(keys(), 1);
}

/* Cached statements must not stand in the way of a changed table. */
static void statements_survive_a_changed_schema(void **state)
{
    (void)state;
    TESTDB_QUERY(star, 0, "SELECT * FROM Keys", "SELECT * FROM Keys", "SELECT * FROM Keys");
    struct df_db *other = testdb_open(&t);
    struct df_result *r = NULL;

    for (size_t columns = 3; columns < 6; columns++) {
        assert_ok(df_db_query(db, &star, DF_NO_PARAMS, &r, &err), &err);
        assert_int_equal(df_result_columns(r), columns);
        df_result_free(r);
        char sql[64];
        (void)snprintf(sql, sizeof(sql), "ALTER TABLE Keys ADD %s Extra%zu INTEGER",
                       dialect == DF_SQLSERVER ? "" : "COLUMN", columns);
        testdb_script(other, sql);
    }
    /* In a transaction the statement fails as a conflict, if at all, and works when all is run
     * again. */
    begin();
    enum df_code code = df_db_query(db, &star, DF_NO_PARAMS, &r, &err);
    if (code != DF_OK) {
        assert_code(code, DF_E_DB_CONFLICT, &err);
        df_db_rollback(db);
        begin();
        assert_ok(df_db_query(db, &star, DF_NO_PARAMS, &r, &err), &err);
    }
    df_result_free(r);
    commit();
    df_db_close(other);
}

/* --- one database alone ----------------------------------------------------------------------- */

static void a_terminated_connection_is_known_to_be_lost(void **state)
{
    (void)state;
    if (dialect == DF_SQLITE)
        skip();
    TESTDB_QUERY(own_id, 0, NULL, "SELECT pg_backend_pid()", "SELECT @@SPID");
    char end[64];
    struct df_db *other = testdb_open(&t);
    assert_ok(df_db_begin(other, true, &err), &err);
    assert_ok(insert_key(other, 1, "a"), &err);
    (void)snprintf(end, sizeof(end),
                   dialect == DF_POSTGRES ? "SELECT pg_terminate_backend(%lld)" : "KILL %lld",
                   (long long)testdb_int(other, &own_id));
    testdb_admin(&t, end);
    assert_code(insert_key(other, 2, "b"), DF_E_DB_UNAVAILABLE, &err);
    assert_false(df_db_alive(other));
    assert_code(insert_key(other, 2, "b"), DF_E_DB_UNAVAILABLE, &err);
    assert_code(df_db_rollback_to(other, &err), DF_E_DB_UNAVAILABLE, &err);
    df_db_rollback(other);
    assert_code(df_db_ping(other, &err), DF_E_DB_UNAVAILABLE, &err);
    df_db_close(other);
    assert_int_equal(keys(), 0);
}

static void a_statement_that_takes_too_long_is_a_timeout(void **state)
{
    (void)state;
    if (dialect == DF_SQLITE)
        skip();
    TESTDB_QUERY(sleep_long, 0, NULL, "SELECT pg_sleep(20)",
                 /* Babelfish has no WAITFOR. */
                 "SELECT COUNT_BIG(*) FROM sys.all_objects a CROSS JOIN sys.all_objects b"
                 " CROSS JOIN sys.all_objects c CROSS JOIN sys.all_objects d");
    TESTDB_QUERY(own_id, 0, "SELECT 0", "SELECT 0", "SELECT @@SPID");
    struct df_db *other = NULL;
    struct df_db_options opt = {.url = t.url, .statement_timeout_ms = 200};
    assert_ok(df_db_open(&opt, &other, &err), &err);
    int64_t id = testdb_int(other, &own_id);
    assert_code(df_db_exec(other, &sleep_long, DF_NO_PARAMS, NULL, &err), DF_E_DB_TIMEOUT, &err);
    if (dialect == DF_POSTGRES || df_db_alive(other)) {
        assert_ok(df_db_ping(other, &err), &err);
    } else {
        /* Babelfish does not hear that a running statement is cancelled. */
        char end[64];
        (void)snprintf(end, sizeof(end), "KILL %lld", (long long)id);
        testdb_admin(&t, end);
    }
    df_db_close(other);
}

static void statements_forgotten_by_the_server_are_prepared_again(void **state)
{
    (void)state;
    if (dialect != DF_POSTGRES)
        skip();
    assert_int_equal(keys(), 0);
    testdb_script(db, "DEALLOCATE ALL");
    assert_int_equal(keys(), 0);
    testdb_script(db, "DEALLOCATE ALL");
    begin();
    assert_code(insert_key(db, 1, "a"), DF_OK, &err);
    commit();
    testdb_script(db, "DEALLOCATE ALL");
    /* Inside a transaction the caller has to run all of it again, a few times at most. */
    enum df_code code = DF_E_DB_CONFLICT;
    for (int i = 0; i < 5 && code == DF_E_DB_CONFLICT; i++) {
        begin();
        code = insert_key(db, 2, "b");
        if (code == DF_OK)
            code = df_db_commit(db, &err);
        df_db_rollback(db);
    }
    assert_ok(code, &err);
    assert_int_equal(keys(), 2);
}

/* Its plan may have to serve until the table is large. */
static void a_small_table_is_read_by_its_index(void **state)
{
    static const struct df_query explain = {
        .name = "explain",
        .param_count = 1,
        .text = {[DF_POSTGRES] = {
                     .sql = "EXPLAIN SELECT Name FROM Keys"
                            " WHERE Id = ANY(CAST(translate($1, '[]', '{}') AS BIGINT[]))"}}};
    struct df_result *r = NULL;
    bool by_index = false;
    char line[256];

    (void)state;
    if (dialect != DF_POSTGRES)
        skip();
    assert_code(insert_key(db, 1, "a"), DF_OK, &err);
    testdb_script(db, "ANALYZE Keys");
    assert_ok(df_db_query(db, &explain, DF_PARAMS(df_text(DF_STR("[1,2]"))), &r, &err), &err);
    while (df_result_step(r, &err) == DF_ROW) {
        (void)snprintf(line, sizeof(line), DF_STR_FMT, DF_STR_ARG(df_col_text(r, 0)));
        by_index = by_index || strstr(line, "Index");
    }
    df_result_free(r);
    assert_true(by_index);
}

static void a_refused_value_is_not_quoted_in_the_error(void **state)
{
    (void)state;
    if (dialect == DF_SQLITE)
        skip();
    TESTDB_QUERY(as_number, 1, NULL, "SELECT ($1::text)::int", "SELECT CAST(? AS INT)");
    assert_code(df_db_exec(db, &as_number, DF_PARAMS(df_text(DF_STR("secret-value"))), NULL, &err),
                DF_E_DB_CONSTRAINT, &err);
    assert_null(strstr(err.detail, "secret-value"));
}

static void new_files_are_for_their_owner_alone(void **state)
{
    (void)state;
    if (dialect != DF_SQLITE)
        skip();
    static const char *const suffixes[] = {"", "-wal", "-shm"};
    for (size_t i = 0; i < 3; i++) {
        char path[128];
        struct stat st;
        (void)snprintf(path, sizeof(path), "%s/test.db%s", t.dir, suffixes[i]);
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_mode & 0777, 0600);
    }
}

int main(void)
{
#define ON_EACH(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        ON_EACH(every_type_comes_back_as_it_went),
        ON_EACH(uuids_are_stored_in_lower_case),
        ON_EACH(values_are_found_by_what_they_are),
        ON_EACH(null_is_not_empty),
        ON_EACH(five_megabytes_come_back_whole),
        ON_EACH(parameters_may_change_once_the_query_has_run),
        ON_EACH(sums_and_averages_are_numbers),
        ON_EACH(values_that_one_database_could_not_keep_are_refused_by_all),
        ON_EACH(a_wrong_number_of_parameters_is_refused),
        ON_EACH(a_parameter_that_was_left_out_is_refused),
        ON_EACH(parameters_are_bound_by_name_in_any_order),
        ON_EACH(each_row_is_given_once_in_order),
        ON_EACH(one_row_is_the_first_or_none),
        ON_EACH(other_columns_than_were_read_for_are_refused),
        ON_EACH(a_connection_has_one_result_at_a_time),
        ON_EACH(a_result_may_be_freed_before_its_end),
        ON_EACH(a_query_has_run_though_its_rows_are_not_looked_at),
        ON_EACH(a_query_that_writes_is_committed_when_it_returns),
        ON_EACH(affected_counts_rows_written),
        ON_EACH(errors_have_the_same_code_everywhere),
        ON_EACH(errors_name_the_query_and_not_the_values),
        ON_EACH(who_waits_too_long_for_a_lock_has_a_conflict),
        ON_EACH(a_reading_connection_cannot_write),
        ON_EACH(what_is_rolled_back_never_was),
        ON_EACH(others_see_only_what_is_committed),
        ON_EACH(who_begins_to_read_sees_one_moment),
        ON_EACH(a_failed_transaction_takes_nothing_until_rolled_back),
        ON_EACH(rolling_back_to_a_savepoint_saves_the_rest),
        ON_EACH(calls_out_of_order_are_refused),
        ON_EACH(reset_ends_whatever_was_left_open),
        ON_EACH(many_rows_return_theirs_in_order),
        ON_EACH(many_rows_without_an_answer_are_counted),
        ON_EACH(many_rows_of_every_type_come_back_as_they_went),
        ON_EACH(many_rows_without_blobs_come_back_as_they_went),
        ON_EACH(the_failing_row_of_many_is_told),
        ON_EACH(many_large_rows_pass_both_ways),
        ON_EACH(more_queries_than_the_cache_holds_all_work),
        ON_EACH(a_script_tells_the_line_of_its_error),
        ON_EACH(a_script_that_fails_leaves_no_transaction_open),
        ON_EACH(statements_survive_a_changed_schema),
        ON_EACH(a_terminated_connection_is_known_to_be_lost),
        ON_EACH(a_statement_that_takes_too_long_is_a_timeout),
        ON_EACH(statements_forgotten_by_the_server_are_prepared_again),
        ON_EACH(a_small_table_is_read_by_its_index),
        ON_EACH(a_refused_value_is_not_quoted_in_the_error),
        ON_EACH(new_files_are_for_their_owner_alone),
    };
    return testdb_run_tests("store", &dialect, tests, sizeof(tests) / sizeof(tests[0]));
}

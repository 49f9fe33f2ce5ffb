/* The runner of the schema scripts: once, again, together, after changes and failures. */
#include "schema_fixture.h"

#include "all_queries.h"
#include "schema_scripts.h"

#include <signal.h>
#include <sys/wait.h>
#include <zlib.h>

static size_t script_count(void)
{
    size_t n = 0;
    const char *dialect = df_dialect_name(df_db_dialect(fx.db));

    for (size_t i = 0; i < df_schema_scripts_count; i++)
        n += strncmp(df_schema_scripts[i].name, dialect, strlen(dialect)) == 0;
    return n;
}

static enum df_code apply_these(const struct df_file *files, size_t count, size_t *ret_applied,
                                struct df_err *err)
{
    *err = DF_ERR_INIT;
    return df_schema_apply_files(fx.db, files, count, NULL, ret_applied, err);
}

/* A script of the database under test, compressed as the build does it. */
static struct df_file script(const char *name, const char *text)
{
    const char *dialect = df_dialect_name(df_db_dialect(fx.db));
    size_t size = strlen(text);
    z_stream z = {.next_in = (Bytef *)(uintptr_t)text, .avail_in = (uInt)size};

    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
    uLong most = deflateBound(&z, size);
    z.next_out = df_arena_alloc(&fx.arena, most);
    z.avail_out = (uInt)most;
    unsigned char *data = z.next_out;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    size_t len = z.total_out;
    assert_int_equal(deflateEnd(&z), Z_OK);
    return (struct df_file){df_arena_printf(&fx.arena, "%s/%s", dialect, name).ptr, data, len,
                            size};
}

/* The table of records, from the real scripts. */
static struct df_file record_script(void)
{
    const char *dialect = df_dialect_name(df_db_dialect(fx.db));

    for (size_t i = 0; i < df_schema_scripts_count; i++)
        if (strncmp(df_schema_scripts[i].name, dialect, strlen(dialect)) == 0)
            return df_schema_scripts[i];
    fail();
    return (struct df_file){0};
}

/* --- the runner ------------------------------------------------------------------------------- */

static void applying_again_does_nothing(void **state)
{
    (void)state;
    size_t all = script_count();
    assert_true(all >= 6);
    assert_int_equal(apply(), all);
    assert_int_equal(apply(), 0);
    assert_int_equal(scalar("SELECT COUNT(*) FROM SchemaScripts"), all);
    assert_int_equal(scalar("SELECT COUNT(*) FROM BatchLocks WHERE Id = 1"), 1);
}

static void every_script_can_be_run_again(void **state)
{
    (void)state;
    size_t all = apply();
    run("DELETE FROM SchemaScripts");
    assert_int_equal(apply(), all);
    assert_int_equal(scalar("SELECT COUNT(*) FROM BatchLocks"), 1);
}

static void processes_that_start_together_apply_each_script_once(void **state)
{
    (void)state;
    pid_t children[4];
    int pipes[2];
    char go = 'g';
    size_t sum = 0;

    assert_int_equal(pipe(pipes), 0);
    for (size_t i = 0; i < LEN(children); i++) {
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i] == 0) {
            struct df_err err = DF_ERR_INIT;
            struct df_db *db = NULL;
            size_t applied = 0;
            ssize_t n = read(pipes[0], &go, 1);
            bool ok = n == 1 &&
                      df_db_open(&(struct df_db_options){.url = fx.test.url}, &db, &err) == DF_OK &&
                      df_schema_apply(db, &applied, &err) == DF_OK &&
                      df_schema_check(db, &err) == DF_OK;
            if (!ok)
                (void)fprintf(stderr, "child: %s\n", err.detail);
            df_db_close(db);
            _exit(ok ? (int)applied : 99);
        }
    }
    assert_int_equal(write(pipes[1], "gggg", 4), 4);
    for (size_t i = 0; i < LEN(children); i++) {
        int status = 0;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_true(WIFEXITED(status));
        assert_int_not_equal(WEXITSTATUS(status), 99);
        sum += (size_t)WEXITSTATUS(status);
    }
    (void)close(pipes[0]);
    (void)close(pipes[1]);
    assert_int_equal(sum, script_count());
}

/* Whether a new database gets all scripts in one transaction. */
static bool is_made_at_once(void)
{
    return fx.dialect != DF_SQLSERVER;
}

/* What the catalogue tells of the schema, and every row of every table but the record's times. */
static const char *const looks[DF_DIALECT_COUNT][5] = {
    [DF_SQLITE] = {"SELECT type || ' ' || name || ' ' || tbl_name || ' ' || COALESCE(sql, '') "
                   "FROM sqlite_schema ORDER BY rowid",
                   "SELECT name || seq FROM sqlite_sequence ORDER BY 1"},
    [DF_POSTGRES] =
        {"SELECT concat_ws(' ', table_name, ordinal_position, column_name, data_type, "
         "character_maximum_length, is_nullable, column_default) FROM information_schema.columns "
         "WHERE table_schema = current_schema() ORDER BY 1",
         "SELECT indexdef FROM pg_indexes WHERE schemaname = current_schema() ORDER BY 1",
         "SELECT concat_ws(' ', conrelid::regclass, conname, pg_get_constraintdef(oid)) "
         "FROM pg_constraint WHERE connamespace = current_schema()::regnamespace ORDER BY 1",
         "SELECT pg_get_triggerdef(t.oid) FROM pg_trigger AS t "
         "JOIN pg_class AS c ON c.oid = t.tgrelid WHERE NOT t.tgisinternal "
         "AND c.relnamespace = current_schema()::regnamespace ORDER BY 1",
         "SELECT concat_ws(' ', relname, reloptions) FROM pg_class "
         "WHERE relnamespace = current_schema()::regnamespace ORDER BY 1"},
    [DF_SQLSERVER] = {"SELECT CONCAT(TABLE_NAME, ' ', COLUMN_NAME, ' ', DATA_TYPE, ' ', "
                      "IS_NULLABLE) FROM INFORMATION_SCHEMA.COLUMNS ORDER BY 1"},
};

/* Tables that the scripts write to, and one that they leave empty. */
static const char *const row_queries[] = {
    "SELECT Name FROM SchemaScripts ORDER BY 1",
    "SELECT Checksum FROM SchemaScripts ORDER BY Name",
    "SELECT CAST(Id + 10 * FencingToken AS varchar(20)) FROM BatchLocks",
    "SELECT CAST(Id AS varchar(20)) FROM AlertEvaluation",
    "SELECT CAST(Id + 10 * Sequence AS varchar(20)) FROM AuditHead",
    "SELECT Action FROM AuditLog",
};

static void add_line(void *arg, struct df_result *r)
{
    df_buf_adds(arg, df_col_text(r, 0));
    df_buf_addc(arg, '\n');
}

/* Without the name that the test's schema has, which PostgreSQL tells. */
static char *description(void)
{
    struct df_err err = DF_ERR_INIT;
    struct df_buf out;

    df_buf_init(&out, (size_t)4 << 20);
    for (size_t i = 0; i < 5 && looks[fx.dialect][i]; i++)
        assert_ok(
            df_db_each(fx.db, adhoc(looks[fx.dialect][i]), DF_NO_PARAMS, add_line, &out, &err),
            &err);
    for (size_t i = 0; i < LEN(row_queries); i++)
        assert_ok(df_db_each(fx.db, adhoc(row_queries[i]), DF_NO_PARAMS, add_line, &out, &err),
                  &err);
    assert_false(df_buf_failed(&out));
    char *text = strdup(df_buf_str(&out).ptr);
    df_buf_release(&out);
    const char *name = fx.test.schema;
    for (char *at = text; *name && (at = strstr(at, name));)
        memmove(at, at + strlen(name), strlen(at + strlen(name)) + 1);
    return text;
}

/* The record first: then the database is no new one. */
static void apply_one_by_one(void)
{
    struct df_err err;
    struct df_file record = record_script();
    size_t applied = 0;

    assert_ok(apply_these(&record, 1, &applied, &err), &err);
    assert_int_equal(applied, 1);
    assert_ok(apply_these(df_schema_scripts, df_schema_scripts_count, &applied, &err), &err);
    assert_int_equal(applied, script_count() - 1);
}

static void all_at_once_is_what_one_by_one_is(void **state)
{
    struct df_err err;
    size_t applied = 0;
    char *made[3];

    assert_int_equal(apply(), script_count());
    made[0] = description();
    teardown(state);
    setup(state);
    apply_one_by_one();
    made[1] = description();
    teardown(state);
    setup(state);
    assert_ok(apply_these(df_schema_scripts, df_schema_scripts_count, &applied, &err), &err);
    made[2] = description();
    assert_true(strlen(made[0]) > 10000);
    assert_string_equal(made[0], made[1]);
    assert_string_equal(made[0], made[2]);
    for (size_t i = 0; i < LEN(made); i++)
        free(made[i]);
}

static void a_new_database_with_tables_of_others_keeps_them(void **state)
{
    (void)state;
    run("CREATE TABLE Theirs (Id int NOT NULL)");
    run("INSERT INTO Theirs (Id) VALUES (7)");
    assert_int_equal(apply(), script_count());
    assert_int_equal(scalar("SELECT COUNT(*) FROM Theirs WHERE Id = 7"), 1);
    assert_int_equal(scalar("SELECT COUNT(*) FROM BatchLocks"), 1);
    assert_int_equal(apply(), 0);
}

static void a_script_that_fails_leaves_a_new_database_empty(void **state)
{
    (void)state;
    if (!is_made_at_once())
        skip();
    struct df_err err;
    size_t applied = 77;
    struct df_file files[] = {
        record_script(),
        script("500_good.sql", "CREATE TABLE Good (Id int);"),
        script("510_bad.sql", "INSERT INTO Nowhere VALUES (1);\n"),
    };

    assert_int_not_equal(apply_these(files, LEN(files), &applied, &err), DF_OK);
    assert_int_equal(applied, 77);
    assert_non_null(strstr(err.detail, "510_bad.sql"));
    assert_non_null(strcasestr(err.detail, "nowhere"));
    assert_int_not_equal(try_run("DELETE FROM SchemaScripts"), DF_OK);
    assert_int_not_equal(try_run("DELETE FROM Good"), DF_OK);
    assert_int_equal(apply(), script_count());
}

/* How many scripts are recorded; -1 without a record. Waits until nobody applies scripts. */
static int64_t recorded(void)
{
    struct df_err err = DF_ERR_INIT;
    int64_t n = -1;

    assert_ok(df_db_schema_lock(fx.db, &err), &err);
    if (df_db_query_int(fx.db, adhoc("SELECT COUNT(*) FROM SchemaScripts"), DF_NO_PARAMS, &n,
                        &err) != DF_OK)
        n = -1;
    df_db_schema_unlock(fx.db);
    return n;
}

static void who_dies_while_he_makes_a_new_database_leaves_it_empty(void **state)
{
    (void)state;
    if (!is_made_at_once())
        skip();
    int64_t found = -1;
    /* Sooner or later one of them is faster than its death. */
    for (unsigned delay_us = 0; found < 0 && delay_us < 20000000; delay_us += delay_us / 4 + 500) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            struct df_err err = DF_ERR_INIT;
            struct df_db *db = NULL;
            bool ok = df_db_open(&(struct df_db_options){.url = fx.test.url}, &db, &err) == DF_OK &&
                      df_schema_apply(db, NULL, &err) == DF_OK;
            _exit(ok ? 0 : 1);
        }
        (void)usleep(delay_us);
        assert_int_equal(kill(child, SIGKILL), 0);
        assert_int_equal(waitpid(child, NULL, 0), child);
        found = recorded();
        if (found < 0)
            assert_int_not_equal(try_run("INSERT INTO BatchLocks (Id) VALUES (1)"), DF_OK);
    }
    assert_int_equal(found, script_count());
    assert_int_equal(apply(), 0);
}

static void check_tells_what_is_missing(void **state)
{
    (void)state;
    struct df_err err = DF_ERR_INIT;

    assert_int_equal(df_schema_check(fx.db, &err), DF_E_SCHEMA);
    assert_non_null(strstr(err.detail, "dataflow migrate"));
    (void)apply();
    assert_int_equal(df_schema_check(fx.db, &err), DF_OK);

    run("DELETE FROM SchemaScripts WHERE Name = '030_imports.sql'");
    assert_int_equal(df_schema_check(fx.db, &err), DF_E_SCHEMA);
    assert_non_null(strstr(err.detail, "030_imports.sql was not applied"));
    assert_int_equal(apply(), 1);

    run("UPDATE SchemaScripts SET Checksum = '%064d' WHERE Name = '040_webhooks.sql'", 0);
    assert_int_equal(df_schema_check(fx.db, &err), DF_E_SCHEMA);
    assert_non_null(strstr(err.detail, "040_webhooks.sql has changed"));
    assert_int_equal(apply(), 1);
    assert_int_equal(df_schema_check(fx.db, &err), DF_OK);
}

static void a_database_of_a_newer_server_is_left_alone(void **state)
{
    (void)state;
    struct df_err err = DF_ERR_INIT;

    (void)apply();
    run("INSERT INTO SchemaScripts (Name, Checksum) VALUES ('990_future.sql', '%064d')", 0);
    run("UPDATE SchemaScripts SET Checksum = '%064d' WHERE Name = '040_webhooks.sql'", 7);
    assert_int_equal(df_schema_check(fx.db, &err), DF_OK);
    assert_int_equal(apply(), 0);
    assert_int_equal(scalar("SELECT COUNT(*) FROM SchemaScripts WHERE Checksum = '%064d'", 7), 1);
}

static void a_script_that_fails_leaves_nothing_behind(void **state)
{
    (void)state;
    struct df_err err;
    size_t applied = 77;
    struct df_file files[] = {
        record_script(),
        script("500_good.sql", "CREATE TABLE Good (Id int);"),
        script("510_bad.sql", "CREATE TABLE Bad (Id int);\nINSERT INTO Nowhere VALUES (1);\n"),
    };

    assert_ok(apply_these(files, 1, NULL, &err), &err);
    assert_int_not_equal(apply_these(files, LEN(files), &applied, &err), DF_OK);
    assert_int_equal(applied, 77);
    assert_non_null(strstr(err.detail, "510_bad.sql"));
    assert_non_null(strcasestr(err.detail, "nowhere"));
    assert_int_equal(scalar("SELECT COUNT(*) FROM SchemaScripts"), 2);
    assert_int_not_equal(try_run("INSERT INTO Bad VALUES (1)"), DF_OK);

    /* Corrected, it goes on from there. */
    files[2] = script("510_bad.sql", "CREATE TABLE Bad (Id int);");
    assert_int_equal(apply_these(files, LEN(files), &applied, &err), DF_OK);
    assert_int_equal(applied, 1);
    run("INSERT INTO Bad VALUES (1)");
}

#define BOX_1 "CREATE TABLE IF NOT EXISTS Box (Id int NOT NULL, Label varchar(10) NULL);\n"
/* Once in the table for new databases, once as an addition for old ones. */
#define BOX_2                                                                                      \
    "CREATE TABLE IF NOT EXISTS Box (Id int NOT NULL, Label varchar(10) NULL,\n"                   \
    "    Colour varchar(10) NULL DEFAULT 'it''s; red');\n"                                         \
    "-- add column if missing: Box Colour\n"                                                       \
    "ALTER TABLE Box ADD COLUMN Colour varchar(10) NULL DEFAULT 'it''s; red'; -- a comment\n"      \
    "-- add column if missing: BOX Size\n"                                                         \
    "-- It's for later; really.\n"                                                                 \
    "alter table Box\n    add column Size int NOT NULL DEFAULT 3;\n"                               \
    "CREATE INDEX IF NOT EXISTS IX_Box ON Box (Size, Colour);\n"

/* The same without the directive, which T-SQL needs not. NOT NULL, or rows that are there would not
 * get the default. */
#define BOX_1_TSQL                                                                                 \
    "IF OBJECT_ID(N'Box', N'U') IS NULL\n"                                                         \
    "CREATE TABLE Box (Id int NOT NULL, Label varchar(10) NULL);\n"
#define BOX_2_TSQL                                                                                 \
    "IF OBJECT_ID(N'Box', N'U') IS NULL\n"                                                         \
    "CREATE TABLE Box (Id int NOT NULL, Label varchar(10) NULL,\n"                                 \
    "    Colour varchar(10) NOT NULL DEFAULT 'it''s; red');\n"                                     \
    "GO\n"                                                                                         \
    "IF COL_LENGTH(N'Box', N'Colour') IS NULL\n"                                                   \
    "    ALTER TABLE Box ADD Colour varchar(10) NOT NULL DEFAULT 'it''s; red'; -- a comment\n"     \
    "IF COL_LENGTH(N'BOX', N'Size') IS NULL\n"                                                     \
    "-- It's for later; really.\n"                                                                 \
    "    alter table Box add Size int NOT NULL DEFAULT 3;\n"                                       \
    "  go  \n"                                                                                     \
    "IF NOT EXISTS (SELECT 1 FROM sys.indexes\n"                                                   \
    "               WHERE object_id = OBJECT_ID(N'Box') AND name LIKE N'IX[_]Box%')\n"             \
    "    CREATE INDEX IX_Box ON Box (Size, Colour);\n"

static struct df_file box_script(int version)
{
    bool tsql = fx.dialect == DF_SQLSERVER;
    const char *first = tsql ? BOX_1_TSQL : BOX_1;

    return script("500_box.sql", version == 1 ? first : tsql ? BOX_2_TSQL : BOX_2);
}

static void an_old_database_gets_the_new_columns_and_keeps_its_rows(void **state)
{
    (void)state;
    struct df_err err;
    size_t applied = 0;
    struct df_file files[] = {record_script(), box_script(1)};

    assert_int_equal(apply_these(files, LEN(files), &applied, &err), DF_OK);
    run("INSERT INTO Box (Id, Label) VALUES (1, 'one'), (2, 'two')");

    files[1] = box_script(2);
    for (int again = 0; again < 3; again++) {
        if (apply_these(files, LEN(files), &applied, &err) != DF_OK)
            fail_msg("%s", err.detail);
        assert_int_equal(applied, again == 1 ? 0 : 1);
        assert_int_equal(scalar("SELECT COUNT(*) FROM Box WHERE Label IN ('one', 'two') AND "
                                "Colour = 'it''s; red' AND Size = 3"),
                         2);
        if (again == 1) /* The third time round it is run on a table that has everything. */
            run("DELETE FROM SchemaScripts WHERE Name = '500_box.sql'");
    }
}

static void a_new_database_gets_a_guarded_column_once(void **state)
{
    (void)state;
    struct df_err err;
    size_t applied = 0;
    struct df_file files[] = {record_script(), box_script(2)};

    if (apply_these(files, LEN(files), &applied, &err) != DF_OK)
        fail_msg("%s", err.detail);
    assert_int_equal(applied, 2);
    run("INSERT INTO Box (Id) VALUES (1)");
    assert_int_equal(scalar("SELECT COUNT(*) FROM Box WHERE Size = 3"), 1);
}

static void a_directive_that_guards_something_else_is_refused(void **state)
{
    (void)state;
    /* It stands before ADD COLUMN, which T-SQL has not: scripts there ask COL_LENGTH. */
    if (fx.dialect == DF_SQLSERVER)
        skip();
    static const char *const wrong[] = {
        BOX_1 "-- add column if missing: Box Colour\n",
        BOX_1 "-- add column if missing: Box\nALTER TABLE Box ADD COLUMN Colour int;\n",
        BOX_1
        "-- add column if missing: Box Colour please\nALTER TABLE Box ADD COLUMN Colour int;\n",
        BOX_1 "-- add column if missing: Box Colour\nALTER TABLE Box ADD COLUMN Color int;\n",
        BOX_1 "-- add column if missing: Box Colour\nALTER TABLE Bax ADD COLUMN Colour int;\n",
        BOX_1 "-- add column if missing: Box Colour\nALTER TABLE Box ADD Colour int;\n",
        BOX_1 "-- add column if missing: Box Colour\nDELETE FROM Box;\n",
    };

    for (size_t i = 0; i < LEN(wrong); i++) {
        struct df_err err;
        size_t applied = 0;
        struct df_file files[] = {record_script(), script("500_box.sql", wrong[i])};

        assert_int_equal(apply_these(files, LEN(files), &applied, &err), DF_E_INTERNAL);
        assert_non_null(strstr(err.detail, "add column if missing"));
        assert_int_not_equal(try_run("INSERT INTO Box (Id) VALUES (1)"), DF_OK);
    }
}

static void scripts_of_another_database_are_no_scripts(void **state)
{
    (void)state;
    struct df_err err;
    size_t applied = 0;
    enum df_dialect other = (fx.dialect + 1) % DF_DIALECT_COUNT;
    struct df_file file = script("000_x.sql", "x");

    file.name = df_arena_printf(&fx.arena, "%s/000_x.sql", df_dialect_name(other)).ptr;

    assert_int_equal(apply_these(&file, 1, &applied, &err), DF_E_NOT_IMPLEMENTED);
}

static void printed_scripts_run_by_hand_are_the_schema(void **state)
{
    (void)state;
    struct df_err err = DF_ERR_INIT;
    struct df_buf out;
    const char *last = NULL;

    df_buf_init(&out, (size_t)1 << 20);
    df_schema_print(df_db_dialect(fx.db), &out);
    assert_false(df_buf_failed(&out));
    const char *names[] = {"000_schema_scripts.sql", "010_interface.sql", "020_clients.sql",
                           "030_imports.sql",        "040_webhooks.sql",  "050_outbox.sql"};
    for (size_t i = 0; i < LEN(names); i++) {
        char heading[64];
        (void)snprintf(heading, sizeof(heading), "-- === %s (", names[i]);
        const char *at = strstr(df_buf_str(&out).ptr, heading);
        assert_non_null(at);
        assert_true(at > last);
        last = at;
    }
    /* SQLite has no ADD COLUMN IF NOT EXISTS, and by hand nobody reads the directive. */
    int times = df_db_dialect(fx.db) == DF_SQLITE ? 1 : 2;
    for (int again = 0; again < times; again++) {
        if (df_db_script(fx.db, df_buf_str(&out).ptr, &err) != DF_OK)
            fail_msg("%s", err.detail);
        assert_int_equal(df_schema_check(fx.db, &err), DF_OK);
    }
    assert_int_equal(apply(), 0);
    df_buf_release(&out);
}

/* Babelfish takes a CASE of nothing but NULL for a number: a moment is written with its type. */
static const char *value_for(const struct df_query *q, size_t marker)
{
    static const char *const moments[] = {"now", "due", "until", "lease_until"};
    const char *name = q->params[q->text[DF_SQLSERVER].markers[marker]];

    for (size_t i = 0; i < sizeof(moments) / sizeof(moments[0]); i++) {
        if (strcmp(name, moments[i]) == 0)
            return "CAST(NULL AS DATETIME2)";
    }
    return "NULL";
}

/* The text with NULL for its markers; 1 where a number of rows is wanted. */
static const char *without_markers(const struct df_query *q)
{
    struct df_buf b;
    size_t marker = 0;

    df_buf_init(&b, (size_t)1 << 20);
    for (const char *p = df_query_sql(q, DF_SQLSERVER); *p; p++) {
        struct df_str before = df_str_trim(df_buf_str(&b));
        bool rows = df_str_ends(before, DF_STR("TOP (")) || df_str_ends(before, DF_STR("NEXT")) ||
                    df_str_ends(before, DF_STR("OFFSET"));
        if (*p != '?')
            df_buf_adds(&b, df_str_n(p, 1));
        else
            df_buf_adds(&b, df_str_c(rows ? "1" : value_for(q, marker)));
        marker += *p == '?';
    }
    const char *text = df_arena_cstr(&fx.arena, df_buf_str(&b));
    df_buf_release(&b);
    return text;
}

static enum df_code run_around(const char *before, const char *sql, const char *after,
                               struct df_err *err)
{
    struct df_buf b;
    df_buf_init(&b, 1 << 20);
    df_buf_addf(&b, "%s%s%s", before, sql, after);
    enum df_code code = df_db_script(fx.db, df_arena_cstr(&fx.arena, df_buf_str(&b)), err);
    df_buf_release(&b);
    return code;
}

/*
 * On SQL Server a query is run and undone. Preparing would not do: FreeTDS calls parameters of
 * which it knows nothing varchar, which is not to be had for bytes and numbers of rows, and
 * Babelfish looks at a text of several statements only when it runs. What a constraint refuses has
 * passed.
 */
static enum df_code look_up(const struct df_query *q, struct df_err *err)
{
    const char *sql = df_query_sql(q, fx.dialect);
    if (fx.dialect == DF_SQLITE)
        return run_around("EXPLAIN ", sql, "", err);
    if (fx.dialect == DF_POSTGRES) {
        enum df_code code = run_around("PREPARE looked_up AS ", sql, "; DEALLOCATE looked_up", err);
        return code == DF_OK && q->many
                   ? run_around("PREPARE looked_up AS ", q->many, "; DEALLOCATE looked_up", err)
                   : code;
    }
    assert_ok(df_db_begin(fx.db, true, err), err);
    enum df_code code = df_db_script(fx.db, without_markers(q), err);
    df_db_rollback(fx.db);
    return code == DF_E_DB_CONSTRAINT ? DF_OK : code;
}

static void every_query_of_the_program_finds_what_it_names(void **state)
{
    (void)state;
    bool ok = true;

    (void)apply();
    for (size_t i = 0; i < df_all_queries_count; i++) {
        struct df_err err = DF_ERR_INIT;
        if (look_up(df_all_queries[i], &err) != DF_OK) {
            print_error("%s: %s\n", df_all_queries[i]->name, err.detail);
            ok = false;
        }
    }
    assert_true(df_all_queries_count > 0);
    assert_true(ok);

    struct df_err err = DF_ERR_INIT;
    assert_int_not_equal(look_up(adhoc("SELECT Nothing FROM Clients"), &err), DF_OK);
    assert_int_not_equal(look_up(adhoc("DELETE FROM Nowhere"), &err), DF_OK);
}

static const struct CMUnitTest tests[] = {
    T(applying_again_does_nothing),
    T(every_script_can_be_run_again),
    T(processes_that_start_together_apply_each_script_once),
    T(all_at_once_is_what_one_by_one_is),
    T(a_new_database_with_tables_of_others_keeps_them),
    T(a_script_that_fails_leaves_a_new_database_empty),
    T(who_dies_while_he_makes_a_new_database_leaves_it_empty),
    T(check_tells_what_is_missing),
    T(a_database_of_a_newer_server_is_left_alone),
    T(a_script_that_fails_leaves_nothing_behind),
    T(an_old_database_gets_the_new_columns_and_keeps_its_rows),
    T(a_new_database_gets_a_guarded_column_once),
    T(a_directive_that_guards_something_else_is_refused),
    T(scripts_of_another_database_are_no_scripts),
    T(printed_scripts_run_by_hand_are_the_schema),
    T(every_query_of_the_program_finds_what_it_names),
};

int main(void)
{
    return testdb_run_tests("schema scripts", &fx.dialect, tests, LEN(tests));
}

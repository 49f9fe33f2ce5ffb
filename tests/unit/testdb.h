/*
 * Databases for tests: a fresh one on each back end there is. SQLite always; PostgreSQL when
 * DATAFLOW_TEST_POSTGRES_URL names a database in which schemas may be created (each test database
 * is a schema of its own, dropped afterwards); SQL Server when DATAFLOW_TEST_SQLSERVER_URL names
 * one whose user may create databases. A back end that is not there is named on a line that starts
 * with SKIP.
 *
 *     struct testdb t;
 *     testdb_init(&t, DF_SQLITE);
 *     struct df_db *db = testdb_open(&t);
 *     ...
 *     df_db_close(db);
 *     testdb_release(&t);
 *
 * Include after cmocka.h.
 */
#ifndef DF_TESTS_TESTDB_H
#define DF_TESTS_TESTDB_H

#include "scratch.h"
#include "store/db.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

struct testdb {
    enum df_dialect dialect;
    char url[1024];  /* of the fresh database */
    char dir[64];    /* temporary directory; removed with everything in it */
    char schema[64]; /* or database, on SQL Server */
};

/* A query with hand-written texts, as tools/embed_sql.py would make it. Those for SQL Server have
 * their markers in the order of the parameters, each once, or say which is which. */
#define TESTDB_QUERY(var, params_, sqlite_, postgres_, sqlserver_)                                 \
    static const struct df_query var = {                                                           \
        .name = #var,                                                                              \
        .param_count = (params_),                                                                  \
        .text = {[DF_SQLITE] = {.sql = (sqlite_)},                                                 \
                 [DF_POSTGRES] = {.sql = (postgres_)},                                             \
                 [DF_SQLSERVER] = {.sql = (sqlserver_)}},                                          \
    }
#define TESTDB_QUERY_MARKED(var, params_, sqlite_, postgres_, sqlserver_, ...)                     \
    static const unsigned char var##_markers[] = {__VA_ARGS__};                                    \
    static const struct df_query var = {                                                           \
        .name = #var,                                                                              \
        .param_count = (params_),                                                                  \
        .text = {[DF_SQLITE] = {.sql = (sqlite_)},                                                 \
                 [DF_POSTGRES] = {.sql = (postgres_)},                                             \
                 [DF_SQLSERVER] = {.sql = (sqlserver_),                                            \
                                   .markers = var##_markers,                                       \
                                   .marker_count = sizeof(var##_markers)}},                        \
    }

/* The parameters of such a query, by position. */
#define DF_PARAMS(...)                                                                             \
    (const struct df_value[]){__VA_ARGS__},                                                        \
        sizeof((const struct df_value[]){__VA_ARGS__}) / sizeof(struct df_value)
#define DF_NO_PARAMS NULL, 0

#define assert_ok(expr, err)                                                                       \
    do {                                                                                           \
        enum df_code testdb_code = (expr);                                                         \
        if (testdb_code != DF_OK)                                                                  \
            fail_msg("%s: %s: %s", #expr, df_code_name(testdb_code), (err)->detail);               \
    } while (0)

#define assert_code(expr, want, err)                                                               \
    do {                                                                                           \
        enum df_code testdb_code = (expr);                                                         \
        if (testdb_code != (want))                                                                 \
            fail_msg("%s: %s, not %s: %s", #expr, df_code_name(testdb_code), df_code_name(want),   \
                     (err)->detail);                                                               \
    } while (0)

/* The environment is read by tests before they start threads. */
static inline const char *testdb_env(enum df_dialect d)
{
    const char *name = d == DF_POSTGRES    ? "DATAFLOW_TEST_POSTGRES_URL"
                       : d == DF_SQLSERVER ? "DATAFLOW_TEST_SQLSERVER_URL"
                                           : NULL;
    const char *url = name ? getenv(name) : NULL; /* NOLINT(concurrency-mt-unsafe) */
    return url && *url ? url : NULL;
}

static inline bool testdb_available(enum df_dialect d)
{
    return d == DF_SQLITE || testdb_env(d);
}

/* Says which back ends are missing. */
static inline void testdb_print_skipped(void)
{
    if (!testdb_available(DF_POSTGRES))
        (void)printf("SKIP postgres: DATAFLOW_TEST_POSTGRES_URL is not set\n");
    if (!testdb_available(DF_SQLSERVER))
        (void)printf("SKIP sqlserver: DATAFLOW_TEST_SQLSERVER_URL is not set\n");
}

static inline struct df_db *testdb_open_url(const char *url)
{
    struct df_err err = DF_ERR_INIT;
    struct df_db *db = NULL;
    assert_ok(df_db_open(&(struct df_db_options){.url = url}, &db, &err), &err);
    return db;
}

static inline struct df_db *testdb_open(const struct testdb *t)
{
    return testdb_open_url(t->url);
}

static inline void testdb_script(struct df_db *db, const char *sql)
{
    struct df_err err = DF_ERR_INIT;
    assert_ok(df_db_script(db, sql, &err), &err);
}

/* Runs a script as the owner of the server's test database, outside of the fresh one. */
static inline void testdb_admin(const struct testdb *t, const char *sql)
{
    struct df_db *db = testdb_open_url(testdb_env(t->dialect));
    testdb_script(db, sql);
    df_db_close(db);
}

/* What a fresh database is on this server. */
static inline const char *testdb_container(enum df_dialect d)
{
    return d == DF_POSTGRES ? "SCHEMA" : "DATABASE";
}

static inline void testdb_init(struct testdb *t, enum df_dialect d)
{
    static unsigned serial;
    struct timespec now;

    *t = (struct testdb){.dialect = d};
    (void)snprintf(t->dir, sizeof(t->dir), "%s/dataflow-test-XXXXXX", scratch_dir());
    assert_non_null(mkdtemp(t->dir));
    if (d == DF_SQLITE) {
        (void)snprintf(t->url, sizeof(t->url), "sqlite:%s/test.db", t->dir);
        return;
    }
    const char *base = testdb_env(d);
    char sql[256];
    clock_gettime(CLOCK_REALTIME, &now);
    (void)snprintf(t->schema, sizeof(t->schema), "dftest_%d_%u_%ld", (int)getpid(), ++serial,
                   now.tv_nsec);
    if (d == DF_POSTGRES) {
        (void)snprintf(t->url, sizeof(t->url), "%s%coptions=-csearch_path%%3D%s", base,
                       strchr(base, '?') ? '&' : '?', t->schema);
    } else {
        /* Another database on the same server, with the same options. */
        size_t authority = (size_t)(strstr(base, "://") + 3 - base);
        size_t server = authority + strcspn(base + authority, "/?");
        const char *options = strchr(base, '?');
        (void)snprintf(t->url, sizeof(t->url), "%.*s/%s%s", (int)server, base, t->schema,
                       options ? options : "");
    }
    (void)snprintf(sql, sizeof(sql), "CREATE %s %s", testdb_container(d), t->schema);
    testdb_admin(t, sql);
    if (d == DF_SQLSERVER) {
        /* Babelfish always has snapshots, and does not know the statement. */
        (void)snprintf(sql, sizeof(sql),
                       "IF CHARINDEX('Babelfish', @@VERSION) = 0"
                       " EXEC('ALTER DATABASE %s SET ALLOW_SNAPSHOT_ISOLATION ON')",
                       t->schema);
        testdb_admin(t, sql);
    }
}

static inline int testdb_remove_entry(const char *path, const struct stat *st, int flag,
                                      struct FTW *ftw)
{
    (void)st;
    (void)flag;
    (void)ftw;
    return remove(path);
}

static inline void testdb_release(struct testdb *t)
{
    if (t->schema[0]) {
        char sql[128];
        (void)snprintf(sql, sizeof(sql), "DROP %s IF EXISTS %s%s", testdb_container(t->dialect),
                       t->schema, t->dialect == DF_POSTGRES ? " CASCADE" : "");
        testdb_admin(t, sql);
    }
    (void)nftw(t->dir, testdb_remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

/* Runs the tests on each back end there is, which *dialect names meanwhile. Returns how many
 * failed. */
static inline int testdb_run_tests(const char *what, enum df_dialect *dialect,
                                   const struct CMUnitTest *tests, size_t count)
{
    int failed = 0;
    for (int d = 0; d < DF_DIALECT_COUNT; d++) {
        char name[64];
        *dialect = (enum df_dialect)d;
        (void)snprintf(name, sizeof(name), "%s on %s", what, df_dialect_name(*dialect));
        if (testdb_available(*dialect))
            failed += _cmocka_run_group_tests(name, tests, count, NULL, NULL);
    }
    testdb_print_skipped();
    return failed;
}

/* The first column of the first row of a query without parameters. */
static inline int64_t testdb_int(struct df_db *db, const struct df_query *q)
{
    struct df_err err = DF_ERR_INIT;
    struct df_result *r = NULL;
    assert_ok(df_db_query(db, q, DF_NO_PARAMS, &r, &err), &err);
    assert_int_equal(df_result_step(r, &err), DF_ROW);
    int64_t v = df_col_int(r, 0);
    df_result_free(r);
    return v;
}

#endif

/*
 * What the tests of the schema share: every test starts with an empty database, on SQLite always
 * and on PostgreSQL (in a schema of its own) when DATAFLOW_TEST_POSTGRES_URL names a server.
 */
#ifndef DF_TESTS_SCHEMA_FIXTURE_H
#define DF_TESTS_SCHEMA_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/buf.h"
#include "store/schema.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LEN(a) (sizeof(a) / sizeof((a)[0]))

static struct {
    const char *server; /* NULL: SQLite */
    char dir[64];
    char schema[64];
    char url[1024];
    struct df_db *db;
    struct df_arena
        arena; /* of queries made here; outlives the connection, which may keep their addresses */
} fx;

/* --- fixture -------------------------------------------------------------------------------------
 */

static struct df_db *connect_to(const char *url)
{
    struct df_err err = DF_ERR_INIT;
    struct df_db *db = NULL;

    if (df_db_open(&(struct df_db_options){.url = url}, &db, &err) != DF_OK)
        fail_msg("open: %s", err.detail);
    return db;
}

__attribute__((format(printf, 2, 0))) static enum df_code try_on(struct df_db *db, const char *fmt,
                                                                 va_list ap, struct df_err *err)
{
    struct df_buf sql;

    df_buf_init(&sql, (size_t)1 << 20);
    df_buf_vaddf(&sql, fmt, ap);
    enum df_code code = df_db_script(db, df_buf_str(&sql).ptr, err);
    df_buf_release(&sql);
    return code;
}

__attribute__((format(printf, 1, 2))) static enum df_code try_run(const char *fmt, ...)
{
    struct df_err err = DF_ERR_INIT;
    va_list ap;

    va_start(ap, fmt);
    enum df_code code = try_on(fx.db, fmt, ap, &err);
    va_end(ap);
    return code;
}

__attribute__((format(printf, 2, 3))) static void run_on(struct df_db *db, const char *fmt, ...)
{
    struct df_err err = DF_ERR_INIT;
    va_list ap;

    va_start(ap, fmt);
    enum df_code code = try_on(db, fmt, ap, &err);
    va_end(ap);
    if (code != DF_OK)
        fail_msg("%s: %s", fmt, err.detail);
}

/* A query made on the spot, the same for both databases. */
static const struct df_query *adhoc(const char *sql)
{
    struct df_query *q = DF_ARENA_NEW(&fx.arena, struct df_query);

    q->name = "adhoc";
    q->text[DF_SQLITE].sql = q->text[DF_POSTGRES].sql = df_arena_cstr(&fx.arena, df_str_c(sql));
    return q;
}

__attribute__((format(printf, 1, 2))) static int64_t scalar(const char *fmt, ...)
{
    struct df_err err = DF_ERR_INIT;
    struct df_result *r = NULL;
    struct df_buf sql;
    va_list ap;

    df_buf_init(&sql, (size_t)1 << 20);
    va_start(ap, fmt);
    df_buf_vaddf(&sql, fmt, ap);
    va_end(ap);
    if (df_db_query(fx.db, adhoc(df_buf_str(&sql).ptr), DF_NO_PARAMS, &r, &err) != DF_OK ||
        df_result_step(r, &err) != DF_ROW)
        fail_msg("%s: %s", df_buf_str(&sql).ptr, err.detail);
    int64_t v = df_col_int(r, 0);
    df_result_free(r);
    df_buf_release(&sql);
    return v;
}

static int setup(void **state)
{
    static int serial;

    (void)state;
    df_arena_init(&fx.arena);
    serial++;
    if (!fx.server) {
        (void)snprintf(fx.url, sizeof(fx.url), "sqlite:%s/%d.db", fx.dir, serial);
    } else {
        (void)snprintf(fx.schema, sizeof(fx.schema), "df_schema_test_%ld_%d", (long)getpid(),
                       serial);
        (void)snprintf(fx.url, sizeof(fx.url), "%s%coptions=-csearch_path%%3D%s", fx.server,
                       strchr(fx.server, '?') ? '&' : '?', fx.schema);
        struct df_db *db = connect_to(fx.server);
        run_on(db, "CREATE SCHEMA %s", fx.schema);
        df_db_close(db);
    }
    fx.db = connect_to(fx.url);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    df_db_close(fx.db);
    if (fx.server) {
        struct df_db *db = connect_to(fx.server);
        run_on(db, "DROP SCHEMA %s CASCADE", fx.schema);
        df_db_close(db);
    }
    df_arena_release(&fx.arena);
    return 0;
}

static size_t apply(void)
{
    struct df_err err = DF_ERR_INIT;
    size_t applied = 0;

    if (df_schema_apply(fx.db, &applied, &err) != DF_OK)
        fail_msg("apply: %s", err.detail);
    return applied;
}

static int remove_dir(void **state)
{
    (void)state;
    char command[128];
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", fx.dir);
    return system(command); /* NOLINT(concurrency-mt-unsafe,cert-env33-c) */
}

static int make_dir(void **state)
{
    (void)state;
    (void)snprintf(fx.dir, sizeof(fx.dir), "/tmp/schema_test.XXXXXX");
    return mkdtemp(fx.dir) ? 0 : -1;
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

/* Makes the next group run on PostgreSQL; false: there is none. */
static bool find_server(void)
{
    fx.server = getenv("DATAFLOW_TEST_POSTGRES_URL"); /* NOLINT(concurrency-mt-unsafe) */
    if (fx.server && !*fx.server)
        fx.server = NULL;
    if (!fx.server)
        print_message("DATAFLOW_TEST_POSTGRES_URL is not set: PostgreSQL is not tested\n");
    return fx.server != NULL;
}

#endif

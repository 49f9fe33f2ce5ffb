/*
 * What the tests of the schema share: every test starts with an empty database, on every back end
 * there is.
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

#include "testdb.h"

#define LEN(a) (sizeof(a) / sizeof((a)[0]))

static struct {
    enum df_dialect dialect; /* of the group that runs */
    struct testdb test;
    struct df_db *db;
    /* Of queries made here; outlives the connection, which may keep their addresses. */
    struct df_arena arena;
} fx;

static int setup(void **state)
{
    (void)state;
    df_arena_init(&fx.arena);
    testdb_init(&fx.test, fx.dialect);
    fx.db = testdb_open(&fx.test);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    df_db_close(fx.db);
    testdb_release(&fx.test);
    df_arena_release(&fx.arena);
    return 0;
}

__attribute__((format(printf, 2, 0))) static enum df_code vtry(struct df_err *err, const char *fmt,
                                                               va_list ap)
{
    struct df_buf sql;

    df_buf_init(&sql, (size_t)1 << 20);
    df_buf_vaddf(&sql, fmt, ap);
    enum df_code code = df_db_script(fx.db, df_buf_str(&sql).ptr, err);
    df_buf_release(&sql);
    return code;
}

__attribute__((format(printf, 1, 2))) static enum df_code try_run(const char *fmt, ...)
{
    struct df_err err = DF_ERR_INIT;
    va_list ap;

    va_start(ap, fmt);
    enum df_code code = vtry(&err, fmt, ap);
    va_end(ap);
    return code;
}

__attribute__((format(printf, 1, 2))) static void run(const char *fmt, ...)
{
    struct df_err err = DF_ERR_INIT;
    va_list ap;

    va_start(ap, fmt);
    enum df_code code = vtry(&err, fmt, ap);
    va_end(ap);
    if (code != DF_OK)
        fail_msg("%s: %s", fmt, err.detail);
}

/* A query made on the spot, the same for all databases. */
static const struct df_query *adhoc(const char *sql)
{
    struct df_query *q = DF_ARENA_NEW(&fx.arena, struct df_query);

    q->name = "adhoc";
    for (int d = 0; d < DF_DIALECT_COUNT; d++)
        q->text[d].sql = df_arena_cstr(&fx.arena, df_str_c(sql));
    return q;
}

__attribute__((format(printf, 1, 2))) static int64_t scalar(const char *fmt, ...)
{
    struct df_buf sql;
    va_list ap;

    df_buf_init(&sql, (size_t)1 << 20);
    va_start(ap, fmt);
    df_buf_vaddf(&sql, fmt, ap);
    va_end(ap);
    int64_t v = testdb_int(fx.db, adhoc(df_buf_str(&sql).ptr));
    df_buf_release(&sql);
    return v;
}

static size_t apply(void)
{
    struct df_err err = DF_ERR_INIT;
    size_t applied = 0;

    assert_ok(df_schema_apply(fx.db, &applied, &err), &err);
    return applied;
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

#endif

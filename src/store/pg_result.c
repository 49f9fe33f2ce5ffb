/* Rows of PostgreSQL. All values arrive as text; the column's type says how to read it. */
#include "base/clock.h"
#include "store/pg_private.h"

#include <stdlib.h>

#define KEEP_BYTES (1 << 20)

static const struct pg_result *result_of(const struct df_result *r)
{
    return (const struct pg_result *)r;
}

void df_pg_result_set(struct pg_db *pg, PGresult *res)
{
    pg->result = (struct pg_result){
        .base = {.db = &pg->base},
        .res = res,
        .row = -1,
        .rows = PQntuples(res),
        .arena = &pg->arena,
    };
}

enum df_code df_pg_step(struct df_result *base, struct df_err *err)
{
    struct pg_result *r = (struct pg_result *)base;
    (void)err; /* all rows are here already: nothing can fail */

    df_arena_reset(r->arena);
    if (r->row + 1 >= r->rows) {
        r->row = r->rows;
        return DF_DONE;
    }
    r->row++;
    return DF_ROW;
}

void df_pg_result_free(struct df_result *base)
{
    struct pg_result *r = (struct pg_result *)base;

    PQclear(r->res);
    r->res = NULL;
    if (r->arena->used_bytes > KEEP_BYTES)
        df_arena_release(r->arena);
    else
        df_arena_reset(r->arena);
}

size_t df_pg_columns(const struct df_result *r)
{
    return (size_t)PQnfields(result_of(r)->res);
}

bool df_pg_col_null(const struct df_result *base, size_t col)
{
    const struct pg_result *r = result_of(base);
    return r->row < 0 || r->row >= r->rows || col >= df_pg_columns(base) ||
           PQgetisnull(r->res, r->row, (int)col);
}

static struct df_str column_text(const struct df_result *base, size_t col)
{
    const struct pg_result *r = result_of(base);
    if (df_pg_col_null(base, col))
        return DF_STR_NULL;
    return df_str_n(PQgetvalue(r->res, r->row, (int)col),
                    (size_t)PQgetlength(r->res, r->row, (int)col));
}

static Oid type_of(const struct df_result *r, size_t col)
{
    return PQftype(result_of(r)->res, (int)col);
}

int64_t df_pg_col_int(const struct df_result *r, size_t col)
{
    struct df_str s = column_text(r, col);
    if (!s.ptr)
        return 0;
    switch (type_of(r, col)) {
    case PG_BOOL:
        return s.ptr[0] == 't';
    case PG_FLOAT4:
    case PG_FLOAT8: {
        double d = strtod(s.ptr, NULL);
        return d >= 0x1p63 ? INT64_MAX : d > -0x1p63 ? (int64_t)d : INT64_MIN;
    }
    default:
        return strtoll(s.ptr, NULL, 10); /* a numeric: the part before the point */
    }
}

bool df_pg_col_bool(const struct df_result *r, size_t col)
{
    return df_pg_col_int(r, col) != 0;
}

int64_t df_pg_col_time(const struct df_result *r, size_t col)
{
    struct df_str s = column_text(r, col);
    int64_t ms;
    return s.ptr && df_time_parse(s, &ms) ? ms : -1;
}

/* The text that SQLite would return, which stores these types as text. */
struct df_str df_pg_col_text(const struct df_result *r, size_t col)
{
    struct df_str s = column_text(r, col);
    if (!s.ptr)
        return s;
    switch (type_of(r, col)) {
    case PG_BOOL:
        return s.ptr[0] == 't' ? DF_STR("1") : DF_STR("0");
    case PG_TIMESTAMP:
    case PG_TIMESTAMPTZ: {
        int64_t ms;
        if (!df_time_parse(s, &ms))
            return s;
        char *text = df_arena_alloc(result_of(r)->arena, DF_TIME_LEN + 1);
        df_time_format(ms, text);
        return df_str_n(text, DF_TIME_LEN);
    }
    default:
        return s;
    }
}

static unsigned char hex_value(char c)
{
    return (unsigned char)(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
}

/* bytea_output is hex: \x and two digits a byte. */
struct df_str df_pg_col_blob(struct df_result *r, size_t col)
{
    struct df_str s = column_text(r, col);
    if (!s.ptr || type_of(r, col) != PG_BYTEA || s.len < 2)
        return s;
    size_t len = (s.len - 2) / 2;
    unsigned char *bytes = df_arena_alloc(result_of(r)->arena, len + 1);
    for (size_t i = 0; i < len; i++)
        bytes[i] = (unsigned char)(hex_value(s.ptr[2 + 2 * i]) << 4 | hex_value(s.ptr[3 + 2 * i]));
    return df_str_n((const char *)bytes, len);
}

/* Rows from ODBC, all of them in memory; each column is stored by its kind. */
#include "base/clock.h"
#include "base/mem.h"
#include "store/odbc_private.h"

#include <stdlib.h>

#define KEEP_BYTES (1 << 20)

static const struct odbc_result *result_of(const struct df_result *r)
{
    return (const struct odbc_result *)r;
}

static void reset_arena(struct df_arena *a)
{
    if (a->used_bytes > KEEP_BYTES)
        df_arena_release(a);
    else
        df_arena_reset(a);
}

void df_odbc_result_reset(struct odbc_result *r)
{
    reset_arena(&r->cells);
    reset_arena(&r->text);
    if (r->cap > KEEP_BYTES / sizeof(struct odbc_cell *)) {
        free(r->rows);
        r->rows = NULL;
        r->cap = 0;
    }
    r->kinds = NULL;
    r->columns = r->count = r->row = 0;
}

void df_odbc_result_release(struct odbc_result *r)
{
    df_arena_release(&r->cells);
    df_arena_release(&r->text);
    free(r->rows);
    *r = (struct odbc_result){0};
}

struct odbc_cell *df_odbc_result_add(struct odbc_result *r)
{
    if (r->count == r->cap) {
        r->cap = r->cap ? r->cap * 2 : 16;
        r->rows = df_realloc(r->rows, r->cap * sizeof(struct odbc_cell *));
    }
    r->rows[r->count++] = DF_ARENA_ARRAY(&r->cells, struct odbc_cell, r->columns);
    r->row = r->count;
    return r->rows[r->count - 1];
}

enum df_code df_odbc_step(struct df_result *base, struct df_err *err)
{
    struct odbc_result *r = (struct odbc_result *)base;
    (void)err; /* all rows are here already: nothing can fail */

    df_arena_reset(&r->text);
    if (r->row >= r->count) {
        r->row = r->count + 1;
        return DF_DONE;
    }
    r->row++;
    return DF_ROW;
}

void df_odbc_result_free(struct df_result *base)
{
    df_odbc_result_reset((struct odbc_result *)base);
}

size_t df_odbc_columns(const struct df_result *r)
{
    return result_of(r)->columns;
}

/* NULL: no such column, or no row. */
static const struct odbc_cell *cell_of(const struct df_result *base, size_t col)
{
    const struct odbc_result *r = result_of(base);
    if (r->row == 0 || r->row > r->count || col >= r->columns || r->rows[r->row - 1][col].null)
        return NULL;
    return &r->rows[r->row - 1][col];
}

static enum odbc_kind kind_of(const struct df_result *r, size_t col)
{
    return result_of(r)->kinds[col];
}

bool df_odbc_col_null(const struct df_result *r, size_t col)
{
    return !cell_of(r, col);
}

int64_t df_odbc_col_int(const struct df_result *r, size_t col)
{
    const struct odbc_cell *c = cell_of(r, col);
    if (!c)
        return 0;
    switch (kind_of(r, col)) {
    case ODBC_INT:
    case ODBC_TIME:
        return c->i;
    case ODBC_REAL:
        return c->d >= 0x1p63 ? INT64_MAX : c->d > -0x1p63 ? (int64_t)c->d : INT64_MIN;
    case ODBC_NUMBER:
    case ODBC_UUID:
    case ODBC_BLOB:
    case ODBC_TEXT:
        break;
    }
    return strtoll(c->s.ptr, NULL, 10); /* a number: the part before the point */
}

bool df_odbc_col_bool(const struct df_result *r, size_t col)
{
    return df_odbc_col_int(r, col) != 0;
}

int64_t df_odbc_col_time(const struct df_result *r, size_t col)
{
    const struct odbc_cell *c = cell_of(r, col);
    int64_t ms;

    if (!c)
        return -1;
    if (kind_of(r, col) == ODBC_TIME)
        return c->i;
    return kind_of(r, col) == ODBC_TEXT && df_time_parse(c->s, &ms) ? ms : -1;
}

/* The text that SQLite would return. */
struct df_str df_odbc_col_text(const struct df_result *r, size_t col)
{
    const struct odbc_cell *c = cell_of(r, col);
    /* Reading a column changes nothing that the caller can see. */
    struct df_arena *arena = (struct df_arena *)(uintptr_t)&result_of(r)->text;

    if (!c)
        return DF_STR_NULL;
    switch (kind_of(r, col)) {
    case ODBC_INT:
        return df_arena_printf(arena, "%lld", (long long)c->i);
    case ODBC_REAL:
        return df_arena_printf(arena, "%.17g", c->d);
    case ODBC_TIME: {
        char *text = df_arena_alloc(arena, DF_TIME_LEN + 1);
        df_time_format(c->i, text);
        return df_str_n(text, DF_TIME_LEN);
    }
    case ODBC_NUMBER:
    case ODBC_UUID:
    case ODBC_BLOB:
    case ODBC_TEXT:
        break;
    }
    return c->s;
}

struct df_str df_odbc_col_exact_time(const struct df_result *r, size_t col)
{
    const struct odbc_cell *c = cell_of(r, col);
    struct df_str text = df_odbc_col_text(r, col);

    if (!c || kind_of(r, col) != ODBC_TIME || c->ticks == 0)
        return text;
    struct df_arena *arena = (struct df_arena *)(uintptr_t)&result_of(r)->text;
    return df_arena_printf(arena, "%.*s%04uZ", DF_TIME_LEN - 1, text.ptr, c->ticks);
}

struct df_str df_odbc_col_blob(struct df_result *r, size_t col)
{
    return df_odbc_col_text(r, col);
}

/*
 * Many rows as one statement, whose parameters are arrays: the server starts and ends a statement
 * once for thousands of rows, which costs it more than a small row does.
 *
 * The text is the query's own (`many`), or is made of a plain INSERT:
 *
 *     INSERT INTO t (A, B) VALUES ($1, lower($2))
 *     INSERT INTO t (A, B) SELECT CAST(n.p1 AS int4), lower(CAST(n.p2 AS text))
 *         FROM UNNEST($1, $2) AS n (p1, p2)
 *
 * where the types are those that the server found for the parameters of the INSERT. It is asked for
 * them once on each connection, in a round trip of its own.
 *
 * When a row is refused, the server does not say which. So the statement runs under a savepoint of
 * its own; after a failure caused by a row, the savepoint is rolled back and the rows go one by
 * one. The same is done when the caller wants to know which rows were changed, not all of them
 * were, and the statement does not tell.
 */
#include "base/buf.h"
#include "base/mem.h"
#include "store/insert.h"
#include "store/pg_private.h"

#include <ctype.h>
#include <stdlib.h>

#define SQL_MAX ((size_t)1 << 20)
/* Fewer rows of a plain INSERT go one by one. */
#define INSERT_MIN 4
/* The column that numbers the rows of parameters, from 1. */
#define ROW_NUMBER "nth"

/* --- the text --------------------------------------------------------------------------------- */

static const char *type_name(Oid type)
{
    static const struct {
        Oid type;
        const char *name;
    } names[] = {
        {PG_BOOL, "bool"},       {PG_BYTEA, "bytea"},         {PG_INT8, "int8"},
        {PG_INT2, "int2"},       {PG_INT4, "int4"},           {PG_TEXT, "text"},
        {PG_JSON, "json"},       {PG_FLOAT4, "float4"},       {PG_FLOAT8, "float8"},
        {PG_VARCHAR, "varchar"}, {PG_TIMESTAMP, "timestamp"}, {PG_TIMESTAMPTZ, "timestamptz"},
        {PG_BPCHAR, "bpchar"},   {PG_NUMERIC, "numeric"},     {PG_UUID, "uuid"},
        {PG_JSONB, "jsonb"},
    };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (names[i].type == type)
            return names[i].name;
    }
    return NULL;
}

/* False: a parameter has a type that is not known here. */
static bool add_values(struct df_buf *out, const struct df_insert *v, const PGresult *types)
{
    for (const char *p = v->open + 1; p < v->close;) {
        const char *next = *p == '\'' || *p == '"' ? df_insert_skip_quoted(p) : p + 1;
        if (*p == '$' && isdigit((unsigned char)p[1])) {
            char *end;
            unsigned long n = strtoul(p + 1, &end, 10);
            const char *type = type_name(PQparamtype(types, (int)n - 1));
            if (!type)
                return false;
            df_buf_addf(out, "CAST(n.p%lu AS %s)", n, type);
            next = end;
        } else {
            df_buf_add(out, p, (size_t)(next - p));
        }
        p = next;
    }
    return true;
}

static void add_list(struct df_buf *out, const char *prefix, size_t count)
{
    for (size_t i = 1; i <= count; i++)
        df_buf_addf(out, "%s%s%zu", i > 1 ? ", " : "", prefix, i);
}

/* The text of a plain INSERT for many rows; NULL: it cannot be written so. */
static char *rewrite_insert(const struct df_query *q, const PGresult *types)
{
    const char *sql = df_query_sql(q, DF_POSTGRES);
    struct df_insert v;
    struct df_buf out;
    char *made = NULL;

    if (!df_insert_find(sql, &v))
        return NULL;
    df_buf_init(&out, SQL_MAX);
    df_buf_add(&out, sql, (size_t)(v.word - sql));
    df_buf_addz(&out, "SELECT ");
    if (add_values(&out, &v, types)) {
        df_buf_addz(&out, " FROM UNNEST(");
        add_list(&out, "$", q->param_count);
        df_buf_addz(&out, ") AS n (");
        add_list(&out, "p", q->param_count);
        df_buf_addc(&out, ')');
        made = df_buf_failed(&out) ? NULL : df_strdup(df_buf_str(&out));
    }
    df_buf_release(&out);
    return made;
}

static const struct df_value *first_given(const struct df_value *values, size_t width,
                                          size_t row_count)
{
    for (size_t row = 0; row < row_count; row++) {
        if (!values[row * width].null)
            return &values[row * width];
    }
    return values;
}

/* types: of an INSERT, or NULL. */
static struct pg_bulk *make_bulk(const struct df_query *q, const struct df_value *params,
                                 size_t row_count, const PGresult *types)
{
    char *sql = types ? rewrite_insert(q, types) : NULL;

    if (types && !sql)
        return NULL;
    struct pg_bulk *bulk = df_calloc(1, sizeof(*bulk) + q->param_count * sizeof(bulk->elements[0]));
    bulk->sql = sql;
    bulk->query = (struct df_query){
        .name = q->name,
        .param_count = q->param_count,
        .text = {[DF_POSTGRES] = {.sql = sql ? sql : df_query_many(q)}},
    };
    for (size_t i = 0; i < q->param_count; i++)
        bulk->elements[i] = df_pg_element(first_given(params + i, q->param_count, row_count),
                                          types ? PQparamtype(types, (int)i) : 0);
    return bulk;
}

void df_pg_bulk_free(struct pg_bulk *bulk)
{
    if (bulk)
        free(bulk->sql);
    free(bulk);
}

static bool is_plain_insert(const struct df_query *q)
{
    struct df_insert v;
    return q->param_count > 0 && df_insert_find(df_query_sql(q, DF_POSTGRES), &v);
}

/* Sets st->bulk at the first call for this query. An error: the connection's, or the statement's.
 */
static enum df_code find_bulk(struct pg_db *pg, struct pg_stmt *st, const struct df_value *params,
                              size_t row_count, struct df_err *err)
{
    const struct df_query *q = st->query;
    PGresult *types = NULL;
    struct pg_sink sink = {.ret_result = &types};
    enum df_code code = DF_OK;

    if (st->bulk_known)
        return DF_OK;
    if (!df_query_many(q) && is_plain_insert(q)) {
        code = df_pg_describe(pg, q, params, &sink, err);
        if (code == DF_OK)
            st->bulk = make_bulk(q, params, row_count, types);
        PQclear(types);
    } else if (df_query_many(q)) {
        st->bulk = make_bulk(q, params, row_count, NULL);
    }
    st->bulk_known = code == DF_OK;
    return code;
}

/* Whether the arrays can hold these values: their types were chosen by the first rows seen. */
static bool rows_fit(const struct pg_bulk *bulk, const struct df_value *params, size_t row_count)
{
    size_t width = bulk->query.param_count;

    for (size_t i = 0; i < width * row_count; i++) {
        if (!df_pg_element_fits(&params[i], bulk->elements[i % width]))
            return false;
    }
    return true;
}

/* --- the results ------------------------------------------------------------------------------ */

/* Gives the rows of one statement to the caller, who expects them under the numbers of the rows of
 * parameters. `first` is the number of this statement's first. */
static void give_rows(struct pg_db *pg, struct pg_sink *sink, PGresult *take_piece, int number,
                      size_t first)
{
    df_pg_result_set(pg, take_piece);
    pg->base.open_result = &pg->result.base;
    while (df_pg_step(&pg->result.base, NULL) == DF_ROW) {
        size_t row = first + (size_t)df_pg_col_int(&pg->result.base, (size_t)number) - 1;
        if (sink->affected)
            sink->affected[row]++;
        if (sink->on_row)
            sink->on_row(sink->arg, row, &pg->result.base);
    }
    pg->base.open_result = NULL;
    df_pg_result_free(&pg->result.base);
}

/* False: it is not known which rows were changed, and the caller wants to know. */
static bool take_pieces(struct pg_db *pg, struct pg_sink *sink, const struct df_value *params,
                        size_t width, size_t row_count)
{
    int number = PQfnumber(sink->pieces[0], ROW_NUMBER);
    size_t changed = 0;
    size_t first = 0;

    for (size_t i = 0; sink->affected && i < row_count; i++)
        sink->affected[i] = number < 0;
    for (size_t i = 0; i < sink->piece_count; i++) {
        changed += strtoul(PQcmdTuples(sink->pieces[i]), NULL, 10);
        if (number >= 0) {
            give_rows(pg, sink, sink->pieces[i], number, first);
            sink->pieces[i] = NULL;
        }
        first += df_pg_piece(params + first * width, width, row_count - first);
    }
    return number >= 0 || !sink->affected || changed == row_count;
}

static void drop_pieces(struct pg_sink *sink)
{
    for (size_t i = 0; i < sink->piece_count; i++)
        PQclear(sink->pieces[i]);
    free(sink->pieces);
    sink->pieces = NULL;
    sink->piece_count = 0;
}

static bool is_rows_fault(enum df_code code)
{
    return code == DF_E_DB_UNIQUE || code == DF_E_DB_CONSTRAINT || code == DF_E_INVALID_TEXT ||
           code == DF_E_DB;
}

bool df_pg_bulk_run(struct pg_db *pg, const struct df_query *q, const struct df_value *params,
                    size_t row_count, struct pg_sink *sink, enum df_code *ret, struct df_err *err)
{
    struct pg_stmt *st = df_pg_stmt(pg, q);

    if (row_count < (df_query_many(q) ? 2 : INSERT_MIN))
        return false;
    sink->failed_row = -1;
    *ret = find_bulk(pg, st, params, row_count, err);
    if (*ret != DF_OK)
        return true;
    if (!st->bulk || !rows_fit(st->bulk, params, row_count))
        return false;
    pg->held |= PG_HELD_BULK_BEGIN;
    *ret = df_pg_run_bulk(pg, st->bulk, params, row_count, sink, err);
    bool done = *ret == DF_OK && take_pieces(pg, sink, params, q->param_count, row_count);
    drop_pieces(sink);
    if (done)
        pg->held |= PG_HELD_BULK_END;
    if (done || !pg->base.alive || pg->control_failed || !(*ret == DF_OK || is_rows_fault(*ret)))
        return true;
    pg->held |= PG_HELD_BULK_UNDO | PG_HELD_BULK_END;
    *ret = df_pg_run(pg, q, params, row_count, sink, err);
    return true;
}

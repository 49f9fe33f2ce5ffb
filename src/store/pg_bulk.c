/*
 * Many rows of a plain INSERT as one statement with as many lists of values: the server starts and
 * ends a statement once for 64 rows, which costs it more than a small row does.
 *
 * When a row is refused, the server does not say which. So the statement runs under a savepoint of
 * its own; after a failure caused by a row, the savepoint is rolled back and the rows go one by
 * one.
 */
#include "base/buf.h"
#include "base/mem.h"
#include "store/insert.h"
#include "store/pg_private.h"

#include <ctype.h>
#include <stdlib.h>

#define PARAMS_MAX 16384 /* the protocol allows 65535 */
#define SQL_MAX    ((size_t)1 << 20)

/* Adds the list of values with its parameter numbers raised by `by`. */
static void add_list(struct df_buf *out, const struct df_insert *v, size_t by)
{
    for (const char *p = v->open; p <= v->close;) {
        const char *next = *p == '\'' || *p == '"' ? df_insert_skip_quoted(p) : p + 1;
        if (*p == '$' && isdigit((unsigned char)p[1])) {
            char *end;
            df_buf_addf(out, "$%zu", (size_t)strtoul(p + 1, &end, 10) + by);
            next = end;
        } else {
            df_buf_add(out, p, (size_t)(next - p));
        }
        p = next;
    }
}

static struct pg_bulk *make_bulk(const struct df_query *q)
{
    const char *sql = q->text[DF_POSTGRES].sql;
    struct df_insert v;

    if (q->param_count == 0 || q->param_count * pg_bulk_rows[0] > PARAMS_MAX ||
        !df_insert_find(sql, &v))
        return NULL;
    struct pg_bulk *bulk = df_calloc(1, sizeof(*bulk));
    for (size_t i = 0; i < PG_BULK_SIZES; i++) {
        struct df_buf out;
        df_buf_init(&out, SQL_MAX);
        df_buf_add(&out, sql, (size_t)(v.open - sql));
        for (size_t row = 0; row < pg_bulk_rows[i]; row++) {
            if (row > 0)
                df_buf_addc(&out, ',');
            add_list(&out, &v, row * q->param_count);
        }
        bulk->sql[i] = df_strdup(df_buf_str(&out));
        df_buf_release(&out);
        bulk->query[i] = (struct df_query){
            .name = q->name,
            .param_count = q->param_count * pg_bulk_rows[i],
            .text = {[DF_POSTGRES] = {.sql = bulk->sql[i]}},
        };
    }
    return bulk;
}

void df_pg_bulk_free(struct pg_bulk *bulk)
{
    for (size_t i = 0; bulk && i < PG_BULK_SIZES; i++)
        free(bulk->sql[i]);
    free(bulk);
}

static bool is_rows_fault(enum df_code code)
{
    return code == DF_E_DB_UNIQUE || code == DF_E_DB_CONSTRAINT || code == DF_E_INVALID_TEXT ||
           code == DF_E_DB;
}

bool df_pg_bulk_insert(struct pg_db *pg, const struct df_query *q, const struct df_value *params,
                       size_t row_count, struct pg_sink *sink, enum df_code *ret,
                       struct df_err *err)
{
    struct pg_stmt *st = df_pg_stmt(pg, q);

    if (!st->bulk_known) {
        st->bulk = make_bulk(q);
        st->bulk_known = true;
    }
    if (!st->bulk)
        return false;
    pg->held |= PG_HELD_BULK_BEGIN;
    *ret = df_pg_run_bulk(pg, q, st->bulk, params, row_count, sink, err);
    if (*ret == DF_OK) {
        pg->held |= PG_HELD_BULK_END;
        for (size_t i = 0; sink->affected && i < row_count; i++)
            sink->affected[i] = 1;
        return true;
    }
    if (!pg->base.alive || pg->control_failed || !is_rows_fault(*ret))
        return true;
    pg->held |= PG_HELD_BULK_UNDO | PG_HELD_BULK_END;
    *ret = df_pg_run(pg, q, params, row_count, sink, err);
    return true;
}

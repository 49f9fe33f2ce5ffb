/*
 * Many rows of one INSERT as one statement with one parameter: the rows as JSON, which the server
 * takes apart again with OPENJSON. One plan, one parse and one answer for a thousand rows are
 * several times as fast as a thousand statements.
 *
 * Only a plain INSERT ... VALUES (...) can be written this way, and only values that JSON can hold
 * without loss. When a row is refused, the server does not say which: the caller then sends the
 * rows one by one, as it does for a database with a compatibility level below 130, which has no
 * OPENJSON.
 */
#include "base/clock.h"
#include "base/escape.h"
#include "store/insert.h"
#include "store/odbc_private.h"

/* The server would silently cut or lose longer texts. */
#define SHORT_UNITS 4000

/* The characters that ~0, ~1 … stand for; the tilde itself is restored last. */
static const char tilde_chars[] = "~\"\\\t\n\r";
static const char *const tilde_sql[] = {"N'~'",     "N'\"'",     "N'\\'",
                                        "NCHAR(9)", "NCHAR(10)", "NCHAR(13)"};
enum { TILDES = sizeof(tilde_sql) / sizeof(tilde_sql[0]) };

static bool has_tildes(struct df_str s)
{
    for (size_t i = 0; i < TILDES; i++) {
        if (s.len > 0 && memchr(s.ptr, tilde_chars[i], s.len))
            return true;
    }
    return false;
}

/* Characters that have no tilde code. */
static bool has_rare(struct df_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        if ((unsigned char)s.ptr[i] < 0x20 && !memchr(tilde_chars, s.ptr[i], TILDES))
            return true;
    }
    return false;
}

bool df_odbc_bulk_fits(enum odbc_bulk bulk, const struct df_query *q, const struct df_value *params,
                       size_t rows)
{
    struct df_insert found;

    if (bulk == ODBC_BULK_NONE || q->param_count == 0 ||
        !df_insert_find(df_query_sql(q, DF_SQLSERVER), &found))
        return false;
    for (size_t i = 0; i < rows * q->param_count; i++) {
        const struct df_value *v = &params[i];
        if (v->type == DF_BLOB || v->type != params[i % q->param_count].type)
            return false;
        if (bulk == ODBC_BULK_RAW && v->type == DF_TEXT && !v->null && has_rare(v->s))
            return false;
    }
    return true;
}

void df_odbc_bulk_shape(enum odbc_bulk bulk, const struct df_query *q,
                        const struct df_value *params, size_t rows, struct odbc_param *shape)
{
    for (size_t i = 0; i < rows * q->param_count; i++) {
        struct odbc_param *p = &shape[i % q->param_count];
        const struct df_value *v = &params[i];
        p->type = v->type;
        if (v->type == DF_TEXT && !v->null && v->s.len > SHORT_UNITS)
            p->is_long = p->is_long || df_utf8_count(v->s) > SHORT_UNITS;
        if (v->type == DF_TEXT && !v->null && bulk == ODBC_BULK_RAW && !p->tildes)
            p->tildes = has_tildes(v->s);
    }
}

static const char *type_name(const struct odbc_param *p)
{
    switch (p->type) {
    case DF_INT:
        return "BIGINT";
    case DF_BOOL:
        return "BIT";
    case DF_TIME:
        return "DATETIME2";
    case DF_UUID:
        return "UNIQUEIDENTIFIER";
    case DF_TEXT:
    case DF_BLOB:
        break;
    }
    return p->is_long ? "NVARCHAR(MAX)" : "NVARCHAR(4000)";
}

static void add_column(struct df_buf *out, const struct odbc_param *shape, size_t param)
{
    for (size_t i = 0; shape[param].tildes && i < TILDES; i++)
        df_buf_addz(out, "REPLACE(");
    df_buf_addf(out, "r.p%zu", param);
    for (size_t i = TILDES; shape[param].tildes && i-- > 0;)
        df_buf_addf(out, ", N'~%zu', %s)", i, tilde_sql[i]);
}

void df_odbc_bulk_text(const struct df_query *q, const struct odbc_param *shape, struct df_buf *out)
{
    const char *sql = df_query_sql(q, DF_SQLSERVER);
    const unsigned char *markers = q->text[DF_SQLSERVER].markers;
    struct df_insert v;
    size_t marker = 0;

    if (!df_insert_find(sql, &v))
        return; /* cannot happen: df_odbc_bulk_fits has checked it */
    df_buf_add(out, sql, (size_t)(v.word - sql));
    df_buf_addz(out, "SELECT ");
    for (const char *p = v.open + 1; p < v.close;) {
        const char *next = *p == '\'' || *p == '"' ? df_insert_skip_quoted(p) : p + 1;
        if (*p == '?') {
            add_column(out, shape, markers ? markers[marker] : marker);
            marker++;
        } else {
            df_buf_add(out, p, (size_t)(next - p));
        }
        p = next;
    }
    df_buf_addz(out, "\nFROM OPENJSON(CAST(? AS NVARCHAR(MAX))) WITH (");
    for (size_t i = 0; i < q->param_count; i++)
        df_buf_addf(out, "p%zu %s '$[%zu]', ", i, type_name(&shape[i]), i);
    /* In the order of the rows, so that identities are assigned in that order. */
    df_buf_addf(out, "n INT '$[%zu]') AS r\nORDER BY r.n", q->param_count);
}

/* A server that leaves escapes as they are gets tilde codes instead. */
static void add_string(struct df_buf *out, enum odbc_bulk bulk, struct df_str s)
{
    size_t from = 0;

    df_buf_addc(out, '"');
    for (size_t i = 0; bulk == ODBC_BULK_RAW && i < s.len; i++) {
        const char *tilde = memchr(tilde_chars, s.ptr[i], TILDES);
        if (!tilde)
            continue;
        df_buf_add_escaped(out, df_str_n(s.ptr + from, i - from));
        df_buf_addf(out, "~%d", (int)(tilde - tilde_chars));
        from = i + 1;
    }
    df_buf_add_escaped(out, df_str_n(s.ptr + from, s.len - from));
    df_buf_addc(out, '"');
}

static void add_value(struct df_buf *out, enum odbc_bulk bulk, const struct df_value *v)
{
    char time[DF_TIME_LEN + 1];

    if (v->null) {
        df_buf_addz(out, "null");
        return;
    }
    switch (v->type) {
    case DF_INT:
        df_buf_add_i64(out, v->i);
        return;
    case DF_BOOL:
        df_buf_addz(out, v->i ? "true" : "false");
        return;
    case DF_TIME:
        df_time_format(v->i, time);
        /* Without the Z: a DATETIME2 has no zone. */
        add_string(out, bulk, df_str_n(time, DF_TIME_LEN - 1));
        return;
    case DF_UUID:
    case DF_TEXT:
    case DF_BLOB:
        break;
    }
    add_string(out, bulk, v->s);
}

size_t df_odbc_bulk_json(enum odbc_bulk bulk, const struct df_query *q,
                         const struct df_value *params, size_t rows, size_t max_bytes,
                         struct df_buf *out)
{
    size_t row = 0;

    df_buf_addc(out, '[');
    for (; row < rows && (row == 0 || out->len < max_bytes); row++) {
        df_buf_addz(out, row ? ",[" : "[");
        for (size_t i = 0; i < q->param_count; i++) {
            add_value(out, bulk, &params[row * q->param_count + i]);
            df_buf_addc(out, ',');
        }
        df_buf_addf(out, "%zu]", row);
    }
    df_buf_addc(out, ']');
    return row;
}

/*
 * Statements: prepared once, kept with their parameters bound.
 *
 * FreeTDS prepares a statement again whenever SQLBindParameter is called on it. So parameters are
 * bound once; values of fixed size are then written where the driver looks, and for text and blobs
 * it is told to look elsewhere (the data pointer of the application's parameter descriptor), which
 * costs no round trip.
 *
 * Text goes as NVARCHAR(4000), which is short enough to be compared with an indexed column; a
 * parameter that once had more is bound as NTEXT (FreeTDS knows no NVARCHAR(MAX) parameters) from
 * then on, which can be stored, and compared after a CAST. Blobs likewise.
 */
#include "base/clock.h"
#include "base/mem.h"
#include "base/utf16.h"
#include "base/uuid.h"
#include "store/odbc_private.h"

#include <stdlib.h>

#define STMTS_MAX  256
#define TIME_UNITS 23 /* 2026-11-15T03:16:05.123 */
/* 1601-01-01. FreeTDS 1.3 is a day off before. */
#define TIME_SURE_MS   INT64_C(-11644473600000)
#define SHORT_UNITS    4000
#define SHORT_BYTES    8000
#define LONG_UNITS     0x3FFFFFFF
#define LONG_BYTES     0x7FFFFFFF
#define TEXT_MAX_BYTES ((size_t)4 << 20)
#define KEEP_BYTES     ((size_t)1 << 20)

_Static_assert(sizeof(SQLWCHAR) == sizeof(uint16_t), "unixODBC's characters are UTF-16");

/* --- the cache -------------------------------------------------------------------------------- */

static void free_stmt(struct odbc_stmt *st)
{
    SQLFreeHandle(SQL_HANDLE_STMT, st->handle);
    free(st->params);
    free(st->shape);
    free(st);
}

void df_odbc_stmt_drop(struct odbc_db *o, struct odbc_stmt *st)
{
    df_list_remove(&o->stmts, &st->link);
    free_stmt(st);
}

void df_odbc_stmts_release(struct odbc_db *o)
{
    struct odbc_stmt *st;

    while ((st = DF_LIST_TAKE(&o->stmts, struct odbc_stmt, link)))
        free_stmt(st);
}

SQLWCHAR *df_odbc_wide(struct odbc_db *o, struct df_str text, SQLINTEGER *ret_count)
{
    df_buf_reset(&o->units);
    SQLWCHAR *units = (SQLWCHAR *)(void *)df_buf_grow(&o->units, (text.len + 1) * sizeof(SQLWCHAR));
    if (!units)
        df_oom();
    size_t count = df_utf16_from_utf8(text, units);
    units[count] = 0;
    *ret_count = (SQLINTEGER)count;
    return units;
}

static enum df_code prepare_stmt(struct odbc_db *o, struct odbc_stmt *st, struct df_err *err)
{
    const char *sql = df_query_sql(st->query, DF_SQLSERVER);
    struct df_buf text;
    SQLINTEGER count;

    df_buf_init(&text, TEXT_MAX_BYTES);
    if (st->shape)
        df_odbc_bulk_text(st->query, st->shape, &text);
    else if (st->savepoint)
        df_buf_addf(&text, "%s;\n", o->flavour->savepoint);
    if (!st->ends && !st->shape)
        df_buf_addz(&text, sql);
    for (size_t i = 0; st->ends && i < st->rows; i++)
        df_buf_addf(&text, "%s;\n%s;\n", sql, o->flavour->row_end);
    enum df_code code = DF_OK;
    if (df_buf_failed(&text)) {
        code = df_err_set(err, DF_E_INTERNAL, "query %s: too long a text", st->query->name);
    } else {
        SQLWCHAR *units = df_odbc_wide(o, df_buf_str(&text), &count);
        if (!SQL_SUCCEEDED(SQLPrepareW(st->handle, units, count)))
            code = df_odbc_fail(o, SQL_HANDLE_STMT, st->handle, st->query->name, NULL, err);
    }
    df_buf_release(&text);
    return code;
}

static enum df_code open_stmt(struct odbc_db *o, struct odbc_stmt *st, struct df_err *err)
{
    if (!SQL_SUCCEEDED(SQLAllocHandle(SQL_HANDLE_STMT, o->dbc, &st->handle)))
        return df_odbc_fail(o, SQL_HANDLE_DBC, o->dbc, st->query->name, NULL, err);
    if (!SQL_SUCCEEDED(
            SQLGetStmtAttr(st->handle, SQL_ATTR_APP_PARAM_DESC, &st->apd, SQL_IS_POINTER, NULL)))
        return df_odbc_fail(o, SQL_HANDLE_STMT, st->handle, st->query->name, NULL, err);
    return prepare_stmt(o, st, err);
}

/* The list is in order of last use, so common statements are found soon; even a full search is
 * cheap beside a round trip. */
static struct odbc_stmt *find_stmt(struct odbc_db *o, const struct df_query *q, size_t rows,
                                   bool ends, bool savepoint)
{
    struct odbc_stmt *st;

    DF_LIST_EACH (st, &o->stmts, link) {
        if (st->query != q || st->rows != rows || st->ends != ends || st->savepoint != savepoint)
            continue;
        df_list_remove(&o->stmts, &st->link);
        df_list_add_first(&o->stmts, &st->link);
        break;
    }
    return st;
}

/* Puts the statement into the cache; when it cannot be opened, frees it and returns NULL. */
static struct odbc_stmt *add_stmt(struct odbc_db *o, struct odbc_stmt *take_st, struct df_err *err)
{
    /* The program has fewer queries than this; with more, the cache is simply emptied. */
    if (o->stmts.count >= STMTS_MAX)
        df_odbc_stmts_release(o);
    take_st->params = df_calloc(take_st->param_count, sizeof(*take_st->params));
    if (open_stmt(o, take_st, err) != DF_OK) {
        free_stmt(take_st);
        return NULL;
    }
    df_list_add_first(&o->stmts, &take_st->link);
    return take_st;
}

size_t df_odbc_markers(const struct df_query *q)
{
    return q->text[DF_SQLSERVER].markers ? q->text[DF_SQLSERVER].marker_count : q->param_count;
}

struct odbc_stmt *df_odbc_stmt(struct odbc_db *o, const struct df_query *q, size_t rows, bool ends,
                               bool savepoint, struct df_err *err)
{
    struct odbc_stmt *st = find_stmt(o, q, rows, ends, savepoint);

    if (st)
        return st;
    st = df_calloc(1, sizeof(*st));
    *st = (struct odbc_stmt){.query = q, .rows = rows, .ends = ends, .savepoint = savepoint};
    st->param_count = df_odbc_markers(q) * rows;
    return add_stmt(o, st, err);
}

struct odbc_stmt *df_odbc_bulk_stmt(struct odbc_db *o, const struct df_query *q,
                                    const struct df_value *params, size_t rows, struct df_err *err)
{
    struct odbc_stmt *st = find_stmt(o, q, 0, false, false);
    size_t size = q->param_count * sizeof(struct odbc_param);
    struct odbc_param *shape = df_calloc(q->param_count, sizeof(*shape));

    if (st)
        memcpy(shape, st->shape, size);
    df_odbc_bulk_shape(o->bulk, q, params, rows, shape);
    if (st && memcmp(shape, st->shape, size) == 0) {
        free(shape);
        return st;
    }
    if (st)
        df_odbc_stmt_drop(o, st);
    st = df_calloc(1, sizeof(*st));
    *st = (struct odbc_stmt){.query = q, .shape = shape, .param_count = 1};
    return add_stmt(o, st, err);
}

bool df_odbc_reads(const struct df_query *q)
{
    struct df_str sql = df_str_trim(df_str_c(df_query_sql(q, DF_SQLSERVER)));
    return (sql.len >= 6 && df_str_ieq(df_str_n(sql.ptr, 6), DF_STR("SELECT"))) ||
           (sql.len >= 4 && df_str_ieq(df_str_n(sql.ptr, 4), DF_STR("WITH")));
}

/* --- parameters ------------------------------------------------------------------------------- */

static const struct df_value *value_of(const struct odbc_stmt *st, size_t marker,
                                       const struct df_value *params)
{
    if (st->shape)
        return params;
    size_t per_row = st->param_count / st->rows;
    size_t row = marker / per_row;
    size_t at = marker % per_row;
    const unsigned char *markers = st->query->text[DF_SQLSERVER].markers;

    return &params[row * st->query->param_count + (markers ? markers[at] : at)];
}

size_t df_odbc_row_bytes(const struct df_query *q, const struct df_value *params)
{
    size_t bytes = 0;

    for (size_t i = 0; i < q->param_count; i++) {
        const struct df_value *v = &params[i];
        bool text = v->type == DF_TEXT;
        if ((text || v->type == DF_BLOB) && !v->null)
            bytes += text ? v->s.len * sizeof(SQLWCHAR) : v->s.len;
        bytes += 16;
    }
    return bytes;
}

/* The type that is sent: very old times go as text, which the server reads correctly. */
static enum df_type type_of(const struct df_value *v)
{
    return v->type == DF_TIME && !v->null && v->i < TIME_SURE_MS ? DF_TEXT : v->type;
}

static bool needs_long(const struct df_value *v)
{
    if (v->null)
        return false;
    if (v->type == DF_TEXT)
        return v->s.len > SHORT_UNITS && df_utf8_count(v->s) > SHORT_UNITS;
    return v->type == DF_BLOB && v->s.len > SHORT_BYTES;
}

static SQLRETURN bind_one(struct odbc_stmt *st, size_t i)
{
    struct odbc_param *p = &st->params[i];
    SQLSMALLINT c_type = SQL_C_SBIGINT;
    SQLSMALLINT sql_type = SQL_BIGINT;
    SQLULEN size = 0;
    SQLSMALLINT digits = 0;

    switch (p->type) {
    case DF_INT:
        break;
    case DF_BOOL:
        c_type = SQL_C_BIT;
        sql_type = SQL_BIT;
        break;
    case DF_TIME:
        c_type = SQL_C_TYPE_TIMESTAMP;
        sql_type = SQL_TYPE_TIMESTAMP;
        size = 23; /* 2026-11-15 03:16:05.123 */
        digits = 3;
        break;
    case DF_UUID:
        c_type = SQL_C_GUID;
        sql_type = SQL_GUID;
        size = 16;
        break;
    case DF_TEXT:
        c_type = SQL_C_WCHAR;
        sql_type = p->is_long ? SQL_WLONGVARCHAR : SQL_WVARCHAR;
        size = p->is_long ? LONG_UNITS : SHORT_UNITS;
        break;
    case DF_BLOB:
        c_type = SQL_C_BINARY;
        sql_type = p->is_long ? SQL_LONGVARBINARY : SQL_VARBINARY;
        size = p->is_long ? LONG_BYTES : SHORT_BYTES;
        break;
    }
    p->data = &p->v;
    p->bound = true;
    return SQLBindParameter(st->handle, (SQLUSMALLINT)(i + 1), SQL_PARAM_INPUT, c_type, sql_type,
                            size, digits, &p->v, 0, &p->length);
}

static void set_guid(SQLGUID *to, struct df_str text)
{
    struct df_uuid uuid;

    if (!df_uuid_parse(text, &uuid))
        return; /* db.c has checked it */
    to->Data1 = (SQLUINTEGER)strtoul(uuid.text, NULL, 16);
    to->Data2 = (unsigned short)strtoul(uuid.text + 9, NULL, 16);
    to->Data3 = (unsigned short)strtoul(uuid.text + 14, NULL, 16);
    uint64_t last = strtoull(uuid.text + 19, NULL, 16) << 48 | strtoull(uuid.text + 24, NULL, 16);
    for (size_t i = 0; i < 8; i++)
        to->Data4[i] = (unsigned char)(last >> (56 - 8 * i));
}

static void set_time(SQL_TIMESTAMP_STRUCT *to, int64_t ms)
{
    struct df_date_time t = df_time_split(ms);
    *to = (SQL_TIMESTAMP_STRUCT){
        .year = (SQLSMALLINT)t.year,
        .month = (SQLUSMALLINT)t.month,
        .day = (SQLUSMALLINT)t.day,
        .hour = (SQLUSMALLINT)t.hour,
        .minute = (SQLUSMALLINT)t.minute,
        .second = (SQLUSMALLINT)t.second,
        .fraction = (SQLUINTEGER)t.ms * 1000000,
    };
}

/* Returns the address of the value. *units moves past the text that was written there. */
static const void *set_value(struct odbc_param *p, const struct df_value *v, SQLWCHAR **units)
{
    if (v->null) {
        p->length = SQL_NULL_DATA;
        return &p->v;
    }
    switch (p->type) {
    case DF_INT:
        p->v.i = v->i;
        p->length = sizeof(p->v.i);
        break;
    case DF_BOOL:
        p->v.b = v->i != 0;
        p->length = sizeof(p->v.b);
        break;
    case DF_TIME:
        set_time(&p->v.t, v->i);
        p->length = sizeof(p->v.t);
        break;
    case DF_UUID:
        set_guid(&p->v.u, v->s);
        p->length = sizeof(p->v.u);
        break;
    case DF_TEXT: {
        SQLWCHAR *start = *units;
        char time[DF_TIME_LEN + 1];
        if (v->type == DF_TIME)
            df_time_format(v->i, time);
        *units += df_utf16_from_utf8(v->type == DF_TIME ? df_str_n(time, TIME_UNITS) : v->s, start);
        p->length = (SQLLEN)((size_t)(*units - start) * sizeof(SQLWCHAR));
        return start;
    }
    case DF_BLOB:
        p->length = (SQLLEN)v->s.len;
        return v->s.ptr;
    }
    return &p->v;
}

static SQLRETURN bind_value(struct odbc_stmt *st, size_t i, const struct df_value *v,
                            SQLWCHAR **units)
{
    struct odbc_param *p = &st->params[i];
    enum df_type type = type_of(v);
    SQLRETURN rc = SQL_SUCCESS;

    if (!p->bound || p->type != type || (!p->is_long && needs_long(v))) {
        p->is_long = (p->is_long && p->type == type) || needs_long(v);
        p->type = type;
        st->prepared = false;
        rc = bind_one(st, i);
    }
    const void *data = set_value(p, v, units);
    if (data != p->data && SQL_SUCCEEDED(rc)) {
        p->data = data;
        /* The descriptor's pointers are not const; the driver only reads. */
        rc = SQLSetDescField(st->apd, (SQLSMALLINT)(i + 1), SQL_DESC_DATA_PTR,
                             (SQLPOINTER)(uintptr_t)data, SQL_IS_POINTER);
    }
    return rc;
}

enum df_code df_odbc_bind(struct odbc_db *o, struct odbc_stmt *st, const struct df_value *params,
                          struct df_err *err)
{
    size_t room = 1;

    for (size_t i = 0; i < st->param_count; i++) {
        const struct df_value *v = value_of(st, i, params);
        if (v->type == DF_TEXT && !v->null)
            room += v->s.len;
        else if (v->type == DF_TIME)
            room += TIME_UNITS;
    }
    if (o->units.cap > KEEP_BYTES && room * sizeof(SQLWCHAR) < KEEP_BYTES)
        df_buf_release(&o->units);
    df_buf_reset(&o->units);
    SQLWCHAR *units = (SQLWCHAR *)(void *)df_buf_grow(&o->units, room * sizeof(SQLWCHAR));
    if (!units)
        return df_err_set(err, DF_E_TOO_LARGE, "query %s: the values are too large together",
                          st->query->name);
    for (size_t i = 0; i < st->param_count; i++) {
        if (!SQL_SUCCEEDED(bind_value(st, i, value_of(st, i, params), &units)))
            return df_odbc_fail(o, SQL_HANDLE_STMT, st->handle, st->query->name, NULL, err);
    }
    return DF_OK;
}

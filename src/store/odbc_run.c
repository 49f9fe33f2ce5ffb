/*
 * Runs statements and reads their results to the end: a connection has one active statement, and an
 * error may follow rows that look fine.
 *
 * Many rows go as one text that holds the query many times. Each copy is followed by a SELECT of
 * one column with a reserved name. It marks the end of the row's results, whatever the query or a
 * trigger returned, and gives the number of rows written: FreeTDS keeps that count only for the
 * first statement of a text. (ODBC's parameter arrays are not used: they report success for rows
 * that failed.) The sizes of these texts are powers of two, so that few of them have to be
 * prepared. A statement that fails does not end the text: the rest runs, and the caller rolls it
 * back.
 */
#include "base/clock.h"
#include "base/mem.h"
#include "base/utf16.h"
#include "store/odbc_private.h"

#include <stdio.h>
#include <stdlib.h>

#define ROWS_MAX     64
#define BULK_MIN     4
#define BULK_MAX     1024
#define BULK_BYTES   ((size_t)2 << 20)
#define MARKERS_MAX  2000 /* the server takes 2,100 parameters */
#define TRIP_BYTES   ((size_t)4 << 20)
#define COLUMN_BYTES ((size_t)8 << 10)
#define KEEP_BYTES   ((size_t)1 << 20)
/* Limits the loop over a driver that never stops reporting errors. */
#define ERRORS_MAX 4096

struct run {
    struct odbc_db *o;
    SQLHSTMT handle;
    const char *what;
    struct odbc_sink *sink;
    size_t row;   /* index into the caller's rows */
    bool ends;    /* the text has row_end */
    bool writes;  /* otherwise nothing is counted */
    bool outputs; /* the rows returned are the rows written */
    enum df_code code;
    struct df_err *err;
};

static void note_error(struct run *r)
{
    struct odbc_trouble trouble;
    struct df_err *err = r->code == DF_OK ? r->err : NULL;
    enum df_code code = df_odbc_fail(r->o, SQL_HANDLE_STMT, r->handle, r->what, &trouble, err);

    if (r->code != DF_OK && code != DF_E_DB_UNAVAILABLE)
        return;
    r->sink->failed_row = r->code == DF_OK ? (int64_t)r->row : r->sink->failed_row;
    r->sink->trouble = trouble;
    r->code = code;
}

/* --- columns ---------------------------------------------------------------------------------- */

static enum odbc_kind kind_of(SQLSMALLINT sql_type)
{
    switch (sql_type) {
    case SQL_BIT:
    case SQL_TINYINT:
    case SQL_SMALLINT:
    case SQL_INTEGER:
    case SQL_BIGINT:
        return ODBC_INT;
    case SQL_REAL:
    case SQL_FLOAT:
    case SQL_DOUBLE:
        return ODBC_REAL;
    case SQL_DECIMAL:
    case SQL_NUMERIC:
        return ODBC_NUMBER;
    case SQL_TYPE_TIMESTAMP:
    case SQL_TYPE_DATE:
        return ODBC_TIME;
    case SQL_GUID:
        return ODBC_UUID;
    case SQL_BINARY:
    case SQL_VARBINARY:
    case SQL_LONGVARBINARY:
        return ODBC_BLOB;
    default:
        return ODBC_TEXT;
    }
}

static bool is_row_end(const SQLWCHAR *name, size_t len)
{
    static const char want[] = ODBC_ROW_END;

    if (len != sizeof(want) - 1)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (name[i] != (SQLWCHAR)want[i])
            return false;
    }
    return true;
}

/* Sets the kinds of the result's columns. */
static bool describe_columns(struct run *r, size_t columns, bool *ret_row_end)
{
    struct odbc_result *result = &r->o->result;
    SQLWCHAR name[32];
    SQLSMALLINT len = 0;
    SQLSMALLINT type = 0;

    *ret_row_end = false;
    enum odbc_kind *kinds = DF_ARENA_ARRAY(&result->cells, enum odbc_kind, columns);
    for (size_t i = 0; i < columns; i++) {
        SQLRETURN rc =
            SQLDescribeColW(r->handle, (SQLUSMALLINT)(i + 1), name, sizeof(name) / sizeof(name[0]),
                            &len, &type, NULL, NULL, NULL);
        if (!SQL_SUCCEEDED(rc)) {
            note_error(r);
            return false;
        }
        kinds[i] = kind_of(type);
        *ret_row_end = columns == 1 && r->ends && is_row_end(name, (size_t)len);
    }
    if (*ret_row_end)
        return true;
    if (result->count > 0 && result->columns != columns) {
        r->code = df_err_set(r->err, DF_E_INTERNAL, "%s: results of different width", r->what);
        return false;
    }
    result->kinds = kinds;
    result->columns = columns;
    return true;
}

static bool get_data(struct run *r, size_t col, SQLSMALLINT c_type, void *to, size_t size,
                     SQLLEN *ret_length)
{
    SQLRETURN rc =
        SQLGetData(r->handle, (SQLUSMALLINT)(col + 1), c_type, to, (SQLLEN)size, ret_length);
    if (!SQL_SUCCEEDED(rc))
        note_error(r);
    return SQL_SUCCEEDED(rc);
}

/* A column of any length into o->data; *ret_null when there is none. */
static bool get_long(struct run *r, size_t col, SQLSMALLINT c_type, bool *ret_null)
{
    struct df_buf *b = &r->o->data;
    size_t end =
        c_type == SQL_C_WCHAR ? sizeof(SQLWCHAR) : 0; /* the NUL that is written each time */
    size_t room = COLUMN_BYTES;

    df_buf_reset(b);
    *ret_null = false;
    for (;;) {
        SQLLEN length = 0;
        char *to = df_buf_grow(b, room);
        if (!to) {
            r->code = df_err_set(r->err, DF_E_TOO_LARGE, "%s: a column is too large", r->what);
            return false;
        }
        SQLRETURN rc =
            SQLGetData(r->handle, (SQLUSMALLINT)(col + 1), c_type, to, (SQLLEN)room, &length);
        if (rc == SQL_NO_DATA)
            return true;
        if (!SQL_SUCCEEDED(rc)) {
            note_error(r);
            return false;
        }
        *ret_null = length == SQL_NULL_DATA;
        if (*ret_null)
            return true;
        bool known = length != SQL_NO_TOTAL;
        if (known && (size_t)length + end <= room) {
            df_buf_grown(b, (size_t)length);
            return true;
        }
        df_buf_grown(b, room - end);
        /* The rest, when the driver knows its length; otherwise as much again. */
        room = known ? (size_t)length - (room - end) + end : b->len + COLUMN_BYTES;
    }
}

static struct df_str keep_text(struct run *r)
{
    struct df_arena *a = &r->o->result.cells;
    struct df_str raw = df_buf_str(&r->o->data);
    size_t count = raw.len / sizeof(SQLWCHAR);
    const SQLWCHAR *units = (const SQLWCHAR *)(const void *)raw.ptr;

    /* Long ones are measured by doing; for short ones the waste does not matter. */
    if (count <= COLUMN_BYTES) {
        char *text = df_arena_alloc(a, count * DF_UTF8_PER_UTF16 + 1);
        size_t len = df_utf16_to_utf8(units, count, text);
        text[len] = '\0';
        return df_str_n(text, len);
    }
    char *text = df_malloc(count * DF_UTF8_PER_UTF16 + 1);
    struct df_str kept = df_arena_str(a, df_str_n(text, df_utf16_to_utf8(units, count, text)));
    free(text);
    return kept;
}

static int64_t join_time(const SQL_TIMESTAMP_STRUCT *t)
{
    return df_time_join(&(struct df_date_time){
        .year = t->year,
        .month = t->month,
        .day = t->day,
        .hour = t->hour,
        .minute = t->minute,
        .second = t->second,
        .ms = (int)(t->fraction / 1000000),
    });
}

static struct df_str keep_uuid(struct run *r, const SQLGUID *u)
{
    const unsigned char *d = u->Data4;
    return df_arena_printf(&r->o->result.cells, "%08x-%04x-%04x-%02x%02x-%02x%02x%02x%02x%02x%02x",
                           (unsigned)u->Data1, u->Data2, u->Data3, d[0], d[1], d[2], d[3], d[4],
                           d[5], d[6], d[7]);
}

static bool get_cell(struct run *r, size_t col, enum odbc_kind kind, struct odbc_cell *cell)
{
    SQL_TIMESTAMP_STRUCT t;
    SQLGUID u;
    SQLBIGINT i = 0;
    SQLLEN length = 0;
    bool ok = false;

    switch (kind) {
    case ODBC_INT:
        ok = get_data(r, col, SQL_C_SBIGINT, &i, sizeof(i), &length);
        cell->i = i;
        break;
    case ODBC_REAL:
        ok = get_data(r, col, SQL_C_DOUBLE, &cell->d, sizeof(cell->d), &length);
        break;
    case ODBC_TIME:
        ok = get_data(r, col, SQL_C_TYPE_TIMESTAMP, &t, sizeof(t), &length);
        if (ok && length != SQL_NULL_DATA) {
            cell->i = join_time(&t);
            cell->ticks = (unsigned)(t.fraction % 1000000 / 100);
        }
        break;
    case ODBC_UUID:
        ok = get_data(r, col, SQL_C_GUID, &u, sizeof(u), &length);
        if (ok && length != SQL_NULL_DATA)
            cell->s = keep_uuid(r, &u);
        break;
    case ODBC_BLOB:
        ok = get_long(r, col, SQL_C_BINARY, &cell->null);
        if (ok && !cell->null)
            cell->s = df_arena_str(&r->o->result.cells, df_buf_str(&r->o->data));
        return ok;
    case ODBC_NUMBER:
    case ODBC_TEXT:
        ok = get_long(r, col, SQL_C_WCHAR, &cell->null);
        if (ok && !cell->null)
            cell->s = keep_text(r);
        return ok;
    }
    cell->null = length == SQL_NULL_DATA;
    return ok;
}

/* --- rows ------------------------------------------------------------------------------------- */

static bool fetch_row(struct run *r)
{
    struct odbc_result *result = &r->o->result;
    struct odbc_cell *cells = df_odbc_result_add(result);

    for (size_t i = 0; i < result->columns; i++) {
        if (!get_cell(r, i, result->kinds[i], &cells[i]))
            return false;
    }
    return true;
}

/* Hands the current row to on_row, then frees it. */
static void hand_row_on(struct run *r)
{
    struct odbc_db *o = r->o;

    if (r->sink->on_row) {
        o->result.base.db = &o->base;
        o->base.open_result = &o->result.base;
        r->sink->on_row(r->sink->arg, r->row, &o->result.base);
        o->base.open_result = NULL;
    }
    /* The kinds of the columns live in the same arena: save them over the reset. */
    enum odbc_kind kinds[64];
    size_t columns = o->result.columns;
    bool fits = columns <= sizeof(kinds) / sizeof(kinds[0]);
    if (!fits)
        return;
    memcpy(kinds, o->result.kinds, columns * sizeof(kinds[0]));
    df_odbc_result_reset(&o->result);
    o->result.columns = columns;
    o->result.kinds = DF_ARENA_ARRAY(&o->result.cells, enum odbc_kind, columns);
    memcpy(o->result.kinds, kinds, columns * sizeof(kinds[0]));
}

static void take_row_end(struct run *r)
{
    SQLBIGINT written = -1;
    SQLLEN length = 0;

    if (!get_data(r, 0, SQL_C_SBIGINT, &written, sizeof(written), &length))
        return;
    if (written >= 0 && r->sink->affected && r->writes && !r->outputs)
        r->sink->affected[r->row] = written;
    r->row++;
}

static void fetch_rows(struct run *r, size_t columns)
{
    struct odbc_sink *sink = r->sink;
    bool row_end = false;

    /* After an error the remaining rows are only skipped. */
    if (r->code != DF_OK || !describe_columns(r, columns, &row_end))
        return;
    for (;;) {
        SQLRETURN rc = SQLFetch(r->handle);
        if (rc == SQL_NO_DATA)
            break;
        if (!SQL_SUCCEEDED(rc)) {
            note_error(r);
            return;
        }
        if (row_end) {
            take_row_end(r);
            continue;
        }
        if (!fetch_row(r))
            return;
        if (sink->affected && r->outputs)
            sink->affected[r->row]++;
        if (!sink->keep)
            hand_row_on(r);
    }
}

/* The count of a statement without rows, where the driver has not lost it. */
static void take_count(struct run *r)
{
    SQLLEN count = 0;

    if (r->code != DF_OK || !r->sink->affected || !r->writes || r->outputs)
        return;
    if (SQL_SUCCEEDED(SQLRowCount(r->handle, &count)) && count > 0)
        r->sink->affected[r->row] += count;
}

/* Reads all results of what was executed with the outcome rc. */
static void walk_results(struct run *r, SQLRETURN rc)
{
    for (size_t errors = 0; errors < ERRORS_MAX && r->o->base.alive;) {
        SQLSMALLINT columns = 0;
        if (rc == SQL_ERROR || rc == SQL_INVALID_HANDLE) {
            note_error(r);
            errors++;
        } else if (!SQL_SUCCEEDED(SQLNumResultCols(r->handle, &columns))) {
            columns = 0;
        }
        if (columns > 0)
            fetch_rows(r, (size_t)columns);
        else if (rc != SQL_ERROR)
            take_count(r);
        rc = SQLMoreResults(r->handle);
        if (rc == SQL_NO_DATA)
            break;
    }
    if (r->o->data.cap > KEEP_BYTES)
        df_buf_release(&r->o->data);
    SQLFreeStmt(r->handle, SQL_CLOSE);
}

/* --- trips ------------------------------------------------------------------------------------ */

static void set_timeout(const struct odbc_db *o, SQLHSTMT handle)
{
    SQLULEN seconds = o->schema_locked ? 0 : (SQLULEN)((o->timeout_ms + 999) / 1000);
    SQLSetStmtAttr(handle, SQL_ATTR_QUERY_TIMEOUT, (SQLPOINTER)(uintptr_t)seconds, SQL_IS_UINTEGER);
}

enum df_code df_odbc_direct(struct odbc_db *o, const char *what, struct df_str text,
                            struct odbc_sink *sink, struct df_err *err)
{
    struct run r = {.o = o, .handle = o->direct, .what = what, .sink = sink, .err = err};
    SQLINTEGER count;

    sink->failed_row = -1;
    SQLWCHAR *units = df_odbc_wide(o, text, &count);
    set_timeout(o, o->direct);
    walk_results(&r, SQLExecDirectW(o->direct, units, count));
    return r.code;
}

enum df_code df_odbc_ask(struct odbc_db *o, const char *what, const char *text, int64_t *answers,
                         size_t count, struct df_err *err)
{
    struct odbc_sink sink = {.keep = true};

    df_odbc_result_reset(&o->result);
    enum df_code code = df_odbc_direct(o, what, df_str_c(text), &sink, err);
    o->result.row = 0;
    if (code == DF_OK && df_odbc_step(&o->result.base, err) != DF_ROW)
        code = df_err_set(err, DF_E_DB, "%s: the server gave no answer", what);
    for (size_t i = 0; code == DF_OK && i < count; i++)
        answers[i] = df_odbc_col_int(&o->result.base, i);
    df_odbc_result_reset(&o->result);
    return code;
}

enum df_code df_odbc_flush(struct odbc_db *o, struct df_err *err)
{
    const struct odbc_flavour *f = o->flavour;
    struct odbc_sink sink = {0};
    char text[512];

    if (!o->held)
        return DF_OK;
    const char *begin = o->held & ODBC_HELD_BEGIN           ? f->begin
                        : !(o->held & ODBC_HELD_BEGIN_READ) ? ""
                        : o->snapshot                       ? f->begin_read
                                                            : f->begin_read_blocking;
    (void)snprintf(text, sizeof(text), "%s;\n%s", begin,
                   o->held & ODBC_HELD_SAVEPOINT ? f->savepoint : "");
    const char *start = *begin ? text : text + 2;
    o->held = 0;
    return df_odbc_direct(o, "begin", df_str_c(start), &sink, err);
}

/* Gives the statement its values, runs it and reads everything. */
static void execute_stmt(struct run *r, struct odbc_stmt *st, const struct df_value *params)
{
    struct odbc_db *o = r->o;

    r->handle = st->handle;
    r->code = df_odbc_bind(o, st, params, r->err);
    if (r->code == DF_OK) {
        set_timeout(o, st->handle);
        walk_results(r, SQLExecute(st->handle));
    }
    /* A statement that fails at its first run may or may not be prepared, so it is dropped. Later
     * failures are the values' fault. */
    if (r->code == DF_OK)
        st->prepared = true;
    else if (!st->prepared || r->code == DF_E_DB || r->code == DF_E_DB_TIMEOUT || !o->base.alive ||
             r->sink->trouble.forgotten)
        df_odbc_stmt_drop(o, st);
}

static enum df_code run_trip(struct odbc_db *o, const struct df_query *q,
                             const struct df_value *params, size_t first_row, size_t rows,
                             struct odbc_sink *sink, struct df_err *err)
{
    const char *sql = df_query_sql(q, DF_SQLSERVER);
    struct run r = {.o = o, .what = q->name, .sink = sink, .row = first_row, .err = err};
    bool savepoint = o->held == ODBC_HELD_SAVEPOINT;

    r.code = savepoint ? DF_OK : df_odbc_flush(o, err);
    if (r.code != DF_OK)
        return r.code;
    r.ends = rows > 1 || sink->affected;
    r.writes = !df_odbc_reads(q);
    r.outputs = strcasestr(sql, "OUTPUT") || strcasestr(sql, "RETURNING");
    struct odbc_stmt *st = df_odbc_stmt(o, q, rows, r.ends, savepoint, err);
    if (!st)
        return o->base.alive ? DF_E_DB : DF_E_DB_UNAVAILABLE;
    o->held = 0;
    execute_stmt(&r, st, params);
    return r.code;
}

/*
 * Writes as many rows as fit in one INSERT; *ret_rows: how many. 0 with DF_OK: these rows must be
 * written one by one.
 */
static enum df_code bulk_trip(struct odbc_db *o, const struct df_query *q,
                              const struct df_value *params, size_t first_row, size_t left,
                              struct odbc_sink *sink, size_t *ret_rows, struct df_err *err)
{
    struct odbc_sink quiet = {0};
    struct df_err why = DF_ERR_INIT;
    struct run r = {.o = o, .what = q->name, .sink = &quiet, .err = &why};
    size_t rows = left < BULK_MAX ? left : BULK_MAX;

    *ret_rows = 0;
    if (rows < BULK_MIN || !df_odbc_bulk_fits(o->bulk, q, params, rows))
        return DF_OK;
    enum df_code code = df_odbc_flush(o, err);
    if (code != DF_OK)
        return code;
    df_buf_reset(&o->json);
    rows = df_odbc_bulk_json(o->bulk, q, params, rows, BULK_BYTES, &o->json);
    struct odbc_stmt *st = df_odbc_bulk_stmt(o, q, params, rows, &why);
    if (!st || df_buf_failed(&o->json))
        return DF_OK;
    struct df_value json = df_text(df_buf_str(&o->json));
    execute_stmt(&r, st, &json);
    if (o->json.cap > KEEP_BYTES)
        df_buf_release(&o->json);
    if (r.code == DF_OK) {
        for (size_t i = 0; sink->affected && i < rows; i++)
            sink->affected[first_row + i] = 1;
        *ret_rows = rows;
        return DF_OK;
    }
    /* To find the row at fault, the rows are written one by one, for which the transaction must
     * still be open. */
    int64_t open = 0;
    if (df_code_retry(r.code) == DF_RETRY_NEVER && o->base.alive &&
        df_odbc_ask(o, "state", o->flavour->in_transaction, &open, 1, NULL) == DF_OK && open)
        return DF_OK;
    sink->trouble = quiet.trouble;
    if (err)
        *err = why;
    return r.code;
}

static size_t power_below(size_t n)
{
    size_t p = 1;
    while (p * 2 <= n)
        p *= 2;
    return p;
}

/* How many of the rows that are left go in the next trip. */
static size_t trip_rows(const struct df_query *q, const struct df_value *params, size_t left)
{
    size_t markers = df_odbc_markers(q);
    size_t most = markers > 0 ? MARKERS_MAX / markers : ROWS_MAX;
    size_t bytes = 0;
    size_t rows = 0;

    if (most > ROWS_MAX)
        most = ROWS_MAX;
    while (rows < left && rows < most) {
        bytes += df_odbc_row_bytes(q, params + rows * q->param_count);
        if (rows > 0 && bytes > TRIP_BYTES)
            break;
        rows++;
    }
    return power_below(rows);
}

enum df_code df_odbc_run(struct odbc_db *o, const struct df_query *q, const struct df_value *params,
                         size_t row_count, struct odbc_sink *sink, struct df_err *err)
{
    enum df_code code = DF_OK;
    size_t one_by_one = row_count == 1 ? 1 : 0; /* rows before this one are not tried in bulk */

    sink->failed_row = -1;
    for (size_t i = 0; sink->affected && i < row_count; i++)
        sink->affected[i] = 0;
    df_odbc_result_reset(&o->result);
    for (size_t row = 0; row < row_count && code == DF_OK;) {
        const struct df_value *at = params ? params + row * q->param_count : NULL;
        size_t rows = 0;
        if (row >= one_by_one)
            code = bulk_trip(o, q, at, row, row_count - row, sink, &rows, err);
        if (code == DF_OK && rows == 0) {
            /* A row among these made the bulk insert fail, or they cannot be written in bulk. */
            if (row >= one_by_one)
                one_by_one = row + BULK_MAX;
            rows = row_count == 1 ? 1 : trip_rows(q, at, row_count - row);
            code = run_trip(o, q, at, row, rows, sink, err);
        }
        row += rows;
    }
    return code;
}

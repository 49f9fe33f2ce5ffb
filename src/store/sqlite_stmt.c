/*
 * Statements of the SQLite driver: preparing, binding, stepping, columns.
 *
 * Each connection prepares a query once and keeps it in a small set-associative cache. The cache is
 * not base/map.h's table because it must be bounded, and because the lookup, which every statement
 * begins with, compares at most STMT_WAYS pointers. At most one result is open, so a statement is
 * never in use twice.
 */
#include "base/clock.h"
#include "base/mem.h"
#include "store/sqlite_private.h"

#include <stdlib.h>

static enum df_code prepare_stmt(struct sqlite_db *s, const struct df_query *q, struct stmt *slot,
                                 struct df_err *err)
{
    sqlite3_stmt *h = NULL;
    int rc = sqlite3_prepare_v3(s->handle, df_query_sql(q, DF_SQLITE), -1,
                                SQLITE_PREPARE_PERSISTENT, &h, NULL);
    if (rc != SQLITE_OK)
        return df_sqlite_fail(s, rc, q->name, err);
    if (!h || (size_t)sqlite3_bind_parameter_count(h) != q->param_count) {
        sqlite3_finalize(h);
        return df_err_set(err, DF_E_USAGE, "query %s: text and parameters do not agree", q->name);
    }
    sqlite3_finalize(slot->handle);
    free(slot->scratch);
    *slot = (struct stmt){
        .query = q,
        .handle = h,
        .scratch = df_calloc(q->param_count, sizeof(union scratch)),
    };
    return DF_OK;
}

static enum df_code find_stmt(struct sqlite_db *s, const struct df_query *q, struct stmt **ret,
                              struct df_err *err)
{
    /* Addresses differ mostly in their middle bits; multiplying carries those to the top. */
    uint64_t hash = (uint64_t)(uintptr_t)q * UINT64_C(0x9E3779B97F4A7C15);
    struct stmt *set = s->stmts[hash >> 59];
    struct stmt *slot = &set[0];
    _Static_assert(STMT_SETS == 1 << (64 - 59), "the hash's upper bits choose the set");

    for (size_t i = 0; i < STMT_WAYS; i++) {
        if (set[i].query == q) {
            set[i].used = ++s->uses;
            *ret = &set[i];
            return DF_OK;
        }
        if (set[i].used < slot->used)
            slot = &set[i];
    }
    enum df_code code = prepare_stmt(s, q, slot, err);
    if (code == DF_OK) {
        slot->used = ++s->uses;
        *ret = slot;
    }
    return code;
}

void df_sqlite_stmts_release(struct sqlite_db *s)
{
    for (size_t i = 0; i < STMT_SETS; i++) {
        for (size_t j = 0; j < STMT_WAYS; j++) {
            sqlite3_finalize(s->stmts[i][j].handle);
            free(s->stmts[i][j].scratch);
        }
    }
}

/* `keep` is SQLITE_STATIC when the statement ends before the caller's values do. */
static int bind_value(struct stmt *st, size_t i, const struct df_value *v,
                      sqlite3_destructor_type keep)
{
    sqlite3_stmt *h = st->handle;
    union scratch *scratch = &st->scratch[i];
    int at = (int)i + 1;
    const char *ptr = v->s.ptr ? v->s.ptr : "";

    if (v->null)
        return sqlite3_bind_null(h, at);
    switch (v->type) {
    case DF_INT:
        return sqlite3_bind_int64(h, at, v->i);
    case DF_BOOL:
        return sqlite3_bind_int64(h, at, v->i != 0);
    case DF_TIME:
        df_time_format(v->i, scratch->time);
        return sqlite3_bind_text(h, at, scratch->time, DF_TIME_LEN, SQLITE_STATIC);
    case DF_UUID:
        if (!df_uuid_parse(v->s, &scratch->uuid))
            return SQLITE_MISMATCH;
        return sqlite3_bind_text(h, at, scratch->uuid.text, DF_UUID_LEN, SQLITE_STATIC);
    case DF_TEXT:
        return sqlite3_bind_text64(h, at, ptr, v->s.len, keep, SQLITE_UTF8);
    case DF_BLOB:
        return sqlite3_bind_blob64(h, at, ptr, v->s.len, keep);
    }
    return SQLITE_MISUSE;
}

static int bind_row(struct stmt *st, const struct df_value *params, sqlite3_destructor_type keep)
{
    int rc = SQLITE_OK;
    for (size_t i = 0; i < st->query->param_count && rc == SQLITE_OK; i++)
        rc = bind_value(st, i, &params[i], keep);
    return rc;
}

static void forget_values(sqlite3_stmt *h)
{
    sqlite3_reset(h);
    sqlite3_clear_bindings(h);
}

/* After a step: the first one prepares the statement again if the schema has changed. */
static void open_result(struct sqlite_db *s, const struct stmt *st)
{
    s->result = (struct sqlite_result){
        .base = {.db = &s->base},
        .handle = st->handle,
        .columns = (size_t)sqlite3_column_count(st->handle),
        .name = st->query->name,
    };
}

static void drop_kept(struct sqlite_result *r)
{
    for (size_t i = 0; i < r->kept_rows * r->columns; i++)
        sqlite3_value_free(r->kept[i]);
    free(r->kept);
    r->kept = NULL;
    r->kept_rows = 0;
}

/*
 * Outside a transaction, a statement that writes and returns rows commits after its last row. Its
 * rows are read in advance, so that query() reports an error of the commit even if the caller frees
 * the result early.
 */
static int keep_rows(struct sqlite_result *r)
{
    size_t cap = 0;
    int rc;

    do {
        if (r->kept_rows == cap) {
            cap = cap ? cap * 2 : 4;
            r->kept = df_realloc(r->kept, cap * r->columns * sizeof(sqlite3_value *));
        }
        for (size_t i = 0; i < r->columns; i++) {
            sqlite3_value *v = sqlite3_value_dup(sqlite3_column_value(r->handle, (int)i));
            if (!v)
                df_oom();
            r->kept[r->kept_rows * r->columns + i] = v;
        }
        r->kept_rows++;
    } while ((rc = sqlite3_step(r->handle)) == SQLITE_ROW);
    return rc;
}

enum df_code df_sqlite_query(struct df_db *db, const struct df_query *q,
                             const struct df_value *params, struct df_result **ret,
                             struct df_err *err)
{
    struct sqlite_db *s = sqlite_of(db);
    struct stmt *st;
    enum df_code code = find_stmt(s, q, &st, err);
    if (code != DF_OK)
        return code;

    /* The rows are read later, when the caller's values may be gone: SQLite copies them. */
    int rc = bind_row(st, params, SQLITE_TRANSIENT);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(st->handle);
    open_result(s, st);
    if (rc == SQLITE_ROW && !db->in_transaction && !sqlite3_stmt_readonly(st->handle))
        rc = keep_rows(&s->result);
    if (rc != SQLITE_ROW && rc != SQLITE_DONE) {
        code = df_sqlite_fail(s, rc, q->name, err);
        drop_kept(&s->result);
        forget_values(st->handle);
        return code;
    }
    s->result.ahead = rc;
    *ret = &s->result.base;
    return DF_OK;
}

enum df_code df_sqlite_step(struct df_result *base, struct df_err *err)
{
    struct sqlite_result *r = (struct sqlite_result *)base;
    if (r->done)
        return DF_DONE;
    if (r->kept_at < r->kept_rows) {
        r->kept_at++;
        return DF_ROW;
    }

    int rc = r->ahead ? r->ahead : sqlite3_step(r->handle);
    r->ahead = 0;
    if (rc == SQLITE_ROW)
        return DF_ROW;
    r->done = true;
    return rc == SQLITE_DONE ? DF_DONE : df_sqlite_fail(sqlite_of(base->db), rc, r->name, err);
}

void df_sqlite_result_free(struct df_result *base)
{
    struct sqlite_result *r = (struct sqlite_result *)base;
    drop_kept(r);
    forget_values(r->handle);
}

/* Runs one row of values to the statement's end. */
static int run_row(struct sqlite_db *s, struct stmt *st, const struct df_value *params, size_t row,
                   void (*on_row)(void *arg, size_t row, struct df_result *r), void *arg)
{
    int rc = bind_row(st, params, SQLITE_STATIC);
    if (rc != SQLITE_OK)
        return rc;
    while ((rc = sqlite3_step(st->handle)) == SQLITE_ROW) {
        if (on_row) {
            open_result(s, st);
            s->base.open_result = &s->result.base;
            on_row(arg, row, &s->result.base);
            s->base.open_result = NULL;
        }
    }
    return rc;
}

enum df_code df_sqlite_exec_many(struct df_db *db, const struct df_query *q,
                                 const struct df_value *params, size_t row_count,
                                 void (*on_row)(void *arg, size_t row, struct df_result *r),
                                 void *arg, int64_t *ret_affected, int64_t *ret_failed_row,
                                 struct df_err *err)
{
    struct sqlite_db *s = sqlite_of(db);
    struct stmt *st;
    enum df_code code = find_stmt(s, q, &st, err);
    if (code != DF_OK)
        return code;

    bool writes = !sqlite3_stmt_readonly(st->handle);
    for (size_t row = 0; row < row_count; row++) {
        int rc = run_row(s, st, params + row * q->param_count, row, on_row, arg);
        if (rc != SQLITE_DONE) {
            code = df_sqlite_fail(s, rc, q->name, err);
            *ret_failed_row = (int64_t)row;
            break;
        }
        if (ret_affected)
            ret_affected[row] = writes ? sqlite3_changes64(s->handle) : 0;
        sqlite3_reset(st->handle);
    }
    forget_values(st->handle);
    return code;
}

enum df_code df_sqlite_exec(struct df_db *db, const struct df_query *q,
                            const struct df_value *params, int64_t *ret_affected,
                            struct df_err *err)
{
    int64_t failed_row;
    return df_sqlite_exec_many(db, q, params, 1, NULL, NULL, ret_affected, &failed_row, err);
}

/* --- columns ---------------------------------------------------------------------------------- */

static const struct sqlite_result *result_of(const struct df_result *r)
{
    return (const struct sqlite_result *)r;
}

/* NULL: columns come from the statement, not from a kept row. */
static sqlite3_value *kept_value(const struct sqlite_result *r, size_t col)
{
    size_t row = r->kept_at ? r->kept_at - 1 : 0;
    return r->kept ? r->kept[row * r->columns + col] : NULL;
}

size_t df_sqlite_columns(const struct df_result *r)
{
    return result_of(r)->columns;
}

bool df_sqlite_col_null(const struct df_result *base, size_t col)
{
    const struct sqlite_result *r = result_of(base);
    if (col >= r->columns)
        return true;
    sqlite3_value *v = kept_value(r, col);
    int type = v ? sqlite3_value_type(v) : sqlite3_column_type(r->handle, (int)col);
    return type == SQLITE_NULL;
}

int64_t df_sqlite_col_int(const struct df_result *base, size_t col)
{
    const struct sqlite_result *r = result_of(base);
    if (col >= r->columns)
        return 0;
    sqlite3_value *v = kept_value(r, col);
    return v ? sqlite3_value_int64(v) : sqlite3_column_int64(r->handle, (int)col);
}

bool df_sqlite_col_bool(const struct df_result *r, size_t col)
{
    return df_sqlite_col_int(r, col) != 0;
}

/* Text and blob must be asked for before their length: asking may convert. */
struct df_str df_sqlite_col_text(const struct df_result *base, size_t col)
{
    const struct sqlite_result *r = result_of(base);
    if (df_sqlite_col_null(base, col))
        return DF_STR_NULL;
    sqlite3_value *v = kept_value(r, col);
    const unsigned char *ptr = v ? sqlite3_value_text(v) : sqlite3_column_text(r->handle, (int)col);
    int len = v ? sqlite3_value_bytes(v) : sqlite3_column_bytes(r->handle, (int)col);
    return ptr ? df_str_n((const char *)ptr, (size_t)len) : DF_STR_NULL;
}

struct df_str df_sqlite_col_blob(struct df_result *base, size_t col)
{
    const struct sqlite_result *r = result_of(base);
    if (df_sqlite_col_null(base, col))
        return DF_STR_NULL;
    sqlite3_value *v = kept_value(r, col);
    const char *ptr = v ? sqlite3_value_blob(v) : sqlite3_column_blob(r->handle, (int)col);
    int len = v ? sqlite3_value_bytes(v) : sqlite3_column_bytes(r->handle, (int)col);
    return ptr ? df_str_n(ptr, (size_t)len)
               : DF_STR(""); /* SQLite returns NULL for an empty blob */
}

int64_t df_sqlite_col_time(const struct df_result *r, size_t col)
{
    struct df_str text = df_sqlite_col_text(r, col);
    int64_t ms;
    return text.ptr && df_time_parse(text, &ms) ? ms : -1;
}

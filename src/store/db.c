#include "store/db.h"

#include "base/log.h"
#include "base/metrics.h"
#include "base/uuid.h"
#include "store/driver.h"

#include <assert.h>
#include <stdio.h>

#define TIME_FIRST_MS INT64_C(-62135596800000) /* 0001-01-01 */
#define TIME_LAST_MS  INT64_C(253402300799999) /* 9999-12-31T23:59:59.999 */
#define SLOW_NS       INT64_C(1000000000)

/* --- figures ---------------------------------------------------------------------------------- */

enum call { CALL_QUERY, CALL_EXEC, CALL_EXEC_MANY, CALL_COMMIT, CALL_COUNT };

DF_METRIC_FAMILY(statement_seconds) = {
    .name = "dataflow_db_statement_seconds",
    .help = "Single calls to the database.",
    .type = DF_HISTOGRAM,
    DF_METRIC_SECONDS,
    .labels = {"call"},
};
static struct df_metric *statement_series[CALL_COUNT];
static pthread_once_t metrics_once = PTHREAD_ONCE_INIT;

static void init_metrics(void)
{
    static const char *const names[CALL_COUNT] = {"query", "exec", "exec_many", "commit"};

    df_metric_register(&statement_seconds);
    for (size_t i = 0; i < CALL_COUNT; i++) {
        struct df_str label = df_str_c(names[i]);
        statement_series[i] = df_metric_get(&statement_seconds, &label);
    }
}

static int64_t now_ns(void)
{
    return df_mono_ns(df_clock_real());
}

static void count_call(enum call call, const char *name, int64_t start_ns)
{
    int64_t ns = now_ns() - start_ns;
    df_metric_observe(statement_series[call], (double)ns / 1e9);
    if (ns > SLOW_NS) {
        int64_t ms = ns / 1000000;
        struct df_log_field fields[] = {DF_F("query", df_str_c(name)), DF_FI("durationMs", ms)};
        df_log_write(DF_LOG_WARN, "SlowStatement", fields, 2, "a statement took long");
    }
}

/* --- which database --------------------------------------------------------------------------- */

static bool has_scheme(const char *url, const char *scheme)
{
    return strncmp(url, scheme, strlen(scheme)) == 0;
}

enum df_code df_db_dialect_of(const char *url, enum df_dialect *ret, struct df_err *err)
{
    static const struct {
        const char *scheme;
        enum df_dialect dialect;
    } known[] = {
        {"sqlite:", DF_SQLITE},
        {"postgres://", DF_POSTGRES},
        {"postgresql://", DF_POSTGRES},
        {"sqlserver://", DF_SQLSERVER},
    };

    for (size_t i = 0; url && i < sizeof(known) / sizeof(known[0]); i++) {
        if (has_scheme(url, known[i].scheme)) {
            *ret = known[i].dialect;
            return DF_OK;
        }
    }
    return df_err_set(err, DF_E_CONFIG,
                      "a database's URL is sqlite:PATH, postgres://user:password@host/database or "
                      "sqlserver://user:password@host:port/database");
}

const char *df_dialect_name(enum df_dialect d)
{
    switch (d) {
    case DF_SQLITE:
        return "sqlite";
    case DF_POSTGRES:
        return "postgres";
    case DF_SQLSERVER:
        return "sqlserver";
    case DF_DIALECT_COUNT:
        break;
    }
    return "unknown";
}

void df_db_url_masked(const char *url, char *out, size_t size)
{
    const char *authority = strstr(url, "://");
    if (size == 0)
        return;
    if (!authority) {
        /* sqlite:PATH holds no secret; in a misspelt URL only the scheme is safe to show. */
        bool path = has_scheme(url, "sqlite:");
        (void)snprintf(out, size, "%.*s", path ? (int)strlen(url) : (int)strcspn(url, ":"), url);
        return;
    }
    authority += 3;
    /* The last @: a password may hold an unescaped one, and no part of it may be shown. */
    const char *at = strrchr(authority, '@');
    const char *host = at ? at + 1 : authority;
    (void)snprintf(out, size, "%.*s%s%.*s", (int)(authority - url), url, at ? "***@" : "",
                   (int)strcspn(host, "?#"), host);
}

static const struct df_db_ops *const drivers[DF_DIALECT_COUNT] = {
    [DF_SQLITE] = &df_sqlite_ops,
    [DF_POSTGRES] = &df_postgres_ops,
    [DF_SQLSERVER] = &df_odbc_ops,
};

enum df_code df_db_check_url(const char *url, struct df_err *err)
{
    enum df_dialect dialect = DF_SQLITE;
    enum df_code code = df_db_dialect_of(url, &dialect, err);
    return code == DF_OK ? drivers[dialect]->check_url(url, err) : code;
}

void df_db_url_risk(const char *url, bool strict, struct df_buf *out)
{
    enum df_dialect dialect;

    if (df_db_dialect_of(url, &dialect, NULL) == DF_OK && drivers[dialect]->url_risk)
        drivers[dialect]->url_risk(url, strict, out);
}

/* --- connections ------------------------------------------------------------------------------ */

enum df_code df_db_open(const struct df_db_options *opt, struct df_db **ret, struct df_err *err)
{
    struct df_db_options o = *opt;
    enum df_dialect dialect = DF_SQLITE;
    enum df_code code = df_db_dialect_of(o.url, &dialect, err);
    if (code != DF_OK)
        return code;
    pthread_once(&metrics_once, init_metrics);
    if (o.connect_timeout_ms <= 0)
        o.connect_timeout_ms = 5000;
    if (o.statement_timeout_ms <= 0)
        o.statement_timeout_ms = 30000;
    return drivers[dialect]->open(&o, ret, err);
}

void df_db_close(struct df_db *db)
{
    if (!db)
        return;
    df_db_reset(db);
    db->ops->close(db);
}

enum df_dialect df_db_dialect(const struct df_db *db)
{
    return db->ops->dialect;
}

bool df_db_alive(const struct df_db *db)
{
    return db->alive;
}

const char *df_db_server(const struct df_db *db)
{
    return db->server;
}

uint64_t df_db_history(const struct df_db *db)
{
    return db->history;
}

bool df_db_in_transaction(const struct df_db *db)
{
    return db->in_transaction;
}

void df_db_reset(struct df_db *db)
{
    df_result_free(db->open_result);
    if (db->in_transaction)
        df_db_rollback(db);
}

/* --- what may be called when ------------------------------------------------------------------ */

/* Checked by every call that talks to the database. */
static enum df_code check_ready(struct df_db *db, struct df_err *err)
{
    assert(db->in_transaction || (!db->in_savepoint && !db->failed));
    if (db->alive && !db->in_transaction && db->ops->is_past && db->ops->is_past(db)) {
        db->alive = false;
        return df_err_set(err, DF_E_DB_UNAVAILABLE, "another server has taken over from %s",
                          db->server);
    }
    if (!db->alive)
        return df_err_set(err, DF_E_DB_UNAVAILABLE, "the database connection is lost");
    if (db->open_result)
        return df_err_set(err, DF_E_USAGE, "the connection still has an open result");
    return DF_OK;
}

/* Checked by every call that a failed transaction refuses. */
static enum df_code check_usable(struct df_db *db, struct df_err *err)
{
    enum df_code code = check_ready(db, err);
    if (code == DF_OK && db->failed)
        return df_err_set(err, DF_E_DB, "the transaction has failed and must be rolled back");
    return code;
}

/* Why this value is refused for every database; NULL when it is fine. */
static const char *refusal_of(const struct df_value *v, enum df_code *ret_code)
{
    struct df_uuid uuid;

    *ret_code = DF_E_USAGE;
    switch (v->type) {
    case DF_INT:
    case DF_BOOL:
        return NULL;
    case DF_TIME:
        return v->i >= TIME_FIRST_MS && v->i <= TIME_LAST_MS ? NULL : "is out of the calendar";
    case DF_UUID:
        *ret_code = DF_E_INVALID_TEXT;
        return df_uuid_parse(v->s, &uuid) ? NULL : "is not a UUID";
    case DF_TEXT:
    case DF_BLOB:
        break;
    }
    *ret_code = DF_E_TOO_LARGE;
    if (v->s.len > DF_VALUE_MAX)
        return "is too large";
    if (v->type == DF_BLOB)
        return NULL;
    *ret_code = DF_E_INVALID_TEXT;
    if (v->s.len > 0 && memchr(v->s.ptr, '\0', v->s.len))
        return "contains a NUL";
    return df_utf8_valid_prefix(v->s) == v->s.len ? NULL : "is not UTF-8";
}

static enum df_code check_row(const struct df_query *q, const struct df_value *params,
                              struct df_err *err)
{
    for (size_t i = 0; i < q->param_count; i++) {
        enum df_code code;
        if (params[i].type == 0)
            return df_err_set(err, DF_E_USAGE, "%s: %s is not given", q->name,
                              q->params ? q->params[i] : "a parameter");
        const char *why = params[i].null ? NULL : refusal_of(&params[i], &code);
        if (why)
            return df_err_set(err, code, "%s: %s %s", q->name,
                              q->params ? q->params[i] : "a parameter", why);
    }
    return DF_OK;
}

static enum df_code check_statement(struct df_db *db, const struct df_query *q, size_t param_count,
                                    struct df_err *err)
{
    enum df_code code = check_usable(db, err);
    if (code != DF_OK)
        return code;
    if (!q->is_packed && !q->text[db->ops->dialect].sql)
        return df_err_set(err, DF_E_USAGE, "query %s has no text for %s", q->name,
                          df_dialect_name(db->ops->dialect));
    if (param_count != q->param_count)
        return df_err_set(err, DF_E_USAGE, "query %s takes %zu parameters, not %zu", q->name,
                          q->param_count, param_count);
    return DF_OK;
}

/* Marks the transaction as failed when one of its statements failed. */
static enum df_code settle_statement(struct df_db *db, enum df_code code)
{
    bool ok = code == DF_OK || code == DF_ROW || code == DF_DONE;
    if (!ok && db->in_transaction)
        db->failed = true;
    return code;
}

/* --- statements ------------------------------------------------------------------------------- */

enum df_code df_db_ping(struct df_db *db, struct df_err *err)
{
    enum df_code code = check_usable(db, err);
    return code == DF_OK ? settle_statement(db, db->ops->ping(db, err)) : code;
}

enum df_code df_db_query(struct df_db *db, const struct df_query *q, const struct df_value *params,
                         size_t param_count, struct df_result **ret, struct df_err *err)
{
    struct df_result *r = NULL;
    enum df_code code = check_statement(db, q, param_count, err);
    if (code == DF_OK)
        code = check_row(q, params, err);
    if (code != DF_OK)
        return code;

    int64_t start = now_ns();
    code = settle_statement(db, db->ops->query(db, q, params, &r, err));
    count_call(CALL_QUERY, q->name, start);
    if (code != DF_OK)
        return code;
    db->open_result = r;
    if (q->column_count > 0 && df_result_columns(r) != q->column_count) {
        df_result_free(r);
        (void)df_err_set(err, DF_E_INTERNAL, "query %s has other columns than it was read for",
                         q->name);
        return DF_E_INTERNAL;
    }
    *ret = r;
    return DF_OK;
}

enum df_code df_result_step(struct df_result *r, struct df_err *err)
{
    return settle_statement(r->db, r->db->ops->step(r, err));
}

void df_result_free(struct df_result *r)
{
    if (!r)
        return;
    assert(r->db->open_result == r);
    r->db->open_result = NULL;
    r->db->ops->result_free(r);
}

enum df_code df_db_query_int(struct df_db *db, const struct df_query *q,
                             const struct df_value *params, size_t param_count, int64_t *ret,
                             struct df_err *err)
{
    struct df_result *r = NULL;
    enum df_code code = df_db_query(db, q, params, param_count, &r, err);
    if (code != DF_OK)
        return code;
    code = df_result_step(r, err);
    if (code == DF_ROW) {
        *ret = df_col_int(r, 0);
        code = DF_OK;
    } else if (code == DF_DONE) {
        code = df_err_set(err, DF_E_NOT_FOUND, "query %s found no row", q->name);
    }
    df_result_free(r);
    return code;
}

size_t df_result_columns(const struct df_result *r)
{
    return r->db->ops->columns(r);
}

bool df_col_null(const struct df_result *r, size_t col)
{
    return r->db->ops->col_null(r, col);
}

int64_t df_col_int(const struct df_result *r, size_t col)
{
    return r->db->ops->col_int(r, col);
}

bool df_col_bool(const struct df_result *r, size_t col)
{
    return r->db->ops->col_bool(r, col);
}

int64_t df_col_time(const struct df_result *r, size_t col)
{
    return r->db->ops->col_time(r, col);
}

struct df_str df_col_exact_time(const struct df_result *r, size_t col)
{
    return r->db->ops->col_exact_time ? r->db->ops->col_exact_time(r, col) : df_col_text(r, col);
}

struct df_str df_col_text(const struct df_result *r, size_t col)
{
    return r->db->ops->col_text(r, col);
}

struct df_str df_col_blob(struct df_result *r, size_t col)
{
    return r->db->ops->col_blob(r, col);
}

enum df_code df_db_exec(struct df_db *db, const struct df_query *q, const struct df_value *params,
                        size_t param_count, int64_t *ret_affected, struct df_err *err)
{
    int64_t affected = 0;
    enum df_code code = check_statement(db, q, param_count, err);
    if (code == DF_OK)
        code = check_row(q, params, err);
    if (code != DF_OK)
        return code;

    int64_t start = now_ns();
    code = settle_statement(db, db->ops->exec(db, q, params, &affected, err));
    count_call(CALL_EXEC, q->name, start);
    if (code == DF_OK && ret_affected)
        *ret_affected = affected;
    return code;
}

enum df_code df_db_exec_many(struct df_db *db, const struct df_query *q,
                             const struct df_value *params, size_t param_count, size_t row_count,
                             void (*on_row)(void *arg, size_t row, struct df_result *r), void *arg,
                             int64_t *ret_affected, int64_t *ret_failed_row, struct df_err *err)
{
    int64_t dummy = -1;
    int64_t *failed_row = ret_failed_row ? ret_failed_row : &dummy;

    *failed_row = -1;
    enum df_code code = check_statement(db, q, param_count, err);
    if (code != DF_OK)
        return code;
    if (!db->in_transaction)
        return df_err_set(err, DF_E_USAGE, "query %s: many rows need a transaction", q->name);
    if (row_count == 0)
        return DF_OK;
    for (size_t row = 0; row < row_count; row++) {
        code = check_row(q, params + row * param_count, err);
        if (code != DF_OK) {
            *failed_row = (int64_t)row;
            return code;
        }
    }

    int64_t start = now_ns();
    code = settle_statement(db, db->ops->exec_many(db, q, params, row_count, on_row, arg,
                                                   ret_affected, failed_row, err));
    count_call(CALL_EXEC_MANY, q->name, start);
    return code;
}

/* --- transactions ----------------------------------------------------------------------------- */

enum df_code df_db_begin(struct df_db *db, bool write, struct df_err *err)
{
    enum df_code code = check_ready(db, err);
    if (code != DF_OK)
        return code;
    if (db->in_transaction)
        return df_err_set(err, DF_E_USAGE, "a transaction is already open");
    code = db->ops->begin(db, write, err);
    if (code == DF_OK)
        db->in_transaction = true;
    return code;
}

static void forget_transaction(struct df_db *db)
{
    db->in_transaction = false;
    db->in_savepoint = false;
    db->failed = false;
}

enum df_code df_db_commit(struct df_db *db, struct df_err *err)
{
    if (!db->in_transaction)
        return df_err_set(err, DF_E_USAGE, "no transaction is open");
    enum df_code code = check_usable(db, err);
    if (code == DF_OK && db->in_savepoint)
        code = df_err_set(err, DF_E_USAGE, "a savepoint is still open");
    if (code == DF_OK) {
        int64_t start = now_ns();
        code = db->ops->commit(db, err);
        count_call(CALL_COMMIT, "commit", start);
    }
    if (code != DF_OK)
        db->ops->rollback(db);
    forget_transaction(db);
    return code;
}

void df_db_rollback(struct df_db *db)
{
    if (!db->in_transaction)
        return;
    df_result_free(db->open_result);
    db->ops->rollback(db);
    forget_transaction(db);
}

enum df_code df_db_savepoint(struct df_db *db, struct df_err *err)
{
    enum df_code code = check_usable(db, err);
    if (code != DF_OK)
        return code;
    if (!db->in_transaction || db->in_savepoint)
        return df_err_set(err, DF_E_USAGE, "a savepoint needs a transaction without one");
    code = settle_statement(db, db->ops->savepoint(db, err));
    if (code == DF_OK)
        db->in_savepoint = true;
    return code;
}

enum df_code df_db_release(struct df_db *db, struct df_err *err)
{
    enum df_code code = check_usable(db, err);
    if (code != DF_OK)
        return code;
    if (!db->in_savepoint)
        return df_err_set(err, DF_E_USAGE, "no savepoint is open");
    code = settle_statement(db, db->ops->release(db, err));
    if (code == DF_OK)
        db->in_savepoint = false;
    return code;
}

enum df_code df_db_rollback_to(struct df_db *db, struct df_err *err)
{
    df_result_free(db->open_result);
    enum df_code code = check_ready(db, err);
    if (code != DF_OK)
        return code;
    if (!db->in_savepoint)
        return df_err_set(err, DF_E_USAGE, "no savepoint is open");
    code = settle_statement(db, db->ops->rollback_to(db, err));
    if (code == DF_OK) {
        db->in_savepoint = false;
        db->failed = false;
    }
    return code;
}

/* --- rows by functions, parameters by name ---------------------------------------------------- */

enum df_code df_db_each(struct df_db *db, const struct df_query *q, const struct df_value *params,
                        size_t param_count, void (*row)(void *arg, struct df_result *r), void *arg,
                        struct df_err *err)
{
    struct df_result *r = NULL;
    enum df_code code = df_db_query(db, q, params, param_count, &r, err);

    if (code != DF_OK)
        return code;
    while ((code = df_result_step(r, err)) == DF_ROW)
        row(arg, r);
    df_result_free(r);
    return code == DF_DONE ? DF_OK : code;
}

enum df_code df_db_one(struct df_db *db, const struct df_query *q, const struct df_value *params,
                       size_t param_count, void (*row)(void *arg, struct df_result *r), void *arg,
                       bool *ret_found, struct df_err *err)
{
    struct df_result *r = NULL;
    enum df_code code = df_db_query(db, q, params, param_count, &r, err);

    if (code != DF_OK)
        return code;
    code = df_result_step(r, err);
    bool found = code == DF_ROW;
    if (found && row)
        row(arg, r);
    df_result_free(r);
    if (ret_found)
        *ret_found = found;
    else if (code == DF_DONE)
        return df_err_set(err, DF_E_NOT_FOUND, "query %s found no row", q->name);
    return found || code == DF_DONE ? DF_OK : code;
}

const struct df_value *df_query_bind(const struct df_query *q, const struct df_binding *values,
                                     size_t count, struct df_value *out)
{
    for (size_t i = 0; i < q->param_count; i++) {
        size_t at = 0;
        while (at < count && strcmp(values[at].name, q->params[i]) != 0)
            at++;
        assert(at < count && i < DF_ANY_MAX); /* the caller gives every parameter of the query */
        out[i] = values[at].value;
    }
    return out;
}

/* --- schema ----------------------------------------------------------------------------------- */

enum df_code df_db_script(struct df_db *db, const char *sql, struct df_err *err)
{
    enum df_code code = check_usable(db, err);
    return code == DF_OK ? settle_statement(db, db->ops->script(db, sql, err)) : code;
}

int64_t df_db_last_id(struct df_db *db)
{
    return db->ops->last_id ? db->ops->last_id(db) : 0;
}

enum df_code df_db_give_back(struct df_db *db, enum df_space what, int64_t *ret_left,
                             struct df_err *err)
{
    assert(!db->in_transaction && !db->open_result);
    *ret_left = 0;
    return db->ops->give_back ? db->ops->give_back(db, what, ret_left, err) : DF_OK;
}

enum df_code df_db_schema_lock(struct df_db *db, struct df_err *err)
{
    enum df_code code = check_ready(db, err);
    if (code != DF_OK)
        return code;
    if (db->in_transaction)
        return df_err_set(err, DF_E_USAGE, "the schema lock is not taken inside a transaction");
    return db->ops->schema_lock(db, err);
}

void df_db_schema_unlock(struct df_db *db)
{
    db->ops->schema_unlock(db);
}

/* --- for drivers ------------------------------------------------------------------------------ */

int df_db_line_at(const char *sql, size_t offset)
{
    int line = 1;
    for (size_t i = 0; i < offset && sql[i]; i++)
        line += sql[i] == '\n';
    return line;
}

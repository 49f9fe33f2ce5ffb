/*
 * SQL Server by unixODBC and FreeTDS: connection, transactions, schema. odbc_run.c sends and
 * receives.
 *
 * BEGIN and SAVEPOINT only set a bit in `held`. A savepoint is set by the text of the next
 * statement, in the same round trip; BEGIN goes alone (with the savepoint, if there is one), since
 * a parametrised statement runs inside a procedure, which may not end with more transactions than
 * it began with. Rolling back to a savepoint is done at once: the server rolls the whole
 * transaction back for some errors, and nothing may be written after that as if it were still open.
 *
 * XACT_ABORT is off: with it, every error would undo the savepoint as well.
 */
#include "store/odbc_private.h"

#include "base/mem.h"
#include "base/utf16.h"

#include <stdio.h>
#include <stdlib.h>

#define VALUES_MAX_BYTES (UINT32_C(3) << 30)
#define STRING_MAX_BYTES 8192
#define LOCK_WAIT_MS     INT64_C(20000)

static const struct odbc_flavour sqlserver = {
    .settings =
        "SET ANSI_NULLS, ANSI_PADDING, ANSI_WARNINGS, ARITHABORT, CONCAT_NULL_YIELDS_NULL,"
        " QUOTED_IDENTIFIER ON;\n"
        "SET NUMERIC_ROUNDABORT OFF; SET XACT_ABORT OFF; SET NOCOUNT OFF; SET DATEFORMAT ymd;\n"
        "SET TEXTSIZE 2147483647; SET LOCK_TIMEOUT %lld;\n"
        "SET TRANSACTION ISOLATION LEVEL READ COMMITTED;\n"
        "SELECT CAST(snapshot_isolation_state AS INT), CAST(delayed_durability AS INT)\n"
        "FROM sys.databases WHERE name = DB_NAME()",
    .standing = "SELECT CASE WHEN CONVERT(NVARCHAR(128), DATABASEPROPERTYEX(DB_NAME(),"
                " 'Updateability')) = N'READ_ONLY' THEN 1 ELSE 0 END, CHECKSUM(@@SERVERNAME)",
    .begin = "BEGIN TRANSACTION",
    .begin_read = "SET TRANSACTION ISOLATION LEVEL SNAPSHOT; BEGIN TRANSACTION",
    .begin_read_blocking = "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; BEGIN TRANSACTION",
    .end_read = "IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION;\n"
                "SET TRANSACTION ISOLATION LEVEL READ COMMITTED",
    .commit = "COMMIT TRANSACTION",
    .rollback = "IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION",
    .in_transaction = "SELECT @@TRANCOUNT",
    .bulk = "SELECT CASE WHEN j.v = N'\"' THEN 2 ELSE 1 END"
            " FROM OPENJSON(N'[[\"\\\"\"]]') WITH (v NVARCHAR(9) '$[0]') AS j",
    .row_end = "SELECT @@ROWCOUNT AS " ODBC_ROW_END,
    .savepoint = "SAVE TRANSACTION dataflow",
    .rollback_to = "ROLLBACK TRANSACTION dataflow",
    .lock = "DECLARE @got INT;\n"
            "EXEC @got = sp_getapplock @Resource = N'dataflow schema', @LockMode = N'Exclusive',"
            " @LockOwner = N'Session', @LockTimeout = %lld;\n"
            "SELECT CASE WHEN @got >= 0 THEN 1 ELSE 0 END",
    .unlock = "EXEC sp_releaseapplock @Resource = N'dataflow schema', @LockOwner = N'Session'",
    .code_of = df_odbc_sqlserver_code,
};

/* --- connecting ------------------------------------------------------------------------------- */

static void odbc_close(struct df_db *db)
{
    struct odbc_db *o = odbc_of(db);

    df_odbc_stmts_release(o);
    if (o->direct)
        SQLFreeHandle(SQL_HANDLE_STMT, o->direct);
    if (o->dbc) {
        SQLDisconnect(o->dbc);
        SQLFreeHandle(SQL_HANDLE_DBC, o->dbc);
    }
    if (o->env)
        SQLFreeHandle(SQL_HANDLE_ENV, o->env);
    df_odbc_result_release(&o->result);
    df_buf_release(&o->units);
    df_buf_release(&o->data);
    df_buf_release(&o->json);
    free(o);
}

/* df_odbc_ask with `number` in place of the format's %lld. */
static enum df_code ask_with(struct odbc_db *o, const char *what, const char *format,
                             int64_t number, int64_t *answers, size_t count, struct df_err *err)
{
    const char *gap = strstr(format, "%lld");
    struct df_buf text;

    df_buf_init(&text, STRING_MAX_BYTES);
    df_buf_add(&text, format, gap ? (size_t)(gap - format) : strlen(format));
    if (gap)
        df_buf_addf(&text, "%lld%s", (long long)number, gap + strlen("%lld"));
    df_buf_addc(&text, '\0');
    enum df_code code = df_odbc_ask(o, what, df_buf_str(&text).ptr, answers, count, err);
    df_buf_release(&text);
    return code;
}

static enum df_code apply_settings(struct odbc_db *o, const struct df_db_options *opt,
                                   struct df_err *err)
{
    enum { SNAPSHOT, DURABILITY, COUNT };
    int64_t answers[COUNT] = {0};

    /* The lock timeout is shorter, so that the error names the lock as the reason. */
    enum df_code code = ask_with(o, "settings", o->flavour->settings,
                                 opt->statement_timeout_ms / 3 + 1, answers, COUNT, err);
    if (code != DF_OK)
        return code;
    o->snapshot = answers[SNAPSHOT] == 1;
    int64_t bulk = ODBC_BULK_NONE;
    /* Below compatibility level 130 the question is an error: then there is no bulk insert. */
    if (o->flavour->bulk && df_odbc_ask(o, "bulk", o->flavour->bulk, &bulk, 1, NULL) == DF_OK)
        o->bulk = (enum odbc_bulk)bulk;
    /* Data answered with 2xx must be on disk. */
    if (answers[DURABILITY] == 2 && !opt->read_only)
        return df_err_set(err, DF_E_CONFIG,
                          "the database has DELAYED_DURABILITY = FORCED: a commit would not be on "
                          "disk when it is reported; set it to ALLOWED or DISABLED");
    return DF_OK;
}

static enum df_code connect_server(struct odbc_db *o, const char *connection_string,
                                   const struct df_db_options *opt, struct df_err *err)
{
    SQLULEN seconds = (SQLULEN)((opt->connect_timeout_ms + 999) / 1000);
    char masked[256];
    SQLINTEGER count;

    if (!SQL_SUCCEEDED(SQLAllocHandle(SQL_HANDLE_ENV, SQL_NULL_HANDLE, &o->env)) ||
        !SQL_SUCCEEDED(SQLSetEnvAttr(o->env, SQL_ATTR_ODBC_VERSION, (SQLPOINTER)SQL_OV_ODBC3, 0)) ||
        !SQL_SUCCEEDED(SQLAllocHandle(SQL_HANDLE_DBC, o->env, &o->dbc)))
        return df_err_set(err, DF_E_DB_UNAVAILABLE, "ODBC: no connection can be made");
    SQLSetConnectAttr(o->dbc, SQL_ATTR_LOGIN_TIMEOUT, (SQLPOINTER)(uintptr_t)seconds,
                      SQL_IS_UINTEGER);
    SQLWCHAR *units = df_odbc_wide(o, df_str_c(connection_string), &count);
    SQLRETURN rc = SQLDriverConnectW(o->dbc, NULL, units, (SQLSMALLINT)count, NULL, 0, NULL,
                                     SQL_DRIVER_NOPROMPT);
    /* It holds the password. */
    explicit_bzero(units, (size_t)count * sizeof(*units));
    if (!SQL_SUCCEEDED(rc)) {
        char what[300];
        df_db_url_masked(opt->url, masked, sizeof(masked));
        (void)snprintf(what, sizeof(what), "cannot connect to %s", masked);
        df_odbc_fail(o, SQL_HANDLE_DBC, o->dbc, what, NULL, err);
        if (err)
            err->code = DF_E_DB_UNAVAILABLE;
        return DF_E_DB_UNAVAILABLE;
    }
    if (!SQL_SUCCEEDED(SQLAllocHandle(SQL_HANDLE_STMT, o->dbc, &o->direct)))
        return df_odbc_fail(o, SQL_HANDLE_DBC, o->dbc, "connecting", NULL, err);
    return apply_settings(o, opt, err);
}

enum df_code df_odbc_open_string(const char *connection_string, const struct odbc_flavour *flavour,
                                 const struct df_db_options *opt, struct df_db **ret,
                                 struct df_err *err)
{
    struct odbc_db *o = df_calloc(1, sizeof(*o));

    o->base = (struct df_db){.ops = &df_odbc_ops, .alive = true};
    o->flavour = flavour;
    o->read_only = opt->read_only;
    o->timeout_ms = opt->statement_timeout_ms;
    o->result.base.db = &o->base;
    df_buf_init(&o->units, VALUES_MAX_BYTES);
    df_buf_init(&o->data, VALUES_MAX_BYTES);
    df_buf_init(&o->json, VALUES_MAX_BYTES);
    enum df_code code = connect_server(o, connection_string, opt, err);
    if (code != DF_OK) {
        odbc_close(&o->base);
        return code;
    }
    *ret = &o->base;
    return DF_OK;
}

/* It holds a password. */
static void wipe_text(struct df_buf *text)
{
    if (text->ptr)
        explicit_bzero(text->ptr, text->len);
    df_buf_release(text);
}

/* DF_E_NOT_FOUND: the URL names no such server. */
static enum df_code check_server(const char *url, enum odbc_server which, struct df_err *err)
{
    struct df_buf text;
    char server[DF_DB_SERVER_MAX];

    df_buf_init(&text, STRING_MAX_BYTES);
    enum df_code code = df_odbc_connection_string(url, which, &text, server, err);
    wipe_text(&text);
    return code;
}

static enum df_code odbc_check_url(const char *url, struct df_err *err)
{
    enum df_code code = check_server(url, ODBC_FIRST, err);
    if (code == DF_OK)
        code = check_server(url, ODBC_PARTNER, err);
    return code == DF_E_NOT_FOUND ? DF_OK : code;
}

/* Whether the server is the one to work with; `alone`: there is no other. */
static enum df_code check_standing(struct odbc_db *o, bool alone, struct df_err *err)
{
    enum { READ_ONLY, NUMBER, COUNT };
    int64_t answers[COUNT] = {0};

    if (df_odbc_ask(o, "standing", o->flavour->standing, answers, COUNT, NULL) != DF_OK)
        return DF_OK;
    o->base.history = UINT64_C(1) << 32 | (uint32_t)answers[NUMBER];
    if (alone || !answers[READ_ONLY])
        return DF_OK;
    return df_err_set(err, DF_E_DB_UNAVAILABLE, "%s takes no writes", o->base.server);
}

static enum df_code open_server(const struct df_db_options *opt, enum odbc_server which, bool alone,
                                struct df_db **ret, struct df_err *err)
{
    struct df_buf text;
    char server[DF_DB_SERVER_MAX];
    struct df_db *db = NULL;

    df_buf_init(&text, STRING_MAX_BYTES);
    enum df_code code = df_odbc_connection_string(opt->url, which, &text, server, err);
    df_buf_addc(&text, '\0');
    if (code == DF_OK)
        code = df_odbc_open_string(df_buf_str(&text).ptr, &sqlserver, opt, &db, err);
    wipe_text(&text);
    if (code == DF_OK) {
        memcpy(db->server, server, sizeof(server));
        code = check_standing(odbc_of(db), alone, err);
    }
    if (code == DF_OK)
        *ret = db;
    else if (db)
        odbc_close(db);
    return code;
}

/* The server that answered last is tried first, then the other one, if the URL names one. */
static enum df_code odbc_open(const struct df_db_options *opt, struct df_db **ret,
                              struct df_err *err)
{
    static _Atomic bool partner_answered; /* a hint: the database may be another one */
    enum df_code partner = check_server(opt->url, ODBC_PARTNER, err);

    if (partner == DF_E_CONFIG)
        return partner;
    bool alone = partner != DF_OK;
    enum odbc_server first = !alone && partner_answered ? ODBC_PARTNER : ODBC_FIRST;
    enum odbc_server second = first == ODBC_FIRST ? ODBC_PARTNER : ODBC_FIRST;
    enum df_code code = open_server(opt, first, alone, ret, err);
    if (code != DF_E_DB_UNAVAILABLE || alone)
        return code;
    struct df_err why = DF_ERR_INIT;
    code = open_server(opt, second, alone, ret, &why);
    if (code == DF_OK)
        partner_answered = second == ODBC_PARTNER;
    else if (err) /* what the other one said is known from the time before */
        *err = why;
    return code;
}

/* --- statements ------------------------------------------------------------------------------- */

/* SQL Server has no read-only sessions, so writes on a reading connection are refused here. */
static enum df_code check_writable(const struct odbc_db *o, const struct df_query *q,
                                   struct df_err *err)
{
    if (!o->read_only || df_odbc_reads(q))
        return DF_OK;
    return df_err_set(err, DF_E_USAGE, "%s: the connection is for reading", q->name);
}

/* Runs the query. When the server has forgotten the prepared statement, runs it once more, which is
 * safe only for a single statement outside a transaction. */
static enum df_code run_query(struct df_db *db, const struct df_query *q,
                              const struct df_value *params, size_t rows, struct odbc_sink *sink,
                              struct df_err *err)
{
    struct odbc_db *o = odbc_of(db);
    enum df_code code = check_writable(o, q, err);

    if (code == DF_OK)
        code = df_odbc_run(o, q, params, rows, sink, err);
    if (code == DF_E_DB_CONFLICT && !db->in_transaction && sink->trouble.forgotten)
        code = df_odbc_run(o, q, params, rows, sink, err);
    return code;
}

static enum df_code odbc_ping(struct df_db *db, struct df_err *err)
{
    struct odbc_db *o = odbc_of(db);
    struct odbc_sink sink = {0};
    return df_odbc_direct(o, "ping", DF_STR("SELECT 1"), &sink, err);
}

static enum df_code odbc_query(struct df_db *db, const struct df_query *q,
                               const struct df_value *params, struct df_result **ret,
                               struct df_err *err)
{
    struct odbc_result *r = &odbc_of(db)->result;
    struct odbc_sink sink = {.keep = true};

    enum df_code code = run_query(db, q, params, 1, &sink, err);
    if (code != DF_OK) {
        df_odbc_result_reset(r);
        return code;
    }
    r->row = 0;
    *ret = &r->base;
    return DF_OK;
}

static enum df_code odbc_exec(struct df_db *db, const struct df_query *q,
                              const struct df_value *params, int64_t *ret_affected,
                              struct df_err *err)
{
    struct odbc_sink sink = {.affected = ret_affected};
    return run_query(db, q, params, 1, &sink, err);
}

static enum df_code odbc_exec_many(struct df_db *db, const struct df_query *q,
                                   const struct df_value *params, size_t row_count,
                                   void (*on_row)(void *arg, size_t row, struct df_result *r),
                                   void *arg, int64_t *ret_affected, int64_t *ret_failed_row,
                                   struct df_err *err)
{
    struct odbc_sink sink = {.on_row = on_row, .arg = arg, .affected = ret_affected};
    enum df_code code = run_query(db, q, params, row_count, &sink, err);
    *ret_failed_row = sink.failed_row;
    return code;
}

/* --- transactions ----------------------------------------------------------------------------- */

static enum df_code run_control(struct odbc_db *o, const char *what, const char *text,
                                struct df_err *err)
{
    struct odbc_sink sink = {0};
    return df_odbc_direct(o, what, df_str_c(text), &sink, err);
}

static enum df_code odbc_begin(struct df_db *db, bool write, struct df_err *err)
{
    struct odbc_db *o = odbc_of(db);
    (void)err;

    o->held = write ? ODBC_HELD_BEGIN : ODBC_HELD_BEGIN_READ;
    o->reading = !write;
    return DF_OK;
}

static bool is_unbegun(const struct odbc_db *o)
{
    return o->held & (ODBC_HELD_BEGIN | ODBC_HELD_BEGIN_READ);
}

static enum df_code odbc_commit(struct df_db *db, struct df_err *err)
{
    struct odbc_db *o = odbc_of(db);
    bool unbegun = is_unbegun(o);

    o->held = 0;
    if (unbegun)
        return DF_OK;
    return run_control(o, "commit", o->reading ? o->flavour->end_read : o->flavour->commit, err);
}

static void odbc_rollback(struct df_db *db)
{
    struct odbc_db *o = odbc_of(db);
    bool unbegun = is_unbegun(o);

    o->held = 0;
    if (!db->alive || unbegun)
        return;
    if (run_control(o, "rollback", o->reading ? o->flavour->end_read : o->flavour->rollback,
                    NULL) != DF_OK)
        db->alive = false;
}

static enum df_code odbc_savepoint(struct df_db *db, struct df_err *err)
{
    (void)err;
    odbc_of(db)->held |= ODBC_HELD_SAVEPOINT;
    return DF_OK;
}

/* Drops a savepoint that was still held back, as nothing happened under it. False: it was sent. */
static bool forget_savepoint(struct odbc_db *o)
{
    bool held = o->held & ODBC_HELD_SAVEPOINT;
    o->held &= ~(unsigned)ODBC_HELD_SAVEPOINT;
    return held;
}

static enum df_code odbc_release(struct df_db *db, struct df_err *err)
{
    struct odbc_db *o = odbc_of(db);

    if (forget_savepoint(o) || !o->flavour->release)
        return DF_OK;
    return run_control(o, "release", o->flavour->release, err);
}

static enum df_code odbc_rollback_to(struct df_db *db, struct df_err *err)
{
    struct odbc_db *o = odbc_of(db);

    if (forget_savepoint(o))
        return DF_OK;
    return run_control(o, "rolling back to the savepoint", o->flavour->rollback_to, err);
}

/* --- schema ----------------------------------------------------------------------------------- */

/* The next batch of a script: up to a line that holds GO alone. *ret_lines: how many lines it and
 * its GO take. */
static struct df_str take_batch(struct df_str *rest, int *ret_lines)
{
    struct df_str all = *rest;
    struct df_str line;
    size_t len = 0;

    *ret_lines = 0;
    while (rest->ptr && rest->len > 0) {
        *rest = df_str_cut(*rest, '\n', &line);
        ++*ret_lines;
        if (df_str_ieq(df_str_trim(line), DF_STR("GO")))
            return df_str_n(all.ptr, len);
        len = rest->ptr ? (size_t)(rest->ptr - all.ptr) : all.len;
    }
    return df_str_n(all.ptr, len);
}

static enum df_code odbc_script(struct df_db *db, const char *sql, struct df_err *err)
{
    struct odbc_db *o = odbc_of(db);
    struct df_str rest = df_str_c(sql);
    int line = 0;
    enum df_code code = df_odbc_flush(o, err);

    while (code == DF_OK && rest.ptr && rest.len > 0) {
        struct odbc_sink sink = {0};
        struct df_err why = DF_ERR_INIT;
        int lines;
        struct df_str batch = take_batch(&rest, &lines);
        if (df_str_trim(batch).len > 0)
            code = df_odbc_direct(o, "script", batch, &sink, &why);
        if (code != DF_OK && sink.trouble.line > 0)
            df_err_set(err, code, "line %d: %s", line + sink.trouble.line, why.detail);
        else if (code != DF_OK && err)
            *err = why;
        line += lines;
    }
    /* A failed script may have left its own transaction open. */
    if (!db->in_transaction && db->alive &&
        run_control(o, "rollback", o->flavour->rollback, NULL) != DF_OK)
        db->alive = false;
    return code;
}

static enum df_code odbc_schema_lock(struct df_db *db, struct df_err *err)
{
    struct odbc_db *o = odbc_of(db);
    int64_t start_ms = df_mono_ms(df_clock_real());
    /* The wait is on the server, not a poll: Babelfish leaks memory at each request for the
     * lock. */
    int64_t wait_ms = o->timeout_ms / 2 < LOCK_WAIT_MS ? o->timeout_ms / 2 : LOCK_WAIT_MS;
    int64_t locked = 0;

    for (;;) {
        enum df_code code = ask_with(o, "schema lock", o->flavour->lock, wait_ms, &locked, 1, err);
        if (code != DF_OK)
            return code;
        if (locked)
            break;
        if (df_mono_ms(df_clock_real()) - start_ms > DF_SCHEMA_LOCK_WAIT_MS)
            return df_err_set(err, DF_E_DB_TIMEOUT, "another process holds the schema lock");
        df_sleep_ms(DF_SCHEMA_LOCK_POLL_MS);
    }
    /* Building an index on a large table may take long. */
    o->schema_locked = true;
    return DF_OK;
}

static void odbc_schema_unlock(struct df_db *db)
{
    struct odbc_db *o = odbc_of(db);

    bool locked = o->schema_locked;

    o->schema_locked = false;
    if (locked && db->alive && run_control(o, "schema unlock", o->flavour->unlock, NULL) != DF_OK)
        db->alive = false;
}

const struct df_db_ops df_odbc_ops = {
    .dialect = DF_SQLSERVER,
    .check_url = odbc_check_url,
    .url_risk = df_odbc_url_risk,
    .open = odbc_open,
    .close = odbc_close,
    .ping = odbc_ping,
    .query = odbc_query,
    .step = df_odbc_step,
    .result_free = df_odbc_result_free,
    .columns = df_odbc_columns,
    .col_null = df_odbc_col_null,
    .col_int = df_odbc_col_int,
    .col_bool = df_odbc_col_bool,
    .col_time = df_odbc_col_time,
    .col_text = df_odbc_col_text,
    .col_exact_time = df_odbc_col_exact_time,
    .col_blob = df_odbc_col_blob,
    .exec = odbc_exec,
    .exec_many = odbc_exec_many,
    .begin = odbc_begin,
    .commit = odbc_commit,
    .rollback = odbc_rollback,
    .savepoint = odbc_savepoint,
    .release = odbc_release,
    .rollback_to = odbc_rollback_to,
    .script = odbc_script,
    .schema_lock = odbc_schema_lock,
    .schema_unlock = odbc_schema_unlock,
};

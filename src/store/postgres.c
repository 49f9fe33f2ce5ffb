/*
 * PostgreSQL by libpq: transactions, errors, schema. pg_connect.c connects, pg_wire.c sends and
 * receives.
 *
 * BEGIN, SAVEPOINT, RELEASE and ROLLBACK TO only set a bit in `held`; they go out with the next
 * statement, in the same round trip. When BEGIN is still held back, COMMIT sends nothing at all.
 *
 * The schema lock is a session-level advisory lock, which is polled: a session that waits in the
 * server holds a snapshot, and CREATE INDEX CONCURRENTLY of the lock's holder would wait for it.
 */
#include "base/buf.h"
#include "base/log.h"
#include "base/mem.h"
#include "store/pg_private.h"

#include <stdio.h>
#include <stdlib.h>

/* --- errors ----------------------------------------------------------------------------------- */

void df_pg_copy_unquoted(const char *message, char *out, size_t size)
{
    bool quoted = false;
    size_t len = 0;

    for (const char *p = message; *p && len + 4 < size; p++) {
        if (*p == '"') {
            quoted = !quoted;
            if (!quoted)
                len += (size_t)snprintf(out + len, size - len, "...");
        }
        if (!quoted || *p == '"')
            out[len++] = *p;
    }
    out[len] = '\0';
}

static bool in_class(const char *state, const char *prefix)
{
    return strncmp(state, prefix, strlen(prefix)) == 0;
}

enum df_code df_pg_code(const char *state)
{
    static const struct {
        const char *prefix;
        enum df_code code;
    } table[] = {
        {"23505", DF_E_DB_UNIQUE},      /* unique_violation */
        {"23", DF_E_DB_CONSTRAINT},     /* integrity constraints */
        {"22021", DF_E_INVALID_TEXT},   /* character_not_in_repertoire */
        {"22P05", DF_E_INVALID_TEXT},   /* untranslatable_character */
        {"22", DF_E_DB_CONSTRAINT},     /* the value does not fit its type */
        {"54000", DF_E_DB_CONSTRAINT},  /* a row or an index entry that is too large */
        {"40003", DF_E_DB_UNAVAILABLE}, /* statement_completion_unknown */
        {"40", DF_E_DB_CONFLICT},       /* serialization_failure, deadlock_detected */
        {"55P03", DF_E_DB_CONFLICT},    /* lock_not_available */
        {"57014", DF_E_DB_TIMEOUT},     /* query_canceled */
        {"57P", DF_E_DB_UNAVAILABLE},   /* the server shuts down or starts */
        {"08", DF_E_DB_UNAVAILABLE},    /* connection exceptions */
        {"53100", DF_E_DISK_FULL},      /* disk_full */
        {"53", DF_E_DB_UNAVAILABLE},    /* insufficient resources */
        {"58", DF_E_DB_UNAVAILABLE},    /* errors of its operating system */
        {"25P03", DF_E_DB_UNAVAILABLE}, /* idle_in_transaction_session_timeout */
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        if (in_class(state, table[i].prefix))
            return table[i].code;
    }
    return DF_E_DB;
}

/* Reading connections are opened read-only. A writing one gets this error when the server has
 * become a standby. */
static enum df_code fail_read_only(struct pg_db *pg, const char *what, struct df_err *err)
{
    if (pg->read_only)
        return df_err_set(err, DF_E_USAGE, "%s: the connection is for reading", what);
    pg->base.alive = false;
    return df_err_set(err, DF_E_DB_UNAVAILABLE, "%s: the database server takes no writes", what);
}

enum df_code df_pg_fail(struct pg_db *pg, const PGresult *res, const char *what, struct df_err *err)
{
    const char *state = PQresultErrorField(res, PG_DIAG_SQLSTATE);
    const char *message = PQresultErrorField(res, PG_DIAG_MESSAGE_PRIMARY);
    char safe[256];

    /* An error without a SQLSTATE comes from libpq: the connection is in trouble. */
    if (!state)
        return df_err_set(err, DF_E_DB_UNAVAILABLE, "%s: %s", what, PQresultErrorMessage(res));
    if (!message)
        message = "";
    if (strcmp(state, "25006") == 0)
        return fail_read_only(pg, what, err);
    /* Data exceptions quote the value. Other errors do so in their DETAIL, which is left out. */
    if (in_class(state, "22")) {
        df_pg_copy_unquoted(message, safe, sizeof(safe));
        message = safe;
    }
    /* This text reaches the client that sent the value. */
    enum df_code code = df_pg_code(state);
    /* The server, or a pooler for it, ends the session or has lost it. */
    if (in_class(state, "08") || in_class(state, "57P") || strcmp(state, "40003") == 0)
        pg->base.alive = false;
    if (code == DF_E_INVALID_TEXT)
        return df_err_set(err, code, "A text holds a character that the database cannot store.");
    return df_err_set(err, code, "%s: %s (%s)", what, message, state);
}

/* --- the connection --------------------------------------------------------------------------- */

/* A wait for the standby that was cut short ends in a COMMIT that reports success. */
static void on_notice(void *arg, const PGresult *res)
{
    struct pg_db *pg = arg;
    const char *message = PQresultErrorField(res, PG_DIAG_MESSAGE_PRIMARY);
    const char *function = PQresultErrorField(res, PG_DIAG_SOURCE_FUNCTION);

    if (function && strcmp(function, "SyncRepWaitForLSN") == 0)
        pg->unreplicated = true;
    df_log_debug("DatabaseNotice", "%s", message ? message : "");
}

enum df_code df_pg_take_over(struct pg_db *pg, struct df_err *err)
{
    PQsetNoticeReceiver(pg->conn, on_notice, pg);
    if (PQsetnonblocking(pg->conn, 1) != 0 || !PQenterPipelineMode(pg->conn))
        return df_err_set(err, DF_E_DB_UNAVAILABLE, "libpq: %s", PQerrorMessage(pg->conn));
    return DF_OK;
}

void df_pg_close(struct df_db *db)
{
    struct pg_db *pg = pg_of(db);

    PQfinish(pg->conn);
    df_pg_stmts_release(pg);
    df_pg_params_release(&pg->params);
    df_arena_release(&pg->arena);
    if (pg->url)
        explicit_bzero(pg->url, strlen(pg->url)); /* it holds a password */
    free(pg->url);
    free(pg);
}

/* --- statements ------------------------------------------------------------------------------- */

static enum df_code pg_ping(struct df_db *db, struct df_err *err)
{
    static const struct df_query q = PG_STATEMENT("ping", "SELECT 1");
    struct pg_sink sink = {0};
    return df_pg_run(pg_of(db), &q, NULL, 1, &sink, err);
}

static enum df_code pg_query(struct df_db *db, const struct df_query *q,
                             const struct df_value *params, struct df_result **ret,
                             struct df_err *err)
{
    struct pg_db *pg = pg_of(db);
    PGresult *res = NULL;
    struct pg_sink sink = {.ret_result = &res};

    enum df_code code = df_pg_run(pg, q, params, 1, &sink, err);
    if (code != DF_OK) {
        PQclear(res);
        return code;
    }
    df_pg_result_set(pg, res);
    *ret = &pg->result.base;
    return DF_OK;
}

static enum df_code pg_exec_many(struct df_db *db, const struct df_query *q,
                                 const struct df_value *params, size_t row_count,
                                 void (*on_row)(void *arg, size_t row, struct df_result *r),
                                 void *arg, int64_t *ret_affected, int64_t *ret_failed_row,
                                 struct df_err *err)
{
    struct pg_sink sink = {.on_row = on_row, .arg = arg, .affected = ret_affected};
    enum df_code code = DF_OK;
    if (!df_pg_bulk_run(pg_of(db), q, params, row_count, &sink, &code, err))
        code = df_pg_run(pg_of(db), q, params, row_count, &sink, err);
    *ret_failed_row = sink.failed_row;
    return code;
}

static enum df_code pg_exec(struct df_db *db, const struct df_query *q,
                            const struct df_value *params, int64_t *ret_affected,
                            struct df_err *err)
{
    struct pg_sink sink = {.affected = ret_affected};
    return df_pg_run(pg_of(db), q, params, 1, &sink, err);
}

/* --- transactions ----------------------------------------------------------------------------- */

static enum df_code pg_begin(struct df_db *db, bool write, struct df_err *err)
{
    struct pg_db *pg = pg_of(db);
    (void)err;

    /* As in SQLite, a reading transaction sees one moment. */
    pg->held = write ? PG_HELD_BEGIN : PG_HELD_BEGIN_READ;
    pg->control_failed = false;
    return DF_OK;
}

static bool is_unbegun(const struct pg_db *pg)
{
    return pg->held & (PG_HELD_BEGIN | PG_HELD_BEGIN_READ);
}

static enum df_code pg_commit(struct df_db *db, struct df_err *err)
{
    static const struct df_query q = PG_STATEMENT("commit", "COMMIT");
    struct pg_db *pg = pg_of(db);
    struct pg_sink sink = {0};

    if (is_unbegun(pg)) {
        pg->held = 0;
        return DF_OK;
    }
    pg->unreplicated = false;
    enum df_code code = df_pg_run(pg, &q, NULL, 1, &sink, err);
    if (code == DF_OK && pg->unreplicated) {
        pg->base.alive = false;
        return df_err_set(err, DF_E_DB_UNAVAILABLE,
                          "commit: somebody ended the wait for the standby");
    }
    /* COMMIT of a failed transaction rolls back and reports success. */
    if (code == DF_OK && strcmp(sink.tag, "COMMIT") != 0)
        code = df_err_set(err, DF_E_DB, "commit: the server has rolled the transaction back");
    return code;
}

static void pg_rollback(struct df_db *db)
{
    static const struct df_query q = PG_STATEMENT("rollback", "ROLLBACK");
    struct pg_db *pg = pg_of(db);
    struct pg_sink sink = {0};
    bool unbegun = is_unbegun(pg);

    pg->held = 0;
    if (!db->alive || unbegun || PQtransactionStatus(pg->conn) == PQTRANS_IDLE)
        return;
    if (df_pg_run(pg, &q, NULL, 1, &sink, NULL) != DF_OK)
        db->alive = false;
}

static enum df_code pg_savepoint(struct df_db *db, struct df_err *err)
{
    (void)err;
    pg_of(db)->held |= PG_HELD_SAVEPOINT;
    return DF_OK;
}

/* Drops a savepoint that was still held back, as nothing happened under it. False: it was sent. */
static bool forget_savepoint(struct pg_db *pg)
{
    if (!(pg->held & PG_HELD_SAVEPOINT))
        return false;
    pg->held &= ~(unsigned)PG_HELD_SAVEPOINT;
    return true;
}

static enum df_code pg_release(struct df_db *db, struct df_err *err)
{
    struct pg_db *pg = pg_of(db);
    (void)err;

    if (!forget_savepoint(pg))
        pg->held |= PG_HELD_RELEASE;
    return DF_OK;
}

static enum df_code pg_rollback_to(struct df_db *db, struct df_err *err)
{
    struct pg_db *pg = pg_of(db);

    if (pg->control_failed)
        return df_err_set(err, DF_E_DB, "the savepoint is lost; roll the transaction back");
    if (!forget_savepoint(pg))
        pg->held |= PG_HELD_ROLLBACK_TO | PG_HELD_RELEASE;
    return DF_OK;
}

/* --- schema ----------------------------------------------------------------------------------- */

static enum df_code fail_script(struct pg_db *pg, const PGresult *res, const char *sql,
                                struct df_err *err)
{
    const char *position = PQresultErrorField(res, PG_DIAG_STATEMENT_POSITION);
    char where[32] = "script";
    size_t offset = 0;

    if (position) {
        /* The server counts characters, from 1. */
        for (long chars = strtol(position, NULL, 10); sql[offset]; offset++) {
            if (((unsigned char)sql[offset] & 0xC0) != 0x80 && --chars <= 0)
                break;
        }
        (void)snprintf(where, sizeof(where), "line %d", df_db_line_at(sql, offset));
    }
    return df_pg_fail(pg, res, where, err);
}

/* Sends what is held back and leaves pipeline mode, for libpq's simple calls. */
static enum df_code leave_pipeline(struct pg_db *pg, struct df_err *err)
{
    struct pg_sink sink = {0};
    enum df_code code = pg->held ? df_pg_run(pg, NULL, NULL, 0, &sink, err) : DF_OK;

    if (code != DF_OK)
        return code;
    if (PQexitPipelineMode(pg->conn))
        return DF_OK;
    pg->base.alive = false;
    return df_err_set(err, DF_E_DB_UNAVAILABLE, "libpq: %s", PQerrorMessage(pg->conn));
}

static void enter_pipeline(struct pg_db *pg)
{
    if (PQstatus(pg->conn) == CONNECTION_BAD || !PQenterPipelineMode(pg->conn))
        pg->base.alive = false;
}

/* Several statements in one text need the simple protocol, which pipeline mode does not allow. */
static enum df_code pg_script(struct df_db *db, const char *sql, struct df_err *err)
{
    struct pg_db *pg = pg_of(db);
    enum df_code code = leave_pipeline(pg, err);

    if (code != DF_OK)
        return code;
    PGresult *res = PQexec(pg->conn, sql);
    ExecStatusType status = PQresultStatus(res);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK && status != PGRES_EMPTY_QUERY)
        code = fail_script(pg, res, sql, err);
    PQclear(res);
    /* A failed script may have left its own transaction open. */
    if (!db->in_transaction && PQtransactionStatus(pg->conn) != PQTRANS_IDLE)
        PQclear(PQexec(pg->conn, "ROLLBACK"));
    enter_pipeline(pg);
    return code;
}

static enum df_code try_schema_lock(struct pg_db *pg, bool *ret_locked, struct df_err *err)
{
    /* The key spells "DataFlow". */
    static const struct df_query q =
        PG_STATEMENT("schema lock", "SELECT pg_try_advisory_lock(4927347428462194551)");
    struct df_result *r = NULL;

    enum df_code code = pg_query(&pg->base, &q, NULL, &r, err);
    if (code != DF_OK)
        return code;
    (void)df_pg_step(r, err);
    *ret_locked = df_pg_col_bool(r, 0);
    df_pg_result_free(r);
    return DF_OK;
}

static enum df_code pg_schema_lock(struct df_db *db, struct df_err *err)
{
    struct pg_db *pg = pg_of(db);
    int64_t start_ms = df_mono_ms(df_clock_real());
    bool locked = false;

    for (;;) {
        enum df_code code = try_schema_lock(pg, &locked, err);
        if (code != DF_OK)
            return code;
        if (locked)
            break;
        if (df_mono_ms(df_clock_real()) - start_ms > DF_SCHEMA_LOCK_WAIT_MS)
            return df_err_set(err, DF_E_DB_TIMEOUT, "another process holds the schema lock");
        df_sleep_ms(DF_SCHEMA_LOCK_POLL_MS);
    }
    /* Building an index on a large table may take long. */
    df_pg_limit_silence(pg, false);
    return pg_script(db, "SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0",
                     err);
}

static void pg_schema_unlock(struct df_db *db)
{
    struct pg_db *pg = pg_of(db);

    df_pg_limit_silence(pg, true);
    if (!db->alive)
        return;
    if (pg_script(db,
                  "SELECT pg_advisory_unlock(4927347428462194551);"
                  "RESET statement_timeout; RESET idle_in_transaction_session_timeout",
                  NULL) != DF_OK)
        db->alive = false;
}

const struct df_db_ops df_postgres_ops = {
    .dialect = DF_POSTGRES,
    .check_url = df_pg_check_url,
    .url_risk = df_pg_url_risk,
    .open = df_pg_open,
    .close = df_pg_close,
    .is_past = df_pg_is_past,
    .ping = pg_ping,
    .query = pg_query,
    .step = df_pg_step,
    .result_free = df_pg_result_free,
    .columns = df_pg_columns,
    .col_null = df_pg_col_null,
    .col_int = df_pg_col_int,
    .col_bool = df_pg_col_bool,
    .col_time = df_pg_col_time,
    .col_text = df_pg_col_text,
    .col_blob = df_pg_col_blob,
    .exec = pg_exec,
    .exec_many = pg_exec_many,
    .begin = pg_begin,
    .commit = pg_commit,
    .rollback = pg_rollback,
    .savepoint = pg_savepoint,
    .release = pg_release,
    .rollback_to = pg_rollback_to,
    .script = pg_script,
    .schema_lock = pg_schema_lock,
    .schema_unlock = pg_schema_unlock,
};

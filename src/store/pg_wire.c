/*
 * The wire to PostgreSQL: prepared statements and the pipeline.
 *
 * The connection is always nonblocking and in pipeline mode, except for schema scripts. All work
 * goes out as one batch: the transaction statements that were held back, the Parse of a statement
 * that is used for the first time, the statement itself once for each row, and one Sync. So a batch
 * costs one round trip. After an error the server skips everything up to the Sync, and libpq
 * reports the skipped statements as aborted; only the first error counts.
 *
 * While a batch goes out, answers are read and handed on, for two reasons: the server stops reading
 * when its answers are not taken, so that both sides would wait for ever; and neither a batch nor
 * its answers need fit in memory.
 *
 * Results come in the order in which statements were sent, one for each: `index` counts them.
 */
#include "base/clock.h"
#include "base/mem.h"
#include "store/pg_private.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

/* The held statements with the Parse of each, and the Parse of the statement itself. */
#define HEAD_MAX (2 * PG_HELD_COUNT + 1)
/* Output that may gather in memory before the sender waits for the socket. */
#define UNSENT_MAX_BYTES ((size_t)256 * 1024)
/* How long to poll the socket under TLS, which may already have read data that libpq has not
 * seen. */
#define TLS_SLICE_MS 100
/* After such a silence, and again, the server is asked whether it still serves. */
#define ASK_MS 4000

struct batch {
    struct pg_db *pg;
    struct pg_sink *sink;
    struct pg_stmt *stmt;       /* run once for each row; NULL: there are no rows */
    const struct pg_bulk *bulk; /* the rows go many at once; NULL: one by one */
    bool describe;              /* the statement is only prepared and described */
    struct {
        struct pg_stmt *stmt;
        bool parse;
    } head[HEAD_MAX]; /* statements sent before the rows */
    size_t head_count;
    size_t control_count; /* how many of the head were held back */
    size_t sent;          /* statements, those of the head included */
    size_t index;         /* the statement whose result comes next */
    size_t unsent_bytes;  /* about */
    bool sync_sent;
    bool synced;
    bool stale; /* the server does not know the statement, or its schema changed */
    enum df_code code;
    struct df_err *err;
};

/* --- prepared statements ---------------------------------------------------------------------- */

/*
 * Names are unique among all clients: behind a pooler several clients may share a server
 * connection, and a shared name would run another client's statement.
 */
static void name_stmt(struct pg_db *pg, struct pg_stmt *st)
{
    st->prepared = false;
    (void)snprintf(st->name, sizeof(st->name), "df_%016llx_%u", (unsigned long long)pg->name_seed,
                   ++pg->name_serial);
}

static struct df_str stmt_key(const struct df_query *const *q)
{
    return df_str_n((const char *)q, sizeof(void *));
}

/* The table never has more entries than the program has queries. */
struct pg_stmt *df_pg_stmt(struct pg_db *pg, const struct df_query *q)
{
    struct pg_stmt *st = df_map_get(&pg->stmts, stmt_key(&q));

    if (st)
        return st;
    st = df_calloc(1, sizeof(*st));
    st->query = q;
    name_stmt(pg, st);
    df_map_add(&pg->stmts, stmt_key(&st->query), st);
    return st;
}

void df_pg_stmts_release(struct pg_db *pg)
{
    struct pg_stmt *st;

    for (size_t at = 0; (st = df_map_next(&pg->stmts, &at));) {
        df_pg_bulk_free(st->bulk);
        free(st);
    }
    df_map_release(&pg->stmts);
}

/* --- results ---------------------------------------------------------------------------------- */

/*
 * A lost connection outranks every other error of the batch. The server's own last message is
 * better than libpq's.
 */
static bool lose_connection(struct batch *b, const char *why)
{
    b->pg->base.alive = false;
    if (b->code == DF_E_DB_UNAVAILABLE)
        return false;
    b->code = df_err_set(b->err, DF_E_DB_UNAVAILABLE, "the database connection is lost: %s", why);
    return false;
}

static int64_t affected_by(PGresult *res)
{
    /* PostgreSQL counts the rows of a SELECT too. */
    if (strncmp(PQcmdStatus(res), "SELECT", 6) == 0)
        return 0;
    return strtoll(PQcmdTuples(res), NULL, 10);
}

/* Takes res. */
static void accept_row(struct batch *b, size_t row, PGresult *take_res)
{
    struct pg_sink *sink = b->sink;
    struct pg_db *pg = b->pg;

    (void)snprintf(sink->tag, sizeof(sink->tag), "%s", PQcmdStatus(take_res));
    if (sink->affected)
        sink->affected[row] = affected_by(take_res);
    if (sink->ret_result) {
        PQclear(*sink->ret_result);
        *sink->ret_result = take_res;
        return;
    }
    if (sink->on_row && PQntuples(take_res) > 0) {
        df_pg_result_set(pg, take_res);
        pg->base.open_result = &pg->result.base;
        while (df_pg_step(&pg->result.base, NULL) == DF_ROW)
            sink->on_row(sink->arg, row, &pg->result.base);
        pg->base.open_result = NULL;
        df_pg_result_free(&pg->result.base);
        return;
    }
    PQclear(take_res);
}

static void keep_piece(struct pg_sink *sink, PGresult *take_res)
{
    sink->pieces = df_realloc(sink->pieces, (sink->piece_count + 1) * sizeof(PGresult *));
    sink->pieces[sink->piece_count++] = take_res;
}

/*
 * Whether the statement must be prepared again: the schema changed under it (recognised by the
 * server function that reports the error), or the server does not know it. The latter means that a
 * pooler gave us another server connection, which it will do again.
 */
static bool is_stale(struct pg_db *pg, const PGresult *res)
{
    const char *state = PQresultErrorField(res, PG_DIAG_SQLSTATE);
    const char *function = PQresultErrorField(res, PG_DIAG_SOURCE_FUNCTION);

    if (!state)
        return false;
    if (strcmp(state, "26000") == 0)
        return pg->pooled = true;
    return strcmp(state, "0A000") == 0 && function &&
           strcmp(function, "RevalidateCachedQuery") == 0;
}

static void note_refusal(struct batch *b, size_t index, const PGresult *res)
{
    if (b->code != DF_OK)
        return;
    struct pg_stmt *st = index < b->head_count ? b->head[index].stmt : b->stmt;

    b->code = df_pg_fail(b->pg, res, st ? st->query->name : "transaction", b->err);
    /* After the last statement comes the Sync; its errors belong to the connection. */
    if (index >= b->head_count && index < b->sent && !b->bulk)
        b->sink->failed_row = (int64_t)(index - b->head_count);
    if (index < b->control_count)
        b->pg->control_failed = true;
    if (st && is_stale(b->pg, res)) {
        b->stale = true;
        name_stmt(b->pg, st);
    }
}

/* Takes one result, which has arrived already. */
static bool take_result(struct batch *b)
{
    PGconn *conn = b->pg->conn;
    PGresult *res = PQgetResult(conn);
    ExecStatusType status = PQresultStatus(res); /* FATAL_ERROR for NULL */

    if (!res)
        return lose_connection(b, "the server's answers do not match what was asked");
    if (status == PGRES_PIPELINE_SYNC) {
        b->synced = true;
        PQclear(res);
        return true;
    }
    size_t index = b->index++;
    if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK) {
        if (index < b->head_count && b->head[index].parse) {
            b->head[index].stmt->prepared = true;
        } else if (index >= b->head_count && index < b->sent) {
            if (b->bulk)
                keep_piece(b->sink, res);
            else
                accept_row(b, index - b->head_count, res);
            res = NULL;
        }
    } else if (status != PGRES_PIPELINE_ABORTED) {
        note_refusal(b, index, res);
    }
    PQclear(res);
    if (PQstatus(conn) == CONNECTION_BAD)
        return lose_connection(b, PQerrorMessage(conn));
    /* A NULL ends the results of each statement and must be taken before more is sent. */
    while ((res = PQgetResult(conn)))
        PQclear(res);
    return true;
}

/* --- input and output ------------------------------------------------------------------------- */

/* Waits until the socket is ready; silence for too long is a lost connection. */
static bool wait_ready(struct batch *b, bool output)
{
    struct pg_db *pg = b->pg;
    bool tls = PQsslInUse(pg->conn);
    int64_t start_ms = df_mono_ms(df_clock_real());
    int64_t ask_ms = start_ms + ASK_MS;
    int silences = 0;
    struct pollfd pfd = {
        .fd = PQsocket(pg->conn),
        .events = (short)(output ? POLLIN | POLLOUT : POLLIN),
    };

    for (;;) {
        int64_t left = -1, now_ms = df_mono_ms(df_clock_real());
        if (pg->silence_ms > 0) {
            left = pg->silence_ms - (now_ms - start_ms);
            if (left <= 0)
                return lose_connection(b, "the server does not answer");
        }
        if (pg->asks && now_ms >= ask_ms) {
            if (!df_pg_still_serves(pg, &silences))
                return lose_connection(b, "the server does not serve any more");
            ask_ms = df_mono_ms(df_clock_real()) + ASK_MS;
            continue;
        }
        if (pg->asks && (left < 0 || left > ask_ms - now_ms))
            left = ask_ms - now_ms;
        if (tls && (left < 0 || left > TLS_SLICE_MS))
            left = TLS_SLICE_MS;
        int n = poll(&pfd, 1, (int)left);
        if (n < 0 && errno != EINTR)
            return lose_connection(b, "the socket cannot be waited for");
        if ((n > 0 && (pfd.revents & ~POLLOUT)) || (n == 0 && tls)) {
            if (!PQconsumeInput(pg->conn) || (tls && !PQconsumeInput(pg->conn)))
                return lose_connection(b, PQerrorMessage(pg->conn));
            if (!PQisBusy(pg->conn))
                return true;
        }
        if (n > 0)
            return true;
    }
}

/* Takes answers until all output has left; with finish, until the answer to the Sync has
 * arrived. */
static bool pump_batch(struct batch *b, bool finish)
{
    PGconn *conn = b->pg->conn;

    for (;;) {
        int unsent = PQflush(conn);
        if (unsent < 0)
            return lose_connection(b, PQerrorMessage(conn));
        while ((b->index < b->sent || (b->sync_sent && !b->synced)) && !PQisBusy(conn)) {
            if (!take_result(b))
                return false;
        }
        if (finish ? b->synced : !unsent) {
            b->unsent_bytes = 0;
            return true;
        }
        if (!wait_ready(b, unsent > 0))
            return false;
    }
}

static bool send_prepare(struct batch *b, struct pg_stmt *st, const char *name,
                         const struct pg_params *p)
{
    const struct df_query *q = st->query;
    PGconn *conn = b->pg->conn;

    b->head[b->head_count].stmt = st;
    b->head[b->head_count++].parse = true;
    if (!PQsendPrepare(conn, name, df_query_sql(q, DF_POSTGRES), (int)q->param_count, p->types))
        return lose_connection(b, PQerrorMessage(conn));
    b->sent++;
    return true;
}

static bool send_parse(struct batch *b, struct pg_stmt *st, const struct pg_params *p)
{
    return st->prepared || b->pg->pooled || send_prepare(b, st, st->name, p);
}

static bool send_execute(struct batch *b, const struct pg_stmt *st, const struct pg_params *p)
{
    PGconn *conn = b->pg->conn;
    int count = (int)st->query->param_count;
    int sent = b->pg->pooled ? PQsendQueryParams(conn, df_query_sql(st->query, DF_POSTGRES), count,
                                                 p->types, p->values, p->lengths, p->formats, 0)
                             : PQsendQueryPrepared(conn, st->name, count, p->values, p->lengths,
                                                   p->formats, 0);

    if (!sent)
        return lose_connection(b, PQerrorMessage(conn));
    b->sent++;
    return true;
}

/* --- batches ---------------------------------------------------------------------------------- */

static const struct df_query *held_query(unsigned bit)
{
#define CONTROL(n, s)                                                                              \
    {                                                                                              \
        .name = (n), .text = { [DF_POSTGRES] = {.sql = (s)} }                                      \
    }
    static const struct df_query queries[PG_HELD_COUNT] = {
        CONTROL("begin", "BEGIN"),
        CONTROL("begin", "BEGIN ISOLATION LEVEL REPEATABLE READ"),
        CONTROL("undo", "ROLLBACK TO SAVEPOINT df_bulk"),
        CONTROL("end of rows", "RELEASE SAVEPOINT df_bulk"),
        CONTROL("rollback to", "ROLLBACK TO SAVEPOINT df"),
        CONTROL("release", "RELEASE SAVEPOINT df"),
        CONTROL("savepoint", "SAVEPOINT df"),
        CONTROL("rows", "SAVEPOINT df_bulk"),
    };
#undef CONTROL
    return &queries[bit];
}

static bool send_held(struct batch *b)
{
    static const struct pg_params none;
    unsigned held = b->pg->held;

    b->pg->held = 0;
    for (unsigned bit = 0; bit < PG_HELD_COUNT; bit++) {
        if (!(held & 1U << bit))
            continue;
        struct pg_stmt *st = df_pg_stmt(b->pg, held_query(bit));
        if (!send_parse(b, st, &none))
            return false;
        b->head[b->head_count++].stmt = st;
        if (!send_execute(b, st, &none))
            return false;
    }
    b->control_count = b->head_count;
    return true;
}

/* Sets the parameters of the next statement and returns how many rows they are. */
static size_t set_params(struct batch *b, const struct df_value *params, size_t width, size_t left)
{
    size_t rows = b->bulk ? df_pg_piece(params, width, left) : 1;

    if (b->bulk)
        df_pg_params_arrays(&b->pg->params, b->bulk->elements, params, width, rows);
    else
        df_pg_params_set(&b->pg->params, params, width);
    return rows;
}

static bool send_rows(struct batch *b, const struct df_query *q, const struct df_value *params,
                      size_t row_count)
{
    struct pg_params *p = &b->pg->params;

    b->stmt = df_pg_stmt(b->pg, q);
    for (size_t row = 0; row < row_count;) {
        size_t at = row * q->param_count;
        size_t rows = set_params(b, params ? params + at : NULL, q->param_count, row_count - row);
        if ((row == 0 && !send_parse(b, b->stmt, p)) || !send_execute(b, b->stmt, p))
            return false;
        row += rows;
        b->unsent_bytes += p->bytes;
        if (b->unsent_bytes > UNSENT_MAX_BYTES && !pump_batch(b, false))
            return false;
        if (b->code != DF_OK)
            break; /* what would follow is skipped by the server anyway */
    }
    return true;
}

/* Behind a pooler the statement has no name. */
static bool send_describe(struct batch *b, const struct df_query *q, const struct df_value *params)
{
    struct pg_db *pg = b->pg;

    b->stmt = df_pg_stmt(pg, q);
    const char *name = pg->pooled ? "" : b->stmt->name;
    df_pg_params_set(&pg->params, params, q->param_count);
    if ((pg->pooled || !b->stmt->prepared) && !send_prepare(b, b->stmt, name, &pg->params))
        return false;
    if (!PQsendDescribePrepared(pg->conn, name))
        return lose_connection(b, PQerrorMessage(pg->conn));
    b->sent++;
    return true;
}

static void run_batch(struct batch *b, const struct df_query *q, const struct df_value *params,
                      size_t row_count)
{
    if (!send_held(b))
        return;
    if (q && !(b->describe ? send_describe(b, q, params) : send_rows(b, q, params, row_count)))
        return;
    if (!PQpipelineSync(b->pg->conn)) {
        (void)lose_connection(b, PQerrorMessage(b->pg->conn));
        return;
    }
    b->sync_sent = true;
    (void)pump_batch(b, true);
}

static enum df_code run_again_if_stale(const struct batch *what, const struct df_query *q,
                                       const struct df_value *params, size_t row_count)
{
    struct pg_db *pg = what->pg;
    bool again = !pg->base.in_transaction;

    for (;;) {
        struct batch b = *what;
        b.sink->failed_row = -1;
        run_batch(&b, q, params, row_count);
        if (!b.stale || !pg->base.alive)
            return b.code;
        if (!again)
            return df_err_set(b.err, DF_E_DB_CONFLICT, "%s: the schema changed meanwhile",
                              q ? q->name : "transaction");
        again = false;
    }
}

enum df_code df_pg_run(struct pg_db *pg, const struct df_query *q, const struct df_value *params,
                       size_t row_count, struct pg_sink *sink, struct df_err *err)
{
    struct batch b = {.pg = pg, .sink = sink, .err = err};
    return run_again_if_stale(&b, q, params, row_count);
}

enum df_code df_pg_run_bulk(struct pg_db *pg, const struct pg_bulk *bulk,
                            const struct df_value *params, size_t row_count, struct pg_sink *sink,
                            struct df_err *err)
{
    struct batch b = {.pg = pg, .sink = sink, .bulk = bulk, .err = err};
    return run_again_if_stale(&b, &bulk->query, params, row_count);
}

enum df_code df_pg_describe(struct pg_db *pg, const struct df_query *q,
                            const struct df_value *params, struct pg_sink *sink, struct df_err *err)
{
    struct batch b = {.pg = pg, .sink = sink, .describe = true, .err = err};
    return run_again_if_stale(&b, q, params, 1);
}

/*
 * Templates, one text for each dialect. In them
 *
 *     {id} … {trace_flags}   the column, quoted
 *     {table}            the table, quoted
 *     {pending} {processed} {failed}
 *                        the state as a literal, since an index over the rows in one state is used
 *                        only if the statement names that state
 *     {id_type} …        the column's type
 *     {text id} …        the column as text, or NULL if the table has none
 *     {select} {size} {created} {now} {due} {resting} {window} {key} {place} {stamp …} {none …}
 *                        pieces that depend on the table, see below
 *     :name              a parameter
 *     [column: …]        only if the table has the column
 */
#include "relay/sql.h"

#include "base/escape.h"
#include "base/mem.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#define TEXT_MAX    (64 << 10)
#define ERROR_UNITS 2000

static const char *const column_names[DF_RELAY_COLUMNS] = {
    [DF_RELAY_ID] = "id",
    [DF_RELAY_EVENT_TYPE] = "event_type",
    [DF_RELAY_PAYLOAD] = "payload",
    [DF_RELAY_STATUS] = "status",
    [DF_RELAY_ATTEMPTS] = "attempts",
    [DF_RELAY_CREATED_AT] = "created_at",
    [DF_RELAY_AGGREGATE_TYPE] = "aggregate_type",
    [DF_RELAY_AGGREGATE_ID] = "aggregate_id",
    [DF_RELAY_NEXT_ATTEMPT_AT] = "next_attempt_at",
    [DF_RELAY_PROCESSED_AT] = "processed_at",
    [DF_RELAY_LAST_ERROR] = "last_error",
    [DF_RELAY_CORRELATION_ID] = "correlation_id",
    [DF_RELAY_TRACE_ID] = "trace_id",
    [DF_RELAY_SPAN_ID] = "span_id",
    [DF_RELAY_TRACE_FLAGS] = "trace_flags",
};

/* --- the templates ---------------------------------------------------------------------------- */

static const char *const select_text[RELAY_CLAIM_COLUMNS] = {
    [RELAY_AT_ID] = "{text id}",
    [RELAY_AT_EVENT_TYPE] = "{text event_type}",
    [RELAY_AT_PAYLOAD] = "CASE WHEN {size} <= :inline THEN {text payload} END",
    [RELAY_AT_ATTEMPTS] = "t.{attempts}",
    [RELAY_AT_CREATED] = "{created}",
    [RELAY_AT_AGGREGATE_TYPE] = "{text aggregate_type}",
    [RELAY_AT_AGGREGATE_ID] = "{text aggregate_id}",
    [RELAY_AT_CORRELATION_ID] = "{text correlation_id}",
    [RELAY_AT_TRACE_ID] = "{text trace_id}",
    [RELAY_AT_SPAN_ID] = "{text span_id}",
    [RELAY_AT_TRACE_FLAGS] = "{text trace_flags}",
    [RELAY_AT_DUE] =
        "1[next_attempt_at: - CASE WHEN t.{next_attempt_at} > {now} THEN 1 ELSE 0 END]",
    [RELAY_AT_SIZE] = "{size}",
};

/*
 * PostgreSQL: the rows stay locked while they are sent; SKIP LOCKED skips rows that another relay
 * holds.
 *
 * SQL Server: the same with UPDLOCK and READPAST.
 *
 * SQLite has no row locks, and one relay works at a time (worker.c). So nothing is locked, and the
 * application can write while events are on their way.
 */
static const char *const claim_text[DF_DIALECT_COUNT] = {
    [DF_SQLITE] = "SELECT {select} FROM {table} AS t WHERE t.{status} = {pending}{due}{resting}"
                  " ORDER BY t.{created_at}, t.{id} LIMIT :limit",
    [DF_POSTGRES] = "SELECT {select} FROM {table} AS t WHERE t.{status} = {pending}{due}{resting}"
                    " ORDER BY t.{created_at}, t.{id} LIMIT :limit"
                    " FOR UPDATE OF t SKIP LOCKED",
    [DF_SQLSERVER] = "SELECT TOP (:limit) {select}"
                     " FROM {table} AS t WITH (UPDLOCK, READPAST, ROWLOCK)"
                     " WHERE t.{status} = {pending}{due}{resting}"
                     " ORDER BY t.{created_at}, t.{id}",
};

/*
 * PostgreSQL's index keeps entries of rows that are no longer pending until it is vacuumed, which
 * may be after millions of rows. Claims that began at its start would read over them again and
 * again.
 */
static const char *const beyond_text[DF_DIALECT_COUNT] = {
    [DF_POSTGRES] = "SELECT {select} FROM {table} AS t WHERE t.{status} = {pending}{due}{resting}"
                    " AND (t.{created_at}, t.{id}) > ((SELECT p.{created_at} FROM {table} AS p"
                    " WHERE p.{id} = CAST(:after AS {id_type}) LIMIT 1), CAST(:after AS {id_type}))"
                    " ORDER BY t.{created_at}, t.{id} LIMIT :limit FOR UPDATE OF t SKIP LOCKED",
};

/*
 * order=aggregate. The window is the oldest :window pending rows, whoever has them locked. The
 * first of its aggregate in the window is the first of all, since whatever is older is in the
 * window too. So one pass over the window finds the heads, with or without an index that helps.
 * Only then are they looked at closely (is it due?) and locked. A row that another transaction has
 * marked since the window was read is no longer pending when it is locked, and is not taken.
 *
 * SQL Server reads the window without hints: it must see rows that others have locked, and it does,
 * since U locks do not keep readers out. LOOP keeps it from locking rows that are not heads, and
 * the order by columns of the window lets TOP stop before the rest of the heads is locked.
 */
static const char key_text[] = "[aggregate_type:{aggregate_type} AS df_type, ]"
                               "{aggregate_id} AS df_aggregate, {id} AS df_id,"
                               " {created_at} AS df_created";
static const char place_text[] = "ROW_NUMBER() OVER (PARTITION BY [aggregate_type:w.df_type, ]"
                                 "w.df_aggregate ORDER BY w.df_created, w.df_id)";
static const char *const window_text[DF_DIALECT_COUNT] = {
    [DF_SQLITE] = "SELECT {key} FROM {table} WHERE {status} = {pending}"
                  " ORDER BY {created_at}, {id} LIMIT :window",
    [DF_POSTGRES] = "SELECT {key} FROM {table}"
                    " WHERE {status} = {pending} ORDER BY {created_at}, {id} LIMIT :window",
    [DF_SQLSERVER] = "SELECT TOP (:window) {key} FROM {table}"
                     " WHERE {status} = {pending} ORDER BY {created_at}, {id}",
};

/* PostgreSQL gets the heads sorted: then it looks only at as many rows as it locks, and not at the
 * payloads of all heads. */
#define PLACES                                                                                     \
    "(SELECT w.df_id, w.df_created, w.df_aggregate, {place} AS df_place FROM ({window}) AS w)"
#define IS_HEAD      "(h.df_place = 1 OR h.df_aggregate IS NULL)"
#define HEAD_IS_FREE "t.{status} = {pending}{due}{resting} ORDER BY h.df_created, h.df_id"

static const char *const heads_text[DF_DIALECT_COUNT] = {
    [DF_SQLITE] = "SELECT {select} FROM " PLACES " AS h CROSS JOIN {table} AS t ON t.{id} = h.df_id"
                  " WHERE " IS_HEAD " AND " HEAD_IS_FREE " LIMIT :limit",
    [DF_POSTGRES] = "SELECT {select} FROM (SELECT h.df_id, h.df_created FROM " PLACES " AS h"
                    " WHERE " IS_HEAD " ORDER BY h.df_created, h.df_id) AS h"
                    " JOIN {table} AS t ON t.{id} = h.df_id WHERE " HEAD_IS_FREE
                    " LIMIT :limit FOR UPDATE OF t SKIP LOCKED",
    [DF_SQLSERVER] = "SELECT TOP (:limit) {select} FROM " PLACES " AS h"
                     " INNER LOOP JOIN {table} AS t WITH (UPDLOCK, READPAST, ROWLOCK)"
                     " ON t.{id} = h.df_id WHERE " IS_HEAD " AND " HEAD_IS_FREE,
};

/*
 * The rows of the window behind the heads that were claimed. Waits for a lock: skipping a row would
 * change the order. It hardly ever waits, since the relay that holds the head holds the rest.
 */
#define FOLLOWERS                                                                                  \
    "(SELECT w.df_id, w.df_created, {place} AS df_place"                                           \
    " FROM ({window}) AS w JOIN "
#define FOLLOWER_IS_NEXT                                                                           \
    ") AS f JOIN {table} AS t ON t.{id} = f.df_id"                                                 \
    " WHERE f.df_place <= :each AND t.{status} = {pending} ORDER BY f.df_created, f.df_id"

static const char *const follow_text[DF_DIALECT_COUNT] = {
    [DF_SQLITE] = "SELECT {select} FROM " FOLLOWERS "json_each(:heads) AS h"
                  " ON w.df_aggregate = json_extract(h.value, '$[1]')"
                  "[aggregate_type: AND w.df_type IS json_extract(h.value, '$[0]')]"
                  " AND w.df_id <> json_extract(h.value, '$[2]')" FOLLOWER_IS_NEXT,
    [DF_POSTGRES] =
        "SELECT {select} FROM " FOLLOWERS "json_array_elements(CAST(:heads AS json)) AS h(v)"
        " ON w.df_aggregate = CAST(h.v->>1 AS {aggregate_id_type})"
        "[aggregate_type: AND w.df_type IS NOT DISTINCT FROM"
        " CAST(h.v->>0 AS {aggregate_type_type})]"
        " AND w.df_id <> CAST(h.v->>2 AS {id_type})" FOLLOWER_IS_NEXT " FOR UPDATE OF t",
};

static const char *const payloads_text[DF_DIALECT_COUNT] = {
    [DF_SQLITE] = "SELECT {text id}, {text payload} FROM {table} AS t"
                  " WHERE t.{id} IN (SELECT value FROM json_each(:ids))",
    [DF_POSTGRES] = "SELECT {text id}, {text payload} FROM {table} AS t"
                    " WHERE t.{id} = ANY(CAST(:ids AS {id_type}[]))",
    [DF_SQLSERVER] = "SELECT {text id}, {text payload} FROM {table} AS t"
                     " WHERE t.{id} IN (SELECT CAST(value AS {id_type})"
                     " FROM OPENJSON(CAST(:ids AS NVARCHAR(MAX))))",
};

/* Bytes of the payload. PostgreSQL knows the size of a text or json that is stored out of line
 * without fetching it; a jsonb must be converted to text. */
static const char *const size_text[DF_DIALECT_COUNT] = {
    [DF_SQLITE] = "LENGTH(CAST(t.{payload} AS BLOB))",
    [DF_POSTGRES] = "OCTET_LENGTH({text payload})",
    [DF_SQLSERVER] = "DATALENGTH({text payload})",
};

static const char *const processed_text[DF_DIALECT_COUNT] = {
    [DF_SQLITE] = "UPDATE {table} SET {status} = {processed}"
                  "[processed_at:, {processed_at} = {stamp processed_at}]"
                  "[next_attempt_at:, {next_attempt_at} = {none next_attempt_at}]"
                  "[last_error:, {last_error} = {none last_error}]"
                  " WHERE {id} IN (SELECT value FROM json_each(:ids)) AND {status} = {pending}",
    [DF_POSTGRES] = "UPDATE {table} SET {status} = {processed}"
                    "[processed_at:, {processed_at} = clock_timestamp()]"
                    "[next_attempt_at:, {next_attempt_at} = {none next_attempt_at}]"
                    "[last_error:, {last_error} = {none last_error}]"
                    " WHERE {id} = ANY(CAST(:ids AS {id_type}[])) AND {status} = {pending}",
    [DF_SQLSERVER] = "UPDATE {table} SET {status} = {processed}"
                     "[processed_at:, {processed_at} = SYSUTCDATETIME()]"
                     "[next_attempt_at:, {next_attempt_at} = {none next_attempt_at}]"
                     "[last_error:, {last_error} = {none last_error}]"
                     " WHERE {id} IN (SELECT CAST(value AS {id_type})"
                     " FROM OPENJSON(CAST(:ids AS NVARCHAR(MAX)))) AND {status} = {pending}",
};

static const char *const retry_text[DF_DIALECT_COUNT] = {
    [DF_SQLITE] = "UPDATE {table} SET {attempts} = :counted"
                  "[next_attempt_at:, {next_attempt_at} = {stamp next_attempt_at}]"
                  "[last_error:, {last_error} = :error]"
                  " WHERE {id} IN (SELECT value FROM json_each(:id)) AND {status} = {pending}",
    [DF_POSTGRES] =
        "UPDATE {table} SET {attempts} = :counted"
        "[next_attempt_at:, {next_attempt_at} ="
        " clock_timestamp() + CAST(:delay AS double precision) * INTERVAL '1 millisecond']"
        "[last_error:, {last_error} = :error]"
        " WHERE {id} = ANY(CAST(:id AS {id_type}[])) AND {status} = {pending}",
    [DF_SQLSERVER] = "UPDATE {table} SET {attempts} = :counted"
                     "[next_attempt_at:, {next_attempt_at} ="
                     " DATEADD(millisecond, CAST(:delay AS INT), SYSUTCDATETIME())]"
                     "[last_error:, {last_error} = :error]"
                     " WHERE {id} IN (SELECT CAST(value AS {id_type})"
                     " FROM OPENJSON(CAST(:id AS NVARCHAR(MAX)))) AND {status} = {pending}",
};

static const char *const dead_text[DF_DIALECT_COUNT] = {
    [DF_SQLITE] = "UPDATE {table} SET {attempts} = :counted, {status} = {failed}"
                  "[next_attempt_at:, {next_attempt_at} = {none next_attempt_at}]"
                  "[last_error:, {last_error} = :error]"
                  " WHERE {id} IN (SELECT value FROM json_each(:id)) AND {status} = {pending}",
    [DF_POSTGRES] = "UPDATE {table} SET {attempts} = :counted, {status} = {failed}"
                    "[next_attempt_at:, {next_attempt_at} = {none next_attempt_at}]"
                    "[last_error:, {last_error} = :error]"
                    " WHERE {id} = ANY(CAST(:id AS {id_type}[])) AND {status} = {pending}",
    [DF_SQLSERVER] = "UPDATE {table} SET {attempts} = :counted, {status} = {failed}"
                     "[next_attempt_at:, {next_attempt_at} = {none next_attempt_at}]"
                     "[last_error:, {last_error} = :error]"
                     " WHERE {id} IN (SELECT CAST(value AS {id_type})"
                     " FROM OPENJSON(CAST(:id AS NVARCHAR(MAX)))) AND {status} = {pending}",
};

static const char waiting_text[] =
    "SELECT COUNT(*), MIN({created}) FROM {table} AS t WHERE t.{status} = {pending}";
static const char failed_text[] = "SELECT COUNT(*) FROM {table} AS t WHERE t.{status} = {failed}";

/* created_at in milliseconds, whatever its type. */
static const char *const created_text[DF_DIALECT_COUNT] = {
    [DF_SQLITE] = "CASE WHEN typeof(t.{created_at}) = 'text'"
                  " THEN CAST(ROUND((julianday(t.{created_at}) - 2440587.5) * 86400000) AS INTEGER)"
                  " WHEN t.{created_at} < 100000000000 THEN CAST(t.{created_at} * 1000 AS INTEGER)"
                  " ELSE CAST(t.{created_at} AS INTEGER) END",
    /* An infinite time has no milliseconds. */
    [DF_POSTGRES] = "CASE WHEN isfinite(t.{created_at})"
                    " THEN CAST(EXTRACT(EPOCH FROM t.{created_at}) * 1000 AS BIGINT) END",
    [DF_SQLSERVER] = "DATEDIFF_BIG(millisecond, CAST('1970-01-01' AS DATETIME2),"
                     " CAST(t.{created_at} AS DATETIME2))",
};

static const char *const now_text[DF_DIALECT_COUNT] = {
    [DF_SQLITE] = "{stamp now}", [DF_POSTGRES] = "now()", [DF_SQLSERVER] = "SYSUTCDATETIME()"};

static const char *const resting_text[DF_DIALECT_COUNT] = {
    [DF_SQLITE] = " AND t.{id} NOT IN (SELECT value FROM json_each(:resting))",
    [DF_POSTGRES] = " AND t.{id} <> ALL(CAST(:resting AS {id_type}[]))",
    [DF_SQLSERVER] = (" AND t.{id} NOT IN (SELECT CAST(value AS {id_type})"
                      " FROM OPENJSON(CAST(:resting AS NVARCHAR(MAX))))"),
};

/* --- filling them in -------------------------------------------------------------------------- */

struct render {
    const struct df_relay_settings *s;
    const struct relay_table *t;
    struct relay_query *q;
    struct df_buf out;
};

static void render_template(struct render *r, struct df_str text);

static enum df_relay_column column_of(struct df_str name)
{
    for (size_t i = 0; i < DF_RELAY_COLUMNS; i++) {
        if (df_str_eq(name, df_str_c(column_names[i])))
            return (enum df_relay_column)i;
    }
    abort(); /* a mistake in a template */
}

void relay_quote_name(enum df_dialect d, struct df_str name, struct df_buf *out)
{
    char end = d == DF_SQLSERVER ? ']' : '"';

    df_buf_addc(out, d == DF_SQLSERVER ? '[' : '"');
    for (size_t i = 0; i < name.len; i++) {
        if (name.ptr[i] == end)
            df_buf_addc(out, end);
        df_buf_addc(out, name.ptr[i]);
    }
    df_buf_addc(out, end);
}

/* N'…' only if necessary: compared with a VARCHAR column it would prevent the use of the index. */
void relay_quote_text(enum df_dialect d, struct df_str text, struct df_buf *out)
{
    bool plain = true;

    for (size_t i = 0; i < text.len; i++)
        plain = plain && (unsigned char)text.ptr[i] < 0x80;
    df_buf_addz(out, d == DF_SQLSERVER && !plain ? "N'" : "'");
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] == '\'')
            df_buf_addc(out, '\'');
        df_buf_addc(out, text.ptr[i]);
    }
    df_buf_addc(out, '\'');
}

static void add_column(struct render *r, enum df_relay_column c)
{
    relay_quote_name(r->t->dialect, df_str_c(r->t->columns[c].name), &r->out);
}

/* An optional column as text, or NULL. */
static void add_text(struct render *r, enum df_relay_column c)
{
    const struct relay_column *column = &r->t->columns[c];

    if (!column->name) {
        df_buf_addz(&r->out, r->t->dialect == DF_SQLSERVER ? "CAST(NULL AS NVARCHAR(1))" : "NULL");
        return;
    }
    /* UUIDs are written in lower case everywhere else. */
    bool lower = r->t->dialect == DF_SQLSERVER && strcmp(column->type, "uniqueidentifier") == 0;
    df_buf_addz(&r->out, lower ? "LOWER(CAST(t." : "CAST(t.");
    add_column(r, c);
    df_buf_addz(&r->out, r->t->dialect == DF_SQLSERVER ? " AS NVARCHAR(MAX))" : " AS TEXT)");
    if (lower)
        df_buf_addc(&r->out, ')');
}

static void add_select(struct render *r)
{
    for (size_t i = 0; i < RELAY_CLAIM_COLUMNS; i++) {
        df_buf_addz(&r->out, i > 0 ? ", " : "");
        render_template(r, df_str_c(select_text[i]));
    }
}

/*
 * SQLite stores times as the application does: as whole milliseconds if the column is declared a
 * number, else as ISO 8601. `what` is now, processed_at or next_attempt_at, which lies :delay
 * ahead.
 */
static void add_stamp(struct render *r, struct df_str what)
{
    bool ahead = df_str_eq(what, DF_STR("next_attempt_at"));
    bool now = df_str_eq(what, DF_STR("now"));
    const struct relay_column *c = &r->t->columns[now ? DF_RELAY_NEXT_ATTEMPT_AT : column_of(what)];
    bool number = c->type && strcasestr(c->type, "INT");

    if (number)
        render_template(
            r, ahead ? DF_STR("CAST((julianday('now') - 2440587.5) * 86400000 + :delay"
                              " AS INTEGER)")
                     : DF_STR("CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"));
    else
        render_template(r, ahead ? DF_STR("strftime('%Y-%m-%dT%H:%M:%fZ', 'now',"
                                          " (:delay / 1000.0) || ' seconds')")
                                 : DF_STR("strftime('%Y-%m-%dT%H:%M:%fZ', 'now')"));
}

/* The empty value of next_attempt_at or last_error: NULL, if the column allows it. Else a time
 * stays as it is, since nothing reads it any more. */
static void add_none(struct render *r, struct df_str what)
{
    enum df_relay_column c = column_of(what);

    if (r->t->columns[c].nullable)
        df_buf_addz(&r->out, "NULL");
    else if (c == DF_RELAY_LAST_ERROR)
        df_buf_addz(&r->out, "''");
    else
        add_column(r, c);
}

static void add_state(struct render *r, const char *state)
{
    relay_quote_text(r->t->dialect, df_str_c(state), &r->out);
}

/* {…} */
static void add_piece(struct render *r, struct df_str name)
{
    enum df_dialect d = r->t->dialect;
    bool due = r->t->columns[DF_RELAY_NEXT_ATTEMPT_AT].name != NULL;

    if (df_str_eq(name, DF_STR("table"))) {
        df_buf_addz(&r->out, r->t->name);
    } else if (df_str_eq(name, DF_STR("pending"))) {
        add_state(r, r->s->state_pending);
    } else if (df_str_eq(name, DF_STR("processed"))) {
        add_state(r, r->s->state_processed);
    } else if (df_str_eq(name, DF_STR("failed"))) {
        add_state(r, r->s->state_failed);
    } else if (df_str_eq(name, DF_STR("select"))) {
        add_select(r);
    } else if (df_str_eq(name, DF_STR("size"))) {
        render_template(r, df_str_c(size_text[d]));
    } else if (df_str_eq(name, DF_STR("created"))) {
        render_template(r, df_str_c(created_text[d]));
    } else if (df_str_eq(name, DF_STR("now"))) {
        render_template(r, df_str_c(now_text[d]));
    } else if (df_str_eq(name, DF_STR("due"))) {
        if (due)
            render_template(
                r, DF_STR(" AND (t.{next_attempt_at} IS NULL OR t.{next_attempt_at} <= {now})"));
    } else if (df_str_eq(name, DF_STR("resting"))) {
        render_template(r, df_str_c(resting_text[d]));
    } else if (df_str_eq(name, DF_STR("window"))) {
        render_template(r, df_str_c(window_text[d]));
    } else if (df_str_eq(name, DF_STR("key"))) {
        render_template(r, df_str_c(key_text));
    } else if (df_str_eq(name, DF_STR("place"))) {
        render_template(r, df_str_c(place_text));
    } else if (df_str_starts(name, DF_STR("text "))) {
        add_text(r, column_of(df_str_n(name.ptr + 5, name.len - 5)));
    } else if (df_str_starts(name, DF_STR("stamp "))) {
        add_stamp(r, df_str_n(name.ptr + 6, name.len - 6));
    } else if (df_str_starts(name, DF_STR("none "))) {
        add_none(r, df_str_n(name.ptr + 5, name.len - 5));
    } else if (df_str_ends(name, DF_STR("_type")) && !df_str_eq(name, DF_STR("event_type")) &&
               !df_str_eq(name, DF_STR("aggregate_type"))) {
        df_buf_addz(&r->out, r->t->columns[column_of(df_str_n(name.ptr, name.len - 5))].type);
    } else {
        add_column(r, column_of(name));
    }
}

/* :name */
static void add_param(struct render *r, struct df_str name)
{
    struct df_query *q = &r->q->q;
    size_t n = 0;

    while (n < q->param_count && !df_str_eq(name, df_str_c(r->q->params[n])))
        n++;
    assert(n < sizeof r->q->params / sizeof r->q->params[0]);
    if (n == q->param_count) {
        static const char *const known[] = {"limit", "resting", "heads",  "each",
                                            "ids",   "id",      "delay",  "error",
                                            "after", "inline",  "window", "counted"};
        for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
            if (df_str_eq(name, df_str_c(known[i])))
                r->q->params[q->param_count++] = known[i];
        }
    }
    switch (r->t->dialect) {
    case DF_SQLITE:
        df_buf_addf(&r->out, "?%zu", n + 1);
        break;
    case DF_POSTGRES:
        df_buf_addf(&r->out, "$%zu", n + 1);
        break;
    case DF_SQLSERVER:
        assert(q->text[DF_SQLSERVER].marker_count < sizeof r->q->markers);
        r->q->markers[q->text[DF_SQLSERVER].marker_count++] = (unsigned char)n;
        df_buf_addc(&r->out, '?');
        break;
    case DF_DIALECT_COUNT:
        abort();
    }
}

/* [column: …], up to its closing bracket; returns the text behind it. */
static struct df_str add_optional(struct render *r, struct df_str text)
{
    struct df_str name;
    struct df_str rest = df_str_cut(text, ':', &name);
    size_t end = 0;

    for (int depth = 1;; end++) {
        if (end == rest.len)
            abort();
        depth += rest.ptr[end] == '[' ? 1 : rest.ptr[end] == ']' ? -1 : 0;
        if (depth == 0)
            break;
    }
    if (r->t->columns[column_of(name)].name)
        render_template(r, df_str_n(rest.ptr, end));
    return df_str_n(rest.ptr + end + 1, rest.len - end - 1);
}

static void render_template(struct render *r, struct df_str text)
{
    while (text.len > 0) {
        char c = text.ptr[0];
        struct df_str rest = df_str_n(text.ptr + 1, text.len - 1);
        size_t n = 0;

        if (c == '{') {
            struct df_str name;
            text = df_str_cut(rest, '}', &name);
            add_piece(r, name);
        } else if (c == ':' && rest.len > 0 && islower((unsigned char)rest.ptr[0])) {
            while (n < rest.len && islower((unsigned char)rest.ptr[n]))
                n++;
            add_param(r, df_str_n(rest.ptr, n));
            text = df_str_n(rest.ptr + n, rest.len - n);
        } else if (c == '[' && rest.len > 0 && islower((unsigned char)rest.ptr[0])) {
            text = add_optional(r, rest);
        } else {
            df_buf_addc(&r->out, c);
            text = rest;
        }
    }
}

static void make_query(const struct df_relay_settings *s, const struct relay_table *t,
                       const char *name, const char *text, struct relay_query *ret)
{
    struct render r = {.s = s, .t = t, .q = ret};

    *ret = (struct relay_query){0};
    df_buf_init(&r.out, TEXT_MAX);
    render_template(&r, df_str_c(text));
    if (df_buf_failed(&r.out))
        abort(); /* cannot happen: names have at most 128 bytes */
    size_t len;
    ret->text = df_buf_take(&r.out, &len);
    ret->q.name = name;
    ret->q.params = ret->params;
    ret->q.text[t->dialect].sql = ret->text;
    ret->q.text[t->dialect].markers = ret->markers;
}

void relay_sql_make(const struct df_relay_settings *s, const struct relay_table *t,
                    struct relay_sql *ret)
{
    enum df_dialect d = t->dialect;
    int64_t width = t->columns[DF_RELAY_LAST_ERROR].width;
    bool ordered = s->order == DF_RELAY_ORDER_AGGREGATE;

    *ret = (struct relay_sql){
        .has_beyond = s->order == DF_RELAY_ORDER_NONE && beyond_text[d],
        .has_window = ordered,
        .has_follow = ordered && follow_text[d],
        .has_due = t->columns[DF_RELAY_NEXT_ATTEMPT_AT].name,
        .error_units = width > 0 && width < ERROR_UNITS ? (size_t)width : ERROR_UNITS,
    };
    make_query(s, t, "relay_claim", ordered ? heads_text[d] : claim_text[d], &ret->claim);
    if (ret->has_beyond)
        make_query(s, t, "relay_beyond", beyond_text[d], &ret->beyond);
    if (ret->has_follow)
        make_query(s, t, "relay_follow", follow_text[d], &ret->follow);
    make_query(s, t, "relay_payloads", payloads_text[d], &ret->payloads);
    make_query(s, t, "relay_processed", processed_text[d], &ret->processed);
    make_query(s, t, "relay_retry", retry_text[d], &ret->retry);
    make_query(s, t, "relay_dead", dead_text[d], &ret->dead);
    make_query(s, t, "relay_waiting", waiting_text, &ret->waiting);
    make_query(s, t, "relay_failed", failed_text, &ret->failed);
}

void relay_sql_release(struct relay_sql *q)
{
    free(q->claim.text);
    free(q->beyond.text);
    free(q->follow.text);
    free(q->payloads.text);
    free(q->processed.text);
    free(q->retry.text);
    free(q->dead.text);
    free(q->waiting.text);
    free(q->failed.text);
    *q = (struct relay_sql){0};
}

void relay_table_release(struct relay_table *t)
{
    free(t->name);
    for (size_t i = 0; i < DF_RELAY_COLUMNS; i++) {
        free(t->columns[i].name);
        free(t->columns[i].type);
    }
    *t = (struct relay_table){0};
}

/* --- lists ------------------------------------------------------------------------------------ */

/* PostgreSQL reads an array, the others JSON. */
void relay_list_open(enum df_dialect d, struct df_buf *out)
{
    df_buf_addc(out, d == DF_POSTGRES ? '{' : '[');
}

void relay_list_add(enum df_dialect d, struct df_str id, struct df_buf *out)
{
    if (out->len > 1)
        df_buf_addc(out, ',');
    df_buf_addc(out, '"');
    if (d != DF_POSTGRES)
        df_buf_add_escaped(out, id);
    for (size_t i = 0; d == DF_POSTGRES && i < id.len; i++) {
        if (id.ptr[i] == '"' || id.ptr[i] == '\\')
            df_buf_addc(out, '\\');
        df_buf_addc(out, id.ptr[i]);
    }
    df_buf_addc(out, '"');
}

void relay_list_close(enum df_dialect d, struct df_buf *out)
{
    df_buf_addc(out, d == DF_POSTGRES ? '}' : ']');
}

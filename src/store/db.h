/*
 * One connection to a database of any kind. Drivers (sqlite.c, postgres.c, odbc.c) implement struct
 * df_db_ops; no other code knows which of them it talks to. A connection belongs to one thread at a
 * time and has at most one open result.
 *
 * SQL is never written in C: queries are blocks of .sql files, embedded at build time as struct
 * df_query with a text for each dialect (tools/embed_sql.py). The same tool makes a struct of a
 * query's parameters and constants for its columns, so that C uses both by name:
 *
 *     df_db_exec(db, DF_Q(client_rename, .id = df_uuid(id), .name = df_text(name)), NULL, err)
 *     df_db_each(db, DF_Q(client_list, .limit = df_int(50)), read_client, &list, err)
 *     df_col_text(r, client_list_Name)
 *
 * What differs between databases and stays behind this interface:
 *
 * - UUID: TEXT, uuid, UNIQUEIDENTIFIER; here 36 lower-case characters
 * - TIME: ISO 8601 text with milliseconds and Z, timestamptz, DATETIME2; here milliseconds since
 *   1970 UTC
 * - BOOL: 0 and 1, boolean, BIT
 * - BLOB: BLOB, bytea, VARBINARY
 *
 * NULL is kept apart from the empty string everywhere. So that all databases behave alike, a value
 * that one of them could not keep is refused for all: text that is not UTF-8 or has a NUL
 * (DF_E_INVALID_TEXT), a malformed UUID (the same), a time before the year 1 or past 9999, a number
 * that is not finite, more than DF_VALUE_MAX bytes. As in PostgreSQL, a transaction in which a
 * statement failed refuses further statements until it is rolled back, at least to its savepoint.
 */
#ifndef DF_STORE_DB_H
#define DF_STORE_DB_H

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/str.h"

enum df_dialect { DF_SQLITE, DF_POSTGRES, DF_SQLSERVER, DF_DIALECT_COUNT };

/* Lives for ever: connections remember what they prepared by its address. */
struct df_query {
    const char *name;
    const char *const *params;
    size_t param_count;
    size_t column_count; /* 0: the query returns no rows, or its columns are not known */
    bool is_packed;      /* its texts are among the compressed ones of the program */
    struct {
        const char *sql; /* NULL: no text for this dialect, or packed */
        /* SQL Server's markers are bare '?': the parameter that each of them takes. */
        const unsigned char *markers;
        size_t marker_count;
    } text[DF_DIALECT_COUNT];
    /* PostgreSQL's text for many rows at once, with an array for each parameter; NULL: there is
     * none. */
    const char *many;
};

/* The text for a dialect, and PostgreSQL's for many rows; NULL: there is none. The program's own
 * texts are unpacked when the first one of their dialect is asked for. Any thread. */
const char *df_query_sql(const struct df_query *q, enum df_dialect dialect);
const char *df_query_many(const struct df_query *q);

/* 0 is no type: a parameter that was left out is found by it. */
enum df_type { DF_INT = 1, DF_TEXT, DF_BLOB, DF_BOOL, DF_TIME, DF_UUID };

#define DF_VALUE_MAX (UINT32_C(256) << 20)

struct df_value {
    enum df_type type;
    bool null; /* a NULL has a type too: some drivers need it */
    union {
        int64_t i;       /* INT, BOOL, TIME */
        struct df_str s; /* TEXT, BLOB, UUID; borrowed for the call */
    };
};

static inline struct df_value df_int(int64_t v)
{
    return (struct df_value){.type = DF_INT, .i = v};
}
static inline struct df_value df_bool(bool v)
{
    return (struct df_value){.type = DF_BOOL, .i = v};
}
static inline struct df_value df_time(int64_t wall_ms)
{
    return (struct df_value){.type = DF_TIME, .i = wall_ms};
}
/* The absent slice is NULL. */
static inline struct df_value df_text(struct df_str s)
{
    return (struct df_value){.type = DF_TEXT, .null = !s.ptr, .s = s};
}
static inline struct df_value df_blob(struct df_str s)
{
    return (struct df_value){.type = DF_BLOB, .null = !s.ptr, .s = s};
}
static inline struct df_value df_uuid(struct df_str s)
{
    return (struct df_value){.type = DF_UUID, .null = !s.ptr, .s = s};
}
static inline struct df_value df_null(enum df_type type)
{
    return (struct df_value){.type = type, .null = true};
}

struct df_db;
struct df_result;

struct df_db_options {
    const char *url;
    int64_t connect_timeout_ms;   /* 0: 5000 */
    int64_t statement_timeout_ms; /* 0: 30000. SQLite: how long to wait for a lock */
    int64_t idle_transaction_ms;  /* PostgreSQL ends a transaction idle for longer. 0: 60000 */
    bool read_only;               /* writes are refused */
    bool existing;                /* SQLite: the file must exist already */
    bool foreign;     /* another application's tables: the database chooses how to read them */
    const char *name; /* of the application, as PostgreSQL shows it. NULL: "dataflow" */
};

/* The kind of database that a URL names; DF_E_CONFIG when it names none. Needs no connection. */
enum df_code df_db_dialect_of(const char *url, enum df_dialect *ret,
                              struct df_err *err) DF_MUST_CHECK;
/* Checks the URL as far as is possible without a connection. */
enum df_code df_db_check_url(const char *url, struct df_err *err) DF_MUST_CHECK;
/* Warns in `out` when the connection to the server is not secured, and says what to write instead:
 * a sentence whose subject the caller adds, never with the URL in it. Writes nothing when the
 * connection is secured or does not leave the machine. `strict`: only a server whose name was
 * verified too is secured. */
void df_db_url_risk(const char *url, bool strict, struct df_buf *out);
/* The file of authorities ([security] ca_file) that PostgreSQL's certificates are verified with, if
 * the URL names no sslrootcert. Call it before the first connection; NULL: none. Borrowed. */
void df_db_trust(const char *ca_file);
const char *df_dialect_name(enum df_dialect d); /* "sqlite", "postgres", "sqlserver" */

enum df_code df_db_open(const struct df_db_options *opt, struct df_db **ret,
                        struct df_err *err) DF_MUST_CHECK;
void df_db_close(struct df_db *db);
enum df_dialect df_db_dialect(const struct df_db *db);

/*
 * The URL as it may be shown: without user, password and query, which may hold secrets. Writes at
 * most size bytes, with the NUL.
 */
void df_db_url_masked(const char *url, char *out, size_t size);

#define DF_DB_SERVER_MAX 128

/* The server behind the connection, as "host:port"; empty for SQLite. */
const char *df_db_server(const struct df_db *db);
/* Stands for the history that the server's commits continue. It changes when another server takes
 * over, which may lack the last commits of the one before. 0: not known. */
uint64_t df_db_history(const struct df_db *db);

/* A round trip. */
enum df_code df_db_ping(struct df_db *db, struct df_err *err) DF_MUST_CHECK;
/* False once the connection is known to be lost: close it and open another. */
bool df_db_alive(const struct df_db *db);

/*
 * q, params and param_count are DF_Q, DF_Q0 or DF_ANY, below. The statement has run when this
 * returns (outside a transaction it is committed): a violated constraint is reported here, whether
 * or not the rows are read. The result's text is borrowed until the next step or free. Always free
 * the result, even after an error of step, and before the transaction ends. A server's rows arrive
 * whole: page through what may be long.
 */
enum df_code df_db_query(struct df_db *db, const struct df_query *q, const struct df_value *params,
                         size_t param_count, struct df_result **ret,
                         struct df_err *err) DF_MUST_CHECK;
/* DF_ROW, DF_DONE, or an error. */
enum df_code df_result_step(struct df_result *r, struct df_err *err) DF_MUST_CHECK;
void df_result_free(struct df_result *r);

size_t df_result_columns(const struct df_result *r);
bool df_col_null(const struct df_result *r, size_t col);
int64_t df_col_int(const struct df_result *r, size_t col); /* 0 for NULL */
bool df_col_bool(const struct df_result *r, size_t col);
int64_t df_col_time(const struct df_result *r, size_t col);       /* milliseconds; -1 for NULL */
struct df_str df_col_text(const struct df_result *r, size_t col); /* absent for NULL; UUIDs too */
/* A time as the database orders it: with all digits, and on SQLite in whatever form it was written.
 * For a place in a list, to be given back as text. */
struct df_str df_col_exact_time(const struct df_result *r, size_t col);
struct df_str df_col_blob(struct df_result *r, size_t col);

/*
 * For statements without rows, or whose rows do not matter. ret_affected (may be NULL): rows
 * inserted, updated or deleted.
 */
enum df_code df_db_exec(struct df_db *db, const struct df_query *q, const struct df_value *params,
                        size_t param_count, int64_t *ret_affected,
                        struct df_err *err) DF_MUST_CHECK;

/*
 * Runs the query and calls `row` for each row; r stands on it, and its text is borrowed until `row`
 * returns. `row` reports a row that it cannot use through arg, and runs no query on this
 * connection.
 */
enum df_code df_db_each(struct df_db *db, const struct df_query *q, const struct df_value *params,
                        size_t param_count, void (*row)(void *arg, struct df_result *r), void *arg,
                        struct df_err *err) DF_MUST_CHECK;
/* The same for a query that returns at most one row; ret_found tells whether there was one. When
 * ret_found is NULL, a missing row is DF_E_NOT_FOUND. `row` may be NULL when only the existence of
 * the row matters. */
enum df_code df_db_one(struct df_db *db, const struct df_query *q, const struct df_value *params,
                       size_t param_count, void (*row)(void *arg, struct df_result *r), void *arg,
                       bool *ret_found, struct df_err *err) DF_MUST_CHECK;

/* The first column of the first row as an integer: counts. DF_E_NOT_FOUND without a row. */
enum df_code df_db_query_int(struct df_db *db, const struct df_query *q,
                             const struct df_value *params, size_t param_count, int64_t *ret,
                             struct df_err *err) DF_MUST_CHECK;

/*
 * The same statement for many rows of parameters, `params` holding row after row, in as few round
 * trips as the database allows. Runs inside the caller's transaction (one is needed). For each row
 * of parameters `on_row` (may be NULL) is called with each row it returned, in order. ret_affected
 * (may be NULL) is an array of row_count. After an error the caller must roll the transaction back,
 * at least to a savepoint; *ret_failed_row (may be NULL) is the row that failed, or -1 when it is
 * not known.
 *
 * A query with a text for many rows (`many`) is one statement on PostgreSQL: its rows come in any
 * order, and two rows of parameters may not concern the same row of the table. Who asks for
 * ret_affected when not all rows of parameters change one pays for it, unless the text returns Nth:
 * the statement is undone and made row by row.
 */
enum df_code df_db_exec_many(struct df_db *db, const struct df_query *q,
                             const struct df_value *params, size_t param_count, size_t row_count,
                             void (*on_row)(void *arg, size_t row, struct df_result *r), void *arg,
                             int64_t *ret_affected, int64_t *ret_failed_row,
                             struct df_err *err) DF_MUST_CHECK;

/* The id of the row that the connection's last statement, a plain INSERT, has made. Only on SQLite,
 * where RETURNING costs a table for each statement; 0 on servers. */
int64_t df_db_last_id(struct df_db *db);

/*
 * Space that removed rows leave, outside a transaction. Servers use it again by themselves; an
 * SQLite file gets shorter only so. DF_SPACE_STEP gives a little back, *ret_left is what there is
 * still to give; DF_SPACE_LOG empties the write-ahead log, *ret_left is not 0 if somebody still
 * reads it; DF_SPACE_ALL writes the whole file anew, while nobody else may write. *ret_left is 0 on
 * servers, and for a file of before auto_vacuum, which needs DF_SPACE_ALL once.
 */
enum df_space { DF_SPACE_STEP, DF_SPACE_LOG, DF_SPACE_ALL };
enum df_code df_db_give_back(struct df_db *db, enum df_space what, int64_t *ret_left,
                             struct df_err *err) DF_MUST_CHECK;

/*
 * Transactions. `write` takes SQLite's write lock at once (BEGIN IMMEDIATE). After commit the
 * transaction is over, even when commit failed. BEGIN may be held back like SAVEPOINT below.
 */
enum df_code df_db_begin(struct df_db *db, bool write, struct df_err *err) DF_MUST_CHECK;
enum df_code df_db_commit(struct df_db *db, struct df_err *err) DF_MUST_CHECK;
void df_db_rollback(struct df_db *db);
bool df_db_in_transaction(const struct df_db *db);
/* Frees a result and rolls back a transaction that were left open, before a pooled connection is
 * used again. */
void df_db_reset(struct df_db *db);

/*
 * One level of savepoint inside a transaction; release and rollback_to both end it. Drivers may
 * hold SAVEPOINT, RELEASE and ROLLBACK TO back and send them together with the next statement,
 * without a round trip of their own.
 */
enum df_code df_db_savepoint(struct df_db *db, struct df_err *err) DF_MUST_CHECK;
enum df_code df_db_release(struct df_db *db, struct df_err *err) DF_MUST_CHECK;
enum df_code df_db_rollback_to(struct df_db *db, struct df_err *err) DF_MUST_CHECK;

/* Schema scripts: several statements as they stand in a file. */
enum df_code df_db_script(struct df_db *db, const char *sql, struct df_err *err) DF_MUST_CHECK;
/* Held by one process at a time; released by unlock or when the connection ends. Not inside a
 * transaction. */
enum df_code df_db_schema_lock(struct df_db *db, struct df_err *err) DF_MUST_CHECK;
void df_db_schema_unlock(struct df_db *db);

/*
 * A query with its parameters, all of them and each by its name: q, params and param_count of the
 * functions above. A parameter that is left out makes the query fail with DF_E_USAGE.
 */
#define DF_Q(query, ...) &df_q_##query, DF_ROW(query, __VA_ARGS__), DF_WIDTH(query)
#define DF_Q0(query)     DF_NO_VALUES(&df_q_##query)
#define DF_NO_VALUES(q)  (q), NULL, 0 /* for a query without parameters */
/* A struct of parameters, or an array of them, as the values that functions and jobs take. */
#define DF_VALUES(params) ((const struct df_value *)(params))
/* The parameters alone, of one row. */
#define DF_ROW(query, ...) ((const struct df_value *)&(const struct df_p_##query){__VA_ARGS__})
#define DF_WIDTH(query)    (sizeof(struct df_p_##query) / sizeof(struct df_value))
/* Many rows: q, params and param_count of df_db_exec_many, from an array of struct df_p_query. */
#define DF_MANY(query, rows)                                                                       \
    &df_q_##query, (const struct df_value *)(const struct df_p_##query *){(rows)}, DF_WIDTH(query)

/*
 * The same for a query that is chosen at run time: values with the names of their parameters, in
 * any order. Values that the query does not use are ignored; a missing one aborts the program.
 *
 *     df_db_query_int(db, DF_ANY(own ? &df_q_own_count : &df_q_count, {"client", id}), &n, err)
 */
struct df_binding {
    const char *name;
    struct df_value value;
};
#define DF_ANY_MAX 24
#define DF_ANY(q, ...)                                                                             \
    (q),                                                                                           \
        df_query_bind((q), (const struct df_binding[]){__VA_ARGS__},                               \
                      sizeof((const struct df_binding[]){__VA_ARGS__}) /                           \
                          sizeof(struct df_binding),                                               \
                      (struct df_value[DF_ANY_MAX]){{0}}),                                         \
        (q)->param_count
/* Writes the parameters of q to `out`, which has room for
 * q->param_count of them, and returns it. */
const struct df_value *df_query_bind(const struct df_query *q, const struct df_binding *values,
                                     size_t count, struct df_value *out);

#endif

/*
 * What the parts of the ODBC driver share: odbc.c (connection, transactions, schema), odbc_url.c
 * (the connection string), odbc_stmt.c (cached statements and their parameters), odbc_run.c (round
 * trips and what comes back), odbc_result.c (columns), odbc_error.c (diagnostics). No other code
 * knows of ODBC.
 */
#ifndef DF_STORE_ODBC_PRIVATE_H
#define DF_STORE_ODBC_PRIVATE_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/list.h"
#include "store/driver.h"

#include <sql.h>
#include <sqlext.h>

/* The column of the SELECT after each row's statement, which marks the end of the row's results. */
#define ODBC_ROW_END "df_row_end"

/*
 * The statements sent to the server besides the queries. The product has one flavour, for SQL
 * Server; tests of the mechanics bring another, for a server that CI can run. A text may hold
 * several statements.
 */
struct odbc_flavour {
    /* Once, after connecting; answers with one row: whether reading transactions can have a
     * snapshot. %lld: milliseconds to wait for a lock. */
    const char *settings;
    /* Answers with one row: whether the database takes no writes, and a number that stands for the
     * server. An error is no harm. NULL: nothing is known. */
    const char *standing;
    const char *begin;
    const char *begin_read;          /* with a snapshot */
    const char *begin_read_blocking; /* without: others must wait to write what was read */
    const char *end_read;
    const char *commit;
    const char *rollback;       /* also when there is nothing to roll back any more */
    const char *in_transaction; /* answers with one row: 0 when the server has rolled it back */
    const char *bulk;           /* answers with one row: an enum odbc_bulk; NULL: none */
    const char *row_end; /* answers with one row: how many the statement before it wrote, or -1 */
    const char *savepoint;
    const char *release; /* NULL: none is needed */
    const char *rollback_to;
    const char *lock; /* the schema lock; answers with one row: 1 when it is ours. %lld:
                         milliseconds to wait */
    const char *unlock;
    enum df_code (*code_of)(const char *state, int native, const char *message);
};

/* Transaction statements that are held back until the next statement. */
enum odbc_held {
    ODBC_HELD_BEGIN = 1 << 0,
    ODBC_HELD_BEGIN_READ = 1 << 1,
    ODBC_HELD_SAVEPOINT = 1 << 2,
};

/* How well the server reads rows as JSON. */
enum odbc_bulk {
    ODBC_BULK_NONE, /* nothing */
    ODBC_BULK_RAW,  /* leaves the escapes in strings as they are */
    ODBC_BULK_FULL,
};

struct odbc_param {
    enum df_type type;
    bool bound;
    bool is_long;     /* bound without a limit; stays so */
    bool tildes;      /* a column of JSON: has characters written as tilde codes */
    SQLLEN length;    /* in bytes, or SQL_NULL_DATA */
    const void *data; /* where the driver was told to look */
    union {
        SQLBIGINT i;
        unsigned char b;
        SQL_TIMESTAMP_STRUCT t;
        SQLGUID u;
    } v;
};

struct odbc_stmt {
    const struct df_query *query;
    size_t rows;    /* how often the text holds the query; 0: one INSERT of many rows */
    bool ends;      /* row_end follows each; always so when there are several */
    bool savepoint; /* with the savepoint in front */
    bool prepared;  /* has run once, so the server knows it */
    SQLHSTMT handle;
    SQLHDESC apd;
    struct odbc_param *params;
    size_t param_count;
    struct odbc_param *shape; /* of an INSERT of many: its columns */
    struct df_link link;      /* in the cache */
};

enum odbc_kind { ODBC_INT, ODBC_REAL, ODBC_NUMBER, ODBC_TIME, ODBC_UUID, ODBC_BLOB, ODBC_TEXT };

struct odbc_cell {
    bool null;
    unsigned ticks; /* of a time: its tenths of a microsecond behind the millisecond */
    union {
        int64_t i;
        double d;
        struct df_str s; /* UUIDs, numbers, text, blobs; NUL-terminated past its length */
    };
};

struct odbc_result {
    struct df_result base;
    enum odbc_kind *kinds;
    size_t columns;
    struct odbc_cell **rows;
    size_t count;
    size_t cap;
    size_t row;            /* from 1; 0: before the first */
    struct df_arena cells; /* rows and kinds */
    struct df_arena text;  /* converted columns, until the next row */
};

struct odbc_db {
    struct df_db base;
    const struct odbc_flavour *flavour;
    SQLHENV env;
    SQLHDBC dbc;
    SQLHSTMT direct;      /* for texts without parameters */
    struct df_list stmts; /* prepared; the one used last first */
    unsigned held;
    bool reading;  /* the transaction only reads */
    bool snapshot; /* the database allows snapshots */
    bool read_only;
    enum odbc_bulk bulk;
    int64_t timeout_ms; /* of a statement */
    bool schema_locked; /* no timeout meanwhile */
    struct odbc_result result;
    struct df_buf units; /* UTF-16 of the parameters of one run, and of texts */
    struct df_buf data;  /* a column as it comes */
    struct df_buf json;  /* rows on their way */
};

static inline struct odbc_db *odbc_of(struct df_db *db)
{
    return (struct odbc_db *)db;
}

/* --- odbc.c ----------------------------------------------------------------------------------- */

enum df_code df_odbc_open_string(const char *connection_string, const struct odbc_flavour *flavour,
                                 const struct df_db_options *opt, struct df_db **ret,
                                 struct df_err *err) DF_MUST_CHECK;

/* --- odbc_url.c ------------------------------------------------------------------------------- */

/* As df_db_url_risk. */
void df_odbc_url_risk(const char *url, bool strict, struct df_buf *out);
enum odbc_server { ODBC_FIRST, ODBC_PARTNER, ODBC_SERVERS };

/* The driver manager's connection string for a server of database.url; `out` then holds a password,
 * and `server` the name for people. DF_E_NOT_FOUND: the URL names no partner. */
enum df_code df_odbc_connection_string(const char *url, enum odbc_server which, struct df_buf *out,
                                       char server[DF_DB_SERVER_MAX],
                                       struct df_err *err) DF_MUST_CHECK;

/* --- odbc_error.c ----------------------------------------------------------------------------- */

struct odbc_trouble {
    int line;       /* of the text, where the server names one; else 0 */
    bool forgotten; /* the server has forgotten the prepared statement */
};

/* Translates the error that the driver reports for a handle; `what` names the failed operation. ret
 * may be NULL. */
enum df_code df_odbc_fail(struct odbc_db *o, SQLSMALLINT type, SQLHANDLE handle, const char *what,
                          struct odbc_trouble *ret, struct df_err *err);
/* The code for an error of SQL Server, by its number or else by the SQLSTATE. */
enum df_code df_odbc_sqlserver_code(const char *state, int native, const char *message);

/* --- odbc_stmt.c ------------------------------------------------------------------------------ */

/* The cached statement, made if need be; NULL: err says why. */
struct odbc_stmt *df_odbc_stmt(struct odbc_db *o, const struct df_query *q, size_t rows, bool ends,
                               bool savepoint, struct df_err *err);
/* The same for an INSERT of many rows; its columns are wide enough for these rows and for earlier
 * ones. */
struct odbc_stmt *df_odbc_bulk_stmt(struct odbc_db *o, const struct df_query *q,
                                    const struct df_value *params, size_t rows, struct df_err *err);
/* Takes the statement out of the cache; the next use prepares it again. */
void df_odbc_stmt_drop(struct odbc_db *o, struct odbc_stmt *st);
void df_odbc_stmts_release(struct odbc_db *o);
/* Gives the statement the values of all its rows, which must not move until it has run. */
enum df_code df_odbc_bind(struct odbc_db *o, struct odbc_stmt *st, const struct df_value *params,
                          struct df_err *err) DF_MUST_CHECK;
/* How many question marks its text has. */
size_t df_odbc_markers(const struct df_query *q);
/* Whether the query starts with SELECT or WITH; our queries use WITH only for reading. */
bool df_odbc_reads(const struct df_query *q);
/* About how many bytes the values of one row take on the wire. */
size_t df_odbc_row_bytes(const struct df_query *q, const struct df_value *params);
/* UTF-16 in o->units, until its next use. */
SQLWCHAR *df_odbc_wide(struct odbc_db *o, struct df_str text, SQLINTEGER *ret_count);

/* --- odbc_bulk.c ------------------------------------------------------------------------------ */

/* Whether these rows can be written as one INSERT of many. */
bool df_odbc_bulk_fits(enum odbc_bulk bulk, const struct df_query *q, const struct df_value *params,
                       size_t rows);
/* Widens `shape`, which has one element for each parameter of the query, to what the columns of the
 * JSON must hold. It is zeroed at first, and kept for later rows. */
void df_odbc_bulk_shape(enum odbc_bulk bulk, const struct df_query *q,
                        const struct df_value *params, size_t rows, struct odbc_param *shape);
/* The statement; its one parameter is the JSON. */
void df_odbc_bulk_text(const struct df_query *q, const struct odbc_param *shape,
                       struct df_buf *out);
/* Writes the JSON of as many rows as fit, but at least one; returns how many. */
size_t df_odbc_bulk_json(enum odbc_bulk bulk, const struct df_query *q,
                         const struct df_value *params, size_t rows, size_t max_bytes,
                         struct df_buf *out);

/* --- odbc_run.c ------------------------------------------------------------------------------- */

/* Where the results of one run go; zeroed: nowhere. */
struct odbc_sink {
    bool keep; /* all rows stay in o->result */
    void (*on_row)(void *arg, size_t row, struct df_result *r);
    void *arg;
    int64_t *affected;
    int64_t failed_row;          /* out: -1: unknown or none */
    struct odbc_trouble trouble; /* out */
};

/* Sends what is held back, then q for each row of params, and reads everything to its end. */
enum df_code df_odbc_run(struct odbc_db *o, const struct df_query *q, const struct df_value *params,
                         size_t row_count, struct odbc_sink *sink,
                         struct df_err *err) DF_MUST_CHECK;
/* A text without parameters, at once. */
enum df_code df_odbc_direct(struct odbc_db *o, const char *what, struct df_str text,
                            struct odbc_sink *sink, struct df_err *err) DF_MUST_CHECK;
/* A text that answers with one row of integers. */
enum df_code df_odbc_ask(struct odbc_db *o, const char *what, const char *text, int64_t *answers,
                         size_t count, struct df_err *err) DF_MUST_CHECK;
/* Sends what is held back. */
enum df_code df_odbc_flush(struct odbc_db *o, struct df_err *err) DF_MUST_CHECK;

/* --- odbc_result.c ---------------------------------------------------------------------------- */

/* Forgets the rows. */
void df_odbc_result_reset(struct odbc_result *r);
void df_odbc_result_release(struct odbc_result *r);
/* Adds a row and makes it the current one. */
struct odbc_cell *df_odbc_result_add(struct odbc_result *r);

enum df_code df_odbc_step(struct df_result *r, struct df_err *err);
void df_odbc_result_free(struct df_result *r);
size_t df_odbc_columns(const struct df_result *r);
bool df_odbc_col_null(const struct df_result *r, size_t col);
int64_t df_odbc_col_int(const struct df_result *r, size_t col);
bool df_odbc_col_bool(const struct df_result *r, size_t col);
int64_t df_odbc_col_time(const struct df_result *r, size_t col);
struct df_str df_odbc_col_text(const struct df_result *r, size_t col);
struct df_str df_odbc_col_exact_time(const struct df_result *r, size_t col);
struct df_str df_odbc_col_blob(struct df_result *r, size_t col);

#endif

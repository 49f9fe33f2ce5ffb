/*
 * What the parts of the ODBC driver share: odbc.c (connection, transactions, schema), odbc_url.c
 * (the connection string), odbc_stmt.c (cached statements and their parameters), odbc_run.c (round
 * trips and what comes back), odbc_result.c (columns), odbc_error.c (diagnostics). Nobody else
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

/* Column of the statement that stands behind each row's: where one row's results end. */
#define ODBC_ROW_END "df_row_end"

/*
 * What the product says to the server beside its queries. There is one, for SQL Server; tests of
 * the mechanics bring another, for a server that CI can run. Texts may hold several statements.
 */
struct odbc_flavour {
    /* Once, after connecting; answers with one row: whether reading transactions can have a
     * snapshot. %lld: milliseconds to wait for a lock. */
    const char *settings;
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
    const char *lock; /* the schema; answers with one row: 1 when it is ours now. %lld: milliseconds
                         to wait for it */
    const char *unlock;
    enum df_code (*code_of)(const char *state, int native, const char *message);
};

/* Statements of transactions that wait for the next statement to travel with. */
enum odbc_held {
    ODBC_HELD_BEGIN = 1 << 0,
    ODBC_HELD_BEGIN_READ = 1 << 1,
    ODBC_HELD_SAVEPOINT = 1 << 2,
};

/* What the server does with rows as JSON. */
enum odbc_bulk {
    ODBC_BULK_NONE, /* nothing */
    ODBC_BULK_RAW,  /* leaves the escapes in strings as they are */
    ODBC_BULK_FULL,
};

struct odbc_param {
    enum df_type type;
    bool bound;
    bool is_long;     /* bound without a limit; stays so */
    bool tildes;      /* of a column of JSON: has characters that travel in disguise */
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
    size_t rows;    /* so many times the query stands in the text; 0: as one INSERT of many */
    bool ends;      /* each with row_end behind it; always when there are several */
    bool savepoint; /* with the savepoint in front */
    bool prepared;  /* has run once: the server knows it */
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
    bool reading;  /* the transaction is one that only reads */
    bool snapshot; /* the database has them */
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

/* What the driver manager is told for database.url. out holds a password afterwards. */
/* As df_db_url_risk. */
void df_odbc_url_risk(const char *url, struct df_buf *out);
enum df_code df_odbc_connection_string(const char *url, struct df_buf *out,
                                       struct df_err *err) DF_MUST_CHECK;

/* --- odbc_error.c ----------------------------------------------------------------------------- */

struct odbc_trouble {
    int line;       /* of the text, where the server names one; else 0 */
    bool forgotten; /* the server does not know the prepared statement any more */
};

/* Turns what the driver reports for a handle into ours; `what` was being done. ret may be NULL. */
enum df_code df_odbc_fail(struct odbc_db *o, SQLSMALLINT type, SQLHANDLE handle, const char *what,
                          struct odbc_trouble *ret, struct df_err *err);
/* For SQL Server, by its error number and, where that says nothing, by the SQLSTATE. */
enum df_code df_odbc_sqlserver_code(const char *state, int native, const char *message);

/* --- odbc_stmt.c ------------------------------------------------------------------------------ */

/* The cached statement, made if need be; NULL: err says why. */
struct odbc_stmt *df_odbc_stmt(struct odbc_db *o, const struct df_query *q, size_t rows, bool ends,
                               bool savepoint, struct df_err *err);
/* The same for an INSERT of many, made for these rows and for what earlier ones needed. */
struct odbc_stmt *df_odbc_bulk_stmt(struct odbc_db *o, const struct df_query *q,
                                    const struct df_value *params, size_t rows, struct df_err *err);
/* Takes the statement out of the cache; the next use prepares it again. */
void df_odbc_stmt_drop(struct odbc_db *o, struct odbc_stmt *st);
void df_odbc_stmts_release(struct odbc_db *o);
/* Gives the statement the values of all its rows. They must stay where they are until it has run.
 */
enum df_code df_odbc_bind(struct odbc_db *o, struct odbc_stmt *st, const struct df_value *params,
                          struct df_err *err) DF_MUST_CHECK;
/* How many question marks its text has. */
size_t df_odbc_markers(const struct df_query *q);
/* Starts with SELECT, or WITH, which the house uses for reading only. */
bool df_odbc_reads(const struct df_query *q);
/* About how much the values of one row take on the way. */
size_t df_odbc_row_bytes(const struct df_query *q, const struct df_value *params);
/* UTF-16 in o->units, until its next use. */
SQLWCHAR *df_odbc_wide(struct odbc_db *o, struct df_str text, SQLINTEGER *ret_count);

/* --- odbc_bulk.c ------------------------------------------------------------------------------ */

/* Whether these rows can be written as one INSERT of many. */
bool df_odbc_bulk_fits(enum odbc_bulk bulk, const struct df_query *q, const struct df_value *params,
                       size_t rows);
/* What the columns of its JSON must hold; shape has one element for each parameter of the query,
 * zeroed, or as it was for earlier rows. */
void df_odbc_bulk_shape(enum odbc_bulk bulk, const struct df_query *q,
                        const struct df_value *params, size_t rows, struct odbc_param *shape);
/* The statement; its one parameter is the JSON. */
void df_odbc_bulk_text(const struct df_query *q, const struct odbc_param *shape,
                       struct df_buf *out);
/* The JSON of as many rows as fit, of at least one; returns how many. */
size_t df_odbc_bulk_json(enum odbc_bulk bulk, const struct df_query *q,
                         const struct df_value *params, size_t rows, size_t max_bytes,
                         struct df_buf *out);

/* --- odbc_run.c ------------------------------------------------------------------------------- */

/* What is to be done with the results of the rows of one run; zeroed: nothing. */
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
/* Room for one more row, which it stands on afterwards. */
struct odbc_cell *df_odbc_result_add(struct odbc_result *r);

enum df_code df_odbc_step(struct df_result *r, struct df_err *err);
void df_odbc_result_free(struct df_result *r);
size_t df_odbc_columns(const struct df_result *r);
bool df_odbc_col_null(const struct df_result *r, size_t col);
int64_t df_odbc_col_int(const struct df_result *r, size_t col);
bool df_odbc_col_bool(const struct df_result *r, size_t col);
int64_t df_odbc_col_time(const struct df_result *r, size_t col);
struct df_str df_odbc_col_text(const struct df_result *r, size_t col);
struct df_str df_odbc_col_blob(struct df_result *r, size_t col);

#endif

/*
 * What the parts of the PostgreSQL driver share: postgres.c (transactions, errors), pg_connect.c
 * (which server), pg_wire.c (prepared statements, the pipeline), pg_bulk.c (many rows at once),
 * pg_params.c (values to the wire), pg_result.c (columns).
 */
#ifndef DF_STORE_PG_PRIVATE_H
#define DF_STORE_PG_PRIVATE_H

#include "base/arena.h"
#include "base/map.h"
#include "store/driver.h"

#include <libpq-fe.h>

/* Object identifiers of types, fixed in the server's catalogue (pg_type.dat). */
enum {
    PG_BOOL = 16,
    PG_BYTEA = 17,
    PG_INT8 = 20,
    PG_INT2 = 21,
    PG_INT4 = 23,
    PG_TEXT = 25,
    PG_JSON = 114,
    PG_FLOAT4 = 700,
    PG_FLOAT8 = 701,
    PG_TIMESTAMP = 1114,
    PG_TIMESTAMPTZ = 1184,
    PG_BPCHAR = 1042,
    PG_VARCHAR = 1043,
    PG_NUMERIC = 1700,
    PG_UUID = 2950,
    PG_JSONB = 3802,
};

/*
 * Transaction statements that are held back until the next statement; sent in the order of these
 * bits. A savepoint under which nothing was sent is dropped without a message to the server.
 */
enum pg_held {
    PG_HELD_BEGIN = 1 << 0,
    PG_HELD_BEGIN_READ = 1 << 1,
    PG_HELD_BULK_UNDO = 1 << 2, /* undoes a statement for many rows; see pg_bulk.c */
    PG_HELD_BULK_END = 1 << 3,
    PG_HELD_ROLLBACK_TO = 1 << 4,
    PG_HELD_RELEASE = 1 << 5,
    PG_HELD_SAVEPOINT = 1 << 6,
    PG_HELD_BULK_BEGIN = 1 << 7,
};
#define PG_HELD_COUNT 8

struct pg_stmt {
    const struct df_query *query;
    bool prepared;
    bool bulk_known;      /* `bulk` is set, or known to be impossible */
    struct pg_bulk *bulk; /* NULL: the query cannot be written for many rows */
    char name[40];
};

/* A query written for many rows: its parameters are arrays with a value for each row. */
struct pg_bulk {
    struct df_query query;
    char *sql;      /* the text of `query`, when it was made here */
    Oid elements[]; /* the type of the values of each array */
};

/* One row of parameters as libpq takes them. The arrays and the text are reused from row to row. */
struct pg_params {
    const char **values;
    int *lengths;
    int *formats;
    Oid *types;
    size_t cap;
    char *text;
    size_t text_cap;
    size_t bytes; /* of the last row: roughly what it adds to the output buffer */
};

struct pg_result {
    struct df_result base;
    PGresult *res;
    int row;
    int rows;
    struct df_arena *arena; /* converted columns, until the next row */
};

struct pg_db {
    struct df_db base;
    PGconn *conn;
    char *url; /* of this connection, for others to the same hosts */
    struct df_db_options opt;
    uint64_t place; /* stands for the URL */
    size_t host;    /* of the URL */
    uint64_t system;
    int64_t timeline;    /* 0: not known, like the system */
    bool asks;           /* now and then while it waits, whether the server still serves */
    bool unreplicated;   /* the wait for the standby was ended: a commit may be lost */
    struct df_map stmts; /* by the query's address */
    uint64_t name_seed;
    unsigned name_serial;
    unsigned held;
    bool control_failed; /* a held statement failed: savepoints are no longer what we think */
    int64_t silence_ms;  /* the connection counts as lost after such a silence; 0: never */
    int64_t statement_timeout_ms;
    bool read_only;
    bool pooled; /* behind a pooler, names do not outlive a transaction: statements get none */
    struct pg_params params;
    struct pg_result result;
    struct df_arena arena;
};

static inline struct pg_db *pg_of(struct df_db *db)
{
    return (struct pg_db *)db;
}

#define PG_STATEMENT(n, s)                                                                         \
    {                                                                                              \
        .name = (n), .text = { [DF_POSTGRES] = {.sql = (s)} }                                      \
    }

/* --- pg_connect.c ----------------------------------------------------------------------------- */

enum df_code df_pg_check_url(const char *url, struct df_err *err);
void df_pg_url_risk(const char *url, bool strict, struct df_buf *out);
enum df_code df_pg_open(const struct df_db_options *opt, struct df_db **ret, struct df_err *err);
/* Whether the server was the primary before a failover that another connection has seen. */
bool df_pg_is_past(const struct df_db *db);
/* Asks the other hosts, and the server itself for a greeting. Takes seconds. *silences counts
 * greetings that did not come, one after the other. False: the connection is as good as lost. */
bool df_pg_still_serves(struct pg_db *pg, int *silences);
/* Whether a silence longer than any statement ends the connection. */
void df_pg_limit_silence(struct pg_db *pg, bool limited);

/* --- postgres.c ------------------------------------------------------------------------------- */

/* Prepares a new connection for pg_wire.c. */
enum df_code df_pg_take_over(struct pg_db *pg, struct df_err *err);
void df_pg_close(struct df_db *db);
/* Copies a message without the text in double quotes, which may be a value or part of a URL. */
void df_pg_copy_unquoted(const char *message, char *out, size_t size);
/* The code for a SQLSTATE. */
enum df_code df_pg_code(const char *state);
/* Translates an error that the server sent; `what` names the failed operation. */
enum df_code df_pg_fail(struct pg_db *pg, const PGresult *res, const char *what,
                        struct df_err *err);

/* --- pg_params.c ------------------------------------------------------------------------------ */

void df_pg_params_set(struct pg_params *p, const struct df_value *values, size_t count);
/* The type of the values of an array that is to become `target` (0: what suits the value best). */
Oid df_pg_element(const struct df_value *v, Oid target);
/* Whether an array of such values can hold v. */
bool df_pg_element_fits(const struct df_value *v, Oid element);
/* How many of the rows go into the next statement. */
size_t df_pg_piece(const struct df_value *values, size_t width, size_t row_count);
/* The rows as an array for each of the `width` parameters. */
void df_pg_params_arrays(struct pg_params *p, const Oid *elements, const struct df_value *values,
                         size_t width, size_t row_count);
void df_pg_params_release(struct pg_params *p);

/* --- pg_wire.c -------------------------------------------------------------------------------- */

/* Where the results of one run go; zeroed: nowhere. */
struct pg_sink {
    PGresult **ret_result; /* the first row's result goes to the caller */
    void (*on_row)(void *arg, size_t row, struct df_result *r);
    void *arg;
    int64_t *affected;
    int64_t failed_row; /* out: -1: unknown or none */
    PGresult **pieces;  /* out, of df_pg_run_bulk: a result for each statement; the caller's */
    size_t piece_count;
    char tag[16]; /* out: the last statement's command tag, cut */
};

/*
 * Sends what is held back, then q once for each row of params, in one pipeline with one Sync, and
 * reads everything to its end. q may be NULL: only what is held back.
 */
enum df_code df_pg_run(struct pg_db *pg, const struct df_query *q, const struct df_value *params,
                       size_t row_count, struct pg_sink *sink, struct df_err *err);
/* The same with as few statements as possible: nothing is known of single rows but what `pieces`
 * tell. */
enum df_code df_pg_run_bulk(struct pg_db *pg, const struct pg_bulk *bulk,
                            const struct df_value *params, size_t row_count, struct pg_sink *sink,
                            struct df_err *err);
/* Asks for the types of q's parameters; sink->ret_result tells them. */
enum df_code df_pg_describe(struct pg_db *pg, const struct df_query *q,
                            const struct df_value *params, struct pg_sink *sink,
                            struct df_err *err);
struct pg_stmt *df_pg_stmt(struct pg_db *pg, const struct df_query *q);
void df_pg_stmts_release(struct pg_db *pg);

/* --- pg_bulk.c -------------------------------------------------------------------------------- */

/* False: the rows cannot be written at once, and nothing was done. */
bool df_pg_bulk_run(struct pg_db *pg, const struct df_query *q, const struct df_value *params,
                    size_t row_count, struct pg_sink *sink, enum df_code *ret, struct df_err *err);
void df_pg_bulk_free(struct pg_bulk *bulk);

/* --- pg_result.c ------------------------------------------------------------------------------ */

/* Sets the connection's one result; res stays the caller's when taken from a sink. */
void df_pg_result_set(struct pg_db *pg, PGresult *res);

enum df_code df_pg_step(struct df_result *r, struct df_err *err);
void df_pg_result_free(struct df_result *r);
size_t df_pg_columns(const struct df_result *r);
bool df_pg_col_null(const struct df_result *r, size_t col);
int64_t df_pg_col_int(const struct df_result *r, size_t col);
bool df_pg_col_bool(const struct df_result *r, size_t col);
int64_t df_pg_col_time(const struct df_result *r, size_t col);
struct df_str df_pg_col_text(const struct df_result *r, size_t col);
struct df_str df_pg_col_blob(struct df_result *r, size_t col);

#endif

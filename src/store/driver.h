/*
 * What a database driver implements. Included only by db.c and the drivers. The semantics are those
 * of db.h; db.c checks arguments and the order of calls (a savepoint only in a transaction, no
 * statement in a failed one, one result at a time), and times and counts the calls; drivers only do
 * the work. close and rollback are called in any state of the connection, even when it is lost.
 */
#ifndef DF_STORE_DRIVER_H
#define DF_STORE_DRIVER_H

#include "store/db.h"

struct df_db {
    const struct df_db_ops *ops;
    bool alive;          /* drivers clear it when the connection is lost */
    bool in_transaction; /* kept by db.c, like the next two */
    bool in_savepoint;
    bool failed; /* a statement of the transaction failed: only rolling back is allowed */
    struct df_result *open_result; /* at most one; drivers set it around on_row */
    char server[DF_DB_SERVER_MAX]; /* see df_db_server; set by drivers when they open */
    uint64_t history;              /* see df_db_history; likewise */
};

struct df_result {
    struct df_db *db;
};

struct df_db_ops {
    enum df_dialect dialect;
    enum df_code (*check_url)(const char *url, struct df_err *err);
    /* See df_db_url_risk. NULL: the driver has nothing to warn of. */
    void (*url_risk)(const char *url, bool strict, struct df_buf *out);
    enum df_code (*open)(const struct df_db_options *opt, struct df_db **ret, struct df_err *err);
    void (*close)(struct df_db *db);
    enum df_code (*ping)(struct df_db *db, struct df_err *err);
    /* Whether another server has taken this one's place, as far as is known without asking. Called
     * before every call outside a transaction. NULL: never. */
    bool (*is_past)(const struct df_db *db);

    enum df_code (*query)(struct df_db *db, const struct df_query *q, const struct df_value *params,
                          struct df_result **ret, struct df_err *err);
    enum df_code (*step)(struct df_result *r, struct df_err *err);
    void (*result_free)(struct df_result *r);
    size_t (*columns)(const struct df_result *r);
    bool (*col_null)(const struct df_result *r, size_t col);
    int64_t (*col_int)(const struct df_result *r, size_t col);
    bool (*col_bool)(const struct df_result *r, size_t col);
    int64_t (*col_time)(const struct df_result *r, size_t col);
    struct df_str (*col_text)(const struct df_result *r, size_t col);
    struct df_str (*col_exact_time)(const struct df_result *r, size_t col); /* NULL: as col_text */
    struct df_str (*col_blob)(struct df_result *r, size_t col);

    enum df_code (*exec)(struct df_db *db, const struct df_query *q, const struct df_value *params,
                         int64_t *ret_affected, struct df_err *err);
    enum df_code (*exec_many)(struct df_db *db, const struct df_query *q,
                              const struct df_value *params, size_t row_count,
                              void (*on_row)(void *arg, size_t row, struct df_result *r), void *arg,
                              int64_t *ret_affected, int64_t *ret_failed_row, struct df_err *err);

    /* The id that the last INSERT of this connection gave. NULL: the database does not say. */
    int64_t (*last_id)(struct df_db *db);

    enum df_code (*begin)(struct df_db *db, bool write, struct df_err *err);
    enum df_code (*commit)(struct df_db *db, struct df_err *err);
    void (*rollback)(struct df_db *db);
    enum df_code (*savepoint)(struct df_db *db, struct df_err *err);
    enum df_code (*release)(struct df_db *db, struct df_err *err);
    enum df_code (*rollback_to)(struct df_db *db, struct df_err *err);

    enum df_code (*script)(struct df_db *db, const char *sql, struct df_err *err);
    /* See df_db_give_back. NULL: the database does it by itself. */
    enum df_code (*give_back)(struct df_db *db, enum df_space what, int64_t *ret_left,
                              struct df_err *err);
    enum df_code (*schema_lock)(struct df_db *db, struct df_err *err);
    void (*schema_unlock)(struct df_db *db);
};

/* How long to wait for another process that holds the schema lock, and how often to look. */
#define DF_SCHEMA_LOCK_WAIT_MS (INT64_C(10) * 60 * 1000)
#define DF_SCHEMA_LOCK_POLL_MS 100

/* The line (from 1) on which the byte at offset stands. */
int df_db_line_at(const char *sql, size_t offset);

extern const struct df_db_ops df_sqlite_ops;
extern const struct df_db_ops df_postgres_ops;
extern const struct df_db_ops df_odbc_ops;

#endif

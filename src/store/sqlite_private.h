/* What the two halves of the SQLite driver share: sqlite.c (the file) and sqlite_stmt.c
 * (statements). */
#ifndef DF_STORE_SQLITE_PRIVATE_H
#define DF_STORE_SQLITE_PRIVATE_H

#include "base/uuid.h"
#include "store/driver.h"

#include <sqlite3.h>

#define STMT_SETS 32
#define STMT_WAYS 4

/* A time or UUID as it is stored; one for each parameter of a statement. */
union scratch {
    char time[DF_TIME_LEN + 1];
    struct df_uuid uuid;
};

struct stmt {
    const struct df_query *query; /* NULL: the slot is free */
    sqlite3_stmt *handle;
    union scratch *scratch;
    uint64_t used; /* when last used; the oldest of its set is evicted */
};

struct sqlite_result {
    struct df_result base;
    sqlite3_stmt *handle;
    size_t columns;
    int ahead; /* result of the step that query() took: SQLITE_ROW or SQLITE_DONE; 0: already
                  returned */
    bool done;
    const char *name;

    /* Rows read in advance; NULL: columns come from the statement. */
    sqlite3_value **kept;
    size_t kept_rows;
    size_t kept_at; /* rows stepped over; the current row is kept_at - 1 */
};

enum control {
    CTL_BEGIN,
    CTL_BEGIN_WRITE,
    CTL_COMMIT,
    CTL_ROLLBACK,
    CTL_SAVEPOINT,
    CTL_RELEASE,
    CTL_ROLLBACK_TO,
    CTL_PING,
    CTL_COUNT
};

struct sqlite_db {
    struct df_db base;
    sqlite3 *handle;
    char *path;
    bool read_only;
    int64_t busy_timeout_ms;
    int64_t busy_since_ms;
    sqlite3_stmt *control[CTL_COUNT];
    struct stmt stmts[STMT_SETS][STMT_WAYS];
    uint64_t uses;
    struct sqlite_result result; /* at most one is open */
    int lock_fd;                 /* -1: the schema lock is not held */
};

static inline struct sqlite_db *sqlite_of(struct df_db *db)
{
    return (struct sqlite_db *)db;
}

/* Translates an error of SQLite; `what` names the failed operation. */
enum df_code df_sqlite_fail(struct sqlite_db *s, int rc, const char *what, struct df_err *err);

/* Whether the disk is full, by SQLite's result code and the errno behind it. */
bool df_sqlite_is_full(int rc, int os_error);

void df_sqlite_stmts_release(struct sqlite_db *s);

/* The ops of statements and columns. */
enum df_code df_sqlite_query(struct df_db *db, const struct df_query *q,
                             const struct df_value *params, struct df_result **ret,
                             struct df_err *err);
enum df_code df_sqlite_step(struct df_result *r, struct df_err *err);
void df_sqlite_result_free(struct df_result *r);
enum df_code df_sqlite_exec(struct df_db *db, const struct df_query *q,
                            const struct df_value *params, int64_t *ret_affected,
                            struct df_err *err);
enum df_code df_sqlite_exec_many(struct df_db *db, const struct df_query *q,
                                 const struct df_value *params, size_t row_count,
                                 void (*on_row)(void *arg, size_t row, struct df_result *r),
                                 void *arg, int64_t *ret_affected, int64_t *ret_failed_row,
                                 struct df_err *err);
size_t df_sqlite_columns(const struct df_result *r);
bool df_sqlite_col_null(const struct df_result *r, size_t col);
int64_t df_sqlite_col_int(const struct df_result *r, size_t col);
bool df_sqlite_col_bool(const struct df_result *r, size_t col);
int64_t df_sqlite_col_time(const struct df_result *r, size_t col);
struct df_str df_sqlite_col_text(const struct df_result *r, size_t col);
struct df_str df_sqlite_col_blob(struct df_result *r, size_t col);

#endif

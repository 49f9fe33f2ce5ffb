/*
 * Rows of parameters for one statement, gathered before df_db_exec_many writes them. The arena owns
 * their memory.
 */
#ifndef DF_STORE_ROWS_H
#define DF_STORE_ROWS_H

#include "base/arena.h"
#include "store/db.h"

struct df_rows {
    const struct df_query *query;
    struct df_value *params;
    size_t count;
    size_t most;
};

struct df_rows df_rows_for(struct df_arena *a, const struct df_query *q, size_t most);
/* Adds a row, with parameters by name: DF_ROWS_ADD(&rows, item_insert, .id = …, .status = …). */
#define DF_ROWS_ADD(rows, name, ...) df_rows_put((rows), DF_Q(name, __VA_ARGS__))
/* The same with DF_ANY, for a query that is chosen at run time. */
void df_rows_put(struct df_rows *r, const struct df_query *q, const struct df_value *values,
                 size_t count);
/* Writes the rows; does nothing when there are none. affected (may be NULL): as for
 * df_db_exec_many. */
enum df_code df_rows_run(struct df_db *db, const struct df_rows *r, int64_t *affected,
                         struct df_err *err) DF_MUST_CHECK;

/* Of a query whose first column is a size: how many rows from the first on have no more than `most`
 * bytes together, but one at least, if there is one. Rows behind them are not read. */
enum df_code df_rows_fit(struct df_db *db, const struct df_query *q, const struct df_value *values,
                         size_t count, int64_t most, int64_t *ret,
                         struct df_err *err) DF_MUST_CHECK;

/* A list of keys for EACH_INT or EACH_UUID (tools/embed_sql.py): "[1,2,3]", or with quotes. */
struct df_ids {
    char *text;
    size_t len;
    size_t most;
    bool quoted;
};

struct df_ids df_ids_for(struct df_arena *a, size_t most, bool quoted);
/* A number of up to 20 characters, or a UUID. */
void df_ids_add(struct df_ids *ids, struct df_str id);
void df_ids_add_int(struct df_ids *ids, int64_t id);
/* Ends the list. */
struct df_value df_ids_value(struct df_ids *ids);

#endif

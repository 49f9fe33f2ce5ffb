#include "base/mem.h"
#include "shards/marks.sql.h"
#include "shards/shards.h"

#include <stdlib.h>

struct reading {
    void (*mark)(void *arg, struct df_str id, int64_t taken);
    void *arg;
};

static void read_mark(void *arg, struct df_result *r)
{
    const struct reading *x = arg;
    x->mark(x->arg, df_col_text(r, work_mark_list_RowKey), df_col_int(r, work_mark_list_Taken));
}

enum df_code df_marks_read(struct df_db *db, const char *channel, size_t limit,
                           void (*mark)(void *arg, struct df_str id, int64_t taken), void *arg,
                           struct df_err *err)
{
    struct reading x = {mark, arg};
    return df_db_each(db,
                      DF_Q(work_mark_list, .channel = df_text(df_str_c(channel)),
                           .limit = df_int((int64_t)limit)),
                      read_mark, &x, err);
}

enum df_code df_marks_add(struct df_db *db, const char *channel, const struct df_str *ids,
                          size_t count, int64_t now_ms, struct df_err *err)
{
    if (count == 0)
        return DF_OK;
    struct df_p_work_mark_add *rows = df_calloc(count, sizeof(*rows));
    for (size_t i = 0; i < count; i++)
        rows[i] = (struct df_p_work_mark_add){.channel = df_text(df_str_c(channel)),
                                              .row_key = df_text(ids[i]),
                                              .now = df_time(now_ms)};
    enum df_code code =
        df_db_exec_many(db, DF_MANY(work_mark_add, rows), count, NULL, NULL, NULL, NULL, err);
    free(rows);
    return code;
}

enum df_code df_marks_clear(struct df_db *db, const char *channel, const struct df_str *ids,
                            size_t count, struct df_err *err)
{
    if (count == 0)
        return DF_OK;
    struct df_p_work_mark_clear *rows = df_calloc(count, sizeof(*rows));
    for (size_t i = 0; i < count; i++)
        rows[i] = (struct df_p_work_mark_clear){.channel = df_text(df_str_c(channel)),
                                                .row_key = df_text(ids[i])};
    enum df_code code =
        df_db_exec_many(db, DF_MANY(work_mark_clear, rows), count, NULL, NULL, NULL, NULL, err);
    free(rows);
    return code;
}

#include "imports/announce.h"

#include "imports/announce.sql.h"

#define KEEP_MS DF_HOURS

static bool is_told_by_queue(const struct df_imports *i)
{
    return df_imports_options_of(i)->settings.queue != DF_QUEUE_POLL;
}

static struct df_value time_now(const struct df_imports *i)
{
    return df_time(df_wall_ms(df_imports_options_of(i)->clock));
}

enum df_code import_announce(struct df_db *db, const struct df_imports *i,
                             const struct df_uuid *batch, const char *why, struct df_err *err)
{
    if (!is_told_by_queue(i))
        return DF_OK;
    return df_db_exec(db,
                      DF_Q(ready_add, .batch = df_text(df_uuid_str(batch)),
                           .reason = df_text(df_str_c(why)), .now = time_now(i)),
                      NULL, err);
}

enum df_code import_make_due(struct df_db *db, const struct df_imports *i, int64_t *ret,
                             struct df_err *err)
{
    struct df_value now = time_now(i);
    enum df_code code =
        is_told_by_queue(i) ? df_db_exec(db, DF_Q(ready_due, .now = now), NULL, err) : DF_OK;

    return code == DF_OK ? df_db_exec(db, DF_Q(claim_due, .now = now), ret, err) : code;
}

enum df_code import_announce_stale(struct df_db *db, const struct df_imports *i,
                                   struct df_value before, struct df_err *err)
{
    if (!is_told_by_queue(i))
        return DF_OK;
    return df_db_exec(db, DF_Q(ready_stale, .now = time_now(i), .before = before), NULL, err);
}

enum df_code import_announce_next(struct df_db *db, const struct df_imports *i,
                                  const struct df_uuid *batch, bool of_client, struct df_err *err)
{
    if (!is_told_by_queue(i))
        return DF_OK;
    return df_db_exec(db,
                      DF_Q(ready_next, .now = time_now(i), .any = df_int(!of_client),
                           .id = df_uuid(df_uuid_str(batch))),
                      NULL, err);
}

/* What waits for a broker that is away stays, and nobody sends what waits when there is none. */
enum df_code import_forget_announced(struct df_db *db, const struct df_imports *i,
                                     struct df_err *err)
{
    int64_t before_ms = df_wall_ms(df_imports_options_of(i)->clock) - KEEP_MS;

    return df_db_exec(
        db, DF_Q(ready_forget, .before = df_time(before_ms), .all = df_int(!is_told_by_queue(i))),
        NULL, err);
}

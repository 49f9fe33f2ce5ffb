#include "base/uuid.h"
#include "store/rows.h"
#include "webhooks/channel.sql.h"
#include "webhooks/webhooks.h"

/* In the order of the query's parameters. */
enum { WIDTH = 8 };

static void fill(const struct df_webhook_event *e, const struct df_uuid *id,
                 struct df_value p[WIDTH])
{
    p[0] = df_uuid(df_uuid_str(id));
    p[1] = df_text(df_str_c(e->event));
    p[2] = df_text(e->reference);
    p[3] = df_uuid(e->batch_id);
    p[4] = df_text(e->body);
    p[5] = df_text(e->correlation_id);
    p[6] = df_time(e->now_ms);
    p[7] = df_uuid(e->client_id);
}

enum df_code df_webhooks_emit(struct df_db *db, const struct df_clock *clock,
                              const struct df_webhook_event *e, int64_t *ret_count,
                              struct df_err *err)
{
    struct df_uuid id = df_uuid_v7(clock);
    struct df_value params[WIDTH + 1];

    fill(e, &id, params);
    params[WIDTH] = df_uuid(e->subscription_id);
    if (e->subscription_id.ptr)
        return df_db_exec(db, &df_q_webhook_emit_one, params, WIDTH + 1, ret_count, err);
    return df_db_exec(db, &df_q_webhook_emit, params, WIDTH, ret_count, err);
}

enum df_code df_webhooks_emit_many(struct df_db *db, const struct df_clock *clock,
                                   const struct df_webhook_event *events, size_t count,
                                   struct df_arena *a, int64_t *ret_count, struct df_err *err)
{
    struct df_rows rows = df_rows_for(a, &df_q_webhook_emit, count);
    int64_t *affected = DF_ARENA_ARRAY(a, int64_t, count);
    struct df_uuid *ids = DF_ARENA_ARRAY(a, struct df_uuid, count);
    struct df_value params[WIDTH];

    for (size_t i = 0; i < count; i++) {
        ids[i] = df_uuid_v7(clock);
        fill(&events[i], &ids[i], params);
        df_rows_add(&rows, params, WIDTH);
    }
    enum df_code code = df_rows_run(db, &rows, affected, err);
    int64_t made = 0;
    for (size_t i = 0; i < count && code == DF_OK; i++)
        made += affected[i];
    if (ret_count)
        *ret_count = made;
    return code;
}

#include "base/uuid.h"
#include "store/rows.h"
#include "webhooks/channel.sql.h"
#include "webhooks/webhooks.h"

/* The parameters that webhook_emit and webhook_emit_one share. */
#define EVENT(e, id)                                                                               \
    .event_id = df_uuid(df_uuid_str(id)), .event = df_text(df_str_c((e)->event)),                  \
    .reference = df_text((e)->reference), .batch_id = df_uuid((e)->batch_id),                      \
    .body = df_text((e)->body), .correlation_id = df_text((e)->correlation_id),                    \
    .now = df_time((e)->now_ms), .client_id = df_uuid((e)->client_id),                             \
    .trace = df_text((e)->trace_parent)

enum df_code df_webhooks_emit(struct df_db *db, const struct df_clock *clock,
                              const struct df_webhook_event *e, int64_t *ret_count,
                              struct df_err *err)
{
    struct df_uuid id = df_uuid_v7(clock);

    if (e->subscription_id.ptr)
        return df_db_exec(
            db,
            DF_Q(webhook_emit_one, EVENT(e, &id), .subscription_id = df_uuid(e->subscription_id)),
            ret_count, err);
    return df_db_exec(db, DF_Q(webhook_emit, EVENT(e, &id)), ret_count, err);
}

enum df_code df_webhooks_emit_many(struct df_db *db, const struct df_clock *clock,
                                   const struct df_webhook_event *events, size_t count,
                                   struct df_arena *a, int64_t *ret_count, struct df_err *err)
{
    struct df_rows rows = df_rows_for(a, &df_q_webhook_emit, count);
    int64_t *affected = DF_ARENA_ARRAY(a, int64_t, count);
    struct df_uuid *ids = DF_ARENA_ARRAY(a, struct df_uuid, count);

    for (size_t i = 0; i < count; i++) {
        ids[i] = df_uuid_v7(clock);
        DF_ROWS_ADD(&rows, webhook_emit, EVENT(&events[i], &ids[i]));
    }
    enum df_code code = df_rows_run(db, &rows, affected, err);
    int64_t made = 0;
    for (size_t i = 0; i < count && code == DF_OK; i++)
        made += affected[i];
    if (ret_count)
        *ret_count = made;
    return code;
}

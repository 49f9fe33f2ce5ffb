#include "imports/batch_event.h"

#include "base/arena.h"
#include "imports/batch.h"
#include "imports/batch_event.sql.h"
#include "webhooks/webhooks.h"
#include "json/write.h"

#define BODY_MAX 4096

/* Writes the members of the specification, in its order; unknown values are null. */
static void write_body(struct df_buf *out, struct df_result *r, struct df_str batch,
                       const char *event)
{
    int64_t status = df_col_int(r, batch_event_Status);
    struct df_json_out j;

    df_json_out_init(&j, out);
    df_json_open(&j, '{');
    df_json_kv_text(&j, "event", df_str_c(event));
    df_json_kv_text(&j, "clientId", df_col_text(r, batch_event_ClientIdentifier));
    df_json_kv_text(&j, "batchId", batch);
    df_json_kv_text(&j, "status", df_str_c(df_batch_status_name(status)));
    if (status == DF_BATCH_SCHEDULED)
        df_json_kv_time(&j, "scheduledFor", df_col_time(r, batch_event_ScheduledFor));
    df_json_key(&j, "metrics");
    df_json_open(&j, '{');
    df_json_kv_int_if(&j, "totalRecords", !df_col_null(r, batch_event_TotalRecords),
                      df_col_int(r, batch_event_TotalRecords));
    df_json_kv_int(&j, "processedRecords", df_col_int(r, batch_event_ProcessedRecords));
    df_json_kv_int(&j, "errorCount", df_col_int(r, batch_event_ErrorCount));
    df_json_kv_time(&j, "startedAt", df_col_time(r, batch_event_StartedAt));
    df_json_kv_time(&j, "completedAt", df_col_time(r, batch_event_CompletedAt));
    df_json_close(&j, '}');
    df_json_close(&j, '}');
}

struct event_row {
    struct df_arena arena;
    struct df_webhook_event event;
};

static void read_event(void *arg, struct df_result *r)
{
    struct event_row *row = arg;
    struct df_webhook_event *e = &row->event;
    struct df_buf body;

    df_buf_init(&body, BODY_MAX);
    write_body(&body, r, e->batch_id, e->event);
    e->client_id = df_arena_str(&row->arena, df_col_text(r, batch_event_ClientId));
    e->correlation_id = df_arena_str(&row->arena, df_col_text(r, batch_event_CorrelationId));
    e->trace_parent = df_arena_str(&row->arena, df_col_text(r, batch_event_TraceParent));
    e->body = df_arena_str(&row->arena, df_buf_str(&body));
    df_buf_release(&body);
}

enum df_code import_emit(struct df_db *db, const struct df_clock *clock,
                         const struct df_uuid *batch, const char *event, bool *ret,
                         struct df_err *err)
{
    struct df_str id = df_uuid_str(batch);
    struct event_row row = {
        .event = {.event = event, .reference = id, .batch_id = id, .now_ms = df_wall_ms(clock)}};
    bool wanted = false;
    int64_t made = 0;

    df_arena_init(&row.arena);
    enum df_code code =
        df_db_one(db, DF_Q(batch_event, .id = df_uuid(id)), read_event, &row, &wanted, err);
    if (code == DF_OK && wanted)
        code = df_webhooks_emit(db, clock, &row.event, &made, err);
    if (code == DF_OK && made > 0)
        code = df_db_exec(db, DF_Q(batch_not_told, .told = df_bool(false), .id = df_uuid(id)), NULL,
                          err);
    df_arena_release(&row.arena);
    if (code == DF_OK && made > 0)
        *ret = true;
    return code;
}

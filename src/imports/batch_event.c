/* What a client's webhooks hear of its batches: BatchScheduled, BatchStarted, BatchCompleted,
 * BatchFailed. */
#include "imports/batch_event.h"
#include "base/arena.h"
#include "imports/batch.h"
#include "imports/batch_event.sql.h"
#include "webhooks/webhooks.h"
#include "json/write.h"

#define BODY_MAX 4096

static void write_count(struct df_json_out *j, const char *name, struct df_result *r, size_t col)
{
    df_json_key(j, name);
    if (df_col_null(r, col))
        df_json_null(j);
    else
        df_json_int(j, df_col_int(r, col));
}

/* The members of the specification, in its order; what is not known yet is null. */
static void write_body(struct df_buf *out, struct df_result *r, struct df_str batch,
                       const char *event)
{
    int64_t status = df_col_int(r, 2);
    struct df_json_out j;

    df_json_out_init(&j, out);
    df_json_open(&j, '{');
    df_json_kv_text(&j, "event", df_str_c(event));
    df_json_kv_text(&j, "clientId", df_col_text(r, 1));
    df_json_kv_text(&j, "batchId", batch);
    df_json_kv_text(&j, "status", df_str_c(df_batch_status_name(status)));
    if (status == DF_BATCH_SCHEDULED)
        df_json_kv_time(&j, "scheduledFor", df_col_time(r, 8));
    df_json_key(&j, "metrics");
    df_json_open(&j, '{');
    write_count(&j, "totalRecords", r, 3);
    write_count(&j, "processedRecords", r, 4);
    write_count(&j, "errorCount", r, 5);
    df_json_kv_time(&j, "startedAt", df_col_time(r, 6));
    df_json_kv_time(&j, "completedAt", df_col_time(r, 7));
    df_json_close(&j, '}');
    df_json_close(&j, '}');
}

/* DF_DONE: nobody wants to hear. */
static enum df_code read_event(struct df_db *db, struct df_str batch, const char *event,
                               struct df_arena *a, struct df_webhook_event *ret, struct df_err *err)
{
    struct df_result *r = NULL;
    enum df_code code = df_db_query(db, &df_q_batch_event, DF_PARAMS(df_uuid(batch)), &r, err);
    if (code != DF_OK)
        return code;
    code = df_result_step(r, err);
    if (code == DF_ROW) {
        struct df_buf body;
        df_buf_init(&body, BODY_MAX);
        write_body(&body, r, batch, event);
        ret->client_id = df_arena_str(a, df_col_text(r, 0));
        ret->correlation_id = df_arena_str(a, df_col_text(r, 9));
        ret->body = df_arena_str(a, df_buf_str(&body));
        df_buf_release(&body);
    }
    df_result_free(r);
    return code == DF_ROW ? DF_OK : code;
}

enum df_code import_emit(struct df_db *db, const struct df_clock *clock,
                         const struct df_uuid *batch, const char *event, bool *ret,
                         struct df_err *err)
{
    struct df_str id = df_uuid_str(batch);
    struct df_webhook_event e = {
        .event = event, .reference = id, .batch_id = id, .now_ms = df_wall_ms(clock)};
    struct df_arena arena;
    int64_t made = 0;

    df_arena_init(&arena);
    enum df_code code = read_event(db, id, event, &arena, &e, err);
    if (code == DF_OK)
        code = df_webhooks_emit(db, clock, &e, &made, err);
    if (code == DF_OK && made > 0)
        code =
            df_db_exec(db, &df_q_batch_not_told, DF_PARAMS(df_bool(false), df_uuid(id)), NULL, err);
    df_arena_release(&arena);
    if (code == DF_OK && made > 0)
        *ret = true;
    return code == DF_DONE ? DF_OK : code;
}

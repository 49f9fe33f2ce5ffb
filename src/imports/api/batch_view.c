#include "imports/api/batch_view.h"

#include "imports/api/batches.sql.h"
#include "imports/batch.h"
#include "json/scan.h"

static const char *file_type_name(int64_t type)
{
    static const char *const names[] = {"Json", "Excel", "Csv"};
    return type >= 0 && type < 3 ? names[type] : "Unknown";
}

bool df_json_is_valid(struct df_str s)
{
    struct df_json_scan scan;
    enum df_json_token t;

    df_json_scan_init(&scan, 0, DF_JSON_DEPTH_MAX);
    df_json_scan_window(&scan, s, 0, true);
    do
        t = df_json_scan_next(&scan);
    while (t > DF_TOK_END);
    df_json_scan_release(&scan);
    return t == DF_TOK_END;
}

void df_json_stored(struct df_json_out *out, struct df_str json)
{
    if (json.ptr && df_json_is_valid(json))
        df_json_raw(out, json);
    else
        df_json_null(out);
}

void df_batch_write(struct df_result *r, struct df_json_out *out)
{
    int64_t processed = df_col_int(r, batch_ProcessedRecords);
    int64_t errors = df_col_int(r, batch_ErrorCount);
    int64_t skipped = df_col_int(r, batch_SkippedCount);

    df_json_open(out, '{');
    df_json_kv_text(out, "batchId", df_col_text(r, batch_Id));
    df_json_kv_text(out, "status", df_str_c(df_batch_status_name(df_col_int(r, batch_Status))));
    df_json_kv_text(out, "fileName", df_col_text(r, batch_FileName));
    df_json_kv_time(out, "createdAt", df_col_time(r, batch_CreatedAt));
    df_json_kv_time(out, "startedAt", df_col_time(r, batch_StartedAt));
    df_json_kv_time(out, "completedAt", df_col_time(r, batch_CompletedAt));
    df_json_kv_int_if(out, "totalRecords", !df_col_null(r, batch_TotalRecords),
                      df_col_int(r, batch_TotalRecords));
    df_json_kv_int(out, "processedRecords", processed);
    df_json_kv_text(out, "lastError", df_col_text(r, batch_LastError));
    df_json_kv_bool(out, "webhookNotified", df_col_bool(r, batch_WebhookNotified));
    df_json_kv_text(out, "fileType", df_str_c(file_type_name(df_col_int(r, batch_FileType))));
    df_json_kv_int(out, "fileSizeBytes", df_col_int(r, batch_FileSizeBytes));
    df_json_kv_text(out, "checksum", df_col_text(r, batch_Checksum));
    df_json_kv_text(out, "policyDecision", df_col_text(r, batch_PolicyDecision));
    df_json_kv_time(out, "scheduledFor", df_col_time(r, batch_ScheduledFor));
    df_json_kv_text(out, "originDefault", df_col_text(r, batch_OriginDefault));
    df_json_kv_text(out, "requestedBy", df_col_text(r, batch_RequestedBy));
    df_json_key(out, "metadata");
    df_json_stored(out, df_col_text(r, batch_MetadataJson));
    df_json_kv_int(out, "errorCount", errors);
    df_json_kv_int(out, "skippedCount", skipped);
    df_json_kv_int(out, "importedCount", processed - errors - skipped);
    df_json_key(out, "errorSummary");
    df_json_stored(out, df_col_text(r, batch_ErrorSummary));
    df_json_kv_int(out, "attempt", df_col_int(r, batch_Attempt));
    df_json_kv_text(out, "correlationId", df_col_text(r, batch_CorrelationId));
    df_json_kv_time(out, "gaveWayAt", df_col_time(r, batch_GaveWayAt));
    df_json_close(out, '}');
}

struct batch_reading {
    struct df_json_out *out;
    int64_t status;
};

static void read_batch(void *arg, struct df_result *r)
{
    struct batch_reading *b = arg;

    b->status = df_col_int(r, batch_Status);
    df_batch_write(r, b->out);
}

enum df_code df_batch_read(struct df_db *db, const struct df_uuid *id, const struct df_uuid *client,
                           struct df_json_out *out, int64_t *ret_status, struct df_err *err)
{
    struct batch_reading b = {.out = out};
    bool found = false;
    enum df_code code = df_db_one(
        db, DF_Q(batch_get, .id = df_uuid(df_uuid_str(id)), .client = df_uuid(df_uuid_str(client))),
        read_batch, &b, &found, err);

    if (code == DF_OK && !found)
        code = df_batch_not_found(id, err);
    if (code == DF_OK)
        *ret_status = b.status;
    return code;
}

enum df_code df_batch_not_found(const struct df_uuid *id, struct df_err *err)
{
    return df_err_set(err, DF_E_NOT_FOUND, "There is no import %s.", id->text);
}

bool df_batch_param(struct df_req *req, struct df_uuid *ret)
{
    if (df_uuid_parse(df_req_param(req, "batchId"), ret))
        return true;
    df_req_fail(req, DF_E_NOT_FOUND, "There is no such import.");
    return false;
}

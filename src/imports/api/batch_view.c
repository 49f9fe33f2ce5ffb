#include "imports/api/batch_view.h"

#include "imports/api/batches.sql.h"
#include "imports/batch.h"
#include "json/doc.h"
#include "json/scan.h"

#include <assert.h>

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

/* {"PhoneNumber: there is none": 12, …}: the names are told to people. */
static void write_summary(struct df_json_out *out, struct df_str json)
{
    struct df_arena a = {0};
    const struct df_json *doc = NULL;
    struct df_err err = DF_ERR_INIT;
    struct df_json_each each;
    int64_t count;

    if (out->lang == DF_LANG_EN || !json.ptr || df_json_parse(&a, json, &doc, &err) != DF_OK ||
        doc->type != DF_JSON_OBJECT) {
        df_json_stored(out, json);
        df_arena_release(&a);
        return;
    }
    df_json_open(out, '{');
    each = df_json_each(doc);
    for (const struct df_json *m; (m = df_json_next(&each));) {
        df_json_key_told(out, m->key);
        if (df_json_to_i64(m, &count))
            df_json_int(out, count);
        else
            df_json_null(out);
    }
    df_json_close(out, '}');
    df_arena_release(&a);
}

/* --- what a batch waits for --- */

struct wait {
    const char *what; /* NULL: nothing, it is worked on or over */
    int64_t since_ms;
};

static bool is_owned(struct df_result *r)
{
    return df_col_int(r, batch_Status) == DF_BATCH_PROCESSING && !df_col_null(r, batch_LockedAt) &&
           !df_col_null(r, batch_ProcessingHost);
}

static struct wait wait_of(struct df_result *r)
{
    int64_t updated_ms = df_col_time(r, batch_UpdatedAt);

    switch (df_col_int(r, batch_Status)) {
    case DF_BATCH_PENDING:
        if (!df_col_null(r, batch_WaitingSince))
            return (struct wait){"OmniFlow", df_col_time(r, batch_WaitingSince)};
        return (struct wait){"Worker", updated_ms};
    case DF_BATCH_SCHEDULED:
        return (struct wait){"Schedule", updated_ms};
    case DF_BATCH_PROCESSING:
        if (is_owned(r))
            break;
        if (!df_col_null(r, batch_GaveWayAt))
            return (struct wait){"Turn", df_col_time(r, batch_GaveWayAt)};
        return (struct wait){"Worker", updated_ms};
    default:
        break;
    }
    return (struct wait){.since_ms = -1};
}

static void write_wait(struct df_json_out *out, struct wait w)
{
    df_json_kv_text(out, "waitingFor", df_str_c(w.what));
    df_json_kv_time(out, "waitingSince", w.since_ms);
}

/* --- the object --- */

static void write_members(struct df_result *r, struct df_json_out *out)
{
    int64_t processed = df_col_int(r, batch_ProcessedRecords);
    int64_t errors = df_col_int(r, batch_ErrorCount);
    int64_t skipped = df_col_int(r, batch_SkippedCount);

    df_json_kv_text(out, "batchId", df_col_text(r, batch_Id));
    df_json_kv_text(out, "status", df_str_c(df_batch_status_name(df_col_int(r, batch_Status))));
    df_json_kv_text(out, "fileName", df_col_text(r, batch_FileName));
    df_json_kv_time(out, "createdAt", df_col_time(r, batch_CreatedAt));
    df_json_kv_time(out, "startedAt", df_col_time(r, batch_StartedAt));
    df_json_kv_time(out, "completedAt", df_col_time(r, batch_CompletedAt));
    df_json_kv_int_if(out, "totalRecords", !df_col_null(r, batch_TotalRecords),
                      df_col_int(r, batch_TotalRecords));
    df_json_kv_int(out, "processedRecords", processed);
    df_json_kv_told(out, "lastError", df_col_text(r, batch_LastError));
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
    write_summary(out, df_col_text(r, batch_ErrorSummary));
    df_json_kv_int(out, "attempt", df_col_int(r, batch_Attempt));
    df_json_kv_text(out, "correlationId", df_col_text(r, batch_CorrelationId));
    df_json_kv_time(out, "gaveWayAt", df_col_time(r, batch_GaveWayAt));
    df_json_kv_text(out, "metadataCorrelationId", df_col_text(r, batch_MetadataCorrelationId));
    df_json_kv_text(out, "refusedRule", df_col_text(r, batch_RefusedRule));
    df_json_kv_int_if(out, "refusalCount", !df_col_null(r, batch_RefusalCount),
                      df_col_int(r, batch_RefusalCount));
}

void df_batch_write(struct df_result *r, struct df_json_out *out)
{
    df_json_open(out, '{');
    write_members(r, out);
    write_wait(out, wait_of(r));
    df_json_close(out, '}');
}

static_assert((int)batch_operator_get_AckSince == (int)batch_operator_page_AckSince &&
                  (int)batch_operator_get_ClientIdentifier ==
                      (int)batch_operator_page_ClientIdentifier,
              "both rows are written by one function");

void df_batch_write_operator(struct df_result *r, struct df_json_out *out)
{
    struct wait w = wait_of(r);
    bool owned = is_owned(r);

    if (!w.what && !df_col_null(r, batch_operator_get_AckSince))
        w = (struct wait){"Acks", df_col_time(r, batch_operator_get_AckSince)};
    df_json_open(out, '{');
    df_json_kv_text(out, "clientId", df_col_text(r, batch_operator_get_ClientIdentifier));
    write_members(r, out);
    write_wait(out, w);
    df_json_kv_text(out, "lockedBy", owned ? df_col_text(r, batch_ProcessingHost) : DF_STR_NULL);
    df_json_kv_time(out, "lockedAt", owned ? df_col_time(r, batch_LockedAt) : -1);
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

/* --- operators --- */

bool df_batch_is_operator(const struct df_req *req)
{
    return !df_auth_client(req);
}

static void read_owner(void *arg, struct df_result *r)
{
    (void)df_uuid_parse(df_col_text(r, batch_owner_ClientId), arg);
}

enum df_code df_batch_scope(struct df_db *db, const struct df_req *req, const struct df_uuid *id,
                            struct df_uuid *client, struct df_err *err)
{
    bool found = false;

    if (!df_batch_is_operator(req))
        return DF_OK;
    enum df_code code = df_db_one(db, DF_Q(batch_owner, .id = df_uuid(df_uuid_str(id))), read_owner,
                                  client, &found, err);
    return code == DF_OK && !found ? df_batch_not_found(id, err) : code;
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

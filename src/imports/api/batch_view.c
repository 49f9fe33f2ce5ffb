#include "imports/api/batch_view.h"

#include "imports/api/batches.sql.h"
#include "imports/batch.h"
#include "json/scan.h"

/* Not text, not a number: what it says has names. */
enum { STATUS = DF_UUID + 1, FILE_TYPE, JSON };

/* In the order of the queries' columns. */
static const struct {
    const char *name;
    int type; /* enum df_type or one of the above */
} columns[] = {
    {"batchId", DF_TEXT},         {"status", STATUS},           {"fileName", DF_TEXT},
    {"createdAt", DF_TIME},       {"startedAt", DF_TIME},       {"completedAt", DF_TIME},
    {"totalRecords", DF_INT},     {"processedRecords", DF_INT}, {"lastError", DF_TEXT},
    {"webhookNotified", DF_BOOL}, {"fileType", FILE_TYPE},      {"fileSizeBytes", DF_INT},
    {"checksum", DF_TEXT},        {"policyDecision", DF_TEXT},  {"scheduledFor", DF_TIME},
    {"originDefault", DF_TEXT},   {"requestedBy", DF_TEXT},     {"metadata", JSON},
    {"errorCount", DF_INT},       {"skippedCount", DF_INT},     {"errorSummary", JSON},
    {"attempt", DF_INT},          {"correlationId", DF_TEXT},   {"gaveWayAt", DF_TIME},
};
_Static_assert(sizeof(columns) / sizeof(columns[0]) == DF_BATCH_COLUMNS, "as batch_view.h says");
enum { PROCESSED_COLUMN = 7, ERRORS_COLUMN = 18, SKIPPED_COLUMN = 19 };

static const char *file_type_name(int64_t type)
{
    static const char *const names[] = {"Json", "Excel", "Csv"};
    return type >= 0 && type < 3 ? names[type] : "Unknown";
}

static bool is_json(struct df_str s)
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
    if (json.ptr && is_json(json))
        df_json_raw(out, json);
    else
        df_json_null(out);
}

static void write_column(struct df_result *r, size_t i, struct df_json_out *out)
{
    df_json_key(out, columns[i].name);
    if (df_col_null(r, i))
        df_json_null(out);
    else if (columns[i].type == STATUS)
        df_json_text(out, df_str_c(df_batch_status_name(df_col_int(r, i))));
    else if (columns[i].type == FILE_TYPE)
        df_json_text(out, df_str_c(file_type_name(df_col_int(r, i))));
    else if (columns[i].type == JSON)
        df_json_stored(out, df_col_text(r, i));
    else if (columns[i].type == DF_INT)
        df_json_int(out, df_col_int(r, i));
    else if (columns[i].type == DF_BOOL)
        df_json_bool(out, df_col_bool(r, i));
    else if (columns[i].type == DF_TIME)
        df_json_time(out, df_col_time(r, i));
    else
        df_json_text(out, df_col_text(r, i));
}

void df_batch_write(struct df_result *row, struct df_json_out *out)
{
    df_json_open(out, '{');
    for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++) {
        write_column(row, i, out);
        if (i == SKIPPED_COLUMN)
            df_json_kv_int(out, "importedCount",
                           df_col_int(row, PROCESSED_COLUMN) - df_col_int(row, ERRORS_COLUMN) -
                               df_col_int(row, SKIPPED_COLUMN));
    }
    df_json_close(out, '}');
}

enum df_code df_batch_read(struct df_db *db, const struct df_uuid *id, const struct df_uuid *client,
                           struct df_json_out *out, int64_t *ret_status, struct df_err *err)
{
    struct df_result *r = NULL;
    enum df_code code =
        df_db_query(db, &df_q_batch_get,
                    DF_PARAMS(df_uuid(df_uuid_str(id)), df_uuid(df_uuid_str(client))), &r, err);

    if (code == DF_OK)
        code = df_result_step(r, err);
    if (code == DF_ROW) {
        *ret_status = df_col_int(r, 1);
        df_batch_write(r, out);
        code = DF_OK;
    } else if (code == DF_DONE) {
        code = df_batch_not_found(id, err);
    }
    df_result_free(r);
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

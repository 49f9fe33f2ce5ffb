/*
 * How uploads end, and how many a client has in progress. Before an answer is sent, the client's
 * place is free again and a refused file is removed (in the outside storage: soon), so that a
 * client with the answer may send the next file.
 */
#include "imports/receive/receive_private.h"

#include "access/usage.h"
#include "base/metrics.h"
#include "base/tally.h"
#include "imports/figures.h"
#include "json/write.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define ANSWER_MAX 4096

DF_METRIC_FAMILY(uploads_total) = {
    .name = "dataflow_uploads_total",
    .help = "Uploads by client and outcome: accepted, replayed (the same Idempotency-Key again), "
            "rejected, failed (by the server's fault), abandoned by their sender.",
    .type = DF_COUNTER,
    .labels = {"client_id", "outcome"},
};
DF_METRIC_FAMILY(upload_bytes_total) = {
    .name = "dataflow_upload_bytes_total",
    .help = "Bytes of the files that were accepted, by client.",
    .type = DF_COUNTER,
    .labels = {"client_id"},
};

void df_receive_register_metrics(void)
{
    df_metric_register(&uploads_total);
    df_metric_register(&upload_bytes_total);
    import_figures_register();
    df_receive_parts_register();
}

/* --- uploads of a client at a time --- */

/* Asks the policy, then takes a place. Two uploads may pass the policy at once;
 * df_usage_upload_begin lets only one of them take the last place. */
enum df_code df_receive_admit(struct df_receive *up, struct df_err *err)
{
    struct df_usage *usage = df_access_of(up->req)->usage;
    int64_t most = up->policy.concurrent_uploads;
    struct df_limiter_use use;

    df_usage_look(usage, &up->client_id, &use);
    up->facts.uploads = use.held;
    enum df_code code = df_policy_admit(&up->facts, &up->retry_after_s, err);
    if (code == DF_OK && up->preview)
        code = df_preview_admit(up, err);
    if (code != DF_OK)
        return code;
    up->counted = df_usage_upload_begin(usage, &up->client_id, most == DF_POLICY_NONE ? 0 : most);
    if (up->counted)
        return DF_OK;
    up->facts.uploads = most;
    return df_policy_admit(&up->facts, &up->retry_after_s, err);
}

static void release_place(struct df_receive *up)
{
    if (up->counted)
        df_usage_upload_end(df_access_of(up->req)->usage, &up->client_id);
    up->counted = false;
}

/* --- ends --- */

void df_receive_end(struct df_receive *up, enum df_receive_outcome outcome)
{
    static const char *const names[] = {
        [DF_RECEIVE_ACCEPTED] = "accepted",   [DF_RECEIVE_REPLAYED] = "replayed",
        [DF_RECEIVE_REJECTED] = "rejected",   [DF_RECEIVE_FAILED] = "failed",
        [DF_RECEIVE_ABANDONED] = "abandoned",
    };

    if (up->outcome != DF_RECEIVE_OPEN)
        return;
    up->outcome = outcome;
    release_place(up);
    if (up->preview) {
        df_preview_end(up);
        return;
    }
    df_receive_file_drop(up);
    struct df_str labels[] = {df_str_c(df_auth_client(up->req)->identifier),
                              df_str_c(names[outcome])};
    df_metric_add(df_metric_get(&uploads_total, labels), 1);
    if (outcome == DF_RECEIVE_ACCEPTED) {
        df_metric_add(df_metric_get(&upload_bytes_total, labels), (double)up->size_bytes);
        import_note_state(labels[0],
                          up->decision.scheduled ? DF_BATCH_SCHEDULED : DF_BATCH_PENDING);
        df_tally(df_uuid_str(&up->client_id), DF_STR("imports"),
                 &(struct df_tallied){.accepted = 1});
    }
}

void df_receive_reject_fields(struct df_receive *up, const struct df_err *err,
                              const struct df_field_error *fields, size_t count)
{
    bool ours = df_code_http(err->code) >= 500 && err->code != DF_E_MAINTENANCE_WINDOW;
    struct df_log_field said[] = {DF_F("code", df_str_c(df_code_name(err->code))),
                                  DF_FI("sizeBytes", up->size_bytes)};
    char retry_after[24];

    if (!up->preview)
        df_receive_refused(up, err);
    df_receive_end(up, ours ? DF_RECEIVE_FAILED : DF_RECEIVE_REJECTED);
    df_log_write(DF_LOG_INFO, up->preview ? "PreviewRejected" : "UploadRejected", said,
                 sizeof said / sizeof said[0], "%s", "");
    if (up->retry_after_s > 0) {
        (void)snprintf(retry_after, sizeof retry_after, "%" PRId64, up->retry_after_s);
        (void)df_req_add_header(up->req, "Retry-After", df_str_c(retry_after));
    }
    if (count > 0)
        df_req_problem_fields(up->req, err, fields, count);
    else
        df_req_problem(up->req, err);
}

void df_receive_reject(struct df_receive *up, const struct df_err *err)
{
    size_t count = 0;
    const struct df_field_error *fields = df_upload_errors(up->upload, &count);
    const struct df_field_error broken = {DF_STR("file"), df_str_c(err->detail)};

    if (err->code != DF_E_VALIDATION)
        df_receive_reject_fields(up, err, NULL, 0);
    else if (count > 0)
        df_receive_reject_fields(up, err, fields, count);
    else
        df_receive_reject_fields(up, err, &broken, 1); /* a problem of the file's content */
}

static void answer_accepted(struct df_receive *up, const struct df_uuid *batch, bool scheduled,
                            int64_t scheduled_for_ms)
{
    struct df_buf out;
    struct df_json_out json;
    char location[sizeof("/imports/") + DF_UUID_LEN];

    df_buf_init(&out, ANSWER_MAX);
    df_json_out_init(&json, &out);
    df_json_open(&json, '{');
    df_json_kv_text(&json, "batchId", df_uuid_str(batch));
    df_json_kv_text(&json, "status", scheduled ? DF_STR("Scheduled") : DF_STR("Pending"));
    df_json_kv_text(&json, "policyDecision", scheduled ? DF_STR("Scheduled") : DF_STR("Immediate"));
    if (scheduled)
        df_json_kv_time(&json, "scheduledFor", scheduled_for_ms);
    df_json_kv_text(&json, "message",
                    scheduled ? DF_STR("Importação agendada") : DF_STR("Importação enfileirada"));
    df_json_close(&json, '}');
    (void)snprintf(location, sizeof location, "/imports/%s", batch->text);
    (void)df_req_add_header(up->req, "Location", df_str_c(location));
    df_req_answer(up->req, 202, "application/json", &out);
}

void df_receive_answer_again(struct df_receive *up)
{
    const struct df_receive_earlier *e = &up->earlier;
    struct df_err err = DF_ERR_INIT;

    if (strcmp(e->request_checksum, up->request_checksum) != 0) {
        (void)df_err_set(&err, DF_E_IDEMPOTENCY,
                         "Idempotency-Key was used for another file or other fields, which became "
                         "batch %s. Send a new key.",
                         e->batch.text);
        df_receive_reject(up, &err);
        return;
    }
    df_receive_end(up, DF_RECEIVE_REPLAYED);
    (void)df_req_add_header(up->req, "Idempotent-Replayed", DF_STR("true"));
    answer_accepted(up, &e->batch, e->scheduled, e->scheduled_for_ms);
}

void df_receive_accept(struct df_receive *up)
{
    assert(up->outcome == DF_RECEIVE_OPEN && !up->stored); /* the file belongs to its row now */
    df_receive_end(up, DF_RECEIVE_ACCEPTED);
    answer_accepted(up, &up->batch, up->decision.scheduled, up->decision.scheduled_for_ms);
    df_imports_wake(up->receiver->imports);
}

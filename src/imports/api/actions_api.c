/*
 * What a client may do with its own batch, and an operator with any: cancel it before it is
 * started, and have its failed items tried again. An operator may also take it from its owner. All
 * read and change the row in one transaction, with the row locked, so that a worker either claims
 * the batch before or finds it changed; the entry of the audit log is in the same transaction.
 */
#include "imports/announce.h"
#include "imports/api/actions.sql.h"
#include "imports/api/batch_view.h"
#include "imports/api/mend.h"
#include "imports/api/views.h"
#include "imports/batch.h"
#include "imports/figures.h"
#include "imports/receive/receive.h"
#include "imports/routes.h"

#include <stdio.h>

#define DETAILS_MAX 4096

struct call {
    struct df_work w;
    struct df_uuid batch;
    struct df_uuid client_id;

    /* The row as it was. */
    int64_t status;
    char location[DF_STORAGE_LOCATION_MAX + 1];
    bool locked;
    bool owned;   /* by a worker that may be alive */
    bool had_all; /* it had the lock of the installation */
    int64_t attempt;
    int64_t processed;
    struct df_str host;
    struct df_str client;  /* its identifier */
    int64_t kept_until_ms; /* -1: nothing is kept, or without an end */

    int64_t items; /* that will be tried again */
    struct df_mend mend;
};

static void read_batch_row(void *arg, struct df_result *r)
{
    struct call *c = arg;

    c->status = df_col_int(r, import_action_find_Status);
    (void)snprintf(c->location, sizeof c->location, DF_STR_FMT,
                   DF_STR_ARG(df_col_text(r, import_action_find_UploadPath)));
    c->locked = !df_col_null(r, import_action_find_LockedAt);
    c->attempt = df_col_int(r, import_action_find_Attempt);
    c->processed = df_col_int(r, import_action_find_ProcessedRecords);
    c->kept_until_ms = df_col_time(r, import_action_find_KeptUntil);
    c->host =
        df_arena_str(df_req_arena(c->w.req), df_col_text(r, import_action_find_ProcessingHost));
    c->client =
        df_arena_str(df_req_arena(c->w.req), df_col_text(r, import_action_find_ClientIdentifier));
    c->owned = c->status == DF_BATCH_PROCESSING && c->locked && c->host.ptr;
}

static enum df_code find_batch(struct df_db *db, struct call *c, struct df_err *err)
{
    bool found = false;
    enum df_code code = df_batch_scope(db, c->w.req, &c->batch, &c->client_id, err);
    if (code == DF_OK)
        code = df_db_one(db,
                         DF_Q(import_action_find, .id = df_uuid(df_uuid_str(&c->batch)),
                              .client_id = df_uuid(df_uuid_str(&c->client_id))),
                         read_batch_row, c, &found, err);

    if (code == DF_OK && !found)
        code = df_batch_not_found(&c->batch, err);
    return code;
}

/* Changes the row. If it changed since it was read, the store runs the job again. */
static enum df_code change_batch(struct df_db *db, const struct df_query *q,
                                 const struct df_value *params, size_t count, struct df_err *err)
{
    int64_t changed = 0;
    enum df_code code = df_db_exec(db, q, params, count, &changed, err);

    if (code == DF_OK && changed == 0)
        code = df_err_set(err, DF_E_DB_CONFLICT, "The batch has just changed.");
    return code;
}

static enum df_code tell_audit(struct df_db *db, const struct call *c, const char *action,
                               struct df_str details, struct df_err *err)
{
    struct df_actor by = df_actor_of(c->w.req);
    return df_audit_write(db, &by, action, df_uuid_str(&c->batch), df_uuid_str(&c->client_id),
                          details, c->w.now_ms, err);
}

static bool read_batch_id(struct df_work *w, struct df_input *in)
{
    struct call *c = (struct call *)w;

    (void)in;
    if (!df_batch_param(w->req, &c->batch))
        return false;
    if (!df_batch_is_operator(w->req))
        c->client_id = df_auth_client(w->req)->id;
    df_log_ctx_set(df_req_log(w->req), "batchId", df_uuid_str(&c->batch));
    return true;
}

/* --- DELETE /imports/{batchId} --- */

static enum df_code check_cancel(struct df_db *db, struct call *c, struct df_err *err)
{
    int64_t accepted = 0;
    bool waits = c->status == DF_BATCH_PENDING || c->status == DF_BATCH_SCHEDULED;
    if (!waits || c->locked)
        return df_err_set(err, DF_E_CONFLICT,
                          "The batch is %s. Only one that has not been started can be cancelled.",
                          df_batch_status_name(waits ? DF_BATCH_PROCESSING : c->status));
    if (c->attempt > 1)
        return df_err_set(err, DF_E_CONFLICT,
                          "The batch has been processed, and its failed items wait to be tried "
                          "again. Only one that has not been started can be cancelled.");
    if (c->processed > 0)
        return df_err_set(err, DF_E_CONFLICT,
                          "%lld records of the batch have been processed. Only one that has not "
                          "been started can be cancelled.",
                          (long long)c->processed);
    enum df_code code = df_db_query_int(
        db, DF_Q(import_accepted, .id = df_uuid(df_uuid_str(&c->batch))), &accepted, err);
    if (code == DF_OK && accepted > 0)
        code = df_err_set(err, DF_E_CONFLICT,
                          "OmniFlow has accepted %lld chunks of the batch. Only one of which it "
                          "has accepted nothing can be cancelled.",
                          (long long)accepted);
    return code;
}

static enum df_code run_cancel(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct call *c = (struct call *)w;
    enum df_code code = find_batch(db, c, err);

    if (code == DF_OK)
        code = check_cancel(db, c, err);
    if (code != DF_OK)
        return code;
    code = change_batch(db,
                        DF_Q(import_cancel, .now = df_time(df_wall_ms(w->access->clock)),
                             .id = df_uuid(df_uuid_str(&c->batch))),
                        err);
    return code == DF_OK ? tell_audit(db, c, "ImportCancelled", DF_STR_NULL, err) : code;
}

static void batch_cancelled(struct df_work *w)
{
    const struct call *c = (const struct call *)w;
    const struct df_import_views *views = w->arg;

    import_note_state(c->client, DF_BATCH_CANCELLED);
    df_log_info("BatchCancelled", "it was %s", df_batch_status_name(c->status));
    df_receiver_remove(views->receiver, &c->batch, c->location);
}

static const struct df_handler cancel = {
    .size = sizeof(struct call),
    .writes = true,
    .status = 204,
    .prepare = read_batch_id,
    .run = run_cancel,
    .done = batch_cancelled,
};

/* --- POST /imports/{batchId}/retry --- */

static bool is_expired(const struct call *c)
{
    return c->kept_until_ms >= 0 && c->kept_until_ms <= c->w.now_ms;
}

/* There is no item that can be tried again: says why. */
static enum df_code refuse_retry(struct df_db *db, const struct call *c, struct df_err *err)
{
    const struct df_value id = df_uuid(df_uuid_str(&c->batch));
    int64_t sent = 0, erased = 0;
    enum df_code code = df_db_query_int(db, DF_Q(import_retry_sent, .id = id), &sent, err);

    if (code == DF_OK)
        code = df_db_query_int(
            db, DF_Q(import_retry_erased, .id = id, .erased = df_text(DF_STR("{\"erased\":true}"))),
            &erased, err);
    if (code != DF_OK)
        return code;
    if (erased > 0)
        return df_err_set(err, DF_E_ERASED, "The failed records of the batch were erased.");
    if (sent > 0)
        return df_err_set(err, DF_E_PAYLOAD_EXPIRED,
                          "The failed records of the batch were kept for a time, which is over. "
                          "Correct them and send them as a new batch.");
    if (c->status == DF_BATCH_FAILED)
        return df_err_set(err, DF_E_CONFLICT,
                          "No item of the batch was sent, so there is none to try again. Correct "
                          "the file and send it as a new batch.");
    return df_err_set(
        err, DF_E_CONFLICT,
        "The batch's failed items were not fit to be sent, and trying again would not "
        "change that. Correct them and send them as a new batch.");
}

static enum df_code check_state(const struct call *c, struct df_err *err)
{
    if (c->status != DF_BATCH_COMPLETED_WITH_ERRORS && c->status != DF_BATCH_FAILED)
        return df_err_set(
            err, DF_E_CONFLICT,
            "The batch is %s. Only items of one that is CompletedWithErrors or Failed "
            "can be tried again.",
            df_batch_status_name(c->status));
    return DF_OK;
}

static enum df_code check_retry(struct df_db *db, struct call *c, struct df_err *err)
{
    enum df_code code =
        df_db_query_int(db,
                        DF_Q(import_retry_items, .expired = df_int(is_expired(c)),
                             .id = df_uuid(df_uuid_str(&c->batch)), .masked = df_bool(false)),
                        &c->items, err);
    return code != DF_OK || c->items > 0 ? code : refuse_retry(db, c, err);
}

/* The time of what is kept stands still until the retry is over. */
static struct df_value kept_left(const struct call *c)
{
    if (c->kept_until_ms < 0)
        return df_null(DF_INT);
    return df_int(is_expired(c) ? 0 : c->kept_until_ms - c->w.now_ms);
}

static enum df_code run_retry(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct call *c = (struct call *)w;
    const struct df_value id = df_uuid(df_uuid_str(&c->batch));
    int64_t from_chunk = 0;

    enum df_code code = find_batch(db, c, err);
    if (code == DF_OK)
        code = check_state(c, err);
    if (code == DF_OK && c->mend.count > 0)
        code = df_mend_run(db, &c->mend, ((const struct df_import_views *)w->arg)->imports, w->req,
                           &c->batch, is_expired(c), w->now_ms, err);
    if (code == DF_OK)
        code = check_retry(db, c, err);
    if (code == DF_OK)
        code = df_db_query_int(db, DF_Q(import_retry_from, .id = id), &from_chunk, err);
    if (code != DF_OK)
        return code;
    code =
        change_batch(db,
                     DF_Q(import_retry, .from_chunk = df_int(from_chunk), .kept_left = kept_left(c),
                          .now = df_time(w->now_ms), .id = id, .attempt = df_int(c->attempt)),
                     err);
    if (code == DF_OK)
        code = import_announce(db, ((const struct df_import_views *)w->arg)->imports, &c->batch,
                               "retried", err);
    if (code != DF_OK || c->mend.count == 0)
        return code == DF_OK ? tell_audit(db, c, "ImportRetried", DF_STR_NULL, err) : code;
    return tell_audit(db, c, "ImportRetried",
                      df_arena_printf(df_req_arena(w->req), "{\"mended\":%zu}", c->mend.count),
                      err);
}

static bool read_retry(struct df_work *w, struct df_input *in)
{
    return read_batch_id(w, in) && df_mend_read(&((struct call *)w)->mend, w->req, in);
}

/* What is wrong with the new values is told field by field. */
static bool answer_bad_values(struct df_work *w, enum df_code code, const struct df_err *err)
{
    const struct call *c = (const struct call *)w;

    if (code == DF_E_VALIDATION && c->mend.error_count > 0)
        df_req_problem_fields(w->req, err, c->mend.errors, c->mend.error_count);
    return false;
}

static void batch_retried(struct df_work *w)
{
    const struct call *c = (const struct call *)w;
    const struct df_import_views *views = w->arg;
    struct df_log_field said[] = {DF_FI("attempt", c->attempt + 1), DF_FI("items", c->items),
                                  DF_FI("mended", c->mend.count)};

    import_note_state(c->client, DF_BATCH_PENDING);
    df_log_write(DF_LOG_INFO, "BatchRetryRequested", said, 3, "%s", "");
    df_imports_wake(views->imports);
    df_json_open(&w->json, '{');
    df_json_kv_text(&w->json, "batchId", df_uuid_str(&c->batch));
    df_json_kv_text(&w->json, "status", DF_STR("Pending"));
    df_json_kv_int(&w->json, "attempt", c->attempt + 1);
    df_json_kv_int(&w->json, "items", c->items);
    if (c->mend.count > 0)
        df_json_kv_int(&w->json, "mended", (int64_t)c->mend.count);
    df_json_kv_text(&w->json, "message", DF_STR("Nova tentativa enfileirada"));
    df_json_close(&w->json, '}');
}

static const struct df_handler retry = {
    .size = sizeof(struct call),
    .writes = true,
    .status = 202,
    .prepare = read_retry,
    .run = run_retry,
    .pass_on = answer_bad_values,
    .done = batch_retried,
};

/* --- POST /admin/imports/{batchId}/release --- */

static enum df_code run_release(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct call *c = (struct call *)w;
    const struct df_value id = df_uuid(df_uuid_str(&c->batch));
    struct df_json_out details;
    struct df_buf text;
    int64_t freed = 0;

    enum df_code code = find_batch(db, c, err);
    if (code != DF_OK)
        return code;
    if (!c->owned)
        return df_err_set(err, DF_E_CONFLICT, "The batch is %s and has no lock.",
                          df_batch_status_name(c->status));
    code = change_batch(db, DF_Q(import_release, .now = df_time(w->now_ms), .id = id), err);
    if (code == DF_OK)
        code = df_db_exec(db, DF_Q(import_release_lock, .locked = df_bool(false), .id = id), &freed,
                          err);
    if (code == DF_OK)
        code = import_announce(db, ((const struct df_import_views *)w->arg)->imports, &c->batch,
                               "released", err);
    if (code != DF_OK)
        return code;
    c->had_all = freed > 0;
    df_buf_init(&text, DETAILS_MAX);
    df_json_out_init(&details, &text);
    df_json_open(&details, '{');
    df_json_kv_text(&details, "lockedBy", c->host);
    df_json_close(&details, '}');
    code = tell_audit(db, c, "ImportReleased", df_buf_str(&text), err);
    df_buf_release(&text);
    return code;
}

static void batch_released(struct df_work *w)
{
    const struct call *c = (const struct call *)w;
    const struct df_import_views *views = w->arg;
    struct df_log_field said[] = {DF_F("lockedBy", c->host)};

    df_log_write(DF_LOG_WARN, "BatchLockReleased", said, 1, "by an operator");
    df_imports_break_lock(views->imports, &c->client_id, &c->batch, c->had_all);
    df_imports_wake(views->imports);
    df_json_open(&w->json, '{');
    df_json_kv_text(&w->json, "batchId", df_uuid_str(&c->batch));
    df_json_kv_text(&w->json, "status", DF_STR("Processing"));
    df_json_kv_text(&w->json, "releasedFrom", c->host);
    df_json_close(&w->json, '}');
}

static const struct df_handler release = {
    .size = sizeof(struct call),
    .writes = true,
    .prepare = read_batch_id,
    .run = run_release,
    .done = batch_released,
};

#define ADMIN(m, path, kind, h)                                                                    \
    DF_ROUTE(m, "/admin/imports/{batchId}" path, kind, DF_ACCESS_ADMIN, DF_NEEDS_OPERATE, h)
#define ROUTE(m, path, kind, h)                                                                    \
    DF_ROUTE(m, "/imports/{batchId}" path, kind, DF_ACCESS_CLIENT, "imports", h)

const struct df_route df_imports_action_routes[] = {
    ROUTE("DELETE", "", DF_BODY_NONE, cancel),       ROUTE("POST", "/retry", DF_BODY_ANY, retry),
    ADMIN("DELETE", "", DF_BODY_NONE, cancel),       ADMIN("POST", "/retry", DF_BODY_ANY, retry),
    ADMIN("POST", "/release", DF_BODY_ANY, release), {.method = NULL},
};

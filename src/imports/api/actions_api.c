/*
 * What a client may do to a batch of its own: cancel it while nobody has begun, and have its failed
 * items tried again. Both look at the row and change it in one transaction, with the row held, so
 * that a worker either claims the batch before or finds it changed.
 */
#include "access/services.h"
#include "imports/api/actions.sql.h"
#include "imports/batch.h"
#include "imports/receive/receive.h"
#include "imports/routes.h"
#include "json/write.h"

#include <stdio.h>

#define ANSWER_MAX 4096

/* Lives in the request's arena. */
struct call {
    struct df_job job;
    struct df_req *req;
    const struct df_services *services;
    struct df_uuid batch;
    struct df_uuid client_id;

    /* The row as it was. */
    int64_t status;
    char location[DF_STORAGE_LOCATION_MAX + 1];
    bool locked;
    int64_t attempt;

    int64_t items; /* to be tried again */
};

static enum df_code find(struct df_db *db, struct call *c, struct df_err *err)
{
    struct df_result *r = NULL;
    enum df_code code = df_db_query(
        db, &df_q_import_action_find,
        DF_PARAMS(df_uuid(df_uuid_str(&c->batch)), df_uuid(df_uuid_str(&c->client_id))), &r, err);

    if (code == DF_OK)
        code = df_result_step(r, err);
    if (code == DF_ROW) {
        c->status = df_col_int(r, 0);
        (void)snprintf(c->location, sizeof c->location, DF_STR_FMT, DF_STR_ARG(df_col_text(r, 1)));
        c->locked = !df_col_null(r, 2);
        c->attempt = df_col_int(r, 3);
    }
    df_result_free(r);
    if (code == DF_DONE)
        return df_err_set(err, DF_E_NOT_FOUND, "There is no such batch.");
    return code == DF_ROW ? DF_OK : code;
}

/* A row that is not as it was found is looked at again. */
static enum df_code change(struct df_db *db, const struct df_query *q,
                           const struct df_value *params, size_t count, struct df_err *err)
{
    int64_t changed = 0;
    enum df_code code = df_db_exec(db, q, params, count, &changed, err);

    if (code == DF_OK && changed == 0)
        code = df_err_set(err, DF_E_DB_CONFLICT, "The batch has just changed.");
    return code;
}

static void submit(struct df_req *req,
                   enum df_code (*run)(struct df_db *, struct df_job *, struct df_err *),
                   void (*done)(struct df_job *, enum df_code, const struct df_err *))
{
    struct call *c = DF_ARENA_NEW(df_req_arena(req), struct call);

    if (!df_uuid_parse(df_req_param(req, "batchId"), &c->batch)) {
        df_req_fail(req, DF_E_NOT_FOUND, "There is no such batch.");
        return;
    }
    c->req = req;
    c->services = df_services_of(req);
    c->client_id = df_auth_client(req)->id;
    c->job.run = run;
    c->job.done = done;
    df_log_ctx_set(df_req_log(req), "batchId", df_uuid_str(&c->batch));
    df_req_write(req, &c->job);
}

/* --- DELETE /imports/{batchId} --- */

static enum df_code run_cancel(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct call *c = (struct call *)job;
    enum df_code code = find(db, c, err);

    if (code != DF_OK)
        return code;
    bool waits = c->status == DF_BATCH_PENDING || c->status == DF_BATCH_SCHEDULED;
    if (!waits || c->locked)
        return df_err_set(err, DF_E_CONFLICT,
                          "The batch is %s. Only one that has not been started can be cancelled.",
                          df_batch_status_name(waits ? DF_BATCH_PROCESSING : c->status));
    if (c->attempt > 1)
        return df_err_set(err, DF_E_CONFLICT,
                          "The batch has been processed, and its failed items wait to be tried "
                          "again. Only one that has not been started can be cancelled.");
    return change(
        db, &df_q_import_cancel,
        DF_PARAMS(df_time(df_wall_ms(c->services->clock)), df_uuid(df_uuid_str(&c->batch))), err);
}

static void cancel_done(struct df_job *job, enum df_code code, const struct df_err *err)
{
    struct call *c = (struct call *)job;

    if (code == DF_OK) {
        df_log_info("BatchCancelled", "it was %s", df_batch_status_name(c->status));
        df_receiver_remove(c->services->receiver, &c->batch, c->location);
        df_req_answer_empty(c->req, 204);
    } else {
        df_req_problem(c->req, err);
    }
    df_req_resume(c->req);
}

static void handle_cancel(struct df_req *req)
{
    submit(req, run_cancel, cancel_done);
}

/* --- POST /imports/{batchId}/retry --- */

static enum df_code check_retry(struct df_db *db, struct call *c, struct df_err *err)
{
    if (c->status != DF_BATCH_COMPLETED_WITH_ERRORS && c->status != DF_BATCH_FAILED)
        return df_err_set(
            err, DF_E_CONFLICT,
            "The batch is %s. Only items of one that is CompletedWithErrors or Failed "
            "can be tried again.",
            df_batch_status_name(c->status));
    enum df_code code =
        df_db_query_int(db, &df_q_import_retry_items,
                        DF_PARAMS(df_uuid(df_uuid_str(&c->batch)), df_bool(false)), &c->items, err);
    if (code != DF_OK || c->items > 0)
        return code;
    if (c->status == DF_BATCH_FAILED)
        return df_err_set(err, DF_E_CONFLICT,
                          "No item of the batch was sent, so there is none to try again. Correct "
                          "the file and send it as a new batch.");
    return df_err_set(
        err, DF_E_CONFLICT,
        "The batch's failed items were not fit to be sent, and trying again would not "
        "change that. Correct them and send them as a new batch.");
}

static enum df_code run_retry(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct call *c = (struct call *)job;
    const struct df_value id = df_uuid(df_uuid_str(&c->batch));
    int64_t from_chunk = 0;

    enum df_code code = find(db, c, err);
    if (code == DF_OK)
        code = check_retry(db, c, err);
    if (code == DF_OK)
        code = df_db_query_int(db, &df_q_import_retry_from, DF_PARAMS(id), &from_chunk, err);
    if (code != DF_OK)
        return code;
    return change(db, &df_q_import_retry,
                  DF_PARAMS(df_int(from_chunk), df_time(df_wall_ms(c->services->clock)), id,
                            df_int(c->attempt)),
                  err);
}

static void answer_retry(struct call *c)
{
    struct df_buf out;
    struct df_json_out json;

    df_buf_init(&out, ANSWER_MAX);
    df_json_out_init(&json, &out);
    df_json_open(&json, '{');
    df_json_kv_text(&json, "batchId", df_uuid_str(&c->batch));
    df_json_kv_text(&json, "status", DF_STR("Pending"));
    df_json_kv_int(&json, "attempt", c->attempt + 1);
    df_json_kv_int(&json, "items", c->items);
    df_json_kv_text(&json, "message", DF_STR("Nova tentativa enfileirada"));
    df_json_close(&json, '}');
    df_req_answer(c->req, 202, "application/json", &out);
}

static void retry_done(struct df_job *job, enum df_code code, const struct df_err *err)
{
    struct call *c = (struct call *)job;

    if (code == DF_OK) {
        struct df_log_field said[] = {DF_FI("attempt", c->attempt + 1), DF_FI("items", c->items)};
        df_log_write(DF_LOG_INFO, "BatchRetryRequested", said, 2, "%s", "");
        answer_retry(c);
        df_imports_wake(c->services->imports);
    } else {
        df_req_problem(c->req, err);
    }
    df_req_resume(c->req);
}

static void handle_retry(struct df_req *req)
{
    submit(req, run_retry, retry_done);
}

const struct df_route df_imports_action_routes[] = {
    {.method = "DELETE",
     .pattern = "/imports/{batchId}",
     .access = DF_ACCESS_CLIENT,
     .scope = "imports",
     .body = DF_BODY_NONE,
     .handle = handle_cancel},
    {.method = "POST",
     .pattern = "/imports/{batchId}/retry",
     .access = DF_ACCESS_CLIENT,
     .scope = "imports",
     .body = DF_BODY_ANY,
     .handle = handle_retry},
    {.method = NULL},
};

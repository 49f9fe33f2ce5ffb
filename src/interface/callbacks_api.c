/*
 * /api/tickets/callback: what the gateway made of a ticket that was sent to it.
 *
 * The last callback counts. The same bytes again change nothing, not even the time of receipt.
 */
#include "interface/interface.h"
#include "interface/payload.h"
#include "interface/tickets.sql.h"
#include "net/input.h"
#include "json/write.h"

#define ANSWER_MAX 4096

/* Lives in the request's arena. */
struct call {
    struct df_job job;
    struct df_req *req;
    struct df_callback callback;
    int64_t now_ms;
    struct df_str status; /* CallbackStatus, as it is now */
};

/* *ret_same: the ticket has this callback already; c->status is then what it has. */
static enum df_code find(struct df_db *db, struct call *c, int64_t *ret_id, bool *ret_same,
                         struct df_err *err)
{
    const struct df_callback *b = &c->callback;
    struct df_result *r = NULL;
    enum df_code code = df_db_query(
        db, &df_q_callback_find,
        DF_PARAMS(df_text(b->business_entity), df_text(b->business_doc_id), df_int(b->phase_code)),
        &r, err);
    if (code == DF_OK)
        code = df_result_step(r, err);
    if (code == DF_ROW) {
        *ret_id = df_col_int(r, 0);
        *ret_same = !df_col_null(r, 2) && df_str_eq(df_col_text(r, 2), df_req_body(c->req));
        c->status = *ret_same ? df_arena_str(df_req_arena(c->req), df_col_text(r, 1)) : b->state;
        code = DF_OK;
    } else if (code == DF_DONE) {
        code = df_err_set(err, DF_E_NOT_FOUND, "There is no such ticket.");
    }
    df_result_free(r);
    return code;
}

static enum df_code run(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct call *c = (struct call *)job;
    const struct df_callback *b = &c->callback;
    int64_t id = 0;
    bool same = false;

    enum df_code code = find(db, c, &id, &same, err);
    if (code != DF_OK || same)
        return code;
    return df_db_exec(db, &df_q_callback_set,
                      DF_PARAMS(df_text(c->status), df_time(c->now_ms),
                                df_text(df_req_body(c->req)), df_text(b->message), df_text(b->code),
                                df_int(id)),
                      NULL, err);
}

static void done(struct df_job *job, enum df_code code, const struct df_err *err)
{
    struct call *c = (struct call *)job;
    struct df_buf out;
    struct df_json_out json;

    if (code != DF_OK) {
        df_req_problem(c->req, err);
        df_req_resume(c->req);
        return;
    }
    df_buf_init(&out, ANSWER_MAX);
    df_json_out_init(&json, &out);
    df_json_open(&json, '{');
    df_json_kv_text(&json, "businessEntity", c->callback.business_entity);
    df_json_kv_text(&json, "businessDocId", c->callback.business_doc_id);
    df_json_kv_int(&json, "phaseCode", c->callback.phase_code);
    df_json_kv_text(&json, "callbackStatus", c->status);
    df_json_close(&json, '}');
    df_req_answer(c->req, 200, "application/json", &out);
    df_req_resume(c->req);
}

static void handle(struct df_req *req)
{
    struct call *c = DF_ARENA_NEW(df_req_arena(req), struct call);
    struct df_input in;

    if (!df_input_json(&in, req))
        return;
    df_callback_read(&in, &c->callback);
    if (!df_input_ok(&in, req))
        return;
    c->req = req;
    c->now_ms = df_wall_ms(df_services_of(req)->clock);
    c->job.run = run;
    c->job.done = done;
    df_req_write(req, &c->job);
}

const struct df_route df_callback_routes[] = {
    {.method = "POST",
     .pattern = "/api/tickets/callback",
     .body = DF_BODY_JSON,
     .access = DF_ACCESS_CLIENT,
     .scope = "callback",
     .handle = handle},
    {.method = NULL},
};

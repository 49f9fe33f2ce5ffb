/* /api/functional-ack: acks that callers want sent, and what has become of them. */
#include "interface/acks.h"

#include "interface/acks.sql.h"
#include "interface/interface.h"
#include "interface/owners.h"
#include "interface/payload.h"
#include "net/input.h"
#include "json/write.h"

/* 200 rows with an error of 2000 characters each, and a payload of 1000 headers, have room. */
#define ANSWER_MAX (4 << 20)
#define ACK_MAX                                                                                    \
    (1 << 20) /* with a header for each of a thousand applications it is half of that              \
               */

/* One call on its way. Lives in the request's arena. */
struct call {
    struct df_job job;
    struct df_req *req;
    const struct df_services *services;
    struct df_reach reach;
    struct df_str business_entity; /* absent: the ack names none */
    struct df_str business_doc_id;
    struct df_str payload;
    int64_t now_ms;
    int64_t id;
    struct df_page page;
    struct df_buf out;
    struct df_json_out json;
};

static struct call *call_new(struct df_req *req)
{
    struct call *c = DF_ARENA_NEW(df_req_arena(req), struct call);
    c->req = req;
    c->services = df_services_of(req);
    c->reach = df_reach_of(req);
    c->now_ms = df_wall_ms(c->services->clock);
    df_req_buf(req, &c->out, ANSWER_MAX);
    df_json_out_init(&c->json, &c->out);
    return c;
}

static void finish(struct call *c, unsigned status, enum df_code code, const struct df_err *err)
{
    df_req_finish(c->req, status, &c->out, code, err);
}

enum df_code df_ack_enqueue(struct df_db *db, struct df_str business_doc_id, struct df_str payload,
                            struct df_str target_url, struct df_str client_id, int64_t now_ms,
                            int64_t *ret_id, struct df_err *err)
{
    return df_db_query_int(db, &df_q_functional_ack_insert,
                           DF_PARAMS(df_text(business_doc_id), df_text(payload),
                                     df_text(target_url.ptr ? target_url : DF_STR("")),
                                     df_time(now_ms), df_uuid(client_id)),
                           ret_id, err);
}

/* --- POST /api/functional-ack --- */

/* False: it became too long, the answer is set. Half a document is never sent. */
static bool build(struct call *c, const struct df_ack *ack)
{
    const struct df_interface_options *opt = df_interface_options_of(c->services->interface);
    struct df_buf payload;
    df_buf_init(&payload, ACK_MAX);
    df_ack_build(ack, df_str_c(opt->settings.ack_business_application), &payload);
    bool whole = !df_buf_failed(&payload);
    if (whole)
        c->payload = df_arena_str(df_req_arena(c->req), df_buf_str(&payload));
    else
        df_req_fail(c->req, DF_E_TOO_LARGE, "The ack would have more than %d bytes.", ACK_MAX);
    df_buf_release(&payload);
    return whole;
}

/*
 * *ret: whose document it is; where there are several under the key, the caller's own comes before
 * others. An ack about a document that is not here is its sender's.
 */
static enum df_code find_owner(struct df_db *db, const struct call *c, struct df_str *ret,
                               struct df_err *err)
{
    struct df_result *r = NULL;
    bool found = false;
    bool own = false;
    enum df_code code =
        df_db_query(db, &df_q_functional_ack_documents,
                    DF_PARAMS(df_text(c->business_entity), df_text(c->business_doc_id)), &r, err);
    if (code != DF_OK)
        return code;
    *ret = c->reach.client_id;
    while (!own && (code = df_result_step(r, err)) == DF_ROW) {
        struct df_str owner = df_col_text(r, 0);
        own = owner.ptr && df_str_ieq(owner, c->reach.client_id);
        if (own || !found)
            *ret = df_arena_str(df_req_arena(c->req), owner);
        found = true;
    }
    df_result_free(r);
    if (code != DF_DONE && code != DF_ROW)
        return code;
    return found && !df_reach_has(&c->reach, *ret) ? df_reach_refuse(err, "document") : DF_OK;
}

static enum df_code run_post(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct call *c = (struct call *)job;
    const struct df_interface_options *opt = df_interface_options_of(c->services->interface);
    struct df_str owner;
    enum df_code code = find_owner(db, c, &owner, err);
    if (code != DF_OK)
        return code;
    return df_ack_enqueue(db, c->business_doc_id, c->payload,
                          df_str_c(opt->settings.functional_ack_url), owner, c->now_ms, &c->id,
                          err);
}

static void post_done(struct df_job *job, enum df_code code, const struct df_err *err)
{
    struct call *c = (struct call *)job;
    if (code == DF_OK) {
        df_interface_wake(c->services->interface, DF_WORK_ACKS);
        df_json_open(&c->json, '{');
        df_json_kv_int(&c->json, "id", c->id);
        df_json_kv_text(&c->json, "businessDocId", c->business_doc_id);
        df_json_kv_text(&c->json, "status", DF_STR("Pending"));
        df_json_close(&c->json, '}');
    }
    finish(c, 202, code, err);
}

static void handle_post(struct df_req *req)
{
    struct call *c = call_new(req);
    struct df_input in;
    struct df_ack ack;
    if (!df_input_json(&in, req))
        return;
    df_ack_read(&in, &ack, &c->payload);
    if (!df_input_ok(&in, req))
        return;
    c->business_entity = ack.doc.business_entity;
    c->business_doc_id = ack.doc.business_doc_id;
    if (!c->payload.ptr && !build(c, &ack))
        return;
    df_log_ctx_set(df_req_log(req), "businessDocId", c->business_doc_id);
    c->job.run = run_post;
    c->job.done = post_done;
    df_req_write(req, &c->job);
}

/* --- GET /api/functional-ack --- */

static void write_row(struct df_result *r, struct df_json_out *out)
{
    df_json_open(out, '{');
    df_json_kv_int(out, "id", df_col_int(r, 0));
    df_json_kv_text(out, "businessDocId", df_col_text(r, 1));
    df_json_kv_text(out, "targetUrl", df_col_text(r, 2));
    df_json_kv_text(out, "status", df_col_text(r, 3));
    df_json_kv_int(out, "attemptCount", df_col_int(r, 4));
    df_json_kv_time(out, "createdAt", df_col_time(r, 5));
    df_json_kv_time(out, "lastAttemptAt", df_col_time(r, 6));
    df_json_kv_time(out, "sentAt", df_col_time(r, 7));
    df_json_kv_time(out, "nextAttemptAt", df_col_time(r, 8));
    df_json_kv_text(out, "lastError", df_col_text(r, 9));
    df_json_close(out, '}');
}

static enum df_code write_rows(struct df_db *db, struct call *c, const struct df_query *q,
                               const struct df_value *params, size_t count, struct df_err *err)
{
    struct df_result *r = NULL;
    enum df_code code = df_db_query(db, q, params, count, &r, err);
    if (code != DF_OK)
        return code;
    while ((code = df_result_step(r, err)) == DF_ROW)
        write_row(r, &c->json);
    df_result_free(r);
    return code == DF_DONE ? DF_OK : code;
}

/* It may run again: the answer is begun afresh. */
static enum df_code run_get(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct call *c = (struct call *)job;
    bool all = c->reach.all;
    struct df_value params[4] = {df_text(c->business_doc_id)};
    size_t n = 1;

    if (!all)
        params[n++] = df_reach_client(&c->reach);
    enum df_code code =
        df_db_query_int(db, all ? &df_q_functional_ack_count : &df_q_own_functional_ack_count,
                        params, n, &c->page.total, err);
    if (code != DF_OK)
        return code;
    params[n++] = df_int(c->page.size);
    params[n++] = df_int(c->page.offset);
    df_buf_reset(&c->out);
    df_json_out_init(&c->json, &c->out);
    df_page_open(&c->json);
    code = write_rows(db, c, all ? &df_q_functional_ack_list : &df_q_own_functional_ack_list,
                      params, n, err);
    df_page_close(&c->page, &c->json);
    return code;
}

static void get_done(struct df_job *job, enum df_code code, const struct df_err *err)
{
    finish((struct call *)job, 200, code, err);
}

static void handle_get(struct df_req *req)
{
    struct call *c = call_new(req);
    struct df_input in;
    df_input_init(&in, df_req_arena(req), NULL);
    c->business_doc_id = df_input_filter(req, "businessDocId");
    if (c->business_doc_id.len == 0)
        df_input_error(&in, "businessDocId", "is required");
    if (!df_input_ok(&in, req) || !df_input_page(req, &c->page))
        return;
    c->job.run = run_get;
    c->job.done = get_done;
    df_req_read(req, &c->job);
}

const struct df_route df_ack_routes[] = {
    {.method = "POST",
     .pattern = "/api/functional-ack",
     .access = DF_ACCESS_CLIENT,
     .scope = "interface",
     .body = DF_BODY_JSON,
     .handle = handle_post},
    {.method = "GET",
     .pattern = "/api/functional-ack",
     .access = DF_ACCESS_CLIENT,
     .scope = "interface",
     .body = DF_BODY_NONE,
     .handle = handle_get},
    {.method = NULL},
};

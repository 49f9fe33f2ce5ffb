/* /api/functional-ack: acks that callers want sent, and what has become of them. */
#include "interface/acks.h"

#include "access/handler.h"
#include "interface/acks.sql.h"
#include "interface/interface.h"
#include "interface/owners.h"
#include "interface/payload.h"

/* 200 rows with an error of 2000 characters each, and a payload of 1000 headers, have room. */
#define ANSWER_MAX (4 << 20)
#define ACK_MAX                                                                                    \
    (1 << 20) /* with a header for each of a thousand applications it is half of that              \
               */

struct call {
    struct df_work w; /* its arg is the interface */
    struct df_reach reach;
    struct df_str business_entity; /* absent: the ack names none */
    struct df_str business_doc_id;
    struct df_str payload;
    int64_t id;
};

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
    const struct df_interface_options *opt = df_interface_options_of(c->w.arg);
    struct df_buf payload;
    df_buf_init(&payload, ACK_MAX);
    df_ack_build(ack, df_str_c(opt->settings.ack_business_application), &payload);
    bool whole = !df_buf_failed(&payload);
    if (whole)
        c->payload = df_arena_str(df_req_arena(c->w.req), df_buf_str(&payload));
    else
        df_req_fail(c->w.req, DF_E_TOO_LARGE, "The ack would have more than %d bytes.", ACK_MAX);
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
            *ret = df_arena_str(df_req_arena(c->w.req), owner);
        found = true;
    }
    df_result_free(r);
    if (code != DF_DONE && code != DF_ROW)
        return code;
    return found && !df_reach_has(&c->reach, *ret) ? df_reach_refuse(err, "document") : DF_OK;
}

static enum df_code run_post(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct call *c = (struct call *)w;
    const struct df_interface_options *opt = df_interface_options_of(w->arg);
    struct df_str owner;
    enum df_code code = find_owner(db, c, &owner, err);
    if (code != DF_OK)
        return code;
    return df_ack_enqueue(db, c->business_doc_id, c->payload,
                          df_str_c(opt->settings.functional_ack_url), owner, w->now_ms, &c->id,
                          err);
}

static void posted(struct df_work *w)
{
    const struct call *c = (const struct call *)w;

    df_interface_wake(w->arg, DF_WORK_ACKS);
    df_json_open(&w->json, '{');
    df_json_kv_int(&w->json, "id", c->id);
    df_json_kv_text(&w->json, "businessDocId", c->business_doc_id);
    df_json_kv_text(&w->json, "status", DF_STR("Pending"));
    df_json_close(&w->json, '}');
}

static bool read_ack(struct df_work *w, struct df_input *in)
{
    struct call *c = (struct call *)w;
    struct df_ack ack;

    if (!df_input_json(in, w->req))
        return false;
    df_ack_read(in, &ack, &c->payload);
    if (in->error_count > 0)
        return true;
    c->reach = df_reach_of(w->req);
    c->business_entity = ack.doc.business_entity;
    c->business_doc_id = ack.doc.business_doc_id;
    df_log_ctx_set(df_req_log(w->req), "businessDocId", c->business_doc_id);
    return c->payload.ptr || build(c, &ack);
}

static const struct df_handler post = {
    .size = sizeof(struct call),
    .writes = true,
    .status = 202,
    .prepare = read_ack,
    .run = run_post,
    .done = posted,
};

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
        write_row(r, &c->w.json);
    df_result_free(r);
    return code == DF_DONE ? DF_OK : code;
}

static enum df_code run_get(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct call *c = (struct call *)w;
    bool all = c->reach.all;
    struct df_value params[4] = {df_text(c->business_doc_id)};
    size_t n = 1;

    if (!all)
        params[n++] = df_reach_client(&c->reach);
    enum df_code code =
        df_db_query_int(db, all ? &df_q_functional_ack_count : &df_q_own_functional_ack_count,
                        params, n, &w->page.total, err);
    if (code != DF_OK)
        return code;
    params[n++] = df_int(w->page.size);
    params[n++] = df_int(w->page.offset);
    df_page_open(&w->json);
    code = write_rows(db, c, all ? &df_q_functional_ack_list : &df_q_own_functional_ack_list,
                      params, n, err);
    df_page_close(&w->page, &w->json);
    return code;
}

static bool read_question(struct df_work *w, struct df_input *in)
{
    struct call *c = (struct call *)w;

    c->reach = df_reach_of(w->req);
    c->business_doc_id = df_input_filter(w->req, "businessDocId");
    if (c->business_doc_id.len == 0)
        df_input_error(in, "businessDocId", "is required");
    return true;
}

static const struct df_handler get = {
    .size = sizeof(struct call),
    .paged = true,
    .max_answer = ANSWER_MAX,
    .prepare = read_question,
    .run = run_get,
};

#define ROUTE(m, kind, h) DF_ROUTE(m, "/api/functional-ack", kind, DF_ACCESS_CLIENT, "interface", h)

const struct df_route df_ack_routes[] = {
    ROUTE("POST", DF_BODY_JSON, post),
    ROUTE("GET", DF_BODY_NONE, get),
    {.method = NULL},
};

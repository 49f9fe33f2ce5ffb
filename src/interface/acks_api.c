/* /api/functional-ack: acks that callers want sent, and their states. */
#include "interface/acks.h"

#include "access/handler.h"
#include "base/tally.h"
#include "interface/acks.sql.h"
#include "interface/interface.h"
#include "interface/owners.h"
#include "interface/payload.h"
#include "privacy/subjects.h"

#define ANSWER_MAX (4 << 20) /* 200 rows with an error of 2000 characters each fit */
#define ACK_MAX    (1 << 20) /* an ack with a thousand headers is half as long */

struct call {
    struct df_work w; /* its arg is the interface */
    struct df_reach reach;
    struct df_str business_entity; /* absent: the ack names none */
    struct df_str business_doc_id;
    struct df_str payload;
    struct df_subjects people; /* whom the payload names */
    int64_t id;
    struct df_str owner; /* the client of its document */
};

enum df_code df_ack_enqueue(struct df_db *db, struct df_str business_doc_id, struct df_str payload,
                            struct df_str target_url, struct df_str client_id,
                            const struct df_trace *trace, int64_t now_ms, int64_t *ret_id,
                            struct df_err *err)
{
    return df_db_query_int(db,
                           DF_Q(functional_ack_insert, .business_doc_id = df_text(business_doc_id),
                                .payload = df_text(payload),
                                .target_url = df_text(target_url.ptr ? target_url : DF_STR("")),
                                .now = df_time(now_ms), .client = df_uuid(client_id),
                                .trace = df_text(df_trace_parent(trace))),
                           ret_id, err);
}

/* --- POST /api/functional-ack --- */

/* Builds the payload. False: it is too long, and the answer is set. */
static bool build_payload(struct call *c, const struct df_ack *ack)
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

struct owner_search {
    const struct call *call;
    struct df_str owner;
    bool found;
    bool own;
};

/* If the key has several documents, the caller's own comes first. */
static void read_owner(void *arg, struct df_result *r)
{
    struct owner_search *s = arg;
    struct df_str client_id = df_col_text(r, functional_ack_documents_ClientId);
    bool own = client_id.ptr && df_str_ieq(client_id, s->call->reach.client_id);

    if (!s->found || (own && !s->own))
        s->owner = df_arena_str(df_req_arena(s->call->w.req), client_id);
    s->own = s->own || own;
    s->found = true;
}

/* *ret: the owner of the ack's document. An ack about an unknown document belongs to its sender. */
static enum df_code find_owner(struct df_db *db, const struct call *c, struct df_str *ret,
                               struct df_err *err)
{
    struct owner_search s = {.call = c, .owner = c->reach.client_id};
    enum df_code code =
        df_db_each(db,
                   DF_Q(functional_ack_documents, .entity = df_text(c->business_entity),
                        .doc = df_text(c->business_doc_id)),
                   read_owner, &s, err);

    *ret = s.owner;
    if (code == DF_OK && s.found && !df_reach_has(&c->reach, s.owner))
        code = df_reach_refuse(err, "document");
    return code;
}

static enum df_code run_post_ack(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct call *c = (struct call *)w;
    const struct df_interface_options *opt = df_interface_options_of(w->arg);
    enum df_code code = find_owner(db, c, &c->owner, err);
    if (code != DF_OK)
        return code;
    code = df_ack_enqueue(db, c->business_doc_id, c->payload,
                          df_str_c(opt->settings.functional_ack_url), c->owner,
                          df_req_trace(w->req), w->now_ms, &c->id, err);
    if (code != DF_OK)
        return code;
    struct df_str row = df_arena_printf(df_req_arena(w->req), "%lld", (long long)c->id);
    return df_subjects_write(db, "ack", row, c->people.at, c->people.count, true, err);
}

static void ack_posted(struct df_work *w)
{
    const struct call *c = (const struct call *)w;

    df_interface_wake(w->arg, DF_WORK_ACKS);
    df_tally(c->owner, DF_STR("functional-ack"), &(struct df_tallied){.accepted = 1});
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
    if (!c->payload.ptr && !build_payload(c, &ack))
        return false;
    c->people = df_subjects_in(w->access->keys, c->payload, df_req_arena(w->req));
    return true;
}

static const struct df_handler post_ack = {
    .size = sizeof(struct call),
    .writes = true,
    .status = 202,
    .prepare = read_ack,
    .run = run_post_ack,
    .done = ack_posted,
};

/* --- GET /api/functional-ack --- */

static void write_ack(void *arg, struct df_result *r)
{
    struct df_work *w = arg;
    struct df_delivery *d = df_interface_options_of(w->arg)->delivery;
    struct df_json_out *out = &w->json;

    df_json_open(out, '{');
    df_json_kv_int(out, "id", df_col_int(r, functional_ack_Id));
    df_json_kv_text(out, "businessDocId", df_col_text(r, functional_ack_BusinessDocId));
    df_json_kv_text(out, "targetUrl", df_col_text(r, functional_ack_TargetUrl));
    df_json_kv_text(out, "status", df_col_text(r, functional_ack_Status));
    df_json_kv_int(out, "attemptCount", df_col_int(r, functional_ack_AttemptCount));
    df_json_kv_time(out, "createdAt", df_col_time(r, functional_ack_CreatedAt));
    df_json_kv_time(out, "lastAttemptAt", df_col_time(r, functional_ack_LastAttemptAt));
    df_json_kv_time(out, "sentAt", df_col_time(r, functional_ack_SentAt));
    df_json_kv_time(out, "nextAttemptAt",
                    df_delivery_next_ms(d, "functional-ack",
                                        df_col_text(r, functional_ack_HeldTarget),
                                        df_col_time(r, functional_ack_NextAttemptAt)));
    df_json_kv_text(out, "lastError", df_col_text(r, functional_ack_LastError));
    df_json_close(out, '}');
}

static enum df_code run_list_acks(struct df_db *db, struct df_work *w, struct df_err *err)
{
    const struct call *c = (const struct call *)w;
    bool all = c->reach.all;
    const struct df_query *total =
        all ? &df_q_functional_ack_count : &df_q_own_functional_ack_count;
    const struct df_query *list = all ? &df_q_functional_ack_list : &df_q_own_functional_ack_list;
    struct df_value doc = df_text(c->business_doc_id);
    struct df_value client = df_reach_client(&c->reach);
    enum df_code code = df_db_query_int(
        db, DF_ANY(total, {"business_doc_id", doc}, {"client", client}), &w->page.total, err);

    if (code != DF_OK)
        return code;
    return df_work_page(w, db,
                        DF_ANY(list, {"business_doc_id", doc}, {"client", client},
                               {"limit", df_int(w->page.size)}, {"offset", df_int(w->page.offset)}),
                        write_ack, err);
}

static bool read_ack_filter(struct df_work *w, struct df_input *in)
{
    struct call *c = (struct call *)w;

    c->reach = df_reach_of(w->req);
    c->business_doc_id = df_input_filter(w->req, "businessDocId");
    if (c->business_doc_id.len == 0)
        df_input_error(in, "businessDocId", "is required");
    return true;
}

static const struct df_handler list_acks = {
    .size = sizeof(struct call),
    .paged = true,
    .max_answer = ANSWER_MAX,
    .prepare = read_ack_filter,
    .run = run_list_acks,
};

#define ROUTE(m, kind, h) DF_ROUTE(m, "/api/functional-ack", kind, DF_ACCESS_CLIENT, "interface", h)

const struct df_route df_ack_routes[] = {
    ROUTE("POST", DF_BODY_JSON, post_ack),
    ROUTE("GET", DF_BODY_NONE, list_acks),
    {.method = NULL},
};

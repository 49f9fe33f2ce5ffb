/* /admin/clients/{clientId}/policy */
#include "access/policies.h"
#include "access/services.h"
#include "admin/admin.h"
#include "net/input.h"

#define ANSWER_MAX (64 << 10)

/* One call on its way. Lives in the request's arena. */
struct call {
    struct df_job job;
    struct df_req *req;
    const struct df_services *services;
    struct df_str identifier;
    struct df_policy_patch patch;
    struct df_uuid client_id;
    struct df_policy policy;
};

static struct call *call_new(struct df_req *req)
{
    struct call *c = DF_ARENA_NEW(df_req_arena(req), struct call);
    c->req = req;
    c->services = df_services_of(req);
    c->identifier = df_req_param(req, "clientId");
    return c;
}

static void answer_policy(struct call *c)
{
    struct df_buf out;
    struct df_json_out json;
    df_buf_init(&out, ANSWER_MAX);
    df_json_out_init(&json, &out);
    df_policy_write_json(c->identifier, &c->policy, &json);
    df_req_answer(c->req, 200, "application/json", &out);
}

/* --- GET --- */

static enum df_code run_get(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct call *c = (struct call *)job;
    return df_policy_get(db, c->identifier, NULL, &c->policy, err);
}

static void get_done(struct df_job *job, enum df_code code, const struct df_err *err)
{
    struct call *c = (struct call *)job;
    if (code == DF_OK)
        answer_policy(c);
    else
        df_req_problem(c->req, err);
    df_req_resume(c->req);
}

static void handle_get(struct df_req *req)
{
    struct call *c = call_new(req);
    c->job.run = run_get;
    c->job.done = get_done;
    df_req_read(req, &c->job);
}

/* --- PUT, PATCH --- */

/* The value as text, which is how the command line has it; false: an array or object. */
static bool value_text(struct call *c, const struct df_json *v, struct df_str *ret)
{
    int64_t whole;
    switch (v->type) {
    case DF_JSON_NULL:
        *ret = DF_STR_NULL;
        return true;
    case DF_JSON_BOOL:
        *ret = v->boolean ? DF_STR("true") : DF_STR("false");
        return true;
    case DF_JSON_NUMBER: /* 15.0 is a whole number too */
        *ret = df_json_to_i64(v, &whole)
                   ? df_arena_printf(df_req_arena(c->req), "%lld", (long long)whole)
                   : v->text;
        return true;
    case DF_JSON_STRING:
        *ret = v->text;
        return true;
    case DF_JSON_ARRAY:
    case DF_JSON_OBJECT:
        break;
    }
    return false;
}

/* What GET shows beside the fields may come back with a PUT; it says nothing new. */
static bool is_shown_only(struct call *c, struct df_input *in, const struct df_json *v)
{
    if (df_str_ieq(v->key, DF_STR("clientId"))) {
        if (v->type != DF_JSON_STRING || !df_str_eq(v->text, c->identifier))
            df_input_error(in, "clientId", "must be the one in the address, or left out");
        return true;
    }
    return df_str_ieq(v->key, DF_STR("createdAt")) || df_str_ieq(v->key, DF_STR("updatedAt"));
}

static bool read_patch(struct call *c)
{
    struct df_input in;
    if (!df_input_json(&in, c->req))
        return false;
    struct df_json_each each = df_json_each(in.object);
    for (const struct df_json *v;
         in.error_count < DF_INPUT_ERRORS_MAX && (v = df_json_next(&each));) {
        enum df_policy_field f;
        struct df_err err = DF_ERR_INIT;
        struct df_str text;
        if (is_shown_only(c, &in, v))
            continue;
        if (!df_policy_field_find(v->key, &f))
            df_input_error(&in, df_arena_cstr(in.arena, df_utf8_cut(v->key, 60)),
                           "is not a member of a policy");
        else if (!value_text(c, v, &text))
            df_input_error(&in, df_policy_field_name(f), "must not be an array or object");
        else if (df_policy_patch_set(&c->patch, f, text, &err) != DF_OK)
            df_input_error(&in, df_policy_field_name(f), "%s", err.detail);
    }
    return df_input_ok(&in, c->req);
}

static enum df_code run_change(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct call *c = (struct call *)job;
    struct df_actor by = df_actor_of(c->req);
    return df_policy_change(db, c->identifier, &c->patch, &by, c->services->clock, &c->client_id,
                            &c->policy, err);
}

static void change_done(struct df_job *job, enum df_code code, const struct df_err *err)
{
    struct call *c = (struct call *)job;
    if (code == DF_OK) {
        df_policies_forget(c->services->policies, &c->client_id);
        df_auth_refresh(c->services->auth, c->identifier);
        df_log_info("PolicyChanged", "policy of client " DF_STR_FMT " set",
                    DF_STR_ARG(c->identifier));
        answer_policy(c);
    } else {
        df_req_problem(c->req, err);
    }
    df_req_resume(c->req);
}

static void handle_change(struct df_req *req)
{
    struct call *c = call_new(req);
    if (!read_patch(c))
        return;
    c->job.run = run_change;
    c->job.done = change_done;
    df_req_write(req, &c->job);
}

/* --- DELETE --- */

static enum df_code run_reset(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct call *c = (struct call *)job;
    struct df_actor by = df_actor_of(c->req);
    return df_policy_reset(db, c->identifier, &by, c->services->clock, &c->client_id, err);
}

static void reset_done(struct df_job *job, enum df_code code, const struct df_err *err)
{
    struct call *c = (struct call *)job;
    if (code == DF_OK) {
        df_policies_forget(c->services->policies, &c->client_id);
        df_auth_refresh(c->services->auth, c->identifier);
        df_log_info("PolicyReset", "policy of client " DF_STR_FMT " is the default again",
                    DF_STR_ARG(c->identifier));
        df_req_answer_empty(c->req, 204);
    } else {
        df_req_problem(c->req, err);
    }
    df_req_resume(c->req);
}

static void handle_delete(struct df_req *req)
{
    struct call *c = call_new(req);
    c->job.run = run_reset;
    c->job.done = reset_done;
    df_req_write(req, &c->job);
}

#define POLICY(m, kind, fn)                                                                        \
    {                                                                                              \
        .method = m, .pattern = "/admin/clients/{clientId}/policy", .body = kind,                  \
        .access = DF_ACCESS_ADMIN, .handle = fn                                                    \
    }

const struct df_route df_policy_routes[] = {
    POLICY("GET", DF_BODY_NONE, handle_get),
    POLICY("PUT", DF_BODY_JSON, handle_change),
    POLICY("PATCH", DF_BODY_JSON, handle_change),
    POLICY("DELETE", DF_BODY_NONE, handle_delete),
    {.method = NULL},
};

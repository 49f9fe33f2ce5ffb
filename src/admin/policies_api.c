/* /admin/clients/{clientId}/policy */
#include "access/handler.h"
#include "access/policies.h"
#include "admin/admin.h"

struct call {
    struct df_work w;
    struct df_str identifier;
    struct df_policy_patch patch;
    struct df_uuid client_id;
    struct df_policy policy;
};

static bool read_identifier(struct df_work *w, struct df_input *in)
{
    struct call *c = (struct call *)w;

    (void)in;
    c->identifier = df_req_param(w->req, "clientId");
    return true;
}

static void write_policy(struct df_work *w)
{
    const struct call *c = (const struct call *)w;
    df_policy_write_json(c->identifier, &c->policy, &w->json);
}

/* --- GET --- */

static enum df_code run_get(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct call *c = (struct call *)w;
    return df_policy_get(db, c->identifier, NULL, &c->policy, err);
}

static const struct df_handler get = {
    .size = sizeof(struct call),
    .prepare = read_identifier,
    .run = run_get,
    .done = write_policy,
};

/* --- PUT, PATCH --- */

/* The value as text, as the command line has it; false: an array or object. */
static bool value_text(struct df_arena *arena, const struct df_json *v, struct df_str *ret)
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
        *ret =
            df_json_to_i64(v, &whole) ? df_arena_printf(arena, "%lld", (long long)whole) : v->text;
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

/* Members that GET shows besides the fields may come back with a PUT; they are ignored. */
static bool is_shown_only(const struct call *c, struct df_input *in, const struct df_json *v)
{
    if (df_str_ieq(v->key, DF_STR("clientId"))) {
        if (v->type != DF_JSON_STRING || !df_str_eq(v->text, c->identifier))
            df_input_error(in, "clientId", "must be the one in the address, or left out");
        return true;
    }
    return df_str_ieq(v->key, DF_STR("createdAt")) || df_str_ieq(v->key, DF_STR("updatedAt"));
}

static bool read_patch(struct df_work *w, struct df_input *in)
{
    struct call *c = (struct call *)w;

    (void)read_identifier(w, in);
    if (!df_input_json(in, w->req))
        return false;
    struct df_json_each each = df_json_each(in->object);
    for (const struct df_json *v;
         in->error_count < DF_INPUT_ERRORS_MAX && (v = df_json_next(&each));) {
        enum df_policy_field f;
        struct df_err err = DF_ERR_INIT;
        struct df_str text;
        if (is_shown_only(c, in, v))
            continue;
        if (!df_policy_field_find(v->key, &f))
            df_input_error(in, df_arena_cstr(in->arena, df_utf8_cut(v->key, 60)),
                           "is not a member of a policy");
        else if (!value_text(in->arena, v, &text))
            df_input_error(in, df_policy_field_name(f), "must not be an array or object");
        else if (df_policy_patch_set(&c->patch, f, text, &err) != DF_OK)
            df_input_error(in, df_policy_field_name(f), "%s", err.detail);
    }
    return true;
}

/* Has the client's row and policy read again. */
static void forget_policy(const struct call *c)
{
    df_policies_forget(c->w.access->policies, &c->client_id);
    df_auth_refresh(c->w.access->auth, c->identifier);
}

static enum df_code run_change(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct call *c = (struct call *)w;
    struct df_actor by = df_actor_of(w->req);
    return df_policy_change(db, c->identifier, &c->patch, &by, w->access->clock, &c->client_id,
                            &c->policy, err);
}

static void changed(struct df_work *w)
{
    const struct call *c = (const struct call *)w;

    forget_policy(c);
    df_log_info("PolicyChanged", "policy of client " DF_STR_FMT " set", DF_STR_ARG(c->identifier));
    write_policy(w);
}

static const struct df_handler change = {
    .size = sizeof(struct call),
    .writes = true,
    .prepare = read_patch,
    .run = run_change,
    .done = changed,
};

/* --- DELETE --- */

static enum df_code run_reset(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct call *c = (struct call *)w;
    struct df_actor by = df_actor_of(w->req);
    return df_policy_reset(db, c->identifier, &by, w->access->clock, &c->client_id, err);
}

static void was_reset(struct df_work *w)
{
    const struct call *c = (const struct call *)w;

    forget_policy(c);
    df_log_info("PolicyReset", "policy of client " DF_STR_FMT " is the default again",
                DF_STR_ARG(c->identifier));
}

static const struct df_handler reset = {
    .size = sizeof(struct call),
    .writes = true,
    .status = 204,
    .prepare = read_identifier,
    .run = run_reset,
    .done = was_reset,
};

#define POLICY(m, kind, h)                                                                         \
    DF_ROUTE(m, "/admin/clients/{clientId}/policy", kind, DF_ACCESS_ADMIN, NULL, h)

const struct df_route df_policy_routes[] = {
    POLICY("GET", DF_BODY_NONE, get),
    POLICY("PUT", DF_BODY_JSON, change),
    POLICY("PATCH", DF_BODY_JSON, change),
    POLICY("DELETE", DF_BODY_NONE, reset),
    {.method = NULL},
};

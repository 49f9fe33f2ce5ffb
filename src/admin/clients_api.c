/*
 * /admin/clients and /whoami.
 *
 * Three threads work in turn on creating a client and on rotating a secret: the HTTP thread reads
 * the input, a hash thread computes Argon2, the store writes. The secret is wiped once the answer
 * is built.
 */
#include "access/handler.h"
#include "admin/admin.h"

#define ANSWER_MAX        (1 << 20)
#define GRACE_MAX_SECONDS INT64_C(604800)

struct call {
    struct df_work w;
    struct df_hash_task task;
    struct df_str identifier;
    struct df_client client;
    bool sets_status; /* PATCH: `client` has a status to set */
    bool sets_scopes;
    struct df_client_secret secret;
    struct df_secret_hash hash;
    int64_t grace_ms;
    int64_t previous_until;
};

static bool read_identifier(struct df_work *w, struct df_input *in)
{
    struct call *c = (struct call *)w;

    (void)in;
    c->identifier = df_req_param(w->req, "clientId");
    return true;
}

static void wipe_secret(struct df_work *w)
{
    struct call *c = (struct call *)w;
    df_wipe(&c->secret, sizeof c->secret);
}

static void write_secret(struct call *c)
{
    struct df_json_out *json = &c->w.json;

    df_json_open(json, '{');
    df_json_kv_text(json, "clientId", c->identifier);
    df_json_kv_text(json, "clientSecret", df_str_c(c->secret.text));
    if (c->previous_until)
        df_json_kv_time(json, "previousSecretValidUntil", c->previous_until);
    df_json_close(json, '}');
}

/* On a hash thread: a new secret and its hash, then on to the store. */
static void make_secret(struct df_hash_task *t)
{
    struct call *c = (struct call *)((char *)t - offsetof(struct call, task));
    const struct df_clock *clock = c->w.access->clock;
    struct df_err err = DF_ERR_INIT;

    df_client_secret_make(clock, &c->secret);
    enum df_code code = df_secret_hash_make(df_str_c(c->secret.text), clock, &c->hash, &err);
    if (code == DF_OK)
        df_work_submit(&c->w);
    else
        df_work_fail(&c->w, code, "%s", err.detail);
}

static void wait_for_hash(struct df_work *w)
{
    struct call *c = (struct call *)w;

    c->task.run = make_secret;
    if (!df_auth_hash(w->access->auth, &c->task))
        df_work_fail(w, DF_E_BUSY, "Too many secrets are being hashed.");
}

/* --- POST /admin/clients --- */

static void add_scope(struct df_input *in, struct df_str name, uint32_t *scopes)
{
    if (!df_scope_add(name, scopes))
        df_input_error(in, "scopes", "\"" DF_STR_FMT "\" is not a scope",
                       DF_STR_ARG(df_utf8_cut(name, 40)));
}

static void add_scopes(struct df_input *in, const struct df_json *array, uint32_t *scopes)
{
    struct df_json_each each = df_json_each(array);
    for (const struct df_json *s;
         in->error_count < DF_INPUT_ERRORS_MAX && (s = df_json_next(&each));)
        add_scope(in, s->type == DF_JSON_STRING ? s->text : s->raw, scopes);
}

static void read_scopes(struct df_input *in, uint32_t *scopes)
{
    const struct df_json *v = df_json_get(in->object, "scopes");
    *scopes = DF_SCOPES_DEFAULT;
    if (!v || v->type == DF_JSON_NULL)
        return;
    *scopes = 0;
    if (v->type != DF_JSON_ARRAY) {
        df_input_error(in, "scopes", "must be an array of scope names");
        return;
    }
    add_scopes(in, v, scopes);
    if (df_json_count(v) == 0)
        df_input_error(in, "scopes",
                       "must name at least one scope; leave it out for interface and imports");
}

static bool read_client(struct df_work *w, struct df_input *in)
{
    struct call *c = (struct call *)w;

    if (!df_input_json(in, w->req))
        return false;
    struct df_str name = df_input_text(in, "name", DF_CLIENT_NAME_MAX, DF_REQUIRED);
    struct df_str id = df_input_text(in, "clientId", SIZE_MAX, DF_OPTIONAL);
    if (id.ptr && !df_client_identifier_valid(id))
        df_input_error(in, "clientId", "must be 1 to 64 letters, digits, '.', '_' or '-'");
    read_scopes(in, &c->client.scopes);
    if (in->error_count > 0)
        return true;

    c->client.id = df_uuid_v7(w->access->clock);
    c->client.status = DF_CLIENT_ACTIVE;
    if (!id.ptr) {
        struct df_uuid u = df_uuid_v4(w->access->clock);
        id = df_arena_str(df_req_arena(w->req), df_uuid_str(&u));
    }
    memcpy(c->client.identifier, id.ptr, id.len);
    memcpy(c->client.name, name.ptr, name.len);
    c->identifier = df_str_c(c->client.identifier);
    return true;
}

static enum df_code run_create(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct call *c = (struct call *)w;
    struct df_actor by = df_actor_of(w->req);
    return df_client_insert(db, &c->client, &c->hash, &by, w->now_ms, err);
}

static void created(struct df_work *w)
{
    struct call *c = (struct call *)w;
    struct df_str at = df_arena_printf(df_req_arena(w->req), "/admin/clients/" DF_STR_FMT,
                                       DF_STR_ARG(c->identifier));

    write_secret(c);
    df_req_add_header(w->req, "Location", at);
    df_log_info("ClientCreated", "client %s created", c->client.identifier);
}

static const struct df_handler create = {
    .size = sizeof(struct call),
    .writes = true,
    .status = 201,
    .prepare = read_client,
    .first = wait_for_hash,
    .run = run_create,
    .done = created,
    .cleanup = wipe_secret,
};

/* --- POST /admin/clients/{clientId}/rotate-secret --- */

static bool read_grace(struct df_work *w, struct df_input *in)
{
    struct call *c = (struct call *)w;

    c->grace_ms = 1000 * df_input_query_int(in, w->req, "graceSeconds", 0, GRACE_MAX_SECONDS, 0);
    return read_identifier(w, in);
}

static enum df_code run_rotate(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct call *c = (struct call *)w;
    struct df_actor by = df_actor_of(w->req);
    c->previous_until = c->grace_ms ? w->now_ms + c->grace_ms : 0;
    return df_client_rotate(db, c->identifier, &c->hash, c->previous_until, &by, w->now_ms, err);
}

static void rotated(struct df_work *w)
{
    struct call *c = (struct call *)w;

    df_auth_forget(w->access->auth, c->identifier);
    write_secret(c);
    df_log_info("ClientSecretRotated", "secret of client " DF_STR_FMT " rotated",
                DF_STR_ARG(c->identifier));
}

static const struct df_handler rotate = {
    .size = sizeof(struct call),
    .writes = true,
    .prepare = read_grace,
    .first = wait_for_hash,
    .run = run_rotate,
    .done = rotated,
    .cleanup = wipe_secret,
};

/* --- GET /admin/clients, GET and PATCH /admin/clients/{clientId} --- */

static void write_item(void *arg, const struct df_client *client)
{
    df_client_write_json(client, arg);
}

static enum df_code run_list(struct df_db *db, struct df_work *w, struct df_err *err)
{
    df_page_open(&w->json);
    enum df_code code =
        df_client_list(db, &w->page, df_req_arena(w->req), write_item, &w->json, err);
    df_page_close(&w->page, &w->json);
    return code;
}

static const struct df_handler list = {
    .list = "clients",
    .list_by_uuid = true,
    .max_answer = ANSWER_MAX,
    .run = run_list,
};

static enum df_code run_get(struct df_db *db, struct df_work *w, struct df_err *err)
{
    const struct call *c = (const struct call *)w;
    struct df_client_record rec;
    enum df_code code = df_client_load(db, c->identifier, &rec, err);
    if (code == DF_OK)
        df_client_write_json(&rec.client, &w->json);
    return code;
}

static const struct df_handler get = {
    .size = sizeof(struct call),
    .prepare = read_identifier,
    .run = run_get,
};

static enum df_code run_patch(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct call *c = (struct call *)w;
    struct df_actor by = df_actor_of(w->req);
    enum df_code code = DF_OK;
    if (c->sets_status)
        code = df_client_set_status(db, c->identifier, c->client.status, &by, w->now_ms, err);
    if (code == DF_OK && c->sets_scopes)
        code = df_client_set_scopes(db, c->identifier, c->client.scopes, &by, w->now_ms, err);
    return code == DF_OK ? run_get(db, w, err) : code;
}

static void patched(struct df_work *w)
{
    const struct call *c = (const struct call *)w;

    if (c->sets_status) {
        df_auth_forget(w->access->auth, c->identifier);
        df_log_info("ClientStatusChanged", "client " DF_STR_FMT " is now %s",
                    DF_STR_ARG(c->identifier), df_client_status_name(c->client.status));
    }
    if (c->sets_scopes) {
        df_auth_refresh(w->access->auth, c->identifier);
        df_log_info("ClientScopesChanged", "client " DF_STR_FMT " has other scopes",
                    DF_STR_ARG(c->identifier));
    }
}

/* An array of names, or one text with commas. */
static void read_new_scopes(struct df_input *in, struct call *c)
{
    const struct df_json *v = df_json_get(in->object, "scopes");
    size_t errors = in->error_count;

    if (!v || v->type == DF_JSON_NULL)
        return;
    c->sets_scopes = true;
    if (v->type == DF_JSON_ARRAY) {
        add_scopes(in, v, &c->client.scopes);
    } else if (v->type == DF_JSON_STRING) {
        for (struct df_str name, rest = v->text; rest.len > 0;) {
            rest = df_str_cut(rest, ',', &name);
            add_scope(in, df_str_trim(name), &c->client.scopes);
        }
    } else {
        df_input_error(in, "scopes", "must be an array of scope names, or a text with commas");
    }
    if (c->client.scopes == 0 && in->error_count == errors)
        df_input_error(in, "scopes", "must name at least one scope");
}

static bool read_patch(struct df_work *w, struct df_input *in)
{
    struct call *c = (struct call *)w;

    if (!df_input_json(in, w->req))
        return false;
    struct df_str status = df_input_text(in, "status", 20, DF_OPTIONAL);
    c->sets_status = status.ptr;
    if (status.ptr && !df_client_status_parse(status, &c->client.status))
        df_input_error(in, "status", "must be Active or Suspended");
    read_new_scopes(in, c);
    if (!c->sets_status && !c->sets_scopes && in->error_count == 0)
        df_input_error(in, "status", "status or scopes must be given");
    return read_identifier(w, in);
}

static const struct df_handler patch = {
    .size = sizeof(struct call),
    .writes = true,
    .prepare = read_patch,
    .run = run_patch,
    .done = patched,
};

/* --- GET /whoami --- */

static void write_admin(const struct df_admin *admin, struct df_json_out *json)
{
    df_json_open(json, '{');
    df_json_kv_text(json, "admin", df_str_c(admin->name ? admin->name : "admin"));
    df_json_kv_text(json, "role", df_str_c(df_admin_role_name(admin->role)));
    df_json_close(json, '}');
}

static void write_caller(struct df_work *w)
{
    const struct df_client *client = df_auth_client(w->req);
    struct df_json_out *json = &w->json;

    if (!client) {
        write_admin(df_auth_admin(w->req), json);
        return;
    }
    df_json_open(json, '{');
    df_json_kv_text(json, "clientId", df_str_c(client->identifier));
    df_json_kv_text(json, "name", df_str_c(client->name));
    df_json_kv_text(json, "status", df_str_c(df_client_status_name(client->status)));
    df_json_key(json, "scopes");
    df_client_write_scopes(client->scopes, json);
    df_json_close(json, '}');
}

static const struct df_handler whoami = {.done = write_caller};

#define ADMIN(m, path, kind, h) DF_ROUTE(m, "/admin" path, kind, DF_ACCESS_ADMIN, NULL, h)

const struct df_route df_admin_routes[] = {
    ADMIN("POST", "/clients", DF_BODY_JSON, create),
    ADMIN("GET", "/clients", DF_BODY_NONE, list),
    ADMIN("GET", "/clients/{clientId}", DF_BODY_NONE, get),
    ADMIN("PATCH", "/clients/{clientId}", DF_BODY_JSON, patch),
    ADMIN("POST", "/clients/{clientId}/rotate-secret", DF_BODY_ANY, rotate),
    DF_ROUTE("GET", "/whoami", DF_BODY_NONE, DF_ACCESS_ANY, NULL, whoami),
    {.method = NULL},
};

/*
 * /admin/clients and /whoami.
 *
 * Creating a client and rotating a secret go through three hands: the HTTP thread reads the input,
 * a hash thread computes Argon2, the store writes. The request travels with them; its secret is
 * wiped once the answer is built.
 */
#include "access/services.h"
#include "admin/admin.h"
#include "net/input.h"

#define ANSWER_MAX        (1 << 20)
#define GRACE_MAX_SECONDS INT64_C(604800)

/* One call on its way. Lives in the request's arena. */
struct call {
    struct df_job job;
    struct df_hash_task task;
    struct df_req *req;
    const struct df_services *services;
    struct df_str identifier;
    struct df_client client;
    bool sets_status; /* of a PATCH: what stands in `client` */
    bool sets_scopes;
    struct df_client_secret secret;
    struct df_secret_hash hash;
    int64_t grace_ms;
    int64_t previous_until;
    int64_t now_ms;
    struct df_page page;
    struct df_buf out;
    struct df_json_out json;
};

static struct call *call_new(struct df_req *req)
{
    struct call *c = DF_ARENA_NEW(df_req_arena(req), struct call);
    c->req = req;
    c->services = df_services_of(req);
    c->identifier = df_req_param(req, "clientId");
    c->now_ms = df_wall_ms(c->services->clock);
    df_buf_init(&c->out, ANSWER_MAX);
    df_json_out_init(&c->json, &c->out);
    return c;
}

/* The common end of every job: the answer in c->out, or the problem. */
static void finish(struct call *c, unsigned status, enum df_code code, const struct df_err *err)
{
    df_wipe(&c->secret, sizeof c->secret);
    df_req_finish(c->req, status, &c->out, code, err);
}

static void write_secret(struct call *c)
{
    df_json_open(&c->json, '{');
    df_json_kv_text(&c->json, "clientId", c->identifier);
    df_json_kv_text(&c->json, "clientSecret", df_str_c(c->secret.text));
    if (c->previous_until)
        df_json_kv_time(&c->json, "previousSecretValidUntil", c->previous_until);
    df_json_close(&c->json, '}');
}

/* On a hash thread: a new secret and its hash, then on to the store. */
static void run_hash(struct df_hash_task *t)
{
    struct call *c = (struct call *)((char *)t - offsetof(struct call, task));
    struct df_err err = DF_ERR_INIT;
    df_client_secret_make(c->services->clock, &c->secret);
    enum df_code code =
        df_secret_hash_make(df_str_c(c->secret.text), c->services->clock, &c->hash, &err);
    if (code == DF_OK && !df_store_write(c->services->store, &c->job))
        code = df_err_set(&err, DF_E_BUSY, "Too many requests are waiting for the database.");
    if (code != DF_OK)
        finish(c, 0, code, &err);
}

static void submit_hashed(struct call *c)
{
    c->task.run = run_hash;
    c->job.log = df_req_log(c->req);
    df_req_suspend(c->req);
    if (df_auth_hash(c->services->auth, &c->task))
        return;
    struct df_err err = DF_ERR_INIT;
    finish(c, 0, df_err_set(&err, DF_E_BUSY, "Too many secrets are being hashed."), &err);
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

static bool read_client(struct call *c)
{
    struct df_input in;
    if (!df_input_json(&in, c->req))
        return false;
    struct df_str name = df_input_text(&in, "name", DF_CLIENT_NAME_MAX, DF_REQUIRED);
    struct df_str id = df_input_text(&in, "clientId", SIZE_MAX, DF_OPTIONAL);
    if (id.ptr && !df_client_identifier_valid(id))
        df_input_error(&in, "clientId", "must be 1 to 64 letters, digits, '.', '_' or '-'");
    read_scopes(&in, &c->client.scopes);
    if (!df_input_ok(&in, c->req))
        return false;

    c->client.id = df_uuid_v7(c->services->clock);
    c->client.status = DF_CLIENT_ACTIVE;
    if (!id.ptr) {
        struct df_uuid u = df_uuid_v4(c->services->clock);
        id = df_arena_str(df_req_arena(c->req), df_uuid_str(&u));
    }
    memcpy(c->client.identifier, id.ptr, id.len);
    memcpy(c->client.name, name.ptr, name.len);
    c->identifier = df_str_c(c->client.identifier);
    return true;
}

static enum df_code run_create(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct call *c = (struct call *)job;
    struct df_actor by = df_actor_of(c->req);
    return df_client_insert(db, &c->client, &c->hash, &by, c->now_ms, err);
}

static void create_done(struct df_job *job, enum df_code code, const struct df_err *err)
{
    struct call *c = (struct call *)job;
    if (code == DF_OK) {
        write_secret(c);
        struct df_str at = df_arena_printf(df_req_arena(c->req), "/admin/clients/" DF_STR_FMT,
                                           DF_STR_ARG(c->identifier));
        df_req_add_header(c->req, "Location", at);
        df_log_info("ClientCreated", "client %s created", c->client.identifier);
    }
    finish(c, 201, code, err);
}

static void handle_create(struct df_req *req)
{
    struct call *c = call_new(req);
    if (!read_client(c))
        return;
    c->job.run = run_create;
    c->job.done = create_done;
    submit_hashed(c);
}

/* --- POST /admin/clients/{clientId}/rotate-secret --- */

static enum df_code run_rotate(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct call *c = (struct call *)job;
    struct df_actor by = df_actor_of(c->req);
    c->previous_until = c->grace_ms ? c->now_ms + c->grace_ms : 0;
    return df_client_rotate(db, c->identifier, &c->hash, c->previous_until, &by, c->now_ms, err);
}

static void rotate_done(struct df_job *job, enum df_code code, const struct df_err *err)
{
    struct call *c = (struct call *)job;
    if (code == DF_OK) {
        df_auth_forget(c->services->auth, c->identifier);
        write_secret(c);
        df_log_info("ClientSecretRotated", "secret of client " DF_STR_FMT " rotated",
                    DF_STR_ARG(c->identifier));
    }
    finish(c, 200, code, err);
}

static void handle_rotate(struct df_req *req)
{
    struct call *c = call_new(req);
    struct df_input in;
    df_input_init(&in, df_req_arena(req), NULL);
    c->grace_ms = 1000 * df_input_query_int(&in, req, "graceSeconds", 0, GRACE_MAX_SECONDS, 0);
    if (!df_input_ok(&in, req))
        return;
    c->job.run = run_rotate;
    c->job.done = rotate_done;
    submit_hashed(c);
}

/* --- GET /admin/clients, GET and PATCH /admin/clients/{clientId} --- */

static void write_item(void *arg, const struct df_client *client)
{
    struct call *c = arg;
    df_client_write_json(client, &c->json);
}

/* A job may run again: its answer is begun afresh. */
static void open_page(struct call *c)
{
    df_buf_reset(&c->out);
    df_json_out_init(&c->json, &c->out);
    df_page_open(&c->json);
}

static enum df_code run_list(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct call *c = (struct call *)job;
    open_page(c);
    enum df_code code =
        df_client_list(db, c->page.size, c->page.offset, write_item, c, &c->page.total, err);
    df_page_close(&c->page, &c->json);
    return code;
}

static void read_done(struct df_job *job, enum df_code code, const struct df_err *err)
{
    finish((struct call *)job, 200, code, err);
}

static void handle_list(struct df_req *req)
{
    struct call *c = call_new(req);
    if (!df_input_page(req, &c->page))
        return;
    c->job.run = run_list;
    c->job.done = read_done;
    df_req_read(req, &c->job);
}

static enum df_code write_one(struct df_db *db, struct call *c, struct df_err *err)
{
    struct df_client_record rec;
    enum df_code code = df_client_load(db, c->identifier, &rec, err);
    if (code != DF_OK)
        return code;
    df_buf_reset(&c->out);
    df_json_out_init(&c->json, &c->out);
    df_client_write_json(&rec.client, &c->json);
    return DF_OK;
}

static enum df_code run_get(struct df_db *db, struct df_job *job, struct df_err *err)
{
    return write_one(db, (struct call *)job, err);
}

static void handle_get(struct df_req *req)
{
    struct call *c = call_new(req);
    c->job.run = run_get;
    c->job.done = read_done;
    df_req_read(req, &c->job);
}

static enum df_code run_patch(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct call *c = (struct call *)job;
    struct df_actor by = df_actor_of(c->req);
    enum df_code code = DF_OK;
    if (c->sets_status)
        code = df_client_set_status(db, c->identifier, c->client.status, &by, c->now_ms, err);
    if (code == DF_OK && c->sets_scopes)
        code = df_client_set_scopes(db, c->identifier, c->client.scopes, &by, c->now_ms, err);
    return code == DF_OK ? write_one(db, c, err) : code;
}

static void patch_done(struct df_job *job, enum df_code code, const struct df_err *err)
{
    struct call *c = (struct call *)job;
    if (code == DF_OK && c->sets_status) {
        df_auth_forget(c->services->auth, c->identifier);
        df_log_info("ClientStatusChanged", "client " DF_STR_FMT " is now %s",
                    DF_STR_ARG(c->identifier), df_client_status_name(c->client.status));
    }
    if (code == DF_OK && c->sets_scopes) {
        df_auth_refresh(c->services->auth, c->identifier);
        df_log_info("ClientScopesChanged", "client " DF_STR_FMT " has other scopes",
                    DF_STR_ARG(c->identifier));
    }
    finish(c, 200, code, err);
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

static void handle_patch(struct df_req *req)
{
    struct call *c = call_new(req);
    struct df_input in;
    if (!df_input_json(&in, req))
        return;
    struct df_str status = df_input_text(&in, "status", 20, DF_OPTIONAL);
    c->sets_status = status.ptr;
    if (status.ptr && !df_client_status_parse(status, &c->client.status))
        df_input_error(&in, "status", "must be Active or Suspended");
    read_new_scopes(&in, c);
    if (!c->sets_status && !c->sets_scopes && in.error_count == 0)
        df_input_error(&in, "status", "status or scopes must be given");
    if (!df_input_ok(&in, req))
        return;
    c->job.run = run_patch;
    c->job.done = patch_done;
    df_req_write(req, &c->job);
}

/* --- GET /admin/audit --- */

static enum df_code run_audit(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct call *c = (struct call *)job;
    open_page(c);
    enum df_code code =
        df_audit_list(db, c->page.size, c->page.offset, &c->json, &c->page.total, err);
    df_page_close(&c->page, &c->json);
    return code;
}

static void handle_audit(struct df_req *req)
{
    struct call *c = call_new(req);
    if (!df_input_page(req, &c->page))
        return;
    c->job.run = run_audit;
    c->job.done = read_done;
    df_req_read(req, &c->job);
}

/* --- GET /whoami --- */

static void handle_whoami(struct df_req *req)
{
    const struct df_client *client = df_auth_client(req);
    struct df_buf out;
    struct df_json_out json;
    df_buf_init(&out, ANSWER_MAX);
    df_json_out_init(&json, &out);
    df_json_open(&json, '{');
    df_json_kv_text(&json, "clientId", df_str_c(client->identifier));
    df_json_kv_text(&json, "name", df_str_c(client->name));
    df_json_kv_text(&json, "status", df_str_c(df_client_status_name(client->status)));
    df_json_key(&json, "scopes");
    df_client_write_scopes(client->scopes, &json);
    df_json_close(&json, '}');
    df_req_answer(req, 200, "application/json", &out);
}

#define ADMIN(m, path, kind, fn)                                                                   \
    {                                                                                              \
        .method = m, .pattern = path, .body = kind, .access = DF_ACCESS_ADMIN, .handle = fn        \
    }

const struct df_route df_admin_routes[] = {
    ADMIN("POST", "/admin/clients", DF_BODY_JSON, handle_create),
    ADMIN("GET", "/admin/clients", DF_BODY_NONE, handle_list),
    ADMIN("GET", "/admin/clients/{clientId}", DF_BODY_NONE, handle_get),
    ADMIN("PATCH", "/admin/clients/{clientId}", DF_BODY_JSON, handle_patch),
    ADMIN("POST", "/admin/clients/{clientId}/rotate-secret", DF_BODY_ANY, handle_rotate),
    ADMIN("GET", "/admin/audit", DF_BODY_NONE, handle_audit),
    {.method = "GET",
     .pattern = "/whoami",
     .access = DF_ACCESS_CLIENT,
     .body = DF_BODY_NONE,
     .handle = handle_whoami},
    {.method = NULL},
};

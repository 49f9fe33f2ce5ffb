/*
 * /clients/{clientId}/webhooks, for the client itself and the administrator. No scope is required:
 * webhooks tell a client only what it may see anyway.
 *
 * If a URL is given, three threads work on the request in turn: the HTTP thread reads the input, a
 * thread of the look-ups asks for the host's addresses, the store writes.
 */
#include "webhooks/secret.h"
#include "webhooks/subscriptions.sql.h"
#include "webhooks/subscriptions_call.h"
#include "webhooks/webhooks.h"

#define ANSWER_MAX  (16 << 20)
#define OVERLAP_MAX 720
#define HOUR_MS     INT64_C(3600000)
#define DEFAULTS    DF_STR("BatchCompleted,BatchFailed")

static bool read_client(struct df_work *w, struct df_input *in)
{
    struct webhook_call *c = (struct webhook_call *)w;
    const struct df_subscriptions *subscriptions = w->arg;

    (void)in;
    c->opt = &subscriptions->opt;
    c->identifier = df_req_param(w->req, "clientId");
    c->active = DF_WEBHOOK_UNCHANGED;
    c->auto_rotate = DF_WEBHOOK_UNCHANGED;
    return true;
}

bool webhook_call_read_id(struct df_work *w, struct df_input *in)
{
    struct webhook_call *c = (struct webhook_call *)w;

    (void)read_client(w, in);
    if (df_uuid_parse(df_req_param(w->req, "id"), &c->id))
        return true;
    df_req_fail(w->req, DF_E_NOT_FOUND, "There is no such webhook.");
    return false;
}

static void wipe_secret(struct df_work *w)
{
    struct webhook_call *c = (struct webhook_call *)w;
    df_wipe(&c->secret, sizeof(c->secret));
}

static void log_change(const struct webhook_call *c, const char *event)
{
    df_log_info(event, "webhook %s of client " DF_STR_FMT, c->id.text, DF_STR_ARG(c->identifier));
}

static enum df_code no_such_webhook(struct df_err *err)
{
    return df_err_set(err, DF_E_NOT_FOUND, "There is no such webhook.");
}

enum df_code webhook_call_find_client(struct df_db *db, struct webhook_call *c, struct df_err *err)
{
    const struct df_client *caller = df_auth_client(c->w.req);
    struct df_client_record rec;

    if (caller) {
        c->client = caller->id;
        return DF_OK;
    }
    enum df_code code = df_client_load(db, c->identifier, &rec, err);
    if (code == DF_OK)
        c->client = rec.client.id;
    return code;
}

enum df_code webhook_call_audit(struct df_db *db, const struct webhook_call *c, const char *action,
                                struct df_str details, struct df_err *err)
{
    struct df_actor by = df_actor_of(c->w.req);
    return df_audit_write(db, &by, action, df_uuid_str(&c->id), df_uuid_str(&c->client), details,
                          c->w.now_ms, err);
}

/* --- a subscription as JSON --- */

static void write_events(struct df_str events, struct df_json_out *out)
{
    struct df_str rest = events.ptr ? events : DEFAULTS;

    df_json_key(out, "events");
    df_json_open(out, '[');
    while (rest.len > 0) {
        struct df_str name;
        rest = df_str_cut(rest, ',', &name);
        df_json_text(out, df_str_trim(name));
    }
    df_json_close(out, ']');
}

/* The secret is shown once, right after it was made. */
static void write_subscription(void *arg, struct df_result *r)
{
    struct webhook_call *c = arg;
    struct df_json_out *out = &c->w.json;
    int64_t until = df_col_time(r, subscription_PreviousSecretExpiresAt);
    int64_t changed = df_col_time(r, subscription_SecretChangedAt);

    df_json_open(out, '{');
    df_json_kv_text(out, "id", df_col_text(r, subscription_Id));
    df_json_kv_text(out, "clientId", c->identifier);
    df_json_kv_text(out, "url", df_col_text(r, subscription_Url));
    write_events(df_col_text(r, subscription_Events), out);
    df_json_kv_bool(out, "isActive", df_col_bool(r, subscription_IsActive));
    df_json_kv_time(out, "createdAt", df_col_time(r, subscription_CreatedAt));
    df_json_kv_time(out, "updatedAt", df_col_time(r, subscription_UpdatedAt));
    df_json_kv_time(out, "disabledAt", df_col_time(r, subscription_DisabledAt));
    df_json_kv_text(out, "disabledReason", df_col_text(r, subscription_DisabledReason));
    df_json_kv_time(out, "failureSince", df_col_time(r, subscription_FailureSince));
    df_json_kv_time(out, "previousSecretValidUntil", until > c->w.now_ms ? until : -1);
    df_json_kv_bool(out, "autoRotate", df_col_bool(r, subscription_AutoRotate));
    df_json_kv_time(out, "secretChangedAt",
                    changed >= 0 ? changed : df_col_time(r, subscription_CreatedAt));
    df_json_kv_time(out, "nextSecretAt", df_col_time(r, subscription_NextSecretAt));
    if (c->secret.text[0])
        df_json_kv_text(out, "secret", df_str_c(c->secret.text));
    df_json_close(out, '}');
}

enum df_code webhook_call_get(struct df_db *db, struct webhook_call *c,
                              void (*row)(void *arg, struct df_result *r), struct df_err *err)
{
    bool found = false;
    enum df_code code = df_db_one(
        db, DF_Q(subscription_get, .id = webhook_call_id(c), .client_id = webhook_call_client(c)),
        row, c, &found, err);

    return code == DF_OK && !found ? no_such_webhook(err) : code;
}

/* --- input --- */

static void read_secret(struct webhook_call *c, struct df_input *in)
{
    struct df_str own = df_input_text(in, "secret", SIZE_MAX, DF_OPTIONAL);
    struct df_err err = DF_ERR_INIT;

    if (!own.ptr)
        df_webhook_secret_make(c->opt->clock, &c->secret);
    else if (df_webhook_secret_check(own, &err) != DF_OK)
        df_input_error(in, "secret", "%s", err.detail);
    else
        memcpy(c->secret.text, own.ptr, own.len);
}

static int read_switch(struct df_input *in, const char *name)
{
    const struct df_json *v = df_json_get(in->object, name);

    return v && v->type != DF_JSON_NULL ? df_input_bool(in, name, true) : DF_WEBHOOK_UNCHANGED;
}

static void read_switches(struct webhook_call *c, struct df_input *in)
{
    c->active = read_switch(in, "isActive");
    c->auto_rotate = read_switch(in, "autoRotate");
}

/* On a thread of the look-ups. */
static void host_looked_up(struct df_lookup *l, const char *problem)
{
    struct webhook_call *c =
        (struct webhook_call *)((char *)l - offsetof(struct webhook_call, lookup));
    struct df_input in;

    if (!problem) {
        df_work_submit(&c->w);
        return;
    }
    df_input_init(&in, df_req_arena(c->w.req), NULL);
    df_input_error(&in, "url", "%s", problem);
    (void)df_input_ok(&in, c->w.req);
    df_work_end(&c->w);
}

/* Submits the work, after a look-up if a URL was given. */
static void look_up_host(struct df_work *w)
{
    struct webhook_call *c = (struct webhook_call *)w;

    if (!c->host) {
        df_work_submit(w);
        return;
    }
    c->lookup =
        (struct df_lookup){.host = c->host, .log = df_req_log(w->req), .done = host_looked_up};
    if (!df_subscriptions_lookup(w->arg, &c->lookup))
        df_work_fail(w, DF_E_BUSY, "Too many names are being looked up.");
}

/* --- POST /clients/{clientId}/webhooks --- */

/* alert_webhooks_failing recognizes these words: a subscription that was switched off needs no
 * alert. */
static struct df_str switched_off_by(const struct webhook_call *c)
{
    return df_auth_client(c->w.req) ? DF_STR("Switched off by the client.")
                                    : DF_STR("Switched off by the administrator.");
}

static enum df_code insert_subscription(struct df_db *db, struct webhook_call *c,
                                        struct df_err *err)
{
    bool active = c->active != 0;
    struct df_str sealed = df_webhook_secret_seal(c->opt->keys, df_uuid_str(&c->id),
                                                  df_str_c(c->secret.text), df_req_arena(c->w.req));

    return df_db_exec(
        db,
        DF_Q(subscription_insert, .id = webhook_call_id(c), .client_id = webhook_call_client(c),
             .url = df_text(c->url), .events = df_text(c->events), .secret = df_null(DF_TEXT),
             .encrypted = df_blob(sealed), .active = df_bool(active), .now = df_time(c->w.now_ms),
             .disabled_at = active ? df_null(DF_TIME) : df_time(c->w.now_ms),
             .reason = df_text(active ? DF_STR_NULL : switched_off_by(c)),
             .auto_rotate = df_bool(c->auto_rotate == 1)),
        NULL, err);
}

static enum df_code run_create(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct webhook_call *c = (struct webhook_call *)w;
    int64_t count = 0;
    enum df_code code = webhook_call_find_client(db, c, err);

    if (code == DF_OK)
        code = df_db_exec(db, DF_Q(subscription_lock_client, .client_id = webhook_call_client(c)),
                          NULL, err);
    if (code == DF_OK)
        code = df_db_query_int(db, DF_Q(subscription_count, .client_id = webhook_call_client(c)),
                               &count, err);
    if (code == DF_OK && count >= c->opt->settings.max_per_client)
        return df_err_set(err, DF_E_CONFLICT,
                          "The client has %lld webhooks, and may have no more "
                          "(webhooks.max_per_client): delete one that is not needed.",
                          (long long)count);
    if (code == DF_OK)
        code = insert_subscription(db, c, err);
    if (code == DF_OK)
        code = webhook_call_audit(db, c, "WebhookCreated", DF_STR_NULL, err);
    return code == DF_OK ? webhook_call_get(db, c, write_subscription, err) : code;
}

static bool read_new(struct df_work *w, struct df_input *in)
{
    struct webhook_call *c = (struct webhook_call *)w;

    (void)read_client(w, in);
    if (!df_input_json(in, w->req))
        return false;
    c->url = df_input_text(in, "url", SIZE_MAX, DF_REQUIRED);
    c->host = df_subscriptions_check_url(in, c->url);
    c->events = df_subscriptions_read_events(in);
    read_switches(c, in);
    read_secret(c, in);
    c->id = df_uuid_v7(c->opt->clock);
    return true;
}

static void created(struct df_work *w)
{
    const struct webhook_call *c = (const struct webhook_call *)w;

    log_change(c, "WebhookCreated");
    df_req_add_header(w->req, "Location",
                      df_arena_printf(df_req_arena(w->req), "/clients/" DF_STR_FMT "/webhooks/%s",
                                      DF_STR_ARG(c->identifier), c->id.text));
}

static const struct df_handler create = {
    .size = sizeof(struct webhook_call),
    .writes = true,
    .status = 201,
    .prepare = read_new,
    .first = look_up_host,
    .run = run_create,
    .done = created,
    .cleanup = wipe_secret,
};

/* --- GET /clients/{clientId}/webhooks, GET, PATCH and DELETE …/{id} --- */

static enum df_code run_list(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct webhook_call *c = (struct webhook_call *)w;
    enum df_code code = webhook_call_find_client(db, c, err);

    if (code == DF_OK)
        code = df_db_query_int(db, DF_Q(subscription_count, .client_id = webhook_call_client(c)),
                               &c->w.page.total, err);
    if (code != DF_OK)
        return code;
    return df_work_page(w, db,
                        DF_Q(subscription_list, .client_id = webhook_call_client(c),
                             .limit = df_int(w->page.size), .offset = df_int(w->page.offset)),
                        write_subscription, err);
}

static const struct df_handler list = {
    .size = sizeof(struct webhook_call),
    .paged = true,
    .max_answer = ANSWER_MAX,
    .prepare = read_client,
    .run = run_list,
};

static enum df_code run_get(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct webhook_call *c = (struct webhook_call *)w;
    enum df_code code = webhook_call_find_client(db, c, err);

    return code == DF_OK ? webhook_call_get(db, c, write_subscription, err) : code;
}

static const struct df_handler get = {
    .size = sizeof(struct webhook_call),
    .prepare = webhook_call_read_id,
    .run = run_get,
};

static enum df_code switch_subscription(struct df_db *db, struct webhook_call *c,
                                        struct df_err *err)
{
    if (c->active == DF_WEBHOOK_UNCHANGED)
        return DF_OK;
    if (c->active)
        return df_db_exec(
            db, DF_Q(subscription_activate, .active = df_bool(true), .id = webhook_call_id(c)),
            NULL, err);
    return df_db_exec(db,
                      DF_Q(subscription_deactivate, .active = df_bool(false),
                           .now = df_time(c->w.now_ms), .reason = df_text(switched_off_by(c)),
                           .id = webhook_call_id(c)),
                      NULL, err);
}

static enum df_code switch_rotation(struct df_db *db, struct webhook_call *c, struct df_err *err)
{
    if (c->auto_rotate == DF_WEBHOOK_UNCHANGED)
        return DF_OK;
    return df_db_exec(db,
                      DF_Q(subscription_auto_rotate, .auto_rotate = df_bool(c->auto_rotate == 1),
                           .id = webhook_call_id(c)),
                      NULL, err);
}

/* The members that were given, for the audit log. */
static struct df_str changed_members(const struct webhook_call *c)
{
    const struct {
        const char *name;
        bool given;
    } members[] = {
        {"url", c->url.ptr},
        {"events", c->events.ptr},
        {"isActive", c->active != DF_WEBHOOK_UNCHANGED},
        {"autoRotate", c->auto_rotate != DF_WEBHOOK_UNCHANGED},
    };
    struct df_arena *a = df_req_arena(c->w.req);
    struct df_str names = DF_STR("");

    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
        if (members[i].given)
            names = df_arena_printf(a, DF_STR_FMT "%s\"%s\"", DF_STR_ARG(names),
                                    names.len > 0 ? "," : "", members[i].name);
    return df_arena_printf(a, "{\"changed\":[" DF_STR_FMT "]}", DF_STR_ARG(names));
}

static enum df_code run_patch(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct webhook_call *c = (struct webhook_call *)w;
    int64_t affected = 0;
    enum df_code code = webhook_call_find_client(db, c, err);

    if (code == DF_OK)
        code = df_db_exec(db,
                          DF_Q(subscription_change, .url = df_text(c->url),
                               .events = df_text(c->events), .now = df_time(c->w.now_ms),
                               .id = webhook_call_id(c), .client_id = webhook_call_client(c)),
                          &affected, err);
    if (code == DF_OK && affected == 0)
        return no_such_webhook(err);
    if (code == DF_OK)
        code = switch_subscription(db, c, err);
    if (code == DF_OK)
        code = switch_rotation(db, c, err);
    if (code == DF_OK)
        code = webhook_call_audit(db, c, "WebhookChanged", changed_members(c), err);
    return code == DF_OK ? webhook_call_get(db, c, write_subscription, err) : code;
}

static bool read_patch(struct df_work *w, struct df_input *in)
{
    struct webhook_call *c = (struct webhook_call *)w;

    if (!webhook_call_read_id(w, in) || !df_input_json(in, w->req))
        return false;
    c->url = df_input_text(in, "url", SIZE_MAX, DF_OPTIONAL);
    c->host = df_subscriptions_check_url(in, c->url);
    c->events = df_subscriptions_read_events(in);
    read_switches(c, in);
    if (df_json_get(in->object, "secret"))
        df_input_error(in, "secret", "is replaced by POST …/rotate-secret");
    return true;
}

static void patched(struct df_work *w)
{
    log_change((const struct webhook_call *)w, "WebhookChanged");
}

static const struct df_handler patch = {
    .size = sizeof(struct webhook_call),
    .writes = true,
    .prepare = read_patch,
    .first = look_up_host,
    .run = run_patch,
    .done = patched,
};

static enum df_code run_delete(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct webhook_call *c = (struct webhook_call *)w;
    int64_t affected = 0;
    enum df_code code = webhook_call_find_client(db, c, err);

    if (code == DF_OK)
        code = df_db_exec(db,
                          DF_Q(subscription_delete_deliveries, .id = webhook_call_id(c),
                               .client_id = webhook_call_client(c)),
                          NULL, err);
    if (code == DF_OK)
        code = df_db_exec(db,
                          DF_Q(subscription_delete, .id = webhook_call_id(c),
                               .client_id = webhook_call_client(c)),
                          &affected, err);
    if (code == DF_OK && affected == 0)
        return no_such_webhook(err);
    return code == DF_OK ? webhook_call_audit(db, c, "WebhookDeleted", DF_STR_NULL, err) : code;
}

static void deleted(struct df_work *w)
{
    log_change((const struct webhook_call *)w, "WebhookDeleted");
}

static const struct df_handler delete_one = {
    .size = sizeof(struct webhook_call),
    .writes = true,
    .status = 204,
    .prepare = webhook_call_read_id,
    .run = run_delete,
    .done = deleted,
};

/* --- POST …/{id}/rotate-secret --- */

static enum df_code run_rotate(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct webhook_call *c = (struct webhook_call *)w;
    struct df_str sealed = df_webhook_secret_seal(c->opt->keys, df_uuid_str(&c->id),
                                                  df_str_c(c->secret.text), df_req_arena(c->w.req));
    int64_t affected = 0;
    enum df_code code = webhook_call_find_client(db, c, err);

    if (code == DF_OK)
        code = df_db_exec(db,
                          DF_Q(subscription_rotate, .until = df_time(c->until_ms),
                               .now = df_time(c->w.now_ms), .secret = df_null(DF_TEXT),
                               .encrypted = df_blob(sealed), .id = webhook_call_id(c),
                               .client_id = webhook_call_client(c)),
                          &affected, err);
    if (code == DF_OK && affected == 0)
        return no_such_webhook(err);
    if (code == DF_OK)
        code = webhook_call_audit(db, c, "WebhookSecretRotated", DF_STR_NULL, err);
    return code == DF_OK ? webhook_call_get(db, c, write_subscription, err) : code;
}

static bool read_rotation(struct df_work *w, struct df_input *in)
{
    struct webhook_call *c = (struct webhook_call *)w;

    if (!webhook_call_read_id(w, in) || (df_req_body(w->req).len > 0 && !df_input_json(in, w->req)))
        return false;
    int64_t hours = df_input_query_int(in, w->req, "overlapHours", 0, OVERLAP_MAX,
                                       c->opt->settings.rotation_overlap_ms / HOUR_MS);
    read_secret(c, in);
    c->until_ms = w->now_ms + hours * HOUR_MS;
    return true;
}

static void rotated(struct df_work *w)
{
    log_change((const struct webhook_call *)w, "WebhookSecretRotated");
}

static const struct df_handler rotate = {
    .size = sizeof(struct webhook_call),
    .writes = true,
    .prepare = read_rotation,
    .run = run_rotate,
    .done = rotated,
    .cleanup = wipe_secret,
};

/* --- POST …/{id}/test --- */

static struct df_str test_body(const struct webhook_call *c)
{
    char now[DF_TIME_LEN + 1];

    df_time_format(c->w.now_ms, now);
    /* Identifiers and times contain nothing to escape. */
    return df_arena_printf(df_req_arena(c->w.req),
                           "{\"event\":\"Test\",\"clientId\":\"" DF_STR_FMT
                           "\",\"webhookId\":\"%s\",\"status\":\"Test\",\"createdAt\":\"%s\"}",
                           DF_STR_ARG(c->identifier), c->id.text, now);
}

static enum df_code run_test(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct webhook_call *c = (struct webhook_call *)w;
    int64_t count = 0;
    enum df_code code = webhook_call_find_client(db, c, err);

    if (code == DF_OK)
        code = webhook_call_get(db, c, NULL, err);
    if (code != DF_OK)
        return code;
    const struct df_webhook_event e = {
        .client_id = df_uuid_str(&c->client),
        .subscription_id = df_uuid_str(&c->id),
        .event = "Test",
        .reference = df_uuid_str(&c->id),
        .body = test_body(c),
        .correlation_id = df_req_correlation_id(w->req),
        .now_ms = w->now_ms,
    };
    code = df_webhooks_emit(db, c->opt->clock, &e, &count, err);
    if (code == DF_OK && count == 0)
        return df_err_set(err, DF_E_CONFLICT,
                          "The webhook is switched off: nothing is sent to it before isActive is "
                          "true again.");
    df_json_open(&w->json, '{');
    df_json_kv_text(&w->json, "id", df_uuid_str(&c->id));
    df_json_kv_text(&w->json, "event", DF_STR("Test"));
    df_json_kv_text(&w->json, "status", DF_STR("Pending"));
    df_json_close(&w->json, '}');
    return code;
}

static void test_is_due(struct df_work *w)
{
    df_webhooks_wake(((const struct webhook_call *)w)->opt->webhooks);
}

static const struct df_handler test = {
    .size = sizeof(struct webhook_call),
    .writes = true,
    .status = 202,
    .prepare = webhook_call_read_id,
    .run = run_test,
    .done = test_is_due,
};

#define OWNER(m, path, kind, h)                                                                    \
    DF_ROUTE(m, "/clients/{clientId}/webhooks" path, kind, DF_ACCESS_OWNER, NULL, h)

const struct df_route df_subscription_routes[] = {
    OWNER("POST", "", DF_BODY_JSON, create),
    OWNER("GET", "", DF_BODY_NONE, list),
    OWNER("GET", "/{id}", DF_BODY_NONE, get),
    OWNER("PATCH", "/{id}", DF_BODY_JSON, patch),
    OWNER("DELETE", "/{id}", DF_BODY_NONE, delete_one),
    OWNER("POST", "/{id}/rotate-secret", DF_BODY_ANY, rotate),
    DF_ROUTE("GET", "/clients/{clientId}/webhooks/{id}/secret", DF_BODY_NONE, DF_ACCESS_OWNER,
             DF_NEEDS_ADMIN, df_webhook_fetch_secret), /* an operator's key needs the role */
    DF_ROUTE("POST", "/clients/{clientId}/webhooks/{id}/test", DF_BODY_ANY, DF_ACCESS_OWNER,
             DF_NEEDS_OPERATE, test),
    OWNER("GET", "/{id}/deliveries", DF_BODY_NONE, df_webhook_deliveries),
    OWNER("GET", "/{id}/deliveries/{deliveryId}", DF_BODY_NONE, df_webhook_delivery),
    DF_ROUTE("POST", "/clients/{clientId}/webhooks/{id}/deliveries/{deliveryId}/resend",
             DF_BODY_ANY, DF_ACCESS_OWNER, DF_NEEDS_OPERATE, df_webhook_resend),
    DF_ROUTE("POST", "/clients/{clientId}/webhooks/{id}/replay", DF_BODY_ANY, DF_ACCESS_OWNER,
             DF_NEEDS_OPERATE, df_webhook_replay),
    {.method = NULL},
};

/*
 * /clients/{clientId}/webhooks, for the client itself and the administrator. No scope is required:
 * webhooks tell a client only what it may see anyway.
 *
 * If a URL is given, three threads work on the request in turn: the HTTP thread reads the input, a
 * thread of the look-ups asks for the host's addresses, the store writes.
 */
#include "access/handler.h"
#include "delivery/attempts.sql.h"
#include "webhooks/secret.h"
#include "webhooks/subscriptions.sql.h"
#include "webhooks/subscriptions_private.h"
#include "webhooks/webhooks.h"

#define ANSWER_MAX   (16 << 20)
#define HISTORY_MAX  50 /* attempts shown of a delivery */
#define OVERLAP_MAX  720
#define HOUR_MS      INT64_C(3600000)
#define DEFAULTS     DF_STR("BatchCompleted,BatchFailed")
#define UNCHANGED    (-1)
#define CHANNEL_NAME DF_STR("webhooks")

struct call {
    struct df_work w; /* its arg is the subscriptions */
    struct df_lookup lookup;
    const struct df_subscriptions_options *opt;
    struct df_str identifier; /* the client's */
    struct df_uuid client;
    struct df_uuid id;
    struct df_str url;    /* absent: unchanged */
    const char *host;     /* of the URL */
    struct df_str events; /* absent: unchanged */
    int active;           /* 0, 1, or UNCHANGED */
    struct df_webhook_secret secret;
    int64_t until_ms;     /* end of the previous secret */
    struct df_str status; /* of deliveries; absent: any */
};

static bool read_client(struct df_work *w, struct df_input *in)
{
    struct call *c = (struct call *)w;
    const struct df_subscriptions *subscriptions = w->arg;

    (void)in;
    c->opt = &subscriptions->opt;
    c->identifier = df_req_param(w->req, "clientId");
    c->active = UNCHANGED;
    return true;
}

/* For a path with {id}. */
static bool read_id(struct df_work *w, struct df_input *in)
{
    struct call *c = (struct call *)w;

    (void)read_client(w, in);
    if (df_uuid_parse(df_req_param(w->req, "id"), &c->id))
        return true;
    df_req_fail(w->req, DF_E_NOT_FOUND, "There is no such webhook.");
    return false;
}

static void wipe_secret(struct df_work *w)
{
    struct call *c = (struct call *)w;
    df_wipe(&c->secret, sizeof(c->secret));
}

static struct df_value id_of(const struct call *c)
{
    return df_uuid(df_uuid_str(&c->id));
}

static struct df_value client_of(const struct call *c)
{
    return df_uuid(df_uuid_str(&c->client));
}

static struct df_actor actor_of(const struct call *c)
{
    struct df_actor by = df_actor_of(c->w.req);
    if (df_auth_client(c->w.req))
        by.name = df_arena_printf(df_req_arena(c->w.req), "client:" DF_STR_FMT,
                                  DF_STR_ARG(c->identifier));
    return by;
}

static void log_change(const struct call *c, const char *event)
{
    df_log_info(event, "webhook %s of client " DF_STR_FMT, c->id.text, DF_STR_ARG(c->identifier));
}

static enum df_code no_such_webhook(struct df_err *err)
{
    return df_err_set(err, DF_E_NOT_FOUND, "There is no such webhook.");
}

static enum df_code find_client(struct df_db *db, struct call *c, struct df_err *err)
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

static enum df_code audit_webhook(struct df_db *db, const struct call *c, const char *action,
                                  struct df_str details, struct df_err *err)
{
    struct df_actor by = actor_of(c);
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
    struct call *c = arg;
    struct df_json_out *out = &c->w.json;
    int64_t until = df_col_time(r, subscription_PreviousSecretExpiresAt);

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
    if (c->secret.text[0])
        df_json_kv_text(out, "secret", df_str_c(c->secret.text));
    df_json_close(out, '}');
}

static enum df_code get_subscription(struct df_db *db, struct call *c,
                                     void (*row)(void *arg, struct df_result *r),
                                     struct df_err *err)
{
    bool found = false;
    enum df_code code = df_db_one(
        db, DF_Q(subscription_get, .id = id_of(c), .client_id = client_of(c)), row, c, &found, err);

    return code == DF_OK && !found ? no_such_webhook(err) : code;
}

/* --- input --- */

static void read_secret(struct call *c, struct df_input *in)
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

static void read_active(struct call *c, struct df_input *in)
{
    const struct df_json *v = df_json_get(in->object, "isActive");
    if (v && v->type != DF_JSON_NULL)
        c->active = df_input_bool(in, "isActive", true);
}

/* On a thread of the look-ups. */
static void host_looked_up(struct df_lookup *l, const char *problem)
{
    struct call *c = (struct call *)((char *)l - offsetof(struct call, lookup));
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
    struct call *c = (struct call *)w;

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
static struct df_str switched_off_by(const struct call *c)
{
    return df_auth_client(c->w.req) ? DF_STR("Switched off by the client.")
                                    : DF_STR("Switched off by the administrator.");
}

static enum df_code insert_subscription(struct df_db *db, struct call *c, struct df_err *err)
{
    struct df_webhook_sealed sealed;
    bool active = c->active != 0;

    df_webhook_secret_seal(c->opt->keys.master, c->opt->clock, df_uuid_str(&c->id),
                           df_str_c(c->secret.text), &sealed);
    return df_db_exec(db,
                      DF_Q(subscription_insert, .id = id_of(c), .client_id = client_of(c),
                           .url = df_text(c->url), .events = df_text(c->events),
                           .secret = df_text(sealed.plain), .encrypted = df_blob(sealed.sealed),
                           .active = df_bool(active), .now = df_time(c->w.now_ms),
                           .disabled_at = active ? df_null(DF_TIME) : df_time(c->w.now_ms),
                           .reason = df_text(active ? DF_STR_NULL : switched_off_by(c))),
                      NULL, err);
}

static enum df_code run_create(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct call *c = (struct call *)w;
    int64_t count = 0;
    enum df_code code = find_client(db, c, err);

    if (code == DF_OK)
        code = df_db_exec(db, DF_Q(subscription_lock_client, .client_id = client_of(c)), NULL, err);
    if (code == DF_OK)
        code =
            df_db_query_int(db, DF_Q(subscription_count, .client_id = client_of(c)), &count, err);
    if (code == DF_OK && count >= c->opt->settings.max_per_client)
        return df_err_set(err, DF_E_CONFLICT,
                          "The client has %lld webhooks, and may have no more "
                          "(webhooks.max_per_client): delete one that is not needed.",
                          (long long)count);
    if (code == DF_OK)
        code = insert_subscription(db, c, err);
    if (code == DF_OK)
        code = audit_webhook(db, c, "WebhookCreated", DF_STR_NULL, err);
    return code == DF_OK ? get_subscription(db, c, write_subscription, err) : code;
}

static bool read_new(struct df_work *w, struct df_input *in)
{
    struct call *c = (struct call *)w;

    (void)read_client(w, in);
    if (!df_input_json(in, w->req))
        return false;
    c->url = df_input_text(in, "url", SIZE_MAX, DF_REQUIRED);
    c->host = df_subscriptions_check_url(in, c->url);
    c->events = df_subscriptions_read_events(in);
    read_active(c, in);
    read_secret(c, in);
    c->id = df_uuid_v7(c->opt->clock);
    return true;
}

static void created(struct df_work *w)
{
    const struct call *c = (const struct call *)w;

    log_change(c, "WebhookCreated");
    df_req_add_header(w->req, "Location",
                      df_arena_printf(df_req_arena(w->req), "/clients/" DF_STR_FMT "/webhooks/%s",
                                      DF_STR_ARG(c->identifier), c->id.text));
}

static const struct df_handler create = {
    .size = sizeof(struct call),
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
    struct call *c = (struct call *)w;
    enum df_code code = find_client(db, c, err);

    if (code == DF_OK)
        code = df_db_query_int(db, DF_Q(subscription_count, .client_id = client_of(c)),
                               &c->w.page.total, err);
    if (code != DF_OK)
        return code;
    return df_work_page(w, db,
                        DF_Q(subscription_list, .client_id = client_of(c),
                             .limit = df_int(w->page.size), .offset = df_int(w->page.offset)),
                        write_subscription, err);
}

static const struct df_handler list = {
    .size = sizeof(struct call),
    .paged = true,
    .max_answer = ANSWER_MAX,
    .prepare = read_client,
    .run = run_list,
};

static enum df_code run_get(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct call *c = (struct call *)w;
    enum df_code code = find_client(db, c, err);

    return code == DF_OK ? get_subscription(db, c, write_subscription, err) : code;
}

static const struct df_handler get = {
    .size = sizeof(struct call),
    .prepare = read_id,
    .run = run_get,
};

static enum df_code switch_subscription(struct df_db *db, struct call *c, struct df_err *err)
{
    if (c->active == UNCHANGED)
        return DF_OK;
    if (c->active)
        return df_db_exec(db, DF_Q(subscription_activate, .active = df_bool(true), .id = id_of(c)),
                          NULL, err);
    return df_db_exec(db,
                      DF_Q(subscription_deactivate, .active = df_bool(false),
                           .now = df_time(c->w.now_ms), .reason = df_text(switched_off_by(c)),
                           .id = id_of(c)),
                      NULL, err);
}

/* The members that were given, for the audit log. */
static struct df_str changed_members(const struct call *c)
{
    return df_arena_printf(df_req_arena(c->w.req), "{\"changed\":[%s%s%s%s%s]}",
                           c->url.ptr ? "\"url\"" : "", c->url.ptr && c->events.ptr ? "," : "",
                           c->events.ptr ? "\"events\"" : "",
                           (c->url.ptr || c->events.ptr) && c->active != UNCHANGED ? "," : "",
                           c->active != UNCHANGED ? "\"isActive\"" : "");
}

static enum df_code run_patch(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct call *c = (struct call *)w;
    int64_t affected = 0;
    enum df_code code = find_client(db, c, err);

    if (code == DF_OK)
        code = df_db_exec(db,
                          DF_Q(subscription_change, .url = df_text(c->url),
                               .events = df_text(c->events), .now = df_time(c->w.now_ms),
                               .id = id_of(c), .client_id = client_of(c)),
                          &affected, err);
    if (code == DF_OK && affected == 0)
        return no_such_webhook(err);
    if (code == DF_OK)
        code = switch_subscription(db, c, err);
    if (code == DF_OK)
        code = audit_webhook(db, c, "WebhookChanged", changed_members(c), err);
    return code == DF_OK ? get_subscription(db, c, write_subscription, err) : code;
}

static bool read_patch(struct df_work *w, struct df_input *in)
{
    struct call *c = (struct call *)w;

    if (!read_id(w, in) || !df_input_json(in, w->req))
        return false;
    c->url = df_input_text(in, "url", SIZE_MAX, DF_OPTIONAL);
    c->host = df_subscriptions_check_url(in, c->url);
    c->events = df_subscriptions_read_events(in);
    read_active(c, in);
    if (df_json_get(in->object, "secret"))
        df_input_error(in, "secret", "is replaced by POST …/rotate-secret");
    return true;
}

static void patched(struct df_work *w)
{
    log_change((const struct call *)w, "WebhookChanged");
}

static const struct df_handler patch = {
    .size = sizeof(struct call),
    .writes = true,
    .prepare = read_patch,
    .first = look_up_host,
    .run = run_patch,
    .done = patched,
};

static enum df_code run_delete(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct call *c = (struct call *)w;
    int64_t affected = 0;
    enum df_code code = find_client(db, c, err);

    if (code == DF_OK)
        code = df_db_exec(
            db, DF_Q(subscription_delete_deliveries, .id = id_of(c), .client_id = client_of(c)),
            NULL, err);
    if (code == DF_OK)
        code = df_db_exec(db, DF_Q(subscription_delete, .id = id_of(c), .client_id = client_of(c)),
                          &affected, err);
    if (code == DF_OK && affected == 0)
        return no_such_webhook(err);
    return code == DF_OK ? audit_webhook(db, c, "WebhookDeleted", DF_STR_NULL, err) : code;
}

static void deleted(struct df_work *w)
{
    log_change((const struct call *)w, "WebhookDeleted");
}

static const struct df_handler delete_one = {
    .size = sizeof(struct call),
    .writes = true,
    .status = 204,
    .prepare = read_id,
    .run = run_delete,
    .done = deleted,
};

/* --- POST …/{id}/rotate-secret --- */

static enum df_code run_rotate(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct call *c = (struct call *)w;
    struct df_webhook_sealed sealed;
    int64_t affected = 0;
    enum df_code code = find_client(db, c, err);

    df_webhook_secret_seal(c->opt->keys.master, c->opt->clock, df_uuid_str(&c->id),
                           df_str_c(c->secret.text), &sealed);
    if (code == DF_OK)
        code = df_db_exec(db,
                          DF_Q(subscription_rotate, .until = df_time(c->until_ms),
                               .now = df_time(c->w.now_ms), .secret = df_text(sealed.plain),
                               .encrypted = df_blob(sealed.sealed), .id = id_of(c),
                               .client_id = client_of(c)),
                          &affected, err);
    if (code == DF_OK && affected == 0)
        return no_such_webhook(err);
    if (code == DF_OK)
        code = audit_webhook(db, c, "WebhookSecretRotated", DF_STR_NULL, err);
    return code == DF_OK ? get_subscription(db, c, write_subscription, err) : code;
}

static bool read_rotation(struct df_work *w, struct df_input *in)
{
    struct call *c = (struct call *)w;

    if (!read_id(w, in) || (df_req_body(w->req).len > 0 && !df_input_json(in, w->req)))
        return false;
    int64_t hours = df_input_query_int(in, w->req, "overlapHours", 0, OVERLAP_MAX,
                                       c->opt->settings.rotation_overlap_ms / HOUR_MS);
    read_secret(c, in);
    c->until_ms = w->now_ms + hours * HOUR_MS;
    return true;
}

static void rotated(struct df_work *w)
{
    log_change((const struct call *)w, "WebhookSecretRotated");
}

static const struct df_handler rotate = {
    .size = sizeof(struct call),
    .writes = true,
    .prepare = read_rotation,
    .run = run_rotate,
    .done = rotated,
    .cleanup = wipe_secret,
};

/* --- POST …/{id}/test --- */

static struct df_str test_body(const struct call *c)
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
    struct call *c = (struct call *)w;
    int64_t count = 0;
    enum df_code code = find_client(db, c, err);

    if (code == DF_OK)
        code = get_subscription(db, c, NULL, err);
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
    df_webhooks_wake(((const struct call *)w)->opt->webhooks);
}

static const struct df_handler test = {
    .size = sizeof(struct call),
    .writes = true,
    .status = 202,
    .prepare = read_id,
    .run = run_test,
    .done = test_is_due,
};

/* --- GET …/{id}/deliveries --- */

struct delivery {
    struct df_str id;
    struct df_str json; /* its members, without the braces */
};

struct reading {
    const struct call *call;
    struct delivery *rows; /* of a page */
    size_t count;
    struct df_buf text; /* of one row */
};

/* The error as the caller may see it. */
static struct df_str error_shown(const struct call *c, int64_t http_status, struct df_str error)
{
    if (!df_auth_client(c->w.req))
        return error;
    return df_webhook_error_shown(df_req_arena(c->w.req), http_status, error);
}

static void write_delivery(const struct call *c, struct df_result *r, struct df_json_out *out)
{
    int64_t status = df_col_int(r, subscription_deliveries_LastStatus);
    struct df_str error = df_col_text(r, subscription_deliveries_LastError);

    df_json_kv_text(out, "id", df_col_text(r, subscription_deliveries_Id));
    df_json_kv_text(out, "eventId", df_col_text(r, subscription_deliveries_EventId));
    df_json_kv_text(out, "event", df_col_text(r, subscription_deliveries_Event));
    df_json_kv_text(out, "reference", df_col_text(r, subscription_deliveries_Reference));
    df_json_kv_text(out, "status", df_col_text(r, subscription_deliveries_Status));
    df_json_kv_int(out, "attempts", df_col_int(r, subscription_deliveries_AttemptCount));
    df_json_kv_int_if(out, "lastStatus", !df_col_null(r, subscription_deliveries_LastStatus),
                      status);
    df_json_kv_text(out, "lastError", error_shown(c, status, error));
    df_json_kv_time(out, "createdAt", df_col_time(r, subscription_deliveries_CreatedAt));
    df_json_kv_time(out, "lastAttemptAt", df_col_time(r, subscription_deliveries_LastAttemptAt));
    df_json_kv_time(out, "sentAt", df_col_time(r, subscription_deliveries_SentAt));
    df_json_kv_time(out, "nextAttemptAt", df_col_time(r, subscription_deliveries_NextAttemptAt));
}

static void read_delivery(void *arg, struct df_result *r)
{
    struct reading *d = arg;
    struct df_arena *a = df_req_arena(d->call->w.req);
    struct df_json_out out;

    df_buf_reset(&d->text);
    df_json_out_init(&out, &d->text);
    write_delivery(d->call, r, &out);
    d->rows[d->count++] =
        (struct delivery){df_arena_str(a, df_col_text(r, subscription_deliveries_Id)),
                          df_arena_str(a, df_buf_str(&d->text))};
}

/* A connection has one result at a time, so the rows are kept until their attempts are read. */
static enum df_code read_deliveries(struct df_db *db, struct call *c, struct reading *d,
                                    struct df_err *err)
{
    *d = (struct reading){
        .call = c,
        .rows = DF_ARENA_ARRAY(df_req_arena(c->w.req), struct delivery, (size_t)c->w.page.size)};
    df_buf_init(&d->text, ANSWER_MAX);
    enum df_code code = df_db_each(
        db,
        DF_Q(subscription_deliveries, .subscription_id = id_of(c), .status = df_text(c->status),
             .limit = df_int(c->w.page.size), .offset = df_int(c->w.page.offset)),
        read_delivery, d, err);
    df_buf_release(&d->text);
    return code;
}

static void write_attempt(void *arg, struct df_result *r)
{
    struct call *c = arg;
    struct df_json_out *out = &c->w.json;
    bool is_client = df_auth_client(c->w.req);
    int64_t status = df_col_int(r, delivery_attempt_list_HttpStatus);
    struct df_str answer = df_col_text(r, delivery_attempt_list_Answer);
    struct df_str error = df_col_text(r, delivery_attempt_list_Error);
    /* The duration is hidden too: it would tell a name that exists from one that does not. */
    bool hidden = is_client && df_webhook_is_unreachable(error);

    df_json_open(out, '{');
    df_json_kv_int(out, "attempt", df_col_int(r, delivery_attempt_list_Attempt));
    df_json_kv_time(out, "attemptedAt", df_col_time(r, delivery_attempt_list_AttemptedAt));
    df_json_kv_text(out, "outcome", df_col_text(r, delivery_attempt_list_Outcome));
    df_json_kv_int_if(out, "httpStatus", !df_col_null(r, delivery_attempt_list_HttpStatus), status);
    df_json_kv_int(out, "durationMs", hidden ? 0 : df_col_int(r, delivery_attempt_list_DurationMs));
    df_json_kv_int(out, "answerLength", (int64_t)df_utf8_count(answer));
    if (!is_client)
        df_json_kv_text(out, "answer", answer);
    df_json_kv_text(out, "error", error_shown(c, status, error));
    df_json_close(out, '}');
}

static enum df_code write_delivery_with_attempts(struct df_db *db, struct call *c,
                                                 const struct delivery *d, struct df_err *err)
{
    df_json_open(&c->w.json, '{');
    df_json_raw(&c->w.json, d->json);
    df_json_key(&c->w.json, "attemptsHistory");
    df_json_open(&c->w.json, '[');
    enum df_code code = df_db_each(db,
                                   DF_Q(delivery_attempt_list, .channel = df_text(CHANNEL_NAME),
                                        .row_key = df_text(d->id), .limit = df_int(HISTORY_MAX)),
                                   write_attempt, c, err);
    df_json_close(&c->w.json, ']');
    df_json_close(&c->w.json, '}');
    return code;
}

static enum df_code run_deliveries(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct call *c = (struct call *)w;
    struct reading d = {.count = 0};
    enum df_code code = find_client(db, c, err);

    if (code == DF_OK)
        code = get_subscription(db, c, NULL, err);
    if (code == DF_OK)
        code = df_db_query_int(db,
                               DF_Q(subscription_deliveries_total, .subscription_id = id_of(c),
                                    .status = df_text(c->status)),
                               &c->w.page.total, err);
    if (code == DF_OK)
        code = read_deliveries(db, c, &d, err);
    df_page_open(&w->json);
    for (size_t i = 0; code == DF_OK && i < d.count; i++)
        code = write_delivery_with_attempts(db, c, &d.rows[i], err);
    df_page_close(&c->w.page, &c->w.json);
    return code;
}

static bool read_status(struct df_work *w, struct df_input *in)
{
    static const char *const states[] = {"Pending", "Sending", "Sent", "Error", NULL};
    struct call *c = (struct call *)w;

    c->status = df_input_choice(in, w->req, "status", states);
    return read_id(w, in);
}

static const struct df_handler deliveries = {
    .size = sizeof(struct call),
    .paged = true,
    .max_answer = ANSWER_MAX,
    .prepare = read_status,
    .run = run_deliveries,
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
    OWNER("POST", "/{id}/test", DF_BODY_ANY, test),
    OWNER("GET", "/{id}/deliveries", DF_BODY_NONE, deliveries),
    {.method = NULL},
};

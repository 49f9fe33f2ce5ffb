/*
 * /admin/webhook-failures: deliveries that were given up, and their replay. A replay is a new
 * delivery of the same event, to the subscription's present URL and with its present secret.
 */
#include "access/handler.h"
#include "access/list.h"
#include "store/rows.h"
#include "webhooks/failures.sql.h"
#include "webhooks/subscriptions_call.h"
#include "webhooks/subscriptions_private.h"
#include "webhooks/webhooks.h"

#define ANSWER_MAX (64 << 20)
#define REPLAY_MAX 10000 /* in one call */

struct call {
    struct df_work w; /* its arg is the subscriptions */
    int64_t id;
    struct df_uuid subscription;
    bool of_subscription;
    struct df_str client; /* filter: the public identifier; absent: any */
    int replayed;         /* filter: 0, 1; -1: any */
    int64_t since_ms;
    int64_t count; /* of failures replayed */
};

static struct df_value subscription_of(const struct call *c)
{
    return c->of_subscription ? df_uuid(df_uuid_str(&c->subscription)) : df_null(DF_UUID);
}

static void read_subscription(struct call *c, struct df_input *in)
{
    struct df_str given = df_input_filter(c->w.req, "subscriptionId");

    c->of_subscription = given.ptr;
    if (c->of_subscription && !df_uuid_parse(given, &c->subscription))
        df_input_error(in, "subscriptionId", "must be a UUID");
}

/* --- GET /admin/webhook-failures --- */

static void write_failure(void *arg, struct df_result *r)
{
    struct df_json_out *out = &((struct df_work *)arg)->json;

    df_json_open(out, '{');
    df_json_kv_int(out, "id", df_col_int(r, webhook_failure_list_Id));
    df_json_kv_text(out, "subscriptionId", df_col_text(r, webhook_failure_list_SubscriptionId));
    df_json_kv_text(out, "clientId", df_col_text(r, webhook_failure_list_ClientIdentifier));
    df_json_kv_text(out, "url", df_col_text(r, webhook_failure_list_Url));
    df_json_kv_text(out, "deliveryId", df_col_text(r, webhook_failure_list_DeliveryId));
    df_json_kv_text(out, "eventId", df_col_text(r, webhook_failure_list_EventId));
    df_json_kv_text(out, "event", df_col_text(r, webhook_failure_list_Event));
    df_json_kv_text(out, "payload", df_col_text(r, webhook_failure_list_PayloadJson));
    df_json_kv_int(out, "attempts", df_col_int(r, webhook_failure_list_Attempts));
    df_json_kv_int_if(out, "lastStatus", !df_col_null(r, webhook_failure_list_LastStatus),
                      df_col_int(r, webhook_failure_list_LastStatus));
    df_json_kv_text(out, "lastError", df_col_text(r, webhook_failure_list_LastError));
    df_json_kv_time(out, "firstAttemptAt", df_col_time(r, webhook_failure_list_FirstAttemptAt));
    df_json_kv_time(out, "lastAttemptAt", df_col_time(r, webhook_failure_list_LastAttemptAt));
    df_json_kv_time(out, "createdAt", df_col_time(r, webhook_failure_list_CreatedAt));
    df_json_kv_time(out, "replayedAt", df_col_time(r, webhook_failure_list_ReplayedAt));
    df_json_kv_time(out, "dismissedAt", df_col_time(r, webhook_failure_list_DismissedAt));
    df_json_close(out, '}');
}

static enum df_code run_list(struct df_db *db, struct df_work *w, struct df_err *err)
{
    const struct call *c = (const struct call *)w;
    struct df_value replayed = c->replayed < 0 ? df_null(DF_INT) : df_int(c->replayed);
    struct df_list_query q = {
        DF_LIST_KEYS(webhook_failure_keys),
        .rows = &df_q_webhook_failure_list,
        DF_LIST_FILTER({"subscription_id", subscription_of(c)}, {"client", df_text(c->client)},
                       {"replayed", replayed}),
    };

    return df_work_list(w, db, &q, write_failure, err);
}

static bool read_filters(struct df_work *w, struct df_input *in)
{
    struct call *c = (struct call *)w;
    struct df_str client = df_input_filter(w->req, "clientId");
    struct df_str replayed = df_input_filter(w->req, "replayed");
    bool yes = false;

    read_subscription(c, in);
    if (client.ptr && !df_client_identifier_valid(client))
        df_input_error(in, "clientId", "must be 1 to 64 letters, digits, '.', '_' or '-'");
    if (replayed.ptr && !df_str_to_bool(replayed, &yes))
        df_input_error(in, "replayed", "must be true or false");
    c->client = client;
    c->replayed = replayed.ptr ? yes : -1;
    return true;
}

static const struct df_handler list_failures = {
    .size = sizeof(struct call),
    .list = "webhook-failures",
    .max_answer = ANSWER_MAX,
    .prepare = read_filters,
    .run = run_list,
};

/* --- replay --- */

static enum df_code refuse_disabled(struct df_err *err)
{
    return df_err_set(err, DF_E_CONFLICT,
                      "The webhook is switched off: set isActive to true first, then replay.");
}

struct found {
    struct df_ids ids;
    int64_t count;
};

static struct found room_for(const struct call *c, size_t most)
{
    return (struct found){.ids = df_ids_for(df_req_arena(c->w.req), most, false)};
}

static void add_id(void *arg, struct df_result *r)
{
    struct found *f = arg;

    f->count++;
    df_ids_add_int(&f->ids, df_col_int(r, webhook_failure_id_Id));
}

static void read_delivery(void *arg, struct df_result *r)
{
    (void)df_uuid_parse(df_col_text(r, webhook_failure_replay_Id), arg);
}

/* Replays the failures that nobody else has replayed meanwhile, and counts them in c->count.
 * *ret_delivery is the last new delivery. */
static enum df_code replay_failures(struct df_db *db, struct call *c, struct found *failures,
                                    struct df_uuid *ret_delivery, struct df_err *err)
{
    struct df_value now = df_time(c->w.now_ms);
    struct found mine = room_for(c, (size_t)failures->count);
    enum df_code code =
        df_db_each(db, DF_Q(webhook_failure_take, .now = now, .ids = df_ids_value(&failures->ids)),
                   add_id, &mine, err);

    c->count = mine.count;
    if (code != DF_OK || mine.count == 0)
        return code;
    return df_db_each(db, DF_Q(webhook_failure_replay, .now = now, .ids = df_ids_value(&mine.ids)),
                      read_delivery, ret_delivery, err);
}

static void wake_replayed(struct df_work *w)
{
    const struct call *c = (const struct call *)w;
    const struct df_subscriptions *subscriptions = w->arg;

    if (c->count == 0)
        return;
    df_webhooks_wake(subscriptions->opt.webhooks);
    df_log_info("WebhookReplayed", "%lld webhooks that had been given up are sent again",
                (long long)c->count);
}

/* --- POST /admin/webhook-failures/{id}/replay --- */

struct failure {
    struct df_uuid subscription, client;
    bool has_ids, is_replayed, is_active;
};

static void read_failure(void *arg, struct df_result *r)
{
    struct failure *f = arg;

    f->has_ids =
        df_uuid_parse(df_col_text(r, webhook_failure_get_SubscriptionId), &f->subscription) &&
        df_uuid_parse(df_col_text(r, webhook_failure_get_ClientId), &f->client);
    f->is_replayed = !df_col_null(r, webhook_failure_get_ReplayedAt);
    f->is_active = df_col_bool(r, webhook_failure_get_IsActive);
}

/* DF_E_CONFLICT: it was replayed. */
static enum df_code find_failure(struct df_db *db, const struct call *c, struct failure *ret,
                                 struct df_err *err)
{
    bool found = false;
    enum df_code code = df_db_one(db, DF_Q(webhook_failure_get, .id = df_int(c->id)), read_failure,
                                  ret, &found, err);

    if (code != DF_OK)
        return code;
    if (!found)
        return df_err_set(err, DF_E_NOT_FOUND, "There is no such failure.");
    if (ret->is_replayed)
        return df_err_set(err, DF_E_CONFLICT, "It was replayed before.");
    return ret->has_ids ? DF_OK : df_err_set(err, DF_E_INTERNAL, "an id of the failure is no UUID");
}

static enum df_code check_failure(struct df_db *db, const struct call *c, struct failure *ret,
                                  struct df_err *err)
{
    enum df_code code = find_failure(db, c, ret, err);

    return code == DF_OK && !ret->is_active ? refuse_disabled(err) : code;
}

static enum df_code run_replay(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct call *c = (struct call *)w;
    struct df_actor by = df_actor_of(w->req);
    struct df_uuid delivery;
    struct failure failure;
    struct found one = room_for(c, 1);
    enum df_code code = check_failure(db, c, &failure, err);

    if (code != DF_OK)
        return code;
    one.count = 1;
    df_ids_add_int(&one.ids, c->id);
    code = replay_failures(db, c, &one, &delivery, err);
    if (code == DF_OK && c->count == 0)
        return df_err_set(err, DF_E_CONFLICT, "It was replayed before.");
    if (code == DF_OK)
        code = df_audit_write(db, &by, "WebhookReplayed", df_uuid_str(&failure.subscription),
                              df_uuid_str(&failure.client), DF_STR_NULL, c->w.now_ms, err);
    if (code != DF_OK)
        return code;
    df_json_open(&w->json, '{');
    df_json_kv_int(&w->json, "id", c->id);
    df_json_kv_text(&w->json, "subscriptionId", df_uuid_str(&failure.subscription));
    df_json_kv_text(&w->json, "deliveryId", df_uuid_str(&delivery));
    df_json_kv_text(&w->json, "status", DF_STR("Pending"));
    df_json_close(&w->json, '}');
    return DF_OK;
}

static bool read_id(struct df_work *w, struct df_input *in)
{
    struct call *c = (struct call *)w;

    (void)in;
    if (df_str_to_i64(df_req_param(w->req, "id"), &c->id))
        return true;
    df_req_fail(w->req, DF_E_NOT_FOUND, "There is no such failure.");
    return false;
}

static const struct df_handler replay_one = {
    .size = sizeof(struct call),
    .writes = true,
    .status = 202,
    .prepare = read_id,
    .run = run_replay,
    .done = wake_replayed,
};

/* --- POST /admin/webhook-failures/{id}/dismiss --- */

/* One that is dismissed already stays as it is. */
static enum df_code run_dismiss(struct df_db *db, struct df_work *w, struct df_err *err)
{
    const struct call *c = (const struct call *)w;
    struct df_actor by = df_actor_of(w->req);
    struct df_value id = df_int(c->id), now = df_time(w->now_ms);
    struct failure failure;
    int64_t changed = 0;
    enum df_code code = find_failure(db, c, &failure, err);

    if (code == DF_OK)
        code = df_db_exec(db, DF_Q(webhook_failure_dismiss, .id = id, .now = now), &changed, err);
    if (code == DF_OK && changed > 0)
        code =
            df_db_exec(db, DF_Q(webhook_failure_dismiss_delivery, .id = id, .now = now), NULL, err);
    if (code == DF_OK && changed > 0)
        code = df_audit_write(db, &by, "DeliveryDismissed", df_uuid_str(&failure.subscription),
                              df_uuid_str(&failure.client), DF_STR_NULL, w->now_ms, err);
    df_json_open(&w->json, '{');
    df_json_kv_int(&w->json, "id", c->id);
    df_json_kv_bool(&w->json, "dismissed", true);
    df_json_close(&w->json, '}');
    return code;
}

static const struct df_handler dismiss_one = {
    .size = sizeof(struct call),
    .writes = true,
    .prepare = read_id,
    .run = run_dismiss,
};

/* --- POST /admin/webhook-failures/replay --- */

static void read_active(void *arg, struct df_result *r)
{
    *(bool *)arg = df_col_bool(r, webhook_failure_subscription_IsActive);
}

/* Checks the subscription that the caller named. Without a name, subscriptions that are switched
 * off are skipped and counted. */
static enum df_code check_subscription(struct df_db *db, const struct call *c, struct df_err *err)
{
    bool found = false, active = false;

    if (!c->of_subscription)
        return DF_OK;
    enum df_code code =
        df_db_one(db, DF_Q(webhook_failure_subscription, .subscription_id = subscription_of(c)),
                  read_active, &active, &found, err);
    if (code != DF_OK)
        return code;
    if (!found)
        return df_err_set(err, DF_E_NOT_FOUND, "There is no such webhook.");
    return active ? DF_OK : refuse_disabled(err);
}

static enum df_code count_since(struct df_db *db, const struct call *c, bool active, int64_t *ret,
                                struct df_err *err)
{
    return df_db_query_int(db,
                           DF_Q(webhook_failure_since_total, .since = df_time(c->since_ms),
                                .active = df_bool(active), .subscription_id = subscription_of(c)),
                           ret, err);
}

static enum df_code run_replay_since(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct call *c = (struct call *)w;
    struct df_actor by = df_actor_of(w->req);
    struct df_str target = c->of_subscription ? df_uuid_str(&c->subscription) : DF_STR_NULL;
    struct df_uuid last;
    struct found failures = room_for(c, REPLAY_MAX);
    int64_t remaining = 0, skipped = 0;
    enum df_code code = check_subscription(db, c, err);

    c->count = 0;
    if (code == DF_OK)
        code = df_db_each(db,
                          DF_Q(webhook_failure_since, .since = df_time(c->since_ms),
                               .active = df_bool(true), .subscription_id = subscription_of(c),
                               .limit = df_int(REPLAY_MAX)),
                          add_id, &failures, err);
    if (code == DF_OK && failures.count > 0)
        code = replay_failures(db, c, &failures, &last, err);
    if (code == DF_OK)
        code = count_since(db, c, true, &remaining, err);
    if (code == DF_OK)
        code = count_since(db, c, false, &skipped, err);
    df_json_open(&w->json, '{');
    df_json_kv_int(&w->json, "replayed", c->count);
    df_json_kv_int(&w->json, "remaining", remaining);
    df_json_kv_int(&w->json, "skipped", skipped);
    df_json_close(&w->json, '}');
    if (code == DF_OK && c->count > 0)
        code = df_audit_write(db, &by, "WebhookReplayed", target, DF_STR_NULL, df_buf_str(&w->out),
                              w->now_ms, err);
    return code;
}

static bool read_since(struct df_work *w, struct df_input *in)
{
    struct call *c = (struct call *)w;

    if (!df_time_parse(df_req_query(w->req, "since"), &c->since_ms))
        df_input_error(in, "since", "is required: a time like 2026-11-15T00:00:00Z");
    read_subscription(c, in);
    return true;
}

static const struct df_handler replay_since = {
    .size = sizeof(struct call),
    .writes = true,
    .status = 202,
    .prepare = read_since,
    .run = run_replay_since,
    .done = wake_replayed,
};

/* --- POST /clients/{clientId}/webhooks/{id}/replay: the same for one webhook, by its client --- */

static enum df_code run_own_replay(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct call *c = (struct call *)w;
    int64_t found = 0;
    enum df_code code =
        df_db_query_int(db,
                        DF_Q(webhook_failure_owner, .subscription_id = subscription_of(c),
                             .client = df_text(c->client)),
                        &found, err);

    if (code == DF_OK && found == 0)
        return df_err_set(err, DF_E_NOT_FOUND, "There is no such webhook.");
    return code == DF_OK ? run_replay_since(db, w, err) : code;
}

static bool read_own_replay(struct df_work *w, struct df_input *in)
{
    struct call *c = (struct call *)w;

    c->client = df_req_param(w->req, "clientId");
    c->of_subscription = true;
    if (!df_uuid_parse(df_req_param(w->req, "id"), &c->subscription)) {
        df_req_fail(w->req, DF_E_NOT_FOUND, "There is no such webhook.");
        return false;
    }
    if (!df_time_parse(df_req_query(w->req, "since"), &c->since_ms))
        df_input_error(in, "since", "is required: a time like 2026-11-15T00:00:00Z");
    return true;
}

const struct df_handler df_webhook_replay = {
    .size = sizeof(struct call),
    .writes = true,
    .status = 202,
    .prepare = read_own_replay,
    .run = run_own_replay,
    .done = wake_replayed,
};

#define OPERATE(m, path, kind, h)                                                                  \
    DF_ROUTE(m, "/admin/webhook-failures" path, kind, DF_ACCESS_ADMIN, DF_NEEDS_OPERATE, h)
#define ADMIN(m, path, kind, h)                                                                    \
    DF_ROUTE(m, "/admin/webhook-failures" path, kind, DF_ACCESS_ADMIN, NULL, h)

const struct df_route df_webhook_failure_routes[] = {
    ADMIN("GET", "", DF_BODY_NONE, list_failures),
    OPERATE("POST", "/replay", DF_BODY_ANY, replay_since),
    OPERATE("POST", "/{id}/replay", DF_BODY_ANY, replay_one),
    OPERATE("POST", "/{id}/dismiss", DF_BODY_ANY, dismiss_one),
    {.method = NULL},
};

/*
 * /admin/webhook-failures: deliveries that were given up, and their replay. A replay is a delivery
 * of its own, of the same event, to the URL and with the secret that the subscription has now.
 */
#include "access/handler.h"
#include "webhooks/failures.sql.h"
#include "webhooks/subscriptions_private.h"
#include "webhooks/webhooks.h"

#define ANSWER_MAX (64 << 20)
#define REPLAY_MAX 10000 /* in one call */
#define IDS_MAX    (REPLAY_MAX * 21 + 2)

struct call {
    struct df_work w; /* its arg is the subscriptions */
    int64_t id;
    struct df_uuid subscription;
    bool of_subscription;
    struct df_str client; /* filter: the public identifier; absent: any */
    int replayed;         /* filter: 0, 1; -1: any */
    int64_t since_ms;
    int64_t count;     /* of those replayed */
    struct df_buf ids; /* of failures, as a JSON array */
};

static void release_ids(struct df_work *w)
{
    df_buf_release(&((struct call *)w)->ids);
}

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

static void write_failure(struct df_result *r, struct df_json_out *out)
{
    df_json_open(out, '{');
    df_json_kv_int(out, "id", df_col_int(r, 0));
    df_json_kv_text(out, "subscriptionId", df_col_text(r, 1));
    df_json_kv_text(out, "clientId", df_col_text(r, 2));
    df_json_kv_text(out, "url", df_col_text(r, 3));
    df_json_kv_text(out, "deliveryId", df_col_text(r, 4));
    df_json_kv_text(out, "eventId", df_col_text(r, 5));
    df_json_kv_text(out, "event", df_col_text(r, 6));
    df_json_kv_text(out, "payload", df_col_text(r, 7));
    df_json_kv_int(out, "attempts", df_col_int(r, 8));
    df_json_key(out, "lastStatus");
    if (df_col_null(r, 9))
        df_json_null(out);
    else
        df_json_int(out, df_col_int(r, 9));
    df_json_kv_text(out, "lastError", df_col_text(r, 10));
    df_json_kv_time(out, "firstAttemptAt", df_col_time(r, 11));
    df_json_kv_time(out, "lastAttemptAt", df_col_time(r, 12));
    df_json_kv_time(out, "createdAt", df_col_time(r, 13));
    df_json_kv_time(out, "replayedAt", df_col_time(r, 14));
    df_json_close(out, '}');
}

static enum df_code run_list(struct df_db *db, struct df_work *w, struct df_err *err)
{
    const struct call *c = (const struct call *)w;
    struct df_value replayed = c->replayed < 0 ? df_null(DF_INT) : df_int(c->replayed);
    struct df_result *r = NULL;
    enum df_code code = df_db_query_int(db, &df_q_webhook_failure_total,
                                        DF_PARAMS(subscription_of(c), df_text(c->client), replayed),
                                        &w->page.total, err);

    if (code == DF_OK)
        code = df_db_query(db, &df_q_webhook_failure_list,
                           DF_PARAMS(subscription_of(c), df_text(c->client), replayed,
                                     df_int(w->page.size), df_int(w->page.offset)),
                           &r, err);
    if (code != DF_OK)
        return code;
    df_page_open(&w->json);
    while ((code = df_result_step(r, err)) == DF_ROW)
        write_failure(r, &w->json);
    df_result_free(r);
    df_page_close(&w->page, &w->json);
    return code == DF_DONE ? DF_OK : code;
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

static const struct df_handler list = {
    .size = sizeof(struct call),
    .paged = true,
    .max_answer = ANSWER_MAX,
    .prepare = read_filters,
    .run = run_list,
};

/* --- replay --- */

static enum df_code disabled(struct df_err *err)
{
    return df_err_set(err, DF_E_CONFLICT,
                      "The webhook is switched off: set isActive to true first, then replay.");
}

/* The first column of all rows, as a JSON array of numbers; *ret_count of them. */
static enum df_code gather(struct df_result *take_r, struct df_buf *ids, int64_t *ret_count,
                           struct df_err *err)
{
    enum df_code code;

    df_buf_reset(ids);
    *ret_count = 0;
    df_buf_addc(ids, '[');
    while ((code = df_result_step(take_r, err)) == DF_ROW) {
        if ((*ret_count)++ > 0)
            df_buf_addc(ids, ',');
        df_buf_add_i64(ids, df_col_int(take_r, 0));
    }
    df_buf_addc(ids, ']');
    df_result_free(take_r);
    return code == DF_DONE ? DF_OK : code;
}

/* c->ids become those that nobody else has replayed meanwhile; *ret_delivery: the last new one. */
static enum df_code replay(struct df_db *db, struct call *c, struct df_uuid *ret_delivery,
                           struct df_err *err)
{
    struct df_result *r = NULL;
    enum df_code code =
        df_db_query(db, &df_q_webhook_failure_take,
                    DF_PARAMS(df_time(c->w.now_ms), df_text(df_buf_str(&c->ids))), &r, err);

    if (code == DF_OK)
        code = gather(r, &c->ids, &c->count, err);
    if (code != DF_OK || c->count == 0)
        return code;
    code = df_db_query(db, &df_q_webhook_failure_replay,
                       DF_PARAMS(df_time(c->w.now_ms), df_text(df_buf_str(&c->ids))), &r, err);
    if (code != DF_OK)
        return code;
    while ((code = df_result_step(r, err)) == DF_ROW)
        (void)df_uuid_parse(df_col_text(r, 0), ret_delivery);
    df_result_free(r);
    return code == DF_DONE ? DF_OK : code;
}

static void replayed(struct df_work *w)
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

static enum df_code check_one(struct df_db *db, struct call *c, struct df_uuid *ret_client,
                              struct df_err *err)
{
    struct df_result *r = NULL;
    enum df_code code =
        df_db_query(db, &df_q_webhook_failure_get, DF_PARAMS(df_int(c->id)), &r, err);

    if (code != DF_OK)
        return code;
    code = df_result_step(r, err);
    if (code == DF_DONE)
        code = df_err_set(err, DF_E_NOT_FOUND, "There is no such failure.");
    else if (code == DF_ROW && !df_col_null(r, 3))
        code = df_err_set(err, DF_E_CONFLICT, "It was replayed before.");
    else if (code == DF_ROW && !df_col_bool(r, 2))
        code = disabled(err);
    else if (code == DF_ROW)
        code = df_uuid_parse(df_col_text(r, 0), &c->subscription) &&
                       df_uuid_parse(df_col_text(r, 1), ret_client)
                   ? DF_OK
                   : df_err_set(err, DF_E_INTERNAL, "an id of the failure is no UUID");
    df_result_free(r);
    return code;
}

static enum df_code run_replay(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct call *c = (struct call *)w;
    struct df_actor by = df_actor_of(w->req);
    struct df_uuid delivery, client;
    enum df_code code = check_one(db, c, &client, err);

    if (code != DF_OK)
        return code;
    df_buf_reset(&c->ids);
    df_buf_addf(&c->ids, "[%lld]", (long long)c->id);
    code = replay(db, c, &delivery, err);
    if (code == DF_OK && c->count == 0)
        return df_err_set(err, DF_E_CONFLICT, "It was replayed before.");
    if (code == DF_OK)
        code = df_audit_write(db, &by, "WebhookReplayed", df_uuid_str(&c->subscription),
                              df_uuid_str(&client), DF_STR_NULL, w->now_ms, err);
    if (code != DF_OK)
        return code;
    df_json_open(&w->json, '{');
    df_json_kv_int(&w->json, "id", c->id);
    df_json_kv_text(&w->json, "subscriptionId", df_uuid_str(&c->subscription));
    df_json_kv_text(&w->json, "deliveryId", df_uuid_str(&delivery));
    df_json_kv_text(&w->json, "status", DF_STR("Pending"));
    df_json_close(&w->json, '}');
    return DF_OK;
}

static bool read_id(struct df_work *w, struct df_input *in)
{
    struct call *c = (struct call *)w;

    (void)in;
    df_buf_init(&c->ids, IDS_MAX);
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
    .done = replayed,
    .cleanup = release_ids,
};

/* --- POST /admin/webhook-failures/replay --- */

/* Only where one is named: of the others, those that are switched off are left out and counted. */
static enum df_code check_subscription(struct df_db *db, const struct call *c, struct df_err *err)
{
    struct df_result *r = NULL;

    if (!c->of_subscription)
        return DF_OK;
    enum df_code code =
        df_db_query(db, &df_q_webhook_failure_subscription, DF_PARAMS(subscription_of(c)), &r, err);
    if (code != DF_OK)
        return code;
    code = df_result_step(r, err);
    if (code == DF_DONE)
        code = df_err_set(err, DF_E_NOT_FOUND, "There is no such webhook.");
    else if (code == DF_ROW)
        code = df_col_bool(r, 0) ? DF_OK : disabled(err);
    df_result_free(r);
    return code;
}

static enum df_code count_since(struct df_db *db, const struct call *c, bool active, int64_t *ret,
                                struct df_err *err)
{
    return df_db_query_int(db, &df_q_webhook_failure_since_total,
                           DF_PARAMS(df_time(c->since_ms), df_bool(active), subscription_of(c)),
                           ret, err);
}

static enum df_code run_replay_since(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct call *c = (struct call *)w;
    struct df_actor by = df_actor_of(w->req);
    struct df_str target = c->of_subscription ? df_uuid_str(&c->subscription) : DF_STR_NULL;
    struct df_uuid last;
    struct df_result *r = NULL;
    int64_t remaining = 0, skipped = 0;
    enum df_code code = check_subscription(db, c, err);

    if (code == DF_OK)
        code = df_db_query(
            db, &df_q_webhook_failure_since,
            DF_PARAMS(df_time(c->since_ms), df_bool(true), subscription_of(c), df_int(REPLAY_MAX)),
            &r, err);
    if (code == DF_OK)
        code = gather(r, &c->ids, &c->count, err);
    if (code == DF_OK && c->count > 0)
        code = replay(db, c, &last, err);
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

    df_buf_init(&c->ids, IDS_MAX);
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
    .done = replayed,
    .cleanup = release_ids,
};

#define ADMIN(m, path, kind, h)                                                                    \
    DF_ROUTE(m, "/admin/webhook-failures" path, kind, DF_ACCESS_ADMIN, NULL, h)

const struct df_route df_webhook_failure_routes[] = {
    ADMIN("GET", "", DF_BODY_NONE, list),
    ADMIN("POST", "/replay", DF_BODY_ANY, replay_since),
    ADMIN("POST", "/{id}/replay", DF_BODY_ANY, replay_one),
    {.method = NULL},
};

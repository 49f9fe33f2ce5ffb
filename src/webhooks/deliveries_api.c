/*
 * /clients/{clientId}/webhooks/{id}/deliveries: the deliveries of a webhook and their attempts, one
 * of them with its payload, and sending one again.
 */
#include "access/list.h"
#include "delivery/history.h"
#include "webhooks/subscriptions.sql.h"
#include "webhooks/subscriptions_call.h"
#include "webhooks/webhooks.h"

#define ANSWER_MAX   (16 << 20)
#define HISTORY_MAX  50 /* attempts shown of a delivery */
#define CHANNEL_NAME DF_STR("webhooks")

struct delivery {
    struct df_str id;
    struct df_str json; /* its members, without the braces */
    struct df_sent_try sent;
    bool is_open; /* it will be tried, or is being tried */
};

struct reading {
    const struct webhook_call *call;
    struct delivery *rows; /* of a page */
    size_t count;
    struct df_buf text; /* of one row */
};

/* The error as the caller may see it. */
static struct df_str error_shown(const struct webhook_call *c, int64_t http_status,
                                 struct df_str error)
{
    if (!df_auth_client(c->w.req))
        return error;
    return df_webhook_error_shown(df_req_arena(c->w.req), http_status, error);
}

static void write_delivery(const struct webhook_call *c, struct df_result *r,
                           struct df_json_out *out)
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
                          df_arena_str(a, df_buf_str(&d->text)),
                          df_sent_try(df_col_text(r, subscription_deliveries_Status),
                                      df_col_int(r, subscription_deliveries_TryCount),
                                      df_col_time(r, subscription_deliveries_LastAttemptAt),
                                      df_col_int(r, subscription_deliveries_SentStatus),
                                      df_col_int(r, subscription_deliveries_SentMs)),
                          !df_col_null(r, subscription_deliveries_NextAttemptAt)};
}

/* A connection has one result at a time, so the rows are kept until their attempts are read. */
static enum df_code read_deliveries(struct df_db *db, struct webhook_call *c, struct reading *d,
                                    struct df_err *err)
{
    *d = (struct reading){
        .call = c,
        .rows = DF_ARENA_ARRAY(df_req_arena(c->w.req), struct delivery, (size_t)c->w.page.size)};
    struct df_list_query q = {
        DF_LIST_KEYS(subscription_delivery_keys),
        .rows = &df_q_subscription_deliveries,
        DF_LIST_FILTER({"subscription_id", webhook_call_id(c)}, {"status", df_text(c->status)}),
    };
    df_buf_init(&d->text, ANSWER_MAX);
    enum df_code code =
        df_list_page(db, &q, &c->w.page, df_req_arena(c->w.req), read_delivery, d, err);
    df_buf_release(&d->text);
    return code;
}

static void write_attempt(void *arg, const struct df_delivery_attempt *a)
{
    struct webhook_call *c = arg;
    struct df_json_out *out = &c->w.json;
    bool is_client = df_auth_client(c->w.req);
    /* The duration is hidden too: it would tell a name that exists from one that does not. */
    bool hidden = is_client && df_webhook_is_unreachable(a->error);

    df_json_open(out, '{');
    df_json_kv_int(out, "attempt", a->attempt);
    df_json_kv_time(out, "attemptedAt", a->attempted_ms);
    df_json_kv_text(out, "outcome", a->outcome);
    df_json_kv_int_if(out, "httpStatus", a->http_status > 0, a->http_status);
    df_json_kv_int(out, "durationMs", hidden ? 0 : a->duration_ms);
    df_json_kv_int(out, "answerLength", (int64_t)df_utf8_count(a->answer));
    if (!is_client)
        df_json_kv_text(out, "answer", a->answer);
    df_json_kv_text(out, "error", error_shown(c, a->http_status, a->error));
    df_json_close(out, '}');
}

static enum df_code write_delivery_with_attempts(struct df_db *db, struct webhook_call *c,
                                                 const struct delivery *d, struct df_err *err)
{
    df_json_open(&c->w.json, '{');
    df_json_raw(&c->w.json, d->json);
    df_json_key(&c->w.json, "attemptsHistory");
    df_json_open(&c->w.json, '[');
    enum df_code code =
        df_history_each(db, CHANNEL_NAME, d->id, &d->sent, HISTORY_MAX, write_attempt, c, err);
    df_json_close(&c->w.json, ']');
    df_json_close(&c->w.json, '}');
    return code;
}

static enum df_code run_deliveries(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct webhook_call *c = (struct webhook_call *)w;
    struct reading d = {.count = 0};
    enum df_code code = webhook_call_find_client(db, c, err);

    if (code == DF_OK)
        code = webhook_call_get(db, c, NULL, err);
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
    struct webhook_call *c = (struct webhook_call *)w;

    c->status = df_input_choice(in, w->req, "status", states);
    return webhook_call_read_id(w, in);
}

const struct df_handler df_webhook_deliveries = {
    .size = sizeof(struct webhook_call),
    .list = "deliveries",
    .list_by_uuid = true,
    .max_answer = ANSWER_MAX,
    .prepare = read_status,
    .run = run_deliveries,
};

/* --- GET …/deliveries/{deliveryId} --- */

struct one {
    struct reading d; /* of one row */
    struct df_str payload;
};

static void read_one(void *arg, struct df_result *r)
{
    struct one *o = arg;

    read_delivery(&o->d, r);
    o->payload = df_arena_str(df_req_arena(o->d.call->w.req),
                              df_col_text(r, subscription_delivery_PayloadJson));
}

static enum df_code find_delivery(struct df_db *db, struct webhook_call *c, struct one *ret,
                                  struct df_err *err)
{
    bool found = false;
    enum df_code code = webhook_call_find_client(db, c, err);

    *ret = (struct one){
        .d = {.call = c, .rows = DF_ARENA_ARRAY(df_req_arena(c->w.req), struct delivery, 1)}};
    df_buf_init(&ret->d.text, ANSWER_MAX);
    if (code == DF_OK)
        code = webhook_call_get(db, c, NULL, err);
    if (code == DF_OK)
        code = df_db_one(db,
                         DF_Q(subscription_delivery, .id = df_uuid(df_uuid_str(&c->delivery)),
                              .subscription_id = webhook_call_id(c)),
                         read_one, ret, &found, err);
    df_buf_release(&ret->d.text);
    if (code == DF_OK && !found)
        code = df_err_set(err, DF_E_NOT_FOUND, "There is no such delivery.");
    return code;
}

static enum df_code run_delivery(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct webhook_call *c = (struct webhook_call *)w;
    struct one o;
    enum df_code code = find_delivery(db, c, &o, err);

    if (code != DF_OK)
        return code;
    df_json_open(&w->json, '{');
    df_json_raw(&w->json, o.d.rows[0].json);
    df_json_kv_text(&w->json, "payload", o.payload);
    df_json_key(&w->json, "attemptsHistory");
    df_json_open(&w->json, '[');
    code = df_history_each(db, CHANNEL_NAME, o.d.rows[0].id, &o.d.rows[0].sent, HISTORY_MAX,
                           write_attempt, c, err);
    df_json_close(&w->json, ']');
    df_json_close(&w->json, '}');
    return code;
}

static bool read_delivery_id(struct df_work *w, struct df_input *in)
{
    struct webhook_call *c = (struct webhook_call *)w;

    if (!webhook_call_read_id(w, in))
        return false;
    if (df_uuid_parse(df_req_param(w->req, "deliveryId"), &c->delivery))
        return true;
    df_req_fail(w->req, DF_E_NOT_FOUND, "There is no such delivery.");
    return false;
}

const struct df_handler df_webhook_delivery = {
    .size = sizeof(struct webhook_call),
    .max_answer = ANSWER_MAX,
    .prepare = read_delivery_id,
    .run = run_delivery,
};

/* --- POST …/deliveries/{deliveryId}/resend --- */

static void read_switch(void *arg, struct df_result *r)
{
    ((struct webhook_call *)arg)->active = df_col_bool(r, subscription_IsActive);
}

static enum df_code check_resend(struct df_db *db, struct webhook_call *c, struct df_err *err)
{
    struct one o;
    enum df_code code = find_delivery(db, c, &o, err);

    if (code == DF_OK)
        code = webhook_call_get(db, c, read_switch, err);
    if (code != DF_OK)
        return code;
    if (c->active == 0)
        return df_err_set(err, DF_E_CONFLICT,
                          "The webhook is switched off: set isActive to true first.");
    if (o.d.rows[0].is_open)
        return df_err_set(err, DF_E_CONFLICT,
                          "The delivery is not over: it will be tried again by itself.");
    if (df_str_eq(o.payload, DF_STR("{\"erased\":true}")))
        return df_err_set(err, DF_E_ERASED, "The content of the delivery was erased.");
    return DF_OK;
}

static enum df_code run_resend(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct webhook_call *c = (struct webhook_call *)w;
    struct df_value id = df_uuid(df_uuid_str(&c->delivery)), now = df_time(w->now_ms);
    struct df_str details =
        df_arena_printf(df_req_arena(w->req), "{\"deliveryId\":\"%s\",\"resentAs\":\"%s\"}",
                        c->delivery.text, c->resent.text);
    enum df_code code = check_resend(db, c, err);

    if (code == DF_OK)
        code = df_db_exec(db,
                          DF_Q(subscription_resend, .new_id = df_uuid(df_uuid_str(&c->resent)),
                               .now = now, .id = id, .subscription_id = webhook_call_id(c)),
                          NULL, err);
    if (code == DF_OK)
        code = df_db_exec(db, DF_Q(subscription_resent, .now = now, .id = id), NULL, err);
    if (code == DF_OK)
        code = webhook_call_audit(db, c, "WebhookResent", details, err);
    df_json_open(&w->json, '{');
    df_json_kv_text(&w->json, "deliveryId", df_uuid_str(&c->resent));
    df_json_kv_text(&w->json, "resentFrom", df_uuid_str(&c->delivery));
    df_json_kv_text(&w->json, "status", DF_STR("Pending"));
    df_json_close(&w->json, '}');
    return code;
}

static void delivery_resent(struct df_work *w)
{
    const struct webhook_call *c = (const struct webhook_call *)w;

    df_webhooks_wake(c->opt->webhooks);
    df_log_info("WebhookResent", "delivery %s of webhook %s is sent again", c->delivery.text,
                c->id.text);
}

static bool read_resend(struct df_work *w, struct df_input *in)
{
    ((struct webhook_call *)w)->resent = df_uuid_v7(w->access->clock);
    return read_delivery_id(w, in);
}

const struct df_handler df_webhook_resend = {
    .size = sizeof(struct webhook_call),
    .writes = true,
    .status = 202,
    .prepare = read_resend,
    .run = run_resend,
    .done = delivery_resent,
};

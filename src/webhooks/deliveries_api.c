/* GET /clients/{clientId}/webhooks/{id}/deliveries: the deliveries of a webhook and their attempts.
 */
#include "access/list.h"
#include "delivery/history.h"
#include "webhooks/subscriptions.sql.h"
#include "webhooks/subscriptions_call.h"

#define ANSWER_MAX   (16 << 20)
#define HISTORY_MAX  50 /* attempts shown of a delivery */
#define CHANNEL_NAME DF_STR("webhooks")

struct delivery {
    struct df_str id;
    struct df_str json; /* its members, without the braces */
    struct df_sent_try sent;
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
                                      df_col_int(r, subscription_deliveries_SentMs))};
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

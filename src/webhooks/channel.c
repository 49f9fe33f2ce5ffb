/*
 * Webhooks as a channel of the delivery engine. It differs from other channels in four ways: its
 * schedule is `webhooks.retry_delays_ms`, only 2xx is success, every subscription has a breaker and
 * a share of its own (one dead URL of a host is not the host), and an outcome has further effects,
 * which are written in the same transaction:
 *
 *   - sent: the subscription is no longer failing; a batch whose end all its subscriptions have
 *     received is WebhookNotified
 *   - failed: the subscription is failing since now, if it was not before
 *   - given up: a row of WebhookDeliveryFailures, from which it can be replayed
 *   - 410, or nothing but failures for `webhooks.disable_after_days`: the subscription is disabled,
 *     and the deliveries that wait for it are given up too
 */
#include "webhooks/webhooks.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "base/uuid.h"
#include "delivery/sign.h"
#include "net/field.h"
#include "store/notify.h"
#include "webhooks/channel.sql.h"

#include <stdlib.h>

#define CHANNEL "webhooks"

/* Subscriptions that the running cycle disables; memory: the cycle's arena. */
struct disabled {
    struct df_arena *arena;
    const char *reason; /* of the query that runs now */
    struct disabled_one {
        struct df_str id;
        const char *reason;
    } * at;
    size_t count;
    size_t cap;
};

struct df_webhooks {
    struct df_webhooks_options opt;
    struct df_retry_policy schedule;
    struct df_channel channel;
    struct df_delivery *delivery;
    struct df_notifier *notifier;
    struct disabled *disabled; /* used by the cycle's thread alone */
};

DF_METRIC_FAMILY(failures_total) = {
    .name = "dataflow_webhook_failures_total",
    .help = "Attempts to deliver a webhook that failed.",
    .type = DF_COUNTER,
};

/* --- the request ------------------------------------------------------------------------------ */

/* {…} -> {…,"signature":"<hex>"} */
static struct df_str with_signature(struct df_arena *a, struct df_str body, struct df_str secret)
{
    char hex[DF_SIGN_HEX + 1];

    df_sign_hex(secret, body, hex);
    return df_arena_printf(a, DF_STR_FMT ",\"signature\":\"%s\"}", (int)body.len - 1, body.ptr,
                           hex);
}

static enum df_code open_secrets(const struct df_webhooks *w, struct df_str subscription,
                                 struct df_result *r, struct df_arena *a, int64_t now_ms,
                                 struct df_str *ret, struct df_str *ret_previous,
                                 struct df_err *err)
{
    const struct df_webhook_secret_columns columns = {
        .secret = df_col_text(r, webhook_load_Secret),
        .encrypted = df_col_blob(r, webhook_load_SecretEncrypted),
        .previous = df_col_text(r, webhook_load_PreviousSecret),
        .previous_encrypted = df_col_blob(r, webhook_load_PreviousSecretEncrypted),
        .previous_expires_at = df_col_time(r, webhook_load_PreviousSecretExpiresAt),
    };
    return df_webhook_secret_open(w->opt.keys, subscription, &columns, now_ms, a, ret, ret_previous,
                                  err);
}

/* The breaker is the subscription's, not the host's: one dead URL of a host is not the host. */
static void whose_webhook(const struct df_channel *c, struct df_result *r, struct df_arena *a,
                          struct df_delivery_request *ret)
{
    (void)c;
    ret->tenant = df_arena_str(a, df_col_text(r, webhook_load_ClientId));
    ret->breaker = df_arena_printf(a, "webhook:" DF_STR_FMT,
                                   DF_STR_ARG(df_col_text(r, webhook_load_SubscriptionId)));
}

static enum df_code build_webhook(const struct df_channel *c, struct df_str id, struct df_result *r,
                                  struct df_arena *a, struct df_delivery_request *ret,
                                  struct df_err *err)
{
    const struct df_webhooks *w = c->arg;
    struct df_str subscription = df_arena_str(a, df_col_text(r, webhook_load_SubscriptionId));
    struct df_str body = df_arena_str(a, df_col_text(r, webhook_load_PayloadJson));
    struct df_str secret = DF_STR_NULL;
    struct df_str previous = DF_STR_NULL;
    int64_t now_ms = df_wall_ms(w->opt.clock);

    ret->correlation_id = df_arena_str(a, df_col_text(r, webhook_load_CorrelationId));
    ret->subscription_id = subscription;
    ret->batch_id = df_arena_str(a, df_col_text(r, webhook_load_BatchId));
    ret->client_id = df_arena_str(a, df_col_text(r, webhook_load_ClientIdentifier));
    ret->private_too = w->opt.settings.allow_private;
    if (!df_col_bool(r, webhook_load_IsActive))
        return df_err_set(err, DF_E_CONFLICT, "the subscription is not active");
    if (body.len < 3 || body.ptr[body.len - 1] != '}')
        return df_err_set(err, DF_E_MALFORMED_JSON, "PayloadJson is no JSON object");
    enum df_code code = open_secrets(w, subscription, r, a, now_ms, &secret, &previous, err);
    if (code == DF_E_CONFIG)
        return df_err_set(err, DF_E_BUSY, "the secret's key is not known here"); /* perhaps soon */
    if (code != DF_OK)
        return code;
    ret->url = df_arena_cstr(a, df_col_text(r, webhook_load_Url));
    ret->timeout_ms = w->opt.settings.timeout_ms;
    ret->body = with_signature(a, body, secret);
    df_sign(secret, previous, id, now_ms / 1000, ret->body, a,
            df_headers_more(&ret->headers, DF_SIGN_HEADERS));
    df_headers_add(&ret->headers, DF_STR("Content-Type"), DF_STR("application/json"));
    ret->idempotency_key = df_arena_printf(a, CHANNEL ":" DF_STR_FMT, DF_STR_ARG(id));
    if (ret->correlation_id.len > 0)
        ret->correlation_header = df_field_text(a, ret->correlation_id);
    return DF_OK;
}

/* Every refusal is tried again, except 410, which says that the receiver is gone. */
static struct df_out_judgement classify_answer(unsigned http_status)
{
    struct df_out_judgement j = df_outbound_judge_passed_on(http_status);

    if (j.verdict == DF_OUT_REFUSED && http_status != 410)
        j.verdict = DF_OUT_AGAIN;
    return j;
}

/* --- further effects of an outcome ------------------------------------------------------------ */

/* Rows of a cycle. */
struct outcomes {
    int64_t sent;
    int64_t failed;
};

static void read_outcomes(void *arg, struct df_result *r)
{
    *(struct outcomes *)arg = (struct outcomes){.sent = df_col_int(r, webhook_outcomes_Sent),
                                                .failed = df_col_int(r, webhook_outcomes_Failed)};
}

static enum df_code settle_sent(struct df_db *db, struct df_value now, struct df_value ids,
                                struct df_err *err)
{
    enum df_code code = df_db_exec(db, DF_Q(webhook_well_again, .ids = ids), NULL, err);

    if (code == DF_OK)
        code = df_db_exec(db, DF_Q(webhook_arrived_after_all, .now = now, .ids = ids), NULL, err);
    if (code == DF_OK)
        code = df_db_exec(db, DF_Q(webhook_notified, .told = df_bool(true), .ids = ids), NULL, err);
    return code;
}

static void note_disabled(void *arg, struct df_result *r)
{
    struct disabled *d = arg;

    if (d->count == d->cap) {
        size_t cap = d->cap ? d->cap * 2 : 16;
        struct disabled_one *more = DF_ARENA_ARRAY(d->arena, struct disabled_one, cap);
        if (d->count > 0)
            memcpy(more, d->at, d->count * sizeof(*more));
        d->cap = cap;
        d->at = more;
    }
    d->at[d->count++] = (struct disabled_one){
        df_arena_str(d->arena, df_col_text(r, webhook_disabled_Id)), d->reason};
}

static enum df_code disable_subscriptions(const struct df_webhooks *w, struct df_db *db,
                                          struct df_value now, struct df_value ids,
                                          struct df_err *err)
{
    struct disabled *d = w->disabled;
    struct df_value off = df_bool(false);
    int64_t before_ms = df_wall_ms(w->opt.clock) - w->opt.settings.disable_after_ms;

    d->reason = "the receiver answered 410 Gone";
    enum df_code code = df_db_each(db,
                                   DF_Q(webhook_disable_gone, .active = off, .now = now,
                                        .reason = df_text(df_str_c(d->reason)), .ids = ids),
                                   note_disabled, d, err);
    if (code != DF_OK || w->opt.settings.disable_after_ms <= 0)
        return code;
    d->reason = "every delivery failed for too long";
    return df_db_each(db,
                      DF_Q(webhook_disable_failing, .active = off, .now = now,
                           .reason = df_text(df_str_c(d->reason)), .before = df_time(before_ms),
                           .ids = ids),
                      note_disabled, d, err);
}

static enum df_code settle_failed(const struct df_webhooks *w, struct df_db *db,
                                  struct df_value now, struct df_value ids, struct df_err *err)
{
    const struct disabled *d = w->disabled;
    enum df_code code =
        df_db_exec(db, DF_Q(webhook_fails_since, .now = now, .ids = ids), NULL, err);

    if (code == DF_OK)
        code = disable_subscriptions(w, db, now, ids, err);
    if (code == DF_OK)
        code = df_db_exec(db, DF_Q(webhook_bury, .now = now, .ids = ids), NULL, err);
    for (size_t i = 0; i < d->count && code == DF_OK; i++) {
        struct df_value subscription = df_uuid(d->at[i].id);
        code = df_db_exec(db,
                          DF_Q(webhook_end_waiting,
                               .error = df_text(DF_STR("the subscription was disabled")),
                               .subscription_id = subscription),
                          NULL, err);
        if (code == DF_OK)
            code = df_db_exec(
                db, DF_Q(webhook_bury_waiting, .now = now, .subscription_id = subscription), NULL,
                err);
    }
    return code;
}

static enum df_code webhooks_settled(const struct df_channel *c, struct df_db *db,
                                     struct df_value now, struct df_value ids, struct df_arena *a,
                                     struct df_err *err)
{
    const struct df_webhooks *w = c->arg;
    struct outcomes found = {0};

    /* What an earlier run found was rolled back. */
    *w->disabled = (struct disabled){.arena = a};
    enum df_code code =
        df_db_one(db, DF_Q(webhook_outcomes, .ids = ids), read_outcomes, &found, NULL, err);

    if (code == DF_OK && found.sent > 0)
        code = settle_sent(db, now, ids, err);
    if (code == DF_OK && found.failed > 0)
        code = settle_failed(w, db, now, ids, err);
    return code;
}

static void webhooks_committed(const struct df_channel *c)
{
    const struct df_webhooks *w = c->arg;
    struct disabled *d = w->disabled;

    for (size_t i = 0; i < d->count; i++) {
        struct df_log_field fields[] = {DF_F("subscriptionId", d->at[i].id)};
        df_log_write(DF_LOG_ERROR, "WebhookDisabled", fields, 1, "%s", d->at[i].reason);
    }
    *d = (struct disabled){0};
}

/* --- from outside ----------------------------------------------------------------------------- */

struct df_webhooks *df_webhooks_new(const struct df_webhooks_options *opt)
{
    struct df_webhooks *w = df_calloc(1, sizeof(*w));

    w->opt = *opt;
    w->disabled = df_calloc(1, sizeof(*w->disabled));
    w->schedule = (struct df_retry_policy){.delays_ms = w->opt.settings.retry_delays_ms.items,
                                           .delay_count = w->opt.settings.retry_delays_ms.count,
                                           .max_attempts =
                                               (int64_t)w->opt.settings.retry_delays_ms.count + 1};
    w->channel = (struct df_channel){
        .name = CHANNEL,
        .id_type = DF_UUID,
        DF_CHANNEL_OUTBOX(webhook),
        .dismissed = &df_q_webhook_dismissed,
        .settled = webhooks_settled,
        .committed = webhooks_committed,
        .whose = whose_webhook,
        .build = build_webhook,
        .schedule = &w->schedule,
        .classify = classify_answer,
        .retry_event = "WebhookRetry",
        .failed_event = "WebhookFailed",
        .failures = df_metric_get(&failures_total, NULL),
        .arg = w,
    };
    return w;
}

static void heard_of_webhooks(void *arg, size_t topic)
{
    const struct df_webhooks *w = arg;

    (void)topic;
    df_delivery_wake(w->delivery, &w->channel);
}

void df_webhooks_add_channels(struct df_webhooks *w, struct df_delivery *d)
{
    static const char *const topics[] = {CHANNEL, NULL};

    w->delivery = d;
    df_delivery_add(d, &w->channel);
    if (w->opt.notify_url)
        w->notifier = df_notifier_new(&(struct df_notifier_options){
            .url = w->opt.notify_url, .topics = topics, .heard = heard_of_webhooks, .arg = w});
}

void df_webhooks_wake(struct df_webhooks *w)
{
    if (!w)
        return;
    heard_of_webhooks(w, 0);
    df_notifier_tell(w->notifier, 0);
}

void df_webhooks_stop(struct df_webhooks *w)
{
    if (w)
        df_notifier_stop(w->notifier); /* not freed: jobs of the store may still use it */
}

void df_webhooks_free(struct df_webhooks *w)
{
    if (!w)
        return;
    df_webhooks_stop(w);
    df_notifier_free(w->notifier);
    free(w->disabled);
    free(w);
}

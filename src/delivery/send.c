/*
 * A row between its claim and its settlement: handed to the client if breaker and slots allow it,
 * judged when it comes back. `answered` runs on the client's thread, the rest on the engine's.
 */
#include "base/log.h"
#include "delivery/delivery_private.h"

#define ANSWER_MAX 4096

/* --- the end of an attempt -------------------------------------------------------------------- */

static void note_outcome(const struct delivery_row *row)
{
    const struct delivery_channel *ch = row->channel;
    static const enum df_log_level levels[DELIVERY_OUTCOMES] = {DF_LOG_INFO, DF_LOG_WARN,
                                                                DF_LOG_ERROR, DF_LOG_DEBUG};
    static const char *const events[DELIVERY_OUTCOMES] = {"DeliverySent", "DeliveryRetry",
                                                          "DeliveryFailed", "DeliveryDeferred"};

    char destination[DF_DESTINATION_SIZE];

    df_metric_add(ch->attempts[row->outcome], 1);
    if (row->tried)
        df_metric_observe(ch->duration, (double)row->call.duration_ms / 1e3);
    if (ch->c->failures && (row->outcome == DELIVERY_RETRY || row->outcome == DELIVERY_DEAD))
        df_metric_add(ch->c->failures, 1);
    if (!df_log_enabled(levels[row->outcome]))
        return;
    struct df_log_field fields[] = {
        DF_F("channel", df_str_c(ch->c->name)),
        DF_F("id", row->id),
        DF_FI("attempt", row->attempt),
        DF_F("destination",
             row->request.url ? df_destination_of(row->request.url, destination) : DF_STR_NULL),
        DF_FI("status", row->call.status),
        DF_FI("durationMs", row->call.duration_ms),
        DF_F("correlationId", row->request.correlation_id),
        DF_F("clientId", row->request.client_id),
        DF_F("batchId", row->request.batch_id),
        DF_F("subscriptionId", row->request.subscription_id),
    };
    /* The answer's text may hold anybody's data: it stays in the database. */
    const char *own = row->outcome == DELIVERY_RETRY  ? ch->c->retry_event
                      : row->outcome == DELIVERY_DEAD ? ch->c->failed_event
                                                      : NULL;
    const char *event = own ? own : events[row->outcome];
    df_log_write(levels[row->outcome], event, fields, sizeof(fields) / sizeof(fields[0]), "%s",
                 row->tried && row->call.code != DF_OK ? row->call.err.detail : "");
}

/* The row waits for the next cycle. Any thread, without the lock. */
static void finish(struct delivery_row *row)
{
    struct delivery_channel *ch = row->channel;
    struct df_delivery *d = ch->d;

    note_outcome(row);
    df_lock(&d->lock);
    if (row->destination && !row->promised)
        delivery_share_leave(d, row);
    delivery_list_add(&ch->settled, row);
    if (!ch->running) /* else the cycle's end wakes the engine */
        pthread_cond_broadcast(&d->changed);
    df_unlock(&d->lock);
}

void delivery_defer(struct delivery_row *row, int64_t delay_ms, const char *why)
{
    row->outcome = DELIVERY_DEFERRED;
    row->due_ms = delivery_now(row->channel) + (delay_ms > 0 ? delay_ms : 1);
    row->error = df_str_c(why);
    delivery_share_break(row->channel->d, row);
    finish(row);
}

static void fail(struct delivery_row *row, bool again, int64_t retry_after_ms)
{
    const struct df_delivery *d = row->channel->d;
    const struct df_channel *c = row->channel->c;
    const struct df_retry_policy *p = c->schedule ? c->schedule : &d->opt.settings.retry;

    row->outcome = again && !df_retry_exhausted(p, row->attempt) ? DELIVERY_RETRY : DELIVERY_DEAD;
    row->due_ms = delivery_now(row->channel) +
                  df_retry_delay_ms(p, row->attempt, retry_after_ms, d->opt.clock);
}

static void describe_failure(struct delivery_row *row)
{
    const struct df_call *call = &row->call;
    struct df_arena *a = &row->arena;

    if (call->code != DF_OK)
        row->error = delivery_clean(a, df_str_c(call->err.detail), DELIVERY_ERROR_UNITS);
    else
        row->error =
            delivery_clean(a,
                           df_arena_printf(a, "HTTP %u%s" DF_STR_FMT, call->status,
                                           row->answer.len ? ": " : "", DF_STR_ARG(row->answer)),
                           DELIVERY_ERROR_UNITS);
}

static void put_breaker(struct df_delivery *d, struct delivery_row *row)
{
    df_breakers_put(d->opt.breakers, row->breaker);
    row->breaker = NULL;
}

/* On the client's thread. */
static void answered(struct df_call *call)
{
    struct delivery_row *row = call->arg;
    struct df_delivery *d = row->channel->d;
    enum df_breaker_outcome verdict = DF_BREAKER_FAILURE;

    row->tried = true;
    row->answer = DF_STR_NULL;
    if (call->code == DF_OK && call->answer.len > 0)
        row->answer = delivery_clean(&row->arena, df_buf_str(&call->answer), DELIVERY_ANSWER_UNITS);
    if (call->code == DF_E_CANCELLED) {
        /* The server stops. Whether the peer has seen it is not known: it is sent again at once. */
        verdict = DF_BREAKER_IGNORED;
        row->tried = call->maybe_sent;
        row->outcome = row->tried ? DELIVERY_RETRY : DELIVERY_DEFERRED;
        row->due_ms = delivery_now(row->channel);
        row->error = DF_STR("the server stopped");
    } else if (call->code != DF_OK) {
        /* To a tenant an address that it may not reach is one that does not exist: it is tried as
         * often. */
        bool hidden = call->code == DF_E_TARGET_REFUSED && row->request.tenant.len > 0;
        bool again = hidden || df_code_retry(call->code) != DF_RETRY_NEVER;
        verdict = again ? DF_BREAKER_FAILURE : DF_BREAKER_IGNORED;
        describe_failure(row);
        fail(row, again, -1);
    } else {
        const struct df_channel *c = row->channel->c;
        enum df_retry_class class = df_retry_class_of(call->status);
        verdict = class == DF_CLASS_RETRY ? DF_BREAKER_FAILURE : DF_BREAKER_SUCCESS;
        if (c->classify)
            class = c->classify(call->status);
        if (class == DF_CLASS_SUCCESS) {
            row->outcome = DELIVERY_SENT;
        } else {
            describe_failure(row);
            fail(row, class == DF_CLASS_RETRY, call->retry_after_ms);
        }
    }
    df_breaker_done(row->breaker, row->permit, verdict, call->duration_ms);
    put_breaker(d, row);
    finish(row);
}

/* --- sending ---------------------------------------------------------------------------------- */

/*
 * An attempt ends a quarter of the lease before the lease does: or somebody else would make the
 * next meanwhile. 0 or less: the claim's commit took so long that there is no time left for one.
 */
static int64_t timeout_ms(const struct df_delivery *d, const struct delivery_row *row)
{
    int64_t reserve_ms = d->opt.settings.lease_ms / 4;
    int64_t most_ms = row->lease_end_ms - delivery_mono_ms(d) - reserve_ms;
    int64_t wanted_ms =
        row->request.timeout_ms > 0 ? row->request.timeout_ms : d->opt.settings.timeout_ms;
    return wanted_ms < most_ms ? wanted_ms : most_ms;
}

/* False: it goes back. */
static bool may_go(struct df_delivery *d, struct delivery_row *row)
{
    int64_t wait_ms = 0;

    row->breaker = df_breakers_get(d->opt.breakers, row->key);
    if (!df_breaker_allow(row->breaker, &row->permit, &wait_ms)) {
        put_breaker(d, row);
        delivery_defer(row, delivery_park_ms(d, row, wait_ms),
                       "the circuit breaker of the destination is open");
        return false;
    }
    df_lock(&d->lock);
    const char *full = delivery_share_enter(d, row);
    df_unlock(&d->lock);
    if (!full)
        return true;
    df_breaker_done(row->breaker, row->permit, DF_BREAKER_IGNORED, 0);
    put_breaker(d, row);
    delivery_defer(row, delivery_park_ms(d, row, DELIVERY_PARK_MS), full);
    return false;
}

static void send_row(struct df_delivery *d, struct delivery_row *row)
{
    int64_t limit_ms = timeout_ms(d, row);
    bool of_tenant = row->request.tenant.len > 0;

    if (limit_ms <= 0) {
        delivery_defer(row, 0, "its lease is nearly over");
        return;
    }
    if (!may_go(d, row))
        return;
    row->started_ms = delivery_now(row->channel);
    row->call = (struct df_call){
        .method = row->request.method ? row->request.method : "POST",
        .url = row->request.url,
        .headers = row->request.header_list ? row->request.header_list : row->request.headers,
        .header_count = row->request.header_count,
        .body = row->request.body,
        .timeout_ms = limit_ms,
        .max_answer_bytes = ANSWER_MAX,
        .owner = of_tenant ? row->request.tenant : df_str_c(row->channel->c->name),
        .of_tenant = of_tenant,
        .allow_private = row->request.private_too,
        .done = answered,
        .arg = row,
    };
    df_http_client_send(d->opt.client, &row->call);
}

void delivery_send(struct df_delivery *d, struct delivery_list *rows)
{
    struct delivery_row *row;

    while ((row = delivery_list_take(rows))) {
        if (row->request.url)
            send_row(d, row);
        else {
            delivery_share_break(d, row);
            finish(row); /* it could not be built */
        }
    }
}

/*
 * A row between its claim and its settlement: it is handed to the client if breaker and slots
 * allow, and its outcome is decided when it comes back. `row_answered` runs on a thread of the
 * client, the rest on the engine's.
 */
#include "base/log.h"
#include "delivery/delivery_private.h"
#include "net/security.h"

#include <assert.h>

#define ANSWER_MAX   4096
#define FORBIDDEN_MS INT64_C(300000) /* between two looks at a row that require_tls forbids */

/* --- the end of an attempt -------------------------------------------------------------------- */

static void note_outcome(const struct delivery_row *row)
{
    const struct delivery_channel *ch = row->channel;
    static const enum df_log_level levels[DELIVERY_OUTCOMES] = {DF_LOG_INFO, DF_LOG_WARN,
                                                                DF_LOG_ERROR, DF_LOG_DEBUG};
    static const char *const events[DELIVERY_OUTCOMES] = {"DeliverySent", "DeliveryRetry",
                                                          "DeliveryGivenUp", "DeliveryDeferred"};
    /* A row that could not be built was judged by nobody. */
    static const char *const reasons[] = {[DF_TRIES_AGAIN] = "refused",
                                          [DF_TRIES_REFUSED] = "refused",
                                          [DF_TRIES_COUNT] = "count",
                                          [DF_TRIES_TIME] = "time"};

    char destination[DF_DESTINATION_SIZE];

    const struct df_trace *trace = row->tried ? &row->out.trace : NULL;

    df_metric_add_traced(ch->attempts[row->outcome], 1, trace);
    if (row->tried)
        df_metric_observe_traced(ch->duration, (double)row->out.call.duration_ms / 1e3, trace);
    if (ch->c->failures && (row->outcome == DELIVERY_RETRY || row->outcome == DELIVERY_DEAD))
        df_metric_add(ch->c->failures, 1);
    if (row->outcome == DELIVERY_DEAD)
        df_metric_add(ch->given_up_total, 1);
    if (!df_log_enabled(levels[row->outcome]))
        return;
    struct df_log_field fields[] = {
        DF_F("channel", df_str_c(ch->c->name)),
        DF_F("id", row->id),
        DF_FI("attempt", row->attempt),
        DF_F("destination",
             row->request.url ? df_destination_of(row->request.url, destination) : DF_STR_NULL),
        DF_FI("status", row->out.call.status),
        DF_FI("durationMs", row->out.call.duration_ms),
        DF_F("correlationId", row->request.correlation_id),
        DF_F("clientId", row->request.client_id),
        DF_F("batchId", row->request.batch_id),
        DF_F("subscriptionId", row->request.subscription_id),
        DF_F("target", row->outcome == DELIVERY_DEAD ? row->key : DF_STR_NULL),
        DF_F("reason",
             row->outcome == DELIVERY_DEAD ? df_str_c(reasons[row->verdict]) : DF_STR_NULL),
        DF_FI("tries", row->outcome == DELIVERY_DEAD ? row->attempt : 0),
    };
    size_t count = sizeof(fields) / sizeof(fields[0]);
    /* The answer's text may hold personal data, so it is not logged: it stays in the database. */
    const char *own = row->outcome == DELIVERY_RETRY  ? ch->c->retry_event
                      : row->outcome == DELIVERY_DEAD ? ch->c->failed_event
                                                      : NULL;
    const char *event = own ? own : events[row->outcome];
    /* The last three are about giving up. */
    df_log_write(levels[row->outcome], event, fields,
                 row->outcome == DELIVERY_DEAD ? count : count - 3, "%s",
                 row->tried && row->out.call.code != DF_OK ? row->out.call.err.detail : "");
}

/* Leaves the row to the next settlement. Any thread. */
static void finish_row(struct delivery_row *row)
{
    struct delivery_channel *ch = row->channel;
    struct df_delivery *d = ch->d;

    assert(row->outcome < DELIVERY_OUTCOMES);
    note_outcome(row);
    df_lock(&d->lock);
    row->sent_ms = 0;
    if (row->destination && !row->promised)
        delivery_share_leave(d, row);
    ch->full_ms = 0;
    ch->holding = ch->holding || (row->held_for > 0 && !row->tried);
    df_list_add(&ch->settled, &row->link);
    if (!ch->is_settling && ch->settled.count == 1) /* else the engine is woken anyway */
        pthread_cond_broadcast(&d->changed);
    df_unlock(&d->lock);
}

void delivery_drop(struct delivery_row *row)
{
    struct delivery_channel *ch = row->channel;

    df_lock(&ch->d->lock);
    if (row->destination && !row->promised)
        delivery_share_leave(ch->d, row);
    delivery_held_remove(ch, row);
    if (row->waited_for > 0 && row->target) {
        row->target->has_held = true;
    } else if (row->waited_for == 0) { /* it lies behind the cursor */
        ch->since_ms = row->was_due_ms < ch->since_ms ? row->was_due_ms : ch->since_ms;
        ch->look_ms = delivery_mono_ms(ch->d);
    }
    df_metric_set(ch->in_flight, (double)delivery_held_sending(ch));
    df_unlock(&ch->d->lock);
    delivery_row_free(row);
}

/* The row was not tried, and is due later. */
static void defer_row(struct delivery_row *row, int64_t delay_ms, const char *why)
{
    row->outcome = DELIVERY_DEFERRED;
    row->due_ms = delivery_now(row->channel) + (delay_ms > 0 ? delay_ms : 1);
    row->error = df_str_c(why);
    delivery_share_break(row->channel->d, row);
    finish_row(row);
}

/* The row waits for its target; what failed is settled as a failure, the rest as not tried. */
static void mark_held(struct delivery_row *row, int64_t target)
{
    row->held_for = target;
    row->due_ms = delivery_now(row->channel) + DELIVERY_HOLD_MS;
}

static void hold_row(struct delivery_row *row, int64_t target, const char *why)
{
    if (row->waited_for == target) { /* as the table says */
        delivery_drop(row);
        return;
    }
    row->outcome = DELIVERY_DEFERRED;
    row->error = df_str_c(why);
    mark_held(row, target);
    delivery_share_break(row->channel->d, row);
    finish_row(row);
}

/* A channel with a schedule of its own: every failure counts. */
static void fail_by_schedule(struct delivery_row *row, bool again, int64_t retry_after_ms)
{
    const struct df_retry_policy *p = row->channel->c->schedule;
    int64_t now_ms = delivery_now(row->channel);

    row->tries.counted++;
    row->tries.counted_ms = now_ms;
    if (row->tries.first_failed_ms == 0)
        row->tries.first_failed_ms = now_ms;
    row->counted = true;
    row->verdict = !again                                      ? DF_TRIES_REFUSED
                   : df_retry_exhausted(p, row->tries.counted) ? DF_TRIES_COUNT
                                                               : DF_TRIES_AGAIN;
    row->outcome = row->verdict == DF_TRIES_AGAIN ? DELIVERY_RETRY : DELIVERY_DEAD;
    row->due_ms = now_ms + df_retry_delay_ms(p, row->tries.counted, retry_after_ms,
                                             row->channel->d->opt.clock);
}

/* How long to wait: at most as long as the row has been failing. TryCount, which is never reset,
 * says nothing about that. */
static int64_t backoff_ms(const struct delivery_row *row, int64_t now_ms)
{
    const struct df_delivery *d = row->channel->d;
    struct df_retry_policy p = d->opt.settings.retry;
    int64_t failing_ms = now_ms - row->tries.first_failed_ms;

    int64_t most_ms = failing_ms > p.base_ms ? failing_ms : p.base_ms;
    if (most_ms < p.cap_ms)
        p.cap_ms = most_ms;
    return df_retry_delay_ms(&p, row->attempt, row->out.call.retry_after_ms, d->opt.clock);
}

/* What a failure means for the row: resilience/tries.h. */
static void fail_by_rule(struct delivery_row *row, bool again)
{
    const struct df_delivery_settings *s = &row->channel->d->opt.settings;
    const struct df_call *call = &row->out.call;
    const struct df_tries_policy policy = {.max_counted = s->retry.max_attempts,
                                           .cap_ms = s->retry.cap_ms,
                                           .give_up_ms = s->give_up_ms};
    struct delivery_health_view view = delivery_target_told(row);
    const struct df_tries_failure failure = {
        .now_ms = delivery_now(row->channel),
        .refused = !again,
        .never_counts = !view.known || call->fault == DF_FAULT_OURS || call->status == 429 ||
                        call->retry_after_ms >= 0,
        .is_well = view.is_well,
        .arrived = view.arrived,
        .arrived_before = view.arrived_before,
    };
    int64_t counted = row->tries.counted;
    int64_t mark = row->tries.mark;

    row->tries.tries = row->attempt;
    row->verdict = df_tries_fail(&policy, &row->tries, &failure);
    bool given_up = row->verdict != DF_TRIES_AGAIN;
    if (!view.known)
        row->tries.mark = mark; /* the next failure knows how many had arrived */
    row->counted = row->tries.counted > counted;
    row->outcome = given_up ? DELIVERY_DEAD : DELIVERY_RETRY;
    row->due_ms = failure.now_ms + backoff_ms(row, failure.now_ms);
    if (!given_up && view.hold_for > 0 &&
        call->retry_after_ms < 0) /* else it has a time of its own */
        mark_held(row, view.hold_for);
}

static void fail_row(struct delivery_row *row, bool again)
{
    if (row->channel->c->schedule)
        fail_by_schedule(row, again, row->out.call.retry_after_ms);
    else
        fail_by_rule(row, again);
}

static void describe_failure(struct delivery_row *row)
{
    const struct df_call *call = &row->out.call;
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

/* On the client's thread. */
static void row_answered(struct df_out *out)
{
    struct delivery_row *row = out->arg;
    const struct df_call *call = &out->call;

    assert(row->destination && !row->promised);
    row->tried = true;
    row->answer = DF_STR_NULL;
    if (call->code == DF_OK && call->answer.len > 0)
        row->answer =
            delivery_clean_answer(row->channel->d, &row->arena, df_buf_str(&call->answer));
    switch (out->verdict) {
    case DF_OUT_OK:
        row->outcome = DELIVERY_SENT;
        if (row->target)
            (void)delivery_target_told(row);
        break;
    case DF_OUT_AGAIN:
    case DF_OUT_REFUSED:
        describe_failure(row);
        fail_row(row, out->verdict == DF_OUT_AGAIN);
        break;
    case DF_OUT_STOPPED:
        /* The peer may have seen it: that was a try, and it is due at once. */
        if (!call->maybe_sent && !row->shown) {
            delivery_drop(row);
            return;
        }
        row->tried = call->maybe_sent;
        row->outcome = row->tried ? DELIVERY_RETRY : DELIVERY_DEFERRED;
        row->due_ms = delivery_now(row->channel);
        row->error = DF_STR("the server stopped");
        break;
    }
    finish_row(row);
}

/* --- sending ---------------------------------------------------------------------------------- */

/*
 * An attempt ends a quarter of the lease before the lease does, so that no other process makes the
 * next attempt meanwhile. 0 or less: no time is left.
 */
static int64_t attempt_timeout_ms(const struct df_delivery *d, const struct delivery_row *row)
{
    int64_t most_ms = df_shards_left_ms(row->channel->shards, row->shard, row->epoch);
    int64_t wanted_ms =
        row->request.timeout_ms > 0 ? row->request.timeout_ms : d->opt.settings.timeout_ms;
    return wanted_ms < most_ms ? wanted_ms : most_ms;
}

/* Puts the row back: to its target, if there is one that rows can wait for (its id), or soon will
 * be. */
static void put_row_back(struct df_delivery *d, struct delivery_row *row, int64_t target,
                         int64_t least_ms, const char *why)
{
    if (target > 0)
        hold_row(row, target, why);
    else if (row->target && least_ms > d->opt.poll_ms)
        defer_row(row, delivery_park_ms(d, row, d->opt.poll_ms), why);
    else
        defer_row(row, delivery_park_ms(d, row, least_ms), why);
}

/*
 * Asks target, breaker and shares; false: the row was put back. While rows wait for a target, what
 * finds its destination full waits with them, so that the oldest go first.
 */
static bool row_may_go(struct df_delivery *d, struct delivery_row *row)
{
    df_lock(&d->lock);
    const char *why = delivery_target_blocks(d, row);
    int64_t target = row->target ? row->target->id : 0;
    bool queues = target > 0 && (row->target->has_held || row->waited_for > 0);
    df_unlock(&d->lock);
    if (why) {
        hold_row(row, target, why);
        return false;
    }
    if (!df_outbound_ask(d->opt.outbound, &row->out)) {
        put_row_back(d, row, target, row->out.retry_ms,
                     "the circuit breaker of the destination is open");
        return false;
    }
    df_lock(&d->lock);
    why = delivery_share_enter(d, row);
    row->sent_ms = why ? 0 : delivery_mono_ms(d);
    row->channel->holding = row->channel->holding && why;
    if (why && row->target && row->waited_for > 0)
        row->target->full_until_ms = delivery_mono_ms(d) + DELIVERY_PARK_MS;
    bool busy = why && !row->channel->several && delivery_share_is_busy(d, row);
    if (busy)
        row->channel->full_ms = delivery_mono_ms(d) + DELIVERY_STUCK_MS;
    df_unlock(&d->lock);
    if (!why)
        return true;
    df_outbound_forgo(&row->out);
    if (busy && !queues && row->waited_for == 0) { /* there will soon be room */
        delivery_drop(row);
        return false;
    }
    put_row_back(d, row, queues ? target : 0, DELIVERY_PARK_MS, why);
    return false;
}

static bool is_forbidden(const char *url)
{
    struct df_url u;
    return df_url_parse(df_str_c(url), &u, NULL) == DF_OK && df_security_forbids(&u);
}

/* The row waits, and says why, until its URL or the setting is another. It was not tried. */
static void wait_for_tls(struct df_delivery *d, struct delivery_row *row)
{
    row->outcome = DELIVERY_RETRY;
    row->error = DF_STR(DF_SECURITY_FORBIDDEN);
    row->due_ms = delivery_now(row->channel) + FORBIDDEN_MS;
    delivery_share_break(d, row);
    finish_row(row);
}

static void send_row(struct df_delivery *d, struct delivery_row *row)
{
    const struct df_delivery_request *req = &row->request;
    int64_t limit_ms = attempt_timeout_ms(d, row);
    bool of_tenant = req->tenant.len > 0;

    if (limit_ms <= 0) { /* the shard may soon be another's */
        delivery_drop(row);
        return;
    }
    if (is_forbidden(req->url)) {
        wait_for_tls(d, row);
        return;
    }
    row->started_ms = delivery_now(row->channel);
    row->out = (struct df_out){
        .call = {.method = req->method ? req->method : "POST",
                 .url = req->url,
                 .body = req->body,
                 .timeout_ms = limit_ms,
                 .max_answer_bytes = ANSWER_MAX,
                 .owner = of_tenant ? req->tenant : df_str_c(row->channel->c->name),
                 .of_tenant = of_tenant,
                 .allow_private = req->private_too},
        .headers = req->headers,
        .correlation_id = req->correlation_header,
        .idempotency_key = req->idempotency_key,
        .trace = row->out.trace,
        .trace_id = req->trace_id,
        .breaker = row->breaker,
        .guards_host = row->target && !of_tenant,
        .hides_targets = of_tenant, /* else it could scan the network behind the server */
        .classify = row->channel->c->classify,
        .done = row_answered,
        .arg = row,
    };
    if (row_may_go(d, row))
        df_outbound_send(d->opt.outbound, &row->out);
}

void delivery_send(struct df_delivery *d, struct df_list *rows)
{
    struct delivery_row *row;

    while ((row = delivery_list_take(rows))) {
        if (row->request.url)
            send_row(d, row);
        else {
            delivery_share_break(d, row);
            finish_row(row); /* it could not be built */
        }
    }
}

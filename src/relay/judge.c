/*
 * What becomes of the events of a round, once the destination has answered.
 *
 *     confirmed --------------------------------------------------> PROCESSED
 *     refused, or given up by the rule of resilience/tries.h -----> FAILED
 *     failed, the destination is well ----------------------------> RETRY   due again later;
 * attempts + 1 if it counts failed, the destination is not well ------------------------> HELD the
 * row stays as it was
 *
 * The destination is well while the breaker is closed after the whole round. So a destination that
 * goes away with a full batch in hand leaves no event with a backoff: all of them go when it is
 * back.
 */
#include "relay/relay_private.h"

#include <assert.h>
#include <stdio.h>

static const char *const why_names[] = {[DF_TRIES_AGAIN] = "",
                                        [DF_TRIES_REFUSED] = "refused",
                                        [DF_TRIES_COUNT] = "count",
                                        [DF_TRIES_TIME] = "time"};

/* Counted failures of which the last is one too many. */
static int64_t most_counted(const struct df_relay *r)
{
    return r->s->max_retries + 1;
}

void relay_give_up(const struct df_relay *r, struct relay_claimed *c, enum df_tries_verdict verdict)
{
    int64_t most = most_counted(r);

    assert(verdict != DF_TRIES_AGAIN);
    c->outcome = RELAY_FAILED;
    c->why = why_names[verdict];
    c->counted = c->attempts > most ? c->attempts : most;
}

/* --- how the destination is ------------------------------------------------------------------- */

int64_t relay_arrived(const struct df_relay *r)
{
    return r->health.arrived + r->health.unwritten;
}

/* Everything that waits goes at once: the oldest first, without a backoff. */
static void come_back(struct df_relay *r) DF_REQUIRES(r->lock)
{
    r->health.down_since_ms = 0;
    r->shut_until_ms = 0;
    r->from_start_ms = 0;
    relay_unhold(r, SIZE_MAX);
    relay_wake_resting(r);
    pthread_cond_broadcast(&r->changed);
}

void relay_note_breaker(struct df_relay *r, const struct df_breaker_snapshot *s)
{
    bool is_well = s->state == DF_BREAKER_CLOSED;

    if (is_well && r->health.down_since_ms > 0)
        come_back(r);
    else if (!is_well && r->health.down_since_ms == 0)
        r->health.down_since_ms = s->since_ms;
}

/* --- one event -------------------------------------------------------------------------------- */

/* Tells the breaker of the outcome. */
static void tell_breaker(struct df_relay *r, struct relay_claimed *c, bool stopping)
{
    enum df_breaker_outcome verdict = c->e.breaker;

    /* A stop cuts calls off: that says nothing about the destination, and the event stays as it
     * was. */
    if (c->e.outcome == DF_DISPATCH_NONE || (c->e.outcome != DF_DISPATCHED && stopping))
        verdict = DF_BREAKER_IGNORED;
    df_breaker_done(r->breaker, c->permit, verdict, c->e.duration_ms);
}

static void note_failure(struct df_relay *r, const struct df_event *e, int64_t now_ms)
    DF_REQUIRES(r->lock)
{
    struct df_str error = df_utf8_cut(e->error, sizeof r->health.last_error / 4);

    r->health.last_failed_ms = now_ms;
    (void)snprintf(r->health.last_error, sizeof r->health.last_error, DF_STR_FMT,
                   DF_STR_ARG(error));
}

static void judge_failure(struct df_relay *r, struct relay_claimed *c, bool is_well,
                          int64_t arrived_before) DF_REQUIRES(r->lock)
{
    const struct df_event *e = &c->e;
    const struct df_tries_policy policy = {.max_counted = most_counted(r),
                                           .cap_ms = r->s->retry_cap_ms,
                                           .give_up_ms = r->opt.give_up_ms};
    const struct df_tries_failure failure = {
        .now_ms = df_wall_ms(r->opt.clock),
        .refused = e->outcome == DF_DISPATCH_PERMANENT,
        .never_counts = e->never_counts || e->retry_after_ms >= 0 ||
                        e->outcome == DF_DISPATCH_NONE || e->breaker == DF_BREAKER_IGNORED,
        .is_well = is_well,
        .arrived = relay_arrived(r),
        .arrived_before = arrived_before,
    };
    struct df_tries *t = relay_note_try(r, e->id, c->attempts, policy.max_counted, failure.now_ms);
    int64_t counted_before = t->counted;
    enum df_tries_verdict verdict = df_tries_fail(&policy, t, &failure);

    note_failure(r, e, failure.now_ms);
    if (verdict != DF_TRIES_AGAIN) {
        relay_give_up(r, c, verdict);
        relay_forget(r, e->id);
        return;
    }
    c->counted = c->attempts + (t->counted > counted_before);
    relay_recall(r, e->id)->attempts = c->counted;
    if (is_well) {
        c->outcome = RELAY_RETRY;
        c->delay_ms = df_retry_delay_ms(&r->retry, t->tries, e->retry_after_ms, r->opt.clock);
    } else {
        c->outcome = RELAY_HELD;
        relay_hold(r, e->id);
    }
}

/* What a destination that is not well asks for keeps all events back. */
static void heed_retry_after(struct df_relay *r, const struct df_event *e) DF_REQUIRES(r->lock)
{
    int64_t cap_ms = r->s->retry_cap_ms;
    int64_t wait_ms = e->retry_after_ms < cap_ms ? e->retry_after_ms : cap_ms;
    int64_t until_ms = df_mono_ms(r->opt.clock) + wait_ms;

    if (e->retry_after_ms > 0 && until_ms > r->shut_until_ms)
        r->shut_until_ms = until_ms;
}

static void judge_event(struct df_relay *r, struct relay_claimed *c, bool is_well, bool stopping,
                        int64_t arrived_before) DF_REQUIRES(r->lock)
{
    if (c->e.outcome == DF_DISPATCHED) {
        c->outcome = RELAY_PROCESSED;
        relay_forget(r, c->e.id);
    } else if (stopping) {
        c->outcome = RELAY_DEFERRED;
    } else {
        judge_failure(r, c, is_well, arrived_before);
        if (!is_well)
            heed_retry_after(r, &c->e);
    }
}

/* --- a round ---------------------------------------------------------------------------------- */

bool relay_judge_round(struct df_relay *r, struct relay_claimed *const *round, size_t n,
                       int64_t arrived_before)
{
    bool stopping = relay_stopping(r);
    struct df_breaker_snapshot s;
    bool blamed = false;
    int64_t arrived = 0;

    for (size_t i = 0; i < n; i++) {
        tell_breaker(r, round[i], stopping);
        arrived += round[i]->e.outcome == DF_DISPATCHED;
        blamed = blamed || round[i]->e.breaker == DF_BREAKER_FAILURE;
    }
    df_breaker_snapshot(r->breaker, &s);
    df_lock(&r->lock);
    r->health.unwritten += arrived;
    if (arrived > 0)
        r->health.last_arrived_ms = df_wall_ms(r->opt.clock);
    relay_note_breaker(r, &s);
    for (size_t i = 0; i < n; i++)
        judge_event(r, round[i], s.state == DF_BREAKER_CLOSED, stopping, arrived_before);
    df_unlock(&r->lock);
    return blamed;
}

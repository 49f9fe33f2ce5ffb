/*
 * A batch: claimed (claim.c), sent, marked, committed. The transaction is open from the claim to
 * the marks, so that no other relay takes the rows meanwhile, and a process that dies leaves them
 * as they were.
 *
 *     PENDING --claim--> locked --confirmed--> PROCESSED
 *        ^                 |  '--given up, or refused for good--> FAILED
 *        '-----------------'  (failed: not before next_attempt_at; not sent, or held: nothing)
 *
 * judge.c says which of these it is.
 *
 * Marks change PENDING rows only, in the transaction that holds the lock; so an event is PROCESSED
 * only if this very claim has seen it confirmed. An event that was confirmed and could not be
 * marked (the connection lost, the process killed) is sent again: delivery is at least once.
 *
 * SQLite has one writer for the whole file, so no transaction is open while events are on their
 * way. Instead, a lock on a file beside the database lets one relay work at a time, on one thread
 * (worker.c).
 *
 * With order=aggregate the batch has chains: the first event of an aggregate (its head) and those
 * behind it. Chains are sent in rounds: the first of each, then the second of those whose first has
 * arrived. A failure ends its chain.
 */
#include "base/tally.h"
#include "privacy/mask.h"
#include "relay/relay_private.h"
#include "store/rows.h"

#include <assert.h>
#include <stdio.h>

#define AGAIN_MARGIN_MS 20 /* the time of a row that failed is the database's */

#define CHAIN_MS        5000 /* for the rounds of one transaction */

/* --- sending ---------------------------------------------------------------------------------- */

bool relay_stopping(struct df_relay *r)
{
    df_lock(&r->lock);
    bool yes = r->stopping;
    df_unlock(&r->lock);
    return yes;
}

/* Claims more rows while all goes well, fewer when the destination fails. */
static void learn_room(struct df_relay *r, const struct relay_batch *b, bool blamed)
{
    size_t most = (size_t)r->s->batch;

    df_lock(&r->lock);
    if (blamed)
        r->room = r->room / 2 > RELAY_ROOM_MIN ? r->room / 2 : RELAY_ROOM_MIN;
    else if (!b->cut)
        r->room *= 2;
    r->room = r->room > most ? most : r->room;
    df_unlock(&r->lock);
}

/* Keeps the rows of `round` that the breaker lets through; the others, with their chains, stay
 * PENDING. */
static size_t keep_permitted(struct df_relay *r, struct relay_claimed **round, size_t n)
{
    size_t kept = 0;

    for (size_t i = 0; i < n; i++) {
        int64_t wait_ms;
        if (df_breaker_allow(r->breaker, &round[i]->permit, &wait_ms))
            round[kept++] = round[i];
    }
    return kept;
}

/* False for a row that waits for its time, has failed already, or is gone from the table. */
static bool may_be_sent(const struct relay_claimed *c)
{
    return c->due && c->fetched && c->outcome == RELAY_DEFERRED;
}

/* Whatever the destination quoted behind "HTTP 422: ". */
static struct df_str mask_error(struct relay_worker *w, struct df_str error)
{
    const struct df_masker *m = w->relay->opt.masker;
    struct df_str head, answer = df_str_trim(df_str_cut(error, ':', &head));

    if (!m || answer.len == 0 || (answer.ptr[0] != '{' && answer.ptr[0] != '['))
        return df_mask_note(error, SIZE_MAX, &w->arena);
    head = df_mask_note(head, SIZE_MAX, &w->arena);
    answer = df_mask_answer(m, answer, SIZE_MAX, &w->arena);
    return df_arena_printf(&w->arena, DF_STR_FMT ": " DF_STR_FMT, DF_STR_ARG(head),
                           DF_STR_ARG(answer));
}

/* Each event that is sent has a span of its own, whatever carries it. */
static void begin_spans(struct relay_worker *w, struct df_event **events, size_t n)
{
    struct df_relay *r = w->relay;
    struct df_trace written;

    for (size_t i = 0; df_spans_on() && i < n; i++) {
        struct df_event *e = events[i];
        e->span = NULL;
        if (!df_event_trace(e, &written) || !df_trace_is_sampled(&written))
            continue;
        struct df_span *span = DF_ARENA_NEW(&w->arena, struct df_span);
        df_span_begin(span, &written, "send", DF_SPAN_PRODUCER, r->opt.clock);
        df_span_text(span, "messaging.system", df_str_c(r->dispatcher->name));
        df_span_text(span, "messaging.operation.type", DF_STR("send"));
        df_span_text(span, "messaging.operation.name", DF_STR("send"));
        df_span_text(span, "messaging.destination.name", df_str_c(r->s->name));
        df_span_text(span, "messaging.message.id", e->id);
        df_span_text(span, "messaging.message.conversation_id", e->correlation_id);
        df_span_text(span, "dataflow.event.type", e->type);
        if (e->attempt > 1)
            df_span_int(span, "dataflow.resend_count", e->attempt - 1);
        e->span = span->recording ? span : NULL;
    }
}

static void end_spans(struct df_event **events, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct df_event *e = events[i];
        if (!e->span)
            continue;
        if (e->outcome != DF_DISPATCHED) {
            df_span_text(e->span, "error.type",
                         e->outcome == DF_DISPATCH_PERMANENT ? DF_STR("refused") : DF_STR("retry"));
            df_span_fail(e->span, DF_STR_NULL);
        }
        df_span_end(e->span);
        e->span = NULL;
    }
}

static void dispatch_batch(struct relay_worker *w, struct relay_batch *b)
{
    struct df_relay *r = w->relay;
    struct relay_claimed **round = DF_ARENA_ARRAY(&w->arena, struct relay_claimed *, b->count);
    struct df_event **events = DF_ARENA_ARRAY(&w->arena, struct df_event *, b->count);
    int64_t until_ms = df_mono_ms(r->opt.clock) + CHAIN_MS;
    bool blamed = false;
    size_t n = 0;

    for (size_t i = 0; i < b->count; i++) {
        if (!b->rows[i].tail && may_be_sent(&b->rows[i]))
            round[n++] = &b->rows[i];
    }
    while ((n = keep_permitted(r, round, n)) > 0) {
        for (size_t i = 0; i < n; i++)
            events[i] = &round[i]->e;
        b->sent += n;
        df_lock(&r->lock);
        int64_t arrived = relay_arrived(r);
        df_unlock(&r->lock);
        begin_spans(w, events, n);
        r->dispatcher->dispatch(w->sink, events, n, &w->arena);
        end_spans(events, n);
        for (size_t i = 0; i < n; i++)
            events[i]->error = mask_error(w, events[i]->error);
        blamed = relay_judge_round(r, round, n, arrived) || blamed;
        size_t left = 0;
        for (size_t i = 0; i < n; i++) {
            struct relay_claimed *next = round[i]->next;
            if (round[i]->outcome == RELAY_PROCESSED && next && may_be_sent(next))
                round[left++] = next;
        }
        n = left;
        if (df_mono_ms(r->opt.clock) >= until_ms || relay_stopping(r))
            break;
    }
    learn_room(r, b, blamed);
}

/* --- marking ---------------------------------------------------------------------------------- */

static struct df_str one_id(struct relay_worker *w, struct df_str id)
{
    struct df_buf b;

    df_buf_init(&b, RELAY_LIST_MAX);
    relay_list_open(w->relay->dialect, &b);
    relay_list_add(w->relay->dialect, id, &b);
    relay_list_close(w->relay->dialect, &b);
    struct df_str text = df_arena_str(&w->arena, df_buf_str(&b));
    df_buf_release(&b);
    return text;
}

static enum df_code mark_failures(struct relay_worker *w, struct relay_batch *b,
                                  enum relay_outcome which, const struct relay_query *q,
                                  struct df_err *err)
{
    const struct relay_sql *sql = &w->shape->sql;
    struct df_rows rows = df_rows_for(&w->arena, &q->q, b->count);

    for (size_t i = 0; i < b->count; i++) {
        struct relay_claimed *c = &b->rows[i];
        if (c->outcome != which)
            continue;
        df_rows_put(&rows, DF_ANY(&q->q, {"id", df_text(one_id(w, c->e.id))},
                                  {"counted", df_int(c->counted)}, {"delay", df_int(c->delay_ms)},
                                  {"error", df_text(df_utf8_cut(c->e.error, sql->error_units))}));
    }
    return df_rows_run(w->db, &rows, NULL, err);
}

static enum df_code mark_processed(struct relay_worker *w, struct relay_batch *b,
                                   struct df_err *err)
{
    const struct relay_sql *sql = &w->shape->sql;
    enum df_dialect d = w->relay->dialect;
    enum df_code code = DF_OK;
    int64_t marked = 0;
    struct df_buf ids;
    size_t n = 0;

    df_buf_init(&ids, RELAY_LIST_MAX);
    relay_list_open(d, &ids);
    for (size_t i = 0; i < b->count; i++) {
        if (b->rows[i].outcome == RELAY_PROCESSED) {
            relay_list_add(d, b->rows[i].e.id, &ids);
            n++;
        }
    }
    relay_list_close(d, &ids);
    if (n > 0)
        code = df_db_exec(w->db, DF_ANY(&sql->processed.q, {"ids", df_text(df_buf_str(&ids))}),
                          &marked, err);
    df_buf_release(&ids);
    /* If not one of them could be marked, none ever will be, and each would be sent again and
     * again. */
    if (code == DF_OK && n > 0 && marked == 0)
        code = df_err_set(err, DF_E_CONFLICT,
                          "none of %zu rows of %s could be found again by its %s to be marked", n,
                          w->relay->s->table, w->relay->s->columns[DF_RELAY_ID]);
    return code;
}

/*
 * *ret_refused: the table does not take these marks and never will (a constraint that does not
 * allow FAILED, say). Then these events stay as they were, and the processed ones are still marked:
 * otherwise one event would cause the whole batch to be sent again and again.
 */
static enum df_code mark_unprocessed(struct relay_worker *w, struct relay_batch *b,
                                     enum df_code *ret_refused, struct df_err *err)
{
    const struct relay_sql *sql = &w->shape->sql;
    enum df_code code = df_db_savepoint(w->db, err);

    if (code != DF_OK)
        return code;
    code = mark_failures(w, b, RELAY_RETRY, &sql->retry, err);
    if (code == DF_OK)
        code = mark_failures(w, b, RELAY_FAILED, &sql->dead, err);
    if (code == DF_OK)
        return df_db_release(w->db, err);
    if (df_code_retry(code) != DF_RETRY_NEVER || !df_db_alive(w->db))
        return code;
    *ret_refused = code;
    for (size_t i = 0; i < b->count; i++) {
        if (b->rows[i].outcome != RELAY_PROCESSED)
            b->rows[i].outcome = RELAY_DEFERRED;
    }
    struct df_err ignored = DF_ERR_INIT; /* *err says why the marks failed */
    return df_db_rollback_to(w->db, &ignored);
}

static enum df_code mark_batch(struct relay_worker *w, struct relay_batch *b,
                               enum df_code *ret_refused, struct df_err *err)
{
    bool failures = false;

    for (size_t i = 0; i < b->count; i++)
        failures =
            failures || b->rows[i].outcome == RELAY_RETRY || b->rows[i].outcome == RELAY_FAILED;
    enum df_code code = mark_processed(w, b, err);
    if (code == DF_OK && failures)
        code = mark_unprocessed(w, b, ret_refused, err);
    return code;
}

/* --- log and metrics -------------------------------------------------------------------------- */

static void log_event(const struct df_relay *r, const struct relay_claimed *c,
                      enum df_log_level level, const char *event)
{
    const struct df_event *e = &c->e;

    if (!df_log_enabled(level))
        return;
    struct df_log_field fields[] = {
        DF_F("relay", df_str_c(r->s->name)),  DF_F("eventId", e->id),
        DF_F("eventType", e->type),           DF_F("correlationId", e->correlation_id),
        DF_F("traceId", e->trace_id),         DF_F("aggregateType", e->aggregate_type),
        DF_F("aggregateId", e->aggregate_id), DF_FI("attempt", e->attempt),
        DF_FI("durationMs", e->duration_ms),
    };
    /* The text behind the first colon may be the destination's and hold personal data: it stays in
     * the table. */
    struct df_str why;
    (void)df_str_cut(e->error, ':', &why);
    df_log_write(level, event, fields, sizeof fields / sizeof fields[0], DF_STR_FMT,
                 DF_STR_ARG(why));
}

/* c: one of the `count` events that were given up. */
static void note_given_up(struct df_relay *r, const struct relay_claimed *c, int64_t count)
    DF_REQUIRES(r->lock)
{
    struct df_relay_status *s = &r->status;
    struct df_str why;

    (void)df_str_cut(c->e.error, ':', &why); /* as for the log */
    why = df_utf8_cut(why, sizeof(s->failed_error) / 4);
    s->given_up += count;
    s->failed = (s->failed > 0 ? s->failed : 0) + count;
    s->failed_at_ms = df_wall_ms(r->opt.clock);
    if (s->failed_since_ms == 0)
        s->failed_since_ms = s->failed_at_ms;
    (void)snprintf(s->failed_error, sizeof(s->failed_error), DF_STR_FMT, DF_STR_ARG(why));
    df_metric_add(r->failed_total, (double)count);
    df_metric_set(r->failed, (double)s->failed);
}

static void log_given_up(const struct df_relay *r, const struct relay_claimed *c)
{
    struct df_log_field fields[] = {
        DF_F("channel", DF_STR("relay")), DF_F("relay", df_str_c(r->s->name)),
        DF_F("eventId", c->e.id),         DF_F("correlationId", c->e.correlation_id),
        DF_F("traceId", c->e.trace_id),   DF_F("reason", df_str_c(c->why)),
    };
    df_log_write(DF_LOG_ERROR, "DeliveryGivenUp", fields, sizeof fields / sizeof fields[0],
                 "the event is %s and waits for a person", r->s->state_failed);
}

static void note_duration(struct df_relay *r, const struct df_event *e)
{
    struct df_trace trace;
    bool traced = df_event_trace(e, &trace);

    df_metric_observe_traced(r->duration, (double)e->duration_ms / 1e3, traced ? &trace : NULL);
}

/* Events of other applications are no client's. */
static void tally_batch(const struct df_relay *r, const int64_t counts[RELAY_OUTCOMES])
{
    char channel[DF_TALLY_CHANNEL_MAX + 1];
    struct df_tallied n = {
        .delivered = counts[RELAY_PROCESSED],
        .failed = counts[RELAY_RETRY] + counts[RELAY_FAILED] + counts[RELAY_HELD],
    };

    (void)snprintf(channel, sizeof channel, "relay:%s", r->s->name);
    if (n.delivered + n.failed > 0)
        df_tally(DF_STR_NULL, df_str_c(channel), &n);
}

/* Called after the commit. */
static void log_batch(struct df_relay *r, const struct relay_batch *b, bool has_due)
{
    static const enum df_log_level levels[RELAY_OUTCOMES] = {
        [RELAY_PROCESSED] = DF_LOG_INFO, [RELAY_RETRY] = DF_LOG_WARN,
        [RELAY_FAILED] = DF_LOG_ERROR,   [RELAY_HELD] = DF_LOG_WARN,
        [RELAY_DEFERRED] = DF_LOG_DEBUG,
    };
    static const char *const events[RELAY_OUTCOMES] = {
        [RELAY_PROCESSED] = "OutboxEventProcessed", [RELAY_RETRY] = "OutboxEventRetry",
        [RELAY_FAILED] = "OutboxEventFailed",       [RELAY_HELD] = "OutboxEventRetry",
        [RELAY_DEFERRED] = "OutboxEventDeferred",
    };
    int64_t counts[RELAY_OUTCOMES] = {0};
    const struct relay_claimed *dead = NULL;
    int64_t again_ms = INT64_MAX;

    for (size_t i = 0; i < b->count; i++) {
        const struct relay_claimed *c = &b->rows[i];
        counts[c->outcome]++;
        if (c->outcome == RELAY_RETRY && c->delay_ms < again_ms)
            again_ms = c->delay_ms;
        dead = c->outcome == RELAY_FAILED ? c : dead;
        if (c->outcome != RELAY_DEFERRED)
            note_duration(r, &c->e);
        if (c->outcome == RELAY_RETRY && !has_due)
            relay_rest(r, c->e.id, c->delay_ms);
        log_event(r, c, levels[c->outcome], events[c->outcome]);
        if (c->outcome == RELAY_FAILED)
            log_given_up(r, c);
    }
    for (size_t i = 0; i < RELAY_OUTCOMES; i++)
        df_metric_add(r->attempts[i], (double)counts[i]);
    tally_batch(r, counts);
    df_lock(&r->lock);
    if (again_ms < INT64_MAX) {
        again_ms += df_mono_ms(r->opt.clock) + AGAIN_MARGIN_MS;
        if (r->again_ms == 0 || again_ms < r->again_ms)
            r->again_ms = again_ms;
        pthread_cond_broadcast(&r->changed); /* the lookout may be another worker */
    }
    r->status.dispatched += counts[RELAY_PROCESSED];
    r->status.retried += counts[RELAY_RETRY] + counts[RELAY_HELD];
    if (dead)
        note_given_up(r, dead, counts[RELAY_FAILED]);
    if (counts[RELAY_PROCESSED] > 0)
        r->status.last_dispatch_ms = df_wall_ms(r->opt.clock);
    df_unlock(&r->lock);
}

/* These events have arrived, but the table does not say so: they will be sent again. */
static void log_unmarked(struct df_relay *r, const struct relay_batch *b)
{
    for (size_t i = 0; i < b->count; i++) {
        if (b->rows[i].outcome == RELAY_PROCESSED)
            log_event(r, &b->rows[i], DF_LOG_WARN, "OutboxEventUnmarked");
    }
}

/* --- a batch ---------------------------------------------------------------------------------- */

enum df_code relay_run_batch(struct relay_worker *w, size_t limit, struct relay_batch *b,
                             struct df_err *err)
{
    struct df_relay *r = w->relay;
    bool locks = r->dialect != DF_SQLITE; /* SQLite: no transaction while events are sent */
    enum df_code refused = DF_OK;
    enum df_code code = DF_OK;

    assert(w->db && w->shape && w->sink && limit > 0);
    *b = (struct relay_batch){0};
    if (locks)
        code = df_db_begin(w->db, true, err);
    if (code == DF_OK)
        code = relay_claim(w, limit, b, err);
    assert(b->count <= limit && b->heads <= b->count);
    if (code == DF_OK && b->count > 0 && !relay_stopping(r)) {
        dispatch_batch(w, b);
        if (!locks)
            code = df_db_begin(w->db, true, err);
        if (code == DF_OK)
            code = mark_batch(w, b, &refused, err);
    }
    if (code == DF_OK && df_db_in_transaction(w->db))
        code = df_db_commit(w->db, err);
    if (code == DF_OK) {
        log_batch(r, b, w->shape->sql.has_due);
    } else {
        df_db_reset(w->db);
        log_unmarked(r, b);
    }
    relay_batch_release(b);
    df_arena_reset(&w->arena);
    b->rows = NULL;
    return code == DF_OK ? refused : code;
}

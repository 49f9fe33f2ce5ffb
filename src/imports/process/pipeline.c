/*
 * One batch, from its claim to its end, on its worker's thread.
 *
 * It begins in prepare.c: the file is brought here, compared with its checksum, and all of it read
 * once, so that one that is broken anywhere fails before anything was sent, and the number of its
 * records is known. Then chunks are cut, as many at a time as may wait for an ack, and each goes
 * its way:
 *
 *      READY ──commit Sending──► SENDING ──200──────────────────────────► OVER ──commit──► gone
 *        ▲  breaker open: WAITING   │  ├──202──commit AwaitingAck──► AWAITING ──ack──► OVER
 *        │                          │  └──4xx, or the last try──────────────────────► OVER
 *        └───────due── WAITING ◄────┴─5xx, no answer      no ack in time: READY again
 *
 * In the end the batch's state changes and the lock is freed, in one commit; then the file goes.
 *
 * Nothing is kept that cannot be read again: whatever goes wrong with the database, the batch is
 * dropped and taken up afresh from what is stored (IMPORT_BROKEN). Then chunks that are settled are
 * passed over, and those that are not are cut again, found to have the same hash, and sent under
 * the same key.
 */
#include "base/mem.h"
#include "imports/process/process_private.h"

#include <stdio.h>
#include <stdlib.h>

#define STOPPING_MS  50
#define SETTLE_ITEMS 10000              /* of one commit; a chunk is never divided */
#define HAND_BYTES   ((size_t)16 << 20) /* of bodies in hand, however many chunks and batches */
#define HAND_LEAST   ((size_t)4 << 20)  /* of one batch */

/* A chunk may wait for its ack, and a batch has as many as it has. */
static const double long_seconds[] = {0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1,    2.5,  5,
                                      10,   30,    60,   150, 300,  600, 1800, 3600, 14400};
#define LONG_SECONDS                                                                               \
    .buckets = long_seconds, .bucket_count = sizeof(long_seconds) / sizeof(long_seconds[0])

static struct df_metric_family batches_processing = {
    .name = "dataflow_batches_processing",
    .help = "Batches that this process works on.",
    .type = DF_GAUGE,
};
static struct df_metric_family chunk_inflight = {
    .name = "dataflow_chunk_inflight",
    .help = "Chunks in hand: cut, and not settled.",
    .type = DF_GAUGE,
};
static struct df_metric_family chunk_duration = {
    .name = "dataflow_chunk_duration_seconds",
    .help = "From the cutting of a chunk that is sent to its settlement.",
    .type = DF_HISTOGRAM,
    LONG_SECONDS,
};
static struct df_metric_family chunk_errors = {
    .name = "dataflow_chunk_errors_total",
    .help = "Failed attempts at chunks, by client and reason.",
    .type = DF_COUNTER,
    .labels = {"clientId", "reason"},
};
static struct df_metric_family batch_duration = {
    .name = "dataflow_batch_duration_seconds",
    .help = "From the claim of a batch to its end, by client and final state.",
    .type = DF_HISTOGRAM,
    LONG_SECONDS,
    .labels = {"clientId", "status"},
};
static struct df_metric_family records_total = {
    .name = "dataflow_import_records_total",
    .help = "Records settled, by outcome (imported, error, skipped).",
    .type = DF_COUNTER,
    .labels = {"outcome"},
};

void import_metrics_register(void)
{
    struct df_metric_family *all[] = {&batches_processing, &chunk_inflight, &chunk_duration,
                                      &chunk_errors,       &batch_duration, &records_total};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        df_metric_register(all[i]);
}

void import_note_chunk_error(const struct import_chunk *c, const char *reason)
{
    struct df_str labels[] = {c->batch->client, df_str_c(reason)};
    df_metric_add(df_metric_get(&chunk_errors, labels), 1);
    struct df_log_field fields[] = {DF_FI("chunkId", c->id), DF_F("reason", df_str_c(reason)),
                                    DF_FI("attempt", c->attempts)};
    /* What the peer answered may hold anybody's data: it stays in the database. */
    df_log_write(DF_LOG_WARN, "ChunkError", fields, 3, "the chunk was not taken");
}

/* --- lists ------------------------------------------------------------------------------------ */

void import_chunks_init(struct import_chunks *l)
{
    *l = (struct import_chunks){.tail = &l->head};
}

void import_chunks_add(struct import_chunks *l, struct import_chunk *c)
{
    c->next = NULL;
    *l->tail = c;
    l->tail = &c->next;
    l->count++;
}

struct import_chunk *import_chunks_take(struct import_chunks *l)
{
    struct import_chunk *c = l->head;
    if (!c)
        return NULL;
    l->head = c->next;
    l->count--;
    if (!l->head)
        l->tail = &l->head;
    c->next = NULL;
    return c;
}

/* Moves those in the given state to a list of their own. */
static struct import_chunks *take_state(struct import_batch *b, enum import_chunk_state state,
                                        struct import_chunks *ret)
{
    struct import_chunks rest;
    struct import_chunk *c;

    import_chunks_init(&rest);
    import_chunks_init(ret);
    while ((c = import_chunks_take(&b->chunks)))
        import_chunks_add(c->state == state ? ret : &rest, c);
    import_chunks_init(&b->chunks);
    while ((c = import_chunks_take(&rest)))
        import_chunks_add(&b->chunks, c);
    return ret;
}

static void put_back(struct import_batch *b, struct import_chunks *list)
{
    struct import_chunk *c;
    while ((c = import_chunks_take(list)))
        import_chunks_add(&b->chunks, c);
}

static struct import_chunk *take_spare(struct import_batch *b)
{
    struct import_chunk *c = b->spare;
    if (!c)
        return import_chunk_new(b);
    b->spare = c->next;
    import_chunk_reset(c);
    return c;
}

static void give_spare(struct import_batch *b, struct import_chunk *c)
{
    c->next = b->spare;
    b->spare = c;
}

/* --- cutting ---------------------------------------------------------------------------------- */

/* A chunk that an earlier owner began must come out as it was. One of a first attempt that failed
 * half-way has no items in a later one, and is only closed. */
static bool resume(struct import_batch *b, struct import_chunk *c, const struct import_open *open)
{
    int64_t now_ms = import_mono_ms(b);

    bool left = b->attempt > 1 && c->count == 0;

    if (!left && (open->offset != c->offset || open->count != c->records ||
                  !df_str_eq(open->hash, df_str_c(c->hash))))
        return false;
    c->stored = true;
    c->attempts = open->attempts;
    c->ack_id = open->ack_id;
    if (open->ack.ptr) {
        import_apply_ack(c, open->ack);
        c->state = IMPORT_CHUNK_OVER;
    } else if (!left && open->status == DF_CHUNK_AWAITING_ACK) {
        int64_t age_ms = df_wall_ms(b->imports->opt.clock) - open->sent_ms;
        int64_t left_ms = b->imports->opt.settings.ack_timeout_ms - (age_ms > 0 ? age_ms : 0);
        c->state = IMPORT_CHUNK_AWAITING;
        c->due_ms = now_ms + (left_ms > 0 ? left_ms : 0);
    }
    return true;
}

/* DF_ROW: c is in hand. DF_OK: it was settled before. */
static enum df_code cut_one(struct import_batch *b, struct import_chunk *c, struct df_err *err)
{
    enum df_code code = b->attempt > 1 ? import_cut_again(b, c, err) : import_cut(b, c, err);
    if (code != DF_ROW)
        return code;
    const struct import_open *open = import_open_find(b, c->id);
    if (!open && c->id <= b->last_chunk)
        return DF_OK;
    c->first_ms = import_mono_ms(b);
    if (b->turn_ms < 0)
        b->turn_ms = c->first_ms; /* what it takes to come this far is not the turn's */
    c->state = c->sent_count > 0 ? IMPORT_CHUNK_READY : IMPORT_CHUNK_OVER;
    c->outcome = DF_CHUNK_SKIPPED;
    if (open && !resume(b, c, open))
        return df_err_set(err, DF_E_VALIDATION,
                          "chunk %lld is not what it was: the file or the settings have changed",
                          (long long)c->id);
    return DF_ROW;
}

/* Whether another chunk may be cut. */
static bool has_room(const struct import_batch *b)
{
    size_t bytes = 0;

    if (b->read || b->fatal.ptr || b->gives_way ||
        b->chunks.count >= (size_t)b->imports->opt.settings.max_parallel_chunks)
        return false;
    for (const struct import_chunk *c = b->chunks.head; c; c = c->next)
        bytes += c->body.len + c->rest.len;
    return bytes < import_share(b->imports, HAND_BYTES, HAND_LEAST);
}

/* As many as may be under way. False: *ret says why not. */
static bool fill(struct import_batch *b, enum import_end *ret)
{
    while (has_room(b)) {
        struct df_err err = DF_ERR_INIT;
        struct import_chunk *c = take_spare(b);
        enum df_code code = cut_one(b, c, &err);
        if (code == DF_ROW) {
            import_chunks_add(&b->chunks, c);
            continue;
        }
        give_spare(b, c);
        if (code == DF_DONE)
            b->read = true;
        else if (code == DF_E_CANCELLED) {
            *ret = b->interrupted;
            return *ret == IMPORT_STOPPED; /* no more is cut: what is under way is waited for */
        } else if (code != DF_OK && import_is_passing(code)) {
            *ret = import_ended_by(code, &err);
            return false;
        } else if (code != DF_OK)
            (void)import_fail_batch(b, &err);
        else if (!import_keep_lease(b, ret))
            return *ret == IMPORT_STOPPED; /* what is under way is waited for */
    }
    return true;
}

/* --- sending ---------------------------------------------------------------------------------- */

/* On the client's thread. */
static void answered(struct df_call *call)
{
    struct import_chunk *c = call->arg;
    struct df_imports *i = c->batch->imports;
    bool failed = call->code != DF_OK || df_retry_class_of(call->status) == DF_CLASS_RETRY;

    df_breaker_done(c->breaker, c->permit,
                    call->code == DF_E_CANCELLED ? DF_BREAKER_IGNORED
                    : failed                     ? DF_BREAKER_FAILURE
                                                 : DF_BREAKER_SUCCESS,
                    call->duration_ms);
    df_breakers_put(i->opt.breakers, c->breaker);
    c->breaker = NULL;
    /* Here, since the answer is borrowed. */
    c->verdict = import_judge(c, &c->reason);
    df_lock(&i->lock);
    c->answered = true;
    pthread_cond_broadcast(&i->changed);
    df_unlock(&i->lock);
}

static void fail_by_outage(struct import_batch *b, struct import_chunk *c)
{
    import_fail_items(c,
                      df_arena_printf(&c->arena, "OmniFlow could not be reached for %lld seconds",
                                      (long long)(b->imports->opt.settings.max_outage_ms / 1000)));
    import_note_chunk_error(c, "outage");
    c->state = IMPORT_CHUNK_OVER;
}

/* Those that the breaker lets through stay READY; the others wait for it, up to max_outage_ms. */
static void ask_breaker(struct import_batch *b, struct import_chunk *c)
{
    const struct df_imports_options *o = &b->imports->opt;
    int64_t now_ms = import_mono_ms(b);
    int64_t wait_ms = 0;

    c->breaker = df_breakers_get(o->breakers, DF_STR(IMPORT_OMNIFLOW));
    if (df_breaker_allow(c->breaker, &c->permit, &wait_ms))
        return;
    df_breakers_put(o->breakers, c->breaker);
    c->breaker = NULL;
    if (b->outage_ms < 0)
        b->outage_ms = now_ms;
    if (now_ms - b->outage_ms < o->settings.max_outage_ms) {
        int64_t left_ms = o->settings.max_outage_ms - (now_ms - b->outage_ms);
        c->state = IMPORT_CHUNK_WAITING;
        c->due_ms = now_ms + (wait_ms < left_ms ? wait_ms : left_ms);
        return;
    }
    fail_by_outage(b, c);
}

static void send_chunk(struct import_batch *b, struct import_chunk *c)
{
    struct df_log_field fields[] = {DF_FI("chunkId", c->id), DF_FI("items", c->sent_count),
                                    DF_FI("attempt", c->attempts)};

    c->state = IMPORT_CHUNK_SENDING;
    b->in_flight++;
    df_log_write(DF_LOG_INFO, "ChunkSent", fields, 3, "to OmniFlow");
    import_request(c, answered);
    df_http_client_send(b->imports->opt.client, &c->call);
}

static void give_permit_back(struct import_batch *b, struct import_chunk *c)
{
    df_breaker_done(c->breaker, c->permit, DF_BREAKER_IGNORED, 0);
    df_breakers_put(b->imports->opt.breakers, c->breaker);
    c->breaker = NULL;
}

/* Between these two the HTTP client is not freed. */
static bool may_send(struct df_imports *i)
{
    df_lock(&i->lock);
    bool may = !i->stopping;
    i->senders += may;
    df_unlock(&i->lock);
    return may;
}

static void was_sent(struct df_imports *i)
{
    df_lock(&i->lock);
    i->senders--;
    pthread_cond_broadcast(&i->changed);
    df_unlock(&i->lock);
}

static bool send_all(struct import_batch *b, enum import_end *ret)
{
    struct df_err err = DF_ERR_INIT;
    struct import_chunks ready;
    struct import_chunk *c;

    for (c = b->chunks.head; c; c = c->next) {
        if (c->state == IMPORT_CHUNK_READY)
            ask_breaker(b, c);
    }
    if (take_state(b, IMPORT_CHUNK_READY, &ready)->count == 0)
        return true;
    enum df_code code = import_begin_sends(b, &ready, &err);
    while ((c = import_chunks_take(&ready))) {
        import_chunks_add(&b->chunks, c);
        if (code == DF_OK)
            send_chunk(b, c);
        else
            give_permit_back(b, c);
    }
    if (code == DF_OK)
        return true;
    *ret = import_ended_by(code, &err);
    return false;
}

static bool send_ready(struct import_batch *b, enum import_end *ret)
{
    if (!may_send(b->imports))
        return true;
    bool ok = send_all(b, ret);
    was_sent(b->imports);
    return ok;
}

/* --- answers and acks ------------------------------------------------------------------------- */

static void try_again(struct import_batch *b, struct import_chunk *c, int64_t retry_after_ms)
{
    const struct df_imports_options *o = &b->imports->opt;
    int64_t now_ms = import_mono_ms(b);

    if (b->outage_ms >= 0 && now_ms - b->outage_ms >= o->settings.max_outage_ms) {
        fail_by_outage(b, c);
        return;
    }
    /* A call by which the breaker tried whether the outage is over is nobody's attempt. */
    if (b->outage_ms < 0 && df_retry_exhausted(&b->imports->retry, c->tries)) {
        import_fail_items(c, c->error);
        c->state = IMPORT_CHUNK_OVER;
        return;
    }
    c->state = IMPORT_CHUNK_WAITING;
    c->due_ms = now_ms + df_retry_delay_ms(&b->imports->retry, c->tries, retry_after_ms, o->clock);
    c->tries -= b->outage_ms >= 0;
}

static void take_answer(struct import_batch *b, struct import_chunk *c)
{
    b->in_flight--;
    if (c->reason)
        import_note_chunk_error(c, c->reason);
    switch (c->verdict) {
    case IMPORT_DONE:
        b->outage_ms = -1;
        c->state = IMPORT_CHUNK_OVER;
        return;
    case IMPORT_AWAIT:
        b->outage_ms = -1;
        c->state = IMPORT_CHUNK_AWAITING;
        c->due_ms = import_mono_ms(b) + b->imports->opt.settings.ack_timeout_ms;
        c->fresh = true;
        return;
    case IMPORT_AGAIN:
        b->polled_ms = -1; /* its ack may be there nevertheless */
        try_again(b, c, c->call.code == DF_OK ? c->call.retry_after_ms : -1);
        return;
    case IMPORT_REFUSED:
        b->outage_ms = -1;
        import_fail_items(c, c->error);
        c->state = IMPORT_CHUNK_OVER;
        return;
    case IMPORT_CANCELLED:
        c->state = IMPORT_CHUNK_WAITING; /* nobody waits: the process ends */
        c->due_ms = INT64_MAX;
        return;
    }
}

static void take_answers(struct import_batch *b)
{
    df_lock(&b->imports->lock);
    for (struct import_chunk *c = b->chunks.head; c; c = c->next) {
        if (c->state == IMPORT_CHUNK_SENDING && c->answered) {
            c->answered = false;
            c->state = IMPORT_CHUNK_ANSWERED;
        }
    }
    df_unlock(&b->imports->lock);
    for (struct import_chunk *c = b->chunks.head; c; c = c->next) {
        if (c->state == IMPORT_CHUNK_ANSWERED)
            take_answer(b, c);
    }
}

static bool store_waits(struct import_batch *b, enum import_end *ret)
{
    struct df_err err = DF_ERR_INIT;
    struct import_chunks awaiting;
    struct import_chunks fresh;
    struct import_chunk *c;
    enum df_code code = DF_OK;

    take_state(b, IMPORT_CHUNK_AWAITING, &awaiting);
    import_chunks_init(&fresh);
    while ((c = import_chunks_take(&awaiting)))
        import_chunks_add(c->fresh ? &fresh : &b->chunks, c);
    if (fresh.count == 0)
        return true;
    code = import_begin_wait(b, &fresh, &err);
    for (c = fresh.head; c; c = c->next)
        c->fresh = false;
    put_back(b, &fresh);
    b->polled_ms = -1; /* an ack may have been quicker */
    if (code == DF_OK)
        return true;
    *ret = import_ended_by(code, &err);
    return false;
}

static void take_ack(struct import_batch *b, int64_t chunk, struct df_str ack)
{
    for (struct import_chunk *c = b->chunks.head; c; c = c->next) {
        bool waits = c->state != IMPORT_CHUNK_SENDING && !c->by_ack;
        if (c->id != chunk || !waits)
            continue;
        import_apply_ack(c, ack);
        if (c->outcome == DF_CHUNK_ERROR)
            import_note_chunk_error(c, "ack_error");
        c->state = IMPORT_CHUNK_OVER;
    }
}

/* Or an answer was lost, and the ack may come all the same. */
static bool is_awaiting(const struct import_batch *b)
{
    for (const struct import_chunk *c = b->chunks.head; c; c = c->next) {
        if (c->state == IMPORT_CHUNK_AWAITING || (c->state == IMPORT_CHUNK_WAITING && c->stored))
            return true;
    }
    return false;
}

static bool take_acks(struct import_batch *b, enum import_end *ret)
{
    struct df_err err = DF_ERR_INIT;
    int64_t now_ms = import_mono_ms(b);

    df_lock(&b->imports->lock);
    bool acked = b->acked;
    b->acked = false;
    df_unlock(&b->imports->lock);
    if (!acked &&
        (!is_awaiting(b) || (b->polled_ms >= 0 && now_ms - b->polled_ms < IMPORT_ACK_POLL_MS)))
        return true;
    b->polled_ms = now_ms;
    enum df_code code = import_read_acks(b, take_ack, &err);
    if (code == DF_OK)
        return true;
    *ret = import_ended_by(code, &err);
    return false;
}

static void run_timers(struct import_batch *b)
{
    int64_t now_ms = import_mono_ms(b);

    for (struct import_chunk *c = b->chunks.head; c; c = c->next) {
        if (c->state == IMPORT_CHUNK_WAITING && now_ms >= c->due_ms) {
            c->state = IMPORT_CHUNK_READY;
        } else if (c->state == IMPORT_CHUNK_AWAITING && !c->fresh && now_ms >= c->due_ms) {
            struct df_log_field fields[] = {DF_FI("chunkId", c->id), DF_FI("attempt", c->attempts)};
            df_log_write(DF_LOG_WARN, "ChunkAckTimeout", fields, 2, "no ack came: sent again");
            import_note_chunk_error(c, "ack_timeout");
            c->error = DF_STR("no ack came in time");
            if (df_retry_exhausted(&b->imports->retry, c->tries)) {
                import_fail_items(c, c->error);
                c->state = IMPORT_CHUNK_OVER;
            } else {
                c->state = IMPORT_CHUNK_READY;
            }
        }
    }
}

/* --- settling --------------------------------------------------------------------------------- */

static void note_settled(const struct import_chunk *c, int64_t now_ms)
{
    static const char *const outcomes[DF_ITEM_STATUSES] = {"imported", "error", "skipped"};
    int64_t counts[DF_ITEM_STATUSES] = {0};

    if (c->sent_count > 0)
        df_metric_observe(df_metric_get(&chunk_duration, NULL),
                          (double)(now_ms - c->first_ms) / 1e3);
    for (size_t i = 0; i < c->count; i++)
        counts[c->items[i].status] += c->items[i].records;
    for (size_t i = 0; i < DF_ITEM_STATUSES; i++) {
        struct df_str label = df_str_c(outcomes[i]);
        if (counts[i] > 0)
            df_metric_add(df_metric_get(&records_total, &label), (double)counts[i]);
    }
}

/* One was stored while the chunk was being settled without it. */
static void expect_ack(struct import_batch *b, struct import_chunk *c)
{
    c->state = IMPORT_CHUNK_AWAITING;
    c->due_ms = import_mono_ms(b) + b->imports->opt.settings.ack_timeout_ms;
    import_chunks_add(&b->chunks, c);
    b->polled_ms = -1;
}

static bool settle_some(struct import_batch *b, struct import_chunks *some, enum import_end *ret)
{
    struct df_err err = DF_ERR_INIT;
    struct import_chunk *c;

    enum df_code code = import_settle(b, some, &err);
    while ((c = import_chunks_take(some))) {
        if (code == DF_OK && !c->settled && !c->by_ack) {
            expect_ack(b, c);
            continue;
        }
        if (code == DF_OK && c->settled)
            note_settled(c, import_mono_ms(b));
        give_spare(b, c);
    }
    if (code == DF_OK)
        return true;
    *ret = import_ended_by(code, &err);
    return false;
}

static bool settle_over(struct import_batch *b, enum import_end *ret)
{
    struct import_chunks over;
    bool ok = true;

    take_state(b, IMPORT_CHUNK_OVER, &over);
    while (over.count > 0 && ok) {
        struct import_chunks some;
        size_t items = 0;
        import_chunks_init(&some);
        while (over.head && (some.count == 0 || items + over.head->count <= SETTLE_ITEMS)) {
            items += over.head->count;
            import_chunks_add(&some, import_chunks_take(&over));
        }
        ok = settle_some(b, &some, ret);
    }
    put_back(b, &over);
    return ok;
}

/* --- the work --------------------------------------------------------------------------------- */

static int64_t next_due(const struct import_batch *b)
{
    int64_t due_ms = b->renewed_ms + IMPORT_RENEW_MS;

    for (const struct import_chunk *c = b->chunks.head; c; c = c->next) {
        if ((c->state == IMPORT_CHUNK_WAITING || c->state == IMPORT_CHUNK_AWAITING) &&
            c->due_ms < due_ms)
            due_ms = c->due_ms;
        if (c->state == IMPORT_CHUNK_AWAITING && b->polled_ms + IMPORT_ACK_POLL_MS < due_ms)
            due_ms = b->polled_ms + IMPORT_ACK_POLL_MS;
    }
    return due_ms;
}

static bool something_came(const struct import_batch *b)
{
    bool came = b->acked;
    for (const struct import_chunk *c = b->chunks.head; c && !came; c = c->next)
        came = c->state == IMPORT_CHUNK_SENDING && c->answered;
    return came;
}

static void wait_for_events(struct import_batch *b)
{
    int64_t wait_ms = next_due(b) - import_mono_ms(b);

    df_lock(&b->imports->lock);
    if (b->imports->stopping && wait_ms > STOPPING_MS)
        wait_ms = STOPPING_MS;
    if (wait_ms > 0 && !something_came(b))
        df_cond_wait_ms(&b->imports->changed, &b->imports->lock, wait_ms);
    df_unlock(&b->imports->lock);
}

/* Whether somebody has something to do at once. */
static bool is_busy(const struct import_batch *b)
{
    for (const struct import_chunk *c = b->chunks.head; c; c = c->next) {
        if (c->state == IMPORT_CHUNK_OVER || c->state == IMPORT_CHUNK_READY)
            return true;
    }
    return has_room(b);
}

/* --- turns ------------------------------------------------------------------------------------ */

/* Of the batches of one process one gives way at a time: each would for the same client. */
static bool may_give_way(struct df_imports *i)
{
    df_lock(&i->lock);
    bool may = !i->one_gives_way;
    i->one_gives_way = true;
    df_unlock(&i->lock);
    return may;
}

static void end_turn(struct import_batch *b)
{
    if (!b->gives_way)
        return;
    df_lock(&b->imports->lock);
    b->imports->one_gives_way = false;
    df_unlock(&b->imports->lock);
}

/* After its time it cuts no more chunks if another client waits. What is in hand is brought to its
 * end first, so that nothing is owed by anybody when the next owner comes. */
static bool look_for_others(struct import_batch *b, enum import_end *ret)
{
    int64_t fair_ms = b->imports->opt.settings.fair_ms;
    int64_t now_ms = import_mono_ms(b);
    struct df_err err = DF_ERR_INIT;
    bool wait = false;

    if (fair_ms == 0 || b->gives_way || b->read || b->turn_ms < 0 ||
        now_ms - b->turn_ms < fair_ms || now_ms - b->looked_ms < IMPORT_LOOK_MS)
        return true;
    b->looked_ms = now_ms;
    enum df_code code = import_others_wait(b, &wait, &err);
    if (code != DF_OK) {
        *ret = import_ended_by(code, &err);
        return false;
    }
    b->gives_way = wait && may_give_way(b->imports);
    return true;
}

/* The gauge is all batches'. */
static void show_in_flight(struct import_batch *b, size_t count)
{
    if (count != b->shown)
        df_metric_add(df_metric_get(&chunk_inflight, NULL), (double)count - (double)b->shown);
    b->shown = count;
}

static bool step(struct import_batch *b, enum import_end *ret)
{
    bool stopping = import_is_stopping(b->imports);

    take_answers(b);
    if (!store_waits(b, ret) || !take_acks(b, ret))
        return false;
    if (!stopping) {
        run_timers(b);
        if (!look_for_others(b, ret) || !fill(b, ret) || !send_ready(b, ret))
            return false;
    }
    if (!settle_over(b, ret))
        return false;
    show_in_flight(b, b->chunks.count);
    if (stopping && b->in_flight == 0) {
        *ret = IMPORT_STOPPED;
        return false;
    }
    if (!stopping && !import_keep_lease(b, ret))
        return *ret == IMPORT_STOPPED; /* then the calls under way are waited for */
    return true;
}

static enum import_end work(struct import_batch *b)
{
    enum import_end end = IMPORT_FINISHED;

    while (step(b, &end)) {
        if ((b->read || b->fatal.ptr) && b->chunks.count == 0)
            return IMPORT_FINISHED;
        if (b->gives_way && b->chunks.count == 0)
            return IMPORT_GAVE_WAY;
        if (!is_busy(b) || import_is_stopping(b->imports))
            wait_for_events(b);
    }
    return end;
}

/* --- the end ---------------------------------------------------------------------------------- */

/* Calls under way point into the chunks. */
static void wait_for_calls(struct import_batch *b)
{
    df_lock(&b->imports->lock);
    for (;;) {
        bool under_way = false;
        for (const struct import_chunk *c = b->chunks.head; c; c = c->next)
            under_way = under_way || (c->state == IMPORT_CHUNK_SENDING && !c->answered);
        if (!under_way)
            break;
        df_cond_wait_ms(&b->imports->changed, &b->imports->lock, 1000);
    }
    df_unlock(&b->imports->lock);
}

static void release(struct import_batch *b)
{
    struct import_chunk *c;

    wait_for_calls(b);
    show_in_flight(b, 0);
    while ((c = import_chunks_take(&b->chunks)) || (c = b->spare)) {
        if (c == b->spare)
            b->spare = c->next;
        import_chunk_free(c);
    }
    df_normaliser_free(b->normaliser);
    df_records_free(b->records);
    df_stored_close(b->file);
    b->normaliser = NULL;
    b->records = NULL;
    b->file = NULL;
}

static enum import_end finish(struct import_batch *b)
{
    const struct df_imports_options *o = &b->imports->opt;
    enum df_batch_status status = DF_BATCH_FAILED;
    struct df_err err = DF_ERR_INIT;

    enum df_code code = import_finish(b, &status, &err);
    if (code != DF_OK)
        return import_ended_by(code, &err);
    struct df_str labels[] = {b->client, df_str_c(df_batch_status_name(status))};
    df_metric_observe(df_metric_get(&batch_duration, labels),
                      (double)(import_mono_ms(b) - b->started_ms) / 1e3);
    struct df_log_field fields[] = {DF_F("status", labels[1]), DF_FI("totalRecords", b->total)};
    df_log_write(status == DF_BATCH_FAILED ? DF_LOG_WARN : DF_LOG_INFO, "BatchFinalized", fields, 2,
                 DF_STR_FMT, DF_STR_ARG(b->fatal));
    const char *location = b->upload_path.ptr ? df_arena_cstr(&b->arena, b->upload_path) : NULL;
    if (df_storage_remove(o->storage, &b->id, location, &err) != DF_OK)
        df_log_warn("FileNotRemoved", "%s", err.detail);
    return IMPORT_FINISHED;
}

static enum import_end give_way(struct import_batch *b)
{
    struct df_err err = DF_ERR_INIT;
    enum df_code code = import_give_way(b, &err);

    if (code != DF_OK)
        return import_ended_by(code, &err);
    struct df_log_field fields[] = {DF_FI("chunks", b->next_chunk - 1),
                                    DF_FI("workedMs", import_mono_ms(b) - b->turn_ms)};
    df_log_write(DF_LOG_INFO, "BatchGaveWay", fields, 2, "another client's batch waits");
    return IMPORT_GAVE_WAY;
}

enum import_end import_process(struct import_batch *b)
{
    struct df_metric *gauge = df_metric_get(&batches_processing, NULL);
    enum import_end end = IMPORT_FINISHED;
    struct df_err err = DF_ERR_INIT;

    import_chunks_init(&b->chunks);
    b->outage_ms = b->polled_ms = b->turn_ms = -1;
    b->started_ms = b->renewed_ms = import_mono_ms(b);
    const struct df_log_ctx *outer = df_log_ctx_use(&b->log);
    df_metric_add(gauge, 1);
    if (import_prepare(b, &end))
        end = work(b);
    release(b);
    if (end == IMPORT_FINISHED)
        end = finish(b);
    else if (end == IMPORT_STOPPED && import_give_back(b, &err) != DF_OK)
        end = IMPORT_LOST;
    else if (end == IMPORT_GAVE_WAY)
        end = give_way(b);
    end_turn(b);
    if (end == IMPORT_LOST)
        df_log_warn("BatchLockLost",
                    "the batch is somebody else's now, or the database was away for too long");
    df_metric_add(gauge, -1);
    df_log_ctx_use(outer);
    return end;
}

/*
 * One batch, from its claim to its end, on its worker's thread.
 *
 * It begins in prepare.c: the file is fetched, compared with its checksum, and read once to its
 * end, so that a broken file fails before anything is sent, and the number of records is known.
 * Then chunks are cut, as many at a time as may wait for an ack, and each goes through its states
 * (chunk_state.h). At the end, one commit sets the batch's final status and frees the lock; then
 * the file is removed. batch_state.h has the states of the batch.
 *
 * Memory holds nothing that cannot be read again. If anything goes wrong with the database, the
 * batch is dropped and claimed again from what is stored (BATCH_BROKEN). Settled chunks are then
 * skipped; the others are cut again, compared by their hash if they have a row, and sent under the
 * same key.
 */
#include "imports/figures.h"
#include "imports/process/process_private.h"

#include <assert.h>
#include <stdlib.h>

#define STOPPING_MS  50
#define POSTPONE_MS  60000
#define SETTLE_ITEMS 10000              /* in one commit; a chunk is never divided */
#define UNSETTLED    4                  /* times as many chunks as may wait for an ack */
#define HAND_BYTES   ((size_t)16 << 20) /* of bodies in hand, for all batches together */
#define HAND_LEAST   ((size_t)4 << 20)  /* for one batch */

/* --- what happens to the batch ---------------------------------------------------------------- */

bool import_batch_happens(struct import_batch *b, enum import_batch_event event)
{
    struct import_batch_step step = import_batch_step(b->state, event);

    assert(step.action != BATCH_IMPOSSIBLE);
    b->state = step.state;
    b->action = step.action;
    return !import_batch_has_ended(b->state);
}

bool import_batch_fails(struct import_batch *b, enum df_code code, const struct df_err *err)
{
    if (code != DF_E_NOT_FOUND)
        df_log_error("BatchInterrupted", "%s", err->detail);
    (void)import_batch_happens(b, code == DF_E_NOT_FOUND ? BATCH_EV_LOST : BATCH_EV_BROKEN);
    return false;
}

/* --- cutting ---------------------------------------------------------------------------------- */

/* A chunk of a first attempt that failed half-way has no items in a later attempt, and one whose
 * records are no longer kept has none that can be sent: it is only settled. */
static bool is_left_over(const struct import_chunk *c)
{
    return c->batch->row.attempt > 1 && c->sent_count == 0;
}

/* A chunk that an earlier owner began must have the same content again. */
static bool is_same_chunk(const struct import_chunk *c, const struct import_open *open)
{
    return is_left_over(c) || (open->offset == c->offset && open->count == c->records &&
                               df_str_eq(open->hash, df_str_c(c->hash)));
}

static void resume_chunk(struct import_chunk *c, const struct import_open *open)
{
    const struct df_imports_options *o = &c->batch->imports->opt;

    c->has_row = true;
    c->attempts = open->attempts;
    c->ack_id = open->ack_id;
    if (open->ack.ptr) {
        import_chunk_happens_with(c, CHUNK_EV_FOUND_ACKED, (struct import_news){.ack = open->ack});
    } else if (open->status == DF_CHUNK_AWAITING_ACK && !is_left_over(c)) {
        int64_t age_ms = df_wall_ms(o->clock) - open->sent_ms;
        int64_t left_ms = o->settings.ack_timeout_ms - (age_ms > 0 ? age_ms : 0);
        c->sent_ms = import_mono_ms(c->batch) - (age_ms > 0 ? age_ms : 0);
        import_chunk_happens_with(c, CHUNK_EV_FOUND_AWAITING,
                                  (struct import_news){.wait_ms = left_ms > 0 ? left_ms : 0});
    }
}

/* For a chunk that no earlier owner left open. */
static bool was_settled(const struct import_earlier *e, int64_t id)
{
    for (size_t i = 0; i < e->gap_count; i++)
        if (id >= e->gaps[i].first && id <= e->gaps[i].last)
            return false;
    return id <= e->last_chunk;
}

/* DF_ROW: c is in hand. DF_OK: it was settled before. */
static enum df_code cut_chunk(struct import_batch *b, struct import_chunk *c, struct df_err *err)
{
    enum df_code code = b->row.attempt > 1 ? import_cut_again(b, c, err) : import_cut(b, c, err);
    if (code != DF_ROW)
        return code;
    const struct import_open *open = import_open_find(b, c->id);
    if (!open && was_settled(&b->earlier, c->id))
        return DF_OK;
    c->first_ms = import_mono_ms(b);
    if (b->turn.since_ms < 0)
        b->turn.since_ms = c->first_ms; /* skipping settled chunks does not count */
    c->outcome = DF_CHUNK_SKIPPED;
    if (open && !is_same_chunk(c, open))
        return df_err_set(err, DF_E_VALIDATION,
                          "chunk %lld is not what it was: the file or the settings have changed",
                          (long long)c->id);
    if (open)
        resume_chunk(c, open);
    if (c->state == CHUNK_NEW)
        import_chunk_happens(c, c->sent_count > 0 ? CHUNK_EV_CUT : CHUNK_EV_CUT_EMPTY);
    return DF_ROW;
}

static size_t bytes_of(const struct import_chunk *c)
{
    return c->body.len + c->unsent.len + c->originals.len;
}

static bool is_judged(const struct import_chunk *c)
{
    return c->state == CHUNK_JUDGED || c->state == CHUNK_ACKED;
}

/* Whether another chunk may be cut. Chunks that are only to be settled wait for no ack, but need
 * memory. */
static bool has_room(const struct import_batch *b)
{
    const struct import_chunk *c;
    size_t bytes = b->hand.settling_bytes;
    size_t open = 0;

    size_t most = b->probes ? 1 : (size_t)b->imports->opt.settings.max_parallel_chunks;
    size_t unsettled = b->hand.chunks.count + b->hand.settling.count;
    if (b->state != BATCH_CUTTING || unsettled >= (b->probes ? 1 : UNSETTLED * most))
        return false;
    DF_LIST_EACH (c, &b->hand.chunks, link) {
        bytes += bytes_of(c);
        open += !is_judged(c);
    }
    return open < most && bytes < import_share(b->imports, HAND_BYTES, HAND_LEAST);
}

/* Cuts as many chunks as may be under way. False: the batch has ended. */
static bool fill_hand(struct import_batch *b)
{
    while (has_room(b)) {
        struct df_err err = DF_ERR_INIT;
        struct import_chunk *c = import_chunk_get(b);
        enum df_code code = cut_chunk(b, c, &err);
        if (code == DF_ROW) {
            df_list_add(&b->hand.chunks, &c->link);
            continue;
        }
        import_chunk_drop(c);
        if (code == DF_OK)
            (void)import_keep_lease(b);
        else if (code == DF_DONE)
            (void)import_batch_happens(b, BATCH_EV_FILE_READ);
        else if (b->state != BATCH_CUTTING)
            break; /* reading was given up: the state tells why */
        else if (import_is_retryable(code))
            (void)import_batch_fails(b, code, &err);
        else
            import_fail_batch(b, &err);
    }
    return !import_batch_has_ended(b->state);
}

/* --- answers and acks ------------------------------------------------------------------------- */

static enum import_chunk_event event_of_verdict(enum import_verdict verdict)
{
    switch (verdict) {
    case IMPORT_DONE:
        return CHUNK_EV_ANSWER_RESULTS;
    case IMPORT_AWAIT:
        return CHUNK_EV_ANSWER_PROMISE;
    case IMPORT_AGAIN:
        return CHUNK_EV_ANSWER_AGAIN;
    case IMPORT_REFUSED:
        return CHUNK_EV_ANSWER_REFUSED;
    case IMPORT_CANCELLED:
        return CHUNK_EV_ANSWER_CUT_OFF;
    }
    abort();
}

static void take_answer(struct import_batch *b, struct import_chunk *c)
{
    struct import_news news = {.wait_ms = b->imports->opt.settings.ack_timeout_ms};

    assert(b->hand.in_flight > 0);
    b->hand.in_flight--;
    b->hand.cut_off += c->verdict == IMPORT_CANCELLED;
    if (c->reason)
        import_note_chunk_error(c, c->reason);
    if (c->verdict == IMPORT_DONE)
        import_note_acked(c, import_mono_ms(b));
    if (c->verdict == IMPORT_AGAIN) {
        b->hand.polled_ms = -1; /* its ack may be stored nevertheless */
        import_peer_failed(b, c);
    } else if (c->verdict != IMPORT_CANCELLED) {
        import_peer_took(b);
    }
    import_chunk_happens_with(c, event_of_verdict(c->verdict), news);
}

/* Takes the chunks whose calls have ended, in that order. */
static void take_answers(struct import_batch *b)
{
    struct df_list answered = {.count = 0};
    struct import_chunk *c;

    df_lock(&b->imports->lock);
    assert(b->mail.answered.count <= b->hand.in_flight);
    df_list_move(&answered, &b->mail.answered);
    df_unlock(&b->imports->lock);
    while ((c = DF_LIST_TAKE(&answered, struct import_chunk, answered)))
        take_answer(b, c);
}

/* Promises that come while chunks are settled are stored when that has ended. */
static bool store_promises(struct import_batch *b)
{
    struct df_err err = DF_ERR_INIT;
    struct df_list named = {.count = 0};
    struct import_chunk *c;

    if (b->settling)
        return true;
    import_chunks_move(&b->hand.chunks, IMPORT_IN(CHUNK_NAMED), &named);
    if (named.count == 0)
        return true;
    enum df_code code = import_begin_wait(b, &named, &err);
    while ((c = import_chunks_take(&named))) {
        df_list_add(&b->hand.chunks, &c->link);
        c->promises++;
        if (code == DF_OK)
            import_chunk_happens(c, CHUNK_EV_PROMISE_STORED);
    }
    b->hand.polled_ms = -1; /* its ack may be stored already */
    return code == DF_OK || import_batch_fails(b, code, &err);
}

static void take_ack(struct import_batch *b, int64_t chunk, struct df_str ack)
{
    struct import_chunk *c;

    DF_LIST_EACH (c, &b->hand.chunks, link) {
        if (c->id == chunk)
            import_chunk_happens_with(c, CHUNK_EV_ACK, (struct import_news){.ack = ack});
    }
}

/* Whether an ack may come: for a chunk that awaits it, or for one whose answer was lost. */
static bool is_awaiting(const struct import_batch *b)
{
    const struct import_chunk *c;

    DF_LIST_EACH (c, &b->hand.chunks, link)
        if (c->state == CHUNK_AWAITING || (c->state == CHUNK_WAITING && c->has_row))
            break;
    return c != NULL;
}

static bool take_acks(struct import_batch *b)
{
    struct df_err err = DF_ERR_INIT;
    int64_t now_ms = import_mono_ms(b);
    bool polled = b->hand.polled_ms >= 0 && now_ms - b->hand.polled_ms < IMPORT_ACK_POLL_MS;

    df_lock(&b->imports->lock);
    bool acked = b->mail.acked;
    b->mail.acked = false;
    df_unlock(&b->imports->lock);
    if (!acked && (polled || !is_awaiting(b)))
        return true;
    b->hand.polled_ms = now_ms;
    enum df_code code = import_read_acks(b, take_ack, &err);
    return code == DF_OK || import_batch_fails(b, code, &err);
}

static void tick_chunks(struct import_batch *b)
{
    struct import_chunk *c;

    DF_LIST_EACH (c, &b->hand.chunks, link)
        import_chunk_happens(c, CHUNK_EV_TICK);
}

/* --- settling --------------------------------------------------------------------------------- */

/* An ack was stored while the chunk was being settled without it, or the chunk was settled before.
 */
static void keep_passed_over(struct import_batch *b, struct import_chunk *c)
{
    import_chunk_happens_with(
        c, CHUNK_EV_PASSED_OVER,
        (struct import_news){.wait_ms = b->imports->opt.settings.ack_timeout_ms});
    if (c->state == CHUNK_GONE) {
        import_chunk_put(c);
        return;
    }
    df_list_add(&b->hand.chunks, &c->link);
    b->hand.polled_ms = -1;
}

/* Takes the outcome of the commit that settles chunks, if it has ended. False: the batch has
 * ended. */
static bool take_settled(struct import_batch *b)
{
    struct df_err err = DF_ERR_INIT;
    struct df_list passed_over = {.count = 0};
    struct import_chunk *c;

    df_lock(&b->imports->lock);
    bool settled = b->mail.settled;
    b->mail.settled = false;
    df_unlock(&b->imports->lock);
    if (!settled)
        return true;
    enum df_code code = import_settle_end(b, &passed_over, &err);
    b->hand.settling_bytes = 0;
    while ((c = import_chunks_take(&b->hand.settling))) {
        import_chunk_happens(c, code == DF_OK ? CHUNK_EV_SETTLED : CHUNK_EV_DROPPED);
        import_chunk_put(c);
    }
    while ((c = import_chunks_take(&passed_over)))
        keep_passed_over(b, c);
    return code == DF_OK || import_batch_fails(b, code, &err);
}

/* Begins to settle chunks, unless a commit is under way: the next one takes what gathers
 * meanwhile. */
static void settle_judged(struct import_batch *b)
{
    struct df_list some = {.count = 0};
    struct import_chunk *c;
    size_t items = 0;

    if (b->settling)
        return;
    DF_LIST_EACH (c, &b->hand.chunks, link) {
        if (!is_judged(c) || (some.count > 0 && items + c->count > SETTLE_ITEMS))
            continue;
        items += c->count;
        b->hand.settling_bytes += bytes_of(c);
        df_list_remove(&b->hand.chunks, &c->link);
        df_list_add(&some, &c->link);
    }
    if (some.count > 0)
        import_settle_start(b, &some);
}

/* --- turns ------------------------------------------------------------------------------------ */

static bool may_yield(struct import_batch *b)
{
    struct df_imports *i = b->imports;

    df_lock(&i->lock);
    bool may = !i->yielding;
    if (may)
        i->yielding = b;
    df_unlock(&i->lock);
    return may;
}

static void end_turn(struct import_batch *b)
{
    df_lock(&b->imports->lock);
    if (b->imports->yielding == b)
        b->imports->yielding = NULL;
    df_unlock(&b->imports->lock);
}

/* After fair_ms the batch cuts no more chunks if another client waits. The chunks in hand are
 * brought to their end first, so that the next owner finds all of them settled. */
static bool look_for_others(struct import_batch *b)
{
    int64_t fair_ms = b->imports->opt.settings.fair_ms;
    int64_t now_ms = import_mono_ms(b);
    struct df_err err = DF_ERR_INIT;
    bool wait = false;

    if (fair_ms == 0 || b->state != BATCH_CUTTING || b->turn.since_ms < 0 ||
        now_ms - b->turn.since_ms < fair_ms || now_ms - b->turn.looked_ms < IMPORT_LOOK_MS)
        return true;
    b->turn.looked_ms = now_ms;
    enum df_code code = import_others_wait(b, &wait, &err);
    if (code != DF_OK)
        return import_batch_fails(b, code, &err);
    return !wait || !may_yield(b) || import_batch_happens(b, BATCH_EV_TURN_OVER);
}

/* --- the work --------------------------------------------------------------------------------- */

static int64_t next_due(const struct import_batch *b)
{
    int64_t due_ms = b->renewed_ms + import_renew_ms(b->imports);
    int64_t outage_ms = import_outage_due(b);
    int64_t lock_ms = import_mono_ms(b) + df_lease_left_ms(b->imports->opt.locks, &b->lease);
    const struct import_chunk *c;

    due_ms = outage_ms < due_ms ? outage_ms : due_ms;
    due_ms = lock_ms < due_ms ? lock_ms : due_ms;
    DF_LIST_EACH (c, &b->hand.chunks, link) {
        if ((c->state == CHUNK_WAITING || c->state == CHUNK_AWAITING) && c->due_ms < due_ms)
            due_ms = c->due_ms;
        if (c->state == CHUNK_AWAITING && b->hand.polled_ms + IMPORT_ACK_POLL_MS < due_ms)
            due_ms = b->hand.polled_ms + IMPORT_ACK_POLL_MS;
    }
    return due_ms;
}

static void wait_for_events(struct import_batch *b)
{
    int64_t wait_ms = next_due(b) - import_mono_ms(b);

    df_lock(&b->imports->lock);
    if (b->imports->stopping && wait_ms > STOPPING_MS)
        wait_ms = STOPPING_MS;
    if (wait_ms > 0 && !b->mail.acked && !b->mail.settled && b->mail.answered.count == 0)
        (void)df_clock_wait_ms(b->imports->opt.clock, &b->imports->changed, &b->imports->lock,
                               wait_ms);
    df_unlock(&b->imports->lock);
}

/* Whether there is something to do at once. */
static bool is_busy(const struct import_batch *b)
{
    const struct import_chunk *c;

    DF_LIST_EACH (c, &b->hand.chunks, link)
        if (import_is_ready(c) || (is_judged(c) && !b->settling))
            return true;
    return has_room(b);
}

/* No call is under way. False: the batch has ended. */
static bool end_calls(struct import_batch *b)
{
    bool hopeless = b->state == BATCH_SHELVING && import_is_hopeless(b);

    return import_batch_happens(b, hopeless ? BATCH_EV_HOPELESS : BATCH_EV_NO_CALLS);
}

/* A process that ends does not wait for its peer: the next owner sends these chunks again. */
static void cut_late_calls(struct import_batch *b)
{
    struct df_imports *i = b->imports;

    df_lock(&i->lock);
    bool late = i->stopping && import_mono_ms(b) >= i->cut_at_ms;
    df_unlock(&i->lock);
    if (late && !atomic_exchange(&i->cut, true))
        df_http_client_cut(i->opt.outbound->client);
}

/* One round of work. False: the batch has ended. */
static bool work_on_batch_once(struct import_batch *b)
{
    if (import_must_leave(b))
        (void)import_batch_happens(b, BATCH_EV_STOP);
    if (b->state == BATCH_STOPPING)
        cut_late_calls(b);
    take_answers(b);
    if (!take_settled(b) || !store_promises(b) || !take_acks(b))
        return false;
    settle_judged(b); /* while chunks are cut */
    if (import_batch_sends(b->state)) {
        tick_chunks(b);
        if (!look_for_others(b) || !fill_hand(b) || !import_look_at_outage(b))
            return false;
    }
    if (import_batch_sends(b->state) && !import_send_ready(b))
        return false;
    settle_judged(b);
    import_show_in_hand(b, b->hand.chunks.count + b->hand.settling.count);
    if (b->hand.in_flight == 0 && !b->settling && !end_calls(b))
        return false;
    if (b->hand.chunks.count == 0 && !b->settling && !import_batch_happens(b, BATCH_EV_EMPTY_HAND))
        return false;
    if (b->state != BATCH_STOPPING)
        (void)import_keep_lease(b);
    return !import_batch_has_ended(b->state);
}

static void work_on_batch(struct import_batch *b)
{
    while (work_on_batch_once(b)) {
        if (!is_busy(b) || !import_batch_sends(b->state))
            wait_for_events(b);
    }
}

/* --- the end ---------------------------------------------------------------------------------- */

/* Calls and a commit under way point into the chunks, so these must not be freed before. A commit
 * is under way only if another one has found that the batch is lost or the database away: the next
 * owner finds what became of it. */
static void wait_for_chunks(struct import_batch *b)
{
    struct df_err err = DF_ERR_INIT;

    df_lock(&b->imports->lock);
    while (b->mail.answered.count < b->hand.in_flight || (b->settling && !b->mail.settled))
        df_cond_wait_ms(&b->imports->changed, &b->imports->lock, 1000);
    df_unlock(&b->imports->lock);
    if (b->settling)
        (void)import_settle_end(b, &b->hand.chunks, &err);
    df_list_move(&b->hand.chunks, &b->hand.settling);
}

static void release_batch(struct import_batch *b)
{
    struct import_chunk *c;

    wait_for_chunks(b);
    import_show_in_hand(b, 0);
    while ((c = import_chunks_take(&b->hand.chunks)))
        import_chunk_drop(c);
    while ((c = import_chunks_take(&b->hand.spare)))
        import_chunk_free(c);
    df_normaliser_free(b->reading.normaliser);
    df_records_free(b->reading.records);
    df_stored_close(b->reading.file);
    b->reading = (struct import_reading){.next_chunk = b->reading.next_chunk};
}

static enum df_code finish_batch(struct import_batch *b, struct df_err *err)
{
    const struct df_imports_options *o = &b->imports->opt;
    enum df_batch_status status = DF_BATCH_FAILED;

    enum df_code code = import_finish(b, &status, err);
    if (code != DF_OK)
        return code;
    import_note_finished(b, status);
    const char *location =
        b->row.upload_path.ptr ? df_arena_cstr(&b->arena, b->row.upload_path) : NULL;
    if (df_storage_remove(o->storage, &b->id, location, err) != DF_OK)
        df_log_warn("FileNotRemoved", "%s", err->detail);
    return DF_OK;
}

static enum df_code give_batch_way(struct import_batch *b, struct df_err *err)
{
    enum df_code code = import_give_way(b, err);
    struct df_log_field fields[] = {DF_FI("chunks", b->reading.next_chunk - 1),
                                    DF_FI("workedMs", import_mono_ms(b) - b->turn.since_ms)};

    if (code == DF_OK)
        df_log_write(DF_LOG_INFO, "BatchGaveWay", fields, 2, "another client's batch waits");
    return code;
}

static enum df_code hand_batch_over(struct import_batch *b, struct df_err *err)
{
    struct df_storage *storage = b->imports->opt.storage;

    if (import_is_outside(b) && import_is_stopping(b->imports) &&
        df_storage_drop_local(storage, &b->id, df_arena_cstr(&b->arena, b->row.upload_path), err) !=
            DF_OK)
        df_log_warn("FileNotRemoved", "%s", err->detail);
    enum df_code code = import_give_back(b, err);
    struct df_log_field fields[] = {DF_FI("chunks", b->reading.next_chunk - 1),
                                    DF_FI("cutOff", b->hand.cut_off)};

    if (code == DF_OK)
        df_log_write(DF_LOG_INFO, "BatchHandedOver", fields, 2,
                     import_is_stopping(b->imports)
                         ? "the process ends; the next owner goes on"
                         : "another database server has taken over: it is read afresh");
    return code;
}

/* The file is not available now: the batch goes back to waiting, and others are worked on. */
static enum df_code postpone_batch(struct import_batch *b, struct df_err *err)
{
    return import_postpone(b, df_wall_ms(b->imports->opt.clock) + POSTPONE_MS, err);
}

/* The process ends, so that another one will fetch the file. The copy goes before the commit, since
 * a process with the same data directory may claim the batch right after it. In other cases this
 * process may well go on with the batch, and housekeeping removes a copy that was not used. */
/* Performs the commit that ends the ownership. */
static void perform_batch_end(struct import_batch *b)
{
    struct df_err err = DF_ERR_INIT;
    enum df_code code = DF_OK;

    assert(import_batch_has_ended(b->state));
    switch (b->action) {
    case BATCH_NOTHING:
        break;
    case BATCH_FINISH:
        code = finish_batch(b, &err);
        break;
    case BATCH_GIVE_WAY:
        code = give_batch_way(b, &err);
        break;
    case BATCH_GIVE_BACK:
        code = hand_batch_over(b, &err);
        break;
    case BATCH_POSTPONE:
        code = postpone_batch(b, &err);
        break;
    case BATCH_SHELVE:
        code = import_shelve_batch(b, &err);
        break;
    case BATCH_IMPOSSIBLE:
    case BATCH_ACTIONS:
        abort();
    }
    if (code != DF_OK)
        (void)import_batch_fails(b, code, &err);
}

void import_process(struct import_batch *b)
{
    const struct df_log_ctx *outer = df_log_ctx_use(&b->log);

    b->hand.outage_ms = b->hand.polled_ms = b->turn.since_ms = -1;
    b->started_ms = b->renewed_ms = import_mono_ms(b);
    import_note_working(1);
    import_prepare(b);
    if (!import_batch_has_ended(b->state)) {
        import_note_state(b->row.client, DF_BATCH_PROCESSING);
        work_on_batch(b);
    }
    release_batch(b);
    perform_batch_end(b);
    end_turn(b);
    if (b->state == BATCH_LOST)
        df_log_warn("BatchLockLost",
                    "the batch has another owner now, or its lock could not be extended");
    import_note_working(-1);
    df_log_ctx_use(outer);
}

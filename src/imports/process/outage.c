/*
 * Whether OmniFlow is there, and what becomes of a batch while it is not.
 *
 * The failure of a chunk counts while OmniFlow takes others (resilience/tries.h): a chunk that
 * fails more than max_retries times among chunks that arrive, of any batch of this process, is an
 * error. OmniFlow is away while the breaker permits no call, or when a chunk has had that many
 * tries and they do not count: then nothing arrives, and it is not this chunk's fault. Answers such
 * as 401 (an expired key) are failures like 503. While OmniFlow is away, no tries are used up.
 *
 *     in hand     up to max_outage_ms, or fair_ms if another client waits: the chunks are tried
 *                 again as the breaker and retry_delays_ms allow
 *     shelved     the batch is Pending and has no owner. Every probe_ms one batch that waits is
 *                 taken up to probe, the least recently tried first: one chunk is cut and sent. If
 *                 it fails, the batch is shelved again at once. If it arrives, the batch goes on,
 *                 and the others are taken up as usual.
 *     given up    give_up_ms after OmniFlow last took a chunk of the batch, and when a call of it
 *                 fails: Failed. Time alone is no reason, since the server may have been off.
 *
 * A batch that is shelved again and again while OmniFlow takes chunks of others has a poisoned
 * chunk: once that has happened more than max_retries times (OutageTries), its tries count.
 */
#include "imports/process/process_private.h"

#include <stdio.h>

struct import_peer import_peer_now(struct df_imports *i)
{
    df_lock(&i->lock);
    struct import_peer peer = i->peer;
    df_unlock(&i->lock);
    return peer;
}

void import_peer_took(struct import_batch *b)
{
    struct df_imports *i = b->imports;

    df_lock(&i->lock);
    bool was_away = i->peer.away;
    i->peer.arrived++;
    i->peer.well_ms = df_wall_ms(i->opt.clock);
    i->peer.away = false;
    b->probes = false; /* other workers look at it */
    df_unlock(&i->lock);
    b->hand.outage_ms = -1;
    b->hand.answered = true;
    b->hand.failed = false;
    if (!was_away)
        return;
    df_log_info("OmniFlowAnswers", "batches that wait for it are taken up");
    df_imports_wake(i);
}

static void begin_outage(struct import_batch *b)
{
    if (b->hand.outage_ms < 0)
        b->hand.outage_ms = b->hand.others_ms = import_mono_ms(b);
}

/* The failure without the body of an answer, which may have the client's data in it. */
static struct df_str shared_error(const struct import_chunk *c)
{
    struct df_str error = c->error;

    if (c->out.call.code == DF_OK)
        (void)df_str_cut(error, ':', &error);
    return error;
}

static void keep_error(char out[IMPORT_PEER_ERROR + 1], struct df_str error)
{
    error = df_utf8_cut(error, IMPORT_PEER_ERROR / 4);
    (void)snprintf(out, IMPORT_PEER_ERROR + 1, DF_STR_FMT, DF_STR_ARG(error));
}

/* Keeps the reason, and tells how many chunks have arrived. */
static int64_t note_failure(struct df_imports *i, const struct import_chunk *c)
{
    df_lock(&i->lock);
    keep_error(i->peer.error, shared_error(c));
    int64_t arrived = i->peer.arrived;
    df_unlock(&i->lock);
    return arrived;
}

/* Whether the failure is the last one that the chunk is allowed. */
static bool is_last_failure(struct import_batch *b, struct import_chunk *c, int64_t arrived)
{
    const struct df_call *call = &c->out.call;
    bool answered = call->code == DF_OK;
    const struct df_tries_policy policy = {.max_counted = b->imports->opt.settings.max_retries + 1,
                                           .give_up_ms = INT64_MAX};
    const struct df_tries_failure failure = {
        .now_ms = df_wall_ms(b->imports->opt.clock),
        .never_counts = answered && (call->status == 429 || call->retry_after_ms >= 0),
        .is_well = b->hand.outage_ms < 0,
        .arrived = arrived,
        .arrived_before = c->arrived,
    };

    c->failures.tries++;
    return df_tries_fail(&policy, &c->failures, &failure) != DF_TRIES_AGAIN;
}

void import_peer_failed(struct import_batch *b, struct import_chunk *c)
{
    struct df_imports *i = b->imports;
    bool used_up = df_retry_exhausted(&i->retry, c->tries);

    b->hand.failed = true;
    keep_error(b->hand.error, c->error);
    c->gives_up = used_up;
    /* It answered, with something that cannot be used; or the batch is the only one that fails. */
    if (c->out.verdict != DF_OUT_AGAIN || b->row.outage_tries > i->opt.settings.max_retries)
        return;
    c->gives_up = is_last_failure(b, c, note_failure(i, c));
    if (!c->gives_up && (b->probes || used_up))
        begin_outage(b);
}

void import_peer_shut(struct import_batch *b)
{
    begin_outage(b);
}

static int64_t longest_outage(const struct import_batch *b)
{
    return b->probes ? 0 : b->imports->opt.settings.max_outage_ms;
}

int64_t import_outage_due(const struct import_batch *b)
{
    if (b->hand.outage_ms < 0 || !import_batch_sends(b->state))
        return INT64_MAX;
    return b->hand.outage_ms + longest_outage(b);
}

/* Other clients need not wait for this batch's outage: OmniFlow may take what they send. */
static bool gives_way_in_outage(struct import_batch *b, int64_t now_ms, struct df_err *err,
                                enum df_code *ret)
{
    int64_t fair_ms = b->imports->opt.settings.fair_ms;
    bool wait = false;

    *ret = DF_OK;
    if (fair_ms == 0 || now_ms - b->hand.outage_ms < fair_ms ||
        now_ms - b->hand.others_ms < IMPORT_LOOK_MS)
        return false;
    b->hand.others_ms = now_ms;
    *ret = import_others_wait(b, &wait, err);
    return wait;
}

bool import_look_at_outage(struct import_batch *b)
{
    int64_t now_ms = import_mono_ms(b);
    struct df_err err = DF_ERR_INIT;
    enum df_code code = DF_OK;

    if (b->hand.outage_ms < 0 || !import_batch_sends(b->state))
        return true;
    if (now_ms >= import_outage_due(b) || gives_way_in_outage(b, now_ms, &err, &code))
        return import_batch_happens(b, BATCH_EV_OUTAGE);
    return code == DF_OK || import_batch_fails(b, code, &err);
}

/* --- leaving ---------------------------------------------------------------------------------- */

/* Since when OmniFlow takes no chunk of the batch, by the wall clock. */
static int64_t outage_since(const struct import_batch *b)
{
    int64_t now_ms = df_wall_ms(b->imports->opt.clock);

    if (b->row.outage_since_ms >= 0 && !b->hand.answered && b->row.outage_since_ms <= now_ms)
        return b->row.outage_since_ms;
    return b->hand.outage_ms < 0 ? now_ms : now_ms - (import_mono_ms(b) - b->hand.outage_ms);
}

static struct df_str tell_why(struct import_batch *b, bool hopeless, int64_t lasted_ms,
                              const char *error)
{
    const char *colon = error[0] ? ": " : "";

    if (!hopeless)
        return df_arena_printf(
            &b->arena, "OmniFlow takes nothing; the batch waits until it does%s%s", colon, error);
    return df_arena_printf(&b->arena,
                           "OmniFlow took nothing for %lld seconds, then it was given up%s%s",
                           (long long)(lasted_ms / 1000), colon, error);
}

/* The batch's client reads the answer to a chunk of its own only; the log has no answers. */
bool import_is_hopeless(struct import_batch *b)
{
    int64_t lasted_ms = df_wall_ms(b->imports->opt.clock) - outage_since(b);
    bool hopeless = b->hand.failed && lasted_ms >= b->imports->opt.give_up_ms;
    struct import_peer peer = import_peer_now(b->imports);

    b->why = tell_why(b, hopeless, lasted_ms, b->hand.failed ? b->hand.error : peer.error);
    b->why_logged = tell_why(b, hopeless, lasted_ms, peer.error);
    return hopeless;
}

/* Others arrived since the batch was last shelved: then it is this batch. */
static int64_t count_shelving(const struct import_batch *b, const struct import_peer *peer)
{
    int64_t tries = b->hand.answered ? 0 : b->row.outage_tries;

    return tries + (!b->hand.answered && b->hand.failed && b->row.waiting_since_ms >= 0 &&
                    peer->well_ms > b->row.waiting_since_ms);
}

enum df_code import_shelve_batch(struct import_batch *b, struct df_err *err)
{
    struct df_imports *i = b->imports;
    struct import_peer peer = import_peer_now(i);
    int64_t since_ms = outage_since(b);
    char since[DF_TIME_LEN + 1];

    enum df_code code = import_shelve(b, since_ms, count_shelving(b, &peer), err);
    if (code != DF_OK)
        return code;
    df_time_format(since_ms, since);
    struct df_log_field fields[] = {DF_F("since", df_str_c(since)),
                                    DF_FI("chunks", b->reading.next_chunk - 1)};
    df_log_write(b->row.waiting_since_ms < 0 ? DF_LOG_WARN : DF_LOG_INFO, "BatchWaitsForOmniFlow",
                 fields, 2, DF_STR_FMT, DF_STR_ARG(b->why_logged));
    import_note_shelved(b);
    df_lock(&i->lock);
    i->peer.away = b->hand.outage_ms >= 0;
    i->peer.probe_at_ms = df_mono_ms(i->opt.clock) + i->opt.settings.probe_ms;
    df_unlock(&i->lock);
    return DF_OK;
}

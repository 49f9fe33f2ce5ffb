/*
 * The engine's thread: starts claims and settlements and sends what was claimed; start and end of
 * the engine.
 *
 * A row belongs to a thread of the store while its claim runs, then to the engine's thread until it
 * is handed to the client, then to a thread of the client until `done`, and then to no thread until
 * the next settlement. One lock guards the lists between them; it is never held across a call to
 * the store or the client.
 *
 *   claim -> ready -> (breaker, slots) -> client -> settled -> settlement
 */
#include "base/log.h"
#include "base/mem.h"
#include "base/personal.h"
#include "delivery/delivery_private.h"

#include <assert.h>
#include <stdlib.h>

#define POLL_MS         1000
#define BEHIND_MS       500 /* rows are committed no later than so long after they are due */
#define FIGURES_MS      5000
#define CLAIM_FIRST     512
#define CAREFUL_ROWS    1024  /* after an unclean end, so many rows are taken with care, */
#define CAREFUL_FOR_MS  60000 /* for so long at most */
#define ROW_BYTES       ((int64_t)16 << 20)
#define ROW_BYTES_FIRST (INT64_C(64) * 1024) /* assumed of a row before the first claim */
#define BACKOFF_MIN_MS  100
#define BACKOFF_MAX_MS  5000

/* --- rows and clocks -------------------------------------------------------------------------- */

void delivery_row_free(struct delivery_row *row)
{
    delivery_share_break(row->channel->d, row);
    delivery_target_leave(row);
    df_arena_release(&row->arena);
    free(row);
}

/* What a column can hold of the text. */
static struct df_str storable(struct df_str text)
{
    const char *nul = text.len > 0 ? memchr(text.ptr, '\0', text.len) : NULL;
    if (nul)
        text.len = (size_t)(nul - text.ptr);
    text.len = df_utf8_valid_prefix(text);
    return text;
}

struct df_str delivery_clean(struct df_arena *a, struct df_str text, size_t max_units)
{
    return df_mask_note(storable(text), max_units, a);
}

struct df_str delivery_clean_answer(const struct df_delivery *d, struct df_arena *a,
                                    struct df_str answer)
{
    answer = storable(answer);
    return d->opt.mask ? d->opt.mask(d->opt.mask_arg, answer, DELIVERY_ANSWER_UNITS, a)
                       : df_mask_note(answer, DELIVERY_ANSWER_UNITS, a);
}

int64_t delivery_now(const struct delivery_channel *ch)
{
    return df_wall_ms(ch->d->opt.clock);
}

int64_t delivery_lease(const struct delivery_channel *ch)
{
    return ch->d->opt.settings.lease_ms;
}

int64_t delivery_mono_ms(const struct df_delivery *d)
{
    return df_mono_ms(d->opt.clock);
}

/* --- the thread ------------------------------------------------------------------------------- */

static bool is_idle(const struct df_delivery *d) DF_REQUIRES(d->lock)
{
    for (size_t i = 0; i < d->channel_count; i++) {
        const struct delivery_channel *ch = d->channels[i];
        if (ch->is_settling || ch->is_claiming || (ch->held > 0 && !d->abandon))
            return false;
    }
    return d->on_their_way == 0;
}

/* Sends what is ready, and starts settlements and claims; true: something was done. */
static bool work_once(struct df_delivery *d)
{
    bool worked = false;

    for (size_t i = 0; i < d->channel_count; i++) {
        struct delivery_channel *ch = d->channels[i];
        struct delivery_row *row;
        struct df_list ready = {.count = 0};
        if (!ch->c->claim)
            continue;
        df_lock(&d->lock);
        df_list_move(&ready, &ch->ready);
        bool stopping = d->stopping;
        df_unlock(&d->lock);
        worked = worked || ready.count > 0;
        while (stopping && (row = delivery_list_take(&ready)))
            delivery_drop(row);
        /* Before the next claim, which takes as many rows as there is room for then. */
        delivery_send(d, &ready);
        df_lock(&d->lock);
        int64_t now_ms = delivery_mono_ms(d);
        bool settle = delivery_settle_plan(d, ch, now_ms);
        bool claim = delivery_plan_claim(d, ch, now_ms);
        df_unlock(&d->lock);
        worked = worked || settle || claim;
        if (settle)
            delivery_settle_start(ch);
        if (claim)
            delivery_claim_start(ch);
    }
    return worked;
}

/* Waits until a row comes back or is due, or the engine is woken. */
static void wait_for_work(struct df_delivery *d, int64_t now_ms) DF_REQUIRES(d->lock)
{
    /* No figures are taken while the engine stops, so their time must not end the wait. */
    int64_t until_ms = d->stopping ? now_ms + FIGURES_MS : d->figures_ms + FIGURES_MS;
    bool ready = false;

    int64_t health_ms = d->stopping ? INT64_MAX : delivery_health_at(d);
    until_ms = health_ms < until_ms ? health_ms : until_ms;
    for (size_t i = 0; i < d->channel_count; i++) {
        struct delivery_channel *ch = d->channels[i];
        if (!ch->c->claim)
            continue;
        int64_t at_ms = delivery_plan_next(d, ch, now_ms);
        until_ms = at_ms < until_ms ? at_ms : until_ms;
        at_ms = delivery_settle_at(d, ch, now_ms);
        until_ms = at_ms < until_ms ? at_ms : until_ms;
        ready = ready || ch->ready.count > 0;
    }
    if (!ready && until_ms > now_ms)
        (void)df_clock_wait_ms(d->opt.clock, &d->changed, &d->lock, until_ms - now_ms);
}

static void run_engine(void *arg)
{
    struct df_delivery *d = arg;

    delivery_health(d);
    for (;;) {
        while (work_once(d)) {
            /* until there is nothing left to start */
        }
        int64_t now_ms = delivery_mono_ms(d);
        df_lock(&d->lock);
        if (d->stopping && is_idle(d)) {
            df_unlock(&d->lock);
            return;
        }
        wait_for_work(d, now_ms);
        bool figures = delivery_mono_ms(d) - d->figures_ms >= FIGURES_MS && !d->stopping;
        if (figures)
            d->figures_ms = delivery_mono_ms(d);
        df_unlock(&d->lock);
        if (figures) {
            delivery_take_figures(d);
            delivery_shares_forget(d);
            delivery_watch_clock(d);
        }
        delivery_health(d);
    }
}

/* --- from outside ----------------------------------------------------------------------------- */

struct df_delivery *df_delivery_new(const struct df_delivery_options *opt)
{
    struct df_delivery *d = df_calloc(1, sizeof(*d));

    d->opt = *opt;
    if (d->opt.poll_ms <= 0)
        d->opt.poll_ms = POLL_MS;
    if (d->opt.max_row_bytes <= 0)
        d->opt.max_row_bytes = ROW_BYTES;
    d->clock_ms = INT64_MIN;
    d->health_backoff = (struct df_backoff){.min_ms = BACKOFF_MIN_MS, .max_ms = BACKOFF_MAX_MS};
    df_mutex_init(&d->lock);
    df_cond_init(&d->changed);
    return d;
}

/* On the thread of the shards. */
static void shards_changed(void *arg, uint32_t taken, uint32_t unclean)
{
    struct delivery_channel *ch = arg;
    struct df_delivery *d = ch->d;

    df_lock(&d->lock);
    (void)taken;
    ch->woken = true;
    ch->whole_ms = 0;
    for (unsigned i = 0; i < DF_SHARDS; i++) /* until they are reset */
        if (unclean & ~ch->reset & UINT32_C(1) << i)
            df_shards_enter(ch->shards, i);
    ch->reset |= unclean;
    if (unclean) {
        ch->careful_left = CAREFUL_ROWS;
        ch->careful_ms = delivery_mono_ms(d) + CAREFUL_FOR_MS;
        ch->care_begins = true;
    }
    pthread_cond_broadcast(&d->changed);
    df_unlock(&d->lock);
}

void df_delivery_add(struct df_delivery *d, const struct df_channel *c)
{
    struct delivery_channel *ch = df_calloc(1, sizeof(*ch));
    struct df_str name = df_str_c(c->name);

    assert(!d->thread.running); /* the list of channels is read without the lock */

    ch->c = c;
    ch->d = d;
    ch->woken = true;
    ch->since_ms = INT64_MAX;
    ch->most = CLAIM_FIRST;
    ch->row_bytes = ROW_BYTES_FIRST;
    ch->backoff = (struct df_backoff){.min_ms = BACKOFF_MIN_MS, .max_ms = BACKOFF_MAX_MS};
    ch->settle_backoff = ch->backoff;
    df_arena_init(&ch->claim.arena);
    df_arena_init(&ch->claim.care.arena);
    df_arena_init(&ch->settling.arena);
    df_arena_init(&ch->settling.shown_arena);
    ch->claim.channel = ch->settling.channel = ch;
    if (c->claim)
        delivery_metrics_make(ch, name);
    if (c->claim && d->opt.shards)
        ch->shards = df_shards_add(d->opt.shards, c->name, shards_changed, ch);
    d->channels =
        df_realloc(d->channels, (d->channel_count + 1) * sizeof(struct delivery_channel *));
    d->channels[d->channel_count++] = ch;
    if (c->missing) {
        struct df_log_field fields[] = {DF_F("channel", name)};
        df_log_write(DF_LOG_WARN, "ChannelNotConfigured", fields, 1,
                     "%s is not set: rows of this channel wait until it is", c->missing);
    }
}

void df_delivery_start(struct df_delivery *d)
{
    assert(!d->thread.running && d->opt.shards);
    d->figures_ms = delivery_mono_ms(d) - FIGURES_MS;
    df_thread_start(&d->thread, "delivery", run_engine, d);
}

void df_delivery_wake(struct df_delivery *d, const struct df_channel *c)
{
    df_delivery_wake_since(d, c, df_wall_ms(d->opt.clock) - BEHIND_MS);
}

void df_delivery_wake_since(struct df_delivery *d, const struct df_channel *c, int64_t due_ms)
{
    if (c->wake)
        c->wake(c);
    if (!c->claim)
        return;
    df_lock(&d->lock);
    for (size_t i = 0; i < d->channel_count; i++) {
        struct delivery_channel *ch = d->channels[i];
        if (ch->c != c)
            continue;
        ch->since_ms = due_ms < ch->since_ms ? due_ms : ch->since_ms;
        if (!ch->woken) {
            ch->woken = true;
            pthread_cond_broadcast(&d->changed);
        }
    }
    df_unlock(&d->lock);
}

void df_delivery_stop(struct df_delivery *d, int64_t drain_ms)
{
    if (!d || !d->thread.running)
        return;
    int64_t until_ms = df_mono_ms(df_clock_real()) + drain_ms;
    df_lock(&d->lock);
    d->stopping = true;
    pthread_cond_broadcast(&d->changed);
    int64_t left_ms;
    while (!is_idle(d) && (left_ms = until_ms - df_mono_ms(df_clock_real())) > 0)
        df_cond_wait_ms(&d->changed, &d->lock, left_ms < 50 ? left_ms : 50);
    df_unlock(&d->lock);
}

void df_delivery_end(struct df_delivery *d)
{
    if (!d)
        return;
    if (d->thread.running) {
        df_lock(&d->lock);
        d->stopping = d->abandon = true;
        pthread_cond_broadcast(&d->changed);
        df_unlock(&d->lock);
        df_thread_join(&d->thread);
    }
    for (size_t i = 0; i < d->channel_count; i++) {
        delivery_settle_rest(d->channels[i]);
        delivery_claim_rest(d->channels[i]);
    }
    delivery_health_end(d);
}

void df_delivery_free(struct df_delivery *d)
{
    if (!d)
        return;
    for (size_t i = 0; i < d->channel_count; i++) {
        df_arena_release(&d->channels[i]->claim.arena);
        df_arena_release(&d->channels[i]->settling.arena);
        df_arena_release(&d->channels[i]->settling.shown_arena);
        delivery_care_end(&d->channels[i]->claim.care);
        free(d->channels[i]->main);
        df_map_release(&d->channels[i]->held_rows);
        free(d->channels[i]);
    }
    free(d->channels);
    delivery_targets_free(d);
    delivery_shares_free(d);
    pthread_cond_destroy(&d->changed);
    df_mutex_destroy(&d->lock);
    free(d);
}

size_t df_delivery_channels(const struct df_delivery *d)
{
    return d->channel_count;
}

const struct df_channel *df_delivery_channel(const struct df_delivery *d, size_t i)
{
    return d->channels[i]->c;
}

const struct df_channel *df_delivery_find(const struct df_delivery *d, struct df_str name)
{
    for (size_t i = 0; i < d->channel_count; i++) {
        if (df_str_eq(df_str_c(d->channels[i]->c->name), name))
            return d->channels[i]->c;
    }
    return NULL;
}

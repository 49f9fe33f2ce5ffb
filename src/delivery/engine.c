/*
 * The engine's thread: decides when a cycle is due and what it claims, and takes over its results;
 * start and end of the engine.
 *
 * A row belongs to the store's thread while its cycle runs, then to the engine's thread until it is
 * handed to the client, then to the client's thread until `done`, and then to no thread until the
 * next cycle. One lock guards the lists between them; it is never held across a call to the store
 * or the client.
 *
 *   claimed by a cycle -> ready -> (breaker, slots) -> client -> settled -> the next cycle
 */
#include "base/log.h"
#include "base/mem.h"
#include "delivery/delivery_private.h"

#include <assert.h>
#include <stdlib.h>

#define POLL_MS         1000
#define FIGURES_MS      5000
#define CLAIM_MAX       512
#define PROBE_MAX       32 /* rows of a claim that looks past a full destination */
#define CROWD_MIN       16 /* rows of a claim while most are put back */
#define CROWD_MAX       128
#define CROWD_MS        20 /* how long such a claim should take at most */
#define ROW_BYTES       ((int64_t)16 << 20)
#define STUCK_MS        100 /* a full destination that was silent for so long hangs */
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

struct df_str delivery_clean(struct df_arena *a, struct df_str text, size_t max_units)
{
    const char *nul = text.len > 0 ? memchr(text.ptr, '\0', text.len) : NULL;
    if (nul)
        text.len = (size_t)(nul - text.ptr);
    text.len = df_utf8_valid_prefix(text);
    return df_arena_str(a, df_utf8_cut(text, max_units));
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

/* --- cycles ----------------------------------------------------------------------------------- */

/* The destination or tenant that all rows share, for the caller to free; NULL: there is no such
 * one. */
static char *common_key(const struct df_list *rows, enum delivery_share_kind kind)
{
    struct df_str main = DF_STR_NULL;
    const struct delivery_row *r;

    DF_LIST_EACH (r, rows, link) {
        struct df_str key = kind == DELIVERY_TENANT ? r->request.tenant : r->key;
        if (!r->request.url || key.len == 0 || (main.ptr && !df_str_eq(main, key)))
            return NULL;
        main = key;
    }
    return main.ptr ? df_strdup(main) : NULL;
}

/* Where the rows of a claim go decides how many the next one takes. */
static void note_destinations(struct delivery_channel *ch) DF_REQUIRES(ch->d->lock)
{
    const struct delivery_cycle *cy = &ch->cycle;
    if (cy->parked > 0) { /* it had rows of several owners */
        free(ch->main);
        ch->main = NULL;
        ch->several = true;
        ch->woken = ch->woken || (cy->newest && cy->found == cy->limit);
    }
    if (cy->claimed.count == 0 || cy->parked > 0)
        return;
    enum delivery_share_kind kind = DELIVERY_DESTINATION;
    char *main = common_key(&cy->claimed, kind);
    if (!main) {
        kind = DELIVERY_TENANT;
        main = common_key(&cy->claimed, kind);
    }
    bool same = main && ch->main && kind == ch->main_kind && strcmp(main, ch->main) == 0;
    if (cy->newest) {
        /* Behind the rows that were found there may be more for other destinations. */
        ch->woken = ch->woken || (!same && cy->found == cy->limit);
        free(main);
        return;
    }
    free(ch->main);
    ch->main = main;
    ch->main_kind = kind;
    ch->several = !main;
}

/* While most rows of a claim are put back, claims stay so small that other writers can wait for
 * them. */
static void note_parked(struct delivery_channel *ch) DF_REQUIRES(ch->d->lock)
{
    const struct delivery_cycle *cy = &ch->cycle;
    int64_t took_ms = delivery_mono_ms(ch->d) - ch->begun_ms;

    if (cy->found == 0)
        return;
    if (!cy->newest)
        ch->crowded = cy->parked * 2 > cy->found;
    if (!ch->crowded)
        ch->most = ch->most * 2 < CLAIM_MAX ? ch->most * 2 : CLAIM_MAX;
    else if (took_ms > CROWD_MS)
        ch->most = ch->most / 2 > CROWD_MIN ? ch->most / 2 : CROWD_MIN;
    else if (took_ms < CROWD_MS / 4 && cy->found == cy->limit)
        ch->most = ch->most * 2 < CROWD_MAX ? ch->most * 2 : CROWD_MAX;
    ch->most = ch->crowded && ch->most > CROWD_MAX ? CROWD_MAX : ch->most;
}

/* Takes over what was committed: rows to be sent, and new leases of rows on their way. */
static void adopt_claimed(struct delivery_channel *ch) DF_REQUIRES(ch->d->lock)
{
    struct delivery_cycle *cy = &ch->cycle;
    struct delivery_row *r;

    /* A row that was settled may have been claimed again by the same cycle. */
    DF_LIST_EACH (r, &cy->settle, link)
        delivery_held_remove(ch, r);
    DF_LIST_EACH (r, &cy->claimed, link)
        delivery_held_add(ch, r);
    DF_LIST_EACH (r, &cy->renewed, link)
        delivery_held_renew(ch, r);
    cy->reserved = 0; /* the rows count them now */
    if (cy->taken > 0)
        ch->row_bytes = cy->taken_bytes / (int64_t)cy->taken;
    delivery_targets_claimed(ch);
}

/* A cycle that claimed has asked the table when the next row is due. A cycle that only settled
 * knows when its own rows are due again, and one of them may be the next. */
static void plan_look(struct delivery_channel *ch) DF_REQUIRES(ch->d->lock)
{
    const struct delivery_cycle *cy = &ch->cycle;
    int64_t poll_ms = ch->d->opt.poll_ms;
    int64_t due_ms = cy->next_due_ms;
    const struct delivery_row *r;

    DF_LIST_EACH (r, &cy->settle, link)
        if (cy->limit == 0 && (r->outcome == DELIVERY_RETRY || r->outcome == DELIVERY_DEFERRED) &&
            (due_ms < 0 || r->due_ms < due_ms))
            due_ms = r->due_ms;
    int64_t wait_ms = due_ms < 0 ? poll_ms : due_ms - delivery_now(ch);
    wait_ms = wait_ms < 0 ? 0 : wait_ms < poll_ms ? wait_ms : poll_ms;
    int64_t look_ms = delivery_mono_ms(ch->d) + wait_ms;
    if (cy->limit > 0 || look_ms < ch->look_ms)
        ch->look_ms = look_ms;
}

static void cycle_done(struct df_job *job, enum df_code code, const struct df_err *err)
{
    struct delivery_cycle *cy = (struct delivery_cycle *)job;
    struct delivery_channel *ch = cy->channel;
    size_t stale = cy->stale; /* the next cycle may run as soon as the lock is free */
    struct df_list over = {.count = 0};
    struct delivery_row *row;

    assert(ch->running);
    if (code != DF_OK) { /* first, since the error is in the job, which the next cycle uses again */
        struct df_log_field fields[] = {DF_F("channel", df_str_c(ch->c->name))};
        df_log_write(DF_LOG_ERROR, "DeliveryCycleFailed", fields, 1, "%s", err->detail);
    } else if (ch->c->committed) {
        ch->c->committed(ch->c);
    }
    if (code != DF_OK)
        delivery_held_undo(cy);
    df_lock(&ch->d->lock);
    if (code == DF_OK) {
        adopt_claimed(ch);
        assert(ch->held >= cy->settle.count);
        ch->held += cy->claimed.count;
        ch->held -= cy->settle.count;
        df_backoff_reset(&ch->backoff);
        note_destinations(ch);
        note_parked(ch);
        plan_look(ch);
        df_list_move(&ch->ready, &cy->claimed);
        df_list_move(&over, &cy->settle);
    } else {
        ch->look_ms = delivery_mono_ms(ch->d) + df_backoff_more(&ch->backoff);
        delivery_held_settling(&cy->settle, false);
        /* Rows that came back meanwhile go behind; the order does not matter. */
        df_list_move(&cy->settle, &ch->settled);
        df_list_move(&ch->settled, &cy->settle);
        df_list_move(&over, &cy->claimed); /* what was claimed was rolled back */
    }
    df_list_move(&over, &cy->renewed);
    df_metric_set(ch->in_flight, (double)ch->held);
    ch->running = false;
    pthread_cond_broadcast(&ch->d->changed); /* the engine, and df_delivery_stop */
    df_unlock(&ch->d->lock);

    if (code == DF_OK && stale > 0) {
        struct df_log_field fields[] = {DF_F("channel", df_str_c(ch->c->name)),
                                        DF_FI("rows", stale)};
        df_log_write(
            DF_LOG_WARN, "DeliveryLeaseLost", fields, 2,
            "rows were settled late: another process has them, or a newer version was stored");
    }
    while ((row = delivery_list_take(&over)))
        delivery_row_free(row);
}

/*
 * Whether the next claim takes the newest rows: most rows of the last one were put off, and there
 * is new work. Such claims take turns with claims of the oldest rows, so that nobody waits behind a
 * long backlog that goes nowhere.
 */
static bool takes_newest(const struct delivery_channel *ch, int64_t now_ms)
{
    return ch->crowded && ch->woken && ch->c->claim_newest &&
           !(ch->took_newest && ch->look_ms <= now_ms);
}

/*
 * How many rows to claim, and when (*ret_at_ms, monotonic).
 *
 * If all rows of the last claim had one destination or tenant, the next claim takes no more than
 * that one has room for. If it has no room, new work causes a claim of the newest rows, which may
 * be for others. Older rows are looked at too: soon if the destination hangs, now and then if it is
 * only busy. `planned` rows, which wait for a target, are claimed beside.
 */
static size_t plan_claim(struct df_delivery *d, const struct delivery_channel *ch, size_t planned,
                         bool *ret_newest, int64_t *ret_at_ms) DF_REQUIRES(d->lock)
{
    size_t held = ch->held + planned;
    size_t room = held < DELIVERY_HELD_MAX ? DELIVERY_HELD_MAX - held : 0;
    const struct delivery_share *to =
        ch->main ? delivery_share_find(d, ch->main_kind, df_str_c(ch->main)) : NULL;
    size_t share = ch->several ? ch->most : to ? to->share : DELIVERY_SHARE_FIRST;
    size_t taken = (to ? to->in_flight : 0) + (ch->several ? 0 : planned);

    room = delivery_held_room(d, ch, room < CLAIM_MAX ? room : CLAIM_MAX);
    *ret_newest = ch->several && takes_newest(ch, delivery_mono_ms(d));
    *ret_at_ms = ch->woken ? 0 : ch->look_ms;
    if (ch->holding && !*ret_newest)
        return room; /* what only waits for its target needs no slot */
    if (taken < share && !*ret_newest)
        return room < share - taken ? room : share - taken;
    if (ch->woken && ch->c->claim_newest) {
        *ret_newest = true;
    } else if (to) {
        int64_t probe_ms = to->heard_ms + STUCK_MS;
        probe_ms = probe_ms < ch->probe_ms ? probe_ms : ch->probe_ms;
        *ret_at_ms = ch->look_ms > probe_ms ? ch->look_ms : probe_ms;
    }
    size_t most = ch->several ? ch->most : PROBE_MAX;
    return room < most ? room : most;
}

/* Whether the channel pauses after a failed cycle. */
static bool is_backing_off(const struct delivery_channel *ch, int64_t now_ms)
{
    return ch->backoff.now_ms > 0 && now_ms < ch->look_ms;
}

/* Rows that wait for a target leave some room for others. */
static size_t room_for_held(struct df_delivery *d, const struct delivery_channel *ch)
    DF_REQUIRES(d->lock)
{
    size_t room = ch->held < DELIVERY_HELD_MAX ? DELIVERY_HELD_MAX - ch->held : 0;

    room = delivery_held_room(d, ch, room < CLAIM_MAX ? room : CLAIM_MAX);
    return room > 1 ? room - room / 4 : room;
}

/* Nothing is claimed before the engine knows what is paused. */
static bool may_claim(const struct df_delivery *d, const struct delivery_channel *ch)
    DF_REQUIRES(d->lock)
{
    return !d->stopping && d->health_known && !ch->c->missing && !ch->paused;
}

/* Plans the next cycle; false: there is nothing to do. */
static bool plan_cycle(struct df_delivery *d, struct delivery_channel *ch, int64_t now_ms)
    DF_REQUIRES(d->lock)
{
    size_t limit = 0;
    int64_t at_ms = 0;
    int64_t later_ms = INT64_MAX;

    if (ch->running || is_backing_off(ch, now_ms))
        return false;
    ch->cycle.wants.count = 0;
    if (may_claim(d, ch)) {
        size_t planned =
            delivery_targets_plan(d, ch, room_for_held(d, ch), &ch->cycle.wants, &later_ms);
        limit = plan_claim(d, ch, planned, &ch->cycle.newest, &at_ms);
    }
    if (now_ms < at_ms)
        limit = 0;
    if (limit + ch->cycle.wants.count == 0 && ch->settled.count == 0)
        return false;
    ch->cycle.limit = limit;
    df_list_move(&ch->cycle.settle, &ch->settled);
    delivery_held_settling(&ch->cycle.settle, true);
    if (limit > 0) {
        /* A claim of the oldest rows does not look at the new work; that needs a claim of the
         * newest. */
        ch->woken = ch->woken && ch->several && ch->crowded && !ch->cycle.newest;
        ch->took_newest = ch->cycle.newest;
        ch->probe_ms = now_ms + d->opt.poll_ms;
    }
    ch->running = true;
    return true;
}

static void start_cycle(struct delivery_channel *ch)
{
    struct df_err err = DF_ERR_INIT;

    assert(ch->running && ch->cycle.claimed.count == 0);
    ch->begun_ms = delivery_mono_ms(ch->d);
    ch->cycle.job = (struct df_job){.run = delivery_cycle_run, .done = cycle_done};
    if (df_store_write(ch->d->opt.store, &ch->cycle.job))
        return;
    df_err_set(&err, DF_E_BUSY, "the store's queue is full");
    cycle_done(&ch->cycle.job, DF_E_BUSY, &err);
}

/* When this channel has something to do without being woken. */
static int64_t next_look(struct df_delivery *d, struct delivery_channel *ch, int64_t now_ms)
    DF_REQUIRES(d->lock)
{
    struct delivery_wants wants;
    int64_t later_ms = INT64_MAX;
    int64_t at_ms = 0;
    bool newest;

    if (ch->running)
        return INT64_MAX;
    if (is_backing_off(ch, now_ms))
        return ch->look_ms;
    if (!may_claim(d, ch))
        return INT64_MAX;
    /* Without room there is nothing to do until a row comes back. */
    size_t planned = delivery_targets_plan(d, ch, room_for_held(d, ch), &wants, &later_ms);
    if (planned > 0)
        return 0;
    at_ms = plan_claim(d, ch, 0, &newest, &at_ms) > 0 ? at_ms : INT64_MAX;
    return at_ms < later_ms ? at_ms : later_ms;
}

/* --- the thread ------------------------------------------------------------------------------- */

static bool is_idle(const struct df_delivery *d) DF_REQUIRES(d->lock)
{
    for (size_t i = 0; i < d->channel_count; i++) {
        const struct delivery_channel *ch = d->channels[i];
        if (ch->running || (ch->held > 0 && !d->abandon))
            return false;
    }
    return d->on_their_way == 0;
}

/* Sends what is ready and starts the cycles that are wanted; true: something was done. */
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
            delivery_defer(row, 0, "the server stopped");
        /* Before the next claim, which takes as many rows as there is room for then. */
        delivery_send(d, &ready);
        df_lock(&d->lock);
        bool cycle = plan_cycle(d, ch, delivery_mono_ms(d));
        df_unlock(&d->lock);
        worked = worked || cycle;
        if (cycle)
            start_cycle(ch);
    }
    return worked;
}

/* Waits until a row comes back or is due, or the engine is woken. */
static void wait_for_work(struct df_delivery *d, int64_t now_ms) DF_REQUIRES(d->lock)
{
    /* No figures are taken while the engine stops, so their time must not end the wait. */
    int64_t until_ms = d->stopping ? now_ms + FIGURES_MS : d->figures_ms + FIGURES_MS;
    int64_t prune_ms = d->stopping ? INT64_MAX : delivery_prune_at(d);
    bool ready = false;

    int64_t health_ms = d->stopping ? INT64_MAX : delivery_health_at(d);
    until_ms = prune_ms < until_ms ? prune_ms : until_ms;
    until_ms = health_ms < until_ms ? health_ms : until_ms;
    for (size_t i = 0; i < d->channel_count; i++) {
        struct delivery_channel *ch = d->channels[i];
        if (!ch->c->claim)
            continue;
        int64_t at_ms = next_look(d, ch, now_ms);
        until_ms = at_ms < until_ms ? at_ms : until_ms;
        ready = ready || ch->ready.count > 0 ||
                (ch->settled.count > 0 && !ch->running && !is_backing_off(ch, now_ms));
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
        delivery_prune(d);
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

void df_delivery_add(struct df_delivery *d, const struct df_channel *c)
{
    struct delivery_channel *ch = df_calloc(1, sizeof(*ch));
    struct df_str name = df_str_c(c->name);

    assert(!d->thread.running); /* the list of channels is read without the lock */

    ch->c = c;
    ch->d = d;
    ch->woken = true;
    ch->most = CLAIM_MAX;
    ch->row_bytes = ROW_BYTES_FIRST;
    ch->backoff = (struct df_backoff){.min_ms = BACKOFF_MIN_MS, .max_ms = BACKOFF_MAX_MS};
    df_arena_init(&ch->cycle.arena);
    ch->cycle.channel = ch;
    if (c->claim)
        delivery_metrics_make(ch, name);
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
    assert(!d->thread.running);
    d->figures_ms = delivery_mono_ms(d) - FIGURES_MS;
    df_thread_start(&d->thread, "delivery", run_engine, d);
}

void df_delivery_wake(struct df_delivery *d, const struct df_channel *c)
{
    if (c->wake)
        c->wake(c);
    if (!c->claim)
        return;
    df_lock(&d->lock);
    for (size_t i = 0; i < d->channel_count; i++) {
        struct delivery_channel *ch = d->channels[i];
        if (ch->c == c && !ch->woken) {
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

/* Settles what is left when the engine's thread has ended. */
static void settle_rest(struct delivery_channel *ch)
{
    struct df_err err = DF_ERR_INIT;
    struct delivery_cycle *cy = &ch->cycle;
    struct delivery_row *row;

    assert(!ch->running && cy->claimed.count == 0);
    df_list_move(&cy->settle, &ch->settled);
    delivery_held_settling(&cy->settle, true);
    cy->limit = 0;
    cy->wants.count = 0;
    cy->job = (struct df_job){.run = delivery_cycle_run};
    if (cy->settle.count > 0 && df_store_write_wait(ch->d->opt.store, &cy->job, &err) != DF_OK)
        df_log_warn("DeliveryCycleFailed", "%s", err.detail);
    else if (cy->settle.count > 0 && ch->c->committed)
        ch->c->committed(ch->c);
    while ((row = delivery_list_take(&cy->settle)) || (row = delivery_list_take(&ch->ready)))
        delivery_row_free(row);
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
    for (size_t i = 0; i < d->channel_count; i++)
        settle_rest(d->channels[i]);
    delivery_health_end(d);
}

void df_delivery_free(struct df_delivery *d)
{
    if (!d)
        return;
    for (size_t i = 0; i < d->channel_count; i++) {
        df_arena_release(&d->channels[i]->cycle.arena);
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

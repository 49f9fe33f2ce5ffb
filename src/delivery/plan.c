/*
 * What a channel claims next, how much, and when.
 *
 * Claims by due time go on behind the last row that was found: the cursor. Rows in hand lie before
 * it, and so do the remains of rows that were settled, which the database may not have cleared away
 * yet. Rows may also appear behind the cursor's back, since a row is due from when its transaction
 * began, not from when that was committed. So
 *
 * - whoever wakes the engine says since when its rows are due, and the cursor goes back to there,
 * - once a second a claim begins ten seconds before the cursor, for rows of other programs,
 * - and once a second one looks at all rows.
 *
 * The last two take no more than a twentieth of the time: where that is not enough, as with many
 * remains, they follow more slowly.
 */
#include "base/mem.h"
#include "delivery/delivery_private.h"

#include <assert.h>
#include <stdlib.h>

#define CLAIM_MAX   512
#define PROBE_MAX   32 /* rows of a claim that looks past a full destination */
#define CROWD_MIN   16 /* rows of a claim while most are put back */
#define CROWD_MAX   128
#define CROWD_MS    20 /* how long such a claim should take at most */
#define BACK_MS     10000
#define LOOK_SHARE  20
#define LOOK_MAX_MS 30000 /* and never more slowly than this */
#define SOON_MS     5 /* a row that is due by now was found, or has a time that reads otherwise */
#define GATHER_MS   4 /* between two claims, while many rows are in hand */
#define GATHER_MANY 64
#define CAREFUL_MAX 16 /* rows in hand under marks */

/* --- where the rows go ------------------------------------------------------------------------ */

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
    const struct delivery_claim *cl = &ch->claim;
    if (cl->parked > 0) { /* it had rows of several owners */
        free(ch->main);
        ch->main = NULL;
        ch->several = true;
        ch->woken = ch->woken || (cl->newest && cl->found == cl->limit);
    }
    if (cl->claimed.count == 0 || cl->parked > 0)
        return;
    enum delivery_share_kind kind = DELIVERY_DESTINATION;
    char *main = common_key(&cl->claimed, kind);
    if (!main) {
        kind = DELIVERY_TENANT;
        main = common_key(&cl->claimed, kind);
    }
    bool same = main && ch->main && kind == ch->main_kind && strcmp(main, ch->main) == 0;
    if (cl->newest) {
        /* Behind the rows that were found there may be more for other destinations. */
        ch->woken = ch->woken || (!same && cl->found == cl->limit);
        free(main);
        return;
    }
    free(ch->main);
    ch->main = main;
    ch->main_kind = kind;
    ch->several = !main;
}

/* While most rows of a claim are put back, claims stay so small that other writers can wait for
 * the settlements that put them back. */
static void note_parked(struct delivery_channel *ch) DF_REQUIRES(ch->d->lock)
{
    const struct delivery_claim *cl = &ch->claim;
    int64_t took_ms = delivery_mono_ms(ch->d) - cl->begun_ms;

    if (cl->found == 0)
        return;
    if (!cl->newest)
        ch->crowded = cl->parked * 2 > cl->found;
    if (!ch->crowded)
        ch->most = ch->most * 2 < CLAIM_MAX ? ch->most * 2 : CLAIM_MAX;
    else if (took_ms > CROWD_MS)
        ch->most = ch->most / 2 > CROWD_MIN ? ch->most / 2 : CROWD_MIN;
    else if (took_ms < CROWD_MS / 4 && cl->found == cl->limit)
        ch->most = ch->most * 2 < CROWD_MAX ? ch->most * 2 : CROWD_MAX;
    ch->most = ch->crowded && ch->most > CROWD_MAX ? CROWD_MAX : ch->most;
}

/* --- when to look again ----------------------------------------------------------------------- */

static int64_t look_in_ms(const struct delivery_channel *ch, int64_t due_ms)
{
    int64_t poll_ms = ch->d->opt.poll_ms;
    int64_t wait_ms = due_ms < 0 ? poll_ms : due_ms - delivery_now(ch);

    wait_ms = wait_ms > poll_ms ? poll_ms : wait_ms;
    return delivery_mono_ms(ch->d) + (wait_ms > SOON_MS ? wait_ms : SOON_MS);
}

void delivery_plan_found(struct delivery_channel *ch)
{
    const struct delivery_claim *cl = &ch->claim;
    int64_t now_ms = delivery_mono_ms(ch->d);
    int64_t poll_ms = ch->d->opt.poll_ms;
    int64_t pause_ms = cl->took_ms * LOOK_SHARE;

    df_backoff_reset(&ch->backoff);
    pause_ms = pause_ms > LOOK_MAX_MS ? LOOK_MAX_MS : pause_ms;
    pause_ms = pause_ms > poll_ms ? pause_ms : poll_ms;
    if (cl->look != DELIVERY_LOOK_ON)
        ch->back_ms = now_ms + pause_ms;
    if (cl->look == DELIVERY_LOOK_WHOLE)
        ch->whole_ms = now_ms + pause_ms;
    if (cl->limit > 0 && !cl->newest)
        ch->cursor = cl->at;
    note_destinations(ch);
    note_parked(ch);
    /* More rows, and none of them could be taken: what they wait for takes a moment. */
    bool stuck = cl->taken == 0 && memcmp(&cl->at, &cl->from, sizeof(cl->at)) == 0;
    if (cl->limit > 0)
        ch->look_ms =
            cl->more ? now_ms + (stuck ? DELIVERY_STUCK_MS : 0) : look_in_ms(ch, cl->next_due_ms);
}

void delivery_plan_failed(struct delivery_channel *ch)
{
    ch->look_ms = delivery_mono_ms(ch->d) + df_backoff_more(&ch->backoff);
    ch->whole_ms = 0; /* it may have begun behind the cursor */
}

void delivery_plan_settled(struct delivery_channel *ch, const struct df_list *rows)
{
    const struct delivery_row *r;

    DF_LIST_EACH (r, rows, link) {
        if (r->stale) { /* its new content may be due for long */
            ch->woken = true;
            ch->whole_ms = 0;
        } else if (r->outcome == DELIVERY_RETRY || r->outcome == DELIVERY_DEFERRED) {
            int64_t look_ms = look_in_ms(ch, r->due_ms);
            ch->look_ms = look_ms < ch->look_ms ? look_ms : ch->look_ms;
        }
    }
}

/* --- how many --------------------------------------------------------------------------------- */

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

/* Rows that may be in hand at once. */
static size_t room_for_rows(const struct delivery_channel *ch, int64_t now_ms)
{
    size_t most = DELIVERY_HELD_MAX;
    size_t taken = ch->held;

    if (ch->careful_left > 0 && now_ms < ch->careful_ms) {
        most = ch->suspect ? 0 : CAREFUL_MAX;
        taken = ch->marked;
    }
    return taken < most ? most - taken : 0;
}

/* Rows of other channels that are about to be sent where this one's go. */
static size_t expected(const struct df_delivery *d, const struct delivery_channel *ch)
    DF_REQUIRES(d->lock)
{
    size_t rows = 0;

    for (size_t i = 0; ch->main && i < d->channel_count; i++) {
        const struct delivery_channel *o = d->channels[i];
        if (o != ch && o->main && o->main_kind == ch->main_kind && strcmp(o->main, ch->main) == 0)
            rows += o->ready.count + (o->is_claiming ? o->claim.limit : 0);
    }
    return rows;
}

/*
 * How many rows to claim, and when (*ret_at_ms, monotonic).
 *
 * If all rows of the last claim had one destination or tenant, the next claim takes no more than
 * that one has room for. If it has no room, new work causes a claim of the newest rows, which may
 * be for others. Older rows are looked at too: soon if the destination hangs, now and then if it is
 * only busy. `planned` rows, which wait for a target, are claimed beside.
 */
static size_t plan_due(struct df_delivery *d, const struct delivery_channel *ch, size_t planned,
                       bool *ret_newest, int64_t *ret_at_ms) DF_REQUIRES(d->lock)
{
    size_t room = room_for_rows(ch, delivery_mono_ms(d));
    const struct delivery_share *to =
        ch->main ? delivery_share_find(d, ch->main_kind, df_str_c(ch->main)) : NULL;
    size_t share = ch->several ? ch->most : to ? to->share : DELIVERY_SHARE_FIRST;
    size_t taken = (to ? to->in_flight : 0) + (ch->several ? 0 : planned + expected(d, ch));

    room = room > planned ? room - planned : 0;
    room = delivery_held_room(d, ch, room < CLAIM_MAX ? room : CLAIM_MAX);
    *ret_newest = ch->several && takes_newest(ch, delivery_mono_ms(d));
    *ret_at_ms = ch->woken ? 0 : ch->look_ms;
    if (ch->holding && !*ret_newest)
        return room; /* what only waits for its target needs no slot */
    if (taken < share && !*ret_newest)
        return room < share - taken ? room : share - taken;
    if (ch->woken && ch->c->claim_newest) {
        *ret_newest = true;
        *ret_at_ms = ch->several ? 0 : ch->newest_ms;
    } else if (to) {
        int64_t probe_ms = to->heard_ms + DELIVERY_STUCK_MS;
        probe_ms = probe_ms < ch->probe_ms ? probe_ms : ch->probe_ms;
        *ret_at_ms = ch->look_ms > probe_ms ? ch->look_ms : probe_ms;
    }
    size_t most = ch->several ? ch->most : PROBE_MAX;
    return room < most ? room : most;
}

/* Whether the channel pauses after a claim that failed. */
static bool is_backing_off(const struct delivery_channel *ch, int64_t now_ms)
{
    return ch->backoff.now_ms > 0 && now_ms < ch->look_ms;
}

/* Rows that wait for a target leave some room for others. */
static size_t room_for_held(struct df_delivery *d, const struct delivery_channel *ch)
    DF_REQUIRES(d->lock)
{
    size_t room = room_for_rows(ch, delivery_mono_ms(d));

    room = delivery_held_room(d, ch, room < CLAIM_MAX ? room : CLAIM_MAX);
    return room > 1 ? room - room / 4 : room;
}

/* Nothing is claimed before the engine knows what is paused. */
static bool may_claim(const struct df_delivery *d, const struct delivery_channel *ch)
    DF_REQUIRES(d->lock)
{
    int64_t epochs[DF_SHARDS];

    return !d->stopping && d->health_known && !ch->c->missing && !ch->paused &&
           df_shards_mine(ch->shards, epochs) != 0;
}

/* While many rows are in hand, claims are not made for each that comes back; and none while a
 * destination that looked as if it had room has none. */
static int64_t gathered_ms(const struct delivery_channel *ch)
{
    int64_t at_ms = ch->held >= GATHER_MANY ? ch->claimed_ms + GATHER_MS : 0;

    return at_ms > ch->full_ms ? at_ms : ch->full_ms;
}

/* --- where to begin --------------------------------------------------------------------------- */

static void plan_look(struct df_delivery *d, struct delivery_channel *ch, int64_t now_ms)
    DF_REQUIRES(d->lock)
{
    (void)d;
    struct delivery_claim *cl = &ch->claim;
    int64_t wall_ms = delivery_now(ch);
    int64_t least_ms = ch->since_ms < wall_ms ? ch->since_ms : wall_ms;
    int64_t last_ms = ch->cursor.due_ms < wall_ms ? ch->cursor.due_ms : wall_ms;

    cl->look = DELIVERY_LOOK_ON;
    cl->from = ch->cursor;
    cl->passed = ch->held;
    if (cl->limit == 0 || cl->newest)
        return;
    if (now_ms >= ch->whole_ms) {
        cl->look = DELIVERY_LOOK_WHOLE;
        least_ms = 0;
    } else if (now_ms >= ch->back_ms) {
        cl->look = DELIVERY_LOOK_BACK;
        least_ms = last_ms - BACK_MS;
    }
    ch->since_ms = INT64_MAX;
    if (cl->from.due_ms >= least_ms)
        cl->from = (struct delivery_cursor){.due_ms = least_ms};
    else
        cl->passed = 0; /* rows in hand lie before the cursor */
}

bool delivery_plan_claim(struct df_delivery *d, struct delivery_channel *ch, int64_t now_ms)
{
    struct delivery_claim *cl = &ch->claim;
    int64_t at_ms = 0;
    int64_t later_ms = INT64_MAX;

    if (ch->is_claiming || is_backing_off(ch, now_ms) || !may_claim(d, ch) ||
        now_ms < gathered_ms(ch))
        return false;
    size_t planned = delivery_targets_plan(d, ch, room_for_held(d, ch), &cl->wants, &later_ms);
    cl->limit = plan_due(d, ch, planned, &cl->newest, &at_ms);
    if (now_ms < at_ms)
        cl->limit = 0;
    if (cl->limit + cl->wants.count == 0)
        return false;
    cl->careful = ch->careful_left > 0 && now_ms < ch->careful_ms;
    cl->marked = ch->marked;
    cl->care_begins = ch->care_begins;
    ch->care_begins = false;
    plan_look(d, ch, now_ms);
    if (cl->limit > 0) {
        /* A claim of the oldest rows does not look at the new work; that needs a claim of the
         * newest. */
        ch->woken = ch->woken && ch->several && ch->crowded && !cl->newest;
        ch->took_newest = cl->newest;
        if (cl->newest)
            ch->newest_ms = now_ms + DELIVERY_STUCK_MS;
        ch->probe_ms = now_ms + d->opt.poll_ms;
    }
    ch->claimed_ms = now_ms;
    ch->is_claiming = true;
    return true;
}

int64_t delivery_plan_next(struct df_delivery *d, struct delivery_channel *ch, int64_t now_ms)
{
    struct delivery_wants wants;
    int64_t later_ms = INT64_MAX;
    int64_t at_ms = 0;
    bool newest;

    if (ch->is_claiming)
        return INT64_MAX;
    if (is_backing_off(ch, now_ms))
        return ch->look_ms;
    if (!may_claim(d, ch))
        return INT64_MAX;
    /* Without room there is nothing to do until a row comes back. */
    size_t planned = delivery_targets_plan(d, ch, room_for_held(d, ch), &wants, &later_ms);
    if (planned > 0)
        return gathered_ms(ch);
    at_ms = plan_due(d, ch, 0, &newest, &at_ms) > 0 ? at_ms : INT64_MAX;
    at_ms = at_ms < later_ms ? at_ms : later_ms;
    return at_ms > gathered_ms(ch) ? at_ms : gathered_ms(ch);
}

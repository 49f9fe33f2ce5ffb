/*
 * How targets are, as this process sees it: what arrived, whether the breaker lets rows pass,
 * whether a person paused it, and whether rows wait for it.
 *
 * The map is bounded: beyond TARGETS_MAX the one that was not used for the longest time goes, which
 * loses nothing, since health.c reads it again from the database when it is needed.
 *
 * A target that was read from the database, and for which no row was built yet, has no keys: its
 * breakers are as good as closed, as they are in a process that has just started.
 */
#include "base/log.h"
#include "base/mem.h"
#include "delivery/delivery_private.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#define TARGETS_MAX 1000
#define NAMES_MAX   200 /* shown by name in metrics */
#define PROBES_MAX  16  /* of one target in one cycle */

DF_METRIC_FAMILY(target_up) = {
    .name = "dataflow_target_up",
    .help = "1 while the target's breaker, and that of its host, is closed as this "
            "process sees it, else 0.",
    .type = DF_GAUGE,
    .labels = {"channel", "target"},
    .max_series = NAMES_MAX + 1,
};

/* --- the map ---------------------------------------------------------------------------------- */

static struct df_str target_key(const struct delivery_target *t)
{
    return df_str_n(t->key, t->key_len);
}

struct df_str delivery_target_name(const struct delivery_target *t)
{
    return df_str_n(t->key + t->name_at, t->key_len - t->name_at);
}

static void free_target(struct delivery_target *t)
{
    free(t->breaker);
    free(t->host);
    free(t->share);
    free(t);
}

/* What nothing but the database needs to know of any more. */
static bool may_be_forgotten(const struct delivery_target *t)
{
    return t->rows == 0 && t->unsaved == 0 && !t->dirty && !t->saving && !t->has_held && !t->down &&
           !t->paused && t->id > 0;
}

static void forget_one(struct df_delivery *d) DF_REQUIRES(d->lock)
{
    struct delivery_target *t, *oldest = NULL;

    for (size_t at = 0; (t = df_map_next(&d->targets, &at));)
        if (may_be_forgotten(t) && (!oldest || t->used_ms < oldest->used_ms))
            oldest = t;
    if (!oldest)
        return;
    (void)df_map_remove(&d->targets, target_key(oldest));
    free_target(oldest);
}

struct delivery_target *delivery_target_find(struct df_delivery *d,
                                             const struct delivery_channel *ch, struct df_str name)
{
    char key[DELIVERY_TARGET_MAX + 64];
    int len = snprintf(key, sizeof(key), "%s " DF_STR_FMT, ch->c->name, DF_STR_ARG(name));

    return len > 0 && (size_t)len < sizeof(key)
               ? df_map_get(&d->targets, df_str_n(key, (size_t)len))
               : NULL;
}

struct delivery_target *delivery_target_get(struct df_delivery *d, struct delivery_channel *ch,
                                            struct df_str name)
{
    struct df_str channel = df_str_c(ch->c->name);

    assert(name.len <= DELIVERY_TARGET_MAX);
    struct delivery_target *t = delivery_target_find(d, ch, name);
    if (!t) {
        if (d->targets.count >= TARGETS_MAX)
            forget_one(d);
        t = df_calloc(1, sizeof(*t) + channel.len + 1 + name.len + 1);
        t->channel = ch;
        t->name_at = channel.len + 1;
        t->key_len = channel.len + 1 + name.len;
        memcpy(t->key, channel.ptr, channel.len);
        t->key[channel.len] = ' ';
        if (name.len > 0)
            memcpy(t->key + t->name_at, name.ptr, name.len);
        t->up = df_metric_get(&target_up, (const struct df_str[]){channel, name});
        df_metric_set(t->up, 1);
        t->down_told = true;
        df_map_add(&d->targets, target_key(t), t);
    }
    t->used_ms = delivery_mono_ms(d);
    return t;
}

void delivery_targets_free(struct df_delivery *d)
{
    struct delivery_target *t;

    for (size_t at = 0; (t = df_map_next(&d->targets, &at));)
        free_target(t);
    df_map_release(&d->targets);
}

/* --- rows of a target ------------------------------------------------------------------------- */

/* The URL without credentials, query and fragment. */
static struct df_str target_of_url(struct df_arena *a, const char *url)
{
    char destination[DF_DESTINATION_SIZE];
    struct df_err err = DF_ERR_INIT;
    struct df_url u;

    if (df_url_parse(df_str_c(url), &u, &err) != DF_OK)
        return DF_STR("invalid URL");
    struct df_str path = u.rest;
    for (size_t i = 0; i < path.len; i++)
        if (path.ptr[i] == '?' || path.ptr[i] == '#')
            path.len = i;
    struct df_str host = df_url_destination(&u, destination);
    struct df_str name =
        df_arena_printf(a, DF_STR_FMT DF_STR_FMT, DF_STR_ARG(host), DF_STR_ARG(path));
    return df_utf8_cut(df_str_n(name.ptr, df_utf8_valid_prefix(name)), DELIVERY_TARGET_MAX);
}

static void set_key(char **at, struct df_str key)
{
    if (*at && df_str_eq(df_str_c(*at), key))
        return;
    free(*at);
    *at = key.ptr ? df_strdup(key) : NULL;
}

void delivery_target_join(struct delivery_row *row)
{
    struct df_delivery *d = row->channel->d;
    char host[DF_DESTINATION_SIZE];
    struct df_str name = row->request.target;

    assert(!row->target && !row->channel->c->schedule);
    if (name.len == 0 || name.len > DELIVERY_TARGET_MAX)
        name = target_of_url(&row->arena, row->request.url);
    if (!row->request.breaker.ptr)
        row->breaker =
            df_arena_printf(&row->arena, "%s " DF_STR_FMT, row->channel->c->name, DF_STR_ARG(name));
    df_lock(&d->lock);
    struct delivery_target *t = delivery_target_get(d, row->channel, name);
    set_key(&t->breaker, row->breaker);
    set_key(&t->share, row->key);
    set_key(&t->host,
            row->request.tenant.len > 0 ? DF_STR_NULL : df_destination_of(row->request.url, host));
    t->rows++;
    row->target = t;
    row->arrived_before = t->known ? t->saved + t->unsaved : -1;
    if (t->id == 0)
        delivery_health_hurry(d);
    df_unlock(&d->lock);
}

void delivery_target_leave(struct delivery_row *row)
{
    struct df_delivery *d = row->channel->d;

    if (!row->target)
        return;
    df_lock(&d->lock);
    assert(row->target->rows > 0);
    row->target->rows--;
    df_unlock(&d->lock);
    row->target = NULL;
}

/* --- may rows pass? --------------------------------------------------------------------------- */

static struct df_out_gate gate_of(struct df_delivery *d, const struct delivery_target *t)
    DF_REQUIRES(d->lock)
{
    struct df_out_gate gate =
        df_outbound_look(d->opt.outbound, t->breaker ? df_str_c(t->breaker) : DF_STR_NULL,
                         t->host ? df_str_c(t->host) : DF_STR_NULL);
    int64_t shut_ms = t->shut_until_ms - delivery_mono_ms(d);

    if (!gate.closed && shut_ms > 0) {
        gate.permits = 0;
        gate.wait_ms = gate.wait_ms > shut_ms ? gate.wait_ms : shut_ms;
    }
    return gate;
}

int64_t df_delivery_probe_ms(struct df_delivery *d, struct df_str channel, struct df_str target)
{
    char key[DELIVERY_TARGET_MAX + 64];
    int len = snprintf(key, sizeof(key), DF_STR_FMT " " DF_STR_FMT, DF_STR_ARG(channel),
                       DF_STR_ARG(target));
    int64_t at_ms = -1;

    if (len <= 0 || (size_t)len >= sizeof(key))
        return -1;
    df_lock(&d->lock);
    const struct delivery_target *t = df_map_get(&d->targets, df_str_n(key, (size_t)len));
    if (t && !t->paused) {
        struct df_out_gate gate = gate_of(d, t);
        at_ms = gate.closed ? -1 : df_wall_ms(d->opt.clock) + gate.wait_ms;
    }
    df_unlock(&d->lock);
    return at_ms;
}

int64_t df_delivery_next_ms(struct df_delivery *d, const char *channel, struct df_str held_for,
                            int64_t due_ms)
{
    int64_t probe_ms = d && held_for.ptr && due_ms >= 0
                           ? df_delivery_probe_ms(d, df_str_c(channel), held_for)
                           : -1;

    return probe_ms >= 0 ? probe_ms : due_ms;
}

const char *delivery_target_blocks(struct df_delivery *d, const struct delivery_row *row)
{
    const struct delivery_target *t = row->target;

    if (!t || t->id == 0)
        return NULL;
    if (t->paused)
        return "the target is paused";
    struct df_out_gate gate = gate_of(d, t);
    if (gate.closed || (row->probe && gate.permits > 0))
        return NULL;
    return "the circuit breaker of the target is open";
}

/* Writes a line of the log, and the metric, when the target went down or came back. */
struct turn {
    bool made;
    bool down;
};

static struct turn note_gate(struct delivery_target *t, bool closed, int64_t now_ms)
{
    struct turn turn = {.made = t->down == closed, .down = !closed};

    if (turn.made) {
        t->down = !closed;
        t->down_since_ms = now_ms;
        t->dirty = true;
        t->down_told = false;
        df_metric_set(t->up, closed);
    }
    return turn;
}

static void log_turn(struct turn turn, const char *channel, struct df_str name)
{
    struct df_log_field fields[] = {DF_F("channel", df_str_c(channel)), DF_F("target", name)};

    if (turn.made && turn.down)
        df_log_write(DF_LOG_WARN, "DeliveryTargetDown", fields, 2,
                     "rows wait until the target is back; their failures do not count meanwhile");
    else if (turn.made)
        df_log_write(DF_LOG_INFO, "DeliveryTargetUp", fields, 2, "the target takes rows again");
}

void delivery_targets_check(struct df_delivery *d)
{
    struct {
        struct turn turn;
        const char *channel;
        char name[DELIVERY_TARGET_MAX + 1];
    } *turns = NULL;
    size_t count = 0;
    struct delivery_target *t;

    df_lock(&d->lock);
    for (size_t at = 0; (t = df_map_next(&d->targets, &at));) {
        struct turn turn = note_gate(t, gate_of(d, t).closed, df_wall_ms(d->opt.clock));
        if (!turn.made)
            continue;
        turns = df_realloc(turns, (count + 1) * sizeof(*turns));
        turns[count].turn = turn;
        turns[count].channel = t->channel->c->name;
        (void)snprintf(turns[count].name, sizeof(turns[count].name), DF_STR_FMT,
                       DF_STR_ARG(delivery_target_name(t)));
        count++;
    }
    df_unlock(&d->lock);
    for (size_t i = 0; i < count; i++)
        log_turn(turns[i].turn, turns[i].channel, df_str_c(turns[i].name));
    free(turns);
}

/* --- what came of a row ----------------------------------------------------------------------- */

struct delivery_health_view delivery_target_told(struct delivery_row *row)
{
    struct df_delivery *d = row->channel->d;
    struct delivery_target *t = row->target;
    const struct df_out *out = &row->out;
    int64_t now_ms = delivery_now(row->channel);

    df_lock(&d->lock);
    struct df_out_gate gate = gate_of(d, t);
    struct turn turn = note_gate(t, gate.closed, now_ms);
    t->used_ms = delivery_mono_ms(d);
    if (out->verdict == DF_OUT_OK) {
        t->unsaved++;
        t->last_arrived_ms = now_ms;
    } else if (out->verdict == DF_OUT_AGAIN) {
        t->dirty = true;
        t->last_failed_ms = now_ms;
        (void)snprintf(t->error, sizeof(t->error), DF_STR_FMT,
                       DF_STR_ARG(df_utf8_cut(row->error, sizeof(t->error) / 4)));
    }
    if (out->verdict == DF_OUT_AGAIN && !gate.closed && out->call.retry_after_ms > 0) {
        int64_t most_ms = d->opt.settings.retry.cap_ms;
        t->shut_until_ms =
            t->used_ms + (out->call.retry_after_ms < most_ms ? out->call.retry_after_ms : most_ms);
    }
    struct delivery_health_view view = {
        .known = t->known,
        .is_well = gate.closed,
        .hold_for = !gate.closed || t->paused ? t->id : 0,
        .arrived = t->saved + t->unsaved,
    };
    view.arrived_before = row->arrived_before >= 0 && row->arrived_before < view.arrived
                              ? row->arrived_before
                              : view.arrived;
    df_unlock(&d->lock);
    log_turn(turn, row->channel->c->name, delivery_target_name(t)); /* the row holds the target */
    return view;
}

/* --- rows that wait for a target -------------------------------------------------------------- */

/* How many rows that wait for the target may be claimed now; *at_ms moves to when there may be
 * more. A destination that has its share has room again when a row comes back. What this foresees
 * wrongly is found full when it is sent, and then all wait a little: else the same rows would be
 * claimed and put back without a pause. */
static size_t rows_wanted(struct df_delivery *d, const struct delivery_target *t, bool *ret_probe,
                          int64_t *at_ms) DF_REQUIRES(d->lock)
{
    if (!t->has_held || t->paused || t->id == 0)
        return 0;
    if (delivery_mono_ms(d) < t->full_until_ms) {
        *at_ms = t->full_until_ms < *at_ms ? t->full_until_ms : *at_ms;
        return 0;
    }
    struct df_out_gate gate = gate_of(d, t);
    const struct delivery_share *to =
        t->share ? delivery_share_find(d, DELIVERY_DESTINATION, df_str_c(t->share)) : NULL;
    size_t room = delivery_share_room(d, to, t->channel->row_bytes);

    room = t->most > 0 && t->most < room ? t->most : room;
    *ret_probe = !gate.closed;
    if (gate.closed)
        return room;
    int64_t wait_ms = delivery_mono_ms(d) + gate.wait_ms;
    if (gate.permits == 0 && gate.wait_ms > 0 && wait_ms < *at_ms)
        *at_ms = wait_ms;
    int64_t probes = gate.permits < PROBES_MAX ? gate.permits : PROBES_MAX;
    return (size_t)probes < room ? (size_t)probes : room;
}

size_t delivery_targets_plan(struct df_delivery *d, struct delivery_channel *ch, size_t room,
                             struct delivery_wants *ret, int64_t *at_ms)
{
    size_t planned = 0;
    struct delivery_target *t;

    ret->count = 0;
    /* Two rounds: from where the last plan ended to the end, then from the beginning. */
    for (int round = 0; round < 2; round++) {
        size_t at = round == 0 ? ch->turn_at : 0;
        while (ret->count < DELIVERY_WANTS && (round == 0 || at < ch->turn_at) &&
               (t = df_map_next(&d->targets, &at))) {
            bool probe = false;
            if (round == 1 && at > ch->turn_at)
                break; /* the first round had it */
            if (t->channel != ch)
                continue;
            size_t wanted = rows_wanted(d, t, &probe, at_ms);
            wanted = wanted < room - planned ? wanted : room - planned;
            if (wanted == 0)
                continue;
            ret->at[ret->count++] = (struct delivery_want){
                .of = t, .id = t->id, .limit = wanted, .in_hand = t->rows, .probe = probe};
            planned += wanted;
            ret->turn_at = at;
        }
    }
    return planned;
}

/* A claim takes no more rows than the last one could keep, and twice as many after each that could
 * keep all. */
static void note_want(struct df_delivery *d, const struct delivery_want *w) DF_REQUIRES(d->lock)
{
    struct delivery_target *t = w->of;

    t->used_ms = delivery_mono_ms(d);
    if (w->put_back > 0) {
        t->most = w->found > w->put_back ? w->found - w->put_back : 1;
        t->full_until_ms = t->used_ms + DELIVERY_PARK_MS;
        return;
    }
    if (w->more && w->found == 0)
        t->full_until_ms = t->used_ms + DELIVERY_STUCK_MS; /* what they wait for takes a moment */
    else if (!w->more)
        t->has_held = false;
    else
        t->most = t->most < DELIVERY_HELD_MAX ? t->most * 2 : 0;
}

void delivery_targets_claimed(struct delivery_channel *ch)
{
    const struct delivery_wants *wants = &ch->claim.wants;

    for (size_t i = 0; i < wants->count; i++)
        note_want(ch->d, &wants->at[i]);
    if (wants->count > 0)
        ch->turn_at = wants->turn_at;
}

void delivery_targets_settled(struct delivery_channel *ch, const struct df_list *rows)
{
    const struct delivery_row *r;

    (void)ch;
    DF_LIST_EACH (r, rows, link)
        if (r->held_for > 0 && r->target && !r->stale)
            r->target->has_held = true;
}

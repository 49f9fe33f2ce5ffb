#include "resilience/limiter.h"

#include "base/list.h"
#include "base/lock.h"
#include "base/map.h"
#include "base/mem.h"
#include "resilience/window.h"

#include <stdlib.h>

#define SECOND_NS     INT64_C(1000000000)
#define MINUTE_NS     (60 * SECOND_NS)
#define RESERVE_SHARE 20              /* of the limit is reserved at a time */
#define EXCESS_SHARE  10              /* of the limit may be reserved beyond it, in all */
#define DENIED_NS     (SECOND_NS / 4) /* until the others are asked again */
#define SWEEP         256             /* entries checked when there is no room */

struct entry {
    struct df_link link;
    char key[DF_LIMITER_KEY_MAX + 1];
    int64_t limit; /* per minute, as last given; 0: none */
    struct df_window window;

    /* Shared with other processes. */
    int64_t reserved;  /* may be admitted without asking */
    int64_t waiting;   /* were told to ask, since the last report */
    int64_t denied_ns; /* until then there is nothing to be had; 0: ask */
    int64_t others_ns; /* the oldest request elsewhere is not older than this */

    int64_t asked; /* since demand was last computed, admitted or not */
    bool quiet;    /* not asked for anything since then */
    double demand; /* a minute */
    int64_t held;
    struct df_limiter_use elsewhere;
    bool listed; /* of df_limiter_settle: elsewhere was given */

    int64_t refused;
    int64_t told_ns; /* when a refusal was last logged; -1: never */
};

struct df_limiter {
    const struct df_clock *clock;
    struct df_mutex lock;
    struct df_map entries DF_GUARDED_BY(lock);
    struct df_list looked_at
        DF_GUARDED_BY(lock); /* all entries, in the order in which make_room checks them */
    int64_t counted_ns DF_GUARDED_BY(lock); /* when demand was last computed */
    int64_t heard_ns DF_GUARDED_BY(lock);   /* when the others were last heard of */
    bool reserves DF_GUARDED_BY(lock);      /* shared, and the others can be asked */
    bool shared;
};

struct df_limiter *df_limiter_new(const struct df_clock *clock, bool shared)
{
    struct df_limiter *l = df_calloc(1, sizeof *l);
    df_mutex_init(&l->lock);
    l->clock = clock;
    l->shared = l->reserves = shared;
    l->counted_ns = l->heard_ns = df_mono_ns(clock);
    return l;
}

static void free_entry(struct entry *e)
{
    df_window_release(&e->window);
    free(e);
}

void df_limiter_free(struct df_limiter *l)
{
    if (!l)
        return;
    struct entry *e;
    for (size_t at = 0; (e = df_map_next(&l->entries, &at));)
        free_entry(e);
    df_map_release(&l->entries);
    df_mutex_destroy(&l->lock);
    free(l);
}

/* --- entries; all of this under the lock --- */

static bool at_rest(const struct entry *e)
{
    return e->window.calls == 0 && e->held == 0 && e->reserved == 0 && e->waiting == 0;
}

/* Makes room for one more: removes entries at rest, here and elsewhere. Checks a few each time. */
static void make_room(struct df_limiter *l, int64_t now) DF_REQUIRES(l->lock)
{
    for (size_t i = 0; i < SWEEP; i++) {
        struct entry *e = DF_LIST_TAKE(&l->looked_at, struct entry, link);
        df_window_advance(&e->window, now);
        if (!at_rest(e) || e->elsewhere.requests || e->elsewhere.held) {
            df_list_add(&l->looked_at, &e->link);
            continue;
        }
        (void)df_map_remove(&l->entries, df_str_c(e->key));
        free_entry(e);
    }
}

/* Finds or adds the key's entry; NULL: too many are active. */
static struct entry *get_entry(struct df_limiter *l, struct df_str key, int64_t now)
    DF_REQUIRES(l->lock)
{
    struct entry *e = df_map_get(&l->entries, key);
    if (e || key.len > DF_LIMITER_KEY_MAX)
        return e;
    if (l->entries.count >= DF_LIMITER_MAX)
        make_room(l, now);
    if (l->entries.count >= DF_LIMITER_MAX)
        return NULL;
    e = df_calloc(1, sizeof *e);
    memcpy(e->key, key.ptr, key.len);
    e->told_ns = -1;
    df_map_add(&l->entries, df_str_n(e->key, key.len), e);
    df_list_add(&l->looked_at, &e->link);
    return e;
}

/* --- the rule --- */

static int64_t lesser(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t at_least_0(int64_t n)
{
    return n > 0 ? n : 0;
}

/* A new limit starts empty: earlier requests do not count. A changed limit goes on with what is
 * left. */
static void set_limit(struct entry *e, int64_t limit)
{
    if (e->limit == limit)
        return;
    if (e->limit == 0)
        df_window_release(&e->window);
    e->limit = limit;
    e->denied_ns = 0;
    e->reserved = lesser(e->reserved, at_least_0(limit - e->window.calls));
}

static int64_t join_ns_of(int64_t limit)
{
    if (limit == 0)
        return DF_WINDOW_LOOSE_NS;
    return limit <= DF_WINDOW_RUNS ? 0 : DF_WINDOW_JOIN_NS;
}

static int64_t reserve_of(int64_t limit)
{
    return limit / RESERVE_SHARE > 1 ? limit / RESERVE_SHARE : 1;
}

/* When there may be more: when the oldest request leaves the minute, here or, if there is none
 * here, elsewhere. */
static int64_t frees_ns(const struct entry *e, int64_t now)
{
    if (e->window.calls > 0)
        return df_window_frees_ns(&e->window, now);
    int64_t there = e->others_ns + MINUTE_NS;
    return e->elsewhere.requests > 0 && there > now + SECOND_NS ? there : now + SECOND_NS;
}

static void fill_answer(const struct entry *e, int64_t now, struct df_limiter_answer *a)
{
    a->remaining = at_least_0(e->limit - e->window.calls - e->elsewhere.requests);
    a->reset_s = (frees_ns(e, now) - now + SECOND_NS - 1) / SECOND_NS;
}

static void refuse_request(struct entry *e, int64_t now, struct df_limiter_answer *a)
{
    a->remaining = 0;
    a->wait_ms = (frees_ns(e, now) - now + 999999) / 1000000;
    e->refused++;
    a->tell = e->told_ns < 0 || now - e->told_ns >= MINUTE_NS;
    a->refused = e->refused;
    if (a->tell) {
        e->told_ns = now;
        e->refused = 0;
    }
}

/* What the entry wants beyond its reserve: enough for those that wait, and to go on for a while. Of
 * a small limit nothing is kept back: the others would miss it. */
static int64_t wanted_by(const struct entry *e)
{
    int64_t reserve = reserve_of(e->limit);
    if (e->waiting == 0 && !(reserve > 1 && !e->quiet && e->reserved <= reserve / 2))
        return 0;
    int64_t want = (e->waiting > reserve ? e->waiting : reserve) - e->reserved;
    return at_least_0(lesser(want, e->limit - e->window.calls - e->reserved));
}

/* Whether the others have to be asked before this request can be judged. */
static bool must_ask(const struct entry *e, int64_t now)
{
    return e->reserved == 0 && e->window.calls < e->limit && now >= e->denied_ns;
}

static void take_request(struct entry *e, bool reserves, int64_t now, struct df_limiter_answer *a)
{
    e->quiet = false;
    if (reserves && must_ask(e, now)) {
        e->waiting++;
        *a = (struct df_limiter_answer){.ask = true};
        return;
    }
    e->asked++;
    a->admitted = reserves ? e->window.calls < e->limit && e->reserved > 0
                           : e->window.calls + e->elsewhere.requests < e->limit;
    if (a->admitted) {
        df_window_add(&e->window, now, join_ns_of(e->limit));
        e->reserved = reserves ? e->reserved - 1 : 0;
        a->soon = reserves && wanted_by(e) > 0 && now >= e->denied_ns;
    }
    fill_answer(e, now, a);
    if (!a->admitted)
        refuse_request(e, now, a);
}

void df_limiter_take(struct df_limiter *l, struct df_str key, int64_t per_minute,
                     struct df_limiter_answer *ret)
{
    int64_t now = df_mono_ns(l->clock);
    *ret = (struct df_limiter_answer){.admitted = true, .remaining = per_minute};
    df_lock(&l->lock);
    struct entry *e = get_entry(l, key, now);
    if (e) {
        df_window_advance(&e->window, now);
        set_limit(e, per_minute);
        if (per_minute > 0)
            take_request(e, l->reserves, now, ret);
        else
            df_window_add(&e->window, now, join_ns_of(0));
    }
    df_unlock(&l->lock);
}

/* --- in hand --- */

bool df_limiter_hold(struct df_limiter *l, struct df_str key, int64_t most)
{
    bool room = true;
    df_lock(&l->lock);
    struct entry *e = get_entry(l, key, df_mono_ns(l->clock));
    if (e) {
        room = most <= 0 || e->held + e->elsewhere.held < most;
        e->held += room;
    }
    df_unlock(&l->lock);
    return room;
}

void df_limiter_drop(struct df_limiter *l, struct df_str key)
{
    df_lock(&l->lock);
    struct entry *e = df_map_get(&l->entries, key);
    if (e && e->held > 0)
        e->held--;
    df_unlock(&l->lock);
}

void df_limiter_look(struct df_limiter *l, struct df_str key, struct df_limiter_use *ret)
{
    int64_t now = df_mono_ns(l->clock);
    *ret = (struct df_limiter_use){0};
    df_lock(&l->lock);
    struct entry *e = df_map_get(&l->entries, key);
    if (e) {
        df_window_advance(&e->window, now);
        *ret = e->elsewhere;
        memcpy(ret->key, e->key, sizeof ret->key);
        ret->requests += e->window.calls;
        ret->demand += (int64_t)e->demand;
        ret->held += e->held;
    }
    df_unlock(&l->lock);
}

/* --- between processes --- */

/* Half of the old demand is kept, as one second says little. */
static void compute_demand(struct entry *e, double minutes)
{
    double lately = (double)e->asked / minutes;
    e->demand = e->demand < 1 ? lately : (e->demand + lately) / 2;
    e->asked = 0;
}

/* False: the entry is at rest. */
static bool report_entry(struct entry *e, bool reserves, struct df_limiter_use *ret)
{
    if (e->quiet)
        e->reserved = 0;
    *ret = (struct df_limiter_use){.demand = (int64_t)e->demand,
                                   .held = e->held,
                                   .limit = e->limit,
                                   .wanted = reserves ? wanted_by(e) : 0};
    ret->requests = e->window.calls + e->reserved;
    memcpy(ret->key, e->key, sizeof ret->key);
    bool rests = at_rest(e) && e->demand < 1;
    e->waiting = 0;
    return !rests;
}

size_t df_limiter_report(struct df_limiter *l, struct df_limiter_use **ret)
{
    size_t n = 0;
    int64_t now = df_mono_ns(l->clock);
    df_lock(&l->lock);
    bool second = now - l->counted_ns >= SECOND_NS;
    double minutes = (double)(now - l->counted_ns) / (double)MINUTE_NS;
    struct df_limiter_use *out = df_calloc(l->entries.count + (size_t)1, sizeof *out);
    struct entry *e;
    for (size_t at = 0; (e = df_map_next(&l->entries, &at));) {
        if (e->limit == 0 && e->held == 0)
            continue;
        df_window_advance(&e->window, now);
        if (second)
            compute_demand(e, minutes);
        n += report_entry(e, l->shared, &out[n]);
        if (second)
            e->quiet = true;
    }
    if (second)
        l->counted_ns = now;
    df_unlock(&l->lock);
    *ret = out;
    return n;
}

size_t df_limiter_leave(struct df_limiter *l, struct df_limiter_use **ret)
{
    size_t n = 0;
    int64_t now = df_mono_ns(l->clock);
    df_lock(&l->lock);
    struct df_limiter_use *out =
        df_calloc((l->entries.count + (size_t)1) * DF_LIMITER_AGES, sizeof *out);
    struct entry *e;
    for (size_t at = 0; (e = df_map_next(&l->entries, &at));) {
        int64_t calls[DF_LIMITER_AGES] = {0};
        df_window_advance(&e->window, now);
        if (e->limit > 0)
            df_window_ages(&e->window, now, DF_LIMITER_AGES, calls);
        for (size_t i = 0; i < DF_LIMITER_AGES; i++) {
            if (calls[i] == 0)
                continue;
            out[n].requests = calls[i];
            out[n].age_ms = (int64_t)i * 60000 / DF_LIMITER_AGES;
            memcpy(out[n++].key, e->key, sizeof e->key);
        }
    }
    df_unlock(&l->lock);
    *ret = out;
    return n;
}

int64_t df_limiter_written_ago_ms(const struct df_limiter_use *part)
{
    return part->age_ms + DF_LIMITER_SLACK_MS;
}

int64_t df_limiter_grant(const struct df_limiter_use *mine, int64_t elsewhere)
{
    int64_t most = mine->limit + mine->limit / EXCESS_SHARE;
    return at_least_0(lesser(mine->wanted, most - elsewhere - mine->requests));
}

/* Between the report and this, requests were admitted from the reserve and old ones left the
 * minute: together they only became fewer. */
static void settle_reserve(struct entry *e, const struct df_limiter_use *mine, int64_t now)
{
    int64_t room = at_least_0(mine->limit - e->window.calls - e->reserved);
    e->reserved += lesser(mine->granted, room);
    if (mine->granted < mine->wanted)
        e->denied_ns = lesser(now + DENIED_NS, frees_ns(e, now));
}

static void settle_elsewhere(struct entry *e, const struct df_limiter_use *use, int64_t now)
{
    if (e->elsewhere.requests == 0)
        e->others_ns = now;
    else if (use->requests < e->elsewhere.requests) /* the oldest just left; the next may be near */
        e->others_ns = now - MINUTE_NS;
    e->elsewhere = *use;
}

void df_limiter_settle(struct df_limiter *l, const struct df_limiter_use *mine, size_t mine_count,
                       const struct df_limiter_use *others, size_t other_count)
{
    static const struct df_limiter_use nothing;
    int64_t now = df_mono_ns(l->clock);
    struct entry *e;
    df_lock(&l->lock);
    l->reserves = l->shared;
    l->heard_ns = now;
    for (size_t at = 0; (e = df_map_next(&l->entries, &at));)
        e->listed = false;
    for (size_t i = 0; i < other_count; i++) {
        e = get_entry(l, df_str_c(others[i].key), now);
        if (!e)
            continue;
        settle_elsewhere(e, &others[i], now);
        e->listed = true;
    }
    for (size_t at = 0; (e = df_map_next(&l->entries, &at));)
        if (!e->listed)
            settle_elsewhere(e, &nothing, now);
    for (size_t i = 0; i < mine_count; i++) {
        e = df_map_get(&l->entries, df_str_c(mine[i].key));
        if (!e)
            continue;
        df_window_advance(&e->window, now);
        settle_reserve(e, &mine[i], now);
    }
    df_unlock(&l->lock);
}

void df_limiter_alone(struct df_limiter *l)
{
    static const struct df_limiter_use nothing;
    int64_t now = df_mono_ns(l->clock);
    struct entry *e;
    df_lock(&l->lock);
    l->reserves = false;
    if (now - l->heard_ns >= MINUTE_NS)
        for (size_t at = 0; (e = df_map_next(&l->entries, &at));)
            settle_elsewhere(e, &nothing, now);
    df_unlock(&l->lock);
}

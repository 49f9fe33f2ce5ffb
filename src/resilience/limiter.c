#include "resilience/limiter.h"

#include "base/list.h"
#include "base/lock.h"
#include "base/map.h"
#include "base/mem.h"

#include <stdlib.h>

#define SECOND_NS   INT64_C(1000000000)
#define MINUTE_NS   (60 * SECOND_NS)
#define TICK_NS     (SECOND_NS / 2)
#define TICKS       121 /* a minute, and the tick that is going on */
#define BURST_SHARE 20
#define BURST_LEAST 5
#define SHARE_LEAST 0.01 /* of the limit: who was not heard of yet gets at least that */
#define SWEEP       256  /* entries looked at when there is no room */

struct entry {
    struct df_link link;
    char key[DF_LIMITER_KEY_MAX + 1];
    int64_t limit; /* a minute, as it was last given; 0: none */

    /* The sliding minute: admitted in each tick, the sum, and the first tick that has any. */
    uint32_t ticks[TICKS];
    int64_t sum;
    int64_t tick;
    int64_t oldest;

    double tokens;
    int64_t at_ns;

    int64_t asked; /* since the last report, admitted or not */
    double demand; /* a minute */
    int64_t held;
    struct df_limiter_use elsewhere;

    int64_t refused;
    int64_t told_ns; /* when a refusal was last worth telling; -1: never */
};

struct df_limiter {
    const struct df_clock *clock;
    struct df_mutex lock;
    struct df_map entries DF_GUARDED_BY(lock);
    struct df_list looked_at DF_GUARDED_BY(lock); /* all of them; for room, the longest ago first */
    int64_t reported_ns DF_GUARDED_BY(lock);
};

struct df_limiter *df_limiter_new(const struct df_clock *clock)
{
    struct df_limiter *l = df_calloc(1, sizeof *l);
    df_mutex_init(&l->lock);
    l->clock = clock;
    l->reported_ns = df_mono_ns(clock);
    return l;
}

void df_limiter_free(struct df_limiter *l)
{
    if (!l)
        return;
    struct entry *e;
    for (size_t at = 0; (e = df_map_next(&l->entries, &at));)
        free(e);
    df_map_release(&l->entries);
    df_mutex_destroy(&l->lock);
    free(l);
}

/* --- entries; all of this under the lock --- */

/* Ticks that have left the minute are taken off. */
static void advance(struct entry *e, int64_t now)
{
    int64_t tick = now / TICK_NS;
    if (tick - e->tick >= TICKS) {
        memset(e->ticks, 0, sizeof e->ticks);
        e->sum = 0;
        e->tick = tick;
    }
    while (e->tick < tick) {
        uint32_t *slot = &e->ticks[++e->tick % TICKS];
        e->sum -= *slot;
        *slot = 0;
    }
    if (e->oldest < tick - TICKS + 1)
        e->oldest = tick - TICKS + 1;
    while (e->oldest < tick && e->ticks[e->oldest % TICKS] == 0)
        e->oldest++;
}

static bool at_rest(const struct entry *e)
{
    return e->sum == 0 && e->held == 0;
}

/* Room for one more: whoever has nothing here or elsewhere goes. A few are looked at each time. */
static void make_room(struct df_limiter *l, int64_t now) DF_REQUIRES(l->lock)
{
    for (size_t i = 0; i < SWEEP; i++) {
        struct entry *e = DF_LIST_TAKE(&l->looked_at, struct entry, link);
        advance(e, now);
        if (!at_rest(e) || e->elsewhere.requests || e->elsewhere.held) {
            df_list_add(&l->looked_at, &e->link);
            continue;
        }
        (void)df_map_remove(&l->entries, df_str_c(e->key));
        free(e);
    }
}

/* NULL: too many are active. */
static struct entry *get(struct df_limiter *l, struct df_str key, int64_t now) DF_REQUIRES(l->lock)
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
    e->at_ns = now;
    e->tick = e->oldest = now / TICK_NS;
    e->told_ns = -1;
    df_map_add(&l->entries, df_str_n(e->key, key.len), e);
    df_list_add(&l->looked_at, &e->link);
    return e;
}

/* --- the rules --- */

static int64_t burst_of(int64_t limit)
{
    int64_t burst = limit / BURST_SHARE > BURST_LEAST ? limit / BURST_SHARE : BURST_LEAST;
    return burst < limit ? burst : limit;
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/*
 * What of the limit this process may give, from 0 to 1: what the others leave over or, where all
 * together want more than there is, its part of the demand.
 */
static double share_of(const struct entry *e)
{
    double others = (double)e->elsewhere.demand, limit = (double)e->limit;
    if (others <= 0)
        return 1;
    double part = e->demand / (e->demand + others);
    return larger(larger(part, 1 - others / limit), SHARE_LEAST);
}

/* The bucket's rate, a nanosecond, and its size. */
struct pace {
    double per_ns;
    double size;
};

static struct pace pace_of(const struct entry *e)
{
    double share = share_of(e);
    return (struct pace){.per_ns = share * (double)e->limit / (double)MINUTE_NS,
                         .size = larger(share * (double)burst_of(e->limit), 1)};
}

/* A limit begins when it is set: what went before does not count. One that changed goes on with
 * what is left of it. */
static void set_limit(struct entry *e, int64_t limit, int64_t now)
{
    if (e->limit == limit)
        return;
    if (e->limit == 0) {
        memset(e->ticks, 0, sizeof e->ticks);
        e->sum = 0;
        e->oldest = e->tick;
        e->tokens = (double)burst_of(limit);
        e->at_ns = now;
    }
    e->limit = limit;
}

static void refill(struct entry *e, const struct pace *p, int64_t now)
{
    e->tokens += (double)(now - e->at_ns) * p->per_ns;
    e->at_ns = now;
    if (e->tokens > p->size)
        e->tokens = p->size;
}

static int64_t seconds_up(double ns)
{
    int64_t s = (int64_t)(ns / (double)SECOND_NS);
    return (double)(s * SECOND_NS) < ns ? s + 1 : s;
}

static void fill_answer(const struct entry *e, const struct pace *p, int64_t now,
                        struct df_limiter_answer *a)
{
    int64_t left = e->limit - e->sum - e->elsewhere.requests;
    int64_t frees_ns = (e->oldest + TICKS) * TICK_NS - now;
    double tokens = e->tokens + 1e-6;

    a->remaining = left > 0 ? left : 0;
    a->reset_s = e->sum > 0 ? seconds_up((double)frees_ns) : 1;
    a->burst = burst_of(e->limit);
    a->burst_window_s = seconds_up((double)a->burst * (double)MINUTE_NS / (double)e->limit);
    a->burst_remaining = (int64_t)tokens < a->remaining ? (int64_t)tokens : a->remaining;
    a->burst_reset_s = tokens < p->size ? seconds_up((p->size - e->tokens) / p->per_ns) : 0;
}

/* Both rules have to agree again. What the others had leaves the minute we know not when. */
static void refuse(struct entry *e, const struct pace *p, int64_t now, struct df_limiter_answer *a)
{
    double wait_ns = (1 - e->tokens) / p->per_ns;
    if (a->remaining == 0)
        wait_ns = larger(wait_ns, e->sum > 0 ? (double)((e->oldest + TICKS) * TICK_NS - now)
                                             : (double)SECOND_NS);
    a->wait_ms = (int64_t)(wait_ns / 1e6) + 1;
    e->refused++;
    a->tell = e->told_ns < 0 || now - e->told_ns >= MINUTE_NS;
    a->refused = e->refused;
    if (a->tell) {
        e->told_ns = now;
        e->refused = 0;
    }
}

static void count(struct entry *e)
{
    e->sum++;
    e->ticks[e->tick % TICKS]++;
}

static void take(struct entry *e, int64_t now, struct df_limiter_answer *a)
{
    struct pace p = pace_of(e);
    refill(e, &p, now);
    e->asked++;
    /* A token that is short by less than a millionth is one: sums of fractions. */
    a->admitted = e->sum + e->elsewhere.requests < e->limit && e->tokens >= 1 - 1e-6;
    if (a->admitted) {
        e->tokens -= 1;
        count(e);
    }
    fill_answer(e, &p, now, a);
    if (!a->admitted)
        refuse(e, &p, now, a);
}

void df_limiter_take(struct df_limiter *l, struct df_str key, int64_t per_minute,
                     struct df_limiter_answer *ret)
{
    int64_t now = df_mono_ns(l->clock);
    *ret = (struct df_limiter_answer){.admitted = true, .remaining = per_minute};
    df_lock(&l->lock);
    struct entry *e = get(l, key, now);
    if (e) {
        advance(e, now);
        set_limit(e, per_minute, now);
        if (per_minute > 0)
            take(e, now, ret);
        else
            count(e);
    }
    df_unlock(&l->lock);
}

/* --- in hand --- */

bool df_limiter_hold(struct df_limiter *l, struct df_str key, int64_t most)
{
    bool room = true;
    df_lock(&l->lock);
    struct entry *e = get(l, key, df_mono_ns(l->clock));
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
        advance(e, now);
        *ret = e->elsewhere;
        memcpy(ret->key, e->key, sizeof ret->key);
        ret->requests += e->sum;
        ret->demand += (int64_t)e->demand;
        ret->held += e->held;
    }
    df_unlock(&l->lock);
}

/* --- between processes --- */

/* False: it is at rest. Half of the demand is what it was: one second says little. */
static bool report_entry(struct entry *e, int64_t now, double minutes, struct df_limiter_use *ret)
{
    advance(e, now);
    double lately = (double)e->asked / minutes;
    e->demand = e->demand < 1 ? lately : (e->demand + lately) / 2;
    e->asked = 0;
    if (at_rest(e) && e->demand < 1)
        return false;
    *ret =
        (struct df_limiter_use){.requests = e->sum, .demand = (int64_t)e->demand, .held = e->held};
    memcpy(ret->key, e->key, sizeof ret->key);
    return true;
}

size_t df_limiter_report(struct df_limiter *l, struct df_limiter_use **ret)
{
    size_t n = 0;
    int64_t now = df_mono_ns(l->clock);
    df_lock(&l->lock);
    double minutes = (double)(now - l->reported_ns) / (double)MINUTE_NS;
    struct df_limiter_use *out = df_calloc(l->entries.count + (size_t)1, sizeof *out);
    struct entry *e;
    for (size_t at = 0; minutes > 0 && (e = df_map_next(&l->entries, &at));)
        if (e->limit > 0 || e->held > 0)
            n += report_entry(e, now, minutes, &out[n]);
    l->reported_ns = now;
    df_unlock(&l->lock);
    *ret = out;
    return n;
}

void df_limiter_set_elsewhere(struct df_limiter *l, const struct df_limiter_use *uses, size_t count)
{
    int64_t now = df_mono_ns(l->clock);
    struct entry *e;
    df_lock(&l->lock);
    for (size_t at = 0; (e = df_map_next(&l->entries, &at));)
        e->elsewhere = (struct df_limiter_use){0};
    for (size_t i = 0; i < count; i++) {
        e = get(l, df_str_c(uses[i].key), now);
        if (e)
            e->elsewhere = uses[i];
    }
    df_unlock(&l->lock);
}

#include "resilience/limiter.h"

#include "base/list.h"
#include "base/lock.h"
#include "base/map.h"
#include "base/mem.h"

#include <stdlib.h>

#define SECOND_NS   INT64_C(1000000000)
#define MINUTE_NS   (60 * SECOND_NS)
#define TICK_NS     (SECOND_NS / 2)
#define TICKS       121 /* a minute, and the current tick */
#define BURST_SHARE 20
#define BURST_LEAST 5
#define SHARE_LEAST                                                                                \
    0.01          /* of the limit: the least share of a process that has not reported yet          \
                   */
#define SWEEP 256 /* entries checked when there is no room */

struct entry {
    struct df_link link;
    char key[DF_LIMITER_KEY_MAX + 1];
    int64_t limit; /* per minute, as last given; 0: none */

    /* The sliding minute: requests admitted in each tick, their sum, and the first tick with
     * any. */
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
    int64_t told_ns; /* when a refusal was last logged; -1: never */
};

struct df_limiter {
    const struct df_clock *clock;
    struct df_mutex lock;
    struct df_map entries DF_GUARDED_BY(lock);
    struct df_list looked_at
        DF_GUARDED_BY(lock); /* all entries, in the order in which make_room checks them */
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

/* Removes the ticks that have left the minute. */
static void advance_ticks(struct entry *e, int64_t now)
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

/* Makes room for one more: removes entries at rest, here and elsewhere. Checks a few each time. */
static void make_room(struct df_limiter *l, int64_t now) DF_REQUIRES(l->lock)
{
    for (size_t i = 0; i < SWEEP; i++) {
        struct entry *e = DF_LIST_TAKE(&l->looked_at, struct entry, link);
        advance_ticks(e, now);
        if (!at_rest(e) || e->elsewhere.requests || e->elsewhere.held) {
            df_list_add(&l->looked_at, &e->link);
            continue;
        }
        (void)df_map_remove(&l->entries, df_str_c(e->key));
        free(e);
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

static double max_of(double a, double b)
{
    return a > b ? a : b;
}

/*
 * The share of the limit that this process may admit, from 0 to 1: what the others leave over or,
 * when the total demand exceeds the limit, its part of the demand.
 */
static double share_of(const struct entry *e)
{
    double others = (double)e->elsewhere.demand, limit = (double)e->limit;
    if (others <= 0)
        return 1;
    double part = e->demand / (e->demand + others);
    return max_of(max_of(part, 1 - others / limit), SHARE_LEAST);
}

/* The bucket's rate per nanosecond, and its size. */
struct pace {
    double per_ns;
    double size;
};

static struct pace pace_of(const struct entry *e)
{
    double share = share_of(e);
    return (struct pace){.per_ns = share * (double)e->limit / (double)MINUTE_NS,
                         .size = max_of(share * (double)burst_of(e->limit), 1)};
}

/* A new limit starts empty: earlier requests do not count. A changed limit goes on with what is
 * left. */
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

/* Waits until both rules allow it. When the other processes' requests leave the minute is not
 * known. */
static void refuse_request(struct entry *e, const struct pace *p, int64_t now,
                           struct df_limiter_answer *a)
{
    double wait_ns = (1 - e->tokens) / p->per_ns;
    if (a->remaining == 0)
        wait_ns = max_of(wait_ns, e->sum > 0 ? (double)((e->oldest + TICKS) * TICK_NS - now)
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

static void count_request(struct entry *e)
{
    e->sum++;
    e->ticks[e->tick % TICKS]++;
}

static void take_token(struct entry *e, int64_t now, struct df_limiter_answer *a)
{
    struct pace p = pace_of(e);
    refill(e, &p, now);
    e->asked++;
    /* A token that is short by less than a millionth counts as one: fractions add up inexactly. */
    a->admitted = e->sum + e->elsewhere.requests < e->limit && e->tokens >= 1 - 1e-6;
    if (a->admitted) {
        e->tokens -= 1;
        count_request(e);
    }
    fill_answer(e, &p, now, a);
    if (!a->admitted)
        refuse_request(e, &p, now, a);
}

void df_limiter_take(struct df_limiter *l, struct df_str key, int64_t per_minute,
                     struct df_limiter_answer *ret)
{
    int64_t now = df_mono_ns(l->clock);
    *ret = (struct df_limiter_answer){.admitted = true, .remaining = per_minute};
    df_lock(&l->lock);
    struct entry *e = get_entry(l, key, now);
    if (e) {
        advance_ticks(e, now);
        set_limit(e, per_minute, now);
        if (per_minute > 0)
            take_token(e, now, ret);
        else
            count_request(e);
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
        advance_ticks(e, now);
        *ret = e->elsewhere;
        memcpy(ret->key, e->key, sizeof ret->key);
        ret->requests += e->sum;
        ret->demand += (int64_t)e->demand;
        ret->held += e->held;
    }
    df_unlock(&l->lock);
}

/* --- between processes --- */

/* False: the entry is at rest. Half of the old demand is kept, as one second says little. */
static bool report_entry(struct entry *e, int64_t now, double minutes, struct df_limiter_use *ret)
{
    advance_ticks(e, now);
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
        e = get_entry(l, df_str_c(uses[i].key), now);
        if (e)
            e->elsewhere = uses[i];
    }
    df_unlock(&l->lock);
}

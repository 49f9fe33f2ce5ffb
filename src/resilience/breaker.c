/*
 *   state      what happens                                     then
 *   ---------  -----------------------------------------------  ---------------------------------
 *   CLOSED     allow                                            permitted
 *   CLOSED     done, fewer than min_calls in the window         counted
 *   CLOSED     done, both rates below their thresholds          counted
 *   CLOSED     done, a rate at or over its threshold            OPEN
 *   OPEN       allow within open_ms                             refused
 *   OPEN       allow after open_ms                              HALF_OPEN, permitted: a probe
 *   HALF_OPEN  allow, fewer than half_open_calls given out      permitted: a probe
 *   HALF_OPEN  allow, all given out                             refused
 *   HALF_OPEN  done, not all probes recorded                    counted
 *   HALF_OPEN  done, all recorded, both rates below             CLOSED, with an empty window
 *   HALF_OPEN  done, all recorded, a rate at or over            OPEN, for open_ms again
 *   any        done IGNORED                                     not counted; a probe is free again
 *   any        done with a permit given out in an earlier state not counted
 *
 * Two rates are computed from the same calls, failed and slow; a failed call may be slow too. The
 * window is a ring of the last calls. While HALF_OPEN it is as long as the number of probes; while
 * OPEN it keeps its content, to be shown.
 *
 * Differences from Resilience4j, on purpose:
 * - There, a call that outlives its state is counted in the next one: the answer to a call sent
 *   before the breaker opened would count as a probe. Here, each state has a generation, and a
 *   permit counts only in its own.
 * - There, min_calls, if smaller, limits half_open_calls. Here, all probes must finish.
 */
#include "resilience/breaker.h"

#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/metrics.h"

#include <assert.h>
#include <stdlib.h>

#define NS_PER_MS     INT64_C(1000000)
#define PROBE_WAIT_MS 100 /* retry time while probes are under way: short, but no tight loop */
#define NAMES_MAX     200 /* shown by name in metrics; the rest together as "other" */

enum { FAILED = 1, SLOW = 2 }; /* bits of a call in the ring */

/* Outcomes as they are counted. */
enum { NOT_PERMITTED = DF_BREAKER_IGNORED + 1, OUTCOMES };
static const char *const outcome_names[OUTCOMES] = {"success", "failure", "ignored",
                                                    "not_permitted"};

struct df_breaker {
    size_t holders; /* this and `used` are guarded by the registry's lock */
    uint64_t used;

    char *name;
    size_t name_len;
    struct df_breaker_settings set;
    const struct df_clock *clock;
    bool other; /* its name is not in the metrics */
    struct df_metric *shown;
    struct df_metric *calls_total[OUTCOMES];

    struct df_mutex lock;
    enum df_breaker_state state DF_GUARDED_BY(lock);
    uint64_t generation DF_GUARDED_BY(lock); /* grows with each change of state */
    int64_t since_ms DF_GUARDED_BY(lock);
    int64_t open_until_ns DF_GUARDED_BY(lock);
    int64_t probes_left DF_GUARDED_BY(lock); /* HALF_OPEN: probes that may still begin */
    int64_t not_permitted DF_GUARDED_BY(lock);
    int64_t last_failure_ms DF_GUARDED_BY(lock);
    int64_t window DF_GUARDED_BY(lock); /* calls that the ring holds in this state */
    int64_t calls DF_GUARDED_BY(lock);
    int64_t failed DF_GUARDED_BY(lock);
    int64_t slow DF_GUARDED_BY(lock);
    int64_t at DF_GUARDED_BY(lock); /* slot of the next call; in a full ring, of the oldest */
    unsigned char ring[] DF_GUARDED_BY(lock);
};

struct df_breakers {
    struct df_breaker_settings set;
    const struct df_clock *clock;
    struct df_mutex lock;
    struct df_map by_key DF_GUARDED_BY(lock);
    uint64_t ticks DF_GUARDED_BY(lock);
};

DF_METRIC_FAMILY(states) = {
    .name = "dataflow_breaker_state",
    .help = "State of the circuit breaker: 0 closed, 1 open, 2 half open. The name is a "
            "target (CHANNEL URL), a host, integration:NAME, webhook:ID or relay:NAME.",
    .type = DF_GAUGE,
    .labels = {"name"},
    .max_series = NAMES_MAX + 1,
};
DF_METRIC_FAMILY(calls_total) = {
    .name = "dataflow_breaker_calls_total",
    .help = "Calls that asked a circuit breaker, by outcome: success, failure, ignored, "
            "not_permitted.",
    .type = DF_COUNTER,
    .labels = {"name", "outcome"},
    .max_series = (size_t)OUTCOMES * (NAMES_MAX + 1),
};

/* How many breakers without a name in the metrics are in each state. */
static struct df_mutex others_lock = DF_MUTEX_INIT;
static size_t others[DF_BREAKER_HALF_OPEN + 1] DF_GUARDED_BY(others_lock);

/* --- metrics --- */

/* The family of states decides which breakers are shown by name: it has the series "other" from the
 * start. */
static void find_metrics(struct df_breaker *b)
{
    struct df_str name = df_str_n(b->name, b->name_len);
    const struct df_metric *rest = df_metric_get(&states, &DF_STR("other"));
    b->shown = df_metric_get(&states, &name);
    b->other = b->shown == rest;
    for (size_t i = 0; i < OUTCOMES; i++) {
        struct df_str labels[] = {b->other ? DF_STR("other") : name, df_str_c(outcome_names[i])};
        b->calls_total[i] = df_metric_get(&calls_total, labels);
    }
}

/* Shows the worst state of the unnamed breakers for all of them. */
static void show_other(const struct df_breaker *b, enum df_breaker_state from,
                       enum df_breaker_state to)
{
    df_lock(&others_lock);
    if (from != DF_BREAKER_CLOSED) {
        assert(others[from] > 0);
        others[from]--;
    }
    if (to != DF_BREAKER_CLOSED)
        others[to]++;
    enum df_breaker_state worst = DF_BREAKER_CLOSED;
    if (others[DF_BREAKER_OPEN] > 0)
        worst = DF_BREAKER_OPEN;
    else if (others[DF_BREAKER_HALF_OPEN] > 0)
        worst = DF_BREAKER_HALF_OPEN;
    df_metric_set(b->shown, worst);
    df_unlock(&others_lock);
}

/* The lock keeps two changes from being shown in the wrong order. */
static void show_state(const struct df_breaker *b, enum df_breaker_state from,
                       enum df_breaker_state to) DF_REQUIRES(b->lock)
{
    if (b->other)
        show_other(b, from, to);
    else
        df_metric_set(b->shown, to);
}

/* --- one breaker --- */

const char *df_breaker_state_name(enum df_breaker_state state)
{
    switch (state) {
    case DF_BREAKER_CLOSED:
        return "CLOSED";
    case DF_BREAKER_OPEN:
        return "OPEN";
    case DF_BREAKER_HALF_OPEN:
        return "HALF_OPEN";
    }
    return "";
}

struct df_breaker *df_breaker_new(struct df_str name, const struct df_breaker_settings *set,
                                  const struct df_clock *clock)
{
    int64_t ring = set->window > set->half_open_calls ? set->window : set->half_open_calls;
    struct df_breaker *b = df_calloc(1, sizeof *b + (size_t)ring);
    b->name = df_strdup(name.ptr ? name : DF_STR(""));
    b->name_len = name.len;
    b->set = *set;
    b->clock = clock;
    if (b->set.slow_call_rate == 0)
        b->set.slow_call_rate = 100;
    b->window = set->window;
    b->since_ms = df_wall_ms(clock);
    df_mutex_init(&b->lock);
    find_metrics(b);
    df_lock(&b->lock);
    show_state(b, DF_BREAKER_CLOSED, DF_BREAKER_CLOSED);
    df_unlock(&b->lock);
    return b;
}

void df_breaker_free(struct df_breaker *b)
{
    if (!b)
        return;
    df_lock(&b->lock);
    show_state(b, b->state, DF_BREAKER_CLOSED);
    df_unlock(&b->lock);
    df_mutex_destroy(&b->lock);
    free(b->name);
    free(b);
}

/* How many calls must be recorded before the rates count. */
static int64_t calls_needed(const struct df_breaker *b) DF_REQUIRES(b->lock)
{
    bool probing = b->state == DF_BREAKER_HALF_OPEN;
    return probing || b->set.min_calls > b->window ? b->window : b->set.min_calls;
}

static void record_locked(struct df_breaker *b, unsigned char call) DF_REQUIRES(b->lock)
{
    assert(b->calls <= b->window && b->at < b->window);
    assert(b->failed <= b->calls && b->slow <= b->calls);
    unsigned char *slot = &b->ring[b->at];
    if (b->calls == b->window) {
        b->failed -= (*slot & FAILED) != 0;
        b->slow -= (*slot & SLOW) != 0;
    } else {
        b->calls++;
    }
    *slot = call;
    b->failed += (call & FAILED) != 0;
    b->slow += (call & SLOW) != 0;
    b->at = (b->at + 1) % b->window;
}

/* Computed in whole numbers, without the rounding of a quotient. */
static bool is_over(const struct df_breaker *b) DF_REQUIRES(b->lock)
{
    return b->failed * 100 >= b->set.failure_rate * b->calls ||
           b->slow * 100 >= b->set.slow_call_rate * b->calls;
}

/* A change of state, logged once the lock is free. */
struct change {
    bool made;
    enum df_breaker_state to;
    int64_t calls;
    int64_t failed;
    int64_t slow;
};

static void change_locked(struct df_breaker *b, enum df_breaker_state to, int64_t now_ns,
                          int64_t wall_ms, struct change *ret) DF_REQUIRES(b->lock)
{
    assert(to != b->state);
    *ret = (struct change){true, to, b->calls, b->failed, b->slow};
    show_state(b, b->state, to);
    b->state = to;
    b->generation++;
    b->since_ms = wall_ms;
    if (to == DF_BREAKER_OPEN) {
        b->open_until_ns = now_ns + b->set.open_ms * NS_PER_MS;
        return;
    }
    b->calls = b->failed = b->slow = b->at = 0;
    b->window = to == DF_BREAKER_HALF_OPEN ? b->set.half_open_calls : b->set.window;
    b->probes_left = b->set.half_open_calls;
}

static void log_change(const struct df_breaker *b, const struct change *c)
{
    struct df_log_field destination[] = {DF_F("destination", df_str_n(b->name, b->name_len))};
    if (!c->made)
        return;
    switch (c->to) {
    case DF_BREAKER_OPEN:
        df_log_write(DF_LOG_WARN, "CircuitBreakerOpened", destination, 1,
                     "%lld of the last %lld calls failed and %lld were slow: no calls for %lld ms",
                     (long long)c->failed, (long long)c->calls, (long long)c->slow,
                     (long long)b->set.open_ms);
        return;
    case DF_BREAKER_HALF_OPEN:
        df_log_write(DF_LOG_INFO, "CircuitBreakerHalfOpen", destination, 1,
                     "probing with %lld calls", (long long)b->set.half_open_calls);
        return;
    case DF_BREAKER_CLOSED:
        df_log_write(DF_LOG_INFO, "CircuitBreakerClosed", destination, 1,
                     "%lld of %lld probes failed and %lld were slow: calls go on",
                     (long long)c->failed, (long long)c->calls, (long long)c->slow);
        return;
    }
}

/* Rounded up, so that a caller who asks again after this time is not refused. */
static int64_t open_left_ms(const struct df_breaker *b, int64_t now_ns) DF_REQUIRES(b->lock)
{
    int64_t left_ns = b->open_until_ns - now_ns;
    return left_ns > 0 ? (left_ns + NS_PER_MS - 1) / NS_PER_MS : 0;
}

/* Returns 0 when permitted, else how long to wait. */
static int64_t ask_locked(struct df_breaker *b, int64_t now_ns, int64_t wall_ms,
                          struct change *change) DF_REQUIRES(b->lock)
{
    if (b->state == DF_BREAKER_CLOSED)
        return 0;
    if (b->state == DF_BREAKER_OPEN) {
        int64_t left_ms = open_left_ms(b, now_ns);
        if (left_ms > 0)
            return left_ms;
        change_locked(b, DF_BREAKER_HALF_OPEN, now_ns, wall_ms, change);
    }
    assert(b->probes_left >= 0 && b->probes_left <= b->set.half_open_calls);
    if (b->probes_left == 0)
        return PROBE_WAIT_MS;
    b->probes_left--;
    return 0;
}

bool df_breaker_allow(struct df_breaker *b, struct df_breaker_permit *ret, int64_t *ret_retry_ms)
{
    struct change change = {0};
    int64_t now_ns = df_mono_ns(b->clock);
    int64_t wall_ms = df_wall_ms(b->clock);
    df_lock(&b->lock);
    int64_t wait_ms = ask_locked(b, now_ns, wall_ms, &change);
    if (wait_ms > 0)
        b->not_permitted++;
    else
        ret->generation = b->generation;
    df_unlock(&b->lock);
    if (wait_ms > 0) {
        *ret_retry_ms = wait_ms;
        df_metric_add(b->calls_total[NOT_PERMITTED], 1);
    }
    log_change(b, &change);
    return wait_ms == 0;
}

void df_breaker_done(struct df_breaker *b, struct df_breaker_permit p,
                     enum df_breaker_outcome outcome, int64_t duration_ms)
{
    struct change change = {0};
    bool failed = outcome == DF_BREAKER_FAILURE;
    bool slow = b->set.slow_call_ms > 0 && duration_ms > b->set.slow_call_ms;
    int64_t now_ns = df_mono_ns(b->clock);
    int64_t wall_ms = df_wall_ms(b->clock);
    df_lock(&b->lock);
    if (failed)
        b->last_failure_ms = wall_ms;
    if (p.generation == b->generation && outcome == DF_BREAKER_IGNORED) {
        b->probes_left++; /* read only while HALF_OPEN; entering that state resets it */
    } else if (p.generation == b->generation) {
        record_locked(b, (unsigned char)((failed ? FAILED : 0) | (slow ? SLOW : 0)));
        if (b->calls >= calls_needed(b)) {
            if (is_over(b))
                change_locked(b, DF_BREAKER_OPEN, now_ns, wall_ms, &change);
            else if (b->state == DF_BREAKER_HALF_OPEN)
                change_locked(b, DF_BREAKER_CLOSED, now_ns, wall_ms, &change);
        }
    }
    df_unlock(&b->lock);
    df_metric_add(b->calls_total[outcome], 1);
    log_change(b, &change);
}

static int64_t permits_left(const struct df_breaker *b, int64_t now_ns) DF_REQUIRES(b->lock)
{
    switch (b->state) {
    case DF_BREAKER_CLOSED:
        break;
    case DF_BREAKER_OPEN:
        return open_left_ms(b, now_ns) > 0 ? 0 : b->set.half_open_calls;
    case DF_BREAKER_HALF_OPEN:
        return b->probes_left;
    }
    return INT64_MAX;
}

void df_breaker_snapshot(struct df_breaker *b, struct df_breaker_snapshot *ret)
{
    int64_t now_ns = df_mono_ns(b->clock);
    df_lock(&b->lock);
    bool rated = b->calls >= calls_needed(b);
    *ret = (struct df_breaker_snapshot){
        .name = df_str_n(b->name, b->name_len),
        .state = b->state,
        .since_ms = b->since_ms,
        .retry_ms = b->state == DF_BREAKER_OPEN ? open_left_ms(b, now_ns) : 0,
        .permits = permits_left(b, now_ns),
        .failure_rate = rated ? (double)b->failed * 100 / (double)b->calls : -1,
        .slow_rate = rated ? (double)b->slow * 100 / (double)b->calls : -1,
        .window = b->window,
        .calls = b->calls,
        .failed = b->failed,
        .slow = b->slow,
        .not_permitted = b->not_permitted,
        .last_failure_ms = b->last_failure_ms,
    };
    df_unlock(&b->lock);
}

static void reset_breaker(struct df_breaker *b)
{
    struct change change = {0};
    int64_t now_ns = df_mono_ns(b->clock);
    int64_t wall_ms = df_wall_ms(b->clock);

    df_lock(&b->lock);
    if (b->state != DF_BREAKER_CLOSED)
        change_locked(b, DF_BREAKER_CLOSED, now_ns, wall_ms, &change);
    df_unlock(&b->lock);
    log_change(b, &change);
}

/* --- the registry; functions ending in _locked need r->lock --- */

struct df_breakers *df_breakers_new(const struct df_breaker_settings *set,
                                    const struct df_clock *clock)
{
    struct df_breakers *r = df_calloc(1, sizeof *r);
    r->set = *set;
    r->clock = clock;
    df_mutex_init(&r->lock);
    df_metric_register(&states);
    df_metric_register(&calls_total);
    return r;
}

void df_breakers_free(struct df_breakers *r)
{
    if (!r)
        return;
    struct df_breaker *b;
    for (size_t at = 0; (b = df_map_next(&r->by_key, &at));)
        df_breaker_free(b);
    df_map_release(&r->by_key);
    df_mutex_destroy(&r->lock);
    free(r);
}

static struct df_str key_of(const struct df_breaker *b)
{
    return df_str_n(b->name, b->name_len);
}

/* Whether x is evicted before y: a closed one first, then the longest unused. */
static bool is_evicted_before(const struct df_breaker *x, const struct df_breaker *y)
{
    bool x_closed = x->state == DF_BREAKER_CLOSED;
    bool y_closed = y->state == DF_BREAKER_CLOSED;
    return x_closed != y_closed ? x_closed : x->used < y->used;
}

/*
 * A breaker without holders does not change, so its state is read here without its lock. The search
 * through all of them happens only when the registry is full.
 */
static bool evict_locked(struct df_breakers *r) DF_REQUIRES(r->lock)
{
    struct df_breaker *b, *victim = NULL;
    for (size_t at = 0; (b = df_map_next(&r->by_key, &at));)
        if (b->holders == 0 && (!victim || is_evicted_before(b, victim)))
            victim = b;
    if (!victim)
        return false;
    (void)df_map_remove(&r->by_key, key_of(victim));
    df_breaker_free(victim);
    return true;
}

/* The key's breaker, created with these settings if there is none; adds a holder. */
static struct df_breaker *hold_breaker(struct df_breakers *r, struct df_str key,
                                       const struct df_breaker_settings *set)
{
    df_lock(&r->lock);
    struct df_breaker *b = df_map_get(&r->by_key, key);
    if (!b) {
        while (r->by_key.count >= DF_BREAKERS_MAX && evict_locked(r)) {
        }
        b = df_breaker_new(key, set, r->clock);
        df_map_add(&r->by_key, key_of(b), b);
    }
    b->holders++;
    df_unlock(&r->lock);
    return b;
}

void df_breakers_configure(struct df_breakers *r, struct df_str key,
                           const struct df_breaker_settings *set)
{
    (void)hold_breaker(r, key, set); /* never put back, so never evicted */
}

struct df_breaker *df_breakers_get(struct df_breakers *r, struct df_str key)
{
    return hold_breaker(r, key, &r->set);
}

void df_breakers_put(struct df_breakers *r, struct df_breaker *b)
{
    df_lock(&r->lock);
    assert(b->holders > 0);
    b->holders--;
    b->used = ++r->ticks;
    df_unlock(&r->lock);
}

/* NULL: there is no such breaker. Give it back with let_go. */
static struct df_breaker *hold_existing(struct df_breakers *r, struct df_str key)
{
    df_lock(&r->lock);
    struct df_breaker *b = df_map_get(&r->by_key, key);
    if (b)
        b->holders++;
    df_unlock(&r->lock);
    return b;
}

static void let_go(struct df_breakers *r, struct df_breaker *b)
{
    df_lock(&r->lock);
    b->holders--;
    df_unlock(&r->lock);
}

bool df_breakers_look(struct df_breakers *r, struct df_str key, struct df_breaker_snapshot *ret)
{
    struct df_breaker *b = hold_existing(r, key);

    if (!b)
        return false;
    df_breaker_snapshot(b, ret);
    ret->name = DF_STR_NULL;
    let_go(r, b);
    return true;
}

bool df_breakers_reset(struct df_breakers *r, struct df_str key)
{
    struct df_breaker *b = hold_existing(r, key);

    if (!b)
        return false;
    reset_breaker(b);
    let_go(r, b);
    return true;
}

static int by_name(const void *x, const void *y)
{
    const struct df_breaker *a = *(struct df_breaker *const *)x;
    const struct df_breaker *b = *(struct df_breaker *const *)y;
    return strcmp(a->name, b->name);
}

/* Holds all breakers meanwhile, so that none is freed; that does not count as use. */
void df_breakers_each(struct df_breakers *r,
                      void (*each)(void *arg, const struct df_breaker_snapshot *s), void *arg)
{
    size_t count = 0;
    struct df_breaker *b;
    df_lock(&r->lock);
    struct df_breaker **all = df_calloc(r->by_key.count, sizeof(struct df_breaker *));
    for (size_t at = 0; (b = df_map_next(&r->by_key, &at));) {
        b->holders++;
        all[count++] = b;
    }
    df_unlock(&r->lock);

    qsort(all, count, sizeof(struct df_breaker *), by_name);
    for (size_t i = 0; i < count; i++) {
        struct df_breaker_snapshot s;
        df_breaker_snapshot(all[i], &s);
        each(arg, &s);
    }

    df_lock(&r->lock);
    for (size_t i = 0; i < count; i++)
        all[i]->holders--;
    df_unlock(&r->lock);
    free(all);
}

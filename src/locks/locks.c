/* Locks that are held, the thread that extends them, and what is the same for both providers. */
#include "locks/locks.h"

#include "base/instance.h"
#include "base/list.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "locks/locks_private.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

/* Between two looks at the register: who uses Redis learns of longer leases there. */
#define REGISTER_REDIS_MS 5000
#define REGISTER_SQL_MS   60000

#define SWEEP_MS          INT64_C(3600000)
#define BREAKS_MAX        64 /* that wait; one that is left out ends with its lease */
#define AGAIN             10 /* an extension that failed is repeated after this part of the lease */
#define MARGIN            10 /* no work is started in the last part of the lease */
#define DRIFT_MS          2

struct lock_held {
    struct df_link link;
    struct lock_want want;
    int64_t valid_until_ms; /* boot */
    int64_t extend_at_ms;   /* boot */
    int64_t asked_ms;       /* boot: when its owner last asked for it */
    bool lost;
    bool busy; /* being extended */
};

struct breaking {
    struct df_link link;
    struct lock_want want;
};

struct df_locks {
    struct df_locks_options opt;
    struct lock_provider *provider;
    struct lock_registry registry;
    struct df_loop loop;
    bool registered;
    int64_t register_ms;
    int64_t registered_ms; /* monotonic, of the loop */
    int64_t swept_ms;
    struct df_mutex lock;
    pthread_cond_t changed;
    struct df_list held DF_GUARDED_BY(lock);
    struct df_list breaks DF_GUARDED_BY(lock);
    bool barred DF_GUARDED_BY(lock); /* others use another provider */
    bool away DF_GUARDED_BY(lock);   /* the provider was, when it was last asked */
};

DF_METRIC_FAMILY(outcomes) = {
    .name = "dataflow_lock_outcomes_total",
    .help = "Locks of imports, by provider (sql, redis): acquired, refused (another process has "
            "it, so that its batch waits), away (the provider could not be asked), extended, "
            "extend_failed (tried again until the lease ends), lost.",
    .type = DF_COUNTER,
    .labels = {"provider", "outcome"},
};
DF_METRIC_FAMILY(wait_seconds) = {
    .name = "dataflow_lock_wait_seconds",
    .help = "How long the provider of locks took to answer, by provider and operation (acquire, "
            "extend).",
    .type = DF_HISTOGRAM,
    .labels = {"provider", "operation"},
    DF_METRIC_SECONDS,
};
DF_METRIC_FAMILY(held_locks) = {
    .name = "dataflow_lock_held",
    .help = "Locks of imports that this process holds, by provider.",
    .type = DF_GAUGE,
    .labels = {"provider"},
};
DF_METRIC_FAMILY(servers_reached) = {
    .name = "dataflow_lock_servers_reachable",
    .help = "Redis servers of the locks that can be reached.",
    .type = DF_GAUGE,
};
DF_METRIC_FAMILY(servers_quarantined) = {
    .name = "dataflow_lock_servers_quarantined",
    .help = "Redis servers of the locks that lost their memory and take no part yet.",
    .type = DF_GAUGE,
};

static struct df_str provider_label(const struct df_locks *l)
{
    return l->opt.settings.provider == DF_LOCKS_REDIS ? DF_STR("redis") : DF_STR("sql");
}

static void lock_note(const struct df_locks *l, const char *outcome)
{
    struct df_str labels[] = {provider_label(l), df_str_c(outcome)};
    df_metric_add(df_metric_get(&outcomes, labels), 1);
}

static void note_wait(const struct df_locks *l, const char *operation, int64_t begun_ns)
{
    struct df_str labels[] = {provider_label(l), df_str_c(operation)};
    df_metric_observe(df_metric_get(&wait_seconds, labels),
                      (double)(df_boot_ns(l->opt.clock) - begun_ns) / 1e9);
}

static void show_held(struct df_locks *l) DF_REQUIRES(l->lock)
{
    struct df_str label = provider_label(l);
    df_metric_set(df_metric_get(&held_locks, &label), (double)l->held.count);
}

void lock_show_servers(size_t reached, size_t quarantined)
{
    df_metric_set(df_metric_get(&servers_reached, NULL), (double)reached);
    df_metric_set(df_metric_get(&servers_quarantined, NULL), (double)quarantined);
}

static void register_metrics(const struct df_locks *l)
{
    static const char *const names[] = {"acquired", "refused",       "away",
                                        "extended", "extend_failed", "lost"};
    struct df_str labels[] = {provider_label(l), DF_STR_NULL};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        labels[1] = df_str_c(names[i]);
        (void)df_metric_get(&outcomes, labels);
    }
    (void)df_metric_get(&held_locks, labels);
    df_metric_register(&wait_seconds);
}

static int64_t now_ms(const struct df_locks *l)
{
    return df_boot_ms(l->opt.clock);
}

/* What is left of a lease that was asked for at `from_ms`. Clocks run at different speeds, and
 * Redis counts in milliseconds. */
static int64_t valid_until(const struct df_locks *l, int64_t from_ms)
{
    int64_t lease_ms = l->opt.settings.lease_ms;
    return from_ms + lease_ms - lease_ms / 100 - DRIFT_MS;
}

/* --- acquiring -------------------------------------------------------------------------------- */

static void make_want(const struct df_locks *l, const char *name, struct lock_want *ret)
{
    uint64_t number;

    assert(strlen(name) <= DF_LOCK_NAME_MAX);
    df_random(l->opt.clock, &number, sizeof number);
    (void)snprintf(ret->name, sizeof ret->name, "%s", name);
    (void)snprintf(ret->value, sizeof ret->value, "%s/%016llx", l->opt.instance->id.text,
                   (unsigned long long)number);
}

/* Whether this process holds a lock by that value. */
static bool is_held_here(struct df_locks *l, const char *value)
{
    const struct lock_held *h;

    df_lock(&l->lock);
    DF_LIST_EACH (h, &l->held, link)
        if (strcmp(h->want.value, value) == 0)
            break;
    df_unlock(&l->lock);
    return h != NULL;
}

/* Whether the holder is known to be gone: its process has ended, or it is a lock of this process
 * whose release did not arrive. */
static bool is_holder_gone(struct df_locks *l, const char *value)
{
    struct df_uuid instance;

    if (strlen(value) != LOCK_VALUE_LEN || !df_uuid_parse(df_str_n(value, DF_UUID_LEN), &instance))
        return false;
    if (strcmp(instance.text, l->opt.instance->id.text) == 0)
        return !is_held_here(l, value);
    return df_instance_is_gone(l->opt.instance, &instance);
}

/* Tells it once. */
static void note_away(struct df_locks *l, enum lock_answer answer, const struct df_err *err)
{
    bool away = answer == LOCK_AWAY;

    df_lock(&l->lock);
    bool news = l->away != away;
    l->away = away;
    df_unlock(&l->lock);
    if (news && away)
        df_log_warn("LocksAway", "%s", err->detail);
    else if (news)
        df_log_info("LocksBack", "locks can be acquired again");
}

static enum lock_answer acquire_once(struct df_locks *l, const struct lock_want *want,
                                     int64_t *ret_valid_ms, char holder[LOCK_VALUE_LEN + 1])
{
    int64_t from_ms = now_ms(l);
    struct df_err err = DF_ERR_INIT;

    holder[0] = '\0';
    int64_t begun_ns = df_boot_ns(l->opt.clock);
    enum lock_answer answer = l->provider->ops->acquire(l->provider, want, holder, &err);
    note_wait(l, "acquire", begun_ns);
    note_away(l, answer, &err);
    *ret_valid_ms = valid_until(l, from_ms);
    if (answer != LOCK_YES || now_ms(l) < *ret_valid_ms)
        return answer;
    l->provider->ops->drop(l->provider, want);
    return LOCK_AWAY; /* it took longer than the lease */
}

static bool is_barred(struct df_locks *l)
{
    df_lock(&l->lock);
    bool barred = l->barred;
    df_unlock(&l->lock);
    return barred;
}

static void hold(struct df_locks *l, const struct lock_want *want, int64_t valid_ms,
                 struct df_lease *ret)
{
    struct lock_held *h = df_calloc(1, sizeof *h);
    int64_t now = now_ms(l);

    h->want = *want;
    h->valid_until_ms = valid_ms;
    h->asked_ms = now;
    h->extend_at_ms = now + l->opt.settings.lease_ms / 3;
    ret->held = h;
    df_lock(&l->lock);
    df_list_add(&l->held, &h->link);
    show_held(l);
    df_unlock(&l->lock);
    df_loop_wake(&l->loop);
}

bool df_locks_acquire(struct df_locks *l, const char *name, struct df_lease *ret)
{
    struct lock_want want, gone = {.value = ""};
    char holder[LOCK_VALUE_LEN + 1];
    int64_t valid_ms = 0;

    assert(l->opt.acquires && !ret->held);
    if (is_barred(l))
        return false;
    make_want(l, name, &want);
    enum lock_answer answer = acquire_once(l, &want, &valid_ms, holder);
    if (answer == LOCK_NO && is_holder_gone(l, holder)) {
        (void)snprintf(gone.name, sizeof gone.name, "%s", name);
        (void)snprintf(gone.value, sizeof gone.value, "%s", holder);
        l->provider->ops->drop(l->provider, &gone);
        answer = acquire_once(l, &want, &valid_ms, holder);
    }
    lock_note(l, answer == LOCK_YES ? "acquired" : answer == LOCK_NO ? "refused" : "away");
    if (answer != LOCK_YES)
        return false;
    hold(l, &want, valid_ms, ret);
    return true;
}

int64_t df_lease_left_ms(struct df_locks *l, const struct df_lease *lease)
{
    struct lock_held *h = lease->held;

    df_lock(&l->lock);
    h->asked_ms = now_ms(l);
    int64_t left_ms =
        h->lost ? 0 : h->valid_until_ms - l->opt.settings.lease_ms / MARGIN - h->asked_ms;
    df_unlock(&l->lock);
    return left_ms;
}

void df_locks_release(struct df_locks *l, struct df_lease *lease)
{
    struct lock_held *h = lease->held;

    if (!h)
        return;
    df_lock(&l->lock);
    while (h->busy)
        df_cond_wait(&l->changed, &l->lock);
    df_list_remove(&l->held, &h->link);
    show_held(l);
    df_unlock(&l->lock);
    l->provider->ops->drop(l->provider, &h->want);
    free(h);
    lease->held = NULL;
}

/* --- extending -------------------------------------------------------------------------------- */

/* The next lock that is due, marked as busy; NULL: none. *ret_wait_ms: until the next one is. */
static struct lock_held *take_due(struct df_locks *l, int64_t *ret_wait_ms)
{
    int64_t now = now_ms(l), next_ms = INT64_MAX;
    struct lock_held *h;

    df_lock(&l->lock);
    DF_LIST_EACH (h, &l->held, link) {
        if (h->lost)
            continue;
        if (h->extend_at_ms <= now)
            break;
        next_ms = h->extend_at_ms < next_ms ? h->extend_at_ms : next_ms;
    }
    if (h)
        h->busy = true;
    df_unlock(&l->lock);
    *ret_wait_ms = next_ms == INT64_MAX ? INT64_MAX : next_ms - now;
    return h;
}

static void tell_lost(const struct df_locks *l, const struct lock_held *h, const char *why)
{
    struct df_log_field fields[] = {DF_F("lock", df_str_c(h->want.name))};

    lock_note(l, "lost");
    df_log_write(DF_LOG_WARN, "LockLost", fields, 1, "%s", why);
}

/* Why the lock must not be extended; NULL: it may be. */
static const char *why_not(struct df_locks *l, const struct lock_held *h)
{
    int64_t now = now_ms(l);
    const char *why = NULL;

    df_lock(&l->lock);
    if (now >= h->valid_until_ms)
        why = "it could not be extended in time";
    else if (l->barred)
        why = "other processes use another provider of locks now";
    else if (l->opt.idle_ms > 0 && now - h->asked_ms >= l->opt.idle_ms)
        why = "its owner has done nothing for too long";
    df_unlock(&l->lock);
    return why;
}

static void extend_one(struct df_locks *l, struct lock_held *h)
{
    int64_t from_ms = now_ms(l), lease_ms = l->opt.settings.lease_ms;
    const char *why = why_not(l, h);
    struct df_err err = DF_ERR_INIT;
    int64_t begun_ns = df_boot_ns(l->opt.clock);
    enum lock_answer answer = why ? LOCK_NO : l->provider->ops->extend(l->provider, &h->want, &err);

    if (!why) {
        note_wait(l, "extend", begun_ns);
        note_away(l, answer, &err);
    }

    if (answer == LOCK_NO && !why)
        why = "another process has it, or its server forgot it";
    if (answer == LOCK_YES)
        lock_note(l, "extended");
    else if (answer == LOCK_NO)
        tell_lost(l, h, why);
    else
        lock_note(l, "extend_failed");
    df_lock(&l->lock);
    if (answer == LOCK_YES) {
        h->valid_until_ms = valid_until(l, from_ms);
        h->extend_at_ms = from_ms + lease_ms / 3;
    } else {
        h->lost = answer == LOCK_NO;
        h->extend_at_ms = now_ms(l) + lease_ms / AGAIN;
    }
    h->busy = false;
    pthread_cond_broadcast(&l->changed);
    df_unlock(&l->lock);
}

static void run_breaks(struct df_locks *l)
{
    struct breaking *b;

    do {
        df_lock(&l->lock);
        b = DF_LIST_TAKE(&l->breaks, struct breaking, link);
        df_unlock(&l->lock);
        if (b)
            l->provider->ops->drop(l->provider, &b->want);
        free(b);
    } while (b);
}

void df_locks_break(struct df_locks *l, const char *name)
{
    struct breaking *b = df_calloc(1, sizeof *b);

    (void)snprintf(b->want.name, sizeof b->want.name, "%s", name);
    df_lock(&l->lock);
    bool fits = l->breaks.count < BREAKS_MAX;
    if (fits)
        df_list_add(&l->breaks, &b->link);
    df_unlock(&l->lock);
    if (!fits)
        free(b);
    df_loop_wake(&l->loop);
}

/* --- the thread ------------------------------------------------------------------------------- */

static void renew_registration(struct df_locks *l)
{
    struct df_err err = DF_ERR_INIT;
    bool barred = false;

    if (lock_register_renew(&l->opt, &l->registry, &barred, &err) != DF_OK)
        return; /* the store tells that the database is away */
    df_lock(&l->lock);
    bool was_barred = l->barred;
    l->barred = barred;
    df_unlock(&l->lock);
    if (barred && !was_barred)
        df_log_error("LockProviderDiffers",
                     "other processes use another imports.lock: nothing is imported here until "
                     "they have ended, or this process is started anew");
}

/* Returns the milliseconds until it is due again. */
static int64_t keep_registered(struct df_locks *l)
{
    int64_t mono_ms = df_mono_ms(l->opt.clock);
    struct df_err err = DF_ERR_INIT;

    if (!l->registered)
        return INT64_MAX;
    if (mono_ms - l->registered_ms >= l->register_ms) {
        renew_registration(l);
        l->registered_ms = mono_ms;
    }
    if (mono_ms - l->swept_ms >= SWEEP_MS) {
        if (sql_locks_sweep(&l->opt, &err) == DF_OK)
            l->swept_ms = mono_ms;
    }
    return l->registered_ms + l->register_ms - mono_ms;
}

static int64_t keep_locks(void *arg)
{
    struct df_locks *l = arg;
    struct lock_held *h;
    int64_t wait_ms = INT64_MAX;

    run_breaks(l);
    while ((h = take_due(l, &wait_ms)))
        extend_one(l, h);
    int64_t register_ms = keep_registered(l);
    wait_ms = register_ms < wait_ms ? register_ms : wait_ms;
    return wait_ms == INT64_MAX ? DF_LOOP_IDLE : wait_ms > 0 ? wait_ms : 0;
}

/* --- start and end ---------------------------------------------------------------------------- */

static enum df_code open_redis(struct df_locks *l, struct df_err *err)
{
    const struct df_locks_settings *set = &l->opt.settings;
    struct lock_server *servers[LOCK_SERVERS_MAX];
    size_t count = df_locks_servers(set);
    enum df_code code = DF_OK;

    for (size_t i = 0; i < count; i++)
        servers[i] = redis_server_new(
            &(struct redis_options){.locks = &l->opt, .registry = &l->registry, .nth = i});
    for (size_t i = 0; i < count && code == DF_OK; i++)
        code = redis_server_first(servers[i], err);
    if (code == DF_OK && l->registry.redis_is_new)
        code = lock_register_redis(&l->opt, err);
    for (size_t i = 0; i < count; i++)
        redis_server_settled(servers[i]);
    l->provider = redlock_new(&(struct redlock_options){.clock = l->opt.clock,
                                                        .lease_ms = set->lease_ms,
                                                        .timeout_ms = set->redis_timeout_ms},
                              servers, count);
    return code;
}

static enum df_code open_provider(struct df_locks *l, struct df_err *err)
{
    enum df_code code = lock_register(&l->opt, &l->registry, err);

    l->registered = code == DF_OK && l->opt.acquires;
    if (code == DF_OK && l->opt.settings.provider == DF_LOCKS_REDIS)
        code = open_redis(l, err);
    else if (code == DF_OK)
        l->provider = sql_locks_new(&l->opt);
    return code;
}

enum df_code df_locks_open(const struct df_locks_options *opt, struct df_locks **ret,
                           struct df_err *err)
{
    struct df_locks *l = df_calloc(1, sizeof *l);

    l->opt = *opt;
    l->provider = opt->take_provider;
    df_mutex_init(&l->lock);
    df_cond_init(&l->changed);
    register_metrics(l);
    enum df_code code = l->provider ? DF_OK : open_provider(l, err);
    if (code != DF_OK) {
        df_locks_free(l);
        return code;
    }
    l->register_ms = opt->settings.provider == DF_LOCKS_REDIS ? REGISTER_REDIS_MS : REGISTER_SQL_MS;
    l->registered_ms = l->swept_ms = df_mono_ms(opt->clock);
    df_loop_start(&l->loop,
                  &(struct df_loop_options){
                      .name = "locks", .clock = opt->clock, .turn = keep_locks, .arg = l});
    *ret = l;
    return DF_OK;
}

void df_locks_stop(struct df_locks *l)
{
    if (!l)
        return;
    df_loop_stop(&l->loop);
    if (l->provider)
        run_breaks(l);
    if (l->registered)
        lock_register_end(&l->opt);
    l->registered = false;
}

void df_locks_free(struct df_locks *l)
{
    if (!l)
        return;
    df_locks_stop(l);
    assert(l->held.count == 0);
    df_loop_release(&l->loop);
    if (l->provider)
        l->provider->ops->free(l->provider);
    pthread_cond_destroy(&l->changed);
    df_mutex_destroy(&l->lock);
    free(l);
}

bool df_locks_well(struct df_locks *l, struct df_err *err)
{
    if (is_barred(l)) {
        (void)df_err_set(err, DF_E_CONFIG, "other processes use another imports.lock");
        return false;
    }
    return l->provider->ops->well(l->provider, err);
}

int64_t df_locks_lease_ms(const struct df_locks *l)
{
    return l->opt.settings.lease_ms;
}

/* The thread that renews the lease, and takes and hands over shards. README.md tells why nobody
 * sends what another process sends. */
#include "shards/shards.h"

#include "base/instance.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "shards/plan.h"
#include "shards/shards_private.h"

#include <assert.h>
#include <stdio.h>
#include <unistd.h>

#define PERIOD_MS INT64_C(1000)

DF_METRIC_FAMILY(owned_shards) = {
    .name = "dataflow_work_shards",
    .help = "Shards that this process owns, by channel; the sum over all processes is "
            "16.",
    .type = DF_GAUGE,
    .labels = {"channel"},
};
DF_METRIC_FAMILY(lease_seconds) = {
    .name = "dataflow_work_lease_seconds",
    .help = "Time left of this process's lease on its shards.",
    .type = DF_GAUGE,
};
DF_METRIC_FAMILY(taken_total) = {
    .name = "dataflow_work_taken_total",
    .help = "Shards that this process took: free, or lost (of a process that did not end "
            "as it should).",
    .type = DF_COUNTER,
    .labels = {"how"},
};

/* --- what others ask --- */

unsigned df_shard_of(struct df_str id)
{
    uint64_t n = 0;
    if (id.len == DF_UUID_LEN) {
        char c = id.ptr[DF_UUID_LEN - 1];
        return (unsigned)(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10) % DF_SHARDS;
    }
    for (size_t i = 0; i < id.len; i++) {
        if (id.ptr[i] >= '0' && id.ptr[i] <= '9')
            n = n * 10 + (uint64_t)(id.ptr[i] - '0');
    }
    return (unsigned)((id.len > 0 && id.ptr[0] == '-' ? -n : n) % DF_SHARDS);
}

/* A quarter of the lease is kept back. */
static int64_t left_ms(const struct df_shards *s) DF_REQUIRES(s->lock)
{
    return s->lease_end_ms - s->opt.lease_ms / 4 - df_boot_ms(s->opt.clock);
}

uint32_t df_shards_mine(struct df_shard_group *g, int64_t epochs[DF_SHARDS])
{
    struct df_shards *s = g->shards;
    df_lock(&s->lock);
    uint32_t mine = g->owned & ~g->leaving & ~g->untold & ~g->doubted;
    if (s->stopping || left_ms(s) <= 0)
        mine = 0;
    memcpy(epochs, g->epochs, sizeof(g->epochs));
    df_unlock(&s->lock);
    return mine;
}

uint32_t df_shards_owned(struct df_shard_group *g, int64_t epochs[DF_SHARDS])
{
    df_lock(&g->shards->lock);
    uint32_t owned = g->owned;
    memcpy(epochs, g->epochs, sizeof(g->epochs));
    df_unlock(&g->shards->lock);
    return owned;
}

int64_t df_shards_left_ms(struct df_shard_group *g, unsigned shard, int64_t epoch)
{
    struct df_shards *s = g->shards;
    assert(shard < DF_SHARDS);
    df_lock(&s->lock);
    bool same = ((g->owned & ~g->doubted) >> shard & 1) && g->epochs[shard] == epoch;
    int64_t left = same ? left_ms(s) : 0;
    df_unlock(&s->lock);
    return left;
}

void df_shards_enter(struct df_shard_group *g, unsigned shard)
{
    assert(shard < DF_SHARDS);
    df_lock(&g->shards->lock);
    g->in_flight[shard]++;
    df_unlock(&g->shards->lock);
}

void df_shards_leave(struct df_shard_group *g, unsigned shard)
{
    assert(shard < DF_SHARDS);
    df_lock(&g->shards->lock);
    assert(g->in_flight[shard] > 0);
    bool idle = --g->in_flight[shard] == 0 && ((g->leaving >> shard) & 1);
    df_unlock(&g->shards->lock);
    if (idle)
        df_loop_wake(&g->shards->loop);
}

void df_shards_doubt(struct df_shard_group *g, uint32_t shards)
{
    df_lock(&g->shards->lock);
    g->doubted |= shards;
    df_unlock(&g->shards->lock);
    df_loop_wake(&g->shards->loop);
}

void df_shards_yield(struct df_shard_group *g, int64_t for_ms)
{
    struct df_shards *s = g->shards;

    df_lock(&s->lock);
    g->yields_until_ms = df_boot_ms(s->opt.clock) + for_ms;
    df_unlock(&s->lock);
    df_log_info("WorkYielded",
                "others reach what the work of channel %s needs, and this process "
                "does not: it is left to them for %lld s",
                g->channel, (long long)(for_ms / 1000));
}

/* --- what the tables say of others --- */

static bool is_id(const struct df_uuid *a, const struct df_uuid *b)
{
    return strcmp(a->text, b->text) == 0;
}

/* Since when the owner's row has been as it is: nobody renews it who is alive. */
static int64_t unchanged_ms(const struct df_shards *s, const struct shard_owner *o)
{
    for (size_t i = 0; i < s->seen_count; i++) {
        if (is_id(&s->seen[i].id, &o->id) && s->seen[i].renewed_ms == o->renewed_ms)
            return df_boot_ms(s->opt.clock) - s->seen[i].since_ms;
    }
    return 0;
}

/*
 * On SQLite the database's clock is the wall clock of whoever asks, which may jump. There a lease
 * is over when its row was seen to be the same for that long; elsewhere this also ends leases that
 * were renewed before a clock went back.
 */
static bool is_lost(const struct df_shards *s, const struct shard_owner *o)
{
    if (is_id(&o->id, &s->id))
        return false;
    if (s->opt.instance && df_instance_is_gone(s->opt.instance, &o->id))
        return true;
    if (df_store_dialect(s->opt.store) != DF_SQLITE && o->lease_until_ms < o->now_ms)
        return true;
    return unchanged_ms(s, o) > o->lease_until_ms - o->renewed_ms;
}

static void remember_owners(struct df_shards *s, const struct shard_view *v)
{
    int64_t now_ms = df_boot_ms(s->opt.clock);
    struct shard_seen *seen = df_calloc(v->owner_count + 1, sizeof(*seen));

    for (size_t i = 0; i < v->owner_count; i++)
        seen[i] = (struct shard_seen){.id = v->owners[i].id,
                                      .renewed_ms = v->owners[i].renewed_ms,
                                      .since_ms = now_ms - unchanged_ms(s, &v->owners[i])};
    free(s->seen);
    s->seen = seen;
    s->seen_count = v->owner_count;
}

static const struct shard_owner *find_owner(const struct shard_view *v, const struct df_uuid *id)
{
    for (size_t i = 0; i < v->owner_count; i++) {
        if (is_id(&v->owners[i].id, id))
            return &v->owners[i];
    }
    return NULL;
}

/* Whether a list with commas names the channel. */
static bool serves(const char *channels, const char *channel)
{
    size_t len = strlen(channel);
    for (const char *p = channels; p; p = strchr(p, ',')) {
        p += *p == ',';
        if (strncmp(p, channel, len) == 0 && (p[len] == ',' || p[len] == '\0'))
            return true;
    }
    return false;
}

/* How many serve the channel, and which of them this process is. */
static void count_owners(const struct df_shards *s, const struct shard_view *v, const char *channel,
                         bool stopping, struct shard_look *look)
{
    bool found = false;
    look->owners = 0;
    for (size_t i = 0; i < v->owner_count; i++) {
        const struct shard_owner *o = &v->owners[i];
        bool self = is_id(&o->id, &s->id);
        if (o->lost || (self ? stopping : !serves(o->channels, channel)))
            continue;
        if (self)
            look->rank = look->owners;
        found = found || self;
        look->owners++;
    }
    if (!found)
        look->rank = look->owners;
    if (!found && !stopping)
        look->owners++; /* its row is not written yet */
}

/* --- deciding --- */

static void look_at_group(struct df_shards *s, const struct shard_view *v, size_t group,
                          bool stopping, struct shard_look *look, int64_t epochs[DF_SHARDS])
    DF_REQUIRES(s->lock)
{
    const struct df_shard_group *g = s->groups[group];
    uint32_t known = 0;

    *look = (struct shard_look){.leaving = g->leaving};
    memset(epochs, 0, sizeof(int64_t) * DF_SHARDS);
    for (size_t i = 0; i < v->row_count; i++) {
        const struct shard_row *r = &v->rows[i];
        uint32_t bit = UINT32_C(1) << r->shard;
        if (r->group != group)
            continue;
        known |= bit;
        epochs[r->shard] = r->epoch;
        const struct shard_owner *o = find_owner(v, &r->owner);
        if (r->owner.text[0] == '\0')
            look->free |= bit;
        else if (!is_id(&r->owner, &s->id))
            look->lost |= !o || o->lost ? bit : 0;
        else if ((g->owned & bit) && g->epochs[r->shard] == r->epoch)
            look->mine |= bit;
        else
            look->stray |= bit;
    }
    look->free |= DF_SHARDS_ALL & ~known;
    for (unsigned n = 0; n < DF_SHARDS; n++)
        look->busy |= g->in_flight[n] > 0 ? UINT32_C(1) << n : 0;
    count_owners(s, v, g->channel, stopping, look);
}

static void add_changes(struct shard_decision *d, size_t group, uint32_t shards, bool take,
                        const struct shard_look *look, const int64_t epochs[DF_SHARDS])
{
    for (unsigned n = 0; n < DF_SHARDS; n++) {
        uint32_t bit = UINT32_C(1) << n;
        if (shards & bit)
            d->changes[d->change_count++] =
                (struct shard_change){.group = group,
                                      .shard = n,
                                      .epoch = epochs[n],
                                      .take = take,
                                      .missing = take && epochs[n] == 0,
                                      .unclean = ((look->lost | look->stray) & bit) != 0};
    }
}

static bool yields(const struct df_shards *s, const struct df_shard_group *g) DF_REQUIRES(s->lock)
{
    return df_boot_ms(s->opt.clock) < g->yields_until_ms;
}

/* Shards to be handed over are no longer taken from; those without rows in flight are released. At
 * the end they are released for others only: without any, the end itself does it. */
static void decide_group(struct df_shards *s, struct shard_decision *d, size_t group, bool stopping)
    DF_REQUIRES(s->lock)
{
    struct df_shard_group *g = s->groups[group];
    struct shard_look look;
    int64_t epochs[DF_SHARDS];

    if (yields(s, g)) {
        look_at_group(s, &d->view, group, true, &look, epochs);
        stopping = stopping || look.owners > 0;
    }
    look_at_group(s, &d->view, group, stopping, &look, epochs);
    struct shard_plan plan = shard_plan_make(&look);
    g->owned = look.mine;
    g->doubted = 0;
    g->leaving = plan.leaving;
    if (!stopping)
        add_changes(d, group, plan.take, true, &look, epochs);
    if (!stopping || look.owners > 0)
        add_changes(d, group, plan.leaving & ~look.busy, false, &look, epochs);
}

void shard_decide(struct df_shards *s, struct shard_decision *d)
{
    struct shard_view *v = &d->view;

    d->changes = df_calloc(s->group_count * DF_SHARDS + 1, sizeof(*d->changes));
    d->lost = df_calloc(v->owner_count + 1, sizeof(*d->lost));
    for (size_t i = 0; i < v->owner_count; i++) {
        v->owners[i].lost = is_lost(s, &v->owners[i]);
        if (v->owners[i].lost)
            d->lost[d->lost_count++] = v->owners[i];
    }
    df_lock(&s->lock);
    for (size_t g = 0; g < s->group_count; g++)
        decide_group(s, d, g, s->stopping);
    df_unlock(&s->lock);
}

void shard_decision_release(struct shard_decision *d)
{
    shard_view_free(&d->view);
    free(d->changes);
    free(d->lost);
    *d = (struct shard_decision){.lost_count = 0};
}

/* --- applying --- */

/* What a round changed. */
struct round {
    uint32_t before[GROUPS_MAX]; /* from which rows could be taken */
    uint32_t taken[GROUPS_MAX];
    uint32_t unclean[GROUPS_MAX];
    bool revived; /* no time was left of the lease before */
    bool lost;
};

static void apply_changes(struct df_shards *s, const struct shard_turn *t, struct round *round)
    DF_REQUIRES(s->lock)
{
    for (size_t i = 0; i < t->decision->change_count; i++) {
        const struct shard_change *c = &t->decision->changes[i];
        struct df_shard_group *g = s->groups[c->group];
        uint32_t bit = UINT32_C(1) << c->shard;
        if (!c->done)
            continue;
        g->owned = c->take ? g->owned | bit : g->owned & ~bit;
        g->leaving &= ~bit;
        g->untold |= c->take && c->unclean ? bit : 0;
        g->epochs[c->shard] = c->epoch + 1;
        round->taken[c->group] |= c->take ? bit : 0;
        round->unclean[c->group] |= c->take && c->unclean ? bit : 0;
    }
}

static void log_changes(const struct shard_turn *t)
{
    size_t taken = 0, unclean = 0, released = 0;
    for (size_t i = 0; i < t->decision->change_count; i++) {
        const struct shard_change *c = &t->decision->changes[i];
        taken += c->done && c->take;
        unclean += c->done && c->take && c->unclean;
        released += c->done && !c->take;
    }
    if (taken > 0)
        df_log_info("WorkTaken",
                    "took %zu shards, %zu of them of a process that did not end as it should",
                    taken, unclean);
    if (released > 0)
        df_log_info("WorkReleased", "gave back %zu shards", released);
    df_metric_add(df_metric_get(&taken_total, &DF_STR("free")), (double)(taken - unclean));
    df_metric_add(df_metric_get(&taken_total, &DF_STR("lost")), (double)unclean);
}

/* Those that this process wants shards of, comma separated. */
static char *served_channels(struct df_shards *s)
{
    char *channels = df_malloc(strlen(s->channels) + 1);
    size_t len = 0;

    df_lock(&s->lock);
    for (size_t i = 0; i < s->group_count; i++) {
        const struct df_shard_group *g = s->groups[i];
        size_t name_len = strlen(g->channel);
        if (yields(s, g))
            continue;
        if (len > 0)
            channels[len++] = ',';
        memcpy(channels + len, g->channel, name_len);
        len += name_len;
    }
    df_unlock(&s->lock);
    channels[len] = '\0';
    return channels;
}

/* Renews the lease, and writes what was decided. */
static enum df_code write_turn(struct df_shards *s, struct shard_decision *d, struct round *round,
                               struct df_err *err)
{
    char *channels = served_channels(s);
    struct shard_turn t = {.shards = s,
                           .channels = channels,
                           .registered = s->registered,
                           .looks = !s->registered,
                           .decision = d};

    df_lock(&s->lock);
    if (s->stopping)
        t.channels = "";
    df_unlock(&s->lock);
    int64_t sent_ms = df_boot_ms(s->opt.clock);
    enum df_code code = shard_turn_write(&t, err);
    free(channels);
    if (code != DF_OK)
        return code;

    df_lock(&s->lock);
    round->revived = round->revived || left_ms(s) <= 0;
    s->lease_end_ms = sent_ms + s->opt.lease_ms;
    for (size_t i = 0; t.was_lost && i < s->group_count; i++)
        s->groups[i]->owned = s->groups[i]->leaving = 0;
    apply_changes(s, &t, round);
    df_unlock(&s->lock);
    s->registered = true;
    round->lost = t.was_lost;
    if (t.was_lost)
        df_log_warn("WorkLeaseLost", "another process found this one's lease to be over, and may "
                                     "have taken its shards");
    log_changes(&t);
    return DF_OK;
}

/* Tells the channel of what a lost owner left, before rows of it are taken. */
static void tell_unclean(struct df_shard_group *g, uint32_t unclean)
{
    g->changed(g->arg, 0, unclean);
    df_lock(&g->shards->lock);
    g->untold = 0;
    df_unlock(&g->shards->lock);
}

/* Tells the channels whose shards are not what they were. */
static void tell_channels(struct df_shards *s, const struct round *round)
{
    for (size_t i = 0; i < s->group_count; i++) {
        struct df_shard_group *g = s->groups[i];
        df_metric_set(
            df_metric_get(&owned_shards, &(struct df_str){g->channel, strlen(g->channel)}),
            __builtin_popcount(g->owned));
        if (round->unclean[i])
            tell_unclean(g, round->unclean[i]);
        if (round->revived || round->taken[i] || (g->owned & ~g->leaving) != round->before[i])
            g->changed(g->arg, round->taken[i], 0);
    }
}

/* --- the thread --- */

static enum df_code go_round(struct df_shards *s, struct round *round, struct df_err *err)
{
    struct shard_decision d = {.lost_count = 0};
    bool first = !s->registered;
    enum df_code code = write_turn(s, &d, round, err);

    if (code == DF_OK && !first && !round->lost) {
        code = shard_view_read(s, &d.view, err);
        if (code == DF_OK)
            shard_decide(s, &d);
        if (code == DF_OK && (d.change_count > 0 || d.lost_count > 0))
            code = write_turn(s, &d, round, err);
    }
    if (code == DF_OK && !round->lost)
        remember_owners(s, &d.view);
    shard_decision_release(&d);
    return code;
}

static int64_t take_turn(void *arg)
{
    struct df_shards *s = arg;
    struct round round = {.lost = false};
    struct df_err err = DF_ERR_INIT;

    for (size_t i = 0; i < s->group_count; i++)
        round.before[i] = s->groups[i]->owned & ~s->groups[i]->leaving;
    enum df_code code = go_round(s, &round, &err);
    if (code != DF_OK && !s->late)
        df_log_warn("WorkLeaseLate", "the lease on shards was not renewed: %s", err.detail);
    s->late = code != DF_OK;
    tell_channels(s, &round);
    if (code != DF_OK)
        return DF_LOOP_FAILED;
    int64_t sixth_ms = s->opt.lease_ms / 6;
    return round.lost ? 0 : sixth_ms < PERIOD_MS ? sixth_ms : PERIOD_MS;
}

static void collect_figures(void *arg)
{
    struct df_shards *s = arg;
    df_lock(&s->lock);
    int64_t left = s->lease_end_ms - df_boot_ms(s->opt.clock);
    df_unlock(&s->lock);
    df_metric_set(df_metric_get(&lease_seconds, NULL), left > 0 ? (double)left / 1000 : 0);
}

/* --- start and end --- */

struct df_shards *df_shards_new(const struct df_shards_options *opt)
{
    struct df_shards *s = df_calloc(1, sizeof(*s));
    char host[128] = "";

    assert(opt->store && opt->clock && opt->version && opt->lease_ms > 0);
    s->opt = *opt;
    s->id = opt->instance ? opt->instance->id : df_uuid_v4(opt->clock);
    (void)gethostname(host, sizeof(host) - 1);
    (void)snprintf(s->name, sizeof(s->name), "%s/%ld", host, (long)getpid());
    s->channels = df_strdup(DF_STR(""));
    df_mutex_init(&s->lock);
    df_metric_register(&taken_total);
    df_metric_on_collect(collect_figures, s);
    return s;
}

struct df_shard_group *df_shards_add(struct df_shards *s, const char *channel,
                                     void (*changed)(void *arg, uint32_t taken, uint32_t unclean),
                                     void *arg)
{
    struct df_shard_group *g = df_calloc(1, sizeof(*g));
    size_t len = strlen(s->channels), more = strlen(channel);

    assert(s->group_count < GROUPS_MAX && more <= CHANNEL_NAME_MAX && !s->loop.threads);
    g->shards = s;
    memcpy(g->channel, channel, more + 1);
    g->changed = changed;
    g->arg = arg;
    s->groups[s->group_count++] = g;
    s->channels = df_realloc(s->channels, len + more + 2);
    (void)snprintf(s->channels + len, more + 2, "%s%s", len > 0 ? "," : "", channel);
    return g;
}

void df_shards_start(struct df_shards *s)
{
    int64_t next_ms = take_turn(s);
    df_loop_start(&s->loop, &(struct df_loop_options){.name = "shards",
                                                      .clock = s->opt.clock,
                                                      .backoff_min_ms = 100,
                                                      .backoff_max_ms = PERIOD_MS,
                                                      .first_ms = next_ms < 0 ? 100 : next_ms,
                                                      .turn = take_turn,
                                                      .arg = s});
}

void df_shards_stop(struct df_shards *s)
{
    if (!s)
        return;
    df_lock(&s->lock);
    s->stopping = true;
    df_unlock(&s->lock);
    df_loop_wake(&s->loop);
}

/* Shards with rows that were never settled keep their owner's id, without its row: whoever takes
 * them sees that this was no clean end for them. */
void df_shards_end(struct df_shards *s)
{
    if (!s || !s->loop.threads)
        return;
    struct shard_look look = {0};
    struct shard_decision d = {.changes =
                                   df_calloc(s->group_count * DF_SHARDS + 1, sizeof(*d.changes))};
    struct df_err err = DF_ERR_INIT;

    df_loop_release(&s->loop);
    df_lock(&s->lock);
    s->stopping = true;
    for (size_t i = 0; i < s->group_count; i++) {
        struct df_shard_group *g = s->groups[i];
        uint32_t busy = 0;
        for (unsigned n = 0; n < DF_SHARDS; n++)
            busy |= g->in_flight[n] > 0 ? UINT32_C(1) << n : 0;
        add_changes(&d, i, g->owned & ~busy, false, &look, g->epochs);
        g->owned = g->leaving = 0;
    }
    df_unlock(&s->lock);
    struct shard_turn t = {.shards = s, .ends = true, .decision = &d};
    if (shard_turn_write(&t, &err) != DF_OK)
        df_log_warn("WorkLeaseLate", "shards were not given back: %s", err.detail);
    shard_decision_release(&d);
}

void df_shards_free(struct df_shards *s)
{
    if (!s)
        return;
    df_metric_off_collect(collect_figures, s);
    df_loop_release(&s->loop);
    for (size_t i = 0; i < s->group_count; i++)
        free(s->groups[i]);
    free(s->seen);
    free(s->channels);
    df_mutex_destroy(&s->lock);
    free(s);
}

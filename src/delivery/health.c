/*
 * The health of targets in the database: every second, one small job writes what this process saw
 * and reads what the others wrote. Without news it only reads.
 *
 * Written: how many rows arrived, the last arrival and failure, since when the breaker is not
 * closed. Read: how many arrived at all, which targets and channels are paused, and which targets
 * rows wait for, whoever held them.
 *
 * A job whose commit failed in a way that leaves its outcome unknown is written again; then some
 * arrivals count twice, which only makes a target look a little livelier.
 */
#include "base/log.h"
#include "base/mem.h"
#include "delivery/delivery_private.h"
#include "delivery/targets.sql.h"

#include <assert.h>
#include <stdlib.h>

#define READ_MAX       1000 /* paused ones come first */
#define YIELD_AFTER_MS 2000 /* that a target is away here, while rows of others arrive there */
#define YIELD_MS       60000

enum { DOWN_AS_IT_WAS, DOWN_SINCE, DOWN_OVER };

/* What is written about a target: a copy, as the target may change while the job runs. */
struct news {
    struct delivery_target *of;
    struct df_str name;
    int64_t arrived;
    int64_t last_arrived_ms; /* 0: none */
    int64_t last_failed_ms;
    struct df_str error;
    int down;
    int64_t down_since_ms;
};

/* What was read: a row of DeliveryTargets, or a target that rows wait for. */
struct seen {
    struct seen *next;
    struct delivery_channel *channel;
    struct df_str name;
    int64_t id;
    int64_t arrived;
    int64_t down_since_ms; /* 0: it is well */
    bool paused;
    bool has_held;
};

struct health_job {
    struct df_job job;
    struct df_delivery *d;
    struct df_arena kept; /* of the news */
    struct news *news;
    size_t news_count;
    struct df_arena arena; /* of what is read, in each run afresh */
    struct seen *first;
    struct seen **last;
    struct delivery_channel *reading;
};

/* --- the job ---------------------------------------------------------------------------------- */

static struct df_value time_or_null(int64_t ms)
{
    return ms > 0 ? df_time(ms) : df_null(DF_TIME);
}

static enum df_code save_news(struct df_db *db, const struct news *n, struct df_value now,
                              struct df_err *err)
{
    struct df_value channel = df_text(df_str_c(n->of->channel->c->name));
    int64_t affected = 0;
    enum df_code code = DF_OK;

    for (int round = 0; round < 2 && code == DF_OK && affected == 0; round++) {
        if (round == 1)
            code = df_db_exec(
                db, DF_Q(target_add, .channel = channel, .target = df_text(n->name), .now = now),
                NULL, err);
        if (code == DF_OK)
            code = df_db_exec(db,
                              DF_Q(target_save, .arrived = df_int(n->arrived),
                                   .last_arrived = time_or_null(n->last_arrived_ms),
                                   .last_failed = time_or_null(n->last_failed_ms),
                                   .error = n->error.len ? df_text(n->error) : df_null(DF_TEXT),
                                   .down = df_int(n->down),
                                   .down_since = time_or_null(n->down_since_ms), .now = now,
                                   .channel = channel, .target = df_text(n->name)),
                              &affected, err);
    }
    return code;
}

static struct seen *add_seen(struct health_job *h, struct delivery_channel *ch, struct df_str name)
{
    struct seen *s = df_arena_alloc(&h->arena, sizeof(*s));

    *s = (struct seen){.channel = ch, .name = df_arena_str(&h->arena, name)};
    *h->last = s;
    h->last = &s->next;
    return s;
}

static struct delivery_channel *channel_named(struct df_delivery *d, struct df_str name)
{
    for (size_t i = 0; i < d->channel_count; i++)
        if (df_str_eq(df_str_c(d->channels[i]->c->name), name))
            return d->channels[i];
    return NULL;
}

static void read_target(void *arg, struct df_result *r)
{
    struct health_job *h = arg;
    struct delivery_channel *ch = channel_named(h->d, df_col_text(r, target_list_Channel));

    if (!ch) /* the relay's, or of ticket processing */
        return;
    struct seen *s = add_seen(h, ch, df_col_text(r, target_list_Target));
    s->id = df_col_int(r, target_list_Id);
    s->arrived = df_col_int(r, target_list_Arrived);
    if (!df_col_null(r, target_list_DownSince))
        s->down_since_ms = df_col_time(r, target_list_DownSince);
    s->paused = !df_col_null(r, target_list_PausedAt);
}

static void read_held(void *arg, struct df_result *r)
{
    struct health_job *h = arg;
    struct seen *s = add_seen(h, h->reading, df_col_text(r, channel_held_Target));

    s->id = df_col_int(r, channel_held_Id);
    s->has_held = true;
}

static enum df_code run_health(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct health_job *h = (struct health_job *)job;
    struct df_value now = df_time(df_wall_ms(h->d->opt.clock));
    enum df_code code = DF_OK;

    df_arena_reset(&h->arena);
    h->first = NULL;
    h->last = &h->first;
    for (size_t i = 0; i < h->news_count && code == DF_OK; i++)
        code = save_news(db, &h->news[i], now, err);
    for (size_t i = 0; i < h->d->channel_count && code == DF_OK; i++) {
        h->reading = h->d->channels[i];
        const struct df_query *q = h->reading->c->held;
        if (q && h->reading->c->claim && !h->reading->c->schedule)
            code = df_db_each(db,
                              DF_ANY(q, {"channel", df_text(df_str_c(h->reading->c->name))},
                                     {"limit", df_int(READ_MAX)}),
                              read_held, h, err);
    }
    /* Last: it says more about targets that were found above. */
    if (code == DF_OK)
        code = df_db_each(db, DF_Q(target_list, .limit = df_int(READ_MAX)), read_target, h, err);
    return code;
}

/* --- what it brought -------------------------------------------------------------------------- */

static void news_saved(struct df_delivery *d, struct health_job *h, bool ok) DF_REQUIRES(d->lock)
{
    (void)d;
    for (size_t i = 0; i < h->news_count; i++) {
        const struct news *n = &h->news[i];
        n->of->saving = false;
        if (ok) {
            n->of->unsaved -= n->arrived;
            n->of->saved += n->arrived;
        } else {
            n->of->dirty = true;
        }
        if (ok && n->down != DOWN_AS_IT_WAS && n->of->down == (n->down == DOWN_SINCE))
            n->of->down_told = true;
    }
}

/* What this process knows of arrivals never goes back, so that no row's mark is in the future. */
static void adopt_target(struct df_delivery *d, const struct seen *s) DF_REQUIRES(d->lock)
{
    bool wanted = s->has_held || s->paused;
    struct delivery_target *t = wanted ? delivery_target_get(d, s->channel, s->name)
                                       : delivery_target_find(d, s->channel, s->name);

    if (!t)
        return;
    t->id = s->id;
    t->has_held = t->has_held || s->has_held;
    if (s->has_held)
        return; /* only these two were read */
    bool was_known = t->known;
    t->paused = s->paused;
    t->known = true;
    /* Another process, which may be gone, could not reach what this one reached since. */
    if (!t->down && s->down_since_ms > 0 && t->last_arrived_ms > s->down_since_ms) {
        t->down_told = false;
        t->dirty = true;
    }
    int64_t now_ms = df_wall_ms(d->opt.clock);
    if (was_known && s->arrived > t->saved)
        t->others_ms = now_ms;
    if (t->down && t->others_ms > t->down_since_ms && t->channel->shards &&
        now_ms - t->down_since_ms > YIELD_AFTER_MS) {
        t->channel->yields = true;
        t->others_ms = 0;
    }
    t->saved = s->arrived > t->saved ? s->arrived : t->saved;
}

static void adopt_all(struct df_delivery *d, struct health_job *h) DF_REQUIRES(d->lock)
{
    const struct seen *s;

    for (size_t i = 0; i < d->channel_count; i++)
        d->channels[i]->pause_seen = false;
    for (s = h->first; s; s = s->next) {
        if (s->name.len == 0)
            s->channel->pause_seen = s->paused;
        else if (s->name.len <= DELIVERY_TARGET_MAX && !s->channel->c->schedule)
            adopt_target(d, s);
    }
    for (size_t i = 0; i < d->channel_count; i++) {
        struct delivery_channel *ch = d->channels[i];
        ch->woken = ch->woken || (ch->paused && !ch->pause_seen);
        ch->paused = ch->pause_seen;
    }
}

/* What this process cannot reach is left to those that do. */
static void yield_channels(struct df_delivery *d)
{
    for (size_t i = 0; i < d->channel_count; i++) {
        struct delivery_channel *ch = d->channels[i];
        df_lock(&d->lock);
        bool yields = ch->yields && delivery_mono_ms(d) >= ch->yielded_until_ms;
        ch->yields = false;
        if (yields)
            ch->yielded_until_ms = delivery_mono_ms(d) + YIELD_MS;
        df_unlock(&d->lock);
        if (yields)
            df_shards_yield(ch->shards, YIELD_MS);
    }
}

static void health_done(struct df_job *job, enum df_code code, const struct df_err *err)
{
    struct health_job *h = (struct health_job *)job;
    struct df_delivery *d = h->d;

    if (code != DF_OK)
        df_log_warn("DeliveryHealthFailed", "%s", err->detail);
    df_lock(&d->lock);
    news_saved(d, h, code == DF_OK);
    d->health_running = false;
    if (code == DF_OK) {
        adopt_all(d, h);
        d->health_known = true;
        df_backoff_reset(&d->health_backoff);
    } else {
        d->health_ms = delivery_mono_ms(d) + df_backoff_more(&d->health_backoff);
    }
    pthread_cond_broadcast(&d->changed);
    df_unlock(&d->lock);
    yield_channels(d);
    df_arena_release(&h->arena);
    df_arena_release(&h->kept);
    free(h);
}

/* --- collecting ------------------------------------------------------------------------------- */

static int down_news(const struct delivery_target *t)
{
    if (t->down_told)
        return DOWN_AS_IT_WAS;
    return t->down ? DOWN_SINCE : DOWN_OVER;
}

static void add_news(struct df_delivery *d, struct health_job *h, struct delivery_target *t)
    DF_REQUIRES(d->lock)
{
    (void)d;
    h->news[h->news_count++] = (struct news){
        .of = t,
        .name = df_arena_str(&h->kept, delivery_target_name(t)),
        .arrived = t->unsaved,
        .last_arrived_ms = t->unsaved > 0 ? t->last_arrived_ms : 0,
        .last_failed_ms = t->dirty ? t->last_failed_ms : 0,
        .error = t->dirty ? df_arena_str(&h->kept, df_str_c(t->error)) : DF_STR_NULL,
        .down = down_news(t),
        .down_since_ms = t->down ? t->down_since_ms : 0,
    };
    t->dirty = false;
    t->saving = true;
}

/* In one order for all processes, as they update the same rows. */
static int compare_news(const void *a, const void *b)
{
    const struct news *x = a;
    const struct news *y = b;
    int order = strcmp(x->of->channel->c->name, y->of->channel->c->name);
    size_t len = x->name.len < y->name.len ? x->name.len : y->name.len;

    order = order ? order : memcmp(x->name.ptr, y->name.ptr, len);
    return order ? order : (x->name.len > y->name.len) - (x->name.len < y->name.len);
}

static struct health_job *collect_news(struct df_delivery *d) DF_REQUIRES(d->lock)
{
    struct health_job *h = df_calloc(1, sizeof(*h));
    struct delivery_target *t;

    h->d = d;
    h->job = (struct df_job){.run = run_health, .done = health_done};
    df_arena_init(&h->kept);
    df_arena_init(&h->arena);
    h->news = DF_ARENA_ARRAY(&h->kept, struct news, d->targets.count);
    for (size_t at = 0; (t = df_map_next(&d->targets, &at));)
        if (t->dirty || t->unsaved > 0 || t->id == 0)
            add_news(d, h, t);
    if (h->news_count > 1)
        qsort(h->news, h->news_count, sizeof(*h->news), compare_news);
    d->health_running = true;
    d->health_ms = delivery_mono_ms(d) + d->opt.poll_ms;
    d->health_hurry = false;
    return h;
}

int64_t delivery_health_at(const struct df_delivery *d)
{
    if (d->health_running)
        return INT64_MAX;
    return d->health_hurry ? 0 : d->health_ms;
}

void delivery_health_hurry(struct df_delivery *d)
{
    d->health_hurry = true;
    pthread_cond_broadcast(&d->changed);
}

void delivery_health(struct df_delivery *d)
{
    struct health_job *h = NULL;

    df_lock(&d->lock);
    bool due = !d->stopping && delivery_mono_ms(d) >= delivery_health_at(d);
    df_unlock(&d->lock);
    if (!due)
        return;
    delivery_targets_check(d);
    df_lock(&d->lock);
    h = collect_news(d);
    df_unlock(&d->lock);
    bool taken = h->news_count > 0 ? df_store_write(d->opt.store, &h->job)
                                   : df_store_read(d->opt.store, &h->job);
    if (!taken) {
        struct df_err err = DF_ERR_INIT;
        health_done(&h->job, df_err_set(&err, DF_E_BUSY, "the store's queue is full"), &err);
    }
}

/* The engine's thread has ended. */
void delivery_health_end(struct df_delivery *d)
{
    struct df_err err = DF_ERR_INIT;

    df_lock(&d->lock);
    bool running = d->health_running;
    struct health_job *h = running ? NULL : collect_news(d);
    df_unlock(&d->lock);
    if (!h)
        return;
    h->job.done = NULL;
    enum df_code code =
        h->news_count > 0 ? df_store_write_wait(d->opt.store, &h->job, &err) : DF_OK;
    health_done(&h->job, code, &err);
}

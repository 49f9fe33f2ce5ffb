/*
 * Due times are times of the wall clock, which people and programs set. A clock that is set forward
 * only makes rows due early (held.c keeps rows on their way from being sent twice). A clock that is
 * set back would leave rows waiting that were written or tried "after now". The engine looks for
 * these rows when it starts and when it sees the clock go back, and makes them due one lease later:
 * by then every attempt that was under way has ended, whatever the clock of its process says. A
 * jump of less than a lease is ignored: rows are late by no more than that.
 */
#include "base/log.h"
#include "base/mem.h"
#include "delivery/delivery_private.h"

#include <stdlib.h>

#define REBASE_MAX 1000 /* rows in one step */

struct watch {
    struct df_job job;
    struct delivery_channel *channel;
    int64_t found_ms;
    struct df_value params[5];
};

/* --- looking for rows from "after now" -------------------------------------------------------- */

static void read_latest(void *arg, struct df_result *r)
{
    struct watch *w = arg;

    w->found_ms = df_col_time(r, channel_ahead_Latest); /* -1 for NULL */
}

static enum df_code run_look_ahead(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct watch *w = (struct watch *)job;
    const struct df_query *q = w->channel->c->ahead;

    w->found_ms = -1;
    return df_db_each(db, DF_ANY(q, {"now", df_time(delivery_now(w->channel))}), read_latest, w,
                      err);
}

static void look_ahead_done(struct df_job *job, enum df_code code, const struct df_err *err)
{
    struct watch *w = (struct watch *)job;
    struct delivery_channel *ch = w->channel;
    struct df_delivery *d = ch->d;
    int64_t lease_ms = delivery_lease(ch);
    bool found = code == DF_OK && w->found_ms > delivery_now(ch) + lease_ms;

    (void)err; /* the store has logged it */
    if (found) {
        struct df_log_field fields[] = {DF_F("channel", df_str_c(ch->c->name))};
        df_log_write(DF_LOG_WARN, "DeliveryClockBehind", fields, 1,
                     "the clock was set back: rows from later than now are due in %lld s",
                     (long long)(lease_ms / 1000));
    }
    df_lock(&d->lock);
    ch->look_ahead = code != DF_OK;
    ch->ahead_until_ms = found ? w->found_ms : 0;
    ch->rebase_ms = found ? delivery_mono_ms(d) + lease_ms : 0;
    df_unlock(&d->lock);
    free(w);
}

/* --- making them due -------------------------------------------------------------------------- */

static void rebase_done(struct df_job *job, enum df_code code, const struct df_err *err)
{
    struct watch *w = (struct watch *)job;
    struct delivery_channel *ch = w->channel;
    struct df_delivery *d = ch->d;

    if (code != DF_OK)
        df_log_warn("DeliveryCycleFailed", "%s", err->detail);
    df_lock(&d->lock);
    if (code == DF_OK && job->affected < REBASE_MAX)
        ch->rebase_ms = 0;
    ch->woken = ch->woken || job->affected > 0;
    pthread_cond_broadcast(&d->changed);
    df_unlock(&d->lock);
    free(w);
}

static void submit_watch(struct delivery_channel *ch, bool rebase, int64_t until_ms)
{
    struct watch *w = df_calloc(1, sizeof(*w));
    int64_t now_ms = delivery_now(ch);
    const struct df_query *q = ch->c->rebase;
    bool taken;

    w->channel = ch;
    w->job = (struct df_job){.run = run_look_ahead, .done = look_ahead_done};
    if (rebase) {
        const struct df_binding values[] = {
            {"now", df_time(now_ms)},
            {"lease_until", df_time(now_ms + delivery_lease(ch))},
            {"until", df_time(until_ms)},
            {"limit", df_int(REBASE_MAX)},
        };
        w->job = (struct df_job){
            .query = q,
            .params = df_query_bind(q, values, sizeof(values) / sizeof(values[0]), w->params),
            .done = rebase_done};
        taken = df_store_write(ch->d->opt.store, &w->job);
    } else {
        taken = df_store_read(ch->d->opt.store, &w->job);
    }
    if (!taken)
        free(w);
}

void delivery_watch_clock(struct df_delivery *d)
{
    int64_t mono_ms = delivery_mono_ms(d);
    int64_t clock_ms = df_wall_ms(d->opt.clock) - mono_ms;
    bool back = d->clock_ms == INT64_MIN || clock_ms < d->clock_ms - d->opt.settings.lease_ms;

    d->clock_ms = clock_ms;
    for (size_t i = 0; i < d->channel_count; i++) {
        struct delivery_channel *ch = d->channels[i];
        if (!ch->c->claim)
            continue;
        df_lock(&d->lock);
        bool look = ch->look_ahead = ch->look_ahead || back;
        bool due = ch->rebase_ms > 0 && mono_ms >= ch->rebase_ms;
        int64_t until_ms = ch->ahead_until_ms;
        df_unlock(&d->lock);
        if (look || due)
            submit_watch(ch, !look, until_ms);
    }
}

/* The engine's metrics. */
#include "base/log.h"
#include "base/mem.h"
#include "delivery/attempts.sql.h"
#include "delivery/delivery_private.h"

#include <assert.h>
#include <stdlib.h>

#define FIGURES_SHARE  20    /* counting takes no more than this part of the time, */
#define FIGURES_MAX_MS 15000 /* but is no older than this */

DF_METRIC_FAMILY(attempts_total) = {
    .name = "dataflow_delivery_attempts_total",
    .help = "Deliveries by channel and outcome: sent, retry, error (waits for a person), "
            "deferred (not tried).",
    .type = DF_COUNTER,
    .labels = {"channel", "outcome"},
};
DF_METRIC_FAMILY(duration_seconds) = {
    .name = "dataflow_delivery_duration_seconds",
    .help = "Attempts, from the engine's hand to the answer, waiting for a connection "
            "included.",
    .type = DF_HISTOGRAM,
    DF_METRIC_SECONDS,
    .labels = {"channel"},
};
DF_METRIC_FAMILY(in_flight_rows) = {
    .name = "dataflow_delivery_in_flight",
    .help = "Rows that this process is to send, or that are on their way.",
    .type = DF_GAUGE,
    .labels = {"channel"},
};
DF_METRIC_FAMILY(waiting_rows) = {
    .name = "dataflow_delivery_waiting",
    .help = "Rows that will be sent by themselves. Counted every 5 s by every process "
            "that delivers: take the maximum, not the sum.",
    .type = DF_GAUGE,
    .labels = {"channel"},
};
DF_METRIC_FAMILY(oldest_seconds) = {
    .name = "dataflow_delivery_oldest_seconds",
    .help = "Age of the oldest row that waits; the one to have an alarm on. Counted as "
            "those that wait: take the maximum.",
    .type = DF_GAUGE,
    .labels = {"channel"},
};
DF_METRIC_FAMILY(given_up_rows) = {
    .name = "dataflow_delivery_given_up",
    .help = "Rows that were given up and wait for a person. Counted as those that wait: "
            "take the maximum.",
    .type = DF_GAUGE,
    .labels = {"channel"},
};
DF_METRIC_FAMILY(given_up_total) = {
    .name = "dataflow_delivery_given_up_total",
    .help = "Rows that this process gave up.",
    .type = DF_COUNTER,
    .labels = {"channel"},
};

DF_METRIC_FAMILY(held_rows) = {
    .name = "dataflow_delivery_held",
    .help = "Rows that wait for their target, which is away or paused. Counted as those "
            "that wait: take the maximum.",
    .type = DF_GAUGE,
    .labels = {"channel"},
};

static const char *const outcome_labels[DELIVERY_OUTCOMES] = {"sent", "retry", "error", "deferred"};

void delivery_metrics_make(struct delivery_channel *ch, struct df_str name)
{
    for (size_t i = 0; i < DELIVERY_OUTCOMES; i++)
        ch->attempts[i] = df_metric_get(&attempts_total,
                                        (const struct df_str[]){name, df_str_c(outcome_labels[i])});
    ch->duration = df_metric_get(&duration_seconds, &name);
    ch->in_flight = df_metric_get(&in_flight_rows, &name);
    ch->waiting = df_metric_get(&waiting_rows, &name);
    ch->oldest = df_metric_get(&oldest_seconds, &name);
    ch->waiting_for_target = df_metric_get(&held_rows, &name);
    ch->given_up = df_metric_get(&given_up_rows, &name);
    ch->given_up_total = df_metric_get(&given_up_total, &name);
}

struct figures {
    struct df_job job;
    struct delivery_channel *channel;
    int64_t begun_ms; /* monotonic */
    int64_t rows;
    int64_t oldest_ms;
    int64_t held;
    int64_t given_up;
};

static void read_figures(void *arg, struct df_result *r)
{
    struct figures *f = arg;

    f->rows = df_col_int(r, channel_waiting_Documents);
    f->oldest_ms = df_col_time(r, channel_waiting_Oldest);
    f->held = df_col_int(r, channel_waiting_Held);
}

static enum df_code figures_run(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct figures *f = (struct figures *)job;
    const struct df_channel *c = f->channel->c;
    struct df_value since = df_time(delivery_now(f->channel) - DF_CHANNEL_GIVEN_UP_MS);
    enum df_code code = df_db_one(db, DF_NO_VALUES(c->waiting), read_figures, f, NULL, err);

    if (code == DF_OK)
        code = df_db_query_int(db, DF_ANY(c->given_up_total, {"since", since}), &f->given_up, err);
    return code;
}

static void figures_done(struct df_job *job, enum df_code code, const struct df_err *err)
{
    struct figures *f = (struct figures *)job;
    (void)err; /* the store has logged it */

    if (code == DF_OK) {
        double age = f->rows > 0 && f->oldest_ms >= 0
                         ? (double)(delivery_now(f->channel) - f->oldest_ms) / 1e3
                         : 0;
        df_metric_set(f->channel->waiting, (double)f->rows);
        df_metric_set(f->channel->oldest, age > 0 ? age : 0);
        df_metric_set(f->channel->waiting_for_target, (double)f->held);
        df_metric_set(f->channel->given_up, (double)f->given_up);
    }
    struct df_delivery *d = f->channel->d;
    df_lock(&d->lock);
    int64_t now_ms = delivery_mono_ms(d);
    int64_t pause_ms = (now_ms - f->begun_ms) * FIGURES_SHARE;
    f->channel->figures_ms = now_ms + (pause_ms < FIGURES_MAX_MS ? pause_ms : FIGURES_MAX_MS);
    df_unlock(&d->lock);
    free(f);
}

void delivery_take_figures(struct df_delivery *d)
{
    for (size_t i = 0; i < d->channel_count; i++) {
        struct delivery_channel *ch = d->channels[i];
        df_lock(&d->lock);
        bool due = ch->c->claim && delivery_mono_ms(d) >= ch->figures_ms;
        ch->figures_ms = due ? INT64_MAX : ch->figures_ms;
        df_unlock(&d->lock);
        if (!due)
            continue;
        struct figures *f = df_calloc(1, sizeof(*f));
        *f = (struct figures){.job = {.run = figures_run, .done = figures_done},
                              .channel = ch,
                              .begun_ms = delivery_mono_ms(d)};
        if (!df_store_read(d->opt.store, &f->job)) {
            struct df_err err = DF_ERR_INIT;
            figures_done(&f->job, df_err_set(&err, DF_E_BUSY, "the store's queue is full"), &err);
        }
    }
}

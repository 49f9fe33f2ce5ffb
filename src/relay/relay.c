/* Start, wake-up, end and status of a relay. */
#include "base/mem.h"
#include "relay/relay_private.h"
#include "store/notify.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define ROOM_FIRST 32

DF_METRIC_FAMILY(attempts_total) = {
    .name = "dataflow_relay_attempts_total",
    .help = "Events by relay and outcome: processed, retry, held (failed, waits for its "
            "destination), failed (waits for a person), deferred (not sent).",
    .type = DF_COUNTER,
    .labels = {"relay", "outcome"},
};
DF_METRIC_FAMILY(duration_seconds) = {
    .name = "dataflow_relay_duration_seconds",
    .help = "From handing an event to the dispatcher until it was confirmed or failed.",
    .type = DF_HISTOGRAM,
    DF_METRIC_SECONDS,
    .labels = {"relay"},
};
DF_METRIC_FAMILY(waiting_rows) = {
    .name = "dataflow_relay_waiting",
    .help = "Events in the source's table that wait. Counted every 10 s by every process "
            "that relays it: take the maximum.",
    .type = DF_GAUGE,
    .labels = {"relay"},
};
DF_METRIC_FAMILY(oldest_seconds) = {
    .name = "dataflow_relay_oldest_seconds",
    .help = "Age of the oldest event that waits; the one to have an alarm on. Counted as "
            "those that wait: take the maximum.",
    .type = DF_GAUGE,
    .labels = {"relay"},
};
DF_METRIC_FAMILY(given_up_rows) = {
    .name = "dataflow_relay_given_up",
    .help = "Events that were given up and wait for a person, as far as the relay knows: "
            "take the maximum.",
    .type = DF_GAUGE,
    .labels = {"relay"},
};
DF_METRIC_FAMILY(given_up_total) = {
    .name = "dataflow_relay_given_up_total",
    .help = "Events that this process gave up.",
    .type = DF_COUNTER,
    .labels = {"relay"},
};
DF_METRIC_FAMILY(up) = {
    .name = "dataflow_relay_up",
    .help = "1 while the relay has a source whose table is right.",
    .type = DF_GAUGE,
    .labels = {"relay"},
};

static const char *const outcome_labels[RELAY_OUTCOMES] = {
    [RELAY_PROCESSED] = "processed", [RELAY_RETRY] = "retry",       [RELAY_FAILED] = "failed",
    [RELAY_HELD] = "held",           [RELAY_DEFERRED] = "deferred",
};

void relay_shape_drop(struct relay_shape *shape)
{
    if (!shape || atomic_fetch_sub(&shape->users, 1) > 1)
        return;
    relay_sql_release(&shape->sql);
    free(shape);
}

void relay_problem(struct df_relay *r, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(r->status.problem, sizeof r->status.problem, fmt, ap);
    va_end(ap);
}

/* --- start ------------------------------------------------------------------------------------ */

static void make_metrics(struct df_relay *r)
{
    struct df_str name = df_str_c(r->s->name);

    for (size_t i = 0; i < RELAY_OUTCOMES; i++)
        r->attempts[i] = df_metric_get(&attempts_total,
                                       (const struct df_str[]){name, df_str_c(outcome_labels[i])});
    r->duration = df_metric_get(&duration_seconds, &name);
    r->waiting = df_metric_get(&waiting_rows, &name);
    r->oldest = df_metric_get(&oldest_seconds, &name);
    r->failed = df_metric_get(&given_up_rows, &name);
    r->failed_total = df_metric_get(&given_up_total, &name);
    r->up = df_metric_get(&up, &name);
    df_metric_set(r->up, 0);
}

static void heard_of_rows(void *arg, size_t topic)
{
    (void)topic;
    df_relay_wake(arg);
}

static void channel_probed(void *arg, bool arrives)
{
    struct df_relay *r = arg;
    struct df_log_field fields[] = {DF_F("relay", df_str_c(r->s->name)),
                                    DF_F("channel", df_str_c(r->s->notify_channel))};

    df_lock(&r->lock);
    r->status.notified = arrives;
    df_unlock(&r->lock);
    if (arrives)
        df_log_write(DF_LOG_INFO, "RelayListening", fields, 2,
                     "notifications arrive; new events are seen at once if the trigger is there");
    else
        df_log_write(DF_LOG_WARN, "RelayNotificationsSwallowed", fields, 2,
                     "a notification sent to the channel did not arrive: is there a pooler in "
                     "transaction mode in between? New events are found every %lld ms instead",
                     (long long)r->s->poll_ms);
}

static size_t worker_count_of(const struct df_relay *r)
{
    size_t n = r->s->workers > 0 ? (size_t)r->s->workers : RELAY_WORKERS;

    if (r->dialect == DF_SQLITE)
        return 1;
    return r->dispatcher->max_sinks > 0 && n > r->dispatcher->max_sinks ? r->dispatcher->max_sinks
                                                                        : n;
}

static void describe_relay(const struct df_relay_settings *s, struct df_relay_status *ret)
{
    *ret = (struct df_relay_status){
        .name = s->name,
        .dispatcher = df_dispatchers[s->dispatcher]->name,
        .table = s->table,
        .order = s->order == DF_RELAY_ORDER_AGGREGATE ? "aggregate" : "none",
        .waiting = -1,
        .oldest_ms = -1,
        .failed = -1,
        .last_dispatch_ms = -1,
    };
    df_db_url_masked(s->url, ret->source, sizeof ret->source);
    df_relay_target_masked(s, ret->target, sizeof ret->target);
}

struct df_relay *df_relay_start(const struct df_relay_options *opt)
{
    struct df_relay *r = df_calloc(1, sizeof *r);
    const struct df_relay_settings *s = opt->settings;
    struct df_err err = DF_ERR_INIT;
    struct df_buf key;

    r->s = s;
    r->opt = *opt;
    r->dispatcher = opt->dispatcher ? opt->dispatcher : df_dispatchers[s->dispatcher];
    r->lock_fd = -1;
    r->room = s->batch < ROOM_FIRST ? (size_t)s->batch : ROOM_FIRST;
    r->retry = (struct df_retry_policy){
        .base_ms = s->retry_base_ms, .cap_ms = s->retry_cap_ms, .max_attempts = s->max_retries + 1};
    if (df_db_dialect_of(s->url, &r->dialect, &err) != DF_OK)
        abort(); /* the settings were checked */
    df_relay_sink_options(s, &r->sink_options);
    r->sink_options.outbound = opt->outbound;
    r->sink_options.clock = opt->clock;
    r->sink_options.given_up = &r->given_up;
    describe_relay(s, &r->status);
    r->status.failed = 0;
    make_metrics(r);
    df_mutex_init(&r->lock);
    df_cond_init(&r->changed);
    df_buf_init(&key, 256);
    df_buf_addf(&key, "relay:%s", s->name);
    r->breaker = df_breakers_get(opt->outbound->breakers, df_buf_str(&key));
    df_buf_release(&key);
    r->worker_count = worker_count_of(r);
    r->workers = df_calloc(r->worker_count, sizeof *r->workers);
    for (size_t i = 0; i < r->worker_count; i++) {
        r->workers[i] = (struct relay_worker){.relay = r, .index = i};
        df_thread_start(&r->workers[i].thread, "relay", relay_work, &r->workers[i]);
    }
    if (s->notify_channel)
        r->notifier = df_notifier_new(&(struct df_notifier_options){.url = s->url,
                                                                    .channel = s->notify_channel,
                                                                    .heard = heard_of_rows,
                                                                    .probed = channel_probed,
                                                                    .arg = r});
    return r;
}

void df_relay_wake(struct df_relay *r)
{
    if (!r)
        return;
    df_lock(&r->lock);
    r->woken = true;
    r->wakes++;
    pthread_cond_broadcast(&r->changed);
    df_unlock(&r->lock);
}

void df_relay_flush(struct df_relay *r, int64_t ms)
{
    if (!r)
        return;
    int64_t until_ms = df_mono_ms(df_clock_real()) + ms, left_ms;

    df_lock(&r->lock);
    uint64_t wakes = r->wakes;
    while (r->served < wakes && !r->stopping &&
           (left_ms = until_ms - df_mono_ms(df_clock_real())) > 0)
        (void)df_cond_wait_ms(&r->changed, &r->lock, left_ms);
    df_unlock(&r->lock);
}

/* --- the end ---------------------------------------------------------------------------------- */

void df_relay_stop(struct df_relay *r, int64_t drain_ms)
{
    if (!r)
        return;
    int64_t until_ms = df_mono_ms(df_clock_real()) + drain_ms;
    int64_t left_ms;

    df_notifier_free(r->notifier);
    r->notifier = NULL;
    df_lock(&r->lock);
    r->stopping = true;
    pthread_cond_broadcast(&r->changed);
    while (r->in_hand > 0 && (left_ms = until_ms - df_mono_ms(df_clock_real())) > 0)
        (void)df_cond_wait_ms(&r->changed, &r->lock, left_ms);
    df_unlock(&r->lock);
    atomic_store(&r->given_up, true);
}

void df_relay_end(struct df_relay *r)
{
    for (size_t i = 0; r && i < r->worker_count; i++)
        df_thread_join(&r->workers[i].thread);
}

void df_relay_drain(struct df_relay *r)
{
    if (!r)
        return;
    df_lock(&r->lock);
    r->stopping = true;
    pthread_cond_broadcast(&r->changed);
    df_unlock(&r->lock);
}

void df_relay_free(struct df_relay *r)
{
    if (!r)
        return;
    df_relay_stop(r, 0);
    df_relay_end(r);
    df_metric_set(r->up, 0);
    df_breakers_put(r->opt.outbound->breakers, r->breaker);
    relay_shape_drop(r->shape);
    df_lock(&r->lock);
    relay_wake_resting(r);
    df_unlock(&r->lock);
    relay_memory_release(r);
    free(r->resting);
    free(r->after);
    free(r->workers);
    if (r->lock_fd >= 0)
        close(r->lock_fd);
    pthread_cond_destroy(&r->changed);
    df_mutex_destroy(&r->lock);
    free(r);
}

/* --- status ----------------------------------------------------------------------------------- */

void df_relay_status(struct df_relay *r, struct df_relay_status *ret)
{
    df_lock(&r->lock);
    *ret = r->status;
    ret->down_since_ms = r->health.down_since_ms;
    ret->paused_ms = r->health.paused_ms;
    memcpy(ret->last_error, r->health.last_error, sizeof ret->last_error);
    df_unlock(&r->lock);
}

void df_relay_count_failed(struct df_relay *r)
{
    df_lock(&r->lock);
    r->status.failed = -1;
    r->count_failed_ms = 0;
    df_unlock(&r->lock);
}

const char *df_relay_state_name(const struct df_relay_status *s)
{
    if (s->paused_ms > 0)
        return "paused";
    if (s->standing_by)
        return "standingBy";
    if (!s->running)
        return "stopped";
    return s->down_since_ms > 0 ? "down" : "running";
}

/* Cuts user, password and query out of any kind of address. */
void df_relay_target_masked(const struct df_relay_settings *s, char *out, size_t size)
{
    struct df_str t = df_str_c(s->target ? s->target : "");
    const char *scheme = t.len > 0 ? strstr(t.ptr, "://") : NULL;
    const char *host = scheme ? scheme + 3 : t.ptr;
    size_t authority = strcspn(host, "/?#");
    const char *at = memrchr(host, '@', authority);
    size_t len = strcspn(at ? at + 1 : host, "?#");

    (void)snprintf(out, size, "%.*s%.*s", (int)(host - t.ptr), t.ptr, (int)len, at ? at + 1 : host);
}

enum df_code df_relay_look(const struct df_relay_settings *s, struct df_relay_status *ret,
                           struct df_buf *complaints, struct df_err *err)
{
    struct relay_table table;
    struct relay_sql sql = {0};
    struct df_db *db = NULL;

    describe_relay(s, ret);
    enum df_code code = relay_connect(s, &db, err);
    if (code != DF_OK)
        return code;
    code = relay_check(db, s, &table, &sql, complaints, err);
    if (code == DF_OK) {
        relay_table_release(&table);
        code = relay_count(db, &sql.waiting, &ret->waiting, &ret->oldest_ms, err);
        if (code == DF_OK)
            code = relay_count(db, &sql.failed, &ret->failed, NULL, err);
    }
    df_db_close(db);
    relay_sql_release(&sql);
    return code;
}

#include "relay/consumer_private.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "relay/relay.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define BACKOFF_MIN_MS 200
#define BACKOFF_MAX_MS 5000

DF_METRIC_FAMILY(consumed_total) = {
    .name = "dataflow_queue_messages_total",
    .help = "Messages of imports.queue: tried, returned (a worker had just got a batch), "
            "rejected (no message of ours). Those sent are dataflow_relay_attempts_total "
            "of the relay batch-ready.",
    .type = DF_COUNTER,
    .labels = {"outcome"},
};
DF_METRIC_FAMILY(connected_gauge) = {
    .name = "dataflow_queue_connected",
    .help = "1 while messages of imports.queue arrive, else workers poll.",
    .type = DF_GAUGE,
};

/* --- what the brokers call --- */

enum df_taken consumer_take(struct df_consumer *c, struct df_str body)
{
    static const char *const outcomes[] = {
        [DF_TAKEN] = "tried", [DF_TAKEN_LATER] = "returned", [DF_TAKEN_NEVER] = "rejected"};
    enum df_taken taken = c->opt.take(c->opt.arg, body);
    struct df_str label = df_str_c(outcomes[taken]);

    df_metric_add(df_metric_get(&consumed_total, &label), 1);
    if (taken == DF_TAKEN_NEVER) {
        const struct df_log_field fields[] = {DF_F("queue", df_str_c(c->sink.topic))};
        df_log_write(DF_LOG_WARN, "QueueMessageRejected", fields, 1, "it is no message of ours");
    }
    return taken;
}

void consumer_set_connected(struct df_consumer *c, bool connected)
{
    if (atomic_exchange(&c->connected, connected) == connected)
        return;
    df_metric_set(df_metric_get(&connected_gauge, NULL), connected);
    consumer_lost_some(c);
}

void consumer_lost_some(struct df_consumer *c)
{
    c->opt.changed(c->opt.arg);
}

void consumer_awake(struct df_consumer *c)
{
    uint64_t count;
    (void)!read(c->wake_fd, &count, sizeof count); /* does not block */
}

void consumer_rest(struct df_consumer *c, int64_t ms)
{
    struct pollfd p = {.fd = c->wake_fd, .events = POLLIN};

    (void)poll(&p, 1, (int)ms);
    consumer_awake(c);
}

/* --- the thread --- */

static void note_away(struct df_consumer *c, const struct df_err *err)
{
    const struct df_log_field fields[] = {DF_F("queue", df_str_c(c->sink.topic))};

    consumer_set_connected(c, false);
    if (!c->away && !atomic_load(&c->stopping))
        df_log_write(DF_LOG_WARN, "QueueAway", fields, 1, "workers poll until it is back: %s",
                     err->detail);
    c->away = true;
}

static void note_back(struct df_consumer *c)
{
    const struct df_log_field fields[] = {DF_F("queue", df_str_c(c->sink.topic))};

    if (c->away)
        df_log_write(DF_LOG_INFO, "QueueBack", fields, 1, "messages tell of batches again");
    c->away = false;
}

/* Wake-ups do not shorten a backoff: it lasts as long as it should, but for the end. */
static void back_off(struct df_consumer *c, struct df_backoff *b)
{
    int64_t until_ms = df_mono_ms(c->opt.clock) + df_backoff_more(b), left_ms;

    while (!atomic_load(&c->stopping) && (left_ms = until_ms - df_mono_ms(c->opt.clock)) > 0)
        consumer_rest(c, left_ms);
}

static void consume(void *arg)
{
    struct df_consumer *c = arg;
    struct df_backoff backoff = {.min_ms = BACKOFF_MIN_MS, .max_ms = BACKOFF_MAX_MS};

    while (!atomic_load(&c->stopping)) {
        struct df_err err = DF_ERR_INIT;
        bool wants = c->opt.wants(c->opt.arg);
        if (c->broker->turn(c->state, wants, &err) != DF_OK) {
            note_away(c, &err);
            back_off(c, &backoff);
            continue;
        }
        df_backoff_reset(&backoff);
        if (atomic_load(&c->connected))
            note_back(c);
    }
    consumer_set_connected(c, false);
    c->broker->close(c->state);
    c->state = NULL;
}

/* --- start and end --- */

struct df_consumer *df_consumer_new(const struct df_consumer_options *opt)
{
    struct df_consumer *c = df_calloc(1, sizeof *c);
    const struct df_dispatcher *d = df_dispatchers[opt->settings->dispatcher];

    c->opt = *opt;
    df_relay_sink_options(opt->settings, &c->sink);
    c->sink.clock = opt->clock;
    c->sink.given_up = &c->stopping;
    c->broker = d == &df_dispatch_kafka ? &consumer_kafka : &consumer_rabbitmq;
    c->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (c->wake_fd < 0)
        df_oom();
    df_metric_register(&consumed_total);
    df_metric_register(&connected_gauge);
    df_metric_set(df_metric_get(&connected_gauge, NULL), 0);
    return c;
}

void df_consumer_start(struct df_consumer *c)
{
    c->state = c->broker->open(c);
    c->started = true;
    df_thread_start(&c->thread, "queue", consume, c);
}

void df_consumer_wake(struct df_consumer *c)
{
    const uint64_t one = 1;

    if (c)
        (void)!write(c->wake_fd, &one, sizeof one);
}

bool df_consumer_is_connected(struct df_consumer *c)
{
    return c && atomic_load(&c->connected);
}

void df_consumer_stop(struct df_consumer *c)
{
    if (!c)
        return;
    atomic_store(&c->stopping, true);
    df_consumer_wake(c);
}

void df_consumer_end(struct df_consumer *c)
{
    if (!c || !c->started)
        return;
    df_consumer_stop(c);
    df_thread_join(&c->thread);
    c->started = false;
}

void df_consumer_free(struct df_consumer *c)
{
    if (!c)
        return;
    df_consumer_end(c);
    (void)close(c->wake_fd);
    free(c);
}

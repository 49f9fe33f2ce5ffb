/*
 * Events to Kafka through librdkafka's idempotent producer. Each sink has a producer of its own, so
 * that one in trouble does not affect the others. That keeps the order of an aggregate's events,
 * since the relay hands out the next one only when the one before it is settled. Inside a batch the
 * producer keeps the order of a key, through its own retries too.
 *
 * The key is the aggregate's id, as consumers expect that join or compact by it; events without one
 * go to any partition. Only the delivery report decides an event's outcome:
 *
 *   report                       outcome
 *   ---------------------------  ------------------------------------------------------------
 *   no error                     DISPATCHED: all replicas in sync have it
 *   the message was refused      brokers refuse batches, not messages: those refused go again
 *   (size, record, …)            one at a time; one that is refused alone is PERMANENT
 *   any other, none in time      RETRY
 *
 * A fatal error means that the producer no longer knows what the broker has. The producer is
 * discarded, with all messages that have no report, and the next dispatch makes another: the events
 * are still in the outbox.
 */
#include "base/log.h"
#include "base/mem.h"
#include "relay/broker_headers.h"
#include "relay/kafka_producer.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define GRACE_MS   1500 /* librdkafka looks for overdue messages once a second */
#define NAME_SHOWN 260  /* characters shown of a name that is too long */
#define FULL_MS    10   /* between two looks at a full queue */

struct df_sink {
    const struct df_sink_options *opt;
    struct df_kafka_target target;
    rd_kafka_t *rk;    /* NULL: none yet, or the last one failed */
    char problem[240]; /* the producer's last complaint; "": none */
    size_t open;       /* messages without a report */
};

struct message {
    struct df_sink *sink;
    struct df_arena *arena;
    struct df_event *event;
    struct df_str topic;
    int64_t begun_ms;
    bool refused; /* together with others of the same request, maybe because of them */
    bool alone;
};

/* --- outcomes --- */

static void settle_message(struct message *m, enum df_dispatch_outcome outcome, struct df_str error)
{
    df_event_settle(m->event, outcome, df_mono_ms(m->sink->opt->clock) - m->begun_ms, error);
}

static bool is_about_message(rd_kafka_resp_err_t err)
{
    return err == RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE ||
           err == RD_KAFKA_RESP_ERR_INVALID_MSG_SIZE ||
           err == RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE ||
           err == RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP || err == RD_KAFKA_RESP_ERR_INVALID_RECORD;
}

/* The error as text, with the producer's last complaint if the report itself does not say why. */
static struct df_str error_text(const struct message *m, rd_kafka_resp_err_t err)
{
    const struct df_sink *s = m->sink;

    if (err != RD_KAFKA_RESP_ERR__MSG_TIMED_OUT && err != RD_KAFKA_RESP_ERR__PURGE_QUEUE &&
        err != RD_KAFKA_RESP_ERR__PURGE_INFLIGHT)
        return df_arena_printf(m->arena, "topic '" DF_STR_FMT "': %s", DF_STR_ARG(m->topic),
                               rd_kafka_err2str(err));
    return df_arena_printf(
        m->arena, "topic '" DF_STR_FMT "': not confirmed within %" PRId64 " ms%s%s",
        DF_STR_ARG(m->topic), s->opt->timeout_ms, s->problem[0] ? ": " : "", s->problem);
}

/* The producer's own errors say that the broker is away or slow, except about a topic that does not
 * exist; the broker's say that it did not take the message. */
static bool is_about_broker(rd_kafka_resp_err_t err)
{
    return err < RD_KAFKA_RESP_ERR_NO_ERROR && err != RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC &&
           err != RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION;
}

static void settle_failed(struct message *m, rd_kafka_resp_err_t err)
{
    if (is_about_message(err) && !m->alone) {
        m->refused = true;
        return;
    }
    settle_message(m, is_about_message(err) ? DF_DISPATCH_PERMANENT : DF_DISPATCH_RETRY,
                   error_text(m, err));
    m->event->never_counts = is_about_broker(err);
}

/* No report says what became of it. */
static void settle_unreported(struct message *m, struct df_str error)
{
    settle_message(m, DF_DISPATCH_RETRY, error);
    m->event->never_counts = true;
}

static void delivery_report(rd_kafka_t *rk, const rd_kafka_message_t *km, void *opaque)
{
    struct message *m = km->_private;

    (void)rk;
    (void)opaque;
    assert(m->sink->open > 0);
    m->sink->open--;
    if (km->err) {
        settle_failed(m, km->err);
    } else {
        m->sink->problem[0] = '\0';
        settle_message(m, DF_DISPATCHED, DF_STR_NULL);
    }
}

/* Kept for the events that fail because of it: a time-out alone does not say what to do. */
static void keep_problem(rd_kafka_t *rk, int err, const char *reason, void *opaque)
{
    struct df_sink *s = opaque;

    (void)rk;
    if (err != RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN)
        (void)snprintf(s->problem, sizeof(s->problem), "%s", reason);
}

/* --- the producer --- */

static void drop_producer(struct df_sink *s)
{
    if (!s->rk)
        return;
    rd_kafka_destroy(s->rk);
    s->rk = NULL;
    s->open = 0;
}

static enum df_code ensure_producer(struct df_sink *s, struct df_err *err)
{
    const struct df_kafka_callbacks callbacks = {
        .report = delivery_report, .problem = keep_problem, .opaque = s};

    if (s->rk)
        return DF_OK;
    s->problem[0] = '\0';
    return df_kafka_producer_new(s->opt, s->target.servers, &callbacks, &s->rk, err);
}

static bool drop_if_fatal(struct df_sink *s)
{
    char why[240];

    if (!s->rk || rd_kafka_fatal_error(s->rk, why, sizeof(why)) == RD_KAFKA_RESP_ERR_NO_ERROR)
        return false;
    const struct df_log_field fields[] = {DF_F("relay", df_str_c(s->opt->relay))};
    df_log_write(DF_LOG_WARN, "KafkaProducerReplaced", fields, 1, "%s", why);
    drop_producer(s);
    return true;
}

/* --- messages --- */

static rd_kafka_headers_t *headers_of(const struct message *m)
{
    struct df_event_attribute list[DF_BROKER_HEADERS];
    struct df_str type;
    size_t n = df_broker_headers(m->event, m->sink->opt->source, m->arena, list, &type);
    rd_kafka_headers_t *headers = rd_kafka_headers_new(n + 1);

    for (size_t i = 0; i < n; i++)
        (void)rd_kafka_header_add(headers, list[i].name, -1, list[i].value.ptr,
                                  (ssize_t)list[i].value.len);
    if (type.ptr)
        (void)rd_kafka_header_add(headers, "content-type", -1, type.ptr, (ssize_t)type.len);
    return headers;
}

static rd_kafka_resp_err_t produce_message(struct message *m)
{
    const struct df_event *e = m->event;
    rd_kafka_vu_t v[8];
    size_t n = 0;
    rd_kafka_headers_t *headers = headers_of(m);

    v[n++] = (rd_kafka_vu_t){.vtype = RD_KAFKA_VTYPE_TOPIC, .u.cstr = m->topic.ptr};
    v[n++] = (rd_kafka_vu_t){.vtype = RD_KAFKA_VTYPE_MSGFLAGS, .u.i = RD_KAFKA_MSG_F_COPY};
    v[n++] = (rd_kafka_vu_t){.vtype = RD_KAFKA_VTYPE_OPAQUE, .u.ptr = m};
    v[n++] = (rd_kafka_vu_t){.vtype = RD_KAFKA_VTYPE_HEADERS, .u.headers = headers};
    if (e->payload.ptr) {
        v[n] = (rd_kafka_vu_t){.vtype = RD_KAFKA_VTYPE_VALUE};
        v[n].u.mem.ptr = (void *)(uintptr_t)e->payload.ptr;
        v[n++].u.mem.size = e->payload.len;
    }
    if (e->aggregate_id.len > 0) {
        v[n] = (rd_kafka_vu_t){.vtype = RD_KAFKA_VTYPE_KEY};
        v[n].u.mem.ptr = (void *)(uintptr_t)e->aggregate_id.ptr;
        v[n++].u.mem.size = e->aggregate_id.len;
    }
    if (e->created_ms >= 0)
        v[n++] = (rd_kafka_vu_t){.vtype = RD_KAFKA_VTYPE_TIMESTAMP, .u.i64 = e->created_ms};
    rd_kafka_error_t *error = rd_kafka_produceva(m->sink->rk, v, n);
    if (!error)
        return RD_KAFKA_RESP_ERR_NO_ERROR;
    rd_kafka_resp_err_t err = rd_kafka_error_code(error);
    rd_kafka_error_destroy(error);
    rd_kafka_headers_destroy(headers); /* the producer owns them only if it took the message */
    return err;
}

static void send_message(struct message *m, int64_t deadline_ms)
{
    struct df_sink *s = m->sink;
    rd_kafka_resp_err_t err;

    while ((err = produce_message(m)) == RD_KAFKA_RESP_ERR__QUEUE_FULL &&
           df_mono_ms(s->opt->clock) < deadline_ms && !df_sink_given_up(s->opt))
        (void)rd_kafka_poll(s->rk, FULL_MS);
    if (err == RD_KAFKA_RESP_ERR_NO_ERROR) {
        s->open++;
        return;
    }
    m->alone = true; /* the producer itself refuses it: other messages are not the cause */
    settle_failed(m, err);
}

/* Waits until each message has its report, the time is up, or the producer has failed. */
static void wait_for_reports(struct df_sink *s, int64_t deadline_ms)
{
    while (s->open > 0) {
        int64_t left = deadline_ms - df_mono_ms(s->opt->clock);
        if (left <= 0 || df_sink_given_up(s->opt) ||
            rd_kafka_fatal_error(s->rk, NULL, 0) != RD_KAFKA_RESP_ERR_NO_ERROR)
            break;
        (void)rd_kafka_flush(s->rk, left < 100 ? (int)left : 100);
    }
    if (s->open == 0)
        return;
    /* No report may come after this dispatch, whose memory the messages live in. */
    (void)rd_kafka_purge(s->rk, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
    (void)rd_kafka_flush(s->rk, FULL_MS);
    if (!drop_if_fatal(s))
        drop_producer(s);
}

/* Sends the messages whose outcome is open, side by side. */
static void run_round(struct df_sink *s, struct message *messages, size_t count,
                      int64_t deadline_ms)
{
    struct df_err err = DF_ERR_INIT;
    const char *words = "the producer gave up before a report came";

    if (ensure_producer(s, &err) == DF_OK) {
        for (size_t i = 0; i < count; i++)
            if (messages[i].event->outcome == DF_DISPATCH_NONE)
                send_message(&messages[i], deadline_ms);
        wait_for_reports(s, deadline_ms + GRACE_MS);
        (void)drop_if_fatal(s);
    } else {
        words = err.detail;
    }
    for (size_t i = 0; i < count; i++)
        if (messages[i].event->outcome == DF_DISPATCH_NONE && !messages[i].refused)
            settle_unreported(&messages[i], df_arena_str(messages[i].arena, df_str_c(words)));
}

/* --- the dispatcher --- */

static enum df_code check_kafka(const struct df_sink_options *opt, struct df_err *err)
{
    struct df_kafka_target target;
    rd_kafka_t *rk;
    enum df_code code = df_kafka_target_init(&target, opt, err);

    if (code != DF_OK)
        return code;
    df_kafka_target_release(&target);
    code = df_kafka_producer_new(opt, NULL, NULL, &rk, err);
    if (code == DF_OK)
        rd_kafka_destroy(rk);
    return code;
}

static enum df_code open_sink(const struct df_sink_options *opt, struct df_sink **ret,
                              struct df_err *err)
{
    struct df_sink *s = df_calloc(1, sizeof(*s));
    enum df_code code = df_kafka_target_init(&s->target, opt, err);

    if (code != DF_OK) {
        free(s);
        return code;
    }
    s->opt = opt;
    *ret = s;
    return DF_OK;
}

static void prepare_message(struct message *m)
{
    m->event->outcome = DF_DISPATCH_NONE;
    m->topic = df_event_expand(m->arena, m->sink->target.topic, m->event);
    if (!df_kafka_topic_valid(m->topic))
        settle_message(m, DF_DISPATCH_PERMANENT,
                       df_arena_printf(m->arena, "'" DF_STR_FMT "' cannot be the name of a topic",
                                       DF_STR_ARG(df_utf8_cut(m->topic, NAME_SHOWN))));
}

static void dispatch_kafka(struct df_sink *s, struct df_event *const *events, size_t n,
                           struct df_arena *a)
{
    int64_t now_ms = df_mono_ms(s->opt->clock);
    int64_t deadline_ms = now_ms + s->opt->timeout_ms;
    struct message *messages = DF_ARENA_ARRAY(a, struct message, n);

    for (size_t i = 0; i < n; i++) {
        messages[i] = (struct message){
            .sink = s, .arena = a, .event = events[i], .begun_ms = now_ms, .alone = n == 1};
        prepare_message(&messages[i]);
    }
    run_round(s, messages, n, deadline_ms);
    for (size_t i = 0; i < n; i++) {
        if (!messages[i].refused)
            continue;
        messages[i].refused = false;
        messages[i].alone = true;
        if (df_mono_ms(s->opt->clock) < deadline_ms)
            run_round(s, &messages[i], 1, deadline_ms);
        else
            settle_unreported(
                &messages[i],
                DF_STR("refused together with others; no time was left to try it alone"));
    }
}

static void idle_kafka(struct df_sink *s)
{
    if (s->rk)
        (void)rd_kafka_poll(s->rk, 0);
    (void)drop_if_fatal(s);
}

static void close_sink(struct df_sink *s)
{
    if (!s)
        return;
    drop_producer(s);
    df_kafka_target_release(&s->target);
    free(s);
}

const struct df_dispatcher df_dispatch_kafka = {
    .name = "kafka",
    .check = check_kafka,
    .open = open_sink,
    .dispatch = dispatch_kafka,
    .idle = idle_kafka,
    .close = close_sink,
};

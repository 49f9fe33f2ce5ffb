#include "telemetry/exporter.h"

#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "net/gzip.h"
#include "net/url.h"
#include "resilience/retry.h"

#include <stdio.h>
#include <stdlib.h>

#define INTERVAL_MS       500 /* how long spans gather */
#define ANSWER_MAX        ((size_t)64 << 10)
#define TRY_FOR_MS        (2 * DF_MINUTES)  /* one batch */
#define WAIT_MAX_MS       (10 * DF_MINUTES) /* that a collector may ask for */
#define REJECTION_TOLD_MS (10 * DF_MINUTES)

static const struct df_retry_policy retry = {.base_ms = 1000, .cap_ms = 30000};

enum export_outcome { EXPORT_OK, EXPORT_AGAIN, EXPORT_REFUSED, EXPORT_OUTCOMES };

struct export_header {
    char *name;
    struct df_secret *value;
};

struct df_exporter {
    struct df_exporter_options opt;
    struct df_otlp_resource resource;
    char *url;
    struct export_header headers[DF_OTLP_HEADERS];
    size_t header_count;
    struct df_loop loop;

    /* The thread's own. */
    struct df_span_record *spans[DF_OTLP_BATCH_SPANS]; /* taken, and not sent */
    size_t span_count;
    struct df_buf json;
    struct df_buf body;   /* compressed */
    size_t in_hand;       /* spans in the body, the first ones; 0: there is none */
    int64_t tries;        /* of the body */
    int64_t first_try_ms; /* monotonic */
    int64_t due_ms;       /* monotonic: not before */
    bool failing;         /* it was told */
    int64_t lost;         /* spans, since then */
    int64_t rejection_told_ms;

    struct df_mutex lock;
    pthread_cond_t changed;
    bool answered DF_GUARDED_BY(lock);
    struct df_otlp_answer answer DF_GUARDED_BY(lock); /* of a call that was taken */
    bool flushing DF_GUARDED_BY(lock);                /* the end: no backoff any more */
    bool flushed DF_GUARDED_BY(lock);
    atomic_bool cut;

    struct df_metric *exported;
    struct df_metric *calls[EXPORT_OUTCOMES];
    struct df_metric *waiting;
};

/* --- figures ---------------------------------------------------------------------------------- */

DF_METRIC_FAMILY(exported_total) = {
    .name = "dataflow_spans_exported_total",
    .help = "Spans that the collector took.",
    .type = DF_COUNTER,
};
DF_METRIC_FAMILY(exports_total) = {
    .name = "dataflow_span_exports_total",
    .help = "Calls to the collector, by outcome (ok, retry, refused).",
    .type = DF_COUNTER,
    .labels = {"outcome"},
};
DF_METRIC_FAMILY(waiting_spans) = {
    .name = "dataflow_spans_waiting",
    .help = "Spans that wait to be exported.",
    .type = DF_GAUGE,
};

static void show_waiting(void *arg)
{
    df_metric_set(((struct df_exporter *)arg)->waiting, (double)df_spans_waiting());
}

static void make_metrics(struct df_exporter *e)
{
    static const char *const names[EXPORT_OUTCOMES] = {"ok", "retry", "refused"};

    e->exported = df_metric_get(&exported_total, NULL);
    e->waiting = df_metric_get(&waiting_spans, NULL);
    for (size_t i = 0; i < EXPORT_OUTCOMES; i++) {
        struct df_str label = df_str_c(names[i]);
        e->calls[i] = df_metric_get(&exports_total, &label);
    }
    df_metric_on_collect(show_waiting, e);
}

/* --- a call ----------------------------------------------------------------------------------- */

/* On a thread of the client. The answer's bytes are borrowed until it returns. */
static void call_answered(struct df_call *call)
{
    struct df_exporter *e = call->arg;
    struct df_otlp_answer answer = {0};

    if (call->code == DF_OK && call->status >= 200 && call->status <= 299)
        df_otlp_read_answer(df_buf_str(&call->answer), &answer);
    df_lock(&e->lock);
    e->answer = answer;
    e->answered = true;
    pthread_cond_broadcast(&e->changed);
    df_unlock(&e->lock);
}

static enum export_outcome outcome_of(const struct df_call *call)
{
    if (call->code != DF_OK)
        return df_code_retry(call->code) == DF_RETRY_NEVER ? EXPORT_REFUSED : EXPORT_AGAIN;
    if (call->status >= 200 && call->status <= 299)
        return EXPORT_OK;
    return call->status == 429 || call->status == 502 || call->status == 503 || call->status == 504
               ? EXPORT_AGAIN
               : EXPORT_REFUSED;
}

static void tell_failure(struct df_exporter *e, const struct df_call *call)
{
    char destination[DF_DESTINATION_SIZE];
    struct df_log_field fields[] = {
        DF_F("destination", df_destination_of(e->url, destination)),
        DF_FI("status", call->code == DF_OK ? call->status : 0),
    };

    if (e->failing)
        return;
    e->failing = true;
    e->lost = 0;
    df_log_write(DF_LOG_WARN, "TracesNotExported", fields, 2,
                 "the collector did not take spans: %s",
                 call->code != DF_OK ? call->err.detail : "it answered with an error");
}

static void tell_success(struct df_exporter *e)
{
    struct df_log_field fields[] = {DF_FI("dropped", e->lost)};

    if (!e->failing)
        return;
    e->failing = false;
    df_log_write(DF_LOG_INFO, "TracesExportedAgain", fields, 1, "the collector takes spans again");
}

static void tell_rejected(struct df_exporter *e, const struct df_otlp_answer *answer)
{
    int64_t now_ms = df_mono_ms(e->opt.clock);
    struct df_log_field fields[] = {DF_FI("rejected", answer->rejected),
                                    DF_F("reason", df_str_c(answer->message))};

    if (e->rejection_told_ms && now_ms - e->rejection_told_ms < REJECTION_TOLD_MS)
        return;
    e->rejection_told_ms = now_ms;
    df_log_write(DF_LOG_WARN, "SpansRejected", fields, 2,
                 "the collector took a batch without some of its spans");
}

/* --- batches ---------------------------------------------------------------------------------- */

static void free_spans(struct df_exporter *e, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(e->spans[i]);
    e->span_count -= count;
    memmove(e->spans, e->spans + count, e->span_count * sizeof(struct df_span_record *));
}

/* The batch in hand is over. */
static void end_batch(struct df_exporter *e, const char *dropped_for)
{
    if (dropped_for) {
        df_spans_dropped(dropped_for, e->in_hand);
        e->lost += (int64_t)e->in_hand;
    }
    free_spans(e, e->in_hand);
    e->in_hand = 0;
}

/* False: there is nothing to send. */
static bool take_batch(struct df_exporter *e)
{
    if (e->in_hand > 0)
        return true;
    e->span_count += df_spans_take(e->spans + e->span_count, DF_OTLP_BATCH_SPANS - e->span_count);
    if (e->span_count == 0)
        return false;
    e->in_hand = df_otlp_write(&e->resource, e->spans, e->span_count, &e->json);
    df_buf_reset(&e->body);
    if (!df_gzip(df_buf_str(&e->json), &e->body))
        abort(); /* cannot happen: the body has twice the room */
    e->tries = 0;
    e->first_try_ms = df_mono_ms(e->opt.clock);
    return true;
}

static void batch_taken(struct df_exporter *e, const struct df_otlp_answer *answer)
{
    size_t rejected =
        answer->rejected < (int64_t)e->in_hand ? (size_t)answer->rejected : e->in_hand;
    if (rejected > 0 || answer->message[0])
        tell_rejected(e, answer);
    df_spans_dropped("rejected", rejected);
    df_metric_add(e->exported, (double)(e->in_hand - rejected));
    tell_success(e);
    end_batch(e, NULL);
}

static void batch_failed(struct df_exporter *e, const struct df_call *call, bool flushing)
{
    int64_t now_ms = df_mono_ms(e->opt.clock);
    int64_t wait_ms = df_retry_delay_ms(&retry, e->tries, call->retry_after_ms, e->opt.clock);

    tell_failure(e, call);
    e->due_ms = now_ms + (wait_ms < WAIT_MAX_MS ? wait_ms : WAIT_MAX_MS);
    if (flushing)
        end_batch(e, "stopped");
    else if (e->due_ms - e->first_try_ms > TRY_FOR_MS)
        end_batch(e, "unavailable");
}

static void send_batch(struct df_exporter *e)
{
    struct df_call_header headers[DF_OTLP_HEADERS + 2] = {
        {DF_STR("Content-Type"), DF_STR("application/json")},
        {DF_STR("Content-Encoding"), DF_STR("gzip")}};

    for (size_t i = 0; i < e->header_count; i++)
        headers[2 + i] = (struct df_call_header){df_str_c(e->headers[i].name),
                                                 df_secret_str(e->headers[i].value)};
    struct df_call call = {.method = "POST",
                           .url = e->url,
                           .headers = headers,
                           .header_count = 2 + e->header_count,
                           .body = df_buf_str(&e->body),
                           .timeout_ms = e->opt.settings->timeout_ms,
                           .max_answer_bytes = ANSWER_MAX,
                           .owner = DF_STR("telemetry"),
                           .allow_private = true, /* the operator chose the address */
                           .cut = &e->cut,
                           .done = call_answered,
                           .arg = e};
    e->tries++;
    df_lock(&e->lock);
    e->answered = false;
    df_unlock(&e->lock);
    df_http_client_send(e->opt.client, &call);
    df_lock(&e->lock);
    while (!e->answered)
        df_cond_wait(&e->changed, &e->lock);
    bool flushing = e->flushing;
    struct df_otlp_answer answer = e->answer;
    df_unlock(&e->lock);
    enum export_outcome outcome = outcome_of(&call);
    df_metric_add(e->calls[outcome], 1);
    switch (outcome) {
    case EXPORT_OK:
        batch_taken(e, &answer);
        break;
    case EXPORT_AGAIN:
        batch_failed(e, &call, flushing);
        break;
    case EXPORT_REFUSED:
        tell_failure(e, &call);
        end_batch(e, "refused");
        break;
    case EXPORT_OUTCOMES:
        break;
    }
}

/* --- the thread ------------------------------------------------------------------------------- */

static bool is_flushing(struct df_exporter *e)
{
    df_lock(&e->lock);
    bool yes = e->flushing;
    df_unlock(&e->lock);
    return yes;
}

static void tell_flushed(struct df_exporter *e)
{
    df_lock(&e->lock);
    e->flushed = true;
    pthread_cond_broadcast(&e->changed);
    df_unlock(&e->lock);
}

static int64_t export_turn(void *arg)
{
    struct df_exporter *e = arg;
    bool flushing = is_flushing(e);
    int64_t wait_ms = e->due_ms - df_mono_ms(e->opt.clock);

    if (wait_ms > 0 && !flushing)
        return wait_ms;
    if (!take_batch(e)) {
        if (flushing)
            tell_flushed(e);
        return INTERVAL_MS;
    }
    bool full = e->in_hand == DF_OTLP_BATCH_SPANS || e->in_hand < e->span_count;
    send_batch(e);
    return flushing || full ? 0 : INTERVAL_MS;
}

static void wake_exporter(void *arg)
{
    df_loop_wake(&((struct df_exporter *)arg)->loop);
}

/* --- start and end ---------------------------------------------------------------------------- */

/* The settings were checked. */
static void read_headers(struct df_exporter *e)
{
    struct df_str rest = df_secret_str(e->opt.settings->headers);
    size_t size = rest.len + 1;
    char *value = df_malloc(size);
    struct df_str name;
    size_t len;

    while (rest.ptr && e->header_count < DF_OTLP_HEADERS &&
           df_telemetry_next_header(&rest, &name, value, &len)) {
        e->headers[e->header_count++] = (struct export_header){
            .name = df_strdup(name), .value = df_secret_new(df_str_n(value, len))};
    }
    df_wipe(value, size);
    free(value);
}

struct df_exporter *df_exporter_start(const struct df_exporter_options *opt)
{
    struct df_exporter *e = df_calloc(1, sizeof(*e));
    double ratio = 0;

    e->opt = *opt;
    e->url = df_otlp_url(opt->settings->endpoint);
    e->resource = (struct df_otlp_resource){.service_name = df_str_c(opt->settings->service_name),
                                            .service_version = df_str_c(opt->version),
                                            .service_instance_id = df_str_c(opt->instance),
                                            .host_name = df_str_c(opt->host)};
    df_mutex_init(&e->lock);
    df_cond_init(&e->changed);
    df_buf_init(&e->json, DF_OTLP_BODY_MAX);
    df_buf_init(&e->body, 2 * DF_OTLP_BODY_MAX);
    read_headers(e);
    make_metrics(e);
    (void)df_telemetry_ratio(df_str_c(opt->settings->sample_ratio), &ratio);
    df_spans_start(&(struct df_spans_options){
        .queue = (size_t)opt->settings->queue, .ratio = ratio, .wake = wake_exporter, .arg = e});
    df_loop_start(&e->loop, &(struct df_loop_options){.name = "telemetry",
                                                      .clock = opt->clock,
                                                      .first_ms = INTERVAL_MS,
                                                      .turn = export_turn,
                                                      .arg = e});
    return e;
}

/* False: not all of it, within the time. */
static bool await_flush(struct df_exporter *e, int64_t timeout_ms)
{
    int64_t until_ms = df_mono_ms(df_clock_real()) + timeout_ms;

    df_lock(&e->lock);
    while (!e->flushed) {
        int64_t left_ms = until_ms - df_mono_ms(df_clock_real());
        if (left_ms <= 0)
            break;
        (void)df_cond_wait_ms(&e->changed, &e->lock, left_ms);
    }
    bool flushed = e->flushed;
    df_unlock(&e->lock);
    return flushed;
}

void df_exporter_stop(struct df_exporter *e, int64_t timeout_ms)
{
    if (!e)
        return;
    df_spans_stop();
    df_lock(&e->lock);
    e->flushing = true;
    df_unlock(&e->lock);
    df_loop_wake(&e->loop);
    if (!await_flush(e, timeout_ms)) {
        atomic_store(&e->cut, true);
        df_http_client_cut(e->opt.client);
    }
    df_loop_stop(&e->loop);
    df_spans_dropped("stopped", df_spans_waiting() + e->span_count);
    free_spans(e, e->span_count);
}

void df_exporter_free(struct df_exporter *e)
{
    if (!e)
        return;
    df_metric_off_collect(show_waiting, e);
    df_spans_free();
    df_loop_release(&e->loop);
    for (size_t i = 0; i < e->header_count; i++) {
        free(e->headers[i].name);
        df_secret_free(e->headers[i].value);
    }
    df_buf_release(&e->json);
    df_buf_release(&e->body);
    df_mutex_destroy(&e->lock);
    free(e->url);
    free(e);
}

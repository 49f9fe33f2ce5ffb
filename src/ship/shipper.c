#include "ship/shipper.h"

#include "base/loop.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "net/gzip.h"
#include "net/url.h"
#include "resilience/retry.h"
#include "ship/target.h"

#include <assert.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define QUEUE_BYTES    ((size_t)8 << 20)
#define GATHER_MS      10 /* lines of this time are written to the disk together */
#define SYNC_MS        1000
#define ADOPT_MS       30000
#define SAY_MS         60000 /* between two lines of one kind */
#define RETRY_BASE_MS  500
#define RETRY_CAP_MS   30000
#define ENCODED_MAX    ((size_t)256 << 20) /* far above what a batch becomes */
#define ANSWER_MAX     ((size_t)4 << 20)
#define HEADERS_MAX    8
#define NS_PER_MS      INT64_C(1000000)
#define NS_SAME_MOMENT INT64_C(1000000000)

/* Behind those of the spool: why else a line was lost. */
enum { LOST_QUEUE = DF_SPOOL_LOSSES, LOST_REFUSED, LOSSES };

static const char *const loss_names[LOSSES] = {"spool_full", "too_old",    "disk",
                                               "damaged",    "queue_full", "refused"};

/* --- metrics --- */

DF_METRIC_FAMILY(spool_bytes) = {
    .name = "dataflow_log_spool_bytes",
    .help = "Size of the log's spool on the disk.",
    .type = DF_GAUGE,
};
DF_METRIC_FAMILY(spool_lines) = {
    .name = "dataflow_log_spool_lines",
    .help = "Lines in the spool that were not shipped yet.",
    .type = DF_GAUGE,
};
DF_METRIC_FAMILY(oldest_seconds) = {
    .name = "dataflow_log_spool_oldest_seconds",
    .help = "Age of the oldest line that was not shipped yet; 0: none waits.",
    .type = DF_GAUGE,
};
DF_METRIC_FAMILY(lines_total) = {
    .name = "dataflow_log_lines_total",
    .help = "Lines of the log by what became of them: shipped, or dropped and why.",
    .type = DF_COUNTER,
    .labels = {"outcome"},
};
DF_METRIC_FAMILY(last_success) = {
    .name = "dataflow_log_ship_last_success_timestamp_seconds",
    .help = "When the target of log.ship last took lines; 0: not yet.",
    .type = DF_GAUGE,
};
DF_METRIC_FAMILY(failures_total) = {
    .name = "dataflow_log_ship_failures_total",
    .help = "Calls to the target of log.ship that failed.",
    .type = DF_COUNTER,
};

/* --- the shipper --- */

/* How a line lies in the queue; its text follows. */
struct queued {
    int64_t time_ns;
    enum df_log_level level;
    size_t len;
};

struct df_shipper {
    const struct df_clock *clock;
    struct df_ship_settings settings; /* the texts are the target's */
    struct df_ship_target *target;
    struct df_spool *spool;
    struct df_outbound outbound; /* a client; no breakers, since the calls are unguarded */
    struct df_loop loop;
    char destination[DF_DESTINATION_SIZE];

    struct df_mutex lock;
    pthread_cond_t changed;
    struct df_buf queue DF_GUARDED_BY(lock);
    uint64_t queue_lost DF_GUARDED_BY(lock);
    int64_t last_ns DF_GUARDED_BY(lock);
    bool drained DF_GUARDED_BY(lock); /* in a hurry, and nothing is left that can be sent */
    _Atomic bool hurry;               /* the end has come: send at once, and give up at a failure */
    _Atomic int64_t oldest_ns;        /* for the metric */

    /* The thread's own. */
    struct df_buf taken; /* what was in the queue */
    int64_t written_ms, synced_ms, adopted_ms;
    int64_t due_ms;   /* lines that wait are sent then; 0: none waits */
    int64_t retry_ms; /* no call before; 0: no failure */
    int64_t attempts; /* that failed in a row */
    bool failing_said;
    int64_t said_ms;
    uint64_t lost[LOSSES], lost_said[LOSSES];
    int64_t lost_said_ms[LOSSES];
    bool disk_said;

    bool hurried; /* the last attempt has begun */
    bool in_batch, in_flight;
    _Atomic bool call_over;
    struct df_ship_batch batch;
    struct df_buf encoded, body;
    struct df_arena call_arena;
    struct df_out out;
    struct df_buf answer; /* a copy for the thread */
};

/* --- the queue --- */

/*
 * The time of a line in nanoseconds: unlike that of any line before, even of the same millisecond,
 * so that targets can tell equal lines apart. A clock that is set back takes the times with it.
 */
static int64_t distinct_ns(struct df_shipper *s, int64_t wall_ms) DF_REQUIRES(s->lock)
{
    int64_t ns = wall_ms * NS_PER_MS;

    if (ns <= s->last_ns && s->last_ns - ns < NS_SAME_MOMENT)
        ns = s->last_ns + 1;
    s->last_ns = ns;
    return ns;
}

/* On the thread that logs. */
static void queue_line(void *arg, enum df_log_level level, int64_t wall_ms, struct df_str line)
{
    struct df_shipper *s = arg;
    struct queued q = {.level = level, .len = line.len};

    df_lock(&s->lock);
    bool first = s->queue.len == 0;
    bool fits = s->queue.len + sizeof(q) + line.len <= QUEUE_BYTES;
    size_t before = s->queue.len;
    if (fits) {
        q.time_ns = distinct_ns(s, wall_ms);
        df_buf_add(&s->queue, &q, sizeof(q));
        df_buf_adds(&s->queue, line);
    } else {
        s->queue_lost++;
    }
    bool half = before < QUEUE_BYTES / 2 && s->queue.len >= QUEUE_BYTES / 2;
    df_unlock(&s->lock);
    if (first || half)
        df_loop_wake(&s->loop);
}

/* Moves the queue's lines to the spool. Returns when to look again; -1: when woken. */
static int64_t take_queue(struct df_shipper *s, int64_t now_ms)
{
    int64_t left_ms = s->written_ms + GATHER_MS - now_ms;

    df_lock(&s->lock);
    s->lost[LOST_QUEUE] += s->queue_lost;
    s->queue_lost = 0;
    bool any = s->queue.len > 0;
    bool take = any && (left_ms <= 0 || s->queue.len >= QUEUE_BYTES / 2 || s->hurry);
    if (take) {
        struct df_buf empty = s->taken;
        s->taken = s->queue;
        s->queue = empty;
    }
    df_unlock(&s->lock);
    if (!take)
        return any ? left_ms : -1;

    for (size_t at = 0; at < s->taken.len;) {
        struct queued q;
        memcpy(&q, s->taken.ptr + at, sizeof(q));
        at += sizeof(q);
        df_spool_add(s->spool, q.time_ns, q.level, df_str_n(s->taken.ptr + at, q.len));
        at += q.len;
    }
    df_buf_reset(&s->taken);
    struct df_err err = DF_ERR_INIT;
    enum df_code code = df_spool_write(s->spool, &err);
    if (code != DF_OK && !s->disk_said)
        df_log_error("LogSpoolFailed", "lines are not shipped until it can be written: %s",
                     err.detail);
    s->disk_said = code != DF_OK;
    s->written_ms = df_mono_ms(s->clock);
    return -1;
}

/* --- what is said --- */

static void say_losses(struct df_shipper *s, int64_t now_ms)
{
    for (int why = 0; why < LOSSES; why++) {
        if (why < DF_SPOOL_LOSSES)
            s->lost[why] = df_spool_lost(s->spool, (enum df_spool_loss)why).lines;
        uint64_t unsaid = s->lost[why] - s->lost_said[why];
        bool soon = s->lost_said[why] > 0 && now_ms - s->lost_said_ms[why] < SAY_MS;
        df_metric_set(
            df_metric_get(&lines_total, &(struct df_str){loss_names[why], strlen(loss_names[why])}),
            (double)s->lost[why]);
        if (unsaid == 0 || soon || s->hurry)
            continue;
        s->lost_said[why] = s->lost[why];
        s->lost_said_ms[why] = now_ms;
        struct df_log_field fields[] = {DF_F("reason", df_str_c(loss_names[why])),
                                        DF_FI("lines", unsaid)};
        df_log_write(DF_LOG_WARN, "LogLinesDropped", fields, 2,
                     "%" PRIu64 " lines of the log were not shipped to %s and are lost there",
                     unsaid, s->destination);
    }
}

static void say_failing(struct df_shipper *s, const char *why)
{
    int64_t now_ms = df_mono_ms(s->clock);

    df_metric_add(df_metric_get(&failures_total, NULL), 1);
    if (s->failing_said || s->hurry || (s->said_ms > 0 && now_ms - s->said_ms < SAY_MS))
        return;
    s->failing_said = true;
    s->said_ms = now_ms;
    df_log_warn("LogShippingFailing", "%s: %s; %" PRIu64 " lines wait in the spool", s->destination,
                why, df_spool_lines(s->spool));
}

static void say_restored(struct df_shipper *s)
{
    df_metric_set(df_metric_get(&last_success, NULL), (double)df_wall_ms(s->clock) / 1000);
    s->attempts = 0;
    s->retry_ms = 0;
    if (s->failing_said && !s->hurry)
        df_log_info("LogShippingRestored", "%s takes lines again; %" PRIu64 " wait in the spool",
                    s->destination, df_spool_lines(s->spool));
    s->failing_said = false;
}

/* --- a call --- */

/* On a thread of the client. */
static void call_done(struct df_out *out)
{
    struct df_shipper *s = out->arg;

    df_buf_reset(&s->answer);
    if (out->verdict == DF_OUT_OK && !out->call.answer_cut)
        df_buf_adds(&s->answer, df_buf_str(&out->call.answer));
    s->call_over = true;
    df_loop_wake(&s->loop);
}

static void fill_call(struct df_shipper *s)
{
    const struct df_ship_target *t = s->target;
    struct df_out *out = &s->out;

    df_arena_reset(&s->call_arena);
    *out = (struct df_out){
        .call = {.method = "POST",
                 .url = t->url,
                 .body = df_buf_str(&s->body),
                 .timeout_ms = s->settings.timeout_ms,
                 .max_answer_bytes = ANSWER_MAX,
                 .allow_private = true},
        .headers = {.arena = &s->call_arena},
        .trace = df_trace_new(s->clock),
        .unguarded = true,
        .classify = t->protocol->classify,
        .done = call_done,
        .arg = s,
    };
    /* No span: the log is sent until the end, when nobody takes spans any more. */
    df_trace_set_sampled(&out->trace, false);
    df_headers_add(&out->headers, DF_STR("Content-Type"), df_str_c(t->protocol->media_type));
    df_headers_add(&out->headers, DF_STR("Content-Encoding"), DF_STR("gzip"));
    if (t->authorized)
        df_headers_add(&out->headers, DF_STR("Authorization"), df_str_c(t->authorized));
    if (t->tenant)
        df_headers_add(&out->headers, DF_STR("X-Scope-OrgID"), df_str_c(t->tenant));
}

static void send_piece(struct df_shipper *s, const struct df_ship_piece *p)
{
    df_buf_reset(&s->encoded);
    df_buf_reset(&s->body);
    s->target->protocol->encode(s->target, &s->batch, p, &s->encoded);
    if (df_buf_failed(&s->encoded) || !df_gzip(df_buf_str(&s->encoded), &s->body)) {
        df_ship_batch_refused(&s->batch, true); /* cannot happen: a batch is far below the limit */
        return;
    }
    fill_call(s);
    s->in_flight = true;
    s->call_over = false;
    df_outbound_send(&s->outbound, &s->out);
}

static void wait_and_retry(struct df_shipper *s, const char *why)
{
    static const struct df_retry_policy policy = {.base_ms = RETRY_BASE_MS, .cap_ms = RETRY_CAP_MS};

    s->attempts++;
    s->retry_ms = df_mono_ms(s->clock) +
                  df_retry_delay_ms(&policy, s->attempts,
                                    s->out.retry_ms > 0 ? s->out.retry_ms : -1, s->clock);
    say_failing(s, why);
}

static void judge_answer(struct df_shipper *s)
{
    const struct df_ship_piece *p = df_ship_batch_piece(&s->batch);

    switch (s->target->protocol->settle(&s->batch, p, df_buf_str(&s->answer))) {
    case DF_SHIP_ALL_SETTLED:
        say_restored(s);
        break;
    case DF_SHIP_SOME_WAIT:
        wait_and_retry(s, "some lines were refused for now");
        break;
    case DF_SHIP_UNREADABLE:
        wait_and_retry(s, "its answer does not say what became of the lines");
        break;
    }
}

static void end_call(struct df_shipper *s)
{
    const struct df_out *out = &s->out;
    char why[64];

    s->in_flight = false;
    (void)snprintf(why, sizeof(why), "it answered %u", out->call.status);
    switch (out->verdict) {
    case DF_OUT_OK:
        judge_answer(s);
        break;
    case DF_OUT_AGAIN:
        wait_and_retry(s, out->call.code == DF_OK ? why : out->call.err.detail);
        break;
    case DF_OUT_REFUSED:
        if (out->call.code == DF_OK) /* the target is there, and does not want these lines */
            df_ship_batch_refused(&s->batch, df_ship_status_is_of_lines(out->call.status));
        else /* we cannot send them as things are: that says nothing about the lines */
            wait_and_retry(s, out->call.err.detail);
        break;
    case DF_OUT_STOPPED:
        wait_and_retry(s, "the server stops");
        break;
    }
}

/* --- batches --- */

static void end_batch(struct df_shipper *s)
{
    struct df_str shipped = DF_STR("shipped");

    df_metric_add(df_metric_get(&lines_total, &shipped),
                  (double)df_ship_batch_count(&s->batch, DF_SHIP_SHIPPED));
    s->lost[LOST_REFUSED] += df_ship_batch_count(&s->batch, DF_SHIP_REFUSED);
    df_spool_done(s->spool, s->batch.end);
    df_ship_batch_release(&s->batch);
    df_buf_release(&s->encoded);
    df_buf_release(&s->body);
    s->in_batch = false;
}

/* Whether lines should go now: there are enough for a batch, or they have waited. */
static bool is_due(struct df_shipper *s, int64_t now_ms)
{
    if (df_spool_lines(s->spool) == 0) {
        s->due_ms = 0;
        return false;
    }
    if (s->due_ms == 0)
        s->due_ms = now_ms + s->settings.interval_ms;
    return s->hurry || now_ms >= s->due_ms ||
           df_spool_waiting_bytes(s->spool) >= (uint64_t)s->settings.batch_bytes;
}

/* Sends what is due until a call is under way, or there is a reason to wait. */
static void ship_lines(struct df_shipper *s, int64_t now_ms)
{
    if (s->in_flight && s->call_over)
        end_call(s);
    while (!s->in_flight && now_ms >= s->retry_ms) {
        if (!s->in_batch) {
            if (!is_due(s, now_ms))
                return;
            s->in_batch = df_ship_batch_read(&s->batch, s->spool, (size_t)s->settings.batch_bytes);
            if (!s->in_batch) { /* there is none, or it cannot be read now */
                if (df_spool_lines(s->spool) > 0)
                    s->retry_ms = now_ms + RETRY_CAP_MS / 10;
                continue;
            }
        }
        const struct df_ship_piece *p = df_ship_batch_piece(&s->batch);
        if (p) {
            send_piece(s, p);
        } else {
            end_batch(s);
            s->due_ms = 0; /* the next lines gather anew */
        }
    }
}

/* --- the loop --- */

static void keep_spool(struct df_shipper *s, int64_t now_ms)
{
    if (now_ms - s->synced_ms >= SYNC_MS) {
        df_spool_sync(s->spool);
        df_spool_age(s->spool);
        s->synced_ms = now_ms;
    }
    if (s->adopted_ms == 0 || now_ms - s->adopted_ms >= ADOPT_MS) {
        uint64_t lines = df_spool_adopt(s->spool);
        if (lines > 0 && !s->hurry)
            df_log_info("LogSpoolAdopted", "%" PRIu64 " lines of processes that are gone wait",
                        lines);
        s->adopted_ms = now_ms;
    }
    df_metric_set(df_metric_get(&spool_bytes, NULL), (double)df_spool_bytes(s->spool));
    df_metric_set(df_metric_get(&spool_lines, NULL), (double)df_spool_lines(s->spool));
    s->oldest_ns = df_spool_oldest_ns(s->spool);
}

static void collect_age(void *arg)
{
    struct df_shipper *s = arg;
    int64_t oldest_ns = s->oldest_ns;
    int64_t oldest_ms = oldest_ns / NS_PER_MS;
    double age = (double)(df_wall_ms(s->clock) - oldest_ms) / 1000;

    df_metric_set(df_metric_get(&oldest_seconds, NULL), oldest_ns > 0 && age > 0 ? age : 0);
}

static void tell_drained(struct df_shipper *s)
{
    bool stuck = s->attempts > 0;

    if (!s->hurry || s->in_flight || (df_spool_lines(s->spool) > 0 && !stuck))
        return;
    df_lock(&s->lock);
    s->drained = true;
    pthread_cond_broadcast(&s->changed);
    df_unlock(&s->lock);
}

static int64_t sooner(int64_t a, int64_t b)
{
    return b < 0 ? a : a < 0 || b < a ? b : a;
}

static int64_t turn_shipper(void *arg)
{
    struct df_shipper *s = arg;
    int64_t now_ms = df_mono_ms(s->clock);
    int64_t queue_ms = take_queue(s, now_ms);

    if (s->hurry && !s->hurried) { /* whatever failed before, once more */
        s->hurried = true;
        s->attempts = 0;
        s->retry_ms = 0;
    }

    ship_lines(s, now_ms);
    keep_spool(s, now_ms);
    say_losses(s, now_ms);
    tell_drained(s);

    /* Lines that came meanwhile wake the loop. */
    int64_t wait_ms = sooner(SYNC_MS, queue_ms);
    if (!s->in_flight && s->retry_ms > now_ms)
        wait_ms = sooner(wait_ms, s->retry_ms - now_ms);
    else if (!s->in_flight && df_spool_lines(s->spool) > 0)
        wait_ms = sooner(wait_ms, s->due_ms > now_ms ? s->due_ms - now_ms : 0);
    return wait_ms;
}

/* --- start and end --- */

static void register_metrics(void)
{
    struct df_str outcome = DF_STR("shipped");

    df_metric_set(df_metric_get(&last_success, NULL), 0);
    df_metric_add(df_metric_get(&failures_total, NULL), 0);
    df_metric_add(df_metric_get(&lines_total, &outcome), 0);
}

static enum df_code open_spool(struct df_shipper *s, const char *data_dir, struct df_err *err)
{
    char *directory;

    if (asprintf(&directory, "%s/spool/logs", data_dir) < 0)
        df_oom();
    enum df_code code = df_spool_open(
        &(struct df_spool_options){
            .directory = directory,
            .max_bytes = s->settings.spool_max_bytes,
            .max_age_ms = s->settings.spool_max_ms,
            .clock = s->clock,
        },
        &s->spool, err);
    free(directory);
    return code;
}

static enum df_code open_client(struct df_shipper *s, struct df_err *err)
{
    const struct df_http_client_options client = {.threads = 1,
                                                  .max_in_flight = 1,
                                                  .max_per_destination = 1,
                                                  .user_agent = "DataFlow/" DF_VERSION,
                                                  .clock = s->clock};

    s->outbound.clock = s->clock;
    return df_http_client_new(&client, &s->outbound.client, err);
}

static void free_shipper(struct df_shipper *s)
{
    df_outbound_close(&s->outbound);
    df_spool_close(s->spool);
    df_ship_target_free(s->target);
    if (s->in_batch)
        df_ship_batch_release(&s->batch);
    df_arena_release(&s->call_arena);
    df_buf_release(&s->queue);
    df_buf_release(&s->taken);
    df_buf_release(&s->encoded);
    df_buf_release(&s->body);
    df_buf_release(&s->answer);
    pthread_cond_destroy(&s->changed);
    df_mutex_destroy(&s->lock);
    free(s);
}

enum df_code df_shipper_open(const struct df_ship_settings *settings, const char *data_dir,
                             const struct df_clock *clock, struct df_shipper **ret,
                             struct df_err *err)
{
    struct df_shipper *s = df_calloc(1, sizeof(*s));

    s->clock = clock;
    s->settings = *settings;
    df_mutex_init(&s->lock);
    df_cond_init(&s->changed);
    df_arena_init(&s->call_arena);
    df_buf_init(&s->queue, QUEUE_BYTES);
    df_buf_init(&s->taken, QUEUE_BYTES);
    df_buf_init(&s->encoded, ENCODED_MAX);
    df_buf_init(&s->body, ENCODED_MAX);
    df_buf_init(&s->answer, ANSWER_MAX);
    enum df_code code = df_ship_target_new(settings, &s->target, err);
    if (code == DF_OK)
        code = open_spool(s, data_dir, err);
    if (code == DF_OK)
        code = open_client(s, err);
    if (code != DF_OK) {
        free_shipper(s);
        return code;
    }
    (void)df_destination_of(s->target->url, s->destination);
    register_metrics();
    df_metric_on_collect(collect_age, s);
    df_log_tee(queue_line, s); /* before the thread, which may log at once */
    df_loop_start(&s->loop, &(struct df_loop_options){
                                .name = "ship", .clock = clock, .turn = turn_shipper, .arg = s});
    *ret = s;
    return DF_OK;
}

/* Waits until nothing can be sent any more, or the time is over. */
static void flush_lines(struct df_shipper *s, int64_t flush_ms)
{
    int64_t end_ms = df_mono_ms(df_clock_real()) + flush_ms, left_ms;

    s->hurry = true;
    df_loop_wake(&s->loop);
    df_lock(&s->lock);
    while (!s->drained && (left_ms = end_ms - df_mono_ms(df_clock_real())) > 0)
        (void)df_cond_wait_ms(&s->changed, &s->lock, left_ms);
    df_unlock(&s->lock);
}

void df_shipper_close(struct df_shipper *s, int64_t flush_ms)
{
    if (!s)
        return;
    df_log_tee(NULL, NULL);
    flush_lines(s, flush_ms);
    df_outbound_stop(&s->outbound);
    df_metric_off_collect(collect_age, s);
    df_loop_stop(&s->loop);
    df_outbound_close(&s->outbound); /* until then a call that ends wakes the loop */
    df_loop_release(&s->loop);
    (void)take_queue(s, df_mono_ms(s->clock)); /* if the loop had no time for it */
    free_shipper(s);
}

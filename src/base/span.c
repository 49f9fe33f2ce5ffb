#include "base/span.h"

#include "base/mem.h"
#include "base/metrics.h"
#include "base/personal.h"
#include "base/queue.h"

#include <assert.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>

#define WAKE_EACH 256
#define RANDOM_56 (UINT64_C(1) << 56)

static struct {
    _Atomic bool on;
    uint64_t rejected_below; /* the randomness of sampled traces is this or more */
    struct df_queue queue;
    _Atomic uint64_t ended;
    void (*wake)(void *arg);
    void *arg;
} spans;

DF_METRIC_FAMILY(dropped_total) = {
    .name = "dataflow_spans_dropped_total",
    .help = "Recorded spans that were not exported, by reason (queue_full, refused, unavailable, "
            "rejected, stopped).",
    .type = DF_COUNTER,
    .labels = {"reason"},
};

/* --- sampling --------------------------------------------------------------------------------- */

bool df_spans_on(void)
{
    return atomic_load_explicit(&spans.on, memory_order_acquire);
}

void df_span_sample(struct df_trace *t)
{
    if (df_spans_on())
        df_trace_set_sampled(t, df_trace_randomness(t) >= spans.rejected_below);
}

struct df_trace df_span_new_trace(const struct df_clock *clock)
{
    struct df_trace t = df_trace_new(clock);

    df_span_sample(&t);
    return t;
}

struct df_trace df_span_stored(struct df_str traceparent, struct df_str trace_id,
                               const struct df_clock *clock, bool *ret_is_new)
{
    struct df_trace t;

    if (ret_is_new)
        *ret_is_new = false;
    if (df_trace_parse(traceparent, &t))
        return t;
    if (df_trace_resume(trace_id, clock, &t)) {
        df_span_sample(&t);
        return t;
    }
    if (ret_is_new)
        *ret_is_new = true;
    return df_span_new_trace(clock);
}

/* --- a span ----------------------------------------------------------------------------------- */

static void begin_span(struct df_span *s, const struct df_trace *own, struct df_str parent_id,
                       enum df_span_kind kind, const struct df_clock *clock, int64_t begun_ns)
{
    s->trace = *own;
    s->recording = df_spans_on() && df_trace_is_sampled(own);
    if (!s->recording)
        return;
    s->parent[0] = '\0';
    if (parent_id.len == DF_SPAN_ID_LEN) {
        memcpy(s->parent, parent_id.ptr, DF_SPAN_ID_LEN);
        s->parent[DF_SPAN_ID_LEN] = '\0';
    }
    s->kind = kind;
    s->status = DF_SPAN_UNSET;
    s->clock = clock;
    s->name = s->message = DF_STR_NULL;
    s->link.text[0] = '\0';
    s->begun_ns = begun_ns;
    s->attr_count = 0;
}

void df_span_adopt(struct df_span *s, const struct df_trace *own, struct df_str parent_id,
                   enum df_span_kind kind, const struct df_clock *clock, int64_t begun_ns)
{
    begin_span(s, own, parent_id, kind, clock, begun_ns);
}

void df_span_begin_at(struct df_span *s, const struct df_trace *parent, const char *name,
                      enum df_span_kind kind, const struct df_clock *clock, int64_t begun_ns)
{
    if (!df_spans_on() || !df_trace_is_sampled(parent)) {
        s->trace = *parent;
        s->recording = false;
        return;
    }
    struct df_trace own = df_trace_child(parent, clock);
    begin_span(s, &own, df_trace_span(parent), kind, clock, begun_ns);
    s->name = df_str_c(name);
}

void df_span_begin(struct df_span *s, const struct df_trace *parent, const char *name,
                   enum df_span_kind kind, const struct df_clock *clock)
{
    bool recorded = df_spans_on() && df_trace_is_sampled(parent);

    df_span_begin_at(s, parent, name, kind, clock, recorded ? df_mono_ns(clock) : 0);
}

static struct df_span_attr *add_attr(struct df_span *s, const char *key, enum df_span_type type)
{
    assert(s->attr_count < DF_SPAN_ATTRS);
    struct df_span_attr *a = &s->attrs[s->attr_count++];
    *a = (struct df_span_attr){.key = key, .type = type};
    return a;
}

void df_span_text(struct df_span *s, const char *key, struct df_str text)
{
    if (s->recording && text.ptr)
        add_attr(s, key, DF_SPAN_IS_TEXT)->text = text;
}

void df_span_int(struct df_span *s, const char *key, int64_t number)
{
    if (s->recording)
        add_attr(s, key, DF_SPAN_IS_INT)->number = number;
}

void df_span_bool(struct df_span *s, const char *key, bool yes)
{
    if (s->recording)
        add_attr(s, key, DF_SPAN_IS_BOOL)->number = yes;
}

void df_span_fail(struct df_span *s, struct df_str why)
{
    if (!s->recording)
        return;
    s->status = DF_SPAN_ERROR;
    s->message = why;
}

void df_span_link(struct df_span *s, struct df_str traceparent)
{
    if (s->recording && !df_trace_parse(traceparent, &s->link))
        s->link.text[0] = '\0';
}

/* --- the record ------------------------------------------------------------------------------- */

/* How much of a text is kept: whole characters. */
static size_t kept_bytes(struct df_str s)
{
    if (s.len > DF_SPAN_TEXT)
        s.len = DF_SPAN_TEXT;
    return s.len > 0 ? df_utf8_valid_prefix(s) : 0;
}

/*
 * Copies to *at, which moves. A number at the cut is masked as a whole, because the text is masked
 * before it is cut.
 */
static struct df_str copy_text(struct df_str s, char **at)
{
    char masked[DF_SPAN_TEXT + 64];
    size_t seen = s.len < sizeof(masked) ? s.len : sizeof(masked);
    size_t kept = kept_bytes(s);

    if (!s.ptr)
        return DF_STR_NULL;
    if (seen > 0)
        memcpy(masked, s.ptr, seen);
    (void)df_mask_in_place(masked, seen);
    if (kept > 0)
        memcpy(*at, masked, kept);
    struct df_str copy = df_str_n(*at, kept);
    *at += kept;
    return copy;
}

static size_t text_bytes(const struct df_span *s)
{
    size_t bytes = kept_bytes(s->name) + kept_bytes(s->message);

    for (size_t i = 0; i < s->attr_count; i++)
        bytes += kept_bytes(s->attrs[i].text);
    return bytes;
}

static void copy_id(char *to, struct df_str id)
{
    memcpy(to, id.ptr, id.len);
    to[id.len] = '\0';
}

static struct df_span_record *make_record(const struct df_span *s)
{
    size_t head = sizeof(struct df_span_record) + s->attr_count * sizeof(struct df_span_attr);
    struct df_span_record *r = df_malloc(head + text_bytes(s) + 1);
    int64_t now_ns = df_wall_ns(s->clock);
    int64_t took_ns = df_mono_ns(s->clock) - s->begun_ns;
    char *at = (char *)r + head;

    *r = (struct df_span_record){.kind = s->kind,
                                 .status = s->status,
                                 .start_ns = now_ns - (took_ns > 0 ? took_ns : 0),
                                 .end_ns = now_ns,
                                 .attr_count = s->attr_count,
                                 .attrs = (struct df_span_attr *)(r + 1)};
    copy_id(r->trace_id, df_trace_id(&s->trace));
    copy_id(r->span_id, df_trace_span(&s->trace));
    copy_id(r->parent_id, df_str_c(s->parent));
    if (s->link.text[0]) {
        copy_id(r->link_trace_id, df_trace_id(&s->link));
        copy_id(r->link_span_id, df_trace_span(&s->link));
    }
    r->name = copy_text(s->name, &at);
    r->message = copy_text(s->message, &at);
    for (size_t i = 0; i < s->attr_count; i++) {
        r->attrs[i] = s->attrs[i];
        r->attrs[i].text = copy_text(s->attrs[i].text, &at);
    }
    return r;
}

void df_span_end(struct df_span *s)
{
    if (!s->recording)
        return;
    s->recording = false;
    struct df_span_record *r = make_record(s);
    if (!df_queue_push(&spans.queue, r)) {
        free(r);
        df_spans_dropped(df_spans_on() ? "queue_full" : "stopped", 1);
        return;
    }
    if (spans.wake &&
        atomic_fetch_add_explicit(&spans.ended, 1, memory_order_relaxed) % WAKE_EACH ==
            WAKE_EACH - 1)
        spans.wake(spans.arg);
}

/* --- who takes them --------------------------------------------------------------------------- */

void df_spans_start(const struct df_spans_options *opt)
{
    assert(!df_spans_on() && opt->ratio >= 0 && opt->ratio <= 1);
    df_queue_init(&spans.queue, opt->queue);
    spans.rejected_below = RANDOM_56 - (uint64_t)ldexp(opt->ratio, 56);
    spans.wake = opt->wake;
    spans.arg = opt->arg;
    df_metric_register(&dropped_total);
    atomic_store_explicit(&spans.on, true, memory_order_release);
}

size_t df_spans_take(struct df_span_record **ret, size_t max)
{
    return df_queue_pop(&spans.queue, (void **)ret, max, 0);
}

size_t df_spans_waiting(void)
{
    return df_queue_count(&spans.queue);
}

void df_spans_dropped(const char *reason, size_t count)
{
    struct df_str label = df_str_c(reason);

    if (count > 0)
        df_metric_add(df_metric_get(&dropped_total, &label), (double)count);
}

void df_spans_stop(void)
{
    if (atomic_exchange(&spans.on, false))
        df_queue_close(&spans.queue);
}

void df_spans_free(void)
{
    struct df_span_record *r;

    df_spans_stop();
    while (df_spans_take(&r, 1) > 0)
        free(r);
    df_queue_release(&spans.queue);
}

/*
 * Events as CloudEvents over HTTP (HTTP Protocol Binding 1.0.2), through the shared client.
 *
 *     binary      attributes in ce-* headers, the payload as it is; a call for each event
 *     structured  attributes and data in one JSON document; a call for each event
 *     batch       an array of such documents; a call for up to 100 events or a megabyte
 *
 * The worker hands the calls of a round to the client while it builds the next ones, then sleeps
 * until the last `done`, which comes on a thread of the client. Until then that thread writes to
 * the calls only: the arena is the worker's.
 *
 * A batch that was refused for its content is sent again, one event a call, in a second round
 * within the same time. That is how the refused event is found.
 *
 * classify_answer() says what an answer means for the event. The texts of an event are
 * percent-encoded before they become part of a header or the URL, so that they cannot be more than
 * a value there.
 */
#include "base/buf.h"
#include "base/checksum.h"
#include "base/list.h"
#include "base/mem.h"
#include "delivery/sign.h"
#include "net/field.h"
#include "relay/dispatcher.h"
#include "relay/http_target.h"
#include "json/write.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#define BATCH_EVENTS      ((size_t)100)
#define BATCH_BYTES       ((size_t)1000000)
#define TOO_MANY_REQUESTS 429
#define ANSWER_BYTES      ((size_t)1024) /* kept of an answer, */
#define ANSWER_UNITS      ((size_t)200)  /* and shown of that */

struct df_sink {
    const struct df_sink_options *opt;
    bool expands;          /* the target has names in it */
    char *key_prefix;      /* of Idempotency-Key: "NAME:" */
    struct df_buf scratch; /* one document of a batch */

    struct df_mutex lock;
    pthread_cond_t all_done;
    size_t pending; /* calls that the client has; guarded by the lock */
};

/* A call and the events that it carries. */
struct send {
    struct df_link link;
    struct df_out out;
    struct df_sink *sink;
    struct df_event *const *events;
    size_t count;
    struct df_buf body; /* unused if the body is the payload itself */
    char *answer;       /* the beginning of an answer other than 2xx */
    size_t answer_len;
};

/* --- configuration --- */

static enum df_code check_http(const struct df_sink_options *opt, struct df_err *err)
{
    struct df_err why = DF_ERR_INIT;

    if (!opt->target || !*opt->target)
        return df_err_set(err, DF_E_CONFIG, "target: dispatcher http needs a URL");
    enum df_code code = df_http_target_check(opt->target, err);
    if (code == DF_OK && opt->mode == DF_HTTP_BATCH && strchr(opt->target, '{'))
        code = df_err_set(err, DF_E_CONFIG,
                          "target: in mode batch one call has many events, so the URL cannot have "
                          "{eventType} and the like in it");
    if (code == DF_OK && opt->secret &&
        df_sign_check_secret(df_secret_str(opt->secret), &why) != DF_OK)
        code = df_err_set(err, DF_E_CONFIG, "secret: %s", why.detail);
    return code;
}

/* --- documents --- */

/* The longest that a document can be: each byte of a text may become six (\u0001). */
static size_t document_max(const struct df_sink *s, const struct df_event *e)
{
    size_t texts = e->id.len + e->type.len + e->payload.len + e->aggregate_type.len +
                   e->aggregate_id.len + e->correlation_id.len + strlen(s->opt->source);
    return 6 * texts + 1024;
}

static void write_document(const struct df_sink *s, const struct df_event *e, struct df_arena *a,
                           struct df_buf *out)
{
    struct df_event_attribute attributes[DF_EVENT_ATTRIBUTES];
    size_t n = df_event_attributes(e, s->opt->source, a, attributes);
    struct df_json_out j;
    bool json = false;

    df_json_out_init(&j, out);
    df_json_open(&j, '{');
    for (size_t i = 0; i < n; i++) {
        df_json_kv_text(&j, attributes[i].name, attributes[i].value);
        if (strcmp(attributes[i].name, "datacontenttype") == 0)
            json = df_str_eq(attributes[i].value, DF_STR("application/json"));
    }
    if (e->payload.ptr) {
        df_json_key(&j, "data");
        if (json)
            df_json_raw(&j, e->payload);
        else
            df_json_text(&j, e->payload);
    }
    df_json_close(&j, '}');
}

/* Writes as many events as go into one call, in order, at least one; returns their number. */
static size_t write_batch(struct df_sink *s, struct df_event *const *events, size_t n,
                          struct df_arena *a, struct df_buf *out)
{
    size_t count = 0;

    df_buf_init(out, BATCH_BYTES + document_max(s, events[0]));
    df_buf_addc(out, '[');
    while (count < n && count < BATCH_EVENTS) {
        df_buf_reset(&s->scratch);
        s->scratch.max = document_max(s, events[count]);
        write_document(s, events[count], a, &s->scratch);
        if (count > 0 && out->len + s->scratch.len + 2 > BATCH_BYTES)
            break;
        if (count > 0)
            df_buf_addc(out, ',');
        df_buf_adds(out, df_buf_str(&s->scratch));
        count++;
    }
    df_buf_addc(out, ']');
    if (s->scratch.cap > BATCH_BYTES)
        df_buf_release(&s->scratch);
    return count;
}

/* --- headers --- */

static struct df_str ce_name(struct df_arena *a, const char *name)
{
    size_t len = strlen(name);
    char *out = df_arena_alloc(a, sizeof("ce-") + len);

    memcpy(out, "ce-", sizeof("ce-"));
    memcpy(out + 3, name, len + 1);
    return df_str_n(out, 3 + len);
}

static void add_attributes(struct send *c, const struct df_event *e, struct df_arena *a)
{
    struct df_event_attribute attributes[DF_EVENT_ATTRIBUTES];
    size_t n = df_event_attributes(e, c->sink->opt->source, a, attributes);

    for (size_t i = 0; i < n; i++) {
        if (strcmp(attributes[i].name, "datacontenttype") == 0)
            df_headers_add(&c->out.headers, DF_STR("Content-Type"), attributes[i].value);
        else
            df_headers_add(&c->out.headers, ce_name(a, attributes[i].name),
                           df_field_text(a, attributes[i].value));
    }
}

/* Continues the event's trace. Begins a new trace if the event's is not one as W3C defines it, and
 * for a call with many events, which is linked to the first one's. */
static void set_trace(struct df_out *out, const struct df_clock *clock,
                      const struct df_event *first, bool alone, struct df_arena *a)
{
    const struct df_event *e = alone ? first : NULL;
    struct df_str id = e ? e->trace_id : DF_STR_NULL;
    struct df_trace linked;

    if (!e || !df_event_trace(e, &out->trace))
        out->trace = df_span_stored(DF_STR_NULL, id, clock, &out->begins_trace);
    if (!e && df_event_trace(first, &linked))
        out->link = df_arena_str(a, df_trace_parent(&linked));
    if (id.len > 0)
        out->trace_id = df_field_text(a, id);
}

/* The same events in the same order, and only those, have the same id. */
static struct df_str batch_id(const struct send *c, struct df_arena *a)
{
    struct df_checksum *sum = df_checksum_new();
    char hex[DF_CHECKSUM_LEN + 1];

    for (size_t i = 0; i < c->count; i++) {
        struct df_str id = c->events[i]->id;
        df_checksum_add(sum, &id.len, sizeof(id.len));
        df_checksum_add(sum, id.ptr, id.len);
    }
    df_checksum_end(sum, hex);
    df_checksum_free(sum);
    return df_arena_printf(a, "batch-%.32s", hex);
}

/* Adds what every call carries in any mode; the body must be written before. */
static void add_common_headers(struct send *c, struct df_arena *a)
{
    const struct df_sink_options *opt = c->sink->opt;
    const struct df_event *e = c->events[0];
    bool alone = c->count == 1;
    struct df_str id = alone ? df_field_text(a, e->id) : batch_id(c, a);
    struct df_str correlation =
        alone && e->correlation_id.len > 0 ? df_field_text(a, e->correlation_id) : id;

    c->out.idempotency_key =
        df_arena_printf(a, "%s" DF_STR_FMT, c->sink->key_prefix, DF_STR_ARG(id));
    c->out.correlation_id = correlation;
    c->out.channel = "relay";
    c->out.passes_trace = true;
    c->out.item = id;
    c->out.resend_count = alone ? e->attempt - 1 : 0;
    set_trace(&c->out, opt->clock, e, alone, a);
    if (!opt->secret)
        return;
    df_sign(df_secret_str(opt->secret), DF_STR_NULL, id, df_wall_ms(opt->clock) / 1000,
            c->out.call.body, a, df_headers_more(&c->out.headers, DF_SIGN_HEADERS));
}

/* --- calls --- */

/* A redirect is about the target, not about the event: it must not make a whole backlog FAILED. */
static struct df_out_judgement classify_answer(unsigned status)
{
    struct df_out_judgement j = df_outbound_judge_status(status);

    if (j.verdict == DF_OUT_REFUSED && status < 400)
        return (struct df_out_judgement){DF_OUT_AGAIN, DF_BREAKER_FAILURE};
    return j;
}

/* On a thread of the client. */
static void send_done(struct df_out *out)
{
    struct send *c = out->arg;
    const struct df_call *call = &out->call;
    struct df_sink *s = c->sink;

    if (call->code == DF_OK && out->verdict != DF_OUT_OK) {
        c->answer = df_strdup(df_buf_str(&call->answer));
        c->answer_len = call->answer.len;
    }
    /* Signalled under the lock, since the worker may close the sink once the last call is done. */
    df_lock(&s->lock);
    assert(s->pending > 0);
    if (--s->pending == 0)
        (void)pthread_cond_signal(&s->all_done);
    df_unlock(&s->lock);
}

static void refuse_event(struct df_event *e, const char *why, struct df_arena *a)
{
    e->outcome = DF_DISPATCH_PERMANENT;
    e->breaker = DF_BREAKER_IGNORED;
    e->error = df_arena_printf(a, "the event cannot be sent: %s", why);
}

/* Writes the body and the headers of the mode; returns the number of events in the call. */
static size_t fill_call(struct send *c, struct df_event *const *events, size_t n,
                        struct df_arena *a)
{
    struct df_sink *s = c->sink;

    switch ((enum df_http_mode)s->opt->mode) {
    case DF_HTTP_BINARY:
        add_attributes(c, events[0], a);
        c->out.call.body = events[0]->payload;
        return 1;
    case DF_HTTP_STRUCTURED:
        df_buf_init(&c->body, document_max(s, events[0]));
        write_document(s, events[0], a, &c->body);
        df_headers_add(&c->out.headers, DF_STR("Content-Type"),
                       DF_STR("application/cloudevents+json"));
        n = 1;
        break;
    case DF_HTTP_BATCH:
        n = write_batch(s, events, n, a, &c->body);
        df_headers_add(&c->out.headers, DF_STR("Content-Type"),
                       DF_STR("application/cloudevents-batch+json"));
        break;
    }
    c->out.call.body = df_buf_str(&c->body);
    return n;
}

/* Builds the call of the first of n events, and of those that go with it. NULL: the first was
 * refused. */
static struct send *build_call(struct df_sink *s, struct df_event *const *events, size_t n,
                               struct df_arena *a)
{
    struct df_err err = DF_ERR_INIT;
    const char *url = s->opt->target;

    if (s->expands)
        url = df_http_target_expand(a, s->opt->target, events[0], &err);
    if (!url) {
        refuse_event(events[0], err.detail, a);
        return NULL;
    }
    struct send *c = DF_ARENA_NEW(a, struct send);
    c->sink = s;
    c->events = events;
    c->out = (struct df_out){
        .call = {.method = "POST",
                 .url = url,
                 .max_answer_bytes = ANSWER_BYTES,
                 .owner = df_str_c(s->key_prefix), /* the relay's name */
                 .allow_private = true},           /* the operator chose the address */
        .headers = {.arena = a},
        .unguarded = true, /* each event has a permit: relay/batch.c */
        .classify = classify_answer,
        .done = send_done,
        .arg = c,
    };
    c->count = fill_call(c, events, n, a);
    add_common_headers(c, a);
    return c;
}

static void hand_over(struct df_sink *s, struct send *c, int64_t timeout_ms)
{
    c->out.call.timeout_ms = timeout_ms > 0 ? timeout_ms : 1;
    df_lock(&s->lock);
    s->pending++;
    df_unlock(&s->lock);
    df_outbound_send(s->opt->outbound, &c->out);
}

static void wait_for_all(struct df_sink *s)
{
    df_lock(&s->lock);
    while (s->pending > 0)
        df_cond_wait(&s->all_done, &s->lock);
    df_unlock(&s->lock);
}

/* --- answers --- */

static enum df_dispatch_outcome outcome_of(enum df_out_verdict verdict)
{
    switch (verdict) {
    case DF_OUT_OK:
        return DF_DISPATCHED;
    case DF_OUT_REFUSED:
        return DF_DISPATCH_PERMANENT;
    case DF_OUT_AGAIN:
    case DF_OUT_STOPPED:
        break;
    }
    return DF_DISPATCH_RETRY;
}

/* Makes a peer's answer, which is shown and stored, valid UTF-8 on one line. */
static void add_clean(struct df_buf *b, struct df_str s)
{
    while (s.len > 0) {
        size_t n = df_utf8_valid_prefix(s);
        for (size_t i = 0; i < n; i++)
            df_buf_addc(b, (unsigned char)s.ptr[i] < ' ' || s.ptr[i] == 0x7f ? ' ' : s.ptr[i]);
        n += n < s.len; /* skips the invalid byte */
        s = df_str_n(s.ptr + n, s.len - n);
    }
}

static struct df_str error_of(const struct send *c, struct df_arena *a)
{
    const struct df_call *call = &c->out.call;

    if (call->code != DF_OK && c->out.verdict == DF_OUT_REFUSED)
        return df_arena_printf(a, "the event cannot be sent: %s", call->err.detail);
    if (call->code != DF_OK)
        return df_arena_str(a, df_str_c(call->err.detail));

    struct df_buf text;
    df_buf_init(&text, ANSWER_BYTES);
    add_clean(&text, df_str_n(c->answer, c->answer_len));
    struct df_str shown = df_utf8_cut(df_str_trim(df_buf_str(&text)), ANSWER_UNITS);
    struct df_str error = df_arena_printf(a, "HTTP %u%s" DF_STR_FMT, call->status,
                                          shown.len > 0 ? ": " : "", DF_STR_ARG(shown));
    df_buf_release(&text);
    return error;
}

/*
 * Copies the call's answer to its events and frees the call's memory. False: several events were
 * refused together, and each should be tried in a call of its own.
 */
static bool settle_call(struct send *c, struct df_arena *a)
{
    enum df_dispatch_outcome outcome = outcome_of(c->out.verdict);
    struct df_str error = outcome == DF_DISPATCHED ? DF_STR_NULL : error_of(c, a);
    bool settled = c->count == 1 || outcome != DF_DISPATCH_PERMANENT;

    for (size_t i = 0; i < c->count; i++) {
        struct df_event *e = c->events[i];
        e->outcome = settled ? outcome : DF_DISPATCH_RETRY;
        e->breaker = c->out.outcome;
        e->never_counts = c->out.call.code == DF_OK ? c->out.call.status == TOO_MANY_REQUESTS
                                                    : c->out.call.fault == DF_FAULT_OURS;
        e->retry_after_ms = c->out.call.retry_after_ms;
        e->duration_ms = c->out.call.duration_ms;
        e->error = error;
    }
    df_buf_release(&c->body);
    free(c->answer);
    return settled;
}

/* --- the sink --- */

static int64_t left_ms(const struct df_sink *s, int64_t deadline_ms)
{
    return deadline_ms - df_mono_ms(s->opt->clock);
}

/* Sends all events, at most `most` in a call. Returns the number of those to send again, each
 * alone, which it puts into `again`. */
static size_t send_round(struct df_sink *s, struct df_event *const *events, size_t n, size_t most,
                         int64_t deadline_ms, struct df_arena *a, struct df_event **again)
{
    struct df_list sent = {.count = 0};
    struct send *c;
    size_t count = 0;

    for (size_t i = 0; i < n;) {
        c = build_call(s, events + i, n - i < most ? n - i : most, a);
        i += c ? c->count : 1;
        if (!c)
            continue;
        df_list_add(&sent, &c->link);
        hand_over(s, c, left_ms(s, deadline_ms));
    }
    wait_for_all(s);
    DF_LIST_EACH (c, &sent, link)
        if (!settle_call(c, a))
            for (size_t i = 0; i < c->count; i++)
                again[count++] = c->events[i];
    return count;
}

static void dispatch_http(struct df_sink *s, struct df_event *const *events, size_t n,
                          struct df_arena *a)
{
    int64_t deadline_ms = df_mono_ms(s->opt->clock) + s->opt->timeout_ms;
    struct df_event **again = DF_ARENA_ARRAY(a, struct df_event *, n);
    size_t most = s->opt->mode == DF_HTTP_BATCH ? BATCH_EVENTS : 1;

    for (size_t i = 0; i < n; i++) {
        events[i]->retry_after_ms = -1;
        events[i]->duration_ms = 0;
    }
    size_t count = send_round(s, events, n, most, deadline_ms, a, again);
    if (count > 0 && left_ms(s, deadline_ms) > 0)
        (void)send_round(s, again, count, 1, deadline_ms, a, NULL);
}

static enum df_code open_sink(const struct df_sink_options *opt, struct df_sink **ret,
                              struct df_err *err)
{
    struct df_arena a = {0};
    enum df_code code = check_http(opt, err);

    if (code != DF_OK)
        return code;
    struct df_sink *s = df_calloc(1, sizeof(*s));
    s->opt = opt;
    s->expands = strchr(opt->target, '{') != NULL;
    struct df_str relay = df_field_text(&a, df_str_c(opt->relay));
    s->key_prefix = df_strdup(df_arena_printf(&a, DF_STR_FMT ":", DF_STR_ARG(relay)));
    df_arena_release(&a);
    df_mutex_init(&s->lock);
    df_cond_init(&s->all_done);
    *ret = s;
    return DF_OK;
}

static void close_sink(struct df_sink *s)
{
    if (!s)
        return;
    (void)pthread_cond_destroy(&s->all_done);
    df_mutex_destroy(&s->lock);
    df_buf_release(&s->scratch);
    free(s->key_prefix);
    free(s);
}

const struct df_dispatcher df_dispatch_http = {
    .name = "http",
    .check = check_http,
    .open = open_sink,
    .dispatch = dispatch_http,
    .close = close_sink,
};

/*
 * A call's permit goes one way, and every step asserts the one before:
 *
 *     nothing ──ask──► held ──send──► held, with the client ──done──► nothing
 *        ▲              └──forgo──► nothing
 *        └ not permitted
 *
 * An unguarded call holds nothing all the way.
 */
#include "outbound/outbound.h"

#include "net/url.h"
#include "resilience/retry.h"

#include <assert.h>
#include <stdio.h>

#define HEADERS_FIRST 16

/* --- client and breakers ---------------------------------------------------------------------- */

enum df_code df_outbound_open(struct df_outbound *o, const struct df_http_client_options *client,
                              const struct df_breaker_settings *breaker,
                              const struct df_clock *clock, struct df_err *err)
{
    *o = (struct df_outbound){.clock = clock};
    enum df_code code = df_http_client_new(client, &o->client, err);
    if (code == DF_OK)
        o->breakers = df_breakers_new(breaker, clock);
    return code;
}

void df_outbound_stop(struct df_outbound *o)
{
    df_http_client_stop(o->client);
}

void df_outbound_close(struct df_outbound *o)
{
    df_http_client_free(o->client);
    df_breakers_free(o->breakers);
    *o = (struct df_outbound){0};
}

/* --- headers ---------------------------------------------------------------------------------- */

struct df_call_header *df_headers_more(struct df_headers *h, size_t n)
{
    if (h->count + n > h->cap) {
        h->cap = 2 * (h->count + n) > HEADERS_FIRST ? 2 * (h->count + n) : HEADERS_FIRST;
        struct df_call_header *at = DF_ARENA_ARRAY(h->arena, struct df_call_header, h->cap);
        if (h->count > 0)
            memcpy(at, h->at, h->count * sizeof(*at));
        h->at = at;
    }
    h->count += n;
    return h->at + h->count - n;
}

void df_headers_add(struct df_headers *h, struct df_str name, struct df_str value)
{
    *df_headers_more(h, 1) = (struct df_call_header){.name = name, .value = value};
}

/* Appends to a copy of the caller's list: the next attempt begins with the caller's own headers
 * again. */
static void put_headers(struct df_out *out)
{
    struct df_headers all = out->headers;

    if (out->correlation_id.ptr)
        df_headers_add(&all, DF_STR("X-Correlation-Id"), out->correlation_id);
    if (out->idempotency_key.ptr)
        df_headers_add(&all, DF_STR("Idempotency-Key"), out->idempotency_key);
    df_headers_add(&all, DF_STR("traceparent"), df_trace_parent(&out->sent));
    df_headers_add(&all, DF_STR("x-trace-id"),
                   out->trace_id.ptr ? out->trace_id : df_trace_id(&out->trace));
    out->call.headers = all.at;
    out->call.header_count = all.count;
}

/* --- spans ------------------------------------------------------------------------------------ */

static void begin_span(struct df_outbound *o, struct df_out *out)
{
    assert(out->trace.text[0]);
    out->span = NULL;
    if (!df_spans_on() || !df_trace_is_sampled(&out->trace)) {
        out->sent = out->passes_trace ? out->trace : df_trace_child(&out->trace, o->clock);
        return;
    }
    out->span = DF_ARENA_NEW(out->headers.arena, struct df_span);
    if (out->begins_trace) {
        df_span_adopt(out->span, &out->trace, DF_STR_NULL, DF_SPAN_CLIENT, o->clock,
                      df_mono_ns(o->clock));
        out->span->name = df_str_c(out->call.method);
    } else {
        df_span_begin(out->span, &out->trace, out->call.method, DF_SPAN_CLIENT, o->clock);
    }
    df_span_link(out->span, out->link);
    out->sent = out->span->trace;
}

/* The URL itself is left out: its path and query may name people, and hold secrets. */
static void end_span(struct df_out *out)
{
    const struct df_call *call = &out->call;
    struct df_span *span = out->span;
    char status[16];
    struct df_url url;

    if (!span)
        return;
    out->span = NULL;
    df_span_text(span, "http.request.method", df_str_c(call->method));
    if (df_url_parse(df_str_c(call->url), &url, NULL) == DF_OK) {
        df_span_text(span, "server.address", url.host);
        df_span_int(span, "server.port", url.port);
    }
    df_span_text(span, "dataflow.channel", df_str_c(out->channel));
    df_span_text(span, "dataflow.item.id", out->item);
    df_span_text(span, "dataflow.client.id", out->client_id);
    df_span_text(span, "dataflow.correlation_id", out->correlation_id);
    if (out->resend_count > 0)
        df_span_int(span, "http.request.resend_count", out->resend_count);
    if (call->code == DF_OK)
        df_span_int(span, "http.response.status_code", call->status);
    (void)snprintf(status, sizeof(status), "%u", call->status);
    if (call->code != DF_OK || call->status >= 400) {
        df_span_text(span, "error.type",
                     call->code == DF_OK              ? df_str_c(status)
                     : call->code == DF_E_NET_TIMEOUT ? DF_STR("timeout")
                                                      : df_str_c(df_code_name(call->code)));
        df_span_fail(span, DF_STR_NULL);
    }
    df_span_end(span);
}

/* --- judging ---------------------------------------------------------------------------------- */

struct df_out_judgement df_outbound_judge_status(unsigned status)
{
    static const unsigned again[] = {401, 403, 404, 405, 407, 408, 421, 425, 429};

    if (status >= 200 && status <= 299)
        return (struct df_out_judgement){DF_OUT_OK, DF_BREAKER_SUCCESS};
    bool retried = status < 100 || status > 499; /* an invalid status is like a 5xx (RFC 9110) */
    for (size_t i = 0; !retried && i < sizeof(again) / sizeof(again[0]); i++)
        retried = again[i] == status;
    return retried ? (struct df_out_judgement){DF_OUT_AGAIN, DF_BREAKER_FAILURE}
                   : (struct df_out_judgement){DF_OUT_REFUSED, DF_BREAKER_SUCCESS};
}

struct df_out_judgement df_outbound_judge_passed_on(unsigned status)
{
    switch (df_retry_class_of(status)) {
    case DF_CLASS_SUCCESS:
        return (struct df_out_judgement){DF_OUT_OK, DF_BREAKER_SUCCESS};
    case DF_CLASS_RETRY:
        return (struct df_out_judgement){DF_OUT_AGAIN, DF_BREAKER_FAILURE};
    case DF_CLASS_PERMANENT:
        break;
    }
    return (struct df_out_judgement){DF_OUT_REFUSED, DF_BREAKER_SUCCESS};
}

enum df_breaker_outcome df_outbound_judge_host(enum df_fault fault)
{
    switch (fault) {
    case DF_FAULT_NONE:
        return DF_BREAKER_SUCCESS;
    case DF_FAULT_HOST:
        return DF_BREAKER_FAILURE;
    case DF_FAULT_PEER:
    case DF_FAULT_OURS:
        break;
    }
    return DF_BREAKER_IGNORED;
}

struct df_out_judgement df_outbound_judge(enum df_code code, unsigned status,
                                          struct df_out_judgement (*classify)(unsigned status),
                                          bool hides_targets)
{
    if (code == DF_OK)
        return classify ? classify(status) : df_outbound_judge_status(status);
    if (code == DF_E_CANCELLED)
        return (struct df_out_judgement){DF_OUT_STOPPED, DF_BREAKER_IGNORED};
    if (df_code_retry(code) == DF_RETRY_NEVER && !(hides_targets && code == DF_E_TARGET_REFUSED))
        return (struct df_out_judgement){DF_OUT_REFUSED, DF_BREAKER_IGNORED};
    return (struct df_out_judgement){DF_OUT_AGAIN, DF_BREAKER_FAILURE};
}

/* --- the call --------------------------------------------------------------------------------- */

/* Gives the host's permit back. A slow target says nothing about the host. */
static void tell_host(struct df_out *out, enum df_breaker_outcome outcome)
{
    if (!out->held_host)
        return;
    df_breaker_done(out->held_host, out->host_permit, outcome, 0);
    df_breakers_put(out->outbound->breakers, out->held_host);
    out->held_host = NULL;
}

/* Gives the target's permit back. */
static void tell_target(struct df_out *out, enum df_breaker_outcome outcome, int64_t duration_ms)
{
    struct df_breaker_snapshot now;

    assert(out->held);
    df_breaker_done(out->held, out->permit, outcome, duration_ms);
    if (outcome == DF_BREAKER_FAILURE) {
        df_breaker_snapshot(out->held, &now);
        out->retry_ms = now.retry_ms;
    }
    df_breakers_put(out->outbound->breakers, out->held);
    out->held = NULL;
}

/* NULL: there is none; *ret_retry_ms says when to ask again. */
static struct df_breaker *take_permit(struct df_outbound *o, struct df_str key,
                                      struct df_breaker_permit *ret, int64_t *ret_retry_ms)
{
    struct df_breaker *b = df_breakers_get(o->breakers, key);

    if (df_breaker_allow(b, ret, ret_retry_ms))
        return b;
    df_breakers_put(o->breakers, b);
    return NULL;
}

bool df_outbound_ask(struct df_outbound *o, struct df_out *out)
{
    char destination[DF_DESTINATION_SIZE];

    assert(!out->held && !out->held_host && !out->unguarded);
    struct df_str host = df_destination_of(out->call.url, destination);
    struct df_str target = out->breaker.ptr ? out->breaker : host;
    out->outbound = o;
    if (out->guards_host && !df_str_eq(target, host)) {
        out->held_host = take_permit(o, host, &out->host_permit, &out->retry_ms);
        if (!out->held_host)
            return false;
    }
    out->held = take_permit(o, target, &out->permit, &out->retry_ms);
    if (!out->held)
        tell_host(out, DF_BREAKER_IGNORED);
    return out->held;
}

void df_outbound_forgo(struct df_out *out)
{
    tell_host(out, DF_BREAKER_IGNORED);
    tell_target(out, DF_BREAKER_IGNORED, 0);
}

struct df_out_gate df_outbound_look(struct df_outbound *o, struct df_str target, struct df_str host)
{
    struct df_out_gate gate = {.closed = true, .permits = INT64_MAX};
    const struct df_str keys[] = {target, host};
    struct df_breaker_snapshot s;

    for (size_t i = 0; i < 2; i++) {
        if (!keys[i].ptr || !df_breakers_look(o->breakers, keys[i], &s))
            continue;
        gate.closed = gate.closed && s.state == DF_BREAKER_CLOSED;
        gate.permits = s.permits < gate.permits ? s.permits : gate.permits;
        gate.wait_ms = s.retry_ms > gate.wait_ms ? s.retry_ms : gate.wait_ms;
    }
    return gate;
}

/* On a thread of the client. */
static void call_done(struct df_call *call)
{
    struct df_out *out = call->arg;
    struct df_out_judgement j =
        df_outbound_judge(call->code, call->status, out->classify, out->hides_targets);

    end_span(out);
    out->verdict = j.verdict;
    out->outcome = j.breaker;
    out->retry_ms = 0;
    tell_host(out, df_outbound_judge_host(call->fault));
    if (!out->unguarded)
        tell_target(out, j.breaker, call->duration_ms);
    if (j.verdict == DF_OUT_AGAIN && call->retry_after_ms >= 0)
        out->retry_ms = call->retry_after_ms;
    out->done(out);
}

void df_outbound_send(struct df_outbound *o, struct df_out *out)
{
    assert(out->unguarded == !out->held);
    begin_span(o, out);
    put_headers(out);
    out->call.done = call_done;
    out->call.arg = out;
    df_http_client_send(o->client, &out->call);
}

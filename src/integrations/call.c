/*
 * A call from the request to the answer:
 *
 *   begin ───► attempt ──► client ──► answered ─┬─► passed back
 *                 ▲  │                          ├─► waits, then attempt again
 *                 │  └ breaker open ─► give up ◄┘
 *                 └─── waits ◄──────            └─► 503, or kept: 202
 *
 * Every attempt asks the breaker. The function that sets the answer ends the work, and then the
 * call is gone.
 */
#include "integrations/integrations_private.h"

#include "net/field.h"

#include <assert.h>
#include <stdio.h>

#define ANSWER_MAX ((size_t)16 << 20)

/* --- the end ---------------------------------------------------------------------------------- */

void integration_call_count(struct df_work *w)
{
    struct integration_call *c = (struct integration_call *)w;

    if (c->started_ns == 0)
        return;
    const struct df_trace *trace = df_req_trace(c->w.req);
    df_metric_add_traced(c->to->calls[c->outcome], 1, trace);
    df_metric_observe_traced(c->to->duration,
                             (double)(df_mono_ns(c->all->opt.clock) - c->started_ns) / 1e9, trace);
    if (c->counted)
        integrations_end(c->all, &c->client);
}

/* Ends the call after its answer was set. */
static void end_call(struct integration_call *c, enum integration_outcome outcome)
{
    assert(df_req_answered(c->w.req) && outcome < INTEGRATION_OUTCOMES);
    c->outcome = outcome;
    df_work_end(&c->w);
}

static void log_call(const struct integration_call *c, enum df_log_level level, const char *event,
                     struct df_str words)
{
    struct df_log_field fields[] = {
        DF_F("integration", c->to->name),
        DF_F("method", df_str_c(c->method)),
        DF_FI("attempt", c->attempt),
        DF_FI("status", c->out.call.status),
        DF_FI("durationMs", c->out.call.duration_ms),
    };
    const struct df_log_ctx *before = df_log_ctx_use(df_req_log(c->w.req));
    df_log_write(level, event, fields, sizeof(fields) / sizeof(fields[0]), DF_STR_FMT,
                 DF_STR_ARG(words));
    df_log_ctx_use(before);
}

void integration_call_refuse(struct integration_call *c, const char *because)
{
    struct df_err err = DF_ERR_INIT;
    char seconds[24];

    (void)df_err_set(&err, DF_E_UNAVAILABLE, DF_STR_FMT " is not available: " DF_STR_FMT "%s",
                     DF_STR_ARG(c->to->name), DF_STR_ARG(c->reason), because);
    log_call(c, DF_LOG_WARN, "IntegrationCallUnavailable", df_str_c(err.detail));
    int64_t after = c->retry_ms > 0 ? (c->retry_ms + 999) / 1000 : 1;
    (void)snprintf(seconds, sizeof(seconds), "%lld", (long long)after);
    (void)df_req_add_header(c->w.req, "Retry-After", df_str_c(seconds));
    df_req_problem_as(c->w.req, &err, c->to->set->unavailable_code);
}

/* Keeps the call or answers 503; outcome and reason must be set. */
static void give_up_call(struct integration_call *c)
{
    const char *because = "";

    if (c->keep && !c->maybe_done && c->outcome != INTEGRATION_ABANDONED) {
        integration_keep(c);
        return;
    }
    if (c->maybe_done && c->keep)
        because = "; the call may have been done. It was not kept for later: without an "
                  "Idempotency-Key it is not safe to repeat";
    else if (c->maybe_done)
        because = "; the call may have been done, and without an Idempotency-Key it is not safe to "
                  "repeat";
    integration_call_refuse(c, because);
    df_work_end(&c->w);
}

static void give_up_for(struct integration_call *c, enum integration_outcome outcome,
                        struct df_str reason, int64_t retry_ms)
{
    c->outcome = outcome;
    c->reason = reason;
    c->retry_ms = retry_ms;
    give_up_call(c);
}

/* --- passing back ----------------------------------------------------------------------------- */

/* Replaces tabs by spaces, which mean the same: libmicrohttpd refuses tabs. */
static struct df_str plain_value(struct df_arena *a, struct df_str value)
{
    value = df_str_trim(value);
    char *copy = df_arena_cstr(a, value);
    for (size_t i = 0; i < value.len; i++)
        copy[i] = copy[i] == '\t' ? ' ' : copy[i];
    return df_str_n(copy, value.len);
}

/* Passes headers back and returns the content type, which is set apart; NULL: none, or not passed
 * back. */
static const char *return_headers(struct integration_call *c)
{
    struct df_arena *a = df_req_arena(c->w.req);
    const char *type = NULL;

    for (size_t i = 0; i < c->out.call.answer_header_count; i++) {
        const struct df_call_header *h = &c->out.call.answer_headers[i];
        if (!integration_rules_return(&c->to->rules, h->name) || !df_field_value_ok(h->value))
            continue;
        struct df_str value = plain_value(a, h->value);
        if (!df_str_ieq(h->name, DF_STR("Content-Type")))
            (void)df_req_add_header(c->w.req, df_arena_cstr(a, h->name), value);
        else if (value.len > 0)
            type = value.ptr;
    }
    return type;
}

static void pass_answer_back(struct integration_call *c)
{
    const struct df_call *call = &c->out.call;
    struct df_buf body;

    enum df_refusal refusal = df_req_account(c->w.req)->reason;
    if (call->answer_cut && (refusal == DF_REFUSED_SHARE || refusal == DF_REFUSED_TOTAL)) {
        df_req_fail(c->w.req, DF_E_BUSY, "there is no memory for the answer: try again soon");
        end_call(c, INTEGRATION_ERROR);
        return;
    }
    if (call->answer_cut) {
        log_call(c, DF_LOG_ERROR, "IntegrationAnswerTooLarge", DF_STR(""));
        df_req_fail(c->w.req, DF_E_ANSWER_TOO_LARGE,
                    "the answer of " DF_STR_FMT " is larger than %zu bytes",
                    DF_STR_ARG(c->to->name), ANSWER_MAX);
        end_call(c, INTEGRATION_ERROR);
        return;
    }
    log_call(c, DF_LOG_INFO, "IntegrationCall", DF_STR(""));
    const char *type = return_headers(c);
    df_buf_init(&body, ANSWER_MAX);
    df_buf_adds(&body, df_buf_str(&call->answer));
    body.account = df_req_account(c->w.req); /* counted as it arrived */
    df_req_answer(c->w.req, call->status, type, &body);
    end_call(c, call->status < 400 ? INTEGRATION_SUCCESS : INTEGRATION_CLIENT_ERROR);
}

/* --- attempts --------------------------------------------------------------------------------- */

static struct df_str failure_reason(const struct integration_call *c)
{
    const struct df_call *call = &c->out.call;
    struct df_arena *a = df_req_arena(c->w.req);
    const char *s = c->attempt == 1 ? "" : "s";

    /* The text of a network error names the peer's address, which the caller must not see. */
    if (call->code == DF_OK)
        return df_arena_printf(a, "HTTP %u (%lld attempt%s)", call->status, (long long)c->attempt,
                               s);
    return df_arena_printf(a, "%s (%lld attempt%s)", df_code_title(call->code),
                           (long long)c->attempt, s);
}

/* Answers a call that cannot be sent. */
static void answer_fault(struct integration_call *c)
{
    log_call(c, DF_LOG_ERROR, "IntegrationCallFailed", df_str_c(c->out.call.err.detail));
    df_req_problem(c->w.req, &c->out.call.err);
    end_call(c, INTEGRATION_ERROR);
}

/* On a thread of the client. */
static void call_answered(struct df_out *out)
{
    struct integration_call *c = out->arg;
    struct integration_verdict v = integration_judge(c->to->set, out, c->attempt, c->safe);

    c->maybe_done = v.maybe_done;
    if (v.next == INTEGRATION_PASS_BACK) {
        pass_answer_back(c);
        return;
    }
    if (out->verdict == DF_OUT_REFUSED) {
        answer_fault(c);
        return;
    }
    log_call(c, DF_LOG_WARN, "IntegrationAttemptFailed",
             df_str_c(out->call.code == DF_OK ? "" : out->call.err.detail));
    c->outcome = INTEGRATION_UNAVAILABLE;
    c->reason =
        out->verdict == DF_OUT_STOPPED ? DF_STR("the server is shutting down") : failure_reason(c);
    c->retry_ms = out->retry_ms;
    if (v.next == INTEGRATION_RETRY && integration_wait(c, v.wait_ms))
        return;
    give_up_call(c);
}

static void make_attempt(struct integration_call *c)
{
    struct df_outbound *outbound = c->all->opt.outbound;
    struct df_account *account = df_req_account(c->w.req);

    struct df_out out = {
        .call = {.method = c->method,
                 .url = c->url,
                 .body = df_req_body(c->w.req),
                 .timeout_ms = c->to->set->timeout_ms,
                 .max_answer_bytes = ANSWER_MAX,
                 .owner = df_uuid_str(&c->client),
                 .of_tenant = true,
                 .account = account,
                 .allow_private = true, /* the operator chose the address */
                 .keep_headers = true},
        .headers = c->headers,
        .correlation_id = df_req_correlation_id(c->w.req),
        .trace = *df_req_trace(c->w.req),
        .breaker = c->to->breaker_key,
        .classify = df_outbound_judge_passed_on,
        .done = call_answered,
        .arg = c,
    };
    if (!df_outbound_ask(outbound, &out)) {
        give_up_for(c, INTEGRATION_NOT_PERMITTED, DF_STR("its circuit breaker is open"),
                    out.retry_ms);
        return;
    }
    c->out = out; /* overwrites the attempt before only now: a refusal logs that one */
    if (c->attempt++ == 0)
        c->taken_before = account->taken;
    df_account_give(account, account->taken - c->taken_before); /* of the attempt before */
    df_outbound_send(outbound, &c->out);
}

void integration_call_again(struct integration_call *c)
{
    if (df_req_peer_gone(c->w.req)) {
        give_up_for(c, INTEGRATION_ABANDONED, DF_STR("the caller left"), 0);
        return;
    }
    df_metric_add(c->to->retries, 1);
    make_attempt(c);
}

void integration_call_stopped(struct integration_call *c)
{
    give_up_for(c, INTEGRATION_UNAVAILABLE, DF_STR("the server is shutting down"), 0);
}

/* --- the request ------------------------------------------------------------------------------ */

struct connection_option {
    struct df_str name;
    bool listed;
};

static void look_at_connection(void *arg, struct df_str name, struct df_str value)
{
    struct connection_option *o = arg;

    if (!df_str_ieq(name, DF_STR("Connection")))
        return;
    while (value.ptr) {
        struct df_str word;
        value = df_str_cut(value, ',', &word);
        o->listed = o->listed || df_str_ieq(df_str_trim(word), o->name);
    }
}

/* A field that Connection names is meant for this hop alone (RFC 9110, section 7.6.1). */
static bool is_hop_header(const struct df_req *req, struct df_str name)
{
    struct connection_option o = {.name = name};
    df_req_each_header(req, look_at_connection, &o);
    return o.listed;
}

static void take_header(void *arg, struct df_str name, struct df_str value)
{
    struct integration_call *c = arg;
    bool key = df_str_ieq(name, DF_STR("Idempotency-Key"));

    if (!integration_rules_forward(&c->to->rules, name) || is_hop_header(c->w.req, name) ||
        (key && value.len == 0))
        return;
    df_headers_add(&c->headers, name, value);
    if (!key)
        return;
    /* With two different keys it is unclear which one the peer would use. */
    if (c->key.ptr && !df_str_eq(c->key, value))
        df_req_fail(c->w.req, DF_E_BAD_REQUEST, "there are two different Idempotency-Keys");
    c->key = value;
}

static void build_headers(struct integration_call *c)
{
    const struct integration_rules *rules = &c->to->rules;

    c->headers.arena = df_req_arena(c->w.req);
    df_req_each_header(c->w.req, take_header, c);
    c->forwarded_count = c->headers.count;
    for (size_t i = 0; i < rules->fixed_count; i++)
        df_headers_add(&c->headers, rules->fixed[i].name, rules->fixed[i].value);
}

static enum df_code build_url(struct integration_call *c, struct df_err *err)
{
    struct df_arena *a = df_req_arena(c->w.req);
    struct df_str path;
    struct df_str query;

    enum df_code code = integration_path(df_req_path_raw(c->w.req), &path, err);
    if (code == DF_OK)
        code = integration_query(a, df_req_query_raw(c->w.req), &query, &c->keep, err);
    if (code != DF_OK)
        return code;
    c->suffix = integration_suffix(a, path, query);
    return integration_url(a, c->to->set->base_url, c->suffix, &c->url, err);
}

/* False: the answer is set. */
static bool check_method(struct df_req *req, const struct integration *to, enum df_method method)
{
    struct df_buf allow;

    if (to->set->methods & 1U << method)
        return true;
    df_buf_init(&allow, 256);
    df_router_write_allow(to->set->methods, &allow);
    (void)df_req_add_header(req, "Allow", df_buf_str(&allow));
    df_buf_release(&allow);
    df_req_fail(req, DF_E_METHOD, DF_STR_FMT " does not take %s", DF_STR_ARG(to->name),
                df_method_name(method));
    return false;
}

static bool read_call(struct df_work *w, struct df_input *in)
{
    struct integration_call *c = (struct integration_call *)w;
    enum df_method method = df_method_of(df_req_method(w->req));
    struct df_err err = DF_ERR_INIT;

    (void)in;
    c->all = w->arg;
    c->to = integration_find(c->all, df_req_param(w->req, "name"));
    if (!c->to)
        df_req_fail(w->req, DF_E_NOT_FOUND, "there is no integration of this name");
    if (!c->to || !check_method(w->req, c->to, method))
        return false;
    c->client = df_auth_client(w->req)->id;
    c->method = df_method_name(method);
    enum df_code code = build_url(c, &err);
    build_headers(c);
    c->safe = integration_is_safe(method, c->key);
    if (code == DF_OK && c->keep)
        code = integration_keep_check(c, &err);
    if (code != DF_OK)
        df_req_problem(w->req, &err);
    return !df_req_answered(w->req);
}

static void begin_call(struct df_work *w)
{
    struct integration_call *c = (struct integration_call *)w;

    c->started_ns = df_mono_ns(c->all->opt.clock);
    c->counted = integrations_begin(c->all, &c->client);
    if (c->counted)
        make_attempt(c);
    else
        give_up_for(c, INTEGRATION_NOT_PERMITTED,
                    DF_STR("the client has as many calls under way as it may"), 1000);
}

static const struct df_handler pass_on = {
    .size = sizeof(struct integration_call),
    .prepare = read_call,
    .first = begin_call,
    .cleanup = integration_call_count,
};

#define ROUTE(m, kind, path)                                                                       \
    DF_ROUTE(m, "/integrations/{name}" path, kind, DF_ACCESS_CLIENT, "integrations", pass_on)
#define BOTH(m, kind) ROUTE(m, kind, ""), ROUTE(m, kind, "/{path...}")

const struct df_route df_integration_routes[] = {
    BOTH("GET", DF_BODY_ANY),      BOTH("HEAD", DF_BODY_NONE), BOTH("POST", DF_BODY_ANY),
    BOTH("PUT", DF_BODY_ANY),      BOTH("PATCH", DF_BODY_ANY), BOTH("DELETE", DF_BODY_ANY),
    BOTH("OPTIONS", DF_BODY_NONE), {.method = NULL},
};

/*
 * Checks a request by its header alone.
 *
 * libmicrohttpd 0.9.75 is lenient, and each leniency can make it see another request than a proxy
 * in front of it: it accepts Content-Length beside Transfer-Encoding, several of either, bare line
 * feeds, folded lines (which it appends to the *name*) and NULs (where it cuts). The first two show
 * in the fields. The others show only in the memory in which the header was parsed: lines are
 * terminated in place, so in a well-formed header each line begins two bytes (CR LF) after the end
 * of the line before, and the whole is as long as libmicrohttpd reports.
 */
#include "net/http_int.h"

#include "base/personal.h"
#include "base/span.h"
#include "base/uuid.h"
#include "net/field.h"

struct head {
    struct df_req *req;
    const char *next_line; /* where the next line must begin */
    size_t count;
    bool broken;
    bool bad_name;
    bool bad_value;
    struct df_str host;
    struct df_str length;
    struct df_str transfer;
    struct df_str expect;
    bool twice; /* a unique field was repeated */
};

/* Stores a field that may come only once in *slot. */
static void take_once(struct head *h, struct df_str *slot, struct df_str value)
{
    if (slot->ptr)
        h->twice = true;
    *slot = value;
}

static void take_first(struct df_str *slot, struct df_str value)
{
    if (!slot->ptr)
        *slot = value;
}

static void take_field(struct head *h, struct df_str name, struct df_str value)
{
    struct df_req *req = h->req;

    /* The length picks the candidate; most fields match no length. */
    switch (name.len) {
    case 4:
        if (df_str_ieq(name, DF_STR("Host")))
            take_once(h, &h->host, value);
        break;
    case 6:
        if (df_str_ieq(name, DF_STR("Expect")))
            take_first(&h->expect, value);
        break;
    case 11:
        if (df_str_ieq(name, DF_STR("traceparent")))
            take_first(&req->traceparent_in, value);
        break;
    case 12:
        if (df_str_ieq(name, DF_STR("Content-Type")))
            take_once(h, &req->content_type, value);
        break;
    case 14:
        if (df_str_ieq(name, DF_STR("Content-Length")))
            take_once(h, &h->length, value);
        break;
    case 16:
        if (df_str_ieq(name, DF_STR("Content-Encoding")))
            take_once(h, &req->content_encoding, value);
        else if (df_str_ieq(name, DF_STR("X-Correlation-Id")))
            take_first(&req->correlation_in, value);
        break;
    case 17:
        if (df_str_ieq(name, DF_STR("Transfer-Encoding")))
            take_once(h, &h->transfer, value);
        break;
    default:
        break;
    }
}

static enum MHD_Result check_field(void *arg, enum MHD_ValueKind kind, const char *name,
                                   size_t name_len, const char *value, size_t value_len)
{
    struct head *h = arg;
    struct df_str n = df_str_n(name, name_len);
    struct df_str v = df_str_n(value ? value : "", value_len);
    (void)kind;

    h->count++;
    h->broken = h->broken || name != h->next_line;
    h->next_line = v.ptr + v.len + 2;
    h->bad_name = h->bad_name || !df_field_is_token(n);
    h->bad_value = h->bad_value || !df_field_value_ok(v);
    while (v.len > 0 && (v.ptr[v.len - 1] == ' ' || v.ptr[v.len - 1] == '\t'))
        v.len--;
    take_field(h, n, v);
    return MHD_YES;
}

static bool line_is_broken(const struct df_req *req, const char *method, const char *version)
{
    /* Exactly one space on either side of the target, and no NUL within. */
    const char *target = req->raw_path.ptr;
    return target != method + req->method_name.len + 1 || version != target + req->raw_len + 1;
}

static enum df_code check_framing(struct head *h, struct df_err *err)
{
    struct df_req *req = h->req;

    req->declared_length = 0;
    if (h->transfer.ptr) {
        if (h->length.ptr)
            return df_err_set(err, DF_E_BAD_REQUEST,
                              "Content-Length and Transfer-Encoding exclude each other");
        if (!df_str_ieq(h->transfer, DF_STR("chunked")) || req->http_1_0)
            return df_err_set(err, DF_E_BAD_REQUEST,
                              "no Transfer-Encoding but \"chunked\" is understood");
        req->declared_length = -1;
    } else if (h->length.ptr && !df_field_length(h->length, &req->declared_length)) {
        return df_err_set(err, DF_E_BAD_REQUEST, "Content-Length is not a number of bytes");
    }
    req->expects_continue = df_str_ieq(h->expect, DF_STR("100-continue"));
    if (!h->host.ptr && !req->http_1_0)
        return df_err_set(err, DF_E_BAD_REQUEST, "the Host header is missing");
    if (!df_field_host_ok(h->host))
        return df_err_set(err, DF_E_BAD_REQUEST, "the Host header is malformed");
    return DF_OK;
}

enum df_code df_head_check(struct df_req *req, const char *method, const char *version,
                           struct df_err *err)
{
    struct head h = {.req = req, .next_line = version + 10};
    const union MHD_ConnectionInfo *info;

    req->http_1_0 = strcmp(version, "HTTP/1.0") == 0;
    (void)MHD_get_connection_values_n(req->conn->mhd, MHD_HEADER_KIND, check_field, &h);
    info = MHD_get_connection_info(req->conn->mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    bool broken_end = !info || method + info->header_size != h.next_line + 2;

    if (line_is_broken(req, method, version))
        return df_err_set(err, DF_E_BAD_REQUEST, "the request line is malformed");
    if (req->raw_len > DF_TARGET_MAX_BYTES)
        return df_err_set(err, DF_E_URI_TOO_LONG, "the request target is longer than %d bytes",
                          DF_TARGET_MAX_BYTES);
    if (info && info->header_size > req->conn->server->opt.header_bytes)
        return df_err_set(err, DF_E_HEADERS_TOO_LARGE, "the header is longer than %zu bytes",
                          req->conn->server->opt.header_bytes);
    if (h.broken || broken_end)
        return df_err_set(err, DF_E_BAD_REQUEST,
                          "header lines must end with CR LF, without folding and without NUL");
    if (h.bad_name)
        return df_err_set(err, DF_E_BAD_REQUEST, "a header name is malformed");
    if (h.bad_value)
        return df_err_set(err, DF_E_BAD_REQUEST, "a header contains a control character");
    if (h.twice)
        return df_err_set(err, DF_E_BAD_REQUEST,
                          "a header that must be unique (Host, Content-*, Transfer-Encoding) is "
                          "there twice");
    if (!df_field_is_token(req->method_name))
        return df_err_set(err, DF_E_BAD_REQUEST, "the method is malformed");
    return check_framing(&h, err);
}

/* --- who is asking ---------------------------------------------------------------------------- */

/* One that is somebody's number or address is not taken: it would be stored, logged and sent on. */
static void put_correlation(struct df_req *req, const struct df_clock *clock)
{
    struct df_str in = req->correlation_in;

    if (in.ptr && df_field_correlation_ok(in) && !df_text_is_personal(in)) {
        memcpy(req->correlation, in.ptr, in.len);
        req->correlation_len = in.len;
    } else {
        struct df_uuid u = df_uuid_v4(clock);
        memcpy(req->correlation, u.text, DF_UUID_LEN);
        req->correlation_len = DF_UUID_LEN;
    }
    req->correlation[req->correlation_len] = '\0';
}

/* Starts this request's own span, in the caller's trace or in a new one. Whether it is recorded is
 * decided by the trace's id; the caller's flag may count once it is known who calls
 * (df_req_heed_trace). */
/* A caller's id does not decide whether its trace is recorded: it would choose one that is. */
static void sample_caller(struct df_trace *t, const struct df_clock *clock)
{
    if (!df_spans_on())
        return;
    struct df_trace drawn = df_span_new_trace(clock);
    df_trace_set_sampled(t, df_trace_is_sampled(&drawn));
}

static void put_trace(struct df_req *req, const struct df_clock *clock)
{
    struct df_trace caller;

    req->caller_span[0] = '\0';
    req->caller_sampled = false;
    if (req->traceparent_in.ptr && df_trace_parse(req->traceparent_in, &caller)) {
        memcpy(req->caller_span, df_trace_span(&caller).ptr, DF_SPAN_ID_LEN);
        req->caller_span[DF_SPAN_ID_LEN] = '\0';
        req->caller_sampled = df_trace_is_sampled(&caller);
        req->trace = df_trace_child(&caller, clock);
        sample_caller(&req->trace, clock);
    } else {
        req->trace = df_span_new_trace(clock);
    }
}

struct callers {
    const struct df_proxies *proxies;
    struct df_forwarded named;
};

static void note_caller(void *arg, struct df_str name, struct df_str value)
{
    struct callers *c = arg;
    df_forwarded_add(&c->named, c->proxies, name, value);
}

void df_head_find_caller(struct df_req *req)
{
    struct callers c = {.proxies = &req->conn->server->proxies};
    char text[DF_NETWORK_TEXT];
    struct df_ip ip;

    if (!req->conn->trusted)
        return;
    df_req_each_header(req, note_caller, &c);
    if (!df_forwarded_caller(&c.named, &ip))
        return;
    df_ip_text(&ip, text);
    req->caller = df_arena_cstr(&req->arena, df_str_c(text));
    df_ip_network_text(&ip, text);
    req->caller_network = df_arena_cstr(&req->arena, df_str_c(text));
}

void df_head_identify(struct df_req *req)
{
    const struct df_clock *clock = req->conn->server->opt.clock;

    put_correlation(req, clock);
    put_trace(req, clock);
    req->log.count = 0;
    df_log_ctx_set(&req->log, "correlationId", df_req_correlation_id(req));
    df_log_ctx_set(&req->log, "traceId", df_req_trace_id(req));
    df_log_ctx_set(&req->log, "spanId", df_trace_span(&req->trace));
    df_log_ctx_set(&req->log, "ip", df_req_peer(req));
}

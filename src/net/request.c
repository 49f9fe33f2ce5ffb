/*
 * The stages of a request. libmicrohttpd calls df_request_on_line when the request line has
 * arrived, then df_request_on_access: once after the header, once for each piece of the body, once
 * after the body. libmicrohttpd's state decides when it is called; our own stage decides what is
 * done:
 *
 *   HEAD ──► AUTHORIZE ──► BODY ──► HANDLE ──► SENDING
 *     │          │           │
 *     └──────────┴───────────┴─► refused: ANSWER or DISCARD ──► SENDING
 *
 * libmicrohttpd takes an answer at two points only: after the header (then the connection closes,
 * the body unread) and after the body. A refusal is therefore
 *   - answered at once and closed, if the peer waits for "100 Continue", or the body is chunked,
 *     too large to be read for courtesy, or not to be trusted to end where it says;
 *   - otherwise kept until the body has been read and dropped, and the connection lives on;
 *   - in the middle of a body written to the socket by ourselves, and the connection is closed.
 *
 * Suspension. df_req_suspend only marks the request ASKED. When the application returns,
 * park_if_asked() has libmicrohttpd suspend the connection and then marks the request PARKED. A
 * resume that comes before that finds ASKED and only marks it RESUMED; a later one wakes
 * libmicrohttpd. So the order of the two threads does not matter, and a job that is done before the
 * callback returns costs no suspension at all.
 *
 * The gate. A thread that calls the application first sets `inside` and then checks whether the
 * gate is shut; df_http_shut first shuts it and then waits until no thread is inside. Both use
 * sequentially consistent operations, so one of the two sees the other.
 */
#include "net/http_int.h"

#include "net/field.h"

#include <assert.h>
#include <stdlib.h>
#include <unistd.h>

/* --- the beginning ---------------------------------------------------------------------------- */

static void begin_request(struct df_req *req, struct df_str path, struct df_str query)
{
    req->stage = DF_STAGE_HEAD;
    atomic_store_explicit(&req->park, DF_PARK_NONE, memory_order_relaxed);
    req->entered = false;
    req->raw_path = path;
    req->raw_query = query;
    req->method = DF_METHOD_OTHER;
    req->target.segment_count = 0;
    req->target.path = path;
    req->target.query = query;
    req->match.route = NULL;
    req->declared_length = 0;
    req->expects_continue = false;
    req->content_type = req->content_encoding = DF_STR_NULL;
    req->correlation_in = req->traceparent_in = DF_STR_NULL;
    req->caller = req->conn->peer;
    req->caller_network = req->conn->network;
    req->correlation_len = 0;
    req->log.count = 0;
    req->user = req->state = NULL;
    req->started_ns = 0;
    req->headers = (struct df_list){.count = 0};
    req->answer = (struct df_answer){0};
}

/*
 * The query is copied and cut off: libmicrohttpd would parse it into records of its own, and when
 * these do not fit into the connection's memory it neither answers nor closes.
 */
static struct df_str take_query(struct df_req *req, const char *mark, size_t len)
{
    struct df_str query = df_arena_str(&req->arena, df_str_n(mark + 1, len));
    char *writable;

    /* libmicrohttpd itself writes here to end the path. */
    memcpy(&writable, &mark, sizeof(writable));
    writable[1] = '\0';
    return query;
}

void *df_request_on_line(void *server, const char *uri, struct MHD_Connection *mhd)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct df_conn *c = info ? info->socket_context : NULL;
    (void)server;

    if (!c)
        return NULL;
    atomic_fetch_add_explicit(&c->requests, 1, memory_order_relaxed);
    df_conn_set_phase(c, DF_PHASE_HEAD);
    struct df_str target = df_str_c(uri ? uri : "");
    struct df_str path = target;
    struct df_str query = DF_STR_NULL;
    const char *mark = memchr(target.ptr, '?', target.len);
    if (mark) {
        path.len = (size_t)(mark - target.ptr);
        query = take_query(&c->req, mark, target.len - path.len - 1);
    }
    c->req.raw_len = target.len;
    begin_request(&c->req, path, query);
    return &c->req;
}

/* --- setting aside ---------------------------------------------------------------------------- */

void df_req_suspend(struct df_req *req)
{
    df_conn_set_phase(req->conn, DF_PHASE_WORK);
    atomic_store_explicit(&req->park, DF_PARK_ASKED, memory_order_release);
}

void df_req_resume(struct df_req *req)
{
    struct MHD_Connection *mhd = req->conn->mhd;
    int park = DF_PARK_ASKED;

    /* Nothing happens until the peer sends more, so from now on its time counts. */
    if (req->stage == DF_STAGE_BODY)
        df_conn_set_phase(req->conn, DF_PHASE_BODY);
    if (atomic_compare_exchange_strong(&req->park, &park, DF_PARK_RESUMED))
        return;
    atomic_store(&req->park, DF_PARK_RESUMED);
    MHD_resume_connection(mhd);
}

/* True: the request belongs to another thread now and must not be touched. */
static bool park_if_asked(struct df_req *req)
{
    int park = atomic_load(&req->park);

    if (park == DF_PARK_NONE)
        return false;
    if (park == DF_PARK_ASKED) {
        MHD_suspend_connection(req->conn->mhd);
        if (atomic_compare_exchange_strong(&req->park, &park, DF_PARK_PARKED))
            return true;
        MHD_resume_connection(req->conn->mhd);
        return true; /* libmicrohttpd, which regards it as suspended, will call again */
    }
    atomic_store_explicit(&req->park, DF_PARK_NONE, memory_order_relaxed);
    return false;
}

static bool is_aside(const struct df_req *req)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(req->conn->mhd, MHD_CONNECTION_INFO_CONNECTION_SUSPENDED);
    return info && info->suspended == MHD_YES;
}

static enum df_code shutting_down(struct df_err *err)
{
    return df_err_set(err, DF_E_DRAINING, "the server is shutting down");
}

/* The request is resumed, or never was suspended. If the gate is shut and no answer is set, the
 * application cannot give one any more. */
static void take_back(struct df_req *req)
{
    if (atomic_load(&req->park) == DF_PARK_NONE)
        return;
    atomic_store_explicit(&req->park, DF_PARK_NONE, memory_order_relaxed);
    if (!req->answer.set && atomic_load(&req->conn->server->shut))
        df_req_fail(req, DF_E_DRAINING, "the server is shutting down");
}

/* --- the application -------------------------------------------------------------------------- */

/* False: the gate is shut, and the application must not be called. */
static bool enter_application(struct df_req *req)
{
    struct df_conn *c = req->conn;

    assert(!atomic_load_explicit(&c->inside, memory_order_relaxed));
    atomic_store(&c->inside, true);
    if (atomic_load(&c->server->shut)) {
        atomic_store(&c->inside, false);
        return false;
    }
    req->entered = true;
    return true;
}

/* The request may belong to another thread by now; the connection still belongs to this one. */
static void leave_application(struct df_conn *c)
{
    atomic_store(&c->inside, false);
}

/* --- refusing --------------------------------------------------------------------------------- */

static void refuse_request(struct df_req *req, const struct df_err *err)
{
    if (err->code != DF_E_BUSY) /* already counted by its reason */
        df_http_metrics_rejected(req->conn->server->metrics, df_code_name(err->code));
    df_req_problem(req, err);
}

static bool has_body(const struct df_req *req)
{
    return req->declared_length != 0;
}

/* An answer is set, and libmicrohttpd has just read the header. */
static enum MHD_Result answer_after_head(struct df_req *req)
{
    struct df_answer *a = &req->answer;

    if (a->drop)
        return MHD_NO;
    a->close = a->close || atomic_load_explicit(&req->conn->server->shut, memory_order_relaxed);
    if (has_body(req) && (req->expects_continue || req->declared_length < 0 ||
                          req->declared_length > DF_DISCARD_MAX || a->status == 413))
        a->close = true;
    if (a->close) {
        req->conn->linger = true;
        return df_answer_queue(req);
    }
    req->stage = has_body(req) ? DF_STAGE_DISCARD : DF_STAGE_ANSWER;
    if (has_body(req))
        df_conn_set_phase(req->conn, DF_PHASE_BODY);
    return MHD_YES;
}

/* An answer is set, and there is more of the body to come. */
static enum MHD_Result answer_amid_body(struct df_req *req, uint64_t seen)
{
    bool near_end =
        req->declared_length > 0 && (uint64_t)req->declared_length - seen <= DF_DISCARD_MAX;

    if (req->answer.drop)
        return MHD_NO;
    if (near_end && !req->answer.close &&
        !atomic_load_explicit(&req->conn->server->shut, memory_order_relaxed)) {
        req->stage = DF_STAGE_DISCARD;
        return MHD_YES;
    }
    req->answer.close = true;
    req->conn->linger = true;
    df_answer_send_raw(req);
    return MHD_NO;
}

/* --- head, authorize -------------------------------------------------------------------------- */

static enum df_code find_route(struct df_req *req, struct df_err *err)
{
    struct df_http_server *s = req->conn->server;

    df_router_find(s->router, req->method, &req->target, &req->match);
    if (req->match.route)
        return DF_OK;
    if (req->match.allowed) {
        struct df_buf allow;
        df_buf_init(&allow, 128);
        df_router_write_allow(req->match.allowed, &allow);
        (void)df_req_add_header(req, "Allow", df_buf_str(&allow));
        df_buf_release(&allow);
        return df_err_set(err, DF_E_METHOD, "the path does not know the method %.*s",
                          (int)(req->method_name.len < 32 ? req->method_name.len : 32),
                          req->method_name.ptr);
    }
    if (req->method == DF_METHOD_OTHER)
        return df_err_set(err, DF_E_NOT_IMPLEMENTED, "the method is not implemented");
    return df_err_set(err, DF_E_NOT_FOUND, "there is nothing at this path");
}

static enum df_code check_head(struct df_req *req, const char *method, const char *version,
                               struct df_err *err)
{
    struct df_http_server *s = req->conn->server;

    enum df_code rc = df_head_check(req, method, version, err);
    if (rc == DF_OK)
        rc = df_target_parse(&req->arena, req->raw_path, req->raw_query, s->opt.version_prefix,
                             &req->target, err);
    if (rc != DF_OK)
        req->answer.close = true;
    return rc;
}

/* Checks the body against the route, as far as the header allows. */
static enum df_code check_body_head(struct df_req *req, struct df_err *err)
{
    const struct df_route *route = req->match.route;
    struct df_http_server *s = req->conn->server;

    if (!has_body(req))
        return DF_OK;
    if (route->body == DF_BODY_NONE) {
        req->max_body_bytes = 0;
        if (req->declared_length > 0)
            return df_err_set(err, DF_E_TOO_LARGE, "no body is expected here");
        return DF_OK;
    }
    req->max_body_bytes =
        route->max_body_bytes ? route->max_body_bytes : (size_t)s->opt.settings.max_body_bytes;
    if (req->declared_length > 0 && (uint64_t)req->declared_length > req->max_body_bytes)
        return df_err_set(err, DF_E_TOO_LARGE, "the body is larger than %zu bytes",
                          req->max_body_bytes);
    if (req->content_encoding.len > 0 && !df_str_ieq(req->content_encoding, DF_STR("identity")))
        return df_err_set(err, DF_E_MEDIA_TYPE, "no Content-Encoding is accepted");
    /* A chunked body may turn out to be empty; its type is checked at its first byte. */
    if (route->body == DF_BODY_JSON && req->declared_length > 0 &&
        !df_field_is_json(req->content_type))
        return df_err_set(err, DF_E_MEDIA_TYPE, "the body must be JSON: application/json in UTF-8");
    return DF_OK;
}

/* The owner is known now: reserves room for the body if its length is known. */
static enum df_code reserve_body(struct df_req *req, struct df_err *err)
{
    enum df_body kind = req->match.route->body;

    req->body.max = req->max_body_bytes;
    req->body.account = &req->account;
    if ((kind == DF_BODY_JSON || kind == DF_BODY_ANY) && req->declared_length > 0 &&
        !df_buf_grow(&req->body, (size_t)req->declared_length)) {
        req->answer.close = true; /* answered at once, without reading the rest of the body */
        return df_memory_error(req, "body", err);
    }
    return DF_OK;
}

static enum MHD_Result after_authorize(struct df_req *req)
{
    struct df_err err = DF_ERR_INIT;

    if (!req->answer.set && !req->answer.drop &&
        (check_body_head(req, &err) != DF_OK || reserve_body(req, &err) != DF_OK))
        refuse_request(req, &err);
    if (req->answer.set || req->answer.drop)
        return answer_after_head(req);
    req->stage = DF_STAGE_BODY;
    if (has_body(req)) {
        req->body_start = atomic_load_explicit(&req->conn->body_seen, memory_order_relaxed);
        df_conn_set_phase(req->conn, DF_PHASE_BODY);
    }
    return MHD_YES;
}

static enum MHD_Result call_authorize(struct df_req *req)
{
    struct df_http_server *s = req->conn->server;

    req->stage = DF_STAGE_AUTHORIZE;
    if (!s->opt.authorize)
        return after_authorize(req);
    if (!enter_application(req)) {
        df_req_fail(req, DF_E_DRAINING, "the server is shutting down");
        return after_authorize(req);
    }
    const struct df_log_ctx *before = df_log_ctx_use(&req->log);
    enum df_verdict verdict = s->opt.authorize(req, s->opt.arg);
    df_log_ctx_use(before);
    leave_application(req->conn);
    switch (verdict) {
    case DF_PASS:
        break;
    case DF_DEFERRED:
        if (park_if_asked(req))
            return MHD_YES;
        break;
    case DF_ANSWERED:
        if (!req->answer.set && !req->answer.drop)
            df_req_fail(req, DF_E_INTERNAL, "authorize gave no answer");
        break;
    }
    return after_authorize(req);
}

static enum MHD_Result on_head(struct df_req *req, const char *method, const char *version)
{
    struct df_http_server *s = req->conn->server;
    struct df_err err = DF_ERR_INIT;

    req->started_ns = df_mono_ns(s->opt.clock);
    req->method_name = df_str_c(method);
    req->method = df_method_of(req->method_name);
    df_conn_set_phase(req->conn, DF_PHASE_WORK);
    enum df_code rc = check_head(req, method, version, &err);
    if (rc == DF_OK)
        df_head_find_caller(req);
    df_account_open(&req->account, s->budget, df_str_c(req->caller_network));
    df_head_identify(req);
    if (rc == DF_OK && atomic_load_explicit(&s->shut, memory_order_relaxed))
        rc = shutting_down(&err);
    if (rc == DF_OK)
        rc = df_tls_check_caller(req, &err);
    if (rc == DF_OK)
        rc = find_route(req, &err);
    if (rc != DF_OK) {
        refuse_request(req, &err);
        return answer_after_head(req);
    }
    return call_authorize(req);
}

/* --- body, handle ----------------------------------------------------------------------------- */

static enum df_code stream_data(struct df_req *req, const char *data, size_t len,
                                struct df_err *err)
{
    if (!enter_application(req))
        return shutting_down(err);
    enum df_code rc = req->match.route->on_data(req, data, len, err);
    leave_application(req->conn);
    return rc;
}

static enum df_code take_data(struct df_req *req, const char *data, size_t len, uint64_t seen,
                              struct df_err *err)
{
    const struct df_route *route = req->match.route;

    if (atomic_load_explicit(&req->conn->server->shut, memory_order_relaxed))
        return shutting_down(err);
    if (seen > req->max_body_bytes)
        return df_err_set(err, DF_E_TOO_LARGE, "the body is larger than %zu bytes",
                          req->max_body_bytes);
    switch (route->body) {
    case DF_BODY_NONE:
        break;
    case DF_BODY_JSON:
        if (!df_field_is_json(req->content_type))
            return df_err_set(err, DF_E_MEDIA_TYPE,
                              "the body must be JSON: application/json in UTF-8");
        df_buf_add(&req->body, data, len);
        break;
    case DF_BODY_ANY:
        df_buf_add(&req->body, data, len);
        break;
    case DF_BODY_STREAM:
        return stream_data(req, data, len, err);
    }
    return df_buf_failed(&req->body) ? df_memory_error(req, "body", err) : DF_OK;
}

static enum MHD_Result on_data(struct df_req *req, const char *data, size_t *size)
{
    struct df_conn *c = req->conn;
    struct df_err err = DF_ERR_INIT;
    size_t len = *size;

    *size = 0;
    if (df_conn_phase(c) != DF_PHASE_BODY)
        df_conn_set_phase(c, DF_PHASE_BODY);
    uint64_t total = atomic_load_explicit(&c->body_seen, memory_order_relaxed) + len;
    atomic_store_explicit(&c->body_seen, total, memory_order_relaxed);
    uint64_t seen = total - req->body_start;
    if (req->answer.set || req->answer.drop) /* while it was suspended */
        return answer_amid_body(req, seen);

    const struct df_log_ctx *before = df_log_ctx_use(&req->log);
    enum df_code rc = take_data(req, data, len, seen, &err);
    df_log_ctx_use(before);
    if (rc != DF_OK)
        refuse_request(req, &err);
    else if (park_if_asked(req))
        return MHD_YES;
    return req->answer.set || req->answer.drop ? answer_amid_body(req, seen) : MHD_YES;
}

static enum MHD_Result after_handle(struct df_req *req)
{
    if (req->answer.drop)
        return MHD_NO;
    if (!req->answer.set)
        df_req_fail(req, DF_E_INTERNAL, "the handler gave no answer");
    return df_answer_queue(req);
}

static enum MHD_Result call_handler(struct df_req *req)
{
    if (req->answer.set || req->answer.drop) /* by on_data's worker, at the very end */
        return after_handle(req);
    req->stage = DF_STAGE_HANDLE;
    df_conn_set_phase(req->conn, DF_PHASE_WORK);
    if (!enter_application(req)) {
        df_req_fail(req, DF_E_DRAINING, "the server is shutting down");
        return after_handle(req);
    }
    const struct df_log_ctx *before = df_log_ctx_use(&req->log);
    req->match.route->handle(req);
    df_log_ctx_use(before);
    leave_application(req->conn);
    return park_if_asked(req) ? MHD_YES : after_handle(req);
}

enum MHD_Result df_request_on_access(void *server, struct MHD_Connection *mhd, const char *url,
                                     const char *method, const char *version, const char *data,
                                     size_t *size, void **context)
{
    struct df_req *req = *context;
    bool body_piece = *size > 0;
    (void)server;
    (void)mhd;
    (void)url;

    if (!req)
        return MHD_NO;
    /* libmicrohttpd offers pieces that are already in memory even while the request is suspended:
     * leave them. */
    if (body_piece && is_aside(req))
        return MHD_YES;
    take_back(req);
    switch (req->stage) {
    case DF_STAGE_HEAD:
        return on_head(req, method, version);
    case DF_STAGE_AUTHORIZE:
        return after_authorize(req);
    case DF_STAGE_BODY:
        return body_piece ? on_data(req, data, size) : call_handler(req);
    case DF_STAGE_DISCARD:
        if (!body_piece)
            return df_answer_queue(req);
        atomic_fetch_add_explicit(&req->conn->body_seen, *size, memory_order_relaxed);
        *size = 0;
        return MHD_YES;
    case DF_STAGE_HANDLE:
        return after_handle(req);
    case DF_STAGE_ANSWER:
        return df_answer_queue(req);
    case DF_STAGE_SENDING:
        break;
    }
    *size = 0;
    return MHD_YES;
}

/* --- the end ---------------------------------------------------------------------------------- */

static void write_access_log(struct df_req *req, unsigned status, int64_t ns, uint64_t bytes)
{
    enum df_log_level level = status >= 500 ? DF_LOG_WARN : DF_LOG_INFO;
    const struct df_route *route = req->match.route;

    if (!req->conn->server->opt.settings.access_log || !df_log_enabled(level))
        return;
    int64_t us = ns / 1000; /* microseconds are enough digits */
    struct df_log_field fields[] = {
        DF_F("method", df_str_c(df_method_name(req->method))),
        DF_F("route", df_str_c(route ? route->pattern : "none")),
        DF_FI("status", status),
        DF_FI("durationMs", (double)us / 1000),
        DF_FI("bytes", bytes),
    };
    const struct df_log_ctx *before = df_log_ctx_use(&req->log);
    df_log_write(level, "RequestServed", fields, sizeof(fields) / sizeof(fields[0]), "%s", "");
    df_log_ctx_use(before);
}

/* libmicrohttpd answers some errors by itself, before it calls us. */
static unsigned final_status(const struct df_req *req)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(req->conn->mhd, MHD_CONNECTION_INFO_HTTP_STATUS);

    if (req->answer.set)
        return req->answer.status;
    return info ? info->http_status : 0;
}

static void report_request(struct df_req *req)
{
    struct df_http_server *s = req->conn->server;
    const struct df_route *route = req->match.route;
    unsigned status = final_status(req);
    uint64_t bytes = req->answer.body_len;

    if (req->answer.sse)
        bytes = df_sse_detach(req->answer.sse);
    if (!req->answer.set && !req->answer.drop)
        df_http_metrics_rejected(s->metrics, status ? "Protocol" : "Incomplete");
    if (status == 0)
        return;
    int64_t ns = req->started_ns ? df_mono_ns(s->opt.clock) - req->started_ns : 0;
    if (s->metrics) {
        size_t index = route ? req->match.index : df_router_count(s->router);
        df_http_metrics_served(s->metrics, df_route_series_at(s->series, index),
                               route ? route->pattern : "none", req->method, status,
                               (double)ns / 1e9, &req->trace);
    }
    write_access_log(req, status, ns, bytes);
}

void df_request_on_completed(void *server, struct MHD_Connection *mhd, void **context,
                             enum MHD_RequestTerminationCode how)
{
    struct df_req *req = *context;
    (void)server;
    (void)mhd;
    (void)how;

    if (!req)
        return;
    *context = NULL;
    report_request(req);
    if (req->entered && req->match.route->on_end) {
        const struct df_log_ctx *before = df_log_ctx_use(&req->log);
        req->match.route->on_end(req);
        df_log_ctx_use(before);
    }
    if (req->answer.has_file)
        close(req->answer.file);
    req->answer.has_file = false;
    free(req->answer.owned);
    req->answer.owned = NULL;
    df_buf_release(&req->body);
    df_account_close(&req->account);
    df_arena_reset(&req->arena);
    df_conn_set_phase(req->conn, DF_PHASE_IDLE);
}

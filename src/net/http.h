/*
 * The HTTP server: libmicrohttpd with a few epoll threads, a router, and requests that can be set
 * aside while a store worker does their work.
 *
 * Life of a request: headers are checked (framing, sizes) → the route is found (404, 405) →
 * `authorize` → the body is read within the route's limit (413 while it arrives) → `handle` → an
 * answer. authorize and handle run on an HTTP thread and must not block: a handler that needs the
 * database calls df_req_suspend() and hands a job to the store; the job's `done` sets the answer
 * and calls df_req_resume(). A request belongs to exactly one thread at a time: the HTTP thread or,
 * between suspend and resume, the worker.
 *
 * Every answer carries X-Correlation-Id (taken from the request if valid, else generated) and the
 * request's traceparent. Errors are application/problem+json.
 *
 * Deadlines: the header must be complete within header_timeout, bodies and the reading of answers
 * must keep a minimum rate, and idle connections are closed. A thread of our own enforces this,
 * because libmicrohttpd's timeout does not notice a trickle. A suspended request is never timed
 * out; a peer that leaves meanwhile is noticed only after the resume, or by df_req_peer_gone.
 */
#ifndef DF_NET_HTTP_H
#define DF_NET_HTTP_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/lang.h"
#include "base/log.h"
#include "base/secret.h"
#include "base/trace.h"
#include "net/settings.h"

struct df_http_server;
struct df_req;

enum df_body {
    DF_BODY_NONE,   /* a body is refused with 413 if it has any bytes */
    DF_BODY_JSON,   /* collected; Content-Type must be application/json or +json, else 415 */
    DF_BODY_ANY,    /* collected, any type */
    DF_BODY_STREAM, /* handed to `on_data` as it arrives; nothing is kept */
};

/* A call that works but should not be used any more (docs/versioning.md): every answer says so by
 * Deprecation, Sunset and Link. Times are UTC, ISO 8601. */
struct df_deprecation {
    const char *since;
    const char *sunset; /* from when on the call may be gone, later than `since`; NULL: not set */
    const char *link;   /* a URL or path that says what to use instead */
};
#define DF_DEPRECATION_LINK_MAX 200

struct df_route {
    const char *method;  /* "GET" also serves HEAD */
    const char *pattern; /* "/admin/clients/{clientId}"; a last segment {name...} takes the rest */
    enum df_body body;
    unsigned access;       /* for `authorize`; the application defines its meaning */
    const char *scope;     /* likewise */
    size_t max_body_bytes; /* 0: the server's */
    bool takes_encoded;    /* the body may have a Content-Encoding; nothing is decoded */
    void (*handle)(struct df_req *req);
    /* STREAM only. An error is answered as a problem and closes the connection. Must not keep the
     * data. May call df_req_suspend after consuming the data; reading goes on after the resume. */
    enum df_code (*on_data)(struct df_req *req, const char *data, size_t len, struct df_err *err);
    /* Called after the answer went out or the peer left, on the request's HTTP thread, for requests
     * that authorize, on_data or handle have seen; may be NULL. */
    void (*on_end)(struct df_req *req);
    const void *handler;                     /* distinguishes routes that share one `handle` */
    const struct df_deprecation *deprecated; /* NULL: it is not */
};

/* The routes of one feature, and their argument. */
struct df_route_table {
    const struct df_route *routes; /* ended by method NULL */
    void *arg;                     /* df_req_route_arg */
};

enum df_verdict {
    DF_PASS,     /* go on */
    DF_ANSWERED, /* an answer was set */
    DF_DEFERRED, /* df_req_suspend was called; after the resume: go on, or answer if one was set */
};

struct df_http_options {
    struct df_http_settings settings;
    size_t header_bytes;        /* request line and headers together; 0: 16384 → 431 */
    int64_t body_min_rate;      /* bytes a second after the grace, of bodies and answers; 0: 512 */
    int64_t grace_ms;           /* 0: 10000 */
    int64_t heartbeat_ms;       /* of event streams; 0: 15000 */
    bool version_prefix;        /* every route also under /v1 */
    const char *metrics_prefix; /* "dataflow": families <prefix>_http_…; NULL: no metrics */
    const struct df_clock *clock;

    /* Ended by routes NULL; copied. The routes outlive the server. */
    const struct df_route_table *tables;
    unsigned absent; /* bits 1 << access of the routes to leave out */
    enum df_verdict (*authorize)(struct df_req *req, void *arg); /* may be NULL */
    void *arg;                                                   /* df_req_server_arg */
    /* A server that listens: this one shares its socket instead of `listen`, and the caller stops
     * the elder. Connections that neither has accepted wait, and are not refused. May be NULL. */
    const struct df_http_server *elder;
};

/* Checks the form of `listen`: DF_E_CONFIG and the reason. Needs no network. */
enum df_code df_http_check_address(const char *listen, struct df_err *err) DF_MUST_CHECK;
/* Whether only this machine can connect to `listen`. */
bool df_http_is_loopback(const char *listen);

enum df_code df_http_start(const struct df_http_options *opt, struct df_http_server **ret,
                           struct df_err *err) DF_MUST_CHECK;
/* "127.0.0.1:8080" as bound, for messages; borrowed. */
/* Registers the families of a prefix without a server, for the page that lists them. */
void df_http_metrics_define(const char *prefix);
const char *df_http_address(const struct df_http_server *s);
size_t df_http_active(const struct df_http_server *s); /* requests in progress */

/* Checks the files of tls_cert, tls_key and tls_client_ca. */
enum df_code df_tls_check_files(const struct df_http_settings *s, struct df_err *err) DF_MUST_CHECK;
/*
 * Reads the files of tls_cert, tls_key and tls_client_ca again if they have changed (or `now`), for
 * connections from now on; logs TlsReloaded or TlsReloadFailed. Call it every few seconds, by one
 * thread at a time.
 */
void df_http_look_at_files(struct df_http_server *s, bool now);

/* Stops accepting and tells keep-alive peers to close; requests in progress go on. */
void df_http_drain(struct df_http_server *s);
/* Waits up to timeout_ms for the requests in progress and, when draining, for their connections.
 * True when no request is left. */
bool df_http_wait_idle(struct df_http_server *s, int64_t timeout_ms);
/*
 * Ends the calls to the application: when this returns, authorize, on_data and handle do not run
 * and will not be called again. Requests in progress are answered 503 when their next piece
 * arrives; suspended ones get the answer that their worker sets. Whatever these callbacks use may
 * be stopped from here on, but not freed before df_http_stop has returned: on_end may use it.
 */
void df_http_shut(struct df_http_server *s);
/* Every suspended request must have been resumed before (the store is stopped first): one that was
 * not is answered 503 and logged, and resuming it later would be a use after free. When this
 * returns, on_end has been called for every request. */
void df_http_stop(struct df_http_server *s);

/* --- the request --- */

struct df_arena *df_req_arena(struct df_req *req);
struct df_str df_req_method(const struct df_req *req);
struct df_str df_req_path(const struct df_req *req); /* decoded, without a version prefix */
/* The same as it was sent, not decoded. */
struct df_str df_req_path_raw(const struct df_req *req);
/* Raw target after '?', undecoded; absent if none. */
struct df_str df_req_query_raw(const struct df_req *req);
/* Value of {name} in the pattern, percent-decoded. */
struct df_str df_req_param(const struct df_req *req, const char *name);
/* A query parameter, decoded; the name is matched without regard to case. Absent if missing, empty
 * for "?x" and "?x=". */
struct df_str df_req_query(const struct df_req *req, const char *name);
struct df_str df_req_header(const struct df_req *req, const char *name);
/* Calls `each` for every header line in order of arrival, with names as written and repeated names
 * included. The slices live as long as the request. */
void df_req_each_header(const struct df_req *req,
                        void (*each)(void *arg, struct df_str name, struct df_str value),
                        void *arg);
struct df_str df_req_body(const struct df_req *req);
/* Content-Length as declared, -1 when chunked. */
int64_t df_req_declared_length(const struct df_req *req);
/* The caller: the peer's address without its port, or the address that a trusted proxy gives
 * (caller.h). */
struct df_str df_req_peer(const struct df_req *req);
/* The key for limits by address: IPv4 as it is, IPv6 by its /64 ("2001:db8:0:1::/64"). */
struct df_str df_req_peer_network(const struct df_req *req);
/* The peer is on this machine and no header shows that it forwards another caller's request, as a
 * proxy would, trusted or not. */
bool df_req_peer_is_loopback(const struct df_req *req);
const struct df_route *df_req_route(const struct df_req *req);
void *df_req_route_arg(const struct df_req *req);  /* of the route's table */
void *df_req_server_arg(const struct df_req *req); /* options.arg */
struct df_str df_req_correlation_id(const struct df_req *req);
const struct df_trace *df_req_trace(const struct df_req *req); /* this request's own span */
struct df_str df_req_trace_id(const struct df_req *req);
/* Whether the caller records its trace, and the request does not yet; and have it do so. Only until
 * `authorize` is over: whoever works on the request copies its context. */
bool df_req_asks_trace(const struct df_req *req);
void df_req_heed_trace(struct df_req *req);
/* Fields set here appear in every line logged for this request, the access log included. */
struct df_log_ctx *df_req_log(struct df_req *req);
/* A slot for the result of authorize; it must point into the arena or to something that lives
 * longer. */
void df_req_set_user(struct df_req *req, void *user);
void *df_req_user(const struct df_req *req);
/* The same for an operator, who is no client. */
void df_req_set_operator(struct df_req *req, const void *who);
const void *df_req_operator(const struct df_req *req);
/* A slot for the route's handlers, from the first on_data to on_end, which frees it. */
void df_req_set_state(struct df_req *req, void *state);
void *df_req_state(const struct df_req *req);

/* --- memory --- */

/*
 * Bodies, the data made from them, and unread answers share one budget, of which an owner gets at
 * most a quarter (base/budget.h). Collected bodies and answers are charged automatically; a handler
 * that derives more than a few kilobytes from a body charges them beforehand. Everything is given
 * back when the request ends.
 */

/* Sets the owner, a client's id: once, by authorize. Until then the owner is the caller's
 * network. */
void df_req_set_owner(struct df_req *req, struct df_str owner);
/* False: there is no room, and the answer is set (503, or 413 if it can never fit). */
bool df_req_charge(struct df_req *req, size_t bytes);
/* A buffer for the answer that is charged as it grows; when that is refused, df_req_answer sends
 * the error. */
void df_req_buf(struct df_req *req, struct df_buf *ret, size_t max_bytes);
/* For code that fills a buffer of the request elsewhere. */
struct df_account *df_req_account(struct df_req *req);

/* --- the answer; the first one set wins --- */

/* The language that the caller reads, by Accept-Language (language.h). */
enum df_lang df_req_language(const struct df_req *req);
/* Content-Language and Vary, for an answer whose texts follow it. Problems have them. */
void df_req_add_language(struct df_req *req, enum df_lang lang);

/* Extra header; name and value are copied. Values with control characters are refused (false). */
bool df_req_add_header(struct df_req *req, const char *name, struct df_str value);
/* Takes the buffer's content. A buffer that exceeded its maximum is answered 500 instead; one that
 * was refused memory 503, or 413 if it can never fit. */
void df_req_answer(struct df_req *req, unsigned status, const char *content_type,
                   struct df_buf *take_body);
void df_req_answer_static(struct df_req *req, unsigned status, const char *content_type,
                          struct df_str body); /* body must outlive the server */
/* Takes the descriptor and sends the first `size` bytes of the file, which must not change any
 * more. Only from handle or later. */
void df_req_answer_file(struct df_req *req, unsigned status, const char *content_type, int take_fd,
                        uint64_t size);
void df_req_answer_empty(struct df_req *req, unsigned status);
bool df_req_answered(const struct df_req *req);

struct df_field_error {
    struct df_str field;
    struct df_str message;
};

/* problem+json from the error table's row; Retry-After is set for 429 and 503 unless already there.
 * Title, detail and messages are translated for whom reads Portuguese.
 * The detail of a 500 is logged as RequestFailed and not sent to the peer. */
void df_req_problem(struct df_req *req, const struct df_err *err);
/* The same with another code (PascalCase), given by the configuration. */
void df_req_problem_as(struct df_req *req, const struct df_err *err, const char *code);
void df_req_problem_fields(struct df_req *req, const struct df_err *err,
                           const struct df_field_error *fields, size_t count);
/* Sets err from the arguments and calls df_req_problem. */
void df_req_fail(struct df_req *req, enum df_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Closes the connection without an answer (for the sandbox's faults). */
void df_req_drop(struct df_req *req);

/* --- setting a request aside --- */

void df_req_suspend(struct df_req *req); /* on its HTTP thread, from authorize, on_data or handle */
void df_req_resume(struct df_req *req);  /* from any thread, once for each suspend */
/* Whether the peer has left or has finished sending: for the worker of a suspended request, to
 * decide whether to go on. */
bool df_req_peer_gone(const struct df_req *req);

/* --- server-sent events --- */

/*
 * Turns the request into an event stream. The stream lives until df_sse_close; `df_sse_send` may be
 * called from any thread and returns false once the peer has gone or lags more than 256 KiB behind,
 * or less when memory is short. After 15 seconds of silence a comment line is sent, which also
 * detects a peer that has left.
 */
struct df_sse;
struct df_sse *df_req_sse(struct df_req *req);
bool df_sse_send(struct df_sse *s, const char *event, struct df_str data);
/* Whether the peer is known to have gone, or a drain has ended the stream. */
bool df_sse_gone(struct df_sse *s);
void df_sse_close(struct df_sse *s);

#endif

/*
 * What the files of the HTTP server share; no other file includes this.
 *
 *   server.c   start, drain, stop            listen.c  the socket        tls.c  certificate and key
 *   keeper.c   one thread: accepts, enforces deadlines, lingers, sends heartbeats
 *   conn.c     the table of connections      request.c a request's way through its stages
 *   head.c     what is checked before a route is looked for
 *   req.c      the accessors                 answer.c  answers and problem documents
 *   caller.c   who calls, behind proxies
 *   sse.c      event streams                 http_metrics.c
 *
 * Threads. Each HTTP thread is a libmicrohttpd daemon of its own without a listen socket; the
 * keeper hands it connections. A connection and its request belong to that thread for good, except
 * between df_req_suspend and df_req_resume. The keeper reads only the atomic members of
 * connections, and touches their sockets only under the server's lock, which is taken before a
 * descriptor is closed.
 */
#ifndef DF_NET_HTTP_INT_H
#define DF_NET_HTTP_INT_H

#include "base/list.h"
#include "base/lock.h"
#include "base/map.h"
#include "base/pool.h"
#include "net/caller.h"
#include "net/http.h"
#include "net/router.h"
#include "net/target.h"
#include "net/watch.h"

#include <microhttpd.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>

/* --- the connection --------------------------------------------------------------------------- */

/* What a connection waits for. From DF_PHASE_HEAD on a request is in progress. */
enum df_phase {
    DF_PHASE_NEW,  /* the first request */
    DF_PHASE_IDLE, /* another request */
    DF_PHASE_HEAD, /* the rest of the header */
    DF_PHASE_BODY, /* the rest of the body */
    DF_PHASE_WORK, /* us */
    DF_PHASE_SEND, /* the peer to read the answer */
};

/* The stages of a request; request.c describes them. */
enum df_stage {
    DF_STAGE_HEAD,
    DF_STAGE_AUTHORIZE,
    DF_STAGE_BODY,
    DF_STAGE_DISCARD, /* answered; the rest of the body is read and dropped */
    DF_STAGE_HANDLE,
    DF_STAGE_ANSWER, /* answered; sent as soon as libmicrohttpd takes it */
    DF_STAGE_SENDING,
};

/* The progress of df_req_suspend; see request.c. */
enum df_park { DF_PARK_NONE, DF_PARK_ASKED, DF_PARK_PARKED, DF_PARK_RESUMED };

struct df_extra_header {
    const char *name;
    const char *value;
    struct df_link link;
};

struct df_answer {
    bool set;
    bool drop;         /* close without an answer */
    bool close;        /* close after the answer */
    bool is_static;    /* may be cached */
    bool retry_after;  /* the header was added */
    bool cache_header; /* likewise Cache-Control */
    unsigned status;
    const char *content_type;
    const char *body;
    size_t body_len;
    char *owned;   /* freed when the request ends */
    bool has_file; /* instead of body: file, until libmicrohttpd has taken it */
    int file;
    struct df_sse *sse;
};

struct df_req {
    struct df_conn *conn;
    struct df_arena arena;
    enum df_stage stage;
    _Atomic int park;
    bool entered; /* the application has seen the request: on_end is due */

    struct df_str raw_path; /* of the target as sent */
    struct df_str raw_query;
    size_t raw_len;
    struct df_str method_name;
    enum df_method method;
    bool http_1_0;
    struct df_target target;
    struct df_match match;

    int64_t declared_length; /* -1: chunked */
    bool expects_continue;
    struct df_str content_type;
    struct df_str content_encoding;
    struct df_str correlation_in;
    struct df_str traceparent_in;
    const char *caller;         /* the connection's peer, or in the arena */
    const char *caller_network; /* likewise */

    struct df_account account; /* open from the end of the header on */
    size_t max_body_bytes;
    uint64_t body_start; /* body_seen of the connection when the request began */
    struct df_buf body;

    char correlation[129];
    size_t correlation_len;
    struct df_trace trace; /* of this request's own span */
    struct df_log_ctx log;
    void *user;
    const void *operator_;
    void *state;
    int64_t started_ns;

    struct df_list headers; /* of struct df_extra_header */
    struct df_answer answer;
};

struct df_conn {
    struct df_link link; /* in the table; under the server's lock */
    struct df_http_server *server;
    struct MHD_Connection *mhd;
    int fd;

    _Atomic uint32_t phase;    /* enum df_phase, and in the higher bits a count of its changes */
    _Atomic uint32_t requests; /* begun so far */
    _Atomic uint64_t body_seen;
    _Atomic bool killed;
    _Atomic bool inside; /* the thread is in authorize, on_data or handle */

    /* The keeper's own: what it saw last. */
    uint32_t seen_phase;
    int64_t seen_ms;     /* when the phase was first seen */
    uint64_t seen_bytes; /* bytes that had moved by then */
    bool end_seen;       /* the peer has closed, at the last look */
    uint64_t end_bytes;  /* body bytes seen by then */
    uint32_t body_request;
    int64_t body_ms; /* how long we have waited for that request's body */

    bool linger;            /* the peer is still sending data that will not be read */
    bool counted;           /* counted against the limit of its address */
    bool trusted;           /* a trusted proxy: its requests name the caller */
    bool certified;         /* it has shown a certificate, which was verified */
    struct df_tls_set *tls; /* its credentials; NULL: plain */
    struct df_ip ip;
    char peer[DF_IP_TEXT];
    char network[DF_NETWORK_TEXT];

    struct df_req req;
};

#define DF_PHASE_BITS 3
#define DF_PHASE_MASK ((1U << DF_PHASE_BITS) - 1)

static inline enum df_phase df_conn_phase(const struct df_conn *c)
{
    return (enum df_phase)(atomic_load_explicit(&c->phase, memory_order_relaxed) & DF_PHASE_MASK);
}

/* On the connection's thread only. */
static inline void df_conn_set_phase(struct df_conn *c, enum df_phase phase)
{
    uint32_t v = atomic_load_explicit(&c->phase, memory_order_relaxed);
    v = ((v >> DF_PHASE_BITS) + 1) << DF_PHASE_BITS | (uint32_t)phase;
    atomic_store_explicit(&c->phase, v, memory_order_relaxed);
}

/* --- the server ------------------------------------------------------------------------------- */

#define DF_LINGER_MAX    64
#define DF_SSE_MAX_BYTES ((size_t)256 * 1024)
#define DF_DISCARD_MAX   65536 /* bytes of a refused body read to keep the connection */
/* Of a connection's memory, kept for header records and for our own header. */
#define DF_HEADER_RESERVE 8192

struct df_linger {
    int fd;
    int64_t until_ms;
};

struct df_http_metrics;
struct df_route_series;

struct df_http_server {
    struct df_http_options opt; /* with the defaults filled in */
    struct df_router *router;
    struct df_proxies proxies;
    struct df_budget *budget;
    struct df_http_metrics *metrics; /* NULL: none */
    struct df_route_series *series;  /* one for each route, and one for requests without a route */
    struct MHD_Daemon **daemons;
    size_t daemon_count;
    char address[80];

    struct df_thread keeper;
    int wake_fd;
    int listen_fd;      /* the keeper's once it runs */
    size_t next_daemon; /* likewise */
    int64_t accept_from_ms;
    int64_t scan_ms;
    _Atomic bool draining;
    _Atomic bool shut;       /* the application is not called any more, except on_end */
    _Atomic bool stopping;   /* the keeper ends */
    _Atomic int64_t refused; /* requests refused for want of memory since the last log line */
    _Atomic int64_t refusal_told_ms;
    _Atomic size_t open; /* connections handed over and not yet closed */

    struct df_watch tls_watch; /* of the thread that looks at the files */

    struct df_mutex lock;
    pthread_cond_t changed;
    struct df_tls_set *tls DF_GUARDED_BY(lock); /* tls.c; NULL: plain */
    bool listening DF_GUARDED_BY(lock);
    struct df_list conns DF_GUARDED_BY(lock);
    struct df_map peers DF_GUARDED_BY(lock); /* struct df_peer_count of conn.c */
    struct df_list streams DF_GUARDED_BY(lock);
    struct df_linger lingering[DF_LINGER_MAX] DF_GUARDED_BY(lock);
    size_t linger_count DF_GUARDED_BY(lock);
};

/* --- between the files ------------------------------------------------------------------------ */

/* listen.c: "host:port" → a listening, non-blocking socket, and its address as text. */
enum df_code df_listen_open(const char *address, int *ret_fd, char *ret_text, size_t text_size,
                            struct df_err *err) DF_MUST_CHECK;

/* tls.c */
enum df_code df_tls_open(struct df_http_server *s, struct df_err *err) DF_MUST_CHECK;
void df_tls_close(struct df_http_server *s);
/* Around each connection, on its thread: before the handshake, and when its session is gone. */
void df_tls_begin(struct df_conn *c);
void df_tls_end(struct df_conn *c);
/* DF_E_CERTIFICATE_WANTED when the caller has none and needs one. */
enum df_code df_tls_check_caller(struct df_req *req, struct df_err *err) DF_MUST_CHECK;
/* When the certificate in use expires, in seconds since 1970; 0: there is none. */
int64_t df_tls_expires_s(struct df_http_server *s);
/* Sends on a connection whose thread is the caller's. False when not all of it went out. */
bool df_conn_send(struct df_conn *c, struct df_str data);

/* conn.c */
void df_conn_notify(void *server, struct MHD_Connection *mhd, void **socket_context,
                    enum MHD_ConnectionNotificationCode code);
size_t df_conn_active(struct df_http_server *s);
/* Whether a thread is in a callback of the application, on_end apart. */
bool df_conn_any_inside(struct df_http_server *s);
/* Answers 503 to the requests that are still parked; returns how many there were. */
size_t df_conn_give_up_parked(struct df_http_server *s);
void df_conn_release_table(struct df_http_server *s);

/* keeper.c */
enum df_code df_keeper_start(struct df_http_server *s, struct df_err *err) DF_MUST_CHECK;
void df_keeper_wake(struct df_http_server *s);
void df_keeper_stop(struct df_http_server *s);

/* request.c: libmicrohttpd's callbacks. */
void *df_request_on_line(void *server, const char *uri, struct MHD_Connection *mhd);
enum MHD_Result df_request_on_access(void *server, struct MHD_Connection *mhd, const char *url,
                                     const char *method, const char *version, const char *data,
                                     size_t *size, void **context);
void df_request_on_completed(void *server, struct MHD_Connection *mhd, void **context,
                             enum MHD_RequestTerminationCode how);

/* head.c: checks that need only the header. An error closes the connection. */
enum df_code df_head_check(struct df_req *req, const char *method, const char *version,
                           struct df_err *err) DF_MUST_CHECK;
void df_head_identify(struct df_req *req);
/* After the check: finds the caller when the peer is a trusted proxy. */
void df_head_find_caller(struct df_req *req);

/* answer.c */
/* The error for memory that the account refused; counts it and logs it now and then. `what` is the
 * body or the answer. */
enum df_code df_memory_error(struct df_req *req, const char *what, struct df_err *err);
enum MHD_Result df_answer_queue(struct df_req *req);
/* Writes the answer to the socket directly, where libmicrohttpd takes none any more. */
void df_answer_send_raw(struct df_req *req);

/* sse.c */
struct MHD_Response *df_sse_response(struct df_sse *s);
/* The request has ended; the application holds the stream until df_sse_close. */
uint64_t df_sse_detach(struct df_sse *s);
/* On the keeper's thread or in stop. */
void df_sse_heartbeats(struct df_http_server *s, int64_t now_ms);
void df_sse_end_all(struct df_http_server *s);

/* http_metrics.c */
struct df_http_metrics *df_http_metrics_for(const char *prefix);
struct df_route_series *df_route_series_new(size_t count);
struct df_route_series *df_route_series_at(struct df_route_series *all, size_t index);
void df_http_metrics_gauges(struct df_http_metrics *m, size_t connections, size_t in_flight,
                            size_t bytes_in_flight);
/* Time left of the server's certificate. */
void df_http_metrics_expiry(struct df_http_metrics *m, int64_t seconds);
void df_http_metrics_served(struct df_http_metrics *m, struct df_route_series *series,
                            const char *route, enum df_method method, unsigned status,
                            double seconds, const struct df_trace *trace);
void df_http_metrics_rejected(struct df_http_metrics *m, const char *reason);

#endif

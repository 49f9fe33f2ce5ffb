/*
 * The HTTP client: connections that libcurl dials, kept alive and shared. Calls are handed
 * over from any thread; thousands may wait. The client's threads divide the destinations among
 * them: all calls to one destination are made, and end, on the same thread.
 *
 * Limits by owner and by destination (scheme, host, port) keep a slow peer, or an owner with many
 * slow peers, from taking every slot: calls over the limit wait in a line of their own while their
 * deadline runs. lines.h defines the shares.
 *
 * Addresses: unless a call allows private targets, loopback, private, link-local, multicast,
 * unspecified, carrier-grade NAT, documentation, IPv4-mapped and NAT64 forms of these are refused
 * at connect time, on the address actually dialled, so that a name cannot pass the check with one
 * address and be dialled at another. A kept-alive connection is checked again before it is used.
 *
 * Redirects are never followed. Only http and https are allowed, TLS 1.2 or later, with verified
 * certificates; security.h says whom it trusts. Proxies and credentials of the environment
 * (http_proxy, .netrc) are not used. With a proxy that is configured, a name is still looked up and
 * checked here unless the call allows private targets, and the proxy is told the address.
 *
 * A connection that was kept alive may turn out to be closed only when the request has been
 * written. The request is then repeated on a new connection, but only if it is one of the
 * requests that are safe to repeat (GET, HEAD, PUT, DELETE, OPTIONS, or an Idempotency-Key). Other
 * requests fail with DF_E_NET.
 *
 * HTTP/1.1 alone: with connections kept alive it was measured faster than HTTP/2, which in libcurl
 * 7.88 also repeats requests when a peer ends a connection with streams in flight.
 */
#ifndef DF_NET_CLIENT_H
#define DF_NET_CLIENT_H

#include "base/budget.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/list.h"
#include "base/str.h"

#include <stdatomic.h>

struct df_http_client;

struct df_http_client_options {
    int64_t threads;              /* 0: 1; at most 8 */
    int64_t max_in_flight;        /* of all threads together; 0: 256 */
    int64_t max_per_destination;  /* for tenants, and again for operators; 0: 64 */
    int64_t connect_timeout_ms;   /* 0: 5000 */
    const char *user_agent;       /* NULL: "DataFlow" */
    const struct df_clock *clock; /* for dates in Retry-After; NULL: the real one */
};

struct df_call_header {
    struct df_str name;
    struct df_str value;
};

#define DF_ANSWER_HEADERS 100

/* Why there was no answer. */
enum df_fault {
    DF_FAULT_NONE, /* there was one */
    DF_FAULT_HOST, /* name, connection, TLS: nothing was sent */
    DF_FAULT_PEER, /* the peer was silent, or cut the connection */
    DF_FAULT_OURS, /* not allowed or not possible here: memory, descriptors, a call that is wrong,
                      that waited for its turn too long, or was cancelled */
};

/*
 * A call. The caller fills the first part (zero the rest); everything it points to must stay valid
 * until `done`. The client fills the second part before it calls `done`, on a thread of its own,
 * exactly once; `done` must not block. It may free the call, send it again, or send another.
 *
 * Headers: names are tokens, values have no control characters. Framing belongs to the client:
 * Content-Length, Transfer-Encoding, Connection, Expect and the like are refused. A call that
 * cannot be sent as asked ends with DF_E_BAD_REQUEST.
 */
struct df_call {
    const char *method;
    const char *url;
    const struct df_call_header *headers;
    size_t header_count;
    struct df_str body;
    int64_t timeout_ms;      /* whole call, queueing included; 0: 30000 */
    size_t max_answer_bytes; /* body bytes kept; 0: 64 KiB. The next MiB is read and dropped to keep
                                the connection; the rest is not read */
    struct df_str
        owner; /* whose share of the slots it takes; absent: no share, no limit of an owner */
    struct df_account *account; /* charged for the answer's memory, also after `done`; without room
                                   the answer is cut. NULL: not charged */
    bool of_tenant;             /* the owner is a tenant, not an operator */
    bool allow_private;
    bool keep_headers;      /* answer_headers is wanted */
    const atomic_bool *cut; /* the caller gives the call up; see df_http_client_cut. NULL: never */
    void (*done)(struct df_call *call);
    void *arg;

    /* The answer. DF_OK: an HTTP answer arrived, with any status. */
    enum df_code code;
    enum df_fault fault;
    struct df_err err;
    unsigned status;
    struct df_buf answer;       /* borrowed: `done` copies what it keeps */
    bool answer_cut;            /* it exceeded max_answer_bytes or the account */
    struct df_str content_type; /* of the answer; absent if none; borrowed */
    /* With keep_headers: the first DF_ANSWER_HEADERS fields in order of arrival, repeated names
     * included; borrowed. */
    const struct df_call_header *answer_headers;
    size_t answer_header_count;
    int64_t retry_after_ms; /* from Retry-After (seconds or date), at most a day, -1 if none */
    int64_t duration_ms;    /* since df_http_client_send */
    bool maybe_sent;        /* false: the peer has certainly not seen the request */

    /* Private to the client. */
    struct df_link link;
    int64_t sent_ns;
    int64_t deadline_ns;
    size_t heap_index;
    void *internal;
    bool was_sent; /* on a connection that was closed; it is made anew */
};

enum df_code df_http_client_new(const struct df_http_client_options *opt,
                                struct df_http_client **ret, struct df_err *err) DF_MUST_CHECK;
/*
 * Ending takes two steps. NULL is fine in both, and neither may be called from `done`.
 *
 * stop: all calls, waiting or in flight, end with DF_E_CANCELLED through `done`; returns when the
 * last one has. Calls may still be sent afterwards; the client's threads cancel them the same way.
 * So senders need not know whether the server is stopping.
 *
 * free: stops, and ends the threads. No other thread may send any more; a call that a `done` sends
 * meanwhile is cancelled too.
 */
void df_http_client_stop(struct df_http_client *c);
void df_http_client_free(struct df_http_client *c);

/* Never fails: refusals arrive through `done`, on a thread of the client. */
void df_http_client_send(struct df_http_client *c, struct df_call *call);

/* Ends the calls whose `cut` is set with DF_E_CANCELLED, soon, on their threads; those that are
 * sent with it set end the same way. */
void df_http_client_cut(struct df_http_client *c);

/* Whether an address may be dialled without allow_private. Also used for checks at registration. */
struct sockaddr;
bool df_address_is_public(const struct sockaddr *sa);

#endif

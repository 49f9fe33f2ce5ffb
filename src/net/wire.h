/*
 * One connection of the HTTP client. libcurl dials it: names, several addresses, TLS and its
 * verification. From then on requests are written and answers read here, one after the other
 * (h1.h), which takes a third of the time that libcurl takes for them.
 *
 *     free ──► dialling ──► exchanging ◄──► idle ──► free
 *
 * The socket belongs to the wire from the moment the connection stands until the wire hangs up.
 * libcurl keeps what it needs to encrypt: the easy handle stays in the CURLM as long. If libcurl
 * lets go of a connection, a plain one goes on, and an encrypted one fails with its next byte.
 * Belongs to one of the client's threads.
 */
#ifndef DF_NET_WIRE_H
#define DF_NET_WIRE_H

#include "net/client.h"
#include "net/h1.h"
#include "net/sockets.h"
#include "net/url.h"

#include <arpa/inet.h>

/* Borrowed by every wire for as long as it lives. */
struct df_wire_options {
    long connect_timeout_ms;
    const char *user_agent;
    const struct df_clock *clock;
    struct df_sockets *sockets;
    CURLSH *share; /* of TLS sessions */
    void *arg;     /* the owner of the wires */
};

enum df_wire_state { DF_WIRE_FREE, DF_WIRE_DIALLING, DF_WIRE_EXCHANGING, DF_WIRE_IDLE };

struct df_wire {
    const struct df_wire_options *opt;
    CURL *easy;
    enum df_wire_state state;
    struct df_link link; /* among the idle ones of its bucket */
    struct df_link age;  /* among all idle ones */
    size_t destination;  /* df_lines_destination_number */
    int fd;
    bool is_tls;
    bool is_public;   /* the peer's address */
    bool is_used;     /* it has carried an answer */
    bool peer_closed; /* the peer sends nothing more */
    int64_t idle_since_ns;

    /* The call in hand. */
    struct df_call *call; /* NULL: none */
    int64_t deadline_ns;
    struct df_buf head;  /* of the request */
    struct df_str sends; /* its body; empty for HEAD, whatever the call has */
    size_t sent;         /* of head and body */
    bool is_repeatable;
    struct df_h1 answer;
    struct df_buf body;
    size_t body_max;
    size_t dropped;                /* bytes of the body beyond that */
    struct df_call_header *fields; /* DF_ANSWER_HEADERS of them, allocated when first needed */

    CURLcode result; /* of reading, if libcurl does it */
    char message[CURL_ERROR_SIZE];
    char refused[INET6_ADDRSTRLEN]; /* an address that the filter refused */
    bool dialled;                   /* another address was dialled */
    int64_t dialled_ms;             /* monotonic, when it began */
    bool through_proxy;
    bool asks_proxy;              /* which passes requests on, as they are not encrypted */
    bool looks_up;                /* through_proxy, first step: no connection is made */
    struct curl_slist connect_to; /* second step: "::ADDRESS:", the one that was found */
    char connect_line[INET6_ADDRSTRLEN + 8];
};

/* NULL when libcurl gives no handle. */
struct df_wire *df_wire_new(const struct df_wire_options *opt);
void df_wire_free(struct df_wire *w);
/* The wire of a handle. */
struct df_wire *df_wire_of(CURL *easy);

/* Dials for a call that passed the check; its request is written when the connection stands. */
enum df_code df_wire_dial(struct df_wire *w, struct df_call *call, int64_t timeout_ms,
                          struct df_err *err) DF_MUST_CHECK;
/*
 * A call of a tenant that goes through the proxy is dialled in two steps: libcurl first looks up
 * the name, so that its addresses are checked here, and then has the proxy connect to the address
 * that was found. Called when libcurl is done: true if it is at the second step now.
 */
bool df_wire_dials_on(struct df_wire *w);
/* libcurl has an outcome. CURLE_OK: the call's request can be written. */
CURLcode df_wire_connected(struct df_wire *w, CURLcode result);

enum df_wire_step {
    DF_WIRE_WAITS,    /* for the peer */
    DF_WIRE_ANSWERED, /* whole, or as much as is wanted */
    DF_WIRE_STALE,    /* the connection was kept and is gone: the call may be made anew */
    DF_WIRE_BROKEN,   /* why: w->message */
};

/* Begins the exchange on a connection that stands. */
enum df_wire_step df_wire_begin(struct df_wire *w, struct df_call *call);
/* The socket is ready, or the peer has closed. */
enum df_wire_step df_wire_go_on(struct df_wire *w, bool peer_closed);
/* Whether the peer has closed an idle connection, or said something unasked. */
bool df_wire_has_unasked(struct df_wire *w);
/* The same before it is used again: unasked bytes would be read as the next call's answer. An
 * encrypted one that was used a moment ago is not looked at. */
bool df_wire_is_stale(struct df_wire *w);

/* How a call ended for which there is no answer. */
struct df_wire_failure {
    CURLcode result; /* of dialling; CURLE_OK: it was not that */
    bool timed_out;
    bool unsafe; /* the connection was stale, and the request is not safe to repeat */
};

/* Fill the call's answer. The wire owns the memory until the next call. */
void df_wire_fill(struct df_wire *w);
void df_wire_fail(struct df_wire *w, const struct df_wire_failure *f, const char *destination);

/* Whether the connection can serve another call once this one is handed back. */
bool df_wire_keeps(const struct df_wire *w);
/* It does, and the call was handed back. */
void df_wire_rest(struct df_wire *w);
/* Closes the connection. */
void df_wire_hang_up(struct df_wire *w);

#endif

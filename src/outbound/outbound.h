/*
 * One guarded call to a peer, used by every part that makes one. It asks the circuit breaker,
 * writes the headers that every call carries, sends, judges the answer in one function, and tells
 * the breaker.
 *
 *     if (!df_outbound_ask(o, &out))
 *         ... not now: worth asking again in out.retry_ms
 *     df_outbound_send(o, &out);
 *     ... out.done(&out), on a thread of the client: out.verdict says what it came to
 *
 * Calls to different destinations may end at the same time, on different threads of the client.
 *
 * After a permit was given, the call is sent or forgone, exactly once.
 *
 * Callers need not know whether the server is stopping: a stopped client still takes calls and
 * cancels them (DF_OUT_STOPPED).
 */
#ifndef DF_OUTBOUND_OUTBOUND_H
#define DF_OUTBOUND_OUTBOUND_H

#include "base/arena.h"
#include "base/span.h"
#include "net/client.h"
#include "resilience/breaker.h"

/* The client and the breakers: one for the process, shared by all callers. */
struct df_outbound {
    struct df_http_client *client;
    struct df_breakers *breakers;
    const struct df_clock *clock; /* of spans */
};

enum df_code df_outbound_open(struct df_outbound *o, const struct df_http_client_options *client,
                              const struct df_breaker_settings *breaker,
                              const struct df_clock *clock, struct df_err *err) DF_MUST_CHECK;
/* The end, in two steps like the client's: stop cuts off the calls on their way; close is for when
 * no caller is left. Both take one that was never opened. */
void df_outbound_stop(struct df_outbound *o);
void df_outbound_close(struct df_outbound *o);

/* --- headers ---------------------------------------------------------------------------------- */

/* A list that grows in an arena. Names and values are not copied. */
struct df_headers {
    struct df_arena *arena;
    struct df_call_header *at;
    size_t count;
    size_t cap;
};

void df_headers_add(struct df_headers *h, struct df_str name, struct df_str value);
/* Appends n headers for the caller to fill. */
struct df_call_header *df_headers_more(struct df_headers *h, size_t n);

/* --- the verdict ------------------------------------------------------------------------------ */

enum df_out_verdict {
    DF_OUT_OK,      /* the peer took it */
    DF_OUT_AGAIN,   /* the same call may succeed later */
    DF_OUT_REFUSED, /* it will not: the peer refused it, or it cannot be sent */
    DF_OUT_STOPPED, /* cut off because the server stops: the outcome is unknown */
};

struct df_out_judgement {
    enum df_out_verdict verdict;
    enum df_breaker_outcome breaker;
};

/*
 * What an answer means:
 *
 *   2xx                                    OK       success
 *   401, 403, 404, 405, 407, 408, 421,
 *   425, 429, 5xx, and no valid status     AGAIN    failure: the target refuses everybody
 *   any other                              REFUSED  success: the peer is well
 */
struct df_out_judgement df_outbound_judge_status(unsigned status);

/*
 * A `classify` for peers that answer to a client of ours, or are one: their 401 or 404 is about
 * this call alone. 408, 425, 429 and 5xx are AGAIN, failure; the rest as above.
 */
struct df_out_judgement df_outbound_judge_passed_on(unsigned status);

/*
 * What a call says about its host, which other targets share: an answer of any kind is a success;
 * name, connection and TLS are failures. The rest (silence after connecting, a cut connection, our
 * own fault) says nothing.
 */
enum df_breaker_outcome df_outbound_judge_host(enum df_fault fault);

/*
 * The verdict on a call. An answer is judged by `classify`, or as above (NULL). Without an answer:
 *
 *   cancelled                      STOPPED  ignored
 *   no answer: name, connection,
 *   TLS, time                      AGAIN    failure
 *   our own fault: what cannot be
 *   sent, an address not allowed   REFUSED  ignored
 *
 * hides_targets: an address that is not allowed is judged as one where nobody answers, so that the
 * tenant who chose it learns nothing.
 */
struct df_out_judgement df_outbound_judge(enum df_code code, unsigned status,
                                          struct df_out_judgement (*classify)(unsigned status),
                                          bool hides_targets);

/* --- the call --------------------------------------------------------------------------------- */

/* The caller fills the first part and zeroes the rest; what it points to stays valid until `done`,
 * which may free the call or make it again. */
struct df_out {
    struct df_call call;       /* its first part as client.h says, without headers, done and arg */
    struct df_headers headers; /* the caller's own */
    struct df_str correlation_id;  /* X-Correlation-Id: a header's value; absent: none */
    struct df_str idempotency_key; /* absent: none, or it is among `headers` */
    /* The context that the call is part of. Each sending has a span of its own below it, which
     * traceparent names; it is recorded if the context is. */
    struct df_trace trace;
    bool begins_trace;      /* nothing is above it: `trace` is the span's own context */
    struct df_str trace_id; /* x-trace-id; absent: that of `trace` */
    /* For the span; each may be absent. */
    const char *channel; /* what is sent: a constant, or as lasting as the settings */
    struct df_str item;  /* its id */
    struct df_str client_id;
    struct df_str link;    /* traceparent of another trace that it belongs to as well */
    int64_t resend_count;  /* attempts before this one */
    bool passes_trace;     /* if it is not recorded, traceparent is `trace` itself */
    struct df_str breaker; /* its key; absent: the URL's destination */
    bool unguarded;        /* the caller has permits of its own and tells its breaker itself */
    /* The breaker of the URL's destination is asked too, and told of what concerns the whole host.
     * Not for addresses that tenants choose: one of them could shut a host for others. */
    bool guards_host;
    bool hides_targets;
    struct df_out_judgement (*classify)(unsigned status); /* NULL: df_outbound_judge_status */
    void (*done)(struct df_out *out);
    void *arg;

    /* The outcome; the answer itself stands in `call`. */
    enum df_out_verdict verdict;
    enum df_breaker_outcome outcome; /* what the breaker is told */
    int64_t retry_ms;                /* AGAIN, or not permitted: when to try again; 0: no hint */

    /* Private. */
    struct df_outbound *outbound;
    struct df_breaker *held; /* with the permit, from ask until it is given back */
    struct df_breaker_permit permit;
    struct df_breaker *held_host; /* the same of the host; NULL: not asked */
    struct df_breaker_permit host_permit;
    struct df_trace sent; /* traceparent of the sending under way */
    struct df_span *span; /* its span, in the headers' arena; NULL: not recorded */
};

/* What the breakers of a target and its host would say to a call now. */
struct df_out_gate {
    bool closed;     /* both let everything pass */
    int64_t permits; /* calls that may begin now */
    int64_t wait_ms; /* until there may be permits; 0: not known */
};

/* Looks without asking. `host` may be absent; a key without a breaker is as good as closed. */
struct df_out_gate df_outbound_look(struct df_outbound *o, struct df_str target,
                                    struct df_str host);

/* Asks the breaker. False: not now; there is no permit to give back. */
bool df_outbound_ask(struct df_outbound *o, struct df_out *out);
/* Gives the permit back without a call. */
void df_outbound_forgo(struct df_out *out);
/* Sends a call that has a permit or is unguarded. Never fails: `done` tells every outcome. */
void df_outbound_send(struct df_outbound *o, struct df_out *out);

#endif

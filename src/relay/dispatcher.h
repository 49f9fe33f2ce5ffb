/*
 * Where a relay's events go. An implementation takes a batch of events, sends them side by side and
 * returns when it knows the outcome of each. It does not touch the database, retry or look at
 * breakers: the relay does that for all implementations.
 *
 * The rule that everything rests on: an event is DF_DISPATCHED only if the destination has
 * confirmed it (an HTTP 2xx, a publisher confirm, a delivery report). In doubt it is RETRY.
 *
 * A sink belongs to one worker thread and is used by it alone; a relay with four workers has four.
 * Opening a sink makes no connection: a broker that is down at start is a failed dispatch, not a
 * reason not to start.
 */
#ifndef DF_RELAY_DISPATCHER_H
#define DF_RELAY_DISPATCHER_H

#include "base/secret.h"
#include "outbound/outbound.h"

#include <stdatomic.h>

enum df_dispatch_outcome {
    DF_DISPATCH_NONE,      /* not handed to the sink yet, or not any more */
    DF_DISPATCHED,         /* it arrived */
    DF_DISPATCH_RETRY,     /* it did not arrive, or that is not known: again later */
    DF_DISPATCH_PERMANENT, /* the event itself was refused and will be again */
};

struct df_event {
    /* From the row; absent where the table has no such column or it is NULL. Valid UTF-8. */
    struct df_str id; /* as text, whatever the column's type; never absent */
    struct df_str type;
    struct df_str payload;
    struct df_str aggregate_type;
    struct df_str aggregate_id;
    struct df_str correlation_id;
    struct df_str trace_id;
    struct df_str span_id;
    struct df_str trace_flags;
    struct df_span *span; /* of this dispatch; NULL: not recorded */
    int64_t created_ms;   /* -1: unknown */
    int64_t attempt;      /* the one being made, from 1 */

    /* The sink's answer. */
    enum df_dispatch_outcome outcome;
    enum df_breaker_outcome breaker; /* what the outcome says about the destination */
    bool never_counts; /* RETRY: it says nothing about the event. The destination is away or busy */
    int64_t retry_after_ms; /* as the destination asked; -1: it did not */
    int64_t duration_ms;
    struct df_str error; /* for a person; in the arena; absent after success */
};

struct df_sink;

struct df_sink_options {
    const char *relay;  /* the relay's name */
    const char *source; /* ce-source: "/dataflow/relay/NAME" unless configured */
    const char *target;
    const struct df_secret *secret; /* http: sign with it; NULL: no signature */
    int mode;                       /* http: enum df_http_mode */
    int64_t timeout_ms;             /* for one event, from hand-over to confirmation */
    const char *exchange;           /* rabbitmq; "": the default exchange */
    const char *routing_key;      /* rabbitmq; {eventType}, {aggregateType}, {aggregateId} inside */
    const char *topic;            /* kafka; the same inside */
    const char *properties;       /* kafka: "name=value;name=value" of librdkafka */
    struct df_outbound *outbound; /* http; shared, outlives the sinks */
    const struct df_clock *clock;
    /* Set when the server stops and waits no longer: a dispatch to a broker then returns within a
     * second, one over HTTP when the client is stopped. NULL: never. */
    const _Atomic bool *given_up;
};

static inline bool df_sink_given_up(const struct df_sink_options *opt)
{
    return opt->given_up && atomic_load(opt->given_up);
}

enum df_http_mode { DF_HTTP_BINARY, DF_HTTP_STRUCTURED, DF_HTTP_BATCH };

struct df_dispatcher {
    const char *name; /* "http": as configured */
    /* Checks the options without a connection; DF_E_CONFIG says what is wrong. */
    enum df_code (*check)(const struct df_sink_options *opt, struct df_err *err);
    /* The options live as long as the sink. */
    enum df_code (*open)(const struct df_sink_options *opt, struct df_sink **ret,
                         struct df_err *err);
    /*
     * Sends n events and fills their answers. Returns soon after timeout_ms at the latest; an event
     * without an answer by then is RETRY. Error texts go into `a`, which lives until the events are
     * settled.
     */
    void (*dispatch)(struct df_sink *s, struct df_event *const *events, size_t n,
                     struct df_arena *a);
    /*
     * Called every second or so while the worker has nothing to send, for the heartbeats that
     * brokers want. NULL: not needed.
     */
    void (*idle)(struct df_sink *s);
    void (*close)(struct df_sink *s); /* NULL is fine */
    /* The most connections, and so workers, that make sense; 0: any number. */
    size_t max_sinks;
};

extern const struct df_dispatcher df_dispatch_log;
extern const struct df_dispatcher df_dispatch_http;
extern const struct df_dispatcher df_dispatch_rabbitmq;
extern const struct df_dispatcher df_dispatch_kafka;

/* In the order of the configuration's choices: log, http, rabbitmq, kafka. */
extern const struct df_dispatcher *const df_dispatchers[];
extern const char *const df_dispatcher_names[]; /* NULL after the last */

/* --- helpers that several of them use (dispatcher.c) --- */

/* Sets the answer of a destination that asks for no pause; a RETRY is its failure, and may be the
 * event's. */
void df_event_settle(struct df_event *e, enum df_dispatch_outcome outcome, int64_t duration_ms,
                     struct df_str error);

/* Replaces {eventType}, {aggregateType} and {aggregateId} by the event's values; absent ones by
 * nothing. */
struct df_str df_event_expand(struct df_arena *a, const char *pattern, const struct df_event *e);
/* Whether a pattern has only these names; DF_E_CONFIG. */
enum df_code df_event_check_pattern(const char *pattern, const char *key,
                                    struct df_err *err) DF_MUST_CHECK;

/* The CloudEvents attributes of an event, the same for every transport. */
struct df_event_attribute {
    const char *name; /* "id", "source", "specversion", "type", "time", "subject",
                         "datacontenttype", "aggregatetype", "correlationid", "traceparent" */
    struct df_str value;
};
#define DF_EVENT_ATTRIBUTES 12
/* Writes the attributes that the event has and returns their number. Memory: the arena. */
size_t df_event_attributes(const struct df_event *e, const char *source, struct df_arena *a,
                           struct df_event_attribute ret[DF_EVENT_ATTRIBUTES]);
/* The context for whoever gets the event: this dispatch's span or, if it is not recorded, the span
 * that wrote the event. False: the row names no valid one. */
bool df_event_trace(const struct df_event *e, struct df_trace *ret);
/* Whether the payload is a JSON document, so that it may stand unquoted in another. */
bool df_event_is_json(const struct df_event *e);

#endif

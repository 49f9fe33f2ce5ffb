/*
 * Spans: what a trace says of one piece of work, as OpenTelemetry defines it. A span is a plain
 * value, on the stack or in the struct of a request or a row; it is recorded when it ends, if its
 * trace is sampled and somebody takes spans (df_spans_start). If not, beginning and ending cost a
 * branch, and the span's context is its parent's, so that a peer's parent is a span that exists.
 *
 *     struct df_span span;
 *     df_span_begin(&span, df_req_trace(req), "parse", DF_SPAN_INTERNAL, clock);
 *     …
 *     df_span_int(&span, "dataflow.records", count);
 *     df_span_end(&span);
 *
 * Names and keys are constants. The texts of attributes are borrowed until the end; then they are
 * copied, cut at DF_SPAN_TEXT bytes and masked like those of the log. They name routes, ids, peers,
 * states and sizes: never a payload, a query string or a person.
 *
 * Ended spans wait in one bounded queue for whoever takes them (src/telemetry). A full queue drops
 * the new one, and counts it. Any thread may begin and end spans; a span belongs to one thread at a
 * time.
 */
#ifndef DF_BASE_SPAN_H
#define DF_BASE_SPAN_H

#include "base/clock.h"
#include "base/trace.h"

#define DF_SPAN_TEXT  256 /* bytes of a name or a text */
#define DF_SPAN_ATTRS 12

/* The numbers are those of OTLP. */
enum df_span_kind {
    DF_SPAN_INTERNAL = 1,
    DF_SPAN_SERVER = 2,
    DF_SPAN_CLIENT = 3,
    DF_SPAN_PRODUCER = 4,
    DF_SPAN_CONSUMER = 5,
};
enum df_span_status { DF_SPAN_UNSET, DF_SPAN_OK, DF_SPAN_ERROR };

enum df_span_type { DF_SPAN_IS_TEXT, DF_SPAN_IS_INT, DF_SPAN_IS_BOOL };

struct df_span_attr {
    const char *key;
    enum df_span_type type;
    struct df_str text;
    int64_t number;
};

struct df_span {
    struct df_trace trace; /* its own context: the parent of what it causes */
    bool recording;
    char parent[DF_SPAN_ID_LEN + 1]; /* empty: it begins its trace */
    enum df_span_kind kind;
    enum df_span_status status;
    const struct df_clock *clock;
    struct df_str name;
    struct df_str message;
    struct df_trace link; /* of another trace that it belongs to as well; empty: none */
    int64_t begun_ns;     /* monotonic */
    size_t attr_count;
    struct df_span_attr attrs[DF_SPAN_ATTRS];
};

/* Begins a span below `parent`. */
void df_span_begin(struct df_span *s, const struct df_trace *parent, const char *name,
                   enum df_span_kind kind, const struct df_clock *clock);
/* The same for work that began at this monotonic time. */
void df_span_begin_at(struct df_span *s, const struct df_trace *parent, const char *name,
                      enum df_span_kind kind, const struct df_clock *clock, int64_t begun_ns);
/* A span whose context exists already; parent_id is absent if it begins its trace. */
void df_span_adopt(struct df_span *s, const struct df_trace *own, struct df_str parent_id,
                   enum df_span_kind kind, const struct df_clock *clock, int64_t begun_ns);

/* They do nothing for a span that is not recorded, and for an absent text. */
void df_span_text(struct df_span *s, const char *key, struct df_str text);
void df_span_int(struct df_span *s, const char *key, int64_t number);
void df_span_bool(struct df_span *s, const char *key, bool yes);
/* The work failed. `why` is a constant or a code's name; absent: no message. */
void df_span_fail(struct df_span *s, struct df_str why);
/* Links it to a stored traceparent; anything else is ignored. */
void df_span_link(struct df_span *s, struct df_str traceparent);

/* Records the span. It may be ended once; one that was not begun (zeroed) may be ended too. */
void df_span_end(struct df_span *s);

/* --- sampling --------------------------------------------------------------------------------- */

/* Whether spans are taken at all. */
bool df_spans_on(void);
/* Sets the flag of a trace of which nobody has decided: by its id, so that every process decides
 * the same. Without df_spans_start it stays as it is. */
void df_span_sample(struct df_trace *t);
/* A new trace, with the flag set so. */
struct df_trace df_span_new_trace(const struct df_clock *clock);
/* A stored context: the traceparent; without one, a new span in the trace of trace_id; without
 * either, a new trace, and then *ret_is_new, which may be NULL, is true. */
struct df_trace df_span_stored(struct df_str traceparent, struct df_str trace_id,
                               const struct df_clock *clock, bool *ret_is_new);

/* --- who takes them --------------------------------------------------------------------------- */

/* An ended span. One block of memory, the taker's to free. */
struct df_span_record {
    char trace_id[DF_TRACE_ID_LEN + 1];
    char span_id[DF_SPAN_ID_LEN + 1];
    char parent_id[DF_SPAN_ID_LEN + 1];      /* empty: none */
    char link_trace_id[DF_TRACE_ID_LEN + 1]; /* empty: no link */
    char link_span_id[DF_SPAN_ID_LEN + 1];
    enum df_span_kind kind;
    enum df_span_status status;
    int64_t start_ns; /* wall */
    int64_t end_ns;
    struct df_str name;
    struct df_str message; /* absent: none */
    size_t attr_count;
    struct df_span_attr *attrs;
};

struct df_spans_options {
    size_t queue;            /* spans that may wait */
    double ratio;            /* of new traces that are sampled, 0 to 1 */
    void (*wake)(void *arg); /* after every 256 spans, on any thread; may be NULL */
    void *arg;
};

void df_spans_start(const struct df_spans_options *opt);
/* Up to max spans; 0: none waits. Does not wait. */
size_t df_spans_take(struct df_span_record **ret, size_t max);
size_t df_spans_waiting(void);
/* Counts spans that nobody gets. */
void df_spans_dropped(const char *reason, size_t count);
/* Spans that end from now on are not recorded; those that wait can be taken. */
void df_spans_stop(void);
/* When no other thread is left. */
void df_spans_free(void);

#endif

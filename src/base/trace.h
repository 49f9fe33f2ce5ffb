/*
 * W3C trace context: the trace that a piece of work belongs to, and its span. It is stored as the
 * text of a traceparent, so that a header needs no formatting. It is a plain value; new identifiers
 * are drawn from the clock. Thread-safe.
 *
 * Only version 00 is read and written. Only the flag "sampled" is kept: whether the spans of the
 * trace are recorded (span.h). It is decided once, where a trace enters the process, and goes with
 * the context from then on, into tables and to peers.
 */
#ifndef DF_BASE_TRACE_H
#define DF_BASE_TRACE_H

#include "base/clock.h"

#define DF_TRACE_ID_LEN    32
#define DF_SPAN_ID_LEN     16
#define DF_TRACEPARENT_LEN 55

struct df_trace {
    char text[DF_TRACEPARENT_LEN + 1]; /* 00-<trace id>-<span id>-<flags> */
};

/* A new trace, sampled, and its first span. */
struct df_trace df_trace_new(const struct df_clock *clock);

/* A new span in the parent's trace. */
struct df_trace df_trace_child(const struct df_trace *parent, const struct df_clock *clock);

/* Parses what a peer sent; false, and *ret unchanged, unless it has exactly the form of
 * version 00. */
bool df_trace_parse(struct df_str traceparent, struct df_trace *ret);

/* Builds a sampled trace from two stored identifiers, in either case. False, and *ret unchanged,
 * when one is not hexadecimal of its length, or all zeros. */
bool df_trace_join(struct df_str trace_id, struct df_str span_id, struct df_trace *ret);

/* Starts a new span in a trace of which only the identifier was stored; false as for
 * df_trace_join. */
bool df_trace_resume(struct df_str trace_id, const struct df_clock *clock, struct df_trace *ret);

static inline bool df_trace_is_sampled(const struct df_trace *t)
{
    return t->text[DF_TRACEPARENT_LEN - 1] == '1';
}

static inline void df_trace_set_sampled(struct df_trace *t, bool sampled)
{
    t->text[DF_TRACEPARENT_LEN - 1] = sampled ? '1' : '0';
}

/* The part of the trace id that W3C level 2 asks to be random: its last 56 bits. */
uint64_t df_trace_randomness(const struct df_trace *t);

/* Slices of *t: they live as long as it does. */
static inline struct df_str df_trace_parent(const struct df_trace *t)
{
    return df_str_n(t->text, DF_TRACEPARENT_LEN);
}

static inline struct df_str df_trace_id(const struct df_trace *t)
{
    return df_str_n(t->text + 3, DF_TRACE_ID_LEN);
}

static inline struct df_str df_trace_span(const struct df_trace *t)
{
    return df_str_n(t->text + 36, DF_SPAN_ID_LEN);
}

#endif

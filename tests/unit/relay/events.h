/*
 * Events for tests of dispatchers, and what became of them. Include after cmocka.h.
 */
#ifndef DF_TESTS_RELAY_EVENTS_H
#define DF_TESTS_RELAY_EVENTS_H

#include "relay/dispatcher.h"

#include <stdio.h>

/* n events "PREFIX-0"… of one type and aggregate; in the arena, which lives as long. */
static inline struct df_event **make_events(struct df_arena *a, const char *prefix, size_t n)
{
    struct df_event **events = DF_ARENA_ARRAY(a, struct df_event *, n);
    for (size_t i = 0; i < n; i++) {
        events[i] = DF_ARENA_NEW(a, struct df_event);
        *events[i] = (struct df_event){
            .id = df_arena_printf(a, "%s-%zu", prefix, i),
            .type = DF_STR("OrderPlaced"),
            .payload = df_arena_printf(a, "{\"n\":%zu}", i),
            .aggregate_type = DF_STR("Order"),
            .aggregate_id = DF_STR("4711"),
            .correlation_id = DF_STR("corr-1"),
            .created_ms = INT64_C(1700000000123),
            .attempt = 1,
        };
    }
    return events;
}

static inline size_t count_outcomes(struct df_event *const *events, size_t n,
                                    enum df_dispatch_outcome outcome)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += events[i]->outcome == outcome;
    return count;
}

/* All must have come to this; the first that did not tells why. */
static inline void assert_outcomes(struct df_event *const *events, size_t n,
                                   enum df_dispatch_outcome outcome)
{
    for (size_t i = 0; i < n; i++)
        if (events[i]->outcome != outcome)
            fail_msg("event %zu of %zu: %d, not %d: " DF_STR_FMT, i, n, (int)events[i]->outcome,
                     (int)outcome, DF_STR_ARG(events[i]->error));
}

static inline void assert_error_has(const struct df_event *e, const char *part)
{
    if (!e->error.ptr || !memmem(e->error.ptr, e->error.len, part, strlen(part)))
        fail_msg("\"" DF_STR_FMT "\" has no \"%s\"", DF_STR_ARG(e->error), part);
}

#endif

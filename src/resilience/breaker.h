/*
 * Circuit breaker: stops calls to a destination that fails or has become slow, and finds out with a
 * few probes whether it has recovered. The semantics are those of Resilience4j's COUNT_BASED
 * window; breaker.c has the table of transitions and the differences.
 *
 *     if (!df_breaker_allow(b, &permit, &retry_ms))
 *         ... not now: worth asking again in retry_ms
 *     ... call
 *     df_breaker_done(b, permit, DF_BREAKER_SUCCESS, duration_ms);
 *
 * Every permit must be given back with df_breaker_done exactly once, whatever happened: a probe
 * that is never reported keeps its breaker half open for ever.
 *
 * A registry has one breaker for each destination, created when first asked for. Thread-safe; locks
 * are short, and none is held while a callback runs or a line is logged.
 */
#ifndef DF_RESILIENCE_BREAKER_H
#define DF_RESILIENCE_BREAKER_H

#include "base/clock.h"
#include "base/str.h"
#include "resilience/settings.h"

/* The numbers that the metric dataflow_breaker_state shows. */
enum df_breaker_state { DF_BREAKER_CLOSED, DF_BREAKER_OPEN, DF_BREAKER_HALF_OPEN };

enum df_breaker_outcome {
    DF_BREAKER_SUCCESS,
    DF_BREAKER_FAILURE, /* the destination's fault: no answer, 5xx, 429 */
    DF_BREAKER_IGNORED, /* says nothing of the destination: cancelled, our own mistake */
};

/* Opaque: the permission to make one call. */
struct df_breaker_permit {
    uint64_t generation;
};

struct df_breaker_snapshot {
    struct df_str name; /* borrowed from the breaker */
    enum df_breaker_state state;
    int64_t since_ms;    /* wall clock: in this state since */
    int64_t retry_ms;    /* OPEN: until a probe is allowed; else 0 */
    int64_t permits;     /* calls that may begin now; CLOSED: INT64_MAX */
    double failure_rate; /* per cent; -1 until enough calls are recorded */
    double slow_rate;    /* likewise */
    int64_t window;      /* calls in the window of this state; OPEN: of the one before */
    int64_t calls;       /* calls recorded; OPEN: when it opened */
    int64_t failed;
    int64_t slow;
    int64_t not_permitted;   /* since the breaker was created */
    int64_t last_failure_ms; /* wall clock; 0: none */
};

struct df_breaker;

/*
 * The name, which is the registry's key, appears in the log, metrics and admin pages: scheme, host
 * and port, or a channel's name; never a URL with a query or credentials.
 */
struct df_breaker *df_breaker_new(struct df_str name, const struct df_breaker_settings *set,
                                  const struct df_clock *clock);
void df_breaker_free(struct df_breaker *b);

/*
 * Whether a call may be made now. True: *ret must be given back. False: *ret_retry_ms is the time
 * after which to ask again: the rest of open_ms, or a guess while all probes are under way.
 */
bool df_breaker_allow(struct df_breaker *b, struct df_breaker_permit *ret, int64_t *ret_retry_ms);

/* IGNORED gives the permission back uncounted; its duration does not matter. */
void df_breaker_done(struct df_breaker *b, struct df_breaker_permit p,
                     enum df_breaker_outcome outcome, int64_t duration_ms);

void df_breaker_snapshot(struct df_breaker *b, struct df_breaker_snapshot *ret);

const char *df_breaker_state_name(enum df_breaker_state state);

/*
 * Beyond this number a new breaker replaces one that has no holders: a CLOSED one if there is any,
 * the longest unused. If all have holders, the registry grows.
 */
#define DF_BREAKERS_MAX 1024

struct df_breakers;

/* The settings apply to all of its breakers except those that are configured. */
struct df_breakers *df_breakers_new(const struct df_breaker_settings *set,
                                    const struct df_clock *clock);
/* No breaker may have a holder any more. */
void df_breakers_free(struct df_breakers *r);

/*
 * Creates the key's breaker with settings of its own. It is never evicted, and is shown from now on
 * even if unused. Must come before the first df_breakers_get of the key: an existing breaker keeps
 * its settings.
 */
void df_breakers_configure(struct df_breakers *r, struct df_str key,
                           const struct df_breaker_settings *set);

/* The key's breaker, never NULL. Put it back after its permits. */
struct df_breaker *df_breakers_get(struct df_breakers *r, struct df_str key);
void df_breakers_put(struct df_breakers *r, struct df_breaker *b);

/* Looks at the key's breaker, which does not count as use; the name is absent. False: there is no
 * such breaker, and so nothing against a call. */
bool df_breakers_look(struct df_breakers *r, struct df_str key, struct df_breaker_snapshot *ret);

/* Closes the key's breaker, with an empty window, as if its probes had gone well. False: there is
 * no such breaker. */
bool df_breakers_reset(struct df_breakers *r, struct df_str key);

/* Calls `each` for every breaker, by name, without a lock. */
void df_breakers_each(struct df_breakers *r,
                      void (*each)(void *arg, const struct df_breaker_snapshot *s), void *arg);

#endif

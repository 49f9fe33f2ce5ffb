/*
 * Circuit breaker: stops calling a destination that fails or has become slow, and finds out with a
 * few probes whether it is well again. The semantics are those of Resilience4j's COUNT_BASED
 * window; breaker.c has the table of transitions and the differences.
 *
 *     if (!df_breaker_allow(b, &permit, &retry_ms))
 *         ... not now: worth asking again in retry_ms
 *     ... call
 *     df_breaker_done(b, permit, DF_BREAKER_SUCCESS, duration_ms);
 *
 * Every permit is given back with df_breaker_done, exactly once and whatever happened: a probe that
 * is never reported keeps its breaker half open for ever.
 *
 * A registry has one breaker for each destination, made when first asked for. Thread-safe; short
 * locks, none held while a callback runs or a line is logged.
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
    int64_t retry_ms;    /* OPEN: until a probe is let through; else 0 */
    double failure_rate; /* per cent; -1 until enough calls are recorded */
    double slow_rate;    /* likewise */
    int64_t window;      /* calls looked at in this state; OPEN: in the one before */
    int64_t calls;       /* of them recorded; OPEN: when it opened */
    int64_t failed;
    int64_t slow;
    int64_t not_permitted;   /* since the breaker was made */
    int64_t last_failure_ms; /* wall clock; 0: none since the breaker was made */
};

struct df_breaker;

/*
 * The name, as a registry's key, is seen in log, metrics and the admin's pages: scheme, host and
 * port, or a channel's name, never a URL with a query or credentials.
 */
struct df_breaker *df_breaker_new(struct df_str name, const struct df_breaker_settings *set,
                                  const struct df_clock *clock);
void df_breaker_free(struct df_breaker *b);

/*
 * Whether a call may be made now. True: *ret is to be given back. False: *ret_retry_ms is when it
 * is worth asking again; the rest of open_ms, or a guess while all probes are under way.
 */
bool df_breaker_allow(struct df_breaker *b, struct df_breaker_permit *ret, int64_t *ret_retry_ms);

/* IGNORED gives the permission back uncounted; its duration does not matter. */
void df_breaker_done(struct df_breaker *b, struct df_breaker_permit p,
                     enum df_breaker_outcome outcome, int64_t duration_ms);

void df_breaker_snapshot(struct df_breaker *b, struct df_breaker_snapshot *ret);

const char *df_breaker_state_name(enum df_breaker_state state);

/*
 * Past this many the one not used for longest gives way to a new one: of those that nobody holds, a
 * CLOSED one if there is any. If all are held the registry grows.
 */
#define DF_BREAKERS_MAX 1024

struct df_breakers;

/* The settings are for all of its breakers but those that are configured. */
struct df_breakers *df_breakers_new(const struct df_breaker_settings *set,
                                    const struct df_clock *clock);
/* Nobody may hold a breaker any more. */
void df_breakers_free(struct df_breakers *r);

/*
 * Makes the key's breaker with settings of its own. It never gives way, and is shown from now on,
 * used or not. Before anybody asks for the key: one that is there keeps the settings it was made
 * with.
 */
void df_breakers_configure(struct df_breakers *r, struct df_str key,
                           const struct df_breaker_settings *set);

/* The key's breaker; put it back once the permits taken from it are. Never NULL. */
struct df_breaker *df_breakers_get(struct df_breakers *r, struct df_str key);
void df_breakers_put(struct df_breakers *r, struct df_breaker *b);

/* Calls `each` for every breaker, by name, without a lock. */
void df_breakers_each(struct df_breakers *r,
                      void (*each)(void *arg, const struct df_breaker_snapshot *s), void *arg);

#endif

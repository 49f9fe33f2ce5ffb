/*
 * Rate limiter by key: how many requests a client may make in a minute, and how many things
 * (uploads) it may hold at once.
 *
 * Two rules apply together. A token bucket paces: it refills evenly at the limit's rate and holds a
 * small burst (a twentieth of the limit, at least five), so that no client can send a whole
 * minute's requests at once. A sliding minute counts: no 60 seconds admit more than the limit, the
 * burst included. A client that keeps sending at twice its limit gets the limit, less 1.7 % at
 * most. Refused requests do not count.
 *
 * Several processes share a limit by telling each other, about every second, how many requests they
 * admitted in the last minute and how many they were asked for (df_limiter_report,
 * df_limiter_set_elsewhere): the others' requests count in the sliding minute, and the rate is
 * shared out by demand. Between two reports a process does not know what the others admit: see
 * docs/policies.md for the tolerance.
 *
 * The clock is the caller's. Thread-safe; one short lock. A key without requests in the last minute
 * that holds nothing is forgotten when room is needed; beyond DF_LIMITER_MAX active keys, further
 * keys are not limited.
 */
#ifndef DF_RESILIENCE_LIMITER_H
#define DF_RESILIENCE_LIMITER_H

#include "base/clock.h"
#include "base/str.h"

#define DF_LIMITER_KEY_MAX 39
#define DF_LIMITER_MAX     65536

struct df_limiter;

struct df_limiter *df_limiter_new(const struct df_clock *clock);
void df_limiter_free(struct df_limiter *l);

struct df_limiter_answer {
    bool admitted;
    int64_t wait_ms; /* refused: how long to wait before asking again */
    /* Of the sliding minute; reset_s: seconds until more is available. */
    int64_t remaining;
    int64_t reset_s;
    /* The burst, and the seconds in which it refills. */
    int64_t burst;
    int64_t burst_window_s;
    int64_t burst_remaining;
    int64_t burst_reset_s;
    /* A refusal to log, at most one a minute, with the number of refusals since the last one. */
    bool tell;
    int64_t refused;
};

/* per_minute 0: no limit; the request is only counted, and only ret->admitted is set. */
void df_limiter_take(struct df_limiter *l, struct df_str key, int64_t per_minute,
                     struct df_limiter_answer *ret);

/* Holds one more, unless the key holds `most` already, here and elsewhere (0: no limit). Every true
 * must be given back with df_limiter_drop. */
bool df_limiter_hold(struct df_limiter *l, struct df_str key, int64_t most);
void df_limiter_drop(struct df_limiter *l, struct df_str key);

/* What a key uses. */
struct df_limiter_use {
    char key[DF_LIMITER_KEY_MAX + 1];
    int64_t requests; /* admitted in the last minute */
    int64_t demand;   /* recent demand, per minute */
    int64_t held;
};

/* What the key uses, here and elsewhere together. */
void df_limiter_look(struct df_limiter *l, struct df_str key, struct df_limiter_use *ret);

/* The use in this process of all keys that have a limit or hold something, for the other processes.
 * Demand covers the time since the last report. The caller frees *ret. */
size_t df_limiter_report(struct df_limiter *l, struct df_limiter_use **ret);
/* Sets the use in all other processes; keys that are not listed use nothing there. */
void df_limiter_set_elsewhere(struct df_limiter *l, const struct df_limiter_use *uses,
                              size_t count);

#endif

/*
 * Rate limiter by key: how many requests a client may make in a minute, and how many things
 * (uploads) it may have in hand.
 *
 * Two rules at once. A bucket paces: it refills evenly at the limit's rate and holds a small burst
 * (a twentieth of the limit, at least five), so that nobody has a minute's worth at the minute's
 * edge. And a sliding minute counts: in no 60 seconds are more than the limit admitted, the burst
 * included. A client that keeps on at twice its limit gets the limit, less 1.7 % at most. What is
 * refused does not count.
 *
 * Several processes share a limit by telling each other, every second or so, what they have
 * admitted in the last minute and what they were asked for (df_limiter_report,
 * df_limiter_set_elsewhere): the others' requests count in the sliding minute, and the rate is
 * shared out by demand. Between two reports a process does not know what the others admit: see
 * docs/policies.md for the tolerance.
 *
 * The clock is the caller's. Thread-safe; one short lock. A key that had nothing in the last minute
 * and has nothing in hand is forgotten when room is needed; with DF_LIMITER_MAX active keys the
 * next ones are not limited.
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
    int64_t wait_ms; /* refused: until it is worth asking again */
    /* Of the minute; resets are in seconds: until there is more of it. */
    int64_t remaining;
    int64_t reset_s;
    /* Of the burst, and the seconds in which it comes back. */
    int64_t burst;
    int64_t burst_window_s;
    int64_t burst_remaining;
    int64_t burst_reset_s;
    /* Of a refusal: the first for a minute, worth a line in the log, with how many came since. */
    bool tell;
    int64_t refused;
};

/* per_minute 0: no limit, the request is counted only; then of *ret only `admitted` is set. */
void df_limiter_take(struct df_limiter *l, struct df_str key, int64_t per_minute,
                     struct df_limiter_answer *ret);

/* One more in hand, unless there are `most`, here and elsewhere (0: no limit). Each true one is
 * given back with df_limiter_drop. */
bool df_limiter_hold(struct df_limiter *l, struct df_str key, int64_t most);
void df_limiter_drop(struct df_limiter *l, struct df_str key);

/* What a key uses. */
struct df_limiter_use {
    char key[DF_LIMITER_KEY_MAX + 1];
    int64_t requests; /* admitted in the last minute */
    int64_t demand;   /* asked for, as a rate a minute, lately */
    int64_t held;
};

/* Here and elsewhere together. */
void df_limiter_look(struct df_limiter *l, struct df_str key, struct df_limiter_use *ret);

/* What this process has of the keys that have a limit or something in hand, for the others. Demand
 * is taken over the time since the last report. The caller frees *ret. */
size_t df_limiter_report(struct df_limiter *l, struct df_limiter_use **ret);
/* What the other processes have, all of it: whoever is not among them has nothing. */
void df_limiter_set_elsewhere(struct df_limiter *l, const struct df_limiter_use *uses,
                              size_t count);

#endif

/*
 * Rate limiter by key: how many requests a client may make in a minute, and how many things
 * (uploads) it may hold at once.
 *
 * The rule: in any 60 seconds as many requests as the limit are admitted, together or spread, and
 * never more. A limit of 30 lets 30 through at once, and the next one when the first of them is 60
 * seconds old. Refused requests do not count. Up to a limit of DF_WINDOW_RUNS this is exact; beyond
 * it a request may count for 59 ms longer than its minute (resilience/window.h).
 *
 * Several processes share a limit through a table. A process admits only what it reserved there
 * before: a twentieth of the limit at a time, or as much as requests are waiting for. It has at
 * most the limit, and all of them together have at most a tenth more, which is for what others
 * reserved and do not use. That is given back at the next exchange. When a process has nothing
 * reserved, df_limiter_take answers `ask`: the caller has an exchange made and takes again. An
 * exchange:
 *
 *     df_limiter_report ──► lock the table, read what the others have, df_limiter_grant, write,
 *                           commit ──► df_limiter_settle
 *
 * What a process wrote counts for DF_LIMITER_KEEP_MS, whether or not it lives: requests count for
 * their minute, and a reserve may be used until the next exchange has ended. A process that ends
 * writes its requests by their age (df_limiter_leave), so that they leave their minute for the
 * others as they would have here. What a killed one wrote last counts to the end.
 *
 * While the table cannot be reached, each process applies the limit by itself; for a minute it
 * still takes off what it last heard of the others.
 *
 * The clock is the caller's. Thread-safe; one short lock. A key without requests in the last minute
 * that holds nothing is forgotten when room is needed; beyond DF_LIMITER_MAX active keys, further
 * keys are not limited. A key takes about 200 bytes, and up to 16 KiB while it is busy.
 */
#ifndef DF_RESILIENCE_LIMITER_H
#define DF_RESILIENCE_LIMITER_H

#include "base/clock.h"
#include "base/str.h"

#define DF_LIMITER_KEY_MAX 39
#define DF_LIMITER_MAX     65536
/* How long another process's row counts after it was written. A reserve is used up to
 * DF_LIMITER_SLACK_MS after it was written: exchanges are a second apart and end in three. */
#define DF_LIMITER_SLACK_MS 5000
#define DF_LIMITER_KEEP_MS  (60000 + DF_LIMITER_SLACK_MS)
#define DF_LIMITER_AGES     12 /* five seconds each */

struct df_limiter;

/* shared: with other processes. */
struct df_limiter *df_limiter_new(const struct df_clock *clock, bool shared);
void df_limiter_free(struct df_limiter *l);

struct df_limiter_answer {
    bool admitted;
    bool ask;        /* not admitted and not refused: take again after an exchange, at once */
    bool soon;       /* admitted, but an exchange should be made soon */
    int64_t wait_ms; /* refused: how long to wait before asking again */
    int64_t remaining;
    int64_t reset_s; /* seconds until more is available */
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
    int64_t requests; /* admitted in the last minute, and reserved */
    int64_t demand;   /* recent demand, per minute */
    int64_t held;
    /* Of an exchange. */
    int64_t limit;
    int64_t wanted;  /* to reserve beyond `requests` */
    int64_t granted; /* of them */
    int64_t age_ms;  /* of the last report: none of its requests is younger */
};

/* What the key uses, here and elsewhere together. */
void df_limiter_look(struct df_limiter *l, struct df_str key, struct df_limiter_use *ret);

/* The use in this process of all keys that have a limit or hold something, for the other processes.
 * Demand covers the last second. The caller frees *ret. */
size_t df_limiter_report(struct df_limiter *l, struct df_limiter_use **ret);

/* The last report, when nothing is admitted any more: the requests of the last minute, in up to
 * DF_LIMITER_AGES parts of each key, each to be written as if it had been
 * df_limiter_written_ago_ms(part) ago. The caller frees *ret. */
size_t df_limiter_leave(struct df_limiter *l, struct df_limiter_use **ret);
int64_t df_limiter_written_ago_ms(const struct df_limiter_use *part);

/* How many of mine->wanted may be reserved if the other processes have so many. Pure. */
int64_t df_limiter_grant(const struct df_limiter_use *mine, int64_t elsewhere);

/* The exchange ended: `mine` is the report, with `granted`; `others` is what all other processes
 * have. Keys that are not listed use nothing there. */
void df_limiter_settle(struct df_limiter *l, const struct df_limiter_use *mine, size_t mine_count,
                       const struct df_limiter_use *others, size_t other_count);
/* The exchange failed: until one succeeds, this process applies the limits by itself. */
void df_limiter_alone(struct df_limiter *l);

#endif

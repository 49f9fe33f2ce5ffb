/*
 * Time and randomness behind one interface, so that retry, lease, window and breaker logic is
 * tested without sleeping and repeats exactly. Production uses df_clock_real(); tests use a fake
 * clock (tests/unit/fake_clock.h). Thread-safe.
 *
 * wall_ms is UTC since the epoch, for times that are stored and shown. mono_ns never goes back, for
 * durations and deadlines; it stands still while the machine sleeps. boot_ns goes on then: for
 * leases, which end for others too, and for calls, which must end before the lease under which they
 * are made.
 */
#ifndef DF_BASE_CLOCK_H
#define DF_BASE_CLOCK_H

#include "base/lock.h"
#include "base/str.h"

struct df_clock;

struct df_clock_ops {
    int64_t (*wall_ms)(const struct df_clock *c);
    int64_t (*mono_ns)(const struct df_clock *c);
    void (*random)(const struct df_clock *c, void *ptr, size_t len);
    /* As df_clock_wait_ms; NULL: in real time. */
    bool (*wait_ms)(const struct df_clock *c, pthread_cond_t *cond, struct df_mutex *m,
                    int64_t timeout_ms);
    int64_t (*boot_ns)(const struct df_clock *c); /* NULL: mono_ns */
    int64_t (*wall_ns)(const struct df_clock *c); /* NULL: wall_ms */
};

struct df_clock {
    const struct df_clock_ops *ops;
};

const struct df_clock *df_clock_real(void);

static inline int64_t df_wall_ms(const struct df_clock *c)
{
    return c->ops->wall_ms(c);
}

/* As wall_ms, and finer: for the times of spans. */
static inline int64_t df_wall_ns(const struct df_clock *c)
{
    return c->ops->wall_ns ? c->ops->wall_ns(c) : c->ops->wall_ms(c) * 1000000;
}

static inline int64_t df_mono_ns(const struct df_clock *c)
{
    return c->ops->mono_ns(c);
}

static inline int64_t df_mono_ms(const struct df_clock *c)
{
    return c->ops->mono_ns(c) / 1000000;
}

static inline int64_t df_boot_ns(const struct df_clock *c)
{
    return (c->ops->boot_ns ? c->ops->boot_ns : c->ops->mono_ns)(c);
}

static inline int64_t df_boot_ms(const struct df_clock *c)
{
    return df_boot_ns(c) / 1000000;
}

static inline void df_random(const struct df_clock *c, void *ptr, size_t len)
{
    c->ops->random(c, ptr, len);
}

/* df_cond_wait_ms by this clock: false when its time was up. It may come back early, as any wait on
 * a condition. */
bool df_clock_wait_ms(const struct df_clock *c, pthread_cond_t *cond, struct df_mutex *m,
                      int64_t timeout_ms) DF_REQUIRES(*m);

/* Uniform in [0, bound); bound > 0. */
uint64_t df_random_below(const struct df_clock *c, uint64_t bound);

#define DF_TIME_LEN 24 /* 2026-11-15T03:16:05.123Z */

/* Writes DF_TIME_LEN characters and a NUL. */
void df_time_format(int64_t wall_ms, char out[DF_TIME_LEN + 1]);

/*
 * ISO 8601: date, 'T' or a space, time to the second with an optional fraction, and Z, an offset or
 * nothing (UTC). Also a bare date. Digits past the millisecond are dropped.
 */
bool df_time_parse(struct df_str s, int64_t *ret_wall_ms);

/* A moment as calendar fields in UTC. */
struct df_date_time {
    int year; /* 0 to 9999 */
    int month;
    int day;
    int hour;
    int minute;
    int second;
    int ms;
};

/* A moment outside the years 0 to 9999 is moved to the nearest inside. */
struct df_date_time df_time_split(int64_t wall_ms);
/* The fields must be those of a real date. */
int64_t df_time_join(const struct df_date_time *t);

/* Sleeps in real time; signals do not shorten it. */
void df_sleep_ms(int64_t ms);

#endif

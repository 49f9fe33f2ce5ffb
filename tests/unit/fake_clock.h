/*
 * A clock whose time moves only when told, and whose random numbers come from a seed. Threads wait
 * on it too: when it is moved, whoever waited for that moment goes on. Thread-safe.
 */
#ifndef DF_TEST_FAKE_CLOCK_H
#define DF_TEST_FAKE_CLOCK_H

#include "base/clock.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

struct df_fake_clock {
    struct df_clock base;
    _Atomic int64_t wall;
    _Atomic int64_t mono;
    _Atomic uint64_t seed;
    _Atomic int waiting;        /* threads in df_clock_wait_ms */
    _Atomic int64_t until_mono; /* of the last of them */
};

/* A fake clock is never defined const; only the interface sees it so. */
static inline struct df_fake_clock *fake_of(const struct df_clock *c)
{
    return (struct df_fake_clock *)((uintptr_t)c - offsetof(struct df_fake_clock, base));
}

static inline int64_t fake_wall_ms(const struct df_clock *c)
{
    return fake_of(c)->wall;
}

static inline int64_t fake_mono_ns(const struct df_clock *c)
{
    return fake_of(c)->mono;
}

/* splitmix64: its state is a counter, which makes it safe for threads with one atomic addition. */
static inline uint64_t fake_next(struct df_fake_clock *f)
{
    const uint64_t step = UINT64_C(0x9E3779B97F4A7C15);
    uint64_t z = atomic_fetch_add(&f->seed, step) + step;
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

static inline void fake_random(const struct df_clock *c, void *ptr, size_t len)
{
    unsigned char *p = ptr;
    while (len > 0) {
        uint64_t r = fake_next(fake_of(c));
        size_t n = len < sizeof(r) ? len : sizeof(r);
        memcpy(p, &r, n);
        p += n;
        len -= n;
    }
}

/*
 * Comes back every millisecond, as if it had been signalled, so that whoever waits looks at time
 * and state again. To be told of a move it would have to know the locks of all who wait, and to
 * take them in the face of those who hold theirs; and a signal that comes between two waits of one
 * call would be lost.
 */
static inline bool fake_wait_ms(const struct df_clock *c, pthread_cond_t *cond, struct df_mutex *m,
                                int64_t timeout_ms) DF_REQUIRES(*m)
{
    const int64_t year_ms = INT64_C(366) * 86400000;
    struct df_fake_clock *f = fake_of(c);
    int64_t until = f->mono + (timeout_ms < year_ms ? timeout_ms : year_ms) * 1000000;

    f->until_mono = until;
    f->waiting++;
    if (f->mono < until)
        (void)df_cond_wait_ms(cond, m, 1);
    f->waiting--;
    return f->mono < until;
}

/* Returns as soon as a thread waits on the clock: how far it has to be moved for that thread. */
static inline int64_t df_fake_clock_await(struct df_fake_clock *f)
{
    while (f->waiting == 0)
        df_sleep_ms(1);
    return (f->until_mono - f->mono) / 1000000;
}

static inline void df_fake_clock_init(struct df_fake_clock *f, int64_t wall_ms, uint64_t seed)
{
    static const struct df_clock_ops ops = {.wall_ms = fake_wall_ms,
                                            .mono_ns = fake_mono_ns,
                                            .random = fake_random,
                                            .wait_ms = fake_wait_ms};
    f->base.ops = &ops;
    f->wall = wall_ms;
    f->mono = INT64_C(1000000000); /* zero is what forgotten deadlines look like */
    f->seed = seed;
    f->waiting = 0;
    f->until_mono = 0;
}

/* A step back (ms < 0) moves the wall clock only: mono never goes back. */
static inline void df_fake_clock_advance_ms(struct df_fake_clock *f, int64_t ms)
{
    atomic_fetch_add(&f->wall, ms);
    if (ms > 0)
        atomic_fetch_add(&f->mono, ms * 1000000);
}

#endif

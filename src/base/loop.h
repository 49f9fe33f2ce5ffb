/*
 * The loop of a background thread. Before each turn it waits until the turn is due, the loop is
 * woken, or the loop stops; after failures it waits longer each time. It uses the clock interface,
 * so that a test moves time instead of sleeping.
 *
 *     df_loop_start(&x->loop, &(struct df_loop_options){.name = "usage", .clock = clock,
 *                                                       .turn = exchange, .arg = x});
 *     df_loop_wake(&x->loop);
 *     df_loop_stop(&x->loop);
 *
 * A loop may have several threads, which run turns in parallel and are all woken; each counts its
 * own failures. A wake-up is never lost: one that comes during a turn makes the next one begin at
 * once. During a backoff wake-ups do not count, since frequent ones would defeat it.
 */
#ifndef DF_BASE_LOOP_H
#define DF_BASE_LOOP_H

#include "base/clock.h"
#include "base/pool.h"

/* A wait that doubles from min to max with each failure, until a success. For waits outside
 * a loop. */
struct df_backoff {
    int64_t min_ms;
    int64_t max_ms;
    int64_t now_ms; /* 0: the last attempt succeeded */
};

/* Counts a failure and returns how long to wait before the next attempt. */
int64_t df_backoff_more(struct df_backoff *b);

static inline void df_backoff_reset(struct df_backoff *b)
{
    b->now_ms = 0;
}

#define DF_LOOP_IDLE   INT64_C(-1) /* nothing to do until the loop is woken */
#define DF_LOOP_FAILED INT64_C(-2) /* retry after a backoff */

struct df_loop_options {
    const char *name; /* of the threads */
    size_t threads;   /* 0: one */
    const struct df_clock *clock;
    int64_t backoff_min_ms;
    int64_t backoff_max_ms;
    int64_t first_ms; /* until the first turn, unless woken before */
    /* Runs one turn, without a lock. Returns the milliseconds until the next turn (0: now), or one
     * of the two values above. */
    int64_t (*turn)(void *arg);
    void (*ended)(void *arg); /* called by each thread as its last action; may be NULL */
    void *arg;
};

/* Zeroed: not started. */
struct df_loop {
    struct df_loop_options opt;
    struct df_thread *_Atomic threads; /* NULL: not started */
    struct df_mutex lock;
    pthread_cond_t changed;
    uint64_t wakes DF_GUARDED_BY(lock);
    bool stopping DF_GUARDED_BY(lock);
};

void df_loop_start(struct df_loop *l, const struct df_loop_options *opt);

/* Any thread. Does nothing before the start, since the first turn looks for work anyway. */
void df_loop_wake(struct df_loop *l);

/* No further turn begins; turns under way go on. Does not wait for them. */
void df_loop_close(struct df_loop *l);

/* Closes the loop and waits for its threads. Does nothing if it was not started or is stopped. */
void df_loop_stop(struct df_loop *l);

/* Stops the loop and frees its memory. */
void df_loop_release(struct df_loop *l);

#endif

/*
 * The work of a background thread, turn by turn: wait until it is due, until somebody wakes the
 * loop, or until the end; and after failures for longer each time. Time is the clock's, so that a
 * test moves it instead of sleeping.
 *
 *     df_loop_start(&x->loop, &(struct df_loop_options){.name = "usage", .clock = clock,
 *                                                       .turn = exchange, .arg = x});
 *     df_loop_wake(&x->loop);
 *     df_loop_stop(&x->loop);
 *
 * A loop may have several threads, which take turns at the same time and are all woken; each counts
 * its own failures. A wake-up is never lost: one that comes during a turn makes the next one begin
 * at once. During a backoff wake-ups do not count, or a busy waker would defeat it.
 */
#ifndef DF_BASE_LOOP_H
#define DF_BASE_LOOP_H

#include "base/clock.h"
#include "base/pool.h"

/* Doubles from min to max with each failure, until a success. For waits that are no loop's. */
struct df_backoff {
    int64_t min_ms;
    int64_t max_ms;
    int64_t now_ms; /* 0: the last try succeeded */
};

/* Counts a failure; how long to wait before the next try. */
int64_t df_backoff_more(struct df_backoff *b);

static inline void df_backoff_reset(struct df_backoff *b)
{
    b->now_ms = 0;
}

#define DF_LOOP_IDLE   INT64_C(-1) /* nothing to do until the loop is woken */
#define DF_LOOP_FAILED INT64_C(-2) /* again after a backoff */

struct df_loop_options {
    const char *name; /* of the threads */
    size_t threads;   /* 0: one */
    const struct df_clock *clock;
    int64_t backoff_min_ms;
    int64_t backoff_max_ms;
    int64_t first_ms; /* until the first turn, unless woken before */
    /* One turn, without a lock. Returns in how many milliseconds the next one is due (0: now), or
     * one of the two above. */
    int64_t (*turn)(void *arg);
    void (*ended)(void *arg); /* or NULL: by each thread, as the last thing it does */
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

/* Any thread. Before the start nothing happens: the first turn looks anyway. */
void df_loop_wake(struct df_loop *l);

/* No turn begins any more; those under way go on. Does not wait for them. */
void df_loop_close(struct df_loop *l);

/* Closes it and waits for its threads. Not started, or twice: nothing happens. */
void df_loop_stop(struct df_loop *l);

/* Stops it and gives back what it has. */
void df_loop_release(struct df_loop *l);

#endif

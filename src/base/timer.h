/*
 * Things to do later, one after the other on one thread, which sleeps until the next is due. Items
 * are embedded in what they belong to; the timer allocates only its heap. Thread-safe.
 */
#ifndef DF_BASE_TIMER_H
#define DF_BASE_TIMER_H

#include "base/loop.h"

struct df_timer;

/* The caller's; untouched from add on until it fires. */
struct df_timer_item {
    /* Once: on the timer's thread when the time has come, or in df_timer_stop. Must not block. */
    void (*fire)(struct df_timer_item *item, bool stopping);
    int64_t due_ns;  /* the timer's */
    uint64_t number; /* likewise: equal times fire in the order in which they were added */
};

struct df_timer *df_timer_new(const char *name, const struct df_clock *clock);

/* False: the timer has stopped, and the item stays the caller's. Any thread, in `fire` too. */
bool df_timer_add(struct df_timer *t, struct df_timer_item *item, int64_t delay_ms);

/* Ends the thread, then fires what is left. df_timer_add may still be called: it refuses. Twice, or
 * NULL: nothing happens. */
void df_timer_stop(struct df_timer *t);
void df_timer_free(struct df_timer *t);

#endif

/*
 * Runs callbacks later, one after another on one thread, which sleeps until the next is due. Items
 * are embedded in the caller's structs; the timer allocates only its heap. Thread-safe.
 */
#ifndef DF_BASE_TIMER_H
#define DF_BASE_TIMER_H

#include "base/loop.h"

struct df_timer;

/* Owned by the caller, who must not touch it from add until it fires. */
struct df_timer_item {
    /* Called once: on the timer's thread when the item is due, or in df_timer_stop. Must not
     * block. */
    void (*fire)(struct df_timer_item *item, bool stopping);
    int64_t due_ns;  /* private to the timer */
    uint64_t number; /* private; equal times fire in the order in which they were added */
};

struct df_timer *df_timer_new(const char *name, const struct df_clock *clock);

/* False: the timer has stopped and does not take the item. Any thread, also from `fire`. */
bool df_timer_add(struct df_timer *t, struct df_timer_item *item, int64_t delay_ms);

/* Ends the thread, then fires the items that are left. df_timer_add may still be called and returns
 * false. Twice and NULL are fine. */
void df_timer_stop(struct df_timer *t);
void df_timer_free(struct df_timer *t);

#endif

/*
 * Things to do later, on one thread: answers held back, acks and callbacks to be sent. Items are
 * embedded in what they belong to; the timer allocates only its heap.
 */
#ifndef DF_SANDBOX_TIMER_H
#define DF_SANDBOX_TIMER_H

#include "base/err.h"

struct df_sb_timer;

struct df_sb_timer_item {
    /* Once, on the timer's thread, when the time has come or the timer stops. Must not block. */
    void (*fire)(struct df_sb_timer_item *item, bool stopping);
    int64_t due_ns;  /* the timer's */
    uint64_t number; /* likewise: equal times fire in the order in which they were added */
};

enum df_code df_sb_timer_new(struct df_sb_timer **ret, struct df_err *err) DF_MUST_CHECK;

/* False: the timer has stopped, and the item stays the caller's. */
bool df_sb_timer_add(struct df_sb_timer *t, struct df_sb_timer_item *item, int64_t delay_ms);

/* Fires everything at once and ends the thread. `df_sb_timer_add` may still be called: it refuses.
 */
void df_sb_timer_stop(struct df_sb_timer *t);
void df_sb_timer_free(struct df_sb_timer *t);

#endif

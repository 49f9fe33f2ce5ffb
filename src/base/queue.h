/*
 * Bounded queue of pointers between threads: many producers, many consumers. A full queue refuses
 * an item (the caller answers 503) and never blocks a producer. Consumers take several items at
 * once, to handle them in one transaction.
 */
#ifndef DF_BASE_QUEUE_H
#define DF_BASE_QUEUE_H

#include "base/lock.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct df_queue {
    struct df_mutex lock;
    pthread_cond_t nonempty;
    void **ring DF_PT_GUARDED_BY(lock);
    size_t cap;
    size_t head DF_GUARDED_BY(lock);
    size_t count DF_GUARDED_BY(lock);
    size_t waiting DF_GUARDED_BY(lock); /* sleeping consumers: without any, no signal is sent */
    bool closed DF_GUARDED_BY(lock);
};

void df_queue_init(struct df_queue *q, size_t capacity);
void df_queue_release(struct df_queue *q);

/* false: full or closed; the item stays the caller's. */
bool df_queue_push(struct df_queue *q, void *take_item);

/*
 * Waits up to timeout_ms (-1: for ever, 0: not at all) for the first item, then takes up to max
 * items. Returns how many; 0 after the timeout, or when the queue is closed and empty.
 */
size_t df_queue_pop(struct df_queue *q, void **items, size_t max, int64_t timeout_ms);

/* Refuses further pushes and wakes all consumers; queued items can still be taken. */
void df_queue_close(struct df_queue *q);
bool df_queue_closed(struct df_queue *q);
size_t df_queue_count(struct df_queue *q);

#endif

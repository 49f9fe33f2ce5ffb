/*
 * Bounded queue of pointers between threads: many producers, many consumers. A full queue refuses
 * (the caller answers 503), it never blocks a producer. Consumers take several at once, because
 * what follows is a transaction and transactions like company.
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
    void **ring;
    size_t cap;
    size_t head;
    size_t count;
    size_t waiting; /* consumers asleep: producers signal only when there is someone to wake */
    bool closed;
};

void df_queue_init(struct df_queue *q, size_t capacity);
void df_queue_release(struct df_queue *q);

/* false: full or closed; the item stays the caller's. */
bool df_queue_push(struct df_queue *q, void *take_item);

/*
 * Waits up to timeout_ms (-1: for ever, 0: not at all) for the first item, then takes what is there
 * up to max. Returns how many; 0 after the timeout, or when the queue is closed and empty.
 */
size_t df_queue_pop(struct df_queue *q, void **items, size_t max, int64_t timeout_ms);

/* Refuses further pushes and wakes all consumers; what is inside can still be taken. */
void df_queue_close(struct df_queue *q);
bool df_queue_closed(struct df_queue *q);
size_t df_queue_count(struct df_queue *q);

#endif

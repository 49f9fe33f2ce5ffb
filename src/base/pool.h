/*
 * Named threads, and pools of threads that process a queue. Every thread of the program is started
 * here, with all signals blocked (the main thread handles them) and with the name that top and gdb
 * show (its first 15 characters). A thread that cannot be started aborts the process: a server
 * without some of its threads would only seem to work.
 */
#ifndef DF_BASE_POOL_H
#define DF_BASE_POOL_H

#include "base/queue.h"

/* Zeroed: not started. Started and joined by one thread at a time. */
struct df_thread {
    pthread_t id;
    bool running;
};

void df_thread_start(struct df_thread *t, const char *name, void (*run)(void *arg), void *arg);

/* Waits for the thread's end; does nothing if it was not started or was joined before. */
void df_thread_join(struct df_thread *t);

/* Threads that take items off a bounded queue, each item by one of them. Zeroed: not started. */
struct df_pool {
    struct df_queue queue;
    void (*run)(void *arg, void *item);
    void *arg;
    struct df_thread *threads;
    size_t thread_count;
};

/* `run` is called on the pool's threads, several at a time. */
void df_pool_start(struct df_pool *p, const char *name, size_t threads, size_t queue_capacity,
                   void (*run)(void *arg, void *item), void *arg);

/* false: full or stopping; the item stays the caller's. Any thread. */
bool df_pool_push(struct df_pool *p, void *take_item);

/* Refuses new items, finishes the queued ones, and waits for the threads. Twice is fine. */
void df_pool_stop(struct df_pool *p);

/* Stops the pool and frees its memory. Does nothing if it was not started. */
void df_pool_release(struct df_pool *p);

#endif

/*
 * Threads with a name, and pools of them that work a queue off. Every thread of ours begins here:
 * with all signals blocked, which are the main thread's, and under the name that top and gdb show
 * (its first 15 characters). A thread that cannot be started aborts the process: parts of a server
 * without their threads would only seem to work.
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

/* Waits for its end; nothing happens if it was not started, or was joined before. */
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

/* Refuses what comes, finishes what is there, and waits for the threads. Twice is fine. */
void df_pool_stop(struct df_pool *p);

/* Stops it first. Not started: nothing happens. */
void df_pool_release(struct df_pool *p);

#endif

/*
 * Locks, and their annotations for clang's -Wthread-safety: which lock guards a member
 * (DF_GUARDED_BY), and which lock a function's caller must hold (DF_REQUIRES). gcc ignores them;
 * `make lint` has clang check them.
 *
 * No lock is held across I/O, SQL or a callback.
 */
#ifndef DF_BASE_LOCK_H
#define DF_BASE_LOCK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#ifdef __clang__
#define DF_TSA(x) __attribute__((x))
#else
#define DF_TSA(x)
#endif

/* In C a member can name its neighbour only from clang 20 on, with
 * -fexperimental-late-parse-attributes. With older clangs these two only inform the reader. */
#if defined(__clang__) && __clang_major__ >= 20
#define DF_GUARDED_BY(lock)    DF_TSA(guarded_by(lock))
#define DF_PT_GUARDED_BY(lock) DF_TSA(pt_guarded_by(lock)) /* what the pointer points to */
#else
#define DF_GUARDED_BY(lock)
#define DF_PT_GUARDED_BY(lock)
#endif
#define DF_REQUIRES(...) DF_TSA(requires_capability(__VA_ARGS__))
#define DF_ACQUIRES(...) DF_TSA(acquire_capability(__VA_ARGS__))
#define DF_RELEASES(...) DF_TSA(release_capability(__VA_ARGS__))
/* For functions whose locking clang cannot follow; a comment says why. */
#define DF_UNCHECKED_LOCKING DF_TSA(no_thread_safety_analysis)

struct DF_TSA(capability("mutex")) df_mutex {
    pthread_mutex_t m;
};

#define DF_MUTEX_INIT                                                                              \
    {                                                                                              \
        PTHREAD_MUTEX_INITIALIZER                                                                  \
    }

void df_mutex_init(struct df_mutex *m);
void df_mutex_destroy(struct df_mutex *m);

/* Wrong use of a lock (taken twice by one thread, released by another) aborts: the guarded data
 * could be in any state. */
static inline void df_lock(struct df_mutex *m) DF_ACQUIRES(*m) DF_UNCHECKED_LOCKING
{
    if (pthread_mutex_lock(&m->m) != 0)
        abort();
}

static inline void df_unlock(struct df_mutex *m) DF_RELEASES(*m) DF_UNCHECKED_LOCKING
{
    if (pthread_mutex_unlock(&m->m) != 0)
        abort();
}

/* A condition variable bound to CLOCK_MONOTONIC. */
void df_cond_init(pthread_cond_t *c);
void df_cond_wait(pthread_cond_t *c, struct df_mutex *m) DF_REQUIRES(*m);
/* Returns false when the time was up. A negative timeout does not wait at all. */
bool df_cond_wait_ms(pthread_cond_t *c, struct df_mutex *m, int64_t timeout_ms) DF_REQUIRES(*m);

#endif

#include "base/pool.h"

#include "base/log.h"
#include "base/mem.h"

#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct start {
    void (*run)(void *arg);
    void *arg;
    char name[16];
};

static void *begin_thread(void *arg)
{
    struct start s = *(struct start *)arg;

    free(arg);
    (void)pthread_setname_np(pthread_self(), s.name);
    s.run(s.arg);
    return NULL;
}

void df_thread_start(struct df_thread *t, const char *name, void (*run)(void *arg), void *arg)
{
    struct start *s = df_calloc(1, sizeof(*s));
    sigset_t all, before;

    assert(!t->running);
    *s = (struct start){.run = run, .arg = arg};
    (void)snprintf(s->name, sizeof(s->name), "%s", name);
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&t->id, NULL, begin_thread, s);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc != 0) {
        df_log_error("ThreadNotStarted", "%s: %s", name, strerrordesc_np(rc));
        abort();
    }
    t->running = true;
}

void df_thread_join(struct df_thread *t)
{
    if (!t->running)
        return;
    if (pthread_join(t->id, NULL) != 0)
        abort(); /* joined by itself, or by two threads at once */
    t->running = false;
}

static void work_off_items(void *arg)
{
    struct df_pool *p = arg;
    void *item;

    while (df_queue_pop(&p->queue, &item, 1, -1) == 1)
        p->run(p->arg, item);
}

void df_pool_start(struct df_pool *p, const char *name, size_t threads, size_t queue_capacity,
                   void (*run)(void *arg, void *item), void *arg)
{
    *p = (struct df_pool){.run = run, .arg = arg, .thread_count = threads};
    df_queue_init(&p->queue, queue_capacity);
    p->threads = df_calloc(threads, sizeof(*p->threads));
    for (size_t i = 0; i < threads; i++)
        df_thread_start(&p->threads[i], name, work_off_items, p);
}

bool df_pool_push(struct df_pool *p, void *take_item)
{
    return df_queue_push(&p->queue, take_item);
}

void df_pool_stop(struct df_pool *p)
{
    if (!p->threads)
        return;
    df_queue_close(&p->queue);
    for (size_t i = 0; i < p->thread_count; i++)
        df_thread_join(&p->threads[i]);
}

void df_pool_release(struct df_pool *p)
{
    df_pool_stop(p);
    df_queue_release(&p->queue);
    free(p->threads);
    p->threads = NULL;
}

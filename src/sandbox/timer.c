#include "sandbox/timer.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/mem.h"

#include <signal.h>
#include <stdlib.h>

struct df_sb_timer {
    pthread_t thread;
    bool running;
    struct df_mutex lock;
    pthread_cond_t changed;
    struct df_sb_timer_item **heap;
    size_t count;
    size_t cap;
    uint64_t added;
    bool stopping;
};

static bool before(const struct df_sb_timer_item *a, const struct df_sb_timer_item *b)
{
    return a->due_ns != b->due_ns ? a->due_ns < b->due_ns : a->number < b->number;
}

static void push(struct df_sb_timer *t, struct df_sb_timer_item *item)
{
    if (t->count == t->cap) {
        t->cap = t->cap ? t->cap * 2 : 64;
        t->heap = df_realloc(t->heap, t->cap * sizeof(struct df_sb_timer_item *));
    }
    size_t i = t->count++;
    while (i > 0 && before(item, t->heap[(i - 1) / 2])) {
        t->heap[i] = t->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    t->heap[i] = item;
}

static struct df_sb_timer_item *pop(struct df_sb_timer *t)
{
    struct df_sb_timer_item *first = t->heap[0];
    struct df_sb_timer_item *last = t->heap[--t->count];
    size_t i = 0;

    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= t->count)
            break;
        if (child + 1 < t->count && before(t->heap[child + 1], t->heap[child]))
            child++;
        if (!before(t->heap[child], last))
            break;
        t->heap[i] = t->heap[child];
        i = child;
    }
    if (t->count > 0)
        t->heap[i] = last;
    return first;
}

static void *run(void *arg)
{
    struct df_sb_timer *t = arg;

    (void)pthread_setname_np(pthread_self(), "df-sandbox");
    df_lock(&t->lock);
    while (t->count > 0 || !t->stopping) {
        if (t->count == 0) {
            (void)df_cond_wait_ms(&t->changed, &t->lock, 60000);
            continue;
        }
        int64_t left_ns = t->heap[0]->due_ns - df_mono_ns(df_clock_real());
        if (left_ns > 0 && !t->stopping) {
            (void)df_cond_wait_ms(&t->changed, &t->lock, left_ns / 1000000 + 1);
            continue;
        }
        struct df_sb_timer_item *item = pop(t);
        bool stopping = t->stopping;
        df_unlock(&t->lock);
        item->fire(item, stopping);
        df_lock(&t->lock);
    }
    df_unlock(&t->lock);
    return NULL;
}

enum df_code df_sb_timer_new(struct df_sb_timer **ret, struct df_err *err)
{
    struct df_sb_timer *t = df_calloc(1, sizeof(*t));
    sigset_t all;
    sigset_t old;

    df_mutex_init(&t->lock);
    df_cond_init(&t->changed);
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    t->running = pthread_create(&t->thread, NULL, run, t) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (!t->running) {
        df_sb_timer_free(t);
        return df_err_set(err, DF_E_INTERNAL, "the sandbox's timer could not be started");
    }
    *ret = t;
    return DF_OK;
}

bool df_sb_timer_add(struct df_sb_timer *t, struct df_sb_timer_item *item, int64_t delay_ms)
{
    item->due_ns = df_mono_ns(df_clock_real()) + delay_ms * 1000000;

    df_lock(&t->lock);
    bool taken = !t->stopping;
    if (taken) {
        item->number = t->added++;
        push(t, item);
        if (t->heap[0] == item)
            (void)pthread_cond_signal(&t->changed);
    }
    df_unlock(&t->lock);
    return taken;
}

void df_sb_timer_stop(struct df_sb_timer *t)
{
    if (!t || !t->running)
        return;
    df_lock(&t->lock);
    t->stopping = true;
    (void)pthread_cond_signal(&t->changed);
    df_unlock(&t->lock);
    (void)pthread_join(t->thread, NULL);
    t->running = false;
}

void df_sb_timer_free(struct df_sb_timer *t)
{
    if (!t)
        return;
    df_sb_timer_stop(t);
    (void)pthread_cond_destroy(&t->changed);
    df_mutex_destroy(&t->lock);
    free(t->heap);
    free(t);
}

#include "base/timer.h"

#include "base/mem.h"

#include <assert.h>
#include <stdlib.h>

#define NS_PER_MS INT64_C(1000000)

struct df_timer {
    struct df_loop loop;
    const struct df_clock *clock;
    struct df_mutex lock;
    struct df_timer_item **heap DF_GUARDED_BY(lock);
    size_t count DF_GUARDED_BY(lock);
    size_t cap DF_GUARDED_BY(lock);
    uint64_t added DF_GUARDED_BY(lock);
    bool stopping DF_GUARDED_BY(lock);
};

static bool is_before(const struct df_timer_item *a, const struct df_timer_item *b)
{
    return a->due_ns != b->due_ns ? a->due_ns < b->due_ns : a->number < b->number;
}

static void push_item(struct df_timer *t, struct df_timer_item *item) DF_REQUIRES(t->lock)
{
    if (t->count == t->cap) {
        t->cap = t->cap ? t->cap * 2 : 64;
        t->heap = df_realloc(t->heap, t->cap * sizeof(struct df_timer_item *));
    }
    size_t i = t->count++;
    while (i > 0 && is_before(item, t->heap[(i - 1) / 2])) {
        t->heap[i] = t->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    t->heap[i] = item;
}

static struct df_timer_item *pop_item(struct df_timer *t) DF_REQUIRES(t->lock)
{
    assert(t->count > 0);
    struct df_timer_item *first = t->heap[0];
    struct df_timer_item *last = t->heap[--t->count];
    size_t i = 0;

    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= t->count)
            break;
        if (child + 1 < t->count && is_before(t->heap[child + 1], t->heap[child]))
            child++;
        if (!is_before(t->heap[child], last))
            break;
        t->heap[i] = t->heap[child];
        i = child;
    }
    if (t->count > 0)
        t->heap[i] = last;
    return first;
}

/* Fires the first item if it is due; returns when the next one is. */
static int64_t fire_due(void *arg)
{
    struct df_timer *t = arg;
    struct df_timer_item *item = NULL;
    int64_t wait_ms = DF_LOOP_IDLE;

    df_lock(&t->lock);
    if (t->count > 0) {
        int64_t left_ns = t->heap[0]->due_ns - df_mono_ns(t->clock);
        wait_ms = left_ns > 0 ? (left_ns + NS_PER_MS - 1) / NS_PER_MS : 0;
        if (wait_ms == 0)
            item = pop_item(t);
    }
    df_unlock(&t->lock);
    if (item)
        item->fire(item, false);
    return wait_ms;
}

struct df_timer *df_timer_new(const char *name, const struct df_clock *clock)
{
    struct df_timer *t = df_calloc(1, sizeof(*t));

    t->clock = clock;
    df_mutex_init(&t->lock);
    df_loop_start(
        &t->loop,
        &(struct df_loop_options){
            .name = name, .clock = clock, .first_ms = DF_LOOP_IDLE, .turn = fire_due, .arg = t});
    return t;
}

bool df_timer_add(struct df_timer *t, struct df_timer_item *item, int64_t delay_ms)
{
    item->due_ns = df_mono_ns(t->clock) + delay_ms * NS_PER_MS;
    df_lock(&t->lock);
    bool taken = !t->stopping;
    if (taken) {
        item->number = t->added++;
        push_item(t, item);
        if (t->heap[0] == item)
            df_loop_wake(&t->loop);
    }
    df_unlock(&t->lock);
    return taken;
}

void df_timer_stop(struct df_timer *t)
{
    if (!t)
        return;
    df_lock(&t->lock);
    t->stopping = true;
    df_unlock(&t->lock);
    df_loop_stop(&t->loop);
    for (;;) {
        df_lock(&t->lock);
        struct df_timer_item *item = t->count > 0 ? pop_item(t) : NULL;
        df_unlock(&t->lock);
        if (!item)
            return;
        item->fire(item, true);
    }
}

void df_timer_free(struct df_timer *t)
{
    if (!t)
        return;
    df_timer_stop(t);
    df_loop_release(&t->loop);
    df_mutex_destroy(&t->lock);
    free(t->heap);
    free(t);
}

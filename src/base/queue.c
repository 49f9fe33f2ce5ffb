#include "base/queue.h"

#include "base/clock.h"
#include "base/mem.h"

#include <assert.h>
#include <stdlib.h>

void df_queue_init(struct df_queue *q, size_t capacity)
{
    *q = (struct df_queue){.cap = capacity, .ring = df_calloc(capacity, sizeof(void *))};
    df_mutex_init(&q->lock);
    df_cond_init(&q->nonempty);
}

void df_queue_release(struct df_queue *q)
{
    if (!q->ring)
        return;
    free(q->ring);
    q->ring = NULL;
    pthread_cond_destroy(&q->nonempty);
    df_mutex_destroy(&q->lock);
}

bool df_queue_push(struct df_queue *q, void *take_item)
{
    df_lock(&q->lock);
    bool taken = !q->closed && q->count < q->cap;
    if (taken) {
        size_t tail = q->head + q->count;
        if (tail >= q->cap)
            tail -= q->cap;
        q->ring[tail] = take_item;
        q->count++;
        if (q->waiting > 0)
            pthread_cond_signal(&q->nonempty);
    }
    df_unlock(&q->lock);
    return taken;
}

/* Gives the lock up while it waits. */
static void wait_for_item(struct df_queue *q, int64_t timeout_ms) DF_REQUIRES(q->lock)
{
    int64_t start = timeout_ms > 0 ? df_mono_ms(df_clock_real()) : 0;

    q->waiting++;
    while (q->count == 0 && !q->closed) {
        if (timeout_ms < 0) {
            df_cond_wait(&q->nonempty, &q->lock);
            continue;
        }
        int64_t left = timeout_ms - (df_mono_ms(df_clock_real()) - start);
        if (left <= 0)
            break;
        (void)df_cond_wait_ms(&q->nonempty, &q->lock, left);
    }
    q->waiting--;
}

size_t df_queue_pop(struct df_queue *q, void **items, size_t max, int64_t timeout_ms)
{
    df_lock(&q->lock);
    if (q->count == 0 && timeout_ms != 0)
        wait_for_item(q, timeout_ms);

    size_t n = q->count < max ? q->count : max;
    for (size_t i = 0; i < n; i++) {
        items[i] = q->ring[q->head];
        if (++q->head == q->cap)
            q->head = 0;
    }
    q->count -= n;
    assert(q->head < q->cap && q->count <= q->cap);
    df_unlock(&q->lock);
    return n;
}

void df_queue_close(struct df_queue *q)
{
    df_lock(&q->lock);
    q->closed = true;
    pthread_cond_broadcast(&q->nonempty);
    df_unlock(&q->lock);
}

bool df_queue_closed(struct df_queue *q)
{
    df_lock(&q->lock);
    bool closed = q->closed;
    df_unlock(&q->lock);
    return closed;
}

size_t df_queue_count(struct df_queue *q)
{
    df_lock(&q->lock);
    size_t count = q->count;
    df_unlock(&q->lock);
    return count;
}

#include "imports/ack_wait.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/mem.h"

#include <pthread.h>
#include <stdlib.h>

#define AGAIN_MS 50

struct df_ack_waits {
    struct df_store *store;
    pthread_t thread;

    struct df_mutex lock; /* guards all that follows */
    pthread_cond_t changed;
    bool stopping;
    size_t bytes;
    struct df_ack_wait *head; /* the longest first, so that it is due first */
    struct df_ack_wait **tail;
};

/* With the lock held. */
static struct df_ack_wait *take_first(struct df_ack_waits *l)
{
    struct df_ack_wait *w = l->head;

    l->head = w->next;
    if (!l->head)
        l->tail = &l->head;
    l->bytes -= w->bytes;
    return w;
}

static void run_again(struct df_ack_waits *l, struct df_ack_wait *w, bool stopping)
{
    if (stopping || !df_store_write(l->store, w->job))
        w->give_up(w);
}

static void *wait_for_answers(void *arg)
{
    struct df_ack_waits *l = arg;

    df_lock(&l->lock);
    while (!l->stopping || l->head) {
        int64_t left_ms = l->head ? l->head->due_ms - df_mono_ms(df_clock_real()) : 0;
        if (!l->head) {
            df_cond_wait(&l->changed, &l->lock);
        } else if (left_ms > 0 && !l->stopping) {
            (void)df_cond_wait_ms(&l->changed, &l->lock, left_ms);
        } else {
            struct df_ack_wait *w = take_first(l);
            bool stopping = l->stopping;
            df_unlock(&l->lock);
            run_again(l, w, stopping);
            df_lock(&l->lock);
        }
    }
    df_unlock(&l->lock);
    return NULL;
}

struct df_ack_waits *df_ack_waits_new(struct df_store *store)
{
    struct df_ack_waits *l = df_calloc(1, sizeof(*l));

    l->store = store;
    l->tail = &l->head;
    df_mutex_init(&l->lock);
    df_cond_init(&l->changed);
    if (pthread_create(&l->thread, NULL, wait_for_answers, l) != 0)
        abort();
    pthread_setname_np(l->thread, "acks");
    return l;
}

void df_ack_waits_stop(struct df_ack_waits *l)
{
    df_lock(&l->lock);
    bool already = l->stopping;
    l->stopping = true;
    pthread_cond_broadcast(&l->changed);
    df_unlock(&l->lock);
    if (!already)
        pthread_join(l->thread, NULL);
}

void df_ack_waits_free(struct df_ack_waits *l)
{
    pthread_cond_destroy(&l->changed);
    df_mutex_destroy(&l->lock);
    free(l);
}

bool df_ack_waits_add(struct df_ack_waits *l, struct df_ack_wait *w)
{
    int64_t now_ms = df_mono_ms(df_clock_real());

    if (w->since_ms == 0)
        w->since_ms = now_ms;
    if (w->bytes < DF_ACK_WAIT_LEAST)
        w->bytes = DF_ACK_WAIT_LEAST;
    df_lock(&l->lock);
    bool added = !l->stopping && l->bytes + w->bytes <= DF_ACK_WAIT_BYTES &&
                 now_ms - w->since_ms < DF_ACK_WAIT_MS;
    if (added) {
        w->due_ms = now_ms + AGAIN_MS;
        w->next = NULL;
        *l->tail = w;
        l->tail = &w->next;
        l->bytes += w->bytes;
        pthread_cond_signal(&l->changed);
    }
    df_unlock(&l->lock);
    return added;
}

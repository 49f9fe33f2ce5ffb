#include "base/loop.h"

#include "base/mem.h"

#include <assert.h>
#include <stdlib.h>

int64_t df_backoff_more(struct df_backoff *b)
{
    assert(b->min_ms > 0 && b->min_ms <= b->max_ms);
    b->now_ms = b->now_ms == 0 ? b->min_ms : b->now_ms * 2;
    if (b->now_ms > b->max_ms)
        b->now_ms = b->max_ms;
    return b->now_ms;
}

/* Waits until wait_ms are over, the loop is woken (its count of wake-ups differs from `seen`;
 * ignored during a backoff) or the loop stops. */
static void wait_for_turn(struct df_loop *l, int64_t wait_ms, uint64_t seen, bool backing_off)
    DF_REQUIRES(l->lock)
{
    const struct df_clock *clock = l->opt.clock;
    int64_t start_ms = df_mono_ms(clock);

    while (!l->stopping && (l->wakes == seen || backing_off)) {
        int64_t left_ms = wait_ms - (df_mono_ms(clock) - start_ms);
        if (wait_ms == DF_LOOP_IDLE)
            df_cond_wait(&l->changed, &l->lock);
        else if (left_ms <= 0)
            break;
        else
            (void)df_clock_wait_ms(clock, &l->changed, &l->lock, left_ms);
    }
}

static void take_turns(void *arg)
{
    struct df_loop *l = arg;
    struct df_backoff backoff = {.min_ms = l->opt.backoff_min_ms, .max_ms = l->opt.backoff_max_ms};
    int64_t wait_ms = l->opt.first_ms;
    uint64_t seen = 0;

    df_lock(&l->lock);
    for (;;) {
        wait_for_turn(l, wait_ms, seen, backoff.now_ms > 0);
        if (l->stopping)
            break;
        seen = l->wakes;
        df_unlock(&l->lock);
        wait_ms = l->opt.turn(l->opt.arg);
        if (wait_ms == DF_LOOP_FAILED)
            wait_ms = df_backoff_more(&backoff);
        else
            df_backoff_reset(&backoff);
        df_lock(&l->lock);
    }
    df_unlock(&l->lock);
    if (l->opt.ended)
        l->opt.ended(l->opt.arg);
}

void df_loop_start(struct df_loop *l, const struct df_loop_options *opt)
{
    assert(!l->threads && opt->turn && opt->clock);
    l->opt = *opt;
    if (l->opt.threads == 0)
        l->opt.threads = 1;
    df_mutex_init(&l->lock);
    df_cond_init(&l->changed);
    struct df_thread *threads = df_calloc(l->opt.threads, sizeof(*threads));
    l->threads = threads; /* from here on the loop can be woken */
    for (size_t i = 0; i < l->opt.threads; i++)
        df_thread_start(&threads[i], opt->name, take_turns, l);
}

void df_loop_wake(struct df_loop *l)
{
    if (!l->threads)
        return;
    df_lock(&l->lock);
    l->wakes++;
    pthread_cond_broadcast(&l->changed);
    df_unlock(&l->lock);
}

void df_loop_close(struct df_loop *l)
{
    if (!l->threads)
        return;
    df_lock(&l->lock);
    l->stopping = true;
    pthread_cond_broadcast(&l->changed);
    df_unlock(&l->lock);
}

void df_loop_stop(struct df_loop *l)
{
    df_loop_close(l);
    for (size_t i = 0; l->threads && i < l->opt.threads; i++)
        df_thread_join(&l->threads[i]);
}

void df_loop_release(struct df_loop *l)
{
    df_loop_stop(l);
    if (!l->threads)
        return;
    free(l->threads);
    l->threads = NULL;
    pthread_cond_destroy(&l->changed);
    df_mutex_destroy(&l->lock);
}

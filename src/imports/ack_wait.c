#include "imports/ack_wait.h"

#include "base/mem.h"

#include <assert.h>
#include <stdlib.h>

#define AGAIN_MS 50

struct df_ack_waits {
    struct df_store *store;
    const struct df_clock *clock;
    struct df_timer *timer;
    struct df_mutex lock;
    size_t bytes DF_GUARDED_BY(lock);
    size_t held DF_GUARDED_BY(lock); /* bytes of those that are held */
};

static void give_bytes(struct df_ack_wait *w)
{
    struct df_ack_waits *l = w->of;

    df_lock(&l->lock);
    size_t *bytes = w->held ? &l->held : &l->bytes;
    assert(*bytes >= w->bytes);
    *bytes -= w->bytes;
    df_unlock(&l->lock);
}

static void run_ack_again(struct df_timer_item *item, bool stopping)
{
    struct df_ack_wait *w = (struct df_ack_wait *)item;

    give_bytes(w);
    if (w->held && !stopping)
        w->over(w);
    else if (stopping || !df_store_write(w->of->store, w->job))
        w->give_up(w);
}

struct df_ack_waits *df_ack_waits_new(struct df_store *store, const struct df_clock *clock)
{
    struct df_ack_waits *l = df_calloc(1, sizeof(*l));

    l->store = store;
    l->clock = clock;
    df_mutex_init(&l->lock);
    l->timer = df_timer_new("acks", clock);
    return l;
}

void df_ack_waits_stop(struct df_ack_waits *l)
{
    df_timer_stop(l->timer);
}

void df_ack_waits_free(struct df_ack_waits *l)
{
    df_timer_free(l->timer);
    df_mutex_destroy(&l->lock);
    free(l);
}

static bool wait_for(struct df_ack_waits *l, struct df_ack_wait *w, bool hold)
{
    int64_t now_ms = df_mono_ms(l->clock);
    size_t least = w->bytes > DF_ACK_WAIT_LEAST ? w->bytes : DF_ACK_WAIT_LEAST;

    if (w->since_ms == 0)
        w->since_ms = now_ms;
    int64_t left_ms = DF_ACK_WAIT_MS - (now_ms - w->since_ms);
    df_lock(&l->lock);
    size_t *bytes = hold ? &l->held : &l->bytes;
    bool room = *bytes + least <= DF_ACK_WAIT_BYTES && left_ms > 0;
    *bytes += room ? least : 0;
    df_unlock(&l->lock);
    if (!room)
        return false;
    w->bytes = least;
    w->of = l;
    w->held = hold;
    w->item.fire = run_ack_again;
    if (df_timer_add(l->timer, &w->item, hold ? left_ms : AGAIN_MS))
        return true;
    give_bytes(w);
    return false;
}

bool df_ack_waits_add(struct df_ack_waits *l, struct df_ack_wait *w)
{
    return wait_for(l, w, false);
}

bool df_ack_waits_hold(struct df_ack_waits *l, struct df_ack_wait *w)
{
    return wait_for(l, w, true);
}

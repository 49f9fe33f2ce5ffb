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
};

static void give_bytes(struct df_ack_waits *l, size_t bytes)
{
    df_lock(&l->lock);
    assert(l->bytes >= bytes);
    l->bytes -= bytes;
    df_unlock(&l->lock);
}

static void run_ack_again(struct df_timer_item *item, bool stopping)
{
    struct df_ack_wait *w = (struct df_ack_wait *)item;

    give_bytes(w->of, w->bytes);
    if (stopping || !df_store_write(w->of->store, w->job))
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

bool df_ack_waits_add(struct df_ack_waits *l, struct df_ack_wait *w)
{
    int64_t now_ms = df_mono_ms(l->clock);
    size_t bytes = w->bytes > DF_ACK_WAIT_LEAST ? w->bytes : DF_ACK_WAIT_LEAST;

    if (w->since_ms == 0)
        w->since_ms = now_ms;
    df_lock(&l->lock);
    bool room = l->bytes + bytes <= DF_ACK_WAIT_BYTES && now_ms - w->since_ms < DF_ACK_WAIT_MS;
    l->bytes += room ? bytes : 0;
    df_unlock(&l->lock);
    if (!room)
        return false;
    w->bytes = bytes;
    w->of = l;
    w->item.fire = run_ack_again;
    if (df_timer_add(l->timer, &w->item, AGAIN_MS))
        return true;
    give_bytes(l, bytes);
    return false;
}

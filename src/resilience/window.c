#include "resilience/window.h"

#include "base/mem.h"

#include <assert.h>
#include <stdlib.h>

#define ROOM_LEAST 8

/* The run at this place from the oldest. */
static struct df_run *run_at(const struct df_window *w, uint32_t i)
{
    return &w->ring[(w->first + i) & (w->room - 1)];
}

void df_window_release(struct df_window *w)
{
    free(w->ring);
    *w = (struct df_window){0};
}

void df_window_advance(struct df_window *w, int64_t now_ns)
{
    while (w->count > 0 && now_ns - run_at(w, 0)->last_ns >= DF_WINDOW_NS) {
        w->calls -= run_at(w, 0)->calls;
        w->first = (w->first + 1) & (w->room - 1);
        w->count--;
    }
    assert(w->calls >= w->count);
    if (w->count == 0 && w->room > ROOM_LEAST)
        df_window_release(w);
}

static void grow_ring(struct df_window *w)
{
    uint32_t room = w->room ? 2 * w->room : ROOM_LEAST;
    struct df_run *ring = df_calloc(room, sizeof *ring);

    for (uint32_t i = 0; i < w->count; i++)
        ring[i] = *run_at(w, i);
    free(w->ring);
    w->ring = ring;
    w->room = room;
    w->first = 0;
}

static int joins_newest(const struct df_window *w, int64_t now_ns, int64_t join_ns)
{
    if (w->count == 0)
        return 0;
    /* The ring is full if the limit was raised a moment ago: then the call may count for longer. */
    return now_ns - w->began_ns < join_ns || now_ns == run_at(w, w->count - 1)->last_ns ||
           w->count == DF_WINDOW_RUNS;
}

void df_window_add(struct df_window *w, int64_t now_ns, int64_t join_ns)
{
    w->calls++;
    if (joins_newest(w, now_ns, join_ns)) {
        struct df_run *newest = run_at(w, w->count - 1);
        newest->last_ns = now_ns;
        newest->calls++;
        return;
    }
    if (w->count == w->room)
        grow_ring(w);
    assert(w->count < w->room && w->room <= DF_WINDOW_RUNS);
    *run_at(w, w->count++) = (struct df_run){.last_ns = now_ns, .calls = 1};
    w->began_ns = now_ns;
}

int64_t df_window_frees_ns(const struct df_window *w, int64_t now_ns)
{
    return w->count > 0 ? run_at(w, 0)->last_ns + DF_WINDOW_NS : now_ns;
}

void df_window_ages(const struct df_window *w, int64_t now_ns, size_t count, int64_t *calls)
{
    for (uint32_t i = 0; i < w->count; i++) {
        const struct df_run *run = run_at(w, i);
        int64_t part = (now_ns - run->last_ns) / (DF_WINDOW_NS / (int64_t)count);
        calls[part < (int64_t)count ? part : (int64_t)count - 1] += run->calls;
    }
}

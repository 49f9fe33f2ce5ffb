/*
 * A sliding minute: how many calls there were in the last 60 seconds.
 *
 * A ring of runs. A run is one call, or calls that came shortly after each other; it leaves the
 * minute when its last call does. So the count is never too low: nobody gets more than the limit in
 * any 60 seconds. A limit of up to DF_WINDOW_RUNS has a run for each call and is exact. Beyond
 * that, calls share a run for at most DF_WINDOW_JOIN_NS (59 ms), and a call may count for that much
 * longer than its minute.
 *
 * The ring grows with what it has to hold, to DF_WINDOW_RUNS runs of 16 bytes, and is freed when
 * the minute is empty. Not thread-safe; times are those of a monotonic clock and never go back.
 */
#ifndef DF_RESILIENCE_WINDOW_H
#define DF_RESILIENCE_WINDOW_H

#include <stddef.h>
#include <stdint.h>

#define DF_WINDOW_NS      INT64_C(60000000000)
#define DF_WINDOW_RUNS    1024
#define DF_WINDOW_JOIN_NS (DF_WINDOW_NS / (DF_WINDOW_RUNS - 2))
/* Where nothing depends on the count: half a second. */
#define DF_WINDOW_LOOSE_NS (DF_WINDOW_NS / 120)

struct df_run {
    int64_t last_ns; /* of its last call */
    int64_t calls;
};

/* Zeroed: empty. */
struct df_window {
    struct df_run *ring;
    uint32_t room;
    uint32_t first;
    uint32_t count;
    int64_t calls;    /* of all runs */
    int64_t began_ns; /* of the newest run */
};

/* Removes what has left the minute. Before each of the calls below. */
void df_window_advance(struct df_window *w, int64_t now_ns);

/* Adds a call. It joins the newest run if that began less than join_ns ago; 0: exact. */
void df_window_add(struct df_window *w, int64_t now_ns, int64_t join_ns);

/* When the oldest run leaves the minute; `now_ns` if there is none. */
int64_t df_window_frees_ns(const struct df_window *w, int64_t now_ns);

/* Adds the calls to `calls` by their age: the minute in `count` equal parts, the youngest first. */
void df_window_ages(const struct df_window *w, int64_t now_ns, size_t count, int64_t *calls);

void df_window_release(struct df_window *w);

#endif

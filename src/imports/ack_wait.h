/*
 * Acks that came before the answer that names them was stored wait here for a moment: their
 * requests stay suspended, and their jobs are run again every 50 ms until they know. Each waits for
 * up to DF_ACK_WAIT_MS, and together their bodies have DF_ACK_WAIT_BYTES: they hold more than that,
 * and for longer than most requests do.
 */
#ifndef DF_IMPORTS_ACK_WAIT_H
#define DF_IMPORTS_ACK_WAIT_H

#include "base/timer.h"
#include "store/store.h"

#define DF_ACK_WAIT_MS    2000
#define DF_ACK_WAIT_BYTES ((size_t)512 << 10)
#define DF_ACK_WAIT_LEAST ((size_t)4 << 10) /* that one counts for */

/* The caller's; untouched from add on until its job runs again or it is given up. */
struct df_ack_wait {
    struct df_timer_item item; /* first; this and `of` are the list's */
    struct df_ack_waits *of;
    struct df_job *job;
    /* The job will not run: the queue is full, or the process ends. */
    void (*give_up)(struct df_ack_wait *w);
    size_t bytes;     /* of the request's body */
    int64_t since_ms; /* monotonic, set by the first add; 0 before it */
};

struct df_ack_waits;

struct df_ack_waits *df_ack_waits_new(struct df_store *store, const struct df_clock *clock);
/* Gives up who waits; nobody is taken from now on. */
void df_ack_waits_stop(struct df_ack_waits *l);
void df_ack_waits_free(struct df_ack_waits *l);
/* False: it has waited long enough, or there is no room. Any thread. */
bool df_ack_waits_add(struct df_ack_waits *l, struct df_ack_wait *w);

#endif

/*
 * Acks that arrive before the answer that names them is stored wait here for a moment. Their
 * requests stay suspended, and their jobs run again every 50 ms until the chunk is known. Each
 * waits for up to DF_ACK_WAIT_MS. Together their bodies are limited to DF_ACK_WAIT_BYTES, because
 * waiting requests hold their memory for longer than most.
 *
 * Acks of chunks that nobody knows are held for as long, so that their answer takes the time of the
 * others; their jobs do not run again, and they have as much room of their own.
 */
#ifndef DF_IMPORTS_ACK_WAIT_H
#define DF_IMPORTS_ACK_WAIT_H

#include "base/timer.h"
#include "store/store.h"

#define DF_ACK_WAIT_MS    2000
#define DF_ACK_WAIT_BYTES ((size_t)512 << 10)
#define DF_ACK_WAIT_LEAST ((size_t)4 << 10) /* bytes that a smaller body counts for */

/* Owned by the caller, who does not touch it from add on until its job runs again or is given up.
 */
struct df_ack_wait {
    struct df_timer_item item; /* first; this and `of` are set by add */
    struct df_ack_waits *of;
    struct df_job *job;
    /* It was held for DF_ACK_WAIT_MS. */
    void (*over)(struct df_ack_wait *w);
    /* The job will not run: the queue is full, or the process ends. */
    void (*give_up)(struct df_ack_wait *w);
    size_t bytes;     /* of the request's body */
    int64_t since_ms; /* monotonic, set by the first add; 0 before it */
    bool held;        /* by df_ack_waits_hold */
};

struct df_ack_waits;

struct df_ack_waits *df_ack_waits_new(struct df_store *store, const struct df_clock *clock);
/* Gives up the acks that wait; add fails from now on. */
void df_ack_waits_stop(struct df_ack_waits *l);
void df_ack_waits_free(struct df_ack_waits *l);
/* False: it has waited long enough, there is no room, or the waits were stopped. Any thread. */
bool df_ack_waits_add(struct df_ack_waits *l, struct df_ack_wait *w);
/* Calls `over` when DF_ACK_WAIT_MS have passed since the first add or hold. False: as above. */
bool df_ack_waits_hold(struct df_ack_waits *l, struct df_ack_wait *w);

#endif

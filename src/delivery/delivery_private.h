/* What the parts of the engine share: engine.c (the thread, sending), cycle.c (jobs of the store).
 */
#ifndef DF_DELIVERY_PRIVATE_H
#define DF_DELIVERY_PRIVATE_H

#include "base/metrics.h"
#include "delivery/delivery.h"

#define DELIVERY_ANSWER_UNITS 500
#define DELIVERY_ERROR_UNITS  2000

enum delivery_outcome {
    DELIVERY_SENT,
    DELIVERY_RETRY,    /* failed; due again */
    DELIVERY_DEAD,     /* failed; waits for a person */
    DELIVERY_DEFERRED, /* not tried */
    DELIVERY_OUTCOMES
};

/*
 * Of one destination, of all channels together. Its share grows by one with every answer and is
 * halved by a call that came to nothing, as a sender does that does not know the line: one that
 * answers fast soon has hundreds of rows on their way, one that hangs keeps a few.
 */
struct delivery_destination {
    struct delivery_destination *next;
    size_t in_flight;
    size_t share;
    int64_t parked_ms; /* monotonic: the last row that was put off is due then */
    int64_t used_ms;   /* monotonic: last asked for, or heard of */
    int64_t heard_ms;  /* monotonic: a call has come back */
    size_t key_len;
    char key[];
};

/* A claimed row, from its claim to its settlement. */
struct delivery_row {
    struct delivery_row *next;
    struct delivery_channel *channel;
    struct df_arena arena;
    struct df_str id;
    int64_t attempt;
    int64_t fence;
    int64_t lease_until_ms;
    struct df_delivery_request request;
    struct df_call call;
    struct df_log_ctx log;
    struct df_breaker *breaker; /* held with the permit while the call is under way */
    struct df_breaker_permit permit;
    struct delivery_destination *destination;

    /* How it ended. */
    enum delivery_outcome outcome;
    bool tried;
    bool stale; /* somebody else had it when it was settled */
    int64_t started_ms;
    int64_t due_ms;
    struct df_str error;  /* absent: none */
    struct df_str answer; /* its beginning */
};

struct delivery_list {
    struct delivery_row *head;
    struct delivery_row **tail;
    size_t count;
};

/* One commit: settles rows and claims others. */
struct delivery_cycle {
    struct df_job job;
    struct delivery_channel *channel;
    struct delivery_list settle;
    size_t limit; /* rows to claim; 0: none */
    bool newest;  /* those that came last, since the oldest wait for a destination that is full */
    /* Set afresh each time the job runs. */
    struct delivery_list claimed;
    int64_t next_due_ms; /* -1: nothing is due */
    size_t stale;        /* settled by somebody else meanwhile */
    struct df_arena arena;
};

struct delivery_channel {
    const struct df_channel *c;
    struct df_delivery *d;
    struct delivery_cycle cycle;

    /* Under the engine's lock. */
    bool running; /* the cycle is with the store */
    bool woken;
    int64_t look_ms;    /* monotonic: when to look for due rows again */
    int64_t backoff_ms; /* after a failed cycle */
    size_t held;        /* rows claimed and not settled */
    char *main;         /* the destination of every row of the last claim; NULL: several, or none */
    bool several;       /* the last claim had rows for several */
    int64_t probe_ms;   /* monotonic: when to look beside a destination that is full */
    struct delivery_list ready;   /* to be sent */
    struct delivery_list settled; /* to be settled by the next cycle */

    struct df_metric *attempts[DELIVERY_OUTCOMES];
    struct df_metric *duration;
    struct df_metric *in_flight;
    struct df_metric *waiting;
    struct df_metric *oldest;
};

void delivery_list_init(struct delivery_list *l);
void delivery_list_add(struct delivery_list *l, struct delivery_row *row);
struct delivery_row *delivery_list_take(struct delivery_list *l);
/* Moves everything from `from` to the end of `to`. */
void delivery_list_move(struct delivery_list *to, struct delivery_list *from);

void delivery_row_free(struct delivery_row *row);
/* Text from outside in a form that a column takes: its valid beginning, cut. */
struct df_str delivery_clean(struct df_arena *a, struct df_str text, size_t max_units);

/* Wall clock, and how long a claim holds. */
int64_t delivery_now(const struct delivery_channel *ch);
int64_t delivery_lease(const struct delivery_channel *ch);

/* --- cycle.c ---------------------------------------------------------------------------------- */

enum df_code delivery_cycle_run(struct df_db *db, struct df_job *job, struct df_err *err);

#endif

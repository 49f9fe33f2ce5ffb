/*
 * What the parts of the engine share: engine.c (the thread), cycle.c (jobs of the store), send.c (a
 * row on its way), destinations.c (their slots), figures.c.
 */
#ifndef DF_DELIVERY_PRIVATE_H
#define DF_DELIVERY_PRIVATE_H

#include "base/metrics.h"
#include "delivery/delivery.h"

#define DELIVERY_ANSWER_UNITS 500
#define DELIVERY_ERROR_UNITS  2000
#define DELIVERY_HELD_MAX     1024 /* rows of a channel claimed at the same time */
#define DELIVERY_SHARE_FIRST  16   /* of them for a destination that is not known yet */
#define DELIVERY_BUCKETS      1024 /* of the table of destinations */

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

struct df_delivery {
    struct df_delivery_options opt;
    struct delivery_channel **channels;
    size_t channel_count;

    pthread_t thread;
    bool started;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool stopping;
    bool quiet;         /* the thread has seen it: nothing more is handed to the client */
    bool abandon;       /* nor is anything waited for but cycles that run */
    int64_t figures_ms; /* monotonic: when waiting rows were last counted */
    uint64_t figures_taken;
    struct delivery_destination *destinations[DELIVERY_BUCKETS];
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
int64_t delivery_mono_ms(const struct df_delivery *d);

/* --- cycle.c ---------------------------------------------------------------------------------- */

enum df_code delivery_cycle_run(struct df_db *db, struct df_job *job, struct df_err *err);

/* --- destinations.c --------------------------------------------------------------------------- */

/* Scheme, host and port: up to the slash behind them, without credentials. */
struct df_str delivery_destination_key(const char *url);
/* What breaker and share go by. Absent: the row could not be built. */
struct df_str delivery_key(const struct delivery_row *row);
/* NULL: nothing was sent there for long. Under the lock, as the next two. */
struct delivery_destination *delivery_destination_find(struct df_delivery *d, struct df_str key);
/* A slot; NULL: the destination has its share. */
struct delivery_destination *delivery_destination_enter(struct df_delivery *d, struct df_str key);
void delivery_destination_leave(struct df_delivery *d, const struct delivery_row *row);
/* How long a row is put off that the destination does not take now: one after the other, so that a
 * long backlog comes back at a rate that costs little. Takes the lock. */
int64_t delivery_park_ms(struct df_delivery *d, struct df_str key, int64_t least_ms);
/* Those that nothing was sent to for long. Takes the lock. */
void delivery_destinations_forget(struct df_delivery *d);
void delivery_destinations_free(struct df_delivery *d);

/* --- send.c ----------------------------------------------------------------------------------- */

/* Hands the rows to the client, or puts them off; leaves the list empty. Without the lock. */
void delivery_send(struct df_delivery *d, struct delivery_list *rows);
/* The row goes back as if it had not been claimed. Without the lock. */
void delivery_defer(struct delivery_row *row, int64_t delay_ms, const char *why);

/* --- figures.c -------------------------------------------------------------------------------- */

void delivery_metrics_make(struct delivery_channel *ch, struct df_str name);
/* Every few seconds: counts what waits, forgets destinations, removes old attempts. */
void delivery_take_figures(struct df_delivery *d);

#endif

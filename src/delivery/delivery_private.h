/*
 * What the parts of the engine share: engine.c (the thread), cycle.c (jobs of the store), send.c (a
 * row on its way), shares.c (slots of destinations and tenants), held.c (rows and bytes in hand),
 * times.c (clocks that are set), figures.c.
 */
#ifndef DF_DELIVERY_PRIVATE_H
#define DF_DELIVERY_PRIVATE_H

#include "base/list.h"
#include "base/loop.h"
#include "base/map.h"
#include "base/metrics.h"
#include "delivery/attempts.sql.h"
#include "delivery/delivery.h"
#include "net/url.h"

#define DELIVERY_ANSWER_UNITS 500
#define DELIVERY_ERROR_UNITS  2000
#define DELIVERY_HELD_MAX     1024 /* rows of a channel claimed at the same time */
#define DELIVERY_SHARE_FIRST  16   /* of them for a destination that is not known yet */
/* Bytes of what is claimed: of all channels together, and of one. A channel that holds nothing may
 * always take a row. */
#define DELIVERY_BYTES_ALL     ((int64_t)32 << 20)
#define DELIVERY_BYTES_CHANNEL (DELIVERY_BYTES_ALL / 4)

enum delivery_outcome {
    DELIVERY_SENT,
    DELIVERY_RETRY,    /* failed; due again */
    DELIVERY_DEAD,     /* failed; waits for a person */
    DELIVERY_DEFERRED, /* not tried */
    DELIVERY_OUTCOMES
};

enum delivery_share_kind { DELIVERY_DESTINATION, DELIVERY_TENANT, DELIVERY_SHARE_KINDS };

/*
 * What a destination, or a tenant, has on its way, of all channels together, and its share. The
 * share of a destination grows by one with every answer and is halved by a call that came to
 * nothing, as a sender does that does not know the line: one that answers fast soon has hundreds of
 * rows on their way, one that hangs keeps a few. That of a tenant, who may have many destinations,
 * good and bad, moves more slowly.
 */
struct delivery_share {
    enum delivery_share_kind kind;
    size_t in_flight;
    size_t promised; /* claimed, and about to be sent */
    size_t share;
    int64_t bytes;     /* of those in flight, and of those */
    int64_t parked_ms; /* destination, monotonic: the last row that was put off is due then */
    struct delivery_share *tenant; /* destination: whose row was put off last; or NULL */
    size_t parked;                 /* tenant: destinations of its own that rows are put off for */
    int64_t used_ms;               /* monotonic: last asked for, or heard of */
    int64_t heard_ms;              /* monotonic: a call has come back */
    size_t key_len;
    char key[];
};

/* A claimed row, from its claim to its settlement. */
struct delivery_row {
    struct df_link link; /* it is in one list at a time */
    struct delivery_channel *channel;
    struct df_arena arena;
    struct df_str id;
    int64_t attempt;
    int64_t fence;
    int64_t lease_until_ms; /* wall clock, as the row has it: a part of the fence */
    int64_t lease_end_ms;   /* monotonic: what an attempt goes by */
    int64_t bytes;          /* of its payload, as the claim says; counted while it is held */

    /* Under the engine's lock, while it is in the channel's table of what it holds. */
    bool settling;        /* a cycle is about to let go of it */
    int64_t last_attempt; /* that a claim of it has counted */
    bool renewed; /* it was claimed again while it was on its way: this replaces what it has */
    int64_t renewed_fence;
    int64_t renewed_until_ms;

    struct df_delivery_request request;
    struct df_str key; /* what breaker and share of the destination go by; absent: not known yet */
    struct df_out out;
    struct df_log_ctx log;
    struct delivery_share *destination; /* both while it is promised a slot, or has one */
    struct delivery_share *tenant;      /* or NULL: it is nobody's */
    bool promised;

    /* How it ended. */
    enum delivery_outcome outcome;
    bool loaded; /* what it sends is there */
    bool tried;
    bool stale; /* somebody else had it when it was settled */
    int64_t started_ms;
    int64_t due_ms;
    struct df_str error;  /* absent: none */
    struct df_str answer; /* its beginning */
};

/* One commit: settles rows and claims others. */
struct delivery_cycle {
    struct df_job job;
    struct delivery_channel *channel;
    struct df_list settle;
    size_t limit; /* rows to claim; 0: none */
    bool newest;  /* those that came last, since the oldest wait for a destination that is full */
    /* Set afresh each time the job runs. */
    size_t found;           /* rows that the claim took, whatever became of them then */
    int64_t found_bytes;    /* of them */
    size_t parked;          /* of them, put back: who they are of has its share */
    struct df_list claimed; /* to be sent */
    struct df_list renewed; /* on their way already: only id and fence */
    int64_t reserved;       /* bytes of `claimed`, counted as held */
    int64_t next_due_ms;    /* -1: nothing is due */
    size_t stale;           /* settled by somebody else meanwhile */
    struct df_arena arena;
};

struct delivery_channel {
    const struct df_channel *c;
    struct df_delivery *d;
    struct delivery_cycle cycle;

    /* Under the engine's lock. */
    bool running;     /* the cycle is with the store */
    int64_t begun_ms; /* monotonic: since then */
    bool woken;
    int64_t look_ms;           /* monotonic: when to look for due rows again */
    struct df_backoff backoff; /* after a failed cycle, until look_ms */
    size_t held;               /* rows claimed and not settled */
    int64_t held_bytes;        /* of them, and of what a cycle is about to claim */
    struct df_map held_rows;   /* by id */
    int64_t row_bytes;         /* of a row of the last claim, about; 0: not known */
    char *main; /* the destination or tenant of all rows of the last claim; NULL: several */
    enum delivery_share_kind main_kind;
    bool several;     /* the last claim had rows for several */
    int64_t probe_ms; /* monotonic: when to look beside one that is full */
    size_t most;      /* rows of a claim for several */
    bool crowded;     /* most rows of the last such claim were put off */
    bool took_newest; /* the last claim was one of the newest */

    /* The clock was set back (times.c). Under the lock. */
    bool look_ahead; /* it may have been: the rows are to be looked at */
    int64_t
        ahead_until_ms;   /* rows that were written or tried until then are from before; 0: none */
    int64_t rebase_ms;    /* monotonic: when they are set right; 0: not to be */
    struct df_list ready; /* to be sent */
    struct df_list settled; /* to be settled by the next cycle */

    struct df_metric *attempts[DELIVERY_OUTCOMES];
    struct df_metric *duration;
    struct df_metric *in_flight;
    struct df_metric *waiting;
    struct df_metric *oldest;
};

struct delivery_pruning {
    struct df_job job;
    struct df_delivery *d;
    struct df_p_delivery_attempt_prune params;
    int64_t begun_ms; /* monotonic */
    /* Under the lock. */
    bool running;
    int64_t at_ms; /* monotonic: when the next step is due */
};

struct df_delivery {
    struct df_delivery_options opt;
    struct delivery_channel **channels;
    size_t channel_count;

    struct df_thread thread;
    struct df_mutex lock;
    pthread_cond_t changed;
    bool stopping;
    bool abandon;        /* nothing is waited for but cycles that run and calls on their way */
    size_t on_their_way; /* calls, of all channels */
    int64_t figures_ms;  /* monotonic: when waiting rows were last counted */
    int64_t held_bytes;  /* of all channels */
    int64_t clock_ms;    /* the wall clock less the monotonic one, when last looked at */
    struct delivery_pruning pruning;
    struct df_map shares[DELIVERY_SHARE_KINDS];
};

/* The first row of a list, taken out; NULL: there is none. */
static inline struct delivery_row *delivery_list_take(struct df_list *l)
{
    return DF_LIST_TAKE(l, struct delivery_row, link);
}

/* Not under the lock. */
void delivery_row_free(struct delivery_row *row);
/* Text from outside in a form that a column takes: its valid beginning, cut. */
struct df_str delivery_clean(struct df_arena *a, struct df_str text, size_t max_units);

/* Wall clock, and how long a claim holds. */
int64_t delivery_now(const struct delivery_channel *ch);
int64_t delivery_lease(const struct delivery_channel *ch);
int64_t delivery_mono_ms(const struct df_delivery *d);

/* --- cycle.c ---------------------------------------------------------------------------------- */

enum df_code delivery_cycle_run(struct df_db *db, struct df_job *job, struct df_err *err);

/* --- held.c: under the lock, but for the first ------------------------------------------------ */

/* What a cycle has claimed: rows that are on their way already become `renewed`, those that there
 * is no memory for go to `back`, the rest stays in `claimed`, and its bytes are counted. Takes the
 * lock. */
void delivery_held_sort(struct delivery_cycle *cy, struct df_list *back);
/* Rows of `claimed` that are put back after all: their bytes are given back. Takes the lock. */
void delivery_held_give(struct delivery_cycle *cy, const struct df_list *rows);
/* The cycle's claim came to nothing, or is made again: its bytes are given back. Takes the lock. */
void delivery_held_undo(struct delivery_cycle *cy);
/* The claim was committed. */
void delivery_held_add(struct delivery_channel *ch, struct delivery_row *row)
    DF_REQUIRES(ch->d->lock);
void delivery_held_renew(struct delivery_channel *ch, const struct delivery_row *claim)
    DF_REQUIRES(ch->d->lock);
/* The row is settled. */
void delivery_held_remove(struct delivery_channel *ch, const struct delivery_row *row)
    DF_REQUIRES(ch->d->lock);
/* Its settlement is tried now: with the newest fence; `settling` false: it has failed. */
void delivery_held_settling(struct df_list *rows, bool settling);
/* How many rows of the usual size there is memory for, at most `most`. */
size_t delivery_held_room(const struct delivery_channel *ch, size_t most);

/* --- shares.c --------------------------------------------------------------------------------- */

/* NULL: nothing was sent there for long. Under the lock, as the next two. */
struct delivery_share *delivery_share_find(struct df_delivery *d, enum delivery_share_kind kind,
                                           struct df_str key) DF_REQUIRES(d->lock);
/* A slot of the destination's and of the tenant's; NULL: it has one, else who is full. */
const char *delivery_share_enter(struct df_delivery *d, struct delivery_row *row)
    DF_REQUIRES(d->lock);
/* The same for a row that is claimed and not built yet, as far as it is known whose it is. False:
 * they are full. Takes the lock. */
bool delivery_share_promise(struct df_delivery *d, struct delivery_row *row);
/* It is not sent after all. Takes the lock. */
void delivery_share_break(struct df_delivery *d, struct delivery_row *row);
void delivery_share_leave(struct df_delivery *d, struct delivery_row *row) DF_REQUIRES(d->lock);
/* How long a row is put off that may not go now: one after the other, so that a long backlog comes
 * back at a rate that costs little. Takes the lock. */
int64_t delivery_park_ms(struct df_delivery *d, const struct delivery_row *row, int64_t least_ms);
#define DELIVERY_PARK_MS 250 /* that who has its share is not asked for so long */
/* Those that nothing was sent to for long. Takes the lock. */
void delivery_shares_forget(struct df_delivery *d);
void delivery_shares_free(struct df_delivery *d);

/* --- times.c ---------------------------------------------------------------------------------- */

/* Every few seconds: whether the clock was set back, and what is to be done about it. */
void delivery_watch_clock(struct df_delivery *d);

/* --- send.c ----------------------------------------------------------------------------------- */

/* Hands the rows to the client, or puts them off; leaves the list empty. Without the lock. */
void delivery_send(struct df_delivery *d, struct df_list *rows);
/* The row goes back as if it had not been claimed. Without the lock. */
void delivery_defer(struct delivery_row *row, int64_t delay_ms, const char *why);

/* --- figures.c -------------------------------------------------------------------------------- */

void delivery_metrics_make(struct delivery_channel *ch, struct df_str name);
/* Every few seconds: counts what waits. */
void delivery_take_figures(struct df_delivery *d);
/* Removes old attempts, a few at a time, when the next step is due. */
void delivery_prune(struct df_delivery *d);
/* When that is: monotonic; INT64_MAX: a step is under way. Under the lock. */
int64_t delivery_prune_at(const struct df_delivery *d);

#endif

/*
 * What the parts of the engine share: engine.c (the thread), plan.c (what is claimed, and when),
 * claim.c and settle.c (jobs of the store), send.c (a row on its way), targets.c and health.c (how
 * targets are), shares.c (slots of destinations and tenants), held.c (rows and bytes in hand),
 * times.c (a clock that is set back), figures.c (metrics).
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
#include "resilience/tries.h"
#include "shards/shards.h"

#define DELIVERY_ANSWER_UNITS 500
#define DELIVERY_ERROR_UNITS  2000
#define DELIVERY_HELD_MAX     1024 /* rows of a channel claimed at the same time */
#define DELIVERY_SHARE_FIRST  16   /* of them for a new destination */
#define DELIVERY_TARGET_MAX   1000 /* characters of a target's name: DeliveryTargets.Target */
#define DELIVERY_WANTS        16   /* targets whose waiting rows one cycle claims */
/* A row that waits for its target is due after this time, whatever happens to the processes. */
#define DELIVERY_HOLD_MS (INT64_C(3600) * 1000)
/* Bytes of claimed rows, for all channels together and for one. A channel that holds nothing may
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
 * What a destination or a tenant has on its way, over all channels, and its share of the slots. The
 * share of a destination grows by one with every answer and is halved by a call without one, like a
 * congestion window: a destination that answers fast soon has hundreds of rows on their way, one
 * that hangs keeps a few. The share of a tenant, who may have good and bad destinations, moves more
 * slowly.
 */
struct delivery_share {
    enum delivery_share_kind kind;
    size_t in_flight;
    size_t promised; /* claimed, and about to be sent */
    size_t share;
    int64_t bytes;     /* of rows in flight and promised */
    int64_t parked_ms; /* destination, monotonic: when the last row that was put off is due */
    struct delivery_share *tenant; /* destination: tenant of the row put off last, or NULL */
    size_t parked;                 /* tenant: its destinations with rows that are put off */
    int64_t used_ms;               /* monotonic: last used */
    int64_t heard_ms;              /* monotonic: when a call last came back */
    size_t key_len;
    char key[];
};

/*
 * A target: a channel, and a URL without its query or a name. All but the constant part is guarded
 * by the engine's lock.
 */
struct delivery_target {
    struct delivery_channel *channel;
    int64_t id; /* DeliveryTargets.Id; 0: it has no row yet, and so no row can wait for it */
    /* The keys of its breaker, its host's breaker and its share of slots; NULL: not known. */
    char *breaker;
    char *host;
    char *share;
    size_t rows;     /* rows in hand */
    int64_t used_ms; /* monotonic */

    /* Arrivals: as the database said, and seen here since. */
    bool known;
    int64_t saved;
    int64_t unsaved;
    int64_t last_arrived_ms;
    int64_t last_failed_ms;
    int64_t others_ms; /* wall clock: when rows of other processes were seen to arrive */
    char error[512];
    bool dirty;  /* there is something to write besides arrivals */
    bool saving; /* a job of health.c refers to it */

    bool down; /* the breaker is not closed */
    int64_t down_since_ms;
    bool down_told; /* the database has been told whether it is */
    bool paused;
    int64_t shut_until_ms; /* monotonic: a probe was asked to wait so long */
    bool has_held;         /* rows may wait for it */
    int64_t full_until_ms; /* monotonic: rows that waited found no slot, and are left alone */
    size_t most;           /* rows that one claim takes; 0: as many as there is room for */

    struct df_metric *up;
    size_t name_at; /* in the key, which is "<channel> <name>" */
    size_t key_len;
    char key[];
};

/* Rows to claim that wait for a target. */
struct delivery_want {
    struct delivery_target *of; /* not forgotten while it has_held */
    int64_t id;                 /* of the target */
    size_t limit;
    size_t in_hand; /* rows of the target, which the claim may find again */
    bool probe;
    /* Set by the claim. */
    size_t found;
    size_t put_back; /* of them, to wait again */
    bool more;       /* there may be more */
};

struct delivery_wants {
    struct delivery_want at[DELIVERY_WANTS];
    size_t count;
    size_t turn_at; /* where the next plan begins */
};

/* A row in hand, from its claim to its settlement. */
struct delivery_row {
    struct df_link link; /* a row is in one list at a time */
    struct delivery_channel *channel;
    struct df_arena arena;
    struct df_str id;
    int64_t attempt; /* the number of this try */
    /* As the claim found it: what a settlement must find unchanged. */
    int64_t version; /* of its content */
    int64_t was_due_ms;
    unsigned shard;
    int64_t epoch; /* of the shard */
    int64_t bytes; /* of its payload, as the claim says; counted while it is in hand */

    /* Guarded by the engine's lock while the row is in held_rows of its channel. */
    int64_t sent_ms; /* monotonic: when it was handed to the client; 0: it is not on its way */
    bool shown;      /* as Sending, in the table */
    bool marked;     /* it was taken under a mark */

    struct df_delivery_request request;
    struct df_str key;              /* of its destination's share; absent: not known yet */
    struct df_str breaker;          /* the key of its breaker */
    struct delivery_target *target; /* NULL: not known yet, or the channel keeps no health */
    struct df_tries tries;          /* what it went through, as the claim found it */
    int64_t arrived_before;         /* at the target, before this try; -1: not known */
    struct df_out out;
    struct df_log_ctx log;
    /* Set while the row is promised a slot or has one. */
    struct delivery_share *destination;
    struct delivery_share *tenant; /* NULL: no tenant's row */
    bool promised;

    bool probe;         /* claimed to find out whether its target is back */
    int64_t waited_for; /* the id of the target that it waited for until this claim; 0: none */

    /* How it ended. */
    enum delivery_outcome outcome;
    enum df_tries_verdict verdict; /* why it was given up */
    int64_t held_for;              /* the id of the target that it waits for; 0: none */
    bool counted;                  /* the try changed AttemptCount */
    bool loaded;                   /* `load` returned it */
    bool tried;
    bool lost;  /* its shard was another's when it was settled */
    bool stale; /* the same, or the row had changed: nothing of it was written */
    int64_t started_ms;
    int64_t due_ms;
    struct df_str error;  /* absent: none */
    struct df_str answer; /* its beginning */
};

/* A row that is shown as Sending. */
struct delivery_shown {
    struct df_str id;
    int64_t version;
    unsigned shard;
    int64_t epoch;
};

/* A job of the store's writer, and so a commit: settles rows that came back. */
struct delivery_settling {
    struct df_job job;
    struct delivery_channel *channel;
    struct df_list rows;
    struct delivery_shown *shown; /* rows on their way that take long */
    size_t shown_count;
    struct df_arena shown_arena;
    uint32_t reset; /* shards in which a lost owner may have left rows as Sending */
    /* Set afresh each time the job runs. */
    size_t stale;  /* rows of shards that are another's */
    uint32_t lost; /* shards of its rows that are another's */
    uint32_t own;  /* shards that are this process's */
    struct df_arena arena;
};

/* Where claims by due time go on. */
struct delivery_cursor {
    int64_t due_ms;
    char id[DF_CHANNEL_IDS_SIZE]; /* "": before the first row that is due then */
};

enum delivery_look { DELIVERY_LOOK_ON, DELIVERY_LOOK_BACK, DELIVERY_LOOK_WHOLE };

/* The time with care: marks by id, of the claim's jobs alone. */
struct delivery_care {
    bool begun;
    struct df_map marks;
    struct df_arena arena;
};

/* A job of a reader: finds rows that are due, or whose target is back, and loads them. */
struct delivery_claim {
    struct df_job job;
    struct delivery_channel *channel;
    size_t limit;     /* rows to find by due time; 0: none */
    bool newest;      /* the newest rows, since the oldest wait for a destination that is full */
    bool careful;     /* under marks: claim.c */
    bool care_begins; /* marks are read anew */
    struct delivery_care care;
    enum delivery_look look;
    struct delivery_cursor from;
    size_t passed;               /* rows in hand that it may find again */
    size_t marked;               /* careful: rows in hand that have a mark */
    struct delivery_wants wants; /* rows that wait for a target, claimed too */
    uint32_t shards;
    int64_t epochs[DF_SHARDS];
    int64_t begun_ms; /* monotonic */
    /* Set afresh each time the job runs. */
    bool alone;                /* the row that is taken is a suspect */
    struct delivery_cursor at; /* behind the last row that was found */
    size_t found;              /* rows that the claim by due time took, put back or not */
    size_t taken;              /* the same of all claims */
    int64_t taken_bytes;       /* of them */
    size_t parked;             /* of them, put off: their owner already has its share */
    int64_t took_ms;           /* to find them */
    bool more;                 /* there may be more rows behind the cursor */
    struct df_list claimed;    /* to be sent */
    struct df_list back;       /* to be settled: put off, or refused */
    int64_t reserved;          /* bytes of both, counted as held */
    int64_t next_due_ms;       /* -1: nothing is due */
    struct df_arena arena;
};

struct delivery_channel {
    const struct df_channel *c;
    struct df_delivery *d;
    struct df_shard_group *shards;
    struct delivery_settling settling;
    struct delivery_claim claim;

    /* The engine's lock guards all up to `settled`. While a job is with the store, its lists are
     * the store's. Times are monotonic, unless they say otherwise. */

    /* Settling. */
    int64_t settled_ms;               /* when the last settlement began */
    int64_t again_ms;                 /* when to settle again after a failure */
    struct df_backoff settle_backoff; /* until again_ms */
    int64_t show_ms;                  /* when to look for rows that take long */
    int64_t figures_ms;               /* when waiting rows may be counted again */
    uint32_t reset;                   /* shards to be reset by the next settlement */
    bool is_settling;
    bool is_claiming;
    bool woken;  /* there is new work */
    bool yields; /* others reach a target that this process does not */

    /* Claiming. */
    int64_t claimed_ms; /* when the last claim began */
    int64_t full_ms;    /* when to claim again, unless a row comes back before */
    struct delivery_cursor cursor;
    int64_t since_ms; /* wall clock: rows that are due since then were committed; INT64_MAX: none */
    int64_t back_ms;  /* when to look behind the cursor */
    int64_t whole_ms; /* when to look at all rows */
    int64_t look_ms;  /* when to look for due rows again */
    struct df_backoff backoff; /* after a failed claim, until look_ms */
    int64_t yielded_until_ms;  /* the shards are left to others until then */

    /* Rows in hand. */
    struct df_map held_rows; /* by id */
    size_t held;             /* of them */
    int64_t held_bytes;      /* of them, and of rows that are being claimed */
    struct df_list ghosts;   /* settled while a claim runs, which may still find them */
    size_t careful_left;     /* rows that are taken with care; 0: no care is needed */
    int64_t careful_ms;      /* when that ends */
    size_t marked;           /* rows in hand that have a mark */

    /* What the last claims found. */
    int64_t row_bytes; /* mean of the last claim; 0: not known */
    char *main;        /* the destination or tenant of all rows of the last claim; NULL: several */
    int64_t probe_ms;  /* when to look past a full destination */
    int64_t newest_ms; /* when the newest rows may be claimed for that */
    size_t most;       /* rows of a claim for several */
    size_t turn_at;    /* where targets are looked through next */
    enum delivery_share_kind main_kind;
    bool several;     /* the last claim had rows for several */
    bool crowded;     /* most rows of the last such claim were put off */
    bool took_newest; /* the last claim was one of the newest */
    bool holding;     /* the last row of it was left to wait for its target */
    bool suspect;     /* a row in hand had a mark before: it goes alone */
    bool care_begins; /* shards were taken of a process that did not end as it should */
    bool paused;      /* a person stopped the channel: nothing is claimed */
    bool pause_seen;  /* for health.c, while it reads */

    /* For a clock that was set back (times.c). */
    bool look_ahead;        /* rows from "after now" are to be looked for */
    int64_t ahead_until_ms; /* wall clock: the latest time of such a row; 0: none */
    int64_t rebase_ms;      /* when they are made due; 0: nothing to do */

    struct df_list ready;   /* to be sent */
    struct df_list settled; /* to be settled next */

    struct df_metric *attempts[DELIVERY_OUTCOMES];
    struct df_metric *duration;
    struct df_metric *in_flight;
    struct df_metric *waiting;
    struct df_metric *oldest;
    struct df_metric *waiting_for_target;
    struct df_metric *given_up;
    struct df_metric *given_up_total;
};

struct df_delivery {
    struct df_delivery_options opt;
    struct delivery_channel **channels;
    size_t channel_count;

    struct df_thread thread;
    struct df_mutex lock;
    pthread_cond_t changed;
    bool stopping DF_GUARDED_BY(lock);
    bool abandon DF_GUARDED_BY(lock);        /* wait only for running jobs and calls on their way */
    size_t on_their_way DF_GUARDED_BY(lock); /* calls, of all channels */
    int64_t held_bytes DF_GUARDED_BY(lock);  /* of all channels */
    struct df_map shares[DELIVERY_SHARE_KINDS] DF_GUARDED_BY(lock);
    struct df_map targets DF_GUARDED_BY(lock); /* by "<channel> <name>" */
    bool health_running DF_GUARDED_BY(lock);   /* a job of health.c is with the store */
    bool health_hurry DF_GUARDED_BY(lock);     /* a target has no row yet */
    bool health_known DF_GUARDED_BY(lock);     /* pauses were read: until then nothing is claimed */
    int64_t health_ms DF_GUARDED_BY(lock);     /* monotonic: when the next job is due */
    struct df_backoff health_backoff DF_GUARDED_BY(lock); /* after a job that failed */
    /* The engine's thread alone. */
    int64_t figures_ms; /* monotonic: when waiting rows were last counted */
    int64_t clock_ms;   /* wall clock minus monotonic clock, when last looked at */
};

/* Removes the first row of a list; NULL: the list is empty. */
static inline struct delivery_row *delivery_list_take(struct df_list *l)
{
    return DF_LIST_TAKE(l, struct delivery_row, link);
}

/* Takes the lock. */
void delivery_row_free(struct delivery_row *row);
/* Text from outside as a column takes it: the longest valid UTF-8 prefix, cut to max_units. */
struct df_str delivery_clean(struct df_arena *a, struct df_str text, size_t max_units);
/* The same of a peer's answer, which may be a document. */
struct df_str delivery_clean_answer(const struct df_delivery *d, struct df_arena *a,
                                    struct df_str answer);

/* Wall clock, and the lease of the shards. */
int64_t delivery_now(const struct delivery_channel *ch);
int64_t delivery_lease(const struct delivery_channel *ch);
int64_t delivery_mono_ms(const struct df_delivery *d);

/* --- plan.c ----------------------------------------------------------------------------------- */

/* Plans the next claim; false: nothing is claimed now. */
bool delivery_plan_claim(struct df_delivery *d, struct delivery_channel *ch, int64_t now_ms)
    DF_REQUIRES(d->lock);
/* When this channel has something to claim without being woken; INT64_MAX: not by itself. */
int64_t delivery_plan_next(struct df_delivery *d, struct delivery_channel *ch, int64_t now_ms)
    DF_REQUIRES(d->lock);
/* What a claim found decides when the next one follows, and how large it is. */
void delivery_plan_found(struct delivery_channel *ch) DF_REQUIRES(ch->d->lock);
void delivery_plan_failed(struct delivery_channel *ch) DF_REQUIRES(ch->d->lock);
/* These rows were settled; one of them may be the next that is due. */
void delivery_plan_settled(struct delivery_channel *ch, const struct df_list *rows)
    DF_REQUIRES(ch->d->lock);

/* --- claim.c ---------------------------------------------------------------------------------- */

/* Starts the claim that was planned. Takes the lock. */
void delivery_claim_start(struct delivery_channel *ch);
void delivery_care_end(struct delivery_care *care);
/* Clears the marks that are left when the engine's thread has ended. */
void delivery_claim_rest(struct delivery_channel *ch);
/* df_shards_leave for each of these. */
void delivery_shards_leave(struct delivery_channel *ch, uint32_t shards);

/* --- settle.c --------------------------------------------------------------------------------- */

/* Plans a settlement of what came back; false: there is nothing to write now. */
bool delivery_settle_plan(struct df_delivery *d, struct delivery_channel *ch, int64_t now_ms)
    DF_REQUIRES(d->lock);
/* When there is, without being woken. */
int64_t delivery_settle_at(struct df_delivery *d, const struct delivery_channel *ch, int64_t now_ms)
    DF_REQUIRES(d->lock);
void delivery_settle_start(struct delivery_channel *ch);
/* Settles what is left when the engine's thread has ended. */
void delivery_settle_rest(struct delivery_channel *ch);

/* --- held.c ----------------------------------------------------------------------------------- */

/* Whether there is memory for the row; its bytes are counted then. Takes the lock. */
bool delivery_held_reserve(struct delivery_claim *cl, const struct delivery_row *row);
/* Gives back the bytes of a claim that failed, or runs again. Takes the lock. */
void delivery_held_undo(struct delivery_claim *cl);
/* Whether a row of this id is in hand, or was when the claim began. Takes the lock. */
bool delivery_held_has(struct delivery_channel *ch, struct df_str id);
/* The row is in hand from now on. */
void delivery_held_add(struct delivery_channel *ch, struct delivery_row *row)
    DF_REQUIRES(ch->d->lock);
/* The row is settled or dropped. */
void delivery_held_remove(struct delivery_channel *ch, struct delivery_row *row)
    DF_REQUIRES(ch->d->lock);
/* Rows in hand that are to be sent, or are on their way. Under the engine's lock. */
size_t delivery_held_sending(const struct delivery_channel *ch);
/* How many rows of the usual size there is memory for, at most `most`. */
size_t delivery_held_room(const struct df_delivery *d, const struct delivery_channel *ch,
                          size_t most) DF_REQUIRES(d->lock);

/* --- targets.c -------------------------------------------------------------------------------- */

struct df_str delivery_target_name(const struct delivery_target *t);
/* NULL: it is not in memory. */
struct delivery_target *delivery_target_find(struct df_delivery *d,
                                             const struct delivery_channel *ch, struct df_str name)
    DF_REQUIRES(d->lock);
/* Never NULL. */
struct delivery_target *delivery_target_get(struct df_delivery *d, struct delivery_channel *ch,
                                            struct df_str name) DF_REQUIRES(d->lock);
/* Finds the target of a row whose request was built, and names its breaker. Takes the lock. */
void delivery_target_join(struct delivery_row *row);
/* The row lets go of its target, if it has one. Takes the lock. */
void delivery_target_leave(struct delivery_row *row);
/* Why the row has to wait for its target; NULL: it may try. */
const char *delivery_target_blocks(struct df_delivery *d, const struct delivery_row *row)
    DF_REQUIRES(d->lock);

/* How the target of a row was when the row came back. */
struct delivery_health_view {
    bool known;       /* the numbers of arrivals are */
    bool is_well;     /* its breakers are closed */
    int64_t hold_for; /* its id, if what failed waits for it; 0: no */
    int64_t arrived;
    int64_t arrived_before; /* this try */
};

/* Notes what came of a row, and tells how its target is now. Takes the lock. */
struct delivery_health_view delivery_target_told(struct delivery_row *row);
/* Looks whether targets went down or came back otherwise. Takes the lock. */
void delivery_targets_check(struct df_delivery *d);

/* Plans which rows that wait for a target are claimed next, at most `room`; returns how many.
 * *at_ms (monotonic) moves to when there may be more, if that is earlier. */
size_t delivery_targets_plan(struct df_delivery *d, struct delivery_channel *ch, size_t room,
                             struct delivery_wants *ret, int64_t *at_ms) DF_REQUIRES(d->lock);
/* The channel's claim has ended. */
void delivery_targets_claimed(struct delivery_channel *ch) DF_REQUIRES(ch->d->lock);
/* These rows were settled; some may wait for their target now. */
void delivery_targets_settled(struct delivery_channel *ch, const struct df_list *rows)
    DF_REQUIRES(ch->d->lock);
void delivery_targets_free(struct df_delivery *d);

/* --- health.c --------------------------------------------------------------------------------- */

/* Writes what this process saw of the targets and reads what is known, when that is due. */
void delivery_health(struct df_delivery *d);
/* When that is (monotonic); INT64_MAX: it is under way. */
int64_t delivery_health_at(const struct df_delivery *d) DF_REQUIRES(d->lock);
/* A target needs its row soon. */
void delivery_health_hurry(struct df_delivery *d) DF_REQUIRES(d->lock);
/* Writes the rest when the engine's thread has ended. */
void delivery_health_end(struct df_delivery *d);

/* --- shares.c --------------------------------------------------------------------------------- */

/* NULL: nothing was sent there for a minute. */
struct delivery_share *delivery_share_find(struct df_delivery *d, enum delivery_share_kind kind,
                                           struct df_str key) DF_REQUIRES(d->lock);
/* Takes a slot of the destination and of the tenant. NULL: taken; else a text that says which is
 * full. */
const char *delivery_share_enter(struct df_delivery *d, struct delivery_row *row)
    DF_REQUIRES(d->lock);
/* Reserves slots for a row that is claimed and not built yet, of the owners that are known. False:
 * one is full. Takes the lock. */
bool delivery_share_promise(struct df_delivery *d, struct delivery_row *row);
/* Takes a promise back, if there is one. Takes the lock. */
void delivery_share_break(struct df_delivery *d, struct delivery_row *row);
void delivery_share_leave(struct df_delivery *d, struct delivery_row *row) DF_REQUIRES(d->lock);
/* How many more rows of this size the destination may have; NULL: it has none yet. */
size_t delivery_share_room(const struct df_delivery *d, const struct delivery_share *to,
                           int64_t row_bytes) DF_REQUIRES(d->lock);
/* Whether the row's destination answers, and only has its share. */
bool delivery_share_is_busy(struct df_delivery *d, const struct delivery_row *row)
    DF_REQUIRES(d->lock);
/* Whether the row's tenant has calls out and hears nothing, but not because of the row's
 * destination. Takes the lock. */
bool delivery_share_hangs_elsewhere(struct df_delivery *d, const struct delivery_row *row);
/* How long a row is put off that may not be sent now. Rows follow one another, so that a long
 * backlog comes back at a rate that costs little. Takes the lock. */
int64_t delivery_park_ms(struct df_delivery *d, const struct delivery_row *row, int64_t least_ms);
#define DELIVERY_STUCK_MS 100 /* a full destination that was silent for so long hangs */
#define DELIVERY_PARK_MS  250 /* how long an owner that has its share is left alone */
/* Forgets the shares that were not used for a minute. Takes the lock. */
void delivery_shares_forget(struct df_delivery *d);
void delivery_shares_free(struct df_delivery *d);

/* --- times.c ---------------------------------------------------------------------------------- */

/* Called every few seconds: checks whether the clock was set back, and mends the due times. */
void delivery_watch_clock(struct df_delivery *d);

/* --- send.c ----------------------------------------------------------------------------------- */

/* Hands the rows to the client, or puts them off; leaves the list empty. Takes the lock. */
void delivery_send(struct df_delivery *d, struct df_list *rows);
/* Lets go of a row that was not sent; in the table nothing changes. Takes the lock. */
void delivery_drop(struct delivery_row *row);

/* --- figures.c -------------------------------------------------------------------------------- */

void delivery_metrics_make(struct delivery_channel *ch, struct df_str name);
/* Called every few seconds: counts the rows that wait. */
void delivery_take_figures(struct df_delivery *d);

#endif

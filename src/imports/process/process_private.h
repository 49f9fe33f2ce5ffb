/*
 * Shared by the files of the processing: worker.c (claims, locks, threads), instances.c,
 * maintain.c, prepare.c and pipeline.c (one batch from its claim to its end), send.c (its calls),
 * outage.c (whether OmniFlow is there), settle.c (the owner's commits). Chunks are in chunk.h,
 * states in batch_state.h and chunk_state.h.
 *
 * A batch in work belongs to one worker thread, except its mail, which the imports' lock guards.
 */
#ifndef DF_IMPORTS_PROCESS_PRIVATE_H
#define DF_IMPORTS_PROCESS_PRIVATE_H

#include "base/log.h"
#include "base/loop.h"
#include "base/span.h"
#include "imports/imports.h"
#include "imports/process/batch_state.h"
#include "imports/process/chunk.h"
#include "locks/locks.h"
#include "resilience/retry.h"
#include "tabular/normalise.h"
#include "tabular/records.h"

#define IMPORT_HOST_MAX    200
#define IMPORT_OMNIFLOW    "omniflow" /* the breaker's name */
#define IMPORT_ACK_POLL_MS 100
#define IMPORT_RENEW_MS    5000
#define IMPORT_LOOK_MS     1000 /* between checks whether another client waits */
#define IMPORT_PEER_ERROR  400

/*
 * The rules by which a file is cut. They are stored with the batch (CutRules) before its first
 * chunk, so that every owner cuts it the same way. A batch gets the lowest version that cuts its
 * file like the newest one, so that processes of the previous release can finish most batches. A
 * batch with a version that this process does not know is left to others.
 *
 *   1  every record is an item, and cells are as they stand in the file
 *   2  a run of empty records is one item, a sheet has at most as many rows as in Excel, and guards
 *      against formulas (formula.h) are removed
 *   3  columns that an error report added are left out
 *   4  columns mean what the batch's mapping says (MappingJson); it is that of every batch with
 * one, from its upload on
 */
enum {
    IMPORT_RULES_EACH = 1,
    IMPORT_RULES_RUNS = 2,
    IMPORT_RULES_REPORTS = 3,
    IMPORT_RULES_MAPPED = DF_IMPORT_RULES_MAPPED,
    IMPORT_RULES_NEWEST = IMPORT_RULES_MAPPED
};

/* The batch's row. Memory: the batch's arena. */
struct import_row {
    struct df_str client;    /* the client's identifier */
    struct df_str client_id; /* and its id */
    struct df_str file_name;
    enum df_file_type file_type;
    struct df_str upload_path;
    struct df_str checksum;
    struct df_str origin;
    struct df_str sheet;
    int64_t total; /* -1: not known yet */
    int64_t batch_size;
    int64_t rules;              /* IMPORT_RULES_; 0: not known yet */
    struct df_str columns;      /* of the file, when it is counted; absent: none, or too long */
    struct df_str mapping_json; /* of the client; absent: none */
    struct df_mapping *mapping; /* the same, read */
    int64_t attempt;
    int64_t again_from; /* first chunk of a later attempt */
    struct df_str correlation_id;
    struct df_str metadata_correlation_id; /* of the upload's metadata; absent: none */
    struct df_str trace_id;
    struct df_trace trace;    /* the upload's context */
    int64_t outage_since_ms;  /* wall: OmniFlow has taken no chunk of it since; -1: no outage */
    int64_t waiting_since_ms; /* wall: when it was last given back; -1: not in this outage */
    int64_t kept_left_ms;     /* of the time for which failed records are kept; -1: all of it */
    int64_t outage_tries;     /* how often, while OmniFlow took other batches' chunks */
};

/* Chunks that earlier owners began. Memory: the batch's arena. */
struct import_open {
    int64_t id;
    int64_t offset;
    int64_t count;
    struct df_str hash;
    int64_t status;
    int64_t attempts;
    struct df_str ack_id;
    int64_t sent_ms;   /* wall */
    struct df_str ack; /* absent: none is stored */
};

/* Chunks without a row, although a later chunk has one: they are not settled. */
struct import_gap {
    int64_t first;
    int64_t last;
};

struct import_earlier {
    int64_t last_chunk; /* the last one that has a row */
    struct import_gap *gaps;
    size_t gap_count;
    struct import_open *open; /* not settled */
    size_t open_count;
    size_t open_at; /* in a later attempt: the next one to resume */
};

/* The reading of the batch's file. */
struct import_reading {
    struct df_stored *file;
    struct df_records *records;
    struct df_normaliser *normaliser;
    struct df_record after_run; /* the record after a run of empty ones, already read */
    bool has_after_run;
    bool max_by_policy;
    int64_t max_records;   /* items it may have */
    int64_t next_sequence; /* of the next record; in a later attempt: of the last item taken */
    int64_t next_chunk;
};

/* The chunks in hand: cut, and not settled. */
struct import_hand {
    struct df_list chunks;
    struct df_list spare; /* chunks for their next use */
    /* Chunks whose commit is under way; the store's thread reads them. They are not in `chunks`. */
    struct df_list settling;
    size_t settling_bytes;
    size_t in_flight;  /* chunks that are SENDING */
    size_t cut_off;    /* calls that were given up */
    size_t shown;      /* chunks that the gauge counts */
    int64_t outage_ms; /* monotonic: since when OmniFlow takes no chunk; -1: no outage */
    int64_t others_ms; /* monotonic: the last look for other clients in an outage */
    bool answered;     /* OmniFlow has taken a chunk from this owner */
    int64_t polled_ms; /* monotonic: the last look for acks; -1: look at once */
    bool failed;       /* a call of this owner has failed since OmniFlow last took a chunk */
    char error[IMPORT_PEER_ERROR + 1]; /* of the last failed call; may have the answer's body */
};

/* How fast this owner settles records: of each of the last 60 seconds. */
#define IMPORT_RATE_SECONDS 60
struct import_rate {
    int64_t records[IMPORT_RATE_SECONDS]; /* by the second's number */
    int64_t since_ms;                     /* monotonic: its first chunk; 0: none yet */
    int64_t last_s;                       /* the second that was counted last */
};

/* The turn of the batch's client. */
struct import_turn {
    int64_t since_ms;  /* monotonic: the first new chunk; -1: none yet */
    int64_t looked_ms; /* monotonic: the last check whether another client waits */
};

/* What other threads leave for the worker. Guarded by the imports' lock. */
struct import_mail {
    struct df_list answered; /* chunks whose calls have ended and were judged */
    bool acked;              /* an ack was stored */
    bool settled;            /* the commit that settles chunks has ended */
};

struct import_batch {
    struct df_imports *imports;
    struct df_link link; /* in df_imports.working */
    struct df_uuid id;
    int64_t token;
    struct df_lease lease; /* on the lock; released after the batch's end */
    uint64_t failovers;    /* of the database, when it was claimed: df_store_failovers */
    struct df_arena arena;
    struct df_log_ctx log;
    int64_t started_ms; /* monotonic */
    int64_t renewed_ms; /* monotonic: when LockedAt was renewed */
    int64_t locked_ms;  /* monotonic: when the lock of all claims was renewed; 0: not yet */

    enum import_batch_state state;   /* set by import_batch_happens only */
    enum import_batch_action action; /* of the last step; at the end, the commit to perform */
    struct df_str why;        /* it fails, is postponed or is shelved; absent: none of these */
    struct df_str why_logged; /* the same without the body of an answer; absent: `why` has none */
    bool probes; /* it was taken to find out whether OmniFlow is back: one chunk is sent */

    struct import_row row;
    struct import_earlier earlier;
    struct import_reading reading;
    struct import_hand hand;
    struct import_settling *settling; /* the commit of hand.settling; NULL: none is under way */
    struct import_turn turn;
    struct import_rate rate;
    struct import_mail mail;
};

/* What this process knows of OmniFlow. */
struct import_peer {
    int64_t arrived;                   /* chunks that it took, or refused for what is in them */
    int64_t well_ms;                   /* wall: the last of them; 0: none */
    bool away;                         /* a batch was given back, and no chunk has arrived since */
    int64_t probe_at_ms;               /* monotonic: when a batch that waits may be tried next */
    char error[IMPORT_PEER_ERROR + 1]; /* of the last failed call, without the answer's body */
};

/* What the last look found that will be due; wall, -1: nothing. */
struct import_outlook {
    int64_t scheduled_ms;
    int64_t waiting_ms; /* since when a batch waits for OmniFlow that is not tried again yet */
    bool open;          /* there were batches for somebody to take, or to take over */
};

/* A pass over the outside storage, of df_imports_sweep_turn. */
struct import_sweep {
    struct df_storage_cursor at;
    size_t foreign; /* objects that are not ours */
};

struct df_imports {
    struct df_imports_options opt;
    struct df_retry_policy retry; /* of a chunk */
    char *url;                    /* of the call */
    int64_t backlog_ms;           /* monotonic: when it may be counted again; of the housekeeper */
    int64_t expired;              /* records of the batch in hand; of df_imports_expire_turn */
    struct import_sweep sweep;
    char host[IMPORT_HOST_MAX + 1];
    struct df_loop workers;

    struct df_mutex lock; /* also guards the mail of all batches */
    pthread_cond_t changed;
    bool stopping DF_GUARDED_BY(lock);
    int64_t cut_at_ms DF_GUARDED_BY(lock); /* monotonic: when it stops, the end of its calls */
    atomic_bool cut;                       /* calls under way are given up */
    size_t threads_running DF_GUARDED_BY(lock);
    /* The batches of this process; an id is empty while its claim is under way. */
    struct df_list working DF_GUARDED_BY(lock);
    /* Only one batch gives way at a time: all would give way to the same client. */
    const struct import_batch *yielding DF_GUARDED_BY(lock);
    struct import_peer peer DF_GUARDED_BY(lock);
    struct import_outlook outlook DF_GUARDED_BY(lock);
    int64_t gave_way_ms DF_GUARDED_BY(lock); /* monotonic: when a batch last did; 0: never */
    uint64_t asked DF_GUARDED_BY(lock);      /* looks that were asked for (df_imports_try) */
    uint64_t tried DF_GUARDED_BY(lock);      /* those that have ended */
    bool claiming DF_GUARDED_BY(lock);       /* a worker claims; the members below belong to it */

    uint64_t looks;               /* for batches, made so far */
    struct import_unread *unread; /* of the last look */
    size_t unread_count;
    struct import_watched *watched; /* likewise */
    size_t watched_count;
    struct df_uuid newer; /* the last batch with unknown rules that was logged */
};

static inline bool import_is_concurrent(const struct df_imports *i)
{
    return i->opt.settings.mode == DF_IMPORTS_CONCURRENT;
}

/* For so long a batch that gave way is left alone if only another machine can read the batch to
 * which it did. */
static inline int64_t import_hand_over_ms(const struct df_imports *i)
{
    return 3000 + 2 * i->opt.settings.poll_ms;
}

static inline int64_t import_mono_ms(const struct import_batch *b)
{
    return df_mono_ms(b->imports->opt.clock);
}

static inline struct df_value import_now(const struct import_batch *b)
{
    return df_time(df_wall_ms(b->imports->opt.clock));
}

/* An owner renews LockedAt as often. */
static inline int64_t import_renew_ms(const struct df_imports *i)
{
    int64_t third_ms = df_locks_lease_ms(i->opt.locks) / 3;
    return third_ms < IMPORT_RENEW_MS ? third_ms : IMPORT_RENEW_MS;
}

/* --- instances.c --- */

/*
 * The value for ProcessingHost: "host/instance", or "host/instance/rules" for a batch that
 * processes of the previous release must not cut. They cannot tell whether an owner of the latter
 * form is gone, and leave the batch alone until the lock's timeout.
 */
void import_host_name(const struct df_imports *i, int64_t rules, char out[IMPORT_HOST_MAX + 1]);
bool import_host_is_this(const struct df_imports *i, struct df_str host);
/* Whether that process is known to be gone. */
bool import_instance_is_gone(const struct df_imports *i, struct df_str host);
/* Removes the files of processes that are gone. */
void import_instances_sweep(struct df_imports *i);

/* --- idle.c --- */

/* A worker begins to look; the value is for the end of that look. */
uint64_t import_look_begins(struct df_imports *i);
void import_look_found(struct df_imports *i, int64_t scheduled_ms, int64_t waiting_ms, bool open);
void import_look_ended(struct df_imports *i, uint64_t asked, bool took);
/* How long an idle worker waits unless it is woken. */
int64_t import_idle_ms(struct df_imports *i);
/* A worker has ended a batch, and what it announced can be sent. */
void import_batch_ended(struct df_imports *i, bool gave_way);
void import_backlog_register(void);

/* --- prepare.c --- */

/* Takes the batch from PREPARING to CUTTING, or to an end. */
void import_prepare(struct import_batch *b);
bool import_is_outside(const struct import_batch *b); /* its file, in the outside storage */
bool import_is_stopping(struct df_imports *i);
/* Whether the batch must be given back: the process ends, or another database server has taken
 * over, which may lack what this owner has committed. */
bool import_must_leave(const struct import_batch *b);
/* Renews LockedAt when it is time. False: stop reading; the batch's state tells why. */
bool import_keep_lease(struct import_batch *b);
/* Whether the lock is still held. False: the batch is lost. */
bool import_keep_lock(struct import_batch *b);
/* Fails the batch for its file, with this reason. */
void import_fail_batch(struct import_batch *b, const struct df_err *err);
/* One batch's share of the bytes that all batches of the process may use together. */
size_t import_share(const struct df_imports *i, size_t bytes, size_t least);
/* Whether the same may succeed later. */
bool import_is_retryable(enum df_code code);

/* --- pipeline.c --- */

/* Works on a claimed batch until its end. */
void import_process(struct import_batch *b);
/* Applies the event, which must be possible in the batch's state. False: the batch has ended. */
bool import_batch_happens(struct import_batch *b, enum import_batch_event event);
/* Applies the event of a commit that failed. Returns false. */
bool import_batch_fails(struct import_batch *b, enum df_code code, const struct df_err *err);

/* --- cut.c --- */

/* The next record; a run of empty ones is one record without fields, by the batch's rules.
 * *ret_count: how many records it stands for. DF_ROW, DF_DONE, an error of the file, or
 * DF_E_CANCELLED, for which the batch's state tells the reason. */
enum df_code import_next_record(struct import_batch *b, struct df_record *ret, int64_t *ret_count,
                                struct df_err *err) DF_MUST_CHECK;
/* The chunk of that id that an earlier owner began; NULL: none. */
const struct import_open *import_open_find(const struct import_batch *b, int64_t id);

/* --- original.c --- */

/* The columns of the file that was read, for ImportBatch.ColumnsJson; absent: none. */
struct df_str import_columns_json(struct import_batch *b);

/* --- maintain.c --- */

void import_maintain_register(void);
/* Counts a left-over that was removed: a "directory", "object" or "upload". */
void import_count_orphan(const char *kind);

/* --- mask.c --- */

void import_mask_register(void);
/* Whether items are stored masked. */
bool import_masks(const struct import_batch *b);

/* --- send.c --- */

/* Whether the chunk may be sent now, if the breaker permits it. */
static inline bool import_is_ready(const struct import_chunk *c)
{
    return c->state == CHUNK_READY && !(c->has_row && c->batch->settling);
}

/* Sends the READY chunks that the breaker permits. False: the batch has ended. */
bool import_send_ready(struct import_batch *b);

/* --- outage.c --- */

/* A copy of what is known. */
struct import_peer import_peer_now(struct df_imports *i);
/* A call was answered by something else than a failure that may pass. */
void import_peer_took(struct import_batch *b);
/* A call failed, and may succeed later. Finds whether this is an outage (hand.outage_ms), or the
 * chunk's last failure. */
void import_peer_failed(struct import_batch *b, struct import_chunk *c);
/* The breaker permits no call. */
void import_peer_shut(struct import_batch *b);
/* Leaves the batch if the outage lasts too long. False: the batch has ended. */
bool import_look_at_outage(struct import_batch *b);
/* When to look again: monotonic. */
int64_t import_outage_due(const struct import_batch *b);
/* Sets `why` and `why_logged` for a batch that leaves by an outage. True: it is given up. */
bool import_is_hopeless(struct import_batch *b);
/* Gives the batch back: Pending, until OmniFlow may be back. */
enum df_code import_shelve_batch(struct import_batch *b, struct df_err *err) DF_MUST_CHECK;

/* --- settle.c: each is one commit. DF_E_NOT_FOUND: the batch has another owner. --- */

enum df_code import_load(struct import_batch *b, struct df_err *err) DF_MUST_CHECK;
enum df_code import_renew(struct import_batch *b, struct df_err *err) DF_MUST_CHECK;
enum df_code import_set_total(struct import_batch *b, struct df_err *err) DF_MUST_CHECK;
/*
 * Commits PERMITTED chunks as Sending: a new row, or another attempt.
 *
 * While chunks are settled, neither this nor begin_wait may write the row of a chunk that has one.
 * All these commits write the batch's row last. On PostgreSQL an ack may stand in the transaction
 * of the settlement, and wait there for the chunk's row while this commit waits for the batch's.
 */
enum df_code import_begin_sends(struct import_batch *b, struct df_list *chunks,
                                struct df_err *err) DF_MUST_CHECK;
/* Commits NAMED chunks as AwaitingAck. */
enum df_code import_begin_wait(struct import_batch *b, struct df_list *chunks,
                               struct df_err *err) DF_MUST_CHECK;
/*
 * Settles JUDGED and ACKED chunks, one commit at a time, while the worker goes on: start moves the
 * chunks to hand.settling, and mail.settled tells that the commit has ended. Then end gives its
 * outcome. Chunks that were not settled move to passed_over: a chunk with a stored ack is settled
 * by that ack only. The others stay in hand.settling, for the caller to take.
 */
void import_settle_start(struct import_batch *b, struct df_list *chunks);
enum df_code import_settle_end(struct import_batch *b, struct df_list *passed_over,
                               struct df_err *err);
/* Acks that came for chunks in hand: calls `each` with the chunk's id and the ack. */
enum df_code import_read_acks(struct import_batch *b,
                              void (*each)(struct import_batch *b, int64_t chunk,
                                           struct df_str ack),
                              struct df_err *err) DF_MUST_CHECK;
/* *ret_status: the batch's final status. */
enum df_code import_finish(struct import_batch *b, enum df_batch_status *ret_status,
                           struct df_err *err) DF_MUST_CHECK;
enum df_code import_give_back(struct import_batch *b, struct df_err *err) DF_MUST_CHECK;
/* Gives the batch back, to wait for its client's next turn. */
enum df_code import_give_way(struct import_batch *b, struct df_err *err) DF_MUST_CHECK;
/* Whether a batch of a client without one in work waits, and not for OmniFlow. */
enum df_code import_others_wait(struct import_batch *b, bool *ret,
                                struct df_err *err) DF_MUST_CHECK;
/* since_ms: wall, when the outage began. tries: as in the row. */
enum df_code import_shelve(struct import_batch *b, int64_t since_ms, int64_t tries,
                           struct df_err *err) DF_MUST_CHECK;
enum df_code import_postpone(struct import_batch *b, int64_t due_ms,
                             struct df_err *err) DF_MUST_CHECK;

/* --- figures.c --- */

void import_metrics_register(void);
/* Adds to the number of batches in work. */
void import_note_working(int more);
/* Sets this batch's part of the gauge of chunks in hand. */
void import_show_in_hand(struct import_batch *b, size_t count);
void import_note_finished(const struct import_batch *b, enum df_batch_status status);
void import_note_shelved(const struct import_batch *b);

#endif

/*
 * What the parts of the processing share: worker.c (claims, locks, threads), instances.c,
 * maintain.c, prepare.c and pipeline.c (one batch from its claim to its end), cut.c (records to
 * chunks), omniflow.c (requests and answers), settle.c (what the owner commits).
 *
 * A batch in work belongs to one worker thread. The HTTP client's thread touches a chunk while its
 * call is under way, and hands it back by `answered`.
 */
#ifndef DF_IMPORTS_PROCESS_PRIVATE_H
#define DF_IMPORTS_PROCESS_PRIVATE_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/lock.h"
#include "base/metrics.h"
#include "imports/batch.h"
#include "imports/batch_event.h"
#include "imports/imports.h"
#include "resilience/retry.h"
#include "tabular/normalise.h"
#include "tabular/records.h"

#define IMPORT_HEADERS       8
#define IMPORT_ERROR_UNITS   1000 /* ImportItem.ErrorMessage */
#define IMPORT_SUMMARY_UNITS 2000
#define IMPORT_HOST_MAX      200
#define IMPORT_OMNIFLOW      "omniflow" /* the breaker's name */
#define IMPORT_ACK_POLL_MS   100
#define IMPORT_RENEW_MS      5000
#define IMPORT_LOOK_MS       1000 /* between looks at who else waits, when it is time */

/*
 * By which rules a file is cut, stored with the batch (CutRules) before its first chunk: whoever
 * finishes it cuts it the same way. A batch gets the lowest version that does with its file what
 * the newest does, so that processes of the release before can finish most of them; one of a
 * version that this process does not know is left to others.
 *
 *   1  every record is an item, and every cell as it stands in the file
 *   2  a run of empty records is one item, a sheet has as many rows as Excel knows, and guards
 *      against formulas (formula.h) are taken off
 */
enum { IMPORT_RULES_EACH = 1, IMPORT_RULES_RUNS = 2, IMPORT_RULES_NEWEST = IMPORT_RULES_RUNS };

/* Why a batch's work ended. */
enum import_end {
    IMPORT_FINISHED,
    IMPORT_STOPPED,   /* the process ends; the lock was given back */
    IMPORT_GAVE_WAY,  /* another client's turn; likewise */
    IMPORT_POSTPONED, /* its file cannot be had just now; likewise */
    IMPORT_LOST,      /* somebody else has it now */
    IMPORT_BROKEN,    /* the database, or nobody knows: to be taken up again from what is stored */
};

struct import_item {
    int64_t sequence;
    size_t at; /* of its JSON, in the chunk's body if it is sent, else in `rest` */
    size_t len;
    int64_t records; /* of the file, that it stands for */
    bool sent;
    enum df_item_status status;
    struct df_str error; /* absent: none */
};

enum import_chunk_state {
    IMPORT_CHUNK_READY,    /* to be sent as soon as it may */
    IMPORT_CHUNK_SENDING,  /* the call is under way */
    IMPORT_CHUNK_ANSWERED, /* it has come back, judged */
    IMPORT_CHUNK_WAITING,  /* until due_ms, then READY */
    IMPORT_CHUNK_AWAITING, /* an ack, until due_ms */
    IMPORT_CHUNK_OVER,     /* to be settled */
};

enum import_verdict {
    IMPORT_DONE,      /* every item has its result */
    IMPORT_AWAIT,     /* the ack comes later; ack_id is set */
    IMPORT_AGAIN,     /* failed, may go well later */
    IMPORT_REFUSED,   /* failed for good */
    IMPORT_CANCELLED, /* the process ends */
};

struct import_chunk {
    struct import_chunk *next;
    struct import_batch *batch;
    int64_t id;
    int64_t offset;
    struct import_item *items;
    size_t count;
    size_t cap;
    int64_t records;   /* of the file, that the items stand for */
    size_t sent_count; /* items that are sent */
    struct df_buf body;
    struct df_buf rest;
    struct df_arena arena; /* errors and headers, until it is settled */
    char hash[DF_CHECKSUM_LEN + 1];

    bool stored; /* its row is there */
    enum import_chunk_state state;
    int64_t attempts; /* of all owners, as stored */
    int64_t tries;    /* of this one */
    int64_t due_ms;   /* monotonic */
    int64_t first_ms; /* monotonic: when it was cut */
    struct df_str ack_id;

    struct df_call call;
    struct df_call_header headers[IMPORT_HEADERS];
    struct df_breaker *breaker;
    struct df_breaker_permit permit;

    enum import_verdict verdict; /* of the call, and for the metric why it failed */
    const char *reason;
    bool answered; /* under the imports' lock: the client's thread is done with it */
    bool by_ack;   /* its results are those of a stored ack */
    bool settled;  /* by the last import_settle */

    bool fresh; /* its ack's id is not stored yet */
    enum df_chunk_status outcome;
    struct df_str error;
};

struct import_chunks {
    struct import_chunk *head;
    struct import_chunk **tail;
    size_t count;
};

/* A chunk that an earlier owner began. */
struct import_open {
    int64_t id;
    int64_t offset;
    int64_t count;
    struct df_str hash;
    int64_t status;
    int64_t attempts;
    struct df_str ack_id;
    int64_t sent_ms;   /* wall */
    struct df_str ack; /* absent: none came */
};

struct import_batch {
    struct df_imports *imports;
    struct import_batch *next; /* in the list of those in work */
    struct df_uuid id;
    int64_t token;
    struct df_arena arena; /* what follows */
    struct df_str client;  /* its identifier */
    struct df_str file_name;
    enum df_file_type file_type;
    struct df_str upload_path;
    struct df_str checksum;
    struct df_str origin;
    struct df_str sheet;
    int64_t total; /* -1: not known yet */
    int64_t batch_size;
    int64_t rules;       /* IMPORT_RULES_; 0: not known yet */
    int64_t max_records; /* items it may have */
    int64_t attempt;
    int64_t again_from; /* first chunk of a later attempt */
    struct df_str correlation_id;
    struct df_str trace_id;
    struct df_log_ctx log;
    int64_t started_ms; /* monotonic */
    int64_t renewed_ms; /* monotonic */

    struct df_stored *file;
    struct df_records *records;
    struct df_normaliser *normaliser;
    struct df_record after_run; /* read already, to be given after the empty ones before it */
    int64_t next_sequence;      /* of the next record; a later attempt: after which item to go on */
    int64_t next_chunk;
    int64_t last_chunk; /* of earlier owners */
    struct import_open *open;
    size_t open_count;
    size_t open_at; /* of a later attempt: the next of them to be taken up */

    enum import_end interrupted; /* why reading was given up, with DF_E_CANCELLED */
    bool read;                   /* there are no more records */
    bool has_after_run;
    bool max_by_policy;
    bool gives_way; /* no more chunks are cut; when all are settled another client is next */

    struct import_chunks chunks; /* in hand */
    struct import_chunk *spare;
    size_t in_flight;    /* calls under way */
    size_t shown;        /* of its chunks, in the gauge */
    int64_t outage_ms;   /* monotonic: since when nothing may be sent; -1: it may */
    int64_t polled_ms;   /* monotonic: when acks were looked for */
    int64_t turn_ms;     /* monotonic: since when new chunks are cut; -1: none yet */
    int64_t looked_ms;   /* monotonic: when others that wait were looked for */
    struct df_str fatal; /* why it ends as Failed; absent: it does not */

    bool acked; /* under the imports' lock: an ack was stored */
};

struct df_imports {
    struct df_imports_options opt;
    struct df_retry_policy retry; /* of a chunk */
    char *url;                    /* of the call */
    char host[IMPORT_HOST_MAX + 1];
    struct df_uuid instance;
    int instance_fd;

    struct df_mutex lock;
    pthread_cond_t changed;
    uint64_t wakes;
    bool stopping;
    size_t senders; /* workers that are about to send */
    pthread_t *threads;
    size_t thread_count;
    size_t threads_running;
    struct import_batch *working; /* an id is empty while its claim is under way */
    struct import_unread *unread; /* of the last claim */
    size_t unread_count;
    bool claiming;
    struct df_uuid newer; /* the last batch that was told of as being of unknown rules */
    bool one_gives_way;   /* of the batches of this process */
};

static inline bool import_is_concurrent(const struct df_imports *i)
{
    return i->opt.settings.mode == DF_IMPORTS_CONCURRENT;
}

/* --- instances.c --- */

void import_instance_hold(struct df_imports *i);
void import_instance_drop(struct df_imports *i);
/*
 * What stands in ProcessingHost: "host/instance", and for a batch that processes of the release
 * before must not cut "host/instance/rules": they cannot tell whether such an owner is gone, and
 * leave the batch alone until the lock's timeout.
 */
void import_host_name(const struct df_imports *i, int64_t rules, char out[IMPORT_HOST_MAX + 1]);
bool import_host_is_this(const struct df_imports *i, struct df_str host);
/* Whether that process is known to be gone. */
bool import_instance_is_gone(const struct df_imports *i, struct df_str host);
/* Removes marks that nobody needs any more. */
void import_instances_sweep(struct df_imports *i);

/* --- prepare.c --- */

/* True: there are chunks to be cut. */
bool import_prepare(struct import_batch *b, enum import_end *ret);
bool import_is_stopping(struct df_imports *i);
/* Renews the lease now and then; false: *ret says why not. */
bool import_keep_lease(struct import_batch *b, enum import_end *ret);
/* It ends as Failed, with this reason. */
enum import_end import_fail_batch(struct import_batch *b, const struct df_err *err);
/* The share of one batch in what all batches of the process may use together. */
size_t import_share(const struct df_imports *i, size_t bytes, size_t least);
/* What the database said, as an end. */
enum import_end import_ended_by(enum df_code code, const struct df_err *err);
/* The same may go well later. */
bool import_is_passing(enum df_code code);

/* --- pipeline.c --- */

enum import_end import_process(struct import_batch *b);
static inline int64_t import_mono_ms(const struct import_batch *b)
{
    return df_mono_ms(b->imports->opt.clock);
}
static inline struct df_value import_now(const struct import_batch *b)
{
    return df_time(df_wall_ms(b->imports->opt.clock));
}
void import_chunks_init(struct import_chunks *l);
void import_chunks_add(struct import_chunks *l, struct import_chunk *c);
struct import_chunk *import_chunks_take(struct import_chunks *l);

/* --- cut.c --- */

struct import_chunk *import_chunk_new(struct import_batch *b);
void import_chunk_reset(struct import_chunk *c); /* for the next use */
void import_chunk_free(struct import_chunk *c);
struct df_str import_item_json(const struct import_chunk *c, const struct import_item *item);
/* The next record, or a run of empty ones as one without fields, by the batch's rules. *ret_count
 * is how many it stands for. DF_ROW, DF_DONE, an error of the file, or DF_E_CANCELLED:
 * b->interrupted says why. */
enum df_code import_next_record(struct import_batch *b, struct df_record *ret, int64_t *ret_count,
                                struct df_err *err) DF_MUST_CHECK;
/* The next chunk of the file. DF_ROW, DF_DONE, or an error of the file. */
enum df_code import_cut(struct import_batch *b, struct import_chunk *c,
                        struct df_err *err) DF_MUST_CHECK;
/* The next of a later attempt, from what is stored. */
enum df_code import_cut_again(struct import_batch *b, struct import_chunk *c,
                              struct df_err *err) DF_MUST_CHECK;
/* One that an earlier owner began; NULL: no. */
const struct import_open *import_open_find(const struct import_batch *b, int64_t id);

/* --- omniflow.c --- */

/* Fills the call; it is sent by df_http_client_send. */
void import_request(struct import_chunk *c, void (*done)(struct df_call *call));
/* Judges the answer; sets results or c->error. *ret_reason is for the metric. */
enum import_verdict import_judge(struct import_chunk *c, const char **ret_reason);
/* The results of an ack as it was stored. */
void import_apply_ack(struct import_chunk *c, struct df_str ack);
/* All items of the chunk get this error, which becomes the chunk's too. */
void import_fail_items(struct import_chunk *c, struct df_str error);

/* --- settle.c: each is one commit. DF_E_NOT_FOUND: the batch is somebody else's. --- */

enum df_code import_load(struct import_batch *b, struct df_err *err) DF_MUST_CHECK;
enum df_code import_renew(struct import_batch *b, struct df_err *err) DF_MUST_CHECK;
enum df_code import_set_total(struct import_batch *b, struct df_err *err) DF_MUST_CHECK;
/* New rows, or another attempt, of those that are READY. */
enum df_code import_begin_sends(struct import_batch *b, struct import_chunks *chunks,
                                struct df_err *err) DF_MUST_CHECK;
enum df_code import_begin_wait(struct import_batch *b, struct import_chunks *chunks,
                               struct df_err *err) DF_MUST_CHECK;
/* Sets `settled` of each: one that has an ack is settled by that and by nothing else. */
enum df_code import_settle(struct import_batch *b, struct import_chunks *chunks,
                           struct df_err *err) DF_MUST_CHECK;
/* Acks that came for chunks in hand: calls `each` with the chunk's id and the ack. */
enum df_code import_read_acks(struct import_batch *b,
                              void (*each)(struct import_batch *b, int64_t chunk,
                                           struct df_str ack),
                              struct df_err *err) DF_MUST_CHECK;
/* *ret_status: what it became. */
enum df_code import_finish(struct import_batch *b, enum df_batch_status *ret_status,
                           struct df_err *err) DF_MUST_CHECK;
enum df_code import_give_back(struct import_batch *b, struct df_err *err) DF_MUST_CHECK;
/* Likewise, and it waits for its next turn. */
enum df_code import_give_way(struct import_batch *b, struct df_err *err) DF_MUST_CHECK;
/* Whether a batch of another client waits that nobody can take up. */
enum df_code import_others_wait(struct import_batch *b, bool *ret,
                                struct df_err *err) DF_MUST_CHECK;
enum df_code import_postpone(struct import_batch *b, int64_t due_ms, const char *why,
                             struct df_err *err) DF_MUST_CHECK;

/* --- metrics, in pipeline.c --- */

void import_metrics_register(void);
void import_note_chunk_error(const struct import_chunk *c, const char *reason);

#endif

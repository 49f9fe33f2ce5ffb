/*
 * Shared by the files of receiving: HTTP (receive_api.c), threads (receive.c), the file
 * (receive_file.c), its parts (receive_parts.c), the database (receive_store.c), refusals
 * (receive_refusal.c), how uploads end (receive_end.c), and previews (receive_preview.c).
 */
#ifndef DF_IMPORTS_RECEIVE_PRIVATE_H
#define DF_IMPORTS_RECEIVE_PRIVATE_H

#include "access/handler.h"
#include "base/pool.h"
#include "imports/batch.h"
#include "imports/policy.h"
#include "imports/receive/receive.h"
#include "imports/receive/upload.h"
#include "tabular/mapping.h"
#include "tabular/records.h"

#define DF_RECEIVE_SHEET_MAX 100 /* ImportBatch.Sheet */
#define DF_RECEIVE_THREADS   2   /* that wait for the disk and the commit */
#define DF_RECEIVE_UPLOADERS 2   /* that wait for the storage of scheduled files */
#define DF_RECEIVE_SENDERS   8   /* instead of both, if the outside storage takes all files */

/* How an upload ended, for the metric. */
enum df_receive_outcome {
    DF_RECEIVE_OPEN,
    DF_RECEIVE_ACCEPTED,
    DF_RECEIVE_REPLAYED,
    DF_RECEIVE_REJECTED,
    DF_RECEIVE_FAILED,    /* our fault */
    DF_RECEIVE_ABANDONED, /* the sender left */
};

/* Work for a thread of the receiver. */
struct df_receive_task {
    void (*run)(void *arg);
    void *arg;
};

struct df_receiver {
    struct df_imports *imports;
    const struct df_imports_options *opt;
    struct df_pool files;   /* complete uploads */
    struct df_pool network; /* tasks that may reach the outside storage */
    struct df_previews *previews;
};

/* The batch of the first call with the same Idempotency-Key. */
struct df_receive_earlier {
    bool found;
    struct df_uuid batch;
    char request_checksum[DF_CHECKSUM_LEN + 1];
    bool scheduled;
    int64_t scheduled_for_ms;
};

/* One upload, from the first piece of the body to the end of the request. It belongs to the thread
 * that has the request. */
struct df_receive {
    struct df_job job;    /* that writes the row */
    struct df_work *work; /* set from the body's end on */
    struct df_receive_task task;
    struct df_receiver *receiver;
    struct df_req *req;
    struct df_uuid client_id;
    struct df_uuid batch;
    struct df_str key; /* Idempotency-Key; absent: none */
    int64_t began_ms;  /* monotonic */

    /* The first piece of the body, while the policy is looked up. */
    char *first;
    size_t first_len;
    bool counted; /* holds a place among the client's uploads */

    struct df_policy policy;
    struct df_policy_facts facts;
    int64_t size_limit;    /* of the policy */
    int64_t retry_after_s; /* of a refusal; 0: none */
    struct df_receive_earlier earlier;
    struct df_str kept_mapping; /* what the client keeps for its uploads; absent: nothing */

    struct df_preview
        *preview; /* the file is only looked at (receive_preview.c); NULL: it is an upload */
    struct df_upload *upload;
    struct df_storage_writer *writer; /* NULL: not begun, finished, or hash is used */
    struct df_receive_parts *parts;   /* has the writer of an upload to the outside storage */
    struct df_checksum *hash;         /* instead of the writer, if there is an earlier call */
    uint64_t size_bytes;
    char checksum[DF_CHECKSUM_LEN + 1];
    char request_checksum[DF_CHECKSUM_LEN + 1];
    bool told;   /* there are webhooks to deliver */
    bool stored; /* the file is complete and has no row: it is removed with the upload */

    enum df_file_type type;
    struct df_policy_decision decision;
    int64_t created_ms;
    char location[DF_STORAGE_LOCATION_MAX + 1];
    enum df_receive_outcome outcome;
};

/* --- receive.c --- */

/* Queues a complete upload for the thread that answers it. False: the queue is full or closed. */
bool df_receive_hand_over(struct df_receive *up);
/* Brings a complete upload to its end, and answers it. Blocks. */
void df_receive_finish(struct df_receive *up);
/* What the sender is told about an error of the outside storage. Logs one that may pass under
 * `event`. */
enum df_code df_receive_storage_error(const char *event, enum df_code code, struct df_err *err);

/* --- receive_end.c --- */

void df_receive_register_metrics(void);
/* Asks the policy, and takes a place among the client's uploads. */
enum df_code df_receive_admit(struct df_receive *up, struct df_err *err) DF_MUST_CHECK;
/* Gives back the client's place and removes the file. Only the first call counts. */
void df_receive_end(struct df_receive *up, enum df_receive_outcome outcome);
/* These end the upload and set the answer. */
void df_receive_accept(struct df_receive *up);
/* For an upload with an earlier batch of the same key, when its checksum is known. */
void df_receive_answer_again(struct df_receive *up);
void df_receive_reject(struct df_receive *up, const struct df_err *err);
void df_receive_reject_fields(struct df_receive *up, const struct df_err *err,
                              const struct df_field_error *fields, size_t count);

/* --- receive_file.c --- */

/* The upload's handler: writes the file, or only hashes it if there is an earlier call. */
enum df_code df_receive_file_begin(void *arg, const struct df_upload *u, struct df_err *err);
enum df_code df_receive_file_data(void *arg, struct df_str piece, struct df_err *err);
/* Brings the file to the disk, and checks its type against the declaration. Blocks. */
enum df_code df_receive_file_end(struct df_receive *up, struct df_err *err) DF_MUST_CHECK;
/* An upload to the outside storage may take DF_UPLOAD_LONGEST_MS. */
enum df_code df_receive_check_time(const struct df_receive *up, struct df_err *err) DF_MUST_CHECK;
/* Removes the file unless it has a row. Blocks if it went to the outside storage. */
void df_receive_file_drop(struct df_receive *up);
/* Computes request_checksum over file and fields: a repeated call must have the same. */
void df_receive_sum_up(struct df_receive *up);

/* Whether the file is what it was declared to be. */
enum df_code df_receive_check_claim(const struct df_receive *up, struct df_err *err) DF_MUST_CHECK;

/* --- receive_preview.c --- */

#define DF_PREVIEW_BYTES ((size_t)3 << 20) /* memory of one: parser, normaliser, what was found */

struct df_previews *df_previews_new(struct df_receiver *r);
void df_previews_stop(struct df_previews *p);
void df_previews_free(struct df_previews *p);
/* Makes the upload a preview. */
void df_preview_begin(struct df_receive *up);
/* Takes a place among the previews. */
enum df_code df_preview_admit(struct df_receive *up, struct df_err *err) DF_MUST_CHECK;
enum df_code df_preview_file_begin(struct df_receive *up, struct df_err *err) DF_MUST_CHECK;
enum df_code df_preview_file_data(struct df_receive *up, struct df_str piece,
                                  struct df_err *err) DF_MUST_CHECK;
/* After the body: has the file looked at. False: too many wait. */
bool df_preview_start(struct df_receive *up);
/* Gives back the place and the file. Any number of calls. */
void df_preview_end(struct df_receive *up);

/* --- receive_parts.c --- */

void df_receive_parts_register(void);
struct df_receive_parts *df_receive_parts_new(struct df_receiver *r, struct df_storage_writer *w);
/* After each piece: has a full part sent, and suspends the request if that must wait. Does nothing
 * without up->parts. */
enum df_code df_receive_parts_pass(struct df_receive *up, struct df_err *err) DF_MUST_CHECK;
/* After the body. True: a part is being sent, and its thread calls df_receive_finish. */
bool df_receive_parts_wait(struct df_receive *up);
/* Gives back the writer, unless a part could not be sent. Nothing is being sent now. */
enum df_code df_receive_parts_take(struct df_receive_parts *take_p, struct df_storage_writer **ret,
                                   struct df_err *err) DF_MUST_CHECK;
/* Has the upload aborted. Does not block. */
void df_receive_parts_drop(struct df_receive_parts *take_p);

/* --- receive_refusal.c --- */

/* Has a row written for the refusal if it is the policy's; does not wait for it. */
void df_receive_refused(const struct df_receive *up, const struct df_err *err);

/* --- receive_store.c --- */

/* Looks up the policy and an earlier call: fills policy, facts and earlier of the request's state.
 */
enum df_code df_receive_look_up(struct df_db *db, struct df_work *w,
                                struct df_err *err) DF_MUST_CHECK;
/* The mapping by which the file is read: the upload's, then the client's. NULL: none. Memory: the
 * request's arena. */
enum df_code df_receive_mapping(struct df_receive *up, struct df_mapping **ret,
                                struct df_err *err) DF_MUST_CHECK;
/* The correlationId of the upload's metadata if it can go into log lines and columns; else absent.
 */
struct df_str df_receive_metadata_id(const struct df_receive *up);
/* Writes the row and waits for the commit. DF_E_DB_UNIQUE: another call with the same key came
 * first; up->earlier is its batch. */
enum df_code df_receive_commit(struct df_receive *up, struct df_err *err) DF_MUST_CHECK;

#endif

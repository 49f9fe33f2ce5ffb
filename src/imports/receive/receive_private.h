/*
 * Between the files of receiving: the HTTP side (receive_api.c), the threads (receive.c), the file
 * (receive_file.c), the database (receive_store.c) and the ends (receive_end.c).
 */
#ifndef DF_IMPORTS_RECEIVE_PRIVATE_H
#define DF_IMPORTS_RECEIVE_PRIVATE_H

#include "access/handler.h"
#include "base/pool.h"
#include "imports/batch.h"
#include "imports/policy.h"
#include "imports/receive/receive.h"
#include "imports/receive/upload.h"
#include "tabular/records.h"

#define DF_RECEIVE_SHEET_MAX 100 /* ImportBatch.Sheet */
#define DF_RECEIVE_THREADS   2   /* that wait for the disk and the commit */
#define DF_RECEIVE_UPLOADERS 2   /* that wait for the storage of scheduled files */

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
    struct df_pool files;   /* uploads that are whole */
    struct df_pool network; /* what may have to do with the storage of scheduled files */
};

/* What the first call with the same Idempotency-Key left. */
struct df_receive_earlier {
    bool found;
    struct df_uuid batch;
    char request_checksum[DF_CHECKSUM_LEN + 1];
    bool scheduled;
    int64_t scheduled_for_ms;
};

/* One upload. On the heap, from the first piece of the body to on_end; whoever has the request has
 * it. */
struct df_receive {
    struct df_job job;    /* of the row */
    struct df_work *work; /* from the body's end on */
    struct df_receive_task task;
    struct df_receiver *receiver;
    struct df_req *req;
    struct df_uuid client_id;
    struct df_uuid batch;
    struct df_str key; /* Idempotency-Key; absent: none */

    /* The first piece of the body, while the policy is looked up. */
    char *first;
    size_t first_len;
    bool counted; /* among the client's uploads */

    struct df_policy policy;
    struct df_policy_facts facts;
    int64_t size_limit;    /* of the policy */
    int64_t retry_after_s; /* of a refusal; 0: none */
    struct df_receive_earlier earlier;

    struct df_upload *upload;
    struct df_storage_writer *writer; /* NULL: not begun, done with, or it is an earlier one */
    struct df_checksum *hash;         /* instead of the writer, if there is an earlier one */
    uint64_t size_bytes;
    char checksum[DF_CHECKSUM_LEN + 1];
    char request_checksum[DF_CHECKSUM_LEN + 1];
    bool told;   /* webhooks are to be delivered */
    bool stored; /* the file has its name and goes with the upload unless there is a row for it */

    enum df_file_type type;
    struct df_policy_decision decision;
    int64_t created_ms;
    char location[DF_STORAGE_LOCATION_MAX + 1];
    enum df_receive_outcome outcome;
};

/* --- receive.c --- */

/* The upload is whole: to the thread that answers it. False: too many wait, or it is the end. */
bool df_receive_hand_over(struct df_receive *up);

/* --- receive_end.c --- */

void df_receive_register_metrics(void);
/* Asks the policy and counts the upload: of two at a time one is the second. */
enum df_code df_receive_admit(struct df_receive *up, struct df_err *err) DF_MUST_CHECK;
/* The client's place and the file are given back. Only the first call counts. */
void df_receive_end(struct df_receive *up, enum df_receive_outcome outcome);
/* These end it and set the answer. */
void df_receive_accept(struct df_receive *up);
/* There is an earlier batch of the same key, and this upload's checksum is known. */
void df_receive_answer_again(struct df_receive *up);
void df_receive_reject(struct df_receive *up, const struct df_err *err);
void df_receive_reject_fields(struct df_receive *up, const struct df_err *err,
                              const struct df_field_error *fields, size_t count);

/* --- receive_file.c --- */

/* The upload's handler: to the writer, or with an earlier one into the checksum only. */
enum df_code df_receive_file_begin(void *arg, const struct df_upload *u, struct df_err *err);
enum df_code df_receive_file_data(void *arg, struct df_str piece, struct df_err *err);
/* The file is on the disk, of a known type that is the declared one. Blocks. */
enum df_code df_receive_file_end(struct df_receive *up, struct df_err *err) DF_MUST_CHECK;
/* Whatever there is of it goes, but for what has a row. Blocks if it went to another storage. */
void df_receive_file_drop(struct df_receive *up);
/* Over file and fields: what a repeated call must have the same. */
void df_receive_sum_up(struct df_receive *up);

/* --- receive_store.c --- */

/* Of the handler that looks up the policy and an earlier call: fills policy, facts and earlier of
 * the request's state. */
enum df_code df_receive_look_up(struct df_db *db, struct df_work *w,
                                struct df_err *err) DF_MUST_CHECK;
/* Writes the row and waits for the commit. DF_E_DB_UNIQUE: another call with the same key came
 * first, then up->earlier is it. */
enum df_code df_receive_commit(struct df_receive *up, struct df_err *err) DF_MUST_CHECK;

#endif

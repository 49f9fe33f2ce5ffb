/*
 * A chunk: items that are sent in one call, under one key, and settled in one commit. It belongs to
 * the worker of its batch, except from import_send on until it is in the batch's mail
 * (import_mail): then it belongs to the HTTP client's thread. While it is settled (hand.settling),
 * the store's thread reads it, and nobody changes it.
 */
#ifndef DF_IMPORTS_CHUNK_H
#define DF_IMPORTS_CHUNK_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/list.h"
#include "files/storage.h"
#include "imports/batch.h"
#include "imports/process/chunk_state.h"
#include "outbound/outbound.h"
#include "resilience/tries.h"
#include "tabular/records.h"

#define IMPORT_CHUNK_BYTES   ((size_t)2 << 20)                        /* then the chunk is full */
#define IMPORT_BODY_MAX      (IMPORT_CHUNK_BYTES + ((size_t)2 << 20)) /* an item has at most 1 MiB */
#define IMPORT_ORIGINALS_MAX (IMPORT_CHUNK_BYTES + ((size_t)4 << 20))
#define IMPORT_SUBJECTS_MAX  ((size_t)16 << 20) /* an entry has 13 bytes, its person more than 5 */
#define IMPORT_MASKED_MAX    ((size_t)64 << 20) /* a hash may be longer than its value */
#define IMPORT_SEALED_MAX    (IMPORT_ORIGINALS_MAX + IMPORT_BODY_MAX + ((size_t)2 << 20))
#define IMPORT_ERROR_UNITS   1000 /* ImportItem.ErrorMessage */
#define IMPORT_SUMMARY_UNITS 2000

struct import_batch;

struct import_item {
    int64_t sequence;
    size_t at; /* of its JSON: in the chunk's body if it is sent, else in `unsent` */
    size_t len;
    int64_t records; /* of the file that it stands for */
    int64_t row;     /* where the record stands in the file, from 1; of a first attempt */
    bool sent;
    enum df_item_status status;
    struct df_str error; /* absent: none */
    const char *code;    /* of the error: imports/reasons.h; static */
    size_t original_at;  /* of the record as uploaded, in `originals` */
    size_t original_len; /* 0: it is not kept */

    /* What is stored (mask.c). */
    const char *hash; /* of its JSON, keyed */
    size_t masked_at;
    size_t masked_len;
    size_t sealed_at;
    size_t sealed_len; /* 0: nothing */
};

/* What an answer means. */
enum import_verdict {
    IMPORT_DONE,      /* every item has its result */
    IMPORT_AWAIT,     /* the ack comes later; ack_id is set */
    IMPORT_AGAIN,     /* failed, may succeed later */
    IMPORT_REFUSED,   /* failed for good */
    IMPORT_CANCELLED, /* the process ends */
};

struct import_chunk {
    struct df_link link; /* it is in one list at a time */
    struct import_batch *batch;

    /* Its content, set by cutting. */
    int64_t id;
    int64_t offset;
    struct import_item *items;
    size_t count;
    size_t cap;
    int64_t records;   /* of the file that the items stand for */
    size_t sent_count; /* items that are sent */
    struct df_buf body;
    struct df_buf unsent;
    struct df_buf originals; /* the records of the items, as uploaded */
    struct df_buf subjects;  /* entries of the people in the items (privacy/subjects.h) */
    struct df_buf masked;    /* the items as they are stored */
    struct df_buf sealed;    /* what is kept of failed items, encrypted */
    struct df_arena arena;   /* errors and headers, until it is settled */
    char hash[DF_CHECKSUM_LEN + 1];

    /* Its progress. */
    enum import_chunk_state state; /* set by import_chunk_happens only */
    bool has_row;
    int64_t attempts; /* by all owners, as stored */
    int64_t tries;    /* by this owner, without those of an outage */
    int64_t promises; /* 202s that this owner got; when an ack is missed they are the tries */
    int64_t arrived;  /* chunks that OmniFlow had taken when it was last sent */
    struct df_tries failures; /* of this owner's calls */
    bool gives_up;            /* the last call's failure was the last one allowed */
    int64_t due_ms;           /* monotonic */
    int64_t first_ms;         /* monotonic: when it was cut */
    int64_t sent_ms;          /* monotonic: when it was last sent, by any owner; 0: not yet */
    struct df_str ack_id;

    /* Its call. */
    struct df_out out;
    enum import_verdict verdict;
    const char *reason;      /* of a failure, for the metric; NULL: none */
    struct df_link answered; /* in the batch's mail; guarded by the imports' lock */

    /* What will be settled. */
    enum df_chunk_status outcome;
    struct df_str error;
};

/* --- chunk.c --- */

/* A chunk in state NEW. A chunk that is put back keeps its memory for the next use. */
struct import_chunk *import_chunk_get(struct import_batch *b);
void import_chunk_put(struct import_chunk *c); /* the chunk is GONE */
void import_chunk_free(struct import_chunk *c);

/* Takes the first chunk out of a list; NULL: the list is empty. */
static inline struct import_chunk *import_chunks_take(struct df_list *l)
{
    return DF_LIST_TAKE(l, struct import_chunk, link);
}

/* Moves the chunks in one of the states (IMPORT_IN) to another list, in their order. */
#define IMPORT_IN(state) (1u << (state))
void import_chunks_move(struct df_list *from, unsigned states, struct df_list *to);

/* The arguments of an event. */
struct import_news {
    struct df_str ack; /* the stored ack, for ACK and FOUND_ACKED */
    int64_t wait_ms;   /* how long to wait, for NO_PERMIT and where an ack is awaited */
};

/* Applies the event, which must be possible in the chunk's state, and performs the action. */
void import_chunk_happens(struct import_chunk *c, enum import_chunk_event event);
void import_chunk_happens_with(struct import_chunk *c, enum import_chunk_event event,
                               struct import_news news);
/* Applies DROPPED and puts the chunk back. It must be in no list. */
void import_chunk_drop(struct import_chunk *c);

/* --- cut.c --- */

struct df_str import_item_json(const struct import_chunk *c, const struct import_item *item);
/* Cuts the next chunk of the file. DF_ROW, DF_DONE, or an error of the file. */
enum df_code import_cut(struct import_batch *b, struct import_chunk *c,
                        struct df_err *err) DF_MUST_CHECK;
/* Cuts the next chunk of a later attempt, from the stored items. */
enum df_code import_cut_again(struct import_batch *b, struct import_chunk *c,
                              struct df_err *err) DF_MUST_CHECK;

/* --- original.c --- */

void import_original_keep(struct import_chunk *c, struct import_item *item,
                          const struct df_record *record);
/* The record of an item that failed; absent: none, or it is not kept. */
struct df_str import_original_of(const struct import_chunk *c, const struct import_item *item);

/* --- mask.c --- */

/* Before the chunk is settled: makes what will be stored of its items. */
void import_mask_chunk(struct import_chunk *c);
struct df_str import_masked_of(const struct import_chunk *c, const struct import_item *item);
/* The body of an answer, which may be JSON that quotes an item. Memory: the chunk's arena. */
struct df_str import_masked_answer(struct import_chunk *c, struct df_str body);
/* Absent: nothing is kept of it. */
struct df_str import_sealed_of(const struct import_chunk *c, const struct import_item *item);

/* --- send.c --- */

/* Hands a chunk whose row says Sending to the HTTP client. */
void import_send(struct import_chunk *c);

/* --- omniflow.c --- */

/* Fills in the call, which has its permit. */
void import_request(struct import_chunk *c);
/* Judges the answer; sets results or c->error. *ret_reason is for the metric. */
enum import_verdict import_judge(struct import_chunk *c, const char **ret_reason);
/* Sets the results from a stored ack. */
void import_apply_ack(struct import_chunk *c, struct df_str ack);
/* Gives this error and its code to the chunk and to all items that were sent. */
void import_fail_items(struct import_chunk *c, struct df_str error, const char *code);

/* --- figures.c --- */

void import_note_chunk_error(const struct import_chunk *c, const char *reason);
void import_note_settled(const struct import_chunk *c, int64_t now_ms);
void import_note_acked(const struct import_chunk *c, int64_t now_ms);

#endif

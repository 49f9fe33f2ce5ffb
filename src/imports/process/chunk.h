/*
 * A chunk: items that are sent in one call, under one key, and settled in one commit. It belongs to
 * the worker of its batch; from import_send on until it is among the batch's answered ones
 * (import_mail) it is the HTTP client's thread's.
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

#define IMPORT_CHUNK_BYTES   ((size_t)2 << 20)                        /* then the chunk is full */
#define IMPORT_BODY_MAX      (IMPORT_CHUNK_BYTES + ((size_t)2 << 20)) /* an item has at most one MiB */
#define IMPORT_ERROR_UNITS   1000                                     /* ImportItem.ErrorMessage */
#define IMPORT_SUMMARY_UNITS 2000

struct import_batch;

struct import_item {
    int64_t sequence;
    size_t at; /* of its JSON, in the chunk's body if it is sent, else in `unsent` */
    size_t len;
    int64_t records; /* of the file, that it stands for */
    bool sent;
    enum df_item_status status;
    struct df_str error; /* absent: none */
};

/* What an answer means. */
enum import_verdict {
    IMPORT_DONE,      /* every item has its result */
    IMPORT_AWAIT,     /* the ack comes later; ack_id is set */
    IMPORT_AGAIN,     /* failed, may go well later */
    IMPORT_REFUSED,   /* failed for good */
    IMPORT_CANCELLED, /* the process ends */
};

struct import_chunk {
    struct df_link link; /* it is in one list at a time */
    struct import_batch *batch;

    /* What it is, from its cutting on. */
    int64_t id;
    int64_t offset;
    struct import_item *items;
    size_t count;
    size_t cap;
    int64_t records;   /* of the file, that the items stand for */
    size_t sent_count; /* items that are sent */
    struct df_buf body;
    struct df_buf unsent;
    struct df_arena arena; /* errors and headers, until it is settled */
    char hash[DF_CHECKSUM_LEN + 1];

    /* How far it is. */
    enum import_chunk_state state; /* set by import_chunk_happens alone */
    bool has_row;
    int64_t attempts; /* of all owners, as stored */
    int64_t tries;    /* of this one */
    int64_t due_ms;   /* monotonic */
    int64_t first_ms; /* monotonic: when it was cut */
    struct df_str ack_id;

    /* Its call. */
    struct df_out out;
    enum import_verdict verdict;
    const char *reason;      /* for the metric, why it failed; NULL: it did not */
    struct df_link answered; /* in the batch's mail, under the imports' lock */

    /* What is to be settled. */
    enum df_chunk_status outcome;
    struct df_str error;
};

/* --- chunk.c --- */

/* NEW. Those that are put back keep their memory for the next use. */
struct import_chunk *import_chunk_get(struct import_batch *b);
void import_chunk_put(struct import_chunk *c); /* it is GONE */
void import_chunk_free(struct import_chunk *c);

/* The first of a list, taken out; NULL: there is none. */
static inline struct import_chunk *import_chunks_take(struct df_list *l)
{
    return DF_LIST_TAKE(l, struct import_chunk, link);
}

/* Moves those in one of the states (IMPORT_IN) from one list to the other, in their order. */
#define IMPORT_IN(state) (1u << (state))
void import_chunks_move(struct df_list *from, unsigned states, struct df_list *to);

/* What an event brings along. */
struct import_news {
    struct df_str ack; /* of ACK and FOUND_ACKED, as it was stored */
    int64_t wait_ms;   /* of NO_PERMIT and where an ack is awaited: how long */
};

/* Asks the state machine, which must know the event in this state, and does what it says. */
void import_chunk_happens(struct import_chunk *c, enum import_chunk_event event);
void import_chunk_happens_with(struct import_chunk *c, enum import_chunk_event event,
                               struct import_news news);
/* DROPPED, and put back. It is in no list. */
void import_chunk_drop(struct import_chunk *c);

/* --- cut.c --- */

struct df_str import_item_json(const struct import_chunk *c, const struct import_item *item);
/* The next chunk of the file. DF_ROW, DF_DONE, or an error of the file. */
enum df_code import_cut(struct import_batch *b, struct import_chunk *c,
                        struct df_err *err) DF_MUST_CHECK;
/* The next of a later attempt, from what is stored. */
enum df_code import_cut_again(struct import_batch *b, struct import_chunk *c,
                              struct df_err *err) DF_MUST_CHECK;

/* --- send.c --- */

/* Its row says Sending: hands it to the HTTP client. */
void import_send(struct import_chunk *c);

/* --- omniflow.c --- */

/* Fills the call, which has its permit. */
void import_request(struct import_chunk *c);
/* Judges the answer; sets results or c->error. *ret_reason is for the metric. */
enum import_verdict import_judge(struct import_chunk *c, const char **ret_reason);
/* The results of an ack as it was stored. */
void import_apply_ack(struct import_chunk *c, struct df_str ack);
/* All items of the chunk get this error, which becomes the chunk's too. */
void import_fail_items(struct import_chunk *c, struct df_str error);

/* --- figures.c --- */

void import_note_chunk_error(const struct import_chunk *c, const char *reason);
void import_note_settled(const struct import_chunk *c, int64_t now_ms);

#endif

/*
 * Between the files of the ticket processing: processing.c (claim, check, the thread) and
 * ticket_outcome.c (what is written). The states of a ticket: ticket_state.h.
 */
#ifndef DF_INTERFACE_PROCESSING_PRIVATE_H
#define DF_INTERFACE_PROCESSING_PRIVATE_H

#include "base/arena.h"
#include "interface/interface_private.h"
#include "interface/ticket_state.h"

struct ticket {
    enum ticket_state state; /* set by ticket_happens alone */

    /* What was claimed. */
    int64_t id;
    int64_t fence;
    struct df_str raw;
    struct df_str entity; /* the row's key */
    struct df_str row_doc_id;
    int64_t phase;
    struct df_str client_id; /* absent: another program wrote the row */

    /* What is to be written. */
    struct df_str doc_id;
    struct df_str problems; /* absent: it is fit */
    struct df_str answer;   /* the return; absent when it is not fit */
    struct df_str ack;      /* absent: none is wanted */

    /* What the outcome's transaction has found, anew each time it runs. */
    bool found;    /* as it was claimed */
    bool returned; /* it has a return already */
};

struct ticket_batch {
    struct df_job job;
    struct df_interface *i;
    struct df_arena claimed; /* the tickets as they lie in the table: until the batch is through */
    struct df_arena parsed;  /* of one ticket, while it is worked on */
    struct df_arena kept;    /* for the outcome: problems, returns, acks */
    struct df_arena params;
    struct ticket *all;
    size_t all_count;
    int64_t oversized;      /* the id of a ticket whose payload is too large; 0: there was none */
    struct ticket *tickets; /* of `all`, those whose outcome is written now */
    size_t count;
    int64_t next_due_ms; /* -1: nothing waits */
    bool acks;           /* were written */
    int64_t webhooks;    /* deliveries that were made */
};

/* Asks the state machine, which must know the event in this state. */
enum ticket_action ticket_happens(struct ticket *t, enum ticket_event event);
/* By fence, so that those with the same one stand together; then by id. */
int ticket_order(const void *a, const void *b);
/* A text for LastError. Memory: b->kept. */
struct df_str ticket_problem(struct ticket_batch *b, struct df_str text);
/* What the buffer has, copied; the absent slice when it became longer than the buffer's maximum. */
struct df_str ticket_text(struct df_arena *a, struct df_buf *take_buf);
/* Writes the outcome of b->tickets, which are in ticket_order, and tells of it. */
enum df_code ticket_write_outcomes(struct ticket_batch *b, struct df_err *err) DF_MUST_CHECK;
void ticket_count_outcome(const char *outcome, size_t count);

#endif

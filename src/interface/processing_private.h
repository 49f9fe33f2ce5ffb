/*
 * Shared by processing.c (claim, check, loop), ticket_outcome.c (what is written) and
 * ticket_tries.c (when a ticket is given up).
 * ticket_state.h has the states of a ticket.
 */
#ifndef DF_INTERFACE_PROCESSING_PRIVATE_H
#define DF_INTERFACE_PROCESSING_PRIVATE_H

#include "base/arena.h"
#include "interface/interface_private.h"
#include "interface/ticket_state.h"
#include "resilience/tries.h"

struct ticket {
    enum ticket_state state; /* set by ticket_happens only */

    /* What was claimed. */
    int64_t id;
    int64_t fence;
    struct df_str raw;
    struct df_str entity; /* the row's key */
    struct df_str row_doc_id;
    int64_t phase;
    struct df_str client_id; /* the owner; absent: another program wrote the row */
    struct df_tries tries;   /* its failures; of a refused one with this try's */

    /* What is to be written. */
    struct df_str doc_id;
    struct df_str problems; /* absent: the ticket is fit */
    struct df_str answer;   /* the return; absent if the ticket is not fit */
    struct df_str ack;      /* absent: none is required */

    /* What the outcome's transaction finds, each time it runs. */
    bool found;    /* the row is still as it was claimed */
    bool returned; /* the ticket has a return already */
};

/*
 * How the processing does, for the rule that decides when a ticket is given up: how many tickets
 * were processed, ever. All processes add to one row (DeliveryTargets), each at most once a second,
 * with an outcome.
 */
struct ticket_health {
    int64_t arrived;   /* as last read */
    int64_t unwritten; /* processed by this process, and not in the row yet */
    int64_t at_claim;  /* what was known when the batch was claimed */
    int64_t write_ms;  /* monotonic: when the row may be written again */
    /* What the outcome's transaction did, each time it runs. */
    bool wrote;
    int64_t found;
};

struct ticket_batch {
    struct df_job job;
    struct df_interface *i;
    struct df_arena claimed; /* the tickets as in the table, until the batch is done */
    struct df_arena parsed;  /* one ticket while it is processed */
    struct df_arena kept;    /* for the outcome: problems, returns, acks */
    struct df_arena params;  /* of the outcome's transaction */
    struct ticket *all;
    size_t all_count;
    int64_t oversized;      /* id of a ticket whose payload is too large; 0: none */
    struct ticket *tickets; /* those in `all` whose outcome is written now */
    size_t count;
    struct ticket_health health;
    int64_t next_due_ms; /* -1: nothing waits */
    bool acks;           /* the outcome contains acks */
    int64_t webhooks;    /* deliveries that the outcome contains */
};

/* Applies the event, which must be possible in the ticket's state. */
enum ticket_action ticket_happens(struct ticket *t, enum ticket_event event);
/* Orders by fence, so that tickets with the same fence are neighbours, then by id. */
int ticket_order(const void *a, const void *b);
/* A text for LastError. Memory: b->kept. */
struct df_str ticket_problem(struct ticket_batch *b, struct df_str text);
/* A copy of the buffer's text; absent if the text exceeded the buffer's maximum. */
struct df_str ticket_text(struct df_arena *a, struct df_buf *take_buf);
/* Writes the outcomes of b->tickets, which are in ticket_order, then logs, counts and wakes. */
enum df_code ticket_write_outcomes(struct ticket_batch *b, struct df_err *err) DF_MUST_CHECK;
void ticket_count_outcome(const char *outcome, size_t count);

/* --- ticket_tries.c --- */
/* Reads the health with a claim, in its transaction. */
enum df_code ticket_health_read(struct df_db *db, struct ticket_batch *b,
                                struct df_err *err) DF_MUST_CHECK;
/* Adds the processed tickets to the row, if it is time, in the outcome's transaction. */
enum df_code ticket_health_write(struct df_db *db, struct ticket_batch *b, size_t processed,
                                 struct df_value now, struct df_err *err) DF_MUST_CHECK;
/* After the commit. */
void ticket_health_settled(struct ticket_batch *b, size_t processed);
/* Judges the failure of a ticket whose outcome the database refused: TICKET_EV_REFUSED or
 * TICKET_EV_SPENT. */
enum ticket_event ticket_judge_failure(struct ticket_batch *b, struct ticket *t);

#endif

/*
 * The processing of tickets, shared by
 *
 *     ticket_check.c     what becomes of a ticket
 *     ticket_effects.c   what its outcome sets in motion
 *     ticket_accept.c    tickets that are processed in the transaction that accepts them
 *     processing.c       the loop for all others: claim, check
 *     ticket_outcome.c   writes the outcomes of the loop
 *     ticket_care.c      what the loop takes up after a process that did not end as it should
 *     ticket_tries.c     when a ticket is given up
 *
 * ticket_state.h has the states of a ticket.
 */
#ifndef DF_INTERFACE_PROCESSING_PRIVATE_H
#define DF_INTERFACE_PROCESSING_PRIVATE_H

#include "base/arena.h"
#include "base/checksum.h"
#include "base/span.h"
#include "interface/interface_private.h"
#include "interface/owners.h"
#include "interface/payload.h"
#include "interface/ticket_state.h"
#include "privacy/subjects.h"
#include "resilience/tries.h"

#define TICKET_CHANNEL   "tickets"
#define TICKET_CLAIM_MAX 256

struct ticket {
    enum ticket_state state; /* set by ticket_happens only */

    /* The row, and in the loop what it was at the claim. */
    int64_t id;
    int64_t version;
    int64_t due_ms;
    struct df_str raw;
    struct df_str entity; /* the row's key */
    struct df_str row_doc_id;
    int64_t phase;
    struct df_str client_id;    /* the owner; absent: another program wrote the row */
    struct df_str trace_parent; /* of the request that brought the payload; absent: likewise */
    struct df_tries tries;      /* its failures; of a refused one with this try's */

    /* What is to be written. */
    struct df_str doc_id;
    struct df_str problems; /* absent: the ticket is fit */
    struct df_str answer;   /* the return; absent if the ticket is not fit */
    struct df_str ack;      /* absent: none is required */

    /* What the outcome's transaction finds, each time it runs. */
    bool found;    /* the row is still as it was claimed, or was accepted */
    bool returned; /* the ticket has a return already */

    struct df_span *span; /* in the loop: of its processing; NULL: not recorded */
};

static inline unsigned ticket_shard(int64_t id)
{
    return (unsigned)((uint64_t)id % DF_SHARDS);
}

/* --- ticket_check.c --- */
/* Applies the event, which must be possible in the ticket's state. */
enum ticket_action ticket_happens(struct ticket *t, enum ticket_event event);
/* A text for LastError. */
struct df_str ticket_problem(struct df_arena *kept, struct df_str text);
/* A copy of the buffer's text; absent if the text exceeded the buffer's maximum. */
struct df_str ticket_text(struct df_arena *a, struct df_buf *take_buf);
/* Finds the ticket fit or not, and builds its return and its ack. One that would be too long is a
 * problem of the ticket. `problems` are those of df_ticket_check; absent: none. */
void ticket_judge(const struct df_interface *i, struct ticket *t, const struct df_ticket *parsed,
                  struct df_str problems, struct df_arena *kept);

/* Begins the span of a ticket's processing, in the context of the request that brought it. False:
 * it is not recorded. */
bool ticket_span_begin(const struct df_interface *i, const struct ticket *t, struct df_span *span);
void ticket_span_end(const struct ticket *t, struct df_span *span, enum df_code code);

/* --- ticket_effects.c --- */
struct ticket_effects {
    const struct df_interface *i;
    struct ticket **tickets;
    size_t count;
    struct df_arena *arena; /* for parameters */
    /* What was written. */
    bool acks;
    int64_t webhooks; /* deliveries */
};

bool ticket_is_fit(const struct ticket *t);
enum df_code ticket_effects_write(struct df_db *db, struct ticket_effects *e, struct df_value now,
                                  struct df_err *err) DF_MUST_CHECK;
/* After the commit. */
void ticket_effects_wake(struct df_interface *i, bool processed, bool acks, bool webhooks,
                         int64_t due_ms);
void ticket_count_outcome(const char *outcome, size_t count);
void ticket_tell(const struct ticket *t, enum ticket_action action);

/* --- ticket_accept.c --- */
/* A ticket that is accepted, and processed if this process does that. */
struct ticket_acceptance {
    struct df_arena *arena; /* the request's, as all text */
    struct df_reach reach;
    struct df_ticket parsed;
    struct df_str payload;
    char hash[DF_CHECKSUM_LEN + 1];
    struct df_subjects people; /* whom the payload names */
    struct ticket t;
    bool judged; /* t has an outcome, which is written with the row */
    /* What the transaction finds, each time it runs. */
    struct df_str status; /* for the answer */
    bool created;
    bool changed;
    bool refused; /* the ticket is another client's */
    bool webhooks;
    int64_t due_ms; /* when what it sets in motion is due */
};

/* After df_ticket_read; reach, parsed, payload, hash and arena are set. */
void ticket_acceptance_judge(struct ticket_acceptance *c, const struct df_input *in,
                             const struct df_interface *i);
/* In a job's transaction. */
enum df_code ticket_accept(struct df_db *db, struct df_interface *i, struct ticket_acceptance *c,
                           struct df_err *err) DF_MUST_CHECK;
/* The same for many, whose order changes; all or none. */
enum df_code ticket_accept_all(struct df_db *db, struct df_interface *i,
                               struct ticket_acceptance **all, size_t count,
                               struct df_err *err) DF_MUST_CHECK;
/* After the commit: logs, counts and wakes. */
void ticket_accepted(struct df_interface *i, struct ticket_acceptance *c);

/* --- the loop --- */

/*
 * How the processing does, for the rule that decides when a ticket is given up: how many tickets
 * were processed, ever. All processes add to one row (DeliveryTargets), each at most once a second.
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

/* A ticket that a process took with care, and how often. */
struct ticket_mark {
    int64_t id;
    int64_t taken;
};

#define TICKET_MARKS 256

/* What the loop takes with care (ticket_care.c). */
struct ticket_care {
    uint32_t held;   /* shards that were taken from an owner that did not end as it should */
    uint32_t reset;  /* shards in which tickets may be Processing that nobody processes */
    uint32_t shards; /* shards whose tickets are taken with care */
    size_t left;     /* how many more */
    struct ticket_mark marks[TICKET_MARKS];
    size_t mark_count;
};

/* A due ticket; and where a pass over the due tickets has come to. */
struct ticket_cursor {
    int64_t due_ms;
    int64_t id;
    int64_t version; /* of a due ticket: its payload's */
};

#define TICKET_CURSOR_START                                                                        \
    {                                                                                              \
        .due_ms = INT64_C(-62135596800000)                                                         \
    } /* the year 1 */

struct ticket_batch {
    struct df_job job;
    struct df_interface *i;
    struct df_arena claimed; /* the tickets as in the table, until the batch is done */
    struct df_arena parsed;  /* one ticket while it is processed */
    struct df_arena kept;    /* for the outcome: problems, returns, acks */
    struct df_arena params;  /* of the outcome's transaction */

    uint32_t own;    /* shards that a transaction found as they were */
    uint32_t shards; /* from which tickets are claimed, and their epochs */
    int64_t epochs[DF_SHARDS];
    struct ticket_cursor cursor;
    struct ticket_cursor due[TICKET_CLAIM_MAX]; /* the tickets in hand */
    size_t due_count;
    bool more;          /* there may be more behind them */
    bool careful;       /* they have marks */
    bool oversized;     /* there is one, whose payload is too large */
    int64_t claimed_ms; /* monotonic */
    bool shown;         /* the tickets in hand were written as Processing */

    struct ticket *all; /* by id */
    size_t all_count;
    struct ticket *tickets; /* those in `all` whose outcome is written now */
    size_t count;
    struct ticket_health health;
    struct ticket_care care;
    int64_t next_due_ms; /* -1: nothing waits */
    int64_t due_ms;      /* when what the outcome sets in motion is due */
    bool acks;           /* the outcome contains acks */
    int64_t webhooks;    /* deliveries that the outcome contains */
};

/* --- ticket_outcome.c --- */
/* Writes the outcomes of b->tickets, then logs, counts and wakes. */
enum df_code ticket_write_outcomes(struct ticket_batch *b, struct df_err *err) DF_MUST_CHECK;
/* Writes Error for a person for the first of the due tickets, which is not read. */
enum df_code ticket_refuse_unread(struct ticket_batch *b, struct df_str why, bool given_up,
                                  struct df_err *err) DF_MUST_CHECK;
/* Writes Processing for the tickets in hand, if they have been in hand for a second. */
enum df_code ticket_show(struct ticket_batch *b, struct df_err *err) DF_MUST_CHECK;
/* In a transaction: locks the shards that tickets are claimed from. *ret: those that still are as
 * at the claim. */
enum df_code ticket_lock_shards(struct df_db *db, const struct ticket_batch *b, uint32_t shards,
                                uint32_t *ret, struct df_err *err) DF_MUST_CHECK;

/* --- ticket_care.c --- */
/* These shards were taken from an owner that did not end as it should. Any thread. */
void ticket_care_lost(struct df_interface *i, uint32_t unclean);
/* Before a claim: resets what a lost owner left, and reads the marks. */
enum df_code ticket_care_begin(struct ticket_batch *b, struct df_err *err) DF_MUST_CHECK;
/* Whether the tickets that were found are to be taken with care. */
bool ticket_care_needed(struct ticket_batch *b);
/* Marks the first of them, before they are read. *ret_none: none is to be read, since one was given
 * up instead, or shards were lost. */
enum df_code ticket_care_mark(struct ticket_batch *b, bool *ret_none,
                              struct df_err *err) DF_MUST_CHECK;
/* With the outcomes of b->tickets, in their transaction, and after its commit. */
enum df_code ticket_care_clear(struct df_db *db, struct ticket_batch *b,
                               struct df_err *err) DF_MUST_CHECK;
void ticket_care_cleared(struct ticket_batch *b);
/* The pass with care is over, or has seen enough. */
enum df_code ticket_care_end(struct ticket_batch *b, struct df_err *err) DF_MUST_CHECK;

/* --- ticket_tries.c --- */
/* Reads the health with a claim. */
enum df_code ticket_health_read(struct df_db *db, struct ticket_batch *b,
                                struct df_err *err) DF_MUST_CHECK;
/* Adds the processed tickets to the row, if it is time, in the outcome's transaction. */
enum df_code ticket_health_write(struct df_db *db, struct ticket_batch *b, size_t processed,
                                 struct df_value now, struct df_err *err) DF_MUST_CHECK;
/* After the commit. */
void ticket_health_settled(struct ticket_batch *b, size_t processed);
/* Adds the tickets that were processed as they were accepted, if it is time. */
enum df_code ticket_health_flush(struct ticket_batch *b, struct df_err *err) DF_MUST_CHECK;
/* Judges the failure of a ticket whose outcome the database refused: TICKET_EV_REFUSED or
 * TICKET_EV_SPENT. */
enum ticket_event ticket_judge_failure(struct ticket_batch *b, struct ticket *t);

#endif

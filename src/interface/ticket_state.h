/*
 * What the processing makes of one ticket, from its claim on: one enum, and one pure function that
 * says what an event makes of it. processing.c and ticket_outcome.c do what it says; nobody else
 * sets a state.
 *
 *                fit           written
 *     CLAIMED ──────────► FIT ─────────────────► PROCESSED   (Processed)
 *        │                 │
 *        │                 │ refused             written
 *        │                 ├─────────► REFUSED ────────────► PUT_OFF     (Error, due again)
 *        │ not fit         │             │
 *        └──────────────► UNFIT          │ refused again
 *                          │             └─────────────────► LEFT        (Processing)
 *                          │ written
 *                          └───────────────────► REJECTED    (Error, for a person)
 *
 *     FIT, UNFIT, REFUSED: the row has moved on ► OVERTAKEN
 *     from each that is no end: the database is away ► LEFT
 *
 * In brackets is what the row then says. Claim and outcome are two commits; between them the row is
 * Processing, under a lease, and a LEFT one is claimed again when that is over. Lease and fence are
 * those of all outboxes (src/delivery/README.md); the fence has the payload's version too, so that a
 * newer payload that comes in between wins: the outcome finds another fence, changes nothing, and
 * nothing is told of it.
 *
 * Outcomes are written many in one commit. When the database refuses one of those for what is in it
 * (a constraint, a trigger), each is written by itself, and the one that is refused keeps nobody
 * back. It becomes an Error that is due again: it may not be the ticket that has to change, so its
 * sender is told nothing.
 *
 * A ticket whose payload is too large is no part of this: it is never claimed, and becomes Error
 * unread.
 */
#ifndef DF_INTERFACE_TICKET_STATE_H
#define DF_INTERFACE_TICKET_STATE_H

#include <stdbool.h>

enum ticket_state {
    TICKET_CLAIMED,
    TICKET_FIT,     /* its return and its ack are built: to be written as Processed */
    TICKET_UNFIT,   /* to be written as Error, with every problem named */
    TICKET_REFUSED, /* by the database: to be written as Error, to be tried again */
    TICKET_PROCESSED,
    TICKET_REJECTED,
    TICKET_PUT_OFF,
    TICKET_OVERTAKEN, /* by a newer payload, or by another process after the lease */
    TICKET_LEFT,      /* nothing was written */
    TICKET_STATES
};

enum ticket_event {
    TICKET_EV_FIT,
    TICKET_EV_UNFIT,
    TICKET_EV_WRITTEN,
    TICKET_EV_FENCED,  /* the commit did not find the row as it was claimed */
    TICKET_EV_REFUSED, /* the database does not take it, for what is in it */
    TICKET_EV_FAILED,  /* the database is away, or nobody knows what came of the commit */
    TICKET_EVENTS
};

enum ticket_action {
    TICKET_NOTHING,
    TICKET_TELL_PROCESSED,
    TICKET_TELL_REJECTED,
    TICKET_WRITE_REFUSAL, /* instead of the outcome */
    TICKET_IMPOSSIBLE,    /* a mistake in the program */
    TICKET_ACTIONS
};

struct ticket_step {
    enum ticket_state state;
    enum ticket_action action;
};

/* Of TICKET_IMPOSSIBLE the state is the one before. */
struct ticket_step df_ticket_step(enum ticket_state state, enum ticket_event event);

static inline bool ticket_has_ended(enum ticket_state state)
{
    return state >= TICKET_PROCESSED;
}

#endif

/*
 * The state machine of a ticket in processing: one enum, and one pure function from state and event
 * to the next state and an action. A ticket begins as CLAIMED when it is accepted (ticket_accept.c)
 * or claimed (processing.c). These files and ticket_outcome.c carry out the actions; no other code
 * sets a state.
 *
 *                fit           written
 *     CLAIMED ──────────► FIT ─────────────────► PROCESSED   (Processed)
 *        │                 │
 *        │                 │ refused             written
 *        │                 ├─────────► REFUSED ────────────► PUT_OFF     (Error, due again)
 *        │                 │
 *        │                 │ spent               written
 *        │ not fit         ├─────────► SPENT ──────────────► GIVEN_UP    (Error, for a person)
 *        └──────────────► UNFIT
 *                          │ written
 *                          └───────────────────► REJECTED    (Error, for its sender)
 *
 *     FIT, UNFIT, REFUSED, SPENT: the row has changed since the claim ► OVERTAKEN
 *     REFUSED, SPENT: refused again ► LEFT
 *     every state that is not an end: the database is unreachable ► LEFT
 *
 * The row's status is in brackets. A claim writes nothing: the row stays as it was, and due, until
 * its outcome is committed, so that a LEFT ticket is taken again. Nobody else takes it meanwhile:
 * it belongs to a shard that this process owns (shards/shards.h). The outcome's transaction locks
 * shard and row, and compares the shard's epoch, the payload's version and the due time with those
 * at the claim: so a newer payload wins, and who has lost the shard writes nothing. A ticket that
 * is in hand for more than a second is shown as Processing.
 *
 * A ticket that is accepted is written with its outcome: FIT or UNFIT, then written. If the
 * database refuses that, the ticket is written as Awaiting, and a claim begins anew.
 *
 * Many outcomes are written in one commit. When the database refuses a commit because of its
 * content (a constraint, a trigger), each outcome is written by itself, so that the refused one
 * does not hold back the others. That ticket becomes an Error that is due again. The cause may not
 * be the ticket, so its sender is not told. Such a failure counts only while other tickets are
 * processed (resilience/tries.h); when too many have counted, or it has lasted too long, the ticket
 * is given up: it waits for a person.
 *
 * Two kinds of tickets are not part of this, since they become Error without being read: those
 * whose payload is too large, and those during which processes ended unexpectedly (ticket_care.c).
 */
#ifndef DF_INTERFACE_TICKET_STATE_H
#define DF_INTERFACE_TICKET_STATE_H

#include <stdbool.h>

enum ticket_state {
    TICKET_CLAIMED,
    TICKET_FIT,     /* return and ack are built: to be written as Processed */
    TICKET_UNFIT,   /* to be written as Error, with every problem named */
    TICKET_REFUSED, /* by the database: to be written as Error and tried again */
    TICKET_SPENT,   /* refused, and no try is left: to be written as Error for a person */
    TICKET_PROCESSED,
    TICKET_REJECTED,
    TICKET_PUT_OFF,
    TICKET_GIVEN_UP,
    TICKET_OVERTAKEN, /* by a newer payload, or by another process that has the shard */
    TICKET_LEFT,      /* nothing was written */
    TICKET_STATES
};

enum ticket_event {
    TICKET_EV_FIT,
    TICKET_EV_UNFIT,
    TICKET_EV_WRITTEN,
    TICKET_EV_FENCED,  /* the commit did not find the row as it was claimed */
    TICKET_EV_REFUSED, /* the database refused the outcome for its content */
    TICKET_EV_SPENT,   /* the same, and no try is left */
    TICKET_EV_FAILED,  /* the database is unreachable, or the commit's outcome is unknown */
    TICKET_EVENTS
};

enum ticket_action {
    TICKET_NOTHING,
    TICKET_TELL_PROCESSED,
    TICKET_TELL_REJECTED,
    TICKET_TELL_GIVEN_UP,
    TICKET_WRITE_REFUSAL, /* instead of the outcome */
    TICKET_IMPOSSIBLE,    /* a bug */
    TICKET_ACTIONS
};

struct ticket_step {
    enum ticket_state state;
    enum ticket_action action;
};

/* With TICKET_IMPOSSIBLE the state stays. */
struct ticket_step df_ticket_step(enum ticket_state state, enum ticket_event event);

static inline bool ticket_has_ended(enum ticket_state state)
{
    return state >= TICKET_PROCESSED;
}

#endif

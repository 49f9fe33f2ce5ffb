/*
 * The state machine of a batch in work, from its claim to its end by one owner: one enum, and one
 * pure function from state and event to the next state and an action. The action is the commit that
 * ends the ownership; pipeline.c performs it. No other code sets a state.
 *
 *                  its file is bad
 *        ┌───────────────────────────────────────────────────────┐
 *        │                        the file's end                 ▼
 *   PREPARING ──► CUTTING ──┬───────────────────► READ ────► FINISHED
 *        │                  ├── its file is bad ► FAILING ──────▲
 *        │                  └── its turn is over ► YIELDING ──► GAVE_WAY
 *        │                                            when no chunk is in hand
 *        │  the process ends: CUTTING, READ, FAILING, YIELDING ──► STOPPING ──► STOPPED
 *        ├──────────────────────────────────────────────────────────────────────▲
 *        │                                            when no call is under way
 *        │  the peer is away: CUTTING, READ, FAILING, YIELDING ──► SHELVING ──► SHELVED
 *        │                                   when no call is under way │
 *        │                                                             └─ for too long ► FINISHED
 *        └── its file is away ► POSTPONED
 *
 *   from every state: another owner has it ► LOST, the database is unreachable ► BROKEN
 *
 * New chunks are cut only in CUTTING. READ, FAILING and YIELDING bring the chunks in hand to their
 * end, and still send. STOPPING and SHELVING send nothing more and wait for the answers under way.
 *
 * The states from FINISHED on are ends. FINISHED, GAVE_WAY, STOPPED, POSTPONED and SHELVED are
 * reached with an action, a commit under the owner's token. If the commit finds another owner or
 * fails, the batch is LOST or BROKEN after all. A BROKEN batch is claimed again from what is
 * stored, perhaps by the same worker. A SHELVED batch is Pending again, and is taken up when the
 * peer may be back.
 */
#ifndef DF_IMPORTS_BATCH_STATE_H
#define DF_IMPORTS_BATCH_STATE_H

#include <stdbool.h>

enum import_batch_state {
    BATCH_PREPARING, /* the row is loaded, the file is fetched and read once */
    BATCH_CUTTING,
    BATCH_READ,      /* there are no more records */
    BATCH_FAILING,   /* it will be Failed; nothing more is cut */
    BATCH_YIELDING,  /* it gives way to another client; nothing more is cut */
    BATCH_STOPPING,  /* the process ends; nothing is cut or sent */
    BATCH_SHELVING,  /* the peer is away; nothing is cut or sent */
    BATCH_FINISHED,  /* Completed, CompletedWithErrors or Failed */
    BATCH_GAVE_WAY,  /* it waits for its client's next turn */
    BATCH_STOPPED,   /* the lock was given back */
    BATCH_POSTPONED, /* its file cannot be fetched now */
    BATCH_SHELVED,   /* it waits for the peer */
    BATCH_LOST,      /* another owner has it */
    BATCH_BROKEN,    /* the database is unreachable, or a commit's outcome is unknown */
    BATCH_STATES
};

enum import_batch_event {
    BATCH_EV_PREPARED,
    BATCH_EV_FILE_BAD,   /* broken, or over a limit */
    BATCH_EV_FILE_AWAY,  /* it may be available later */
    BATCH_EV_FILE_READ,  /* to its end */
    BATCH_EV_TURN_OVER,  /* another client waits */
    BATCH_EV_STOP,       /* the process ends */
    BATCH_EV_OUTAGE,     /* the peer has taken no chunk for too long to hold the lock */
    BATCH_EV_HOPELESS,   /* nor for so long that the batch is given up; no call is under way */
    BATCH_EV_EMPTY_HAND, /* every chunk that was cut is settled */
    BATCH_EV_NO_CALLS,   /* no call is under way */
    BATCH_EV_LOST,       /* a commit did not find the owner's token */
    BATCH_EV_BROKEN,     /* a commit failed */
    BATCH_EVENTS
};

enum import_batch_action {
    BATCH_NOTHING,
    BATCH_FINISH,
    BATCH_GIVE_WAY,
    BATCH_GIVE_BACK,
    BATCH_POSTPONE,
    BATCH_SHELVE,
    BATCH_IMPOSSIBLE, /* a bug */
    BATCH_ACTIONS
};

struct import_batch_step {
    enum import_batch_state state;
    enum import_batch_action action;
};

/* With BATCH_IMPOSSIBLE the state stays. */
struct import_batch_step import_batch_step(enum import_batch_state state,
                                           enum import_batch_event event);

/* Whether chunks are sent in that state. */
static inline bool import_batch_sends(enum import_batch_state state)
{
    return state >= BATCH_CUTTING && state <= BATCH_YIELDING;
}

static inline bool import_batch_has_ended(enum import_batch_state state)
{
    return state >= BATCH_FINISHED;
}

#endif

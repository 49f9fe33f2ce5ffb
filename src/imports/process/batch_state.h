/*
 * A batch from its claim to its end, in the hands of one owner: one enum, and one pure function
 * that says what an event makes of it. pipeline.c performs the action, which is the commit that
 * gives the batch out of hand; nobody else sets a state.
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
 *        └── its file is away ► POSTPONED
 *
 *   from each of them: another owner has it ► LOST, the database is away ► BROKEN
 *
 * While it is CUTTING new chunks come in hand; READ, FAILING and YIELDING bring those in hand to
 * their end, sending what is to be sent. STOPPING sends nothing any more and waits for answers.
 *
 * The states from FINISHED on are ends. FINISHED, GAVE_WAY, STOPPED and POSTPONED are reached with
 * an action, a commit under the owner's token, which may find that the batch is somebody else's, or
 * may not come about: then it is LOST or BROKEN after all. One that is BROKEN is taken up again
 * from what is stored, be it by the same worker.
 */
#ifndef DF_IMPORTS_BATCH_STATE_H
#define DF_IMPORTS_BATCH_STATE_H

#include <stdbool.h>

enum import_batch_state {
    BATCH_PREPARING, /* the row is loaded, the file brought here and read once */
    BATCH_CUTTING,
    BATCH_READ,      /* there are no more records */
    BATCH_FAILING,   /* it will be Failed; nothing more is cut */
    BATCH_YIELDING,  /* to another client; likewise */
    BATCH_STOPPING,  /* the process ends; nothing is cut nor sent */
    BATCH_FINISHED,  /* Completed, or CompletedWithErrors, or Failed */
    BATCH_GAVE_WAY,  /* it waits for its client's next turn */
    BATCH_STOPPED,   /* the lock was given back */
    BATCH_POSTPONED, /* its file cannot be had just now */
    BATCH_LOST,      /* somebody else has it */
    BATCH_BROKEN,    /* the database is away, or nobody knows what came of a commit */
    BATCH_STATES
};

enum import_batch_event {
    BATCH_EV_PREPARED,
    BATCH_EV_FILE_BAD,   /* for good, or over a limit */
    BATCH_EV_FILE_AWAY,  /* it may be had later */
    BATCH_EV_FILE_READ,  /* to its end */
    BATCH_EV_TURN_OVER,  /* another client waits */
    BATCH_EV_STOP,       /* the process ends */
    BATCH_EV_EMPTY_HAND, /* every chunk that was cut is settled */
    BATCH_EV_NO_CALLS,   /* are under way */
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
    BATCH_IMPOSSIBLE, /* a mistake in the program */
    BATCH_ACTIONS
};

struct import_batch_step {
    enum import_batch_state state;
    enum import_batch_action action;
};

/* Of BATCH_IMPOSSIBLE the state is the one before. */
struct import_batch_step import_batch_step(enum import_batch_state state,
                                           enum import_batch_event event);

static inline bool import_batch_has_ended(enum import_batch_state state)
{
    return state >= BATCH_FINISHED;
}

#endif

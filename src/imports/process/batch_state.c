/* The state machine of a batch. batch_state.h has the drawing and the reasons. */
#include "imports/process/batch_state.h"

static struct import_batch_step step_to(enum import_batch_state state,
                                        enum import_batch_action action)
{
    return (struct import_batch_step){.state = state, .action = action};
}

static struct import_batch_step impossible(enum import_batch_state state)
{
    return step_to(state, BATCH_IMPOSSIBLE);
}

static struct import_batch_step only_cutting(enum import_batch_state state,
                                             enum import_batch_state next)
{
    return state == BATCH_CUTTING ? step_to(next, BATCH_NOTHING) : impossible(state);
}

/* Before the first chunk, no chunk has to be brought to its end. */
static struct import_batch_step step_bad(enum import_batch_state state)
{
    return state == BATCH_PREPARING ? step_to(BATCH_FINISHED, BATCH_FINISH)
                                    : only_cutting(state, BATCH_FAILING);
}

static struct import_batch_step step_stop(enum import_batch_state state)
{
    if (import_batch_has_ended(state))
        return impossible(state);
    return state == BATCH_PREPARING ? step_to(BATCH_STOPPED, BATCH_GIVE_BACK)
                                    : step_to(BATCH_STOPPING, BATCH_NOTHING);
}

static struct import_batch_step step_empty(enum import_batch_state state)
{
    switch (state) {
    case BATCH_READ:
    case BATCH_FAILING:
        return step_to(BATCH_FINISHED, BATCH_FINISH);
    case BATCH_YIELDING:
        return step_to(BATCH_GAVE_WAY, BATCH_GIVE_WAY);
    case BATCH_CUTTING:
    case BATCH_STOPPING:
    case BATCH_SHELVING:
        return step_to(state, BATCH_NOTHING);
    case BATCH_PREPARING:
    case BATCH_FINISHED:
    case BATCH_GAVE_WAY:
    case BATCH_STOPPED:
    case BATCH_POSTPONED:
    case BATCH_SHELVED:
    case BATCH_LOST:
    case BATCH_BROKEN:
    case BATCH_STATES:
        break;
    }
    return impossible(state);
}

static struct import_batch_step step_no_calls(enum import_batch_state state)
{
    if (state == BATCH_PREPARING || import_batch_has_ended(state))
        return impossible(state);
    return state == BATCH_STOPPING   ? step_to(BATCH_STOPPED, BATCH_GIVE_BACK)
           : state == BATCH_SHELVING ? step_to(BATCH_SHELVED, BATCH_SHELVE)
                                     : step_to(state, BATCH_NOTHING);
}

static struct import_batch_step step_outage(enum import_batch_state state)
{
    return import_batch_sends(state) ? step_to(BATCH_SHELVING, BATCH_NOTHING) : impossible(state);
}

/* A process that ends leaves the batch to others in any case. */
static struct import_batch_step step_failed(enum import_batch_state state,
                                            enum import_batch_state end)
{
    if (state >= BATCH_LOST)
        return impossible(state);
    return step_to(state == BATCH_STOPPED ? BATCH_LOST : end, BATCH_NOTHING);
}

struct import_batch_step import_batch_step(enum import_batch_state state,
                                           enum import_batch_event event)
{
    switch (event) {
    case BATCH_EV_PREPARED:
        return state == BATCH_PREPARING ? step_to(BATCH_CUTTING, BATCH_NOTHING) : impossible(state);
    case BATCH_EV_FILE_BAD:
        return step_bad(state);
    case BATCH_EV_FILE_AWAY:
        return state == BATCH_PREPARING ? step_to(BATCH_POSTPONED, BATCH_POSTPONE)
                                        : impossible(state);
    case BATCH_EV_FILE_READ:
        return only_cutting(state, BATCH_READ);
    case BATCH_EV_TURN_OVER:
        return only_cutting(state, BATCH_YIELDING);
    case BATCH_EV_STOP:
        return step_stop(state);
    case BATCH_EV_OUTAGE:
        return step_outage(state);
    case BATCH_EV_HOPELESS:
        return state == BATCH_SHELVING ? step_to(BATCH_FINISHED, BATCH_FINISH) : impossible(state);
    case BATCH_EV_EMPTY_HAND:
        return step_empty(state);
    case BATCH_EV_NO_CALLS:
        return step_no_calls(state);
    case BATCH_EV_LOST:
        return step_failed(state, BATCH_LOST);
    case BATCH_EV_BROKEN:
        return step_failed(state, BATCH_BROKEN);
    case BATCH_EVENTS:
        break;
    }
    return impossible(state);
}

/* The state machine of a ticket. ticket_state.h has the drawing and the reasons. */
#include "interface/ticket_state.h"

static struct ticket_step step_to(enum ticket_state state, enum ticket_action action)
{
    return (struct ticket_step){.state = state, .action = action};
}

static struct ticket_step impossible(enum ticket_state state)
{
    return step_to(state, TICKET_IMPOSSIBLE);
}

static struct ticket_step step_checked(enum ticket_state state, enum ticket_state found)
{
    return state == TICKET_CLAIMED ? step_to(found, TICKET_NOTHING) : impossible(state);
}

static bool is_to_be_written(enum ticket_state state)
{
    return state == TICKET_FIT || state == TICKET_UNFIT || state == TICKET_REFUSED ||
           state == TICKET_SPENT;
}

static struct ticket_step step_written(enum ticket_state state)
{
    switch (state) {
    case TICKET_FIT:
        return step_to(TICKET_PROCESSED, TICKET_TELL_PROCESSED);
    case TICKET_UNFIT:
        return step_to(TICKET_REJECTED, TICKET_TELL_REJECTED);
    case TICKET_REFUSED:
        return step_to(TICKET_PUT_OFF, TICKET_NOTHING); /* it was logged when it was refused */
    case TICKET_SPENT:
        return step_to(TICKET_GIVEN_UP, TICKET_TELL_GIVEN_UP);
    case TICKET_CLAIMED:
    case TICKET_PROCESSED:
    case TICKET_REJECTED:
    case TICKET_PUT_OFF:
    case TICKET_GIVEN_UP:
    case TICKET_OVERTAKEN:
    case TICKET_LEFT:
    case TICKET_STATES:
        break;
    }
    return impossible(state);
}

static struct ticket_step step_refused(enum ticket_state state)
{
    if (!is_to_be_written(state))
        return impossible(state);
    return state == TICKET_REFUSED || state == TICKET_SPENT
               ? step_to(TICKET_LEFT, TICKET_NOTHING)
               : step_to(TICKET_REFUSED, TICKET_WRITE_REFUSAL);
}

static struct ticket_step step_spent(enum ticket_state state)
{
    return state == TICKET_FIT || state == TICKET_UNFIT
               ? step_to(TICKET_SPENT, TICKET_WRITE_REFUSAL)
               : impossible(state);
}

struct ticket_step df_ticket_step(enum ticket_state state, enum ticket_event event)
{
    switch (event) {
    case TICKET_EV_FIT:
        return step_checked(state, TICKET_FIT);
    case TICKET_EV_UNFIT:
        return step_checked(state, TICKET_UNFIT);
    case TICKET_EV_WRITTEN:
        return step_written(state);
    case TICKET_EV_FENCED:
        return is_to_be_written(state) ? step_to(TICKET_OVERTAKEN, TICKET_NOTHING)
                                       : impossible(state);
    case TICKET_EV_REFUSED:
        return step_refused(state);
    case TICKET_EV_SPENT:
        return step_spent(state);
    case TICKET_EV_FAILED:
        return ticket_has_ended(state) ? impossible(state) : step_to(TICKET_LEFT, TICKET_NOTHING);
    case TICKET_EVENTS:
        break;
    }
    return impossible(state);
}

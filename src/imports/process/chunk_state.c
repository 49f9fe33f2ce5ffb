/* The state machine of a chunk. chunk_state.h has the drawing and the reasons. */
#include "imports/process/chunk_state.h"

static struct import_chunk_step step_to(enum import_chunk_state state,
                                        enum import_chunk_action action)
{
    return (struct import_chunk_step){.state = state, .action = action};
}

static struct import_chunk_step stay(enum import_chunk_state state)
{
    return step_to(state, CHUNK_NOTHING);
}

static struct import_chunk_step impossible(enum import_chunk_state state)
{
    return step_to(state, CHUNK_IMPOSSIBLE);
}

static struct import_chunk_step step_again(const struct import_chunk_facts *f)
{
    if (!f->is_outage && f->was_last_try)
        return step_to(CHUNK_JUDGED, CHUNK_FAIL);
    return step_to(CHUNK_WAITING, CHUNK_WAIT_TO_RETRY);
}

static struct import_chunk_step step_ack(enum import_chunk_state state)
{
    switch (state) {
    case CHUNK_READY:
    case CHUNK_WAITING:
    case CHUNK_NAMED:
    case CHUNK_AWAITING:
    case CHUNK_JUDGED:
        return step_to(CHUNK_ACKED, CHUNK_APPLY_ACK);
    case CHUNK_SENDING:
    case CHUNK_ACKED:
        return stay(state);
    case CHUNK_NEW:
    case CHUNK_PERMITTED:
    case CHUNK_GONE:
    case CHUNK_STATES:
        break;
    }
    return impossible(state);
}

static struct import_chunk_step step_tick(enum import_chunk_state state,
                                          const struct import_chunk_facts *f)
{
    bool due = f->now_ms >= f->due_ms;

    switch (state) {
    case CHUNK_WAITING:
        return due ? step_to(CHUNK_READY, CHUNK_NOTHING) : stay(state);
    case CHUNK_AWAITING:
        if (!due)
            return stay(state);
        return f->was_last_try ? step_to(CHUNK_JUDGED, CHUNK_FAIL_NO_ACK)
                               : step_to(CHUNK_READY, CHUNK_RESEND);
    case CHUNK_READY:
    case CHUNK_SENDING:
    case CHUNK_NAMED:
    case CHUNK_JUDGED:
    case CHUNK_ACKED:
        return stay(state);
    case CHUNK_NEW:
    case CHUNK_PERMITTED:
    case CHUNK_GONE:
    case CHUNK_STATES:
        break;
    }
    return impossible(state);
}

static struct import_chunk_step step_settled(enum import_chunk_state state)
{
    return state == CHUNK_JUDGED || state == CHUNK_ACKED ? step_to(CHUNK_GONE, CHUNK_COUNT_SETTLED)
                                                         : impossible(state);
}

/* An ACKED chunk that is passed over was settled before: the commit was repeated. */
static struct import_chunk_step step_passed_over(enum import_chunk_state state)
{
    return state == CHUNK_JUDGED  ? step_to(CHUNK_AWAITING, CHUNK_WAIT_FOR_ACK)
           : state == CHUNK_ACKED ? step_to(CHUNK_GONE, CHUNK_NOTHING)
                                  : impossible(state);
}

static struct import_chunk_step step_dropped(enum import_chunk_state state)
{
    if (state == CHUNK_GONE || state == CHUNK_STATES)
        return impossible(state);
    return step_to(CHUNK_GONE, state == CHUNK_PERMITTED ? CHUNK_RETURN_PERMIT : CHUNK_NOTHING);
}

/* For an event that is possible in one state only. */
static struct import_chunk_step
only_in(enum import_chunk_state place, enum import_chunk_state state, struct import_chunk_step step)
{
    return state == place ? step : impossible(state);
}

struct import_chunk_step import_chunk_step(enum import_chunk_state state,
                                           enum import_chunk_event event,
                                           const struct import_chunk_facts *f)
{
    switch (event) {
    case CHUNK_EV_CUT:
        return only_in(CHUNK_NEW, state, step_to(CHUNK_READY, CHUNK_NOTHING));
    case CHUNK_EV_CUT_EMPTY:
        return only_in(CHUNK_NEW, state, step_to(CHUNK_JUDGED, CHUNK_NOTHING));
    case CHUNK_EV_FOUND_AWAITING:
        return only_in(CHUNK_NEW, state, step_to(CHUNK_AWAITING, CHUNK_WAIT_FOR_ACK));
    case CHUNK_EV_FOUND_ACKED:
        return only_in(CHUNK_NEW, state, step_to(CHUNK_ACKED, CHUNK_APPLY_ACK));
    case CHUNK_EV_PERMIT:
        return only_in(CHUNK_READY, state, step_to(CHUNK_PERMITTED, CHUNK_NOTHING));
    case CHUNK_EV_NO_PERMIT:
        return only_in(CHUNK_READY, state, step_to(CHUNK_WAITING, CHUNK_WAIT_FOR_BREAKER));
    case CHUNK_EV_SEND_STORED:
        return only_in(CHUNK_PERMITTED, state, step_to(CHUNK_SENDING, CHUNK_SEND));
    case CHUNK_EV_ANSWER_RESULTS:
        return only_in(CHUNK_SENDING, state, step_to(CHUNK_JUDGED, CHUNK_NOTHING));
    case CHUNK_EV_ANSWER_PROMISE:
        return only_in(CHUNK_SENDING, state, step_to(CHUNK_NAMED, CHUNK_WAIT_FOR_ACK));
    case CHUNK_EV_ANSWER_AGAIN:
        return only_in(CHUNK_SENDING, state, step_again(f));
    case CHUNK_EV_ANSWER_REFUSED:
        return only_in(CHUNK_SENDING, state, step_to(CHUNK_JUDGED, CHUNK_FAIL));
    case CHUNK_EV_ANSWER_CUT_OFF:
        return only_in(CHUNK_SENDING, state, step_to(CHUNK_WAITING, CHUNK_WAIT_FOR_EVER));
    case CHUNK_EV_PROMISE_STORED:
        return only_in(CHUNK_NAMED, state, step_to(CHUNK_AWAITING, CHUNK_NOTHING));
    case CHUNK_EV_ACK:
        return step_ack(state);
    case CHUNK_EV_TICK:
        return step_tick(state, f);
    case CHUNK_EV_SETTLED:
        return step_settled(state);
    case CHUNK_EV_PASSED_OVER:
        return step_passed_over(state);
    case CHUNK_EV_DROPPED:
        return step_dropped(state);
    case CHUNK_EVENTS:
        break;
    }
    return impossible(state);
}

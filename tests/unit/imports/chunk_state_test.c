#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "imports/process/chunk_state.h"

/*
 * Every event in every state of a chunk, written out by hand: what it becomes, and what is done.
 * The first table is for a chunk of which nothing presses: it is not due, has tries left, and the
 * peer is there. The second has those few pairs where these facts decide.
 */

#define NOW_MS 1000000

#define XXX                                                                                        \
    {                                                                                              \
        CHUNK_STATES, CHUNK_IMPOSSIBLE                                                             \
    }
#define TO(state)                                                                                  \
    {                                                                                              \
        CHUNK_##state, CHUNK_NOTHING                                                               \
    }
#define DO(state, action)                                                                          \
    {                                                                                              \
        CHUNK_##state, CHUNK_##action                                                              \
    }

/* clang-format off */
static const struct import_chunk_step table[CHUNK_EVENTS][CHUNK_STATES] = {
    [CHUNK_EV_CUT] = {
        [CHUNK_NEW] = TO(READY),
        [CHUNK_READY] = XXX, [CHUNK_PERMITTED] = XXX, [CHUNK_SENDING] = XXX, [CHUNK_WAITING] = XXX, [CHUNK_NAMED] = XXX,
        [CHUNK_AWAITING] = XXX, [CHUNK_JUDGED] = XXX, [CHUNK_ACKED] = XXX, [CHUNK_GONE] = XXX,
    },
    [CHUNK_EV_CUT_EMPTY] = {
        [CHUNK_NEW] = TO(JUDGED),
        [CHUNK_READY] = XXX, [CHUNK_PERMITTED] = XXX, [CHUNK_SENDING] = XXX, [CHUNK_WAITING] = XXX, [CHUNK_NAMED] = XXX,
        [CHUNK_AWAITING] = XXX, [CHUNK_JUDGED] = XXX, [CHUNK_ACKED] = XXX, [CHUNK_GONE] = XXX,
    },
    [CHUNK_EV_FOUND_AWAITING] = {
        [CHUNK_NEW] = DO(AWAITING, WAIT_FOR_ACK),
        [CHUNK_READY] = XXX, [CHUNK_PERMITTED] = XXX, [CHUNK_SENDING] = XXX, [CHUNK_WAITING] = XXX, [CHUNK_NAMED] = XXX,
        [CHUNK_AWAITING] = XXX, [CHUNK_JUDGED] = XXX, [CHUNK_ACKED] = XXX, [CHUNK_GONE] = XXX,
    },
    [CHUNK_EV_FOUND_ACKED] = {
        [CHUNK_NEW] = DO(ACKED, APPLY_ACK),
        [CHUNK_READY] = XXX, [CHUNK_PERMITTED] = XXX, [CHUNK_SENDING] = XXX, [CHUNK_WAITING] = XXX, [CHUNK_NAMED] = XXX,
        [CHUNK_AWAITING] = XXX, [CHUNK_JUDGED] = XXX, [CHUNK_ACKED] = XXX, [CHUNK_GONE] = XXX,
    },
    [CHUNK_EV_PERMIT] = {
        [CHUNK_READY] = TO(PERMITTED),
        [CHUNK_NEW] = XXX, [CHUNK_PERMITTED] = XXX, [CHUNK_SENDING] = XXX, [CHUNK_WAITING] = XXX, [CHUNK_NAMED] = XXX,
        [CHUNK_AWAITING] = XXX, [CHUNK_JUDGED] = XXX, [CHUNK_ACKED] = XXX, [CHUNK_GONE] = XXX,
    },
    [CHUNK_EV_NO_PERMIT] = {
        [CHUNK_READY] = DO(WAITING, WAIT_FOR_BREAKER),
        [CHUNK_NEW] = XXX, [CHUNK_PERMITTED] = XXX, [CHUNK_SENDING] = XXX, [CHUNK_WAITING] = XXX, [CHUNK_NAMED] = XXX,
        [CHUNK_AWAITING] = XXX, [CHUNK_JUDGED] = XXX, [CHUNK_ACKED] = XXX, [CHUNK_GONE] = XXX,
    },
    [CHUNK_EV_SEND_STORED] = {
        [CHUNK_PERMITTED] = DO(SENDING, SEND),
        [CHUNK_NEW] = XXX, [CHUNK_READY] = XXX, [CHUNK_SENDING] = XXX, [CHUNK_WAITING] = XXX, [CHUNK_NAMED] = XXX,
        [CHUNK_AWAITING] = XXX, [CHUNK_JUDGED] = XXX, [CHUNK_ACKED] = XXX, [CHUNK_GONE] = XXX,
    },
    [CHUNK_EV_ANSWER_RESULTS] = {
        [CHUNK_SENDING] = TO(JUDGED),
        [CHUNK_NEW] = XXX, [CHUNK_READY] = XXX, [CHUNK_PERMITTED] = XXX, [CHUNK_WAITING] = XXX, [CHUNK_NAMED] = XXX,
        [CHUNK_AWAITING] = XXX, [CHUNK_JUDGED] = XXX, [CHUNK_ACKED] = XXX, [CHUNK_GONE] = XXX,
    },
    [CHUNK_EV_ANSWER_PROMISE] = {
        [CHUNK_SENDING] = DO(NAMED, WAIT_FOR_ACK),
        [CHUNK_NEW] = XXX, [CHUNK_READY] = XXX, [CHUNK_PERMITTED] = XXX, [CHUNK_WAITING] = XXX, [CHUNK_NAMED] = XXX,
        [CHUNK_AWAITING] = XXX, [CHUNK_JUDGED] = XXX, [CHUNK_ACKED] = XXX, [CHUNK_GONE] = XXX,
    },
    [CHUNK_EV_ANSWER_AGAIN] = {
        [CHUNK_SENDING] = DO(WAITING, WAIT_TO_RETRY),
        [CHUNK_NEW] = XXX, [CHUNK_READY] = XXX, [CHUNK_PERMITTED] = XXX, [CHUNK_WAITING] = XXX, [CHUNK_NAMED] = XXX,
        [CHUNK_AWAITING] = XXX, [CHUNK_JUDGED] = XXX, [CHUNK_ACKED] = XXX, [CHUNK_GONE] = XXX,
    },
    [CHUNK_EV_ANSWER_REFUSED] = {
        [CHUNK_SENDING] = DO(JUDGED, FAIL),
        [CHUNK_NEW] = XXX, [CHUNK_READY] = XXX, [CHUNK_PERMITTED] = XXX, [CHUNK_WAITING] = XXX, [CHUNK_NAMED] = XXX,
        [CHUNK_AWAITING] = XXX, [CHUNK_JUDGED] = XXX, [CHUNK_ACKED] = XXX, [CHUNK_GONE] = XXX,
    },
    [CHUNK_EV_ANSWER_CUT_OFF] = {
        [CHUNK_SENDING] = DO(WAITING, WAIT_FOR_EVER),
        [CHUNK_NEW] = XXX, [CHUNK_READY] = XXX, [CHUNK_PERMITTED] = XXX, [CHUNK_WAITING] = XXX, [CHUNK_NAMED] = XXX,
        [CHUNK_AWAITING] = XXX, [CHUNK_JUDGED] = XXX, [CHUNK_ACKED] = XXX, [CHUNK_GONE] = XXX,
    },
    [CHUNK_EV_PROMISE_STORED] = {
        [CHUNK_NAMED] = TO(AWAITING),
        [CHUNK_NEW] = XXX, [CHUNK_READY] = XXX, [CHUNK_PERMITTED] = XXX, [CHUNK_SENDING] = XXX, [CHUNK_WAITING] = XXX,
        [CHUNK_AWAITING] = XXX, [CHUNK_JUDGED] = XXX, [CHUNK_ACKED] = XXX, [CHUNK_GONE] = XXX,
    },
    [CHUNK_EV_ACK] = {
        [CHUNK_NEW] = XXX,
        [CHUNK_READY] = DO(ACKED, APPLY_ACK),
        [CHUNK_PERMITTED] = XXX,
        [CHUNK_SENDING] = TO(SENDING),
        [CHUNK_WAITING] = DO(ACKED, APPLY_ACK),
        [CHUNK_NAMED] = DO(ACKED, APPLY_ACK),
        [CHUNK_AWAITING] = DO(ACKED, APPLY_ACK),
        [CHUNK_JUDGED] = DO(ACKED, APPLY_ACK),
        [CHUNK_ACKED] = TO(ACKED),
        [CHUNK_GONE] = XXX,
    },
    [CHUNK_EV_TICK] = {
        [CHUNK_NEW] = XXX,
        [CHUNK_READY] = TO(READY),
        [CHUNK_PERMITTED] = XXX,
        [CHUNK_SENDING] = TO(SENDING),
        [CHUNK_WAITING] = TO(WAITING),
        [CHUNK_NAMED] = TO(NAMED),
        [CHUNK_AWAITING] = TO(AWAITING),
        [CHUNK_JUDGED] = TO(JUDGED),
        [CHUNK_ACKED] = TO(ACKED),
        [CHUNK_GONE] = XXX,
    },
    [CHUNK_EV_SETTLED] = {
        [CHUNK_JUDGED] = DO(GONE, COUNT_SETTLED), [CHUNK_ACKED] = DO(GONE, COUNT_SETTLED),
        [CHUNK_NEW] = XXX, [CHUNK_READY] = XXX, [CHUNK_PERMITTED] = XXX, [CHUNK_SENDING] = XXX, [CHUNK_WAITING] = XXX,
        [CHUNK_NAMED] = XXX, [CHUNK_AWAITING] = XXX, [CHUNK_GONE] = XXX,
    },
    [CHUNK_EV_PASSED_OVER] = {
        [CHUNK_JUDGED] = DO(AWAITING, WAIT_FOR_ACK), [CHUNK_ACKED] = TO(GONE),
        [CHUNK_NEW] = XXX, [CHUNK_READY] = XXX, [CHUNK_PERMITTED] = XXX, [CHUNK_SENDING] = XXX, [CHUNK_WAITING] = XXX,
        [CHUNK_NAMED] = XXX, [CHUNK_AWAITING] = XXX, [CHUNK_GONE] = XXX,
    },
    [CHUNK_EV_DROPPED] = {
        [CHUNK_NEW] = TO(GONE), [CHUNK_READY] = TO(GONE), [CHUNK_PERMITTED] = DO(GONE, RETURN_PERMIT),
        [CHUNK_SENDING] = TO(GONE), [CHUNK_WAITING] = TO(GONE), [CHUNK_NAMED] = TO(GONE), [CHUNK_AWAITING] = TO(GONE),
        [CHUNK_JUDGED] = TO(GONE), [CHUNK_ACKED] = TO(GONE), [CHUNK_GONE] = XXX,
    },
};
/* clang-format on */

/* What presses. */
enum { DUE = 1, LAST_TRY = 2, OUTAGE = 4, PRESSURES = 8 };

static const struct by_facts {
    enum import_chunk_event event;
    enum import_chunk_state state;
    unsigned with;    /* of the pressures, those that decide */
    unsigned without; /* these must not be there */
    struct import_chunk_step want;
} by_facts[] = {
    {CHUNK_EV_NO_PERMIT, CHUNK_READY, 0, 0, DO(WAITING, WAIT_FOR_BREAKER)},
    {CHUNK_EV_ANSWER_AGAIN, CHUNK_SENDING, OUTAGE, 0, DO(WAITING, WAIT_TO_RETRY)},
    {CHUNK_EV_ANSWER_AGAIN, CHUNK_SENDING, LAST_TRY, OUTAGE, DO(JUDGED, FAIL)},
    {CHUNK_EV_ANSWER_AGAIN, CHUNK_SENDING, 0, LAST_TRY | OUTAGE, DO(WAITING, WAIT_TO_RETRY)},
    {CHUNK_EV_TICK, CHUNK_WAITING, DUE, 0, TO(READY)},
    {CHUNK_EV_TICK, CHUNK_WAITING, 0, DUE, TO(WAITING)},
    {CHUNK_EV_TICK, CHUNK_AWAITING, DUE | LAST_TRY, 0, DO(JUDGED, FAIL_NO_ACK)},
    {CHUNK_EV_TICK, CHUNK_AWAITING, DUE, LAST_TRY, DO(READY, RESEND)},
    {CHUNK_EV_TICK, CHUNK_AWAITING, 0, DUE, TO(AWAITING)},
};
#define BY_FACTS (sizeof(by_facts) / sizeof(by_facts[0]))

static struct import_chunk_facts facts_of(unsigned pressure)
{
    return (struct import_chunk_facts){
        .now_ms = NOW_MS,
        .due_ms = pressure & DUE ? NOW_MS : NOW_MS + 1,
        .is_outage = pressure & OUTAGE,
        .was_last_try = pressure & LAST_TRY,
    };
}

/* The first of the second table that fits, else the first table's. */
static struct import_chunk_step wanted(enum import_chunk_event event, enum import_chunk_state state,
                                       unsigned pressure)
{
    for (size_t i = 0; i < BY_FACTS; i++) {
        const struct by_facts *f = &by_facts[i];
        if (f->event == event && f->state == state && (pressure & f->with) == f->with &&
            !(pressure & f->without))
            return f->want;
    }
    return table[event][state];
}

static void every_event_in_every_state_with_every_pressure(void **state_)
{
    (void)state_;
    for (int event = 0; event < CHUNK_EVENTS; event++) {
        for (int state = 0; state < CHUNK_STATES; state++) {
            for (unsigned pressure = 0; pressure < PRESSURES; pressure++) {
                struct import_chunk_facts facts = facts_of(pressure);
                struct import_chunk_step want = wanted(event, state, pressure);
                struct import_chunk_step step = import_chunk_step(state, event, &facts);
                enum import_chunk_state to =
                    want.state == CHUNK_STATES ? (enum import_chunk_state)state : want.state;
                if (step.action != want.action || step.state != to)
                    fail_msg("event %d in state %d under %u: to %d by %d, not to %d by %d", event,
                             state, pressure, step.state, step.action, to, want.action);
            }
        }
    }
}

/* The drawing's promise: what is settled, or left to the next owner, is not sent again. */
static void nothing_leads_out_of_gone(void **state)
{
    (void)state;
    for (int event = 0; event < CHUNK_EVENTS; event++) {
        for (unsigned pressure = 0; pressure < PRESSURES; pressure++) {
            struct import_chunk_facts facts = facts_of(pressure);
            struct import_chunk_step step = import_chunk_step(CHUNK_GONE, event, &facts);
            assert_int_equal(step.action, CHUNK_IMPOSSIBLE);
            assert_int_equal(step.state, CHUNK_GONE);
        }
    }
}

/* And the other one: nothing is sent but what its row says is being sent. */
static void only_a_stored_send_sends(void **state_)
{
    (void)state_;
    for (int event = 0; event < CHUNK_EVENTS; event++) {
        for (int state = 0; state < CHUNK_STATES; state++) {
            struct import_chunk_facts facts = facts_of(DUE);
            struct import_chunk_step step = import_chunk_step(state, event, &facts);
            bool enters = step.state == CHUNK_SENDING && state != CHUNK_SENDING;
            assert_int_equal(step.action == CHUNK_SEND, enters);
            assert_int_equal(enters, event == CHUNK_EV_SEND_STORED && state == CHUNK_PERMITTED);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_event_in_every_state_with_every_pressure),
        cmocka_unit_test(nothing_leads_out_of_gone),
        cmocka_unit_test(only_a_stored_send_sends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

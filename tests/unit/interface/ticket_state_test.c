#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "interface/ticket_state.h"

/* Every event in every state of a ticket in the processing, written out by hand. */

#define XXX                                                                                        \
    {                                                                                              \
        TICKET_STATES, TICKET_IMPOSSIBLE                                                           \
    }
#define TO(state)                                                                                  \
    {                                                                                              \
        TICKET_##state, TICKET_NOTHING                                                             \
    }
#define DO(state, action)                                                                          \
    {                                                                                              \
        TICKET_##state, TICKET_##action                                                            \
    }

/* clang-format off */
#define ENDED_IMPOSSIBLE                                                                                              \
    [TICKET_PROCESSED] = XXX, [TICKET_REJECTED] = XXX, [TICKET_PUT_OFF] = XXX, [TICKET_GIVEN_UP] = XXX,               \
    [TICKET_OVERTAKEN] = XXX, [TICKET_LEFT] = XXX

static const struct ticket_step table[TICKET_EVENTS][TICKET_STATES] = {
    [TICKET_EV_FIT] = {
        [TICKET_CLAIMED] = TO(FIT), [TICKET_FIT] = XXX, [TICKET_UNFIT] = XXX, [TICKET_REFUSED] = XXX,
        [TICKET_SPENT] = XXX, ENDED_IMPOSSIBLE,
    },
    [TICKET_EV_UNFIT] = {
        [TICKET_CLAIMED] = TO(UNFIT), [TICKET_FIT] = XXX, [TICKET_UNFIT] = XXX, [TICKET_REFUSED] = XXX,
        [TICKET_SPENT] = XXX, ENDED_IMPOSSIBLE,
    },
    [TICKET_EV_WRITTEN] = {
        [TICKET_CLAIMED] = XXX, [TICKET_FIT] = DO(PROCESSED, TELL_PROCESSED), [TICKET_UNFIT] = DO(REJECTED, TELL_REJECTED),
        [TICKET_REFUSED] = TO(PUT_OFF), [TICKET_SPENT] = DO(GIVEN_UP, TELL_GIVEN_UP), ENDED_IMPOSSIBLE,
    },
    [TICKET_EV_FENCED] = {
        [TICKET_CLAIMED] = XXX, [TICKET_FIT] = TO(OVERTAKEN), [TICKET_UNFIT] = TO(OVERTAKEN),
        [TICKET_REFUSED] = TO(OVERTAKEN), [TICKET_SPENT] = TO(OVERTAKEN), ENDED_IMPOSSIBLE,
    },
    [TICKET_EV_REFUSED] = {
        [TICKET_CLAIMED] = XXX, [TICKET_FIT] = DO(REFUSED, WRITE_REFUSAL), [TICKET_UNFIT] = DO(REFUSED, WRITE_REFUSAL),
        [TICKET_REFUSED] = TO(LEFT), [TICKET_SPENT] = TO(LEFT), ENDED_IMPOSSIBLE,
    },
    [TICKET_EV_SPENT] = {
        [TICKET_CLAIMED] = XXX, [TICKET_FIT] = DO(SPENT, WRITE_REFUSAL), [TICKET_UNFIT] = DO(SPENT, WRITE_REFUSAL),
        [TICKET_REFUSED] = XXX, [TICKET_SPENT] = XXX, ENDED_IMPOSSIBLE,
    },
    [TICKET_EV_FAILED] = {
        [TICKET_CLAIMED] = TO(LEFT), [TICKET_FIT] = TO(LEFT), [TICKET_UNFIT] = TO(LEFT), [TICKET_REFUSED] = TO(LEFT),
        [TICKET_SPENT] = TO(LEFT), ENDED_IMPOSSIBLE,
    },
};
/* clang-format on */

static void every_event_in_every_state(void **state_)
{
    (void)state_;
    for (int event = 0; event < TICKET_EVENTS; event++) {
        for (int state = 0; state < TICKET_STATES; state++) {
            struct ticket_step want = table[event][state];
            struct ticket_step step = df_ticket_step(state, event);
            enum ticket_state to =
                want.state == TICKET_STATES ? (enum ticket_state)state : want.state;
            if (step.action != want.action || step.state != to)
                fail_msg("event %d in state %d: to %d by %d, not to %d by %d", event, state,
                         step.state, step.action, to, want.action);
        }
    }
}

/* Its row says something else by now: whatever was found of the old payload is nobody's business.
 */
static void nothing_is_told_of_a_ticket_that_was_overtaken(void **state_)
{
    (void)state_;
    for (int state = 0; state < TICKET_STATES; state++) {
        struct ticket_step step = df_ticket_step(state, TICKET_EV_FENCED);
        assert_true(step.action == TICKET_NOTHING || step.action == TICKET_IMPOSSIBLE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_event_in_every_state),
        cmocka_unit_test(nothing_is_told_of_a_ticket_that_was_overtaken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

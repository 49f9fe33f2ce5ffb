#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "imports/process/batch_state.h"

/* Every event in every state of a batch in work, written out by hand. */

#define XXX                                                                                        \
    {                                                                                              \
        BATCH_STATES, BATCH_IMPOSSIBLE                                                             \
    }
#define TO(state)                                                                                  \
    {                                                                                              \
        BATCH_##state, BATCH_NOTHING                                                               \
    }
#define DO(state, action)                                                                          \
    {                                                                                              \
        BATCH_##state, BATCH_##action                                                              \
    }

/* clang-format off */
#define ENDED_IMPOSSIBLE                                                                                              \
    [BATCH_FINISHED] = XXX, [BATCH_GAVE_WAY] = XXX, [BATCH_STOPPED] = XXX, [BATCH_POSTPONED] = XXX,                   \
    [BATCH_SHELVED] = XXX, [BATCH_LOST] = XXX, [BATCH_BROKEN] = XXX

static const struct import_batch_step table[BATCH_EVENTS][BATCH_STATES] = {
    [BATCH_EV_PREPARED] = {
        [BATCH_PREPARING] = TO(CUTTING),
        [BATCH_CUTTING] = XXX, [BATCH_READ] = XXX, [BATCH_FAILING] = XXX, [BATCH_YIELDING] = XXX, [BATCH_STOPPING] = XXX,
        [BATCH_SHELVING] = XXX,
        ENDED_IMPOSSIBLE,
    },
    [BATCH_EV_FILE_BAD] = {
        [BATCH_PREPARING] = DO(FINISHED, FINISH), [BATCH_CUTTING] = TO(FAILING),
        [BATCH_READ] = XXX, [BATCH_FAILING] = XXX, [BATCH_YIELDING] = XXX, [BATCH_STOPPING] = XXX,
        [BATCH_SHELVING] = XXX,
        ENDED_IMPOSSIBLE,
    },
    [BATCH_EV_FILE_AWAY] = {
        [BATCH_PREPARING] = DO(POSTPONED, POSTPONE),
        [BATCH_CUTTING] = XXX, [BATCH_READ] = XXX, [BATCH_FAILING] = XXX, [BATCH_YIELDING] = XXX, [BATCH_STOPPING] = XXX,
        [BATCH_SHELVING] = XXX,
        ENDED_IMPOSSIBLE,
    },
    [BATCH_EV_FILE_READ] = {
        [BATCH_CUTTING] = TO(READ),
        [BATCH_PREPARING] = XXX, [BATCH_READ] = XXX, [BATCH_FAILING] = XXX, [BATCH_YIELDING] = XXX, [BATCH_STOPPING] = XXX,
        [BATCH_SHELVING] = XXX,
        ENDED_IMPOSSIBLE,
    },
    [BATCH_EV_TURN_OVER] = {
        [BATCH_CUTTING] = TO(YIELDING),
        [BATCH_PREPARING] = XXX, [BATCH_READ] = XXX, [BATCH_FAILING] = XXX, [BATCH_YIELDING] = XXX, [BATCH_STOPPING] = XXX,
        [BATCH_SHELVING] = XXX,
        ENDED_IMPOSSIBLE,
    },
    [BATCH_EV_STOP] = {
        [BATCH_PREPARING] = DO(STOPPED, GIVE_BACK),
        [BATCH_CUTTING] = TO(STOPPING), [BATCH_READ] = TO(STOPPING), [BATCH_FAILING] = TO(STOPPING),
        [BATCH_YIELDING] = TO(STOPPING), [BATCH_STOPPING] = TO(STOPPING), [BATCH_SHELVING] = TO(STOPPING),
        ENDED_IMPOSSIBLE,
    },
    [BATCH_EV_OUTAGE] = {
        [BATCH_CUTTING] = TO(SHELVING), [BATCH_READ] = TO(SHELVING), [BATCH_FAILING] = TO(SHELVING),
        [BATCH_YIELDING] = TO(SHELVING),
        [BATCH_PREPARING] = XXX, [BATCH_STOPPING] = XXX,
        [BATCH_SHELVING] = XXX,
        ENDED_IMPOSSIBLE,
    },
    [BATCH_EV_HOPELESS] = {
        [BATCH_SHELVING] = DO(FINISHED, FINISH),
        [BATCH_PREPARING] = XXX, [BATCH_CUTTING] = XXX, [BATCH_READ] = XXX, [BATCH_FAILING] = XXX, [BATCH_YIELDING] = XXX,
        [BATCH_STOPPING] = XXX,
        ENDED_IMPOSSIBLE,
    },
    [BATCH_EV_EMPTY_HAND] = {
        [BATCH_PREPARING] = XXX, [BATCH_CUTTING] = TO(CUTTING), [BATCH_READ] = DO(FINISHED, FINISH),
        [BATCH_FAILING] = DO(FINISHED, FINISH), [BATCH_YIELDING] = DO(GAVE_WAY, GIVE_WAY), [BATCH_STOPPING] = TO(STOPPING),
        [BATCH_SHELVING] = TO(SHELVING),
        ENDED_IMPOSSIBLE,
    },
    [BATCH_EV_NO_CALLS] = {
        [BATCH_PREPARING] = XXX, [BATCH_CUTTING] = TO(CUTTING), [BATCH_READ] = TO(READ), [BATCH_FAILING] = TO(FAILING),
        [BATCH_YIELDING] = TO(YIELDING), [BATCH_STOPPING] = DO(STOPPED, GIVE_BACK), [BATCH_SHELVING] = DO(SHELVED, SHELVE),
        ENDED_IMPOSSIBLE,
    },
    [BATCH_EV_LOST] = {
        [BATCH_PREPARING] = TO(LOST), [BATCH_CUTTING] = TO(LOST), [BATCH_READ] = TO(LOST), [BATCH_FAILING] = TO(LOST),
        [BATCH_YIELDING] = TO(LOST), [BATCH_STOPPING] = TO(LOST), [BATCH_FINISHED] = TO(LOST), [BATCH_GAVE_WAY] = TO(LOST),
        [BATCH_STOPPED] = TO(LOST), [BATCH_POSTPONED] = TO(LOST), [BATCH_LOST] = XXX, [BATCH_BROKEN] = XXX,
        [BATCH_SHELVING] = TO(LOST), [BATCH_SHELVED] = TO(LOST),
    },
    [BATCH_EV_BROKEN] = {
        [BATCH_PREPARING] = TO(BROKEN), [BATCH_CUTTING] = TO(BROKEN), [BATCH_READ] = TO(BROKEN), [BATCH_FAILING] = TO(BROKEN),
        [BATCH_YIELDING] = TO(BROKEN), [BATCH_STOPPING] = TO(BROKEN), [BATCH_FINISHED] = TO(BROKEN),
        [BATCH_GAVE_WAY] = TO(BROKEN), [BATCH_STOPPED] = TO(LOST), [BATCH_POSTPONED] = TO(BROKEN), [BATCH_LOST] = XXX,
        [BATCH_BROKEN] = XXX, [BATCH_SHELVING] = TO(BROKEN), [BATCH_SHELVED] = TO(BROKEN),
    },
};
/* clang-format on */

static void every_event_in_every_state(void **state_)
{
    (void)state_;
    for (int event = 0; event < BATCH_EVENTS; event++) {
        for (int state = 0; state < BATCH_STATES; state++) {
            struct import_batch_step want = table[event][state];
            struct import_batch_step step = import_batch_step(state, event);
            enum import_batch_state to =
                want.state == BATCH_STATES ? (enum import_batch_state)state : want.state;
            if (step.action != want.action || step.state != to)
                fail_msg("event %d in state %d: to %d by %d, not to %d by %d", event, state,
                         step.state, step.action, to, want.action);
        }
    }
}

/* An end is reached once, with the one commit that tells of it; after that only its failure is. */
static void an_end_is_left_by_a_failed_commit_alone(void **state_)
{
    (void)state_;
    for (int event = 0; event < BATCH_EVENTS; event++) {
        for (int state = BATCH_FINISHED; state < BATCH_STATES; state++) {
            struct import_batch_step step = import_batch_step(state, event);
            if (step.action == BATCH_IMPOSSIBLE)
                continue;
            assert_true(event == BATCH_EV_LOST || event == BATCH_EV_BROKEN);
            assert_true(step.state == BATCH_LOST || step.state == BATCH_BROKEN);
            assert_int_equal(step.action, BATCH_NOTHING);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_event_in_every_state),
        cmocka_unit_test(an_end_is_left_by_a_failed_commit_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * When a document is given up: a table of its edges, and stories of outages that are played through
 * with the pure rule.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "resilience/tries.h"

#define SECONDS INT64_C(1000)
#define MINUTES (60 * SECONDS)
#define HOURS   (60 * MINUTES)
#define NOW     (INT64_C(1800000000) * SECONDS)

static const struct df_tries_policy policy = {
    .max_counted = 5, .cap_ms = 5 * MINUTES, .give_up_ms = 72 * HOURS};

/* --- the edges -------------------------------------------------------------------------------- */

struct edge {
    const char *what;
    struct df_tries before;
    struct df_tries_failure failure; /* now_ms: after NOW */
    enum df_tries_verdict verdict;
    int64_t counted;
    int64_t mark;
    int64_t first_failed_ms; /* after NOW */
};

#define WELL(n, before) .is_well = true, .arrived = (n), .arrived_before = (before)
#define FAILED(t, c, first, last, m)                                                               \
    {                                                                                              \
        .tries = (t), .counted = (c), .first_failed_ms = NOW + (first), .counted_ms = (last),      \
        .mark = (m)                                                                                \
    }

/* clang-format off */
static const struct edge edges[] = {
    {"the first failure marks where it began", {.tries = 1, .mark = -1}, {WELL(7, 7)}, DF_TRIES_AGAIN, 0, 7, 0},
    {"two others arrived meanwhile", {.tries = 1, .mark = -1}, {WELL(9, 7)}, DF_TRIES_AGAIN, 0, 7, 0},
    {"three others arrived meanwhile", {.tries = 1, .mark = -1}, {WELL(10, 7)}, DF_TRIES_AGAIN, 1, 10, 0},
    {"two others since", FAILED(2, 0, -1, 0, 7), {WELL(9, 9)}, DF_TRIES_AGAIN, 0, 7, -1},
    {"three others since", FAILED(2, 0, -1, 0, 7), {WELL(10, 10)}, DF_TRIES_AGAIN, 1, 10, -1},
    {"the breaker is not closed", FAILED(2, 0, -1, 0, 7), {.arrived = 99, .arrived_before = 99}, DF_TRIES_AGAIN, 0, 7, -1},
    {"429, Retry-After, our own fault", FAILED(2, 0, -1, 0, 7), {.never_counts = true, WELL(99, 99)}, DF_TRIES_AGAIN, 0, 7, -1},
    {"too soon after the last", FAILED(3, 1, -1, NOW - 5 * MINUTES + 1, 7), {WELL(99, 99)}, DF_TRIES_AGAIN, 1, 7, -1},
    {"late enough after the last", FAILED(3, 1, -1, NOW - 5 * MINUTES, 7), {WELL(99, 99)}, DF_TRIES_AGAIN, 2, 99, -1},
    {"the last is in the future", FAILED(3, 1, -1, NOW + HOURS, 7), {WELL(99, 99)}, DF_TRIES_AGAIN, 2, 99, -1},
    {"the last but one", FAILED(9, 3, -1, 1, 7), {WELL(99, 99)}, DF_TRIES_AGAIN, 4, 99, -1},
    {"the last one", FAILED(9, 4, -1, 1, 7), {WELL(99, 99)}, DF_TRIES_COUNT, 5, 99, -1},
    {"more than enough counted before, and this one does not count", FAILED(9, 8, -1, 0, -1), {WELL(9, 9)}, DF_TRIES_AGAIN, 8, 9, -1},
    {"more than enough counted before, and this one counts", FAILED(9, 8, -1, 0, 6), {WELL(9, 9)}, DF_TRIES_COUNT, 9, 9, -1},
    {"refused at once", {.tries = 1, .mark = -1}, {.refused = true, WELL(7, 7)}, DF_TRIES_REFUSED, 5, 7, 0},
    {"refused by a target that is down", {.tries = 1, .mark = -1}, {.refused = true}, DF_TRIES_REFUSED, 5, 0, 0},
    {"long enough, too few tries", FAILED(49, 0, -72 * HOURS, 0, 7), {WELL(7, 7)}, DF_TRIES_AGAIN, 0, 7, -72 * HOURS},
    {"enough tries, not long enough", FAILED(50, 0, -72 * HOURS + 1, 0, 7), {WELL(7, 7)}, DF_TRIES_AGAIN, 0, 7, -72 * HOURS + 1},
    {"long enough, and enough tries", FAILED(50, 0, -72 * HOURS, 0, 7), {WELL(7, 7)}, DF_TRIES_TIME, 5, 7, -72 * HOURS},
    {"by time while the target is down", FAILED(50, 0, -72 * HOURS, 0, 7), {.never_counts = true, .arrived = 7, .arrived_before = 7}, DF_TRIES_TIME, 5, 7, -72 * HOURS},
    {"first failed in the future: the clock was set back", FAILED(99, 0, HOURS, 0, 7), {WELL(7, 7)}, DF_TRIES_AGAIN, 0, 7, 0},
    {"fewer arrived than marked: another target, a restored database", FAILED(9, 1, -1, 0, 100), {WELL(5, 5)}, DF_TRIES_AGAIN, 1, 5, -1},
    {"the same, and three others arrived meanwhile", FAILED(9, 1, -1, 0, 100), {WELL(8, 5)}, DF_TRIES_AGAIN, 2, 8, -1},
};
/* clang-format on */

static void every_edge_of_the_rule_holds(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(edges) / sizeof(edges[0]); i++) {
        const struct edge *e = &edges[i];
        struct df_tries t = e->before;
        struct df_tries_failure f = e->failure;
        f.now_ms = NOW;
        print_message("%s\n", e->what);
        assert_int_equal(df_tries_fail(&policy, &t, &f), e->verdict);
        assert_int_equal(t.counted, e->counted);
        assert_int_equal(t.mark, e->mark);
        assert_int_equal(t.first_failed_ms, NOW + e->first_failed_ms);
        assert_int_equal(t.tries, e->before.tries);
    }
}

/* --- stories ---------------------------------------------------------------------------------- */

/* A target, and a document that fails at it. */
struct story {
    int64_t now_ms;
    int64_t arrived;
    bool closed;
    struct df_tries t;
};

static struct story begin(void)
{
    return (struct story){.now_ms = NOW, .arrived = 1000, .closed = true, .t = {.mark = -1}};
}

static enum df_tries_verdict try_it(struct story *s, bool never_counts)
{
    struct df_tries_failure f = {.now_ms = s->now_ms,
                                 .never_counts = never_counts,
                                 .is_well = s->closed,
                                 .arrived = s->arrived,
                                 .arrived_before = s->arrived};
    s->t.tries++;
    return df_tries_fail(&policy, &s->t, &f);
}

/* Fails every `step`, while so many others arrive between two tries; returns when it is given up,
 * or the verdict after `most` tries. */
static enum df_tries_verdict keep_failing(struct story *s, size_t most, int64_t step_ms,
                                          int64_t others, bool never_counts)
{
    enum df_tries_verdict v = DF_TRIES_AGAIN;

    for (size_t i = 0; i < most && v == DF_TRIES_AGAIN; i++) {
        v = try_it(s, never_counts);
        s->now_ms += step_ms;
        s->arrived += others;
    }
    return v;
}

static void a_document_alone_is_given_up_by_time_only(void **state)
{
    (void)state;
    struct story s = begin();
    assert_int_equal(keep_failing(&s, 863, 5 * MINUTES, 0, false), DF_TRIES_AGAIN);
    assert_int_equal(s.t.counted, 0);
    assert_int_equal(keep_failing(&s, 10, 5 * MINUTES, 0, false), DF_TRIES_TIME);
    assert_int_equal(s.now_ms - 5 * MINUTES - NOW, 72 * HOURS);
    assert_int_equal(s.t.counted, policy.max_counted);
}

static void a_poisoned_document_among_others_is_given_up_soon(void **state)
{
    (void)state;
    struct story s = begin();
    assert_int_equal(keep_failing(&s, 1000, MINUTES, 20, false), DF_TRIES_COUNT);
    /* Five that count, at least cap_ms apart. */
    assert_int_equal(s.t.tries, 2 + 4 * 5);
    assert_in_range(s.now_ms - NOW, 20 * MINUTES, 30 * MINUTES);
}

/* Half of the calls fail, whosever they are: the breaker opens now and then, others arrive. */
static void a_target_that_fails_half_of_its_calls_costs_few_documents(void **state)
{
    (void)state;
    int lost = 0;
    uint64_t random = 88172645463325252U;

    for (int doc = 0; doc < 1000; doc++) {
        struct story s = begin();
        for (bool arrived = false; !arrived;) {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            arrived = random & 1;
            s.closed = (random >> 8) % 3 != 0; /* shut for a third of the time */
            s.now_ms += 3 * MINUTES;
            s.arrived += 50;
            if (!arrived && try_it(&s, false) != DF_TRIES_AGAIN) {
                lost++;
                break;
            }
        }
    }
    assert_in_range(lost, 0, 20); /* five in a row of those that count */
}

static void an_expired_key_for_an_hour_costs_nothing(void **state)
{
    (void)state;
    struct story s = begin();
    /* 401 for everybody: until the breaker opens, then as a probe now and then. */
    assert_int_equal(keep_failing(&s, 4, SECONDS, 0, false), DF_TRIES_AGAIN);
    s.closed = false;
    assert_int_equal(keep_failing(&s, 360, 10 * SECONDS, 0, false), DF_TRIES_AGAIN);
    assert_int_equal(s.t.counted, 0);
}

static void a_day_of_429_costs_nothing(void **state)
{
    (void)state;
    struct story s = begin();
    assert_int_equal(keep_failing(&s, 288, 5 * MINUTES, 500, true), DF_TRIES_AGAIN);
    assert_int_equal(s.t.counted, 0);
}

/* The document is retried when the server is on again, and not given up for the days it was off. */
static void four_days_switched_off_count_as_no_tries(void **state)
{
    (void)state;
    struct story s = begin();
    assert_int_equal(keep_failing(&s, 3, MINUTES, 0, false), DF_TRIES_AGAIN);
    s.now_ms += 96 * HOURS;
    assert_int_equal(keep_failing(&s, 46, SECONDS, 0, false), DF_TRIES_AGAIN);
    assert_int_equal(keep_failing(&s, 1, SECONDS, 0, false), DF_TRIES_TIME);
    assert_int_equal(s.t.tries, DF_TRIES_MIN);
}

/* One replica reaches the target and delivers; the other does not, and its breaker is open. */
static void a_replica_that_cannot_reach_the_target_counts_nothing(void **state)
{
    (void)state;
    struct story s = begin();
    s.closed = false;
    assert_int_equal(keep_failing(&s, 500, MINUTES, 100, false), DF_TRIES_AGAIN);
    assert_int_equal(s.t.counted, 0);
    /* Even before it opens: once in cap_ms at most. */
    s.closed = true;
    assert_int_equal(keep_failing(&s, 4, SECONDS, 100, false), DF_TRIES_AGAIN);
    assert_int_equal(s.t.counted, 1);
}

static void a_clock_set_back_gives_nothing_up_early_or_never(void **state)
{
    (void)state;
    struct story s = begin();
    assert_int_equal(keep_failing(&s, 100, MINUTES, 0, false), DF_TRIES_AGAIN);
    s.now_ms -= 1000 * HOURS;
    assert_int_equal(keep_failing(&s, 863, 5 * MINUTES, 0, false), DF_TRIES_AGAIN);
    assert_int_equal(keep_failing(&s, 10, 5 * MINUTES, 0, false), DF_TRIES_TIME);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_edge_of_the_rule_holds),
        cmocka_unit_test(a_document_alone_is_given_up_by_time_only),
        cmocka_unit_test(a_poisoned_document_among_others_is_given_up_soon),
        cmocka_unit_test(a_target_that_fails_half_of_its_calls_costs_few_documents),
        cmocka_unit_test(an_expired_key_for_an_hour_costs_nothing),
        cmocka_unit_test(a_day_of_429_costs_nothing),
        cmocka_unit_test(four_days_switched_off_count_as_no_tries),
        cmocka_unit_test(a_replica_that_cannot_reach_the_target_counts_nothing),
        cmocka_unit_test(a_clock_set_back_gives_nothing_up_early_or_never),
    };
    return cmocka_run_group_tests_name("tries", tests, NULL, NULL);
}

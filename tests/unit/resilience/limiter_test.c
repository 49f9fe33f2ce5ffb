#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "fake_clock.h"
#include "resilience/limiter.h"

#include <stdio.h>
#include <stdlib.h>

#define KEY DF_STR("a")

static struct df_fake_clock clock_;

static struct df_limiter *fresh(void)
{
    df_fake_clock_init(&clock_, 0, 7);
    df_fake_clock_advance_ms(&clock_, 700); /* not at the edge of anything */
    return df_limiter_new(&clock_.base);
}

static bool take(struct df_limiter *l, int64_t limit)
{
    struct df_limiter_answer a;
    df_limiter_take(l, KEY, limit, &a);
    return a.admitted;
}

/* Load at `times` the limit, evenly, for so long; how many were admitted. */
static int64_t load(struct df_limiter *l, int64_t limit, double times, int64_t seconds)
{
    double owed = 0;
    int64_t admitted = 0;
    for (int64_t ms = 0; ms < seconds * 1000; ms++) {
        for (owed += (double)limit * times / 60000; owed >= 1; owed -= 1)
            admitted += take(l, limit);
        df_fake_clock_advance_ms(&clock_, 1);
    }
    return admitted;
}

static void assert_near(int64_t got, int64_t want, int64_t slack)
{
    if (got < want - slack || got > want + slack)
        fail_msg("%lld is not %lld +- %lld", (long long)got, (long long)want, (long long)slack);
}

static const int64_t limits[] = {1, 2, 5, 10, 30, 60, 100, 250, 600, 1000, 6000, 60000};
#define LIMITS (sizeof limits / sizeof limits[0])

static int64_t two_percent(int64_t limit)
{
    return limit * 2 / 100 > 1 ? limit * 2 / 100 : 1; /* a request cannot be cut in two */
}

static void twice_the_limit_for_a_minute_admits_the_limit(void **state)
{
    (void)state;
    for (size_t i = 0; i < LIMITS; i++) {
        struct df_limiter *l = fresh();
        /* The first minute has the burst; the later ones are the same whenever one looks. */
        for (int minute = 0; minute < 4; minute++)
            assert_near(load(l, limits[i], 2, 60), limits[i], two_percent(limits[i]));
        df_limiter_free(l);
    }
}

static void no_minute_ever_has_more_than_the_limit(void **state)
{
    (void)state;
    enum { LIMIT = 100, STEPS = 2400 };
    static int64_t admitted[STEPS];
    struct df_limiter *l = fresh();
    /* Bursts and pauses of any length, from a seed. */
    for (size_t i = 0; i < STEPS; i++) {
        uint64_t tries = df_random_below(&clock_.base, 10) == 0 ? 150 : 0;
        admitted[i] = 0;
        for (uint64_t n = 0; n < tries; n++)
            admitted[i] += take(l, LIMIT);
        df_fake_clock_advance_ms(&clock_, 100);
    }
    for (size_t from = 0; from + 600 <= STEPS; from++) {
        int64_t sum = 0;
        for (size_t i = from; i < from + 600; i++)
            sum += admitted[i];
        assert_true(sum <= LIMIT);
    }
    df_limiter_free(l);
}

static void under_the_limit_nobody_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < LIMITS; i++) {
        struct df_limiter *l = fresh();
        int64_t limit = limits[i], gap_ms = 61000 / limit + 1;
        for (int64_t n = 0; n < (limit < 1000 ? 3 * limit : 3000); n++) {
            assert_true(take(l, limit));
            df_fake_clock_advance_ms(&clock_, gap_ms);
        }
        df_limiter_free(l);
    }
}

static void a_burst_is_small_and_comes_back(void **state)
{
    (void)state;
    static const struct {
        int64_t limit, burst;
    } cases[] = {{1, 1}, {3, 3}, {5, 5}, {60, 5}, {100, 5}, {600, 30}, {6000, 300}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct df_limiter *l = fresh();
        for (int round = 0; round < 2; round++) {
            int64_t n = 0;
            while (take(l, cases[i].limit))
                n++;
            assert_int_equal(n, cases[i].burst);
            df_fake_clock_advance_ms(&clock_, 61000);
        }
        df_limiter_free(l);
    }
}

static void a_refusal_tells_when_to_come_back_and_that_is_right(void **state)
{
    (void)state;
    for (size_t i = 0; i < LIMITS; i++) {
        struct df_limiter *l = fresh();
        struct df_limiter_answer a;
        for (int n = 0; n < 500; n++) {
            df_limiter_take(l, KEY, limits[i], &a);
            if (a.admitted)
                continue;
            assert_in_range(a.wait_ms, 1, 60501);
            assert_int_equal(a.burst_remaining, 0);
            df_fake_clock_advance_ms(&clock_, a.wait_ms);
            df_limiter_take(l, KEY, limits[i], &a);
            assert_true(a.admitted);
        }
        df_limiter_free(l);
    }
}

static void the_answer_says_what_is_left(void **state)
{
    (void)state;
    struct df_limiter *l = fresh();
    struct df_limiter_answer a;
    df_limiter_take(l, KEY, 100, &a);
    assert_true(a.admitted);
    assert_int_equal(a.remaining, 99);
    assert_in_range(a.reset_s, 60, 61);
    assert_int_equal(a.burst, 5);
    assert_int_equal(a.burst_window_s, 3);
    assert_int_equal(a.burst_remaining, 4);
    assert_int_equal(a.burst_reset_s, 1);
    df_fake_clock_advance_ms(&clock_, 10000);
    df_limiter_take(l, KEY, 100, &a);
    assert_int_equal(a.remaining, 98);
    assert_in_range(a.reset_s, 50, 51);
    assert_int_equal(a.burst_remaining, 4);
    df_limiter_free(l);
}

static void what_is_refused_does_not_count_and_is_told_once_a_minute(void **state)
{
    (void)state;
    struct df_limiter *l = fresh();
    struct df_limiter_answer a;
    struct df_limiter_use use;
    int told = 0;
    for (int n = 0; n < 1000; n++) {
        df_limiter_take(l, KEY, 60, &a);
        told += a.tell;
    }
    df_limiter_look(l, KEY, &use);
    assert_int_equal(use.requests, 5);
    assert_int_equal(told, 1);
    df_fake_clock_advance_ms(&clock_, 60000);
    do
        df_limiter_take(l, KEY, 60, &a);
    while (a.admitted);
    assert_true(a.tell);
    assert_int_equal(a.refused, 1000 - 5);
    df_limiter_free(l);
}

static void a_limit_may_come_change_and_go(void **state)
{
    (void)state;
    struct df_limiter *l = fresh();
    struct df_limiter_use use;
    for (int n = 0; n < 1000; n++)
        assert_true(take(l, 0));
    df_limiter_look(l, KEY, &use);
    assert_int_equal(use.requests, 1000);
    assert_true(take(l, 60)); /* a limit begins when it is set */
    assert_near(load(l, 60, 2, 59), 58, 2);
    assert_false(take(l, 30)); /* that much was had already */
    assert_true(take(l, 0));
    df_limiter_free(l);
}

static void keys_do_not_know_each_other_and_room_is_made(void **state)
{
    (void)state;
    struct df_limiter *l = fresh();
    struct df_limiter_answer a;
    char key[24];
    for (int round = 0; round < 2; round++) {
        for (int n = 0; n < DF_LIMITER_MAX; n++) {
            (void)snprintf(key, sizeof key, "%d-%d", round, n);
            df_limiter_take(l, df_str_c(key), 1, &a);
            assert_true(a.admitted);
            df_limiter_take(l, df_str_c(key), 1, &a);
            assert_false(a.admitted);
        }
        df_limiter_take(l, DF_STR("one more"), 1, &a);
        df_limiter_take(l, DF_STR("one more"), 1, &a);
        assert_true(a.admitted); /* no room: not limited */
        df_fake_clock_advance_ms(&clock_, 61000);
    }
    df_limiter_free(l);
}

static void so_many_may_be_in_hand(void **state)
{
    (void)state;
    struct df_limiter *l = fresh();
    assert_true(df_limiter_hold(l, KEY, 2));
    assert_true(df_limiter_hold(l, KEY, 2));
    assert_false(df_limiter_hold(l, KEY, 2));
    assert_true(df_limiter_hold(l, KEY, 0));
    df_limiter_drop(l, KEY);
    df_limiter_drop(l, KEY);
    assert_true(df_limiter_hold(l, KEY, 2));
    const struct df_limiter_use other = {.key = "a", .held = 1};
    df_limiter_set_elsewhere(l, &other, 1);
    df_limiter_drop(l, KEY);
    assert_true(df_limiter_hold(l, KEY, 3));
    assert_false(df_limiter_hold(l, KEY, 3));
    df_limiter_set_elsewhere(l, NULL, 0);
    assert_true(df_limiter_hold(l, KEY, 3));
    df_limiter_free(l);
}

/* --- several processes --- */

/* One process of those that share a limit, and how many times the whole limit is asked of it. */
struct replica {
    struct df_limiter *limiter;
    double times;
    double owed;
    int64_t admitted;
};

/* Each tells all the others what it has; `reports` is the table in the database. */
static void exchange(struct replica *r, size_t count)
{
    struct df_limiter_use told[4] = {0};
    for (size_t i = 0; i < count; i++) {
        struct df_limiter_use *mine = NULL;
        if (df_limiter_report(r[i].limiter, &mine) > 0)
            told[i] = mine[0];
        free(mine);
    }
    for (size_t i = 0; i < count; i++) {
        struct df_limiter_use others = {.key = "a"};
        for (size_t j = 0; j < count; j++) {
            others.requests += j == i ? 0 : told[j].requests;
            others.demand += j == i ? 0 : told[j].demand;
            others.held += j == i ? 0 : told[j].held;
        }
        df_limiter_set_elsewhere(r[i].limiter, &others, 1);
    }
}

static int64_t run_minute(struct replica *r, size_t count, int64_t limit)
{
    int64_t all = 0;
    for (int64_t ms = 0; ms < 60000; ms++) {
        for (size_t i = 0; i < count; i++) {
            int64_t got = 0;
            for (r[i].owed += (double)limit * r[i].times / 60000; r[i].owed >= 1; r[i].owed -= 1)
                got += take(r[i].limiter, limit);
            r[i].admitted += got;
            all += got;
        }
        df_fake_clock_advance_ms(&clock_, 1);
        if (ms % 1000 == 999)
            exchange(r, count);
    }
    return all;
}

static void replicas_share_a_limit_by_demand(void **state)
{
    (void)state;
    static const struct {
        size_t count;
        double times[3];
        double share[3]; /* of the limit, once it is known who wants what */
    } cases[] = {
        {2, {1, 1}, {.5, .5}},  {2, {2, 2}, {.5, .5}},           {2, {1.5, .5}, {.75, .25}},
        {2, {3, .1}, {.9, .1}}, {3, {1, 1, 1}, {.33, .33, .33}}, {2, {2, 0}, {1, 0}},
    };
    enum { LIMIT = 1200 };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        struct replica r[3] = {0};
        df_fake_clock_init(&clock_, 0, 7);
        for (size_t i = 0; i < cases[c].count; i++)
            r[i] = (struct replica){.limiter = df_limiter_new(&clock_.base),
                                    .times = cases[c].times[i]};
        /* The first second, in which they know nothing of each other, is the worst. */
        int64_t first = run_minute(r, cases[c].count, LIMIT);
        assert_near(first, LIMIT, LIMIT * 5 / 100);
        for (size_t i = 0; i < cases[c].count; i++)
            r[i].admitted = 0;
        for (int minute = 0; minute < 3; minute++)
            assert_near(run_minute(r, cases[c].count, LIMIT), LIMIT, LIMIT * 5 / 100);
        for (size_t i = 0; i < cases[c].count; i++) {
            assert_near(r[i].admitted / 3, (int64_t)(cases[c].share[i] * LIMIT), LIMIT / 10);
            df_limiter_free(r[i].limiter);
        }
    }
}

static void what_a_replica_had_is_told_until_it_rests(void **state)
{
    (void)state;
    struct df_limiter *l = fresh();
    struct df_limiter_use *uses = NULL;
    assert_true(take(l, 60));
    df_fake_clock_advance_ms(&clock_, 1000);
    assert_int_equal(df_limiter_report(l, &uses), 1);
    assert_string_equal(uses[0].key, "a");
    assert_int_equal(uses[0].requests, 1);
    assert_int_equal(uses[0].demand, 60);
    free(uses);
    for (int i = 0; i < 10; i++) { /* the demand fades */
        df_fake_clock_advance_ms(&clock_, 7000);
        assert_int_equal(df_limiter_report(l, &uses), i < 8);
        free(uses);
    }
    df_fake_clock_advance_ms(&clock_, 1000);
    assert_int_equal(df_limiter_report(l, &uses), 0);
    free(uses);
    df_limiter_free(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(twice_the_limit_for_a_minute_admits_the_limit),
        cmocka_unit_test(no_minute_ever_has_more_than_the_limit),
        cmocka_unit_test(under_the_limit_nobody_is_refused),
        cmocka_unit_test(a_burst_is_small_and_comes_back),
        cmocka_unit_test(a_refusal_tells_when_to_come_back_and_that_is_right),
        cmocka_unit_test(the_answer_says_what_is_left),
        cmocka_unit_test(what_is_refused_does_not_count_and_is_told_once_a_minute),
        cmocka_unit_test(a_limit_may_come_change_and_go),
        cmocka_unit_test(keys_do_not_know_each_other_and_room_is_made),
        cmocka_unit_test(so_many_may_be_in_hand),
        cmocka_unit_test(replicas_share_a_limit_by_demand),
        cmocka_unit_test(what_a_replica_had_is_told_until_it_rests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "fake_clock.h"
#include "resilience/retry.h"

#define DRAWS 20000

static struct df_fake_clock clock_;

static int fresh_clock(void **state)
{
    (void)state;
    df_fake_clock_init(&clock_, 0, 11);
    return 0;
}

static int64_t delay(const struct df_retry_policy *p, int64_t attempt, int64_t retry_after_ms)
{
    return df_retry_delay_ms(p, attempt, retry_after_ms, &clock_.base);
}

/* The greatest of many draws; none may be below 1 or above `most`. */
static int64_t greatest(const struct df_retry_policy *p, int64_t attempt, int64_t most)
{
    int64_t max = 0;
    for (int i = 0; i < DRAWS; i++) {
        int64_t d = delay(p, attempt, -1);
        assert_in_range(d, 1, most);
        max = d > max ? d : max;
    }
    return max;
}

static void the_ceiling_doubles_with_each_attempt_up_to_the_cap(void **state)
{
    (void)state;
    const struct df_retry_policy p = {.base_ms = 2000, .cap_ms = 300000, .max_attempts = 5};
    static const int64_t ceilings[] = {2000,  4000,   8000,   16000,  32000,
                                       64000, 128000, 256000, 300000, 300000};
    for (size_t i = 0; i < sizeof ceilings / sizeof ceilings[0]; i++) {
        int64_t max = greatest(&p, (int64_t)i + 1, ceilings[i]);
        assert_true(max > ceilings[i] - ceilings[i] / 100);
    }
}

static void the_jitter_is_full_and_even(void **state)
{
    (void)state;
    const struct df_retry_policy p = {.base_ms = 10, .cap_ms = 10, .max_attempts = 5};
    size_t seen[11] = {0};
    for (int i = 0; i < DRAWS; i++)
        seen[delay(&p, 1, -1)]++;
    assert_int_equal(seen[0], 0);
    for (size_t i = 1; i <= 10; i++)
        assert_in_range(seen[i], DRAWS / 10 - DRAWS / 100, DRAWS / 10 + DRAWS / 100);
}

static void the_same_seed_gives_the_same_delays(void **state)
{
    (void)state;
    const struct df_retry_policy p = {.base_ms = 2000, .cap_ms = 300000, .max_attempts = 5};
    int64_t first[20];
    for (int64_t i = 0; i < 20; i++)
        first[i] = delay(&p, i + 1, -1);
    df_fake_clock_init(&clock_, 0, 11);
    for (int64_t i = 0; i < 20; i++)
        assert_int_equal(delay(&p, i + 1, -1), first[i]);
}

static void huge_attempts_and_caps_do_not_overflow(void **state)
{
    (void)state;
    static const int64_t attempts[] = {62, 63, 64, 65, 66, 1000, INT32_MAX, INT64_MAX};
    const struct df_retry_policy capped = {.base_ms = 1, .cap_ms = 50};
    const struct df_retry_policy endless = {.base_ms = 3, .cap_ms = INT64_MAX};
    for (size_t i = 0; i < sizeof attempts / sizeof attempts[0]; i++) {
        assert_int_equal(greatest(&capped, attempts[i], 50), 50);
        /* Half of all draws are above 2^61 where the ceiling is at least 2^62. */
        assert_true(greatest(&endless, attempts[i], INT64_MAX) > INT64_MAX / 4);
    }
}

static void a_delay_is_never_nothing(void **state)
{
    (void)state;
    const struct df_retry_policy least = {.base_ms = 1, .cap_ms = 1};
    const struct df_retry_policy nothing = {.base_ms = 0, .cap_ms = 0};
    assert_int_equal(greatest(&least, 1, 1), 1);
    assert_int_equal(greatest(&nothing, 3, 1), 1);
}

static void a_base_above_the_cap_is_cut_to_it(void **state)
{
    (void)state;
    const struct df_retry_policy p = {.base_ms = 1000, .cap_ms = 20};
    assert_int_equal(greatest(&p, 1, 20), 20);
}

static void a_fixed_schedule_is_kept_to_the_letter(void **state)
{
    (void)state;
    static const int64_t webhook[] = {15000, 30000, 60000, 300000, 900000};
    const struct df_retry_policy p = {
        .base_ms = 1, .cap_ms = 2, .delays_ms = webhook, .delay_count = 5};
    for (int round = 0; round < 100; round++) {
        for (int64_t i = 0; i < 5; i++)
            assert_int_equal(delay(&p, i + 1, -1), webhook[i]);
        assert_int_equal(delay(&p, 6, -1), 900000);
        assert_int_equal(delay(&p, INT64_MAX, -1), 900000);
    }
}

static void retry_after_is_the_least_up_to_a_day(void **state)
{
    (void)state;
    const int64_t day = INT64_C(86400000);
    static const int64_t fixed[] = {15000};
    const struct df_retry_policy exponential = {.base_ms = 100, .cap_ms = 100};
    const struct df_retry_policy schedule = {.delays_ms = fixed, .delay_count = 1};
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(delay(&exponential, 1, 100), 100);
        assert_in_range(delay(&exponential, 1, 60), 60, 100);
        assert_in_range(delay(&exponential, 1, 0), 1, 100);
    }
    assert_int_equal(delay(&exponential, 1, 7000), 7000);
    assert_int_equal(delay(&exponential, 1, day), day);
    assert_int_equal(delay(&exponential, 1, day + 1), day);
    assert_int_equal(delay(&exponential, 1, INT64_MAX), day);
    assert_int_equal(delay(&schedule, 1, 14999), 15000);
    assert_int_equal(delay(&schedule, 1, 15001), 15001);
}

static void the_last_attempt_is_the_last(void **state)
{
    (void)state;
    static const int64_t delays[] = {1, 2, 3};
    const struct df_retry_policy five = {.max_attempts = 5};
    const struct df_retry_policy one = {.max_attempts = 1};
    const struct df_retry_policy schedule = {.delays_ms = delays, .delay_count = 3};
    const struct df_retry_policy cut = {.delays_ms = delays, .delay_count = 3, .max_attempts = 2};
    assert_false(df_retry_exhausted(&five, 4));
    assert_true(df_retry_exhausted(&five, 5));
    assert_true(df_retry_exhausted(&five, 6));
    assert_true(df_retry_exhausted(&one, 1));
    assert_false(df_retry_exhausted(&schedule, 3));
    assert_true(df_retry_exhausted(&schedule, 4));
    assert_false(df_retry_exhausted(&cut, 1));
    assert_true(df_retry_exhausted(&cut, 2));
}

static void every_status_has_its_class(void **state)
{
    (void)state;
    static const struct {
        unsigned first, last;
        enum df_retry_class class;
    } table[] = {
        {0, 99, DF_CLASS_RETRY},      {100, 199, DF_CLASS_PERMANENT},
        {200, 299, DF_CLASS_SUCCESS}, {300, 407, DF_CLASS_PERMANENT},
        {408, 408, DF_CLASS_RETRY},   {409, 424, DF_CLASS_PERMANENT},
        {425, 425, DF_CLASS_RETRY},   {426, 428, DF_CLASS_PERMANENT},
        {429, 429, DF_CLASS_RETRY},   {430, 499, DF_CLASS_PERMANENT},
        {500, 999, DF_CLASS_RETRY},
    };
    unsigned status = 0;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        assert_int_equal(table[i].first, status);
        for (; status <= table[i].last; status++)
            assert_int_equal(df_retry_class_of(status), table[i].class);
    }
    assert_int_equal(status, 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_ceiling_doubles_with_each_attempt_up_to_the_cap, fresh_clock),
        cmocka_unit_test_setup(the_jitter_is_full_and_even, fresh_clock),
        cmocka_unit_test_setup(the_same_seed_gives_the_same_delays, fresh_clock),
        cmocka_unit_test_setup(huge_attempts_and_caps_do_not_overflow, fresh_clock),
        cmocka_unit_test_setup(a_delay_is_never_nothing, fresh_clock),
        cmocka_unit_test_setup(a_base_above_the_cap_is_cut_to_it, fresh_clock),
        cmocka_unit_test_setup(a_fixed_schedule_is_kept_to_the_letter, fresh_clock),
        cmocka_unit_test_setup(retry_after_is_the_least_up_to_a_day, fresh_clock),
        cmocka_unit_test(the_last_attempt_is_the_last),
        cmocka_unit_test(every_status_has_its_class),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

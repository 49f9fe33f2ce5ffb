#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "fake_clock.h"
#include "resilience/throttle.h"

#include <stdio.h>

static struct df_fake_clock clock_;

static struct df_throttle *fresh(int64_t capacity, int64_t per_minute)
{
    df_fake_clock_init(&clock_, 0, 7);
    return df_throttle_new(capacity, per_minute, &clock_.base);
}

/* Charges until the key is blocked; how often that went. */
static int64_t use_up(struct df_throttle *t, struct df_str key, int64_t *ret_wait)
{
    int64_t charges = 0;
    for (; !df_throttle_blocked(t, key, ret_wait); charges++)
        df_throttle_charge(t, key);
    return charges;
}

static void a_new_key_has_its_whole_capacity_and_no_more(void **state)
{
    (void)state;
    struct df_throttle *t = fresh(5, 60);
    int64_t wait = 0;
    assert_int_equal(use_up(t, DF_STR("a"), &wait), 5);
    assert_in_range(wait, 900, 1001); /* one token a second */
    df_throttle_free(t);
}

static void tokens_come_back_with_time_up_to_the_capacity(void **state)
{
    (void)state;
    struct df_throttle *t = fresh(5, 60);
    int64_t wait = 0;
    use_up(t, DF_STR("a"), &wait);
    df_fake_clock_advance_ms(&clock_, 3001);
    assert_int_equal(use_up(t, DF_STR("a"), &wait), 3);
    df_fake_clock_advance_ms(&clock_, 3600 * 1000);
    assert_int_equal(use_up(t, DF_STR("a"), &wait), 5);
    df_throttle_free(t);
}

static void keys_do_not_share_a_bucket(void **state)
{
    (void)state;
    struct df_throttle *t = fresh(3, 60);
    int64_t wait = 0;
    use_up(t, DF_STR("a"), &wait);
    assert_int_equal(use_up(t, DF_STR("b"), &wait), 3);
    df_throttle_free(t);
}

static void asking_costs_nothing(void **state)
{
    (void)state;
    struct df_throttle *t = fresh(3, 60);
    int64_t wait = 0;
    for (int i = 0; i < 1000; i++)
        assert_false(df_throttle_blocked(t, DF_STR("a"), &wait));
    assert_int_equal(use_up(t, DF_STR("a"), &wait), 3);
    df_throttle_free(t);
}

static void charges_under_way_become_a_debt_that_ends_at_the_capacity(void **state)
{
    (void)state;
    struct df_throttle *t = fresh(3, 60);
    int64_t wait = 0;
    for (int i = 0; i < 1000; i++)
        df_throttle_charge(t, DF_STR("a"));
    assert_true(df_throttle_blocked(t, DF_STR("a"), &wait));
    assert_in_range(wait, 3900, 4001); /* from -3 to 1 at one a second */
    df_fake_clock_advance_ms(&clock_, 4001);
    assert_int_equal(use_up(t, DF_STR("a"), &wait), 1);
    df_throttle_free(t);
}

/* An attacker that invents keys fills the table, but cannot push out the one being throttled. */
static void a_crowd_of_other_keys_does_not_free_a_throttled_one(void **state)
{
    (void)state;
    struct df_throttle *t = fresh(10, 1);
    int64_t wait = 0;
    assert_int_equal(use_up(t, DF_STR("bad"), &wait), 10);
    for (int i = 0; i < 100000; i++) {
        char key[32];
        int n = snprintf(key, sizeof key, "10.%d.%d.%d", i >> 16, (i >> 8) & 255, i & 255);
        df_throttle_charge(t, df_str_n(key, (size_t)n));
    }
    assert_true(df_throttle_blocked(t, DF_STR("bad"), &wait));
    df_throttle_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_key_has_its_whole_capacity_and_no_more),
        cmocka_unit_test(tokens_come_back_with_time_up_to_the_capacity),
        cmocka_unit_test(keys_do_not_share_a_bucket),
        cmocka_unit_test(asking_costs_nothing),
        cmocka_unit_test(charges_under_way_become_a_debt_that_ends_at_the_capacity),
        cmocka_unit_test(a_crowd_of_other_keys_does_not_free_a_throttled_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

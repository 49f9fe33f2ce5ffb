/* The budget for memory that callers cause: shares, refusals, and that all of it comes back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/budget.h"
#include "base/buf.h"

#include <pthread.h>
#include <stdlib.h>

#define KIB   ((size_t)1024)
#define TOTAL (400 * KIB)

static struct df_account account(struct df_budget *b, const char *owner)
{
    struct df_account a = {0};
    df_account_open(&a, b, df_str_c(owner));
    return a;
}

static void an_owner_has_at_most_a_quarter(void **state)
{
    (void)state;
    struct df_budget *b = df_budget_new(TOTAL);
    struct df_account one = account(b, "a");
    struct df_account two = account(b, "a");

    assert_int_equal(df_budget_share(b), 100 * KIB);
    assert_true(df_account_take(&one, 60 * KIB));
    assert_false(df_account_take(&two, 41 * KIB));
    assert_int_equal(two.reason, DF_REFUSED_SHARE);
    assert_true(df_account_take(&two, 40 * KIB));
    assert_int_equal(df_budget_used(b), 100 * KIB);
    /* What has been refused costs nothing, and what was given back is there for the next. */
    df_account_give(&one, 10 * KIB);
    assert_true(df_account_take(&two, 10 * KIB));
    assert_false(df_account_take(&one, 60 * KIB));
    assert_int_equal(one.reason, DF_REFUSED_EVER);
    df_account_close(&one);
    df_account_close(&two);
    assert_int_equal(df_budget_used(b), 0);
    df_budget_free(b);
}

static void all_together_have_the_total(void **state)
{
    (void)state;
    static const char *const names[] = {"a", "b", "c", "d", "e"};
    struct df_budget *b = df_budget_new(TOTAL);
    struct df_account a[5];

    for (size_t i = 0; i < 3; i++) {
        a[i] = account(b, names[i]);
        assert_true(df_account_take(&a[i], 100 * KIB));
    }
    /* The last eighth is for the small ones, each of them. */
    a[3] = account(b, names[3]);
    assert_false(df_account_take(&a[3], 70 * KIB));
    assert_int_equal(a[3].reason, DF_REFUSED_TOTAL);
    assert_true(df_account_take(&a[3], 60 * KIB));
    assert_false(df_account_take(&a[3], 10 * KIB));
    a[4] = account(b, names[4]);
    assert_true(df_account_take(&a[4], 40 * KIB));
    assert_int_equal(df_budget_used(b), TOTAL);
    assert_false(df_account_take(&a[4], 1));
    df_account_close(&a[0]);
    assert_true(df_account_take(&a[4], 10 * KIB));
    for (size_t i = 1; i < 5; i++)
        df_account_close(&a[i]);
    assert_int_equal(df_budget_used(b), 0);
    df_budget_free(b);
}

/* The first kilobytes are a connection's own; once there are more, all of it counts. */
static void little_is_not_asked_for(void **state)
{
    (void)state;
    struct df_budget *b = df_budget_new(TOTAL);
    struct df_account a = account(b, "a");

    assert_true(df_account_take(&a, DF_ACCOUNT_FREE));
    assert_int_equal(df_budget_used(b), 0);
    assert_true(df_account_take(&a, 1));
    assert_int_equal(df_budget_used(b), DF_ACCOUNT_FREE + 1);
    df_account_give(&a, 1);
    assert_int_equal(df_budget_used(b), 0);
    assert_false(df_account_take(&a, SIZE_MAX));
    assert_int_equal(a.reason, DF_REFUSED_EVER);
    df_account_close(&a);
    df_budget_free(b);
}

static void a_buffer_asks_before_it_grows(void **state)
{
    (void)state;
    struct df_budget *b = df_budget_new(TOTAL);
    struct df_account a = account(b, "a");
    struct df_buf buf;

    df_buf_init(&buf, TOTAL);
    buf.account = &a;
    for (size_t i = 0; i < TOTAL && !df_buf_failed(&buf); i++)
        df_buf_addc(&buf, 'x');
    assert_true(df_buf_failed(&buf));
    assert_int_equal(a.reason, DF_REFUSED_EVER);
    assert_int_equal(df_budget_used(b), buf.cap);
    assert_in_range(buf.len, 32 * KIB, 100 * KIB);

    df_buf_release(&buf);
    assert_int_equal(df_budget_used(b), 0);
    df_buf_add(&buf, "text", 4);
    assert_non_null(df_buf_grow(&buf, 50 * KIB));
    size_t cap = buf.cap;
    /* Taken away, it is still there until the account is closed. */
    free(df_buf_take(&buf, NULL));
    df_buf_release(&buf);
    assert_int_equal(df_budget_used(b), cap);
    df_account_close(&a);
    assert_int_equal(df_budget_used(b), 0);
    df_budget_free(b);
}

static void without_a_budget_everything_is_allowed(void **state)
{
    (void)state;
    struct df_account a = {0};
    assert_true(df_account_take(&a, SIZE_MAX));
    df_account_give(&a, 1);
    df_account_close(&a);
}

/* --- many at a time --- */

struct taker {
    struct df_budget *budget;
    pthread_t thread;
    char name[2];
};

static void *take_and_give(void *arg)
{
    struct taker *t = arg;

    for (size_t i = 1; i < 20000; i++) {
        struct df_account a = account(t->budget, t->name);
        if (df_account_take(&a, i * 7 % (60 * KIB)) && df_account_take(&a, i * 13 % (60 * KIB)))
            df_account_give(&a, i % 1000 < a.taken ? i % 1000 : 0);
        df_account_close(&a);
    }
    return NULL;
}

static void threads_leave_nothing_behind(void **state)
{
    (void)state;
    struct taker t[6];
    struct df_budget *b = df_budget_new(TOTAL);

    for (size_t i = 0; i < 6; i++) {
        t[i] = (struct taker){.budget = b, .name = {(char)('a' + i / 2)}};
        assert_int_equal(pthread_create(&t[i].thread, NULL, take_and_give, &t[i]), 0);
    }
    for (size_t i = 0; i < 6; i++)
        pthread_join(t[i].thread, NULL);
    assert_int_equal(df_budget_used(b), 0);
    df_budget_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_owner_has_at_most_a_quarter),
        cmocka_unit_test(all_together_have_the_total),
        cmocka_unit_test(little_is_not_asked_for),
        cmocka_unit_test(a_buffer_asks_before_it_grows),
        cmocka_unit_test(without_a_budget_everything_is_allowed),
        cmocka_unit_test(threads_leave_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "delivery/sign.h"
#include "keys_from.h"
#include "webhooks/secret.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define ID       "0190b5c2-1111-7000-8000-000000000001"
#define OTHER_ID "0190b5c2-1111-7000-8000-000000000002"
#define SECRET   "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

static struct df_keys *keys, *other;
static struct df_arena arena;

static int setup(void **state)
{
    (void)state;
    keys = df_keys_from(df_clock_real(), (const unsigned char[DF_KEY_BYTES]){1});
    other = df_keys_from(df_clock_real(), (const unsigned char[DF_KEY_BYTES]){2});
    df_keys_add(other, 2, (const unsigned char[DF_KEY_BYTES]){3});
    df_keys_use(other, 2);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    df_keys_free(keys);
    df_keys_free(other);
    df_arena_release(&arena);
    return 0;
}

static void made_ones_differ_and_will_do(void **state)
{
    (void)state;
    struct df_webhook_secret a, b;
    struct df_err err = DF_ERR_INIT;

    df_webhook_secret_make(df_clock_real(), &a);
    df_webhook_secret_make(df_clock_real(), &b);
    assert_string_not_equal(a.text, b.text);
    assert_int_equal(strlen(a.text), 6 + 44);
    assert_int_equal(df_webhook_secret_check(df_str_c(a.text), &err), DF_OK);
}

static void a_callers_own_is_checked(void **state)
{
    (void)state;
    static char long_one[DF_WEBHOOK_SECRET_MAX + 2];
    memset(long_one, 'x', DF_WEBHOOK_SECRET_MAX + 1);
    const struct {
        struct df_str text;
        bool ok;
    } cases[] = {
        {DF_STR(SECRET), true},
        {DF_STR("sixteen-letters!"), true},
        {df_str_n(long_one, DF_WEBHOOK_SECRET_MAX), true},
        {df_str_n(long_one, DF_WEBHOOK_SECRET_MAX + 1), false},
        {DF_STR(""), false},
        {DF_STR("fifteen-letters"), false},
        {DF_STR("with a space in it"), false},
        {DF_STR("with\ttab-in-the-middle"), false},
        {DF_STR("com-acentua\xc3\xa7\xc3\xa3o-longa"), false},
        {DF_STR("whsec_"), false},
        {DF_STR("whsec_short"), false},
        {DF_STR("whsec_!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!"), false},
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct df_err err = DF_ERR_INIT;
        bool ok = df_webhook_secret_check(cases[i].text, &err) == DF_OK;
        if (ok != cases[i].ok)
            fail_msg("case %zu", i);
    }
}

static enum df_code open_current(struct df_keys *k, const char *id, struct df_str plain,
                                 struct df_str sealed, struct df_str *ret)
{
    struct df_webhook_secret_columns c = {
        .secret = plain, .encrypted = sealed, .previous_expires_at = -1};
    struct df_err err = DF_ERR_INIT;
    struct df_str previous;

    return df_webhook_secret_open(k, df_str_c(id), &c, 0, &arena, ret, &previous, &err);
}

static void one_that_an_older_release_left_open_is_read(void **state)
{
    (void)state;
    struct df_str got;

    assert_int_equal(open_current(keys, ID, DF_STR(SECRET), DF_STR_NULL, &got), DF_OK);
    assert_true(df_str_eq(got, DF_STR(SECRET)));
    assert_int_equal(open_current(keys, ID, DF_STR_NULL, DF_STR_NULL, &got), DF_E_CONFIG);
}

static void encrypted_it_opens_for_its_key_and_subscription_alone(void **state)
{
    (void)state;
    struct df_str got;
    struct df_str s = df_webhook_secret_seal(keys, DF_STR(ID), DF_STR(SECRET), &arena);
    struct df_str again = df_webhook_secret_seal(keys, DF_STR(ID), DF_STR(SECRET), &arena);
    struct df_str unknown = df_webhook_secret_seal(other, DF_STR(ID), DF_STR(SECRET), &arena);

    assert_false(df_str_eq(s, again));
    assert_null(memmem(s.ptr, s.len, SECRET + 6, 8));
    assert_int_equal(open_current(keys, ID, DF_STR_NULL, s, &got), DF_OK);
    assert_true(df_str_eq(got, DF_STR(SECRET)));
    assert_int_equal(open_current(keys, OTHER_ID, DF_STR_NULL, s, &got), DF_E_INTERNAL);
    assert_int_equal(open_current(other, ID, DF_STR_NULL, s, &got), DF_E_INTERNAL);
    assert_int_equal(open_current(keys, ID, DF_STR_NULL, unknown, &got), DF_E_CONFIG);
}

static void every_changed_byte_and_every_cut_is_noticed(void **state)
{
    (void)state;
    struct df_str got;
    struct df_str s = df_webhook_secret_seal(keys, DF_STR(ID), DF_STR(SECRET), &arena);
    char *bytes = (char *)(uintptr_t)s.ptr;

    for (size_t i = 0; i < s.len; i++) {
        bytes[i] ^= 1;
        assert_int_not_equal(open_current(keys, ID, DF_STR_NULL, s, &got), DF_OK);
        bytes[i] ^= 1;
    }
    for (size_t len = 0; len < s.len; len++)
        assert_int_not_equal(open_current(keys, ID, DF_STR_NULL, df_str_n(s.ptr, len), &got),
                             DF_OK);
}

static void the_previous_one_counts_until_its_time(void **state)
{
    (void)state;
    struct df_str got, previous;
    struct df_err err = DF_ERR_INIT;
    struct df_str now = df_webhook_secret_seal(keys, DF_STR(ID), DF_STR(SECRET), &arena);
    struct df_str before =
        df_webhook_secret_seal(keys, DF_STR(ID), DF_STR("the-old-secret-of-it"), &arena);
    struct df_webhook_secret_columns c = {
        .encrypted = now, .previous_encrypted = before, .previous_expires_at = 1000};

    assert_int_equal(
        df_webhook_secret_open(keys, DF_STR(ID), &c, 999, &arena, &got, &previous, &err), DF_OK);
    assert_true(df_str_eq(previous, DF_STR("the-old-secret-of-it")));
    assert_int_equal(
        df_webhook_secret_open(keys, DF_STR(ID), &c, 1000, &arena, &got, &previous, &err), DF_OK);
    assert_null(previous.ptr);
    /* One that cannot be opened keeps nobody from signing with the current one. */
    ((char *)(uintptr_t)before.ptr)[30] ^= 1;
    assert_int_equal(
        df_webhook_secret_open(keys, DF_STR(ID), &c, 999, &arena, &got, &previous, &err), DF_OK);
    assert_true(df_str_eq(got, DF_STR(SECRET)));
    assert_null(previous.ptr);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(made_ones_differ_and_will_do),
        cmocka_unit_test(a_callers_own_is_checked),
        cmocka_unit_test(one_that_an_older_release_left_open_is_read),
        cmocka_unit_test(encrypted_it_opens_for_its_key_and_subscription_alone),
        cmocka_unit_test(every_changed_byte_and_every_cut_is_noticed),
        cmocka_unit_test(the_previous_one_counts_until_its_time),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "delivery/sign.h"
#include "webhooks/secret.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define ID       "0190b5c2-1111-7000-8000-000000000001"
#define OTHER_ID "0190b5c2-1111-7000-8000-000000000002"
#define SECRET   "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

static struct df_secret *master, *other;
static struct df_arena arena;

static int setup(void **state)
{
    (void)state;
    master = df_secret_key_new(
        DF_STR("000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"));
    other = df_secret_key_new(DF_STR("//////////////////////////////////////////8="));
    return master && other ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    df_secret_free(master);
    df_secret_free(other);
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

static enum df_code open_current(const struct df_secret *key, const char *id,
                                 const struct df_webhook_sealed *s, struct df_str *ret)
{
    struct df_webhook_secret_columns c = {
        .secret = s->plain, .encrypted = s->sealed, .previous_expires_at = -1};
    struct df_err err = DF_ERR_INIT;
    struct df_str previous;

    return df_webhook_secret_open(&(struct df_webhook_keys){.master = key}, df_str_c(id), &c, 0,
                                  &arena, ret, &previous, &err);
}

static void without_a_key_it_is_kept_as_it_is(void **state)
{
    (void)state;
    struct df_webhook_sealed s;
    struct df_str got;

    df_webhook_secret_seal(NULL, df_clock_real(), DF_STR(ID), DF_STR(SECRET), &s);
    assert_null(s.sealed.ptr);
    assert_true(df_str_eq(s.plain, DF_STR(SECRET)));
    assert_int_equal(open_current(NULL, ID, &s, &got), DF_OK);
    assert_true(df_str_eq(got, DF_STR(SECRET)));
    /* And is still read once there is a key. */
    assert_int_equal(open_current(master, ID, &s, &got), DF_OK);
    assert_true(df_str_eq(got, DF_STR(SECRET)));
}

static void encrypted_it_opens_for_its_key_and_subscription_alone(void **state)
{
    (void)state;
    struct df_webhook_sealed s, again;
    struct df_str got;

    df_webhook_secret_seal(master, df_clock_real(), DF_STR(ID), DF_STR(SECRET), &s);
    df_webhook_secret_seal(master, df_clock_real(), DF_STR(ID), DF_STR(SECRET), &again);
    assert_null(s.plain.ptr);
    assert_false(df_str_eq(s.sealed, again.sealed));
    assert_null(memmem(s.sealed.ptr, s.sealed.len, SECRET + 6, 8));
    assert_int_equal(open_current(master, ID, &s, &got), DF_OK);
    assert_true(df_str_eq(got, DF_STR(SECRET)));
    assert_int_equal(open_current(master, OTHER_ID, &s, &got), DF_E_CONFIG);
    assert_int_equal(open_current(other, ID, &s, &got), DF_E_CONFIG);
    assert_int_equal(open_current(NULL, ID, &s, &got), DF_E_CONFIG);
}

static void every_changed_byte_and_every_cut_is_noticed(void **state)
{
    (void)state;
    struct df_webhook_sealed s;
    struct df_str got;

    df_webhook_secret_seal(master, df_clock_real(), DF_STR(ID), DF_STR(SECRET), &s);
    for (size_t i = 0; i < s.sealed.len; i++) {
        s.bytes[i] ^= 1;
        assert_int_equal(open_current(master, ID, &s, &got), DF_E_CONFIG);
        s.bytes[i] ^= 1;
    }
    size_t whole = s.sealed.len;
    for (s.sealed.len = 0; s.sealed.len < whole; s.sealed.len++)
        assert_int_equal(open_current(master, ID, &s, &got), DF_E_CONFIG);
}

static void the_previous_one_counts_until_its_time(void **state)
{
    (void)state;
    struct df_webhook_sealed now, before;
    struct df_str got, previous;
    struct df_err err = DF_ERR_INIT;
    const struct df_webhook_keys keys = {.master = master};

    df_webhook_secret_seal(master, df_clock_real(), DF_STR(ID), DF_STR(SECRET), &now);
    df_webhook_secret_seal(master, df_clock_real(), DF_STR(ID), DF_STR("the-old-secret-of-it"),
                           &before);
    struct df_webhook_secret_columns c = {
        .encrypted = now.sealed, .previous_encrypted = before.sealed, .previous_expires_at = 1000};
    assert_int_equal(
        df_webhook_secret_open(&keys, DF_STR(ID), &c, 999, &arena, &got, &previous, &err), DF_OK);
    assert_true(df_str_eq(previous, DF_STR("the-old-secret-of-it")));
    assert_int_equal(
        df_webhook_secret_open(&keys, DF_STR(ID), &c, 1000, &arena, &got, &previous, &err), DF_OK);
    assert_null(previous.ptr);
    /* One that cannot be opened keeps nobody from signing with the current one. */
    before.bytes[30] ^= 1;
    assert_int_equal(
        df_webhook_secret_open(&keys, DF_STR(ID), &c, 999, &arena, &got, &previous, &err), DF_OK);
    assert_true(df_str_eq(got, DF_STR(SECRET)));
    assert_null(previous.ptr);
}

static void what_is_under_the_old_key_opens_beside_the_new_one(void **state)
{
    (void)state;
    const struct df_webhook_keys both = {.master = other, .old_master = master};
    struct df_webhook_sealed now, before;
    struct df_str got, previous;
    struct df_err err = DF_ERR_INIT;

    for (int i = 0; i < 4; i++) {
        df_webhook_secret_seal(i & 1 ? master : other, df_clock_real(), DF_STR(ID), DF_STR(SECRET),
                               &now);
        df_webhook_secret_seal(i & 2 ? master : other, df_clock_real(), DF_STR(ID),
                               DF_STR("the-old-secret-of-it"), &before);
        struct df_webhook_secret_columns c = {.encrypted = now.sealed,
                                              .previous_encrypted = before.sealed,
                                              .previous_expires_at = 1000};
        assert_int_equal(
            df_webhook_secret_open(&both, DF_STR(ID), &c, 999, &arena, &got, &previous, &err),
            DF_OK);
        assert_true(df_str_eq(got, DF_STR(SECRET)));
        assert_true(df_str_eq(previous, DF_STR("the-old-secret-of-it")));
        assert_int_equal(
            df_webhook_secret_open(&both, DF_STR(OTHER_ID), &c, 999, &arena, &got, &previous, &err),
            DF_E_CONFIG);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(made_ones_differ_and_will_do),
        cmocka_unit_test(a_callers_own_is_checked),
        cmocka_unit_test(without_a_key_it_is_kept_as_it_is),
        cmocka_unit_test(encrypted_it_opens_for_its_key_and_subscription_alone),
        cmocka_unit_test(every_changed_byte_and_every_cut_is_noticed),
        cmocka_unit_test(the_previous_one_counts_until_its_time),
        cmocka_unit_test(what_is_under_the_old_key_opens_beside_the_new_one),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

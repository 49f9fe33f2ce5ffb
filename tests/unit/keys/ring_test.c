#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "keys/keys.h"
#include "keys_from.h"

#include <sodium.h>

#define ROW DF_STR("0190b5c2-1111-7000-8000-000000000001")

static const unsigned char one[DF_KEY_BYTES] = {1}, two[DF_KEY_BYTES] = {2};
static struct df_keys *keys;
static struct df_arena arena;
static struct df_buf sealed;

static int setup(void **state)
{
    (void)state;
    keys = df_keys_from(df_clock_real(), one);
    df_buf_init(&sealed, 4096);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    df_keys_free(keys);
    df_arena_release(&arena);
    df_buf_release(&sealed);
    return 0;
}

static enum df_code open_as(struct df_keys *k, enum df_key_purpose purpose, struct df_str label,
                            struct df_str *ret)
{
    struct df_err err = DF_ERR_INIT;
    return df_keys_open(k, purpose, label, df_buf_str(&sealed), &arena, ret, &err);
}

static void what_was_closed_opens(void **state)
{
    (void)state;
    struct df_str plain;

    df_keys_seal(keys, DF_KEY_PAYLOAD, ROW, DF_STR("a payload"), &sealed);
    assert_int_equal(sealed.len, 9 + DF_SEALED_EXTRA);
    assert_int_equal(df_sealed_key(df_buf_str(&sealed)), 1);
    assert_int_equal(open_as(keys, DF_KEY_PAYLOAD, ROW, &plain), DF_OK);
    assert_true(df_str_eq(plain, DF_STR("a payload")));
}

static void a_closed_value_opens_at_its_place_only(void **state)
{
    (void)state;
    struct df_str plain;

    df_keys_seal(keys, DF_KEY_PAYLOAD, ROW, DF_STR("a payload"), &sealed);
    assert_int_equal(open_as(keys, DF_KEY_PAYLOAD, DF_STR("elsewhere"), &plain), DF_E_INTERNAL);
    assert_int_equal(open_as(keys, DF_KEY_SECRET, ROW, &plain), DF_E_INTERNAL);
    for (size_t i = 0; i < sealed.len; i++) {
        sealed.ptr[i] ^= 1;
        assert_int_not_equal(open_as(keys, DF_KEY_PAYLOAD, ROW, &plain), DF_OK);
        sealed.ptr[i] ^= 1;
    }
    for (size_t whole = sealed.len; sealed.len > 0;) {
        sealed.len--;
        assert_int_not_equal(open_as(keys, DF_KEY_PAYLOAD, ROW, &plain), DF_OK);
        assert_true(sealed.len < whole);
    }
}

static void an_older_key_opens_what_it_closed(void **state)
{
    (void)state;
    struct df_str plain;

    df_keys_seal(keys, DF_KEY_SECRET, ROW, DF_STR("old"), &sealed);
    df_keys_add(keys, 7, two);
    df_keys_use(keys, 7);
    assert_int_equal(df_keys_current(keys), 7);
    assert_int_equal(open_as(keys, DF_KEY_SECRET, ROW, &plain), DF_OK);
    assert_true(df_str_eq(plain, DF_STR("old")));

    df_buf_reset(&sealed);
    df_keys_seal(keys, DF_KEY_SECRET, ROW, DF_STR("new"), &sealed);
    assert_int_equal(df_sealed_key(df_buf_str(&sealed)), 7);
    struct df_keys *without = df_keys_from(df_clock_real(), one);
    assert_int_equal(open_as(without, DF_KEY_SECRET, ROW, &plain), DF_E_CONFIG);
    df_keys_free(without);
}

static void hashes_depend_on_key_domain_and_value(void **state)
{
    (void)state;
    unsigned char a[DF_HASH_BYTES], b[DF_HASH_BYTES];
    struct df_keys *other = df_keys_from(df_clock_real(), two);

    df_keys_hash(keys, DF_STR("phone"), DF_STR("+5511987654321"), a);
    df_keys_hash(keys, DF_STR("phone"), DF_STR("+5511987654321"), b);
    assert_memory_equal(a, b, sizeof a);
    df_keys_hash(keys, DF_STR("phone"), DF_STR("+5511987654322"), b);
    assert_memory_not_equal(a, b, sizeof a);
    df_keys_hash(keys, DF_STR("email"), DF_STR("+5511987654321"), b);
    assert_memory_not_equal(a, b, sizeof a);
    df_keys_hash(other, DF_STR("phone"), DF_STR("+5511987654321"), b);
    assert_memory_not_equal(a, b, sizeof a);
    df_keys_audit_mac(keys, DF_STR("phone"), a);
    df_keys_hash(keys, DF_STR("audit"), DF_STR("phone"), b);
    assert_memory_not_equal(a, b, sizeof a);
    df_keys_free(other);
}

/* The form of older releases: version 1, nonce, text and tag, under the master key itself. */
static void what_an_older_release_encrypted_opens_with_its_master_key(void **state)
{
    (void)state;
    unsigned char old[1 + 24 + 6 + 16] = {1, 7, 7, 7};
    unsigned long long len;
    struct df_str plain, row = ROW;

    (void)crypto_aead_xchacha20poly1305_ietf_encrypt(
        old + 25, &len, (const unsigned char *)"secret", 6, (const unsigned char *)row.ptr, row.len,
        NULL, old + 1, two);
    df_buf_add(&sealed, old, sizeof old);
    assert_int_equal(df_sealed_key(df_buf_str(&sealed)), 0);
    assert_int_equal(open_as(keys, DF_KEY_SECRET, ROW, &plain), DF_E_CONFIG);
    df_keys_add_former(keys, df_str_n((const char *)one, sizeof one));
    assert_int_equal(open_as(keys, DF_KEY_SECRET, ROW, &plain), DF_E_CONFIG);
    df_keys_add_former(keys, df_str_n((const char *)two, sizeof two));
    assert_int_equal(open_as(keys, DF_KEY_SECRET, ROW, &plain), DF_OK);
    assert_true(df_str_eq(plain, DF_STR("secret")));
    assert_int_equal(open_as(keys, DF_KEY_SECRET, DF_STR("elsewhere"), &plain), DF_E_CONFIG);
    assert_int_equal(open_as(keys, DF_KEY_PAYLOAD, ROW, &plain), DF_E_INTERNAL);
}

static void count_unknown(void *arg)
{
    (*(int *)arg)++;
}

static void a_key_that_is_not_there_is_told_of(void **state)
{
    (void)state;
    struct df_str plain;
    unsigned char key[DF_KEY_BYTES];
    int unknown = 0;

    df_keys_on_unknown(keys, count_unknown, &unknown);
    df_keys_add(keys, 9, two);
    assert_true(df_keys_has(keys, 9));
    assert_false(df_keys_has(keys, 10));
    df_keys_use(keys, 9);
    df_keys_seal(keys, DF_KEY_PAYLOAD, ROW, DF_STR("x"), &sealed);
    assert_int_equal(open_as(keys, DF_KEY_PAYLOAD, ROW, &plain), DF_OK);
    assert_int_equal(unknown, 0);
    sealed.ptr[4] = 10; /* the id's last byte */
    assert_int_equal(open_as(keys, DF_KEY_PAYLOAD, ROW, &plain), DF_E_CONFIG);
    assert_false(df_keys_derive(keys, 11, DF_KEY_FILE, key));
    assert_int_equal(unknown, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_was_closed_opens, setup, teardown),
        cmocka_unit_test_setup_teardown(a_closed_value_opens_at_its_place_only, setup, teardown),
        cmocka_unit_test_setup_teardown(an_older_key_opens_what_it_closed, setup, teardown),
        cmocka_unit_test_setup_teardown(hashes_depend_on_key_domain_and_value, setup, teardown),
        cmocka_unit_test_setup_teardown(what_an_older_release_encrypted_opens_with_its_master_key,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(a_key_that_is_not_there_is_told_of, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

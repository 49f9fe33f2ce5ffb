#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "scratch.h"
#include "tabular/seen.h"

/* Any sequence of keys that repeats and looks random. */
static struct df_hash128 key_of(uint64_t i)
{
    uint64_t x = (i + 1) * 0x9E3779B97F4A7C15U;

    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
    return (struct df_hash128){x ^ (x >> 31), i};
}

static void expect(struct df_seen *s, struct df_hash128 key, bool want)
{
    struct df_err err = DF_ERR_INIT;
    bool seen = !want;
    if (df_seen_add(s, key, &seen, &err) != DF_OK)
        fail_msg("%s", err.detail);
    if (seen != want)
        fail_msg("key %llx: seen %d", (unsigned long long)key.low, seen);
}

/* Each key is new once, and known at any time after that. */
static void add_and_ask(struct df_seen *s, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        expect(s, key_of(i), false);
        expect(s, key_of(i * 7919 % (i + 1)), true);
    }
    for (uint64_t i = 0; i < count; i += 1 + count / 50000)
        expect(s, key_of(i), true);
    expect(s, key_of(count), false);
}

static void test_in_memory(void **state)
{
    struct df_seen *s = df_seen_new("/nonexistent", 0);
    (void)state;

    add_and_ask(s, 700000);
    df_seen_free(s);
}

/* From the first keys on in the file, which grows many times. */
static void test_in_the_file(void **state)
{
    struct df_seen *s = df_seen_new(scratch_dir(), 1);
    (void)state;

    add_and_ask(s, 60000);
    df_seen_free(s);
}

static void test_from_memory_to_the_file(void **state)
{
    struct df_seen *s = df_seen_new(scratch_dir(), 0);
    (void)state;

    for (uint64_t i = 0; i < 1000000; i++)
        expect(s, key_of(i), false);
    for (uint64_t i = 0; i < 1000000; i += 17)
        expect(s, key_of(i), true);
    df_seen_free(s);
}

/* Keys that all want the last slots go on at the first ones. */
static void test_keys_in_one_place(void **state)
{
    static const size_t memory[] = {0, 1};
    (void)state;

    for (size_t m = 0; m < 2; m++) {
        struct df_seen *s = df_seen_new(scratch_dir(), memory[m]);
        for (uint64_t i = 0; i < 1500; i++)
            expect(s, (struct df_hash128){UINT64_MAX, i}, false);
        for (uint64_t i = 0; i < 1500; i++)
            expect(s, (struct df_hash128){UINT64_MAX, i}, true);
        expect(s, (struct df_hash128){0, 0}, false);
        expect(s, (struct df_hash128){0, 0}, true);
        df_seen_free(s);
    }
}

static void test_a_directory_that_is_not_there(void **state)
{
    struct df_seen *s = df_seen_new("/nonexistent", 1);
    struct df_err err = DF_ERR_INIT;
    enum df_code rc = DF_OK;
    bool seen;
    (void)state;

    for (uint64_t i = 0; rc == DF_OK && i < 2000; i++)
        rc = df_seen_add(s, key_of(i), &seen, &err);
    assert_int_equal(rc, DF_E_IO);
    assert_non_null(strstr(err.detail, "/nonexistent"));
    df_seen_free(s);
}

/* Other processes of an installation must come to the same. The values are those of the reference
 * implementation of SipHash with 128 bits, one round a word and three at the end, the key zero. */
static void test_the_hash_does_not_change(void **state)
{
    struct df_hash128 few = df_hash128(DF_STR("abc"));
    struct df_hash128 more = df_hash128(DF_STR("abcdefghijklmnopqrstuvwxyz"));
    (void)state;

    assert_true(few.high == 0x64B4EEB45BB5BA18U && few.low == 0xF62F6F431C20D2CDU);
    assert_true(more.high == 0x4F33F2407BCBBBC4U && more.low == 0xB0726AA75B198582U);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_in_memory),
        cmocka_unit_test(test_in_the_file),
        cmocka_unit_test(test_from_memory_to_the_file),
        cmocka_unit_test(test_keys_in_one_place),
        cmocka_unit_test(test_a_directory_that_is_not_there),
        cmocka_unit_test(test_the_hash_does_not_change),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "keys_from.h"
#include "retention/erase.h"

#include <stdio.h>

#define TARGET "phone:000102030405060708090a0b0c0d0eff"

static const unsigned char one[DF_KEY_BYTES] = {1}, two[DF_KEY_BYTES] = {2};
static const struct ledger_entry entry = {
    .id = {"0190b5c2-1111-7000-8000-000000000001"}, .target = TARGET, .erased_ms = 1790000000123};

static struct df_keys *keys;
static char line[LEDGER_LINE_MAX];
static size_t len; /* without the newline */

static int setup(void **state)
{
    (void)state;
    keys = df_keys_from(df_clock_real(), one);
    len = ledger_line_write(keys, &entry, line) - 1;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    df_keys_free(keys);
    return 0;
}

static void what_was_written_is_read(void **state)
{
    struct ledger_entry e = {.in_table = false};

    (void)state;
    assert_int_equal(line[len], '\n');
    assert_true(ledger_line_read(keys, df_str_n(line, len), &e));
    assert_string_equal(e.id.text, entry.id.text);
    assert_string_equal(e.target, TARGET);
    assert_int_equal(e.erased_ms, entry.erased_ms);
}

static void no_bit_of_a_line_can_be_changed(void **state)
{
    struct ledger_entry e;

    (void)state;
    for (size_t i = 0; i < len; i++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            char changed[LEDGER_LINE_MAX];
            memcpy(changed, line, len);
            changed[i] = (char)(changed[i] ^ 1 << bit);
            assert_false(ledger_line_read(keys, df_str_n(changed, len), &e));
        }
    }
}

static void a_part_of_a_line_is_none(void **state)
{
    struct ledger_entry e;
    char more[LEDGER_LINE_MAX];

    (void)state;
    for (size_t i = 0; i < len; i++) {
        assert_false(ledger_line_read(keys, df_str_n(line, i), &e));
        assert_false(ledger_line_read(keys, df_str_n(line + i + 1, len - i - 1), &e));
    }
    (void)snprintf(more, sizeof more, "%.*s ", (int)len, line);
    assert_false(ledger_line_read(keys, df_str_n(more, len + 1), &e));
}

static void a_line_of_another_key_is_none(void **state)
{
    struct df_keys *other = df_keys_from(df_clock_real(), two);
    struct ledger_entry e;

    (void)state;
    assert_false(ledger_line_read(other, df_str_n(line, len), &e));
    df_keys_free(other);
}

static void a_target_is_kind_and_hash(void **state)
{
    static const char *const bad[] = {
        "",
        "phone",
        "phone:",
        ":000102030405060708090a0b0c0d0eff",
        "fax:000102030405060708090a0b0c0d0eff",
        "phone:000102030405060708090a0b0c0d0ef",
        "phone:000102030405060708090a0b0c0d0eff0",
        "phone:000102030405060708090a0b0c0d0efg",
        "phone:000102030405060708090a0b0c0d0e:f",
    };
    struct df_subject s;
    char again[101];

    (void)state;
    assert_true(erase_target_read(TARGET, &s));
    assert_int_equal(s.kind, DF_SUBJECT_PHONE);
    assert_int_equal(s.hash[15], 0xFF);
    erase_target_write(&s, again);
    assert_string_equal(again, TARGET);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(erase_target_read(bad[i], &s));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_was_written_is_read, setup, teardown),
        cmocka_unit_test_setup_teardown(no_bit_of_a_line_can_be_changed, setup, teardown),
        cmocka_unit_test_setup_teardown(a_part_of_a_line_is_none, setup, teardown),
        cmocka_unit_test_setup_teardown(a_line_of_another_key_is_none, setup, teardown),
        cmocka_unit_test(a_target_is_kind_and_hash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

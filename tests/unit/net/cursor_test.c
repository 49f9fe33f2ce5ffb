/* Cursors: what is written is read, and nothing else is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "net/cursor.h"

#include <string.h>

static void what_is_written_is_read(void **state)
{
    static const int64_t numbers[] = {0, 1, 5, INT64_MAX, INT64_MIN, -7};
    char text[DF_CURSOR_TEXT_MAX + 1];
    struct df_cursor got;

    (void)state;
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        struct df_cursor c = {.oldest_first = i % 2, .at_ms = 253402300799999, .id = numbers[i]};
        df_cursor_write(&c, "outbox/functional-ack", text);
        assert_true(df_cursor_parse(df_str_c(text), "outbox/functional-ack", false, &got));
        assert_true(got.id == c.id && got.at_ms == c.at_ms && got.oldest_first == c.oldest_first);
        assert_false(df_cursor_parse(df_str_c(text), "outbox/ticket-return", false, &got));
        assert_false(df_cursor_parse(df_str_c(text), "outbox/functional-ack", true, &got));
        text[3] ^= 1;
        assert_false(df_cursor_parse(df_str_c(text), "outbox/functional-ack", false, &got));
    }
    struct df_cursor u = {.by_uuid = true};
    assert_true(df_uuid_parse(DF_STR("0190f1e6-6f0a-7c3e-9d53-4b2f6c1d8e70"), &u.uuid));
    df_cursor_write(&u, "abcdefghijklmnopqrstuvwxyzabcdefghijklmn", text); /* the longest name */
    assert_true(
        df_cursor_parse(df_str_c(text), "abcdefghijklmnopqrstuvwxyzabcdefghijklmn", true, &got));
    assert_string_equal(got.uuid.text, u.uuid.text);
}

static void what_is_none_is_refused(void **state)
{
    /* "l:n:5:1" and others, as base64url. */
    static const char *const bad[] = {"",
                                      "x",
                                      "!!!!",
                                      "bDpuOjU6MQ==",
                                      "bDpuOjU6MQ=",
                                      " bDpuOjU6MQ",
                                      "bDpuOjU6MR",
                                      "bDp4OjU6MQ",
                                      "bDpuOi01OjE",
                                      "bDpuOjA1OjE",
                                      "bDpuOjU6MDE",
                                      "bDpuOjU",
                                      "bDpuOjU6MTox"};
    struct df_cursor got;
    char longer[DF_CURSOR_TEXT_MAX + 2];

    (void)state;
    assert_true(df_cursor_parse(DF_STR("bDpuOjU6MQ"), "l", false, &got));
    assert_true(got.at_ms == 5 && got.id == 1 && !got.oldest_first);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (df_cursor_parse(df_str_c(bad[i]), "l", false, &got))
            fail_msg("%s was taken", bad[i]);
    memset(longer, 'A', sizeof longer);
    assert_false(df_cursor_parse(df_str_n(longer, sizeof longer), "l", false, &got));
    assert_false(df_cursor_parse(DF_STR_NULL, "l", false, &got));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(what_is_none_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

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
    static const char *const times[] = {"9999-12-31T23:59:59.999Z",
                                        "2026-11-19T04:05:06.1234567Z",
                                        "2026-11-19 04:05:06",
                                        "2026-11-19 04:05:06.123456+14:30",
                                        "2026-11-19",
                                        "1970-01-01T00:00:00Z"};
    char text[DF_CURSOR_TEXT_MAX + 1];
    struct df_cursor got;

    (void)state;
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        struct df_cursor c = {.oldest_first = i % 2, .id = numbers[i]};
        assert_true(df_cursor_set_at(&c, df_str_c(times[i])));
        df_cursor_write(&c, "outbox/functional-ack", text);
        assert_true(df_cursor_parse(df_str_c(text), "outbox/functional-ack", false, &got));
        assert_true(got.id == c.id && strcmp(got.at, times[i]) == 0 &&
                    got.oldest_first == c.oldest_first);
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
    /* As base64url; what is inside stands behind. */
    static const char *const bad[] = {
        "",
        "x",
        "!!!!",
        "bDpuOjE6MTk3MC0wMS0wMQ==",
        "bDpuOjE6MTk3MC0wMS0wMQ=",
        " bDpuOjE6MTk3MC0wMS0wMQ",
        "bDpuOjE6MTk3MC0wMS0wMR",
        "bDp4OjE6MTk3MC0wMS0wMQ",     /* l:x:1:1970-01-01 */
        "bDpuOi01eDoxOTcwLTAxLTAx",   /* l:n:-5x:1970-01-01 */
        "bDpuOjAxOjE5NzAtMDEtMDE",    /* l:n:01:1970-01-01 */
        "bDpuOjE6MTk3MC0wMS0wMXg",    /* l:n:1:1970-01-01x */
        "bDpuOjE",                    /* l:n:1 */
        "bDpuOjE6NQ",                 /* l:n:1:5 */
        "bDpuOjE6MTk2OS0xMi0zMQ",     /* l:n:1:1969-12-31 */
        "bDpuOjE6MjAyNi0xMy0wMQ",     /* l:n:1:2026-13-01 */
        "bDpuOjE6MjAyNi0xMS0xOSctLQ", /* l:n:1:2026-11-19'-- */
        /* l:n:1:2026-11-19T04:05:06.123456789012345678Z */
        "bDpuOjE6MjAyNi0xMS0xOVQwNDowNTowNi4xMjM0NTY3ODkwMTIzNDU2Nzha",
    };
    struct df_cursor got;
    char longer[DF_CURSOR_TEXT_MAX + 2];

    (void)state;
    assert_true(df_cursor_parse(DF_STR("bDpuOjE6MTk3MC0wMS0wMQ"), "l", false, &got));
    assert_true(strcmp(got.at, "1970-01-01") == 0 && got.id == 1 && !got.oldest_first);
    assert_true(df_cursor_parse(DF_STR("bDpuOjE6"), "l", false, &got)); /* a list without times */
    assert_true(got.at[0] == '\0');
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

/* str.h and err.h */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/str.h"

#include <errno.h>
#include <stdlib.h>

#define LEN(a) (sizeof(a) / sizeof((a)[0]))

static void case_is_folded_for_ascii_only(void **state)
{
    (void)state;
    assert_true(df_str_ieq(DF_STR("Content-TYPE"), DF_STR("content-type")));
    assert_true(df_str_ieq(DF_STR_NULL, DF_STR("")));
    assert_false(df_str_ieq(DF_STR("ab"), DF_STR("abc")));
    /* One bit apart, as letters are, but not letters. */
    assert_false(df_str_ieq(DF_STR("@["), DF_STR("`{")));
    assert_false(df_str_ieq(DF_STR("\xC3\x89"), DF_STR("\xC3\xA9")));
}

static void prefixes_and_suffixes(void **state)
{
    (void)state;
    assert_true(df_str_starts(DF_STR("abc"), DF_STR("ab")));
    assert_true(df_str_starts(DF_STR_NULL, DF_STR("")));
    assert_false(df_str_starts(DF_STR("ab"), DF_STR("abc")));
    assert_true(df_str_ends(DF_STR("abc"), DF_STR("bc")));
    assert_false(df_str_ends(DF_STR("c"), DF_STR("bc")));
}

static void trim_takes_blanks_off_both_ends(void **state)
{
    static const struct {
        struct df_str in, out;
    } cases[] = {
        {{"", 0}, {"", 0}},   {{" \t\r\n", 4}, {"", 0}},    {{"  a b \n", 7}, {"a b", 3}},
        {{"a", 1}, {"a", 1}}, {{"\va\v", 3}, {"\va\v", 3}},
    };
    (void)state;
    for (size_t i = 0; i < LEN(cases); i++)
        assert_true(df_str_eq(df_str_trim(cases[i].in), cases[i].out));
    assert_null(df_str_trim(DF_STR_NULL).ptr);
}

static void cut_tells_nothing_left_from_an_empty_rest(void **state)
{
    struct df_str head;
    (void)state;

    struct df_str rest = df_str_cut(DF_STR("a,b,c"), ',', &head);
    assert_true(df_str_eq(head, DF_STR("a")));
    assert_true(df_str_eq(rest, DF_STR("b,c")));
    rest = df_str_cut(DF_STR("a,"), ',', &head);
    assert_non_null(rest.ptr);
    assert_int_equal(rest.len, 0);
    rest = df_str_cut(DF_STR("a"), ',', &head);
    assert_true(df_str_eq(head, DF_STR("a")));
    assert_null(rest.ptr);
    rest = df_str_cut(DF_STR_NULL, ',', &head);
    assert_null(head.ptr);
    assert_null(rest.ptr);
}

static void numbers_are_read_to_their_limits(void **state)
{
    static const struct {
        const char *text;
        int64_t value;
    } good[] = {
        {"0", 0},
        {"-0", 0},
        {"007", 7},
        {"-12", -12},
        {"9223372036854775807", INT64_MAX},
        {"-9223372036854775808", INT64_MIN},
    };
    static const char *const bad[] = {"",
                                      "-",
                                      "+1",
                                      " 1",
                                      "1 ",
                                      "1.0",
                                      "0x1",
                                      "1e3",
                                      "--1",
                                      "9223372036854775808",
                                      "-9223372036854775809",
                                      "99999999999999999999999"};
    int64_t v = 42;
    (void)state;

    for (size_t i = 0; i < LEN(good); i++) {
        assert_true(df_str_to_i64(df_str_c(good[i].text), &v));
        assert_int_equal(v, good[i].value);
    }
    v = 42;
    for (size_t i = 0; i < LEN(bad); i++)
        assert_false(df_str_to_i64(df_str_c(bad[i]), &v));
    assert_false(df_str_to_i64(DF_STR_NULL, &v));
    assert_int_equal(v, 42);
}

static void booleans_have_eight_spellings(void **state)
{
    static const char *const yes[] = {"true", "ON", "Yes", "1"};
    static const char *const no[] = {"false", "off", "NO", "0"};
    static const char *const bad[] = {"", "2", "tru", "yess", "enabled", "-1"};
    bool v;
    (void)state;

    for (size_t i = 0; i < LEN(yes); i++)
        assert_true(df_str_to_bool(df_str_c(yes[i]), &v) && v);
    for (size_t i = 0; i < LEN(no); i++)
        assert_true(df_str_to_bool(df_str_c(no[i]), &v) && !v);
    for (size_t i = 0; i < LEN(bad); i++)
        assert_false(df_str_to_bool(df_str_c(bad[i]), &v));
}

static void utf8_is_checked_strictly(void **state)
{
    static const struct {
        struct df_str text;
        size_t valid;
    } cases[] = {
        {DF_STR_INIT(""), 0},
        {DF_STR_INIT("plain ASCII, longer than a word of eight bytes"), 46},
        {DF_STR_INIT("ol\xC3\xA1 \xE2\x82\xAC \xF0\x9F\x98\x80"), 13},
        {DF_STR_INIT("\xC2\x80\xDF\xBF\xE0\xA0\x80\xEF\xBF\xBF\xF0\x90\x80\x80\xF4\x8F\xBF\xBF"),
         18},
        {DF_STR_INIT("\xED\x9F\xBF\xEE\x80\x80"), 6},
        {DF_STR_INIT("12345678\x80"), 8},       /* a tail without a head, past the fast way */
        {DF_STR_INIT("ab\xC0\x80"), 2},         /* overlong NUL */
        {DF_STR_INIT("ab\xC1\xBF"), 2},         /* overlong */
        {DF_STR_INIT("ab\xE0\x9F\xBF"), 2},     /* overlong */
        {DF_STR_INIT("ab\xF0\x8F\xBF\xBF"), 2}, /* overlong */
        {DF_STR_INIT("ab\xED\xA0\x80"), 2},     /* surrogate */
        {DF_STR_INIT("ab\xED\xBF\xBF"), 2},     /* surrogate */
        {DF_STR_INIT("ab\xF4\x90\x80\x80"), 2}, /* past U+10FFFF */
        {DF_STR_INIT("ab\xF5\x80\x80\x80"), 2}, /* never a head */
        {DF_STR_INIT("ab\xFE"), 2},             /* never at all */
        {DF_STR_INIT("ab\xC3"), 2},             /* cut short */
        {DF_STR_INIT("ab\xE2\x82"), 2},         /* cut short */
        {DF_STR_INIT("ab\xF0\x9F\x98"), 2},     /* cut short */
        {DF_STR_INIT("ab\xE2\x28\xA1"), 2},     /* a wrong second byte */
        {DF_STR_INIT("ab\xE2\x82\x28"), 2},     /* a wrong third byte */
        {DF_STR_INIT("ab\xF0\x9F\x98\x28"), 2}, /* a wrong fourth byte */
        {DF_STR_INIT("1234567\xC3\xA9xxxxxxxx\xFF"), 17},
    };
    (void)state;
    for (size_t i = 0; i < LEN(cases); i++) {
        /* A copy without a NUL behind it, so that sanitizers see a byte too many. */
        char *copy = malloc(cases[i].text.len + !cases[i].text.len);
        assert_non_null(copy);
        memcpy(copy, cases[i].text.ptr, cases[i].text.len);
        assert_int_equal(df_utf8_valid_prefix(df_str_n(copy, cases[i].text.len)), cases[i].valid);
        free(copy);
    }
    assert_int_equal(df_utf8_valid_prefix(DF_STR_NULL), 0);
}

/* All code points, at every distance from a word's boundary. */
static void utf8_knows_every_code_point(void **state)
{
    (void)state;
    for (uint32_t c = 0; c <= 0x110000; c++) {
        char text[16] = "xxxxxxxx";
        size_t at = c % 9;
        size_t n;
        if (c < 0x80) {
            n = 1;
            text[at] = (char)c;
        } else {
            n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
            uint32_t rest = c;
            for (size_t i = n - 1; i > 0; i--, rest >>= 6)
                text[at + i] = (char)(0x80 | (rest & 0x3F));
            text[at] = (char)((0xF0 << (4 - n)) | rest);
        }
        bool valid = c <= 0x10FFFF && (c < 0xD800 || c > 0xDFFF);
        assert_int_equal(df_utf8_valid_prefix(df_str_n(text, at + n)), valid ? at + n : at);
    }
}

static void characters_are_counted_and_cut_whole(void **state)
{
    const struct df_str s = DF_STR("a\xC3\xA1\xE2\x82\xAC\xF0\x9F\x98\x80z");
    static const size_t bytes[] = {0, 1, 3, 6, 6, 10, 11, 11}; /* the emoji counts two */
    (void)state;

    assert_int_equal(df_utf8_count(s), 6);
    for (size_t i = 0; i < LEN(bytes); i++)
        assert_int_equal(df_utf8_cut(s, i).len, bytes[i]);
    assert_null(df_utf8_cut(DF_STR_NULL, 3).ptr);
}

static void every_error_has_a_row_of_its_own(void **state)
{
    (void)state;
    for (int a = 0; a < DF_CODE_COUNT; a++) {
        const char *name = df_code_name((enum df_code)a);
        assert_true(name[0] >= 'A' && name[0] <= 'Z');
        assert_true(strlen(df_code_title((enum df_code)a)) > 0);
        assert_in_range(df_code_http((enum df_code)a), 200, 599);
        for (int b = 0; b < a; b++)
            assert_string_not_equal(name, df_code_name((enum df_code)b));
    }
    assert_string_equal(df_code_name(DF_E_TOO_LARGE), "PayloadTooLarge");
    assert_int_equal(df_code_http(DF_E_TOO_LARGE), 413);
    assert_int_equal(df_code_retry(DF_E_TOO_LARGE), DF_RETRY_NEVER);
    assert_int_equal(df_code_retry(DF_E_DB_CONFLICT), DF_RETRY_NOW);
    assert_int_equal(df_code_retry(DF_E_NET_TIMEOUT), DF_RETRY_LATER);
    assert_string_equal(df_code_name((enum df_code)9999), "InternalError");
}

/* Every error of the database, the disk and the network, and every 500, has words for outsiders. */
static void what_outsiders_are_told_stands_in_the_table(void **state)
{
    (void)state;
    static const char *const inside[] = {"Database",   "DiskFull",  "Schema",   "NameNot",
                                         "Connection", "TlsFailed", "Upstream", "Network",
                                         "KeyExists",  "Constraint"};
    static const char *const never[] = {"/", "sqlite", "postgres", "%", "\n"};
    struct df_err err = DF_ERR_INIT;

    for (int code = 0; code < DF_CODE_COUNT; code++) {
        const char *words = df_code_outside((enum df_code)code);
        bool is_inside = df_code_http((enum df_code)code) == 500;
        for (size_t i = 0; i < LEN(inside); i++)
            is_inside = is_inside || strstr(df_code_name((enum df_code)code), inside[i]) ==
                                         df_code_name((enum df_code)code);
        if (is_inside != (words != NULL))
            fail_msg("%s: %s", df_code_name((enum df_code)code), words ? words : "none");
        for (size_t i = 0; words && i < LEN(never); i++)
            assert_null(strstr(words, never[i]));
    }
    (void)df_err_set(&err, DF_E_DB_UNAVAILABLE, "cannot open /var/lib/x.db on db.internal:5432");
    assert_string_equal(df_err_outside(&err), "The database is not available for now.");
    (void)df_err_set(&err, DF_E_NOT_FOUND, "There is no client \"a/b\".");
    assert_string_equal(df_err_outside(&err), err.detail);
}

static void no_room_is_told_from_other_errors_of_the_system(void **state)
{
    (void)state;
    static const struct {
        int number;
        enum df_code code;
    } cases[] = {
        {ENOSPC, DF_E_DISK_FULL}, {EDQUOT, DF_E_DISK_FULL}, {EIO, DF_E_IO}, {EACCES, DF_E_IO}};
    for (size_t i = 0; i < LEN(cases); i++) {
        struct df_err err = DF_ERR_INIT;
        errno = cases[i].number;
        assert_int_equal(df_err_errno(&err, "writing"), cases[i].code);
    }
    assert_int_equal(df_code_http(DF_E_DISK_FULL), 503);
    assert_int_equal(df_code_retry(DF_E_DISK_FULL), DF_RETRY_LATER);
}

static void an_error_keeps_its_words_on_one_line(void **state)
{
    struct df_err err = DF_ERR_INIT;
    (void)state;

    assert_int_equal(df_err_set(&err, DF_E_NOT_FOUND, "no %s\nhere\n", "ticket"), DF_E_NOT_FOUND);
    assert_int_equal(err.code, DF_E_NOT_FOUND);
    assert_int_equal(err.offset, -1);
    assert_string_equal(err.detail, "no ticket here");
    assert_int_equal(df_err_at(&err, DF_E_MALFORMED_JSON, 17, "bad \xFF byte"),
                     DF_E_MALFORMED_JSON);
    assert_int_equal(err.offset, 17);
    assert_string_equal(err.detail, "bad ? byte");
    assert_int_equal(df_err_set(&err, DF_E_DB, "after: %s", err.detail), DF_E_DB);
    assert_string_equal(err.detail, "after: bad ? byte");
    assert_int_equal(df_err_set(NULL, DF_E_BUSY, "x"), DF_E_BUSY);
    assert_int_equal(df_err_at(NULL, DF_E_BUSY, 1, "x"), DF_E_BUSY);
}

static void a_long_error_is_cut_between_characters(void **state)
{
    struct df_err err;
    char text[2001];
    (void)state;

    for (size_t shift = 0; shift < 3; shift++) {
        memset(text, 'x', shift);
        for (size_t i = shift; i < sizeof(text) - 3; i += 3)
            memcpy(text + i, "\xE2\x82\xAC", 4);
        (void)df_err_set(&err, DF_E_IO, "%s", text);
        struct df_str detail = df_str_c(err.detail);
        assert_int_equal(df_utf8_valid_prefix(detail), detail.len);
        assert_in_range(detail.len, sizeof(err.detail) - 4, sizeof(err.detail) - 1);
        assert_null(strchr(err.detail, '?'));
    }
}

static void errno_is_told_even_after_a_long_path(void **state)
{
    struct df_err err;
    char path[1000];
    (void)state;

    errno = ENOENT;
    assert_int_equal(df_err_errno(&err, "open %s", "a.db"), DF_E_IO);
    assert_string_equal(err.detail, "open a.db: No such file or directory");
    memset(path, 'p', sizeof(path) - 1);
    path[sizeof(path) - 1] = '\0';
    errno = EACCES;
    (void)df_err_errno(&err, "%s", path);
    assert_true(df_str_ends(df_str_c(err.detail), DF_STR("p: Permission denied")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(case_is_folded_for_ascii_only),
        cmocka_unit_test(prefixes_and_suffixes),
        cmocka_unit_test(trim_takes_blanks_off_both_ends),
        cmocka_unit_test(cut_tells_nothing_left_from_an_empty_rest),
        cmocka_unit_test(numbers_are_read_to_their_limits),
        cmocka_unit_test(booleans_have_eight_spellings),
        cmocka_unit_test(utf8_is_checked_strictly),
        cmocka_unit_test(utf8_knows_every_code_point),
        cmocka_unit_test(characters_are_counted_and_cut_whole),
        cmocka_unit_test(every_error_has_a_row_of_its_own),
        cmocka_unit_test(what_outsiders_are_told_stands_in_the_table),
        cmocka_unit_test(no_room_is_told_from_other_errors_of_the_system),
        cmocka_unit_test(an_error_keeps_its_words_on_one_line),
        cmocka_unit_test(a_long_error_is_cut_between_characters),
        cmocka_unit_test(errno_is_told_even_after_a_long_path),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

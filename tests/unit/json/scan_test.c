#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "json/lex.h"
#include "json/scan.h"

#include <stdio.h>
#include <stdlib.h>

/* What a reader of the code would write, to hold both fast ways against. */
static const char *plain_slowly(const char *p, const char *end)
{
    while (p < end && (unsigned char)*p >= 0x20 && (unsigned char)*p < 0x80 && *p != '"' &&
           *p != '\\')
        p++;
    return p;
}

static void both_ways_to_find_plain_text_agree(void **state)
{
    char text[70];

    (void)state;
    for (size_t len = 0; len <= sizeof(text); len++) {
        memset(text, 'a', sizeof(text));
        for (size_t at = 0; at < len; at++) {
            for (int c = 0; c < 256; c++) {
                text[at] = (char)c;
                const char *want = plain_slowly(text, text + len);
                if (df_json_plain_swar(text, text + len) != want)
                    fail_msg("byte 0x%02X at %zu of %zu", (unsigned)c, at, len);
#if defined(__SSE2__)
                if (df_json_plain_sse2(text, text + len) != want)
                    fail_msg("SSE2: byte 0x%02X at %zu of %zu", (unsigned)c, at, len);
#endif
            }
            text[at] = 'b';
        }
    }
}

/* Neighbours matter to arithmetic on words: any two bytes side by side. */
static void pairs_of_bytes_do_not_confuse_the_search(void **state)
{
    char text[32];

    (void)state;
    memset(text, '~', sizeof(text));
    for (int a = 0; a < 256; a++) {
        for (int b = 0; b < 256; b++) {
            text[9] = (char)a;
            text[10] = (char)b;
            const char *want = plain_slowly(text, text + sizeof(text));
            assert_ptr_equal(df_json_plain_swar(text, text + sizeof(text)), want);
            assert_ptr_equal(df_json_plain(text, text + sizeof(text)), want);
        }
    }
}

static void white_space_ends_at_the_first_other_byte(void **state)
{
    char text[40];

    (void)state;
    for (size_t len = 0; len <= sizeof(text); len++) {
        for (size_t at = 0; at <= len; at++) {
            for (size_t i = 0; i < len; i++)
                text[i] = i % 9 == 8 ? "\t\n\r"[i % 3] : ' ';
            if (at < len)
                text[at] = 'x';
            assert_ptr_equal(df_json_skip_space(text, text + len), text + at);
        }
    }
}

/* Every lead byte, every second byte, and ends of the range for the rest. */
static void utf8_is_what_the_base_library_says_it_is(void **state)
{
    static const unsigned char tails[] = {0x00, 0x7F, 0x80, 0x9F, 0xA0, 0xBF, 0xC0, 0xFF};

    (void)state;
    for (int a = 0x80; a < 256; a++) {
        for (int b = 0; b < 256; b++) {
            for (size_t c = 0; c < sizeof(tails) * sizeof(tails); c++) {
                char s[4] = {(char)a, (char)b, (char)tails[c / sizeof(tails)],
                             (char)tails[c % sizeof(tails)]};
                int len = df_json_utf8(s, s + 4);
                size_t want = 0;
                for (size_t n = 2; n <= 4 && want == 0; n++)
                    want = df_utf8_valid_prefix(df_str_n(s, n)) == n ? n : 0;
                assert_int_equal(len, want ? (int)want : DF_JSON_UTF8_BAD);
                /* A part of it is either cut or already wrong. */
                for (int n = 1; n < len; n++)
                    assert_int_equal(df_json_utf8(s, s + n), DF_JSON_UTF8_CUT);
            }
        }
    }
}

static const struct {
    const char *text;
    const char *detail;
} messages[] = {
    {"{\"a\": 1, \"b\": 2 x}", "expected ',' or '}' at byte 16, found 'x'"},
    {"[1 2]", "expected ',' or ']' at byte 3, found '2'"},
    {"[1,]", "expected a value at byte 3, found ']'"},
    {"[}", "expected a value or ']' at byte 1, found '}'"},
    {"{x", "expected a name in quotes or '}' at byte 1, found 'x'"},
    {"{\"a\":1,}", "expected a name in quotes at byte 7, found '}'"},
    {"{\"a\" 1}", "expected ':' at byte 5, found '1'"},
    {"{}\n{}", "expected nothing more after the document at byte 3, found '{'"},
    {"[-x]", "expected a digit at byte 2, found 'x'"},
    {"[\"\\u12g4\"]", "expected a hexadecimal digit at byte 6, found 'g'"},
    {"[\"\\q\"]", "expected one of \"\\/bfnrtu after '\\' at byte 3, found 'q'"},
    {"[trUe]", "expected true at byte 3, found 'U'"},
    {"[fAlse]", "expected false at byte 2, found 'A'"},
    {"[nil]", "expected null at byte 2, found 'i'"},
    {"\xEF\xBB\xBF[]", "expected a value at byte 0, found byte 0xEF"},
    {"[1\x7F]", "expected ',' or ']' at byte 2, found byte 0x7F"},
    {"[\"a", "the document ends too early, at byte 3"},
    {"", "the document ends too early, at byte 0"},
    {"[\"\n\"]", "control character 0x0A in a string at byte 2 must be escaped"},
    {"[\"\xFF\"]", "invalid UTF-8 at byte 2"},
    {"[\"\\udc00\"]", "lone surrogate in an escape at byte 2"},
    {"[\"\\u0000\"]", "NUL character in a string at byte 2"},
    {"{\"a\":1,\"a\":2}", "the name at byte 7 stands twice in the same object"},
    {"[[[[]]]]", "nested deeper than 3 levels at byte 3"},
};

static void messages_say_what_was_expected_and_found(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(messages) / sizeof(messages[0]); i++) {
        struct df_err err = DF_ERR_INIT;
        assert_int_not_equal(df_json_check(df_str_c(messages[i].text),
                                           DF_JSON_UNIQUE_KEYS | DF_JSON_NO_NUL, 3, &err),
                             DF_OK);
        assert_string_equal(err.detail, messages[i].detail);
    }
}

static void an_absent_input_is_an_empty_one(void **state)
{
    struct df_err err = DF_ERR_INIT;

    (void)state;
    assert_int_equal(df_json_check(DF_STR_NULL, 0, 64, &err), DF_E_MALFORMED_JSON);
    assert_int_equal(err.offset, 0);
}

static void tokens_come_in_order_with_their_text(void **state)
{
    static const struct {
        enum df_json_token token;
        const char *text;
        const char *raw;
    } want[] = {
        {DF_TOK_OBJECT, NULL, "{"},       {DF_TOK_KEY, "a", "\"a\""},
        {DF_TOK_ARRAY, NULL, "["},        {DF_TOK_NUMBER, "-1.5e3", "-1.5e3"},
        {DF_TOK_TRUE, NULL, "true"},      {DF_TOK_FALSE, NULL, "false"},
        {DF_TOK_NULL, NULL, "null"},      {DF_TOK_ARRAY_END, NULL, "]"},
        {DF_TOK_KEY, "b\\n", "\"b\\n\""}, {DF_TOK_STRING, "c\\u0041", "\"c\\u0041\""},
        {DF_TOK_OBJECT_END, NULL, "}"},
    };
    struct df_json_scan s;

    (void)state;
    df_json_scan_init(&s, 0, 64);
    df_json_scan_window(&s, DF_STR(" {\"a\": [-1.5e3, true ,false,null] , \"b\\n\":\"c\\u0041\"} "),
                        0, true);
    for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
        assert_int_equal(df_json_scan_next(&s), want[i].token);
        assert_true(df_str_eq(df_str_n(s.start, (size_t)(s.p - s.start)), df_str_c(want[i].raw)));
        if (want[i].text)
            assert_true(df_str_eq(s.text, df_str_c(want[i].text)));
    }
    assert_int_equal(df_json_scan_next(&s), DF_TOK_END);
    assert_int_equal(df_json_scan_next(&s), DF_TOK_END);
    df_json_scan_release(&s);
}

static void skipping_checks_what_it_passes_over(void **state)
{
    struct df_json_scan s;

    (void)state;
    df_json_scan_init(&s, 0, 64);
    df_json_scan_window(&s, DF_STR("[{\"a\":[[],{}]},7,[}]"), 0, true);
    assert_int_equal(df_json_scan_next(&s), DF_TOK_ARRAY);
    assert_int_equal(df_json_scan_next(&s), DF_TOK_OBJECT);
    assert_int_equal(df_json_scan_skip(&s, 1), DF_TOK_OBJECT_END);
    assert_int_equal(df_json_scan_next(&s), DF_TOK_NUMBER);
    assert_int_equal(df_json_scan_next(&s), DF_TOK_ARRAY);
    assert_int_equal(df_json_scan_skip(&s, 1), DF_TOK_ERROR);
    df_json_scan_release(&s);
}

static void going_back_gives_the_same_tokens_again(void **state)
{
    struct df_str in = DF_STR("[{\"a\":1,\"b\":2},3]");
    struct df_json_scan s;

    (void)state;
    df_json_scan_init(&s, DF_JSON_UNIQUE_KEYS, 64);
    df_json_scan_window(&s, in, 0, true);
    assert_int_equal(df_json_scan_next(&s), DF_TOK_ARRAY);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(df_json_scan_next(&s), DF_TOK_OBJECT);
        const char *start = s.start;
        assert_int_equal(df_json_scan_next(&s), DF_TOK_KEY);
        assert_int_equal(df_json_scan_next(&s), DF_TOK_NUMBER);
        assert_int_equal(df_json_scan_next(&s), DF_TOK_KEY);
        df_json_scan_back(&s, start, 1);
    }
    assert_int_equal(df_json_scan_next(&s), DF_TOK_OBJECT);
    assert_int_equal(df_json_scan_skip(&s, 1), DF_TOK_OBJECT_END);
    assert_int_equal(df_json_scan_next(&s), DF_TOK_NUMBER);
    assert_int_equal(df_json_scan_next(&s), DF_TOK_ARRAY_END);
    assert_int_equal(df_json_scan_next(&s), DF_TOK_END);
    df_json_scan_release(&s);
}

static void a_scanner_serves_one_document_after_another(void **state)
{
    struct df_json_scan s;

    (void)state;
    df_json_scan_init(&s, DF_JSON_UNIQUE_KEYS, 64);
    for (int i = 0; i < 3; i++) {
        df_json_scan_reset(&s);
        df_json_scan_window(&s, DF_STR("{\"a\":[1"), 0, true);
        while (df_json_scan_next(&s) > DF_TOK_END)
            ;
        df_json_scan_reset(&s);
        df_json_scan_window(&s, DF_STR("{\"a\":1}"), 0, true);
        assert_int_equal(df_json_scan_next(&s), DF_TOK_OBJECT);
        assert_int_equal(df_json_scan_skip(&s, 0), DF_TOK_OBJECT_END);
        assert_int_equal(df_json_scan_next(&s), DF_TOK_END);
    }
    df_json_scan_release(&s);
}

static const struct {
    const char *escaped;
    struct df_str plain;
} escapes[] = {
    {"", {"", 0}},
    {"abc", {"abc", 3}},
    {"\\\"\\\\\\/\\b\\f\\n\\r\\t", {"\"\\/\b\f\n\r\t", 8}},
    {"\\u0041\\u00e9\\u20AC\\ud834\\uDD1E", {"A\xC3\xA9\xE2\x82\xAC\xF0\x9D\x84\x9E", 10}},
    {"a\\u0000b", {"a\0b", 3}},
    {"\\u007f\\u0080\\u07ff\\u0800\\uffff", {"\x7F\xC2\x80\xDF\xBF\xE0\xA0\x80\xEF\xBF\xBF", 11}},
    {"\\ud800\\udc00\\udbff\\udfff", {"\xF0\x90\x80\x80\xF4\x8F\xBF\xBF", 8}},
    {"\\\\n", {"\\n", 2}},
    {"x\\\\u0041y", {"x\\u0041y", 8}},
};

static void escapes_become_what_they_stand_for(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(escapes) / sizeof(escapes[0]); i++) {
        struct df_str in = df_str_c(escapes[i].escaped);
        char *out = malloc(in.len ? in.len : 1); /* exactly the room that is promised to do */
        assert_true(df_str_eq(df_json_unescape(in, out), escapes[i].plain));
        free(out);
    }
}

/* {"k0":0,"k1":0,...}, and then one of the names again. */
static char *many_members(size_t count, size_t again, size_t *ret_len)
{
    size_t cap = count * 20 + 40;
    char *text = malloc(cap);
    size_t len = 0;

    text[len++] = '{';
    for (size_t i = 0; i < count; i++)
        len += (size_t)snprintf(text + len, cap - len, "\"k%zu\":0,", i);
    len += (size_t)snprintf(text + len, cap - len, "\"k%zu\":1}", again);
    *ret_len = len;
    return text;
}

static void a_name_given_twice_is_found_among_any_number(void **state)
{
    static const size_t counts[] = {1, 2, 15, 16, 17, 18, 31, 32, 33, 64, 65, 1000, 60000};

    (void)state;
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        size_t n = counts[i];
        size_t again[] = {0, n / 2, n - 1};
        size_t len;
        char *text;
        for (size_t j = 0; j < 3; j++) {
            struct df_err err = DF_ERR_INIT;
            text = many_members(n, again[j], &len);
            assert_int_equal(df_json_check(df_str_n(text, len), DF_JSON_UNIQUE_KEYS, 64, &err),
                             DF_E_DUPLICATE_KEY);
            const char *at = text + err.offset;
            assert_memory_equal(at, "\"k", 2);
            assert_true(memchr(at, '1', (size_t)(text + len - at)) != NULL);
            assert_null(memchr(at, ',', (size_t)(text + len - at)));
            free(text);
        }
        text = many_members(n, n, &len);
        assert_int_equal(df_json_check(df_str_n(text, len), DF_JSON_UNIQUE_KEYS, 64, NULL), DF_OK);
        free(text);
    }
}

static void names_over_the_limit_are_refused(void **state)
{
    size_t len;
    char *text = many_members(DF_JSON_NAMES_MAX, DF_JSON_NAMES_MAX, &len);
    struct df_err err = DF_ERR_INIT;

    (void)state;
    assert_int_equal(df_json_check(df_str_n(text, len), DF_JSON_UNIQUE_KEYS, 64, &err),
                     DF_E_TOO_LARGE);
    assert_int_equal(df_json_check(df_str_n(text, len), 0, 64, &err), DF_OK);
    free(text);
}

/* One long string in windows of a few bytes: its parts put together are the whole. */
static void parts_of_a_string_add_up(void **state)
{
    static const char text[] = "[\"ab\\u00e9\\ud834\\udd1e\xE2\x82\xAC\\n\", \"\", \"x\"]";
    static const char *const want[] = {"ab\xC3\xA9\xF0\x9D\x84\x9E\xE2\x82\xAC\n", "", "x"};

    (void)state;
    for (size_t step = 12; step < sizeof(text); step++) {
        struct df_json_scan s;
        char got[64];
        size_t len = 0, strings = 0, begin = 0, end = 0;
        enum df_json_token t = DF_TOK_MORE;
        df_json_scan_init(&s, DF_JSON_PARTS, 64);
        while (t != DF_TOK_END) {
            t = df_json_scan_next(&s);
            assert_int_not_equal(t, DF_TOK_ERROR);
            if (t == DF_TOK_MORE) {
                begin = (size_t)df_json_scan_offset(&s);
                end = sizeof(text) - 1 - begin < step ? sizeof(text) - 1 : begin + step;
                df_json_scan_window(&s, df_str_n(text + begin, end - begin), (int64_t)begin,
                                    end == sizeof(text) - 1);
            } else if (t == DF_TOK_STRING || t == DF_TOK_STRING_PART) {
                len += df_json_unescape(s.text, got + len).len;
            }
            if (t == DF_TOK_STRING) {
                assert_true(df_str_eq(df_str_n(got, len), df_str_c(want[strings++])));
                len = 0;
            }
        }
        assert_int_equal(strings, 3);
        df_json_scan_release(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_ways_to_find_plain_text_agree),
        cmocka_unit_test(pairs_of_bytes_do_not_confuse_the_search),
        cmocka_unit_test(white_space_ends_at_the_first_other_byte),
        cmocka_unit_test(utf8_is_what_the_base_library_says_it_is),
        cmocka_unit_test(messages_say_what_was_expected_and_found),
        cmocka_unit_test(an_absent_input_is_an_empty_one),
        cmocka_unit_test(tokens_come_in_order_with_their_text),
        cmocka_unit_test(skipping_checks_what_it_passes_over),
        cmocka_unit_test(going_back_gives_the_same_tokens_again),
        cmocka_unit_test(a_scanner_serves_one_document_after_another),
        cmocka_unit_test(escapes_become_what_they_stand_for),
        cmocka_unit_test(a_name_given_twice_is_found_among_any_number),
        cmocka_unit_test(names_over_the_limit_are_refused),
        cmocka_unit_test(parts_of_a_string_add_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

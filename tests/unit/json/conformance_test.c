/*
 * What is JSON and what is not, case by case, as RFC 8259 has it: the substance of the public
 * conformance suites (JSONTestSuite, JSON_checker) in cases of our own. Where the RFC leaves a
 * choice, ours is in the table too: text is Unicode or refused, numbers of any size are taken as
 * they are written. Each case names the byte at which it goes wrong.
 *
 * Every case is scanned whole, cut in two at every byte, and byte by byte, by every interface there
 * is, and all of them must agree.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "json/doc.h"
#include "json/reader.h"
#include "json/scan.h"
#include "json/stream.h"

#include <stdlib.h>

struct json_case {
    const char *text;
    size_t len;
    enum df_code code;
    int64_t offset;
};

#define YES(lit)                                                                                   \
    {                                                                                              \
        "" lit, sizeof(lit) - 1, DF_OK, -1                                                         \
    }
#define NO(lit, at)                                                                                \
    {                                                                                              \
        "" lit, sizeof(lit) - 1, DF_E_MALFORMED_JSON, at                                           \
    }
#define NOTEXT(lit, at)                                                                            \
    {                                                                                              \
        "" lit, sizeof(lit) - 1, DF_E_INVALID_TEXT, at                                             \
    }

static const struct json_case cases[] = {
    /* Arrays. */
    YES("[]"),
    YES("[[]   ]"),
    YES("[\"\"]"),
    YES("[\"a\"]"),
    YES("[false]"),
    YES("[true]"),
    YES("[null]"),
    YES("[null, 1, \"1\", {}]"),
    YES("[1\n]"),
    YES(" [1]"),
    YES("[2] "),
    YES("[1,null,null,null,2]"),
    YES("\t\r\n [ \t\r\n ] \t\r\n "),
    YES("[[[[[[[[[[[[[[[[[[[\"not too deep\"]]]]]]]]]]]]]]]]]]]"),
    NO("[1 true]", 3),
    NO("[\"\": 1]", 3),
    NO("[\"\"],", 4),
    NO("[,1]", 1),
    NO("[1,,2]", 3),
    NO("[\"x\",,]", 5),
    NO("[\"x\"]]", 5),
    NO("[\"\",]", 4),
    NO("[\"x\"", 4),
    NO("[x", 1),
    NO("[3[4]]", 2),
    NO("[1:2]", 2),
    NO("[1;2]", 2),
    NO("[,]", 1),
    NO("[   , \"\"]", 4),
    NO("[\"a\",\n4\n,1,", 11),
    NO("[1,]", 3),
    NO("[1,,]", 3),
    NO("[*]", 1),
    NO("[\"\"", 3),
    NO("[1,", 3),
    NO("[1,\n1\n,1", 8),
    NO("[{}", 3),
    NO("[1", 2),
    NO("[", 1),
    NO("]", 0),
    NO("[1}", 2),
    NO("[{}[]]", 3),
    NO("[]1", 2),
    NO("[\"mismatch\"}", 11),

    /* Words. */
    YES("true"),
    YES("false"),
    YES("null"),
    NO("[tru]", 4),
    NO("[fals]", 5),
    NO("[nul]", 4),
    NO("tru", 3),
    NO("[truth]", 4),
    NO("[True]", 1),
    NO("[TRUE]", 1),
    NO("[nulll]", 5),
    NO("[ false, nul", 12),
    NO("[ true, fals", 12),
    NO("[ false, tru", 12),
    NO("abc", 0),
    NO("[undefined]", 1),

    /* Numbers. */
    YES("0"),
    YES("42"),
    YES("-0"),
    YES("-0.1"),
    YES("[-123]"),
    YES("[-1]"),
    YES("[123e65]"),
    YES("[0e+1]"),
    YES("[0e1]"),
    YES("[ 4]"),
    YES("[-0.00000000000000000000000000000000000000000000000000000000000000001]\n"),
    YES("[20e1]"),
    YES("[1E22]"),
    YES("[1E-2]"),
    YES("[1E+2]"),
    YES("[123e45]"),
    YES("[123.456e78]"),
    YES("[1e-2]"),
    YES("[1e+2]"),
    YES("[123.456789]"),
    YES("[1e007]"),
    YES("{ \"min\": -1.0e+28, \"max\": 1.0e+28 }"),
    YES("[123.456e-789]"),
    YES("[0.4e00669999999999999999999999999999999999999999999999999999999999999999999]"),
    YES("[-1e+9999]"),
    YES("[1.5e+9999]"),
    YES("[-123123e100000]"),
    YES("[123e-10000000]"),
    YES("[-123123123123123123123123123123]"),
    YES("[100000000000000000000]"),
    NO("[-]", 2),
    NO("-", 1),
    NO("[++1234]", 1),
    NO("[+1]", 1),
    NO("[+Inf]", 1),
    NO("[-01]", 3),
    NO("[-1.0.]", 5),
    NO("[-2.]", 4),
    NO("[-NaN]", 2),
    NO("[.-1]", 1),
    NO("[.2e-3]", 1),
    NO("[0.1.2]", 4),
    NO("[0.3e+]", 6),
    NO("[0.3e]", 5),
    NO("[0.e1]", 3),
    NO("[0E+]", 4),
    NO("[0E]", 3),
    NO("[0e+]", 4),
    NO("[0e]", 3),
    NO("[1.0e+]", 6),
    NO("[1.0e-]", 6),
    NO("[1.0e]", 5),
    NO("1e", 2),
    NO("1.", 2),
    NO("[1 000.0]", 3),
    NO("[1eE2]", 3),
    NO("[2.e+3]", 3),
    NO("[2.e-3]", 3),
    NO("[2.e3]", 3),
    NO("[9.e+]", 3),
    NO("[Inf]", 1),
    NO("[NaN]", 1),
    NO("[\xEF\xBC\x91]", 1),
    NO("[1+2]", 2),
    NO("[0x1]", 2),
    NO("[0x42]", 2),
    NO("[Infinity]", 1),
    NO("[-Infinity]", 2),
    NO("[0e+-1]", 4),
    NO("[-123.123foo]", 9),
    NO("[123\xE5]", 4),
    NO("[1e1\xE5]", 4),
    NO("[0\xE5]\n", 2),
    NO("[-foo]", 2),
    NO("[- 1]", 2),
    NO("[-012]", 3),
    NO("[-.123]", 2),
    NO("[-1x]", 3),
    NO("[1ea]", 3),
    NO("[1e\xE5]", 3),
    NO("[1.]", 3),
    NO("[.123]", 1),
    NO("[1.2a-3]", 4),
    NO("[1.8011670033376514H-308]", 19),
    NO("[012]", 2),
    NO("[00]", 2),
    NO("[1_000]", 2),
    NO("[1,5.]", 5),
    NO("[0B1]", 2),
    NO("123\0", 3),
    NO("2@", 1),
    NO("1]", 1),
    NO("1 2", 2),

    /* Objects. */
    YES("{}"),
    YES("{\"\":0}"),
    YES("{\"asd\":\"sdf\"}"),
    YES("{\"asd\":\"sdf\", \"dfg\":\"fgh\"}"),
    YES("{\"a\":[]}"),
    YES("{\n\"a\" :\t\"b\"\r\n}"),
    YES("{\"x\":[{\"id\": \"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}], "
        "\"id\": \"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}"),
    YES("{\"title\":\"\\u041f\\u043e\\u043b\\u0442\\u043e\\u0440\\u0430\"}"),
    YES("{\"a\":{\"b\":{\"c\":[{},{},[{\"d\":1}]]}},\"e\":{}}"),
    NO("[\"x\", truth]", 9),
    NO("{[: \"x\"}\n", 1),
    NO("{\"x\", null}", 4),
    NO("{\"x\"::\"b\"}", 5),
    NO("{\xF0\x9F\x87\xA8}", 1),
    NO("{\"a\":\"a\" 123}", 9),
    NO("{key: 'value'}", 1),
    NOTEXT("{\"\xB9\":\"0\",}", 2),
    NO("{\"a\" b}", 5),
    NO("{:\"b\"}", 1),
    NO("{\"a\" \"b\"}", 5),
    NO("{\"a\":", 5),
    NO("{\"a\":}", 5),
    NO("{\"a\"", 4),
    NO("{\"a\"}", 4),
    NO("{1:1}", 1),
    NO("{9999E9999:1}", 1),
    NO("{null:null,null:null}", 1),
    NO("{\"id\":0,,,,,}", 8),
    NO("{'a':0}", 1),
    NO("{\"id\":0,}", 8),
    NO("{\"a\":\"b\"}/**/", 9),
    NO("{\"a\":\"b\"}/**//", 9),
    NO("{\"a\":\"b\"}//", 9),
    NO("{\"a\":\"b\"}/", 9),
    NO("{\"a\":\"b\",,\"c\":\"d\"}", 9),
    NO("{a: \"b\"}", 1),
    NO("{\"a\":\"a", 7),
    NO("{ \"foo\" : \"bar\", \"a\" }", 21),
    NO("{\"a\":\"b\"}#", 9),
    NO("{\"a\":\"b\"}#{}", 9),
    NO("{\"a\":/*comment*/\"b\"}", 5),
    NO("{\"a\": true} \"x\"", 12),
    NO("{\"x\": true,", 11),
    NO("{\"asd\":\"asd\"", 12),
    NO("{\"\":", 4),
    NO("{", 1),
    NO("{]", 1),
    NO("{,", 1),
    NO("{[", 1),
    NO("{\"a", 3),
    NO("{'a'", 1),
    NO("{}}", 2),
    NO("{\"a\":1]", 6),
    NO("{\"a\":1,]", 7),
    NO("{\"a\" = 1}", 5),
    NO("{} {}", 3),
    NO("{}{}", 2),
    NO("{}\n{}", 3),

    /* Strings: what may stand in them. */
    YES("\"\""),
    YES("\" \""),
    YES("\"asd\""),
    YES("[ \"asd\"]"),
    YES("[\"asd \"]"),
    YES("[\"a/*b*/c/*d//e\"]"),
    YES("[\"\x7F\"]"),
    YES("[\"a\x7F"
        "a\"]"),
    YES("[\"\\u0060\\u012a\\u12AB\"]"),
    YES("[\"\\uD801\\udc37\"]"),
    YES("[\"\\ud83d\\ude39\\ud83d\\udc8d\"]"),
    YES("[\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"]"),
    YES("[\"\\\\u0000\"]"),
    YES("[\"\\\"\"]"),
    YES("[\"\\\\a\"]"),
    YES("[\"\\\\n\"]"),
    YES("[\"\\u0012\"]"),
    YES("[\"\\uFFFF\"]"),
    YES("[\"\\uDBFF\\uDFFF\"]"),
    YES("[\"new\\u00A0line\"]"),
    YES("[\"new\\u000Aline\"]"),
    YES("[\"\\u002c\"]"),
    YES("[\"\\u0821\"]"),
    YES("[\"\\u0123\"]"),
    YES("[\"\\u0061\\u30af\\u30EA\\u30b9\"]"),
    YES("[\"\\uA66D\"]"),
    YES("[\"\\u005C\"]"),
    YES("[\"\\u0022\"]"),
    YES("[\"\\uD834\\uDd1e\"]"),
    YES("[\"\\uDBFF\\uDFFE\"]"),
    YES("[\"\\uD83F\\uDFFE\"]"),
    YES("[\"\\u200B\"]"),
    YES("[\"\\u2064\"]"),
    YES("[\"\\uFDD0\"]"),
    YES("[\"\\uFFFE\"]"),
    YES("[\"\xF4\x8F\xBF\xBF\"]"),
    YES("[\"\xEF\xBF\xBF\"]"),
    YES("[\"\xF0\x9B\xBF\xBF\"]"),
    YES("[\"\xCF\x80\"]"),
    YES("[\"\xE2\x80\xA8\"]"),
    YES("[\"\xE2\x80\xA9\"]"),
    YES("[\"\xE2\x8D\x82\xE3\x88\xB4\xE2\x8D\x82\"]"),
    YES("[\"\xE2\x82\xAC\xF0\x9D\x84\x9E\"]"),
    YES("[\"\xED\x9F\xBF\xEE\x80\x80\xC2\x80\xE0\xA0\x80\xF0\x90\x80\x80\"]"),
    YES("\"a text that is longer than one block of any width, sixty-four bytes and a bit more\""),

    /* Strings: what may not. */
    NO("\"", 1),
    NO("[\"a", 3),
    NO("[\"asd]", 6),
    NO("\"\"x", 2),
    NO("['single quote']", 1),
    NO("['", 1),
    NO("[\"a\0a\"]", 3),
    NO("[\"new\nline\"]", 5),
    NO("[\"\t\"]", 2),
    NO("[\"\x1F\"]", 2),
    NO("[\"\x0B"
       "a\"\\f]",
       2),
    NO("[\"a text longer than any block: sixteen, thirty-two, and then the tab: \t\"]", 71),
    NO("[\"\\x00\"]", 3),
    NO("[\"\\\0\"]", 3),
    NO("[\"\\\\\\\"]", 7),
    NO("[\"\\\t\"]", 3),
    NO("[\"\\\xF0\x9F\x8C\x80\"]", 3),
    NO("[\"\\\"]", 5),
    NO("[\"\\u00A\"]", 7),
    NO("[\"\\u\xE5\"]", 4),
    NO("[\"\\a\"]", 3),
    NO("[\"\\uqqqq\"]", 4),
    NO("[\"\\\xE5\"]", 3),
    NO("[\"\\u{0041}\"]", 4),
    NO("[\\u0020\"asd\"]", 1),
    NO("[\\u000A\"\"]", 1),
    NO("[\\n]", 1),
    NO("[\"\\", 3),
    NO("[\"\\u", 4),
    NO("[\"\\u12", 6),
    NO("\"\\UA66D\"", 2),
    NO("[\"\\'\"]", 3),
    NO("[\"\\017\"]", 3),
    NO("[\"\\\n\"]", 3),
    NO("[\"\\{[\"\\{[\"\\{[\"\\{", 3),
    NO("[\xC3\xA9]", 1),

    /* Surrogates come in pairs. */
    NO("[\"\\uD800\\u\"]", 10),
    NO("[\"\\uD800\\u1\"]", 11),
    NO("[\"\\uD800\\u1x\"]", 11),
    NO("[\"\\uD834\\uDd\"]", 12),
    NO("[\"\\uD834", 8),
    NO("[\"\\uD834\\", 9),
    NOTEXT("[\"\\uD800\\\"]", 2),
    NOTEXT("[\"\\uD800\\uD800\\x\"]", 2),
    NOTEXT("{\"\\uDFAA\":0}", 2),
    NOTEXT("[\"\\uDADA\"]", 2),
    NOTEXT("[\"\\uD888\\u1234\"]", 2),
    NOTEXT("[\"\\uD800\\n\"]", 2),
    NOTEXT("[\"\\uDd1ea\"]", 2),
    NOTEXT("[\"\\uD800\\uD800\\n\"]", 2),
    NOTEXT("[\"\\ud800\"]", 2),
    NOTEXT("[\"ab\\ud800abc\"]", 4),
    NOTEXT("[\"\\uDd1e\\uD834\"]", 2),
    NOTEXT("[\"\\uD800\\\\uDC00\"]", 2),
    NOTEXT("[\"\\uDC00\"]", 2),
    NOTEXT("[\"\\uDBFF\\uE000\"]", 2),

    /* UTF-8. */
    NOTEXT("[\"\xE6\x97\xA5\xD1\x88\xFA\"]", 7),
    NOTEXT("[\"\xED\xA0\x80\"]", 2),
    NOTEXT("[\"\xED\xBF\xBF\"]", 2),
    NOTEXT("[\"\xFF\"]", 2),
    NOTEXT("[\"\xFE\"]", 2),
    NOTEXT("[\"\xE9\"]", 2),
    NOTEXT("[\"\x81\"]", 2),
    NOTEXT("[\"\xBF\"]", 2),
    NOTEXT("[\"\xF4\xBF\xBF\xBF\"]", 2),
    NOTEXT("[\"\xF4\x90\x80\x80\"]", 2),
    NOTEXT("[\"\xF5\x80\x80\x80\"]", 2),
    NOTEXT("[\"\xC0\xAF\"]", 2),
    NOTEXT("[\"\xC1\xBF\"]", 2),
    NOTEXT("[\"\xE0\x9F\xBF\"]", 2),
    NOTEXT("[\"\xF0\x8F\xBF\xBF\"]", 2),
    NOTEXT("[\"\xFC\x83\xBF\xBF\xBF\xBF\"]", 2),
    NOTEXT("[\"\xFC\x80\x80\x80\x80\x80\"]", 2),
    NOTEXT("[\"\xE0\xFF\"]", 2),
    NOTEXT("[\"\xC3\"]", 2),
    NOTEXT("[\"\xE2\x82\"]", 2),
    NOTEXT("[\"\xF0\x9D\x84\"]", 2),
    NO("[\"\xE2\x82", 4),
    NO("[\"\xC3", 3),
    NOTEXT("[\"sixteen ASCII bytes, and some more, before \xC3(\"]", 45),

    /* Everything else. */
    YES("[\"a\"]\n"),
    YES(" [] "),
    NO("", 0),
    NO(" ", 1),
    NO("\xEF\xBB\xBF", 0),
    NO("\xEF\xBB\xBF{}", 0),
    NO("\xEF\xBB{}", 0),
    NO("\xFF\xFE[\0\"\0\xE9\0\"\0]\0", 0),
    NO("\0[\0\"\0\xE9\0\"\0]", 0),
    NO("[\0\"\0\xE9\0\"\0]\0", 1),
    NO("[a\xE5]", 1),
    NO("[\xFF]", 1),
    NO("[\xE2\x81\xA0]", 1),
    NO("[\x0C]", 1),
    NO("[\x0B]", 1),
    NO("[\xC2\xA0]", 1),
    NO("<.>", 0),
    NO("[<null>]", 1),
    NO("[1]x", 3),
    NO("[1]]", 3),
    NO("a\xC3\xA5", 0),
    NO("\xC3\xA5", 0),
    NO("[][]", 2),
    NO("\xE5", 0),
    NO("\xE9", 0),
    NO("[\0]", 1),
    NO("[]\0", 2),
    NO("[,", 1),
    NO("[{", 2),
    NO("*", 0),
    NO("// comment\n[]", 0),
    NO("[] // comment", 3),
    NO("#\n[]", 0),
    NO(",", 0),
    NO(":", 0),
    NO("\"a\",\"b\"", 3),
};

#define CASE_COUNT (sizeof(cases) / sizeof(cases[0]))

struct outcome {
    enum df_code code;
    struct df_err err;
};

static struct outcome whole(struct df_str in, unsigned flags, unsigned depth)
{
    struct outcome o = {.err = DF_ERR_INIT};
    o.code = df_json_check(in, flags, depth, &o.err);
    return o;
}

/* Windows that end after `first` bytes and then every `step` bytes. */
static struct outcome by_windows(struct df_str in, size_t first, size_t step, unsigned flags,
                                 unsigned depth)
{
    struct outcome o = {.err = DF_ERR_INIT};
    struct df_json_scan s;
    size_t end = first;
    enum df_json_token t;

    df_json_scan_init(&s, flags, depth);
    for (size_t begin = 0;;) {
        /* Memory of exactly this size, so that a sanitizer sees a look past the window. */
        char *copy = malloc(end - begin + 1);
        memcpy(copy, in.ptr + begin, end - begin);
        copy = realloc(copy, end - begin ? end - begin : 1);
        df_json_scan_window(&s, df_str_n(copy, end - begin), (int64_t)begin, end == in.len);
        do
            t = df_json_scan_next(&s);
        while (t > DF_TOK_END);
        if (t == DF_TOK_ERROR)
            o.code = df_json_scan_error(&s, &o.err);
        begin = (size_t)df_json_scan_offset(&s);
        free(copy);
        if (t != DF_TOK_MORE)
            break;
        assert_true(end < in.len);
        end = in.len - end < step ? in.len : end + step;
    }
    df_json_scan_release(&s);
    return o;
}

static enum df_code ignore_token(void *arg, enum df_json_token t, struct df_str text,
                                 unsigned depth, struct df_err *err)
{
    (void)arg;
    (void)t;
    (void)text;
    (void)depth;
    (void)err;
    return DF_OK;
}

static struct outcome by_pieces(struct df_str in, size_t first, size_t step, unsigned flags,
                                unsigned depth)
{
    struct outcome o = {.err = DF_ERR_INIT};
    struct df_json_stream *s = df_json_stream_new((struct df_json_handler){ignore_token, NULL},
                                                  flags, depth, DF_JSON_TOKEN_BYTES);
    size_t at = 0;

    o.code = df_json_stream_feed(s, df_str_n(in.ptr, first), &o.err);
    for (at = first; o.code == DF_OK && at < in.len; at += step) {
        size_t len = in.len - at < step ? in.len - at : step;
        o.code = df_json_stream_feed(s, df_str_n(in.ptr + at, len), &o.err);
    }
    if (o.code == DF_OK)
        o.code = df_json_stream_finish(s, &o.err);
    df_json_stream_free(s);
    return o;
}

static void assert_same(const struct json_case *c, struct outcome want, struct outcome got,
                        const char *how, size_t at)
{
    if (got.code != want.code || got.err.offset != want.err.offset ||
        strcmp(got.err.detail, want.err.detail) != 0)
        fail_msg("%.*s, %s %zu: %s at %lld (%s) instead of %s at %lld (%s)", (int)c->len, c->text,
                 how, at, df_code_name(got.code), (long long)got.err.offset, got.err.detail,
                 df_code_name(want.code), (long long)want.err.offset, want.err.detail);
}

static void assert_all_ways_agree(const struct json_case *c, unsigned flags, unsigned depth)
{
    struct df_str in = {c->text, c->len};
    struct outcome want = whole(in, flags, depth);

    for (size_t cut = 0; cut <= c->len; cut++) {
        assert_same(c, want, by_windows(in, cut, c->len, flags, depth), "window cut at", cut);
        assert_same(c, want, by_pieces(in, cut, c->len, flags, depth), "piece cut at", cut);
    }
    for (size_t step = 1; step <= 3; step++) {
        assert_same(c, want, by_windows(in, 0, step, flags, depth), "windows of", step);
        assert_same(c, want, by_pieces(in, 0, step, flags, depth), "pieces of", step);
    }
}

static void each_case_is_taken_or_refused_at_its_byte(void **state)
{
    (void)state;
    for (size_t i = 0; i < CASE_COUNT; i++) {
        const struct json_case *c = &cases[i];
        struct outcome o = whole(df_str_n(c->text, c->len), 0, DF_JSON_DEPTH_MAX);
        if (o.code != c->code || o.err.offset != c->offset)
            fail_msg("%.*s: %s at %lld instead of %s at %lld: %s", (int)c->len, c->text,
                     df_code_name(o.code), (long long)o.err.offset, df_code_name(c->code),
                     (long long)c->offset, o.err.detail);
    }
}

static void where_the_input_is_cut_makes_no_difference(void **state)
{
    (void)state;
    for (size_t i = 0; i < CASE_COUNT; i++) {
        assert_all_ways_agree(&cases[i], 0, DF_JSON_DEPTH_MAX);
        assert_all_ways_agree(&cases[i], DF_JSON_UNIQUE_KEYS | DF_JSON_NO_NUL | DF_JSON_BOM, 3);
    }
}

static void a_document_is_taken_and_refused_like_the_text(void **state)
{
    (void)state;
    for (size_t i = 0; i < CASE_COUNT; i++) {
        const struct json_case *c = &cases[i];
        struct df_arena a = {0};
        struct df_err err = DF_ERR_INIT;
        const struct df_json *doc = NULL;
        assert_int_equal(df_json_parse(&a, df_str_n(c->text, c->len), &doc, &err), c->code);
        assert_int_equal(err.offset, c->offset);
        if (c->code == DF_OK)
            assert_true(df_str_eq(doc->raw, df_str_trim(df_str_n(c->text, c->len))));
        df_arena_release(&a);
    }
}

struct memory {
    struct df_str rest;
    size_t step;
};

static enum df_code read_memory(void *arg, char *ptr, size_t len, size_t *ret_len,
                                struct df_err *err)
{
    struct memory *m = arg;

    (void)err;
    if (len > m->step)
        len = m->step;
    if (len > m->rest.len)
        len = m->rest.len;
    memcpy(ptr, m->rest.ptr, len);
    m->rest.ptr += len;
    m->rest.len -= len;
    *ret_len = len;
    return DF_OK;
}

/* Each case as the value of a record's only field. */
static void records_are_checked_as_strictly(void **state)
{
    (void)state;
    for (size_t i = 0; i < CASE_COUNT; i++) {
        const struct json_case *c = &cases[i];
        char text[512];
        size_t len = 0;
        assert_true(c->len + 16 < sizeof(text));
        memcpy(text, "[{\"v\":", 6);
        memcpy(text + 6, c->text, c->len);
        memcpy(text + 6 + c->len, "}]", 2);
        len = c->len + 8;
        for (size_t step = 1; step <= 64; step *= 8) {
            struct memory m = {df_str_n(text, len), step};
            struct df_json_reader *r =
                df_json_reader_new((struct df_json_source){read_memory, &m}, 0, NULL);
            const struct df_json_record *record;
            struct df_err err = DF_ERR_INIT;
            enum df_code rc = df_json_reader_next(r, &record, &err);
            if (c->code == DF_OK) {
                assert_int_equal(rc, DF_ROW);
                assert_true(
                    df_str_eq(record->fields[0].raw, df_str_trim(df_str_n(c->text, c->len))));
                assert_int_equal(df_json_reader_next(r, &record, &err), DF_DONE);
            } else {
                /* Brackets of the case may close the record's, and the rest is wrong then. */
                if (rc == DF_ROW)
                    rc = df_json_reader_next(r, &record, &err);
                assert_true(rc == DF_E_MALFORMED_JSON || rc == DF_E_INVALID_TEXT ||
                            rc == DF_E_VALIDATION);
                assert_true(err.offset >= 0);
            }
            df_json_reader_free(r);
        }
    }
}

/* Accepted by the RFC, and by us unless we are asked not to. */
static const struct {
    struct json_case plain;
    enum df_code strict;
    int64_t strict_offset;
} choices[] = {
    {YES("[\"\\u0000\"]"), DF_E_INVALID_TEXT, 2},
    {YES("{\"foo\\u0000bar\": 42}"), DF_E_INVALID_TEXT, 5},
    {YES("[\"\\u0001\\u0010\\u0100\\u1000\"]"), DF_OK, -1},
    {YES("{\"a\":\"b\",\"a\":\"c\"}"), DF_E_DUPLICATE_KEY, 9},
    {YES("{\"a\":\"b\",\"a\":\"b\"}"), DF_E_DUPLICATE_KEY, 9},
    {YES("{\"a\":1,\"\\u0061\":2}"), DF_E_DUPLICATE_KEY, 7},
    {YES("{\"\\u00e9\":1,\"\xC3\xA9\":2}"), DF_E_DUPLICATE_KEY, 12},
    {YES("{\"\":1,\"\":2}"), DF_E_DUPLICATE_KEY, 6},
    {YES("[{\"x\":{\"a\":1,\"b\":{\"a\":1}}},{\"x\":1,\"y\":{\"x\":2},\"x\":3}]"),
     DF_E_DUPLICATE_KEY, 46},
    {YES("{\"a\":1,\"A\":2}"), DF_OK, -1},
    {YES("{\"a\":{\"a\":{\"a\":[{\"a\":1},{\"a\":1}]}}}"), DF_OK, -1},
};

static void duplicates_and_nul_are_refused_where_asked(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(choices) / sizeof(choices[0]); i++) {
        const struct json_case *c = &choices[i].plain;
        struct df_str in = {c->text, c->len};
        struct df_arena a = {0};
        const struct df_json *doc;
        struct df_err err = DF_ERR_INIT;
        assert_int_equal(whole(in, 0, 64).code, DF_OK);
        struct outcome o = whole(in, DF_JSON_UNIQUE_KEYS | DF_JSON_NO_NUL, 64);
        assert_int_equal(o.code, choices[i].strict);
        assert_int_equal(o.err.offset, choices[i].strict_offset);
        assert_all_ways_agree(c, DF_JSON_UNIQUE_KEYS | DF_JSON_NO_NUL, 64);
        assert_int_equal(df_json_parse(&a, in, &doc, &err), choices[i].strict);
        assert_int_equal(err.offset, choices[i].strict_offset);
        df_arena_release(&a);
    }
}

static void deep_nesting_is_refused_at_the_bracket_too_many(void **state)
{
    enum { N = 100000 };
    static char text[N * 2];
    struct df_arena a = {0};
    const struct df_json *doc;

    (void)state;
    for (unsigned depth = 1; depth <= DF_JSON_DEPTH_MAX; depth *= 4) {
        memset(text, '[', depth);
        memset(text + depth, ']', depth);
        assert_int_equal(whole(df_str_n(text, (size_t)depth * 2), 0, depth).code, DF_OK);
        struct outcome o = whole(df_str_n(text, (size_t)depth * 2), 0, depth - 1);
        assert_int_equal(o.code, DF_E_TOO_DEEP);
        assert_int_equal(o.err.offset, depth - 1);
    }
    memset(text, '[', N);
    assert_int_equal(whole(df_str_n(text, N), 0, UINT32_MAX).code, DF_E_TOO_DEEP);
    for (size_t i = 0; i + 5 <= N; i += 5)
        memcpy(text + i, "[{\"\":", 5);
    assert_int_equal(whole(df_str_n(text, N), 0, UINT32_MAX).code, DF_E_TOO_DEEP);
    assert_int_equal(whole(df_str_n(text, 100), 0, UINT32_MAX).code, DF_E_MALFORMED_JSON);

    memset(text, '[', 65);
    memset(text + 65, ']', 65);
    struct df_err err = DF_ERR_INIT;
    assert_int_equal(df_json_parse(&a, df_str_n(text, 130), &doc, &err), DF_E_TOO_DEEP);
    assert_int_equal(err.offset, 64);
    assert_int_equal(df_json_parse(&a, df_str_n(text + 1, 128), &doc, &err), DF_OK);
    df_arena_release(&a);
}

static void a_byte_order_mark_is_skipped_where_asked(void **state)
{
    static const struct json_case marks[] = {
        YES("\xEF\xBB\xBF{}"),
        YES("\xEF\xBB\xBF \n[1]"),
        YES("{}"),
        NO("\xEF\xBB\xBF", 3),
        NO("\xEF\xBB{}", 0),
        NO("\xEF\xBB", 0),
        NO(" \xEF\xBB\xBF{}", 1),
        NO("\xEF\xBB\xBF\xEF\xBB\xBF{}", 3),
        NO("{}\xEF\xBB\xBF", 2),
        NO("", 0),
    };

    (void)state;
    for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
        struct outcome o = whole(df_str_n(marks[i].text, marks[i].len), DF_JSON_BOM, 64);
        assert_int_equal(o.code, marks[i].code);
        assert_int_equal(o.err.offset, marks[i].offset);
        assert_all_ways_agree(&marks[i], DF_JSON_BOM, 64);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_case_is_taken_or_refused_at_its_byte),
        cmocka_unit_test(where_the_input_is_cut_makes_no_difference),
        cmocka_unit_test(a_document_is_taken_and_refused_like_the_text),
        cmocka_unit_test(records_are_checked_as_strictly),
        cmocka_unit_test(duplicates_and_nul_are_refused_where_asked),
        cmocka_unit_test(deep_nesting_is_refused_at_the_bracket_too_many),
        cmocka_unit_test(a_byte_order_mark_is_skipped_where_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

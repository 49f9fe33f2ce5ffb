#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"
#include "json/stream.h"

#include <stdlib.h>

/* Tokens as a line of text, parts of a string joined. */
struct notes {
    struct df_buf buf;
    bool in_string;
    size_t largest;
    enum df_code answer;
};

static enum df_code note(void *arg, enum df_json_token t, struct df_str text, unsigned depth,
                         struct df_err *err)
{
    struct notes *n = arg;
    static const char *const names[] = {
        [DF_TOK_OBJECT] = "{",       [DF_TOK_OBJECT_END] = "}", [DF_TOK_ARRAY] = "[",
        [DF_TOK_ARRAY_END] = "]",    [DF_TOK_KEY] = "k:",       [DF_TOK_STRING] = "s:",
        [DF_TOK_STRING_PART] = "s:", [DF_TOK_NUMBER] = "n:",    [DF_TOK_TRUE] = "true",
        [DF_TOK_FALSE] = "false",    [DF_TOK_NULL] = "null",
    };

    if (text.len > n->largest)
        n->largest = text.len;
    if (!n->in_string)
        df_buf_addf(&n->buf, " %u%s", depth, names[t]);
    df_buf_adds(&n->buf, text);
    n->in_string = t == DF_TOK_STRING_PART;
    return n->answer == DF_OK ? DF_OK : df_err_set(err, n->answer, "enough");
}

static enum df_code feed_all(struct notes *n, struct df_str in, size_t step, size_t max_token,
                             struct df_err *err)
{
    struct df_json_stream *s =
        df_json_stream_new((struct df_json_handler){note, n}, DF_JSON_UNIQUE_KEYS, 8, max_token);
    enum df_code rc = DF_OK;

    df_buf_reset(&n->buf);
    n->in_string = false;
    for (size_t at = 0; rc == DF_OK && at < in.len; at += step) {
        size_t len = in.len - at < step ? in.len - at : step;
        rc = df_json_stream_feed(s, df_str_n(in.ptr + at, len), err);
    }
    if (rc == DF_OK)
        rc = df_json_stream_finish(s, err);
    df_json_stream_free(s);
    return rc;
}

static void tokens_are_the_same_however_the_document_arrives(void **state)
{
    struct df_str in =
        DF_STR(" {\"file\\u004eame\": \"a\\u00e9\\ud834\\udd1e\\n.xlsx\", \"size\":12.5e3 ,"
               "\"tags\":[true,false,null,\"\",\"\xE2\x82\xAC\"],\"o\":{}} ");
    const char *want =
        " 0{ 1k:fileName 1s:a\xC3\xA9\xF0\x9D\x84\x9E\n.xlsx 1k:size 1n:12.5e3 1k:tags"
        " 1[ 2true 2false 2null 2s: 2s:\xE2\x82\xAC 1] 1k:o 1{ 1} 0}";
    struct notes n = {0};

    (void)state;
    df_buf_init(&n.buf, 4096);
    for (size_t step = 1; step <= in.len; step++) {
        struct df_err err = DF_ERR_INIT;
        assert_int_equal(feed_all(&n, in, step, 100, &err), DF_OK);
        if (!df_str_eq(df_buf_str(&n.buf), df_str_c(want)))
            fail_msg("pieces of %zu: %s", step, n.buf.ptr);
    }
    df_buf_release(&n.buf);
}

static void a_long_string_passes_in_parts(void **state)
{
    enum { N = 1 << 20 };
    char *text = malloc(N);
    struct notes n = {0};
    struct df_err err = DF_ERR_INIT;

    (void)state;
    memset(text, 'A', N);
    text[0] = '"';
    text[N - 1] = '"';
    df_buf_init(&n.buf, 2 * N);
    assert_int_equal(feed_all(&n, df_str_n(text, N), 1000, 16, &err), DF_OK);
    assert_int_equal(n.buf.len, N - 2 + strlen(" 0s:"));
    assert_true(n.largest <= 1000);
    df_buf_release(&n.buf);
    free(text);
}

static void long_names_and_numbers_are_refused(void **state)
{
    static const struct {
        const char *text;
        enum df_code code;
        int64_t offset;
    } table[] = {
        {"{\"a\":1,\"1234567890123456\":1}", DF_OK, -1},
        {"{\"a\":1,\"12345678901234567\":1}", DF_E_TOO_LARGE, 7},
        {"[1,1234567890123456,2]", DF_OK, -1},
        {"[1,12345678901234567,2]", DF_E_TOO_LARGE, 3},
        {"[\"as long as you please\"]", DF_OK, -1},
    };
    struct notes n = {0};

    (void)state;
    df_buf_init(&n.buf, 4096);
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        for (size_t step = 1; step < 30; step++) {
            struct df_err err = DF_ERR_INIT;
            assert_int_equal(feed_all(&n, df_str_c(table[i].text), step, 16, &err), table[i].code);
            assert_int_equal(err.offset, table[i].offset);
        }
    }
    df_buf_release(&n.buf);
}

static void duplicate_names_are_found_across_pieces(void **state)
{
    struct df_str in = DF_STR("{\"file\":{\"file\":1},\"\\u0066ile\":2}");
    struct notes n = {0};

    (void)state;
    df_buf_init(&n.buf, 4096);
    for (size_t step = 1; step <= in.len; step++) {
        struct df_err err = DF_ERR_INIT;
        assert_int_equal(feed_all(&n, in, step, 100, &err), DF_E_DUPLICATE_KEY);
        assert_int_equal(err.offset, 19);
    }
    df_buf_release(&n.buf);
}

static void a_failure_stays(void **state)
{
    struct notes n = {.answer = DF_E_CONFLICT};
    struct df_err err = DF_ERR_INIT;
    struct df_json_stream *s =
        df_json_stream_new((struct df_json_handler){note, &n}, 0, 8, DF_JSON_TOKEN_BYTES);

    (void)state;
    df_buf_init(&n.buf, 4096);
    assert_int_equal(df_json_stream_feed(s, DF_STR("[1"), &err), DF_E_CONFLICT);
    assert_string_equal(err.detail, "enough");
    n.answer = DF_OK;
    assert_int_equal(df_json_stream_feed(s, DF_STR("]"), &err), DF_E_CONFLICT);
    assert_int_equal(df_json_stream_finish(s, NULL), DF_E_CONFLICT);
    df_json_stream_free(s);

    s = df_json_stream_new((struct df_json_handler){note, &n}, 0, 8, DF_JSON_TOKEN_BYTES);
    assert_int_equal(df_json_stream_feed(s, DF_STR("[1,x"), &err), DF_E_MALFORMED_JSON);
    assert_int_equal(df_json_stream_feed(s, DF_STR("]"), &err), DF_E_MALFORMED_JSON);
    assert_int_equal(err.offset, 3);
    df_json_stream_free(s);
    df_json_stream_free(NULL);
    df_buf_release(&n.buf);
}

static void an_unfinished_document_is_refused_at_the_end(void **state)
{
    static const char *const table[] = {
        "", " ", "[", "{\"a\"", "{\"a\":", "[1,", "\"abc", "tr", "-"};
    struct notes n = {0};

    (void)state;
    df_buf_init(&n.buf, 4096);
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct df_err err = DF_ERR_INIT;
        assert_int_equal(feed_all(&n, df_str_c(table[i]), 100, 100, &err), DF_E_MALFORMED_JSON);
        assert_int_equal(err.offset, strlen(table[i]));
    }
    df_buf_release(&n.buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_are_the_same_however_the_document_arrives),
        cmocka_unit_test(a_long_string_passes_in_parts),
        cmocka_unit_test(long_names_and_numbers_are_refused),
        cmocka_unit_test(duplicate_names_are_found_across_pieces),
        cmocka_unit_test(a_failure_stays),
        cmocka_unit_test(an_unfinished_document_is_refused_at_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

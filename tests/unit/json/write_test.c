#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/escape.h"
#include "json/doc.h"
#include "json/scan.h"
#include "json/write.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

static void assert_buf(const struct df_buf *b, const char *want)
{
    if (!df_str_eq(df_buf_str(b), df_str_c(want)))
        fail_msg(DF_STR_FMT " instead of %s", DF_STR_ARG(df_buf_str(b)), want);
}

static void commas_stand_where_they_belong(void **state)
{
    struct df_buf b;
    struct df_json_out j;

    (void)state;
    df_buf_init(&b, 4096);
    df_json_out_init(&j, &b);
    df_json_open(&j, '{');
    df_json_kv_text(&j, "id", DF_STR("x"));
    df_json_kv_int(&j, "count", -3);
    df_json_key(&j, "list");
    df_json_open(&j, '[');
    df_json_int(&j, INT64_MIN);
    df_json_open(&j, '[');
    df_json_close(&j, ']');
    df_json_open(&j, '{');
    df_json_close(&j, '}');
    df_json_null(&j);
    df_json_close(&j, ']');
    df_json_kv_bool(&j, "yes", true);
    df_json_kv_bool(&j, "no", false);
    df_json_key_str(&j, DF_STR("a\"b"));
    df_json_raw(&j, DF_STR("{\"as\":\"is\"}"));
    df_json_kv_text(&j, "absent", DF_STR_NULL);
    df_json_kv_text(&j, "empty", DF_STR(""));
    df_json_close(&j, '}');
    assert_buf(&b, "{\"id\":\"x\",\"count\":-3,\"list\":[-9223372036854775808,[],{},null],"
                   "\"yes\":true,\"no\":false,\"a\\\"b\":{\"as\":\"is\"},\"absent\":null,"
                   "\"empty\":\"\"}");
    assert_false(df_buf_failed(&b));
    df_buf_release(&b);
}

static void times_are_iso_8601_or_null(void **state)
{
    struct df_buf b;
    struct df_json_out j;

    (void)state;
    df_buf_init(&b, 4096);
    df_json_out_init(&j, &b);
    df_json_open(&j, '{');
    df_json_kv_time(&j, "at", 0);
    df_json_kv_time(&j, "never", -1);
    df_json_close(&j, '}');
    assert_buf(&b, "{\"at\":\"1970-01-01T00:00:00.000Z\",\"never\":null}");
    df_buf_release(&b);
}

#define TEXT(lit)                                                                                  \
    {                                                                                              \
        "" lit, sizeof(lit) - 1                                                                    \
    }

static const struct {
    struct df_str text;
    const char *escaped;
} texts[] = {
    {TEXT(""), ""},
    {TEXT("plain"), "plain"},
    {TEXT("\"\\/"), "\\\"\\\\/"},
    {TEXT("\b\f\n\r\t"), "\\b\\f\\n\\r\\t"},
    {TEXT("\0\x01\x1F\x7F"), "\\u0000\\u0001\\u001f\x7F"},
    {TEXT("\xC3\xA9 \xE2\x82\xAC \xF0\x9D\x84\x9E"), "\xC3\xA9 \xE2\x82\xAC \xF0\x9D\x84\x9E"},
    {TEXT("x\xFFy"), "x\xEF\xBF\xBDy"},
    {TEXT("\xC3"), "\xEF\xBF\xBD"},
    {TEXT("\xE2\x82"), "\xEF\xBF\xBD\xEF\xBF\xBD"},
    {TEXT("\xED\xA0\x80"), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
    {TEXT("\xC0\xAF"), "\xEF\xBF\xBD\xEF\xBF\xBD"},
    {TEXT("a long run of plain text before a \"quote\" and a long run of plain text after it"),
     "a long run of plain text before a \\\"quote\\\" and a long run of plain text after it"},
};

static void text_is_escaped_and_made_valid(void **state)
{
    struct df_buf b;

    (void)state;
    df_buf_init(&b, 4096);
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        df_buf_reset(&b);
        df_buf_add_escaped(&b, texts[i].text);
        assert_buf(&b, texts[i].escaped);
    }
    df_buf_reset(&b);
    df_buf_add_escaped(&b, DF_STR_NULL);
    assert_buf(&b, "");
    df_buf_release(&b);
}

/* Whatever bytes go in, a valid document comes out, and valid text comes out the same. */
static void any_bytes_make_a_valid_document(void **state)
{
    uint64_t seed = 88172645463325252U;

    (void)state;
    for (int i = 0; i < 20000; i++) {
        char bytes[48];
        size_t len = 0;
        struct df_buf b;
        struct df_json_out j;
        struct df_arena a = {0};
        const struct df_json *doc;
        for (; len < sizeof(bytes) && len < (size_t)i % 49; len++) {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            /* Few values of a kind, so that sequences are often right or almost so. */
            bytes[len] = "a\"\\\n\x01\xC3\xA9\xE2\x82\xAC\xF0\x9D\x84\x9E\xED\xA0"[seed >> 32 & 15];
        }
        df_buf_init(&b, 4096);
        df_json_out_init(&j, &b);
        df_json_text(&j, df_str_n(bytes, len));
        assert_int_equal(df_json_parse(&a, df_buf_str(&b), &doc, NULL), DF_OK);
        if (df_utf8_valid_prefix(df_str_n(bytes, len)) == len)
            assert_true(df_str_eq(doc->text, df_str_n(bytes, len)));
        df_arena_release(&a);
        df_buf_release(&b);
    }
}

static void doubles_are_short_and_read_back_the_same(void **state)
{
    static const struct {
        double v;
        const char *text;
    } table[] = {
        {0, "0"},
        {1, "1"},
        {-1.5, "-1.5"},
        {0.1, "0.1"},
        {1e21, "1e+21"},
        {3.14159265358979, "3.14159265358979"},
        {1.0 / 3, NULL},
        {DBL_MAX, NULL},
        {DBL_MIN, NULL},
        {5e-324, NULL},
        {123456789012345680.0, NULL},
        {0.1 + 0.2, "0.30000000000000004"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct df_buf b;
        struct df_json_out j;
        df_buf_init(&b, 100);
        df_json_out_init(&j, &b);
        df_json_double(&j, table[i].v);
        if (table[i].text)
            assert_buf(&b, table[i].text);
        assert_true(strtod(b.ptr, NULL) == table[i].v);
        assert_int_equal(df_json_check(df_buf_str(&b), 0, 1, NULL), DF_OK);
        df_buf_release(&b);
    }
}

static void what_is_no_number_is_null(void **state)
{
    struct df_buf b;
    struct df_json_out j;

    (void)state;
    df_buf_init(&b, 100);
    df_json_out_init(&j, &b);
    df_json_open(&j, '[');
    df_json_double(&j, NAN);
    df_json_double(&j, INFINITY);
    df_json_double(&j, -INFINITY);
    df_json_close(&j, ']');
    assert_buf(&b, "[null,null,null]");
    df_buf_release(&b);
}

static void a_full_buffer_is_told_at_the_end(void **state)
{
    struct df_buf b;
    struct df_json_out j;

    (void)state;
    df_buf_init(&b, 10);
    df_json_out_init(&j, &b);
    df_json_open(&j, '[');
    for (int i = 0; i < 10; i++)
        df_json_text(&j, DF_STR("text"));
    df_json_close(&j, ']');
    assert_true(df_buf_failed(&b));
    df_buf_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commas_stand_where_they_belong),
        cmocka_unit_test(times_are_iso_8601_or_null),
        cmocka_unit_test(text_is_escaped_and_made_valid),
        cmocka_unit_test(any_bytes_make_a_valid_document),
        cmocka_unit_test(doubles_are_short_and_read_back_the_same),
        cmocka_unit_test(what_is_no_number_is_null),
        cmocka_unit_test(a_full_buffer_is_told_at_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

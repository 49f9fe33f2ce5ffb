#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"
#include "json/reader.h"
#include "json/scan.h"

#include <stdio.h>
#include <stdlib.h>

struct memory {
    struct df_str rest;
    size_t step;
    size_t reads;
    enum df_code fail; /* instead of the end */
};

static enum df_code read_memory(void *arg, char *ptr, size_t len, size_t *ret_len,
                                struct df_err *err)
{
    struct memory *m = arg;

    m->reads++;
    if (m->rest.len == 0 && m->fail != DF_OK)
        return df_err_set(err, m->fail, "the disk is gone");
    if (len > m->step)
        len = m->step;
    if (len > m->rest.len)
        len = m->rest.len;
    if (len > 0)
        memcpy(ptr, m->rest.ptr, len);
    m->rest.ptr += len;
    m->rest.len -= len;
    *ret_len = len;
    return DF_OK;
}

static struct df_json_reader *reader_of(struct memory *m, unsigned flags,
                                        const struct df_json_reader_limits *limits)
{
    return df_json_reader_new((struct df_json_source){read_memory, m}, flags, limits);
}

/* All records as text, one a line: name=value of each field. */
static enum df_code read_all(struct df_str in, size_t step, unsigned flags,
                             const struct df_json_reader_limits *limits, struct df_buf *out,
                             struct df_err *err)
{
    struct memory m = {.rest = in, .step = step};
    struct df_json_reader *r = reader_of(&m, flags, limits);
    const struct df_json_record *record;
    enum df_code rc;

    df_buf_reset(out);
    while ((rc = df_json_reader_next(r, &record, err)) == DF_ROW) {
        assert_int_equal(record->raw.ptr[0], '{');
        assert_int_equal(record->raw.ptr[record->raw.len - 1], '}');
        for (size_t i = 0; i < record->count; i++) {
            const struct df_json *f = &record->fields[i];
            assert_int_equal(df_json_count(f), 0);
            df_buf_adds(out, f->key);
            df_buf_addc(out, '=');
            df_buf_adds(out, f->type == DF_JSON_STRING ? f->text : f->raw);
            df_buf_addc(out, ';');
        }
        df_buf_addc(out, '\n');
    }
    /* The answer stays. */
    assert_int_equal(df_json_reader_next(r, &record, err), rc);
    df_json_reader_free(r);
    return rc;
}

static const struct {
    const char *text;
    const char *records;
} shapes[] = {
    /* An array of objects. */
    {"[]", ""},
    {" [ ] ", ""},
    {"[{}]", "\n"},
    {"[{\"a\":1},{\"a\":2}]", "a=1;\na=2;\n"},
    {" [ {\"a\" : 1 , \"b\":\"x\\ny\"} \n,\n {\"a\":[1,{\"b\":[]}],\"c\":null} ] \n",
     "a=1;b=x\ny;\na=[1,{\"b\":[]}];c=null;\n"},
    {"[{\"\\u0061\\t\":\"\\ud834\\udd1e\",\"b\":true,\"c\":false,\"d\":-1.5e3,\"e\":{\"f\" : "
     "\"\\n\"}}]",
     "a\t=\xF0\x9D\x84\x9E;b=true;c=false;d=-1.5e3;e={\"f\" : \"\\n\"};\n"},

    /* An object around an array of objects. */
    {"{\"items\":[{\"a\":1},{\"a\":2}]}", "a=1;\na=2;\n"},
    {"{\"total\":2,\"more\":{\"x\":[1,{}]},\"LEADS\":[{\"a\":1}],\"page\":\"1\"}", "a=1;\n"},
    {"{\"records\" : [ ] }", ""},
    {"{\"data\":[{\"data\":[{\"b\":1}]}]}", "data=[{\"b\":1}];\n"},
    {"{\"d\\u0061ta\":[{\"a\":1}]}", "a=1;\n"},
    {"{\"data\":[1,2],\"items\":[{\"a\":1}]}", "a=1;\n"},
    {"{\"data\":[[{\"a\":0}]],\"items\":[{\"a\":1}]}", "a=1;\n"},
    {"{\"data\":\"2026-11-15\",\"items\":[{\"a\":1}]}", "a=1;\n"},
    {"{\"items\":[],\"leads\":[{\"a\":1}],\"data\":[]}", "a=1;\n"},

    /* One object a line. */
    {"{\"a\":1}\n{\"a\":2}\n", "a=1;\na=2;\n"},
    {"{\"a\":1}\r\n{\"a\":2}", "a=1;\na=2;\n"},
    {"\n\n{\"a\":1}\n\n \n{\"a\":2}\n\n", "a=1;\na=2;\n"},
    {"{}\n{}\n", "\n\n"},
    {"{\n \"a\":1\n}\n{\n \"a\":2\n}\n", "a=1;\na=2;\n"},
    {"{\"a\":1,\"items\":[{\"b\":1}]}\n{\"a\":2}\n", "a=1;items=[{\"b\":1}];\na=2;\n"},
    {"{\"a\":1}\n{\"items\":[{\"b\":1}]}\n", "a=1;\nitems=[{\"b\":1}];\n"},

    /* One object. */
    {"{\"a\":1}", "a=1;\n"},
    {" {\"a\":1} \n\n ", "a=1;\n"},
    {"{}", "\n"},
    {"{\"items\":[1],\"other\":[{\"a\":1}]}", "items=[1];other=[{\"a\":1}];\n"},
    {"{\"data\":\"2026-11-15\"}", "data=2026-11-15;\n"},
};

static void records_come_out_of_every_shape(void **state)
{
    struct df_buf out;

    (void)state;
    df_buf_init(&out, 65536);
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        struct df_str in = df_str_c(shapes[i].text);
        for (size_t step = 1; step <= in.len; step++) {
            for (unsigned flags = 0; flags <= DF_JSON_UNIQUE_KEYS; flags += DF_JSON_UNIQUE_KEYS) {
                struct df_err err = DF_ERR_INIT;
                if (read_all(in, step, flags, NULL, &out, &err) != DF_DONE)
                    fail_msg("%s in steps of %zu: %s", shapes[i].text, step, err.detail);
                if (!df_str_eq(df_buf_str(&out), df_str_c(shapes[i].records)))
                    fail_msg("%s in steps of %zu: %s", shapes[i].text, step, out.ptr);
            }
        }
    }
    df_buf_release(&out);
}

static const struct {
    const char *text;
    const char *records; /* before the error */
    enum df_code code;
    int64_t offset;
} refused[] = {
    {"", "", DF_E_MALFORMED_JSON, 0},
    {" \n", "", DF_E_MALFORMED_JSON, 2},
    {"x", "", DF_E_MALFORMED_JSON, 0},
    {"\"text\"", "", DF_E_VALIDATION, 0},
    {"[\"text\xA4", "", DF_E_INVALID_TEXT, 6},
    {"[\"text", "", DF_E_MALFORMED_JSON, 6},
    {"{\"items\":[{}],\"x\":\"text\xA4\"}", "", DF_E_INVALID_TEXT, 23},
    {" 12", "", DF_E_VALIDATION, 1},
    {"null", "", DF_E_VALIDATION, 0},
    {"[1]", "", DF_E_VALIDATION, 1},
    {"[{},\"x\"]", "\n", DF_E_VALIDATION, 4},
    {"[[]]", "", DF_E_VALIDATION, 1},
    {"[{\"a\":1},]", "a=1;\n", DF_E_MALFORMED_JSON, 9},
    {"[{\"a\":1} {\"a\":2}]", "a=1;\n", DF_E_MALFORMED_JSON, 9},
    {"[{\"a\":1},{\"a\":}]", "a=1;\n", DF_E_MALFORMED_JSON, 14},
    {"[{\"a\":1},{\"a\":\"\xFF\"}]", "a=1;\n", DF_E_INVALID_TEXT, 15},
    {"[{\"a\":1},{\"a\":[\"\\ud800\"]}]", "a=1;\n", DF_E_INVALID_TEXT, 16},
    {"[{\"a\":1}", "a=1;\n", DF_E_MALFORMED_JSON, 8},
    {"[{\"a\":1}]x", "a=1;\n", DF_E_MALFORMED_JSON, 9},
    {"[{\"a\":1}]\n[]", "a=1;\n", DF_E_MALFORMED_JSON, 10},
    {"[{\"a\":1", "", DF_E_MALFORMED_JSON, 7},
    {"{\"items\":[{\"a\":1},2]}", "a=1;\n", DF_E_VALIDATION, 18},
    {"{\"items\":[{\"a\":1}]", "", DF_E_MALFORMED_JSON, 18},
    {"{\"items\":[{\"a\":1}],\"data\":[{\"a\":2}]}", "a=1;\n", DF_E_VALIDATION, 27},
    {"{\"a\":1}{\"a\":2}", "a=1;\n", DF_E_MALFORMED_JSON, 7},
    {"{\"a\":1} {\"a\":2}", "a=1;\n", DF_E_MALFORMED_JSON, 8},
    {"{\"a\":1}\n[]", "a=1;\n", DF_E_VALIDATION, 8},
    {"{\"a\":1}\n1", "a=1;\n", DF_E_VALIDATION, 8},
    {"{\"a\":1}\n,{\"a\":2}", "a=1;\n", DF_E_MALFORMED_JSON, 8},
    {"{\"a\":1}\n{\"a\":}", "a=1;\n", DF_E_MALFORMED_JSON, 13},
    {"{\"a\":1}\n{\"a\":2", "a=1;\n", DF_E_MALFORMED_JSON, 14},
    {"{\"a\":1]", "", DF_E_MALFORMED_JSON, 6},
    {"[{\"a\":[[[[1]]]]}]", "", DF_E_TOO_DEEP, 7},
    {"{\"items\":[{\"a\":[1]}]}", "", DF_E_TOO_DEEP, 15},
    {"{\"a\":1,\"a\":2}", "", DF_E_DUPLICATE_KEY, 7},
    {"[{\"a\":1},{\"b\":{\"c\":1,\"\\u0063\":2}}]", "a=1;\n", DF_E_DUPLICATE_KEY, 21},
    {"{\"x\":1,\"items\":[{\"a\":1},{\"a\":2}],\"x\":2}", "", DF_E_DUPLICATE_KEY, 33},
    {"[{\"a\":\"\\u0000\"}]", "", DF_E_INVALID_TEXT, 7},
    {"\xEF\xBB\xBF[]", "", DF_E_MALFORMED_JSON, 0},
};

static void what_is_no_list_of_records_is_refused_at_its_byte(void **state)
{
    const struct df_json_reader_limits limits = {.max_depth = 3};
    struct df_buf out;

    (void)state;
    df_buf_init(&out, 65536);
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        struct df_str in = df_str_c(refused[i].text);
        for (size_t step = 1; step <= in.len + 1; step++) {
            struct df_err err = DF_ERR_INIT;
            enum df_code rc =
                read_all(in, step, DF_JSON_UNIQUE_KEYS | DF_JSON_NO_NUL, &limits, &out, &err);
            if (rc != refused[i].code || err.offset != refused[i].offset ||
                !df_str_eq(df_buf_str(&out), df_str_c(refused[i].records)))
                fail_msg("%s in steps of %zu: %s at %lld: %s\n%s", refused[i].text, step,
                         df_code_name(rc), (long long)err.offset, err.detail, df_buf_str(&out).ptr);
        }
    }
    df_buf_release(&out);
}

/* The object around the array does not stay in the window, and names in it are compared all the
 * same. */
static void names_around_the_array_are_compared_across_windows(void **state)
{
    static const struct {
        const char *text;
        enum df_code code;
        int64_t offset;
    } table[] = {
        {"{\"x\":[{\"id\":1,\"a name\":\"some text that is "
         "long\",\"id\":2}],\"items\":[{\"id\":1}]}",
         DF_E_DUPLICATE_KEY, 48},
        {"{\"x\":[{\"id\":1,\"a name\":\"some text that is "
         "long\",\"ie\":2}],\"items\":[{\"id\":1}]}",
         DF_DONE, -1},
        {"{\"x\":1,\"items\":[{\"id\":\"some text that is\"},{\"id\":2}],\"x\":\"0123456789\"}",
         DF_E_DUPLICATE_KEY, 53},
    };
    const struct df_json_reader_limits limits = {.max_record_bytes = 40};
    struct df_buf out;

    (void)state;
    df_buf_init(&out, 4096);
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct df_str in = df_str_c(table[i].text);
        for (size_t step = 1; step <= in.len; step++) {
            struct df_err err = DF_ERR_INIT;
            assert_int_equal(read_all(in, step, DF_JSON_UNIQUE_KEYS, &limits, &out, &err),
                             table[i].code);
            assert_int_equal(err.offset, table[i].offset);
        }
    }
    df_buf_release(&out);
}

static void a_byte_order_mark_is_skipped_once(void **state)
{
    struct df_buf out;
    struct df_err err = DF_ERR_INIT;

    (void)state;
    df_buf_init(&out, 4096);
    assert_int_equal(read_all(DF_STR("\xEF\xBB\xBF[{\"a\":1}]"), 1, DF_JSON_BOM, NULL, &out, &err),
                     DF_DONE);
    assert_int_equal(
        read_all(DF_STR("\xEF\xBB\xBF{}\n\xEF\xBB\xBF{}"), 1, DF_JSON_BOM, NULL, &out, &err),
        DF_E_MALFORMED_JSON);
    assert_int_equal(err.offset, 6);
    df_buf_release(&out);
}

/* `count` records of about `size` bytes in the given shape. */
static void make(struct df_buf *b, const char *open, const char *between, const char *close,
                 size_t count, size_t size)
{
    df_buf_reset(b);
    df_buf_addz(b, open);
    for (size_t i = 0; i < count; i++) {
        df_buf_addf(b, "%s{\"n\":%zu,\"t\":\"", i ? between : "", i);
        for (size_t k = 0; k + 10 < size; k += 10)
            df_buf_addz(b, k % 100 ? "caf\xC3\xA9 text" : "\\u00e9\\tab");
        df_buf_addz(b, "\"}");
    }
    df_buf_addz(b, close);
}

static void a_document_larger_than_the_window_passes_through(void **state)
{
    static const struct {
        const char *open, *between, *close;
        size_t count, size;
    } table[] = {
        {"[", ",", "]", 5000, 300},
        {"[\n", ",\n  ", "\n]\n", 9, 200000},
        {"{\"meta\":{\"a\":[1,2]},\"items\":[", ",", "],\"end\":true}", 5000, 300},
        {"", "\n", "\n", 5000, 300},
        {"", "\n", "", 9, 200000},
    };
    const struct df_json_reader_limits limits = {.max_record_bytes = 300000};
    struct df_buf text;

    (void)state;
    df_buf_init(&text, (size_t)16 << 20);
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        make(&text, table[i].open, table[i].between, table[i].close, table[i].count, table[i].size);
        for (size_t step = 777; step < 1000000; step *= 37) {
            struct memory m = {.rest = df_buf_str(&text), .step = step};
            struct df_json_reader *r = reader_of(&m, DF_JSON_UNIQUE_KEYS, &limits);
            const struct df_json_record *record;
            struct df_err err = DF_ERR_INIT;
            enum df_code rc;
            size_t n = 0;
            while ((rc = df_json_reader_next(r, &record, &err)) == DF_ROW) {
                int64_t number = -1;
                for (size_t f = 0; f < record->count; f++)
                    if (df_str_eq(record->fields[f].key, DF_STR("n")))
                        assert_true(df_json_to_i64(&record->fields[f], &number));
                assert_int_equal(number, n++);
            }
            if (rc != DF_DONE || n != table[i].count)
                fail_msg("%zu: %zu records, then %s", i, n, err.detail);
            df_json_reader_free(r);
        }
    }
    df_buf_release(&text);
}

static void a_record_over_the_limit_is_refused_and_one_at_the_limit_is_not(void **state)
{
    /* The record below has this many bytes. */
    static const struct {
        const char *format;
        int64_t offset;
    } table[] = {
        {"[{\"a\":1},%s]", 9}, {"{\"items\":[%s]}", 10}, {"{\"a\":1}\n%s\n", 8},
        {"%s\n", 0},           {"[   \n %s  \n ]", 6},
    };
    enum { SIZE = 100 };
    char record[SIZE + 1];

    (void)state;
    memset(record, 'x', SIZE);
    memcpy(record, "{\"r\":\"", 6);
    strcpy(record + SIZE - 2, "\"}");
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        char text[200];
        struct df_buf out;
        size_t len;
        df_buf_init(&out, 65536);
        df_buf_addf(&out, "%.*s%s%s", (int)(strchr(table[i].format, '%') - table[i].format),
                    table[i].format, record, strchr(table[i].format, '%') + 2);
        len = out.len;
        memcpy(text, out.ptr, len);
        for (size_t step = 1; step <= len; step++) {
            struct df_err err = DF_ERR_INIT;
            struct df_json_reader_limits limits = {.max_record_bytes = SIZE};
            assert_int_equal(read_all(df_str_n(text, len), step, 0, &limits, &out, &err), DF_DONE);
            limits.max_record_bytes = SIZE - 1;
            assert_int_equal(read_all(df_str_n(text, len), step, 0, &limits, &out, &err),
                             DF_E_TOO_LARGE);
            assert_int_equal(err.offset, table[i].offset);
        }
        df_buf_release(&out);
    }
}

static void fields_over_the_limit_are_refused(void **state)
{
    struct df_buf text, out;
    struct df_json_reader_limits limits = {.max_fields = 200};
    struct df_err err = DF_ERR_INIT;

    (void)state;
    df_buf_init(&text, 65536);
    df_buf_init(&out, 65536);
    df_buf_addz(&text, "[{}, {");
    for (int i = 0; i < 200; i++)
        df_buf_addf(&text, "%s\"f%d\":%d", i ? "," : "", i, i);
    df_buf_addz(&text, "}]");
    assert_int_equal(read_all(df_buf_str(&text), 10, 0, &limits, &out, &err), DF_DONE);
    assert_true(df_str_starts(df_buf_str(&out), DF_STR("\nf0=0;f1=1;")));
    assert_true(df_str_ends(df_buf_str(&out), DF_STR(";f198=198;f199=199;\n")));
    limits.max_fields = 199;
    assert_int_equal(read_all(df_buf_str(&text), 10, 0, &limits, &out, &err), DF_E_TOO_LARGE);
    assert_int_equal(err.offset, 5);
    df_buf_release(&text);
    df_buf_release(&out);
}

/* Around the array anything may be as large as it likes; only names must fit. */
static void what_stands_around_the_array_may_be_large(void **state)
{
    struct df_buf text, out;
    struct df_err err = DF_ERR_INIT;
    const struct df_json_reader_limits limits = {.max_record_bytes = 1000};

    (void)state;
    df_buf_init(&text, (size_t)4 << 20);
    df_buf_init(&out, 65536);
    df_buf_addz(&text, "{\"blob\":\"");
    for (int i = 0; i < 20000; i++)
        df_buf_addz(&text, "long text \\n");
    df_buf_addz(&text, "\",\"list\":[0");
    for (int i = 0; i < 100000; i++)
        df_buf_addz(&text, ",1");
    df_buf_addz(&text, "],\n\n\"items\":[{\"a\":1}]}");
    for (size_t step = 1000; step < 1000000; step *= 10)
        assert_int_equal(read_all(df_buf_str(&text), step, 0, &limits, &out, &err), DF_DONE);
    assert_string_equal(out.ptr, "a=1;\n");

    df_buf_reset(&text);
    df_buf_addz(&text, "{\"");
    for (int i = 0; i < 20000; i++)
        df_buf_addz(&text, "long name ");
    df_buf_addz(&text, "\":1,\"items\":[{}]}");
    assert_int_equal(read_all(df_buf_str(&text), 1000, 0, &limits, &out, &err), DF_E_TOO_LARGE);
    df_buf_release(&text);
    df_buf_release(&out);
}

static void white_space_without_end_takes_no_memory(void **state)
{
    struct df_buf text, out;
    struct df_err err = DF_ERR_INIT;
    const struct df_json_reader_limits limits = {.max_record_bytes = 1000};

    (void)state;
    df_buf_init(&text, (size_t)4 << 20);
    df_buf_init(&out, 65536);
    static const char *const pieces[] = {"", "[", "{\"a\":1}", ",", "{\"a\":2}", "]", ""};
    for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
        df_buf_addz(&text, pieces[i]);
        for (int k = 0; k < 200000; k++)
            df_buf_addc(&text, k % 7 ? ' ' : '\n');
    }
    assert_int_equal(read_all(df_buf_str(&text), 10000, 0, &limits, &out, &err), DF_DONE);
    assert_string_equal(out.ptr, "a=1;\na=2;\n");
    df_buf_release(&text);
    df_buf_release(&out);
}

/* A source that gives a byte at a time must not make the work grow with the square. */
static void a_large_record_is_not_scanned_at_every_byte(void **state)
{
    struct df_buf text, out;
    struct df_err err = DF_ERR_INIT;

    (void)state;
    df_buf_init(&text, (size_t)4 << 20);
    df_buf_init(&out, (size_t)4 << 20);
    make(&text, "[", ",", "]", 1, 900000);
    assert_int_equal(read_all(df_buf_str(&text), 1, 0, NULL, &out, &err), DF_DONE);
    df_buf_release(&text);
    df_buf_release(&out);
}

static void an_error_of_the_source_is_passed_on(void **state)
{
    static const char *const table[] = {"", "[", "[{\"a\":1},{\"a\"", "{\"a\":1", "{\"a\":1}\n"};

    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct memory m = {.rest = df_str_c(table[i]), .step = 3, .fail = DF_E_IO};
        struct df_json_reader *r = reader_of(&m, 0, NULL);
        const struct df_json_record *record;
        struct df_err err = DF_ERR_INIT;
        enum df_code rc;
        while ((rc = df_json_reader_next(r, &record, &err)) == DF_ROW)
            ;
        assert_int_equal(rc, DF_E_IO);
        assert_string_equal(err.detail, "the disk is gone");
        size_t reads = m.reads;
        assert_int_equal(df_json_reader_next(r, &record, &err), DF_E_IO);
        assert_int_equal(m.reads, reads);
        df_json_reader_free(r);
    }
    df_json_reader_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_come_out_of_every_shape),
        cmocka_unit_test(what_is_no_list_of_records_is_refused_at_its_byte),
        cmocka_unit_test(names_around_the_array_are_compared_across_windows),
        cmocka_unit_test(a_byte_order_mark_is_skipped_once),
        cmocka_unit_test(a_document_larger_than_the_window_passes_through),
        cmocka_unit_test(a_record_over_the_limit_is_refused_and_one_at_the_limit_is_not),
        cmocka_unit_test(fields_over_the_limit_are_refused),
        cmocka_unit_test(what_stands_around_the_array_may_be_large),
        cmocka_unit_test(white_space_without_end_takes_no_memory),
        cmocka_unit_test(a_large_record_is_not_scanned_at_every_byte),
        cmocka_unit_test(an_error_of_the_source_is_passed_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

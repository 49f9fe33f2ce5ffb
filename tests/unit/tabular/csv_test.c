#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "memory.h"

#include <stdio.h>
#include <stdlib.h>

static enum df_code read_all(struct df_str in, size_t step, const struct df_record_limits *limits,
                             struct df_buf *out, struct df_err *err)
{
    struct memory_file m = {.bytes = in, .step = step};
    struct df_bytes file = memory_bytes(&m);
    struct df_records_options opt = {0};
    struct df_records *r;
    struct df_record record;

    if (limits)
        opt.limits = *limits;
    df_buf_reset(out);
    enum df_code rc = df_csv_records_open(&file, &opt, &r, err);
    if (rc != DF_OK)
        return rc;
    while ((rc = r->ops->next(r, &record, err)) == DF_ROW)
        record_text(&record, out);
    assert_int_equal(r->ops->next(r, &record, err), rc);
    r->ops->free(r);
    return rc;
}

struct good {
    const char *why;
    struct df_str in;
    const char *out;
};

#define GOOD(why, in, out)                                                                         \
    {                                                                                              \
        why, DF_STR_INIT(in), out                                                                  \
    }

static const struct good good[] = {
    GOOD("comma", "a,b\n1,2\n3,4\n", "a=1;b=2;\na=3;b=4;\n"),
    GOOD("semicolon", "a;b\n1;2,5\n", "a=1;b=2,5;\n"),
    GOOD("tab", "a\tb\n1\t2\n", "a=1;b=2;\n"),
    GOOD("one column", "a\n1\n2\n", "a=1;\na=2;\n"),
    GOOD("as many of both: the rarer in names", "a, x;b\n1;2\n", "a, x=1;b=2;\n"),
    GOOD("separators in quotes do not count", "\"a,b,c\";d\n1;2\n", "a,b,c=1;d=2;\n"),
    GOOD("a quote in a name does not begin a quoted one", "tv 15\",b\n1,2\n", "tv 15\"=1;b=2;\n"),
    GOOD("Excel's first line", "sep=;\na,x;b\n1;2\n", "a,x=1;b=2;\n"),
    GOOD("in capitals, CRLF", "SEP=\t\r\na\tb\r\n1\t2\r\n", "a=1;b=2;\n"),
    GOOD("sep= is a name when it is no such line", "sep=;x\n1;2\n", "sep==1;x=2;\n"),
    GOOD("CRLF", "a,b\r\n1,2\r\n3,4\r\n", "a=1;b=2;\na=3;b=4;\n"),
    GOOD("CR alone", "a,b\r1,2\r3,4\r", "a=1;b=2;\na=3;b=4;\n"),
    GOOD("line ends mixed", "a,b\n1,2\r3,4\r\n5,6", "a=1;b=2;\na=3;b=4;\na=5;b=6;\n"),
    GOOD("no line end at the end", "a,b\n1,2", "a=1;b=2;\n"),
    GOOD("a separator at the end", "a,b\n1,", "a=1;\n"),
    GOOD("quotes", "a,b\n\"1\",\"2,3\"\n", "a=1;b=2,3;\n"),
    GOOD("two quotes are one", "a\n\"x \"\"y\"\" z\"\n\"\"\"\"\n", "a=x \"y\" z;\na=\";\n"),
    GOOD("a line break in quotes", "a,b\n\"1\n2\r\n3\",4\n", "a=1\n2\r\n3;b=4;\n"),
    GOOD("a quote inside is a character", "a,b\n1\"2,x\"y\"\n", "a=1\"2;b=x\"y\";\n"),
    GOOD("text after the closing quote is kept", "a,b\n\"1\"2,\"3\" \"4\n", "a=12;b=3 \"4;\n"),
    GOOD("quotes around nothing", "a,b\n\"\",1\n", "b=1;\n"),
    GOOD("blanks are kept", "a,b\n 1 , 2\n", "a= 1 ;b= 2;\n"),
    GOOD("quotes in names", "\"a\"\"b\",\"c\nd\"\n1,2\n", "a\"b=1;c\nd=2;\n"),
    GOOD("names are trimmed", " a , b \n1,2\n", "a=1;b=2;\n"),
    GOOD("names that are missing", "a,,\" \",d\n1,2,3,4\n", "a=1;Column B=2;Column C=3;d=4;\n"),
    GOOD("a name again", "a,a,a (2),a\n1,2,3,4\n", "a=1;a (2)=2;a (2) (2)=3;a (3)=4;\n"),
    GOOD("names are told apart by case", "a,A\n1,2\n", "a=1;A=2;\n"),
    GOOD("short rows", "a,b,c\n1\n1,2\n", "a=1;\na=1;b=2;\n"),
    GOOD("long rows", "a\n1,2,3\n", "a=1;Column B=2;Column C=3;\n"),
    GOOD("long rows of two columns", "a,b\n1,2,3,4\n", "a=1;b=2;Column C=3;Column D=4;\n"),
    GOOD("Column B is another's name", "a,,Column B\n1,2,3\n", "a=1;Column B (2)=2;Column B=3;\n"),
    GOOD("Column C was there", "a,Column C\n1,2,3\n", "a=1;Column C=2;Column C (2)=3;\n"),
    GOOD("bars, when there is nothing else", "a|b\n1|2,5\n", "a=1;b=2,5;\n"),
    GOOD("bars in names", "a|x,b\n1,2\n", "a|x=1;b=2;\n"),
    GOOD("bars are said", "sep=|\na,x|b\n1|2\n", "a,x=1;b=2;\n"),
    GOOD("the end of a text under DOS", "a,b\r\n1,2\r\n\x1A\x1A", "a=1;b=2;\n"),
    GOOD("the same without a line end", "a,b\r\n1,2\x1A", "a=1;b=2;\n"),
    GOOD("empty lines before the names", "\n\r\n ,;\t\"\"\na,b\n1,2\n", "a=1;b=2;\n"),
    GOOD("empty lines between", "a,b\n1,2\n\n,\n3,4\n", "a=1;b=2;\n\n\na=3;b=4;\n"),
    GOOD("the first line is empty", "a,b\n\n3,4\n", "\na=3;b=4;\n"),
    GOOD("empty lines at the end", "a,b\n1,2\n\n,,\n\n", "a=1;b=2;\n"),
    GOOD("names only", "a,b\n", ""),
    GOOD("names without a line end", "a,b", ""),
    GOOD("nothing", "", ""),
    GOOD("nothing but lines", "\n\n;;\n", ""),
    GOOD("UTF-8", "nome\nJosé\n", "nome=José;\n"),
    GOOD("UTF-8 with its mark", "\xEF\xBB\xBFnome\nJosé\n", "nome=José;\n"),
    GOOD("a mark and quotes", "\xEF\xBB\xBF\"nome\",b\n1,2\n", "nome=1;b=2;\n"),
    GOOD("Windows-1252", "endere\xE7o\nJos\xE9\n", "endereço=José;\n"),
    GOOD("Windows-1252 in quotes", "a,b\n\"S\xE3o \"\"P\"\"\",\x80 5\n", "a=São \"P\";b=€ 5;\n"),
    GOOD("both in one file", "nome\nJosé\nJos\xE9\nJosé\n", "nome=José;\nnome=José;\nnome=José;\n"),
    GOOD("UTF-16 little",
         "\xFF\xFE"
         "a\0;\0b\0\n\0\xE9\0;\0"
         "2\0\n\0",
         "a=é;b=2;\n"),
    GOOD("UTF-16 big",
         "\xFE\xFF\0a\0;\0b\0\n\0\xE9\0;\0"
         "2\0\n",
         "a=é;b=2;\n"),
    GOOD("UTF-16 without a mark",
         "a\0\t\0b\0\n\0"
         "1\0\t\0"
         "2\0",
         "a=1;b=2;\n"),
    GOOD("UTF-16 pairs",
         "\xFF\xFE"
         "a\0\n\0\x3D\xD8\x42\xDE",
         "a=🙂;\n"),
};

/* Where the bytes are cut has no influence. */
static void test_what_is_read(void **state)
{
    static const size_t steps[] = {1, 2, 3, 7, 1 << 20};
    struct df_buf out;
    (void)state;

    df_buf_init(&out, 1 << 20);
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        for (size_t k = 0; k < sizeof(steps) / sizeof(steps[0]); k++) {
            struct df_err err = DF_ERR_INIT;
            enum df_code rc = read_all(good[i].in, steps[k], NULL, &out, &err);
            if (rc != DF_DONE || !df_str_eq(df_buf_str(&out), df_str_c(good[i].out)))
                fail_msg("%s, step %zu: %s\ngot  %s\nwant %s", good[i].why, steps[k], err.detail,
                         out.len ? out.ptr : "", good[i].out);
        }
    }
    df_buf_release(&out);
}

struct bad {
    struct df_str in;
    enum df_code code;
    const char *words;
};

static const struct bad bad[] = {
    {DF_STR_INIT("a,b\n1,2\n\"3,4\n5,6\n"), DF_E_VALIDATION,
     "the quote that opens in row 3 is never closed"},
    {DF_STR_INIT("\"a,b\n1,2\n"), DF_E_VALIDATION, "the quote that opens in row 1"},
    {DF_STR_INIT("\n\na,b\n1,2\n1,\"2"), DF_E_VALIDATION, "the quote that opens in row 5"},
    {DF_STR_INIT("a,b\n1,\0\n"), DF_E_INVALID_TEXT, "row 2: a NUL"},
    {DF_STR_INIT("a,b,\0\n"), DF_E_INVALID_TEXT, "row 1: a NUL"},
    {DF_STR_INIT("a,b\n1,é\0\n"), DF_E_INVALID_TEXT, "row 2: a NUL"},
    {DF_STR_INIT("a,b\n1,\x81\n"), DF_E_INVALID_TEXT, "row 2: neither UTF-8 nor Windows-1252"},
    {DF_STR_INIT("\xEF\xBB\xBF"
                 "a,b\n1,2\n1,Jos\xE9\n"),
     DF_E_INVALID_TEXT, "row 3: not UTF-8"},
    {DF_STR_INIT("\xFF\xFE"
                 "a\0\n\0b"),
     DF_E_INVALID_TEXT, "in the middle of a character"},
    {DF_STR_INIT("a,b\n1,2,3,4,5,6,7,8,9\n"), DF_E_TOO_LARGE, "row 2 has more than 8 fields"},
    {DF_STR_INIT("a,b,c,d,e,f,g,h,i\n"), DF_E_TOO_LARGE, "row 1 has more than 8 fields"},
    {DF_STR_INIT("a\n1\n2\n3\n4\n5\n6\n"), DF_E_TOO_LARGE, "more than 5 records"},
    {DF_STR_INIT("a\n\n\n\n\n\n6\n"), DF_E_TOO_LARGE, "more than 5 records"},
    {DF_STR_INIT("a\n12345678901234567890123\n"), DF_E_TOO_LARGE, "row 2 has a cell over 22 bytes"},
    {DF_STR_INIT("a,b\n1234567890,12345678901234567890,1234567\n"), DF_E_TOO_LARGE,
     "row 2 is larger than 32 bytes"},
};

static void test_what_is_refused_and_why(void **state)
{
    static const struct df_record_limits limits = {
        .max_records = 5, .max_fields = 8, .max_string_bytes = 22, .max_record_bytes = 32};
    struct df_buf out;
    (void)state;

    df_buf_init(&out, 1 << 20);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        for (size_t step = 1; step < 64; step *= 3) {
            struct df_err err = DF_ERR_INIT;
            enum df_code rc = read_all(bad[i].in, step, &limits, &out, &err);
            if (rc != bad[i].code || !strstr(err.detail, bad[i].words))
                fail_msg("%zu: got %s: %s, want %s", i, df_code_name(rc), err.detail, bad[i].words);
        }
    }
    df_buf_release(&out);
}

/* A quote left open in a long file must not be read to its end in memory. */
static void test_a_quote_left_open_is_found_at_the_limit(void **state)
{
    size_t len = (size_t)8 << 20;
    char *text = malloc(len);
    struct df_err err = DF_ERR_INIT;
    struct df_buf out;
    (void)state;

    assert_non_null(text);
    memset(text, 'x', len);
    memcpy(text, "a,b\n1,\"", 7);
    df_buf_init(&out, 1 << 20);
    assert_int_equal(read_all(df_str_n(text, len), 100000, NULL, &out, &err), DF_E_TOO_LARGE);
    assert_string_equal(err.detail,
                        "row 2 is larger than 1048576 bytes; is a quote in it never closed?");
    memset(text, ';', len);
    assert_int_equal(read_all(df_str_n(text, len), 100000, NULL, &out, &err), DF_E_TOO_LARGE);
    df_buf_release(&out);
    free(text);
}

static void test_a_row_as_long_as_the_limit_is_read(void **state)
{
    struct df_record_limits limits = {.max_record_bytes = 700000};
    struct df_err err = DF_ERR_INIT;
    struct df_buf in, out;
    (void)state;

    df_buf_init(&in, 4 << 20);
    df_buf_init(&out, 4 << 20);
    for (int row = 0; row < 3; row++) {
        df_buf_addz(&in, row ? "\n\"" : "a\n\"");
        for (size_t i = 0; i < 700000 - 3; i++)
            df_buf_addc(&in, (char)('a' + i % 26));
        df_buf_addc(&in, '"');
    }
    df_buf_addc(&in, '\n');
    assert_int_equal(read_all(df_buf_str(&in), 4096, &limits, &out, &err), DF_DONE);
    assert_int_equal(out.len, 3 * (700000 - 3 + 4));
    limits.max_record_bytes--;
    assert_int_equal(read_all(df_buf_str(&in), 4096, &limits, &out, &err), DF_E_TOO_LARGE);
    df_buf_release(&in);
    df_buf_release(&out);
}

/* All columns of one name, which a lookup one by one would take minutes for. */
static void test_thousands_of_columns_of_one_name(void **state)
{
    struct df_err err = DF_ERR_INIT;
    struct df_buf in, out;
    (void)state;

    df_buf_init(&in, 4 << 20);
    df_buf_init(&out, 4 << 20);
    for (int i = 0; i < 4096; i++)
        df_buf_addz(&in, i ? ",a" : "a");
    df_buf_addz(&in, "\n");
    for (int i = 0; i < 4095; i++)
        df_buf_addc(&in, ',');
    df_buf_addz(&in, "x\n");
    assert_int_equal(read_all(df_buf_str(&in), 1 << 20, NULL, &out, &err), DF_DONE);
    assert_string_equal(out.ptr, "a (4096)=x;\n");
    df_buf_release(&in);
    df_buf_release(&out);
}

static void test_an_error_of_the_disk_is_passed_on(void **state)
{
    struct memory_file m = {DF_STR_INIT("a,b\n1,2\n3"), 4, DF_E_IO};
    struct df_bytes file = memory_bytes(&m);
    struct df_err err = DF_ERR_INIT;
    struct df_records *r;
    struct df_record record;
    (void)state;

    assert_int_equal(df_csv_records_open(&file, NULL, &r, &err), DF_OK);
    assert_int_equal(r->ops->next(r, &record, &err), DF_ROW);
    assert_int_equal(r->ops->next(r, &record, &err), DF_E_IO);
    assert_string_equal(err.detail, "the disk is gone");
    r->ops->free(r);
}

/* What error reports put before a formula is taken off once; nothing else is. */
static void test_the_guard_against_formulas_is_taken_off(void **state)
{
    static const struct {
        const char *cell, *read, *in_report;
    } cells[] = {
        {"'=1", "=1", "'=1"},
        {"\"'=1\"", "=1", "'=1"},
        {"''=1", "'=1", "''=1"},
        {"'@x", "@x", "'@x"},
        {"'-x", "-x", "'-x"},
        {"\"'\n=1\"", "\n=1", "'\n=1"},
        {"'\xEF\xBC\x9D\x31", "\xEF\xBC\x9D\x31", "'\xEF\xBC\x9D\x31"},
        {"'\xEF\xBC\x8Bx", "\xEF\xBC\x8Bx", "'\xEF\xBC\x8Bx"},
        {"'\xEF\xBC\x8Dx", "\xEF\xBC\x8Dx", "'\xEF\xBC\x8Dx"},
        {"'\xEF\xBC\xA0", "\xEF\xBC\xA0", "'\xEF\xBC\xA0"},
        {"'", "'", "'"},
        {"'x", "'x", "'x"},
        {"'+5511912345678", "'+5511912345678", "'+5511912345678"},
        {"'11912345678", "'11912345678", "'11912345678"},
        {"x'=1", "x'=1", "x'=1"},
        {"'\xEF\xBC", "'\xC3\xAF\xC2\xBC", "'\xC3\xAF\xC2\xBC"}, /* Windows-1252 */
    };
    (void)state;

    for (size_t i = 0; i < sizeof(cells) / sizeof(cells[0]); i++) {
        for (int unguard = 0; unguard <= 1; unguard++) {
            char text[64];
            int len = snprintf(text, sizeof(text), "a;b\n%s;1\n", cells[i].cell);
            struct memory_file m = {.bytes = df_str_n(text, (size_t)len), .step = 64};
            struct df_bytes file = memory_bytes(&m);
            struct df_records_options opt = {.unguard = unguard};
            const char *want = unguard ? cells[i].read : cells[i].in_report;
            struct df_err err = DF_ERR_INIT;
            struct df_records *r;
            struct df_record record;

            assert_int_equal(df_csv_records_open(&file, &opt, &r, &err), DF_OK);
            assert_int_equal(df_records_next(r, &record, &err), DF_ROW);
            if (!df_str_eq(record.fields[0].text, df_str_c(want)))
                fail_msg("%s: %.*s", cells[i].cell, DF_STR_ARG(record.fields[0].text));
            assert_int_equal(r->unguarded, unguard && strcmp(want, cells[i].in_report) != 0);
            df_records_free(r);
        }
    }
}

/* The two columns that an error report adds are left out, wherever they stand, in any spelling. */
static void test_the_columns_of_a_report_are_left_out(void **state)
{
    static const struct {
        const char *header;
        const char *names; /* of the record, when they are left out */
    } files[] = {
        {"a;b;DataFlow Sequence;DataFlow Error", "a b"},
        {"DataFlow Sequence;a;DataFlow Error;b", "a b"},
        {"dataflow_sequence;DATAFLOW ERROR;a;b", "a b"},
        {" DataFlow Error ;DataFlow Error;a;b", "DataFlow Error (2) a b"},
        {"DataFlow;Error;Sequence;DataFlow Errors", "DataFlow Error Sequence DataFlow Errors"},
        {"Sequence;ErrorMessage;a;b", "Sequence ErrorMessage a b"},
        {"DataFlow Error;DataFlow Sequence;dataflowerror;Data Flow - Sequence", ""},
    };
    (void)state;

    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        for (int drop = 0; drop <= 1; drop++) {
            char text[256], names[256] = "";
            int len = snprintf(text, sizeof(text), "%s\n1;2;3;4\n", files[i].header);
            struct memory_file m = {.bytes = df_str_n(text, (size_t)len), .step = 64};
            struct df_bytes file = memory_bytes(&m);
            struct df_records_options opt = {.drop_own = drop};
            struct df_err err = DF_ERR_INIT;
            struct df_records *r;
            struct df_record record;

            assert_int_equal(df_records_open(DF_FILE_CSV, &file, &opt, &r, &err), DF_OK);
            assert_int_equal(df_records_next(r, &record, &err), DF_ROW);
            for (size_t k = 0; k < record.count; k++)
                (void)snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s%.*s",
                               k ? " " : "", DF_STR_ARG(record.fields[k].name));
            if (drop)
                assert_string_equal(names, files[i].names);
            else
                assert_int_equal(record.count, 4);
            assert_int_equal(r->dropped, drop && record.count < 4);
            assert_int_equal(r->columns->count, 4);
            df_records_free(r);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_read),
        cmocka_unit_test(test_the_columns_of_a_report_are_left_out),
        cmocka_unit_test(test_what_is_refused_and_why),
        cmocka_unit_test(test_a_quote_left_open_is_found_at_the_limit),
        cmocka_unit_test(test_a_row_as_long_as_the_limit_is_read),
        cmocka_unit_test(test_thousands_of_columns_of_one_name),
        cmocka_unit_test(test_an_error_of_the_disk_is_passed_on),
        cmocka_unit_test(test_the_guard_against_formulas_is_taken_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

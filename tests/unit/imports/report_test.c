/* Error reports as files: what is written for which rows, without a database. */
#include "imports/api/report.h"

#include "base/buf.h"
#include "base/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

struct rows {
    const struct df_report_row *rows;
    size_t count;
    size_t at;
    size_t repeat; /* the last row, so often */
    enum df_code end;
};

static enum df_code next(void *arg, struct df_report_row *ret, struct df_err *err)
{
    struct rows *r = arg;
    if (r->at >= r->count + r->repeat)
        return r->end == DF_DONE ? DF_DONE : df_err_set(err, r->end, "as the test wants it");
    size_t i = r->at < r->count ? r->at : r->count - 1;
    *ret = r->rows[i];
    ret->sequence = (int64_t)r->at++;
    return DF_ROW;
}

/* What was written; the caller frees it. */
static char *make(enum df_report_format format, struct rows *r, size_t *ret_len)
{
    struct df_report_source source = {.next = next, .arg = r};
    struct df_err err = DF_ERR_INIT;
    uint64_t size = 0;
    int fd = -1;

    assert_int_equal(df_report_make(format, &source, "/tmp", &fd, &size, &err), DF_OK);
    char *text = df_malloc(size + 1);
    assert_int_equal(pread(fd, text, size, 0), (ssize_t)size);
    text[size] = '\0';
    close(fd);
    if (ret_len)
        *ret_len = size;
    return text;
}

#define HEAD "\xEF\xBB\xBFSequence,ErrorMessage,PhoneNumber,Origin"

static void nothing_failed(void **state)
{
    (void)state;
    struct rows none = {.end = DF_DONE};
    char *text = make(DF_REPORT_CSV, &none, NULL);
    assert_string_equal(text, HEAD ",PropertyContextJson\r\n");
    free(text);
    text = make(DF_REPORT_JSON, &none, NULL);
    assert_string_equal(text, "[]\n");
    free(text);
    size_t len = 0;
    text = make(DF_REPORT_XLSX, &none, &len);
    assert_true(len > 1000);
    assert_memory_equal(text, "PK", 2);
    free(text);
}

static void payloads_of_every_kind(void **state)
{
    (void)state;
    static const struct {
        const char *payload;
        const char *line; /* after the head */
    } cases[] = {
        {"{\"PhoneNumber\":\"1\",\"Origin\":null,\"LeadContextJson\":null}", "0,e,1,,\r\n"},
        {"{\"PhoneNumber\":5,\"Origin\":\"a,b\"}", "0,e,5,\"a,b\",\r\n"},
        {"{\"LeadContextJson\":{\"x\":\"\\u00e9\\n\"}}", "0,e,,,\"\xC3\xA9\n\",\r\n"},
        {"{\"LeadContextJson\":{\"x\":[1, 2]},\"PropertyContextJson\":{\"a\":\"b\"}}",
         "0,e,,,\"[1, 2]\",\"{\"\"a\"\":\"\"b\"\"}\"\r\n"},
        {"{\"LeadContextJson\":\"text\"}", "0,e,,,,text\r\n"},
        {"[1]", "0,e,,,,[1]\r\n"},
        {"{\"a\":1,\"a\":2}", "0,e,,,,\"{\"\"a\"\":1,\"\"a\"\":2}\"\r\n"},
        {"", "0,e,,,,\r\n"},
        {NULL, "0,e,,,\r\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct df_report_row row = {.error = DF_STR("e"), .payload = df_str_c(cases[i].payload)};
        struct rows one = {.rows = &row, .count = 1, .end = DF_DONE};
        char *text = make(DF_REPORT_CSV, &one, NULL);
        assert_string_equal(strstr(text, "\r\n") + 2, cases[i].line);
        free(text);
        one.at = 0;
        free(make(DF_REPORT_XLSX, &one, NULL));
        one.at = 0;
        free(make(DF_REPORT_JSON, &one, NULL));
    }
}

static void more_rows_than_a_sheet_has(void **state)
{
    (void)state;
    struct df_report_row row = {.error = DF_STR("e")};
    struct rows many = {
        .rows = &row, .count = 1, .repeat = DF_REPORT_SHEET_ROWS + 10, .end = DF_DONE};
    size_t len = 0;
    char *text = make(DF_REPORT_XLSX, &many, &len);
    assert_non_null(memmem(text, len, "xl/worksheets/sheet2.xml", 24));
    assert_null(memmem(text, len, "xl/worksheets/sheet3.xml", 24));
    free(text);
}

static void an_error_of_the_source_is_handed_on(void **state)
{
    (void)state;
    struct df_report_row row = {.error = DF_STR("e"), .payload = DF_STR("{}")};
    for (int format = DF_REPORT_JSON; format <= DF_REPORT_XLSX; format++) {
        struct rows some = {.rows = &row, .count = 1, .end = DF_E_DB_UNAVAILABLE};
        struct df_report_source source = {.next = next, .arg = &some};
        struct df_err err = DF_ERR_INIT;
        uint64_t size = 7;
        int fd = -7;
        assert_int_equal(
            df_report_make((enum df_report_format)format, &source, "/tmp", &fd, &size, &err),
            DF_E_DB_UNAVAILABLE);
        assert_int_equal(fd, -7);
        assert_int_equal(size, 7);
    }
}

static void a_directory_that_is_not_there(void **state)
{
    (void)state;
    for (int format = DF_REPORT_JSON; format <= DF_REPORT_XLSX; format++) {
        struct rows none = {.end = DF_DONE};
        struct df_report_source source = {.next = next, .arg = &none};
        struct df_err err = DF_ERR_INIT;
        uint64_t size;
        int fd;
        assert_int_equal(df_report_make((enum df_report_format)format, &source, "/nonexistent", &fd,
                                        &size, &err),
                         DF_E_IO);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_failed),
        cmocka_unit_test(payloads_of_every_kind),
        cmocka_unit_test(more_rows_than_a_sheet_has),
        cmocka_unit_test(an_error_of_the_source_is_handed_on),
        cmocka_unit_test(a_directory_that_is_not_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

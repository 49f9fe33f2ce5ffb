/* Error reports as files: what is written for which rows, without a database. */
#include "imports/api/report.h"

#include "base/buf.h"
#include "base/mem.h"
#include "scratch.h"

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
    const char *columns; /* of the file; NULL: not known */
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
    struct df_report_source source = {.next = next, .arg = r, .columns = df_str_c(r->columns)};
    struct df_err err = DF_ERR_INIT;
    uint64_t size = 0;
    int fd = -1;

    assert_int_equal(df_report_make(format, &source, scratch_dir(), &fd, &size, &err), DF_OK);
    char *text = df_malloc(size + 1);
    assert_int_equal(pread(fd, text, size, 0), (ssize_t)size);
    text[size] = '\0';
    close(fd);
    if (ret_len)
        *ret_len = size;
    return text;
}

#define BOM "\xEF\xBB\xBF"
#define OWN "DataFlow Sequence,DataFlow Error\r\n"

static void nothing_failed(void **state)
{
    (void)state;
    struct rows none = {.end = DF_DONE};
    char *text = make(DF_REPORT_CSV, &none, NULL);
    assert_string_equal(text, BOM OWN);
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

static void records_of_every_kind(void **state)
{
    (void)state;
    static const struct {
        const char *record;
        const char *csv;
        const char *json;
    } cases[] = {
        {"{\"Fone\":\"1\",\"Nome\":null}", "Fone,Nome," OWN "1,,0,e\r\n",
         "{\"Fone\":\"1\",\"Nome\":null,"},
        {"{\"Fone\":5,\"Nome\":\"a,b\"}", "Fone,Nome," OWN "5,\"a,b\",0,e\r\n",
         "{\"Fone\":5,\"Nome\":\"a,b\","},
        {"{\"x\":\" \\u00e9\\n\"}", "x," OWN "\" \xC3\xA9\n\",0,e\r\n", "{\"x\":\" \\u00e9\\n\","},
        {"{\"x\":[1, 2],\"y\":{\"a\":\"b\"}}",
         "x,y," OWN "\"[1, 2]\",\"{\"\"a\"\":\"\"b\"\"}\",0,e\r\n",
         "{\"x\":[1, 2],\"y\":{\"a\":\"b\"},"},
        {"{\"x\":\"=1+1\"}", "x," OWN "\"'=1+1\",0,e\r\n", "{\"x\":\"=1+1\","},
        {"[1]", "LeadContextJson," OWN "[1],0,e\r\n", "{"},
        {"{\"a\":", "LeadContextJson," OWN "\"{\"\"a\"\":\",0,e\r\n", "{"},
        {"{}", OWN "0,e\r\n", "{"},
        {"", "LeadContextJson," OWN ",0,e\r\n", "{"},
        {NULL, OWN "0,e\r\n", "{"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct df_report_row row = {.error = DF_STR("e"), .record = df_str_c(cases[i].record)};
        struct rows one = {.rows = &row, .count = 1, .end = DF_DONE};
        char want[256];
        char *text = make(DF_REPORT_CSV, &one, NULL);
        assert_string_equal(text + 3, cases[i].csv);
        free(text);
        one.at = 0;
        free(make(DF_REPORT_XLSX, &one, NULL));
        one.at = 0;
        text = make(DF_REPORT_JSON, &one, NULL);
        (void)snprintf(want, sizeof want,
                       "[\n%s\"DataFlow Sequence\":0,\"DataFlow Error\":\"e\"}\n]\n",
                       cases[i].json);
        assert_string_equal(text, want);
        free(text);
    }
}

/* Repeated and empty headers stand as in the file; a column that no failed row has is there too. */
static void columns_of_the_file(void **state)
{
    (void)state;
    static const struct {
        const char *columns;
        const char *csv;
    } cases[] = {
        {"[[\"Fone\",\"Fone\"],[\"Fone (2)\",\"Fone\"],[\"Column C\",\"\"],[\"Nome\",\"Nome\"]]",
         "Fone,Fone,,Nome," OWN "1,2,3,,0,e\r\n"},
        {"[[\"Fone (2)\",\"Fone\"]]", "Fone,Fone,Column C," OWN "2,1,3,0,e\r\n"},
        {"[]", "Fone,Fone (2),Column C," OWN "1,2,3,0,e\r\n"},
        {"{}", "Fone,Fone (2),Column C," OWN "1,2,3,0,e\r\n"},
        {"[1,[],[\"a\"],[1,2],", "Fone,Fone (2),Column C," OWN "1,2,3,0,e\r\n"},
        {"[1,[],[\"a\"],[1,2]]", "Fone,Fone (2),Column C," OWN "1,2,3,0,e\r\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct df_report_row row = {
            .error = DF_STR("e"),
            .record = DF_STR("{\"Fone\":\"1\",\"Fone (2)\":\"2\",\"Column C\":\"3\"}")};
        struct rows one = {.rows = &row, .count = 1, .end = DF_DONE, .columns = cases[i].columns};
        char *text = make(DF_REPORT_CSV, &one, NULL);
        assert_string_equal(text + 3, cases[i].csv);
        free(text);
    }
}

static void more_members_than_columns(void **state)
{
    (void)state;
    struct df_buf record;
    df_buf_init(&record, 1 << 20);
    df_buf_addz(&record, "{");
    for (int i = 0; i < DF_REPORT_MEMBERS + 1; i++)
        df_buf_addf(&record, "%s\"m%d\":%d", i ? "," : "", i, i);
    df_buf_addz(&record, "}");
    struct df_report_row row = {.error = DF_STR("e"), .record = df_buf_str(&record)};
    struct rows one = {.rows = &row, .count = 1, .end = DF_DONE};
    char *text = make(DF_REPORT_CSV, &one, NULL);
    assert_non_null(strstr(text, ",m4095,LeadContextJson," OWN));
    assert_non_null(strstr(text, ",4095,\"{\"\"m4096\"\":4096}\",0,e\r\n"));
    free(text);
    df_buf_release(&record);
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
    struct df_report_row row = {.error = DF_STR("e"), .record = DF_STR("{}")};
    for (int format = DF_REPORT_JSON; format <= DF_REPORT_XLSX; format++) {
        struct rows some = {.rows = &row, .count = 1, .end = DF_E_DB_UNAVAILABLE};
        struct df_report_source source = {.next = next, .arg = &some};
        struct df_err err = DF_ERR_INIT;
        uint64_t size = 7;
        int fd = -7;
        assert_int_equal(
            df_report_make((enum df_report_format)format, &source, scratch_dir(), &fd, &size, &err),
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
        cmocka_unit_test(records_of_every_kind),
        cmocka_unit_test(columns_of_the_file),
        cmocka_unit_test(more_members_than_columns),
        cmocka_unit_test(more_rows_than_a_sheet_has),
        cmocka_unit_test(an_error_of_the_source_is_handed_on),
        cmocka_unit_test(a_directory_that_is_not_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "memory.h"

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
    enum df_code rc = df_json_records_open(&file, &opt, &r, err);
    if (rc != DF_OK)
        return rc;
    while ((rc = r->ops->next(r, &record, err)) == DF_ROW)
        record_text(&record, out);
    assert_int_equal(r->ops->next(r, &record, err), rc);
    r->ops->free(r);
    return rc;
}

static void check(struct df_str in, enum df_code want_code, const char *want)
{
    static const struct df_record_limits limits = {
        .max_records = 3, .max_fields = 6, .max_string_bytes = 100};
    struct df_buf out;

    df_buf_init(&out, 1 << 20);
    for (size_t step = 1; step < 1000; step *= 5) {
        struct df_err err = DF_ERR_INIT;
        enum df_code rc = read_all(in, step, &limits, &out, &err);
        const char *got = rc == DF_DONE ? (out.len ? out.ptr : "") : err.detail;
        if (rc != want_code || (rc == DF_DONE ? strcmp(got, want) != 0 : !strstr(got, want)))
            fail_msg("%.*s: got %s %s, want %s", DF_STR_ARG(in), df_code_name(rc), got, want);
    }
    df_buf_release(&out);
}

static void test_members_become_fields(void **state)
{
    (void)state;
    check(
        DF_STR(
            "[{\"a\":\"x\\n\\u00e9\",\"b\":1.50,\"c\":true,\"d\":false,\"e\":null,\"f\":[1, 2]}]"),
        DF_DONE, "a=x\né;b=<1.50>;c=<true>;d=<false>;e=<>;f=<[1, 2]>;\n");
    check(DF_STR("{\"a\":1}\n{\"a\":{\"b\":2}}\n"), DF_DONE, "a=<1>;\na=<{\"b\":2}>;\n");
    check(DF_STR("{\"leads\":[{\"a\":\"\"},{}]}"), DF_DONE, "a=;\n\n");
    check(DF_STR("\xEF\xBB\xBF[{\"a\":1}]"), DF_DONE, "a=<1>;\n");
    check(DF_STR("[]"), DF_DONE, "");
}

static void test_what_is_refused_and_why(void **state)
{
    (void)state;
    check(DF_STR("[{\"a\":1,\"a\":2}]"), DF_E_DUPLICATE_KEY, "");
    check(DF_STR("[{\"a\":\"\\u0000\"}]"), DF_E_INVALID_TEXT, "");
    check(DF_STR("[{\"a\":\"\xE9\"}]"), DF_E_INVALID_TEXT, "");
    check(DF_STR("[{\"a\":1}"), DF_E_MALFORMED_JSON, "");
    check(DF_STR("\xFF\xFE[\0]\0"), DF_E_INVALID_TEXT, "must be saved as UTF-8");
    check(DF_STR("\xFE\xFF\0[\0]"), DF_E_INVALID_TEXT, "must be saved as UTF-8");
    check(DF_STR("[\0]\0"), DF_E_INVALID_TEXT, "must be saved as UTF-8");
    check(DF_STR("\0\0\0[\0\0\0]"), DF_E_INVALID_TEXT, "must be saved as UTF-8");
    check(DF_STR("[{},{},{},{}]"), DF_E_TOO_LARGE, "more than 3 records");
    check(DF_STR("[{\"a\":1,\"b\":1,\"c\":1,\"d\":1,\"e\":1,\"f\":1,\"g\":1}]"), DF_E_TOO_LARGE,
          "more than 6 fields");
    check(DF_STR("[{\"a\":\"1234567890123456789012345678901234567890123456789012345678901234567890"
                 "1234567890123456789012345678901\"}]"),
          DF_E_TOO_LARGE, "record 1: more than 100 bytes in a value");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_members_become_fields),
        cmocka_unit_test(test_what_is_refused_and_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

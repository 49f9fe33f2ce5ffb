/* The JSON of OTLP, byte by byte, and what is read of an answer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "telemetry/otlp.h"
#include "telemetry/settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRACE    "0af7651916cd43dd8448eb211c80319c"
#define SPAN     "b7ad6b7169203331"
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

#define HEAD                                                                                       \
    "{\"resourceSpans\":[{\"resource\":{\"attributes\":["                                          \
    "{\"key\":\"service.name\",\"value\":{\"stringValue\":\"df\"}},"                               \
    "{\"key\":\"service.version\",\"value\":{\"stringValue\":\"1.2\"}},"                           \
    "{\"key\":\"service.instance.id\",\"value\":{\"stringValue\":\"i-1\"}}]},"                     \
    "\"scopeSpans\":[{\"scope\":{\"name\":\"dataflow\",\"version\":\"1.2\"},\"spans\":["
#define TAIL  "]}]}]}"
#define BEGIN "{\"traceId\":\"" TRACE "\",\"spanId\":\"" SPAN "\","

static const struct df_otlp_resource who = {
    .service_name = {"df", 2}, .service_version = {"1.2", 3}, .service_instance_id = {"i-1", 3}};

static struct df_span_attr attrs[] = {
    {.key = "http.route", .type = DF_SPAN_IS_TEXT, .text = {"a\"\n\xC3\xA9\x01", 6}},
    {.key = "n", .type = DF_SPAN_IS_INT, .number = INT64_MIN},
    {.key = "yes", .type = DF_SPAN_IS_BOOL, .number = 1},
    {.key = "empty", .type = DF_SPAN_IS_TEXT},
};

static const struct {
    struct df_span_record span;
    const char *json;
} table[] = {
    {{.trace_id = TRACE,
      .span_id = SPAN,
      .kind = DF_SPAN_INTERNAL,
      .start_ns = 1,
      .end_ns = INT64_MAX,
      .name = {"x", 1}},
     BEGIN "\"flags\":1,\"name\":\"x\",\"kind\":1,\"startTimeUnixNano\":\"1\","
           "\"endTimeUnixNano\":\"9223372036854775807\",\"attributes\":[],\"status\":{}}"},
    {{.trace_id = TRACE,
      .span_id = SPAN,
      .parent_id = "00000000000000aa",
      .link_trace_id = "11111111111111111111111111111111",
      .link_span_id = "2222222222222222",
      .kind = DF_SPAN_CONSUMER,
      .status = DF_SPAN_ERROR,
      .start_ns = INT64_C(1700000000000000001),
      .end_ns = INT64_C(1700000000000000002),
      .name = {"GET /a", 6},
      .message = {"why \\", 5},
      .attrs = attrs,
      .attr_count = COUNT(attrs)},
     BEGIN
     "\"parentSpanId\":\"00000000000000aa\",\"flags\":1,\"name\":\"GET /a\",\"kind\":5,"
     "\"startTimeUnixNano\":\"1700000000000000001\",\"endTimeUnixNano\":\"1700000000000000002\","
     "\"attributes\":[{\"key\":\"http.route\",\"value\":{\"stringValue\":"
     "\"a\\\"\\n\xC3\xA9\\u0001\"}},"
     "{\"key\":\"n\",\"value\":{\"intValue\":\"-9223372036854775808\"}},"
     "{\"key\":\"yes\",\"value\":{\"boolValue\":true}},"
     "{\"key\":\"empty\",\"value\":{\"stringValue\":\"\"}}],"
     "\"links\":[{\"traceId\":\"11111111111111111111111111111111\",\"spanId\":\"2222222222222222\"}"
     "],"
     "\"status\":{\"code\":2,\"message\":\"why \\\\\"}}"},
    {{.trace_id = TRACE,
      .span_id = SPAN,
      .kind = DF_SPAN_SERVER,
      .status = DF_SPAN_OK,
      .start_ns = 5,
      .end_ns = 5,
      .name = {"y", 1}},
     BEGIN "\"flags\":1,\"name\":\"y\",\"kind\":2,\"startTimeUnixNano\":\"5\","
           "\"endTimeUnixNano\":\"5\",\"attributes\":[],\"status\":{\"code\":1}}"},
};

static void spans_are_written_exactly(void **state)
{
    (void)state;
    struct df_span_record spans[COUNT(table)], *all[COUNT(table)];
    struct df_buf out, want;

    df_buf_init(&out, DF_OTLP_BODY_MAX);
    df_buf_init(&want, DF_OTLP_BODY_MAX);
    df_buf_addz(&want, HEAD);
    for (size_t i = 0; i < COUNT(table); i++) {
        spans[i] = table[i].span;
        all[i] = &spans[i];
        df_buf_addf(&want, "%s%s", i ? "," : "", table[i].json);
    }
    df_buf_addz(&want, TAIL);
    assert_int_equal(df_otlp_write(&who, all, COUNT(table), &out), COUNT(table));
    assert_string_equal(df_buf_str(&out).ptr, df_buf_str(&want).ptr);
    df_buf_release(&out);
    df_buf_release(&want);
}

static void a_batch_is_bounded_in_spans_and_bytes(void **state)
{
    (void)state;
    char text[DF_SPAN_TEXT];
    struct df_span_attr big[DF_SPAN_ATTRS];
    struct df_span_record span = table[0].span, large = span;
    struct df_span_record *all[2 * DF_OTLP_BATCH_SPANS];
    struct df_buf out;

    df_buf_init(&out, DF_OTLP_BODY_MAX);
    for (size_t i = 0; i < COUNT(all); i++)
        all[i] = &span;
    assert_int_equal(df_otlp_write(&who, all, COUNT(all), &out), DF_OTLP_BATCH_SPANS);
    memset(text, 1, sizeof(text)); /* six bytes each */
    for (size_t i = 0; i < DF_SPAN_ATTRS; i++)
        big[i] = (struct df_span_attr){.key = "a.key", .text = df_str_n(text, sizeof(text))};
    large.attrs = big;
    large.attr_count = DF_SPAN_ATTRS;
    large.name = large.message = df_str_n(text, sizeof(text));
    for (size_t i = 0; i < COUNT(all); i++)
        all[i] = &large;
    size_t n = df_otlp_write(&who, all, COUNT(all), &out);
    assert_in_range(n, 1, DF_OTLP_BATCH_SPANS - 1);
    assert_false(df_buf_failed(&out));
    assert_true(out.len >= DF_OTLP_BATCH_BYTES);
    df_buf_release(&out);
}

static void answers(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        int64_t rejected;
        const char *message;
    } cases[] = {
        {"", 0, ""},
        {"{}", 0, ""},
        {"not JSON", 0, ""},
        {"[]", 0, ""},
        {"{\"partialSuccess\":null}", 0, ""},
        {"{\"partialSuccess\":[]}", 0, ""},
        {"{\"partialSuccess\":{}}", 0, ""},
        {"{\"partialSuccess\":{\"rejectedSpans\":\"3\",\"errorMessage\":\"no\"}}", 3, "no"},
        {"{\"partialSuccess\":{\"rejectedSpans\":4},\"later\":1}", 4, ""},
        {"{\"partialSuccess\":{\"rejectedSpans\":-4}}", 0, ""},
        {"{\"partialSuccess\":{\"rejectedSpans\":\"x\"}}", 0, ""},
        {"{\"partialSuccess\":{\"rejectedSpans\":99999999999999999999}}", 0, ""},
        {"{\"partialSuccess\":{\"errorMessage\":7}}", 0, ""},
        {"{\"partialSuccess\":{\"errorMessage\":\"a warning\"}}", 0, "a warning"},
    };
    struct df_otlp_answer a;

    for (size_t i = 0; i < COUNT(cases); i++) {
        df_otlp_read_answer(df_str_c(cases[i].body), &a);
        assert_int_equal(a.rejected, cases[i].rejected);
        assert_string_equal(a.message, cases[i].message);
    }
    char text[4000] = "{\"partialSuccess\":{\"errorMessage\":\"";
    memset(text + strlen(text), 'm', 3000);
    strcat(text, "\"}}");
    df_otlp_read_answer(df_str_c(text), &a);
    assert_in_range(strlen(a.message), 1, sizeof(a.message) - 1);
}

static void urls(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"http://c:4318", "http://c:4318/v1/traces"},
        {"http://c:4318/", "http://c:4318/v1/traces"},
        {"https://c/otlp/v1/traces", "https://c/otlp/v1/traces"},
        {"https://c/x?y=1", "https://c/x?y=1"},
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        char *url = df_otlp_url(cases[i][0]);
        assert_string_equal(url, cases[i][1]);
        free(url);
    }
}

static void headers(void **state)
{
    (void)state;
    struct df_str rest = DF_STR(" X-One = a%20b ,Authorization=Basic%20eA==,x=");
    struct df_str name;
    char value[100];
    size_t len;

    assert_true(df_telemetry_next_header(&rest, &name, value, &len));
    assert_true(df_str_eq(name, DF_STR("X-One")) && df_str_eq(df_str_n(value, len), DF_STR("a b")));
    assert_true(df_telemetry_next_header(&rest, &name, value, &len));
    assert_true(df_str_eq(df_str_n(value, len), DF_STR("Basic eA==")));
    assert_true(df_telemetry_next_header(&rest, &name, value, &len));
    assert_int_equal(len, 0);
    assert_null(rest.ptr);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spans_are_written_exactly),
        cmocka_unit_test(a_batch_is_bounded_in_spans_and_bytes),
        cmocka_unit_test(answers),
        cmocka_unit_test(urls),
        cmocka_unit_test(headers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

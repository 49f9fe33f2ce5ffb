/* What the three protocols write, byte for byte, and what their answers do to the lines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "net/gzip.h"
#include "ship/target.h"

#include <stdio.h>
#include <stdlib.h>
#include <zlib.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define TIME_NS  INT64_C(1794712565123000001)
#define TIME     "2026-11-15T03:16:05.123Z"
#define TRACE    "4bf92f3577b34da6a3ce929d0e0e4736"
#define LINES    8

static struct df_err err;

static struct df_ship_target *target_of(const char *url, const char *labels)
{
    struct df_ship_target *t = NULL;
    const struct df_ship_settings s = {.url = url, .labels = labels};

    assert_int_equal(df_ship_target_new(&s, &t, &err), DF_OK);
    return t;
}

/* A batch of these lines, at places 0x10, 0x20, … of segment 3. */
static struct df_ship_line lines[DF_SHIP_LINES_MAX];

static struct df_ship_batch batch_of(const char *const *texts, size_t count)
{
    struct df_ship_batch b = {.lines = lines,
                              .count = count,
                              .folder = DF_STR("proc"),
                              .host = DF_STR("host-1"),
                              .pieces = {{0, count}},
                              .piece_count = 1};

    for (size_t i = 0; i < count; i++)
        lines[i] = (struct df_ship_line){
            .record = {.at = {3, 16 * (i + 1)},
                       .time_ns = TIME_NS + (int64_t)i,
                       .level = i % 2 ? DF_LOG_ERROR : DF_LOG_INFO,
                       .text = df_str_c(texts ? texts[i] : "{}")},
        };
    return b;
}

static void expect_encoded(const char *url, const char *labels, const char *line, const char *want)
{
    struct df_ship_target *t = target_of(url, labels);
    struct df_ship_batch b = batch_of(&line, 1);
    struct df_buf out;

    df_buf_init(&out, 1 << 20);
    t->protocol->encode(t, &b, df_ship_batch_piece(&b), &out);
    assert_string_equal(df_buf_str(&out).ptr, want);
    df_buf_release(&out);
    df_ship_target_free(t);
}

static const char full_line[] =
    "{\"time\":\"" TIME
    "\",\"level\":\"info\",\"event\":\"RequestServed\",\"message\":\"a \\\"b\\\" "
    "\\u00e7\",\"correlationId\":\"c-1\",\"traceId\":\"" TRACE "\",\"spanId\":\"00f067aa0ba902b7\","
    "\"ip\":\"10.1.2.3\",\"status\":404,\"durationMs\":0.25,\"truncated\":true}";

/* --- what is written --- */

static void loki_has_streams_of_few_labels(void **state)
{
    (void)state;
    static const char *const texts[] = {"{\"a\":\"x\"}", "{\"b\":1}", "{\"c\":2}"};
    struct df_ship_target *t = target_of("loki://here", "site=poa");
    struct df_ship_batch b = batch_of(texts, 3);
    struct df_buf out;

    df_buf_init(&out, 1 << 20);
    t->protocol->encode(t, &b, df_ship_batch_piece(&b), &out);
    assert_string_equal(
        df_buf_str(&out).ptr,
        "{\"streams\":[{\"stream\":{\"job\":\"dataflow\",\"service_name\":\"dataflow\","
        "\"instance\":"
        "\"host-1\",\"level\":\"info\",\"site\":\"poa\"},\"values\":[[\"1794712565123000001\","
        "\"{\\\"a\\\":\\\"x\\\"}\"],[\"1794712565123000003\",\"{\\\"c\\\":2}\"]]},"
        "{\"stream\":{\"job\":\"dataflow\",\"service_name\":\"dataflow\",\"instance\":\"host-1\","
        "\"level\":\"error\",\"site\":\"poa\"},\"values\":[[\"1794712565123000002\","
        "\"{\\\"b\\\":1}\"]]}]}");
    df_buf_release(&out);
    df_ship_target_free(t);
}

static void elastic_has_names_of_the_common_schema(void **state)
{
    (void)state;
    expect_encoded(
        "elastic://here", "site=poa", full_line,
        "{\"create\":{\"_id\":\"proc-3-10\"}}\n"
        "{\"@timestamp\":\"" TIME "\",\"log.level\":\"info\",\"message\":\"a \\\"b\\\" \xC3\xA7\","
        "\"ecs.version\":\"8.11.0\",\"event.action\":\"RequestServed\",\"trace.id\":\"" TRACE "\","
        "\"span.id\":\"00f067aa0ba902b7\",\"client.ip\":\"10.1.2.3\",\"service.name\":\"dataflow\","
        "\"service.node.name\":\"proc\",\"host.name\":\"host-1\",\"labels\":{\"site\":\"poa\","
        "\"correlationId\":\"c-1\"},\"dataflow\":{\"status\":404,\"durationMs\":0.25,"
        "\"truncated\":true}}\n");
}

#define OTLP_HEAD                                                                                  \
    "{\"resourceLogs\":[{\"resource\":{\"attributes\":[{\"key\":\"service.name\",\"value\":{"      \
    "\"stringValue\":\"dataflow\"}},{\"key\":\"service.instance.id\",\"value\":{\"stringValue\":"  \
    "\"proc\"}},{\"key\":\"host.name\",\"value\":{\"stringValue\":\"host-1\"}}]},\"scopeLogs\":["  \
    "{\"scope\":{\"name\":\"dataflow\",\"version\":\"" DF_VERSION "\"},\"logRecords\":["           \
    "{\"timeUnixNano\":\"1794712565123000001\",\"observedTimeUnixNano\":"                          \
    "\"1794712565123000001\",\"severityNumber\":9,\"severityText\":\"INFO\",\"attributes\":["
#define OTLP_TAIL "}]}]}]}"

static void otlp_is_as_the_protocol_writes_json(void **state)
{
    (void)state;
    expect_encoded("otlp://here", NULL, full_line,
                   OTLP_HEAD
                   "{\"key\":\"dataflow.correlationId\",\"value\":{\"stringValue\":\"c-1\"}},"
                   "{\"key\":\"dataflow.status\",\"value\":{\"intValue\":\"404\"}},"
                   "{\"key\":\"dataflow.durationMs\",\"value\":{\"doubleValue\":0.25}},"
                   "{\"key\":\"dataflow.truncated\",\"value\":{\"boolValue\":true}},"
                   "{\"key\":\"event.name\",\"value\":{\"stringValue\":\"RequestServed\"}},"
                   "{\"key\":\"client.address\",\"value\":{\"stringValue\":\"10.1.2.3\"}}],"
                   "\"body\":{\"stringValue\":\"a \\\"b\\\" \xC3\xA7\"},\"traceId\":\"" TRACE "\","
                   "\"spanId\":\"00f067aa0ba902b7\"" OTLP_TAIL);
}

/* What only looks like an identifier or an address stays an ordinary field: targets would refuse
 * the whole line for it. */
static void what_is_no_identifier_is_an_ordinary_field(void **state)
{
    (void)state;
    expect_encoded("otlp://here", NULL,
                   "{\"traceId\":\"00000000000000000000000000000000\",\"spanId\":\"xyz\","
                   "\"ip\":\"not known\",\"list\":[1],\"none\":null,\"big\":9223372036854775808}",
                   OTLP_HEAD
                   "{\"key\":\"dataflow.traceId\",\"value\":{\"stringValue\":"
                   "\"00000000000000000000000000000000\"}},"
                   "{\"key\":\"dataflow.spanId\",\"value\":{\"stringValue\":\"xyz\"}},"
                   "{\"key\":\"dataflow.ip\",\"value\":{\"stringValue\":\"not known\"}},"
                   "{\"key\":\"dataflow.big\",\"value\":{\"doubleValue\":9223372036854775808}}],"
                   "\"body\":{\"stringValue\":\"\"}" OTLP_TAIL);
    expect_encoded(
        "elastic://here", NULL, "{\"ip\":\"10.0.0\",\"a.b\":\"x\",\"a.c\":1}",
        "{\"create\":{\"_id\":\"proc-3-10\"}}\n{\"@timestamp\":\"" TIME
        "\",\"log.level\":\"info\",\"message\":\"\",\"ecs.version\":\"8.11.0\","
        "\"service.name\":\"dataflow\",\"service.node.name\":\"proc\",\"host.name\":"
        "\"host-1\",\"labels\":{\"ip\":\"10.0.0\",\"a_b\":\"x\"},\"dataflow\":{\"a_c\":1}}"
        "\n");
}

/* A spool's file may hold anything: what is sent is valid JSON in valid UTF-8 all the same. */
static void hostile_lines_make_valid_documents(void **state)
{
    (void)state;
    static const char *const hostile[] = {
        "",
        "not json",
        "{",
        "[]",
        "\"text\"",
        "{\"a\":1,\"a\":2}",
        "{\"message\":{\"x\":1}}",
        "\xFF\xFE broken \xC3",
        "line\nbreak\r\t\x01",
        "{\"\":\"\"}",
        "{\"a\\u0000b\":1}",
        "{\"message\":\"\\ud800\"}",
        "{\"status\":1e999,\"n\":-0.0,\"huge\":123456789012345678901}",
        "{\"time\":5,\"event\":null,\"level\":[]}",
        "\xE2\x80\xA8",
        "{\"x\":\"\\\",\\\"_id\\\":\\\"other\\\"}}\\n{\\\"delete\\\":{}}\"}",
    };
    static const char *const urls[] = {"loki://here", "elastic://here", "otlp://here"};

    for (size_t u = 0; u < COUNT(urls); u++) {
        struct df_ship_target *t = target_of(urls[u], NULL);
        for (size_t i = 0; i < COUNT(hostile); i++) {
            struct df_ship_batch b = batch_of(&hostile[i], 1);
            struct df_arena arena;
            struct df_buf out;
            struct df_str rest, row;
            const struct df_json *doc;
            size_t rows = 0;
            df_arena_init(&arena);
            df_buf_init(&out, 1 << 20);
            t->protocol->encode(t, &b, df_ship_batch_piece(&b), &out);
            for (rest = df_buf_str(&out); rest.len > 0; rows++) {
                rest = df_str_cut(rest, '\n', &row);
                if (df_json_parse(&arena, row, &doc, &err) != DF_OK)
                    fail_msg("%s, line %zu: %s: " DF_STR_FMT, urls[u], i, err.detail,
                             DF_STR_ARG(row));
            }
            assert_int_equal(rows, u == 1 ? 2 : 1);
            df_buf_release(&out);
            df_arena_release(&arena);
        }
        df_ship_target_free(t);
    }
}

static void gzip_is_undone(void **state)
{
    (void)state;
    struct df_buf out, small;
    char back[64];
    z_stream z = {0};
    struct df_str text = DF_STR("a line, a line, a line, a line");

    df_buf_init(&out, 4096);
    assert_true(df_gzip(text, &out));
    assert_int_equal(inflateInit2(&z, 15 + 16), Z_OK);
    z.next_in = (Bytef *)out.ptr;
    z.avail_in = (uInt)out.len;
    z.next_out = (Bytef *)back;
    z.avail_out = sizeof(back);
    assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
    assert_true(df_str_eq(df_str_n(back, z.total_out), text));
    inflateEnd(&z);
    df_buf_init(&small, 8);
    assert_false(df_gzip(text, &small));
    df_buf_release(&small);
    df_buf_release(&out);
}

/* --- URLs --- */

static void urls_become_those_of_the_api(void **state)
{
    (void)state;
    static const struct {
        const char *url, *want;
    } rows[] = {
        {"loki://here", "http://here:3100/loki/api/v1/push"},
        {"lokis://here:443/a/b/", "https://here:443/a/b/loki/api/v1/push"},
        {"loki://u:p@here/?tenant=x", "http://u:p@here:3100/loki/api/v1/push"},
        {"otlp://[::1]", "http://[::1]:4318/v1/logs"},
        {"otlps://[::1]:1/x", "https://[::1]:1/x/v1/logs"},
        {"elastic://here", "http://here:9200/logs-dataflow-default"
                           "/_bulk?filter_path=errors,items.*.status"},
        {"elastics://here/p/logs-a", "https://here:9200/p/logs-a"
                                     "/_bulk?filter_path=errors,items.*.status"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct df_ship_target *t = target_of(rows[i].url, NULL);
        assert_string_equal(t->url, rows[i].want);
        df_ship_target_free(t);
    }
}

/* --- answers --- */

static void items_of_a_bulk_have_their_own_fate(void **state)
{
    (void)state;
    static const struct {
        int status;
        enum df_ship_state want;
    } rows[] = {
        {200, DF_SHIP_SHIPPED}, {201, DF_SHIP_SHIPPED}, {409, DF_SHIP_SHIPPED},
        {400, DF_SHIP_REFUSED}, {413, DF_SHIP_REFUSED}, {422, DF_SHIP_REFUSED},
        {401, DF_SHIP_WAITING}, {403, DF_SHIP_WAITING}, {404, DF_SHIP_WAITING},
        {429, DF_SHIP_WAITING}, {500, DF_SHIP_WAITING}, {503, DF_SHIP_WAITING},
    };
    struct df_buf answer;

    df_buf_init(&answer, 1 << 16);
    df_buf_addz(&answer, "{\"took\":3,\"errors\":true,\"items\":[");
    for (size_t i = 0; i < COUNT(rows); i++)
        df_buf_addf(&answer, "%s{\"create\":{\"_index\":\"x\",\"status\":%d}}", i ? "," : "",
                    rows[i].status);
    df_buf_addz(&answer, "]}");
    struct df_ship_batch b = batch_of(NULL, COUNT(rows));
    const struct df_ship_piece *p = df_ship_batch_piece(&b);
    assert_int_equal(df_ship_elastic.settle(&b, p, df_buf_str(&answer)), DF_SHIP_SOME_WAIT);
    for (size_t i = 0; i < COUNT(rows); i++)
        if (lines[i].state != rows[i].want)
            fail_msg("status %d: state %d", rows[i].status, lines[i].state);

    /* The others are sent alone, and their items are in the same order. */
    p = df_ship_batch_piece(&b);
    assert_int_equal(df_ship_waiting(&b, p), 6);
    df_buf_reset(&answer);
    df_buf_addz(&answer, "{\"errors\":true,\"items\":[");
    for (size_t i = 0; i < 6; i++)
        df_buf_addf(&answer, "%s{\"create\":{\"status\":%d}}", i ? "," : "", i == 2 ? 400 : 201);
    df_buf_addz(&answer, "]}");
    assert_int_equal(df_ship_elastic.settle(&b, p, df_buf_str(&answer)), DF_SHIP_ALL_SETTLED);
    assert_null(df_ship_batch_piece(&b));
    assert_int_equal(lines[8].state, DF_SHIP_REFUSED);
    assert_int_equal(df_ship_batch_count(&b, DF_SHIP_SHIPPED), 8);
    df_buf_release(&answer);
}

static void answers_to_a_bulk_that_say_nothing_change_nothing(void **state)
{
    (void)state;
    static const char *const answers[] = {
        "",
        "ok",
        "null",
        "{}",
        "[]",
        "{\"errors\":false}",
        "{\"errors\":false,\"items\":{}}",
        "{\"errors\":false,\"items\":[{\"create\":{\"status\":201}}]}",
        "{\"errors\":\"no\",\"items\":[{\"create\":{\"status\":201}},{\"create\":{\"status\":201}}]"
        "}",
        "{\"errors\":true,\"items\":[{\"create\":{\"status\":201}},{}]}",
        "{\"errors\":true,\"items\":[{\"create\":{\"status\":201}},7]}",
        "{\"errors\":true,\"items\":[{\"create\":{\"status\":201}},{\"create\":{\"status\":1}}]}",
        "{\"errors\":true,\"items\":[{\"create\":{\"status\":201}},{\"create\":{\"status\":\"400\"}"
        "}]}",
        "{\"errors\":false,\"items\":[{\"create\":{\"status\":201}},{\"create\":{\"status\":201}}]",
    };
    for (size_t i = 0; i < COUNT(answers); i++) {
        struct df_ship_batch b = batch_of(NULL, 2);
        const struct df_ship_piece *p = df_ship_batch_piece(&b);
        if (df_ship_elastic.settle(&b, p, df_str_c(answers[i])) != DF_SHIP_UNREADABLE ||
            df_ship_waiting(&b, p) != 2)
            fail_msg("it was believed: %s", answers[i]);
    }
}

static void a_partial_success_is_counted(void **state)
{
    (void)state;
    static const struct {
        const char *answer;
        size_t refused;
    } rows[] = {
        {"", 0},
        {"{}", 0},
        {"{\"partialSuccess\":{}}", 0},
        {"{\"partialSuccess\":{\"rejectedLogRecords\":\"3\",\"errorMessage\":\"x\"}}", 3},
        {"{\"partialSuccess\":{\"rejectedLogRecords\":2}}", 2},
        {"{\"partialSuccess\":{\"rejectedLogRecords\":\"0\",\"errorMessage\":\"a warning\"}}", 0},
        {"{\"partialSuccess\":{\"rejectedLogRecords\":-1}}", 0},
        {"{\"partialSuccess\":{\"rejectedLogRecords\":\"9223372036854775807\"}}", LINES},
        {"{\"partialSuccess\":{\"rejectedLogRecords\":\"many\"}}", 0},
        {"{\"partialSuccess\":7}", 0},
        {"broken", 0},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct df_ship_batch b = batch_of(NULL, LINES);
        const struct df_ship_piece *p = df_ship_batch_piece(&b);
        assert_int_equal(df_ship_otlp.settle(&b, p, df_str_c(rows[i].answer)), DF_SHIP_ALL_SETTLED);
        assert_null(df_ship_batch_piece(&b));
        if (df_ship_batch_count(&b, DF_SHIP_REFUSED) != rows[i].refused)
            fail_msg("%s", rows[i].answer);
    }
}

static void a_collector_is_asked_again_only_where_it_says_so(void **state)
{
    (void)state;
    static const unsigned again[] = {429, 502, 503, 504, 401, 403, 404, 405, 407};
    for (unsigned status = 100; status < 600; status++) {
        enum df_out_verdict want = status / 100 == 2 ? DF_OUT_OK : DF_OUT_REFUSED;
        for (size_t i = 0; i < COUNT(again); i++)
            want = again[i] == status ? DF_OUT_AGAIN : want;
        assert_int_equal(df_ship_otlp.classify(status).verdict, want);
    }
}

/* --- halving --- */

/* The target refuses every piece that has one of the bad lines. Returns the number of calls. */
static size_t ship_all(struct df_ship_batch *b, const bool *bad)
{
    const struct df_ship_piece *p;
    size_t calls = 0;

    while ((p = df_ship_batch_piece(b))) {
        bool refused = false;
        calls++;
        assert_true(calls < 3 * DF_SHIP_LINES_MAX);
        for (size_t at = 0; df_ship_next(b, p, &at);)
            refused = refused || bad[at - 1];
        if (refused)
            df_ship_batch_refused(b, true);
        else
            df_ship_batch_taken(b);
    }
    return calls;
}

static void one_bad_line_is_found_wherever_it_is(void **state)
{
    (void)state;
    static bool bad[DF_SHIP_LINES_MAX];
    static const size_t counts[] = {1, 2, 3, 5, 8, 100, DF_SHIP_LINES_MAX};
    for (size_t c = 0; c < COUNT(counts); c++) {
        for (size_t at = 0; at < counts[c]; at += 1 + counts[c] / 50) {
            struct df_ship_batch b = batch_of(NULL, counts[c]);
            bad[at] = true;
            assert_true(ship_all(&b, bad) <= 30);
            bad[at] = false;
            assert_int_equal(lines[at].state, DF_SHIP_REFUSED);
            assert_int_equal(df_ship_batch_count(&b, DF_SHIP_SHIPPED), counts[c] - 1);
        }
    }
}

static void several_bad_lines_are_found(void **state)
{
    (void)state;
    static bool bad[DF_SHIP_LINES_MAX];
    bad[0] = bad[7] = bad[2000] = bad[2001] = bad[DF_SHIP_LINES_MAX - 1] = true;
    struct df_ship_batch b = batch_of(NULL, DF_SHIP_LINES_MAX);
    (void)ship_all(&b, bad);
    for (size_t i = 0; i < DF_SHIP_LINES_MAX; i++)
        assert_int_equal(lines[i].state, bad[i] ? DF_SHIP_REFUSED : DF_SHIP_SHIPPED);
}

/* Nobody halves for ever: what is refused after that goes whole, and the rest still arrives. */
static void a_target_that_refuses_everything_costs_a_bounded_number_of_calls(void **state)
{
    (void)state;
    static bool bad[DF_SHIP_LINES_MAX];
    memset(bad, true, sizeof(bad));
    bad[DF_SHIP_LINES_MAX - 1] = false;
    struct df_ship_batch b = batch_of(NULL, DF_SHIP_LINES_MAX);
    assert_true(ship_all(&b, bad) <= DF_SHIP_REFUSED_MAX + DF_SHIP_PIECES_MAX + 1);
    for (size_t i = 0; i < DF_SHIP_LINES_MAX - 1; i++)
        assert_int_equal(lines[i].state, DF_SHIP_REFUSED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loki_has_streams_of_few_labels),
        cmocka_unit_test(elastic_has_names_of_the_common_schema),
        cmocka_unit_test(otlp_is_as_the_protocol_writes_json),
        cmocka_unit_test(what_is_no_identifier_is_an_ordinary_field),
        cmocka_unit_test(hostile_lines_make_valid_documents),
        cmocka_unit_test(gzip_is_undone),
        cmocka_unit_test(urls_become_those_of_the_api),
        cmocka_unit_test(items_of_a_bulk_have_their_own_fate),
        cmocka_unit_test(answers_to_a_bulk_that_say_nothing_change_nothing),
        cmocka_unit_test(a_partial_success_is_counted),
        cmocka_unit_test(a_collector_is_asked_again_only_where_it_says_so),
        cmocka_unit_test(one_bad_line_is_found_wherever_it_is),
        cmocka_unit_test(several_bad_lines_are_found),
        cmocka_unit_test(a_target_that_refuses_everything_costs_a_bounded_number_of_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

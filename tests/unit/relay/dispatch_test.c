#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/log.h"
#include "relay/dispatcher.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define TRACE    "4bf92f3577b34da6a3ce929d0e0e4736"
#define SPAN     "00f067aa0ba902b7"

static struct df_event some_event(void)
{
    return (struct df_event){
        .id = DF_STR("42"),
        .type = DF_STR("OrderPlaced"),
        .payload = DF_STR("{\"total\":10}"),
        .aggregate_type = DF_STR("Order"),
        .aggregate_id = DF_STR("o-7"),
        .correlation_id = DF_STR("c-1"),
        .trace_id = DF_STR(TRACE),
        .span_id = DF_STR(SPAN),
        .created_ms = 1700000000123,
        .attempt = 2,
    };
}

static void assert_str(struct df_str s, const char *expected)
{
    if (!df_str_eq(s, df_str_c(expected)))
        fail_msg("\"" DF_STR_FMT "\" is not \"%s\"", DF_STR_ARG(s), expected);
}

/* --- what all of them share --- */

static void names_are_in_the_order_of_the_dispatchers(void **state)
{
    (void)state;
    size_t n = 0;
    for (; df_dispatcher_names[n]; n++)
        if (df_dispatchers[n])
            assert_string_equal(df_dispatchers[n]->name, df_dispatcher_names[n]);
    assert_int_equal(n, 4);
}

static void patterns_are_expanded(void **state)
{
    (void)state;
    static const struct {
        const char *pattern;
        const char *expected;
    } rows[] = {
        {"", ""},
        {"plain", "plain"},
        {"{eventType}", "OrderPlaced"},
        {"a.{aggregateType}.{eventType}.{aggregateId}", "a.Order.OrderPlaced.o-7"},
        {"{aggregateId}{aggregateId}", "o-7o-7"},
    };
    struct df_event e = some_event();
    struct df_arena a = {0};

    for (size_t i = 0; i < COUNT(rows); i++)
        assert_str(df_event_expand(&a, rows[i].pattern, &e), rows[i].expected);
    e.aggregate_id = DF_STR_NULL;
    e.type = DF_STR("{aggregateType}"); /* what an event says is not a pattern */
    assert_str(df_event_expand(&a, "x.{aggregateId}.{eventType}", &e), "x..{aggregateType}");
    df_arena_release(&a);
}

static void patterns_with_other_names_are_refused(void **state)
{
    (void)state;
    static const char *const good[] = {"", "x", "{eventType}", "{aggregateType}-{aggregateId}"};
    static const char *const bad[] = {"{",
                                      "}",
                                      "{}",
                                      "{eventtype}",
                                      "{eventType",
                                      "eventType}",
                                      "{{eventType}}",
                                      "{payload}",
                                      "{eventType}}",
                                      "a{b}c"};
    struct df_err err = DF_ERR_INIT;

    for (size_t i = 0; i < COUNT(good); i++)
        assert_int_equal(df_event_check_pattern(good[i], "topic", &err), DF_OK);
    for (size_t i = 0; i < COUNT(bad); i++) {
        if (df_event_check_pattern(bad[i], "topic", &err) != DF_E_CONFIG)
            fail_msg("accepted: %s", bad[i]);
        assert_non_null(strstr(err.detail, "topic: "));
    }
}

static struct df_str attribute(const struct df_event *e, struct df_arena *a, const char *name)
{
    struct df_event_attribute all[DF_EVENT_ATTRIBUTES];
    size_t n = df_event_attributes(e, "/dataflow/relay/orders", a, all);
    struct df_str found = DF_STR_NULL;

    for (size_t i = 0; i < n; i++) {
        if (strcmp(all[i].name, name) != 0)
            continue;
        assert_null(found.ptr);
        found = all[i].value;
    }
    return found;
}

static void attributes_are_those_of_cloudevents(void **state)
{
    (void)state;
    static const char *const expected[][2] = {
        {"id", "42"},
        {"source", "/dataflow/relay/orders"},
        {"specversion", "1.0"},
        {"type", "OrderPlaced"},
        {"time", "2023-11-14T22:13:20.123Z"},
        {"subject", "o-7"},
        {"datacontenttype", "application/json"},
        {"aggregatetype", "Order"},
        {"correlationid", "c-1"},
        {"traceparent", "00-" TRACE "-" SPAN "-01"},
    };
    struct df_event_attribute all[DF_EVENT_ATTRIBUTES];
    struct df_event e = some_event();
    struct df_arena a = {0};

    assert_int_equal(df_event_attributes(&e, "/s", &a, all), COUNT(expected));
    for (size_t i = 0; i < COUNT(expected); i++)
        assert_str(attribute(&e, &a, expected[i][0]), expected[i][1]);
    df_arena_release(&a);
}

static void absent_and_empty_attributes_are_left_out(void **state)
{
    (void)state;
    struct df_event_attribute all[DF_EVENT_ATTRIBUTES];
    struct df_event e = {.id = DF_STR("1"), .aggregate_id = DF_STR(""), .created_ms = -1};
    struct df_arena a = {0};

    assert_int_equal(df_event_attributes(&e, "/s", &a, all), 4);
    assert_str(attribute(&e, &a, "type"), "unknown"); /* the one that must be there */
    assert_null(attribute(&e, &a, "subject").ptr);
    df_arena_release(&a);
}

static void traceparent_needs_two_valid_halves(void **state)
{
    (void)state;
    static const struct {
        const char *trace;
        const char *span;
        const char *expected;
    } rows[] = {
        {TRACE, SPAN, "00-" TRACE "-" SPAN "-01"},
        {"4BF92F3577B34DA6A3CE929D0E0E4736", "00F067AA0BA902B7", "00-" TRACE "-" SPAN "-01"},
        {NULL, SPAN, NULL},
        {TRACE, NULL, NULL},
        {TRACE, "", NULL},
        {TRACE "0", SPAN, NULL},
        {TRACE, "00f067aa0ba902b", NULL},
        {TRACE, "00f067aa0ba902bg", NULL},
        {TRACE, "00f067aa0ba90\r\n7", NULL},
        {TRACE, "0000000000000000", NULL},
        {"00000000000000000000000000000000", SPAN, NULL},
        {"4bf92f35-77b3-4da6-a3ce-929d0e0e4736", SPAN, NULL},
    };
    struct df_arena a = {0};

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct df_event e = some_event();
        e.trace_id = df_str_c(rows[i].trace);
        e.span_id = df_str_c(rows[i].span);
        assert_str(attribute(&e, &a, "traceparent"), rows[i].expected);
    }
    df_arena_release(&a);
}

static void json_is_told_from_text(void **state)
{
    (void)state;
    static const char *const json[] = {"{}",   "[1,{\"a\":null}]",  " \"x\" ",     "1",
                                       "null", "{\"a\":1,\"a\":2}", "\"\xC3\xA9\""};
    static const char *const other[] = {
        "",         " ",    "{",   "{}x", "{'a':1}", "nul", "[1,]", "\x01", "{\"a\":\"\n\"}",
        "\"\xff\"", "<a/>", "{}{}"};
    struct df_arena a = {0};
    struct df_event e = some_event();

    for (size_t i = 0; i < COUNT(json); i++) {
        e.payload = df_str_c(json[i]);
        if (!df_event_is_json(&e))
            fail_msg("is JSON: %s", json[i]);
    }
    for (size_t i = 0; i < COUNT(other); i++) {
        e.payload = df_str_c(other[i]);
        if (df_event_is_json(&e))
            fail_msg("is not JSON: %s", other[i]);
        assert_str(attribute(&e, &a, "datacontenttype"), "text/plain; charset=utf-8");
    }
    e.payload = DF_STR_NULL;
    assert_false(df_event_is_json(&e));
    assert_null(attribute(&e, &a, "datacontenttype").ptr);
    df_arena_release(&a);
}

/* --- log --- */

/* What is written to standard error while the events are dispatched; free() it. */
static char *logged(struct df_event *const *events, size_t n, enum df_log_level level)
{
    const struct df_sink_options opt = {.relay = "orders"};
    struct df_arena a = {0};
    struct df_err err = DF_ERR_INIT;
    struct df_sink *s = NULL;
    FILE *f = tmpfile();
    int before = dup(STDERR_FILENO);

    assert_non_null(f);
    assert_true(dup2(fileno(f), STDERR_FILENO) >= 0);
    df_log_init(level, DF_LOG_JSON, df_clock_real());
    assert_int_equal(df_dispatch_log.check(&opt, &err), DF_OK);
    assert_int_equal(df_dispatch_log.open(&opt, &s, &err), DF_OK);
    df_dispatch_log.dispatch(s, events, n, &a);
    df_dispatch_log.close(s);
    assert_true(dup2(before, STDERR_FILENO) >= 0);
    (void)close(before);
    df_arena_release(&a);

    char *out = calloc(1, 65536);
    rewind(f);
    assert_true(fread(out, 1, 65535, f) < 65535);
    (void)fclose(f);
    return out;
}

static void log_writes_a_line_without_the_payload(void **state)
{
    (void)state;
    static const char *const parts[] = {
        "\"level\":\"info\"",
        "\"event\":\"OutboxEvent\"",
        "\"eventId\":\"42\"",
        "\"eventType\":\"OrderPlaced\"",
        "\"aggregateType\":\"Order\"",
        "\"aggregateId\":\"o-7\"",
        "\"correlationId\":\"c-1\"",
        "\"traceId\":\"" TRACE "\"",
        "\"attempt\":2",
        "\"relay\":\"orders\"",
        "\"bytes\":12",
    };
    struct df_event one = some_event();
    struct df_event two = {.id = DF_STR("x\r\ny"), .payload = DF_STR("secret"), .created_ms = -1};
    struct df_event *events[] = {&one, &two};
    char *lines = logged(events, 2, DF_LOG_INFO);

    for (size_t i = 0; i < COUNT(parts); i++)
        if (!strstr(lines, parts[i]))
            fail_msg("%s is not in %s", parts[i], lines);
    assert_non_null(strstr(lines, "\"eventId\":\"x\\r\\ny\""));
    assert_null(strstr(lines, "total"));
    assert_null(strstr(lines, "secret"));
    assert_int_equal(one.outcome, DF_DISPATCHED);
    assert_int_equal(two.outcome, DF_DISPATCHED);
    assert_int_equal(one.retry_after_ms, -1);
    free(lines);
}

static void log_level_does_not_keep_events_out(void **state)
{
    (void)state;
    struct df_event e = some_event();
    struct df_event *events[] = {&e};
    char *lines = logged(events, 1, DF_LOG_WARN);

    assert_non_null(strstr(lines, "\"event\":\"OutboxEvent\""));
    assert_non_null(strstr(lines, "\"level\":\"warn\""));
    assert_int_equal(e.outcome, DF_DISPATCHED);
    free(lines);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_in_the_order_of_the_dispatchers),
        cmocka_unit_test(patterns_are_expanded),
        cmocka_unit_test(patterns_with_other_names_are_refused),
        cmocka_unit_test(attributes_are_those_of_cloudevents),
        cmocka_unit_test(absent_and_empty_attributes_are_left_out),
        cmocka_unit_test(traceparent_needs_two_valid_halves),
        cmocka_unit_test(json_is_told_from_text),
        cmocka_unit_test(log_writes_a_line_without_the_payload),
        cmocka_unit_test(log_level_does_not_keep_events_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

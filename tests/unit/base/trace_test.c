/* Trace context: what is taken from a peer, what is made, what is resumed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/trace.h"
#include "fake_clock.h"

#include <stdio.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

#define TRACE    "0af7651916cd43dd8448eb211c80319c"
#define SPAN     "b7ad6b7169203331"

static void a_traceparent_is_taken_only_if_strict(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "00-" TRACE "-" SPAN "-0",
        "00-" TRACE "-" SPAN "-01-",
        "01-" TRACE "-" SPAN "-01",
        "ff-" TRACE "-" SPAN "-01",
        "00-0AF7651916CD43DD8448EB211C80319C-" SPAN "-01",
        "00-" TRACE "-B7AD6B7169203331-01",
        "00-00000000000000000000000000000000-" SPAN "-01",
        "00-" TRACE "-0000000000000000-01",
        "00-0af7651916cd43dd8448eb211c80319g-" SPAN "-01",
        "00-" TRACE "-" SPAN "-zz",
        "00-" TRACE "-" SPAN "-0A",
        "00-" TRACE "-" SPAN "-A0",
        "00_" TRACE "-" SPAN "-01",
        "00-" TRACE "_" SPAN "-01",
        "00-" TRACE "-" SPAN "_01",
    };
    static const struct {
        const char *flags;
        const char *kept;
    } good[] = {{"01", "01"}, {"00", "00"}, {"02", "00"}, {"03", "01"},
                {"ff", "01"}, {"f0", "00"}, {"0a", "00"}, {"0b", "01"}};
    struct df_trace t = {.text = "untouched"};
    char text[DF_TRACEPARENT_LEN + 1];

    for (size_t i = 0; i < COUNT(bad); i++) {
        assert_false(df_trace_parse(df_str_c(bad[i]), &t));
        assert_string_equal(t.text, "untouched");
    }
    for (size_t i = 0; i < COUNT(good); i++) {
        snprintf(text, sizeof(text), "00-" TRACE "-" SPAN "-%s", good[i].flags);
        assert_true(df_trace_parse(df_str_c(text), &t));
        assert_true(df_str_eq(df_trace_id(&t), DF_STR(TRACE)));
        assert_true(df_str_eq(df_trace_span(&t), DF_STR(SPAN)));
        assert_string_equal(t.text + 53, good[i].kept);
    }
}

static void a_child_keeps_trace_and_flags_and_has_a_span_of_its_own(void **state)
{
    (void)state;
    struct df_fake_clock f;
    struct df_trace parent;

    df_fake_clock_init(&f, 0, 7);
    assert_true(df_trace_parse(DF_STR("00-" TRACE "-" SPAN "-00"), &parent));
    struct df_trace child = df_trace_child(&parent, &f.base);
    struct df_trace read;
    assert_true(df_trace_parse(df_trace_parent(&child), &read));
    assert_string_equal(read.text, child.text);
    assert_true(df_str_eq(df_trace_id(&child), DF_STR(TRACE)));
    assert_false(df_str_eq(df_trace_span(&child), DF_STR(SPAN)));
    assert_string_equal(child.text + 53, "00");
}

static void zero_bytes(const struct df_clock *c, void *ptr, size_t len)
{
    (void)c;
    memset(ptr, 0, len);
}

static void new_traces_are_valid_whatever_the_random_numbers(void **state)
{
    (void)state;
    static const struct df_clock_ops ops = {.random = zero_bytes};
    const struct df_clock zeros = {&ops};
    struct df_trace fresh = df_trace_new(&zeros);
    struct df_trace t;

    assert_true(df_trace_parse(df_trace_parent(&fresh), &t));
    assert_string_equal(t.text + 53, "01");
    assert_true(df_trace_resume(DF_STR(TRACE), &zeros, &t));
    assert_true(df_trace_parse(df_trace_parent(&t), &t));
}

static void new_traces_differ(void **state)
{
    (void)state;
    struct df_trace a = df_trace_new(df_clock_real());
    struct df_trace b = df_trace_new(df_clock_real());

    assert_false(df_str_eq(df_trace_id(&a), df_trace_id(&b)));
    assert_false(df_str_eq(df_trace_span(&a), df_trace_span(&b)));
}

static void stored_identifiers_are_joined_or_resumed_if_valid(void **state)
{
    (void)state;
    static const struct {
        const char *trace;
        const char *span;
        bool resumes;
        bool joins;
    } rows[] = {
        {TRACE, SPAN, true, true},
        {"0AF7651916CD43DD8448EB211C80319C", "B7AD6B7169203331", true, true},
        {TRACE, NULL, true, false},
        {TRACE, "", true, false},
        {TRACE, "b7ad6b716920333", true, false},
        {TRACE, "b7ad6b71692033\r\n", true, false},
        {TRACE, "0000000000000000", true, false},
        {NULL, SPAN, false, false},
        {TRACE "0", SPAN, false, false},
        {"0af76519-16cd-43dd-8448-eb211c80319c", SPAN, false, false},
        {"00000000000000000000000000000000", SPAN, false, false},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct df_trace t;
        struct df_str trace = df_str_c(rows[i].trace);
        assert_int_equal(df_trace_join(trace, df_str_c(rows[i].span), &t), rows[i].joins);
        if (rows[i].joins)
            assert_string_equal(t.text, "00-" TRACE "-" SPAN "-01");
        assert_int_equal(df_trace_resume(trace, df_clock_real(), &t), rows[i].resumes);
        if (rows[i].resumes)
            assert_true(df_str_eq(df_trace_id(&t), DF_STR(TRACE)));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_traceparent_is_taken_only_if_strict),
        cmocka_unit_test(a_child_keeps_trace_and_flags_and_has_a_span_of_its_own),
        cmocka_unit_test(new_traces_are_valid_whatever_the_random_numbers),
        cmocka_unit_test(new_traces_differ),
        cmocka_unit_test(stored_identifiers_are_joined_or_resumed_if_valid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

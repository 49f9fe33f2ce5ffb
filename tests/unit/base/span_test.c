/* Spans: what is recorded of them, within which bounds, and which traces are sampled. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/metrics.h"
#include "base/span.h"
#include "fake_clock.h"

#include <stdio.h>
#include <stdlib.h>

#define TRACE    "0af7651916cd43dd8448eb211c80319c"
#define SPAN     "b7ad6b7169203331"
#define WALL     INT64_C(1700000000000)
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static struct df_fake_clock now;
static struct df_trace caller;
static int woken;

static void count_wake(void *arg)
{
    (void)arg;
    woken++;
}

static int start(void **state)
{
    (void)state;
    df_fake_clock_init(&now, WALL, 7);
    woken = 0;
    assert_true(df_trace_parse(DF_STR("00-" TRACE "-" SPAN "-01"), &caller));
    df_spans_start(&(struct df_spans_options){.queue = 300, .ratio = 1, .wake = count_wake});
    return 0;
}

static int stop(void **state)
{
    (void)state;
    df_spans_stop();
    df_spans_free();
    return 0;
}

static struct df_span_record *take(void)
{
    struct df_span_record *r = NULL;

    assert_int_equal(df_spans_take(&r, 1), 1);
    return r;
}

static void nothing_waits(void)
{
    struct df_span_record *r;

    assert_int_equal(df_spans_waiting(), 0);
    assert_int_equal(df_spans_take(&r, 1), 0);
}

static double dropped(const char *reason)
{
    struct df_buf out;
    char line[120];

    df_buf_init(&out, 1 << 20);
    df_metrics_write(&out);
    (void)snprintf(line, sizeof(line), "\ndataflow_spans_dropped_total{reason=\"%s\"} ", reason);
    const char *at = strstr(df_buf_str(&out).ptr, line);
    double v = at ? strtod(at + strlen(line), NULL) : 0;
    df_buf_release(&out);
    return v;
}

static void a_span_is_recorded_as_it_was(void **state)
{
    (void)state;
    struct df_span s;

    df_span_begin(&s, &caller, "parse", DF_SPAN_INTERNAL, &now.base);
    assert_true(s.recording);
    assert_true(df_str_eq(df_trace_id(&s.trace), DF_STR(TRACE)));
    assert_false(df_str_eq(df_trace_span(&s.trace), DF_STR(SPAN)));
    df_span_text(&s, "a.text", DF_STR("x"));
    df_span_text(&s, "absent", DF_STR_NULL);
    df_span_int(&s, "a.number", -3);
    df_span_bool(&s, "a.bool", true);
    df_span_link(&s, DF_STR("00-11111111111111111111111111111111-2222222222222222-00"));
    df_span_fail(&s, DF_STR("why"));
    df_fake_clock_advance_ms(&now, 250);
    df_span_end(&s);
    df_span_end(&s); /* once */
    struct df_span_record *r = take();
    nothing_waits();
    assert_string_equal(r->trace_id, TRACE);
    assert_string_equal(r->parent_id, SPAN);
    assert_memory_equal(r->span_id, df_trace_span(&s.trace).ptr, DF_SPAN_ID_LEN);
    assert_string_equal(r->link_trace_id, "11111111111111111111111111111111");
    assert_string_equal(r->link_span_id, "2222222222222222");
    assert_int_equal(r->kind, DF_SPAN_INTERNAL);
    assert_int_equal(r->status, DF_SPAN_ERROR);
    assert_int_equal(r->start_ns, WALL * 1000000);
    assert_int_equal(r->end_ns, (WALL + 250) * 1000000);
    assert_true(df_str_eq(r->name, DF_STR("parse")));
    assert_true(df_str_eq(r->message, DF_STR("why")));
    assert_int_equal(r->attr_count, 3);
    assert_true(df_str_eq(r->attrs[0].text, DF_STR("x")));
    assert_int_equal(r->attrs[1].number, -3);
    assert_int_equal(r->attrs[2].type, DF_SPAN_IS_BOOL);
    free(r);
}

static void the_start_follows_the_wall_clock_of_the_end(void **state)
{
    (void)state;
    struct df_span s;

    df_span_begin(&s, &caller, "x", DF_SPAN_INTERNAL, &now.base);
    df_fake_clock_advance_ms(&now, 1000);
    df_fake_clock_advance_ms(&now, -5000); /* the wall clock is set back */
    df_span_end(&s);
    struct df_span_record *r = take();
    assert_int_equal(r->end_ns - r->start_ns, INT64_C(1000000000));
    free(r);
    /* Work that began before this process. */
    df_span_begin_at(&s, &caller, "x", DF_SPAN_INTERNAL, &now.base,
                     now.mono - INT64_C(60000000000));
    df_span_end(&s);
    r = take();
    assert_int_equal(r->end_ns - r->start_ns, INT64_C(60000000000));
    free(r);
}

static void what_is_not_sampled_costs_nothing_and_passes_the_parent_on(void **state)
{
    (void)state;
    struct df_span s;

    df_trace_set_sampled(&caller, false);
    df_span_begin(&s, &caller, "x", DF_SPAN_CLIENT, &now.base);
    assert_false(s.recording);
    assert_string_equal(s.trace.text, caller.text);
    df_span_text(&s, "k", DF_STR("v"));
    df_span_fail(&s, DF_STR("why"));
    df_span_end(&s);
    nothing_waits();
    df_trace_set_sampled(&caller, true);
    df_spans_stop();
    df_span_begin(&s, &caller, "x", DF_SPAN_CLIENT, &now.base);
    assert_false(s.recording);
    assert_string_equal(s.trace.text, caller.text);
    s = (struct df_span){0};
    df_span_end(&s);
}

static void texts_are_cut_and_masked(void **state)
{
    (void)state;
    struct df_span s;
    char long_text[1000], at_the_cut[DF_SPAN_TEXT + 20];

    memset(long_text, 'y', sizeof(long_text));
    memset(at_the_cut, ' ', sizeof(at_the_cut));
    memcpy(at_the_cut + DF_SPAN_TEXT - 8, "529.982.247-25", 14);
    char umlauts[DF_SPAN_TEXT + 2];
    memset(umlauts, 'a', sizeof(umlauts));
    memcpy(umlauts + DF_SPAN_TEXT - 1, "\xC3\xA9", 2); /* half of it would be beyond the cut */
    df_span_begin(&s, &caller, "x", DF_SPAN_CLIENT, &now.base);
    df_span_text(&s, "long", df_str_n(long_text, sizeof(long_text)));
    df_span_text(&s, "cpf", DF_STR("of 529.982.247-25, please"));
    df_span_text(&s, "cut", df_str_n(at_the_cut, sizeof(at_the_cut)));
    df_span_text(&s, "char", df_str_n(umlauts, sizeof(umlauts)));
    df_span_text(&s, "bytes", DF_STR("ok\xFF\xFE"));
    df_span_text(&s, "empty", DF_STR(""));
    df_span_fail(&s, DF_STR("fone +5551987654321"));
    df_span_end(&s);
    struct df_span_record *r = take();
    assert_int_equal(r->attrs[0].text.len, DF_SPAN_TEXT);
    assert_null(memmem(r->attrs[1].text.ptr, r->attrs[1].text.len, "982", 3));
    assert_null(memmem(r->attrs[2].text.ptr, r->attrs[2].text.len, "529", 3));
    assert_int_equal(r->attrs[3].text.len, DF_SPAN_TEXT - 1);
    assert_true(df_str_eq(r->attrs[4].text, DF_STR("ok")));
    assert_int_equal(r->attrs[5].text.len, 0);
    assert_null(memmem(r->message.ptr, r->message.len, "98765", 5));
    free(r);
}

static void a_full_queue_drops_and_counts(void **state)
{
    (void)state;
    struct df_span s;
    double before = dropped("queue_full");

    for (int i = 0; i < 310; i++) {
        df_span_begin(&s, &caller, "x", DF_SPAN_CLIENT, &now.base);
        df_span_end(&s);
    }
    assert_int_equal(df_spans_waiting(), 300);
    assert_true(dropped("queue_full") - before == 10);
    assert_int_equal(woken, 1);
    df_spans_stop();
    assert_int_equal(df_spans_waiting(), 300); /* they can still be taken */
}

static void a_trace_is_sampled_by_its_id(void **state)
{
    (void)state;
    static const struct {
        double ratio;
        const char *low; /* the last 56 bits */
        bool sampled;
    } cases[] = {
        {0, "ffffffffffffff", false},    {0, "00000000000000", false},
        {1, "00000000000000", true},     {1, "ffffffffffffff", true},
        {0.5, "7fffffffffffff", false},  {0.5, "80000000000000", true},
        {0.25, "bfffffffffffff", false}, {0.25, "c0000000000000", true},
        {0.01, "fd70a3d70a3d70", false}, {0.01, "fd70a3d70a3d71", true},
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        char text[DF_TRACEPARENT_LEN + 1];
        struct df_trace t;
        df_spans_stop();
        df_spans_free();
        df_spans_start(&(struct df_spans_options){.queue = 8, .ratio = cases[i].ratio});
        for (int flag = 0; flag < 2; flag++) {
            (void)snprintf(text, sizeof(text), "00-abcdefabcdefabcdef%s-" SPAN "-0%d", cases[i].low,
                           flag);
            assert_true(df_trace_parse(df_str_c(text), &t));
            df_span_sample(&t);
            if (df_trace_is_sampled(&t) != cases[i].sampled)
                fail_msg("case %zu", i);
        }
    }
}

static void about_so_many_new_traces_are_sampled(void **state)
{
    (void)state;
    int sampled = 0;

    df_spans_stop();
    df_spans_free();
    df_spans_start(&(struct df_spans_options){.queue = 8, .ratio = 0.1});
    for (int i = 0; i < 10000; i++) {
        struct df_trace t = df_span_new_trace(&now.base);
        sampled += df_trace_is_sampled(&t);
    }
    assert_in_range(sampled, 800, 1200);
}

static void a_stored_context_is_taken_up(void **state)
{
    (void)state;
    bool is_new = true;
    struct df_trace t =
        df_span_stored(DF_STR("00-" TRACE "-" SPAN "-00"), DF_STR_NULL, &now.base, &is_new);
    assert_string_equal(t.text, "00-" TRACE "-" SPAN "-00");
    assert_false(is_new);
    t = df_span_stored(DF_STR("rubbish"), DF_STR(TRACE), &now.base, &is_new);
    assert_true(df_str_eq(df_trace_id(&t), DF_STR(TRACE)));
    assert_true(df_trace_is_sampled(&t));
    t = df_span_stored(DF_STR_NULL, DF_STR("rubbish"), &now.base, &is_new);
    assert_false(df_str_eq(df_trace_id(&t), DF_STR(TRACE)));
    assert_true(is_new);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_span_is_recorded_as_it_was, start, stop),
        cmocka_unit_test_setup_teardown(the_start_follows_the_wall_clock_of_the_end, start, stop),
        cmocka_unit_test_setup_teardown(what_is_not_sampled_costs_nothing_and_passes_the_parent_on,
                                        start, stop),
        cmocka_unit_test_setup_teardown(texts_are_cut_and_masked, start, stop),
        cmocka_unit_test_setup_teardown(a_full_queue_drops_and_counts, start, stop),
        cmocka_unit_test_setup_teardown(a_trace_is_sampled_by_its_id, start, stop),
        cmocka_unit_test_setup_teardown(about_so_many_new_traces_are_sampled, start, stop),
        cmocka_unit_test_setup_teardown(a_stored_context_is_taken_up, start, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

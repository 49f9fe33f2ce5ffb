/* Causes: what is replaced and what stays, that a pattern finds what its cause was made of, and
 * counting. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cause.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *error, *cause;
} causes[] = {
    {"", ""},
    {"connection refused", "connection refused"},
    {"HTTP 503", "HTTP 503"},
    {"HTTP 400: order 8812 of CP_0001 is unknown", "HTTP 400: order {n} of {id} is unknown"},
    {"HTTP 4000: x", "HTTP {n}: x"},
    {"HTTP 50", "HTTP {n}"},
    {"00a1b2cHTTP 409", "{id} {n}"},
    {"5-HTTP 409", "{n}-HTTP {n}"},
    {"(HTTP 409)", "(HTTP 409)"},
    {"after 30 s", "after {n} s"},
    {"127.0.0.1:8080 refused", "{n}.{n}.{n}.{n}:{n} refused"},
    {"0190f1e6-6f0a-7c3e-9d53-4b2f6c1d8e70 is gone", "{id} is gone"},
    {"2026-11-15", "{n}-{n}-{n}"},
    {"sha-1 of x2", "sha-{n} of x{n}"},
    {"  trimmed \n", "trimmed"},
    {"a\xC3\xA7\xC3\xA3o 12", "a\xC3\xA7\xC3\xA3o {n}"},
    {"{n} of {id}", "{n} of {id}"},
};

static void ids_and_numbers_are_replaced(void **state)
{
    struct df_arena a;

    (void)state;
    df_arena_init(&a);
    for (size_t i = 0; i < sizeof causes / sizeof causes[0]; i++) {
        struct df_str cause = df_cause_of(df_str_c(causes[i].error), &a);
        struct df_str again = df_cause_of(cause, &a);
        if (!df_str_eq(cause, df_str_c(causes[i].cause)) || !df_str_eq(again, cause))
            fail_msg("%s: " DF_STR_FMT, causes[i].error, DF_STR_ARG(cause));
    }
    df_arena_release(&a);
}

static void a_cause_is_never_longer_than_it_may_be(void **state)
{
    struct df_arena a;
    char text[4001];

    (void)state;
    df_arena_init(&a);
    for (size_t i = 0; i < sizeof text - 1; i++)
        text[i] = i % 2 ? '1' : ' ';
    text[sizeof text - 1] = '\0';
    assert_true(df_utf8_count(df_cause_of(df_str_c(text), &a)) <= DF_CAUSE_CHARS);
    memset(text, 'x', sizeof text - 1);
    assert_int_equal(df_cause_of(df_str_c(text), &a).len, DF_CAUSE_CHARS);
    df_arena_release(&a);
}

/* LIKE with the escape '!', as databases read it. */
static bool is_like(const char *s, const char *p)
{
    if (!*p)
        return !*s;
    if (*p == '%')
        return is_like(s, p + 1) || (*s && is_like(s + 1, p));
    if (*p == '!')
        p++;
    return *s == *p && is_like(s + 1, p + 1);
}

static void the_pattern_of_a_cause_finds_the_error(void **state)
{
    struct df_arena a;
    char pattern[1024];

    (void)state;
    df_arena_init(&a);
    for (size_t i = 0; i < sizeof causes / sizeof causes[0]; i++) {
        struct df_str p = df_cause_pattern(df_cause_of(df_str_c(causes[i].error), &a), &a);
        (void)snprintf(pattern, sizeof pattern, DF_STR_FMT, DF_STR_ARG(p));
        if (!is_like(causes[i].error, pattern))
            fail_msg("%s is not like %s", causes[i].error, pattern);
    }
    assert_null(df_cause_pattern(DF_STR_NULL, &a).ptr);
    static const struct {
        const char *text, *pattern;
    } literal[] = {{"%", "%!%%"}, {"a_b", "%a!_b%"}, {"[x]!", "%![x!]!!%"},
                   {"{n}", "%%"}, {"{i", "%%"},      {"{x}", "%{x}%"}};
    for (size_t i = 0; i < sizeof literal / sizeof literal[0]; i++)
        assert_true(df_str_eq(df_cause_pattern(df_str_c(literal[i].text), &a),
                              df_str_c(literal[i].pattern)));
    df_arena_release(&a);
}

static void failures_are_counted_by_cause_the_most_frequent_first(void **state)
{
    struct df_arena a;
    struct df_causes c;
    size_t count = 0;

    (void)state;
    df_arena_init(&a);
    df_causes_init(&c, &a);
    df_causes_add(&c, DF_STR("late 1"), 5000, false, DF_STR("a"));
    df_causes_add(&c, DF_STR("other"), 4000, false, DF_STR("b"));
    df_causes_add(&c, DF_STR("late 2"), 3000, true, DF_STR("c"));
    df_causes_add(&c, DF_STR(" "), 2000, true, DF_STR("d"));
    df_causes_add(&c, DF_STR_NULL, 1000, true, DF_STR("e"));
    struct df_cause **top = df_causes_top(&c, 50, &count);
    assert_int_equal(count, 2);
    assert_int_equal(c.failures, 3);
    assert_true(df_str_eq(top[0]->text, DF_STR("late {n}")) && top[0]->count == 2);
    assert_true(top[0]->first_ms == 3000 && top[0]->last_ms == 5000 && top[0]->retried);
    assert_true(df_str_eq(top[0]->example, DF_STR("a")) && !top[1]->retried);
    (void)df_causes_top(&c, 1, &count);
    assert_int_equal(count, 1);
    df_causes_release(&c);
    df_arena_release(&a);
}

static void causes_beyond_the_bound_are_counted_together(void **state)
{
    struct df_arena a;
    struct df_causes c;
    char text[40];

    (void)state;
    df_arena_init(&a);
    df_causes_init(&c, &a);
    for (int i = 0; i < DF_CAUSES_KINDS + 100; i++) {
        (void)snprintf(text, sizeof text, "kind %c%c%c%c", 'a' + i / 17576 % 26, 'a' + i / 676 % 26,
                       'a' + i / 26 % 26, 'a' + i % 26);
        df_causes_add(&c, df_str_c(text), i, false, DF_STR("x"));
    }
    assert_int_equal(c.map.count, DF_CAUSES_KINDS + 1);
    assert_int_equal(((struct df_cause *)df_map_get(&c.map, DF_STR("other")))->count, 100);
    df_causes_release(&c);
    df_arena_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_and_numbers_are_replaced),
        cmocka_unit_test(a_cause_is_never_longer_than_it_may_be),
        cmocka_unit_test(the_pattern_of_a_cause_finds_the_error),
        cmocka_unit_test(failures_are_counted_by_cause_the_most_frequent_first),
        cmocka_unit_test(causes_beyond_the_bound_are_counted_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

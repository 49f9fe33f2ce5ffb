/* The table of parts: what is called, in which order, and what is passed over. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "app/parts.h"
#include "base/buf.h"

/* The walk knows nothing of the app: this one writes down what is called. */
struct df_app {
    struct df_buf calls;
    int failing; /* the part whose start fails; 0: none */
    int64_t deadline_ms;
};

static struct df_app app;

static void note(struct df_app *a, const char *what, int part)
{
    df_buf_addf(&a->calls, "%s%s %d", a->calls.len > 0 ? ", " : "", what, part);
}

static enum df_code note_start(struct df_app *a, int part, struct df_err *err)
{
    note(a, "start", part);
    return a->failing == part ? df_err_set(err, DF_E_CONFIG, "part %d fails", part) : DF_OK;
}

#define PART(n, for_roles)                                                                         \
    static enum df_code start_##n(struct df_app *a, struct df_err *err)                            \
    {                                                                                              \
        return note_start(a, n, err);                                                              \
    }                                                                                              \
    static void stop_##n(struct df_app *a, int64_t deadline_ms)                                    \
    {                                                                                              \
        note(a, "stop", n);                                                                        \
        assert_true(deadline_ms == a->deadline_ms);                                                \
    }                                                                                              \
    static void end_##n(struct df_app *a)                                                          \
    {                                                                                              \
        note(a, "end", n);                                                                         \
    }                                                                                              \
    static void free_##n(struct df_app *a)                                                         \
    {                                                                                              \
        note(a, "free", n);                                                                        \
    }                                                                                              \
    static const struct df_part part_##n = {.roles = (for_roles),                                  \
                                            .start = start_##n,                                    \
                                            .stop = stop_##n,                                      \
                                            .end = end_##n,                                        \
                                            .free = free_##n}

enum { COOK = 1, WAIT = 2 };

PART(1, 0);
PART(2, COOK | WAIT);
PART(3, WAIT);
PART(4, 0);
static const struct df_part bare = {.start = start_4};

static const struct df_part *const table[] = {&part_1, &part_2, &part_3, &part_4, NULL};

static int reset(void **state)
{
    (void)state;
    df_buf_release(&app.calls);
    app = (struct df_app){.deadline_ms = 7};
    df_buf_init(&app.calls, 4096);
    return 0;
}

static int release(void **state)
{
    (void)state;
    df_buf_release(&app.calls);
    return 0;
}

static void assert_calls(const char *wanted)
{
    assert_string_equal(df_buf_str(&app.calls).ptr, wanted);
    df_buf_reset(&app.calls);
}

static void parts_start_in_order_and_end_from_the_last_to_the_first(void **state)
{
    struct df_parts p = {.table = table};
    struct df_err err = DF_ERR_INIT;
    (void)state;

    assert_int_equal(df_parts_start(&p, &app, COOK | WAIT, &err), DF_OK);
    assert_calls("start 1, start 2, start 3, start 4");
    df_parts_stop(&p, &app, 7);
    assert_calls("stop 4, stop 3, stop 2, stop 1, end 4, end 3, end 2, end 1");
    df_parts_free(&p, &app);
    assert_calls("free 4, free 3, free 2, free 1");
}

static void a_part_of_another_role_is_passed_over(void **state)
{
    struct df_parts p = {.table = table};
    struct df_err err = DF_ERR_INIT;
    (void)state;

    assert_int_equal(df_parts_start(&p, &app, COOK, &err), DF_OK);
    df_parts_stop(&p, &app, 7);
    df_parts_free(&p, &app);
    assert_calls("start 1, start 2, start 4, stop 4, stop 2, stop 1, end 4, end 2, end 1, "
                 "free 4, free 2, free 1");
}

static void what_came_before_a_part_that_fails_ends_by_the_same_table(void **state)
{
    static const char *const wanted[] = {
        "start 1",
        "start 1, start 2, stop 1, end 1, free 1",
        "start 1, start 2, start 3, stop 2, stop 1, end 2, end 1, free 2, free 1",
        "start 1, start 2, start 3, start 4, stop 3, stop 2, stop 1, end 3, end 2, end 1, "
        "free 3, free 2, free 1",
    };
    (void)state;

    for (int failing = 1; failing <= 4; failing++) {
        struct df_parts p = {.table = table};
        struct df_err err = DF_ERR_INIT;
        app.failing = failing;
        assert_int_equal(df_parts_start(&p, &app, COOK | WAIT, &err), DF_E_CONFIG);
        assert_non_null(strstr(err.detail, "fails"));
        df_parts_stop(&p, &app, 7);
        df_parts_free(&p, &app);
        assert_calls(wanted[failing - 1]);
    }
}

static void nothing_is_freed_twice(void **state)
{
    struct df_parts p = {.table = table};
    struct df_err err = DF_ERR_INIT;
    (void)state;

    assert_int_equal(df_parts_start(&p, &app, WAIT, &err), DF_OK);
    df_parts_free(&p, &app);
    df_buf_reset(&app.calls);
    df_parts_stop(&p, &app, 7);
    df_parts_free(&p, &app);
    assert_int_equal(app.calls.len, 0);
}

static void a_part_may_have_a_start_alone(void **state)
{
    static const struct df_part *const two[] = {&part_1, &bare, NULL};
    struct df_parts p = {.table = two};
    struct df_err err = DF_ERR_INIT;
    (void)state;

    assert_int_equal(df_parts_start(&p, &app, 0, &err), DF_OK);
    df_parts_stop(&p, &app, 7);
    df_parts_free(&p, &app);
    assert_calls("start 1, start 4, stop 1, end 1, free 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(parts_start_in_order_and_end_from_the_last_to_the_first, reset),
        cmocka_unit_test_setup(a_part_of_another_role_is_passed_over, reset),
        cmocka_unit_test_setup(what_came_before_a_part_that_fails_ends_by_the_same_table, reset),
        cmocka_unit_test_setup(nothing_is_freed_twice, reset),
        cmocka_unit_test_setup(a_part_may_have_a_start_alone, reset),
    };
    return cmocka_run_group_tests(tests, NULL, release);
}

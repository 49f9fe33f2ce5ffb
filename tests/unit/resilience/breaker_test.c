#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/metrics.h"
#include "capture.h"
#include "fake_clock.h"
#include "resilience/breaker.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define START   INT64_C(1794712565123)
#define THREADS 8

static struct df_fake_clock clock_;
static struct df_fake_clock dice;

static const struct df_breaker_settings usual = {
    .window = 10,
    .min_calls = 5,
    .failure_rate = 50,
    .open_ms = 10000,
    .half_open_calls = 3,
};

static int quiet(void **state)
{
    (void)state;
    df_fake_clock_init(&clock_, START, 7);
    df_fake_clock_init(&dice, 0, 1);
    df_log_init(DF_LOG_ERROR, DF_LOG_JSON, &clock_.base);
    return 0;
}

static int64_t below(int64_t bound)
{
    return (int64_t)df_random_below(&dice.base, (uint64_t)bound);
}

static struct df_breaker *fresh(struct df_breaker_settings opt)
{
    return df_breaker_new(DF_STR("test"), &opt, &clock_.base);
}

static struct df_breaker_permit allowed(struct df_breaker *b)
{
    struct df_breaker_permit p = {0};
    int64_t retry_ms = -1;
    assert_true(df_breaker_allow(b, &p, &retry_ms));
    assert_int_equal(retry_ms, -1);
    return p;
}

static int64_t refused(struct df_breaker *b)
{
    struct df_breaker_permit p;
    int64_t retry_ms = 0;
    assert_false(df_breaker_allow(b, &p, &retry_ms));
    assert_true(retry_ms > 0);
    return retry_ms;
}

static void call(struct df_breaker *b, enum df_breaker_outcome outcome, int64_t duration_ms)
{
    df_breaker_done(b, allowed(b), outcome, duration_ms);
}

/* One call a letter: s, f, i (ignored); capital: it takes a second. */
static void calls(struct df_breaker *b, const char *what)
{
    for (; *what; what++) {
        int64_t ms = *what < 'a' ? 1000 : 1;
        char c = (char)(*what | 0x20);
        call(b,
             c == 's'   ? DF_BREAKER_SUCCESS
             : c == 'f' ? DF_BREAKER_FAILURE
                        : DF_BREAKER_IGNORED,
             ms);
    }
}

static struct df_breaker_snapshot look(struct df_breaker *b)
{
    struct df_breaker_snapshot s;
    df_breaker_snapshot(b, &s);
    return s;
}

#define assert_state(b, s)                                                                         \
    assert_string_equal(df_breaker_state_name(look(b).state), df_breaker_state_name(s))

/* --- the table of transitions, line by line --- */

static void closed_permits_any_number_of_calls(void **state)
{
    (void)state;
    struct df_breaker *b = fresh(usual);
    for (int i = 0; i < 1000; i++)
        (void)allowed(b);
    assert_state(b, DF_BREAKER_CLOSED);
    df_breaker_free(b);
}

static void closed_stays_so_before_min_calls(void **state)
{
    (void)state;
    struct df_breaker *b = fresh(usual);
    calls(b, "ffff");
    assert_state(b, DF_BREAKER_CLOSED);
    assert_true(look(b).failure_rate == -1 && look(b).slow_rate == -1);
    assert_int_equal(look(b).failed, 4);
    calls(b, "f");
    assert_state(b, DF_BREAKER_OPEN);
    assert_true(look(b).failure_rate == 100);
    df_breaker_free(b);
}

static void more_min_calls_than_the_window_holds_means_a_full_window(void **state)
{
    (void)state;
    struct df_breaker_settings opt = usual;
    opt.window = 3;
    opt.min_calls = 100;
    struct df_breaker *b = fresh(opt);
    calls(b, "ff");
    assert_state(b, DF_BREAKER_CLOSED);
    calls(b, "f");
    assert_state(b, DF_BREAKER_OPEN);
    df_breaker_free(b);
}

static void closed_stays_so_below_the_rate(void **state)
{
    (void)state;
    struct df_breaker *b = fresh(usual);
    for (int i = 0; i < 20; i++)
        calls(b, "sfssfsfsfs"); /* 4 of any 10, never half of fewer */
    assert_state(b, DF_BREAKER_CLOSED);
    assert_true(look(b).failure_rate == 40);
    df_breaker_free(b);
}

static void closed_opens_at_the_failure_rate(void **state)
{
    (void)state;
    struct df_breaker *b = fresh(usual);
    calls(b, "sssssffff");
    assert_state(b, DF_BREAKER_CLOSED);
    df_fake_clock_advance_ms(&clock_, 70);
    calls(b, "f"); /* 5 of 10 */
    struct df_breaker_snapshot s = look(b);
    assert_int_equal(s.state, DF_BREAKER_OPEN);
    assert_int_equal(s.since_ms, START + 70);
    assert_int_equal(s.last_failure_ms, START + 70);
    assert_int_equal(s.retry_ms, 10000);
    assert_int_equal(s.window, 10);
    assert_int_equal(s.calls, 10);
    assert_int_equal(s.failed, 5);
    assert_true(s.failure_rate == 50 && s.slow_rate == 0);
    df_breaker_free(b);
}

static void a_success_can_be_the_call_that_opens(void **state)
{
    (void)state;
    struct df_breaker *b = fresh(usual);
    calls(b, "ffff");
    assert_state(b, DF_BREAKER_CLOSED);
    calls(b, "s"); /* the fifth: the rate counts from here */
    assert_state(b, DF_BREAKER_OPEN);
    df_breaker_free(b);
}

static void old_calls_leave_the_window(void **state)
{
    (void)state;
    struct df_breaker *b = fresh(usual);
    calls(b, "ssssssffff");
    calls(b, "ssssss"); /* the same four are still in it */
    assert_int_equal(look(b).failed, 4);
    calls(b, "ssss");
    assert_int_equal(look(b).failed, 0);
    assert_int_equal(look(b).calls, 10);
    calls(b, "ffff");
    assert_state(b, DF_BREAKER_CLOSED);
    df_breaker_free(b);
}

static void slow_calls_open_at_their_own_rate(void **state)
{
    (void)state;
    struct df_breaker_settings opt = usual;
    opt.slow_call_ms = 999;
    opt.slow_call_rate = 60;
    struct df_breaker *b = fresh(opt);
    calls(b, "sSSss"); /* 2 of 5 */
    assert_state(b, DF_BREAKER_CLOSED);
    assert_true(look(b).slow_rate == 40 && look(b).failure_rate == 0);
    calls(b, "SSS"); /* 5 of 8 */
    assert_state(b, DF_BREAKER_OPEN);
    assert_int_equal(look(b).slow, 5);
    assert_int_equal(look(b).last_failure_ms, 0);
    df_breaker_free(b);
}

static void a_failed_call_may_be_slow_too(void **state)
{
    (void)state;
    struct df_breaker_settings opt = usual;
    opt.slow_call_ms = 999;
    opt.slow_call_rate = 60;
    struct df_breaker *b = fresh(opt);
    calls(b, "sFFsS"); /* 40 % failed, 60 % slow */
    assert_state(b, DF_BREAKER_OPEN);
    assert_int_equal(look(b).failed, 2);
    assert_int_equal(look(b).slow, 3);
    df_breaker_free(b);
}

static void slow_is_longer_than_the_limit_and_its_rate_100_unless_told(void **state)
{
    (void)state;
    struct df_breaker_settings opt = usual;
    opt.slow_call_ms = 1000;
    struct df_breaker *b = fresh(opt);
    calls(b, "SSSSS"); /* exactly the limit */
    assert_int_equal(look(b).slow, 0);
    for (int i = 0; i < 9; i++)
        call(b, DF_BREAKER_SUCCESS, 1001);
    assert_state(b, DF_BREAKER_CLOSED);
    call(b, DF_BREAKER_SUCCESS, 1001);
    assert_state(b, DF_BREAKER_OPEN);
    df_breaker_free(b);
}

static void without_a_limit_nothing_is_slow(void **state)
{
    (void)state;
    struct df_breaker *b = fresh(usual);
    for (int i = 0; i < 30; i++)
        call(b, DF_BREAKER_SUCCESS, INT64_MAX);
    assert_state(b, DF_BREAKER_CLOSED);
    assert_int_equal(look(b).slow, 0);
    df_breaker_free(b);
}

static void open_refuses_for_its_time_and_says_how_long(void **state)
{
    (void)state;
    struct df_breaker *b = fresh(usual);
    calls(b, "fffff");
    assert_int_equal(refused(b), 10000);
    df_fake_clock_advance_ms(&clock_, 4000);
    assert_int_equal(refused(b), 6000);
    df_fake_clock_advance_ms(&clock_, -3600000); /* the wall clock is set back */
    df_fake_clock_advance_ms(&clock_, 5999);
    assert_int_equal(refused(b), 1);
    clock_.mono += 999999; /* one nanosecond is left: still not now */
    assert_int_equal(refused(b), 1);
    assert_state(b, DF_BREAKER_OPEN);
    assert_int_equal(look(b).not_permitted, 4);
    clock_.mono += 1;
    (void)allowed(b);
    df_breaker_free(b);
}

static void open_becomes_half_open_when_asked_after_its_time(void **state)
{
    (void)state;
    struct df_breaker *b = fresh(usual);
    calls(b, "fffff");
    df_fake_clock_advance_ms(&clock_, 10000);
    assert_state(b, DF_BREAKER_OPEN); /* nobody asked */
    assert_int_equal(look(b).retry_ms, 0);
    (void)allowed(b);
    struct df_breaker_snapshot s = look(b);
    assert_int_equal(s.state, DF_BREAKER_HALF_OPEN);
    assert_int_equal(s.since_ms, START + 10000);
    assert_int_equal(s.window, 3);
    assert_int_equal(s.calls, 0);
    assert_int_equal(s.failed, 0);
    assert_true(s.failure_rate == -1);
    df_breaker_free(b);
}

static struct df_breaker *half_open(struct df_breaker_settings opt)
{
    opt.min_calls = 1;
    opt.failure_rate = 50;
    struct df_breaker *b = fresh(opt);
    calls(b, "f");
    df_fake_clock_advance_ms(&clock_, opt.open_ms);
    calls(b, "i"); /* asks, and leaves all probes */
    assert_state(b, DF_BREAKER_HALF_OPEN);
    return b;
}

static void half_open_permits_its_probes_and_no_more(void **state)
{
    (void)state;
    struct df_breaker *b = half_open(usual);
    struct df_breaker_permit p = allowed(b);
    (void)allowed(b);
    (void)allowed(b);
    assert_int_equal(refused(b), 100);
    df_breaker_done(b, p, DF_BREAKER_SUCCESS, 1);
    (void)refused(b); /* a finished probe is not made again */
    df_fake_clock_advance_ms(&clock_, 3600000);
    (void)refused(b); /* nor does time free one */
    assert_state(b, DF_BREAKER_HALF_OPEN);
    df_breaker_free(b);
}

static void half_open_waits_for_all_probes_whatever_min_calls_says(void **state)
{
    (void)state;
    struct df_breaker *b = half_open(usual);
    calls(b, "ff");
    assert_state(b, DF_BREAKER_HALF_OPEN);
    assert_int_equal(look(b).failed, 2);
    calls(b, "s");
    assert_state(b, DF_BREAKER_OPEN);
    df_breaker_free(b);
}

static void half_open_closes_below_the_rates_with_an_empty_window(void **state)
{
    (void)state;
    struct df_breaker *b = half_open(usual);
    df_fake_clock_advance_ms(&clock_, 5);
    calls(b, "sfs"); /* 33 % */
    struct df_breaker_snapshot s = look(b);
    assert_int_equal(s.state, DF_BREAKER_CLOSED);
    assert_int_equal(s.since_ms, START + 10005);
    assert_int_equal(s.window, 10);
    assert_int_equal(s.calls, 0);
    assert_int_equal(s.failed, 0);
    calls(b, "ssfsf"); /* 40 %: the old failures are forgotten */
    assert_state(b, DF_BREAKER_CLOSED);
    df_breaker_free(b);
}

static void half_open_opens_again_at_the_failure_rate(void **state)
{
    (void)state;
    struct df_breaker *b = half_open(usual);
    calls(b, "sff");
    assert_state(b, DF_BREAKER_OPEN);
    assert_int_equal(look(b).window, 3);
    assert_int_equal(look(b).failed, 2);
    assert_int_equal(refused(b), 10000);
    df_fake_clock_advance_ms(&clock_, 10000);
    calls(b, "sss");
    assert_state(b, DF_BREAKER_CLOSED);
    df_breaker_free(b);
}

static void half_open_opens_again_at_the_slow_rate(void **state)
{
    (void)state;
    struct df_breaker_settings opt = usual;
    opt.slow_call_ms = 500;
    opt.slow_call_rate = 100;
    struct df_breaker *b = half_open(opt);
    calls(b, "SSS");
    assert_state(b, DF_BREAKER_OPEN);
    df_fake_clock_advance_ms(&clock_, 10000);
    calls(b, "SsS");
    assert_state(b, DF_BREAKER_CLOSED);
    df_breaker_free(b);
}

static void more_probes_than_the_window_are_all_counted(void **state)
{
    (void)state;
    struct df_breaker_settings opt = usual;
    opt.window = 2;
    opt.half_open_calls = 7;
    struct df_breaker *b = half_open(opt);
    calls(b, "ffffsss"); /* 4 of 7; the last two alone would close */
    assert_state(b, DF_BREAKER_OPEN);
    df_breaker_free(b);
}

static void ignored_calls_do_not_count(void **state)
{
    (void)state;
    struct df_breaker_settings opt = usual;
    opt.slow_call_ms = 500;
    struct df_breaker *b = fresh(opt);
    calls(b, "iiIIiiIIiiIIffffi");
    assert_int_equal(look(b).calls, 4);
    assert_int_equal(look(b).slow, 0);
    calls(b, "f");
    df_fake_clock_advance_ms(&clock_, 10000);
    calls(b, "iiiiiiii"); /* each frees its probe */
    calls(b, "sIsis");
    assert_state(b, DF_BREAKER_CLOSED);
    df_breaker_free(b);
}

static void a_permit_of_an_earlier_state_does_not_count(void **state)
{
    (void)state;
    struct df_breaker *b = fresh(usual);
    struct df_breaker_permit closed[8];
    for (size_t i = 0; i < 8; i++)
        closed[i] = allowed(b);
    calls(b, "fffff");

    /* In OPEN neither the window nor the time changes. */
    df_fake_clock_advance_ms(&clock_, 1000);
    df_breaker_done(b, closed[0], DF_BREAKER_FAILURE, 1);
    df_breaker_done(b, closed[1], DF_BREAKER_SUCCESS, 1);
    assert_int_equal(look(b).calls, 5);
    assert_int_equal(look(b).last_failure_ms, START + 1000); /* it did happen */
    assert_int_equal(refused(b), 9000);

    /* In HALF_OPEN it is no probe, and does not free one. */
    df_fake_clock_advance_ms(&clock_, 9000);
    struct df_breaker_permit probes[3] = {allowed(b), allowed(b), allowed(b)};
    df_breaker_done(b, closed[2], DF_BREAKER_SUCCESS, 1);
    df_breaker_done(b, closed[3], DF_BREAKER_FAILURE, 1);
    df_breaker_done(b, closed[4], DF_BREAKER_IGNORED, 1);
    assert_int_equal(look(b).calls, 0);
    (void)refused(b);

    /* In the next CLOSED it is not one of its calls. */
    for (size_t i = 0; i < 3; i++)
        df_breaker_done(b, probes[i], DF_BREAKER_SUCCESS, 1);
    assert_state(b, DF_BREAKER_CLOSED);
    df_breaker_done(b, closed[5], DF_BREAKER_FAILURE, 1);
    assert_int_equal(look(b).calls, 0);
    df_breaker_free(b);
}

static void a_probe_of_an_earlier_half_open_is_none_of_the_next(void **state)
{
    (void)state;
    struct df_breaker_settings opt = usual;
    opt.half_open_calls = 1;
    struct df_breaker *b = half_open(opt);
    struct df_breaker_permit late = allowed(b);
    df_breaker_done(b, late, DF_BREAKER_IGNORED, 1);
    calls(b, "f"); /* OPEN */
    df_fake_clock_advance_ms(&clock_, 10000);
    (void)allowed(b); /* HALF_OPEN again, its probe under way */
    df_breaker_done(b, late, DF_BREAKER_SUCCESS, 1);
    assert_state(b, DF_BREAKER_HALF_OPEN);
    df_breaker_free(b);
}

/* --- against a model that keeps everything and counts anew each time --- */

#define MODEL_CALLS 4000
#define OUTSTANDING 40
#define MODEL_RUNS  1500
#define MODEL_STEPS 400
#define MAX_WINDOW  12

struct model {
    struct df_breaker_settings opt;
    enum df_breaker_state state;
    int state_number;
    int64_t opened_ms; /* on the clock below */
    int64_t now_ms;
    int64_t probes;
    int64_t not_permitted;
    size_t count; /* of all calls in this state */
    bool failed[MODEL_CALLS];
    bool slow[MODEL_CALLS];
};

struct held {
    struct df_breaker_permit permit;
    int state_number;
};

static size_t model_window(const struct model *m)
{
    int64_t w = m->state == DF_BREAKER_HALF_OPEN ? m->opt.half_open_calls : m->opt.window;
    return m->count < (size_t)w ? m->count : (size_t)w;
}

static size_t model_count(const struct model *m, const bool *what)
{
    size_t n = 0;
    for (size_t i = m->count - model_window(m); i < m->count; i++)
        n += what[i];
    return n;
}

static void model_enter(struct model *m, enum df_breaker_state to)
{
    m->state = to;
    m->state_number++;
    m->count = 0;
    m->probes = 0;
    m->opened_ms = m->now_ms;
}

static bool model_allow(struct model *m)
{
    if (m->state == DF_BREAKER_OPEN && m->now_ms - m->opened_ms >= m->opt.open_ms)
        model_enter(m, DF_BREAKER_HALF_OPEN);
    bool yes = m->state == DF_BREAKER_CLOSED ||
               (m->state == DF_BREAKER_HALF_OPEN && m->probes < m->opt.half_open_calls);
    m->probes += yes;
    m->not_permitted += !yes;
    return yes;
}

static void model_done(struct model *m, int state_number, enum df_breaker_outcome o, int64_t ms)
{
    if (state_number != m->state_number)
        return;
    if (o == DF_BREAKER_IGNORED) {
        m->probes--;
        return;
    }
    m->failed[m->count] = o == DF_BREAKER_FAILURE;
    m->slow[m->count] = m->opt.slow_call_ms > 0 && ms > m->opt.slow_call_ms;
    m->count++;
    size_t n = model_window(m);
    bool enough = m->state == DF_BREAKER_HALF_OPEN
                      ? (int64_t)n == m->opt.half_open_calls
                      : (int64_t)n >= m->opt.min_calls || (int64_t)n == m->opt.window;
    if (!enough)
        return;
    double slow_limit = m->opt.slow_call_rate ? (double)m->opt.slow_call_rate : 100;
    if (100.0 * (double)model_count(m, m->failed) / (double)n >= (double)m->opt.failure_rate ||
        100.0 * (double)model_count(m, m->slow) / (double)n >= slow_limit)
        model_enter(m, DF_BREAKER_OPEN);
    else if (m->state == DF_BREAKER_HALF_OPEN)
        model_enter(m, DF_BREAKER_CLOSED);
}

static void compare(struct df_breaker *b, const struct model *m)
{
    struct df_breaker_snapshot s = look(b);
    assert_int_equal(s.state, m->state);
    assert_int_equal(s.not_permitted, m->not_permitted);
    if (m->state == DF_BREAKER_OPEN) {
        int64_t left = m->opened_ms + m->opt.open_ms - m->now_ms;
        assert_int_equal(s.retry_ms, left > 0 ? left : 0);
        return;
    }
    assert_int_equal(s.calls, model_window(m));
    assert_int_equal(s.failed, model_count(m, m->failed));
    assert_int_equal(s.slow, model_count(m, m->slow));
}

static void random_options(struct model *m)
{
    m->opt = (struct df_breaker_settings){
        .window = 1 + below(MAX_WINDOW),
        .min_calls = 1 + below(MAX_WINDOW + 3),
        .failure_rate = 1 + below(100),
        .slow_call_ms = below(3) * 10,
        .slow_call_rate = below(101),
        .open_ms = 1 + below(50),
        .half_open_calls = 1 + below(6),
    };
}

/* Counts the states reached, so that the test cannot pass by staying in one. */
static void run_model(size_t reached[3])
{
    static struct model m;
    struct held held[OUTSTANDING];
    size_t held_count = 0;
    memset(&m, 0, sizeof m);
    random_options(&m);
    int64_t fail_in_100 = below(101);
    struct df_breaker *b = fresh(m.opt);
    for (int step = 0; step < MODEL_STEPS; step++) {
        int64_t kind = below(10);
        if (kind == 0) {
            int64_t ms = below(m.opt.open_ms + 2);
            df_fake_clock_advance_ms(&clock_, ms);
            m.now_ms += ms;
        } else if (kind < 6 && held_count < OUTSTANDING) {
            struct held h = {.state_number = -1};
            int64_t retry_ms = 0;
            bool yes = model_allow(&m);
            assert_int_equal(df_breaker_allow(b, &h.permit, &retry_ms), yes);
            assert_int_equal(retry_ms > 0, !yes);
            h.state_number = m.state_number;
            if (yes)
                held[held_count++] = h;
        } else if (held_count > 0) {
            size_t i = (size_t)below((int64_t)held_count);
            enum df_breaker_outcome o = below(100) < fail_in_100 ? DF_BREAKER_FAILURE
                                        : below(5) == 0          ? DF_BREAKER_IGNORED
                                                                 : DF_BREAKER_SUCCESS;
            int64_t ms = below(30);
            df_breaker_done(b, held[i].permit, o, ms);
            model_done(&m, held[i].state_number, o, ms);
            held[i] = held[--held_count];
        }
        compare(b, &m);
        reached[m.state]++;
    }
    df_breaker_free(b);
}

static void it_does_what_the_model_does(void **state)
{
    (void)state;
    size_t reached[3] = {0};
    for (int i = 0; i < MODEL_RUNS; i++)
        run_model(reached);
    for (size_t i = 0; i < 3; i++)
        assert_true(reached[i] > MODEL_RUNS * MODEL_STEPS / 50);
}

/* --- log and metrics --- */

static char text[1 << 20];

/* What `act` writes to the log. */
static const char *logged(void (*act)(void))
{
    capture();
    act();
    return captured_lines();
}

static bool exposed(const char *line)
{
    struct df_buf page;
    df_buf_init(&page, sizeof text);
    df_metrics_write(&page);
    int n = snprintf(text, sizeof text, "\n" DF_STR_FMT, DF_STR_ARG(df_buf_str(&page)));
    df_buf_release(&page);
    assert_true(n > 0 && (size_t)n < sizeof text);
    char whole[200];
    snprintf(whole, sizeof whole, "\n%s\n", line);
    return strstr(text, whole) != NULL;
}

static void go_round(void)
{
    struct df_breaker *b = df_breaker_new(DF_STR("https://a.example:443"), &usual, &clock_.base);
    calls(b, "fffff");
    df_fake_clock_advance_ms(&clock_, 10000);
    calls(b, "ssf");
    df_breaker_free(b);
}

static void each_change_of_state_is_logged_with_its_destination(void **state)
{
    (void)state;
    df_log_init(DF_LOG_INFO, DF_LOG_JSON, &clock_.base);
    const char *to = "\"destination\":\"https://a.example:443\"";
    const char *line = logged(go_round);
    static const struct {
        const char *level, *event, *message;
    } want[] = {
        {"warn", "CircuitBreakerOpened",
         "5 of the last 5 calls failed and 0 were slow: no calls for 10000 ms"},
        {"info", "CircuitBreakerHalfOpen", "probing with 3 calls"},
        {"info", "CircuitBreakerClosed", "1 of 3 probes failed and 0 were slow: calls go on"},
    };
    for (size_t i = 0; i < 3; i++) {
        char *end = strchr(line, '\n');
        assert_non_null(end);
        *end = '\0';
        assert_non_null(strstr(line, want[i].level));
        assert_non_null(strstr(line, want[i].event));
        assert_non_null(strstr(line, want[i].message));
        assert_non_null(strstr(line, to));
        line = end + 1;
    }
    assert_string_equal(line, "");
}

static void metrics_tell_states_and_outcomes(void **state)
{
    (void)state;
    struct df_breaker *b = df_breaker_new(DF_STR("metered"), &usual, &clock_.base);
    assert_true(exposed("dataflow_breaker_state{name=\"metered\"} 0"));
    calls(b, "siiffff");
    (void)refused(b);
    (void)refused(b);
    assert_true(exposed("dataflow_breaker_state{name=\"metered\"} 1"));
    assert_true(
        exposed("dataflow_breaker_calls_total{name=\"metered\",outcome=\"not_permitted\"} 2"));
    df_fake_clock_advance_ms(&clock_, 10000);
    calls(b, "s");
    assert_true(exposed("dataflow_breaker_state{name=\"metered\"} 2"));
    calls(b, "ss");
    assert_true(exposed("dataflow_breaker_state{name=\"metered\"} 0"));
    assert_true(exposed("dataflow_breaker_calls_total{name=\"metered\",outcome=\"success\"} 4"));
    assert_true(exposed("dataflow_breaker_calls_total{name=\"metered\",outcome=\"failure\"} 4"));
    assert_true(exposed("dataflow_breaker_calls_total{name=\"metered\",outcome=\"ignored\"} 2"));
    df_breaker_free(b);
}

static void a_freed_breaker_is_shown_closed(void **state)
{
    (void)state;
    struct df_breaker *b = df_breaker_new(DF_STR("freed"), &usual, &clock_.base);
    calls(b, "fffff");
    assert_true(exposed("dataflow_breaker_state{name=\"freed\"} 1"));
    df_breaker_free(b);
    assert_true(exposed("dataflow_breaker_state{name=\"freed\"} 0"));
    df_breaker_free(NULL);
}

/* --- threads --- */

static pthread_barrier_t barrier;

struct asker {
    struct df_breaker *breaker;
    struct df_breaker_permit permits[64];
    size_t permitted;
    enum df_breaker_outcome outcome;
};

static void *ask_often(void *arg)
{
    struct asker *a = arg;
    int64_t retry_ms;
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < 200 && a->permitted < 64; i++)
        a->permitted += df_breaker_allow(a->breaker, &a->permits[a->permitted], &retry_ms);
    return NULL;
}

static void *report_all(void *arg)
{
    const struct asker *a = arg;
    pthread_barrier_wait(&barrier);
    for (size_t i = 0; i < a->permitted; i++)
        df_breaker_done(a->breaker, a->permits[i], a->outcome, 1);
    return NULL;
}

static void side_by_side(void *(*f)(void *), struct asker *askers)
{
    pthread_t threads[THREADS];
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, f, &askers[i]), 0);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&barrier);
}

static void threads_share_the_probes(void **state)
{
    (void)state;
    struct df_breaker_settings opt = usual;
    opt.half_open_calls = 50;
    for (int round = 0; round < 20; round++) {
        struct df_breaker *b = fresh(opt);
        struct asker askers[THREADS] = {0};
        size_t permitted = 0;
        calls(b, "fffff");
        df_fake_clock_advance_ms(&clock_, 10000);
        for (size_t i = 0; i < THREADS; i++)
            askers[i] = (struct asker){.breaker = b, .outcome = DF_BREAKER_SUCCESS};
        side_by_side(ask_often, askers);
        for (size_t i = 0; i < THREADS; i++)
            permitted += askers[i].permitted;
        assert_int_equal(permitted, 50);
        assert_state(b, DF_BREAKER_HALF_OPEN);
        side_by_side(report_all, askers);
        assert_state(b, DF_BREAKER_CLOSED);
        assert_int_equal(look(b).calls, 0);
        df_breaker_free(b);
    }
}

static void fail_together(void)
{
    struct df_breaker *b = fresh(usual);
    struct asker askers[THREADS] = {0};
    for (size_t i = 0; i < THREADS; i++) {
        askers[i] = (struct asker){.breaker = b, .outcome = DF_BREAKER_FAILURE};
        while (askers[i].permitted < 64)
            askers[i].permits[askers[i].permitted++] = allowed(b);
    }
    side_by_side(report_all, askers);
    assert_state(b, DF_BREAKER_OPEN);
    assert_int_equal(look(b).calls, 5); /* the one that opened it was the last that counted */
    df_breaker_free(b);
}

static void many_failures_at_once_open_once(void **state)
{
    (void)state;
    df_log_init(DF_LOG_WARN, DF_LOG_JSON, &clock_.base);
    for (int round = 0; round < 20; round++) {
        capture();
        fail_together();
        assert_int_equal(captured_with("\"level\":\"warn\""), 1);
    }
}

struct user {
    struct df_breakers *registry;
    struct df_fake_clock dice;
    uint64_t keys;
    size_t rounds;
    size_t refused;
};

static _Atomic bool users_done;

/* Calls at random destinations through the registry, and lets time pass. */
static void *use_registry(void *arg)
{
    struct user *u = arg;
    for (size_t i = 0; i < u->rounds; i++) {
        char key[16];
        struct df_breaker_permit p;
        int64_t retry_ms;
        snprintf(key, sizeof key, "d%u", (unsigned)df_random_below(&u->dice.base, u->keys));
        struct df_breaker *b = df_breakers_get(u->registry, df_str_c(key));
        if (df_breaker_allow(b, &p, &retry_ms))
            df_breaker_done(b, p, (enum df_breaker_outcome)df_random_below(&u->dice.base, 3), 1);
        else
            u->refused++;
        df_breakers_put(u->registry, b);
        if (df_random_below(&u->dice.base, 50) == 0)
            df_fake_clock_advance_ms(&clock_, 3000);
    }
    return NULL;
}

struct total {
    size_t breakers;
    int64_t refused;
};

static void add_up(void *arg, const struct df_breaker_snapshot *s)
{
    struct total *t = arg;
    t->breakers++;
    t->refused += s->not_permitted;
}

static void *watch_registry(void *arg)
{
    while (!users_done) {
        struct total t = {0};
        df_breakers_each(arg, add_up, &t);
    }
    return NULL;
}

/* How many calls were refused; *ret: what the registry has in the end. */
static size_t use_together(uint64_t keys, size_t rounds, struct total *ret)
{
    static struct user users[THREADS];
    pthread_t threads[THREADS], watcher;
    struct df_breakers *r = df_breakers_new(&usual, &clock_.base);
    size_t refused_calls = 0;
    users_done = false;
    assert_int_equal(pthread_create(&watcher, NULL, watch_registry, r), 0);
    for (size_t i = 0; i < THREADS; i++) {
        users[i] = (struct user){.registry = r, .keys = keys, .rounds = rounds};
        df_fake_clock_init(&users[i].dice, 0, i + 1);
        assert_int_equal(pthread_create(&threads[i], NULL, use_registry, &users[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        refused_calls += users[i].refused;
    }
    users_done = true;
    pthread_join(watcher, NULL);
    *ret = (struct total){0};
    df_breakers_put(r, df_breakers_get(r, DF_STR("last")));
    df_breakers_each(r, add_up, ret);
    df_breakers_free(r);
    return refused_calls;
}

static void threads_share_few_destinations(void **state)
{
    (void)state;
    struct total total;
    size_t refused_calls = use_together(3, 3000, &total);
    assert_true(refused_calls > 0);
    assert_int_equal(total.refused, refused_calls);
    assert_int_equal(total.breakers, 4);
}

static void threads_share_more_destinations_than_fit(void **state)
{
    (void)state;
    struct total total;
    (void)use_together((uint64_t)DF_BREAKERS_MAX * 2, 3000, &total);
    assert_int_equal(total.breakers, DF_BREAKERS_MAX);
}

/* --- the registry --- */

struct list {
    size_t count;
    char names[DF_BREAKERS_MAX + 100][16];
    enum df_breaker_state states[DF_BREAKERS_MAX + 100];
};

static void add_to_list(void *arg, const struct df_breaker_snapshot *s)
{
    struct list *l = arg;
    assert_true(l->count < DF_BREAKERS_MAX + 100);
    snprintf(l->names[l->count], sizeof l->names[0], DF_STR_FMT, DF_STR_ARG(s->name));
    l->states[l->count++] = s->state;
}

static const struct list *list(struct df_breakers *r)
{
    static struct list l;
    l.count = 0;
    df_breakers_each(r, add_to_list, &l);
    return &l;
}

static bool has(struct df_breakers *r, const char *name)
{
    const struct list *l = list(r);
    for (size_t i = 0; i < l->count; i++) {
        if (strcmp(l->names[i], name) == 0)
            return true;
    }
    return false;
}

static struct df_breaker *get(struct df_breakers *r, int number)
{
    char key[16];
    snprintf(key, sizeof key, "k%04d", number);
    return df_breakers_get(r, df_str_c(key));
}

static void use(struct df_breakers *r, int number, const char *what)
{
    struct df_breaker *b = get(r, number);
    calls(b, what);
    df_breakers_put(r, b);
}

static void a_key_has_one_breaker_and_keys_do_not_share(void **state)
{
    (void)state;
    struct df_breakers *r = df_breakers_new(&usual, &clock_.base);
    struct df_breaker *a = df_breakers_get(r, DF_STR("a"));
    struct df_breaker *b = df_breakers_get(r, DF_STR("b"));
    assert_ptr_not_equal(a, b);
    assert_ptr_equal(df_breakers_get(r, df_str_n("abc", 1)), a);
    calls(a, "fffff");
    assert_state(a, DF_BREAKER_OPEN);
    assert_state(b, DF_BREAKER_CLOSED);
    df_breakers_put(r, a);
    df_breakers_put(r, a);
    df_breakers_put(r, b);
    df_breakers_free(r);
    df_breakers_free(NULL);
}

static void each_goes_by_name(void **state)
{
    (void)state;
    struct df_breakers *r = df_breakers_new(&usual, &clock_.base);
    assert_int_equal(list(r)->count, 0);
    use(r, 3, "");
    use(r, 1, "fffff");
    use(r, 2, "");
    const struct list *l = list(r);
    assert_int_equal(l->count, 3);
    assert_string_equal(l->names[0], "k0001");
    assert_string_equal(l->names[1], "k0002");
    assert_string_equal(l->names[2], "k0003");
    assert_int_equal(l->states[0], DF_BREAKER_OPEN);
    assert_int_equal(l->states[1], DF_BREAKER_CLOSED);
    df_breakers_free(r);
}

static struct df_breakers *full(void)
{
    struct df_breakers *r = df_breakers_new(&usual, &clock_.base);
    for (int i = 0; i < DF_BREAKERS_MAX; i++)
        use(r, i, i == 0 || i == 5 ? "fffff" : "s"); /* 0 and 5 are open */
    assert_int_equal(list(r)->count, DF_BREAKERS_MAX);
    return r;
}

static void past_the_bound_the_closed_one_unused_for_longest_goes(void **state)
{
    (void)state;
    struct df_breakers *r = full();
    use(r, 1, "s");
    struct df_breaker *held = get(r, 2);
    use(r, 2000, "s"); /* 0 is open, 1 was used, 2 is held */
    assert_int_equal(list(r)->count, DF_BREAKERS_MAX);
    assert_false(has(r, "k0003"));
    use(r, 2001, "s");
    assert_false(has(r, "k0004"));
    use(r, 2002, "s"); /* 5 is open */
    assert_false(has(r, "k0006"));
    assert_true(has(r, "k0000") && has(r, "k0001") && has(r, "k0002") && has(r, "k0005"));
    use(r, 3, ""); /* comes back as new */
    struct df_breaker *b = get(r, 3);
    assert_int_equal(look(b).calls, 0);
    df_breakers_put(r, b);
    df_breakers_put(r, held);
    df_breakers_free(r);
}

static void without_a_closed_one_an_open_one_goes(void **state)
{
    (void)state;
    struct df_breakers *r = df_breakers_new(&usual, &clock_.base);
    for (int i = 0; i < DF_BREAKERS_MAX; i++)
        use(r, i, "fffff");
    struct df_breaker *held = get(r, 0);
    use(r, 2000, "fffff");
    assert_int_equal(list(r)->count, DF_BREAKERS_MAX);
    assert_true(has(r, "k0000"));
    assert_false(has(r, "k0001"));
    df_breakers_put(r, held);
    df_breakers_free(r);
}

static void what_is_held_stays_and_the_excess_goes_later(void **state)
{
    (void)state;
    static struct df_breaker *held[DF_BREAKERS_MAX + 50];
    const int count = DF_BREAKERS_MAX + 50;
    struct df_breakers *r = df_breakers_new(&usual, &clock_.base);
    for (int i = 0; i < count; i++)
        held[i] = get(r, i);
    assert_int_equal(list(r)->count, count);
    for (int i = 0; i < count; i++)
        df_breakers_put(r, held[i]);
    use(r, 5000, "");
    assert_int_equal(list(r)->count, DF_BREAKERS_MAX);
    df_breakers_free(r);
}

static void a_configured_key_has_options_of_its_own_and_stays(void **state)
{
    (void)state;
    struct df_breakers *r = df_breakers_new(&usual, &clock_.base);
    struct df_breaker_settings own = usual;
    own.window = 4;
    own.min_calls = 2;
    own.open_ms = 50;
    own.half_open_calls = 1;
    df_breakers_configure(r, DF_STR("own"), &own);
    assert_int_equal(list(r)->count, 1);
    assert_string_equal(list(r)->names[0], "own");

    /* Not used for longest, and closed: anybody else would go. */
    for (int i = 0; i < DF_BREAKERS_MAX + 10; i++)
        use(r, i, "s");
    assert_int_equal(list(r)->count, DF_BREAKERS_MAX);
    assert_true(has(r, "own"));

    struct df_breaker *b = df_breakers_get(r, DF_STR("own"));
    assert_int_equal(look(b).window, 4);
    calls(b, "ff");
    assert_state(b, DF_BREAKER_OPEN);
    assert_int_equal(refused(b), 50);
    df_fake_clock_advance_ms(&clock_, 50);
    calls(b, "s");
    assert_state(b, DF_BREAKER_CLOSED);
    df_breakers_put(r, b);

    /* Once it is there it keeps what it was made with. */
    df_breakers_configure(r, DF_STR("own"), &usual);
    b = df_breakers_get(r, DF_STR("own"));
    assert_int_equal(look(b).window, 4);
    df_breakers_put(r, b);
    df_breakers_free(r);
}

/* Last: it uses up the names that this process may show. */
static void past_200_names_the_rest_are_other_with_the_worst_state(void **state)
{
    (void)state;
    struct df_breakers *r = df_breakers_new(&usual, &clock_.base);
    for (int i = 0; i < 300; i++)
        use(r, i, "");
    struct df_breaker *x = df_breakers_get(r, DF_STR("late x"));
    struct df_breaker *y = df_breakers_get(r, DF_STR("late y"));
    assert_true(exposed("dataflow_breaker_state{name=\"other\"} 0"));
    assert_null(strstr(text, "late x"));
    size_t named = 0;
    for (const char *p = text; (p = strstr(p, "\ndataflow_breaker_state{")); p++)
        named++;
    assert_int_equal(named, 201);

    calls(x, "fffff");
    assert_true(exposed("dataflow_breaker_state{name=\"other\"} 1"));
    assert_non_null(strstr(text, "{name=\"other\",outcome=\"failure\"}"));
    assert_null(strstr(text, "outcome=\"other\""));
    df_fake_clock_advance_ms(&clock_, 10000);
    calls(x, "s");
    calls(y, "fffff");
    assert_true(exposed("dataflow_breaker_state{name=\"other\"} 1")); /* y; x is half open */
    df_fake_clock_advance_ms(&clock_, 10000);
    calls(y, "sss");
    assert_true(exposed("dataflow_breaker_state{name=\"other\"} 2"));
    df_breakers_put(r, x);
    df_breakers_put(r, y);
    df_breakers_free(r);
    assert_true(exposed("dataflow_breaker_state{name=\"other\"} 0"));
}

#define T(f) cmocka_unit_test_setup(f, quiet)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(closed_permits_any_number_of_calls),
        T(closed_stays_so_before_min_calls),
        T(more_min_calls_than_the_window_holds_means_a_full_window),
        T(closed_stays_so_below_the_rate),
        T(closed_opens_at_the_failure_rate),
        T(a_success_can_be_the_call_that_opens),
        T(old_calls_leave_the_window),
        T(slow_calls_open_at_their_own_rate),
        T(a_failed_call_may_be_slow_too),
        T(slow_is_longer_than_the_limit_and_its_rate_100_unless_told),
        T(without_a_limit_nothing_is_slow),
        T(open_refuses_for_its_time_and_says_how_long),
        T(open_becomes_half_open_when_asked_after_its_time),
        T(half_open_permits_its_probes_and_no_more),
        T(half_open_waits_for_all_probes_whatever_min_calls_says),
        T(half_open_closes_below_the_rates_with_an_empty_window),
        T(half_open_opens_again_at_the_failure_rate),
        T(half_open_opens_again_at_the_slow_rate),
        T(more_probes_than_the_window_are_all_counted),
        T(ignored_calls_do_not_count),
        T(a_permit_of_an_earlier_state_does_not_count),
        T(a_probe_of_an_earlier_half_open_is_none_of_the_next),
        T(it_does_what_the_model_does),
        T(each_change_of_state_is_logged_with_its_destination),
        T(metrics_tell_states_and_outcomes),
        T(a_freed_breaker_is_shown_closed),
        T(threads_share_the_probes),
        T(many_failures_at_once_open_once),
        T(a_key_has_one_breaker_and_keys_do_not_share),
        T(each_goes_by_name),
        T(threads_share_few_destinations),
        T(threads_share_more_destinations_than_fit),
        T(past_the_bound_the_closed_one_unused_for_longest_goes),
        T(without_a_closed_one_an_open_one_goes),
        T(what_is_held_stays_and_the_excess_goes_later),
        T(a_configured_key_has_options_of_its_own_and_stays),
        T(past_200_names_the_rest_are_other_with_the_worst_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

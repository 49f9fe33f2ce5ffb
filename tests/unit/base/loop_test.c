/* Loops on a clock that moves when told: due, woken, backing off, ending. Nothing sleeps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/loop.h"
#include "fake_clock.h"

#include <string.h>

/* A turn takes its answer from here, one after the other; the last one stays. */
struct bench {
    struct df_fake_clock clock;
    struct df_loop loop;
    struct df_mutex lock;
    pthread_cond_t changed;
    const int64_t *answers;
    size_t answer_count;
    size_t turns;
    size_t ended;
    bool held; /* a turn does not end meanwhile */
};

static int64_t take_turn(void *arg)
{
    struct bench *b = arg;

    df_lock(&b->lock);
    size_t n = b->turns < b->answer_count ? b->turns : b->answer_count - 1;
    b->turns++;
    pthread_cond_broadcast(&b->changed);
    while (b->held)
        df_cond_wait(&b->changed, &b->lock);
    df_unlock(&b->lock);
    return b->answers[n];
}

static void note_end(void *arg)
{
    struct bench *b = arg;

    df_lock(&b->lock);
    b->ended++;
    df_unlock(&b->lock);
}

static void bench_start(struct bench *b, const int64_t *answers, size_t count,
                        struct df_loop_options opt)
{
    memset(b, 0, sizeof(*b));
    b->answers = answers;
    b->answer_count = count;
    df_fake_clock_init(&b->clock, 0, 1);
    df_mutex_init(&b->lock);
    df_cond_init(&b->changed);
    opt.name = "loop";
    opt.clock = &b->clock.base;
    opt.backoff_min_ms = 100;
    opt.backoff_max_ms = 350;
    opt.turn = take_turn;
    opt.ended = note_end;
    opt.arg = b;
    df_loop_start(&b->loop, &opt);
}

static void bench_end(struct bench *b, size_t threads)
{
    df_loop_release(&b->loop);
    assert_int_equal(b->ended, threads);
    pthread_cond_destroy(&b->changed);
    df_mutex_destroy(&b->lock);
}

static void assert_turns(struct bench *b, size_t turns)
{
    df_lock(&b->lock);
    while (b->turns < turns)
        df_cond_wait(&b->changed, &b->lock);
    assert_int_equal(b->turns, turns);
    df_unlock(&b->lock);
}

static void assert_due_in(struct bench *b, int64_t ms)
{
    assert_int_equal(df_fake_clock_await(&b->clock), ms);
    df_lock(&b->lock);
    size_t before = b->turns;
    df_unlock(&b->lock);
    df_fake_clock_advance_ms(&b->clock, ms - 1);
    assert_int_equal(df_fake_clock_await(&b->clock), 1);
    df_fake_clock_advance_ms(&b->clock, 1);
    assert_turns(b, before + 1);
}

static void turns_come_when_they_are_due(void **state)
{
    (void)state;
    static const int64_t answers[] = {1000, 0, 5000, DF_LOOP_IDLE};
    struct bench b;

    bench_start(&b, answers, 4, (struct df_loop_options){.first_ms = 200});
    assert_due_in(&b, 200);
    assert_int_equal(df_fake_clock_await(&b.clock), 1000);
    df_fake_clock_advance_ms(&b.clock, 1000);
    assert_turns(&b, 3); /* the third one at once */
    assert_due_in(&b, 5000);
    bench_end(&b, 1);
}

static void an_idle_loop_waits_to_be_woken(void **state)
{
    (void)state;
    static const int64_t answers[] = {DF_LOOP_IDLE};
    struct bench b;

    bench_start(&b, answers, 1, (struct df_loop_options){.first_ms = DF_LOOP_IDLE});
    df_fake_clock_advance_ms(&b.clock, 86400000);
    df_loop_wake(&b.loop);
    assert_turns(&b, 1);
    df_fake_clock_advance_ms(&b.clock, 86400000);
    df_loop_wake(&b.loop);
    assert_turns(&b, 2);
    bench_end(&b, 1);
}

static void a_wake_during_a_turn_is_not_lost(void **state)
{
    (void)state;
    static const int64_t answers[] = {DF_LOOP_IDLE};
    struct bench b;

    bench_start(&b, answers, 1, (struct df_loop_options){.first_ms = DF_LOOP_IDLE});
    df_lock(&b.lock);
    b.held = true;
    df_unlock(&b.lock);
    df_loop_wake(&b.loop);
    assert_turns(&b, 1);
    df_loop_wake(&b.loop); /* while it is in its first turn */
    df_lock(&b.lock);
    b.held = false;
    pthread_cond_broadcast(&b.changed);
    df_unlock(&b.lock);
    assert_turns(&b, 2);
    bench_end(&b, 1);
}

static void failures_double_the_wait_and_success_ends_it(void **state)
{
    (void)state;
    static const int64_t answers[] = {
        DF_LOOP_FAILED, DF_LOOP_FAILED, DF_LOOP_FAILED, DF_LOOP_FAILED, 0,
        DF_LOOP_FAILED, DF_LOOP_IDLE};
    struct bench b;

    bench_start(&b, answers, 7, (struct df_loop_options){.first_ms = 0});
    assert_turns(&b, 1);
    assert_due_in(&b, 100);
    df_loop_wake(&b.loop); /* does not count in a backoff */
    assert_due_in(&b, 200);
    assert_due_in(&b, 350);
    assert_int_equal(df_fake_clock_await(&b.clock), 350);
    df_fake_clock_advance_ms(&b.clock, 350);
    assert_turns(&b, 6); /* one that succeeds, and one that fails again */
    assert_due_in(&b, 100);
    bench_end(&b, 1);
}

static void the_end_comes_in_every_wait(void **state)
{
    (void)state;
    static const int64_t waits[] = {DF_LOOP_FAILED, DF_LOOP_IDLE, 86400000};

    for (size_t i = 0; i < 3; i++) {
        struct bench b;
        bench_start(&b, &waits[i], 1, (struct df_loop_options){.first_ms = 0});
        assert_turns(&b, 1);
        df_loop_close(&b.loop);
        df_loop_stop(&b.loop);
        df_loop_stop(&b.loop);
        assert_int_equal(b.turns, 1);
        bench_end(&b, 1);
    }
}

static void a_wake_is_for_all_threads(void **state)
{
    (void)state;
    static const int64_t answers[] = {DF_LOOP_IDLE};
    struct bench b;

    bench_start(&b, answers, 1, (struct df_loop_options){.threads = 3, .first_ms = DF_LOOP_IDLE});
    df_loop_wake(&b.loop);
    assert_turns(&b, 3);
    bench_end(&b, 3);
}

static void a_loop_that_was_never_started_ends(void **state)
{
    (void)state;
    struct df_loop l = {.threads = NULL};

    df_loop_stop(&l);
    df_loop_release(&l);
}

static void a_backoff_doubles_up_to_its_most(void **state)
{
    (void)state;
    struct df_backoff b = {.min_ms = 50, .max_ms = 180};
    static const int64_t expected[] = {50, 100, 180, 180};

    for (size_t round = 0; round < 2; round++) {
        for (size_t i = 0; i < 4; i++)
            assert_int_equal(df_backoff_more(&b), expected[i]);
        df_backoff_reset(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(turns_come_when_they_are_due),
        cmocka_unit_test(an_idle_loop_waits_to_be_woken),
        cmocka_unit_test(a_wake_during_a_turn_is_not_lost),
        cmocka_unit_test(failures_double_the_wait_and_success_ends_it),
        cmocka_unit_test(the_end_comes_in_every_wait),
        cmocka_unit_test(a_wake_is_for_all_threads),
        cmocka_unit_test(a_loop_that_was_never_started_ends),
        cmocka_unit_test(a_backoff_doubles_up_to_its_most),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Timers on a clock that moves when told: the order, what is added meanwhile, and the end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/timer.h"
#include "fake_clock.h"

#include <string.h>

#define TICKS 64

struct bench {
    struct df_fake_clock clock;
    struct df_timer *timer;
    struct df_mutex lock;
    pthread_cond_t changed;
    int order[2 * TICKS];
    size_t count;
    size_t at_the_end; /* of them, because the timer stopped */
};

struct tick {
    struct df_timer_item item;
    struct bench *bench;
    int name;
    int64_t again_ms; /* once more after this; 0: not */
};

static void bench_open(struct bench *b)
{
    memset(b, 0, sizeof(*b));
    df_fake_clock_init(&b->clock, 0, 4);
    df_mutex_init(&b->lock);
    df_cond_init(&b->changed);
    b->timer = df_timer_new("timer", &b->clock.base);
}

static void bench_close(struct bench *b)
{
    df_timer_free(b->timer);
    pthread_cond_destroy(&b->changed);
    df_mutex_destroy(&b->lock);
}

static void on_tick(struct df_timer_item *item, bool stopping)
{
    struct tick *t = (struct tick *)item;
    struct bench *b = t->bench;
    int64_t again_ms = t->again_ms;

    t->again_ms = 0;
    if (again_ms > 0 && df_timer_add(b->timer, item, again_ms))
        return;
    df_lock(&b->lock);
    b->order[b->count++] = t->name;
    b->at_the_end += stopping;
    pthread_cond_broadcast(&b->changed);
    df_unlock(&b->lock);
}

static void wait_for_ticks(struct bench *b, size_t count)
{
    df_lock(&b->lock);
    while (b->count < count)
        df_cond_wait(&b->changed, &b->lock);
    assert_int_equal(b->count, count);
    df_unlock(&b->lock);
}

static void items_fire_in_order_and_all_at_the_end(void **state)
{
    (void)state;
    static const int64_t delays[] = {30, 10, 20, 10, 5, 600000, 500000};
    static const int expected[] = {4, 1, 3, 2, 0, 6, 5};
    struct tick ticks[7];
    struct bench b;

    bench_open(&b);
    for (int i = 0; i < 7; i++) {
        ticks[i] = (struct tick){.item.fire = on_tick, .bench = &b, .name = i};
        assert_true(df_timer_add(b.timer, &ticks[i].item, delays[i]));
    }
    while (df_fake_clock_await(&b.clock) != 5) {
        /* until the thread has seen the last of them */
    }
    df_fake_clock_advance_ms(&b.clock, 30);
    wait_for_ticks(&b, 5);
    df_timer_stop(b.timer);
    assert_int_equal(b.count, 7);
    assert_int_equal(b.at_the_end, 2);
    assert_memory_equal(b.order, expected, sizeof(expected));
    assert_false(df_timer_add(b.timer, &ticks[0].item, 0));
    df_timer_stop(b.timer);
    bench_close(&b);
}

static void an_item_may_add_itself_again(void **state)
{
    (void)state;
    struct bench b;

    bench_open(&b);
    struct tick t = {.item.fire = on_tick, .bench = &b, .name = 7, .again_ms = 50};
    assert_true(df_timer_add(b.timer, &t.item, 20));
    assert_int_equal(df_fake_clock_await(&b.clock), 20);
    df_fake_clock_advance_ms(&b.clock, 20);
    while (df_fake_clock_await(&b.clock) != 50) {
        /* it has fired, and waits for the second time */
    }
    df_fake_clock_advance_ms(&b.clock, 50);
    wait_for_ticks(&b, 1);
    bench_close(&b);
}

/* Many at random, due together: by their time, and among equals as they were added. */
static void a_heap_of_random_items_is_in_order(void **state)
{
    (void)state;
    struct tick ticks[TICKS];
    int64_t delays[TICKS];
    struct bench b;

    bench_open(&b);
    for (int i = 0; i < TICKS; i++) {
        delays[i] = 10 + (int64_t)df_random_below(&b.clock.base, 8);
        ticks[i] = (struct tick){.item.fire = on_tick, .bench = &b, .name = i};
        assert_true(df_timer_add(b.timer, &ticks[i].item, delays[i]));
    }
    df_fake_clock_advance_ms(&b.clock, 100);
    wait_for_ticks(&b, TICKS);
    for (size_t i = 1; i < TICKS; i++) {
        int before = b.order[i - 1], after = b.order[i];
        assert_true(delays[before] < delays[after] ||
                    (delays[before] == delays[after] && before < after));
    }
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_fire_in_order_and_all_at_the_end),
        cmocka_unit_test(an_item_may_add_itself_again),
        cmocka_unit_test(a_heap_of_random_items_is_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

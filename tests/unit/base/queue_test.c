#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/queue.h"

#include <stdatomic.h>
#include <stdlib.h>

static void *item_of(uintptr_t n)
{
    return (void *)n;
}

static void items_leave_in_the_order_they_came(void **state)
{
    struct df_queue q;
    void *items[8];
    uintptr_t in = 1;
    uintptr_t out = 1;
    (void)state;

    df_queue_init(&q, 5);
    for (size_t round = 0; round < 50; round++) {
        for (size_t i = 0; i < 1 + round % 5; i++)
            assert_true(df_queue_push(&q, item_of(in++)));
        assert_int_equal(df_queue_count(&q), in - out);
        for (size_t max = 1 + round % 3; out < in;) {
            size_t n = df_queue_pop(&q, items, max, 0);
            assert_in_range(n, 1, max);
            for (size_t i = 0; i < n; i++)
                assert_ptr_equal(items[i], item_of(out++));
        }
    }
    assert_int_equal(df_queue_pop(&q, items, 8, 0), 0);
    df_queue_release(&q);
    df_queue_release(&q);
}

static void a_full_queue_refuses(void **state)
{
    struct df_queue q;
    void *items[3];
    (void)state;

    df_queue_init(&q, 2);
    assert_true(df_queue_push(&q, item_of(1)));
    assert_true(df_queue_push(&q, item_of(2)));
    assert_false(df_queue_push(&q, item_of(3)));
    assert_int_equal(df_queue_pop(&q, items, 1, 0), 1);
    assert_true(df_queue_push(&q, item_of(4)));
    assert_int_equal(df_queue_pop(&q, items, 3, -1), 2);
    assert_ptr_equal(items[0], item_of(2));
    assert_ptr_equal(items[1], item_of(4));
    df_queue_release(&q);
}

static void a_queue_of_nothing_refuses_everything(void **state)
{
    struct df_queue q;
    (void)state;

    df_queue_init(&q, 0);
    assert_false(df_queue_push(&q, item_of(1)));
    df_queue_release(&q);
}

static void a_closed_queue_refuses_but_gives_what_it_has(void **state)
{
    struct df_queue q;
    void *items[3];
    (void)state;

    df_queue_init(&q, 3);
    assert_true(df_queue_push(&q, item_of(1)));
    assert_false(df_queue_closed(&q));
    df_queue_close(&q);
    assert_true(df_queue_closed(&q));
    assert_false(df_queue_push(&q, item_of(2)));
    assert_int_equal(df_queue_pop(&q, items, 3, -1), 1);
    assert_int_equal(df_queue_pop(&q, items, 3, -1), 0);
    df_queue_release(&q);
}

static void an_empty_queue_is_waited_for_as_long_as_asked(void **state)
{
    struct df_queue q;
    void *items[1];
    (void)state;

    df_queue_init(&q, 1);
    int64_t before = df_mono_ms(df_clock_real());
    assert_int_equal(df_queue_pop(&q, items, 1, 30), 0);
    /* The clock is read in whole milliseconds at both ends. */
    assert_true(df_mono_ms(df_clock_real()) - before >= 29);
    df_queue_release(&q);
}

static void *wait_for_ever(void *arg)
{
    void *item;
    return item_of(df_queue_pop(arg, &item, 1, -1));
}

static void closing_wakes_everyone(void **state)
{
    struct df_queue q;
    pthread_t threads[4];
    (void)state;

    df_queue_init(&q, 1);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, wait_for_ever, &q), 0);
    df_queue_close(&q);
    for (size_t i = 0; i < 4; i++) {
        void *n;
        pthread_join(threads[i], &n);
        assert_ptr_equal(n, item_of(0));
    }
    df_queue_release(&q);
}

/* --- many producers, many consumers ----------------------------------------------------------- */

enum { PRODUCERS = 3, CONSUMERS = 3, EACH = 20000 };

struct crowd {
    struct df_queue q;
    atomic_uint next_producer;
    atomic_uint arrivals[PRODUCERS * EACH];
    atomic_bool out_of_order;
};

static void *produce(void *arg)
{
    struct crowd *c = arg;
    uintptr_t base = (uintptr_t)atomic_fetch_add(&c->next_producer, 1) * EACH;
    for (uintptr_t i = 0; i < EACH; i++) {
        while (!df_queue_push(&c->q, item_of(base + i + 1)))
            sched_yield();
    }
    return NULL;
}

static void *consume(void *arg)
{
    struct crowd *c = arg;
    void *items[7];
    uintptr_t last[PRODUCERS] = {0};
    size_t n;

    while ((n = df_queue_pop(&c->q, items, 7, -1)) > 0) {
        for (size_t i = 0; i < n; i++) {
            uintptr_t v = (uintptr_t)items[i];
            uintptr_t producer = (v - 1) / EACH;
            if (v <= last[producer])
                c->out_of_order = true;
            last[producer] = v;
            atomic_fetch_add(&c->arrivals[v - 1], 1);
        }
    }
    return NULL;
}

static void every_item_arrives_exactly_once(void **state)
{
    struct crowd *c = calloc(1, sizeof(*c));
    pthread_t producers[PRODUCERS];
    pthread_t consumers[CONSUMERS];
    (void)state;

    assert_non_null(c);
    df_queue_init(&c->q, 64);
    for (size_t i = 0; i < CONSUMERS; i++)
        assert_int_equal(pthread_create(&consumers[i], NULL, consume, c), 0);
    for (size_t i = 0; i < PRODUCERS; i++)
        assert_int_equal(pthread_create(&producers[i], NULL, produce, c), 0);
    for (size_t i = 0; i < PRODUCERS; i++)
        pthread_join(producers[i], NULL);
    df_queue_close(&c->q);
    for (size_t i = 0; i < CONSUMERS; i++)
        pthread_join(consumers[i], NULL);

    for (size_t i = 0; i < (size_t)PRODUCERS * EACH; i++)
        assert_int_equal(c->arrivals[i], 1);
    assert_false(c->out_of_order);
    assert_int_equal(df_queue_count(&c->q), 0);
    df_queue_release(&c->q);
    free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_leave_in_the_order_they_came),
        cmocka_unit_test(a_full_queue_refuses),
        cmocka_unit_test(a_queue_of_nothing_refuses_everything),
        cmocka_unit_test(a_closed_queue_refuses_but_gives_what_it_has),
        cmocka_unit_test(an_empty_queue_is_waited_for_as_long_as_asked),
        cmocka_unit_test(closing_wakes_everyone),
        cmocka_unit_test(every_item_arrives_exactly_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

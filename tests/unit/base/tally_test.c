/* Counting by client and channel: sums, bounds, and what is taken away. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/pool.h"
#include "base/tally.h"

#include <stdio.h>

#define THREADS 4
#define EACH    20000

static struct df_arena arena;
static struct df_tally_list taken;

static int begin(void **state)
{
    (void)state;
    df_arena_init(&arena);
    df_tally_start();
    return 0;
}

static int end(void **state)
{
    (void)state;
    df_tally_stop();
    df_arena_release(&arena);
    return 0;
}

static const struct df_tallied *find(const char *client, const char *channel)
{
    for (size_t i = 0; i < taken.count; i++)
        if (df_str_eq(taken.entries[i].client, df_str_c(client)) &&
            df_str_eq(taken.entries[i].channel, df_str_c(channel)))
            return &taken.entries[i].n;
    return NULL;
}

static void counts_add_up_by_client_and_channel(void **state)
{
    (void)state;
    df_tally(DF_STR("a"), DF_STR("x"), &(struct df_tallied){.accepted = 1, .processed = 2});
    df_tally(DF_STR("a"), DF_STR("x"), &(struct df_tallied){.accepted = 3, .failed = 1});
    df_tally(DF_STR("a"), DF_STR("y"), &(struct df_tallied){.delivered = 5});
    df_tally(DF_STR_NULL, DF_STR("x"), &(struct df_tallied){.delivered = 7});
    df_tally_take(&taken, &arena);
    assert_int_equal(taken.count, 3);
    assert_int_equal(find("a", "x")->accepted, 4);
    assert_int_equal(find("a", "x")->processed, 2);
    assert_int_equal(find("a", "x")->failed, 1);
    assert_int_equal(find("a", "y")->delivered, 5);
    assert_int_equal(find("", "x")->delivered, 7);
    df_tally_take(&taken, &arena);
    assert_int_equal(taken.count, 0);
}

static void acks_have_sum_most_and_buckets(void **state)
{
    (void)state;
    static const int64_t times[] = {-5, 0, 100, 101, 500, 4999, 300000, 300001};
    static const int64_t expected[DF_TALLY_BOUNDS] = {3, 2, 0, 1, 0, 1};

    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++)
        df_tally_ack(DF_STR("a"), DF_STR("x"), times[i]);
    df_tally_take(&taken, &arena);
    const struct df_tallied *n = find("a", "x");
    assert_int_equal(n->acks, 8);
    assert_int_equal(n->ack_ms, 100 + 101 + 500 + 4999 + 300000 + 300001);
    assert_int_equal(n->ack_most_ms, 300001);
    for (size_t i = 0; i < DF_TALLY_BOUNDS; i++)
        assert_int_equal(n->ack_within[i], expected[i]);
}

static void too_many_clients_are_counted_together(void **state)
{
    (void)state;
    char client[40];
    int64_t sum = 0;

    for (int i = 0; i < DF_TALLY_MAX + 500; i++) {
        (void)snprintf(client, sizeof client, "client-%d", i);
        df_tally(df_str_c(client), DF_STR("x"), &(struct df_tallied){.accepted = 1});
    }
    df_tally(DF_STR("client-0"), DF_STR("x"), &(struct df_tallied){.accepted = 1});
    df_tally(DF_STR_NULL, DF_STR("x"), &(struct df_tallied){.accepted = 1});
    df_tally_take(&taken, &arena);
    assert_int_equal(taken.count, DF_TALLY_MAX + 2); /* and "other", and nobody's */
    assert_int_equal(find("other", "x")->accepted, 500);
    assert_int_equal(find("client-0", "x")->accepted, 2);
    for (size_t i = 0; i < taken.count; i++)
        sum += taken.entries[i].n.accepted;
    assert_int_equal(sum, DF_TALLY_MAX + 502);
}

static void names_that_are_too_long_are_bounded(void **state)
{
    (void)state;
    char text[400];

    memset(text, 'c', sizeof text);
    df_tally(df_str_n(text, 37), DF_STR("x"), &(struct df_tallied){.accepted = 1});
    df_tally(DF_STR("a"), df_str_n(text, sizeof text), &(struct df_tallied){.accepted = 1});
    df_tally_mark(DF_MARK_BREAKER_OPENED, 7, df_str_n(text, sizeof text));
    df_tally_take(&taken, &arena);
    assert_int_equal(find("other", "x")->accepted, 1);
    assert_int_equal(taken.moment_count, 1);
    assert_true(taken.moments[0].subject.len <= DF_TALLY_SUBJECT_MAX);
    for (size_t i = 0; i < taken.count; i++)
        assert_true(taken.entries[i].channel.len <= DF_TALLY_CHANNEL_MAX);
}

static void moments_beyond_the_limit_are_dropped_and_counted(void **state)
{
    (void)state;
    for (int i = 0; i < DF_TALLY_MARKS + 3; i++)
        df_tally_mark(DF_MARK_ALERT_FIRED, i, DF_STR("Rule subject"));
    df_tally_take(&taken, &arena);
    assert_int_equal(taken.moment_count, DF_TALLY_MARKS);
    assert_int_equal(taken.dropped, 3);
    assert_int_equal(taken.moments[DF_TALLY_MARKS - 1].at_ms, DF_TALLY_MARKS - 1);
    df_tally_take(&taken, &arena);
    assert_int_equal(taken.moment_count + (size_t)taken.dropped, 0);
}

static void nothing_is_counted_before_the_start_or_after_the_end(void **state)
{
    (void)state;
    df_tally(DF_STR("a"), DF_STR("x"), &(struct df_tallied){.accepted = 1});
    df_tally_stop();
    df_tally(DF_STR("a"), DF_STR("x"), &(struct df_tallied){.accepted = 1});
    df_tally_mark(DF_MARK_ALERT_FIRED, 1, DF_STR("x"));
    df_tally_take(&taken, &arena);
    assert_int_equal(taken.count + taken.moment_count, 0);
}

static void *count_much(void *arg)
{
    (void)arg;
    for (int i = 0; i < EACH; i++)
        df_tally(DF_STR("a"), DF_STR("x"), &(struct df_tallied){.accepted = 1});
    return NULL;
}

static void threads_lose_nothing_while_it_is_taken(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    int64_t sum = 0;

    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count_much, NULL), 0);
    for (int i = 0; i < 50; i++) {
        df_tally_take(&taken, &arena);
        sum += taken.count ? taken.entries[0].n.accepted : 0;
    }
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    df_tally_take(&taken, &arena);
    sum += taken.count ? taken.entries[0].n.accepted : 0;
    assert_int_equal(sum, THREADS * EACH);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(counts_add_up_by_client_and_channel),
        TEST(acks_have_sum_most_and_buckets),
        TEST(too_many_clients_are_counted_together),
        TEST(names_that_are_too_long_are_bounded),
        TEST(moments_beyond_the_limit_are_dropped_and_counted),
        TEST(nothing_is_counted_before_the_start_or_after_the_end),
        TEST(threads_lose_nothing_while_it_is_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

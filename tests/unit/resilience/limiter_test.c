#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "fake_clock.h"
#include "resilience/limiter.h"
#include "resilience/window.h"

#include <stdio.h>
#include <stdlib.h>

#define KEY DF_STR("a")

static struct df_fake_clock clock_;

static struct df_limiter *fresh(void)
{
    df_fake_clock_init(&clock_, 0, 7);
    df_fake_clock_advance_ms(&clock_, 700); /* not at the edge of anything */
    return df_limiter_new(&clock_.base, false);
}

static bool take(struct df_limiter *l, int64_t limit)
{
    struct df_limiter_answer a;
    df_limiter_take(l, KEY, limit, &a);
    return a.admitted;
}

/* Load at `times` the limit, evenly, for so long; how many were admitted. */
static int64_t load(struct df_limiter *l, int64_t limit, double times, int64_t seconds)
{
    double owed = 0;
    int64_t admitted = 0;
    for (int64_t ms = 0; ms < seconds * 1000; ms++) {
        for (owed += (double)limit * times / 60000; owed >= 1; owed -= 1)
            admitted += take(l, limit);
        df_fake_clock_advance_ms(&clock_, 1);
    }
    return admitted;
}

static void assert_near(int64_t got, int64_t want, int64_t slack)
{
    if (got < want - slack || got > want + slack)
        fail_msg("%lld is not %lld +- %lld", (long long)got, (long long)want, (long long)slack);
}

static const int64_t limits[] = {1, 2, 5, 10, 30, 60, 100, 250, 600, 1000, 6000, 60000};
#define LIMITS (sizeof limits / sizeof limits[0])

/* What the window may keep a request too long: nothing up to DF_WINDOW_RUNS, 0.1 % beyond. */
static int64_t slack_of(int64_t limit)
{
    return limit <= DF_WINDOW_RUNS ? 0 : limit / 1000 + 1;
}

static void twice_the_limit_for_a_minute_admits_the_limit(void **state)
{
    (void)state;
    for (size_t i = 0; i < LIMITS; i++) {
        struct df_limiter *l = fresh();
        for (int minute = 0; minute < 4; minute++)
            assert_near(load(l, limits[i], 2, 60), limits[i], slack_of(limits[i]));
        df_limiter_free(l);
    }
}

static void the_whole_limit_passes_at_once_then_none_until_the_first_is_a_minute_old(void **state)
{
    (void)state;
    for (size_t i = 0; i < LIMITS; i++) {
        struct df_limiter *l = fresh();
        for (int round = 0; round < 3; round++) {
            for (int64_t n = 0; n < limits[i]; n++)
                assert_true(take(l, limits[i]));
            assert_false(take(l, limits[i]));
            df_fake_clock_advance_ms(&clock_, 59999);
            assert_false(take(l, limits[i]));
            df_fake_clock_advance_ms(&clock_, 1);
        }
        df_limiter_free(l);
    }
}

/* The plain model: the times of all admitted requests. `late_ms` is what a request may count for
 * longer. */
struct model {
    int64_t at_ms[1 << 20];
    size_t first, count;
};

static bool model_admits(struct model *m, int64_t now_ms, int64_t limit, int64_t late_ms)
{
    while (m->first < m->count && now_ms - m->at_ms[m->first] >= 60000 + late_ms)
        m->first++;
    return (int64_t)(m->count - m->first) < limit;
}

static void random_calls_are_judged_as_by_a_plain_model(void **state)
{
    (void)state;
    static struct model exact;
    static const int64_t some[] = {1, 2, 7, 30, 100, 1000, 1024, 1025, 5000};
    for (size_t i = 0; i < sizeof some / sizeof some[0]; i++) {
        struct df_limiter *l = fresh();
        int64_t limit = some[i], now_ms = 0, late_ms = limit <= DF_WINDOW_RUNS ? 0 : 59;
        exact.first = exact.count = 0;
        for (int step = 0; step < 20000; step++) {
            /* Calls at the same moment, some milliseconds apart, and pauses. */
            uint64_t kind = df_random_below(&clock_.base, 100);
            int64_t gap = kind < 40 ? 0
                          : kind < 95
                              ? (int64_t)df_random_below(&clock_.base, 120000 / (uint64_t)limit + 2)
                              : (int64_t)df_random_below(&clock_.base, 30000);
            now_ms += gap;
            df_fake_clock_advance_ms(&clock_, gap);
            bool least = model_admits(&exact, now_ms, limit, late_ms);
            size_t first = exact.first;
            bool most = model_admits(&exact, now_ms, limit, 0);
            exact.first = first;
            bool got = take(l, limit);
            assert_true(most || !got); /* never more than the limit in any minute */
            assert_true(got || !least);
            if (got)
                exact.at_ms[exact.count++] = now_ms;
        }
        assert_true(exact.count > 0);
        df_limiter_free(l);
    }
}

static void under_the_limit_nobody_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < LIMITS; i++) {
        struct df_limiter *l = fresh();
        int64_t limit = limits[i], gap_ms = 61000 / limit + 1;
        for (int64_t n = 0; n < (limit < 1000 ? 3 * limit : 3000); n++) {
            assert_true(take(l, limit));
            df_fake_clock_advance_ms(&clock_, gap_ms);
        }
        df_limiter_free(l);
    }
}

static void a_refusal_tells_when_to_come_back_and_that_is_right(void **state)
{
    (void)state;
    for (size_t i = 0; i < LIMITS; i++) {
        struct df_limiter *l = fresh();
        struct df_limiter_answer a;
        for (int64_t n = 0; n < limits[i] + 500; n++) {
            df_fake_clock_advance_ms(&clock_, n % 3);
            df_limiter_take(l, KEY, limits[i], &a);
            if (a.admitted)
                continue;
            assert_in_range(a.wait_ms, 1, 60000);
            assert_int_equal(a.remaining, 0);
            assert_int_equal(a.reset_s, (a.wait_ms + 999) / 1000);
            df_fake_clock_advance_ms(&clock_, a.wait_ms - 1);
            assert_false(take(l, limits[i]));
            a.wait_ms = 1;
            df_fake_clock_advance_ms(&clock_, a.wait_ms);
            df_limiter_take(l, KEY, limits[i], &a);
            assert_true(a.admitted);
        }
        df_limiter_free(l);
    }
}

static void the_answer_says_what_is_left(void **state)
{
    (void)state;
    struct df_limiter *l = fresh();
    struct df_limiter_answer a;
    df_limiter_take(l, KEY, 100, &a);
    assert_true(a.admitted);
    assert_int_equal(a.remaining, 99);
    assert_int_equal(a.reset_s, 60);
    df_fake_clock_advance_ms(&clock_, 10000);
    df_limiter_take(l, KEY, 100, &a);
    assert_int_equal(a.remaining, 98);
    assert_int_equal(a.reset_s, 50);
    df_limiter_free(l);
}

static void what_is_refused_does_not_count_and_is_told_once_a_minute(void **state)
{
    (void)state;
    struct df_limiter *l = fresh();
    struct df_limiter_answer a;
    struct df_limiter_use use;
    int told = 0;
    for (int n = 0; n < 1000; n++) {
        df_limiter_take(l, KEY, 60, &a);
        told += a.tell;
    }
    df_limiter_look(l, KEY, &use);
    assert_int_equal(use.requests, 60);
    assert_int_equal(told, 1);
    df_fake_clock_advance_ms(&clock_, 60000);
    do
        df_limiter_take(l, KEY, 60, &a);
    while (a.admitted);
    assert_true(a.tell);
    assert_int_equal(a.refused, 1000 - 60);
    df_limiter_free(l);
}

static void a_limit_may_come_change_and_go(void **state)
{
    (void)state;
    struct df_limiter *l = fresh();
    struct df_limiter_use use;
    for (int n = 0; n < 1000; n++)
        assert_true(take(l, 0));
    df_limiter_look(l, KEY, &use);
    assert_int_equal(use.requests, 1000);
    assert_true(take(l, 60)); /* a limit begins when it is set */
    assert_int_equal(load(l, 60, 2, 59), 59);
    assert_false(take(l, 30)); /* that much was had already */
    assert_true(take(l, 2000));
    for (int n = 0; n < 1939; n++) {
        df_fake_clock_advance_ms(&clock_, n % 31 == 0); /* more runs than there is room for */
        assert_true(take(l, 2000));
    }
    assert_false(take(l, 2000));
    assert_true(take(l, 0));
    df_limiter_free(l);
}

static void keys_do_not_know_each_other_and_room_is_made(void **state)
{
    (void)state;
    struct df_limiter *l = fresh();
    struct df_limiter_answer a;
    char key[24];
    for (int round = 0; round < 2; round++) {
        for (int n = 0; n < DF_LIMITER_MAX; n++) {
            (void)snprintf(key, sizeof key, "%d-%d", round, n);
            df_limiter_take(l, df_str_c(key), 1, &a);
            assert_true(a.admitted);
            df_limiter_take(l, df_str_c(key), 1, &a);
            assert_false(a.admitted);
        }
        df_limiter_take(l, DF_STR("one more"), 1, &a);
        df_limiter_take(l, DF_STR("one more"), 1, &a);
        assert_true(a.admitted); /* no room: not limited */
        df_fake_clock_advance_ms(&clock_, 61000);
    }
    df_limiter_free(l);
}

static void so_many_may_be_in_hand(void **state)
{
    (void)state;
    struct df_limiter *l = fresh();
    assert_true(df_limiter_hold(l, KEY, 2));
    assert_true(df_limiter_hold(l, KEY, 2));
    assert_false(df_limiter_hold(l, KEY, 2));
    assert_true(df_limiter_hold(l, KEY, 0));
    df_limiter_drop(l, KEY);
    df_limiter_drop(l, KEY);
    assert_true(df_limiter_hold(l, KEY, 2));
    const struct df_limiter_use other = {.key = "a", .held = 1};
    df_limiter_settle(l, NULL, 0, &other, 1);
    df_limiter_drop(l, KEY);
    assert_true(df_limiter_hold(l, KEY, 3));
    assert_false(df_limiter_hold(l, KEY, 3));
    df_limiter_settle(l, NULL, 0, NULL, 0);
    assert_true(df_limiter_hold(l, KEY, 3));
    df_limiter_free(l);
}

/* --- several processes --- */

/* One process of those that share a limit. */
struct replica {
    struct df_limiter *limiter;
    int64_t row;                 /* its row in the table: what it has */
    int64_t row_ms;              /* when it was written */
    struct df_limiter_use *left; /* instead, if it ended */
    size_t left_count;
    int64_t waiting;  /* requests that were told to ask */
    int64_t admitted; /* in all */
};

enum { REPLICAS = 3 };

struct cluster {
    struct replica r[REPLICAS];
    size_t count;
    int64_t limit;
    struct model seen; /* what all of them admitted */
};

static struct cluster cluster;

static void begin_cluster(size_t count, int64_t limit)
{
    df_fake_clock_init(&clock_, 0, 7);
    cluster.count = count;
    cluster.limit = limit;
    cluster.seen.first = cluster.seen.count = 0;
    for (size_t i = 0; i < count; i++)
        cluster.r[i] = (struct replica){.limiter = df_limiter_new(&clock_.base, true)};
}

static void end_cluster(void)
{
    for (size_t i = 0; i < cluster.count; i++) {
        df_limiter_free(cluster.r[i].limiter);
        free(cluster.r[i].left);
    }
}

static int64_t now_ms(void)
{
    return df_mono_ms(&clock_.base);
}

/* Whether it was decided. All of them together never have more than a tenth too much. */
static bool try_at(struct replica *r, struct df_limiter_answer *a)
{
    df_limiter_take(r->limiter, KEY, cluster.limit, a);
    if (a->admitted) {
        int64_t most = cluster.limit + cluster.limit / 10;
        assert_true(model_admits(&cluster.seen, now_ms(), most, 0));
        cluster.seen.at_ms[cluster.seen.count++] = now_ms();
        r->admitted++;
    }
    return !a->ask;
}

/* What the others count of it now. */
static int64_t counts_of(const struct replica *r)
{
    int64_t n = now_ms() - r->row_ms <= DF_LIMITER_KEEP_MS ? r->row : 0;
    for (size_t i = 0; i < r->left_count; i++) {
        int64_t ago_ms = now_ms() - r->row_ms + df_limiter_written_ago_ms(&r->left[i]);
        n += ago_ms <= DF_LIMITER_KEEP_MS ? r->left[i].requests : 0;
    }
    return n;
}

static void leave(struct replica *r)
{
    r->left_count = df_limiter_leave(r->limiter, &r->left);
    r->row = 0;
    r->row_ms = now_ms();
}

/* Tells the others what it has and hears of theirs; then those that waited take again. */
static void exchange_of(struct replica *r)
{
    struct df_limiter_use *mine = NULL, others = {.key = "a"};
    struct df_limiter_answer a;
    size_t count = df_limiter_report(r->limiter, &mine);
    for (size_t i = 0; i < cluster.count; i++)
        others.requests += &cluster.r[i] == r ? 0 : counts_of(&cluster.r[i]);
    r->row = 0;
    r->row_ms = now_ms();
    if (count > 0) {
        mine->granted = df_limiter_grant(mine, others.requests);
        r->row = mine->requests + mine->granted;
    }
    df_limiter_settle(r->limiter, mine, count, &others, 1);
    free(mine);
    for (int64_t waiting = r->waiting; waiting > 0; waiting--)
        r->waiting -= try_at(r, &a);
}

/* A request, and as many exchanges as it waits for. */
static bool call_at(size_t i, struct df_limiter_answer *a)
{
    struct replica *r = &cluster.r[i];
    for (int rounds = 0; !try_at(r, a); rounds++) {
        assert_true(rounds < 3); /* does not wait for ever */
        exchange_of(r);
    }
    return a->admitted;
}

static void one_replica_of_several_lets_the_whole_limit_through_at_once(void **state)
{
    (void)state;
    for (size_t i = 0; i < LIMITS; i++) {
        struct df_limiter_answer a;
        begin_cluster(2, limits[i]);
        for (int64_t n = 0; n < limits[i]; n++)
            assert_true(call_at(0, &a));
        assert_int_equal(a.remaining, 0);
        assert_false(call_at(0, &a));
        assert_int_equal(a.wait_ms, 60000);
        exchange_of(&cluster.r[1]);
        for (int64_t n = 0; n < limits[i] / 10; n++)
            assert_true(call_at(1, &a)); /* the tenth that they may have too much */
        assert_false(call_at(1, &a));
        assert_int_equal(a.remaining, 0);
        df_fake_clock_advance_ms(&clock_, 60000);
        assert_true(call_at(0, &a));
        exchange_of(&cluster.r[0]);
        end_cluster();
    }
}

static void what_another_reserved_and_does_not_use_comes_back(void **state)
{
    (void)state;
    struct df_limiter_answer a;
    begin_cluster(2, 1000);
    assert_true(call_at(1, &a)); /* reserves a twentieth */
    assert_int_equal(cluster.r[1].row, 50);
    for (int second = 0; second < 2; second++) {
        df_fake_clock_advance_ms(&clock_, 1000);
        exchange_of(&cluster.r[1]);
    }
    assert_int_equal(cluster.r[1].row, 1);
    end_cluster();
}

static void replicas_together_have_a_tenth_more_at_most(void **state)
{
    (void)state;
    static const int64_t some[] = {1, 5, 10, 30, 100, 600, 3000};
    for (size_t i = 0; i < sizeof some / sizeof some[0]; i++)
        for (size_t count = 2; count <= REPLICAS; count++) {
            begin_cluster(count, some[i]);
            int64_t minutes = 6;
            /* Load in bursts on any of them; each exchanges every second, or when somebody waits.
             */
            for (int64_t ms = 0; ms < minutes * 60000; ms += 10) {
                size_t at = df_random_below(&clock_.base, count);
                int64_t calls = df_random_below(&clock_.base, 20) == 0 ? some[i] / 5 + 1 : 0;
                struct df_limiter_answer a;
                for (int64_t n = 0; n < calls; n++)
                    cluster.r[at].waiting += !try_at(&cluster.r[at], &a);
                for (size_t k = 0; k < count; k++)
                    if (ms % 1000 == (int64_t)k * 100 || df_random_below(&clock_.base, 3) == 0)
                        exchange_of(&cluster.r[k]);
                df_fake_clock_advance_ms(&clock_, 10);
            }
            /* try_at has asserted the most. The least: they do not starve each other. */
            assert_true((int64_t)cluster.seen.count >= minutes * some[i] * 9 / 10);
            end_cluster();
        }
}

static void without_the_table_each_applies_the_limit_by_itself(void **state)
{
    (void)state;
    struct df_limiter_answer a;
    begin_cluster(2, 30);
    for (size_t i = 0; i < 2; i++) {
        df_limiter_alone(cluster.r[i].limiter);
        for (int n = 0; n < 30; n++) {
            df_limiter_take(cluster.r[i].limiter, KEY, 30, &a);
            assert_true(a.admitted);
        }
        df_limiter_take(cluster.r[i].limiter, KEY, 30, &a);
        assert_false(a.admitted || a.ask);
    }
    exchange_of(&cluster.r[0]); /* reachable again */
    assert_false(call_at(0, &a));
    end_cluster();
}

/* Asked for more than the limit, for so long; how many passed. try_at asserts the most. */
static int64_t insist_at(size_t i, int64_t seconds)
{
    struct df_limiter_answer a;
    int64_t passed = 0;
    for (int64_t ms = 0; ms < seconds * 1000; ms += 100) {
        df_fake_clock_advance_ms(&clock_, 100);
        for (int64_t n = 0; n <= cluster.limit / 300; n++)
            passed += call_at(i, &a);
        if (ms % 1000 == 0)
            exchange_of(&cluster.r[i]);
    }
    return passed;
}

static void what_a_killed_replica_admitted_counts_for_its_minute(void **state)
{
    (void)state;
    static const int64_t some[] = {1, 5, 30, 100, 600};
    for (size_t i = 0; i < sizeof some / sizeof some[0]; i++) {
        struct df_limiter_answer a;
        begin_cluster(2, some[i]);
        for (int64_t n = 0; n < some[i]; n++)
            assert_true(call_at(0, &a));
        assert_int_equal(insist_at(1, 59), some[i] / 10);
        assert_true(insist_at(1, 67) >= some[i]); /* then it is forgotten */
        end_cluster();
    }
}

/* A restart: the next one goes on where the first one ended, and a client that keeps to the limit
 * does not notice. */
static void what_an_ended_replica_admitted_leaves_the_minute_as_it_came(void **state)
{
    (void)state;
    struct df_limiter_answer a;
    begin_cluster(2, 600);
    for (size_t at = 0; at < 2; at++) {
        for (int64_t ms = 0; ms < 90000; ms += 120) { /* 500 a minute */
            df_fake_clock_advance_ms(&clock_, 120);
            assert_true(call_at(at, &a));
        }
        if (at == 0)
            leave(&cluster.r[0]);
    }
    assert_int_equal(cluster.r[0].left_count, DF_LIMITER_AGES);
    end_cluster();

    begin_cluster(2, 30);
    for (int n = 0; n < 30; n++)
        assert_true(call_at(0, &a));
    df_fake_clock_advance_ms(&clock_, 31000);
    leave(&cluster.r[0]);
    assert_int_equal(cluster.r[0].left_count, 1);
    assert_int_equal(insist_at(1, 28), 3);
    assert_true(insist_at(1, 7) >= 27); /* as if the first one were still there */
    end_cluster();
}

static void what_was_heard_of_the_others_counts_for_a_minute_without_the_table(void **state)
{
    (void)state;
    struct df_limiter_answer a;
    begin_cluster(2, 30);
    for (int n = 0; n < 30; n++)
        assert_true(call_at(0, &a));
    exchange_of(&cluster.r[1]);
    for (int second = 0; second < 60; second++) {
        df_limiter_alone(cluster.r[1].limiter);
        assert_false(call_at(1, &a));
        df_fake_clock_advance_ms(&clock_, 1000);
    }
    df_limiter_alone(cluster.r[1].limiter);
    assert_true(call_at(1, &a));
    end_cluster();
}

static void what_a_replica_had_is_told_until_it_rests(void **state)
{
    (void)state;
    struct df_limiter *l = fresh();
    struct df_limiter_use *uses = NULL;
    assert_true(take(l, 60));
    df_fake_clock_advance_ms(&clock_, 1000);
    assert_int_equal(df_limiter_report(l, &uses), 1);
    assert_string_equal(uses[0].key, "a");
    assert_int_equal(uses[0].requests, 1);
    assert_int_equal(uses[0].demand, 60);
    free(uses);
    for (int i = 0; i < 10; i++) { /* the demand fades */
        df_fake_clock_advance_ms(&clock_, 7000);
        assert_int_equal(df_limiter_report(l, &uses), i < 8);
        free(uses);
    }
    df_fake_clock_advance_ms(&clock_, 1000);
    assert_int_equal(df_limiter_report(l, &uses), 0);
    free(uses);
    df_limiter_free(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(twice_the_limit_for_a_minute_admits_the_limit),
        cmocka_unit_test(the_whole_limit_passes_at_once_then_none_until_the_first_is_a_minute_old),
        cmocka_unit_test(random_calls_are_judged_as_by_a_plain_model),
        cmocka_unit_test(under_the_limit_nobody_is_refused),
        cmocka_unit_test(a_refusal_tells_when_to_come_back_and_that_is_right),
        cmocka_unit_test(the_answer_says_what_is_left),
        cmocka_unit_test(what_is_refused_does_not_count_and_is_told_once_a_minute),
        cmocka_unit_test(a_limit_may_come_change_and_go),
        cmocka_unit_test(keys_do_not_know_each_other_and_room_is_made),
        cmocka_unit_test(so_many_may_be_in_hand),
        cmocka_unit_test(one_replica_of_several_lets_the_whole_limit_through_at_once),
        cmocka_unit_test(what_another_reserved_and_does_not_use_comes_back),
        cmocka_unit_test(replicas_together_have_a_tenth_more_at_most),
        cmocka_unit_test(without_the_table_each_applies_the_limit_by_itself),
        cmocka_unit_test(what_a_killed_replica_admitted_counts_for_its_minute),
        cmocka_unit_test(what_an_ended_replica_admitted_leaves_the_minute_as_it_came),
        cmocka_unit_test(what_was_heard_of_the_others_counts_for_a_minute_without_the_table),
        cmocka_unit_test(what_a_replica_had_is_told_until_it_rests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

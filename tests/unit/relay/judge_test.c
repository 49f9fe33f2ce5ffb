/*
 * The rule by which a relay's events are given up, without a database or threads: rounds of events
 * with the answers that a test chooses, on a clock that it moves.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/mem.h"
#include "fake_clock.h"
#include "relay/relay_private.h"

#include <stdio.h>

#define SECOND INT64_C(1000)
#define MINUTE (60 * SECOND)
#define HOUR   (60 * MINUTE)
#define CAP    (5 * MINUTE)
#define OPEN   (10 * SECOND)

struct fixture {
    struct df_fake_clock clock;
    struct df_relay_settings s;
    struct df_relay r;
};

static void fixture_init(struct fixture *f)
{
    *f = (struct fixture){0};
    df_fake_clock_init(&f->clock, INT64_C(1700000000000), 1);
    f->s = (struct df_relay_settings){
        .name = "test", .max_retries = 2, .retry_base_ms = SECOND, .retry_cap_ms = CAP};
    f->r.s = &f->s;
    f->r.opt = (struct df_relay_options){.clock = &f->clock.base, .give_up_ms = 72 * HOUR};
    f->r.retry = (struct df_retry_policy){.base_ms = SECOND, .cap_ms = CAP};
    f->r.breaker = df_breaker_new(DF_STR("relay:test"),
                                  &(struct df_breaker_settings){.window = 10,
                                                                .min_calls = 5,
                                                                .failure_rate = 50,
                                                                .open_ms = OPEN,
                                                                .half_open_calls = 3},
                                  &f->clock.base);
    df_mutex_init(&f->r.lock);
    df_cond_init(&f->r.changed);
}

static void fixture_release(struct fixture *f)
{
    relay_memory_release(&f->r);
    df_breaker_free(f->r.breaker);
    pthread_cond_destroy(&f->r.changed);
    df_mutex_destroy(&f->r.lock);
}

/* An answer that a destination may give. */
struct answer {
    enum df_dispatch_outcome outcome;
    enum df_breaker_outcome breaker;
    bool never_counts;
    int64_t retry_after_ms;
};

static const struct answer arrives = {DF_DISPATCHED, DF_BREAKER_SUCCESS, false, -1};
static const struct answer fails = {DF_DISPATCH_RETRY, DF_BREAKER_FAILURE, false, -1};
/* Fails and leaves the breaker as it is: one failure alone is not the destination's. */
static const struct answer fails_alone = {DF_DISPATCH_RETRY, DF_BREAKER_SUCCESS, false, -1};
static const struct answer refused = {DF_DISPATCH_PERMANENT, DF_BREAKER_SUCCESS, false, -1};

static int64_t arrived(struct fixture *f)
{
    df_lock(&f->r.lock);
    int64_t n = relay_arrived(&f->r);
    df_unlock(&f->r.lock);
    return n;
}

/* Sends one event of which the row has so many attempts. Not sent if the breaker is open. */
static struct relay_claimed try_event(struct fixture *f, const char *id, int64_t attempts,
                                      const struct answer *a)
{
    struct relay_claimed c = {.e = {.id = df_str_c(id), .error = DF_STR("HTTP 503")},
                              .attempts = attempts,
                              .outcome = RELAY_DEFERRED};
    struct relay_claimed *round = &c;
    int64_t wait_ms;

    if (!df_breaker_allow(f->r.breaker, &c.permit, &wait_ms))
        return c;
    int64_t before = arrived(f);
    c.e.outcome = a->outcome;
    c.e.breaker = a->breaker;
    c.e.never_counts = a->never_counts;
    c.e.retry_after_ms = a->retry_after_ms;
    (void)relay_judge_round(&f->r, &round, 1, before);
    return c;
}

static void let_arrive(struct fixture *f, int n)
{
    for (int i = 0; i < n; i++)
        assert_int_equal(try_event(f, "other", 0, &arrives).outcome, RELAY_PROCESSED);
}

/* --- what counts ------------------------------------------------------------------------------ */

static void test_what_counts(void **state)
{
    static const struct {
        const char *what;
        struct answer answer;
        int others;    /* that arrive between the first failure and the second */
        int64_t after; /* milliseconds from the first failure to the second */
        int64_t counted;
    } cases[] = {
        {"others arrive", {DF_DISPATCH_RETRY, DF_BREAKER_FAILURE, false, -1}, 3, CAP, 1},
        {"too few others", {DF_DISPATCH_RETRY, DF_BREAKER_FAILURE, false, -1}, 2, CAP, 0},
        {"nobody else", {DF_DISPATCH_RETRY, DF_BREAKER_FAILURE, false, -1}, 0, CAP, 0},
        {"429", {DF_DISPATCH_RETRY, DF_BREAKER_FAILURE, true, -1}, 3, CAP, 0},
        {"no connection to the broker",
         {DF_DISPATCH_RETRY, DF_BREAKER_FAILURE, true, -1},
         9,
         CAP,
         0},
        {"Retry-After", {DF_DISPATCH_RETRY, DF_BREAKER_FAILURE, false, 1000}, 3, CAP, 0},
        {"Retry-After: 0", {DF_DISPATCH_RETRY, DF_BREAKER_FAILURE, false, 0}, 3, CAP, 0},
        {"a fault of ours", {DF_DISPATCH_RETRY, DF_BREAKER_IGNORED, false, -1}, 3, CAP, 0},
        {"no answer of the sink", {DF_DISPATCH_NONE, DF_BREAKER_SUCCESS, false, -1}, 3, CAP, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fixture f;
        fixture_init(&f);
        assert_int_equal(try_event(&f, "e", 0, &fails).outcome, RELAY_RETRY);
        let_arrive(&f, cases[i].others);
        df_fake_clock_advance_ms(&f.clock, cases[i].after);
        struct relay_claimed c = try_event(&f, "e", 0, &cases[i].answer);
        if (c.outcome != RELAY_RETRY || c.counted != cases[i].counted)
            fail_msg("%s: outcome %d, counted %lld", cases[i].what, (int)c.outcome,
                     (long long)c.counted);
        fixture_release(&f);
    }
}

/* Once in retry_cap_ms, however often it is tried. */
static void test_failures_count_once_in_the_cap(void **state)
{
    struct fixture f;
    int64_t attempts = 0;

    (void)state;
    fixture_init(&f);
    for (int i = 0; i < 20; i++) {
        let_arrive(&f, 5);
        struct relay_claimed c = try_event(&f, "e", attempts, &fails_alone);
        assert_int_equal(c.outcome, RELAY_RETRY);
        assert_true(c.delay_ms >= 1 && c.delay_ms <= CAP);
        attempts = c.counted;
        df_fake_clock_advance_ms(&f.clock, CAP / 20);
    }
    assert_int_equal(attempts, 1);
    fixture_release(&f);
}

static void test_a_poisoned_event_is_given_up(void **state)
{
    struct fixture f;
    struct relay_claimed c = {0};
    int tries = 0;

    (void)state;
    fixture_init(&f);
    while (c.outcome != RELAY_FAILED) {
        c = try_event(&f, "poison", c.counted, &fails);
        let_arrive(&f, 9);
        df_fake_clock_advance_ms(&f.clock, CAP);
        assert_true(++tries < 10);
    }
    /* The first failure has nobody beside it; then max_retries and one more count. */
    assert_int_equal(tries, 4);
    assert_int_equal(c.counted, 3);
    assert_string_equal(c.why, "count");
    fixture_release(&f);
}

static void test_a_refused_event_fails_at_once(void **state)
{
    struct fixture f;

    (void)state;
    fixture_init(&f);
    struct relay_claimed c = try_event(&f, "e", 0, &refused);
    assert_int_equal(c.outcome, RELAY_FAILED);
    assert_int_equal(c.counted, 3);
    assert_string_equal(c.why, "refused");
    fixture_release(&f);
}

/* --- outages ---------------------------------------------------------------------------------- */

/* A destination that fails every call for so long, asked whenever the breaker lets a call pass. */
static void outage(struct fixture *f, int64_t ms, const struct answer *a)
{
    int64_t until = df_wall_ms(&f->clock.base) + ms;
    int n = 0;

    while (df_wall_ms(&f->clock.base) < until) {
        char id[32];
        (void)snprintf(id, sizeof id, "e%d", n++ % 20);
        struct relay_claimed c = try_event(f, id, 0, a);
        if (c.outcome == RELAY_DEFERRED)
            df_fake_clock_advance_ms(&f->clock, OPEN);
        else if (c.outcome == RELAY_FAILED || c.counted != 0)
            fail_msg("%s is given up or counted: %d, %lld", id, (int)c.outcome,
                     (long long)c.counted);
        else if (c.outcome == RELAY_RETRY)
            df_fake_clock_advance_ms(&f->clock, SECOND);
    }
}

static void test_an_outage_costs_no_event_a_failure(void **state)
{
    static const struct {
        int64_t ms;
        struct answer answer;
    } cases[] = {
        {71 * HOUR, {DF_DISPATCH_RETRY, DF_BREAKER_FAILURE, false, -1}},
        {HOUR, {DF_DISPATCH_RETRY, DF_BREAKER_FAILURE, false, -1}}, /* 401: a key expired */
        {24 * HOUR, {DF_DISPATCH_RETRY, DF_BREAKER_FAILURE, true, 30 * SECOND}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fixture f;
        fixture_init(&f);
        let_arrive(&f, 10);
        outage(&f, cases[i].ms, &cases[i].answer);
        assert_true(f.r.health.down_since_ms > 0);
        assert_string_equal(f.r.health.last_error, "HTTP 503");
        /* It is back: the probes arrive, and nothing waits for a time any more. */
        df_fake_clock_advance_ms(&f.clock, CAP);
        let_arrive(&f, 3);
        assert_int_equal(f.r.health.down_since_ms, 0);
        assert_int_equal(f.r.memory.held.count, 0);
        assert_int_equal(f.r.shut_until_ms, 0);
        fixture_release(&f);
    }
}

/* Not before 50 tries and 72 hours, and only at a failing try. */
static void test_an_event_is_given_up_by_time(void **state)
{
    struct fixture f;
    struct relay_claimed c = {0};

    (void)state;
    fixture_init(&f);
    assert_int_equal(try_event(&f, "e", 0, &fails_alone).outcome, RELAY_RETRY);
    df_fake_clock_advance_ms(&f.clock, 96 * HOUR); /* switched off meanwhile */
    for (int i = 2; i < DF_TRIES_MIN; i++)
        assert_int_equal(try_event(&f, "e", 0, &fails_alone).outcome, RELAY_RETRY);
    c = try_event(&f, "e", 0, &fails_alone);
    assert_int_equal(c.outcome, RELAY_FAILED);
    assert_string_equal(c.why, "time");
    assert_int_equal(c.counted, 3);
    fixture_release(&f);
}

/* A batch that the destination goes away with: none of its events gets a backoff. */
static void test_a_batch_that_opens_the_breaker_is_held(void **state)
{
    struct fixture f;
    struct relay_claimed rows[8];
    struct relay_claimed *round[8];
    char ids[8][8];
    int64_t wait_ms;

    (void)state;
    fixture_init(&f);
    for (size_t i = 0; i < 8; i++) {
        (void)snprintf(ids[i], sizeof ids[i], "b%zu", i);
        rows[i] = (struct relay_claimed){.e = {.id = df_str_c(ids[i]),
                                               .outcome = DF_DISPATCH_RETRY,
                                               .breaker = DF_BREAKER_FAILURE,
                                               .retry_after_ms = -1}};
        round[i] = &rows[i];
        assert_true(df_breaker_allow(f.r.breaker, &rows[i].permit, &wait_ms));
    }
    assert_true(relay_judge_round(&f.r, round, 8, 0));
    for (size_t i = 0; i < 8; i++)
        assert_int_equal(rows[i].outcome, RELAY_HELD);
    assert_int_equal(f.r.memory.held.count, 8);
    fixture_release(&f);
}

/* What a probe is told keeps the destination shut, but no longer than the cap. */
static void test_retry_after_of_a_probe_keeps_it_shut(void **state)
{
    static const struct answer busy = {DF_DISPATCH_RETRY, DF_BREAKER_FAILURE, true, 30 * SECOND};
    static const struct answer away = {DF_DISPATCH_RETRY, DF_BREAKER_FAILURE, true, 48 * HOUR};
    struct fixture f;

    (void)state;
    fixture_init(&f);
    for (int i = 0; i < 5; i++)
        (void)try_event(&f, "e", 0, &busy);
    int64_t now_ms = df_mono_ms(&f.clock.base);
    assert_int_equal(f.r.shut_until_ms, now_ms + 30 * SECOND);
    df_fake_clock_advance_ms(&f.clock, OPEN);
    (void)try_event(&f, "e", 0, &away);
    assert_int_equal(f.r.shut_until_ms, now_ms + OPEN + CAP);
    fixture_release(&f);
}

/* --- memory ----------------------------------------------------------------------------------- */

/* Counting goes on from the row, and the time between two counted failures begins anew. */
static void test_a_restart_gives_nothing_up_early(void **state)
{
    struct fixture f;

    (void)state;
    fixture_init(&f);
    let_arrive(&f, 9);
    assert_int_equal(try_event(&f, "e", 2, &fails_alone).outcome, RELAY_RETRY);
    let_arrive(&f, 9);
    df_fake_clock_advance_ms(&f.clock, CAP - 1);
    assert_int_equal(try_event(&f, "e", 2, &fails_alone).outcome, RELAY_RETRY);
    df_fake_clock_advance_ms(&f.clock, 1);
    assert_int_equal(try_event(&f, "e", 2, &fails_alone).outcome, RELAY_FAILED);
    fixture_release(&f);
}

/* Another relay of the table counted the failure meanwhile. */
static void test_two_relays_count_once_in_the_cap(void **state)
{
    struct fixture f;

    (void)state;
    fixture_init(&f);
    assert_int_equal(try_event(&f, "e", 0, &fails_alone).counted, 0);
    let_arrive(&f, 9);
    df_fake_clock_advance_ms(&f.clock, CAP);
    assert_int_equal(try_event(&f, "e", 1, &fails_alone).counted, 1);
    let_arrive(&f, 9);
    df_fake_clock_advance_ms(&f.clock, CAP);
    assert_int_equal(try_event(&f, "e", 1, &fails_alone).counted, 2);
    fixture_release(&f);
}

/* A person made it PENDING again, and set attempts to 0 or left it. */
static void test_an_event_sent_again_has_all_its_tries(void **state)
{
    struct fixture f;

    (void)state;
    fixture_init(&f);
    assert_int_equal(try_event(&f, "e", 2, &fails_alone).counted, 2);
    df_fake_clock_advance_ms(&f.clock, 80 * HOUR);
    struct relay_claimed c = try_event(&f, "e", 0, &fails_alone);
    assert_int_equal(c.counted, 0);
    df_lock(&f.r.lock);
    assert_int_equal(relay_recall(&f.r, DF_STR("e"))->tries.tries, 1);
    df_unlock(&f.r.lock);
    c = try_event(&f, "left", 7, &fails);
    assert_int_equal(c.outcome, RELAY_RETRY);
    assert_int_equal(c.counted, 7);
    fixture_release(&f);
}

static void test_memory_is_bounded(void **state)
{
    struct fixture f;
    char id[32];

    (void)state;
    fixture_init(&f);
    for (int i = 0; i < 100010; i++) {
        (void)snprintf(id, sizeof id, "e%d", i);
        (void)try_event(&f, id, 0, &fails_alone);
    }
    df_lock(&f.r.lock);
    assert_int_equal(f.r.memory.by_id.count, 100000);
    assert_null(relay_recall(&f.r, DF_STR("e9")));
    assert_non_null(relay_recall(&f.r, DF_STR("e10")));
    df_unlock(&f.r.lock);
    (void)try_event(&f, "e10", 0, &arrives);
    df_lock(&f.r.lock);
    assert_null(relay_recall(&f.r, DF_STR("e10")));
    df_unlock(&f.r.lock);
    fixture_release(&f);
}

/* Probes skip at most a thousand events: those that were tried last. */
static void test_held_events_are_bounded(void **state)
{
    struct fixture f;
    char id[32];

    (void)state;
    fixture_init(&f);
    for (int i = 0; i < 5; i++)
        (void)try_event(&f, "first", 0, &fails);
    for (int i = 0; f.r.memory.held.count < 1000; i++) {
        (void)snprintf(id, sizeof id, "e%d", i);
        if (try_event(&f, id, 0, &fails).outcome == RELAY_DEFERRED)
            df_fake_clock_advance_ms(&f.clock, OPEN);
    }
    df_fake_clock_advance_ms(&f.clock, OPEN);
    assert_int_equal(try_event(&f, "last", 0, &fails).outcome, RELAY_HELD);
    assert_int_equal(f.r.memory.held.count, 1000);
    df_lock(&f.r.lock);
    assert_false(df_link_in_list(&relay_recall(&f.r, DF_STR("first"))->held));
    assert_true(df_link_in_list(&relay_recall(&f.r, DF_STR("last"))->held));
    df_unlock(&f.r.lock);
    fixture_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_counts),
        cmocka_unit_test(test_failures_count_once_in_the_cap),
        cmocka_unit_test(test_a_poisoned_event_is_given_up),
        cmocka_unit_test(test_a_refused_event_fails_at_once),
        cmocka_unit_test(test_an_outage_costs_no_event_a_failure),
        cmocka_unit_test(test_an_event_is_given_up_by_time),
        cmocka_unit_test(test_a_batch_that_opens_the_breaker_is_held),
        cmocka_unit_test(test_retry_after_of_a_probe_keeps_it_shut),
        cmocka_unit_test(test_a_restart_gives_nothing_up_early),
        cmocka_unit_test(test_two_relays_count_once_in_the_cap),
        cmocka_unit_test(test_an_event_sent_again_has_all_its_tries),
        cmocka_unit_test(test_memory_is_bounded),
        cmocka_unit_test(test_held_events_are_bounded),
    };
    df_log_init(DF_LOG_ERROR, DF_LOG_JSON, df_clock_real());
    return cmocka_run_group_tests(tests, NULL, NULL);
}

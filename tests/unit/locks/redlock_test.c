#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/instance.h"
#include "fake_redis.h"

#include <string.h>

/*
 * RedLock over servers of the test, by the fake clock: every pattern of answers, races, servers
 * that lose their memory. The same on real servers: locks_test.c.
 */

#define LEASE_MS   1000
#define TIMEOUT_MS 50

static struct df_fake_clock clock_;
static struct fake_redis *servers[LOCK_SERVERS_MAX];
static size_t count;
static struct lock_provider *redlock;
static struct df_err err;

static void start(size_t servers_wanted)
{
    struct lock_server *base[LOCK_SERVERS_MAX];

    df_fake_clock_init(&clock_, 1700000000000, 7);
    count = servers_wanted;
    for (size_t i = 0; i < count; i++) {
        servers[i] = fake_redis_new(&clock_, LEASE_MS, TIMEOUT_MS);
        base[i] = &servers[i]->base;
    }
    redlock = redlock_new(&(struct redlock_options){.clock = &clock_.base,
                                                    .lease_ms = LEASE_MS,
                                                    .timeout_ms = TIMEOUT_MS},
                          base, count);
}

static void end(void)
{
    redlock->ops->free(redlock);
}

static struct lock_want want(const char *value)
{
    struct lock_want w = {.name = "a"};
    (void)snprintf(w.value, sizeof w.value, "%s", value);
    return w;
}

static enum lock_answer acquire(const char *value)
{
    char holder[LOCK_VALUE_LEN + 1] = "";
    struct lock_want w = want(value);
    return redlock->ops->acquire(redlock, &w, holder, &err);
}

static enum lock_answer extend(const char *value)
{
    struct lock_want w = want(value);
    return redlock->ops->extend(redlock, &w, &err);
}

static void drop(const char *value)
{
    struct lock_want w = want(value);
    redlock->ops->drop(redlock, &w);
}

static bool has(size_t nth, const char *value)
{
    const char *holder = fake_holder(servers[nth], "a");
    return holder ? value && strcmp(holder, value) == 0 : !value;
}

static size_t quorum(void)
{
    return count / 2 + 1;
}

enum pattern { HELD_BY_OTHER, AWAY, SILENT, PATTERNS };

static void apply(enum pattern how, unsigned bits)
{
    struct lock_want other = want("other");

    for (size_t i = 0; i < count; i++) {
        if (!(bits >> i & 1))
            continue;
        servers[i]->away = how == AWAY;
        servers[i]->silent = how == SILENT;
        if (how == HELD_BY_OTHER)
            fake_set(servers[i], &other, fake_now(servers[i]) + LEASE_MS);
    }
}

static const size_t sizes[] = {1, 3, 5};

static void a_lock_is_acquired_when_and_only_when_most_servers_give_it(void **state)
{
    (void)state;
    for (size_t n = 0; n < 3; n++)
        for (unsigned bits = 0; bits < 1u << sizes[n]; bits++)
            for (enum pattern how = 0; how < PATTERNS; how++) {
                start(sizes[n]);
                apply(how, bits);
                size_t good = count - (size_t)__builtin_popcount(bits);
                bool got = acquire("me") == LOCK_YES;
                assert_int_equal(got, good >= quorum());
                for (size_t i = 0; i < count; i++) {
                    bool bad = bits >> i & 1;
                    if (!got) /* nothing is left, also where the answer was lost */
                        assert_true(bad && how == HELD_BY_OTHER ? has(i, "other") : has(i, NULL));
                    else if (!bad)
                        assert_true(has(i, "me"));
                }
                end();
            }
}

static void a_lock_is_extended_when_and_only_when_most_servers_still_have_it(void **state)
{
    (void)state;
    for (size_t n = 0; n < 3; n++)
        for (unsigned bits = 0; bits < 1u << sizes[n]; bits++)
            for (enum pattern how = 0; how < PATTERNS; how++) {
                start(sizes[n]);
                assert_int_equal(acquire("me"), LOCK_YES);
                apply(how, bits);
                size_t good = count - (size_t)__builtin_popcount(bits);
                enum lock_answer answer = extend("me");
                assert_int_equal(answer, good >= quorum()       ? LOCK_YES
                                         : how == HELD_BY_OTHER ? LOCK_NO
                                                                : LOCK_AWAY);
                end();
            }
}

static void of_two_that_race_for_the_quorum_at_most_one_has_it(void **state)
{
    (void)state;
    for (unsigned bits = 0; bits < 1u << 5; bits++) { /* those that the other reached first */
        start(5);
        apply(HELD_BY_OTHER, bits);
        size_t theirs = (size_t)__builtin_popcount(bits);
        bool mine = acquire("me") == LOCK_YES;
        assert_false(mine && theirs >= quorum());
        assert_true(mine || theirs >= quorum());
        end();
    }
    start(5); /* neither has it: both give it back, and the next try succeeds */
    apply(HELD_BY_OTHER, 3);
    servers[4]->away = true;
    assert_int_equal(acquire("me"), LOCK_NO);
    drop("other");
    servers[4]->away = false;
    assert_int_equal(acquire("me"), LOCK_YES);
    end();
}

static void a_lock_that_is_over_cannot_be_extended(void **state)
{
    (void)state;
    start(3);
    assert_int_equal(acquire("me"), LOCK_YES);
    df_fake_clock_advance_ms(&clock_, LEASE_MS);
    assert_int_equal(extend("me"), LOCK_NO);
    for (size_t i = 0; i < count; i++)
        assert_true(has(i, NULL)); /* it was not given anew */
    assert_int_equal(acquire("other"), LOCK_YES);
    assert_int_equal(extend("me"), LOCK_NO);
    drop("me"); /* by the owner only */
    for (size_t i = 0; i < count; i++)
        assert_true(has(i, "other"));
    end();
}

/* The question was on its way while the lock changed hands. */
static void an_extension_that_comes_after_a_conflict_changes_nothing(void **state)
{
    (void)state;
    start(3);
    assert_int_equal(acquire("me"), LOCK_YES);
    for (size_t i = 0; i < count; i++)
        servers[i]->keeps = true;
    assert_int_equal(extend("me"), LOCK_AWAY);
    for (size_t i = 0; i < count; i++)
        servers[i]->keeps = false;
    df_fake_clock_advance_ms(&clock_, LEASE_MS);
    assert_int_equal(acquire("other"), LOCK_YES);
    for (size_t i = 0; i < count; i++)
        fake_deliver(servers[i]);
    for (size_t i = 0; i < count; i++)
        assert_true(has(i, "other"));
    assert_int_equal(extend("other"), LOCK_YES);
    end();
}

/* One after the other loses its memory and comes back, for longer than any lease. */
static void the_quorum_does_not_erode(void **state)
{
    (void)state;
    start(3);
    assert_int_equal(acquire("me"), LOCK_YES);
    for (int round = 0; round < 9; round++) {
        fake_forget(servers[round % 3]);
        for (int third = 0; third < 5; third++) {
            assert_int_equal(extend("me"), LOCK_YES);
            assert_int_equal(acquire("other"), LOCK_NO);
            df_fake_clock_advance_ms(&clock_, LEASE_MS / 3);
        }
        for (size_t i = 0; i < count; i++)
            assert_true(has(i, "me"));
    }
    end();
}

/* It gave its voice to the owner, and must not give it to another while that lease lasts. */
static void a_server_without_its_memory_stays_out_for_the_longest_lease(void **state)
{
    (void)state;
    start(3);
    servers[0]->away = true;
    assert_int_equal(acquire("me"), LOCK_YES); /* by 1 and 2 */
    servers[0]->away = false;
    fake_forget(servers[1]);
    assert_int_equal(acquire("other"), LOCK_NO); /* 0 alone would give it */
    assert_true(has(1, NULL));
    df_fake_clock_advance_ms(&clock_, LEASE_MS - 1);
    assert_false(servers[1]->base.ops->serves(&servers[1]->base));
    df_fake_clock_advance_ms(&clock_, 1);
    assert_int_equal(acquire("other"), LOCK_YES); /* my lease is over, too */
    assert_true(has(1, "other"));
    end();
}

static void a_single_server_without_its_memory_stalls_for_one_lease(void **state)
{
    (void)state;
    start(1);
    assert_int_equal(acquire("me"), LOCK_YES);
    fake_forget(servers[0]);
    assert_int_equal(extend("me"), LOCK_NO);
    assert_int_equal(acquire("other"), LOCK_AWAY);
    assert_false(redlock->ops->well(redlock, &err));
    df_fake_clock_advance_ms(&clock_, LEASE_MS - 1);
    assert_int_equal(acquire("other"), LOCK_AWAY);
    df_fake_clock_advance_ms(&clock_, 1);
    assert_int_equal(acquire("other"), LOCK_YES);
    assert_true(redlock->ops->well(redlock, &err));
    end();
}

/* --- what the room makes of it ---------------------------------------------------------------- */

static char nowhere[] = "/nonexistent";
static struct df_instance self = {.id = {"6f1c0a7e-0000-4000-8000-00000000000a"},
                                  .directory = nowhere};

/* The locks own the servers now. */
static struct df_locks *open_locks(int64_t idle_ms)
{
    struct df_locks *l = NULL;

    assert_int_equal(df_locks_open(&(struct df_locks_options){.settings.lease_ms = LEASE_MS,
                                                              .clock = &clock_.base,
                                                              .instance = &self,
                                                              .acquires = true,
                                                              .idle_ms = idle_ms,
                                                              .take_provider = redlock},
                                   &l, &err),
                     DF_OK);
    return l;
}

static int64_t left_at_first(void)
{
    return LEASE_MS - LEASE_MS / 100 - 2 - LEASE_MS / 10;
}

/* Drift and margin are taken off, and so is the time that all attempts took. */
static void the_lease_is_counted_from_before_the_first_attempt(void **state)
{
    (void)state;
    struct df_lease lease = {0};

    start(3);
    servers[0]->latency_ms = 40;
    servers[1]->silent = true;
    struct df_locks *l = open_locks(0);
    assert_true(df_locks_acquire(l, "a", &lease));
    assert_int_equal(df_lease_left_ms(l, &lease), left_at_first() - 40 - TIMEOUT_MS);
    df_locks_release(l, &lease);
    df_locks_free(l);
}

/* An answer that takes longer than the lease is none. */
static void a_lease_that_is_over_when_it_comes_is_given_back(void **state)
{
    (void)state;
    struct df_lease lease = {0};

    start(1);
    servers[0]->latency_ms = LEASE_MS;
    struct df_locks *l = open_locks(0);
    assert_false(df_locks_acquire(l, "a", &lease));
    assert_true(has(0, NULL));
    df_locks_free(l);
}

static void a_wall_clock_that_jumps_changes_nothing(void **state)
{
    (void)state;
    struct df_lease lease = {0};

    start(3);
    struct df_locks *l = open_locks(0);
    assert_true(df_locks_acquire(l, "a", &lease));
    clock_.wall += INT64_C(86400000);
    assert_int_equal(df_lease_left_ms(l, &lease), left_at_first());
    clock_.wall -= INT64_C(2) * 86400000;
    assert_int_equal(df_lease_left_ms(l, &lease), left_at_first());
    df_locks_release(l, &lease);
    df_locks_free(l);
}

static void await_asked(enum lock_op op, int times)
{
    while (servers[0]->asked[op] < times)
        df_sleep_ms(1);
}

/* The owner learns it before the lease is over, and the lock is not extended again later. */
static void an_owner_that_cannot_extend_stops_before_the_end(void **state)
{
    (void)state;
    struct df_lease lease = {0};

    start(3);
    struct df_locks *l = open_locks(0);
    assert_true(df_locks_acquire(l, "a", &lease));
    for (size_t i = 0; i < count; i++)
        servers[i]->away = true;
    df_fake_clock_advance_ms(&clock_, LEASE_MS / 3);
    await_asked(LOCK_OP_EXTEND, 1);
    assert_true(df_lease_left_ms(l, &lease) > 0);
    df_fake_clock_advance_ms(&clock_, left_at_first() - LEASE_MS / 3);
    assert_true(df_lease_left_ms(l, &lease) <= 0);
    assert_true(has(0, NULL) == false); /* for others it still lasts */
    df_fake_clock_advance_ms(&clock_, LEASE_MS);
    for (size_t i = 0; i < count; i++)
        servers[i]->away = false;
    assert_true(df_lease_left_ms(l, &lease) <= 0);
    df_locks_release(l, &lease);
    assert_true(df_locks_acquire(l, "a", &lease));
    df_locks_release(l, &lease);
    df_locks_free(l);
}

/* A worker that hangs does not keep the lock for ever. */
static void a_lock_that_nobody_asks_for_is_not_extended(void **state)
{
    (void)state;
    struct df_lease lease = {0};

    start(1);
    struct df_locks *l = open_locks(INT64_C(2) * LEASE_MS);
    assert_true(df_locks_acquire(l, "a", &lease));
    for (int i = 1; i <= 5; i++) {
        df_fake_clock_advance_ms(&clock_, LEASE_MS / 3 + 1);
        await_asked(LOCK_OP_EXTEND, i);
        while (df_fake_clock_await(&clock_) == 0)
            df_sleep_ms(1);
    }
    df_fake_clock_advance_ms(&clock_, LEASE_MS / 3 + 1); /* 2 s are over */
    df_fake_clock_advance_ms(&clock_, LEASE_MS);
    assert_true(df_lease_left_ms(l, &lease) <= 0);
    assert_int_equal(servers[0]->asked[LOCK_OP_EXTEND], 5);
    df_locks_release(l, &lease);
    df_locks_free(l);
}

/* A release that did not arrive leaves a value of this process, which knows that it is not held. */
static void a_release_that_was_lost_does_not_stop_this_process(void **state)
{
    (void)state;
    struct df_lease lease = {0};

    start(3);
    struct df_locks *l = open_locks(0);
    assert_true(df_locks_acquire(l, "a", &lease));
    for (size_t i = 0; i < count; i++)
        servers[i]->away = true;
    df_locks_release(l, &lease);
    for (size_t i = 0; i < count; i++)
        servers[i]->away = false;
    assert_false(has(0, NULL));
    assert_true(df_locks_acquire(l, "a", &lease));
    df_locks_release(l, &lease);
    df_locks_free(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lock_is_acquired_when_and_only_when_most_servers_give_it),
        cmocka_unit_test(a_lock_is_extended_when_and_only_when_most_servers_still_have_it),
        cmocka_unit_test(of_two_that_race_for_the_quorum_at_most_one_has_it),
        cmocka_unit_test(a_lock_that_is_over_cannot_be_extended),
        cmocka_unit_test(an_extension_that_comes_after_a_conflict_changes_nothing),
        cmocka_unit_test(the_quorum_does_not_erode),
        cmocka_unit_test(a_server_without_its_memory_stays_out_for_the_longest_lease),
        cmocka_unit_test(a_single_server_without_its_memory_stalls_for_one_lease),
        cmocka_unit_test(the_lease_is_counted_from_before_the_first_attempt),
        cmocka_unit_test(a_lease_that_is_over_when_it_comes_is_given_back),
        cmocka_unit_test(a_wall_clock_that_jumps_changes_nothing),
        cmocka_unit_test(an_owner_that_cannot_extend_stops_before_the_end),
        cmocka_unit_test(a_lock_that_nobody_asks_for_is_not_extended),
        cmocka_unit_test(a_release_that_was_lost_does_not_stop_this_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

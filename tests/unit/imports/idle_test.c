#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/pool.h"
#include "fake_clock.h"
#include "imports/process/process_private.h"

#include <stdatomic.h>
#include <stdlib.h>

/*
 * When a message counts as tried, and how long an idle worker waits. No worker runs here: the test
 * does what one does, step by step.
 */

#define POLL_MS     1000
#define BACKSTOP_MS 60000
#define PROBE_MS    30000
#define NOW_MS      INT64_C(1700000000000)

static struct df_imports i;
static struct df_fake_clock clock_;
static struct import_batch batch;
static bool connected;
static int told, announced;

static bool is_connected(void *arg)
{
    (void)arg;
    return connected;
}

static void note_told(void *arg)
{
    (void)arg;
    told++;
}

static void note_announced(void *arg)
{
    (void)arg;
    announced++;
}

static int start(void **state)
{
    (void)state;
    df_fake_clock_init(&clock_, NOW_MS, 42);
    i = (struct df_imports){
        .opt = {.clock = &clock_.base,
                .settings = {.poll_ms = POLL_MS, .backstop_ms = BACKSTOP_MS, .probe_ms = PROBE_MS},
                .queue = {.announced = note_announced,
                          .is_connected = is_connected,
                          .idle_changed = note_told}},
        .threads_running = 1,
        .outlook = {-1, -1},
    };
    df_mutex_init(&i.lock);
    df_cond_init(&i.changed);
    batch = (struct import_batch){.imports = &i};
    df_list_add(&i.working, &batch.link);
    connected = true;
    told = announced = 0;
    return 0;
}

static int stop(void **state)
{
    (void)state;
    pthread_cond_destroy(&i.changed);
    df_mutex_destroy(&i.lock);
    return 0;
}

/* --- messages --- */

static _Atomic int answered; /* -1: df_imports_try has not returned */

static void try_message(void *arg)
{
    (void)arg;
    answered = df_imports_try(&i);
}

/* Returns when the message waits for a look. */
static void begin_try(struct df_thread *t)
{
    answered = -1;
    df_lock(&i.lock);
    uint64_t before = i.asked;
    df_unlock(&i.lock);
    df_thread_start(t, "message", try_message, NULL);
    for (bool waits = false; !waits;) {
        df_lock(&i.lock);
        waits = i.asked > before;
        df_unlock(&i.lock);
    }
}

static void take_batch(bool has)
{
    df_lock(&i.lock);
    batch.id.text[0] = has ? 'b' : '\0';
    df_unlock(&i.lock);
}

static void a_busy_process_tries_nothing(void **state)
{
    (void)state;
    assert_true(df_imports_is_idle(&i));
    take_batch(true);
    assert_false(df_imports_is_idle(&i));
    assert_false(df_imports_try(&i));
    take_batch(false);
    i.stopping = true;
    assert_false(df_imports_is_idle(&i));
    assert_false(df_imports_try(&i));
}

static void a_message_is_tried_when_a_later_look_has_ended(void **state)
{
    struct df_thread t = {0};

    (void)state;
    uint64_t earlier = import_look_begins(&i); /* may have seen the database before the batch */
    begin_try(&t);
    import_look_ended(&i, earlier, false);
    assert_int_equal(answered, -1);
    import_look_ended(&i, import_look_begins(&i), false);
    df_thread_join(&t);
    assert_int_equal(answered, true);
    assert_int_equal(told, 0);
}

static void a_message_is_not_tried_if_the_last_idle_worker_gets_another_batch(void **state)
{
    struct df_thread t = {0};

    (void)state;
    uint64_t earlier = import_look_begins(&i);
    begin_try(&t);
    take_batch(true);
    import_look_ended(&i, earlier, true);
    df_thread_join(&t);
    assert_int_equal(answered, false);
    assert_int_equal(told, 1);
    import_batch_ended(&i, false);
    assert_int_equal(told, 2);
    assert_int_equal(announced, 1);
}

static void a_message_that_waits_ends_with_the_process(void **state)
{
    struct df_thread t = {0};

    (void)state;
    begin_try(&t);
    df_lock(&i.lock);
    i.stopping = true;
    pthread_cond_broadcast(&i.changed);
    df_unlock(&i.lock);
    df_thread_join(&t);
    assert_int_equal(answered, false);
}

/* --- waiting --- */

static void an_idle_worker_waits_as_long_as_it_can(void **state)
{
    static const struct {
        const char *what;
        bool connected;
        int64_t scheduled_ms, waiting_ms; /* after now; INT64_MIN: none */
        int64_t away_ms;                  /* until a probe; -1: OmniFlow is there */
        int64_t wait_ms;
    } rows[] = {
        {"nothing", true, INT64_MIN, INT64_MIN, -1, BACKSTOP_MS},
        {"nothing, and no broker", false, INT64_MIN, INT64_MIN, -1, POLL_MS},
        {"scheduled soon", true, 5000, INT64_MIN, -1, 5000},
        {"scheduled soon, and no broker", false, 5000, INT64_MIN, -1, POLL_MS},
        {"scheduled late", true, 2 * BACKSTOP_MS, INT64_MIN, -1, BACKSTOP_MS},
        {"due, and not to be had", true, -1000, INT64_MIN, -1, POLL_MS},
        {"waits for OmniFlow", true, INT64_MIN, -20000, -1, PROBE_MS - 20000},
        {"waits, and OmniFlow is away", true, INT64_MIN, -40000, 7000, 7000},
        {"waits, and was tried", true, INT64_MIN, -1000, 7000, PROBE_MS - 1000},
        {"both", true, 3000, -20000, -1, 3000},
    };

    (void)state;
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        connected = rows[k].connected;
        i.peer.away = rows[k].away_ms >= 0;
        i.peer.probe_at_ms = df_mono_ms(&clock_.base) + rows[k].away_ms;
        import_look_found(
            &i, rows[k].scheduled_ms == INT64_MIN ? -1 : NOW_MS + rows[k].scheduled_ms,
            rows[k].waiting_ms == INT64_MIN ? -1 : NOW_MS + rows[k].waiting_ms, false);
        if (import_idle_ms(&i) != rows[k].wait_ms)
            fail_msg("%s: %lld", rows[k].what, (long long)import_idle_ms(&i));
    }
}

static void a_batch_that_gave_way_is_looked_after(void **state)
{
    (void)state;
    df_fake_clock_advance_ms(&clock_, 100);
    import_batch_ended(&i, true);
    assert_int_equal(import_idle_ms(&i), import_hand_over_ms(&i));
    df_fake_clock_advance_ms(&clock_, import_hand_over_ms(&i));
    assert_int_equal(import_idle_ms(&i), BACKSTOP_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_busy_process_tries_nothing, start, stop),
        cmocka_unit_test_setup_teardown(a_message_is_tried_when_a_later_look_has_ended, start,
                                        stop),
        cmocka_unit_test_setup_teardown(
            a_message_is_not_tried_if_the_last_idle_worker_gets_another_batch, start, stop),
        cmocka_unit_test_setup_teardown(a_message_that_waits_ends_with_the_process, start, stop),
        cmocka_unit_test_setup_teardown(an_idle_worker_waits_as_long_as_it_can, start, stop),
        cmocka_unit_test_setup_teardown(a_batch_that_gave_way_is_looked_after, start, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

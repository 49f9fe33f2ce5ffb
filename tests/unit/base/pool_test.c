/* Threads: their name and signals; pools: everything is worked off once, and the end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/pool.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct look {
    char name[16];
    sigset_t blocked;
};

static void look_at_itself(void *arg)
{
    struct look *l = arg;

    (void)pthread_getname_np(pthread_self(), l->name, sizeof(l->name));
    (void)pthread_sigmask(SIG_SETMASK, NULL, &l->blocked);
}

static void threads_have_a_name_and_no_signals(void **state)
{
    (void)state;
    struct df_thread t = {0};
    struct look l = {0};
    sigset_t before, after;

    (void)pthread_sigmask(SIG_SETMASK, NULL, &before);
    df_thread_start(&t, "a-name-longer-than-fifteen", look_at_itself, &l);
    (void)pthread_sigmask(SIG_SETMASK, NULL, &after);
    df_thread_join(&t);
    assert_string_equal(l.name, "a-name-longer-t");
    assert_true(sigismember(&l.blocked, SIGTERM) && sigismember(&l.blocked, SIGUSR1));
    assert_int_equal(sigismember(&before, SIGTERM), sigismember(&after, SIGTERM));
    df_thread_join(&t); /* and once more */
    df_thread_start(&t, "again", look_at_itself, &l);
    df_thread_join(&t);
    assert_string_equal(l.name, "again");
}

#define ITEMS 5000

struct work {
    _Atomic unsigned seen[ITEMS];
    _Atomic size_t done;
    struct df_mutex gate;
};

static void mark(void *arg, void *item)
{
    struct work *w = arg;

    df_lock(&w->gate);
    df_unlock(&w->gate);
    w->seen[(uintptr_t)item - 1]++;
    w->done++;
}

static void every_item_is_worked_off_once(void **state)
{
    (void)state;
    struct work *w = calloc(1, sizeof(*w));
    struct df_pool p = {0};

    assert_non_null(w);
    df_mutex_init(&w->gate);
    df_pool_start(&p, "pool", 4, ITEMS, mark, w);
    for (uintptr_t i = 1; i <= ITEMS; i++)
        assert_true(df_pool_push(&p, (void *)i));
    df_pool_stop(&p);
    assert_int_equal(w->done, ITEMS);
    for (size_t i = 0; i < ITEMS; i++)
        assert_int_equal(w->seen[i], 1);
    assert_false(df_pool_push(&p, (void *)1));
    df_pool_stop(&p);
    df_pool_release(&p);
    df_pool_release(&p);
    df_mutex_destroy(&w->gate);
    free(w);
}

/* One is with the thread that waits at the gate, or still in the queue: at most three fit. */
static void a_full_pool_refuses_and_what_it_took_is_done(void **state)
{
    (void)state;
    struct work *w = calloc(1, sizeof(*w));
    struct df_pool p = {0};
    uintptr_t taken = 0;

    assert_non_null(w);
    df_mutex_init(&w->gate);
    df_lock(&w->gate);
    df_pool_start(&p, "pool", 1, 2, mark, w);
    while (taken < 10 && df_pool_push(&p, (void *)(taken + 1)))
        taken++;
    assert_true(taken == 2 || taken == 3);
    df_unlock(&w->gate);
    df_pool_release(&p);
    assert_int_equal(w->done, taken);
    df_mutex_destroy(&w->gate);
    free(w);
}

static void a_pool_that_was_never_started_ends(void **state)
{
    (void)state;
    struct df_pool p = {0};

    df_pool_stop(&p);
    df_pool_release(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_have_a_name_and_no_signals),
        cmocka_unit_test(every_item_is_worked_off_once),
        cmocka_unit_test(a_full_pool_refuses_and_what_it_took_is_done),
        cmocka_unit_test(a_pool_that_was_never_started_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

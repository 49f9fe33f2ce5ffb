/* The intrusive list: each operation, a model under random ones, and what aborts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/list.h"
#include "fake_clock.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ITEMS 32

struct item {
    int number;
    struct df_link one;
    struct df_link other;
};

static void assert_items(const struct df_list *l, const int *numbers, size_t count)
{
    const struct item *i;
    size_t n = 0;

    DF_LIST_EACH (i, l, one) {
        assert_true(n < count);
        assert_int_equal(i->number, numbers[n++]);
    }
    assert_int_equal(n, count);
    assert_int_equal(l->count, count);
    assert_null(i);
}

static void items_stand_where_they_were_put(void **state)
{
    (void)state;
    struct item a = {.number = 1}, b = {.number = 2}, c = {.number = 3}, d = {.number = 4};
    struct df_list l = {0};

    assert_items(&l, NULL, 0);
    df_list_add(&l, &b.one);
    df_list_add(&l, &d.one);
    df_list_add_first(&l, &a.one);
    df_list_add_before(&l, &d.one, &c.one);
    assert_items(&l, (const int[]){1, 2, 3, 4}, 4);
    assert_ptr_equal(DF_LIST_NEXT(&b, &l, one), &c);
    assert_null(DF_LIST_NEXT(&d, &l, one));
    df_list_remove(&l, &b.one);
    assert_false(df_link_in_list(&b.one));
    df_list_add_before(&l, NULL, &b.one);
    assert_items(&l, (const int[]){1, 3, 4, 2}, 4);
    assert_ptr_equal(DF_LIST_FIRST(&l, struct item, one), &a);
    assert_ptr_equal(DF_LIST_TAKE(&l, struct item, one), &a);
    assert_items(&l, (const int[]){3, 4, 2}, 3);
}

static void one_link_for_each_list_an_item_is_in(void **state)
{
    (void)state;
    struct item a = {.number = 1}, b = {.number = 2};
    struct df_list l = {0}, other = {0};

    df_list_add(&l, &a.one);
    df_list_add(&l, &b.one);
    df_list_add(&other, &b.other);
    df_list_add(&other, &a.other);
    assert_ptr_equal(DF_LIST_TAKE(&other, struct item, other), &b);
    assert_items(&l, (const int[]){1, 2}, 2);
}

static void the_item_of_a_turn_may_go(void **state)
{
    (void)state;
    struct item items[6];
    struct df_list l = {0};
    struct item *i;

    for (int n = 0; n < 6; n++) {
        items[n] = (struct item){.number = n};
        df_list_add(&l, &items[n].one);
    }
    DF_LIST_EACH (i, &l, one) {
        if (i->number % 2 == 0) {
            df_list_remove(&l, &i->one);
            memset(i, 0xFF, sizeof(*i));
        }
    }
    assert_items(&l, (const int[]){1, 3, 5}, 3);
    DF_LIST_EACH (i, &l, one)
        if (i->number == 3)
            break;
    assert_ptr_equal(i, &items[3]);
}

static void lists_are_moved_whole(void **state)
{
    (void)state;
    struct item a = {.number = 1}, b = {.number = 2}, c = {.number = 3};
    struct df_list l = {0}, from = {0};

    df_list_move(&l, &from);
    assert_items(&l, NULL, 0);
    df_list_add(&from, &b.one);
    df_list_add(&from, &c.one);
    df_list_add(&l, &a.one);
    df_list_move(&l, &from);
    assert_items(&l, (const int[]){1, 2, 3}, 3);
    assert_items(&from, NULL, 0);
    df_list_move(&from, &l);
    assert_items(&from, (const int[]){1, 2, 3}, 3);
    df_list_remove(&from, &c.one);
    df_list_add(&l, &c.one);
    assert_items(&l, (const int[]){3}, 1);
}

/* A model in an array: two lists and what is in neither. */
struct model {
    int numbers[ITEMS];
    size_t count;
};

static void model_put(struct model *m, size_t at, int number)
{
    memmove(m->numbers + at + 1, m->numbers + at, (m->count - at) * sizeof(int));
    m->numbers[at] = number;
    m->count++;
}

static size_t model_find(const struct model *m, int number)
{
    size_t at = 0;
    while (at < m->count && m->numbers[at] != number)
        at++;
    return at;
}

static void model_remove(struct model *m, size_t at)
{
    memmove(m->numbers + at, m->numbers + at + 1, (m->count - at - 1) * sizeof(int));
    m->count--;
}

static void random_step(struct df_fake_clock *f, struct item *items, struct df_list *l,
                        struct model *m)
{
    struct item *i = &items[df_random_below(&f->base, ITEMS)];
    size_t of = df_random_below(&f->base, 2);

    for (size_t k = 0; k < 2; k++) {
        size_t at = model_find(&m[k], i->number);
        assert_int_equal(at < m[k].count || model_find(&m[!k], i->number) < m[!k].count,
                         df_link_in_list(&i->one));
        if (at == m[k].count)
            continue;
        df_list_remove(&l[k], &i->one);
        model_remove(&m[k], at);
        return;
    }
    switch (df_random_below(&f->base, 4)) {
    case 0:
        df_list_add(&l[of], &i->one);
        model_put(&m[of], m[of].count, i->number);
        break;
    case 1:
        df_list_add_first(&l[of], &i->one);
        model_put(&m[of], 0, i->number);
        break;
    case 2: {
        size_t at = df_random_below(&f->base, m[of].count + 1);
        df_list_add_before(&l[of], at < m[of].count ? &items[m[of].numbers[at]].one : NULL,
                           &i->one);
        model_put(&m[of], at, i->number);
        break;
    }
    default:
        df_list_move(&l[of], &l[!of]);
        memcpy(m[of].numbers + m[of].count, m[!of].numbers, m[!of].count * sizeof(int));
        m[of].count += m[!of].count;
        m[!of].count = 0;
    }
}

static void random_operations_agree_with_a_model(void **state)
{
    (void)state;
    struct df_fake_clock f;
    struct item items[ITEMS];
    struct df_list l[2] = {{.count = 0}};
    struct model m[2] = {{.count = 0}};

    df_fake_clock_init(&f, 0, 3);
    for (int n = 0; n < ITEMS; n++)
        items[n] = (struct item){.number = n};
    for (size_t step = 0; step < 20000; step++) {
        random_step(&f, items, l, m);
        assert_items(&l[0], m[0].numbers, m[0].count);
        assert_items(&l[1], m[1].numbers, m[1].count);
    }
}

static void add_twice(void)
{
    struct item a = {.number = 1};
    struct df_list l = {0}, other = {0};
    df_list_add(&l, &a.one);
    df_list_add(&other, &a.one);
}

static void remove_twice(void)
{
    struct item a = {.number = 1}, b = {.number = 2};
    struct df_list l = {0};
    df_list_add(&l, &a.one);
    df_list_add(&l, &b.one);
    df_list_remove(&l, &a.one);
    df_list_remove(&l, &a.one);
}

static void use_after_copy(void)
{
    struct item a = {.number = 1}, b = {.number = 2};
    struct df_list l = {0};
    df_list_add(&l, &a.one);
    struct df_list copy = l;
    df_list_add(&copy, &b.one);
}

static void misuse_aborts(void **state)
{
    (void)state;
    void (*const misuses[])(void) = {add_twice, remove_twice, use_after_copy};

    for (size_t i = 0; i < sizeof(misuses) / sizeof(misuses[0]); i++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            (void)signal(SIGABRT, SIG_DFL);
            (void)close(STDERR_FILENO); /* assert's line is no news */
            misuses[i]();
            _exit(0);
        }
        int status = 0;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_stand_where_they_were_put),
        cmocka_unit_test(one_link_for_each_list_an_item_is_in),
        cmocka_unit_test(the_item_of_a_turn_may_go),
        cmocka_unit_test(lists_are_moved_whole),
        cmocka_unit_test(random_operations_agree_with_a_model),
        cmocka_unit_test(misuse_aborts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The hash table: a model under random operations, walking and removing, and its edges. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/map.h"
#include "fake_clock.h"

#include <stdio.h>
#include <stdlib.h>

#define KEYS 2000

struct item {
    char key[24];
    size_t len;
    bool in;
    uint64_t order; /* of adding */
    bool met;
};

static struct df_str key_of(const struct item *i)
{
    return df_str_n(i->key, i->len);
}

static struct item *make_items(void)
{
    struct item *items = calloc(KEYS, sizeof(*items));

    assert_non_null(items);
    for (size_t i = 0; i < KEYS; i++) /* of many lengths, and bytes that are no text */
        items[i].len = (size_t)snprintf(items[i].key, sizeof(items[i].key), "%.*s%zu%c",
                                        (int)(i % 14), "long-long-long", i, (int)(i % 3));
    return items;
}

static void an_empty_table_has_nothing(void **state)
{
    (void)state;
    struct df_map m = {0};
    size_t at = 0;

    assert_null(df_map_get(&m, DF_STR("x")));
    assert_null(df_map_remove(&m, DF_STR("x")));
    assert_null(df_map_next(&m, &at));
    df_map_release(&m);
    df_map_release(&m);
}

static void keys_are_bytes(void **state)
{
    (void)state;
    int a, b, c, d;
    struct df_map m = {0};

    df_map_add(&m, DF_STR(""), &a);
    df_map_add(&m, df_str_n("x\0y", 3), &b);
    df_map_add(&m, df_str_n("x\0z", 3), &c);
    df_map_add(&m, DF_STR("x"), &d);
    assert_ptr_equal(df_map_get(&m, DF_STR("")), &a);
    assert_ptr_equal(df_map_get(&m, DF_STR_NULL), &a);
    assert_ptr_equal(df_map_get(&m, df_str_n("x\0y", 3)), &b);
    assert_ptr_equal(df_map_get(&m, df_str_n("x\0z", 3)), &c);
    assert_ptr_equal(df_map_get(&m, DF_STR("x")), &d);
    assert_null(df_map_get(&m, df_str_n("x\0", 2)));
    assert_ptr_equal(df_map_try_add(&m, DF_STR("x"), &a), &d);
    assert_ptr_equal(df_map_get(&m, DF_STR("x")), &d);
    assert_null(df_map_try_add(&m, DF_STR("y"), &a));
    df_map_release(&m);
    assert_null(df_map_get(&m, DF_STR("x")));
}

static void check_walk(struct df_map *m, struct item *items, size_t count)
{
    struct item *i;
    uint64_t last = 0;
    size_t met = 0;

    for (size_t at = 0; (i = df_map_next(m, &at)); met++) {
        assert_true(i->in && i->order > last); /* so that none comes twice */
        last = i->order;
    }
    assert_int_equal(met, count);
    assert_int_equal(m->count, count);
    for (size_t k = 0; k < KEYS; k++)
        assert_ptr_equal(df_map_get(m, key_of(&items[k])), items[k].in ? &items[k] : NULL);
}

/* Phases in which adding or removing prevails: the table grows, empties and is compacted. */
static void random_operations_agree_with_a_model(void **state)
{
    (void)state;
    struct df_fake_clock f;
    struct item *items = make_items();
    struct df_map m = {0};
    size_t count = 0;
    uint64_t order = 0;

    df_fake_clock_init(&f, 0, 11);
    for (size_t step = 1; step <= 60000; step++) {
        struct item *i = &items[df_random_below(&f.base, KEYS)];
        bool adds = df_random_below(&f.base, 10) < (step / 10000 % 2 == 0 ? 8 : 2);
        if (adds && !i->in) {
            df_map_add(&m, key_of(i), i);
            i->in = true;
            i->order = ++order;
            count++;
        } else if (!adds) {
            assert_ptr_equal(df_map_remove(&m, key_of(i)), i->in ? i : NULL);
            count -= i->in;
            i->in = false;
        }
        assert_ptr_equal(df_map_get(&m, key_of(i)), i->in ? i : NULL);
        if (step % 5000 == 0)
            check_walk(&m, items, count);
    }
    df_map_release(&m);
    free(items);
}

static void what_is_removed_while_walking_is_not_met(void **state)
{
    (void)state;
    struct df_fake_clock f;
    struct item *items = make_items();
    struct item *i;
    struct df_map m = {0};
    size_t met = 0, gone = 0;

    df_fake_clock_init(&f, 0, 5);
    for (size_t k = 0; k < KEYS; k++) {
        items[k].in = true;
        df_map_add(&m, key_of(&items[k]), &items[k]);
    }
    for (size_t at = 0; (i = df_map_next(&m, &at)); met++) {
        assert_true(i->in && !i->met);
        i->met = true;
        struct item *victim = met % 2 ? i : &items[df_random_below(&f.base, KEYS)];
        if (df_map_remove(&m, key_of(victim))) {
            gone += !victim->met;
            victim->in = false;
        }
    }
    assert_true(gone > 0);
    assert_int_equal(met + gone, KEYS);
    df_map_release(&m);
    free(items);
}

/* One comes, one goes: the table does not grow with what has been. */
static void churn_does_not_grow_the_table(void **state)
{
    (void)state;
    struct item *items = make_items();
    struct df_map m = {0};

    for (size_t k = 0; k < 10 * KEYS; k++) {
        df_map_add(&m, key_of(&items[k % KEYS]), &items[k % KEYS]);
        if (k >= 3)
            assert_non_null(df_map_remove(&m, key_of(&items[(k - 3) % KEYS])));
    }
    assert_int_equal(m.count, 3);
    assert_true(m.slot_mask + 1 <= 32);
    df_map_release(&m);
    free(items);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_table_has_nothing),
        cmocka_unit_test(keys_are_bytes),
        cmocka_unit_test(random_operations_agree_with_a_model),
        cmocka_unit_test(what_is_removed_while_walking_is_not_met),
        cmocka_unit_test(churn_does_not_grow_the_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* buf.h, arena.h, mem.h and secret.h */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/mem.h"
#include "base/secret.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void a_buffer_collects_what_is_added(void **state)
{
    struct df_buf b;
    (void)state;

    df_buf_init(&b, 1000);
    assert_string_equal(df_buf_str(&b).ptr, "");
    df_buf_addz(&b, "a");
    df_buf_adds(&b, DF_STR("bc"));
    df_buf_adds(&b, DF_STR_NULL);
    df_buf_addc(&b, '-');
    df_buf_addf(&b, "%s:%d", "x", 7);
    df_buf_add_i64(&b, INT64_MIN);
    df_buf_add_i64(&b, 0);
    assert_string_equal(df_buf_str(&b).ptr, "abc-x:7-92233720368547758080");
    assert_int_equal(df_buf_str(&b).len, strlen(b.ptr));
    assert_false(df_buf_failed(&b));
    df_buf_reset(&b);
    assert_string_equal(df_buf_str(&b).ptr, "");
    df_buf_release(&b);
    df_buf_release(&b);
}

static void a_buffer_keeps_what_it_had_when_the_maximum_is_passed(void **state)
{
    struct df_buf b;
    (void)state;

    df_buf_init(&b, 5);
    df_buf_addz(&b, "12345");
    assert_false(df_buf_failed(&b));
    df_buf_addc(&b, '6');
    assert_true(df_buf_failed(&b));
    df_buf_addf(&b, "%d", 7);
    assert_null(df_buf_grow(&b, 0));
    assert_string_equal(df_buf_str(&b).ptr, "12345");
    df_buf_reset(&b);
    df_buf_addf(&b, "%s", "123456");
    assert_true(df_buf_failed(&b));
    assert_string_equal(df_buf_str(&b).ptr, "");
    df_buf_reset(&b);
    df_buf_addf(&b, "%s", "54321");
    assert_false(df_buf_failed(&b));
    assert_string_equal(df_buf_str(&b).ptr, "54321");
    df_buf_release(&b);

    df_buf_init(&b, SIZE_MAX);
    assert_null(df_buf_grow(&b, SIZE_MAX));
    assert_true(df_buf_failed(&b));
    df_buf_release(&b);
}

static void formatted_text_is_never_half_there(void **state)
{
    char text[600];
    (void)state;

    memset(text, 't', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    for (size_t max = 0; max < 700; max += 7) {
        struct df_buf b;
        df_buf_init(&b, max);
        df_buf_addf(&b, "%.10s", text);
        size_t before = b.len;
        df_buf_addf(&b, "%s", text);
        assert_int_equal(b.len, before + (before + 599 <= max && before == 10 ? 599 : 0));
        assert_int_equal(strlen(df_buf_str(&b).ptr), b.len);
        df_buf_release(&b);
    }
}

static void grown_room_counts_when_it_is_told(void **state)
{
    struct df_buf b;
    (void)state;

    df_buf_init(&b, 100000);
    for (int i = 0; i < 100; i++) {
        char *to = df_buf_grow(&b, 500);
        assert_non_null(to);
        memset(to, 'a' + i % 26, 500);
        df_buf_grown(&b, 300);
    }
    df_buf_grown(&b, 0);
    assert_int_equal(b.len, 30000);
    assert_int_equal(b.ptr[301], 'b');
    assert_int_equal(b.ptr[30000], '\0');

    size_t len;
    char *taken = df_buf_take(&b, &len);
    assert_int_equal(len, 30000);
    free(taken);
    assert_int_equal(df_buf_str(&b).len, 0);
    taken = df_buf_take(&b, &len);
    assert_string_equal(taken, "");
    assert_int_equal(len, 0);
    free(taken);
}

static void arena_memory_is_aligned_and_does_not_overlap(void **state)
{
    struct df_arena a;
    unsigned char *all[2000];
    (void)state;

    df_arena_init(&a);
    for (int round = 0; round < 3; round++) {
        size_t total = 0;
        for (size_t i = 0; i < 2000; i++) {
            size_t size = i % 97 == 0 ? 30000 : i % 61;
            all[i] = df_arena_alloc(&a, size);
            assert_int_equal((uintptr_t)all[i] % 16, 0);
            memset(all[i], (int)(i & 0xFF), size);
            total += size;
        }
        assert_int_equal(a.used_bytes, total);
        for (size_t i = 0; i < 2000; i++) {
            size_t size = i % 97 == 0 ? 30000 : i % 61;
            for (size_t j = 0; j < size; j++)
                assert_int_equal(all[i][j], i & 0xFF);
        }
        df_arena_reset(&a);
        assert_int_equal(a.used_bytes, 0);
    }
    df_arena_release(&a);
    df_arena_release(&a);
}

static void a_zeroed_arena_works_and_gives_zeroed_memory(void **state)
{
    struct df_arena a = {0};
    (void)state;

    df_arena_reset(&a);
    /* Large first, then small, with dirt from the round before. */
    for (int round = 0; round < 2; round++) {
        memset(df_arena_alloc(&a, 1000), 0xFF, 1000);
        memset(df_arena_alloc(&a, 100000), 0xFF, 100000);
        df_arena_reset(&a);
        const char *large = df_arena_zalloc(&a, 100000);
        const uint64_t *array = DF_ARENA_ARRAY(&a, uint64_t, 100);
        for (size_t i = 0; i < 100000; i++)
            assert_int_equal(large[i], 0);
        for (size_t i = 0; i < 100; i++)
            assert_int_equal(array[i], 0);
    }
    assert_non_null(df_arena_alloc(&a, 0));
    df_arena_release(&a);
}

static void arena_copies_end_with_a_nul_and_absent_stays_absent(void **state)
{
    struct df_arena a;
    char longer[1000];
    (void)state;

    df_arena_init(&a);
    struct df_str copy = df_arena_str(&a, df_str_n("abcdef", 3));
    assert_int_equal(copy.len, 3);
    assert_string_equal(copy.ptr, "abc");
    assert_string_equal(df_arena_cstr(&a, DF_STR("")), "");
    assert_null(df_arena_str(&a, DF_STR_NULL).ptr);
    assert_null(df_arena_cstr(&a, DF_STR_NULL));

    struct df_str text = df_arena_printf(&a, "%s-%d", "x", 5);
    assert_int_equal(text.len, 3);
    assert_string_equal(text.ptr, "x-5");
    memset(longer, 'l', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    text = df_arena_printf(&a, "%s!", longer);
    assert_int_equal(text.len, sizeof(longer));
    assert_int_equal(text.ptr[sizeof(longer) - 1], '!');
    df_arena_release(&a);
}

static void a_product_that_overflows_aborts(void **state)
{
    int status;
    (void)state;

    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct df_arena a = {0};
        volatile size_t count = SIZE_MAX / 8 + 2;
        dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), 2);
        (void)DF_ARENA_ARRAY(&a, uint64_t, count);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

static void plain_allocations_are_never_null(void **state)
{
    (void)state;
    void *p = df_malloc(0);
    assert_non_null(p);
    p = df_realloc(p, 10);
    free(p);
    p = df_calloc(0, 8);
    assert_non_null(p);
    free(p);
    assert_null(df_strdup(DF_STR_NULL));
    char *copy = df_strdup(df_str_n("abc", 2));
    assert_string_equal(copy, "ab");
    free(copy);
}

static void a_secret_matches_itself_and_nothing_else(void **state)
{
    static const char *const others[] = {"", "correct hors", "correct horse ", "Correct horse",
                                         "x"};
    (void)state;

    struct df_secret *s = df_secret_new(DF_STR("correct horse"));
    assert_true(df_str_eq(df_secret_str(s), DF_STR("correct horse")));
    assert_int_equal(df_secret_str(s).ptr[13], '\0');
    assert_true(df_secret_matches(s, DF_STR("correct horse")));
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        assert_false(df_secret_matches(s, df_str_c(others[i])));
    assert_false(df_secret_matches(s, DF_STR_NULL));
    assert_false(df_secret_matches(NULL, DF_STR("correct horse")));
    df_secret_free(s);

    s = df_secret_new(DF_STR(""));
    assert_non_null(s);
    assert_false(df_secret_matches(s, DF_STR("")));
    df_secret_free(s);
    assert_null(df_secret_new(DF_STR_NULL));
    assert_null(df_secret_str(NULL).ptr);
    df_secret_free(NULL);
}

static void secrets_of_every_length_fit(void **state)
{
    char text[100];
    (void)state;

    memset(text, 's', sizeof(text));
    for (size_t len = 0; len <= sizeof(text); len++) {
        struct df_secret *s = df_secret_new(df_str_n(text, len));
        assert_true(df_str_eq(df_secret_str(s), df_str_n(text, len)));
        df_secret_free(s);
    }
}

static void bytes_are_compared_and_wiped(void **state)
{
    char a[] = "0123456789";
    char b[] = "0123456780";
    (void)state;

    assert_true(df_bytes_equal(a, b, 9));
    assert_false(df_bytes_equal(a, b, 10));
    assert_true(df_bytes_equal(NULL, NULL, 0));
    df_wipe(a, sizeof(a));
    for (size_t i = 0; i < sizeof(a); i++)
        assert_int_equal(a[i], 0);
    df_wipe(NULL, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_buffer_collects_what_is_added),
        cmocka_unit_test(a_buffer_keeps_what_it_had_when_the_maximum_is_passed),
        cmocka_unit_test(formatted_text_is_never_half_there),
        cmocka_unit_test(grown_room_counts_when_it_is_told),
        cmocka_unit_test(arena_memory_is_aligned_and_does_not_overlap),
        cmocka_unit_test(a_zeroed_arena_works_and_gives_zeroed_memory),
        cmocka_unit_test(arena_copies_end_with_a_nul_and_absent_stays_absent),
        cmocka_unit_test(a_product_that_overflows_aborts),
        cmocka_unit_test(plain_allocations_are_never_null),
        cmocka_unit_test(a_secret_matches_itself_and_nothing_else),
        cmocka_unit_test(secrets_of_every_length_fit),
        cmocka_unit_test(bytes_are_compared_and_wiped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

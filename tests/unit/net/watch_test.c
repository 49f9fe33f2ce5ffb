/* When a change of files counts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "net/watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char dir[] = "/tmp/df-watch-XXXXXX";
static char cert[64], key[64], other[64];

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void a_change_counts_once_all_files_have_settled(void **state)
{
    struct df_watch w;
    (void)state;

    write_file(cert, "1");
    write_file(key, "1");
    df_watch_init(&w, cert, key, NULL);
    assert_false(df_watch_changed(&w, false));
    write_file(cert, "22");
    assert_false(df_watch_changed(&w, false)); /* it may still be written */
    write_file(key, "22");
    assert_false(df_watch_changed(&w, false)); /* the pair was not complete at the last look */
    assert_true(df_watch_changed(&w, false));
    assert_false(df_watch_changed(&w, false)); /* once */
}

static void a_replaced_and_a_removed_file_are_changes(void **state)
{
    struct df_watch w;
    (void)state;

    write_file(cert, "1");
    write_file(other, "1");
    df_watch_init(&w, cert, NULL, NULL);
    assert_int_equal(rename(other, cert), 0);
    assert_false(df_watch_changed(&w, false));
    assert_true(df_watch_changed(&w, false));
    assert_int_equal(unlink(cert), 0);
    assert_false(df_watch_changed(&w, false));
    assert_true(df_watch_changed(&w, false));
}

static void whoever_asks_now_waits_for_nothing(void **state)
{
    struct df_watch w;
    (void)state;

    write_file(cert, "1");
    df_watch_init(&w, cert, key, NULL);
    assert_true(df_watch_changed(&w, true));
    write_file(cert, "333");
    assert_true(df_watch_changed(&w, true));
    assert_false(df_watch_changed(&w, false)); /* that change was taken */
}

static int make_directory(void **state)
{
    (void)state;
    if (!mkdtemp(dir))
        return -1;
    (void)snprintf(cert, sizeof(cert), "%s/cert", dir);
    (void)snprintf(key, sizeof(key), "%s/key", dir);
    (void)snprintf(other, sizeof(other), "%s/other", dir);
    return 0;
}

static int remove_directory(void **state)
{
    (void)state;
    (void)unlink(cert);
    (void)unlink(key);
    (void)unlink(other);
    return rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_change_counts_once_all_files_have_settled),
        cmocka_unit_test(a_replaced_and_a_removed_file_are_changes),
        cmocka_unit_test(whoever_asks_now_waits_for_nothing),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}

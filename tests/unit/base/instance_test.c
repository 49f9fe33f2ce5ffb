/* Which processes are gone, by their lock files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/instance.h"
#include "scratch.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[64];

static int setup(void **state)
{
    (void)state;
    (void)snprintf(dir, sizeof(dir), "%s/dataflow-test-XXXXXX", scratch_dir());
    return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
    char path[128];
    (void)state;
    (void)snprintf(path, sizeof(path), "%s/data/instances", dir);
    (void)rmdir(path);
    (void)snprintf(path, sizeof(path), "%s/data", dir);
    (void)rmdir(path);
    return rmdir(dir);
}

static const char *data_dir(void)
{
    static char path[80];
    (void)snprintf(path, sizeof(path), "%s/data", dir);
    return path;
}

static const char *file_of(const struct df_uuid *id)
{
    static char path[192];
    (void)snprintf(path, sizeof(path), "%s/instances/%s", data_dir(), id->text);
    return path;
}

static bool exists(const struct df_uuid *id)
{
    return access(file_of(id), F_OK) == 0;
}

/* A file as a process leaves it that was killed, two minutes ago. */
static void leave_file(const struct df_uuid *id)
{
    struct timespec then[2];
    int fd = open(file_of(id), O_CREAT | O_EXCL | O_RDWR, 0600);
    assert_true(fd >= 0);
    clock_gettime(CLOCK_REALTIME, &then[0]);
    then[0].tv_sec -= 120;
    then[1] = then[0];
    assert_int_equal(futimens(fd, then), 0);
    (void)close(fd);
}

static void a_process_is_gone_when_nobody_holds_its_file(void **state)
{
    struct df_uuid never = df_uuid_v4(df_clock_real()), dead = df_uuid_v4(df_clock_real());

    (void)state;
    struct df_instance *a = df_instance_hold(data_dir(), df_clock_real());
    struct df_instance *b = df_instance_hold(data_dir(), df_clock_real());
    assert_string_not_equal(a->id.text, b->id.text);
    assert_false(df_instance_is_gone(a, &b->id));
    assert_false(df_instance_is_gone(a, &a->id));
    assert_false(df_instance_is_gone(a, &never)); /* another directory: not known */
    leave_file(&dead);
    assert_true(df_instance_is_gone(a, &dead));
    assert_true(df_instance_is_gone(a, &dead)); /* looking does not make it alive */
    assert_int_equal(unlink(file_of(&dead)), 0);

    struct df_uuid id = b->id;
    df_instance_drop(b);
    assert_false(exists(&id));
    assert_false(df_instance_is_gone(a, &id));
    df_instance_drop(a);
    df_instance_drop(NULL);
}

static bool is_needed(void *arg, const struct df_uuid *id)
{
    return strcmp(((const struct df_uuid *)arg)->text, id->text) == 0;
}

static void the_sweep_leaves_what_is_alive_needed_or_young(void **state)
{
    struct df_uuid old = df_uuid_v4(df_clock_real()), needed = df_uuid_v4(df_clock_real());
    struct df_uuid young = df_uuid_v4(df_clock_real());

    (void)state;
    struct df_instance *a = df_instance_hold(data_dir(), df_clock_real());
    leave_file(&old);
    leave_file(&needed);
    leave_file(&young);
    assert_int_equal(utimensat(AT_FDCWD, file_of(&young), NULL, 0), 0);
    df_instance_sweep(a, is_needed, &needed);
    assert_false(exists(&old));
    assert_true(exists(&needed) && exists(&young) && exists(&a->id));
    assert_int_equal(unlink(file_of(&needed)), 0);
    assert_int_equal(unlink(file_of(&young)), 0);
    df_instance_drop(a);
}

static void a_directory_that_cannot_be_made_is_survived(void **state)
{
    (void)state;
    struct df_instance *a = df_instance_hold("/proc/nowhere", df_clock_real());
    assert_int_equal(a->fd, -1);
    assert_false(df_instance_is_gone(a, &a->id));
    df_instance_sweep(a, is_needed, &a->id);
    df_instance_drop(a);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_process_is_gone_when_nobody_holds_its_file),
        TEST(the_sweep_leaves_what_is_alive_needed_or_young),
        TEST(a_directory_that_cannot_be_made_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The spool: whatever is cut off, damaged or lost, every line that is whole is read, once, in
 * order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "fake_clock.h"
#include "ship/spool.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOW_MS INT64_C(1794712565123)
#define MIB    (INT64_C(1) << 20)
#define HOUR   INT64_C(3600000)

static struct df_fake_clock now;
static char directory[64];
static struct df_err err;

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st;
    (void)kind;
    (void)ftw;
    return remove(path);
}

static int make_directory(void **state)
{
    (void)state;
    df_fake_clock_init(&now, NOW_MS, 1);
    /* In memory, if there is such a place: a busy disk takes long to sync. */
    (void)snprintf(directory, sizeof(directory), "%s/spool_test.XXXXXX",
                   access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    assert_non_null(mkdtemp(directory));
    return 0;
}

static int remove_directory(void **state)
{
    (void)state;
    return nftw(directory, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static struct df_spool *open_spool(int64_t max_bytes)
{
    struct df_spool *s = NULL;
    const struct df_spool_options opt = {.directory = directory,
                                         .max_bytes = max_bytes,
                                         .max_age_ms = 72 * HOUR,
                                         .clock = &now.base};

    assert_int_equal(df_spool_open(&opt, &s, &err), DF_OK);
    return s;
}

static void add_line(struct df_spool *s, int number)
{
    char text[64];
    int len = snprintf(text, sizeof(text), "{\"line\":%d}", number);

    df_spool_add(s, df_wall_ms(&now.base) * 1000000 + number, DF_LOG_INFO,
                 df_str_n(text, (size_t)len));
}

static void add_lines(struct df_spool *s, int from, int to)
{
    for (int i = from; i < to; i++)
        add_line(s, i);
    assert_int_equal(df_spool_write(s, &err), DF_OK);
}

struct seen {
    int numbers[100000];
    size_t count, limit;
};
static struct seen seen;

static bool take_number(void *arg, const struct df_spool_record *r)
{
    (void)arg;
    if (seen.count == seen.limit)
        return false;
    assert_true(df_str_starts(r->text, DF_STR("{\"line\":")));
    seen.numbers[seen.count++] = atoi(r->text.ptr + 8);
    return true;
}

/* Reads up to `limit` lines in one go; false: nothing. */
static bool read_some(struct df_spool *s, size_t limit, struct df_spool_at *ret_end)
{
    struct df_spool_owner owner;

    seen.count = 0;
    seen.limit = limit;
    return df_spool_read(s, take_number, NULL, &owner, ret_end);
}

/* Everything, in batches of `limit`. */
static size_t read_all(struct df_spool *s, size_t limit, int *out)
{
    struct df_spool_at end;
    size_t total = 0;

    while (read_some(s, limit, &end)) {
        assert_true(seen.count > 0);
        memcpy(out + total, seen.numbers, seen.count * sizeof(int));
        total += seen.count;
        df_spool_done(s, end);
    }
    assert_int_equal(df_spool_lines(s), 0);
    return total;
}

static int got[100000];

static void expect_range(struct df_spool *s, size_t limit, int from, int to)
{
    size_t n = read_all(s, limit, got);

    assert_int_equal(n, to - from);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(got[i], from + (int)i);
}

/* The process is gone, without any goodbye: its descriptors are closed and nothing else is done. A
 * child does it, so that its locks go as those of a process do. */
static void in_a_process_that_dies(void (*run)(void *arg), void *arg)
{
    (void)fake_next(&now); /* a child names its folder by what comes next */
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        run(arg);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* The only folder's only file that ends so. */
static void find_file(const char *suffix, char out[512])
{
    DIR *dir = opendir(directory);
    bool found = false;

    assert_non_null(dir);
    for (const struct dirent *e; (e = readdir(dir));) {
        char path[300];
        if (e->d_name[0] == '.')
            continue;
        (void)snprintf(path, sizeof(path), "%s/%.200s", directory, e->d_name);
        DIR *inner = opendir(path);
        assert_non_null(inner);
        for (const struct dirent *f; (f = readdir(inner));) {
            if (!df_str_ends(df_str_c(f->d_name), df_str_c(suffix)))
                continue;
            (void)snprintf(out, 512, "%s/%.200s", path, f->d_name);
            found = true;
        }
        closedir(inner);
    }
    closedir(dir);
    assert_true(found);
}

static size_t count_folders(void)
{
    DIR *dir = opendir(directory);
    size_t n = 0;

    for (const struct dirent *e; (e = readdir(dir));)
        n += e->d_name[0] != '.';
    closedir(dir);
    return n;
}

/* --- tests --- */

static void lines_come_back_in_order(void **state)
{
    (void)state;
    struct df_spool *s = open_spool(MIB);
    add_lines(s, 0, 1000);
    assert_int_equal(df_spool_lines(s), 1000);
    expect_range(s, 77, 0, 1000);
    add_lines(s, 1000, 1001);
    expect_range(s, 10, 1000, 1001);
    df_spool_close(s);
    assert_int_equal(count_folders(), 0);
}

static void what_was_read_and_not_done_is_read_again(void **state)
{
    (void)state;
    struct df_spool_at end;
    struct df_spool *s = open_spool(MIB);
    add_lines(s, 0, 10);
    assert_true(read_some(s, 4, &end));
    assert_int_equal(df_spool_lines(s), 10);
    df_spool_close(s); /* the cursor has not moved */
    s = open_spool(MIB);
    assert_int_equal(df_spool_adopt(s), 10);
    assert_true(read_some(s, 4, &end));
    df_spool_done(s, end);
    df_spool_close(s);
    s = open_spool(MIB);
    assert_int_equal(df_spool_adopt(s), 6);
    expect_range(s, 100, 4, 10);
    df_spool_close(s);
    assert_int_equal(count_folders(), 0);
}

static void write_and_die(void *arg)
{
    add_lines(open_spool(MIB), 0, *(int *)arg);
}

static void a_folder_of_a_dead_process_is_adopted_and_of_a_living_one_not(void **state)
{
    (void)state;
    int n = 20;
    struct df_spool *alive = open_spool(MIB), *s = open_spool(MIB);
    add_lines(alive, 500, 510);
    in_a_process_that_dies(write_and_die, &n);
    assert_int_equal(count_folders(), 3);
    assert_int_equal(df_spool_adopt(s), 20);
    assert_int_equal(df_spool_adopt(s), 0);
    add_lines(s, 20, 30);
    expect_range(s, 7, 0, 30); /* those before its own */
    assert_int_equal(count_folders(), 2);
    expect_range(alive, 100, 500, 510);
    df_spool_close(alive);
    df_spool_close(s);
    assert_int_equal(count_folders(), 0);
}

/* Whatever a power cut leaves of the last bytes. */
static void a_torn_tail_is_cut_at_every_byte(void **state)
{
    (void)state;
    enum { LINES = 5 };
    const size_t record = DF_SPOOL_HEAD + sizeof("{\"line\":0}") - 1;
    int n = LINES;
    for (size_t size = 0; size <= LINES * record; size++) {
        char path[512];
        in_a_process_that_dies(write_and_die, &n);
        find_file(".log", path);
        assert_int_equal(truncate(path, (off_t)size), 0);
        struct df_spool *s = open_spool(MIB);
        size_t whole = size / record;
        assert_int_equal(df_spool_adopt(s), whole);
        expect_range(s, 100, 0, (int)whole);
        uint64_t damaged = whole > 0 && size % record > 0;
        assert_int_equal(df_spool_lost(s, DF_SPOOL_DAMAGED).lines, damaged);
        df_spool_close(s);
        assert_int_equal(count_folders(), 0);
    }
}

/* Each byte in turn has another value: only its own line is lost. */
static void a_damaged_byte_costs_its_line_alone(void **state)
{
    (void)state;
    enum { LINES = 4 };
    const size_t record = DF_SPOOL_HEAD + sizeof("{\"line\":0}") - 1;
    int n = LINES;
    for (size_t at = 0; at < LINES * record; at++) {
        char path[512], byte;
        in_a_process_that_dies(write_and_die, &n);
        find_file(".log", path);
        int fd = open(path, O_RDWR);
        assert_int_equal(pread(fd, &byte, 1, (off_t)at), 1);
        byte = (char)(byte ^ 0x41);
        assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
        close(fd);
        struct df_spool *s = open_spool(MIB);
        assert_int_equal(df_spool_adopt(s), LINES - 1);
        assert_int_equal(read_all(s, 2, got), LINES - 1);
        for (size_t i = 0, want = 0; i < LINES - 1; i++, want++) {
            want += want == at / record;
            assert_int_equal(got[i], want);
        }
        assert_int_equal(df_spool_lost(s, DF_SPOOL_DAMAGED).lines, 1);
        df_spool_close(s);
    }
}

static void read_half_and_die(void *arg)
{
    struct df_spool_at end;
    struct df_spool *s = open_spool(MIB);

    (void)arg;
    add_lines(s, 0, 10);
    assert_true(read_some(s, 5, &end));
    df_spool_done(s, end);
}

static void a_cursor_that_is_damaged_makes_lines_come_again(void **state)
{
    (void)state;
    struct stat st;
    char path[512];
    in_a_process_that_dies(read_half_and_die, NULL);
    find_file("cursor", path);
    assert_int_equal(stat(path, &st), 0);
    for (off_t size = 0; size <= st.st_size; size++) {
        assert_int_equal(truncate(path, size), 0);
        struct df_spool *s = open_spool(MIB);
        bool whole = size == st.st_size;
        assert_int_equal(df_spool_adopt(s), whole ? 5 : 10);
        expect_range(s, 100, whole ? 5 : 0, 10);
        df_spool_close(s);
        in_a_process_that_dies(read_half_and_die, NULL);
        find_file("cursor", path);
    }
    assert_int_equal(unlink(path), 0);
    struct df_spool *s = open_spool(MIB);
    assert_int_equal(df_spool_adopt(s), 10);
    df_spool_close(s);
}

static void a_full_spool_drops_its_oldest_and_counts_them(void **state)
{
    (void)state;
    struct df_spool *s = open_spool(MIB);
    for (int i = 0; i < 40; i++)
        add_lines(s, i * 1000, (i + 1) * 1000);
    assert_true(df_spool_bytes(s) <= (uint64_t)MIB);
    struct df_spool_count lost = df_spool_lost(s, DF_SPOOL_FULL);
    assert_true(lost.lines > 1000 && lost.bytes > lost.lines);
    assert_int_equal(df_spool_lines(s), 40000 - lost.lines);
    expect_range(s, 4096, (int)lost.lines, 40000);
    assert_true(df_spool_bytes(s) < 100000);
    df_spool_close(s);
}

/* Lines in hand were copied by their reader: they are not lost with their segment. */
static void lines_in_hand_are_not_lost(void **state)
{
    (void)state;
    struct df_spool_at end;
    struct df_spool *s = open_spool(MIB);
    add_lines(s, 0, 1000);
    assert_true(read_some(s, 1000, &end));
    for (int i = 1; i < 40; i++)
        add_lines(s, i * 1000, (i + 1) * 1000);
    uint64_t lost = df_spool_lost(s, DF_SPOOL_FULL).lines;
    assert_true(lost > 0);
    df_spool_done(s, end);
    expect_range(s, 4096, 1000 + (int)lost, 40000);
    df_spool_close(s);
}

static void what_is_left_by_others_counts_for_the_limit(void **state)
{
    (void)state;
    int n = 15000; /* half a MiB each */
    for (int i = 0; i < 4; i++)
        in_a_process_that_dies(write_and_die, &n);
    struct df_spool *s = open_spool(MIB);
    (void)df_spool_adopt(s);
    assert_true(df_spool_bytes(s) <= (uint64_t)MIB);
    assert_int_equal(df_spool_lines(s) + df_spool_lost(s, DF_SPOOL_FULL).lines, 60000);
    assert_int_equal(read_all(s, 4096, got), 60000 - df_spool_lost(s, DF_SPOOL_FULL).lines);
    assert_int_equal(count_folders(), 1);
    df_spool_close(s);
}

static void old_lines_go_and_young_ones_stay(void **state)
{
    (void)state;
    struct df_spool *s = open_spool(MIB);
    add_lines(s, 0, 10);
    assert_int_equal(df_spool_oldest_ns(s), NOW_MS * 1000000);
    df_fake_clock_advance_ms(&now, 2 * HOUR);
    add_lines(s, 10, 20); /* into another segment */
    df_fake_clock_advance_ms(&now, 70 * HOUR + 1);
    df_spool_age(s);
    assert_int_equal(df_spool_lost(s, DF_SPOOL_OLD).lines, 10);
    expect_range(s, 100, 10, 20);
    df_spool_age(s);
    assert_int_equal(df_spool_oldest_ns(s), 0);
    assert_int_equal(df_spool_bytes(s), 0); /* what was sent does not stay either */
    df_spool_close(s);
}

/* The disk takes any number of bytes of what is written, then no more, then again. */
static void a_disk_that_is_full_costs_lines_and_no_more(void **state)
{
    (void)state;
    const size_t record = DF_SPOOL_HEAD + sizeof("{\"line\":0}") - 1;
    struct rlimit unlimited, limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &unlimited), 0);
    (void)signal(SIGXFSZ, SIG_IGN);
    struct df_spool *s = open_spool(MIB);
    int number = 0;
    for (size_t room = 0; room < 2 * record; room++) {
        add_lines(s, number, number + 1);
        limit = unlimited;
        limit.rlim_cur = (rlim_t)df_spool_bytes(s) + room;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        add_line(s, 7);
        add_line(s, 8);
        enum df_code code = df_spool_write(s, &err);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &unlimited), 0);
        assert_int_not_equal(code, DF_OK);
        assert_int_equal(df_spool_lost(s, DF_SPOOL_DISK).lines, 2 * (room + 1));
        add_lines(s, number + 1, number + 2);
        expect_range(s, 100, number, number + 2);
        number = (number + 2) % 8; /* of one digit, so that all records have one size */
    }
    assert_int_equal(df_spool_lost(s, DF_SPOOL_DAMAGED).lines, 0);
    df_spool_close(s);
}

static void files_that_vanish_are_damage(void **state)
{
    (void)state;
    char path[512];
    struct df_spool *s = open_spool(MIB);
    add_lines(s, 0, 5);
    find_file(".log", path);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(read_all(s, 100, got), 0);
    assert_int_equal(df_spool_lost(s, DF_SPOOL_DAMAGED).lines, 1);
    add_lines(s, 5, 6);
    expect_range(s, 100, 5, 6);
    df_spool_close(s);
}

/* Nothing more can be opened until the limit is given back. */
static rlim_t take_all_descriptors(void)
{
    struct rlimit limit;
    int lowest = dup(STDERR_FILENO);

    assert_true(lowest >= 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    rlim_t before = limit.rlim_cur;
    (void)close(lowest);
    limit.rlim_cur = (rlim_t)lowest;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    return before;
}

static void give_descriptors(rlim_t count)
{
    struct rlimit limit;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = count;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static void without_descriptors_nothing_is_lost(void **state)
{
    (void)state;
    struct df_spool_at end;
    int n = 10;
    struct df_spool *s = open_spool(MIB);
    in_a_process_that_dies(write_and_die, &n);
    rlim_t before = take_all_descriptors();
    assert_int_equal(df_spool_adopt(s), 0);
    give_descriptors(before);
    assert_int_equal(df_spool_adopt(s), 10);
    add_lines(s, 10, 20);
    before = take_all_descriptors();
    assert_false(read_some(s, 100, &end));
    give_descriptors(before);
    assert_int_equal(df_spool_lines(s), 20);
    expect_range(s, 100, 0, 20);
    df_spool_close(s);
}

static void a_line_that_is_too_long_is_cut(void **state)
{
    (void)state;
    static char text[3 * DF_SPOOL_LINE_MAX] = "{\"line\":7";
    struct df_spool *s = open_spool(MIB);
    memset(text + 9, 'x', sizeof(text) - 9);
    df_spool_add(s, 1, DF_LOG_ERROR, df_str_n(text, sizeof(text)));
    assert_int_equal(df_spool_write(s, &err), DF_OK);
    expect_range(s, 1, 7, 8);
    df_spool_close(s);
}

static void leftovers_of_a_start_that_failed_are_removed(void **state)
{
    (void)state;
    char path[600];
    struct df_spool *s = open_spool(MIB);
    (void)snprintf(path, sizeof(path), "%s/.0123456789ab-0123456789abcdef", directory);
    assert_int_equal(mkdir(path, 0700), 0);
    (void)snprintf(path, sizeof(path), "%s/.0123456789ab-0123456789abcdef/lock", directory);
    close(open(path, O_CREAT | O_WRONLY, 0600));
    (void)snprintf(path, sizeof(path), "%s/something else", directory);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(df_spool_adopt(s), 0);
    assert_int_equal(access(path, F_OK), 0); /* not ours */
    (void)snprintf(path, sizeof(path), "%s/.0123456789ab-0123456789abcdef", directory);
    assert_int_equal(access(path, F_OK), -1);
    df_spool_close(s);
}

/* Marks everywhere, in the head too. */
static void a_record_is_found_in_anything(void **state)
{
    (void)state;
    char data[600] = {0};
    struct df_spool_record r;
    size_t skipped, len;
    struct df_str text = DF_STR("a line");

    for (size_t before = 0; before < 60; before++) {
        memset(data, 0, sizeof(data));
        for (size_t i = 0; i < before; i++)
            data[i] = "\xDF\xFE\x4C\x31"[i % 4];
        df_spool_put_head(data + before, -5, DF_LOG_WARN, text);
        memcpy(data + before + DF_SPOOL_HEAD, text.ptr, text.len);
        size_t whole = before + DF_SPOOL_HEAD + text.len;
        len = df_spool_find(df_str_n(data, whole), true, &r, &skipped);
        assert_int_equal(len, DF_SPOOL_HEAD + text.len);
        assert_int_equal(skipped, before);
        assert_true(df_str_eq(r.text, text) && r.time_ns == -5 && r.level == DF_LOG_WARN);
        /* Without its last byte it is none, or perhaps the begin of one. */
        assert_int_equal(df_spool_find(df_str_n(data, whole - 1), true, &r, &skipped), 0);
        assert_int_equal(skipped, whole - 1);
        assert_int_equal(df_spool_find(df_str_n(data, whole - 1), false, &r, &skipped), 0);
        assert_true(skipped <= before);
    }
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, make_directory, remove_directory)
    const struct CMUnitTest tests[] = {
        TEST(lines_come_back_in_order),
        TEST(what_was_read_and_not_done_is_read_again),
        TEST(a_folder_of_a_dead_process_is_adopted_and_of_a_living_one_not),
        TEST(a_torn_tail_is_cut_at_every_byte),
        TEST(a_damaged_byte_costs_its_line_alone),
        TEST(a_cursor_that_is_damaged_makes_lines_come_again),
        TEST(a_full_spool_drops_its_oldest_and_counts_them),
        TEST(lines_in_hand_are_not_lost),
        TEST(what_is_left_by_others_counts_for_the_limit),
        TEST(old_lines_go_and_young_ones_stay),
        TEST(a_disk_that_is_full_costs_lines_and_no_more),
        TEST(files_that_vanish_are_damage),
        TEST(without_descriptors_nothing_is_lost),
        TEST(a_line_that_is_too_long_is_cut),
        TEST(leftovers_of_a_start_that_failed_are_removed),
        TEST(a_record_is_found_in_anything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

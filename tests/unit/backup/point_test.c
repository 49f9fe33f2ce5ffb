/* Points and parcels: what was written is read, and nothing else is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backup/parcel.h"
#include "backup/point.h"
#include "backup/points.h"
#include "base/mem.h"

#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define LEN(a)     (sizeof(a) / sizeof((a)[0]))
#define GENERATION "20261115T031605123Z-1f2e3d4c"
#define BATCH      "0f8fad5b-d9cb-469f-a165-70867728950e"
#define PAGE       512

/* --- bytes in memory --- */

static enum df_code put_bytes(void *arg, const void *ptr, size_t len, struct df_err *err)
{
    (void)err;
    df_buf_add(arg, ptr, len);
    return DF_OK;
}

struct text {
    struct df_str left;
    size_t most; /* bytes given at a time */
};

static enum df_code read_bytes(void *arg, void *ptr, size_t len, size_t *ret_len,
                               struct df_err *err)
{
    struct text *t = arg;
    size_t n = len < t->left.len ? len : t->left.len;

    (void)err;
    n = n < t->most ? n : t->most;
    memcpy(ptr, t->left.ptr, n);
    t->left = df_str_n(t->left.ptr + n, t->left.len - n);
    *ret_len = n;
    return DF_OK;
}

struct seen {
    size_t files, pages;
    uint32_t last;
    struct df_point_file file;
};

static enum df_code see_file(void *arg, const struct df_point_file *f, struct df_err *err)
{
    struct seen *s = arg;

    (void)err;
    s->files++;
    s->file = *f;
    return DF_OK;
}

static enum df_code see_page(void *arg, uint32_t number, const void *page, size_t len,
                             struct df_err *err)
{
    struct seen *s = arg;

    (void)err;
    assert_int_equal(len, PAGE);
    assert_int_equal(*(const unsigned char *)page, number);
    s->pages++;
    s->last = number;
    return DF_OK;
}

static enum df_code read_point(struct df_str bytes, size_t most, struct df_point_head *head,
                               struct seen *seen, unsigned char root[DF_POINT_ROOT_BYTES])
{
    struct text t = {bytes, most};
    const struct df_point_source from = {read_bytes, &t};
    const struct df_point_visitor v = {.file = see_file, .page = see_page, .arg = seen};
    struct df_err err = DF_ERR_INIT;
    enum df_code code = df_point_read_head(&from, head, &err);

    *seen = (struct seen){.files = 0};
    return code == DF_OK ? df_point_read(&from, head, &v, root, &err) : code;
}

/* A point with a file and two of its three pages. */
static void write_point(struct df_buf *out)
{
    struct df_point_head h = {.page_size = PAGE, .page_count = 3, .before = {7}};
    struct df_point_file f = {
        .batch = {BATCH}, .name = "leads.csv", .object = GENERATION "/f-1", .size = 5};
    const struct df_point_sink to = {put_bytes, out};
    unsigned char page[PAGE], root[DF_POINT_ROOT_BYTES] = {9};
    struct df_err err = DF_ERR_INIT;

    h.name = (struct df_point_name){GENERATION, 12, 1763176565123};
    memset(f.sha256, 'a', DF_CHECKSUM_LEN);
    assert_int_equal(df_point_put_head(&to, &h, &err), DF_OK);
    assert_int_equal(df_point_put_file(&to, &f, &err), DF_OK);
    for (uint32_t i = 1; i <= 3; i += 2) {
        memset(page, (int)i, sizeof page);
        assert_int_equal(df_point_put_page(&to, i, page, PAGE, &err), DF_OK);
    }
    assert_int_equal(df_point_put_end(&to, 2, root, &err), DF_OK);
}

static void what_was_written_is_read(void **state)
{
    unsigned char root[DF_POINT_ROOT_BYTES];
    struct df_point_head h;
    struct seen seen;
    struct df_buf b;

    (void)state;
    df_buf_init(&b, 1 << 20);
    write_point(&b);
    for (size_t most = 1; most < 2000; most += 333) {
        assert_int_equal(read_point(df_buf_str(&b), most, &h, &seen, root), DF_OK);
        assert_string_equal(h.name.generation, GENERATION);
        assert_int_equal(h.name.number, 12);
        assert_int_equal(h.name.time_ms, 1763176565123);
        assert_int_equal(h.page_count, 3);
        assert_int_equal(h.before[0], 7);
        assert_int_equal(root[0], 9);
        assert_int_equal(seen.files, 1);
        assert_int_equal(seen.pages, 2);
        assert_int_equal(seen.last, 3);
        assert_string_equal(seen.file.name, "leads.csv");
        assert_string_equal(seen.file.batch.text, BATCH);
        assert_int_equal(seen.file.size, 5);
    }
    df_buf_release(&b);
}

static void a_point_without_its_end_is_none(void **state)
{
    unsigned char root[DF_POINT_ROOT_BYTES];
    struct df_point_head h;
    struct seen seen;
    struct df_buf b;

    (void)state;
    df_buf_init(&b, 1 << 20);
    write_point(&b);
    for (size_t len = 0; len < b.len; len++)
        assert_int_equal(read_point(df_str_n(b.ptr, len), 4096, &h, &seen, root), DF_E_INTERNAL);
    df_buf_addc(&b, 'x');
    assert_int_equal(read_point(df_buf_str(&b), 4096, &h, &seen, root), DF_E_INTERNAL);
    df_buf_release(&b);
}

#define HEAD(member) (8 + DF_GENERATION_LEN + (member))
#define FILE_AT      DF_POINT_HEAD_BYTES
#define NAME_AT      (FILE_AT + 1 + DF_UUID_LEN)
#define OBJECT_AT    (NAME_AT + 2 + 9)
#define PAGE_AT      (OBJECT_AT + 2 + DF_GENERATION_LEN + 4 + 8 + DF_CHECKSUM_LEN)
#define END_AT       (PAGE_AT + 2 * (5 + PAGE))

static void bad_points_are_refused(void **state)
{
    static const struct {
        const char *what;
        size_t at;
        const char *bytes;
        size_t len;
    } rows[] = {
        {"magic", 0, "X", 1},
        {"generation", 8, "/", 1},
        {"generation that is no date", 8, "20261315", 8},
        {"number", HEAD(0), "\xff\xff\xff\xff", 4},
        {"page size 0", HEAD(12), "\0\0\0\0", 4},
        {"page size that is no power of two", HEAD(12), "\x01\x03\0\0", 4},
        {"page size 256", HEAD(12), "\0\1\0\0", 4},
        {"page size of 2 MiB", HEAD(12), "\0\0\x20\0", 4},
        {"no pages", HEAD(16), "\0\0\0\0", 4},
        {"too many pages", HEAD(16), "\xff\xff\xff\xff", 4},
        {"kind", FILE_AT, "\3", 1},
        {"batch", FILE_AT + 1, "zz", 2},
        {"name without bytes", NAME_AT, "\0\0", 2},
        {"name too long", NAME_AT, "\0\1", 2},
        {"name with a slash", NAME_AT + 2, "le/ds.csv", 9},
        {"name above", NAME_AT + 2, "..", 2},
        {"hidden name", NAME_AT + 2, ".eads.csv", 9},
        {"name with a NUL", NAME_AT + 3, "\0", 1},
        {"object too long", OBJECT_AT, "\xff\xff", 2},
        {"object from the root", OBJECT_AT + 2, "/", 1},
        {"object above", OBJECT_AT + 2 + DF_GENERATION_LEN, "/..", 3},
        {"page 0", PAGE_AT + 1, "\0\0\0\0", 4},
        {"page past the end", PAGE_AT + 1, "\4\0\0\0", 4},
        {"wrong count of pages", END_AT + 1, "\3\0\0\0", 4},
    };
    unsigned char root[DF_POINT_ROOT_BYTES];
    struct df_point_head h;
    struct seen seen;
    struct df_buf b;

    (void)state;
    for (size_t i = 0; i < LEN(rows); i++) {
        df_buf_init(&b, 1 << 20);
        write_point(&b);
        memcpy(b.ptr + rows[i].at, rows[i].bytes, rows[i].len);
        if (read_point(df_buf_str(&b), 4096, &h, &seen, root) != DF_E_INTERNAL)
            fail_msg("%s was taken", rows[i].what);
        df_buf_release(&b);
    }
}

/* --- names --- */

static void names_are_written_and_read(void **state)
{
    static const char *const bad[] = {"",
                                      "erasures",
                                      GENERATION,
                                      GENERATION "/",
                                      GENERATION "/f-0f8fad5b-0123456789abcdef",
                                      GENERATION "/p12-20261115T031605123Z",
                                      GENERATION "/p00001x-20261115T031605123Z",
                                      GENERATION "/p000012-20261315T031605123Z",
                                      GENERATION "/p000012-20261115T031605123Z.tmp",
                                      "20261115T031605123Z-1F2E3D4C/p000012-20261115T031605123Z",
                                      "../../../../../../../../../../p000012-20261115T031605123Z"};
    const struct df_point_name n = {GENERATION, 12, 1794712565123};
    struct df_point_name again;
    char name[DF_POINT_NAME_MAX];

    (void)state;
    df_point_name_write(&n, name);
    assert_string_equal(name, GENERATION "/p000012-20261115T031605123Z");
    assert_true(df_point_name_read(name, &again));
    assert_string_equal(again.generation, n.generation);
    assert_int_equal(again.number, 12);
    assert_int_equal(again.time_ms, n.time_ms);
    for (size_t i = 0; i < LEN(bad); i++)
        assert_false(df_point_name_read(bad[i], &again));
}

static void the_newest_whole_point_is_found(void **state)
{
    struct df_point_object items[6] = {0};
    struct df_points p = {.items = items, .count = LEN(items)};
    /* Generation a has 0, 1, 3; b has 0, 1; c has 1 alone. */
    static const struct {
        char generation;
        uint32_t number;
        int64_t time_ms;
    } rows[] = {{'a', 0, 10}, {'a', 1, 20}, {'a', 3, 40}, {'b', 0, 50}, {'b', 1, 60}, {'c', 1, 80}};

    (void)state;
    for (size_t i = 0; i < LEN(rows); i++)
        items[i] = (struct df_point_object){.is_point = true,
                                            .point = {.generation = {rows[i].generation},
                                                      .number = rows[i].number,
                                                      .time_ms = rows[i].time_ms}};
    assert_int_equal(df_points_at(&p, 9), -1);
    assert_int_equal(df_points_at(&p, 10), 0);
    assert_int_equal(df_points_at(&p, 45), 1);
    assert_int_equal(df_points_at(&p, 59), 3);
    assert_int_equal(df_points_at(&p, INT64_MAX), 4);
    assert_null(df_points_generation_at(&p, 9));
    assert_string_equal(df_points_generation_at(&p, 49), "a");
    assert_string_equal(df_points_generation_at(&p, 1000), "b");
}

/* --- parcels --- */

static struct df_master *master_of(char digit)
{
    struct df_master *m = NULL;
    struct df_err err = DF_ERR_INIT;
    char text[65];

    memset(text, digit, 64);
    text[64] = '\0';
    assert_int_equal(df_master_given(df_clock_real(), df_str_c(text), "test", &m, &err), DF_OK);
    return m;
}

static int pack(struct df_master *m, const char *bytes, size_t len)
{
    struct df_parcel_key key = {.key = NULL};
    struct df_parcel_writer *w = NULL;
    struct df_err err = DF_ERR_INIT;
    int fd = memfd_create("parcel", MFD_CLOEXEC);

    assert_int_equal(df_parcel_key_draw(&key, m, df_clock_real(), &err), DF_OK);
    assert_int_equal(df_parcel_create(&key, fd, true, &w, &err), DF_OK);
    assert_int_equal(df_parcel_write(w, bytes, len, &err), DF_OK);
    assert_int_equal(df_parcel_finish(w, &err), DF_OK);
    df_parcel_key_release(&key);
    return fd;
}

static enum df_code unpack(struct df_master *m, int fd, struct df_buf *out)
{
    struct df_parcel_opener o = {.masters = {m}};
    struct df_parcel_reader *r = NULL;
    struct df_err err = DF_ERR_INIT;
    char bytes[1000];
    size_t n = 1;
    enum df_code code = df_parcel_open(&o, fd, "a parcel", &r, &err);

    df_buf_reset(out);
    while (code == DF_OK && n > 0) {
        code = df_parcel_read(r, bytes, sizeof bytes, &n, &err);
        df_buf_add(out, bytes, code == DF_OK ? n : 0);
    }
    df_parcel_close(r);
    df_parcel_key_release(&o.last);
    return code;
}

static void a_parcel_gives_back_its_bytes(void **state)
{
    static const size_t sizes[] = {0, 1, 999, 1000, 65536, 300000};
    struct df_master *m = master_of('a'), *other = master_of('b');
    char *bytes = df_malloc(300000);
    struct df_buf out;

    (void)state;
    randombytes_buf(bytes, 150000);
    memset(bytes + 150000, 'x', 150000);
    df_buf_init(&out, 1 << 20);
    for (size_t i = 0; i < LEN(sizes); i++) {
        int fd = pack(m, bytes, sizes[i]);
        assert_int_equal(unpack(m, fd, &out), DF_OK);
        assert_int_equal(out.len, sizes[i]);
        assert_memory_equal(df_buf_str(&out).ptr, bytes, sizes[i]);
        assert_int_equal(unpack(other, fd, &out), DF_E_CONFIG);
        close(fd);
    }
    df_buf_release(&out);
    free(bytes);
    df_master_free(m);
    df_master_free(other);
}

static void a_changed_parcel_is_noticed(void **state)
{
    struct df_master *m = master_of('a');
    int fd = pack(m, "some bytes of a backup", 22);
    off_t size = lseek(fd, 0, SEEK_END);
    struct df_buf out;
    unsigned char was, is;

    (void)state;
    df_buf_init(&out, 1 << 20);
    for (off_t at = 0; at < size; at++) {
        assert_int_equal(pread(fd, &was, 1, at), 1);
        is = was ^ 0x10;
        assert_int_equal(pwrite(fd, &is, 1, at), 1);
        assert_int_not_equal(unpack(m, fd, &out), DF_OK);
        assert_int_equal(pwrite(fd, &was, 1, at), 1);
    }
    assert_int_equal(unpack(m, fd, &out), DF_OK);
    assert_int_equal(pwrite(fd, "x", 1, size), 1);
    assert_int_not_equal(unpack(m, fd, &out), DF_OK);
    for (off_t len = size; len-- > 0;) {
        assert_int_equal(ftruncate(fd, len), 0);
        assert_int_not_equal(unpack(m, fd, &out), DF_OK);
    }
    close(fd);
    df_buf_release(&out);
    df_master_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_written_is_read),
        cmocka_unit_test(a_point_without_its_end_is_none),
        cmocka_unit_test(bad_points_are_refused),
        cmocka_unit_test(names_are_written_and_read),
        cmocka_unit_test(the_newest_whole_point_is_found),
        cmocka_unit_test(a_parcel_gives_back_its_bytes),
        cmocka_unit_test(a_changed_parcel_is_noticed),
    };
    if (sodium_init() < 0)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}

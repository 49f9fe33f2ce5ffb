/* Uploaded files on the local disk: names, links, checksums, crashes, what is left and found. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "files/storage.h"
#include "keys/keys.h"
#include "keys_from.h"
#include "scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LEN(a)    (sizeof(a) / sizeof((a)[0]))
#define ABC_SHA   "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
#define EMPTY_SHA "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

static char dir[64];
static struct df_secret *key, *new_key;

/* --- helpers --- */

static int remove_one(const char *path, const struct stat *s, int type, struct FTW *f)
{
    (void)s, (void)type, (void)f;
    return remove(path);
}

static int make_dir(void **state)
{
    (void)state;
    (void)snprintf(dir, sizeof(dir), "%s/df_storage_test.XXXXXX", scratch_dir());
    return mkdtemp(dir) ? 0 : 1;
}

static int remove_dir(void **state)
{
    (void)state;
    return nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static int make_keys(void **state)
{
    (void)state;
    key = df_secret_new(DF_STR("000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"));
    new_key = df_secret_new(DF_STR("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh0="));
    return 0;
}

static int free_keys(void **state)
{
    (void)state;
    df_secret_free(key);
    df_secret_free(new_key);
    return 0;
}

static struct df_storage *storage(const struct df_secret *with)
{
    struct df_storage_options opt = {.data_dir = dir, .settings.key = with};
    struct df_err err = DF_ERR_INIT;
    struct df_storage *st;

    if (df_storage_new(&opt, &st, &err) != DF_OK)
        fail_msg("%s", err.detail);
    return st;
}

static struct df_uuid fresh_batch(void)
{
    return df_uuid_v7(df_clock_real());
}

static const char *at(const struct df_uuid *batch, const char *rest)
{
    static char paths[4][512];
    static size_t next;
    char *p = paths[next++ % LEN(paths)];

    (void)snprintf(p, sizeof(paths[0]), "%s/imports/%s%s", dir, batch->text, rest);
    return p;
}

static bool exists(const char *path)
{
    struct stat s;
    return lstat(path, &s) == 0;
}

static void store(struct df_storage *st, const struct df_uuid *batch, const char *name,
                  struct df_str text, char checksum[DF_CHECKSUM_LEN + 1])
{
    struct df_storage_writer *w;
    struct df_err err = DF_ERR_INIT;
    uint64_t size;

    if (df_storage_create(st, batch, -1, &w, &err) != DF_OK)
        fail_msg("%s", err.detail);
    /* In two pieces, one of them perhaps empty. */
    size_t half = text.len / 2;
    assert_int_equal(df_storage_write(w, text.ptr, half, &err), DF_OK);
    assert_int_equal(df_storage_write(w, text.ptr + half, text.len - half, &err), DF_OK);
    if (df_storage_finish(w, df_str_c(name), checksum, &size, &err) != DF_OK)
        fail_msg("%s", err.detail);
    assert_int_equal(size, text.len);
}

static void expect_content(struct df_storage *st, const struct df_uuid *batch, const char *name,
                           struct df_str expected)
{
    struct df_stored *f;
    struct df_err err = DF_ERR_INIT;
    char *text = malloc(expected.len + 10);
    size_t n;

    if (df_storage_open(st, batch, df_str_c(name), &f, &err) != DF_OK)
        fail_msg("%s", err.detail);
    const struct df_bytes *b = df_stored_bytes(f);
    assert_int_equal(b->size, expected.len);
    assert_int_equal(b->read_at(b->arg, 0, text, expected.len + 10, &n, &err), DF_OK);
    assert_int_equal(n, expected.len);
    assert_memory_equal(text, expected.ptr, n);
    assert_int_equal(b->read_at(b->arg, expected.len, text, 1, &n, &err), DF_OK);
    assert_int_equal(n, 0);
    df_stored_close(f);
    free(text);
}

static enum df_code try_open(struct df_storage *st, const struct df_uuid *batch, const char *name,
                             struct df_err *err)
{
    struct df_stored *f;
    enum df_code code = df_storage_open(st, batch, df_str_c(name), &f, err);

    if (code == DF_OK)
        df_stored_close(f);
    return code;
}

/* --- writing and reading --- */

static void check_round(const struct df_secret *with)
{
    struct df_storage *st = storage(with);
    size_t big = ((size_t)5 << 20) + 3;
    char *text = malloc(big);
    const struct df_str contents[] = {DF_STR("abc"), DF_STR(""), {text, big}, {text, 65536}};
    const char *sums[] = {ABC_SHA, EMPTY_SHA, NULL, NULL};

    for (size_t i = 0; i < big; i++)
        text[i] = (char)(i * 31 >> 3);
    for (size_t i = 0; i < LEN(contents); i++) {
        struct df_uuid batch = fresh_batch();
        char sum[DF_CHECKSUM_LEN + 1], again[DF_CHECKSUM_LEN + 1];
        uint64_t size;
        store(st, &batch, "leads.json", contents[i], sum);
        if (sums[i])
            assert_string_equal(sum, sums[i]);
        assert_int_equal(df_storage_checksum(st, &batch, DF_STR("leads.json"), again, &size, NULL),
                         DF_OK);
        assert_string_equal(sum, again);
        assert_int_equal(size, contents[i].len);
        expect_content(st, &batch, "leads.json", contents[i]);
        assert_true(exists(at(&batch, "/original/leads.json")));
        assert_false(exists(at(&batch, "/original/.upload")));
    }
    free(text);
    df_storage_free(st);
}

static void test_what_is_stored_comes_back(void **state)
{
    (void)state;
    check_round(NULL);
}

static void test_what_is_stored_encrypted_comes_back(void **state)
{
    (void)state;
    check_round(key);
}

static void test_files_are_for_the_server_alone(void **state)
{
    struct df_storage *st = storage(NULL);
    struct df_uuid batch = fresh_batch();
    char sum[DF_CHECKSUM_LEN + 1];
    struct stat s;
    (void)state;

    store(st, &batch, "a.csv", DF_STR("abc"), sum);
    assert_int_equal(stat(at(&batch, ""), &s), 0);
    assert_int_equal(s.st_mode & 07777, 0700);
    assert_int_equal(stat(at(&batch, "/original"), &s), 0);
    assert_int_equal(s.st_mode & 07777, 0700);
    assert_int_equal(stat(at(&batch, "/original/a.csv"), &s), 0);
    assert_int_equal(s.st_mode & 07777, 0600);
    df_storage_free(st);
}

static void test_the_disk_never_sees_plain_text_when_there_is_a_key(void **state)
{
    static const char secret[] = "+5511987654321";
    struct df_storage *st = storage(key);
    struct df_uuid batch = fresh_batch();
    char sum[DF_CHECKSUM_LEN + 1], raw[4096];
    (void)state;

    store(st, &batch, "a.csv", DF_STR("phone\n+5511987654321\n"), sum);
    int fd = open(at(&batch, "/original/a.csv"), O_RDONLY);
    ssize_t n = read(fd, raw, sizeof(raw));
    assert_true(n > 32);
    assert_null(memmem(raw, (size_t)n, secret, sizeof(secret) - 1));
    (void)close(fd);
    df_storage_free(st);
}

static void test_keys_change_while_files_wait(void **state)
{
    struct df_uuid plain = fresh_batch(), old = fresh_batch();
    char sum[DF_CHECKSUM_LEN + 1];
    struct df_err err = DF_ERR_INIT;
    (void)state;

    struct df_storage *st = storage(NULL);
    store(st, &plain, "a", DF_STR("before there was a key"), sum);
    df_storage_free(st);
    st = storage(key);
    store(st, &old, "a", DF_STR("with the first key"), sum);
    expect_content(st, &plain, "a", DF_STR("before there was a key"));
    df_storage_free(st);

    struct df_storage_options opt = {
        .data_dir = dir, .settings.key = new_key, .settings.old_key = key};
    assert_int_equal(df_storage_new(&opt, &st, &err), DF_OK);
    expect_content(st, &old, "a", DF_STR("with the first key"));
    df_storage_free(st);

    st = storage(new_key);
    assert_int_equal(try_open(st, &old, "a", &err), DF_E_CONFIG);
    assert_non_null(strstr(err.detail, "security.storage_key_file"));
    df_storage_free(st);
    st = storage(NULL);
    assert_int_equal(try_open(st, &old, "a", &err), DF_E_CONFIG);
    df_storage_free(st);
}

/* --- files are encrypted anew --- */

static struct df_storage *storage_on(struct df_keys *ring, const struct df_secret *with,
                                     const struct df_secret *old)
{
    struct df_storage_options opt = {
        .data_dir = dir, .settings.key = with, .settings.old_key = old, .keys = ring};
    struct df_err err = DF_ERR_INIT;
    struct df_storage *st;

    if (df_storage_new(&opt, &st, &err) != DF_OK)
        fail_msg("%s", err.detail);
    return st;
}

static struct df_rekeyed rekey(struct df_storage *st, const struct df_uuid *batch, bool look_only)
{
    struct df_rekeyed found = {0};
    struct df_err err = DF_ERR_INIT;

    if (df_storage_rekey(st, batch, look_only, &found, &err) != DF_OK)
        fail_msg("%s", err.detail);
    return found;
}

static void test_files_come_under_the_current_key(void **state)
{
    struct df_keys *ring = df_keys_from(df_clock_real(), (const unsigned char[DF_KEY_BYTES]){1});
    struct df_uuid plain = fresh_batch(), given = fresh_batch(), first = fresh_batch();
    size_t big = ((size_t)9 << 20) + 5; /* more than is copied without a pause */
    char *text = calloc(1, big), sum[DF_CHECKSUM_LEN + 1];
    struct df_stored *reading;
    size_t n;
    (void)state;

    struct df_storage *st = storage(NULL);
    store(st, &plain, "a b.csv", DF_STR("plain"), sum);
    df_storage_free(st);
    st = storage(key);
    store(st, &given, "a", DF_STR("under a storage key"), sum);
    df_storage_free(st);
    st = storage_on(ring, NULL, key);
    store(st, &first, "a", df_str_n(text, big), sum);
    assert_true(rekey(st, &first, false).current);

    df_keys_add(ring, 2, (const unsigned char[DF_KEY_BYTES]){2});
    df_keys_use(ring, 2);
    struct df_rekeyed seen = rekey(st, &first, true);
    assert_true(!seen.current && !seen.changed && seen.data_key == 1);
    assert_int_equal(rekey(st, &plain, true).data_key, 0);

    /* Whoever reads the old file goes on. A successor that a crash left is no hindrance. */
    assert_int_equal(df_storage_open(st, &first, DF_STR("a"), &reading, NULL), DF_OK);
    assert_int_equal(close(open(at(&first, "/original/.rekey"), O_CREAT | O_WRONLY, 0600)), 0);
    const struct df_uuid all[] = {plain, given, first};
    for (size_t i = 0; i < LEN(all); i++) {
        assert_true(rekey(st, &all[i], false).changed);
        seen = rekey(st, &all[i], false);
        assert_true(seen.current && !seen.changed && seen.data_key == 2);
        assert_false(exists(at(&all[i], "/original/.rekey")));
    }
    const struct df_bytes *old = df_stored_bytes(reading);
    assert_int_equal(old->read_at(old->arg, big - 10, sum, 10, &n, NULL), DF_OK);
    assert_int_equal(n, 10);
    df_stored_close(reading);
    expect_content(st, &plain, "a b.csv", DF_STR("plain"));
    expect_content(st, &given, "a", DF_STR("under a storage key"));
    expect_content(st, &first, "a", df_str_n(text, big));
    df_storage_free(st);

    /* With a storage key, files come under that. */
    st = storage_on(ring, new_key, NULL);
    assert_true(rekey(st, &plain, false).changed);
    df_storage_free(st);
    st = storage(new_key);
    expect_content(st, &plain, "a b.csv", DF_STR("plain"));
    df_storage_free(st);
    df_keys_free(ring);
    free(text);
}

static void test_what_cannot_be_encrypted_anew_stays(void **state)
{
    struct df_keys *ring = df_keys_from(df_clock_real(), (const unsigned char[DF_KEY_BYTES]){1});
    struct df_uuid nowhere = fresh_batch(), lost = fresh_batch(), busy = fresh_batch();
    char sum[DF_CHECKSUM_LEN + 1];
    struct df_rekeyed found;
    struct df_err err = DF_ERR_INIT;
    (void)state;

    struct df_storage *st = storage(key);
    store(st, &lost, "a", DF_STR("under a key that is gone"), sum);
    store(st, &busy, "a", DF_STR("another process is at it"), sum);
    df_storage_free(st);

    st = storage_on(ring, NULL, NULL);
    assert_int_equal(df_storage_rekey(st, &nowhere, false, &found, &err), DF_E_NOT_FOUND);
    assert_int_equal(df_storage_rekey(st, &lost, false, &found, &err), DF_E_CONFIG);
    assert_false(exists(at(&lost, "/original/.rekey")));
    int held = open(at(&busy, "/original"), O_RDONLY | O_DIRECTORY);
    assert_int_equal(flock(held, LOCK_EX), 0);
    assert_int_equal(df_storage_rekey(st, &busy, false, &found, &err), DF_E_BUSY);
    (void)close(held);
    df_storage_cancel(st);
    df_storage_free(st);
    st = storage(key);
    expect_content(st, &lost, "a", DF_STR("under a key that is gone"));
    df_storage_free(st);
    df_keys_free(ring);
}

static void test_a_plain_upload_cannot_pose_as_an_encrypted_one(void **state)
{
    static const char head[] = "DFE1\0\1\0\0 and more";
    (void)state;

    for (size_t piece = 1; piece < sizeof(head); piece++) {
        struct df_storage *st = storage(NULL);
        struct df_uuid batch = fresh_batch();
        struct df_storage_writer *w;
        enum df_code code = DF_OK;
        assert_int_equal(df_storage_create(st, &batch, -1, &w, NULL), DF_OK);
        for (size_t i = 0; i < sizeof(head) && code == DF_OK; i += piece)
            code = df_storage_write(w, head + i,
                                    i + piece < sizeof(head) ? piece : sizeof(head) - i, NULL);
        assert_int_equal(code, DF_E_MEDIA_TYPE);
        df_storage_abort(w);
        df_storage_free(st);
    }
    /* A header of a CSV file may well be called so. */
    struct df_storage *st = storage(NULL);
    struct df_uuid batch = fresh_batch();
    char sum[DF_CHECKSUM_LEN + 1];
    store(st, &batch, "a.csv", DF_STR("DFE1,phone\n"), sum);
    expect_content(st, &batch, "a.csv", DF_STR("DFE1,phone\n"));
    df_storage_free(st);
}

static void test_a_second_upload_of_a_batch_is_refused(void **state)
{
    struct df_storage *st = storage(NULL);
    struct df_uuid batch = fresh_batch();
    struct df_storage_writer *w, *again;
    (void)state;

    assert_int_equal(df_storage_create(st, &batch, -1, &w, NULL), DF_OK);
    assert_int_equal(df_storage_create(st, &batch, -1, &again, NULL), DF_E_CONFLICT);
    df_storage_abort(w);
    assert_false(exists(at(&batch, "")));
    df_storage_abort(NULL);
    df_storage_free(st);
}

static void test_an_unknown_batch_has_no_file(void **state)
{
    struct df_storage *st = storage(NULL);
    struct df_uuid batch = fresh_batch();
    (void)state;

    assert_int_equal(try_open(st, &batch, "a", NULL), DF_E_NOT_FOUND);
    assert_int_equal(df_storage_remove(st, &batch, NULL, NULL), DF_OK);
    assert_true(df_storage_free_bytes(st) > 0);
    df_storage_free(st);
}

/* --- names --- */

#define X10(s)  s s s s s s s s s s
#define X100(s) X10(s) X10(s) X10(s) X10(s) X10(s) X10(s) X10(s) X10(s) X10(s) X10(s)

static void test_names_become_harmless(void **state)
{
    static const struct {
        struct df_str name;
        const char *expected;
    } cases[] = {
        {DF_STR_INIT("leads.xlsx"), "leads.xlsx"},
        {DF_STR_INIT("Lista de março (1).csv"), "Lista de março (1).csv"},
        {DF_STR_INIT("名簿.json"), "名簿.json"},
        {DF_STR_INIT("😀.csv"), "😀.csv"},
        {DF_STR_INIT(""), "upload"},
        {DF_STR_INIT("."), "%2E"},
        {DF_STR_INIT(".."), "%2E."},
        {DF_STR_INIT(".upload"), "%2Eupload"},
        {DF_STR_INIT("../../etc/passwd"), "%2E.%2F..%2Fetc%2Fpasswd"},
        {DF_STR_INIT("/etc/passwd"), "%2Fetc%2Fpasswd"},
        {DF_STR_INIT("..\\x.csv"), "%2E.%5Cx.csv"},
        {DF_STR_INIT("a.csv/"), "a.csv%2F"},
        {DF_STR_INIT("a\0b.csv"), "a%00b.csv"},
        {DF_STR_INIT("a\n\tb\x7f.csv"), "a%0A%09b%7F.csv"},
        {DF_STR_INIT("-rf"), "%2Drf"},
        {DF_STR_INIT("100%.csv"), "100%25.csv"},
        {DF_STR_INIT("%2E%2E"), "%252E%252E"},
        {DF_STR_INIT("a\xe2\x80\xae"
                     "vsc.exe"),
         "a%E2%80%AEvsc.exe"},
        {DF_STR_INIT("\xef\xbb\xbf"
                     "a"),
         "%EF%BB%BFa"},
        {DF_STR_INIT("a\xc2\x85z"), "a%C2%85z"},
        {DF_STR_INIT("a\xff\xfe.csv"), "a%FF%FE.csv"},
        {DF_STR_INIT("a\xc3"), "a%C3"},
        {DF_STR_INIT("\xc0\xaf"), "%C0%AF"},
        {DF_STR_INIT("\xed\xa0\x80.csv"), "%ED%A0%80.csv"},
        {DF_STR_INIT("CON"), "%43ON"},
        {DF_STR_INIT("nul.csv"), "%6Eul.csv"},
        {DF_STR_INIT("Com1.x.csv"), "%43om1.x.csv"},
        {DF_STR_INIT("console.csv"), "console.csv"},
        {DF_STR_INIT("com10.csv"), "com10.csv"},
        {DF_STR_INIT("a."), "a."},
        {DF_STR_INIT("a.b.c.xlsx"), "a.b.c.xlsx"},
    };
    char out[DF_STORAGE_NAME_MAX + 1];
    (void)state;

    for (size_t i = 0; i < LEN(cases); i++) {
        df_storage_file_name(cases[i].name, out);
        assert_string_equal(out, cases[i].expected);
    }
    df_storage_file_name(DF_STR_NULL, out);
    assert_string_equal(out, "upload");
}

static void test_long_names_are_cut_between_characters(void **state)
{
    static const struct df_str names[] = {
        DF_STR_INIT(X100("abc") ".xlsx"),      DF_STR_INIT(X100("ç") X100("ç") ".xlsx"),
        DF_STR_INIT("a" X100("😀") ".xlsx"),    DF_STR_INIT(X100("/") ".xlsx"),
        DF_STR_INIT("a" X100("\xff") ".xlsx"), DF_STR_INIT("ab" X100("\xe2\x80\xae") ".xlsx"),
    };
    char out[DF_STORAGE_NAME_MAX + 1];
    (void)state;

    for (size_t i = 0; i < LEN(names); i++) {
        df_storage_file_name(names[i], out);
        struct df_str s = df_str_c(out);
        assert_in_range(s.len, DF_STORAGE_NAME_MAX - 12, DF_STORAGE_NAME_MAX);
        assert_true(df_str_ends(s, DF_STR(".xlsx")));
        assert_int_equal(df_utf8_valid_prefix(s), s.len);
        /* No escape in halves: the stem of the last cases is nothing but escapes. */
        if (i >= 3)
            assert_int_equal((s.len - 5 - (i - 3)) % 3, 0);
    }
    /* A long extension is none. */
    df_storage_file_name(DF_STR("." X100("abc")), out);
    assert_int_equal(strlen(out), DF_STORAGE_NAME_MAX);
    df_storage_file_name(DF_STR("a." X100("abc")), out);
    assert_int_equal(strlen(out), DF_STORAGE_NAME_MAX);
}

static void test_files_with_any_name_stay_in_their_directory(void **state)
{
    static const char *const names[] = {"../../../x", "/x", "..", ".", "a/b/../../../../x", ""};
    struct df_storage *st = storage(NULL);
    (void)state;

    for (size_t i = 0; i < LEN(names); i++) {
        struct df_uuid batch = fresh_batch();
        char sum[DF_CHECKSUM_LEN + 1], name[DF_STORAGE_NAME_MAX + 1], path[300];
        store(st, &batch, names[i], DF_STR("abc"), sum);
        df_storage_file_name(df_str_c(names[i]), name);
        (void)snprintf(path, sizeof(path), "/original/%s", name);
        assert_true(exists(at(&batch, path)));
        expect_content(st, &batch, names[i], DF_STR("abc"));
    }
    df_storage_free(st);
}

/* --- links --- */

static void test_links_are_not_followed(void **state)
{
    struct df_storage *st = storage(NULL);
    struct df_uuid batch = fresh_batch(), linked = fresh_batch(), inner = fresh_batch();
    struct df_storage_writer *w;
    char sum[DF_CHECKSUM_LEN + 1], outside[128], file[160];
    (void)state;

    (void)snprintf(outside, sizeof(outside), "%s/outside", dir);
    (void)snprintf(file, sizeof(file), "%s/kept", outside);
    assert_int_equal(mkdir(outside, 0700), 0);
    assert_int_equal(close(open(file, O_CREAT | O_WRONLY, 0600)), 0);

    /* The file itself. */
    store(st, &batch, "a", DF_STR("abc"), sum);
    assert_int_equal(unlink(at(&batch, "/original/a")), 0);
    assert_int_equal(symlink(file, at(&batch, "/original/a")), 0);
    assert_int_not_equal(try_open(st, &batch, "a", NULL), DF_OK);
    /* Its directories. */
    assert_int_equal(symlink(outside, at(&linked, "")), 0);
    assert_int_equal(df_storage_create(st, &linked, -1, &w, NULL), DF_E_CONFLICT);
    assert_int_not_equal(try_open(st, &linked, "kept", NULL), DF_OK);
    assert_int_equal(mkdir(at(&inner, ""), 0700), 0);
    assert_int_equal(symlink(outside, at(&inner, "/original")), 0);
    assert_int_not_equal(try_open(st, &inner, "kept", NULL), DF_OK);
    /* Removing takes the links, not what they lead to. */
    assert_int_equal(df_storage_remove(st, &batch, NULL, NULL), DF_OK);
    assert_int_equal(df_storage_remove(st, &linked, NULL, NULL), DF_OK);
    assert_int_equal(df_storage_remove(st, &inner, NULL, NULL), DF_OK);
    assert_false(exists(at(&batch, "")));
    assert_false(exists(at(&linked, "")));
    assert_false(exists(at(&inner, "")));
    assert_true(exists(file));
    df_storage_free(st);

    /* The directory of all of them. */
    char imports[128];
    (void)snprintf(imports, sizeof(imports), "%s/imports", dir);
    assert_int_equal(rmdir(imports), 0);
    assert_int_equal(symlink(outside, imports), 0);
    struct df_storage_options opt = {.data_dir = dir};
    assert_int_equal(df_storage_new(&opt, &st, NULL), DF_E_IO);
}

/* --- housekeeping --- */

struct seen {
    struct df_storage *st;
    struct df_storage_entry entries[64];
    size_t count;
    bool remove;
};

static void see(void *arg, const struct df_storage_entry *e)
{
    struct seen *s = arg;

    assert_true(s->count < LEN(s->entries));
    s->entries[s->count++] = *e;
    if (s->remove)
        assert_int_equal(df_storage_remove(s->st, &e->batch, NULL, NULL), DF_OK);
}

static const struct df_storage_entry *entry_of(const struct seen *s, const struct df_uuid *batch)
{
    for (size_t i = 0; i < s->count; i++)
        if (strcmp(s->entries[i].batch.text, batch->text) == 0)
            return &s->entries[i];
    fail_msg("%s was not seen", batch->text);
    return NULL;
}

static void test_directories_are_listed_with_age_and_state(void **state)
{
    struct df_storage *st = storage(NULL);
    struct df_uuid whole = fresh_batch(), going = fresh_batch(), old = fresh_batch();
    struct df_storage_writer *w;
    char sum[DF_CHECKSUM_LEN + 1], other[128];
    const struct timespec then[2] = {{.tv_sec = time(NULL) - 7200}, {.tv_sec = time(NULL) - 7200}};
    (void)state;

    store(st, &whole, "a", DF_STR("abc"), sum);
    assert_int_equal(df_storage_create(st, &going, -1, &w, NULL), DF_OK);
    store(st, &old, "a", DF_STR("abcdef"), sum);
    assert_int_equal(utimensat(AT_FDCWD, at(&old, "/original/a"), then, 0), 0);
    assert_int_equal(utimensat(AT_FDCWD, at(&old, "/original"), then, 0), 0);
    assert_int_equal(utimensat(AT_FDCWD, at(&old, ""), then, 0), 0);
    (void)snprintf(other, sizeof(other), "%s/imports/lost+found", dir);
    assert_int_equal(mkdir(other, 0700), 0);

    struct seen s = {.st = st};
    assert_int_equal(df_storage_each(st, see, &s, NULL), DF_OK);
    assert_int_equal(s.count, 3);
    assert_int_equal(entry_of(&s, &whole)->size_bytes, 3);
    assert_in_range(entry_of(&s, &whole)->age_ms, 0, 600000);
    assert_in_range(entry_of(&s, &going)->age_ms, 0, 600000);
    assert_in_range(entry_of(&s, &old)->age_ms, 7190000, 7800000);
    df_storage_abort(w);

    s = (struct seen){.st = st, .remove = true};
    assert_int_equal(df_storage_each(st, see, &s, NULL), DF_OK);
    assert_int_equal(s.count, 2);
    s = (struct seen){.st = st};
    assert_int_equal(df_storage_each(st, see, &s, NULL), DF_OK);
    assert_int_equal(s.count, 0);
    assert_true(exists(other));
    df_storage_free(st);
}

static void test_all_of_a_batch_is_removed(void **state)
{
    struct df_storage *st = storage(NULL);
    struct df_uuid batch = fresh_batch();
    char sum[DF_CHECKSUM_LEN + 1];
    (void)state;

    store(st, &batch, "a", DF_STR("abc"), sum);
    assert_int_equal(mkdir(at(&batch, "/chunks"), 0700), 0);
    assert_int_equal(close(open(at(&batch, "/chunks/1.json"), O_CREAT | O_WRONLY, 0600)), 0);
    assert_int_equal(df_storage_remove(st, &batch, NULL, NULL), DF_OK);
    assert_false(exists(at(&batch, "")));
    df_storage_free(st);
}

static void test_a_directory_that_was_removed_is_made_again(void **state)
{
    struct df_storage *st = storage(NULL);
    struct df_uuid lost = fresh_batch(), next = fresh_batch();
    char sum[DF_CHECKSUM_LEN + 1];
    struct df_err err = DF_ERR_INIT;
    (void)state;

    store(st, &lost, "a", DF_STR("abc"), sum);
    assert_int_equal(remove_dir(NULL), 0);
    store(st, &next, "b", DF_STR("def"), sum);
    expect_content(st, &next, "b", DF_STR("def"));
    assert_true(exists(at(&next, "/original/b")));
    assert_int_equal(try_open(st, &lost, "a", &err), DF_E_NOT_FOUND);
    df_storage_free(st);
}

/* --- scheduled files that stay --- */

static void test_local_scheduled_files_stay_where_they_are(void **state)
{
    struct df_storage *st = storage(NULL);
    struct df_uuid batch = fresh_batch(), other = fresh_batch();
    char sum[DF_CHECKSUM_LEN + 1], location[DF_STORAGE_LOCATION_MAX + 1];
    struct df_err err = DF_ERR_INIT;
    (void)state;

    assert_false(df_storage_has_remote(st));
    store(st, &batch, "a", DF_STR("abc"), sum);
    assert_int_equal(df_storage_put_scheduled(st, &batch, DF_STR("a"), location, &err), DF_OK);
    assert_string_equal(location, at(&batch, ""));
    assert_int_equal(df_storage_drop_local(st, &batch, location, &err), DF_OK);
    assert_int_equal(df_storage_fetch(st, &batch, DF_STR("a"), location, NULL, &err), DF_OK);
    expect_content(st, &batch, "a", DF_STR("abc"));
    assert_int_equal(df_storage_fetch(st, &other, DF_STR("a"), location, NULL, &err),
                     DF_E_NOT_FOUND);
    assert_int_equal(df_storage_fetch(st, &other, DF_STR("a"), "s3://b/p/x", NULL, &err),
                     DF_E_CONFIG);
    assert_int_equal(df_storage_remove(st, &batch, location, &err), DF_OK);
    assert_false(exists(at(&batch, "")));
    df_storage_free(st);
}

static void test_wrong_settings_are_named(void **state)
{
    static const struct {
        const char *key;
        const char *scheduled;
        const char *endpoint;
        const char *region;
        const char *access;
        const char *complaint;
    } cases[] = {
        {"too short", NULL, NULL, NULL, NULL, "security.storage_key_file"},
        {NULL, "ftp://x", NULL, NULL, NULL, "imports.scheduled_storage"},
        {NULL, "s3://", NULL, NULL, "k", "imports.scheduled_storage"},
        {NULL, "s3://Bucket", NULL, NULL, "k", "imports.scheduled_storage"},
        {NULL, "s3://bucket/../x", NULL, NULL, "k", "imports.scheduled_storage"},
        {NULL, "s3://bucket//x", NULL, NULL, "k", "imports.scheduled_storage"},
        {NULL, "s3://bucket/a b", NULL, NULL, "k", "imports.scheduled_storage"},
        {NULL, "s3://bucket/" X10("abcdefghij"), NULL, NULL, "k", "imports.scheduled_storage"},
        {NULL, "s3://bucket/x", NULL, NULL, NULL, "s3.access_key"},
        {NULL, "s3://bucket/x", NULL, "a:b", "k", "s3.region"},
        {NULL, "s3://bucket/x", "host", NULL, "k", "s3.endpoint"},
        {NULL, "s3://bucket/x", "ftp://host", NULL, "k", "s3.endpoint"},
        {NULL, "s3://bucket/x", "https://user:pw@host", NULL, "k", "s3.endpoint"},
        {NULL, "s3://bucket/x", "https://host/path", NULL, "k", "s3.endpoint"},
        {NULL, "s3://bucket/x/", "https://host:9000/", "eu-west-1", "k", NULL},
        {NULL, "s3://bucket", NULL, NULL, "k", NULL},
        {NULL, "local", NULL, NULL, NULL, NULL},
    };
    (void)state;

    for (size_t i = 0; i < LEN(cases); i++) {
        struct df_secret *k = df_secret_new(df_str_c(cases[i].key));
        struct df_secret *access = df_secret_new(df_str_c(cases[i].access));
        struct df_storage_options opt = {
            .data_dir = dir,
            .settings.key = k,
            .settings.scheduled = cases[i].scheduled,
            .settings.s3 = {.endpoint = cases[i].endpoint,
                            .region = cases[i].region,
                            .access_key = access,
                            .secret_key = access},
        };
        struct df_err err = DF_ERR_INIT;
        struct df_storage *st = NULL;
        enum df_code code = df_storage_new(&opt, &st, &err);
        if (code != (cases[i].complaint ? DF_E_CONFIG : DF_OK))
            fail_msg("case %zu: %s", i, err.detail);
        if (cases[i].complaint && !strstr(err.detail, cases[i].complaint))
            fail_msg("case %zu: %s", i, err.detail);
        df_storage_free(st);
        df_secret_free(k);
        df_secret_free(access);
    }
}

/* --- crashes --- */

/* Stores one file after the other; says the batch's id when finish has returned. */
__attribute__((noreturn)) static void store_for_ever(const struct df_secret *with, int out_fd)
{
    struct df_storage *st = storage(with);
    static char text[300000];

    memset(text, 'x', sizeof(text));
    for (;;) {
        struct df_uuid batch = fresh_batch();
        char sum[DF_CHECKSUM_LEN + 1];
        store(st, &batch, "a.json", df_str_n(text, sizeof(text)), sum);
        if (write(out_fd, batch.text, DF_UUID_LEN) != DF_UUID_LEN)
            _exit(1);
    }
}

static void see_after_crash(void *arg, const struct df_storage_entry *e)
{
    struct seen *s = arg;
    char sum[DF_CHECKSUM_LEN + 1];
    uint64_t size = 0;
    enum df_code code = df_storage_checksum(s->st, &e->batch, DF_STR("a.json"), sum, &size, NULL);

    /* Under its own name a file is whole, or it is not there. */
    assert_int_equal(code, size == 300000 ? DF_OK : DF_E_NOT_FOUND);
    s->count += code == DF_OK;
    assert_int_equal(df_storage_remove(s->st, &e->batch, NULL, NULL), DF_OK);
}

static void test_a_killed_writer_leaves_whole_files_or_temporary_ones(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 30; round++) {
        const struct df_secret *with = round % 2 ? key : NULL;
        int pipe_fds[2];
        assert_int_equal(pipe(pipe_fds), 0);
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0)
            store_for_ever(with, pipe_fds[1]);
        (void)close(pipe_fds[1]);
        (void)usleep(3000 + (round * 7919) % 15000);
        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_int_equal(waitpid(pid, NULL, 0), pid);

        struct df_storage *st = storage(with);
        struct df_uuid batch = {0};
        size_t finished = 0;
        for (; read(pipe_fds[0], batch.text, DF_UUID_LEN) == DF_UUID_LEN; finished++)
            assert_int_equal(try_open(st, &batch, "a.json", NULL), DF_OK);
        (void)close(pipe_fds[0]);
        struct seen s = {.st = st};
        assert_int_equal(df_storage_each(st, see_after_crash, &s, NULL), DF_OK);
        assert_in_range(s.count, finished, finished + 1);
        df_storage_free(st);
    }
}

/* A limit of the process's file size fails as a full disk does, in the middle. */
static void test_a_failed_write_leaves_nothing(void **state)
{
    struct df_storage *st = storage(NULL);
    (void)state;

    for (size_t i = 0; i < 2; i++) {
        struct df_uuid batch = fresh_batch();
        struct df_storage_writer *w;
        struct rlimit before, limit;
        char sum[DF_CHECKSUM_LEN + 1];
        char *text = calloc(1, (size_t)1 << 20);
        uint64_t size;
        enum df_code code;

        (void)signal(SIGXFSZ, SIG_IGN);
        assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
        limit = before;
        limit.rlim_cur = 50000;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        assert_int_equal(df_storage_create(st, &batch, -1, &w, NULL), DF_OK);
        /* Once when it is written, once when what is left is flushed. */
        code = df_storage_write(w, text, i == 0 ? (size_t)1 << 20 : 60000, NULL);
        if (i == 0)
            df_storage_abort(w);
        else
            code = df_storage_finish(w, DF_STR("a"), sum, &size, NULL);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        assert_int_equal(code, DF_E_IO);
        assert_false(exists(at(&batch, "")));
        free(text);
    }
    df_storage_free(st);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_dir, remove_dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_what_is_stored_comes_back),
        TEST(test_what_is_stored_encrypted_comes_back),
        TEST(test_files_are_for_the_server_alone),
        TEST(test_the_disk_never_sees_plain_text_when_there_is_a_key),
        TEST(test_keys_change_while_files_wait),
        TEST(test_files_come_under_the_current_key),
        TEST(test_what_cannot_be_encrypted_anew_stays),
        TEST(test_a_plain_upload_cannot_pose_as_an_encrypted_one),
        TEST(test_a_second_upload_of_a_batch_is_refused),
        TEST(test_an_unknown_batch_has_no_file),
        TEST(test_names_become_harmless),
        TEST(test_long_names_are_cut_between_characters),
        TEST(test_files_with_any_name_stay_in_their_directory),
        TEST(test_links_are_not_followed),
        TEST(test_directories_are_listed_with_age_and_state),
        TEST(test_all_of_a_batch_is_removed),
        TEST(test_a_directory_that_was_removed_is_made_again),
        TEST(test_local_scheduled_files_stay_where_they_are),
        TEST(test_wrong_settings_are_named),
        TEST(test_a_killed_writer_leaves_whole_files_or_temporary_ones),
        TEST(test_a_failed_write_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, make_keys, free_keys);
}

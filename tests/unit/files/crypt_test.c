/* Encrypted files: what comes back, and that nothing that was changed does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"
#include "files/crypt.h"
#include "keys_from.h"

#include <stdlib.h>

#define LEN(a)  (sizeof(a) / sizeof((a)[0]))
#define SEGMENT ((size_t)DF_CRYPT_SEGMENT_BYTES)
#define STORED  (SEGMENT + DF_CRYPT_EXTRA_BYTES)
#define MIB     ((size_t)1 << 20)
#define HEADER  ((size_t)DF_CRYPT_HEADER_BYTES)

static const char key_text[] = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
static struct df_secret *key;
static struct df_secret *other_key;

static int make_keys(void **state)
{
    (void)state;
    key = df_secret_key_new(df_str_c(key_text));
    other_key = df_secret_key_new(DF_STR("//////////////////////////////////////////8="));
    return key && other_key ? 0 : 1;
}

static int free_keys(void **state)
{
    (void)state;
    df_secret_free(key);
    df_secret_free(other_key);
    return 0;
}

/* --- helpers --- */

static enum df_code put(void *arg, const void *ptr, size_t len, struct df_err *err)
{
    (void)err;
    df_buf_add(arg, ptr, len);
    return DF_OK;
}

static char plain_byte(uint64_t at)
{
    return (char)((at * 2654435761U) >> 7);
}

/* size bytes, written in pieces of `piece`. */
static struct df_buf encrypt(size_t size, size_t piece, const struct df_secret *with)
{
    struct df_buf out;
    struct df_crypt_writer *w;
    char *text = malloc(size + 1);

    for (size_t i = 0; i < size; i++)
        text[i] = plain_byte(i);
    df_buf_init(&out, (size_t)16 << 20);
    const struct df_crypt_keys keys = {.given = with};
    assert_int_equal(df_crypt_writer_new(&keys, (struct df_crypt_sink){put, &out}, &w, NULL),
                     DF_OK);
    for (size_t at = 0; at < size; at += piece)
        assert_int_equal(df_crypt_write(w, text + at, size - at < piece ? size - at : piece, NULL),
                         DF_OK);
    assert_int_equal(df_crypt_end(w, NULL), DF_OK);
    df_crypt_writer_free(w);
    free(text);
    return out;
}

static enum df_code read_buf(void *arg, uint64_t offset, char *ptr, size_t len, size_t *ret_len,
                             struct df_err *err)
{
    const struct df_buf *b = arg;
    size_t left = offset < b->len ? b->len - (size_t)offset : 0;

    (void)err;
    *ret_len = len < left ? len : left;
    if (*ret_len > 0)
        memcpy(ptr, b->ptr + offset, *ret_len);
    return DF_OK;
}

static enum df_code open_buf(struct df_buf *b, const struct df_secret *with,
                             struct df_crypt_reader **ret, struct df_err *err)
{
    struct df_bytes raw = {.read_at = read_buf, .arg = b, .size = b->len};
    const struct df_crypt_keys keys = {.old = with};

    return df_crypt_open(&raw, &keys, ret, err);
}

/* Opens and reads all of it; DF_OK and what was written, or an error. */
static enum df_code read_all(struct df_buf *b, size_t expected, struct df_err *err)
{
    struct df_crypt_reader *r;
    enum df_code code = open_buf(b, key, &r, err);
    if (code != DF_OK)
        return code;

    struct df_bytes bytes = df_crypt_bytes(r);
    char *text = malloc(bytes.size + 1);
    size_t n = 0;
    code = bytes.read_at(bytes.arg, 0, text, bytes.size + 1, &n, err);
    if (code == DF_OK) {
        assert_int_equal(bytes.size, expected);
        assert_int_equal(n, expected);
        for (size_t i = 0; i < n; i++)
            if (text[i] != plain_byte(i))
                fail_msg("byte %zu is another", i);
    }
    free(text);
    df_crypt_reader_free(r);
    return code;
}

/* --- what is written comes back --- */

static void test_any_length_comes_back(void **state)
{
    static const size_t sizes[] = {0,           1,
                                   41,          SEGMENT - 1,
                                   SEGMENT,     SEGMENT + 1,
                                   2 * SEGMENT, 2 * SEGMENT + 41,
                                   3 * SEGMENT, 5 * SEGMENT + 777};
    static const size_t pieces[] = {1000, SEGMENT, 3 * SEGMENT + 5};
    (void)state;

    for (size_t i = 0; i < LEN(sizes); i++) {
        for (size_t j = 0; j < LEN(pieces); j++) {
            struct df_buf b = encrypt(sizes[i], pieces[j], key);
            size_t segments = sizes[i] == 0 ? 1 : (sizes[i] + SEGMENT - 1) / SEGMENT;
            assert_int_equal(b.len, HEADER + sizes[i] + segments * DF_CRYPT_EXTRA_BYTES);
            assert_int_equal(read_all(&b, sizes[i], NULL), DF_OK);
            df_buf_release(&b);
        }
    }
}

static void test_any_place_can_be_read_first(void **state)
{
    size_t size = 3 * SEGMENT + 100;
    struct df_buf b = encrypt(size, 4096, key);
    struct df_crypt_reader *r;
    char text[300];
    (void)state;

    assert_int_equal(open_buf(&b, key, &r, NULL), DF_OK);
    struct df_bytes bytes = df_crypt_bytes(r);
    static const size_t places[] = {3 * SEGMENT + 50, 0, 2 * SEGMENT - 150, SEGMENT, SEGMENT - 1};
    for (size_t i = 0; i < LEN(places); i++) {
        size_t n = 0;
        size_t left = size - places[i];
        assert_int_equal(bytes.read_at(bytes.arg, places[i], text, sizeof(text), &n, NULL), DF_OK);
        assert_int_equal(n, left < sizeof(text) ? left : sizeof(text));
        for (size_t k = 0; k < n; k++)
            assert_int_equal(text[k], plain_byte(places[i] + k));
    }
    size_t n = 1;
    assert_int_equal(bytes.read_at(bytes.arg, size, text, 1, &n, NULL), DF_OK);
    assert_int_equal(n, 0);
    assert_int_equal(bytes.read_at(bytes.arg, UINT64_MAX, text, 1, &n, NULL), DF_OK);
    assert_int_equal(n, 0);
    df_crypt_reader_free(r);
    df_buf_release(&b);
}

static void test_the_same_content_is_never_the_same_file(void **state)
{
    struct df_buf a = encrypt(1000, 1000, key);
    struct df_buf b = encrypt(1000, 1000, key);
    (void)state;

    assert_memory_equal(a.ptr, "DFE1\0\1\0\0", 8);
    assert_memory_not_equal(a.ptr + 8, b.ptr + 8, 16);
    assert_memory_equal(a.ptr + 24, b.ptr + 24, 8);
    assert_memory_not_equal(a.ptr + HEADER, b.ptr + HEADER, 1000);
    df_buf_release(&a);
    df_buf_release(&b);
}

/* --- what was changed does not --- */

static void expect_noticed(struct df_buf *b, size_t size, const char *what, size_t at)
{
    struct df_err err = DF_ERR_INIT;
    enum df_code code = read_all(b, size, &err);

    if (code != DF_E_INTERNAL && code != DF_E_CONFIG)
        fail_msg("%s at %zu: %s (%s)", what, at, df_code_name(code), err.detail);
}

static void test_a_changed_byte_is_noticed(void **state)
{
    size_t size = 2 * SEGMENT + 10;
    struct df_buf b = encrypt(size, SEGMENT, key);
    (void)state;

    /* All of the header, the beginnings and ends of segments, and some of the rest. */
    for (size_t at = 0; at < b.len; at++) {
        size_t in = at < HEADER ? 0 : (at - HEADER) % STORED;
        if (in > 48 && in < STORED - 20 && at < b.len - 20 && at % 9973 != 0)
            continue;
        b.ptr[at] = (char)(b.ptr[at] ^ 0x10);
        expect_noticed(&b, size, "a bit turned", at);
        b.ptr[at] = (char)(b.ptr[at] ^ 0x10);
    }
    assert_int_equal(read_all(&b, size, NULL), DF_OK);
    df_buf_release(&b);
}

static void test_a_cut_file_is_noticed_at_once(void **state)
{
    size_t size = 3 * SEGMENT;
    struct df_buf b = encrypt(size, SEGMENT, key);
    size_t whole = b.len;
    struct df_crypt_reader *r;
    (void)state;

    for (size_t segments = 0; segments < 3; segments++) {
        static const size_t rests[] = {0, 1, 23, 24, 40, 41, 42, 1000, STORED - 1};
        for (size_t i = 0; i < LEN(rests); i++) {
            b.len = HEADER + segments * STORED + rests[i];
            assert_int_equal(open_buf(&b, key, &r, NULL), DF_E_INTERNAL);
        }
    }
    for (b.len = 0; b.len < HEADER; b.len++)
        assert_int_equal(open_buf(&b, key, &r, NULL), DF_E_INTERNAL);
    b.len = whole;
    assert_int_equal(read_all(&b, size, NULL), DF_OK);
    df_buf_release(&b);
}

static void test_a_lengthened_file_is_noticed_at_once(void **state)
{
    static const size_t more[] = {1, 40, 41, 42, STORED};
    struct df_crypt_reader *r;
    (void)state;

    for (size_t size = 0; size <= 2 * SEGMENT; size += SEGMENT / 2) {
        for (size_t i = 0; i < LEN(more); i++) {
            struct df_buf b = encrypt(size, SEGMENT, key);
            /* By bytes of its own: its last segment again, or a part of it. */
            char *tail = malloc(STORED);
            memset(tail, 0, STORED);
            size_t n = b.len - HEADER < STORED ? b.len - HEADER : STORED;
            memcpy(tail, b.ptr + b.len - n, n);
            df_buf_add(&b, tail, more[i]);
            assert_int_equal(open_buf(&b, key, &r, NULL), DF_E_INTERNAL);
            free(tail);
            df_buf_release(&b);
        }
    }
}

static void swap(char *a, char *b, size_t len)
{
    char *t = malloc(len);

    memcpy(t, a, len);
    memcpy(a, b, len);
    memcpy(b, t, len);
    free(t);
}

static void test_moved_segments_are_noticed(void **state)
{
    size_t size = 4 * SEGMENT;
    struct df_buf b = encrypt(size, SEGMENT, key);
    struct df_buf other = encrypt(size, SEGMENT, key);
    (void)state;

    for (size_t i = 0; i < 4; i++) {
        for (size_t j = i + 1; j < 4; j++) {
            char *x = b.ptr + HEADER + i * STORED, *y = b.ptr + HEADER + j * STORED;
            swap(x, y, STORED);
            expect_noticed(&b, size, "segments changed places", i);
            swap(x, y, STORED);
        }
        char *x = b.ptr + HEADER + i * STORED, *y = other.ptr + HEADER + i * STORED;
        swap(x, y, STORED);
        expect_noticed(&b, size, "a segment of another file", i);
        swap(x, y, STORED);
    }
    swap(b.ptr, other.ptr, HEADER);
    expect_noticed(&b, size, "the header of another file", 0);
    df_buf_release(&b);
    df_buf_release(&other);
}

static void test_another_key_is_named_as_the_reason(void **state)
{
    struct df_buf b = encrypt(10, 10, key);
    struct df_err err = DF_ERR_INIT;
    struct df_crypt_reader *r;
    (void)state;

    assert_int_equal(open_buf(&b, other_key, &r, &err), DF_E_CONFIG);
    assert_non_null(strstr(err.detail, "security.storage_key_file"));
    err = DF_ERR_INIT;
    assert_int_equal(open_buf(&b, NULL, &r, &err), DF_E_CONFIG);
    assert_non_null(strstr(err.detail, "security.storage_key_file"));
    df_buf_release(&b);
}

static void test_the_header_names_the_data_key(void **state)
{
    struct df_keys *ring = df_keys_from(df_clock_real(), (const unsigned char[DF_KEY_BYTES]){1});
    struct df_crypt_keys keys = {.ring = ring};
    const struct df_crypt_keys storage_key = {.given = key, .ring = ring};
    struct df_buf out, given = encrypt(10, 10, key);
    struct df_crypt_writer *w;
    struct df_crypt_reader *r;
    struct df_err err = DF_ERR_INIT;
    (void)state;

    df_keys_add(ring, 513, (const unsigned char[DF_KEY_BYTES]){2});
    df_keys_use(ring, 513);
    df_buf_init(&out, MIB);
    assert_int_equal(df_crypt_writer_new(&keys, (struct df_crypt_sink){put, &out}, &w, NULL),
                     DF_OK);
    assert_int_equal(df_crypt_write(w, "text", 4, NULL), DF_OK);
    assert_int_equal(df_crypt_end(w, NULL), DF_OK);
    df_crypt_writer_free(w);
    assert_memory_equal(out.ptr + 24, "DK\0\0\1\2\0\0", 8);
    assert_int_equal(df_crypt_data_key(df_buf_str(&out)), 513);
    assert_int_equal(df_crypt_data_key(df_str_n(out.ptr, HEADER - 1)), 0);
    assert_int_equal(df_crypt_data_key(df_buf_str(&given)), 0);
    assert_int_equal(df_crypt_data_key(DF_STR("a plain file that is longer than a header")), 0);

    struct df_bytes raw = {.read_at = read_buf, .arg = &out, .size = out.len};
    assert_int_equal(df_crypt_open(&raw, &keys, &r, &err), DF_OK);
    assert_int_equal(df_crypt_bytes(r).size, 4);
    df_crypt_reader_free(r);
    /* Whether a file is as a new one would be. */
    assert_true(df_crypt_is_current(&keys, df_buf_str(&out)));
    assert_false(df_crypt_is_current(&keys, df_buf_str(&given)));
    assert_false(df_crypt_is_current(&keys, DF_STR("a plain one")));
    assert_false(df_crypt_is_current(&storage_key, df_buf_str(&out)));
    assert_true(df_crypt_is_current(&storage_key, df_buf_str(&given)));
    assert_true(df_crypt_is_current(&(struct df_crypt_keys){0}, DF_STR("a plain one")));
    df_keys_use(ring, 1);
    assert_false(df_crypt_is_current(&keys, df_buf_str(&out)));

    out.ptr[29] = 3; /* of the data key's id */
    assert_int_equal(df_crypt_open(&raw, &keys, &r, &err), DF_E_CONFIG);
    assert_non_null(strstr(err.detail, "data key 769"));
    keys.ring = NULL;
    assert_int_equal(df_crypt_open(&raw, &keys, &r, &err), DF_E_CONFIG);
    df_buf_release(&out);
    df_buf_release(&given);
    df_keys_free(ring);
}

static void test_keys_are_hexadecimal_or_base64(void **state)
{
    static const struct {
        const char *text;
        bool ok;
    } cases[] = {
        {key_text, true},
        {"000102030405060708090A0B0C0D0E0F101112131415161718191A1B1C1D1E1F", true},
        {"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", true},
        {"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8", true},
        {"", false},
        {"0123456789abcdef0123456789abcdef", false},
        {"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1", false},
        {"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1g", false},
        {"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8!", false},
        {"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gIQ==", false},
    };
    (void)state;

    for (size_t i = 0; i < LEN(cases); i++) {
        struct df_secret *s = df_secret_key_new(df_str_c(cases[i].text));
        if ((s != NULL) != cases[i].ok)
            fail_msg("%s", cases[i].text);
        if (s)
            assert_true(i == 1 || df_bytes_equal(df_secret_str(s).ptr, df_secret_str(key).ptr, 32));
        df_secret_free(s);
    }
    assert_null(df_secret_key_new(DF_STR_NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_length_comes_back),
        cmocka_unit_test(test_any_place_can_be_read_first),
        cmocka_unit_test(test_the_same_content_is_never_the_same_file),
        cmocka_unit_test(test_a_changed_byte_is_noticed),
        cmocka_unit_test(test_a_cut_file_is_noticed_at_once),
        cmocka_unit_test(test_a_lengthened_file_is_noticed_at_once),
        cmocka_unit_test(test_moved_segments_are_noticed),
        cmocka_unit_test(test_another_key_is_named_as_the_reason),
        cmocka_unit_test(test_the_header_names_the_data_key),
        cmocka_unit_test(test_keys_are_hexadecimal_or_base64),
    };
    return cmocka_run_group_tests(tests, make_keys, free_keys);
}

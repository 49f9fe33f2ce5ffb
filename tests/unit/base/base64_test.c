#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/base64.h"
#include "base/buf.h"

#include <sodium.h>
#include <stdlib.h>

/* Pieces and room are exactly as large as is promised, for ASan. */
static enum df_code decode(struct df_str text, size_t step, struct df_buf *out, struct df_err *err)
{
    struct df_base64 d;
    enum df_code rc = DF_OK;
    char last[DF_BASE64_ROOM(0)];
    size_t len;

    df_buf_reset(out);
    df_base64_init(&d);
    for (size_t at = 0, n; rc == DF_OK && at < text.len; at += n) {
        n = text.len - at < step ? text.len - at : step;
        char *piece = malloc(n);
        char *room = malloc(DF_BASE64_ROOM(n));
        memcpy(piece, text.ptr + at, n);
        rc = df_base64_feed(&d, df_str_n(piece, n), room, &len, err);
        df_buf_add(out, room, len);
        free(piece);
        free(room);
    }
    if (rc == DF_OK) {
        rc = df_base64_finish(&d, last, &len, err);
        df_buf_add(out, last, len);
    }
    return rc;
}

static void texts_are_decoded_however_they_arrive(void **state)
{
    static const struct {
        const char *text;
        const char *want;
    } table[] = {
        {"", ""},
        {" \r\n\t", ""},
        {"Zg==", "f"},
        {"Zg", "f"},
        {"Zm8=", "fo"},
        {"Zm8", "fo"},
        {"Zm9v", "foo"},
        {"Zm9vYg==", "foob"},
        {"Zm9vYmFy", "foobar"},
        {"Zm9vYmFyZm9vYmFyZm9vYmFyZm9vYmFyZg", "foobarfoobarfoobarfoobarf"},
        {" Z\nm9v\r\nYmFyZm9vY  mFyZm\t9vYmF y\n", "foobarfoobarfoobar"},
        {"Zg\n=\n=\n", "f"},
        {"-_+/", "\xFB\xFF\xBF"},
        {"-_-_+/+/", "\xFB\xFF\xBF\xFB\xFF\xBF"},
        {"data:;base64,Zm9v", "foo"},
        {"\n data:text/csv;charset=utf-8;base64, Zm9v", "foo"},
        {"DATA:application/vnd.openxmlformats-officedocument.spreadsheetml.sheet;name=x;Base64,Zg",
         "f"},
        {"data:text/csv;base64,", ""},
        {"d", NULL}, /* like the first of "data:", but a text of its own */
        {"dA==", "t"},
        {"dat=", NULL},
        {"data", "u\xAB\x5A"},
        {"dataZm9v", "u\xAB\x5A"
                     "foo"},
        {"DATa", "\x0C\x04\xDA"},
        {" d a t a", "u\xAB\x5A"},
    };
    struct df_buf out;

    (void)state;
    df_buf_init(&out, 4096);
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct df_str text = df_str_c(table[i].text);
        for (size_t step = 1; step <= text.len + 1; step++) {
            struct df_err err = DF_ERR_INIT;
            enum df_code rc = decode(text, step, &out, &err);
            if (rc != (table[i].want ? DF_OK : DF_E_BAD_REQUEST) ||
                (rc == DF_OK && !df_str_eq(df_buf_str(&out), df_str_c(table[i].want))))
                fail_msg("%s in steps of %zu: %s, %zu bytes", text.ptr, step, err.detail, out.len);
        }
    }
    df_buf_release(&out);
}

static void what_is_no_base64_is_refused_with_its_place(void **state)
{
    static const struct {
        const char *text;
        int64_t offset;
    } table[] = {
        {"Z", 1},
        {"Zm9vZ", 5},
        {"Zh==", 4}, /* bits that nobody would have written */
        {"Zm9=", 4},
        {"=", 0},
        {"Z=", 1},
        {"Zm9v=", 4},
        {"Zg=", 3},
        {"Zg===", 4},
        {"Zm8==", 4},
        {"Zg==Zg==", 4},
        {"Zg=Z", 3},
        {"Zm9vYmFyZm9v*mFy", 12},
        {"Zm9vYmFyZm9vYmFyZm9vYmF\xC3\xA9", 23},
        {"Zm9v\vZm9v", 4},
        {"dat!", 3},
        {"data!", 4},
        {" data!", 5},
        {"data:text/csv,foo", 13},
        {"data:base64,foo", 11},
        {"data:;base64", 12},
        {"data:;base64,Z?", 14},
        {"Zm9vdata:;base64,Zg", 8},
    };
    struct df_buf out;

    (void)state;
    df_buf_init(&out, 4096);
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct df_str text = df_str_c(table[i].text);
        for (size_t step = 1; step <= text.len + 1; step++) {
            struct df_err err = DF_ERR_INIT;
            enum df_code rc = decode(text, step, &out, &err);
            if (rc != DF_E_BAD_REQUEST || err.offset != table[i].offset || !err.detail[0])
                fail_msg("%s in steps of %zu: %s at %lld", text.ptr, step, df_code_name(rc),
                         (long long)err.offset);
        }
    }
    df_buf_release(&out);
}

static void the_prefix_of_a_data_url_is_bounded(void **state)
{
    struct df_buf text;
    struct df_buf out;
    struct df_err err = DF_ERR_INIT;

    (void)state;
    df_buf_init(&text, 4096);
    df_buf_init(&out, 4096);
    for (int over = 0; over < 2; over++) {
        df_buf_reset(&text);
        df_buf_addf(&text, "data:%*s;base64,Zg", DF_BASE64_PREFIX_MAX - 12 + over, "x");
        assert_int_equal(decode(df_buf_str(&text), 50, &out, &err),
                         over ? DF_E_BAD_REQUEST : DF_OK);
    }
    df_buf_release(&text);
    df_buf_release(&out);
}

/* Random bytes in every variant that libsodium writes, and in lines. */
static void what_libsodium_encodes_is_decoded(void **state)
{
    static const int variants[] = {
        sodium_base64_VARIANT_ORIGINAL, sodium_base64_VARIANT_ORIGINAL_NO_PADDING,
        sodium_base64_VARIANT_URLSAFE, sodium_base64_VARIANT_URLSAFE_NO_PADDING};
    unsigned char bytes[600];
    char text[1000];
    struct df_buf out;
    struct df_buf lines;
    struct df_err err = DF_ERR_INIT;

    (void)state;
    df_buf_init(&out, 4096);
    df_buf_init(&lines, 4096);
    for (size_t len = 0; len < sizeof(bytes); len++) {
        randombytes_buf(bytes, len);
        int variant = variants[len / 3 % 4];
        sodium_bin2base64(text, sizeof(text), bytes, len, variant);
        assert_int_equal(decode(df_str_c(text), 1 + len % 100, &out, &err), DF_OK);
        assert_true(df_str_eq(df_buf_str(&out), df_str_n((const char *)bytes, len)));

        df_buf_reset(&lines);
        for (size_t at = 0; at < strlen(text); at += 76)
            df_buf_addf(&lines, "%.76s\r\n", text + at);
        assert_int_equal(decode(df_buf_str(&lines), 1 + len % 100, &out, &err), DF_OK);
        assert_true(df_str_eq(df_buf_str(&out), df_str_n((const char *)bytes, len)));
    }
    df_buf_release(&out);
    df_buf_release(&lines);
}

/* Texts of few letters, right and wrong: the same verdict as libsodium's, which knows one alphabet
 * and one rule of padding at a time. */
static void verdicts_are_libsodiums(void **state)
{
    static const char letters[] = "AQgw/+=  \n!";
    uint32_t seed = 7;
    struct df_buf out;

    (void)state;
    df_buf_init(&out, 4096);
    for (int round = 0; round < 200000; round++) {
        char text[24];
        unsigned char want[24];
        size_t want_len;
        struct df_err err = DF_ERR_INIT;
        size_t len = (seed >> 9) % sizeof(text);
        for (size_t i = 0; i < len; i++) {
            seed = seed * 1664525 + 1013904223;
            text[i] = letters[(seed >> 16) % (sizeof(letters) - 1)];
        }
        seed = seed * 1664525 + 1013904223;
        bool ok = sodium_base642bin(want, sizeof(want), text, len, " \n", &want_len, NULL,
                                    sodium_base64_VARIANT_ORIGINAL) == 0 ||
                  sodium_base642bin(want, sizeof(want), text, len, " \n", &want_len, NULL,
                                    sodium_base64_VARIANT_ORIGINAL_NO_PADDING) == 0;
        bool ours = decode(df_str_n(text, len), 1 + round % 9, &out, &err) == DF_OK;
        if (ok != ours ||
            (ok && !df_str_eq(df_buf_str(&out), df_str_n((const char *)want, want_len))))
            fail_msg("%.*s: libsodium %d, ours %d %s", (int)len, text, ok, ours, err.detail);
    }
    df_buf_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_decoded_however_they_arrive),
        cmocka_unit_test(what_is_no_base64_is_refused_with_its_place),
        cmocka_unit_test(the_prefix_of_a_data_url_is_bounded),
        cmocka_unit_test(what_libsodium_encodes_is_decoded),
        cmocka_unit_test(verdicts_are_libsodiums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

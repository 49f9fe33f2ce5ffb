/* Escaping against a slow model: every kind, every room, and nothing written past the end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/escape.h"
#include "fake_clock.h"

#include <stdio.h>
#include <string.h>

#define TEXT_MAX 80
#define GUARD    32

/* Byte by byte; returns the length, and how many bytes of text it took. */
static size_t model(struct df_str text, enum df_escape kind, size_t room, char *out, size_t *taken)
{
    static const char shorts[] = "\b\t\n\f\r\"\\";
    size_t len = 0, i = 0;

    while (i < text.len) {
        unsigned char c = (unsigned char)text.ptr[i];
        struct df_str rest = df_str_n(text.ptr + i, text.len - i);
        size_t valid = df_utf8_valid_prefix(df_str_n(rest.ptr, rest.len < 4 ? rest.len : 4));
        size_t n = c < 0x80 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
        const char *at = strchr(shorts, c);
        char one[8];
        int m;
        if (n > 1 && valid < n && kind != DF_ESCAPE_VALID) {
            m = snprintf(one, sizeof(one), "\xEF\xBF\xBD");
            n = 1;
        } else if (c && at) {
            m = snprintf(one, sizeof(one), "\\%c", "btnfr\"\\"[at - shorts]);
        } else if (c < 0x20 || (kind == DF_ESCAPE_LINE && c == 0x7F)) {
            m = snprintf(one, sizeof(one), "\\u%04x", c);
        } else if (kind == DF_ESCAPE_LINE && c == 0xC2 && (unsigned char)rest.ptr[1] < 0xA0) {
            m = snprintf(one, sizeof(one), "\\u%04x", (unsigned char)rest.ptr[1]);
        } else if (kind == DF_ESCAPE_LINE && n == 3 &&
                   (memcmp(rest.ptr, "\xE2\x80\xA8", 3) == 0 ||
                    memcmp(rest.ptr, "\xE2\x80\xA9", 3) == 0)) {
            m = snprintf(one, sizeof(one), "\\u202%c",
                         (unsigned char)rest.ptr[2] == 0xA8 ? '8' : '9');
        } else {
            n = kind == DF_ESCAPE_VALID ? 1 : n;
            memcpy(one, rest.ptr, n);
            m = (int)n;
        }
        if (len + (size_t)m > room)
            break;
        memcpy(out + len, one, (size_t)m);
        len += (size_t)m;
        i += n;
    }
    *taken = i;
    return len;
}

/* Mostly plain, with runs of any length, and what is special or no UTF-8 in between. */
static size_t random_text(struct df_fake_clock *f, char *text)
{
    static const char *const pieces[] = {
        "a",
        "plain text",
        "\"",
        "\\",
        "\n",
        "\b",
        "\x01",
        "\x1F",
        "\x7F",
        "\xC2\x85",
        "\xC2\xA0",
        "\xC3\xA7",
        "\xE2\x80\xA8",
        "\xE2\x80\xA9",
        "\xE2\x80\xAA",
        "\xF0\x9F\x98\x80",
        "\xED\xA0\x80",
        "\xC0",
        "\xE2\x80",
        "\xFF",
        "sixteen bytes ..",
    };
    size_t len = 0;
    size_t wanted = df_random_below(&f->base, TEXT_MAX);

    while (len < wanted) {
        const char *p = pieces[df_random_below(&f->base, sizeof(pieces) / sizeof(pieces[0]))];
        if (df_random_below(&f->base, 3) > 0)
            p = "b";
        if (len + strlen(p) > TEXT_MAX)
            break;
        memcpy(text + len, p, strlen(p));
        len += strlen(p);
    }
    return len;
}

static void random_texts_come_out_as_the_model_has_them(void **state)
{
    (void)state;
    struct df_fake_clock f;
    char text[TEXT_MAX], out[DF_ESCAPE_GROWTH * TEXT_MAX + 2 * GUARD], want[sizeof(out)];

    df_fake_clock_init(&f, 0, 9);
    for (int round = 0; round < 4000; round++) {
        struct df_str s = df_str_n(text, random_text(&f, text));
        if (round % 3 == DF_ESCAPE_VALID)
            s.len = df_utf8_valid_prefix(s);
        enum df_escape kind = (enum df_escape)(round % 3);
        size_t most =
            round % 7 == 0 ? DF_ESCAPE_GROWTH * s.len + 16 : df_random_below(&f.base, 100);
        struct df_str rest = s;
        size_t taken;
        memset(out, '#', sizeof(out));
        size_t want_len = model(s, kind, most, want, &taken);
        size_t len = (size_t)(df_escape(out, out + most, &rest, kind) - out);
        if (kind == DF_ESCAPE_VALID && len != want_len)
            assert_true(len < want_len && most - len < 4); /* the model cuts characters */
        else
            assert_int_equal(len, want_len);
        assert_memory_equal(out, want, len);
        if (len == want_len)
            assert_int_equal(s.len - rest.len, taken);
        for (size_t i = most; i < most + GUARD; i++)
            assert_int_equal(out[i], '#');
    }
}

static void a_buffer_takes_all_of_it_or_fails(void **state)
{
    (void)state;
    struct df_fake_clock f;
    char text[TEXT_MAX], want[DF_ESCAPE_GROWTH * TEXT_MAX];

    df_fake_clock_init(&f, 0, 10);
    for (int round = 0; round < 2000; round++) {
        struct df_str s = df_str_n(text, random_text(&f, text));
        struct df_buf b;
        size_t taken;
        size_t len = model(s, DF_ESCAPE_JSON, SIZE_MAX / 2, want, &taken);
        size_t max = df_random_below(&f.base, 2 * len + 2);
        df_buf_init(&b, max);
        df_buf_add_escaped(&b, s);
        assert_int_equal(df_buf_failed(&b), len > max);
        assert_true(b.len <= max);
        assert_memory_equal(df_buf_str(&b).ptr, want, b.len);
        if (len <= max)
            assert_int_equal(b.len, len);
        df_buf_release(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_texts_come_out_as_the_model_has_them),
        cmocka_unit_test(a_buffer_takes_all_of_it_or_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* utf16.h, against the C library's iconv */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/utf16.h"
#include "fake_clock.h"

#include <iconv.h>
#include <stdlib.h>

#define LEN(a)     (sizeof(a) / sizeof((a)[0]))

#define POINTS     (0x110000 - 0x800)
#define TEXT_MAX   200
#define UTF8_MAX   4
#define UTF16_MAX  2
#define CANARY     0x5AA5
#define ROUNDS     20000
#define SURROGATES 0xD800
#define PLANES     0x10000

static bool is_surrogate(uint32_t point)
{
    return point >= SURROGATES && point < 0xE000;
}

/* Characters in another form, by the C library. */
static size_t convert(const char *to, const uint32_t *points, size_t count, void *out, size_t size)
{
    union {
        const uint32_t *points;
        char *bytes;
    } in = {.points = points};
    size_t in_left = count * sizeof(*points);
    size_t left = size;
    char *at = out;
    iconv_t c = iconv_open(to, __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? "UTF-32LE" : "UTF-32BE");

    assert_true(c != (iconv_t)-1);
    assert_int_equal(iconv(c, &in.bytes, &in_left, &at, &left), 0);
    assert_int_equal(iconv_close(c), 0);
    return size - left;
}

/* Both ways, with room for what the header asks and not a unit more. */
static void check_text(const uint32_t *points, size_t count)
{
    const char *utf16 = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? "UTF-16LE" : "UTF-16BE";
    char *utf8 = malloc(count * UTF8_MAX + 1);
    uint16_t *want = malloc(count * sizeof(*want) * UTF16_MAX + 1);
    struct df_str s = df_str_n(utf8, convert("UTF-8", points, count, utf8, count * UTF8_MAX));
    size_t units = convert(utf16, points, count, want, count * sizeof(*want) * UTF16_MAX) / 2;
    uint16_t *got = malloc((s.len + 1) * sizeof(*got));
    char *back = malloc(units * DF_UTF8_PER_UTF16 + 1);

    got[s.len] = CANARY;
    assert_int_equal(df_utf8_valid_prefix(s), s.len);
    assert_int_equal(df_utf8_count(s), units);
    assert_int_equal(df_utf16_from_utf8(s, got), units);
    assert_int_equal(got[s.len], CANARY);
    assert_memory_equal(got, want, units * sizeof(*got));

    back[units * DF_UTF8_PER_UTF16] = 'Z';
    assert_int_equal(df_utf16_to_utf8(got, units, back), s.len);
    assert_int_equal(back[units * DF_UTF8_PER_UTF16], 'Z');
    assert_memory_equal(back, utf8, s.len);
    free(utf8);
    free(want);
    free(got);
    free(back);
}

static void every_character_has_one_form_in_each(void **state)
{
    uint32_t *points = malloc(POINTS * sizeof(*points));
    size_t count = 0;
    (void)state;

    for (uint32_t point = 0; point < 0x110000; point++) {
        if (!is_surrogate(point))
            points[count++] = point;
    }
    assert_int_equal(count, POINTS);
    check_text(points, count);
    free(points);
}

static void nothing_is_nothing(void **state)
{
    uint16_t unit = CANARY;
    char byte = 'Z';
    (void)state;

    assert_int_equal(df_utf8_count(DF_STR("")), 0);
    assert_int_equal(df_utf16_from_utf8(DF_STR(""), &unit), 0);
    assert_int_equal(df_utf16_to_utf8(&unit, 0, &byte), 0);
    assert_int_equal(df_utf16_from_utf8(DF_STR_NULL, &unit), 0);
    assert_int_equal(unit, CANARY);
    assert_int_equal(byte, 'Z');
}

/* The first and the last of each length, in texts of all lengths, at every place in them. */
static void characters_at_the_edges_stand_anywhere(void **state)
{
    static const uint32_t edges[] = {0x0,    0x7F,   0x80,   0x7FF,   0x800,   0xD7FF,
                                     0xE000, 0xFFFD, 0xFFFF, 0x10000, 0x103FF, 0x10FFFF};
    uint32_t points[40];
    (void)state;

    for (size_t e = 0; e < LEN(edges); e++) {
        for (size_t count = 1; count <= LEN(points); count++) {
            for (size_t at = 0; at < count; at++) {
                for (size_t i = 0; i < count; i++)
                    points[i] = i == at ? edges[e] : 'a';
                check_text(points, count);
            }
        }
    }
}

static void any_text_comes_back_as_it_was(void **state)
{
    /* Below which a character is: so that all lengths are about as frequent. */
    static const uint32_t bounds[] = {0x80, 0x800, PLANES, 0x110000};
    struct df_fake_clock f;
    uint32_t points[TEXT_MAX];
    (void)state;

    df_fake_clock_init(&f, 0, 16);
    for (int round = 0; round < ROUNDS; round++) {
        size_t count = df_random_below(&f.base, TEXT_MAX + 1);
        for (size_t i = 0; i < count; i++) {
            uint32_t bound = bounds[df_random_below(&f.base, LEN(bounds))];
            points[i] = (uint32_t)df_random_below(&f.base, bound);
            points[i] -= is_surrogate(points[i]) ? 0x800 : 0;
        }
        check_text(points, count);
    }
}

static void half_a_pair_becomes_the_replacement_character(void **state)
{
    static const struct {
        uint16_t units[4];
        size_t count;
        const char *utf8;
    } cases[] = {
        {{0xD800}, 1, "\xEF\xBF\xBD"},
        {{0xDBFF}, 1, "\xEF\xBF\xBD"},
        {{0xDC00}, 1, "\xEF\xBF\xBD"},
        {{0xDFFF}, 1, "\xEF\xBF\xBD"},
        {{'a', 0xD800}, 2, "a\xEF\xBF\xBD"},
        {{0xD800, 'a'},
         2,
         "\xEF\xBF\xBD"
         "a"},
        {{'a', 0xDC00, 'b'},
         3,
         "a\xEF\xBF\xBD"
         "b"},
        {{0xDC00, 0xD800}, 2, "\xEF\xBF\xBD\xEF\xBF\xBD"},
        {{0xD800, 0xD800, 0xDC00}, 3, "\xEF\xBF\xBD\xF0\x90\x80\x80"},
        {{0xD800, 0xDC00, 0xDC00}, 3, "\xF0\x90\x80\x80\xEF\xBF\xBD"},
        {{0xDBFF, 0xDFFF, 0xDBFF, 0xE000}, 4, "\xF4\x8F\xBF\xBF\xEF\xBF\xBD\xEE\x80\x80"},
    };
    char out[4 * DF_UTF8_PER_UTF16];
    (void)state;

    for (size_t i = 0; i < LEN(cases); i++) {
        size_t len = df_utf16_to_utf8(cases[i].units, cases[i].count, out);
        assert_int_equal(len, strlen(cases[i].utf8));
        assert_memory_equal(out, cases[i].utf8, len);
    }
}

/* Whatever a server sends: valid, within its room, and unchanged but for the halves. */
static void any_units_become_valid_text(void **state)
{
    struct df_fake_clock f;
    uint16_t units[TEXT_MAX];
    uint16_t back[TEXT_MAX * DF_UTF8_PER_UTF16];
    char utf8[TEXT_MAX * DF_UTF8_PER_UTF16];
    (void)state;

    df_fake_clock_init(&f, 0, 61);
    for (int round = 0; round < ROUNDS; round++) {
        size_t count = df_random_below(&f.base, TEXT_MAX + 1);
        for (size_t i = 0; i < count; i++) {
            bool any = df_random_below(&f.base, 2) == 0;
            units[i] = (uint16_t)(any ? df_random_below(&f.base, PLANES)
                                      : SURROGATES + df_random_below(&f.base, 0x800));
        }
        struct df_str s = df_str_n(utf8, df_utf16_to_utf8(units, count, utf8));
        assert_true(s.len <= count * DF_UTF8_PER_UTF16);
        assert_int_equal(df_utf8_valid_prefix(s), s.len);
        assert_int_equal(df_utf16_from_utf8(s, back), count);
        for (size_t i = 0; i < count; i++) {
            bool pair = is_surrogate(back[i]);
            assert_int_equal(back[i], !pair && is_surrogate(units[i]) ? 0xFFFD : units[i]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_character_has_one_form_in_each),
        cmocka_unit_test(nothing_is_nothing),
        cmocka_unit_test(characters_at_the_edges_stand_anywhere),
        cmocka_unit_test(any_text_comes_back_as_it_was),
        cmocka_unit_test(half_a_pair_becomes_the_replacement_character),
        cmocka_unit_test(any_units_become_valid_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * Inline functions for the bytes of JSON text: runs of plain text, UTF-8, white space. Private to
 * json/.
 *
 * A run of plain text is found sixteen bytes at a time with SSE2, which every x86-64 has, and eight
 * at a time in a general register elsewhere. Both are always compiled where they can be, and tested
 * against each other; DF_JSON_PORTABLE chooses the second one everywhere.
 */
#ifndef DF_JSON_LEX_H
#define DF_JSON_LEX_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

/* A byte that needs a closer look inside a string: quote, backslash, control character, or not
 * ASCII. */
static inline int df_json_is_special(unsigned char c)
{
    return c < 0x20 || c >= 0x80 || c == '"' || c == '\\';
}

/* The first special byte of [p, end), or end. */
static inline const char *df_json_plain_swar(const char *p, const char *end)
{
    const uint64_t ones = 0x0101010101010101U;
    const uint64_t tops = 0x8080808080808080U;

    /* (x - ones) & ~x has a top bit set where x has a zero byte, and at or above that byte only. */
    while (end - p >= 8) {
        uint64_t w;
        memcpy(&w, p, 8);
        uint64_t quote = w ^ (ones * '"');
        uint64_t slash = w ^ (ones * '\\');
        uint64_t found =
            ((quote - ones) & ~quote) | ((slash - ones) & ~slash) | ((w - ones * 0x20) & ~w) | w;
        if (found & tops)
            break;
        p += 8;
    }
    while (p < end && !df_json_is_special((unsigned char)*p))
        p++;
    return p;
}

#if defined(__SSE2__)
static inline const char *df_json_plain_sse2(const char *p, const char *end)
{
    while (end - p >= 16) {
        __m128i v = _mm_loadu_si128((const __m128i *)(const void *)p);
        __m128i quote = _mm_cmpeq_epi8(v, _mm_set1_epi8('"'));
        __m128i slash = _mm_cmpeq_epi8(v, _mm_set1_epi8('\\'));
        /* As signed bytes, those that are not ASCII are negative, so one comparison finds both. */
        __m128i other = _mm_cmplt_epi8(v, _mm_set1_epi8(0x20));
        int found = _mm_movemask_epi8(_mm_or_si128(_mm_or_si128(quote, slash), other));
        if (found)
            return p + __builtin_ctz((unsigned)found);
        p += 16;
    }
    return df_json_plain_swar(p, end);
}
#endif

static inline const char *df_json_plain(const char *p, const char *end)
{
#if defined(__SSE2__) && !defined(DF_JSON_PORTABLE)
    return df_json_plain_sse2(p, end);
#else
    return df_json_plain_swar(p, end);
#endif
}

#define DF_JSON_UTF8_BAD (-1)
#define DF_JSON_UTF8_CUT (-2)

/*
 * Length of the UTF-8 sequence at p, whose first byte is not ASCII. CUT: the input ends inside a
 * valid sequence. Overlong forms, surrogates and code points above U+10FFFF are invalid.
 */
static inline int df_json_utf8(const char *at, const char *end)
{
    const unsigned char *p = (const unsigned char *)at;
    ptrdiff_t have = end - at;
    unsigned char low = 0x80, high = 0xBF; /* range of the second byte */
    int len;

    if (p[0] < 0xC2 || p[0] > 0xF4)
        return DF_JSON_UTF8_BAD;
    if (p[0] < 0xE0) {
        len = 2;
    } else if (p[0] < 0xF0) {
        len = 3;
        if (p[0] == 0xE0)
            low = 0xA0;
        else if (p[0] == 0xED)
            high = 0x9F;
    } else {
        len = 4;
        if (p[0] == 0xF0)
            low = 0x90;
        else if (p[0] == 0xF4)
            high = 0x8F;
    }
    if (have < 2)
        return DF_JSON_UTF8_CUT;
    if (p[1] < low || p[1] > high)
        return DF_JSON_UTF8_BAD;
    for (int i = 2; i < len; i++) {
        if (i == have)
            return DF_JSON_UTF8_CUT;
        if ((p[i] & 0xC0) != 0x80)
            return DF_JSON_UTF8_BAD;
    }
    return len;
}

static inline int df_json_is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* Most white space is nothing, one space, or an indentation. */
static inline const char *df_json_skip_space(const char *p, const char *end)
{
    if (p < end && (unsigned char)*p > ' ')
        return p;
    while (p < end && df_json_is_space(*p)) {
        uint64_t w;
        p++;
        while (end - p >= 8 && (memcpy(&w, p, 8), w == 0x2020202020202020U))
            p += 8;
    }
    return p;
}

static inline int df_json_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

#endif

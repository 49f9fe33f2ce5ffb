/*
 * Runs of plain text are copied while they are looked at, sixteen bytes at a time with SSE2, which
 * every x86-64 has, and eight at a time elsewhere. A copy may go past the first byte that is not
 * plain; the excess is overwritten.
 */
#include "base/escape.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

static inline bool is_plain(unsigned char c, enum df_escape kind)
{
    return c >= 0x20 && c != '"' && c != '\\' && (c < 0x80 || kind == DF_ESCAPE_VALID) &&
           (c != 0x7F || kind != DF_ESCAPE_LINE);
}

/* Whether eight bytes are plain. One beside a byte that is not may be taken for another such. */
static inline bool are_plain(uint64_t w, enum df_escape kind)
{
    const uint64_t ones = 0x0101010101010101U;
    uint64_t quote = w ^ (ones * '"'), slash = w ^ (ones * '\\'), del = w ^ (ones * 0x7F);
    uint64_t found =
        ((quote - ones) & ~quote) | ((slash - ones) & ~slash) | ((w - ones * 0x20) & ~w);

    if (kind == DF_ESCAPE_LINE)
        found |= (del - ones) & ~del;
    if (kind != DF_ESCAPE_VALID)
        found |= w;
    return (found & (ones * 0x80)) == 0;
}

#if defined(__SSE2__)
/* A bit for each of the sixteen bytes that is not plain. */
static inline unsigned find_special(__m128i v, enum df_escape kind)
{
    __m128i quote = _mm_cmpeq_epi8(v, _mm_set1_epi8('"'));
    __m128i slash = _mm_cmpeq_epi8(v, _mm_set1_epi8('\\'));
    __m128i found = _mm_or_si128(quote, slash);
    /* As signed bytes, those that are not ASCII are negative: one comparison finds both. */
    __m128i low = kind == DF_ESCAPE_VALID ? _mm_cmpeq_epi8(_mm_min_epu8(v, _mm_set1_epi8(0x1F)), v)
                                          : _mm_cmplt_epi8(v, _mm_set1_epi8(0x20));
    if (kind == DF_ESCAPE_LINE)
        found = _mm_or_si128(found, _mm_cmpeq_epi8(v, _mm_set1_epi8(0x7F)));
    return (unsigned)_mm_movemask_epi8(_mm_or_si128(found, low));
}
#endif

static size_t put_code(char *out, unsigned code)
{
    static const char hex[] = "0123456789abcdef";
    static const char shorts[] = "btn?fr"; /* from 8 on; 11 has none */

    out[0] = '\\';
    if (code == '"' || code == '\\') {
        out[1] = (char)code;
        return 2;
    }
    if (code >= 8 && code <= 13 && code != 11) {
        out[1] = shorts[code - 8];
        return 2;
    }
    out[1] = 'u';
    for (int i = 0; i < 4; i++)
        out[2 + i] = hex[code >> (12 - 4 * i) & 15];
    return 6;
}

/* Writes the escaped form of the character at p, which is not plain, to out; its own length to
 * *ret_taken. */
static size_t escape_one(const char *p, const char *end, enum df_escape kind, char out[8],
                         size_t *ret_taken)
{
    const unsigned char *u = (const unsigned char *)p;
    size_t len = *u < 0x80 ? 1 : df_utf8_char(p, end);

    *ret_taken = len > 0 ? len : 1;
    if (len == 1)
        return put_code(out, *u);
    if (len == 0) {
        static const char replacement[] = {'\xEF', '\xBF', '\xBD'};
        memcpy(out, replacement, sizeof(replacement));
        return sizeof(replacement);
    }
    if (kind == DF_ESCAPE_LINE && u[0] == 0xC2 && u[1] < 0xA0)
        return put_code(out, u[1]);
    if (kind == DF_ESCAPE_LINE && u[0] == 0xE2 && u[1] == 0x80 && (u[2] | 1) == 0xA9)
        return put_code(out, 0x2000U + (u[2] & 0x3FU));
    memcpy(out, p, len);
    return len;
}

/* Copies the last few bytes at once, if they are plain: the last eight, of which some may lie
 * before p. */
static inline char *copy_rest(char *to, const char *stop, const char *begin, const char **p,
                              const char *end, enum df_escape kind)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    ptrdiff_t left = end - *p;
    uint64_t w;

    if (left == 0 || left >= 8 || end - begin < 8 || stop - to < 8)
        return to;
    memcpy(&w, end - 8, 8);
    w = w >> (8 * (8 - left)) | UINT64_C(0x6161616161616161) << (8 * left);
    if (!are_plain(w, kind))
        return to;
    memcpy(to, &w, 8);
    *p = end;
    return to + left;
#else
    (void)stop, (void)begin, (void)p, (void)end, (void)kind;
    return to;
#endif
}

/* Compiled once for each kind, so that the checks of other kinds cost nothing. */
static inline __attribute__((always_inline)) char *
escape_text(char *to, const char *stop, struct df_str *text, enum df_escape kind)
{
    const char *p = text->ptr, *end = p + text->len;

    for (;;) {
#if defined(__SSE2__)
        while (end - p >= 16 && stop - to >= 16) {
            __m128i v = _mm_loadu_si128((const __m128i *)(const void *)p);
            unsigned special = find_special(v, kind);
            int plain = special ? __builtin_ctz(special) : 16;
            _mm_storeu_si128((__m128i *)(void *)to, v);
            p += plain;
            to += plain;
            if (special)
                break;
        }
#endif
        uint64_t w;
        while (end - p >= 8 && stop - to >= 8 && (memcpy(&w, p, 8), are_plain(w, kind))) {
            memcpy(to, &w, 8);
            p += 8;
            to += 8;
        }
        to = copy_rest(to, stop, text->ptr, &p, end, kind);
        const char *again = end - p > 16 ? p + 16 : end; /* then sixteen at a time may work again */
        while (p < again && to < stop) {
            size_t n = is_plain((unsigned char)*p, kind)                     ? 1
                       : kind == DF_ESCAPE_JSON && (unsigned char)*p >= 0x80 ? df_utf8_char(p, end)
                                                                             : 0;
            if (n == 0 || n > (size_t)(stop - to))
                break;
            while (n-- > 0)
                *to++ = *p++;
        }
        if (p == end || to == stop)
            break;
        if (p >= again)
            continue;
        char out[8];
        size_t taken;
        size_t len = escape_one(p, end, kind, out, &taken);
        if (len > (size_t)(stop - to))
            break;
        memcpy(to, out, len);
        to += len;
        p += taken;
    }
    *text = df_str_n(p, (size_t)(end - p));
    return to;
}

char *df_escape(char *to, const char *stop, struct df_str *text, enum df_escape kind)
{
    if (text->len == 0)
        return to;
    switch (kind) {
    case DF_ESCAPE_JSON:
        return escape_text(to, stop, text, DF_ESCAPE_JSON);
    case DF_ESCAPE_VALID:
        return escape_text(to, stop, text, DF_ESCAPE_VALID);
    case DF_ESCAPE_LINE:
        return escape_text(to, stop, text, DF_ESCAPE_LINE);
    }
    return to;
}

/* The result is at least as long as the text. Each round reserves that much room, uses all room
 * there is, and goes on with the rest of the text. */
void df_buf_add_escaped(struct df_buf *b, struct df_str text)
{
    while (text.len > 0) {
        char one[8];
        char *to = df_buf_grow(b, text.len);
        if (!to)
            return;
        size_t room = b->cap - 1 < b->max ? b->cap - 1 : b->max;
        char *end = escape_text(to, b->ptr + room, &text, DF_ESCAPE_JSON);
        df_buf_grown(b, (size_t)(end - to));
        if (end == to) { /* not even the next character fits */
            end = escape_text(one, one + sizeof(one), &text, DF_ESCAPE_JSON);
            df_buf_add(b, one, (size_t)(end - one));
        }
    }
}

#include "base/utf16.h"

#define REPLACEMENT 0xFFFD

static bool is_high(uint16_t unit)
{
    return (unit & 0xFC00) == 0xD800;
}

static bool is_low(uint16_t unit)
{
    return (unit & 0xFC00) == 0xDC00;
}

size_t df_utf16_from_utf8(struct df_str s, uint16_t *out)
{
    const unsigned char *p = (const unsigned char *)s.ptr;
    const unsigned char *end = p + s.len;
    uint16_t *start = out;

    while (p < end) {
        unsigned c = *p++;
        if (c < 0x80) {
            *out++ = (uint16_t)c;
        } else if (c < 0xE0) {
            *out++ = (uint16_t)((c & 0x1F) << 6 | (p[0] & 0x3F));
            p += 1;
        } else if (c < 0xF0) {
            *out++ = (uint16_t)((c & 0x0F) << 12 | (p[0] & 0x3F) << 6 | (p[1] & 0x3F));
            p += 2;
        } else {
            unsigned point =
                ((c & 0x07) << 18 | (p[0] & 0x3FU) << 12 | (p[1] & 0x3FU) << 6 | (p[2] & 0x3FU)) -
                0x10000;
            *out++ = (uint16_t)(0xD800 | point >> 10);
            *out++ = (uint16_t)(0xDC00 | (point & 0x3FF));
            p += 3;
        }
    }
    return (size_t)(out - start);
}

static char *put_point(char *p, unsigned point)
{
    if (point < 0x80) {
        *p++ = (char)point;
        return p;
    }
    if (point < 0x800) {
        *p++ = (char)(0xC0 | point >> 6);
    } else {
        if (point < 0x10000) {
            *p++ = (char)(0xE0 | point >> 12);
        } else {
            *p++ = (char)(0xF0 | point >> 18);
            *p++ = (char)(0x80 | (point >> 12 & 0x3F));
        }
        *p++ = (char)(0x80 | (point >> 6 & 0x3F));
    }
    *p++ = (char)(0x80 | (point & 0x3F));
    return p;
}

size_t df_utf16_to_utf8(const uint16_t *units, size_t count, char *out)
{
    char *p = out;

    for (size_t i = 0; i < count; i++) {
        unsigned unit = units[i];
        if (is_high(units[i]) && i + 1 < count && is_low(units[i + 1])) {
            i++;
            unit = 0x10000 + ((unit & 0x3FF) << 10 | (units[i] & 0x3FFU));
        } else if (is_high(units[i]) || is_low(units[i])) {
            unit = REPLACEMENT;
        }
        p = put_point(p, unit);
    }
    return (size_t)(p - out);
}

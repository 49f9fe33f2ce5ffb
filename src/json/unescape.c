#include "json/lex.h"
#include "json/scan.h"

static unsigned hex4(const char *p)
{
    unsigned v = 0;
    for (int i = 0; i < 4; i++)
        v = v << 4 | (unsigned)df_hex_digit(p[i]);
    return v;
}

/* Writes the code point as UTF-8 and returns past it. */
static char *put_utf8(char *out, unsigned c)
{
    if (c < 0x80) {
        *out++ = (char)c;
        return out;
    }
    if (c < 0x800) {
        *out++ = (char)(0xC0 | c >> 6);
    } else {
        if (c < 0x10000) {
            *out++ = (char)(0xE0 | c >> 12);
        } else {
            *out++ = (char)(0xF0 | c >> 18);
            *out++ = (char)(0x80 | (c >> 12 & 0x3F));
        }
        *out++ = (char)(0x80 | (c >> 6 & 0x3F));
    }
    *out++ = (char)(0x80 | (c & 0x3F));
    return out;
}

static char unescaped(char c)
{
    switch (c) {
    case 'b':
        return '\b';
    case 'f':
        return '\f';
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case 't':
        return '\t';
    default:
        return c;
    }
}

struct df_str df_json_unescape(struct df_str text, char *out)
{
    const char *p = text.ptr;
    const char *end = p + text.len;
    char *to = out;

    for (;;) {
        const char *slash = p < end ? memchr(p, '\\', (size_t)(end - p)) : NULL;
        size_t plain = (size_t)((slash ? slash : end) - p);
        memcpy(to, p, plain);
        to += plain;
        if (!slash)
            return df_str_n(out, (size_t)(to - out));
        if (slash[1] != 'u') {
            *to++ = unescaped(slash[1]);
            p = slash + 2;
            continue;
        }
        unsigned c = hex4(slash + 2);
        p = slash + 6;
        if (c >= 0xD800 && c <= 0xDBFF) {
            c = 0x10000 + ((c - 0xD800) << 10) + (hex4(p + 2) - 0xDC00);
            p += 6;
        }
        to = put_utf8(to, c);
    }
}

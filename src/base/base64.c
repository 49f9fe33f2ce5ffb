#include "base/base64.h"

#include <endian.h>

enum {
    SPACE = 0x80, /* set for bytes that are in no alphabet */
    PAD,
    BAD,
};

enum {
    BEGIN, /* may be a data: URL: bytes that look like one are kept in `prefix` */
    URL,   /* in a data: URL, before its comma */
    TEXT,
    PADDED,
};

/* clang-format off */
#define B BAD
#define S SPACE
static const unsigned char values[256] = {
    B, B, B, B, B, B, B, B, B, S, S, B, S, S, B, B,  B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B,
    S, B, B, B, B, B, B, B, B, B, B,62, B,62, B,63, 52,53,54,55,56,57,58,59,60,61, B, B, B,PAD,B, B,
    B, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9,10,11,12,13,14, 15,16,17,18,19,20,21,22,23,24,25, B, B, B, B,63,
    B,26,27,28,29,30,31,32,33,34,35,36,37,38,39,40, 41,42,43,44,45,46,47,48,49,50,51, B, B, B, B, B,
    B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B,  B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B,
    B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B,  B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B,
    B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B,  B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B,
    B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B,  B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B,
};
#undef B
#undef S
/* clang-format on */

void df_base64_init(struct df_base64 *d)
{
    d->state = BEGIN;
    d->bits = 0;
    d->count = 0;
    d->pads = 0;
    d->offset = 0;
    d->prefix_len = 0;
}

/* The 24 bits of four characters; BAD_GROUP when one of them is not of the alphabet. */
#define BAD_GROUP 0x80000000U
static inline uint32_t group_at(const char *p)
{
    uint32_t a = values[(unsigned char)p[0]];
    uint32_t b = values[(unsigned char)p[1]];
    uint32_t c = values[(unsigned char)p[2]];
    uint32_t d = values[(unsigned char)p[3]];

    return a << 18 | b << 12 | c << 6 | d | ((a | b | c | d) & SPACE) << 24;
}

/* Decodes whole groups, two at a time, up to the first other byte; moves *out. Writes a few bytes
 * too many, for which there is room; the next bytes overwrite them. */
static const char *decode_groups(const char *p, const char *end, char **out)
{
    char *to = *out;

    for (; end - p >= 8; p += 8, to += 6) {
        uint32_t first = group_at(p);
        uint32_t second = group_at(p + 4);
        if ((first | second) & BAD_GROUP)
            break;
        uint64_t v = htobe64((uint64_t)first << 40 | (uint64_t)second << 16);
        memcpy(to, &v, sizeof(v));
    }
    if (end - p >= 4) {
        uint32_t one = group_at(p);
        if (!(one & BAD_GROUP)) {
            one = htobe32(one << 8);
            memcpy(to, &one, sizeof(one));
            p += 4;
            to += 3;
        }
    }
    *out = to;
    return p;
}

static enum df_code bad_byte(const struct df_base64 *d, int64_t offset, struct df_err *err)
{
    const char *why =
        d->state == PADDED ? "after the padding there is more" : "a byte is not base64";
    return df_err_at(err, DF_E_BAD_REQUEST, offset, "%s, at byte %lld", why, (long long)offset);
}

/* Writes the bytes of the last group; its spare bits must be zero, or the text was cut. */
static enum df_code end_group(struct df_base64 *d, char **out, struct df_err *err)
{
    unsigned spare = d->count == 2 ? 4 : 2;

    if (d->count == 0)
        return DF_OK;
    if (d->count == 1 || (d->bits & ((1U << spare) - 1)) != 0)
        return df_err_at(err, DF_E_BAD_REQUEST, d->offset,
                         "the base64 text ends within a group, at byte %lld", (long long)d->offset);
    uint32_t v = d->bits >> spare;
    if (d->count == 3)
        *(*out)++ = (char)(v >> 8);
    *(*out)++ = (char)v;
    d->count = 0;
    return DF_OK;
}

static enum df_code take_pad(struct df_base64 *d, struct df_err *err)
{
    if (d->state == TEXT && d->count >= 2) {
        d->pads = 4 - d->count;
        d->state = PADDED;
    }
    if (d->pads == 0)
        return bad_byte(d, d->offset, err);
    d->pads--;
    return DF_OK;
}

static void take_char(struct df_base64 *d, unsigned value, char **out)
{
    d->bits = d->bits << 6 | value;
    if (++d->count == 4) {
        *(*out)++ = (char)(d->bits >> 16);
        *(*out)++ = (char)(d->bits >> 8);
        *(*out)++ = (char)d->bits;
        d->count = 0;
        d->bits = 0;
    }
}

static enum df_code decode_text(struct df_base64 *d, struct df_str text, char **out,
                                struct df_err *err)
{
    const char *p = text.ptr;
    const char *end = p + text.len;
    enum df_code rc = DF_OK;

    while (rc == DF_OK && p < end) {
        const char *from = p;
        if (d->count == 0 && d->state == TEXT)
            p = decode_groups(p, end, out);
        d->offset += p - from;
        if (p == end)
            break;
        unsigned value = values[(unsigned char)*p++];
        if (value == PAD)
            rc = take_pad(d, err);
        else if (value == BAD || (value != SPACE && d->state == PADDED))
            rc = bad_byte(d, d->offset, err);
        else if (value != SPACE)
            take_char(d, value, out);
        d->offset++;
    }
    return rc;
}

static char lower_case(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

/* The kept prefix is base64 text after all; its offsets count from the start, white space aside. */
static enum df_code give_up_url(struct df_base64 *d, char **out, struct df_err *err)
{
    d->state = TEXT;
    d->offset -= (int64_t)d->prefix_len;
    return decode_text(d, df_str_n(d->prefix, d->prefix_len), out, err);
}

/* Takes one byte that may belong to the prefix of a data: URL. *ret_used: false if it is text. */
static enum df_code take_prefix(struct df_base64 *d, char c, char **out, bool *ret_used,
                                struct df_err *err)
{
    static const char scheme[] = "data:";
    const struct df_str mark = DF_STR(";base64");

    *ret_used = true;
    if (d->state == BEGIN) {
        if (d->prefix_len == 0 && values[(unsigned char)c] == SPACE)
            return DF_OK;
        *ret_used = lower_case(c) == scheme[d->prefix_len];
        if (!*ret_used)
            return give_up_url(d, out, err);
        d->prefix[d->prefix_len++] = c;
        if (d->prefix_len == sizeof(scheme) - 1)
            d->state = URL;
        return DF_OK;
    }
    if (c == ',') {
        struct df_str s = df_str_n(d->prefix, d->prefix_len);
        d->state = TEXT;
        if (s.len > mark.len && df_str_ieq(df_str_n(s.ptr + s.len - mark.len, mark.len), mark))
            return DF_OK;
        return df_err_at(err, DF_E_BAD_REQUEST, d->offset, "the data: URL is not one of base64");
    }
    if (d->prefix_len == sizeof(d->prefix))
        return df_err_at(err, DF_E_BAD_REQUEST, d->offset, "the data: URL has no comma");
    d->prefix[d->prefix_len++] = c;
    return DF_OK;
}

enum df_code df_base64_feed(struct df_base64 *d, struct df_str text, char *out, size_t *ret_len,
                            struct df_err *err)
{
    char *to = out;
    enum df_code rc = DF_OK;

    while (rc == DF_OK && text.len > 0 && (d->state == BEGIN || d->state == URL)) {
        bool used;
        rc = take_prefix(d, text.ptr[0], &to, &used, err);
        if (used) {
            d->offset++;
            text.ptr++;
            text.len--;
        }
    }
    if (rc == DF_OK && text.len > 0)
        rc = decode_text(d, text, &to, err);
    *ret_len = (size_t)(to - out);
    return rc;
}

enum df_code df_base64_finish(struct df_base64 *d, char *out, size_t *ret_len, struct df_err *err)
{
    char *to = out;
    enum df_code rc = DF_OK;

    if (d->state == URL)
        rc = df_err_at(err, DF_E_BAD_REQUEST, d->offset, "the data: URL has no comma");
    else if (d->state == BEGIN)
        rc = give_up_url(d, &to, err);
    if (rc == DF_OK && d->pads > 0)
        rc = df_err_at(err, DF_E_BAD_REQUEST, d->offset,
                       "the padding of the base64 text is incomplete, at byte %lld",
                       (long long)d->offset);
    if (rc == DF_OK)
        rc = end_group(d, &to, err);
    *ret_len = (size_t)(to - out);
    return rc;
}

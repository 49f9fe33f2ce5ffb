#include "base/str.h"

static unsigned char fold(char c)
{
    unsigned char u = (unsigned char)c;
    return u >= 'A' && u <= 'Z' ? (unsigned char)(u | 0x20) : u;
}

bool df_str_ieq(struct df_str a, struct df_str b)
{
    if (a.len != b.len)
        return false;
    for (size_t i = 0; i < a.len; i++) {
        if (fold(a.ptr[i]) != fold(b.ptr[i]))
            return false;
    }
    return true;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

struct df_str df_str_trim(struct df_str s)
{
    while (s.len > 0 && is_blank(s.ptr[0])) {
        s.ptr++;
        s.len--;
    }
    while (s.len > 0 && is_blank(s.ptr[s.len - 1]))
        s.len--;
    return s;
}

struct df_str df_str_cut(struct df_str s, char sep, struct df_str *head)
{
    const char *at = s.len > 0 ? memchr(s.ptr, sep, s.len) : NULL;
    if (!at) {
        *head = s;
        return DF_STR_NULL;
    }
    size_t before = (size_t)(at - s.ptr);
    *head = df_str_n(s.ptr, before);
    return df_str_n(at + 1, s.len - before - 1);
}

bool df_str_to_i64(struct df_str s, int64_t *ret)
{
    bool negative = s.len > 0 && s.ptr[0] == '-';
    size_t i = negative ? 1 : 0;
    int64_t v = 0;

    if (i == s.len)
        return false;
    for (; i < s.len; i++) {
        if (s.ptr[i] < '0' || s.ptr[i] > '9')
            return false;
        int64_t digit = s.ptr[i] - '0';
        /* Counts downwards, because the smallest number has no positive counterpart. */
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_sub_overflow(v, digit, &v))
            return false;
    }
    if (!negative && __builtin_sub_overflow((int64_t)0, v, &v))
        return false;
    *ret = v;
    return true;
}

bool df_str_to_bool(struct df_str s, bool *ret)
{
    static const char *const yes[] = {"true", "on", "yes", "1"};
    static const char *const no[] = {"false", "off", "no", "0"};

    for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++) {
        bool is_yes = df_str_ieq(s, df_str_c(yes[i]));
        if (is_yes || df_str_ieq(s, df_str_c(no[i]))) {
            *ret = is_yes;
            return true;
        }
    }
    return false;
}

static bool is_tail(unsigned char c)
{
    return (c & 0xC0) == 0x80;
}

size_t df_utf8_valid_prefix(struct df_str s)
{
    const unsigned char *p = (const unsigned char *)s.ptr;
    size_t i = 0;

    while (i < s.len) {
        uint64_t word;
        while (s.len - i >= sizeof(word)) {
            memcpy(&word, p + i, sizeof(word));
            if (word & UINT64_C(0x8080808080808080))
                break;
            i += sizeof(word);
        }
        /* About eight bytes of characters, then try the fast way again. */
        for (size_t stop = i + sizeof(word); i < stop && i < s.len;) {
            size_t n = df_utf8_char(s.ptr + i, s.ptr + s.len);
            if (n == 0)
                return i;
            i += n;
        }
    }
    return i;
}

/* UTF-16 units of the character that starts with c; 0 for a byte inside a character. */
static size_t units_of(unsigned char c)
{
    return (size_t)!is_tail(c) + (c >= 0xF0);
}

size_t df_utf8_count(struct df_str s)
{
    size_t count = 0;
    for (size_t i = 0; i < s.len; i++)
        count += units_of((unsigned char)s.ptr[i]);
    return count;
}

struct df_str df_utf8_cut(struct df_str s, size_t max_units)
{
    size_t count = 0;
    for (size_t i = 0; i < s.len; i++) {
        count += units_of((unsigned char)s.ptr[i]);
        if (count > max_units)
            return df_str_n(s.ptr, i);
    }
    return s;
}

bool df_host_is_loopback(struct df_str host)
{
    if (host.len > 2 && host.ptr[0] == '[' && host.ptr[host.len - 1] == ']')
        host = df_str_n(host.ptr + 1, host.len - 2);
    if (df_str_ieq(host, DF_STR("localhost")) || df_str_eq(host, DF_STR("::1")))
        return true;
    bool digits = df_str_starts(host, DF_STR("127."));
    for (size_t i = 0; digits && i < host.len; i++) /* 127.example.com is not loopback */
        digits = (host.ptr[i] >= '0' && host.ptr[i] <= '9') || host.ptr[i] == '.';
    return digits;
}

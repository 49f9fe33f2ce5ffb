/*
 * String slice: a pointer and a length, passed by value. It is not NUL-terminated and never owns
 * its bytes; the creator of the bytes defines how long they live. {NULL, 0} is "absent", {"", 0} is
 * "empty"; databases and JSON distinguish the two, and so do we.
 */
#ifndef DF_BASE_STR_H
#define DF_BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct df_str {
    const char *ptr;
    size_t len;
};

#define DF_STR(lit) ((struct df_str){"" lit, sizeof(lit) - 1})
#define DF_STR_INIT(lit)                                                                           \
    {                                                                                              \
        "" lit, sizeof(lit) - 1                                                                    \
    } /* for static tables, which need constants */
#define DF_STR_NULL   ((struct df_str){NULL, 0})
#define DF_STR_FMT    "%.*s"
#define DF_STR_ARG(s) (int)(s).len, (s).ptr ? (s).ptr : ""

/* NULL becomes the absent slice. */
static inline struct df_str df_str_c(const char *s)
{
    return (struct df_str){s, s ? strlen(s) : 0};
}

static inline struct df_str df_str_n(const char *ptr, size_t len)
{
    return (struct df_str){ptr, len};
}

static inline bool df_str_eq(struct df_str a, struct df_str b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

/* ASCII case folding only: header names, field names, keywords. */
bool df_str_ieq(struct df_str a, struct df_str b);

static inline bool df_str_starts(struct df_str s, struct df_str prefix)
{
    return s.len >= prefix.len && (prefix.len == 0 || memcmp(s.ptr, prefix.ptr, prefix.len) == 0);
}

static inline bool df_str_ends(struct df_str s, struct df_str suffix)
{
    return s.len >= suffix.len &&
           (suffix.len == 0 || memcmp(s.ptr + s.len - suffix.len, suffix.ptr, suffix.len) == 0);
}

/* Removes spaces, tabs, CR and LF at both ends. */
struct df_str df_str_trim(struct df_str s);

/*
 * Cuts s at the first sep: *head gets the text before it, and the rest is returned. Without a sep
 * *head gets all of s, and the absent slice is returned.
 */
struct df_str df_str_cut(struct df_str s, char sep, struct df_str *head);

/* The whole slice must be a decimal number in range; no spaces, no plus sign. */
bool df_str_to_i64(struct df_str s, int64_t *ret);

/* 0 to 15; -1: not a hexadecimal digit. */
static inline int df_hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* true/false, on/off, yes/no, 1/0, without regard to case. */
bool df_str_to_bool(struct df_str s, bool *ret);

/*
 * The length of the valid UTF-8 character at `at`, before `end`; 0: there is none. The range of the
 * second byte excludes overlong forms (E0, F0), surrogates (ED) and code points above U+10FFFF
 * (F4).
 */
static inline size_t df_utf8_char(const char *at, const char *end)
{
    const unsigned char *p = (const unsigned char *)at;
    size_t n = (size_t)(end - at);

    if (p[0] < 0x80)
        return 1;
    if (p[0] < 0xC2 || p[0] > 0xF4 || n < 2 || (p[1] & 0xC0) != 0x80)
        return 0;
    if (p[0] < 0xE0)
        return 2;
    if (n < 3 || (p[2] & 0xC0) != 0x80)
        return 0;
    if (p[0] < 0xF0)
        return (p[0] == 0xE0 && p[1] < 0xA0) || (p[0] == 0xED && p[1] > 0x9F) ? 0 : 3;
    if (n < 4 || (p[3] & 0xC0) != 0x80)
        return 0;
    return (p[0] == 0xF0 && p[1] < 0x90) || (p[0] == 0xF4 && p[1] > 0x8F) ? 0 : 4;
}

/*
 * Strict UTF-8 (no overlong forms, no surrogates, nothing above U+10FFFF). Returns the length of
 * the longest valid prefix: s.len when all of it is valid.
 */
size_t df_utf8_valid_prefix(struct df_str s);

/*
 * The length of valid UTF-8 in UTF-16 units: one for each character, two above U+FFFF (emoji). The
 * width of an NVARCHAR counts these units, so all widths do, on every database.
 */
size_t df_utf8_count(struct df_str s);

/* The longest prefix of whole characters with at most max_units. */
struct df_str df_utf8_cut(struct df_str s, size_t max_units);

/* Whether a host's name or address, with or without brackets, is this machine's loopback. */
bool df_host_is_loopback(struct df_str host);

#endif

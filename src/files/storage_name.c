/*
 * Turns the user's file name into one that is harmless on any disk and in any listing. Each
 * character is copied or has its bytes escaped. The name is cut between characters, so that neither
 * a character nor an escape is split.
 */
#include "files/storage.h"

#include <stdio.h>

#define EXTENSION_MAX 17 /* the dot included */

struct out {
    char *ptr;
    size_t len;
    size_t max;
};

/* Appends a character, escaped or as it is. False: it does not fit. */
static bool add_character(struct out *o, struct df_str character, bool escaped)
{
    static const char hex[] = "0123456789ABCDEF";
    size_t need = character.len * (escaped ? 3 : 1);

    if (o->max - o->len < need)
        return false;
    for (size_t i = 0; i < character.len; i++) {
        unsigned char c = (unsigned char)character.ptr[i];
        if (escaped) {
            o->ptr[o->len++] = '%';
            o->ptr[o->len++] = hex[c >> 4];
            o->ptr[o->len++] = hex[c & 15];
        } else {
            o->ptr[o->len++] = (char)c;
        }
    }
    return true;
}

static bool is_harmful_ascii(unsigned char c, bool first)
{
    return c < ' ' || c == 0x7f || c == '/' || c == '\\' || c == '%' ||
           (first && (c == '.' || c == '-'));
}

/* Controls, marks of direction, characters without width, line separators, and code points that are
 * not characters. */
static bool is_harmful(uint32_t c)
{
    static const uint32_t ranges[][2] = {
        {0x80, 0x9f},     {0xad, 0xad},     {0x61c, 0x61c},   {0x180e, 0x180e},
        {0x200b, 0x200f}, {0x2028, 0x202e}, {0x2060, 0x206f}, {0xfdd0, 0xfdef},
        {0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0xfffe, 0xffff}, {0xe0000, 0xe0fff},
    };
    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++)
        if (c >= ranges[i][0] && c <= ranges[i][1])
            return true;
    return false;
}

/* The first character of s, which is not empty; a single byte if it is not UTF-8. *ret_escaped:
 * it must be escaped. */
static struct df_str take_character(struct df_str s, bool first, bool *ret_escaped)
{
    unsigned char c = (unsigned char)s.ptr[0];
    size_t len = c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;

    if (len == 1) {
        *ret_escaped = is_harmful_ascii(c, first);
        return df_str_n(s.ptr, 1);
    }
    if (len > s.len || df_utf8_valid_prefix(df_str_n(s.ptr, len)) != len) {
        *ret_escaped = true;
        return df_str_n(s.ptr, 1);
    }
    uint32_t code = c & (0xffU >> (len + 1));
    for (size_t i = 1; i < len; i++)
        code = code << 6 | ((unsigned char)s.ptr[i] & 0x3f);
    *ret_escaped = is_harmful(code);
    return df_str_n(s.ptr, len);
}

/* The extension with its dot (".xlsx"), or empty. It is made of letters and digits, and something
 * stands before it. */
static struct df_str extension_of(struct df_str name)
{
    for (size_t len = 1; len < name.len && len <= EXTENSION_MAX; len++) {
        char c = name.ptr[name.len - len];
        if (c == '.')
            return df_str_n(name.ptr + name.len - len, len > 1 ? len : 0);
        if (!((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z')))
            break;
    }
    return DF_STR("");
}

/* Windows takes these names for devices, whatever follows the first dot. Files may be copied there.
 */
static bool is_device(struct df_str name)
{
    static const char *const devices[] = {"CON", "PRN", "AUX", "NUL"};
    struct df_str stem;

    (void)df_str_cut(name, '.', &stem);
    for (size_t i = 0; i < sizeof(devices) / sizeof(devices[0]); i++)
        if (df_str_ieq(stem, df_str_c(devices[i])))
            return true;
    struct df_str kind = df_str_n(stem.ptr, 3);
    return stem.len == 4 && stem.ptr[3] >= '0' && stem.ptr[3] <= '9' &&
           (df_str_ieq(kind, DF_STR("COM")) || df_str_ieq(kind, DF_STR("LPT")));
}

void df_storage_file_name(struct df_str name, char ret[DF_STORAGE_NAME_MAX + 1])
{
    if (name.len == 0)
        name = DF_STR("upload");
    struct df_str extension = extension_of(name);
    struct df_str stem = df_str_n(name.ptr, name.len - extension.len);
    struct out o = {.ptr = ret, .max = DF_STORAGE_NAME_MAX - extension.len};
    bool device = is_device(name);

    for (bool first = true; stem.len > 0; first = false) {
        bool escaped;
        struct df_str character = take_character(stem, first, &escaped);
        if (!add_character(&o, character, escaped || (first && device)))
            break;
        stem = df_str_n(stem.ptr + character.len, stem.len - character.len);
    }
    if (extension.len > 0)
        memcpy(ret + o.len, extension.ptr, extension.len);
    ret[o.len + extension.len] = '\0';
}

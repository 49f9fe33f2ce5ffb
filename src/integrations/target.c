/*
 * The raw path has passed the server's own checks (net/target.h): its percent-encoding is valid, it
 * has no control characters, no empty segment and no dot segment, encoded once or not. This file
 * refuses the dot segments that only some peers see: encoded twice, between backslashes, with
 * parameters ("..;x").
 */
#include "integrations/integrations_private.h"

#include "net/target.h"
#include "net/url.h"

#include <stdio.h>

#define DECODINGS_MAX 8 /* text that is encoded more often is an attempt to hide something */

/* --- the path --------------------------------------------------------------------------------- */

/* Decodes in place and returns the new length. Text that is not encoded stays as it is. */
static size_t percent_decode(char *s, size_t len)
{
    size_t n = 0;

    for (size_t i = 0; i < len; i++) {
        int high = s[i] == '%' && len - i > 2 ? df_hex_digit(s[i + 1]) : -1;
        int low = high >= 0 ? df_hex_digit(s[i + 2]) : -1;
        char c = s[i];
        if (low >= 0)
            c = (char)(high << 4 | low);
        s[n++] = c;
        i += low >= 0 ? 2 : 0;
    }
    return n;
}

static bool is_dot_segment(struct df_str segment)
{
    struct df_str name;
    (void)df_str_cut(segment, ';', &name);
    return df_str_eq(name, DF_STR(".")) || df_str_eq(name, DF_STR(".."));
}

static bool has_dot_segment(const char *s, size_t len)
{
    size_t from = 0;

    for (size_t i = 0; i <= len; i++) {
        if (i < len && s[i] != '/' && s[i] != '\\')
            continue;
        if (is_dot_segment(df_str_n(s + from, i - from)))
            return true;
        from = i + 1;
    }
    return false;
}

enum df_code integration_path(struct df_str raw_path, struct df_str *ret, struct df_err *err)
{
    char text[DF_TARGET_MAX_BYTES];
    struct df_str path = raw_path;

    /* "/integrations", then "/name". */
    for (int i = 0; i < 2; i++) {
        const char *slash = path.len > 1 ? memchr(path.ptr + 1, '/', path.len - 1) : NULL;
        path = slash ? df_str_n(slash, path.len - (size_t)(slash - path.ptr)) : DF_STR("");
    }
    if (path.len > sizeof(text))
        return df_err_set(err, DF_E_URI_TOO_LONG, "the path is too long");
    memcpy(text, path.ptr, path.len);
    size_t len = path.len;
    size_t before = len + 1;
    for (int i = 0; len < before; i++) {
        if (i > DECODINGS_MAX || has_dot_segment(text, len))
            return df_err_set(err, DF_E_BAD_REQUEST, "the path contains a dot segment");
        before = len;
        len = percent_decode(text, len);
        if (memchr(text, '\0', len))
            return df_err_set(err, DF_E_BAD_REQUEST, "the path contains a NUL");
    }
    *ret = path;
    return DF_OK;
}

/* --- the query -------------------------------------------------------------------------------- */

/* Reads the pair if it is ours. */
static enum df_code read_pair(struct df_arena *a, struct df_str pair, bool *ret_ours,
                              bool *ret_keep, struct df_err *err)
{
    struct df_str value = df_target_query(a, pair, DF_STR("onUnavailable"));

    *ret_ours = value.ptr != NULL;
    if (!value.ptr)
        return DF_OK;
    if (!df_str_ieq(value, DF_STR("enqueue")))
        return df_err_set(err, DF_E_BAD_REQUEST, "onUnavailable can only be enqueue");
    *ret_keep = true;
    return DF_OK;
}

enum df_code integration_query(struct df_arena *a, struct df_str raw_query, struct df_str *ret,
                               bool *ret_keep, struct df_err *err)
{
    char *out = df_arena_alloc(a, raw_query.len + 1);
    size_t len = 0;
    size_t kept = 0;
    bool keep = false;

    while (raw_query.ptr) {
        struct df_str pair;
        bool ours = false;
        raw_query = df_str_cut(raw_query, '&', &pair);
        enum df_code code = read_pair(a, pair, &ours, &keep, err);
        if (code != DF_OK)
            return code;
        if (ours)
            continue;
        if (kept++ > 0)
            out[len++] = '&';
        memcpy(out + len, pair.ptr, pair.len);
        len += pair.len;
    }
    *ret = kept > 0 ? df_str_n(out, len) : DF_STR_NULL;
    *ret_keep = keep;
    return DF_OK;
}

/* --- the URL ---------------------------------------------------------------------------------- */

static size_t percent_encode(char *out, struct df_str s)
{
    size_t len = 0;

    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.ptr[i];
        if (c <= ' ' || c >= 0x7F || strchr("\"<>\\^`{|}", c))
            len += (size_t)snprintf(out + len, 4, "%%%02X", c);
        else
            out[len++] = (char)c;
    }
    return len;
}

struct df_str integration_suffix(struct df_arena *a, struct df_str path, struct df_str query)
{
    char *out = df_arena_alloc(a, 3 * (path.len + query.len) + 2);
    size_t len = percent_encode(out, path);

    if (query.ptr) {
        out[len++] = '?';
        len += percent_encode(out + len, query);
    }
    return df_str_n(out, len);
}

enum df_code integration_url(struct df_arena *a, const char *base_url, struct df_str suffix,
                             const char **ret, struct df_err *err)
{
    struct df_str base = df_str_c(base_url);
    struct df_url parsed;

    /* The suffix of a stored call comes from the database, and "@…" would turn the host into a
     * user. */
    if (suffix.len > 0 && suffix.ptr[0] != '/' && suffix.ptr[0] != '?')
        return df_err_set(err, DF_E_BAD_REQUEST, "the path does not begin with a slash");
    if (suffix.len > 0 && suffix.ptr[0] == '/') {
        while (df_str_ends(base, DF_STR("/")))
            base.len--;
    }
    if (base.len + suffix.len > DF_URL_MAX)
        return df_err_set(err, DF_E_URI_TOO_LONG, "the URL would be longer than %d bytes",
                          DF_URL_MAX);
    struct df_str url =
        df_arena_printf(a, DF_STR_FMT DF_STR_FMT, DF_STR_ARG(base), DF_STR_ARG(suffix));
    enum df_code code = df_url_parse(url, &parsed, err);
    if (code == DF_OK)
        *ret = url.ptr;
    return code;
}

#include "net/target.h"

/* Bytes that a client must encode. Bytes above 0x7F are allowed: many clients send UTF-8 as
 * it is. */
static bool is_forbidden(char c)
{
    unsigned char u = (unsigned char)c;
    return u <= 0x20 || u == 0x7F || u == '#';
}

static bool is_control(char c)
{
    unsigned char u = (unsigned char)c;
    return u < 0x20 || u == 0x7F;
}

static enum df_code check_encoding(struct df_str s, struct df_err *err)
{
    for (size_t i = 0; i < s.len; i++) {
        if (is_forbidden(s.ptr[i]))
            return df_err_set(err, DF_E_BAD_REQUEST,
                              "the request target contains a character that must be encoded");
        if (s.ptr[i] != '%')
            continue;
        if (s.len - i < 3 || df_hex_digit(s.ptr[i + 1]) < 0 || df_hex_digit(s.ptr[i + 2]) < 0)
            return df_err_set(err, DF_E_BAD_REQUEST,
                              "the request target contains an invalid percent-encoding");
        if (s.ptr[i + 1] == '0' && s.ptr[i + 2] == '0')
            return df_err_set(err, DF_E_BAD_REQUEST, "the request target contains a NUL");
        i += 2;
    }
    return DF_OK;
}

/* s passed check_encoding. Returns the decoded length, never more than s.len. */
static size_t decode_into(struct df_str s, bool plus_is_space, char *out)
{
    size_t n = 0;

    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        if (c == '%') {
            c = (char)((unsigned)df_hex_digit(s.ptr[i + 1]) << 4 |
                       (unsigned)df_hex_digit(s.ptr[i + 2]));
            i += 2;
        } else if (c == '+' && plus_is_space) {
            c = ' ';
        }
        out[n++] = c;
    }
    return n;
}

static struct df_str decode_copy(struct df_arena *arena, struct df_str s, bool plus_is_space)
{
    bool plain = s.len == 0 ||
                 (!memchr(s.ptr, '%', s.len) && (!plus_is_space || !memchr(s.ptr, '+', s.len)));
    if (plain)
        return s;
    char *out = df_arena_alloc(arena, s.len + 1);
    size_t n = decode_into(s, plus_is_space, out);
    out[n] = '\0';
    return df_str_n(out, n);
}

/* http://host/path, as sent to proxies: the authority is dropped, since the Host header counts. */
static enum df_code cut_absolute_form(struct df_str *path, struct df_err *err)
{
    struct df_str s = *path;
    struct df_str scheme;
    struct df_str rest = df_str_cut(s, ':', &scheme);

    bool is_http = df_str_ieq(scheme, DF_STR("http")) || df_str_ieq(scheme, DF_STR("https"));
    if (!is_http || !df_str_starts(rest, DF_STR("//")))
        return df_err_set(err, DF_E_BAD_REQUEST, "the request target must be a path");
    rest = df_str_n(rest.ptr + 2, rest.len - 2);
    const char *slash = memchr(rest.ptr, '/', rest.len);
    if (slash == rest.ptr || rest.len == 0)
        return df_err_set(err, DF_E_BAD_REQUEST, "the request target lacks a host");
    *path = slash ? df_str_n(slash, rest.len - (size_t)(slash - rest.ptr)) : DF_STR("/");
    return DF_OK;
}

static bool is_dots(struct df_str s)
{
    return df_str_eq(s, DF_STR(".")) || df_str_eq(s, DF_STR(".."));
}

static enum df_code check_decoded(struct df_str path, struct df_err *err)
{
    struct df_str rest = path;
    struct df_str part;

    if (df_utf8_valid_prefix(path) != path.len)
        return df_err_set(err, DF_E_BAD_REQUEST, "the path is not valid UTF-8");
    for (size_t i = 0; i < path.len; i++) {
        if (is_control(path.ptr[i]))
            return df_err_set(err, DF_E_BAD_REQUEST, "the path contains a control character");
    }
    while (rest.ptr) {
        rest = df_str_cut(rest, '/', &part);
        if (is_dots(part))
            return df_err_set(err, DF_E_BAD_REQUEST, "the path contains a dot segment");
    }
    return DF_OK;
}

/*
 * Decodes and splits in one pass. The segments lie one after another in t->path, with a slash
 * between them, so that the rest of a path is a slice too.
 */
static void split_path(struct df_arena *arena, struct df_str raw, struct df_target *t)
{
    bool plain = !memchr(raw.ptr, '%', raw.len);
    char *out = plain ? NULL : df_arena_alloc(arena, raw.len + 1);
    struct df_str rest = df_str_n(raw.ptr + 1, raw.len - 1);
    size_t used = 0;

    while (rest.ptr) {
        struct df_str part;
        rest = df_str_cut(rest, '/', &part);
        if (!plain) {
            out[used++] = '/';
            size_t n = decode_into(part, false, out + used);
            part = df_str_n(out + used, n);
            used += n;
        }
        if (part.len == 0 && !rest.ptr && t->segment_count > 0)
            t->trailing_slash = true;
        else if (part.len == 0 || t->segment_count == DF_TARGET_MAX_SEGMENTS)
            t->unroutable = true;
        else
            t->segments[t->segment_count++] = part;
    }
    t->path = plain ? raw : df_str_n(out, used);
}

static bool is_version(struct df_str s)
{
    if (s.len < 2 || s.ptr[0] != 'v')
        return false;
    for (size_t i = 1; i < s.len; i++) {
        if (s.ptr[i] < '0' || s.ptr[i] > '9')
            return false;
    }
    return true;
}

static void drop_version(struct df_target *t)
{
    /* A version after an empty segment does not count; that path is unroutable anyway. */
    if (t->segment_count == 0 || t->segments[0].ptr != t->path.ptr + 1 ||
        !is_version(t->segments[0]))
        return;
    if (!df_str_eq(t->segments[0], DF_STR("v1"))) {
        t->unroutable = true;
        return;
    }
    size_t cut = t->segments[0].len + 1;
    t->path = df_str_n(t->path.ptr + cut, t->path.len - cut);
    const char *slash = memchr(t->raw.ptr + 1, '/', t->raw.len - 1);
    size_t raw_cut = slash ? (size_t)(slash - t->raw.ptr) : t->raw.len;
    t->raw = df_str_n(t->raw.ptr + raw_cut, t->raw.len - raw_cut);
    t->segment_count--;
    memmove(t->segments, t->segments + 1, t->segment_count * sizeof(t->segments[0]));
    if (t->path.len <= 1) {
        t->path = t->raw = DF_STR("/");
        t->trailing_slash = t->unroutable = false;
    }
    if (t->segment_count > 0 && is_version(t->segments[0]))
        t->unroutable = true;
}

static enum df_code check_query(struct df_arena *arena, struct df_str query, struct df_err *err)
{
    enum df_code rc = check_encoding(query, err);
    if (rc != DF_OK)
        return rc;
    struct df_str text = decode_copy(arena, query, false);
    if (df_utf8_valid_prefix(text) != text.len)
        return df_err_set(err, DF_E_BAD_REQUEST, "the query is not valid UTF-8");
    return DF_OK;
}

enum df_code df_target_parse(struct df_arena *arena, struct df_str path, struct df_str query,
                             bool version_prefix, struct df_target *ret, struct df_err *err)
{
    struct df_target t;
    enum df_code rc;

    t.segment_count = 0;
    t.trailing_slash = t.unroutable = false;
    t.query = query;
    if (path.len > DF_TARGET_MAX_BYTES || query.len > DF_TARGET_MAX_BYTES - path.len)
        return df_err_set(err, DF_E_URI_TOO_LONG, "the request target is longer than %d bytes",
                          DF_TARGET_MAX_BYTES);
    rc = check_encoding(path, err);
    if (rc == DF_OK && query.ptr)
        rc = check_query(arena, query, err);
    if (rc == DF_OK && (path.len == 0 || path.ptr[0] != '/'))
        rc = cut_absolute_form(&path, err);
    if (rc != DF_OK)
        return rc;

    t.raw = path;
    if (path.len == 1)
        t.path = path;
    else
        split_path(arena, path, &t);
    rc = check_decoded(t.path, err);
    if (rc != DF_OK)
        return rc;
    if (version_prefix)
        drop_version(&t);

    /* Unused segments are not copied: they are most of the struct. */
    ret->path = t.path;
    ret->raw = t.raw;
    ret->query = t.query;
    ret->segment_count = t.segment_count;
    ret->trailing_slash = t.trailing_slash;
    ret->unroutable = t.unroutable;
    memcpy(ret->segments, t.segments, t.segment_count * sizeof(t.segments[0]));
    return DF_OK;
}

struct df_str df_target_query(struct df_arena *arena, struct df_str query, struct df_str name)
{
    while (query.ptr) {
        struct df_str pair;
        struct df_str key;
        query = df_str_cut(query, '&', &pair);
        struct df_str value = df_str_cut(pair, '=', &key);
        if (pair.len > 0 && df_str_ieq(decode_copy(arena, key, true), name))
            return value.ptr ? decode_copy(arena, value, true) : DF_STR("");
    }
    return DF_STR_NULL;
}

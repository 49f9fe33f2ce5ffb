/*
 * Parses names and file names as clients really send them:
 *
 *   browsers, curl from 7.81   UTF-8, a quote as %22, a backslash as itself
 *   curl before, many others   UTF-8, quote and backslash behind a backslash
 *   old Internet Explorer      a path, its backslashes as themselves
 *   .NET                       filename="=?utf-8?B?...?=" and filename*=utf-8''...
 *   Python's requests          filename*=utf-8''... alone, when it is not ASCII
 *
 * So in a quoted string a backslash escapes only a quote or a backslash, and of the percent escapes
 * only %22 is decoded: a line break in a name, which browsers write as %0D%0A, stays as written.
 */
#include "net/multipart_head.h"

#include "base/base64.h"
#include "net/field.h"

struct param {
    struct df_str name;
    struct df_str value;
    bool quoted; /* the value was quoted and is still escaped */
};

static struct df_str between(const char *from, const char *to)
{
    return df_str_n(from, (size_t)(to - from));
}

/* A name may end in a backslash, which browsers do not escape: before the last quote it stands for
 * itself. */
static const char *closing_quote(const char *p, const char *end)
{
    for (; p < end && *p != '"'; p++) {
        if (*p != '\\' || p + 1 == end || (p[1] != '"' && p[1] != '\\'))
            continue;
        if (p[1] == '\\' || memchr(p + 2, '"', (size_t)(end - p - 2)))
            p++;
    }
    return p < end ? p : NULL;
}

/* Takes `; name=value` off *rest, which begins with a semicolon or is empty. */
static enum df_code next_param(struct df_str *rest, struct param *ret, struct df_err *err)
{
    const char *p = rest->ptr;
    const char *end = p + rest->len;

    while (p < end && (*p == ';' || *p == ' ' || *p == '\t'))
        p++;
    if (p == end)
        return DF_DONE;
    const char *eq = memchr(p, '=', (size_t)(end - p));
    if (!eq)
        return df_err_set(err, DF_E_BAD_REQUEST, "a parameter in a header has no value");
    *ret = (struct param){.name = df_str_trim(between(p, eq))};
    p = eq + 1;
    while (p < end && (*p == ' ' || *p == '\t'))
        p++;
    const char *stop;
    if (p < end && *p == '"') {
        stop = closing_quote(p + 1, end);
        if (!stop)
            return df_err_set(err, DF_E_BAD_REQUEST, "a quote in a header is not closed");
        ret->quoted = true;
        ret->value = between(p + 1, stop++);
    } else {
        stop = memchr(p, ';', (size_t)(end - p));
        stop = stop ? stop : end;
        ret->value = df_str_trim(between(p, stop));
    }
    *rest = between(stop, end);
    if (!df_field_is_token(ret->name) || (df_str_trim(*rest).len > 0 && !strchr("; \t", *stop)))
        return df_err_set(err, DF_E_BAD_REQUEST, "a header's parameters are malformed");
    return DF_ROW;
}

/* --- the request's ---------------------------------------------------------------------------- */

/* The media type, and the parameters in *ret_rest from their semicolon on. */
static struct df_str split_type(struct df_str value, struct df_str *ret_rest)
{
    struct df_str type;

    (void)df_str_cut(value, ';', &type);
    *ret_rest =
        type.len < value.len ? df_str_n(value.ptr + type.len, value.len - type.len) : DF_STR("");
    return df_str_trim(type);
}

bool df_multipart_is(struct df_str content_type)
{
    struct df_str rest;

    return df_str_ieq(split_type(content_type, &rest), DF_STR("multipart/form-data"));
}

/* The characters of RFC 2046; the last one must not be a space. */
static bool boundary_ok(struct df_str b)
{
    static const char marks[] = "'()+_,-./:=? ";

    for (size_t i = 0; i < b.len; i++) {
        char c = b.ptr[i];
        bool alnum = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!alnum && !memchr(marks, c, sizeof(marks) - 1))
            return false;
    }
    return b.len >= 1 && b.len <= DF_MULTIPART_BOUNDARY_MAX && b.ptr[b.len - 1] != ' ';
}

enum df_code df_multipart_boundary(struct df_str content_type, struct df_str *ret,
                                   struct df_err *err)
{
    struct df_str rest;
    struct df_str found = DF_STR_NULL;
    struct param p = {0};
    enum df_code rc;

    if (!df_str_ieq(split_type(content_type, &rest), DF_STR("multipart/form-data")))
        return df_err_set(err, DF_E_MEDIA_TYPE, "the content type is not multipart/form-data");
    while ((rc = next_param(&rest, &p, err)) == DF_ROW) {
        if (!df_str_ieq(p.name, DF_STR("boundary")))
            continue;
        if (found.ptr)
            return df_err_set(err, DF_E_BAD_REQUEST, "the content type has two boundaries");
        found = p.value;
    }
    if (rc != DF_DONE)
        return rc;
    if (!found.ptr)
        return df_err_set(err, DF_E_BAD_REQUEST, "the content type has no boundary");
    if (!boundary_ok(found))
        return df_err_set(err, DF_E_BAD_REQUEST,
                          "the boundary is not 1 to %d of the characters that are allowed in it",
                          DF_MULTIPART_BOUNDARY_MAX);
    *ret = found;
    return DF_OK;
}

/* --- a part's: texts -------------------------------------------------------------------------- */

static struct df_str unescape(struct df_arena *arena, struct df_str s)
{
    char *out = df_arena_alloc(arena, s.len);
    size_t len = 0;

    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        char next = i + 1 < s.len ? s.ptr[i + 1] : '\0';
        if (c == '\\' && (next == '"' || next == '\\')) {
            c = next;
            i++;
        } else if (c == '%' && s.len - i >= 3 && next == '2' && s.ptr[i + 2] == '2') {
            c = '"';
            i += 2;
        }
        out[len++] = c;
    }
    return df_str_n(out, len);
}

/* RFC 2047, as .NET writes it: one word in UTF-8 and base64. Other text is returned as it is. */
static struct df_str decode_word(struct df_arena *arena, struct df_str s)
{
    const struct df_str begin = DF_STR("=?utf-8?B?");

    if (s.len < begin.len + 2 || !df_str_ieq(df_str_n(s.ptr, begin.len), begin) ||
        !df_str_ends(s, DF_STR("?=")))
        return s;
    struct df_str text = df_str_n(s.ptr + begin.len, s.len - begin.len - 2);
    char *out = df_arena_alloc(arena, DF_BASE64_ROOM(text.len) + DF_BASE64_ROOM(0));
    struct df_base64 d;
    size_t len;
    size_t more;
    df_base64_init(&d);
    if (df_base64_feed(&d, text, out, &len, NULL) != DF_OK ||
        df_base64_finish(&d, out + len, &more, NULL) != DF_OK)
        return s;
    return df_str_n(out, len + more);
}

/* RFC 5987: charset'language'text, with the text percent-encoded. False: s is malformed. */
static bool decode_extended(struct df_arena *arena, struct df_str s, struct df_str *ret)
{
    struct df_str charset;
    struct df_str language;
    struct df_str text = df_str_cut(df_str_cut(s, '\'', &charset), '\'', &language);
    bool latin1 = df_str_ieq(charset, DF_STR("iso-8859-1"));

    if (!text.ptr || (!latin1 && !df_str_ieq(charset, DF_STR("utf-8"))))
        return false;
    char *out = df_arena_alloc(arena, text.len);
    size_t len = 0;
    for (size_t i = 0; i < text.len; i++) {
        unsigned c = (unsigned char)text.ptr[i];
        if (c == '%') {
            int high = text.len - i >= 3 ? df_hex_digit(text.ptr[i + 1]) : -1;
            int low = high >= 0 ? df_hex_digit(text.ptr[i + 2]) : -1;
            if (low < 0)
                return false;
            c = (unsigned)(high << 4 | low);
            i += 2;
        } else if (c >= 0x80) {
            return false;
        }
        /* Two bytes fit in place of the three of %XX. */
        if (latin1 && c >= 0x80) {
            out[len++] = (char)(0xC0 | c >> 6);
            c = 0x80 | (c & 0x3F);
        }
        out[len++] = (char)c;
    }
    *ret = df_str_n(out, len);
    return true;
}

static enum df_code check_text(struct df_str s, const char *what, struct df_err *err)
{
    if (!s.ptr)
        return DF_OK;
    if (df_utf8_valid_prefix(s) < s.len)
        return df_err_set(err, DF_E_INVALID_TEXT, "the %s of a part is not valid UTF-8", what);
    for (size_t i = 0; i < s.len; i++) {
        if ((unsigned char)s.ptr[i] < 0x20 || s.ptr[i] == 0x7F)
            return df_err_set(err, DF_E_INVALID_TEXT, "the %s of a part has control characters",
                              what);
    }
    return DF_OK;
}

/* --- a part's: lines -------------------------------------------------------------------------- */

static enum df_code check_once(bool before, const char *what, struct df_err *err)
{
    return before ? df_err_set(err, DF_E_BAD_REQUEST, "a part has two of %s", what) : DF_OK;
}

static enum df_code read_disposition(struct df_arena *arena, struct df_str value,
                                     struct df_multipart_part *ret, struct df_err *err)
{
    struct df_str rest;
    struct df_str extended = DF_STR_NULL;
    struct param p = {0};
    enum df_code rc = check_once(ret->name.ptr, "Content-Disposition", err);

    if (rc != DF_OK)
        return rc;
    if (!df_str_ieq(split_type(value, &rest), DF_STR("form-data")))
        return df_err_set(err, DF_E_BAD_REQUEST, "a part's Content-Disposition is not form-data");
    while ((rc = next_param(&rest, &p, err)) == DF_ROW) {
        bool is_name = df_str_ieq(p.name, DF_STR("name"));
        if (df_str_ieq(p.name, DF_STR("filename*"))) {
            rc = check_once(extended.ptr, "filename*", err);
            if (rc == DF_OK && !decode_extended(arena, p.value, &extended))
                rc = df_err_set(err, DF_E_BAD_REQUEST, "a part's filename* is malformed");
        } else if (is_name || df_str_ieq(p.name, DF_STR("filename"))) {
            struct df_str *to = is_name ? &ret->name : &ret->file_name;
            rc = check_once(to->ptr, is_name ? "name" : "filename", err);
            *to = decode_word(arena, p.quoted ? unescape(arena, p.value) : p.value);
        }
        if (rc != DF_ROW && rc != DF_OK)
            return rc;
    }
    if (rc != DF_DONE)
        return rc;
    if (!ret->name.ptr)
        return df_err_set(err, DF_E_BAD_REQUEST, "a part has no name");
    if (extended.ptr)
        ret->file_name = extended;
    rc = check_text(ret->name, "name", err);
    return rc != DF_OK ? rc : check_text(ret->file_name, "file name", err);
}

static enum df_code read_type(struct df_str value, struct df_multipart_part *ret,
                              struct df_err *err)
{
    enum df_code rc = check_once(ret->content_type.ptr, "Content-Type", err);

    if (rc != DF_OK)
        return rc;
    if (value.len > 10 && df_str_ieq(df_str_n(value.ptr, 10), DF_STR("multipart/")))
        return df_err_set(err, DF_E_MEDIA_TYPE, "a part that has parts itself is not taken");
    ret->content_type = value;
    return check_text(value, "content type", err);
}

static enum df_code check_encoding(struct df_str value, struct df_err *err)
{
    if (df_str_ieq(value, DF_STR("binary")) || df_str_ieq(value, DF_STR("8bit")) ||
        df_str_ieq(value, DF_STR("7bit")))
        return DF_OK;
    return df_err_set(err, DF_E_MEDIA_TYPE,
                      "a part's Content-Transfer-Encoding is none of binary, 8bit and 7bit");
}

static enum df_code read_line(struct df_arena *arena, struct df_str line,
                              struct df_multipart_part *ret, struct df_err *err)
{
    struct df_str name;
    struct df_str value = df_str_cut(line, ':', &name);

    if (!value.ptr || !df_field_is_token(name) || !df_field_value_ok(value))
        return df_err_set(err, DF_E_BAD_REQUEST, "a line in the header of a part is malformed");
    value = df_str_trim(value);
    if (df_str_ieq(name, DF_STR("content-disposition")))
        return read_disposition(arena, value, ret, err);
    if (df_str_ieq(name, DF_STR("content-type")))
        return read_type(value, ret, err);
    if (df_str_ieq(name, DF_STR("content-transfer-encoding")))
        return check_encoding(value, err);
    return DF_OK;
}

enum df_code df_multipart_head(struct df_arena *arena, struct df_str head,
                               struct df_multipart_part *ret, struct df_err *err)
{
    *ret = (struct df_multipart_part){0};
    while (head.len > 0) {
        const char *end = memmem(head.ptr, head.len, "\r\n", 2);
        struct df_str line = end ? between(head.ptr, end) : head;
        enum df_code rc = read_line(arena, line, ret, err);
        if (rc != DF_OK)
            return rc;
        head = end ? between(end + 2, head.ptr + head.len) : DF_STR("");
    }
    if (!ret->name.ptr)
        return df_err_set(err, DF_E_BAD_REQUEST, "a part has no Content-Disposition");
    return DF_OK;
}

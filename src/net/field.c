#include "net/field.h"

static bool is_alnum(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* strchr would also find the NUL that ends the set. */
static bool is_one_of(char c, const char *set)
{
    return c != '\0' && strchr(set, c) != NULL;
}

bool df_field_is_token(struct df_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        if (!is_alnum(s.ptr[i]) && s.ptr[i] != '-' && !is_one_of(s.ptr[i], "!#$%&'*+.^_`|~"))
            return false;
    }
    return s.len > 0;
}

bool df_field_is_framing(struct df_str name)
{
    static const struct df_str names[] = {
        {"Connection", 10}, {"Content-Length", 14},    {"Expect", 6},
        {"Keep-Alive", 10}, {"Proxy-Connection", 16},  {"TE", 2},
        {"Trailer", 7},     {"Transfer-Encoding", 17}, {"Upgrade", 7}};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (name.len == names[i].len && df_str_ieq(name, names[i]))
            return true;
    }
    return false;
}

bool df_field_value_ok(struct df_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        unsigned char u = (unsigned char)s.ptr[i];
        if ((u < 0x20 && u != '\t') || u == 0x7F)
            return false;
    }
    return true;
}

bool df_field_host_ok(struct df_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        if (!is_alnum(s.ptr[i]) && !is_one_of(s.ptr[i], "-._~!$&'()*+;=:[]%"))
            return false;
    }
    return true;
}

bool df_field_length(struct df_str s, int64_t *ret)
{
    int64_t v;

    if (s.len == 0 || s.ptr[0] == '-' || !df_str_to_i64(s, &v) || v > INT64_C(1) << 53)
        return false;
    *ret = v;
    return true;
}

static struct df_str unquote(struct df_str s)
{
    if (s.len >= 2 && s.ptr[0] == '"' && s.ptr[s.len - 1] == '"')
        return df_str_n(s.ptr + 1, s.len - 2);
    return s;
}

bool df_field_is_json(struct df_str content_type)
{
    struct df_str type;
    struct df_str rest = df_str_cut(content_type, ';', &type);

    type = df_str_trim(type);
    const size_t prefix = sizeof("application/") - 1;
    if (type.len <= prefix || !df_str_ieq(df_str_n(type.ptr, prefix), DF_STR("application/")))
        return false;
    struct df_str sub = df_str_n(type.ptr + prefix, type.len - prefix);
    bool suffix = sub.len > 5 && df_str_ieq(df_str_n(sub.ptr + sub.len - 5, 5), DF_STR("+json"));
    if (!df_field_is_token(sub) || (!suffix && !df_str_ieq(sub, DF_STR("json"))))
        return false;

    while (rest.ptr) {
        struct df_str param;
        struct df_str name;
        rest = df_str_cut(rest, ';', &param);
        struct df_str value = df_str_cut(param, '=', &name);
        value = unquote(df_str_trim(value));
        if (df_str_ieq(df_str_trim(name), DF_STR("charset")) &&
            !df_str_ieq(value, DF_STR("utf-8")) && !df_str_ieq(value, DF_STR("utf8")))
            return false;
    }
    return true;
}

/* Takes the text before the next separator that is not in a quoted string. */
static struct df_str take_part(struct df_str *rest, char separator)
{
    struct df_str all = *rest;
    bool quoted = false;

    for (size_t i = 0; i < all.len; i++) {
        char c = all.ptr[i];
        if (quoted && c == '\\')
            i++;
        else if (c == '"')
            quoted = !quoted;
        else if (!quoted && c == separator) {
            *rest = df_str_n(all.ptr + i + 1, all.len - i - 1);
            return df_str_trim(df_str_n(all.ptr, i));
        }
    }
    *rest = DF_STR_NULL;
    return df_str_trim(all);
}

/* 0, 1, or up to three digits behind 0. or 1., in thousandths; -1: it is none of these. */
static int read_weight(struct df_str s)
{
    int v = 0, unit = 1000;

    if (s.len == 0 || s.len > 5 || (s.len > 1 && s.ptr[1] != '.'))
        return -1;
    for (size_t i = 0; i < s.len; i++) {
        if (i == 1)
            continue;
        if (s.ptr[i] < '0' || s.ptr[i] > '9')
            return -1;
        v += (s.ptr[i] - '0') * unit;
        unit /= 10;
    }
    return v <= 1000 ? v : -1;
}

/* How specific the range is that matches the type: 3 with the version, 2 without, 1 type/ *, 0
 * for any type; -1: it does not match. */
static int match_range(struct df_str range, struct df_str type, struct df_str version,
                       int *ret_weight)
{
    struct df_str main_type, name;
    struct df_str what = take_part(&range, ';');
    int level = -1;

    df_str_cut(type, '/', &main_type);
    if (df_str_ieq(what, type))
        level = 2;
    else if (df_str_eq(what, DF_STR("*/*")))
        level = 0;
    else if (what.len == main_type.len + 2 && df_str_ends(what, DF_STR("/*")) &&
             df_str_ieq(df_str_n(what.ptr, main_type.len), main_type))
        level = 1;
    *ret_weight = 1000;
    while (range.ptr && level >= 0) {
        struct df_str part = take_part(&range, ';');
        struct df_str value = unquote(df_str_trim(df_str_cut(part, '=', &name)));
        name = df_str_trim(name);
        if (df_str_ieq(name, DF_STR("q")) && (*ret_weight = read_weight(value)) < 0)
            return -1;
        if (!df_str_ieq(name, DF_STR("version")))
            continue;
        if (!df_str_eq(value, version))
            return -1;
        level = level == 2 ? 3 : level;
    }
    return level;
}

int df_field_weight(struct df_str accept, struct df_str type, struct df_str version,
                    bool *ret_named)
{
    int best = -1, weight = -1, one = 0;

    for (size_t i = 0; accept.ptr && i < DF_FIELD_RANGES_MAX; i++) {
        int level = match_range(take_part(&accept, ','), type, version, &one);
        if (level > best) {
            best = level;
            weight = one;
        }
    }
    if (ret_named)
        *ret_named = best >= 2;
    return weight;
}

/* Visible ASCII except characters that need escaping in HTML or a quoted string. */
bool df_field_correlation_ok(struct df_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        if (s.ptr[i] <= ' ' || s.ptr[i] > '~' || is_one_of(s.ptr[i], "\"\\<>"))
            return false;
    }
    return s.len >= 1 && s.len <= 128;
}

enum df_code df_field_check_key(struct df_str key, struct df_err *err)
{
    bool visible = true;

    if (!key.ptr)
        return DF_OK;
    for (size_t i = 0; i < key.len; i++)
        visible = visible && key.ptr[i] > ' ' && key.ptr[i] <= '~';
    if (visible && key.len >= 1 && key.len <= DF_FIELD_KEY_MAX)
        return DF_OK;
    return df_err_set(err, DF_E_BAD_REQUEST,
                      "Idempotency-Key consists of 1 to %d visible ASCII characters.",
                      DF_FIELD_KEY_MAX);
}

struct df_str df_percent_encode(struct df_arena *a, struct df_str s, bool (*keeps)(unsigned char c))
{
    static const char hex[] = "0123456789ABCDEF";
    size_t same = 0;

    while (same < s.len && keeps((unsigned char)s.ptr[same]))
        same++;
    if (same == s.len)
        return s;
    char *out = df_arena_alloc(a, same + 3 * (s.len - same));
    memcpy(out, s.ptr, same);
    size_t len = same;
    for (size_t i = same; i < s.len; i++) {
        unsigned char c = (unsigned char)s.ptr[i];
        if (keeps(c)) {
            out[len++] = (char)c;
            continue;
        }
        out[len++] = '%';
        out[len++] = hex[c >> 4];
        out[len++] = hex[c & 15];
    }
    return df_str_n(out, len);
}

static bool is_plain(unsigned char c)
{
    return c > ' ' && c < 0x7F && c != '"' && c != '%';
}

struct df_str df_field_text(struct df_arena *a, struct df_str s)
{
    return df_percent_encode(a, s, is_plain);
}

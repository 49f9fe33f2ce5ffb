#include "json/doc.h"

#include "json/lex.h"
#include "json/scan.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

/* The tree as it grows: for each open level its array or object and the last child of that. */
struct builder {
    struct df_arena *arena;
    struct df_json_scan scan;
    struct df_str key; /* of the member whose value comes next */
    size_t values;
    struct df_json *open[DF_JSON_DEPTH + 1];
    struct df_json *last[DF_JSON_DEPTH + 1];
};

static struct df_str text_of(struct builder *b)
{
    const struct df_json_scan *s = &b->scan;
    return s->escaped ? df_json_unescape(s->text, df_arena_alloc(b->arena, s->text.len)) : s->text;
}

/* A value under the level that was innermost before it; an opening bracket is inside already. */
static struct df_json *add(struct builder *b, enum df_json_type type, unsigned level)
{
    struct df_json *v = DF_ARENA_NEW(b->arena, struct df_json);

    v->type = type;
    v->raw = df_str_n(b->scan.start, (size_t)(b->scan.p - b->scan.start));
    if (level > 0) {
        v->key = b->key;
        b->key = DF_STR_NULL;
        b->open[level]->count++;
        if (b->last[level])
            b->last[level]->next = v;
        else
            b->open[level]->first = v;
    }
    b->last[level] = v;
    b->values++;
    return v;
}

static void open_level(struct builder *b, enum df_json_type type)
{
    unsigned depth = b->scan.depth;
    b->open[depth] = add(b, type, depth - 1);
    b->last[depth] = NULL;
}

static void close_level(struct builder *b)
{
    struct df_json *v = b->open[b->scan.depth + 1];
    v->raw.len = (size_t)(b->scan.p - v->raw.ptr);
}

static void take_token(struct builder *b, enum df_json_token t)
{
    unsigned depth = b->scan.depth;

    switch (t) {
    case DF_TOK_OBJECT:
        open_level(b, DF_JSON_OBJECT);
        break;
    case DF_TOK_ARRAY:
        open_level(b, DF_JSON_ARRAY);
        break;
    case DF_TOK_OBJECT_END:
    case DF_TOK_ARRAY_END:
        close_level(b);
        break;
    case DF_TOK_KEY:
        b->key = text_of(b);
        break;
    case DF_TOK_STRING:
        add(b, DF_JSON_STRING, depth)->text = text_of(b);
        break;
    case DF_TOK_NUMBER:
        add(b, DF_JSON_NUMBER, depth)->text = b->scan.text;
        break;
    case DF_TOK_TRUE:
        add(b, DF_JSON_BOOL, depth)->boolean = true;
        break;
    case DF_TOK_FALSE:
        add(b, DF_JSON_BOOL, depth);
        break;
    case DF_TOK_NULL:
        add(b, DF_JSON_NULL, depth);
        break;
    case DF_TOK_STRING_PART:
    case DF_TOK_ERROR:
    case DF_TOK_MORE:
    case DF_TOK_END:
        break;
    }
}

enum df_code df_json_parse(struct df_arena *a, struct df_str input, const struct df_json **ret,
                           struct df_err *err)
{
    struct builder b = {.arena = a};
    enum df_json_token t;
    enum df_code rc = DF_OK;

    df_json_scan_init(&b.scan, DF_JSON_UNIQUE_KEYS | DF_JSON_NO_NUL, DF_JSON_DEPTH);
    b.scan.keys.copy_depth = 0;
    df_json_scan_window(&b.scan, input, 0, true);
    while ((t = df_json_scan_next(&b.scan)) > DF_TOK_END) {
        take_token(&b, t);
        if (b.values > DF_JSON_VALUES_MAX) {
            rc = df_err_at(err, DF_E_TOO_LARGE, b.scan.start - input.ptr,
                           "more than %d values in one document", DF_JSON_VALUES_MAX);
            goto out;
        }
    }
    if (t == DF_TOK_ERROR)
        rc = df_json_scan_error(&b.scan, err);
    else
        *ret = b.last[0];
out:
    df_json_scan_release(&b.scan);
    return rc;
}

const struct df_json *df_json_get(const struct df_json *obj, const char *name)
{
    struct df_str want = df_str_c(name);
    const struct df_json *folded = NULL;

    if (!obj || obj->type != DF_JSON_OBJECT)
        return NULL;
    for (const struct df_json *v = obj->first; v; v = v->next) {
        if (df_str_eq(v->key, want))
            return v;
        if (!folded && df_str_ieq(v->key, want))
            folded = v;
    }
    return folded;
}

bool df_json_is_twice(const struct df_json *obj, const struct df_json *member)
{
    for (const struct df_json *v = obj->first; v; v = v->next) {
        if (v != member && df_str_ieq(v->key, member->key))
            return true;
    }
    return false;
}

/* What a number or a string says, without the blanks that people leave around it. */
static struct df_str scalar_text(const struct df_json *v)
{
    if (!v || (v->type != DF_JSON_STRING && v->type != DF_JSON_NUMBER))
        return DF_STR_NULL;
    return df_str_trim(v->text);
}

bool df_json_to_bool(const struct df_json *v, bool *ret)
{
    if (v && v->type == DF_JSON_BOOL) {
        *ret = v->boolean;
        return true;
    }
    return df_str_to_bool(scalar_text(v), ret);
}

bool df_json_to_i64(const struct df_json *v, int64_t *ret)
{
    double d;

    if (df_str_to_i64(scalar_text(v), ret))
        return true;
    /* 15.0 and 1.5e1 are whole numbers too; beyond 2^53 a double no longer knows. */
    if (!df_json_to_double(v, &d) || d != floor(d) || fabs(d) > 9007199254740992.0)
        return false;
    *ret = (int64_t)d;
    return true;
}

/*
 * strtod takes more than decimal numbers (hexadecimal, inf, nan), so only their characters are let
 * through to it. The program never leaves the C locale.
 */
bool df_json_to_double(const struct df_json *v, double *ret)
{
    struct df_str s = scalar_text(v);
    char buf[400];
    char *end;

    if (s.len == 0 || s.len >= sizeof(buf) || !(df_json_is_digit(s.ptr[0]) || s.ptr[0] == '-'))
        return false;
    memcpy(buf, s.ptr, s.len);
    buf[s.len] = '\0';
    if (strspn(buf, "0123456789+-.eE") != s.len)
        return false;
    double d = strtod(buf, &end);
    if (end != buf + s.len || !isfinite(d))
        return false;
    *ret = d;
    return true;
}

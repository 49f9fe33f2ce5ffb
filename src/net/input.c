#include "net/input.h"

#include "json/write.h"

#include <stdio.h>

/* Bytes that a parsed document takes for each byte of a short text. */
#define DOC_RATIO ((size_t)8)

void df_input_init(struct df_input *in, struct df_arena *arena, const struct df_json *object)
{
    in->arena = arena;
    in->object = object;
    in->error_count = 0;
}

bool df_input_charge(struct df_req *req)
{
    struct df_str body = df_req_body(req);
    bool escapes = body.len > 0 && memchr(body.ptr, '\\', body.len);

    size_t doc =
        body.len < DF_JSON_DOC_BYTES / DOC_RATIO ? body.len * DOC_RATIO : DF_JSON_DOC_BYTES;
    return df_req_charge(req, doc + (escapes ? body.len : 0));
}

bool df_input_json(struct df_input *in, struct df_req *req)
{
    df_input_init(in, df_req_arena(req), NULL);
    struct df_err err = DF_ERR_INIT;
    const struct df_json *doc;
    if (!df_input_charge(req))
        return false;
    if (df_json_parse(in->arena, df_req_body(req), &doc, &err) != DF_OK) {
        df_req_problem(req, &err);
        return false;
    }
    if (doc->type != DF_JSON_OBJECT) {
        df_req_fail(req, DF_E_BAD_REQUEST, "The body must be a JSON object.");
        return false;
    }
    in->object = doc;
    return true;
}

void df_input_error(struct df_input *in, const char *field, const char *fmt, ...)
{
    if (in->error_count == DF_INPUT_ERRORS_MAX)
        return;
    char text[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    struct df_field_error *e = &in->errors[in->error_count++];
    e->field = df_arena_str(in->arena, df_str_c(field));
    e->message = df_arena_str(in->arena, df_str_c(text));
}

bool df_input_ok(struct df_input *in, struct df_req *req)
{
    if (in->error_count == 0)
        return true;
    struct df_err err = DF_ERR_INIT;
    df_err_set(&err, DF_E_VALIDATION, "%zu field%s not valid: see errors.", in->error_count,
               in->error_count == 1 ? " is" : "s are");
    df_req_problem_fields(req, &err, in->errors, in->error_count);
    return false;
}

/* False: it is absent or null. */
static bool get_member(struct df_input *in, const char *field, struct df_json *ret)
{
    (void)df_json_find(in->object, field, ret);
    if (ret->twice)
        df_input_error(in, field, DF_INPUT_TWICE);
    return ret->type != DF_JSON_NULL;
}

struct df_str df_input_text(struct df_input *in, const char *field, size_t max_chars,
                            enum df_need need)
{
    struct df_json v;
    if (!get_member(in, field, &v)) {
        if (need == DF_REQUIRED)
            df_input_error(in, field, "is required");
        return DF_STR_NULL;
    }
    if (v.type != DF_JSON_STRING && v.type != DF_JSON_NUMBER) {
        df_input_error(in, field, "must be text");
        return DF_STR_NULL;
    }
    if (need == DF_REQUIRED && df_str_trim(v.text).len == 0)
        df_input_error(in, field, "must not be empty");
    /* There are never more characters than bytes. */
    size_t chars = v.text.len > max_chars ? df_utf8_count(v.text) : 0;
    if (chars > max_chars)
        df_input_error(in, field, "has %zu characters, at most %zu are allowed", chars, max_chars);
    return v.text;
}

int64_t df_input_int(struct df_input *in, const char *field, int64_t min, int64_t max, int64_t def)
{
    struct df_json v;
    if (!get_member(in, field, &v))
        return def;
    int64_t n;
    if (df_json_to_i64(&v, &n) && n >= min && n <= max)
        return n;
    df_input_error(in, field, "must be a whole number from %lld to %lld", (long long)min,
                   (long long)max);
    return def;
}

bool df_input_bool(struct df_input *in, const char *field, bool def)
{
    struct df_json v;
    bool b = def;
    if (get_member(in, field, &v) && !df_json_to_bool(&v, &b))
        df_input_error(in, field, "must be true or false");
    return b;
}

static bool is_name(struct df_str key, const char *const *names)
{
    for (; *names; names++)
        if (df_str_ieq(key, df_str_c(*names)))
            return true;
    return false;
}

void df_input_only(struct df_input *in, const char *const *names)
{
    struct df_json_each each = df_json_each(in->object);

    for (const struct df_json *m; (m = df_json_next(&each));)
        if (!is_name(m->key, names))
            df_input_error(
                in, m->key.len > 0 ? df_arena_cstr(in->arena, df_utf8_cut(m->key, 100)) : "\"\"",
                "is not known here");
}

int64_t df_input_query_int(struct df_input *in, const struct df_req *req, const char *name,
                           int64_t min, int64_t max, int64_t def)
{
    struct df_str s = df_req_query(req, name);
    if (!s.ptr)
        return def;
    int64_t n;
    if (df_str_to_i64(s, &n) && n >= min && n <= max)
        return n;
    df_input_error(in, name, "must be a whole number from %lld to %lld", (long long)min,
                   (long long)max);
    return def;
}

struct df_str df_input_filter(const struct df_req *req, const char *name)
{
    struct df_str s = df_str_trim(df_req_query(req, name));
    return s.len > 0 ? s : DF_STR_NULL;
}

struct df_str df_input_choice(struct df_input *in, const struct df_req *req, const char *name,
                              const char *const *names)
{
    struct df_str given = df_input_filter(req, name);
    struct df_buf all;

    if (!given.ptr)
        return DF_STR_NULL;
    df_buf_init(&all, 512);
    for (size_t i = 0; names[i]; i++) {
        if (df_str_ieq(given, df_str_c(names[i]))) {
            df_buf_release(&all);
            return df_str_c(names[i]);
        }
        df_buf_addf(&all, "%s%s", i == 0 ? "" : names[i + 1] ? ", " : " or ", names[i]);
    }
    df_input_error(in, name, "must be " DF_STR_FMT, DF_STR_ARG(df_buf_str(&all)));
    df_buf_release(&all);
    return DF_STR_NULL;
}

void df_page_read(struct df_input *in, const struct df_req *req, struct df_page *ret)
{
    int64_t page = df_input_query_int(in, req, "page", 1, 1000000000, 1);
    int64_t size =
        df_input_query_int(in, req, "pageSize", 1, DF_PAGE_SIZE_MAX, DF_PAGE_SIZE_DEFAULT);

    *ret = (struct df_page){.page = page, .size = size, .offset = (page - 1) * size};
}

void df_page_read_place(struct df_input *in, const struct df_req *req, struct df_page *ret)
{
    static const char *const orders[] = {"newest", "oldest", NULL};
    struct df_str after = df_input_filter(req, "after");
    struct df_str order = df_input_choice(in, req, "order", orders);

    ret->oldest_first = df_str_eq(order, DF_STR("oldest"));
    if (!after.ptr)
        return;
    if (df_input_filter(req, "page").ptr) {
        df_input_error(in, "page", "cannot be given together with after");
        return;
    }
    ret->from_cursor = df_cursor_parse(after, ret->list, ret->by_uuid, &ret->cursor);
    if (!ret->from_cursor)
        df_input_error(in, "after", "must be the `next` of a page of this list");
    else if (order.ptr && ret->oldest_first != ret->cursor.oldest_first)
        df_input_error(in, "order", "is not the order of the page that gave the cursor");
    else
        ret->oldest_first = ret->cursor.oldest_first;
}

void df_page_read_list(struct df_input *in, const struct df_req *req, const char *list,
                       bool by_uuid, struct df_page *ret)
{
    df_page_read(in, req, ret);
    ret->list = list;
    ret->by_uuid = by_uuid;
    df_page_read_place(in, req, ret);
}

bool df_page_forward(struct df_page *p)
{
    if (!p->next[0])
        return false;
    p->from_cursor = df_cursor_parse(df_str_c(p->next), p->list, p->by_uuid, &p->cursor);
    p->offset = 0;
    return p->from_cursor;
}

void df_page_write(const struct df_page *p, struct df_json_out *out)
{
    df_json_kv_int(out, "page", p->page);
    df_json_kv_int(out, "pageSize", p->size);
    df_json_kv_int(out, "total", p->total);
    if (p->total_is_estimate)
        df_json_kv_bool(out, "totalIsEstimate", true);
    if (p->next[0])
        df_json_kv_text(out, "next", df_str_c(p->next));
}

void df_page_open(struct df_json_out *out)
{
    df_json_open(out, '{');
    df_json_key(out, "items");
    df_json_open(out, '[');
}

void df_page_close(const struct df_page *p, struct df_json_out *out)
{
    df_json_close(out, ']');
    df_page_write(p, out);
    df_json_close(out, '}');
}

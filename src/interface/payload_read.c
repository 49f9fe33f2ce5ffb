#include "interface/payload_private.h"

#include <stdio.h>

/* A path is made of known names and an index: none is near this long. */
#define PATH_MAX_CHARS 200

#define DOC_ID_WIDTH   100
#define APP_ID_WIDTH   20
#define USER_WIDTH     100
#define TARGET_WIDTH   20

static size_t put_path(char *to, const struct df_place *at)
{
    if (!at->up)
        return 0;
    size_t len = put_path(to, at->up);
    size_t room = PATH_MAX_CHARS - len;
    int n = snprintf(to + len, room, "%s" DF_STR_FMT, len ? "." : "", DF_STR_ARG(at->name));
    len += (size_t)n < room ? (size_t)n : room - 1;
    if (at->index == DF_NO_INDEX)
        return len;
    room = PATH_MAX_CHARS - len;
    n = snprintf(to + len, room, "[%zu]", at->index);
    return len + ((size_t)n < room ? (size_t)n : room - 1);
}

void df_place_error(struct df_input *in, const struct df_place *at, const char *fmt, ...)
{
    char path[PATH_MAX_CHARS] = "";
    char text[200];
    va_list ap;

    (void)put_path(path, at);
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    df_input_error(in, path, "%s", text);
}

static bool is_blank(const struct df_json *v)
{
    return v->type == DF_JSON_NULL || (v->type == DF_JSON_STRING && df_str_trim(v->text).len == 0);
}

struct df_place df_place_member(struct df_input *in, const struct df_place *up, const char *name)
{
    struct df_place at; /* not zeroed first: this runs for every text of every document */
    at.up = up;
    at.index = DF_NO_INDEX;
    at.name = df_json_find(&up->value, name, &at.value) ? at.value.key : df_str_c(name);
    if (at.value.twice)
        df_place_error(in, &at, DF_INPUT_TWICE);
    return at;
}

struct df_place df_place_part(struct df_input *in, const struct df_place *up, const char *name)
{
    struct df_place at = df_place_member(in, up, name);
    if (at.value.type != DF_JSON_OBJECT) {
        if (!is_blank(&at.value))
            df_place_error(in, &at, "must be an object");
        at.value = (struct df_json){0};
    }
    return at;
}

bool df_place_open(struct df_input *in, const char *envelope, struct df_place *body,
                   struct df_place *ret)
{
    *body = (struct df_place){.index = DF_NO_INDEX};
    *ret = *body;
    if (!in->object || in->object->type != DF_JSON_OBJECT) {
        df_place_error(in, body, "the body must be one JSON object");
        return false;
    }
    body->value = *in->object;
    *ret = *body;
    struct df_place at = df_place_member(in, body, envelope);
    if (!df_place_is_there(&at))
        return false;
    if (at.value.type != DF_JSON_OBJECT) {
        df_place_error(in, &at, "must be one object: send one document a call");
        at.value = (struct df_json){0};
    }
    *ret = at;
    return true;
}

static bool has_control(struct df_str s)
{
    for (size_t i = 0; i < s.len; i++)
        if ((unsigned char)s.ptr[i] < 0x20 || s.ptr[i] == 0x7F)
            return true;
    return false;
}

struct df_str df_place_text(struct df_input *in, const struct df_place *at, size_t width,
                            enum df_text_kind kind, enum df_need need)
{
    const struct df_json *v = &at->value;
    if (is_blank(v)) {
        if (need == DF_REQUIRED)
            df_place_error(in, at, df_place_is_there(at) ? "must not be empty" : "is required");
        return DF_STR_NULL;
    }
    if (v->type != DF_JSON_STRING && v->type != DF_JSON_NUMBER) {
        df_place_error(in, at, "must be text");
        return DF_STR_NULL;
    }
    struct df_str s = kind == DF_TEXT_CODE ? df_str_trim(v->text) : v->text;
    if (kind == DF_TEXT_CODE && has_control(s))
        df_place_error(in, at, "must not have control characters");
    /* There are never more characters than bytes. */
    size_t chars = s.len > width ? df_utf8_count(s) : 0;
    if (chars > width)
        df_place_error(in, at, "has %zu characters, at most %zu are allowed", chars, width);
    return s;
}

void df_place_texts(struct df_input *in, const struct df_place *up, const struct df_text_field *f,
                    size_t count, void *ret)
{
    for (size_t i = 0; i < count; i++) {
        struct df_place at = df_place_member(in, up, f[i].name);
        struct df_str s = df_place_text(in, &at, f[i].width, f[i].kind, f[i].need);
        memcpy((char *)ret + f[i].offset, &s, sizeof s);
    }
}

bool df_place_bool(struct df_input *in, const struct df_place *up, const char *name)
{
    struct df_place at = df_place_member(in, up, name);
    bool b = false;
    if (!is_blank(&at.value) && !df_json_to_bool(&at.value, &b))
        df_place_error(in, &at, "must be true or false");
    return b;
}

bool df_place_int(struct df_input *in, const struct df_place *at, int *ret)
{
    int64_t n = 0;
    if (is_blank(&at->value)) {
        df_place_error(in, at, df_place_is_there(at) ? "must not be empty" : "is required");
        return false;
    }
    if (!df_json_to_i64(&at->value, &n) || n < INT32_MIN || n > INT32_MAX) {
        df_place_error(in, at, "must be a whole number");
        return false;
    }
    *ret = (int)n;
    return true;
}

int df_place_word(struct df_input *in, const struct df_place *at, const char *const *words,
                  size_t count)
{
    if (is_blank(&at->value)) {
        df_place_error(in, at, df_place_is_there(at) ? "must not be empty" : "is required");
        return -1;
    }
    struct df_str said = df_str_trim(at->value.text);
    for (size_t i = 0; i < count; i++)
        if (df_str_ieq(said, df_str_c(words[i])))
            return (int)i;
    char list[120] = "";
    for (size_t i = 0, len = 0; i < count; i++) {
        const char *before = i == 0 ? "" : i + 1 == count ? " or " : ", ";
        int n = snprintf(list + len, sizeof list - len, "%s%s", before, words[i]);
        len += (size_t)n < sizeof list - len ? (size_t)n : 0;
    }
    df_place_error(in, at, "must be %s", list);
    return -1;
}

void df_place_list(struct df_input *in, const struct df_place *up, const char *outer,
                   const char *inner, struct df_place_list *ret)
{
    *ret = (struct df_place_list){.outer = df_place_member(in, up, outer)};
    ret->holder = ret->outer;
    if (ret->outer.value.type == DF_JSON_OBJECT && inner)
        ret->holder = df_place_member(in, &ret->outer, inner);
    const struct df_json *v = &ret->holder.value;
    if (is_blank(v))
        return;
    bool many = v->type == DF_JSON_ARRAY;
    ret->count = many ? df_json_count(v) : 1;
    ret->each = df_json_each(many ? v : NULL);
    ret->index = many ? 0 : DF_NO_INDEX;
    if (ret->count > DF_PAYLOAD_ENTRIES_MAX) {
        df_place_error(in, &ret->holder, "has %zu entries, at most %d are allowed", ret->count,
                       DF_PAYLOAD_ENTRIES_MAX);
        ret->count = 0;
    }
    ret->left = ret->count;
}

bool df_place_next(struct df_place_list *l, struct df_place *ret)
{
    do {
        if (l->left == 0)
            return false;
        l->left--;
        *ret = l->holder;
        ret->index = l->index;
        if (l->index != DF_NO_INDEX) {
            ret->value = *df_json_next(&l->each);
            l->index++;
        }
    } while (is_blank(&ret->value));
    return true;
}

void df_doc_id_read(struct df_input *in, const struct df_place *at, size_t entity_width,
                    enum df_need entity, struct df_doc_id *ret)
{
    static const struct df_text_field fields[] = {
        DF_CODE_REQUIRED(struct df_doc_id, business_doc_id, "businessDocId", DOC_ID_WIDTH),
        DF_CODE(struct df_doc_id, business_app_id, "businessAppId", APP_ID_WIDTH),
        DF_CODE(struct df_doc_id, original_business_doc_id, "originalBusinessDocId", DOC_ID_WIDTH),
        DF_CODE(struct df_doc_id, user_id, "userId", USER_WIDTH),
    };
    struct df_place p = df_place_member(in, at, "businessEntity");

    ret->business_entity = df_place_text(in, &p, entity_width, DF_TEXT_CODE, entity);
    df_place_texts(in, at, fields, DF_COUNT(fields), ret);
}

static void write_text(struct df_json_out *j, const char *name, struct df_str s)
{
    df_json_kv_text(j, name, s.ptr ? s : DF_STR(""));
}

void df_doc_id_write(struct df_json_out *j, const struct df_doc_id *doc)
{
    df_json_key(j, "functionalDocID");
    df_json_open(j, '{');
    write_text(j, "businessAppID", doc->business_app_id);
    write_text(j, "businessEntity", doc->business_entity);
    write_text(j, "businessDocID", doc->business_doc_id);
    write_text(j, "originalBusinessDocID", doc->original_business_doc_id);
    write_text(j, "userID", doc->user_id);
    df_json_close(j, '}');
}

size_t df_targets_read(struct df_input *in, const struct df_place *up, struct df_str **ret)
{
    struct df_place_list list;
    struct df_place entry;
    size_t count = 0;

    df_place_list(in, up, "targetApplications", "targetApplication", &list);
    *ret = DF_ARENA_ARRAY(in->arena, struct df_str, list.count);
    while (df_place_next(&list, &entry)) {
        struct df_place code = entry;
        if (entry.value.type == DF_JSON_OBJECT)
            code = df_place_member(in, &entry, "applicationCode");
        (*ret)[count++] = df_place_text(in, &code, TARGET_WIDTH, DF_TEXT_CODE, DF_REQUIRED);
    }
    return count;
}

struct df_str df_payload_problems(const struct df_input *in)
{
    struct df_str all = DF_STR_NULL;

    for (size_t i = 0; i < in->error_count; i++) {
        const struct df_field_error *e = &in->errors[i];
        all = df_arena_printf(in->arena, DF_STR_FMT "%s" DF_STR_FMT "%s" DF_STR_FMT,
                              DF_STR_ARG(all), i ? "; " : "", DF_STR_ARG(e->field),
                              e->field.len ? ": " : "", DF_STR_ARG(e->message));
    }
    return all;
}

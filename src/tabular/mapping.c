#include "tabular/mapping.h"

#include "tabular/names.h"
#include "json/scan.h"

#include <stdio.h>

#define STEP_MAX 1024 /* bytes of a step of a path, or of a member's name that may be one */

/* --- reading ---------------------------------------------------------------------------------- */

struct reading {
    struct df_arena *arena;
    struct df_mapping_problems problems;
    struct df_mapping_entry *entries;
    size_t count;
    bool bad;
};

static void tell(struct reading *r, struct df_str name, const char *what)
{
    r->bad = true;
    r->problems.found(r->problems.arg, name, what);
}

/* A path has a dot, and something on both sides of each. */
static bool is_path(struct df_str source)
{
    bool dots = memchr(source.ptr, '.', source.len) != NULL;

    for (struct df_str rest = source, step; dots && rest.ptr;) {
        rest = df_str_cut(rest, '.', &step);
        if (df_names_trim(step).len == 0)
            return false;
    }
    return dots;
}

static struct df_mapping_entry entry_of(struct df_arena *a, struct df_str source)
{
    struct df_mapping_entry e = {.source = df_arena_str(a, source), .header = DF_HEADER_OTHER};

    e.is_path = is_path(e.source);
    if (memchr(e.source.ptr, '.', e.source.len))
        return e;
    char *folded = df_arena_alloc(a, e.source.len);
    size_t len = df_header_fold(e.source, folded);
    if (len > 0)
        e.folded = df_str_n(folded, len);
    return e;
}

static bool same_source(const struct df_mapping_entry *a, const struct df_mapping_entry *b)
{
    return a->folded.ptr || b->folded.ptr
               ? a->folded.ptr && b->folded.ptr && df_str_eq(a->folded, b->folded)
               : df_str_ieq(a->source, b->source);
}

/* Of several phones the first valid one is used, so two columns may hold it. */
static bool shares_field(const struct df_mapping_entry *a, const struct df_mapping_entry *b)
{
    return a->header == b->header && a->header != DF_HEADER_OTHER;
}

static void check_rivals(struct reading *r, const struct df_mapping_entry *e)
{
    for (size_t i = 0; i < r->count; i++) {
        if (same_source(&r->entries[i], e)) {
            tell(r, e->source, "names a column that another entry names too");
            return;
        }
        if (shares_field(&r->entries[i], e) && e->header != DF_HEADER_PHONE) {
            tell(r, e->source, "has the same canonical name as another entry");
            return;
        }
    }
}

/* "PhoneNumber", in any spelling, but no synonym; "" and null: none. */
static bool read_header(const struct df_json *v, enum df_header *ret)
{
    bool exact = false;

    *ret = DF_HEADER_OTHER;
    if (v->type == DF_JSON_NULL)
        return true;
    if (v->type != DF_JSON_STRING)
        return false;
    struct df_str name = df_names_trim(v->text);
    if (name.len == 0)
        return true;
    *ret = df_header_find(name, &exact);
    return exact;
}

static void read_entry(struct reading *r, const struct df_json *v)
{
    struct df_str source = df_names_trim(v->key);
    enum df_header header;

    if (source.len == 0) {
        tell(r, v->key, "is not the name of a column");
        return;
    }
    if (df_utf8_count(source) > DF_MAPPING_NAME_CHARS) {
        tell(r, df_utf8_cut(source, 40), "has more than 200 characters");
        return;
    }
    if (!read_header(v, &header)) {
        tell(r, source, "must be a canonical name, as PhoneNumber, Origin or Name, or empty");
        return;
    }
    struct df_mapping_entry e = entry_of(r->arena, source);
    e.header = header;
    check_rivals(r, &e);
    r->entries[r->count++] = e;
}

static struct df_mapping *mapping_new(struct df_arena *a, const struct df_mapping_entry *entries,
                                      size_t count)
{
    struct df_mapping *m = DF_ARENA_NEW(a, struct df_mapping);

    *m = (struct df_mapping){.entries = entries, .count = count};
    for (size_t i = 0; i < count; i++)
        m->has_paths = m->has_paths || entries[i].is_path;
    return m;
}

struct df_mapping *df_mapping_read(struct df_arena *a, const struct df_json *object,
                                   struct df_mapping_problems problems)
{
    struct reading r = {.arena = a, .problems = problems};

    if (object->type != DF_JSON_OBJECT) {
        tell(&r, DF_STR_NULL, "must be an object of names of columns and canonical names");
        return NULL;
    }
    if (df_json_count(object) > DF_MAPPING_ENTRIES) {
        tell(&r, DF_STR_NULL, "has more than 200 entries");
        return NULL;
    }
    r.entries = DF_ARENA_ARRAY(a, struct df_mapping_entry, DF_MAPPING_ENTRIES);
    struct df_json_each each = df_json_each(object);
    for (const struct df_json *v; (v = df_json_next(&each));)
        read_entry(&r, v);
    return r.bad ? NULL : mapping_new(a, r.entries, r.count);
}

struct stored_problem {
    struct df_err *err;
};

static void stored_is_bad(void *arg, struct df_str name, const char *what)
{
    struct stored_problem *p = arg;

    (void)df_err_set(p->err, DF_E_INTERNAL,
                     "the stored mapping cannot be read: \"" DF_STR_FMT "\" %s", DF_STR_ARG(name),
                     what);
}

enum df_code df_mapping_load(struct df_arena *a, struct df_str json, struct df_mapping **ret,
                             struct df_err *err)
{
    struct stored_problem p = {err};
    const struct df_json *object;

    *ret = NULL;
    if (!json.ptr)
        return DF_OK;
    enum df_code code = df_json_parse(a, json, &object, err);
    if (code != DF_OK)
        return df_err_set(err, DF_E_INTERNAL, "the stored mapping is not JSON");
    *ret = df_mapping_read(a, object, (struct df_mapping_problems){stored_is_bad, &p});
    return *ret ? DF_OK : DF_E_INTERNAL;
}

static bool is_hidden(const struct df_mapping *upload, const struct df_mapping_entry *e)
{
    for (size_t i = 0; i < upload->count; i++)
        if (same_source(&upload->entries[i], e) || shares_field(&upload->entries[i], e))
            return true;
    return false;
}

struct df_mapping *df_mapping_join(struct df_arena *a, const struct df_mapping *upload,
                                   const struct df_mapping *kept)
{
    static const struct df_mapping none = {0};
    size_t count = 0;

    upload = upload ? upload : &none;
    kept = kept ? kept : &none;
    if (upload->count + kept->count == 0)
        return NULL;
    struct df_mapping_entry *all =
        DF_ARENA_ARRAY(a, struct df_mapping_entry, upload->count + kept->count);
    for (size_t i = 0; i < upload->count; i++)
        all[count++] = upload->entries[i];
    for (size_t i = 0; i < kept->count && count < DF_MAPPING_ENTRIES; i++) {
        if (is_hidden(upload, &kept->entries[i]))
            continue;
        all[count] = kept->entries[i];
        all[count++].kept = true;
    }
    return mapping_new(a, all, count);
}

void df_mapping_write(const struct df_mapping *m, struct df_json_out *out)
{
    df_json_open(out, '{');
    for (size_t i = 0; i < m->count; i++) {
        enum df_header h = m->entries[i].header;
        df_json_key_str(out, m->entries[i].source);
        df_json_text(out, h == DF_HEADER_OTHER ? DF_STR("") : df_str_c(df_header_name(h)));
    }
    df_json_close(out, '}');
}

/* --- finding ---------------------------------------------------------------------------------- */

const struct df_mapping_entry *df_mapping_find(const struct df_mapping *m, struct df_str name)
{
    char folded[4 * DF_MAPPING_NAME_CHARS];

    name = df_names_trim(name);
    if (!m || name.len == 0 || name.len > sizeof folded)
        return NULL;
    struct df_str key = df_str_n(folded, df_header_fold(name, folded));
    for (size_t i = 0; i < m->count; i++) {
        const struct df_mapping_entry *e = &m->entries[i];
        if (e->folded.ptr ? df_str_eq(e->folded, key) : df_str_ieq(e->source, name))
            return e;
    }
    return NULL;
}

static bool same_name(struct df_str step, struct df_str name)
{
    char a[STEP_MAX], b[STEP_MAX];

    name = df_names_trim(name);
    if (step.len > STEP_MAX || name.len > STEP_MAX)
        return false;
    struct df_str folded = df_str_n(a, df_header_fold(step, a));
    return folded.len > 0 ? df_str_eq(folded, df_str_n(b, df_header_fold(name, b)))
                          : df_str_eq(step, name);
}

/* The place that a step names in an array; false: it names none. */
static bool place_of(struct df_str step, size_t *ret)
{
    size_t n = 0;

    if (step.len == 0 || step.len > 6)
        return false;
    for (size_t i = 0; i < step.len; i++) {
        if (step.ptr[i] < '0' || step.ptr[i] > '9')
            return false;
        n = n * 10 + (size_t)(step.ptr[i] - '0');
    }
    *ret = n;
    return true;
}

/* Moves past the value that begins with this token. */
static void skip_value(struct df_json_scan *s, enum df_json_token t)
{
    if (t == DF_TOK_OBJECT || t == DF_TOK_ARRAY)
        (void)df_json_scan_skip(s, s->depth - 1);
}

/* Inside an object: goes to the value of the member; returns its token, or END. */
static enum df_json_token enter_member(struct df_json_scan *s, struct df_str step)
{
    char unescaped[STEP_MAX];

    while (df_json_scan_next(s) == DF_TOK_KEY) {
        struct df_str name = s->text;
        bool fits = name.len <= sizeof unescaped;
        bool same = fits && same_name(step, s->escaped ? df_json_unescape(name, unescaped) : name);
        enum df_json_token t = df_json_scan_next(s);
        if (same)
            return t;
        skip_value(s, t);
    }
    return DF_TOK_END;
}

static enum df_json_token enter_place(struct df_json_scan *s, size_t place)
{
    enum df_json_token t;

    while ((t = df_json_scan_next(s)) > DF_TOK_END && t != DF_TOK_ARRAY_END) {
        if (place-- == 0)
            return t;
        skip_value(s, t);
    }
    return DF_TOK_END;
}

/* The scanner stands at the value that the path leads to: makes a field of it. */
static bool take_value(struct df_json_scan *s, enum df_json_token t, struct df_arena *a,
                       struct df_field *ret)
{
    const char *start = s->start;

    switch (t) {
    case DF_TOK_STRING:
        ret->kind = DF_FIELD_TEXT;
        ret->text =
            s->escaped ? df_json_unescape(s->text, df_arena_alloc(a, s->text.len + 1)) : s->text;
        return true;
    case DF_TOK_NUMBER:
        ret->kind = DF_FIELD_NUMBER;
        ret->text = s->text;
        return true;
    case DF_TOK_TRUE:
    case DF_TOK_FALSE:
        ret->kind = DF_FIELD_BOOL;
        ret->text = t == DF_TOK_TRUE ? DF_STR("true") : DF_STR("false");
        return true;
    case DF_TOK_OBJECT:
    case DF_TOK_ARRAY:
        skip_value(s, t);
        ret->kind = DF_FIELD_JSON;
        ret->text = df_str_n(start, (size_t)(s->p - start));
        return true;
    case DF_TOK_NULL:
    case DF_TOK_ERROR:
    case DF_TOK_MORE:
    case DF_TOK_END:
    case DF_TOK_OBJECT_END:
    case DF_TOK_ARRAY_END:
    case DF_TOK_KEY:
    case DF_TOK_STRING_PART:
        break;
    }
    return false;
}

/* Follows the steps into a value that was checked. */
static bool walk(struct df_str json, struct df_str steps, struct df_arena *a, struct df_field *ret)
{
    struct df_json_scan s;
    struct df_str step;
    size_t place;

    df_json_scan_init(&s, 0, DF_JSON_DEPTH_MAX);
    df_json_scan_window(&s, json, 0, true);
    enum df_json_token t = df_json_scan_next(&s);
    while (steps.ptr && t > DF_TOK_END) {
        steps = df_str_cut(steps, '.', &step);
        step = df_names_trim(step);
        if (t == DF_TOK_OBJECT)
            t = enter_member(&s, step);
        else
            t = t == DF_TOK_ARRAY && place_of(step, &place) ? enter_place(&s, place) : DF_TOK_END;
    }
    bool found = take_value(&s, t, a, ret);
    df_json_scan_release(&s);
    return found;
}

bool df_mapping_value(const struct df_mapping_entry *e, const struct df_record *record,
                      struct df_arena *a, struct df_field *ret)
{
    const struct df_field *nested = NULL;
    struct df_str first;
    struct df_str rest = df_str_cut(e->source, '.', &first);

    if (!e->is_path)
        return false;
    for (size_t i = 0; i < record->count; i++) {
        const struct df_field *f = &record->fields[i];
        if (df_str_ieq(df_names_trim(f->name), e->source))
            return false;
        if (!nested && f->kind == DF_FIELD_JSON && same_name(df_names_trim(first), f->name))
            nested = f;
    }
    ret->name = e->source;
    return nested && walk(nested->text, rest, a, ret);
}

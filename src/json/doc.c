/*
 * The pass that checks a document notes where the members of its first objects lie: callers mostly
 * ask for these. Everything else is found by walking through the text, each time anew. The scanner
 * has accepted this text, so brackets match, strings end, and nothing is checked again.
 */
#include "json/doc.h"

#include "json/lex.h"
#include "json/scan.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#define OBJECTS_NOTED 32
#define MEMBERS_NOTED 512
#define NONE          UINT16_MAX

struct member {
    const char *key; /* as written, after the quote */
    const char *value;
    uint32_t key_len;
    uint32_t value_len;
    uint16_t next; /* of the same object, or NONE */
    bool escaped;  /* the key */
    bool escapes;  /* the value, a string */
};

struct object {
    const char *at;   /* its opening bracket */
    const char *rest; /* its first member that is not noted; NULL: all are */
    uint16_t first;
    uint16_t last;
};

struct df_json_doc {
    struct df_arena *arena;
    const char *end; /* of the document, without trailing white space */
    struct df_json root;
    struct member *members;
    size_t object_count;
    struct object objects[];
};

_Static_assert(sizeof(struct df_json_doc) + OBJECTS_NOTED * sizeof(struct object) +
                       MEMBERS_NOTED * sizeof(struct member) + 32 <=
                   DF_JSON_DOC_BYTES,
               "a document takes no more than it says");

/* --- walking ---------------------------------------------------------------------------------- */

static inline const char *skip_space(const char *p)
{
    while (df_json_is_space(*p))
        p++;
    return p;
}

/* The closing quote of the string whose content begins at p. */
static inline const char *skip_text(const char *p, const char *end, bool *ret_escaped)
{
    *ret_escaped = false;
    while (*(p = df_json_plain(p, end)) != '"') {
        *ret_escaped = *ret_escaped || *p == '\\';
        p += *p == '\\' ? 2 : 1;
    }
    return p;
}

static const char *skip_nested(const char *p, const char *end)
{
    unsigned depth = 0;
    bool escaped;

    do {
        switch (*p) {
        case '"':
            p = skip_text(p + 1, end, &escaped);
            break;
        case '{':
        case '[':
            depth++;
            break;
        case '}':
        case ']':
            depth--;
            break;
        default:
            break;
        }
        p++;
    } while (depth > 0);
    return p;
}

static inline const char *skip_scalar(const char *p, const char *end)
{
    while (p < end && *p != ',' && *p != '}' && *p != ']' && !df_json_is_space(*p))
        p++;
    return p;
}

/* The byte after the value at p; whether it is a string that has escapes. */
static inline const char *skip_value(const char *p, const char *end, bool *ret_escapes)
{
    *ret_escapes = false;
    switch (*p) {
    case '"':
        return skip_text(p + 1, end, ret_escapes) + 1;
    case '{':
    case '[':
        return skip_nested(p, end);
    default:
        return skip_scalar(p, end);
    }
}

/* From the end of a child to the next one, or to the closing bracket. */
static inline const char *skip_comma(const char *p)
{
    p = skip_space(p);
    return *p == ',' ? skip_space(p + 1) : p;
}

/* The member whose name's quote stands at p; returns where the next one stands. */
static inline const char *walk_member(const char *p, const char *end, struct member *ret)
{
    ret->key = p + 1;
    p = skip_text(p + 1, end, &ret->escaped);
    ret->key_len = (uint32_t)(p - ret->key);
    p = skip_space(skip_space(p + 1) + 1);
    ret->value = p;
    p = skip_value(p, end, &ret->escapes);
    ret->value_len = (uint32_t)(p - ret->value);
    return skip_comma(p);
}

/* --- making a value --------------------------------------------------------------------------- */

static enum df_json_type type_of(char first)
{
    switch (first) {
    case '{':
        return DF_JSON_OBJECT;
    case '[':
        return DF_JSON_ARRAY;
    case '"':
        return DF_JSON_STRING;
    case 't':
    case 'f':
        return DF_JSON_BOOL;
    case 'n':
        return DF_JSON_NULL;
    default:
        return DF_JSON_NUMBER;
    }
}

static struct df_str unescaped(struct df_json_doc *doc, struct df_str s)
{
    return df_json_unescape(s, df_arena_alloc(doc->arena, s.len));
}

/* Sets everything except the key. */
static inline void set_value(struct df_json *v, struct df_json_doc *doc, const char *p, size_t len,
                             bool escapes)
{
    v->type = type_of(*p);
    v->boolean = *p == 't';
    v->twice = false;
    v->doc = doc;
    v->raw = v->text = df_str_n(p, len);
    if (v->type == DF_JSON_STRING) {
        v->text = df_str_n(p + 1, len - 2);
        if (escapes)
            v->text = unescaped(doc, v->text);
    } else if (v->type != DF_JSON_NUMBER) {
        v->text = DF_STR_NULL;
    }
}

static inline void set_member(struct df_json *v, struct df_json_doc *doc, const struct member *m)
{
    set_value(v, doc, m->value, m->value_len, m->escapes);
    v->key = df_str_n(m->key, m->key_len);
    if (m->escaped)
        v->key = unescaped(doc, v->key);
}

/* --- the pass over the document --------------------------------------------------------------- */

/* An open array or object. */
struct level {
    uint16_t object; /* NONE: an array, or not noted */
    uint16_t member; /* whose value it is, or NONE */
};

struct notes {
    struct df_json_scan scan;
    struct df_str key; /* of the member whose value comes next */
    bool escaped;
    uint16_t member_count;
    uint16_t object_count;
    struct level levels[DF_JSON_DEPTH + 1];
    struct object objects[OBJECTS_NOTED];
    struct member members[MEMBERS_NOTED];
};

/* Notes the value that was just scanned or opened as a member of the level around it. */
static uint16_t note_member(struct notes *n, unsigned level)
{
    uint16_t in = n->levels[level].object;
    uint16_t i = n->member_count;

    if (in == NONE || n->objects[in].rest)
        return NONE;
    struct object *o = &n->objects[in];
    if (i == MEMBERS_NOTED) {
        o->rest = n->key.ptr - 1;
        return NONE;
    }
    n->members[i] = (struct member){
        .key = n->key.ptr,
        .key_len = (uint32_t)n->key.len,
        .escaped = n->escaped,
        .value = n->scan.start,
        .value_len = (uint32_t)(n->scan.p - n->scan.start),
        .next = NONE,
        .escapes = n->scan.escaped,
    };
    if (o->last == NONE)
        o->first = i;
    else
        n->members[o->last].next = i;
    o->last = i;
    return n->member_count++;
}

static void open_level(struct notes *n, bool object)
{
    unsigned depth = n->scan.depth;
    struct level *l = &n->levels[depth];

    l->member = note_member(n, depth - 1);
    l->object = NONE;
    if (object && n->object_count < OBJECTS_NOTED) {
        l->object = n->object_count++;
        n->objects[l->object] = (struct object){.at = n->scan.start, .first = NONE, .last = NONE};
    }
}

static void close_level(struct notes *n)
{
    uint16_t i = n->levels[n->scan.depth + 1].member;
    if (i != NONE)
        n->members[i].value_len = (uint32_t)(n->scan.p - n->members[i].value);
}

static inline void note_token(struct notes *n, enum df_json_token t)
{
    switch (t) {
    case DF_TOK_OBJECT:
    case DF_TOK_ARRAY:
        open_level(n, t == DF_TOK_OBJECT);
        break;
    case DF_TOK_OBJECT_END:
    case DF_TOK_ARRAY_END:
        close_level(n);
        break;
    case DF_TOK_KEY:
        n->key = n->scan.text;
        n->escaped = n->scan.escaped;
        break;
    case DF_TOK_STRING:
    case DF_TOK_NUMBER:
    case DF_TOK_TRUE:
    case DF_TOK_FALSE:
    case DF_TOK_NULL:
        (void)note_member(n, n->scan.depth);
        break;
    case DF_TOK_STRING_PART:
    case DF_TOK_ERROR:
    case DF_TOK_MORE:
    case DF_TOK_END:
        break;
    }
}

static const struct df_json *keep_doc(struct df_arena *a, const struct notes *n,
                                      struct df_str input)
{
    size_t objects = n->object_count * sizeof(struct object);
    size_t members = n->member_count * sizeof(struct member);
    struct df_json_doc *doc = df_arena_alloc(a, sizeof(*doc) + objects);

    *doc = (struct df_json_doc){.arena = a, .end = input.ptr + input.len};
    doc->object_count = n->object_count;
    memcpy(doc->objects, n->objects, objects);
    doc->members = df_arena_alloc(a, members);
    memcpy(doc->members, n->members, members);
    while (df_json_is_space(doc->end[-1]))
        doc->end--;
    const char *begin = skip_space(input.ptr);
    set_value(&doc->root, doc, begin, (size_t)(doc->end - begin), n->scan.escaped);
    return &doc->root;
}

enum df_code df_json_parse(struct df_arena *a, struct df_str input, const struct df_json **ret,
                           struct df_err *err)
{
    struct notes n;
    enum df_json_token t;
    enum df_code rc = DF_OK;

    if (input.len > UINT32_MAX)
        return df_err_at(err, DF_E_TOO_LARGE, 0, "the document has %zu bytes", input.len);
    n.member_count = n.object_count = 0;
    n.levels[0] = (struct level){NONE, NONE};
    df_json_scan_init(&n.scan, DF_JSON_UNIQUE_KEYS | DF_JSON_NO_NUL, DF_JSON_DEPTH);
    n.scan.keys.copy_depth = 0;
    df_json_scan_window(&n.scan, input, 0, true);
    while ((t = df_json_scan_next(&n.scan)) > DF_TOK_END)
        note_token(&n, t);
    if (t == DF_TOK_ERROR)
        rc = df_json_scan_error(&n.scan, err);
    else
        *ret = keep_doc(a, &n, input);
    df_json_scan_release(&n.scan);
    return rc;
}

/* --- by name ---------------------------------------------------------------------------------- */

static const struct object *noted_object(const struct df_json_doc *doc, const char *at)
{
    for (size_t i = 0; i < doc->object_count; i++)
        if (doc->objects[i].at == at)
            return &doc->objects[i];
    return NULL;
}

/* A search for a name, with the best match so far. */
struct search {
    struct df_str name;
    unsigned matches;
    bool exact;
    struct member found; /* a copy: members passed on the walk are not kept */
};

#define NAME_MAX_BYTES 64 /* longest name that callers ask for */

static bool same_name(const struct search *s, const struct member *m, bool *ret_exact)
{
    char plain[NAME_MAX_BYTES * 6];
    struct df_str key = df_str_n(m->key, m->key_len);

    /* An escape takes at most six bytes for one. */
    if (m->escaped) {
        if (key.len > s->name.len * 6 || key.len > sizeof(plain))
            return false;
        key = df_json_unescape(key, plain);
    }
    *ret_exact = df_str_eq(key, s->name);
    return *ret_exact || df_str_ieq(key, s->name);
}

static inline void look_at(struct search *s, const struct member *m)
{
    bool exact;

    /* Most names differ in length or in their first letter, compared without case. */
    if (!m->escaped && (m->key_len != s->name.len ||
                        (m->key_len > 0 && ((m->key[0] ^ s->name.ptr[0]) & ~0x20) != 0)))
        return;
    if (!same_name(s, m, &exact))
        return;
    if (s->matches++ == 0 || (exact && !s->exact))
        s->found = *m;
    s->exact = s->exact || exact;
}

bool df_json_find(const struct df_json *obj, const char *name, struct df_json *ret)
{
    struct search s = {.name = df_str_c(name)};
    struct member m;

    if (!obj || obj->type != DF_JSON_OBJECT || !obj->doc) {
        *ret = (struct df_json){0};
        return false;
    }
    const struct object *o = noted_object(obj->doc, obj->raw.ptr);
    for (uint16_t i = o ? o->first : NONE; i != NONE; i = obj->doc->members[i].next)
        look_at(&s, &obj->doc->members[i]);
    for (const char *p = o ? o->rest : skip_space(obj->raw.ptr + 1); p && *p != '}';) {
        p = walk_member(p, obj->doc->end, &m);
        look_at(&s, &m);
    }
    if (s.matches == 0) {
        *ret = (struct df_json){0};
        return false;
    }
    set_member(ret, obj->doc, &s.found);
    ret->twice = s.matches > 1;
    return true;
}

const struct df_json *df_json_get(const struct df_json *obj, const char *name)
{
    struct df_json v;

    if (!df_json_find(obj, name, &v))
        return NULL;
    struct df_json *kept = df_arena_alloc(v.doc->arena, sizeof(v));
    *kept = v;
    return kept;
}

/* --- in order --------------------------------------------------------------------------------- */

struct df_json_each df_json_each(const struct df_json *v)
{
    struct df_json_each each = {0};

    if (!v || !v->doc || (v->type != DF_JSON_ARRAY && v->type != DF_JSON_OBJECT))
        return each;
    each.p = skip_space(v->raw.ptr + 1);
    each.members = v->type == DF_JSON_OBJECT;
    each.value.doc = v->doc;
    return each;
}

const struct df_json *df_json_next(struct df_json_each *each)
{
    struct df_json_doc *doc = each->value.doc;
    struct member m;

    if (!each->p || *each->p == ']' || *each->p == '}') {
        each->p = NULL;
        return NULL;
    }
    if (each->members) {
        each->p = walk_member(each->p, doc->end, &m);
        set_member(&each->value, doc, &m);
    } else {
        bool escapes;
        const char *end = skip_value(each->p, doc->end, &escapes);
        set_value(&each->value, doc, each->p, (size_t)(end - each->p), escapes);
        each->p = skip_comma(end);
    }
    return &each->value;
}

size_t df_json_count(const struct df_json *v)
{
    struct df_json_each each = df_json_each(v);
    struct member m;
    bool escapes;
    size_t n = 0;

    for (const char *p = each.p; p && *p != ']' && *p != '}'; n++)
        p = each.members ? walk_member(p, v->doc->end, &m)
                         : skip_comma(skip_value(p, v->doc->end, &escapes));
    return n;
}

/* --- scalars ---------------------------------------------------------------------------------- */

/* The text of a number or a string, without surrounding blanks. */
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
    /* 15.0 and 1.5e1 are whole numbers too; beyond 2^53 a double is not exact. */
    if (!df_json_to_double(v, &d) || d != floor(d) || fabs(d) > 9007199254740992.0)
        return false;
    *ret = (int64_t)d;
    return true;
}

/*
 * strtod accepts more than decimal numbers (hexadecimal, inf, nan), so only characters of decimal
 * numbers are passed to it. The program never leaves the C locale.
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

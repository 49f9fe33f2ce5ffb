/*
 * Each record goes through three steps.
 *
 *   1. Its names are looked up.
 *   2. One column is chosen for each canonical field: a column with a value before an empty one,
 *      the canonical name before a synonym, the first before the second. For the phone, the first
 *      valid one.
 *   3. The item is written. Columns that were not chosen keep their own names under
 *      LeadContextJson. Only white space is lost.
 *
 * The item is built in a buffer with room for the worst case of escaping, so that writing needs no
 * checks, and copied out when it is complete.
 */
#include "tabular/normalise.h"

#include "base/escape.h"
#include "base/mem.h"
#include "tabular/columns.h"
#include "tabular/names.h"
#include "tabular/seen.h"
#include "json/scan.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#define ITEM_MAX     ((size_t)1 << 20)
#define ITEM_CAP_MAX (16 * ITEM_MAX) /* a record that might need more is too large in any case */
#define ORIGIN_MAX   200
#define PHONES_MAX   16 /* phone columns tried; the others keep their names */
#define NONE         SIZE_MAX
#define SLACK        64 /* bytes that a block copy may write past the end of a text */
/* A value's depth: the request that carries the items puts four levels around it. */
#define JSON_DEPTH (DF_JSON_DEPTH - 4)

struct df_normaliser {
    struct df_seen *seen;
    struct df_str origin_default; /* ours */
    struct df_names names;
    const struct df_name **name; /* of each field of the record */
    bool *taken;                 /* for each field: it stands outside LeadContextJson */
    size_t cap;
    const struct df_mapping *mapping; /* NULL: none */
    struct df_field *fields;          /* of a record with values from paths */
    size_t field_cap;
    size_t own_count;      /* fields of the record itself; those of paths follow */
    struct df_arena texts; /* of values from paths */
    bool keeps_repeats;
    size_t chosen[DF_HEADER_COUNT];
    bool rivals;  /* more than one column for a field */
    bool crowded; /* names under LeadContextJson may collide */
    struct df_columns used;
    unsigned depth; /* of the item's deepest value */
    char phone[17];
    char *item;
    size_t item_cap;
    char reason[160];
    const char *code; /* of the reason */
};

/* --- writing ---------------------------------------------------------------------------------- */

static char *put(char *to, const char *from, size_t len)
{
    memcpy(to, from, len);
    return to + len;
}

#define PUT(to, literal) put((to), literal, sizeof(literal) - 1)

/* s is valid UTF-8. */
static char *put_string(char *to, struct df_str s)
{
    *to++ = '"';
    to = df_escape(to, to + DF_ESCAPE_GROWTH * s.len + SLACK / 2, &s, DF_ESCAPE_VALID);
    *to++ = '"';
    return to;
}

/* Copies valid JSON without the white space between its tokens: an item has no line breaks. */
static char *put_json(struct df_normaliser *n, char *to, struct df_str json)
{
    const char *p = json.ptr, *end = p + json.len;
    unsigned depth = 0;

    while (p < end) {
        char c = *p++;
        if (c == ' ' || c == '\n' || c == '\r' || c == '\t')
            continue;
        *to++ = c;
        if (c == '"') {
            while ((c = *to++ = *p++) != '"')
                if (c == '\\')
                    *to++ = *p++;
        } else if ((c | 0x20) == '{') { /* or [ */
            depth++;
            n->depth = n->depth < depth ? depth : n->depth;
        } else if ((c | 0x20) == '}') {
            depth--;
        }
    }
    return to;
}

static char *put_value(struct df_normaliser *n, char *to, const struct df_field *f)
{
    switch (f->kind) {
    case DF_FIELD_NULL:
        return PUT(to, "null");
    case DF_FIELD_TEXT:
        return put_string(to, df_names_trim(f->text));
    case DF_FIELD_NUMBER:
    case DF_FIELD_BOOL:
        return put(to, f->text.ptr, f->text.len);
    case DF_FIELD_JSON:
        return put_json(n, to, f->text);
    }
    abort();
}

/* --- choosing --------------------------------------------------------------------------------- */

static bool has_value(const struct df_field *f)
{
    if (f->kind == DF_FIELD_TEXT)
        return f->text.len > 0 &&
               ((unsigned char)(f->text.ptr[0] - '!') < 0x5E || df_names_trim(f->text).len > 0);
    return f->kind != DF_FIELD_NULL;
}

bool df_record_is_empty(const struct df_record *record)
{
    bool empty = true;

    for (size_t i = 0; i < record->count && empty; i++)
        empty = !has_value(&record->fields[i]);
    return empty;
}

static void reserve_fields(struct df_normaliser *n, size_t count)
{
    if (count <= n->cap)
        return;
    n->cap = count < 32 ? 32 : count * 2;
    n->name = df_realloc(n->name, n->cap * sizeof(void *));
    n->taken = df_realloc(n->taken, n->cap * sizeof(*n->taken));
}

/* The record with the values that the mapping's paths lead to, behind its own. */
static struct df_record with_paths(struct df_normaliser *n, const struct df_record *record)
{
    size_t count = record->count;

    n->own_count = count;
    if (!n->mapping || !n->mapping->has_paths || count == 0)
        return *record;
    if (count + n->mapping->count > n->field_cap) {
        n->field_cap = 2 * count + n->mapping->count;
        free(n->fields);
        n->fields = df_malloc(n->field_cap * sizeof(*n->fields));
    }
    memcpy(n->fields, record->fields, count * sizeof(*n->fields));
    df_arena_reset(&n->texts);
    for (size_t i = 0; i < n->mapping->count; i++)
        count += df_mapping_value(&n->mapping->entries[i], record, &n->texts, &n->fields[count]);
    return (struct df_record){.fields = n->fields, .count = count, .row = record->row};
}

/* The column with the higher worth stands for the field; the first of equals. */
static int column_worth(const struct df_normaliser *n, const struct df_record *record, size_t i)
{
    return (has_value(&record->fields[i]) ? 4 : 0) + (n->name[i]->mapped ? 2 : 0) +
           n->name[i]->exact;
}

/* Looks up the record's names and chooses a column for each field. False: no field has a value. */
static bool choose_columns(struct df_normaliser *n, const struct df_record *record)
{
    bool any = false;

    reserve_fields(n, record->count);
    df_names_begin(&n->names, record->count);
    for (size_t h = 0; h < DF_HEADER_COUNT; h++)
        n->chosen[h] = NONE;
    n->rivals = false;
    n->crowded = n->mapping != NULL; /* a column may give up its name, and another take it */
    for (size_t i = 0; i < record->count; i++) {
        const struct df_name *name = df_names_find(&n->names, i, record->fields[i].name);
        size_t *chosen = &n->chosen[name->header];
        n->name[i] = name;
        n->taken[i] = false;
        n->crowded = n->crowded || name->altered;
        any = any || has_value(&record->fields[i]);
        if (name->header == DF_HEADER_OTHER)
            continue;
        n->rivals = n->rivals || *chosen != NONE;
        /* A chosen synonym takes the canonical name, which the column of that name has too. */
        if (*chosen != NONE && (name->exact || n->name[*chosen]->exact))
            n->crowded = n->crowded || name->header >= DF_HEADER_LEAD;
        if (*chosen == NONE || column_worth(n, record, i) > column_worth(n, record, *chosen))
            *chosen = i;
    }
    return any;
}

/* Tries the phone in column i: by itself, then with the area code from the area column. */
static bool try_phone(struct df_normaliser *n, const struct df_record *record, size_t i,
                      const char **ret_why)
{
    const struct df_field *f = &record->fields[i];
    size_t area = n->chosen[DF_HEADER_AREA];
    const char *why;
    char joined[64];

    if (df_phone_normalise(f->text, n->phone, ret_why))
        return true;
    if (area == NONE || record->fields[area].text.len + f->text.len > sizeof(joined) - 2 ||
        !has_value(&record->fields[area]) || !has_value(f))
        return false;
    int len = snprintf(joined, sizeof(joined), DF_STR_FMT " " DF_STR_FMT,
                       DF_STR_ARG(record->fields[area].text), DF_STR_ARG(f->text));
    if (!df_phone_normalise(df_str_n(joined, (size_t)len), n->phone, &why))
        return false;
    *ret_why = NULL;
    return true;
}

/* The column of the phone, or NONE. *ret_why: why there is no valid phone; NULL: n->phone is it. */
static size_t choose_phone(struct df_normaliser *n, const struct df_record *record,
                           const char **ret_why)
{
    size_t first = n->chosen[DF_HEADER_PHONE];
    size_t tried = 0;
    const char *why;

    *ret_why = NULL;
    if (first == NONE || !has_value(&record->fields[first])) {
        *ret_why = "there is none";
        return first;
    }
    if (try_phone(n, record, first, ret_why) || !n->rivals)
        return first;
    for (size_t i = 0; i < record->count && tried < PHONES_MAX; i++) {
        if (n->name[i]->header != DF_HEADER_PHONE || i == first || !has_value(&record->fields[i]))
            continue;
        tried++;
        if (try_phone(n, record, i, &why)) {
            *ret_why = NULL;
            return i;
        }
    }
    return first;
}

static bool is_scalar(const struct df_field *f)
{
    return f->kind != DF_FIELD_JSON;
}

/* --- the parts of an item --------------------------------------------------------------------- */

/* Whether the text is valid JSON that begins with one of these brackets. */
static bool is_json(struct df_str text, const char *brackets)
{
    return text.len > 1 && strchr(brackets, text.ptr[0]) && text.ptr[0] &&
           df_json_check(text, DF_JSON_UNIQUE_KEYS | DF_JSON_NO_NUL, JSON_DEPTH, NULL) == DF_OK;
}

static char *put_phone(struct df_normaliser *n, char *to, const struct df_record *record, size_t i,
                       bool valid)
{
    to = PUT(to, ",\"PhoneNumber\":");
    if (valid) {
        *to++ = '"';
        to = put(to, n->phone, strlen(n->phone));
        *to++ = '"';
    } else if (i != NONE) {
        to = put_value(n, to, &record->fields[i]);
    } else {
        to = PUT(to, "null");
    }
    /* An array may hold more numbers than the one that was used: it stays under LeadContextJson. */
    if (i != NONE && (is_scalar(&record->fields[i]) || !valid))
        n->taken[i] = true;
    return to;
}

/* Writes s into out with each run of white space as one space; at most s.len bytes. */
static size_t collapse_blanks(struct df_str s, char *out)
{
    size_t len = 0;
    bool blank = false;

    for (size_t i = 0; i < s.len; i++) {
        size_t skip = (unsigned char)s.ptr[i] <= ' '                       ? 1
                      : i + 1 < s.len && !memcmp(s.ptr + i, "\xC2\xA0", 2) ? 2
                                                                           : 0;
        if (skip > 0) {
            blank = true;
            i += skip - 1;
            continue;
        }
        if (blank && len > 0)
            out[len++] = ' ';
        blank = false;
        out[len++] = s.ptr[i];
    }
    return len;
}

/* *ret_why is set when the origin is too long. */
static char *put_origin(struct df_normaliser *n, char *to, const struct df_record *record,
                        const char **ret_why)
{
    size_t i = n->chosen[DF_HEADER_ORIGIN];
    struct df_str origin = n->origin_default;
    bool given = i != NONE && has_value(&record->fields[i]) && is_scalar(&record->fields[i]);

    to = PUT(to, ",\"Origin\":");
    if (i != NONE && is_scalar(&record->fields[i]))
        n->taken[i] = true;
    if (given) {
        /* The buffer has six bytes for each byte of the text: the last sixth serves as scratch. */
        char *scratch = to + 5 * record->fields[i].text.len + SLACK;
        origin = df_str_n(scratch, collapse_blanks(df_names_trim(record->fields[i].text), scratch));
    }
    if (!origin.ptr)
        return PUT(to, "null");
    if (origin.len > ORIGIN_MAX && df_utf8_count(origin) > ORIGIN_MAX)
        *ret_why = "longer than 200 characters";
    return put_string(to, origin);
}

static char *put_property(struct df_normaliser *n, char *to, const struct df_record *record)
{
    size_t i = n->chosen[DF_HEADER_PROPERTY];
    const struct df_field *f = i == NONE ? NULL : &record->fields[i];

    to = PUT(to, ",\"PropertyContextJson\":");
    if (f)
        n->taken[i] = true;
    if (!f || !has_value(f))
        return PUT(to, "null");
    if (f->kind == DF_FIELD_JSON)
        return put_json(n, to, f->text);
    struct df_str text = df_names_trim(f->text);
    if (f->kind == DF_FIELD_TEXT && is_json(text, "{["))
        return put_json(n, to, text);
    to = PUT(to, "{\"description\":");
    to = put_value(n, to, f);
    *to++ = '}';
    return to;
}

/* Writes a name that is unique under LeadContextJson, with a number if need be. */
static char *put_unique(struct df_normaliser *n, char *to, struct df_str name)
{
    size_t next = n->used.count;

    df_columns_set(&n->used, next, name);
    to = put_string(to, df_columns_name(&n->used, next));
    *to++ = ':';
    return to;
}

static char *put_key(struct df_normaliser *n, char *to, const struct df_name *name, bool canonical)
{
    struct df_str key = canonical ? name->canonical : name->key;

    if (n->crowded)
        return put_unique(n, to, canonical ? df_str_c(df_header_name(name->header)) : name->own);
    return put(to, key.ptr, key.len);
}

/* Copies the members of an object into LeadContextJson. */
static char *put_members(struct df_normaliser *n, char *to, struct df_str json)
{
    struct df_json_scan s;

    df_json_scan_init(&s, 0, DF_JSON_DEPTH);
    df_json_scan_window(&s, json, 0, true);
    df_json_scan_next(&s);
    while (df_json_scan_next(&s) == DF_TOK_KEY) {
        char *name = df_malloc(s.text.len + 1);
        to = put_unique(n, to, df_json_unescape(s.text, name));
        free(name);
        enum df_json_token t = df_json_scan_next(&s);
        const char *start = s.start;
        if (t == DF_TOK_OBJECT || t == DF_TOK_ARRAY)
            df_json_scan_skip(&s, s.depth - 1);
        to = put_json(n, to, df_str_n(start, (size_t)(s.p - start)));
        *to++ = ',';
    }
    df_json_scan_release(&s);
    return to;
}

/* The object in a column that is named LeadContextJson, or the absent slice. */
static struct df_str context_of(const struct df_field *f)
{
    struct df_str text = f->kind == DF_FIELD_TEXT ? df_names_trim(f->text) : f->text;

    if (f->kind == DF_FIELD_JSON && text.ptr[0] == '{')
        return text;
    return f->kind == DF_FIELD_TEXT && is_json(text, "{") ? text : DF_STR_NULL;
}

/* Writes everything that is not taken: first the columns, which keep their names, then the members
 * of objects. */
static char *put_lead(struct df_normaliser *n, char *to, const struct df_record *record)
{
    char *begin;
    bool objects = false;

    to = PUT(to, ",\"LeadContextJson\":");
    begin = to;
    *to++ = '{';
    n->crowded = n->crowded || n->chosen[DF_HEADER_LEAD_CONTEXT] != NONE;
    if (n->crowded)
        df_columns_release(&n->used);
    for (size_t i = 0; i < record->count; i++) {
        const struct df_field *f = &record->fields[i];
        const struct df_name *name = n->name[i];
        bool chosen = n->chosen[name->header] == i && name->header >= DF_HEADER_LEAD;
        if (n->taken[i] ||
            (i >= n->own_count && !chosen)) /* what a path leads to is there already */
            continue;
        if (name->header == DF_HEADER_LEAD_CONTEXT && context_of(f).ptr) {
            objects = true;
            continue;
        }
        /* A column that was not chosen and is empty would only add a numbered name. */
        if (name->header != DF_HEADER_OTHER && !chosen && !has_value(f))
            continue;
        to = put_key(n, to, name, chosen);
        to = put_value(n, to, f);
        *to++ = ',';
    }
    for (size_t i = 0; objects && i < record->count; i++) {
        struct df_str object = n->name[i]->header == DF_HEADER_LEAD_CONTEXT
                                   ? context_of(&record->fields[i])
                                   : DF_STR_NULL;
        if (object.ptr)
            to = put_members(n, to, object);
    }
    if (to == begin + 1)
        return PUT(begin, "null");
    to[-1] = '}';
    return to;
}

/* --- the whole -------------------------------------------------------------------------------- */

/* Makes room for the largest item that the record can become: six bytes for each byte, and as much
 * again for objects, whose members may get numbered names. False: the item is too large anyway. */
static bool reserve_item(struct df_normaliser *n, const struct df_record *record)
{
    size_t need = 1024 + 6 * n->origin_default.len;

    for (size_t i = 0; i < record->count; i++) {
        const struct df_field *f = &record->fields[i];
        need += 6 * (f->name.len + f->text.len) + SLACK;
        if (n->name[i]->header == DF_HEADER_LEAD_CONTEXT)
            need += 6 * f->text.len;
    }
    if (need > ITEM_CAP_MAX)
        return false;
    if (need > n->item_cap) {
        /* Large items are rare: no room in advance for larger ones. */
        n->item_cap = need < ITEM_MAX ? 2 * need : need;
        free(n->item);
        n->item = df_malloc(n->item_cap);
    }
    return true;
}

static char *put_sequence(char *to, int64_t sequence)
{
    char digits[20];
    size_t i = sizeof(digits);
    uint64_t left = (uint64_t)sequence;

    do
        digits[--i] = (char)('0' + left % 10);
    while ((left /= 10) > 0);
    return put(PUT(to, "{\"sequence\":"), digits + i, sizeof(digits) - i);
}

/* The item of a record whose values are left out. */
static char *put_nothing(char *to)
{
    return PUT(to, ",\"PhoneNumber\":null,\"Origin\":null,\"PropertyContextJson\":null,"
                   "\"LeadContextJson\":null}");
}

static struct df_str reason_of(struct df_normaliser *n, const char *code, const char *why)
{
    n->code = code;
    return df_str_c(why);
}

static struct df_str reason_for(struct df_normaliser *n, const char *code, const char *field,
                                const char *why)
{
    n->code = code;
    int len = snprintf(n->reason, sizeof(n->reason), "%s: %s", field, why);
    return df_str_n(n->reason, (size_t)len);
}

static enum df_code copy_out(struct df_normaliser *n, const char *end, struct df_buf *out,
                             struct df_err *err)
{
    df_buf_add(out, n->item, (size_t)(end - n->item));
    return df_buf_failed(out) ? df_err_set(err, DF_E_TOO_LARGE, "no room for another item") : DF_OK;
}

/* The item of a record that has values. *ret_reason: why it cannot be sent; else absent. */
static char *put_item(struct df_normaliser *n, const struct df_record *record, char *head,
                      struct df_str *ret_reason)
{
    const char *why_phone = NULL, *why_origin = NULL;
    n->depth = 0;
    size_t phone = choose_phone(n, record, &why_phone);
    char *to = put_phone(n, head, record, phone, !why_phone);

    to = put_origin(n, to, record, &why_origin);
    to = put_property(n, to, record);
    to = put_lead(n, to, record);
    *to++ = '}';
    *ret_reason = DF_STR_NULL;
    assert((size_t)(to - n->item) <= n->item_cap);
    if ((size_t)(to - n->item) > ITEM_MAX)
        *ret_reason = reason_of(n, "RecordTooLarge", "the item would be larger than 1 MiB");
    else if (n->depth > JSON_DEPTH)
        *ret_reason = reason_of(n, "RecordTooDeep", "a value is nested more than 60 deep");
    if (ret_reason->ptr)
        return put_nothing(head);
    if (why_phone)
        *ret_reason = reason_for(n, df_phone_code(why_phone), "PhoneNumber", why_phone);
    else if (why_origin)
        *ret_reason = reason_for(n, "OriginTooLong", "Origin", why_origin);
    return to;
}

const char *df_normaliser_code(const struct df_normaliser *n)
{
    return n->code;
}

enum df_code df_normalise(struct df_normaliser *n, const struct df_record *given, int64_t sequence,
                          struct df_buf *out, enum df_item_verdict *ret_verdict,
                          struct df_str *ret_reason, struct df_err *err)
{
    struct df_record all = with_paths(n, given);
    const struct df_record *record = &all;
    bool any = choose_columns(n, record);
    bool fits = reserve_item(n, record);
    char *head = put_sequence(n->item, sequence);
    bool repeated = false;

    if (!any || !fits) {
        *ret_verdict = any ? DF_ITEM_ERROR : DF_ITEM_SKIPPED;
        *ret_reason = any ? reason_of(n, "RecordTooLarge", "the item would be larger than 1 MiB")
                          : reason_of(n, "EmptyRow", "empty row");
        return copy_out(n, put_nothing(head), out, err);
    }
    char *end = put_item(n, record, head, ret_reason);
    *ret_verdict = ret_reason->ptr ? DF_ITEM_ERROR : DF_ITEM_SEND;
    if (*ret_verdict == DF_ITEM_SEND && !n->keeps_repeats) {
        struct df_hash128 hash = df_hash128(df_str_n(head, (size_t)(end - head)));
        enum df_code rc = df_seen_add(n->seen, hash, &repeated, err);
        if (rc != DF_OK)
            return rc;
    }
    if (repeated) {
        *ret_verdict = DF_ITEM_SKIPPED;
        *ret_reason = reason_of(n, "RepeatedRecord", "a repeat of an earlier record");
    }
    return copy_out(n, end, out, err);
}

struct df_normaliser *df_normaliser_new(const struct df_normalise_options *opt)
{
    struct df_normaliser *n = df_calloc(1, sizeof(*n));
    struct df_str origin = df_names_trim(opt->origin_default);

    n->seen = df_seen_new(opt->temp_dir, opt->seen_bytes);
    n->mapping = n->names.mapping = opt->mapping;
    n->keeps_repeats = opt->keeps_repeats;
    if (origin.len > 0) {
        char *text = df_malloc(origin.len);
        n->origin_default = df_str_n(text, collapse_blanks(origin, text));
    }
    n->item_cap = 64 << 10;
    n->item = df_malloc(n->item_cap);
    return n;
}

void df_normaliser_free(struct df_normaliser *n)
{
    union {
        const char *borrowed;
        char *ours;
    } origin;

    if (!n)
        return;
    origin.borrowed = n->origin_default.ptr;
    free(origin.ours);
    df_seen_free(n->seen);
    df_names_release(&n->names);
    df_columns_release(&n->used);
    df_arena_release(&n->texts);
    free(n->fields);
    free(n->name);
    free(n->taken);
    free(n->item);
    free(n);
}

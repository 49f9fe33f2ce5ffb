/*
 * The document passes through a window. One scanner runs over the whole document, so that the text
 * between records is checked as well; this file only decides where records begin and end.
 *
 *     BEGIN     nothing seen yet
 *     ARRAY     in the array of records
 *     MEMBERS   in the object around that array, before or after it
 *     TAIL      after the outermost array or object: white space only
 *     LINES     after a record that is a document of its own
 *
 * A record must be contiguous. When the window ends inside one, the scanner goes back to its first
 * byte and tries again with at least twice as much of it, so that no byte is scanned often.
 *
 * A first object may be a record or the object around the array. It is tried as a record first.
 * When another object follows it, there is one record on each line. When it is the only one, its
 * members decide. When it is larger than a record may be, it must be the object around the array.
 */
#include "json/reader.h"

#include "base/mem.h"
#include "json/lex.h"
#include "json/scan.h"

#include <stdlib.h>

#define WINDOW_FIRST ((size_t)256 << 10)
#define WINDOW_LEAST ((size_t)64 << 10)

enum phase { BEGIN, ARRAY, MEMBERS, TAIL, LINES, OVER };

static const char *const array_names[] = {"items", "leads", "records", "data"};

struct df_json_reader {
    struct df_json_source source;
    struct df_json_reader_limits limits;
    struct df_json_scan scan;
    enum phase phase;
    bool array_seen;   /* MEMBERS: an array under one of the names was seen */
    bool records_seen; /* MEMBERS: and it was not empty */
    bool line_ended;   /* LINES: since the last record */

    char *window; /* [0, fill) holds input, of which scan.p is the first byte still wanted */
    size_t fill;
    size_t cap;
    size_t cap_max;
    int64_t offset;       /* of window[0] in the document */
    int64_t token_offset; /* of the last token of next_token */
    bool eof;

    struct df_json_record record;
    struct df_json *fields;
    size_t field_cap;
    char *
        scratch; /* unescaped texts of the record; NULL until needed, then as large as the window */
    size_t scratch_used;

    struct df_err large; /* why the first object cannot be a record */
    enum df_code result; /* DF_DONE or the error, once OVER */
    struct df_err err;
};

struct df_json_reader *df_json_reader_new(struct df_json_source source, unsigned flags,
                                          const struct df_json_reader_limits *limits)
{
    struct df_json_reader *r = df_calloc(1, sizeof(*r));

    r->source = source;
    if (limits)
        r->limits = *limits;
    if (r->limits.max_record_bytes == 0)
        r->limits.max_record_bytes = (size_t)1 << 20;
    if (r->limits.max_fields == 0)
        r->limits.max_fields = 4096;
    if (r->limits.max_depth == 0)
        r->limits.max_depth = DF_JSON_DEPTH;
    r->cap_max = r->limits.max_record_bytes;
    if (r->cap_max < WINDOW_LEAST)
        r->cap_max = WINDOW_LEAST;
    r->cap = r->cap_max < WINDOW_FIRST ? r->cap_max : WINDOW_FIRST;
    r->window = df_malloc(r->cap);
    df_json_scan_init(&r->scan, flags | DF_JSON_PARTS, r->limits.max_depth);
    df_json_scan_window(&r->scan, df_str_n(r->window, 0), 0, false);
    r->scan.keys.copy_depth = 0;
    return r;
}

void df_json_reader_free(struct df_json_reader *r)
{
    if (!r)
        return;
    df_json_scan_release(&r->scan);
    free(r->window);
    free(r->fields);
    free(r->scratch);
    free(r);
}

/* A record lies in one window. The members around records may not, so their names are copied. */
static void enter_phase(struct df_json_reader *r, enum phase phase)
{
    r->phase = phase;
    r->scan.keys.copy_depth = phase == MEMBERS ? DF_JSON_DEPTH_MAX : 0;
}

static int64_t offset_of(const struct df_json_reader *r, const char *p)
{
    return r->offset + (p - r->window);
}

/* One token or record fills the window. */
static enum df_code grow_window(struct df_json_reader *r, struct df_err *err)
{
    if (r->cap == r->cap_max)
        return df_err_at(err, DF_E_TOO_LARGE, r->offset,
                         "what begins at byte %lld is larger than %zu bytes", (long long)r->offset,
                         r->cap_max);
    r->cap = r->cap > r->cap_max / 2 ? r->cap_max : r->cap * 2;
    r->window = df_realloc(r->window, r->cap);
    free(r->scratch);
    r->scratch = NULL;
    return DF_OK;
}

/*
 * Drops the bytes before scan.p and reads on: at least as much again as was kept, as far as the
 * document and the window allow.
 */
static enum df_code refill(struct df_json_reader *r, struct df_err *err)
{
    size_t used = (size_t)(r->scan.p - r->window);
    enum df_code rc = DF_OK;

    r->fill -= used;
    r->offset += (int64_t)used;
    if (used > 0)
        memmove(r->window, r->window + used, r->fill);
    if (r->fill == r->cap)
        rc = grow_window(r, err);
    for (size_t want = 2 * r->fill; rc == DF_OK && !r->eof;) {
        size_t len = 0;
        rc = r->source.read(r->source.arg, r->window + r->fill, r->cap - r->fill, &len, err);
        if (rc != DF_OK)
            break;
        r->fill += len;
        r->eof = len == 0;
        if (r->fill >= want || r->fill == r->cap)
            break;
    }
    df_json_scan_window(&r->scan, df_str_n(r->window, r->fill), r->offset, r->eof);
    return rc;
}

/* The next whole token: never MORE, and never a part of a string. */
static enum df_code next_token(struct df_json_reader *r, enum df_json_token *ret,
                               struct df_err *err)
{
    struct df_json_scan *s = &r->scan;
    enum df_json_token t, before = DF_TOK_END;

    for (;; before = t) {
        *ret = t = df_json_scan_next(s);
        if (t == DF_TOK_ERROR)
            return df_json_scan_error(s, err);
        if (t == DF_TOK_MORE) {
            enum df_code rc = refill(r, err);
            if (rc != DF_OK)
                return rc;
            t = before;
            continue;
        }
        if (before != DF_TOK_STRING_PART)
            r->token_offset = offset_of(r, s->start);
        if (t != DF_TOK_STRING_PART)
            return DF_OK;
    }
}

static struct df_str text_of(struct df_json_reader *r)
{
    struct df_str text = r->scan.text;

    if (!r->scan.escaped)
        return text;
    if (!r->scratch)
        r->scratch = df_malloc(r->cap);
    text = df_json_unescape(text, r->scratch + r->scratch_used);
    r->scratch_used += text.len;
    return text;
}

static struct df_json *add_field(struct df_json_reader *r)
{
    if (r->record.count == r->field_cap) {
        r->field_cap = r->field_cap ? r->field_cap * 2 : 64;
        r->fields = df_realloc(r->fields, r->field_cap * sizeof(*r->fields));
    }
    struct df_json *f = &r->fields[r->record.count++];
    *f = (struct df_json){0};
    return f;
}

static enum df_json_token scan_field(struct df_json_reader *r, struct df_json *f)
{
    struct df_json_scan *s = &r->scan;
    enum df_json_token t = df_json_scan_next(s);
    const char *start = s->start;

    switch (t) {
    case DF_TOK_OBJECT:
    case DF_TOK_ARRAY:
        f->type = t == DF_TOK_OBJECT ? DF_JSON_OBJECT : DF_JSON_ARRAY;
        t = df_json_scan_skip(s, s->depth - 1);
        break;
    case DF_TOK_STRING:
        f->type = DF_JSON_STRING;
        f->text = text_of(r);
        break;
    case DF_TOK_NUMBER:
        f->type = DF_JSON_NUMBER;
        f->text = s->text;
        break;
    case DF_TOK_TRUE:
    case DF_TOK_FALSE:
        f->type = DF_JSON_BOOL;
        f->boolean = t == DF_TOK_TRUE;
        break;
    case DF_TOK_STRING_PART:
        return DF_TOK_MORE;
    case DF_TOK_NULL:
    case DF_TOK_ERROR:
    case DF_TOK_MORE:
    case DF_TOK_END:
    case DF_TOK_OBJECT_END:
    case DF_TOK_ARRAY_END:
    case DF_TOK_KEY:
        break;
    }
    f->raw = df_str_n(start, (size_t)(s->p - start));
    return t;
}

/*
 * Scans the members of the record just opened, as far as the window goes: OBJECT_END, MORE or
 * ERROR; KEY when there are too many.
 */
static enum df_json_token scan_fields(struct df_json_reader *r, const char *start)
{
    struct df_json_scan *s = &r->scan;
    enum df_json_token t;

    r->record = (struct df_json_record){0};
    r->scratch_used = 0;
    while ((t = df_json_scan_next(s)) == DF_TOK_KEY) {
        if (r->record.count == r->limits.max_fields)
            return DF_TOK_KEY;
        struct df_json *f = add_field(r);
        f->key = text_of(r);
        t = scan_field(r, f);
        if (t <= DF_TOK_END)
            return t;
    }
    r->record.raw = df_str_n(start, (size_t)(s->p - start));
    r->record.fields = r->fields;
    return t;
}

static void over_limit(const struct df_json_reader *r, bool fields, struct df_err *err)
{
    long long at = (long long)df_json_scan_offset(&r->scan);

    if (fields)
        df_err_at(err, DF_E_TOO_LARGE, at, "the record at byte %lld has more than %zu fields", at,
                  r->limits.max_fields);
    else
        df_err_at(err, DF_E_TOO_LARGE, at, "the record at byte %lld is larger than %zu bytes", at,
                  r->limits.max_record_bytes);
}

/*
 * Reads the record whose opening bracket is the last token. DF_ROW; DF_DONE when it exceeds a
 * limit: the scanner is back before it, and err names the limit; or an error.
 */
static enum df_code read_record(struct df_json_reader *r, struct df_err *err)
{
    struct df_json_scan *s = &r->scan;
    unsigned depth = s->depth - 1;

    for (;;) {
        const char *start = s->start;
        bool limited = (size_t)(s->end - start) >= r->limits.max_record_bytes;
        if (limited) {
            s->end = start + r->limits.max_record_bytes;
            s->final = false;
        }
        enum df_json_token t = scan_fields(r, start);
        s->end = r->window + r->fill;
        s->final = r->eof;
        if (t == DF_TOK_OBJECT_END)
            return DF_ROW;
        if (t == DF_TOK_ERROR)
            return df_json_scan_error(s, err);
        df_json_scan_back(s, start, depth);
        if (t == DF_TOK_KEY || limited) {
            over_limit(r, t == DF_TOK_KEY, err);
            return DF_DONE;
        }
        enum df_code rc = refill(r, err);
        if (rc != DF_OK)
            return rc;
        df_json_scan_next(s); /* the opening bracket again */
    }
}

/* t is the token where a record must begin. */
static enum df_code next_record(struct df_json_reader *r, enum df_json_token t, struct df_err *err)
{
    if (t != DF_TOK_OBJECT)
        return df_err_at(err, DF_E_VALIDATION, r->token_offset,
                         "expected an object at byte %lld: a record", (long long)r->token_offset);
    enum df_code rc = read_record(r, err);
    return rc == DF_DONE ? err->code : rc;
}

static enum df_code next_in_array(struct df_json_reader *r, struct df_err *err)
{
    enum df_json_token t;
    enum df_code rc = next_token(r, &t, err);

    if (rc != DF_OK)
        return rc;
    if (t != DF_TOK_ARRAY_END)
        return next_record(r, t, err);
    enter_phase(r, r->scan.depth == 0 ? TAIL : MEMBERS);
    return DF_OK;
}

static bool is_array_name(struct df_str name)
{
    for (size_t i = 0; i < sizeof(array_names) / sizeof(array_names[0]); i++)
        if (df_str_ieq(name, df_str_c(array_names[i])))
            return true;
    return false;
}

/* The last token is a name. */
static bool names_array(const struct df_json_scan *s)
{
    char buf[64];
    if (!s->escaped)
        return is_array_name(s->text);
    return s->text.len <= sizeof(buf) && is_array_name(df_json_unescape(s->text, buf));
}

/* Enters the array just opened under one of the names, if it has objects. */
static enum df_code enter_array(struct df_json_reader *r, struct df_err *err)
{
    struct df_json_scan *s = &r->scan;
    enum df_json_token t;
    enum df_code rc = next_token(r, &t, err);

    if (rc != DF_OK)
        return rc;
    if (t == DF_TOK_ARRAY_END) {
        r->array_seen = true;
    } else if (t == DF_TOK_OBJECT) {
        if (r->records_seen)
            return df_err_at(err, DF_E_VALIDATION, r->token_offset,
                             "the records of a second array begin at byte %lld",
                             (long long)r->token_offset);
        r->array_seen = r->records_seen = true;
        enter_phase(r, ARRAY);
        df_json_scan_back(s, s->start, s->depth - 1);
    }
    return DF_OK;
}

static enum df_code next_in_members(struct df_json_reader *r, struct df_err *err)
{
    struct df_json_scan *s = &r->scan;
    enum df_json_token t;
    enum df_code rc = next_token(r, &t, err);

    if (rc != DF_OK)
        return rc;
    if (t == DF_TOK_OBJECT_END) {
        enter_phase(r, TAIL);
        if (r->array_seen)
            return DF_OK;
        *err = r->large;
        return err->code;
    }
    bool wanted = names_array(s);
    rc = next_token(r, &t, err);
    if (rc == DF_OK && t == DF_TOK_ARRAY && wanted)
        rc = enter_array(r, err);
    while (rc == DF_OK && r->phase == MEMBERS && s->depth > 1)
        rc = next_token(r, &t, err);
    return rc;
}

static enum df_code next_in_tail(struct df_json_reader *r, struct df_err *err)
{
    enum df_json_token t;
    enum df_code rc = next_token(r, &t, err);
    return rc == DF_OK ? DF_DONE : rc;
}

static enum df_code next_in_lines(struct df_json_reader *r, struct df_err *err)
{
    struct df_json_scan *s = &r->scan;
    enum df_json_token t;
    enum df_code rc = DF_OK;

    while (rc == DF_OK && (s->p == s->end || df_json_is_space(*s->p))) {
        if (s->p < s->end)
            r->line_ended |= *s->p++ == '\n';
        else if (r->eof)
            return DF_DONE;
        else
            rc = refill(r, err);
    }
    if (rc == DF_OK && !r->line_ended)
        rc = df_err_at(err, DF_E_MALFORMED_JSON, offset_of(r, s->p),
                       "expected a new line for another record at byte %lld",
                       (long long)offset_of(r, s->p));
    if (rc != DF_OK)
        return rc;
    df_json_scan_reset(s);
    rc = next_token(r, &t, err);
    if (rc != DF_OK)
        return rc;
    r->line_ended = false;
    return next_record(r, t, err);
}

/* Whether the record just read is an object around an array of records. */
static bool holds_array(const struct df_json_reader *r)
{
    for (size_t i = 0; i < r->record.count; i++) {
        const struct df_json *f = &r->record.fields[i];
        if (f->type != DF_JSON_ARRAY || !is_array_name(f->key))
            continue;
        const char *p = df_json_skip_space(f->raw.ptr + 1, f->raw.ptr + f->raw.len);
        if (*p == '{' || *p == ']')
            return true;
    }
    return false;
}

/*
 * Reads a first object, whose opening bracket is the last token. To know whether another one
 * follows, the window must reach to the next byte that is not white space, or to the end.
 */
static enum df_code begin_with_object(struct df_json_reader *r, struct df_err *err)
{
    struct df_json_scan *s = &r->scan;
    enum df_code rc;

    while ((rc = read_record(r, err)) == DF_ROW) {
        const char *start = r->record.raw.ptr;
        bool followed = df_json_skip_space(s->p, s->end) < s->end;
        bool full = start == r->window && r->fill == r->cap_max;
        if (followed || (full && !r->eof)) {
            enter_phase(r, LINES);
            return DF_ROW;
        }
        if (r->eof && !holds_array(r)) {
            enter_phase(r, TAIL);
            return DF_ROW;
        }
        df_json_scan_back(s, start, 0);
        if (r->eof)
            break;
        rc = refill(r, err);
        if (rc != DF_OK)
            return rc;
        df_json_scan_next(s); /* the opening bracket again */
    }
    if (rc != DF_ROW && rc != DF_DONE)
        return rc;
    r->large = *err;
    enter_phase(r, MEMBERS);
    df_json_scan_next(s);
    return DF_OK;
}

static enum df_code begin_document(struct df_json_reader *r, struct df_err *err)
{
    enum df_json_token t;
    enum df_code rc = next_token(r, &t, err);

    if (rc != DF_OK)
        return rc;
    r->scan.flags &= ~(unsigned)DF_JSON_BOM;
    if (t == DF_TOK_OBJECT)
        return begin_with_object(r, err);
    if (t != DF_TOK_ARRAY)
        return df_err_at(err, DF_E_VALIDATION, r->token_offset,
                         "expected an array of objects or an object at byte %lld",
                         (long long)r->token_offset);
    enter_phase(r, ARRAY);
    return DF_OK;
}

/* DF_OK: there is no record yet, but the phase has changed. */
static enum df_code advance_phase(struct df_json_reader *r, struct df_err *err)
{
    switch (r->phase) {
    case BEGIN:
        return begin_document(r, err);
    case ARRAY:
        return next_in_array(r, err);
    case MEMBERS:
        return next_in_members(r, err);
    case TAIL:
        return next_in_tail(r, err);
    case LINES:
        return next_in_lines(r, err);
    case OVER:
        break;
    }
    return r->result;
}

enum df_code df_json_reader_next(struct df_json_reader *r, const struct df_json_record **ret,
                                 struct df_err *err)
{
    enum df_code rc;

    do
        rc = advance_phase(r, &r->err);
    while (rc == DF_OK);
    if (rc == DF_ROW) {
        *ret = &r->record;
        return rc;
    }
    enter_phase(r, OVER);
    r->result = rc;
    if (err && rc != DF_DONE)
        *err = r->err;
    return rc;
}

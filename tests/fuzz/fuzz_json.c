/*
 * Any bytes as JSON. Our answer must be jansson's; the same in one window and in windows cut at
 * random, in pieces through the stream, and by the portable way to find plain text; a document that
 * is taken must come back the same through the writer.
 *
 * Where jansson's rules are not the RFC's or not ours, the target knows: it wants numbers that fit
 * its types, and gives up at a depth of 2048.
 */
#include "json/doc.h"
#include "json/lex.h"
#include "json/reader.h"
#include "json/scan.h"
#include "json/stream.h"
#include "json/write.h"

#include <jansson.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define STRICT (DF_JSON_UNIQUE_KEYS | DF_JSON_NO_NUL)

#define CHECK(cond)                                                                                \
    do {                                                                                           \
        if (!(cond))                                                                               \
            abort();                                                                               \
    } while (0)

/* Cuts depend on the input alone, so that what is found can be found again. */
static uint32_t seed;

static size_t below(size_t bound)
{
    seed = seed * 1664525 + 1013904223;
    return bound ? (seed >> 8) % bound : 0;
}

struct outcome {
    enum df_code code;
    int64_t offset;
    uint32_t tokens; /* their kinds and texts, as a hash */
};

static void hash(struct outcome *o, struct df_str text, enum df_json_token t)
{
    for (size_t i = 0; i < text.len; i++)
        o->tokens = (o->tokens ^ (unsigned char)text.ptr[i]) * 16777619;
    if (t != DF_TOK_STRING_PART)
        o->tokens = (o->tokens ^ (uint32_t)t) * 16777619;
}

static struct outcome scan(struct df_str in, unsigned flags, bool whole)
{
    struct outcome o = {.offset = -1};
    struct df_err err = DF_ERR_INIT;
    struct df_json_scan s;
    enum df_json_token t = DF_TOK_MORE;
    size_t end = 0;
    char *copy = NULL;

    df_json_scan_init(&s, flags, 100);
    do {
        if (t == DF_TOK_MORE) {
            size_t begin = (size_t)df_json_scan_offset(&s);
            CHECK(end < in.len || begin == 0);
            end = whole ? in.len : end + below(in.len - end) + (end < in.len);
            char *next = malloc(end - begin + 1);
            CHECK(next);
            memcpy(next, in.ptr + begin, end - begin);
            next = realloc(next, end - begin ? end - begin : 1);
            free(copy);
            copy = next;
            df_json_scan_window(&s, df_str_n(copy, end - begin), (int64_t)begin, end == in.len);
        }
        t = df_json_scan_next(&s);
        if (t > DF_TOK_END)
            hash(&o, df_str_n(s.start, (size_t)(s.p - s.start)), t);
    } while (t > DF_TOK_END || t == DF_TOK_MORE);
    if (t == DF_TOK_ERROR) {
        o.code = df_json_scan_error(&s, &err);
        o.offset = err.offset;
        CHECK(err.offset >= 0 && (size_t)err.offset <= in.len);
    }
    free(copy);
    df_json_scan_release(&s);
    return o;
}

static enum df_code hash_token(void *arg, enum df_json_token t, struct df_str text, unsigned depth,
                               struct df_err *err)
{
    (void)depth;
    (void)err;
    hash(arg, text, t);
    return DF_OK;
}

static struct outcome stream(struct df_str in, bool whole)
{
    struct outcome o = {.offset = -1};
    struct df_err err = DF_ERR_INIT;
    struct df_json_stream *s =
        df_json_stream_new((struct df_json_handler){hash_token, &o}, STRICT, 100, in.len + 16);
    enum df_code rc = DF_OK;

    for (size_t at = 0, len; rc == DF_OK && at < in.len; at += len) {
        len = whole ? in.len : 1 + below(in.len - at);
        rc = df_json_stream_feed(s, df_str_n(in.ptr + at, len), &err);
    }
    if (rc == DF_OK)
        rc = df_json_stream_finish(s, &err);
    o.code = rc;
    o.offset = err.offset;
    if (rc != DF_OK) /* parts of a string go out before its end turns out to be wrong */
        o.tokens = 0;
    df_json_stream_free(s);
    return o;
}

struct memory {
    struct df_str rest;
    bool whole;
};

static enum df_code read_memory(void *arg, char *ptr, size_t len, size_t *ret_len,
                                struct df_err *err)
{
    struct memory *m = arg;
    size_t n = m->whole ? m->rest.len : below(m->rest.len) + (m->rest.len > 0);

    (void)err;
    *ret_len = n < len ? n : len;
    if (*ret_len > 0)
        memcpy(ptr, m->rest.ptr, *ret_len);
    m->rest.ptr += *ret_len;
    m->rest.len -= *ret_len;
    return DF_OK;
}

/* A small limit, so that small inputs meet it. */
static struct outcome read_records(struct df_str in, bool whole)
{
    struct outcome o = {.offset = -1};
    struct memory m = {in, whole};
    const struct df_json_reader_limits limits = {.max_record_bytes = 40, .max_fields = 5};
    struct df_json_reader *r =
        df_json_reader_new((struct df_json_source){read_memory, &m}, STRICT | DF_JSON_BOM, &limits);
    const struct df_json_record *record;
    struct df_err err = DF_ERR_INIT;

    while ((o.code = df_json_reader_next(r, &record, &err)) == DF_ROW) {
        CHECK(record->raw.len <= limits.max_record_bytes && record->count <= limits.max_fields);
        CHECK(df_json_check(record->raw, STRICT, DF_JSON_DEPTH, NULL) == DF_OK);
        for (size_t i = 0; i < record->count; i++) {
            const struct df_json *f = &record->fields[i];
            hash(&o, f->key, DF_TOK_KEY);
            hash(&o, f->type == DF_JSON_STRING ? f->text : f->raw, DF_TOK_STRING);
        }
    }
    if (o.code != DF_DONE)
        o.offset = err.offset;
    df_json_reader_free(r);
    return o;
}

static void check_same(struct outcome a, struct outcome b)
{
    CHECK(a.code == b.code && a.offset == b.offset && a.tokens == b.tokens);
}

static void check_jansson(struct df_str in)
{
    json_error_t err;
    struct df_err ours = DF_ERR_INIT;
    enum df_code rc = df_json_check(in, DF_JSON_UNIQUE_KEYS, DF_JSON_DEPTH_MAX, &ours);
    json_t *doc = json_loadb(
        in.ptr, in.len,
        JSON_DECODE_ANY | JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &err);
    bool taken = doc != NULL;
    enum json_error_code why = taken ? json_error_unknown : json_error_code(&err);

    json_decref(doc);
    /* It cannot keep such numbers, such depths, or a NUL in a name; we can. */
    if (why == json_error_numeric_overflow || why == json_error_stack_overflow ||
        why == json_error_null_byte_in_key)
        return;
    if (rc == DF_E_TOO_DEEP)
        return;
    /* It loses a NUL byte that follows a number or a word. */
    if (taken && rc == DF_E_MALFORMED_JSON && (size_t)ours.offset < in.len &&
        in.ptr[ours.offset] == '\0')
        return;
    CHECK(taken == (rc == DF_OK));
}

static void write_value(struct df_json_out *j, const struct df_json *v)
{
    bool object = v->type == DF_JSON_OBJECT;
    struct df_json_each each = df_json_each(v);

    switch (v->type) {
    case DF_JSON_NULL:
        df_json_null(j);
        break;
    case DF_JSON_BOOL:
        df_json_bool(j, v->boolean);
        break;
    case DF_JSON_NUMBER:
        df_json_raw(j, v->text);
        break;
    case DF_JSON_STRING:
        df_json_text(j, v->text);
        break;
    case DF_JSON_ARRAY:
    case DF_JSON_OBJECT:
        df_json_open(j, object ? '{' : '[');
        for (const struct df_json *c; (c = df_json_next(&each));) {
            if (object)
                df_json_key_str(j, c->key);
            write_value(j, c);
        }
        df_json_close(j, object ? '}' : ']');
        break;
    }
}

/* A member is found by its name, which has escapes or not. */
static void check_found(const struct df_json *object, const struct df_json *member)
{
    char name[40];
    struct df_json found;

    if (member->key.len >= sizeof(name))
        return;
    memcpy(name, member->key.ptr, member->key.len);
    name[member->key.len] = '\0';
    CHECK(df_json_find(object, name, &found));
    CHECK(found.raw.ptr == member->raw.ptr && found.raw.len == member->raw.len);
    CHECK(df_str_eq(found.key, member->key));
}

static void check_equal(const struct df_json *a, const struct df_json *b)
{
    struct df_json_each as = df_json_each(a);
    struct df_json_each bs = df_json_each(b);
    const struct df_json *x, *y;
    size_t count = 0;

    CHECK(a->type == b->type && a->boolean == b->boolean);
    CHECK(df_str_eq(a->key, b->key) && df_str_eq(a->text, b->text));
    for (; (x = df_json_next(&as)); count++) {
        y = df_json_next(&bs);
        CHECK(y);
        check_equal(x, y);
        if (a->type == DF_JSON_OBJECT)
            check_found(a, x);
    }
    CHECK(!df_json_next(&bs));
    CHECK(count == df_json_count(a) && count == df_json_count(b));
}

static void check_round_trip(struct df_str in)
{
    struct df_arena a = {0};
    const struct df_json *doc, *again;
    struct df_buf b;
    struct df_json_out j;
    enum df_code rc = df_json_parse(&a, in, &doc, NULL);

    CHECK(rc == df_json_check(in, STRICT, DF_JSON_DEPTH, NULL));
    df_buf_init(&b, in.len * 6 + 16);
    if (rc == DF_OK) {
        df_json_out_init(&j, &b);
        write_value(&j, doc);
        CHECK(!df_buf_failed(&b));
        CHECK(df_json_parse(&a, df_buf_str(&b), &again, NULL) == DF_OK);
        check_equal(doc, again);
    }
    df_buf_release(&b);
    df_arena_release(&a);
}

static void check_text(struct df_str in)
{
    struct df_buf b;
    struct df_json_out j;
    const char *end = in.ptr + in.len;

    for (size_t i = 0; i < in.len; i++)
        CHECK(df_json_plain(in.ptr + i, end) == df_json_plain_swar(in.ptr + i, end));
    df_buf_init(&b, in.len * 6 + 16);
    df_json_out_init(&j, &b);
    df_json_text(&j, in);
    CHECK(!df_buf_failed(&b));
    CHECK(df_json_check(df_buf_str(&b), 0, 1, NULL) == DF_OK);
    df_buf_release(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct df_str in = {size ? (const char *)data : "", size};

    seed = (uint32_t)size;
    for (size_t i = 0; i < size; i++)
        seed = (seed ^ data[i]) * 16777619;
    check_jansson(in);
    check_same(scan(in, STRICT, true), scan(in, STRICT, false));
    check_same(scan(in, 0, true), scan(in, 0, false));
    check_same(scan(in, DF_JSON_BOM, true), scan(in, DF_JSON_BOM, false));
    check_same(stream(in, true), stream(in, false));
    CHECK(stream(in, true).code == scan(in, STRICT, true).code);
    check_same(read_records(in, true), read_records(in, false));
    check_round_trip(in);
    check_text(in);
    return 0;
}

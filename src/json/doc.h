/*
 * A whole JSON document: request bodies and answers of peers, which are bounded
 * (server.max_body_bytes). Parsing is one pass of the strict scanner of json/scan.h over every
 * byte: an accepted document is valid RFC 8259 JSON with valid UTF-8, no NUL in text, no duplicate
 * keys.
 *
 * That pass builds no values. A value is made from its slice of the document when a caller asks for
 * it, in the caller's memory; other values cost no memory, however dense the document is. Besides
 * the input, a document takes at most DF_JSON_DOC_BYTES, and the unescaped name and content of each
 * value asked for, if they have escapes. Only a caller that keeps data for each child of a list
 * must limit their number.
 *
 * Strings are unescaped. Numbers keep their text as written, so that nothing is lost to doubles.
 * `raw` is the exact slice of the input that the value came from. One thread at a time.
 *
 *     struct df_json_each each = df_json_each(list);
 *     for (const struct df_json *v; (v = df_json_next(&each));)
 *         ...
 */
#ifndef DF_JSON_DOC_H
#define DF_JSON_DOC_H

#include "base/arena.h"
#include "base/err.h"

enum df_json_type {
    DF_JSON_NULL,
    DF_JSON_BOOL,
    DF_JSON_NUMBER,
    DF_JSON_STRING,
    DF_JSON_ARRAY,
    DF_JSON_OBJECT
};

struct df_json_doc;

/* A plain value that may be copied; all zero is a null. */
struct df_json {
    enum df_json_type type;
    bool boolean;
    bool twice;         /* found by name: another member's name differs only in case */
    struct df_str key;  /* member of an object: its name, unescaped */
    struct df_str text; /* STRING: unescaped; NUMBER: as written */
    struct df_str raw;
    struct df_json_doc *doc; /* private; NULL: children are not available */
};

/* Memory of a document besides its input: the positions of the members of its first objects. */
#define DF_JSON_DOC_BYTES (20 << 10)

/*
 * *ret lives in the arena and points into the input, which must outlive it. Refused, with
 * err.offset set: depth over 64, duplicate keys (compared after unescaping), NUL in text, anything
 * after the document.
 */
enum df_code df_json_parse(struct df_arena *a, struct df_str input, const struct df_json **ret,
                           struct df_err *err) DF_MUST_CHECK;

/*
 * Finds a member by name without regard to ASCII case. An exact match is preferred; when two
 * members match, `twice` is set, since the meaning is ambiguous. False: there is none (or obj is
 * not an object), and *ret is a null.
 */
bool df_json_find(const struct df_json *obj, const char *name, struct df_json *ret);
/* The same with the value in the document's arena, for a few values; NULL when there is none. */
const struct df_json *df_json_get(const struct df_json *obj, const char *name);

/* The children of an array or object, in order; other values (and NULL) have none. */
struct df_json_each {
    const char *p; /* the next child, or the closing bracket; NULL: at the end */
    bool members;
    struct df_json value;
};
struct df_json_each df_json_each(const struct df_json *v);
/* The value is valid until the next call, its texts as long as the document. NULL at the end. */
const struct df_json *df_json_next(struct df_json_each *each);

/* The number of children; walks over all of them. */
size_t df_json_count(const struct df_json *v);

/* Lenient scalars, as the contract asks: booleans and numbers also as strings. False: not
 * convertible. */
bool df_json_to_bool(const struct df_json *v, bool *ret);
bool df_json_to_i64(const struct df_json *v, int64_t *ret);
bool df_json_to_double(const struct df_json *v, double *ret);

#endif

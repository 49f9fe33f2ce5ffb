/*
 * A small JSON document as a tree in an arena: for request bodies and answers of peers, which are
 * bounded (server.max_body_bytes) and wanted as a whole. Built by the strict scanner of
 * json/scan.h; whatever is accepted here is valid RFC 8259 JSON with valid UTF-8, no NUL in text
 * and no duplicate keys.
 *
 * Strings are unescaped. Numbers keep their text as written (`raw`), so that nothing is lost to
 * doubles. `raw` is the exact slice of the input that the value came from.
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

struct df_json {
    enum df_json_type type;
    bool boolean;
    struct df_str key;  /* member of an object: its name, unescaped */
    struct df_str text; /* STRING: unescaped; NUMBER: as written */
    struct df_str raw;
    struct df_json *first; /* ARRAY, OBJECT: children in order */
    struct df_json *next;
    size_t count;
};

/*
 * A tree of at most 20 MiB whatever the input: a value takes 80 bytes, so the densest document,
 * [0,0,0,...], would grow fortyfold without this limit. More is DF_E_TOO_LARGE. Strings with
 * escapes take their unescaped length on top, 16 bytes at least.
 */
#define DF_JSON_VALUES_MAX 262144

/*
 * The tree lives in the arena and points into the input, which must outlive it. Depth over 64,
 * duplicate keys (compared after unescaping), NUL in text, anything after the document: refused
 * with err.offset set.
 */
enum df_code df_json_parse(struct df_arena *a, struct df_str input, const struct df_json **ret,
                           struct df_err *err) DF_MUST_CHECK;

/* Member by name without regard to ASCII case; an exact match is preferred. NULL: not there (or not
 * an object). */
const struct df_json *df_json_get(const struct df_json *obj, const char *name);
/* Whether another member of the object has this one's name, but for its case: nobody knows which of
 * the two is meant. */
bool df_json_is_twice(const struct df_json *obj, const struct df_json *member);

/* Lenient scalars, as the contract asks: booleans and numbers also as strings. False: not
 * convertible. */
bool df_json_to_bool(const struct df_json *v, bool *ret);
bool df_json_to_i64(const struct df_json *v, int64_t *ret);
bool df_json_to_double(const struct df_json *v, double *ret);

#endif

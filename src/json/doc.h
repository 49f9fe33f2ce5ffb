/*
 * A JSON document that is wanted as a whole: request bodies and answers of peers, which are bounded
 * (server.max_body_bytes). Parsing is one pass of the strict scanner of json/scan.h over every
 * byte: whatever is accepted is valid RFC 8259 JSON with valid UTF-8, no NUL in text, no duplicate
 * keys.
 *
 * That pass builds nothing. A value is made when somebody asks for it, from its slice of the
 * document, and lies where the caller wants it; what nobody asks for costs no memory, however dense
 * it is. Beside the input a document takes at most DF_JSON_DOC_BYTES, and for each value that was
 * asked for the unescaped text of its name and content, where these have escapes. Only a caller
 * that keeps something of each child of a list needs a limit for how many.
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

/* A plain value that may be copied; all zero it is a null. */
struct df_json {
    enum df_json_type type;
    bool boolean;
    bool twice;         /* found by name: another member has the same name, but for its case */
    struct df_str key;  /* member of an object: its name, unescaped */
    struct df_str text; /* STRING: unescaped; NUMBER: as written */
    struct df_str raw;
    struct df_json_doc *doc; /* private; NULL: its children can not be asked for */
};

/* What a document takes beside its input: where the members of its first objects lie. */
#define DF_JSON_DOC_BYTES (20 << 10)

/*
 * *ret lives in the arena and points into the input, which must outlive it. Depth over 64,
 * duplicate keys (compared after unescaping), NUL in text, anything after the document: refused
 * with err.offset set.
 */
enum df_code df_json_parse(struct df_arena *a, struct df_str input, const struct df_json **ret,
                           struct df_err *err) DF_MUST_CHECK;

/*
 * Member by name without regard to ASCII case; an exact match is preferred, and where two members
 * match, `twice` is set: nobody knows which is meant. False: not there (or not an object), and *ret
 * is a null.
 */
bool df_json_find(const struct df_json *obj, const char *name, struct df_json *ret);
/* The same, in the document's arena, for a few: NULL when it is not there. */
const struct df_json *df_json_get(const struct df_json *obj, const char *name);

/* The children of an array or object, in order; of anything else (or NULL) none. */
struct df_json_each {
    const char *p; /* the next one, or the bracket that closes; NULL: at the end */
    bool members;
    struct df_json value;
};
struct df_json_each df_json_each(const struct df_json *v);
/* Valid until the next call, what it points to as long as the document. NULL at the end. */
const struct df_json *df_json_next(struct df_json_each *each);

/* How many there are; this takes a walk over all of them. */
size_t df_json_count(const struct df_json *v);

/* Lenient scalars, as the contract asks: booleans and numbers also as strings. False: not
 * convertible. */
bool df_json_to_bool(const struct df_json *v, bool *ret);
bool df_json_to_i64(const struct df_json *v, int64_t *ret);
bool df_json_to_double(const struct df_json *v, double *ret);

#endif

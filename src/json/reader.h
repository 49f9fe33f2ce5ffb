/*
 * Reads records from a JSON document of any size, in memory that does not depend on its size. The
 * document is one of
 *
 *     [{...}, {...}]                    an array of objects
 *     {"items": [{...}], ...}           an object with one array of objects under items, leads,
 *                                       records or data (in any case); other members are
 *                                       checked and skipped
 *     {...}\n{...}\n                    one object a line
 *
 * A single object without such an array is one record; so is a first object with such an array that
 * is followed by another object. The members of a record are unescaped scalars, or arrays and
 * objects that are checked but not parsed: `raw` is their text, and their children are not
 * available. Memory: a window of at most max_record_bytes (at least 64 KiB), twice when strings
 * have escapes, and 64 bytes a field. One thread at a time.
 *
 *     while ((rc = df_json_reader_next(r, &record, err)) == DF_ROW)
 *         ...
 *     // DF_DONE, or the error
 */
#ifndef DF_JSON_READER_H
#define DF_JSON_READER_H

#include "json/doc.h"

struct df_json_reader;

struct df_json_source {
    /* Writes up to len bytes to ptr, and their number to *ret_len; 0 at the end. */
    enum df_code (*read)(void *arg, char *ptr, size_t len, size_t *ret_len, struct df_err *err);
    void *arg;
};

struct df_json_reader_limits {
    size_t max_record_bytes; /* 0: 1 MiB */
    size_t max_fields;       /* of a record; 0: 4096 */
    unsigned max_depth;      /* of the document; 0: DF_JSON_DEPTH */
};

struct df_json_record {
    struct df_str raw;
    const struct df_json *fields;
    size_t count;
};

/* flags as for df_json_scan_init, without DF_JSON_PARTS. NULL limits: the defaults. */
struct df_json_reader *df_json_reader_new(struct df_json_source source, unsigned flags,
                                          const struct df_json_reader_limits *limits);
void df_json_reader_free(struct df_json_reader *r);

/*
 * DF_ROW and the next record, valid until the next call; DF_DONE; or an error with its offset in
 * the document. JSON that has none of the shapes above is DF_E_VALIDATION; a record over a limit is
 * DF_E_TOO_LARGE. After an error or DF_DONE further calls return the same.
 */
enum df_code df_json_reader_next(struct df_json_reader *r, const struct df_json_record **ret,
                                 struct df_err *err) DF_MUST_CHECK;

#endif

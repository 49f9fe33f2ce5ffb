/*
 * Reads the body of POST /imports as a stream: multipart/form-data, or JSON with the file in
 * base64. Both carry the same fields, in any order, also after the file. Names match in any case;
 * unknown fields are ignored. The file goes through `file_data` as it arrives; memory does not grow
 * with it. Nothing blocks. One thread at a time.
 *
 * In multipart the file is the part named `file`, or any part with a file name whose own name is
 * not that of a field (browsers give a Blob appended as `metadata` a file name too).
 *
 * A bad field does not end the reading, so that one answer names all bad fields; but from then on
 * the file is not handed out, since it need not be stored. A body that cannot be parsed ends the
 * reading at once.
 */
#ifndef DF_IMPORTS_UPLOAD_H
#define DF_IMPORTS_UPLOAD_H

#include "net/http.h"

#define DF_UPLOAD_TEXT_CHARS      200 /* of a field */
#define DF_UPLOAD_FILE_NAME_CHARS 260 /* ImportBatch.FileName */
#define DF_UPLOAD_METADATA_BYTES  ((size_t)64 << 10)
#define DF_UPLOAD_MAPPING_ERRORS  32 /* entries of a mapping that an answer names */
#define DF_UPLOAD_HEAD_BYTES      ((size_t)4 << 10)

/* Absent: not given, or blank. Valid UTF-8 without NUL. Valid as long as the upload. */
struct df_upload_fields {
    struct df_str origin_default;
    struct df_str requested_by;
    struct df_str metadata;       /* the text of a JSON object, checked */
    struct df_str correlation_id; /* metadata's correlationId */
    struct df_str file_name;      /* never absent after finish */
    struct df_str content_type;   /* declared for the file */
    struct df_str sheet;
    struct df_str mapping;  /* the text of a JSON object, checked (tabular/mapping.h) */
    struct df_str checksum; /* of a preview: of the whole file, in lower case */
    bool is_head;           /* of a preview: the file's end is missing */
};

struct df_upload;

/* file_begin is called once, then file_data any number of times, never with an empty piece. An
 * error ends the upload with that code. */
struct df_upload_handler {
    /* The fields that came before the file are known (df_upload_fields). */
    enum df_code (*file_begin)(void *arg, const struct df_upload *u, struct df_err *err);
    /* df_upload_head includes the piece, as far as there is room. */
    enum df_code (*file_data)(void *arg, struct df_str piece, struct df_err *err);
    void *arg;
    bool is_preview; /* `checksum` and `complete` are fields too */
};

/* DF_E_MEDIA_TYPE: the request's Content-Type is neither multipart nor JSON. */
enum df_code df_upload_new(struct df_str content_type, struct df_upload_handler handler,
                           struct df_upload **ret, struct df_err *err) DF_MUST_CHECK;
void df_upload_free(struct df_upload *u);

/* Reads the whole piece. After an error, every call fails again. */
enum df_code df_upload_feed(struct df_upload *u, struct df_str piece,
                            struct df_err *err) DF_MUST_CHECK;

/* The body has ended. DF_OK: there was a file, not empty, and all fields are valid. */
enum df_code df_upload_finish(struct df_upload *u, struct df_err *err) DF_MUST_CHECK;

const struct df_upload_fields *df_upload_fields(const struct df_upload *u);

/* The bad fields, after DF_E_VALIDATION from feed or finish. Valid as long as the upload. */
const struct df_field_error *df_upload_errors(const struct df_upload *u, size_t *ret_count);

/* The first bytes of the file, up to DF_UPLOAD_HEAD_BYTES. */
struct df_str df_upload_head(const struct df_upload *u);

#endif

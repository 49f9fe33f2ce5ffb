/*
 * The body of POST /imports, as a stream: multipart/form-data, or JSON with the file in base64.
 * Both carry the same fields, in any order, also after the file; names are matched without regard
 * to case, unknown ones are passed over. The file goes through `file_data` as it arrives; memory
 * does not depend on it. Nothing blocks. One thread at a time.
 *
 * In multipart the file is the part named `file`, or any other with a file name whose name is not
 * that of a field (browsers give a Blob appended as `metadata` a file name too).
 *
 * A problem of a field does not end the reading, so that one answer names all bad fields, but from
 * then on the file is not handed out: nothing needs to be stored. What cannot be read on ends it
 * at once.
 */
#ifndef DF_IMPORTS_UPLOAD_H
#define DF_IMPORTS_UPLOAD_H

#include "net/http.h"

#define DF_UPLOAD_TEXT_CHARS      200 /* of a field */
#define DF_UPLOAD_FILE_NAME_CHARS 260 /* ImportBatch.FileName */
#define DF_UPLOAD_METADATA_BYTES  ((size_t)64 << 10)
#define DF_UPLOAD_HEAD_BYTES      ((size_t)4 << 10)

/* Absent: not given, or blank. Valid UTF-8 without NUL. They live as long as the upload. */
struct df_upload_fields {
    struct df_str origin_default;
    struct df_str requested_by;
    struct df_str metadata;       /* the text of a JSON object, checked */
    struct df_str correlation_id; /* metadata's correlationId */
    struct df_str file_name;      /* after finish never absent */
    struct df_str content_type;   /* as declared, for the file */
    struct df_str sheet;
};

struct df_upload;

/* begin is called once, then data, never empty, any number of times. Anything but DF_OK ends the
 * upload with that code. */
struct df_upload_handler {
    /* The fields that came before the file are known (df_upload_fields). */
    enum df_code (*file_begin)(void *arg, const struct df_upload *u, struct df_err *err);
    /* df_upload_head holds what it can of the piece already. */
    enum df_code (*file_data)(void *arg, struct df_str piece, struct df_err *err);
    void *arg;
};

/* DF_E_MEDIA_TYPE: the request's Content-Type is neither of the two. */
enum df_code df_upload_new(struct df_str content_type, struct df_upload_handler handler,
                           struct df_upload **ret, struct df_err *err) DF_MUST_CHECK;
void df_upload_free(struct df_upload *u);

/* Takes all of it, or fails, and then does so again whenever called. */
enum df_code df_upload_feed(struct df_upload *u, struct df_str piece,
                            struct df_err *err) DF_MUST_CHECK;

/* Nothing more comes. DF_OK: there was a file, not empty, and all fields are good. */
enum df_code df_upload_finish(struct df_upload *u, struct df_err *err) DF_MUST_CHECK;

const struct df_upload_fields *df_upload_fields(const struct df_upload *u);

/* After DF_E_VALIDATION from feed or finish: every bad field. They live as long as the upload. */
const struct df_field_error *df_upload_errors(const struct df_upload *u, size_t *ret_count);

/* The first bytes of the file, up to DF_UPLOAD_HEAD_BYTES, by which its format can be told. */
struct df_str df_upload_head(const struct df_upload *u);

#endif

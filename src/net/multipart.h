/*
 * Reads multipart/form-data (RFC 7578, RFC 2046) that arrives piece by piece. The content of the
 * parts is handed out as slices of the pieces, without copying; the borders of the pieces change
 * nothing else. One thread at a time.
 *
 * Lines must end in CRLF. In a part's header only Content-Disposition, Content-Type and
 * Content-Transfer-Encoding count. Names are accepted as browsers, curl, .NET and others write
 * them: quoted with %22 or with backslashes, in UTF-8, as filename*= (RFC 5987) or as an encoded
 * word.
 */
#ifndef DF_NET_MULTIPART_H
#define DF_NET_MULTIPART_H

#include "base/err.h"
#include "base/str.h"

/* A body beyond one of these limits is DF_E_BAD_REQUEST. */
#define DF_MULTIPART_BOUNDARY_MAX   70
#define DF_MULTIPART_HEADER_BYTES   ((size_t)8 << 10) /* of a part */
#define DF_MULTIPART_PARTS_MAX      64
#define DF_MULTIPART_PREAMBLE_BYTES ((size_t)64 << 10)
#define DF_MULTIPART_EPILOGUE_BYTES ((size_t)64 << 10)

/* Valid UTF-8 without control characters. Borrowed until `begin` returns. */
struct df_multipart_part {
    struct df_str name;         /* may be empty */
    struct df_str file_name;    /* as sent, perhaps a path; absent: the part is a field */
    struct df_str content_type; /* absent: none */
};

/* Called for each part: begin, any number of data (never empty), end. A code other than DF_OK ends
 * the reading with that code. */
struct df_multipart_handler {
    enum df_code (*begin)(void *arg, const struct df_multipart_part *part, struct df_err *err);
    enum df_code (*data)(void *arg, struct df_str piece, struct df_err *err);
    enum df_code (*end)(void *arg, struct df_err *err);
    void *arg;
};

struct df_multipart;

/* Whether the request's Content-Type is multipart/form-data, with any boundary. */
bool df_multipart_is(struct df_str content_type);

/* DF_E_MEDIA_TYPE: it is not multipart/form-data; DF_E_BAD_REQUEST: the boundary is missing or
 * invalid. */
enum df_code df_multipart_new(struct df_str content_type, struct df_multipart_handler handler,
                              struct df_multipart **ret, struct df_err *err) DF_MUST_CHECK;
void df_multipart_free(struct df_multipart *m);

/* Consumes the whole piece, or fails; after a failure every call fails the same way. */
enum df_code df_multipart_feed(struct df_multipart *m, struct df_str piece,
                               struct df_err *err) DF_MUST_CHECK;

/* The body has ended: checks that the closing boundary was there. */
enum df_code df_multipart_finish(struct df_multipart *m, struct df_err *err) DF_MUST_CHECK;

#endif

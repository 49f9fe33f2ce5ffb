/*
 * Tokens of a JSON document that arrives piece by piece, in bounded memory: for request bodies that
 * carry a file as text and are stored while they arrive. Strings are unescaped and handed out as
 * they come, in parts; a name or a number must fit into max_token_bytes. One thread at a time.
 */
#ifndef DF_JSON_STREAM_H
#define DF_JSON_STREAM_H

#include "json/scan.h"

#define DF_JSON_TOKEN_BYTES ((size_t)64 << 10)

struct df_json_stream;

/*
 * STRING_PART is followed by further parts or by STRING, which is the last one and may be empty.
 * depth counts the levels open around the token: 0 for the outermost brackets, 1 for their
 * children. The text is borrowed until the call returns. A code other than DF_OK ends the stream
 * with that code.
 */
struct df_json_handler {
    enum df_code (*token)(void *arg, enum df_json_token t, struct df_str text, unsigned depth,
                          struct df_err *err);
    void *arg;
};

/* flags as for df_json_scan_init; max_token_bytes is at least
 * 16, the length of the longest escape. */
struct df_json_stream *df_json_stream_new(struct df_json_handler handler, unsigned flags,
                                          unsigned max_depth, size_t max_token_bytes);
void df_json_stream_free(struct df_json_stream *s);

/* Consumes the whole piece, or fails; after a failure every call fails the same way. */
enum df_code df_json_stream_feed(struct df_json_stream *s, struct df_str piece,
                                 struct df_err *err) DF_MUST_CHECK;

/* The input has ended: checks that it was a whole document. */
enum df_code df_json_stream_finish(struct df_json_stream *s, struct df_err *err) DF_MUST_CHECK;

#endif

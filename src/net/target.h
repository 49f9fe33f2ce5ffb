/*
 * The request target: the part of the request line between the method and the version. It is parsed
 * strictly and only here, so that the router, the handlers and the logs see the same path.
 *
 * Segments are split at the slashes that were sent as such and decoded afterwards: a %2F inside a
 * segment stays data. "." and ".." are refused even if they appear only after decoding, because a
 * last {name...} may be used as a file name.
 */
#ifndef DF_NET_TARGET_H
#define DF_NET_TARGET_H

#include "base/arena.h"
#include "base/err.h"

#define DF_TARGET_MAX_BYTES    8192
#define DF_TARGET_MAX_SEGMENTS 32

struct df_target {
    struct df_str path;  /* decoded, from the first slash, without a version prefix */
    struct df_str raw;   /* the same as it was sent: not decoded */
    struct df_str query; /* as sent, after '?'; absent if there was none */
    struct df_str segments[DF_TARGET_MAX_SEGMENTS]; /* slices of path, without the slashes */
    size_t segment_count;                           /* 0: the path is "/" */
    bool trailing_slash; /* after the last segment; only a last {name...} accepts it */
    bool unroutable;     /* unknown version, empty segment or too many of them: 404 */
};

/*
 * path: the text before '?'; query: the text after it (absent if none); borrowed. Errors are
 * DF_E_BAD_REQUEST and DF_E_URI_TOO_LONG. With version_prefix, a first segment "v1" is removed and
 * any other version is unroutable.
 */
enum df_code df_target_parse(struct df_arena *arena, struct df_str path, struct df_str query,
                             bool version_prefix, struct df_target *ret,
                             struct df_err *err) DF_MUST_CHECK;

/*
 * The decoded value of a parameter of a query that df_target_parse accepted: the first one of that
 * name, compared without regard to case. Absent if missing, empty for "?x" and "?x=".
 */
struct df_str df_target_query(struct df_arena *arena, struct df_str query, struct df_str name);

#endif

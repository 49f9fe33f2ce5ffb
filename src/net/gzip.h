/* gzip in one piece, for bodies of requests. */
#ifndef DF_NET_GZIP_H
#define DF_NET_GZIP_H

#include "base/buf.h"

/* Appends; false: it does not fit into the buffer's maximum. */
bool df_gzip(struct df_str text, struct df_buf *out) __attribute__((warn_unused_result));

#endif

/*
 * Header parsing for multipart.c: the boundary in the request's header, and the header of a part.
 * Private to net/.
 */
#ifndef DF_NET_MULTIPART_HEAD_H
#define DF_NET_MULTIPART_HEAD_H

#include "base/arena.h"
#include "net/multipart.h"

/* Borrowed from content_type. */
enum df_code df_multipart_boundary(struct df_str content_type, struct df_str *ret,
                                   struct df_err *err) DF_MUST_CHECK;

/* head: lines, each ended by CRLF. Borrowed from head and the arena. */
enum df_code df_multipart_head(struct df_arena *arena, struct df_str head,
                               struct df_multipart_part *ret, struct df_err *err) DF_MUST_CHECK;

#endif

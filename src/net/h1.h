/*
 * Reads an answer of HTTP/1.1 (RFC 9112) as its bytes arrive, however they are cut. Strict where a
 * mistake would shift the next answer on the connection: an answer whose length is not certain is
 * no answer. Lenient as other clients are: lines may end without CR, and a field may go on in the
 * next line.
 *
 * Bounded: the head, all interim answers and the trailer by DF_H1_HEAD_MAX together, the line
 * before a chunk by itself. The body is handed on and not kept.
 *
 * libcurl has this too, but spends 15 µs of a call on it; what is left to libcurl is in wire.h. The
 * fuzz target compares both.
 */
#ifndef DF_NET_H1_H
#define DF_NET_H1_H

#include "base/buf.h"

#define DF_H1_HEAD_MAX   ((size_t)64 << 10)
#define DF_H1_FIELDS_MAX 256 /* of a head; more are refused */

enum df_h1_state {
    DF_H1_HEAD,
    DF_H1_BODY,       /* of a known length */
    DF_H1_CHUNK_SIZE, /* reading the line before a chunk */
    DF_H1_CHUNK,
    DF_H1_CHUNK_END, /* the line's end behind a chunk */
    DF_H1_TRAILER,
    DF_H1_UNTIL_CLOSE, /* the end of the connection is the end of the body */
    DF_H1_DONE,
    DF_H1_BAD, /* `why` says what is wrong; feed no more */
};

struct df_h1 {
    enum df_h1_state state;
    const char *why;
    bool of_head;    /* answers a HEAD request: there is no body */
    bool keep_alive; /* when it is DONE: another request may follow */
    unsigned status;
    uint64_t left;      /* of the body or the chunk */
    size_t line_bytes;  /* of the head's beginning, or of the line in work */
    size_t spent_bytes; /* on heads and the trailer */
    size_t chunk_line_bytes;
    struct df_buf head; /* as it came, but for folded lines; complete from BODY on */
    /* Borrowed from head; absent if the answer has none. */
    struct df_str content_type;
    struct df_str retry_after;
};

void df_h1_init(struct df_h1 *h);
void df_h1_release(struct df_h1 *h);
/* Before the next answer. */
void df_h1_reset(struct df_h1 *h, bool of_head);

/*
 * Takes bytes of the answer and hands those of the body to `take`; it stops when that returns
 * false. Returns how many bytes were taken: fewer than len when the answer is DONE or BAD, or
 * `take` had enough.
 */
size_t df_h1_feed(struct df_h1 *h, const char *data, size_t len,
                  bool (*take)(void *arg, const char *data, size_t len), void *arg);
/* The connection ended. The answer is DONE if that is how it says its end, else BAD. */
void df_h1_end(struct df_h1 *h);

/* The next field of a complete head. *at is 0 at first. */
bool df_h1_field(const struct df_h1 *h, size_t *at, struct df_str *ret_name,
                 struct df_str *ret_value);

#endif

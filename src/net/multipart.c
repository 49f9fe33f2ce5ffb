/*
 * Written here because libmicrohttpd's post processor, the parser at hand, works only inside its
 * own connections, hands out no header of a part but name, file name and type, and bounds neither
 * the parts nor what it passes over. The reference of tests/fuzz/fuzz_multipart.c is the same body
 * in other pieces, and the same upload as JSON.
 *
 * The body is a sequence of delimiters with content between them:
 *
 *     PREAMBLE ──delimiter──► LINE ──CRLF──► HEADER ──empty line──► DATA ──delimiter──► LINE ...
 *                              └──"--"──► EPILOGUE
 *
 * A delimiter is CRLF "--" boundary. Its only CR is its first byte. So when a piece ends inside a
 * possible delimiter, it is enough to keep the number of bytes that matched (`matched`): if it
 * turns out not to be a delimiter, these bytes are handed out from the delimiter itself, and the
 * next match can begin only at another CR. The CRLF before the first delimiter, and that of a part
 * without content, may be missing: `lent` of the matched bytes never arrived.
 */
#include "net/multipart.h"

#include "base/buf.h"
#include "base/mem.h"
#include "net/multipart_head.h"

#include <stdlib.h>

#define PADDING_MAX 64 /* white space after a delimiter: rare, but allowed by the RFC */

enum state { PREAMBLE, LINE, HEADER, DATA, EPILOGUE };

struct df_multipart {
    struct df_multipart_handler handler;
    enum state state;
    char delimiter[4 + DF_MULTIPART_BOUNDARY_MAX];
    size_t delimiter_len;
    size_t matched;
    size_t lent;
    char last;     /* LINE: the previous byte, NUL if none */
    size_t passed; /* bytes of preamble or epilogue, or of padding */
    unsigned parts;
    struct df_buf head; /* begins with the CRLF of the line before, so that an empty header ends
                           like any other */
    struct df_arena arena;
    int64_t offset;
    int64_t head_at;   /* where the header begins, for error messages */
    struct df_err err; /* once failed */
};

enum df_code df_multipart_new(struct df_str content_type, struct df_multipart_handler handler,
                              struct df_multipart **ret, struct df_err *err)
{
    struct df_str boundary;
    enum df_code rc = df_multipart_boundary(content_type, &boundary, err);

    if (rc != DF_OK)
        return rc;
    struct df_multipart *m = df_calloc(1, sizeof(*m));
    m->handler = handler;
    memcpy(m->delimiter, "\r\n--", 4);
    memcpy(m->delimiter + 4, boundary.ptr, boundary.len);
    m->delimiter_len = 4 + boundary.len;
    m->matched = m->lent = 2;
    m->err = DF_ERR_INIT;
    df_buf_init(&m->head, DF_MULTIPART_HEADER_BYTES + 4);
    df_arena_init(&m->arena);
    *ret = m;
    return DF_OK;
}

void df_multipart_free(struct df_multipart *m)
{
    if (!m)
        return;
    df_buf_release(&m->head);
    df_arena_release(&m->arena);
    free(m);
}

static enum df_code refuse_body(struct df_multipart *m, const char *why)
{
    int64_t at = m->state == HEADER ? m->head_at : m->offset;

    return df_err_at(&m->err, DF_E_BAD_REQUEST, at, "%s, at byte %lld", why, (long long)at);
}

static enum df_code skip_bytes(struct df_multipart *m, size_t len, size_t max, const char *why)
{
    m->passed += len;
    return m->passed > max ? refuse_body(m, why) : DF_OK;
}

/* --- up to a delimiter ------------------------------------------------------------------------ */

static enum df_code emit_data(struct df_multipart *m, const char *ptr, size_t len)
{
    if (m->state == PREAMBLE)
        return skip_bytes(m, len, DF_MULTIPART_PREAMBLE_BYTES,
                          "too much stands before the first boundary");
    return len > 0 ? m->handler.data(m->handler.arg, df_str_n(ptr, len), &m->err) : DF_OK;
}

static enum df_code end_section(struct df_multipart *m)
{
    enum df_code rc = m->state == DATA ? m->handler.end(m->handler.arg, &m->err) : DF_OK;

    m->state = LINE;
    m->matched = m->lent = 0;
    m->last = '\0';
    m->passed = 0;
    return rc;
}

/* How many bytes at the end of s may begin a delimiter. */
static size_t cut_delimiter(const struct df_multipart *m, struct df_str s)
{
    size_t tail = s.len < m->delimiter_len ? s.len : m->delimiter_len - 1;
    const char *cr = memrchr(s.ptr + s.len - tail, '\r', tail);
    size_t len = cr ? (size_t)(s.ptr + s.len - cr) : 0;

    return len > 0 && memcmp(cr, m->delimiter, len) == 0 ? len : 0;
}

static enum df_code search_delimiter(struct df_multipart *m, struct df_str s, size_t *ret_used)
{
    enum df_code rc;

    if (m->matched > 0) {
        size_t rest = m->delimiter_len - m->matched;
        size_t n = s.len < rest ? s.len : rest;
        if (memcmp(s.ptr, m->delimiter + m->matched, n) == 0) {
            m->matched += n;
            *ret_used = n;
            return n == rest ? end_section(m) : DF_OK;
        }
        rc = emit_data(m, m->delimiter + m->lent, m->matched - m->lent);
        if (rc != DF_OK)
            return rc;
        m->matched = m->lent = 0;
    }
    const char *at = memmem(s.ptr, s.len, m->delimiter, m->delimiter_len);
    if (at) {
        size_t before = (size_t)(at - s.ptr);
        *ret_used = before + m->delimiter_len;
        rc = emit_data(m, s.ptr, before);
        return rc == DF_OK ? end_section(m) : rc;
    }
    *ret_used = s.len;
    m->matched = cut_delimiter(m, s);
    return emit_data(m, s.ptr, s.len - m->matched);
}

/* --- after it --------------------------------------------------------------------------------- */

static enum df_code enter_header(struct df_multipart *m)
{
    if (m->parts++ == DF_MULTIPART_PARTS_MAX)
        return refuse_body(m, "the body has too many parts");
    m->state = HEADER;
    m->head_at = m->offset + 1;
    df_buf_reset(&m->head);
    df_buf_addz(&m->head, "\r\n");
    return DF_OK;
}

/* Reads the rest of a delimiter's line byte by byte: usually two bytes. */
static enum df_code read_line(struct df_multipart *m, char c)
{
    char last = m->last;

    m->last = c;
    if (last == '\r')
        return c == '\n' ? enter_header(m) : refuse_body(m, "the line of a boundary does not end");
    if (last == '-') {
        m->state = EPILOGUE;
        return c == '-' ? DF_OK : refuse_body(m, "the line of a boundary is malformed");
    }
    if (c == '\n')
        return refuse_body(m, "a line ends in LF, not in CRLF");
    if (c == ' ' || c == '\t')
        return skip_bytes(m, 1, PADDING_MAX, "the line of a boundary does not end");
    if (c == '\r' || (c == '-' && last == '\0'))
        return DF_OK;
    return refuse_body(m, "the line of a boundary is malformed");
}

static enum df_code begin_part(struct df_multipart *m)
{
    struct df_multipart_part part;
    struct df_str head = df_str_n(m->head.ptr + 2, m->head.len - 4);

    df_arena_reset(&m->arena);
    enum df_code rc = df_multipart_head(&m->arena, head, &part, &m->err);
    if (rc == DF_OK)
        rc = m->handler.begin(m->handler.arg, &part, &m->err);
    else
        m->err.offset = m->head_at;
    m->state = DATA;
    m->matched = m->lent = 2;
    return rc;
}

/* Reads one line of the header, or the part of it that has arrived. */
static enum df_code read_header(struct df_multipart *m, struct df_str s, size_t *ret_used)
{
    const char *lf = memchr(s.ptr, '\n', s.len);
    size_t n = lf ? (size_t)(lf - s.ptr) + 1 : s.len;

    df_buf_add(&m->head, s.ptr, n);
    if (df_buf_failed(&m->head))
        return refuse_body(m, "the header of a part is longer than 8192 bytes");
    *ret_used = n;
    if (!lf)
        return DF_OK;
    struct df_str head = df_buf_str(&m->head);
    if (!df_str_ends(head, DF_STR("\r\n")))
        return refuse_body(m, "a line ends in LF, not in CRLF");
    return df_str_ends(head, DF_STR("\r\n\r\n")) ? begin_part(m) : DF_OK;
}

/* --- the whole -------------------------------------------------------------------------------- */

static enum df_code feed_some(struct df_multipart *m, struct df_str s, size_t *ret_used)
{
    *ret_used = 1;
    switch (m->state) {
    case PREAMBLE:
    case DATA:
        return search_delimiter(m, s, ret_used);
    case LINE:
        return read_line(m, s.ptr[0]);
    case HEADER:
        return read_header(m, s, ret_used);
    case EPILOGUE:
        *ret_used = s.len;
        return skip_bytes(m, s.len, DF_MULTIPART_EPILOGUE_BYTES,
                          "too much stands after the closing boundary");
    }
    abort();
}

enum df_code df_multipart_feed(struct df_multipart *m, struct df_str piece, struct df_err *err)
{
    enum df_code rc = m->err.code;

    while (rc == DF_OK && piece.len > 0) {
        size_t used;
        rc = feed_some(m, piece, &used);
        m->err.code = rc;
        m->offset += (int64_t)used;
        piece.ptr += used;
        piece.len -= used;
    }
    if (rc != DF_OK && err)
        *err = m->err;
    return rc;
}

enum df_code df_multipart_finish(struct df_multipart *m, struct df_err *err)
{
    enum df_code rc = m->err.code;

    if (rc == DF_OK && m->state == PREAMBLE)
        rc = df_err_at(&m->err, DF_E_BAD_REQUEST, m->offset,
                       "the boundary that the content type names does not occur in the body");
    else if (rc == DF_OK && m->state != EPILOGUE)
        rc = df_err_at(&m->err, DF_E_BAD_REQUEST, m->offset,
                       "the body ended before the closing boundary");
    if (rc != DF_OK && err)
        *err = m->err;
    return rc;
}

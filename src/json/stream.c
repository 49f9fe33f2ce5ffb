#include "json/stream.h"

#include "base/mem.h"

#include <stdlib.h>

#define SLICE ((size_t)4096)

struct df_json_stream {
    struct df_json_handler handler;
    struct df_json_scan scan;
    size_t max_token_bytes;
    int64_t offset; /* of the first byte not scanned yet */

    char *rest; /* the token that the last piece cut, with a slice of the next piece */
    size_t rest_len;
    size_t rest_cap;

    char *text; /* unescaped */
    size_t text_cap;

    struct df_err err; /* once failed */
};

struct df_json_stream *df_json_stream_new(struct df_json_handler handler, unsigned flags,
                                          unsigned max_depth, size_t max_token_bytes)
{
    struct df_json_stream *s = df_calloc(1, sizeof(*s));

    s->handler = handler;
    s->max_token_bytes = max_token_bytes < 16 ? 16 : max_token_bytes;
    s->err = DF_ERR_INIT;
    df_json_scan_init(&s->scan, flags | DF_JSON_PARTS, max_depth);
    return s;
}

void df_json_stream_free(struct df_json_stream *s)
{
    if (!s)
        return;
    df_json_scan_release(&s->scan);
    free(s->rest);
    free(s->text);
    free(s);
}

static void reserve_bytes(char **ptr, size_t *cap, size_t len)
{
    if (len > *cap) {
        *ptr = df_realloc(*ptr, len);
        *cap = len;
    }
}

static enum df_code refuse_token(struct df_json_stream *s, const char *at)
{
    int64_t offset = df_json_scan_offset(&s->scan) - (s->scan.p - at);
    return df_err_at(&s->err, DF_E_TOO_LARGE, offset,
                     "the name or number at byte %lld is longer than %zu bytes", (long long)offset,
                     s->max_token_bytes);
}

static enum df_code hand_token_out(struct df_json_stream *s, enum df_json_token t)
{
    const struct df_json_scan *scan = &s->scan;
    bool opens = t == DF_TOK_OBJECT || t == DF_TOK_ARRAY;
    bool is_text = t == DF_TOK_KEY || t == DF_TOK_STRING || t == DF_TOK_STRING_PART;
    struct df_str text = is_text || t == DF_TOK_NUMBER ? scan->text : DF_STR_NULL;

    if ((t == DF_TOK_KEY || t == DF_TOK_NUMBER) && text.len > s->max_token_bytes)
        return refuse_token(s, scan->start);
    if (is_text && scan->escaped) {
        reserve_bytes(&s->text, &s->text_cap, text.len);
        text = df_json_unescape(text, s->text);
    }
    enum df_code rc =
        s->handler.token(s->handler.arg, t, text, scan->depth - (opens ? 1 : 0), &s->err);
    s->err.code = rc;
    return rc;
}

/* Hands out the whole tokens of the window; *ret_used is how far they go. */
static enum df_code scan_window(struct df_json_stream *s, struct df_str window, bool final,
                                size_t *ret_used)
{
    enum df_json_token t;

    df_json_scan_window(&s->scan, window, s->offset, final);
    while ((t = df_json_scan_next(&s->scan)) > DF_TOK_END) {
        enum df_code rc = hand_token_out(s, t);
        if (rc != DF_OK)
            return rc;
    }
    if (t == DF_TOK_ERROR)
        return df_json_scan_error(&s->scan, &s->err);
    *ret_used = (size_t)(s->scan.p - window.ptr);
    s->offset += (int64_t)*ret_used;
    /* The quotes of a name do not count. */
    if (window.len - *ret_used > s->max_token_bytes + 2)
        return refuse_token(s, s->scan.p);
    return DF_OK;
}

/* Scans the cut token together with some more input. */
static enum df_code scan_rest(struct df_json_stream *s, struct df_str more, bool final)
{
    size_t used = 0;

    reserve_bytes(&s->rest, &s->rest_cap, s->rest_len + more.len + 1);
    if (more.len > 0)
        memcpy(s->rest + s->rest_len, more.ptr, more.len);
    s->rest_len += more.len;
    enum df_code rc = scan_window(s, df_str_n(s->rest, s->rest_len), final, &used);
    s->rest_len -= used;
    if (rc == DF_OK && used > 0)
        memmove(s->rest, s->rest + used, s->rest_len);
    return rc;
}

enum df_code df_json_stream_feed(struct df_json_stream *s, struct df_str piece, struct df_err *err)
{
    enum df_code rc = s->err.code;

    while (rc == DF_OK && piece.len > 0) {
        size_t used = piece.len;
        if (s->rest_len > 0) {
            used = used < SLICE ? used : SLICE;
            rc = scan_rest(s, df_str_n(piece.ptr, used), false);
        } else {
            rc = scan_window(s, piece, false, &used);
            if (rc == DF_OK && used < piece.len) {
                s->rest_len = piece.len - used;
                reserve_bytes(&s->rest, &s->rest_cap, s->rest_len);
                memcpy(s->rest, piece.ptr + used, s->rest_len);
                used = piece.len;
            }
        }
        piece.ptr += used;
        piece.len -= used;
    }
    if (rc != DF_OK && err)
        *err = s->err;
    return rc;
}

enum df_code df_json_stream_finish(struct df_json_stream *s, struct df_err *err)
{
    enum df_code rc = s->err.code;

    if (rc == DF_OK)
        rc = scan_rest(s, DF_STR(""), true);
    if (rc != DF_OK && err)
        *err = s->err;
    return rc;
}

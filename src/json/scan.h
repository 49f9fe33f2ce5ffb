/*
 * Strict JSON scanner (RFC 8259): each call returns one token from a window of the document. Every
 * byte is checked: UTF-8, escapes, surrogates, numbers, nesting, and the names of members where
 * asked. None of Debian's JSON libraries is strict, streaming and fast at once, hence this one;
 * jansson is the reference it is fuzzed against.
 *
 * The window may end anywhere. When it ends inside a token, df_json_scan_next answers MORE and the
 * scanner stands before that token; the owner gives it a window that begins at `p` and reaches
 * further (df_json_scan_window) and asks again, or sets `final` when nothing is left. The borders
 * of windows do not change tokens, errors or their offsets. One thread at a time.
 *
 *     struct df_json_scan s;
 *     df_json_scan_init(&s, 0, 64);
 *     df_json_scan_window(&s, input, 0, true);
 *     while ((t = df_json_scan_next(&s)) > DF_TOK_END)
 *         ...
 *     if (t == DF_TOK_ERROR)
 *         rc = df_json_scan_error(&s, err);
 *     df_json_scan_release(&s);
 */
#ifndef DF_JSON_SCAN_H
#define DF_JSON_SCAN_H

#include "base/err.h"
#include "base/str.h"
#include "json/keys.h"

#define DF_JSON_DEPTH     64   /* limit for requests and imports */
#define DF_JSON_DEPTH_MAX 1024 /* highest limit that can be set */

enum df_json_token {
    DF_TOK_ERROR,
    DF_TOK_MORE,
    DF_TOK_END, /* one whole document and nothing after it */
    DF_TOK_OBJECT,
    DF_TOK_OBJECT_END,
    DF_TOK_ARRAY,
    DF_TOK_ARRAY_END,
    DF_TOK_KEY,
    DF_TOK_STRING,
    DF_TOK_STRING_PART, /* with DF_JSON_PARTS: the string goes on in the next token */
    DF_TOK_NUMBER,
    DF_TOK_TRUE,
    DF_TOK_FALSE,
    DF_TOK_NULL,
};

enum {
    DF_JSON_UNIQUE_KEYS = 1, /* a name twice in an object (after unescaping): DF_E_DUPLICATE_KEY */
    DF_JSON_NO_NUL = 2,      /* \u0000 in a string: DF_E_INVALID_TEXT */
    DF_JSON_BOM = 4,         /* skip a byte order mark before the document */
    DF_JSON_PARTS = 8,       /* return a string value in parts, as windows hold it */
};

struct df_json_scan {
    const char *p;   /* the next byte to look at */
    const char *end; /* of the window */
    bool final;      /* the document ends where the window ends */

    /* The last token. Valid as long as the window. */
    const char *start;  /* its first byte; it ends at p */
    struct df_str text; /* KEY, STRING: the content as written between the quotes; NUMBER: all */
    bool escaped;       /* KEY, STRING: holds escapes, see df_json_unescape */

    unsigned depth;
    unsigned max_depth;
    unsigned flags;
    int state;                 /* private from here on */
    enum df_json_token answer; /* ERROR or MORE, set where it was found */
    const char *whole;         /* a string that is cut: checked up to here */
    int fault;
    const char *fault_at;
    const char *begin;
    int64_t begin_offset;
    struct df_json_keys keys; /* an owner may lower copy_depth to what outlives its windows */
    char stack[DF_JSON_DEPTH_MAX + 1]; /* [depth]: the bracket that closes this level */
};

/* max_depth is at most DF_JSON_DEPTH_MAX: a depth of 1 is an array of scalars. */
void df_json_scan_init(struct df_json_scan *s, unsigned flags, unsigned max_depth);
void df_json_scan_release(struct df_json_scan *s);

/* Prepares for another document; keeps options and memory. */
void df_json_scan_reset(struct df_json_scan *s);

/* Sets the input from `p` on; offset is the window's position in the document. */
void df_json_scan_window(struct df_json_scan *s, struct df_str window, int64_t offset, bool final);

enum df_json_token df_json_scan_next(struct df_json_scan *s);

/*
 * Scans until at most `depth` levels are open: after OBJECT or ARRAY, s->depth - 1 means to its
 * end. Returns the token that closed it, MORE (then call again) or ERROR.
 */
enum df_json_token df_json_scan_skip(struct df_json_scan *s, unsigned depth);

/* Goes back before a value that began at `start`, in this window, when `depth` levels were open. */
void df_json_scan_back(struct df_json_scan *s, const char *start, unsigned depth);

/* Byte offset of p in the document. */
int64_t df_json_scan_offset(const struct df_json_scan *s);

/* After ERROR: fills in the message, the code and the offset. The window must still be valid. */
enum df_code df_json_scan_error(const struct df_json_scan *s, struct df_err *err);

/*
 * Unescapes the content of a KEY or STRING into out, which has room for text.len bytes (the result
 * is never longer), and returns the result. The text must have been scanned.
 */
struct df_str df_json_unescape(struct df_str text, char *out);

/* Checks that the input is exactly one document. Flags and depth as for df_json_scan_init. */
enum df_code df_json_check(struct df_str input, unsigned flags, unsigned max_depth,
                           struct df_err *err) DF_MUST_CHECK;

#endif

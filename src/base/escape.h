/*
 * Escapes text as the content of a JSON string; nothing else in the program does. It is below json/
 * because the log and the database drivers write strings too; documents are written with
 * json/write.h.
 *
 * Quotes, backslashes and control characters are escaped, with the short forms where there are any.
 * Each byte that is not UTF-8 becomes U+FFFD, so that the result is always valid.
 */
#ifndef DF_BASE_ESCAPE_H
#define DF_BASE_ESCAPE_H

#include "base/buf.h"

enum df_escape {
    DF_ESCAPE_JSON,
    /* The text is known to be valid UTF-8: bytes that are not ASCII are copied unchecked. */
    DF_ESCAPE_VALID,
    /* Also DEL and the C1 controls, which terminals obey, and U+2028 and U+2029, at which some
     * readers split lines. */
    DF_ESCAPE_LINE,
};

/* The most bytes that one byte of text can become. */
#define DF_ESCAPE_GROWTH 6

/*
 * Writes as many whole characters of *text as fit between `to` and `stop`, removes them from *text,
 * and returns the end of the output. The bytes from there to `stop` may be overwritten too.
 */
char *df_escape(char *to, const char *stop, struct df_str *text, enum df_escape kind);

/* Appends all of `text` to the buffer. */
void df_buf_add_escaped(struct df_buf *b, struct df_str text);

#endif

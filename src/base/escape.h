/*
 * The content of a JSON string from text: the one place that escapes. Below json/, because the log
 * and the databases' drivers write strings too; whoever writes documents uses json/write.h.
 *
 * Quotes, backslashes and control characters are escaped, with the short forms where there are
 * any. Bytes that are no UTF-8 become U+FFFD each, so that the result is always valid.
 */
#ifndef DF_BASE_ESCAPE_H
#define DF_BASE_ESCAPE_H

#include "base/buf.h"

enum df_escape {
    DF_ESCAPE_JSON,
    /* The text is known to be valid UTF-8: what is not ASCII is copied unseen. */
    DF_ESCAPE_VALID,
    /* Also DEL and the C1 controls, which terminals obey, and U+2028 and U+2029, at which some
     * readers split lines. */
    DF_ESCAPE_LINE,
};

/* What one byte of text becomes at most. */
#define DF_ESCAPE_GROWTH 6

/*
 * Writes as many whole characters of *text as fit between `to` and `stop`, takes them off it, and
 * returns where it ended. What lies behind that, up to `stop`, may have been written to as well.
 */
char *df_escape(char *to, const char *stop, struct df_str *text, enum df_escape kind);

/* All of it, to the end of the buffer. */
void df_buf_add_escaped(struct df_buf *b, struct df_str text);

#endif

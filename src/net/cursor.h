/*
 * The cursor of a long list: where the next page begins, as clients pass it back (`next`, then
 * `after=`). It names the list, the order, and the last row that was shown, by creation time and
 * id; nothing in it is secret. Whoever changes it gets other rows of the same list, all of which
 * could be asked for anyway.
 *
 * The time is the text that the database has, not one that we made of it: other programs write
 * SQL Server's with more digits than milliseconds, and SQLite's in other forms. Made again from
 * milliseconds, it would stand before or behind its row, and a page would begin with a row that was
 * shown, or leave some out.
 */
#ifndef DF_NET_CURSOR_H
#define DF_NET_CURSOR_H

#include "base/str.h"
#include "base/uuid.h"

#define DF_CURSOR_LIST_MAX 40  /* characters of a list's name */
#define DF_CURSOR_TEXT_MAX 160 /* characters of a cursor */
#define DF_CURSOR_AT_MAX   34  /* characters of a time, as databases write it */

struct df_cursor {
    bool oldest_first;
    char at[DF_CURSOR_AT_MAX + 1]; /* a time that df_time_parse() takes, from 1970 on; or empty */
    bool by_uuid;
    int64_t id; /* one of the two */
    struct df_uuid uuid;
};

/* False: it is no time that a cursor can name. */
bool df_cursor_set_at(struct df_cursor *c, struct df_str at);
/* Writes it as text, ended by NUL. */
void df_cursor_write(const struct df_cursor *c, const char *list, char out[DF_CURSOR_TEXT_MAX + 1]);
/* False: it is no cursor of this list. by_uuid says which kind of id the list has. */
bool df_cursor_parse(struct df_str text, const char *list, bool by_uuid, struct df_cursor *ret);

#endif

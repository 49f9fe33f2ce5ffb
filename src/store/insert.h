/*
 * Plain INSERT ... VALUES (...) statements, which drivers write for many rows at once. Anything
 * more than that (a SELECT, a RETURNING, something behind the list) is not one of them.
 */
#ifndef DF_STORE_INSERT_H
#define DF_STORE_INSERT_H

#include <stdbool.h>

/* Where the word VALUES stands, and the parentheses of its list. */
struct df_insert {
    const char *word;
    const char *open;
    const char *close;
};

bool df_insert_find(const char *sql, struct df_insert *ret);
/* Behind a string or a quoted name that starts at p. */
const char *df_insert_skip_quoted(const char *p);

#endif

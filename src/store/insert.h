/*
 * Recognises plain INSERT ... VALUES (...) statements, which drivers rewrite for many rows at once.
 * A statement with anything more (a SELECT, a RETURNING, text after the list) does not count.
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
/* The character after the string or quoted name that starts at p. */
const char *df_insert_skip_quoted(const char *p);

#endif

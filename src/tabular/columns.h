/*
 * The names of a table's columns, made unique: trimmed; an empty one is "Column D", as a
 * spreadsheet would call it; one that was there already gets " (2)". Columns without a name in the
 * header get theirs when they are first asked for, so that they take none that stands there. Names
 * stay where they are until release. One thread at a time.
 */
#ifndef DF_TABULAR_COLUMNS_H
#define DF_TABULAR_COLUMNS_H

#include "base/arena.h"
#include "base/map.h"

struct df_column;

struct df_columns {
    struct df_arena arena;
    struct df_column **list; /* NULL: no name yet */
    size_t count;
    size_t cap;
    struct df_map by_name;
};

/* A zeroed struct is a valid empty table. How many there may be is the caller's to bound. */
void df_columns_release(struct df_columns *c);

/* What the header says of the column at index, from 0; nothing is fine too. Once for each. */
void df_columns_set(struct df_columns *c, size_t index, struct df_str header);

/* The name of the column at index, from 0. */
struct df_str df_columns_name(struct df_columns *c, size_t index);

/* "A" to "Z", "AA", … and a NUL. */
#define DF_COLUMN_LETTERS 16
void df_column_letters(size_t index, char out[DF_COLUMN_LETTERS]);

#endif

/*
 * The names of a table's columns, made unique: trimmed; an empty one is "Column D", as a
 * spreadsheet would call it; one that was there already gets " (2)". Columns beyond the header get
 * their names when they are first asked for. Names stay where they are until release. One thread at
 * a time.
 */
#ifndef DF_IMPORTS_COLUMNS_H
#define DF_IMPORTS_COLUMNS_H

#include "base/arena.h"

struct df_column;

struct df_columns {
    struct df_arena arena;
    struct df_column *list;
    size_t count;
    size_t cap;
    uint32_t *slots; /* 1 + index of list; 0: free */
    size_t slot_count;
};

/* A zeroed struct is a valid empty table. How many there may be is the caller's to bound. */
void df_columns_release(struct df_columns *c);
void df_columns_add(struct df_columns *c, struct df_str header);

/* The name of the column at index, from 0. */
struct df_str df_columns_name(struct df_columns *c, size_t index);

#endif

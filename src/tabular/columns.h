/*
 * The names of a table's columns, made unique. Names are trimmed; a name that another column has
 * already gets " (2)"; a column without a name is called "Column D", after its letter in a
 * spreadsheet. A column without a name is named when it is first asked for, after the whole header
 * was read, so that it cannot take a name that stands in the header. Names stay at their address
 * until release. One thread at a time.
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

/* A zeroed struct is a valid empty table. The caller bounds the number of columns. */
void df_columns_release(struct df_columns *c);

/* Sets the header's text of the column at index, from 0; it may be empty. Once for each column. */
void df_columns_set(struct df_columns *c, size_t index, struct df_str header);

/* The name of the column at index, from 0. */
struct df_str df_columns_name(struct df_columns *c, size_t index);
/* The header's text as it was set, trimmed; empty for a column without a name. */
struct df_str df_columns_header(const struct df_columns *c, size_t index);

/* "A" to "Z", "AA", … and a NUL. */
#define DF_COLUMN_LETTERS 16
void df_column_letters(size_t index, char out[DF_COLUMN_LETTERS]);

#endif

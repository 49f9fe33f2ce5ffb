/*
 * Reads a cell of the usual shape straight from a sheet's XML, without events. Private to
 * xlsx_sheet.c.
 */
#ifndef DF_TABULAR_XLSX_CELL_H
#define DF_TABULAR_XLSX_CELL_H

#include "tabular/xlsx_sheet.h"

/* The fixed parts of a cell, or of a row's start tag, are shorter than this. With this many bytes
 * left they are compared without checking for the window's end. */
#define DF_USUAL_MARGIN 96

/* The byte after `lit` at p, or NULL. */
#define DF_PAST(p, lit) (memcmp((p), (lit), sizeof(lit) - 1) == 0 ? (p) + sizeof(lit) - 1 : NULL)

struct df_usual_cell {
    uint32_t column, style;
    enum df_cell_type type;
    bool has_value;
    uint32_t index;     /* of a shared string */
    struct df_str text; /* of the other types; borrowed from the window */
};

/* Reads the cell at p. The byte after it, or NULL for a cell that is cut, unusual, or has a text
 * over max_bytes: the plain reader takes it then. */
const char *df_usual_cell_read(const char *p, const char *end, size_t max_bytes,
                               struct df_usual_cell *ret);

/* The type in a cell's attribute t. */
enum df_cell_type df_cell_type_of(struct df_str t);

#endif

/*
 * A sheet's rows as they stand in the file: cells with their type, style and text, before shared
 * strings are looked up and numbers are formatted. Cells without a value are left out; rows without
 * cells are not. Memory: the cells and texts of one row, or of a few rows when libxml2 reads. One
 * thread at a time.
 */
#ifndef DF_TABULAR_XLSX_SHEET_H
#define DF_TABULAR_XLSX_SHEET_H

#include "tabular/xlsx_zip.h"

#define DF_SHEET_COLUMNS 16384 /* to XFD */
#define DF_SHEET_ROWS    1048576

enum df_cell_type {
    DF_CELL_NUMBER,
    DF_CELL_SHARED, /* `index` of the shared strings */
    DF_CELL_TEXT,
    DF_CELL_BOOL,
    DF_CELL_ERROR,
    DF_CELL_DATE, /* ISO 8601 */
};

struct df_cell {
    uint32_t column; /* from 0 */
    uint32_t style;
    enum df_cell_type type;
    uint32_t index;
    struct df_str text;
};

struct df_row {
    uint64_t number; /* as a person counts, from 1 */
    const struct df_cell *cells;
    size_t count;
};

struct df_sheet_rows;

/* strict: only libxml2 reads. */
enum df_code df_sheet_rows_open(const struct df_zip *zip, const struct df_zip_entry *part,
                                bool strict, struct df_sheet_rows **ret,
                                struct df_err *err) DF_MUST_CHECK;
void df_sheet_rows_free(struct df_sheet_rows *s);
/* DF_ROW and the next row, borrowed until the next call; DF_DONE; or the error. */
enum df_code df_sheet_rows_next(struct df_sheet_rows *s, struct df_row *ret,
                                struct df_err *err) DF_MUST_CHECK;

#endif

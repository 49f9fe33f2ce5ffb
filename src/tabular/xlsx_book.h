/*
 * What a workbook says of itself: where its parts are, which sheets it has, whether its days count
 * from 1904, what its styles make of numbers. Memory is bounded by the limits in xlsx_book.c.
 */
#ifndef DF_IMPORTS_XLSX_BOOK_H
#define DF_IMPORTS_XLSX_BOOK_H

#include "tabular/xlsx_format.h"
#include "tabular/xlsx_zip.h"

struct df_sheet {
    struct df_str name;
    struct df_str rel_id;
    const struct df_zip_entry *part; /* NULL: not a sheet of cells, or not there */
    bool is_cells;
    bool hidden;
};

struct df_book {
    struct df_arena arena;
    struct df_sheet *sheets;
    size_t sheet_count;
    bool date1904;
    const struct df_format **formats; /* one for each cell style */
    size_t format_count;
    const struct df_zip_entry *strings; /* NULL: none */
};

/*
 * Whether the archive is a workbook that we read, and its main part; else DF_E_MEDIA_TYPE and what
 * it is instead.
 */
enum df_code df_book_find(const struct df_zip *zip, const struct df_zip_entry **ret,
                          struct df_err *err) DF_MUST_CHECK;

/* Release it also after an error. */
enum df_code df_book_init(struct df_book *b, const struct df_zip *zip,
                          const struct df_zip_entry *main, struct df_err *err) DF_MUST_CHECK;
void df_book_release(struct df_book *b);

/* The sheet of that name, without regard to case, or the first visible one if it is absent. */
enum df_code df_book_sheet(const struct df_book *b, struct df_str name, const struct df_sheet **ret,
                           struct df_err *err) DF_MUST_CHECK;

#endif

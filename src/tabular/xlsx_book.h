/*
 * The description of a workbook: where its parts are, its sheets, whether its days count from 1904,
 * and the number formats of its styles. Memory is bounded by the limits in xlsx_book.c.
 */
#ifndef DF_TABULAR_XLSX_BOOK_H
#define DF_TABULAR_XLSX_BOOK_H

#include "tabular/xlsx_format.h"
#include "tabular/xlsx_zip.h"

struct df_sheet {
    struct df_str name;
    struct df_str rel_id;
    const struct df_zip_entry *part; /* NULL: not a sheet of cells, or missing */
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

/* Finds the main part of a workbook. DF_E_MEDIA_TYPE for another kind of archive, which the message
 * names. */
enum df_code df_book_find(const struct df_zip *zip, const struct df_zip_entry **ret,
                          struct df_err *err) DF_MUST_CHECK;

/* Release it also after an error. */
enum df_code df_book_init(struct df_book *b, const struct df_zip *zip,
                          const struct df_zip_entry *main, struct df_err *err) DF_MUST_CHECK;
void df_book_release(struct df_book *b);

/* The sheet of that name, in any case, or by its number from 1 if no sheet has that name; the first
 * visible one if name is absent. */
enum df_code df_book_sheet(const struct df_book *b, struct df_str name, const struct df_sheet **ret,
                           struct df_err *err) DF_MUST_CHECK;

#endif

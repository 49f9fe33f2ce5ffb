/*
 * Shared by the files of the report:
 *
 *   report.c        files, reading of rows, JSON
 *   report_table.c  columns and cells
 *   report_write.c  tables as CSV and as a workbook
 */
#ifndef DF_IMPORTS_REPORT_PRIVATE_H
#define DF_IMPORTS_REPORT_PRIVATE_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/map.h"
#include "imports/api/report.h"
#include "tabular/records.h"

#include <stdio.h>

/* The members, LeadContextJson if it is needed, and the report's two. */
#define DF_REPORT_CELLS (DF_REPORT_MEMBERS + 3)

struct df_report_member {
    struct df_str name;   /* that records have, unique */
    struct df_str header; /* of the column, as in the file */
};

struct df_report_table {
    struct df_arena names;
    size_t name_bytes;
    struct df_report_member members[DF_REPORT_MEMBERS];
    struct df_map by_name; /* to the member's place in `members` */
    size_t member_count;
    bool has_rest; /* some row has a value without a column */

    /* The current row. */
    struct df_arena arena;
    char sequence[24];
    struct df_buf rest;
    struct df_str cells[DF_REPORT_CELLS];
};

/* columns: as in the source. */
void df_report_table_init(struct df_report_table *t, struct df_str columns);
void df_report_table_release(struct df_report_table *t);
/* Call learn for every row; then, when all columns are known, fill for every row again. */
void df_report_table_learn(struct df_report_table *t, struct df_str record);
void df_report_table_fill(struct df_report_table *t, const struct df_report_row *row);
size_t df_report_table_columns(const struct df_report_table *t);
/* Fills the cells with the names of the columns. */
void df_report_table_head(struct df_report_table *t);

/* A writer of tables: it writes the table's cells, the head's first and then each row's. */
struct df_report_writer {
    enum df_code (*open)(void *w, const char *temp_dir, int fd, struct df_err *err);
    enum df_code (*row)(void *w, const struct df_report_table *t, bool head, struct df_err *err);
    /* Always releases w. With `whole` false the file is thrown away, and errors do not matter. */
    enum df_code (*close)(void *w, bool whole, struct df_err *err);
    size_t size;
};

extern const struct df_report_writer df_report_csv;
extern const struct df_report_writer df_report_xlsx;

/* The error of errno; a full disk has a code of its own. */
enum df_code df_report_io(struct df_err *err, const char *what) DF_MUST_CHECK;

#endif

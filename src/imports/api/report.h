/*
 * The failed rows of a batch as a file, in the order of the source. It can be mended and uploaded
 * again, in any of the formats:
 *
 *   .json  an array of the records as they were uploaded, nested values in their form
 *   .csv   a table by RFC 4180, in UTF-8 with a byte order mark, with commas
 *   .xlsx  the same table, with text cells only
 *
 * The columns of the table are those of the uploaded file, under its headers and in its order; for
 * a JSON file, one for each member that any row has. The report adds two, behind the others, so
 * that the others keep their letters: DF_REPORT_SEQUENCE and DF_REPORT_ERROR (records.h), which an
 * upload leaves out. A column LeadContextJson has as JSON what has no column, past
 * DF_REPORT_MEMBERS or DF_REPORT_NAMES; an upload takes its members for columns.
 *
 * The members of a JSON file are known only at the end, so the rows of a table are first written to
 * an unnamed file and then read again. The source is read once, and memory does not grow with the
 * rows. All functions block on the source and the disk.
 */
#ifndef DF_IMPORTS_REPORT_H
#define DF_IMPORTS_REPORT_H

#include "base/err.h"
#include "base/str.h"

#define DF_REPORT_MEMBERS    4096              /* a record of a file has no more */
#define DF_REPORT_NAMES      ((size_t)1 << 20) /* bytes of all names together */
#define DF_REPORT_CELL_CHARS 32767   /* Excel's limit: a longer text is cut and ends with … */
#define DF_REPORT_SHEET_ROWS 1048576 /* Excel's limit: more rows go to another sheet */

enum df_report_format { DF_REPORT_JSON, DF_REPORT_CSV, DF_REPORT_XLSX };

struct df_report_row {
    int64_t sequence;
    struct df_str error;  /* may be absent */
    struct df_str record; /* as uploaded, a JSON object; absent: masked, or not kept */
};

struct df_report_source {
    /* DF_ROW and the next row, borrowed until the next call; DF_DONE; or the error. */
    enum df_code (*next)(void *arg, struct df_report_row *ret, struct df_err *err);
    void *arg;
    struct df_str columns; /* ImportBatch.ColumnsJson; absent: the columns are learnt from rows */
};

/* Makes an unnamed file. DF_E_BUSY: the disk is full. */
enum df_code df_report_make(enum df_report_format format, const struct df_report_source *source,
                            const char *temp_dir, int *ret_fd, uint64_t *ret_size,
                            struct df_err *err) DF_MUST_CHECK;

const char *df_report_extension(enum df_report_format format);
const char *df_report_content_type(enum df_report_format format);

#endif

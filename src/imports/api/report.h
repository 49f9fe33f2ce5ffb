/*
 * The failed rows of a batch as a file, in the order of the source:
 *
 *   .json  an array of {"sequence","errorMessage","payload"}, as in GET …/items
 *   .csv   a table by RFC 4180, in UTF-8 with a byte order mark, with commas
 *   .xlsx  the same table, with text cells only
 *
 * Columns of the table: Sequence, ErrorMessage, PhoneNumber, Origin, one for each member of
 * LeadContextJson that any row has, and PropertyContextJson as JSON. A last column LeadContextJson
 * has as JSON what has no column: members past DF_REPORT_MEMBERS, or a payload that is not an item.
 *
 * The members are known only at the end, so the rows of a table are first written to an unnamed
 * file and then read again. The source is read once, and memory does not grow with the rows. All
 * functions block on the source and the disk.
 */
#ifndef DF_IMPORTS_REPORT_H
#define DF_IMPORTS_REPORT_H

#include "base/err.h"
#include "base/str.h"

#define DF_REPORT_MEMBERS    200
#define DF_REPORT_NAME_CHARS 200     /* a longer name gets no column */
#define DF_REPORT_CELL_CHARS 32767   /* Excel's limit: a longer text is cut and ends with … */
#define DF_REPORT_SHEET_ROWS 1048576 /* Excel's limit: more rows go to another sheet */

enum df_report_format { DF_REPORT_JSON, DF_REPORT_CSV, DF_REPORT_XLSX };

struct df_report_row {
    int64_t sequence;
    struct df_str error;   /* may be absent */
    struct df_str payload; /* the item as JSON; absent: masked, or too large to be stored */
};

struct df_report_source {
    /* DF_ROW and the next row, borrowed until the next call; DF_DONE; or the error. */
    enum df_code (*next)(void *arg, struct df_report_row *ret, struct df_err *err);
    void *arg;
};

/* Makes an unnamed file. DF_E_BUSY: the disk is full. */
enum df_code df_report_make(enum df_report_format format, const struct df_report_source *source,
                            const char *temp_dir, int *ret_fd, uint64_t *ret_size,
                            struct df_err *err) DF_MUST_CHECK;

const char *df_report_extension(enum df_report_format format);
const char *df_report_content_type(enum df_report_format format);

#endif

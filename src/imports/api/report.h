/*
 * The failed rows of a batch as a file, in the order in which they come:
 *
 *   .json  an array of {"sequence","errorMessage","payload"}, as the call for items has them
 *   .csv   a table, UTF-8 with a mark, commas, RFC 4180
 *   .xlsx  the same table, all of it text
 *
 * Columns of the table: Sequence, ErrorMessage, PhoneNumber, Origin, one for each member of
 * LeadContextJson that any row has, PropertyContextJson as JSON; and LeadContextJson as JSON for
 * what has no column: members past DF_REPORT_MEMBERS, or a payload that is no item.
 *
 * Which members there are is known at the end only, so rows of a table are first written to a file
 * without a name and then read again: the source is asked once, and memory does not depend on how
 * many rows there are. All of it blocks, for as long as the source and a disk take.
 */
#ifndef DF_IMPORTS_REPORT_H
#define DF_IMPORTS_REPORT_H

#include "base/err.h"
#include "base/str.h"

#define DF_REPORT_MEMBERS    200
#define DF_REPORT_NAME_CHARS 200   /* a longer name gets no column */
#define DF_REPORT_CELL_CHARS 32767 /* of .xlsx, a limit of Excel's: more is cut and ends with … */
#define DF_REPORT_SHEET_ROWS 1048576 /* likewise: more rows go to another sheet */

enum df_report_format { DF_REPORT_JSON, DF_REPORT_CSV, DF_REPORT_XLSX };

struct df_report_row {
    int64_t sequence;
    struct df_str error;   /* may be absent */
    struct df_str payload; /* the item as JSON; absent: masked, or too large to be kept */
};

struct df_report_source {
    /* DF_ROW and the next row, borrowed until the next call; DF_DONE; or the error. */
    enum df_code (*next)(void *arg, struct df_report_row *ret, struct df_err *err);
    void *arg;
};

/* The file has no name; its size is how far it is written. DF_E_BUSY: the disk is full. */
enum df_code df_report_make(enum df_report_format format, const struct df_report_source *source,
                            const char *temp_dir, int *ret_fd, uint64_t *ret_size,
                            struct df_err *err) DF_MUST_CHECK;

const char *df_report_extension(enum df_report_format format);
const char *df_report_content_type(enum df_report_format format);

#endif

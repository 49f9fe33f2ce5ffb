/*
 * Reads the records of a file, one after the other, in memory that does not grow with the file. It
 * is the one interface to the parsers (JSON, XLSX, CSV). The same file always gives the same
 * records in the same order: work resumes after a crash by reading from the start again. One thread
 * at a time.
 *
 *     while ((code = df_records_next(r, &record, err)) == DF_ROW)
 *         ...
 *     // DF_DONE, or what is wrong with the file
 */
#ifndef DF_TABULAR_RECORDS_H
#define DF_TABULAR_RECORDS_H

#include "base/bytes.h"
#include "tabular/columns.h"

/* As in ImportBatch.FileType. */
enum df_file_type { DF_FILE_JSON, DF_FILE_EXCEL, DF_FILE_CSV, DF_FILE_TYPES };

enum df_field_kind {
    DF_FIELD_NULL,
    DF_FIELD_TEXT,   /* UTF-8 without NUL, unescaped */
    DF_FIELD_NUMBER, /* its text: a JSON number */
    DF_FIELD_BOOL,   /* "true" or "false" */
    DF_FIELD_JSON,   /* an array or object: its text, checked */
};

struct df_field {
    struct df_str name; /* as in the file: the column's header or the member's name */
    enum df_field_kind kind;
    struct df_str text;
};

/* Fields in the file's order, without empty cells. A record without fields is an empty row.
 * Borrowed until the next call. */
struct df_record {
    const struct df_field *fields;
    size_t count;
    uint64_t
        row; /* where it stands: the row of the table, or the record's number in JSON; from 1 */
};

/* A file over one of these limits is refused with DF_E_TOO_LARGE, and the message names the limit.
 * 0: the default. */
struct df_record_limits {
    uint64_t max_records;      /* 2^31 - 1: ImportItem.Sequence is an INT */
    size_t max_record_bytes;   /* 1 MiB */
    size_t max_fields;         /* of a record; 4096 */
    uint64_t max_inflated;     /* bytes of a workbook when unpacked; 8 GiB */
    uint64_t max_ratio;        /* of inflated to stored bytes of an entry over 1 MiB; 500 */
    size_t max_entries;        /* of a workbook's archive; 4096 */
    uint64_t max_rows;         /* the highest row number of a sheet; 1,048,576, as in Excel */
    size_t max_string_bytes;   /* of a cell; 1 MiB */
    uint64_t max_shared_bytes; /* of the table of shared strings; see xlsx_strings.c */
};

struct df_records_options {
    struct df_str sheet; /* of a workbook, in any case; absent: the first visible one */
    struct df_record_limits limits;
    const char *temp_dir; /* for unnamed files that hold what does not fit in memory */
    size_t strings_bytes; /* of a workbook's strings in memory; 0: the default of xlsx_strings.h */
    bool unguard;         /* CSV: remove the apostrophe that error reports put before formulas */
    bool drop_own;        /* leave out the columns that error reports add */
};

struct df_records;

struct df_records_ops {
    enum df_code (*next)(struct df_records *r, struct df_record *ret, struct df_err *err);
    void (*free)(struct df_records *r);
    /* NULL: it has no sheets. The name of the sheet at index, from 0; false: there is none. */
    bool (*sheet)(const struct df_records *r, size_t index, struct df_str *ret);
};

/* Parsers embed it as their first member. */
struct df_records {
    const struct df_records_ops *ops;
    bool unguarded;             /* an apostrophe was removed */
    bool dropped;               /* a column of an error report was left out */
    struct df_columns *columns; /* of a table, as far as it was read; NULL: JSON */
    uint64_t header_row;        /* of a table, once the header was read; 0: none */
    struct df_str sheet;        /* of a workbook: the one that is read; else absent */
    /* Set by df_records_open. */
    bool drop_own;
    struct df_field *kept; /* the fields of a record that lost some */
    size_t kept_cap;
};

/* The columns that an error report adds to those of the file. An upload leaves them out, in any
 * spelling of their names that a header may have (headers_map.h). */
#define DF_REPORT_SEQUENCE "DataFlow Sequence"
#define DF_REPORT_ERROR    "DataFlow Error"
bool df_records_is_own(struct df_str name);

/* Tells the format by the file's first few KiB and, for an archive, its directory.
 * DF_E_MEDIA_TYPE: not a supported one. */
enum df_code df_file_type_detect(const struct df_bytes *file, enum df_file_type *ret,
                                 struct df_err *err) DF_MUST_CHECK;

/* file and opt are copied; the memory they point to must outlive the reader. */
enum df_code df_records_open(enum df_file_type type, const struct df_bytes *file,
                             const struct df_records_options *opt, struct df_records **ret,
                             struct df_err *err) DF_MUST_CHECK;
/* DF_ROW, DF_DONE, or an error that names the place (row, byte); the file ends with the error. */
enum df_code df_records_next(struct df_records *r, struct df_record *ret,
                             struct df_err *err) DF_MUST_CHECK;
void df_records_free(struct df_records *r);
/* The name of a workbook's sheet, from 0; false: there are no more. */
bool df_records_sheet(const struct df_records *r, size_t index, struct df_str *ret);

/* The parsers. */
enum df_code df_json_records_open(const struct df_bytes *file, const struct df_records_options *opt,
                                  struct df_records **ret, struct df_err *err) DF_MUST_CHECK;
enum df_code df_xlsx_records_open(const struct df_bytes *file, const struct df_records_options *opt,
                                  struct df_records **ret, struct df_err *err) DF_MUST_CHECK;
enum df_code df_csv_records_open(const struct df_bytes *file, const struct df_records_options *opt,
                                 struct df_records **ret, struct df_err *err) DF_MUST_CHECK;
/* Whether the file is an archive with [Content_Types].xml and a workbook part. */
bool df_xlsx_is_workbook(const struct df_bytes *file);

#endif

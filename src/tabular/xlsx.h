/* The reader of workbooks, beyond records.h. Private to this room and its tests. */
#ifndef DF_TABULAR_XLSX_H
#define DF_TABULAR_XLSX_H

#include "tabular/records.h"

struct df_xlsx_tuning {
    bool strict;          /* libxml2 reads everything */
    size_t strings_bytes; /* of shared strings in memory; 0: the default of xlsx_strings.h */
};

enum df_code df_xlsx_records_open_tuned(const struct df_bytes *file,
                                        const struct df_records_options *opt,
                                        const struct df_xlsx_tuning *tuning,
                                        struct df_records **ret, struct df_err *err) DF_MUST_CHECK;

/* DF_OK for a workbook that can be read; DF_E_MEDIA_TYPE for another kind of file, which the
 * message names; or the error of a broken archive. */
enum df_code df_xlsx_probe(const struct df_bytes *file, struct df_err *err) DF_MUST_CHECK;

#endif

/* Private to imports/ and its tests: what records.h does not show of the reader of workbooks. */
#ifndef DF_IMPORTS_XLSX_H
#define DF_IMPORTS_XLSX_H

#include "tabular/records.h"

struct df_xlsx_tuning {
    bool strict;          /* libxml2 reads everything */
    size_t strings_bytes; /* of shared strings in memory; 0: as usual */
};

enum df_code df_xlsx_records_open_tuned(const struct df_bytes *file,
                                        const struct df_records_options *opt,
                                        const struct df_xlsx_tuning *tuning,
                                        struct df_records **ret, struct df_err *err) DF_MUST_CHECK;

/* DF_OK for a workbook that we read; DF_E_MEDIA_TYPE and what it is instead; or how it is broken.
 * The file begins as an archive does. */
enum df_code df_xlsx_probe(const struct df_bytes *file, struct df_err *err) DF_MUST_CHECK;

#endif

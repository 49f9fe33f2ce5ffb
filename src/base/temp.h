/* A file without a name, for data that does not fit in memory; it disappears with the process,
 * however that ends. */
#ifndef DF_BASE_TEMP_H
#define DF_BASE_TEMP_H

#include "base/err.h"

/* Opens one in this directory for reading and writing; the caller closes *ret. */
enum df_code df_temp_open(const char *dir, int *ret, struct df_err *err) DF_MUST_CHECK;

#endif

/* A file without a name, for what does not fit in memory: gone with the process, whatever becomes
 * of it. */
#ifndef DF_BASE_TEMP_H
#define DF_BASE_TEMP_H

#include "base/err.h"

/* In this directory, for reading and writing; *ret is the caller's to close. */
enum df_code df_temp_open(const char *dir, int *ret, struct df_err *err) DF_MUST_CHECK;

#endif

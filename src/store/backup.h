/* Online backup and restore of the embedded database. DF_E_USAGE for database servers, which have
 * tools of their own. */
#ifndef DF_STORE_BACKUP_H
#define DF_STORE_BACKUP_H

#include "base/err.h"

/*
 * A consistent copy while the server runs and writes. The file appears whole (written aside,
 * checked, fsynced, renamed) or not at all; an existing file is never overwritten. The copy is a
 * single file, readable by its owner only.
 */
enum df_code df_backup(const char *url, const char *file, struct df_err *err) DF_MUST_CHECK;

/*
 * Checks the file (integrity, that it is a DataFlow database), then replaces the content of the
 * database, which is made if it is missing, in one transaction: a server that runs meanwhile sees
 * the old content or the new. On an error nothing has changed. The schema comes from the file and
 * may be older: call df_schema_apply afterwards, as `serve` does.
 */
enum df_code df_restore(const char *url, const char *file, struct df_err *err) DF_MUST_CHECK;

#endif

/* Opening the configured database, as the server and every command do it. */
#ifndef DF_APP_DATABASE_H
#define DF_APP_DATABASE_H

#include "app/settings.h"
#include "store/db.h"

/* Makes the directory and its parents, readable by the owner alone. */
enum df_code df_make_dirs(const char *path, struct df_err *err) DF_MUST_CHECK;

/*
 * Makes data_dir, connects, and with `migrate` applies the schema scripts, which also create a new
 * database. ret_applied (may be NULL) gets the number of scripts that ran.
 */
enum df_code df_open_database(const struct df_settings *s, bool migrate, struct df_db **ret,
                              size_t *ret_applied, struct df_err *err) DF_MUST_CHECK;

#endif

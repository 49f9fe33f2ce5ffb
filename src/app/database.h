/* Opening the configured database, as the server and every command do it. */
#ifndef DF_APP_DATABASE_H
#define DF_APP_DATABASE_H

#include "app/settings.h"
#include "base/clock.h"
#include "store/db.h"

/* Makes the directory and its parents, readable by the owner alone. */
enum df_code df_make_dirs(const char *path, struct df_err *err) DF_MUST_CHECK;

/*
 * Makes data_dir, connects, and with `migrate` applies the schema scripts, which also create a new
 * database. ret_applied (may be NULL) gets the number of scripts that ran.
 */
enum df_code df_open_database(const struct df_settings *s, bool migrate, struct df_db **ret,
                              size_t *ret_applied, struct df_err *err) DF_MUST_CHECK;

struct df_access;
struct df_data_keys;
struct df_waiting;

/* The keys of what is stored (keys/data_keys.h), read on a connection of their own. */
enum df_code df_open_data_keys(const struct df_settings *s, const struct df_clock *clock,
                               bool for_server, struct df_data_keys *ret,
                               struct df_err *err) DF_MUST_CHECK;
/*
 * The same for a server: a vault that is away, or refuses, is waited for, and so is a schema that
 * somebody else applies. Meanwhile the server's address answers (waiting.h); *waiting is the
 * caller's to end, whatever is returned. DF_E_CANCELLED: SIGTERM ended the wait.
 */
enum df_code df_wait_data_keys(const struct df_settings *s, struct df_access *access,
                               struct df_data_keys *ret, struct df_waiting **waiting,
                               struct df_err *err) DF_MUST_CHECK;

#endif

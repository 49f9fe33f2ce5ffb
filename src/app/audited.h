/* The audit log from the program's own side: commands that write entries, and a server's start. */
#ifndef DF_APP_AUDITED_H
#define DF_APP_AUDITED_H

#include "access/audit.h"
#include "app/settings.h"
#include "store/store.h"

struct df_data_keys;

/* Connects as df_open_database does, and opens the keys, for a command that writes to the audit
 * log. */
enum df_code df_open_audited(const struct df_settings *s, bool migrate, struct df_db **ret,
                             struct df_err *err) DF_MUST_CHECK;
/* The keys that it opened, until they are closed. Without them the ring is NULL. */
struct df_data_keys *df_audited_keys(void);
/* Closes. A NULL database is fine. keep: the head of the audit log is added to its file first. */
void df_close_audited(const struct df_settings *s, struct df_db *take_db, bool keep);

/* Writes one entry, in a transaction of its own, as the user at the terminal. */
enum df_code df_tell_audit(struct df_db *db, const char *action, const char *outcome,
                           struct df_str target, struct df_str details,
                           struct df_err *err) DF_MUST_CHECK;

/*
 * Writes that the database was replaced by an older copy of itself. The entry names the head that
 * was replaced: the last one that the file has, or `replaced`, whichever is later.
 */
enum df_code df_tell_restored(const struct df_settings *s, struct df_db *db, int64_t replaced,
                              struct df_str reason, struct df_err *err) DF_MUST_CHECK;

/* Seals what older releases wrote, warns if the database is behind the file of heads, and writes
 * ServerStarted with the configuration. Trouble is logged: it does not keep a server from
 * starting. */
void df_audit_start(const struct df_settings *s, struct df_store *store,
                    const struct df_clock *clock);

#endif

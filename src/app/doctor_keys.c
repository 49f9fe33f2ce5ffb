/* The master key: where it is, and whether it opens the database's keys; and the audit log, which
 * is verified with one of them. */
#include "access/audit_verify.h"
#include "app/doctor.h"
#include "keys/data_keys.h"

#include <inttypes.h>

#define WHAT        "security.master_key"
#define AUDIT_LOG   "audit log"
#define OLDEST_ROWS 1000

static void tell_opened(struct df_check *c, const struct df_data_keys *keys)
{
    const char *place = keys->master->place;

    if (df_check_settings(c)->keys.master_key)
        df_check_say(c, DF_HEALTH_OK, WHAT, NULL,
                     "opens the database's keys: %s, from %s. Keep a copy apart from the database",
                     keys->master->id, place);
    else
        df_check_say(
            c, DF_HEALTH_WARNING, WHAT,
            "back the file up, apart from the database, which is of no use without it; for "
            "several hosts set security.master_key_file to a copy of it",
            "is not set: %s was made, and serves this host only", place);
}

static void tell_none(struct df_check *c)
{
    if (df_check_settings(c)->keys.master_key)
        df_check_say(c, DF_HEALTH_OK, WHAT, NULL,
                     "is set; the first start makes the database's keys under it");
    else
        df_check_say(c, DF_HEALTH_WARNING, WHAT,
                     "openssl rand -hex 32, in a file that only the server may read; the same on "
                     "every host",
                     "is not set: the first start makes one in data_dir, for this host only");
}

/* --- the audit log --- */

static void check_head(struct df_check *c, struct df_db *db)
{
    struct df_audit_heads heads;
    struct df_audit_head line;
    struct df_err err = DF_ERR_INIT;
    bool behind = false;

    if (df_audit_heads_load(df_check_settings(c)->data_dir, &heads, &err) != DF_OK) {
        df_check_say(c, DF_HEALTH_WARNING, AUDIT_LOG, "see to the file audit-heads", "%s",
                     err.detail);
        return;
    }
    if (df_audit_is_behind(db, &heads, &behind, &line, &err) == DF_OK && behind)
        df_check_say(c, DF_HEALTH_PROBLEM, AUDIT_LOG,
                     "after a restore: `dataflow audit restored --reason …`; if there was none, "
                     "somebody cut it: `dataflow audit verify`",
                     "lacks entry %" PRId64 ", which was there before", line.sequence);
    df_audit_heads_release(&heads);
}

static void check_oldest(struct df_check *c, struct df_db *db, const struct df_keys *keys)
{
    struct df_audit_fault fault = {0};
    struct df_err err = DF_ERR_INIT;

    if (df_audit_look_oldest(db, keys, OLDEST_ROWS, &fault, &err) == DF_OK && fault.what)
        df_check_say(c, DF_HEALTH_PROBLEM, AUDIT_LOG,
                     "retention removes nothing from it any more; see what else is wrong: "
                     "`dataflow audit verify`",
                     "entry %" PRId64 " %s", fault.sequence, fault.what);
}

/* Only df_check_restored uses that room too, and then this does not. Without keys lines and entries
 * are believed. */
static void check_audit(struct df_check *c, struct df_db *db, const struct df_keys *keys)
{
    df_audit_use_keys(keys);
    check_head(c, db);
    if (keys)
        check_oldest(c, db, keys);
    df_audit_use_keys(NULL);
}

/* --- the check --- */

/* Changes nothing. A database that can't be asked has a finding of its own. */
void df_check_master(struct df_check *c)
{
    const struct df_settings *s = df_check_settings(c);
    const struct df_master_options opt = {
        .settings = &s->keys, .data_dir = s->data_dir, .clock = df_clock_real(), .look_only = true};
    struct df_data_keys keys = {0};
    struct df_err err = DF_ERR_INIT;
    struct df_db *db = NULL;
    enum df_code code =
        df_db_open(&(struct df_db_options){.url = s->store.url,
                                           .connect_timeout_ms = DF_DOCTOR_LIMIT_MS - 500,
                                           .statement_timeout_ms = DF_DOCTOR_LIMIT_MS - 500,
                                           .read_only = true,
                                           .existing = true},
                   &db, &err);

    if (code == DF_OK)
        code = df_data_keys_open(db, &opt, &keys, &err);
    if (code == DF_OK)
        tell_opened(c, &keys);
    else if (!db || code == DF_E_NOT_FOUND || code == DF_E_SCHEMA)
        tell_none(c);
    else
        df_check_say(c, DF_HEALTH_PROBLEM, WHAT,
                     "without the master key nothing that is encrypted opens: see docs/keys.md",
                     "%s", err.detail);
    if (db && code != DF_E_NOT_FOUND && code != DF_E_SCHEMA && !df_check_is_after_restore(c))
        check_audit(c, db, code == DF_OK ? keys.ring : NULL);
    df_data_keys_release(&keys);
    df_db_close(db);
}

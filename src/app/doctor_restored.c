/* Backups, and what is missing after a restore: files of batches that wait, keys, entries of the
 * audit log, documents that nobody would take, erasures that are to be applied again. */
#include "access/audit_verify.h"
#include "app/doctor.h"
#include "app/doctor.sql.h"
#include "backup/backup.sql.h"
#include "base/clock.h"
#include "base/uuid.h"
#include "files/storage.h"
#include "keys/data_keys.h"
#include "keys/key_use.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define DAY_MS         (INT64_C(24) * 3600 * 1000)
#define LIMIT_OWN_MS   (2 * DAY_MS) /* without a backup, when the server makes them */
#define LIMIT_OTHER_MS (7 * DAY_MS)
#define PAGE_ROWS      500
#define SHOWN          10 /* ids named in a finding */
#define LIST_MAX       (SHOWN * (DF_UUID_LEN + 2) + 8)
#define NO_UUID        "00000000-0000-0000-0000-000000000000"

/* --- backups --- */

struct backups {
    int64_t made;
    bool older;
};

static void read_backups(void *arg, struct df_result *r)
{
    struct backups *b = arg;

    b->made = df_col_int(r, doctor_backup_Made);
    b->older = df_col_int(r, doctor_backup_Older) != 0;
}

/* By the audit log, where every way of making one leaves its entry. A server's tools leave none. */
void df_check_backup(struct df_check *c)
{
    const struct df_settings *s = df_check_settings(c);
    const struct df_db_options opt = {.url = s->store.url, .read_only = true, .existing = true};
    int64_t limit_ms = s->backup.to ? LIMIT_OWN_MS : LIMIT_OTHER_MS;
    struct backups found = {.made = 0};
    struct df_err err = DF_ERR_INIT;
    enum df_dialect dialect;
    struct df_db *db = NULL;

    if (df_db_dialect_of(s->store.url, &dialect, &err) != DF_OK || dialect != DF_SQLITE)
        return;
    enum df_code code = df_db_open(&opt, &db, &err);
    if (code == DF_OK)
        code = df_db_each(
            db, DF_Q(doctor_backup, .since = df_time(df_wall_ms(df_clock_real()) - limit_ms)),
            read_backups, &found, &err);
    df_db_close(db);
    if (code != DF_OK)
        return; /* said by the check of the database */
    if (found.made == 0 && found.older)
        df_check_say(c, DF_HEALTH_WARNING, "backup",
                     s->backup.to ? "look for BackupFailed in the log"
                                  : "set [backup] to, or run `dataflow backup --to …` by a timer",
                     "no backup was made for %" PRId64 " days", limit_ms / DAY_MS);
    else if (found.made > 0)
        df_check_say(c, DF_HEALTH_OK, "backup", NULL, "was made in the last %" PRId64 " days",
                     limit_ms / DAY_MS);
}

/* --- files --- */

struct restored {
    struct df_check *check;
    struct df_db *db;
    struct df_data_keys keys;
    struct df_storage *storage;
    struct {
        struct df_uuid batch;
        char location[DF_STORAGE_LOCATION_MAX + 1];
    } page[PAGE_ROWS];
    size_t count;
    size_t waiting, missing, locked, unknown;
    char missing_list[LIST_MAX], locked_list[LIST_MAX];
    struct df_err why; /* of an unknown one */
};

static void read_batch(void *arg, struct df_result *r)
{
    struct restored *t = arg;
    struct df_str path = df_col_text(r, waiting_batches_UploadPath);

    if (t->count == PAGE_ROWS ||
        !df_uuid_parse(df_col_text(r, waiting_batches_Id), &t->page[t->count].batch))
        return;
    (void)snprintf(t->page[t->count].location, sizeof t->page[0].location, DF_STR_FMT,
                   DF_STR_ARG(path));
    t->count++;
}

static void add_id(char list[LIST_MAX], size_t nth, const struct df_uuid *id)
{
    size_t len = strlen(list);

    if (nth <= SHOWN)
        (void)snprintf(list + len, LIST_MAX - len, "%s%s", len ? ", " : "", id->text);
    else if (nth == SHOWN + 1)
        (void)snprintf(list + len, LIST_MAX - len, ", …");
}

static void look_at_file(struct restored *t, const struct df_uuid *batch, const char *location)
{
    struct df_rekeyed found = {0};
    struct df_err err = DF_ERR_INIT;
    enum df_code code =
        strncmp(location, "s3://", 5) == 0
            ? df_storage_rekey_scheduled(t->storage, batch, location, true, &found, &err)
            : df_storage_rekey(t->storage, batch, true, &found, &err);

    t->waiting++;
    if (code == DF_E_NOT_FOUND) {
        add_id(t->missing_list, ++t->missing, batch);
    } else if (code == DF_E_CONFIG ||
               (code == DF_OK && found.data_key && !df_keys_has(t->keys.ring, found.data_key))) {
        add_id(t->locked_list, ++t->locked, batch);
    } else if (code != DF_OK) {
        t->unknown++;
        t->why = err;
    }
}

static void say_files(const struct restored *t)
{
    if (t->missing > 0)
        df_check_say(t->check, DF_HEALTH_PROBLEM, "files",
                     "bring them back from the bucket's older versions or a backup; else cancel "
                     "the batches and have their clients send them again",
                     "of %zu batches that wait, %zu have no file: %s", t->waiting, t->missing,
                     t->missing_list);
    if (t->locked > 0)
        df_check_say(t->check, DF_HEALTH_PROBLEM, "files",
                     "give the key back that they are under: docs/keys.md, A key that is lost",
                     "the files of %zu batches that wait are under a key that is not here: %s",
                     t->locked, t->locked_list);
    if (t->unknown > 0)
        df_check_say(t->check, DF_HEALTH_PROBLEM, "files", "mend what it says, and look again",
                     "%zu files could not be looked at: %s", t->unknown, t->why.detail);
    if (t->missing + t->locked + t->unknown == 0)
        df_check_say(t->check, DF_HEALTH_OK, "files", NULL,
                     "%zu batches wait, and each has its file", t->waiting);
}

static enum df_code check_files(struct restored *t, struct df_err *err)
{
    const struct df_settings *s = df_check_settings(t->check);
    const struct df_storage_options opt = {
        .data_dir = s->data_dir, .settings = s->storage, .keys = t->keys.ring};
    struct df_uuid after = {NO_UUID};
    enum df_code code = df_storage_new(&opt, &t->storage, err);

    for (t->count = PAGE_ROWS; code == DF_OK && t->count == PAGE_ROWS;) {
        t->count = 0;
        code = df_db_each(t->db,
                          DF_Q(waiting_batches, .after = df_uuid(df_uuid_str(&after)),
                               .limit = df_int(PAGE_ROWS)),
                          read_batch, t, err);
        for (size_t i = 0; code == DF_OK && i < t->count; i++)
            look_at_file(t, &t->page[i].batch, t->page[i].location);
        if (t->count > 0)
            after = t->page[t->count - 1].batch;
    }
    if (code == DF_OK)
        say_files(t);
    df_storage_free(t->storage);
    return code;
}

/* --- keys --- */

static enum df_code check_keys(const struct restored *t, struct df_err *err)
{
    struct df_arena arena = {0};
    struct df_key_uses uses = {.arena = &arena};
    struct df_data_key *rows = NULL;
    int64_t secrets = 0, payloads = 0;
    enum df_code code = df_data_keys_read(t->db, &arena, &rows, err);

    if (code == DF_OK)
        code = df_key_uses_count(t->db, &uses, err);
    for (const struct df_key_use *u = uses.first; code == DF_OK && u; u = u->next) {
        secrets += df_key_use_is_lost(u, rows) ? u->secrets : 0;
        payloads += df_key_use_is_lost(u, rows) ? u->payloads : 0;
    }
    if (code == DF_OK && secrets + payloads > 0)
        df_check_say(t->check, DF_HEALTH_PROBLEM, "keys",
                     "docs/keys.md, A key that is lost; `dataflow key list` names it",
                     "%" PRId64 " secrets and %" PRId64 " kept records are under a lost data key",
                     secrets, payloads);
    else if (code == DF_OK)
        df_check_say(t->check, DF_HEALTH_OK, "keys", NULL,
                     "the master key opens every data key that is needed");
    df_arena_release(&arena);
    return code;
}

/* --- the audit log --- */

static void keep_first(void *arg, const struct df_audit_finding *f)
{
    struct df_audit_finding *first = arg;

    if (!first->kind)
        *first = *f;
}

static enum df_code check_audit(const struct restored *t, struct df_err *err)
{
    const struct df_settings *s = df_check_settings(t->check);
    struct df_audit_finding first = {.kind = NULL};
    struct df_audit_report report = {0};
    struct df_audit_heads heads;
    enum df_code code;

    df_audit_use_keys(t->keys.ring);
    code = df_audit_heads_load(s->data_dir, &heads, err);
    if (code == DF_OK) {
        code = df_audit_verify(t->db, &heads, df_wall_ms(df_clock_real()), keep_first, &first,
                               &report, err);
        df_audit_heads_release(&heads);
    }
    df_audit_use_keys(NULL);
    if (code == DF_OK && report.findings > 0)
        df_check_say(t->check, DF_HEALTH_PROBLEM, "audit log",
                     "after a restore by other tools: `dataflow audit restored --reason …`; then "
                     "`dataflow audit verify`",
                     "%" PRId64 " findings, such as %s at entry %" PRId64, report.findings,
                     first.kind ? first.kind : "?", first.sequence);
    else if (code == DF_OK)
        df_check_say(t->check, DF_HEALTH_OK, "audit log", NULL,
                     "%" PRId64 " entries, and nothing is missing or changed", report.entries);
    return code;
}

/* --- rows --- */

struct newest {
    int64_t entry_ms, batch_ms, tickets, deliveries, erasures, forgotten, fileless;
};

static void read_newest(void *arg, struct df_result *r)
{
    struct newest *n = arg;

    n->entry_ms = df_col_time(r, doctor_newest_LastEntry);
    n->batch_ms = df_col_time(r, doctor_newest_LastBatch);
    n->tickets = df_col_int(r, doctor_newest_Tickets);
    n->deliveries = df_col_int(r, doctor_newest_Deliveries);
    n->erasures = df_col_int(r, doctor_newest_Erasures);
}

static void read_forgotten(void *arg, struct df_result *r)
{
    struct newest *n = arg;

    n->forgotten = df_col_int(r, doctor_forgotten_Forgotten);
    n->fileless = df_col_int(r, doctor_forgotten_Fileless);
}

/* Lines of the ledger, which a restore leaves alone. */
static int64_t count_ledger(const char *data_dir)
{
    char path[4096];
    int64_t lines = 0;

    (void)snprintf(path, sizeof path, "%s/erasures", data_dir);
    FILE *f = fopen(path, "re");
    for (int ch; f && (ch = fgetc(f)) != EOF;)
        lines += ch == '\n';
    if (f)
        (void)fclose(f);
    return lines;
}

static enum df_code check_rows(const struct restored *t, struct df_err *err)
{
    struct newest n = {.entry_ms = -1};
    char time[DF_TIME_LEN + 1] = "never";
    enum df_code code = df_db_each(t->db, DF_Q0(doctor_newest), read_newest, &n, err);

    if (code == DF_OK)
        code = df_db_each(t->db, DF_Q0(doctor_forgotten), read_forgotten, &n, err);
    if (code != DF_OK)
        return code;
    if (n.entry_ms >= 0 || n.batch_ms >= 0)
        df_time_format(n.entry_ms > n.batch_ms ? n.entry_ms : n.batch_ms, time);
    df_check_say(t->check, DF_HEALTH_OK, "newest", NULL,
                 "the last entry or batch is of %s; %" PRId64 " tickets and %" PRId64
                 " deliveries wait",
                 time, n.tickets, n.deliveries);
    if (n.forgotten + n.fileless > 0)
        df_check_say(t->check, DF_HEALTH_PROBLEM, "rows",
                     "the database is not as a server leaves it: restore from another backup",
                     "%" PRId64 " documents wait and are due at no time, %" PRId64
                     " batches wait without the name of a file",
                     n.forgotten, n.fileless);
    int64_t again = count_ledger(df_check_settings(t->check)->data_dir) - n.erasures;
    if (again > 0)
        df_check_say(t->check, DF_HEALTH_WARNING, "erasures",
                     "start a server with the role maintain before anybody reads the database",
                     "%" PRId64 " persons were erased after this point: the server does it again",
                     again);
    return DF_OK;
}

/* --- all of it --- */

void df_check_restored(struct df_check *c)
{
    const struct df_settings *s = df_check_settings(c);
    const struct df_master_options master = {
        .settings = &s->keys, .data_dir = s->data_dir, .clock = df_clock_real(), .look_only = true};
    const struct df_db_options opt = {.url = s->store.url, .read_only = true, .existing = true};
    static struct restored t; /* one check at a time; a page of it is too much for a stack */
    struct df_err err = DF_ERR_INIT;

    t = (struct restored){.check = c};
    enum df_code code = df_db_open(&opt, &t.db, &err);
    if (code == DF_OK)
        code = df_data_keys_open(t.db, &master, &t.keys, &err);
    if (code == DF_OK)
        code = check_files(&t, &err);
    if (code == DF_OK)
        code = check_keys(&t, &err);
    if (code == DF_OK)
        code = check_audit(&t, &err);
    if (code == DF_OK)
        code = check_rows(&t, &err);
    if (code != DF_OK)
        df_check_say(c, DF_HEALTH_PROBLEM, "restored", "mend what it says, and look again", "%s",
                     err.detail);
    df_data_keys_release(&t.keys);
    df_db_close(t.db);
}

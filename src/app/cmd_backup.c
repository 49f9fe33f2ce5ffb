/* backup and restore: one file, or a place with points in time. */
#include "access/audit_heads.h"
#include "app/audited.h"
#include "app/cli.h"
#include "app/database.h"
#include "app/doctor.h"
#include "app/signals.h"
#include "backup/backups.h"
#include "backup/restore.h"
#include "base/arena.h"
#include "base/pool.h"
#include "keys/data_keys.h"
#include "store/backup.h"
#include "json/write.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define OUTPUT_MAX (64 << 20)
#define SLICE_MS   100
#define DAYS_MAX   36500
#define DAY_MS     (INT64_C(24) * 3600 * 1000)

static const char keep_the_key[] =
    "the master key is not in it, and without that it is of no use: keep the key too, apart from "
    "it (security.master_key, or data_dir/master.key)";

struct backup_call {
    struct df_settings settings;
    const char *to, *from, *every, *keep;
    bool watch, json;
};

/* --- the audit log --- */

/* Says what was done. The work itself is done: if the log cannot be written, as that of a database
 * that was not upgraded yet, that is said. */
static void tell_copy(const struct df_settings *s, const char *action, const char *outcome,
                      struct df_str file)
{
    struct df_err err = DF_ERR_INIT;
    struct df_db *db = NULL;
    enum df_code code = df_open_audited(s, false, &db, &err);

    if (code == DF_OK)
        code = df_tell_audit(db, action, outcome, file, DF_STR_NULL, &err);
    df_close_audited(s, db, true);
    if (code != DF_OK)
        df_log_warn("AuditFailed", "the audit log has no entry of it: %s", err.detail);
}

/* The head of the database that is about to be replaced; 0: it has none, or cannot be read. */
static int64_t head_before(const struct df_settings *s)
{
    const struct df_db_options opt = {.url = s->store.url, .read_only = true, .existing = true};
    struct df_audit_head head = {0};
    struct df_err err = DF_ERR_INIT;
    struct df_db *db = NULL;
    enum df_code code = df_db_open(&opt, &db, &err);

    if (code == DF_OK)
        code = df_audit_head_read(db, 0, &head, &err);
    df_db_close(db);
    return code == DF_OK ? head.sequence : 0;
}

static enum df_code tell_restore(const struct df_settings *s, int64_t replaced, const char *from,
                                 struct df_err *err)
{
    struct df_db *db = NULL;
    enum df_code code = df_open_audited(s, s->store.migrate, &db, err);

    if (code == DF_OK)
        code = df_tell_restored(s, db, replaced, df_str_c(from), err);
    df_close_audited(s, db, true);
    return code;
}

/* After the database was replaced, or was not. */
static void tell_outcome(const struct df_settings *s, enum df_code code, int64_t replaced,
                         const char *from)
{
    struct df_err why = DF_ERR_INIT;

    if (code == DF_OK && tell_restore(s, replaced, from, &why) != DF_OK)
        df_log_warn("AuditFailed",
                    "the audit log does not say that the database was restored: %s; say it with "
                    "`dataflow audit restored`",
                    why.detail);
    else if (code != DF_OK && code != DF_E_USAGE && replaced > 0)
        tell_copy(s, "RestoreFailed", "failed", df_str_c(from));
}

/* --- backup FILE --- */

static int copy_to_file(struct backup_call *c, const char *file)
{
    struct df_err err = DF_ERR_INIT;
    enum df_code code = df_backup(c->settings.store.url, file, &err);

    if (code != DF_E_USAGE)
        tell_copy(&c->settings, "BackupMade", code == DF_OK ? NULL : "failed", df_str_c(file));
    if (code == DF_OK)
        df_cli_complain(&df_cmd_backup, "%s", keep_the_key);
    return df_cli_result(&df_cmd_backup, code, &err);
}

/* --- backup --to --- */

static void add_figure(struct df_buf *out, int width, uint64_t n, const char *what)
{
    df_buf_addf(out, "%*llu ", width, (unsigned long long)n);
    df_cli_cell(out, what, 0);
}

static int print_made(const struct backup_call *c, const struct df_backup_made *m)
{
    char time[DF_TIME_LEN + 1];
    struct df_json_out j;
    struct df_buf out;

    df_buf_init(&out, 4096);
    df_time_format(m->name.time_ms, time);
    if (c->json) {
        df_json_out_init(&j, &out);
        df_json_open(&j, '{');
        df_json_kv_bool(&j, "made", m->made);
        df_json_kv_text(&j, "time", m->made ? df_str_c(time) : DF_STR_NULL);
        df_json_kv_text(&j, "generation", m->made ? df_str_c(m->name.generation) : DF_STR_NULL);
        df_json_kv_int(&j, "number", m->name.number);
        df_json_kv_int(&j, "pages", m->pages);
        df_json_kv_int(&j, "files", m->files);
        df_json_kv_int(&j, "bytes", (int64_t)m->bytes);
        df_json_kv_int(&j, "removed", m->removed);
        df_json_close(&j, '}');
        df_buf_addc(&out, '\n');
    } else if (m->made) {
        df_buf_addf(&out, "%s  ", time);
        df_cli_cell(&out, m->name.number == 0 ? "base" : "increment", 10);
        add_figure(&out, 8, m->pages, "pages");
        add_figure(&out, 7, m->files, "files");
        add_figure(&out, 13, m->bytes, "bytes");
        df_buf_addc(&out, '\n');
    } else {
        df_cli_say(&out, "nothing has changed since the last point\n");
    }
    return df_cli_print(&out);
}

static void tell_made(struct df_db *db, const char *to, const struct df_backup_made *m)
{
    struct df_err err = DF_ERR_INIT;
    char name[DF_POINT_NAME_MAX], details[DF_POINT_NAME_MAX + 32];

    df_point_name_write(&m->name, name);
    (void)snprintf(details, sizeof details, "{\"point\":\"%s\"}", name);
    if (df_tell_audit(db, "BackupMade", NULL, df_str_c(to), df_str_c(details), &err) != DF_OK)
        df_log_warn("AuditFailed", "the audit log has no entry of it: %s", err.detail);
}

static void wait_for_next(int64_t ms)
{
    int64_t until_ms = df_mono_ms(df_clock_real()) + ms;

    while (!df_signals_end_is_due() && df_mono_ms(df_clock_real()) < until_ms)
        df_sleep_ms(SLICE_MS);
}

/* Points until the program is to end. What fails for now is tried again; entries are of bases only,
 * since an entry is a change. */
static enum df_code watch_changes(struct backup_call *c, struct df_backups *b, struct df_db *db,
                                  int64_t every_ms, struct df_err *err)
{
    struct df_backup_made made;

    while (!df_signals_end_is_due()) {
        enum df_code code = df_backups_turn(b, &made, err);
        if (code == DF_E_CANCELLED)
            break; /* the program is to end */
        if (code != DF_OK && df_code_retry(code) == DF_RETRY_NEVER)
            return code;
        if (code != DF_OK)
            df_log_error("BackupFailed", "%s: %s", c->to, err->detail);
        else if (made.made && print_made(c, &made) != DF_EXIT_OK)
            return df_err_set(err, DF_E_IO, "standard output is closed");
        if (code == DF_OK && made.made && made.name.number == 0)
            tell_made(db, c->to, &made);
        wait_for_next(every_ms);
    }
    return DF_OK;
}

/* Ends a turn that takes long when the program is to end. */
struct end_watch {
    struct df_thread thread;
    struct df_backups *backups;
    _Atomic bool over;
};

static void cancel_at_end(void *arg)
{
    struct end_watch *w = arg;

    while (!atomic_load(&w->over) && !df_signals_end_is_due())
        df_sleep_ms(SLICE_MS);
    df_backups_cancel(w->backups);
}

static enum df_code watch_until_end(struct backup_call *c, struct df_backups *b, struct df_db *db,
                                    int64_t every_ms, struct df_err *err)
{
    struct end_watch w = {.backups = b};

    df_thread_start(&w.thread, "backup-end", cancel_at_end, &w);
    enum df_code code = watch_changes(c, b, db, every_ms, err);
    atomic_store(&w.over, true);
    df_thread_join(&w.thread);
    return code;
}

static enum df_code back_up_once(struct backup_call *c, struct df_backups *b, struct df_db *db,
                                 struct df_err *err)
{
    struct df_backup_made made;
    enum df_code code = df_backups_turn(b, &made, err);

    if (code == DF_OK && made.made)
        tell_made(db, c->to, &made);
    if (code == DF_OK && print_made(c, &made) != DF_EXIT_OK)
        code = df_err_set(err, DF_E_IO, "standard output is closed");
    return code;
}

static int back_up_to(struct backup_call *c)
{
    const struct df_settings *s = &c->settings;
    int64_t every = s->backup.every_ms / 1000, keep = s->backup.keep_ms / DAY_MS;
    struct df_err err = DF_ERR_INIT;
    struct df_backups *b = NULL;
    struct df_db *db = NULL;

    if (!df_cli_int(&df_cmd_backup, "every", c->every, 1, 86400, &every) ||
        !df_cli_int(&df_cmd_backup, "keep", c->keep, 0, DAYS_MAX, &keep))
        return DF_EXIT_USAGE;
    if (c->watch)
        df_signals_block();
    enum df_code code = df_open_audited(s, false, &db, &err);
    const struct df_backups_options opt = {.url = s->store.url,
                                           .data_dir = s->data_dir,
                                           .to = c->to,
                                           .setting = "--to",
                                           .s3 = &s->storage.s3,
                                           .master = df_audited_keys()->master,
                                           .clock = df_clock_real(),
                                           .keep_ms = keep * DAY_MS};
    if (code == DF_OK)
        code = df_backups_open(&opt, &b, &err);
    if (code == DF_OK) {
        df_cli_complain(&df_cmd_backup, "%s", keep_the_key);
        code =
            c->watch ? watch_until_end(c, b, db, every * 1000, &err) : back_up_once(c, b, db, &err);
    }
    df_backups_close(b);
    df_close_audited(s, db, true);
    if (code != DF_OK && code != DF_E_USAGE && code != DF_E_BUSY && code != DF_E_DB_UNAVAILABLE)
        tell_copy(s, "BackupMade", "failed", df_str_c(c->to));
    return df_cli_result(&df_cmd_backup, code, &err);
}

/* --- backup list --- */

static void add_point(const struct df_point_object *o, struct df_json_out *j, struct df_buf *out)
{
    char time[DF_TIME_LEN + 1];

    df_time_format(o->point.time_ms, time);
    if (!j) {
        df_buf_addf(out, "%s  ", time);
        df_cli_cell(out, o->point.number == 0 ? "base" : "increment", 10);
        add_figure(out, 12, o->size, "bytes");
        df_buf_addf(out, "  %s\n", o->point.generation);
        return;
    }
    df_json_open(j, '{');
    df_json_kv_text(j, "time", df_str_c(time));
    df_json_kv_text(j, "generation", df_str_c(o->point.generation));
    df_json_kv_int(j, "number", o->point.number);
    df_json_kv_int(j, "bytes", (int64_t)o->size);
    df_json_close(j, '}');
}

static int list_points(struct backup_call *c)
{
    struct df_err err = DF_ERR_INIT;
    struct df_depot *place = NULL;
    struct df_points p = {.count = 0};
    struct df_json_out j;
    struct df_buf out;
    enum df_code code = df_depot_open(c->from, "--from", &c->settings.storage.s3, df_clock_real(),
                                      false, &place, &err);

    if (code == DF_OK)
        code = df_points_list(place, &p, &err);
    df_buf_init(&out, OUTPUT_MAX);
    df_json_out_init(&j, &out);
    if (c->json)
        df_json_open(&j, '[');
    for (size_t i = 0; i < p.count; i++)
        if (df_points_is_whole(&p, i))
            add_point(&p.items[i], c->json ? &j : NULL, &out);
    if (c->json) {
        df_json_close(&j, ']');
        df_buf_addc(&out, '\n');
    }
    df_points_release(&p);
    df_depot_close(place);
    if (code == DF_OK)
        return df_cli_print(&out);
    df_buf_release(&out);
    return df_cli_result(&df_cmd_backup, code, &err);
}

static int run_backup(int argc, char **argv)
{
    struct backup_call c = {.to = NULL};
    const struct df_option options[] = {
        {.name = "to", .kind = DF_OPT_VALUE, .value = &c.to},
        {.name = "from", .kind = DF_OPT_VALUE, .value = &c.from},
        {.name = "every", .kind = DF_OPT_VALUE, .value = &c.every},
        {.name = "keep", .kind = DF_OPT_VALUE, .value = &c.keep},
        {.name = "watch", .kind = DF_OPT_FLAG, .flag = &c.watch},
        {.name = "json", .kind = DF_OPT_FLAG, .flag = &c.json},
    };
    struct df_cli_config config = {0};
    int operands = df_cli_parse(&df_cmd_backup, argc, argv, options,
                                sizeof options / sizeof options[0], &config);

    if (operands < 0)
        return DF_EXIT_USAGE;
    bool named = operands == 1 && strcmp(argv[0], "list") == 0;
    bool listing = named && c.from && !c.to, series = operands == 0 && c.to && !c.from;
    bool copying = operands == 1 && !named && !c.to && !c.from && !c.json;
    bool timed = c.watch || c.every || c.keep;
    if ((!listing && !series && !copying) || (timed && !series) || (c.every && !c.watch)) {
        df_cli_complain(&df_cmd_backup, "usage: dataflow backup %s", df_cmd_backup.usage);
        return DF_EXIT_USAGE;
    }
    if (!df_cli_settings(&config, &c.settings))
        return DF_EXIT_USAGE;
    df_log_init(DF_LOG_WARN, DF_LOG_AUTO, df_clock_real());
    int status = listing ? list_points(&c) : series ? back_up_to(&c) : copy_to_file(&c, argv[0]);
    df_settings_release(&c.settings);
    return status;
}

/* --- restore --- */

struct restore_call {
    struct df_settings settings;
    const char *from, *at, *to;
    int64_t at_ms;
    bool force, json;
};

static int restore_file(struct restore_call *c, const char *file)
{
    struct df_err err = DF_ERR_INIT;
    int64_t replaced = head_before(&c->settings);
    enum df_code code = df_restore(c->settings.store.url, file, &err);

    tell_outcome(&c->settings, code, replaced, file);
    return df_cli_result(&df_cmd_restore, code, &err);
}

/* The masters that the settings name, and the host's own. A vault that is away is an error only if
 * none of the others serves. */
static enum df_code open_masters(const struct df_settings *s, struct df_parcel_opener *o,
                                 struct df_err *err)
{
    const struct df_master_options opt = {
        .settings = &s->keys, .data_dir = s->data_dir, .clock = df_clock_real(), .look_only = true};
    const struct df_secret *named[] = {s->keys.master_key, s->keys.master_old_key};
    static const char *const settings[] = {"security.master_key", "security.master_old_key"};
    enum df_code code = DF_OK;

    for (size_t i = 0; i < 2 && code == DF_OK; i++)
        if (named[i])
            code = df_master_open(&opt, df_secret_str(named[i]), settings[i], &o->masters[i], err);
    return code == DF_OK ? df_master_own(&opt, false, &o->masters[2], err) : code;
}

static enum df_code refuse_existing(const struct restore_call *c, struct df_err *err)
{
    const char *path = c->settings.store.url + strlen("sqlite:");
    enum df_dialect dialect;
    enum df_code code = df_db_dialect_of(c->settings.store.url, &dialect, err);

    if (code != DF_OK)
        return code;
    if (dialect != DF_SQLITE)
        return df_err_set(err, DF_E_USAGE,
                          "restore is for the embedded database; docs/runbooks/restore.md has the "
                          "ways of PostgreSQL and SQL Server");
    if (!c->force && access(path, F_OK) == 0)
        return df_err_set(err, DF_E_USAGE,
                          "%s exists: restore to another directory with --to, or replace its "
                          "content with --force",
                          path);
    return DF_OK;
}

/* On standard error, so that standard output has the check alone. */
static void say_restored(const struct df_restored *r)
{
    char time[DF_TIME_LEN + 1];

    df_time_format(r->point.time_ms, time);
    df_cli_complain(&df_cmd_restore,
                    "restored to %s: %u pages from %u points, %u files%s. What was delivered after "
                    "that is sent again.",
                    time, (unsigned)r->page_count, (unsigned)r->points, (unsigned)r->files,
                    r->files_lost ? "; FILES ARE MISSING, see below" : "");
}

static int restore_place(struct restore_call *c)
{
    const struct df_settings *s = &c->settings;
    struct df_parcel_opener opener = {.last.key = NULL};
    struct df_restored done;
    struct df_err err = DF_ERR_INIT;
    enum df_code code = refuse_existing(c, &err);
    int64_t replaced = 0;

    if (code == DF_OK)
        code = df_make_dirs(s->data_dir, &err);
    if (code == DF_OK)
        code = open_masters(s, &opener, &err);
    if (code == DF_OK) {
        replaced = head_before(s);
        code = df_restore_point(&(struct df_restore_options){.url = s->store.url,
                                                             .data_dir = s->data_dir,
                                                             .from = c->from,
                                                             .s3 = &s->storage.s3,
                                                             .clock = df_clock_real(),
                                                             .opener = &opener,
                                                             .at_ms = c->at_ms},
                                &done, &err);
    }
    df_parcel_key_release(&opener.last);
    for (size_t i = 0; i < DF_PARCEL_MASTERS; i++)
        df_master_free(opener.masters[i]);
    tell_outcome(s, code, replaced, c->from);
    if (code != DF_OK)
        return df_cli_result(&df_cmd_restore, code, &err);
    say_restored(&done);
    return df_doctor_after_restore(s, c->json);
}

/* --to is two settings. */
static bool load_settings(struct restore_call *c, struct df_cli_config *config)
{
    struct df_arena arena = {0};
    bool ok = true;

    if (c->to && config->set_count + 2 > DF_CLI_SETS_MAX) {
        df_cli_complain(&df_cmd_restore, "too many --set");
        return false;
    }
    if (c->to) {
        config->sets[config->set_count++] =
            df_arena_printf(&arena, "server.data_dir=%s", c->to).ptr;
        config->sets[config->set_count++] =
            df_arena_printf(&arena, "database.url=sqlite:%s/dataflow.db", c->to).ptr;
    }
    ok = df_cli_settings(config, &c->settings);
    df_arena_release(&arena);
    return ok;
}

static int run_restore(int argc, char **argv)
{
    struct restore_call c = {.at_ms = INT64_MAX};
    const struct df_option options[] = {
        {.name = "from", .kind = DF_OPT_VALUE, .value = &c.from},
        {.name = "at", .kind = DF_OPT_VALUE, .value = &c.at},
        {.name = "to", .kind = DF_OPT_VALUE, .value = &c.to},
        {.name = "force", .kind = DF_OPT_FLAG, .flag = &c.force},
        {.name = "json", .kind = DF_OPT_FLAG, .flag = &c.json},
    };
    struct df_cli_config config = {0};
    int operands = df_cli_parse(&df_cmd_restore, argc, argv, options,
                                sizeof options / sizeof options[0], &config);

    if (operands < 0)
        return DF_EXIT_USAGE;
    bool place = operands == 0 && c.from;
    if (!place && (operands != 1 || c.from || c.at || c.to || c.force || c.json)) {
        df_cli_complain(&df_cmd_restore, "usage: dataflow restore %s", df_cmd_restore.usage);
        return DF_EXIT_USAGE;
    }
    if (c.at && strcmp(c.at, "latest") != 0 && !df_time_parse(df_str_c(c.at), &c.at_ms)) {
        df_cli_complain(&df_cmd_restore, "--at is a time like 2026-11-15T00:00:00Z, or latest");
        return DF_EXIT_USAGE;
    }
    if (!load_settings(&c, &config))
        return DF_EXIT_USAGE;
    df_log_init(DF_LOG_WARN, DF_LOG_AUTO, df_clock_real());
    int status = place ? restore_place(&c) : restore_file(&c, argv[0]);
    df_settings_release(&c.settings);
    return status;
}

const struct df_command df_cmd_backup = {
    .name = "backup",
    .usage = "FILE | --to PLACE [--watch [--every SECONDS]] [--keep DAYS] [--json] | list --from "
             "PLACE [--json]",
    .summary = "back up the embedded database, and the files that wait, while the server runs",
    .help =
        "FILE is one copy of the database; it appears whole or not at all and is never\n"
        "overwritten. With --to, PLACE (a directory or s3://bucket/prefix, with the keys of\n"
        "[s3]) gets points in time: a base once a day, and between them what changed, encrypted\n"
        "under the master key; --watch goes on until SIGTERM. A server does the same by itself\n"
        "with [backup] to. list shows the times to which it can be restored.\n"
        "The master key is in none of them: keep it apart. PostgreSQL and SQL Server have their\n"
        "own tools.",
    .run = run_backup,
};

const struct df_command df_cmd_restore = {
    .name = "restore",
    .usage = "FILE | --from PLACE [--at TIME|latest] [--to DIRECTORY] [--force] [--json]",
    .summary = "restore the embedded database from a backup, to a point in time",
    .help =
        "A FILE is checked first; nothing changes when it is damaged or is no DataFlow backup.\n"
        "With --from, everything is fetched and verified before anything is changed; a database\n"
        "that is there stays unless --force is given. It ends with the check of\n"
        "`doctor --after-restore`, which says what is missing: exit status 1 if anything is.",
    .run = run_restore,
};

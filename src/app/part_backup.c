/* The server's own backups of the embedded database ([backup]), on a thread of their own: a bucket
 * may be slow. */
#include "access/audit.h"
#include "app/app.h"
#include "backup/backups.h"
#include "base/log.h"
#include "base/metrics.h"

#define FAILED_MIN_MS 5000
#define FAILED_MAX_MS 60000

DF_METRIC_FAMILY(last_success) = {
    .name = "dataflow_backup_last_success_timestamp_seconds",
    .help = "When the server last had everything in its own backup; 0: not since the "
            "start.",
    .type = DF_GAUGE,
};
DF_METRIC_FAMILY(points_total) = {
    .name = "dataflow_backup_points_total",
    .help = "Points in time that were backed up: base, increment.",
    .type = DF_COUNTER,
    .labels = {"kind"},
};
DF_METRIC_FAMILY(bytes_total) = {
    .name = "dataflow_backup_bytes_total",
    .help = "Bytes put to the place of backups.",
    .type = DF_COUNTER,
};
DF_METRIC_FAMILY(failures_total) = {
    .name = "dataflow_backup_failures_total",
    .help = "Turns of the backup that failed.",
    .type = DF_COUNTER,
};

struct told {
    struct df_job job;
    const struct df_app *app;
};

static enum df_code write_entry(struct df_db *db, struct df_job *job, struct df_err *err)
{
    const struct df_app *app = ((const struct told *)job)->app;
    const struct df_actor by = {.name = DF_STR("server")};

    return df_audit_write(db, &by, "BackupMade", df_str_c(app->settings->backup.to), DF_STR_NULL,
                          DF_STR_NULL, df_wall_ms(app->access.clock), err);
}

/* Of a base only. An entry is a change, and one for each point would make the next one. */
static void tell_base(struct df_app *app, const struct df_backup_made *made)
{
    struct told t = {.job.run = write_entry, .app = app};
    struct df_err err = DF_ERR_INIT;

    df_log_info("BackupBaseMade", "%s: %u pages, %u files", app->settings->backup.to,
                (unsigned)made->pages, (unsigned)made->files);
    if (df_store_write_wait(app->access.store, &t.job, &err) != DF_OK)
        df_log_warn("AuditFailed", "the audit log has no entry of a backup: %s", err.detail);
}

static int64_t back_up(void *arg)
{
    struct df_app *app = arg;
    struct df_backup_made made = {.made = false};
    struct df_err err = DF_ERR_INIT;
    enum df_code code = df_backups_turn(app->backups, &made, &err);

    df_metric_add(df_metric_get(&bytes_total, NULL), (double)made.bytes);
    if (code != DF_OK) {
        if (code != DF_E_CANCELLED)
            df_log_error("BackupFailed", "%s: %s", app->settings->backup.to, err.detail);
        df_metric_add(df_metric_get(&failures_total, NULL), 1);
        return DF_LOOP_FAILED;
    }
    df_metric_set(df_metric_get(&last_success, NULL), (double)df_wall_ms(app->access.clock) / 1000);
    if (made.made) {
        struct df_str kind = made.name.number == 0 ? DF_STR("base") : DF_STR("increment");
        df_metric_add(df_metric_get(&points_total, &kind), 1);
    }
    if (made.made && made.name.number == 0)
        tell_base(app, &made);
    return app->settings->backup.every_ms;
}

static enum df_code start_backup(struct df_app *app, struct df_err *err)
{
    const struct df_settings *s = app->settings;

    if (!s->backup.to)
        return DF_OK;
    df_metric_set(df_metric_get(&last_success, NULL), 0);
    enum df_code code = df_backups_open(&(struct df_backups_options){.url = s->store.url,
                                                                     .data_dir = s->data_dir,
                                                                     .to = s->backup.to,
                                                                     .setting = "backup.to",
                                                                     .s3 = &s->storage.s3,
                                                                     .master = app->keys.master,
                                                                     .clock = app->access.clock,
                                                                     .keep_ms = s->backup.keep_ms},
                                        &app->backups, err);
    if (code == DF_OK)
        df_loop_start(&app->backup_loop, &(struct df_loop_options){.name = "backup",
                                                                   .clock = app->access.clock,
                                                                   .backoff_min_ms = FAILED_MIN_MS,
                                                                   .backoff_max_ms = FAILED_MAX_MS,
                                                                   .turn = back_up,
                                                                   .arg = app});
    return code;
}

static void stop_backup(struct df_app *app, int64_t deadline_ms)
{
    (void)deadline_ms;
    if (app->backups)
        df_backups_cancel(app->backups);
    df_loop_stop(&app->backup_loop);
}

static void free_backup(struct df_app *app)
{
    df_loop_release(&app->backup_loop);
    df_backups_close(app->backups);
}

const struct df_part df_part_backup = {
    .roles = DF_ROLE_MAINTAIN, .start = start_backup, .stop = stop_backup, .free = free_backup};

/* Housekeeping, by the role `maintain`: frees locks that are not renewed, and removes files of
 * batches that are over and of processes that are gone. */
#include "imports/process/process.sql.h"
#include "imports/process/process_private.h"

#include <stdio.h>

/* A directory without a batch may belong to an upload that is being committed. */
#define ORPHAN_AGE_MS (INT64_C(3600) * 1000)

struct watchdog {
    struct df_job job;
    struct df_imports *i;
    int64_t freed;
};

static enum df_code run_watchdog(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct watchdog *w = (struct watchdog *)job;
    int64_t now_ms = df_wall_ms(w->i->opt.clock);
    struct df_value before = df_time(now_ms - w->i->opt.settings.lock_timeout_ms);
    int64_t lock = 0;

    enum df_code code = df_db_exec(
        db, DF_Q(watchdog_batches, .now = df_time(now_ms), .before = before), &w->freed, err);
    if (code == DF_OK)
        code = df_db_exec(db, DF_Q(watchdog_lock, .locked = df_bool(false), .before = before),
                          &lock, err);
    w->freed += code == DF_OK && w->freed == 0 ? lock : 0;
    return code;
}

struct keeper {
    struct df_job job;
    struct df_imports *i;
    struct df_uuid batch;
    bool known;
    int64_t status;
    char location[DF_STORAGE_LOCATION_MAX + 1];
};

static void read_kept_batch(void *arg, struct df_result *r)
{
    struct keeper *k = arg;

    k->status = df_col_int(r, housekeeping_batch_Status);
    (void)snprintf(k->location, sizeof(k->location), DF_STR_FMT,
                   DF_STR_ARG(df_col_text(r, housekeeping_batch_UploadPath)));
}

static enum df_code run_keeper(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct keeper *k = (struct keeper *)job;

    return df_db_one(db, DF_Q(housekeeping_batch, .id = df_uuid(df_uuid_str(&k->batch))),
                     read_kept_batch, k, &k->known, err);
}

/* Removes a directory whose batch is over, or that has no batch and was not written to for long. */
static void sweep_directory(void *arg, const struct df_storage_entry *e)
{
    struct df_imports *i = arg;
    struct keeper k = {.job = {.run = run_keeper}, .i = i, .batch = e->batch};
    struct df_err err = DF_ERR_INIT;

    if (df_store_read_wait(i->opt.store, &k.job, &err) != DF_OK)
        return;
    if (k.known ? !df_batch_is_over(k.status) : e->age_ms < ORPHAN_AGE_MS)
        return;
    struct df_log_field fields[] = {DF_F("batchId", df_uuid_str(&e->batch)),
                                    DF_FI("bytes", e->size_bytes)};
    if (df_storage_remove(i->opt.storage, &e->batch, k.location, &err) == DF_OK)
        df_log_write(DF_LOG_INFO, "OrphanRemoved", fields, 2,
                     k.known ? "its batch is over" : "it has no batch");
    else
        df_log_write(DF_LOG_WARN, "FileNotRemoved", fields, 2, "%s", err.detail);
}

void df_imports_maintain(struct df_imports *i)
{
    struct watchdog w = {.job = {.run = run_watchdog}, .i = i};
    struct df_err err = DF_ERR_INIT;

    if (df_store_write_wait(i->opt.store, &w.job, &err) != DF_OK) {
        df_log_warn("WatchdogFailed", "%s", err.detail);
    } else if (w.freed > 0) {
        df_log_warn("BatchLockFreed", "a lock that was not renewed was freed");
        df_imports_wake(i);
    }
    if (df_storage_each(i->opt.storage, sweep_directory, i, &err) != DF_OK)
        df_log_warn("StorageUnreadable", "%s", err.detail);
    import_instances_sweep(i);
}

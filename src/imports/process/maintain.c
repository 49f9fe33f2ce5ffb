/* Housekeeping: frees locks that are not renewed, and removes what is left on the disk of batches
 * that are over and of processes that are gone. sweep.c does the same in the outside storage. */
#include "base/loop.h"
#include "base/metrics.h"
#include "imports/announce.h"
#include "imports/process/process.sql.h"
#include "imports/process/process_private.h"
#include "store/rows.h"

#include <stdio.h>

/* A directory without a batch may belong to an upload that is being committed; a copy of an object
 * may be of use if its batch is taken up again. */
#define ORPHAN_AGE_MS (INT64_C(3600) * 1000)

/* Of a step of expiry. */
#define EXPIRY_ROWS    500
#define EXPIRY_BYTES   (INT64_C(1) << 20)
#define EXPIRY_LOOK_MS 10000 /* whether a batch is due */
#define EXPIRY_REST_MS 10

DF_METRIC_FAMILY(items_expired) = {
    .name = "dataflow_items_expired_total",
    .help = "Failed records of imports that were removed when their time was over.",
    .type = DF_COUNTER,
};

DF_METRIC_FAMILY(orphans_removed) = {
    .name = "dataflow_orphans_removed_total",
    .help = "Left-overs that housekeeping removed: directory, object, upload "
            "(unfinished, in parts).",
    .type = DF_COUNTER,
    .labels = {"kind"},
};

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

    enum df_code code = import_forget_announced(db, w->i, err);
    if (code == DF_OK)
        code = import_announce_stale(db, w->i, before, err);
    if (code == DF_OK)
        code = df_db_exec(db, DF_Q(watchdog_batches, .now = df_time(now_ms), .before = before),
                          &w->freed, err);
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

/* Why a directory may go; NULL: it stays. A batch in work is left alone, whoever works on it: the
 * copy of an object goes with its end. */
static const char *reason_to_remove(const struct keeper *k, const struct df_storage_entry *e)
{
    if (k->known && df_batch_is_over(k->status))
        return "its batch is over";
    if (e->age_ms < ORPHAN_AGE_MS)
        return NULL;
    if (!k->known)
        return "it has no batch";
    return k->status != DF_BATCH_PROCESSING && df_storage_is_outside(k->location)
               ? "it is a copy that is not used"
               : NULL;
}

static void sweep_directory(void *arg, const struct df_storage_entry *e)
{
    struct df_imports *i = arg;
    struct keeper k = {.job = {.run = run_keeper}, .i = i, .batch = e->batch};
    struct df_err err = DF_ERR_INIT;

    if (df_store_read_wait(i->opt.store, &k.job, &err) != DF_OK)
        return;
    const char *why = reason_to_remove(&k, e);
    if (!why)
        return;
    bool over = k.known && df_batch_is_over(k.status);
    struct df_log_field fields[] = {DF_F("batchId", df_uuid_str(&e->batch)),
                                    DF_FI("bytes", e->size_bytes)};
    if (df_storage_remove(i->opt.storage, &e->batch, over ? k.location : NULL, &err) == DF_OK) {
        import_count_orphan("directory");
        df_log_write(DF_LOG_INFO, "OrphanRemoved", fields, 2, "%s", why);
    } else {
        df_log_write(DF_LOG_WARN, "FileNotRemoved", fields, 2, "%s", err.detail);
    }
}

void import_maintain_register(void)
{
    df_metric_register(&items_expired);
    df_metric_register(&orphans_removed);
}

void import_count_orphan(const char *kind)
{
    struct df_str label = df_str_c(kind);

    df_metric_add(df_metric_get(&orphans_removed, &label), 1);
}

/* --- failed records whose time is over --- */

struct expiry {
    struct df_job job;
    struct df_imports *i;
    struct df_uuid batch;
    bool found;
    int64_t removed;
};

static void read_due_batch(void *arg, struct df_result *r)
{
    struct expiry *e = arg;
    struct df_str id = df_col_text(r, kept_due_Id);

    (void)snprintf(e->batch.text, sizeof(e->batch.text), DF_STR_FMT, DF_STR_ARG(id));
}

/* A step: a few rows of a batch that is due, or the end of it. Done twice it ends the same. */
static enum df_code run_expiry(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct expiry *e = (struct expiry *)job;
    struct df_value now = df_time(df_wall_ms(e->i->opt.clock)), id;
    int64_t last = -1, rows = 0;

    e->removed = 0;
    enum df_code code =
        df_db_one(db, DF_Q(kept_due, .now = now), read_due_batch, e, &e->found, err);
    if (code != DF_OK || !e->found)
        return code;
    id = df_uuid(df_uuid_str(&e->batch));
    code = df_rows_fit(db, DF_Q(kept_sizes, .id = id, .limit = df_int(EXPIRY_ROWS)), EXPIRY_BYTES,
                       &rows, err);
    if (code == DF_OK)
        code = df_db_query_int(db, DF_Q(kept_last, .id = id, .limit = df_int(rows)), &last, err);
    if (code != DF_OK)
        return code;
    if (last < 0)
        return df_db_exec(db, DF_Q(kept_over, .id = id, .now = now), NULL, err);
    return df_db_exec(db, DF_Q(kept_delete, .id = id, .until = df_int(last), .now = now),
                      &e->removed, err);
}

int64_t df_imports_expire_turn(struct df_imports *i)
{
    struct expiry e = {.job = {.run = run_expiry}, .i = i};
    struct df_err err = DF_ERR_INIT;
    int64_t begun_ms = df_mono_ms(df_clock_real());

    if (df_store_write_wait(i->opt.store, &e.job, &err) != DF_OK) {
        df_log_warn("ExpiryFailed", "%s", err.detail);
        return DF_LOOP_FAILED;
    }
    if (!e.found)
        return EXPIRY_LOOK_MS;
    i->expired += e.removed;
    df_metric_add(df_metric_get(&items_expired, NULL), (double)e.removed);
    if (e.removed == 0 && i->expired > 0) { /* the end of a batch */
        struct df_log_field said[] = {DF_FI("records", i->expired)};
        df_log_write(DF_LOG_INFO, "PayloadsExpired", said, 1, "failed records were removed");
        i->expired = 0;
    }
    int64_t took_ms = df_mono_ms(df_clock_real()) - begun_ms;
    return took_ms > EXPIRY_REST_MS ? took_ms : EXPIRY_REST_MS;
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
    import_instances_sweep(i);
}

void df_imports_sweep_disk(struct df_imports *i)
{
    struct df_err err = DF_ERR_INIT;

    if (df_storage_each(i->opt.storage, sweep_directory, i, &err) != DF_OK)
        df_log_warn("StorageUnreadable", "%s", err.detail);
}

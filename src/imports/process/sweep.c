/*
 * The sweep of the outside storage, by the role `maintain`, every hour: what a crash, or a storage
 * that was away, has left there. The listing is read page by page, one page a turn. An entry that
 * is older than any upload can be goes if its batch is over, or if it has no batch and is ours
 * (df_storage_remove_found). A page costs one request and one job of the store, and each entry that
 * goes two or three requests.
 */
#include "base/loop.h"
#include "base/mem.h"
#include "imports/process/process.sql.h"
#include "imports/process/process_private.h"

#include <assert.h>
#include <stdlib.h>

#define SWEEP_MS      (INT64_C(3600) * 1000)
#define FAILED_MS     (INT64_C(300) * 1000)
#define PAGE_REST_MS  1000
#define ORPHAN_AGE_MS (DF_UPLOAD_LONGEST_MS + INT64_C(3600) * 1000)

struct leftover {
    struct df_storage_found found;
    bool known; /* it has a batch */
    int64_t status;
};

struct sweep_page {
    struct df_job job;
    struct leftover *at;
    size_t count;
};

static void read_swept_batch(void *arg, struct df_result *r)
{
    ((struct leftover *)arg)->status = df_col_int(r, housekeeping_batch_Status);
}

static enum df_code run_page(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct sweep_page *p = (struct sweep_page *)job;
    enum df_code code = DF_OK;

    for (size_t k = 0; k < p->count && code == DF_OK; k++) {
        struct leftover *l = &p->at[k];
        code = df_db_one(db, DF_Q(housekeeping_batch, .id = df_uuid(df_uuid_str(&l->found.batch))),
                         read_swept_batch, l, &l->known, err);
    }
    return code;
}

static void add_leftover(void *arg, const struct df_storage_found *f)
{
    struct sweep_page *p = arg;

    assert(p->count <= DF_STORAGE_PAGE);
    if (f->age_ms >= ORPHAN_AGE_MS && p->count < DF_STORAGE_PAGE)
        p->at[p->count++].found = *f;
}

static void remove_leftover(struct df_imports *i, const struct leftover *l)
{
    const struct df_storage_found *f = &l->found;
    bool parts = f->upload_id[0] != '\0', ours = true;
    struct df_err err = DF_ERR_INIT;
    struct df_log_field fields[] = {DF_F("batchId", df_uuid_str(&f->batch)),
                                    DF_F("location", df_str_c(f->location)),
                                    DF_FI("bytes", f->size_bytes)};
    enum df_code code = l->known && !parts
                            ? df_storage_remove_object(i->opt.storage, &f->batch, f->location, &err)
                            : df_storage_remove_found(i->opt.storage, f, &ours, &err);

    if (code != DF_OK) {
        df_log_write(DF_LOG_WARN, "FileNotRemoved", fields, 3, "%s", err.detail);
    } else if (!ours) {
        i->sweep.foreign++;
    } else {
        import_count_orphan(parts ? "upload" : "object");
        df_log_write(DF_LOG_INFO, "OrphanRemoved", fields, 3, "%s",
                     parts      ? "the upload was not finished"
                     : l->known ? "its batch is over"
                                : "it has no batch");
    }
}

static enum df_code sweep_next_page(struct df_imports *i, struct df_err *err)
{
    struct sweep_page page = {.job = {.run = run_page}};

    page.at = df_calloc(DF_STORAGE_PAGE, sizeof(*page.at));
    enum df_code code = df_storage_list(i->opt.storage, &i->sweep.at, add_leftover, &page, err);
    if (code == DF_OK && page.count > 0)
        code = df_store_read_wait(i->opt.store, &page.job, err);
    for (size_t k = 0; k < page.count && code == DF_OK; k++)
        if (!page.at[k].known || df_batch_is_over(page.at[k].status))
            remove_leftover(i, &page.at[k]);
    free(page.at);
    return code;
}

int64_t df_imports_sweep_turn(struct df_imports *i)
{
    struct df_err err = DF_ERR_INIT;

    if (!df_storage_is_swept(i->opt.storage))
        return DF_LOOP_IDLE;
    enum df_code code = sweep_next_page(i, &err);
    if (code != DF_OK && code != DF_E_CANCELLED)
        df_log_warn("SweepFailed", "%s", err.detail);
    if (code == DF_OK && i->sweep.at.stage != DF_STORAGE_LISTED)
        return PAGE_REST_MS;
    if (i->sweep.foreign > 0)
        df_log_warn("ForeignObjects",
                    "%zu objects in the bucket are old and have no batch, but are not under this "
                    "server's keys; they stay",
                    i->sweep.foreign);
    i->sweep = (struct import_sweep){.foreign = 0};
    return code == DF_OK ? SWEEP_MS : FAILED_MS;
}

/*
 * The receiver's threads wait for the disk and the commit, or for the outside storage. The latter
 * have threads of their own, so that a slow network does not hold up uploads to the disk.
 */
#include "imports/receive/receive_private.h"

#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>

#define QUEUE_SIZE 1024

/* False: the pool's queue is full or closed. */
static bool queue_upload(struct df_receive *up, struct df_pool *to, void (*run)(void *arg))
{
    up->task = (struct df_receive_task){run, up};
    return df_pool_push(to, &up->task);
}

/* The last step: commits the row, and answers. */
static void commit_and_answer(struct df_receive *up, enum df_code code, struct df_err *err)
{
    if (code == DF_OK)
        code = df_receive_commit(up, err);
    if (code == DF_OK)
        df_receive_accept(up);
    else if (code == DF_E_DB_UNIQUE)
        df_receive_answer_again(up);
    else
        df_receive_reject(up, err);
    df_log_ctx_use(NULL);
    df_work_end(up->work);
}

static void log_decision(const struct df_receive *up)
{
    static const char *const names[] = {
        [DF_FILE_JSON] = "JSON", [DF_FILE_EXCEL] = "Excel", [DF_FILE_CSV] = "CSV"};
    struct df_log_field validated[] = {DF_F("fileType", df_str_c(names[up->type])),
                                       DF_FI("sizeBytes", up->size_bytes)};
    char when[DF_TIME_LEN + 1];

    df_log_write(DF_LOG_INFO, "UploadValidated", validated, 2, "%s", "");
    if (!up->decision.scheduled)
        return;
    df_time_format(up->decision.scheduled_for_ms, when);
    struct df_log_field deferred[] = {DF_F("rule", df_str_c(up->decision.rule)),
                                      DF_F("scheduledFor", df_str_c(when))};
    df_log_write(DF_LOG_INFO, "PolicyDeferred", deferred, 2, "the policy makes it wait");
}

enum df_code df_receive_storage_error(const char *event, enum df_code code, struct df_err *err)
{
    if (code == DF_E_CANCELLED)
        return df_err_set(err, DF_E_DRAINING, "the server is shutting down");
    if (code == DF_OK || (df_code_retry(code) != DF_RETRY_LATER && code != DF_E_NOT_FOUND))
        return code;
    df_log_warn(event, "%s", err->detail);
    return df_err_set(err, DF_E_BUSY,
                      "The storage of files does not answer. Send the file again later.");
}

static void store_scheduled(void *arg)
{
    struct df_receive *up = arg;
    const struct df_imports_options *opt = up->receiver->opt;
    struct df_err err = DF_ERR_INIT;

    df_log_ctx_use(df_req_log(up->req));
    enum df_code code = df_storage_put_scheduled(
        opt->storage, &up->batch, df_upload_fields(up->upload)->file_name, up->location, &err);
    /* Drop before the commit: after it, a worker may have fetched the file again. */
    if (code == DF_OK)
        code = df_storage_drop_local(opt->storage, &up->batch, up->location, &err);
    code = df_receive_storage_error("ScheduledStorageUnavailable", code, &err);
    commit_and_answer(up, code, &err);
}

void df_receive_finish(struct df_receive *up)
{
    const struct df_imports_options *opt = up->receiver->opt;
    struct df_log_field said[] = {DF_FI("sizeBytes", up->size_bytes)};
    struct df_err err = DF_ERR_INIT;

    df_log_ctx_set(df_req_log(up->req), "metadataCorrelationId", df_receive_metadata_id(up));
    df_log_ctx_use(df_req_log(up->req));
    df_log_write(DF_LOG_INFO, "UploadReceived", said, 1, "%s", "");
    enum df_code code = df_receive_file_end(up, &err);
    if (code == DF_OK) {
        up->facts.now_ms = df_wall_ms(opt->clock);
        up->facts.size_bytes = (int64_t)up->size_bytes;
        up->decision = df_policy_schedule(&up->facts);
        log_decision(up);
    }
    if (code == DF_OK && up->decision.scheduled && df_storage_moves_scheduled(opt->storage)) {
        if (queue_upload(up, &up->receiver->network, store_scheduled)) {
            df_log_ctx_use(NULL);
            return;
        }
        code = df_err_set(&err, DF_E_BUSY, "Too many files are on their way to their storage.");
    }
    commit_and_answer(up, code, &err);
}

static void finish_file(void *arg)
{
    df_receive_finish(arg);
}

static void run_receive_task(void *arg, void *item)
{
    struct df_receive_task *t = item;

    (void)arg;
    t->run(t->arg);
}

struct removal {
    struct df_receive_task task;
    struct df_storage *storage;
    struct df_uuid batch;
    char location[DF_STORAGE_LOCATION_MAX + 1];
};

static void run_removal(void *arg)
{
    struct removal *m = arg;
    struct df_err err = DF_ERR_INIT;

    if (df_storage_remove(m->storage, &m->batch, m->location, &err) != DF_OK)
        df_log_warn("UploadNotRemoved", "%s", err.detail);
    free(m);
}

void df_receiver_remove(struct df_receiver *r, const struct df_uuid *batch, const char *location)
{
    struct removal *m = df_calloc(1, sizeof(*m));

    *m = (struct removal){.task = {run_removal, m}, .storage = r->opt->storage, .batch = *batch};
    (void)snprintf(m->location, sizeof m->location, "%s", location);
    if (df_pool_push(&r->network, &m->task))
        return;
    df_log_warn("UploadNotRemoved", "%s: too many files are queued, or the process ends", location);
    free(m);
}

/* --- start and stop --- */

struct df_receiver *df_receiver_new(struct df_imports *imports)
{
    struct df_receiver *r = df_calloc(1, sizeof(*r));

    df_receive_register_metrics();
    r->imports = imports;
    r->opt = df_imports_options_of(imports);
    df_pool_start(&r->network, "uploads",
                  df_storage_is_remote(r->opt->storage) ? DF_RECEIVE_SENDERS : DF_RECEIVE_UPLOADERS,
                  QUEUE_SIZE, run_receive_task, NULL);
    r->previews = df_previews_new(r);
    df_pool_start(&r->files, "files", DF_RECEIVE_THREADS, QUEUE_SIZE, run_receive_task, NULL);
    return r;
}

/* The file threads end first, since they queue work for the network threads. */
void df_receiver_stop(struct df_receiver *r)
{
    if (!r)
        return;
    df_previews_stop(r->previews);
    df_pool_stop(&r->files);
    df_pool_stop(&r->network);
}

void df_receiver_free(struct df_receiver *r)
{
    if (!r)
        return;
    df_receiver_stop(r);
    df_previews_free(r->previews);
    df_pool_release(&r->files);
    df_pool_release(&r->network);
    free(r);
}

bool df_receive_hand_over(struct df_receive *up)
{
    struct df_receiver *r = up->receiver;

    return df_receive_parts_wait(up) ||
           queue_upload(up, up->parts ? &r->network : &r->files, finish_file);
}

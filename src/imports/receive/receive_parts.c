/*
 * An upload on its way to the outside storage while its body arrives. After each piece, the HTTP
 * thread hands a part that is full to a network thread, which sends it while the next one is
 * filled. If that is full too before the first was sent, the request is suspended: the network
 * thread takes the next part and resumes it. So an upload has two parts in memory, no HTTP thread
 * waits for the network, and while the storage is slow the sender's deadlines do not run.
 *
 * The upload may end while a part is being sent, because the sender left or met a limit. Whoever
 * sends the part then aborts it. What belongs to the request belongs to the thread that has it;
 * only what is under the lock is touched by both.
 */
#include "imports/receive/receive_private.h"

#include "base/mem.h"
#include "base/metrics.h"

#include <stdlib.h>

DF_METRIC_FAMILY(parts_total) = {
    .name = "dataflow_upload_parts_total",
    .help = "With imports.storage = s3: parts sent while uploads arrived.",
    .type = DF_COUNTER,
};
DF_METRIC_FAMILY(waits_total) = {
    .name = "dataflow_upload_waits_total",
    .help = "With imports.storage = s3: times that an upload waited for the bucket. "
            "Growing fast: the bucket is slower than the senders.",
    .type = DF_COUNTER,
};

struct df_receive_parts {
    struct df_receive_task task; /* queued when a part is being sent, or to abort */
    struct df_receiver *receiver;
    struct df_storage_writer *writer;
    struct df_mutex lock;
    bool sending DF_GUARDED_BY(lock);
    bool over DF_GUARDED_BY(lock);                  /* whoever sends a part aborts */
    struct df_receive *waiting DF_GUARDED_BY(lock); /* its request is suspended; NULL: none */
    struct df_err failed DF_GUARDED_BY(lock);
};

void df_receive_parts_register(void)
{
    df_metric_register(&parts_total);
    df_metric_register(&waits_total);
}

struct df_receive_parts *df_receive_parts_new(struct df_receiver *r, struct df_storage_writer *w)
{
    struct df_receive_parts *p = df_calloc(1, sizeof(*p));

    p->receiver = r;
    p->writer = w;
    df_mutex_init(&p->lock);
    return p;
}

static void free_parts(struct df_receive_parts *p)
{
    df_mutex_destroy(&p->lock);
    free(p);
}

/* --- on a network thread --- */

static void abort_parts(void *arg)
{
    struct df_receive_parts *p = arg;

    df_storage_abort(p->writer);
    free_parts(p);
}

/* The request is suspended, so the upload is this thread's. */
static void go_on(struct df_receive *up)
{
    struct df_err err = DF_ERR_INIT;

    if (up->work) {
        df_receive_finish(up);
        return;
    }
    df_log_ctx_use(df_req_log(up->req));
    if (df_receive_parts_pass(up, &err) != DF_OK)
        df_receive_reject(up, &err);
    df_log_ctx_use(NULL);
    df_req_resume(up->req);
}

static void send_part(void *arg)
{
    struct df_receive_parts *p = arg;
    struct df_err err = DF_ERR_INIT;
    enum df_code code = df_storage_part_send(p->writer, &err);

    if (code == DF_OK)
        df_metric_add(df_metric_get(&parts_total, NULL), 1);
    else
        code = df_receive_storage_error("StorageUnavailable", code, &err);
    df_lock(&p->lock);
    p->sending = false;
    if (code != DF_OK)
        p->failed = err;
    struct df_receive *up = p->waiting;
    p->waiting = NULL;
    bool over = p->over;
    df_unlock(&p->lock);
    if (over)
        abort_parts(p);
    else if (up)
        go_on(up);
}

/* --- by whoever has the request --- */

static enum df_code start_sending(struct df_receive_parts *p, struct df_err *err)
{
    df_storage_part_take(p->writer);
    p->task = (struct df_receive_task){send_part, p};
    if (df_pool_push(&p->receiver->network, &p->task))
        return DF_OK;
    df_lock(&p->lock);
    p->sending = false;
    df_unlock(&p->lock);
    return df_err_set(err, DF_E_BUSY, "Too many files are on their way to their storage.");
}

enum df_code df_receive_parts_pass(struct df_receive *up, struct df_err *err)
{
    struct df_receive_parts *p = up->parts;
    bool take = false, wait = false;

    if (!p)
        return DF_OK;
    enum df_code code = df_receive_check_time(up, err);
    if (code != DF_OK)
        return code;
    df_lock(&p->lock);
    code = p->failed.code;
    if (code != DF_OK) {
        *err = p->failed;
    } else if (df_storage_part_is_full(p->writer)) {
        take = !p->sending;
        wait = p->sending;
        p->sending = true;
        if (wait) {
            df_req_suspend(up->req); /* before the part's sender can see that it waits */
            p->waiting = up;
        }
    }
    df_unlock(&p->lock);
    if (wait)
        df_metric_add(df_metric_get(&waits_total, NULL), 1);
    return take ? start_sending(p, err) : code;
}

bool df_receive_parts_wait(struct df_receive *up)
{
    struct df_receive_parts *p = up->parts;

    if (!p)
        return false;
    df_lock(&p->lock);
    bool sending = p->sending;
    if (sending)
        p->waiting = up;
    df_unlock(&p->lock);
    return sending;
}

enum df_code df_receive_parts_take(struct df_receive_parts *take_p, struct df_storage_writer **ret,
                                   struct df_err *err)
{
    df_lock(&take_p->lock);
    *err = take_p->failed;
    df_unlock(&take_p->lock);
    if (err->code != DF_OK) {
        df_receive_parts_drop(take_p);
        return err->code;
    }
    *ret = take_p->writer;
    free_parts(take_p);
    return DF_OK;
}

void df_receive_parts_drop(struct df_receive_parts *take_p)
{
    df_lock(&take_p->lock);
    bool sending = take_p->sending;
    take_p->over = true;
    df_unlock(&take_p->lock);
    if (sending)
        return;
    take_p->task = (struct df_receive_task){abort_parts, take_p};
    if (df_pool_push(&take_p->receiver->network, &take_p->task))
        return;
    df_storage_leave(
        take_p->writer); /* the process ends, or too much waits: the sweep removes it */
    free_parts(take_p);
}

#include "access/handler.h"

#include "access/list.h"

#include <assert.h>

#define SMALL_ANSWER ((size_t)64 << 10)

static void begin_answer(struct df_work *w)
{
    df_buf_reset(&w->out);
    df_json_out_init(&w->json, &w->out);
    if (w->handler->tells)
        w->json.lang = df_req_language(w->req);
}

static void adopt_handler(struct df_work *w, const struct df_handler *h)
{
    w->handler = h;
    w->status = h->status ? h->status : 200;
}

static struct df_work *new_work(struct df_req *req, const struct df_handler *h)
{
    size_t size = h->size ? h->size : sizeof(struct df_work);

    assert(size >= sizeof(struct df_work));
    struct df_work *w = df_arena_zalloc(df_req_arena(req), size);
    w->req = req;
    w->access = df_access_of(req);
    w->arg = df_req_route_arg(req);
    w->now_ms = df_wall_ms(w->access->clock);
    adopt_handler(w, h);
    if (h->max_answer)
        df_req_buf(req, &w->out, h->max_answer);
    else
        df_buf_init(&w->out, SMALL_ANSWER);
    begin_answer(w);
    return w;
}

/* --- ends --- */

void df_work_end(struct df_work *w)
{
    struct df_req *req = w->req;
    bool aside = w->aside;

    assert(!w->ended);
    w->ended = true;
    if (w->handler->cleanup)
        w->handler->cleanup(w);
    df_buf_release(&w->out);
    if (aside)
        df_req_resume(req);
}

void df_work_fail(struct df_work *w, enum df_code code, const char *fmt, ...)
{
    struct df_err err = DF_ERR_INIT;
    va_list ap;

    va_start(ap, fmt);
    (void)df_err_vset(&err, code, fmt, ap);
    va_end(ap);
    df_req_problem(w->req, &err);
    df_work_end(w);
}

enum df_code df_work_list(struct df_work *w, struct df_db *db, const struct df_list_query *q,
                          void (*row)(void *arg, struct df_result *r), struct df_err *err)
{
    df_page_open(&w->json);
    enum df_code code = df_list_page(db, q, &w->page, df_req_arena(w->req), row, w, err);
    df_page_close(&w->page, &w->json);
    return code;
}

enum df_code df_work_page(struct df_work *w, struct df_db *db, const struct df_query *q,
                          const struct df_value *params, size_t param_count,
                          void (*row)(void *arg, struct df_result *r), struct df_err *err)
{
    df_page_open(&w->json);
    enum df_code code = df_db_each(db, q, params, param_count, row, w, err);
    df_page_close(&w->page, &w->json);
    return code;
}

/* Answers when the job is over, or could not begin. */
static void settle_work(struct df_work *w, enum df_code code, const struct df_err *err)
{
    const struct df_handler *h = w->handler;

    assert(!w->ended);
    if (h->pass_on && h->pass_on(w, code, err))
        return;
    if (code == DF_OK && h->done && !df_req_answered(w->req))
        h->done(w);
    if (code != DF_OK) {
        df_req_problem(w->req, err);
    } else if (!df_req_answered(w->req)) {
        if (h->tells)
            df_req_add_language(w->req, w->json.lang);
        df_req_answer(w->req, w->status, "application/json", &w->out);
    }
    df_work_end(w);
}

/* --- the store --- */

static enum df_code run_work(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct df_work *w = (struct df_work *)job;

    begin_answer(w);
    return w->handler->run(db, w, err);
}

static void work_done(struct df_job *job, enum df_code code, const struct df_err *err)
{
    settle_work((struct df_work *)job, code, err);
}

void df_work_submit(struct df_work *w)
{
    struct df_store *store = w->access->store;
    struct df_err err = DF_ERR_INIT;

    assert(w->aside && !w->ended && (w->job.query || w->handler->run));
    w->job.run = w->job.query ? NULL : run_work;
    w->job.run_all = w->job.query ? NULL : w->handler->run_all;
    w->job.done = work_done;
    w->job.log = df_req_log(w->req);
    w->job.trace = df_req_trace(w->req);
    if (w->handler->writes ? df_store_write(store, &w->job) : df_store_read(store, &w->job))
        return;
    settle_work(w, df_err_set(&err, DF_E_BUSY, "Too many requests are waiting for the database."),
                &err);
}

void df_work_become(struct df_work *w, const struct df_handler *next)
{
    w->job = (struct df_job){0};
    adopt_handler(w, next);
}

/* --- the request --- */

/* False: the answer is set. */
static bool prepare_work(struct df_work *w)
{
    const struct df_handler *h = w->handler;
    struct df_input in;

    df_input_init(&in, df_req_arena(w->req), NULL);
    if (h->list)
        df_page_read_list(&in, w->req, h->list, h->list_by_uuid, &w->page);
    else if (h->paged)
        df_page_read(&in, w->req, &w->page);
    return (!h->prepare || h->prepare(w, &in)) && df_input_ok(&in, w->req);
}

void df_handle(struct df_req *req)
{
    df_handle_by(req, df_req_route(req)->handler);
}

void df_handle_by(struct df_req *req, const struct df_handler *h)
{
    struct df_work *w = new_work(req, h);

    if (!prepare_work(w)) {
        df_work_end(w);
    } else if (!h->first && !h->run && !w->job.query) {
        settle_work(w, DF_OK, NULL);
    } else {
        w->aside = true;
        df_req_suspend(req);
        if (h->first)
            h->first(w);
        else
            df_work_submit(w);
    }
}

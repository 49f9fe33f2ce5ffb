/*
 * The skeleton of a handler. A handler is a constant: how the request is read, what is done in the
 * store, what follows. Its route names it, with `handle` = df_handle, which does the rest:
 *
 *   HTTP thread    the work, of handler->size, is made in the request's arena; ?page= is read where
 *                  the handler is `paged`; `prepare`; the request is set aside
 *   another        `first`, where something comes before the store: a hash, a name to look up
 *   store's        `run`, with an empty answer each time; the commit; `done`
 *   whoever ends   the answer, which is what was written to w->json, or the problem; `cleanup`; the
 *                  request goes on, and the work is gone with it
 *
 * A store that takes no more jobs is an error like any other: 503 with Retry-After. `cleanup` is
 * called once, whatever happens: a place that was taken is given back there, a secret wiped.
 *
 * A handler without `run`, `first` and a row job is answered at once by `done`.
 */
#ifndef DF_ACCESS_HANDLER_H
#define DF_ACCESS_HANDLER_H

#include "access/access.h"
#include "net/input.h"
#include "json/write.h"

struct df_handler;

/* One request on its way. The first member of a handler's own struct, which is zero at first. */
struct df_work {
    struct df_job job; /* a row job if prepare sets query and params */
    const struct df_handler *handler;
    struct df_req *req;
    const struct df_access *access;
    void *arg;      /* df_req_route_arg: the feature */
    int64_t now_ms; /* wall clock, when the handler began */
    struct df_page page;
    unsigned status; /* of the answer when all goes well: the handler's, unless a hook changes it */
    struct df_buf out;
    struct df_json_out json; /* onto out */
    /* Private. */
    bool aside;
    bool ended;
};

struct df_handler {
    size_t size; /* of the handler's struct; 0: struct df_work alone */
    bool paged;
    bool writes;       /* run is a job for a writer, in a transaction; else for a reader */
    unsigned status;   /* 0: 200 */
    size_t max_answer; /* bytes, counted as they come; 0: a small answer */

    /* Reads the request. Errors that it adds to `in` are answered 400 together with those of the
       page. False: the answer is set. */
    bool (*prepare)(struct df_work *w, struct df_input *in);
    /* Has the request, which is set aside; leads to df_work_submit or one of the ends. */
    void (*first)(struct df_work *w);
    /* May be called again, as df_job.run. */
    enum df_code (*run)(struct df_db *db, struct df_work *w, struct df_err *err);
    /* How the job ended, DF_E_BUSY when it never began. True: the work was handed on, and whoever
       has it submits or ends it. False: it ends now, without `done` if an answer was set. */
    bool (*pass_on)(struct df_work *w, enum df_code code, const struct df_err *err);
    /* It went well, and is committed. May write the answer, or set another. */
    void (*done)(struct df_work *w);
    void (*cleanup)(struct df_work *w);
};

/* struct df_route.handle of every route whose `handler` is a struct df_handler. */
void df_handle(struct df_req *req);
/* Likewise from on_data; the route has one for `handle`. Who ends the work without an answer has
 * the rest of the body read. */
void df_handle_by(struct df_req *req, const struct df_handler *h);

/* A row of a table of routes. scope_: NULL: none is asked for. */
#define DF_ROUTE(method_, path_, body_, access_, scope_, handler_)                                 \
    {                                                                                              \
        .method = (method_), .pattern = (path_), .body = (body_), .access = (access_),             \
        .scope = (scope_), .handle = df_handle, .handler = &(handler_)                             \
    }

/*
 * The page w->page of what a query answers with as the answer, {"items": [ … ], "page": …}. `row`
 * gets w and writes an item to w->json. w->page.total is set.
 */
enum df_code df_work_page(struct df_work *w, struct df_db *db, const struct df_query *q,
                          const struct df_value *params, size_t param_count,
                          void (*row)(void *arg, struct df_result *r),
                          struct df_err *err) DF_MUST_CHECK;

/* Hands the work, whose request is set aside, to the store. From any thread; it may be over, and
 * gone, when this returns. */
void df_work_submit(struct df_work *w);
/* Before it is submitted: from now on the hooks are another handler's, whose struct is the same. */
void df_work_become(struct df_work *w, const struct df_handler *next);

/* The ends, for who has the work from `first` or `pass_on`. The answer was set; or it is this. */
void df_work_end(struct df_work *w);
void df_work_fail(struct df_work *w, enum df_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif

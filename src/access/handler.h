/*
 * The skeleton of a handler. A handler is a constant that says how to read the request, what to do
 * in the store and what follows. Its route names it, with `handle` = df_handle, which does the
 * rest:
 *
 *   HTTP thread    makes the work, of handler->size, in the request's arena; reads ?page= if the
 *                  handler is `paged`; calls `prepare`; suspends the request
 *   other threads  `first`, if something comes before the store: a hash, a name to look up
 *   the store's    `run`, with an empty answer each time; the commit; `done`
 *   the last one   sets the answer, which was written to w->json, or the problem; calls `cleanup`;
 *                  resumes the request, and the work is gone with it
 *
 * A store that takes no more jobs is an error like any other: 503 with Retry-After. `cleanup` is
 * called once, whatever happens, to give back what was taken and to wipe secrets.
 *
 * A request whose handler has no `run`, no `first` and no row job is answered at once by `done`.
 */
#ifndef DF_ACCESS_HANDLER_H
#define DF_ACCESS_HANDLER_H

#include "access/access.h"
#include "net/input.h"
#include "json/write.h"

struct df_handler;

/* One request on its way: the first member of the handler's own struct, which starts zeroed. */
struct df_work {
    struct df_job job; /* a row job if prepare sets query and params */
    const struct df_handler *handler;
    struct df_req *req;
    const struct df_access *access;
    void *arg;      /* df_req_route_arg: the feature */
    int64_t now_ms; /* wall clock, when the handler began */
    struct df_page page;
    unsigned status; /* of a successful answer: the handler's, unless a hook changes it */
    struct df_buf out;
    struct df_json_out json; /* writes to out */
    /* Private. */
    bool aside;
    bool ended;
};

struct df_handler {
    size_t size; /* of the handler's struct; 0: struct df_work alone */
    bool paged;
    const char *list; /* of a long list, its name in cursors (access/list.h): ?after= is read too */
    bool list_by_uuid; /* whose ids are UUIDs */
    bool writes;       /* run is a job for a writer, in a transaction; else for a reader */
    unsigned status;   /* 0: 200 */
    size_t max_answer; /* bytes, counted in the server's budget; 0: a small answer */
    /* The answer tells people something, in their language (df_json_kv_told), and says in which. */
    bool tells;

    /* Reads the request. Errors that it adds to `in` are answered with 400, together with those of
     * the page. False: the answer is set. */
    bool (*prepare)(struct df_work *w, struct df_input *in);
    /* Gets the work once the request is suspended; leads to df_work_submit or one of the ends. */
    void (*first)(struct df_work *w);
    /* May run more than once, like df_job.run. */
    enum df_code (*run)(struct df_db *db, struct df_work *w, struct df_err *err);
    /* May be NULL: does the work of many requests, as df_job.run_all. Each job is the first member
     * of a work of this handler. It writes no answers: `done` does. */
    enum df_code (*run_all)(struct df_db *db, struct df_job **jobs, size_t count,
                            struct df_err *err);
    /* Told how the job ended; DF_E_BUSY: it never began. True: the work was handed on, and its new
     * holder submits or ends it. False: it ends now, without `done` if an answer was set. */
    bool (*pass_on)(struct df_work *w, enum df_code code, const struct df_err *err);
    /* Called after the commit. May write the answer, or set another. */
    void (*done)(struct df_work *w);
    void (*cleanup)(struct df_work *w);
};

/* struct df_route.handle of every route whose `handler` is a struct df_handler. */
void df_handle(struct df_req *req);
/* The same from on_data, for routes that have another handler for `handle`. If the work ends
 * without an answer, the server reads the rest of the body. */
void df_handle_by(struct df_req *req, const struct df_handler *h);

/* A row of a table of routes. A NULL scope_: no scope is required. */
#define DF_ROUTE(method_, path_, body_, access_, scope_, handler_)                                 \
    {                                                                                              \
        .method = (method_), .pattern = (path_), .body = (body_), .access = (access_),             \
        .scope = (scope_), .handle = df_handle, .handler = &(handler_)                             \
    }

struct df_list_query;
/* Writes the page w->page of a long list as the answer. `row` gets w, and writes an item. */
enum df_code df_work_list(struct df_work *w, struct df_db *db, const struct df_list_query *q,
                          void (*row)(void *arg, struct df_result *r),
                          struct df_err *err) DF_MUST_CHECK;

/*
 * Writes the page w->page of a query's rows as the answer, {"items": [ … ], "page": …}. `row` gets
 * w and writes an item to w->json. The caller has set w->page.total.
 */
enum df_code df_work_page(struct df_work *w, struct df_db *db, const struct df_query *q,
                          const struct df_value *params, size_t param_count,
                          void (*row)(void *arg, struct df_result *r),
                          struct df_err *err) DF_MUST_CHECK;

/* Hands the work, whose request is suspended, to the store. Any thread. The work may be gone when
 * this returns. */
void df_work_submit(struct df_work *w);
/* Replaces the handler before the work is submitted; the next one has the same struct. */
void df_work_become(struct df_work *w, const struct df_handler *next);

/* The ends, for the holder of the work after `first` or `pass_on`: with the answer that was set, or
 * with this problem. */
void df_work_end(struct df_work *w);
void df_work_fail(struct df_work *w, enum df_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif

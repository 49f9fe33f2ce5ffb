/*
 * The calls of `dataflow import`: an upload, a look, and watching by the event stream.
 *
 * On libcurl's easy interface and not on net/client.h, which keeps bodies in memory: a file goes
 * from the disk to the socket as it is read, whatever its size, and one call at a time is enough.
 * One thread.
 */
#ifndef DF_APP_IMPORT_HTTP_H
#define DF_APP_IMPORT_HTTP_H

#include "base/buf.h"
#include "base/err.h"

#include <signal.h>

struct df_import_http;

struct df_import_server {
    const char *url;
    const char *client_id;
    const char *client_secret;
    const volatile sig_atomic_t
        *interrupted; /* set by a signal: whatever is under way is broken off */
};

/* DF_E_USAGE: the URL or the credentials cannot be used. */
enum df_code df_import_http_new(const struct df_import_server *server, struct df_import_http **ret,
                                struct df_err *err) DF_MUST_CHECK;
void df_import_http_free(struct df_import_http *h);

struct df_import_file {
    const char *path;
    const char *origin; /* NULL: none */
    const char *sheet;  /* likewise */
    /* As bytes go out, and now and then. total is that of the whole body. */
    void (*sent)(void *arg, uint64_t bytes, uint64_t total);
    void *arg;
};

/*
 * Whoever answers otherwise than wanted: the code that the status stands for, and in err what the
 * server said of it. DF_E_CANCELLED: interrupted.
 */
enum df_code df_import_upload(struct df_import_http *h, const struct df_import_file *file,
                              struct df_buf *answer, struct df_err *err) DF_MUST_CHECK;
enum df_code df_import_look(struct df_import_http *h, const char *batch_id, struct df_buf *answer,
                            struct df_err *err) DF_MUST_CHECK;

struct df_import_watcher {
    /* The batch, whenever it has changed; at the end with `over`. */
    void (*seen)(void *arg, struct df_str batch, bool over);
    /* The connection was lost and is tried again. */
    void (*lost)(void *arg, const char *why);
    /* Several times a second. */
    void (*tick)(void *arg);
    void *arg;
};

/* Until the batch is over. A server that goes away is waited for, for some minutes. */
enum df_code df_import_watch(struct df_import_http *h, const char *batch_id,
                             const struct df_import_watcher *watcher,
                             struct df_err *err) DF_MUST_CHECK;

#endif

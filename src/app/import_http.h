/*
 * The calls of `dataflow import`: the upload, a look at a batch, and watching it through the event
 * stream; and those of an operator who looks at what a server knows (`dataflow batch`).
 *
 * Uses libcurl's easy interface and not net/client.h, which keeps bodies in memory: here a file of
 * any size goes from the disk to the socket as it is read, and one call at a time is enough. One
 * thread.
 */
#ifndef DF_APP_IMPORT_HTTP_H
#define DF_APP_IMPORT_HTTP_H

#include "base/buf.h"
#include "base/err.h"

#include <signal.h>

struct df_import_http;

struct df_import_server {
    const char *url;
    const char *client_id; /* with the secret, or NULL */
    const char *client_secret;
    const char *admin_key;                    /* instead; NULL: none */
    const char *language;                     /* of what the server says to people */
    const volatile sig_atomic_t *interrupted; /* set by a signal: breaks the call off */
};

/* DF_E_USAGE: the URL or the credentials cannot be used. */
enum df_code df_import_http_new(const struct df_import_server *server, struct df_import_http **ret,
                                struct df_err *err) DF_MUST_CHECK;
void df_import_http_free(struct df_import_http *h);

struct df_import_file {
    const char *path;
    const char *origin;  /* NULL: none */
    const char *sheet;   /* likewise */
    const char *mapping; /* a file with a JSON object; NULL: none */
    bool preview;        /* the server only looks at it */
    /* Called as bytes go out, and now and then. total is the size of the whole body. */
    void (*sent)(void *arg, uint64_t bytes, uint64_t total);
    void *arg;
};

/*
 * An answer with another status than wanted gives the code for that status, and err has the
 * server's words. DF_E_CANCELLED: interrupted.
 */
enum df_code df_import_upload(struct df_import_http *h, const struct df_import_file *file,
                              struct df_buf *answer, struct df_err *err) DF_MUST_CHECK;
/* DF_OK: the credentials are right, and the client may import. Sends nothing of a file. */
enum df_code df_import_check_login(struct df_import_http *h, struct df_err *err) DF_MUST_CHECK;
/* GET of a path with its query, for an operator. */
enum df_code df_import_get(struct df_import_http *h, const char *path, struct df_buf *answer,
                           struct df_err *err) DF_MUST_CHECK;
/* Adds a text as a part of a path or query. */
void df_import_add_escaped(struct df_buf *out, struct df_str text);
enum df_code df_import_look(struct df_import_http *h, const char *batch_id, struct df_buf *answer,
                            struct df_err *err) DF_MUST_CHECK;

struct df_import_watcher {
    /* Called with the batch whenever it has changed; at the end with `over`. */
    void (*seen)(void *arg, struct df_str batch, bool over);
    /* Called when the connection was lost and is tried again. */
    void (*lost)(void *arg, const char *why);
    /* Called several times a second. */
    void (*tick)(void *arg);
    void *arg;
};

/* Watches until the batch is over. Waits some minutes for a server that goes away. */
enum df_code df_import_watch(struct df_import_http *h, const char *batch_id,
                             const struct df_import_watcher *watcher,
                             struct df_err *err) DF_MUST_CHECK;

#endif

/* Receiving: POST /imports. receive_api.c tells the life of an upload; the application starts and
 * stops the receiver here. */
#ifndef DF_IMPORTS_RECEIVE_H
#define DF_IMPORTS_RECEIVE_H

#include "imports/imports.h"
#include "net/http.h"

struct df_receiver;

/* Starts the threads that bring files to the disk. The imports must outlive the receiver. */
struct df_receiver *df_receiver_new(struct df_imports *imports);
/* Finishes the queued uploads; later ones get 503. Call it before the store is closed. */
void df_receiver_stop(struct df_receiver *r);
/* Call it after the HTTP server has stopped. */
void df_receiver_free(struct df_receiver *r);

/* Removes the files of a batch that is over, soon and on another thread. If that fails,
 * housekeeping removes a local file; one in the outside storage stays, and the log names it. */
void df_receiver_remove(struct df_receiver *r, const struct df_uuid *batch, const char *location);

/* The longest body of POST /imports for files of at most max_upload_bytes: base64 turns three bytes
 * into four, and there are fields beside the file. */
size_t df_receive_body_limit(uint64_t max_upload_bytes);

#endif

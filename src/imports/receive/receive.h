/*
 * Receiving: POST /imports. The life of an upload is told in receive_api.c; here is what the
 * application starts and stops.
 */
#ifndef DF_IMPORTS_RECEIVE_H
#define DF_IMPORTS_RECEIVE_H

#include "imports/imports.h"
#include "net/http.h"

struct df_receiver;

/* Starts the threads that bring files to the disk. The imports outlive it. */
struct df_receiver *df_receiver_new(struct df_imports *imports);
/* Finishes what is queued; later uploads get 503. Before the store is closed. */
void df_receiver_stop(struct df_receiver *r);
/* After the HTTP server has stopped. */
void df_receiver_free(struct df_receiver *r);

/* Removes the files of a batch that is over, soon and on another thread. What is missed goes with
 * the housekeeping if it is here; in another storage it stays, and the log tells. */
void df_receiver_remove(struct df_receiver *r, const struct df_uuid *batch, const char *location);

/* The longest body of POST /imports for files of at most max_upload_bytes: base64 makes four bytes
 * of three, and there are fields beside the file. */
size_t df_receive_body_limit(uint64_t max_upload_bytes);

#endif

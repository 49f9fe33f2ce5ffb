/*
 * Limits of clients: RequestsPerMinute and ConcurrentUploads, and what is used of them. The rules
 * are the limiter's (resilience/limiter.h); here is what a caller is told, and how processes that
 * share a database share a limit: each writes what it has into ClientUsage every second and reads
 * what the others have. What was not renewed for five seconds is forgotten. SQLite has one process:
 * no rows, no thread.
 */
#ifndef DF_ACCESS_USAGE_H
#define DF_ACCESS_USAGE_H

#include "access/clients.h"
#include "net/http.h"
#include "resilience/limiter.h"
#include "store/store.h"

struct df_usage;

struct df_usage *df_usage_new(struct df_store *store, const struct df_clock *clock);
/* Ends the exchange, with the process's rows removed. Before the store is closed. */
void df_usage_stop(struct df_usage *u);
/* After the HTTP server has stopped. */
void df_usage_free(struct df_usage *u);

/* Counts an authenticated request. The answer of a client with a limit gets the RateLimit fields;
 * false: it is over, and the answer (429) is set. Takes no I/O. */
bool df_usage_admit(struct df_usage *u, struct df_req *req, const struct df_client *c);

/* Uploads: one more, unless the client has `most` (0: no limit). Each true one is given back. */
bool df_usage_upload_begin(struct df_usage *u, const struct df_uuid *client_id, int64_t most);
void df_usage_upload_end(struct df_usage *u, const struct df_uuid *client_id);

/* Of all processes that are known of. */
void df_usage_look(struct df_usage *u, const struct df_uuid *client_id, struct df_limiter_use *ret);

#endif

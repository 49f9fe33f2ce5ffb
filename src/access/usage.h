/*
 * Limits of clients, RequestsPerMinute and ConcurrentUploads, and their use. The rules are the
 * limiter's (resilience/limiter.h). This file answers the caller, and lets processes that share a
 * database share a limit: each writes its use to ClientUsage, every second or when a request waits
 * for it, and reads that of the others, one process at a time. Rows that were not renewed for five
 * seconds do not count. SQLite has one process: no rows, no thread.
 */
#ifndef DF_ACCESS_USAGE_H
#define DF_ACCESS_USAGE_H

#include "access/clients.h"
#include "base/list.h"
#include "net/http.h"
#include "resilience/limiter.h"
#include "store/store.h"

struct df_usage;

struct df_usage *df_usage_new(struct df_store *store, const struct df_clock *clock);
/* Ends the exchange and removes the process's rows. Before the store is closed. */
void df_usage_stop(struct df_usage *u);
/* After the HTTP server has stopped. */
void df_usage_free(struct df_usage *u);

enum df_admission {
    DF_ADMITTED,
    DF_ADMISSION_REFUSED, /* the client is over its limit, and the answer (429) is set */
    DF_ADMISSION_WAITS,   /* the other processes have to be asked: df_usage_wait */
};

/* Counts an authenticated request. The answer to a client with a limit gets the RateLimit fields.
 * Does no I/O. */
enum df_admission df_usage_admit(struct df_usage *u, struct df_req *req, const struct df_client *c);

/* A request that was set aside until this process has asked the others: some milliseconds. */
struct df_usage_waiter {
    struct df_link link;
    void (*ask_again)(struct df_usage_waiter *w); /* calls df_usage_admit; on any thread */
};
void df_usage_wait(struct df_usage *u, struct df_usage_waiter *w);

/* Counts one more upload, unless the client has `most` (0: no limit). Each that returned true is
 * ended once. */
bool df_usage_upload_begin(struct df_usage *u, const struct df_uuid *client_id, int64_t most);
void df_usage_upload_end(struct df_usage *u, const struct df_uuid *client_id);

/* The use of all processes that are known. */
void df_usage_look(struct df_usage *u, const struct df_uuid *client_id, struct df_limiter_use *ret);

#endif

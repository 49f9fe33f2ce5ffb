/*
 * Limits of clients, RequestsPerMinute and ConcurrentUploads, and their use. The rules are the
 * limiter's (resilience/limiter.h). This file answers the caller, and lets processes that share a
 * database share a limit: each writes its use to ClientUsage, every second or when a request waits
 * for it, and reads that of the others, one process at a time. SQLite has one process: no rows, no
 * thread.
 *
 * The exchange has a connection of its own, and so a transaction of its own. The store's writers
 * commit many jobs together: there, the lock of the exchange would be held until all of them are
 * committed, and their rows would stay locked while it is waited for. Here it is held for some
 * milliseconds, and only other exchanges wait for it.
 *
 * A request that waits for an exchange is answered after two seconds at the latest, whatever the
 * database does: a second thread then has the limiter decide without the others.
 *
 * Times are those of the database. A row's requests count for DF_LIMITER_KEEP_MS after it was
 * written, also when its process is gone; uploads and demand for five seconds.
 */
#ifndef DF_ACCESS_USAGE_H
#define DF_ACCESS_USAGE_H

#include "access/clients.h"
#include "base/list.h"
#include "net/http.h"
#include "resilience/limiter.h"

struct df_usage;

/* url: of the database; lives as long. NULL: it counts alone, as a process does that takes no
 * requests of clients. */
struct df_usage *df_usage_new(const char *url, const struct df_clock *clock);
/* Ends the exchange, and leaves behind what was admitted in the last minute. After the last request
 * was admitted. */
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
    int64_t since_ms;                             /* set by df_usage_wait */
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

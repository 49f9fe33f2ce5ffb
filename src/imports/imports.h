/*
 * Imports: files that clients upload, cut into chunks, sent to OmniFlow and acknowledged.
 *
 * Receiving (receive_api.c) stores the file, commits the batch's row, and wakes the workers. A
 * worker owns one batch at a time: it claims the batch (worker.c), reads the file from the start,
 * sends chunks, waits for acks and settles (pipeline.c). docs/imports.md is for users; README.md
 * and the head of each file are for developers.
 */
#ifndef DF_IMPORTS_IMPORTS_H
#define DF_IMPORTS_IMPORTS_H

#include "access/maintenance.h"
#include "base/uuid.h"
#include "base/zone.h"
#include "files/storage.h"
#include "imports/settings.h"
#include "outbound/outbound.h"
#include "store/store.h"

struct df_instance;
struct df_keys;
struct df_locks;
struct df_masker;
struct df_webhooks;

/* The queue that tells of batches (announce.h). Each is called without a lock, on any thread. */
struct df_imports_queue {
    void (*announced)(void *arg);    /* there are rows to be sent; NULL: there is no queue */
    bool (*is_connected)(void *arg); /* messages arrive, so workers need not poll */
    void (*idle_changed)(void *arg); /* df_imports_is_idle() may have changed */
    void *arg;
};

struct df_imports_options {
    struct df_store *store;
    struct df_storage *storage;
    struct df_outbound *outbound;
    const struct df_clock *clock;
    const char *data_dir;
    const struct df_instance *instance; /* this process */
    struct df_locks *locks;             /* who holds one works on the batch */
    struct df_imports_settings settings;
    int64_t give_up_ms; /* a batch is Failed when OmniFlow has taken nothing of it for so long */
    const struct df_zone *zone;               /* of business hours */
    const struct df_maintenance *maintenance; /* the server's own windows; NULL: none */
    struct df_keys *keys;                     /* of the index of people, and of what is kept */
    const struct df_masker *masker;           /* of what is stored; NULL: it is stored as it came */
    int64_t payload_ttl_ms; /* of what is kept of failed items, from the batch's end */
    struct df_imports_queue queue;
    struct df_webhooks *webhooks; /* woken when there are events of batches to deliver; or NULL */
};

/* No upload to the outside storage takes longer, so that what is older may be swept. */
#define DF_UPLOAD_LONGEST_MS (INT64_C(12) * 3600 * 1000)

struct df_imports;

/* For every process that receives or works; start only with the role `import`. */
struct df_imports *df_imports_new(const struct df_imports_options *opt);
void df_imports_start(struct df_imports *i);
/* Stops claiming and sending, and has the batches given back: the next process that looks goes on
 * with them. Calls under way have 1.5 s, then they are cut off; their chunks are sent again under
 * the same keys. Returns at once. NULL is fine. */
void df_imports_leave(struct df_imports *i);
/* The same, and waits up to drain_ms for the workers. */
void df_imports_stop(struct df_imports *i, int64_t drain_ms);
/* Waits for the workers. Call it after the HTTP client was stopped, which cuts off calls under way,
 * and before the store is closed. */
void df_imports_end(struct df_imports *i);
void df_imports_free(struct df_imports *i);
const struct df_imports_options *df_imports_options_of(const struct df_imports *i);

/* Tells that there is a new batch, or that one is due: wakes the workers, and whoever sends what
 * was announced. Cheap; any thread. */
void df_imports_wake(struct df_imports *i);
/* An operator took the batch from its owner: takes the lock too. has_all: it had the lock of the
 * installation (exclusive mode). Any thread. */
void df_imports_break_lock(struct df_imports *i, const struct df_uuid *client,
                           const struct df_uuid *batch, bool has_all);
/* Whether a worker of this process has no batch. */
bool df_imports_is_idle(struct df_imports *i);
/* A message tells of a batch: has an idle worker look for one, and waits until it has, whatever it
 * found. False: all workers have batches. */
bool df_imports_try(struct df_imports *i);
/* Tells that an ack of this batch was stored (ImportChunk.AckJson). Any thread. */
void df_imports_acked(struct df_imports *i, const struct df_uuid *batch);

/* For the role `maintain`, every minute or so: frees locks that are not renewed. */
void df_imports_maintain(struct df_imports *i);
/* Likewise, while a queue tells of batches: makes those Pending that are due, and tells of them.
 * Returns the milliseconds until the next look. */
int64_t df_imports_due_turn(struct df_imports *i);
/* Sets the gauges of batches that wait. */
void df_imports_take_backlog(struct df_imports *i);
/* For every process, every minute or so: removes files on its disk of batches that are over or do
 * not exist, and copies of objects that are not used. */
void df_imports_sweep_disk(struct df_imports *i);
/* A step of removing objects of the outside storage whose batch is over or does not exist; returns
 * the milliseconds until the next, or DF_LOOP_IDLE if there is nothing to sweep. */
int64_t df_imports_sweep_turn(struct df_imports *i);
/* A step of removing failed records whose time is over; returns the milliseconds until the next. */
int64_t df_imports_expire_turn(struct df_imports *i);

#endif

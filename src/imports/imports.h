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
struct df_webhooks;

struct df_imports_options {
    struct df_store *store;
    struct df_storage *storage;
    struct df_outbound *outbound;
    const struct df_clock *clock;
    const char *data_dir;
    const struct df_instance *instance; /* this process */
    struct df_imports_settings settings;
    int64_t give_up_ms; /* a batch is Failed when OmniFlow has taken nothing of it for so long */
    const struct df_zone *zone;               /* of business hours */
    const struct df_maintenance *maintenance; /* the server's own windows; NULL: none */
    struct df_webhooks *webhooks; /* woken when there are events of batches to deliver; or NULL */
};

struct df_imports;

/* For every process that receives or works; start only with the role `import`. */
struct df_imports *df_imports_new(const struct df_imports_options *opt);
void df_imports_start(struct df_imports *i);
/* Stops claiming and sending, waits up to drain_ms for calls under way, and gives the batches back:
 * the next process that looks goes on with them. */
void df_imports_stop(struct df_imports *i, int64_t drain_ms);
/* Waits for the workers. Call it after the HTTP client was stopped, which cuts off calls under way,
 * and before the store is closed. */
void df_imports_end(struct df_imports *i);
void df_imports_free(struct df_imports *i);
const struct df_imports_options *df_imports_options_of(const struct df_imports *i);

/* Tells that there is a new batch, or that one is due. Cheap; any thread. */
void df_imports_wake(struct df_imports *i);
/* Tells that an ack of this batch was stored (ImportChunk.AckJson). Any thread. */
void df_imports_acked(struct df_imports *i, const struct df_uuid *batch);

/* For the role `maintain`, every minute or so: frees locks that are not renewed, and removes files
 * of batches that are over or do not exist. */
void df_imports_maintain(struct df_imports *i);

#endif

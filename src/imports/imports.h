/*
 * Imports: files that clients upload, cut into chunks, sent to OmniFlow and acknowledged.
 *
 * Receiving (receive_api.c) stores the file and the batch's row, one commit, and wakes the workers
 * here. A worker owns one batch at a time: it holds the lock (worker.c), reads the file from the
 * start, sends chunks, waits for acks and settles (pipeline.c). docs/imports.md tells users; the
 * head of each file tells the rest.
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

struct df_webhooks;

struct df_imports_options {
    struct df_store *store;
    struct df_storage *storage;
    struct df_outbound *outbound;
    const struct df_clock *clock;
    const char *data_dir;
    struct df_imports_settings settings;
    const struct df_zone *zone;               /* of business hours */
    const struct df_maintenance *maintenance; /* the server's own windows; NULL: none */
    struct df_webhooks *webhooks; /* woken when somebody is to hear of a batch; or NULL */
};

struct df_imports;

/* For every process that receives or works; start only where the role `import` is. */
struct df_imports *df_imports_new(const struct df_imports_options *opt);
void df_imports_start(struct df_imports *i);
/* Claims nothing more, sends nothing more, waits up to drain_ms for what is on its way, then gives
 * the lock back: whoever looks next goes on. */
void df_imports_stop(struct df_imports *i, int64_t drain_ms);
/* Waits for the workers. After the HTTP client was stopped, which cuts off what is on its way, and
 * before the store is closed. */
void df_imports_end(struct df_imports *i);
void df_imports_free(struct df_imports *i);
const struct df_imports_options *df_imports_options_of(const struct df_imports *i);

/* There is a new batch, or one is due. Cheap; any thread. */
void df_imports_wake(struct df_imports *i);
/* An ack of this batch was stored (ImportChunk.AckJson). */
void df_imports_acked(struct df_imports *i, const struct df_uuid *batch);

/* The `maintain` role, every minute or so: frees locks that nobody renews, removes files of batches
 * that are over or that never came to be. */
void df_imports_maintain(struct df_imports *i);

#endif

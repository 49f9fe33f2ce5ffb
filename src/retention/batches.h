/*
 * Removing a batch and everything that belongs to it, for retention and for purge.
 *
 *   mark      RemovingAt: nobody sees the batch any more, nobody can retry it, its Idempotency-Key
 * is free rows      items, chunks, kept payloads and index, webhook deliveries with their attempts
 * and failures: a few hundred in each transaction files     local directory, spool, and the object
 * in the bucket row       the batch itself, last: as long as it is there, a removal that was broken
 * off goes on
 *
 * Each step may be repeated; after a crash, retention goes on with every batch that has a mark.
 */
#ifndef DF_RETENTION_BATCHES_H
#define DF_RETENTION_BATCHES_H

#include "base/uuid.h"
#include "files/storage.h"
#include "store/store.h"

struct df_remove_options {
    struct df_store *store;
    struct df_storage *storage;
    const struct df_clock *clock;
    /* Retention: a batch stays while an event of it waits for a person. Purge: they go with it. */
    bool keep_given_up;
    int64_t step_rows; /* of a transaction; 0: 300 */
};

struct df_removed {
    int64_t batches, items, chunks, kept, deliveries, attempts, failures, files;
};

/* One step: a transaction, or the removal of the files; *ret_done when the batch is gone. *counts
 * grows. DF_E_CONFLICT: the batch is not over, or an event of it is on its way (or, with
 * keep_given_up, waits for a person). DF_E_NOT_FOUND: there is no such batch. Blocks, as all of the
 * store and the storage. */
enum df_code df_batch_remove_step(const struct df_remove_options *opt, const struct df_uuid *batch,
                                  struct df_removed *counts, bool *ret_done,
                                  struct df_err *err) DF_MUST_CHECK;

#endif

/*
 * The stored states of a batch, its items and its chunks, and their names in the API and the
 * console. docs/imports.md has the state machines.
 */
#ifndef DF_IMPORTS_BATCH_H
#define DF_IMPORTS_BATCH_H

#include "base/str.h"

/* ImportBatch.Status */
enum df_batch_status {
    DF_BATCH_PENDING,
    DF_BATCH_PROCESSING,
    DF_BATCH_SCHEDULED,
    DF_BATCH_COMPLETED,
    DF_BATCH_COMPLETED_WITH_ERRORS,
    DF_BATCH_FAILED,
    DF_BATCH_CANCELLED,
    DF_BATCH_STATUSES
};

/* ImportBatch.CutRules of a batch with a mapping (process/process_private.h has the others). */
#define DF_IMPORT_RULES_MAPPED 4

/* ImportItem.Status */
enum df_item_status {
    DF_ITEM_STATUS_IMPORTED,
    DF_ITEM_STATUS_ERROR,
    DF_ITEM_STATUS_SKIPPED,
    DF_ITEM_STATUSES
};

/* ImportChunk.Status. From IMPORTED on the chunk is settled and never sent again. */
enum df_chunk_status {
    DF_CHUNK_PENDING,
    DF_CHUNK_SENDING,
    DF_CHUNK_AWAITING_ACK,
    DF_CHUNK_IMPORTED,
    DF_CHUNK_ERROR,
    DF_CHUNK_SKIPPED,
    DF_CHUNK_STATUSES
};

/* "CompletedWithErrors"; "Unknown" for any other number. */
const char *df_batch_status_name(int64_t status);
const char *df_item_status_name(int64_t status);
const char *df_chunk_status_name(int64_t status);
/* The name may be in any case. */
bool df_batch_status_parse(struct df_str name, enum df_batch_status *ret);
bool df_item_status_parse(struct df_str name, enum df_item_status *ret);
/* The batch has ended; only a client's retry begins it again. */
bool df_batch_is_over(int64_t status);

#endif

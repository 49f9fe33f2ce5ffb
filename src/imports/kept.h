/*
 * What is kept of an item that failed, for reports and retries: the record as it was uploaded and
 * the item as it was sent, byte for byte. Both are one row of ImportKept, encrypted for its place.
 * The rows go when the batch's time is over (ImportBatch.KeptUntil).
 */
#ifndef DF_IMPORTS_KEPT_H
#define DF_IMPORTS_KEPT_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/uuid.h"

struct df_keys;

struct import_kept {
    struct df_str record; /* absent: it was too long to be kept */
    struct df_str item;   /* absent: the record could not be sent */
};

/* Appends the ciphertext. */
void import_kept_seal(struct df_keys *keys, const struct df_uuid *batch, int64_t sequence,
                      const struct import_kept *kept, struct df_buf *out);
/* Memory: the arena. */
enum df_code import_kept_open(struct df_keys *keys, const struct df_uuid *batch, int64_t sequence,
                              struct df_str sealed, struct df_arena *a, struct import_kept *ret,
                              struct df_err *err) DF_MUST_CHECK;

/* How far kept records were brought under the current data key. Zeroed: not begun. */
struct df_kept_rekey {
    size_t changed;
    size_t lost;       /* do not open */
    uint32_t lost_key; /* of one of them */
    bool done;
};

struct df_store;
/* One page of records. Harmless if several processes do it. Waits for the store. */
enum df_code df_kept_rekey(struct df_store *store, struct df_keys *keys, struct df_kept_rekey *r,
                           struct df_err *err) DF_MUST_CHECK;

#endif

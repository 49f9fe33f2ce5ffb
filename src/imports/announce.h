/*
 * Tells the workers of all processes that a batch may be taken: a row of batch_ready_outbox, in the
 * transaction that makes the batch ready. The wiring's relay brings it to the broker, whose message
 * makes an idle worker look (process/idle.c). After the commit, df_imports_wake() wakes the workers
 * of this process and that relay.
 *
 * A message is a hint. It may be lost, late or repeated; what counts is the batch's row. So nothing
 * is written with imports.queue = poll, and rows are removed after an hour.
 */
#ifndef DF_IMPORTS_ANNOUNCE_H
#define DF_IMPORTS_ANNOUNCE_H

#include "imports/imports.h"

/* Why is one word, for people: new, retried, givenBack, gaveWay, released. */
enum df_code import_announce(struct df_db *db, const struct df_imports *i,
                             const struct df_uuid *batch, const char *why,
                             struct df_err *err) DF_MUST_CHECK;
/* Makes scheduled batches that are due Pending. *ret: how many there were, of which the others are
 * told. */
enum df_code import_make_due(struct df_db *db, const struct df_imports *i, int64_t *ret,
                             struct df_err *err) DF_MUST_CHECK;
/* Of batches whose lock was not renewed since `before`, and is about to be freed. */
enum df_code import_announce_stale(struct df_db *db, const struct df_imports *i,
                                   struct df_value before, struct df_err *err) DF_MUST_CHECK;
/* The batch's owner releases its lock: others may take the oldest batch that waited for it. */
enum df_code import_announce_next(struct df_db *db, const struct df_imports *i,
                                  const struct df_uuid *batch, bool of_client,
                                  struct df_err *err) DF_MUST_CHECK;
/* Removes rows that are over. */
enum df_code import_forget_announced(struct df_db *db, const struct df_imports *i,
                                     struct df_err *err) DF_MUST_CHECK;

#endif

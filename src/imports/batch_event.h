/* Events of batches for the client's webhooks. Receiving emits BatchScheduled, processing emits
 * BatchStarted, BatchCompleted and BatchFailed. */
#ifndef DF_IMPORTS_BATCH_EVENT_H
#define DF_IMPORTS_BATCH_EVENT_H

#include "base/clock.h"
#include "base/uuid.h"
#include "store/db.h"

/*
 * Emits the event with the batch's present figures, in the transaction that makes it true. *ret
 * becomes true if there is something to deliver after the commit (df_webhooks_wake), and is left
 * alone otherwise.
 */
enum df_code import_emit(struct df_db *db, const struct df_clock *clock,
                         const struct df_uuid *batch, const char *event, bool *ret,
                         struct df_err *err) DF_MUST_CHECK;

#endif

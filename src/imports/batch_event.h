/*
 * What a client's webhooks hear of its batches. Receiving tells of BatchScheduled, the processing
 * of the rest.
 */
#ifndef DF_IMPORTS_BATCH_EVENT_H
#define DF_IMPORTS_BATCH_EVENT_H

#include "base/clock.h"
#include "base/uuid.h"
#include "store/db.h"

/*
 * In the transaction that makes it true: tells the client's subscriptions of the batch as it now
 * is. *ret is set when there is something to deliver after the commit (df_webhooks_wake), and left
 * alone otherwise.
 */
enum df_code import_emit(struct df_db *db, const struct df_clock *clock,
                         const struct df_uuid *batch, const char *event, bool *ret,
                         struct df_err *err) DF_MUST_CHECK;

#endif

/* Functional acks that wait to be sent. */
#ifndef DF_INTERFACE_ACKS_H
#define DF_INTERFACE_ACKS_H

#include "base/trace.h"
#include "store/db.h"

/*
 * Adds an ack to the outbox, due at once, inside the caller's transaction; wake DF_WORK_ACKS after
 * the commit. target_url is absent while none is configured; the channel fills it in later.
 * client_id is the owner of the document; absent: it has none. `trace` is the request's context.
 */
enum df_code df_ack_enqueue(struct df_db *db, struct df_str business_doc_id, struct df_str payload,
                            struct df_str target_url, struct df_str client_id,
                            const struct df_trace *trace, int64_t now_ms, int64_t *ret_id,
                            struct df_err *err) DF_MUST_CHECK;

#endif

/* Private to imports/: a batch and its payloads as the API shows them. */
#ifndef DF_IMPORTS_BATCH_VIEW_H
#define DF_IMPORTS_BATCH_VIEW_H

#include "base/uuid.h"
#include "net/http.h"
#include "store/db.h"
#include "json/write.h"

/* The object of GET /imports/{batchId}, of a row of batch_get, batch_page or batch_watch. */
void df_batch_write(struct df_result *r, struct df_json_out *out);

/* A value that is stored as JSON, as it is; null when it is none. */
void df_json_stored(struct df_json_out *out, struct df_str json);

/* The batch of a client, as an object; DF_E_NOT_FOUND when there is no such batch of that client.
 */
enum df_code df_batch_read(struct df_db *db, const struct df_uuid *id, const struct df_uuid *client,
                           struct df_json_out *out, int64_t *ret_status,
                           struct df_err *err) DF_MUST_CHECK;

/* {batchId} of the path. False: it is none, and the answer (404) is set. */
bool df_batch_param(struct df_req *req, struct df_uuid *ret);
enum df_code df_batch_not_found(const struct df_uuid *id, struct df_err *err) DF_MUST_CHECK;

#endif

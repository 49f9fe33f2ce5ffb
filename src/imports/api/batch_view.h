/* A batch and its stored JSON as the API shows them. Private to imports/api. */
#ifndef DF_IMPORTS_BATCH_VIEW_H
#define DF_IMPORTS_BATCH_VIEW_H

#include "access/handler.h"
#include "base/uuid.h"
#include "net/http.h"
#include "store/db.h"
#include "json/write.h"

struct df_imports;

/* What a row does not tell: the time, and how things stand. */
struct df_batch_scene {
    int64_t now_ms;
    int64_t probe_ms;      /* between two looks whether OmniFlow is back */
    bool is_away;          /* OmniFlow takes nothing from this process: its breaker is not closed */
    int64_t away_since_ms; /* wall */
    int64_t away_next_ms;  /* wall: the next probe; -1: not known */
    int64_t place;         /* in line, from 1; 0: not looked up, or not in line */
    struct df_uuid behind; /* the batch before it; empty: none */
};
struct df_batch_scene df_batch_scene_now(const struct df_imports *i, int64_t now_ms);
/* Fills in place and behind, if the batch waits for a worker. */
enum df_code df_batch_scene_line(struct df_db *db, const struct df_imports *i,
                                 const struct df_uuid *id, struct df_batch_scene *scene,
                                 struct df_err *err) DF_MUST_CHECK;

/* Writes the object of GET /imports/{batchId} from a row of batch_get, batch_page or batch_watch.
 */
void df_batch_write(struct df_result *r, const struct df_batch_scene *scene,
                    struct df_json_out *out);
/* The same from a row of batch_operator_get or batch_operator_page, with what operators see. */
void df_batch_write_operator(struct df_result *r, const struct df_batch_scene *scene,
                             struct df_json_out *out);

bool df_json_is_valid(struct df_str s);
/* Writes a value that is stored as JSON; null if it is not valid JSON. */
void df_json_stored(struct df_json_out *out, struct df_str json);

/* Writes the batch as an object. DF_E_NOT_FOUND: the client has no such batch. */
enum df_code df_batch_read(struct df_db *db, const struct df_uuid *id, const struct df_uuid *client,
                           const struct df_batch_scene *scene, struct df_json_out *out,
                           int64_t *ret_status, struct df_err *err) DF_MUST_CHECK;

/*
 * Whose batches a call may see. A client's call: its own. An operator's: all, and *client becomes
 * the client of the batch, with which the client's own queries work. DF_E_NOT_FOUND: there is no
 * such batch.
 */
bool df_batch_is_operator(const struct df_req *req);
enum df_code df_batch_scope(struct df_db *db, const struct df_req *req, const struct df_uuid *id,
                            struct df_uuid *client, struct df_err *err) DF_MUST_CHECK;
/* Reads {batchId} from the path. False: it is not an id, and the answer (404) is set. */
bool df_batch_param(struct df_req *req, struct df_uuid *ret);
enum df_code df_batch_not_found(const struct df_uuid *id, struct df_err *err) DF_MUST_CHECK;

#endif

/*
 * The audit log: one row for each sensitive operation, written in the same transaction as the
 * operation itself, so that neither exists without the other.
 */
#ifndef DF_ACCESS_AUDIT_H
#define DF_ACCESS_AUDIT_H

#include "net/http.h"
#include "store/db.h"

/* Who did it and from where. All borrowed. */
struct df_actor {
    struct df_str name; /* "admin", "cli:root", … */
    struct df_str ip;
    struct df_str correlation_id;
};

/* The administrator behind a request; borrowed from it. */
struct df_actor df_actor_of(const struct df_req *req);

/* Inside the caller's transaction. client_id and details may be absent. */
enum df_code df_audit_write(struct df_db *db, const struct df_actor *by, const char *action,
                            struct df_str target, struct df_str client_id, struct df_str details,
                            int64_t now_ms, struct df_err *err) DF_MUST_CHECK;

struct df_json_out;
/* Writes a page of rows, newest first, as JSON objects. */
enum df_code df_audit_list(struct df_db *db, int64_t limit, int64_t offset, struct df_json_out *out,
                           int64_t *ret_total, struct df_err *err) DF_MUST_CHECK;

#endif

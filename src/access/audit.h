/*
 * The audit log: one row for each sensitive operation, written in the same transaction as the
 * operation itself, so that neither exists without the other.
 *
 * Entries are a chain: each has the next number and a keyed hash of itself and of the hash before
 * it, and AuditHead has the last of both. Whoever changes, removes or inserts rows without the key
 * breaks it (access/audit_verify.h finds where). Writers lock the head until their transaction
 * ends: write the entry last.
 *
 * Entries without a number are of older releases, or were written while the keys were not known.
 * They are sealed by whoever writes the next entry, and by df_audit_seal.
 */
#ifndef DF_ACCESS_AUDIT_H
#define DF_ACCESS_AUDIT_H

#include "net/http.h"
#include "store/db.h"

struct df_keys;

/* Who did it and from where. All borrowed. */
struct df_actor {
    struct df_str name; /* "admin", "admin:NAME", "client:ID", "cli:root", … */
    struct df_str ip;
    struct df_str correlation_id;
    const char *role; /* of a named admin key; NULL: not one of these */
};

/* The client or the administrator behind a request; borrowed from it. */
struct df_actor df_actor_of(struct df_req *req);

/* The keys of the chain, for this process; they outlive their use. NULL: entries are left unsealed.
 * Before other threads use this room. */
void df_audit_use_keys(const struct df_keys *keys);

/* Inside the caller's transaction. client_id and details (a JSON object) may be absent. */
enum df_code df_audit_write(struct df_db *db, const struct df_actor *by, const char *action,
                            struct df_str target, struct df_str client_id, struct df_str details,
                            int64_t now_ms, struct df_err *err) DF_MUST_CHECK;

/* The same with all that an entry has. */
struct df_audit_entry {
    const struct df_actor *by;
    const char *action;
    const char *outcome;     /* NULL: "ok"; "failed", "denied" */
    struct df_str target;    /* cut at the column's length */
    struct df_str client_id; /* a UUID */
    struct df_str details;
    int64_t now_ms;
};
enum df_code df_audit_add(struct df_db *db, const struct df_audit_entry *e,
                          struct df_err *err) DF_MUST_CHECK;

/* Seals entries that have no number, the oldest first, at most `limit` of them. Inside the caller's
 * transaction. ret_sealed: how many. */
enum df_code df_audit_seal(struct df_db *db, int64_t limit, int64_t *ret_sealed,
                           struct df_err *err) DF_MUST_CHECK;

/*
 * Removes the oldest entries of the chain that are older than the cutoff, at most `limit` of them,
 * and has a signed stub stand for them. Inside the caller's transaction. ret_removed: how many.
 * If the stub or one of these entries is not what a server wrote, nothing is removed, and the log
 * says so. DF_E_DB_CONFLICT: another run came first.
 */
enum df_code df_audit_retain(struct df_db *db, int64_t cutoff_ms, int64_t limit, int64_t now_ms,
                             int64_t *ret_removed, struct df_err *err) DF_MUST_CHECK;

/* What keeps retention from removing entries. */
struct df_audit_fault {
    int64_t sequence;
    const char *what; /* "was changed"; NULL: there is no fault */
};
/* Looks for one in the stub and in the oldest entries, at most `limit` of them. */
enum df_code df_audit_look_oldest(struct df_db *db, const struct df_keys *keys, int64_t limit,
                                  struct df_audit_fault *ret, struct df_err *err) DF_MUST_CHECK;

#endif

/*
 * Purge: removes documents for good, on an operator's word. A purge is about one of
 *
 *   batch     one batch; 409 while it is on its way
 *   client    the batches of a client, its tickets with their returns, its acks, counterparties,
 *             events, calls and webhook deliveries; the client and its subscriptions stay
 *   older     the batches that ended before a time
 *   subject   a person: the documents stay, what they say is erased (erase.h)
 *
 * Each is a row of PurgeJobs, which any process may work on, one at a time (a lease in the row, and
 * a fence): a request runs a small one to its end, the role `maintain` takes up the others, and
 * those that a crash left. A step is one short transaction, or one step of batches.h, and is safe
 * to repeat. Batches are counted before they are removed, and the counts stand in the row until
 * they are gone; other documents are counted in the transaction that removes them. So the counts
 * are true, whatever was broken off.
 */
#ifndef DF_RETENTION_PURGE_H
#define DF_RETENTION_PURGE_H

#include "access/audit.h"
#include "base/uuid.h"
#include "files/storage.h"
#include "keys/keys.h"
#include "privacy/subjects.h"
#include "store/store.h"

enum df_purge_kind { DF_PURGE_BATCH, DF_PURGE_CLIENT, DF_PURGE_OLDER, DF_PURGE_SUBJECT };

/* Rows by table, and files. */
enum df_purged {
    DF_PURGED_BATCHES,
    DF_PURGED_ITEMS,
    DF_PURGED_CHUNKS,
    DF_PURGED_KEPT,
    DF_PURGED_DELIVERIES,
    DF_PURGED_FAILURES,
    DF_PURGED_ATTEMPTS,
    DF_PURGED_TICKETS,
    DF_PURGED_RETURNS,
    DF_PURGED_ACKS,
    DF_PURGED_COUNTERPARTIES,
    DF_PURGED_EVENTS,
    DF_PURGED_CALLS,
    DF_PURGED_FILES,
    DF_PURGED_COUNT
};

struct df_purge_counts {
    int64_t n[DF_PURGED_COUNT];
};

/* The table's name, or "files". */
const char *df_purged_name(enum df_purged kind);
/* {"ImportBatch": 3, …}, without what is 0. */
struct df_json_out;
void df_purge_counts_write(const struct df_purge_counts *c, struct df_json_out *out);

#define DF_PURGE_DAYS_MAX 36500

struct df_purge_request {
    enum df_purge_kind kind;
    struct df_uuid batch;
    struct df_str client; /* its identifier */
    int64_t days;
    struct df_subject subject;
    bool dry_run;
};

/* A document that is on its way. */
struct df_purge_waiting {
    char place[16]; /* "ticket", "item", … */
    char row[56];   /* its id; of an item: batch and sequence */
};
#define DF_PURGE_WAITING_MAX 50

struct df_purge_outcome {
    struct df_uuid id;              /* of the job; empty for a dry run */
    bool done;                      /* else a job goes on */
    bool waits;                     /* it comes again once what is on its way is over */
    struct df_purge_counts counts;  /* of a dry run: what would be removed */
    struct df_purge_counts skipped; /* on their way */
    /* Why a person can't be erased yet; not more than fit. */
    struct df_purge_waiting waiting[DF_PURGE_WAITING_MAX];
    size_t waiting_count;
};

struct df_purge_options {
    struct df_store *store;
    struct df_storage *storage;
    struct df_keys *keys;
    const struct df_clock *clock;
    const char *data_dir; /* of the ledger of erasures */
};

struct df_purge;

struct df_purge *df_purge_new(const struct df_purge_options *opt);
/* Requests in hand are answered: what they began goes on elsewhere. */
void df_purge_stop(struct df_purge *p);
void df_purge_free(struct df_purge *p);

/*
 * Estimates, and unless it is a dry run makes the job; a small one is run to its end.
 * DF_E_NOT_FOUND: no such batch or client. DF_E_CONFLICT: the batch is on its way, or documents
 * that name the person are: ret->waiting. Blocks.
 */
enum df_code df_purge_run(struct df_purge *p, const struct df_purge_request *req,
                          const struct df_actor *by, struct df_purge_outcome *ret,
                          struct df_err *err) DF_MUST_CHECK;

/* Works on the job for up to a second, unless somebody else does; tells how far it is. */
enum df_code df_purge_go_on(struct df_purge *p, const struct df_uuid *id,
                            struct df_purge_outcome *ret, struct df_err *err) DF_MUST_CHECK;

/* Before anything is served: erasures that a restored database does not have become jobs. An error
 * is logged, and the turn tries again. */
void df_purge_read_ledger(struct df_purge *p);

/* One small step of any job that nobody works on; returns the milliseconds until the next. */
int64_t df_purge_turn(struct df_purge *p);

/* /admin/purge; the argument is the purge. */
struct df_route;
extern const struct df_route df_purge_routes[];

#endif

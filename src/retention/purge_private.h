/* What the files of purge share. */
#ifndef DF_RETENTION_PURGE_PRIVATE_H
#define DF_RETENTION_PURGE_PRIVATE_H

#include "base/pool.h"
#include "retention/purge.h"

#define PURGE_LEASE_MS  20000
#define PURGE_AGAIN_MS  60000 /* before an erasure's next pass: no lease is longer */
#define PURGE_GROUP_MAX 100   /* batches that are counted together */
#define PURGE_LITTLE    5000  /* rows: a request waits for it */

struct df_purge {
    struct df_purge_options opt;
    struct df_pool pool; /* requests in hand */
    _Atomic bool stopping;
    /* Of the turn alone: the job in hand. */
    struct purge_job *current;
    int64_t ledger_ms;                 /* monotonic: when ledger and table are compared next */
    int64_t ledger_rows, ledger_bytes; /* of both, when they were; -1: never */
};

/* A batch in hand, with what it had when it was counted. */
struct purge_batch {
    struct df_uuid id;
    struct df_purge_counts counts;
};

struct purge_job {
    int64_t cutoff_ms; /* -1: none */
    int64_t fence;
    int64_t phase;
    struct df_purge_counts counts, skipped;
    size_t group_count;
    struct purge_batch group[PURGE_GROUP_MAX];
    enum df_purge_kind kind;
    bool running, cancelling;
    struct df_uuid id;
    char target[101];
    char by[201];
    char cursor[65]; /* empty: at the beginning */
    /* Of this step. */
    bool done;
    bool is_lost;                /* somebody else has it, or it has ended */
    int64_t pause_ms;            /* before the next step; 0: none is needed */
    int64_t saved_ms;            /* monotonic */
    struct df_purge_counts told; /* to the metrics */
};

/* --- purge_api.c --- */

/* Answers a request, on the pool's thread. */
void purge_serve(void *arg, void *item);

/* --- purge_job.c --- */

const char *purge_kind_name(enum df_purge_kind kind);
/* Inside a transaction. */
enum df_code purge_job_insert(struct df_db *db, const struct purge_job *j, int64_t now_ms,
                              int64_t lease_until_ms, struct df_err *err) DF_MUST_CHECK;
/* Writes how far the job is, in the transaction of what was done; ends it if it is done. is_lost:
 * nothing of the transaction may stay, and the code is DF_E_CANCELLED. */
enum df_code purge_job_save(struct df_db *db, struct purge_job *j, int64_t now_ms,
                            struct df_err *err) DF_MUST_CHECK;
/* DF_E_NOT_FOUND. */
enum df_code purge_job_load(struct df_db *db, const struct df_uuid *id, struct purge_job *ret,
                            struct df_err *err) DF_MUST_CHECK;
/* Counts what a commit removed, for metrics. */
void purge_count_metrics(const struct df_purge_counts *before, const struct df_purge_counts *now);

/* A job of the store, waited for. */
struct purge_tx {
    struct df_job job;
    struct df_purge *p;
    struct purge_job *j;
    enum df_code (*run)(struct df_db *db, struct df_purge *p, struct purge_job *j, void *arg,
                        struct df_err *err);
    void *arg;
};
enum df_code purge_write(struct purge_tx *tx, struct df_err *err) DF_MUST_CHECK;
enum df_code purge_read(struct purge_tx *tx, struct df_err *err) DF_MUST_CHECK;

/* --- purge_steps.c --- */

/* What would be removed; fills counts and skipped. */
enum df_code purge_estimate(struct df_purge *p, struct purge_job *j,
                            struct df_err *err) DF_MUST_CHECK;
/* Whether it is so little that a request waits for it, without counting much more than that. Also
 * tells what is not there, and what is on its way. */
enum df_code purge_is_little(struct df_purge *p, struct purge_job *j, bool *ret,
                             struct df_err *err) DF_MUST_CHECK;
/* purge_job_save in a transaction of its own. */
enum df_code purge_save(struct df_purge *p, struct purge_job *j, struct df_err *err) DF_MUST_CHECK;
/* One step; sets done, pause_ms or is_lost. */
enum df_code purge_step(struct df_purge *p, struct purge_job *j, struct df_err *err) DF_MUST_CHECK;

#endif

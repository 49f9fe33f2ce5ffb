/*
 * Faults: which calls fail, are answered late or get lost. A fault applies to paths that begin with
 * its prefix, to a share of the calls (`rate`), and for a number of times (`count`), after which it
 * is gone. Several may apply to one call: delays add up, and the first status (or drop) in order of
 * creation wins.
 *
 * Thread-safe. While there is no fault, asking costs one atomic load.
 */
#ifndef DF_SANDBOX_FAULTS_H
#define DF_SANDBOX_FAULTS_H

#include "base/clock.h"
#include "base/lock.h"
#include "json/write.h"

#include <stdatomic.h>

#define DF_SB_FAULTS_MAX     100
#define DF_SB_FAULT_PATH_MAX 512

struct df_sb_fault {
    int64_t id;
    char path[DF_SB_FAULT_PATH_MAX + 1];
    unsigned status;       /* 0: none */
    bool drop;             /* close without an answer */
    bool drop_acks;        /* answer, but send no ack or callback */
    int64_t latency_ms;    /* answer later */
    int64_t retry_after_s; /* with a status: Retry-After; -1: none */
    double rate;           /* 0 to 1 */
    int64_t count;         /* how often it still applies; -1: always */
    int64_t applied;       /* how often it did */
};

struct df_sb_faults {
    struct df_mutex lock;
    _Atomic size_t count;                          /* written under the lock */
    struct df_sb_fault *items DF_GUARDED_BY(lock); /* in order of creation */
    int64_t last_id DF_GUARDED_BY(lock);
    const struct df_clock *clock;
};

/* What happens to a call. */
struct df_sb_effect {
    unsigned status; /* 0: served as usual */
    bool drop;
    bool drop_acks;
    int64_t latency_ms;
    int64_t retry_after_s;
};

void df_sb_faults_init(struct df_sb_faults *f, const struct df_clock *clock);
void df_sb_faults_release(struct df_sb_faults *f);

/* Fills in the id. False: there are too many. */
bool df_sb_faults_add(struct df_sb_faults *f, struct df_sb_fault *fault);

/* Removes the faults of this path; absent: all. Returns their number. */
size_t df_sb_faults_remove(struct df_sb_faults *f, struct df_str path);

struct df_sb_effect df_sb_faults_apply(struct df_sb_faults *f, struct df_str path);

/* The handlers of /_faults. */
struct df_req;
void df_sb_faults_post(struct df_req *req);
void df_sb_faults_get(struct df_req *req);
void df_sb_faults_delete(struct df_req *req);

#endif

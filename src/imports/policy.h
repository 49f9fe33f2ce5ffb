/*
 * The policy's rules for an upload: pure functions of facts, which include the time. Authentication
 * checks suspension and the limiter checks the rate, both before this. docs/policies.md tells users
 * the rules.
 *
 *     before the body       df_policy_admit          by what is known then
 *     while it arrives      df_policy_check_size     with the bytes so far, then with all
 *     when it is complete   df_policy_schedule       now, or at a later time
 */
#ifndef DF_IMPORTS_POLICY_H
#define DF_IMPORTS_POLICY_H

#include "access/maintenance.h"
#include "access/policies.h"
#include "base/zone.h"

#define DF_POLICY_BUSINESS_START     8
#define DF_POLICY_BUSINESS_END       18
#define DF_POLICY_LARGE_THRESHOLD_MB 50 /* when the policy has none */
#define DF_POLICY_UPLOAD_RETRY_S     5

struct df_policy_facts {
    const struct df_policy *policy;
    const struct df_maintenance *maintenance; /* the server's own; may be NULL */
    const struct df_zone *zone;               /* imports.business_time_zone; NULL: UTC */
    int64_t now_ms;
    int64_t uploads;       /* of this client in progress, without this one */
    int64_t batches_today; /* of this client since df_policy_day's start, without this one */
    int64_t stored_bytes;  /* in the client's temporary storage, without this file */
    int64_t size_bytes;    /* of the file: at least this many; in the end, its size */
};

/* The day that MaxBatchPerDay counts: midnight to midnight in the zone of the business hours. */
void df_policy_day(const struct df_zone *zone, int64_t now_ms, int64_t *ret_start_ms,
                   int64_t *ret_end_ms);

/*
 * DF_OK, or the first rule that refuses, in the contract's order: DF_E_MAINTENANCE_WINDOW,
 * DF_E_CONCURRENT_UPLOADS, DF_E_MAX_FILE_SIZE, DF_E_MAX_BATCH_PER_DAY, DF_E_TEMP_STORAGE_QUOTA. The
 * detail tells what to do; *ret_retry_after_s is for Retry-After, 0: none.
 */
enum df_code df_policy_admit(const struct df_policy_facts *f, int64_t *ret_retry_after_s,
                             struct df_err *err) DF_MUST_CHECK;
/* Only the two rules about size. */
enum df_code df_policy_check_size(const struct df_policy_facts *f,
                                  struct df_err *err) DF_MUST_CHECK;
/* The largest size that df_policy_check_size admits, so that not every byte needs a check.
 * INT64_MAX: any. */
int64_t df_policy_size_limit(const struct df_policy_facts *f);

/* Writes the member "maintenance", {from, to, active} or null: the maintenance in force or the next
 * one, the server's and the client's windows together. */
void df_policy_write_maintenance(const struct df_policy_facts *f, struct df_json_out *out);

struct df_policy_decision {
    bool scheduled;
    int64_t scheduled_for_ms; /* -1: immediate */
    const char *rule;         /* the policy's column that makes it wait; NULL: immediate */
};

/*
 * A batch is scheduled if the hour is not allowed, if its file is large and large files must be
 * scheduled, or if its file is large, large files avoid business hours, and it is business hours.
 * It then waits for the first moment that is allowed, in no maintenance window and, for a large
 * file, not in business hours. If scheduling is required, that moment is a full hour to come, and
 * so never now. If there is no such moment within two months, the batch is scheduled for the end of
 * them.
 */
struct df_policy_decision df_policy_schedule(const struct df_policy_facts *f);

#endif

/*
 * What the policy says of an upload: pure functions of the facts, the time among them. Suspension
 * is authentication's, the rate the limiter's; both come before. docs/policies.md tells the rules
 * to users.
 *
 *     at the head           df_policy_admit          what is known before the body
 *     while it arrives      df_policy_check_size     with the bytes so far, then with all
 *     when it is whole      df_policy_schedule       now, or when
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
    int64_t uploads;       /* of this client in progress, this one not counted */
    int64_t batches_today; /* of this client since df_policy_day's start, this one not counted */
    int64_t stored_bytes;  /* in its temporary storage, this file not counted */
    int64_t size_bytes; /* what the file has at least, as far as is known; in the end: its size */
};

/* The day that MaxBatchPerDay counts: midnight to midnight in the zone of the business hours. */
void df_policy_day(const struct df_zone *zone, int64_t now_ms, int64_t *ret_start_ms,
                   int64_t *ret_end_ms);

/*
 * DF_OK, or the rule that refuses, in the contract's order: DF_E_MAINTENANCE_WINDOW,
 * DF_E_CONCURRENT_UPLOADS, DF_E_MAX_FILE_SIZE, DF_E_MAX_BATCH_PER_DAY, DF_E_TEMP_STORAGE_QUOTA. The
 * detail says what to do; *ret_retry_after_s is for Retry-After, 0: none.
 */
enum df_code df_policy_admit(const struct df_policy_facts *f, int64_t *ret_retry_after_s,
                             struct df_err *err) DF_MUST_CHECK;
/* The two rules about size alone. */
enum df_code df_policy_check_size(const struct df_policy_facts *f,
                                  struct df_err *err) DF_MUST_CHECK;
/* The size at which df_policy_check_size would refuse, less one: so that bytes can be counted
 * without asking. INT64_MAX: never. */
int64_t df_policy_size_limit(const struct df_policy_facts *f);

/* What is to be told of maintenance, the one in force or the next, the server's and the client's
 * together, as member "maintenance" of an object: {from, to, active} or null. */
void df_policy_write_maintenance(const struct df_policy_facts *f, struct df_json_out *out);

struct df_policy_decision {
    bool scheduled;
    int64_t scheduled_for_ms; /* -1 when it is immediate */
    const char *rule;         /* the column that has it wait; NULL when it is immediate */
};

/*
 * Waits when the hour is not an allowed one, or the file is large and scheduling is required for
 * such, or large and it is business hours, which large ones avoid. Then until the first moment that
 * is allowed, in no maintenance window and, for a large file, not in business hours; where
 * scheduling is required on a full hour to come, so that it is never at once. Where there is no
 * such moment in the next two months it is let go then.
 */
struct df_policy_decision df_policy_schedule(const struct df_policy_facts *f);

#endif

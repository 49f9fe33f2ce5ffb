/*
 * Client policies: table ClientPolicies, one row a client, for the API, the command line and the
 * imports. Operations run on the caller's connection, inside its transaction, and write their audit
 * row in it. imports/policy.h decides what the values mean for an upload.
 */
#ifndef DF_ACCESS_POLICIES_H
#define DF_ACCESS_POLICIES_H

#include "access/audit.h"
#include "base/uuid.h"
#include "json/write.h"

#define DF_POLICY_NONE       (-1) /* NULL: no limit, or the server's default */
#define DF_POLICY_WINDOW_MAX 100
#define DF_POLICY_MB         INT64_C(1048576)

enum df_policy_kind {
    DF_POLICY_NUMBER,
    DF_POLICY_SWITCH,     /* 0, 1 or none */
    DF_POLICY_NEVER_NULL, /* a switch that is off when it is not set */
    DF_POLICY_WINDOW,     /* text: access/maintenance.h */
};

/*    member, column, name in JSON, kind, least, most, what it is */
/* clang-format off */
#define DF_POLICY_FIELDS(X) \
    X(max_file_size_mb,             MaxFileSizeMb,             "maxFileSizeMb",             NUMBER,     1, 1048576, "largest file, in MB of 1,048,576 bytes") \
    X(max_batch_per_day,            MaxBatchPerDay,            "maxBatchPerDay",            NUMBER,     1, 1000000, "files a day") \
    X(allowed_start_hour,           AllowedStartHour,          "allowedStartHour",          NUMBER,     0, 23,      "processing is allowed from this hour, UTC") \
    X(allowed_end_hour,             AllowedEndHour,            "allowedEndHour",            NUMBER,     0, 24,      "... to this one; not after the start: over midnight") \
    X(require_scheduling_for_large, RequireSchedulingForLarge, "requireSchedulingForLarge", NEVER_NULL, 0, 1,       "large files are always scheduled") \
    X(large_threshold_mb,           LargeThresholdMb,          "largeThresholdMb",          NUMBER,     0, 1048576, "a file over this is large; 50 unless it is set") \
    X(batch_size,                   BatchSize,                 "batchSize",                 NUMBER,     1, 10000,   "records in a chunk") \
    X(requests_per_minute,          RequestsPerMinute,         "requestsPerMinute",         NUMBER,     1, 1000000, "requests a minute") \
    X(concurrent_uploads,           ConcurrentUploads,         "concurrentUploads",         NUMBER,     1, 1000,    "uploads at a time") \
    X(business_hours_only,          BusinessHoursOnly,         "businessHoursOnly",         SWITCH,     0, 1,       "large files wait while it is business hours") \
    X(business_start_hour,          BusinessStartHour,         "businessStartHour",         NUMBER,     0, 23,      "business hours, Monday to Friday, in imports.business_time_zone; from 8 unless it is set") \
    X(business_end_hour,            BusinessEndHour,           "businessEndHour",           NUMBER,     0, 24,      "... to this one; 18 unless it is set") \
    X(maintenance_window,           MaintenanceWindow,         "maintenanceWindow",         WINDOW,     0, 0,       "no uploads in this time, UTC") \
    X(temp_storage_quota_mb,        TempStorageQuotaMb,        "tempStorageQuotaMb",        NUMBER,     1, 1048576, "space for files that are not done with") \
    X(max_concurrent_batches,       MaxConcurrentBatches,      "maxConcurrentBatches",      NUMBER,     1, 256,     "batches at a time, in concurrent mode") \
    X(max_records,                  MaxRecords,                "maxRecords",                NUMBER,     1, 2147483647, "records of one file; never more than imports.max_records")
/* clang-format on */

enum df_policy_field {
#define X(member, column, name, kind, min, max, help) DF_POLICY_##column,
    DF_POLICY_FIELDS(X)
#undef X
        DF_POLICY_FIELD_COUNT
};

/* Numbers and switches that are not set are DF_POLICY_NONE. */
struct df_policy {
    int64_t max_file_size_mb;
    int64_t max_batch_per_day;
    int64_t allowed_start_hour;
    int64_t allowed_end_hour;
    int64_t require_scheduling_for_large; /* 0 or 1 */
    int64_t large_threshold_mb;
    int64_t batch_size;
    int64_t requests_per_minute;
    int64_t concurrent_uploads;
    int64_t business_hours_only;
    int64_t business_start_hour;
    int64_t business_end_hour;
    char maintenance_window[DF_POLICY_WINDOW_MAX + 1]; /* empty: none */
    int64_t temp_storage_quota_mb;
    int64_t max_concurrent_batches;
    int64_t max_records;
    int64_t created_at; /* milliseconds; -1: there is no row, all is the default */
    int64_t updated_at;
};

/* As if there were no row. */
void df_policy_init(struct df_policy *p);

/* Finds a field by its column's name or its JSON name, ignoring case. */
bool df_policy_field_find(struct df_str name, enum df_policy_field *ret);
const char *df_policy_field_name(enum df_policy_field f);   /* "maxFileSizeMb" */
const char *df_policy_field_column(enum df_policy_field f); /* "MaxFileSizeMb" */
const char *df_policy_field_help(enum df_policy_field f);

/* A change: the fields that were given, and their values. */
struct df_policy_patch {
    uint32_t given;
    struct df_policy values;
};

/* Empty or absent text clears the field. DF_E_VALIDATION: the value does not fit (the detail says
 * what would, without the field's name), or the field was given before. */
enum df_code df_policy_patch_set(struct df_policy_patch *patch, enum df_policy_field f,
                                 struct df_str value, struct df_err *err) DF_MUST_CHECK;

/* client_id is Clients.Id. Without a row: the defaults. Other programs may have written the row: a
 * number below its minimum counts as not set, one above its maximum as the maximum. */
enum df_code df_policy_load(struct df_db *db, struct df_str client_id, struct df_policy *ret,
                            struct df_err *err) DF_MUST_CHECK;
/* By the client's identifier; DF_E_NOT_FOUND. ret_client_id (may be NULL) gets Clients.Id. */
enum df_code df_policy_get(struct df_db *db, struct df_str identifier,
                           struct df_uuid *ret_client_id, struct df_policy *ret,
                           struct df_err *err) DF_MUST_CHECK;

/* In a write transaction. A patch that changes nothing writes nothing. DF_E_NOT_FOUND. */
enum df_code df_policy_change(struct df_db *db, struct df_str identifier,
                              const struct df_policy_patch *patch, const struct df_actor *by,
                              const struct df_clock *clock, struct df_uuid *ret_client_id,
                              struct df_policy *ret, struct df_err *err) DF_MUST_CHECK;
/* Back to the defaults: deletes the row. DF_E_NOT_FOUND only if there is no such client. */
enum df_code df_policy_reset(struct df_db *db, struct df_str identifier, const struct df_actor *by,
                             const struct df_clock *clock, struct df_uuid *ret_client_id,
                             struct df_err *err) DF_MUST_CHECK;

/* A field as text, "" if it is not set; at most DF_POLICY_WINDOW_MAX bytes. */
struct df_str df_policy_field_text(const struct df_policy *p, enum df_policy_field f,
                                   char buf[DF_POLICY_WINDOW_MAX + 1]);
/* The whole policy as an object; fields that are not set are null. */
void df_policy_write_json(struct df_str identifier, const struct df_policy *p,
                          struct df_json_out *out);

/*
 * Policies in memory, each for three seconds after it was read: changes made by another replica or
 * the command line take effect within that time, those made by this process at once (forget).
 * Thread-safe. By Clients.Id (struct df_client.id).
 */
struct df_policies;

struct df_policies *df_policies_new(const struct df_clock *clock);
void df_policies_free(struct df_policies *p);
enum df_code df_policies_get(struct df_policies *p, struct df_db *db,
                             const struct df_uuid *client_id, struct df_policy *ret,
                             struct df_err *err) DF_MUST_CHECK;
/* After a change was committed. */
void df_policies_forget(struct df_policies *p, const struct df_uuid *client_id);

#endif

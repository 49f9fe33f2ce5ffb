#include "imports/batch.h"

static const char *const batch_names[DF_BATCH_STATUSES] = {
    [DF_BATCH_PENDING] = "Pending",
    [DF_BATCH_PROCESSING] = "Processing",
    [DF_BATCH_SCHEDULED] = "Scheduled",
    [DF_BATCH_COMPLETED] = "Completed",
    [DF_BATCH_COMPLETED_WITH_ERRORS] = "CompletedWithErrors",
    [DF_BATCH_FAILED] = "Failed",
    [DF_BATCH_CANCELLED] = "Cancelled",
};
static const char *const item_names[DF_ITEM_STATUSES] = {
    [DF_ITEM_STATUS_IMPORTED] = "Imported",
    [DF_ITEM_STATUS_ERROR] = "Error",
    [DF_ITEM_STATUS_SKIPPED] = "Skipped",
};
static const char *const chunk_names[DF_CHUNK_STATUSES] = {
    [DF_CHUNK_PENDING] = "Pending",
    [DF_CHUNK_SENDING] = "Sending",
    [DF_CHUNK_AWAITING_ACK] = "AwaitingAck",
    [DF_CHUNK_IMPORTED] = "Imported",
    [DF_CHUNK_ERROR] = "Error",
    [DF_CHUNK_SKIPPED] = "Skipped",
};

static const char *status_name(const char *const *names, size_t count, int64_t status)
{
    return status >= 0 && (size_t)status < count ? names[status] : "Unknown";
}

static bool find_status(const char *const *names, size_t count, struct df_str name, size_t *ret)
{
    for (size_t i = 0; i < count; i++) {
        if (df_str_ieq(name, df_str_c(names[i]))) {
            *ret = i;
            return true;
        }
    }
    return false;
}

const char *df_batch_status_name(int64_t status)
{
    return status_name(batch_names, DF_BATCH_STATUSES, status);
}

const char *df_item_status_name(int64_t status)
{
    return status_name(item_names, DF_ITEM_STATUSES, status);
}

const char *df_chunk_status_name(int64_t status)
{
    return status_name(chunk_names, DF_CHUNK_STATUSES, status);
}

bool df_batch_status_parse(struct df_str name, enum df_batch_status *ret)
{
    size_t i = 0;
    if (!find_status(batch_names, DF_BATCH_STATUSES, name, &i))
        return false;
    *ret = (enum df_batch_status)i;
    return true;
}

bool df_item_status_parse(struct df_str name, enum df_item_status *ret)
{
    size_t i = 0;
    if (!find_status(item_names, DF_ITEM_STATUSES, name, &i))
        return false;
    *ret = (enum df_item_status)i;
    return true;
}

bool df_batch_is_over(int64_t status)
{
    return status >= DF_BATCH_COMPLETED;
}

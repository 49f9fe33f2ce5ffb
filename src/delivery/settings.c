#include "delivery/settings.h"

#define S struct df_delivery_settings

/* clang-format off */
const struct df_config_key df_delivery_keys[] = {
    DF_KEY_INT("max_attempts", S, retry.max_attempts, "5", 1, 1000, "Failures of a row while its target is well, before it waits for a person."),
    DF_KEY_INT("retry_base_ms", S, retry.base_ms, "2000", 1, DF_HOURS, "First backoff; doubles with each attempt, full jitter."),
    DF_KEY_INT("retry_cap_ms", S, retry.cap_ms, "300000", 1, DF_DAYS, "Longest backoff, and the least time between two failures that count."),
    DF_KEY_INT_IN(DF_HOURS, "give_up_hours", S, give_up_ms, "72", 0, 8760, "A row that has failed for so long, and at least 50 times, waits for a person; a batch is Failed when OmniFlow took nothing of it for so long."),
    DF_KEY_INT("lease_ms", S, lease_ms, "60000", 1000, DF_HOURS, "How long a process owns its share of the work after it last renewed its lease."),
    DF_KEY_INT("timeout_ms", S, timeout_ms, "30000", 1, DF_HOURS, "Longest time for one attempt."),
    DF_KEY_INT("concurrency", S, concurrency, "64", 1, 4096, "Attempts at the same time for one destination; one channel or client alone gets at most three quarters of them."),
    DF_KEY_INT("client_threads", S, client_threads, "0", 0, 8, "Threads that make the calls; the destinations are divided among them. 0: one for every two processors."),
    {.key = NULL},
};
/* clang-format on */

void df_delivery_check_settings(const struct df_delivery_settings *s, struct df_buf *complaints)
{
    if (s->retry.base_ms > s->retry.cap_ms)
        df_buf_addz(complaints, "[delivery] retry_base_ms is greater than retry_cap_ms\n");
}

#include "resilience/retry.h"

/* min(cap, base * 2^(attempt - 1)) without overflow: the cap is halved, not the base doubled. */
static int64_t ceiling_ms(const struct df_retry_policy *p, int64_t attempt)
{
    int64_t doublings = attempt > 1 ? attempt - 1 : 0;
    if (doublings >= 63 || p->base_ms > p->cap_ms >> doublings)
        return p->cap_ms;
    return p->base_ms << doublings;
}

static int64_t scheduled_ms(const struct df_retry_policy *p, int64_t attempt,
                            const struct df_clock *clock)
{
    if (p->delay_count > 0) {
        size_t i = attempt > 1 ? (size_t)attempt - 1 : 0;
        return p->delays_ms[i < p->delay_count ? i : p->delay_count - 1];
    }
    int64_t most_ms = ceiling_ms(p, attempt);
    return most_ms > 1 ? 1 + (int64_t)df_random_below(clock, (uint64_t)most_ms) : 1;
}

int64_t df_retry_delay_ms(const struct df_retry_policy *p, int64_t attempt, int64_t retry_after_ms,
                          const struct df_clock *clock)
{
    int64_t delay_ms = scheduled_ms(p, attempt, clock);
    int64_t least_ms =
        retry_after_ms < DF_RETRY_AFTER_MAX_MS ? retry_after_ms : DF_RETRY_AFTER_MAX_MS;
    return delay_ms > least_ms ? delay_ms : least_ms;
}

bool df_retry_exhausted(const struct df_retry_policy *p, int64_t attempt)
{
    int64_t most = p->max_attempts > 0 ? p->max_attempts : (int64_t)p->delay_count + 1;
    return attempt >= most;
}

enum df_retry_class df_retry_class_of(unsigned http_status)
{
    if (http_status >= 200 && http_status <= 299)
        return DF_CLASS_SUCCESS;
    if (http_status == 408 || http_status == 425 || http_status == 429)
        return DF_CLASS_RETRY;
    /* An invalid status is treated as a 5xx (RFC 9110, section 15). */
    if (http_status < 100 || http_status > 499)
        return DF_CLASS_RETRY;
    return DF_CLASS_PERMANENT; /* 3xx too: redirects are not followed */
}

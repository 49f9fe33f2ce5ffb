/*
 * Whether and when to retry: one schedule for every channel. Pure functions; the randomness comes
 * from the clock.
 */
#ifndef DF_RESILIENCE_RETRY_H
#define DF_RESILIENCE_RETRY_H

#include "base/clock.h"

#define DF_RETRY_AFTER_MAX_MS                                                                      \
    (INT64_C(24) * 3600 * 1000) /* the longest wait a peer may ask for                             \
                                 */

/* Exponential with full jitter or, with delays_ms, exactly these delays. */
struct df_retry_policy {
    int64_t base_ms;
    int64_t cap_ms;
    const int64_t *delays_ms; /* after the first failure, the second, …; the last one repeats */
    size_t delay_count;       /* 0: exponential */
    int64_t max_attempts;     /* the first included; 0: the first and one for each delay */
};

/*
 * How long to wait after the failure of `attempt`, counted from 1.
 *
 * Exponential: uniform between 1 ms and base * 2^(attempt - 1), at most the cap. Never 0: a failed
 * row must be due later than now, or a claim in the same moment would take it again.
 *
 * retry_after_ms (-1: none) is what the peer asked for: the wait is never shorter, even if it
 * exceeds the cap, up to a day.
 */
int64_t df_retry_delay_ms(const struct df_retry_policy *p, int64_t attempt, int64_t retry_after_ms,
                          const struct df_clock *clock);

/* Whether the failed attempt was the last one. */
bool df_retry_exhausted(const struct df_retry_policy *p, int64_t attempt);

enum df_retry_class {
    DF_CLASS_SUCCESS,
    DF_CLASS_RETRY,     /* the same request may succeed later */
    DF_CLASS_PERMANENT, /* it will not: a person has to intervene */
};

/* The class of an answer. Without an answer, df_code_retry() (base/err.h) classifies the error. */
enum df_retry_class df_retry_class_of(unsigned http_status);

#endif

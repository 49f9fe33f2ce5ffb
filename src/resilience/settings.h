/* Section [breaker]; some channels have the same keys in their own sections. */
#ifndef DF_RESILIENCE_SETTINGS_H
#define DF_RESILIENCE_SETTINGS_H

#include "base/config.h"

struct df_breaker_settings {
    int64_t window;          /* calls in the window, >= 1 */
    int64_t min_calls;       /* calls before a rate counts, >= 1; at most the window */
    int64_t failure_rate;    /* per cent of failures that opens the breaker, 1 to 100 */
    int64_t slow_call_ms;    /* a call that took longer is slow; 0: none is */
    int64_t slow_call_rate;  /* per cent of slow calls that opens it; 0: 100. It has no key */
    int64_t open_ms;         /* time without calls before probes begin */
    int64_t half_open_calls; /* probes, >= 1 */
};

/*
 * The rows of a table of keys. T is the struct, AT the path to these settings in it ("breaker." or
 * nothing), STANDARD(x) gives the default x or none, MORE is added to each help text.
 */
/* clang-format off */
#define DF_BREAKER_KEYS(T, AT, STANDARD, MORE) \
    DF_KEY_INT("window", T, AT window, STANDARD("10"), 1, 10000, "Calls in the breaker's window." MORE), \
    DF_KEY_INT("min_calls", T, AT min_calls, STANDARD("5"), 1, 10000, "Calls before the rate counts." MORE), \
    DF_KEY_INT("failure_rate", T, AT failure_rate, STANDARD("50"), 1, 100, "Per cent of failures that opens the breaker." MORE), \
    DF_KEY_INT("slow_call_ms", T, AT slow_call_ms, STANDARD("0"), 0, DF_HOURS, "A call slower than this is slow; when all calls in the window are slow, the breaker opens. 0: off." MORE), \
    DF_KEY_INT("open_ms", T, AT open_ms, STANDARD("10000"), 1, DF_DAYS, "How long the breaker stays open." MORE), \
    DF_KEY_INT("half_open_calls", T, AT half_open_calls, STANDARD("3"), 1, 1000, "Probes while half open." MORE)
/* clang-format on */

extern const struct df_config_key df_breaker_keys[];

#endif

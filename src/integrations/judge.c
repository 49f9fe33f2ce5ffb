/*
 *   what came of an attempt               safe to repeat, or certainly   not safe, and perhaps
 *                                         not seen by the peer           seen
 *   ------------------------------------  -----------------------------  ---------------------
 *   2xx, 3xx, 4xx but 408, 425, 429       passed back                    passed back
 *   408, 425, 429, 5xx, network, timeout  again, while attempts are left given up: may be done
 *   Retry-After longer than we wait       given up                       given up: may be done
 *   our own fault (address refused, …)    given up                       -
 *   the server stops                      given up                       given up: may be done
 *
 * The breaker counts the second row as failures, the first as successes, the rest not at all.
 */
#include "integrations/integrations_private.h"

#include "resilience/retry.h"

bool integration_is_safe(enum df_method method, struct df_str idempotency_key)
{
    switch (method) {
    case DF_GET:
    case DF_HEAD:
    case DF_PUT:
    case DF_DELETE:
    case DF_OPTIONS:
        return true;
    case DF_POST:
    case DF_PATCH:
    case DF_METHOD_OTHER:
        break;
    }
    return idempotency_key.len > 0;
}

struct integration_verdict integration_judge(const struct df_integration_settings *s,
                                             const struct integration_try *t)
{
    bool answered = t->code == DF_OK;
    bool cancelled = t->code == DF_E_CANCELLED;
    bool theirs = answered ? df_retry_class_of(t->status) == DF_CLASS_RETRY
                           : df_code_retry(t->code) != DF_RETRY_NEVER && !cancelled;

    if (answered && !theirs)
        return (struct integration_verdict){.next = INTEGRATION_PASS_BACK,
                                            .breaker = DF_BREAKER_SUCCESS};
    struct integration_verdict v = {
        .next = INTEGRATION_GIVE_UP,
        .breaker = theirs ? DF_BREAKER_FAILURE : DF_BREAKER_IGNORED,
        .wait_ms = t->retry_after_ms > s->retry_wait_ms ? t->retry_after_ms : s->retry_wait_ms,
        .maybe_done = t->maybe_sent && !t->safe,
    };
    if (theirs && !v.maybe_done && t->attempt < s->retry_max_attempts &&
        t->retry_after_ms <= INTEGRATION_WAIT_MAX_MS)
        v.next = INTEGRATION_RETRY;
    return v;
}

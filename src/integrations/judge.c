/*
 *   outcome of an attempt                 safe to repeat, or certainly   not safe, and perhaps
 *                                         not seen by the peer           seen
 *   ------------------------------------  -----------------------------  ---------------------
 *   2xx, 3xx, 4xx but 408, 425, 429       passed back                    passed back
 *   408, 425, 429, 5xx, network, timeout  again, while attempts are left given up: may be done
 *   Retry-After longer than we wait       given up                       given up: may be done
 *   our own fault (address refused, …)    given up                       -
 *   the server stops                      given up                       given up: may be done
 *
 * outbound/outbound.h says which answer counts as what, for the breaker too.
 */
#include "integrations/integrations_private.h"

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
                                             const struct df_out *out, int64_t attempt, bool safe)
{
    const struct df_call *call = &out->call;

    if (call->code == DF_OK && out->verdict != DF_OUT_AGAIN)
        return (struct integration_verdict){.next = INTEGRATION_PASS_BACK};
    struct integration_verdict v = {
        .next = INTEGRATION_GIVE_UP,
        .wait_ms =
            call->retry_after_ms > s->retry_wait_ms ? call->retry_after_ms : s->retry_wait_ms,
        .maybe_done = call->maybe_sent && !safe,
    };
    if (out->verdict == DF_OUT_AGAIN && !v.maybe_done && attempt < s->retry_max_attempts &&
        call->retry_after_ms <= INTEGRATION_WAIT_MAX_MS)
        v.next = INTEGRATION_RETRY;
    return v;
}

/* What a call (client.h) asks for: whether it may be made, and its request's head. */
#ifndef DF_NET_CALL_H
#define DF_NET_CALL_H

#include "net/client.h"
#include "net/url.h"

/* Whether the caller has given it up. */
static inline bool df_call_is_cut(const struct df_call *call)
{
    return call->cut && atomic_load(call->cut);
}

/* Checks the call's URL, method and headers. */
enum df_code df_call_check(const struct df_call *call, struct df_url *ret_url,
                           struct df_err *err) DF_MUST_CHECK;

/* A buffer of this size holds the head of every call that passed the check. */
#define DF_CALL_HEAD_MAX ((size_t)160 << 10)

/* Replaces what `out` has by the request line and the fields; to_proxy: in the form for a proxy
 * that passes it on. *ret_repeatable: the request may be sent again if nobody knows whether it
 * arrived. */
void df_call_write_head(const struct df_call *call, const char *user_agent, bool to_proxy,
                        struct df_buf *out, bool *ret_repeatable);

/* Retry-After, seconds or a date: at most a day, -1 when it is neither. */
int64_t df_retry_after_ms(struct df_str value, int64_t now_ms);

#endif

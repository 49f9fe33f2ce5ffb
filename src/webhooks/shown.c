/*
 * What a client may see of an attempt. The client chose the receiver, so only the administrator
 * sees what the receiver answered: otherwise a webhook would be a way to read services that only
 * the server can reach. A name that leads to an internal address is reported like a name that does
 * not exist: otherwise a client could find out the names of a network that it cannot see.
 */
#include "webhooks/subscriptions_private.h"

static bool contains(struct df_str text, const char *words)
{
    return text.len > 0 && memmem(text.ptr, text.len, words, strlen(words)) != NULL;
}

/* These words come from net/wire.c and libcurl. */
bool df_webhook_is_unreachable(struct df_str error)
{
    return contains(error, "not a public address") || contains(error, "resolve host") ||
           contains(error, "Resolving timed out");
}

struct df_str df_webhook_error_shown(struct df_arena *a, int64_t http_status, struct df_str error)
{
    if (!error.ptr)
        return DF_STR_NULL;
    if (http_status > 0)
        return df_arena_printf(a, "HTTP %lld", (long long)http_status);
    return df_webhook_is_unreachable(error) ? df_str_c(DF_WEBHOOK_UNREACHABLE) : error;
}

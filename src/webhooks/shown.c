/*
 * What a client is told of an attempt. Its receiver is whatever it named: what that answered is for
 * the administrator, or a webhook would be a way to read services that only the server reaches. And
 * a name of an internal address is told of as one that does not exist: or a client could ask for
 * the names of a network that it does not see.
 */
#include "webhooks/subscriptions_private.h"

static bool contains(struct df_str text, const char *words)
{
    return text.len > 0 && memmem(text.ptr, text.len, words, strlen(words)) != NULL;
}

/* The words are those of net/transfer.c and libcurl. */
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

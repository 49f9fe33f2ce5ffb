/* What the files of subscriptions share. */
#ifndef DF_WEBHOOKS_SUBSCRIPTIONS_PRIVATE_H
#define DF_WEBHOOKS_SUBSCRIPTIONS_PRIVATE_H

#include "base/pool.h"
#include "net/input.h"
#include "webhooks/subscriptions.h"

#define DF_WEBHOOK_URL_MAX 512
#define DF_LOOKUP_THREADS  2

struct df_subscriptions {
    struct df_subscriptions_options opt;
    struct df_pool lookups; /* struct df_lookup */
};

/* A name to look up. Lives until `done`, which a thread of the look-ups calls. */
struct df_lookup {
    const char *host;
    const struct df_log_ctx *log; /* of the request */
    void (*done)(struct df_lookup *l,
                 const char *problem); /* problem: NULL: the host may be a target */
};

/* False: too many are waiting. */
bool df_subscriptions_lookup(struct df_subscriptions *s, struct df_lookup *l);

/* Checks the URL's form and adds errors for "url". Returns its host, in the arena, or NULL. */
const char *df_subscriptions_check_url(struct df_input *in, struct df_str url);

/* --- shown.c ---------------------------------------------------------------------------------- */

#define DF_WEBHOOK_UNREACHABLE "the target's address is not allowed or cannot be found"

/* Whether the error tells where the target's name leads, or that it leads nowhere. */
bool df_webhook_is_unreachable(struct df_str error);
/* The error as the client may see it: without the answer, and without addresses. http_status 0:
 * none. Absent if the error is. */
struct df_str df_webhook_error_shown(struct df_arena *a, int64_t http_status, struct df_str error);

/* --- subscriptions.c -------------------------------------------------------------------------- */

/* The array `events` as the column stores it, names separated by commas; absent: not given. */
struct df_str df_subscriptions_read_events(struct df_input *in);

#endif

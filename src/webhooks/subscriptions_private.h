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

/* A name to look up. Lives until `done`, which is called on a thread of the look-ups. */
struct df_lookup {
    const char *host;
    const struct df_log_ctx *log;                           /* of the request */
    void (*done)(struct df_lookup *l, const char *problem); /* NULL: it may be a target */
};

/* False: too many are waiting. */
bool df_subscriptions_lookup(struct df_subscriptions *s, struct df_lookup *l);

/* Adds what is wrong with the URL's form to the errors of "url"; its host, in the arena, or NULL.
 */
const char *df_subscriptions_check_url(struct df_input *in, struct df_str url);

/* --- shown.c ---------------------------------------------------------------------------------- */

#define DF_WEBHOOK_UNREACHABLE "the target's address is not allowed or cannot be found"

/* An error that says where the target's name leads, or that it leads nowhere. */
bool df_webhook_is_unreachable(struct df_str error);
/* An error as the client may see it: without what was answered, and without addresses. http_status
 * 0: none. Absent if it is. */
struct df_str df_webhook_error_shown(struct df_arena *a, int64_t http_status, struct df_str error);

/* --- subscriptions.c -------------------------------------------------------------------------- */

/* The array `events` as the column has it: names with commas between; absent: there is none. */
struct df_str df_subscriptions_read_events(struct df_input *in);

#endif

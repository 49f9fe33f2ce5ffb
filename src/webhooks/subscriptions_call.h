/* A request about a client's webhooks: what its handlers (subscriptions_api.c, deliveries_api.c)
 * share. */
#ifndef DF_WEBHOOKS_SUBSCRIPTIONS_CALL_H
#define DF_WEBHOOKS_SUBSCRIPTIONS_CALL_H

#include "access/handler.h"
#include "webhooks/subscriptions_private.h"

#define DF_WEBHOOK_UNCHANGED (-1)

struct webhook_call {
    struct df_work w; /* its arg is the subscriptions */
    struct df_lookup lookup;
    const struct df_subscriptions_options *opt;
    struct df_str identifier; /* the client's */
    struct df_uuid client;
    struct df_uuid id;
    struct df_str url;    /* absent: unchanged */
    const char *host;     /* of the URL */
    struct df_str events; /* absent: unchanged */
    int active;           /* 0, 1, or DF_WEBHOOK_UNCHANGED */
    int auto_rotate;      /* the same */
    struct df_webhook_secret secret;
    int64_t until_ms;                /* end of the previous secret */
    struct df_str status;            /* of deliveries; absent: any */
    struct df_uuid delivery, resent; /* one delivery, and the new one that repeats it */
};

static inline struct df_value webhook_call_id(const struct webhook_call *c)
{
    return df_uuid(df_uuid_str(&c->id));
}

static inline struct df_value webhook_call_client(const struct webhook_call *c)
{
    return df_uuid(df_uuid_str(&c->client));
}

/* A handler's `prepare` for a path with {clientId} and {id}. */
bool webhook_call_read_id(struct df_work *w, struct df_input *in);
/* Sets c->client. DF_E_NOT_FOUND. */
enum df_code webhook_call_find_client(struct df_db *db, struct webhook_call *c,
                                      struct df_err *err) DF_MUST_CHECK;
enum df_code webhook_call_audit(struct df_db *db, const struct webhook_call *c, const char *action,
                                struct df_str details, struct df_err *err) DF_MUST_CHECK;
/* Hands the subscription's row to `row`, which may be NULL. DF_E_NOT_FOUND. */
enum df_code webhook_call_get(struct df_db *db, struct webhook_call *c,
                              void (*row)(void *arg, struct df_result *r),
                              struct df_err *err) DF_MUST_CHECK;

extern const struct df_handler df_webhook_deliveries;
extern const struct df_handler df_webhook_delivery;
extern const struct df_handler df_webhook_resend;
extern const struct df_handler df_webhook_replay;       /* failures_api.c */
extern const struct df_handler df_webhook_fetch_secret; /* rotation.c */

#endif

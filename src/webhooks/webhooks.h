/*
 * Webhooks tell a client's URLs what happens to its imports and tickets. An event becomes a row of
 * WebhookDeliveries for each active subscription that wants it, in the transaction of the change
 * itself. The delivery engine sends the rows, signed (delivery/sign.h), as it does those of any
 * other channel.
 *
 *     df_webhooks_emit      in the transaction that changes the batch or the ticket
 *     df_webhooks_wake      after its commit
 *
 * The caller of emit builds the body, without the member `signature`, which is added when the row
 * is sent. Any thread may emit and wake.
 */
#ifndef DF_WEBHOOKS_WEBHOOKS_H
#define DF_WEBHOOKS_WEBHOOKS_H

#include "base/clock.h"
#include "delivery/delivery.h"
#include "store/db.h"
#include "webhooks/secret.h"
#include "webhooks/settings.h"

struct df_webhooks;

struct df_webhooks_options {
    struct df_store *store;
    const struct df_clock *clock;
    struct df_keys *keys; /* of the subscriptions' secrets */
    struct df_webhooks_settings settings;
    const char *notify_url; /* the database through which processes wake each other, or NULL */
};

struct df_webhooks *df_webhooks_new(const struct df_webhooks_options *opt);
void df_webhooks_free(struct df_webhooks *w); /* after the engine; NULL is fine */
/* Before the engine starts. */
void df_webhooks_add_channels(struct df_webhooks *w, struct df_delivery *d);
/* Before the engine is freed: other processes wake it through this. */
void df_webhooks_stop(struct df_webhooks *w);

struct df_webhook_event {
    struct df_str client_id;       /* Clients.Id, a uuid */
    struct df_str subscription_id; /* only this one, whatever events it wants; absent: all that want
                                      the event */
    const char *event;             /* "BatchCompleted" */
    struct df_str reference;       /* the batch, or the ticket's document */
    struct df_str batch_id;        /* a uuid; absent: the event is about no batch */
    struct df_str body;            /* a complete JSON object without `signature` */
    struct df_str correlation_id;
    struct df_str trace_parent; /* of what the event is about; absent: none */
    int64_t now_ms;
};

/*
 * Adds a row for each subscription with one statement. Runs in the caller's transaction, and so may
 * run more than once. ret_count, which may be NULL, gets the number of rows.
 */
enum df_code df_webhooks_emit(struct df_db *db, const struct df_clock *clock,
                              const struct df_webhook_event *e, int64_t *ret_count,
                              struct df_err *err) DF_MUST_CHECK;
/* The same for many events. */
enum df_code df_webhooks_emit_many(struct df_db *db, const struct df_clock *clock,
                                   const struct df_webhook_event *events, size_t count,
                                   struct df_arena *a, int64_t *ret_count,
                                   struct df_err *err) DF_MUST_CHECK;

/* Call it after the commit of new rows. Cheap; NULL is fine. */
void df_webhooks_wake(struct df_webhooks *w);

#endif

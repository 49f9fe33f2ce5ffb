/*
 * Webhooks: what happens to a client's imports and tickets, told to the URLs that it subscribed
 * with. An event becomes a row of WebhookDeliveries for each active subscription that wants it, in
 * the transaction of what it tells of; the delivery engine brings them there, as a channel like any
 * other, signed (delivery/sign.h).
 *
 *     df_webhooks_emit      in the transaction that changes the batch or the ticket
 *     df_webhooks_wake      after its commit
 *
 * Whoever emits builds the body: its members without `signature`, which is added last when it is
 * sent. Any thread may emit and wake.
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
    struct df_webhooks_settings settings;
    const char *notify_url; /* the database, whose processes wake each other; or NULL */
};

struct df_webhooks *df_webhooks_new(const struct df_webhooks_options *opt);
void df_webhooks_free(struct df_webhooks *w); /* after the engine; NULL is fine */
/* Made of the settings; they live as long. */
struct df_webhook_keys df_webhooks_master_keys(const struct df_webhooks *w);
/* Before the engine starts. */
void df_webhooks_add_channels(struct df_webhooks *w, struct df_delivery *d);
/* Before the engine goes, which others wake through it. */
void df_webhooks_stop(struct df_webhooks *w);

struct df_webhook_event {
    struct df_str client_id;       /* Clients.Id, a uuid */
    struct df_str subscription_id; /* only this one, whatever it wants; absent: all that want it */
    const char *event;             /* "BatchCompleted" */
    struct df_str reference;       /* the batch, or the ticket's document */
    struct df_str batch_id;        /* a uuid; absent: it tells of no batch */
    struct df_str body;            /* a JSON object, whole, without `signature` */
    struct df_str correlation_id;
    int64_t now_ms;
};

/*
 * A row for each subscription, by one statement however many there are. Runs in the caller's
 * transaction, and so may run again. *ret_count (or NULL): how many.
 */
enum df_code df_webhooks_emit(struct df_db *db, const struct df_clock *clock,
                              const struct df_webhook_event *e, int64_t *ret_count,
                              struct df_err *err) DF_MUST_CHECK;
/* The same for many events. */
enum df_code df_webhooks_emit_many(struct df_db *db, const struct df_clock *clock,
                                   const struct df_webhook_event *events, size_t count,
                                   struct df_arena *a, int64_t *ret_count,
                                   struct df_err *err) DF_MUST_CHECK;

/* There are new rows, and they are committed. Cheap; NULL is fine. */
void df_webhooks_wake(struct df_webhooks *w);

#endif

/*
 * Subscriptions: which client hears of which events, and at which URL. A client manages its own,
 * the administrator all of them. Also the history of their deliveries, and the replay of deliveries
 * that were given up.
 *
 * A URL's host is looked up when the URL is registered, on threads of its own, since that may take
 * seconds. All its addresses must be public, unless private targets are allowed. This check tells
 * people at once what would never arrive. What really keeps deliveries from private addresses is
 * the HTTP client, which checks the address that it dials (net/client.h).
 */
#ifndef DF_WEBHOOKS_SUBSCRIPTIONS_H
#define DF_WEBHOOKS_SUBSCRIPTIONS_H

#include "net/http.h"
#include "store/store.h"
#include "webhooks/secret.h"
#include "webhooks/settings.h"

struct df_subscriptions;
struct df_webhooks;

struct df_subscriptions_options {
    struct df_store *store;
    const struct df_clock *clock;
    struct df_webhooks *webhooks; /* woken when there is something to deliver */
    struct df_webhook_keys keys;
    struct df_webhooks_settings settings;
};

struct df_subscriptions *df_subscriptions_new(const struct df_subscriptions_options *opt);
/* Finishes the look-ups that are queued. Before the store is closed. NULL is fine. */
void df_subscriptions_stop(struct df_subscriptions *s);
/* After the HTTP server. NULL is fine. */
void df_subscriptions_free(struct df_subscriptions *s);

/*
 * At start: encrypts the secrets that were stored before there was a master key, and warns of them
 * if there is none. With an old master key, encrypts the secrets under it with the new one. Waits
 * for the store.
 */
enum df_code df_subscriptions_seal(struct df_subscriptions *s, struct df_err *err) DF_MUST_CHECK;

/* Removes previous secrets that no longer count; the role `maintain` calls it now and then. Waits
 * for the store. */
void df_subscriptions_forget_previous(struct df_store *store, const struct df_clock *clock);

extern const struct df_route df_subscription_routes[];    /* /clients/{clientId}/webhooks */
extern const struct df_route df_webhook_failure_routes[]; /* /admin/webhook-failures */

#endif

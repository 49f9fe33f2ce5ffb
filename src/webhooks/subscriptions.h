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

#include "base/uuid.h"
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
    struct df_keys *keys;
    struct df_webhooks_settings settings;
};

struct df_subscriptions *df_subscriptions_new(const struct df_subscriptions_options *opt);
/* Finishes the look-ups that are queued. Before the store is closed. NULL is fine. */
void df_subscriptions_stop(struct df_subscriptions *s);
/* After the HTTP server. NULL is fine. */
void df_subscriptions_free(struct df_subscriptions *s);

/* At start: brings the secrets of older releases under a data key. Waits for the store.
 * DF_E_CONFIG: the master key is another one than theirs. */
enum df_code df_subscriptions_seal(struct df_subscriptions *s, struct df_err *err) DF_MUST_CHECK;

/* How far the secrets were brought under the current data key. */
struct df_reseal {
    struct df_uuid after; /* the last subscription looked at */
    size_t changed;
    size_t opened;     /* they open, or are under the current key */
    size_t lost;       /* do not open */
    uint32_t lost_key; /* of one of them; 0: it is in the form of older releases */
    bool done;
};

void df_reseal_begin(struct df_reseal *r);
/* One page of subscriptions. Harmless if several processes do it. Waits for the store. */
enum df_code df_subscriptions_reseal(struct df_store *store, struct df_keys *keys,
                                     struct df_reseal *r, struct df_err *err) DF_MUST_CHECK;

/* Removes previous secrets that no longer count; the role `maintain` calls it now and then. Waits
 * for the store. */
void df_subscriptions_forget_previous(struct df_store *store, const struct df_clock *clock);

struct df_rotation_options {
    struct df_store *store;
    const struct df_clock *clock;
    struct df_keys *keys;
    struct df_webhooks *webhooks; /* woken when receivers are to be told */
    int64_t rotate_ms;            /* how old a secret gets */
};
/* Makes new secrets for subscriptions with autoRotate whose secret is too old; the role `maintain`
 * calls it now and then. Waits for the store. */
void df_subscriptions_rotate(const struct df_rotation_options *opt);

extern const struct df_route df_subscription_routes[];    /* /clients/{clientId}/webhooks */
extern const struct df_route df_webhook_failure_routes[]; /* /admin/webhook-failures */

#endif

/*
 * Calls to other systems with retry and circuit breaker: ANY /integrations/{name}/{path...} passes
 * a call on to the configured base_url, repeats what is safe to repeat, and answers 503 with the
 * integration's own code when the other side is not there; or keeps the call and delivers it later.
 *
 * A client has at most its share of calls in hand; a call beyond that ends as if the other side
 * were not there.
 */
#ifndef DF_INTEGRATIONS_INTEGRATIONS_H
#define DF_INTEGRATIONS_INTEGRATIONS_H

#include "base/buf.h"
#include "base/secret.h"
#include "delivery/delivery.h"
#include "integrations/settings.h"
#include "net/http.h"

struct df_integrations;

struct df_integrations_options {
    const struct df_integration_settings *settings;
    size_t count;
    struct df_store *store;
    struct df_outbound *outbound;
    struct df_delivery *delivery; /* woken when a call was kept */
    const struct df_clock *clock;
    int64_t max_per_client; /* calls of one client in hand at the same time; 0: 64 */
};

struct df_integrations *df_integrations_new(const struct df_integrations_options *opt);
/* Adds the channel "integrations", which sends kept calls. */
void df_integrations_add_channels(struct df_integrations *i, struct df_delivery *d);
/* Ends the calls that wait for their next attempt, with 503. Does not wait for calls on their
 * way. */
void df_integrations_stop(struct df_integrations *i);
void df_integrations_free(struct df_integrations *i);

extern const struct df_route df_integration_routes[];

#endif

/*
 * What every feature's handlers need: the HTTP server's argument. The application owns it and fills
 * it before the server starts; read-only from then on.
 */
#ifndef DF_ACCESS_SERVICES_H
#define DF_ACCESS_SERVICES_H

#include "access/access.h"

struct df_alerts;
struct df_delivery;
struct df_breakers;
struct df_import_views;
struct df_imports;
struct df_integrations;
struct df_interface;
struct df_policies;
struct df_receiver;
struct df_relays;
struct df_subscriptions;
struct df_usage;
struct df_webhooks;

struct df_services {
    struct df_store *store;
    struct df_auth *auth;
    struct df_usage *usage;
    struct df_policies *policies;
    const struct df_clock *clock;
    struct df_breakers *breakers;
    struct df_delivery *delivery; /* its channels are known whether or not this process delivers */
    struct df_webhooks *webhooks;
    struct df_alerts *alerts;
    struct df_interface *interface;
    struct df_integrations *integrations;
    struct df_relays *relays;               /* NULL without the role */
    struct df_subscriptions *subscriptions; /* NULL without the role `api` */
    struct df_imports *imports;             /* NULL where the roles have nothing to do with them */
    struct df_receiver *receiver;           /* likewise */
    struct df_import_views *import_views;   /* likewise */
};

static inline const struct df_services *df_services_of(const struct df_req *req)
{
    return df_req_route_arg(req);
}

/* Suspends the request and hands its job to the store; a full queue is answered 503. */
void df_req_write(struct df_req *req, struct df_job *job);
void df_req_read(struct df_req *req, struct df_job *job);

#endif

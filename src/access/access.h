/*
 * What the handlers of every feature share: the HTTP server's argument. The application owns it and
 * fills it before the server starts; it is read-only from then on. A feature's own argument comes
 * with its table of routes (df_req_route_arg).
 */
#ifndef DF_ACCESS_ACCESS_H
#define DF_ACCESS_ACCESS_H

#include "access/auth.h"

struct df_keys;
struct df_policies;
struct df_usage;

struct df_access {
    struct df_store *store;
    struct df_keys *keys;
    struct df_auth *auth;
    struct df_usage *usage;
    struct df_policies *policies;
    const struct df_clock *clock;
};

static inline const struct df_access *df_access_of(const struct df_req *req)
{
    return df_req_server_arg(req);
}

#endif

/*
 * Finds the route of a request: a tree of segments built once at start and read-only afterwards, so
 * that every thread may use it without a lock.
 *
 * A literal segment wins over {name}.csv, that over {name}, and {name} over a last {name...}; when
 * the better match lacks the method, the next one is tried. {name} and {name...} take at least one
 * segment; only {name...} accepts a trailing slash.
 */
#ifndef DF_NET_ROUTER_H
#define DF_NET_ROUTER_H

#include "base/buf.h"
#include "net/http.h"
#include "net/target.h"

#define DF_ROUTE_PARAMS_MAX 8

enum df_method {
    DF_GET,
    DF_HEAD,
    DF_POST,
    DF_PUT,
    DF_PATCH,
    DF_DELETE,
    DF_OPTIONS,
    DF_METHOD_OTHER, /* a method that no route can have */
};

enum df_method df_method_of(struct df_str name);
/* "other" for DF_METHOD_OTHER. */
const char *df_method_name(enum df_method m);

struct df_router;

struct df_match {
    const struct df_route *route; /* NULL: no route has this path and method */
    void *arg;                    /* of the route's table */
    size_t index;                 /* of the route, counted through all tables */
    unsigned allowed;             /* without a route: bits 1 << enum df_method of the same path */
    struct df_str params[DF_ROUTE_PARAMS_MAX]; /* in the pattern's order */
};

/* Leaves out the routes whose `access` is among the bits of `absent`. A bad pattern or a duplicate
 * route is DF_E_CONFIG. The routes must outlive the router. */
enum df_code df_router_new(const struct df_route_table *tables, unsigned absent,
                           struct df_router **ret, struct df_err *err) DF_MUST_CHECK;
void df_router_free(struct df_router *r);
size_t df_router_count(const struct df_router *r);

void df_router_find(const struct df_router *r, enum df_method method, const struct df_target *t,
                    struct df_match *ret);

/* The value of {name} in a match; absent if the pattern has no such name. */
struct df_str df_match_param(const struct df_match *m, struct df_str name);

/* "GET, HEAD, POST" */
void df_router_write_allow(unsigned allowed, struct df_buf *out);

#endif

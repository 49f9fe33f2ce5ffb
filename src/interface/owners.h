/*
 * Whose documents are. A counterparty, a ticket and an ack belong to the client that sent them,
 * from their making on; a client with the scope `interface` sees and changes its own, one with
 * `interface-all` those of everybody, rows of other programs included, which are nobody's.
 *
 * What is not the caller's is not there for it; but a key is a key: a document that another client
 * has under it is 409.
 */
#ifndef DF_INTERFACE_OWNERS_H
#define DF_INTERFACE_OWNERS_H

#include "net/http.h"
#include "store/db.h"

struct df_reach {
    struct df_str client_id; /* the caller's; lives as long as the request */
    bool all;
};

/* Of a request that a client makes. */
struct df_reach df_reach_of(const struct df_req *req);
/* owner: a row's ClientId, absent where it is NULL. */
bool df_reach_has(const struct df_reach *r, struct df_str owner);
/* For queries: `client` and `all`. */
struct df_value df_reach_client(const struct df_reach *r);
struct df_value df_reach_all(const struct df_reach *r);
/* DF_E_ANOTHER_CLIENT. */
enum df_code df_reach_refuse(struct df_err *err, const char *what);

#endif

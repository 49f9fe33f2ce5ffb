/*
 * Owners of documents. A counterparty, a ticket and an ack belong to the client that sent them
 * first. A client with the scope `interface` sees and changes its own documents; a client with
 * `interface-all` sees and changes all, including rows of other programs, which have no owner.
 *
 * A caller does not see the documents of other clients. Keys are shared nevertheless: writing a
 * document whose key another client's document has is 409.
 */
#ifndef DF_INTERFACE_OWNERS_H
#define DF_INTERFACE_OWNERS_H

#include "net/http.h"
#include "store/db.h"

struct df_reach {
    struct df_str client_id; /* the caller's; valid as long as the request */
    bool all;                /* the caller reaches every client's documents */
};

/* What the client that sent the request may reach. */
struct df_reach df_reach_of(const struct df_req *req);
/* owner: a row's ClientId; absent if it is NULL. */
bool df_reach_has(const struct df_reach *r, struct df_str owner);
/* The queries' parameters `client` and `all`. */
struct df_value df_reach_client(const struct df_reach *r);
struct df_value df_reach_all(const struct df_reach *r);
/* Sets and returns DF_E_ANOTHER_CLIENT. */
enum df_code df_reach_refuse(struct df_err *err, const char *what);

#endif

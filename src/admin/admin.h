/* The administrator's API: clients, their policies, the audit log, and the search for documents.
 * Routes only; the operations on clients are in access/. */
#ifndef DF_ADMIN_ADMIN_H
#define DF_ADMIN_ADMIN_H

#include "net/http.h"

extern const struct df_route df_admin_routes[];
extern const struct df_route df_policy_routes[];
extern const struct df_route df_search_routes[];

#endif

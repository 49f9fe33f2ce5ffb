/* The administrator's API: clients, their policies, the audit log, the search for documents and
 * their time lines. Routes only; the operations on clients are in access/. */
#ifndef DF_ADMIN_ADMIN_H
#define DF_ADMIN_ADMIN_H

#include "net/http.h"

extern const struct df_route df_admin_routes[];
extern const struct df_route df_policy_routes[];
/* Their arg points to the text of imports.maintenance_windows, which may be NULL. */
extern const struct df_route df_maintenance_routes[];
extern const struct df_route df_search_routes[];
extern const struct df_route df_timeline_routes[]; /* with a struct df_delivery */
extern const struct df_route df_key_routes[];      /* with a struct df_key_watch */
extern const struct df_route
    df_audit_routes[]; /* their arg points to the path of a directory for temporary files */

#endif

/* The administrator's API: clients, their policies and the audit log. Routes only; the operations
 * are in access/. */
#ifndef DF_ADMIN_ADMIN_H
#define DF_ADMIN_ADMIN_H

#include "net/http.h"

extern const struct df_route df_admin_routes[];
extern const struct df_route df_policy_routes[];

#endif

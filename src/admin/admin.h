/* The administrator's API: clients and the audit log. Routes only; the operations are in access/.
 */
#ifndef DF_ADMIN_ADMIN_H
#define DF_ADMIN_ADMIN_H

#include "net/http.h"

extern const struct df_route df_admin_routes[];

#endif

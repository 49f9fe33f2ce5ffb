/* The calls of imports, for the application's table. */
#ifndef DF_IMPORTS_ROUTES_H
#define DF_IMPORTS_ROUTES_H

#include "net/http.h"

extern const struct df_route df_imports_receive_routes[]; /* POST /imports; of a df_receiver */
/* Of struct df_import_views. */
extern const struct df_route df_imports_action_routes[]; /* cancel, retry */
extern const struct df_route df_imports_ack_routes[];
extern const struct df_route df_imports_read_routes[];
extern const struct df_route df_imports_usage_routes[]; /* what a client uses of its limits */

#endif

/* The routes of imports, for the application's table. */
#ifndef DF_IMPORTS_ROUTES_H
#define DF_IMPORTS_ROUTES_H

#include "net/http.h"

extern const struct df_route df_imports_receive_routes[]; /* POST /imports; arg: df_receiver */
/* The argument of the others is a struct df_import_views. */
extern const struct df_route df_imports_action_routes[]; /* cancel, retry, release */
extern const struct df_route df_imports_ack_routes[];
extern const struct df_route df_imports_read_routes[];
extern const struct df_route df_imports_mapping_routes[]; /* what a client says of its columns */
extern const struct df_route df_imports_usage_routes[];   /* how much of its limits a client uses */

#endif

/* /healthz, /readyz, /metrics, /openapi.json and the console. */
#ifndef DF_APP_SYSTEM_ROUTES_H
#define DF_APP_SYSTEM_ROUTES_H

#include "net/http.h"

/* /healthz and /metrics: of the services they need the clock alone. */
extern const struct df_route df_probe_routes[];
/* The others. */
extern const struct df_route df_system_routes[];

/* For /healthz and /readyz. */
void df_system_started(int64_t mono_ms);
void df_system_draining(void);

#endif

/* /healthz, /readyz, /metrics, /openapi.json and the console. */
#ifndef DF_APP_SYSTEM_ROUTES_H
#define DF_APP_SYSTEM_ROUTES_H

#include "net/http.h"
#include "json/write.h"

struct df_consumer;
struct df_delivery;
struct df_imports;
struct df_locks;

/* What /readyz looks at. Each may be NULL. */
struct df_system {
    struct df_delivery *delivery;
    struct df_imports *imports;
    struct df_locks *locks;
    struct df_consumer *consumer;
};

extern const struct df_route df_probe_routes[];  /* /healthz and /metrics: need the clock alone */
extern const struct df_route df_system_routes[]; /* the others; argument: a struct df_system */

/* For /healthz and /readyz. */
void df_system_started(int64_t mono_ms);
void df_system_draining(void);
/* The members of a problem "Not ready". */
void df_system_write_problem(struct df_json_out *json, struct df_str detail, struct df_req *req);

#endif

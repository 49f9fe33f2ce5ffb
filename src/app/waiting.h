/*
 * The address of a server that cannot work yet: it waits for a schema or for the master key. A
 * small HTTP server answers /healthz, /metrics from this machine, and everything else with 503
 * NotReady. The real server takes the listening socket over, so that no connection is refused
 * between the two.
 */
#ifndef DF_APP_WAITING_H
#define DF_APP_WAITING_H

#include "app/settings.h"
#include "base/err.h"

struct df_access;
struct df_waiting;

/* Says what is waited for; the first call listens. DF_E_UNAVAILABLE: the master key. */
enum df_code df_waiting_tell(struct df_waiting **w, const struct df_settings *s,
                             struct df_access *access, enum df_code why,
                             struct df_err *err) DF_MUST_CHECK;
/* The server, for df_http_options.elder; NULL if nothing was waited for. */
const struct df_http_server *df_waiting_http(const struct df_waiting *w);
/* Answers what is in hand and frees. NULL is fine. */
void df_waiting_end(struct df_waiting *w);

#endif

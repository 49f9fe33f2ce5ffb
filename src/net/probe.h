/* Tries whether a peer can be called: its name is looked up, a connection made and, for https, its
 * certificate verified as the HTTP client verifies it. Nothing is sent. Blocks; any thread. */
#ifndef DF_NET_PROBE_H
#define DF_NET_PROBE_H

#include "base/err.h"

#include <stdint.h>

/* ret_ms: how long it took. The error names neither path nor credentials of the URL. */
enum df_code df_net_probe(const char *url, int64_t timeout_ms, int64_t *ret_ms,
                          struct df_err *err) DF_MUST_CHECK;

#endif

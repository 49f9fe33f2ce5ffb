/*
 * URLs that contain an event's own texts. The texts are percent-encoded, so that an event can
 * neither choose another host nor leave the configured path.
 */
#ifndef DF_RELAY_HTTP_TARGET_H
#define DF_RELAY_HTTP_TARGET_H

#include "relay/dispatcher.h"

/* Checks that a target is a URL, with names in its path and query only; DF_E_CONFIG. */
enum df_code df_http_target_check(const char *target, struct df_err *err) DF_MUST_CHECK;

/*
 * The URL for this event, in the arena. NULL: the event cannot be sent there, since the URL would
 * be too long or have . or .. in its path; *err says which.
 */
const char *df_http_target_expand(struct df_arena *a, const char *target, const struct df_event *e,
                                  struct df_err *err);

#endif

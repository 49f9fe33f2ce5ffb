/*
 * Where an event's own texts become part of an HTTP request: the URL and the values of headers.
 * They are percent-encoded, so that an event can neither choose another host or leave the path that
 * was configured, nor end a header.
 */
#ifndef DF_RELAY_HTTP_TARGET_H
#define DF_RELAY_HTTP_TARGET_H

#include "relay/dispatcher.h"

/* Whether a target is a URL, with names in its path and query only; DF_E_CONFIG. */
enum df_code df_http_target_check(const char *target, struct df_err *err) DF_MUST_CHECK;

/*
 * The URL for this event, in the arena. NULL: the event cannot be sent there, since the URL would
 * be too long or have . or .. in its path; *err says which.
 */
const char *df_http_target_expand(struct df_arena *a, const char *target, const struct df_event *e,
                                  struct df_err *err);

/* As CloudEvents' HTTP binding (3.1.3.2) has it; the slice itself where nothing needs it. */
struct df_str df_http_header_text(struct df_arena *a, struct df_str s);

#endif

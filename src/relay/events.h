/*
 * The server's own events: POST /events writes them to outbox_events of its own database, in the
 * form that other applications have, and a relay like any other takes them from there.
 */
#ifndef DF_RELAY_EVENTS_H
#define DF_RELAY_EVENTS_H

#include "delivery/channel.h"
#include "net/http.h"

extern const struct df_route df_event_routes[]; /* of a struct df_delivery */

/* "events" for people: /admin/outbox/events, `dataflow outbox`. The delivery engine shows it and
 * leaves it alone. wake may be NULL. */
struct df_channel df_events_channel(void (*wake)(const struct df_channel *c), const void *arg);

#endif

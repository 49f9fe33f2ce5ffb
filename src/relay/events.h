/*
 * The server's own events: POST /events writes them to outbox_events in its own database, in the
 * same form as other applications do, and a relay sends them from there.
 */
#ifndef DF_RELAY_EVENTS_H
#define DF_RELAY_EVENTS_H

#include "delivery/channel.h"
#include "net/http.h"

extern const struct df_route df_event_routes[]; /* their argument is a struct df_delivery */

/* The channel "events" for /admin/outbox/events and `dataflow outbox`. The delivery engine only
 * shows it. wake may be NULL. */
struct df_channel df_events_channel(void (*wake)(const struct df_channel *c), const void *arg);

#endif

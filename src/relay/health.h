/*
 * What the relays of all processes know about their destinations: how many events have arrived,
 * since when a destination is away, whether a person has paused the relay. A row of DeliveryTargets
 * for each relay; a thread of its own reads and writes them once a second.
 *
 * While the server's database is away, relays go on with what they know. What they have to write is
 * kept until it is back.
 */
#ifndef DF_RELAY_HEALTH_H
#define DF_RELAY_HEALTH_H

#include "relay/relay.h"
#include "store/store.h"

struct df_relay_health;

struct df_relay_health_options {
    struct df_relay *const *relays; /* with shares_health; copied; they outlive the thread */
    size_t count;
    struct df_store *store;
    const struct df_clock *clock;
};

struct df_relay_health *df_relay_health_start(const struct df_relay_health_options *opt);
/* Writes what there is for the last time, and ends the thread. NULL is fine here and below. */
void df_relay_health_end(struct df_relay_health *h);
void df_relay_health_free(struct df_relay_health *h);

#endif

/* Shared by relays.c and given_up.c. */
#ifndef DF_RELAY_RELAYS_PRIVATE_H
#define DF_RELAY_RELAYS_PRIVATE_H

#include "relay/relays.h"

struct df_relays_entry {
    struct df_relay *relay;
    bool own;
    int64_t noted;    /* events given up, as the server's database has it */
    int64_t noted_ms; /* wall clock: when this process last wrote that */
};

struct df_relays {
    struct df_relay_health *health;
    size_t count;
    struct df_relays_entry *entries;
    int64_t compared_ms; /* wall clock: when the database was last asked */
};

#endif

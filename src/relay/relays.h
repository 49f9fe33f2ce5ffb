/*
 * The relays of a process: one for each section [relay.NAME], and one for the server's own events
 * unless a section covers them.
 */
#ifndef DF_RELAY_RELAYS_H
#define DF_RELAY_RELAYS_H

#include "net/http.h"
#include "relay/relay.h"
#include "store/store.h"

struct df_relays;

struct df_relays_options {
    const struct df_relay_settings *settings; /* live as long as the relays, as does `own` */
    size_t count;
    const char *own_url;                 /* the server's database */
    const struct df_relay_settings *own; /* for its events, unless one of `settings` reads them */
    struct df_outbound *outbound;
    struct df_store
        *store;         /* the server's, for the state that processes share; outlives the relays */
    int64_t give_up_ms; /* delivery.give_up_hours */
    const struct df_clock *clock;
    const struct df_masker *masker; /* of what destinations answer; NULL: as free text */
};

struct df_relays *df_relays_start(const struct df_relays_options *opt);
/* Tells of new events of the server's own. Cheap; any thread; NULL is fine here and below. */
void df_relays_wake_own(struct df_relays *rs);
/* df_relay_stop, df_relay_end and df_relay_free for each. */
void df_relays_stop(struct df_relays *rs, int64_t drain_ms);
void df_relays_end(struct df_relays *rs);
void df_relays_free(struct df_relays *rs);

/* Writes to the server's database how many events were given up, if that has changed; for the alert
 * about them. Waits for the store; one thread at a time. */
void df_relays_note_given_up(struct df_relays *rs, struct df_store *store, int64_t now_ms);

/* Whether these settings are for outbox_events of the server's own database. */
bool df_relays_is_own(const struct df_relay_settings *s, const char *own_url);

/* /admin/relays; their argument is a struct df_relays, or NULL */
extern const struct df_route df_relay_routes[];

#endif

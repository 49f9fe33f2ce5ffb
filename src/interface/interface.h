/*
 * The interface between business systems: counterparties, shipment tickets, functional acks.
 * Handlers store documents; the ticket processing works on them; three channels of the delivery
 * engine bring the outcome to the gateway.
 */
#ifndef DF_INTERFACE_INTERFACE_H
#define DF_INTERFACE_INTERFACE_H

#include "base/secret.h"
#include "delivery/delivery.h"
#include "interface/settings.h"
#include "net/http.h"

struct df_interface;
struct df_webhooks;

struct df_interface_options {
    struct df_store *store;
    struct df_delivery *delivery; /* woken when there is something to send */
    const char *notify_url;       /* of the database, to tell other processes; NULL: not to */
    const struct df_clock *clock;
    struct df_interface_settings settings;
    struct df_delivery_settings delivery_settings; /* tickets are leased and retried likewise */
    struct df_webhooks *webhooks; /* woken when somebody is to hear of tickets; or NULL */
    int64_t max_body_bytes;       /* what a request may bring */
};

/* Other programs write tickets into the table too, of any size. One beyond this, and beyond what a
 * request may bring, is Error, unread. */
#define DF_TICKET_PAYLOAD_MAX ((int64_t)16 << 20)

/* Copies the options' struct; what it points to outlives the interface. */
struct df_interface *df_interface_new(const struct df_interface_options *opt);
/* Adds the three channels to an engine. */
void df_interface_add_channels(struct df_interface *i, struct df_delivery *d);
/* The ticket processing (role `process`). */
void df_interface_start(struct df_interface *i);
/* Ends it, after what it has in hand. */
void df_interface_stop(struct df_interface *i);
void df_interface_free(struct df_interface *i);

const struct df_interface_options *df_interface_options_of(const struct df_interface *i);

enum df_interface_work {
    DF_WORK_TICKETS,
    DF_WORK_ACKS,
    DF_WORK_RETURNS,
    DF_WORK_GATEWAY,
    DF_WORK_COUNT
};

/* There is something to do: here, and in other processes where the database can tell them. Cheap;
 * any thread; after the commit. */
void df_interface_wake(struct df_interface *i, enum df_interface_work w);

/* Their handlers work with a struct df_interface. */
extern const struct df_route df_counterparty_routes[];
extern const struct df_route df_ack_routes[];
extern const struct df_route df_ticket_routes[];
extern const struct df_route df_callback_routes[];
extern const struct df_route df_owner_routes[]; /* of the administrator */

#endif

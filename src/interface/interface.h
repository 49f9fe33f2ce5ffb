/*
 * The interface between business systems: counterparties, shipment tickets, functional acks.
 * Handlers store documents, the ticket processing checks them, and three channels of the delivery
 * engine send the outcome to the gateway.
 */
#ifndef DF_INTERFACE_INTERFACE_H
#define DF_INTERFACE_INTERFACE_H

#include "base/secret.h"
#include "delivery/delivery.h"
#include "interface/settings.h"
#include "net/http.h"
#include "shards/shards.h"

struct df_interface;
struct df_keys;
struct df_masker;
struct df_webhooks;

struct df_interface_options {
    struct df_store *store;
    struct df_shards *shards;     /* of the ticket processing; needed to start it */
    struct df_delivery *delivery; /* woken when there is something to send */
    const char *notify_url;       /* of the database that wakes other processes; NULL: none */
    const struct df_clock *clock;
    struct df_interface_settings settings;
    struct df_delivery_settings delivery_settings; /* for the lease and the retries of tickets */
    const struct df_keys *keys;   /* of the index of people, for rows of other programs; or NULL */
    struct df_webhooks *webhooks; /* woken when there are events of tickets to deliver; or NULL */
    int64_t max_body_bytes;       /* of a request */
    const struct df_masker *masker; /* of callbacks; NULL: they are stored as they came */
    const char *temp_dir;           /* for exports; NULL: there are none */
};

/* Other programs write tickets of any size into the table. A payload larger than this and than
 * max_body_bytes becomes Error without being read. */
#define DF_TICKET_PAYLOAD_MAX ((int64_t)16 << 20)

/* Copies the options' struct; the objects it points to must outlive the interface. */
struct df_interface *df_interface_new(const struct df_interface_options *opt);
/* Adds the three channels to an engine. */
void df_interface_add_channels(struct df_interface *i, struct df_delivery *d);
/* Starts the ticket processing (role `process`), before the shards are started. From now on tickets
 * are processed in the transaction that accepts them. */
void df_interface_start(struct df_interface *i);
/* Stops it after the current batch. */
void df_interface_stop(struct df_interface *i);
void df_interface_free(struct df_interface *i);

/* Finds the tickets whose processing was given up, as `given_up` of a channel finds rows. */
const struct df_query *df_interface_given_up(void);
/* Counts them for the metrics, without waiting. */
void df_interface_take_figures(struct df_interface *i);

const struct df_interface_options *df_interface_options_of(const struct df_interface *i);

enum df_interface_work {
    DF_WORK_TICKETS,
    DF_WORK_ACKS,
    DF_WORK_RETURNS,
    DF_WORK_GATEWAY,
    DF_WORK_COUNT
};

/* Tells that there is work: this process, and others if the database can notify them. Call it after
 * the commit; cheap; any thread. */
void df_interface_wake(struct df_interface *i, enum df_interface_work w);
/* The same for rows that are due from due_ms on (delivery/delivery.h). */
void df_interface_wake_since(struct df_interface *i, enum df_interface_work w, int64_t due_ms);

/* The argument of these routes is a struct df_interface. */
extern const struct df_route df_counterparty_routes[];
extern const struct df_route df_ack_routes[];
extern const struct df_route df_ticket_routes[];
extern const struct df_route df_callback_routes[];
extern const struct df_route df_reprocess_routes[];      /* for clients and administrators */
extern const struct df_route df_ticket_dismiss_routes[]; /* argument: none */
extern const struct df_route df_owner_routes[];          /* for administrators */
extern const struct df_route df_ticket_admin_routes[];

#endif

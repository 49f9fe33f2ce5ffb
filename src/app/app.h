/*
 * The parts of a process. Each part (parts.h) fills its members when it starts; without the part
 * they are NULL or zero. Read-only from then on, except for the parts themselves.
 */
#ifndef DF_APP_APP_H
#define DF_APP_APP_H

#include "access/access.h"
#include "access/audit_heads.h"
#include "access/maintenance.h"
#include "app/parts.h"
#include "app/settings.h"
#include "base/loop.h"
#include "delivery/channel.h"
#include "keys/data_keys.h"
#include "outbound/outbound.h"
#include "retention/subjects_report.h"

#define DF_MAINTENANCE_TURNS 8

struct df_app {
    const struct df_settings *settings; /* outlive the app */
    struct df_access access; /* the HTTP server's argument: its address must not change. Its clock
                                is there before any part. */
    struct df_data_keys keys;
    struct df_waiting *waiting; /* answers until the server listens; NULL: no need */
    struct df_key_watch *key_watch;
    struct df_rekey *rekey;
    struct df_buf *warnings;    /* of the settings, until they are logged; may be NULL */
    struct df_shipper *shipper; /* NULL: the log goes to standard error only */
    int64_t ship_until_ms;      /* the real clock, monotonic; when the end must have come */
    struct df_outbound outbound;
    struct df_instance *instance;
    struct df_shards *shards;     /* NULL: this process takes no work from the tables */
    struct df_delivery *delivery; /* its channels are known whether or not this process delivers */
    struct df_relay_settings ready_relay; /* tells of batches; without imports.queue: no name */
    struct df_relay *ready;
    struct df_consumer *consumer; /* of the same messages */
    struct df_relays *relays;
    struct df_settings own_relay; /* of the server's own events, unless a section covers them */
    struct df_integrations *integrations;
    struct df_webhooks *webhooks;
    struct df_subscriptions *subscriptions;
    struct df_interface *interface;
    struct df_channel events;
    struct df_alerts *alerts;
    struct df_masker *masker;
    struct df_storage *storage;
    struct df_zone *zone;
    struct df_maintenance maintenance;
    struct df_audit_watch audit;
    struct df_loop audit_loop; /* its own: housekeeping may wait for a bucket */
    struct df_locks *locks;
    struct df_imports *imports;
    struct df_receiver *receiver;
    struct df_import_views *import_views;
    struct df_retention *retention;
    struct df_purge *purge;
    struct df_subject_fill *subject_fill;
    struct df_backups *backups; /* the server's own; NULL: it makes none, or cannot yet */
    struct df_loop backup_loop;
    struct df_loop
        background; /* part_maintenance.c; woken when there is work for one of its turns */
    int64_t background_due_ms[DF_MAINTENANCE_TURNS]; /* monotonic; INT64_MAX: when it is woken */
    struct df_loop housekeeping;
    int64_t maintained_ms; /* monotonic, of the loop */
    int64_t evaluated_ms;
};

/* part_ship.c */
extern const struct df_part df_part_ship;
/* part_access.c */
extern const struct df_part df_part_store;
extern const struct df_part df_part_instance;
extern const struct df_part df_part_access;
extern const struct df_part df_part_housekeeping;
/* part_keys.c */
extern const struct df_part df_part_keys;
extern const struct df_part df_part_rekey;
/* part_delivery.c */
extern const struct df_part df_part_outbound;
extern const struct df_part df_part_shards;
extern const struct df_part df_part_delivery;
extern const struct df_part df_part_integrations;
extern const struct df_part df_part_webhooks;
extern const struct df_part df_part_subscriptions;
extern const struct df_part df_part_interface;
extern const struct df_part df_part_alerts;
extern const struct df_part df_part_channels;
/* part_relays.c */
extern const struct df_part df_part_relays;
/* part_queue.c */
extern const struct df_part df_part_announce;
extern const struct df_part df_part_consume;
/* part_maintenance.c */
extern const struct df_part df_part_purge;
extern const struct df_part df_part_maintenance;
/* part_backup.c */
extern const struct df_part df_part_backup;
/* part_imports.c */
extern const struct df_part df_part_masker;
extern const struct df_part df_part_storage;
extern const struct df_part df_part_locks;
extern const struct df_part df_part_imports;
extern const struct df_part df_part_uploads;

/* Opens records that imports keep, for rooms that do not know imports. */
extern struct df_subject_kept df_app_kept; /* kept.c */

/* Adds the channels to the delivery engine, in the order in which they are shown. */
void df_app_add_channels(struct df_app *app);

#endif

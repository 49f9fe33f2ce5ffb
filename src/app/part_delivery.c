/* The parts for calls to others, for the delivery engine, and for the features that deliver through
 * it. */
#include "alerts/alerts.h"
#include "app/app.h"
#include "delivery/delivery.h"
#include "integrations/integrations.h"
#include "interface/interface.h"
#include "privacy/mask.h"
#include "relay/events.h"
#include "relay/relays.h"
#include "shards/shards.h"
#include "webhooks/subscriptions.h"
#include "webhooks/webhooks.h"

#include <unistd.h>

/* Leaves room for other destinations while one hangs. */
#define CALLS_FOR(n) ((n) > 64 ? 4 * (n) : 256)
/* How much a body may grow in an outbox, in the widest encoding of a database. */
#define ROW_FOR(bytes) ((bytes) > 4 * DF_MIB ? 4 * (bytes) : 16 * DF_MIB)

/* --- calls to others --- */

/* Beside them run the writer, the HTTP threads and often the database: half of the processors. */
static int64_t client_threads(int64_t wanted)
{
    int64_t processors = sysconf(_SC_NPROCESSORS_ONLN);
    return wanted > 0 ? wanted : processors > 3 ? processors / 2 : 1;
}

static enum df_code start_outbound(struct df_app *app, struct df_err *err)
{
    const struct df_settings *set = app->settings;
    const struct df_http_client_options client = {
        .threads = client_threads(set->delivery.client_threads),
        .max_in_flight = CALLS_FOR(set->delivery.concurrency),
        .max_per_destination = set->delivery.concurrency,
        .user_agent = "DataFlow/" DF_VERSION,
        .clock = app->access.clock,
    };
    return df_outbound_open(&app->outbound, &client, &set->breaker, app->access.clock, err);
}

static void stop_outbound(struct df_app *app, int64_t deadline_ms)
{
    (void)deadline_ms;
    df_outbound_stop(&app->outbound);
}

static void free_outbound(struct df_app *app)
{
    df_outbound_close(&app->outbound);
}

const struct df_part df_part_outbound = {
    .start = start_outbound, .stop = stop_outbound, .free = free_outbound};

/* --- who does which work --- */

static enum df_code start_shards(struct df_app *app, struct df_err *err)
{
    (void)err;
    app->shards = df_shards_new(&(struct df_shards_options){
        .store = app->access.store,
        .clock = app->access.clock,
        .instance = app->instance,
        .version = DF_VERSION,
        .lease_ms = app->settings->delivery.lease_ms,
    });
    return DF_OK;
}

/* The last settlements, of parts behind this one in the table, are written before it ends. */
static void end_shards(struct df_app *app)
{
    df_shards_end(app->shards);
}

static void free_shards(struct df_app *app)
{
    df_shards_free(app->shards);
}

const struct df_part df_part_shards = {.roles = DF_ROLE_DELIVER | DF_ROLE_PROCESS,
                                       .start = start_shards,
                                       .end = end_shards,
                                       .free = free_shards};

/* --- the engine --- */

static struct df_str mask_answer(const void *masker, struct df_str answer, size_t max_units,
                                 struct df_arena *a)
{
    return df_mask_answer(masker, answer, max_units, a);
}

static enum df_code start_delivery(struct df_app *app, struct df_err *err)
{
    (void)err;
    app->delivery = df_delivery_new(&(struct df_delivery_options){
        .store = app->access.store,
        .outbound = &app->outbound,
        .shards = app->settings->roles & DF_ROLE_DELIVER ? app->shards : NULL,
        .clock = app->access.clock,
        .settings = app->settings->delivery,
        .max_row_bytes = ROW_FOR(app->settings->http.max_body_bytes),
        .mask = mask_answer,
        .mask_arg = app->masker,
    });
    return DF_OK;
}

/* Calls on their way may come back during the drain; the rest are cut off, and their rows are sent
 * again later. */
static void stop_delivery(struct df_app *app, int64_t deadline_ms)
{
    df_delivery_stop(app->delivery, df_parts_left_ms(deadline_ms));
}

static void end_delivery(struct df_app *app)
{
    df_delivery_end(app->delivery);
}

static void free_delivery(struct df_app *app)
{
    df_delivery_free(app->delivery);
}

const struct df_part df_part_delivery = {
    .start = start_delivery, .stop = stop_delivery, .end = end_delivery, .free = free_delivery};

/* --- integrations --- */

static enum df_code start_integrations(struct df_app *app, struct df_err *err)
{
    const struct df_settings *set = app->settings;

    (void)err;
    app->integrations = df_integrations_new(&(struct df_integrations_options){
        .settings = set->integrations,
        .count = set->integration_count,
        .store = app->access.store,
        .outbound = &app->outbound,
        .clock = app->access.clock,
        .max_per_client = CALLS_FOR(set->delivery.concurrency) / 4,
    });
    return DF_OK;
}

static void stop_integrations(struct df_app *app, int64_t deadline_ms)
{
    (void)deadline_ms;
    df_integrations_stop(app->integrations);
}

static void free_integrations(struct df_app *app)
{
    df_integrations_free(app->integrations);
}

const struct df_part df_part_integrations = {
    .start = start_integrations, .stop = stop_integrations, .free = free_integrations};

/* --- webhooks --- */

static enum df_code start_webhooks(struct df_app *app, struct df_err *err)
{
    (void)err;
    app->webhooks = df_webhooks_new(&(struct df_webhooks_options){
        .store = app->access.store,
        .clock = app->access.clock,
        .keys = app->access.keys,
        .settings = app->settings->webhooks,
        .notify_url = app->settings->store.url,
    });
    return DF_OK;
}

static void stop_webhooks(struct df_app *app, int64_t deadline_ms)
{
    (void)deadline_ms;
    df_webhooks_stop(app->webhooks);
}

static void free_webhooks(struct df_app *app)
{
    df_webhooks_free(app->webhooks);
}

const struct df_part df_part_webhooks = {
    .start = start_webhooks, .stop = stop_webhooks, .free = free_webhooks};

/* --- subscriptions --- */

static void stop_subscriptions(struct df_app *app, int64_t deadline_ms)
{
    (void)deadline_ms;
    df_subscriptions_stop(app->subscriptions);
}

static void free_subscriptions(struct df_app *app)
{
    df_subscriptions_free(app->subscriptions);
    app->subscriptions = NULL;
}

static enum df_code start_subscriptions(struct df_app *app, struct df_err *err)
{
    app->subscriptions = df_subscriptions_new(&(struct df_subscriptions_options){
        .store = app->access.store,
        .clock = app->access.clock,
        .webhooks = app->webhooks,
        .keys = app->access.keys,
        .settings = app->settings->webhooks,
    });
    enum df_code code = df_subscriptions_seal(app->subscriptions, err);
    if (code != DF_OK)
        free_subscriptions(app);
    return code;
}

const struct df_part df_part_subscriptions = {.roles = DF_ROLE_API,
                                              .start = start_subscriptions,
                                              .stop = stop_subscriptions,
                                              .free = free_subscriptions};

/* --- the interface between business systems --- */

static enum df_code start_interface(struct df_app *app, struct df_err *err)
{
    const struct df_settings *set = app->settings;

    (void)err;
    app->interface = df_interface_new(&(struct df_interface_options){
        .masker = app->masker,
        .store = app->access.store,
        .shards = app->shards,
        .clock = app->access.clock,
        .settings = set->interface,
        .delivery_settings = set->delivery,
        .max_body_bytes = set->http.max_body_bytes,
        .notify_url = set->store.url,
        .keys = app->access.keys,
        .webhooks = app->webhooks,
        .temp_dir = app->settings->data_dir,
    });
    return DF_OK;
}

static void stop_interface(struct df_app *app, int64_t deadline_ms)
{
    (void)deadline_ms;
    df_interface_stop(app->interface);
}

static void free_interface(struct df_app *app)
{
    df_interface_free(app->interface);
}

const struct df_part df_part_interface = {
    .start = start_interface, .stop = stop_interface, .free = free_interface};

/* --- alerts --- */

static enum df_code start_alerts(struct df_app *app, struct df_err *err)
{
    (void)err;
    app->alerts = df_alerts_new(&(struct df_alerts_options){
        .store = app->access.store,
        .clock = app->access.clock,
        .settings = app->settings->alerts,
    });
    return DF_OK;
}

static void free_alerts(struct df_app *app)
{
    df_alerts_free(app->alerts);
}

const struct df_part df_part_alerts = {.start = start_alerts, .free = free_alerts};

/* --- the channels --- */

static void wake_own_events(const struct df_channel *c)
{
    const struct df_app *app = c->arg;
    df_relays_wake_own(app->relays);
}

void df_app_add_channels(struct df_app *app)
{
    df_interface_add_channels(app->interface, app->delivery);
    app->events = df_events_channel(wake_own_events, app);
    df_delivery_add(app->delivery, &app->events);
    df_integrations_add_channels(app->integrations, app->delivery);
    df_webhooks_add_channels(app->webhooks, app->delivery);
    df_alerts_add_channel(app->alerts, app->delivery);
    df_alerts_add_source(app->alerts, &(struct df_alerts_source){
                                          .name = "tickets", .given_up = df_interface_given_up()});
}

/* Every process knows the channels; only one with the role delivers, or works on tickets. They stop
 * with their own parts; shards begin when all who use them are known. */
static enum df_code start_channels(struct df_app *app, struct df_err *err)
{
    (void)err;
    df_app_add_channels(app);
    if (app->settings->roles & DF_ROLE_DELIVER)
        df_delivery_start(app->delivery);
    if (app->settings->roles & DF_ROLE_PROCESS)
        df_interface_start(app->interface);
    if (app->shards)
        df_shards_start(app->shards);
    return DF_OK;
}

/* Before its users stop: no more work is taken, and other processes take what is left. */
static void stop_channels(struct df_app *app, int64_t deadline_ms)
{
    (void)deadline_ms;
    df_shards_stop(app->shards);
}

const struct df_part df_part_channels = {.start = start_channels, .stop = stop_channels};

#include "app/server.h"

#include "access/policies.h"
#include "access/usage.h"
#include "admin/admin.h"
#include "admin/outbox.h"
#include "alerts/alerts.h"
#include "app/database.h"
#include "app/files.h"
#include "app/relays.h"
#include "app/system_routes.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "imports/api/views.h"
#include "imports/imports.h"
#include "imports/receive/receive.h"
#include "imports/routes.h"
#include "integrations/integrations.h"
#include "interface/interface.h"
#include "relay/events.h"
#include "relay/relays.h"
#include "webhooks/subscriptions.h"
#include "webhooks/webhooks.h"

#include <assert.h>
#include <signal.h>
#include <stdlib.h>

#define HOUSEKEEPING_MS 5000
#define MAINTAIN_MS     60000
/* Who needs to know of files and batches. */
#define IMPORT_ROLES (DF_ROLE_API | DF_ROLE_IMPORT | DF_ROLE_MAINTAIN)
/* Room for more destinations than one that hangs. */
#define CALLS_FOR(n) ((n) > 64 ? 4 * (n) : 256)
/* What a body may become in an outbox, in the widest encoding of a database. */
#define ROW_FOR(bytes) ((bytes) > 4 * MIB ? 4 * (bytes) : 16 * MIB)
#define MIB            (INT64_C(1) << 20)

#define TABLES_MAX     24

/* The parts. */
struct df_services {
    struct df_store *store;
    struct df_auth *auth;
    struct df_usage *usage;
    struct df_policies *policies;
    const struct df_clock *clock;
    struct df_breakers *breakers;
    struct df_delivery *delivery; /* its channels are known whether or not this process delivers */
    struct df_webhooks *webhooks;
    struct df_alerts *alerts;
    struct df_interface *interface;
    struct df_integrations *integrations;
    struct df_relays *relays;               /* NULL without the role */
    struct df_subscriptions *subscriptions; /* NULL without the role `api` */
    struct df_imports *imports;             /* NULL where the roles have nothing to do with them */
    struct df_receiver *receiver;           /* likewise */
    struct df_import_views *import_views;   /* likewise */
};

struct df_server {
    struct df_access access; /* the HTTP server's argument: its address must not change */
    struct df_system system;
    struct df_services services;
    struct df_http_server *http;
    struct df_outbound outbound;
    int64_t drain_ms;
    struct df_route_table tables[TABLES_MAX];
    struct df_route receive_routes[2]; /* the table, with the limit that is configured */
    struct df_storage *storage;
    struct df_zone *zone;
    struct df_maintenance maintenance;
    struct df_channel events;
    struct df_secret *master;     /* what secrets of webhooks are encrypted with; or NULL */
    struct df_secret *old_master; /* and were, before that */
    struct df_settings own_relay; /* of own events, where nothing else is configured for them */

    pthread_t housekeeper;
    bool housekeeping;
    bool maintains;
    int64_t tick_ms;
    int64_t alert_interval_ms;
    struct df_mutex lock;
    pthread_cond_t wake;
    bool stopping;
};

/* --- signals --- */

/* SIGHUP comes when the terminal goes; nohup has it ignored, and blocked it would come all the
 * same. */
static void stop_signals(sigset_t *set)
{
    struct sigaction hangup = {0};

    sigemptyset(set);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGINT);
    if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler != SIG_IGN)
        sigaddset(set, SIGHUP);
}

void df_server_block_signals(void)
{
    sigset_t set;
    stop_signals(&set);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
}

void df_server_wait(void)
{
    sigset_t set;
    stop_signals(&set);
    int sig = 0;
    while (sigwait(&set, &sig) != 0)
        ;
    df_log_info("ServerStopping", "signal %d: finishing what is in hand", sig);
}

/* --- housekeeping: what has to be done now and then --- */

static void *housekeep(void *arg)
{
    struct df_server *s = arg;
    int64_t maintained_ms = -MAINTAIN_MS;
    int64_t evaluated_ms = -s->alert_interval_ms;
    df_lock(&s->lock);
    while (!s->stopping) {
        if (df_cond_wait_ms(&s->wake, &s->lock, s->tick_ms))
            continue;
        df_unlock(&s->lock);
        df_auth_flush_seen(s->services.auth);
        int64_t now_ms = df_mono_ms(df_clock_real());
        if (s->maintains && now_ms - maintained_ms >= MAINTAIN_MS) {
            df_imports_maintain(s->services.imports);
            df_subscriptions_forget_previous(s->services.store, s->services.clock);
            maintained_ms = now_ms;
        }
        if (s->maintains && now_ms - evaluated_ms >= s->alert_interval_ms) {
            df_alerts_evaluate(s->services.alerts);
            evaluated_ms = now_ms;
        }
        df_lock(&s->lock);
    }
    df_unlock(&s->lock);
    return NULL;
}

static void stop_housekeeping(struct df_server *s)
{
    if (!s->housekeeping)
        return;
    df_lock(&s->lock);
    s->stopping = true;
    pthread_cond_signal(&s->wake);
    df_unlock(&s->lock);
    pthread_join(s->housekeeper, NULL);
    s->housekeeping = false;
}

/* --- start --- */

static enum df_code prepare_database(const struct df_settings *set, struct df_err *err)
{
    struct df_db *db = NULL;
    size_t applied = 0;
    enum df_code code = df_open_database(set, set->database.migrate, &db, &applied, err);
    if (code != DF_OK)
        return code;
    if (applied > 0)
        df_log_info("SchemaApplied", "%zu schema scripts ran", applied);
    df_db_close(db);
    return DF_OK;
}

static enum df_verdict authorize(struct df_req *req, void *arg)
{
    const struct df_access *access = arg;
    return df_auth_authorize(access->auth, req);
}

static enum df_code listen_http(struct df_server *s, const struct df_settings *set,
                                struct df_err *err)
{
    struct df_http_options opt = {
        .listen = set->server.listen,
        .threads = set->server.threads,
        .max_body_bytes = (size_t)set->server.max_body_bytes,
        .header_timeout_ms = set->server.header_timeout_ms,
        .idle_timeout_ms = set->server.idle_timeout_ms,
        .max_connections = df_files_for_connections(set->server.max_connections),
        .max_connections_per_address = set->server.max_connections_per_address,
        .trusted_proxies = set->server.trusted_proxies,
        .memory_budget_bytes = (size_t)set->server.memory_budget_bytes,
        .tls_cert = set->server.tls_cert,
        .tls_key = set->server.tls_key,
        .access_log = set->server.access_log,
        .version_prefix = true,
        .metrics_prefix = "dataflow",
        .clock = s->services.clock,
        .tables = s->tables,
        .absent = set->admin.key ? 0 : 1u << DF_ACCESS_ADMIN,
        .authorize = authorize,
        .arg = &s->access,
    };
    return df_http_start(&opt, &s->http, err);
}

static void log_started(const struct df_server *s, const struct df_settings *set)
{
    enum df_dialect dialect = df_store_dialect(s->services.store);
    struct df_log_field fields[] = {
        DF_F("address", df_str_c(df_http_address(s->http))),
        DF_F("version", DF_STR(DF_VERSION)),
        DF_F("backend", df_str_c(df_dialect_name(dialect))),
    };
    df_log_write(DF_LOG_INFO, "ServerStarted", fields, sizeof fields / sizeof fields[0],
                 "listening on %s://%s", set->server.tls_cert ? "https" : "http",
                 df_http_address(s->http));
}

/* --- deliveries --- */

static void wake_own_events(const struct df_channel *c)
{
    const struct df_services *sv = c->arg;
    df_relays_wake_own(sv->relays);
}

static void make_alerts(struct df_server *s, const struct df_settings *set,
                        const struct df_retry_policy *retry)
{
    struct df_services *sv = &s->services;

    s->alert_interval_ms = set->alerts.interval_ms;
    s->tick_ms = s->alert_interval_ms < HOUSEKEEPING_MS ? s->alert_interval_ms : HOUSEKEEPING_MS;
    sv->alerts = df_alerts_new(&(struct df_alerts_options){
        .store = sv->store,
        .clock = sv->clock,
        .pagerduty_routing_key = set->alerts.pagerduty_routing_key,
        .pagerduty_url = set->alerts.pagerduty_url,
        .teams_url = set->alerts.teams_url,
        .console_url = set->alerts.console_url,
        .interval_ms = s->alert_interval_ms,
        .batch_stuck_ms = set->alerts.batch_stuck_ms,
        .delivery_stuck_ms = set->alerts.delivery_stuck_ms,
        .webhook_failures = set->alerts.webhook_failures,
        .error_rate_percent = set->alerts.error_rate_percent,
        .error_rate_min = set->alerts.error_rate_min,
        .error_rate_ms = set->alerts.error_rate_ms,
        .retry = *retry,
    });
    df_alerts_add_channel(sv->alerts, sv->delivery);
}

/* --- subscriptions --- */

static enum df_code start_subscriptions(struct df_server *s, const struct df_settings *set,
                                        struct df_err *err)
{
    struct df_services *sv = &s->services;

    sv->subscriptions = df_subscriptions_new(&(struct df_subscriptions_options){
        .store = sv->store,
        .clock = sv->clock,
        .webhooks = sv->webhooks,
        .keys = {.master = s->master, .old_master = s->old_master},
        .max_per_client = set->webhooks.max_per_client,
        .rotation_overlap_ms = set->webhooks.rotation_overlap_ms,
        .allow_private = set->delivery.allow_private_targets,
    });
    return df_subscriptions_seal(sv->subscriptions, err);
}

static void make_webhooks(struct df_server *s, const struct df_settings *set)
{
    s->master = df_secret_key_new(df_secret_str(set->security.master_key));
    s->old_master = df_secret_key_new(df_secret_str(set->security.master_old_key));
    s->services.webhooks = df_webhooks_new(&(struct df_webhooks_options){
        .store = s->services.store,
        .clock = s->services.clock,
        .retry_delays_ms = set->webhooks.retry_delays_ms.items,
        .retry_delay_count = set->webhooks.retry_delays_ms.count,
        .timeout_ms = set->webhooks.timeout_ms,
        .disable_after_ms = set->webhooks.disable_after_ms,
        .allow_private = set->delivery.allow_private_targets,
        .keys = {.master = s->master, .old_master = s->old_master},
        .notify_url = set->database.url,
    });
}

static void make_interface(struct df_services *sv, const struct df_settings *set,
                           const struct df_retry_policy *retry)
{
    sv->interface = df_interface_new(&(struct df_interface_options){
        .store = sv->store,
        .clock = sv->clock,
        .functional_ack_url = set->gateway.functional_ack_url,
        .ticket_return_url = set->gateway.ticket_return_url,
        .ticket_send_url = set->gateway.ticket_send_url,
        .api_key = set->gateway.api_key,
        .api_key_header = set->gateway.api_key_header,
        .ack_business_application = set->gateway.ack_business_application,
        .retry = *retry,
        .lease_ms = set->delivery.lease_ms,
        .max_body_bytes = set->server.max_body_bytes,
        .notify_url = set->database.url,
        .webhooks = sv->webhooks,
    });
    df_interface_add_channels(sv->interface, sv->delivery);
}

static void make_integrations(struct df_server *s, const struct df_settings *set)
{
    struct df_services *sv = &s->services;

    sv->integrations = df_integrations_new(&(struct df_integrations_options){
        .settings = set->integrations,
        .count = set->integration_count,
        .store = sv->store,
        .outbound = &s->outbound,
        .clock = sv->clock,
        .max_per_client = CALLS_FOR(set->delivery.concurrency) / 4,
    });
    df_integrations_add_channels(sv->integrations, sv->delivery);
}

/* The channels are known to every process; only one with the role delivers. */
static enum df_code start_delivery(struct df_server *s, const struct df_settings *set,
                                   struct df_err *err)
{
    struct df_services *sv = &s->services;
    const struct df_retry_policy retry = {.base_ms = set->delivery.retry_base_ms,
                                          .cap_ms = set->delivery.retry_cap_ms,
                                          .max_attempts = set->delivery.max_attempts};
    struct df_http_client_options co = {.max_in_flight = CALLS_FOR(set->delivery.concurrency),
                                        .max_per_destination = set->delivery.concurrency,
                                        .user_agent = "DataFlow/" DF_VERSION,
                                        .clock = sv->clock};
    enum df_code code = df_outbound_open(&s->outbound, &co, &set->breaker, sv->clock, err);
    if (code != DF_OK)
        return code;
    sv->breakers = s->outbound.breakers;
    sv->delivery = df_delivery_new(&(struct df_delivery_options){
        .store = sv->store,
        .outbound = &s->outbound,
        .clock = sv->clock,
        .retry = retry,
        .lease_ms = set->delivery.lease_ms,
        .timeout_ms = set->delivery.timeout_ms,
        .max_row_bytes = ROW_FOR(set->server.max_body_bytes),
    });
    make_webhooks(s, set);
    make_interface(sv, set, &retry);
    s->events = df_events_channel(wake_own_events, sv);
    df_delivery_add(sv->delivery, &s->events);
    make_integrations(s, set);
    df_webhooks_add_channels(sv->webhooks, sv->delivery);
    make_alerts(s, set, &retry);
    if (set->server.roles & DF_ROLE_DELIVER)
        df_delivery_start(sv->delivery);
    if (set->server.roles & DF_ROLE_PROCESS)
        df_interface_start(sv->interface);
    return DF_OK;
}

/* What is being sent may come back while the drain lasts; the rest is cut off and sent again later.
 */
static void stop_delivery(struct df_server *s, int64_t deadline_ms)
{
    struct df_services *sv = &s->services;

    df_interface_stop(sv->interface);
    df_webhooks_stop(sv->webhooks);
    df_integrations_stop(sv->integrations);
    int64_t relays_ms = deadline_ms - df_mono_ms(df_clock_real());
    df_relays_stop(sv->relays, relays_ms > 0 ? relays_ms : 0);
    int64_t left_ms = deadline_ms - df_mono_ms(df_clock_real());
    df_delivery_stop(sv->delivery, left_ms > 0 ? left_ms : 0);
    df_outbound_stop(&s->outbound);
    df_relays_end(sv->relays);
    df_delivery_end(sv->delivery);
}

/* --- imports --- */

static enum df_code start_imports(struct df_server *s, const struct df_settings *set,
                                  struct df_err *err)
{
    struct df_services *sv = &s->services;
    struct df_storage_options storage = df_settings_storage(set);
    storage.clock = sv->clock;
    enum df_code code = df_storage_new(&storage, &s->storage, err);
    if (code == DF_OK)
        code = df_zone_open(set->imports.business_time_zone, &s->zone, err);
    if (code == DF_OK)
        code = df_maintenance_add(&s->maintenance, df_str_c(set->imports.maintenance_windows), err);
    if (code != DF_OK)
        return code;
    sv->imports = df_imports_new(&(struct df_imports_options){
        .store = sv->store,
        .storage = s->storage,
        .outbound = &s->outbound,
        .clock = sv->clock,
        .data_dir = set->server.data_dir,
        .settings = set->imports,
        .zone = s->zone,
        .maintenance = &s->maintenance,
        .webhooks = sv->webhooks,
    });
    if (set->server.roles & DF_ROLE_API) {
        sv->receiver = df_receiver_new(sv->imports);
        sv->import_views = df_import_views_new(sv->imports, sv->receiver, set->server.data_dir);
    }
    if (set->server.roles & DF_ROLE_IMPORT)
        df_imports_start(sv->imports);
    s->maintains = set->server.roles & DF_ROLE_MAINTAIN;
    return DF_OK;
}

/* Transfers of files end at once and are taken up by whoever comes next; uploads that are whole are
 * answered; batches in work have what is left of the drain. */
static void stop_imports(struct df_server *s, int64_t deadline_ms)
{
    struct df_services *sv = &s->services;

    df_receiver_stop(sv->receiver);
    df_import_views_stop(sv->import_views);
    int64_t left_ms = deadline_ms - df_mono_ms(df_clock_real());
    if (sv->imports)
        df_imports_stop(sv->imports, left_ms > 0 ? left_ms : 0);
}

/* --- routes --- */

/* What the role `api` answers, each table with what its handlers work with. Returns how many. */
static size_t list_api(struct df_server *s, struct df_route_table *out)
{
    struct df_services *sv = &s->services;
    const struct df_route_table tables[] = {
        {df_admin_routes, NULL},
        {df_policy_routes, NULL},
        {df_outbox_routes, sv->delivery},
        {df_breaker_routes, sv->breakers},
        {df_counterparty_routes, sv->interface},
        {df_ticket_routes, sv->interface},
        {df_callback_routes, sv->interface},
        {df_owner_routes, sv->interface},
        {df_ack_routes, sv->interface},
        {df_event_routes, sv->delivery},
        {df_integration_routes, sv->integrations},
        {df_relay_routes, sv->relays},
        {s->receive_routes, sv->receiver},
        {df_imports_action_routes, sv->import_views},
        {df_imports_ack_routes, sv->import_views},
        {df_imports_read_routes, sv->import_views},
        {df_imports_usage_routes, sv->import_views},
        {df_alert_routes, sv->alerts},
        {df_subscription_routes, sv->subscriptions},
        {df_webhook_failure_routes, sv->subscriptions},
    };
    static_assert(sizeof tables / sizeof tables[0] + 4 <= TABLES_MAX,
                  "and three more, and the end");

    s->receive_routes[0] = df_imports_receive_routes[0];
    memcpy(out, tables, sizeof tables);
    return sizeof tables / sizeof tables[0];
}

/* Whatever its role, a process is asked for its health and its figures. */
static void bind_routes(struct df_server *s, const struct df_settings *set,
                        const struct df_route *extra)
{
    size_t n = 0;

    s->system =
        (struct df_system){.delivery = s->services.delivery, .imports = s->services.imports};
    s->tables[n++] = (struct df_route_table){df_probe_routes, NULL};
    s->tables[n++] = (struct df_route_table){df_system_routes, &s->system};
    if (set->server.roles & DF_ROLE_API)
        n += list_api(s, s->tables + n);
    s->receive_routes[0].max_body_bytes =
        df_receive_body_limit((uint64_t)set->imports.max_upload_bytes);
    s->tables[n++] = (struct df_route_table){extra, NULL};
}

/* The database, who is calling, and what they may. */
static enum df_code start_access(struct df_server *s, const struct df_settings *set,
                                 struct df_err *err)
{
    struct df_services *sv = &s->services;
    const struct df_store_options so = {.url = set->database.url,
                                        .pool_size = set->database.pool_size,
                                        .queue_size = set->database.queue_size,
                                        .group_max = set->database.group_max,
                                        .clock = sv->clock};
    enum df_code code = prepare_database(set, err);
    if (code == DF_OK)
        code = df_store_open(&so, &sv->store, err);
    if (code != DF_OK)
        return code;
    sv->usage = df_usage_new(sv->store, sv->clock);
    sv->auth =
        df_auth_new(&(struct df_auth_options){.store = sv->store,
                                              .clock = sv->clock,
                                              .admin_key = set->admin.key,
                                              .failures_per_minute = set->auth.failures_per_minute,
                                              .hash_threads = set->auth.hash_threads,
                                              .usage = sv->usage});
    sv->policies = df_policies_new(sv->clock);
    s->access = (struct df_access){.store = sv->store,
                                   .auth = sv->auth,
                                   .usage = sv->usage,
                                   .policies = sv->policies,
                                   .clock = sv->clock};
    return DF_OK;
}

enum df_code df_server_start(const struct df_server_options *opt, struct df_server **ret,
                             struct df_err *err)
{
    const struct df_settings *set = opt->settings;
    struct df_server *s = df_calloc(1, sizeof *s);
    s->services.clock = df_clock_real();
    s->drain_ms = set->server.drain_ms;
    df_mutex_init(&s->lock);
    df_cond_init(&s->wake);
    df_metric_register_process(DF_VERSION);

    enum df_code code = start_access(s, set, err);
    if (code != DF_OK)
        goto out;
    if ((code = start_delivery(s, set, err)) != DF_OK)
        goto out;
    if (set->server.roles & DF_ROLE_API && (code = start_subscriptions(s, set, err)) != DF_OK)
        goto out;
    if (set->server.roles & IMPORT_ROLES && (code = start_imports(s, set, err)) != DF_OK)
        goto out;
    if (set->server.roles & DF_ROLE_RELAY &&
        (code = df_app_relays_start(set, s->services.clock, &s->outbound, &s->own_relay,
                                    &s->services.relays, err)) != DF_OK)
        goto out;
    bind_routes(s, set, opt->extra_routes);
    df_system_started(df_mono_ms(s->services.clock));
    if ((code = listen_http(s, set, err)) != DF_OK)
        goto out;
    if (pthread_create(&s->housekeeper, NULL, housekeep, s) != 0)
        abort();
    s->housekeeping = true;
    log_started(s, set);
    *ret = s;
out:
    if (code != DF_OK)
        df_server_stop(s);
    return code;
}

const char *df_server_address(const struct df_server *s)
{
    return df_http_address(s->http);
}

const struct df_access *df_server_access(const struct df_server *s)
{
    return &s->access;
}

/* Whoever does work in threads of its own, each kind before the ones it hands work to. */
static void stop_services(struct df_server *s, int64_t deadline_ms)
{
    struct df_services *sv = &s->services;

    if (s->storage)
        df_storage_cancel(s->storage);
    stop_housekeeping(s);
    if (sv->auth) {
        df_auth_stop(sv->auth);
        df_auth_flush_seen(sv->auth);
    }
    df_usage_stop(sv->usage);
    df_subscriptions_stop(sv->subscriptions);
    stop_imports(s, deadline_ms);
    stop_delivery(s, deadline_ms);
    df_imports_end(sv->imports);
    df_store_stop(sv->store);
}

static void free_services(struct df_server *s)
{
    struct df_services *sv = &s->services;

    df_integrations_free(sv->integrations);
    df_alerts_free(sv->alerts);
    df_subscriptions_free(sv->subscriptions);
    df_import_views_free(sv->import_views);
    df_receiver_free(sv->receiver);
    df_imports_free(sv->imports);
    df_storage_free(s->storage);
    df_zone_free(s->zone);
    df_delivery_free(sv->delivery);
    df_interface_free(sv->interface);
    df_webhooks_free(sv->webhooks);
    df_secret_free(s->master);
    df_secret_free(s->old_master);
    df_relays_free(sv->relays);
    df_settings_release(&s->own_relay);
    df_auth_free(sv->auth);
    df_usage_free(sv->usage);
    df_policies_free(sv->policies);
    df_store_close(sv->store);
    df_outbound_close(&s->outbound);
}

static void drain_requests(struct df_server *s)
{
    df_system_draining();
    df_http_drain(s->http);
    if (!df_http_wait_idle(s->http, s->drain_ms))
        df_log_warn("DrainIncomplete", "%zu requests were still in hand after %lld s",
                    df_http_active(s->http), (long long)(s->drain_ms / 1000));
}

/*
 * The end, in five steps. Services are used by HTTP threads, by the store's and by those of other
 * services; each step takes one kind of user away, and only the last one frees.
 *
 *   1. drain   nobody new; requests in hand have drain_seconds.
 *   2. shut    no handler runs any more and none will be called, however much of a body is still on
 *              its way. What is left of the HTTP threads' use is on_end, which frees uploads.
 *   3. stop    the services' threads, then the store's. Each finishes what it has, so that every
 *              request that was set aside is resumed: by auth, by the look-ups of webhooks' hosts,
 *              by the receiver of files, by the client of outgoing calls, by the store.
 *              The store stops last: the others hand their last jobs to it, and its jobs
 *              may still wake any of them. So nothing is freed here.
 *   4. HTTP    its threads end, after on_end of every request.
 *   5. free    one thread is left, this one.
 *
 * The client of outgoing calls is stopped within step 3, which is how calls on their way come back.
 * Whoever calls after that is cancelled at once; it is freed last.
 */
void df_server_stop(struct df_server *s)
{
    if (!s)
        return;
    int64_t deadline_ms = df_mono_ms(df_clock_real()) + s->drain_ms;
    if (s->http) {
        drain_requests(s);
        df_http_shut(s->http);
    }
    stop_services(s, deadline_ms);
    if (s->http) {
        df_http_stop(s->http);
        df_log_info("ServerStopped", "everything in hand was finished");
    }
    free_services(s);
    pthread_cond_destroy(&s->wake);
    df_mutex_destroy(&s->lock);
    free(s);
}

static void print_table(const struct df_route *table, struct df_buf *out)
{
    for (const struct df_route *r = table; r->method; r++)
        df_buf_addf(out, "%s %s\n", r->method, r->pattern);
}

void df_server_print_routes(struct df_buf *out)
{
    struct df_server none = {0};
    size_t count = list_api(&none, none.tables);

    print_table(df_probe_routes, out);
    print_table(df_system_routes, out);
    for (size_t i = 0; i < count; i++)
        print_table(none.tables[i].routes, out);
}

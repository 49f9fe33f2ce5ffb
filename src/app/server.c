#include "app/server.h"

#include "admin/admin.h"
#include "admin/attention.h"
#include "admin/outbox.h"
#include "admin/owners.h"
#include "alerts/alerts.h"
#include "app/app.h"
#include "app/audited.h"
#include "app/files.h"
#include "app/system_routes.h"
#include "app/waiting.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "imports/receive/receive.h"
#include "imports/routes.h"
#include "integrations/integrations.h"
#include "interface/interface.h"
#include "relay/events.h"
#include "relay/relays.h"
#include "retention/purge.h"
#include "retention/retention.h"
#include "retention/subjects.h"
#include "series/series.h"
#include "webhooks/subscriptions.h"

#include <assert.h>
#include <stdlib.h>

#define TABLES_MAX 48
#define LOOK_MS    2000

struct df_server {
    struct df_app app;
    struct df_parts parts;
    struct df_http_server *http;
    struct df_system system;
    const char *temp_dir;
    struct df_attention *attention;
    struct df_outbox_scene outbox;
    const char *maintenance; /* the windows, as configured */
    struct df_retention_view retention;
    struct df_route_table tables[TABLES_MAX];
    struct df_route receive_routes[3]; /* the table, with the limit that is configured */
    struct df_loop files;              /* looks at certificates */
    _Atomic bool reload;               /* without waiting for a change */
};

/* Each part may use those before it; parts.h tells how they end. */
/* clang-format off */
static const struct df_part *const server_parts[] = {
    &df_part_ship,     /* sends the lines of all others, from their first to their last */
    &df_part_outbound, /* stopped after all its callers, and freed last */
    &df_part_store,    /* its threads end last */
    &df_part_series,
    &df_part_keys,
    &df_part_masker,
    &df_part_instance,
    &df_part_telemetry, /* stopped after all parts that work on something */
    &df_part_shards, /* ends after the last settlement */
    &df_part_delivery,
    &df_part_relays,
    &df_part_integrations,
    &df_part_webhooks,
    &df_part_interface,
    &df_part_alerts,
    &df_part_channels, /* of the five parts before it; from here on deliveries run */
    &df_part_storage,
    &df_part_locks,
    &df_part_announce, /* stopped after the imports, whose last announcements it sends */
    &df_part_imports,
    &df_part_consume,
    &df_part_uploads,
    &df_part_rekey,
    &df_part_subscriptions,
    &df_part_access,
    &df_part_housekeeping,
    &df_part_purge,
    &df_part_maintenance,
    &df_part_backup,
    NULL,
};
/* clang-format on */

/* --- routes --- */

/* Lists the tables of routes of the role `api`, each with its handlers' argument. Returns their
 * number. */
static size_t list_api(struct df_server *s, struct df_route_table *out)
{
    const struct df_app *app = &s->app;
    const struct df_route_table tables[] = {
        {df_admin_routes, NULL},
        {df_policy_routes, NULL},
        {df_maintenance_routes, &s->maintenance},
        {df_search_routes, NULL},
        {df_series_routes, NULL},
        {df_flow_routes, NULL},
        {df_timeline_routes, app->delivery},
        {df_key_routes, app->key_watch},
        {df_audit_routes, &s->temp_dir},
        {df_subject_routes, &df_app_kept},
        {df_outbox_routes, app->delivery},
        {df_outbox_row_routes, &s->outbox},
        {df_breaker_routes, app->outbound.breakers},
        {df_work_owner_routes, NULL},
        {df_counterparty_routes, app->interface},
        {df_ticket_routes, app->interface},
        {df_callback_routes, app->interface},
        {df_reprocess_routes, app->interface},
        {df_ticket_dismiss_routes, NULL},
        {df_owner_routes, app->interface},
        {df_ticket_admin_routes, app->interface},
        {df_ack_routes, app->interface},
        {df_event_routes, app->delivery},
        {df_integration_routes, app->integrations},
        {df_relay_routes, app->relays},
        {s->receive_routes, app->receiver},
        {df_imports_action_routes, app->import_views},
        {df_imports_ack_routes, app->import_views},
        {df_imports_read_routes, app->import_views},
        {df_imports_usage_routes, app->import_views},
        {df_attention_routes, s->attention},
        {df_imports_mapping_routes, app->import_views},
        {df_alert_routes, app->alerts},
        {df_silence_routes, app->alerts},
        {df_subscription_routes, app->subscriptions},
        {df_webhook_failure_routes, app->subscriptions},
        {df_purge_routes, app->purge},
        {df_retention_routes, &s->retention},
    };
    static_assert(sizeof tables / sizeof tables[0] + 4 <= TABLES_MAX,
                  "and three more, and the end");

    s->receive_routes[0] = df_imports_receive_routes[0];
    s->receive_routes[1] = df_imports_receive_routes[1];
    memcpy(out, tables, sizeof tables);
    return sizeof tables / sizeof tables[0];
}

/* A process of any role answers for its health and its metrics. */
static void bind_routes(struct df_server *s, const struct df_route *extra)
{
    const struct df_settings *set = s->app.settings;
    size_t n = 0;

    s->system = (struct df_system){.delivery = s->app.delivery,
                                   .imports = s->app.imports,
                                   .locks = s->app.locks,
                                   .consumer = s->app.consumer};
    s->maintenance = set->imports.maintenance_windows;
    s->retention.settings = &set->retention;
    s->outbox = (struct df_outbox_scene){
        .delivery = s->app.delivery, .masker = s->app.masker, .temp_dir = set->data_dir};
    s->attention =
        df_attention_new(&(struct df_attention_options){.clock = s->app.access.clock,
                                                        .delivery = s->app.delivery,
                                                        .breakers = s->app.outbound.breakers,
                                                        .data_dir = set->data_dir});
    s->tables[n++] = (struct df_route_table){df_probe_routes, NULL};
    s->tables[n++] = (struct df_route_table){df_system_routes, &s->system};
    if (set->roles & DF_ROLE_API)
        n += list_api(s, s->tables + n);
    s->receive_routes[0].max_body_bytes = s->receive_routes[1].max_body_bytes =
        df_receive_body_limit((uint64_t)set->imports.max_upload_bytes);
    s->tables[n++] = (struct df_route_table){extra, NULL};
}

/* --- HTTP --- */

static enum df_verdict authorize(struct df_req *req, void *arg)
{
    const struct df_access *access = arg;
    return df_auth_authorize(access->auth, req);
}

static void end_wait(struct df_server *s)
{
    df_waiting_end(s->app.waiting);
    s->app.waiting = NULL;
}

static enum df_code listen_http(struct df_server *s, struct df_err *err)
{
    const struct df_settings *set = s->app.settings;
    struct df_http_options opt = {
        .settings = set->http,
        .version_prefix = true,
        .metrics_prefix = "dataflow",
        .clock = s->app.access.clock,
        .tables = s->tables,
        .absent = df_auth_has_admin(&set->auth) ? 0 : 1u << DF_ACCESS_ADMIN,
        .authorize = authorize,
        .arg = &s->app.access,
        .elder = df_waiting_http(s->app.waiting),
    };
    opt.settings.max_connections = df_files_for_connections(set->http.max_connections);
    enum df_code code = df_http_start(&opt, &s->http, err);
    end_wait(s);
    return code;
}

/* --- certificates --- */

static int64_t look_at_files(void *arg)
{
    struct df_server *s = arg;
    bool now = atomic_exchange(&s->reload, false);

    df_http_look_at_files(s->http, now);
    df_security_look(now);
    return LOOK_MS;
}

static void watch_files(struct df_server *s)
{
    if (!s->app.settings->http.tls_cert && !df_security_ca_file())
        return;
    df_loop_start(&s->files, &(struct df_loop_options){.name = "certificates",
                                                       .clock = df_clock_real(),
                                                       .first_ms = LOOK_MS,
                                                       .turn = look_at_files,
                                                       .arg = s});
}

void df_server_reload(struct df_server *s)
{
    df_log_info("ReloadAsked", "certificates and authorities are read again");
    atomic_store(&s->reload, true);
    df_loop_wake(&s->files);
}

static void log_started(const struct df_server *s)
{
    enum df_dialect dialect = df_store_dialect(s->app.access.store);
    struct df_log_field fields[] = {
        DF_F("address", df_str_c(df_http_address(s->http))),
        DF_F("version", DF_STR(DF_VERSION)),
        DF_F("backend", df_str_c(df_dialect_name(dialect))),
    };
    df_log_write(DF_LOG_INFO, "ServerStarted", fields, sizeof fields / sizeof fields[0],
                 "listening on %s://%s", s->app.settings->http.tls_cert ? "https" : "http",
                 df_http_address(s->http));
}

static void drain_requests(struct df_server *s)
{
    int64_t drain_ms = s->app.settings->drain_ms;

    df_system_draining();
    df_http_drain(s->http);
    if (!df_http_wait_idle(s->http, drain_ms))
        df_log_warn("DrainIncomplete", "%zu requests were still in hand after %lld s",
                    df_http_active(s->http), (long long)(drain_ms / 1000));
}

/* --- start and end --- */

enum df_code df_server_start(const struct df_server_options *opt, struct df_server **ret,
                             struct df_err *err)
{
    struct df_server *s = df_calloc(1, sizeof *s);
    s->app.settings = opt->settings;
    s->app.warnings = opt->take_warnings;
    s->app.access.clock = df_clock_real();
    s->temp_dir = opt->settings->data_dir;
    s->parts.table = server_parts;
    df_metric_register_process(DF_VERSION);
    df_metric_use_clock(s->app.access.clock);
    df_system_started(df_mono_ms(s->app.access.clock));

    enum df_code code = df_parts_start(&s->parts, &s->app, opt->settings->roles, err);
    if (code == DF_OK) {
        df_audit_start(opt->settings, s->app.access.store, s->app.access.clock);
        bind_routes(s, opt->extra_routes);
        code = listen_http(s, err);
    }
    if (code != DF_OK) {
        df_server_stop(s);
        return code;
    }
    log_started(s);
    watch_files(s);
    df_mem_trim();
    *ret = s;
    return DF_OK;
}

const char *df_server_address(const struct df_server *s)
{
    return df_http_address(s->http);
}

const struct df_access *df_server_access(const struct df_server *s)
{
    return &s->app.access;
}

/* The six steps of parts.h. */
void df_server_stop(struct df_server *s)
{
    if (!s)
        return;
    int64_t deadline_ms = df_mono_ms(df_clock_real()) + s->app.settings->drain_ms;
    df_loop_release(&s->files);
    end_wait(s);
    df_imports_leave(s->app.imports); /* another process may have the batches meanwhile */
    if (s->http) {
        drain_requests(s);
        df_http_shut(s->http);
    }
    df_parts_stop(&s->parts, &s->app, deadline_ms);
    if (s->http) {
        df_http_stop(s->http);
        df_log_info("ServerStopped", "everything in hand was finished");
    }
    df_parts_free(&s->parts, &s->app);
    df_attention_free(s->attention);
    free(s);
}

static void print_table(const struct df_route *table, struct df_buf *out)
{
    for (const struct df_route *r = table; r->method; r++)
        df_buf_addf(out, "%s %s%s\n", r->method, r->pattern, r->deprecated ? " deprecated" : "");
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

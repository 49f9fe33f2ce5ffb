#include "app/server.h"

#include "admin/admin.h"
#include "app/database.h"
#include "app/system_routes.h"
#include "base/metrics.h"

#include <signal.h>
#include <stdlib.h>

#define HOUSEKEEPING_MS 5000

struct df_server {
    struct df_services services; /* the HTTP server's argument: its address must not change */
    struct df_http_server *http;
    int64_t drain_seconds;
    const struct df_route *routes[8];

    pthread_t housekeeper;
    bool housekeeping;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool stopping;
};

/* --- signals --- */

static void stop_signals(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGINT);
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
    pthread_mutex_lock(&s->lock);
    while (!s->stopping) {
        if (df_cond_wait_ms(&s->wake, &s->lock, HOUSEKEEPING_MS))
            continue;
        pthread_mutex_unlock(&s->lock);
        df_auth_flush_seen(s->services.auth);
        pthread_mutex_lock(&s->lock);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

static void stop_housekeeping(struct df_server *s)
{
    if (!s->housekeeping)
        return;
    pthread_mutex_lock(&s->lock);
    s->stopping = true;
    pthread_cond_signal(&s->wake);
    pthread_mutex_unlock(&s->lock);
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
    const struct df_services *services = arg;
    return df_auth_authorize(services->auth, req);
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
        .max_connections = set->server.max_connections,
        .max_connections_per_address = set->server.max_connections_per_address,
        .tls_cert = set->server.tls_cert,
        .tls_key = set->server.tls_key,
        .access_log = set->server.access_log,
        .version_prefix = true,
        .metrics_prefix = "dataflow",
        .clock = s->services.clock,
        .routes = s->routes,
        .authorize = authorize,
        .arg = &s->services,
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

enum df_code df_server_start(const struct df_server_options *opt, struct df_server **ret,
                             struct df_err *err)
{
    const struct df_settings *set = opt->settings;
    struct df_server *s = calloc(1, sizeof *s);
    if (!s)
        abort();
    s->services.clock = df_clock_real();
    s->drain_seconds = set->server.drain_seconds;
    pthread_mutex_init(&s->lock, NULL);
    df_cond_init(&s->wake);
    size_t n = 0;
    /* Whatever its role, a process is asked for its health and its figures. */
    s->routes[n++] = df_system_routes;
    if (set->server.roles & DF_ROLE_API)
        s->routes[n++] = df_admin_routes;
    s->routes[n++] = opt->extra_routes;
    df_metric_register_process(DF_VERSION);

    enum df_code code = prepare_database(set, err);
    if (code != DF_OK)
        goto out;
    struct df_store_options so = {.url = set->database.url,
                                  .pool_size = set->database.pool_size,
                                  .queue_size = set->database.queue_size,
                                  .group_max = set->database.group_max,
                                  .clock = s->services.clock};
    if ((code = df_store_open(&so, &s->services.store, err)) != DF_OK)
        goto out;
    struct df_auth_options ao = {.store = s->services.store,
                                 .clock = s->services.clock,
                                 .admin_key = set->admin.key,
                                 .failures_per_minute = set->auth.failures_per_minute,
                                 .hash_threads = set->auth.hash_threads};
    s->services.auth = df_auth_new(&ao);
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

const struct df_services *df_server_services(const struct df_server *s)
{
    return &s->services;
}

/*
 * Order matters: requests first (they use everything), then the threads that serve them, each kind
 * before the ones it hands work to, and the HTTP server last, since every suspended request has to
 * be resumed before it may be freed.
 */
void df_server_stop(struct df_server *s)
{
    if (!s)
        return;
    if (s->http) {
        df_system_draining();
        df_http_drain(s->http);
        if (!df_http_wait_idle(s->http, s->drain_seconds * 1000))
            df_log_warn("DrainIncomplete", "%zu requests were still in hand after %lld s",
                        df_http_active(s->http), (long long)s->drain_seconds);
    }
    stop_housekeeping(s);
    if (s->services.auth) {
        df_auth_stop(s->services.auth);
        df_auth_flush_seen(s->services.auth);
    }
    df_store_close(s->services.store);
    if (s->http) {
        df_http_stop(s->http);
        df_log_info("ServerStopped", "everything in hand was finished");
    }
    df_auth_free(s->services.auth);
    pthread_cond_destroy(&s->wake);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

static void print_table(const struct df_route *table, struct df_buf *out)
{
    for (const struct df_route *r = table; r->method; r++)
        df_buf_addf(out, "%s %s\n", r->method, r->pattern);
}

void df_server_print_routes(struct df_buf *out)
{
    print_table(df_system_routes, out);
    print_table(df_admin_routes, out);
}

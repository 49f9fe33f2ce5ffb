#include "net/http_int.h"

#include "base/mem.h"
#include "base/metrics.h"

#include <stdio.h>

#define ROUTES_MAX 2000

/* Families are never unregistered, so the servers with one prefix share one set. */
struct df_http_metrics {
    char *prefix;
    char names[7][64];
    struct df_metric_family requests;
    struct df_metric_family seconds;
    struct df_metric_family connections;
    struct df_metric_family in_flight;
    struct df_metric_family rejected;
    struct df_metric_family bytes_in_flight;
    struct df_metric_family expiry; /* registered by the first server with TLS */
};

/*
 * A cache of the series that a route has used, read without a lock. A slot's key is set after its
 * series and never changes; when all slots are taken, the registry is asked each time.
 */
#define SERIES_SLOTS 16

struct df_route_series {
    _Atomic uint32_t keys[SERIES_SLOTS]; /* status and method; 0: free */
    struct df_metric *_Atomic requests[SERIES_SLOTS];
    struct df_metric *_Atomic seconds;
};

static struct df_mutex all_lock = DF_MUTEX_INIT;
static struct df_map all DF_GUARDED_BY(all_lock); /* by prefix; never freed */

static void define(struct df_http_metrics *m, const char *prefix, int i, const char *suffix,
                   struct df_metric_family *f)
{
    snprintf(m->names[i], sizeof(m->names[i]), "%s_http_%s", prefix, suffix);
    f->name = m->names[i];
    df_metric_register(f);
}

static struct df_http_metrics *new_set(const char *prefix)
{
    struct df_http_metrics *m = df_calloc(1, sizeof(*m));

    m->prefix = df_strdup(df_str_c(prefix));
    m->requests = (struct df_metric_family){.help = "HTTP requests answered.",
                                            .type = DF_COUNTER,
                                            .labels = {"route", "method", "status"},
                                            .max_series = ROUTES_MAX};
    m->seconds = (struct df_metric_family){.help = "From the header to the end of the answer.",
                                           .type = DF_HISTOGRAM,
                                           .labels = {"route"},
                                           DF_METRIC_SECONDS,
                                           .max_series = ROUTES_MAX};
    m->connections = (struct df_metric_family){.help = "Open connections.", .type = DF_GAUGE};
    m->in_flight = (struct df_metric_family){.help = "Requests in hand.", .type = DF_GAUGE};
    m->rejected = (struct df_metric_family){
        .help = "Requests and connections refused before they reached a handler.",
        .type = DF_COUNTER,
        .labels = {"reason"}};
    m->bytes_in_flight = (struct df_metric_family){
        .help = "Memory taken by bodies, what is made of them, and answers.", .type = DF_GAUGE};
    define(m, prefix, 0, "requests_total", &m->requests);
    define(m, prefix, 1, "request_seconds", &m->seconds);
    define(m, prefix, 2, "connections", &m->connections);
    define(m, prefix, 3, "requests_in_flight", &m->in_flight);
    define(m, prefix, 4, "rejected_total", &m->rejected);
    define(m, prefix, 5, "request_bytes_in_flight", &m->bytes_in_flight);
    return m;
}

struct df_http_metrics *df_http_metrics_for(const char *prefix)
{
    df_lock(&all_lock);
    struct df_http_metrics *m = df_map_get(&all, df_str_c(prefix));
    if (!m) {
        m = new_set(prefix);
        df_map_add(&all, df_str_c(m->prefix), m);
    }
    df_unlock(&all_lock);
    return m;
}

struct df_route_series *df_route_series_new(size_t count)
{
    return df_calloc(count, sizeof(struct df_route_series));
}

struct df_route_series *df_route_series_at(struct df_route_series *first, size_t index)
{
    return first + index;
}

void df_http_metrics_gauges(struct df_http_metrics *m, size_t connections, size_t in_flight,
                            size_t bytes_in_flight)
{
    df_metric_set(df_metric_get(&m->connections, NULL), (double)connections);
    df_metric_set(df_metric_get(&m->in_flight, NULL), (double)in_flight);
    df_metric_set(df_metric_get(&m->bytes_in_flight, NULL), (double)bytes_in_flight);
}

static void define_expiry(struct df_http_metrics *m)
{
    df_lock(&all_lock);
    if (!m->expiry.name) {
        snprintf(m->names[6], sizeof(m->names[6]), "%s_tls_expires_seconds", m->prefix);
        m->expiry = (struct df_metric_family){
            .name = m->names[6],
            .help = "Until the server's certificate expires; negative: since. Only with "
                    "server.tls_cert.",
            .type = DF_GAUGE};
        df_metric_register(&m->expiry);
    }
    df_unlock(&all_lock);
}

void df_http_metrics_expiry(struct df_http_metrics *m, int64_t seconds)
{
    define_expiry(m);
    df_metric_set(df_metric_get(&m->expiry, NULL), (double)seconds);
}

void df_http_metrics_define(const char *prefix)
{
    define_expiry(df_http_metrics_for(prefix));
}

static struct df_metric *find_requests(struct df_http_metrics *m, const char *route,
                                       enum df_method method, unsigned status)
{
    char text[12];
    snprintf(text, sizeof(text), "%u", status);
    return df_metric_get(
        &m->requests,
        (struct df_str[]){df_str_c(route), df_str_c(df_method_name(method)), df_str_c(text)});
}

static struct df_metric *requests_series(struct df_http_metrics *m, struct df_route_series *rs,
                                         const char *route, enum df_method method, unsigned status)
{
    uint32_t key = status << 4 | (uint32_t)method;

    for (size_t i = 0; i < SERIES_SLOTS; i++) {
        uint32_t have = atomic_load_explicit(&rs->keys[i], memory_order_acquire);
        if (have == key) {
            struct df_metric *s = atomic_load_explicit(&rs->requests[i], memory_order_acquire);
            return s ? s : find_requests(m, route, method, status);
        }
        if (have == 0) {
            struct df_metric *s = find_requests(m, route, method, status);
            if (atomic_compare_exchange_strong(&rs->keys[i], &have, key))
                atomic_store_explicit(&rs->requests[i], s, memory_order_release);
            return s;
        }
    }
    return find_requests(m, route, method, status);
}

void df_http_metrics_served(struct df_http_metrics *m, struct df_route_series *rs,
                            const char *route, enum df_method method, unsigned status,
                            double seconds, const struct df_trace *trace)
{
    struct df_metric *duration = atomic_load_explicit(&rs->seconds, memory_order_acquire);

    if (!duration) {
        duration = df_metric_get(&m->seconds, (struct df_str[]){df_str_c(route)});
        atomic_store_explicit(&rs->seconds, duration, memory_order_release);
    }
    df_metric_observe_traced(duration, seconds, trace);
    df_metric_add_traced(requests_series(m, rs, route, method, status), 1, trace);
}

void df_http_metrics_rejected(struct df_http_metrics *m, const char *reason)
{
    if (m)
        df_metric_add(df_metric_get(&m->rejected, (struct df_str[]){df_str_c(reason)}), 1);
}

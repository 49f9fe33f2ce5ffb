#include "net/http_int.h"

#include "base/mem.h"
#include "base/metrics.h"

#include <errno.h>
#include <fcntl.h>
#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define THREADS_MAX  8
#define STACK_BYTES  ((size_t)256 * 1024)
#define STOP_WAIT_MS 1000
/* Forward secrecy and authenticated encryption only. */
#define TLS_PRIORITIES                                                                             \
    "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:-KX-ALL:+ECDHE-ECDSA:+ECDHE-RSA:-CIPHER-ALL:"      \
    "+AES-256-GCM:+CHACHA20-POLY1305:+AES-128-GCM:-MAC-ALL:+AEAD:%SERVER_PRECEDENCE"

static void default_i64(int64_t *v, int64_t def)
{
    if (*v <= 0)
        *v = def;
}

static void fill_in_defaults(struct df_http_options *o)
{
    struct df_http_settings *set = &o->settings;
    long processors = sysconf(_SC_NPROCESSORS_ONLN);

    default_i64(&set->threads, processors < 1             ? 1
                               : processors > THREADS_MAX ? THREADS_MAX
                                                          : processors);
    default_i64(&set->header_timeout_ms, 10000);
    default_i64(&set->idle_timeout_ms, 60000);
    default_i64(&set->max_connections, 2048);
    default_i64(&set->max_connections_per_address, 1024);
    default_i64(&set->memory_budget_bytes, 80 * DF_MIB);
    default_i64(&set->max_body_bytes, DF_MIB);
    default_i64(&o->body_min_rate, 512);
    default_i64(&o->grace_ms, 10000);
    default_i64(&o->heartbeat_ms, 15000);
    if (o->header_bytes == 0)
        o->header_bytes = 16384;
    if (!o->clock)
        o->clock = df_clock_real();
}

/* --- the HTTP threads ------------------------------------------------------------------------- */

__attribute__((format(printf, 2, 0))) static void on_mhd_log(void *arg, const char *fmt, va_list ap)
{
    char text[512];
    (void)arg;

    if (!df_log_enabled(DF_LOG_DEBUG))
        return;
    vsnprintf(text, sizeof(text), fmt, ap);
    df_log_debug("HttpLibrary", "%s", text);
}

/* libmicrohttpd calls this when its state is inconsistent. */
__attribute__((noreturn)) static void on_mhd_panic(void *arg, const char *file, unsigned line,
                                                   const char *reason)
{
    (void)arg;
    df_log_error("HttpLibraryPanic", "%s (%s:%u)", reason ? reason : "no reason given", file, line);
    abort();
}

/* Switches off libmicrohttpd's decoding: target.c decodes paths, strictly. */
static size_t keep_escapes(void *arg, struct MHD_Connection *mhd, char *text)
{
    (void)arg;
    (void)mhd;
    return strlen(text);
}

/* libmicrohttpd wants a certificate of its own or this; connections get theirs from tls.c. */
static int no_certificate(gnutls_session_t session, const gnutls_datum_t *authorities, int count,
                          const gnutls_pk_algorithm_t *algorithms, int algorithm_count,
                          gnutls_pcert_st **ret, unsigned *ret_count, gnutls_privkey_t *ret_key)
{
    (void)session, (void)authorities, (void)count, (void)algorithms, (void)algorithm_count;
    (void)ret, (void)ret_count, (void)ret_key;
    return -1;
}

static struct MHD_Daemon *start_daemon(struct df_http_server *s, bool tls)
{
    unsigned flags = MHD_USE_EPOLL | MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_ITC |
                     MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG | MHD_USE_NO_LISTEN_SOCKET;
    struct MHD_OptionItem tls_items[] = {
        {MHD_OPTION_HTTPS_CERT_CALLBACK, 0, (void *)(uintptr_t)no_certificate},
        {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(uintptr_t)TLS_PRIORITIES},
        {MHD_OPTION_END, 0, NULL}};
    struct MHD_OptionItem no_items[] = {{MHD_OPTION_END, 0, NULL}};

    if (tls)
        flags |= MHD_USE_TLS;
    /* The logger comes first, so that errors of the other options are logged. The keeper enforces
     * limits. */
    return MHD_start_daemon(
        flags, 0, NULL, NULL, df_request_on_access, s, MHD_OPTION_EXTERNAL_LOGGER, on_mhd_log, NULL,
        MHD_OPTION_URI_LOG_CALLBACK, df_request_on_line, s, MHD_OPTION_NOTIFY_COMPLETED,
        df_request_on_completed, s, MHD_OPTION_NOTIFY_CONNECTION, df_conn_notify, s,
        MHD_OPTION_UNESCAPE_CALLBACK, keep_escapes, NULL, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)s->opt.settings.max_connections + 64, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        s->opt.header_bytes + DF_HEADER_RESERVE, MHD_OPTION_THREAD_STACK_SIZE, STACK_BYTES,
        MHD_OPTION_ARRAY, tls ? tls_items : no_items, MHD_OPTION_END);
}

static enum df_code start_daemons(struct df_http_server *s, struct df_err *err)
{
    enum df_code rc = df_tls_open(s, err);
    bool tls = s->opt.settings.tls_cert != NULL;
    sigset_t all;
    sigset_t before;

    if (rc != DF_OK)
        return rc;
    /* The main thread handles signals. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    MHD_set_panic_func(on_mhd_panic, NULL);
    s->daemons = df_calloc((size_t)s->opt.settings.threads, sizeof(void *));
    for (int64_t i = 0; rc == DF_OK && i < s->opt.settings.threads; i++) {
        struct MHD_Daemon *d = start_daemon(s, tls);
        if (d)
            s->daemons[s->daemon_count++] = d;
        else
            rc = df_err_set(err, DF_E_IO, "the HTTP threads could not be started");
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

/* --- start ------------------------------------------------------------------------------------ */

static void collect_gauges(void *arg)
{
    struct df_http_server *s = arg;
    df_http_metrics_gauges(s->metrics, atomic_load(&s->open), df_conn_active(s),
                           df_budget_used(s->budget));
    int64_t expires_s = df_tls_expires_s(s);
    if (expires_s > 0)
        df_http_metrics_expiry(s->metrics, expires_s - df_wall_ms(s->opt.clock) / 1000);
}

static enum df_code share_address(struct df_http_server *s, const struct df_http_server *elder,
                                  struct df_err *err)
{
    s->listen_fd = fcntl(elder->listen_fd, F_DUPFD_CLOEXEC, 0);
    memcpy(s->address, elder->address, sizeof s->address);
    return s->listen_fd < 0 ? df_err_errno(err, "cannot share the address %s", s->address) : DF_OK;
}

static enum df_code start_server(struct df_http_server *s, struct df_err *err)
{
    enum df_code rc = df_proxies_parse(s->opt.settings.trusted_proxies, &s->proxies, err);
    if (rc == DF_OK)
        rc = df_router_new(s->opt.tables, s->opt.absent, &s->router, err);
    if (rc != DF_OK)
        return rc;
    s->series = df_route_series_new(df_router_count(s->router) + 1);
    if (s->opt.metrics_prefix)
        s->metrics = df_http_metrics_for(s->opt.metrics_prefix);
    rc = s->opt.elder ? share_address(s, s->opt.elder, err)
                      : df_listen_open(s->opt.settings.listen, &s->listen_fd, s->address,
                                       sizeof(s->address), err);
    s->opt.elder = NULL;
    if (rc == DF_OK)
        rc = start_daemons(s, err);
    s->listening = rc == DF_OK;
    if (rc == DF_OK)
        rc = df_keeper_start(s, err);
    if (rc != DF_OK)
        return rc;
    if (s->metrics)
        df_metric_on_collect(collect_gauges, s);
    return DF_OK;
}

enum df_code df_http_start(const struct df_http_options *opt, struct df_http_server **ret,
                           struct df_err *err)
{
    struct df_http_server *s = df_calloc(1, sizeof(*s));

    s->opt = *opt;
    s->listen_fd = -1;
    s->wake_fd = -1;
    df_mutex_init(&s->lock);
    df_cond_init(&s->changed);
    fill_in_defaults(&s->opt);
    s->budget = df_budget_new((size_t)s->opt.settings.memory_budget_bytes);
    enum df_code rc = start_server(s, err);
    if (rc != DF_OK) {
        df_http_stop(s);
        return rc;
    }
    *ret = s;
    return DF_OK;
}

const char *df_http_address(const struct df_http_server *s)
{
    return s->address;
}

size_t df_http_active(const struct df_http_server *s)
{
    /* Counting takes the lock and changes nothing else. */
    return df_conn_active((struct df_http_server *)(uintptr_t)s);
}

/* --- drain and stop --------------------------------------------------------------------------- */

void df_http_drain(struct df_http_server *s)
{
    if (!s->keeper.running)
        return;
    atomic_store(&s->draining, true);
    df_keeper_wake(s);
    df_lock(&s->lock);
    while (s->listening)
        (void)df_cond_wait_ms(&s->changed, &s->lock, 1000);
    df_unlock(&s->lock);
}

bool df_http_wait_idle(struct df_http_server *s, int64_t timeout_ms)
{
    const struct df_clock *clock = df_clock_real();
    int64_t until_ms = df_mono_ms(clock) + timeout_ms;

    for (;;) {
        /* A connection that is still open may bring another request; the keeper closes it soon. */
        bool idle = df_conn_active(s) == 0;
        bool settled = !atomic_load(&s->draining) || atomic_load(&s->open) == 0;
        int64_t left_ms = until_ms - df_mono_ms(clock);
        if ((idle && settled) || left_ms <= 0)
            return idle;
        usleep(left_ms < 5 ? 1000 : 5000);
    }
}

void df_http_shut(struct df_http_server *s)
{
    atomic_store(&s->shut, true);
    while (df_conn_any_inside(s)) /* callbacks do not block, so this is short */
        usleep(1000);
}

/*
 * MHD_stop_daemon aborts the process if a connection is still suspended. The workers are gone by
 * now, so the request is answered 503 here. Answers get a moment to go out.
 */
static void give_up_suspended(struct df_http_server *s)
{
    size_t forgotten = df_conn_give_up_parked(s);

    if (forgotten > 0)
        df_log_error("RequestsForgotten", "%zu requests were set aside and not resumed", forgotten);
    for (int i = 0; i < 100 && df_conn_give_up_parked(s) > 0; i++)
        usleep(10000);
    df_sse_end_all(s);
    (void)df_http_wait_idle(s, STOP_WAIT_MS);
    (void)df_conn_give_up_parked(s);
    df_sse_end_all(s);
}

void df_http_stop(struct df_http_server *s)
{
    if (!s)
        return;
    if (s->keeper.running) {
        if (s->metrics)
            df_metric_off_collect(collect_gauges, s);
        df_http_drain(s);
        df_http_shut(s);
        give_up_suspended(s);
    }
    df_keeper_stop(s);
    for (size_t i = 0; i < s->daemon_count; i++)
        MHD_stop_daemon(s->daemons[i]);
    if (s->listen_fd >= 0)
        close(s->listen_fd);
    if (s->wake_fd >= 0)
        close(s->wake_fd);
    df_conn_release_table(s);
    df_tls_close(s);
    df_router_free(s->router);
    df_proxies_release(&s->proxies);
    df_budget_free(s->budget);
    free(s->series);
    free(s->daemons);
    pthread_cond_destroy(&s->changed);
    df_mutex_destroy(&s->lock);
    free(s);
}

/* [server] require_tls: what of the configuration would go over the network in the clear. */
#include "app/queue.h"
#include "app/settings.h"
#include "base/secret.h"
#include "net/http.h"
#include "net/url.h"
#include "relay/probe.h"
#include "store/db.h"

#include <stdio.h>

static void check_url(const char *key, const char *name, const char *url, struct df_buf *complaints)
{
    struct df_url u;

    if (url && df_url_parse(df_str_c(url), &u, NULL) == DF_OK && !u.tls &&
        !df_host_is_loopback(u.host))
        df_buf_addf(complaints,
                    "[server] require_tls: %s%s is an http:// URL: write https://, and put a "
                    "private authority into security.ca_file\n",
                    key, name);
}

static void check_database(const char *key, const char *name, const char *url,
                           struct df_buf *complaints)
{
    struct df_buf risk;

    df_buf_init(&risk, 4096);
    df_db_url_risk(url, true, &risk);
    if (risk.len > 0)
        df_buf_addf(complaints, "[server] require_tls: %s%s: %s\n", key, name,
                    df_buf_str(&risk).ptr);
    df_buf_release(&risk);
}

static void check_relay(const struct df_relay_settings *r, const char *own_url,
                        struct df_buf *complaints)
{
    char name[128];
    const char *risk = df_relay_risk(r);

    (void)snprintf(name, sizeof name, "%s.url", r->name);
    if (strcmp(r->url, own_url) != 0)
        check_database("relay.", name, r->url, complaints);
    if (risk)
        df_buf_addf(complaints, "[server] require_tls: relay.%s.target: %s\n", r->name, risk);
}

/* The way to the proxy is never encrypted. */
static void check_proxy(const struct df_secret *proxy, struct df_buf *complaints)
{
    struct df_url u;

    if (proxy && df_url_parse(df_secret_str(proxy), &u, NULL) == DF_OK && u.userinfo.ptr &&
        !df_host_is_loopback(u.host))
        df_buf_addz(complaints,
                    "[server] require_tls: security.proxy has credentials, which go to "
                    "it in the clear: leave them out, or use a proxy on this machine\n");
}

void df_settings_check_tls(const struct df_settings *s, struct df_buf *complaints)
{
    const struct {
        const char *key, *url;
    } urls[] = {
        {"gateway.functional_ack_url", s->interface.functional_ack_url},
        {"gateway.ticket_return_url", s->interface.ticket_return_url},
        {"gateway.ticket_send_url", s->interface.ticket_send_url},
        {"omniflow.url", s->imports.url},
        {"alerts.pagerduty_url", s->alerts.pagerduty_routing_key ? s->alerts.pagerduty_url : NULL},
        {"alerts.teams_url", s->alerts.teams_url ? df_secret_str(s->alerts.teams_url).ptr : NULL},
        {"s3.endpoint", s->storage.s3.endpoint},
        {"otel.endpoint", s->telemetry.endpoint},
    };

    if (!s->security.require_tls)
        return;
    if (!s->http.tls_cert && !df_http_is_loopback(s->http.listen))
        df_buf_addz(complaints, "[server] require_tls: server.listen is not loopback: set "
                                "server.tls_cert and server.tls_key\n");
    for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++)
        check_url(urls[i].key, "", urls[i].url, complaints);
    for (size_t i = 0; i < s->integration_count; i++)
        check_url("base_url of integration.", s->integrations[i].name, s->integrations[i].base_url,
                  complaints);
    check_proxy(s->security.proxy, complaints);
    df_locks_check_tls(&s->locks, complaints);
    df_ship_check_tls(&s->ship, complaints);
    check_database("database.url", "", s->store.url, complaints);
    for (size_t i = 0; i < s->relay_count; i++)
        check_relay(&s->relays[i], s->store.url, complaints);
    struct df_relay_settings queue;
    const char *risk = df_queue_relay(s, &queue) ? df_relay_risk(&queue) : NULL;
    if (risk)
        df_buf_addf(complaints, "[server] require_tls: imports.queue_url: %s\n", risk);
}

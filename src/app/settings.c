#include "app/settings.h"

#include "access/auth.h"
#include "base/mem.h"
#include "net/caller.h"
#include "net/http.h"
#include "net/settings.h"
#include "store/db.h"

#include <stdio.h>
#include <stdlib.h>

static const char *const role_names[] = {"api",   "process",  "deliver", "import",
                                         "relay", "maintain", NULL};
static const char *const level_names[] = {"debug", "info", "warn", "error", NULL};
static const char *const format_names[] = {"auto", "json", "text", NULL};
#define S              struct df_settings
#define TARGET_URL_MAX 500 /* the column TargetUrl of acks and returns */

/* clang-format off */
static const struct df_config_key server_keys[] = {
    DF_KEY_STRING("listen", S, server.listen, "127.0.0.1:8080", "Address and port to listen on; port 0 picks a free one."),
    DF_KEY_STRING("data_dir", S, server.data_dir, "./var", "Directory for the embedded database and uploaded files; made if missing."),
    DF_KEY_FLAGS("roles", S, server.roles, "all", role_names, "What this process does; replicas may split the roles."),
    DF_KEY_STRING("tls_cert", S, server.tls_cert, NULL, "PEM certificate chain; with it and tls_key the server speaks HTTPS (TLS 1.2+) only."),
    DF_KEY_STRING("tls_key", S, server.tls_key, NULL, "PEM private key of tls_cert."),
    DF_KEY_INT("max_body_bytes", S, server.max_body_bytes, "1048576", 1024, DF_MIB * 1024, "Longest request body, uploads apart."),
    DF_KEY_INT("max_upload_bytes", S, imports.max_upload_bytes, "2147483648", 1024, DF_MIB * 1024 * 1024, "Longest uploaded file."),
    DF_KEY_INT_IN(DF_SECONDS, "drain_seconds", S, server.drain_ms, "20", 0, 3600, "How long SIGTERM waits for requests in hand."),
    DF_KEY_INT("threads", S, server.threads, "0", 0, 64, "HTTP threads; 0: one for each processor, at most 8."),
    DF_KEY_INT("max_connections", S, server.max_connections, "2048", 1, 1000000, "Open connections in all; each may take 32 KiB."),
    DF_KEY_INT("max_connections_per_address", S, server.max_connections_per_address, "1024", 1, 1000000, "Open connections from one address, trusted proxies apart."),
    DF_KEY_STRING("trusted_proxies", S, server.trusted_proxies, NULL, "Addresses and networks of proxies, separated by commas: what they say in Forwarded or X-Forwarded-For is the caller's address."),
    DF_KEY_INT_IN(DF_MIB, "memory_budget_mb", S, server.memory_budget_bytes, "80", 32, 65536, "Memory for requests in flight, bodies and answers, in MiB; beyond: 503. One client has at most a quarter."),
    DF_KEY_INT("header_timeout_ms", S, server.header_timeout_ms, "10000", 100, DF_HOURS, "A request's header must be complete within this time."),
    DF_KEY_INT("idle_timeout_ms", S, server.idle_timeout_ms, "60000", 100, DF_HOURS, "An idle keep-alive connection is closed after this time."),
    DF_KEY_BOOL("access_log", S, server.access_log, "on", "One log line for each request (event RequestServed)."),
    {.key = NULL},
};
static const struct df_config_key database_keys[] = {
    DF_KEY_URL("url", S, database.url, "sqlite:PATH, postgres://… or sqlserver://…; default: sqlite:<data_dir>/dataflow.db."),
    DF_KEY_INT("pool_size", S, database.pool_size, "0", 0, 256, "Connections; 0: 3 on SQLite, 8 on a server."),
    DF_KEY_BOOL("migrate", S, database.migrate, "on", "Apply the schema scripts at start."),
    DF_KEY_INT("group_max", S, database.group_max, "256", 1, 4096, "Most writes in one commit."),
    DF_KEY_INT("queue_size", S, database.queue_size, "4096", 16, 1000000, "Most jobs waiting for the database; beyond: 503."),
    {.key = NULL},
};
static const struct df_config_key admin_keys[] = {
    DF_KEY_SECRET("key", S, admin.key, "What X-Admin-Key must hold; without it /admin answers 404. At least 24 characters; under 12 it is refused, unless server.listen is loopback."),
    {.key = NULL},
};
static const struct df_config_key auth_keys[] = {
    DF_KEY_INT("failures_per_minute", S, auth.failures_per_minute, "60", 1, 100000, "Failed logins of one client id from one address (IPv6: its /64) before they get 429; of all ids ten times as many. A secret that was right from there in the last day always passes."),
    DF_KEY_INT("hash_threads", S, auth.hash_threads, "1", 1, 16, "Password hashes computed side by side; each takes 19 MiB meanwhile."),
    {.key = NULL},
};
static const struct df_config_key log_keys[] = {
    DF_KEY_ENUM("level", S, log.level, "info", level_names, "Lowest level written."),
    DF_KEY_ENUM("format", S, log.format, "auto", format_names, "json, text, or auto: text on a terminal."),
    {.key = NULL},
};
static const struct df_config_key gateway_keys[] = {
    DF_KEY_OPTIONAL("functional_ack_url", S, gateway.functional_ack_url, "Where functional acks are sent."),
    DF_KEY_OPTIONAL("ticket_return_url", S, gateway.ticket_return_url, "Where ticket returns are sent."),
    DF_KEY_OPTIONAL("ticket_send_url", S, gateway.ticket_send_url, "Where tickets are sent."),
    DF_KEY_SECRET("api_key", S, gateway.api_key, "The gateway's key; needed as soon as one of the URLs is set."),
    DF_KEY_STRING("api_key_header", S, gateway.api_key_header, "x-Gateway-APIKey", "Header that carries the key."),
    DF_KEY_STRING("ack_business_application", S, gateway.ack_business_application, "CRN", "ackBusinessApplication of functional acks."),
    {.key = NULL},
};
static const struct df_config_key delivery_keys[] = {
    DF_KEY_INT("max_attempts", S, delivery.max_attempts, "5", 1, 1000, "Attempts before a delivery waits for a person."),
    DF_KEY_INT("retry_base_ms", S, delivery.retry_base_ms, "2000", 1, DF_HOURS, "First backoff; doubles with each attempt, full jitter."),
    DF_KEY_INT("retry_cap_ms", S, delivery.retry_cap_ms, "300000", 1, DF_DAYS, "Longest backoff."),
    DF_KEY_INT("lease_ms", S, delivery.lease_ms, "60000", 1000, DF_HOURS, "How long a claimed row stays claimed."),
    DF_KEY_INT("timeout_ms", S, delivery.timeout_ms, "30000", 1, DF_HOURS, "Longest time for one attempt."),
    DF_KEY_INT("concurrency", S, delivery.concurrency, "64", 1, 4096, "Attempts at the same time for one destination; one channel or client alone has three quarters of them."),
    DF_KEY_BOOL("allow_private_targets", S, delivery.allow_private_targets, "off", "Let webhooks of clients reach loopback and private addresses. What the operator names may be anywhere."),
    {.key = NULL},
};
static const struct df_config_key scheduled_keys[] = {
    DF_KEY_STRING("scheduled_storage", S, scheduled_storage, "local", "Where files of scheduled batches wait: local, or s3://bucket/prefix."),
    {.key = NULL},
};
static const struct df_config_key security_keys[] = {
    DF_KEY_SECRET("storage_key", S, security.storage_key, "Key of stored files, 32 bytes as 64 hexadecimal digits or in base64; without it they are stored as they are."),
    DF_KEY_SECRET("storage_old_key", S, security.storage_old_key, "The key before that one: files are still read with it."),
    DF_KEY_SECRET("master_key", S, security.master_key, "Key of webhook secrets in the database, 32 bytes as 64 hexadecimal digits or in base64; without it they are stored as they are."),
    DF_KEY_SECRET("master_old_key", S, security.master_old_key, "The key before that one: secrets under it are still read, and encrypted anew at the start."),
    {.key = NULL},
};
static const struct df_config_key webhooks_keys[] = {
    DF_KEY_INT_LIST("retry_delays_ms", S, webhooks.retry_delays_ms, "15000,30000,60000,300000,900000", 0, DF_DAYS, "Delays before the retries of a webhook; after the last it is given up."),
    DF_KEY_INT("timeout_ms", S, webhooks.timeout_ms, "15000", 1, DF_HOURS, "Longest time for one attempt."),
    DF_KEY_INT_IN(DF_HOURS, "rotation_overlap_hours", S, webhooks.rotation_overlap_ms, "24", 0, 720, "How long webhooks carry the old secret's signature too, after a rotation."),
    DF_KEY_INT("max_per_client", S, webhooks.max_per_client, "20", 1, 100000, "Subscriptions that a client may have."),
    DF_KEY_INT_IN(DF_DAYS, "disable_after_days", S, webhooks.disable_after_ms, "5", 1, 365, "A subscription is disabled when it has only failed for this long."),
    {.key = NULL},
};
static const struct df_config_key alerts_keys[] = {
    DF_KEY_SECRET("pagerduty_routing_key", S, alerts.pagerduty_routing_key, "Integration key of a PagerDuty service (Events API v2); alerts go there."),
    DF_KEY_STRING("pagerduty_url", S, alerts.pagerduty_url, "https://events.pagerduty.com/v2/enqueue", "Where PagerDuty takes events; https://events.eu.pagerduty.com/v2/enqueue in its EU region."),
    DF_KEY_SECRET("teams_url", S, alerts.teams_url, "URL of a Teams Workflows webhook, kept like a password; alerts go there as cards."),
    DF_KEY_OPTIONAL("console_url", S, alerts.console_url, "Where people find this server's console: a link in messages."),
    DF_KEY_INT_IN(DF_SECONDS, "interval_seconds", S, alerts.interval_ms, "60", 1, 86400, "How often the rules are evaluated."),
    DF_KEY_INT_IN(DF_MINUTES, "batch_stuck_minutes", S, alerts.batch_stuck_ms, "60", 1, 100000, "BatchStuck: a batch without progress for this long."),
    DF_KEY_INT_IN(DF_MINUTES, "delivery_stuck_minutes", S, alerts.delivery_stuck_ms, "60", 1, 100000, "DeliveryStuck: a channel's oldest row waits for this long."),
    DF_KEY_INT("webhook_failures", S, alerts.webhook_failures, "3", 1, 1000000, "WebhookFailing: deliveries of a subscription given up within an hour."),
    DF_KEY_INT("error_rate_percent", S, alerts.error_rate_percent, "20", 0, 100, "ErrorRate: more than this share of a client's records failed."),
    DF_KEY_INT("error_rate_min", S, alerts.error_rate_min, "100", 1, 1000000000, "ErrorRate: so many records at least."),
    DF_KEY_INT_IN(DF_MINUTES, "error_rate_minutes", S, alerts.error_rate_ms, "60", 1, 100000, "ErrorRate: in batches that ended within this time, or are in work."),
    {.key = NULL},
};
static const struct df_config_key s3_keys[] = {
    DF_KEY_OPTIONAL("endpoint", S, s3.endpoint, "URL of a storage that speaks S3; default: Amazon's, of the region."),
    DF_KEY_STRING("region", S, s3.region, "us-east-1", "Region that requests are signed for."),
    DF_KEY_SECRET("access_key", S, s3.access_key, "Access key; needed when scheduled_storage is s3://."),
    DF_KEY_SECRET("secret_key", S, s3.secret_key, "Its secret."),
    DF_KEY_BOOL("path_style", S, s3.path_style, "off", "endpoint/bucket/key instead of bucket.endpoint/key."),
    {.key = NULL},
};
/* clang-format on */

#define AT(member) offsetof(struct df_settings, member)

static const struct df_config_section sections[] = {
    {"server", server_keys, 0},
    {"database", database_keys, 0},
    {"admin", admin_keys, 0},
    {"auth", auth_keys, 0},
    {"log", log_keys, 0},
    {"gateway", gateway_keys, 0},
    {"delivery", delivery_keys, 0},
    {"breaker", df_breaker_keys, AT(breaker)},
    {"omniflow", df_omniflow_keys, AT(imports)},
    {"imports", df_imports_keys, AT(imports)},
    {"imports", scheduled_keys, 0},
    {"security", security_keys, 0},
    {"webhooks", webhooks_keys, 0},
    {"alerts", alerts_keys, 0},
    {"s3", s3_keys, 0},
    {.name = NULL},
};

static const struct df_config_group_at groups[] = {
    {&df_relay_group, AT(relays), AT(relay_count)},
    {&df_integration_group, AT(integrations), AT(integration_count)},
    {.group = NULL},
};

const struct df_config_table df_settings_table = {.sections = sections, .groups = groups};

static void set_default_url(struct df_settings *s)
{
    if (s->database.url)
        return;
    char *url;
    if (asprintf(&url, "sqlite:%s/dataflow.db", s->server.data_dir) < 0)
        abort();
    s->database.url = url;
}

struct df_storage_options df_settings_storage(const struct df_settings *s)
{
    return (struct df_storage_options){
        .data_dir = s->server.data_dir,
        .key = s->security.storage_key,
        .old_key = s->security.storage_old_key,
        .scheduled = s->scheduled_storage,
        .s3 = {.endpoint = s->s3.endpoint,
               .region = s->s3.region,
               .access_key = s->s3.access_key,
               .secret_key = s->s3.secret_key,
               .path_style = s->s3.path_style},
    };
}

static void check_storage(const struct df_settings *s, struct df_buf *complaints)
{
    struct df_err err = DF_ERR_INIT;
    struct df_storage_options storage = df_settings_storage(s);

    if (df_storage_check(&storage, &err) != DF_OK)
        df_buf_addf(complaints, "%s\n", err.detail);
}

static void check_key(const char *name, const struct df_secret *text, struct df_buf *complaints)
{
    struct df_secret *key = df_secret_key_new(df_secret_str(text));

    if (text && !key)
        df_buf_addf(complaints,
                    "[security] %s must be a key of 32 bytes as 64 hexadecimal digits or in base64 "
                    "(openssl rand -hex 32)\n",
                    name);
    df_secret_free(key);
}

static void check_master_keys(const struct df_settings *s, struct df_buf *complaints)
{
    check_key("master_key", s->security.master_key, complaints);
    check_key("master_old_key", s->security.master_old_key, complaints);
    if (s->security.master_old_key && !s->security.master_key)
        df_buf_addz(complaints, "[security] master_old_key is set and master_key is not\n");
}

static void check_alerts(const struct df_settings *s, struct df_buf *complaints)
{
    df_net_check_url("alerts", "pagerduty_url", df_str_c(s->alerts.pagerduty_url), complaints);
    df_net_check_url("alerts", "teams_url", df_secret_str(s->alerts.teams_url), complaints);
    df_net_check_url("alerts", "console_url", df_str_c(s->alerts.console_url), complaints);
}

/* The URL of an ack or a return is stored with its row. */
static void check_gateway_url(const char *name, const char *url, struct df_buf *complaints)
{
    df_net_check_url("gateway", name, df_str_c(url), complaints);
    if (url && strlen(url) > TARGET_URL_MAX)
        df_buf_addf(complaints, "[gateway] %s: must have at most %d bytes\n", name, TARGET_URL_MAX);
}

static void check_targets(const struct df_settings *s, struct df_buf *complaints)
{
    check_gateway_url("functional_ack_url", s->gateway.functional_ack_url, complaints);
    check_gateway_url("ticket_return_url", s->gateway.ticket_return_url, complaints);
    check_gateway_url("ticket_send_url", s->gateway.ticket_send_url, complaints);
    df_net_check_header("gateway", s->gateway.api_key_header, complaints);
}

static void check_server(const struct df_settings *s, struct df_buf *complaints)
{
    struct df_err err = DF_ERR_INIT;

    if (df_http_check_address(s->server.listen, &err) != DF_OK)
        df_buf_addf(complaints, "[server] listen: %s\n", err.detail);
    struct df_proxies proxies = {0};
    if (df_proxies_parse(s->server.trusted_proxies, &proxies, &err) != DF_OK)
        df_buf_addf(complaints, "[server] trusted_proxies: %s\n", err.detail);
    df_proxies_release(&proxies);
    /* Twice, because texts with escapes are copied. */
    int64_t share = s->server.memory_budget_bytes / 4;
    if (share < 2 * s->server.max_body_bytes + DF_MIB)
        df_buf_addf(complaints,
                    "[server] memory_budget_mb: a quarter of it must have room for two bodies of "
                    "max_body_bytes: set at least %lld\n",
                    (long long)(4 * (2 * s->server.max_body_bytes + DF_MIB) / DF_MIB + 1));
    if (!*s->server.data_dir)
        df_buf_addz(complaints, "[server] data_dir: must name a directory\n");
    if (!s->server.roles)
        df_buf_addz(complaints, "[server] roles: must be all, or name one at least\n");
    if (!s->server.tls_cert != !s->server.tls_key)
        df_buf_addz(complaints, "[server] tls_cert and tls_key: set both or none\n");
}

#define ADMIN_KEY_LEAST 12 /* shorter ones are refused where others than this machine may call */

static bool listens_on_loopback(const struct df_settings *s)
{
    struct df_str listen = df_str_c(s->server.listen);
    const char *colon = memrchr(listen.ptr, ':', listen.len);
    return colon && df_host_is_loopback(df_str_n(listen.ptr, (size_t)(colon - listen.ptr)));
}

static void check_admin_key(const struct df_settings *s, struct df_buf *complaints)
{
    if (s->admin.key && df_secret_str(s->admin.key).len < ADMIN_KEY_LEAST &&
        !listens_on_loopback(s))
        df_buf_addf(
            complaints,
            "[admin] key: has fewer than %d characters, and server.listen is not loopback: it "
            "would be guessed (openssl rand -base64 32)\n",
            ADMIN_KEY_LEAST);
}

/* What is not refused, and yet unwise. */
static void warn_together(const struct df_settings *s, struct df_buf *warnings)
{
    struct df_buf risk;

    if (s->admin.key && df_secret_str(s->admin.key).len < DF_ADMIN_KEY_STRONG)
        df_buf_addf(warnings,
                    "[admin] key: has fewer than %d characters and might be guessed (openssl rand "
                    "-base64 32)\n",
                    DF_ADMIN_KEY_STRONG);
    df_buf_init(&risk, 4096);
    df_db_url_risk(s->database.url, &risk);
    if (risk.len > 0)
        df_buf_addf(warnings, "[database] url: %s\n", df_buf_str(&risk).ptr);
    for (size_t i = 0; i < s->relay_count; i++) {
        df_buf_reset(&risk);
        if (strcmp(s->relays[i].url, s->database.url) != 0)
            df_db_url_risk(s->relays[i].url, &risk);
        if (risk.len > 0)
            df_buf_addf(warnings, "[relay.%s] url: %s\n", s->relays[i].name, df_buf_str(&risk).ptr);
    }
    df_buf_release(&risk);
}

/* What no single key can tell. */
static bool check_together(const struct df_settings *s, struct df_buf *complaints)
{
    size_t before = complaints->len;
    check_server(s, complaints);
    check_admin_key(s, complaints);
    bool gateway =
        s->gateway.functional_ack_url || s->gateway.ticket_return_url || s->gateway.ticket_send_url;
    if (gateway && !s->gateway.api_key)
        df_buf_addz(complaints,
                    "[gateway] api_key (or api_key_file) is needed when a gateway URL is set\n");
    if (s->delivery.retry_base_ms > s->delivery.retry_cap_ms)
        df_buf_addz(complaints, "[delivery] retry_base_ms is greater than retry_cap_ms\n");
    check_targets(s, complaints);
    struct df_err err = DF_ERR_INIT;
    if (df_db_check_url(s->database.url, &err) != DF_OK)
        df_buf_addf(complaints, "[database] url: %s\n", err.detail);
    df_imports_check_settings(&s->imports, complaints);
    check_storage(s, complaints);
    check_master_keys(s, complaints);
    check_alerts(s, complaints);
    for (size_t i = 0; i < s->relay_count; i++)
        df_relay_check_settings(&s->relays[i], complaints);
    for (size_t i = 0; i < s->integration_count; i++)
        df_integration_check_settings(&s->integrations[i], complaints);
    return complaints->len == before;
}

enum df_code df_settings_load(const struct df_config_sources *src, struct df_settings *s,
                              struct df_buf *complaints)
{
    *s = (struct df_settings){0};
    enum df_code code = df_config_load(&df_settings_table, src, s, complaints);
    if (code != DF_OK)
        return code;
    set_default_url(s);
    for (size_t i = 0; i < s->relay_count; i++)
        df_relay_fill_settings(&s->relays[i], s->database.url);
    for (size_t i = 0; i < s->integration_count; i++)
        df_integration_fill_settings(&s->integrations[i], &s->breaker);
    if (check_together(s, complaints)) {
        if (src->warnings)
            warn_together(s, src->warnings);
        return DF_OK;
    }
    df_settings_release(s);
    return DF_E_CONFIG;
}

void df_settings_release(struct df_settings *s)
{
    df_config_release(&df_settings_table, s);
}

void df_settings_add_integration(struct df_settings *s, const char *name, const char *base_url)
{
    const struct df_config_table table = {
        .sections = (const struct df_config_section[]){{.name = NULL}},
        .groups = (const struct df_config_group_at[]){
            {&df_integration_group, AT(integrations), AT(integration_count)}, {.group = NULL}}};
    struct df_settings one = {0};
    struct df_buf complaints;
    char *set = NULL;

    df_buf_init(&complaints, 4096);
    if (asprintf(&set, "integration.%s.base_url=%s", name, base_url) < 0)
        df_oom();
    const struct df_config_sources src = {.sets = (const char *const[]){set}, .set_count = 1};
    if (df_config_load(&table, &src, &one, &complaints) != DF_OK)
        abort(); /* the name and the URL are the program's own */
    df_integration_fill_settings(&one.integrations[0], &s->breaker);
    s->integrations =
        df_realloc(s->integrations, (s->integration_count + 1) * sizeof(*s->integrations));
    s->integrations[s->integration_count++] = one.integrations[0];
    free(one.integrations);
    free(set);
    df_buf_release(&complaints);
}

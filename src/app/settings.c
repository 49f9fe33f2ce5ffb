#include "app/settings.h"

#include "access/auth.h"
#include "access/maintenance.h"
#include "app/settings_named.h"
#include "base/zone.h"
#include "net/caller.h"
#include "net/field.h"
#include "net/http.h"
#include "net/url.h"
#include "store/db.h"

#include <stdio.h>
#include <stdlib.h>

static const char *const role_names[] = {"api",   "process",  "deliver", "import",
                                         "relay", "maintain", NULL};
static const char *const level_names[] = {"debug", "info", "warn", "error", NULL};
static const char *const format_names[] = {"auto", "json", "text", NULL};
static const char *const mode_names[] = {
    [DF_IMPORTS_EXCLUSIVE] = "exclusive", [DF_IMPORTS_CONCURRENT] = "concurrent", NULL};
static const char *const lock_names[] = {"sql", NULL};

#define AT(field) offsetof(struct df_settings, field)

#define STRING(sec, name, def, help)                                                               \
    {                                                                                              \
#sec, #name, DF_CFG_STRING, AT(sec.name), def, 0, 0, NULL, help                            \
    }
#define SECRET(sec, name, help)                                                                    \
    {                                                                                              \
#sec, #name, DF_CFG_SECRET, AT(sec.name), NULL, 0, 0, NULL, help                           \
    }
#define INT(sec, name, def, lo, hi, help)                                                          \
    {                                                                                              \
#sec, #name, DF_CFG_INT, AT(sec.name), def, lo, hi, NULL, help                             \
    }
#define BOOL(sec, name, def, help)                                                                 \
    {                                                                                              \
#sec, #name, DF_CFG_BOOL, AT(sec.name), def, 0, 0, NULL, help                              \
    }
#define ENUM(sec, name, def, list, help)                                                           \
    {                                                                                              \
#sec, #name, DF_CFG_ENUM, AT(sec.name), def, 0, 0, list, help                              \
    }

#define KIB            1024LL
#define MIB            (1024 * KIB)
#define HOUR           3600000LL

#define TARGET_URL_MAX 500 /* the column TargetUrl of acks and returns */

/* clang-format off */
static const struct df_config_key keys[] = {
    STRING(server, listen, "127.0.0.1:8080", "Address and port to listen on; port 0 picks a free one."),
    STRING(server, data_dir, "./var", "Directory for the embedded database and uploaded files; made if missing."),
    {"server", "roles", DF_CFG_FLAGS, AT(server.roles), "all", 0, 0, role_names,
     "What this process does; replicas may split the roles."},
    STRING(server, tls_cert, NULL, "PEM certificate chain; with it and tls_key the server speaks HTTPS (TLS 1.2+) only."),
    STRING(server, tls_key, NULL, "PEM private key of tls_cert."),
    INT(server, max_body_bytes, "1048576", KIB, MIB * 1024, "Longest request body, uploads apart."),
    INT(server, max_upload_bytes, "2147483648", KIB, MIB * 1024 * 1024, "Longest uploaded file."),
    INT(server, drain_seconds, "20", 0, 3600, "How long SIGTERM waits for requests in hand."),
    INT(server, threads, "0", 0, 64, "HTTP threads; 0: one for each processor, at most 8."),
    INT(server, max_connections, "2048", 1, 1000000, "Open connections in all; each may take 32 KiB."),
    INT(server, max_connections_per_address, "1024", 1, 1000000, "Open connections from one address, trusted proxies apart."),
    STRING(server, trusted_proxies, NULL, "Addresses and networks of proxies, separated by commas: what they say in Forwarded or X-Forwarded-For is the caller's address."),
    INT(server, memory_budget_mb, "80", 32, 65536, "Memory for requests in flight, bodies and answers, in MiB; beyond: 503. One client has at most a quarter."),
    INT(server, header_timeout_ms, "10000", 100, HOUR, "A request's header must be complete within this time."),
    INT(server, idle_timeout_ms, "60000", 100, HOUR, "An idle keep-alive connection is closed after this time."),
    BOOL(server, access_log, "on", "One log line for each request (event RequestServed)."),

    {"database", "url", DF_CFG_URL, AT(database.url), NULL, 0, 0, NULL, "sqlite:PATH, postgres://… or sqlserver://…; default: sqlite:<data_dir>/dataflow.db."},
    INT(database, pool_size, "0", 0, 256, "Connections; 0: 3 on SQLite, 8 on a server."),
    BOOL(database, migrate, "on", "Apply the schema scripts at start."),
    INT(database, group_max, "256", 1, 4096, "Most writes in one commit."),
    INT(database, queue_size, "4096", 16, 1000000, "Most jobs waiting for the database; beyond: 503."),

    SECRET(admin, key, "What X-Admin-Key must hold; without it /admin answers 404. At least 24 characters; under 12 it is refused, unless server.listen is loopback."),

    INT(auth, failures_per_minute, "60", 1, 100000, "Failed logins of one client id from one address (IPv6: its /64) before they get 429; of all ids ten times as many. A secret that was right from there in the last day always passes."),
    INT(auth, hash_threads, "1", 1, 16, "Password hashes computed side by side; each takes 19 MiB meanwhile."),

    ENUM(log, level, "info", level_names, "Lowest level written."),
    ENUM(log, format, "auto", format_names, "json, text, or auto: text on a terminal."),

    STRING(gateway, functional_ack_url, NULL, "Where functional acks are sent."),
    STRING(gateway, ticket_return_url, NULL, "Where ticket returns are sent."),
    STRING(gateway, ticket_send_url, NULL, "Where tickets are sent."),
    SECRET(gateway, api_key, "The gateway's key; needed as soon as one of the URLs is set."),
    STRING(gateway, api_key_header, "x-Gateway-APIKey", "Header that carries the key."),
    STRING(gateway, ack_business_application, "CRN", "ackBusinessApplication of functional acks."),

    INT(delivery, max_attempts, "5", 1, 1000, "Attempts before a delivery waits for a person."),
    INT(delivery, retry_base_ms, "2000", 1, HOUR, "First backoff; doubles with each attempt, full jitter."),
    INT(delivery, retry_cap_ms, "300000", 1, 24 * HOUR, "Longest backoff."),
    INT(delivery, lease_ms, "60000", 1000, HOUR, "How long a claimed row stays claimed."),
    INT(delivery, timeout_ms, "30000", 1, HOUR, "Longest time for one attempt."),
    INT(delivery, concurrency, "64", 1, 4096, "Attempts at the same time for one destination; one channel or client alone has three quarters of them."),
    BOOL(delivery, allow_private_targets, "off", "Let webhooks of clients reach loopback and private addresses. What the operator names may be anywhere."),

    INT(breaker, window, "10", 1, 10000, "Calls in the breaker's window."),
    INT(breaker, min_calls, "5", 1, 10000, "Calls before the rate counts."),
    INT(breaker, failure_rate, "50", 1, 100, "Per cent of failures that opens the breaker."),
    INT(breaker, slow_call_ms, "0", 0, HOUR, "A call slower than this is slow; when all in the window are, the breaker opens. 0: off."),
    INT(breaker, open_ms, "10000", 1, 24 * HOUR, "How long the breaker stays open."),
    INT(breaker, half_open_calls, "3", 1, 1000, "Probes while half open."),

    STRING(omniflow, url, NULL, "Base URL of OmniFlow."),
    SECRET(omniflow, api_key, "OmniFlow's key."),
    STRING(omniflow, api_key_header, "X-Api-Key", "Header that carries the key."),
    INT(omniflow, batch_size, "100", 1, 10000, "Records in a chunk."),
    INT(omniflow, max_parallel_chunks, "4", 1, 256, "Chunks that may wait for an ack at the same time."),
    INT(omniflow, max_retries, "3", 0, 100, "Retries of a chunk."),
    {"omniflow", "retry_delays_ms", DF_CFG_INT_LIST, AT(omniflow.retry_delays_ms), "2000,5000,15000", 0, HOUR, NULL,
     "Delays before the retries of a chunk."},
    INT(omniflow, ack_timeout_seconds, "60", 1, 86400, "A chunk without an ack is sent again after this time."),
    INT(omniflow, timeout_ms, "30000", 1, HOUR, "Longest time for sending a chunk and its answer."),
    INT(omniflow, max_outage_seconds, "900", 0, 86400, "How long a batch waits for OmniFlow to be well again before its chunks fail."),

    ENUM(imports, mode, "exclusive", mode_names, "One batch at a time, or one for each client."),
    ENUM(imports, lock, "sql", lock_names, "Where the batch lock lives."),
    INT(imports, lock_timeout_minutes, "30", 1, 1440, "A lock not renewed for this long is freed."),
    INT(imports, poll_ms, "1000", 10, 60000, "How often waiting batches are looked for."),
    INT(imports, workers, "4", 1, 64, "Batches that this process works on at a time, in concurrent mode."),
    INT(imports, fair_seconds, "60", 0, 86400, "A batch that has been worked on for so long gives way when another client's waits; 0: it never does, and batches are taken in the order they came."),
    INT(imports, max_records, "2000000", 1, 2147483647, "Records of one file, a run of empty ones counted as one; over it the batch fails before anything is sent."),
    INT(imports, max_growth, "200", 1, 1000000, "The records of a file may together have so many times its bytes, and 64 MiB in any case; over it the batch fails before anything is sent."),
    STRING(imports, business_time_zone, "America/Sao_Paulo", "Time zone of business hours and of the day that maxBatchPerDay counts."),
    STRING(imports, maintenance_windows, NULL, "When no uploads are taken, UTC: 2026-11-20T02:00Z/2026-11-20T04:00Z, 02:00-04:00 or Sun 02:00-04:00, separated by ';'."),
    STRING(imports, scheduled_storage, "local", "Where files of scheduled batches wait: local, or s3://bucket/prefix."),

    SECRET(security, storage_key, "Key of stored files, 32 bytes as 64 hexadecimal digits or in base64; without it they are stored as they are."),
    SECRET(security, storage_old_key, "The key before that one: files are still read with it."),
    SECRET(security, master_key, "Key of webhook secrets in the database, 32 bytes as 64 hexadecimal digits or in base64; without it they are stored as they are."),
    SECRET(security, master_old_key, "The key before that one: secrets under it are still read, and encrypted anew at the start."),

    {"webhooks", "retry_delays_ms", DF_CFG_INT_LIST, AT(webhooks.retry_delays_ms), "15000,30000,60000,300000,900000", 0, 24 * HOUR, NULL,
     "Delays before the retries of a webhook; after the last it is given up."},
    INT(webhooks, timeout_ms, "15000", 1, HOUR, "Longest time for one attempt."),
    INT(webhooks, rotation_overlap_hours, "24", 0, 720, "How long webhooks carry the old secret's signature too, after a rotation."),
    INT(webhooks, max_per_client, "20", 1, 100000, "Subscriptions that a client may have."),
    INT(webhooks, disable_after_days, "5", 1, 365, "A subscription is disabled when it has only failed for this long."),

    SECRET(alerts, pagerduty_routing_key, "Integration key of a PagerDuty service (Events API v2); alerts go there."),
    STRING(alerts, pagerduty_url, "https://events.pagerduty.com/v2/enqueue", "Where PagerDuty takes events; https://events.eu.pagerduty.com/v2/enqueue in its EU region."),
    SECRET(alerts, teams_url, "URL of a Teams Workflows webhook, kept like a password; alerts go there as cards."),
    STRING(alerts, console_url, NULL, "Where people find this server's console: a link in messages."),
    INT(alerts, interval_seconds, "60", 1, 86400, "How often the rules are evaluated."),
    INT(alerts, batch_stuck_minutes, "60", 1, 100000, "BatchStuck: a batch without progress for this long."),
    INT(alerts, delivery_stuck_minutes, "60", 1, 100000, "DeliveryStuck: a channel's oldest row waits for this long."),
    INT(alerts, webhook_failures, "3", 1, 1000000, "WebhookFailing: deliveries of a subscription given up within an hour."),
    INT(alerts, error_rate_percent, "20", 0, 100, "ErrorRate: more than this share of a client's records failed."),
    INT(alerts, error_rate_min, "100", 1, 1000000000, "ErrorRate: so many records at least."),
    INT(alerts, error_rate_minutes, "60", 1, 100000, "ErrorRate: in batches that ended within this time, or are in work."),

    STRING(s3, endpoint, NULL, "URL of a storage that speaks S3; default: Amazon's, of the region."),
    STRING(s3, region, "us-east-1", "Region that requests are signed for."),
    SECRET(s3, access_key, "Access key; needed when scheduled_storage is s3://."),
    SECRET(s3, secret_key, "Its secret."),
    BOOL(s3, path_style, "off", "endpoint/bucket/key instead of bucket.endpoint/key."),
};
/* clang-format on */

const struct df_config_table df_settings_table = {
    .keys = keys,
    .count = sizeof keys / sizeof keys[0],
    .groups = df_settings_groups,
    .group_count = DF_SETTINGS_GROUPS,
};

static void set_default_url(struct df_settings *s)
{
    if (s->database.url)
        return;
    if (asprintf(&s->database.url, "sqlite:%s/dataflow.db", s->server.data_dir) < 0)
        abort();
}

void df_settings_drop_empty(char **text)
{
    if (*text && !**text) {
        free(*text);
        *text = NULL;
    }
}

struct df_breaker_options df_settings_breaker(const struct df_settings *s,
                                              const struct df_clock *clock)
{
    return (struct df_breaker_options){
        .window = s->breaker.window,
        .min_calls = s->breaker.min_calls,
        .failure_rate = s->breaker.failure_rate,
        .slow_call_ms = s->breaker.slow_call_ms,
        .open_ms = s->breaker.open_ms,
        .half_open_calls = s->breaker.half_open_calls,
        .clock = clock,
    };
}

struct df_storage_options df_settings_storage(const struct df_settings *s)
{
    return (struct df_storage_options){
        .data_dir = s->server.data_dir,
        .key = s->security.storage_key,
        .old_key = s->security.storage_old_key,
        .scheduled = s->imports.scheduled_storage,
        .s3 = {.endpoint = s->s3.endpoint,
               .region = s->s3.region,
               .access_key = s->s3.access_key,
               .secret_key = s->s3.secret_key,
               .path_style = s->s3.path_style},
    };
}

/* Texts with a grammar of their own. */
static void check_imports(const struct df_settings *s, struct df_buf *complaints)
{
    struct df_err err = DF_ERR_INIT;
    struct df_zone *zone = NULL;
    struct df_maintenance windows = {0};
    struct df_storage_options storage = df_settings_storage(s);

    if (df_zone_open(s->imports.business_time_zone, &zone, &err) != DF_OK)
        df_buf_addf(complaints, "[imports] business_time_zone: %s\n", err.detail);
    df_zone_free(zone);
    if (df_maintenance_add(&windows, df_str_c(s->imports.maintenance_windows), &err) != DF_OK)
        df_buf_addf(complaints, "[imports] maintenance_windows: %s\n", err.detail);
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

static void check_url(const char *section, const char *name, struct df_str url,
                      struct df_buf *complaints)
{
    struct df_err err = DF_ERR_INIT;
    struct df_url parts;

    if (!url.ptr)
        return;
    if (df_url_parse(url, &parts, &err) != DF_OK)
        df_buf_addf(complaints, "[%s] %s: %s\n", section, name, err.detail);
    else if (parts.userinfo.ptr) /* it would stand in rows and answers */
        df_buf_addf(complaints, "[%s] %s: may not hold credentials\n", section, name);
}

static void check_alerts(const struct df_settings *s, struct df_buf *complaints)
{
    check_url("alerts", "pagerduty_url", df_str_c(s->alerts.pagerduty_url), complaints);
    check_url("alerts", "teams_url", df_secret_str(s->alerts.teams_url), complaints);
    check_url("alerts", "console_url", df_str_c(s->alerts.console_url), complaints);
}

/* A key in one of these would be there twice, or no request at all. */
static bool is_set_by_us(struct df_str name)
{
    static const char *const names[] = {"Content-Type",     "Host",        "Idempotency-Key",
                                        "X-Correlation-Id", "traceparent", "x-trace-id"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (df_str_ieq(name, df_str_c(names[i])))
            return true;
    }
    return df_field_is_framing(name);
}

static void check_header(const char *section, const char *name, struct df_buf *complaints)
{
    if (!df_field_is_token(df_str_c(name)))
        df_buf_addf(complaints,
                    "[%s] api_key_header: must be a header's name: letters, digits and '-'\n",
                    section);
    else if (is_set_by_us(df_str_c(name)))
        df_buf_addf(complaints, "[%s] api_key_header: %s has another use\n", section, name);
}

/* The URL of an ack or a return is stored with its row. */
static void check_gateway_url(const char *name, const char *url, struct df_buf *complaints)
{
    check_url("gateway", name, df_str_c(url), complaints);
    if (url && strlen(url) > TARGET_URL_MAX)
        df_buf_addf(complaints, "[gateway] %s: must have at most %d bytes\n", name, TARGET_URL_MAX);
}

static void check_targets(const struct df_settings *s, struct df_buf *complaints)
{
    check_gateway_url("functional_ack_url", s->gateway.functional_ack_url, complaints);
    check_gateway_url("ticket_return_url", s->gateway.ticket_return_url, complaints);
    check_gateway_url("ticket_send_url", s->gateway.ticket_send_url, complaints);
    check_header("gateway", s->gateway.api_key_header, complaints);
    check_url("omniflow", "url", df_str_c(s->omniflow.url), complaints);
    check_header("omniflow", s->omniflow.api_key_header, complaints);
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
    int64_t share = s->server.memory_budget_mb * MIB / 4;
    if (share < 2 * s->server.max_body_bytes + MIB)
        df_buf_addf(complaints,
                    "[server] memory_budget_mb: a quarter of it must have room for two bodies of "
                    "max_body_bytes: set at least %lld\n",
                    (long long)(4 * (2 * s->server.max_body_bytes + MIB) / MIB + 1));
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
    check_imports(s, complaints);
    check_master_keys(s, complaints);
    check_alerts(s, complaints);
    df_settings_check_named(s, complaints);
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
    df_settings_drop_empty(&s->gateway.functional_ack_url);
    df_settings_drop_empty(&s->gateway.ticket_return_url);
    df_settings_drop_empty(&s->gateway.ticket_send_url);
    df_settings_drop_empty(&s->omniflow.url);
    df_settings_drop_empty(&s->s3.endpoint);
    df_settings_drop_empty(&s->alerts.console_url);
    df_settings_fill_named(s);
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

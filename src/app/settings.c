#include "app/settings.h"

#include "access/auth.h"
#include "app/queue.h"
#include "backup/place.h"
#include "base/mem.h"
#include "files/storage.h"
#include "net/http.h"
#include "store/db.h"
#include "json/write.h"

#include <stdio.h>
#include <stdlib.h>

static const char *const role_names[] = {"api",   "process",  "deliver", "import",
                                         "relay", "maintain", NULL};
static const char *const level_names[] = {"debug", "info", "warn", "error", NULL};
static const char *const format_names[] = {"auto", "json", "text", NULL};

/* Two parts of 5 MiB and other buffers are in memory for each upload to S3. */
#define UPLOADS_BUDGET_BYTES (48 * DF_MIB)

#define S                    struct df_settings

/* clang-format off */
static const struct df_config_key server_keys[] = {
    DF_KEY_STRING("listen", S, http.listen, "127.0.0.1:8080", "Address and port to listen on; port 0 picks a free one."),
    DF_KEY_STRING("data_dir", S, data_dir, "./var", "Directory for the embedded database and uploaded files; created if missing."),
    DF_KEY_FLAGS("roles", S, roles, "all", role_names, "What this process does; replicas may split the roles."),
    DF_KEY_STRING("tls_cert", S, http.tls_cert, NULL, "PEM certificate chain; with it and tls_key the server speaks HTTPS (TLS 1.2+) only."),
    DF_KEY_STRING("tls_key", S, http.tls_key, NULL, "PEM private key of tls_cert. Both files are read again when they change, and at SIGHUP."),
    DF_KEY_OPTIONAL("tls_client_ca", S, http.tls_client_ca, "PEM authorities; callers must have a certificate of one of them. Read again like tls_cert."),
    DF_KEY_INT("max_body_bytes", S, http.max_body_bytes, "1048576", 1024, DF_MIB * 1024, "Longest request body, except uploads."),
    DF_KEY_INT("max_upload_bytes", S, imports.max_upload_bytes, "2147483648", 1024, DF_MIB * 1024 * 1024, "Longest uploaded file."),
    DF_KEY_INT_IN(DF_SECONDS, "drain_seconds", S, drain_ms, "20", 0, 3600, "How long SIGTERM waits for requests and other work in hand."),
    DF_KEY_INT("threads", S, http.threads, "0", 0, 64, "HTTP threads; 0: one for each processor, at most 8."),
    DF_KEY_INT("max_connections", S, http.max_connections, "2048", 1, 1000000, "Open connections in all; each may take 32 KiB."),
    DF_KEY_INT("max_connections_per_address", S, http.max_connections_per_address, "1024", 1, 1000000, "Open connections from one address, except trusted proxies."),
    DF_KEY_STRING("trusted_proxies", S, http.trusted_proxies, NULL, "Addresses and networks of proxies, separated by commas; from them the caller's address is taken from Forwarded or X-Forwarded-For."),
    DF_KEY_INT_IN(DF_MIB, "memory_budget_mb", S, http.memory_budget_bytes, "80", 32, 65536, "Memory for requests in flight, their bodies and answers, in MiB; beyond it 503. One client has at most a quarter."),
    DF_KEY_INT("header_timeout_ms", S, http.header_timeout_ms, "10000", 100, DF_HOURS, "A request's header must be complete within this time."),
    DF_KEY_INT("idle_timeout_ms", S, http.idle_timeout_ms, "60000", 100, DF_HOURS, "An idle keep-alive connection is closed after this time."),
    DF_KEY_BOOL("access_log", S, http.access_log, "on", "One log line for each request (event RequestServed)."),
    {.key = NULL},
};

static const struct df_config_key log_keys[] = {
    DF_KEY_ENUM("level", S, log.level, "info", level_names, "Lowest level written."),
    DF_KEY_ENUM("format", S, log.format, "auto", format_names, "json, text, or auto: text on a terminal."),
    {.key = NULL},
};
/* clang-format on */

#define AT(member) offsetof(struct df_settings, member)

static const struct df_config_section sections[] = {
    {"server", server_keys, 0},
    {"database", df_store_keys, AT(store)},
    {"admin", df_admin_keys, AT(auth)},
    {"auth", df_auth_keys, AT(auth)},
    {"log", log_keys, 0},
    {"log", df_ship_keys, AT(ship)},
    {"gateway", df_gateway_keys, AT(interface)},
    {"delivery", df_delivery_keys, AT(delivery)},
    {"delivery", df_private_target_keys, AT(webhooks)},
    {"breaker", df_breaker_keys, AT(breaker)},
    {"omniflow", df_omniflow_keys, AT(imports)},
    {"imports", df_imports_keys, AT(imports)},
    {"imports", df_lock_keys, AT(locks)},
    {"imports", df_storage_keys, AT(storage)},
    {"redis", df_redis_keys, AT(locks)},
    {"server", df_require_tls_keys, AT(security)},
    {"security", df_security_keys, AT(security)},
    {"security", df_storage_key_keys, AT(storage)},
    {"security", df_master_key_keys, AT(keys)},
    {"security", df_vault_keys, AT(keys.vault)},
    {"security", df_secret_age_keys, AT(alerts)},
    {"webhooks", df_webhooks_keys, AT(webhooks)},
    {"alerts", df_alerts_keys, AT(alerts)},
    {"series", df_series_keys, AT(series)},
    {"retention", df_retention_keys, AT(retention)},
    {"backup", df_backup_keys, AT(backup)},
    {"sensitive_data", df_sensitive_keys, AT(sensitive)},
    {"s3", df_s3_keys, AT(storage)},
    {"otel", df_telemetry_keys, AT(telemetry)},
    {.name = NULL},
};

static const struct df_config_group_at groups[] = {
    {&df_admin_group, AT(auth.admins), AT(auth.admin_count)},
    {&df_relay_group, AT(relays), AT(relay_count)},
    {&df_integration_group, AT(integrations), AT(integration_count)},
    {.group = NULL},
};

const struct df_config_table df_settings_table = {.sections = sections, .groups = groups};

static void set_default_url(struct df_settings *s)
{
    if (s->store.url)
        return;
    char *url;
    if (asprintf(&url, "sqlite:%s/dataflow.db", s->data_dir) < 0)
        abort();
    s->store.url = url;
}

static void check_server(const struct df_settings *s, struct df_buf *complaints)
{
    df_http_check_settings(&s->http, complaints);
    df_security_check_settings(&s->security, complaints);
    if (!*s->data_dir)
        df_buf_addz(complaints, "[server] data_dir: must name a directory\n");
    if (!s->roles)
        df_buf_addz(complaints, "[server] roles: must be all, or name one at least\n");
}

static void check_storage(const struct df_settings *s, struct df_buf *complaints)
{
    const struct df_storage_options opt = {.data_dir = s->data_dir, .settings = s->storage};
    struct df_err err = DF_ERR_INIT;

    if (df_storage_check(&opt, &err) != DF_OK)
        df_buf_addf(complaints, "%s\n", err.detail);
    if (s->storage.where == DF_STORAGE_S3 && s->http.memory_budget_bytes < UPLOADS_BUDGET_BYTES)
        df_buf_addf(
            complaints,
            "[server] memory_budget_mb: with imports.storage = s3 a quarter of it must have "
            "room for an upload: set at least %lld\n",
            (long long)(UPLOADS_BUDGET_BYTES / DF_MIB));
}

/* An embedded database is backed up; a server has tools of its own. */
static void check_backup(const struct df_settings *s, struct df_buf *complaints)
{
    enum df_dialect dialect = DF_SQLITE;
    struct df_depot *place = NULL;
    struct df_err err = DF_ERR_INIT;

    if (!s->backup.to)
        return;
    if (df_db_dialect_of(s->store.url, &dialect, &err) == DF_OK && dialect != DF_SQLITE)
        df_buf_addz(complaints, "[backup] to: is for the embedded database only; "
                                "docs/runbooks/restore.md has the ways of database servers\n");
    else if (strncmp(s->backup.to, "s3://", 5) == 0 &&
             df_depot_open(s->backup.to, "backup.to", &s->storage.s3, df_clock_real(), false,
                           &place, &err) != DF_OK)
        df_buf_addf(complaints, "[backup] %s\n", err.detail);
    df_depot_close(place);
}

/* Warns of settings that are valid but unwise. */
static void warn_together(const struct df_settings *s, struct df_buf *warnings)
{
    struct df_buf risk;

    df_auth_warn_settings(&s->auth, warnings);
    df_buf_init(&risk, 4096);
    df_db_url_risk(s->store.url, false, &risk);
    if (risk.len > 0)
        df_buf_addf(warnings, "[database] url: %s\n", df_buf_str(&risk).ptr);
    for (size_t i = 0; i < s->relay_count; i++) {
        df_buf_reset(&risk);
        if (strcmp(s->relays[i].url, s->store.url) != 0)
            df_db_url_risk(s->relays[i].url, false, &risk);
        if (risk.len > 0)
            df_buf_addf(warnings, "[relay.%s] url: %s\n", s->relays[i].name, df_buf_str(&risk).ptr);
    }
    df_buf_release(&risk);
}

/* Checks keys against each other. */
static bool check_together(const struct df_settings *s, struct df_buf *complaints)
{
    size_t before = complaints->len;
    check_server(s, complaints);
    df_store_check_settings(&s->store, complaints);
    df_auth_check_settings(&s->auth, df_http_is_loopback(s->http.listen), complaints);
    df_interface_check_settings(&s->interface, complaints);
    df_delivery_check_settings(&s->delivery, complaints);
    df_imports_check_settings(&s->imports, complaints);
    df_locks_check_settings(&s->locks, complaints);
    df_queue_check(s, complaints);
    check_storage(s, complaints);
    check_backup(s, complaints);
    df_keys_check_settings(&s->keys, complaints);
    df_alerts_check_settings(&s->alerts, complaints);
    df_ship_check_settings(&s->ship, complaints);
    df_sensitive_check_settings(&s->sensitive, complaints);
    df_telemetry_check_settings(&s->telemetry, complaints);
    for (size_t i = 0; i < s->relay_count; i++)
        df_relay_check_settings(&s->relays[i], complaints);
    for (size_t i = 0; i < s->integration_count; i++)
        df_integration_check_settings(&s->integrations[i], complaints);
    df_settings_check_tls(s, complaints);
    return complaints->len == before;
}

/* Adds the complaints about keys together, whose own values may have been refused before. */
static bool add_together(const struct df_settings *s, struct df_buf *complaints)
{
    struct df_buf more;
    struct df_str line, rest;
    size_t before = complaints->len;

    df_buf_init(&more, complaints->max);
    bool ok = check_together(s, &more);
    for (rest = df_buf_str(&more); rest.len > 0;) {
        rest = df_str_cut(rest, '\n', &line);
        if (line.len == 0 || df_config_is_told(line, df_str_n(complaints->ptr, before)))
            continue;
        df_buf_adds(complaints, line);
        df_buf_addc(complaints, '\n');
    }
    df_buf_release(&more);
    return ok;
}

enum df_code df_settings_load(const struct df_config_sources *src, struct df_settings *s,
                              struct df_buf *complaints)
{
    struct df_config_sources all = *src;

    *s = (struct df_settings){0};
    all.keep = true; /* what is wrong with keys together is told at once too */
    enum df_code code = df_config_load(&df_settings_table, &all, s, complaints);
    set_default_url(s);
    for (size_t i = 0; i < s->relay_count; i++)
        df_relay_fill_settings(&s->relays[i], s->store.url);
    for (size_t i = 0; i < s->integration_count; i++)
        df_integration_fill_settings(&s->integrations[i], &s->breaker);
    if (add_together(s, complaints) && code == DF_OK) {
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

void df_settings_write_roles(const struct df_settings *s, struct df_json_out *out)
{
    df_json_open(out, '[');
    for (size_t i = 0; role_names[i]; i++)
        if (s->roles & (1u << i))
            df_json_text(out, df_str_c(role_names[i]));
    df_json_close(out, ']');
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
        abort(); /* cannot happen: the name and the URL are the program's own */
    df_integration_fill_settings(&one.integrations[0], &s->breaker);
    s->integrations =
        df_realloc(s->integrations, (s->integration_count + 1) * sizeof(*s->integrations));
    s->integrations[s->integration_count++] = one.integrations[0];
    free(one.integrations);
    free(set);
    df_buf_release(&complaints);
}

/*
 * Everything that can be configured, as one struct. settings.c holds the table from which it is
 * filled, printed and documented. Read-only once loaded; shared by all threads.
 */
#ifndef DF_APP_SETTINGS_H
#define DF_APP_SETTINGS_H

#include "base/config.h"
#include "files/storage.h"
#include "imports/settings.h"
#include "integrations/settings.h"
#include "relay/settings.h"
#include "resilience/settings.h"

enum df_role {
    DF_ROLE_API = 1 << 0,
    DF_ROLE_PROCESS = 1 << 1,
    DF_ROLE_DELIVER = 1 << 2,
    DF_ROLE_IMPORT = 1 << 3,
    DF_ROLE_RELAY = 1 << 4,
    DF_ROLE_MAINTAIN = 1 << 5,
};

struct df_settings {
    struct {
        const char *listen;
        const char *data_dir;
        uint32_t roles; /* enum df_role */
        const char *tls_cert;
        const char *tls_key;
        int64_t max_body_bytes;
        int64_t drain_ms;
        int64_t threads;
        int64_t max_connections;
        int64_t max_connections_per_address;
        const char *trusted_proxies;
        int64_t memory_budget_bytes;
        int64_t header_timeout_ms;
        int64_t idle_timeout_ms;
        bool access_log;
    } server;
    struct {
        const char *url; /* never NULL once loaded: the default depends on data_dir */
        int64_t pool_size;
        bool migrate;
        int64_t group_max;
        int64_t queue_size;
    } database;
    struct {
        const struct df_secret *key;
    } admin;
    struct {
        int64_t failures_per_minute;
        int64_t hash_threads;
    } auth;
    struct {
        int level;
        int format;
    } log;
    struct {
        const char *functional_ack_url;
        const char *ticket_return_url;
        const char *ticket_send_url;
        const struct df_secret *api_key;
        const char *api_key_header;
        const char *ack_business_application;
    } gateway;
    struct {
        int64_t max_attempts;
        int64_t retry_base_ms;
        int64_t retry_cap_ms;
        int64_t lease_ms;
        int64_t timeout_ms;
        int64_t concurrency;
        bool allow_private_targets;
    } delivery;
    struct df_breaker_settings breaker;
    struct df_imports_settings imports;
    const char *scheduled_storage;
    struct {
        const struct df_secret *storage_key;
        const struct df_secret *storage_old_key;
        const struct df_secret *master_key;
        const struct df_secret *master_old_key;
    } security;
    struct {
        struct df_int_list retry_delays_ms;
        int64_t timeout_ms;
        int64_t rotation_overlap_ms;
        int64_t max_per_client;
        int64_t disable_after_ms;
    } webhooks;
    struct {
        const struct df_secret *pagerduty_routing_key;
        const char *pagerduty_url;
        const struct df_secret *teams_url;
        const char *console_url;
        int64_t interval_ms;
        int64_t batch_stuck_ms;
        int64_t delivery_stuck_ms;
        int64_t webhook_failures;
        int64_t error_rate_percent;
        int64_t error_rate_min;
        int64_t error_rate_ms;
    } alerts;
    struct {
        const char *endpoint;
        const char *region;
        const struct df_secret *access_key;
        const struct df_secret *secret_key;
        bool path_style;
    } s3;
    struct df_relay_settings *relays; /* [relay.NAME], in the order of first appearance */
    size_t relay_count;
    struct df_integration_settings *integrations; /* [integration.NAME], likewise */
    size_t integration_count;
};

extern const struct df_config_table df_settings_table;

/*
 * Loads from file, environment and --set, fills what depends on other keys and checks what no
 * single key can tell (a certificate without its key, a gateway without its API key). Complaints
 * and warnings as df_config_load.
 */
enum df_code df_settings_load(const struct df_config_sources *src, struct df_settings *s,
                              struct df_buf *complaints) DF_MUST_CHECK;
void df_settings_release(struct df_settings *s);

/* A section [integration.NAME] of the program's own, with base_url and the defaults. */
void df_settings_add_integration(struct df_settings *s, const char *name, const char *base_url);

/* What they say of where uploaded files live; borrowed. */
struct df_storage_options df_settings_storage(const struct df_settings *s);

#endif

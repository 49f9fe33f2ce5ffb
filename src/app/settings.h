/*
 * Everything that can be configured, as one struct. settings.c holds the table from which it is
 * filled, printed and documented. Read-only once loaded; shared by all threads.
 */
#ifndef DF_APP_SETTINGS_H
#define DF_APP_SETTINGS_H

#include "base/config.h"
#include "files/storage.h"
#include "integrations/integrations.h"
#include "relay/relay.h"
#include "resilience/breaker.h"

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
        char *listen;
        char *data_dir;
        uint32_t roles; /* enum df_role */
        char *tls_cert;
        char *tls_key;
        int64_t max_body_bytes;
        int64_t max_upload_bytes;
        int64_t drain_seconds;
        int64_t threads;
        int64_t max_connections;
        int64_t max_connections_per_address;
        char *trusted_proxies;
        int64_t memory_budget_mb;
        int64_t header_timeout_ms;
        int64_t idle_timeout_ms;
        bool access_log;
    } server;
    struct {
        char *url; /* never NULL once loaded: the default depends on data_dir */
        int64_t pool_size;
        bool migrate;
        int64_t group_max;
        int64_t queue_size;
    } database;
    struct {
        struct df_secret *key;
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
        char *functional_ack_url;
        char *ticket_return_url;
        char *ticket_send_url;
        struct df_secret *api_key;
        char *api_key_header;
        char *ack_business_application;
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
    struct {
        int64_t window;
        int64_t min_calls;
        int64_t failure_rate;
        int64_t slow_call_ms;
        int64_t open_ms;
        int64_t half_open_calls;
    } breaker;
    struct {
        char *url;
        struct df_secret *api_key;
        char *api_key_header;
        int64_t batch_size;
        int64_t max_parallel_chunks;
        int64_t max_retries;
        struct df_int_list retry_delays_ms;
        int64_t ack_timeout_seconds;
        int64_t timeout_ms;
        int64_t max_outage_seconds;
    } omniflow;
    struct {
        int mode; /* enum df_import_mode */
        int lock;
        int64_t lock_timeout_minutes;
        int64_t poll_ms;
        int64_t workers;
        int64_t fair_seconds;
        int64_t max_records;
        int64_t max_growth;
        char *business_time_zone;
        char *maintenance_windows;
        char *scheduled_storage;
    } imports;
    struct {
        struct df_secret *storage_key;
        struct df_secret *storage_old_key;
        struct df_secret *master_key;
        struct df_secret *master_old_key;
    } security;
    struct {
        struct df_int_list retry_delays_ms;
        int64_t timeout_ms;
        int64_t rotation_overlap_hours;
        int64_t max_per_client;
        int64_t disable_after_days;
    } webhooks;
    struct {
        struct df_secret *pagerduty_routing_key;
        char *pagerduty_url;
        struct df_secret *teams_url;
        char *console_url;
        int64_t interval_seconds;
        int64_t batch_stuck_minutes;
        int64_t delivery_stuck_minutes;
        int64_t webhook_failures;
        int64_t error_rate_percent;
        int64_t error_rate_min;
        int64_t error_rate_minutes;
    } alerts;
    struct {
        char *endpoint;
        char *region;
        struct df_secret *access_key;
        struct df_secret *secret_key;
        bool path_style;
    } s3;
    struct df_relay_settings *relays; /* [relay.NAME], in the order of first appearance */
    size_t relay_count;
    struct df_integration_settings *integrations; /* [integration.NAME], likewise */
    size_t integration_count;
};

enum df_import_mode { DF_IMPORTS_EXCLUSIVE, DF_IMPORTS_CONCURRENT };

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

struct df_breaker_options df_settings_breaker(const struct df_settings *s,
                                              const struct df_clock *clock);
/* What they say of where uploaded files live; borrowed. */
struct df_storage_options df_settings_storage(const struct df_settings *s);

#endif

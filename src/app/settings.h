/*
 * Everything that can be configured: the settings of each room, and those of the program itself.
 * settings.c gathers the tables from which they are filled, printed and documented.
 * Read-only once loaded; shared by all threads.
 */
#ifndef DF_APP_SETTINGS_H
#define DF_APP_SETTINGS_H

#include "access/settings.h"
#include "alerts/settings.h"
#include "backup/settings.h"
#include "delivery/settings.h"
#include "files/settings.h"
#include "imports/settings.h"
#include "integrations/settings.h"
#include "interface/settings.h"
#include "keys/settings.h"
#include "locks/settings.h"
#include "net/security.h"
#include "net/settings.h"
#include "privacy/settings.h"
#include "relay/settings.h"
#include "resilience/settings.h"
#include "retention/settings.h"
#include "ship/settings.h"
#include "store/settings.h"
#include "webhooks/settings.h"

enum df_role {
    DF_ROLE_API = 1 << 0,
    DF_ROLE_PROCESS = 1 << 1,
    DF_ROLE_DELIVER = 1 << 2,
    DF_ROLE_IMPORT = 1 << 3,
    DF_ROLE_RELAY = 1 << 4,
    DF_ROLE_MAINTAIN = 1 << 5,
};

struct df_settings {
    const char *data_dir;
    uint32_t roles; /* enum df_role */
    int64_t drain_ms;
    struct {
        int level;  /* enum df_log_level */
        int format; /* enum df_log_format */
    } log;
    struct df_ship_settings ship;
    struct df_http_settings http;
    struct df_security_settings security;
    struct df_store_settings store;
    struct df_auth_settings auth;
    struct df_interface_settings interface;
    struct df_delivery_settings delivery;
    struct df_breaker_settings breaker;
    struct df_imports_settings imports;
    struct df_locks_settings locks;
    struct df_storage_settings storage;
    struct df_keys_settings keys;
    struct df_webhooks_settings webhooks;
    struct df_sensitive_settings sensitive;
    struct df_alerts_settings alerts;
    struct df_retention_settings retention;
    struct df_backup_settings backup;
    struct df_relay_settings *relays; /* [relay.NAME], in the order of first appearance */
    size_t relay_count;
    struct df_integration_settings *integrations; /* [integration.NAME], likewise */
    size_t integration_count;
};

extern const struct df_config_table df_settings_table;

/*
 * Loads from file, environment and --set, fills in values that depend on other keys, and checks
 * keys against each other (a certificate without its key, a gateway without its API key).
 * Complaints and warnings as in df_config_load.
 */
enum df_code df_settings_load(const struct df_config_sources *src, struct df_settings *s,
                              struct df_buf *complaints) DF_MUST_CHECK;
void df_settings_release(struct df_settings *s);

/* Complains of everything that require_tls, if it is on, does not allow. */
void df_settings_check_tls(const struct df_settings *s, struct df_buf *complaints);

struct df_json_out;
/* The names of the process's roles as a JSON array. */
void df_settings_write_roles(const struct df_settings *s, struct df_json_out *out);

/* Adds a section [integration.NAME] with base_url and the defaults. */
void df_settings_add_integration(struct df_settings *s, const char *name, const char *base_url);

#endif

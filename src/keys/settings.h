/* The keys of section [security] that say where the master key is. */
#ifndef DF_KEYS_SETTINGS_H
#define DF_KEYS_SETTINGS_H

#include "base/config.h"

struct df_vault_settings {
    int64_t timeout_ms; /* of a call */
    const struct df_secret *vault_token;
    const char *vault_role_id; /* AppRole; NULL: by the token */
    const struct df_secret *vault_secret_id;
    const char *vault_role_mount;
    const char *vault_namespace; /* NULL: none */
    const char
        *azure_tenant_id; /* with the next two: a client secret; else the machine's identity */
    const char *azure_client_id;
    const struct df_secret *azure_client_secret;
    const char *azure_login_url;
    const char *azure_identity_url;                /* NULL: that of a virtual machine */
    const struct df_secret *azure_identity_header; /* of App Service; NULL: none */
};

struct df_keys_settings {
    /* A key, or where one is (keys/master.h). NULL: a key of this host's own, in data_dir. */
    const struct df_secret *master_key;
    const struct df_secret *master_old_key; /* still opens data keys; NULL: none */
    struct df_vault_settings vault;
};

extern const struct df_config_key df_master_key_keys[]; /* of [security] */
extern const struct df_config_key df_vault_keys[];      /* of [security], too */

void df_keys_check_settings(const struct df_keys_settings *s, struct df_buf *complaints);

#endif

#include "keys/settings.h"

#include "keys/vault.h"

#define S struct df_keys_settings

/* clang-format off */
const struct df_config_key df_master_key_keys[] = {
    DF_KEY_SECRET("master_key", S, master_key, "Master key, under which the data keys are stored: 32 bytes as 64 hexadecimal digits or in base64, credential:NAME (a systemd credential), or a place in a vault (vault://, azurekv://). Without it one is made in data_dir, for this host only."),
    DF_KEY_SECRET("master_old_key", S, master_old_key, "The previous master key: data keys under it are wrapped anew with the new one at start."),
    {.key = NULL},
};

#define V struct df_vault_settings

const struct df_config_key df_vault_keys[] = {
    DF_KEY_INT_IN(DF_SECONDS, "vault_timeout_seconds", V, timeout_ms, "10", 1, 300, "Longest time for one call to a vault."),
    DF_KEY_SECRET("vault_token", V, vault_token, "Token for vault://, unless vault_role_id is set."),
    DF_KEY_OPTIONAL("vault_role_id", V, vault_role_id, "AppRole for vault://: its role id."),
    DF_KEY_SECRET("vault_secret_id", V, vault_secret_id, "AppRole for vault://: its secret id."),
    DF_KEY_STRING("vault_role_mount", V, vault_role_mount, "approle", "Where AppRole is mounted in the vault."),
    DF_KEY_OPTIONAL("vault_namespace", V, vault_namespace, "Namespace of the vault, for vault://."),
    DF_KEY_OPTIONAL("azure_tenant_id", V, azure_tenant_id, "Tenant of the application that may use the key of azurekv://."),
    DF_KEY_OPTIONAL("azure_client_id", V, azure_client_id, "The application's client id; without azure_client_secret, that of a managed identity."),
    DF_KEY_SECRET("azure_client_secret", V, azure_client_secret, "The application's client secret. Without it the machine's managed identity is used."),
    DF_KEY_STRING("azure_login_url", V, azure_login_url, "https://login.microsoftonline.com", "Where tokens for a client secret come from; another one in sovereign clouds."),
    DF_KEY_OPTIONAL("azure_identity_url", V, azure_identity_url, "Where a managed identity's tokens come from, if not from 169.254.169.254: IDENTITY_ENDPOINT on App Service."),
    DF_KEY_SECRET("azure_identity_header", V, azure_identity_header, "IDENTITY_HEADER on App Service."),
    {.key = NULL},
};
/* clang-format on */

static void check_key(const char *name, const struct df_secret *text, struct df_buf *complaints)
{
    if (text && !df_master_is_valid(df_secret_str(text)))
        df_buf_addf(complaints,
                    "[security] %s must be a key of 32 bytes as 64 hexadecimal digits or in base64 "
                    "(openssl rand -hex 32), or name a place of one (docs/keys.md)\n",
                    name);
}

void df_keys_check_settings(const struct df_keys_settings *s, struct df_buf *complaints)
{
    check_key("master_key", s->master_key, complaints);
    check_key("master_old_key", s->master_old_key, complaints);
    df_vault_check_settings(s, complaints);
    if (s->master_old_key && !s->master_key)
        df_buf_addz(complaints, "[security] master_old_key is set and master_key is not\n");
}

/*
 * Where a vault keeps the master key, as security.master_key names it:
 *
 *     vault://HOST[:PORT]/MOUNT/data/PATH#FIELD    KV v2: the key itself
 *     vault://HOST[:PORT]/MOUNT/keys/NAME          Transit: a key that wraps
 *     azurekv://NAME.vault.azure.net/KEY[/VERSION] Azure Key Vault: a key that wraps
 *
 * vault+http:// and azurekv+http:// speak without TLS, to this machine only. Texts are made of
 * characters that need no escaping in a URL or in JSON.
 */
#ifndef DF_KEYS_VAULT_PLACE_H
#define DF_KEYS_VAULT_PLACE_H

#include "base/arena.h"
#include "base/err.h"

enum df_vault_kind { DF_VAULT_KV, DF_VAULT_TRANSIT, DF_VAULT_AZURE };

/* Absent members do not belong to the kind. Memory: the arena. */
struct df_vault_place {
    enum df_vault_kind kind;
    struct df_str root; /* "https://host:port" */
    struct df_str host; /* "host" or "host:port", for the key's name in the database */
    struct df_str mount;
    struct df_str path;     /* KV */
    struct df_str field;    /* KV */
    struct df_str name;     /* Transit, Azure: the key's */
    struct df_str version;  /* Azure; absent: the newest */
    struct df_str resource; /* Azure: what tokens are for, "https://vault.azure.net" */
};

/* Whether the text names a vault: its scheme is one of the four. */
bool df_is_vault_place(struct df_str text);
bool df_is_azure_place(struct df_str text);
/* DF_E_CONFIG, with the reason. */
enum df_code df_vault_place_parse(struct df_str text, struct df_arena *a,
                                  struct df_vault_place *ret, struct df_err *err) DF_MUST_CHECK;

#endif

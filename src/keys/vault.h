/*
 * Masters that are in a vault: HashiCorp Vault or OpenBao (vault.c), Azure Key Vault (azure.c).
 * keys/vault_place.h says how they are named. From Vault's KV v2 the key itself is read, once; keys
 * of Transit and of Azure never leave the vault, which wraps and unwraps.
 *
 * What is wrapped is the data key followed by its label, so that a wrapped key is of no use in
 * another row, whatever the vault can do.
 *
 * Every failure of the vault is DF_E_UNAVAILABLE with a reason that says what to do, wrong
 * permissions too: they may come later. DF_E_CONFIG: the wrapped bytes are not this key's.
 *
 * Any thread may wrap and unwrap; each call of them is one or a few HTTP requests.
 */
#ifndef DF_KEYS_VAULT_H
#define DF_KEYS_VAULT_H

#include "keys/master.h"

/* Whether a value of security.master_key names a place in a vault. */
bool df_vault_is_valid(struct df_str place);
/* What is missing or does not fit, a line each: "[security] name: why". */
void df_vault_check_settings(const struct df_keys_settings *s, struct df_buf *complaints);

enum df_code df_vault_open(const struct df_master_options *opt, struct df_str place,
                           struct df_master **ret, struct df_err *err) DF_MUST_CHECK;
enum df_code df_azure_open(const struct df_master_options *opt, struct df_str place,
                           struct df_master **ret, struct df_err *err) DF_MUST_CHECK;

/* --- what both share --- */

#include "keys/remote.h"
#include "keys/vault_place.h"

#define DF_LABEL_MAX 64
#define DF_TOKEN_MAX 8000 /* those of Azure have about 2000 characters */
/* A path for df_remote_text. */
#define DF_PATH(...) ((const char *const[]){__VA_ARGS__, NULL})

/* A data key and its label. df_wipe() it after use. */
struct df_labelled {
    unsigned char bytes[DF_KEY_BYTES + DF_LABEL_MAX];
    size_t len;
};

void df_labelled_join(const unsigned char key[DF_KEY_BYTES], struct df_str label,
                      struct df_labelled *ret);
/* DF_E_CONFIG: there is another label, or none. */
enum df_code df_labelled_split(const struct df_labelled *in, struct df_str label,
                               unsigned char key[DF_KEY_BYTES], struct df_err *err) DF_MUST_CHECK;

/* A request and its answer. */
struct df_exchange {
    struct df_remote_call call;
    struct df_arena arena;
    struct df_buf body;
    const struct df_json *json;
    char token[DF_TOKEN_MAX];
};

void df_exchange_init(struct df_exchange *x);
/* Wipes it. */
void df_exchange_release(struct df_exchange *x);
/* Sends the body, if there is one, and reads the answer's JSON. */
enum df_code df_exchange_send(const struct df_remote_options *opt, struct df_exchange *x,
                              struct df_err *err) DF_MUST_CHECK;

struct df_remote_options df_vault_remote(const struct df_master_options *opt);
/* A token that has been read from an answer: how long it counts. */
int64_t df_vault_seconds(const struct df_json *object, const char *name);

#endif

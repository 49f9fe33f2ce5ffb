/* What the vaults share: the form of what is wrapped, and how calls are made. */
#include "keys/vault.h"

#include "net/settings.h"
#include "net/url.h"

#include <assert.h>

#define BODY_MAX 16384
#define WORD     "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./"

void df_labelled_join(const unsigned char key[DF_KEY_BYTES], struct df_str label,
                      struct df_labelled *ret)
{
    assert(label.len <= DF_LABEL_MAX);
    memcpy(ret->bytes, key, DF_KEY_BYTES);
    memcpy(ret->bytes + DF_KEY_BYTES, label.ptr, label.len);
    ret->len = DF_KEY_BYTES + label.len;
}

enum df_code df_labelled_split(const struct df_labelled *in, struct df_str label,
                               unsigned char key[DF_KEY_BYTES], struct df_err *err)
{
    if (in->len != DF_KEY_BYTES + label.len ||
        memcmp(in->bytes + DF_KEY_BYTES, label.ptr, label.len) != 0)
        return df_err_set(err, DF_E_CONFIG,
                          "the vault unwrapped something else: the row of DataKeys was changed, or "
                          "moved");
    memcpy(key, in->bytes, DF_KEY_BYTES);
    return DF_OK;
}

void df_exchange_init(struct df_exchange *x)
{
    memset(x, 0, sizeof *x);
    df_arena_init(&x->arena);
    df_buf_init(&x->body, BODY_MAX);
    (void)df_buf_grow(&x->body, BODY_MAX); /* once: copies could not be wiped */
}

void df_exchange_release(struct df_exchange *x)
{
    df_wipe(x->token, sizeof x->token);
    df_wipe(x->body.ptr, x->body.len);
    df_buf_release(&x->body);
    df_remote_release(&x->call);
    df_arena_release(&x->arena);
}

enum df_code df_exchange_send(const struct df_remote_options *opt, struct df_exchange *x,
                              struct df_err *err)
{
    x->json = NULL;
    x->call.body = df_buf_str(&x->body);
    enum df_code code = df_remote_send(opt, &x->call, err);
    return code == DF_OK ? df_remote_json(&x->call, &x->arena, &x->json, err) : code;
}

struct df_remote_options df_vault_remote(const struct df_master_options *opt)
{
    return (struct df_remote_options){.timeout_ms = opt->settings->vault.timeout_ms,
                                      .stopped = opt->stopped};
}

int64_t df_vault_seconds(const struct df_json *object, const char *name)
{
    const struct df_json *v = object ? df_json_get(object, name) : NULL;
    int64_t seconds = 0;

    if (!v || !df_json_to_i64(v, &seconds) || seconds < 0)
        return 0;
    return seconds < INT32_MAX ? seconds : INT32_MAX;
}

/* --- settings --- */

bool df_vault_is_valid(struct df_str place)
{
    struct df_err err = DF_ERR_INIT;
    struct df_arena arena;
    struct df_vault_place parsed;

    df_arena_init(&arena);
    bool valid = df_vault_place_parse(place, &arena, &parsed, &err) == DF_OK;
    df_arena_release(&arena);
    return valid;
}

/* Says why a place is none, and what else it needs. */
static void check_place(const char *name, const struct df_secret *value,
                        const struct df_vault_settings *v, struct df_buf *complaints)
{
    struct df_str text = df_secret_str(value);
    struct df_err err = DF_ERR_INIT;
    struct df_arena arena;
    struct df_vault_place place;

    if (!value || !df_is_vault_place(text))
        return;
    df_arena_init(&arena);
    if (df_vault_place_parse(text, &arena, &place, &err) != DF_OK)
        df_buf_addf(complaints, "[security] %s: %s\n", name, err.detail);
    df_arena_release(&arena);
    if (!df_is_azure_place(text) && !v->vault_token && !v->vault_role_id)
        df_buf_addf(complaints,
                    "[security] %s is in a vault: set vault_token_file, or vault_role_id and "
                    "vault_secret_id_file\n",
                    name);
}

/* It becomes part of a URL. */
static void check_word(const char *name, const char *word, struct df_buf *complaints)
{
    if (word && strspn(word, WORD) != strlen(word))
        df_buf_addf(complaints,
                    "[security] %s: must be of letters, digits, '-', '_', '.' and '/'\n", name);
}

static bool is_link_local(struct df_str host)
{
    return df_str_starts(host, DF_STR("169.254.")) && strspn(host.ptr, "0123456789.") >= host.len;
}

/* Secrets go there. The identity service of a machine is beside it, at an address that no router
 * passes on, and has no certificate. */
static void check_url(const char *name, const char *text, bool beside, struct df_buf *complaints)
{
    struct df_err err = DF_ERR_INIT;
    struct df_url url;

    df_net_check_url("security", name, df_str_c(text), complaints);
    if (!text || df_url_parse(df_str_c(text), &url, &err) != DF_OK || url.tls ||
        df_host_is_loopback(url.host) || (beside && is_link_local(url.host)))
        return;
    df_buf_addf(complaints, "[security] %s: must be https\n", name);
}

void df_vault_check_settings(const struct df_keys_settings *s, struct df_buf *complaints)
{
    const struct df_vault_settings *v = &s->vault;

    check_place("master_key", s->master_key, v, complaints);
    check_place("master_old_key", s->master_old_key, v, complaints);
    if (!v->vault_role_id != !v->vault_secret_id)
        df_buf_addz(complaints, "[security] vault_role_id and vault_secret_id: set both or none\n");
    if (v->azure_client_secret && (!v->azure_tenant_id || !v->azure_client_id))
        df_buf_addz(complaints, "[security] azure_client_secret needs azure_tenant_id and "
                                "azure_client_id\n");
    check_word("vault_role_mount", v->vault_role_mount, complaints);
    check_word("azure_tenant_id", v->azure_tenant_id, complaints);
    check_url("azure_login_url", v->azure_login_url, false, complaints);
    check_url("azure_identity_url", v->azure_identity_url, true, complaints);
}

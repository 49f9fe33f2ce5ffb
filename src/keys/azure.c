/*
 * Azure Key Vault, api-version 7.4: wrapkey and unwrapkey with RSA-OAEP-256. The version of the key
 * that wrapped is needed to unwrap, so it stands before the wrapped bytes: "VERSION:" and the text
 * in base64url that the vault gave. Without a version in the place, the newest is asked for.
 *
 * The token comes from Entra ID for a client secret, or from the identity of the machine.
 */
#include "keys/vault.h"

#include "base/lock.h"
#include "base/mem.h"
#include "json/write.h"

#include <ctype.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>

#define API       "api-version=7.4"
#define ALGORITHM "RSA-OAEP-256"
#define IDENTITY  "http://169.254.169.254/metadata/identity/oauth2/token"
#define EARLY_MS  300000 /* a token is not used in its last five minutes */
#define LEAST_MS  10000

struct azure {
    struct df_master base;
    struct df_arena arena; /* of `place` */
    struct df_vault_place place;
    struct df_vault_settings settings;
    struct df_remote_options remote;
    const struct df_clock *clock;
    struct df_mutex lock;
    struct df_secret *token DF_GUARDED_BY(lock);
    int64_t token_until_ms DF_GUARDED_BY(lock); /* monotonic */
};

/* --- the token --- */

static void add_form(struct df_buf *b, const char *name, struct df_str value)
{
    df_buf_addf(b, "%s%s=", b->len > 0 ? "&" : "", name);
    for (size_t i = 0; i < value.len; i++) {
        unsigned char c = (unsigned char)value.ptr[i];
        if (isalnum(c) || strchr("-._~", c))
            df_buf_addc(b, (char)c);
        else
            df_buf_addf(b, "%%%02X", c);
    }
}

static void ask_entra(const struct azure *z, struct df_exchange *x)
{
    struct df_str scope =
        df_arena_printf(&x->arena, DF_STR_FMT "/.default", DF_STR_ARG(z->place.resource));

    x->call.url = df_arena_printf(&x->arena, "%s/%s/oauth2/v2.0/token", z->settings.azure_login_url,
                                  z->settings.azure_tenant_id)
                      .ptr;
    x->call.content_type = "application/x-www-form-urlencoded";
    add_form(&x->body, "grant_type", DF_STR("client_credentials"));
    add_form(&x->body, "client_id", df_str_c(z->settings.azure_client_id));
    add_form(&x->body, "client_secret", df_secret_str(z->settings.azure_client_secret));
    add_form(&x->body, "scope", scope);
}

/* A machine's metadata service, or that of App Service, which wants a header of its own. */
static void ask_identity(const struct azure *z, struct df_exchange *x)
{
    const char *given = z->settings.azure_identity_url;
    struct df_str header = df_secret_str(z->settings.azure_identity_header);
    struct df_buf query;

    df_buf_init(&query, 1024);
    add_form(&query, "api-version", header.ptr ? DF_STR("2019-08-01") : DF_STR("2018-02-01"));
    add_form(&query, "resource", z->place.resource);
    if (z->settings.azure_client_id)
        add_form(&query, "client_id", df_str_c(z->settings.azure_client_id));
    x->call.url = df_arena_printf(&x->arena, "%s?" DF_STR_FMT, given ? given : IDENTITY,
                                  DF_STR_ARG(df_buf_str(&query)))
                      .ptr;
    x->call.direct = true;
    x->call.headers[0].name = "Metadata";
    x->call.headers[0].value = header.ptr ? DF_STR_NULL : DF_STR("true");
    x->call.headers[1].name = "X-IDENTITY-HEADER";
    x->call.headers[1].value = header;
    df_buf_release(&query);
}

/* error_description begins with the number that people look up ("AADSTS7000215: …"). */
static enum df_code no_token(struct df_exchange *x, const char *who, struct df_err *err)
{
    struct df_str error = df_remote_text(x->json, DF_PATH("error"));
    struct df_str text = df_remote_text(x->json, DF_PATH("error_description"));

    return df_err_set(err, DF_E_UNAVAILABLE,
                      "%s gives no token (%u, " DF_STR_FMT ": " DF_STR_FMT ")", who, x->call.status,
                      DF_STR_ARG(df_remote_quote(error, &x->arena)),
                      DF_STR_ARG(df_remote_quote(text, &x->arena)));
}

static enum df_code fetch_token(struct azure *z, struct df_err *err)
{
    bool secret = z->settings.azure_client_secret != NULL;
    struct df_exchange x;

    df_exchange_init(&x);
    if (secret)
        ask_entra(z, &x);
    else
        ask_identity(z, &x);
    enum df_code code = df_exchange_send(&z->remote, &x, err);
    struct df_str token =
        code == DF_OK ? df_remote_text(x.json, DF_PATH("access_token")) : DF_STR_NULL;
    if (code == DF_OK && (x.call.status != 200 || token.len == 0 || token.len > DF_TOKEN_MAX - 8))
        code = no_token(&x, secret ? "Entra ID" : "The identity service of this machine", err);
    if (code == DF_OK) {
        int64_t lasts_ms = df_vault_seconds(x.json, "expires_in") * 1000 - EARLY_MS;
        struct df_secret *fetched = df_secret_new(token);
        df_lock(&z->lock);
        struct df_secret *old = z->token;
        z->token = fetched;
        z->token_until_ms = df_mono_ms(z->clock) + (lasts_ms > LEAST_MS ? lasts_ms : LEAST_MS);
        df_unlock(&z->lock);
        df_secret_free(old);
    }
    df_exchange_release(&x);
    return code;
}

/* Writes "Bearer …" into the exchange, with a token that still counts. */
static enum df_code take_token(struct azure *z, struct df_exchange *x, struct df_err *err)
{
    df_lock(&z->lock);
    bool counts = z->token && df_mono_ms(z->clock) < z->token_until_ms;
    df_unlock(&z->lock);
    enum df_code code = counts ? DF_OK : fetch_token(z, err);
    if (code != DF_OK)
        return code;
    df_lock(&z->lock);
    int len = snprintf(x->token, sizeof x->token, "Bearer %s", df_secret_str(z->token).ptr);
    df_unlock(&z->lock);
    x->call.headers[0].name = "Authorization";
    x->call.headers[0].value = df_str_n(x->token, (size_t)len);
    return DF_OK;
}

static void forget_token(struct azure *z)
{
    df_lock(&z->lock);
    z->token_until_ms = 0;
    df_unlock(&z->lock);
}

/* --- the key --- */

static enum df_code explain_refusal(const struct azure *z, struct df_exchange *x, const char *what,
                                    struct df_err *err)
{
    struct df_str name =
        df_remote_quote(df_remote_text(x->json, DF_PATH("error", "code")), &x->arena);
    struct df_str why =
        df_remote_quote(df_remote_text(x->json, DF_PATH("error", "message")), &x->arena);
    unsigned status = x->call.status;
    const char *advice = status == 401   ? ": the vault does not take the token: check the tenant"
                         : status == 403 ? ": allow get, wrapKey and unwrapKey on the key"
                         : status == 404 ? ": check the vault's, the key's and the version's name"
                         : status == 429 ? ": the vault limits its rate"
                                         : "";
    return df_err_set(err, DF_E_UNAVAILABLE, "%s does not %s (%u " DF_STR_FMT ", " DF_STR_FMT ")%s",
                      z->base.place, what, status, DF_STR_ARG(name), DF_STR_ARG(why), advice);
}

/* GET without a body, else POST. A token that is refused is fetched again, once. */
static enum df_code ask_vault(struct azure *z, struct df_exchange *x, struct df_str version,
                              const char *operation, struct df_err *err)
{
    bool posts = x->body.len > 0;
    struct df_str url = df_arena_printf(
        &x->arena, DF_STR_FMT "/keys/" DF_STR_FMT "%s" DF_STR_FMT "%s%s?" API,
        DF_STR_ARG(z->place.root), DF_STR_ARG(z->place.name), version.len > 0 ? "/" : "",
        DF_STR_ARG(version), posts ? "/" : "", posts ? operation : "");
    enum df_code code = DF_OK;

    x->call.url = url.ptr;
    x->call.content_type = posts ? "application/json" : NULL;
    for (int attempt = 0; attempt < 2 && code == DF_OK; attempt++) {
        code = take_token(z, x, err);
        if (code == DF_OK)
            code = df_exchange_send(&z->remote, x, err);
        if (code != DF_OK || x->call.status != 401)
            break;
        forget_token(z);
    }
    return code == DF_OK && x->call.status != 200 ? explain_refusal(z, x, operation, err) : code;
}

/* The version in a key's id: https://NAME.vault.azure.net/keys/KEY/VERSION. It becomes part of a
 * URL, so it is checked. */
static enum df_code read_version(const struct azure *z, struct df_str kid, struct df_arena *a,
                                 struct df_str *ret, struct df_err *err)
{
    const char *slash = kid.len > 0 ? memrchr(kid.ptr, '/', kid.len) : NULL;
    struct df_str version =
        slash ? df_str_n(slash + 1, kid.len - (size_t)(slash + 1 - kid.ptr)) : DF_STR_NULL;

    for (size_t i = 0; i < version.len; i++)
        if (!isalnum((unsigned char)version.ptr[i]))
            version = DF_STR_NULL;
    if (version.len == 0 || version.len > 64)
        return df_err_set(err, DF_E_UNAVAILABLE, "%s: the answer names no version of the key",
                          z->base.place);
    *ret = df_arena_str(a, version);
    return DF_OK;
}

static enum df_code newest_version(struct azure *z, struct df_arena *a, struct df_str *ret,
                                   struct df_err *err)
{
    struct df_exchange x;

    if (z->place.version.ptr) {
        *ret = z->place.version;
        return DF_OK;
    }
    df_exchange_init(&x);
    enum df_code code = ask_vault(z, &x, DF_STR_NULL, "get", err);
    if (code == DF_OK)
        code = read_version(z, df_remote_text(x.json, DF_PATH("key", "kid")), a, ret, err);
    df_exchange_release(&x);
    return code;
}

/* Sends {"alg", "value"} to a version of the key; *ret is the value of the answer, in x. */
static enum df_code use_key(struct azure *z, struct df_exchange *x, struct df_str version,
                            const char *operation, struct df_str value, struct df_str *ret,
                            struct df_err *err)
{
    struct df_json_out json;

    df_json_out_init(&json, &x->body);
    df_json_open(&json, '{');
    df_json_kv_text(&json, "alg", DF_STR(ALGORITHM));
    df_json_kv_text(&json, "value", value);
    df_json_close(&json, '}');
    enum df_code code = ask_vault(z, x, version, operation, err);
    if (code != DF_OK)
        return code;
    *ret = df_remote_text(x->json, DF_PATH("value"));
    if (ret->len == 0)
        return df_err_set(err, DF_E_UNAVAILABLE, "%s: the answer to %s has no value", z->base.place,
                          operation);
    return DF_OK;
}

static enum df_code wrap_azure(struct df_master *m, struct df_str label,
                               const unsigned char key[DF_KEY_BYTES], struct df_buf *out,
                               struct df_err *err)
{
    struct azure *z = (struct azure *)m;
    char text[sodium_base64_ENCODED_LEN(sizeof(((struct df_labelled *)0)->bytes),
                                        sodium_base64_VARIANT_URLSAFE)];
    struct df_str version, wrapped;
    struct df_labelled plain;
    struct df_exchange x;

    df_labelled_join(key, label, &plain);
    (void)sodium_bin2base64(text, sizeof text, plain.bytes, plain.len,
                            sodium_base64_VARIANT_URLSAFE_NO_PADDING);
    df_exchange_init(&x);
    enum df_code code = newest_version(z, &x.arena, &version, err);
    if (code == DF_OK)
        code = use_key(z, &x, version, "wrapkey", df_str_c(text), &wrapped, err);
    if (code == DF_OK)
        df_buf_addf(out, DF_STR_FMT ":" DF_STR_FMT, DF_STR_ARG(version), DF_STR_ARG(wrapped));
    df_exchange_release(&x);
    df_wipe(text, sizeof text);
    df_wipe(&plain, sizeof plain);
    return code;
}

static enum df_code unwrap_azure(struct df_master *m, struct df_str label, struct df_str wrapped,
                                 unsigned char key[DF_KEY_BYTES], struct df_err *err)
{
    struct azure *z = (struct azure *)m;
    struct df_labelled plain = {.len = 0};
    struct df_str version, text = DF_STR_NULL;
    struct df_exchange x;

    df_exchange_init(&x);
    struct df_str value = df_str_cut(wrapped, ':', &version);
    enum df_code code = read_version(
        z, df_arena_printf(&x.arena, "/" DF_STR_FMT, DF_STR_ARG(version)), &x.arena, &version, err);
    if (code != DF_OK || value.len == 0)
        code = df_err_set(err, DF_E_CONFIG, "its wrapped bytes in DataKeys are not of %s",
                          z->base.place);
    if (code == DF_OK)
        code = use_key(z, &x, version, "unwrapkey", value, &text, err);
    if (code != DF_OK && x.call.status == 400)
        code = df_err_set(err, DF_E_CONFIG, "%s", err ? err->detail : "");
    if (code == DF_OK &&
        sodium_base642bin(plain.bytes, sizeof plain.bytes, text.ptr, text.len, NULL, &plain.len,
                          NULL, sodium_base64_VARIANT_URLSAFE_NO_PADDING) != 0)
        plain.len = 0;
    if (code == DF_OK)
        code = df_labelled_split(&plain, label, key, err);
    df_exchange_release(&x);
    df_wipe(&plain, sizeof plain);
    return code;
}

static struct df_str version_of(struct df_str wrapped)
{
    struct df_str version;

    (void)df_str_cut(wrapped, ':', &version);
    return version;
}

/* --- start and end --- */

static void free_azure(struct df_master *m)
{
    struct azure *z = (struct azure *)m;

    df_secret_free(z->token);
    df_arena_release(&z->arena);
    df_mutex_destroy(&z->lock);
    free(z);
}

static const struct df_master_ops azure_ops = {
    .wrap = wrap_azure, .unwrap = unwrap_azure, .version = version_of, .free = free_azure};

enum df_code df_azure_open(const struct df_master_options *opt, struct df_str place,
                           struct df_master **ret, struct df_err *err)
{
    struct azure *z = df_calloc(1, sizeof *z);

    z->base.ops = &azure_ops;
    z->settings = opt->settings->vault;
    z->remote = df_vault_remote(opt);
    z->clock = opt->clock;
    df_mutex_init(&z->lock);
    df_arena_init(&z->arena);
    (void)snprintf(z->base.place, sizeof z->base.place, DF_STR_FMT, DF_STR_ARG(place));
    enum df_code code = df_vault_place_parse(place, &z->arena, &z->place, err);
    if (code == DF_OK)
        code = fetch_token(z, err);
    if (code != DF_OK) {
        free_azure(&z->base);
        return code;
    }
    (void)snprintf(z->base.id, sizeof z->base.id, "azurekv:" DF_STR_FMT "/" DF_STR_FMT,
                   DF_STR_ARG(z->place.host), DF_STR_ARG(z->place.name));
    *ret = &z->base;
    return DF_OK;
}

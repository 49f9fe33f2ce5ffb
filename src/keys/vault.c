/*
 * HashiCorp Vault and OpenBao. The token is given, or comes from an AppRole. A token ends, so it is
 * renewed when two thirds of its time are over (tend_vault); if that fails, or a call is refused
 * with it, the AppRole logs in again.
 */
#include "keys/vault.h"

#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"
#include "json/write.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>

#define RENEW_AGAIN_MS 30000 /* after a renewal that failed */

struct vault {
    struct df_master base;
    struct df_arena arena; /* of `place` */
    struct df_vault_place place;
    struct df_vault_settings settings;
    struct df_remote_options remote;
    const struct df_clock *clock;
    struct df_mutex lock;
    struct df_secret *token DF_GUARDED_BY(lock);
    int64_t tend_at_ms DF_GUARDED_BY(lock); /* monotonic */
};

/* --- refusals --- */

static struct df_str first_error(struct df_exchange *x)
{
    struct df_json_each each = df_json_each(x->json ? df_json_get(x->json, "errors") : NULL);
    const struct df_json *e = df_json_next(&each);

    return e && e->type == DF_JSON_STRING ? df_remote_quote(e->text, &x->arena)
                                          : DF_STR("no reason given");
}

static bool mentions(struct df_str text, const char *word)
{
    return memmem(text.ptr, text.len, word, strlen(word)) != NULL;
}

/* What a status that is no success means for somebody who must put it right. */
static enum df_code explain_refusal(const struct vault *v, struct df_exchange *x, const char *what,
                                    struct df_err *err)
{
    struct df_str why = first_error(x);
    unsigned status = x->call.status;

    if (status == 503 && mentions(why, "sealed"))
        return df_err_set(err, DF_E_UNAVAILABLE, "%s is sealed: unseal it", v->base.place);
    if (status == 429)
        return df_err_set(err, DF_E_UNAVAILABLE,
                          "%s limits its rate (429, " DF_STR_FMT "): raise the quota",
                          v->base.place, DF_STR_ARG(why));
    if (status == 403)
        return df_err_set(err, DF_E_UNAVAILABLE,
                          "%s refuses to %s (403, " DF_STR_FMT
                          "): the token has ended, or its policy does not allow it",
                          v->base.place, what, DF_STR_ARG(why));
    if (status == 404)
        return df_err_set(err, DF_E_UNAVAILABLE,
                          "%s: there is nothing to %s (404, " DF_STR_FMT
                          "): check mount, path and namespace",
                          v->base.place, what, DF_STR_ARG(why));
    return df_err_set(err, DF_E_UNAVAILABLE, "%s does not %s (%u, " DF_STR_FMT ")", v->base.place,
                      what, status, DF_STR_ARG(why));
}

/* --- calls --- */

/* Copied into the exchange. */
static struct df_str current_token(struct vault *v, struct df_exchange *x)
{
    df_lock(&v->lock);
    struct df_str token = df_secret_str(v->token);
    size_t len = token.len < DF_TOKEN_MAX ? token.len : DF_TOKEN_MAX;
    memcpy(x->token, token.ptr, len);
    df_unlock(&v->lock);
    return df_str_n(x->token, len);
}

/* DF_OK: x->json is the answer. */
static enum df_code send_once(struct vault *v, struct df_exchange *x, struct df_str path,
                              struct df_str token, const char *what, struct df_err *err)
{
    struct df_str url = df_arena_printf(&x->arena, DF_STR_FMT "/v1/" DF_STR_FMT,
                                        DF_STR_ARG(v->place.root), DF_STR_ARG(path));

    x->call.url = url.ptr;
    x->call.content_type = x->body.len > 0 ? "application/json" : NULL;
    x->call.headers[0].name = "X-Vault-Token";
    x->call.headers[0].value = token;
    x->call.headers[1].name = "X-Vault-Namespace";
    x->call.headers[1].value = df_str_c(v->settings.vault_namespace);
    x->call.headers[2].name = "X-Vault-Request";
    x->call.headers[2].value = DF_STR("true");
    enum df_code code = df_exchange_send(&v->remote, x, err);
    if (code == DF_OK && x->call.status != 200)
        code = explain_refusal(v, x, what, err);
    return code;
}

static bool by_role(const struct vault *v)
{
    return v->settings.vault_role_id != NULL;
}

/* When a token that lives so long is renewed. Its time runs from some moment after the request was
 * sent, so it is counted from there. */
static int64_t tend_at(int64_t sent_ms, int64_t ttl_s)
{
    return ttl_s > 0 ? sent_ms + ttl_s * 1000 * 2 / 3 : INT64_MAX;
}

/* Takes over the token of an answer, and plans its renewal. */
static enum df_code take_token(struct vault *v, const struct df_json *json, int64_t sent_ms,
                               struct df_err *err)
{
    const struct df_json *auth = df_json_get(json, "auth");
    struct df_str token = df_remote_text(json, DF_PATH("auth", "client_token"));
    int64_t ttl_s = df_vault_seconds(auth, "lease_duration");

    if (token.len == 0)
        return df_err_set(err, DF_E_UNAVAILABLE, "%s gave no token", v->base.place);
    struct df_secret *taken = df_secret_new(token);
    df_lock(&v->lock);
    struct df_secret *old = v->token;
    v->token = taken;
    v->tend_at_ms = tend_at(sent_ms, ttl_s);
    df_unlock(&v->lock);
    df_secret_free(old);
    return DF_OK;
}

static enum df_code log_in(struct vault *v, struct df_err *err)
{
    const char *mount = v->settings.vault_role_mount;
    struct df_exchange x;
    struct df_json_out json;

    df_exchange_init(&x);
    df_json_out_init(&json, &x.body);
    df_json_open(&json, '{');
    df_json_kv_text(&json, "role_id", df_str_c(v->settings.vault_role_id));
    df_json_kv_text(&json, "secret_id", df_secret_str(v->settings.vault_secret_id));
    df_json_close(&json, '}');
    int64_t sent_ms = df_mono_ms(v->clock);
    enum df_code code = send_once(v, &x, df_arena_printf(&x.arena, "auth/%s/login", mount),
                                  DF_STR_NULL, "log in (AppRole)", err);
    if (code == DF_OK)
        code = take_token(v, x.json, sent_ms, err);
    df_exchange_release(&x);
    return code;
}

/* Logs in again if the token may be why the call was refused. */
static enum df_code call_vault(struct vault *v, struct df_exchange *x, struct df_str path,
                               const char *what, struct df_err *err)
{
    enum df_code code = send_once(v, x, path, current_token(v, x), what, err);

    if (code == DF_OK || x->call.status != 403 || !by_role(v))
        return code;
    code = log_in(v, err);
    return code == DF_OK ? send_once(v, x, path, current_token(v, x), what, err) : code;
}

/* --- KV v2 --- */

static enum df_code read_kv(struct vault *v, struct df_master **ret, struct df_err *err)
{
    struct df_exchange x;

    df_exchange_init(&x);
    enum df_code code =
        call_vault(v, &x,
                   df_arena_printf(&x.arena, DF_STR_FMT "/data/" DF_STR_FMT,
                                   DF_STR_ARG(v->place.mount), DF_STR_ARG(v->place.path)),
                   "read the secret", err);
    if (code == DF_OK) {
        const char *field = df_arena_cstr(&x.arena, v->place.field);
        struct df_str key = df_remote_text(x.json, DF_PATH("data", "data", field));
        if (!key.ptr)
            code = df_err_set(err, DF_E_UNAVAILABLE, "%s: the secret has no text in field \"%s\"",
                              v->base.place, field);
        else
            code = df_master_given(v->clock, key, v->base.place, ret, err);
    }
    df_exchange_release(&x);
    return code;
}

/* --- Transit --- */

/* Sends {member: text} to an operation of the key. *ret is in x. */
static enum df_code transit(struct vault *v, struct df_exchange *x, const char *operation,
                            const char *member, struct df_str text, const char *answer,
                            struct df_str *ret, struct df_err *err)
{
    struct df_json_out json;

    df_json_out_init(&json, &x->body);
    df_json_open(&json, '{');
    df_json_kv_text(&json, member, text);
    df_json_close(&json, '}');
    enum df_code code = call_vault(v, x,
                                   df_arena_printf(&x->arena, DF_STR_FMT "/%s/" DF_STR_FMT,
                                                   DF_STR_ARG(v->place.mount), operation,
                                                   DF_STR_ARG(v->place.name)),
                                   operation, err);
    if (code != DF_OK)
        return code;
    *ret = df_remote_text(x->json, DF_PATH("data", answer));
    if (ret->len == 0)
        return df_err_set(err, DF_E_UNAVAILABLE, "%s: the answer to %s has no %s", v->base.place,
                          operation, answer);
    return DF_OK;
}

static enum df_code wrap_transit(struct df_master *m, struct df_str label,
                                 const unsigned char key[DF_KEY_BYTES], struct df_buf *out,
                                 struct df_err *err)
{
    struct vault *v = (struct vault *)m;
    char text[sodium_base64_ENCODED_LEN(sizeof(((struct df_labelled *)0)->bytes),
                                        sodium_base64_VARIANT_ORIGINAL)];
    struct df_labelled plain;
    struct df_str wrapped;
    struct df_exchange x;

    df_labelled_join(key, label, &plain);
    (void)sodium_bin2base64(text, sizeof text, plain.bytes, plain.len,
                            sodium_base64_VARIANT_ORIGINAL);
    df_exchange_init(&x);
    enum df_code code =
        transit(v, &x, "encrypt", "plaintext", df_str_c(text), "ciphertext", &wrapped, err);
    if (code == DF_OK && !df_str_starts(wrapped, DF_STR("vault:v")))
        code = df_err_set(err, DF_E_UNAVAILABLE, "%s: the answer is no ciphertext of Transit",
                          v->base.place);
    if (code == DF_OK)
        df_buf_adds(out, wrapped);
    df_exchange_release(&x);
    df_wipe(text, sizeof text);
    df_wipe(&plain, sizeof plain);
    return code;
}

static enum df_code unwrap_transit(struct df_master *m, struct df_str label, struct df_str wrapped,
                                   unsigned char key[DF_KEY_BYTES], struct df_err *err)
{
    struct vault *v = (struct vault *)m;
    struct df_labelled plain = {.len = 0};
    struct df_str text = DF_STR_NULL;
    struct df_exchange x;

    df_exchange_init(&x);
    enum df_code code = transit(v, &x, "decrypt", "ciphertext", wrapped, "plaintext", &text, err);
    if (code != DF_OK && x.call.status == 400)
        code = df_err_set(err, DF_E_CONFIG,
                          "%s does not decrypt it (400, " DF_STR_FMT
                          "): another key, or min_decryption_version is over its version",
                          v->base.place, DF_STR_ARG(first_error(&x)));
    if (code == DF_OK &&
        sodium_base642bin(plain.bytes, sizeof plain.bytes, text.ptr, text.len, NULL, &plain.len,
                          NULL, sodium_base64_VARIANT_ORIGINAL) != 0)
        plain.len = 0;
    if (code == DF_OK)
        code = df_labelled_split(&plain, label, key, err);
    df_exchange_release(&x);
    df_wipe(&plain, sizeof plain);
    return code;
}

/* "vault:v3" */
static struct df_str version_of(struct df_str wrapped)
{
    const char *colon = memrchr(wrapped.ptr, ':', wrapped.len);
    return colon ? df_str_n(wrapped.ptr, (size_t)(colon - wrapped.ptr)) : DF_STR_NULL;
}

/* --- the token's time --- */

/* A token that was given says nothing of its end until it is asked. */
static enum df_code look_up_token(struct vault *v, struct df_err *err)
{
    struct df_exchange x;

    df_exchange_init(&x);
    int64_t sent_ms = df_mono_ms(v->clock);
    enum df_code code = send_once(v, &x, DF_STR("auth/token/lookup-self"), current_token(v, &x),
                                  "use the token", err);
    if (code == DF_OK) {
        int64_t ttl_s = df_vault_seconds(df_json_get(x.json, "data"), "ttl");
        df_lock(&v->lock);
        v->tend_at_ms = tend_at(sent_ms, ttl_s);
        df_unlock(&v->lock);
    }
    df_exchange_release(&x);
    return code;
}

static enum df_code renew_token(struct vault *v, struct df_err *err)
{
    struct df_exchange x;

    df_exchange_init(&x);
    df_buf_addz(&x.body, "{}");
    int64_t sent_ms = df_mono_ms(v->clock);
    enum df_code code = send_once(v, &x, DF_STR("auth/token/renew-self"), current_token(v, &x),
                                  "renew the token", err);
    if (code == DF_OK)
        code = take_token(v, x.json, sent_ms, err);
    df_exchange_release(&x);
    return code;
}

static bool is_due(struct vault *v)
{
    df_lock(&v->lock);
    bool due = df_mono_ms(v->clock) >= v->tend_at_ms;
    df_unlock(&v->lock);
    return due;
}

static void tend_vault(struct df_master *m)
{
    struct vault *v = (struct vault *)m;
    struct df_err err = DF_ERR_INIT;

    if (!is_due(v))
        return;
    enum df_code code = renew_token(v, &err);
    if (code != DF_OK && code != DF_E_CANCELLED && by_role(v))
        code = log_in(v, &err);
    if (code == DF_OK || code == DF_E_CANCELLED)
        return;
    df_log_warn("MasterKeyTokenNotRenewed", "%s", err.detail);
    df_lock(&v->lock);
    v->tend_at_ms = df_mono_ms(v->clock) + RENEW_AGAIN_MS;
    df_unlock(&v->lock);
}

/* --- start and end --- */

static void free_vault(struct df_master *m)
{
    struct vault *v = (struct vault *)m;

    df_secret_free(v->token);
    df_arena_release(&v->arena);
    df_mutex_destroy(&v->lock);
    free(v);
}

static const struct df_master_ops transit_ops = {.wrap = wrap_transit,
                                                 .unwrap = unwrap_transit,
                                                 .version = version_of,
                                                 .tend = tend_vault,
                                                 .free = free_vault};

static enum df_code take_first_token(struct vault *v, struct df_err *err)
{
    if (by_role(v))
        return log_in(v, err);
    v->token = df_secret_new(df_secret_str(v->settings.vault_token));
    return v->place.kind == DF_VAULT_TRANSIT ? look_up_token(v, err) : DF_OK;
}

enum df_code df_vault_open(const struct df_master_options *opt, struct df_str place,
                           struct df_master **ret, struct df_err *err)
{
    struct vault *v = df_calloc(1, sizeof *v);

    v->base.ops = &transit_ops;
    v->settings = opt->settings->vault;
    v->remote = df_vault_remote(opt);
    v->clock = opt->clock;
    v->tend_at_ms = INT64_MAX;
    df_mutex_init(&v->lock);
    df_arena_init(&v->arena);
    (void)snprintf(v->base.place, sizeof v->base.place, DF_STR_FMT, DF_STR_ARG(place));
    enum df_code code = df_vault_place_parse(place, &v->arena, &v->place, err);
    if (code == DF_OK)
        code = take_first_token(v, err);
    if (code == DF_OK && v->place.kind == DF_VAULT_KV)
        code = read_kv(v, ret, err);
    if (code != DF_OK || v->place.kind == DF_VAULT_KV) {
        free_vault(&v->base);
        return code;
    }
    /* Without the host: a vault that moves is the same vault. */
    (void)snprintf(v->base.id, sizeof v->base.id, "vault:" DF_STR_FMT "/keys/" DF_STR_FMT,
                   DF_STR_ARG(v->place.mount), DF_STR_ARG(v->place.name));
    *ret = &v->base;
    return DF_OK;
}

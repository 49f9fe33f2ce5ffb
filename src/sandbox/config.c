#include "sandbox/internal.h"

#include "base/mem.h"
#include "net/field.h"
#include "net/url.h"

#include <stdlib.h>

#define DELAY_MAX_MS 3600000

static const char *const item_results[] = {"all", "errors", "none"};

/* --- where acks and callbacks go --- */

void df_sb_server_unref(struct df_sb_server *s)
{
    if (!s || atomic_fetch_sub(&s->refs, 1) != 1)
        return;
    free(s->url);
    free(s->client_id);
    df_secret_free(s->client_secret);
    free(s);
}

struct df_sb_server *df_sb_config_server(struct df_sb_config *c)
{
    df_lock(&c->lock);
    struct df_sb_server *s = c->server;
    if (s)
        atomic_fetch_add(&s->refs, 1);
    df_unlock(&c->lock);
    return s;
}

static enum df_code check_server(struct df_str url, struct df_str id, struct df_str secret,
                                 struct df_err *err)
{
    struct df_url parsed;
    enum df_code code = df_url_parse(url, &parsed, err);

    if (code != DF_OK)
        return code;
    if (memchr(parsed.rest.ptr, '?', parsed.rest.len) ||
        memchr(parsed.rest.ptr, '#', parsed.rest.len))
        return df_err_set(err, DF_E_BAD_REQUEST, "the server's URL has a query or a fragment");
    if (url.len > DF_URL_MAX / 2)
        return df_err_set(err, DF_E_BAD_REQUEST, "the server's URL is too long");
    if (!df_field_value_ok(id) || !df_field_value_ok(secret))
        return df_err_set(err, DF_E_BAD_REQUEST,
                          "the client's credentials have control characters");
    return DF_OK;
}

static enum df_code set_server(struct df_sb_config *c, struct df_str url, struct df_str id,
                               struct df_str secret, struct df_err *err)
{
    struct df_sb_server *fresh = NULL;

    if (url.len > 0) {
        enum df_code code = check_server(url, id, secret, err);
        if (code != DF_OK)
            return code;
        while (url.len > 0 && url.ptr[url.len - 1] == '/')
            url.len--;
        fresh = df_calloc(1, sizeof(*fresh));
        fresh->refs = 1;
        fresh->url = df_strdup(url);
        fresh->client_id = df_strdup(id.ptr ? id : DF_STR(""));
        fresh->client_secret = df_secret_new(secret.ptr ? secret : DF_STR(""));
    }
    df_lock(&c->lock);
    struct df_sb_server *old = c->server;
    c->server = fresh;
    df_unlock(&c->lock);
    df_sb_server_unref(old);
    return DF_OK;
}

/* --- start and end --- */

static bool parse_mode(struct df_str mode, bool *ret_async)
{
    *ret_async = df_str_ieq(mode, DF_STR("async"));
    return *ret_async || df_str_ieq(mode, DF_STR("sync"));
}

enum df_code df_sb_config_init(struct df_sb_config *c, const struct df_sandbox_options *opt,
                               struct df_err *err)
{
    *c = (struct df_sb_config){0};
    df_mutex_init(&c->lock);
    c->settings.ack_delay_ms = opt->ack_delay_ms;
    c->settings.callback_delay_ms = opt->callback_delay_ms;
    c->settings.webhook_tolerance_s = 300;
    memcpy(c->settings.callback_status, "Success", sizeof("Success"));
    c->secrets = df_calloc(DF_SB_SECRETS_MAX, sizeof(struct df_sb_path_secret));
    if (opt->mode && !parse_mode(df_str_c(opt->mode), &c->settings.async))
        return df_err_set(err, DF_E_CONFIG, "the sandbox's mode is sync or async");
    if (opt->ack_delay_ms < 0 || opt->ack_delay_ms > DELAY_MAX_MS || opt->callback_delay_ms < 0 ||
        opt->callback_delay_ms > DELAY_MAX_MS)
        return df_err_set(err, DF_E_CONFIG, "the sandbox's delays are 0 to %d ms", DELAY_MAX_MS);
    if (opt->webhook_secret && strlen(opt->webhook_secret) > DF_SB_SECRET_LEN)
        return df_err_set(err, DF_E_CONFIG, "a webhook's secret has at most %d characters",
                          DF_SB_SECRET_LEN);
    if (opt->webhook_secret && opt->webhook_secret[0])
        c->webhook_secret = df_secret_new(df_str_c(opt->webhook_secret));
    if (set_server(c, df_str_c(opt->server_url), df_str_c(opt->client_id),
                   df_str_c(opt->client_secret), err) == DF_OK)
        return DF_OK;
    if (err)
        err->code = DF_E_CONFIG;
    return DF_E_CONFIG;
}

static void free_secret(struct df_sb_path_secret *s)
{
    free(s->path);
    df_secret_free(s->secret);
    *s = (struct df_sb_path_secret){0};
}

void df_sb_config_release(struct df_sb_config *c)
{
    df_sb_server_unref(c->server);
    df_secret_free(c->webhook_secret);
    for (size_t i = 0; i < c->secret_count; i++)
        free_secret(&c->secrets[i]);
    free(c->secrets);
    df_mutex_destroy(&c->lock);
}

struct df_sb_settings df_sb_config_settings(struct df_sb_config *c)
{
    df_lock(&c->lock);
    struct df_sb_settings s = c->settings;
    df_unlock(&c->lock);
    return s;
}

/* --- secrets of webhooks --- */

static struct df_sb_path_secret *find_secret(struct df_sb_config *c, struct df_str path)
    DF_REQUIRES(c->lock)
{
    for (size_t i = 0; i < c->secret_count; i++)
        if (df_str_eq(path, df_str_c(c->secrets[i].path)))
            return &c->secrets[i];
    return NULL;
}

static void set_secret(struct df_sb_config *c, struct df_str path, struct df_str secret)
    DF_REQUIRES(c->lock)
{
    struct df_sb_path_secret *s = find_secret(c, path);

    if (!s && secret.ptr && c->secret_count < DF_SB_SECRETS_MAX) {
        s = &c->secrets[c->secret_count++];
        s->path = df_strdup(path);
    }
    if (!s)
        return;
    df_secret_free(s->secret);
    s->secret = df_secret_new(secret);
    if (!s->secret) {
        free_secret(s);
        *s = c->secrets[--c->secret_count];
        c->secrets[c->secret_count] = (struct df_sb_path_secret){0};
    }
}

size_t df_sb_config_secret(struct df_sb_config *c, struct df_str path, char out[DF_SB_SECRET_LEN])
{
    df_lock(&c->lock);
    const struct df_sb_path_secret *s = find_secret(c, path);
    struct df_str secret = df_secret_str(s ? s->secret : c->webhook_secret);
    if (secret.len > 0)
        memcpy(out, secret.ptr, secret.len);
    df_unlock(&c->lock);
    return secret.len;
}

/* --- GET and PUT /_config --- */

void df_sb_config_get(struct df_req *req)
{
    struct df_sandbox *s = df_req_route_arg(req);
    struct df_sb_config *c = &s->config;
    struct df_buf body;
    struct df_json_out out;

    df_buf_init(&body, 4 << 20);
    df_json_out_init(&out, &body);
    df_json_open(&out, '{');
    df_lock(&c->lock);
    df_json_kv_text(&out, "omniflow", c->settings.async ? DF_STR("async") : DF_STR("sync"));
    df_json_kv_int(&out, "ackDelayMs", c->settings.ack_delay_ms);
    df_json_kv_int(&out, "callbackDelayMs", c->settings.callback_delay_ms);
    df_json_kv_text(&out, "callbackStatus", df_str_c(c->settings.callback_status));
    df_json_kv_text(&out, "itemResults", df_str_c(item_results[c->settings.item_results]));
    df_json_kv_text(&out, "errorPhoneSuffix", df_str_c(c->settings.error_phone_suffix));
    df_json_kv_text(&out, "serverUrl", df_str_c(c->server ? c->server->url : NULL));
    df_json_kv_text(&out, "clientId", df_str_c(c->server ? c->server->client_id : NULL));
    df_json_kv_text(&out, "clientSecret",
                    c->server && df_secret_str(c->server->client_secret).len > 0 ? DF_STR("(set)")
                                                                                 : DF_STR_NULL);
    df_json_kv_int(&out, "webhookToleranceSeconds", c->settings.webhook_tolerance_s);
    df_json_kv_text(&out, "webhookSecret", c->webhook_secret ? DF_STR("(set)") : DF_STR_NULL);
    df_json_key(&out, "webhookSecrets");
    df_json_open(&out, '{');
    for (size_t i = 0; i < c->secret_count; i++) {
        df_json_key_str(&out, df_str_c(c->secrets[i].path));
        df_json_text(&out, DF_STR("(set)"));
    }
    df_json_close(&out, '}');
    df_unlock(&c->lock);
    df_json_close(&out, '}');
    df_req_answer(req, 200, DF_SB_JSON, &body);
}

struct change {
    struct df_sb_settings settings;
    const struct df_json *secrets;        /* NULL: unchanged */
    const struct df_json *webhook_secret; /* likewise */
    bool server;
    struct df_str url;
    struct df_str client_id;
    struct df_str client_secret;
};

static bool is_one_of(struct df_str s, const char *const *names, size_t count, int *ret)
{
    for (size_t i = 0; i < count; i++) {
        if (df_str_ieq(s, df_str_c(names[i]))) {
            *ret = (int)i;
            return true;
        }
    }
    return false;
}

static void read_words(struct df_input *in, struct df_sb_settings *s)
{
    static const char *const statuses[] = {"Success", "Error", "Warning"};
    struct df_str mode = df_input_text(in, "omniflow", 10, DF_OPTIONAL);
    struct df_str status = df_input_text(in, "callbackStatus", 10, DF_OPTIONAL);
    struct df_str results = df_input_text(in, "itemResults", 10, DF_OPTIONAL);
    struct df_str suffix = df_input_text(in, "errorPhoneSuffix", 20, DF_OPTIONAL);
    int i = 0;

    if (mode.ptr && !parse_mode(mode, &s->async))
        df_input_error(in, "omniflow", "must be sync or async");
    if (status.ptr && !is_one_of(status, statuses, 3, &i))
        df_input_error(in, "callbackStatus", "must be Success, Error or Warning");
    else if (status.ptr)
        memcpy(s->callback_status, statuses[i], strlen(statuses[i]) + 1);
    if (results.ptr && !is_one_of(results, item_results, 3, &i))
        df_input_error(in, "itemResults", "must be all, errors or none");
    else if (results.ptr)
        s->item_results = (enum df_sb_item_results)i;
    if (suffix.ptr && suffix.len < sizeof(s->error_phone_suffix)) {
        memcpy(s->error_phone_suffix, suffix.ptr, suffix.len);
        s->error_phone_suffix[suffix.len] = '\0';
    }
}

static void check_secret(struct df_input *in, const char *field, const struct df_json *v)
{
    if (v->type == DF_JSON_NULL)
        return;
    if (v->type != DF_JSON_STRING || v->text.len == 0 || v->text.len > DF_SB_SECRET_LEN)
        df_input_error(in, field, "must be text of 1 to %d bytes, or null", DF_SB_SECRET_LEN);
}

static void read_secrets(struct df_input *in, struct change *ch)
{
    ch->webhook_secret = df_json_get(in->object, "webhookSecret");
    ch->secrets = df_json_get(in->object, "webhookSecrets");
    if (ch->webhook_secret)
        check_secret(in, "webhookSecret", ch->webhook_secret);
    if (!ch->secrets)
        return;
    if (ch->secrets->type != DF_JSON_OBJECT || df_json_count(ch->secrets) > DF_SB_SECRETS_MAX) {
        df_input_error(in, "webhookSecrets", "must be an object of paths and their secrets");
        return;
    }
    struct df_json_each each = df_json_each(ch->secrets);
    for (const struct df_json *v; (v = df_json_next(&each));) {
        struct df_str name = df_arena_printf(in->arena, "webhookSecrets." DF_STR_FMT,
                                             DF_STR_ARG(df_utf8_cut(v->key, 100)));
        if (!df_str_starts(v->key, DF_STR("/webhooks")) || v->key.len > 512)
            df_input_error(in, name.ptr, "must be a path that begins with /webhooks");
        check_secret(in, name.ptr, v);
    }
}

static void read_server(struct df_input *in, struct df_sb_config *c, struct change *ch)
{
    const struct df_json *url = df_json_get(in->object, "serverUrl");

    if (!url && !df_json_get(in->object, "clientId") && !df_json_get(in->object, "clientSecret"))
        return;
    ch->server = true;
    ch->url = df_input_text(in, "serverUrl", 1024, DF_OPTIONAL);
    ch->client_id = df_input_text(in, "clientId", 256, DF_OPTIONAL);
    ch->client_secret = df_input_text(in, "clientSecret", 1024, DF_OPTIONAL);
    struct df_sb_server *old = df_sb_config_server(c);
    if (old) {
        /* Members that are not given stay as they are. */
        if (!url)
            ch->url = df_arena_str(in->arena, df_str_c(old->url));
        if (!df_json_get(in->object, "clientId"))
            ch->client_id = df_arena_str(in->arena, df_str_c(old->client_id));
        if (!df_json_get(in->object, "clientSecret"))
            ch->client_secret = df_arena_str(in->arena, df_secret_str(old->client_secret));
    }
    df_sb_server_unref(old);
    struct df_err err = DF_ERR_INIT;
    if (ch->url.len > 0 && check_server(ch->url, ch->client_id, ch->client_secret, &err) != DF_OK)
        df_input_error(in, "serverUrl", "%s", err.detail);
    else if (ch->url.len == 0 && !url)
        df_input_error(in, "serverUrl", "is needed with clientId and clientSecret");
}

static void apply_change(struct df_sb_config *c, const struct change *ch)
{
    df_lock(&c->lock);
    c->settings = ch->settings;
    if (ch->webhook_secret) {
        df_secret_free(c->webhook_secret);
        c->webhook_secret = ch->webhook_secret->type == DF_JSON_STRING
                                ? df_secret_new(ch->webhook_secret->text)
                                : NULL;
    }
    struct df_json_each each = df_json_each(ch->secrets);
    for (const struct df_json *v; (v = df_json_next(&each));)
        set_secret(c, v->key, v->type == DF_JSON_STRING ? v->text : DF_STR_NULL);
    df_unlock(&c->lock);
}

void df_sb_config_put(struct df_req *req)
{
    static const char *const known[] = {
        "omniflow",     "ackDelayMs",       "callbackDelayMs", "callbackStatus",
        "itemResults",  "errorPhoneSuffix", "serverUrl",       "clientId",
        "clientSecret", "webhookSecret",    "webhookSecrets",  "webhookToleranceSeconds"};
    struct df_sandbox *s = df_req_route_arg(req);
    struct df_input in;

    if (!df_input_json(&in, req))
        return;
    struct change ch = {.settings = df_sb_config_settings(&s->config)};
    struct df_sb_settings *now = &ch.settings;
    df_sb_input_known(&in, known, sizeof(known) / sizeof(known[0]));
    read_words(&in, now);
    now->ack_delay_ms = df_input_int(&in, "ackDelayMs", 0, DELAY_MAX_MS, now->ack_delay_ms);
    now->callback_delay_ms =
        df_input_int(&in, "callbackDelayMs", 0, DELAY_MAX_MS, now->callback_delay_ms);
    now->webhook_tolerance_s =
        df_input_int(&in, "webhookToleranceSeconds", 0, INT32_MAX, now->webhook_tolerance_s);
    read_secrets(&in, &ch);
    read_server(&in, &s->config, &ch);
    if (!df_input_ok(&in, req))
        return;

    struct df_err err = DF_ERR_INIT;
    if (ch.server &&
        set_server(&s->config, ch.url, ch.client_id, ch.client_secret, &err) != DF_OK) {
        df_req_problem(req, &err);
        return;
    }
    apply_change(&s->config, &ch);
    df_sb_config_get(req);
}

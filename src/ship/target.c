#include "ship/target.h"

#include "base/mem.h"
#include "net/url.h"

#include <stdio.h>
#include <stdlib.h>

#define DATA_STREAM "logs-dataflow-default"
#define TENANT_MAX  150 /* as Loki has it */
#define LABEL_MAX   128

static const struct df_ship_protocol *const protocols[] = {&df_ship_loki, &df_ship_elastic,
                                                           &df_ship_otlp};

static enum df_code refuse(struct df_err *err, const char *key, const char *why)
{
    return df_err_set(err, DF_E_CONFIG, "%s: %s", key, why);
}

/* --- the URL --- */

/* *ret_rest: behind "://". */
static const struct df_ship_protocol *find_protocol(struct df_str url, bool *ret_tls,
                                                    struct df_str *ret_rest)
{
    for (size_t i = 0; i < sizeof(protocols) / sizeof(protocols[0]); i++) {
        struct df_str rest = url, scheme = df_str_c(protocols[i]->scheme);
        if (!df_str_starts(rest, scheme))
            continue;
        rest = df_str_n(rest.ptr + scheme.len, rest.len - scheme.len);
        *ret_tls = rest.len > 0 && rest.ptr[0] == 's';
        rest = df_str_n(rest.ptr + *ret_tls, rest.len - *ret_tls);
        if (!df_str_starts(rest, DF_STR("://")))
            continue;
        *ret_rest = df_str_n(rest.ptr + 3, rest.len - 3);
        return protocols[i];
    }
    return NULL;
}

static bool is_name_of(struct df_str s, const char *also, size_t max)
{
    if (s.len == 0 || s.len > max)
        return false;
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!plain && (c == '\0' || !strchr(also, c)))
            return false;
    }
    return true;
}

/* Lower case, and none of what Elasticsearch refuses in names. */
static bool is_index(struct df_str s)
{
    for (size_t i = 0; i < s.len; i++)
        if (s.ptr[i] >= 'A' && s.ptr[i] <= 'Z')
            return false;
    return is_name_of(s, "-_.", 255) && s.ptr[0] != '-' && s.ptr[0] != '_' && s.ptr[0] != '.';
}

/* Splits the path of an index: its last part. */
static enum df_code cut_index(struct df_str *path, struct df_str *ret, struct df_err *err)
{
    const char *slash = path->len > 0 ? memrchr(path->ptr, '/', path->len) : NULL;

    *ret = DF_STR(DATA_STREAM);
    if (!slash || slash + 1 == path->ptr + path->len)
        return DF_OK;
    *ret = df_str_n(slash + 1, (size_t)(path->ptr + path->len - slash - 1));
    path->len = (size_t)(slash - path->ptr);
    return is_index(*ret) ? DF_OK : refuse(err, "ship", "the path must end with an index's name");
}

static enum df_code read_query(struct df_ship_target *t, struct df_str query, struct df_err *err)
{
    const struct df_str tenant = DF_STR("tenant=");

    if (!query.ptr)
        return DF_OK;
    if (t->protocol != &df_ship_loki || !df_str_starts(query, tenant))
        return refuse(err, "ship", "only loki:// has a parameter: ?tenant=NAME");
    query = df_str_n(query.ptr + tenant.len, query.len - tenant.len);
    if (!is_name_of(query, "!-_.*'()", TENANT_MAX))
        return refuse(err, "ship", "the tenant's name must be of letters, digits and !-_.*'()");
    t->tenant = df_strdup(query);
    return DF_OK;
}

static void trim_slashes(struct df_str *path)
{
    while (path->len > 0 && path->ptr[path->len - 1] == '/')
        path->len--;
}

static enum df_code make_url(struct df_ship_target *t, bool tls, struct df_str rest,
                             struct df_err *err)
{
    const char *slash = memchr(rest.ptr, '/', rest.len), *ask = memchr(rest.ptr, '?', rest.len);
    size_t authority_len = rest.len;
    struct df_str path = DF_STR(""), query = DF_STR_NULL, index = DF_STR_NULL;
    enum df_code code = DF_OK;
    struct df_url u;
    struct df_err why = DF_ERR_INIT;
    char port[16] = "";

    if (memchr(rest.ptr, '#', rest.len))
        return refuse(err, "ship", "must have no fragment");
    if (ask)
        authority_len = (size_t)(ask - rest.ptr);
    if (slash && (!ask || slash < ask)) {
        path = df_str_n(slash, authority_len - (size_t)(slash - rest.ptr));
        authority_len = (size_t)(slash - rest.ptr);
    }
    if (ask)
        query = df_str_n(ask + 1, (size_t)(rest.ptr + rest.len - ask - 1));
    struct df_str authority = df_str_n(rest.ptr, authority_len);
    trim_slashes(&path);
    code = read_query(t, query, err);
    if (code == DF_OK && t->protocol == &df_ship_elastic)
        code = cut_index(&path, &index, err);
    if (code != DF_OK)
        return code;
    /* Whether a port is given is seen by what follows the host, which may be in brackets. */
    const char *at = authority.len > 0 ? memrchr(authority.ptr, '@', authority.len) : NULL;
    struct df_str host =
        at ? df_str_n(at + 1, (size_t)(authority.ptr + authority.len - at - 1)) : authority;
    const char *bracket = host.len > 0 ? memrchr(host.ptr, ']', host.len) : NULL;
    size_t skip = bracket ? (size_t)(bracket - host.ptr) : 0;
    if (host.len > 0 && !memchr(host.ptr + skip, ':', host.len - skip))
        (void)snprintf(port, sizeof(port), ":%u", t->protocol->port);
    if (asprintf(&t->url, "%s://" DF_STR_FMT "%s" DF_STR_FMT "%s" DF_STR_FMT "%s",
                 tls ? "https" : "http", DF_STR_ARG(authority), port, DF_STR_ARG(path),
                 index.ptr ? "/" : "", DF_STR_ARG(index), t->protocol->path) < 0)
        df_oom();
    if (df_url_parse(df_str_c(t->url), &u, &why) != DF_OK)
        return df_err_set(err, DF_E_CONFIG, "ship: %s", why.detail);
    return DF_OK;
}

/* --- labels and the token --- */

static bool is_label_name(struct df_str s)
{
    return is_name_of(s, "_", LABEL_MAX) && !(s.ptr[0] >= '0' && s.ptr[0] <= '9');
}

static bool is_taken(const struct df_ship_target *t, struct df_str name)
{
    static const char *const own[] = {"job", "service_name", "instance", "level"};

    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
        if (df_str_eq(name, df_str_c(own[i])))
            return true;
    for (size_t i = 0; i < t->label_count; i++)
        if (df_str_eq(name, t->labels[i].name))
            return true;
    return false;
}

static enum df_code read_labels(struct df_ship_target *t, const char *text, struct df_err *err)
{
    struct df_str rest, item;

    if (!text)
        return DF_OK;
    t->label_text = df_strdup(df_str_c(text));
    rest = df_str_c(t->label_text);
    while (rest.ptr) {
        struct df_ship_label label;
        rest = df_str_cut(rest, ',', &item);
        label.value = df_str_trim(df_str_cut(item, '=', &label.name));
        label.name = df_str_trim(label.name);
        if (!is_label_name(label.name) || !label.value.ptr || label.value.len > LABEL_MAX ||
            df_utf8_valid_prefix(label.value) != label.value.len)
            return refuse(
                err, "ship_labels",
                "must be name=value, separated by commas; names of letters, digits and _");
        if (is_taken(t, label.name))
            return refuse(
                err, "ship_labels",
                "a name may stand once, and be none of job, service_name, instance, level");
        if (t->label_count == DF_SHIP_LABELS_MAX)
            return refuse(err, "ship_labels", "at most 8 labels");
        t->labels[t->label_count++] = label;
    }
    return DF_OK;
}

static enum df_code read_token(struct df_ship_target *t, const struct df_secret *token,
                               struct df_err *err)
{
    struct df_str text = df_secret_str(token);
    struct df_url u;

    if (!token)
        return DF_OK;
    if (df_url_parse(df_str_c(t->url), &u, NULL) == DF_OK && u.userinfo.len > 0)
        return refuse(err, "ship_token", "log.ship has a user already: give one of them");
    if (!is_name_of(text, "-._~+/=:", 4000))
        return refuse(err, "ship_token", "has characters that no token has");
    if (asprintf(&t->authorized, "%s " DF_STR_FMT, t->protocol->auth, DF_STR_ARG(text)) < 0)
        df_oom();
    return DF_OK;
}

enum df_code df_ship_target_new(const struct df_ship_settings *s, struct df_ship_target **ret,
                                struct df_err *err)
{
    struct df_str rest = DF_STR_NULL;
    bool tls = false;
    const struct df_ship_protocol *protocol = find_protocol(df_str_c(s->url), &tls, &rest);
    if (!protocol)
        return refuse(err, "ship",
                      "must begin with loki://, elastic:// or otlp://, or for TLS with lokis://, "
                      "elastics:// or otlps://");
    struct df_ship_target *t = df_calloc(1, sizeof(*t));
    t->protocol = protocol;
    enum df_code code = make_url(t, tls, rest, err);
    if (code == DF_OK)
        code = read_labels(t, s->labels, err);
    if (code == DF_OK)
        code = read_token(t, s->token, err);
    if (code != DF_OK)
        df_ship_target_free(t);
    else
        *ret = t;
    return code;
}

static void free_secret(char *text)
{
    if (text)
        df_wipe(text, strlen(text));
    free(text);
}

void df_ship_target_free(struct df_ship_target *t)
{
    if (!t)
        return;
    free_secret(t->url);
    free_secret(t->authorized);
    free(t->tenant);
    free(t->label_text);
    free(t);
}

bool df_ship_status_is_of_lines(unsigned status)
{
    return status == 400 || status == 413 || status == 422;
}

#include "keys/vault_place.h"

#include "net/url.h"

#include <ctype.h>

#define PLACE_MAX  190 /* fits into DF_MASTER_ID_MAX */
#define NAME_MAX_  127
#define VAULT_PORT 8200

static const struct scheme {
    struct df_str name;
    bool azure;
    bool tls;
} schemes[] = {
    {DF_STR_INIT("vault://"), false, true},
    {DF_STR_INIT("vault+http://"), false, false},
    {DF_STR_INIT("azurekv://"), true, true},
    {DF_STR_INIT("azurekv+http://"), true, false},
};

/* A token of Azure opens every vault of its cloud, so it is sent to hosts of that cloud only. */
static const struct {
    struct df_str suffix;
    struct df_str resource;
} clouds[] = {
    {DF_STR_INIT(".vault.azure.net"), DF_STR_INIT("https://vault.azure.net")},
    {DF_STR_INIT(".managedhsm.azure.net"), DF_STR_INIT("https://managedhsm.azure.net")},
    {DF_STR_INIT(".vault.azure.cn"), DF_STR_INIT("https://vault.azure.cn")},
    {DF_STR_INIT(".vault.usgovcloudapi.net"), DF_STR_INIT("https://vault.usgovcloudapi.net")},
};

static const struct scheme *find_scheme(struct df_str text)
{
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++)
        if (df_str_starts(text, schemes[i].name))
            return &schemes[i];
    return NULL;
}

bool df_is_vault_place(struct df_str text)
{
    return find_scheme(text);
}

bool df_is_azure_place(struct df_str text)
{
    const struct scheme *s = find_scheme(text);
    return s && s->azure;
}

static bool is_word(struct df_str s, const char *also)
{
    for (size_t i = 0; i < s.len; i++)
        if (!isalnum((unsigned char)s.ptr[i]) && !strchr(also, s.ptr[i]))
            return false;
    return s.len > 0 && s.len <= NAME_MAX_;
}

/* Words between slashes; none is empty or begins with a dot. */
static bool is_path(struct df_str s)
{
    while (s.ptr) {
        struct df_str word;
        s = df_str_cut(s, '/', &word);
        if (!is_word(word, "-_.") || word.ptr[0] == '.')
            return false;
    }
    return true;
}

/* --- the host --- */

static enum df_code read_host(const struct scheme *s, struct df_str host, struct df_arena *a,
                              struct df_vault_place *ret, struct df_err *err)
{
    const char *http = s->tls ? "https" : "http";
    struct df_url url;
    char text[DF_DESTINATION_SIZE];

    if (df_url_parse(df_arena_printf(a, "%s://" DF_STR_FMT, http, DF_STR_ARG(host)), &url, err) !=
            DF_OK ||
        url.userinfo.ptr || url.rest.len > 0)
        return df_err_set(err, DF_E_CONFIG, "%s must be followed by a host, or a host and a port",
                          s->name.ptr);
    if (!s->tls && !df_host_is_loopback(url.host))
        return df_err_set(err, DF_E_CONFIG, "%s is for a vault on this machine; use %s://",
                          s->name.ptr, s->azure ? "azurekv" : "vault");
    bool has_port = host.len > url.host.len + (url.ipv6 ? 2 : 0);
    if (!has_port && !s->azure)
        url.port = VAULT_PORT;
    ret->root = df_arena_str(a, df_url_destination(&url, text));
    ret->host = df_str_n(ret->root.ptr + strlen(http) + 3, ret->root.len - strlen(http) - 3);
    return DF_OK;
}

static bool find_cloud(const struct scheme *s, struct df_vault_place *ret)
{
    for (size_t i = 0; i < sizeof clouds / sizeof clouds[0]; i++)
        if (!s->tls || df_str_ends(ret->host, clouds[i].suffix)) {
            ret->resource = clouds[i].resource;
            return true;
        }
    return false;
}

/* --- the path --- */

static enum df_code read_azure(const struct scheme *s, struct df_str path,
                               struct df_vault_place *ret, struct df_err *err)
{
    struct df_str version = df_str_cut(path, '/', &ret->name);

    ret->kind = DF_VAULT_AZURE;
    ret->version = version;
    if (!find_cloud(s, ret))
        return df_err_set(err, DF_E_CONFIG,
                          "azurekv://: the host must be that of a key vault, such as "
                          "NAME.vault.azure.net");
    if (!is_word(ret->name, "-") || (version.ptr && !is_word(version, "")))
        return df_err_set(err, DF_E_CONFIG,
                          "azurekv://: the host must be followed by /KEY or /KEY/VERSION: letters, "
                          "digits and '-'");
    return DF_OK;
}

/* Cuts the path at the first, or the last, of `middle`. */
static bool cut_at(struct df_str path, const char *middle, bool last, struct df_str *ret_before,
                   struct df_str *ret_after)
{
    size_t len = strlen(middle);
    bool found = false;

    for (size_t i = 0; i + len <= path.len && (last || !found); i++)
        if (memcmp(path.ptr + i, middle, len) == 0) {
            *ret_before = df_str_n(path.ptr, i);
            *ret_after = df_str_n(path.ptr + i + len, path.len - i - len);
            found = true;
        }
    return found && is_path(*ret_before) && is_path(*ret_after);
}

static enum df_code read_vault(struct df_str path, struct df_vault_place *ret, struct df_err *err)
{
    struct df_str field = df_str_cut(path, '#', &path);

    ret->kind = field.ptr ? DF_VAULT_KV : DF_VAULT_TRANSIT;
    ret->field = field;
    if (field.ptr) {
        if (!cut_at(path, "/data/", false, &ret->mount, &ret->path) || !is_word(field, "-_."))
            return df_err_set(err, DF_E_CONFIG,
                              "vault://: with a #FIELD, the path must be MOUNT/data/PATH: letters, "
                              "digits, '-', '_' and '.'");
        return DF_OK;
    }
    if (!cut_at(path, "/keys/", true, &ret->mount, &ret->name) || !is_word(ret->name, "-_."))
        return df_err_set(err, DF_E_CONFIG,
                          "vault://: the path must be MOUNT/keys/NAME (Transit) or "
                          "MOUNT/data/PATH#FIELD (KV v2)");
    return DF_OK;
}

enum df_code df_vault_place_parse(struct df_str text, struct df_arena *a,
                                  struct df_vault_place *ret, struct df_err *err)
{
    const struct scheme *s = find_scheme(text);
    struct df_vault_place place = {0};
    struct df_str host;

    if (!s)
        return df_err_set(err, DF_E_CONFIG,
                          "no vault: the text begins with none of vault:// and "
                          "azurekv://");
    if (text.len > PLACE_MAX)
        return df_err_set(err, DF_E_CONFIG, "%s: longer than %d characters", s->name.ptr,
                          PLACE_MAX);
    text = df_arena_str(a, df_str_n(text.ptr + s->name.len, text.len - s->name.len));
    struct df_str path = df_str_cut(text, '/', &host);
    enum df_code code = read_host(s, host, a, &place, err);
    if (code == DF_OK)
        code = s->azure ? read_azure(s, path, &place, err) : read_vault(path, &place, err);
    if (code == DF_OK)
        *ret = place;
    return code;
}

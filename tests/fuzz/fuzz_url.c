/*
 * Texts of clients and events that become URLs and names of files. What df_url_parse lets pass has
 * the same host, port and path for libcurl, which calls it; a path or an event's text never leads
 * to another host, nor out of the path that was configured; a file's name never out of its
 * directory; a place in a vault never to another path or host.
 */
#include "files/storage.h"
#include "integrations/integrations_private.h"
#include "keys/vault_place.h"
#include "net/field.h"
#include "net/target.h"
#include "net/url.h"
#include "relay/http_target.h"

#include <curl/curl.h>
#include <stdlib.h>

#define CHECK(what)                                                                                \
    do {                                                                                           \
        if (!(what))                                                                               \
            abort();                                                                               \
    } while (0)

#define BASE   "http://peer.internal:8080/base/v1"
#define TARGET "https://events.example.com/x/{eventType}/{aggregateId}?a={aggregateType}"

struct curl_parts {
    char *host, *port, *path, *scheme;
};

static bool take_apart(const char *url, struct curl_parts *ret)
{
    CURLU *u = curl_url();
    *ret = (struct curl_parts){0};
    bool ok = u && curl_url_set(u, CURLUPART_URL, url, 0) == CURLUE_OK &&
              curl_url_get(u, CURLUPART_HOST, &ret->host, 0) == CURLUE_OK &&
              curl_url_get(u, CURLUPART_PORT, &ret->port, CURLU_DEFAULT_PORT) == CURLUE_OK &&
              curl_url_get(u, CURLUPART_PATH, &ret->path, 0) == CURLUE_OK &&
              curl_url_get(u, CURLUPART_SCHEME, &ret->scheme, 0) == CURLUE_OK;
    curl_url_cleanup(u);
    return ok;
}

static void let_go(struct curl_parts *p)
{
    curl_free(p->host);
    curl_free(p->port);
    curl_free(p->path);
    curl_free(p->scheme);
}

/* libcurl writes a number in any of its forms as four: the address is judged once it is known. */
static bool is_number(struct df_str host)
{
    return host.len > 0 && strspn(host.ptr, "0123456789abcdefABCDEFxX.") >= host.len;
}

static void check_url(struct df_arena *a, struct df_str text)
{
    struct df_err err = DF_ERR_INIT;
    struct df_url url;
    struct curl_parts curl;
    if (df_url_parse(text, &url, &err) != DF_OK)
        return;
    const char *whole = df_arena_cstr(a, text);
    CHECK(strlen(whole) == text.len && url.port > 0 && url.port <= 65535);
    if (take_apart(whole, &curl)) {
        struct df_str host = df_str_c(curl.host);
        if (url.ipv6) {
            CHECK(host.len > 2 && host.ptr[0] == '[');
        } else {
            CHECK(df_str_ieq(host, url.host) || is_number(df_arena_str(a, url.host)));
        }
        CHECK((unsigned)atoi(curl.port) == url.port);
        CHECK(strcmp(curl.scheme, url.tls ? "https" : "http") == 0);
    }
    let_go(&curl);
}

static void check_integration(struct df_arena *a, struct df_str text)
{
    struct df_err err = DF_ERR_INIT;
    struct df_str raw = DF_STR(""), path, query = df_str_cut(text, '?', &raw);
    bool keep = false;
    const char *made = NULL;
    struct curl_parts curl;
    struct df_target t;
    raw = df_arena_printf(a, "/integrations/x/%.*s", (int)raw.len, raw.ptr ? raw.ptr : "");
    if (df_target_parse(a, raw, query, true, &t, &err) != DF_OK || t.unroutable ||
        integration_path(t.raw, &path, &err) != DF_OK ||
        integration_query(a, t.query, &query, &keep, &err) != DF_OK ||
        integration_url(a, BASE, integration_suffix(a, path, query), &made, &err) != DF_OK)
        return;
    CHECK(strncmp(made, BASE, strlen(BASE)) == 0);
    if (take_apart(made, &curl)) {
        CHECK(strcmp(curl.host, "peer.internal") == 0 && strcmp(curl.port, "8080") == 0);
        CHECK(strncmp(curl.path, "/base/v1", 8) == 0 && (!curl.path[8] || curl.path[8] == '/'));
    }
    let_go(&curl);
}

static void check_event(struct df_arena *a, struct df_str text)
{
    struct df_err err = DF_ERR_INIT;
    struct df_event e = {0};
    struct curl_parts curl;
    struct df_str rest = df_str_cut(text, '\n', &e.type);
    e.aggregate_id = rest.ptr ? rest : DF_STR_NULL;
    e.aggregate_type = text;
    CHECK(df_field_value_ok(df_field_text(a, text)));
    const char *made = df_http_target_expand(a, TARGET, &e, &err);
    if (!made)
        return;
    CHECK(take_apart(made, &curl));
    CHECK(strcmp(curl.host, "events.example.com") == 0 && strcmp(curl.port, "443") == 0);
    CHECK(strncmp(curl.path, "/x/", 3) == 0);
    let_go(&curl);
}

static void check_file_name(struct df_str text)
{
    char name[DF_STORAGE_NAME_MAX + 1];
    df_storage_file_name(text, name);
    size_t len = strlen(name);
    CHECK(len > 0 && len <= DF_STORAGE_NAME_MAX && !strpbrk(name, "/\\") && name[0] != '.');
    CHECK(df_utf8_valid_prefix(df_str_c(name)) == len);
}

static void check_place(struct df_arena *a, const char *scheme, struct df_str text)
{
    struct df_err err = DF_ERR_INIT;
    struct df_vault_place p;
    struct curl_parts curl;
    struct df_str whole = df_arena_printf(a, "%s" DF_STR_FMT, scheme, DF_STR_ARG(text));
    if (df_vault_place_parse(whole, a, &p, &err) != DF_OK)
        return;
    struct df_str rest = p.kind == DF_VAULT_KV ? p.path : p.name;
    const char *url =
        df_arena_printf(a, DF_STR_FMT "/v1/" DF_STR_FMT "/x/" DF_STR_FMT, DF_STR_ARG(p.root),
                        DF_STR_ARG(p.kind == DF_VAULT_AZURE ? DF_STR("m") : p.mount),
                        DF_STR_ARG(rest))
            .ptr;
    CHECK(take_apart(url, &curl));
    CHECK(strstr(url, curl.path) == url + p.root.len && !strstr(curl.path, "/.") &&
          !strpbrk(curl.path, "?#%\"\\ "));
    CHECK(p.kind != DF_VAULT_AZURE || p.resource.len > 0);
    CHECK(p.kind != DF_VAULT_AZURE || strcmp(curl.scheme, "https") != 0 ||
          strstr(curl.host, ".vault.") || strstr(curl.host, ".managedhsm."));
    let_go(&curl);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct df_arena arena = {0};
    /* Exactly as long as it is, so that reading past its end is seen. */
    char *copy = malloc(size ? size : 1);
    CHECK(copy);
    memcpy(copy, data, size);
    struct df_str text = {copy, size};
    check_url(&arena, text);
    check_integration(&arena, text);
    check_event(&arena, text);
    check_file_name(text);
    check_place(&arena, "", text);
    check_place(&arena, "vault://", text);
    check_place(&arena, "azurekv://", text);
    df_arena_release(&arena);
    free(copy);
    return 0;
}

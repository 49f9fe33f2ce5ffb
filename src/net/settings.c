#include "net/settings.h"

#include "net/caller.h"
#include "net/field.h"
#include "net/http.h"
#include "net/url.h"

void df_net_check_url(const char *section, const char *name, struct df_str url,
                      struct df_buf *complaints)
{
    struct df_err err = DF_ERR_INIT;
    struct df_url parts;

    if (!url.ptr)
        return;
    if (df_url_parse(url, &parts, &err) != DF_OK)
        df_buf_addf(complaints, "[%s] %s: %s\n", section, name, err.detail);
    else if (parts.userinfo.ptr) /* they would appear in rows and answers */
        df_buf_addf(complaints, "[%s] %s: may not hold credentials\n", section, name);
}

/* Headers that we set ourselves: a key in one of them would be sent twice or break the request. */
static bool is_set_by_us(struct df_str name)
{
    static const char *const names[] = {"Content-Type",     "Host",        "Idempotency-Key",
                                        "X-Correlation-Id", "traceparent", "x-trace-id"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (df_str_ieq(name, df_str_c(names[i])))
            return true;
    }
    return df_field_is_framing(name);
}

void df_net_check_header(const char *section, const char *name, struct df_buf *complaints)
{
    if (!df_field_is_token(df_str_c(name)))
        df_buf_addf(complaints,
                    "[%s] api_key_header: must be a header's name: letters, digits and '-'\n",
                    section);
    else if (is_set_by_us(df_str_c(name)))
        df_buf_addf(complaints, "[%s] api_key_header: %s has another use\n", section, name);
}

void df_http_check_settings(const struct df_http_settings *s, struct df_buf *complaints)
{
    struct df_err err = DF_ERR_INIT;

    if (df_http_check_address(s->listen, &err) != DF_OK)
        df_buf_addf(complaints, "[server] listen: %s\n", err.detail);
    struct df_proxies proxies = {0};
    if (df_proxies_parse(s->trusted_proxies, &proxies, &err) != DF_OK)
        df_buf_addf(complaints, "[server] trusted_proxies: %s\n", err.detail);
    df_proxies_release(&proxies);
    /* Twice the body, because escaped texts are copied. */
    int64_t share = s->memory_budget_bytes / 4;
    int64_t needed_mb = 4 * (2 * s->max_body_bytes + DF_MIB) / DF_MIB + 1;
    if (share < 2 * s->max_body_bytes + DF_MIB)
        df_buf_addf(complaints,
                    "[server] memory_budget_mb: a quarter of it must have room for two bodies of "
                    "max_body_bytes: set at least %lld\n",
                    (long long)needed_mb);
    if (!s->tls_cert != !s->tls_key)
        df_buf_addz(complaints, "[server] tls_cert and tls_key: set both or none\n");
    if (s->tls_client_ca && !s->tls_cert)
        df_buf_addz(complaints, "[server] tls_client_ca: needs tls_cert and tls_key\n");
}

/* Header rules, and the check of a section of the configuration. */
#include "integrations/integrations_private.h"

#include "net/field.h"
#include "net/url.h"

/*
 * No rule may name these headers. The HTTP client and server handle framing and the connection, the
 * server sets ids and traces, and a caller's credentials for this server are not for others.
 */
static const char *const reserved[] = {
    /* besides those of the framing */
    "Cookie",
    "Date",
    "Host",
    "Proxy-Authenticate",
    "Proxy-Authorization",
    "Set-Cookie",
    "traceparent",
    "X-Admin-Key",
    "X-Client-Id",
    "X-Client-Secret",
    "X-Content-Type-Options",
    "X-Correlation-Id",
    "x-trace-id",
};

static bool is_reserved(struct df_str name)
{
    for (size_t i = 0; i < sizeof(reserved) / sizeof(reserved[0]); i++) {
        if (df_str_ieq(name, df_str_c(reserved[i])))
            return true;
    }
    return df_field_is_framing(name);
}

/* --- reading ---------------------------------------------------------------------------------- */

struct reader {
    const struct df_integration_settings *set;
    struct df_buf *complaints;
};

/* value: a word of the setting, or absent; never a header's value, which may be a secret. */
static void complain_of(const struct reader *r, const char *key, struct df_str value,
                        const char *what)
{
    if (!r->complaints)
        return;
    df_buf_addf(r->complaints, "[integration.%s] %s: ", r->set->name, key);
    if (value.ptr)
        df_buf_addf(r->complaints, "\"" DF_STR_FMT "\" ", DF_STR_ARG(value));
    df_buf_addf(r->complaints, "%s\n", what);
}

static bool name_ok(const struct reader *r, const char *key, struct df_str name)
{
    if (!df_field_is_token(name))
        complain_of(r, key, DF_STR_NULL, "has something that is no header's name");
    else if (is_reserved(name))
        complain_of(r, key, name, "is not for integrations to decide");
    else
        return true;
    return false;
}

static size_t read_names(const struct reader *r, const char *key, const char *text,
                         struct df_str out[INTEGRATION_NAMES_MAX])
{
    struct df_str rest = df_str_c(text);
    size_t count = 0;

    while (rest.ptr) {
        struct df_str name;
        rest = df_str_cut(rest, ',', &name);
        name = df_str_trim(name);
        if (name.len == 0 || !name_ok(r, key, name))
            continue;
        if (count == INTEGRATION_NAMES_MAX) {
            complain_of(r, key, DF_STR_NULL, "has more than 64 names");
            break;
        }
        out[count++] = name;
    }
    return count;
}

static bool is_fixed(const struct integration_rules *rules, struct df_str name)
{
    for (size_t i = 0; i < rules->fixed_count; i++) {
        if (df_str_ieq(rules->fixed[i].name, name))
            return true;
    }
    return false;
}

static void read_fixed_header(const struct reader *r, struct df_str field,
                              struct integration_rules *rules)
{
    static const char key[] = "set_headers";
    struct df_str name;
    struct df_str value = df_str_trim(df_str_cut(field, ':', &name));

    name = df_str_trim(name);
    if (!value.ptr)
        complain_of(r, key, DF_STR_NULL, "must be Name: value; Name: value");
    else if (!name_ok(r, key, name))
        return;
    else if (df_str_ieq(name, DF_STR("Idempotency-Key")))
        complain_of(r, key, name, "must differ from call to call");
    else if (is_fixed(rules, name))
        complain_of(r, key, name, "is there twice");
    else if (!df_field_value_ok(value))
        complain_of(r, key, name, "has a control character in its value");
    else if (rules->fixed_count == INTEGRATION_NAMES_MAX)
        complain_of(r, key, DF_STR_NULL, "has more than 64 headers");
    else
        rules->fixed[rules->fixed_count++] = (struct df_call_header){.name = name, .value = value};
}

static void read_api_key(const struct reader *r, struct integration_rules *rules)
{
    struct df_str name = df_str_trim(df_str_c(r->set->api_key_header));
    struct df_str value = df_secret_str(r->set->api_key);

    if (!name_ok(r, "api_key_header", name) || !value.ptr)
        return;
    if (is_fixed(rules, name))
        complain_of(r, "set_headers", name, "is the API key's");
    else if (!df_field_value_ok(value))
        complain_of(r, "api_key", DF_STR_NULL, "has a control character");
    else
        rules->fixed[rules->fixed_count++] = (struct df_call_header){.name = name, .value = value};
}

void integration_rules_read(const struct df_integration_settings *s, struct integration_rules *ret,
                            struct df_buf *complaints)
{
    const struct reader r = {s, complaints};
    struct df_str rest = df_secret_str(s->set_headers);

    *ret = (struct integration_rules){0};
    ret->forwarded_count = read_names(&r, "forward_headers", s->forward_headers, ret->forwarded);
    ret->returned_count = read_names(&r, "return_headers", s->return_headers, ret->returned);
    while (rest.ptr) {
        struct df_str field;
        rest = df_str_cut(rest, ';', &field);
        if (df_str_trim(field).len > 0)
            read_fixed_header(&r, field, ret);
    }
    read_api_key(&r, ret);
}

static bool has_name(const struct df_str *names, size_t count, struct df_str name)
{
    for (size_t i = 0; i < count; i++) {
        if (df_str_ieq(names[i], name))
            return true;
    }
    return false;
}

bool integration_rules_forward(const struct integration_rules *r, struct df_str name)
{
    return has_name(r->forwarded, r->forwarded_count, name) && !is_fixed(r, name);
}

bool integration_rules_return(const struct integration_rules *r, struct df_str name)
{
    return has_name(r->returned, r->returned_count, name);
}

/* --- the section ------------------------------------------------------------------------------ */

static bool is_code(struct df_str s)
{
    if (s.len == 0 || s.len > 100 || s.ptr[0] < 'A' || s.ptr[0] > 'Z')
        return false;
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        if (!((c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')))
            return false;
    }
    return true;
}

static void check_base_url(const struct reader *r)
{
    struct df_str url = df_str_c(r->set->base_url);
    struct df_url parsed;
    struct df_err err = DF_ERR_INIT;

    if (url.len == 0)
        complain_of(r, "base_url", DF_STR_NULL, "is needed");
    else if (df_url_parse(url, &parsed, &err) != DF_OK)
        complain_of(r, "base_url", DF_STR_NULL, err.detail);
    else if (parsed.userinfo.ptr)
        complain_of(r, "base_url", DF_STR_NULL,
                    "may not hold credentials: api_key or set_headers may");
    else if (parsed.rest.len > 0 && (memchr(parsed.rest.ptr, '?', parsed.rest.len) ||
                                     memchr(parsed.rest.ptr, '#', parsed.rest.len)))
        complain_of(r, "base_url", DF_STR_NULL, "may not have a query or a fragment");
}

void df_integration_check_settings(const struct df_integration_settings *s,
                                   struct df_buf *complaints)
{
    const struct reader r = {s, complaints};
    struct integration_rules rules;

    if (!s->methods)
        complain_of(&r, "methods", DF_STR_NULL, "name at least one");
    check_base_url(&r);
    integration_rules_read(s, &rules, complaints);
    if (!is_code(df_str_c(s->unavailable_code)))
        complain_of(&r, "unavailable_code", DF_STR_NULL,
                    "must be a code like PaymentServiceUnavailable: letters and digits");
}

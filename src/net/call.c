#include "net/call.h"

#include "base/secret.h"
#include "net/field.h"
#include "net/security.h"

#include <curl/curl.h>
#include <sodium.h>
#include <stdlib.h>

#define HEADERS_MAX      100
#define HEADER_BYTES_MAX ((size_t)64 << 10) /* of all headers together */
#define METHOD_MAX       16
#define RETRY_AFTER_MAX  ((int64_t)24 * 3600 * 1000)

/* --- what a call may ask for --- */

static enum df_code check_headers(const struct df_call *call, struct df_err *err)
{
    size_t bytes = 0;

    if (call->header_count > HEADERS_MAX)
        return df_err_set(err, DF_E_BAD_REQUEST, "more than %d headers", HEADERS_MAX);
    for (size_t i = 0; i < call->header_count; i++) {
        const struct df_call_header *h = &call->headers[i];
        if (!df_field_is_token(h->name))
            return df_err_set(err, DF_E_BAD_REQUEST, "header %zu has no valid name", i + 1);
        if (df_field_is_framing(h->name))
            return df_err_set(err, DF_E_BAD_REQUEST, "header " DF_STR_FMT " belongs to the client",
                              DF_STR_ARG(h->name));
        if (!df_field_value_ok(h->value))
            return df_err_set(err, DF_E_BAD_REQUEST,
                              "the value of header " DF_STR_FMT " has a control character",
                              DF_STR_ARG(h->name));
        if (h->name.len > HEADER_BYTES_MAX || h->value.len > HEADER_BYTES_MAX)
            bytes = HEADER_BYTES_MAX;
        bytes += h->name.len + h->value.len + sizeof(": ");
        if (bytes > HEADER_BYTES_MAX)
            return df_err_set(err, DF_E_BAD_REQUEST, "the headers are longer than %zu bytes",
                              HEADER_BYTES_MAX);
    }
    return DF_OK;
}

enum df_code df_call_check(const struct df_call *call, struct df_url *ret_url, struct df_err *err)
{
    struct df_str method = df_str_c(call->method);

    if (!df_field_is_token(method) || method.len > METHOD_MAX ||
        df_str_ieq(method, DF_STR("CONNECT")) || df_str_ieq(method, DF_STR("TRACE")))
        return df_err_set(err, DF_E_BAD_REQUEST, "the method is not allowed");
    enum df_code code = df_url_parse(df_str_c(call->url), ret_url, err);
    if (code == DF_OK && df_security_forbids(ret_url))
        return df_err_set(err, DF_E_NET_TLS, DF_SECURITY_FORBIDDEN);
    return code == DF_OK ? check_headers(call, err) : code;
}

/* --- the request --- */

static void add_header(struct df_buf *out, struct df_str name, struct df_str value)
{
    df_buf_adds(out, name);
    df_buf_add(out, ": ", 2);
    df_buf_adds(out, value);
    df_buf_add(out, "\r\n", 2);
}

/* "user:password" of the URL, whose %XX stand for bytes. */
static void add_credentials(struct df_buf *out, const char *field, struct df_str userinfo)
{
    char plain[DF_URL_MAX], text[DF_URL_MAX * 4 / 3 + 8];
    size_t len = 0;
    bool has_colon = false;

    for (size_t i = 0; i < userinfo.len && len + 1 < sizeof plain; i++) {
        char c = userinfo.ptr[i];
        if (c == '%' && i + 2 < userinfo.len && df_hex_digit(userinfo.ptr[i + 1]) >= 0 &&
            df_hex_digit(userinfo.ptr[i + 2]) >= 0) {
            c = (char)(df_hex_digit(userinfo.ptr[i + 1]) << 4 | df_hex_digit(userinfo.ptr[i + 2]));
            i += 2;
        } else
            has_colon = has_colon || c == ':';
        plain[len++] = c;
    }
    if (!has_colon)
        plain[len++] = ':';
    (void)sodium_bin2base64(text, sizeof text, (const unsigned char *)plain, len,
                            sodium_base64_VARIANT_ORIGINAL);
    df_buf_addz(out, field);
    df_buf_addz(out, ": Basic ");
    df_buf_addz(out, text);
    df_buf_add(out, "\r\n", 2);
    df_wipe(plain, sizeof plain);
    df_wipe(text, sizeof text);
}

/* The target: path and query. */
static void add_host(struct df_buf *out, const struct df_url *u)
{
    if (u->ipv6)
        df_buf_addc(out, '[');
    df_buf_adds(out, u->host);
    if (u->ipv6)
        df_buf_addc(out, ']');
    if (u->port != (u->tls ? 443u : 80u)) {
        df_buf_addc(out, ':');
        df_buf_add_i64(out, (int64_t)u->port);
    }
}

static void add_request_line(struct df_buf *out, const struct df_call *call, const struct df_url *u,
                             bool to_proxy)
{
    const char *fragment = memchr(u->rest.ptr, '#', u->rest.len);
    struct df_str target =
        df_str_n(u->rest.ptr, fragment ? (size_t)(fragment - u->rest.ptr) : u->rest.len);

    df_buf_addz(out, call->method);
    df_buf_addc(out, ' ');
    if (to_proxy) {
        df_buf_addz(out, "http://");
        add_host(out, u);
    }
    if (target.len == 0 || target.ptr[0] != '/')
        df_buf_addc(out, '/');
    df_buf_adds(out, target);
    df_buf_addz(out, " HTTP/1.1\r\nHost: ");
    add_host(out, u);
    df_buf_add(out, "\r\n", 2);
}

static bool method_has_body(struct df_str m, size_t body_len)
{
    if (df_str_eq(m, DF_STR("HEAD")))
        return false;
    return body_len > 0 || df_str_eq(m, DF_STR("POST")) || df_str_eq(m, DF_STR("PUT")) ||
           df_str_eq(m, DF_STR("PATCH"));
}

static bool method_is_repeatable(struct df_str m)
{
    return df_str_eq(m, DF_STR("GET")) || df_str_eq(m, DF_STR("HEAD")) ||
           df_str_eq(m, DF_STR("PUT")) || df_str_eq(m, DF_STR("DELETE")) ||
           df_str_eq(m, DF_STR("OPTIONS"));
}

void df_call_write_head(const struct df_call *call, const char *user_agent, bool to_proxy,
                        struct df_buf *out, bool *ret_repeatable)
{
    struct df_str login = DF_STR("");
    struct df_str method = df_str_c(call->method);
    bool named = false, accepts = false, authorized = false;
    bool repeatable = method_is_repeatable(method);
    struct df_err err = DF_ERR_INIT;
    struct df_url u;

    df_buf_reset(out);
    if (df_url_parse(df_str_c(call->url), &u, &err) != DF_OK)
        abort(); /* the call passed the check */
    add_request_line(out, call, &u, to_proxy);
    for (size_t i = 0; i < call->header_count; i++) {
        const struct df_call_header *h = &call->headers[i];
        add_header(out, h->name, df_str_trim(h->value));
        named = named || df_str_ieq(h->name, DF_STR("User-Agent"));
        accepts = accepts || df_str_ieq(h->name, DF_STR("Accept"));
        authorized = authorized || df_str_ieq(h->name, DF_STR("Authorization"));
        repeatable = repeatable || df_str_ieq(h->name, DF_STR("Idempotency-Key"));
    }
    if (!named)
        add_header(out, DF_STR("User-Agent"), df_str_c(user_agent));
    if (!accepts)
        add_header(out, DF_STR("Accept"), DF_STR("*/*"));
    if (!authorized && u.userinfo.len > 0)
        add_credentials(out, "Authorization", u.userinfo);
    if (to_proxy)
        (void)df_security_proxy(&login);
    if (login.len > 0)
        add_credentials(out, "Proxy-Authorization", login);
    if (method_has_body(method, call->body.len)) {
        df_buf_addz(out, "Content-Length: ");
        df_buf_add_i64(out, (int64_t)call->body.len);
        df_buf_add(out, "\r\n", 2);
    }
    df_buf_add(out, "\r\n", 2);
    *ret_repeatable = repeatable;
}

/* --- the answer --- */

int64_t df_retry_after_ms(struct df_str value, int64_t now_ms)
{
    value = df_str_trim(value);
    size_t digits = 0;
    while (digits < value.len && value.ptr[digits] >= '0' && value.ptr[digits] <= '9')
        digits++;

    int64_t ms;
    if (digits > 0 && digits == value.len) {
        int64_t seconds;
        bool huge = !df_str_to_i64(value, &seconds) || seconds > RETRY_AFTER_MAX / 1000;
        ms = huge ? RETRY_AFTER_MAX : seconds * 1000;
    } else {
        char text[64];
        if (value.len == 0 || value.len >= sizeof(text))
            return -1;
        memcpy(text, value.ptr, value.len);
        text[value.len] = '\0';
        time_t at = curl_getdate(text, NULL);
        if (at < 0)
            return -1;
        ms = at > now_ms / 1000 + RETRY_AFTER_MAX / 1000 ? RETRY_AFTER_MAX
                                                         : (int64_t)at * 1000 - now_ms;
    }
    if (ms < 0)
        ms = 0;
    return ms < RETRY_AFTER_MAX ? ms : RETRY_AFTER_MAX;
}

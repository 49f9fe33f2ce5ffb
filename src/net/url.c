#include "net/url.h"

#include <arpa/inet.h>
#include <assert.h>
#include <ctype.h>
#include <stdio.h>

/* Space, control characters and bytes above 0x7e must be percent-encoded; some readers take a
 * backslash for a slash. */
static enum df_code check_characters(struct df_str url, struct df_err *err)
{
    if (url.len == 0)
        return df_err_set(err, DF_E_BAD_REQUEST, "the URL is empty");
    if (url.len > DF_URL_MAX)
        return df_err_set(err, DF_E_BAD_REQUEST, "the URL is longer than %d bytes", DF_URL_MAX);
    for (size_t i = 0; i < url.len; i++) {
        unsigned char c = (unsigned char)url.ptr[i];
        if (c <= ' ' || c >= 0x7f || strchr("\"<>\\^`{|}", c))
            return df_err_at(err, DF_E_BAD_REQUEST, (int64_t)i,
                             "the URL contains a character that must be percent-encoded");
    }
    return DF_OK;
}

static bool take_scheme(struct df_str *s, bool *ret_tls)
{
    static const struct df_str plain = {"http://", 7};
    static const struct df_str tls = {"https://", 8};

    const struct df_str *schemes[] = {&plain, &tls};
    for (size_t i = 0; i < 2; i++) {
        size_t n = schemes[i]->len;
        if (s->len >= n && df_str_ieq(df_str_n(s->ptr, n), *schemes[i])) {
            *s = df_str_n(s->ptr + n, s->len - n);
            *ret_tls = i == 1;
            return true;
        }
    }
    return false;
}

static bool is_host_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_';
}

static bool is_ipv6_char(char c)
{
    return (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F') || (c >= '0' && c <= '9') || c == ':' ||
           c == '.';
}

/* Cuts the host off the front of s and leaves nothing, or the port with its colon. */
static bool take_host(struct df_str *s, struct df_url *u)
{
    size_t n = 0;

    u->ipv6 = s->len > 0 && s->ptr[0] == '[';
    if (u->ipv6) {
        *s = df_str_n(s->ptr + 1, s->len - 1);
        while (n < s->len && is_ipv6_char(s->ptr[n]))
            n++;
        if (n == s->len || s->ptr[n] != ']')
            return false;
    } else {
        while (n < s->len && is_host_char(s->ptr[n]))
            n++;
    }
    u->host = df_str_n(s->ptr, n);
    n += u->ipv6;
    *s = df_str_n(s->ptr + n, s->len - n);
    return u->host.len > 0 && u->host.len <= 253 && (s->len == 0 || s->ptr[0] == ':');
}

static bool take_port(struct df_str s, struct df_url *u)
{
    int64_t port = u->tls ? 443 : 80;

    /* "host:" without digits is the default port (RFC 3986). */
    if (s.len > 1 && (s.len > 6 || !df_str_to_i64(df_str_n(s.ptr + 1, s.len - 1), &port)))
        return false;
    if (port < 1 || port > 65535)
        return false;
    u->port = (unsigned)port;
    return true;
}

enum df_code df_url_parse(struct df_str url, struct df_url *ret, struct df_err *err)
{
    struct df_url u = {0};

    enum df_code code = check_characters(url, err);
    if (code != DF_OK)
        return code;
    struct df_str s = url;
    if (!take_scheme(&s, &u.tls))
        return df_err_set(err, DF_E_BAD_REQUEST, "the URL must begin with http:// or https://");

    size_t n = 0;
    while (n < s.len && !strchr("/?#", s.ptr[n]))
        n++;
    struct df_str authority = df_str_n(s.ptr, n);
    u.rest = df_str_n(s.ptr + n, s.len - n);

    const char *at = memrchr(authority.ptr, '@', authority.len);
    if (at) {
        u.userinfo = df_str_n(authority.ptr, (size_t)(at - authority.ptr));
        /* With a second '@', readers of URLs disagree about the host. */
        if (memchr(u.userinfo.ptr, '@', u.userinfo.len))
            return df_err_set(err, DF_E_BAD_REQUEST, "the URL's user part contains an @");
        authority = df_str_n(at + 1, authority.len - u.userinfo.len - 1);
    }
    if (!take_host(&authority, &u))
        return df_err_set(err, DF_E_BAD_REQUEST, "the URL's host is missing or malformed");
    if (!take_port(authority, &u))
        return df_err_set(err, DF_E_BAD_REQUEST, "the URL's port is malformed");
    *ret = u;
    return DF_OK;
}

/* The host in lower case, without a dot at its end; an IPv6 address as inet_ntop writes it. Returns
 * its length. */
static size_t write_host(const struct df_url *u, char out[DF_DESTINATION_SIZE])
{
    struct in6_addr address;
    size_t len = u->host.len;

    if (!u->ipv6 && len > 1 && u->host.ptr[len - 1] == '.')
        len--;
    for (size_t i = 0; i < len; i++)
        out[i] = (char)tolower((unsigned char)u->host.ptr[i]);
    out[len] = '\0';
    if (u->ipv6 && inet_pton(AF_INET6, out, &address) == 1)
        return strlen(inet_ntop(AF_INET6, &address, out, INET6_ADDRSTRLEN));
    return len;
}

struct df_str df_url_destination(const struct df_url *u, char out[DF_DESTINATION_SIZE])
{
    char host[DF_DESTINATION_SIZE];
    struct df_str scheme = u->tls ? DF_STR("https://") : DF_STR("http://");
    size_t len = scheme.len;

    assert(u->host.len <= 253); /* df_url_parse has checked it */
    size_t host_len = write_host(u, host);
    memcpy(out, scheme.ptr, scheme.len);
    if (u->ipv6)
        out[len++] = '[';
    memcpy(out + len, host, host_len);
    len += host_len;
    if (u->ipv6)
        out[len++] = ']';
    out[len] = '\0';
    if (u->port != (u->tls ? 443 : 80))
        len += (size_t)snprintf(out + len, DF_DESTINATION_SIZE - len, ":%u", u->port);
    assert(len < DF_DESTINATION_SIZE);
    return df_str_n(out, len);
}

struct df_str df_destination_of(const char *url, char out[DF_DESTINATION_SIZE])
{
    struct df_err err = DF_ERR_INIT;
    struct df_url u = {0};

    if (df_url_parse(df_str_c(url), &u, &err) != DF_OK)
        return DF_STR("invalid URL");
    return df_url_destination(&u, out);
}

#include "locks/redis_url.h"

#include "net/url.h"

#include <stdio.h>

#define PORT         6379
#define DATABASE_MAX 1023

/* Percent-decoded; false: too long, or a control character. */
static bool copy_decoded(struct df_str s, char *out, size_t size)
{
    size_t n = 0;

    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        if (c == '%') {
            int high = i + 2 < s.len ? df_hex_digit(s.ptr[i + 1]) : -1;
            int low = i + 2 < s.len ? df_hex_digit(s.ptr[i + 2]) : -1;
            if (high < 0 || low < 0)
                return false;
            c = (char)(high << 4 | low);
            i += 2;
        }
        if (n + 1 >= size || (unsigned char)c < 0x20)
            return false;
        out[n++] = c;
    }
    out[n] = '\0';
    return true;
}

/* user:password, or :password. */
static bool read_login(struct df_str userinfo, struct redis_url *ret)
{
    struct df_str user;
    struct df_str password = df_str_cut(userinfo, ':', &user);

    return !userinfo.ptr || (copy_decoded(user, ret->user, sizeof ret->user) &&
                             copy_decoded(password, ret->password, sizeof ret->password) &&
                             ret->password[0] != '\0');
}

static bool read_database(struct df_str path, struct redis_url *ret)
{
    int64_t n = 0;

    if (path.len > 0 && path.ptr[0] == '/')
        path = df_str_n(path.ptr + 1, path.len - 1);
    if (path.len > 0 && (!df_str_to_i64(path, &n) || n < 0 || n > DATABASE_MAX))
        return false;
    ret->database = (unsigned)n;
    return true;
}

static enum df_code read_url(struct df_str text, struct redis_url *ret, struct df_err *err)
{
    char http[DF_URL_MAX + 1];
    struct df_url u;

    ret->tls = df_str_starts(text, DF_STR("rediss://"));
    if (!ret->tls && !df_str_starts(text, DF_STR("redis://")))
        return df_err_set(err, DF_E_CONFIG, "it must begin with redis:// or rediss://");
    size_t scheme = ret->tls ? sizeof "rediss" - 1 : sizeof "redis" - 1;
    int len = snprintf(http, sizeof http, "%s" DF_STR_FMT, ret->tls ? "https" : "http",
                       (int)(text.len - scheme), text.ptr + scheme);
    enum df_code code = len < 0 || (size_t)len >= sizeof http
                            ? df_err_set(err, DF_E_CONFIG, "it is too long")
                            : df_url_parse(df_str_n(http, (size_t)len), &u, err);
    if (code != DF_OK)
        goto out;
    const char *after = u.host.ptr + u.host.len + (u.ipv6 ? 1 : 0);
    unsigned port = *after == ':' ? u.port : PORT;
    const char *open = u.ipv6 ? "[" : "", *close = u.ipv6 ? "]" : "";
    (void)snprintf(ret->address, sizeof ret->address, "%s" DF_STR_FMT "%s:%u", open,
                   DF_STR_ARG(u.host), close, port);
    (void)snprintf(ret->dial, sizeof ret->dial, "%s://%s", ret->tls ? "https" : "http",
                   ret->address);
    ret->loopback = df_host_is_loopback(u.host);
    if (!read_login(u.userinfo, ret) || !read_database(u.rest, ret))
        code = df_err_set(err, DF_E_CONFIG, "write redis://[user:password@]host[:port][/database]");
out:
    df_wipe(http, sizeof http);
    return code;
}

enum df_code redis_url_nth(const struct df_secret *list, size_t nth, struct redis_url *ret,
                           struct df_err *err)
{
    struct df_str rest = df_secret_str(list), one;

    *ret = (struct redis_url){.tls = false};
    while (rest.len > 0) {
        rest = df_str_cut(rest, ',', &one);
        one = df_str_trim(one);
        if (one.len > 0 && nth-- == 0)
            return read_url(one, ret, err);
    }
    return DF_DONE;
}

void redis_url_wipe(struct redis_url *url)
{
    df_wipe(url, sizeof *url);
}

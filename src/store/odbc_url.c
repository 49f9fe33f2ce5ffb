/*
 * Turns sqlserver://user:password@host:port/database?options into a connection string for FreeTDS.
 *
 * FreeTDS knows no failover partner: the URL has a connection string for each of the two servers,
 * and odbc.c tries them in turn. What drivers call multi-subnet failover FreeTDS always does: it
 * dials all addresses of a name at once.
 *
 * Neither unixODBC nor FreeTDS has a way to quote every character: a value in braces ends at the
 * first "}" for the one and at the first "};" for the other. So a value is written as it is where
 * possible, else in braces where possible, and is refused otherwise.
 */
#include "store/odbc_private.h"

#include <stdio.h>

#define DEFAULT_PORT 1433

enum option {
    OPTION_ENCRYPT,
    OPTION_APP,
    OPTION_DRIVER,
    OPTION_SERVERNAME,
    OPTION_PARTNER,
    OPTION_SUBNETS,
    OPTION_COUNT
};

static const char *const option_names[OPTION_COUNT] = {
    "encrypt", "app", "driver", "servername", "failover_partner", "multi_subnet_failover"};

/* Options of other drivers that this one does not have; spelt with or without underscores. */
static const struct {
    const char *name;
    const char *why;
} refused_options[] = {
    {"instance", "named instances are not looked up: give the port the instance listens on"},
    {"instancename", "named instances are not looked up: give the port the instance listens on"},
    {"trustedconnection", "integrated authentication is not supported: give a user and a password"},
    {"integratedsecurity",
     "integrated authentication is not supported: give a user and a password"},
    {"trustservercertificate",
     "the certificate is verified only with servername=, a section of freetds.conf that has a "
     "'ca file'; leave the option out"},
};

struct url_server {
    struct df_str host; /* or a section of freetds.conf */
    int64_t port;
};

struct url_parts {
    struct df_str user;
    struct df_str password;
    struct df_str database;
    struct url_server servers[ODBC_SERVERS]; /* the partner's host may be absent */
    struct df_str options[OPTION_COUNT];
};

static enum df_code refuse_url(struct df_err *err, const char *why)
{
    /* Never shows the URL itself: a misplaced password would reach the log. */
    return df_err_set(err, DF_E_CONFIG,
                      "database.url sqlserver://user:password@host:port/database: %s", why);
}

static bool decode_part(struct df_arena *a, struct df_str s, struct df_str *ret)
{
    char *out = df_arena_alloc(a, s.len + 1);
    size_t len = 0;

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
        if ((unsigned char)c < 0x20)
            return false;
        out[len++] = c;
    }
    out[len] = '\0';
    *ret = df_str_n(out, len);
    return df_utf8_valid_prefix(*ret) == len;
}

static enum df_code take_option(struct df_arena *a, struct df_str pair, struct url_parts *p,
                                struct df_err *err)
{
    struct df_str key;
    struct df_str value = df_str_cut(pair, '=', &key);

    char plain[32];
    size_t len = 0;
    for (size_t i = 0; i < key.len && len < sizeof(plain); i++) {
        if (key.ptr[i] != '_')
            plain[len++] = key.ptr[i];
    }
    for (size_t i = 0; i < sizeof(refused_options) / sizeof(refused_options[0]); i++) {
        if (df_str_ieq(df_str_n(plain, len), df_str_c(refused_options[i].name)))
            return refuse_url(err, refused_options[i].why);
    }
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        if (!df_str_eq(key, df_str_c(option_names[i])))
            continue;
        if (p->options[i].ptr)
            return refuse_url(err, "an option is given twice");
        if (!value.ptr || !decode_part(a, value, &p->options[i]))
            return refuse_url(err, "an option is not percent-encoded UTF-8");
        return DF_OK;
    }
    return refuse_url(err, "an unknown option; there are encrypt, app, driver, servername, "
                           "failover_partner and multi_subnet_failover");
}

static enum df_code take_host(struct df_str authority, struct url_server *p, struct df_err *err)
{
    struct df_str port;

    p->port = DEFAULT_PORT;
    if (authority.len > 0 && authority.ptr[0] == '[') {
        const char *close = memchr(authority.ptr, ']', authority.len);
        if (!close)
            return refuse_url(err, "the address has no closing bracket");
        p->host = df_str_n(authority.ptr + 1, (size_t)(close - authority.ptr) - 1);
        port = df_str_n(close + 1, (size_t)(authority.ptr + authority.len - close) - 1);
        if (port.len > 0 && port.ptr[0] != ':')
            return refuse_url(err, "something stands behind the bracket that is no port");
        port = port.len > 0 ? df_str_n(port.ptr + 1, port.len - 1) : DF_STR_NULL;
    } else {
        port = df_str_cut(authority, ':', &p->host);
    }
    if (p->host.len == 0)
        return refuse_url(err, "the host is missing");
    if (memchr(p->host.ptr, '\\', p->host.len))
        return refuse_url(err, refused_options[0].why);
    if (strspn(p->host.ptr, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                            ".-_:%") < p->host.len)
        return refuse_url(err, "the host has a character that no host has");
    if (port.ptr && (!df_str_to_i64(port, &p->port) || p->port < 1 || p->port > 65535))
        return refuse_url(err, "the port is not a number from 1 to 65535");
    return DF_OK;
}

/* Beside servername= the partner is a section too: FreeTDS verifies no other. */
static enum df_code take_partner(struct url_parts *p, struct df_err *err)
{
    struct df_str partner = p->options[OPTION_PARTNER], subnets = p->options[OPTION_SUBNETS];
    bool on = true;

    if (subnets.ptr && (!df_str_to_bool(subnets, &on) || !on))
        return refuse_url(err, "multi_subnet_failover is on: all addresses of a name are dialled "
                               "at once in any case");
    if (!partner.ptr)
        return DF_OK;
    if (subnets.ptr)
        return refuse_url(err, "failover_partner is for mirroring, multi_subnet_failover for the "
                               "listener of an availability group: give one of them");
    if (!p->options[OPTION_SERVERNAME].ptr)
        return take_host(partner, &p->servers[ODBC_PARTNER], err);
    p->servers[ODBC_PARTNER].host = partner;
    return partner.len > 0 ? DF_OK : refuse_url(err, "failover_partner names no section");
}

static enum df_code parse_url(struct df_arena *a, const char *url, struct url_parts *p,
                              struct df_err *err)
{
    static const char scheme[] = "sqlserver://";
    struct df_str rest = df_str_c(url + sizeof(scheme) - 1);
    struct df_str authority;
    struct df_str path;

    struct df_str query = df_str_cut(rest, '?', &path);
    struct df_str database = df_str_cut(path, '/', &authority);
    const char *at = memrchr(authority.ptr, '@', authority.len);
    if (!at)
        return refuse_url(err, "the user is missing; integrated authentication is not supported");
    struct df_str user;
    struct df_str password =
        df_str_cut(df_str_n(authority.ptr, (size_t)(at - authority.ptr)), ':', &user);
    size_t host_at = (size_t)(at - authority.ptr) + 1;

    enum df_code code = take_host(df_str_n(authority.ptr + host_at, authority.len - host_at),
                                  &p->servers[ODBC_FIRST], err);
    if (code != DF_OK)
        return code;
    if (!decode_part(a, user, &p->user) ||
        !decode_part(a, password.ptr ? password : DF_STR(""), &p->password))
        return refuse_url(err, "user or password are not percent-encoded UTF-8");
    if (p->user.len == 0)
        return refuse_url(err, "the user is missing; integrated authentication is not supported");
    if (!database.ptr || database.len == 0)
        return refuse_url(err, "the database is missing");
    if (!decode_part(a, database, &p->database) || memchr(p->database.ptr, '/', p->database.len))
        return refuse_url(err, "the database's name is not percent-encoded UTF-8");
    while (code == DF_OK && query.ptr && query.len > 0) {
        struct df_str pair;
        query = df_str_cut(query, '&', &pair);
        code = take_option(a, pair, p, err);
    }
    return code == DF_OK ? take_partner(p, err) : code;
}

/* False: ODBC cannot express the value. */
static bool add_attribute(struct df_buf *out, const char *key, struct df_str value)
{
    bool braces = value.len > 0 && (memchr(value.ptr, ';', value.len) || value.ptr[0] == '{' ||
                                    value.ptr[0] == ' ' || value.ptr[value.len - 1] == ' ');
    if (braces && memchr(value.ptr, '}', value.len))
        return false;
    df_buf_addf(out, "%s=%s", key, braces ? "{" : "");
    df_buf_adds(out, value);
    df_buf_addz(out, braces ? "};" : ";");
    return true;
}

enum df_code df_odbc_connection_string(const char *url, enum odbc_server which, struct df_buf *out,
                                       char server[DF_DB_SERVER_MAX], struct df_err *err)
{
    struct df_arena arena = {0};
    struct url_parts p = {0};
    bool encrypt = true;

    df_arena_init(&arena);
    enum df_code code = parse_url(&arena, url, &p, err);
    if (code != DF_OK)
        goto out;
    const struct url_server *at = &p.servers[which];
    if (!at->host.ptr) {
        code = DF_E_NOT_FOUND;
        goto out;
    }
    struct df_str app = p.options[OPTION_APP];
    struct df_str driver = p.options[OPTION_DRIVER];
    if (p.options[OPTION_ENCRYPT].ptr && !df_str_to_bool(p.options[OPTION_ENCRYPT], &encrypt)) {
        code = refuse_url(err, "encrypt is on or off");
        goto out;
    }
    struct df_str section = p.options[OPTION_SERVERNAME];
    if (section.ptr && which == ODBC_PARTNER)
        section = at->host;
    /* FreeTDS reads freetds.conf only for a named section, which then gives host and port. */
    bool said = add_attribute(out, "DRIVER", driver.ptr ? driver : DF_STR("FreeTDS")) &&
                add_attribute(out, section.ptr ? "Servername" : "Server",
                              section.ptr ? section : at->host) &&
                add_attribute(out, "UID", p.user) && add_attribute(out, "PWD", p.password) &&
                add_attribute(out, "Database", p.database) &&
                add_attribute(out, "APP", app.ptr ? app : DF_STR("dataflow"));
    if (!section.ptr)
        df_buf_addf(out, "Port=%lld;", (long long)at->port);
    df_buf_addf(out, "TDS_Version=7.4;Encryption=%s;", encrypt ? "require" : "off");
    /* Overrides freetds.conf, which may limit texts to 64 KiB and would cut longer ones. */
    df_buf_addz(out, "TextSize=2147483647;ClientCharset=UTF-8;");
    if (!said)
        code =
            refuse_url(err, "a value with both ';' (or a blank at an end, or '{' at the start) and "
                            "'}' cannot be said to ODBC");
    else if (df_buf_failed(out))
        code = refuse_url(err, "it is too long");
    if (section.ptr)
        (void)snprintf(server, DF_DB_SERVER_MAX, DF_STR_FMT, DF_STR_ARG(section));
    else
        (void)snprintf(server, DF_DB_SERVER_MAX, DF_STR_FMT ":%lld", DF_STR_ARG(at->host),
                       (long long)at->port);
out:
    df_arena_release(&arena);
    return code;
}

void df_odbc_url_risk(const char *url, bool strict, struct df_buf *out)
{
    struct df_arena arena = {0};
    struct url_parts p = {0};
    bool encrypt = true;

    (void)strict; /* FreeTDS verifies name and authority, or neither */
    df_arena_init(&arena);
    bool understood = parse_url(&arena, url, &p, NULL) == DF_OK;
    if (understood && p.options[OPTION_ENCRYPT].ptr)
        (void)df_str_to_bool(p.options[OPTION_ENCRYPT], &encrypt);
    struct df_str partner = p.servers[ODBC_PARTNER].host;
    if (understood &&
        (!df_host_is_loopback(p.servers[ODBC_FIRST].host) ||
         (partner.ptr && !df_host_is_loopback(partner))) &&
        (!p.options[OPTION_SERVERNAME].ptr || !encrypt))
        df_buf_addf(out,
                    "%s: whoever stands between can read and change everything; write "
                    "servername=SECTION, a section of freetds.conf with a 'ca file'%s",
                    encrypt ? "the server's certificate is not verified"
                            : "with encrypt=off everything goes in the clear",
                    encrypt ? "" : ", and leave out encrypt=off");
    df_arena_release(&arena);
}

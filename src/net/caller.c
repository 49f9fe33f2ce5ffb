#include "net/caller.h"

#include "base/mem.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#define ADDRESS_BITS 128
#define V4_BITS      96 /* length of the prefix of IPv4 addresses */

/* --- addresses -------------------------------------------------------------------------------- */

static struct df_ip ip_of_v4(const void *four)
{
    struct df_ip ip = {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF}};
    memcpy(ip.bytes + 12, four, 4);
    return ip;
}

static bool is_v4(const struct df_ip *ip)
{
    static const unsigned char prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};
    return memcmp(ip->bytes, prefix, sizeof(prefix)) == 0;
}

bool df_ip_of_sockaddr(const struct sockaddr *sa, struct df_ip *ret)
{
    /* Copied out: the storage behind a sockaddr need not be aligned for its family's struct. */
    if (sa && sa->sa_family == AF_INET6) {
        struct sockaddr_in6 in6;
        memcpy(&in6, sa, sizeof(in6));
        memcpy(ret->bytes, in6.sin6_addr.s6_addr, sizeof(ret->bytes));
        return true;
    }
    if (sa && sa->sa_family == AF_INET) {
        struct sockaddr_in in;
        memcpy(&in, sa, sizeof(in));
        *ret = ip_of_v4(&in.sin_addr);
        return true;
    }
    return false;
}

bool df_ip_parse(struct df_str text, struct df_ip *ret)
{
    char copy[DF_IP_TEXT];
    unsigned char four[4];

    if (text.len == 0 || text.len >= sizeof(copy) || memchr(text.ptr, '\0', text.len))
        return false;
    memcpy(copy, text.ptr, text.len);
    copy[text.len] = '\0';
    if (inet_pton(AF_INET, copy, four) == 1) {
        *ret = ip_of_v4(four);
        return true;
    }
    return inet_pton(AF_INET6, copy, ret->bytes) == 1;
}

bool df_ip_is_loopback(const struct df_ip *ip)
{
    static const struct df_ip one = {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
    return is_v4(ip) ? ip->bytes[12] == 127 : memcmp(ip, &one, sizeof(one)) == 0;
}

struct df_ip df_ip_network(const struct df_ip *ip)
{
    struct df_ip net = *ip;
    if (!is_v4(ip))
        memset(net.bytes + 8, 0, 8);
    return net;
}

void df_ip_text(const struct df_ip *ip, char out[DF_IP_TEXT])
{
    if (is_v4(ip))
        (void)inet_ntop(AF_INET, ip->bytes + 12, out, DF_IP_TEXT);
    else
        (void)inet_ntop(AF_INET6, ip->bytes, out, DF_IP_TEXT);
}

void df_ip_network_text(const struct df_ip *ip, char out[DF_NETWORK_TEXT])
{
    struct df_ip net = df_ip_network(ip);
    char text[DF_IP_TEXT];

    df_ip_text(&net, text);
    snprintf(out, DF_NETWORK_TEXT, "%s%s", text, is_v4(ip) ? "" : "/64");
}

/* --- the proxies that are trusted ------------------------------------------------------------- */

static bool bit_of(const struct df_ip *ip, unsigned i)
{
    return ip->bytes[i / 8] >> (7 - i % 8) & 1;
}

static bool is_within(const struct df_ip *ip, const struct df_proxy_net *n)
{
    /* ::/8 does not include IPv4, although both have this form here. */
    if (is_v4(ip) != is_v4(&n->net))
        return false;
    for (unsigned i = 0; i < n->bits; i++) {
        if (bit_of(ip, i) != bit_of(&n->net, i))
            return false;
    }
    return true;
}

bool df_proxies_have(const struct df_proxies *p, const struct df_ip *ip)
{
    for (size_t i = 0; i < p->count; i++) {
        if (is_within(ip, &p->nets[i]))
            return true;
    }
    return false;
}

static enum df_code parse_net(struct df_str text, struct df_proxy_net *ret, struct df_err *err)
{
    struct df_str address;
    struct df_str bits = df_str_cut(text, '/', &address);
    int64_t n;

    if (!df_ip_parse(address, &ret->net))
        return df_err_set(err, DF_E_CONFIG, "\"" DF_STR_FMT "\" is no IPv4 or IPv6 address",
                          DF_STR_ARG(address));
    unsigned before = is_v4(&ret->net) && !memchr(address.ptr, ':', address.len) ? V4_BITS : 0;
    ret->bits = ADDRESS_BITS;
    if (!bits.ptr)
        return DF_OK;
    if (!df_str_to_i64(bits, &n) || n < 1 || n > ADDRESS_BITS - before)
        return df_err_set(err, DF_E_CONFIG,
                          "\"" DF_STR_FMT "\": a network's length is from /1 to /%u",
                          DF_STR_ARG(text), ADDRESS_BITS - before);
    ret->bits = before + (unsigned)n;
    for (unsigned i = ret->bits; i < ADDRESS_BITS; i++) {
        if (bit_of(&ret->net, i))
            return df_err_set(err, DF_E_CONFIG,
                              "\"" DF_STR_FMT "\" is an address within its network, not a network",
                              DF_STR_ARG(text));
    }
    return DF_OK;
}

enum df_code df_proxies_parse(const char *text, struct df_proxies *ret, struct df_err *err)
{
    struct df_str rest = df_str_trim(df_str_c(text ? text : ""));

    *ret = (struct df_proxies){0};
    while (rest.len > 0) {
        struct df_str item;
        rest = df_str_cut(rest, ',', &item);
        ret->nets = df_realloc(ret->nets, (ret->count + 1) * sizeof(*ret->nets));
        enum df_code code = parse_net(df_str_trim(item), &ret->nets[ret->count], err);
        if (code != DF_OK) {
            df_proxies_release(ret);
            return code;
        }
        ret->count++;
    }
    return DF_OK;
}

void df_proxies_release(struct df_proxies *p)
{
    free(p->nets);
    *p = (struct df_proxies){0};
}

/* --- what the fields say ---------------------------------------------------------------------- */

/* ":4711" or nothing. */
static bool is_port(struct df_str s)
{
    if (s.len == 0)
        return true;
    if (s.ptr[0] != ':' || s.len < 2 || s.len > 6)
        return false;
    for (size_t i = 1; i < s.len; i++) {
        if (s.ptr[i] < '0' || s.ptr[i] > '9')
            return false;
    }
    return true;
}

/* A node: 192.0.2.7, 192.0.2.7:4711, [2001:db8::1],
 * [2001:db8::1]:4711; bare: 2001:db8::1 as well. */
static bool parse_node(struct df_str s, struct df_ip *ret)
{
    struct df_str port;

    if (df_ip_parse(s, ret))
        return true;
    if (s.len > 0 && s.ptr[0] == '[') {
        const char *end = memchr(s.ptr, ']', s.len);
        if (!end)
            return false;
        port = df_str_n(end + 1, s.len - (size_t)(end + 1 - s.ptr));
        s = df_str_n(s.ptr + 1, (size_t)(end - s.ptr) - 1);
        return memchr(s.ptr, ':', s.len) && df_ip_parse(s, ret) && is_port(port);
    }
    const char *colon = s.len > 0 ? memchr(s.ptr, ':', s.len) : NULL;
    if (!colon)
        return false;
    port = df_str_n(colon, s.len - (size_t)(colon - s.ptr));
    s.len = (size_t)(colon - s.ptr);
    return df_ip_parse(s, ret) && is_port(port);
}

/* Adds the next hop of a list, from left to right: the last untrusted hop remains. */
static void add_hop(enum df_named *named, struct df_ip *at, const struct df_proxies *p,
                    struct df_str node)
{
    struct df_ip ip;

    if (!parse_node(node, &ip)) {
        *named = DF_NAMED_UNKNOWN;
        return;
    }
    if (df_proxies_have(p, &ip))
        return;
    *named = DF_NAMED_ADDRESS;
    *at = ip;
}

static void add_list(struct df_forwarded *f, const struct df_proxies *p, struct df_str value)
{
    while (value.ptr) {
        struct df_str item;
        value = df_str_cut(value, ',', &item);
        item = df_str_trim(item);
        if (item.len > 0)
            add_hop(&f->x_forwarded_for, &f->x_forwarded_for_ip, p, item);
    }
}

/*
 * Cuts at the first sep outside quotes. False: a quote is not closed. Escapes stay, since no
 * address needs one.
 */
static bool cut_unquoted(struct df_str *rest, char sep, struct df_str *head)
{
    bool quoted = false;

    for (size_t i = 0; i < rest->len; i++) {
        char c = rest->ptr[i];
        if (quoted && c == '\\')
            i++;
        else if (c == '"')
            quoted = !quoted;
        else if (c == sep && !quoted) {
            *head = df_str_n(rest->ptr, i);
            *rest = df_str_n(rest->ptr + i + 1, rest->len - i - 1);
            return true;
        }
    }
    *head = *rest;
    *rest = DF_STR_NULL;
    return !quoted;
}

/* The for=… of one element; empty when it has none. */
static struct df_str node_of(struct df_str element)
{
    while (element.ptr) {
        struct df_str pair;
        struct df_str name;
        if (!cut_unquoted(&element, ';', &pair))
            break;
        struct df_str value = df_str_cut(pair, '=', &name);
        if (!df_str_ieq(df_str_trim(name), DF_STR("for")))
            continue;
        value = df_str_trim(value);
        if (value.len >= 2 && value.ptr[0] == '"' && value.ptr[value.len - 1] == '"')
            return df_str_n(value.ptr + 1, value.len - 2);
        return value;
    }
    return DF_STR("");
}

/* RFC 7239: for=192.0.2.60;proto=http;by=203.0.113.43, for="[2001:db8::1]:4711" */
static void add_forwarded(struct df_forwarded *f, const struct df_proxies *p, struct df_str value)
{
    while (value.ptr) {
        struct df_str element;
        if (!cut_unquoted(&value, ',', &element)) {
            f->forwarded = DF_NAMED_UNKNOWN;
            return;
        }
        element = df_str_trim(element);
        if (element.len > 0)
            add_hop(&f->forwarded, &f->forwarded_ip, p, node_of(element));
    }
}

void df_forwarded_add(struct df_forwarded *f, const struct df_proxies *p, struct df_str name,
                      struct df_str value)
{
    if (df_str_ieq(name, DF_STR("Forwarded")))
        add_forwarded(f, p, value);
    else if (df_str_ieq(name, DF_STR("X-Forwarded-For")))
        add_list(f, p, value);
}

bool df_forwarded_caller(const struct df_forwarded *f, struct df_ip *ret)
{
    bool both = f->forwarded != DF_NAMED_NOBODY && f->x_forwarded_for != DF_NAMED_NOBODY;
    enum df_named named = f->forwarded != DF_NAMED_NOBODY ? f->forwarded : f->x_forwarded_for;
    struct df_ip ip = f->forwarded != DF_NAMED_NOBODY ? f->forwarded_ip : f->x_forwarded_for_ip;

    if (named != DF_NAMED_ADDRESS)
        return false;
    if (both && (f->x_forwarded_for != DF_NAMED_ADDRESS ||
                 memcmp(&ip, &f->x_forwarded_for_ip, sizeof(ip)) != 0))
        return false;
    *ret = ip;
    return true;
}

bool df_field_is_of_proxy(struct df_str name)
{
    static const struct df_str prefix = DF_STR_INIT("X-Forwarded-");

    return df_str_ieq(name, DF_STR("Forwarded")) || df_str_ieq(name, DF_STR("Via")) ||
           df_str_ieq(name, DF_STR("X-Real-IP")) ||
           (name.len > prefix.len && df_str_ieq(df_str_n(name.ptr, prefix.len), prefix));
}

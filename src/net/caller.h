/*
 * Finds the caller's address behind proxies. The caller is the peer of the connection, unless the
 * peer is a trusted proxy: then it is the last address of `Forwarded` or `X-Forwarded-For` that is
 * not itself a trusted proxy's. Entries to the left of it were written by untrusted hosts.
 *
 * The caller is also the peer when the fields name no caller (`unknown`, an obfuscated name, text
 * that is no address, trusted proxies only), and when both fields are present and name different
 * callers: a proxy that writes one of them passes the other on as the caller sent it.
 *
 * Nothing here touches a socket or keeps state; `struct df_proxies` is read-only once parsed.
 */
#ifndef DF_NET_CALLER_H
#define DF_NET_CALLER_H

#include "base/err.h"
#include "base/str.h"

#include <netinet/in.h>

struct sockaddr;

/* IPv4 is kept as ::ffff:a.b.c.d, so that one form serves both. */
struct df_ip {
    unsigned char bytes[16];
};

struct df_proxy_net {
    struct df_ip net;
    unsigned bits; /* of the 128 */
};

struct df_proxies {
    struct df_proxy_net *nets;
    size_t count;
};

/* Parses "10.0.0.0/8, 192.0.2.7, 2001:db8::/32"; NULL and "" are an empty list. DF_E_CONFIG: err
 * says what is wrong. */
enum df_code df_proxies_parse(const char *text, struct df_proxies *ret,
                              struct df_err *err) DF_MUST_CHECK;
void df_proxies_release(struct df_proxies *p);
bool df_proxies_have(const struct df_proxies *p, const struct df_ip *ip);

bool df_ip_of_sockaddr(const struct sockaddr *sa, struct df_ip *ret);
/* An address in its usual spelling; no name, no port, no zone. */
bool df_ip_parse(struct df_str text, struct df_ip *ret);
bool df_ip_is_loopback(const struct df_ip *ip);
/* The address itself for IPv4; for IPv6 its /64 network, all of which belongs to one caller. */
struct df_ip df_ip_network(const struct df_ip *ip);

#define DF_IP_TEXT      INET6_ADDRSTRLEN
#define DF_NETWORK_TEXT (INET6_ADDRSTRLEN + sizeof("/64"))
/* "192.0.2.7", "2001:db8::1" */
void df_ip_text(const struct df_ip *ip, char out[DF_IP_TEXT]);
/* "192.0.2.7", "2001:db8:0:1::/64" */
void df_ip_network_text(const struct df_ip *ip, char out[DF_NETWORK_TEXT]);

/* What the fields of a request say about the caller; fed with its header lines in order. */
enum df_named { DF_NAMED_NOBODY, DF_NAMED_UNKNOWN, DF_NAMED_ADDRESS };

struct df_forwarded {
    enum df_named forwarded;
    enum df_named x_forwarded_for;
    struct df_ip forwarded_ip;
    struct df_ip x_forwarded_for_ip;
};

/* Adds one header line; lines with other names are ignored. */
void df_forwarded_add(struct df_forwarded *f, const struct df_proxies *p, struct df_str name,
                      struct df_str value);
/* False: the caller is the peer. */
bool df_forwarded_caller(const struct df_forwarded *f, struct df_ip *ret);

/* Whether a field of this name shows that a proxy passed the request on. */
bool df_field_is_of_proxy(struct df_str name);

#endif

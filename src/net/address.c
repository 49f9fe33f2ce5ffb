/*
 * Tells public Internet addresses from others. The tables follow IANA's special-purpose registries
 * (RFC 6890 and later): an address is not public if it is not globally reachable, or may lead to
 * one that is not. IPv6 forms that embed an IPv4 address are judged by that address.
 */
#include "net/client.h"

#include <netinet/in.h>
#include <sys/socket.h>

struct net4 {
    uint32_t net;
    unsigned bits;
};

#define IP4(a, b, c, d)                                                                            \
    ((uint32_t)(a) << 24 | (uint32_t)(b) << 16 | (uint32_t)(c) << 8 | (uint32_t)(d))

static const struct net4 special4[] = {
    {IP4(0, 0, 0, 0), 8},       /* this network */
    {IP4(10, 0, 0, 0), 8},      /* private */
    {IP4(100, 64, 0, 0), 10},   /* carrier-grade NAT */
    {IP4(127, 0, 0, 0), 8},     /* loopback */
    {IP4(169, 254, 0, 0), 16},  /* link-local, cloud metadata */
    {IP4(172, 16, 0, 0), 12},   /* private */
    {IP4(192, 0, 0, 0), 24},    /* protocol assignments */
    {IP4(192, 0, 2, 0), 24},    /* documentation */
    {IP4(192, 31, 196, 0), 24}, /* AS112 */
    {IP4(192, 52, 193, 0), 24}, /* AMT relays */
    {IP4(192, 88, 99, 0), 24},  /* 6to4 relays */
    {IP4(192, 168, 0, 0), 16},  /* private */
    {IP4(192, 175, 48, 0), 24}, /* AS112 */
    {IP4(198, 18, 0, 0), 15},   /* benchmarks */
    {IP4(198, 51, 100, 0), 24}, /* documentation */
    {IP4(203, 0, 113, 0), 24},  /* documentation */
    {IP4(224, 0, 0, 0), 4},     /* multicast */
    {IP4(240, 0, 0, 0), 4},     /* reserved, broadcast */
};

enum verdict6 { REFUSED, INNER_AT_2, INNER_AT_12 };

struct net6 {
    unsigned char net[16];
    unsigned bits;
    enum verdict6 verdict;
};

/* The first row that matches decides; an address without a row must be global unicast, 2000::/3. */
static const struct net6 special6[] = {
    {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}, 96, INNER_AT_12}, /* IPv4-mapped */
    {{0}, 96, REFUSED},                                            /* ::, ::1, IPv4-compatible */
    {{0x00, 0x64, 0xff, 0x9b}, 96, INNER_AT_12},                   /* NAT64, well-known prefix */
    {{0x00, 0x64, 0xff, 0x9b, 0, 1}, 48, REFUSED},                 /* NAT64, local prefixes */
    {{0x01}, 64, REFUSED},                                         /* discard-only */
    {{0x20, 0x01}, 23, REFUSED},                                   /* Teredo, ORCHID, … */
    {{0x20, 0x01, 0x0d, 0xb8}, 32, REFUSED},                       /* documentation */
    {{0x20, 0x02}, 16, INNER_AT_2},                                /* 6to4 */
    {{0x26, 0x20, 0, 0x4f, 0x80}, 48, REFUSED},                    /* AS112 */
    {{0x3f, 0xff}, 20, REFUSED},                                   /* documentation */
    {{0xfc}, 7, REFUSED},                                          /* unique local */
    {{0xfe, 0x80}, 10, REFUSED},                                   /* link-local */
    {{0xfe, 0xc0}, 10, REFUSED},                                   /* site-local */
    {{0xff}, 8, REFUSED},                                          /* multicast */
};

static bool public4(uint32_t addr)
{
    for (size_t i = 0; i < sizeof(special4) / sizeof(special4[0]); i++) {
        uint32_t mask = UINT32_MAX << (32 - special4[i].bits);
        if ((addr & mask) == special4[i].net)
            return false;
    }
    return true;
}

static bool in_net6(const unsigned char *addr, const struct net6 *n)
{
    size_t whole = n->bits / 8;
    if (memcmp(addr, n->net, whole) != 0)
        return false;
    unsigned rest = n->bits % 8;
    if (rest == 0)
        return true;
    unsigned mask = 0xff00U >> rest & 0xffU;
    return (addr[whole] & mask) == (n->net[whole] & mask);
}

static bool public_inner4(const unsigned char *p)
{
    return public4(IP4(p[0], p[1], p[2], p[3]));
}

static bool public6(const unsigned char *addr)
{
    for (size_t i = 0; i < sizeof(special6) / sizeof(special6[0]); i++) {
        if (!in_net6(addr, &special6[i]))
            continue;
        switch (special6[i].verdict) {
        case REFUSED:
            return false;
        case INNER_AT_2:
            return public_inner4(addr + 2);
        case INNER_AT_12:
            return public_inner4(addr + 12);
        }
    }
    return (addr[0] & 0xe0) == 0x20;
}

bool df_address_is_public(const struct sockaddr *sa)
{
    /* Copied out: the storage behind a sockaddr need not be aligned for its family's struct. */
    if (sa->sa_family == AF_INET) {
        struct sockaddr_in in;
        memcpy(&in, sa, sizeof(in));
        return public4(ntohl(in.sin_addr.s_addr));
    }
    if (sa->sa_family == AF_INET6) {
        struct sockaddr_in6 in6;
        memcpy(&in6, sa, sizeof(in6));
        return public6(in6.sin6_addr.s6_addr);
    }
    return false;
}

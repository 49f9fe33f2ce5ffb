#include "access/network.h"

#include <arpa/inet.h>
#include <stdio.h>

/* Without a zone (fe80::1%eth0), which says by which way it came. */
static bool parse_ipv6(struct df_str address, struct in6_addr *ret)
{
    char text[INET6_ADDRSTRLEN];
    struct df_str plain;

    (void)df_str_cut(address, '%', &plain);
    if (plain.len >= sizeof text)
        return false;
    memcpy(text, plain.ptr, plain.len);
    text[plain.len] = '\0';
    return inet_pton(AF_INET6, text, ret) == 1;
}

struct df_str df_network_key(struct df_str address, char out[DF_NETWORK_MAX])
{
    struct in6_addr six;
    int len;

    if (address.len == 0)
        return DF_STR("");
    if (!memchr(address.ptr, ':', address.len) || !parse_ipv6(address, &six)) {
        size_t room = address.len < DF_NETWORK_MAX ? address.len : DF_NETWORK_MAX;
        memcpy(out, address.ptr, room);
        return df_str_n(out, room);
    }
    const unsigned char *b = six.s6_addr;
    if (IN6_IS_ADDR_V4MAPPED(&six))
        len = snprintf(out, DF_NETWORK_MAX, "%u.%u.%u.%u", b[12], b[13], b[14], b[15]);
    else
        len = snprintf(out, DF_NETWORK_MAX, "%02x%02x:%02x%02x:%02x%02x:%02x%02x::/64", b[0], b[1],
                       b[2], b[3], b[4], b[5], b[6], b[7]);
    return df_str_n(out, (size_t)len);
}

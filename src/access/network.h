/*
 * The network that an address stands for where limits are kept by address. IPv4: the address
 * itself. IPv6: its /64, since whoever has one address there has all of them. An IPv4 address in
 * IPv6's clothes (::ffff:192.0.2.7) is the IPv4 address. Pure.
 */
#ifndef DF_ACCESS_NETWORK_H
#define DF_ACCESS_NETWORK_H

#include "base/str.h"

#define DF_NETWORK_MAX 64

/* In out; a text that is no address stands for itself, cut to the room there is. */
struct df_str df_network_key(struct df_str address, char out[DF_NETWORK_MAX]);

#endif

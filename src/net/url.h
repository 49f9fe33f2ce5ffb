/*
 * Absolute http and https URLs, parsed strictly: an accepted URL means the same to every library
 * that reads it later. Slices are borrowed from the URL.
 */
#ifndef DF_NET_URL_H
#define DF_NET_URL_H

#include "base/err.h"
#include "base/str.h"

#define DF_URL_MAX 2048

struct df_url {
    bool tls;               /* https */
    struct df_str userinfo; /* absent if none; a secret: never log it */
    struct df_str host;     /* as written, IPv6 without its brackets */
    bool ipv6;              /* the host stood in brackets */
    unsigned port;          /* 80 or 443 when not given */
    struct df_str rest;     /* path, query and fragment; may be empty */
};

/*
 * The name of a URL's destination in keys of breakers and shares, metrics, log and messages:
 * "scheme://host", with ":port" unless it is the scheme's default. It is in lower case, without
 * credentials and without the dot that may end a host; an IPv6 address is in brackets, in its
 * shortest form. So all URLs of one destination have the same name.
 */
#define DF_DESTINATION_SIZE 272
struct df_str df_url_destination(const struct df_url *u, char out[DF_DESTINATION_SIZE]);
/* The same for an unparsed URL; "invalid URL" when it cannot be parsed. */
struct df_str df_destination_of(const char *url, char out[DF_DESTINATION_SIZE]);

/* DF_E_BAD_REQUEST with the reason, which holds no part of the URL except its scheme. */
enum df_code df_url_parse(struct df_str url, struct df_url *ret, struct df_err *err) DF_MUST_CHECK;

#endif

/*
 * Absolute http and https URLs, taken apart strictly: what passes here means the same to every
 * library that reads it later. Slices are borrowed from the URL.
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
 * Where a URL leads, as it is named everywhere: keys of breakers and shares, metrics, log,
 * messages. "scheme://host", and ":port" behind it unless it is the scheme's own; in lower case,
 * without credentials and without the dot that a host may end in, an IPv6 address in its shortest
 * form in brackets. So two URLs of one destination have one name however they are written.
 */
#define DF_DESTINATION_SIZE 272
struct df_str df_url_destination(const struct df_url *u, char out[DF_DESTINATION_SIZE]);
/* Of a URL that was not taken apart; "invalid URL" when it cannot be. */
struct df_str df_destination_of(const char *url, char out[DF_DESTINATION_SIZE]);

/* DF_E_BAD_REQUEST with the reason; the reason contains nothing of the URL but its scheme. */
enum df_code df_url_parse(struct df_str url, struct df_url *ret, struct df_err *err) DF_MUST_CHECK;

#endif

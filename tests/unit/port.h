/* The port that a server is bound to. */
#ifndef DF_TEST_PORT_H
#define DF_TEST_PORT_H

#include "net/http.h"

#include <stdlib.h>
#include <string.h>

static inline unsigned port_of(const struct df_http_server *s)
{
    return (unsigned)atoi(strrchr(df_http_address(s), ':') + 1);
}

#endif

/* redis://[user:password@]host[:port][/database]; rediss:// is with TLS. */
#ifndef DF_LOCKS_REDIS_URL_H
#define DF_LOCKS_REDIS_URL_H

#include "base/err.h"
#include "base/secret.h"

#define LOCK_SERVERS_MAX 5

struct redis_url {
    bool tls;
    bool loopback;
    char dial[300];     /* the same server for libcurl: http(s)://host:port */
    char address[280];  /* host:port, for people */
    char user[128];     /* empty: none */
    char password[512]; /* empty: none */
    unsigned database;
};

/* The nth of a list with commas. DF_DONE: there are fewer. An error tells why; its text has nothing
 * of the URL. */
enum df_code redis_url_nth(const struct df_secret *list, size_t nth, struct redis_url *ret,
                           struct df_err *err);
void redis_url_wipe(struct redis_url *url);

#endif

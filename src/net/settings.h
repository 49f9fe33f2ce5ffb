/* The HTTP server's settings of section [server], and checks of settings that several rooms
 * share. */
#ifndef DF_NET_SETTINGS_H
#define DF_NET_SETTINGS_H

#include "base/config.h"

/* The table of keys is in app, since the section has keys of other rooms too. 0: the default. */
struct df_http_settings {
    const char *listen;        /* "127.0.0.1:8080", "[::1]:8080", ":8080"; port 0 picks one */
    int64_t threads;           /* 0: the number of processors, at most 8 */
    int64_t max_body_bytes;    /* 0: 1 MiB */
    int64_t header_timeout_ms; /* 0: 10000 */
    int64_t idle_timeout_ms;   /* keep-alive; 0: 60000 */
    int64_t max_connections;   /* 0: 2048; each may take 32 KiB */
    int64_t max_connections_per_address; /* 0: 1024; trusted proxies have no such limit */
    const char *trusted_proxies;         /* as df_proxies_parse takes them; NULL: none */
    int64_t memory_budget_bytes;         /* of requests in flight; 0: 80 MiB */
    const char *tls_cert;                /* PEM files; both or none */
    const char *tls_key;
    const char *tls_client_ca; /* PEM; callers need a certificate of these authorities */
    bool access_log;
};

/* Each complaint is a line: "[section] name: why". */
void df_http_check_settings(const struct df_http_settings *s, struct df_buf *complaints);
/* Checks a URL, which must not hold credentials: it appears in rows and answers. Absent is fine. */
void df_net_check_url(const char *section, const char *name, struct df_str url,
                      struct df_buf *complaints);
/* Checks [section] api_key_header, which must not be a header that we set ourselves. */
void df_net_check_header(const char *section, const char *name, struct df_buf *complaints);

#endif

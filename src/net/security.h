/*
 * What this process trusts, and how it reaches others: the authorities of [security] ca_file beside
 * the system's, the proxy of [security] proxy, and [server] require_tls. There is one policy for
 * the whole process, and every connection that it opens obeys it: the HTTP client, S3, vaults,
 * brokers, probes. (libpq and librdkafka take the file's name instead: store/db.h, relay.)
 *
 * df_security_use comes before the first connection; without it only the system's authorities are
 * trusted, and there is no proxy. Every other function may be called by any thread.
 */
#ifndef DF_NET_SECURITY_H
#define DF_NET_SECURITY_H

#include "base/config.h"
#include "base/err.h"
#include "net/url.h"

struct df_security_settings {
    const char *ca_file;           /* PEM; NULL: only the system's authorities */
    const struct df_secret *proxy; /* http://[user:password@]host:port; NULL: none */
    bool require_tls;
};

extern const struct df_config_key df_security_keys[];    /* of [security] */
extern const struct df_config_key df_require_tls_keys[]; /* of [server] */

/* Each complaint is a line: "[section] name: why". */
void df_security_check_settings(const struct df_security_settings *s, struct df_buf *complaints);
/* Copies the settings and reads ca_file. DF_E_CONFIG changes nothing. */
enum df_code df_security_use(const struct df_security_settings *s,
                             struct df_err *err) DF_MUST_CHECK;
/* Reads ca_file again if it has changed (or `now`), and logs CaReloaded or TlsReloadFailed; a file
 * that cannot be read leaves what was trusted. Calls that follow verify anew: they use no
 * connection that is older. */
void df_security_look(bool now);
/* When that was, on the monotonic clock; 0: never. */
int64_t df_security_reloaded_ms(void);
/* NULL: not set. Lives until the next df_security_use. */
const char *df_security_ca_file(void);

/* Whether require_tls forbids this URL: it is http and leads off this machine. */
bool df_security_forbids(const struct df_url *u);
#define DF_SECURITY_FORBIDDEN "server.require_tls is on, and the URL is not https"

/* --- libcurl --- */

/*
 * Sets what every handle has in common: TLS 1.2 or later, verified certificates, http and https
 * only, no redirects, nothing of the environment, no proxy. `easy` is a CURL *; false when libcurl
 * refuses an option.
 */
bool df_security_set_curl(void *easy);
/* Before each call: through the proxy, if there is one and the host is not this machine. Returns
 * whether it goes through the proxy. After a reload no TLS session is taken up again. */
bool df_security_set_route(void *easy, const struct df_url *u);
/* Before each call of a handle whose connections libcurl keeps from call to call: it ends those
 * that were verified before a reload. Not for connections that others use: libcurl would end them
 * too. */
void df_security_end_older(void *easy);
/* For requests in the clear, which a proxy takes as they are: its address without credentials, and
 * these as user:password (absent: none). Only if set_route says that there is a proxy. */
const char *df_security_proxy(struct df_str *ret_login);
/*
 * The error of a call that failed: the code, and for a person which of the things that can be wrong
 * with TLS it was (expired, another host's, of an unknown authority, …). `result` is a CURLcode,
 * `message` what CURLOPT_ERRORBUFFER holds, `peer` the name that begins the sentence.
 */
enum df_code df_security_curl_error(void *easy, int result, const char *message, const char *peer,
                                    struct df_err *err);

/* --- OpenSSL --- */

/* Gives an SSL_CTX the authorities that are trusted. */
void df_security_set_ctx(void *ssl_ctx);
/* An X509_V_ERR_… in words that complete "cannot reach the peer: …". */
const char *df_security_verify_text(long verify_result);

#endif

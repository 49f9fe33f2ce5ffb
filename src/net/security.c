/*
 * libcurl would read its bundle of authorities for every connection. Instead one X509_STORE is made
 * here and shared by all connections; OpenSSL locks it. A reload makes a new store; connections
 * that have the old one keep it alive.
 */
#include "net/security.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/secret.h"
#include "net/watch.h"

#include <curl/curl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <stdatomic.h>
#include <stdlib.h>

#define S           struct df_security_settings
#define CA_FILE_MAX (4 << 20)

/* clang-format off */
const struct df_config_key df_security_keys[] = {
    DF_KEY_OPTIONAL("ca_file", S, ca_file, "PEM file of authorities that are trusted beside the system's, for every connection to others; read again when it changes."),
    DF_KEY_SECRET("proxy", S, proxy, "Proxy for outgoing HTTP, http://host:port or http://user:password@host:port; not for loopback."),
    {.key = NULL},
};

const struct df_config_key df_require_tls_keys[] = {
    DF_KEY_BOOL("require_tls", S, require_tls, "off", "Serve nothing and call nothing in the clear, loopback aside."),
    {.key = NULL},
};
/* clang-format on */

static struct df_mutex lock = DF_MUTEX_INIT;
static X509_STORE *trusted DF_GUARDED_BY(lock); /* NULL: not made yet */
static struct df_watch watch;                   /* ca_file; of the thread that looks */
static char *ca_file;
static char *proxy_url; /* without user and password; NULL: none */
static struct df_secret *proxy_login;
static bool requires_tls;
static _Atomic int64_t reloaded_ms; /* monotonic; 0: never */

/* --- settings --- */

static enum df_code parse_proxy(struct df_str text, struct df_url *ret, struct df_err *err)
{
    enum df_code code = df_url_parse(text, ret, err);

    if (code != DF_OK)
        return code;
    if (ret->tls || (ret->rest.len > 0 && !df_str_eq(ret->rest, DF_STR("/"))))
        return df_err_set(err, DF_E_CONFIG, "must be http://host:port, without a path");
    if (ret->userinfo.ptr && !memchr(ret->userinfo.ptr, ':', ret->userinfo.len))
        return df_err_set(err, DF_E_CONFIG, "a user needs a password: http://user:password@…");
    return DF_OK;
}

static enum df_code load_trusted(const char *file, X509_STORE **ret, struct df_err *err)
{
    X509_STORE *store = X509_STORE_new();
    struct stat st;

    if (!store)
        df_oom();
    (void)X509_STORE_set_default_paths(store);
    if (!file) {
        *ret = store;
        return DF_OK;
    }
    enum df_code code = DF_OK;
    if (stat(file, &st) != 0)
        code = df_err_errno(err, "%s", file);
    else if (st.st_size > CA_FILE_MAX)
        code = df_err_set(err, DF_E_CONFIG, "%s is larger than %d MiB", file, CA_FILE_MAX >> 20);
    else if (X509_STORE_load_file(store, file) != 1)
        code = df_err_set(err, DF_E_CONFIG, "%s holds no PEM certificate that can be read", file);
    ERR_clear_error();
    if (code != DF_OK) {
        X509_STORE_free(store);
        if (err)
            err->code = DF_E_CONFIG;
        return DF_E_CONFIG;
    }
    *ret = store;
    return DF_OK;
}

void df_security_check_settings(const struct df_security_settings *s, struct df_buf *complaints)
{
    struct df_err err = DF_ERR_INIT;
    X509_STORE *store = NULL;
    struct df_url u;

    if (s->proxy && parse_proxy(df_secret_str(s->proxy), &u, &err) != DF_OK)
        df_buf_addf(complaints, "[security] proxy: %s\n", err.detail);
    if (!s->ca_file)
        return;
    if (load_trusted(s->ca_file, &store, &err) != DF_OK)
        df_buf_addf(complaints, "[security] ca_file: %s\n", err.detail);
    X509_STORE_free(store);
}

static void replace_trusted(X509_STORE *take_store)
{
    df_lock(&lock);
    X509_STORE *old = trusted;
    trusted = take_store;
    df_unlock(&lock);
    X509_STORE_free(old);
}

enum df_code df_security_use(const struct df_security_settings *s, struct df_err *err)
{
    X509_STORE *store = NULL;
    struct df_url u = {0};

    enum df_code code = load_trusted(s->ca_file, &store, err);
    if (code == DF_OK && s->proxy)
        code = parse_proxy(df_secret_str(s->proxy), &u, err);
    if (code != DF_OK) {
        X509_STORE_free(store);
        return code;
    }
    free(ca_file);
    free(proxy_url);
    df_secret_free(proxy_login);
    ca_file = df_strdup(df_str_c(s->ca_file));
    proxy_url = NULL;
    if (s->proxy && asprintf(&proxy_url, "http://%s%.*s%s:%u", u.ipv6 ? "[" : "", (int)u.host.len,
                             u.host.ptr, u.ipv6 ? "]" : "", u.port) < 0)
        df_oom();
    proxy_login = df_secret_new(u.userinfo);
    requires_tls = s->require_tls;
    df_watch_init(&watch, ca_file, NULL, NULL);
    replace_trusted(store);
    atomic_store(&reloaded_ms, 0);
    return DF_OK;
}

void df_security_look(bool now)
{
    struct df_err err = DF_ERR_INIT;
    X509_STORE *store = NULL;

    if (!ca_file || !df_watch_changed(&watch, now))
        return;
    const struct df_log_field fields[] = {DF_F("file", df_str_c(ca_file))};
    if (load_trusted(ca_file, &store, &err) != DF_OK) {
        df_log_write(DF_LOG_ERROR, "TlsReloadFailed", fields, 1,
                     "security.ca_file: %s; what was trusted before still is", err.detail);
        return;
    }
    replace_trusted(store);
    atomic_store(&reloaded_ms, df_mono_ms(df_clock_real()));
    df_log_write(DF_LOG_INFO, "CaReloaded", fields, 1, "connections are verified with it from now");
}

const char *df_security_ca_file(void)
{
    return ca_file;
}

bool df_security_forbids(const struct df_url *u)
{
    return requires_tls && !u->tls && !df_host_is_loopback(u->host);
}

/* --- OpenSSL --- */

void df_security_set_ctx(void *ssl_ctx)
{
    struct df_err ignored = DF_ERR_INIT;

    df_lock(&lock);
    if (!trusted)
        (void)load_trusted(NULL, &trusted, &ignored);
    SSL_CTX_set1_cert_store(ssl_ctx, trusted);
    df_unlock(&lock);
}

#define UNKNOWN_AUTHORITY "its certificate is from an unknown authority (see security.ca_file)"
#define WRONG_HOST        "its certificate is for another host name"
#define TOO_WEAK          "its certificate has a key or a signature that is too weak"
#define TOO_OLD           "it speaks no TLS as new as 1.2"

const char *df_security_verify_text(long verify_result)
{
    static const struct {
        long result;
        const char *text;
    } rows[] = {
        {X509_V_ERR_CERT_HAS_EXPIRED, "its certificate has expired"},
        {X509_V_ERR_CERT_NOT_YET_VALID, "its certificate is not valid yet"},
        {X509_V_ERR_HOSTNAME_MISMATCH, WRONG_HOST},
        {X509_V_ERR_IP_ADDRESS_MISMATCH, WRONG_HOST},
        {X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT, UNKNOWN_AUTHORITY},
        {X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY, UNKNOWN_AUTHORITY},
        {X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE, UNKNOWN_AUTHORITY},
        {X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT, UNKNOWN_AUTHORITY},
        {X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN, UNKNOWN_AUTHORITY},
        {X509_V_ERR_CERT_UNTRUSTED, UNKNOWN_AUTHORITY},
        {X509_V_ERR_CERT_SIGNATURE_FAILURE, "the signature of its certificate is wrong"},
        {X509_V_ERR_CERT_REVOKED, "its certificate was revoked"},
        {X509_V_ERR_INVALID_PURPOSE, "its certificate is not for servers"},
        {X509_V_ERR_INVALID_CA, "its certificate was signed by one that is no authority"},
        {X509_V_ERR_EE_KEY_TOO_SMALL, TOO_WEAK},
        {X509_V_ERR_CA_KEY_TOO_SMALL, TOO_WEAK},
        {X509_V_ERR_CA_MD_TOO_WEAK, TOO_WEAK},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (rows[i].result == verify_result)
            return rows[i].text;
    return X509_verify_cert_error_string(verify_result);
}

/* --- libcurl --- */

static CURLcode on_ssl_ctx(CURL *easy, void *ssl_ctx, void *arg)
{
    (void)easy;
    (void)arg;
    df_security_set_ctx(ssl_ctx);
    return CURLE_OK;
}

bool df_security_set_curl(void *easy)
{
    CURLcode bad = 0;

    bad |= curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    bad |= curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    bad |= curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    bad |= curl_easy_setopt(easy, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
    bad |= curl_easy_setopt(easy, CURLOPT_PROXY, "");
    bad |= curl_easy_setopt(easy, CURLOPT_NOPROXY, "*"); /* else it reads the environment */
    bad |= curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    bad |= curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L);
    bad |= curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L);
    /* The store comes from us, and libcurl must neither fill nor keep one. */
    bad |= curl_easy_setopt(easy, CURLOPT_CAINFO, NULL);
    bad |= curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
    bad |= curl_easy_setopt(easy, CURLOPT_CA_CACHE_TIMEOUT, 0L);
    bad |= curl_easy_setopt(easy, CURLOPT_SSL_CTX_FUNCTION, on_ssl_ctx);
    return bad == CURLE_OK;
}

int64_t df_security_reloaded_ms(void)
{
    return atomic_load(&reloaded_ms);
}

void df_security_end_older(void *easy)
{
    int64_t at_ms = atomic_load(&reloaded_ms);

    if (at_ms == 0)
        return;
    long seconds = (long)((df_mono_ms(df_clock_real()) - at_ms) / 1000);
    (void)curl_easy_setopt(easy, CURLOPT_MAXLIFETIME_CONN, seconds > 0 ? seconds : 1L);
}

bool df_security_set_route(void *easy, const struct df_url *u)
{
    /* After a reload no session that was verified before it is used again. */
    if (atomic_load(&reloaded_ms) != 0)
        (void)curl_easy_setopt(easy, CURLOPT_SSL_SESSIONID_CACHE, 0L);
    if (!proxy_url)
        return false;
    bool through = !df_host_is_loopback(u->host);
    (void)curl_easy_setopt(easy, CURLOPT_PROXY, through ? proxy_url : "");
    (void)curl_easy_setopt(easy, CURLOPT_NOPROXY, through ? "" : "*");
    (void)curl_easy_setopt(easy, CURLOPT_PROXYUSERPWD,
                           through && proxy_login ? df_secret_str(proxy_login).ptr : NULL);
    (void)curl_easy_setopt(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    return through;
}

const char *df_security_proxy(struct df_str *ret_login)
{
    *ret_login = df_secret_str(proxy_login);
    return proxy_url;
}

static enum df_code code_of(CURLcode result)
{
    static const struct {
        CURLcode curl;
        enum df_code code;
    } rows[] = {
        {CURLE_COULDNT_RESOLVE_HOST, DF_E_NET_RESOLVE},
        {CURLE_COULDNT_RESOLVE_PROXY, DF_E_NET_RESOLVE},
        {CURLE_COULDNT_CONNECT, DF_E_NET_CONNECT},
        {CURLE_OPERATION_TIMEDOUT, DF_E_NET_TIMEOUT},
        {CURLE_SSL_CONNECT_ERROR, DF_E_NET_TLS},
        {CURLE_PEER_FAILED_VERIFICATION, DF_E_NET_TLS},
        {CURLE_SSL_CERTPROBLEM, DF_E_NET_TLS},
        {CURLE_SSL_CIPHER, DF_E_NET_TLS},
        {CURLE_SSL_CACERT_BADFILE, DF_E_NET_TLS},
        {CURLE_SSL_ISSUER_ERROR, DF_E_NET_TLS},
        {CURLE_SSL_CLIENTCERT, DF_E_NET_TLS},
        {CURLE_URL_MALFORMAT, DF_E_BAD_REQUEST},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (rows[i].curl == result)
            return rows[i].code;
    return DF_E_NET;
}

/* What the peer said, or how it failed, during the handshake; libcurl has it only in OpenSSL's
 * words. NULL: something else. */
static const char *handshake_text(const char *message)
{
    static const struct {
        const char *part;
        const char *text;
    } rows[] = {
        {"unsupported protocol", TOO_OLD},
        {"alert protocol version", TOO_OLD},
        {"no protocols available", TOO_OLD},
        {"version too low", TOO_OLD},
        {"wrong version number", "it does not speak TLS on this port"},
        {"packet length too long", "it does not speak TLS on this port"},
        {"certificate required", "it wants a client certificate"},
        {"alert bad certificate", "it wants a client certificate"},
        {"alert unknown ca", "it wants a client certificate"},
        {"alert handshake failure",
         "it refuses the handshake: it wants a client certificate, or has no cipher in common"},
        {"dh key too small", TOO_WEAK},
        {"ee key too small", TOO_WEAK},
        {"SSL_ERROR_SYSCALL", "it hung up during the handshake"},
        {"unexpected eof", "it hung up during the handshake"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (strstr(message, rows[i].part))
            return rows[i].text;
    return NULL;
}

/* In TLS 1.3 a peer that wants a client certificate says so only after the handshake. */
static bool is_late_alert(CURLcode result, const char *message)
{
    return (result == CURLE_RECV_ERROR || result == CURLE_SEND_ERROR) &&
           strstr(message, "certificate required");
}

/* libcurl compares the name itself, after OpenSSL has found nothing wrong; the result is then still
 * as libcurl set it before the handshake, unspecified. */
static const char *tls_text(CURL *easy, CURLcode result, const char *message)
{
    long verified = X509_V_OK;

    (void)curl_easy_getinfo(easy, CURLINFO_SSL_VERIFYRESULT, &verified);
    if (result == CURLE_PEER_FAILED_VERIFICATION)
        return verified > X509_V_ERR_UNSPECIFIED ? df_security_verify_text(verified) : WRONG_HOST;
    return handshake_text(message);
}

enum df_code df_security_curl_error(void *easy, int result, const char *message, const char *peer,
                                    struct df_err *err)
{
    const char *words = *message ? message : curl_easy_strerror((CURLcode)result);
    enum df_code code = code_of((CURLcode)result);
    long refused = 0;

    (void)curl_easy_getinfo(easy, CURLINFO_HTTP_CONNECTCODE, &refused);
    if (refused >= 300)
        return df_err_set(err, DF_E_NET_CONNECT, "%s: the proxy refuses to connect (%ld)", peer,
                          refused);
    if (is_late_alert((CURLcode)result, message))
        code = DF_E_NET_TLS;
    const char *tls = code == DF_E_NET_TLS ? tls_text(easy, (CURLcode)result, message) : NULL;
    return df_err_set(err, code, "%s: %s%s", peer, tls ? "TLS: " : "", tls ? tls : words);
}

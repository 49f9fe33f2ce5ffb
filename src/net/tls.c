/*
 * The server's certificate, its key, and the authorities of callers' certificates.
 *
 * libmicrohttpd speaks TLS through GnuTLS, and takes a certificate only when it starts. So each
 * connection is given its credentials here, before its handshake: those that are current then. A
 * reload makes new credentials; the old ones go with the last connection that has them. Nothing is
 * dropped and nothing refused meanwhile, and files that are no good leave the old credentials in
 * place.
 *
 * The files are checked with OpenSSL's libcrypto first, which says better what is wrong with them.
 *
 * With tls_client_ca a caller's certificate is verified in the handshake; one that is no good ends
 * it with the alert that says why. A caller without any is let through the handshake and answered
 * 403: a person reads that more easily than an alert, and the probes of this machine need none.
 */
#include "net/http_int.h"

#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define FILE_MAX_BYTES 65536
#define CA_MAX_BYTES   1048576
#define SUBJECT_SIZE   256

/* One set of credentials; immutable. */
struct df_tls_set {
    _Atomic size_t users; /* the server, and connections */
    gnutls_certificate_credentials_t credentials;
    bool asks; /* callers for a certificate */
    int64_t expires_s;
    char subject[SUBJECT_SIZE];
    char expires[32];
};

/* The files as read: NUL-terminated PEM. The key is wiped when freed. */
struct tls_files {
    char *cert, *key, *ca;
    size_t cert_len, key_len, ca_len;
};

/* Reads into memory of the full size: a growing buffer would leave copies of the key behind. */
static enum df_code read_file(const char *what, const char *path, size_t max, char **ret,
                              size_t *ret_len, struct df_err *err)
{
    enum df_code rc = DF_OK;
    size_t len = 0;
    ssize_t n = 0;

    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return df_err_errno(err, "the TLS %s %s", what, path);
    char *text = df_malloc(max + 1);
    do {
        n = read(fd, text + len, max - len);
        if (n > 0)
            len += (size_t)n;
    } while ((n > 0 && len < max) || (n < 0 && errno == EINTR));
    if (n < 0)
        rc = df_err_errno(err, "the TLS %s %s", what, path);
    else if (len == max)
        rc = df_err_set(err, DF_E_CONFIG, "the TLS %s %s is too large", what, path);
    close(fd);
    if (rc != DF_OK) {
        df_wipe(text, len);
        free(text);
        return rc;
    }
    text[len] = '\0';
    *ret = text;
    *ret_len = len;
    return DF_OK;
}

/* Without this libcrypto would ask for the password on the terminal. */
static int no_password(char *buf, int size, int for_writing, void *arg)
{
    (void)buf;
    (void)size;
    (void)for_writing;
    (void)arg;
    return 0;
}

/* --- checking ----------------------------------------------------------------------------------
 */

static void describe_certificate(X509 *cert, struct df_tls_set *set)
{
    struct tm tm = {0};
    BIO *text = BIO_new(BIO_s_mem());
    char *name = NULL;

    (void)ASN1_TIME_to_tm(X509_get0_notAfter(cert), &tm);
    set->expires_s = (int64_t)timegm(&tm);
    (void)strftime(set->expires, sizeof(set->expires), "%Y-%m-%dT%H:%M:%SZ", &tm);
    if (text && X509_NAME_print_ex(text, X509_get_subject_name(cert), 0, XN_FLAG_RFC2253) >= 0) {
        long len = BIO_get_mem_data(text, &name);
        (void)snprintf(set->subject, sizeof(set->subject), "%.*s", (int)len, name);
    }
    BIO_free(text);
}

static enum df_code check_pair(const struct df_http_settings *s, const struct tls_files *f,
                               struct df_tls_set *set, struct df_err *err)
{
    enum df_code rc = DF_OK;
    BIO *cert_bio = BIO_new_mem_buf(f->cert, (int)f->cert_len);
    BIO *key_bio = BIO_new_mem_buf(f->key, (int)f->key_len);
    X509 *cert = cert_bio ? PEM_read_bio_X509(cert_bio, NULL, no_password, NULL) : NULL;
    EVP_PKEY *key = key_bio ? PEM_read_bio_PrivateKey(key_bio, NULL, no_password, NULL) : NULL;

    if (!cert)
        rc = df_err_set(err, DF_E_CONFIG, "the TLS certificate %s is not a PEM certificate",
                        s->tls_cert);
    else if (!key)
        rc = df_err_set(err, DF_E_CONFIG,
                        "the TLS key %s is not a PEM private key without a password", s->tls_key);
    else if (X509_check_private_key(cert, key) != 1)
        rc = df_err_set(err, DF_E_CONFIG, "the TLS key %s does not match the certificate %s",
                        s->tls_key, s->tls_cert);
    else
        describe_certificate(cert, set);
    EVP_PKEY_free(key);
    X509_free(cert);
    BIO_free(key_bio);
    BIO_free(cert_bio);
    ERR_clear_error();
    return rc;
}

static void release_files(struct tls_files *f)
{
    if (f->key)
        df_wipe(f->key, f->key_len);
    free(f->key);
    free(f->cert);
    free(f->ca);
}

static enum df_code read_files(const struct df_http_settings *s, struct tls_files *f,
                               struct df_err *err)
{
    if (!s->tls_cert || !s->tls_key)
        return df_err_set(err, DF_E_CONFIG, "TLS needs both a certificate and a key");
    enum df_code rc =
        read_file("certificate", s->tls_cert, FILE_MAX_BYTES, &f->cert, &f->cert_len, err);
    if (rc == DF_OK)
        rc = read_file("key", s->tls_key, FILE_MAX_BYTES, &f->key, &f->key_len, err);
    if (rc == DF_OK && s->tls_client_ca)
        rc = read_file("authorities of callers", s->tls_client_ca, CA_MAX_BYTES, &f->ca, &f->ca_len,
                       err);
    return rc;
}

/* --- callers' certificates ---------------------------------------------------------------------
 */

static const struct {
    unsigned bit;
    gnutls_alert_description_t alert;
    const char *why;
} refusals[] = {
    {GNUTLS_CERT_REVOKED, GNUTLS_A_CERTIFICATE_REVOKED, "it was revoked"},
    {GNUTLS_CERT_EXPIRED, GNUTLS_A_CERTIFICATE_EXPIRED, "it has expired"},
    {GNUTLS_CERT_NOT_ACTIVATED, GNUTLS_A_BAD_CERTIFICATE, "it is not valid yet"},
    {GNUTLS_CERT_PURPOSE_MISMATCH, GNUTLS_A_UNSUPPORTED_CERTIFICATE, "it is not for clients"},
    {GNUTLS_CERT_SIGNER_NOT_FOUND, GNUTLS_A_UNKNOWN_CA, "its authority is not in tls_client_ca"},
    {GNUTLS_CERT_SIGNER_NOT_CA, GNUTLS_A_UNKNOWN_CA, "it was signed by one that is no authority"},
    {GNUTLS_CERT_INSECURE_ALGORITHM, GNUTLS_A_BAD_CERTIFICATE, "its algorithm is not secure"},
};

static void name_caller(gnutls_session_t session, char *out, size_t size)
{
    unsigned count = 0;
    const gnutls_datum_t *list = gnutls_certificate_get_peers(session, &count);
    gnutls_x509_crt_t cert = NULL;

    out[0] = '\0';
    if (count == 0 || gnutls_x509_crt_init(&cert) < 0)
        return;
    if (gnutls_x509_crt_import(cert, &list[0], GNUTLS_X509_FMT_DER) >= 0 &&
        gnutls_x509_crt_get_dn(cert, out, &size) < 0)
        out[0] = '\0';
    gnutls_x509_crt_deinit(cert);
}

/* GnuTLS calls this in the handshake, on the connection's thread. */
static int verify_caller(gnutls_session_t session)
{
    unsigned status = GNUTLS_CERT_INVALID;
    gnutls_typed_vdata_st purpose = {.type = GNUTLS_DT_KEY_PURPOSE_OID,
                                     .data = (unsigned char *)(uintptr_t)GNUTLS_KP_TLS_WWW_CLIENT};
    size_t row = 0;
    char subject[SUBJECT_SIZE];

    int rc = gnutls_certificate_verify_peers(session, &purpose, 1, &status);
    if (rc == GNUTLS_E_NO_CERTIFICATE_FOUND || (rc >= 0 && status == 0))
        return 0;
    while (row < sizeof(refusals) / sizeof(refusals[0]) && !(status & refusals[row].bit))
        row++;
    bool known = row < sizeof(refusals) / sizeof(refusals[0]);
    name_caller(session, subject, sizeof(subject));
    struct df_conn *c = gnutls_session_get_ptr(session);
    const struct df_log_field fields[] = {DF_F("peer", df_str_c(c->peer)),
                                          DF_F("subject", df_str_c(subject))};
    df_log_write(DF_LOG_WARN, "ClientCertificateRefused", fields, 2, "%s",
                 known ? refusals[row].why : "it cannot be verified");
    df_http_metrics_rejected(c->server->metrics, "ClientCertificate");
    (void)gnutls_alert_send(session, GNUTLS_AL_FATAL,
                            known ? refusals[row].alert : GNUTLS_A_BAD_CERTIFICATE);
    return GNUTLS_E_CERTIFICATE_VERIFICATION_ERROR;
}

enum df_code df_tls_check_caller(struct df_req *req, struct df_err *err)
{
    struct df_conn *c = req->conn;
    unsigned count = 0;

    if (!c->tls || !c->tls->asks || c->certified)
        return DF_OK;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(c->mhd, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    c->certified = info && gnutls_certificate_get_peers(info->tls_session, &count) && count > 0;
    bool probe =
        df_str_eq(req->raw_path, DF_STR("/healthz")) || df_str_eq(req->raw_path, DF_STR("/readyz"));
    if (c->certified || (probe && df_host_is_loopback(df_str_c(c->peer))))
        return DF_OK;
    return df_err_set(err, DF_E_CERTIFICATE_WANTED,
                      "A client certificate is wanted here (server.tls_client_ca).");
}

/* --- credentials -------------------------------------------------------------------------------
 */

static void drop_set(struct df_tls_set *set)
{
    if (!set || atomic_fetch_sub(&set->users, 1) > 1)
        return;
    gnutls_certificate_free_credentials(set->credentials);
    free(set);
}

static enum df_code fill_credentials(const struct df_http_settings *s, const struct tls_files *f,
                                     struct df_tls_set *set, struct df_err *err)
{
    const gnutls_datum_t cert = {(unsigned char *)f->cert, (unsigned)f->cert_len};
    const gnutls_datum_t key = {(unsigned char *)f->key, (unsigned)f->key_len};
    const gnutls_datum_t ca = {(unsigned char *)f->ca, (unsigned)f->ca_len};

    if (gnutls_certificate_allocate_credentials(&set->credentials) < 0)
        df_oom();
    int rc =
        gnutls_certificate_set_x509_key_mem(set->credentials, &cert, &key, GNUTLS_X509_FMT_PEM);
    if (rc < 0)
        return df_err_set(err, DF_E_CONFIG, "the TLS certificate %s and its key: %s", s->tls_cert,
                          gnutls_strerror(rc));
    if (!f->ca)
        return DF_OK;
    rc = gnutls_certificate_set_x509_trust_mem(set->credentials, &ca, GNUTLS_X509_FMT_PEM);
    if (rc <= 0)
        return df_err_set(err, DF_E_CONFIG, "the authorities of callers %s are no PEM certificates",
                          s->tls_client_ca);
    gnutls_certificate_set_verify_function(set->credentials, verify_caller);
    set->asks = true;
    return DF_OK;
}

static enum df_code load_set(const struct df_http_settings *s, struct df_tls_set **ret,
                             struct df_err *err)
{
    struct tls_files f = {0};
    struct df_tls_set *set = df_calloc(1, sizeof(*set));

    atomic_store(&set->users, 1);
    enum df_code rc = read_files(s, &f, err);
    if (rc == DF_OK)
        rc = check_pair(s, &f, set, err);
    if (rc == DF_OK)
        rc = fill_credentials(s, &f, set, err);
    release_files(&f);
    if (rc == DF_OK)
        *ret = set;
    else
        drop_set(set);
    return rc;
}

enum df_code df_tls_check_files(const struct df_http_settings *s, struct df_err *err)
{
    struct df_tls_set *set = NULL;
    enum df_code rc = load_set(s, &set, err);
    drop_set(set);
    return rc;
}

static void replace_set(struct df_http_server *s, struct df_tls_set *take_set)
{
    df_lock(&s->lock);
    struct df_tls_set *old = s->tls;
    s->tls = take_set;
    df_unlock(&s->lock);
    drop_set(old);
}

static bool has_expired(const struct df_tls_set *set)
{
    return set->expires_s <= df_wall_ms(df_clock_real()) / 1000;
}

/* At the start an expired certificate is better than none. */
enum df_code df_tls_open(struct df_http_server *s, struct df_err *err)
{
    const struct df_http_settings *set = &s->opt.settings;

    if (!set->tls_cert && !set->tls_key)
        return DF_OK;
    df_watch_init(&s->tls_watch, set->tls_cert, set->tls_key, set->tls_client_ca);
    struct df_tls_set *first = NULL;
    enum df_code rc = load_set(set, &first, err);
    if (rc == DF_OK && MHD_is_feature_supported(MHD_FEATURE_TLS) != MHD_YES)
        rc = df_err_set(err, DF_E_CONFIG, "libmicrohttpd was built without TLS");
    if (rc == DF_OK && has_expired(first))
        df_log_warn("TlsCertificateExpired", "the certificate %s expired at %s", set->tls_cert,
                    first->expires);
    replace_set(s, first);
    return rc;
}

void df_tls_close(struct df_http_server *s)
{
    replace_set(s, NULL);
}

void df_http_look_at_files(struct df_http_server *s, bool now)
{
    struct df_tls_set *set = NULL;
    struct df_err err = DF_ERR_INIT;

    if (!s->opt.settings.tls_cert || !df_watch_changed(&s->tls_watch, now))
        return;
    if (load_set(&s->opt.settings, &set, &err) == DF_OK && has_expired(set)) {
        (void)df_err_set(&err, DF_E_CONFIG, "the TLS certificate %s expired at %s",
                         s->opt.settings.tls_cert, set->expires);
        drop_set(set);
        set = NULL;
    }
    if (!set) {
        df_log_error("TlsReloadFailed", "%s; the certificate in use stays", err.detail);
        return;
    }
    const struct df_log_field fields[] = {DF_F("subject", df_str_c(set->subject)),
                                          DF_F("notAfter", df_str_c(set->expires))};
    df_log_write(DF_LOG_INFO, "TlsReloaded", fields, 2, "connections have it from now on");
    replace_set(s, set);
}

int64_t df_tls_expires_s(struct df_http_server *s)
{
    df_lock(&s->lock);
    int64_t at_s = s->tls ? s->tls->expires_s : 0;
    df_unlock(&s->lock);
    return at_s;
}

/* --- connections -------------------------------------------------------------------------------
 */

void df_tls_begin(struct df_conn *c)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(c->mhd, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    struct df_http_server *s = c->server;

    if (!info || !info->tls_session)
        return;
    df_lock(&s->lock);
    c->tls = s->tls;
    atomic_fetch_add(&c->tls->users, 1);
    df_unlock(&s->lock);
    gnutls_session_set_ptr(info->tls_session, c);
    (void)gnutls_credentials_set(info->tls_session, GNUTLS_CRD_CERTIFICATE, c->tls->credentials);
    gnutls_certificate_server_set_request(info->tls_session,
                                          c->tls->asks ? GNUTLS_CERT_REQUEST : GNUTLS_CERT_IGNORE);
}

/* libmicrohttpd has freed the session. */
void df_tls_end(struct df_conn *c)
{
    drop_set(c->tls);
}

bool df_conn_send(struct df_conn *c, struct df_str data)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(c->mhd, MHD_CONNECTION_INFO_GNUTLS_SESSION);

    if (info)
        return gnutls_record_send(info->tls_session, data.ptr, data.len) == (ssize_t)data.len;
    return send(c->fd, data.ptr, data.len, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)data.len;
}

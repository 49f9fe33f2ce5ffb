/*
 * Loads the certificate and the key, and writes to a TLS session directly.
 *
 * libmicrohttpd speaks TLS through GnuTLS and reports a bad file as "failed to start"; the files
 * are therefore read and compared here first, with OpenSSL's libcrypto, which the program uses
 * anyway.
 */
#include "net/http_int.h"

#include "base/mem.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define FILE_MAX_BYTES 65536

/* Reads into memory of the full size: a growing buffer would leave copies of the key behind. */
static enum df_code read_file(const char *what, const char *path, char **ret, size_t *ret_len,
                              struct df_err *err)
{
    enum df_code rc = DF_OK;
    size_t len = 0;
    ssize_t n = 0;

    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return df_err_errno(err, "the TLS %s %s", what, path);
    char *text = df_malloc(FILE_MAX_BYTES + 1);
    do {
        n = read(fd, text + len, FILE_MAX_BYTES - len);
        if (n > 0)
            len += (size_t)n;
    } while ((n > 0 && len < FILE_MAX_BYTES) || (n < 0 && errno == EINTR));
    if (n < 0)
        rc = df_err_errno(err, "the TLS %s %s", what, path);
    else if (len == FILE_MAX_BYTES)
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

static enum df_code check_pair(const struct df_tls_files *t, const char *cert_path,
                               const char *key_path, struct df_err *err)
{
    enum df_code rc = DF_OK;
    BIO *cert_bio = BIO_new_mem_buf(t->cert, -1);
    BIO *key_bio = BIO_new_mem_buf(t->key, (int)t->key_len);
    X509 *cert = cert_bio ? PEM_read_bio_X509(cert_bio, NULL, no_password, NULL) : NULL;
    EVP_PKEY *key = key_bio ? PEM_read_bio_PrivateKey(key_bio, NULL, no_password, NULL) : NULL;

    if (!cert)
        rc = df_err_set(err, DF_E_CONFIG, "the TLS certificate %s is not a PEM certificate",
                        cert_path);
    else if (!key)
        rc = df_err_set(err, DF_E_CONFIG,
                        "the TLS key %s is not a PEM private key without a password", key_path);
    else if (X509_check_private_key(cert, key) != 1)
        rc = df_err_set(err, DF_E_CONFIG, "the TLS key %s does not match the certificate %s",
                        key_path, cert_path);
    EVP_PKEY_free(key);
    X509_free(cert);
    BIO_free(key_bio);
    BIO_free(cert_bio);
    ERR_clear_error();
    return rc;
}

enum df_code df_tls_load(const char *cert_path, const char *key_path, struct df_tls_files *ret,
                         struct df_err *err)
{
    struct df_tls_files t = {0};
    size_t cert_len;

    if (!cert_path || !key_path)
        return df_err_set(err, DF_E_CONFIG, "TLS needs both a certificate and a key");
    enum df_code rc = read_file("certificate", cert_path, &t.cert, &cert_len, err);
    if (rc == DF_OK)
        rc = read_file("key", key_path, &t.key, &t.key_len, err);
    if (rc == DF_OK)
        rc = check_pair(&t, cert_path, key_path, err);
    if (rc != DF_OK)
        df_tls_release(&t);
    else
        *ret = t;
    return rc;
}

void df_tls_release(struct df_tls_files *t)
{
    if (t->key)
        df_wipe(t->key, t->key_len);
    free(t->key);
    free(t->cert);
    *t = (struct df_tls_files){0};
}

/*
 * GnuTLS is in the process because libmicrohttpd is linked with it. One of its functions is looked
 * up at run time, which is not worth a build dependency.
 */
static bool send_tls(void *session, struct df_str data)
{
    typedef ssize_t (*record_send)(void *session, const void *data, size_t len);
    record_send send_record;

    void *symbol = dlsym(RTLD_DEFAULT, "gnutls_record_send");
    if (!symbol)
        return false;
    _Static_assert(sizeof(symbol) == sizeof(send_record), "POSIX says that this works");
    memcpy(&send_record, &symbol, sizeof(symbol));
    return send_record(session, data.ptr, data.len) == (ssize_t)data.len;
}

bool df_conn_send(struct df_conn *c, struct df_str data)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(c->mhd, MHD_CONNECTION_INFO_GNUTLS_SESSION);

    if (info)
        return send_tls(info->tls_session, data);
    return send(c->fd, data.ptr, data.len, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)data.len;
}

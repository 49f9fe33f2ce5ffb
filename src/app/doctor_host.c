/* This machine: the data directory, certificates, keys. */
#include "access/auth.h"
#include "app/doctor.h"
#include "base/clock.h"
#include "net/http.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define MIB              UINT64_C(1048576)
#define SPACE_PROBLEM    (64 * MIB)
#define SPACE_WARNING    (1024 * MIB)
#define EXPIRY_WARNING_S (INT64_C(30) * 86400)
#define PROBE_BYTES      4096

/* --- data_dir --- */

static void check_space(struct df_check *c, const char *path)
{
    struct statvfs fs;
    if (statvfs(path, &fs) != 0)
        return;
    uint64_t bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
    enum df_health health = bytes < SPACE_PROBLEM   ? DF_HEALTH_PROBLEM
                            : bytes < SPACE_WARNING ? DF_HEALTH_WARNING
                                                    : DF_HEALTH_OK;
    df_check_say(c, health, "disk",
                 health == DF_HEALTH_OK ? NULL
                                        : "make room: without it every write is answered 503",
                 "%" PRIu64 " MiB are free", bytes / MIB);
}

/* Writes a file, has it put on the disk, and removes it. */
static const char *try_to_write(const char *dir)
{
    static const char bytes[PROBE_BYTES];
    char path[4096];
    const char *failed = NULL;
    if (snprintf(path, sizeof path, "%s/.doctor-XXXXXX", dir) >= (int)sizeof path)
        return "its name is too long";
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0)
        return strerrordesc_np(errno);
    if (write(fd, bytes, sizeof bytes) != (ssize_t)sizeof bytes || fsync(fd) != 0)
        failed = strerrordesc_np(errno);
    (void)close(fd);
    (void)unlink(path);
    return failed;
}

/* Files that the server makes again or adds to. A command that root ran may have left its own. */
static void check_owners(struct df_check *c, const char *dir)
{
    static const char *const names[] = {"master.key", "audit-heads", "erasures"};
    struct stat above, st;
    char path[4096];

    if (stat(dir, &above) != 0)
        return;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        if (lstat(path, &st) == 0 && st.st_uid == 0 && above.st_uid != 0)
            df_check_say(c, DF_HEALTH_PROBLEM, "server.data_dir",
                         "give it to the user that runs the server, with chown",
                         "%s is root's, and the directory is not", path);
    }
}

/* The nearest directory above that exists. */
static void parent_of(const char *path, char *out, size_t size)
{
    (void)snprintf(out, size, "%s", path);
    while (access(out, F_OK) != 0) {
        char *slash = strrchr(out, '/');
        if (!slash || slash == out) {
            (void)snprintf(out, size, "%s", slash ? "/" : ".");
            return;
        }
        *slash = '\0';
    }
}

void df_check_data_dir(struct df_check *c)
{
    const char *dir = df_check_settings(c)->data_dir;
    const char *advice = "give the user that runs the server a directory it may write to";
    char above[4096];
    parent_of(dir, above, sizeof above);
    if (strcmp(above, dir) != 0) {
        if (access(above, W_OK | X_OK) == 0)
            df_check_say(c, DF_HEALTH_OK, "server.data_dir", NULL,
                         "%s does not exist yet and will be made", dir);
        else
            df_check_say(c, DF_HEALTH_PROBLEM, "server.data_dir", advice,
                         "%s does not exist and cannot be made in %s", dir, above);
        check_space(c, above);
        return;
    }
    const char *failed = try_to_write(dir);
    if (failed)
        df_check_say(c, DF_HEALTH_PROBLEM, "server.data_dir", advice, "%s cannot be written: %s",
                     dir, failed);
    else
        df_check_say(c, DF_HEALTH_OK, "server.data_dir", NULL, "%s can be written and synced", dir);
    check_owners(c, dir);
    check_space(c, dir);
}

/* --- the server's certificate --- */

size_t df_count_certificates(const struct df_settings *s)
{
    return s->http.tls_cert ? 1 : 0;
}

/* A key with a passphrase is refused instead of asked for. */
static int no_passphrase(char *buf, int size, int writing, void *arg)
{
    (void)buf;
    (void)size;
    (void)writing;
    (void)arg;
    return 0;
}

static FILE *open_pem(struct df_check *c, const char *what, const char *path)
{
    FILE *f = fopen(path, "re");
    if (!f)
        df_check_say(c, DF_HEALTH_PROBLEM, what,
                     "name a PEM file that the user that runs the server may read", "%s: %s", path,
                     strerrordesc_np(errno));
    return f;
}

static X509 *read_certificate(struct df_check *c, const char *path)
{
    FILE *f = open_pem(c, "server.tls_cert", path);
    X509 *cert = f ? PEM_read_X509(f, NULL, no_passphrase, NULL) : NULL;
    if (f && !cert)
        df_check_say(c, DF_HEALTH_PROBLEM, "server.tls_cert",
                     "the file must hold the certificate and its chain in PEM",
                     "%s holds no certificate", path);
    if (f)
        (void)fclose(f);
    return cert;
}

static EVP_PKEY *read_key(struct df_check *c, const char *path)
{
    FILE *f = open_pem(c, "server.tls_key", path);
    EVP_PKEY *key = f ? PEM_read_PrivateKey(f, NULL, no_passphrase, NULL) : NULL;
    if (f && !key)
        df_check_say(c, DF_HEALTH_PROBLEM, "server.tls_key",
                     "the file must hold the private key in PEM, without a passphrase",
                     "%s holds no key that can be read", path);
    if (f)
        (void)fclose(f);
    return key;
}

static void check_dates(struct df_check *c, const X509 *cert)
{
    int days = 0, seconds = 0;
    if (X509_cmp_current_time(X509_get0_notBefore(cert)) > 0) {
        df_check_say(c, DF_HEALTH_PROBLEM, "server.tls_cert",
                     "check the machine's clock, or wait until then", "is not valid yet");
        return;
    }
    if (!ASN1_TIME_diff(&days, &seconds, NULL, X509_get0_notAfter(cert)))
        return;
    int64_t left_s = (int64_t)days * 86400 + seconds;
    if (left_s < 0)
        df_check_say(c, DF_HEALTH_PROBLEM, "server.tls_cert", "renew it", "expired %d days ago",
                     -days);
    else
        df_check_say(c, left_s < EXPIRY_WARNING_S ? DF_HEALTH_WARNING : DF_HEALTH_OK,
                     "server.tls_cert", left_s < EXPIRY_WARNING_S ? "renew it" : NULL,
                     "expires in %d days", days);
}

static void check_client_ca(struct df_check *c, const struct df_settings *s)
{
    struct df_err err = DF_ERR_INIT;

    if (df_tls_check_files(&s->http, &err) == DF_OK)
        df_check_say(c, DF_HEALTH_OK, "server.tls_client_ca", NULL,
                     "callers need a certificate of its authorities");
    else
        df_check_say(c, DF_HEALTH_PROBLEM, "server.tls_client_ca",
                     "the file must hold the authorities' certificates in PEM", "%s", err.detail);
}

void df_check_certificate(struct df_check *c)
{
    const struct df_settings *s = df_check_settings(c);
    bool match = false;
    X509 *cert = read_certificate(c, s->http.tls_cert);
    EVP_PKEY *key = s->http.tls_key ? read_key(c, s->http.tls_key) : NULL;
    if (cert)
        check_dates(c, cert);
    if (cert && key) {
        match = X509_check_private_key(cert, key) == 1;
        df_check_say(c, match ? DF_HEALTH_OK : DF_HEALTH_PROBLEM, "server.tls_key",
                     match ? NULL : "give the key that the certificate was made for",
                     match ? "belongs to the certificate" : "does not belong to the certificate");
    }
    if (match && s->http.tls_client_ca)
        check_client_ca(c, s);
    X509_free(cert);
    EVP_PKEY_free(key);
}

/* --- keys --- */

void df_check_keys(struct df_check *c)
{
    const struct df_settings *s = df_check_settings(c);
    const struct df_secret *admin = s->auth.admin_key;
    if (!df_auth_has_admin(&s->auth))
        df_check_say(c, DF_HEALTH_WARNING, "admin.key", "openssl rand -base64 32",
                     "is not set: /admin answers 404");
    else if (admin && df_secret_str(admin).len < DF_ADMIN_KEY_STRONG)
        df_check_say(c, DF_HEALTH_WARNING, "admin.key", "openssl rand -base64 32",
                     "has fewer than %d characters and might be guessed", DF_ADMIN_KEY_STRONG);
    else
        df_check_say(c, DF_HEALTH_OK, "admin.key", NULL, "is long enough");
}

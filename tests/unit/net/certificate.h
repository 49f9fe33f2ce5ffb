/*
 * A certificate for 127.0.0.1, good for an hour, and its key. Include after cmocka.h.
 */
#ifndef NET_CERTIFICATE_H
#define NET_CERTIFICATE_H

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>

/* Both paths are templates of mkstemp; the files are the caller's to remove. */
static void write_certificate(char *cert_path, char *key_path)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *cert = X509_new();
    assert_non_null(key);
    assert_non_null(cert);
    (void)X509_set_version(cert, 2);
    (void)ASN1_INTEGER_set(X509_get_serialNumber(cert), 1);
    (void)X509_gmtime_adj(X509_getm_notBefore(cert), -3600);
    (void)X509_gmtime_adj(X509_getm_notAfter(cert), 3600);
    X509_NAME *name = X509_get_subject_name(cert);
    (void)X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"localhost",
                                     -1, -1, 0);
    (void)X509_set_issuer_name(cert, name);
    (void)X509_set_pubkey(cert, key);
    X509_EXTENSION *san = X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, "IP:127.0.0.1");
    assert_non_null(san);
    (void)X509_add_ext(cert, san, -1);
    X509_EXTENSION_free(san);
    assert_true(X509_sign(cert, key, EVP_sha256()) > 0);

    FILE *f = fdopen(mkstemp(cert_path), "w");
    assert_int_equal(PEM_write_X509(f, cert), 1);
    (void)fclose(f);
    f = fdopen(mkstemp(key_path), "w");
    assert_int_equal(PEM_write_PrivateKey(f, key, NULL, NULL, 0, NULL, NULL), 1);
    (void)fclose(f);
    X509_free(cert);
    EVP_PKEY_free(key);
}

#endif

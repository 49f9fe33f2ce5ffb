/*
 * .NET Core 3.1 knows OpenSSL 1.x; Debian has OpenSSL 3, which has all that the runtime asks for
 * but three names, of functions that it renamed. The runtime loads this as
 * "libssl.so.$CLR_OPENSSL_VERSION_OVERRIDE", and finds the rest in the libraries that this is
 * linked with.
 */
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>

#undef ERR_put_error
#undef EVP_MD_size
#undef SSL_get_peer_certificate

void ERR_put_error(int lib, int func, int reason, const char *file, int line);
int EVP_MD_size(const EVP_MD *md);
X509 *SSL_get_peer_certificate(const SSL *ssl);

void ERR_put_error(int lib, int func, int reason, const char *file, int line)
{
    (void)func;
    ERR_new();
    ERR_set_debug(file, line, "");
    ERR_set_error(lib, reason, NULL);
}

int EVP_MD_size(const EVP_MD *md)
{
    return EVP_MD_get_size(md);
}

X509 *SSL_get_peer_certificate(const SSL *ssl)
{
    return SSL_get1_peer_certificate(ssl);
}

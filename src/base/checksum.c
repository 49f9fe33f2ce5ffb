#include "base/checksum.h"

#include "base/mem.h"

#include <openssl/evp.h>
#include <pthread.h>
#include <stdlib.h>

/* The struct is only a name for libcrypto's context, whose header stays in this file. */
static EVP_MD_CTX *context(struct df_checksum *c)
{
    return (EVP_MD_CTX *)(void *)c;
}

/* SHA-256 fails only when memory runs out or the library is broken. */
static void must(int result)
{
    if (result != 1)
        abort();
}

static EVP_MD *fetched_sha256;

static void fetch_sha256(void)
{
    fetched_sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
    must(fetched_sha256 != NULL);
}

/* Fetched once: EVP_sha256() would be looked up anew for every digest. */
static const EVP_MD *sha256(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, fetch_sha256);
    return fetched_sha256;
}

struct df_checksum *df_checksum_new(void)
{
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();

    if (!ctx)
        df_oom();
    must(EVP_DigestInit_ex2(ctx, sha256(), NULL));
    return (struct df_checksum *)(void *)ctx;
}

void df_checksum_free(struct df_checksum *c)
{
    EVP_MD_CTX_free(context(c));
}

void df_checksum_reset(struct df_checksum *c)
{
    must(EVP_DigestInit_ex2(context(c), sha256(), NULL));
}

void df_checksum_add(struct df_checksum *c, const void *ptr, size_t len)
{
    if (len > 0)
        must(EVP_DigestUpdate(context(c), ptr, len));
}

void df_checksum_end(struct df_checksum *c, char *ret)
{
    static const char hex[] = "0123456789abcdef";
    unsigned char digest[DF_CHECKSUM_LEN / 2];

    must(EVP_DigestFinal_ex(context(c), digest, NULL));
    for (size_t i = 0; i < sizeof(digest); i++) {
        ret[2 * i] = hex[digest[i] >> 4];
        ret[2 * i + 1] = hex[digest[i] & 15];
    }
    ret[DF_CHECKSUM_LEN] = '\0';
}

void df_checksum_of(struct df_str s, char *ret)
{
    struct df_checksum *c = df_checksum_new();

    df_checksum_add(c, s.ptr, s.len);
    df_checksum_end(c, ret);
    df_checksum_free(c);
}

/*
 * One request to a storage that speaks S3, signed and tried again until it goes well, fails for
 * good, or has failed often enough. Blocks; one thread at a time.
 *
 * Not by way of net/client.h: that one holds bodies in memory and never waits, and what is sent
 * here are files, streamed, from threads that have nothing else to do. Each operation has an easy
 * handle of its own, with the same care for TLS, proxies and redirects. The operator names the
 * endpoint, so private addresses are allowed.
 */
#ifndef DF_IMPORTS_S3_REQUEST_H
#define DF_IMPORTS_S3_REQUEST_H

#include "base/buf.h"
#include "base/checksum.h"
#include "files/storage_private.h"
#include "resilience/retry.h"

#include <curl/curl.h>

#define DF_S3_TAG_MAX      128 /* bytes of an ETag */
#define DF_S3_EMPTY_SHA256 "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

struct df_s3 {
    struct df_shelf base;
    char *root;     /* URL of the bucket and the prefix, with a slash at the end */
    char sigv4[80]; /* provider, region and service */
    const struct df_secret *access_key;
    const struct df_secret *secret_key;
    struct df_retry_policy retries;
    const struct df_clock *clock;
    struct df_storage_stop *stop;
};

struct df_s3_request {
    const char *method;
    const char *query;  /* encoded and sorted, each name with its '='; NULL: none */
    const char *sha256; /* of the body */
    const char *meta;   /* SHA-256 to store with an object; NULL: none */
    struct df_str body; /* of a POST */
    int fd;             /* of a PUT: body_len bytes from body_at on */
    uint64_t body_at;
    uint64_t body_len;
    struct df_local_file *to; /* where the body of a 200 goes; NULL: into answer */
    long slow_seconds;        /* how long it may go on without a byte to speak of */
    bool last_wish;           /* sent, once, though the storage was cancelled */

    /* The answer. */
    long status;
    char etag[DF_S3_TAG_MAX + 1]; /* "" if none */
    char stored_sha256[DF_CHECKSUM_LEN + 1];
    struct df_checksum *hash; /* of what went to `to` */
    struct df_buf answer;

    /* Of the attempt. */
    const struct df_s3 *s3;
    const char *key;
    CURL *easy;
    uint64_t sent;
    struct df_err local; /* what a callback ran into */
    char message[CURL_ERROR_SIZE];
};

enum df_code df_s3_request_init(struct df_s3_request *r, const struct df_s3 *s3, const char *key,
                                struct df_err *err) DF_MUST_CHECK;
void df_s3_request_release(struct df_s3_request *r);
/* Makes it another request, for the same key; the connection stays. */
void df_s3_request_set(struct df_s3_request *r, const char *method, const char *query,
                       const char *sha256);

/*
 * DF_OK: 2xx. DF_E_NOT_FOUND: a GET of an object that is not there. DF_E_CONFIG: refused, and will
 * be again. DF_E_NET and its kin: unwell, even after some time. DF_E_CANCELLED.
 */
enum df_code df_s3_request_perform(struct df_s3_request *r, struct df_err *err) DF_MUST_CHECK;

/* What the other side calls the error of the answer: NoSuchBucket. */
struct df_str df_s3_error_name(const struct df_s3_request *r);
/* Percent-encodes for a path or a query (slashes too). */
void df_s3_encode(struct df_buf *b, struct df_str s, bool slashes);

#endif

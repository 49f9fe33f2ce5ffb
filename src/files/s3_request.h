/*
 * One signed request to an S3 storage, repeated until it succeeds, fails for good, or runs out of
 * attempts. Blocks; one thread at a time.
 *
 * It does not use net/client.h, which holds bodies in memory and never blocks: here, worker threads
 * stream whole files. Each operation has a libcurl easy handle of its own, with the client's
 * settings for TLS, proxies and redirects. The operator names the endpoint, so private addresses
 * are allowed.
 */
#ifndef DF_FILES_S3_REQUEST_H
#define DF_FILES_S3_REQUEST_H

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
    long slow_seconds;        /* given up after so long below 100 bytes a second */
    bool last_wish;           /* sent once, even after df_storage_cancel */

    /* The answer. */
    long status;
    char etag[DF_S3_TAG_MAX + 1]; /* "" if none */
    char stored_sha256[DF_CHECKSUM_LEN + 1];
    struct df_checksum *hash; /* of the bytes written to `to` */
    struct df_buf answer;

    /* The attempt. */
    const struct df_s3 *s3;
    const char *key;
    CURL *easy;
    uint64_t sent;
    struct df_err local; /* a callback's error on the local disk */
    char message[CURL_ERROR_SIZE];
};

enum df_code df_s3_request_init(struct df_s3_request *r, const struct df_s3 *s3, const char *key,
                                struct df_err *err) DF_MUST_CHECK;
void df_s3_request_release(struct df_s3_request *r);
/* Turns r into another request for the same key; the connection stays open. */
void df_s3_request_set(struct df_s3_request *r, const char *method, const char *query,
                       const char *sha256);

/*
 * DF_OK: 2xx. DF_E_NOT_FOUND: a GET of an object that does not exist. DF_E_CONFIG: a refusal that
 * will not change. DF_E_NET and the other DF_E_NET_*: still failing after all attempts.
 * DF_E_CANCELLED.
 */
enum df_code df_s3_request_perform(struct df_s3_request *r, struct df_err *err) DF_MUST_CHECK;

/* S3's name for the error in the answer, such as NoSuchBucket. */
struct df_str df_s3_error_name(const struct df_s3_request *r);
/* Percent-encodes s for a path, or with slashes for a query. */
void df_s3_encode(struct df_buf *b, struct df_str s, bool slashes);

#endif

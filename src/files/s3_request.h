/*
 * One signed request to an S3 storage, repeated until it succeeds, fails for good, or runs out of
 * attempts. Blocks; one thread at a time.
 *
 * It does not use net/client.h, which holds bodies in memory and never blocks: here, worker threads
 * stream whole files. Each operation has a libcurl easy handle of its own while it lasts, with the
 * client's settings for TLS, proxies and redirects; a few of them wait with their connections for
 * the next one. The operator names the endpoint, so private addresses are allowed.
 */
#ifndef DF_FILES_S3_REQUEST_H
#define DF_FILES_S3_REQUEST_H

#include "base/buf.h"
#include "base/checksum.h"
#include "files/storage_private.h"
#include "resilience/retry.h"

#include <curl/curl.h>

#define DF_S3_TAG_MAX      128 /* bytes of an ETag */
#define DF_S3_ID_LEN       32  /* of the mark of an object in parts */
#define DF_S3_IDLE_MAX     8   /* handles that wait for their next use */
#define DF_S3_EMPTY_SHA256 "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

struct df_s3 {
    const char *setting; /* that names it, for messages */
    char *url;           /* s3://bucket[/prefix], without a slash at the end */
    char *prefix;        /* of every key, with a slash at its end; "": none */
    char *bucket;        /* URL of the bucket, with a slash at the end */
    char sigv4[80];      /* provider, region and service */
    const struct df_secret *access_key;
    const struct df_secret *secret_key;
    struct df_retry_policy retries;
    const struct df_clock *clock;
    struct df_storage_stop *stop;
    struct df_mutex lock;
    CURL *idle[DF_S3_IDLE_MAX] DF_GUARDED_BY(lock);
    size_t idle_count DF_GUARDED_BY(lock);
};

struct df_s3_request {
    const char *method;
    const char *query;  /* encoded and sorted, each name with its '='; NULL: none */
    const char *sha256; /* of the body */
    const char *meta;   /* SHA-256 to store with an object; NULL: none */
    const char *mark;   /* to store with an object in parts, by which it is known again; or NULL */
    struct df_str body; /* of a PUT or POST */
    const char *range;  /* of a GET, as libcurl takes it; NULL: all */
    struct df_local_file *to;             /* where the body of a 200 goes; NULL: into answer */
    int to_fd;                            /* or into this file, from its start; -1: no */
    uint64_t to_max;                      /* bytes that to_fd takes: a longer body is an error */
    const struct df_storage_watch *watch; /* of a GET; NULL: none */
    long slow_seconds;                    /* given up after so long below 100 bytes a second */
    bool once;                            /* not repeated, and given up after some seconds */
    bool last_wish;                       /* the same, even after df_storage_cancel */

    /* The answer. */
    long status;
    char etag[DF_S3_TAG_MAX + 1]; /* "" if none; likewise the next ones */
    char stored_sha256[DF_CHECKSUM_LEN + 1];
    char stored_mark[DF_S3_ID_LEN + 1];
    char content_range[64];
    struct df_checksum *hash; /* of the bytes written to `to` or to_fd */
    uint64_t received;        /* bytes written to to_fd */
    struct df_buf answer;

    /* The attempt. */
    struct df_s3 *s3;
    const char *key; /* below the prefix; NULL: the bucket itself */
    CURL *easy;
    size_t sent;
    bool given_up;       /* by the watch */
    struct df_err local; /* a callback's error on the local disk */
    char message[CURL_ERROR_SIZE];
};

enum df_code df_s3_request_init(struct df_s3_request *r, struct df_s3 *s3, const char *key,
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

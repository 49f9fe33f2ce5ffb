/*
 * Scheduled files in an S3 storage. A file up to 64 MiB is one PUT. A larger file is a multipart
 * upload: each part is signed, sent and repeated by itself, so that a broken connection costs one
 * part. A file that is read back is checked against the SHA-256 that was stored with it.
 */
#include "files/s3_request.h"

#include "base/mem.h"
#include "net/url.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#define SINGLE_MAX    ((uint64_t)64 << 20)
#define PART_BYTES    ((uint64_t)16 << 20)
#define PARTS_MAX     10000 /* S3's limit: the parts of a larger file are larger */
#define URL_MAX_BYTES (DF_STORAGE_LOCATION_MAX - 1 - DF_UUID_LEN - 1 - DF_STORAGE_NAME_MAX)
#define READ_BYTES    ((size_t)256 << 10)
#define ATTEMPTS      6
#define RETRY_BASE_MS 500
#define RETRY_CAP_MS  15000
#define QUERY_MAX     1200
#define JOIN_SECONDS  600L /* S3 may be silent while it joins the parts */

/* The SHA-256 of len bytes of the file from at on. */
static enum df_code hash_range(int fd, uint64_t at, uint64_t len, char hex[DF_CHECKSUM_LEN + 1],
                               struct df_err *err)
{
    struct df_checksum *hash = df_checksum_new();
    char *buffer = df_malloc(READ_BYTES);
    enum df_code code = DF_OK;

    for (uint64_t n; len > 0 && code == DF_OK; at += n, len -= n) {
        n = len < READ_BYTES ? len : READ_BYTES;
        code = df_local_read(fd, at, buffer, (size_t)n, err);
        if (code == DF_OK)
            df_checksum_add(hash, buffer, (size_t)n);
    }
    df_checksum_end(hash, hex);
    free(buffer);
    df_checksum_free(hash);
    return code;
}

/* --- storing --- */

static enum df_code put_single(struct df_s3_request *r, uint64_t size, const char *sha256,
                               struct df_err *err)
{
    df_s3_request_set(r, "PUT", NULL, sha256);
    r->meta = sha256;
    r->body_at = 0;
    r->body_len = size;
    return df_s3_request_perform(r, err);
}

/* Takes the id out of <UploadId>…</UploadId>, and encodes it for a query. */
static bool take_upload_id(const struct df_buf *answer, struct df_buf *ret)
{
    const char *begin = answer->ptr ? strstr(answer->ptr, "<UploadId>") : NULL;
    const char *end = begin ? strstr(begin, "</UploadId>") : NULL;
    if (!end)
        return false;

    begin += strlen("<UploadId>");
    df_s3_encode(ret, df_str_n(begin, (size_t)(end - begin)), true);
    return ret->len > 0 && !df_buf_failed(ret);
}

static enum df_code begin_parts(struct df_s3_request *r, const char *sha256,
                                struct df_buf *upload_id, struct df_err *err)
{
    df_s3_request_set(r, "POST", "uploads=", DF_S3_EMPTY_SHA256);
    r->meta = sha256;
    enum df_code code = df_s3_request_perform(r, err);
    if (code == DF_OK && !take_upload_id(&r->answer, upload_id))
        code = df_err_set(err, DF_E_NET, "%s: no upload id in the answer", r->s3->base.url);
    return code;
}

/* Each part is hashed right before it is sent, so that the second read comes from the page cache.
 */
static enum df_code put_parts(struct df_s3_request *r, uint64_t size, const char *upload_id,
                              struct df_buf *list, struct df_err *err)
{
    uint64_t least = (size + PARTS_MAX - 1) / PARTS_MAX;
    uint64_t part_bytes = least > PART_BYTES ? least : PART_BYTES;
    enum df_code code = DF_OK;
    char query[QUERY_MAX];
    char sha256[DF_CHECKSUM_LEN + 1];

    df_buf_addz(list, "<CompleteMultipartUpload>");
    for (uint64_t at = 0, number = 1; at < size; at += part_bytes, number++) {
        uint64_t len = size - at < part_bytes ? size - at : part_bytes;
        (void)snprintf(query, sizeof(query), "partNumber=%u&uploadId=%s", (unsigned)number,
                       upload_id);
        code = hash_range(r->fd, at, len, sha256, err);
        if (code != DF_OK)
            return code;
        df_s3_request_set(r, "PUT", query, sha256);
        r->body_at = at;
        r->body_len = len;
        code = df_s3_request_perform(r, err);
        if (code == DF_OK && !r->etag[0])
            code = df_err_set(err, DF_E_NET, "%s: a part has no ETag", r->s3->base.url);
        if (code != DF_OK)
            return code;
        df_buf_addf(list, "<Part><PartNumber>%u</PartNumber><ETag>%s</ETag></Part>",
                    (unsigned)number, r->etag);
    }
    df_buf_addz(list, "</CompleteMultipartUpload>");
    return DF_OK;
}

/* Whether the object exists and is ours: the answer to the completion may have been lost. */
static bool is_stored(struct df_s3_request *r, const char *sha256)
{
    df_s3_request_set(r, "HEAD", NULL, DF_S3_EMPTY_SHA256);
    return df_s3_request_perform(r, NULL) == DF_OK && strcmp(r->stored_sha256, sha256) == 0;
}

static enum df_code join_parts(struct df_s3_request *r, const char *upload_id,
                               const struct df_buf *list, const char *sha256, struct df_err *err)
{
    char query[QUERY_MAX];
    char body_sha256[DF_CHECKSUM_LEN + 1];

    (void)snprintf(query, sizeof(query), "uploadId=%s", upload_id);
    df_checksum_of(df_buf_str(list), body_sha256);
    df_s3_request_set(r, "POST", query, body_sha256);
    r->body = df_buf_str(list);
    r->slow_seconds = JOIN_SECONDS;
    enum df_code code = df_s3_request_perform(r, err);
    /* S3 sends the status before the work is done; the body tells how it ended. */
    if (code == DF_OK && !(r->answer.ptr && strstr(r->answer.ptr, "CompleteMultipartUploadResult")))
        code = df_err_set(err, DF_E_NET, "%s: the parts were not put together (" DF_STR_FMT ")",
                          r->s3->base.url, DF_STR_ARG(df_s3_error_name(r)));
    return code == DF_OK || code == DF_E_CANCELLED || !is_stored(r, sha256) ? code : DF_OK;
}

/* If this fails too, the bucket's rule for unfinished uploads clears the parts. */
static void abort_parts(struct df_s3_request *r, const char *upload_id)
{
    char query[QUERY_MAX];

    (void)snprintf(query, sizeof(query), "uploadId=%s", upload_id);
    df_s3_request_set(r, "DELETE", query, DF_S3_EMPTY_SHA256);
    r->last_wish = true;
    enum df_code ignored = df_s3_request_perform(r, NULL);
    (void)ignored;
}

static enum df_code put_multipart(struct df_s3_request *r, uint64_t size, const char *sha256,
                                  struct df_err *err)
{
    struct df_buf upload_id, list;

    df_buf_init(&upload_id, 1024);
    df_buf_init(&list, (size_t)PARTS_MAX * (DF_S3_TAG_MAX + 64));
    enum df_code code = begin_parts(r, sha256, &upload_id, err);
    if (code == DF_OK) {
        code = put_parts(r, size, upload_id.ptr, &list, err);
        if (code == DF_OK)
            code = join_parts(r, upload_id.ptr, &list, sha256, err);
        if (code != DF_OK)
            abort_parts(r, upload_id.ptr);
    }
    df_buf_release(&upload_id);
    df_buf_release(&list);
    return code;
}

static enum df_code s3_put(struct df_shelf *s, const char *key, int fd, uint64_t size,
                           struct df_err *err)
{
    struct df_s3_request r;
    char sha256[DF_CHECKSUM_LEN + 1];
    enum df_code code = df_s3_request_init(&r, (struct df_s3 *)s, key, err);

    if (code == DF_OK)
        code = hash_range(fd, 0, size, sha256, err);
    if (code == DF_OK) {
        r.fd = fd;
        code = size > SINGLE_MAX ? put_multipart(&r, size, sha256, err)
                                 : put_single(&r, size, sha256, err);
    }
    df_s3_request_release(&r);
    return code;
}

/* --- fetching and removing --- */

static enum df_code s3_get(struct df_shelf *s, const char *key, struct df_local_file *to,
                           struct df_err *err)
{
    struct df_s3_request r;
    char sha256[DF_CHECKSUM_LEN + 1];
    enum df_code code = df_s3_request_init(&r, (struct df_s3 *)s, key, err);

    if (code == DF_OK) {
        df_s3_request_set(&r, "GET", NULL, DF_S3_EMPTY_SHA256);
        r.to = to;
        code = df_s3_request_perform(&r, err);
    }
    if (code == DF_OK) {
        df_checksum_end(r.hash, sha256);
        if (strcmp(sha256, r.stored_sha256) != 0)
            code =
                df_err_set(err, DF_E_INTERNAL, "%s/%s is not what was stored there", s->url, key);
    }
    df_s3_request_release(&r);
    return code;
}

static enum df_code s3_remove(struct df_shelf *s, const char *key, struct df_err *err)
{
    struct df_s3_request r;
    enum df_code code = df_s3_request_init(&r, (struct df_s3 *)s, key, err);

    if (code == DF_OK) {
        df_s3_request_set(&r, "DELETE", NULL, DF_S3_EMPTY_SHA256);
        code = df_s3_request_perform(&r, err);
        if (r.status == 404 && !df_str_eq(df_s3_error_name(&r), DF_STR("NoSuchBucket")))
            code = DF_OK;
    }
    df_s3_request_release(&r);
    return code;
}

static void s3_free(struct df_shelf *s)
{
    struct df_s3 *s3 = (struct df_s3 *)s;

    free(s3->base.url);
    free(s3->root);
    free(s3);
}

static const struct df_shelf_ops s3_ops = {s3_put, s3_get, s3_remove, s3_free};

/* --- settings --- */

static bool bucket_ok(struct df_str s)
{
    if (s.len < 3 || s.len > 63 || !isalnum((unsigned char)s.ptr[0]) ||
        !isalnum((unsigned char)s.ptr[s.len - 1]))
        return false;
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.'))
            return false;
    }
    return true;
}

/* Parts between slashes; none is empty or only dots. */
static bool prefix_ok(struct df_str s)
{
    while (s.ptr) {
        struct df_str part;
        s = df_str_cut(s, '/', &part);
        size_t dots = 0;
        for (size_t i = 0; i < part.len; i++) {
            if (!isalnum((unsigned char)part.ptr[i]) && !strchr("!-_.*'()=", part.ptr[i]))
                return false;
            dots += part.ptr[i] == '.' ? 1 : 0;
        }
        if (part.len == 0 || dots == part.len)
            return false;
    }
    return true;
}

static bool region_ok(const char *s)
{
    size_t len = strlen(s);
    return len > 0 && len < 64 && strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == len;
}

/* The endpoint's URL with the bucket in the host or in the path, and the prefix. */
static enum df_code make_root(const struct df_s3_settings *set, const char *region,
                              struct df_str bucket, struct df_str prefix, struct df_buf *ret,
                              struct df_err *err)
{
    char amazon[128];
    struct df_url url;

    (void)snprintf(amazon, sizeof(amazon), "https://s3.%s.amazonaws.com", region);
    struct df_str endpoint = df_str_c(set->endpoint && *set->endpoint ? set->endpoint : amazon);
    enum df_code code = df_url_parse(endpoint, &url, err);
    if (code != DF_OK || url.userinfo.ptr ||
        (url.rest.len > 0 && !df_str_eq(url.rest, DF_STR("/"))))
        return df_err_set(err, DF_E_CONFIG,
                          "s3.endpoint must be http:// or https://, a host and perhaps a port");
    df_buf_addz(ret, url.tls ? "https://" : "http://");
    if (!set->path_style)
        df_buf_addf(ret, DF_STR_FMT ".", DF_STR_ARG(bucket));
    df_buf_addf(ret, url.ipv6 ? "[" DF_STR_FMT "]" : DF_STR_FMT, DF_STR_ARG(url.host));
    if (url.port != (url.tls ? 443U : 80U))
        df_buf_addf(ret, ":%u", url.port);
    df_buf_addc(ret, '/');
    if (set->path_style)
        df_buf_addf(ret, DF_STR_FMT "/", DF_STR_ARG(bucket));
    if (prefix.len > 0) {
        df_s3_encode(ret, prefix, false);
        df_buf_addc(ret, '/');
    }
    return DF_OK;
}

static void init_curl(void)
{
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        abort();
}

static enum df_code check_settings(struct df_str url, struct df_str bucket, struct df_str prefix,
                                   const struct df_s3_settings *set, const char *region,
                                   struct df_err *err)
{
    if (url.len > URL_MAX_BYTES)
        return df_err_set(err, DF_E_CONFIG, "imports.scheduled_storage is longer than %d bytes",
                          URL_MAX_BYTES);
    if (!bucket_ok(bucket) || (prefix.ptr && !prefix_ok(prefix)))
        return df_err_set(err, DF_E_CONFIG,
                          "imports.scheduled_storage is not s3://bucket or s3://bucket/prefix");
    if (!region_ok(region))
        return df_err_set(err, DF_E_CONFIG, "s3.region is not the name of a region");
    if (df_secret_str(set->access_key).len == 0 || df_secret_str(set->secret_key).len == 0)
        return df_err_set(err, DF_E_CONFIG,
                          "s3.access_key and s3.secret_key (or their _file) are needed when "
                          "imports.scheduled_storage is s3://");
    return DF_OK;
}

enum df_code df_s3_new(const struct df_storage_options *opt, const struct df_clock *clock,
                       struct df_storage_stop *stop, struct df_shelf **ret, struct df_err *err)
{
    const struct df_s3_settings *set = &opt->settings.s3;
    const char *url = opt->settings.scheduled;
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const char *region = set->region && *set->region ? set->region : "us-east-1";
    struct df_str place = df_str_c(url + strlen("s3://"));
    struct df_str bucket;
    struct df_buf root;

    while (df_str_ends(place, DF_STR("/")))
        place.len--;
    struct df_str whole = df_str_n(url, strlen("s3://") + place.len);
    struct df_str prefix = df_str_cut(place, '/', &bucket);
    df_buf_init(&root, 4096);
    enum df_code code = check_settings(whole, bucket, prefix, set, region, err);
    if (code == DF_OK)
        code = make_root(set, region, bucket, prefix, &root, err);
    if (code == DF_OK) {
        (void)pthread_once(&once, init_curl);
        struct df_s3 *s3 = df_calloc(1, sizeof(*s3));
        *s3 = (struct df_s3){
            .base = {.ops = &s3_ops, .url = df_strdup(whole)},
            .root = df_strdup(df_buf_str(&root)),
            .access_key = set->access_key,
            .secret_key = set->secret_key,
            .retries = {.base_ms = opt->s3_retry_base_ms ? opt->s3_retry_base_ms : RETRY_BASE_MS,
                        .cap_ms = RETRY_CAP_MS,
                        .max_attempts = ATTEMPTS},
            .clock = clock,
            .stop = stop,
        };
        (void)snprintf(s3->sigv4, sizeof(s3->sigv4), "aws:amz:%s:s3", region);
        *ret = &s3->base;
    }
    df_buf_release(&root);
    return code;
}

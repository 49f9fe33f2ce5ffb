/*
 * Objects of an S3 storage: reading and removing them, and the settings. s3_write.c writes them,
 * s3_list.c lists them. A file that was stored by one PUT is checked against the SHA-256 that was
 * stored with it. The hash of a file in parts is not known when it is begun: its encrypted segments
 * check themselves, and its reader compares the checksum of the plain bytes.
 */
#include "files/s3_request.h"

#include "base/mem.h"
#include "net/url.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#define URL_MAX_BYTES (DF_STORAGE_LOCATION_MAX - 1 - DF_UUID_LEN - 1 - DF_STORAGE_NAME_MAX)
#define ATTEMPTS      6
#define RETRY_BASE_MS 500
#define RETRY_CAP_MS  15000

enum df_code df_s3_get(struct df_s3 *s, const char *key, struct df_local_file *to,
                       const struct df_storage_watch *watch, struct df_err *err)
{
    struct df_s3_request r;
    char sha256[DF_CHECKSUM_LEN + 1];
    enum df_code code = df_s3_request_init(&r, s, key, err);

    if (code == DF_OK) {
        df_s3_request_set(&r, "GET", NULL, DF_S3_EMPTY_SHA256);
        r.to = to;
        r.watch = watch;
        code = df_s3_request_perform(&r, err);
    }
    if (code == DF_OK && r.stored_sha256[0]) {
        df_checksum_end(r.hash, sha256);
        if (strcmp(sha256, r.stored_sha256) != 0)
            code =
                df_err_set(err, DF_E_INTERNAL, "%s/%s is not what was stored there", s->url, key);
    }
    df_s3_request_release(&r);
    return code;
}

/* Content-Range is "bytes 0-99/1234". An answer without it has the whole object. */
static uint64_t size_of_object(const struct df_s3_request *r)
{
    const char *slash = strrchr(r->content_range, '/');

    return r->status == 206 && slash ? strtoull(slash + 1, NULL, 10) : r->answer.len;
}

enum df_code df_s3_read(struct df_s3 *s, const char *key, uint64_t offset, char *ptr, size_t len,
                        size_t *ret_len, uint64_t *ret_size, struct df_err *err)
{
    struct df_s3_request r;
    char range[48];
    enum df_code code = df_s3_request_init(&r, s, key, err);

    (void)snprintf(range, sizeof(range), "%llu-%llu", (unsigned long long)offset,
                   (unsigned long long)(offset + len - 1));
    if (code == DF_OK) {
        df_s3_request_set(&r, "GET", NULL, DF_S3_EMPTY_SHA256);
        r.range = range;
        code = df_s3_request_perform(&r, err);
    }
    if (code == DF_OK && r.status != 206 && offset > 0)
        code = df_err_set(err, DF_E_NET, "%s: the storage does not know ranges", s->url);
    if (code == DF_OK) {
        *ret_len = r.answer.len < len ? r.answer.len : len;
        *ret_size = size_of_object(&r);
        if (*ret_len > 0)
            memcpy(ptr, r.answer.ptr, *ret_len);
    }
    df_s3_request_release(&r);
    return code;
}

enum df_code df_s3_remove(struct df_s3 *s, const char *key, struct df_err *err)
{
    struct df_s3_request r;
    enum df_code code = df_s3_request_init(&r, s, key, err);

    if (code == DF_OK) {
        df_s3_request_set(&r, "DELETE", NULL, DF_S3_EMPTY_SHA256);
        code = df_s3_request_perform(&r, err);
        if (r.status == 404 && !df_str_eq(df_s3_error_name(&r), DF_STR("NoSuchBucket")))
            code = DF_OK;
    }
    df_s3_request_release(&r);
    return code;
}

const char *df_s3_url(const struct df_s3 *s)
{
    return s->url;
}

void df_s3_free(struct df_s3 *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->idle_count; i++)
        curl_easy_cleanup(s->idle[i]);
    df_mutex_destroy(&s->lock);
    free(s->url);
    free(s->prefix);
    free(s->bucket);
    free(s);
}

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

/* The endpoint's URL with the bucket in the host or in the path. */
static enum df_code make_bucket_url(const struct df_s3_settings *set, const char *region,
                                    struct df_str bucket, struct df_buf *ret, struct df_err *err)
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
    return DF_OK;
}

static void init_curl(void)
{
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        abort();
}

static enum df_code check_settings(const char *setting, struct df_str url, struct df_str bucket,
                                   struct df_str prefix, const struct df_s3_settings *set,
                                   const char *region, struct df_err *err)
{
    if (url.len > URL_MAX_BYTES)
        return df_err_set(err, DF_E_CONFIG, "%s is longer than %d bytes", setting, URL_MAX_BYTES);
    if (!bucket_ok(bucket) || (prefix.ptr && !prefix_ok(prefix)))
        return df_err_set(err, DF_E_CONFIG, "%s is not s3://bucket or s3://bucket/prefix", setting);
    if (!region_ok(region))
        return df_err_set(err, DF_E_CONFIG, "s3.region is not the name of a region");
    if (df_secret_str(set->access_key).len == 0 || df_secret_str(set->secret_key).len == 0)
        return df_err_set(err, DF_E_CONFIG,
                          "s3.access_key and s3.secret_key (or their _file) are needed when "
                          "%s is s3://",
                          setting);
    return DF_OK;
}

static struct df_s3 *make_s3(const struct df_storage_options *opt, const char *region,
                             struct df_str url, struct df_str prefix, struct df_str bucket)
{
    struct df_s3 *s3 = df_calloc(1, sizeof(*s3));
    const struct df_s3_settings *set = &opt->settings.s3;

    *s3 = (struct df_s3){
        .url = df_strdup(url),
        .prefix = df_malloc(prefix.len + 2),
        .bucket = df_strdup(bucket),
        .access_key = set->access_key,
        .secret_key = set->secret_key,
        .retries = {.base_ms = opt->s3_retry_base_ms ? opt->s3_retry_base_ms : RETRY_BASE_MS,
                    .cap_ms = RETRY_CAP_MS,
                    .max_attempts = ATTEMPTS},
    };
    df_mutex_init(&s3->lock);
    (void)snprintf(s3->prefix, prefix.len + 2, DF_STR_FMT "%s", DF_STR_ARG(prefix),
                   prefix.len > 0 ? "/" : "");
    (void)snprintf(s3->sigv4, sizeof(s3->sigv4), "aws:amz:%s:s3", region);
    return s3;
}

enum df_code df_s3_new(const struct df_storage_options *opt, const char *setting, const char *url,
                       const struct df_clock *clock, struct df_storage_stop *stop,
                       struct df_s3 **ret, struct df_err *err)
{
    const struct df_s3_settings *set = &opt->settings.s3;
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const char *region = set->region && *set->region ? set->region : "us-east-1";
    struct df_str place = df_str_c(url + strlen("s3://"));
    struct df_str bucket;
    struct df_buf bucket_url;

    while (df_str_ends(place, DF_STR("/")))
        place.len--;
    struct df_str whole = df_str_n(url, strlen("s3://") + place.len);
    struct df_str prefix = df_str_cut(place, '/', &bucket);
    df_buf_init(&bucket_url, 4096);
    enum df_code code = check_settings(setting, whole, bucket, prefix, set, region, err);
    if (code == DF_OK)
        code = make_bucket_url(set, region, bucket, &bucket_url, err);
    if (code == DF_OK) {
        (void)pthread_once(&once, init_curl);
        *ret = make_s3(opt, region, whole, prefix, df_buf_str(&bucket_url));
        (*ret)->setting = setting;
        (*ret)->clock = clock;
        (*ret)->stop = stop;
    }
    df_buf_release(&bucket_url);
    return code;
}

#include "files/bucket.h"

#include "base/mem.h"
#include "files/s3_request.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define NAME_MAX_BYTES 1024 /* S3's limit */

struct df_bucket {
    struct df_s3 *s3;
    struct df_storage_stop stop;
};

enum df_code df_bucket_open(const char *url, const char *setting, const struct df_s3_settings *set,
                            const struct df_clock *clock, struct df_bucket **ret,
                            struct df_err *err)
{
    struct df_bucket *b = df_calloc(1, sizeof *b);
    const struct df_storage_options opt = {.settings = {.s3 = *set}};

    df_mutex_init(&b->stop.lock);
    (void)pthread_cond_init(&b->stop.changed, NULL);
    enum df_code code = df_s3_new(&opt, setting, url, clock, &b->stop, &b->s3, err);
    if (code == DF_OK)
        *ret = b;
    else
        df_bucket_free(b);
    return code;
}

void df_bucket_free(struct df_bucket *b)
{
    if (!b)
        return;
    df_s3_free(b->s3);
    (void)pthread_cond_destroy(&b->stop.changed);
    df_mutex_destroy(&b->stop.lock);
    free(b);
}

void df_bucket_cancel(struct df_bucket *b)
{
    atomic_store(&b->stop.set, true);
    df_lock(&b->stop.lock);
    (void)pthread_cond_broadcast(&b->stop.changed);
    df_unlock(&b->stop.lock);
}

enum df_code df_bucket_put(struct df_bucket *b, const char *name, int fd, uint64_t size,
                           struct df_err *err)
{
    return df_s3_put(b->s3, name, fd, size, err);
}

enum df_code df_bucket_remove(struct df_bucket *b, const char *name, struct df_err *err)
{
    return df_s3_remove(b->s3, name, err);
}

/* An object in parts has no SHA-256 stored with it: what reads the file checks it. */
enum df_code df_bucket_get(struct df_bucket *b, const char *name, int fd, uint64_t max,
                           struct df_err *err)
{
    struct df_s3_request r;
    char sha256[DF_CHECKSUM_LEN + 1];
    enum df_code code = df_s3_request_init(&r, b->s3, name, err);

    if (code == DF_OK) {
        df_s3_request_set(&r, "GET", NULL, DF_S3_EMPTY_SHA256);
        r.to_fd = fd;
        r.to_max = max;
        code = df_s3_request_perform(&r, err);
    }
    /* An attempt that broke off may have left more than the last one wrote. */
    if (code == DF_OK && ftruncate(fd, (off_t)r.received) != 0)
        code = df_err_errno(err, "cannot write what is received");
    if (code == DF_OK && r.stored_sha256[0]) {
        df_checksum_end(r.hash, sha256);
        if (strcmp(sha256, r.stored_sha256) != 0)
            code = df_err_set(err, DF_E_INTERNAL, "%s/%s is not what was stored there",
                              df_s3_url(b->s3), name);
    }
    df_s3_request_release(&r);
    return code;
}

/* --- listing --- */

/* The text of the next element of that name before `end`; absent: there is none. */
static struct df_str next_element(const char *at, const char *end, const char *name)
{
    char open[32], close[32];

    (void)snprintf(open, sizeof open, "<%s>", name);
    (void)snprintf(close, sizeof close, "</%s>", name);
    const char *from = memmem(at, (size_t)(end - at), open, strlen(open));
    if (!from)
        return DF_STR_NULL;
    from += strlen(open);
    const char *to = memmem(from, (size_t)(end - from), close, strlen(close));
    return to ? df_str_n(from, (size_t)(to - from)) : DF_STR_NULL;
}

static bool is_plain(struct df_str name)
{
    for (size_t i = 0; i < name.len; i++)
        if (name.ptr[i] <= ' ' || name.ptr[i] > '~' || strchr("<>&\"'", name.ptr[i]))
            return false;
    return name.len > 0 && name.len <= NAME_MAX_BYTES;
}

/* Tells the objects of a page; last gets the key of the last one, "" if there is none. */
static void read_list(const struct df_bucket *b, struct df_str page,
                      void (*seen)(void *arg, const char *name, uint64_t size), void *arg,
                      char last[NAME_MAX_BYTES + 1])
{
    const char *at = page.ptr, *end = page.ptr + page.len;
    struct df_str object, prefix = df_str_c(b->s3->prefix);
    int64_t size;

    last[0] = '\0';
    while ((object = next_element(at, end, "Contents")).ptr) {
        at = object.ptr + object.len;
        struct df_str key = next_element(object.ptr, at, "Key");
        if (!key.ptr || !is_plain(key))
            continue;
        memcpy(last, key.ptr, key.len);
        last[key.len] = '\0';
        if (df_str_starts(key, prefix) && key.len > prefix.len &&
            df_str_to_i64(next_element(object.ptr, at, "Size"), &size) && size >= 0)
            seen(arg, last + prefix.len, (uint64_t)size);
    }
}

/* The parameters are in the order in which they are signed. */
static enum df_code fetch_list(const struct df_bucket *b, const char *after,
                               struct df_s3_request *r, struct df_err *err)
{
    struct df_buf query;

    df_buf_init(&query, 16384);
    df_buf_addz(&query, "list-type=2&prefix=");
    df_s3_encode(&query, df_str_c(b->s3->prefix), true);
    df_buf_addz(&query, "&start-after=");
    df_s3_encode(&query, df_str_c(after), true);
    df_s3_request_set(r, "GET", df_buf_str(&query).ptr, DF_S3_EMPTY_SHA256);
    enum df_code code = df_s3_request_perform(r, err);
    df_buf_release(&query);
    return code;
}

enum df_code df_bucket_each(struct df_bucket *b,
                            void (*seen)(void *arg, const char *name, uint64_t size), void *arg,
                            struct df_err *err)
{
    char last[NAME_MAX_BYTES + 1] = "";
    bool more = true;
    struct df_s3_request r;
    enum df_code code = df_s3_request_init(&r, b->s3, NULL, err);

    while (more && code == DF_OK) {
        code = fetch_list(b, last, &r, err);
        if (code != DF_OK)
            break;
        struct df_str text = df_buf_str(&r.answer);
        read_list(b, text, seen, arg, last);
        /* A page that says there is more, and has nothing, would be asked for again for ever. */
        more = last[0] && df_str_eq(next_element(text.ptr, text.ptr + text.len, "IsTruncated"),
                                    DF_STR("true"));
    }
    df_s3_request_release(&r);
    return code;
}

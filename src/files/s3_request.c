/*
 * libcurl makes the signatures (AWS_SIGV4). Version 7.88 signs path and query as given, so both are
 * written here in the form that must be signed. It also signs every header that is set, even one
 * that is only named to suppress it. So "Expect: 100-continue" cannot be suppressed; it also saves
 * sending a body that is refused.
 */
#include "files/s3_request.h"

#include "base/lock.h"
#include "base/mem.h"
#include "net/security.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define ANSWER_MAX   ((size_t)1 << 20) /* a page of a listing has the most */
#define SEND_BYTES   (256L << 10)
#define CONNECT_MS   10000L
#define ONCE_MS      5000L
#define SLOW_SECONDS 60L
#define ASKED_MAX_MS 60000 /* of Retry-After: a longer wait is cut to this */
#define META         "x-amz-meta-sha256"
#define MARK         "x-amz-meta-upload"

/* --- libcurl's callbacks --- */

static size_t send_body(char *ptr, size_t size, size_t count, void *arg)
{
    struct df_s3_request *r = arg;
    size_t left = r->body.len - r->sent;
    size_t n = size * count < left ? size * count : left;

    memcpy(ptr, r->body.ptr + r->sent, n);
    r->sent += n;
    return n;
}

/* libcurl sends the body again when a kept connection turns out to be closed. */
static int rewind_body(void *arg, curl_off_t offset, int origin)
{
    struct df_s3_request *r = arg;

    if (origin != SEEK_SET || offset < 0 || (size_t)offset > r->body.len)
        return CURL_SEEKFUNC_FAIL;
    r->sent = (size_t)offset;
    return CURL_SEEKFUNC_OK;
}

static bool write_received(struct df_s3_request *r, const char *ptr, size_t len)
{
    if (len > r->to_max - r->received) {
        (void)df_err_set(&r->local, DF_E_ANSWER_TOO_LARGE, "%s: longer than %llu bytes", r->key,
                         (unsigned long long)r->to_max);
        return false;
    }
    while (len > 0) {
        ssize_t n = pwrite(r->to_fd, ptr, len, (off_t)r->received);
        if (n < 0) {
            (void)df_err_errno(&r->local, "cannot write what is received");
            return false;
        }
        ptr += n;
        len -= (size_t)n;
        r->received += (uint64_t)n;
    }
    return true;
}

static size_t receive_answer(char *ptr, size_t size, size_t count, void *arg)
{
    struct df_s3_request *r = arg;
    size_t len = size * count;
    long status = 0;

    (void)curl_easy_getinfo(r->easy, CURLINFO_RESPONSE_CODE, &status);
    if (r->to && status == 200) {
        df_checksum_add(r->hash, ptr, len);
        return df_local_write(r->to, ptr, len, &r->local) == DF_OK ? len : 0;
    }
    if (r->to_fd >= 0 && status == 200) {
        df_checksum_add(r->hash, ptr, len);
        return write_received(r, ptr, len) ? len : 0;
    }
    size_t room = ANSWER_MAX - r->answer.len;
    df_buf_add(&r->answer, ptr, len < room ? len : room);
    return len;
}

static bool is_cancelled(const struct df_s3_request *r)
{
    return !r->last_wish && atomic_load(&r->s3->stop->set);
}

static int check_cancelled(void *arg, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    struct df_s3_request *r = arg;

    (void)a, (void)b, (void)c, (void)d;
    r->given_up = r->watch && !r->watch->go_on(r->watch->arg);
    return r->given_up || is_cancelled(r) ? 1 : 0;
}

/* --- one attempt --- */

static void add_header(struct curl_slist **list, const char *name, const char *value)
{
    char line[256];

    (void)snprintf(line, sizeof(line), "%s: %s", name, value);
    struct curl_slist *longer = curl_slist_append(*list, line);
    if (!longer)
        df_oom();
    *list = longer;
}

static CURLcode set_constants(struct df_s3_request *r)
{
    const struct df_s3 *s3 = r->s3;
    CURL *e = r->easy;
    CURLcode bad = 0;

    bad |= curl_easy_setopt(e, CURLOPT_ERRORBUFFER, r->message);
    bad |= curl_easy_setopt(e, CURLOPT_PATH_AS_IS, 1L);
    bad |= curl_easy_setopt(e, CURLOPT_USERAGENT, "DataFlow");
    bad |= curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
    bad |= curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, r->once || r->last_wish ? ONCE_MS : 0L);
    bad |= curl_easy_setopt(e, CURLOPT_LOW_SPEED_LIMIT, 100L);
    bad |= curl_easy_setopt(e, CURLOPT_LOW_SPEED_TIME, r->slow_seconds);
    bad |= curl_easy_setopt(e, CURLOPT_AWS_SIGV4, s3->sigv4);
    bad |= curl_easy_setopt(e, CURLOPT_USERNAME, df_secret_str(s3->access_key).ptr);
    bad |= curl_easy_setopt(e, CURLOPT_PASSWORD, df_secret_str(s3->secret_key).ptr);
    bad |= curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, receive_answer);
    bad |= curl_easy_setopt(e, CURLOPT_WRITEDATA, r);
    bad |= curl_easy_setopt(e, CURLOPT_XFERINFOFUNCTION, check_cancelled);
    bad |= curl_easy_setopt(e, CURLOPT_XFERINFODATA, r);
    bad |= curl_easy_setopt(e, CURLOPT_NOPROGRESS, 0L);
    return bad || !df_security_set_curl(e) ? CURLE_FAILED_INIT : CURLE_OK;
}

static CURLcode set_method(struct df_s3_request *r)
{
    CURL *e = r->easy;
    CURLcode bad = 0;

    if (strcmp(r->method, "PUT") == 0) {
        bad |= curl_easy_setopt(e, CURLOPT_UPLOAD, 1L);
        bad |= curl_easy_setopt(e, CURLOPT_INFILESIZE_LARGE, (curl_off_t)r->body.len);
        bad |= curl_easy_setopt(e, CURLOPT_UPLOAD_BUFFERSIZE, SEND_BYTES);
        bad |= curl_easy_setopt(e, CURLOPT_READFUNCTION, send_body);
        bad |= curl_easy_setopt(e, CURLOPT_READDATA, r);
        bad |= curl_easy_setopt(e, CURLOPT_SEEKFUNCTION, rewind_body);
        bad |= curl_easy_setopt(e, CURLOPT_SEEKDATA, r);
    } else if (strcmp(r->method, "POST") == 0) {
        bad |= curl_easy_setopt(e, CURLOPT_POST, 1L);
        bad |= curl_easy_setopt(e, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)r->body.len);
        bad |= curl_easy_setopt(e, CURLOPT_POSTFIELDS, r->body.ptr);
    } else if (strcmp(r->method, "HEAD") == 0) {
        bad |= curl_easy_setopt(e, CURLOPT_NOBODY, 1L);
    } else {
        bad |= curl_easy_setopt(e, CURLOPT_CUSTOMREQUEST, r->method);
        bad |= curl_easy_setopt(e, CURLOPT_RANGE, r->range);
    }
    return bad;
}

void df_s3_encode(struct df_buf *b, struct df_str s, bool slashes)
{
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.ptr[i];
        if (isalnum(c) || c == '-' || c == '.' || c == '_' || c == '~' || (c == '/' && !slashes))
            df_buf_addc(b, (char)c);
        else
            df_buf_addf(b, "%%%02X", c);
    }
}

static CURLcode set_url(struct df_s3_request *r)
{
    struct df_buf url;

    df_buf_init(&url, 16384);
    df_buf_addz(&url, r->s3->bucket);
    if (r->key) {
        df_s3_encode(&url, df_str_c(r->s3->prefix), false);
        df_s3_encode(&url, df_str_c(r->key), false);
    }
    if (r->query)
        df_buf_addf(&url, "?%s", r->query);
    struct df_url parsed;
    CURLcode bad =
        df_buf_failed(&url) ? CURLE_URL_MALFORMAT : curl_easy_setopt(r->easy, CURLOPT_URL, url.ptr);
    if (df_url_parse(df_str_c(r->s3->bucket), &parsed, NULL) == DF_OK)
        (void)df_security_set_route(r->easy, &parsed);
    df_security_end_older(r->easy);
    df_buf_release(&url);
    return bad;
}

/* Copies a header of the answer if it is short and plain; else "". */
static void copy_header(CURL *easy, const char *name, char *out, size_t size)
{
    struct curl_header *h;

    out[0] = '\0';
    if (curl_easy_header(easy, name, 0, CURLH_HEADER, -1, &h) != CURLHE_OK)
        return;
    size_t len = strlen(h->value);
    for (size_t i = 0; i < len; i++)
        if (h->value[i] < ' ' || h->value[i] > '~' || strchr("<>&", h->value[i]))
            return;
    if (len < size)
        memcpy(out, h->value, len + 1);
}

struct df_str df_s3_error_name(const struct df_s3_request *r)
{
    const char *begin = r->answer.ptr ? strstr(r->answer.ptr, "<Code>") : NULL;
    size_t len = 0;

    if (!begin)
        return DF_STR("no reason given");
    begin += strlen("<Code>");
    while (len < 64 && isalnum((unsigned char)begin[len]))
        len++;
    return df_str_n(begin, len);
}

static enum df_code judge_status(const struct df_s3_request *r, struct df_err *err)
{
    struct df_str reason = df_s3_error_name(r);

    if (r->status == 404 && !strcmp(r->method, "GET") && !df_str_eq(reason, DF_STR("NoSuchBucket")))
        return df_err_set(err, DF_E_NOT_FOUND, "the file is not where it was stored");
    enum df_retry_class class = df_retry_class_of((unsigned)r->status);
    /* S3 answers 400 on a connection that was silent for a while. */
    if (df_str_eq(reason, DF_STR("RequestTimeout")))
        class = DF_CLASS_RETRY;
    switch (class) {
    case DF_CLASS_SUCCESS:
        return DF_OK;
    case DF_CLASS_RETRY:
        return df_err_set(err, DF_E_NET, "%s: %s answered %ld (" DF_STR_FMT ")", r->s3->url,
                          r->method, r->status, DF_STR_ARG(reason));
    case DF_CLASS_PERMANENT:
        break;
    }
    return df_err_set(err, DF_E_CONFIG,
                      "%s: %s was refused with %ld (" DF_STR_FMT "); see %s and [s3]", r->s3->url,
                      r->method, r->status, DF_STR_ARG(reason), r->s3->setting);
}

static enum df_code judge_attempt(struct df_s3_request *r, CURLcode result, struct df_err *err)
{
    if (is_cancelled(r))
        return df_err_set(err, DF_E_CANCELLED, "the server is shutting down");
    if (r->given_up)
        return df_err_set(err, DF_E_CANCELLED, "the transfer was given up");
    if (r->local.code != DF_OK) {
        if (err)
            *err = r->local;
        return r->local.code;
    }
    if (result != CURLE_OK)
        return df_security_curl_error(r->easy, (int)result, r->message, r->s3->url, err);
    (void)curl_easy_getinfo(r->easy, CURLINFO_RESPONSE_CODE, &r->status);
    copy_header(r->easy, "etag", r->etag, sizeof(r->etag));
    copy_header(r->easy, META, r->stored_sha256, sizeof(r->stored_sha256));
    copy_header(r->easy, MARK, r->stored_mark, sizeof(r->stored_mark));
    copy_header(r->easy, "content-range", r->content_range, sizeof(r->content_range));
    return judge_status(r, err);
}

static enum df_code attempt_request(struct df_s3_request *r, struct df_err *err)
{
    struct curl_slist *headers = NULL;
    enum df_code code;

    r->sent = 0;
    r->status = 0;
    r->given_up = false;
    r->local = DF_ERR_INIT;
    r->message[0] = '\0';
    df_buf_reset(&r->answer);
    r->received = 0;
    df_checksum_reset(r->hash);
    if (r->to) {
        code = df_local_rewind(r->to, err);
        if (code != DF_OK)
            return code;
    }
    curl_easy_reset(r->easy);
    add_header(&headers, "x-amz-content-sha256", r->sha256);
    add_header(&headers, "Content-Type", "application/octet-stream");
    if (r->meta)
        add_header(&headers, META, r->meta);
    if (r->mark)
        add_header(&headers, MARK, r->mark);
    if (set_constants(r) || set_method(r) || set_url(r) ||
        curl_easy_setopt(r->easy, CURLOPT_HTTPHEADER, headers))
        code = df_err_set(err, DF_E_INTERNAL, "libcurl refuses an option of the request");
    else
        code = judge_attempt(r, curl_easy_perform(r->easy), err);
    (void)curl_easy_setopt(r->easy, CURLOPT_HTTPHEADER, NULL);
    curl_slist_free_all(headers);
    return code;
}

/* --- attempts and waits --- */

void df_storage_wait(struct df_storage_stop *stop, int64_t ms)
{
    int64_t end_ms = df_mono_ms(df_clock_real()) + ms;

    df_lock(&stop->lock);
    for (int64_t left = ms; left > 0 && !atomic_load(&stop->set);) {
        (void)df_cond_wait_ms(&stop->changed, &stop->lock, left);
        left = end_ms - df_mono_ms(df_clock_real());
    }
    df_unlock(&stop->lock);
}

static int64_t retry_after_ms(CURL *easy)
{
    curl_off_t seconds = 0;

    if (curl_easy_getinfo(easy, CURLINFO_RETRY_AFTER, &seconds) != CURLE_OK || seconds <= 0)
        return -1;
    return seconds < ASKED_MAX_MS / 1000 ? (int64_t)seconds * 1000 : ASKED_MAX_MS;
}

enum df_code df_s3_request_perform(struct df_s3_request *r, struct df_err *err)
{
    const struct df_s3 *s3 = r->s3;

    for (int64_t n = 1;; n++) {
        enum df_code code = attempt_request(r, err);
        if (code == DF_OK || code == DF_E_CANCELLED || r->once || r->last_wish ||
            r->local.code != DF_OK || df_code_retry(code) != DF_RETRY_LATER ||
            df_retry_exhausted(&s3->retries, n))
            return code;
        df_storage_wait(s3->stop,
                        df_retry_delay_ms(&s3->retries, n, retry_after_ms(r->easy), s3->clock));
    }
}

/* --- handles --- */

/* The one that was used last, since its connection is most likely to be open. */
static CURL *take_handle(struct df_s3 *s3)
{
    df_lock(&s3->lock);
    CURL *easy = s3->idle_count > 0 ? s3->idle[--s3->idle_count] : NULL;
    df_unlock(&s3->lock);
    return easy ? easy : curl_easy_init();
}

static void give_handle(struct df_s3 *s3, CURL *easy)
{
    curl_easy_reset(easy); /* it forgets the credentials, and keeps the connection */
    df_lock(&s3->lock);
    bool room = s3->idle_count < DF_S3_IDLE_MAX;
    if (room)
        s3->idle[s3->idle_count++] = easy;
    df_unlock(&s3->lock);
    if (!room)
        curl_easy_cleanup(easy);
}

enum df_code df_s3_request_init(struct df_s3_request *r, struct df_s3 *s3, const char *key,
                                struct df_err *err)
{
    *r = (struct df_s3_request){.s3 = s3, .key = key, .slow_seconds = SLOW_SECONDS, .to_fd = -1};
    df_buf_init(&r->answer, ANSWER_MAX + 1);
    r->hash = df_checksum_new();
    r->easy = take_handle(s3);
    if (r->easy)
        return DF_OK;
    return df_err_set(err, DF_E_INTERNAL, "libcurl cannot make a handle");
}

void df_s3_request_release(struct df_s3_request *r)
{
    if (r->easy)
        give_handle(r->s3, r->easy);
    df_checksum_free(r->hash);
    df_buf_release(&r->answer);
}

void df_s3_request_set(struct df_s3_request *r, const char *method, const char *query,
                       const char *sha256)
{
    r->method = method;
    r->query = query;
    r->sha256 = sha256;
    r->meta = r->mark = NULL;
    r->body = DF_STR("");
    r->slow_seconds = SLOW_SECONDS;
    r->once = r->last_wish = false;
}

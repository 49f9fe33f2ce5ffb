#include "keys/remote.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/secret.h"
#include "net/security.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>

#define TIMEOUT_MS  10000
#define CONNECT_MS  5000L
#define HEADER_MAX  8192 /* tokens of Azure have about 2000 characters */
#define QUOTE_MAX   200
#define ASKED_MAX_S 60 /* of Retry-After: a longer wait is cut to this */

static _Atomic int64_t asked_until_ms; /* monotonic; a process has one vault */

struct transfer {
    const struct df_remote_options *opt;
    struct df_remote_call *call;
    CURL *easy;
    struct curl_slist *headers;
    char message[CURL_ERROR_SIZE];
    bool too_large;
};

static size_t receive_answer(char *ptr, size_t size, size_t count, void *arg)
{
    struct transfer *t = arg;
    size_t len = size * count;

    df_buf_add(&t->call->answer, ptr, len);
    t->too_large = df_buf_failed(&t->call->answer);
    return t->too_large ? 0 : len;
}

static int check_stopped(void *arg, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    const struct transfer *t = arg;

    (void)a, (void)b, (void)c, (void)d;
    return t->opt->stopped && t->opt->stopped() ? 1 : 0;
}

/* --- one call --- */

static bool add_header(struct transfer *t, const char *name, struct df_str value)
{
    char line[HEADER_MAX];
    int len = snprintf(line, sizeof line, "%s: " DF_STR_FMT, name, DF_STR_ARG(value));
    bool fits = len > 0 && (size_t)len < sizeof line;

    for (size_t i = 0; i < value.len; i++) /* a line break would begin another header */
        if (value.ptr[i] < ' ' || value.ptr[i] > '~')
            fits = false;
    struct curl_slist *longer = fits ? curl_slist_append(t->headers, line) : NULL;
    df_wipe(line, sizeof line);
    if (longer)
        t->headers = longer;
    return longer;
}

static bool add_headers(struct transfer *t)
{
    const struct df_remote_call *call = t->call;
    bool ok = add_header(t, "Accept", DF_STR("application/json"));

    if (ok && call->content_type)
        ok = add_header(t, "Content-Type", df_str_c(call->content_type));
    for (size_t i = 0; i < DF_REMOTE_HEADERS && ok; i++)
        if (call->headers[i].value.ptr)
            ok = add_header(t, call->headers[i].name, call->headers[i].value);
    return ok && curl_easy_setopt(t->easy, CURLOPT_HTTPHEADER, t->headers) == CURLE_OK;
}

static bool set_options(struct transfer *t)
{
    const struct df_remote_options *opt = t->opt;
    const struct df_remote_call *call = t->call;
    CURL *e = t->easy;
    unsigned bad = 0;

    bad |= curl_easy_setopt(e, CURLOPT_URL, call->url);
    bad |= curl_easy_setopt(e, CURLOPT_ERRORBUFFER, t->message);
    bad |= curl_easy_setopt(e, CURLOPT_USERAGENT, "DataFlow");
    bad |= curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
    bad |= curl_easy_setopt(e, CURLOPT_TIMEOUT_MS,
                            (long)(opt->timeout_ms > 0 ? opt->timeout_ms : TIMEOUT_MS));
    bad |= curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, receive_answer);
    bad |= curl_easy_setopt(e, CURLOPT_WRITEDATA, t);
    bad |= curl_easy_setopt(e, CURLOPT_XFERINFOFUNCTION, check_stopped);
    bad |= curl_easy_setopt(e, CURLOPT_XFERINFODATA, t);
    bad |= curl_easy_setopt(e, CURLOPT_NOPROGRESS, 0L);
    if (call->content_type) {
        bad |= curl_easy_setopt(e, CURLOPT_POST, 1L);
        bad |= curl_easy_setopt(e, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)call->body.len);
        bad |= curl_easy_setopt(e, CURLOPT_POSTFIELDS, call->body.ptr ? call->body.ptr : "");
    }
    return !bad && df_security_set_curl(e);
}

static enum df_code perform(struct transfer *t, struct df_err *err)
{
    char to[DF_DESTINATION_SIZE];
    struct df_url url;
    curl_off_t after = 0;
    long status = 0;

    if (df_url_parse(df_str_c(t->call->url), &url, err) != DF_OK)
        return df_err_set(err, DF_E_CONFIG, "the vault's URL is none");
    (void)df_url_destination(&url, to);
    if (!t->call->direct && df_security_forbids(&url))
        return df_err_set(err, DF_E_CONFIG, "%s: " DF_SECURITY_FORBIDDEN, to);
    if (!set_options(t) || !add_headers(t))
        return df_err_set(err, DF_E_CONFIG,
                          "%s: the request cannot be made: a token or name is too long, or has "
                          "characters that no header may have",
                          to);
    if (!t->call->direct)
        (void)df_security_set_route(t->easy, &url);
    CURLcode result = curl_easy_perform(t->easy);
    if (t->too_large)
        return df_err_set(err, DF_E_UNAVAILABLE, "%s: the answer has more than %zu KiB", to,
                          DF_REMOTE_ANSWER_MAX >> 10);
    if (result == CURLE_ABORTED_BY_CALLBACK)
        return df_err_set(err, DF_E_CANCELLED, "%s: the wait was ended", to);
    if (result != CURLE_OK) {
        (void)df_security_curl_error(t->easy, (int)result, t->message, to, err);
        return df_err_set(err, DF_E_UNAVAILABLE, "%s", err->detail);
    }
    (void)curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
    (void)curl_easy_getinfo(t->easy, CURLINFO_RETRY_AFTER, &after);
    t->call->status = (unsigned)status;
    if (after > 0)
        asked_until_ms = df_mono_ms(df_clock_real()) +
                         (int64_t)(after < ASKED_MAX_S ? after : ASKED_MAX_S) * 1000;
    return DF_OK;
}

/* libcurl frees the lines without wiping them, and they hold tokens. */
static void wipe_headers(struct curl_slist *list)
{
    for (struct curl_slist *at = list; at; at = at->next)
        df_wipe(at->data, strlen(at->data));
    curl_slist_free_all(list);
}

enum df_code df_remote_send(const struct df_remote_options *opt, struct df_remote_call *call,
                            struct df_err *err)
{
    struct transfer t = {.opt = opt, .call = call, .easy = curl_easy_init()};

    if (!t.easy)
        return df_err_set(err, DF_E_INTERNAL, "libcurl cannot start");
    df_remote_release(call);
    df_buf_init(&call->answer, DF_REMOTE_ANSWER_MAX);
    (void)df_buf_grow(&call->answer, DF_REMOTE_ANSWER_MAX); /* once: copies could not be wiped */
    call->status = 0;
    enum df_code code = perform(&t, err);
    curl_easy_cleanup(t.easy);
    wipe_headers(t.headers);
    return code;
}

int64_t df_remote_asked_ms(void)
{
    int64_t left_ms = asked_until_ms - df_mono_ms(df_clock_real());
    return left_ms > 0 ? left_ms : 0;
}

void df_remote_release(struct df_remote_call *call)
{
    if (call->answer.ptr)
        df_wipe(call->answer.ptr, call->answer.len);
    df_buf_release(&call->answer);
}

/* --- the answer --- */

enum df_code df_remote_json(const struct df_remote_call *call, struct df_arena *a,
                            const struct df_json **ret, struct df_err *err)
{
    char text[DF_DESTINATION_SIZE];
    struct df_str from = df_destination_of(call->url, text);
    struct df_err why = DF_ERR_INIT;
    const struct df_json *json = NULL;

    if (df_json_parse(a, df_buf_str(&call->answer), &json, &why) != DF_OK ||
        json->type != DF_JSON_OBJECT)
        return df_err_set(err, DF_E_UNAVAILABLE,
                          DF_STR_FMT " answered %u without a JSON object: is it the vault?",
                          DF_STR_ARG(from), call->status);
    *ret = json;
    return DF_OK;
}

struct df_str df_remote_text(const struct df_json *object, const char *const *path)
{
    const struct df_json *at = object;

    for (; at && *path; path++)
        at = df_json_get(at, *path);
    return at && at->type == DF_JSON_STRING ? at->text : DF_STR_NULL;
}

struct df_str df_remote_quote(struct df_str text, struct df_arena *a)
{
    size_t len = text.len < QUOTE_MAX ? text.len : QUOTE_MAX;
    char *copy = df_arena_alloc(a, len + 1);

    for (size_t i = 0; i < len; i++)
        copy[i] = text.ptr[i] >= ' ' && text.ptr[i] <= '~' ? text.ptr[i] : '?';
    return df_str_n(copy, len);
}

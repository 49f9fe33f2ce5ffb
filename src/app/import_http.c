#include "app/import_http.h"

#include "base/loop.h"
#include "base/mem.h"
#include "net/security.h"
#include "json/doc.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define ANSWER_MAX ((size_t)4 << 20)
#define HEADER_MAX 1024
#define CONNECT_MS 10000L
#define UPLOAD_STALL                                                                               \
    120 /* seconds without a byte in either direction: the server writes the file to disk */
#define STREAM_STALL 60000 /* the server sends something every 15 seconds */
#define PATIENCE_MS  300000
#define PAUSE_MIN_MS 500
#define PAUSE_MAX_MS 5000

struct df_import_http {
    struct df_import_server server;
    char *url; /* without a slash at the end */
    CURL *curl;
    struct curl_slist *headers;
    bool local;
    char why[CURL_ERROR_SIZE];
};

static bool fits_header(const char *value)
{
    return !value || (!strpbrk(value, "\r\n") && strlen(value) <= HEADER_MAX / 2);
}

static void add_header(struct df_import_http *h, const char *name, const char *value)
{
    char line[HEADER_MAX];

    if (!value)
        return;
    (void)snprintf(line, sizeof line, "%s: %s", name, value);
    h->headers = curl_slist_append(h->headers, line);
    if (!h->headers)
        df_oom();
    df_wipe(line, sizeof line);
}

enum df_code df_import_http_new(const struct df_import_server *server, struct df_import_http **ret,
                                struct df_err *err)
{
    struct df_url parts;
    struct df_str url = df_str_c(server->url);

    while (df_str_ends(url, DF_STR("/")))
        url.len--;
    struct df_err why = DF_ERR_INIT;
    if (df_url_parse(url, &parts, &why) != DF_OK)
        return df_err_set(err, DF_E_USAGE, "--server: %s", why.detail);
    if (!fits_header(server->client_id) || !fits_header(server->client_secret) ||
        !fits_header(server->admin_key))
        return df_err_set(err, DF_E_USAGE, "the credentials cannot be sent in a header");

    struct df_import_http *h = df_calloc(1, sizeof *h);
    h->server = *server;
    h->url = df_strdup(url);
    h->local = df_str_starts(parts.host, DF_STR("127.")) ||
               df_str_eq(parts.host, DF_STR("localhost")) || df_str_eq(parts.host, DF_STR("::1"));
    h->curl = curl_easy_init();
    if (!h->curl)
        df_oom();
    add_header(h, "X-Client-Id", server->client_id);
    add_header(h, "X-Client-Secret", server->client_secret);
    add_header(h, "X-Admin-Key", server->admin_key);
    add_header(h, "Accept-Language", server->language);
    *ret = h;
    return DF_OK;
}

void df_import_http_free(struct df_import_http *h)
{
    if (!h)
        return;
    curl_slist_free_all(h->headers);
    curl_easy_cleanup(h->curl);
    free(h->url);
    free(h);
}

/* --- one call --- */

static size_t collect_body(char *data, size_t size, size_t count, void *arg)
{
    df_buf_add(arg, data, size * count);
    return df_buf_failed(arg) ? 0 : size * count;
}

static void prepare_path(struct df_import_http *h, const char *path)
{
    char url[2 * DF_URL_MAX + 128];

    curl_easy_reset(h->curl);
    (void)snprintf(url, sizeof url, "%s%s", h->url, path);
    curl_easy_setopt(h->curl, CURLOPT_URL, url);
    if (!df_security_set_curl(h->curl))
        df_oom();
    curl_easy_setopt(h->curl, CURLOPT_HTTPHEADER, h->headers);
    curl_easy_setopt(h->curl, CURLOPT_USERAGENT, "dataflow/" DF_VERSION);
    curl_easy_setopt(h->curl, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(h->curl, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
    curl_easy_setopt(h->curl, CURLOPT_ERRORBUFFER, h->why);
    if (!h->local) { /* a command obeys the environment's proxy */
        curl_easy_setopt(h->curl, CURLOPT_PROXY, NULL);
        curl_easy_setopt(h->curl, CURLOPT_NOPROXY, NULL);
    }
    h->why[0] = '\0';
}

/* Prepares a call of /imports, or of /imports/{batchId} followed by rest. */
static void prepare_call(struct df_import_http *h, const char *batch_id, const char *rest)
{
    char path[256];

    (void)snprintf(path, sizeof path, "/imports%s%s%s", batch_id[0] ? "/" : "", batch_id, rest);
    prepare_path(h, path);
}

static enum df_code code_of(long status)
{
    switch (status) {
    case 400:
        return DF_E_BAD_REQUEST;
    case 401:
        return DF_E_UNAUTHORIZED;
    case 403:
        return DF_E_FORBIDDEN;
    case 404:
        return DF_E_NOT_FOUND;
    case 429:
        return DF_E_TOO_MANY;
    default:
        return status >= 500 ? DF_E_BUSY : DF_E_CONFLICT;
    }
}

/* Puts the text of a problem document into err, field by field. */
static enum df_code read_problem(long status, struct df_str body, struct df_err *err)
{
    struct df_arena arena = {0};
    const struct df_json *doc = NULL;
    struct df_err ignored = DF_ERR_INIT;
    struct df_buf text;
    static const char *const said[] = {"detail", "title"};

    df_buf_init(&text, 4096);
    bool understood = df_json_parse(&arena, body, &doc, &ignored) == DF_OK;
    for (size_t i = 0; understood && i < 2 && text.len == 0; i++) {
        const struct df_json *v = df_json_get(doc, said[i]);
        if (v && v->type == DF_JSON_STRING)
            df_buf_adds(&text, v->text);
    }
    const struct df_json *errors = understood ? df_json_get(doc, "errors") : NULL;
    struct df_json_each each = df_json_each(errors);
    for (const struct df_json *e; (e = df_json_next(&each));) {
        const struct df_json *field = df_json_get(e, "field"), *message = df_json_get(e, "message");
        if (field && message)
            df_buf_addf(&text, " " DF_STR_FMT ": " DF_STR_FMT ".", DF_STR_ARG(field->text),
                        DF_STR_ARG(message->text));
    }
    const struct df_json *id = understood ? df_json_get(doc, "correlationId") : NULL;
    enum df_code code = code_of(status);
    df_err_set(err, code, "the server answered %ld: %s%s" DF_STR_FMT "%s", status,
               text.len > 0 ? text.ptr : "no reason given", id ? " (correlation id " : "",
               DF_STR_ARG(id ? id->text : DF_STR("")), id ? ")" : "");
    df_buf_release(&text);
    df_arena_release(&arena);
    return code;
}

static enum df_code finish_call(struct df_import_http *h, CURLcode rc, long wanted,
                                struct df_str body, struct df_err *err)
{
    long status = 0;

    curl_easy_getinfo(h->curl, CURLINFO_RESPONSE_CODE, &status);
    if (*h->server.interrupted)
        return df_err_set(err, DF_E_CANCELLED, "interrupted");
    /* A server that refuses an upload closes before all of it was sent; its answer still counts. */
    if (rc != CURLE_OK && status < 300)
        return df_security_curl_error(h->curl, (int)rc, h->why, h->url, err);
    return status == wanted ? DF_OK : read_problem(status, body, err);
}

enum df_code df_import_get(struct df_import_http *h, const char *path, struct df_buf *answer,
                           struct df_err *err)
{
    prepare_path(h, path);
    curl_easy_setopt(h->curl, CURLOPT_TIMEOUT_MS, 30000L);
    curl_easy_setopt(h->curl, CURLOPT_WRITEFUNCTION, collect_body);
    curl_easy_setopt(h->curl, CURLOPT_WRITEDATA, answer);
    CURLcode rc = curl_easy_perform(h->curl);
    return finish_call(h, rc, 200, df_buf_str(answer), err);
}

enum df_code df_import_look(struct df_import_http *h, const char *batch_id, struct df_buf *answer,
                            struct df_err *err)
{
    char path[128];

    (void)snprintf(path, sizeof path, "/imports/%s", batch_id);
    return df_import_get(h, path, answer, err);
}

enum df_code df_import_check_login(struct df_import_http *h, struct df_err *err)
{
    struct df_buf answer;

    df_buf_init(&answer, ANSWER_MAX);
    enum df_code code = df_import_get(h, "/imports?pageSize=1", &answer, err);
    df_buf_release(&answer);
    return code;
}

void df_import_add_escaped(struct df_buf *out, struct df_str text)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        if ((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
            (c > 0 && strchr("-._~", c)))
            df_buf_addc(out, (char)c);
        else
            df_buf_addf(out, "%%%02X", c);
    }
}

/* --- the upload --- */

struct upload {
    struct df_import_http *http;
    const struct df_import_file *file;
};

static int upload_moves(void *arg, curl_off_t down_total, curl_off_t down, curl_off_t up_total,
                        curl_off_t up)
{
    struct upload *u = arg;
    (void)down_total;
    (void)down;
    if (*u->http->server.interrupted)
        return 1;
    if (u->file->sent && up_total > 0)
        u->file->sent(u->file->arg, (uint64_t)up, (uint64_t)up_total);
    return 0;
}

static void add_field(curl_mime *form, const char *name, const char *value)
{
    if (!value)
        return;
    curl_mimepart *part = curl_mime_addpart(form);
    curl_mime_name(part, name);
    curl_mime_data(part, value, CURL_ZERO_TERMINATED);
}

/* The content of a file, as a field. */
static CURLcode add_mapping(curl_mime *form, const char *path)
{
    if (!path)
        return CURLE_OK;
    curl_mimepart *part = curl_mime_addpart(form);
    curl_mime_name(part, "mapping");
    CURLcode rc = curl_mime_filedata(part, path);
    curl_mime_filename(part, NULL);
    return rc;
}

enum df_code df_import_upload(struct df_import_http *h, const struct df_import_file *file,
                              struct df_buf *answer, struct df_err *err)
{
    struct upload u = {h, file};

    prepare_call(h, file->preview ? "preview" : "", "");
    curl_mime *form = curl_mime_init(h->curl);
    /* The fields come before the file, so that the server knows them while the file arrives. */
    add_field(form, "originDefault", file->origin);
    add_field(form, "sheet", file->sheet);
    CURLcode rc = add_mapping(form, file->mapping);
    curl_mimepart *part = curl_mime_addpart(form);
    curl_mime_name(part, "file");
    if (rc == CURLE_OK)
        rc = curl_mime_filedata(part, file->path);
    /* The server looks at the content; curl's guess from the name must not interfere. */
    curl_mime_type(part, "application/octet-stream");
    curl_easy_setopt(h->curl, CURLOPT_MIMEPOST, form);
    curl_easy_setopt(h->curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(h->curl, CURLOPT_LOW_SPEED_TIME, (long)UPLOAD_STALL);
    curl_easy_setopt(h->curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(h->curl, CURLOPT_XFERINFOFUNCTION, upload_moves);
    curl_easy_setopt(h->curl, CURLOPT_XFERINFODATA, &u);
    curl_easy_setopt(h->curl, CURLOPT_WRITEFUNCTION, collect_body);
    curl_easy_setopt(h->curl, CURLOPT_WRITEDATA, answer);
    if (rc == CURLE_OK)
        rc = curl_easy_perform(h->curl);
    enum df_code code = finish_call(h, rc, file->preview ? 200 : 202, df_buf_str(answer), err);
    curl_mime_free(form);
    return code;
}

/* --- the stream --- */

struct stream {
    struct df_import_http *http;
    const struct df_import_watcher *watcher;
    struct df_buf body; /* of an answer that is not a stream */
    struct df_buf line;
    struct df_buf data;
    bool completed; /* the current event is "completed" */
    bool over;
    bool is_stream;
    int64_t heard_ms;
};

static void end_event(struct stream *s)
{
    if (s->data.len > 0 && !s->over) {
        s->over = s->completed;
        s->watcher->seen(s->watcher->arg, df_buf_str(&s->data), s->over);
    }
    s->completed = false;
    df_buf_reset(&s->data);
}

static void take_line(struct stream *s, struct df_str line)
{
    if (line.len == 0)
        end_event(s);
    else if (df_str_starts(line, DF_STR("event: ")))
        s->completed = df_str_eq(line, DF_STR("event: completed"));
    else if (df_str_starts(line, DF_STR("data: ")))
        df_buf_add(&s->data, line.ptr + 6, line.len - 6);
}

static size_t read_stream(char *data, size_t size, size_t count, void *arg)
{
    struct stream *s = arg;
    size_t len = size * count;
    long status = 0;

    s->heard_ms = df_mono_ms(df_clock_real());
    curl_easy_getinfo(s->http->curl, CURLINFO_RESPONSE_CODE, &status);
    s->is_stream = status == 200;
    if (!s->is_stream)
        return collect_body(data, size, count, &s->body);
    for (size_t i = 0; i < len; i++) {
        if (data[i] != '\n') {
            df_buf_addc(&s->line, data[i]);
            continue;
        }
        take_line(s, df_buf_str(&s->line));
        df_buf_reset(&s->line);
    }
    return df_buf_failed(&s->line) || df_buf_failed(&s->data) ? 0 : len;
}

static int stream_moves(void *arg, curl_off_t down_total, curl_off_t down, curl_off_t up_total,
                        curl_off_t up)
{
    struct stream *s = arg;
    (void)down_total;
    (void)down;
    (void)up_total;
    (void)up;
    s->watcher->tick(s->watcher->arg);
    return *s->http->server.interrupted || s->over ||
           df_mono_ms(df_clock_real()) - s->heard_ms > STREAM_STALL;
}

/* Watches over one connection. DF_OK: the batch is over. Else *ret_heard tells whether a stream had
 * begun. */
static enum df_code watch_once(struct df_import_http *h, const char *batch_id,
                               const struct df_import_watcher *watcher, bool *ret_heard,
                               struct df_err *err)
{
    struct stream s = {.http = h, .watcher = watcher, .heard_ms = df_mono_ms(df_clock_real())};

    df_buf_init(&s.body, ANSWER_MAX);
    df_buf_init(&s.line, ANSWER_MAX);
    df_buf_init(&s.data, ANSWER_MAX);
    prepare_call(h, batch_id, "/events");
    curl_easy_setopt(h->curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(h->curl, CURLOPT_XFERINFOFUNCTION, stream_moves);
    curl_easy_setopt(h->curl, CURLOPT_XFERINFODATA, &s);
    curl_easy_setopt(h->curl, CURLOPT_WRITEFUNCTION, read_stream);
    curl_easy_setopt(h->curl, CURLOPT_WRITEDATA, &s);
    CURLcode rc = curl_easy_perform(h->curl);
    enum df_code code = DF_OK;
    if (!s.over)
        code = finish_call(h, rc, 200, df_buf_str(&s.body), err);
    if (code == DF_OK && !s.over)
        code = df_err_set(err, DF_E_NET, "the server ended the stream");
    *ret_heard = s.is_stream;
    df_buf_release(&s.body);
    df_buf_release(&s.line);
    df_buf_release(&s.data);
    return code;
}

static void pause_watching(struct df_import_http *h, const struct df_import_watcher *w, int64_t ms)
{
    int64_t until = df_mono_ms(df_clock_real()) + ms;
    while (!*h->server.interrupted && df_mono_ms(df_clock_real()) < until) {
        struct timespec step = {0, 100000000};
        nanosleep(&step, NULL);
        w->tick(w->arg);
    }
}

enum df_code df_import_watch(struct df_import_http *h, const char *batch_id,
                             const struct df_import_watcher *watcher, struct df_err *err)
{
    int64_t heard_ms = df_mono_ms(df_clock_real());
    struct df_backoff pause = {.min_ms = PAUSE_MIN_MS, .max_ms = PAUSE_MAX_MS};

    for (;;) {
        bool heard = false;
        enum df_code code = watch_once(h, batch_id, watcher, &heard, err);
        int64_t now_ms = df_mono_ms(df_clock_real());
        if (code == DF_OK || df_code_retry(code) == DF_RETRY_NEVER || code == DF_E_CANCELLED)
            return code;
        if (heard) {
            heard_ms = now_ms;
            df_backoff_reset(&pause);
        }
        if (now_ms - heard_ms > PATIENCE_MS)
            return code;
        watcher->lost(watcher->arg, err->detail);
        pause_watching(h, watcher, df_backoff_more(&pause));
        if (*h->server.interrupted)
            return df_err_set(err, DF_E_CANCELLED, "interrupted");
    }
}

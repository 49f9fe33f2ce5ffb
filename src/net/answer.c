#include "net/http_int.h"

#include "net/field.h"
#include "json/write.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define SMALL_BODY        1024
#define PROBLEM_MAX_BYTES 65536
#define RAW_MAX_BYTES     ((size_t)1024 * 1024)
#define TELL_MS           60000

/* --- setting an answer ------------------------------------------------------------------------ */

/* Handlers may not set these: the server does. */
static bool is_reserved(struct df_str name)
{
    static const char *const names[] = {"Content-Length", "Transfer-Encoding", "Connection", "Date",
                                        "Content-Type",   "X-Correlation-Id",  "traceparent"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (df_str_ieq(name, df_str_c(names[i])))
            return true;
    }
    return false;
}

bool df_req_add_header(struct df_req *req, const char *name, struct df_str value)
{
    struct df_str n = df_str_c(name);

    if (!df_field_is_token(n) || is_reserved(n) || value.len == 0 || !df_field_value_ok(value) ||
        memchr(value.ptr, '\t', value.len))
        return false;
    struct df_extra_header *h = DF_ARENA_NEW(&req->arena, struct df_extra_header);
    h->name = df_arena_cstr(&req->arena, n);
    h->value = df_arena_cstr(&req->arena, value);
    df_list_add(&req->headers, &h->link);
    req->answer.retry_after = req->answer.retry_after || df_str_ieq(n, DF_STR("Retry-After"));
    req->answer.cache_header = req->answer.cache_header || df_str_ieq(n, DF_STR("Cache-Control"));
    return true;
}

static bool has_no_body(unsigned status)
{
    return status < 200 || status == 204 || status == 304;
}

static bool set_status(struct df_req *req, unsigned status, const char *content_type)
{
    if (req->answer.set || req->answer.drop)
        return false;
    req->answer.set = true;
    req->answer.status = status < 200 || status > 599 ? 500 : status;
    if (content_type && !has_no_body(req->answer.status))
        req->answer.content_type = df_arena_cstr(&req->arena, df_str_c(content_type));
    return true;
}

static void set_answer(struct df_req *req, unsigned status, const char *content_type,
                       struct df_buf *take_body)
{
    size_t len;

    char *body = df_buf_take(take_body, &len);
    if (!set_status(req, status, content_type) || has_no_body(req->answer.status)) {
        free(body);
        return;
    }
    req->answer.body_len = len;
    if (len > SMALL_BODY) {
        req->answer.owned = body;
        req->answer.body = body;
        return;
    }
    /* Copied, so that the thread that allocated the body also frees it: freeing memory of another
     * thread is slow. */
    req->answer.body = df_arena_str(&req->arena, df_str_n(body, len)).ptr;
    free(body);
}

/* How many refusals to log; 0: the last log line is too recent. */
static int64_t refusals_to_tell(struct df_http_server *s)
{
    int64_t now_ms = df_mono_ms(df_clock_real());
    int64_t told_ms = atomic_load(&s->refusal_told_ms);

    atomic_fetch_add(&s->refused, 1);
    if ((told_ms != 0 && now_ms - told_ms < TELL_MS) ||
        !atomic_compare_exchange_strong(&s->refusal_told_ms, &told_ms, now_ms))
        return 0;
    return atomic_exchange(&s->refused, 0);
}

enum df_code df_memory_error(struct df_req *req, const char *what, struct df_err *err)
{
    struct df_http_server *s = req->conn->server;
    const struct df_account *a = &req->account;
    const char *why = a->reason == DF_REFUSED_TOTAL ? "MemoryBudget" : "MemoryShare";
    int64_t refused = refusals_to_tell(s);

    df_http_metrics_rejected(s->metrics, why);
    if (refused > 0) {
        struct df_log_field said[] = {DF_F("reason", df_str_c(why)), DF_FI("refused", refused),
                                      DF_FI("bytesInFlight", df_budget_used(s->budget))};
        const struct df_log_ctx *before = df_log_ctx_use(&req->log);
        df_log_write(DF_LOG_WARN, "MemoryBudgetExhausted", said, 3,
                     "requests are refused until others have ended");
        df_log_ctx_use(before);
    }
    if (a->reason == DF_REFUSED_EVER)
        return df_err_set(err, DF_E_TOO_LARGE,
                          "the %s needs more than the %zu bytes of memory that one client may have",
                          what, df_budget_share(s->budget));
    return df_err_set(err, DF_E_BUSY, "too much is on its way %s: try again soon",
                      a->reason == DF_REFUSED_SHARE ? "for this client" : "in this server");
}

void df_req_answer(struct df_req *req, unsigned status, const char *content_type,
                   struct df_buf *take_body)
{
    struct df_err err = DF_ERR_INIT;
    bool counts = take_body->account == &req->account;
    bool failed = df_buf_failed(take_body);
    bool refused = failed ? counts && req->account.reason != DF_REFUSED_NOT
                          : !counts && take_body->len > SMALL_BODY &&
                                !df_account_take(&req->account, take_body->cap);

    if (!failed && !refused) {
        set_answer(req, status, content_type, take_body);
        return;
    }
    if (refused)
        (void)df_memory_error(req, "answer", &err);
    else
        (void)df_err_set(&err, DF_E_INTERNAL, "the answer has more than %zu bytes", take_body->max);
    df_buf_release(take_body);
    df_req_problem(req, &err);
}

void df_req_answer_static(struct df_req *req, unsigned status, const char *content_type,
                          struct df_str body)
{
    if (!set_status(req, status, content_type))
        return;
    req->answer.is_static = true;
    if (!has_no_body(status)) {
        req->answer.body = body.ptr;
        req->answer.body_len = body.len;
    }
}

void df_req_answer_file(struct df_req *req, unsigned status, const char *content_type, int take_fd,
                        uint64_t size)
{
    if (!set_status(req, status, content_type) || has_no_body(req->answer.status)) {
        close(take_fd);
        return;
    }
    req->answer.has_file = true;
    req->answer.file = take_fd;
    req->answer.body_len = size;
}

void df_req_answer_empty(struct df_req *req, unsigned status)
{
    (void)set_status(req, status, NULL);
}

bool df_req_answered(const struct df_req *req)
{
    return req->answer.set || req->answer.drop;
}

void df_req_drop(struct df_req *req)
{
    if (!req->answer.set)
        req->answer.drop = true;
}

void df_req_add_language(struct df_req *req, enum df_lang lang)
{
    (void)df_req_add_header(req, "Content-Language", df_str_c(df_lang_tag(lang)));
    (void)df_req_add_header(req, "Vary", DF_STR("Accept-Language"));
}

/* --- problem documents ------------------------------------------------------------------------ */

static void write_problem(struct df_buf *b, const struct df_req *req, enum df_lang lang,
                          enum df_code code, const char *name, const struct df_err *err,
                          const char *detail)
{
    struct df_json_out j;

    df_json_out_init(&j, b);
    j.lang = lang;
    df_json_open(&j, '{');
    df_json_kv_text(&j, "type", DF_STR("about:blank"));
    df_json_kv_told(&j, "title", df_str_c(df_code_title(code)));
    df_json_kv_int(&j, "status", (int64_t)df_code_http(code));
    if (detail[0])
        df_json_kv_told(&j, "detail", df_str_c(detail));
    df_json_kv_text(&j, "code", df_str_c(name));
    df_json_kv_text(&j, "correlationId", df_req_correlation_id(req));
    if (err->offset >= 0)
        df_json_kv_int(&j, "offset", err->offset);
}

static void write_fields(struct df_buf *b, enum df_lang lang, const struct df_field_error *fields,
                         size_t count)
{
    struct df_json_out j;

    df_buf_addz(b, ",\"errors\":");
    df_json_out_init(&j, b);
    j.lang = lang;
    df_json_open(&j, '[');
    for (size_t i = 0; i < count; i++) {
        df_json_open(&j, '{');
        df_json_kv_text(&j, "field", fields[i].field);
        df_json_kv_told(&j, "message", fields[i].message);
        df_json_close(&j, '}');
    }
    df_json_close(&j, ']');
}

static void add_retry_after(struct df_req *req, enum df_code code)
{
    unsigned status = df_code_http(code);

    if (req->answer.retry_after)
        return;
    if (status == 429 || code == DF_E_DISK_FULL) /* an operator has to make room */
        (void)df_req_add_header(req, "Retry-After", DF_STR("60"));
    else if (status == 503)
        (void)df_req_add_header(req, "Retry-After", DF_STR("1"));
}

/* Details for the operator are logged; the peer gets the identifier of the log line. */
static const char *detail_for_peer(struct df_req *req, enum df_code code, const struct df_err *err)
{
    const char *fixed = df_code_outside(code);
    if (!fixed)
        return err->detail;
    struct df_log_field fields[] = {DF_F("code", df_str_c(df_code_name(code)))};
    const struct df_log_ctx *before = df_log_ctx_use(&req->log);
    df_log_write(df_code_http(code) == 500 ? DF_LOG_ERROR : DF_LOG_WARN, "RequestFailed", fields, 1,
                 "%s", err->detail);
    df_log_ctx_use(before);
    return fixed;
}

/* name: NULL means the code's own name. */
static void answer_problem(struct df_req *req, const struct df_err *err, const char *name,
                           const struct df_field_error *fields, size_t count)
{
    enum df_code code = err->code;
    struct df_buf b;

    if (df_req_answered(req))
        return;
    if (df_code_http(code) < 400)
        code = DF_E_INTERNAL;
    const char *detail = detail_for_peer(req, code, err);
    enum df_lang lang = df_req_language(req);
    df_buf_init(&b, PROBLEM_MAX_BYTES);
    write_problem(&b, req, lang, code, name ? name : df_code_name(code), err, detail);
    size_t mark = b.len;
    if (count > 0)
        write_fields(&b, lang, fields, count);
    df_buf_addc(&b, '}');
    if (df_buf_failed(&b)) {
        /* Too many fields: the problem is sent without them. */
        b.failed = false;
        b.len = mark;
        df_buf_addc(&b, '}');
    }
    add_retry_after(req, code);
    df_req_add_language(req, lang);
    set_answer(req, df_code_http(code), "application/problem+json", &b);
}

void df_req_problem_fields(struct df_req *req, const struct df_err *err,
                           const struct df_field_error *fields, size_t count)
{
    answer_problem(req, err, NULL, fields, count);
}

void df_req_problem(struct df_req *req, const struct df_err *err)
{
    answer_problem(req, err, NULL, NULL, 0);
}

void df_req_problem_as(struct df_req *req, const struct df_err *err, const char *code)
{
    answer_problem(req, err, code, NULL, 0);
}

void df_req_fail(struct df_req *req, enum df_code code, const char *fmt, ...)
{
    struct df_err err = DF_ERR_INIT;
    va_list ap;

    va_start(ap, fmt);
    (void)df_err_vset(&err, code, fmt, ap);
    va_end(ap);
    df_req_problem(req, &err);
}

/* --- sending ---------------------------------------------------------------------------------- */

typedef void (*emit_fn)(void *to, const char *name, const char *value);

#define HTTP_DATE_SIZE 32

/* RFC 9110 wants English names in any locale, which strftime does not give. */
static const char *http_date(int64_t wall_ms, char ret[HTTP_DATE_SIZE])
{
    static const char days[] = "SunMonTueWedThuFriSat";
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    time_t seconds = (time_t)(wall_ms / 1000);
    struct tm tm;

    if (!gmtime_r(&seconds, &tm))
        return NULL;
    snprintf(ret, HTTP_DATE_SIZE, "%.3s, %02d %.3s %04d %02d:%02d:%02d GMT",
             days + (ptrdiff_t)3 * tm.tm_wday, tm.tm_mday, months + (ptrdiff_t)3 * tm.tm_mon,
             (tm.tm_year + 1900) % 10000, tm.tm_hour, tm.tm_min, tm.tm_sec);
    return ret;
}

/* RFC 9745, RFC 8594. */
static void emit_deprecation(const struct df_deprecation *d, emit_fn emit, void *to)
{
    char text[DF_DEPRECATION_LINK_MAX + 64];
    char date[HTTP_DATE_SIZE];
    int64_t wall_ms;

    if (df_time_parse(df_str_c(d->since), &wall_ms)) {
        snprintf(text, sizeof(text), "@%lld", (long long)(wall_ms / 1000));
        emit(to, "Deprecation", text);
    }
    if (d->sunset && df_time_parse(df_str_c(d->sunset), &wall_ms) && http_date(wall_ms, date))
        emit(to, "Sunset", date);
    snprintf(text, sizeof(text), "<%s>; rel=\"deprecation%s\"", d->link,
             d->sunset ? " sunset" : "");
    emit(to, "Link", text);
}

static void emit_headers(struct df_req *req, emit_fn emit, void *to)
{
    const struct df_answer *a = &req->answer;

    if (a->content_type)
        emit(to, MHD_HTTP_HEADER_CONTENT_TYPE, a->content_type);
    emit(to, "X-Content-Type-Options", "nosniff");
    if (!a->is_static && !a->cache_header)
        emit(to, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    emit(to, "X-Correlation-Id", req->correlation);
    emit(to, "traceparent", req->trace.text);
    if (req->match.route && req->match.route->deprecated)
        emit_deprecation(req->match.route->deprecated, emit, to);
    const struct df_extra_header *h;
    DF_LIST_EACH (h, &req->headers, link)
        emit(to, h->name, h->value);
    if (a->close || atomic_load_explicit(&req->conn->server->draining, memory_order_relaxed))
        emit(to, MHD_HTTP_HEADER_CONNECTION, "close");
}

static void emit_mhd(void *response, const char *name, const char *value)
{
    (void)MHD_add_response_header(response, name, value);
}

static struct MHD_Response *make_response(struct df_answer *a)
{
    void *body;

    if (a->sse)
        return df_sse_response(a->sse);
    if (a->has_file) {
        struct MHD_Response *response = MHD_create_response_from_fd64(a->body_len, a->file);
        a->has_file = !response;
        return response;
    }
    /* The request owns the body, which outlives the response; libmicrohttpd only reads it. */
    memcpy(&body, &a->body, sizeof(body));
    return MHD_create_response_from_buffer(a->body_len, body, MHD_RESPMEM_PERSISTENT);
}

enum MHD_Result df_answer_queue(struct df_req *req)
{
    struct df_answer *a = &req->answer;
    struct MHD_Response *response = make_response(a);

    if (!response)
        return MHD_NO;
    /* libmicrohttpd accepts a bare line feed between chunks, and so may see the body's end earlier
     * than a proxy in front of us: bytes after it must not be read as a request. */
    a->close = a->close || req->declared_length < 0;
    emit_headers(req, emit_mhd, response);
    req->stage = DF_STAGE_SENDING;
    df_conn_set_phase(req->conn, DF_PHASE_SEND);
    enum MHD_Result rc = MHD_queue_response(req->conn->mhd, a->status, response);
    MHD_destroy_response(response);
    return rc;
}

static void emit_raw(void *to, const char *name, const char *value)
{
    df_buf_addf(to, "%s: %s\r\n", name, value);
}

void df_answer_send_raw(struct df_req *req)
{
    const struct df_answer *a = &req->answer;
    char date[HTTP_DATE_SIZE];
    struct df_buf b;

    df_buf_init(&b, RAW_MAX_BYTES);
    df_buf_addf(&b, "HTTP/1.1 %u %s\r\n", a->status, MHD_get_reason_phrase_for(a->status));
    if (http_date(df_wall_ms(req->conn->server->opt.clock), date))
        emit_raw(&b, "Date", date);
    df_buf_addf(&b, "Content-Length: %zu\r\n", a->body_len);
    emit_headers(req, emit_raw, &b);
    df_buf_addz(&b, "\r\n");
    df_buf_add(&b, a->body, a->body_len);
    if (!df_buf_failed(&b))
        (void)df_conn_send(req->conn, df_buf_str(&b));
    df_buf_release(&b);
}

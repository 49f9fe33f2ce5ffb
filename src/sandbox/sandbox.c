#include "sandbox/internal.h"

#include "base/mem.h"
#include "net/security.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>

#define KEEP_DEFAULT     1000
#define KEEP_MAX         ((size_t)1000000)
#define BODY_DEFAULT     ((size_t)16 << 20)
#define CONTROL_BODY_MAX ((size_t)1 << 20)
#define STOP_WAIT_MS     2000

/* --- a request to one of the peers --- */

/* A request that a fault holds back; lives in the request's arena. */
struct held {
    struct df_timer_item item; /* first: release_held() casts */
    struct df_req *req;
    struct df_sb_reply reply;
    struct df_sb_effect effect;
};

static void answer_fault(struct df_req *req, const struct df_sb_effect *e)
{
    struct df_buf body;
    char seconds[24];

    if (e->retry_after_s >= 0) {
        (void)snprintf(seconds, sizeof(seconds), "%lld", (long long)e->retry_after_s);
        (void)df_req_add_header(req, "Retry-After", df_str_c(seconds));
    }
    if (e->status == 204 || e->status == 304) {
        df_req_answer_empty(req, e->status);
        return;
    }
    df_buf_init(&body, 1024);
    df_buf_addf(&body,
                "{\"title\":\"Sandbox fault\",\"status\":%u,\"code\":\"SandboxFault\","
                "\"detail\":\"A fault was set for this path with POST /_faults.\"}",
                e->status);
    df_req_answer(req, e->status, "application/problem+json", &body);
}

static void answer_request(struct df_req *req, struct df_sb_reply *reply,
                           const struct df_sb_effect *e)
{
    if (e->drop)
        df_req_drop(req);
    else if (e->status)
        answer_fault(req, e);
    else if (reply->fixed.ptr)
        df_req_answer_static(req, reply->status, DF_SB_JSON, reply->fixed);
    else
        df_req_answer(req, reply->status, DF_SB_JSON, &reply->body);
}

static void release_held(struct df_timer_item *item, bool stopping)
{
    struct held *h = (struct held *)item;

    (void)stopping;
    answer_request(h->req, &h->reply, &h->effect);
    df_req_resume(h->req);
}

static void hold_request(struct df_sandbox *s, struct df_req *req, const struct df_sb_reply *reply,
                         const struct df_sb_effect *e)
{
    struct held *h = DF_ARENA_NEW(df_req_arena(req), struct held);

    h->item.fire = release_held;
    h->req = req;
    h->reply = *reply;
    h->effect = *e;
    df_req_suspend(req);
    if (!df_timer_add(s->timer, &h->item, e->latency_ms))
        release_held(&h->item, true);
}

/* --- recording a request --- */

/* Comparing the second letter first rules out most candidates. */
static inline bool word_at(struct df_str s, struct df_str word)
{
    return s.len >= word.len && (s.ptr[1] | 0x20) == word.ptr[1] &&
           df_str_ieq(df_str_n(s.ptr, word.len), word);
}

/* Whether a header's name contains a word that marks credentials. Runs for each header of each
 * request. */
static bool is_credential(struct df_str name)
{
    const size_t shortest = 6;

    for (; name.len >= shortest; name.ptr++, name.len--) {
        switch (name.ptr[0] | 0x20) {
        case 'a':
            if (word_at(name, DF_STR("authorization")) || word_at(name, DF_STR("admin-key")) ||
                word_at(name, DF_STR("api-key")) || word_at(name, DF_STR("apikey")))
                return true;
            break;
        case 'c':
            if (word_at(name, DF_STR("cookie")))
                return true;
            break;
        case 's':
            if (word_at(name, DF_STR("secret")))
                return true;
            break;
        default:
            break;
        }
    }
    return false;
}

struct kept_headers {
    struct df_sb_received *received;
    struct df_sb_header list[DF_SB_HEADERS_MAX];
    size_t bytes;
};

static void keep_header(void *arg, struct df_str name, struct df_str value)
{
    struct kept_headers *kept = arg;
    struct df_sb_received *r = kept->received;

    if (is_credential(name))
        value = DF_STR("(hidden)");
    size_t bytes = name.len + value.len;
    if (r->header_count == DF_SB_HEADERS_MAX || bytes > DF_SB_HEADER_BYTES_MAX - kept->bytes) {
        r->headers_cut = true;
        return;
    }
    kept->bytes += bytes;
    kept->list[r->header_count++] = (struct df_sb_header){name, value};
}

/* The headers are borrowed from the request; the journal copies them. */
static void collect_headers(const struct df_req *req, struct df_sb_received *r,
                            struct kept_headers *kept)
{
    kept->received = r;
    kept->bytes = 0;
    r->headers = kept->list;
    df_req_each_header(req, keep_header, kept);
}

/* True when the request's key is a repeat. */
static bool record_request(struct df_sandbox *s, const struct df_req *req, unsigned status,
                           enum df_sb_verified verified)
{
    struct kept_headers headers;
    struct df_sb_received r = {
        .method = df_req_method(req),
        .path = df_req_path(req),
        .query = df_req_query_raw(req),
        .key = df_req_header(req, "Idempotency-Key"),
        .body = df_req_body(req),
        .status = status,
        .verified = verified,
    };
    if (df_sb_journal_keeps(s->journal))
        collect_headers(req, &r, &headers);
    return df_sb_journal_add(s->journal, &r);
}

static void serve_peer(struct df_req *req, df_sb_peer *peer)
{
    struct df_sandbox *s = df_req_route_arg(req);
    struct df_sb_reply reply = {.status = 200};
    struct df_sb_effect e = df_sb_faults_apply(&s->faults, df_req_path(req));

    if (!e.drop && !e.status)
        peer(s, req, &reply);
    unsigned status = e.drop ? DF_SB_DROPPED : e.status ? e.status : reply.status;
    bool repeat = record_request(s, req, status, reply.verified);
    if (e.drop_acks)
        df_sb_errand_drop(reply.errand);
    else
        df_sb_errand_schedule(reply.errand, e.latency_ms);
    if (df_req_answered(req))
        return;
    if (reply.replays && repeat)
        (void)df_req_add_header(req, "Idempotent-Replayed", DF_STR("true"));
    if (e.latency_ms > 0)
        hold_request(s, req, &reply, &e);
    else
        answer_request(req, &reply, &e);
}

static void serve_omniflow(struct df_req *req)
{
    serve_peer(req, df_sb_omniflow);
}

static void serve_gateway(struct df_req *req)
{
    serve_peer(req, df_sb_gateway);
}

/* Takes lines of the log and looks at none. */
static void take_push(struct df_sandbox *s, struct df_req *req, struct df_sb_reply *reply)
{
    (void)s;
    (void)req;
    reply->status = 204;
    reply->fixed = DF_STR("");
}

static void serve_loki(struct df_req *req)
{
    serve_peer(req, take_push);
}

static void serve_webhook(struct df_req *req)
{
    serve_peer(req, df_sb_webhook);
}

static void serve_payment(struct df_req *req)
{
    serve_peer(req, df_sb_payment);
}

/* --- the front page and the routes --- */

static void answer_front_page(struct df_req *req)
{
    static const char text[] =
        "DataFlow sandbox: the outside world on one port.\n"
        "\n"
        "  POST /api/leads/import      OmniFlow: takes chunks of leads, answers at once or by an "
        "ack\n"
        "  POST /gateway/...           the gateway: accepts documents, answers tickets by a "
        "callback\n"
        "  POST /webhooks/...          receives webhooks, verifies signatures where a secret is "
        "known\n"
        "  ANY  /payments/...          a payment gateway: POST /payments/charges\n"
        "  POST /loki/api/v1/push      takes what log.ship = loki://<this> sends\n"
        "\n"
        "  GET|POST|DELETE /_faults    make calls fail, late or lost\n"
        "  GET|PUT         /_config    answer at once or by acks, delays, secrets, the server's "
        "URL\n"
        "  GET|DELETE      /_stats     requests, distinct Idempotency-Keys and repeats by path\n"
        "  GET             /_received  what came, newest first: ?path=/gateway&limit=10\n"
        "  POST            /_reset     forget requests and faults\n"
        "\n"
        "Fail every other call to the gateway:\n"
        "\n"
        "  curl -d '{\"path\":\"/gateway\",\"status\":503,\"rate\":0.5}' http://<this>/_faults\n";

    df_req_answer_static(req, 200, "text/plain; charset=utf-8", df_str_n(text, sizeof(text) - 1));
}

static const struct df_route routes[] = {
    {.method = "GET", .pattern = "/", .handle = answer_front_page},
    {.method = "POST",
     .pattern = "/api/leads/import",
     .body = DF_BODY_ANY,
     .handle = serve_omniflow},
    {.method = "POST",
     .pattern = "/gateway/{rest...}",
     .body = DF_BODY_ANY,
     .handle = serve_gateway},
    {.method = "POST",
     .pattern = "/webhooks/{rest...}",
     .body = DF_BODY_ANY,
     .handle = serve_webhook},
    {.method = "POST",
     .pattern = "/loki/api/v1/push",
     .body = DF_BODY_ANY,
     .handle = serve_loki},
    {.method = "GET", .pattern = "/payments/{rest...}", .handle = serve_payment},
    {.method = "POST",
     .pattern = "/payments/{rest...}",
     .body = DF_BODY_ANY,
     .handle = serve_payment},
    {.method = "PUT",
     .pattern = "/payments/{rest...}",
     .body = DF_BODY_ANY,
     .handle = serve_payment},
    {.method = "PATCH",
     .pattern = "/payments/{rest...}",
     .body = DF_BODY_ANY,
     .handle = serve_payment},
    {.method = "DELETE",
     .pattern = "/payments/{rest...}",
     .body = DF_BODY_ANY,
     .handle = serve_payment},
    {.method = "GET", .pattern = "/_faults", .handle = df_sb_faults_get},
    {.method = "POST",
     .pattern = "/_faults",
     .body = DF_BODY_ANY,
     .max_body_bytes = CONTROL_BODY_MAX,
     .handle = df_sb_faults_post},
    {.method = "DELETE", .pattern = "/_faults", .handle = df_sb_faults_delete},
    {.method = "GET", .pattern = "/_config", .handle = df_sb_config_get},
    {.method = "PUT",
     .pattern = "/_config",
     .body = DF_BODY_ANY,
     .max_body_bytes = CONTROL_BODY_MAX,
     .handle = df_sb_config_put},
    {.method = "GET", .pattern = "/_stats", .handle = df_sb_stats_get},
    {.method = "DELETE", .pattern = "/_stats", .handle = df_sb_stats_delete},
    {.method = "GET", .pattern = "/_received", .handle = df_sb_received_get},
    {.method = "POST",
     .pattern = "/_reset",
     .body = DF_BODY_ANY,
     .max_body_bytes = CONTROL_BODY_MAX,
     .handle = df_sb_reset},
    {.method = NULL},
};

/* --- start and stop --- */

static enum df_code start_http(struct df_sandbox *s, const struct df_sandbox_options *opt,
                               struct df_err *err)
{
    const struct df_route_table tables[] = {{routes, s}, {NULL, NULL}};
    const struct df_http_options http = {
        .settings.listen = opt->listen ? opt->listen : "127.0.0.1:8090",
        .settings.threads = opt->threads,
        .settings.max_body_bytes = opt->max_body_bytes ? opt->max_body_bytes : BODY_DEFAULT,
        .clock = s->clock,
        .tables = tables,
    };
    return df_http_start(&http, &s->http, err);
}

static void release_sandbox(struct df_sandbox *s)
{
    df_http_client_free(s->client);
    df_timer_free(s->timer);
    df_sb_journal_free(s->journal);
    df_sb_faults_release(&s->faults);
    df_sb_config_release(&s->config);
    free(s);
}

enum df_code df_sandbox_start(const struct df_sandbox_options *opt, struct df_sandbox **ret,
                              struct df_err *err)
{
    if (sodium_init() < 0)
        return df_err_set(err, DF_E_INTERNAL, "libsodium cannot be used");
    struct df_sandbox *s = df_calloc(1, sizeof(*s));
    size_t keep = opt->keep ? opt->keep : KEEP_DEFAULT;
    const struct df_http_client_options client = {.user_agent = "DataFlow-Sandbox"};
    const struct df_security_settings trust = {.ca_file = opt->ca_file};

    s->clock = opt->clock ? opt->clock : df_clock_real();
    s->journal = df_sb_journal_new(opt->no_record    ? 0
                                   : keep < KEEP_MAX ? keep
                                                     : KEEP_MAX,
                                   s->clock);
    df_sb_faults_init(&s->faults, s->clock);
    enum df_code code = df_sb_config_init(&s->config, opt, err);
    s->timer = df_timer_new("df-sandbox", s->clock);
    if (code == DF_OK && opt->ca_file)
        code = df_security_use(&trust, err);
    if (code == DF_OK)
        code = df_http_client_new(&client, &s->client, err);
    if (code == DF_OK)
        code = start_http(s, opt, err);
    if (code != DF_OK) {
        release_sandbox(s);
        return code;
    }
    *ret = s;
    return DF_OK;
}

const char *df_sandbox_address(const struct df_sandbox *s)
{
    return df_http_address(s->http);
}

/* Requests that are held back must be answered before the HTTP server may stop: stopping the timer
 * answers them. */
void df_sandbox_stop(struct df_sandbox *s)
{
    if (!s)
        return;
    df_http_drain(s->http);
    df_timer_stop(s->timer);
    (void)df_http_wait_idle(s->http, STOP_WAIT_MS);
    df_http_stop(s->http);
    release_sandbox(s);
}

/*
 * An errand is a POST to the server that a request causes: an ack or a callback. It waits in the
 * timer, goes through the HTTP client, and returns to the timer if it failed and another attempt
 * may help. A 404 is tried again too: the errand may overtake the answer to the request, so the
 * server may not have stored yet what the errand is about.
 */
#include "sandbox/internal.h"

#include "base/log.h"
#include "base/mem.h"
#include "net/field.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define WAITING_BYTES_MAX ((size_t)64 << 20)
#define TIMEOUT_MS        30000

static const int64_t retry_ms[] = {250, 1000, 4000};

#define RETRIES (sizeof(retry_ms) / sizeof(retry_ms[0]))

struct df_sb_errand {
    struct df_timer_item item; /* first: send_errand() casts */
    struct df_call call;
    struct df_sandbox *sandbox;
    enum df_sb_errand_kind kind;
    struct df_sb_server *server;
    struct df_call_header headers[4];
    char correlation_id[129];
    char *url;
    char *body;
    size_t size;
    int64_t delay_ms;
    size_t attempts;
};

static void free_errand(struct df_sb_errand *e)
{
    struct df_sandbox *s = e->sandbox;

    atomic_fetch_sub(&s->errand_bytes, e->size);
    atomic_fetch_sub(&s->errands[e->kind].pending, 1);
    df_sb_server_unref(e->server);
    free(e->url);
    free(e->body);
    free(e);
}

static bool is_worth_repeating(const struct df_call *call)
{
    if (call->code != DF_OK)
        return df_code_retry(call->code) != DF_RETRY_NEVER && call->code != DF_E_CANCELLED;
    return call->status == 404 || call->status == 408 || call->status == 425 ||
           call->status == 429 || call->status >= 500;
}

/* A wrong URL or credential fails every errand: one line for each hundred is enough. */
static void log_failure(const struct df_sb_errand *e, const struct df_call *call, uint64_t nth)
{
    const char *kind = e->kind == DF_SB_ACK ? "ack" : "callback";

    if (call->code == DF_E_CANCELLED || nth % 100 != 1)
        return;
    if (call->code == DF_OK)
        df_log_warn("SandboxErrandFailed", "the server answered %u to %s %" PRIu64 " that failed",
                    call->status, kind, nth);
    else
        df_log_warn("SandboxErrandFailed", "%s %" PRIu64 " failed: %s", kind, nth,
                    call->err.detail);
}

static void errand_done(struct df_call *call)
{
    struct df_sb_errand *e = call->arg;
    struct df_sb_errand_counts *counts = &e->sandbox->errands[e->kind];

    if (call->code == DF_OK && call->status / 100 == 2) {
        atomic_fetch_add(&counts->sent, 1);
        free_errand(e);
        return;
    }
    if (is_worth_repeating(call) && e->attempts < RETRIES &&
        df_timer_add(e->sandbox->timer, &e->item, retry_ms[e->attempts++]))
        return;
    log_failure(e, call, atomic_fetch_add(&counts->failed, 1) + 1);
    free_errand(e);
}

static void send_errand(struct df_timer_item *item, bool stopping)
{
    struct df_sb_errand *e = (struct df_sb_errand *)item;

    if (stopping) {
        free_errand(e);
        return;
    }
    df_http_client_send(e->sandbox->client, &e->call);
}

static void fill_headers(struct df_sb_errand *e, struct df_str correlation_id)
{
    size_t n = 0;

    e->headers[n++] = (struct df_call_header){DF_STR("Content-Type"), DF_STR(DF_SB_JSON)};
    if (e->server->client_id[0]) {
        e->headers[n++] =
            (struct df_call_header){DF_STR("X-Client-Id"), df_str_c(e->server->client_id)};
        e->headers[n++] = (struct df_call_header){DF_STR("X-Client-Secret"),
                                                  df_secret_str(e->server->client_secret)};
    }
    if (correlation_id.len > 0 && correlation_id.len < sizeof(e->correlation_id) &&
        df_field_value_ok(correlation_id)) {
        memcpy(e->correlation_id, correlation_id.ptr, correlation_id.len);
        e->headers[n++] =
            (struct df_call_header){DF_STR("X-Correlation-Id"), df_str_c(e->correlation_id)};
    }
    e->call.headers = e->headers;
    e->call.header_count = n;
}

struct df_sb_errand *df_sb_errand_new(struct df_sandbox *s, enum df_sb_errand_kind kind,
                                      const char *path, struct df_str correlation_id,
                                      struct df_buf *take_body, int64_t delay_ms)
{
    size_t len;
    char *body = df_buf_take(take_body, &len);
    size_t size = len + sizeof(struct df_sb_errand);
    struct df_sb_server *server = df_sb_config_server(&s->config);
    bool full = atomic_fetch_add(&s->errand_bytes, size) + size > WAITING_BYTES_MAX;

    if (!server || full) {
        atomic_fetch_sub(&s->errand_bytes, size);
        if (server)
            atomic_fetch_add(&s->errands[kind].dropped, 1);
        df_sb_server_unref(server);
        free(body);
        return NULL;
    }
    atomic_fetch_add(&s->errands[kind].pending, 1);
    struct df_sb_errand *e = df_calloc(1, sizeof(*e));
    e->item.fire = send_errand;
    e->sandbox = s;
    e->kind = kind;
    e->server = server;
    e->body = body;
    e->size = size;
    e->delay_ms = delay_ms;
    if (asprintf(&e->url, "%s%s", server->url, path) < 0)
        df_oom();
    e->call = (struct df_call){.method = "POST",
                               .url = e->url,
                               .body = df_str_n(body, len),
                               .timeout_ms = TIMEOUT_MS,
                               .allow_private = true,
                               .done = errand_done,
                               .arg = e};
    fill_headers(e, correlation_id);
    return e;
}

void df_sb_errand_schedule(struct df_sb_errand *take_errand, int64_t wait_ms)
{
    struct df_sb_errand *e = take_errand;

    if (e && !df_timer_add(e->sandbox->timer, &e->item, wait_ms + e->delay_ms))
        free_errand(e);
}

void df_sb_errand_drop(struct df_sb_errand *take_errand)
{
    if (!take_errand)
        return;
    atomic_fetch_add(&take_errand->sandbox->errands[take_errand->kind].dropped, 1);
    free_errand(take_errand);
}

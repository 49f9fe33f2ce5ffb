#include "app/waiting.h"

#include "access/handler.h"
#include "app/system_routes.h"
#include "base/mem.h"

#include <stdatomic.h>
#include <stdlib.h>

#define ANSWER_MAX      4096
#define CONNECTIONS_MAX 256

struct df_waiting {
    struct df_http_server *http;
    _Atomic enum df_code why;
};

/* --- what it answers --- */

/* Nobody is known yet, so nobody is told more than strangers may know: the log has the rest. */
static void write_reason(enum df_code why, struct df_req *req, struct df_json_out *json)
{
    bool schema = why == DF_E_SCHEMA;
    struct df_str reason = schema ? df_str_c(df_code_outside(why))
                                  : DF_STR("The master key is not available for now.");

    df_json_open(json, '{');
    df_system_write_problem(json, reason, req);
    df_json_key(json, "checks");
    df_json_open(json, '[');
    df_json_open(json, '{');
    df_json_kv_text(json, "name", schema ? DF_STR("schema") : DF_STR("keys"));
    df_json_kv_text(json, "status", DF_STR("failed"));
    df_json_kv_told(json, "detail", reason);
    df_json_close(json, '}');
    df_json_close(json, ']');
    df_json_close(json, '}');
}

static void answer_not_ready(struct df_req *req)
{
    const struct df_waiting *w = df_req_route_arg(req);
    struct df_json_out json;
    struct df_buf out;

    df_buf_init(&out, ANSWER_MAX);
    df_json_out_init(&json, &out);
    write_reason(atomic_load(&w->why), req, &json);
    df_req_add_header(req, "Retry-After", DF_STR("1"));
    df_req_answer(req, 503, "application/problem+json", &out);
}

/* Answers before a body is read. */
static enum df_verdict authorize(struct df_req *req, void *arg)
{
    const struct df_route *route = df_req_route(req);
    bool probe = route->access == DF_ACCESS_METRICS ? df_req_peer_is_loopback(req)
                                                    : route->handle == df_handle;

    (void)arg;
    if (probe)
        return DF_PASS;
    answer_not_ready(req);
    return DF_ANSWERED;
}

#define REST(method_, path_)                                                                       \
    {                                                                                              \
        .method = (method_), .pattern = (path_), .body = DF_BODY_ANY, .access = DF_ACCESS_OPEN,    \
        .handle = answer_not_ready                                                                 \
    }

static const struct df_route rest[] = {
    REST("GET", "/"),          REST("GET", "/{path...}"),   REST("POST", "/{path...}"),
    REST("PUT", "/{path...}"), REST("PATCH", "/{path...}"), REST("DELETE", "/{path...}"),
    {.method = NULL},
};

/* --- start and end --- */

static enum df_code listen_http(struct df_waiting *w, const struct df_settings *s,
                                struct df_access *access, struct df_err *err)
{
    const struct df_route_table tables[] = {{df_probe_routes, w}, {rest, w}, {NULL, NULL}};
    struct df_http_options opt = {.settings = s->http,
                                  .version_prefix = true,
                                  .clock = access->clock,
                                  .tables = tables,
                                  .authorize = authorize,
                                  .arg = access};

    opt.settings.threads = 1;
    opt.settings.max_connections = CONNECTIONS_MAX;
    enum df_code code = df_http_start(&opt, &w->http, err);
    if (code == DF_OK) {
        struct df_log_field fields[] = {DF_F("address", df_str_c(df_http_address(w->http)))};
        df_log_write(DF_LOG_INFO, "ServerWaiting", fields, 1,
                     "not ready yet: everything but probes is answered 503 on %s",
                     df_http_address(w->http));
    }
    return code;
}

enum df_code df_waiting_tell(struct df_waiting **w, const struct df_settings *s,
                             struct df_access *access, enum df_code why, struct df_err *err)
{
    bool first = !*w;

    if (first)
        *w = df_calloc(1, sizeof **w);
    atomic_store(&(*w)->why, why);
    return first ? listen_http(*w, s, access, err) : DF_OK;
}

const struct df_http_server *df_waiting_http(const struct df_waiting *w)
{
    return w ? w->http : NULL;
}

void df_waiting_end(struct df_waiting *w)
{
    if (!w)
        return;
    df_http_stop(w->http);
    free(w);
}

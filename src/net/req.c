#include "net/http_int.h"

#include "net/language.h"

#include <errno.h>
#include <sys/socket.h>

struct df_arena *df_req_arena(struct df_req *req)
{
    return &req->arena;
}

struct df_str df_req_method(const struct df_req *req)
{
    return req->method_name;
}

struct df_str df_req_path(const struct df_req *req)
{
    return req->target.path;
}

struct df_str df_req_path_raw(const struct df_req *req)
{
    return req->target.raw;
}

struct df_str df_req_query_raw(const struct df_req *req)
{
    return req->target.query;
}

struct df_str df_req_param(const struct df_req *req, const char *name)
{
    return df_match_param(&req->match, df_str_c(name));
}

/* Decoding adds to the arena, even when the caller holds the request as const. */
static struct df_arena *arena_of(const struct df_req *req)
{
    return &req->conn->req.arena;
}

struct df_str df_req_query(const struct df_req *req, const char *name)
{
    return df_target_query(arena_of(req), req->target.query, df_str_c(name));
}

struct df_str df_req_header(const struct df_req *req, const char *name)
{
    const char *value = NULL;
    size_t len = 0;

    if (MHD_lookup_connection_value_n(req->conn->mhd, MHD_HEADER_KIND, name, strlen(name), &value,
                                      &len) != MHD_YES)
        return DF_STR_NULL;
    return df_str_trim(df_str_n(value ? value : "", len));
}

struct visit {
    void (*each)(void *arg, struct df_str name, struct df_str value);
    void *arg;
};

static enum MHD_Result visit_header(void *arg, enum MHD_ValueKind kind, const char *name,
                                    size_t name_len, const char *value, size_t value_len)
{
    const struct visit *v = arg;

    (void)kind;
    v->each(v->arg, df_str_n(name, name_len), df_str_trim(df_str_n(value ? value : "", value_len)));
    return MHD_YES;
}

void df_req_each_header(const struct df_req *req,
                        void (*each)(void *arg, struct df_str name, struct df_str value), void *arg)
{
    struct visit v = {.each = each, .arg = arg};
    (void)MHD_get_connection_values_n(req->conn->mhd, MHD_HEADER_KIND, visit_header, &v);
}

static void note_languages(void *arg, struct df_str name, struct df_str value)
{
    if (df_str_ieq(name, DF_STR("Accept-Language")))
        df_language_read(arg, value);
}

enum df_lang df_req_language(const struct df_req *req)
{
    struct df_language_ask ask = {0};

    df_req_each_header(req, note_languages, &ask);
    return df_language_choose(&ask);
}

struct df_str df_req_body(const struct df_req *req)
{
    return df_buf_str(&req->body);
}

int64_t df_req_declared_length(const struct df_req *req)
{
    return req->declared_length;
}

struct df_str df_req_peer(const struct df_req *req)
{
    return df_str_c(req->caller);
}

struct df_str df_req_peer_network(const struct df_req *req)
{
    return df_str_c(req->caller_network);
}

static void note_proxy(void *arg, struct df_str name, struct df_str value)
{
    bool *passed_on = arg;
    (void)value;
    *passed_on = *passed_on || df_field_is_of_proxy(name);
}

bool df_req_peer_is_loopback(const struct df_req *req)
{
    bool passed_on = false;

    if (!df_ip_is_loopback(&req->conn->ip))
        return false;
    df_req_each_header(req, note_proxy, &passed_on);
    return !passed_on;
}

const struct df_route *df_req_route(const struct df_req *req)
{
    return req->match.route;
}

void *df_req_route_arg(const struct df_req *req)
{
    return req->match.route ? req->match.arg : NULL;
}

void *df_req_server_arg(const struct df_req *req)
{
    return req->conn->server->opt.arg;
}

struct df_str df_req_correlation_id(const struct df_req *req)
{
    return df_str_n(req->correlation, req->correlation_len);
}

const struct df_trace *df_req_trace(const struct df_req *req)
{
    return &req->trace;
}

struct df_str df_req_trace_id(const struct df_req *req)
{
    return df_trace_id(&req->trace);
}

bool df_req_asks_trace(const struct df_req *req)
{
    return req->caller_sampled && !df_trace_is_sampled(&req->trace);
}

void df_req_heed_trace(struct df_req *req)
{
    df_trace_set_sampled(&req->trace, true);
}

void df_req_set_owner(struct df_req *req, struct df_str owner)
{
    df_account_open(&req->account, req->conn->server->budget, owner);
}

bool df_req_charge(struct df_req *req, size_t bytes)
{
    struct df_err err = DF_ERR_INIT;

    if (df_account_take(&req->account, bytes))
        return true;
    (void)df_memory_error(req, "body", &err);
    df_req_problem(req, &err);
    return false;
}

void df_req_buf(struct df_req *req, struct df_buf *ret, size_t max_bytes)
{
    df_buf_init(ret, max_bytes);
    ret->account = &req->account;
}

struct df_account *df_req_account(struct df_req *req)
{
    return &req->account;
}

struct df_log_ctx *df_req_log(struct df_req *req)
{
    return &req->log;
}

void df_req_set_user(struct df_req *req, void *user)
{
    req->user = user;
}

void *df_req_user(const struct df_req *req)
{
    return req->user;
}

void df_req_set_operator(struct df_req *req, const void *who)
{
    req->operator_ = who;
}

const void *df_req_operator(const struct df_req *req)
{
    return req->operator_;
}

void df_req_set_state(struct df_req *req, void *state)
{
    req->state = state;
}

void *df_req_state(const struct df_req *req)
{
    return req->state;
}

/* libmicrohttpd keeps the socket of a suspended connection open and does not touch it. */
bool df_req_peer_gone(const struct df_req *req)
{
    char byte;
    ssize_t n = recv(req->conn->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

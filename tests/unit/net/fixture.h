/*
 * A real server on a free port of 127.0.0.1, an application with a worker behind it, and raw
 * sockets to talk to it, so that what is sent is exactly what stands in the test. Each test program
 * includes this once and uses the part that it needs. Nothing is asserted about how fast something
 * happened, only that it did: ATTEMPT_S is how long to wait for it.
 */
#ifndef NET_FIXTURE_H
#define NET_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/queue.h"
#include "net/http.h"
#include "port.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#pragma GCC diagnostic ignored "-Wunused-function"

#define COUNT(a)  (sizeof(a) / sizeof((a)[0]))
#define ATTEMPT_S 20
#define BIG_BYTES ((size_t)16 * 1024 * 1024)
#define H         "Host: x\r\n"

/* --- the application -------------------------------------------------------------------------- */

/* A worker as the store has them: takes requests that were set aside and resumes them. */
static struct df_queue jobs;
static pthread_t worker;
static _Atomic int ended;       /* calls of on_end */
static _Atomic int hidden;      /* calls of GET /hidden */
static _Atomic int64_t holding; /* milliseconds that the worker sits on a job */
static struct df_req *_Atomic kept;
static struct df_sse *_Atomic stream;
static char big[BIG_BYTES];

static void say(struct df_req *req, unsigned status, struct df_str text)
{
    struct df_buf b;
    df_buf_init(&b, (size_t)4 * 1024 * 1024);
    df_buf_adds(&b, text);
    df_req_answer(req, status, "text/plain", &b);
}

static void *work(void *arg)
{
    void *item;
    (void)arg;

    while (df_queue_pop(&jobs, &item, 1, -1) == 1) {
        struct df_req *req = item;
        if (holding > 0)
            usleep((useconds_t)holding * 1000);
        const struct df_route *route = df_req_route(req);
        if (route->body == DF_BODY_ANY)
            say(req, 202, df_req_body(req));
        else if (route->body == DF_BODY_STREAM && df_req_query(req, "fail").ptr)
            df_req_fail(req, DF_E_CONFLICT, "the worker does not like it");
        df_req_resume(req);
    }
    return NULL;
}

static void do_ping(struct df_req *req)
{
    df_req_answer_static(req, 200, "text/plain", DF_STR("pong"));
}

/* What is sent where it must not be taken for a request. */
static void do_hidden(struct df_req *req)
{
    hidden++;
    df_req_answer_static(req, 200, "text/plain", DF_STR("hidden"));
}

/* Takes a while, so that the gate is shut meanwhile. */
static _Atomic int handling;
static void do_slow(struct df_req *req)
{
    handling++;
    usleep(100000);
    say(req, 200, df_req_body(req));
    handling--;
}

static void do_echo(struct df_req *req)
{
    say(req, 200, df_req_body(req));
}

/* Everything the request says of itself, one thing a line. */
static void do_show(struct df_req *req)
{
    struct df_buf b;
    struct df_str q = df_req_query(req, "q");

    df_buf_init(&b, 65536);
    df_buf_addf(&b, "method=" DF_STR_FMT "\n", DF_STR_ARG(df_req_method(req)));
    df_buf_addf(&b, "path=" DF_STR_FMT "\n", DF_STR_ARG(df_req_path(req)));
    df_buf_addf(&b, "id=" DF_STR_FMT "\n", DF_STR_ARG(df_req_param(req, "id")));
    df_buf_addf(&b, "q=" DF_STR_FMT "\n", DF_STR_ARG(q.ptr ? q : DF_STR("absent")));
    df_buf_addf(&b, "raw=" DF_STR_FMT "\n", DF_STR_ARG(df_req_query_raw(req)));
    df_buf_addf(&b, "header=" DF_STR_FMT "\n", DF_STR_ARG(df_req_header(req, "x-TEST")));
    df_buf_addf(&b, "peer=" DF_STR_FMT "\n", DF_STR_ARG(df_req_peer(req)));
    df_buf_addf(&b, "network=" DF_STR_FMT "\n", DF_STR_ARG(df_req_peer_network(req)));
    df_buf_addf(&b, "loopback=%d\n", df_req_peer_is_loopback(req));
    df_buf_addf(&b, "length=%lld\n", (long long)df_req_declared_length(req));
    df_buf_addf(&b, "user=%s\n", (const char *)df_req_user(req));
    df_buf_addf(&b, "route=%s\n", df_req_route(req)->pattern);
    df_buf_addf(&b, "arg=%s\n", (const char *)df_req_route_arg(req));
    df_buf_addf(&b, "server=%s\n", (const char *)df_req_server_arg(req));
    (void)df_req_add_header(req, "X-Extra", DF_STR("yes"));
    df_req_answer(req, 200, "text/plain", &b);
}

/* An answer of ?bytes=, in a buffer that asks. */
static void do_built(struct df_req *req)
{
    struct df_buf b;
    int64_t bytes = 0;

    (void)df_str_to_i64(df_req_query(req, "bytes"), &bytes);
    df_req_buf(req, &b, 4 * BIG_BYTES);
    for (int64_t i = 0; i < bytes; i++)
        df_buf_addc(&b, 'b');
    df_req_answer(req, 200, "text/plain", &b);
}

static void do_aside(struct df_req *req)
{
    df_req_suspend(req);
    if (!df_queue_push(&jobs, req))
        abort();
}

/* The answer comes before the handler has returned. */
static void do_early(struct df_req *req)
{
    df_req_suspend(req);
    say(req, 200, DF_STR("early"));
    df_req_resume(req);
}

static void do_keep(struct df_req *req)
{
    df_req_suspend(req);
    kept = req;
}

static void do_nothing(struct df_req *req)
{
    (void)req;
}

static void do_drop(struct df_req *req)
{
    df_req_drop(req);
}

static void do_empty(struct df_req *req)
{
    df_req_answer_empty(req, 204);
}

static void do_busy(struct df_req *req)
{
    df_req_fail(req, DF_E_BUSY, "come back later");
}

static void do_fields(struct df_req *req)
{
    struct df_err err = DF_ERR_INIT;
    struct df_field_error fields[] = {{DF_STR("name"), DF_STR("must not be \"empty\"")},
                                      {DF_STR("age"), DF_STR("must be a number")}};
    (void)df_err_at(&err, DF_E_VALIDATION, 17, "two fields are wrong");
    df_req_problem_fields(req, &err, fields, COUNT(fields));
    say(req, 200, DF_STR("too late: the first answer stands"));
}

static void do_big(struct df_req *req)
{
    df_req_answer_static(req, 200, "application/octet-stream", df_str_n(big, sizeof(big)));
}

static void do_events(struct df_req *req)
{
    stream = df_req_sse(req);
}

static void do_headers(struct df_req *req)
{
    bool bad = df_req_add_header(req, "X-Bad", DF_STR("a\r\nX-Injected: 1")) ||
               df_req_add_header(req, "X Bad", DF_STR("1")) ||
               df_req_add_header(req, "Content-Length", DF_STR("1")) ||
               df_req_add_header(req, "X-Empty", DF_STR(""));
    bool good = df_req_add_header(req, "Cache-Control", DF_STR("max-age=5"));
    say(req, bad || !good ? 500 : 200, DF_STR("headers"));
}

/* A stream fails at the first X, and waits for the worker whenever it is asked to. */
static enum df_code on_stream(struct df_req *req, const char *data, size_t len, struct df_err *err)
{
    size_t *seen = df_req_user(req);

    if (memchr(data, 'X', len))
        return df_err_set(err, DF_E_VALIDATION, "an X is in it");
    *seen += len;
    if (df_req_query(req, "wait").ptr)
        do_aside(req);
    return DF_OK;
}

static void do_stream(struct df_req *req)
{
    struct df_buf b;
    df_buf_init(&b, 64);
    df_buf_addf(&b, "%zu", *(size_t *)df_req_user(req));
    df_req_answer(req, 200, "text/plain", &b);
}

static enum df_verdict authorize(struct df_req *req, void *arg)
{
    struct df_str who = df_req_header(req, "X-Who");
    (void)arg;

    df_log_ctx_set(df_req_log(req), "clientId", DF_STR("test"));
    if (df_req_route(req)->body == DF_BODY_STREAM)
        df_req_set_user(req, df_arena_zalloc(df_req_arena(req), sizeof(size_t)));
    else
        df_req_set_user(req, df_arena_cstr(df_req_arena(req), DF_STR("somebody")));
    if (df_str_eq(who, DF_STR("nobody"))) {
        df_req_fail(req, DF_E_UNAUTHORIZED, "who are you?");
        return DF_ANSWERED;
    }
    struct df_str owner = df_req_header(req, "X-Owner");
    if (owner.ptr)
        df_req_set_owner(req, owner);
    if (df_str_eq(who, DF_STR("asked"))) {
        df_req_suspend(req);
        kept = req;
        return DF_DEFERRED;
    }
    if (df_str_eq(who, DF_STR("deferred"))) {
        df_req_suspend(req);
        return df_queue_push(&jobs, req) ? DF_DEFERRED : DF_ANSWERED;
    }
    return DF_PASS;
}

static void on_end(struct df_req *req)
{
    assert_non_null(df_req_route(req));
    ended++;
}

static char route_arg[] = "the route's";
static char server_arg[] = "the server's";

static const struct df_deprecation ends = {.since = "2026-01-01T00:00:00Z",
                                           .sunset = "2027-12-31T23:59:59Z",
                                           .link = "https://docs.example/old#ping"};
static const struct df_deprecation goes_on = {.since = "2026-02-03T04:05:06Z", .link = "/docs"};

static const struct df_route routes[] = {
    {.method = "GET", .pattern = "/ping", .handle = do_ping},
    {.method = "GET", .pattern = "/old", .handle = do_ping, .deprecated = &ends},
    {.method = "POST",
     .pattern = "/old",
     .body = DF_BODY_ANY,
     .max_body_bytes = 10,
     .handle = do_busy,
     .deprecated = &goes_on},
    {.method = "GET", .pattern = "/hidden", .handle = do_hidden, .on_end = on_end},
    {.method = "GET", .pattern = "/built", .handle = do_built},
    {.method = "POST", .pattern = "/echo", .body = DF_BODY_ANY, .handle = do_echo},
    {.method = "POST",
     .pattern = "/slow",
     .body = DF_BODY_ANY,
     .handle = do_slow,
     .on_end = on_end},
    {.method = "PUT",
     .pattern = "/echo",
     .body = DF_BODY_ANY,
     .max_body_bytes = 10,
     .handle = do_echo},
    {.method = "POST", .pattern = "/json", .body = DF_BODY_JSON, .handle = do_echo},
    {.method = "POST", .pattern = "/none", .handle = do_ping},
    {.method = "GET", .pattern = "/show/{id}", .handle = do_show},
    {.method = "POST", .pattern = "/aside", .body = DF_BODY_ANY, .handle = do_aside},
    {.method = "GET", .pattern = "/early", .handle = do_early},
    {.method = "GET", .pattern = "/keep", .handle = do_keep},
    {.method = "GET", .pattern = "/nothing", .handle = do_nothing},
    {.method = "GET", .pattern = "/drop", .handle = do_drop},
    {.method = "DELETE", .pattern = "/empty", .handle = do_empty},
    {.method = "GET", .pattern = "/busy", .handle = do_busy},
    {.method = "GET", .pattern = "/fields", .handle = do_fields},
    {.method = "GET", .pattern = "/big", .handle = do_big, .on_end = on_end},
    {.method = "GET", .pattern = "/events", .handle = do_events},
    {.method = "GET", .pattern = "/headers", .handle = do_headers},
    {.method = "POST",
     .pattern = "/stream",
     .body = DF_BODY_STREAM,
     .max_body_bytes = 1 << 22,
     .handle = do_stream,
     .on_data = on_stream,
     .on_end = on_end},
    {.method = NULL},
};
static const struct df_route_table tables[] = {{routes, route_arg}, {NULL, NULL}};

static struct df_http_options defaults(void)
{
    return (struct df_http_options){
        .settings.listen = "127.0.0.1:0",
        .settings.threads = 2,
        .settings.max_body_bytes = 65536,
        .version_prefix = true,
        .metrics_prefix = "test",
        .tables = tables,
        .authorize = authorize,
        .arg = server_arg,
    };
}

static struct df_http_server *start(const struct df_http_options *opt)
{
    struct df_http_server *s = NULL;
    struct df_err err = DF_ERR_INIT;

    if (df_http_start(opt, &s, &err) != DF_OK)
        fail_msg("the server does not start: %s", err.detail);
    return s;
}

/* --- the client ------------------------------------------------------------------------------- */

struct peer {
    int fd;
    char *buf;
    size_t len;
    size_t cap;
};

struct reply {
    int status; /* 0: the connection was closed without one */
    char head[8192];
    char *body; /* in the peer's buffer until the next read */
    size_t body_len;
};

static struct peer dial(const struct df_http_server *s)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)port_of(s)),
                            .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct timeval tv = {.tv_sec = ATTEMPT_S};
    struct peer p = {.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), .cap = 1 << 16};

    assert_true(p.fd >= 0);
    assert_int_equal(connect(p.fd, (struct sockaddr *)&a, sizeof(a)), 0);
    setsockopt(p.fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
    setsockopt(p.fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv));
    p.buf = malloc(p.cap);
    assert_non_null(p.buf);
    return p;
}

static void hang_up(struct peer *p)
{
    close(p->fd);
    free(p->buf);
    *p = (struct peer){.fd = -1};
}

/* False when the server does not want it any more. */
static bool try_send(struct peer *p, const void *data, size_t len)
{
    const char *at = data;
    while (len > 0) {
        ssize_t n = send(p->fd, at, len, MSG_NOSIGNAL);
        if (n <= 0)
            return false;
        at += n;
        len -= (size_t)n;
    }
    return true;
}

static void say_to(struct peer *p, const char *text)
{
    assert_true(try_send(p, text, strlen(text)));
}

/* Reads more; false at the end. A time-out fails the test. */
static bool more(struct peer *p)
{
    if (p->len + 1 >= p->cap) {
        p->cap *= 2;
        p->buf = realloc(p->buf, p->cap);
        assert_non_null(p->buf);
    }
    ssize_t n = recv(p->fd, p->buf + p->len, p->cap - p->len - 1, 0);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        fail_msg("nothing came for %d seconds", ATTEMPT_S);
    if (n <= 0)
        return false;
    p->len += (size_t)n;
    p->buf[p->len] = '\0';
    return true;
}

static const char *header_of(const struct reply *r, const char *name, char *out, size_t size)
{
    size_t len = strlen(name);
    for (const char *line = strstr(r->head, "\r\n"); line; line = strstr(line + 2, "\r\n")) {
        if (strncasecmp(line + 2, name, len) == 0 && line[2 + len] == ':') {
            const char *value = line + 2 + len + 1;
            while (*value == ' ')
                value++;
            snprintf(out, size, "%.*s", (int)strcspn(value, "\r"), value);
            return out;
        }
    }
    return NULL;
}

static void consume(struct peer *p, size_t n)
{
    memmove(p->buf, p->buf + n, p->len - n);
    p->len -= n;
}

/* One answer with its body. is_head: none will come, whatever Content-Length says. */
static struct reply listen_to(struct peer *p, bool is_head)
{
    static char *body;
    struct reply r = {0};
    char value[64];
    char *end;

    while (!(end = p->len > 0 ? memmem(p->buf, p->len, "\r\n\r\n", 4) : NULL)) {
        if (!more(p))
            return r;
    }
    size_t head_len = (size_t)(end - p->buf) + 4;
    assert_true(head_len < sizeof(r.head));
    memcpy(r.head, p->buf, head_len);
    assert_int_equal(sscanf(r.head, "HTTP/1.1 %d ", &r.status), 1);
    consume(p, head_len);
    if (r.status == 100)
        return r;
    size_t want = 0;
    if (!is_head && header_of(&r, "Content-Length", value, sizeof(value)))
        want = strtoul(value, NULL, 10);
    while (p->len < want) {
        if (!more(p))
            fail_msg("the answer was cut: %zu of %zu bytes", p->len, want);
    }
    free(body);
    body = malloc(want + 1);
    assert_non_null(body);
    memcpy(body, p->buf, want);
    body[want] = '\0';
    r.body = body;
    r.body_len = want;
    consume(p, want);
    return r;
}

static bool is_closed(struct peer *p)
{
    return p->len == 0 && !more(p);
}

static struct reply ask(struct df_http_server *s, const char *request)
{
    struct peer p = dial(s);
    say_to(&p, request);
    struct reply r = listen_to(&p, strncmp(request, "HEAD", 4) == 0);
    hang_up(&p);
    return r;
}

static bool has(const struct reply *r, const char *name, const char *value)
{
    char got[256];
    return header_of(r, name, got, sizeof(got)) && strcmp(got, value) == 0;
}

/* Every answer of ours carries these. */
static void assert_ours(const struct reply *r)
{
    char v[256];
    assert_non_null(header_of(r, "X-Correlation-Id", v, sizeof(v)));
    assert_non_null(header_of(r, "traceparent", v, sizeof(v)));
    assert_int_equal(strlen(v), 55);
    assert_true(has(r, "X-Content-Type-Options", "nosniff"));
}

static void assert_problem(const struct reply *r, int status, const char *code)
{
    char text[128];
    char id[256];

    assert_int_equal(r->status, status);
    assert_ours(r);
    assert_true(has(r, "Content-Type", "application/problem+json"));
    assert_true(has(r, "Cache-Control", "no-store"));
    snprintf(text, sizeof(text), "\"status\":%d", status);
    assert_non_null(strstr(r->body, text));
    snprintf(text, sizeof(text), "\"code\":\"%s\"", code);
    assert_non_null(strstr(r->body, text));
    assert_non_null(header_of(r, "X-Correlation-Id", id, sizeof(id)));
    assert_non_null(strstr(r->body, id));
}

/* The server still serves. */
static void assert_pong(struct df_http_server *s)
{
    struct reply r = ask(s, "GET /ping HTTP/1.1\r\n" H "\r\n");
    assert_int_equal(r.status, 200);
    assert_string_equal(r.body, "pong");
}

/* A thread that asks and checks the answers, until the server has had enough of it. */
static void *hammer(void *peer)
{
    struct peer *p = peer;
    static char yes[] = "yes";
    char *failed = NULL;

    /* No assertions: they belong to the main thread. */
    for (int i = 0; i < 100 && !failed; i++) {
        char text[256];
        int n = snprintf(text, sizeof(text),
                         "POST /aside HTTP/1.1\r\n" H "Content-Length: 3\r\n\r\n%03d", i);
        if (!try_send(p, text, (size_t)n))
            failed = yes;
        p->len = 0;
        while (!failed && !(p->len > 0 && memmem(p->buf, p->len, text + n - 3, 3))) {
            ssize_t got = recv(p->fd, p->buf + p->len, p->cap - p->len, 0);
            if (got <= 0)
                failed = yes;
            else
                p->len += (size_t)got;
        }
    }
    return failed;
}

static void expect_text(struct peer *p, const char *text)
{
    while (!memmem(p->buf, p->len, text, strlen(text))) {
        if (!more(p))
            fail_msg("the stream ended without \"%s\": %.*s", text, (int)p->len, p->buf);
    }
}

static struct df_sse *open_stream(struct df_http_server *s, struct peer *p)
{
    *p = dial(s);
    stream = NULL;
    say_to(p, "GET /events HTTP/1.1\r\n" H "\r\n");
    struct reply r = listen_to(p, true);
    assert_int_equal(r.status, 200);
    assert_true(has(&r, "Content-Type", "text/event-stream"));
    assert_ours(&r);
    assert_non_null(stream);
    return stream;
}

static void wait_for(const _Atomic int *counter, int value)
{
    for (int i = 0; i < ATTEMPT_S * 100 && *counter < value; i++)
        usleep(10000);
    assert_true(*counter >= value);
}

/* --- fixture ---------------------------------------------------------------------------------- */

static struct df_http_server *shared;

static int set_up(void **state)
{
    struct df_http_options opt = defaults();
    (void)state;

    df_log_init(DF_LOG_ERROR, DF_LOG_JSON, NULL);
    memset(big, 'b', sizeof(big));
    df_queue_init(&jobs, 4096);
    if (pthread_create(&worker, NULL, work, NULL) != 0)
        return -1;
    shared = start(&opt);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    df_queue_close(&jobs);
    pthread_join(worker, NULL);
    df_http_stop(shared);
    df_queue_release(&jobs);
    return 0;
}

#endif

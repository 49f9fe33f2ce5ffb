/*
 * A peer for tests of the HTTP client, and calls to it. The peer has a thread for each connection
 * and behaves as the path of a request says, well or badly.
 */
#ifndef DF_TEST_NET_CALLED_H
#define DF_TEST_NET_CALLED_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "net/client.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* --- the peer --- */

#define PEER_CONNECTIONS 1024

struct peer;

struct peer_connection {
    struct peer *peer;
    pthread_t thread;
    int fd;
};

struct peer {
    int fd;
    unsigned port;
    pthread_t thread;
    pthread_mutex_t lock;
    struct peer_connection connections[PEER_CONNECTIONS];
    size_t connection_count;
    bool stopping;
    pthread_cond_t opened;
    bool open; /* what came to /wait is answered */
    _Atomic int requests;
    _Atomic bool said_unasked; /* the second answer of /twice is on its way */
    const char *retry_after;
};

static inline void put(int fd, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = send(fd, data, len, MSG_NOSIGNAL);
        if (n <= 0)
            return;
        data += n;
        len -= (size_t)n;
    }
}

static inline void answer(int fd, unsigned status, const char *extra, const char *body, size_t len)
{
    char head[512];
    int n = snprintf(head, sizeof(head), "HTTP/1.1 %u X\r\nContent-Length: %zu\r\n%s\r\n", status,
                     len, extra);
    put(fd, head, (size_t)n);
    put(fd, body, len);
}

/* Reads one request with its body into buf; its length, or 0 when the other side is gone. */
static inline size_t read_request(int fd, char *buf, size_t cap)
{
    size_t len = 0;
    for (;;) {
        char *end = len ? memmem(buf, len, "\r\n\r\n", 4) : NULL;
        if (end) {
            char *length = strcasestr(buf, "\r\ncontent-length:");
            size_t body = length && length < end ? strtoul(length + 17, NULL, 10) : 0;
            if (len >= (size_t)(end - buf) + 4 + body)
                return len;
        }
        if (len + 1 >= cap)
            return 0;
        ssize_t n = recv(fd, buf + len, cap - len - 1, 0);
        if (n <= 0)
            return 0;
        len += (size_t)n;
        buf[len] = '\0';
    }
}

static inline bool path_is(const char *request, const char *path)
{
    const char *at = strchr(request, ' ');
    return at && strncmp(at + 1, path, strlen(path)) == 0;
}

/* False: the connection is to be closed. */
static inline bool serve(struct peer *p, int fd, const char *request, size_t len, unsigned nth)
{
    char extra[256] = "";

    if (path_is(request, "/echo")) {
        answer(fd, 200, "Content-Type: text/plain\r\n", request, len);
    } else if (path_is(request, "/status/")) {
        unsigned status = (unsigned)strtoul(strstr(request, "/status/") + 8, NULL, 10);
        answer(fd, status, "", "x", status != 204);
    } else if (path_is(request, "/redirect")) {
        unsigned status = (unsigned)strtoul(strstr(request, "/redirect") + 10, NULL, 10);
        (void)snprintf(extra, sizeof(extra), "Location: http://127.0.0.1:%u/ok\r\n", p->port);
        answer(fd, status, extra, "", 0);
    } else if (path_is(request, "/big")) {
        size_t n = 300000;
        char *body = calloc(1, n);
        memset(body, 'b', n);
        answer(fd, 200, "", body, n);
        free(body);
    } else if (path_is(request, "/flood")) {
        static const char part[65536];
        put(fd, "HTTP/1.1 202 X\r\nRetry-After: 7\r\n\r\n", 34);
        while (send(fd, part, sizeof(part), MSG_NOSIGNAL) > 0)
            ;
        return false;
    } else if (path_is(request, "/retry")) {
        (void)snprintf(extra, sizeof(extra), "Retry-After: %s\r\n", p->retry_after);
        answer(fd, 503, extra, "", 0);
    } else if (path_is(request, "/hang")) {
        char byte;
        (void)!recv(fd, &byte, 1, 0);
        return false;
    } else if (path_is(request, "/wait")) {
        pthread_mutex_lock(&p->lock);
        while (!p->open)
            (void)pthread_cond_wait(&p->opened, &p->lock);
        pthread_mutex_unlock(&p->lock);
        answer(fd, 200, "", "", 0);
    } else if (path_is(request, "/twice")) {
        answer(fd, 200, "", "first", 5);
        pthread_mutex_lock(&p->lock);
        while (!p->open)
            (void)pthread_cond_wait(&p->opened, &p->lock);
        pthread_mutex_unlock(&p->lock);
        answer(fd, 200, "", "unasked", 7);
        atomic_store(&p->said_unasked, true);
    } else if (path_is(request, "/close") || (path_is(request, "/once") && nth > 1)) {
        return false;
    } else if (path_is(request, "/partial")) {
        put(fd, "HTTP/1.1 200 X\r\nContent-Length: 100\r\n\r\nten bytes.", 50);
        return false;
    } else if (path_is(request, "/garbage")) {
        put(fd, "this is not HTTP\r\n\r\n", 20);
        return false;
    } else if (path_is(request, "/headers")) {
        put(fd, "HTTP/1.1 100 Continue\r\nX-Early: 1\r\n\r\n", 37);
        answer(fd, 200, "X-A: 1\r\nx-b:  two \r\nX-A: 3\r\nX-Empty:\r\n", "", 0);
    } else if (path_is(request, "/many-headers")) {
        char many[3000] = "";
        for (int i = 0; i < 200; i++)
            (void)strcat(many, "X-A: 1\r\n");
        put(fd, "HTTP/1.1 200 X\r\nContent-Length: 0\r\n", 35);
        put(fd, many, strlen(many));
        put(fd, "\r\n", 2);
    } else if (path_is(request, "/endless-headers")) {
        put(fd, "HTTP/1.1 200 X\r\n", 16);
        for (int i = 0; i < 10000; i++)
            put(fd, "X-Filler: 0123456789012345678901234567890123456789012345678901234567890\r\n",
                73);
        return false;
    } else {
        answer(fd, 200, "", "hello", 5);
    }
    return true;
}

static inline void *connection_main(void *arg)
{
    struct peer_connection *c = arg;
    char *buf = malloc(1 << 20);
    size_t len;
    unsigned nth = 0;

    while ((len = read_request(c->fd, buf, 1 << 20)) > 0) {
        atomic_fetch_add(&c->peer->requests, 1);
        if (!serve(c->peer, c->fd, buf, len, ++nth))
            break;
    }
    free(buf);
    (void)shutdown(c->fd, SHUT_RDWR);
    return NULL;
}

static inline void *peer_main(void *arg)
{
    struct peer *p = arg;
    for (;;) {
        int fd = accept(p->fd, NULL, NULL);
        int on = 1;
        if (fd < 0)
            return NULL;
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        pthread_mutex_lock(&p->lock);
        if (p->stopping || p->connection_count == PEER_CONNECTIONS) {
            (void)close(fd);
        } else {
            struct peer_connection *c = &p->connections[p->connection_count++];
            *c = (struct peer_connection){.peer = p, .fd = fd};
            assert_int_equal(pthread_create(&c->thread, NULL, connection_main, c), 0);
        }
        pthread_mutex_unlock(&p->lock);
    }
}

static inline int listen_somewhere(unsigned *ret_port)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(in);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&in, sizeof(in)), 0);
    assert_int_equal(listen(fd, 512), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&in, &len), 0);
    *ret_port = ntohs(in.sin_port);
    return fd;
}

static inline struct peer *peer_start(void)
{
    struct peer *p = df_calloc(1, sizeof(*p));
    (void)pthread_mutex_init(&p->lock, NULL);
    (void)pthread_cond_init(&p->opened, NULL);
    p->fd = listen_somewhere(&p->port);
    assert_int_equal(pthread_create(&p->thread, NULL, peer_main, p), 0);
    return p;
}

static inline void peer_stop(struct peer *p)
{
    pthread_mutex_lock(&p->lock);
    p->stopping = true;
    pthread_mutex_unlock(&p->lock);
    (void)shutdown(p->fd, SHUT_RDWR);
    (void)pthread_join(p->thread, NULL);
    for (size_t i = 0; i < p->connection_count; i++) {
        (void)shutdown(p->connections[i].fd, SHUT_RDWR);
        (void)pthread_join(p->connections[i].thread, NULL);
        (void)close(p->connections[i].fd);
    }
    (void)close(p->fd);
    free(p);
}

static inline void peer_open(struct peer *p)
{
    pthread_mutex_lock(&p->lock);
    p->open = true;
    (void)pthread_cond_broadcast(&p->opened);
    pthread_mutex_unlock(&p->lock);
}

static inline size_t peer_connections(struct peer *p)
{
    pthread_mutex_lock(&p->lock);
    size_t n = p->connection_count;
    pthread_mutex_unlock(&p->lock);
    return n;
}

/* --- calls --- */

/* Counts calls that have ended; tests sleep on it, not on the clock. */
struct gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    size_t done;
};

static inline void gate_init(struct gate *g)
{
    (void)pthread_mutex_init(&g->lock, NULL);
    (void)pthread_cond_init(&g->changed, NULL);
    g->done = 0;
}

static inline void gate_signal(struct gate *g)
{
    pthread_mutex_lock(&g->lock);
    g->done++;
    (void)pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
}

static inline void gate_wait(struct gate *g, size_t n)
{
    pthread_mutex_lock(&g->lock);
    while (g->done < n)
        (void)pthread_cond_wait(&g->changed, &g->lock);
    pthread_mutex_unlock(&g->lock);
}

struct outcome {
    struct df_call call;
    struct gate *gate;
    char url[512];
    enum df_code code;
    unsigned status;
    char detail[480];
    char *body;
    size_t body_len;
    char content_type[64];
    char headers[256]; /* "Name=value;", as far as there is room */
    size_t header_count;
    int done_count;
};

static inline void note(struct df_call *call)
{
    struct outcome *o = call->arg;

    o->code = call->code;
    o->status = call->status;
    (void)snprintf(o->detail, sizeof(o->detail), "%s", call->err.detail);
    (void)snprintf(o->content_type, sizeof(o->content_type), DF_STR_FMT,
                   DF_STR_ARG(call->content_type));
    size_t used = 0;
    o->headers[0] = '\0';
    o->header_count = call->answer_header_count;
    for (size_t i = 0; i < call->answer_header_count && used < sizeof(o->headers); i++)
        used += (size_t)snprintf(
            o->headers + used, sizeof(o->headers) - used, DF_STR_FMT "=" DF_STR_FMT ";",
            DF_STR_ARG(call->answer_headers[i].name), DF_STR_ARG(call->answer_headers[i].value));
    free(o->body);
    o->body_len = call->answer.len;
    o->body = df_strdup(df_buf_str(&call->answer));
    o->done_count++;
    gate_signal(o->gate);
}

/* All tests run with one thread, and once more with several. */
static int64_t client_threads = 1;

static inline struct df_http_client *client_with(const struct df_http_client_options *opt)
{
    struct df_http_client_options with_threads = *opt;
    struct df_http_client *c = NULL;
    struct df_err err = DF_ERR_INIT;

    with_threads.threads = opt->threads ? opt->threads : client_threads;
    assert_int_equal(df_http_client_new(&with_threads, &c, &err), DF_OK);
    return c;
}

static inline struct df_http_client *client_new(void)
{
    return client_with(&(struct df_http_client_options){0});
}

static inline void prepare(struct outcome *o, struct gate *g, unsigned port, const char *path)
{
    *o = (struct outcome){.gate = g};
    (void)snprintf(o->url, sizeof(o->url), "http://127.0.0.1:%u%s", port, path);
    o->call = (struct df_call){.method = "GET",
                               .url = o->url,
                               .timeout_ms = 60000,
                               .allow_private = true,
                               .done = note,
                               .arg = o};
}

/* Sends it and waits for the end; the body must be freed. */
static inline void run_call(struct df_http_client *c, struct outcome *o)
{
    struct gate g;
    gate_init(&g);
    o->gate = &g;
    df_http_client_send(c, &o->call);
    gate_wait(&g, 1);
}

static inline void get(struct df_http_client *c, struct outcome *o, unsigned port, const char *path)
{
    prepare(o, NULL, port, path);
    run_call(c, o);
}

#endif

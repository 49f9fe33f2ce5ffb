#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/trace.h"
#include "relay/dispatcher.h"
#include "sandbox/internal.h"
#include "json/doc.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define COUNT(a)    (sizeof(a) / sizeof((a)[0]))
#define TRACE       "4bf92f3577b34da6a3ce929d0e0e4736"
#define SPAN        "00f067aa0ba902b7"
#define SECRET      "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
#define TIMEOUT_MS  120000
#define REQUESTS    512
#define REQUEST_MAX ((size_t)4 << 20)

/* --- a peer that keeps what it got and answers as the path says --- */

struct request {
    char *text; /* as it came; NUL after it */
    size_t len;
    size_t head_len; /* with the empty line */
};

struct peer {
    int fd;
    unsigned port;
    pthread_t thread;
    pthread_t connections[REQUESTS];
    int fds[REQUESTS];
    size_t connection_count;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct request requests[REQUESTS];
    size_t count;
    size_t wanted;      /* /wait: nobody is answered before so many have come */
    const char *answer; /* /say: the whole of it, */
    size_t answer_len;
};

struct connection {
    struct peer *peer;
    int fd;
};

static void put(int fd, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = send(fd, data, len, MSG_NOSIGNAL);
        if (n <= 0)
            return;
        data += n;
        len -= (size_t)n;
    }
}

static void say(int fd, unsigned status, const char *extra, const char *body, size_t len)
{
    char head[256];
    int n = snprintf(head, sizeof(head), "HTTP/1.1 %u X\r\nContent-Length: %zu\r\n%s\r\n", status,
                     len, extra);
    put(fd, head, (size_t)n);
    put(fd, body, len);
}

static bool read_request(int fd, struct request *r)
{
    *r = (struct request){.text = df_malloc(REQUEST_MAX + 1)};
    for (;;) {
        r->text[r->len] = '\0';
        char *end = strstr(r->text, "\r\n\r\n");
        if (end) {
            char *length = strcasestr(r->text, "\r\ncontent-length:");
            r->head_len = (size_t)(end - r->text) + 4;
            size_t body = length && length < end ? strtoul(length + 17, NULL, 10) : 0;
            if (r->len >= r->head_len + body)
                return true;
        }
        ssize_t n = recv(fd, r->text + r->len, REQUEST_MAX - r->len, 0);
        if (n <= 0) {
            free(r->text);
            return false;
        }
        r->len += (size_t)n;
    }
}

static void keep(struct peer *p, const struct request *r, bool wait)
{
    pthread_mutex_lock(&p->lock);
    assert_true(p->count < REQUESTS);
    p->requests[p->count] = *r;
    p->requests[p->count].text = df_strdup(df_str_n(r->text, r->len));
    p->count++;
    (void)pthread_cond_broadcast(&p->changed);
    while (wait && p->count < p->wanted)
        (void)pthread_cond_wait(&p->changed, &p->lock);
    pthread_mutex_unlock(&p->lock);
}

/* False: the connection is to be closed. */
static bool serve(struct peer *p, int fd, const struct request *r)
{
    const char *path = strchr(r->text, ' ') + 1;

    if (strncmp(path, "/status/", 8) == 0)
        say(fd, (unsigned)strtoul(path + 8, NULL, 10), "", "no thanks", 9);
    else if (strncmp(path, "/later", 6) == 0)
        say(fd, 503, "Retry-After: 7\r\n", "", 0);
    else if (strncmp(path, "/say", 4) == 0)
        say(fd, 422, "", p->answer, p->answer_len);
    else if (strncmp(path, "/picky", 6) == 0 && strstr(r->text + r->head_len, "poison"))
        say(fd, 422, "", "poison", 6);
    else if (strncmp(path, "/hang", 5) == 0)
        return recv(fd, r->text, 1, 0) < 0;
    else if (strncmp(path, "/drop", 5) == 0)
        return false;
    else
        say(fd, 202, "", "", 0);
    return true;
}

static void *connection_main(void *arg)
{
    struct connection c = *(struct connection *)arg;
    struct request r;
    bool open = true;

    free(arg);
    while (open && read_request(c.fd, &r)) {
        keep(c.peer, &r, strncmp(r.text, "POST /wait", 10) == 0);
        open = serve(c.peer, c.fd, &r);
        free(r.text);
    }
    (void)shutdown(c.fd, SHUT_RDWR);
    return NULL;
}

static void *peer_main(void *arg)
{
    struct peer *p = arg;
    int fd;

    while ((fd = accept(p->fd, NULL, NULL)) >= 0) {
        struct connection *c = df_malloc(sizeof(*c));
        int on = 1;
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        *c = (struct connection){p, fd};
        assert_true(p->connection_count < REQUESTS);
        p->fds[p->connection_count] = fd;
        assert_int_equal(
            pthread_create(&p->connections[p->connection_count++], NULL, connection_main, c), 0);
    }
    return NULL;
}

static void peer_stop(struct peer *p)
{
    (void)shutdown(p->fd, SHUT_RDWR);
    (void)pthread_join(p->thread, NULL);
    for (size_t i = 0; i < p->connection_count; i++) {
        (void)shutdown(p->fds[i], SHUT_RDWR);
        (void)pthread_join(p->connections[i], NULL);
        (void)close(p->fds[i]);
    }
    for (size_t i = 0; i < p->count; i++)
        free(p->requests[i].text);
    (void)close(p->fd);
    free(p);
}

static struct peer *peer_start(void)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(in);
    struct peer *p = df_calloc(1, sizeof(*p));

    (void)pthread_mutex_init(&p->lock, NULL);
    (void)pthread_cond_init(&p->changed, NULL);
    p->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(p->fd, (struct sockaddr *)&in, sizeof(in)), 0);
    assert_int_equal(listen(p->fd, 512), 0);
    assert_int_equal(getsockname(p->fd, (struct sockaddr *)&in, &len), 0);
    p->port = ntohs(in.sin_port);
    assert_int_equal(pthread_create(&p->thread, NULL, peer_main, p), 0);
    return p;
}

static struct df_str body_of(const struct request *r)
{
    return df_str_n(r->text + r->head_len, r->len - r->head_len);
}

/* Absent if there is none; there may be no second. */
static struct df_str header_of(const struct request *r, const char *name)
{
    struct df_str rest = df_str_n(r->text, r->head_len - 2);
    struct df_str found = DF_STR_NULL;

    while (rest.ptr) {
        struct df_str line;
        struct df_str key;
        rest = df_str_cut(rest, '\n', &line);
        struct df_str value = df_str_cut(line, ':', &key);
        if (!df_str_ieq(key, df_str_c(name)))
            continue;
        assert_null(found.ptr);
        found = df_str_trim(value);
    }
    return found;
}

static size_t header_count(const struct request *r)
{
    size_t n = 0;
    for (const char *at = r->text; (at = strstr(at, "\r\n")) && at < r->text + r->head_len; at += 2)
        n++;
    return n - 2; /* the request line, the empty one */
}

/* --- the sink under test --- */

struct bench {
    struct peer *peer;
    struct df_outbound outbound;
    struct df_sink_options opt;
    struct df_sink *sink;
    char target[512];
    struct df_arena arena;
};

static void bench_open(struct bench *b, enum df_http_mode mode, const char *path)
{
    struct df_err err = DF_ERR_INIT;

    *b = (struct bench){.peer = peer_start()};
    (void)snprintf(b->target, sizeof(b->target), "http://127.0.0.1:%u%s", b->peer->port, path);
    assert_int_equal(
        df_http_client_new(&(struct df_http_client_options){0}, &b->outbound.client, &err), DF_OK);
    b->opt = (struct df_sink_options){
        .relay = "orders",
        .source = "/dataflow/relay/orders",
        .target = b->target,
        .mode = mode,
        .timeout_ms = TIMEOUT_MS,
        .outbound = &b->outbound,
        .clock = df_clock_real(),
    };
    if (df_dispatch_http.open(&b->opt, &b->sink, &err) != DF_OK)
        fail_msg("%s", err.detail);
}

static void bench_close(struct bench *b)
{
    df_dispatch_http.close(b->sink);
    df_outbound_close(&b->outbound);
    peer_stop(b->peer);
    df_arena_release(&b->arena);
}

static void dispatch_one(struct bench *b, struct df_event *e)
{
    struct df_event *const events[] = {e};
    df_dispatch_http.dispatch(b->sink, events, 1, &b->arena);
}

/* The pointers that dispatch wants. */
static struct df_event **pointers(struct bench *b, struct df_event *events, size_t n)
{
    struct df_event **p = DF_ARENA_ARRAY(&b->arena, struct df_event *, n);
    for (size_t i = 0; i < n; i++)
        p[i] = &events[i];
    return p;
}

static struct df_event some_event(void)
{
    return (struct df_event){
        .id = DF_STR("42"),
        .type = DF_STR("OrderPlaced"),
        .payload = DF_STR("{\"total\": 10}"),
        .aggregate_type = DF_STR("Order"),
        .aggregate_id = DF_STR("o-7"),
        .correlation_id = DF_STR("c-1"),
        .trace_id = DF_STR(TRACE),
        .span_id = DF_STR(SPAN),
        .created_ms = 1700000000123,
        .attempt = 1,
    };
}

static struct df_event *many_events(struct bench *b, size_t n)
{
    struct df_event *events = DF_ARENA_ARRAY(&b->arena, struct df_event, n);
    for (size_t i = 0; i < n; i++) {
        events[i] = some_event();
        events[i].id = df_arena_printf(&b->arena, "id-%zu", i);
    }
    return events;
}

static void assert_str(struct df_str s, const char *expected)
{
    if (!df_str_eq(s, df_str_c(expected)) || !s.ptr != !expected)
        fail_msg("\"" DF_STR_FMT "\" is not \"%s\"", DF_STR_ARG(s), expected ? expected : "(none)");
}

static void assert_arrived(const struct df_event *e)
{
    if (e->outcome != DF_DISPATCHED)
        fail_msg("outcome %d: " DF_STR_FMT, e->outcome, DF_STR_ARG(e->error));
    assert_null(e->error.ptr);
    assert_int_equal(e->breaker, DF_BREAKER_SUCCESS);
    assert_int_equal(e->retry_after_ms, -1);
}

/* --- modes --- */

static void binary_has_attributes_in_headers(void **state)
{
    (void)state;
    static const char *const expected[][2] = {
        {"Content-Type", "application/json"},
        {"ce-id", "42"},
        {"ce-source", "/dataflow/relay/orders"},
        {"ce-specversion", "1.0"},
        {"ce-type", "OrderPlaced"},
        {"ce-time", "2023-11-14T22:13:20.123Z"},
        {"ce-subject", "o-7"},
        {"ce-aggregatetype", "Order"},
        {"ce-correlationid", "c-1"},
        {"ce-traceparent", "00-" TRACE "-" SPAN "-01"},
        {"ce-datacontenttype", NULL},
        {"Idempotency-Key", "orders:42"},
        {"X-Correlation-Id", "c-1"},
        {"traceparent", "00-" TRACE "-" SPAN "-01"},
        {"x-trace-id", TRACE},
        {"webhook-id", NULL},
        {"X-DataFlow-Signature", NULL},
    };
    struct bench b;
    struct df_event e = some_event();

    bench_open(&b, DF_HTTP_BINARY, "/in?x=1");
    dispatch_one(&b, &e);
    assert_arrived(&e);
    assert_int_equal(b.peer->count, 1);
    const struct request *r = &b.peer->requests[0];
    assert_true(strncmp(r->text, "POST /in?x=1 HTTP/1.1\r\n", 23) == 0);
    for (size_t i = 0; i < COUNT(expected); i++)
        assert_str(header_of(r, expected[i][0]), expected[i][1]);
    assert_str(body_of(r), "{\"total\": 10}"); /* byte for byte */
    bench_close(&b);
}

static void binary_takes_any_payload(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b, DF_HTTP_BINARY, "/in");
    char *large = df_arena_alloc(&b.arena, 1 << 20);
    memset(large, 'x', 1 << 20);
    const struct {
        struct df_str payload;
        const char *type;
    } rows[] = {
        {DF_STR("{\"not\": \"closed"), "text/plain; charset=utf-8"},
        {DF_STR("S\xC3\xA3o \x01\r\n\r\n"), "text/plain; charset=utf-8"},
        {DF_STR(""), "text/plain; charset=utf-8"},
        {DF_STR_NULL, NULL},
        {DF_STR("null"), "application/json"},
        {df_str_n(large, 1 << 20), "text/plain; charset=utf-8"},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct df_event e = some_event();
        e.payload = rows[i].payload;
        dispatch_one(&b, &e);
        assert_arrived(&e);
        assert_str(header_of(&b.peer->requests[i], "Content-Type"), rows[i].type);
        assert_true(df_str_eq(body_of(&b.peer->requests[i]), rows[i].payload));
    }
    bench_close(&b);
}

static void headers_cannot_be_injected(void **state)
{
    (void)state;
    struct bench b;
    struct df_event plain = some_event();
    struct df_event e = some_event();

    bench_open(&b, DF_HTTP_BINARY, "/in");
    e.id = DF_STR("1\r\nX-Evil: 1");
    e.type = DF_STR("a\nX-Evil: 2\r\n\r\nGET / HTTP/1.1");
    e.aggregate_type = DF_STR("\x01\x7f\t \"100%\"");
    e.aggregate_id = DF_STR("S\xC3\xA3o \xF0\x9F\x9A\x9A");
    e.correlation_id = DF_STR(" c\r\n\tX-Evil: 3 ");
    e.trace_id = DF_STR("t\r\nX-Evil: 4");
    dispatch_one(&b, &plain);
    dispatch_one(&b, &e);
    assert_arrived(&e);
    const struct request *r = &b.peer->requests[1];
    assert_str(header_of(r, "X-Evil"), NULL);
    assert_int_equal(header_count(r), header_count(&b.peer->requests[0]) - 1); /* ce-traceparent */
    assert_str(header_of(r, "ce-id"), "1%0D%0AX-Evil:%201");
    assert_str(header_of(r, "ce-type"), "a%0AX-Evil:%202%0D%0A%0D%0AGET%20/%20HTTP/1.1");
    assert_str(header_of(r, "ce-aggregatetype"), "%01%7F%09%20%22100%25%22");
    assert_str(header_of(r, "ce-subject"), "S%C3%A3o%20%F0%9F%9A%9A");
    assert_str(header_of(r, "Idempotency-Key"), "orders:1%0D%0AX-Evil:%201");
    assert_str(header_of(r, "X-Correlation-Id"), "%20c%0D%0A%09X-Evil:%203%20");
    assert_str(header_of(r, "x-trace-id"), "t%0D%0AX-Evil:%204");
    bench_close(&b);
}

static const struct df_json *parse(struct bench *b, struct df_str text)
{
    const struct df_json *doc = NULL;
    struct df_err err = DF_ERR_INIT;
    if (df_json_parse(&b->arena, text, &doc, &err) != DF_OK)
        fail_msg("%s", err.detail);
    return doc;
}

static struct df_str member(const struct df_json *doc, const char *name)
{
    const struct df_json *v = df_json_get(doc, name);
    return v ? v->text : DF_STR_NULL;
}

static void structured_is_one_document(void **state)
{
    (void)state;
    static const char *const expected[][2] = {
        {"id", "42"},
        {"source", "/dataflow/relay/orders"},
        {"specversion", "1.0"},
        {"type", "OrderPlaced"},
        {"time", "2023-11-14T22:13:20.123Z"},
        {"subject", "o-7"},
        {"datacontenttype", "application/json"},
        {"aggregatetype", "Order"},
        {"correlationid", "c-1"},
        {"traceparent", "00-" TRACE "-" SPAN "-01"},
    };
    struct bench b;
    struct df_event e = some_event();

    bench_open(&b, DF_HTTP_STRUCTURED, "/in");
    dispatch_one(&b, &e);
    assert_arrived(&e);
    const struct request *r = &b.peer->requests[0];
    assert_str(header_of(r, "Content-Type"), "application/cloudevents+json");
    assert_str(header_of(r, "ce-id"), NULL);
    assert_str(header_of(r, "Idempotency-Key"), "orders:42");
    assert_str(header_of(r, "traceparent"), "00-" TRACE "-" SPAN "-01");
    const struct df_json *doc = parse(&b, body_of(r));
    for (size_t i = 0; i < COUNT(expected); i++)
        assert_str(member(doc, expected[i][0]), expected[i][1]);
    assert_str(df_json_get(doc, "data")->raw, "{\"total\": 10}");
    bench_close(&b);
}

static void structured_quotes_what_is_not_json(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b, DF_HTTP_STRUCTURED, "/in");
    char *large = df_arena_alloc(&b.arena, 1 << 20);
    memset(large, 1, 1 << 20); /* each becomes six bytes; too long for the peer's JSON to matter */
    const struct df_str rows[] = {DF_STR("{\"not\": \"closed"), DF_STR("\",\"id\":\"7\"}"),
                                  DF_STR("\x01 S\xC3\xA3o \r\n"), DF_STR(""),
                                  df_str_n(large, 1 << 19)};

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct df_event e = some_event();
        e.type = DF_STR("x\",\"evil\":\"\x01");
        e.payload = rows[i];
        dispatch_one(&b, &e);
        assert_arrived(&e);
        const struct df_json *doc = parse(&b, body_of(&b.peer->requests[i]));
        assert_str(member(doc, "id"), "42");
        assert_str(member(doc, "type"), "x\",\"evil\":\"\x01");
        assert_str(member(doc, "evil"), NULL);
        assert_str(member(doc, "datacontenttype"), "text/plain; charset=utf-8");
        assert_true(df_str_eq(member(doc, "data"), rows[i]));
    }
    struct df_event none = {.id = DF_STR("1"), .created_ms = -1};
    dispatch_one(&b, &none);
    const struct df_json *doc = parse(&b, body_of(&b.peer->requests[COUNT(rows)]));
    assert_null(df_json_get(doc, "data"));
    assert_null(df_json_get(doc, "time"));
    assert_str(member(doc, "type"), "unknown");
    bench_close(&b);
}

/* How many documents a request has, and whether they are ids from `first` on. */
static size_t documents(struct bench *b, const struct request *r, size_t first)
{
    size_t n = 0;
    const struct df_json *doc = parse(b, body_of(r));

    assert_int_equal(doc->type, DF_JSON_ARRAY);
    struct df_json_each each = df_json_each(doc);
    for (const struct df_json *e; (e = df_json_next(&each));)
        assert_str(member(e, "id"), df_arena_printf(&b->arena, "id-%zu", first + n++).ptr);
    return n;
}

/* Requests come in any order: the one whose first document is id-N. */
static const struct request *request_with(struct bench *b, size_t first)
{
    struct df_str wanted = df_arena_printf(&b->arena, "[{\"id\":\"id-%zu\"", first);
    for (size_t i = 0; i < b->peer->count; i++)
        if (df_str_starts(body_of(&b->peer->requests[i]), wanted))
            return &b->peer->requests[i];
    fail_msg("no request begins with id-%zu", first);
    return NULL;
}

static void batch_has_up_to_a_hundred_in_a_call(void **state)
{
    (void)state;
    enum { N = 250 };
    struct bench b;
    bench_open(&b, DF_HTTP_BATCH, "/in");
    struct df_event *events = many_events(&b, N);

    df_dispatch_http.dispatch(b.sink, pointers(&b, events, N), N, &b.arena);
    for (size_t i = 0; i < N; i++)
        assert_arrived(&events[i]);
    assert_int_equal(b.peer->count, 3);
    assert_int_equal(documents(&b, request_with(&b, 0), 0), 100);
    assert_int_equal(documents(&b, request_with(&b, 100), 100), 100);
    assert_int_equal(documents(&b, request_with(&b, 200), 200), 50);
    const struct request *r = request_with(&b, 0);
    assert_str(header_of(r, "Content-Type"), "application/cloudevents-batch+json");
    assert_true(df_str_starts(header_of(r, "Idempotency-Key"), DF_STR("orders:batch-")));
    assert_false(df_str_eq(header_of(r, "Idempotency-Key"),
                           header_of(request_with(&b, 100), "Idempotency-Key")));
    assert_int_equal(header_of(r, "traceparent").len, 55);
    bench_close(&b);
}

static void batch_key_is_that_of_its_events(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b, DF_HTTP_BATCH, "/in");
    struct df_event *events = many_events(&b, 4);
    struct df_event *const sets[][2] = {
        {&events[0], &events[1]}, {&events[0], &events[1]}, {&events[0], &events[2]}};

    for (size_t i = 0; i < COUNT(sets); i++)
        df_dispatch_http.dispatch(b.sink, sets[i], 2, &b.arena);
    dispatch_one(&b, &events[3]);
    struct df_str keys[4];
    for (size_t i = 0; i < COUNT(keys); i++)
        keys[i] = header_of(&b.peer->requests[i], "Idempotency-Key");
    assert_true(df_str_eq(keys[0], keys[1]));
    assert_false(df_str_eq(keys[0], keys[2]));
    assert_str(keys[3], "orders:id-3"); /* alone it has its own */
    bench_close(&b);
}

static void batch_is_at_most_a_megabyte(void **state)
{
    (void)state;
    enum { N = 6 };
    struct bench b;
    bench_open(&b, DF_HTTP_BATCH, "/in");
    struct df_event *events = many_events(&b, N);
    size_t len = 1500000;
    char *large = df_arena_alloc(&b.arena, len);
    memset(large, 'x', len);
    /* Two go together, one and a half megabytes go alone, and so does what stood between. */
    static const size_t sizes[N] = {400000, 400000, 400000, 1500000, 990000, 400000};
    static const struct {
        size_t first;
        size_t count;
    } calls[] = {{0, 2}, {2, 1}, {3, 1}, {4, 1}, {5, 1}};

    for (size_t i = 0; i < N; i++)
        events[i].payload = df_str_n(large, sizes[i]);
    df_dispatch_http.dispatch(b.sink, pointers(&b, events, N), N, &b.arena);
    for (size_t i = 0; i < N; i++)
        assert_arrived(&events[i]);
    assert_int_equal(b.peer->count, COUNT(calls));
    for (size_t i = 0; i < COUNT(calls); i++)
        assert_int_equal(documents(&b, request_with(&b, calls[i].first), calls[i].first),
                         calls[i].count);
    bench_close(&b);
}

static void batch_that_is_refused_is_taken_apart(void **state)
{
    (void)state;
    enum { N = 130 };
    struct bench b;
    bench_open(&b, DF_HTTP_BATCH, "/picky");
    struct df_event *events = many_events(&b, N);

    events[17].payload = DF_STR("\"poison\"");
    df_dispatch_http.dispatch(b.sink, pointers(&b, events, N), N, &b.arena);
    for (size_t i = 0; i < N; i++)
        if (i != 17)
            assert_arrived(&events[i]);
    assert_int_equal(events[17].outcome, DF_DISPATCH_PERMANENT);
    assert_str(events[17].error, "HTTP 422: poison");
    assert_int_equal(b.peer->count, 2 + 100);
    bench_close(&b);
}

static void batch_without_an_answer_is_not_taken_apart(void **state)
{
    (void)state;
    enum { N = 3 };
    struct bench b;
    bench_open(&b, DF_HTTP_BATCH, "/status/503");
    struct df_event *events = many_events(&b, N);

    df_dispatch_http.dispatch(b.sink, pointers(&b, events, N), N, &b.arena);
    for (size_t i = 0; i < N; i++) {
        assert_int_equal(events[i].outcome, DF_DISPATCH_RETRY);
        assert_int_equal(events[i].breaker, DF_BREAKER_FAILURE);
    }
    assert_int_equal(b.peer->count, 1);
    bench_close(&b);
}

/* --- what answers mean --- */

static void outcome_follows_the_status(void **state)
{
    (void)state;
    static const struct {
        unsigned status;
        enum df_dispatch_outcome outcome;
    } rows[] = {
        {200, DF_DISPATCHED},         {201, DF_DISPATCHED},         {202, DF_DISPATCHED},
        {299, DF_DISPATCHED},         {301, DF_DISPATCH_RETRY},     {302, DF_DISPATCH_RETRY},
        {307, DF_DISPATCH_RETRY},     {400, DF_DISPATCH_PERMANENT}, {401, DF_DISPATCH_RETRY},
        {403, DF_DISPATCH_RETRY},     {404, DF_DISPATCH_RETRY},     {405, DF_DISPATCH_RETRY},
        {407, DF_DISPATCH_RETRY},     {408, DF_DISPATCH_RETRY},     {409, DF_DISPATCH_PERMANENT},
        {410, DF_DISPATCH_PERMANENT}, {413, DF_DISPATCH_PERMANENT}, {415, DF_DISPATCH_PERMANENT},
        {421, DF_DISPATCH_RETRY},     {422, DF_DISPATCH_PERMANENT}, {425, DF_DISPATCH_RETRY},
        {429, DF_DISPATCH_RETRY},     {431, DF_DISPATCH_PERMANENT}, {500, DF_DISPATCH_RETRY},
        {502, DF_DISPATCH_RETRY},     {503, DF_DISPATCH_RETRY},     {599, DF_DISPATCH_RETRY},
        {999, DF_DISPATCH_RETRY},
    };
    struct bench b;

    bench_open(&b, DF_HTTP_BINARY, "/status/{eventType}");
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct df_event e = some_event();
        e.type = df_arena_printf(&b.arena, "%u", rows[i].status);
        dispatch_one(&b, &e);
        enum df_breaker_outcome breaker =
            e.outcome == DF_DISPATCH_RETRY ? DF_BREAKER_FAILURE : DF_BREAKER_SUCCESS;
        if (e.outcome != rows[i].outcome || e.breaker != breaker)
            fail_msg("%u: outcome %d, breaker %d", rows[i].status, e.outcome, e.breaker);
        assert_int_equal(e.never_counts, rows[i].status == 429);
        if (e.outcome == DF_DISPATCHED)
            assert_arrived(&e);
        else
            assert_str(e.error,
                       df_arena_printf(&b.arena, "HTTP %u: no thanks", rows[i].status).ptr);
    }
    bench_close(&b);
}

static void retry_after_is_kept(void **state)
{
    (void)state;
    struct bench b;
    struct df_event e = some_event();

    bench_open(&b, DF_HTTP_BINARY, "/later");
    dispatch_one(&b, &e);
    assert_int_equal(e.outcome, DF_DISPATCH_RETRY);
    assert_int_equal(e.retry_after_ms, 7000);
    assert_str(e.error, "HTTP 503");
    bench_close(&b);
}

static void error_is_clean_and_short(void **state)
{
    (void)state;
    static const char accents[] = "\xC3\xA3\xC3\xA3\xC3\xA3\xC3\xA3\xC3\xA3\xC3\xA3\xC3\xA3\xC3\xA3"
                                  "\xC3\xA3\xC3\xA3";
    char expected[512] = "HTTP 422: ";
    char long_answer[2000] = "";
    for (size_t i = 0; i < 60; i++)
        memcpy(long_answer + i * 20, accents, 20);
    for (size_t i = 0; i < 20; i++)
        memcpy(expected + 10 + i * 20, accents, 20);
    expected[10 + 400] = '\0';
    const struct {
        struct df_str answer;
        const char *error;
    } rows[] = {
        {DF_STR(""), "HTTP 422"},
        {DF_STR(" \r\n"), "HTTP 422"},
        {DF_STR("no\r\nsuch\tthing\n"), "HTTP 422: no  such thing"},
        {DF_STR("a\xff\xfe"
                "b\x1b[31m\x7f\xC3"),
         "HTTP 422: ab [31m"},
        {DF_STR("a\0b"), "HTTP 422: a b"},
        {df_str_n(long_answer, 1200), expected}, /* 600 characters, of which 200 are shown */
    };
    struct bench b;

    bench_open(&b, DF_HTTP_BINARY, "/say");
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct df_event e = some_event();
        b.peer->answer = rows[i].answer.ptr;
        b.peer->answer_len = rows[i].answer.len;
        dispatch_one(&b, &e);
        assert_str(e.error, rows[i].error);
        assert_int_equal(df_utf8_valid_prefix(e.error), e.error.len);
    }
    bench_close(&b);
}

static void no_answer_is_worth_another_try(void **state)
{
    (void)state;
    static const char *const paths[] = {"/drop", "/hang"};

    for (size_t i = 0; i < COUNT(paths); i++) {
        struct bench b;
        struct df_event e = some_event();
        bench_open(&b, DF_HTTP_BINARY, paths[i]);
        b.opt.timeout_ms = i == 1 ? 50 : TIMEOUT_MS;
        dispatch_one(&b, &e);
        assert_int_equal(e.outcome, DF_DISPATCH_RETRY);
        assert_int_equal(e.breaker, DF_BREAKER_FAILURE);
        assert_true(e.error.len > 0);
        bench_close(&b);
    }
}

static void nobody_there_is_worth_another_try(void **state)
{
    (void)state;
    struct bench b;
    struct df_event e = some_event();

    bench_open(&b, DF_HTTP_BINARY, "/in");
    b.opt.target = "http://127.0.0.1:1/in";
    dispatch_one(&b, &e);
    assert_int_equal(e.outcome, DF_DISPATCH_RETRY);
    assert_int_equal(e.breaker, DF_BREAKER_FAILURE);
    assert_non_null(strstr(e.error.ptr, "127.0.0.1:1"));
    bench_close(&b);
}

static void event_too_long_for_headers_is_refused(void **state)
{
    (void)state;
    struct bench b;
    struct df_event e = some_event();

    bench_open(&b, DF_HTTP_BINARY, "/in");
    size_t len = 100000;
    char *large = df_arena_alloc(&b.arena, len);
    memset(large, 'x', len);
    e.aggregate_id = df_str_n(large, len);
    dispatch_one(&b, &e);
    assert_int_equal(e.outcome, DF_DISPATCH_PERMANENT);
    assert_int_equal(e.breaker, DF_BREAKER_IGNORED); /* it says nothing of the target */
    assert_non_null(strstr(e.error.ptr, "headers are longer"));
    assert_int_equal(b.peer->count, 0);
    bench_close(&b);
}

struct dispatching {
    struct bench *bench;
    struct df_event event;
};

static void *dispatch_main(void *arg)
{
    struct dispatching *d = arg;
    dispatch_one(d->bench, &d->event);
    return NULL;
}

static void wait_for_requests(struct peer *p, size_t n)
{
    pthread_mutex_lock(&p->lock);
    while (p->count < n)
        (void)pthread_cond_wait(&p->changed, &p->lock);
    pthread_mutex_unlock(&p->lock);
}

static void stopping_blames_nobody(void **state)
{
    (void)state;
    struct bench b;
    struct dispatching d = {.bench = &b, .event = some_event()};
    pthread_t thread;

    bench_open(&b, DF_HTTP_BINARY, "/hang");
    assert_int_equal(pthread_create(&thread, NULL, dispatch_main, &d), 0);
    wait_for_requests(b.peer, 1);
    df_outbound_stop(&b.outbound);
    (void)pthread_join(thread, NULL);
    assert_int_equal(d.event.outcome, DF_DISPATCH_RETRY);
    assert_int_equal(d.event.breaker, DF_BREAKER_IGNORED);
    bench_close(&b);
}

static void events_go_side_by_side(void **state)
{
    (void)state;
    enum { N = 32 };
    struct bench b;
    bench_open(&b, DF_HTTP_BINARY, "/wait");
    struct df_event *events = many_events(&b, N);

    b.peer->wanted = N; /* one after another, the first would never be answered */
    df_dispatch_http.dispatch(b.sink, pointers(&b, events, N), N, &b.arena);
    for (size_t i = 0; i < N; i++)
        assert_arrived(&events[i]);
    bench_close(&b);
}

/* --- targets --- */

static void target_is_expanded_and_encoded(void **state)
{
    (void)state;
    static const struct {
        const char *type;
        const char *id;
        const char *path; /* NULL: refused */
    } rows[] = {
        {"OrderPlaced", "o-7", "/e/OrderPlaced/x.o-7?t=Order"},
        {"a/b", "?x#y", "/e/a%2Fb/x.%3Fx%23y?t=Order"},
        {"S\xC3\xA3o", "\r\n ", "/e/S%C3%A3o/x.%0D%0A%20?t=Order"},
        {"@evil:80", "%2e", "/e/%40evil%3A80/x.%252e?t=Order"},
        {NULL, NULL, "/e//x.?t=Order"},
        {"...", "..", "/e/.../x...?t=Order"},
        {".", "1", NULL},
        {"..", "1", NULL},
    };
    struct bench b;
    size_t sent = 0;

    bench_open(&b, DF_HTTP_BINARY, "/e/{eventType}/x.{aggregateId}?t={aggregateType}");
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct df_event e = some_event();
        e.type = df_str_c(rows[i].type);
        e.aggregate_id = df_str_c(rows[i].id);
        dispatch_one(&b, &e);
        if (!rows[i].path) {
            assert_int_equal(e.outcome, DF_DISPATCH_PERMANENT);
            assert_non_null(strstr(e.error.ptr, "in its path"));
            continue;
        }
        assert_arrived(&e);
        struct df_str line = df_arena_printf(&b.arena, "POST %s HTTP/1.1\r\n", rows[i].path);
        const struct request *r = &b.peer->requests[sent++];
        if (!df_str_starts(df_str_n(r->text, r->len), line))
            fail_msg("%.60s", r->text);
    }
    assert_int_equal(b.peer->count, sent);
    bench_close(&b);
}

static void pieces_of_a_segment_cannot_go_up(void **state)
{
    (void)state;
    struct bench b;
    struct df_event e = some_event();
    char *large;

    bench_open(&b, DF_HTTP_BINARY, "/e/{eventType}{aggregateId}/%2E{aggregateType}/x");
    e.type = e.aggregate_id = DF_STR(".");
    dispatch_one(&b, &e);
    assert_int_equal(e.outcome, DF_DISPATCH_PERMANENT);
    e = some_event();
    e.aggregate_type = DF_STR(".");
    dispatch_one(&b, &e);
    assert_int_equal(e.outcome, DF_DISPATCH_PERMANENT);
    e = some_event();
    large = df_arena_alloc(&b.arena, 3000);
    memset(large, 'x', 3000);
    e.type = df_str_n(large, 3000);
    dispatch_one(&b, &e);
    assert_int_equal(e.outcome, DF_DISPATCH_PERMANENT);
    assert_non_null(strstr(e.error.ptr, "longer than"));
    assert_int_equal(b.peer->count, 0);
    bench_close(&b);
}

static void configuration_is_checked(void **state)
{
    (void)state;
    static const struct {
        const char *target;
        enum df_http_mode mode;
        const char *secret;
        const char *complaint; /* NULL: fine */
    } rows[] = {
        {"https://h/", DF_HTTP_BINARY, NULL, NULL},
        {"https://h", DF_HTTP_BATCH, SECRET, NULL},
        {"https://u:p@h:8080/a/../b?c", DF_HTTP_BINARY, NULL, NULL},
        {"http://h/{eventType}", DF_HTTP_STRUCTURED, NULL, NULL},
        {"http://h?t={eventType}", DF_HTTP_BINARY, NULL, NULL},
        {NULL, DF_HTTP_BINARY, NULL, "target: dispatcher http needs a URL"},
        {"", DF_HTTP_BINARY, NULL, "target: dispatcher http needs a URL"},
        {"h/x", DF_HTTP_BINARY, NULL, "target: the URL must begin with"},
        {"ftp://h/x", DF_HTTP_BINARY, NULL, "target: the URL must begin with"},
        {"http://h/a b", DF_HTTP_BINARY, NULL, "target: the URL contains a character"},
        {"http://h/{payload}", DF_HTTP_BINARY, NULL, "target: braces"},
        {"http://{eventType}/", DF_HTTP_BINARY, NULL, "path and query only"},
        {"http://h{eventType}", DF_HTTP_BINARY, NULL, "path and query only"},
        {"http://{eventType}@h/", DF_HTTP_BINARY, NULL, "path and query only"},
        {"{eventType}://h/", DF_HTTP_BINARY, NULL, "target: the URL must begin with"},
        {"http://h/../{eventType}", DF_HTTP_BINARY, NULL, "may not have"},
        {"http://h/{eventType}", DF_HTTP_BATCH, NULL, "mode batch"},
        {"http://h/", DF_HTTP_BINARY, "short", "secret: "},
        {"http://h/", DF_HTTP_BINARY, "whsec_short", "secret: "},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct df_err err = DF_ERR_INIT;
        struct df_secret *secret = df_secret_new(df_str_c(rows[i].secret));
        const struct df_sink_options opt = {.relay = "r",
                                            .source = "/s",
                                            .target = rows[i].target,
                                            .mode = rows[i].mode,
                                            .secret = secret};
        enum df_code code = df_dispatch_http.check(&opt, &err);
        if (code != (rows[i].complaint ? DF_E_CONFIG : DF_OK) ||
            (rows[i].complaint && !strstr(err.detail, rows[i].complaint)))
            fail_msg("row %zu: %s", i, err.detail);
        df_secret_free(secret);
    }
}

/* --- traces and signatures --- */

static void trace_goes_on_or_begins(void **state)
{
    (void)state;
    static const struct {
        const char *trace;
        const char *span;
        const char *begins;   /* of traceparent; NULL: a new trace */
        const char *trace_id; /* x-trace-id; NULL: that of traceparent */
    } rows[] = {
        {TRACE, SPAN, "00-" TRACE "-" SPAN "-01", NULL},
        {TRACE, NULL, "00-" TRACE "-", NULL},
        {TRACE, "no", "00-" TRACE "-", NULL},
        {NULL, SPAN, NULL, NULL},
        {NULL, NULL, NULL, NULL},
        {"trace 1", SPAN, NULL, "trace%201"},
        {"00000000000000000000000000000000", SPAN, NULL, "00000000000000000000000000000000"},
    };
    struct bench b;

    bench_open(&b, DF_HTTP_BINARY, "/in");
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct df_event e = some_event();
        struct df_trace trace;
        e.trace_id = df_str_c(rows[i].trace);
        e.span_id = df_str_c(rows[i].span);
        dispatch_one(&b, &e);
        const struct request *r = &b.peer->requests[i];
        struct df_str text = header_of(r, "traceparent");
        assert_true(df_trace_parse(text, &trace));
        if (rows[i].begins)
            assert_true(df_str_starts(text, df_str_c(rows[i].begins)));
        else
            assert_false(df_str_eq(df_trace_id(&trace), DF_STR(TRACE)));
        if (rows[i].trace_id)
            assert_str(header_of(r, "x-trace-id"), rows[i].trace_id);
        else
            assert_true(df_str_eq(header_of(r, "x-trace-id"), df_trace_id(&trace)));
    }
    bench_close(&b);
}

static void without_a_correlation_the_event_is_its_own(void **state)
{
    (void)state;
    struct bench b;
    struct df_event e = some_event();

    bench_open(&b, DF_HTTP_BINARY, "/in");
    e.correlation_id = DF_STR_NULL;
    dispatch_one(&b, &e);
    assert_str(header_of(&b.peer->requests[0], "X-Correlation-Id"), "42");
    assert_str(header_of(&b.peer->requests[0], "ce-correlationid"), NULL);
    bench_close(&b);
}

static void signature_is_of_what_is_sent(void **state)
{
    (void)state;
    static const enum df_http_mode modes[] = {DF_HTTP_BINARY, DF_HTTP_STRUCTURED, DF_HTTP_BATCH};
    struct df_secret *secret = df_secret_new(DF_STR(SECRET));

    for (size_t i = 0; i < COUNT(modes); i++) {
        struct bench b;
        bench_open(&b, modes[i], "/in");
        b.opt.secret = secret;
        struct df_event *events = many_events(&b, 2);
        events[0].payload = events[1].payload = DF_STR("{\"n\":\"S\xC3\xA3o \xF0\x9F\x9A\x9A\"}");
        df_dispatch_http.dispatch(b.sink, pointers(&b, events, 2), 2, &b.arena);
        assert_int_equal(b.peer->count, modes[i] == DF_HTTP_BATCH ? 1 : 2);
        const struct request *r = &b.peer->requests[0];
        const struct df_signed m = {
            .body = body_of(r),
            .timestamp = header_of(r, "X-DataFlow-Timestamp"),
            .signature = header_of(r, "X-DataFlow-Signature"),
            .webhook_id = header_of(r, "webhook-id"),
            .webhook_timestamp = header_of(r, "webhook-timestamp"),
            .webhook_signature = header_of(r, "webhook-signature"),
        };
        assert_non_null(m.signature.ptr);
        assert_non_null(m.webhook_signature.ptr);
        assert_null(df_sb_verify(DF_STR(SECRET), &m, 0, 0));
        struct df_str key =
            df_arena_printf(&b.arena, "orders:" DF_STR_FMT, DF_STR_ARG(m.webhook_id));
        assert_true(df_str_eq(header_of(r, "Idempotency-Key"), key));
        bench_close(&b);
    }
    df_secret_free(secret);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(binary_has_attributes_in_headers),
        cmocka_unit_test(binary_takes_any_payload),
        cmocka_unit_test(headers_cannot_be_injected),
        cmocka_unit_test(structured_is_one_document),
        cmocka_unit_test(structured_quotes_what_is_not_json),
        cmocka_unit_test(batch_has_up_to_a_hundred_in_a_call),
        cmocka_unit_test(batch_key_is_that_of_its_events),
        cmocka_unit_test(batch_is_at_most_a_megabyte),
        cmocka_unit_test(batch_that_is_refused_is_taken_apart),
        cmocka_unit_test(batch_without_an_answer_is_not_taken_apart),
        cmocka_unit_test(outcome_follows_the_status),
        cmocka_unit_test(retry_after_is_kept),
        cmocka_unit_test(error_is_clean_and_short),
        cmocka_unit_test(no_answer_is_worth_another_try),
        cmocka_unit_test(nobody_there_is_worth_another_try),
        cmocka_unit_test(event_too_long_for_headers_is_refused),
        cmocka_unit_test(stopping_blames_nobody),
        cmocka_unit_test(events_go_side_by_side),
        cmocka_unit_test(target_is_expanded_and_encoded),
        cmocka_unit_test(pieces_of_a_segment_cannot_go_up),
        cmocka_unit_test(configuration_is_checked),
        cmocka_unit_test(trace_goes_on_or_begins),
        cmocka_unit_test(without_a_correlation_the_event_is_its_own),
        cmocka_unit_test(signature_is_of_what_is_sent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

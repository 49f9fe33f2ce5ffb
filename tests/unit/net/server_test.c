/* What the HTTP server does for those who use it as they should. */
#include "fixture.h"

#include "capture.h"

#include <dirent.h>
#include <netinet/tcp.h>

/* --- ordinary requests ------------------------------------------------------------------------ */

static void a_get_is_answered(void **state)
{
    (void)state;
    struct reply r = ask(shared, "GET /ping HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_int_equal(r.status, 200);
    assert_string_equal(r.body, "pong");
    assert_true(has(&r, "Content-Type", "text/plain"));
    assert_ours(&r);
    r = ask(shared, "GET /v1/ping HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_int_equal(r.status, 200);
    r = ask(shared, "GET http://x/ping HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_int_equal(r.status, 200);
}

static void head_gets_the_header_without_the_body(void **state)
{
    (void)state;
    struct peer p = dial(shared);
    say_to(&p, "HEAD /ping HTTP/1.1\r\nHost: x\r\n\r\n");
    struct reply r = listen_to(&p, true);
    assert_int_equal(r.status, 200);
    assert_true(has(&r, "Content-Length", "4"));
    say_to(&p, "GET /ping HTTP/1.1\r\nHost: x\r\n\r\n");
    r = listen_to(&p, false);
    assert_string_equal(r.body, "pong");
    say_to(&p, "HEAD /nowhere HTTP/1.1\r\nHost: x\r\n\r\n");
    r = listen_to(&p, true);
    assert_int_equal(r.status, 404);
    say_to(&p, "DELETE /empty HTTP/1.1\r\nHost: x\r\n\r\n");
    r = listen_to(&p, true);
    assert_int_equal(r.status, 204);
    say_to(&p, "GET /ping HTTP/1.1\r\nHost: x\r\n\r\n");
    r = listen_to(&p, false);
    assert_string_equal(r.body, "pong");
    hang_up(&p);
}

static void assert_deprecated(const struct reply *r, const char *since, const char *sunset,
                              const char *link)
{
    char v[256];

    assert_true(has(r, "Deprecation", since));
    assert_true(has(r, "Link", link));
    if (sunset)
        assert_true(has(r, "Sunset", sunset));
    else
        assert_null(header_of(r, "Sunset", v, sizeof(v)));
}

static void answers_of_a_deprecated_call_say_so(void **state)
{
    (void)state;
    static const char *const targets[] = {"/old", "/v1/old", "/old?x=1"};
    char text[128];

    for (size_t i = 0; i < COUNT(targets); i++) {
        snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", targets[i]);
        struct reply r = ask(shared, text);
        assert_int_equal(r.status, 200);
        assert_string_equal(r.body, "pong");
        assert_deprecated(&r, "@1767225600", "Fri, 31 Dec 2027 23:59:59 GMT",
                          "<https://docs.example/old#ping>; rel=\"deprecation sunset\"");
    }
}

/* Of the handler, of the server for the route, and in the middle of a body. */
static void failures_of_a_deprecated_call_say_so_too(void **state)
{
    (void)state;
    static const struct {
        int status;
        const char *text;
    } rows[] = {
        {503, "POST /old HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx"},
        {413, "POST /old HTTP/1.1\r\nHost: x\r\nContent-Length: 11\r\n\r\nhello world"},
        {413, "POST /old HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
              "b\r\nhello world\r\n0\r\n\r\n"},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct reply r = ask(shared, rows[i].text);
        assert_int_equal(r.status, rows[i].status);
        assert_deprecated(&r, "@1770091506", NULL, "</docs>; rel=\"deprecation\"");
    }
}

static void answers_of_other_calls_do_not_say_so(void **state)
{
    (void)state;
    static const char *const rows[] = {"GET /ping", "GET /nowhere", "DELETE /old", "GET /v2/old"};
    struct peer p = dial(shared);
    char text[128];

    /* On the connection of one that does. */
    say_to(&p, "GET /old HTTP/1.1\r\nHost: x\r\n\r\n");
    struct reply r = listen_to(&p, false);
    assert_true(has(&r, "Deprecation", "@1767225600"));
    for (size_t i = 0; i < COUNT(rows); i++) {
        snprintf(text, sizeof(text), "%s HTTP/1.1\r\nHost: x\r\n\r\n", rows[i]);
        say_to(&p, text);
        r = listen_to(&p, false);
        assert_null(header_of(&r, "Deprecation", text, sizeof(text)));
        assert_null(header_of(&r, "Sunset", text, sizeof(text)));
        assert_null(header_of(&r, "Link", text, sizeof(text)));
    }
    hang_up(&p);
}

static void the_request_tells_what_it_is(void **state)
{
    (void)state;
    struct reply r = ask(shared, "GET /v1/show/a%20b?Q=x%2By&z HTTP/1.1\r\nHost: x\r\n"
                                 "X-Test:  value \t\r\n\r\n");
    assert_int_equal(r.status, 200);
    assert_string_equal(r.body,
                        "method=GET\npath=/show/a b\nid=a b\nq=x+y\nraw=Q=x%2By&z\n"
                        "header=value\npeer=127.0.0.1\nnetwork=127.0.0.1\nloopback=1\nlength=0\n"
                        "user=somebody\nroute=/show/{id}\narg=the route's\n"
                        "server=the server's\n");
    assert_true(has(&r, "X-Extra", "yes"));
}

static void bodies_arrive_whole(void **state)
{
    (void)state;
    struct reply r =
        ask(shared, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello");
    assert_string_equal(r.body, "hello");
    r = ask(shared, "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                    "3\r\nhel\r\n2;ext=1\r\nlo\r\n0\r\nTrailer: x\r\n\r\n");
    assert_string_equal(r.body, "hello");
    r = ask(shared, "POST /echo HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_int_equal(r.status, 200);
    assert_string_equal(r.body, "");
    r = ask(shared, "POST /json HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n");
    assert_int_equal(r.status, 200);
    r = ask(shared,
            "POST /json HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
    assert_int_equal(r.status, 200);
    r = ask(shared,
            "POST /none HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
    assert_int_equal(r.status, 200);
}

static void a_body_in_small_pieces_arrives_whole(void **state)
{
    (void)state;
    struct peer p = dial(shared);
    const char *text = "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                       "3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n";
    int on = 1;

    setsockopt(p.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    for (; *text; text++) {
        assert_true(try_send(&p, text, 1));
        usleep(500);
    }
    struct reply r = listen_to(&p, false);
    assert_string_equal(r.body, "hello");
    hang_up(&p);
}

static void pipelined_requests_are_answered_in_order(void **state)
{
    (void)state;
    struct peer p = dial(shared);
    say_to(&p,
           "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n1"
           "POST /aside HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n2"
           "GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n"
           "GET /early HTTP/1.1\r\nHost: x\r\n\r\n"
           "POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nGET "
           "POST /aside HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n3"
           "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n4\r\n0\r\n\r\n"
           "GET /early HTTP/1.1\r\nHost: x\r\n\r\n");
    struct reply r = listen_to(&p, false);
    assert_string_equal(r.body, "1");
    r = listen_to(&p, false);
    assert_int_equal(r.status, 202);
    assert_string_equal(r.body, "2");
    r = listen_to(&p, false);
    assert_int_equal(r.status, 404);
    r = listen_to(&p, false);
    assert_string_equal(r.body, "early");
    r = listen_to(&p, false);
    assert_int_equal(r.status, 404);
    r = listen_to(&p, false);
    assert_string_equal(r.body, "3");
    r = listen_to(&p, false);
    assert_string_equal(r.body, "4");
    assert_true(is_closed(&p)); /* nothing behind a chunked body is answered */
    hang_up(&p);
}

static void http_1_0_works(void **state)
{
    (void)state;
    struct peer p = dial(shared);
    say_to(&p, "GET /ping HTTP/1.0\r\n\r\n");
    struct reply r = listen_to(&p, false);
    assert_string_equal(r.body, "pong");
    assert_true(is_closed(&p));
    hang_up(&p);

    p = dial(shared);
    say_to(&p, "POST /echo HTTP/1.0\r\nConnection: Keep-Alive\r\nContent-Length: 2\r\n\r\nhi");
    r = listen_to(&p, false);
    assert_string_equal(r.body, "hi");
    say_to(&p, "GET /ping HTTP/1.0\r\n\r\n");
    r = listen_to(&p, false);
    assert_string_equal(r.body, "pong");
    hang_up(&p);
}

static void connection_close_is_obeyed(void **state)
{
    (void)state;
    struct peer p = dial(shared);
    say_to(&p, "GET /ping HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    struct reply r = listen_to(&p, false);
    assert_int_equal(r.status, 200);
    assert_true(is_closed(&p));
    hang_up(&p);
}

static void a_half_closed_peer_gets_its_answer(void **state)
{
    (void)state;
    struct peer p = dial(shared);
    say_to(&p, "POST /aside HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi");
    shutdown(p.fd, SHUT_WR);
    struct reply r = listen_to(&p, false);
    assert_string_equal(r.body, "hi");
    hang_up(&p);
}

static void expect_continue_is_granted_or_refused_at_once(void **state)
{
    (void)state;
    struct peer p = dial(shared);
    say_to(&p, "POST /echo HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
               "Content-Length: 2\r\n\r\n");
    struct reply r = listen_to(&p, false);
    assert_int_equal(r.status, 100);
    say_to(&p, "hi");
    r = listen_to(&p, false);
    assert_string_equal(r.body, "hi");
    hang_up(&p);

    static const struct {
        const char *line;
        int status;
    } rows[] = {
        {"POST /nowhere HTTP/1.1\r\nContent-Length: 2\r\n", 404},
        {"PATCH /echo HTTP/1.1\r\nContent-Length: 2\r\n", 405},
        {"POST /echo HTTP/1.1\r\nContent-Length: 2\r\nX-Who: nobody\r\n", 401},
        {"POST /echo HTTP/1.1\r\nContent-Length: 65537\r\n", 413},
        {"POST /json HTTP/1.1\r\nContent-Length: 2\r\n", 415},
        {"POST /echo HTTP/1.1\r\nTransfer-Encoding: gzip\r\n", 400},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        p = dial(shared);
        say_to(&p, rows[i].line);
        say_to(&p, "Host: x\r\nExpect: 100-continue\r\n\r\n");
        r = listen_to(&p, false);
        assert_int_equal(r.status, rows[i].status);
        assert_true(is_closed(&p));
        hang_up(&p);
    }
}

/* --- answers ---------------------------------------------------------------------------------- */

static void problems_say_what_is_wrong(void **state)
{
    (void)state;
    struct reply r = ask(shared, "GET /fields HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_problem(&r, 400, "ValidationFailed");
    assert_non_null(strstr(r.body, "\"type\":\"about:blank\",\"title\":\"Validation failed\""));
    assert_non_null(strstr(r.body, "\"detail\":\"two fields are wrong\""));
    assert_non_null(strstr(r.body, "\"offset\":17"));
    assert_non_null(strstr(r.body, "\"errors\":[{\"field\":\"name\",\"message\":\"must not be "
                                   "\\\"empty\\\"\"},{\"field\":\"age\",\"message\":\"must be a "
                                   "number\"}]}"));

    r = ask(shared, "GET /busy HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_problem(&r, 503, "Busy");
    assert_true(has(&r, "Retry-After", "1"));
}

static void a_handler_without_an_answer_is_an_internal_error(void **state)
{
    (void)state;
    df_log_init(DF_LOG_ERROR, DF_LOG_JSON, NULL);
    capture();
    struct reply r = ask(shared, "GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_problem(&r, 500, "InternalError");
    assert_null(strstr(r.body, "handler"));
    assert_int_equal(captured_with("\"level\":\"error\""), 1);
}

static void a_dropped_request_gets_nothing(void **state)
{
    (void)state;
    struct reply r = ask(shared, "GET /drop HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_int_equal(r.status, 0);
}

static void bad_headers_are_not_added(void **state)
{
    (void)state;
    char v[64];
    struct reply r = ask(shared, "GET /headers HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_int_equal(r.status, 200);
    assert_null(header_of(&r, "X-Injected", v, sizeof(v)));
    assert_true(has(&r, "Cache-Control", "max-age=5"));
}

static void add_line(void *arg, struct df_str name, struct df_str value)
{
    df_buf_addf(arg, DF_STR_FMT "=" DF_STR_FMT "\n", DF_STR_ARG(name), DF_STR_ARG(value));
}

static void do_list(struct df_req *req)
{
    struct df_buf b;
    df_buf_init(&b, 65536);
    df_req_each_header(req, add_line, &b);
    df_req_answer(req, 200, "text/plain", &b);
}

static void headers_are_listed_as_they_came(void **state)
{
    (void)state;
    static const struct df_route list[] = {{.method = "GET", .pattern = "/list", .handle = do_list},
                                           {.method = NULL}};
    const struct df_route_table list_tables[] = {{.routes = list}, {.routes = NULL}};
    struct df_http_options opt = defaults();
    opt.tables = list_tables;
    struct df_http_server *s = start(&opt);

    struct reply r = ask(s, "GET /list HTTP/1.1\r\n" H "X-Two: a\r\nx-empty:\r\n"
                            "X-TWO: \t b c \t\r\n\r\n");
    assert_int_equal(r.status, 200);
    assert_string_equal(r.body, "Host=x\nX-Two=a\nx-empty=\nX-TWO=b c\n");
    r = ask(s, "GET /list HTTP/1.0\r\n\r\n");
    assert_int_equal(r.status, 200);
    assert_string_equal(r.body, "");
    df_http_stop(s);
}

static void do_overflow(struct df_req *req)
{
    struct df_buf b;
    df_buf_init(&b, 8);
    df_buf_addz(&b, "{\"cut\":");
    df_buf_addz(&b, "true}");
    df_req_answer(req, 200, "application/json", &b);
}

static void half_of_an_answer_is_an_internal_error(void **state)
{
    (void)state;
    static const struct df_route overflow[] = {
        {.method = "GET", .pattern = "/overflow", .handle = do_overflow}, {.method = NULL}};
    const struct df_route_table overflow_tables[] = {{.routes = overflow}, {.routes = NULL}};
    struct df_http_options opt = defaults();
    opt.tables = overflow_tables;
    struct df_http_server *s = start(&opt);

    struct reply r = ask(s, "GET /overflow HTTP/1.1\r\n" H "\r\n");
    assert_problem(&r, 500, "InternalError");
    df_http_stop(s);
}

#define FILE_BYTES 300000

/* Half of what was written: the rest is not part of the answer. */
static void do_file(struct df_req *req)
{
    FILE *f = tmpfile();
    assert_non_null(f);
    for (int i = 0; i < 2 * FILE_BYTES; i++)
        fputc('a' + i % 26, f);
    fflush(f);
    df_req_answer_file(req, 200, "text/plain", dup(fileno(f)), FILE_BYTES);
    df_req_answer_file(req, 200, "text/html", dup(fileno(f)), 1); /* the first one wins */
    fclose(f);
}

static size_t open_files(void)
{
    size_t n = 0;
    DIR *d = opendir("/proc/self/fd");
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

static void a_file_is_sent_and_closed(void **state)
{
    (void)state;
    static const struct df_route files[] = {
        {.method = "GET", .pattern = "/file", .handle = do_file}, {.method = NULL}};
    const struct df_route_table file_tables[] = {{.routes = files}, {.routes = NULL}};
    struct df_http_options opt = defaults();
    opt.tables = file_tables;
    struct df_http_server *s = start(&opt);

    struct reply r = ask(s, "GET /file HTTP/1.1\r\n" H "Connection: close\r\n\r\n");
    assert_int_equal(r.status, 200);
    assert_true(has(&r, "Content-Type", "text/plain"));
    assert_true(has(&r, "Content-Length", "300000"));
    assert_int_equal(r.body_len, FILE_BYTES);
    for (size_t i = 0; i < FILE_BYTES; i++)
        assert_int_equal(r.body[i], 'a' + i % 26);
    r = ask(s, "HEAD /file HTTP/1.1\r\n" H "Connection: close\r\n\r\n");
    assert_int_equal(r.status, 200);
    df_http_stop(s);
    s = start(&opt);
    size_t before = open_files();
    for (int i = 0; i < 5; i++)
        (void)ask(s, "GET /file HTTP/1.1\r\n" H "Connection: close\r\n\r\n");
    for (int i = 0; i < 1500 && open_files() > before; i++)
        usleep(20000);
    assert_int_equal(open_files(), before);
    df_http_stop(s);
}

static void correlation_and_trace_are_taken_or_made(void **state)
{
    (void)state;
    char v[256];
    struct reply r =
        ask(shared, "GET /ping HTTP/1.1\r\nHost: x\r\nX-Correlation-Id: order-7:a.b_c\r\n"
                    "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00\r\n\r\n");
    assert_true(has(&r, "X-Correlation-Id", "order-7:a.b_c"));
    assert_non_null(header_of(&r, "traceparent", v, sizeof(v)));
    assert_memory_equal(v, "00-0af7651916cd43dd8448eb211c80319c-", 36);
    assert_memory_not_equal(v + 36, "b7ad6b7169203331", 16);
    assert_string_equal(v + 52, "-00");

    r = ask(shared, "GET /nowhere HTTP/1.1\r\nHost: x\r\nX-Correlation-Id: a<b\r\n"
                    "traceparent: 00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01\r\n\r\n");
    assert_non_null(header_of(&r, "X-Correlation-Id", v, sizeof(v)));
    assert_int_equal(strlen(v), 36);
    assert_non_null(header_of(&r, "traceparent", v, sizeof(v)));
    assert_memory_not_equal(v + 3, "0af7651916cd43dd8448eb211c80319c", 32);
}

/* --- set aside -------------------------------------------------------------------------------- */

static void a_request_is_set_aside_and_answered_by_a_worker(void **state)
{
    (void)state;
    struct peer p = dial(shared);

    for (int i = 0; i < 50; i++) {
        say_to(&p, "POST /aside HTTP/1.1\r\n" H "Content-Length: 2\r\n\r\nhi");
        struct reply r = listen_to(&p, false);
        assert_int_equal(r.status, 202);
        assert_string_equal(r.body, "hi");
        say_to(&p, "GET /early HTTP/1.1\r\n" H "\r\n");
        r = listen_to(&p, false);
        assert_string_equal(r.body, "early");
    }
    hang_up(&p);
}

static void authorization_may_be_deferred(void **state)
{
    (void)state;
    struct peer p = dial(shared);

    for (int i = 0; i < 20; i++) {
        say_to(&p, "GET /ping HTTP/1.1\r\n" H "X-Who: deferred\r\n\r\n");
        struct reply r = listen_to(&p, false);
        assert_string_equal(r.body, "pong");
        say_to(&p, "POST /none HTTP/1.1\r\n" H "X-Who: deferred\r\nContent-Length: 0\r\n\r\n");
        r = listen_to(&p, false);
        assert_string_equal(r.body, "pong");
    }
    /* With DF_BODY_ANY the worker answers at once: the body is read and dropped. */
    say_to(&p, "POST /echo HTTP/1.1\r\n" H "X-Who: deferred\r\nContent-Length: 2\r\n\r\nhi"
               "GET /ping HTTP/1.1\r\n" H "\r\n");
    struct reply r = listen_to(&p, false);
    assert_int_equal(r.status, 202);
    r = listen_to(&p, false);
    assert_string_equal(r.body, "pong");
    hang_up(&p);
}

static void many_connections_are_served_at_once(void **state)
{
    (void)state;
    pthread_t threads[8];
    struct peer peers[COUNT(threads)];

    for (size_t i = 0; i < COUNT(threads); i++) {
        peers[i] = dial(shared);
        assert_int_equal(pthread_create(&threads[i], NULL, hammer, &peers[i]), 0);
    }
    for (size_t i = 0; i < COUNT(threads); i++) {
        void *failed = NULL;
        pthread_join(threads[i], &failed);
        hang_up(&peers[i]);
        assert_null(failed);
    }
}

/* Peers that leave at every possible moment, while the worker still holds the request. */
static void peers_that_leave_do_no_harm(void **state)
{
    (void)state;
    static const char *const requests[] = {
        "POST /aside HTTP/1.1\r\n" H "Content-Length: 2\r\n\r\nhi",
        "POST /aside HTTP/1.1\r\n" H "Content-Length: 20\r\n\r\nhi",
        "POST /stream?wait HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n",
        "GET /ping HTTP/1.1\r\n" H "X-Who: deferred\r\n\r\n",
        "GET /big HTTP/1.1\r\n" H "\r\n",
        "GET /pi",
    };
    for (int i = 0; i < 60; i++) {
        struct peer p = dial(shared);
        struct linger reset = {.l_onoff = 1};
        say_to(&p, requests[(size_t)i % COUNT(requests)]);
        if (i % 2)
            setsockopt(p.fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
        if (i % 3)
            usleep(1000);
        hang_up(&p);
    }
    assert_pong(shared);
}

/* --- streams ---------------------------------------------------------------------------------- */

static void a_stream_is_handed_over_as_it_comes(void **state)
{
    (void)state;
    static char data[3 << 20];
    static const char *const queries[] = {"", "?wait"};

    memset(data, 's', sizeof(data));
    for (size_t i = 0; i < COUNT(queries); i++) {
        char text[128];
        struct peer p = dial(shared);
        snprintf(text, sizeof(text), "POST /stream%s HTTP/1.1\r\n" H "Content-Length: %zu\r\n\r\n",
                 queries[i], sizeof(data));
        say_to(&p, text);
        assert_true(try_send(&p, data, sizeof(data)));
        struct reply r = listen_to(&p, false);
        snprintf(text, sizeof(text), "%zu", sizeof(data));
        assert_string_equal(r.body, text);

        /* Many chunks in one segment: each waits for its turn. */
        snprintf(text, sizeof(text), "POST /stream%s HTTP/1.1\r\n" H, queries[i]);
        say_to(&p, text);
        say_to(&p, "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n2\r\nbc\r\n3\r\ndef\r\n"
                   "4\r\nghij\r\n5\r\nklmno\r\n0\r\n\r\n");
        r = listen_to(&p, false);
        assert_string_equal(r.body, "15");
        hang_up(&p);
    }
}

static void a_stream_may_fail_in_the_middle(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int status;
        const char *code;
    } rows[] = {
        {"POST /stream HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n3\r\naXb\r\n", 400,
         "ValidationFailed"},
        {"POST /stream HTTP/1.1\r\n" H "Content-Length: 4000000\r\n\r\naXb", 400,
         "ValidationFailed"},
        {"POST /stream?wait&fail HTTP/1.1\r\n" H
         "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n1\r\nb\r\n1\r\nc\r\n",
         409, "Conflict"},
        {"POST /stream HTTP/1.1\r\n" H "Content-Length: 5000000\r\n\r\n", 413, "PayloadTooLarge"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct peer p = dial(shared);
        say_to(&p, rows[i].text);
        struct reply r = listen_to(&p, false);
        assert_problem(&r, rows[i].status, rows[i].code);
        assert_true(has(&r, "Connection", "close"));
        assert_true(is_closed(&p));
        hang_up(&p);
    }

    /* Near the end the rest is read, and the connection lives on. */
    struct peer p = dial(shared);
    say_to(&p, "POST /stream HTTP/1.1\r\n" H "Content-Length: 6\r\n\r\naXb");
    usleep(20000);
    say_to(&p, "cde");
    struct reply r = listen_to(&p, false);
    assert_problem(&r, 400, "ValidationFailed");
    say_to(&p, "POST /stream?wait&fail HTTP/1.1\r\n" H "Content-Length: 3\r\n\r\nabc");
    r = listen_to(&p, false);
    assert_problem(&r, 409, "Conflict");
    say_to(&p, "GET /ping HTTP/1.1\r\n" H "\r\n");
    r = listen_to(&p, false);
    assert_string_equal(r.body, "pong");
    hang_up(&p);
}

/* --- events ----------------------------------------------------------------------------------- */

static void events_are_sent_as_they_happen(void **state)
{
    (void)state;
    struct peer p;
    struct df_sse *sse = open_stream(shared, &p);

    assert_true(df_sse_send(sse, "progress", DF_STR("{\"done\":1}")));
    expect_text(&p, "event: progress\ndata: {\"done\":1}\n\n");
    assert_true(df_sse_send(sse, NULL, DF_STR("two\nlines\r\nthree")));
    expect_text(&p, "\ndata: two\ndata: lines\ndata: three\n\n");
    assert_true(df_sse_send(sse, NULL, DF_STR("")));
    assert_false(df_sse_send(sse, "a\nb", DF_STR("")));
    for (int i = 0; i < 1000; i++)
        assert_true(df_sse_send(sse, "n", DF_STR("many")) || i > 10);
    assert_true(df_sse_send(sse, "last", DF_STR("one")));
    df_sse_close(sse);
    expect_text(&p, "event: last\ndata: one\n\n");
    expect_text(&p, "0\r\n\r\n");
    hang_up(&p);
}

static void a_stream_notices_that_its_peer_left(void **state)
{
    (void)state;
    struct df_http_options opt = defaults();
    struct peer p;

    opt.heartbeat_ms = 30;
    struct df_http_server *s = start(&opt);
    struct df_sse *sse = open_stream(s, &p);
    expect_text(&p, ":\n\n");
    hang_up(&p);
    /* Not by the count of ended requests: an earlier test's may end just now. */
    bool taken = true;
    for (int i = 0; i < ATTEMPT_S * 100 && taken; i++) {
        taken = df_sse_send(sse, "x", DF_STR("nobody listens"));
        (void)usleep(10000);
    }
    assert_false(taken);
    df_sse_close(sse);
    df_http_stop(s);
}

static void a_stream_that_lags_is_told_so(void **state)
{
    (void)state;
    static char text[32768];
    struct peer p;
    struct df_sse *sse = open_stream(shared, &p);
    bool taken = true;

    memset(text, 't', sizeof(text));
    for (int i = 0; i < 10000 && taken; i++)
        taken = df_sse_send(sse, NULL, df_str_n(text, sizeof(text)));
    assert_false(taken);
    df_sse_close(sse);
    hang_up(&p);
}

/* --- the gate --------------------------------------------------------------------------------- */

/* Whatever was half sent when the gate was shut is refused, and reaches nobody. */
static void no_handler_is_called_once_the_gate_is_shut(void **state)
{
    (void)state;
    static const struct {
        const char *before;
        const char *after;
    } rows[] = {
        {"GET /hidden HTTP/1.1\r\n", H "\r\n"},
        {"POST /slow HTTP/1.1\r\n" H "Content-Length: 2\r\n\r\na", "b"},
        {"POST /slow HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n",
         "1\r\nb\r\n0\r\n\r\n"},
        {"POST /slow HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n", "0\r\n\r\n"},
        {"POST /stream HTTP/1.1\r\n" H "Content-Length: 2\r\n\r\na", "X"},
        {"POST /stream HTTP/1.1\r\n" H "X-Who: deferred\r\nContent-Length: 2\r\n\r\na", "X"},
    };
    struct df_http_options opt = defaults();
    struct df_http_server *s = start(&opt);
    struct peer p[COUNT(rows)];

    handling = hidden = 0;
    for (size_t i = 0; i < COUNT(rows); i++) {
        p[i] = dial(s);
        say_to(&p[i], rows[i].before);
    }
    while (df_http_active(s) < COUNT(rows))
        usleep(1000);
    int before = ended;
    df_http_shut(s);
    for (size_t i = 0; i < COUNT(rows); i++) {
        (void)try_send(&p[i], rows[i].after, strlen(rows[i].after));
        struct reply r = listen_to(&p[i], false);
        assert_problem(&r, 503, "ShuttingDown");
        assert_true(has(&r, "Retry-After", "1"));
        assert_true(is_closed(&p[i]));
        hang_up(&p[i]);
    }
    assert_int_equal(handling + hidden, 0);
    df_http_stop(s);
    /* The first was seen by nobody, and so its end is nobody's business. */
    assert_int_equal(ended - before, COUNT(rows) - 1);
}

struct asking {
    struct df_http_server *server;
    pthread_t thread;
};

static void *ask_slowly(void *arg)
{
    struct asking *a = arg;
    struct reply r = ask(a->server, "POST /slow HTTP/1.1\r\n" H "Content-Length: 1\r\n\r\na");
    return r.status == 200 ? NULL : arg;
}

static void the_gate_waits_for_whoever_is_inside(void **state)
{
    (void)state;
    struct df_http_options opt = defaults();
    struct asking a = {.server = start(&opt)};
    void *failed;

    handling = 0;
    assert_int_equal(pthread_create(&a.thread, NULL, ask_slowly, &a), 0);
    while (handling == 0)
        usleep(1000);
    df_http_shut(a.server);
    assert_int_equal(handling, 0);
    pthread_join(a.thread, &failed);
    assert_null(failed);
    df_http_stop(a.server);
}

static void streams_end_when_the_server_drains(void **state)
{
    (void)state;
    struct df_http_options opt = defaults();
    struct peer p;
    struct df_http_server *s = start(&opt);
    struct df_sse *sse = open_stream(s, &p);

    df_http_drain(s);
    while (more(&p))
        continue;
    assert_true(df_http_wait_idle(s, ATTEMPT_S * INT64_C(1000)));
    assert_false(df_sse_send(sse, "x", DF_STR("")));
    df_http_stop(s);
    assert_false(df_sse_send(sse, "x", DF_STR("")));
    df_sse_close(sse);
    hang_up(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_get_is_answered),
        cmocka_unit_test(head_gets_the_header_without_the_body),
        cmocka_unit_test(answers_of_a_deprecated_call_say_so),
        cmocka_unit_test(failures_of_a_deprecated_call_say_so_too),
        cmocka_unit_test(answers_of_other_calls_do_not_say_so),
        cmocka_unit_test(the_request_tells_what_it_is),
        cmocka_unit_test(bodies_arrive_whole),
        cmocka_unit_test(a_body_in_small_pieces_arrives_whole),
        cmocka_unit_test(pipelined_requests_are_answered_in_order),
        cmocka_unit_test(http_1_0_works),
        cmocka_unit_test(connection_close_is_obeyed),
        cmocka_unit_test(a_half_closed_peer_gets_its_answer),
        cmocka_unit_test(expect_continue_is_granted_or_refused_at_once),
        cmocka_unit_test(problems_say_what_is_wrong),
        cmocka_unit_test(a_handler_without_an_answer_is_an_internal_error),
        cmocka_unit_test(a_dropped_request_gets_nothing),
        cmocka_unit_test(bad_headers_are_not_added),
        cmocka_unit_test(headers_are_listed_as_they_came),
        cmocka_unit_test(half_of_an_answer_is_an_internal_error),
        cmocka_unit_test(a_file_is_sent_and_closed),
        cmocka_unit_test(correlation_and_trace_are_taken_or_made),
        cmocka_unit_test(a_request_is_set_aside_and_answered_by_a_worker),
        cmocka_unit_test(authorization_may_be_deferred),
        cmocka_unit_test(many_connections_are_served_at_once),
        cmocka_unit_test(peers_that_leave_do_no_harm),
        cmocka_unit_test(a_stream_is_handed_over_as_it_comes),
        cmocka_unit_test(a_stream_may_fail_in_the_middle),
        cmocka_unit_test(events_are_sent_as_they_happen),
        cmocka_unit_test(a_stream_notices_that_its_peer_left),
        cmocka_unit_test(a_stream_that_lags_is_told_so),
        cmocka_unit_test(streams_end_when_the_server_drains),
        cmocka_unit_test(no_handler_is_called_once_the_gate_is_shut),
        cmocka_unit_test(the_gate_waits_for_whoever_is_inside),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

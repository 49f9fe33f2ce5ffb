/*
 * What the HTTP server refuses: bytes that are no request, requests that two readers would
 * understand differently, sizes past the limits. The status is right and the connection is closed,
 * unless there is no doubt about where the request ended.
 */
#include "fixture.h"

/* --- bad input -------------------------------------------------------------------------------- */

struct bad {
    const char *what;
    const char *text;
    int status;  /* 0: closed without an answer */
    bool theirs; /* libmicrohttpd answers by itself */
};

static const struct bad bad_requests[] = {
    {"no Host", "GET /ping HTTP/1.1\r\n\r\n", 400, false},
    {"two Hosts", "GET /ping HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400, false},
    {"Host with a space", "GET /ping HTTP/1.1\r\nHost: a b\r\n\r\n", 400, false},
    {"Host with userinfo", "GET /ping HTTP/1.1\r\nHost: a@b\r\n\r\n", 400, false},
    {"length and chunked",
     "POST /echo HTTP/1.1\r\n" H "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
     400, false},
    {"chunked and length",
     "POST /echo HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
     400, false},
    {"two lengths", "POST /echo HTTP/1.1\r\n" H "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab",
     400, false},
    {"two equal lengths",
     "POST /echo HTTP/1.1\r\n" H "Content-Length: 1\r\nContent-Length: 1\r\n\r\na", 400, false},
    {"a list of lengths", "POST /echo HTTP/1.1\r\n" H "Content-Length: 1, 1\r\n\r\na", 400, true},
    {"a negative length", "POST /echo HTTP/1.1\r\n" H "Content-Length: -1\r\n\r\na", 400, true},
    {"a signed length", "POST /echo HTTP/1.1\r\n" H "Content-Length: +1\r\n\r\na", 400, true},
    {"a hexadecimal length", "POST /echo HTTP/1.1\r\n" H "Content-Length: 0x1\r\n\r\na", 400, true},
    {"an empty length", "POST /echo HTTP/1.1\r\n" H "Content-Length:\r\n\r\n", 400, true},
    {"a length without end",
     "POST /echo HTTP/1.1\r\n" H "Content-Length: 99999999999999999999999\r\n\r\n", 413, true},
    {"a length past the limit", "POST /echo HTTP/1.1\r\n" H "Content-Length: 65537\r\n\r\n", 413,
     false},
    {"a length past the route's limit", "PUT /echo HTTP/1.1\r\n" H "Content-Length: 11\r\n\r\n",
     413, false},
    {"a huge length", "POST /echo HTTP/1.1\r\n" H "Content-Length: 9223372036854775807\r\n\r\n",
     400, false},
    {"gzip transfer", "POST /echo HTTP/1.1\r\n" H "Transfer-Encoding: gzip\r\n\r\n", 400, false},
    {"gzip, chunked",
     "POST /echo HTTP/1.1\r\n" H "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 400, false},
    {"chunked twice",
     "POST /echo HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"
     "0\r\n\r\n",
     400, false},
    {"chunked, identity",
     "POST /echo HTTP/1.1\r\n" H "Transfer-Encoding: chunked, identity\r\n\r\n", 400, false},
    {"identity transfer", "POST /echo HTTP/1.1\r\n" H "Transfer-Encoding: identity\r\n\r\n", 400,
     false},
    {"empty transfer", "POST /echo HTTP/1.1\r\n" H "Transfer-Encoding:\r\n\r\n", 400, false},
    {"chunked in quotes", "POST /echo HTTP/1.1\r\n" H "Transfer-Encoding: \"chunked\"\r\n\r\n", 400,
     false},
    {"vertical tab before chunked",
     "POST /echo HTTP/1.1\r\n" H "Transfer-Encoding: \vchunked\r\n\r\n", 400, false},
    {"chunked in HTTP/1.0", "POST /echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
     400, false},
    {"space before the colon", "POST /echo HTTP/1.1\r\n" H "Content-Length : 1\r\n\r\na", 400,
     false},
    {"tab before the colon", "GET /ping HTTP/1.1\r\n" H "X-A\t: 1\r\n\r\n", 400, false},
    {"space before the name", "GET /ping HTTP/1.1\r\n X-A: 1\r\n" H "\r\n", 400, false},
    {"folded value", "GET /ping HTTP/1.1\r\n" H "X-A: 1\r\n 2\r\n\r\n", 400, false},
    {"folded value with a tab", "GET /ping HTTP/1.1\r\n" H "X-A: 1\r\n\t2\r\nX-B: 1\r\n\r\n", 400,
     false},
    {"a name made by folding",
     "POST /echo HTTP/1.1\r\n" H "Transfer-Enc: chunked\r\n oding\r\n\r\n0\r\n\r\n", 400, false},
    {"bare line feed after the line", "GET /ping HTTP/1.1\nHost: x\r\n\r\n", 400, false},
    {"bare line feed after a header", "GET /ping HTTP/1.1\r\nHost: x\nX-A: 1\r\n\r\n", 400, false},
    {"bare line feed at the end", "GET /ping HTTP/1.1\r\n" H "\n", 400, false},
    {"bare line feeds only", "GET /ping HTTP/1.1\nHost: x\n\n", 400, false},
    {"carriage return in a value", "GET /ping HTTP/1.1\r\n" H "X-A: a\rb\r\n\r\n", 400, false},
    {"escape in a value", "GET /ping HTTP/1.1\r\n" H "X-A: \x1B[1m\r\n\r\n", 400, false},
    {"delete in a value", "GET /ping HTTP/1.1\r\n" H "X-A: \x7F\r\n\r\n", 400, false},
    {"no colon", "GET /ping HTTP/1.1\r\n" H "X-A\r\n\r\n", 400, true},
    {"empty name", "GET /ping HTTP/1.1\r\n" H ": 1\r\n\r\n", 400, false},
    {"slash in a name", "GET /ping HTTP/1.1\r\n" H "X/A: 1\r\n\r\n", 400, false},
    {"two types",
     "POST /json HTTP/1.1\r\n" H
     "Content-Type: text/plain\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
     400, false},
    {"space in the target", "GET /pi ng HTTP/1.1\r\n" H "\r\n", 400, false},
    {"two spaces before the target", "GET  /ping HTTP/1.1\r\n" H "\r\n", 400, false},
    {"tab in the target", "GET /pi\tng HTTP/1.1\r\n" H "\r\n", 400, false},
    {"encoded NUL", "GET /ping%00 HTTP/1.1\r\n" H "\r\n", 400, false},
    {"bad encoding", "GET /ping%zz HTTP/1.1\r\n" H "\r\n", 400, false},
    {"cut encoding", "GET /ping% HTTP/1.1\r\n" H "\r\n", 400, false},
    {"bad encoding in the query", "GET /ping?a=%f HTTP/1.1\r\n" H "\r\n", 400, false},
    {"dots", "GET /show/../ping HTTP/1.1\r\n" H "\r\n", 400, false},
    {"encoded dots", "GET /show/%2e%2E/ping HTTP/1.1\r\n" H "\r\n", 400, false},
    {"invalid UTF-8", "GET /show/%C0%AF HTTP/1.1\r\n" H "\r\n", 400, false},
    {"fragment", "GET /ping#a HTTP/1.1\r\n" H "\r\n", 400, false},
    {"asterisk", "OPTIONS * HTTP/1.1\r\n" H "\r\n", 400, false},
    {"authority", "CONNECT host:80 HTTP/1.1\r\n" H "\r\n", 400, false},
    {"another scheme", "GET ftp://x/ping HTTP/1.1\r\n" H "\r\n", 400, false},
    {"method with a colon", "GE:T /ping HTTP/1.1\r\n" H "\r\n", 400, false},
    {"HTTP/0.9", "GET /ping\r\n\r\n", 400, true},
    {"HTTP/0.9 by name", "GET /ping HTTP/0.9\r\n" H "\r\n", 505, true},
    {"HTTP/2.0", "GET /ping HTTP/2.0\r\n" H "\r\n", 505, true},
    {"HTTP/1.10", "GET /ping HTTP/1.10\r\n" H "\r\n", 400, true},
    {"http/1.1", "GET /ping http/1.1\r\n" H "\r\n", 400, true},
    {"the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, true},
    {"a word", "hello\r\n\r\n", 0, true},
    {"nothing but spaces", "   \r\n\r\n", 0, true},
    {"no chunk size", "POST /echo HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n\r\n", 400,
     true},
    {"a chunk size that is none",
     "POST /echo HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\nxyz\r\n", 400, true},
    {"a signed chunk size",
     "POST /echo HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n+1\r\na\r\n0\r\n\r\n", 400,
     true},
    {"a chunk size with a prefix",
     "POST /echo HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n0x1\r\na\r\n0\r\n\r\n", 400,
     true},
    {"a chunk size without end",
     "POST /echo HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n", 413,
     true},
    {"a chunk longer than it says",
     "POST /echo HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n0\r\n\r\n", 400,
     true},
    {"a body for none", "POST /none HTTP/1.1\r\n" H "Content-Length: 1\r\n\r\na", 413, false},
    {"chunks for none",
     "POST /none HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n", 413,
     false},
    {"a body for GET", "GET /ping HTTP/1.1\r\n" H "Content-Length: 1\r\n\r\na", 413, false},
    {"a smuggled request",
     "POST /ping HTTP/1.1\r\n" H "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"
     "0\r\n\r\nGET /drop HTTP/1.1\r\n" H "\r\n",
     400, false},
};

/* The status is right, there is one answer and no second, and then the connection is closed. */
static void bad_requests_are_refused_and_closed(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(bad_requests); i++) {
        const struct bad *b = &bad_requests[i];
        struct peer p = dial(shared);
        (void)try_send(&p, b->text, strlen(b->text));
        struct reply r = listen_to(&p, false);
        if (r.status != b->status)
            fail_msg("%s: %d instead of %d", b->what, r.status, b->status);
        if (b->theirs) {
            /* Some of its answers are written twice over; what matters is that they end. */
            while (more(&p))
                continue;
        } else {
            assert_ours(&r);
            if (!is_closed(&p))
                fail_msg("%s: the connection stays open: %.*s", b->what, (int)p.len, p.buf);
        }
        hang_up(&p);
    }
}

/* --- hidden requests -------------------------------------------------------------------------- */

/*
 * Each hides a second request where one of two readers sees a body, a chunk extension or a trailer
 * and the other one sees its end. libmicrohttpd takes a bare line feed for the end of a line
 * between chunks, so no request behind a chunked body is believed: the connection closes.
 */
#define HIDDEN  "GET /hidden HTTP/1.1\r\nHost: x\r\n\r\n"
#define CHUNKED "POST /echo HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n"
static const struct {
    const char *what;
    const char *text;
} smuggled[] = {
    {"well-formed chunks and a request behind", CHUNKED "\r\n1\r\na\r\n0\r\n\r\n" HIDDEN},
    {"no chunks and a request behind", CHUNKED "\r\n0\r\n\r\n" HIDDEN},
    {"line feed after the last size", CHUNKED "\r\n1\r\na\r\n0\n\r\n" HIDDEN},
    {"line feed after the last size and trailer", CHUNKED "\r\n1\r\na\r\n0\n\n" HIDDEN},
    {"line feed after the empty trailer", CHUNKED "\r\n1\r\na\r\n0\r\n\n" HIDDEN},
    {"line feed after a size", CHUNKED "\r\n1\na\r\n0\r\n\r\n" HIDDEN},
    {"line feed after the data", CHUNKED "\r\n1\r\na\n0\r\n\r\n" HIDDEN},
    {"line feeds only", CHUNKED "\r\n1\na\n0\n\n" HIDDEN},
    {"line feed in an extension", CHUNKED "\r\n1;a\nb\r\n0\r\n\r\n" HIDDEN},
    {"a request in an extension", CHUNKED "\r\n1;a=\r\na\r\n0;\n\n" HIDDEN "0\r\n\r\n"},
    {"line feed in the last extension", CHUNKED "\r\n0;x=\"\n\n" HIDDEN "\"\r\n\r\n"},
    {"a quoted extension", CHUNKED "\r\n1;x=\"\r\na\r\n0\r\n\r\n" HIDDEN "\"\r\n"},
    {"a request in a trailer", CHUNKED "\r\n0\r\nX: y\n\n" HIDDEN "\r\n"},
    {"a trailer with a length", CHUNKED "\r\n0\r\nContent-Length: 38\r\n\r\n" HIDDEN},
    {"a folded trailer", CHUNKED "\r\n0\r\nX: y\r\n z\r\n\r\n" HIDDEN},
    {"a trailer without a colon", CHUNKED "\r\n0\r\nX\r\n\r\n" HIDDEN},
    {"carriage return after a size", CHUNKED "\r\n1\ra\r\n0\r\n\r\n" HIDDEN},
    {"carriage return after the last size", CHUNKED "\r\n0\r\r\n\r\n" HIDDEN},
    {"spaces after the size", CHUNKED "\r\n1  \r\na\r\n0 \r\n\r\n" HIDDEN},
    {"spaces before the size", CHUNKED "\r\n 1\r\na\r\n 0\r\n\r\n" HIDDEN},
    {"zeros before the size", CHUNKED "\r\n0001\r\na\r\n000\r\n\r\n" HIDDEN},
    {"underscore in the size", CHUNKED "\r\n0_1\r\na\r\n0\r\n\r\n" HIDDEN},
    {"a size that wraps", CHUNKED "\r\n10000000000000001\r\na\r\n0\r\n\r\n" HIDDEN},
    {"an empty size", CHUNKED "\r\n\r\n" HIDDEN},
    {"chunks for a body that is none",
     "POST /none HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n0\n\n" HIDDEN},
    {"chunks of a GET",
     "GET /ping HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n0\n\n" HIDDEN},
    {"chunks for nobody",
     "POST /nowhere HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n0\n\n" HIDDEN},
    {"chunks of a stranger",
     "POST /echo HTTP/1.1\r\n" H "X-Who: nobody\r\nTransfer-Encoding: chunked\r\n\r\n0\n\n" HIDDEN},
    {"chunks of one who is asked later",
     "POST /echo HTTP/1.1\r\n" H "X-Who: deferred\r\nTransfer-Encoding: chunked\r\n\r\n"
     "1\na\n0\n\n" HIDDEN},
    {"chunks set aside",
     "POST /aside HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n1\na\n0\n\n" HIDDEN},
    {"chunks of a stream",
     "POST /stream HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n1\na\n0\n\n" HIDDEN},
    {"chunks of a stream set aside", "POST /stream?wait HTTP/1.1\r\n" H
                                     "Transfer-Encoding: chunked\r\n\r\n1\na\n1\nb\n0\n\n" HIDDEN},
    {"Connection: keep-alive", CHUNKED "Connection: keep-alive\r\n\r\n0\n\n" HIDDEN},
    {"chunked in capitals",
     "POST /echo HTTP/1.1\r\n" H "Transfer-Encoding: CHUNKED\r\n\r\n0\n\n" HIDDEN},
    {"chunked, chunked",
     "POST /echo HTTP/1.1\r\n" H "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n" HIDDEN},
    {"chunked and nothing",
     "POST /echo HTTP/1.1\r\n" H "Transfer-Encoding: chunked,\r\n\r\n0\r\n\r\n" HIDDEN},
    {"chunked with a parameter",
     "POST /echo HTTP/1.1\r\n" H "Transfer-Encoding: chunked;q=1\r\n\r\n0\r\n\r\n" HIDDEN},
    {"space before the colon",
     "POST /echo HTTP/1.1\r\n" H "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" HIDDEN},
    {"space before the name",
     "POST /echo HTTP/1.1\r\n" H " Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" HIDDEN},
    {"folded",
     "POST /echo HTTP/1.1\r\n" H "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n" HIDDEN},
    {"folded behind another",
     "POST /echo HTTP/1.1\r\n" H "X: y\r\n Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" HIDDEN},
    {"line feed before the coding",
     "POST /echo HTTP/1.1\r\n" H "X: y\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" HIDDEN},
    {"carriage return before the coding",
     "POST /echo HTTP/1.1\r\n" H "X: y\rTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" HIDDEN},
    {"line feed before the length",
     "POST /echo HTTP/1.1\r\n" H "X: y\nContent-Length: 38\r\n\r\n" HIDDEN},
    {"HTTP/1.0", "POST /echo HTTP/1.0\r\n" H "Connection: keep-alive\r\n"
                 "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" HIDDEN},
    {"length and chunked",
     "POST /echo HTTP/1.1\r\n" H "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
     "0\r\n\r\n" HIDDEN},
    {"a length of two words", "POST /echo HTTP/1.1\r\n" H "Content-Length: 0 38\r\n\r\n" HIDDEN},
    {"a length too many",
     "POST /echo HTTP/1.1\r\n" H "Content-Length: 0\r\nContent-Length: 38\r\n\r\n" HIDDEN},
    {"a length after a line feed",
     "POST /echo HTTP/1.1\r\n" H "Content-Length: 0\nContent-Length: 38\r\n\r\n" HIDDEN},
};

/* Whole, as one who pipelines sends it, or in pieces, as one who waits between them. */
static void send_smuggled(struct peer *p, const char *text, size_t piece)
{
    size_t len = strlen(text);

    for (size_t at = 0; at < len; at += piece) {
        if (!try_send(p, text + at, len - at < piece ? len - at : piece))
            break;
        if (piece < len)
            usleep(100);
    }
}

static void hidden_requests_are_never_answered(void **state)
{
    (void)state;
    static const size_t pieces[] = {1 << 16, 7, 1};

    for (size_t i = 0; i < COUNT(smuggled) * COUNT(pieces); i++) {
        struct peer p = dial(shared);
        hidden = 0;
        send_smuggled(&p, smuggled[i / COUNT(pieces)].text, pieces[i % COUNT(pieces)]);
        while (more(&p)) /* until the server closes: a connection that stays open fails here */
            continue;
        if (hidden > 0 || (p.len > 0 && memmem(p.buf, p.len, "hidden", 6)))
            fail_msg("%s, in pieces of %zu: %.*s", smuggled[i / COUNT(pieces)].what,
                     pieces[i % COUNT(pieces)], (int)p.len, p.buf);
        hang_up(&p);
    }
}

static void an_answer_to_chunks_says_that_it_closes(void **state)
{
    (void)state;
    struct reply r = ask(shared, CHUNKED "\r\n1\r\na\r\n0\r\n\r\n");
    assert_int_equal(r.status, 200);
    assert_string_equal(r.body, "a");
    assert_true(has(&r, "Connection", "close"));
    r = ask(shared, "POST /echo HTTP/1.1\r\n" H "Content-Length: 1\r\n\r\na");
    assert_false(has(&r, "Connection", "close"));
}

/* Refused, but with no doubt about where the request ends: the connection serves the next one. */
static void polite_refusals_keep_the_connection(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int status;
        const char *code;
    } rows[] = {
        {"GET /nowhere HTTP/1.1\r\n" H "\r\n", 404, "NotFound"},
        {"GET /v2/ping HTTP/1.1\r\n" H "\r\n", 404, "NotFound"},
        {"GET /ping/ HTTP/1.1\r\n" H "\r\n", 404, "NotFound"},
        {"PUT /ping HTTP/1.1\r\n" H "Content-Length: 3\r\n\r\nabc", 405, "MethodNotAllowed"},
        {"BREW /ping HTTP/1.1\r\n" H "\r\n", 405, "MethodNotAllowed"},
        {"BREW /nowhere HTTP/1.1\r\n" H "\r\n", 501, "NotImplemented"},
        {"POST /nowhere HTTP/1.1\r\n" H "Content-Length: 3\r\n\r\nabc", 404, "NotFound"},
        {"GET /ping HTTP/1.1\r\n" H "X-Who: nobody\r\n\r\n", 401, "Unauthorized"},
        {"POST /echo HTTP/1.1\r\n" H "X-Who: nobody\r\nContent-Length: 3\r\n\r\nabc", 401,
         "Unauthorized"},
        {"POST /json HTTP/1.1\r\n" H "Content-Length: 2\r\n\r\n{}", 415, "UnsupportedMediaType"},
        {"POST /json HTTP/1.1\r\n" H "Content-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}", 415,
         "UnsupportedMediaType"},
        {"POST /json HTTP/1.1\r\n" H
         "Content-Type: application/json; charset=latin1\r\nContent-Length: 2\r\n\r\n{}",
         415, "UnsupportedMediaType"},
        {"POST /echo HTTP/1.1\r\n" H "Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}", 415,
         "UnsupportedMediaType"},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct peer p = dial(shared);
        say_to(&p, rows[i].text);
        say_to(&p, "GET /ping HTTP/1.1\r\n" H "\r\n");
        struct reply r = listen_to(&p, false);
        assert_problem(&r, rows[i].status, rows[i].code);
        if (rows[i].status == 405)
            assert_true(has(&r, "Allow", "GET, HEAD"));
        r = listen_to(&p, false);
        assert_string_equal(r.body, "pong");
        hang_up(&p);
    }
}

static void json_is_taken_under_all_its_names(void **state)
{
    (void)state;
    static const char *const types[] = {"application/json", "Application/JSON; charset=UTF-8",
                                        "application/vnd.x+json"};
    for (size_t i = 0; i < COUNT(types); i++) {
        char text[256];
        snprintf(text, sizeof(text),
                 "POST /json HTTP/1.1\r\n" H
                 "Content-Type: %s\r\nContent-Encoding: identity\r\nContent-Length: 2\r\n\r\n{}",
                 types[i]);
        struct reply r = ask(shared, text);
        assert_int_equal(r.status, 200);
        assert_string_equal(r.body, "{}");
    }
}

static void nul_bytes_are_refused(void **state)
{
    (void)state;
    static const char in_target[] = "GET /pi\0ng HTTP/1.1\r\n" H "\r\n";
    static const char after_target[] = "GET /ping\0 HTTP/1.1\r\n" H "\r\n";
    static const char in_query[] = "GET /ping?a\0b HTTP/1.1\r\n" H "\r\n";
    static const char in_value[] = "GET /ping HTTP/1.1\r\nHost: x\0y\r\nX-A: 1\r\n\r\n";
    static const char in_last[] = "GET /ping HTTP/1.1\r\nHost: x\0y\r\n\r\n";
    static const char at_end[] = "GET /ping HTTP/1.1\r\nHost: x\0\r\n\r\n";
    static const char in_name[] = "GET /ping HTTP/1.1\r\n" H "X\0A: 1\r\n\r\n";
    static const char in_length[] = "POST /echo HTTP/1.1\r\n" H "Content-Length: 1\0 1\r\n\r\na";
    static const struct {
        const char *text;
        size_t len;
    } rows[] = {
        {in_target, sizeof(in_target) - 1}, {after_target, sizeof(after_target) - 1},
        {in_query, sizeof(in_query) - 1},   {in_value, sizeof(in_value) - 1},
        {in_last, sizeof(in_last) - 1},     {at_end, sizeof(at_end) - 1},
        {in_name, sizeof(in_name) - 1},     {in_length, sizeof(in_length) - 1},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct peer p = dial(shared);
        (void)try_send(&p, rows[i].text, rows[i].len);
        struct reply r = listen_to(&p, false);
        assert_int_equal(r.status, 400);
        assert_true(is_closed(&p));
        hang_up(&p);
    }
}

static int status_of_filled(const char *before, char fill, size_t count, const char *after)
{
    struct peer p = dial(shared);
    char *text = malloc(count + 1);
    assert_non_null(text);
    memset(text, fill, count);
    (void)try_send(&p, before, strlen(before));
    (void)try_send(&p, text, count);
    (void)try_send(&p, after, strlen(after));
    struct reply r = listen_to(&p, false);
    while (r.status >= 400 && more(&p))
        continue;
    free(text);
    hang_up(&p);
    return r.status;
}

static void oversized_lines_and_headers_are_refused(void **state)
{
    (void)state;
    static const char end[] = " HTTP/1.1\r\n" H "\r\n";

    assert_int_equal(status_of_filled("GET /ping?", 'a', 8000, end), 200);
    assert_int_equal(status_of_filled("GET /ping?", '&', 8000, end), 200);
    assert_int_equal(status_of_filled("GET /", 'a', 8192, end), 414);
    assert_int_equal(status_of_filled("GET /ping?", 'a', 8192, end), 414);
    assert_int_equal(status_of_filled("GET /ping?", '&', 20000, end), 414);
    assert_int_equal(status_of_filled("GET /", 'a', 100000, end), 414);
    assert_int_equal(status_of_filled("", 'G', 100000, " / HTTP/1.1\r\n\r\n"), 414);

    static const char line[] = "GET /ping HTTP/1.1\r\n" H;
    assert_int_equal(status_of_filled("GET /ping HTTP/1.1\r\n" H "X-A: ", 'a', 15000, "\r\n\r\n"),
                     200);
    assert_int_equal(status_of_filled("GET /ping HTTP/1.1\r\n" H "X-A: ", 'a', 17000, "\r\n\r\n"),
                     431);
    assert_int_equal(status_of_filled("GET /ping HTTP/1.1\r\n" H "X-A: ", 'a', 200000, "\r\n\r\n"),
                     431);
    assert_int_equal(status_of_filled(line, 'a', 200000, ": 1\r\n\r\n"), 431);
    assert_int_equal(
        status_of_filled("GET /ping HTTP/1.1\r\n" H "Cookie: ", 'a', 14000, "\r\n\r\n"), 431);
}

static void many_small_headers_are_refused(void **state)
{
    (void)state;
    struct peer p = dial(shared);

    say_to(&p, "GET /ping HTTP/1.1\r\n" H);
    for (int i = 0; i < 10000; i++) {
        if (!try_send(&p, "a:b\r\n", 5))
            break;
    }
    (void)try_send(&p, "\r\n", 2);
    struct reply r = listen_to(&p, false);
    assert_int_equal(r.status, 431);
    assert_true(is_closed(&p));
    hang_up(&p);
}

static void bodies_past_the_limit_are_refused_while_they_come(void **state)
{
    (void)state;
    static char chunk[1 << 16];
    struct peer p = dial(shared);
    bool taken = true;

    memset(chunk, 'c', sizeof(chunk));
    say_to(&p, "POST /echo HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < 2 && taken; i++)
        taken = try_send(&p, "10000\r\n", 7) && try_send(&p, chunk, sizeof(chunk)) &&
                try_send(&p, "\r\n", 2);
    /* There is no end, and the answer is there all the same. */
    struct reply r = listen_to(&p, false);
    assert_problem(&r, 413, "PayloadTooLarge");
    assert_true(has(&r, "Connection", "close"));
    assert_true(is_closed(&p));
    hang_up(&p);

    /* At the limit it is taken. */
    p = dial(shared);
    say_to(&p, "POST /echo HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n10000\r\n");
    assert_true(try_send(&p, chunk, sizeof(chunk)));
    say_to(&p, "\r\n0\r\n\r\n");
    r = listen_to(&p, false);
    assert_int_equal(r.body_len, sizeof(chunk));
    hang_up(&p);
}

/* The peer sends all it has before it looks at the answer, which must not be lost over that. */
static void a_refusal_reaches_a_peer_that_keeps_sending(void **state)
{
    (void)state;
    static char body[1 << 20];
    struct peer p = dial(shared);

    say_to(&p, "POST /echo HTTP/1.1\r\n" H "Content-Length: 1048576\r\n\r\n");
    (void)try_send(&p, body, sizeof(body));
    struct reply r = listen_to(&p, false);
    assert_problem(&r, 413, "PayloadTooLarge");
    hang_up(&p);
}

static void garbage_does_no_harm(void **state)
{
    (void)state;
    static const unsigned char tls_hello[] = {0x16, 0x03, 0x01, 0x00, 0x2f, 0x01, 0x00, 0x00, 0x2b,
                                              0x03, 0x03, 0x0a, 0x00, 0x0d, 0x0a, 0x0d, 0x0a};
    uint64_t seed = 88172645463325252U;

    struct peer p = dial(shared);
    (void)try_send(&p, tls_hello, sizeof(tls_hello));
    shutdown(p.fd, SHUT_WR);
    while (more(&p))
        continue;
    hang_up(&p);

    for (int round = 0; round < 200; round++) {
        char bytes[512];
        size_t len = 0;
        if (round % 2) /* half of them get past the first line */
            len = (size_t)snprintf(bytes, sizeof(bytes), "POST /echo HTTP/1.1\r\n" H "X-A: ");
        for (; len < sizeof(bytes) - 4; len++) {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            bytes[len] = round % 3 ? (char)(seed >> 32) : "\r\n :/%\0a"[(seed >> 32) % 8];
        }
        memcpy(bytes + len, "\r\n\r\n", 4);
        p = dial(shared);
        (void)try_send(&p, bytes, sizeof(bytes));
        shutdown(p.fd, SHUT_WR);
        while (more(&p))
            continue;
        hang_up(&p);
    }
    assert_pong(shared);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_requests_are_refused_and_closed),
        cmocka_unit_test(hidden_requests_are_never_answered),
        cmocka_unit_test(an_answer_to_chunks_says_that_it_closes),
        cmocka_unit_test(polite_refusals_keep_the_connection),
        cmocka_unit_test(json_is_taken_under_all_its_names),
        cmocka_unit_test(nul_bytes_are_refused),
        cmocka_unit_test(oversized_lines_and_headers_are_refused),
        cmocka_unit_test(many_small_headers_are_refused),
        cmocka_unit_test(bodies_past_the_limit_are_refused_while_they_come),
        cmocka_unit_test(a_refusal_reaches_a_peer_that_keeps_sending),
        cmocka_unit_test(garbage_does_no_harm),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "net/h1.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define OK       "HTTP/1.1 200 OK\r\n"

static struct df_h1 h;
static struct df_buf body;

static int setup(void **state)
{
    (void)state;
    df_h1_init(&h);
    df_buf_init(&body, 1 << 20);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    df_h1_release(&h);
    df_buf_release(&body);
    return 0;
}

static bool take(void *arg, const char *data, size_t len)
{
    df_buf_add(arg, data, len);
    return true;
}

/* Feeds the text in pieces of this size; returns how much was taken. */
static size_t feed(const char *text, size_t piece)
{
    size_t len = strlen(text), at = 0;

    df_buf_reset(&body);
    while (at < len && h.state < DF_H1_DONE) {
        size_t n = len - at < piece ? len - at : piece;
        at += df_h1_feed(&h, text + at, n, take, &body);
    }
    return at;
}

static void answers_are_read_however_they_are_cut(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool of_head;
        unsigned status;
        const char *body;
        bool keeps;
        size_t beyond; /* bytes that are not the answer's */
    } rows[] = {
        {OK "Content-Length: 5\r\n\r\nhello", false, 200, "hello", true, 0},
        {OK "content-length:5\r\n\r\nhello!", false, 200, "hello", true, 1},
        {"HTTP/1.1 404\r\nContent-Length: 0\r\n\r\n", false, 404, "", true, 0},
        {"HTTP/1.1 204 No Content\r\n\r\n", false, 204, "", true, 0},
        {"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", false, 304, "", true, 0},
        {OK "Content-Length: 9\r\n\r\n", true, 200, "", true, 0},
        {OK "Content-Length: 2\r\nConnection: close\r\n\r\nab", false, 200, "ab", false, 0},
        {OK "Content-Length: 2\r\nConnection: x, Close\r\n\r\nab", false, 200, "ab", false, 0},
        {"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nab", false, 200, "ab", false, 0},
        {"HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 2\r\n\r\nab", false, 200,
         "ab", true, 0},
        {OK "Content-Length: 2, 2\r\nContent-Length: 2\r\n\r\nab", false, 200, "ab", true, 0},
        {OK "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;e=\"1\"\r\n0123456789\r\n0\r\n\r\n",
         false, 200, "abc0123456789", true, 0},
        {OK "Transfer-Encoding: Chunked\r\n\r\n1\r\na\r\n00\r\nX: y\r\n\r\nHTTP", false, 200, "a",
         true, 4},
        /* Both lengths: the chunks count, and nothing follows on this connection. */
        {OK "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n", false,
         200, "ab", false, 0},
        {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" OK
         "Content-Length: 1\r\n\r\nz",
         false, 200, "z", true, 0},
        {"HTTP/1.1 200 OK\nContent-Length: 1\n\nz", false, 200, "z", true, 0},
    };

    for (size_t i = 0; i < COUNT(rows); i++)
        for (size_t piece = 1; piece < 200; piece += piece < 8 ? 1 : 37) {
            df_h1_reset(&h, rows[i].of_head);
            size_t taken = feed(rows[i].text, piece);
            if (h.state != DF_H1_DONE || h.status != rows[i].status ||
                h.keep_alive != rows[i].keeps ||
                !df_str_eq(df_buf_str(&body), df_str_c(rows[i].body)))
                fail_msg("row %zu in pieces of %zu: state %d, status %u, body '%s', %s", i, piece,
                         (int)h.state, h.status, body.ptr, h.why ? h.why : "");
            assert_int_equal(taken, strlen(rows[i].text) - rows[i].beyond);
        }
}

static void an_answer_of_uncertain_length_is_none(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "SSH-2.0-OpenSSH_9.2\r\n",
        "HTTP/2 200 OK\r\n\r\n",
        "HTTP/1.1 2000 OK\r\n\r\n",
        "HTTP/1.1 20 OK\r\n\r\n",
        "HTTP/1.1 099 OK\r\n\r\n",
        "\r\nHTTP/1.1 200 OK\r\n\r\n",
        "HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n",
        OK "no colon\r\n\r\n",
        "HTTP/1.1 200 OK\n\rContent-Length: 0\r\n\r\n",
        OK "X: a\rContent-Length: 0\r\n\r\n",
        OK "Content-Length: 5\r\nContent-Length: 6\r\n\r\n",
        OK "Content-Length: 5, 6\r\n\r\n",
        OK "Content-Length: +5\r\n\r\n",
        OK "Content-Length: 5 5\r\n\r\n",
        OK "Content-Length: -1\r\n\r\n",
        OK "Content-Length:\r\n\r\n",
        OK "Content-Length : 0x5\r\n\r\n",
        OK "Content-Length : 2\r\n\r\nab",
        OK "Transfer-Encoding\t: chunked\r\n\r\n",
        OK "Content-Length: 99999999999999999999\r\n\r\n",
        OK "Transfer-Encoding: gzip\r\n\r\n",
        OK "Transfer-Encoding: gzip, chunked\r\n\r\n",
        OK "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
        OK "Transfer-Encoding: chunked\r\n\r\n\r\n",
        OK "Transfer-Encoding: chunked\r\n\r\n;x\r\n",
        OK "Transfer-Encoding: chunked\r\n\r\n-1\r\n",
        OK "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
        OK "Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
    };

    for (size_t i = 0; i < COUNT(rows); i++)
        for (size_t piece = 1; piece < 100; piece += 33) {
            df_h1_reset(&h, false);
            (void)feed(rows[i], piece);
            if (h.state != DF_H1_BAD || !h.why)
                fail_msg("row %zu in pieces of %zu: state %d", i, piece, (int)h.state);
        }
}

static void the_end_of_the_connection_ends_what_has_no_length(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool is_whole;
    } rows[] = {
        {OK "\r\nall of it", true},
        {OK "Connection: keep-alive\r\n\r\n", true},
        {"", false},
        {"HTTP/1.1 20", false},
        {OK "Content-Length: 5\r\n\r\nhell", false},
        {OK "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", false},
        {OK "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n", false},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        df_h1_reset(&h, false);
        (void)feed(rows[i].text, 7);
        df_h1_end(&h);
        if ((h.state == DF_H1_DONE) != rows[i].is_whole || (h.state == DF_H1_DONE && h.keep_alive))
            fail_msg("row %zu", i);
    }
}

static void fields_are_told_in_order(void **state)
{
    (void)state;
    struct df_str name, value;
    size_t at = 0;

    (void)feed(OK "X-A:  one \r\nx-b:\r\nX-Folded: a\r\n\tb\r\nRetry-After: 3\r\nContent-Type: "
                  "text/plain\r\nContent-Length: 0\r\n\r\n",
               5);
    assert_int_equal(h.state, DF_H1_DONE);
    assert_true(df_str_eq(h.retry_after, DF_STR("3")));
    assert_true(df_str_eq(h.content_type, DF_STR("text/plain")));
    df_buf_reset(&body);
    while (df_h1_field(&h, &at, &name, &value))
        df_buf_addf(&body, DF_STR_FMT "=" DF_STR_FMT ";", DF_STR_ARG(name), DF_STR_ARG(value));
    assert_string_equal(body.ptr, "X-A=one;x-b=;X-Folded=a  \tb;Retry-After=3;Content-Type="
                                  "text/plain;Content-Length=0;");
}

static void heads_and_lines_are_bounded(void **state)
{
    (void)state;
    static char text[2 * DF_H1_HEAD_MAX];
    static const char *const begins[] = {
        "HTTP/1.1 200 ", OK "X: ", OK "Transfer-Encoding: chunked\r\n\r\n1;",
        OK "Transfer-Encoding: chunked\r\n\r\n0\r\nX: ", "HTTP/1.1 100 "};

    for (size_t i = 0; i < COUNT(begins); i++) {
        memset(text, 'x', sizeof text - 1);
        memcpy(text, begins[i], strlen(begins[i]));
        df_h1_reset(&h, false);
        (void)feed(text, 1000);
        if (h.state != DF_H1_BAD)
            fail_msg("row %zu", i);
    }
    /* Interim answers without end. */
    df_h1_reset(&h, false);
    for (size_t i = 0; h.state != DF_H1_BAD; i++) {
        assert_true(i < DF_H1_HEAD_MAX);
        (void)feed("HTTP/1.1 100 Continue\r\n\r\n", 100);
    }
    /* Fields without end, each of them short. */
    df_h1_reset(&h, false);
    (void)feed(OK, 100);
    for (size_t i = 0; i <= DF_H1_FIELDS_MAX; i++)
        (void)feed("a:b\r\n", 100);
    (void)feed("\r\n", 100);
    assert_int_equal(h.state, DF_H1_BAD);
}

/* The lines before chunks are not counted with the head. */
static void an_answer_may_have_many_chunks(void **state)
{
    (void)state;
    enum { CHUNKS = 50000 };

    (void)feed(OK "Transfer-Encoding: chunked\r\n\r\n", 100);
    size_t all = 0;
    for (int i = 0; i < CHUNKS; i++) {
        (void)feed("1\r\nx\r\n", 100);
        all += body.len;
    }
    (void)feed("0\r\n\r\n", 100);
    assert_int_equal(h.state, DF_H1_DONE);
    assert_int_equal(all, CHUNKS);
}

static bool take_three(void *arg, const char *data, size_t len)
{
    df_buf_add(arg, data, len);
    return body.len < 3;
}

static void who_has_enough_is_given_no_more(void **state)
{
    (void)state;
    static const char text[] =
        OK "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n2\r\ncd\r\n2\r\nef\r\n";

    size_t taken = df_h1_feed(&h, text, strlen(text), take_three, &body);
    assert_string_equal(body.ptr, "abcd");
    assert_true(taken < strlen(text));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(answers_are_read_however_they_are_cut, setup, teardown),
        cmocka_unit_test_setup_teardown(an_answer_of_uncertain_length_is_none, setup, teardown),
        cmocka_unit_test_setup_teardown(the_end_of_the_connection_ends_what_has_no_length, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(fields_are_told_in_order, setup, teardown),
        cmocka_unit_test_setup_teardown(heads_and_lines_are_bounded, setup, teardown),
        cmocka_unit_test_setup_teardown(an_answer_may_have_many_chunks, setup, teardown),
        cmocka_unit_test_setup_teardown(who_has_enough_is_given_no_more, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/metrics.h"
#include "called.h"
#include "certificate.h"
#include "fake_clock.h"
#include "net/client.h"
#include "net/http.h"
#include "net/security.h"
#include "net/url.h"
#include "port.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/* --- tests --- */

static void answers_of_any_status_are_answers(void **state)
{
    (void)state;
    static const unsigned statuses[] = {200, 201, 204, 302, 400, 404, 410, 429, 500, 503};
    struct peer *p = peer_start();
    struct df_http_client *c = client_new();

    for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++) {
        char path[32];
        struct outcome o;
        (void)snprintf(path, sizeof(path), "/status/%u", statuses[i]);
        get(c, &o, p->port, path);
        assert_int_equal(o.code, DF_OK);
        assert_int_equal(o.status, statuses[i]);
        assert_int_equal(o.call.retry_after_ms, -1);
        assert_true(o.call.maybe_sent);
        free(o.body);
    }
    df_http_client_free(c);
    peer_stop(p);
}

static void request_arrives_as_given(void **state)
{
    (void)state;
    struct peer *p = peer_start();
    struct df_http_client *c = client_new();
    struct outcome o;
    const struct df_call_header headers[] = {
        {DF_STR("X-One"), DF_STR("first value")},
        {DF_STR("X-Empty"), DF_STR("")},
        {DF_STR("Content-Type"), DF_STR("application/json")},
        {DF_STR("Idempotency-Key"), DF_STR("a:1")},
    };
    static const char *const methods[] = {"POST", "PUT", "PATCH", "DELETE", "GET"};

    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
        char line[64];
        prepare(&o, NULL, p->port, "/echo?q=1#fragment");
        o.call.method = methods[i];
        o.call.body = DF_STR("{\"a\":1}");
        o.call.headers = headers;
        o.call.header_count = 4;
        run_call(c, &o);
        assert_int_equal(o.code, DF_OK);
        (void)snprintf(line, sizeof(line), "%s /echo?q=1 HTTP/1.1\r\n", methods[i]);
        assert_true(strncmp(o.body, line, strlen(line)) == 0);
        assert_non_null(strstr(o.body, "\r\nX-One: first value\r\n"));
        assert_non_null(strstr(o.body, "\r\nX-Empty:"));
        assert_non_null(strstr(o.body, "\r\nContent-Type: application/json\r\n"));
        assert_non_null(strstr(o.body, "\r\nIdempotency-Key: a:1\r\n"));
        assert_non_null(strstr(o.body, "\r\nUser-Agent: DataFlow\r\n"));
        assert_non_null(strstr(o.body, "\r\nContent-Length: 7\r\n"));
        assert_null(strcasestr(o.body, "\r\nExpect:"));
        assert_null(strcasestr(o.body, "\r\nAccept-Encoding:"));
        assert_string_equal(o.body + o.body_len - 7, "{\"a\":1}");
        assert_string_equal(o.content_type, "text/plain");
        free(o.body);
    }
    df_http_client_free(c);
    peer_stop(p);
}

static void methods_without_a_body_send_none(void **state)
{
    (void)state;
    struct peer *p = peer_start();
    struct df_http_client *c = client_new();
    struct outcome o;
    static const char *const methods[] = {"GET", "POST", "DELETE", "HEAD", "OPTIONS", "GET"};

    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
        bool head = strcmp(methods[i], "HEAD") == 0;
        prepare(&o, NULL, p->port, head ? "/status/204" : "/echo");
        o.call.method = methods[i];
        run_call(c, &o);
        assert_int_equal(o.code, DF_OK);
        if (!head) {
            assert_true(strncmp(o.body, methods[i], strlen(methods[i])) == 0);
            assert_null(strcasestr(o.body, "\r\nContent-Type:"));
            assert_null(strcasestr(o.body, "\r\nTransfer-Encoding:"));
            const char *length = strcasestr(o.body, "\r\nContent-Length:");
            if (strcmp(methods[i], "POST") == 0)
                assert_non_null(strstr(length, ": 0\r\n"));
            else
                assert_null(length);
        }
        free(o.body);
    }
    df_http_client_free(c);
    peer_stop(p);
}

/* Bytes behind a request without a length would be the next request. */
static void head_sends_no_body_even_if_it_has_one(void **state)
{
    (void)state;
    struct peer *p = peer_start();
    struct df_http_client *c = client_new();
    struct outcome o;

    prepare(&o, NULL, p->port, "/status/204");
    o.call.method = "HEAD";
    o.call.body = DF_STR("GET /status/500 HTTP/1.1\r\nHost: x\r\n\r\n");
    run_call(c, &o);
    assert_int_equal(o.code, DF_OK);
    free(o.body);
    get(c, &o, p->port, "/status/201");
    assert_int_equal(o.code, DF_OK);
    assert_int_equal(o.status, 201);
    free(o.body);
    assert_int_equal(peer_connections(p), 1);
    df_http_client_free(c);
    peer_stop(p);
}

static void large_body_arrives_whole(void **state)
{
    (void)state;
    struct peer *p = peer_start();
    struct df_http_client *c = client_new();
    struct outcome o;
    size_t len = 700000;
    char *body = malloc(len);

    for (size_t i = 0; i < len; i++)
        body[i] = (char)('a' + i % 23);
    prepare(&o, NULL, p->port, "/echo");
    o.call.method = "POST";
    o.call.body = df_str_n(body, len);
    o.call.max_answer_bytes = 1 << 20;
    run_call(c, &o);
    assert_int_equal(o.code, DF_OK);
    assert_false(o.call.answer_cut);
    assert_true(o.body_len > len);
    assert_memory_equal(o.body + o.body_len - len, body, len);
    free(o.body);
    free(body);
    df_http_client_free(c);
    peer_stop(p);
}

static void large_answer_is_cut_and_the_connection_kept(void **state)
{
    (void)state;
    struct peer *p = peer_start();
    struct df_http_client *c = client_new();
    struct outcome o;

    prepare(&o, NULL, p->port, "/big");
    o.call.max_answer_bytes = 1000;
    run_call(c, &o);
    assert_int_equal(o.code, DF_OK);
    assert_int_equal(o.body_len, 1000);
    assert_true(o.call.answer_cut);
    free(o.body);
    get(c, &o, p->port, "/big");
    assert_int_equal(o.body_len, 64 << 10);
    free(o.body);
    get(c, &o, p->port, "/ok");
    assert_false(o.call.answer_cut);
    assert_string_equal(o.body, "hello");
    free(o.body);
    assert_int_equal(peer_connections(p), 1);
    df_http_client_free(c);
    peer_stop(p);
}

static void endless_answer_counts_as_what_its_head_says(void **state)
{
    (void)state;
    struct peer *p = peer_start();
    struct df_http_client *c = client_new();
    struct outcome o;

    get(c, &o, p->port, "/flood");
    assert_int_equal(o.code, DF_OK);
    assert_int_equal(o.call.status, 202);
    assert_int_equal(o.call.retry_after_ms, 7000);
    assert_true(o.call.answer_cut);
    assert_int_equal(o.body_len, 64 << 10);
    free(o.body);
    get(c, &o, p->port, "/ok");
    assert_string_equal(o.body, "hello");
    free(o.body);
    df_http_client_free(c);
    peer_stop(p);
}

static void redirect_is_not_followed(void **state)
{
    (void)state;
    struct peer *p = peer_start();
    struct df_http_client *c = client_new();
    static const char *const paths[] = {"/redirect/301", "/redirect/302", "/redirect/303",
                                        "/redirect/307", "/redirect/308"};

    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        struct outcome o;
        get(c, &o, p->port, paths[i]);
        assert_int_equal(o.code, DF_OK);
        assert_int_equal(o.status, strtoul(paths[i] + 10, NULL, 10));
        assert_int_equal(atomic_load(&p->requests), i + 1);
        free(o.body);
    }
    df_http_client_free(c);
    peer_stop(p);
}

static void connection_is_kept_alive(void **state)
{
    (void)state;
    struct peer *p = peer_start();
    struct df_http_client *c = client_new();

    for (int i = 0; i < 50; i++) {
        struct outcome o;
        get(c, &o, p->port, "/ok");
        assert_int_equal(o.code, DF_OK);
        free(o.body);
    }
    assert_int_equal(peer_connections(p), 1);
    df_http_client_free(c);
    peer_stop(p);
}

static void refused_connection_is_reported(void **state)
{
    (void)state;
    unsigned port;
    (void)close(listen_somewhere(&port));
    struct df_http_client *c = client_new();
    struct outcome o;

    get(c, &o, port, "/secret/path?token=hidden");
    assert_int_equal(o.code, DF_E_NET_CONNECT);
    assert_int_equal(o.status, 0);
    assert_false(o.call.maybe_sent);
    assert_non_null(strstr(o.detail, "http://127.0.0.1:"));
    assert_null(strstr(o.detail, "hidden"));
    free(o.body);
    df_http_client_free(c);
}

static void unknown_name_is_reported(void **state)
{
    (void)state;
    struct df_http_client *c = client_new();
    struct outcome o;

    prepare(&o, NULL, 1, "/");
    (void)snprintf(o.url, sizeof(o.url), "http://user:sesame@no-such-host.invalid/");
    run_call(c, &o);
    assert_int_equal(o.code, DF_E_NET_RESOLVE);
    assert_non_null(strstr(o.detail, "no-such-host.invalid"));
    assert_null(strstr(o.detail, "sesame"));
    free(o.body);
    df_http_client_free(c);
}

static void silent_peer_is_a_timeout(void **state)
{
    (void)state;
    struct peer *p = peer_start();
    struct df_http_client *c = client_new();
    struct outcome o;

    prepare(&o, NULL, p->port, "/hang");
    o.call.timeout_ms = 100;
    run_call(c, &o);
    assert_int_equal(o.code, DF_E_NET_TIMEOUT);
    free(o.body);
    df_http_client_free(c);
    peer_stop(p);
}

static void broken_answers_are_network_errors(void **state)
{
    (void)state;
    static const char *const paths[] = {"/close", "/partial", "/garbage", "/endless-headers"};
    struct peer *p = peer_start();
    struct df_http_client *c = client_new();

    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        struct outcome o;
        get(c, &o, p->port, paths[i]);
        assert_int_equal(o.code, DF_E_NET);
        assert_int_equal(o.status, 0);
        assert_true(strlen(o.detail) > 10);
        free(o.body);
    }
    df_http_client_free(c);
    peer_stop(p);
}

static void time_is_up_while_waiting_in_line(void **state)
{
    (void)state;
    struct peer *p = peer_start();
    struct df_http_client *c =
        client_with(&(struct df_http_client_options){.max_per_destination = 1});
    struct gate g;
    struct outcome first;
    struct outcome second;

    gate_init(&g);
    prepare(&first, &g, p->port, "/hang");
    prepare(&second, &g, p->port, "/ok");
    second.call.timeout_ms = 50;
    df_http_client_send(c, &first.call);
    df_http_client_send(c, &second.call);
    gate_wait(&g, 1);
    assert_int_equal(second.code, DF_E_NET_TIMEOUT);
    assert_false(second.call.maybe_sent);
    assert_int_equal(first.done_count, 0);
    df_http_client_free(c);
    assert_int_equal(first.code, DF_E_CANCELLED);
    assert_int_equal(atomic_load(&p->requests), 1);
    free(first.body);
    free(second.body);
    peer_stop(p);
}

static void slow_destination_does_not_hold_up_another(void **state)
{
    (void)state;
    enum { N = 40 };
    struct peer *slow = peer_start();
    struct peer *quick = peer_start();
    struct df_http_client *c =
        client_with(&(struct df_http_client_options){.max_in_flight = 8, .max_per_destination = 4});
    struct gate slow_gate;
    struct gate quick_gate;
    struct outcome *outcomes = df_calloc(2 * (size_t)N, sizeof(*outcomes));

    gate_init(&slow_gate);
    gate_init(&quick_gate);
    for (int i = 0; i < N; i++) {
        prepare(&outcomes[i], &slow_gate, slow->port, "/hang");
        df_http_client_send(c, &outcomes[i].call);
    }
    for (int i = N; i < 2 * N; i++) {
        prepare(&outcomes[i], &quick_gate, quick->port, "/ok");
        df_http_client_send(c, &outcomes[i].call);
    }
    gate_wait(&quick_gate, N);
    for (int i = N; i < 2 * N; i++)
        assert_int_equal(outcomes[i].status, 200);
    assert_int_equal(slow_gate.done, 0);
    assert_true(peer_connections(slow) <= 4);
    df_http_client_free(c);
    assert_int_equal(slow_gate.done, N);
    for (int i = 0; i < 2 * N; i++)
        free(outcomes[i].body);
    free(outcomes);
    peer_stop(slow);
    peer_stop(quick);
}

struct turn {
    struct outcome o;
    struct gate *busy;
    size_t busy_done;
};

static void note_turn(struct df_call *call)
{
    struct turn *t = call->arg;
    pthread_mutex_lock(&t->busy->lock);
    t->busy_done = t->busy->done;
    pthread_mutex_unlock(&t->busy->lock);
    gate_signal(t->o.gate);
}

static void destinations_take_turns(void **state)
{
    (void)state;
    enum { LONG = 200 };
    struct peer *busy = peer_start();
    struct peer *other = peer_start();
    struct df_http_client *c = client_with(&(struct df_http_client_options){.max_in_flight = 1});
    struct gate g;
    struct gate other_gate;
    struct outcome *outcomes = df_calloc(LONG, sizeof(*outcomes));
    struct turn turn = {.busy = &g};

    gate_init(&g);
    gate_init(&other_gate);
    /* The first is answered when all the others stand in line behind it. */
    for (int i = 0; i < LONG; i++) {
        prepare(&outcomes[i], &g, busy->port, i == 0 ? "/wait" : "/ok");
        df_http_client_send(c, &outcomes[i].call);
    }
    prepare(&turn.o, &other_gate, other->port, "/ok");
    turn.o.call.done = note_turn;
    turn.o.call.arg = &turn;
    df_http_client_send(c, &turn.o.call);
    peer_open(busy);
    gate_wait(&other_gate, 1);
    gate_wait(&g, LONG);
    /* The line of two hundred did not have to end first. The client may have woken up late and seen
       the answer before the last calls: then a turn or two more passed. */
    assert_in_range(turn.busy_done, 1, LONG / 2);
    for (int i = 0; i < LONG; i++)
        free(outcomes[i].body);
    free(outcomes);
    df_http_client_free(c);
    peer_stop(busy);
    peer_stop(other);
}

/* --- several threads --- */

struct threaded {
    struct outcome o;
    pthread_t ended_on;
};

static void note_thread(struct df_call *call)
{
    struct threaded *t = call->arg;

    t->ended_on = pthread_self();
    call->arg = &t->o;
    note(call);
}

static void prepare_threaded(struct threaded *t, struct gate *g, unsigned port, const char *path)
{
    prepare(&t->o, g, port, path);
    t->o.call.done = note_thread;
    t->o.call.arg = t;
}

/* Also calls that end in line, and those that are cancelled. */
static void each_destination_has_one_thread(void **state)
{
    (void)state;
    enum { PEERS = 4, EACH = 20 };
    struct peer *peers[PEERS];
    struct df_http_client *c =
        client_with(&(struct df_http_client_options){.threads = PEERS, .max_per_destination = 2});
    struct threaded *calls = df_calloc((size_t)PEERS * EACH, sizeof(*calls));
    struct gate g;
    struct gate cancelled;

    gate_init(&g);
    gate_init(&cancelled);
    for (int i = 0; i < PEERS; i++)
        peers[i] = peer_start();
    for (int i = 0; i < PEERS * EACH; i++) {
        /* The first two of each hang, so that what comes last expires in line. */
        bool hangs = i >= (EACH - 4) * PEERS && i < (EACH - 2) * PEERS;
        bool expires = i >= (EACH - 2) * PEERS;
        prepare_threaded(&calls[i], hangs ? &cancelled : &g, peers[i % PEERS]->port,
                         hangs ? "/hang" : "/ok");
        calls[i].o.call.timeout_ms = expires ? 50 : 60000;
        df_http_client_send(c, &calls[i].o.call);
        if (i == (EACH - 4) * PEERS - 1)
            gate_wait(&g, (size_t)i + 1);
    }
    gate_wait(&g, (size_t)PEERS * (EACH - 2));
    df_http_client_free(c);
    assert_int_equal(cancelled.done, 2 * PEERS);
    for (int i = 0; i < PEERS * EACH; i++) {
        for (int n = 0; n < PEERS; n++)
            assert_int_equal(pthread_equal(calls[i].ended_on, calls[n].ended_on) != 0,
                             i % PEERS == n);
        assert_int_equal(calls[i].o.code, i < (EACH - 4) * PEERS   ? DF_OK
                                          : i < (EACH - 2) * PEERS ? DF_E_CANCELLED
                                                                   : DF_E_NET_TIMEOUT);
        free(calls[i].o.body);
    }
    for (int i = 0; i < PEERS; i++)
        peer_stop(peers[i]);
    free(calls);
}

static int requests_at(struct peer *const *peers, size_t count)
{
    int n = 0;

    for (size_t i = 0; i < count; i++)
        n += atomic_load(&peers[i]->requests);
    return n;
}

/* The places of all threads are one number: peers that answer nothing see no more requests. */
static void threads_share_the_places(void **state)
{
    (void)state;
    enum { PEERS = 6, EACH = 5, PLACES = 8 };
    struct peer *peers[PEERS];
    struct df_http_client *c =
        client_with(&(struct df_http_client_options){.threads = 4, .max_in_flight = PLACES});
    struct outcome *outcomes = df_calloc((size_t)PEERS * EACH, sizeof(*outcomes));
    struct gate g;

    gate_init(&g);
    for (int i = 0; i < PEERS; i++)
        peers[i] = peer_start();
    for (int i = 0; i < PEERS * EACH; i++) {
        prepare(&outcomes[i], &g, peers[i % PEERS]->port, "/wait");
        df_http_client_send(c, &outcomes[i].call);
    }
    while (requests_at(peers, PEERS) < PLACES)
        (void)usleep(1000);
    (void)usleep(20000); /* for those that should not come */
    assert_int_equal(requests_at(peers, PEERS), PLACES);
    for (int i = 0; i < PEERS; i++)
        peer_open(peers[i]);
    gate_wait(&g, (size_t)PEERS * EACH);
    for (int i = 0; i < PEERS * EACH; i++) {
        assert_int_equal(outcomes[i].status, 200);
        free(outcomes[i].body);
    }
    df_http_client_free(c);
    for (int i = 0; i < PEERS; i++)
        peer_stop(peers[i]);
    free(outcomes);
}

static void retry_after_is_understood(void **state)
{
    (void)state;
    /* The clock stands at 2026-11-15T00:00:00Z. */
    static const struct {
        const char *header;
        int64_t ms;
    } rows[] = {
        {"0", 0},
        {"7", 7000},
        {"86400", 86400000},
        {"86401", 86400000},
        {"99999999999999999999999999", 86400000},
        {"Sun, 15 Nov 2026 00:00:30 GMT", 30000},
        {"Sunday, 15-Nov-26 00:01:00 GMT", 60000},
        {"Sun Nov 15 00:02:00 2026", 120000},
        {"Sat, 14 Nov 2026 00:00:00 GMT", 0},
        {"Sun, 15 Nov 2099 00:00:00 GMT", 86400000},
        {"-5", -1},
        {"soon", -1},
        {"1.5 hours from now, or later, or whenever it is convenient to everybody", -1},
    };
    struct df_fake_clock clock;
    df_fake_clock_init(&clock, 1794700800000, 1);
    struct peer *p = peer_start();
    struct df_http_client *c = client_with(&(struct df_http_client_options){.clock = &clock.base});

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct outcome o;
        p->retry_after = rows[i].header;
        get(c, &o, p->port, "/retry");
        assert_int_equal(o.status, 503);
        if (o.call.retry_after_ms != rows[i].ms)
            fail_msg("Retry-After %s: %lld", rows[i].header, (long long)o.call.retry_after_ms);
        free(o.body);
    }
    df_http_client_free(c);
    peer_stop(p);
}

static void header_fields_are_kept_for_those_who_ask(void **state)
{
    (void)state;
    struct peer *p = peer_start();
    struct df_http_client *c = client_new();
    struct outcome o;

    prepare(&o, NULL, p->port, "/headers");
    o.call.keep_headers = true;
    run_call(c, &o);
    assert_int_equal(o.code, DF_OK);
    assert_string_equal(o.headers, "Content-Length=0;X-A=1;x-b=two;X-A=3;X-Empty=;");
    free(o.body);

    /* The same handle, for somebody who does not ask. */
    get(c, &o, p->port, "/headers");
    assert_int_equal(o.header_count, 0);
    free(o.body);

    prepare(&o, NULL, p->port, "/many-headers");
    o.call.keep_headers = true;
    run_call(c, &o);
    assert_int_equal(o.header_count, DF_ANSWER_HEADERS);
    free(o.body);

    prepare(&o, NULL, p->port, "/close");
    o.call.keep_headers = true;
    run_call(c, &o);
    assert_int_equal(o.code, DF_E_NET);
    assert_int_equal(o.header_count, 0);
    free(o.body);
    df_http_client_free(c);
    peer_stop(p);
}

static void private_targets_are_refused_however_written(void **state)
{
    (void)state;
    static const char *const hosts[] = {
        "127.0.0.1",
        "localhost",
        "LOCALHOST",

        "127.1",
        "127.0.1",
        "127.255.255.254",
        "2130706433",
        "017700000001",
        "0177.0.0.1",
        "0177.0.0.01",
        "0x7f.1",
        "0x7F.0x0.0x0.0x1",
        "0x7f000001",
        "0",
        "0.0.0.0",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "100.64.0.1",
        "100.127.255.254",
        "169.254.169.254",
        "2852039166",
        "0xa9fea9fe",
        "0251.0376.0251.0376",
        "192.0.0.192",
        "198.18.0.1",
        "203.0.113.7",
        "224.0.0.1",
        "255.255.255.255",
        "[::]",
        "[::1]",
        "[0:0:0:0:0:0:0:1]",
        "[::127.0.0.1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::ffff:169.254.169.254]",
        "[::ffff:0:127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[64:ff9b::169.254.169.254]",
        "[64:ff9b:1::7f00:1]",
        "[2002:7f00:1::]",
        "[2002:a9fe:a9fe::]",
        "[2001:0:7f00:1::]",
        "[2001::ffff:80ff:fffe]",
        "[fe80::1]",
        "[fec0::1]",
        "[fd00::1]",
        "[fd00:ec2::254]",
        "[2001:db8::1]",
        "[3fff::1]",
        "[ff02::1]",
        "user:secret@127.0.0.1",
    };
    struct peer *p = peer_start();
    struct df_http_client *c = client_new();

    for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
        struct outcome o;
        prepare(&o, NULL, 1, "/");
        (void)snprintf(o.url, sizeof(o.url), "http://%s:%u/ok", hosts[i], p->port);
        o.call.allow_private = false;
        run_call(c, &o);
        if (o.code != DF_E_TARGET_REFUSED)
            fail_msg("%s: %s %s", hosts[i], df_code_name(o.code), o.detail);
        assert_false(o.call.maybe_sent);
        assert_non_null(strstr(o.detail, "not a public address"));
        assert_null(strstr(o.detail, "secret"));
        free(o.body);
    }
    assert_int_equal(peer_connections(p), 0);
    df_http_client_free(c);
    peer_stop(p);
}

/*
 * libcurl asks this instead of the C library's: names under .rebind.example have a public address
 * the first time, and this machine's after that, as those of an attacker's own name server would.
 */
static _Atomic int lookups;
static int (*real_getaddrinfo)(const char *, const char *, const struct addrinfo *,
                               struct addrinfo **);

static void find_getaddrinfo(void)
{
    void *found = dlsym(RTLD_NEXT, "getaddrinfo");
    memcpy(&real_getaddrinfo, &found, sizeof(found)); /* ISO C has no cast for this */
    assert_non_null(real_getaddrinfo);
}

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                struct addrinfo **ret)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void)pthread_once(&once, find_getaddrinfo);
    if (node && df_str_ends(df_str_c(node), DF_STR(".rebind.example")))
        node = atomic_fetch_add(&lookups, 1) == 0 ? "9.9.9.9" : "127.0.0.1";
    if (node && df_str_ends(df_str_c(node), DF_STR(".second.example"))) {
        int failed = real_getaddrinfo("127.0.0.2", service, hints, ret);
        return failed ? failed : real_getaddrinfo("127.0.0.1", service, hints, &(*ret)->ai_next);
    }
    return real_getaddrinfo(node, service, hints, ret);
}

static void name_that_resolves_otherwise_the_second_time_is_refused(void **state)
{
    (void)state;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    struct peer *p = peer_start();
    struct df_http_client *c = client_new();
    struct outcome o;

    atomic_store(&lookups, 0);
    /* As whoever takes the URL would look. */
    assert_int_equal(getaddrinfo("a.rebind.example", "80", &hints, &found), 0);
    assert_true(df_address_is_public(found->ai_addr));
    freeaddrinfo(found);
    prepare(&o, NULL, 1, "/");
    (void)snprintf(o.url, sizeof(o.url), "http://a.rebind.example:%u/ok", p->port);
    o.call.allow_private = false;
    run_call(c, &o);
    assert_int_equal(o.code, DF_E_TARGET_REFUSED);
    assert_non_null(strstr(o.detail, "127.0.0.1"));
    assert_int_equal(atomic_load(&lookups), 2);
    assert_int_equal(peer_connections(p), 0);
    free(o.body);
    df_http_client_free(c);
    peer_stop(p);
}

/* Listens at the first address of .second.example, with a line so full that further attempts to
 * connect get no answer. */
static void fill_line(unsigned port, int fds[4])
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};

    assert_int_equal(inet_pton(AF_INET, "127.0.0.2", &in.sin_addr), 1);
    for (int i = 0; i < 4; i++) {
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | (i ? SOCK_NONBLOCK : 0), 0);
        assert_true(fds[i] >= 0);
        if (i > 0) {
            (void)connect(fds[i], (struct sockaddr *)&in, sizeof(in));
            continue;
        }
        assert_int_equal(bind(fds[i], (struct sockaddr *)&in, sizeof(in)), 0);
        assert_int_equal(listen(fds[i], 0), 0);
    }
}

/* The first address refuses, or is silent. libcurl closes its socket, the next one gets the same
 * descriptor, and libcurl believes it to be watched already. */
static void second_address_is_dialled_when_the_first_is_dead(void **state)
{
    (void)state;
    enum { N = 20 };

    for (int silent = 0; silent < 2; silent++) {
        struct peer *p = peer_start();
        struct df_http_client *c =
            client_with(&(struct df_http_client_options){.connect_timeout_ms = 1400});
        struct outcome *outcomes = df_calloc(N, sizeof(*outcomes));
        struct gate g;
        int fds[4] = {-1, -1, -1, -1};

        if (silent)
            fill_line(p->port, fds);
        gate_init(&g);
        for (int i = 0; i < N; i++) {
            prepare(&outcomes[i], &g, 1, "/");
            (void)snprintf(outcomes[i].url, sizeof(outcomes[i].url),
                           "http://host-%d.second.example:%u/ok", i, p->port);
            df_http_client_send(c, &outcomes[i].call);
        }
        gate_wait(&g, N);
        for (int i = 0; i < N; i++) {
            if (outcomes[i].status != 200)
                fail_msg("silent %d, call %d: %s", silent, i, outcomes[i].detail);
            free(outcomes[i].body);
        }
        free(outcomes);
        df_http_client_free(c);
        for (int i = 0; i < 4; i++)
            if (fds[i] >= 0)
                (void)close(fds[i]);
        peer_stop(p);
    }
}

static void private_connection_is_not_lent_to_a_public_call(void **state)
{
    (void)state;
    struct peer *p = peer_start();
    struct df_http_client *c = client_new();
    struct outcome o;

    get(c, &o, p->port, "/ok");
    assert_int_equal(o.status, 200);
    free(o.body);
    prepare(&o, NULL, p->port, "/ok");
    o.call.allow_private = false;
    run_call(c, &o);
    assert_int_equal(o.code, DF_E_TARGET_REFUSED);
    assert_non_null(strstr(o.detail, "127.0.0.1"));
    assert_int_equal(atomic_load(&p->requests), 1);
    free(o.body);
    df_http_client_free(c);
    peer_stop(p);
}

static void stale_connection_repeats_only_what_is_safe(void **state)
{
    (void)state;
    const struct df_call_header key = {DF_STR("idempotency-key"), DF_STR("k")};
    static const struct {
        const char *method;
        bool key;
        bool repeated;
    } rows[] = {{"POST", false, false}, {"PATCH", false, false}, {"POST", true, true},
                {"GET", false, true},   {"PUT", false, true},    {"DELETE", false, true}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct peer *p = peer_start();
        struct df_http_client *c = client_new();
        struct outcome o;
        get(c, &o, p->port, "/once");
        assert_int_equal(o.status, 200);
        free(o.body);
        prepare(&o, NULL, p->port, "/once");
        o.call.method = rows[i].method;
        o.call.headers = &key;
        o.call.header_count = rows[i].key;
        run_call(c, &o);
        assert_int_equal(o.code, rows[i].repeated ? DF_OK : DF_E_NET);
        assert_true(o.call.maybe_sent);
        assert_int_equal(atomic_load(&p->requests), rows[i].repeated ? 3 : 2);
        free(o.body);
        df_http_client_free(c);
        peer_stop(p);
    }
}

/* The peer has read the request on the kept connection, and takes no other. */
static void request_may_have_arrived_though_it_cannot_be_repeated(void **state)
{
    (void)state;
    struct peer *p = peer_start();
    struct df_http_client *c = client_new();
    struct outcome o;

    get(c, &o, p->port, "/once");
    assert_int_equal(o.status, 200);
    free(o.body);
    (void)shutdown(p->fd, SHUT_RDWR);
    get(c, &o, p->port, "/once");
    assert_int_equal(o.code, DF_E_NET_CONNECT);
    assert_int_equal(atomic_load(&p->requests), 2);
    assert_true(o.call.maybe_sent);
    free(o.body);
    df_http_client_free(c);
    peer_stop(p);
}

/* An idle connection stays among the watched sockets; its end must neither be taken for an answer,
 * nor keep the client busy, nor be missed. */
static void connections_closed_while_idle_are_opened_again(void **state)
{
    (void)state;
    enum { N = 20, ROUNDS = 3 };
    struct peer *p = peer_start();
    struct df_http_client *c = client_new();

    for (int round = 0; round < ROUNDS; round++) {
        struct gate g;
        struct outcome outcomes[N];
        gate_init(&g);
        for (int i = 0; i < N; i++) {
            prepare(&outcomes[i], &g, p->port, "/ok");
            df_http_client_send(c, &outcomes[i].call);
        }
        gate_wait(&g, N);
        for (int i = 0; i < N; i++) {
            assert_int_equal(outcomes[i].status, 200);
            free(outcomes[i].body);
        }
        pthread_mutex_lock(&p->lock);
        for (size_t i = 0; i < p->connection_count; i++)
            (void)shutdown(p->connections[i].fd, SHUT_RDWR);
        pthread_mutex_unlock(&p->lock);
    }
    assert_int_equal(atomic_load(&p->requests), N * ROUNDS);
    df_http_client_free(c);
    peer_stop(p);
}

static void calls_that_cannot_be_sent_are_refused(void **state)
{
    (void)state;
    static char long_url[3000] = "http://127.0.0.1/";
    memset(long_url + 17, 'a', sizeof(long_url) - 18);
    const struct {
        const char *method;
        const char *url;
        struct df_call_header header;
    } rows[] = {
        {"GET", "", {DF_STR("X"), DF_STR("")}},
        {"GET", long_url, {DF_STR("X"), DF_STR("")}},
        {"GET", "ftp://127.0.0.1/", {DF_STR("X"), DF_STR("")}},
        {"GET", "file:///etc/passwd", {DF_STR("X"), DF_STR("")}},
        {"GET", "http://127.0.0.1/a\r\nX: y", {DF_STR("X"), DF_STR("")}},
        {"GET", "http://127.0.0.1/a b", {DF_STR("X"), DF_STR("")}},
        {"", "http://127.0.0.1/", {DF_STR("X"), DF_STR("")}},
        {"GET /x HTTP/1.1\r\n", "http://127.0.0.1/", {DF_STR("X"), DF_STR("")}},
        {"CONNECT", "http://127.0.0.1/", {DF_STR("X"), DF_STR("")}},
        {"AVERYLONGMETHODNAME", "http://127.0.0.1/", {DF_STR("X"), DF_STR("")}},
        {"GET", "http://127.0.0.1/", {DF_STR(""), DF_STR("v")}},
        {"GET", "http://127.0.0.1/", {DF_STR("X Y"), DF_STR("v")}},
        {"GET", "http://127.0.0.1/", {DF_STR("X:"), DF_STR("v")}},
        {"GET", "http://127.0.0.1/", {DF_STR("X\r\nY"), DF_STR("v")}},
        {"GET", "http://127.0.0.1/", {DF_STR("X"), DF_STR("a\r\nEvil: 1")}},
        {"GET", "http://127.0.0.1/", {DF_STR("X"), DF_STR("a\nb")}},
        {"GET", "http://127.0.0.1/", {DF_STR("X"), DF_STR("a\0b")}},
        {"GET", "http://127.0.0.1/", {DF_STR("Content-Length"), DF_STR("5")}},
        {"GET", "http://127.0.0.1/", {DF_STR("transfer-encoding"), DF_STR("chunked")}},
        {"GET", "http://127.0.0.1/", {DF_STR("Expect"), DF_STR("100-continue")}},
        {"GET", "http://127.0.0.1/", {DF_STR("X"), {long_url, 70000}}},
    };
    struct df_http_client *c = client_new();

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct outcome o;
        struct df_call_header header = rows[i].header;
        char *filler = NULL;
        if (header.value.len == 70000) {
            filler = malloc(70000);
            memset(filler, 'v', 70000);
            header.value.ptr = filler;
        }
        prepare(&o, NULL, 1, "/");
        o.call.method = rows[i].method;
        o.call.url = rows[i].url;
        o.call.headers = &header;
        o.call.header_count = 1;
        run_call(c, &o);
        if (o.code != DF_E_BAD_REQUEST)
            fail_msg("row %zu: %s %s", i, df_code_name(o.code), o.detail);
        assert_false(o.call.maybe_sent);
        free(o.body);
        free(filler);
    }
    df_http_client_free(c);
}

/* In line, on a wire, and sent afterwards; others are left alone. */
static void a_caller_gives_its_own_calls_up(void **state)
{
    (void)state;
    enum { N = 20 };
    struct peer *p = peer_start();
    struct df_http_client *c =
        client_with(&(struct df_http_client_options){.max_in_flight = 4, .max_per_destination = 4});
    struct gate g, kept;
    struct outcome *given_up = df_calloc(N + 1, sizeof(*given_up)), other;
    atomic_bool cut = false;

    gate_init(&g);
    gate_init(&kept);
    prepare(&other, &kept, p->port, "/hang");
    df_http_client_send(c, &other.call);
    for (int i = 0; i < N + 1; i++) {
        prepare(&given_up[i], &g, p->port, "/hang");
        given_up[i].call.cut = &cut;
        if (i < N)
            df_http_client_send(c, &given_up[i].call);
    }
    atomic_store(&cut, true);
    df_http_client_cut(c);
    gate_wait(&g, N);
    df_http_client_send(c, &given_up[N].call);
    gate_wait(&g, N + 1);
    for (int i = 0; i < N + 1; i++) {
        assert_int_equal(given_up[i].code, DF_E_CANCELLED);
        assert_int_equal(given_up[i].done_count, 1);
        free(given_up[i].body);
    }
    assert_int_equal(other.done_count, 0);
    df_http_client_free(c);
    assert_int_equal(other.done_count, 1);
    free(other.body);
    free(given_up);
    peer_stop(p);
}

static void closing_cancels_everything_once(void **state)
{
    (void)state;
    enum { N = 300 };
    struct peer *p = peer_start();
    struct df_http_client *c =
        client_with(&(struct df_http_client_options){.max_in_flight = 8, .max_per_destination = 8});
    struct gate g;
    struct outcome *outcomes = df_calloc(N, sizeof(*outcomes));

    gate_init(&g);
    for (int i = 0; i < N; i++) {
        prepare(&outcomes[i], &g, p->port, "/hang");
        df_http_client_send(c, &outcomes[i].call);
    }
    df_http_client_free(c);
    for (int i = 0; i < N; i++) {
        assert_int_equal(outcomes[i].code, DF_E_CANCELLED);
        assert_int_equal(outcomes[i].done_count, 1);
        free(outcomes[i].body);
    }
    free(outcomes);
    peer_stop(p);
}

struct chain {
    struct outcome o;
    struct df_http_client *client;
    int left;
};

static void send_again(struct df_call *call)
{
    struct chain *ch = call->arg;
    if (ch->left-- > 0)
        df_http_client_send(ch->client, call);
    else
        note(call);
}

static void done_may_send_again(void **state)
{
    (void)state;
    /* One that is answered, one that is refused at once: both come back through the thread. */
    static const char *const paths[] = {"/ok", NULL};
    struct peer *p = peer_start();
    struct df_http_client *c = client_new();

    for (size_t i = 0; i < 2; i++) {
        struct chain ch = {.client = c, .left = 200};
        struct gate g;
        gate_init(&g);
        prepare(&ch.o, &g, p->port, paths[i] ? paths[i] : "/");
        ch.o.call.done = send_again;
        ch.o.call.arg = &ch;
        if (!paths[i])
            ch.o.call.url = "gopher://nowhere/";
        df_http_client_send(c, &ch.o.call);
        gate_wait(&g, 1);
        assert_int_equal(ch.o.code, paths[i] ? DF_OK : DF_E_BAD_REQUEST);
        free(ch.o.body);
    }
    assert_int_equal(atomic_load(&p->requests), 201);
    df_http_client_free(c);
    peer_stop(p);
}

struct unasked {
    struct outcome first, second;
    struct df_http_client *client;
    struct peer *peer;
};

static void send_second(struct df_call *call)
{
    struct unasked *u = call->arg;

    peer_open(u->peer);
    while (!atomic_load(&u->peer->said_unasked))
        (void)sched_yield();
    df_http_client_send(u->client, &u->second.call);
    note(call);
}

/* However soon the connection would be used again. */
static void unasked_answer_is_not_the_next_calls(void **state)
{
    (void)state;
    struct peer *p = peer_start();
    struct unasked u = {.client = client_new(), .peer = p};
    struct gate g;

    gate_init(&g);
    prepare(&u.first, &g, p->port, "/twice");
    prepare(&u.second, &g, p->port, "/ok");
    u.first.call.done = send_second;
    u.first.call.arg = &u;
    df_http_client_send(u.client, &u.first.call);
    gate_wait(&g, 2);
    assert_string_equal(u.first.body, "first");
    assert_string_equal(u.second.body, "hello");
    assert_int_equal(peer_connections(p), 2);
    free(u.first.body);
    free(u.second.body);
    df_http_client_free(u.client);
    peer_stop(p);
}

static void done_may_send_while_closing(void **state)
{
    (void)state;
    struct peer *p = peer_start();
    struct df_http_client *c = client_new();
    struct chain ch = {.client = c, .left = 3};
    struct gate g;

    gate_init(&g);
    prepare(&ch.o, &g, p->port, "/hang");
    ch.o.call.done = send_again;
    ch.o.call.arg = &ch;
    df_http_client_send(c, &ch.o.call);
    df_http_client_free(c);
    assert_int_equal(ch.o.code, DF_E_CANCELLED);
    assert_int_equal(ch.o.done_count, 1);
    free(ch.o.body);
    peer_stop(p);
}

struct sender {
    struct df_http_client *client;
    unsigned port;
    int ok;
};

static void stopping_cancels_what_is_in_hand_and_what_comes_later(void **state)
{
    (void)state;
    enum { N = 300 };
    struct peer *p = peer_start();
    struct peer *later = peer_start();
    struct df_http_client *c =
        client_with(&(struct df_http_client_options){.max_in_flight = 8, .max_per_destination = 8});
    struct gate g;
    struct outcome *outcomes = df_calloc(N + 2, sizeof(*outcomes));

    gate_init(&g);
    for (int i = 0; i < N; i++) {
        prepare(&outcomes[i], &g, p->port, i % 2 ? "/hang" : "/ok");
        df_http_client_send(c, &outcomes[i].call);
    }
    df_http_client_stop(c);
    assert_int_equal(g.done, N); /* nothing is in hand any more: the lock is not needed */
    for (int i = N; i < N + 2; i++) {
        prepare(&outcomes[i], &g, later->port, "/ok");
        df_http_client_send(c, &outcomes[i].call);
        gate_wait(&g, (size_t)i + 1);
        assert_int_equal(outcomes[i].code, DF_E_CANCELLED);
        df_http_client_stop(c); /* again: nothing to do */
    }
    df_http_client_free(c);
    assert_int_equal(atomic_load(&later->requests), 0);
    for (int i = 0; i < N + 2; i++) {
        assert_true(outcomes[i].code == DF_E_CANCELLED ||
                    (i % 2 == 0 && outcomes[i].code == DF_OK));
        assert_int_equal(outcomes[i].done_count, 1);
        free(outcomes[i].body);
    }
    free(outcomes);
    peer_stop(p);
    peer_stop(later);
}

static void *send_until_cancelled(void *arg)
{
    struct sender *s = arg;
    struct outcome o = {.code = DF_OK};

    while (o.code == DF_OK) {
        get(s->client, &o, s->port, "/ok");
        free(o.body);
        s->ok += o.code == DF_OK;
    }
    for (int i = 0; i < 100 && o.code == DF_E_CANCELLED; i++) {
        get(s->client, &o, s->port, "/ok");
        free(o.body);
    }
    return o.code == DF_E_CANCELLED ? NULL : s;
}

static void many_threads_may_send_while_it_stops(void **state)
{
    (void)state;
    enum { N = 8 };
    struct peer *p = peer_start();
    struct df_http_client *c = client_new();
    struct sender senders[N];
    pthread_t threads[N];
    void *failed = NULL;

    for (int i = 0; i < N; i++) {
        senders[i] = (struct sender){.client = c, .port = p->port};
        assert_int_equal(pthread_create(&threads[i], NULL, send_until_cancelled, &senders[i]), 0);
    }
    while (atomic_load(&p->requests) < 10)
        (void)usleep(1000);
    df_http_client_stop(c);
    for (int i = 0; i < N; i++) {
        (void)pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    df_http_client_free(c);
    peer_stop(p);
}

static void free_in_done(struct df_call *call)
{
    struct gate *g = call->arg;
    free(call);
    gate_signal(g);
}

static void five_thousand_calls_all_end(void **state)
{
    (void)state;
    enum { N = 5000 };
    struct peer *p = peer_start();
    struct df_http_client *c = client_new();
    struct gate g;
    char url[64];

    gate_init(&g);
    (void)snprintf(url, sizeof(url), "http://127.0.0.1:%u/ok", p->port);
    for (int i = 0; i < N; i++) {
        struct df_call *call = df_calloc(1, sizeof(*call));
        *call = (struct df_call){.method = "POST",
                                 .url = url,
                                 .body = DF_STR("{}"),
                                 .timeout_ms = 600000,
                                 .allow_private = true,
                                 .done = free_in_done,
                                 .arg = &g};
        df_http_client_send(c, call);
    }
    gate_wait(&g, N);
    assert_int_equal(atomic_load(&p->requests), N);
    assert_true(peer_connections(p) <= 64);
    df_http_client_free(c);
    peer_stop(p);
}

static void *send_many(void *arg)
{
    struct sender *s = arg;
    for (int i = 0; i < 100; i++) {
        struct outcome o;
        get(s->client, &o, s->port, "/ok");
        s->ok += o.code == DF_OK && o.status == 200 && strcmp(o.body, "hello") == 0;
        free(o.body);
    }
    return NULL;
}

static void many_threads_may_send(void **state)
{
    (void)state;
    enum { N = 8 };
    struct peer *p = peer_start();
    struct df_http_client *c = client_new();
    struct sender senders[N];
    pthread_t threads[N];

    for (int i = 0; i < N; i++) {
        senders[i] = (struct sender){.client = c, .port = p->port};
        assert_int_equal(pthread_create(&threads[i], NULL, send_many, &senders[i]), 0);
    }
    for (int i = 0; i < N; i++) {
        (void)pthread_join(threads[i], NULL);
        assert_int_equal(senders[i].ok, 100);
    }
    df_http_client_free(c);
    peer_stop(p);
}

static void proxies_of_the_environment_are_not_used(void **state)
{
    (void)state;
    struct peer *p = peer_start();
    struct df_http_client *c = client_new();
    struct outcome o;

    assert_int_equal(setenv("http_proxy", "http://127.0.0.1:1", 1), 0);
    assert_int_equal(setenv("ALL_PROXY", "http://127.0.0.1:1", 1), 0);
    get(c, &o, p->port, "/ok");
    (void)unsetenv("http_proxy");
    (void)unsetenv("ALL_PROXY");
    assert_int_equal(o.code, DF_OK);
    free(o.body);
    df_http_client_free(c);
    peer_stop(p);
}

static void outcomes_are_counted(void **state)
{
    (void)state;
    struct df_buf before;
    struct df_buf after;
    struct peer *p = peer_start();
    struct df_http_client *c = client_new();
    struct outcome o;

    df_buf_init(&before, 1 << 20);
    df_buf_init(&after, 1 << 20);
    get(c, &o, p->port, "/status/418");
    free(o.body);
    df_metrics_write(&after);
    assert_non_null(strstr(after.ptr, "dataflow_http_client_requests_total{outcome=\"4xx\"} "));
    assert_non_null(strstr(after.ptr, "dataflow_http_client_seconds_count "));
    assert_non_null(strstr(after.ptr, "dataflow_http_client_in_flight 0"));
    df_buf_release(&before);
    df_buf_release(&after);
    df_http_client_free(c);
    peer_stop(p);
}

/* --- TLS --- */

static void tls_handle(struct df_req *req)
{
    df_req_answer_static(req, 200, "text/plain", DF_STR("private"));
}

static const struct df_route tls_routes[] = {
    {.method = "GET", .pattern = "/", .handle = tls_handle}, {.method = NULL}};
static const struct df_route_table tls_tables[] = {{.routes = tls_routes}, {.routes = NULL}};

static void trust(const char *ca_file)
{
    struct df_err err = DF_ERR_INIT;
    const struct df_security_settings s = {.ca_file = ca_file};
    if (df_security_use(&s, &err) != DF_OK)
        fail_msg("%s", err.detail);
}

static void certificates_are_verified(void **state)
{
    (void)state;
    char cert[] = "/tmp/df-cert-XXXXXX";
    char key[] = "/tmp/df-key-XXXXXX";
    struct df_http_server *server = NULL;
    struct df_err err = DF_ERR_INIT;
    write_certificate(cert, key);
    const struct df_http_options opt = {.settings.listen = "127.0.0.1:0",
                                        .settings.threads = 1,
                                        .settings.tls_cert = cert,
                                        .settings.tls_key = key,
                                        .clock = df_clock_real(),
                                        .tables = tls_tables};
    assert_int_equal(df_http_start(&opt, &server, &err), DF_OK);

    static const struct {
        bool with_ca;
        const char *host;
        enum df_code code;
        const char *why;
    } rows[] = {{false, "127.0.0.1", DF_E_NET_TLS, "unknown authority"},
                {true, "127.0.0.1", DF_OK, ""},
                /* The certificate names the address only. */
                {true, "localhost", DF_E_NET_TLS, "another host name"}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct outcome o;
        trust(rows[i].with_ca ? cert : NULL);
        struct df_http_client *c = client_new();
        prepare(&o, NULL, 1, "/");
        (void)snprintf(o.url, sizeof(o.url), "https://%s:%u/", rows[i].host, port_of(server));
        run_call(c, &o);
        if (o.code != rows[i].code || !strstr(o.detail, rows[i].why))
            fail_msg("row %zu: %s %s", i, df_code_name(o.code), o.detail);
        assert_int_equal(o.call.maybe_sent, rows[i].code == DF_OK);
        free(o.body);
        df_http_client_free(c);
    }
    trust(NULL);
    df_http_stop(server);
    (void)unlink(cert);
    (void)unlink(key);
}

static void settings_of_trust_that_are_wrong_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *ca_file, *proxy, *says;
    } rows[] = {
        {"/nonexistent", NULL, "/nonexistent"},
        {"/etc/hostname", NULL, "no PEM certificate"},
        {"/tmp", NULL, "no PEM certificate"},
        {NULL, "proxy:3128", "must begin with http"},
        {NULL, "https://proxy:3128", "http://host:port"},
        {NULL, "http://proxy:3128/path", "without a path"},
        {NULL, "http://user@proxy:3128", "password"},
        {NULL, "http://us\ner:p@proxy", ""},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct df_err err = DF_ERR_INIT;
        struct df_secret *proxy = df_secret_new(df_str_c(rows[i].proxy));
        const struct df_security_settings s = {.ca_file = rows[i].ca_file, .proxy = proxy};
        if (df_security_use(&s, &err) == DF_OK || !strstr(err.detail, rows[i].says))
            fail_msg("row %zu: %s", i, err.detail);
        df_secret_free(proxy);
    }
}

/* --- addresses and URLs --- */

static bool is_public(const char *text)
{
    struct sockaddr_in in = {.sin_family = AF_INET};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};
    if (inet_pton(AF_INET, text, &in.sin_addr) == 1)
        return df_address_is_public((struct sockaddr *)&in);
    assert_int_equal(inet_pton(AF_INET6, text, &in6.sin6_addr), 1);
    return df_address_is_public((struct sockaddr *)&in6);
}

static void public_and_other_addresses_are_told_apart(void **state)
{
    (void)state;
    static const char *const public[] = {
        "1.1.1.1",         "8.8.8.8",     "9.255.255.255",   "11.0.0.0",
        "100.63.255.255",  "100.128.0.0", "126.255.255.255", "128.0.0.0",
        "169.253.255.255", "169.255.0.0", "172.15.255.255",  "172.32.0.0",
        "191.255.255.255", "192.0.1.0",   "192.167.255.255", "192.169.0.0",
        "198.17.255.255",  "198.20.0.0",  "223.255.255.255", "2001:4860:4860::8888",
        "2606:4700::1111", "2a00::1",     "::ffff:8.8.8.8",  "64:ff9b::8.8.8.8",
        "2002:808:808::1", "2001:200::",  "3fff:1000::",
    };
    static const char *const other[] = {
        "0.0.0.0",
        "0.255.255.255",
        "10.0.0.0",
        "10.255.255.255",
        "100.64.0.0",
        "100.127.255.255",
        "127.0.0.1",
        "127.255.255.255",
        "169.254.0.0",
        "169.254.169.254",
        "172.16.0.0",
        "172.31.255.255",
        "192.0.0.0",
        "192.0.0.255",
        "192.0.2.1",
        "192.88.99.1",
        "192.168.0.0",
        "192.168.255.255",
        "198.18.0.0",
        "198.19.255.255",
        "198.51.100.7",
        "203.0.113.9",
        "224.0.0.1",
        "239.255.255.255",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::8.8.8.8",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "64:ff9b::10.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b:1::1",
        "100::1",
        "2001::1",
        "2001:1ff:ffff::1",
        "2001:db8::1",
        "2002:7f00:1::",
        "2002:a00:1::1",
        "fc00::1",
        "fdff::1",
        "fe80::1",
        "febf::1",
        "fec0::1",
        "feff::1",
        "ff02::1",
        "4000::1",
        "::ffff:0:127.0.0.1",
        "3fff:fff::",
        "5f00::1",
        "ff0e::1",
        "fd00:ec2::254",
        "2002:a9fe:a9fe::",
        "64:ff9b::169.254.169.254",
        "::ffff:169.254.169.254",
        "::127.0.0.1",
        "2001::ffff:80ff:fffe",
        "2001:0:7f00:1::",
        "1::",
    };

    for (size_t i = 0; i < sizeof(public) / sizeof(public[0]); i++)
        if (!is_public(public[i]))
            fail_msg("%s is public", public[i]);
    for (size_t i = 0; i < sizeof(other) / sizeof(other[0]); i++)
        if (is_public(other[i]))
            fail_msg("%s is not public", other[i]);
    struct sockaddr unix_socket = {.sa_family = AF_UNIX};
    assert_false(df_address_is_public(&unix_socket));
}

static void urls_are_taken_apart(void **state)
{
    (void)state;
    static const struct {
        const char *url;
        bool tls;
        const char *userinfo;
        const char *host;
        unsigned port;
        const char *rest;
    } rows[] = {
        {"http://example.com", false, NULL, "example.com", 80, ""},
        {"HTTPS://Example.com/", true, NULL, "Example.com", 443, "/"},
        {"http://h:8080/p?q=1#f", false, NULL, "h", 8080, "/p?q=1#f"},
        {"http://h?x", false, NULL, "h", 80, "?x"},
        {"http://h:/", false, NULL, "h", 80, "/"},
        {"https://u:p@h:1/", true, "u:p", "h", 1, "/"},
        {"http://[::1]:65535/", false, NULL, "::1", 65535, "/"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct df_url u;
        struct df_err err = DF_ERR_INIT;
        assert_int_equal(df_url_parse(df_str_c(rows[i].url), &u, &err), DF_OK);
        assert_int_equal(u.tls, rows[i].tls);
        assert_true(df_str_eq(u.userinfo, df_str_c(rows[i].userinfo)));
        assert_true(df_str_eq(u.host, df_str_c(rows[i].host)));
        assert_int_equal(u.port, rows[i].port);
        assert_true(df_str_eq(u.rest, df_str_c(rows[i].rest)));
    }
}

static void a_destination_has_one_name(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"https://host", "https://host"},
        {"https://Host/a/b?c=d#e", "https://host"},
        {"HTTPS://HOST:443", "https://host"},
        {"https://host:/", "https://host"},
        {"https://host.", "https://host"},
        {"https://hOst.:0443?x", "https://host"},
        {"https://user:secret@host/", "https://host"},
        {"https://host:80/", "https://host:80"},
        {"https://host:8443/", "https://host:8443"},
        {"http://host:443/", "http://host:443"},
        {"http://host:80/", "http://host"},
        {"http://host:00080/", "http://host"},
        {"http://127.0.0.1:8080/x", "http://127.0.0.1:8080"},
        {"http://h.example.com.:8080", "http://h.example.com:8080"},
        {"http://./", "http://."},
        {"http://a../", "http://a."},
        {"http://[::1]/", "http://[::1]"},
        {"http://[0:0:0:0:0:0:0:1]:80/", "http://[::1]"},
        {"https://[2001:DB8::A]:443/", "https://[2001:db8::a]"},
        {"https://[2001:db8:0:0::a]:8443/", "https://[2001:db8::a]:8443"},
        {"http://[::FFFF:192.0.2.1]/", "http://[::ffff:192.0.2.1]"},
        {"http://[1:2]/", "http://[1:2]"}, /* no address: as it is */
        {"ftp://host", "invalid URL"},
        {"", "invalid URL"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char out[DF_DESTINATION_SIZE];
        struct df_str name = df_destination_of(rows[i][0], out);
        if (!df_str_eq(name, df_str_c(rows[i][1])))
            fail_msg("%s: " DF_STR_FMT, rows[i][0], DF_STR_ARG(name));
    }
    char longest[300] = "https://";
    char out[DF_DESTINATION_SIZE];
    memset(longest + 8, 'A', 253);
    memcpy(longest + 8 + 253, ":65535", 7);
    assert_int_equal(df_destination_of(longest, out).len, 8 + 253 + 6);
}

static void malformed_urls_are_refused(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "",
        "example.com",
        "//example.com/",
        "http:/example.com",
        "http://",
        "http:///path",
        "http://:80/",
        "http://u@/",
        "ftp://h/",
        "javascript:alert(1)",
        "http://h:0/",
        "http://h:65536/",
        "http://h:99999999999/",
        "http://h:8a/",
        "http://h:-1/",
        "http://a@b@c/",
        "http://h\\@evil/",
        "http://h\t/",
        "http://h/\x7f",
        "http://h/\xc3\xa9",
        "http://h\xc3\xa9/",
        "http://h%00/",
        "http://[::1/",
        "http://[::1]x/",
        "http://[]/",
        "http://[fe80::1%25eth0]/",
        "http://h/<script>",
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct df_url u;
        struct df_err err = DF_ERR_INIT;
        if (df_url_parse(df_str_c(rows[i]), &u, &err) != DF_E_BAD_REQUEST)
            fail_msg("accepted: %s", rows[i]);
        assert_true(strlen(err.detail) > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_of_any_status_are_answers),
        cmocka_unit_test(request_arrives_as_given),
        cmocka_unit_test(methods_without_a_body_send_none),
        cmocka_unit_test(head_sends_no_body_even_if_it_has_one),
        cmocka_unit_test(large_body_arrives_whole),
        cmocka_unit_test(large_answer_is_cut_and_the_connection_kept),
        cmocka_unit_test(endless_answer_counts_as_what_its_head_says),
        cmocka_unit_test(redirect_is_not_followed),
        cmocka_unit_test(connection_is_kept_alive),
        cmocka_unit_test(refused_connection_is_reported),
        cmocka_unit_test(unknown_name_is_reported),
        cmocka_unit_test(silent_peer_is_a_timeout),
        cmocka_unit_test(broken_answers_are_network_errors),
        cmocka_unit_test(time_is_up_while_waiting_in_line),
        cmocka_unit_test(slow_destination_does_not_hold_up_another),
        cmocka_unit_test(destinations_take_turns),
        cmocka_unit_test(each_destination_has_one_thread),
        cmocka_unit_test(threads_share_the_places),
        cmocka_unit_test(retry_after_is_understood),
        cmocka_unit_test(header_fields_are_kept_for_those_who_ask),
        cmocka_unit_test(private_targets_are_refused_however_written),
        cmocka_unit_test(name_that_resolves_otherwise_the_second_time_is_refused),
        cmocka_unit_test(second_address_is_dialled_when_the_first_is_dead),
        cmocka_unit_test(private_connection_is_not_lent_to_a_public_call),
        cmocka_unit_test(stale_connection_repeats_only_what_is_safe),
        cmocka_unit_test(request_may_have_arrived_though_it_cannot_be_repeated),
        cmocka_unit_test(connections_closed_while_idle_are_opened_again),
        cmocka_unit_test(calls_that_cannot_be_sent_are_refused),
        cmocka_unit_test(a_caller_gives_its_own_calls_up),
        cmocka_unit_test(closing_cancels_everything_once),
        cmocka_unit_test(unasked_answer_is_not_the_next_calls),
        cmocka_unit_test(done_may_send_again),
        cmocka_unit_test(done_may_send_while_closing),
        cmocka_unit_test(stopping_cancels_what_is_in_hand_and_what_comes_later),
        cmocka_unit_test(many_threads_may_send_while_it_stops),
        cmocka_unit_test(five_thousand_calls_all_end),
        cmocka_unit_test(many_threads_may_send),
        cmocka_unit_test(proxies_of_the_environment_are_not_used),
        cmocka_unit_test(outcomes_are_counted),
        cmocka_unit_test(certificates_are_verified),
        cmocka_unit_test(settings_of_trust_that_are_wrong_are_refused),
        cmocka_unit_test(public_and_other_addresses_are_told_apart),
        cmocka_unit_test(urls_are_taken_apart),
        cmocka_unit_test(a_destination_has_one_name),
        cmocka_unit_test(malformed_urls_are_refused),
    };
    int failed = cmocka_run_group_tests_name("one thread", tests, NULL, NULL);
    client_threads = 4;
    return failed + cmocka_run_group_tests_name("four threads", tests, NULL, NULL);
}

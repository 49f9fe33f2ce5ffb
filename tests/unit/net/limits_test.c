/*
 * The HTTP server's start and end, and what it does in between with peers that are slow or too
 * many. Deadlines are set short through the options.
 */
#include "fixture.h"

#include "base/metrics.h"
#include "net/http_int.h"

#include <curl/curl.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

/* --- deadlines and limits --------------------------------------------------------------------- */

static struct df_http_options impatient(void)
{
    struct df_http_options opt = defaults();
    opt.settings.header_timeout_ms = 150;
    opt.settings.idle_timeout_ms = 150;
    opt.grace_ms = 150;
    opt.body_min_rate = 100000;
    return opt;
}

/* Sends a byte now and then until the server has had enough. */
static void trickle(struct peer *p, const char *beginning)
{
    for (int i = 0; i < ATTEMPT_S * 100; i++) {
        char c;
        if (!try_send(p, "a", 1))
            return;
        usleep(10000);
        if (recv(p->fd, &c, 1, MSG_DONTWAIT) == 0)
            return;
    }
    fail_msg("a slow peer is never closed after: %s", beginning);
}

static void slow_peers_are_closed(void **state)
{
    (void)state;
    static const char *const beginnings[] = {
        "",
        "GET /",
        "GET /ping HTTP/1.1\r\n" H "X-A: ",
        "POST /echo HTTP/1.1\r\n" H "Content-Length: 60000\r\n\r\n",
        "POST /stream HTTP/1.1\r\n" H "Content-Length: 60000\r\n\r\n",
        "POST /stream?wait HTTP/1.1\r\n" H "Content-Length: 60000\r\n\r\nb",
        "POST /nowhere HTTP/1.1\r\n" H "Content-Length: 60000\r\n\r\n",
        "POST /echo HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\nffff;",
        "POST /echo HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n0\r\nX-Trailer: ",
        "GET /ping HTTP/1.1\r\n" H "\r\nGET /",
    };
    struct df_http_options opt = impatient();
    struct df_http_server *s = start(&opt);

    for (size_t i = 0; i < COUNT(beginnings); i++) {
        struct peer p = dial(s);
        say_to(&p, beginnings[i]);
        trickle(&p, beginnings[i]);
        hang_up(&p);
    }
    df_http_stop(s);
}

static void silent_peers_are_closed(void **state)
{
    (void)state;
    static const char *const beginnings[] = {
        "",
        "GET /ping HTTP/1.1\r\n",
        "POST /echo HTTP/1.1\r\n" H "Content-Length: 10\r\n\r\nabc",
        "POST /stream?wait HTTP/1.1\r\n" H "Content-Length: 10\r\n\r\nabc",
        "POST /echo HTTP/1.1\r\n" H "Expect: 100-continue\r\nContent-Length: 10\r\n\r\n",
        "GET /ping HTTP/1.1\r\n" H "\r\n",
    };
    struct df_http_options opt = impatient();
    struct df_http_server *s = start(&opt);

    for (size_t i = 0; i < COUNT(beginnings); i++) {
        struct peer p = dial(s);
        say_to(&p, beginnings[i]);
        while (more(&p))
            continue;
        hang_up(&p);
    }
    df_http_stop(s);
}

static void a_peer_that_does_not_read_is_closed(void **state)
{
    (void)state;
    struct df_http_options opt = impatient();
    struct df_http_server *s = start(&opt);
    int before = ended;

    struct peer p = dial(s);
    int small = 4096;
    setsockopt(p.fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
    say_to(&p, "GET /big HTTP/1.1\r\n" H "\r\n");
    wait_for(&ended, before + 1);
    hang_up(&p);
    df_http_stop(s);
}

static void a_peer_that_reads_gets_a_big_answer(void **state)
{
    (void)state;
    struct reply r = ask(shared, "GET /big HTTP/1.1\r\n" H "\r\n");
    assert_int_equal(r.body_len, sizeof(big));
}

static void a_request_set_aside_is_never_closed(void **state)
{
    (void)state;
    struct df_http_options opt = impatient();
    opt.settings.header_timeout_ms = 10000; /* of no concern here, and this machine may be slow */
    struct df_http_server *s = start(&opt);

    holding = 1000; /* several times every other deadline */
    struct peer p = dial(s);
    say_to(&p, "POST /aside HTTP/1.1\r\n" H "Content-Length: 2\r\n\r\nhi");
    struct reply r = listen_to(&p, false);
    holding = 0;
    assert_string_equal(r.body, "hi");
    hang_up(&p);
    df_http_stop(s);
}

static void connections_are_limited_by_address(void **state)
{
    (void)state;
    struct df_http_options opt = defaults();
    struct peer p[3];

    opt.settings.max_connections_per_address = 2;
    struct df_http_server *s = start(&opt);
    for (int i = 0; i < 2; i++) {
        p[i] = dial(s);
        say_to(&p[i], "GET /ping HTTP/1.1\r\n" H "\r\n");
        struct reply r = listen_to(&p[i], false);
        assert_int_equal(r.status, 200);
    }
    p[2] = dial(s);
    assert_true(is_closed(&p[2]));
    hang_up(&p[2]);
    hang_up(&p[0]);
    /* The place becomes free as soon as the server has noticed. */
    int status = 0;
    for (int i = 0; i < ATTEMPT_S * 100 && status != 200; i++) {
        p[0] = dial(s);
        (void)try_send(&p[0], "GET /ping HTTP/1.1\r\n" H "\r\n", 31);
        struct reply r = listen_to(&p[0], false);
        status = r.status;
        hang_up(&p[0]);
        usleep(10000);
    }
    assert_int_equal(status, 200);
    hang_up(&p[1]);
    df_http_stop(s);
}

/* What a proxy says counts when the proxy is trusted, and its connections are many callers'. */
static void a_trusted_proxy_names_the_caller_and_has_no_limit(void **state)
{
    (void)state;
    struct df_http_options opt = defaults();
    struct peer p[3];

    opt.settings.max_connections_per_address = 1;
    opt.settings.trusted_proxies = "192.0.2.1,127.0.0.1";
    struct df_http_server *s = start(&opt);
    for (int i = 0; i < 3; i++) {
        p[i] = dial(s);
        say_to(&p[i], "GET /show/1 HTTP/1.1\r\n" H
                      "X-Forwarded-For: 127.0.0.1, 2001:db8:0:1:2::3, 192.0.2.1\r\n\r\n");
        struct reply r = listen_to(&p[i], false);
        assert_int_equal(r.status, 200);
        assert_non_null(
            strstr(r.body, "peer=2001:db8:0:1:2::3\nnetwork=2001:db8:0:1::/64\nloopback=0\n"));
        /* The next request on the same connection is somebody else's. */
        say_to(&p[i], "GET /show/1 HTTP/1.1\r\n" H "Forwarded: for=198.51.100.9\r\n\r\n");
        r = listen_to(&p[i], false);
        assert_non_null(strstr(r.body, "peer=198.51.100.9\nnetwork=198.51.100.9\nloopback=0\n"));
        say_to(&p[i], "GET /show/1 HTTP/1.1\r\n" H "\r\n");
        r = listen_to(&p[i], false);
        assert_non_null(strstr(r.body, "peer=127.0.0.1\nnetwork=127.0.0.1\nloopback=1\n"));
    }
    for (int i = 0; i < 3; i++)
        hang_up(&p[i]);
    df_http_stop(s);
}

/* A field from anybody else is ignored, but whoever passes requests on is not this machine. */
static void a_stranger_names_nobody(void **state)
{
    (void)state;
    static const char *const fields[] = {"X-Forwarded-For: 127.0.0.1", "Forwarded: for=127.0.0.1",
                                         "Via: 1.1 proxy", "X-Real-IP: 127.0.0.1",
                                         "X-Forwarded-Proto: https"};
    struct df_http_options opt = defaults();

    opt.settings.trusted_proxies = "192.0.2.0/24";
    struct df_http_server *s = start(&opt);
    for (size_t i = 0; i < COUNT(fields); i++) {
        char text[256];
        snprintf(text, sizeof(text), "GET /show/1 HTTP/1.1\r\n" H "%s\r\n\r\n", fields[i]);
        struct reply r = ask(s, text);
        assert_non_null(strstr(r.body, "peer=127.0.0.1\nnetwork=127.0.0.1\nloopback=0\n"));
    }
    df_http_stop(s);
}

static void a_list_of_proxies_that_is_none_is_refused(void **state)
{
    (void)state;
    struct df_http_options opt = defaults();
    struct df_http_server *s = NULL;
    struct df_err err = DF_ERR_INIT;

    opt.settings.trusted_proxies = "10.0.0.0/8, proxy";
    assert_int_equal(df_http_start(&opt, &s, &err), DF_E_CONFIG);
    assert_null(s);
}

/* --- memory ----------------------------------------------------------------------------------- */

/* One who has said it will send so much, and does not. */
static struct peer promise(struct df_http_server *s, const char *who, size_t bytes)
{
    struct peer p = dial(s);
    char text[256];

    snprintf(text, sizeof(text),
             "POST /echo HTTP/1.1\r\n" H "X-Owner: %s\r\nContent-Length: %zu\r\n\r\na", who, bytes);
    say_to(&p, text);
    return p;
}

static void wait_for_bytes(struct df_http_server *s, size_t bytes)
{
    for (int i = 0; i < ATTEMPT_S * 1000 && df_budget_used(s->budget) != bytes; i++)
        usleep(1000);
    assert_int_equal(df_budget_used(s->budget), bytes);
}

static void bodies_past_the_budget_are_refused(void **state)
{
    (void)state;
    struct df_http_options opt = defaults();
    struct peer held[5];

    /* Four owners with one body each, and no byte more. */
    opt.settings.memory_budget_bytes = (size_t)4 * 50001;
    struct df_http_server *s = start(&opt);
    for (size_t i = 0; i < 4; i++) {
        const char who[] = {(char)('a' + i), '\0'};
        held[i] = promise(s, who, 50000);
    }
    wait_for_bytes(s, opt.settings.memory_budget_bytes);
    held[4] = promise(s, "e", 50000);
    struct reply r = listen_to(&held[4], false);
    assert_problem(&r, 503, "Busy");
    assert_true(has(&r, "Retry-After", "1"));
    assert_non_null(strstr(r.body, "in this server"));
    hang_up(&held[4]);
    /* What is small is served all the same. */
    assert_pong(s);
    r = ask(s, "POST /echo HTTP/1.1\r\n" H "X-Owner: e\r\nContent-Length: 2\r\n\r\nhi");
    assert_string_equal(r.body, "hi");
    for (size_t i = 0; i < 4; i++)
        hang_up(&held[i]);
    wait_for_bytes(s, 0);
    df_http_stop(s);
}

static void one_owner_has_a_quarter(void **state)
{
    (void)state;
    static char chunk[40000];
    struct df_http_options opt = defaults();

    opt.settings.memory_budget_bytes = (size_t)4 * 60000;
    struct df_http_server *s = start(&opt);
    struct peer first = promise(s, "a", 50000);
    wait_for_bytes(s, 50001);
    struct peer second = promise(s, "a", 10001);
    struct reply r = listen_to(&second, false);
    assert_problem(&r, 503, "Busy");
    assert_non_null(strstr(r.body, "for this client"));
    hang_up(&second);
    /* One that does not say how long it is asks as it comes. */
    second = dial(s);
    say_to(&second,
           "POST /echo HTTP/1.1\r\n" H "X-Owner: a\r\nTransfer-Encoding: chunked\r\n\r\n9c40\r\n");
    (void)try_send(&second, chunk, sizeof(chunk));
    r = listen_to(&second, false);
    assert_problem(&r, 503, "Busy");
    hang_up(&second);
    /* Somebody else is not concerned. */
    second = promise(s, "b", 50000);
    wait_for_bytes(s, 2 * 50001);
    hang_up(&second);
    hang_up(&first);
    wait_for_bytes(s, 0);
    /* What can never be is said to be too large. */
    first = promise(s, "a", 60001);
    r = listen_to(&first, false);
    assert_problem(&r, 413, "PayloadTooLarge");
    hang_up(&first);
    df_http_stop(s);
}

static void answers_count_until_they_are_read(void **state)
{
    (void)state;
    struct df_http_options opt = defaults();
    struct peer p[4];

    opt.settings.memory_budget_bytes = (size_t)65 << 20;
    struct df_http_server *s = start(&opt);
    for (size_t i = 0; i < 3; i++) {
        int small = 4096;
        p[i] = dial(s);
        setsockopt(p[i].fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
        say_to(&p[i], "GET /built?bytes=9000000 HTTP/1.1\r\n" H "X-Owner: a\r\n\r\n");
        while (i == 0 && df_budget_used(s->budget) < 9000000)
            usleep(1000);
        if (i == 0)
            continue;
        struct reply r = listen_to(&p[i], false);
        assert_problem(&r, 503, "Busy");
        hang_up(&p[i]);
    }
    struct reply r = ask(s, "GET /built?bytes=9000000 HTTP/1.1\r\n" H "X-Owner: b\r\n\r\n");
    assert_int_equal(r.body_len, 9000000);
    r = ask(s, "GET /built?bytes=17000000 HTTP/1.1\r\n" H "X-Owner: c\r\n\r\n");
    assert_problem(&r, 413, "PayloadTooLarge");
    hang_up(&p[0]); /* who never reads, and then leaves, gives it back too */
    wait_for_bytes(s, 0);
    df_http_stop(s);
}

/* While it is not known who sends, nothing is kept of what comes. */
static void no_body_is_kept_before_its_sender_is_known(void **state)
{
    (void)state;
    static char body[60000];
    struct df_http_options opt = defaults();
    struct df_http_server *s = start(&opt);
    struct peer p = dial(s);

    kept = NULL;
    say_to(&p, "POST /echo HTTP/1.1\r\n" H "X-Who: asked\r\nContent-Length: 60000\r\n\r\n");
    assert_true(try_send(&p, body, sizeof(body)));
    while (!kept)
        usleep(1000);
    assert_int_equal(df_budget_used(s->budget), 0);
    assert_int_equal(df_req_body(kept).len, 0);
    df_req_fail(kept, DF_E_UNAUTHORIZED, "not you");
    df_req_resume(kept);
    struct reply r = listen_to(&p, false);
    assert_problem(&r, 401, "Unauthorized");
    assert_int_equal(df_budget_used(s->budget), 0);
    hang_up(&p);
    /* And when it turns out to be somebody who may, it is all there. */
    kept = NULL;
    p = dial(s);
    say_to(&p, "POST /echo HTTP/1.1\r\n" H "X-Who: asked\r\nContent-Length: 60000\r\n\r\n");
    assert_true(try_send(&p, body, sizeof(body)));
    while (!kept)
        usleep(1000);
    df_req_resume(kept);
    r = listen_to(&p, false);
    assert_int_equal(r.body_len, sizeof(body));
    hang_up(&p);
    df_http_stop(s);
}

static void connections_past_the_limit_wait(void **state)
{
    (void)state;
    struct df_http_options opt = defaults();

    opt.settings.max_connections = 1;
    struct df_http_server *s = start(&opt);
    struct peer first = dial(s);
    say_to(&first, "GET /ping HTTP/1.1\r\n" H "\r\n");
    struct reply r = listen_to(&first, false);
    assert_int_equal(r.status, 200);
    /* The first is idle and makes room. */
    struct peer second = dial(s);
    say_to(&second, "GET /ping HTTP/1.1\r\n" H "\r\n");
    r = listen_to(&second, false);
    assert_int_equal(r.status, 200);
    assert_true(is_closed(&first));
    hang_up(&second);
    hang_up(&first);
    df_http_stop(s);
}

/* --- drain and stop --------------------------------------------------------------------------- */

static void draining_finishes_what_is_in_hand(void **state)
{
    (void)state;
    struct df_http_options opt = defaults();
    struct df_http_server *s = start(&opt);
    struct peer idle = dial(s);
    struct peer busy = dial(s);

    say_to(&idle, "GET /ping HTTP/1.1\r\n" H "\r\n");
    struct reply r = listen_to(&idle, false);
    assert_int_equal(r.status, 200);
    kept = NULL;
    say_to(&busy, "GET /keep HTTP/1.1\r\n" H "\r\n");
    /* The peer has its answer a moment before the server is through with the request. */
    for (int i = 0; i < ATTEMPT_S * 100 && (!kept || df_http_active(s) != 1); i++)
        usleep(10000);
    assert_non_null(kept);
    assert_int_equal(df_http_active(s), 1);

    df_http_drain(s);
    assert_true(is_closed(&idle));
    assert_false(df_http_wait_idle(s, 50));
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)port_of(s)),
                            .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof(a)), -1);
    close(fd);

    struct df_req *req = kept;
    say(req, 200, DF_STR("finished"));
    df_req_resume(req);
    r = listen_to(&busy, false);
    assert_string_equal(r.body, "finished");
    assert_true(has(&r, "Connection", "close"));
    assert_true(is_closed(&busy));
    assert_true(df_http_wait_idle(s, ATTEMPT_S * INT64_C(1000)));
    hang_up(&busy);
    hang_up(&idle);
    df_http_stop(s);
}

static void draining_under_load_does_not_abort(void **state)
{
    (void)state;
    for (int round = 0; round < 10; round++) {
        struct df_http_options opt = defaults();
        struct df_http_server *s = start(&opt);
        pthread_t threads[4];
        struct peer peers[COUNT(threads)];
        for (size_t i = 0; i < COUNT(threads); i++) {
            peers[i] = dial(s);
            assert_int_equal(pthread_create(&threads[i], NULL, hammer, &peers[i]), 0);
        }
        usleep(5000);
        df_http_drain(s);
        for (size_t i = 0; i < COUNT(threads); i++) {
            pthread_join(threads[i], NULL);
            hang_up(&peers[i]);
        }
        assert_true(df_http_wait_idle(s, ATTEMPT_S * INT64_C(1000)));
        df_http_stop(s);
    }
}

static void stopping_answers_what_nobody_resumes(void **state)
{
    (void)state;
    struct df_http_options opt = defaults();
    struct df_http_server *s = start(&opt);
    struct peer p = dial(s);

    kept = NULL;
    say_to(&p, "GET /keep HTTP/1.1\r\n" H "\r\n");
    for (int i = 0; i < ATTEMPT_S * 100 && !kept; i++)
        usleep(10000);
    assert_non_null(kept);
    df_http_stop(s);
    struct reply r = listen_to(&p, false);
    assert_problem(&r, 503, "ShuttingDown");
    assert_true(has(&r, "Retry-After", "1"));
    hang_up(&p);
}

/* --- start ------------------------------------------------------------------------------------ */

static void assert_no_start(const struct df_http_options *opt, const char *words)
{
    struct df_http_server *s = NULL;
    struct df_err err = DF_ERR_INIT;

    assert_int_not_equal(df_http_start(opt, &s, &err), DF_OK);
    assert_null(s);
    if (!strstr(err.detail, words))
        fail_msg("\"%s\" does not say \"%s\"", err.detail, words);
}

static void a_bad_address_is_explained(void **state)
{
    (void)state;
    static const struct {
        const char *address, *words;
    } rows[] = {
        {NULL, "host:port"},
        {"", "host:port"},
        {"8080", "host:port"},
        {"127.0.0.1", "host:port"},
        {"127.0.0.1:", "port"},
        {"127.0.0.1:70000", "port"},
        {"127.0.0.1:-1", "port"},
        {"127.0.0.1:http", "port"},
        {"::1:8080", "[ipv6]:port"},
        {"[]:8080", "[ipv6]:port"},
        {"192.0.2.1:0", "192.0.2.1:0"},
        {"no.such.host.invalid:0", "no.such.host.invalid"},
    };
    struct df_http_options opt = defaults();

    for (size_t i = 0; i < COUNT(rows); i++) {
        opt.settings.listen = rows[i].address;
        assert_no_start(&opt, rows[i].words);
    }
    char taken[64];
    char words[128];
    snprintf(taken, sizeof(taken), "%s", df_http_address(shared));
    snprintf(words, sizeof(words), "address already in use: %s", taken);
    opt.settings.listen = taken;
    assert_no_start(&opt, words);
}

static void every_form_of_address_works(void **state)
{
    (void)state;
    static const char *const forms[] = {"127.0.0.1:0", "localhost:0", ":0", "[::1]:0", "[::]:0"};
    struct df_http_options opt = defaults();

    for (size_t i = 0; i < COUNT(forms); i++) {
        struct df_http_server *s = NULL;
        struct df_err err = DF_ERR_INIT;
        opt.settings.listen = forms[i];
        enum df_code rc = df_http_start(&opt, &s, &err);
        if (rc != DF_OK && strchr(forms[i], '[')) /* a machine without IPv6 */
            continue;
        assert_int_equal(rc, DF_OK);
        assert_true(port_of(s) > 0);
        df_http_stop(s);
    }
    df_http_stop(NULL);
}

static void an_heir_has_the_address_and_refuses_nobody(void **state)
{
    (void)state;
    struct df_http_options opt = defaults();
    struct df_http_server *elder = start(&opt);

    opt.settings.listen = "192.0.2.1:1"; /* not looked at */
    opt.elder = elder;
    struct df_http_server *heir = start(&opt);
    assert_string_equal(df_http_address(heir), df_http_address(elder));
    struct peer early = dial(elder);
    df_http_stop(elder);
    hang_up(&early);
    for (int i = 0; i < 20; i++)
        assert_pong(heir);
    df_http_stop(heir);
}

static void a_bad_route_is_a_start_error(void **state)
{
    (void)state;
    static const struct df_route twice[] = {{.method = "GET", .pattern = "/ping"},
                                            {.method = NULL}};
    static const struct df_route_table list[] = {
        {.routes = routes}, {.routes = twice}, {.routes = NULL}};
    struct df_http_options opt = defaults();

    opt.tables = list;
    assert_no_start(&opt, "GET /ping");
}

/* --- TLS -------------------------------------------------------------------------------------- */

static void write_pair(const char *cert_path, const char *key_path)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *cert = X509_new();
    X509_NAME *name = X509_get_subject_name(cert);

    X509_set_version(cert, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(cert), 1);
    X509_gmtime_adj(X509_getm_notBefore(cert), -3600);
    X509_gmtime_adj(X509_getm_notAfter(cert), 3600);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"localhost", -1, -1,
                               0);
    X509_set_issuer_name(cert, name);
    X509_set_pubkey(cert, key);
    assert_true(X509_sign(cert, key, EVP_sha256()) > 0);
    FILE *f = fopen(cert_path, "w");
    assert_non_null(f);
    PEM_write_X509(f, cert);
    fclose(f);
    f = fopen(key_path, "w");
    assert_non_null(f);
    PEM_write_PrivateKey(f, key, NULL, NULL, 0, NULL, NULL);
    fclose(f);
    X509_free(cert);
    EVP_PKEY_free(key);
}

struct tls_reply {
    long status;
    size_t len;
    char text[4096];
};

static size_t take(char *data, size_t size, size_t count, void *arg)
{
    struct tls_reply *r = arg;
    for (size_t i = 0; i < size * count && r->len < sizeof(r->text) - 1; i++)
        r->text[r->len++] = data[i];
    r->text[r->len] = '\0';
    return size * count;
}

static CURLcode ask_tls(const struct df_http_server *s, const char *path, const char *body,
                        size_t body_len, long version, struct tls_reply *r)
{
    char url[128];
    CURL *c = curl_easy_init();

    memset(r, 0, sizeof(*r));
    snprintf(url, sizeof(url), "https://%s%s", df_http_address(s), path);
    struct curl_slist *chunked = curl_slist_append(NULL, "Transfer-Encoding: chunked");
    chunked = curl_slist_append(chunked, "Expect:");
    curl_easy_setopt(c, CURLOPT_URL, url);
    curl_easy_setopt(c, CURLOPT_SSL_VERIFYPEER, 0L);
    curl_easy_setopt(c, CURLOPT_SSL_VERIFYHOST, 0L);
    curl_easy_setopt(c, CURLOPT_SSLVERSION, version);
    curl_easy_setopt(c, CURLOPT_SSL_CIPHER_LIST, "DEFAULT@SECLEVEL=0");
    curl_easy_setopt(c, CURLOPT_TIMEOUT, (long)ATTEMPT_S);
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, take);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, r);
    if (body) {
        curl_easy_setopt(c, CURLOPT_POSTFIELDS, body);
        curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE, (long)body_len);
        curl_easy_setopt(c, CURLOPT_HTTPHEADER, chunked);
    }
    CURLcode rc = curl_easy_perform(c);
    curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &r->status);
    curl_slist_free_all(chunked);
    curl_easy_cleanup(c);
    return rc;
}

static void tls_works_from_1_2_on(void **state)
{
    (void)state;
    char dir[] = "/tmp/net_server_test.XXXXXX";
    char cert[64], key[64], other_cert[64], other_key[64];
    static char body[200000];
    struct tls_reply r;

    assert_non_null(mkdtemp(dir));
    snprintf(cert, sizeof(cert), "%s/cert.pem", dir);
    snprintf(key, sizeof(key), "%s/key.pem", dir);
    snprintf(other_cert, sizeof(other_cert), "%s/cert2.pem", dir);
    snprintf(other_key, sizeof(other_key), "%s/key2.pem", dir);
    write_pair(cert, key);
    write_pair(other_cert, other_key);

    struct df_http_options opt = defaults();
    opt.settings.tls_cert = cert;
    assert_no_start(&opt, "both");
    opt.settings.tls_key = "/nonexistent/key.pem";
    assert_no_start(&opt, "/nonexistent/key.pem");
    opt.settings.tls_key = other_key;
    assert_no_start(&opt, "does not match");
    opt.settings.tls_key = cert;
    assert_no_start(&opt, "key");
    opt.settings.tls_cert = key;
    assert_no_start(&opt, "certificate");
    opt.settings.tls_cert = cert;
    opt.settings.tls_key = key;

    opt.settings.idle_timeout_ms = 500;
    struct df_http_server *s = start(&opt);
    const long v12 = CURL_SSLVERSION_TLSv1_2 | CURL_SSLVERSION_MAX_TLSv1_2;
    const long v13 = CURL_SSLVERSION_TLSv1_3;
    const long v11 = CURL_SSLVERSION_TLSv1_1 | CURL_SSLVERSION_MAX_TLSv1_1;
    assert_int_equal(ask_tls(s, "/ping", NULL, 0, v12, &r), CURLE_OK);
    assert_string_equal(r.text, "pong");
    assert_int_equal(ask_tls(s, "/ping", NULL, 0, v13, &r), CURLE_OK);
    assert_string_equal(r.text, "pong");
    assert_int_equal(ask_tls(s, "/aside", "hi", 2, v13, &r), CURLE_OK);
    assert_string_equal(r.text, "hi");
    assert_int_not_equal(ask_tls(s, "/ping", NULL, 0, v11, &r), CURLE_OK);

    /* An answer in the middle of a body: written into the session by ourselves. */
    memset(body, 'b', sizeof(body));
    (void)ask_tls(s, "/echo", body, sizeof(body), v13, &r);
    assert_int_equal(r.status, 413);
    assert_non_null(strstr(r.text, "PayloadTooLarge"));
    (void)ask_tls(s, "/echo", body, sizeof(body), v12, &r);
    assert_int_equal(r.status, 413);

    /* Plain HTTP to a TLS port. */
    struct peer p = dial(s);
    (void)try_send(&p, "GET /ping HTTP/1.1\r\n" H "\r\n", 31);
    while (more(&p))
        continue;
    assert_null(memmem(p.buf, p.len, "pong", 4));
    hang_up(&p);
    df_http_stop(s);

    unlink(cert);
    unlink(key);
    unlink(other_cert);
    unlink(other_key);
    rmdir(dir);
}

/* --- figures ---------------------------------------------------------------------------------- */

static bool metrics_contain(const char *text)
{
    struct df_buf b;
    bool found = false;

    for (int i = 0; i < ATTEMPT_S * 100 && !found; i++) {
        df_buf_init(&b, (size_t)4 * 1024 * 1024);
        df_metrics_write(&b);
        found = memmem(b.ptr, b.len, text, strlen(text)) != NULL;
        df_buf_release(&b);
        if (!found)
            usleep(10000);
    }
    return found;
}

static void requests_are_counted_by_route_and_status(void **state)
{
    (void)state;
    struct df_http_options opt = defaults();
    opt.metrics_prefix = "counted";
    struct df_http_server *s = start(&opt);
    struct peer p = dial(s);

    say_to(&p, "GET /show/1 HTTP/1.1\r\n" H "\r\n");
    (void)listen_to(&p, false);
    say_to(&p, "GET /show/2 HTTP/1.1\r\n" H "\r\n");
    (void)listen_to(&p, false);
    say_to(&p, "GET /nowhere HTTP/1.1\r\n" H "\r\n");
    (void)listen_to(&p, false);
    say_to(&p, "BREW /nowhere HTTP/1.1\r\n" H "\r\n");
    (void)listen_to(&p, false);
    assert_int_equal(ask(s, "GET /ping HTTP/3.0\r\n" H "\r\n").status, 505);

    assert_true(metrics_contain(
        "counted_http_requests_total{route=\"/show/{id}\",method=\"GET\",status=\"200\"} 2\n"));
    assert_true(metrics_contain(
        "counted_http_requests_total{route=\"none\",method=\"GET\",status=\"404\"} 1\n"));
    assert_true(metrics_contain(
        "counted_http_requests_total{route=\"none\",method=\"other\",status=\"501\"} 1\n"));
    assert_true(metrics_contain("counted_http_request_seconds_count{route=\"/show/{id}\"} 2\n"));
    assert_true(metrics_contain("counted_http_rejected_total{reason=\"NotFound\"} 1\n"));
    assert_true(metrics_contain("counted_http_connections 1\n"));
    assert_true(metrics_contain("counted_http_requests_in_flight 0\n"));
    hang_up(&p);
    df_http_stop(s);
}

static void the_access_log_has_a_line_for_each_request(void **state)
{
    (void)state;
    struct df_http_options opt = defaults();
    char path[] = "/tmp/net_server_test.XXXXXX";
    int file = mkstemp(path);
    int saved = dup(STDERR_FILENO);

    opt.settings.access_log = true;
    struct df_http_server *s = start(&opt);
    fflush(stderr);
    dup2(file, STDERR_FILENO);
    df_log_init(DF_LOG_INFO, DF_LOG_JSON, NULL);
    struct reply ok = ask(s, "GET /show/1?secret=1 HTTP/1.1\r\n" H "X-Correlation-Id: c-1\r\n\r\n");
    struct reply busy = ask(s, "GET /busy HTTP/1.1\r\n" H "\r\n");
    df_http_stop(s);
    df_log_init(DF_LOG_ERROR, DF_LOG_JSON, NULL);
    dup2(saved, STDERR_FILENO);
    close(saved);

    char text[8192];
    ssize_t n = pread(file, text, sizeof(text) - 1, 0);
    assert_true(n > 0);
    text[n] = '\0';
    close(file);
    unlink(path);
    assert_int_equal(ok.status, 200);
    assert_int_equal(busy.status, 503);
    assert_non_null(strstr(text, "\"level\":\"info\",\"event\":\"RequestServed\""));
    assert_non_null(strstr(text, "\"level\":\"warn\",\"event\":\"RequestServed\""));
    assert_non_null(strstr(text, "\"correlationId\":\"c-1\",\"traceId\":\""));
    assert_non_null(strstr(text, "\"ip\":\"127.0.0.1\",\"clientId\":\"test\",\"method\":\"GET\","
                                 "\"route\":\"/show/{id}\",\"status\":200,\"durationMs\":"));
    assert_non_null(strstr(text, "\"bytes\":"));
    assert_null(strstr(text, "secret"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slow_peers_are_closed),
        cmocka_unit_test(silent_peers_are_closed),
        cmocka_unit_test(a_peer_that_does_not_read_is_closed),
        cmocka_unit_test(a_peer_that_reads_gets_a_big_answer),
        cmocka_unit_test(a_request_set_aside_is_never_closed),
        cmocka_unit_test(connections_are_limited_by_address),
        cmocka_unit_test(a_trusted_proxy_names_the_caller_and_has_no_limit),
        cmocka_unit_test(a_stranger_names_nobody),
        cmocka_unit_test(a_list_of_proxies_that_is_none_is_refused),
        cmocka_unit_test(bodies_past_the_budget_are_refused),
        cmocka_unit_test(one_owner_has_a_quarter),
        cmocka_unit_test(answers_count_until_they_are_read),
        cmocka_unit_test(no_body_is_kept_before_its_sender_is_known),
        cmocka_unit_test(connections_past_the_limit_wait),
        cmocka_unit_test(draining_finishes_what_is_in_hand),
        cmocka_unit_test(draining_under_load_does_not_abort),
        cmocka_unit_test(stopping_answers_what_nobody_resumes),
        cmocka_unit_test(a_bad_address_is_explained),
        cmocka_unit_test(every_form_of_address_works),
        cmocka_unit_test(an_heir_has_the_address_and_refuses_nobody),
        cmocka_unit_test(a_bad_route_is_a_start_error),
        cmocka_unit_test(tls_works_from_1_2_on),
        cmocka_unit_test(requests_are_counted_by_route_and_status),
        cmocka_unit_test(the_access_log_has_a_line_for_each_request),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

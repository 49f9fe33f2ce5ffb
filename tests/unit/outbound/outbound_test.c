/* One guarded call: what every code and status mean, what goes out with it, and that its permit is
 * given back once whatever happens. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/lock.h"
#include "fake_clock.h"
#include "net/http.h"
#include "net/url.h"
#include "outbound/outbound.h"

#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define TRACE    "4bf92f3577b34da6a3ce929d0e0e4736"

/* --- judging ---------------------------------------------------------------------------------- */

static struct df_out_judgement all_refused(unsigned status)
{
    (void)status;
    return (struct df_out_judgement){DF_OUT_REFUSED, DF_BREAKER_FAILURE};
}

static void expect(struct df_out_judgement j, enum df_out_verdict verdict,
                   enum df_breaker_outcome breaker, const char *what)
{
    if (j.verdict != verdict || j.breaker != breaker)
        fail_msg("%s: verdict %d, breaker %d", what, j.verdict, j.breaker);
}

static bool is_one_of(unsigned status, const unsigned *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (list[i] == status)
            return true;
    return false;
}

static void every_status_is_judged(void **state)
{
    (void)state;
    static const unsigned again[] = {401, 403, 404, 405, 407, 408, 421, 425, 429};
    static const unsigned passed_on[] = {408, 425, 429};
    for (unsigned status = 0; status < 1000; status++) {
        struct df_out_judgement j = df_outbound_judge(DF_OK, status, NULL, false);
        char text[8];
        (void)snprintf(text, sizeof(text), "%u", status);
        if (status >= 200 && status <= 299)
            expect(j, DF_OUT_OK, DF_BREAKER_SUCCESS, text);
        else if (is_one_of(status, again, COUNT(again)) || status < 100 || status > 499)
            expect(j, DF_OUT_AGAIN, DF_BREAKER_FAILURE, text);
        else
            expect(j, DF_OUT_REFUSED, DF_BREAKER_SUCCESS, text);
        expect(df_outbound_judge(DF_OK, status, all_refused, true), DF_OUT_REFUSED,
               DF_BREAKER_FAILURE, text);
        j = df_outbound_judge_passed_on(status);
        if (status >= 200 && status <= 299)
            expect(j, DF_OUT_OK, DF_BREAKER_SUCCESS, text);
        else if (is_one_of(status, passed_on, COUNT(passed_on)) || status < 100 || status > 499)
            expect(j, DF_OUT_AGAIN, DF_BREAKER_FAILURE, text);
        else
            expect(j, DF_OUT_REFUSED, DF_BREAKER_SUCCESS, text);
    }
}

static void every_code_is_judged(void **state)
{
    (void)state;
    static const struct {
        enum df_code code;
        const char *text;
        enum df_retry retry;
    } codes[] = {
#define ROW(symbol, text, http, retry, title, outside) {symbol, text, DF_RETRY_##retry},
        DF_ERRORS(ROW)
#undef ROW
    };
    for (size_t i = 0; i < COUNT(codes); i++) {
        enum df_code code = codes[i].code;
        if (code == DF_OK)
            continue;
        for (int hides = 0; hides < 2; hides++) {
            /* Without an answer there is no status, and nothing for anybody to classify. */
            struct df_out_judgement j = df_outbound_judge(code, 0, all_refused, hides);
            if (code == DF_E_CANCELLED)
                expect(j, DF_OUT_STOPPED, DF_BREAKER_IGNORED, codes[i].text);
            else if (code == DF_E_TARGET_REFUSED && hides)
                expect(j, DF_OUT_AGAIN, DF_BREAKER_FAILURE, codes[i].text);
            else if (codes[i].retry == DF_RETRY_NEVER)
                expect(j, DF_OUT_REFUSED, DF_BREAKER_IGNORED, codes[i].text);
            else
                expect(j, DF_OUT_AGAIN, DF_BREAKER_FAILURE, codes[i].text);
        }
    }
}

/* --- a peer ----------------------------------------------------------------------------------- */

static struct df_fake_clock now;
static struct df_outbound outbound;
static struct df_http_server *http;
static struct df_arena arena;
static struct df_err err;
static struct df_mutex lock = DF_MUTEX_INIT;
static char got[2048]; /* under the lock: what the last request said, one header a line */
static _Atomic bool holding;
static _Atomic size_t seen;

static void note_header(void *arg, struct df_str name, struct df_str value)
{
    size_t *len = arg;
    *len += (size_t)snprintf(got + *len, sizeof(got) - *len, DF_STR_FMT "=" DF_STR_FMT "\n",
                             DF_STR_ARG(name), DF_STR_ARG(value));
}

static void answer(struct df_req *req)
{
    int64_t status = 200;
    size_t len = 0;

    df_lock(&lock);
    df_req_each_header(req, note_header, &len);
    df_unlock(&lock);
    seen++;
    while (holding)
        (void)usleep(1000);
    (void)df_str_to_i64(df_req_param(req, "status"), &status);
    if (status == 503)
        (void)df_req_add_header(req, "Retry-After", DF_STR("7"));
    df_req_answer_static(req, (unsigned)status, "text/plain", DF_STR("so it is"));
}

static const struct df_route routes[] = {
    {.method = "POST", .pattern = "/{status}", .body = DF_BODY_ANY, .handle = answer},
    {.method = NULL},
};

static int set_up(void **state)
{
    (void)state;
    static const struct df_route_table tables[] = {{.routes = routes}, {.routes = NULL}};
    const struct df_http_options opt = {.settings.listen = "127.0.0.1:0",
                                        .settings.threads = 4,
                                        .settings.max_body_bytes = 1000,
                                        .tables = tables};

    df_fake_clock_init(&now, 1700000000000, 7);
    df_arena_init(&arena);
    holding = false;
    seen = 0;
    if (df_http_start(&opt, &http, &err) != DF_OK)
        return -1;
    return df_outbound_open(&outbound, &(struct df_http_client_options){0},
                            &(struct df_breaker_settings){.window = 4,
                                                          .min_calls = 2,
                                                          .failure_rate = 50,
                                                          .open_ms = 5000,
                                                          .half_open_calls = 1},
                            &now.base, &err) == DF_OK
               ? 0
               : -1;
}

static int tear_down(void **state)
{
    (void)state;
    holding = false;
    df_outbound_close(&outbound);
    df_http_stop(http);
    df_arena_release(&arena);
    return 0;
}

/* --- calls ------------------------------------------------------------------------------------ */

struct call {
    struct df_out out;
    char url[128];
    struct df_mutex lock;
    pthread_cond_t changed;
    int done;
};

static void note_done(struct df_out *out)
{
    struct call *c = out->arg;

    df_lock(&c->lock);
    c->done++;
    (void)pthread_cond_signal(&c->changed);
    df_unlock(&c->lock);
}

static void prepare(struct call *c, const char *path)
{
    *c = (struct call){.lock = DF_MUTEX_INIT};
    df_cond_init(&c->changed);
    (void)snprintf(c->url, sizeof(c->url), "http://%s%s", df_http_address(http), path);
    c->out = (struct df_out){
        .call = {.method = "POST", .url = c->url, .timeout_ms = 60000, .allow_private = true},
        .headers = {.arena = &arena},
        .trace = df_span_stored(DF_STR_NULL, DF_STR(TRACE), &now.base, NULL),
        .done = note_done,
        .arg = c,
    };
}

static void wait_for(struct call *c)
{
    df_lock(&c->lock);
    while (c->done == 0)
        df_cond_wait(&c->changed, &c->lock);
    df_unlock(&c->lock);
    assert_int_equal(c->done, 1);
}

static void send_one(struct call *c)
{
    assert_true(df_outbound_ask(&outbound, &c->out));
    df_outbound_send(&outbound, &c->out);
    wait_for(c);
    assert_null(c->out.held);
}

static struct df_breaker_snapshot look_at(const char *key)
{
    struct df_breaker_snapshot s;
    struct df_breaker *b = df_breakers_get(outbound.breakers, df_str_c(key));

    df_breaker_snapshot(b, &s);
    df_breakers_put(outbound.breakers, b);
    return s;
}

static void what_every_call_carries(void **state)
{
    (void)state;
    struct call c;

    prepare(&c, "/200");
    df_headers_add(&c.out.headers, DF_STR("X-Own"), DF_STR("mine"));
    c.out.correlation_id = DF_STR("c-1");
    c.out.idempotency_key = DF_STR("k-1");
    for (int attempt = 0; attempt < 2; attempt++) { /* the second with the same headers */
        c.done = 0;
        send_one(&c);
        assert_int_equal(c.out.verdict, DF_OUT_OK);
        assert_non_null(strstr(got, "X-Own=mine\n"));
        assert_non_null(strstr(got, "X-Correlation-Id=c-1\n"));
        assert_non_null(strstr(got, "Idempotency-Key=k-1\n"));
        assert_non_null(strstr(got, "x-trace-id=" TRACE "\n"));
        assert_non_null(strstr(got, "traceparent=00-" TRACE "-"));
        assert_int_equal(c.out.headers.count, 1);
    }
    prepare(&c, "/200");
    c.out.trace = df_span_stored(DF_STR_NULL, DF_STR("of another kind"), &now.base, NULL);
    c.out.trace_id = DF_STR("of%20another%20kind");
    send_one(&c);
    assert_null(strstr(got, "X-Correlation-Id"));
    assert_null(strstr(got, "Idempotency-Key"));
    assert_non_null(strstr(got, "x-trace-id=of%20another%20kind\n"));
    assert_null(strstr(got, TRACE));
    assert_non_null(strstr(got, "traceparent=00-"));
}

static void headers_grow(void **state)
{
    (void)state;
    struct df_headers h = {.arena = &arena};

    for (size_t i = 0; i < 100; i++)
        df_headers_add(&h, DF_STR("N"), df_arena_printf(&arena, "%zu", i));
    struct df_call_header *more = df_headers_more(&h, 50);
    assert_ptr_equal(more, h.at + 100);
    assert_int_equal(h.count, 150);
    for (size_t i = 0; i < 100; i++)
        assert_true(df_str_eq(h.at[i].value, df_arena_printf(&arena, "%zu", i)));
}

static void a_failing_peer_is_left_alone_for_a_while(void **state)
{
    (void)state;
    struct call c;

    for (int i = 0; i < 2; i++) {
        prepare(&c, "/500");
        c.out.breaker = DF_STR("peer");
        send_one(&c);
        assert_int_equal(c.out.verdict, DF_OUT_AGAIN);
    }
    assert_int_equal(c.out.retry_ms, 5000); /* by now it is open */
    df_fake_clock_advance_ms(&now, 2000);
    prepare(&c, "/200");
    c.out.breaker = DF_STR("peer");
    assert_false(df_outbound_ask(&outbound, &c.out));
    assert_int_equal(c.out.retry_ms, 3000);
    assert_null(c.out.held);
    assert_int_equal(seen, 2);
    df_fake_clock_advance_ms(&now, 3000);
    send_one(&c); /* the probe */
    assert_int_equal(look_at("peer").state, DF_BREAKER_CLOSED);
}

static void the_peers_word_comes_before_the_breakers(void **state)
{
    (void)state;
    struct call c;

    for (int i = 0; i < 2; i++) {
        prepare(&c, "/503");
        c.out.breaker = DF_STR("peer");
        send_one(&c);
        assert_int_equal(c.out.retry_ms, 7000);
    }
    assert_int_equal(look_at("peer").state, DF_BREAKER_OPEN);
}

/* A call to this target at nobody's address, or at the peer. */
static void call_target(struct call *c, const char *target, const char *path, bool nobody)
{
    prepare(c, path);
    if (nobody)
        (void)snprintf(c->url, sizeof(c->url), "http://127.0.0.1:1%s", path);
    c->out.breaker = df_str_c(target);
    c->out.guards_host = true;
}

static void a_host_that_cannot_be_reached_is_shut_for_all_its_targets(void **state)
{
    (void)state;
    struct call c;
    struct df_out_gate gate;

    for (int i = 0; i < 2; i++) {
        call_target(&c, i == 0 ? "one" : "two", "/200", true);
        send_one(&c);
        assert_int_equal(c.out.call.fault, DF_FAULT_HOST);
        assert_null(c.out.held_host);
    }
    assert_int_equal(look_at("http://127.0.0.1:1").state, DF_BREAKER_OPEN);
    assert_int_equal(look_at("one").state, DF_BREAKER_CLOSED);
    call_target(&c, "three", "/200", true);
    assert_false(df_outbound_ask(&outbound, &c.out));
    assert_int_equal(c.out.retry_ms, 5000);
    gate = df_outbound_look(&outbound, DF_STR("three"), DF_STR("http://127.0.0.1:1"));
    assert_false(gate.closed);
    assert_int_equal(gate.permits, 0);
    assert_int_equal(gate.wait_ms, 5000);
    df_fake_clock_advance_ms(&now, 5000);
    gate = df_outbound_look(&outbound, DF_STR("three"), DF_STR("http://127.0.0.1:1"));
    assert_int_equal(gate.permits, 1);
    /* A target that is shut gives the host's permit back. */
    assert_true(df_outbound_ask(&outbound, &c.out));
    df_outbound_forgo(&c.out);
    assert_null(c.out.held_host);
    assert_int_equal(look_at("http://127.0.0.1:1").permits, 1);
}

static void what_one_target_answers_says_nothing_bad_about_its_host(void **state)
{
    (void)state;
    struct call c;
    char host[DF_DESTINATION_SIZE];

    for (int i = 0; i < 4; i++) {
        call_target(&c, "bad", "/500", false);
        if (!df_outbound_ask(&outbound, &c.out))
            continue;
        df_outbound_send(&outbound, &c.out);
        wait_for(&c);
        assert_int_equal(c.out.call.fault, DF_FAULT_NONE);
    }
    (void)df_destination_of(c.url, host);
    assert_int_equal(look_at("bad").state, DF_BREAKER_OPEN);
    assert_int_equal(look_at(host).state, DF_BREAKER_CLOSED);
    assert_int_equal(look_at(host).failed, 0);
    call_target(&c, "good", "/200", false);
    send_one(&c);
    assert_int_equal(c.out.verdict, DF_OUT_OK);
    assert_true(df_outbound_look(&outbound, DF_STR("good"), df_str_c(host)).closed);
}

/* Silence after connecting is the target's: neither good nor bad for the host. */
static void every_fault_is_judged_for_the_host(void **state)
{
    (void)state;
    assert_int_equal(df_outbound_judge_host(DF_FAULT_NONE), DF_BREAKER_SUCCESS);
    assert_int_equal(df_outbound_judge_host(DF_FAULT_HOST), DF_BREAKER_FAILURE);
    assert_int_equal(df_outbound_judge_host(DF_FAULT_PEER), DF_BREAKER_IGNORED);
    assert_int_equal(df_outbound_judge_host(DF_FAULT_OURS), DF_BREAKER_IGNORED);
}

static void who_names_no_breaker_has_one_for_both(void **state)
{
    (void)state;
    struct call c;

    prepare(&c, "/200");
    c.out.guards_host = true;
    assert_true(df_outbound_ask(&outbound, &c.out));
    assert_null(c.out.held_host);
    df_outbound_forgo(&c.out);
    /* Nobody asked for: nothing against a call. */
    assert_true(df_outbound_look(&outbound, DF_STR("never seen"), DF_STR_NULL).closed);
}

static void what_is_forgone_counts_for_nothing(void **state)
{
    (void)state;
    struct call c;

    prepare(&c, "/200");
    c.out.breaker = DF_STR("peer");
    for (int i = 0; i < 10; i++) {
        assert_true(df_outbound_ask(&outbound, &c.out));
        df_outbound_forgo(&c.out);
        assert_null(c.out.held);
    }
    assert_int_equal(look_at("peer").calls, 0);
    assert_int_equal(seen, 0);
}

static void an_unguarded_call_is_judged_and_no_breaker_told(void **state)
{
    (void)state;
    struct call c;

    prepare(&c, "/500");
    c.out.unguarded = true;
    c.out.breaker = DF_STR("peer");
    df_outbound_send(&outbound, &c.out);
    wait_for(&c);
    assert_int_equal(c.out.verdict, DF_OUT_AGAIN);
    assert_int_equal(c.out.outcome, DF_BREAKER_FAILURE);
    assert_int_equal(look_at("peer").calls, 0);
}

static void a_fault_of_our_own_is_not_the_peers(void **state)
{
    (void)state;
    struct call c;

    for (int i = 0; i < 3; i++) {
        prepare(&c, "/200");
        c.out.breaker = DF_STR("peer");
        c.out.call.method = i == 0 ? "NO METHOD" : "POST";
        c.out.call.allow_private = i == 0; /* 127.0.0.1 is none that anybody may call */
        c.out.hides_targets = i == 2;
        send_one(&c);
        assert_int_equal(c.out.verdict, i == 2 ? DF_OUT_AGAIN : DF_OUT_REFUSED);
        assert_int_equal(c.out.call.code, i == 0 ? DF_E_BAD_REQUEST : DF_E_TARGET_REFUSED);
    }
    assert_int_equal(look_at("peer").calls, 1); /* the one that nobody is to know of */
    assert_int_equal(seen, 0);
}

static void stopping_says_nothing_of_the_peer(void **state)
{
    (void)state;
    enum { N = 8 };
    static struct call calls[N + 1];
    char key[DF_DESTINATION_SIZE];

    holding = true;
    for (int i = 0; i < N; i++) {
        prepare(&calls[i], "/200");
        assert_true(df_outbound_ask(&outbound, &calls[i].out));
        df_outbound_send(&outbound, &calls[i].out);
    }
    while (seen == 0)
        (void)usleep(1000);
    df_outbound_stop(&outbound);
    holding = false;
    prepare(&calls[N], "/200");
    assert_true(df_outbound_ask(&outbound, &calls[N].out));
    df_outbound_send(&outbound, &calls[N].out);
    for (int i = 0; i <= N; i++) {
        wait_for(&calls[i]);
        assert_int_equal(calls[i].out.verdict, DF_OUT_STOPPED);
        assert_null(calls[i].out.held);
    }
    assert_int_equal(look_at(df_destination_of(calls[N].url, key).ptr).calls, 0);
}

int main(void)
{
#define WITH_PEER(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_status_is_judged),
        cmocka_unit_test(every_code_is_judged),
        WITH_PEER(what_every_call_carries),
        WITH_PEER(headers_grow),
        WITH_PEER(a_failing_peer_is_left_alone_for_a_while),
        WITH_PEER(the_peers_word_comes_before_the_breakers),
        WITH_PEER(what_is_forgone_counts_for_nothing),
        WITH_PEER(a_host_that_cannot_be_reached_is_shut_for_all_its_targets),
        WITH_PEER(what_one_target_answers_says_nothing_bad_about_its_host),
        WITH_PEER(every_fault_is_judged_for_the_host),
        WITH_PEER(who_names_no_breaker_has_one_for_both),
        WITH_PEER(an_unguarded_call_is_judged_and_no_breaker_told),
        WITH_PEER(a_fault_of_our_own_is_not_the_peers),
        WITH_PEER(stopping_says_nothing_of_the_peer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

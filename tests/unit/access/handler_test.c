#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "access/handler.h"
#include "base/secret.h"
#include "fake_clock.h"

#include "peer.h"
#include "port.h"
#include "testdb.h"

#include <pthread.h>
#include <sodium.h>
#include <stdatomic.h>

#define SECRET "swordfish"
#define WAITS  10000 /* times a millisecond */

/* What the hooks of the handlers have seen, and a secret that they have until cleanup. */
static struct {
    _Atomic int runs;
    _Atomic int dones;
    _Atomic int cleanups;
    _Atomic bool wiped; /* by the last cleanup */
    _Atomic int codes;  /* the last that pass_on was told */
    char secret[32];
} seen;

static struct testdb test;
static struct df_fake_clock clock_;
static struct df_access access_;
static struct df_http_server *server;
static _Atomic int threads; /* of the hooks, that run */
static atomic_bool gate;    /* what `first` waits for */
static char feature[] = "the feature";

struct call {
    struct df_work w;
    char *secret;
    int64_t number;
};

/* --- hooks --- */

static bool read_call(struct df_work *w, struct df_input *in)
{
    struct call *c = (struct call *)w;

    assert_ptr_equal(w->arg, feature);
    c->secret = seen.secret;
    (void)snprintf(seen.secret, sizeof(seen.secret), "%s", SECRET);
    c->number = df_input_query_int(in, w->req, "number", 1, 9, 5);
    return true;
}

static bool refuse(struct df_work *w, struct df_input *in)
{
    (void)read_call(w, in);
    df_req_fail(w->req, DF_E_CONFLICT, "not now");
    return false;
}

static enum df_code write_number(struct df_db *db, struct df_work *w, struct df_err *err)
{
    const struct call *c = (const struct call *)w;

    (void)db;
    (void)err;
    seen.runs++;
    df_json_open(&w->json, '{');
    df_json_kv_int(&w->json, "number", c->number);
    df_json_close(&w->json, '}');
    return DF_OK;
}

/* The writer runs it again after a conflict. */
static enum df_code run_twice(struct df_db *db, struct df_work *w, struct df_err *err)
{
    enum df_code code = write_number(db, w, err);
    return seen.runs == 1 ? df_err_set(err, DF_E_DB_CONFLICT, "once more") : code;
}

static enum df_code fail_in_run(struct df_db *db, struct df_work *w, struct df_err *err)
{
    (void)write_number(db, w, err);
    return df_err_set(err, DF_E_CONFLICT, "it is taken");
}

static void note_done(struct df_work *w)
{
    (void)w;
    seen.dones++;
}

static void write_at_once(struct df_work *w)
{
    seen.dones++;
    df_json_open(&w->json, '[');
    df_json_int(&w->json, w->now_ms);
    df_json_close(&w->json, ']');
}

static void wipe(struct df_work *w)
{
    struct call *c = (struct call *)w;

    if (c->secret)
        df_wipe(c->secret, sizeof(seen.secret));
    seen.wiped = sodium_is_zero((const unsigned char *)seen.secret, sizeof(seen.secret)) == 1;
    seen.cleanups++;
}

static void on_thread(struct df_work *w, void *(*go)(void *work))
{
    pthread_t thread;

    threads++;
    assert_int_equal(pthread_create(&thread, NULL, go, w), 0);
    pthread_detach(thread);
}

static void *submit_later(void *work)
{
    for (int i = 0; i < WAITS && !gate; i++)
        usleep(1000);
    df_work_submit(work);
    threads--;
    return NULL;
}

static void *fail_later(void *work)
{
    df_work_fail(work, DF_E_BUSY, "Too many wait for %s.", "the thread");
    threads--;
    return NULL;
}

static void *end_later(void *work)
{
    struct df_work *w = work;

    df_req_answer_empty(w->req, 204);
    df_work_end(w);
    threads--;
    return NULL;
}

static void submit_elsewhere(struct df_work *w)
{
    on_thread(w, submit_later);
}

static void fail_elsewhere(struct df_work *w)
{
    on_thread(w, fail_later);
}

static bool hand_on(struct df_work *w, enum df_code code, const struct df_err *err)
{
    (void)err;
    seen.codes = (int)code;
    if (code == DF_OK)
        on_thread(w, end_later);
    return code == DF_OK;
}

static const struct df_handler after_conflict;

static bool try_otherwise(struct df_work *w, enum df_code code, const struct df_err *err)
{
    (void)err;
    if (code != DF_E_CONFLICT)
        return false;
    df_work_become(w, &after_conflict);
    df_work_submit(w);
    return true;
}

/* --- handlers --- */

#define CALL .size = sizeof(struct call), .prepare = read_call, .done = note_done, .cleanup = wipe

static const struct df_handler reading = {CALL, .run = write_number};
static const struct df_handler writing = {CALL, .run = run_twice, .writes = true, .status = 201};
static const struct df_handler failing = {CALL, .run = fail_in_run};
static const struct df_handler paged = {CALL, .run = write_number, .paged = true};
static const struct df_handler empty = {CALL, .run = write_number, .status = 204};
static const struct df_handler tight = {CALL, .run = write_number, .max_answer = 4};
static const struct df_handler through_thread = {CALL, .run = write_number,
                                                 .first = submit_elsewhere};
static const struct df_handler failed_by_thread = {CALL, .run = write_number,
                                                   .first = fail_elsewhere};
static const struct df_handler handed_on = {CALL, .run = write_number, .pass_on = hand_on};
static const struct df_handler in_two = {CALL, .run = fail_in_run, .pass_on = try_otherwise};
static const struct df_handler after_conflict = {CALL, .run = write_number, .status = 202};
static const struct df_handler refused = {
    .size = sizeof(struct call), .prepare = refuse, .run = write_number, .cleanup = wipe};
static const struct df_handler at_once = {.done = write_at_once};

#define GET(path, h)                                                                               \
    {                                                                                              \
        .method = "GET", .pattern = path, .handle = df_handle, .handler = &(h)                     \
    }

static const struct df_route routes[] = {
    GET("/reading", reading),
    GET("/writing", writing),
    GET("/failing", failing),
    GET("/paged", paged),
    GET("/empty", empty),
    GET("/tight", tight),
    GET("/through-thread", through_thread),
    GET("/failed-by-thread", failed_by_thread),
    GET("/handed-on", handed_on),
    GET("/in-two", in_two),
    GET("/refused", refused),
    GET("/at-once", at_once),
    {.method = NULL},
};

/* --- asking --- */

static const char *ask(const char *path)
{
    return peer_ask(port_of(server), "GET", path, "", NULL);
}

/* cleanup comes before the answer goes out. */
static void assert_ended(int runs, int dones)
{
    assert_int_equal(seen.runs, runs);
    assert_int_equal(seen.dones, dones);
    assert_int_equal(seen.cleanups, 1);
    assert_true(seen.wiped);
}

static void assert_busy(const char *answer)
{
    peer_assert(answer, "503", "\"code\":\"Busy\"");
    peer_assert(answer, "503", "Too many requests are waiting for the database.");
    peer_assert(answer, "503", "\r\nRetry-After: 1\r\n");
}

/* --- fixture --- */

static int start(void **state)
{
    const struct df_route_table tables[] = {{routes, feature}, {NULL, NULL}};
    struct df_err err = DF_ERR_INIT;

    (void)state;
    memset(&seen, 0, sizeof(seen));
    gate = true;
    testdb_init(&test, DF_SQLITE);
    df_fake_clock_init(&clock_, 1700000000000, 42);
    access_ = (struct df_access){.clock = &clock_.base};
    assert_ok(df_store_open(
                  &(struct df_store_options){.settings.url = test.url, .clock = df_clock_real()},
                  &access_.store, &err),
              &err);
    assert_ok(df_http_start(&(struct df_http_options){.settings.listen = "127.0.0.1:0",
                                                      .settings.threads = 1,
                                                      .tables = tables,
                                                      .arg = &access_},
                            &server, &err),
              &err);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    gate = true;
    while (threads > 0)
        usleep(1000);
    df_store_stop(access_.store);
    df_http_stop(server);
    df_store_close(access_.store);
    testdb_release(&test);
    return 0;
}

/* --- tests --- */

static void what_run_wrote_is_the_answer(void **state)
{
    (void)state;
    peer_assert(ask("/reading?number=7"), "200", "{\"number\":7}");
    assert_ended(1, 1);
}

static void a_job_that_runs_again_begins_its_answer_afresh(void **state)
{
    (void)state;
    peer_assert(ask("/writing"), "201", "\r\n\r\n{\"number\":5}");
    assert_ended(2, 1);
}

static void an_answer_may_be_empty(void **state)
{
    (void)state;
    peer_assert(ask("/empty"), "204", "");
    assert_ended(1, 1);
}

static void an_answer_beyond_its_limit_is_an_error(void **state)
{
    (void)state;
    peer_assert(ask("/tight"), "500", "\"code\":\"Internal");
    assert_ended(1, 1);
}

static void an_error_in_run_is_the_answer(void **state)
{
    (void)state;
    peer_assert(ask("/failing"), "409", "it is taken");
    assert_ended(1, 0);
}

static void wrong_fields_and_pages_are_told_together(void **state)
{
    (void)state;
    const char *answer = ask("/paged?page=0&number=10&pageSize=201");

    peer_assert(answer, "400", "3 fields are not valid");
    peer_assert(answer, "400", "\"field\":\"page\"");
    peer_assert(answer, "400", "\"field\":\"pageSize\"");
    peer_assert(answer, "400", "\"field\":\"number\"");
    assert_ended(0, 0);
}

static void prepare_may_refuse(void **state)
{
    (void)state;
    peer_assert(ask("/refused"), "409", "not now");
    assert_ended(0, 0);
}

static void without_a_job_it_is_answered_at_once(void **state)
{
    (void)state;
    df_store_stop(access_.store);
    peer_assert(ask("/at-once"), "200", "[1700000000000]");
    assert_int_equal(seen.dones, 1);
}

static void a_full_queue_is_503_and_cleans_up(void **state)
{
    static const char *const paths[] = {"/reading", "/writing", "/paged", "/empty", "/in-two"};

    (void)state;
    df_store_stop(access_.store);
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        seen.cleanups = 0;
        assert_busy(ask(paths[i]));
        assert_ended(0, 0);
    }
}

static void a_queue_that_is_full_after_the_first_step_is_503_too(void **state)
{
    (void)state;
    df_store_stop(access_.store);
    assert_busy(ask("/through-thread"));
    assert_ended(0, 0);
}

static void the_first_step_may_be_on_another_thread(void **state)
{
    (void)state;
    peer_assert(ask("/through-thread"), "200", "{\"number\":5}");
    assert_ended(1, 1);
}

static void the_first_step_may_fail(void **state)
{
    (void)state;
    const char *answer = ask("/failed-by-thread");

    peer_assert(answer, "503", "Too many wait for the thread.");
    peer_assert(answer, "503", "\r\nRetry-After: 1\r\n");
    assert_ended(0, 0);
}

static void work_may_be_handed_on(void **state)
{
    (void)state;
    peer_assert(ask("/handed-on"), "204", "");
    assert_ended(1, 0);
    assert_int_equal(seen.codes, DF_OK);
}

static void who_would_hand_on_is_told_of_a_full_queue(void **state)
{
    (void)state;
    df_store_stop(access_.store);
    assert_busy(ask("/handed-on"));
    assert_int_equal(seen.codes, DF_E_BUSY);
    assert_ended(0, 0);
}

static void work_may_go_on_with_another_job(void **state)
{
    (void)state;
    peer_assert(ask("/in-two"), "202", "\r\n\r\n{\"number\":5}");
    assert_ended(2, 1);
}

static void a_peer_that_leaves_changes_nothing(void **state)
{
    (void)state;
    gate = false;
    int fd = peer_dial(port_of(server));
    peer_send(fd, "GET", "/through-thread", "", NULL);
    while (df_http_active(server) == 0)
        usleep(1000);
    close(fd);
    gate = true;
    for (int i = 0; i < WAITS && df_http_active(server) > 0; i++)
        usleep(1000);
    assert_int_equal(df_http_active(server), 0);
    assert_ended(1, 1);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_run_wrote_is_the_answer),
        TEST(a_job_that_runs_again_begins_its_answer_afresh),
        TEST(an_answer_may_be_empty),
        TEST(an_answer_beyond_its_limit_is_an_error),
        TEST(an_error_in_run_is_the_answer),
        TEST(wrong_fields_and_pages_are_told_together),
        TEST(prepare_may_refuse),
        TEST(without_a_job_it_is_answered_at_once),
        TEST(a_full_queue_is_503_and_cleans_up),
        TEST(a_queue_that_is_full_after_the_first_step_is_503_too),
        TEST(the_first_step_may_be_on_another_thread),
        TEST(the_first_step_may_fail),
        TEST(work_may_be_handed_on),
        TEST(who_would_hand_on_is_told_of_a_full_queue),
        TEST(work_may_go_on_with_another_job),
        TEST(a_peer_that_leaves_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

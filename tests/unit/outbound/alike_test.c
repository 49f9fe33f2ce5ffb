/*
 * The four who call other systems take the same answer for the same thing: delivery, imports,
 * relays and integrations are each driven against a peer that answers as the table says, and what
 * they made of it is compared, with what their breakers were told.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "access/access.h"
#include "access/clients.h"
#include "delivery/delivery.h"
#include "imports/process/process_private.h"
#include "integrations/integrations.h"
#include "interface/interface.h"
#include "net/router.h"
#include "net/url.h"
#include "outbound/outbound.h"
#include "relay/dispatcher.h"
#include "store/schema.h"

#include "testdb.h"

#include <stdatomic.h>

#define COUNT(a)    (sizeof(a) / sizeof((a)[0]))
#define TIMEOUT_MS  60000
#define LONG_BYTES  100000 /* more than all headers of a call may have */
#define NOBODY      "http://127.0.0.1:1"
#define DAY_MS      INT64_C(86400000)
#define INTEGRATION "integration:peer"

enum way { ANSWERS, NOBODY_THERE, HANGS, UNSENDABLE, STOPS };

static const struct answer {
    const char *what;
    enum way way;
    unsigned status; /* ANSWERS */
    struct df_out_judgement judged;
    bool passed_on; /* by integrations, whose caller is to have the answer */
} answers[] = {
    {"200", ANSWERS, 200, {DF_OUT_OK, DF_BREAKER_SUCCESS}, false},
    {"400", ANSWERS, 400, {DF_OUT_REFUSED, DF_BREAKER_SUCCESS}, false},
    {"401", ANSWERS, 401, {DF_OUT_AGAIN, DF_BREAKER_FAILURE}, true},
    {"403", ANSWERS, 403, {DF_OUT_AGAIN, DF_BREAKER_FAILURE}, true},
    {"404", ANSWERS, 404, {DF_OUT_AGAIN, DF_BREAKER_FAILURE}, true},
    {"405", ANSWERS, 405, {DF_OUT_AGAIN, DF_BREAKER_FAILURE}, true},
    {"408", ANSWERS, 408, {DF_OUT_AGAIN, DF_BREAKER_FAILURE}, false},
    {"422", ANSWERS, 422, {DF_OUT_REFUSED, DF_BREAKER_SUCCESS}, false},
    {"425", ANSWERS, 425, {DF_OUT_AGAIN, DF_BREAKER_FAILURE}, false},
    {"429", ANSWERS, 429, {DF_OUT_AGAIN, DF_BREAKER_FAILURE}, false},
    {"500", ANSWERS, 500, {DF_OUT_AGAIN, DF_BREAKER_FAILURE}, false},
    {"503", ANSWERS, 503, {DF_OUT_AGAIN, DF_BREAKER_FAILURE}, false},
    {"nobody there", NOBODY_THERE, 0, {DF_OUT_AGAIN, DF_BREAKER_FAILURE}, false},
    {"no answer in time", HANGS, 0, {DF_OUT_AGAIN, DF_BREAKER_FAILURE}, false},
    {"a header too long", UNSENDABLE, 0, {DF_OUT_REFUSED, DF_BREAKER_IGNORED}, false},
    {"cut off by the end", STOPS, 0, {DF_OUT_STOPPED, DF_BREAKER_IGNORED}, false},
};

static struct df_err err;
static struct df_outbound outbound;
static struct df_http_server *peer;
static struct df_arena arena;
static struct df_secret *short_key;
static struct df_secret *long_key;

/* --- the peer --------------------------------------------------------------------------------- */

static _Atomic unsigned status_now;
static _Atomic bool holding;
static _Atomic size_t seen;
static _Atomic size_t inside;
static _Atomic int64_t round_now; /* the first part of the path */

/* What is late, of a call that was given up, is not counted for the next one. */
static void answer(struct df_req *req)
{
    int64_t round = 0;

    (void)df_str_to_i64(df_req_param(req, "round"), &round);
    inside++;
    if (round == round_now)
        seen++;
    while (holding && round == round_now)
        (void)usleep(1000);
    df_req_answer_static(req, status_now, "application/json", DF_STR("{}"));
    inside--;
}

static const struct df_route peer_routes[] = {
    {.method = "POST", .pattern = "/{round}/{path...}", .body = DF_BODY_ANY, .handle = answer},
    {.method = NULL},
};

static void await_seen(void)
{
    while (seen == 0)
        (void)usleep(1000);
}

/* What the client does once it is stopped while the call is under way. */
static void *stop_when_seen(void *arg)
{
    await_seen();
    df_outbound_stop(arg);
    return NULL;
}

/* --- what they have in common ----------------------------------------------------------------- */

static char base_url[128];

static const char *base_of(const struct answer *a)
{
    return df_arena_printf(&arena, "%s/%lld", a->way == NOBODY_THERE ? NOBODY : base_url,
                           (long long)round_now)
        .ptr;
}

static int64_t timeout_of(const struct answer *a)
{
    return a->way == HANGS ? 200 : TIMEOUT_MS;
}

static const struct df_secret *key_of(const struct answer *a)
{
    return a->way == UNSENDABLE ? long_key : short_key;
}

static const struct df_breaker_settings never_opens = {
    .window = 100, .min_calls = 100, .failure_rate = 100, .open_ms = 1000, .half_open_calls = 1};

static void begin(const struct answer *a)
{
    status_now = a->status ? a->status : 200;
    round_now++;
    seen = 0;
    holding = a->way == HANGS || a->way == STOPS;
    assert_ok(df_outbound_open(&outbound, &(struct df_http_client_options){0}, &never_opens,
                               df_clock_real(), &err),
              &err);
}

/* What the breaker was told of the one call. */
static enum df_breaker_outcome told(struct df_str key)
{
    struct df_breaker *b = df_breakers_get(outbound.breakers, key);
    struct df_breaker_snapshot s;

    df_breaker_snapshot(b, &s);
    df_breakers_put(outbound.breakers, b);
    assert_true(s.calls <= 1);
    return s.failed > 0  ? DF_BREAKER_FAILURE
           : s.calls > 0 ? DF_BREAKER_SUCCESS
                         : DF_BREAKER_IGNORED;
}

static void finish(void)
{
    holding = false;
    while (inside > 0)
        (void)usleep(1000);
    df_outbound_close(&outbound);
    df_arena_reset(&arena);
}

/* --- delivery --------------------------------------------------------------------------------- */

static struct testdb t;
static struct df_db *db;

TESTDB_QUERY(row_verdict, 0,
             "SELECT CASE WHEN Status = 'Sent' THEN 0 WHEN LastError = 'the server stopped' THEN 3"
             " WHEN Status <> 'Error' THEN -1 WHEN NextAttemptAt IS NULL THEN 2 ELSE 1 END"
             " FROM TB_FUNCTIONAL_ACK_OUTBOX",
             NULL, NULL);

static void add_row(void)
{
    testdb_script(db, "DELETE FROM TB_FUNCTIONAL_ACK_OUTBOX;"
                      "INSERT INTO TB_FUNCTIONAL_ACK_OUTBOX (BusinessDocId, PayloadJson, TargetUrl,"
                      " NextAttemptAt) VALUES ('D1', '{}', '', '2020-01-01T00:00:00.000Z');");
}

static struct df_out_judgement by_delivery(const struct answer *a)
{
    static const int64_t tomorrow[] = {DAY_MS};
    const struct df_retry_policy retry = {
        .delays_ms = tomorrow, .delay_count = 1, .max_attempts = 5};
    struct df_store *store = NULL;

    add_row();
    assert_ok(df_store_open(&(struct df_store_options){.settings.url = t.url}, &store, &err), &err);
    struct df_shards *shards = df_shards_new(&(struct df_shards_options){
        .store = store, .clock = df_clock_real(), .version = "test", .lease_ms = 60000});
    struct df_delivery *engine = df_delivery_new(&(struct df_delivery_options){
        .shards = shards,
        .store = store,
        .outbound = &outbound,
        .clock = df_clock_real(),
        .settings = {.retry = retry, .lease_ms = 4 * TIMEOUT_MS, .timeout_ms = timeout_of(a)}});
    struct df_interface *interface = df_interface_new(&(struct df_interface_options){
        .store = store,
        .clock = df_clock_real(),
        .settings = {.functional_ack_url = df_arena_printf(&arena, "%s/ack", base_of(a)).ptr,
                     .api_key = key_of(a),
                     .api_key_header = "X-Key"},
        .delivery_settings = {.retry = retry, .lease_ms = 4 * TIMEOUT_MS}});
    df_interface_add_channels(interface, engine);
    df_shards_start(shards);
    df_delivery_start(engine);
    if (a->way == STOPS)
        await_seen();
    while (a->way != STOPS && testdb_int(db, &row_verdict) < 0)
        (void)usleep(1000);
    df_shards_stop(shards);
    df_delivery_stop(engine, 0);
    df_outbound_stop(&outbound);
    df_delivery_end(engine);
    df_shards_end(shards);
    struct df_out_judgement j = {
        (enum df_out_verdict)testdb_int(db, &row_verdict),
        told(df_arena_printf(&arena, "functional-ack %s/ack", base_of(a)))};
    df_interface_stop(interface);
    df_store_close(store);
    df_delivery_free(engine);
    df_shards_free(shards);
    df_interface_free(interface);
    return j;
}

/* --- imports ---------------------------------------------------------------------------------- */

/* A chunk in the hands of a worker that does nothing but send it. */
static struct df_out_judgement by_imports(const struct answer *a)
{
    static const enum df_out_verdict verdicts[] = {
        [IMPORT_DONE] = DF_OUT_OK,           [IMPORT_AWAIT] = DF_OUT_OK,
        [IMPORT_AGAIN] = DF_OUT_AGAIN,       [IMPORT_REFUSED] = DF_OUT_REFUSED,
        [IMPORT_CANCELLED] = DF_OUT_STOPPED,
    };
    struct df_imports imports = {
        .opt = {.outbound = &outbound,
                .clock = df_clock_real(),
                .settings = {.timeout_ms = timeout_of(a),
                             .api_key = key_of(a),
                             .api_key_header = "X-Key"}},
        .url = df_arena_cstr(&arena, df_arena_printf(&arena, "%s/import", base_of(a)))};
    struct import_batch b = {.imports = &imports,
                             .id = df_uuid_v7(df_clock_real()),
                             .row = {.trace = df_trace_new(df_clock_real())}};

    df_mutex_init(&imports.lock);
    df_cond_init(&imports.changed);
    struct import_chunk *c = import_chunk_get(&b);
    c->state = CHUNK_SENDING;
    c->has_row = true;
    c->attempts = 1;
    c->out.breaker = DF_STR(IMPORT_OMNIFLOW);
    assert_true(df_outbound_ask(&outbound, &c->out));
    import_send(c);
    df_lock(&imports.lock);
    while (b.mail.answered.count == 0)
        df_cond_wait(&imports.changed, &imports.lock);
    df_unlock(&imports.lock);
    struct df_out_judgement j = {verdicts[c->verdict], told(DF_STR(IMPORT_OMNIFLOW))};
    import_chunk_free(c);
    (void)pthread_cond_destroy(&imports.changed);
    df_mutex_destroy(&imports.lock);
    return j;
}

/* --- relays ----------------------------------------------------------------------------------- */

/* The dispatcher says what the breaker is told: the relay does that, for brokers too. */
static struct df_out_judgement by_relay(const struct answer *a)
{
    const struct df_sink_options opt = {.relay = "r",
                                        .source = "/r",
                                        .target = df_arena_printf(&arena, "%s/in", base_of(a)).ptr,
                                        .mode = DF_HTTP_BINARY,
                                        .timeout_ms = timeout_of(a),
                                        .outbound = &outbound,
                                        .clock = df_clock_real()};
    struct df_event e = {
        .id = DF_STR("1"), .payload = DF_STR("{}"), .created_ms = -1, .attempt = 1};
    struct df_event *const events[] = {&e};
    struct df_sink *sink = NULL;
    struct df_out_judgement j = {DF_OUT_OK, DF_BREAKER_SUCCESS};

    if (a->way == UNSENDABLE)
        e.aggregate_id = df_secret_str(long_key);
    assert_ok(df_dispatch_http.open(&opt, &sink, &err), &err);
    df_dispatch_http.dispatch(sink, events, 1, &arena);
    df_dispatch_http.close(sink);
    j.breaker = e.breaker;
    if (e.outcome == DF_DISPATCH_PERMANENT)
        j.verdict = DF_OUT_REFUSED;
    else if (e.outcome == DF_DISPATCH_RETRY)
        j.verdict = e.breaker == DF_BREAKER_IGNORED ? DF_OUT_STOPPED : DF_OUT_AGAIN;
    return j;
}

/* --- integrations ----------------------------------------------------------------------------- */

struct caller {
    struct df_call call;
    struct df_mutex lock;
    pthread_cond_t changed;
    bool done;
    char body[1024];
};

static void note_answer(struct df_call *call)
{
    struct caller *c = call->arg;

    df_lock(&c->lock);
    (void)snprintf(c->body, sizeof(c->body), DF_STR_FMT, DF_STR_ARG(df_buf_str(&call->answer)));
    c->done = true;
    (void)pthread_cond_signal(&c->changed);
    df_unlock(&c->lock);
}

static enum df_verdict let_in(struct df_req *req, void *arg)
{
    static struct df_client client;

    (void)arg;
    df_req_set_user(req, &client);
    return DF_PASS;
}

/* Asks the server, as any client of it does. */
static void ask_server(const char *address, struct caller *c)
{
    struct df_http_client *http = NULL;

    *c = (struct caller){
        .call = {.method = "POST",
                 .url = df_arena_printf(&arena, "http://%s/integrations/peer/x", address).ptr,
                 .timeout_ms = TIMEOUT_MS,
                 .allow_private = true,
                 .done = note_answer,
                 .arg = c}};
    df_mutex_init(&c->lock);
    df_cond_init(&c->changed);
    assert_ok(df_http_client_new(&(struct df_http_client_options){0}, &http, &err), &err);
    df_http_client_send(http, &c->call);
    df_lock(&c->lock);
    while (!c->done)
        df_cond_wait(&c->changed, &c->lock);
    df_unlock(&c->lock);
    df_http_client_free(http);
    (void)pthread_cond_destroy(&c->changed);
    df_mutex_destroy(&c->lock);
}

static struct df_out_judgement by_integrations(const struct answer *a)
{
    const struct df_integration_settings settings = {.name = "peer",
                                                     .base_url = base_of(a),
                                                     .methods = 1U << DF_POST,
                                                     .timeout_ms = timeout_of(a),
                                                     .retry_max_attempts = 1,
                                                     .breaker = never_opens,
                                                     .unavailable_code = "PeerUnavailable",
                                                     .api_key = key_of(a),
                                                     .api_key_header = "X-Key"};
    struct df_integrations *all = df_integrations_new(&(struct df_integrations_options){
        .settings = &settings, .count = 1, .outbound = &outbound, .clock = df_clock_real()});
    struct df_access access = {.clock = df_clock_real()};
    const struct df_route_table tables[] = {{df_integration_routes, all}, {.routes = NULL}};
    const struct df_http_options opt = {.settings.listen = "127.0.0.1:0",
                                        .settings.threads = 1,
                                        .settings.max_body_bytes = 1000,
                                        .tables = tables,
                                        .authorize = let_in,
                                        .arg = &access};
    struct df_http_server *server = NULL;
    struct caller c;

    assert_ok(df_http_start(&opt, &server, &err), &err);
    ask_server(df_http_address(server), &c);
    df_integrations_stop(all);
    df_http_stop(server);
    struct df_out_judgement j = {DF_OUT_REFUSED, told(DF_STR(INTEGRATION))};
    if (c.call.status == 200)
        j.verdict = DF_OUT_OK;
    else if (strstr(c.body, "the server is shutting down"))
        j.verdict = DF_OUT_STOPPED;
    else if (strstr(c.body, "PeerUnavailable"))
        j.verdict = DF_OUT_AGAIN;
    df_integrations_free(all);
    return j;
}

/* --- the table -------------------------------------------------------------------------------- */

static struct df_out_judgement ask(struct df_out_judgement (*by)(const struct answer *a),
                                   const struct answer *a, bool stops_itself)
{
    pthread_t stopper;
    bool stopped = a->way == STOPS && !stops_itself;

    begin(a);
    if (stopped)
        assert_int_equal(pthread_create(&stopper, NULL, stop_when_seen, &outbound), 0);
    struct df_out_judgement j = by(a);
    if (stopped)
        (void)pthread_join(stopper, NULL);
    bool sent = a->way != NOBODY_THERE && a->way != UNSENDABLE;
    if (seen > sent || (seen < sent && a->way != HANGS))
        fail_msg("%s: the peer saw it %zu times", a->what, (size_t)seen);
    finish();
    return j;
}

static void the_four_judge_alike(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        struct df_out_judgement (*by)(const struct answer *a);
        bool stops_itself;
        bool passes_on;
    } callers[] = {
        {"delivery", by_delivery, true, false},
        {"imports", by_imports, false, false},
        {"relay", by_relay, false, false},
        {"integrations", by_integrations, false, true},
    };

    for (size_t i = 0; i < COUNT(answers); i++) {
        for (size_t k = 0; k < COUNT(callers); k++) {
            struct df_out_judgement want = answers[i].judged;
            if (answers[i].passed_on && callers[k].passes_on)
                want = (struct df_out_judgement){DF_OUT_REFUSED, DF_BREAKER_SUCCESS};
            struct df_out_judgement got = ask(callers[k].by, &answers[i], callers[k].stops_itself);
            if (got.verdict != want.verdict || got.breaker != want.breaker)
                fail_msg("%s, %s: verdict %d, breaker %d", answers[i].what, callers[k].name,
                         got.verdict, got.breaker);
        }
    }
}

static int set_up(void **state)
{
    (void)state;
    static const struct df_route_table tables[] = {{.routes = peer_routes}, {.routes = NULL}};
    const struct df_http_options opt = {.settings.listen = "127.0.0.1:0",
                                        .settings.threads = 2,
                                        .settings.max_body_bytes = 1 << 20,
                                        .tables = tables};
    static char text[LONG_BYTES];

    memset(text, 'x', sizeof(text));
    short_key = df_secret_new(DF_STR("k"));
    long_key = df_secret_new(df_str_n(text, sizeof(text)));
    df_arena_init(&arena);
    assert_ok(df_http_start(&opt, &peer, &err), &err);
    (void)snprintf(base_url, sizeof(base_url), "http://%s", df_http_address(peer));
    testdb_init(&t, DF_SQLITE);
    db = testdb_open(&t);
    assert_ok(df_schema_apply(db, NULL, &err), &err);
    df_log_init(DF_LOG_ERROR, DF_LOG_JSON, df_clock_real());
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    holding = false;
    df_http_stop(peer);
    df_db_close(db);
    testdb_release(&t);
    df_arena_release(&arena);
    df_secret_free(short_key);
    df_secret_free(long_key);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_four_judge_alike)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "fake_clock.h"
#include "sandbox/internal.h"
#include "json/doc.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LEN(a) (sizeof(a) / sizeof((a)[0]))

/* --- the sandbox under test, and how it is called --- */

static struct df_sandbox *sandbox;
static struct df_http_client *client;

static struct df_sandbox *start_with(const struct df_sandbox_options *given)
{
    struct df_sandbox_options opt = *given;
    struct df_sandbox *s = NULL;
    struct df_err err = DF_ERR_INIT;
    opt.listen = "127.0.0.1:0";
    opt.threads = 2;
    if (df_sandbox_start(&opt, &s, &err) != DF_OK)
        fail_msg("%s", err.detail);
    return s;
}

static int set_up(void **state)
{
    (void)state;
    struct df_err err = DF_ERR_INIT;
    sandbox = start_with(&(struct df_sandbox_options){0});
    return df_http_client_new(&(struct df_http_client_options){0}, &client, &err) == DF_OK ? 0 : 1;
}

static int tear_down(void **state)
{
    (void)state;
    df_http_client_free(client);
    df_sandbox_stop(sandbox);
    return 0;
}

struct reply {
    struct df_call call;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool done;
    enum df_code code;
    unsigned status;
    int64_t retry_after_ms;
    char body[70000];
};

static void on_done(struct df_call *call)
{
    struct reply *r = call->arg;
    pthread_mutex_lock(&r->lock);
    r->code = call->code;
    r->status = call->status;
    r->retry_after_ms = call->retry_after_ms;
    size_t n = call->answer.len < sizeof(r->body) - 1 ? call->answer.len : sizeof(r->body) - 1;
    if (n > 0)
        memcpy(r->body, call->answer.ptr, n);
    r->body[n] = '\0';
    r->done = true;
    (void)pthread_cond_signal(&r->changed);
    pthread_mutex_unlock(&r->lock);
}

static void begin(struct reply *r, const char *method, const char *url, struct df_str body,
                  const struct df_call_header *headers, size_t header_count)
{
    memset(r, 0, sizeof(*r));
    (void)pthread_mutex_init(&r->lock, NULL);
    (void)pthread_cond_init(&r->changed, NULL);
    r->call = (struct df_call){.method = method,
                               .url = url,
                               .body = body,
                               .headers = headers,
                               .header_count = header_count,
                               .max_answer_bytes = sizeof(r->body),
                               .timeout_ms = 60000,
                               .allow_private = true,
                               .done = on_done,
                               .arg = r};
    df_http_client_send(client, &r->call);
}

static void finish(struct reply *r)
{
    pthread_mutex_lock(&r->lock);
    while (!r->done)
        (void)pthread_cond_wait(&r->changed, &r->lock);
    pthread_mutex_unlock(&r->lock);
}

static void url_of(char out[256], const char *path)
{
    (void)snprintf(out, 256, "http://%s%s", df_sandbox_address(sandbox), path);
}

/* One answer at a time is looked at. */
static struct reply last;

static unsigned send_with(const char *method, const char *path, struct df_str body,
                          const struct df_call_header *headers, size_t header_count)
{
    char url[256];
    url_of(url, path);
    begin(&last, method, url, body, headers, header_count);
    finish(&last);
    return last.code == DF_OK ? last.status : 0;
}

static unsigned call(const char *method, const char *path, const char *body)
{
    return send_with(method, path, df_str_c(body), NULL, 0);
}

static unsigned post_key(const char *path, const char *body, const char *key)
{
    const struct df_call_header h = {DF_STR("Idempotency-Key"), df_str_c(key)};
    return send_with("POST", path, df_str_c(body), &h, 1);
}

static void expect(const char *text)
{
    if (!strstr(last.body, text))
        fail_msg("%s is not in %s", text, last.body);
}

static void expect_not(const char *text)
{
    if (strstr(last.body, text))
        fail_msg("%s is in %s", text, last.body);
}

/* --- a server that takes acks and callbacks --- */

struct arrival {
    char path[128];
    char body[4096];
    char client_id[64];
    char client_secret[64];
};

static struct {
    struct df_http_server *http;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct arrival arrivals[16];
    size_t count;
    unsigned refuse_first; /* so many are answered 404 */
} fake = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void take(char *out, size_t size, struct df_str s)
{
    (void)snprintf(out, size, DF_STR_FMT, DF_STR_ARG(s));
}

static void fake_handle(struct df_req *req)
{
    pthread_mutex_lock(&fake.lock);
    bool refuse = fake.refuse_first > 0;
    if (refuse) {
        fake.refuse_first--;
    } else if (fake.count < LEN(fake.arrivals)) {
        struct arrival *a = &fake.arrivals[fake.count++];
        take(a->path, sizeof(a->path), df_req_path(req));
        take(a->body, sizeof(a->body), df_req_body(req));
        take(a->client_id, sizeof(a->client_id), df_req_header(req, "X-Client-Id"));
        take(a->client_secret, sizeof(a->client_secret), df_req_header(req, "X-Client-Secret"));
        (void)pthread_cond_signal(&fake.changed);
    }
    pthread_mutex_unlock(&fake.lock);
    df_req_answer_empty(req, refuse ? 404 : 204);
}

static const struct df_route fake_routes[] = {
    {.method = "POST", .pattern = "/{rest...}", .body = DF_BODY_JSON, .handle = fake_handle},
    {.method = NULL}};
static const struct df_route_table fake_tables[] = {{.routes = fake_routes}, {.routes = NULL}};

static void fake_start(unsigned refuse_first)
{
    struct df_err err = DF_ERR_INIT;
    char body[256];
    const struct df_http_options opt = {.settings.listen = "127.0.0.1:0",
                                        .settings.threads = 1,
                                        .settings.max_body_bytes = 1 << 20,
                                        .clock = df_clock_real(),
                                        .tables = fake_tables};
    fake.count = 0;
    fake.refuse_first = refuse_first;
    assert_int_equal(df_http_start(&opt, &fake.http, &err), DF_OK);
    (void)snprintf(
        body, sizeof(body),
        "{\"serverUrl\":\"http://%s/\",\"clientId\":\"demo\",\"clientSecret\":\"sesame\"}",
        df_http_address(fake.http));
    assert_int_equal(call("PUT", "/_config", body), 200);
}

static const struct arrival *fake_wait(size_t count)
{
    pthread_mutex_lock(&fake.lock);
    while (fake.count < count)
        (void)pthread_cond_wait(&fake.changed, &fake.lock);
    pthread_mutex_unlock(&fake.lock);
    return &fake.arrivals[count - 1];
}

static void fake_stop(void)
{
    df_http_stop(fake.http);
}

static void has(const char *where, const char *text)
{
    if (!strstr(where, text))
        fail_msg("%s is not in %s", text, where);
}

/* Spins on what the sandbox says of itself: there is nothing else to wait on. */
static void wait_for_stats(const char *text)
{
    do
        assert_int_equal(call("GET", "/_stats", NULL), 200);
    while (!strstr(last.body, text) && usleep(2000) == 0);
}

/* --- OmniFlow --- */

#define CHUNK                                                                                      \
    "{\"batchId\":\"b-1\",\"chunkId\":5,\"offset\":400,\"items\":[{\"PhoneNumber\":\"+5551999\"}," \
    "{\"PhoneNumber\":\"+5551000\"}]}"

static void omniflow_answers_at_once(void **state)
{
    (void)state;
    assert_int_equal(call("POST", "/api/leads/import", CHUNK), 200);
    assert_string_equal(
        last.body,
        "{\"batchId\":\"b-1\",\"chunkId\":5,\"items\":[{\"sequence\":400,\"status\":"
        "\"Imported\"},{\"sequence\":401,\"status\":\"Imported\"}],\"status\":\"Imported\"}");
}

static void omniflow_rejects_marked_items(void **state)
{
    (void)state;
    assert_int_equal(
        call("POST", "/api/leads/import",
             "{\"batchId\":\"b\",\"chunkId\":\"c-1\",\"offset\":0,\"items\":["
             "{\"sequence\":7,\"sandboxError\":\"no such street\"},"
             "{\"sequence\":8,\"LeadContextJson\":{\"sandboxError\":true}},"
             "{\"sequence\":9,\"LeadContextJson\":\"{\\\"sandboxError\\\":\\\"as text\\\"}\"},"
             "{\"sequence\":10,\"LeadContextJson\":\"{broken sandboxError\"},"
             "{\"sequence\":11,\"sandboxError\":false},{\"sequence\":12,\"sandboxError\":\"\"}]}"),
        200);
    expect("{\"sequence\":7,\"status\":\"Error\",\"errorMessage\":\"no such street\"}");
    expect("{\"sequence\":8,\"status\":\"Error\",\"errorMessage\":\"rejected by the sandbox\"}");
    expect("{\"sequence\":9,\"status\":\"Error\",\"errorMessage\":\"as text\"}");
    expect("{\"sequence\":10,\"status\":\"Imported\"}");
    expect("{\"sequence\":11,\"status\":\"Imported\"}");
    expect("{\"sequence\":12,\"status\":\"Imported\"}");
    expect("],\"status\":\"Imported\"}");
    expect("\"chunkId\":\"c-1\"");
    assert_int_equal(call("POST", "/api/leads/import",
                          "{\"batchId\":\"b\",\"chunkId\":1,\"offset\":0,\"items\":"
                          "[{\"sandboxError\":1}]}"),
                     200);
    expect("\"status\":\"Error\",\"message\":\"every item was rejected\"");
}

static void omniflow_rejects_phones_by_suffix_and_lists_what_is_wanted(void **state)
{
    (void)state;
    assert_int_equal(
        call("PUT", "/_config", "{\"errorPhoneSuffix\":\"000\",\"itemResults\":\"errors\"}"), 200);
    assert_int_equal(call("POST", "/api/leads/import", CHUNK), 200);
    expect("\"items\":[{\"sequence\":401,\"status\":\"Error\"");
    assert_int_equal(call("PUT", "/_config", "{\"itemResults\":\"none\"}"), 200);
    assert_int_equal(call("POST", "/api/leads/import", CHUNK), 200);
    expect("\"items\":[]");
}

static void omniflow_refuses_what_is_no_chunk(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        const char *field;
    } rows[] = {
        {"", "status\":400"},
        {"[]", "status\":400"},
        {"{\"batchId\"", "MalformedJson"},
        {"{}", "\"field\":\"batchId\""},
        {"{}", "\"field\":\"chunkId\""},
        {"{}", "\"field\":\"offset\""},
        {"{}", "\"field\":\"items\""},
        {"{\"batchId\":\"../x\",\"chunkId\":1,\"offset\":0,\"items\":[{}]}",
         "\"field\":\"batchId\""},
        {"{\"batchId\":\"b\",\"chunkId\":{},\"offset\":0,\"items\":[{}]}", "\"field\":\"chunkId\""},
        {"{\"batchId\":\"b\",\"chunkId\":1,\"offset\":-1,\"items\":[{}]}", "\"field\":\"offset\""},
        {"{\"batchId\":\"b\",\"chunkId\":1,\"offset\":0,\"items\":[]}", "\"field\":\"items\""},
        {"{\"batchId\":\"b\",\"chunkId\":1,\"offset\":0,\"items\":{}}", "\"field\":\"items\""},
        {"{\"batchId\":\"b\",\"chunkId\":1,\"offset\":0,\"items\":[{},3]}",
         "\"field\":\"items[1]\""},
    };
    for (size_t i = 0; i < LEN(rows); i++) {
        assert_int_equal(call("POST", "/api/leads/import", rows[i].body), 400);
        expect(rows[i].field);
    }
    assert_int_equal(call("GET", "/_stats", NULL), 200);
    expect("\"byStatus\":{\"400\":13}");
}

static void ack_reaches_the_server_even_if_refused_first(void **state)
{
    (void)state;
    fake_start(2);
    assert_int_equal(call("POST", "/api/leads/import?mode=async", CHUNK), 202);
    expect("\"ackId\":\"ack-");
    char ack_id[64];
    char again[64];
    assert_int_equal(sscanf(last.body, "{\"ackId\":\"%40[^\"]", ack_id), 1);
    const struct arrival *a = fake_wait(1);
    assert_string_equal(a->path, "/imports/b-1/acks");
    assert_string_equal(a->client_id, "demo");
    assert_string_equal(a->client_secret, "sesame");
    has(a->body, ack_id);
    has(a->body, "\"chunkId\":5");
    has(a->body, "\"items\":[{\"sequence\":400,\"status\":\"Imported\"}");
    has(a->body, "\"status\":\"Imported\"");

    const struct df_call_header mode = {DF_STR("X-Sandbox-Mode"), DF_STR("async")};
    assert_int_equal(send_with("POST", "/api/leads/import", DF_STR(CHUNK), &mode, 1), 202);
    assert_int_equal(sscanf(last.body, "{\"ackId\":\"%40[^\"]", again), 1);
    assert_string_equal(ack_id, again);
    (void)fake_wait(2);
    wait_for_stats("\"acks\":{\"sent\":2,\"failed\":0,\"dropped\":0,\"pending\":0}");
    fake_stop();
}

static void acks_follow_the_configuration_and_its_faults(void **state)
{
    (void)state;
    fake_start(0);
    assert_int_equal(call("PUT", "/_config", "{\"omniflow\":\"async\",\"ackDelayMs\":5}"), 200);
    assert_int_equal(
        call("POST", "/_faults", "{\"path\":\"/api/leads\",\"dropAcks\":true,\"count\":1}"), 201);
    assert_int_equal(call("POST", "/api/leads/import", CHUNK), 202);
    assert_int_equal(call("POST", "/api/leads/import?mode=sync", CHUNK), 200);
    assert_int_equal(call("POST", "/api/leads/import", CHUNK), 202);
    (void)fake_wait(1);
    wait_for_stats("\"acks\":{\"sent\":1,\"failed\":0,\"dropped\":1,\"pending\":0}");
    assert_int_equal(fake.count, 1);
    fake_stop();
}

static void without_a_server_no_ack_is_sent(void **state)
{
    (void)state;
    assert_int_equal(call("POST", "/api/leads/import?mode=async", CHUNK), 202);
    assert_int_equal(call("GET", "/_stats", NULL), 200);
    expect("\"acks\":{\"sent\":0,\"failed\":0,\"dropped\":0,\"pending\":0}");
}

/* --- the gateway --- */

#define ENVELOPE                                                                                   \
    "{\"shipmentTicket\":{\"functionalDocID\":{\"businessEntity\":\"TCK\",\"businessDocID\":\"T-"  \
    "9\"},"                                                                                        \
    "\"header\":{\"phaseCode\":15},\"data\":{}}}"

static void gateway_accepts_anything(void **state)
{
    (void)state;
    static const char *const bodies[] = {"", "not json", "{}", "[1,2]"};
    for (size_t i = 0; i < LEN(bodies); i++) {
        assert_int_equal(call("POST", "/gateway/functional-ack", bodies[i]), 200);
        assert_string_equal(last.body, "{\"status\":\"Accepted\"}");
    }
    assert_int_equal(call("GET", "/gateway/functional-ack", NULL), 405);
}

static void tickets_of_both_shapes_are_called_back(void **state)
{
    (void)state;
    fake_start(0);
    assert_int_equal(call("POST", "/gateway/anywhere", ENVELOPE), 200);
    const struct arrival *a = fake_wait(1);
    assert_string_equal(a->path, "/api/tickets/callback");
    assert_string_equal(a->client_id, "demo");
    has(a->body, "\"businessEntity\":\"TCK\",\"businessDocId\":\"T-9\",\"phaseCode\":15,"
                 "\"status\":\"Success\",\"code\":\"0\"");
    has(a->body, "\"processedAt\":\"2");

    assert_int_equal(
        call("POST", "/gateway/tickets",
             "{\"BusinessEntity\":\"TCK\",\"businessDocId\":\"T-8\",\"phaseCode\":\"6\","
             "\"sandboxCallback\":\"error\"}"),
        200);
    a = fake_wait(2);
    has(a->body, "\"businessDocId\":\"T-8\",\"phaseCode\":6,\"status\":\"Error\"");

    assert_int_equal(call("PUT", "/_config", "{\"callbackStatus\":\"Warning\"}"), 200);
    assert_int_equal(call("POST", "/gateway/tickets/in", ENVELOPE), 200);
    a = fake_wait(3);
    has(a->body, "\"status\":\"Warning\"");
    wait_for_stats("\"callbacks\":{\"sent\":3,");
    fake_stop();
}

/* The one callback that comes is that of the ticket sent last. */
static void what_is_no_ticket_is_accepted_without_a_callback(void **state)
{
    (void)state;
    static const char *const bodies[] = {"{\"a\":1}",
                                         "nonsense",
                                         "[]",
                                         "",
                                         "{\"businessEntity\":\"TCK\",\"businessDocId\":\"T-7\"}",
                                         "{\"shipmentTicket\":{\"header\":{\"phaseCode\":15}}}"};
    fake_start(0);
    for (size_t i = 0; i < LEN(bodies); i++)
        assert_int_equal(call("POST", "/gateway/tickets", bodies[i]), 200);
    assert_int_equal(call("POST", "/gateway/tickets", ENVELOPE), 200);
    has(fake_wait(1)->body, "\"businessDocId\":\"T-9\"");
    wait_for_stats("\"callbacks\":{\"sent\":1,\"failed\":0,\"dropped\":0,\"pending\":0}");
    fake_stop();
}

/* --- webhooks --- */

/* Computed with another implementation; the second is the published example of Standard Webhooks.
 */
#define SECRET "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
#define AT     1614265330
#define BODY                                                                                       \
    "{\"event\":\"BatchCompleted\",\"clientId\":\"loja-a\xc3\xa7\xc3\xa3o\",\"batchId\":\"7f9c\"," \
    "\"note\":\"pronto \xf0\x9f\x8e\x89\",\"signature\":"                                          \
    "\"f84ca866c0c50207c5075f68a16bd3a8a449a673efb14c01b2e803fd7fa4ab5d\"}"
#define SIGNATURE "2e6ebc05d977eb0c9b5212dce938cce62da7754f440fb8f59ba3151b7ba4db23"
#define TEST_BODY "{\"test\": 2432232314}"
#define TEST_HEX  "2e37df5d4a028c51a7f3133d64ae1e300d2c2c900f1b1d49d4369ad2530f8964"

static void signatures_are_verified(void **state)
{
    (void)state;
    static const struct {
        const char *secret;
        const char *body;
        const char *timestamp;
        const char *signature;
        const char *id;
        const char *std_timestamp;
        const char *std_signature;
        bool good;
    } rows[] = {
        {SECRET, BODY, "1614265330", "v1=" SIGNATURE, NULL, NULL, NULL, true},
        {SECRET, TEST_BODY, NULL, NULL, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330",
         "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=", true},
        {SECRET, BODY, "1614265330", "v1=" SIGNATURE, "msg_1", "1614265330",
         "v1,fJfsTrilHIB+SwH9T/KuB1bLe3OAqiPbBPt84VynjU8=", true},
        {SECRET, TEST_BODY, "1614265330", "v1=" TEST_HEX, NULL, NULL, NULL, true},
        {SECRET,
         "{ \"signature\" : \"a0b8e24c24adf04442c114c56b65d16e8fbdab21ef3a77bd6c5f463b33f4d86a\","
         "  \"event\":\"X\"}",
         "1614265330", "v1=bad", NULL, NULL, NULL, false},
        /* A secret without the prefix is its own key. */
        {"plain secret", TEST_BODY, "1614265330",
         "v1=0facc72905c0933b85fa8f5f4f070b8909865b870955d9e7cb8d28db57a0ecc4", "m", "1614265330",
         "v1,OEGN+sZ1kNQ+1fO2HosQFajTBUPUErSoXibirSsgwL0=", true},
        /* During a rotation there are two: one has to match. */
        {SECRET, TEST_BODY, "1614265330", "v1=" SIGNATURE ",v1=" TEST_HEX, NULL, NULL, NULL, true},
        {SECRET, TEST_BODY, "1614265330", "v1=" TEST_HEX ", v1=" SIGNATURE, NULL, NULL, NULL, true},
        {SECRET, TEST_BODY, NULL, NULL, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330",
         "v1,AAAA v2,x v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=", true},
        {SECRET, TEST_BODY, NULL, NULL, NULL, NULL, NULL, false},
        {SECRET, BODY, NULL, NULL, NULL, NULL, NULL, false},
        {"other", TEST_BODY, "1614265330", "v1=" TEST_HEX, NULL, NULL, NULL, false},
        {SECRET, TEST_BODY " ", "1614265330", "v1=" TEST_HEX, NULL, NULL, NULL, false},
        {SECRET, TEST_BODY, "1614265331", "v1=" TEST_HEX, NULL, NULL, NULL, false},
        {SECRET, TEST_BODY, "1614264000", "v1=" TEST_HEX, NULL, NULL, NULL, false},
        {SECRET, TEST_BODY, NULL, "v1=" TEST_HEX, NULL, NULL, NULL, false},
        {SECRET, TEST_BODY, "x", "v1=" TEST_HEX, NULL, NULL, NULL, false},
        {SECRET, TEST_BODY, "1614265330", TEST_HEX, NULL, NULL, NULL, false},
        {SECRET, TEST_BODY, "1614265330", "", NULL, NULL, NULL, false},
        {SECRET, TEST_BODY, "1614265330", "v1=", NULL, NULL, NULL, false},
        {SECRET, TEST_BODY, "1614265330", "v1=" TEST_HEX "00", NULL, NULL, NULL, false},
        {SECRET, TEST_BODY, "1614265330", "v1=" TEST_HEX, "m", "1614265330", "v1,AAAA", false},
        {SECRET, TEST_BODY, NULL, NULL, NULL, "1614265330",
         "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=", false},
        {SECRET, TEST_BODY, NULL, NULL, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614269999",
         "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=", false},
        {SECRET, "{\"event\":\"X\",\"signature\":\"f84ca866\"}", "1614265330", "v1=" TEST_HEX, NULL,
         NULL, NULL, false},
    };
    for (size_t i = 0; i < LEN(rows); i++) {
        const struct df_signed m = {
            .body = df_str_c(rows[i].body),
            .timestamp = df_str_c(rows[i].timestamp),
            .signature = df_str_c(rows[i].signature),
            .webhook_id = df_str_c(rows[i].id),
            .webhook_timestamp = df_str_c(rows[i].std_timestamp),
            .webhook_signature = df_str_c(rows[i].std_signature),
        };
        const char *why = df_sb_verify(df_str_c(rows[i].secret), &m, AT, 300);
        if ((why == NULL) != rows[i].good)
            fail_msg("row %zu: %s", i, why ? why : "verified");
    }
}

static void hex_hmac(const char *secret, const char *text, char out[65])
{
    unsigned char digest[32];
    unsigned len = 0;
    assert_non_null(HMAC(EVP_sha256(), secret, (int)strlen(secret), (const unsigned char *)text,
                         strlen(text), digest, &len));
    for (size_t i = 0; i < 32; i++)
        (void)snprintf(out + 2 * i, 3, "%02x", digest[i]);
}

/* The member's place in the body does not matter. */
static void signature_in_the_body_may_stand_anywhere(void **state)
{
    (void)state;
    static const struct {
        const char *before;
        const char *after;
        const char *base;
    } rows[] = {
        {"{\"signature\":\"", "\",\"a\":1}", "{\"a\":1}"},
        {"{ \"signature\" : \"", "\" , \"a\":1}", "{  \"a\":1}"},
        {"{\"a\":1,\"signature\":\"", "\",\"b\":2}", "{\"a\":1,\"b\":2}"},
        {"{\"a\":1 , \"signature\" :\n\"", "\" }", "{\"a\":1  }"},
        {"{\"signature\":\"", "\"}", "{}"},
        {"{\"a\":\"x:\\\"signature\\\"\",\"signature\":\"", "\"}",
         "{\"a\":\"x:\\\"signature\\\"\"}"},
    };
    for (size_t i = 0; i < LEN(rows); i++) {
        char hex[65];
        char body[300];
        char text[400];
        hex_hmac("s", rows[i].base, hex);
        (void)snprintf(body, sizeof(body), "%s%s%s", rows[i].before, hex, rows[i].after);
        (void)snprintf(text, sizeof(text), "%d.%s", AT, body);
        char header[80] = "v1=";
        hex_hmac("s", text, header + 3);
        const struct df_signed m = {.body = df_str_c(body),
                                    .timestamp = DF_STR("1614265330"),
                                    .signature = df_str_c(header)};
        const char *why = df_sb_verify(DF_STR("s"), &m, AT, 300);
        if (why)
            fail_msg("row %zu: %s", i, why);
    }
}

static void webhooks_are_verified_where_a_secret_is_known(void **state)
{
    (void)state;
    const struct df_call_header headers[] = {
        {DF_STR("X-DataFlow-Timestamp"), DF_STR("1614265330")},
        {DF_STR("X-DataFlow-Signature"), DF_STR("v1=" TEST_HEX)},
    };
    assert_int_equal(call("POST", "/webhooks/a", "{}"), 200);
    assert_int_equal(call("PUT", "/_config",
                          "{\"webhookSecrets\":{\"/webhooks/a\":\"" SECRET
                          "\"},\"webhookToleranceSeconds\":0}"),
                     200);
    expect_not("MfKQ");
    assert_int_equal(send_with("POST", "/webhooks/a", DF_STR(TEST_BODY), headers, 2), 200);
    assert_int_equal(send_with("POST", "/webhooks/a", DF_STR("{}"), headers, 2), 401);
    expect("X-DataFlow-Signature does not match");
    assert_int_equal(send_with("POST", "/webhooks/b", DF_STR("{}"), headers, 2), 200);
    assert_int_equal(call("GET", "/_received?path=/webhooks/a", NULL), 200);
    expect("\"status\":401,\"idempotencyKey\":null,\"verified\":false}");
    expect("\"status\":200,\"idempotencyKey\":null,\"verified\":true}");
    expect("\"X-DataFlow-Signature\":\"v1=" TEST_HEX "\"");
    assert_int_equal(call("GET", "/_stats", NULL), 200);
    expect("\"verified\":1,\"rejected\":1,\"byStatus\":{\"200\":2,\"401\":1}");
    assert_int_equal(call("PUT", "/_config", "{\"webhookSecrets\":{\"/webhooks/a\":null}}"), 200);
    assert_int_equal(call("POST", "/webhooks/a", "{}"), 200);
    assert_int_equal(call("PUT", "/_config", "{\"webhookSecret\":\"for all\"}"), 200);
    assert_int_equal(call("POST", "/webhooks/z/y", "{}"), 401);
    expect("there is no signature");
}

/* --- payments --- */

static void payments_answer_the_same_key_with_the_same_id(void **state)
{
    (void)state;
    char first[256];
    assert_int_equal(post_key("/payments/charges", "{\"amount\":10}", "k-1"), 201);
    expect("\"id\":\"pay_");
    expect("\"status\":\"approved\"");
    (void)snprintf(first, sizeof(first), "%.200s", last.body);
    assert_int_equal(post_key("/payments/charges", "{\"amount\":10}", "k-1"), 201);
    assert_string_equal(last.body, first);
    assert_int_equal(post_key("/payments/charges", "{\"amount\":10}", "k-2"), 201);
    assert_string_not_equal(last.body, first);
    assert_int_equal(call("POST", "/payments/charges", "{}"), 201);
    (void)snprintf(first, sizeof(first), "%.200s", last.body);
    assert_int_equal(call("POST", "/payments/charges", "{}"), 201);
    assert_string_not_equal(last.body, first);
    assert_int_equal(call("GET", "/payments/charges/pay_77", NULL), 200);
    assert_string_equal(last.body, "{\"id\":\"pay_77\",\"status\":\"approved\"}");
    static const char *const methods[] = {"PUT", "PATCH", "DELETE"};
    for (size_t i = 0; i < LEN(methods); i++)
        assert_int_equal(call(methods[i], "/payments/charges/pay_77", "{}"), 200);
}

/* --- faults --- */

static void faults_have_their_effect(void **state)
{
    (void)state;
    assert_int_equal(call("POST", "/_faults",
                          "{\"path\":\"/gateway\",\"status\":503,\"count\":2,\"retryAfter\":7}"),
                     201);
    expect("\"id\":1,\"path\":\"/gateway\",\"status\":503,\"retryAfter\":7,\"rate\":1");
    assert_int_equal(post_key("/gateway/x", "{}", "k"), 503);
    assert_int_equal(last.retry_after_ms, 7000);
    expect("SandboxFault");
    assert_int_equal(call("POST", "/payments/charges", "{}"), 201);
    assert_int_equal(call("GET", "/_faults", NULL), 200);
    expect("\"count\":1,\"applied\":1");
    assert_int_equal(post_key("/gateway/x", "{}", "k"), 503);
    assert_int_equal(call("GET", "/_faults", NULL), 200);
    assert_string_equal(last.body, "{\"items\":[]}");
    assert_int_equal(post_key("/gateway/x", "{}", "k"), 200);
    assert_int_equal(call("GET", "/_stats", NULL), 200);
    expect("\"path\":\"/gateway/x\",\"requests\":3,\"distinctKeys\":1,\"repeats\":2,"
           "\"byStatus\":{\"503\":2,\"200\":1}");
}

static void faults_of_a_call_add_up(void **state)
{
    (void)state;
    assert_int_equal(call("POST", "/_faults", "{\"path\":\"/gateway\",\"latencyMs\":20}"), 201);
    assert_int_equal(call("POST", "/_faults", "{\"path\":\"/gateway\",\"latencyMs\":20}"), 201);
    assert_int_equal(call("POST", "/_faults", "{\"path\":\"/gateway/a\",\"status\":429}"), 201);
    assert_int_equal(call("POST", "/_faults", "{\"path\":\"/gateway/a\",\"status\":500}"), 201);
    int64_t before = df_mono_ms(df_clock_real());
    assert_int_equal(call("POST", "/gateway/a", "{}"), 429);
    assert_true(df_mono_ms(df_clock_real()) - before >= 40);
    assert_int_equal(call("POST", "/gateway/b", "{}"), 200);
    assert_string_equal(last.body, "{\"status\":\"Accepted\"}");
    assert_int_equal(call("DELETE", "/_faults?path=/gateway/a", NULL), 200);
    assert_string_equal(last.body, "{\"removed\":2}");
    assert_int_equal(call("POST", "/gateway/a", "{}"), 200);
    assert_int_equal(call("DELETE", "/_faults", NULL), 200);
    assert_string_equal(last.body, "{\"removed\":2}");
}

static void dropped_calls_get_no_answer_but_are_counted(void **state)
{
    (void)state;
    assert_int_equal(call("POST", "/_faults", "{\"path\":\"/gateway\",\"drop\":true}"), 201);
    assert_int_equal(call("POST", "/gateway/a", "{}"), 0);
    assert_int_equal(last.code, DF_E_NET);
    assert_int_equal(call("POST", "/_faults", "{\"path\":\"/gateway\",\"latencyMs\":10}"), 201);
    assert_int_equal(call("POST", "/gateway/a", "{}"), 0);
    assert_int_equal(call("GET", "/_stats", NULL), 200);
    expect("\"byStatus\":{\"dropped\":2}");
    assert_int_equal(call("GET", "/_received", NULL), 200);
    expect("\"status\":\"dropped\"");
}

static void rate_decides_how_many_fail(void **state)
{
    (void)state;
    struct df_fake_clock clock;
    struct df_sb_faults f;
    struct df_sb_fault rows[] = {{.path = "/never", .status = 500, .rate = 0, .count = -1},
                                 {.path = "/always", .status = 500, .rate = 1, .count = -1},
                                 {.path = "/some", .status = 500, .rate = 0.2, .count = -1}};
    int failed = 0;

    df_fake_clock_init(&clock, 0, 42);
    df_sb_faults_init(&f, &clock.base);
    for (size_t i = 0; i < LEN(rows); i++)
        assert_true(df_sb_faults_add(&f, &rows[i]));
    for (int i = 0; i < 10000; i++) {
        assert_int_equal(df_sb_faults_apply(&f, DF_STR("/never")).status, 0);
        assert_int_equal(df_sb_faults_apply(&f, DF_STR("/always")).status, 500);
        failed += df_sb_faults_apply(&f, DF_STR("/some/where")).status == 500;
    }
    assert_in_range(failed, 1800, 2200);
    df_sb_faults_release(&f);
}

static void bad_faults_are_refused_with_every_field(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        const char *fields[3];
    } rows[] = {
        {"nonsense", {"MalformedJson"}},
        {"[]", {"status\":400"}},
        {"{}", {"\"field\":\"path\""}},
        {"{\"path\":\"/x\"}", {"\"field\":\"status\""}},
        {"{\"path\":\"x\",\"status\":99,\"rate\":-1}",
         {"\"field\":\"path\"", "\"field\":\"status\"", "\"field\":\"rate\""}},
        {"{\"path\":\"/x\",\"status\":600}", {"\"field\":\"status\""}},
        {"{\"path\":\"/x\",\"status\":\"bad\"}", {"\"field\":\"status\""}},
        {"{\"path\":\"/x\",\"status\":500,\"rate\":101}", {"\"field\":\"rate\""}},
        {"{\"path\":\"/x\",\"status\":500,\"rate\":\"often\"}", {"\"field\":\"rate\""}},
        {"{\"path\":\"/x\",\"latencyMs\":-1,\"count\":0}",
         {"\"field\":\"latencyMs\"", "\"field\":\"count\""}},
        {"{\"path\":\"/x\",\"drop\":\"perhaps\",\"dropAcks\":3.5}",
         {"\"field\":\"drop\"", "\"field\":\"dropAcks\""}},
        {"{\"path\":\"/x\",\"status\":500,\"latency\":5}", {"\"field\":\"latency\""}},
        {"{\"path\":\"/x\",\"status\":500,\"drop\":true}", {"\"field\":\"drop\""}},
        {"{\"path\":\"/x\",\"latencyMs\":5,\"retryAfter\":1}", {"\"field\":\"retryAfter\""}},
    };
    for (size_t i = 0; i < LEN(rows); i++) {
        assert_int_equal(call("POST", "/_faults", rows[i].body), 400);
        for (size_t k = 0; k < 3 && rows[i].fields[k]; k++)
            expect(rows[i].fields[k]);
    }
    assert_int_equal(call("GET", "/_faults", NULL), 200);
    assert_string_equal(last.body, "{\"items\":[]}");
}

static void percent_and_strings_are_taken_too(void **state)
{
    (void)state;
    assert_int_equal(call("POST", "/_faults",
                          "{\"path\":\"/x\",\"status\":\"500\",\"rate\":25,\"count\":\"3\"}"),
                     201);
    expect("\"rate\":0.25,\"count\":3");
}

static void faults_are_bounded(void **state)
{
    (void)state;
    for (int i = 0; i < DF_SB_FAULTS_MAX; i++)
        assert_int_equal(call("POST", "/_faults", "{\"path\":\"/x\",\"status\":500}"), 201);
    assert_int_equal(call("POST", "/_faults", "{\"path\":\"/x\",\"status\":500}"), 409);
    assert_int_equal(call("POST", "/_reset", ""), 204);
    assert_int_equal(call("GET", "/_faults", NULL), 200);
    assert_string_equal(last.body, "{\"items\":[]}");
}

/* --- what is counted and kept --- */

struct worker {
    pthread_t thread;
    int number;
    int failed;
};

static void *send_keys(void *arg)
{
    struct worker *w = arg;
    char url[256];
    struct reply *r = df_calloc(1, sizeof(*r));

    url_of(url, "/gateway/counted");
    /* Every worker sends keys 0 to 99 of its own, each twice, and 50 that all of them send. */
    for (int i = 0; i < 250; i++) {
        char key[32];
        if (i < 200)
            (void)snprintf(key, sizeof(key), "w%d:%d", w->number, i / 2);
        else
            (void)snprintf(key, sizeof(key), "shared:%d", i);
        const struct df_call_header h = {DF_STR("Idempotency-Key"), df_str_c(key)};
        begin(r, "POST", url, DF_STR("{}"), &h, 1);
        finish(r);
        w->failed += r->status != 200;
    }
    free(r);
    return NULL;
}

static void counts_are_right_under_concurrency(void **state)
{
    (void)state;
    enum { WORKERS = 8 };
    struct worker workers[WORKERS];

    for (int i = 0; i < WORKERS; i++) {
        workers[i] = (struct worker){.number = i};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, send_keys, &workers[i]), 0);
    }
    for (int i = 0; i < WORKERS; i++) {
        (void)pthread_join(workers[i].thread, NULL);
        assert_int_equal(workers[i].failed, 0);
    }
    assert_int_equal(call("GET", "/_stats", NULL), 200);
    expect("\"requests\":2000,\"distinctKeys\":850,\"repeats\":1150,\"keysNotTracked\":0");
    expect("\"path\":\"/gateway/counted\",\"requests\":2000,\"distinctKeys\":850,\"repeats\":1150,"
           "\"byStatus\":{\"200\":2000}");
}

static void the_same_key_on_another_path_is_another_key(void **state)
{
    (void)state;
    assert_int_equal(post_key("/gateway/a", "{}", "k"), 200);
    assert_int_equal(post_key("/gateway/b", "{}", "k"), 200);
    assert_int_equal(call("POST", "/gateway/b", "{}"), 200);
    assert_int_equal(call("GET", "/_stats", NULL), 200);
    expect("\"requests\":3,\"distinctKeys\":2,\"repeats\":0");
    assert_int_equal(call("DELETE", "/_stats", NULL), 204);
    assert_int_equal(call("GET", "/_stats", NULL), 200);
    expect("\"requests\":0,\"distinctKeys\":0,\"repeats\":0");
    expect("\"paths\":[]");
    assert_int_equal(post_key("/gateway/a", "{}", "k"), 200);
    assert_int_equal(call("GET", "/_stats", NULL), 200);
    expect("\"requests\":1,\"distinctKeys\":1,\"repeats\":0");
}

static void control_calls_are_not_counted(void **state)
{
    (void)state;
    assert_int_equal(call("GET", "/", NULL), 200);
    expect("/_received");
    assert_int_equal(call("GET", "/_received", NULL), 200);
    assert_string_equal(last.body, "[]");
    assert_int_equal(call("GET", "/nowhere", NULL), 404);
    assert_int_equal(call("GET", "/_stats", NULL), 200);
    expect("\"requests\":0");
}

static void received_requests_are_shown_newest_first(void **state)
{
    (void)state;
    const struct df_call_header headers[] = {{DF_STR("X-Correlation-Id"), DF_STR("corr-1")},
                                             {DF_STR("Content-Type"), DF_STR("application/json")}};
    assert_int_equal(send_with("POST", "/gateway/a?x=1", DF_STR("{\"n\":1}"), headers, 2), 200);
    assert_int_equal(call("POST", "/payments/charges", "text \"quoted\" \xff"), 201);
    assert_int_equal(call("POST", "/gateway/b", "{\"n\":2}"), 200);

    assert_int_equal(call("GET", "/_received", NULL), 200);
    const char *two = strstr(last.body, "\"body\":{\"n\":2}");
    const char *text = strstr(last.body, "\"body\":\"text \\\"quoted\\\" \xef\xbf\xbd\"");
    const char *one = strstr(last.body, "\"body\":{\"n\":1}");
    assert_true(two && text && one && two < text && text < one);
    expect("\"query\":\"x=1\"");
    expect("\"X-Correlation-Id\":\"corr-1\"");
    expect("\"method\":\"POST\"");

    assert_int_equal(call("GET", "/_received?path=/gateway&limit=1", NULL), 200);
    expect("\"n\":2");
    expect_not("\"n\":1");
    expect_not("quoted");
    assert_int_equal(call("GET", "/_received?limit=0", NULL), 400);
    assert_int_equal(call("GET", "/_received?limit=x", NULL), 400);
}

/* The headers of the newest request, in an arena that the caller releases. */
static const struct df_json *received_headers(struct df_arena *arena, const struct df_json **record)
{
    const struct df_json *doc = NULL;

    assert_int_equal(call("GET", "/_received?limit=1", NULL), 200);
    df_arena_init(arena);
    assert_int_equal(df_json_parse(arena, df_str_c(last.body), &doc, NULL), DF_OK);
    assert_int_equal(df_json_count(doc), 1);
    struct df_json_each each = df_json_each(doc);
    struct df_json *first = DF_ARENA_NEW(arena, struct df_json);
    *first = *df_json_next(&each);
    if (record)
        *record = first;
    return df_json_get(first, "headers");
}

static void every_header_is_kept_but_credentials_are_hidden(void **state)
{
    (void)state;
    static const struct {
        struct df_call_header header;
        const char *shown;
    } rows[] = {
        {{DF_STR_INIT("X-Anything"), DF_STR_INIT("at \"all\"")}, "at \"all\""},
        {{DF_STR_INIT("x-lower"), DF_STR_INIT("")}, ""},
        {{DF_STR_INIT("X-Twice"), DF_STR_INIT("one")}, "one, two, three"},
        {{DF_STR_INIT("x-twice"), DF_STR_INIT("two")}, NULL},
        {{DF_STR_INIT("X-TWICE"), DF_STR_INIT("three")}, NULL},
        {{DF_STR_INIT("webhook-signature"), DF_STR_INIT("v1,abc")}, "v1,abc"},
        {{DF_STR_INIT("Idempotency-Key"), DF_STR_INIT("k")}, "k"},
        {{DF_STR_INIT("X-Author"), DF_STR_INIT("a")}, "a"},
        {{DF_STR_INIT("X-Secre"), DF_STR_INIT("b")}, "b"},
        {{DF_STR_INIT("cooki"), DF_STR_INIT("c")}, "c"},
        {{DF_STR_INIT("Authorization"), DF_STR_INIT("Bearer hush")}, "(hidden)"},
        {{DF_STR_INIT("PROXY-AUTHORIZATION"), DF_STR_INIT("hush")}, "(hidden)"},
        {{DF_STR_INIT("X-Client-Secret"), DF_STR_INIT("hush")}, "(hidden)"},
        {{DF_STR_INIT("x-admin-key"), DF_STR_INIT("hush")}, "(hidden)"},
        {{DF_STR_INIT("Cookie"), DF_STR_INIT("a=hush")}, "(hidden)"},
        {{DF_STR_INIT("X-Api-Key"), DF_STR_INIT("hush")}, "(hidden)"},
        {{DF_STR_INIT("x-Gateway-APIKey"), DF_STR_INIT("hush")}, "(hidden)"},
        {{DF_STR_INIT("sSECRETs"), DF_STR_INIT("hush")}, "(hidden)"},
        {{DF_STR_INIT("aapi-keyring"), DF_STR_INIT("hush")}, "(hidden)"},
    };
    struct df_call_header headers[LEN(rows)];
    struct df_arena arena;

    for (size_t i = 0; i < LEN(rows); i++)
        headers[i] = rows[i].header;
    assert_int_equal(send_with("POST", "/gateway/a", DF_STR("{}"), headers, LEN(rows)), 200);
    const struct df_json *shown = received_headers(&arena, NULL);
    for (size_t i = 0; i < LEN(rows); i++) {
        const struct df_json *v = df_json_get(shown, rows[i].header.name.ptr);
        if (rows[i].shown && !(v && df_str_eq(v->text, df_str_c(rows[i].shown))))
            fail_msg("row %zu: %s", i, last.body);
    }
    assert_non_null(df_json_get(shown, "Host"));
    assert_non_null(df_json_get(shown, "User-Agent"));
    expect("\"x-lower\":");
    expect_not("hush");
    expect_not("headersCut");
    df_arena_release(&arena);
}

static void kept_headers_are_bounded_in_number(void **state)
{
    (void)state;
    enum { N = 90 };
    struct df_call_header headers[N];
    char names[N][16];
    struct df_arena arena;
    const struct df_json *record;
    bool cut = false;

    for (int i = 0; i < N; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "X-%d", i);
        headers[i] = (struct df_call_header){df_str_c(names[i]), DF_STR("v")};
    }
    assert_int_equal(send_with("POST", "/gateway/a", DF_STR("{}"), headers, N), 200);
    const struct df_json *shown = received_headers(&arena, &record);
    assert_int_equal(df_json_count(shown), DF_SB_HEADERS_MAX);
    assert_true(df_json_to_bool(df_json_get(record, "headersCut"), &cut) && cut);
    assert_non_null(df_json_get(shown, "X-0"));
    df_arena_release(&arena);
}

static void kept_headers_are_bounded_in_bytes(void **state)
{
    (void)state;
    enum { BIG = 5000 };
    char *value = malloc(BIG);
    memset(value, 'v', BIG);
    const struct df_call_header headers[] = {{DF_STR("X-First"), df_str_n(value, BIG)},
                                             {DF_STR("X-Second"), df_str_n(value, BIG)},
                                             {DF_STR("X-Secret"), df_str_n(value, BIG)},
                                             {DF_STR("X-Small"), DF_STR("fits")}};
    struct df_arena arena;

    assert_int_equal(send_with("POST", "/gateway/a", DF_STR("{}"), headers, LEN(headers)), 200);
    const struct df_json *shown = received_headers(&arena, NULL);
    assert_int_equal(df_json_get(shown, "X-First")->text.len, BIG);
    assert_null(df_json_get(shown, "X-Second"));
    assert_non_null(df_json_get(shown, "X-Secret"));
    assert_non_null(df_json_get(shown, "X-Small"));
    expect("},\"headersCut\":true,\"body\":");
    df_arena_release(&arena);
    free(value);
}

static void large_bodies_are_kept_cut(void **state)
{
    (void)state;
    size_t len = 100000;
    char *body = malloc(len);
    memset(body, 'z', len);
    assert_int_equal(send_with("POST", "/gateway/large", df_str_n(body, len), NULL, 0), 200);
    free(body);
    assert_int_equal(call("GET", "/_received", NULL), 200);
    expect("\"bodyCut\":true,\"bodyBytes\":100000");
}

static void paths_past_the_thousandth_are_counted_together(void **state)
{
    (void)state;
    struct df_sb_journal *j = df_sb_journal_new(2, df_clock_real());
    struct df_buf buf;
    struct df_json_out out;

    for (int i = 0; i < 1200; i++) {
        char path[32];
        (void)snprintf(path, sizeof(path), "/webhooks/%d", i);
        const struct df_sb_received r = {.method = DF_STR("POST"),
                                         .path = df_str_c(path),
                                         .key = DF_STR("the same"),
                                         .body = df_str_c(path),
                                         .status = 200};
        assert_false(df_sb_journal_add(j, &r));
        assert_true(df_sb_journal_add(j, &r));
    }
    df_buf_init(&buf, 1 << 20);
    df_json_out_init(&out, &buf);
    df_json_open(&out, '{');
    df_sb_journal_write_stats(j, &out);
    df_json_close(&out, '}');
    has(buf.ptr, "\"requests\":2400,\"distinctKeys\":1200,\"repeats\":1200");
    has(buf.ptr, "{\"path\":\"other\",\"requests\":400,\"distinctKeys\":200,\"repeats\":200");
    df_buf_reset(&buf);
    df_json_out_init(&out, &buf);
    df_sb_journal_write_received(j, DF_STR("/webhooks/1199"), 10, &out);
    has(buf.ptr, "\"path\":\"/webhooks/1199\"");
    df_buf_reset(&buf);
    df_json_out_init(&out, &buf);
    df_sb_journal_write_received(j, DF_STR("/webhooks/5"), 3, &out);
    has(buf.ptr, "\"path\":\"/webhooks/599\"");
    df_buf_release(&buf);
    df_sb_journal_free(j);
}

static void the_newest_of_a_path_are_kept(void **state)
{
    (void)state;
    struct df_sb_journal *j = df_sb_journal_new(150, df_clock_real());
    struct df_buf buf;
    struct df_json_out out;

    for (int i = 0; i < 1000; i++) {
        char body[16];
        (void)snprintf(body, sizeof(body), "%d", i);
        const struct df_sb_received r = {.method = DF_STR("POST"),
                                         .path = DF_STR("/gateway/ring"),
                                         .body = df_str_c(body),
                                         .status = 200};
        (void)df_sb_journal_add(j, &r);
    }
    df_buf_init(&buf, 1 << 20);
    df_json_out_init(&out, &buf);
    df_sb_journal_write_received(j, DF_STR(""), 1000, &out);
    const char *at = buf.ptr;
    for (int i = 999; i >= 850; i--) {
        char want[24];
        (void)snprintf(want, sizeof(want), "\"body\":%d,", i);
        at = strstr(at, want);
        if (!at)
            fail_msg("%d is not where it belongs", i);
    }
    assert_null(strstr(buf.ptr, "\"body\":849,"));
    df_buf_release(&buf);
    df_sb_journal_free(j);
}

static void kept_requests_are_bounded(void **state)
{
    (void)state;
    enum { BIG = 60000 };
    struct df_sb_journal *j = df_sb_journal_new(1000, df_clock_real());
    char *body = malloc(BIG);
    struct df_buf buf;
    struct df_json_out out;
    int64_t bytes = -1;

    memset(body, 'x', BIG);
    for (int i = 0; i < 3000; i++) {
        char path[32];
        (void)snprintf(path, sizeof(path), "/gateway/%d", i % 7 == 0 ? i : 1);
        const struct df_sb_received r = {.method = DF_STR("POST"),
                                         .path = df_str_c(path),
                                         .body = df_str_n(body, BIG),
                                         .status = 200};
        (void)df_sb_journal_add(j, &r);
    }
    df_buf_init(&buf, 16 << 20);
    df_json_out_init(&out, &buf);
    df_json_open(&out, '{');
    df_sb_journal_write_stats(j, &out);
    const char *at = strstr(buf.ptr, "\"keptBytes\":");
    assert_non_null(at);
    bytes = strtoll(at + 12, NULL, 10);
    assert_in_range(bytes, DF_SB_BYTES_MAX / 2, DF_SB_BYTES_MAX);
    df_buf_release(&buf);
    free(body);
    df_sb_journal_free(j);
}

static void keys_are_told_apart_and_bounded(void **state)
{
    (void)state;
    enum { MAX = 100000 };
    struct df_sb_keyset *k = df_sb_keyset_new(MAX);
    size_t fresh = 0;
    size_t dropped = 0;

    for (uint64_t i = 0; i < 120000; i++) {
        enum df_sb_key r = df_sb_keyset_add(k, (struct df_hash128){i * 0x9e3779b97f4a7c15U, i});
        fresh += r == DF_SB_KEY_NEW;
        dropped += r == DF_SB_KEY_DROPPED;
    }
    assert_int_equal(fresh + dropped, 120000);
    assert_in_range(fresh, MAX, MAX + 64);
    for (uint64_t i = 0; i < 50000; i++)
        assert_int_equal(df_sb_keyset_add(k, (struct df_hash128){i * 0x9e3779b97f4a7c15U, i}),
                         DF_SB_KEY_SEEN);
    df_sb_keyset_clear(k);
    assert_int_equal(df_sb_keyset_add(k, (struct df_hash128){0, 0}), DF_SB_KEY_NEW);
    assert_int_equal(df_sb_keyset_add(k, (struct df_hash128){0, 0}), DF_SB_KEY_SEEN);
    df_sb_keyset_free(k);
}

static void without_recording_requests_are_only_counted(void **state)
{
    (void)state;
    df_sandbox_stop(sandbox);
    sandbox = start_with(&(struct df_sandbox_options){.no_record = true});
    assert_int_equal(post_key("/gateway/a", "{}", "k"), 200);
    assert_int_equal(post_key("/gateway/a", "{}", "k"), 200);
    assert_int_equal(call("GET", "/_received", NULL), 200);
    assert_string_equal(last.body, "[]");
    assert_int_equal(call("GET", "/_stats", NULL), 200);
    expect("\"requests\":2,\"distinctKeys\":1,\"repeats\":1,\"keysNotTracked\":0,\"keptBytes\":0");
}

/* --- configuration, start and stop --- */

static void configuration_is_shown_without_secrets(void **state)
{
    (void)state;
    assert_int_equal(
        call("PUT", "/_config",
             "{\"serverUrl\":\"http://127.0.0.1:9/\",\"clientId\":\"me\","
             "\"clientSecret\":\"hush\",\"webhookSecret\":\"quiet\",\"omniflow\":\"async\","
             "\"ackDelayMs\":\"15\"}"),
        200);
    expect("\"serverUrl\":\"http://127.0.0.1:9\",\"clientId\":\"me\",\"clientSecret\":\"(set)\"");
    expect("\"omniflow\":\"async\",\"ackDelayMs\":15");
    expect("\"webhookSecret\":\"(set)\"");
    expect_not("hush");
    expect_not("quiet");
    assert_int_equal(call("PUT", "/_config", "{\"clientId\":\"you\"}"), 200);
    expect("\"serverUrl\":\"http://127.0.0.1:9\",\"clientId\":\"you\",\"clientSecret\":\"(set)\"");
    assert_int_equal(call("PUT", "/_config", "{\"serverUrl\":null,\"webhookSecret\":null}"), 200);
    expect("\"serverUrl\":null");
    expect("\"webhookSecret\":null");
}

static void bad_configuration_is_refused_whole(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        const char *field;
    } rows[] = {
        {"{\"omniflow\":\"later\"}", "\"field\":\"omniflow\""},
        {"{\"ackDelayMs\":-1}", "\"field\":\"ackDelayMs\""},
        {"{\"callbackDelayMs\":3600001}", "\"field\":\"callbackDelayMs\""},
        {"{\"callbackStatus\":\"Fine\"}", "\"field\":\"callbackStatus\""},
        {"{\"itemResults\":\"some\"}", "\"field\":\"itemResults\""},
        {"{\"serverUrl\":\"ftp://x/\"}", "\"field\":\"serverUrl\""},
        {"{\"serverUrl\":\"http://x/?q\"}", "\"field\":\"serverUrl\""},
        {"{\"serverUrl\":\"http://x/\",\"clientSecret\":\"a\\r\\nb\"}", "\"field\":\"serverUrl\""},
        {"{\"clientId\":\"x\"}", "\"field\":\"serverUrl\""},
        {"{\"webhookSecrets\":[]}", "\"field\":\"webhookSecrets\""},
        {"{\"webhookSecrets\":{\"/gateway\":\"x\"}}", "webhookSecrets./gateway"},
        {"{\"webhookSecrets\":{\"/webhooks/x\":7}}", "webhookSecrets./webhooks/x"},
        {"{\"webhookSecret\":\"\"}", "\"field\":\"webhookSecret\""},
        {"{\"nonsense\":1}", "\"field\":\"nonsense\""},
        {"{\"omniflow\":\"async\",\"ackDelayMs\":\"x\"}", "\"field\":\"ackDelayMs\""},
    };
    for (size_t i = 0; i < LEN(rows); i++) {
        if (call("PUT", "/_config", rows[i].body) != 400)
            fail_msg("row %zu: %u %s", i, last.status, last.body);
        expect(rows[i].field);
    }
    assert_int_equal(call("GET", "/_config", NULL), 200);
    expect("\"omniflow\":\"sync\",\"ackDelayMs\":0");
}

static void stopping_answers_what_is_held_back(void **state)
{
    (void)state;
    char url[256];
    struct reply *replies = df_calloc(5, sizeof(*replies));

    assert_int_equal(call("POST", "/_faults", "{\"path\":\"/gateway\",\"latencyMs\":600000}"), 201);
    url_of(url, "/gateway/a");
    for (int i = 0; i < 5; i++)
        begin(&replies[i], "POST", url, DF_STR("{}"), NULL, 0);
    wait_for_stats("\"requests\":5");
    df_sandbox_stop(sandbox);
    sandbox = NULL;
    for (int i = 0; i < 5; i++) {
        finish(&replies[i]);
        assert_int_equal(replies[i].status, 200);
    }
    free(replies);
}

static void stopping_forgets_acks_that_are_not_due(void **state)
{
    (void)state;
    fake_start(0);
    assert_int_equal(call("PUT", "/_config", "{\"omniflow\":\"async\",\"ackDelayMs\":600000}"),
                     200);
    for (int i = 0; i < 3; i++)
        assert_int_equal(call("POST", "/api/leads/import", CHUNK), 202);
    wait_for_stats("\"pending\":3");
    df_sandbox_stop(sandbox);
    sandbox = NULL;
    assert_int_equal(fake.count, 0);
    fake_stop();
}

static void wrong_options_are_refused(void **state)
{
    (void)state;
    const struct df_sandbox_options rows[] = {
        {.listen = "127.0.0.1:0", .mode = "later"},
        {.listen = "127.0.0.1:0", .server_url = "nowhere"},
        {.listen = "127.0.0.1:0", .ack_delay_ms = -1},
        {.listen = "127.0.0.1:0", .ca_file = "/nonexistent"},
        {.listen = "nonsense"},
    };
    for (size_t i = 0; i < LEN(rows); i++) {
        struct df_sandbox *s = NULL;
        struct df_err err = DF_ERR_INIT;
        enum df_code code = df_sandbox_start(&rows[i], &s, &err);
        assert_int_equal(code, err.code);
        assert_int_not_equal(code, DF_OK);
        if (!rows[i].listen || strcmp(rows[i].listen, "nonsense") != 0)
            assert_int_equal(code, DF_E_CONFIG);
        assert_null(s);
        assert_true(strlen(err.detail) > 0);
    }
    df_sandbox_stop(NULL);
}

#define WITH_SANDBOX(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SANDBOX(omniflow_answers_at_once),
        WITH_SANDBOX(omniflow_rejects_marked_items),
        WITH_SANDBOX(omniflow_rejects_phones_by_suffix_and_lists_what_is_wanted),
        WITH_SANDBOX(omniflow_refuses_what_is_no_chunk),
        WITH_SANDBOX(ack_reaches_the_server_even_if_refused_first),
        WITH_SANDBOX(acks_follow_the_configuration_and_its_faults),
        WITH_SANDBOX(without_a_server_no_ack_is_sent),
        WITH_SANDBOX(gateway_accepts_anything),
        WITH_SANDBOX(tickets_of_both_shapes_are_called_back),
        WITH_SANDBOX(what_is_no_ticket_is_accepted_without_a_callback),
        cmocka_unit_test(signatures_are_verified),
        cmocka_unit_test(signature_in_the_body_may_stand_anywhere),
        WITH_SANDBOX(webhooks_are_verified_where_a_secret_is_known),
        WITH_SANDBOX(payments_answer_the_same_key_with_the_same_id),
        WITH_SANDBOX(faults_have_their_effect),
        WITH_SANDBOX(faults_of_a_call_add_up),
        WITH_SANDBOX(dropped_calls_get_no_answer_but_are_counted),
        cmocka_unit_test(rate_decides_how_many_fail),
        WITH_SANDBOX(bad_faults_are_refused_with_every_field),
        WITH_SANDBOX(percent_and_strings_are_taken_too),
        WITH_SANDBOX(faults_are_bounded),
        WITH_SANDBOX(counts_are_right_under_concurrency),
        WITH_SANDBOX(the_same_key_on_another_path_is_another_key),
        WITH_SANDBOX(control_calls_are_not_counted),
        WITH_SANDBOX(received_requests_are_shown_newest_first),
        WITH_SANDBOX(every_header_is_kept_but_credentials_are_hidden),
        WITH_SANDBOX(kept_headers_are_bounded_in_number),
        WITH_SANDBOX(kept_headers_are_bounded_in_bytes),
        WITH_SANDBOX(large_bodies_are_kept_cut),
        cmocka_unit_test(paths_past_the_thousandth_are_counted_together),
        cmocka_unit_test(the_newest_of_a_path_are_kept),
        cmocka_unit_test(kept_requests_are_bounded),
        cmocka_unit_test(keys_are_told_apart_and_bounded),
        WITH_SANDBOX(without_recording_requests_are_only_counted),
        WITH_SANDBOX(configuration_is_shown_without_secrets),
        WITH_SANDBOX(bad_configuration_is_refused_whole),
        WITH_SANDBOX(stopping_answers_what_is_held_back),
        WITH_SANDBOX(stopping_forgets_acks_that_are_not_due),
        cmocka_unit_test(wrong_options_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "app/server.h"

#include "peer.h"
#include "testdb.h"

/*
 * The whole server, whose store takes no more jobs: every route says so, or does not need it. A
 * route that this file does not know is asked without a body.
 */

#define ADMIN_KEY "an-admin-key-of-more-than-24"
#define WAITS     "the store is closed" /* of a thread that waits for it */
#define BUSY      "Too many requests are waiting for the database."
#define UUID      "018f3a50-1111-7abc-8def-001122334455"
#define JSON      "Content-Type: application/json\r\n"
#define FORM      "Content-Type: multipart/form-data; boundary=b\r\n"
#define UPLOAD                                                                                     \
    "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.csv\"\r\n\r\n"             \
    "PhoneNumber\r\n\r\n--b--\r\n"
#define TIMES 6 /* more than there are places for a client's reports */

/* What a route is asked with, where a plain request will not do. */
static const struct {
    const char *route;
    const char *query;
    const char *headers;
    const char *body;
    const char *status; /* NULL: 503 */
    const char *words;  /* of the 503; NULL: BUSY */
    bool of_caller;     /* 503 too: when the caller's row has become too old to be trusted */
} rows[] = {
    {"GET /healthz", .status = "200"},
    {"GET /metrics", .status = "200"},
    {"GET /openapi.json", .status = "200"},
    {"GET /", .status = "200"},
    {"GET /console/{file...}", .status = "404"},
    {"GET /whoami", .status = "200", .of_caller = true},
    {"GET /admin/circuit-breakers", .status = "200"},
    {"POST /admin/circuit-breakers/{name}/reset", .status = "404"},
    {"GET /admin/relays", .status = "200"},
    {"POST /admin/keys/rotate", .words = WAITS},
    {"POST /admin/purge", .headers = JSON, .body = "{\"batchId\":\"" UUID "\"}", .words = WAITS},
    {"GET /admin/retention", .query = "?count=true"},
    {"POST /admin/subjects/find", .headers = JSON, .body = "{\"email\":\"a@example.com\"}"},
    {"GET /admin/subjects", .query = "?email=a@example.com"},
    {"POST /admin/clients", .headers = JSON, .body = "{\"name\":\"another\"}"},
    {"PATCH /admin/clients/{clientId}", .headers = JSON, .body = "{\"status\":\"Active\"}"},
    {"PUT /admin/clients/{clientId}/policy", .headers = JSON, .body = "{}"},
    {"PATCH /admin/clients/{clientId}/policy", .headers = JSON, .body = "{}"},
    {"POST /api/counterparties", .headers = JSON,
     .body = "{\"BusinessDocId\":\"1\",\"BusinessAppId\":\"A\",\"BusinessEntity\":\"E\","
             "\"CounterpartyId\":\"C\",\"EntityType\":\"T\",\"Name\":\"N\"}"},
    {"POST /api/tickets", .headers = JSON,
     .body = "{\"businessDocId\":\"1\",\"businessEntity\":\"TCK\",\"phaseCode\":15,"
             "\"companyCode\":\"C\",\"branchCode\":\"B\",\"destinationCode\":\"D\","
             "\"shipmentEvent\":\"S\",\"targetApplicationCode\":\"T\"}"},
    {"GET /api/tickets", .query = "?status=Error"},
    {"POST /api/tickets/callback", .headers = JSON,
     .body = "{\"businessDocId\":\"1\",\"businessEntity\":\"TCK\",\"phaseCode\":15,"
             "\"status\":\"Success\"}"},
    {"PATCH /admin/tickets/{id}", .headers = JSON, .body = "{\"clientId\":null}"},
    {"PATCH /admin/counterparties/{id}", .headers = JSON, .body = "{\"clientId\":null}"},
    {"POST /api/functional-ack", .headers = JSON,
     .body = "{\"businessDocId\":\"1\",\"businessEntity\":\"TCK\",\"operation\":\"PROCESS\","
             "\"status\":\"200\"}"},
    {"GET /api/functional-ack", .query = "?businessDocId=1"},
    {"POST /events", .headers = JSON, .body = "{\"eventType\":\"e\",\"payload\":1}"},
    {"POST /imports", .headers = FORM, .body = UPLOAD},
    {"POST /imports/preview", .headers = FORM, .body = UPLOAD},
    {"POST /imports/{batchId}/acks", .headers = JSON,
     .body = "{\"ackId\":\"a\",\"chunkId\":1,\"status\":\"Imported\"}"},
    {"POST /clients/{clientId}/webhooks", .headers = JSON,
     .body = "{\"url\":\"http://127.0.0.1:9/hook\"}"},
    {"PATCH /clients/{clientId}/webhooks/{id}", .headers = JSON,
     .body = "{\"url\":\"http://127.0.0.1:9/hook\"}"},
    {"POST /admin/webhook-failures/replay", .query = "?since=2026-01-01T00:00:00Z"},
    {"POST /admin/outbox/{channel}/retry", .headers = JSON, .body = "{}"},
    {"POST /admin/outbox/retry", .headers = JSON, .body = "{\"all\":true}"},
    {"POST /admin/outbox/{channel}/dismiss", .headers = JSON, .body = "{}"},
    {"POST /admin/outbox/dismiss", .headers = JSON, .body = "{\"all\":true}"},
    {"POST /admin/outbox/{channel}/pause", .headers = JSON, .body = "{}"},
    {"POST /admin/outbox/{channel}/resume", .headers = JSON, .body = "{}"},
    {"GET /admin/search", .query = "?q=ab"},
    {"GET /search", .query = "?q=ab"},
    {"PUT /clients/{clientId}/mapping", .headers = JSON, .body = "{\"mapping\":{}}"},
    {"POST /clients/{clientId}/webhooks/{id}/replay", .query = "?since=2026-01-01T00:00:00Z"},
    /* It needs a time of the next 30 days, which no table has. */
    {"POST /admin/alert-silences", .headers = JSON, .body = "{}", .status = "400"},
    {"POST /admin/tickets/reprocess", .headers = JSON, .body = "{\"all\":true}"},
    {"PATCH /api/counterparties", .query = "?businessEntity=E&businessDocID=1",
     .headers = JSON "If-Match: \"1-1-1\"\r\n", .body = "{\"status\":\"Processed\"}"},
};

static struct testdb test;
static struct df_settings settings;
static struct df_server *server;
static char credentials[512];

static unsigned port(void)
{
    return (unsigned)strtoul(strrchr(df_server_address(server), ':') + 1, NULL, 10);
}

/* --- fixture --- */

static void make_client(void)
{
    static const char scopes[] =
        "{\"name\":\"Tester\",\"clientId\":\"tester\",\"scopes\":[\"interface\",\"imports\","
        "\"events\",\"integrations\",\"acks\",\"callback\",\"interface-all\"]}";
    const char *answer =
        peer_ask(port(), "POST", "/admin/clients", JSON "X-Admin-Key: " ADMIN_KEY "\r\n", scopes);
    const char *secret = strstr(answer, "\"clientSecret\":\"");

    peer_assert(answer, "201", "clientSecret");
    secret += strlen("\"clientSecret\":\"");
    (void)snprintf(credentials, sizeof(credentials),
                   "X-Client-Id: tester\r\nX-Client-Secret: %.*s\r\n", (int)strcspn(secret, "\""),
                   secret);
}

static int start(void **state)
{
    char database[1200], data_dir[200];
    const char *const sets[] = {
        database,
        data_dir,
        "server.listen=127.0.0.1:0",
        "server.roles=api",
        "admin.key=" ADMIN_KEY,
        "delivery.allow_private_targets=true",
        "alerts.pagerduty_routing_key=0123456789abcdef0123456789abcdef",
        "integration.down.base_url=http://127.0.0.1:1",
        "integration.down.retry_max_attempts=1",
        "integration.down.methods=GET,HEAD,POST,PUT,PATCH,DELETE,OPTIONS",
    };
    struct df_buf complaints;
    struct df_err err = DF_ERR_INIT;

    (void)state;
    testdb_init(&test, DF_SQLITE);
    (void)snprintf(database, sizeof(database), "database.url=%s", test.url);
    (void)snprintf(data_dir, sizeof(data_dir), "server.data_dir=%s", test.dir);
    df_buf_init(&complaints, 4096);
    if (df_settings_load(
            &(struct df_config_sources){.sets = sets, .set_count = sizeof(sets) / sizeof(sets[0])},
            &settings, &complaints) != DF_OK)
        fail_msg("%s", df_buf_str(&complaints).ptr);
    df_buf_release(&complaints);
    assert_ok(df_server_start(&(struct df_server_options){.settings = &settings}, &server, &err),
              &err);
    make_client();
    return 0;
}

static int stop(void **state)
{
    (void)state;
    df_server_stop(server);
    df_settings_release(&settings);
    testdb_release(&test);
    return 0;
}

/* --- routes --- */

static void fill_in(const char *pattern, char *out, size_t size)
{
    bool has_uuid = strncmp(pattern, "/clients/", 9) == 0 ||
                    strncmp(pattern, "/admin/purge/", 13) == 0 ||
                    strncmp(pattern, "/admin/alert", 12) == 0;
    const struct {
        const char *name;
        const char *value;
    } params[] = {
        {"{clientId}", "tester"},  {"{batchId}", UUID},
        {"{channel}", "webhooks"}, {"{name}", "down"},
        {"{path...}", "a/b"},      {"{file}", "nothing"},
        {"{kind}", "ticket"},      {"{id}", has_uuid ? UUID : "1"},
        {"{deliveryId}", UUID},
    };
    size_t len = 0;

    while (*pattern && len < size - 1) {
        size_t i = 0;
        while (i < sizeof(params) / sizeof(params[0]) &&
               strncmp(pattern, params[i].name, strlen(params[i].name)) != 0)
            i++;
        if (i < sizeof(params) / sizeof(params[0])) {
            len += (size_t)snprintf(out + len, size - len, "%s", params[i].value);
            pattern += strlen(params[i].name);
        } else {
            out[len++] = *pattern++;
        }
    }
    out[len] = '\0';
}

/* The answer of a call that would have been kept for later is the integration's own. */
static void assert_busy(const char *method, const char *path, const char *words, const char *answer)
{
    bool integration = strncmp(path, "/integrations/", 14) == 0;

    if (integration || strcmp(method, "HEAD") != 0)
        peer_assert(answer, "503", integration ? "Retry-After: " : words ? words : BUSY);
    peer_assert(answer, "503", "\r\nRetry-After: ");
}

static void ask_route(const char *route)
{
    char method[16], pattern[200], path[300], headers[1024];
    size_t r = 0;

    assert_int_equal(sscanf(route, "%15s %199s", method, pattern), 2);
    while (r < sizeof(rows) / sizeof(rows[0]) && strcmp(rows[r].route, route) != 0)
        r++;
    bool known = r < sizeof(rows) / sizeof(rows[0]);
    fill_in(pattern, path, sizeof(path));
    (void)strncat(path,
                  known && rows[r].query                     ? rows[r].query
                  : strncmp(path, "/integrations/", 14) == 0 ? "?onUnavailable=enqueue"
                                                             : "",
                  sizeof(path) - strlen(path) - 1);
    (void)snprintf(
        headers, sizeof(headers), "%s%s", known && rows[r].headers ? rows[r].headers : "",
        strncmp(path, "/admin", 6) == 0 ? "X-Admin-Key: " ADMIN_KEY "\r\n" : credentials);
    for (int i = 0; i < TIMES; i++) {
        const char *answer = peer_ask(port(), method, path, headers, known ? rows[r].body : NULL);
        bool is_busy = known && rows[r].of_caller && strncmp(answer, "HTTP/1.1 503", 12) == 0;
        if (known && rows[r].status && !is_busy)
            peer_assert(answer, rows[r].status, "");
        else
            assert_busy(method, path, known ? rows[r].words : NULL, answer);
    }
}

static void every_route_says_that_the_queue_is_full(void **state)
{
    struct df_buf out;

    (void)state;
    peer_assert(peer_ask(port(), "GET", "/whoami", credentials, NULL), "200", "tester");
    df_store_stop(df_server_access(server)->store);
    df_buf_init(&out, 1 << 16);
    df_server_print_routes(&out);
    for (struct df_str line, rest = df_buf_str(&out); rest.len > 0;) {
        char route[256];
        rest = df_str_cut(rest, '\n', &line);
        (void)snprintf(route, sizeof(route), DF_STR_FMT, DF_STR_ARG(line));
        print_message("%s\n", route);
        ask_route(route);
    }
    df_buf_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_route_says_that_the_queue_is_full, start, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

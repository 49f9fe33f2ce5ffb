/* The HTTP client and HTTP/2, against a server that speaks both versions: Node.js, which has one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "certificate.h"
#include "net/client.h"

#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * Answers "<version> <number of the connection>" once the body is read: libcurl 7.88 takes an
 * answer that comes earlier for a broken stream. What comes to /N is answered when N have come.
 * Prints its port; ends when its input does, hence with the test however that ends.
 */
static char script[] =
    "const fs = require('fs'), [cert, key] = process.argv.slice(1);\n"
    "const numbers = new Map(), waiting = [];\n"
    "const server = require('http2').createSecureServer({\n"
    "    cert: fs.readFileSync(cert), key: fs.readFileSync(key), allowHTTP1: true\n"
    "}, (req, res) => {\n"
    "    const connection = req.stream ? req.stream.session : req.socket;\n"
    "    if (!numbers.has(connection)) numbers.set(connection, numbers.size + 1);\n"
    "    const answer = () => res.end(req.httpVersion + ' ' + numbers.get(connection));\n"
    "    req.resume().on('end', () => {\n"
    "        if (req.url === '/') answer();\n"
    "        else if (waiting.push(answer) >= Number(req.url.slice(1)))\n"
    "            waiting.splice(0).forEach(f => f());\n"
    "    });\n"
    "});\n"
    "server.listen(0, '127.0.0.1', () => console.log(server.address().port));\n"
    "process.stdin.on('end', () => process.exit()).resume();\n";

static char cert[] = "/tmp/df-cert-XXXXXX";
static char key[] = "/tmp/df-key-XXXXXX";
static pid_t node; /* 0: there is none */
static int node_in;
static unsigned port;

static int start_server(void **state)
{
    char *const argv[] = {(char[]){"node"}, (char[]){"-e"}, script, cert, key, NULL};
    posix_spawn_file_actions_t actions;
    char line[16] = "";
    int in[2];
    int out[2];
    (void)state;

    write_certificate(cert, key);
    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawn_file_actions_adddup2(&actions, in[0], 0);
    (void)posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    if (posix_spawnp(&node, argv[0], &actions, NULL, argv, environ) != 0)
        node = 0;
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)close(in[0]);
    (void)close(out[1]);
    node_in = in[1];
    (void)!read(out[0], line, sizeof(line) - 1);
    (void)close(out[0]);
    port = (unsigned)strtoul(line, NULL, 10);
    return !node || port > 0 ? 0 : -1;
}

static int stop_server(void **state)
{
    int status = 0;
    (void)state;

    (void)close(node_in);
    if (node)
        (void)waitpid(node, &status, 0);
    (void)unlink(cert);
    (void)unlink(key);
    return status;
}

/* --- calls --- */

struct answer {
    struct df_call call;
    char url[64];
    struct df_call_header header;
    char body[64];
    bool done;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static void note(struct df_call *call)
{
    struct answer *a = call->arg;

    pthread_mutex_lock(&lock);
    (void)snprintf(
        a->body, sizeof(a->body), DF_STR_FMT,
        DF_STR_ARG(call->code == DF_OK ? df_buf_str(&call->answer) : df_str_c(call->err.detail)));
    a->done = true;
    (void)pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
}

static void begin(struct df_http_client *c, struct answer *a, const char *method, const char *path,
                  const char *idempotency_key)
{
    *a = (struct answer){.header = {DF_STR("Idempotency-Key"), df_str_c(idempotency_key)}};
    (void)snprintf(a->url, sizeof(a->url), "https://127.0.0.1:%u%s", port, path);
    a->call = (struct df_call){.method = method,
                               .url = a->url,
                               .headers = &a->header,
                               .header_count = idempotency_key ? 1 : 0,
                               .body = strcmp(method, "GET") == 0 ? DF_STR_NULL : DF_STR("{}"),
                               .timeout_ms = 60000,
                               .allow_private = true,
                               .done = note,
                               .arg = a};
    df_http_client_send(c, &a->call);
}

static void finish(struct answer *a)
{
    pthread_mutex_lock(&lock);
    while (!a->done)
        (void)pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

static struct df_http_client *client_new(bool http2)
{
    struct df_http_client *c = NULL;
    struct df_err err = DF_ERR_INIT;
    const struct df_http_client_options opt = {.ca_file = cert, .http2 = http2};

    if (!node)
        skip();
    assert_int_equal(df_http_client_new(&opt, &c, &err), DF_OK);
    return c;
}

/* --- tests --- */

/* In this order on one client: what must not go over HTTP/2 finds such a connection open. */
static void http2_is_spoken_only_on_request_and_for_what_is_safe_to_repeat(void **state)
{
    (void)state;
    static const struct {
        const char *method;
        const char *key;
        bool safe;
    } rows[] = {{"POST", "k1", true}, {"POST", NULL, false},  {"GET", NULL, true},
                {"PUT", NULL, true},  {"PATCH", NULL, false}, {"PATCH", "k2", true},
                {"POST", "k3", true}, {"POST", NULL, false}};
    for (int http2 = 0; http2 < 2; http2++) {
        struct df_http_client *c = client_new(http2);
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
            struct answer a;
            begin(c, &a, rows[i].method, "/", rows[i].key);
            finish(&a);
            if (strncmp(a.body, http2 && rows[i].safe ? "2.0 " : "1.1 ", 4) != 0)
                fail_msg("http2 %d, row %zu: %s", http2, i, a.body);
        }
        df_http_client_free(c);
    }
}

/* None is answered before all are there: with HTTP/1.1 that would take as many connections. */
static void calls_share_one_http2_connection(void **state)
{
    (void)state;
    enum { N = 40 };
    struct df_http_client *c = client_new(true);
    struct answer answers[N];

    for (int i = 0; i < N; i++)
        begin(c, &answers[i], "POST", "/40", "k");
    for (int i = 0; i < N; i++) {
        finish(&answers[i]);
        assert_memory_equal(answers[i].body, "2.0 ", 4);
        assert_string_equal(answers[i].body, answers[0].body);
    }
    df_http_client_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(http2_is_spoken_only_on_request_and_for_what_is_safe_to_repeat),
        cmocka_unit_test(calls_share_one_http2_connection),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

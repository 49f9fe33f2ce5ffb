/* The HTTP client over TLS, against the server of Node.js. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "certificate.h"
#include "net/client.h"
#include "net/security.h"

#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * Answers "<number of the connection> <length of the body>"; after /bye it closes the connection a
 * little later, without having said so. /large answers with 3 MiB. Prints its port; ends when its
 * input does, hence with the test however that ends.
 */
static char script[] =
    "const fs = require('fs'), [cert, key] = process.argv.slice(1);\n"
    "const numbers = new Map();\n"
    "const server = require('https').createServer({\n"
    "    cert: fs.readFileSync(cert), key: fs.readFileSync(key), keepAliveTimeout: 60000\n"
    "}, (req, res) => {\n"
    "    if (!numbers.has(req.socket)) numbers.set(req.socket, numbers.size + 1);\n"
    "    let length = 0;\n"
    "    if (req.url === '/bye') setTimeout(() => req.socket.end(), 100);\n"
    "    req.on('data', d => { length += d.length; }).on('end', () => res.end(\n"
    "        req.url === '/large' ? Buffer.alloc(3 << 20, 'x') : numbers.get(req.socket) + ' ' + "
    "length));\n"
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
    size_t length; /* of the answer */
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
    a->length = call->answer.len;
    a->done = true;
    (void)pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
}

static void begin(struct df_http_client *c, struct answer *a, const char *method, const char *path,
                  const char *idempotency_key, struct df_str body)
{
    *a = (struct answer){.header = {DF_STR("Idempotency-Key"), df_str_c(idempotency_key)}};
    (void)snprintf(a->url, sizeof(a->url), "https://127.0.0.1:%u%s", port, path);
    a->call = (struct df_call){.method = method,
                               .url = a->url,
                               .headers = &a->header,
                               .header_count = idempotency_key ? 1 : 0,
                               .body = body,
                               .max_answer_bytes = 4 << 20,
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

static struct df_http_client *client_new(void)
{
    struct df_http_client *c = NULL;
    struct df_err err = DF_ERR_INIT;
    const struct df_http_client_options opt = {0};

    assert_int_equal(df_security_use(&(struct df_security_settings){.ca_file = cert}, &err), DF_OK);
    assert_int_equal(df_http_client_new(&opt, &c, &err), DF_OK);
    return c;
}

static void call(struct df_http_client *c, struct answer *a, const char *path, struct df_str body)
{
    begin(c, a, "POST", path, "a:1", body);
    finish(a);
}

/* With TLS 1.3 the peer sends tickets when it likes, also on an idle connection. */
static void one_connection_serves_many_calls(void **state)
{
    (void)state;
    struct df_http_client *c = client_new();
    struct answer a;

    for (int i = 0; i < 50; i++) {
        call(c, &a, "/", DF_STR("{}"));
        assert_string_equal(a.body, "1 2");
        usleep(i % 10 == 0 ? 20000 : 0);
    }
    df_http_client_free(c);
}

static void long_bodies_go_both_ways(void **state)
{
    (void)state;
    struct df_http_client *c = client_new();
    static char body[5 << 20];
    struct answer a;

    memset(body, 'y', sizeof body);
    call(c, &a, "/", df_str_n(body, sizeof body));
    assert_non_null(strstr(a.body, " 5242880"));
    call(c, &a, "/large", DF_STR(""));
    assert_int_equal(a.call.code, DF_OK);
    assert_int_equal(a.length, 3 << 20);
    df_http_client_free(c);
}

static void a_connection_that_was_closed_while_idle_is_replaced(void **state)
{
    (void)state;
    struct df_http_client *c = client_new();
    struct answer a;
    char first[64];

    call(c, &a, "/bye", DF_STR("{}"));
    memcpy(first, a.body, sizeof first);
    for (int i = 0; i < 3; i++) {
        usleep(400000);
        call(c, &a, "/bye", DF_STR("{}"));
        assert_int_equal(a.call.code, DF_OK);
        assert_string_not_equal(a.body, first);
        memcpy(first, a.body, sizeof first);
    }
    df_http_client_free(c);
}

static void many_calls_at_once_all_end(void **state)
{
    (void)state;
    enum { CALLS = 400 };
    static struct answer a[CALLS];
    struct df_http_client *c = client_new();

    for (size_t i = 0; i < CALLS; i++)
        begin(c, &a[i], "POST", "/", "a:1", DF_STR("{}"));
    for (size_t i = 0; i < CALLS; i++) {
        finish(&a[i]);
        if (a[i].call.code != DF_OK)
            fail_msg("call %zu: %s", i, a[i].body);
    }
    df_http_client_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_connection_serves_many_calls),
        cmocka_unit_test(long_bodies_go_both_ways),
        cmocka_unit_test(a_connection_that_was_closed_while_idle_is_replaced),
        cmocka_unit_test(many_calls_at_once_all_end),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

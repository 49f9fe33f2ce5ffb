/*
 * What libcurl does to connections that are minutes old. It has dialled them and believes that they
 * have rested since: at a later dial it ends those that it finds too old, whatever is under way on
 * them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "called.h"
#include "certificate.h"
#include "net/http.h"
#include "net/security.h"
#include "net/sockets.h"
#include "port.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <time.h>

/* libcurl and the program ask this instead of the C library's. Deadlines of calls run on the boot
 * clock, so that none passes with it. */
static _Atomic int64_t ahead_s;

int clock_gettime(clockid_t id, struct timespec *ret)
{
    long failed = syscall(SYS_clock_gettime, id, ret);

    if (id == CLOCK_MONOTONIC || id == CLOCK_MONOTONIC_RAW)
        ret->tv_sec += atomic_load(&ahead_s);
    return (int)failed;
}

static void pass_minutes(int64_t minutes)
{
    atomic_fetch_add(&ahead_s, minutes * 60);
}

static void wait_for_requests(struct peer *p, int n)
{
    while (atomic_load(&p->requests) < n)
        (void)usleep(1000);
}

/* --- plain connections --- */

/* A burst: more calls than connections, long after the first were dialled. */
static void old_connections_keep_their_calls(void **state)
{
    (void)state;
    enum { N = 8 };
    struct peer *p = peer_start();
    struct df_http_client *c = client_new();
    struct outcome held[N], late;
    struct gate g;

    gate_init(&g);
    for (int i = 0; i < N; i++) {
        prepare(&held[i], &g, p->port, "/wait");
        df_http_client_send(c, &held[i].call);
    }
    wait_for_requests(p, N);
    pass_minutes(3);
    get(c, &late, p->port, "/ok");
    assert_int_equal(late.status, 200);
    free(late.body);
    peer_open(p);
    gate_wait(&g, N);
    for (int i = 0; i < N; i++) {
        if (held[i].code != DF_OK || held[i].status != 200)
            fail_msg("call %d: %s %s", i, df_code_name(held[i].code), held[i].detail);
        free(held[i].body);
    }
    assert_int_equal(peer_connections(p), N + 1);
    assert_int_equal(atomic_load(&p->requests), N + 1);
    df_http_client_free(c);
    peer_stop(p);
}

/* Two peers. The connection that rests is the first one's; its descriptor's number must not become
 * the second's while the wire still has it, or the first one's request goes to the second. */
static void a_connection_at_rest_never_leads_to_another_peer(void **state)
{
    (void)state;
    struct peer *mine = peer_start(), *other = peer_start();
    struct df_http_client *c = client_new();
    struct outcome first, held, again;
    struct gate g;

    get(c, &first, mine->port, "/ok");
    assert_int_equal(first.status, 200);
    pass_minutes(3);
    gate_init(&g);
    prepare(&held, &g, other->port, "/wait");
    df_http_client_send(c, &held.call);
    wait_for_requests(other, 1);
    prepare(&again, &g, mine->port, "/ok");
    df_http_client_send(c, &again.call);
    peer_open(other);
    gate_wait(&g, 2);
    assert_int_equal(held.status, 200);
    assert_int_equal(again.status, 200);
    assert_int_equal(atomic_load(&other->requests), 1);
    assert_int_equal(atomic_load(&mine->requests), 2);
    assert_int_equal(peer_connections(mine), 1);
    free(first.body);
    free(held.body);
    free(again.body);
    df_http_client_free(c);
    peer_stop(mine);
    peer_stop(other);
}

/* --- encrypted ones --- */

static pthread_mutex_t door = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t opened = PTHREAD_COND_INITIALIZER;
static bool is_open;
static _Atomic int arrived;

static void wait_at_the_door(struct df_req *req)
{
    atomic_fetch_add(&arrived, 1);
    (void)pthread_mutex_lock(&door);
    while (!is_open)
        (void)pthread_cond_wait(&opened, &door);
    (void)pthread_mutex_unlock(&door);
    df_req_answer_static(req, 200, "text/plain", DF_STR("waited"));
}

static void answer_at_once(struct df_req *req)
{
    df_req_answer_static(req, 200, "text/plain", DF_STR("hello"));
}

static void open_door(bool open)
{
    (void)pthread_mutex_lock(&door);
    is_open = open;
    (void)pthread_cond_broadcast(&opened);
    (void)pthread_mutex_unlock(&door);
}

static const struct df_route routes[] = {
    {.method = "GET", .pattern = "/wait", .handle = wait_at_the_door},
    {.method = "GET", .pattern = "/ok", .handle = answer_at_once},
    {.method = NULL}};
static const struct df_route_table tables[] = {{.routes = routes}, {.routes = NULL}};

static void trust(const char *ca_file)
{
    struct df_err err = DF_ERR_INIT;

    if (df_security_use(&(struct df_security_settings){.ca_file = ca_file}, &err) != DF_OK)
        fail_msg("%s", err.detail);
}

static void prepare_tls(struct outcome *o, struct gate *g, unsigned port, const char *path)
{
    prepare(o, g, port, path);
    (void)snprintf(o->url, sizeof(o->url), "https://127.0.0.1:%u%s", port, path);
}

/* Two calls are under way, one of them encrypted, when time passes and, if `reloads`, the
 * authorities are read anew; then another connection is dialled. */
static void run_tls(bool reloads)
{
    char cert[] = "/tmp/df-cert-XXXXXX", key[] = "/tmp/df-key-XXXXXX";
    struct df_http_server *server = NULL;
    struct df_err err = DF_ERR_INIT;
    struct peer *p = peer_start();
    struct outcome held, plain, late;
    struct gate g, first;

    write_certificate(cert, key);
    const struct df_http_options opt = {.settings.listen = "127.0.0.1:0",
                                        .settings.threads = 4,
                                        .settings.tls_cert = cert,
                                        .settings.tls_key = key,
                                        .clock = df_clock_real(),
                                        .tables = tables};
    assert_int_equal(df_http_start(&opt, &server, &err), DF_OK);
    trust(cert);
    struct df_http_client *c = client_new();
    gate_init(&g);
    gate_init(&first);
    open_door(false);
    atomic_store(&arrived, 0);
    prepare_tls(&held, &first, port_of(server), "/wait");
    df_http_client_send(c, &held.call);
    while (atomic_load(&arrived) == 0)
        (void)usleep(1000);
    prepare(&plain, &first, p->port, "/wait");
    df_http_client_send(c, &plain.call);
    wait_for_requests(p, 1);
    pass_minutes(reloads ? 1 : 3);
    if (reloads)
        df_security_look(true);
    prepare_tls(&late, &g, port_of(server), "/ok");
    df_http_client_send(c, &late.call);
    gate_wait(&g, 1);
    open_door(true);
    peer_open(p);
    gate_wait(&first, 2);
    if (late.status != 200)
        fail_msg("the late call: %s %s", df_code_name(late.code), late.detail);
    if (held.status != 200)
        fail_msg("the encrypted call: %s %s", df_code_name(held.code), held.detail);
    if (plain.status != 200)
        fail_msg("the plain call: %s %s", df_code_name(plain.code), plain.detail);
    assert_int_equal(atomic_load(&arrived), 1);
    free(held.body);
    free(plain.body);
    free(late.body);
    df_http_client_free(c);
    peer_stop(p);
    trust(NULL);
    df_http_stop(server);
    (void)unlink(cert);
    (void)unlink(key);
}

static void old_encrypted_connections_keep_their_calls(void **state)
{
    (void)state;
    run_tls(false);
}

static void authorities_read_anew_end_no_call(void **state)
{
    (void)state;
    run_tls(true);
}

/* --- whose a socket is --- */

static void only_its_owner_closes_an_adopted_socket(void **state)
{
    (void)state;
    struct df_sockets s;
    int owner;

    assert_true(df_sockets_open(&s));
    int fd = df_sockets_dial(&s, AF_INET, SOCK_STREAM, 0);
    int other = df_sockets_dial(&s, AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0 && other >= 0);
    df_sockets_adopt(&s, fd, &owner);
    assert_int_equal(df_sockets_let_go(&s, fd), 0);
    assert_true(fcntl(fd, F_GETFD) >= 0);
    df_sockets_hang_up(&s, fd);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
    assert_int_equal(df_sockets_let_go(&s, other), 0);
    assert_int_equal(fcntl(other, F_GETFD), -1);
    df_sockets_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(old_connections_keep_their_calls),
        cmocka_unit_test(a_connection_at_rest_never_leads_to_another_peer),
        cmocka_unit_test(old_encrypted_connections_keep_their_calls),
        cmocka_unit_test(authorities_read_anew_end_no_call),
        cmocka_unit_test(only_its_owner_closes_an_adopted_socket),
    };
    return cmocka_run_group_tests_name("net/age", tests, NULL, NULL);
}

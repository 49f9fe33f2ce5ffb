/*
 * The dispatcher rabbitmq against a RabbitMQ that tests/rabbit.py starts, once for all of these
 * tests. What arrived is read back through a connection of the test's own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../net/certificate.h"
#include "base/log.h"
#include "events.h"
#include "net/security.h"

#include <amqp.h>
#include <amqp_tcp_socket.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_MESSAGE (256 * 1024) /* tests/rabbit.py: MAX_MESSAGE_BYTES */

/* --- the node --- */

static pid_t node_pid;
static FILE *node_in;
static FILE *node_out;
static char url[128];
static int port;
static int tls_port;
static char cert_path[] = "/tmp/dataflow-cert-XXXXXX";
static char key_path[] = "/tmp/dataflow-key-XXXXXX";

static void tell(const char *command)
{
    char line[4096];
    assert_true(fprintf(node_in, "%s\n", command) > 0);
    assert_int_equal(fflush(node_in), 0);
    if (!fgets(line, sizeof(line), node_out) || sscanf(line, "%127s %d", url, &tls_port) < 1 ||
        strncmp(url, "amqp://", 7) != 0)
        fail_msg("rabbit.py %s: %s", command, line);
    port = atoi(strrchr(url, ':') + 1);
}

static void trust(const char *ca_file)
{
    struct df_err err = DF_ERR_INIT;
    const struct df_security_settings s = {.ca_file = ca_file};
    assert_int_equal(df_security_use(&s, &err), DF_OK);
}

static int start_node(void **state)
{
    int in[2];
    int out[2];
    (void)state;
    write_certificate(cert_path, key_path);
    trust(cert_path);
    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    node_pid = fork();
    if (node_pid == 0) {
        (void)dup2(in[0], STDIN_FILENO);
        (void)dup2(out[1], STDOUT_FILENO);
        execl("/usr/bin/python3", "python3", "tests/rabbit.py", cert_path, key_path, (char *)NULL);
        _exit(127);
    }
    (void)close(in[0]);
    (void)close(out[1]);
    node_in = fdopen(in[1], "w");
    node_out = fdopen(out[0], "r");
    (void)signal(SIGPIPE, SIG_IGN);
    df_log_init(DF_LOG_ERROR, DF_LOG_JSON, df_clock_real());
    tell("start");
    return 0;
}

static int end_node(void **state)
{
    int status;
    (void)state;
    (void)fclose(node_in);
    (void)fclose(node_out);
    (void)waitpid(node_pid, &status, 0);
    (void)unlink(cert_path);
    (void)unlink(key_path);
    return status;
}

/* --- a connection of the test's own --- */

static amqp_connection_state_t peer;

static void peer_open(void)
{
    peer = amqp_new_connection();
    amqp_socket_t *socket = amqp_tcp_socket_new(peer);
    assert_int_equal(amqp_socket_open(socket, "127.0.0.1", port), AMQP_STATUS_OK);
    amqp_rpc_reply_t reply = amqp_login(peer, "/", 0, AMQP_DEFAULT_FRAME_SIZE, 0,
                                        AMQP_SASL_METHOD_PLAIN, "guest", "guest");
    assert_int_equal(reply.reply_type, AMQP_RESPONSE_NORMAL);
    assert_non_null(amqp_channel_open(peer, 1));
}

static void peer_close(void)
{
    (void)amqp_destroy_connection(peer);
    peer = NULL;
}

static void declare_exchange(const char *name)
{
    assert_non_null(amqp_exchange_declare(peer, 1, amqp_cstring_bytes(name),
                                          amqp_cstring_bytes("topic"), 0, 1, 0, 0,
                                          amqp_empty_table));
}

/* A durable queue of this name, bound to the exchange for everything. */
static void declare_queue(const char *name, const char *exchange)
{
    assert_non_null(
        amqp_queue_declare(peer, 1, amqp_cstring_bytes(name), 0, 1, 0, 0, amqp_empty_table));
    if (exchange)
        assert_non_null(amqp_queue_bind(peer, 1, amqp_cstring_bytes(name),
                                        amqp_cstring_bytes(exchange), amqp_cstring_bytes("#"),
                                        amqp_empty_table));
}

/* The next message; false: there is none. The message is the caller's to destroy. */
static bool next_message(const char *queue, amqp_message_t *ret)
{
    amqp_rpc_reply_t reply = amqp_basic_get(peer, 1, amqp_cstring_bytes(queue), 1);
    assert_int_equal(reply.reply_type, AMQP_RESPONSE_NORMAL);
    if (reply.reply.id == AMQP_BASIC_GET_EMPTY_METHOD)
        return false;
    assert_int_equal(amqp_read_message(peer, 1, ret, 0).reply_type, AMQP_RESPONSE_NORMAL);
    return true;
}

/* Reads the queue empty: how often the event of each number came, by its id "PREFIX-n". */
static size_t read_all(const char *queue, size_t *seen, size_t n)
{
    amqp_message_t m;
    size_t count = 0;
    memset(seen, 0, n * sizeof(*seen));
    while (next_message(queue, &m)) {
        char id[64] = "";
        assert_true(m.properties.message_id.len < sizeof(id));
        memcpy(id, m.properties.message_id.bytes, m.properties.message_id.len);
        size_t i = strtoul(strrchr(id, '-') + 1, NULL, 10);
        assert_true(i < n);
        seen[i]++;
        count++;
        amqp_destroy_message(&m);
        amqp_maybe_release_buffers(peer);
    }
    return count;
}

static struct df_str header_of(const amqp_message_t *m, const char *name)
{
    for (int i = 0; i < m->properties.headers.num_entries; i++) {
        const amqp_table_entry_t *e = &m->properties.headers.entries[i];
        if (df_str_eq(df_str_n(e->key.bytes, e->key.len), df_str_c(name)))
            return df_str_n(e->value.value.bytes.bytes, e->value.value.bytes.len);
    }
    return DF_STR_NULL;
}

#define assert_text(s, want)                                                                       \
    do {                                                                                           \
        struct df_str text_ = (s);                                                                 \
        if (!df_str_eq(text_, df_str_c(want)))                                                     \
            fail_msg("\"" DF_STR_FMT "\", not \"%s\"", DF_STR_ARG(text_), want);                   \
    } while (0)
#define assert_bytes(b, want) assert_text(df_str_n((b).bytes, (b).len), want)

/* --- a sink --- */

static struct df_sink_options opt;
static struct df_sink *sink;
static struct df_arena arena;

static void open_sink(const char *target, const char *exchange, const char *routing_key)
{
    struct df_err err = DF_ERR_INIT;
    opt = (struct df_sink_options){.relay = "orders",
                                   .source = "/dataflow/relay/orders",
                                   .target = target,
                                   .exchange = exchange,
                                   .routing_key = routing_key,
                                   .timeout_ms = 20000,
                                   .clock = df_clock_real()};
    assert_int_equal(df_dispatch_rabbitmq.check(&opt, &err), DF_OK);
    assert_int_equal(df_dispatch_rabbitmq.open(&opt, &sink, &err), DF_OK);
}

static int set_up(void **state)
{
    (void)state;
    df_arena_init(&arena);
    peer_open();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    df_dispatch_rabbitmq.close(sink);
    sink = NULL;
    peer_close();
    df_arena_release(&arena);
    return 0;
}

static void send_events(struct df_event *const *events, size_t n)
{
    df_dispatch_rabbitmq.dispatch(sink, events, n, &arena);
}

/* --- configuration --- */

static void bad_options_are_refused_without_repeating_them(void **state)
{
    (void)state;
    static const struct {
        const char *target;
        const char *exchange;
        const char *key;
        const char *words;
    } bad[] = {
        {NULL, "x", "k", "target"},
        {"", "x", "k", "target"},
        {"http://user:hunter2@host/", "x", "k", "target"},
        {"amqp://user:hunter2@host:0/", "x", "k", "target"},
        {"amqp://user:hunter2@host:99999/", "x", "k", "target"},
        {"amqp://user:hunter2@host:port/", "x", "k", "target"},
        {"amqp://user:hunter2@[::1/", "x", "k", "target"},
        {"amqp://user:hunter2@host/a/b", "x", "k", "target"},
        {"amqp://user:%zz@host/", "x", "k", "target"},
        {"amqp://user:hunter2@host/", "", "", "routing_key"},
        {"amqp://user:hunter2@host/", NULL, NULL, "routing_key"},
        {"amqp://user:hunter2@host/", "x", "{eventtype}", "routing_key"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct df_err err = DF_ERR_INIT;
        struct df_sink_options o = {.relay = "r",
                                    .target = bad[i].target,
                                    .exchange = bad[i].exchange,
                                    .routing_key = bad[i].key,
                                    .clock = df_clock_real()};
        assert_int_equal(df_dispatch_rabbitmq.check(&o, &err), DF_E_CONFIG);
        assert_non_null(strstr(err.detail, bad[i].words));
        assert_null(strstr(err.detail, "hunter2"));
    }
    char long_name[300];
    memset(long_name, 'x', sizeof(long_name) - 1);
    long_name[sizeof(long_name) - 1] = '\0';
    struct df_err err = DF_ERR_INIT;
    struct df_sink_options o = {.target = "amqp://h/", .exchange = long_name, .routing_key = "k"};
    assert_int_equal(df_dispatch_rabbitmq.check(&o, &err), DF_E_CONFIG);
}

/* --- messages --- */

static void a_message_carries_the_event(void **state)
{
    (void)state;
    declare_exchange("carried");
    declare_queue("carried", "carried");
    open_sink(url, "carried", "{aggregateType}.{eventType}");
    struct df_event **events = make_events(&arena, "id", 1);
    events[0]->trace_id = DF_STR("4bf92f3577b34da6a3ce929d0e0e4736");
    events[0]->span_id = DF_STR("00f067aa0ba902b7");
    send_events(events, 1);
    assert_outcomes(events, 1, DF_DISPATCHED);
    assert_null(events[0]->error.ptr);

    amqp_message_t m;
    assert_true(next_message("carried", &m));
    assert_bytes(m.body, "{\"n\":0}");
    assert_int_equal(m.properties.delivery_mode, 2);
    assert_bytes(m.properties.content_type, "application/json");
    assert_bytes(m.properties.message_id, "id-0");
    assert_bytes(m.properties.type, "OrderPlaced");
    assert_bytes(m.properties.correlation_id, "corr-1");
    assert_int_equal(m.properties.timestamp, 1700000000);
    assert_text(header_of(&m, "ce_id"), "id-0");
    assert_text(header_of(&m, "ce_source"), "/dataflow/relay/orders");
    assert_text(header_of(&m, "ce_type"), "OrderPlaced");
    assert_text(header_of(&m, "ce_specversion"), "1.0");
    assert_text(header_of(&m, "ce_time"), "2023-11-14T22:13:20.123Z");
    assert_text(header_of(&m, "ce_subject"), "4711");
    assert_text(header_of(&m, "ce_aggregatetype"), "Order");
    assert_text(header_of(&m, "correlationId"), "corr-1");
    assert_text(header_of(&m, "traceparent"),
                "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
    assert_null(header_of(&m, "ce_datacontenttype").ptr);
    amqp_destroy_message(&m);
}

static void payloads_of_any_size_arrive_whole_and_others_with_them(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 32759, 32760, 32761, 65520, MAX_MESSAGE};
    enum { N = sizeof(sizes) / sizeof(sizes[0]) };
    declare_queue("sizes", NULL);
    open_sink(url, "", "sizes");
    struct df_event **events = make_events(&arena, "size", N);
    for (size_t i = 0; i < N; i++) {
        char *p = df_arena_alloc(&arena, sizes[i]);
        for (size_t k = 0; k < sizes[i]; k++)
            p[k] = (char)('a' + (i + k) % 26);
        events[i]->payload = df_str_n(p, sizes[i]);
    }
    send_events(events, N);
    assert_outcomes(events, N, DF_DISPATCHED);
    for (size_t i = 0; i < N; i++) {
        amqp_message_t m;
        assert_true(next_message("sizes", &m));
        assert_int_equal(m.body.len, sizes[i]);
        if (sizes[i] > 0)
            assert_memory_equal(m.body.bytes, events[i]->payload.ptr, sizes[i]);
        amqp_destroy_message(&m);
    }
}

static void a_large_batch_is_confirmed_whole_and_in_order(void **state)
{
    (void)state;
    enum { N = 500 };
    declare_exchange("many");
    declare_queue("many", "many");
    open_sink(url, "many", "{eventType}");
    struct df_event **events = make_events(&arena, "many", N);
    send_events(events, N);
    assert_outcomes(events, N, DF_DISPATCHED);
    for (size_t i = 0; i < N; i++) {
        amqp_message_t m;
        assert_true(next_message("many", &m));
        assert_text(df_str_n(m.properties.message_id.bytes, m.properties.message_id.len),
                    events[i]->id.ptr);
        amqp_destroy_message(&m);
        amqp_maybe_release_buffers(peer);
    }
}

/* --- refusals --- */

static void what_no_queue_is_bound_for_is_tried_again_and_the_rest_arrives(void **state)
{
    (void)state;
    size_t seen[3];
    declare_queue("here", NULL);
    open_sink(url, "", "{aggregateId}");
    struct df_event **events = make_events(&arena, "e", 3);
    events[0]->aggregate_id = DF_STR("here");
    events[1]->aggregate_id = DF_STR("nowhere");
    events[2]->aggregate_id = DF_STR("here");
    send_events(events, 3);
    assert_int_equal(events[0]->outcome, DF_DISPATCHED);
    assert_int_equal(events[1]->outcome, DF_DISPATCH_RETRY);
    assert_int_equal(events[1]->breaker, DF_BREAKER_FAILURE);
    assert_false(events[1]->never_counts); /* other events have a queue */
    assert_error_has(events[1], "there is no queue 'nowhere'");
    assert_int_equal(events[2]->outcome, DF_DISPATCHED);
    assert_int_equal(read_all("here", seen, 3), 2);

    declare_queue("nowhere", NULL);
    send_events(&events[1], 1);
    assert_outcomes(&events[1], 1, DF_DISPATCHED);
}

static void an_exchange_without_a_queue_is_named(void **state)
{
    (void)state;
    enum { N = 50 };
    declare_exchange("unbound");
    open_sink(url, "unbound", "{eventType}");
    struct df_event **events = make_events(&arena, "e", N);
    char *big = df_arena_zalloc(&arena, MAX_MESSAGE);
    for (size_t i = 0; i < N; i++) /* they come back whole */
        events[i]->payload = df_str_n(big, MAX_MESSAGE);
    send_events(events, N);
    assert_outcomes(events, N, DF_DISPATCH_RETRY);
    assert_error_has(events[N - 1],
                     "no queue is bound to exchange 'unbound' for routing key 'OrderPlaced'");
}

static void an_unknown_exchange_is_told_in_the_brokers_words_until_it_is_there(void **state)
{
    (void)state;
    open_sink(url, "later", "{eventType}");
    struct df_event **events = make_events(&arena, "e", 20);
    for (int round = 0; round < 2; round++) {
        send_events(events, 20);
        assert_outcomes(events, 20, DF_DISPATCH_RETRY);
        assert_int_equal(events[0]->breaker, DF_BREAKER_FAILURE);
        assert_true(events[0]->never_counts);
        assert_error_has(events[0], "NOT_FOUND - no exchange 'later'");
    }
    declare_exchange("later");
    declare_queue("later", "later");
    send_events(events, 20);
    assert_outcomes(events, 20, DF_DISPATCHED);
}

static void what_amqp_cannot_carry_is_refused_for_good_and_the_rest_arrives(void **state)
{
    (void)state;
    size_t seen[5];
    declare_exchange("limits");
    declare_queue("limits", "limits");
    open_sink(url, "limits", "{aggregateType}");
    struct df_event **events = make_events(&arena, "e", 5);
    char *text = df_arena_alloc(&arena, 40000);
    memset(text, 'x', 40000);
    events[0]->aggregate_type = df_str_n(text, 256);
    events[1]->id = df_str_n(text, 256);
    events[2]->correlation_id = df_str_n(text, 40000);
    events[3]->aggregate_type = df_str_n(text, 255);
    events[3]->type = df_str_n(text, 256); /* no type of the message's, but ce_type */
    send_events(events, 5);
    assert_outcomes(events, 3, DF_DISPATCH_PERMANENT);
    assert_error_has(events[0], "the routing key has 256 bytes");
    assert_error_has(events[1], "the id has 256 bytes");
    assert_error_has(events[2], "attributes");
    assert_outcomes(events + 3, 2, DF_DISPATCHED);
    assert_int_equal(read_all("limits", seen, 5), 2);
}

static void messages_over_the_brokers_limit_are_found_and_the_rest_arrives(void **state)
{
    (void)state;
    enum { N = 40 };
    size_t seen[N];
    declare_queue("large", NULL);
    open_sink(url, "", "large");
    struct df_event **events = make_events(&arena, "e", N);
    char *big = df_arena_zalloc(&arena, MAX_MESSAGE + 1);
    events[3]->payload = df_str_n(big, MAX_MESSAGE + 1);
    events[30]->payload = df_str_n(big, MAX_MESSAGE + 1);
    send_events(events, N);
    (void)read_all("large", seen, N);
    for (size_t i = 0; i < N; i++) {
        bool large = i == 3 || i == 30;
        assert_outcomes(&events[i], 1, large ? DF_DISPATCH_PERMANENT : DF_DISPATCHED);
        assert_int_equal(seen[i] > 0, !large);
    }
    assert_error_has(events[30], "larger than configured max size");
}

static void what_a_queue_rejects_is_tried_again(void **state)
{
    (void)state;
    size_t seen[3];
    amqp_table_entry_t limits[] = {
        {.key = amqp_cstring_bytes("x-max-length"),
         .value = {.kind = AMQP_FIELD_KIND_I32, .value.i32 = 1}},
        {.key = amqp_cstring_bytes("x-overflow"),
         .value = {.kind = AMQP_FIELD_KIND_UTF8,
                   .value.bytes = amqp_cstring_bytes("reject-publish")}},
    };
    amqp_table_t arguments = {2, limits};
    assert_non_null(
        amqp_queue_declare(peer, 1, amqp_cstring_bytes("short"), 0, 1, 0, 0, arguments));
    open_sink(url, "", "short");
    struct df_event **events = make_events(&arena, "e", 3);
    for (size_t i = 0; i < 3; i++)
        send_events(&events[i], 1);
    assert_int_equal(events[0]->outcome, DF_DISPATCHED);
    assert_outcomes(events + 1, 2, DF_DISPATCH_RETRY);
    assert_error_has(events[2], "nack");
    assert_false(events[2]->never_counts);
    assert_int_equal(read_all("short", seen, 3), 1);
}

/* --- connections --- */

static void whoever_cannot_connect_is_told_why_without_the_password(void **state)
{
    (void)state;
    static const struct {
        const char *target; /* with the node's port for %d */
        const char *words;
    } bad[] = {
        {"amqp://guest:hunter2@127.0.0.1:1/",
         "cannot reach amqp://127.0.0.1:1: Connection refused"},
        {"amqps://guest:hunter2@127.0.0.1:1/",
         "cannot reach amqps://127.0.0.1:1: Connection refused"},
        {"amqp://guest:hunter2@no.such.host.invalid:1/",
         "cannot reach amqp://no.such.host.invalid"},
        {"amqp://guest:hunter2@127.0.0.1:%d/", "ACCESS_REFUSED"},
        {"amqp://guest:guest@127.0.0.1:%d/no-such-vhost", "vhost no-such-vhost not found"},
        {"amqps://guest:hunter2@127.0.0.1:%d/", "cannot reach amqps://127.0.0.1"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char target[160];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        (void)snprintf(target, sizeof(target), bad[i].target, port);
#pragma GCC diagnostic pop
        open_sink(target, "", "here");
        struct df_event **events = make_events(&arena, "e", 2);
        send_events(events, 2);
        assert_outcomes(events, 2, DF_DISPATCH_RETRY);
        assert_int_equal(events[0]->breaker, DF_BREAKER_FAILURE);
        assert_error_has(events[0], bad[i].words);
        assert_null(memmem(events[0]->error.ptr, events[0]->error.len, "hunter2", 7));
        df_dispatch_rabbitmq.close(sink);
        sink = NULL;
    }
}

static void tls_wants_a_certificate_that_is_trusted_and_of_that_host(void **state)
{
    (void)state;
    char target[128];
    declare_queue("tls", NULL);
    struct df_event **events = make_events(&arena, "e", 3);
    char *big = df_arena_zalloc(&arena, MAX_MESSAGE);
    events[1]->payload = df_str_n(big, MAX_MESSAGE);

    (void)snprintf(target, sizeof(target), "amqps://guest:guest@127.0.0.1:%d/", tls_port);
    open_sink(target, "", "tls");
    send_events(events, 3);
    assert_outcomes(events, 3, DF_DISPATCHED);
    df_dispatch_rabbitmq.close(sink);

    (void)snprintf(target, sizeof(target), "amqps://guest:guest@[::ffff:127.0.0.1]:%d/", tls_port);
    open_sink(target, "", "tls");
    send_events(events, 3);
    assert_outcomes(events, 3, DF_DISPATCH_RETRY);
    assert_error_has(events[0], "another host name");
    df_dispatch_rabbitmq.close(sink);

    trust(NULL);
    (void)snprintf(target, sizeof(target), "amqps://guest:guest@127.0.0.1:%d/", tls_port);
    open_sink(target, "", "tls");
    send_events(events, 3);
    trust(cert_path);
    assert_outcomes(events, 3, DF_DISPATCH_RETRY);
    assert_error_has(events[0], "unknown authority");
}

static void a_connection_that_was_closed_meanwhile_is_made_again_at_once(void **state)
{
    (void)state;
    declare_queue("again", NULL);
    open_sink(url, "", "again");
    struct df_event **events = make_events(&arena, "e", 3);
    df_dispatch_rabbitmq.idle(sink);
    send_events(&events[0], 1);
    tell("close");
    send_events(&events[1], 1);
    tell("close");
    df_dispatch_rabbitmq.idle(sink);
    send_events(&events[2], 1);
    assert_outcomes(events, 3, DF_DISPATCHED);
    peer_close();
    peer_open();
}

static void a_blocked_broker_holds_nobody_up_and_loses_nothing(void **state)
{
    (void)state;
    enum { N = 200 };
    size_t seen[N];
    declare_queue("blocked", NULL);
    open_sink(url, "", "blocked");
    opt.timeout_ms = 500;
    struct df_event **events = make_events(&arena, "e", N);
    char *big = df_arena_zalloc(&arena, 200000);
    for (size_t i = 0; i < N; i++) /* far more than all buffers on the way */
        events[i]->payload = df_str_n(big, 200000);
    tell("block");
    send_events(events, N);
    assert_true(events[N - 1]->outcome == DF_DISPATCH_RETRY);
    assert_error_has(events[N - 1], "takes no messages for now: low on memory");
    df_dispatch_rabbitmq.idle(sink);
    for (size_t i = 0; i < N; i++)
        events[i]->payload = DF_STR("{}");
    send_events(events, N);
    assert_outcomes(events + 1, N - 1, DF_DISPATCH_RETRY);
    tell("unblock");
    opt.timeout_ms = 20000;
    for (int tries = 0; count_outcomes(events, N, DF_DISPATCHED) < N; tries++) {
        assert_true(tries < 100);
        send_events(events, N);
    }
    (void)read_all("blocked", seen, N);
    for (size_t i = 0; i < N; i++)
        assert_true(seen[i] > 0);
}

/* --- a broker that goes and comes --- */

#define STORM_MAX   100000
#define STORM_BATCH 10

struct storm {
    atomic_size_t dispatched; /* events with numbers below it */
    atomic_size_t failures;   /* batches that did not go at once */
    atomic_bool over;
};

/* As a relay does: the next batch when all of this one is there. */
static void *relay_events(void *arg)
{
    struct storm *storm = arg;
    bool over = false;
    for (size_t at = 0; !over && at < STORM_MAX; at += STORM_BATCH) {
        struct df_arena a = {0};
        struct df_event **events = make_events(&a, "e", STORM_BATCH);
        for (size_t i = 0; i < STORM_BATCH; i++)
            events[i]->id = df_arena_printf(&a, "e-%zu", at + i);
        over = storm->over;
        df_dispatch_rabbitmq.dispatch(sink, events, STORM_BATCH, &a);
        while (count_outcomes(events, STORM_BATCH, DF_DISPATCHED) < STORM_BATCH) {
            struct df_event *again[STORM_BATCH];
            size_t n = 0;
            for (size_t i = 0; i < STORM_BATCH; i++)
                if (events[i]->outcome != DF_DISPATCHED)
                    again[n++] = events[i];
            storm->failures++;
            (void)usleep(20000);
            df_dispatch_rabbitmq.dispatch(sink, again, n, &a);
        }
        storm->dispatched = at + STORM_BATCH;
        df_arena_release(&a);
        (void)usleep(3000);
    }
    return NULL;
}

static void wait_for_more(struct storm *storm, size_t more)
{
    size_t enough = storm->dispatched + more;
    for (int i = 0; storm->dispatched < enough; i++) {
        assert_true(i < 120000);
        (void)usleep(1000);
    }
}

static void no_event_is_lost_when_the_broker_is_killed_and_comes_back(void **state)
{
    (void)state;
    static size_t seen[STORM_MAX];
    struct storm storm = {0};
    pthread_t thread;
    declare_queue("storm", NULL);
    open_sink(url, "", "storm");
    assert_int_equal(pthread_create(&thread, NULL, relay_events, &storm), 0);
    wait_for_more(&storm, 200);
    tell("kill");
    peer_close();
    tell("start");
    wait_for_more(&storm, 200);
    storm.over = true;
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(storm.failures > 0);

    peer_open();
    (void)read_all("storm", seen, STORM_MAX);
    for (size_t i = 0; i < storm.dispatched; i++)
        if (seen[i] == 0)
            fail_msg("event %zu of %zu is not in the queue", i, (size_t)storm.dispatched);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(bad_options_are_refused_without_repeating_them),
        TEST(a_message_carries_the_event),
        TEST(payloads_of_any_size_arrive_whole_and_others_with_them),
        TEST(a_large_batch_is_confirmed_whole_and_in_order),
        TEST(what_no_queue_is_bound_for_is_tried_again_and_the_rest_arrives),
        TEST(an_exchange_without_a_queue_is_named),
        TEST(an_unknown_exchange_is_told_in_the_brokers_words_until_it_is_there),
        TEST(what_amqp_cannot_carry_is_refused_for_good_and_the_rest_arrives),
        TEST(messages_over_the_brokers_limit_are_found_and_the_rest_arrives),
        TEST(what_a_queue_rejects_is_tried_again),
        TEST(whoever_cannot_connect_is_told_why_without_the_password),
        TEST(tls_wants_a_certificate_that_is_trusted_and_of_that_host),
        TEST(a_connection_that_was_closed_meanwhile_is_made_again_at_once),
        TEST(a_blocked_broker_holds_nobody_up_and_loses_nothing),
        TEST(no_event_is_lost_when_the_broker_is_killed_and_comes_back),
    };
    return cmocka_run_group_tests(tests, start_node, end_node);
}

/*
 * The dispatcher kafka against librdkafka's mock cluster, in this process. What arrived is read
 * back by a consumer.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/log.h"
#include "events.h"

#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#define PRODUCE 0 /* the protocol's number for that request */

static rd_kafka_t *host; /* of the cluster; does nothing else */
static rd_kafka_mock_cluster_t *cluster;
static struct df_sink_options opt;
static struct df_sink *sink;
static struct df_arena arena;

static rd_kafka_t *make_client(rd_kafka_type_t type)
{
    char why[200];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    const char *const options[][2] = {
        {"bootstrap.servers", cluster ? rd_kafka_mock_cluster_bootstraps(cluster) : ""},
        {"enable.partition.eof", "true"},
        {"fetch.wait.max.ms", "10"},
    };
    for (size_t i = 0; type == RD_KAFKA_CONSUMER && i < 3; i++)
        assert_int_equal(rd_kafka_conf_set(conf, options[i][0], options[i][1], why, sizeof(why)),
                         RD_KAFKA_CONF_OK);
    rd_kafka_conf_set_log_cb(conf, NULL);
    rd_kafka_t *rk = rd_kafka_new(type, conf, why, sizeof(why));
    if (!rk)
        fail_msg("%s", why);
    return rk;
}

static int set_up(void **state)
{
    (void)state;
    df_arena_init(&arena);
    host = make_client(RD_KAFKA_PRODUCER);
    cluster = rd_kafka_mock_cluster_new(host, 1);
    assert_non_null(cluster);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    df_dispatch_kafka.close(sink);
    sink = NULL;
    rd_kafka_mock_cluster_destroy(cluster);
    rd_kafka_destroy(host);
    df_arena_release(&arena);
    return 0;
}

static void create_topic(const char *name, int partitions)
{
    assert_int_equal(rd_kafka_mock_topic_create(cluster, name, partitions, 1),
                     RD_KAFKA_RESP_ERR_NO_ERROR);
}

static void open_sink(const char *topic, const char *properties, int64_t timeout_ms)
{
    struct df_err err = DF_ERR_INIT;
    opt = (struct df_sink_options){.relay = "orders",
                                   .source = "/dataflow/relay/orders",
                                   .target = rd_kafka_mock_cluster_bootstraps(cluster),
                                   .topic = topic,
                                   .properties = properties,
                                   .timeout_ms = timeout_ms,
                                   .clock = df_clock_real()};
    if (df_dispatch_kafka.check(&opt, &err) != DF_OK ||
        df_dispatch_kafka.open(&opt, &sink, &err) != DF_OK)
        fail_msg("%s", err.detail);
}

static void send_events(struct df_event *const *events, size_t n)
{
    df_dispatch_kafka.dispatch(sink, events, n, &arena);
}

/* Reads the topic's first partition from its beginning to its end; each message to fn. */
static void read_topic(const char *topic, void (*fn)(const rd_kafka_message_t *m, void *arg),
                       void *arg)
{
    rd_kafka_t *consumer = make_client(RD_KAFKA_CONSUMER);
    rd_kafka_topic_t *handle = rd_kafka_topic_new(consumer, topic, NULL);
    assert_int_equal(rd_kafka_consume_start(handle, 0, RD_KAFKA_OFFSET_BEGINNING), 0);
    for (int idle = 0, end = 0; !end;) {
        rd_kafka_message_t *m = rd_kafka_consume(handle, 0, 1000);
        if (!m) {
            assert_true(idle++ < 60);
            continue;
        }
        end = m->err == RD_KAFKA_RESP_ERR__PARTITION_EOF;
        if (!m->err)
            fn(m, arg);
        rd_kafka_message_destroy(m);
    }
    (void)rd_kafka_consume_stop(handle, 0);
    rd_kafka_topic_destroy(handle);
    rd_kafka_destroy(consumer);
}

static struct df_str header_of(const rd_kafka_message_t *m, const char *name)
{
    rd_kafka_headers_t *headers;
    const void *value;
    size_t len;
    if (rd_kafka_message_headers(m, &headers) ||
        rd_kafka_header_get_last(headers, name, &value, &len))
        return DF_STR_NULL;
    return df_str_n(value, len);
}

#define assert_text(s, want)                                                                       \
    do {                                                                                           \
        struct df_str text_ = (s);                                                                 \
        if (!df_str_eq(text_, df_str_c(want)))                                                     \
            fail_msg("\"" DF_STR_FMT "\", not \"%s\"", DF_STR_ARG(text_), want);                   \
    } while (0)

#define SEEN_MAX 100000

struct seen {
    size_t count;
    size_t next;    /* the lowest that has not come */
    bool unordered; /* a new one came before one that is older */
    unsigned char times[SEEN_MAX];
};

/* Counts by the number at the end of ce_id. */
static void count_message(const rd_kafka_message_t *m, void *arg)
{
    struct seen *seen = arg;
    struct df_str id = header_of(m, "ce_id");
    char text[64] = "";
    assert_true(id.len > 0 && id.len < sizeof(text));
    memcpy(text, id.ptr, id.len);
    size_t i = strtoul(strrchr(text, '-') + 1, NULL, 10);
    assert_true(i < SEEN_MAX);
    seen->count++;
    if (seen->times[i]++ == 0) {
        seen->unordered = seen->unordered || i != seen->next;
        seen->next = i + 1;
    }
}

/* The first n events are there, each once at least, and came in their order. */
static size_t assert_arrived_in_order(const char *topic, size_t n)
{
    static struct seen seen;
    memset(&seen, 0, sizeof(seen));
    read_topic(topic, count_message, &seen);
    for (size_t i = 0; i < n; i++)
        if (seen.times[i] == 0)
            fail_msg("event %zu of %zu is not there", i, n);
    assert_false(seen.unordered);
    return seen.count;
}

/* --- configuration --- */

static void bad_options_are_refused_without_passwords(void **state)
{
    (void)state;
    static const struct {
        const char *target;
        const char *topic;
        const char *properties;
        const char *words;
    } bad[] = {
        {NULL, "t", NULL, "no server"},
        {"", "t", NULL, "no server"},
        {"kafka://", "t", NULL, "no server"},
        {"kafka:///t", NULL, NULL, "no server"},
        {"kafka://user:hunter2@host:9092/t", NULL, NULL, "sasl.password"},
        {"host:9092,,host", "t", NULL, "host:port"},
        {"http://host/t", "t", NULL, "host:port"},
        {"kafka://host/t", "u", NULL, "two topics"},
        {"kafka://host/a b", NULL, NULL, "a topic has"},
        {"kafka://host/{id}", NULL, NULL, "topic"},
        {"host", "t", "enable.idempotence=false", "always on"},
        {"host", "t", "acks=1", "always all"},
        {"host", "t", "bootstrap.servers=other", "target"},
        {"host", "t", "delivery.timeout.ms=1", "timeout_ms"},
        {"host", "t", "delivery.report.only.error=true", "reports"},
        {"host", "t", "transactional.id=x", "transactions"},
        {"host", "t", "sasl.password=hunter2;no.such.option=1", "no.such.option"},
        {"host", "t", "compression.type=shrink", "compression.type"},
        {"host", "t", "max.in.flight=10", "max.in.flight"},
        {"host", "t", "linger.ms", "name=value"},
        {"host", "t", "=5", "name=value"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct df_err err = DF_ERR_INIT;
        struct df_sink_options o = {.relay = "r",
                                    .target = bad[i].target,
                                    .topic = bad[i].topic,
                                    .properties = bad[i].properties,
                                    .timeout_ms = 1000,
                                    .clock = df_clock_real()};
        if (df_dispatch_kafka.check(&o, &err) != DF_E_CONFIG || !strstr(err.detail, bad[i].words))
            fail_msg("%zu: \"%s\" has no \"%s\"", i, err.detail, bad[i].words);
        assert_null(strstr(err.detail, "hunter2"));
    }
}

static void good_options_are_taken(void **state)
{
    (void)state;
    static const struct {
        const char *target;
        const char *topic;
        const char *properties;
    } good[] = {
        {"kafka://a:9092,b:9093/orders", NULL, NULL},
        {"kafka://a/orders", "orders", ""},
        {"kafka://a:9092/", "", NULL},
        {"a:9092", "{aggregateType}.events", " linger.ms = 5 ; compression.type=lz4;"},
        {"[::1]:9092", "t",
         "security.protocol=sasl_plaintext;sasl.mechanisms=PLAIN;"
         "sasl.username=u;sasl.password=p=w"},
    };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        struct df_err err = DF_ERR_INIT;
        struct df_sink_options o = {.relay = "r",
                                    .target = good[i].target,
                                    .topic = good[i].topic,
                                    .properties = good[i].properties,
                                    .timeout_ms = 1000,
                                    .clock = df_clock_real()};
        if (df_dispatch_kafka.check(&o, &err) != DF_OK)
            fail_msg("%zu: %s", i, err.detail);
    }
}

/* --- messages --- */

static void check_message(const rd_kafka_message_t *m, void *arg)
{
    size_t *count = arg;
    assert_text(df_str_n(m->payload, m->len), "{\"n\":0}");
    assert_text(df_str_n(m->key, m->key_len), "4711");
    assert_int_equal(rd_kafka_message_timestamp(m, NULL), INT64_C(1700000000123));
    assert_text(header_of(m, "ce_id"), "id-0");
    assert_text(header_of(m, "ce_source"), "/dataflow/relay/orders");
    assert_text(header_of(m, "ce_type"), "OrderPlaced");
    assert_text(header_of(m, "ce_specversion"), "1.0");
    assert_text(header_of(m, "ce_time"), "2023-11-14T22:13:20.123Z");
    assert_text(header_of(m, "ce_subject"), "4711");
    assert_text(header_of(m, "ce_aggregatetype"), "Order");
    assert_text(header_of(m, "correlationId"), "corr-1");
    assert_text(header_of(m, "traceparent"),
                "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
    assert_text(header_of(m, "content-type"), "application/json");
    ++*count;
}

static void a_message_carries_the_event(void **state)
{
    (void)state;
    size_t count = 0;
    create_topic("Order.events", 1);
    open_sink("{aggregateType}.events", NULL, 10000);
    struct df_event **events = make_events(&arena, "id", 1);
    events[0]->trace_id = DF_STR("4bf92f3577b34da6a3ce929d0e0e4736");
    events[0]->span_id = DF_STR("00f067aa0ba902b7");
    send_events(events, 1);
    assert_outcomes(events, 1, DF_DISPATCHED);
    read_topic("Order.events", check_message, &count);
    assert_int_equal(count, 1);
}

static void check_bare(const rd_kafka_message_t *m, void *arg)
{
    size_t *count = arg;
    assert_int_equal(m->len, 0);
    assert_null(m->key);
    assert_null(header_of(m, "content-type").ptr);
    ++*count;
}

static void an_event_may_have_neither_payload_nor_aggregate(void **state)
{
    (void)state;
    size_t count = 0;
    create_topic("bare", 1);
    open_sink(NULL, NULL, 10000); /* the type is the topic */
    struct df_event **events = make_events(&arena, "id", 1);
    *events[0] = (struct df_event){.id = DF_STR("1"), .type = DF_STR("bare"), .created_ms = -1};
    send_events(events, 1);
    assert_outcomes(events, 1, DF_DISPATCHED);
    read_topic("bare", check_bare, &count);
    assert_int_equal(count, 1);
}

static void a_large_batch_arrives_whole_and_in_order(void **state)
{
    (void)state;
    enum { N = 5000 };
    create_topic("many", 1);
    open_sink("many", NULL, 20000);
    struct df_event **events = make_events(&arena, "e", N);
    send_events(events, N);
    assert_outcomes(events, N, DF_DISPATCHED);
    assert_int_equal(assert_arrived_in_order("many", N), N);
}

/* --- refusals --- */

static void what_kafka_cannot_carry_is_refused_for_good_and_the_rest_arrives(void **state)
{
    (void)state;
    create_topic("fine", 1);
    open_sink("{aggregateType}", NULL, 10000);
    struct df_event **events = make_events(&arena, "e", 5);
    char *text = df_arena_alloc(&arena, 1100000);
    memset(text, 'x', 1100000);
    for (size_t i = 0; i < 5; i++)
        events[i]->aggregate_type = DF_STR("fine");
    events[1]->aggregate_type = DF_STR("gr\xc3\xb6\xc3\x9f"
                                       "e");
    events[2]->aggregate_type = df_str_n(text, 250);
    events[3]->aggregate_type = DF_STR_NULL;
    events[4]->payload = df_str_n(text, 1100000);
    send_events(events, 5);
    assert_outcomes(events, 1, DF_DISPATCHED);
    assert_outcomes(events + 1, 4, DF_DISPATCH_PERMANENT);
    assert_error_has(events[1], "cannot be the name of a topic");
    assert_error_has(events[4], "Message size too large");
    assert_int_equal(assert_arrived_in_order("fine", 1), 1);
}

static void a_refused_batch_goes_again_one_by_one(void **state)
{
    (void)state;
    create_topic("refused", 1);
    open_sink("refused", NULL, 20000);
    struct df_event **events = make_events(&arena, "e", 10);
    /* The first request and then that of one event alone. */
    rd_kafka_mock_push_request_errors(cluster, PRODUCE, 2, RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE,
                                      RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE);
    send_events(events, 10);
    assert_int_equal(count_outcomes(events, 10, DF_DISPATCH_PERMANENT), 1);
    assert_int_equal(count_outcomes(events, 10, DF_DISPATCHED), 9);
}

static void an_unknown_topic_is_named_and_tried_again(void **state)
{
    (void)state;
    create_topic("later", 1);
    rd_kafka_mock_topic_set_error(cluster, "later", RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART);
    open_sink("later", "topic.metadata.refresh.interval.ms=100", 600);
    struct df_event **events = make_events(&arena, "e", 2);
    send_events(events, 2);
    assert_outcomes(events, 2, DF_DISPATCH_RETRY);
    assert_int_equal(events[0]->breaker, DF_BREAKER_FAILURE);
    assert_error_has(events[0], "topic 'later': ");
    rd_kafka_mock_topic_set_error(cluster, "later", RD_KAFKA_RESP_ERR_NO_ERROR);
    for (int i = 0; count_outcomes(events, 2, DF_DISPATCHED) < 2; i++) {
        assert_true(i < 1000);
        (void)usleep(10000);
        send_events(events, 2);
    }
}

/* --- brokers in trouble --- */

static void passing_errors_are_overcome_without_loss_or_disorder(void **state)
{
    (void)state;
    enum { N = 300 };
    create_topic("passing", 1);
    open_sink("passing", "batch.num.messages=20", 30000);
    struct df_event **events = make_events(&arena, "e", N);
    send_events(events, 10);
    rd_kafka_mock_push_request_errors(
        cluster, PRODUCE, 4, RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
        RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT, RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS,
        RD_KAFKA_RESP_ERR__TRANSPORT);
    send_events(events + 10, N - 10);
    assert_outcomes(events, N, DF_DISPATCHED);
    (void)assert_arrived_in_order("passing", N);
}

static void a_fatal_error_costs_the_producer_and_no_event(void **state)
{
    (void)state;
    enum { N = 20 };
    create_topic("fatal", 1);
    open_sink("fatal", NULL, 20000);
    struct df_event **events = make_events(&arena, "e", N);
    send_events(events, 5);
    assert_outcomes(events, 5, DF_DISPATCHED);
    rd_kafka_mock_push_request_errors(cluster, PRODUCE, 1,
                                      RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER);
    send_events(events + 5, N - 5);
    assert_outcomes(events + 5, N - 5, DF_DISPATCH_RETRY);
    assert_int_equal(events[5]->breaker, DF_BREAKER_FAILURE);
    send_events(events + 5, N - 5);
    assert_outcomes(events + 5, N - 5, DF_DISPATCHED);
    df_dispatch_kafka.idle(sink);
    (void)assert_arrived_in_order("fatal", N);
}

static void a_broker_that_is_down_is_named_and_its_return_noticed(void **state)
{
    (void)state;
    create_topic("down", 1);
    (void)rd_kafka_mock_broker_set_down(cluster, 1);
    open_sink("down", NULL, 300);
    struct df_event **events = make_events(&arena, "e", 3);
    send_events(events, 3);
    assert_outcomes(events, 3, DF_DISPATCH_RETRY);
    assert_int_equal(events[0]->breaker, DF_BREAKER_FAILURE);
    assert_true(events[0]->never_counts);
    assert_error_has(events[0], "not confirmed within 300 ms: ");
    assert_error_has(events[0], "127.0.0.1:");
    (void)rd_kafka_mock_broker_set_up(cluster, 1);
    for (int i = 0; count_outcomes(events, 3, DF_DISPATCHED) < 3; i++) {
        assert_true(i < 100);
        send_events(events, 3);
    }
    (void)assert_arrived_in_order("down", 3);
}

static void a_silent_broker_holds_nobody_up(void **state)
{
    (void)state;
    create_topic("silent", 1);
    open_sink("silent", NULL, 300);
    struct df_event **events = make_events(&arena, "e", 3);
    (void)rd_kafka_mock_broker_set_rtt(cluster, 1, 30000);
    send_events(events, 3);
    assert_outcomes(events, 3, DF_DISPATCH_RETRY);
    assert_error_has(events[2], "not confirmed within 300 ms");
    (void)rd_kafka_mock_broker_set_rtt(cluster, 1, 0);
    for (int i = 0; count_outcomes(events, 3, DF_DISPATCHED) < 3; i++) {
        assert_true(i < 100);
        send_events(events, 3);
    }
}

/* --- a broker that goes and comes --- */

#define STORM_BATCH 10

struct storm {
    atomic_size_t dispatched;
    atomic_size_t failures;
    atomic_bool over;
};

/* As a relay does: the next batch when all of this one is there. */
static void *relay_events(void *arg)
{
    struct storm *storm = arg;
    bool over = false;
    for (size_t at = 0; !over && at < SEEN_MAX; at += STORM_BATCH) {
        struct df_arena a = {0};
        struct df_event **events = make_events(&a, "e", STORM_BATCH);
        for (size_t i = 0; i < STORM_BATCH; i++)
            events[i]->id = df_arena_printf(&a, "e-%zu", at + i);
        over = storm->over;
        df_dispatch_kafka.dispatch(sink, events, STORM_BATCH, &a);
        while (count_outcomes(events, STORM_BATCH, DF_DISPATCHED) < STORM_BATCH) {
            storm->failures++;
            df_dispatch_kafka.dispatch(sink, events, STORM_BATCH, &a);
        }
        storm->dispatched = at + STORM_BATCH;
        df_arena_release(&a);
        (void)usleep(2000);
    }
    return NULL;
}

static void wait_until(const atomic_size_t *value, size_t enough)
{
    for (int i = 0; *value < enough; i++) {
        assert_true(i < 120000);
        (void)usleep(1000);
    }
}

static void no_event_is_lost_or_out_of_order_when_brokers_go_and_come(void **state)
{
    (void)state;
    struct storm storm = {0};
    pthread_t thread;
    create_topic("storm", 1);
    open_sink("storm", NULL, 400);
    assert_int_equal(pthread_create(&thread, NULL, relay_events, &storm), 0);
    for (size_t round = 1; round <= 2; round++) {
        wait_until(&storm.dispatched, storm.dispatched + 100);
        (void)rd_kafka_mock_broker_set_down(cluster, 1);
        wait_until(&storm.failures, storm.failures + 1);
        (void)rd_kafka_mock_broker_set_up(cluster, 1);
    }
    wait_until(&storm.dispatched, storm.dispatched + 100);
    storm.over = true;
    assert_int_equal(pthread_join(thread, NULL), 0);
    (void)assert_arrived_in_order("storm", storm.dispatched);
}

static int quiet(void **state)
{
    (void)state;
    df_log_init(DF_LOG_ERROR, DF_LOG_JSON, df_clock_real());
    return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(bad_options_are_refused_without_passwords),
        TEST(good_options_are_taken),
        TEST(a_message_carries_the_event),
        TEST(an_event_may_have_neither_payload_nor_aggregate),
        TEST(a_large_batch_arrives_whole_and_in_order),
        TEST(what_kafka_cannot_carry_is_refused_for_good_and_the_rest_arrives),
        TEST(a_refused_batch_goes_again_one_by_one),
        TEST(an_unknown_topic_is_named_and_tried_again),
        TEST(passing_errors_are_overcome_without_loss_or_disorder),
        TEST(a_fatal_error_costs_the_producer_and_no_event),
        TEST(a_broker_that_is_down_is_named_and_its_return_noticed),
        TEST(a_silent_broker_holds_nobody_up),
        TEST(no_event_is_lost_or_out_of_order_when_brokers_go_and_come),
    };
    return cmocka_run_group_tests(tests, quiet, NULL);
}

/*
 * A Kafka for tests in a process of its own: librdkafka's mock cluster. Prints its servers, then
 * does what standard input says, a command a line, and answers each with "ok" or "error: …":
 *
 *     topic NAME PARTITIONS     creates it
 *     down BROKER, up BROKER    by number, from 1
 *     read NAME PARTITIONS      before "ok", a line for each message: partition, offset, key,
 * ce_id, value, with tabs between
 *
 * Ends when its input does.
 */
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static rd_kafka_t *make_client(rd_kafka_type_t type, const char *servers)
{
    char why[200];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_conf_set_log_cb(conf, NULL);
    if (servers) {
        (void)rd_kafka_conf_set(conf, "bootstrap.servers", servers, why, sizeof(why));
        (void)rd_kafka_conf_set(conf, "enable.partition.eof", "true", why, sizeof(why));
        (void)rd_kafka_conf_set(conf, "fetch.wait.max.ms", "10", why, sizeof(why));
    }
    rd_kafka_t *rk = rd_kafka_new(type, conf, why, sizeof(why));
    if (!rk) {
        (void)fprintf(stderr, "%s\n", why);
        exit(1);
    }
    return rk;
}

static void print_message(const rd_kafka_message_t *m)
{
    rd_kafka_headers_t *headers;
    const void *id = "";
    size_t id_len = 0;
    if (!rd_kafka_message_headers(m, &headers))
        (void)rd_kafka_header_get_last(headers, "ce_id", &id, &id_len);
    printf("%d\t%lld\t%.*s\t%.*s\t%.*s\n", m->partition, (long long)m->offset, (int)m->key_len,
           m->key ? (const char *)m->key : "", (int)id_len, (const char *)id, (int)m->len,
           m->payload ? (const char *)m->payload : "");
}

/* False: a minute without a word from the cluster. */
static int read_partition(rd_kafka_topic_t *topic, int partition)
{
    int waits = 0;
    int end = 0;
    (void)rd_kafka_consume_start(topic, partition, RD_KAFKA_OFFSET_BEGINNING);
    while (!end && waits < 60) {
        rd_kafka_message_t *m = rd_kafka_consume(topic, partition, 1000);
        if (!m) {
            waits++;
            continue;
        }
        end = m->err == RD_KAFKA_RESP_ERR__PARTITION_EOF;
        if (!m->err)
            print_message(m);
        rd_kafka_message_destroy(m);
    }
    (void)rd_kafka_consume_stop(topic, partition);
    return end;
}

static int read_topic(const char *servers, const char *name, int partitions)
{
    rd_kafka_t *consumer = make_client(RD_KAFKA_CONSUMER, servers);
    rd_kafka_topic_t *topic = rd_kafka_topic_new(consumer, name, NULL);
    int ok = 1;
    for (int i = 0; ok && i < partitions; i++)
        ok = read_partition(topic, i);
    rd_kafka_topic_destroy(topic);
    rd_kafka_destroy(consumer);
    return ok;
}

static int obey(rd_kafka_mock_cluster_t *cluster, const char *line)
{
    char name[256];
    int n;
    if (sscanf(line, "topic %255s %d", name, &n) == 2)
        return !rd_kafka_mock_topic_create(cluster, name, n, 1);
    if (sscanf(line, "down %d", &n) == 1)
        return !rd_kafka_mock_broker_set_down(cluster, n);
    if (sscanf(line, "up %d", &n) == 1)
        return !rd_kafka_mock_broker_set_up(cluster, n);
    if (sscanf(line, "read %255s %d", name, &n) == 2)
        return read_topic(rd_kafka_mock_cluster_bootstraps(cluster), name, n);
    return 0;
}

int main(int argc, char **argv)
{
    char line[512];
    rd_kafka_t *host = make_client(RD_KAFKA_PRODUCER, NULL);
    rd_kafka_mock_cluster_t *cluster =
        rd_kafka_mock_cluster_new(host, argc > 1 ? atoi(argv[1]) : 1);
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    printf("%s\n", rd_kafka_mock_cluster_bootstraps(cluster));
    while (fgets(line, sizeof(line), stdin)) {
        line[strcspn(line, "\n")] = '\0';
        if (obey(cluster, line))
            printf("ok\n");
        else
            printf("error: %s\n", line);
    }
    rd_kafka_mock_cluster_destroy(cluster);
    rd_kafka_destroy(host);
    return 0;
}

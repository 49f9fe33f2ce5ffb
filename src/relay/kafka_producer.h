/*
 * librdkafka's producer as a relay needs it: idempotent, acknowledged by all replicas, with its log
 * in ours; and its consumer, as a queue needs it. Checks the configuration and makes one from it.
 */
#ifndef DF_RELAY_KAFKA_PRODUCER_H
#define DF_RELAY_KAFKA_PRODUCER_H

#include "relay/dispatcher.h"

#include <librdkafka/rdkafka.h>

/* kafka://host:port,host:port/topic, or host:port,host:port with `topic` beside it; without either
 * each event's type is its topic. */
struct df_kafka_target {
    char *servers; /* as librdkafka wants them */
    char *topic;   /* a pattern */
};

/* DF_E_CONFIG says what is wrong, without repeating text that may be a password. */
enum df_code df_kafka_target_init(struct df_kafka_target *t, const struct df_sink_options *opt,
                                  struct df_err *err) DF_MUST_CHECK;
void df_kafka_target_release(struct df_kafka_target *t);

struct df_kafka_callbacks {
    void (*report)(rd_kafka_t *rk, const rd_kafka_message_t *m, void *opaque);
    void (*problem)(rd_kafka_t *rk, int err, const char *reason, void *opaque);
    void *opaque;
    /* Of a consumer. */
    void (*rebalanced)(rd_kafka_t *rk, rd_kafka_resp_err_t err,
                       rd_kafka_topic_partition_list_t *parts, void *opaque);
};

/*
 * A producer, with threads of its own that connect in the background. servers NULL: it does not
 * connect, and only shows whether the options agree; callbacks NULL: it reports nothing. Callbacks
 * run in rd_kafka_poll() and rd_kafka_flush() only. DF_E_CONFIG says which option is wrong.
 */
enum df_code df_kafka_producer_new(const struct df_sink_options *opt, const char *servers,
                                   const struct df_kafka_callbacks *callbacks, rd_kafka_t **ret,
                                   struct df_err *err) DF_MUST_CHECK;

/* A consumer of the group `dataflow`, which commits when it is told to. Callbacks run in
 * rd_kafka_consumer_poll() and rd_kafka_consumer_close() only. */
enum df_code df_kafka_consumer_new(const struct df_sink_options *opt, const char *servers,
                                   const struct df_kafka_callbacks *callbacks, rd_kafka_t **ret,
                                   struct df_err *err) DF_MUST_CHECK;

/* What makes the connection insecure, and what to write instead; NULL: nothing, or the brokers are
 * on this machine. */
const char *df_kafka_risk(const struct df_sink_options *opt);

/* Whether Kafka takes this as the name of a topic. */
bool df_kafka_topic_valid(struct df_str name);

#endif

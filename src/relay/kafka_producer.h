/*
 * librdkafka's producer as a relay needs it: idempotent, acknowledged by all replicas, with its log
 * in ours. Checks the configuration and makes a producer from it.
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
};

/*
 * A producer, with threads of its own that connect in the background. servers NULL: it does not
 * connect, and only shows whether the options agree; callbacks NULL: it reports nothing. Callbacks
 * run in rd_kafka_poll() and rd_kafka_flush() only. DF_E_CONFIG says which option is wrong.
 */
enum df_code df_kafka_producer_new(const struct df_sink_options *opt, const char *servers,
                                   const struct df_kafka_callbacks *callbacks, rd_kafka_t **ret,
                                   struct df_err *err) DF_MUST_CHECK;

/* Whether Kafka takes this as the name of a topic. */
bool df_kafka_topic_valid(struct df_str name);

#endif

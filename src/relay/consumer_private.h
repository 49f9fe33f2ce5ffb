/* Shared by consumer.c (the thread, what is told of it) and consume_*.c (one broker each). */
#ifndef DF_RELAY_CONSUMER_PRIVATE_H
#define DF_RELAY_CONSUMER_PRIVATE_H

#include "base/loop.h"
#include "relay/consumer.h"
#include "relay/dispatcher.h"

#define CONSUMER_TURN_MS    1000 /* longest turn with nothing to do */
#define CONSUMER_CONNECT_MS 5000

struct consumer_broker {
    /* Neither connects. */
    void *(*open)(struct df_consumer *c);
    void (*close)(void *b);
    /* Connects if necessary, then waits up to CONSUMER_TURN_MS for a message or a wake-up. An
     * error: the broker is away. */
    enum df_code (*turn)(void *b, bool wants, struct df_err *err);
};

extern const struct consumer_broker consumer_rabbitmq;
extern const struct consumer_broker consumer_kafka;

struct df_consumer {
    struct df_consumer_options opt;
    struct df_sink_options sink;
    const struct consumer_broker *broker;
    void *state; /* of the broker */
    int wake_fd; /* readable: woken */
    struct df_thread thread;
    bool started;
    bool away; /* it was logged */
    _Atomic bool connected;
    _Atomic bool stopping; /* also cuts off connecting: sink.given_up */
};

/* Messages arrive, or do not. */
void consumer_set_connected(struct df_consumer *c, bool connected);
/* Hands a message to the owner, and counts it. */
enum df_taken consumer_take(struct df_consumer *c, struct df_str body);
/* Messages may be missing. */
void consumer_lost_some(struct df_consumer *c);
/* Waits until it is woken. */
void consumer_rest(struct df_consumer *c, int64_t ms);
/* Forgets wake-ups. */
void consumer_awake(struct df_consumer *c);

#endif

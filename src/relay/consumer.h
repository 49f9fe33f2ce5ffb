/*
 * Messages of a queue (RabbitMQ) or topic (Kafka), for whoever works by them. They are hints: one
 * that is lost, late or repeated does no harm, so a message is acknowledged once it was tried.
 *
 * One thread. It takes a message only while `wants` says so, one at a time, so that a process that
 * is busy keeps none from an idle one. A broker that is away is logged once (QueueAway, QueueBack)
 * and dialled again, at longer and longer intervals.
 *
 *     rabbitmq   a durable quorum queue, declared whenever it is missing; what is no message of
 * ours goes to the queue NAME.dead, as does what was given back too often kafka      the group
 * `dataflow`; what is no message of ours is passed over, and stays in the topic. A process that is
 * busy for long leaves the group.
 */
#ifndef DF_RELAY_CONSUMER_H
#define DF_RELAY_CONSUMER_H

#include "base/clock.h"
#include "base/str.h"
#include "relay/settings.h"

#define DF_CONSUMER_BODY_MAX 256 /* of a message of ours; a longer one is passed as absent */

enum df_taken {
    DF_TAKEN,       /* it was tried, and is acknowledged */
    DF_TAKEN_LATER, /* it could not be tried here and now: somebody else gets it, or this one again
                     */
    DF_TAKEN_NEVER, /* it is no message of ours */
};

struct df_consumer_options {
    /* Of the relay that sends them: dispatcher, target, routing_key (the queue) or topic,
     * properties. Lives as long as the consumer. */
    const struct df_relay_settings *settings;
    const struct df_clock *clock;
    /* Called by the consumer's thread, without a lock. */
    bool (*wants)(void *arg);
    enum df_taken (*take)(void *arg, struct df_str body); /* absent: longer than allowed */
    /* The connection was made or lost, or the queue was made anew: messages may be missing. */
    void (*changed)(void *arg);
    void *arg;
};

struct df_consumer;

/* Makes it, without a connection; start begins to take messages. */
struct df_consumer *df_consumer_new(const struct df_consumer_options *opt);
void df_consumer_start(struct df_consumer *c);
/* `wants` may have changed. Cheap; any thread; NULL is fine here and below. */
void df_consumer_wake(struct df_consumer *c);
/* Whether messages arrive. Any thread. */
bool df_consumer_is_connected(struct df_consumer *c);
/* Takes no more messages, and does not wait; end waits for the thread. What is not acknowledged by
 * then goes to somebody else. */
void df_consumer_stop(struct df_consumer *c);
void df_consumer_end(struct df_consumer *c);
void df_consumer_free(struct df_consumer *c);

#endif

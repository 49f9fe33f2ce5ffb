/*
 * Messages from Kafka, as a member of the group `dataflow`. The broker gives each partition to one
 * member. A member that wants no message, or has one that is not settled, pauses its partitions;
 * it keeps the one that it has until it wants it. When it has wanted none for LEAVE_MS it leaves
 * the group, so that idle members get the partitions and what was not committed. It joins again
 * when it wants messages.
 *
 * librdkafka connects by itself. The broker counts as away while the library reaches none, and when
 * the group does not form.
 */
#include "base/mem.h"
#include "relay/consumer_private.h"
#include "relay/kafka_producer.h"

#include <assert.h>
#include <stdlib.h>

#define LEAVE_MS 5000
#define JOIN_MS  60000 /* a group that takes longer to form is reported */
#define CLOSE_MS 3000
#define POLL_MS  100

struct kafka {
    struct df_consumer *consumer;
    rd_kafka_t *rk;           /* NULL: none yet, or it failed */
    rd_kafka_message_t *held; /* a message that is not settled; NULL: none */
    bool subscribed;
    bool joined; /* it has its partitions, or there are none for it */
    bool paused;
    bool down;             /* no broker is reached */
    int64_t wanted_ms;     /* monotonic: when a message was last wanted */
    int64_t subscribed_ms; /* monotonic */
};

static int64_t now_of(const struct kafka *k)
{
    return df_mono_ms(k->consumer->opt.clock);
}

static void drop_held(struct kafka *k)
{
    if (k->held)
        rd_kafka_message_destroy(k->held);
    k->held = NULL;
}

/* What is in hand of partitions that go is left to their next owner. A pause outlives an
 * assignment. */
static void partitions_changed(rd_kafka_t *rk, rd_kafka_resp_err_t err,
                               rd_kafka_topic_partition_list_t *parts, void *opaque)
{
    struct kafka *k = opaque;

    drop_held(k);
    k->joined = err == RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS;
    k->paused = false;
    (void)rd_kafka_assign(rk, k->joined ? parts : NULL);
    (void)rd_kafka_resume_partitions(rk, parts);
}

static void note_problem(rd_kafka_t *rk, int err, const char *reason, void *opaque)
{
    (void)rk;
    (void)reason;
    if (err == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN)
        ((struct kafka *)opaque)->down = true;
}

static void *open_kafka(struct df_consumer *c)
{
    struct kafka *k = df_calloc(1, sizeof *k);

    k->consumer = c;
    return k;
}

/* Says goodbye to the group, if the broker answers in time. rd_kafka_consumer_close would wait for
 * one that is away; the group notices that a member is gone all the same. */
static void say_goodbye(rd_kafka_t *rk)
{
    rd_kafka_queue_t *answers = rd_kafka_queue_new(rk);
    rd_kafka_error_t *refused = rd_kafka_consumer_close_queue(rk, answers);

    for (int i = 0; !refused && i < CLOSE_MS / POLL_MS && !rd_kafka_consumer_closed(rk); i++)
        rd_kafka_queue_poll_callback(answers, POLL_MS);
    if (refused)
        rd_kafka_error_destroy(refused);
    rd_kafka_queue_destroy(answers);
}

/* The library's client is left to the end of the process, which is near, but for the rare fatal
 * error: after a broker was lost, rd_kafka_destroy of librdkafka 2.0.2 now and then waits for ever
 * for a thread of its own. */
static void drop_consumer(struct kafka *k)
{
    drop_held(k);
    if (k->rk)
        say_goodbye(k->rk);
    k->rk = NULL;
    k->subscribed = k->joined = k->down = false;
}

static void close_kafka(void *arg)
{
    drop_consumer(arg);
    free(arg);
}

static enum df_code make_consumer(struct kafka *k, struct df_err *err)
{
    const struct df_kafka_callbacks callbacks = {
        .problem = note_problem, .opaque = k, .rebalanced = partitions_changed};
    struct df_kafka_target target = {0};
    enum df_code code = df_kafka_target_init(&target, &k->consumer->sink, err);

    if (code == DF_OK)
        code = df_kafka_consumer_new(&k->consumer->sink, target.servers, &callbacks, &k->rk, err);
    df_kafka_target_release(&target);
    return code;
}

/* --- the group --- */

static void join_group(struct kafka *k)
{
    rd_kafka_topic_partition_list_t *topics = rd_kafka_topic_partition_list_new(1);

    rd_kafka_topic_partition_list_add(topics, k->consumer->sink.topic, RD_KAFKA_PARTITION_UA);
    (void)rd_kafka_subscribe(k->rk, topics);
    rd_kafka_topic_partition_list_destroy(topics);
    k->subscribed = true;
    k->subscribed_ms = now_of(k);
}

static void leave_group(struct kafka *k)
{
    drop_held(k);
    (void)rd_kafka_unsubscribe(k->rk);
    k->subscribed = false;
}

static void set_paused(struct kafka *k, bool paused)
{
    rd_kafka_topic_partition_list_t *parts = NULL;

    if (rd_kafka_assignment(k->rk, &parts) != RD_KAFKA_RESP_ERR_NO_ERROR)
        return;
    (void)(paused ? rd_kafka_pause_partitions(k->rk, parts)
                  : rd_kafka_resume_partitions(k->rk, parts));
    rd_kafka_topic_partition_list_destroy(parts);
    k->paused = paused;
}

static void take_place(struct kafka *k, bool wants)
{
    if (wants)
        k->wanted_ms = now_of(k);
    if (wants && !k->subscribed)
        join_group(k);
    else if (!wants && k->subscribed && now_of(k) - k->wanted_ms >= LEAVE_MS)
        leave_group(k);
}

/* --- messages --- */

static void settle_message(struct kafka *k)
{
    const rd_kafka_message_t *m = k->held;
    struct df_str body = m->len <= DF_CONSUMER_BODY_MAX
                             ? df_str_n(m->payload ? m->payload : "", m->len)
                             : DF_STR_NULL;

    if (consumer_take(k->consumer, body) == DF_TAKEN_LATER)
        return;
    (void)rd_kafka_commit_message(k->rk, m, 1);
    drop_held(k);
}

/* The library's complaints come as messages, too: a topic that does not exist may come yet. */
static void take_polled(struct kafka *k, rd_kafka_message_t *m)
{
    assert(!k->held || m->err != RD_KAFKA_RESP_ERR_NO_ERROR);
    if (m->err == RD_KAFKA_RESP_ERR_NO_ERROR)
        k->held = m;
    else
        rd_kafka_message_destroy(m);
}

/* --- a turn --- */

/* The library does not tell that a broker is back. */
static void look_for_brokers(struct kafka *k)
{
    const struct rd_kafka_metadata *found = NULL;

    if (rd_kafka_metadata(k->rk, 0, NULL, &found, CONSUMER_TURN_MS) != RD_KAFKA_RESP_ERR_NO_ERROR)
        return;
    rd_kafka_metadata_destroy(found);
    k->down = false;
}

static enum df_code check_place(struct kafka *k, struct df_err *err)
{
    char why[240];

    if (rd_kafka_fatal_error(k->rk, why, sizeof why) != RD_KAFKA_RESP_ERR_NO_ERROR) {
        drop_consumer(k);
        return df_err_set(err, DF_E_NET, "%s", why);
    }
    if (k->down)
        return df_err_set(err, DF_E_NET, "no broker of the cluster is reached");
    if (k->subscribed && !k->joined && now_of(k) - k->subscribed_ms >= JOIN_MS)
        return df_err_set(err, DF_E_NET, "the group or the topic is not there");
    return DF_OK;
}

static enum df_code turn_kafka(void *arg, bool wants, struct df_err *err)
{
    struct kafka *k = arg;
    enum df_code code = k->rk ? DF_OK : make_consumer(k, err);

    if (code != DF_OK)
        return code;
    take_place(k, wants);
    if (wants && k->held)
        settle_message(k);
    bool pauses = !wants || k->held; /* there is room for one message */
    if (k->joined && k->paused != pauses)
        set_paused(k, pauses);
    bool waits = k->held || k->paused || !k->subscribed;
    rd_kafka_message_t *m = rd_kafka_consumer_poll(k->rk, waits ? 0 : CONSUMER_TURN_MS);
    if (m)
        take_polled(k, m);
    else if (waits)
        consumer_rest(k->consumer, CONSUMER_TURN_MS);
    if (k->down)
        look_for_brokers(k);
    consumer_set_connected(k->consumer, k->joined && !k->down);
    return check_place(k, err);
}

const struct consumer_broker consumer_kafka = {open_kafka, close_kafka, turn_kafka};

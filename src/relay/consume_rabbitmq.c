/*
 * Messages from RabbitMQ. The consumer declares what it needs: the queue NAME, durable and of type
 * quorum, and NAME.dead, where the broker puts what is rejected and what was given back more than
 * DELIVERY_LIMIT times. If somebody deletes the queue, the broker cancels the consumer, which
 * declares it again.
 *
 * There is one message at a time (prefetch 1), and the consumer exists only while one is wanted: a
 * message that came just when the last worker got a batch is given back.
 */
#include "base/mem.h"
#include "relay/consumer_private.h"
#include "relay/rabbitmq_link.h"

#include <stdio.h>
#include <stdlib.h>

#define DELIVERY_LIMIT 20
#define DEAD_MAX       10000 /* messages; then the oldest go */
#define METHOD_BYTES   64    /* of an ack with its frame */
#define NAME_MAX_BYTES 255

/* A message on its way in: a method, a header with the size, then frames with the body. */
struct delivery {
    bool begun;
    bool sized;
    uint64_t tag;
    uint64_t size;
    uint64_t got;
    char body[DF_CONSUMER_BODY_MAX];
};

struct rabbit {
    struct df_consumer *consumer;
    struct df_rabbit_link link;
    bool ready; /* the link's URL was right */
    bool declared;
    bool consuming;
    struct delivery in;
};

static amqp_bytes_t queue_name(const struct rabbit *r)
{
    return amqp_cstring_bytes(r->consumer->sink.topic);
}

static void *open_rabbitmq(struct df_consumer *c)
{
    struct rabbit *r = df_calloc(1, sizeof *r);
    struct df_err err = DF_ERR_INIT;

    r->consumer = c;
    r->ready = df_rabbit_link_init(&r->link, &c->sink, &err) == DF_OK;
    r->link.wake_fd = c->wake_fd;
    return r;
}

static void close_rabbitmq(void *arg)
{
    struct rabbit *r = arg;

    if (r->ready)
        df_rabbit_link_release(&r->link);
    free(r);
}

/* --- what the broker is asked --- */

static enum df_code declare_queue(struct rabbit *r, amqp_bytes_t name, amqp_table_entry_t *entries,
                                  int count, struct df_err *err)
{
    const amqp_table_t arguments = {count, entries};

    (void)amqp_queue_declare(r->link.conn, DF_RABBIT_CHANNEL, name, 0, 1, 0, 0, arguments);
    return df_rabbit_link_answered(&r->link, err);
}

static enum df_code declare_queues(struct rabbit *r, struct df_err *err)
{
    char dead[NAME_MAX_BYTES + 1];
    (void)snprintf(dead, sizeof dead, "%s.dead", r->consumer->sink.topic);
    amqp_table_entry_t kept[] = {
        df_rabbit_text("x-queue-type", "quorum"),
        df_rabbit_number("x-max-length", DEAD_MAX),
    };
    amqp_table_entry_t taken[] = {
        df_rabbit_text("x-queue-type", "quorum"),
        df_rabbit_text("x-dead-letter-exchange", ""),
        df_rabbit_text("x-dead-letter-routing-key", dead),
        df_rabbit_number("x-delivery-limit", DELIVERY_LIMIT),
    };
    enum df_code code = declare_queue(r, amqp_cstring_bytes(dead), kept, 2, err);

    if (code == DF_OK)
        code = declare_queue(r, queue_name(r), taken, 4, err);
    if (code == DF_OK) {
        (void)amqp_basic_qos(r->link.conn, DF_RABBIT_CHANNEL, 0, 1, 0);
        code = df_rabbit_link_answered(&r->link, err);
    }
    r->declared = code == DF_OK;
    return code;
}

static enum df_code set_consuming(struct rabbit *r, bool wants, struct df_err *err)
{
    const amqp_bytes_t tag = amqp_cstring_bytes("dataflow");

    if (wants)
        (void)amqp_basic_consume(r->link.conn, DF_RABBIT_CHANNEL, queue_name(r), tag, 0, 0, 0,
                                 amqp_empty_table);
    else
        (void)amqp_basic_cancel(r->link.conn, DF_RABBIT_CHANNEL, tag);
    enum df_code code = df_rabbit_link_answered(&r->link, err);
    r->consuming = code == DF_OK && wants;
    return code;
}

/* --- messages --- */

static void take_frame(void *arg, const amqp_frame_t *f)
{
    struct rabbit *r = arg;
    struct delivery *in = &r->in;
    amqp_method_number_t id = f->frame_type == AMQP_FRAME_METHOD ? f->payload.method.id : 0;

    if (id == AMQP_BASIC_DELIVER_METHOD) {
        const amqp_basic_deliver_t *m = f->payload.method.decoded;
        *in = (struct delivery){.begun = true, .tag = m->delivery_tag};
    } else if (id == AMQP_BASIC_CANCEL_METHOD) {
        r->declared = r->consuming = false; /* the queue is gone */
    } else if (f->frame_type == AMQP_FRAME_HEADER && in->begun) {
        in->sized = true;
        in->size = f->payload.properties.body_size;
    } else if (f->frame_type == AMQP_FRAME_BODY && in->sized) {
        amqp_bytes_t part = f->payload.body_fragment;
        if (part.len > 0 && in->got + part.len <= sizeof in->body)
            memcpy(in->body + in->got, part.bytes, part.len);
        in->got += part.len;
    }
}

static enum df_code send_method(struct rabbit *r, amqp_method_number_t id, void *method,
                                struct df_err *err)
{
    struct df_rabbit_link *l = &r->link;
    amqp_frame_t f = {.frame_type = AMQP_FRAME_METHOD, .channel = DF_RABBIT_CHANNEL};
    int64_t deadline_ms = df_mono_ms(l->clock) + CONSUMER_CONNECT_MS;

    f.payload.method.id = id;
    f.payload.method.decoded = method;
    enum df_code code = df_rabbit_link_wait(l, METHOD_BYTES, deadline_ms, take_frame, r, err);
    return code == DF_OK ? df_rabbit_link_send(l, &f, METHOD_BYTES, err) : code;
}

static enum df_code settle_message(struct rabbit *r, struct df_err *err)
{
    struct delivery *in = &r->in;
    struct df_str body =
        in->size <= sizeof in->body ? df_str_n(in->body, (size_t)in->size) : DF_STR_NULL;
    uint64_t tag = in->tag;

    enum df_taken taken = consumer_take(r->consumer, body);
    *in = (struct delivery){0};
    if (taken == DF_TAKEN)
        return send_method(r, AMQP_BASIC_ACK_METHOD, &(amqp_basic_ack_t){.delivery_tag = tag}, err);
    return send_method(
        r, AMQP_BASIC_REJECT_METHOD,
        &(amqp_basic_reject_t){.delivery_tag = tag, .requeue = taken == DF_TAKEN_LATER}, err);
}

/* --- a turn --- */

static enum df_code bring_up(struct rabbit *r, bool wants, struct df_err *err)
{
    struct df_rabbit_link *l = &r->link;
    int64_t deadline_ms = df_mono_ms(l->clock) + CONSUMER_CONNECT_MS;
    enum df_code code = DF_OK;

    if (!r->ready)
        return df_err_set(err, DF_E_CONFIG, "imports.queue_url is not right");
    if (!l->conn || !l->channel_open) {
        r->declared = r->consuming = false;
        r->in = (struct delivery){0};
        code = df_rabbit_link_up(l, deadline_ms, err);
    }
    if (code == DF_OK && !r->declared)
        code = declare_queues(r, err);
    if (code == DF_OK && wants != r->consuming)
        code = set_consuming(r, wants, err);
    return code;
}

static enum df_code turn_rabbitmq(void *arg, bool wants, struct df_err *err)
{
    struct rabbit *r = arg;
    bool was_declared = r->declared;
    enum df_code code = bring_up(r, wants, err);

    if (code != DF_OK)
        return code;
    if (!was_declared && df_consumer_is_connected(r->consumer))
        consumer_lost_some(r->consumer); /* with the queue that was deleted */
    consumer_set_connected(r->consumer, true);
    code = df_rabbit_link_wait(&r->link, 0, df_mono_ms(r->link.clock) + CONSUMER_TURN_MS,
                               take_frame, r, err);
    consumer_awake(r->consumer);
    if (code == DF_E_TIMEOUT)
        code = DF_OK;
    if (code == DF_OK && r->in.sized && r->in.got >= r->in.size)
        code = settle_message(r, err);
    return code;
}

const struct consumer_broker consumer_rabbitmq = {open_rabbitmq, close_rabbitmq, turn_rabbitmq};

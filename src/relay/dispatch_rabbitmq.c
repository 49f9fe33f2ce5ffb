/*
 * Events to RabbitMQ. A batch is published whole before the sink waits for its confirms: one by one
 * it would be ten times slower. The broker numbers the messages on a channel, 1, 2, 3…, and
 * confirms by number, often many at once ("up to 17").
 *
 *   what the broker does           what it means
 *   -----------------------------  ----------------------------------------------------------
 *   ack                            it is in every queue that it belongs in: DISPATCHED
 *   return, then ack               no queue is bound for it: RETRY, somebody may bind one
 *   nack                           a queue could not keep it: RETRY
 *   closes the channel             no such exchange, …: RETRY for all that have no confirm
 *   closes it over a message       which one is not said: all that have no confirm go again,
 *   (too large, not well-formed)   one at a time; one that causes it alone is PERMANENT
 *   connection lost, time is up    RETRY for all that have no confirm; says nothing of them
 *   says that it is blocked        nothing more is published until it says the contrary
 *
 * After a time-out the connection is given up, since its state is not known. A connection to a
 * blocked broker is kept: it is alive, and the messages that wait in it keep their place before
 * later ones.
 */
#include "base/mem.h"
#include "relay/broker_headers.h"
#include "relay/rabbitmq_link.h"

#include <inttypes.h>
#include <stdlib.h>

#define SHORT_MAX    255  /* AMQP's short strings: a byte for the length */
#define FRAME_OUTER  8    /* bytes around a frame's content */
#define METHOD_BYTES 600  /* basic.publish with two short strings */
#define HEADER_BYTES 1600 /* a message's header with all its short strings, without its headers */
#define ENTRY_BYTES  6    /* of a header besides its name and value */

struct df_sink {
    const struct df_sink_options *opt;
    struct df_rabbit_link link;
};

struct message {
    struct df_event *event;
    struct df_str key;
    amqp_basic_properties_t properties;
    size_t header_bytes;
    bool returned;
};

struct batch {
    struct df_sink *sink;
    struct df_arena *arena;
    int64_t begun_ms;
    int64_t deadline_ms;
    struct message *messages;
    size_t count;

    /* The round under way. */
    struct message **sent; /* the first one has tag base + 1 */
    size_t sent_count;
    size_t confirmed; /* how many of them have a confirm */
    size_t low;       /* all before this one have theirs */
    uint64_t base;
};

/* --- outcomes --- */

static void settle_event(struct batch *b, struct df_event *e, enum df_dispatch_outcome outcome,
                         struct df_str error)
{
    df_event_settle(e, outcome, df_mono_ms(b->sink->opt->clock) - b->begun_ms, error);
}

static void settle_unconfirmed(struct batch *b, const char *words)
{
    struct df_str error = df_arena_str(b->arena, df_str_c(words));

    for (size_t i = 0; i < b->count; i++) {
        struct df_event *e = b->messages[i].event;
        if (e->outcome != DF_DISPATCH_NONE)
            continue;
        settle_event(b, e, DF_DISPATCH_RETRY, error);
        e->never_counts = true;
    }
}

static struct df_str no_queue(struct batch *b, const struct message *m)
{
    const char *exchange = b->sink->opt->exchange;

    if (!exchange || !*exchange)
        return df_arena_printf(b->arena, "there is no queue '" DF_STR_FMT "'", DF_STR_ARG(m->key));
    return df_arena_printf(b->arena,
                           "no queue is bound to exchange '%s' for routing key '" DF_STR_FMT "'",
                           exchange, DF_STR_ARG(m->key));
}

static void confirm_one(struct batch *b, size_t i, bool ack)
{
    struct message *m = b->sent[i];

    if (m->event->outcome != DF_DISPATCH_NONE)
        return;
    b->confirmed++;
    if (!ack)
        settle_event(b, m->event, DF_DISPATCH_RETRY,
                     DF_STR("the broker could not take the message (nack)"));
    else if (m->returned)
        settle_event(b, m->event, DF_DISPATCH_RETRY, no_queue(b, m));
    else
        settle_event(b, m->event, DF_DISPATCHED, DF_STR_NULL);
}

/* Tags at or below base belong to an earlier batch, whose time was up. */
static void confirm_tags(struct batch *b, uint64_t tag, bool multiple, bool ack)
{
    if (tag <= b->base || tag - b->base > b->sent_count)
        return;
    size_t last = (size_t)(tag - b->base) - 1;
    for (size_t i = multiple ? b->low : last; i <= last; i++)
        confirm_one(b, i, ack);
    if (multiple && last + 1 > b->low)
        b->low = last + 1;
}

/* A returned message has no tag; its header, in a frame of its own, has the id. */
static void mark_returned(struct batch *b, const amqp_basic_properties_t *p)
{
    if (!(p->_flags & AMQP_BASIC_MESSAGE_ID_FLAG))
        return;
    struct df_str id = df_str_n(p->message_id.bytes, p->message_id.len);
    for (size_t i = b->low; i < b->sent_count; i++)
        if (df_str_eq(b->sent[i]->event->id, id))
            b->sent[i]->returned = true;
}

static void take_confirm(void *arg, const amqp_frame_t *f)
{
    struct batch *b = arg;

    if (f->frame_type == AMQP_FRAME_HEADER) {
        mark_returned(b, f->payload.properties.decoded);
    } else if (f->frame_type == AMQP_FRAME_METHOD &&
               f->payload.method.id == AMQP_BASIC_ACK_METHOD) {
        const amqp_basic_ack_t *m = f->payload.method.decoded;
        confirm_tags(b, m->delivery_tag, m->multiple, true);
    } else if (f->frame_type == AMQP_FRAME_METHOD &&
               f->payload.method.id == AMQP_BASIC_NACK_METHOD) {
        const amqp_basic_nack_t *m = f->payload.method.decoded;
        confirm_tags(b, m->delivery_tag, m->multiple, false);
    }
}

/* --- a message --- */

static amqp_bytes_t bytes_of(struct df_str s)
{
    /* The library takes a pointer to what it only reads. */
    return (amqp_bytes_t){.len = s.len, .bytes = (void *)(uintptr_t)s.ptr};
}

/* A value that is too long for a short string is left out: the headers have it whole. */
static void set_short(amqp_basic_properties_t *p, amqp_flags_t flag, amqp_bytes_t *where,
                      struct df_str value)
{
    if (value.len == 0 || value.len > SHORT_MAX)
        return;
    p->_flags |= flag;
    *where = bytes_of(value);
}

static void set_headers(struct batch *b, struct message *m)
{
    struct df_event_attribute headers[DF_BROKER_HEADERS];
    struct df_str type;
    amqp_basic_properties_t *p = &m->properties;
    size_t n = df_broker_headers(m->event, b->sink->opt->source, b->arena, headers, &type);
    amqp_table_entry_t *entries = DF_ARENA_ARRAY(b->arena, amqp_table_entry_t, n);

    m->header_bytes = HEADER_BYTES;
    for (size_t i = 0; i < n; i++) {
        entries[i].key = amqp_cstring_bytes(headers[i].name);
        entries[i].value.kind = AMQP_FIELD_KIND_UTF8;
        entries[i].value.value.bytes = bytes_of(headers[i].value);
        m->header_bytes += entries[i].key.len + headers[i].value.len + ENTRY_BYTES;
    }
    p->_flags |= AMQP_BASIC_HEADERS_FLAG;
    p->headers = (amqp_table_t){(int)n, entries};
    set_short(p, AMQP_BASIC_CONTENT_TYPE_FLAG, &p->content_type, type);
}

/* Returns what is wrong with the event; absent: nothing. */
static struct df_str prepare_message(struct batch *b, struct message *m)
{
    const struct df_event *e = m->event;
    amqp_basic_properties_t *p = &m->properties;

    m->key = df_event_expand(b->arena, b->sink->opt->routing_key, e);
    if (m->key.len > SHORT_MAX)
        return df_arena_printf(b->arena, "the routing key has %zu bytes; AMQP takes 255",
                               m->key.len);
    if (e->id.len > SHORT_MAX)
        return df_arena_printf(b->arena, "the id has %zu bytes; AMQP's message-id takes 255",
                               e->id.len);
    p->_flags = AMQP_BASIC_DELIVERY_MODE_FLAG;
    p->delivery_mode = AMQP_DELIVERY_PERSISTENT;
    set_short(p, AMQP_BASIC_MESSAGE_ID_FLAG, &p->message_id, e->id);
    set_short(p, AMQP_BASIC_TYPE_FLAG, &p->type, e->type);
    set_short(p, AMQP_BASIC_CORRELATION_ID_FLAG, &p->correlation_id, e->correlation_id);
    if (e->created_ms >= 0) {
        p->_flags |= AMQP_BASIC_TIMESTAMP_FLAG;
        p->timestamp = (uint64_t)e->created_ms / 1000;
    }
    set_headers(b, m);
    if (m->header_bytes > DF_RABBIT_FRAME_MAX)
        return df_arena_printf(b->arena, "the event's attributes have %zu bytes; %d fit",
                               m->header_bytes - HEADER_BYTES, DF_RABBIT_FRAME_MAX - HEADER_BYTES);
    return DF_STR_NULL;
}

static enum df_code put_frame(struct batch *b, const amqp_frame_t *f, size_t len,
                              struct df_err *err)
{
    struct df_rabbit_link *l = &b->sink->link;
    enum df_code code = df_rabbit_link_wait(l, len, b->deadline_ms, take_confirm, b, err);

    return code == DF_OK ? df_rabbit_link_send(l, f, len, err) : code;
}

static enum df_code put_body(struct batch *b, struct df_str body, struct df_err *err)
{
    size_t most = (size_t)amqp_get_frame_max(b->sink->link.conn) - FRAME_OUTER;
    enum df_code code = DF_OK;

    for (size_t at = 0; code == DF_OK && at < body.len;) {
        size_t len = body.len - at < most ? body.len - at : most;
        amqp_frame_t f = {.frame_type = AMQP_FRAME_BODY, .channel = DF_RABBIT_CHANNEL};
        f.payload.body_fragment = bytes_of(df_str_n(body.ptr + at, len));
        code = put_frame(b, &f, len + FRAME_OUTER, err);
        at += len;
    }
    return code;
}

static enum df_code publish_message(struct batch *b, struct message *m, struct df_err *err)
{
    struct df_rabbit_link *l = &b->sink->link;
    amqp_basic_publish_t publish = {
        .exchange = amqp_cstring_bytes(b->sink->opt->exchange ? b->sink->opt->exchange : ""),
        .routing_key = bytes_of(m->key),
        .mandatory = 1,
    };
    amqp_frame_t method = {.frame_type = AMQP_FRAME_METHOD, .channel = DF_RABBIT_CHANNEL};
    method.payload.method.id = AMQP_BASIC_PUBLISH_METHOD;
    method.payload.method.decoded = &publish;
    amqp_frame_t header = {.frame_type = AMQP_FRAME_HEADER, .channel = DF_RABBIT_CHANNEL};
    header.payload.properties.class_id = AMQP_BASIC_CLASS;
    header.payload.properties.body_size = m->event->payload.len;
    header.payload.properties.decoded = &m->properties;

    enum df_code code = df_rabbit_link_wait(l, METHOD_BYTES, b->deadline_ms, take_confirm, b, err);
    if (code != DF_OK || l->blocked)
        return code;
    l->in_message = true;
    b->sent[b->sent_count++] = m;
    l->tag++;
    code = df_rabbit_link_send(l, &method, METHOD_BYTES, err);
    if (code == DF_OK)
        code = put_frame(b, &header, m->header_bytes, err);
    if (code == DF_OK)
        code = put_body(b, m->event->payload, err);
    if (code == DF_OK)
        l->in_message = false;
    return code;
}

/* --- rounds --- */

/* Publishes the messages whose outcome is open and waits for their confirms. DF_OK: all have
 * theirs. */
static enum df_code publish_and_wait(struct batch *b, struct message *from, size_t count,
                                     struct df_err *err)
{
    struct df_rabbit_link *l = &b->sink->link;
    enum df_code code = DF_OK;

    b->sent_count = b->confirmed = b->low = 0;
    b->base = l->tag;
    df_rabbit_link_cork(l, true);
    for (size_t i = 0; code == DF_OK && !l->blocked && i < count; i++)
        if (from[i].event->outcome == DF_DISPATCH_NONE)
            code = publish_message(b, &from[i], err);
    df_rabbit_link_cork(l, false);
    while (code == DF_OK && b->confirmed < b->sent_count)
        code = df_rabbit_link_wait(l, 0, b->deadline_ms, take_confirm, b, err);
    return code;
}

static enum df_code run_round(struct batch *b, struct message *from, size_t count,
                              struct df_err *err)
{
    struct df_rabbit_link *l = &b->sink->link;
    enum df_code code = df_rabbit_link_up(l, b->deadline_ms, err);

    if (code == DF_OK)
        code = publish_and_wait(b, from, count, err);
    if (l->blocked)
        code = df_err_set(err, DF_E_TIMEOUT, "%s takes no messages for now: %s", l->place,
                          l->blocked_why);
    else if (code == DF_E_TIMEOUT)
        code = df_err_set(err, code, "%s has not confirmed within %" PRId64 " ms", l->place,
                          b->sink->opt->timeout_ms);
    if (code == DF_E_TIMEOUT && (!l->blocked || l->in_message))
        df_rabbit_link_lost(l, err->detail);
    return code;
}

/* Whether the broker closed the channel or the connection because of a message. */
static bool is_about_message(int code)
{
    return code == AMQP_CONTENT_TOO_LARGE || code == AMQP_PRECONDITION_FAILED ||
           code == AMQP_FRAME_ERROR || code == AMQP_SYNTAX_ERROR;
}

/* One of these messages had the channel closed: tries each alone to find it. */
static enum df_code find_culprits(struct batch *b, struct df_err *err)
{
    enum df_code code = DF_OK;

    for (size_t i = 0; code == DF_OK && i < b->count; i++) {
        struct df_event *e = b->messages[i].event;
        if (e->outcome != DF_DISPATCH_NONE)
            continue;
        b->messages[i].returned = false;
        code = run_round(b, &b->messages[i], 1, err);
        if (code == DF_E_NET && is_about_message(b->sink->link.close_code)) {
            settle_event(b, e, DF_DISPATCH_PERMANENT,
                         df_arena_str(b->arena, df_str_c(err->detail)));
            code = DF_OK;
        }
    }
    return code;
}

/* --- the dispatcher --- */

static enum df_code check_rabbitmq(const struct df_sink_options *opt, struct df_err *err)
{
    struct df_rabbit_link l;
    enum df_code code = df_rabbit_link_init(&l, opt, err);

    if (code != DF_OK)
        return code;
    df_rabbit_link_release(&l);
    if (opt->exchange && strlen(opt->exchange) > SHORT_MAX)
        return df_err_set(err, DF_E_CONFIG, "exchange: AMQP takes 255 bytes");
    bool has_exchange = opt->exchange && *opt->exchange;
    if (!has_exchange && (!opt->routing_key || !*opt->routing_key))
        return df_err_set(err, DF_E_CONFIG,
                          "routing_key: without an exchange it is the queue's name, and missing");
    return df_event_check_pattern(opt->routing_key, "routing_key", err);
}

static enum df_code open_sink(const struct df_sink_options *opt, struct df_sink **ret,
                              struct df_err *err)
{
    struct df_sink *s = df_calloc(1, sizeof(*s));
    enum df_code code = df_rabbit_link_init(&s->link, opt, err);

    if (code != DF_OK) {
        free(s);
        return code;
    }
    s->opt = opt;
    *ret = s;
    return DF_OK;
}

static void dispatch_rabbitmq(struct df_sink *s, struct df_event *const *events, size_t n,
                              struct df_arena *a)
{
    struct df_err err = DF_ERR_INIT;
    struct batch b = {.sink = s, .arena = a, .begun_ms = df_mono_ms(s->opt->clock)};

    b.deadline_ms = b.begun_ms + s->opt->timeout_ms;
    b.messages = DF_ARENA_ARRAY(a, struct message, n);
    b.sent = DF_ARENA_ARRAY(a, struct message *, n);
    for (size_t i = 0; i < n; i++) {
        struct message *m = &b.messages[b.count];
        m->event = events[i];
        m->event->outcome = DF_DISPATCH_NONE;
        struct df_str wrong = prepare_message(&b, m);
        if (wrong.ptr)
            settle_event(&b, events[i], DF_DISPATCH_PERMANENT, wrong);
        b.count++;
    }
    enum df_code code = run_round(&b, b.messages, b.count, &err);
    if (code == DF_E_NET && is_about_message(s->link.close_code))
        code = find_culprits(&b, &err);
    if (code != DF_OK)
        settle_unconfirmed(&b, err.detail);
}

static void idle_rabbitmq(struct df_sink *s)
{
    df_rabbit_link_beat(&s->link);
}

static void close_sink(struct df_sink *s)
{
    if (!s)
        return;
    df_rabbit_link_release(&s->link);
    free(s);
}

const struct df_dispatcher df_dispatch_rabbitmq = {
    .name = "rabbitmq",
    .check = check_rabbitmq,
    .open = open_sink,
    .dispatch = dispatch_rabbitmq,
    .idle = idle_rabbitmq,
    .close = close_sink,
};

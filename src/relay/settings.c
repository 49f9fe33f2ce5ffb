#include "base/mem.h"
#include "relay/relay.h"

#include <stdio.h>

#define NAME_MAX_BYTES  128 /* of a table, a column, a schema: what SQL Server takes */
#define STATE_MAX_CHARS 64

/* The columns that the relay writes; none of them may serve another purpose too. */
static const bool written[DF_RELAY_COLUMNS] = {
    [DF_RELAY_STATUS] = true,       [DF_RELAY_ATTEMPTS] = true,   [DF_RELAY_NEXT_ATTEMPT_AT] = true,
    [DF_RELAY_PROCESSED_AT] = true, [DF_RELAY_LAST_ERROR] = true,
};

static const char *const order_names[] = {
    [DF_RELAY_ORDER_NONE] = "none", [DF_RELAY_ORDER_AGGREGATE] = "aggregate", NULL};
static const char *const http_mode_names[] = {[DF_HTTP_BINARY] = "binary",
                                              [DF_HTTP_STRUCTURED] = "structured",
                                              [DF_HTTP_BATCH] = "batch",
                                              NULL};

#define S struct df_relay_settings

/* clang-format off */
static const struct df_config_key relay_keys[] = {
    DF_KEY_OPTIONAL_URL("url", S, url, "Database of the table: postgres://…, sqlserver://… or sqlite:PATH; default: that of [database]."),
    DF_KEY_STRING("table", S, table, "outbox_events", "The table; also schema.table, and on SQL Server database.schema.table."),
    DF_KEY_STRING("column_id", S, columns[DF_RELAY_ID], "id", "The event's id."),
    DF_KEY_STRING("column_event_type", S, columns[DF_RELAY_EVENT_TYPE], "event_type", "Its type."),
    DF_KEY_STRING("column_payload", S, columns[DF_RELAY_PAYLOAD], "payload", "Its content."),
    DF_KEY_STRING("column_status", S, columns[DF_RELAY_STATUS], "status", "Its state; written."),
    DF_KEY_STRING("column_attempts", S, columns[DF_RELAY_ATTEMPTS], "attempts", "Failures that counted; written."),
    DF_KEY_STRING("column_created_at", S, columns[DF_RELAY_CREATED_AT], "created_at", "When it happened; the order of dispatch."),
    DF_KEY_STRING("column_aggregate_type", S, columns[DF_RELAY_AGGREGATE_TYPE], "aggregate_type", "The kind of thing that the event is about. This column and those below are used if they exist; an empty name: never."),
    DF_KEY_STRING("column_aggregate_id", S, columns[DF_RELAY_AGGREGATE_ID], "aggregate_id", "Which thing it is about; required for order = aggregate."),
    DF_KEY_STRING("column_next_attempt_at", S, columns[DF_RELAY_NEXT_ATTEMPT_AT], "next_attempt_at", "When it is due again; written. Without it this time is kept in memory."),
    DF_KEY_STRING("column_processed_at", S, columns[DF_RELAY_PROCESSED_AT], "processed_at", "When it was dispatched; written."),
    DF_KEY_STRING("column_last_error", S, columns[DF_RELAY_LAST_ERROR], "last_error", "Why the last attempt failed; written."),
    DF_KEY_STRING("column_correlation_id", S, columns[DF_RELAY_CORRELATION_ID], "correlation_id", "Passed on and logged."),
    DF_KEY_STRING("column_trace_id", S, columns[DF_RELAY_TRACE_ID], "trace_id", "Trace id of W3C's traceparent."),
    DF_KEY_STRING("column_span_id", S, columns[DF_RELAY_SPAN_ID], "span_id", "Span id of W3C's traceparent."),
    DF_KEY_STRING("column_trace_flags", S, columns[DF_RELAY_TRACE_FLAGS], "trace_flags", "Flags of W3C's traceparent; without it, the trace's id decides whether the trace is recorded."),
    DF_KEY_STRING("state_pending", S, state_pending, "PENDING", "State of events that wait."),
    DF_KEY_STRING("state_processed", S, state_processed, "PROCESSED", "State of events that were dispatched."),
    DF_KEY_STRING("state_failed", S, state_failed, "FAILED", "State of events that were given up."),
    DF_KEY_INT("poll_ms", S, poll_ms, "200", 10, 60000, "How often the table is polled when nothing wakes the relay."),
    DF_KEY_INT("batch", S, batch, "200", 1, 10000, "Most events in one transaction."),
    DF_KEY_INT("max_payload_bytes", S, max_payload_bytes, "16777216", 1024, INT64_C(1) << 30, "Longest payload that is sent; an event with a longer one is given up, unread."),
    DF_KEY_INT("max_retries", S, max_retries, "5", 0, 1000, "Failures that count, of one event, before another one gives it up: those while other events arrive."),
    DF_KEY_INT("retry_base_ms", S, retry_base_ms, "1000", 1, DF_HOURS, "First backoff; doubles with each attempt, full jitter."),
    DF_KEY_INT("retry_cap_ms", S, retry_cap_ms, "300000", 1, DF_DAYS, "Longest backoff; of one event, one failure counts in this time."),
    DF_KEY_INT("workers", S, workers, "0", 0, 64, "Batches in parallel; 0: 4, and 1 on SQLite."),
    DF_KEY_INT("timeout_ms", S, timeout_ms, "30000", 1, DF_HOURS, "Longest time for one event, from hand-over to confirmation."),
    DF_KEY_ENUM("order", S, order, "none", order_names, "aggregate: events of one aggregate one after the other, across all relays of the table."),
    DF_KEY_ENUM("dispatcher", S, dispatcher, "log", df_dispatcher_names, "Where events go."),
    DF_KEY_OPTIONAL_URL("target", S, target, "http: URL, with {eventType}, {aggregateType}, {aggregateId} in its path; rabbitmq: amqp(s)://user:password@host/vhost; kafka: kafka://host:port,host:port/topic."),
    DF_KEY_ENUM("mode", S, mode, "binary", http_mode_names, "http: how CloudEvents are written; batch: many in one call."),
    DF_KEY_SECRET("secret", S, secret, "http: calls are signed with it, as webhooks are."),
    DF_KEY_OPTIONAL("source", S, source, "The CloudEvents' source; default: /dataflow/relay/NAME."),
    DF_KEY_STRING("exchange", S, exchange, "", "rabbitmq: the exchange; empty: the default one."),
    DF_KEY_STRING("routing_key", S, routing_key, "{eventType}", "rabbitmq: the routing key, with {eventType}, {aggregateType}, {aggregateId}."),
    DF_KEY_OPTIONAL("topic", S, topic, "kafka: the topic, with the same placeholders; default: the target's path, else {eventType}."),
    DF_KEY_SECRET("properties", S, properties, "kafka: further settings of librdkafka, name=value;name=value."),
    {.key = "notify_channel", .type = DF_CFG_STRING, .offset = offsetof(S, notify_channel), .max = 63, .empty_is_none = true,
     .help = "PostgreSQL: channel that `dataflow relay install-trigger` makes every insert notify."},
    {.key = NULL},
};
/* clang-format on */

const struct df_config_group df_relay_group = {
    .prefix = "relay",
    .keys = relay_keys,
    .size = sizeof(S),
    .name_offset = offsetof(S, name),
    .help = "Sends the events of an application's outbox table to their destination.",
    .example = "[relay.orders]\n"
               "url = postgres://relay@db.internal/shop\n"
               "table = sales.outbox_events\n"
               "order = aggregate\n"
               "dispatcher = http\n"
               "target = https://events.example.com/{eventType}\n"
               "notify_channel = outbox_events\n",
};

void df_relay_fill_settings(struct df_relay_settings *s, const char *own_url)
{
    char *source;

    if (!s->url)
        s->url = df_strdup(df_str_c(own_url));
    if (s->source)
        return;
    if (asprintf(&source, "/dataflow/relay/%s", s->name) < 0)
        df_oom();
    s->source = source;
}

/* --- checks without a connection --- */

#define NAME_RULE "a name has 1 to %d bytes, none of them a control character"

__attribute__((format(printf, 3, 4))) static void
complain(const struct df_relay_settings *s, struct df_buf *complaints, const char *fmt, ...)
{
    va_list ap;

    df_buf_addf(complaints, "[relay.%s] ", s->name);
    va_start(ap, fmt);
    df_buf_vaddf(complaints, fmt, ap);
    va_end(ap);
    df_buf_addc(complaints, '\n');
}

/* Names are quoted where they are used, so any character will do except control characters. */
static bool is_identifier(struct df_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        if ((unsigned char)s.ptr[i] < ' ' || s.ptr[i] == 0x7F)
            return false;
    }
    return s.len > 0 && s.len <= NAME_MAX_BYTES && df_utf8_valid_prefix(s) == s.len;
}

static void check_table(const struct df_relay_settings *s, enum df_dialect dialect,
                        struct df_buf *complaints)
{
    const size_t max_parts = dialect == DF_SQLSERVER ? 3 : 2;
    struct df_str part, rest = df_str_c(s->table);
    size_t parts = 0;
    bool named = true;

    while (rest.ptr) {
        rest = df_str_cut(rest, '.', &part);
        named = named && is_identifier(part);
        parts++;
    }
    if (!named)
        complain(s, complaints, "table: " NAME_RULE, NAME_MAX_BYTES);
    else if (parts > max_parts)
        complain(s, complaints, "table: on %s it is %stable or schema.table, not \"%s\"",
                 df_dialect_name(dialect), max_parts > 2 ? "database.schema.table, " : "",
                 s->table);
}

/* The key that names a column. */
static const char *column_key(size_t column)
{
    const struct df_config_key *k = relay_keys;

    while (k->offset != offsetof(S, columns) + column * sizeof(const char *))
        k++;
    return k->key;
}

/* An optional column with an empty name is not used. */
static void check_columns(const struct df_relay_settings *s, struct df_buf *complaints)
{
    for (size_t i = 0; i < DF_RELAY_COLUMNS; i++) {
        struct df_str name = df_str_c(s->columns[i]);
        if (!is_identifier(name) && (name.len > 0 || i < DF_RELAY_REQUIRED))
            complain(s, complaints, "%s: " NAME_RULE, column_key(i), NAME_MAX_BYTES);
        for (size_t j = 0; j < i && name.len > 0; j++) {
            if ((written[i] || written[j]) && df_str_ieq(name, df_str_c(s->columns[j])))
                complain(s, complaints, "%s and %s are the same column", column_key(j),
                         column_key(i));
        }
    }
    if (s->order == DF_RELAY_ORDER_AGGREGATE && !*s->columns[DF_RELAY_AGGREGATE_ID])
        complain(s, complaints, "order: aggregate needs column_aggregate_id");
}

/* Many collations do not tell "Failed" from "FAILED", so neither do we. */
static void check_states(const struct df_relay_settings *s, struct df_buf *complaints)
{
    const struct {
        const char *key;
        struct df_str value;
    } states[] = {{"state_pending", df_str_c(s->state_pending)},
                  {"state_processed", df_str_c(s->state_processed)},
                  {"state_failed", df_str_c(s->state_failed)}};

    for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
        if (states[i].value.len == 0 || df_utf8_count(states[i].value) > STATE_MAX_CHARS)
            complain(s, complaints, "%s: a state has 1 to %d characters", states[i].key,
                     STATE_MAX_CHARS);
        for (size_t j = 0; j < i; j++) {
            if (df_str_ieq(states[i].value, states[j].value))
                complain(s, complaints, "%s and %s must differ", states[j].key, states[i].key);
        }
    }
}

static void check_source(const struct df_relay_settings *s, struct df_buf *complaints)
{
    struct df_err err = DF_ERR_INIT;
    enum df_dialect dialect;

    if (df_db_check_url(s->url, &err) != DF_OK || df_db_dialect_of(s->url, &dialect, &err)) {
        complain(s, complaints, "url: %s", err.detail);
        return;
    }
    check_table(s, dialect, complaints);
    if (!s->notify_channel)
        return;
    if (dialect != DF_POSTGRES)
        complain(s, complaints, "notify_channel: only PostgreSQL can notify, the url is of %s",
                 df_dialect_name(dialect));
    else if (!is_identifier(df_str_c(s->notify_channel)))
        complain(s, complaints, "notify_channel: control characters are not allowed");
}

void df_relay_sink_options(const struct df_relay_settings *s, struct df_sink_options *ret)
{
    *ret = (struct df_sink_options){
        .relay = s->name,
        .source = s->source,
        .target = s->target,
        .secret = s->secret,
        .mode = s->mode,
        .timeout_ms = s->timeout_ms,
        .exchange = s->exchange,
        .routing_key = s->routing_key,
        .topic = s->topic,
        .properties = df_secret_str(s->properties).ptr,
    };
}

static void check_dispatcher(const struct df_relay_settings *s, struct df_buf *complaints)
{
    const struct df_dispatcher *d = df_dispatchers[s->dispatcher];
    struct df_err err = DF_ERR_INIT;
    struct df_sink_options opt;

    df_relay_sink_options(s, &opt);
    if (!d)
        complain(s, complaints, "dispatcher: %s is not built in",
                 df_dispatcher_names[s->dispatcher]);
    else if (d->check(&opt, &err) != DF_OK)
        complain(s, complaints, "%s", err.detail);
}

/* Whoever took the rows of that table would keep workers from hearing of batches. */
static void check_reserved(const struct df_relay_settings *s, struct df_buf *complaints)
{
    const char *dot = strrchr(s->table, '.');

    if (df_str_ieq(df_str_c(s->name), DF_STR(DF_RELAY_READY)))
        complain(s, complaints, "the name is that of a relay of the server's own");
    if (df_str_ieq(df_str_c(dot ? dot + 1 : s->table), DF_STR(DF_RELAY_READY_TABLE)))
        complain(s, complaints, "table: %s is for imports.queue alone", s->table);
}

void df_relay_check_settings(const struct df_relay_settings *s, struct df_buf *complaints)
{
    check_reserved(s, complaints);
    check_source(s, complaints);
    check_columns(s, complaints);
    check_states(s, complaints);
    if (s->retry_base_ms > s->retry_cap_ms)
        complain(s, complaints, "retry_base_ms is greater than retry_cap_ms");
    check_dispatcher(s, complaints);
}

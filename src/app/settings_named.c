#include "app/settings_named.h"

#include "base/mem.h"
#include "net/router.h"

#include <stdio.h>
#include <stdlib.h>

static const char *const order_names[] = {
    [DF_RELAY_ORDER_NONE] = "none", [DF_RELAY_ORDER_AGGREGATE] = "aggregate", NULL};
static const char *const http_mode_names[] = {[DF_HTTP_BINARY] = "binary",
                                              [DF_HTTP_STRUCTURED] = "structured",
                                              [DF_HTTP_BATCH] = "batch",
                                              NULL};
static const char *const method_names[] = {
    [DF_GET] = "GET",         [DF_HEAD] = "HEAD",      [DF_POST] = "POST",
    [DF_PUT] = "PUT",         [DF_PATCH] = "PATCH",    [DF_DELETE] = "DELETE",
    [DF_OPTIONS] = "OPTIONS", [DF_METHOD_OTHER] = NULL};

#define HOUR 3600000LL

/* --- [relay.NAME] --- */

#define RELAY(name, type, def, lo, hi, list, help)                                                 \
    {                                                                                              \
        "relay", #name, type, offsetof(struct df_relay_settings, name), def, lo, hi, list, help    \
    }
#define RELAY_COLUMN(name, purpose, help)                                                          \
    {                                                                                              \
        "relay", "column_" #name, DF_CFG_STRING,                                                   \
            offsetof(struct df_relay_settings, columns[purpose]), #name, 0, 0, NULL, help          \
    }

/* clang-format off */
static const struct df_config_key relay_keys[] = {
    RELAY(url, DF_CFG_URL, NULL, 0, 0, NULL, "Database of the table: postgres://…, sqlserver://… or sqlite:PATH; default: that of [database]."),
    RELAY(table, DF_CFG_STRING, "outbox_events", 0, 0, NULL, "The table; schema.table, and on SQL Server database.schema.table, are understood."),
    RELAY_COLUMN(id, DF_RELAY_ID, "The event's id."),
    RELAY_COLUMN(event_type, DF_RELAY_EVENT_TYPE, "Its type."),
    RELAY_COLUMN(payload, DF_RELAY_PAYLOAD, "Its content."),
    RELAY_COLUMN(status, DF_RELAY_STATUS, "Its state; written."),
    RELAY_COLUMN(attempts, DF_RELAY_ATTEMPTS, "Failed attempts; written."),
    RELAY_COLUMN(created_at, DF_RELAY_CREATED_AT, "When it happened; the order of dispatch."),
    RELAY_COLUMN(aggregate_type, DF_RELAY_AGGREGATE_TYPE, "What it happened to: the kind. This and those below are used if they are there; empty: never."),
    RELAY_COLUMN(aggregate_id, DF_RELAY_AGGREGATE_ID, "And which; needed for order = aggregate."),
    RELAY_COLUMN(next_attempt_at, DF_RELAY_NEXT_ATTEMPT_AT, "Not before this time; written. Without it retries are timed in memory."),
    RELAY_COLUMN(processed_at, DF_RELAY_PROCESSED_AT, "When it was dispatched; written."),
    RELAY_COLUMN(last_error, DF_RELAY_LAST_ERROR, "Why the last attempt failed; written."),
    RELAY_COLUMN(correlation_id, DF_RELAY_CORRELATION_ID, "Passed on and logged."),
    RELAY_COLUMN(trace_id, DF_RELAY_TRACE_ID, "Of W3C's traceparent."),
    RELAY_COLUMN(span_id, DF_RELAY_SPAN_ID, "Likewise."),
    RELAY(state_pending, DF_CFG_STRING, "PENDING", 0, 0, NULL, "State of what is to be dispatched."),
    RELAY(state_processed, DF_CFG_STRING, "PROCESSED", 0, 0, NULL, "State of what was."),
    RELAY(state_failed, DF_CFG_STRING, "FAILED", 0, 0, NULL, "State of what is given up."),
    RELAY(poll_ms, DF_CFG_INT, "200", 10, 60000, NULL, "How often the table is looked at when nothing wakes the relay."),
    RELAY(batch, DF_CFG_INT, "200", 1, 10000, NULL, "Most events in one transaction."),
    RELAY(max_payload_bytes, DF_CFG_INT, "16777216", 1024, INT64_C(1) << 30, NULL, "Longest payload that is sent; an event with a longer one is given up, unread."),
    RELAY(max_retries, DF_CFG_INT, "5", 0, 1000, NULL, "Retries before an event is given up."),
    RELAY(retry_base_ms, DF_CFG_INT, "1000", 1, HOUR, NULL, "First backoff; doubles with each attempt, full jitter."),
    RELAY(retry_cap_ms, DF_CFG_INT, "300000", 1, 24 * HOUR, NULL, "Longest backoff."),
    RELAY(workers, DF_CFG_INT, "0", 0, 64, NULL, "Batches side by side; 0: what suits the database."),
    RELAY(timeout_ms, DF_CFG_INT, "30000", 1, HOUR, NULL, "Longest time for one event, from hand-over to confirmation."),
    RELAY(order, DF_CFG_ENUM, "none", 0, 0, order_names, "aggregate: events of one aggregate one after the other, across all relays of the table."),
    RELAY(dispatcher, DF_CFG_ENUM, "log", 0, 0, df_dispatcher_names, "Where events go."),
    RELAY(target, DF_CFG_URL, NULL, 0, 0, NULL, "http: URL, with {eventType}, {aggregateType}, {aggregateId} in its path; rabbitmq: amqp(s)://user:password@host/vhost; kafka: kafka://host:port,host:port/topic."),
    RELAY(mode, DF_CFG_ENUM, "binary", 0, 0, http_mode_names, "http: how CloudEvents are written; batch: many in one call."),
    RELAY(secret, DF_CFG_SECRET, NULL, 0, 0, NULL, "http: calls are signed with it, as webhooks are."),
    RELAY(source, DF_CFG_STRING, NULL, 0, 0, NULL, "The CloudEvents' source; default: /dataflow/relay/NAME."),
    RELAY(exchange, DF_CFG_STRING, "", 0, 0, NULL, "rabbitmq: the exchange; empty: the default one."),
    RELAY(routing_key, DF_CFG_STRING, "{eventType}", 0, 0, NULL, "rabbitmq: may hold {eventType}, {aggregateType}, {aggregateId}."),
    RELAY(topic, DF_CFG_STRING, NULL, 0, 0, NULL, "kafka: the same may stand in it; default: the target's path, else {eventType}."),
    RELAY(properties, DF_CFG_SECRET, NULL, 0, 0, NULL, "kafka: further settings of librdkafka, name=value;name=value."),
    RELAY(notify_channel, DF_CFG_STRING, NULL, 0, 63, NULL, "PostgreSQL: channel that `dataflow relay install-trigger` makes every insert notify."),
};

/* --- [integration.NAME] --- */

#define CALL(name, type, def, lo, hi, list, help)                                                  \
    {                                                                                              \
        "integration", #name, type, offsetof(struct df_integration_settings, name), def, lo, hi,   \
            list, help                                                                             \
    }
#define OF_BREAKER " Default: that of [breaker]."

static const struct df_config_key integration_keys[] = {
    CALL(base_url, DF_CFG_STRING, NULL, 0, 0, NULL, "Needed: where calls go; what follows the name in /integrations/NAME/… is appended."),
    CALL(methods, DF_CFG_FLAGS, "all", 0, 0, method_names, "Methods that are passed on."),
    CALL(timeout_ms, DF_CFG_INT, "30000", 1, HOUR, NULL, "Longest time for one attempt."),
    CALL(retry_max_attempts, DF_CFG_INT, "3", 1, 20, NULL, "Attempts in all, of what is safe to repeat."),
    CALL(retry_wait_ms, DF_CFG_INT, "2000", 0, 60000, NULL, "Wait between attempts."),
    CALL(window, DF_CFG_INT, NULL, 1, 10000, NULL, "Calls in the breaker's window." OF_BREAKER),
    CALL(min_calls, DF_CFG_INT, NULL, 1, 10000, NULL, "Calls before the rate counts." OF_BREAKER),
    CALL(failure_rate, DF_CFG_INT, NULL, 1, 100, NULL, "Per cent of failures that opens the breaker." OF_BREAKER),
    CALL(slow_call_ms, DF_CFG_INT, NULL, 0, HOUR, NULL, "A call slower than this is slow; when all in the window are, the breaker opens. 0: off." OF_BREAKER),
    CALL(open_ms, DF_CFG_INT, NULL, 1, 24 * HOUR, NULL, "How long the breaker stays open." OF_BREAKER),
    CALL(half_open_calls, DF_CFG_INT, NULL, 1, 1000, NULL, "Probes while half open." OF_BREAKER),
    CALL(unavailable_code, DF_CFG_STRING, NULL, 0, 0, NULL, "The problem's code when the other side is not there; default: PaymentServiceUnavailable for payment, CreditCheckServiceUnavailable for credit-check."),
    CALL(api_key, DF_CFG_SECRET, NULL, 0, 0, NULL, "Put on every call."),
    CALL(api_key_header, DF_CFG_STRING, "X-Api-Key", 0, 0, NULL, "Header that carries the key."),
    CALL(forward_headers, DF_CFG_STRING,
         "Accept, Accept-Language, Content-Type, Content-Language, Idempotency-Key, If-Match, If-None-Match, "
         "If-Modified-Since, If-Unmodified-Since, Prefer, Range, User-Agent",
         0, 0, NULL, "Headers of the request that are passed on."),
    CALL(set_headers, DF_CFG_SECRET, NULL, 0, 0, NULL, "Headers put on every call, Name: value; Name: value."),
    CALL(return_headers, DF_CFG_STRING,
         "Content-Type, Content-Language, Content-Location, Content-Disposition, Cache-Control, ETag, Last-Modified, "
         "Link, Location, Retry-After, Vary, WWW-Authenticate, Accept-Ranges, Content-Range, Allow",
         0, 0, NULL, "Headers of the answer that are passed back."),
};
/* clang-format on */

#define GROUP(title, list, type, items, number)                                                    \
    .prefix = (title), .keys = (list), .count = sizeof(list) / sizeof((list)[0]),                  \
    .size = sizeof(type), .name_offset = offsetof(type, name),                                     \
    .items_offset = offsetof(struct df_settings, items),                                           \
    .count_offset = offsetof(struct df_settings, number)

const struct df_config_group df_settings_groups[DF_SETTINGS_GROUPS] = {
    {
        GROUP("relay", relay_keys, struct df_relay_settings, relays, relay_count),
        .help = "Brings the events of an application's outbox table to where they belong.",
        .example = "[relay.orders]\n"
                   "url = postgres://relay@db.internal/shop\n"
                   "table = sales.outbox_events\n"
                   "order = aggregate\n"
                   "dispatcher = http\n"
                   "target = https://events.example.com/{eventType}\n"
                   "notify_channel = outbox_events\n",
    },
    {
        GROUP("integration", integration_keys, struct df_integration_settings, integrations,
              integration_count),
        .help = "Calls to another system, /integrations/NAME/…, with retry and circuit breaker.",
        .example = "[integration.payment]\n"
                   "base_url = http://127.0.0.1:8090/payments\n"
                   "timeout_ms = 5000\n"
                   "retry_max_attempts = 3\n"
                   "retry_wait_ms = 500\n",
    },
};

/* --- what is not given --- */

static void fill_relay(const struct df_settings *s, struct df_relay_settings *r)
{
    df_settings_drop_empty(&r->url);
    df_settings_drop_empty(&r->target);
    df_settings_drop_empty(&r->source);
    df_settings_drop_empty(&r->topic);
    df_settings_drop_empty(&r->notify_channel);
    if (!r->url)
        r->url = df_strdup(df_str_c(s->database.url));
    if (!r->source && asprintf(&r->source, "/dataflow/relay/%s", r->name) < 0)
        df_oom();
}

static void fill_number(int64_t *number, int64_t otherwise)
{
    if (*number == DF_CFG_INT_UNSET)
        *number = otherwise;
}

/* credit-check: CreditCheckServiceUnavailable. A code begins with a capital, a name may not. */
static char *unavailable_code(const char *name)
{
    struct df_buf code;
    bool capital = true;

    df_buf_init(&code, 256);
    if (*name >= '0' && *name <= '9')
        df_buf_addz(&code, "Integration");
    for (const char *c = name; *c; c++) {
        bool between = *c == '-' || *c == '_';
        if (!between)
            df_buf_addc(&code, capital && *c >= 'a' && *c <= 'z' ? (char)(*c - 'a' + 'A') : *c);
        capital = between;
    }
    df_buf_addz(&code, "ServiceUnavailable");
    return df_buf_take(&code, NULL);
}

static void fill_integration(const struct df_settings *s, struct df_integration_settings *i)
{
    fill_number(&i->window, s->breaker.window);
    fill_number(&i->min_calls, s->breaker.min_calls);
    fill_number(&i->failure_rate, s->breaker.failure_rate);
    fill_number(&i->slow_call_ms, s->breaker.slow_call_ms);
    fill_number(&i->open_ms, s->breaker.open_ms);
    fill_number(&i->half_open_calls, s->breaker.half_open_calls);
    df_settings_drop_empty(&i->unavailable_code);
    if (!i->unavailable_code)
        i->unavailable_code = unavailable_code(i->name);
}

void df_settings_fill_named(struct df_settings *s)
{
    for (size_t i = 0; i < s->relay_count; i++)
        fill_relay(s, &s->relays[i]);
    for (size_t i = 0; i < s->integration_count; i++)
        fill_integration(s, &s->integrations[i]);
}

void df_settings_add_integration(struct df_settings *s, const char *name, const char *base_url)
{
    /* Of the groups only the second. */
    const struct df_config_table table = {.groups = &df_settings_groups[1], .group_count = 1};
    struct df_settings one = {.breaker = s->breaker};
    struct df_buf complaints;
    char *set = NULL;

    df_buf_init(&complaints, 4096);
    if (asprintf(&set, "integration.%s.base_url=%s", name, base_url) < 0)
        df_oom();
    const struct df_config_sources src = {.sets = (const char *const[]){set}, .set_count = 1};
    if (df_config_load(&table, &src, &one, &complaints) != DF_OK)
        abort(); /* the name and the URL are the program's own */
    df_settings_fill_named(&one);
    s->integrations =
        df_realloc(s->integrations, (s->integration_count + 1) * sizeof(*s->integrations));
    s->integrations[s->integration_count++] = one.integrations[0];
    free(one.integrations);
    free(set);
    df_buf_release(&complaints);
}

/* --- what is wrong --- */

void df_settings_check_named(const struct df_settings *s, struct df_buf *complaints)
{
    for (size_t i = 0; i < s->relay_count; i++)
        df_relay_check_settings(&s->relays[i], complaints);
    for (size_t i = 0; i < s->integration_count; i++) {
        const struct df_integration_settings *set = &s->integrations[i];
        if (!set->methods)
            df_buf_addf(complaints, "[integration.%s] methods: name at least one\n", set->name);
        df_integration_check_settings(set, complaints);
    }
}

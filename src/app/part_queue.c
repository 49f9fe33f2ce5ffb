/*
 * The parts for the queue that tells workers of batches. `announce` sends the rows that this
 * process writes to batch_ready_outbox; `consume` takes the messages, in processes that work on
 * batches, and has an idle worker look.
 */
#include "app/app.h"
#include "app/queue.h"
#include "base/uuid.h"
#include "relay/consumer.h"
#include "relay/relay.h"

#define ROLES     (DF_ROLE_API | DF_ROLE_IMPORT | DF_ROLE_MAINTAIN)
#define SEND_MS   5000
#define BATCH     100
#define RETRY_MS  500
#define RETRY_MAX 10000
#define TRIES     1000 /* a hint is never given up; after an hour it is removed */
#define FLUSH_MS  2000

/* A process sends what it writes as soon as it is committed. What one that died has left is sent by
 * those that maintain; on SQLite, by the one process that may. */
#define LEFT_MS        5000
#define LEFT_SQLITE_MS 1000
#define SELDOM_MS      (10 * DF_MINUTES)

/* --- settings --- */

static int dispatcher_of(const struct df_settings *s)
{
    const struct df_dispatcher *wanted =
        s->imports.queue == DF_QUEUE_KAFKA ? &df_dispatch_kafka : &df_dispatch_rabbitmq;
    int i = 0;

    while (df_dispatchers[i] != wanted)
        i++;
    return i;
}

static int64_t poll_ms_of(const struct df_settings *s)
{
    enum df_dialect dialect = DF_SQLITE;

    if (df_db_dialect_of(s->store.url, &dialect, NULL) != DF_OK || dialect == DF_SQLITE)
        return LEFT_SQLITE_MS;
    return s->roles & DF_ROLE_MAINTAIN ? LEFT_MS : SELDOM_MS;
}

bool df_queue_relay(const struct df_settings *s, struct df_relay_settings *ret)
{
    if (s->imports.queue == DF_QUEUE_POLL || !s->imports.queue_url)
        return false;
    *ret = (struct df_relay_settings){
        .name = DF_RELAY_READY,
        .url = s->store.url,
        .table = DF_RELAY_READY_TABLE,
        .columns = {[DF_RELAY_ID] = "id",
                    [DF_RELAY_EVENT_TYPE] = "event_type",
                    [DF_RELAY_PAYLOAD] = "aggregate_id",
                    [DF_RELAY_STATUS] = "status",
                    [DF_RELAY_ATTEMPTS] = "attempts",
                    [DF_RELAY_CREATED_AT] = "created_at",
                    [DF_RELAY_AGGREGATE_TYPE] = "",
                    [DF_RELAY_AGGREGATE_ID] = "aggregate_id",
                    [DF_RELAY_NEXT_ATTEMPT_AT] = "next_attempt_at",
                    [DF_RELAY_PROCESSED_AT] = "processed_at",
                    [DF_RELAY_LAST_ERROR] = "last_error",
                    [DF_RELAY_CORRELATION_ID] = "",
                    [DF_RELAY_TRACE_ID] = "",
                    [DF_RELAY_SPAN_ID] = "",
                    [DF_RELAY_TRACE_FLAGS] = ""},
        .state_pending = "PENDING",
        .state_processed = "PROCESSED",
        .state_failed = "FAILED",
        .poll_ms = poll_ms_of(s),
        .batch = BATCH,
        .max_payload_bytes = DF_CONSUMER_BODY_MAX,
        .max_retries = TRIES,
        .retry_base_ms = RETRY_MS,
        .retry_cap_ms = RETRY_MAX,
        .workers = 1,
        .timeout_ms = SEND_MS,
        .dispatcher = dispatcher_of(s),
        .target = s->imports.queue_url,
        .source = "/dataflow/" DF_RELAY_READY,
        .exchange = "",
        .routing_key = s->imports.queue_name,
        .topic = s->imports.queue_name,
        .properties = s->imports.queue_properties,
    };
    return true;
}

/* The names that both brokers take, with room for ".dead". */
static bool is_queue_name(struct df_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        bool alnum = (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
        if (!alnum && c != '.' && c != '-' && c != '_')
            return false;
    }
    return s.len > 0 && s.len <= 200;
}

void df_queue_check(const struct df_settings *s, struct df_buf *complaints)
{
    struct df_relay_settings relay;
    struct df_sink_options sink;
    struct df_err err = DF_ERR_INIT;

    if (!df_queue_relay(s, &relay))
        return;
    if (!is_queue_name(df_str_c(s->imports.queue_name))) {
        df_buf_addz(complaints,
                    "[imports] queue_name: 1 to 200 letters, digits, '.', '-' and '_'\n");
        return;
    }
    df_relay_sink_options(&relay, &sink);
    if (df_dispatchers[relay.dispatcher]->check(&sink, &err) != DF_OK)
        df_buf_addf(complaints, "[imports] queue_url: %s\n", err.detail);
}

/* --- what the imports call --- */

static void announced(void *arg)
{
    df_relay_wake(((struct df_app *)arg)->ready);
}

static bool is_connected(void *arg)
{
    return df_consumer_is_connected(((struct df_app *)arg)->consumer);
}

static void idle_changed(void *arg)
{
    df_consumer_wake(((struct df_app *)arg)->consumer);
}

struct df_imports_queue df_queue_of(struct df_app *app)
{
    if (!app->ready)
        return (struct df_imports_queue){0};
    return (struct df_imports_queue){announced, is_connected, idle_changed, app};
}

/* --- what the consumer calls --- */

static bool wants_message(void *arg)
{
    return df_imports_is_idle(((struct df_app *)arg)->imports);
}

static enum df_taken take_message(void *arg, struct df_str body)
{
    struct df_uuid batch;

    if (!df_uuid_parse(body, &batch))
        return DF_TAKEN_NEVER;
    return df_imports_try(((struct df_app *)arg)->imports) ? DF_TAKEN : DF_TAKEN_LATER;
}

/* What was announced while nobody listened is found by a look. */
static void queue_changed(void *arg)
{
    df_imports_wake(((struct df_app *)arg)->imports);
}

/* --- sending --- */

static enum df_code start_announce(struct df_app *app, struct df_err *err)
{
    (void)err;
    if (!df_queue_relay(app->settings, &app->ready_relay))
        return DF_OK;
    app->ready = df_relay_start(&(struct df_relay_options){.settings = &app->ready_relay,
                                                           .outbound = &app->outbound,
                                                           .clock = app->access.clock,
                                                           .give_up_ms = INT64_MAX});
    if ((app->settings->roles & DF_ROLE_IMPORT) && app->settings->imports.url)
        app->consumer = df_consumer_new(&(struct df_consumer_options){
            .settings = &app->ready_relay,
            .clock = app->access.clock,
            .wants = wants_message,
            .take = take_message,
            .changed = queue_changed,
            .arg = app,
        });
    return DF_OK;
}

/* Batches that the workers gave back just now are to be taken up by others at once. */
static void stop_announce(struct df_app *app, int64_t deadline_ms)
{
    int64_t left_ms = df_parts_left_ms(deadline_ms);

    df_relay_flush(app->ready, left_ms < FLUSH_MS ? left_ms : FLUSH_MS);
    df_relay_stop(app->ready, df_parts_left_ms(deadline_ms));
}

static void end_announce(struct df_app *app)
{
    df_relay_end(app->ready);
}

static void free_announce(struct df_app *app)
{
    df_consumer_free(app->consumer);
    df_relay_free(app->ready);
}

const struct df_part df_part_announce = {.roles = ROLES,
                                         .start = start_announce,
                                         .stop = stop_announce,
                                         .end = end_announce,
                                         .free = free_announce};

/* --- taking --- */

static enum df_code start_consume(struct df_app *app, struct df_err *err)
{
    (void)err;
    if (app->consumer)
        df_consumer_start(app->consumer);
    return DF_OK;
}

static void stop_consume(struct df_app *app, int64_t deadline_ms)
{
    (void)deadline_ms;
    df_consumer_stop(app->consumer);
}

static void end_consume(struct df_app *app)
{
    df_consumer_end(app->consumer);
}

const struct df_part df_part_consume = {
    .roles = DF_ROLE_IMPORT, .start = start_consume, .stop = stop_consume, .end = end_consume};

/* The simplest destination: an event is written to the log, without its payload. */
#include "base/log.h"
#include "base/mem.h"
#include "relay/dispatcher.h"

#include <stdlib.h>

struct df_sink {
    struct df_str relay;
};

static enum df_code check_log(const struct df_sink_options *opt, struct df_err *err)
{
    (void)opt;
    (void)err;
    return DF_OK;
}

static enum df_code open_sink(const struct df_sink_options *opt, struct df_sink **ret,
                              struct df_err *err)
{
    struct df_sink *s = df_calloc(1, sizeof(*s));

    (void)err;
    s->relay = df_str_c(opt->relay);
    *ret = s;
    return DF_OK;
}

static void write_line(const struct df_sink *s, const struct df_event *e, enum df_log_level level)
{
    const struct df_log_field fields[] = {
        DF_F("eventId", e->id),
        DF_F("eventType", e->type),
        DF_F("aggregateType", e->aggregate_type),
        DF_F("aggregateId", e->aggregate_id),
        DF_F("correlationId", e->correlation_id),
        DF_F("traceId", e->trace_id),
        DF_FI("attempt", e->attempt),
        DF_F("relay", s->relay),
        DF_FI("bytes", e->payload.len),
    };
    df_log_write(level, "OutboxEvent", fields, sizeof(fields) / sizeof(fields[0]), "%s", "");
}

static void dispatch_log(struct df_sink *s, struct df_event *const *events, size_t n,
                         struct df_arena *a)
{
    /* The log line is the delivery: log.level must not suppress it. */
    enum df_log_level level = df_log_enabled(DF_LOG_INFO)   ? DF_LOG_INFO
                              : df_log_enabled(DF_LOG_WARN) ? DF_LOG_WARN
                                                            : DF_LOG_ERROR;

    (void)a;
    for (size_t i = 0; i < n; i++) {
        struct df_event *e = events[i];
        df_event_settle(e, DF_DISPATCHED, 0, DF_STR_NULL);
        write_line(s, e, level);
    }
}

static void close_sink(struct df_sink *s)
{
    free(s);
}

const struct df_dispatcher df_dispatch_log = {
    .name = "log",
    .check = check_log,
    .open = open_sink,
    .dispatch = dispatch_log,
    .close = close_sink,
};

#include "relay/dispatcher.h"

#include "base/span.h"
#include "json/scan.h"

const struct df_dispatcher *const df_dispatchers[] = {
    &df_dispatch_log,
    &df_dispatch_http,
    &df_dispatch_rabbitmq,
    &df_dispatch_kafka,
};

const char *const df_dispatcher_names[] = {"log", "http", "rabbitmq", "kafka", NULL};

void df_event_settle(struct df_event *e, enum df_dispatch_outcome outcome, int64_t duration_ms,
                     struct df_str error)
{
    e->outcome = outcome;
    e->breaker = outcome == DF_DISPATCH_RETRY ? DF_BREAKER_FAILURE : DF_BREAKER_SUCCESS;
    e->never_counts = false;
    e->retry_after_ms = -1;
    e->duration_ms = duration_ms;
    e->error = error;
}

/* --- patterns --- */

enum part { PART_EVENT_TYPE, PART_AGGREGATE_TYPE, PART_AGGREGATE_ID, PART_COUNT };

static const struct df_str part_names[PART_COUNT] = {
    DF_STR_INIT("{eventType}"),
    DF_STR_INIT("{aggregateType}"),
    DF_STR_INIT("{aggregateId}"),
};

/* The name at the beginning of s; PART_COUNT: none. */
static enum part part_at(struct df_str s)
{
    enum part p = PART_EVENT_TYPE;
    while (p < PART_COUNT && !df_str_starts(s, part_names[p]))
        p++;
    return p;
}

static struct df_str part_of(const struct df_event *e, enum part p)
{
    switch (p) {
    case PART_EVENT_TYPE:
        return e->type;
    case PART_AGGREGATE_TYPE:
        return e->aggregate_type;
    case PART_AGGREGATE_ID:
        return e->aggregate_id;
    case PART_COUNT:
        break;
    }
    return DF_STR_NULL;
}

/* Returns the length of the expanded pattern; writes it to out unless that is NULL. */
static size_t expand_pattern(struct df_str pattern, const struct df_event *e, char *out)
{
    size_t len = 0;

    while (pattern.len > 0) {
        enum part p = part_at(pattern);
        struct df_str piece = p < PART_COUNT ? part_of(e, p) : df_str_n(pattern.ptr, 1);
        size_t taken = p < PART_COUNT ? part_names[p].len : 1;
        if (out && piece.len > 0)
            memcpy(out + len, piece.ptr, piece.len);
        len += piece.len;
        pattern = df_str_n(pattern.ptr + taken, pattern.len - taken);
    }
    return len;
}

struct df_str df_event_expand(struct df_arena *a, const char *pattern, const struct df_event *e)
{
    struct df_str s = df_str_c(pattern);
    size_t len = expand_pattern(s, e, NULL);
    char *out = df_arena_alloc(a, len + 1);

    (void)expand_pattern(s, e, out);
    out[len] = '\0';
    return df_str_n(out, len);
}

enum df_code df_event_check_pattern(const char *pattern, const char *key, struct df_err *err)
{
    struct df_str s = df_str_c(pattern);

    for (size_t i = 0; i < s.len; i++) {
        if (s.ptr[i] != '{' && s.ptr[i] != '}')
            continue;
        enum part p = part_at(df_str_n(s.ptr + i, s.len - i));
        if (p == PART_COUNT)
            return df_err_set(err, DF_E_CONFIG,
                              "%s: braces enclose {eventType}, {aggregateType} or {aggregateId}, "
                              "nothing else",
                              key);
        i += part_names[p].len - 1;
    }
    return DF_OK;
}

/* --- attributes --- */

bool df_event_is_json(const struct df_event *e)
{
    return e->payload.len > 0 && df_json_check(e->payload, 0, DF_JSON_DEPTH_MAX, NULL) == DF_OK;
}

bool df_event_trace(const struct df_event *e, struct df_trace *ret)
{
    if (e->span) {
        *ret = e->span->trace;
        return true;
    }
    if (!df_trace_join(e->trace_id, e->span_id, ret))
        return false;
    if (e->trace_flags.len == 2)
        df_trace_set_sampled(ret, df_hex_digit(e->trace_flags.ptr[1]) & 1);
    else
        df_span_sample(ret);
    return true;
}

static struct df_str traceparent_of(const struct df_event *e, struct df_arena *a)
{
    struct df_trace t;

    return df_event_trace(e, &t) ? df_arena_str(a, df_trace_parent(&t)) : DF_STR_NULL;
}

static struct df_str time_of(const struct df_event *e, struct df_arena *a)
{
    char text[DF_TIME_LEN + 1];

    if (e->created_ms == -1)
        return DF_STR_NULL;
    df_time_format(e->created_ms, text);
    return df_arena_str(a, df_str_n(text, DF_TIME_LEN));
}

static struct df_str content_type(const struct df_event *e)
{
    if (!e->payload.ptr)
        return DF_STR_NULL;
    return df_event_is_json(e) ? DF_STR("application/json") : DF_STR("text/plain; charset=utf-8");
}

size_t df_event_attributes(const struct df_event *e, const char *source, struct df_arena *a,
                           struct df_event_attribute ret[DF_EVENT_ATTRIBUTES])
{
    const struct df_event_attribute all[] = {
        {"id", e->id},
        {"source", df_str_c(source)},
        {"specversion", DF_STR("1.0")},
        {"type", e->type.len > 0 ? e->type : DF_STR("unknown")}, /* must not be empty */
        {"time", time_of(e, a)},
        {"subject", e->aggregate_id},
        {"datacontenttype", content_type(e)},
        {"aggregatetype", e->aggregate_type},
        {"correlationid", e->correlation_id},
        {"traceparent", traceparent_of(e, a)},
    };
    _Static_assert(sizeof(all) / sizeof(all[0]) <= DF_EVENT_ATTRIBUTES, "room for all");
    size_t n = 0;

    /* CloudEvents does not allow empty attributes. */
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (all[i].value.len > 0)
            ret[n++] = all[i];
    return n;
}

/* What a section [relay.NAME] can be told to be wrong without a connection. */
#include "relay/relay.h"

#define NAME_MAX_BYTES  128 /* of a table, a column, a schema: what SQL Server takes */
#define STATE_MAX_CHARS 64

static const char *const column_keys[DF_RELAY_COLUMNS] = {
    [DF_RELAY_ID] = "column_id",
    [DF_RELAY_EVENT_TYPE] = "column_event_type",
    [DF_RELAY_PAYLOAD] = "column_payload",
    [DF_RELAY_STATUS] = "column_status",
    [DF_RELAY_ATTEMPTS] = "column_attempts",
    [DF_RELAY_CREATED_AT] = "column_created_at",
    [DF_RELAY_AGGREGATE_TYPE] = "column_aggregate_type",
    [DF_RELAY_AGGREGATE_ID] = "column_aggregate_id",
    [DF_RELAY_NEXT_ATTEMPT_AT] = "column_next_attempt_at",
    [DF_RELAY_PROCESSED_AT] = "column_processed_at",
    [DF_RELAY_LAST_ERROR] = "column_last_error",
    [DF_RELAY_CORRELATION_ID] = "column_correlation_id",
    [DF_RELAY_TRACE_ID] = "column_trace_id",
    [DF_RELAY_SPAN_ID] = "column_span_id",
};

/* What the relay writes: no other purpose may share the column. */
static const bool written[DF_RELAY_COLUMNS] = {
    [DF_RELAY_STATUS] = true,       [DF_RELAY_ATTEMPTS] = true,   [DF_RELAY_NEXT_ATTEMPT_AT] = true,
    [DF_RELAY_PROCESSED_AT] = true, [DF_RELAY_LAST_ERROR] = true,
};

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

/* It is quoted where it is used, so that any character will do but those that no name has. */
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

/* An optional column that is called nothing is not used. */
static void check_columns(const struct df_relay_settings *s, struct df_buf *complaints)
{
    for (size_t i = 0; i < DF_RELAY_COLUMNS; i++) {
        struct df_str name = df_str_c(s->columns[i]);
        if (!is_identifier(name) && (name.len > 0 || i < DF_RELAY_REQUIRED))
            complain(s, complaints, "%s: " NAME_RULE, column_keys[i], NAME_MAX_BYTES);
        for (size_t j = 0; j < i && name.len > 0; j++) {
            if ((written[i] || written[j]) && df_str_ieq(name, df_str_c(s->columns[j])))
                complain(s, complaints, "%s and %s are the same column", column_keys[j],
                         column_keys[i]);
        }
    }
    if (s->order == DF_RELAY_ORDER_AGGREGATE && !*s->columns[DF_RELAY_AGGREGATE_ID])
        complain(s, complaints, "order: aggregate needs column_aggregate_id");
}

/* Collations that do not tell "Failed" from "FAILED" are common: neither do we. */
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

void df_relay_check_settings(const struct df_relay_settings *s, struct df_buf *complaints)
{
    check_source(s, complaints);
    check_columns(s, complaints);
    check_states(s, complaints);
    if (s->retry_base_ms > s->retry_cap_ms)
        complain(s, complaints, "retry_base_ms is greater than retry_cap_ms");
    check_dispatcher(s, complaints);
}

/*
 * OpenTelemetry's protocol over HTTP, in its JSON form: POST /v1/logs.
 *
 * 64-bit integers are texts, enums are numbers, identifiers of traces and spans are hexadecimal, as
 * the protocol's mapping to JSON has them. Only 429, 502, 503 and 504 are sent again, as the
 * protocol demands; lines of other refusals are dropped and counted, after the piece was halved if
 * the status is about its content. Statuses that say that we may not speak to the collector at all
 * (401, 403, 404, 405, 407) say nothing about the lines, which wait for somebody to mend that.
 *
 * The protocol has nothing that makes a collector know a line again: after a crash lines may be
 * there twice.
 */
#include "ship/target.h"
#include "json/write.h"

#include <inttypes.h>
#include <stdio.h>

static const int severities[] = {5, 9, 13, 17};
static const char *const severity_names[] = {"DEBUG", "INFO", "WARN", "ERROR"};

static void put_text_attribute(struct df_json_out *out, struct df_str name, struct df_str text)
{
    df_json_open(out, '{');
    df_json_key(out, "key");
    df_json_text(out, name);
    df_json_key(out, "value");
    df_json_open(out, '{');
    df_json_kv_text(out, "stringValue", text);
    df_json_close(out, '}');
    df_json_close(out, '}');
}

static void put_resource(const struct df_ship_target *t, const struct df_ship_batch *b,
                         struct df_json_out *out)
{
    df_json_key(out, "resource");
    df_json_open(out, '{');
    df_json_key(out, "attributes");
    df_json_open(out, '[');
    put_text_attribute(out, DF_STR("service.name"), DF_STR(DF_SHIP_SERVICE));
    put_text_attribute(out, DF_STR("service.instance.id"), b->folder);
    put_text_attribute(out, DF_STR("host.name"), b->host);
    for (size_t i = 0; i < t->label_count; i++)
        put_text_attribute(out, t->labels[i].name, t->labels[i].value);
    df_json_close(out, ']');
    df_json_close(out, '}');
}

/* "dataflow." and the field's name, so that no convention's name gets another meaning. */
static void put_own_name(struct df_json_out *out, struct df_str name)
{
    char text[160];
    int len = snprintf(text, sizeof(text), DF_SHIP_SERVICE "." DF_STR_FMT,
                       (int)(name.len < 128 ? name.len : 128), name.ptr ? name.ptr : "");

    df_json_key(out, "key");
    df_json_text(out, df_str_n(text, (size_t)len));
}

static void put_field(void *arg, const struct df_ship_field *f)
{
    struct df_json_out *out = arg;
    int64_t integer;

    df_json_open(out, '{');
    put_own_name(out, f->name);
    df_json_key(out, "value");
    df_json_open(out, '{');
    if (f->type == DF_JSON_BOOL) {
        df_json_key(out, "boolValue");
        df_json_raw(out, f->text);
    } else if (f->type == DF_JSON_NUMBER && !df_str_to_i64(f->text, &integer)) {
        df_json_key(out, "doubleValue");
        df_json_raw(out, f->text);
    } else {
        df_json_kv_text(out, f->type == DF_JSON_NUMBER ? "intValue" : "stringValue", f->text);
    }
    df_json_close(out, '}');
    df_json_close(out, '}');
}

static void put_record(const struct df_spool_record *r, struct df_arena *a, struct df_json_out *out)
{
    struct df_ship_parts p;
    char time[24];
    struct df_str nanos =
        df_str_n(time, (size_t)snprintf(time, sizeof(time), "%" PRIu64, (uint64_t)r->time_ns));

    df_json_open(out, '{');
    df_json_kv_text(out, "timeUnixNano", nanos);
    df_json_kv_text(out, "observedTimeUnixNano", nanos);
    df_json_kv_int(out, "severityNumber", severities[r->level]);
    df_json_kv_text(out, "severityText", df_str_c(severity_names[r->level]));
    df_json_key(out, "attributes");
    df_json_open(out, '[');
    p = df_ship_take_apart(a, r->text, put_field, out);
    if (p.event.ptr)
        put_text_attribute(out, DF_STR("event.name"), p.event);
    if (p.ip.ptr)
        put_text_attribute(out, DF_STR("client.address"), p.ip);
    df_json_close(out, ']');
    df_json_key(out, "body");
    df_json_open(out, '{');
    df_json_kv_text(out, "stringValue", p.message.ptr ? p.message : DF_STR(""));
    df_json_close(out, '}');
    if (p.trace_id.ptr) {
        df_json_kv_text(out, "traceId", p.trace_id);
        if (p.span_id.ptr)
            df_json_kv_text(out, "spanId", p.span_id);
    }
    df_json_close(out, '}');
}

static void encode_logs(const struct df_ship_target *t, struct df_ship_batch *b,
                        const struct df_ship_piece *p, struct df_buf *to)
{
    const struct df_ship_line *line;
    struct df_json_out out;
    struct df_arena arena;

    df_arena_init(&arena);
    df_json_out_init(&out, to);
    df_json_open(&out, '{');
    df_json_key(&out, "resourceLogs");
    df_json_open(&out, '[');
    df_json_open(&out, '{');
    put_resource(t, b, &out);
    df_json_key(&out, "scopeLogs");
    df_json_open(&out, '[');
    df_json_open(&out, '{');
    df_json_key(&out, "scope");
    df_json_open(&out, '{');
    df_json_kv_text(&out, "name", DF_STR(DF_SHIP_SERVICE));
    df_json_kv_text(&out, "version", DF_STR(DF_VERSION));
    df_json_close(&out, '}');
    df_json_key(&out, "logRecords");
    df_json_open(&out, '[');
    for (size_t at = 0; (line = df_ship_next(b, p, &at));) {
        put_record(&line->record, &arena, &out);
        df_arena_reset(&arena);
    }
    df_json_close(&out, ']');
    df_json_close(&out, '}');
    df_json_close(&out, ']');
    df_json_close(&out, '}');
    df_json_close(&out, ']');
    df_json_close(&out, '}');
    df_arena_release(&arena);
}

/* --- the answer --- */

static struct df_out_judgement classify_logs(unsigned status)
{
    switch (status) {
    case 429:
    case 502:
    case 503:
    case 504:
    case 401:
    case 403:
    case 404:
    case 405:
    case 407:
        return (struct df_out_judgement){DF_OUT_AGAIN, DF_BREAKER_FAILURE};
    default:
        break;
    }
    return status >= 200 && status <= 299
               ? (struct df_out_judgement){DF_OUT_OK, DF_BREAKER_SUCCESS}
               : (struct df_out_judgement){DF_OUT_REFUSED, DF_BREAKER_FAILURE};
}

/* {"partialSuccess":{"rejectedLogRecords":"3"}}: how many, but not which. They are not sent again.
 */
static int64_t rejected_of(struct df_str answer)
{
    const struct df_json *doc;
    struct df_json partial, rejected;
    struct df_err ignored = DF_ERR_INIT;
    struct df_arena arena;
    int64_t count = 0;

    df_arena_init(&arena);
    if (df_json_parse(&arena, answer, &doc, &ignored) != DF_OK ||
        !df_json_find(doc, "partialSuccess", &partial) ||
        !df_json_find(&partial, "rejectedLogRecords", &rejected) ||
        !df_json_to_i64(&rejected, &count) || count < 0)
        count = 0;
    df_arena_release(&arena);
    return count;
}

static enum df_ship_answer settle_logs(struct df_ship_batch *b, const struct df_ship_piece *p,
                                       struct df_str answer)
{
    int64_t rejected = rejected_of(answer);
    struct df_ship_line *line;

    for (size_t at = 0; rejected > 0 && (line = df_ship_next(b, p, &at)); rejected--)
        line->state = DF_SHIP_REFUSED;
    df_ship_batch_taken(b);
    return DF_SHIP_ALL_SETTLED;
}

const struct df_ship_protocol df_ship_otlp = {
    .scheme = "otlp",
    .port = 4318,
    .path = "/v1/logs",
    .auth = "Bearer",
    .media_type = "application/json",
    .encode = encode_logs,
    .classify = classify_logs,
    .settle = settle_logs,
};

#include "telemetry/otlp.h"

#include "base/mem.h"
#include "net/url.h"
#include "json/doc.h"
#include "json/write.h"

#include <stdio.h>
#include <stdlib.h>

/* --- the request ------------------------------------------------------------------------------ */

/* 64-bit integers are texts in the JSON of protobuf. */
static void put_i64(struct df_json_out *j, const char *key, int64_t v)
{
    char digits[24];

    (void)snprintf(digits, sizeof(digits), "%lld", (long long)v);
    df_json_kv_text(j, key, df_str_c(digits));
}

static void put_attr(struct df_json_out *j, const struct df_span_attr *a)
{
    df_json_open(j, '{');
    df_json_kv_text(j, "key", df_str_c(a->key));
    df_json_key(j, "value");
    df_json_open(j, '{');
    switch (a->type) {
    case DF_SPAN_IS_TEXT:
        df_json_kv_text(j, "stringValue", a->text.ptr ? a->text : DF_STR(""));
        break;
    case DF_SPAN_IS_INT:
        put_i64(j, "intValue", a->number);
        break;
    case DF_SPAN_IS_BOOL:
        df_json_kv_bool(j, "boolValue", a->number != 0);
        break;
    }
    df_json_close(j, '}');
    df_json_close(j, '}');
}

static void put_text_attr(struct df_json_out *j, const char *key, struct df_str text)
{
    if (text.ptr)
        put_attr(j, &(struct df_span_attr){.key = key, .type = DF_SPAN_IS_TEXT, .text = text});
}

static void put_span(struct df_json_out *j, const struct df_span_record *s)
{
    df_json_open(j, '{');
    df_json_kv_text(j, "traceId", df_str_c(s->trace_id));
    df_json_kv_text(j, "spanId", df_str_c(s->span_id));
    if (s->parent_id[0])
        df_json_kv_text(j, "parentSpanId", df_str_c(s->parent_id));
    df_json_kv_int(j, "flags", 1); /* sampled: others are not recorded */
    df_json_kv_text(j, "name", s->name.ptr ? s->name : DF_STR(""));
    df_json_kv_int(j, "kind", (int64_t)s->kind);
    put_i64(j, "startTimeUnixNano", s->start_ns);
    put_i64(j, "endTimeUnixNano", s->end_ns);
    df_json_key(j, "attributes");
    df_json_open(j, '[');
    for (size_t i = 0; i < s->attr_count; i++)
        put_attr(j, &s->attrs[i]);
    df_json_close(j, ']');
    if (s->link_trace_id[0]) {
        df_json_key(j, "links");
        df_json_open(j, '[');
        df_json_open(j, '{');
        df_json_kv_text(j, "traceId", df_str_c(s->link_trace_id));
        df_json_kv_text(j, "spanId", df_str_c(s->link_span_id));
        df_json_close(j, '}');
        df_json_close(j, ']');
    }
    df_json_key(j, "status");
    df_json_open(j, '{');
    if (s->status != DF_SPAN_UNSET)
        df_json_kv_int(j, "code", (int64_t)s->status);
    if (s->message.len > 0)
        df_json_kv_text(j, "message", s->message);
    df_json_close(j, '}');
    df_json_close(j, '}');
}

size_t df_otlp_write(const struct df_otlp_resource *r, struct df_span_record *const *spans,
                     size_t count, struct df_buf *out)
{
    struct df_json_out j;
    size_t n = 0;

    df_buf_reset(out);
    df_json_out_init(&j, out);
    df_json_open(&j, '{');
    df_json_key(&j, "resourceSpans");
    df_json_open(&j, '[');
    df_json_open(&j, '{');
    df_json_key(&j, "resource");
    df_json_open(&j, '{');
    df_json_key(&j, "attributes");
    df_json_open(&j, '[');
    put_text_attr(&j, "service.name", r->service_name);
    put_text_attr(&j, "service.version", r->service_version);
    put_text_attr(&j, "service.instance.id", r->service_instance_id);
    put_text_attr(&j, "host.name", r->host_name);
    df_json_close(&j, ']');
    df_json_close(&j, '}');
    df_json_key(&j, "scopeSpans");
    df_json_open(&j, '[');
    df_json_open(&j, '{');
    df_json_key(&j, "scope");
    df_json_open(&j, '{');
    df_json_kv_text(&j, "name", DF_STR("dataflow"));
    df_json_kv_text(&j, "version", r->service_version);
    df_json_close(&j, '}');
    df_json_key(&j, "spans");
    df_json_open(&j, '[');
    while (n < count && n < DF_OTLP_BATCH_SPANS && (n == 0 || out->len < DF_OTLP_BATCH_BYTES))
        put_span(&j, spans[n++]);
    df_json_close(&j, ']');
    df_json_close(&j, '}');
    df_json_close(&j, ']');
    df_json_close(&j, '}');
    df_json_close(&j, ']');
    df_json_close(&j, '}');
    return n;
}

char *df_otlp_url(const char *endpoint)
{
    struct df_url u;
    char *url = NULL;

    bool bare = df_url_parse(df_str_c(endpoint), &u, NULL) == DF_OK &&
                (u.rest.len == 0 || df_str_eq(u.rest, DF_STR("/")));
    if (asprintf(&url, "%.*s%s", (int)(strlen(endpoint) - (bare ? u.rest.len : 0)), endpoint,
                 bare ? "/v1/traces" : "") < 0)
        df_oom();
    return url;
}

/* --- the answer ------------------------------------------------------------------------------- */

void df_otlp_read_answer(struct df_str body, struct df_otlp_answer *ret)
{
    const struct df_json *root = NULL;
    struct df_json partial, rejected, message;
    struct df_err err = DF_ERR_INIT;
    struct df_arena arena;

    *ret = (struct df_otlp_answer){0};
    df_arena_init(&arena);
    if (df_json_parse(&arena, body, &root, &err) == DF_OK &&
        df_json_find(root, "partialSuccess", &partial)) {
        if (df_json_find(&partial, "rejectedSpans", &rejected) &&
            (!df_json_to_i64(&rejected, &ret->rejected) || ret->rejected < 0))
            ret->rejected = 0;
        if (df_json_find(&partial, "errorMessage", &message) && message.type == DF_JSON_STRING) {
            struct df_str text = df_utf8_cut(message.text, (sizeof(ret->message) - 1) / 4);
            if (text.len > 0)
                memcpy(ret->message, text.ptr, text.len);
        }
    }
    df_arena_release(&arena);
}

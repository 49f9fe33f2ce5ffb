/*
 * Calls that are kept for later (?onUnavailable=enqueue): rows of IntegrationCalls, brought to the
 * other side by the delivery engine, under the same breaker as calls that somebody waits for.
 *
 * A row has what the request decided: method, path, the headers that were let pass, body, ids. What
 * the configuration adds (base_url, set_headers, the API key) is added when it is sent: a secret
 * does not get into the database, and a corrected setting serves the rows that wait.
 */
#include "access/services.h"
#include "base/uuid.h"
#include "integrations/calls.sql.h"
#include "integrations/integrations_private.h"
#include "json/doc.h"
#include "json/write.h"

#define HEADERS_MAX ((size_t)128 << 10)
#define CHANNEL     "integrations"

/* --- storing ---------------------------------------------------------------------------------- */

enum df_code integration_keep_check(const struct integration_call *c, struct df_err *err)
{
    for (size_t i = 0; i < c->forwarded_count; i++) {
        struct df_str value = c->headers[i].value;
        if (df_utf8_valid_prefix(value) != value.len)
            return df_err_set(err, DF_E_INVALID_TEXT,
                              "the header " DF_STR_FMT " is not valid UTF-8: the call could not be "
                              "kept for later",
                              DF_STR_ARG(c->headers[i].name));
    }
    if (c->key.len > INTEGRATION_KEY_MAX)
        return df_err_set(err, DF_E_BAD_REQUEST, "the Idempotency-Key is longer than %d bytes",
                          INTEGRATION_KEY_MAX);
    return DF_OK;
}

/* [["Name","value"],…]; the key has a column of its own. */
static struct df_str headers_json(const struct integration_call *c)
{
    struct df_buf b;
    struct df_json_out j;

    df_buf_init(&b, HEADERS_MAX);
    df_json_out_init(&j, &b);
    df_json_open(&j, '[');
    for (size_t i = 0; i < c->forwarded_count; i++) {
        if (df_str_ieq(c->headers[i].name, DF_STR("Idempotency-Key")))
            continue;
        df_json_open(&j, '[');
        df_json_text(&j, c->headers[i].name);
        df_json_text(&j, c->headers[i].value);
        df_json_close(&j, ']');
    }
    df_json_close(&j, ']');
    struct df_str text = df_arena_str(df_req_arena(c->req), df_buf_str(&b));
    df_buf_release(&b);
    return text;
}

static void answer_kept(struct integration_call *c)
{
    struct df_buf b;
    struct df_json_out j;

    df_buf_init(&b, 4096);
    df_json_out_init(&j, &b);
    df_json_open(&j, '{');
    df_json_kv_text(&j, "id", df_uuid_str(&c->id));
    df_json_kv_text(&j, "status", DF_STR("Pending"));
    df_json_kv_text(&j, "integration", c->to->name);
    df_json_kv_text(&j, "correlationId", df_req_correlation_id(c->req));
    df_json_close(&j, '}');
    df_req_answer(c->req, 202, "application/json", &b);
}

/* On the store's thread, in the request's log context. */
static void stored(struct df_job *job, enum df_code code, const struct df_err *err)
{
    struct integration_call *c = (struct integration_call *)job;

    if (code != DF_OK) {
        df_req_problem(c->req, err);
        integration_call_end(c, INTEGRATION_ERROR);
        return;
    }
    struct df_log_field fields[] = {DF_F("integration", c->to->name),
                                    DF_F("id", df_uuid_str(&c->id)), DF_FI("attempt", c->attempt)};
    df_log_write(DF_LOG_INFO, "IntegrationCallEnqueued", fields, 3,
                 "not available (" DF_STR_FMT "): kept for later", DF_STR_ARG(c->reason));
    df_delivery_wake(c->all->opt.delivery, &c->all->channel);
    answer_kept(c);
    integration_call_end(c, INTEGRATION_ENQUEUED);
}

void integration_keep(struct integration_call *c)
{
    const struct df_client *client = df_auth_client(c->req);

    c->id = df_uuid_v7(c->all->opt.clock);
    c->params = (struct df_p_integration_call_insert){
        .id = df_uuid(df_uuid_str(&c->id)),
        .client_id = df_uuid(df_uuid_str(&client->id)),
        .integration_name = df_text(c->to->name),
        .method = df_text(df_str_c(c->method)),
        .path = df_text(c->suffix),
        .headers_json = df_text(headers_json(c)),
        .body = df_blob(df_req_body(c->req)),
        .correlation_id = df_text(df_req_correlation_id(c->req)),
        .trace_id = df_text(df_req_trace_id(c->req)),
        .idempotency_key = df_text(c->key),
        .now = df_time(df_wall_ms(c->all->opt.clock)),
    };
    c->job = (struct df_job){.query = &df_q_integration_call_insert,
                             .params = (const struct df_value *)&c->params,
                             .done = stored,
                             .log = df_req_log(c->req)};
    if (!df_store_write(c->all->opt.store, &c->job))
        integration_call_refuse(c, "; it could not be kept for later either, the database is busy");
}

/* --- sending ---------------------------------------------------------------------------------- */

struct list {
    struct df_call_header *at;
    size_t count;
};

static void add(struct list *l, struct df_str name, struct df_str value)
{
    l->at[l->count++] = (struct df_call_header){.name = name, .value = value};
}

/* Those of the row, but for what the configuration sets by now; the client checks them again. */
static enum df_code add_stored(struct list *l, const struct integration *in,
                               const struct df_json *pairs, struct df_err *err)
{
    struct df_json_each each = df_json_each(pairs);

    for (const struct df_json *p; (p = df_json_next(&each));) {
        struct df_json_each pair = df_json_each(p);
        const struct df_json *first = df_json_next(&pair);
        struct df_json name = first ? *first : (struct df_json){0};
        const struct df_json *value = df_json_next(&pair);
        if (!value || name.type != DF_JSON_STRING || value->type != DF_JSON_STRING)
            return df_err_set(err, DF_E_MALFORMED_JSON, "HeadersJson is not a list of pairs");
        if (integration_rules_forward(&in->rules, name.text))
            add(l, name.text, value->text);
    }
    return DF_OK;
}

/* A span of its own in the trace of the request that the row came from. */
static void add_trace(struct list *l, const struct df_integrations *all, struct df_str trace_id,
                      struct df_arena *a)
{
    uint64_t span = 0;

    if (trace_id.len != 32)
        return;
    df_random(all->opt.clock, &span, sizeof(span));
    add(l, DF_STR("traceparent"),
        df_arena_printf(a, "00-" DF_STR_FMT "-%016llx-01", DF_STR_ARG(trace_id),
                        (unsigned long long)span | 1));
    add(l, DF_STR("x-trace-id"), trace_id);
}

static enum df_code build_headers(const struct df_integrations *all, const struct integration *in,
                                  struct df_str id, struct df_result *r, struct df_arena *a,
                                  struct df_delivery_request *ret, struct df_err *err)
{
    const struct df_json *pairs = NULL;
    struct df_str key = df_arena_str(a, df_col_text(r, integration_call_load_IdempotencyKey));
    enum df_code code = df_json_parse(
        a, df_arena_str(a, df_col_text(r, integration_call_load_HeadersJson)), &pairs, err);
    if (code != DF_OK)
        return code;

    struct list l = {.at = DF_ARENA_ARRAY(a, struct df_call_header,
                                          df_json_count(pairs) + in->rules.fixed_count + 4)};
    code = add_stored(&l, in, pairs, err);
    for (size_t i = 0; i < in->rules.fixed_count; i++)
        add(&l, in->rules.fixed[i].name, in->rules.fixed[i].value);
    add(&l, DF_STR("Idempotency-Key"),
        key.len > 0 ? key : df_arena_printf(a, CHANNEL ":" DF_STR_FMT, DF_STR_ARG(id)));
    if (ret->correlation_id.len > 0)
        add(&l, DF_STR("X-Correlation-Id"), ret->correlation_id);
    add_trace(&l, all, df_arena_str(a, df_col_text(r, integration_call_load_TraceId)), a);
    ret->header_list = l.at;
    ret->header_count = l.count;
    return code;
}

static void whose(const struct df_channel *ch, struct df_result *r, struct df_arena *a,
                  struct df_delivery_request *ret)
{
    const struct integration *in =
        integration_find(ch->arg, df_col_text(r, integration_call_load_IntegrationName));

    ret->tenant = df_arena_str(a, df_col_text(r, integration_call_load_ClientId));
    if (in)
        ret->breaker = in->breaker_key;
}

static enum df_code build(const struct df_channel *ch, struct df_str id, struct df_result *r,
                          struct df_arena *a, struct df_delivery_request *ret, struct df_err *err)
{
    const struct df_integrations *all = ch->arg;
    struct df_str name = df_col_text(r, integration_call_load_IntegrationName);
    const struct integration *in = integration_find(all, name);

    if (!in)
        return df_err_set(err, DF_E_CONFIG, "there is no [integration." DF_STR_FMT "] any more",
                          DF_STR_ARG(name));
    ret->method = df_arena_cstr(a, df_col_text(r, integration_call_load_Method));
    ret->correlation_id = df_arena_str(a, df_col_text(r, integration_call_load_CorrelationId));
    ret->private_too = true;
    struct df_str suffix = df_arena_str(a, df_col_text(r, integration_call_load_Path));
    enum df_code code = integration_url(a, in->set->base_url, suffix, &ret->url, err);
    if (code == DF_OK)
        code = build_headers(all, in, id, r, a, ret, err);
    if (code == DF_OK)
        ret->body = df_arena_str(a, df_col_blob(r, integration_call_load_Body));
    return code;
}

void integration_channel_init(struct df_integrations *all)
{
    all->channel = (struct df_channel){
        .name = CHANNEL,
        .id_type = DF_UUID,
        DF_CHANNEL_OUTBOX(integration_call),
        .payload_is_blob = true,
        .whose = whose,
        .build = build,
        .arg = all,
    };
}

/*
 * Calls that are kept for later (?onUnavailable=enqueue): rows of IntegrationCalls, which the
 * delivery engine sends under the same breaker as direct calls.
 *
 * A row has what came with the request: method, path, forwarded headers, body, ids. What the
 * configuration adds (base_url, set_headers, the API key) is added when the row is sent: no secret
 * gets into the database, and a corrected setting applies to rows that wait.
 */
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
        struct df_str value = c->headers.at[i].value;
        if (df_utf8_valid_prefix(value) != value.len)
            return df_err_set(err, DF_E_INVALID_TEXT,
                              "the header " DF_STR_FMT " is not valid UTF-8: the call could not be "
                              "kept for later",
                              DF_STR_ARG(c->headers.at[i].name));
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
        if (df_str_ieq(c->headers.at[i].name, DF_STR("Idempotency-Key")))
            continue;
        df_json_open(&j, '[');
        df_json_text(&j, c->headers.at[i].name);
        df_json_text(&j, c->headers.at[i].value);
        df_json_close(&j, ']');
    }
    df_json_close(&j, ']');
    struct df_str text = df_arena_str(df_req_arena(c->w.req), df_buf_str(&b));
    df_buf_release(&b);
    return text;
}

/* On the store's thread, in the request's log context. */
static void call_kept(struct df_work *w)
{
    struct integration_call *c = (struct integration_call *)w;
    struct df_log_field fields[] = {DF_F("integration", c->to->name),
                                    DF_F("id", df_uuid_str(&c->id)), DF_FI("attempt", c->attempt)};

    c->outcome = INTEGRATION_ENQUEUED;
    df_log_write(DF_LOG_INFO, "IntegrationCallEnqueued", fields, 3,
                 "not available (" DF_STR_FMT "): kept for later", DF_STR_ARG(c->reason));
    df_delivery_wake(c->all->opt.delivery, &c->all->channel);
    df_json_open(&w->json, '{');
    df_json_kv_text(&w->json, "id", df_uuid_str(&c->id));
    df_json_kv_text(&w->json, "status", DF_STR("Pending"));
    df_json_kv_text(&w->json, "integration", c->to->name);
    df_json_kv_text(&w->json, "correlationId", df_req_correlation_id(w->req));
    df_json_close(&w->json, '}');
}

static bool note_keep_failure(struct df_work *w, enum df_code code, const struct df_err *err)
{
    struct integration_call *c = (struct integration_call *)w;

    (void)err;
    if (code == DF_E_BUSY)
        integration_call_refuse(c, "; it could not be kept for later either, the database is busy");
    else if (code != DF_OK)
        c->outcome = INTEGRATION_ERROR;
    return false;
}

static enum df_code run_keep(struct df_db *db, struct df_work *w, struct df_err *err)
{
    const struct integration_call *c = (struct integration_call *)w;
    enum df_code code = df_db_exec(db, &df_q_integration_call_insert, DF_VALUES(&c->params),
                                   DF_WIDTH(integration_call_insert), NULL, err);

    return code == DF_OK ? df_subjects_write(db, "call", df_uuid_str(&c->id), c->people.at,
                                             c->people.count, true, err)
                         : code;
}

static const struct df_handler keep = {
    .size = sizeof(struct integration_call),
    .writes = true,
    .status = 202,
    .run = run_keep,
    .pass_on = note_keep_failure,
    .done = call_kept,
    .cleanup = integration_call_count,
};

/* Whom path, query, headers and body name. */
static void find_people(struct integration_call *c)
{
    df_subjects_begin(&c->people, c->w.access->keys, df_req_arena(c->w.req));
    df_subjects_add_call(&c->people, c->suffix, df_req_body(c->w.req));
    for (size_t i = 0; i < c->forwarded_count; i++)
        df_subjects_add_value(&c->people, c->headers.at[i].name, c->headers.at[i].value);
}

void integration_keep(struct integration_call *c)
{
    const struct df_client *client = df_auth_client(c->w.req);

    c->id = df_uuid_v7(c->all->opt.clock);
    c->params = (struct df_p_integration_call_insert){
        .id = df_uuid(df_uuid_str(&c->id)),
        .client_id = df_uuid(df_uuid_str(&client->id)),
        .integration_name = df_text(c->to->name),
        .method = df_text(df_str_c(c->method)),
        .path = df_text(c->suffix),
        .headers_json = df_text(headers_json(c)),
        .body = df_blob(df_req_body(c->w.req)),
        .correlation_id = df_text(df_req_correlation_id(c->w.req)),
        .trace_id = df_text(df_req_trace_id(c->w.req)),
        .idempotency_key = df_text(c->key),
        .now = df_time(df_wall_ms(c->all->opt.clock)),
        .trace_parent = df_text(df_trace_parent(df_req_trace(c->w.req))),
    };
    find_people(c);
    df_work_become(&c->w, &keep);
    if (c->people.count == 0) { /* written together with those of other calls */
        c->w.job.query = &df_q_integration_call_insert;
        c->w.job.params = (const struct df_value *)&c->params;
    }
    df_work_submit(&c->w);
}

/* --- sending ---------------------------------------------------------------------------------- */

/* Adds the row's headers, except those that the configuration sets by now; the client checks them
 * again. */
static enum df_code add_stored_headers(struct df_headers *h, const struct integration *in,
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
            df_headers_add(h, name.text, value->text);
    }
    return DF_OK;
}

static enum df_code build_kept_headers(const struct integration *in, struct df_str id,
                                       struct df_result *r, struct df_arena *a,
                                       struct df_delivery_request *ret, struct df_err *err)
{
    const struct df_json *pairs = NULL;
    struct df_str key = df_arena_str(a, df_col_text(r, integration_call_load_IdempotencyKey));
    struct df_str trace_id = df_arena_str(a, df_col_text(r, integration_call_load_TraceId));
    struct df_str headers = df_arena_str(a, df_col_text(r, integration_call_load_HeadersJson));
    enum df_code code = df_json_parse(a, headers, &pairs, err);
    if (code != DF_OK)
        return code;

    code = add_stored_headers(&ret->headers, in, pairs, err);
    for (size_t i = 0; i < in->rules.fixed_count; i++)
        df_headers_add(&ret->headers, in->rules.fixed[i].name, in->rules.fixed[i].value);
    ret->idempotency_key =
        key.len > 0 ? key : df_arena_printf(a, CHANNEL ":" DF_STR_FMT, DF_STR_ARG(id));
    if (ret->correlation_id.len > 0)
        ret->correlation_header = ret->correlation_id;
    if (trace_id.len > 0)
        ret->trace_id = trace_id;
    ret->trace_parent = df_arena_str(a, df_col_text(r, integration_call_load_TraceParent));
    return code;
}

static void whose_call(const struct df_channel *ch, struct df_result *r, struct df_arena *a,
                       struct df_delivery_request *ret)
{
    const struct integration *in =
        integration_find(ch->arg, df_col_text(r, integration_call_load_IntegrationName));

    ret->tenant = df_arena_str(a, df_col_text(r, integration_call_load_ClientId));
    if (in) {
        ret->breaker = in->breaker_key;
        ret->target = in->name;
    }
}

static enum df_code build_kept_call(const struct df_channel *ch, struct df_str id,
                                    struct df_result *r, struct df_arena *a,
                                    struct df_delivery_request *ret, struct df_err *err)
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
        code = build_kept_headers(in, id, r, a, ret, err);
    if (code == DF_OK)
        ret->body = df_arena_str(a, df_col_blob(r, integration_call_load_Body));
    return code;
}

/*
 * A kept call that is answered 401 or 404 is tried again like any other delivery. But its path was
 * chosen by a client, and the breaker is everybody's: the answer says nothing against the peer.
 */
static struct df_out_judgement classify_kept(unsigned status)
{
    struct df_out_judgement j = df_outbound_judge_status(status);

    if (df_outbound_judge_passed_on(status).breaker == DF_BREAKER_SUCCESS)
        j.breaker = DF_BREAKER_SUCCESS;
    return j;
}

void integration_channel_init(struct df_integrations *all)
{
    all->channel = (struct df_channel){
        .name = CHANNEL,
        .id_type = DF_UUID,
        DF_CHANNEL_OUTBOX(integration_call),
        .payload_is_blob = true,
        .whose = whose_call,
        .build = build_kept_call,
        .classify = classify_kept,
        .arg = all,
    };
}

/*
 * The gateway: POST /gateway/… accepts every document. A ticket (a body with "shipmentTicket", or a
 * body with a ticket's key that is posted to /gateway/tickets) also gets a callback to
 * {server}/api/tickets/callback. Its status is the configured one or the ticket's own
 * "sandboxCallback".
 */
#include "sandbox/internal.h"

#define CALLBACK_MAX ((size_t)64 << 10)

static const struct df_str accepted = {"{\"status\":\"Accepted\"}", 21};

struct ticket {
    struct df_str business_entity;
    struct df_str business_doc_id;
    struct df_str phase_code;
    struct df_str wanted; /* "sandboxCallback"; absent: as configured */
};

static struct df_str text_at(const struct df_json *object, const char *name)
{
    const struct df_json *v = object ? df_json_get(object, name) : NULL;
    if (!v || (v->type != DF_JSON_STRING && v->type != DF_JSON_NUMBER) || v->text.len > 200)
        return DF_STR_NULL;
    return v->text;
}

static struct df_str first_of(struct df_str a, struct df_str b)
{
    return a.ptr ? a : b;
}

/* Reads both shapes: the parts of the envelope if there is one, else the body itself. */
static void read_ticket(const struct df_json *body, struct ticket *t)
{
    const struct df_json *envelope = df_json_get(body, "shipmentTicket");
    const struct df_json *doc = envelope ? df_json_get(envelope, "functionalDocID") : body;
    const struct df_json *header = envelope ? df_json_get(envelope, "header") : body;
    const struct df_json *data = envelope ? df_json_get(envelope, "data") : body;

    t->business_entity = text_at(doc, "businessEntity");
    t->business_doc_id = text_at(doc, "businessDocId");
    t->phase_code = text_at(header, "phaseCode");
    t->wanted = first_of(text_at(data, "sandboxCallback"), text_at(envelope, "sandboxCallback"));
}

static bool is_ticket_path(struct df_str path)
{
    const struct df_str prefix = DF_STR("/gateway/tickets");
    return df_str_starts(path, prefix) && (path.len == prefix.len || path.ptr[prefix.len] == '/');
}

static struct df_str callback_status(const struct ticket *t, const struct df_sb_settings *s)
{
    static const char *const known[] = {"Success", "Error", "Warning"};
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (df_str_ieq(t->wanted, df_str_c(known[i])))
            return df_str_c(known[i]);
    return df_str_c(s->callback_status);
}

static struct df_sb_errand *make_callback(struct df_sandbox *s, const struct ticket *t)
{
    struct df_sb_settings settings = df_sb_config_settings(&s->config);
    struct df_str status = callback_status(t, &settings);
    bool good = df_str_eq(status, DF_STR("Success"));
    int64_t phase;
    struct df_buf body;
    struct df_json_out out;

    df_buf_init(&body, CALLBACK_MAX);
    df_json_out_init(&out, &body);
    df_json_open(&out, '{');
    df_json_kv_text(&out, "businessEntity", t->business_entity);
    df_json_kv_text(&out, "businessDocId", t->business_doc_id);
    if (df_str_to_i64(t->phase_code, &phase))
        df_json_kv_int(&out, "phaseCode", phase);
    else
        df_json_kv_text(&out, "phaseCode", t->phase_code);
    df_json_kv_text(&out, "status", status);
    df_json_kv_text(&out, "code", good ? DF_STR("0") : DF_STR("SANDBOX"));
    df_json_kv_text(&out, "message",
                    good ? DF_STR("Processed by the sandbox") : DF_STR("As the sandbox was told"));
    df_json_kv_time(&out, "processedAt", df_wall_ms(s->clock));
    df_json_close(&out, '}');
    return df_sb_errand_new(s, DF_SB_CALLBACK, "/api/tickets/callback", t->business_doc_id, &body,
                            settings.callback_delay_ms);
}

void df_sb_gateway(struct df_sandbox *s, struct df_req *req, struct df_sb_reply *reply)
{
    struct df_str raw = df_req_body(req);
    const struct df_str mark = DF_STR("\"shipmentTicket\"");
    bool by_path = is_ticket_path(df_req_path(req));

    reply->fixed = accepted;
    if (!by_path && (raw.len == 0 || !memmem(raw.ptr, raw.len, mark.ptr, mark.len)))
        return;

    struct ticket t = {0};
    struct df_err err = DF_ERR_INIT;
    const struct df_json *body;
    if (df_json_parse(df_req_arena(req), raw, &body, &err) != DF_OK || body->type != DF_JSON_OBJECT)
        return;
    read_ticket(body, &t);
    if (t.business_entity.len && t.business_doc_id.len && t.phase_code.len)
        reply->errand = make_callback(s, &t);
}

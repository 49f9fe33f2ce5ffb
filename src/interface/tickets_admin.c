/* GET /admin/tickets and /admin/tickets/{id}: tickets of all clients, for operators. */
#include "access/causes.h"
#include "access/export.h"
#include "access/handler.h"
#include "access/list.h"
#include "access/reveal.h"
#include "delivery/history.h"
#include "delivery/why.h"
#include "interface/interface.h"
#include "interface/shown.h"
#include "interface/tickets.sql.h"
#include "privacy/mask.h"

#include <stdio.h>

#define SENDINGS_SHOWN 20              /* acks and returns of a ticket, each */
#define ATTEMPTS_SHOWN 50              /* of each sending */
#define END_MS         253402300799000 /* of the year 9999 */

/* --- GET /admin/tickets --- */

struct listing {
    struct df_work w;     /* its arg is the interface */
    struct df_str client; /* its identifier; absent: any */
    struct df_str entity, doc, status, return_status, gateway_status;
    struct df_str error; /* a pattern for the last error */
    int64_t phase;       /* -1: any */
    int64_t since_ms, until_ms;
    struct df_str client_id; /* found */
};

/* Whether an index finds few rows: most tickets end up in the last state, and the newest of those
 * are found sooner in the order of the table. */
static bool is_rare(struct df_str status, const char *last)
{
    return status.ptr && !df_str_eq(status, df_str_c(last));
}

#define WAY(name) ((struct df_list_query){DF_LIST_KEYS(name##_keys), .rows = &df_q_tickets_rows})

/* The index that leaves the fewest rows to look at. */
static struct df_list_query way_of(const struct listing *l)
{
    if (l->doc.ptr)
        return WAY(doc_tickets);
    if (l->client.ptr)
        return WAY(client_tickets);
    if (is_rare(l->status, "Processed"))
        return WAY(status_tickets);
    if (is_rare(l->return_status, "Sent"))
        return WAY(return_tickets);
    if (is_rare(l->gateway_status, "Sent"))
        return WAY(gateway_tickets);
    return WAY(all_tickets);
}

/* What only operators see of a ticket. */
static void write_more(const struct df_result *r, struct df_json_out *out)
{
    bool processing_over = df_str_eq(df_col_text(r, ticket_Status), DF_STR("Error")) &&
                           df_col_null(r, ticket_NextAttemptAt);
    bool sending_over = df_str_eq(df_col_text(r, ticket_GatewaySendStatus), DF_STR("Error")) &&
                        df_col_null(r, ticket_GatewaySendNextAttemptAt);

    bool retries = (df_str_eq(df_col_text(r, ticket_Status), DF_STR("Error")) &&
                    !df_col_null(r, ticket_NextAttemptAt)) ||
                   (df_str_eq(df_col_text(r, ticket_GatewaySendStatus), DF_STR("Error")) &&
                    !df_col_null(r, ticket_GatewaySendNextAttemptAt));

    df_json_kv_text(out, "clientId", df_col_text(r, tickets_rows_ClientIdentifier));
    df_json_kv_int(out, "tryCount", df_col_int(r, tickets_rows_TryCount));
    df_json_kv_time(out, "firstFailedAt", df_col_time(r, tickets_rows_FirstFailedAt));
    df_json_kv_int(out, "gatewaySendTryCount", df_col_int(r, tickets_rows_GatewaySendTryCount));
    df_json_kv_time(out, "gatewaySendFirstFailedAt",
                    df_col_time(r, tickets_rows_GatewaySendFirstFailedAt));
    df_json_kv_bool(out, "givenUp", processing_over || sending_over);
    df_json_kv_bool(out, "willRetry", retries);
}

static void write_item(void *arg, struct df_result *r)
{
    struct listing *l = arg;
    struct df_json_out *out = &l->w.json;

    df_json_open(out, '{');
    df_shown_write_ticket(r, NULL, df_interface_options_of(l->w.arg)->delivery, out);
    write_more(r, out);
    df_json_close(out, '}');
}

/* DF_OK and no client_id: there is no such client, and nothing is shown. */
static enum df_code find_client(struct df_db *db, struct listing *l, struct df_err *err)
{
    struct df_client_record record;

    l->client_id = DF_STR_NULL;
    if (!l->client.ptr)
        return DF_OK;
    enum df_code code = df_client_load(db, l->client, &record, err);
    if (code == DF_OK)
        l->client_id = df_arena_str(df_req_arena(l->w.req), df_uuid_str(&record.client.id));
    return code == DF_E_NOT_FOUND ? DF_OK : code;
}

/* The filter of a list of tickets, for the block it stands in. */
#define TICKET_FILTER(l)                                                                           \
    DF_LIST_FILTER({"entity", df_text((l)->entity)}, {"doc", df_text((l)->doc)},                   \
                   {"phase", (l)->phase < 0 ? df_null(DF_INT) : df_int((l)->phase)},               \
                   {"status", df_text((l)->status)},                                               \
                   {"return_status", df_text((l)->return_status)},                                 \
                   {"gateway_status", df_text((l)->gateway_status)},                               \
                   {"any_client", df_int((l)->client.ptr ? 0 : 1)},                                \
                   {"client", df_uuid((l)->client_id)}, {"error", df_text((l)->error)},            \
                   {"since", df_time((l)->since_ms)}, {"until", df_time((l)->until_ms)})

static enum df_code run_list(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct listing *l = (struct listing *)w;
    enum df_code code = find_client(db, l, err);
    struct df_list_query way = way_of(l);
    struct df_list_query q = {
        .newest = way.newest, .oldest = way.oldest, .rows = way.rows, TICKET_FILTER(l)};

    return code == DF_OK ? df_work_list(w, db, &q, write_item, err) : code;
}

static int64_t read_time(struct df_work *w, struct df_input *in, const char *name, int64_t def)
{
    struct df_str text = df_input_filter(w->req, name);
    int64_t ms = def;

    if (text.ptr && (!df_time_parse(text, &ms) || ms < 0)) {
        df_input_error(in, name, "must be a time like 2026-11-15T00:00:00Z");
        return def;
    }
    return ms;
}

static struct df_str read_text(struct df_work *w, struct df_input *in, const char *name)
{
    struct df_str text = df_input_filter(w->req, name);

    if (text.len > 100 && df_utf8_count(text) > 100)
        df_input_error(in, name, "has more than 100 characters");
    return text;
}

static struct df_str read_error(struct df_work *w, struct df_input *in)
{
    struct df_str text = df_input_filter(w->req, "error");

    if (text.len > DF_CAUSE_CHARS && df_utf8_count(text) > DF_CAUSE_CHARS)
        df_input_error(in, "error", "has more than %d characters", DF_CAUSE_CHARS);
    return text;
}

static bool read_listing(struct df_work *w, struct df_input *in)
{
    static const char *const states[] = {"Awaiting", "Processing", "Processed", "Error", NULL};
    static const char *const sendings[] = {"Pending", "Sending", "Sent", "Error", NULL};
    struct listing *l = (struct listing *)w;

    l->client = read_text(w, in, "clientId");
    l->entity = read_text(w, in, "businessEntity");
    l->doc = read_text(w, in, "businessDocId");
    l->phase = df_input_query_int(in, w->req, "phaseCode", 0, INT32_MAX, -1);
    l->status = df_input_choice(in, w->req, "status", states);
    l->return_status = df_input_choice(in, w->req, "returnStatus", sendings);
    l->gateway_status = df_input_choice(in, w->req, "gatewayStatus", sendings);
    l->since_ms = read_time(w, in, "from", 0);
    l->until_ms = read_time(w, in, "to", END_MS);
    if (l->until_ms <= l->since_ms)
        df_input_error(in, "to", "must be after from");
    l->error = df_cause_pattern(read_error(w, in), df_req_arena(w->req));
    return true;
}

static const struct df_handler list_tickets = {
    .size = sizeof(struct listing),
    .list = "tickets",
    .max_answer = 8 << 20,
    .prepare = read_listing,
    .run = run_list,
};

/* --- GET /admin/tickets/causes --- */

struct caused {
    struct listing l;
    struct df_causes found;
};

/* A ticket that failed in more than one way counts for the first of them. */
static void note_failure(void *arg, struct df_result *r)
{
    struct caused *c = arg;
    bool processing = df_str_eq(df_col_text(r, ticket_Status), DF_STR("Error"));
    struct df_str error =
        processing ? df_col_text(r, ticket_LastError) : df_col_text(r, ticket_GatewaySendLastError);
    int64_t at_ms = processing ? df_col_time(r, ticket_UpdatedAt)
                               : df_col_time(r, ticket_GatewaySendLastAttemptAt);
    bool retried = processing ? !df_col_null(r, ticket_NextAttemptAt)
                              : !df_col_null(r, ticket_GatewaySendNextAttemptAt);

    df_causes_add(&c->found, error, at_ms < 0 ? df_col_time(r, ticket_CreatedAt) : at_ms, retried,
                  df_col_text(r, ticket_Id));
}

static enum df_code run_causes(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct caused *c = (struct caused *)w;
    struct listing *l = &c->l;
    struct df_page page = {.size = DF_CAUSES_PAGE, .list = "causes"};
    enum df_code code = find_client(db, l, err);
    struct df_list_query way = way_of(l);
    struct df_list_query q = {
        .newest = way.newest, .oldest = way.oldest, .rows = way.rows, TICKET_FILTER(l)};

    df_causes_init(&c->found, df_req_arena(w->req));
    for (int64_t n = 0; n < DF_CAUSES_LOOKED && code == DF_OK; n += DF_CAUSES_PAGE) {
        code = df_list_rows(db, &q, &page, df_req_arena(w->req), note_failure, c, NULL, err);
        if (!df_page_forward(&page))
            break;
    }
    df_causes_write(&c->found, &w->json);
    df_causes_release(&c->found);
    return code;
}

/* Without a status of any kind, tickets whose processing failed. */
static bool read_caused(struct df_work *w, struct df_input *in)
{
    struct listing *l = (struct listing *)w;

    (void)read_listing(w, in);
    if (!l->status.ptr && !l->return_status.ptr && !l->gateway_status.ptr)
        l->status = DF_STR("Error");
    return true;
}

static const struct df_handler list_causes = {
    .size = sizeof(struct caused),
    .max_answer = 1 << 20,
    .prepare = read_caused,
    .run = run_causes,
};

/* --- GET /admin/tickets.csv --- */

struct export
{
    struct df_export e;
    struct listing filter;
};

#define HEADER                                                                                     \
    "id,businessEntity,businessDocId,phaseCode,clientId,createdAt,updatedAt,status,lastError,"     \
    "nextAttemptAt,returnStatus,returnSentAt,gatewaySendStatus,gatewaySendLastError,"              \
    "gatewaySendSentAt,callbackStatus,callbackReceivedAt\n"

static void write_csv(void *arg, struct df_result *r)
{
    struct df_buf *out = &((struct export *)arg)->e.text;

    df_csv_int(out, df_col_int(r, ticket_Id), ',');
    df_csv_text(out, df_col_text(r, ticket_BusinessEntity), ',');
    df_csv_text(out, df_col_text(r, ticket_BusinessDocId), ',');
    df_csv_int(out, df_col_int(r, ticket_PhaseCode), ',');
    df_csv_text(out, df_col_text(r, tickets_rows_ClientIdentifier), ',');
    df_csv_time(out, df_col_time(r, ticket_CreatedAt), ',');
    df_csv_time(out, df_col_time(r, ticket_UpdatedAt), ',');
    df_csv_text(out, df_col_text(r, ticket_Status), ',');
    df_csv_text(out, df_col_text(r, ticket_LastError), ',');
    df_csv_time(out, df_col_time(r, ticket_NextAttemptAt), ',');
    df_csv_text(out, df_col_text(r, ticket_ReturnStatus), ',');
    df_csv_time(out, df_col_time(r, ticket_ReturnSentAt), ',');
    df_csv_text(out, df_col_text(r, ticket_GatewaySendStatus), ',');
    df_csv_text(out, df_col_text(r, ticket_GatewaySendLastError), ',');
    df_csv_time(out, df_col_time(r, ticket_GatewaySendSentAt), ',');
    df_csv_text(out, df_col_text(r, ticket_CallbackStatus), ',');
    df_csv_time(out, df_col_time(r, ticket_CallbackReceivedAt), '\n');
}

static enum df_code export_page(struct df_db *db, struct df_export *e, struct df_err *err)
{
    struct export *x = (struct export *)e;
    struct df_list_query way = way_of(&x->filter);
    struct df_list_query q = {
        .newest = way.newest, .oldest = way.oldest, .rows = way.rows, TICKET_FILTER(&x->filter)};
    struct df_arena arena;

    df_arena_init(&arena);
    enum df_code code = df_list_rows(db, &q, &e->w.page, &arena, write_csv, x, NULL, err);
    df_arena_release(&arena);
    return code;
}

static enum df_code run_export(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct export *x = (struct export *)w;

    x->filter.w.req = w->req;
    enum df_code code = find_client(db, &x->filter, err);
    return code == DF_OK ? df_export_run(&x->e, db, HEADER, export_page, err) : code;
}

static const struct df_handler export_reading = DF_EXPORT_READING(struct export, run_export);

static bool read_export(struct df_work *w, struct df_input *in)
{
    struct export *x = (struct export *)w;

    df_export_read(&x->e, in, "tickets", df_interface_options_of(w->arg)->temp_dir, "tickets",
                   false, &export_reading);
    x->filter.w.req = w->req;
    return read_listing(&x->filter.w, in);
}

static const struct df_handler export_tickets = DF_EXPORT_AUDITED(struct export, read_export);

/* --- GET /admin/tickets/{id} --- */

struct sending {
    int64_t id;
    struct df_sent_try sent;
};

struct whole {
    struct df_work w; /* its arg is the interface */
    int64_t id;
    struct df_shown payloads;
    bool reveal, masked;
    struct df_why_row why;
    /* The ticket's key. */
    struct df_str entity, doc;
    int64_t phase;
    bool found;
    struct df_sent_try gateway;
    /* What was sent for it, by channel. */
    struct sending sendings[SENDINGS_SHOWN];
    size_t count;
    const char *channel; /* whose rows, or attempts, are being written */
    int64_t row;
};

static struct df_delivery *delivery_of(const struct whole *t)
{
    return df_interface_options_of(t->w.arg)->delivery;
}

/* What the ticket waits for: first its processing, then the gateway. */
static void note_why(struct whole *t, const struct df_result *r)
{
    bool processing = !df_col_null(r, ticket_NextAttemptAt);

    t->why = (struct df_why_row){
        .channel = processing ? DF_STR("tickets") : DF_STR("ticket-gateway"),
        .target = processing ? DF_STR_NULL
                             : df_arena_str(df_req_arena(t->w.req),
                                            df_col_text(r, ticket_GatewayHeldTarget)),
        .held = !processing && !df_col_null(r, ticket_GatewayHeldTarget),
        .failed = processing ? !df_col_null(r, ticket_whole_FirstFailedAt)
                             : !df_col_null(r, ticket_whole_GatewaySendFirstFailedAt),
        .created_ms = df_col_time(r, ticket_CreatedAt),
        .last_attempt_ms = processing ? df_col_time(r, ticket_UpdatedAt)
                                      : df_col_time(r, ticket_GatewaySendLastAttemptAt),
        .due_ms = processing ? df_col_time(r, ticket_NextAttemptAt)
                             : df_col_time(r, ticket_GatewaySendNextAttemptAt),
    };
}

/* The text with what is about people masked, in the request's arena. */
static struct df_str mask_payload(struct whole *t, struct df_str payload)
{
    const struct df_masker *masker = df_interface_options_of(t->w.arg)->masker;
    struct df_buf b;

    if (!masker || !payload.ptr)
        return payload;
    df_buf_init(&b, df_shown_answer_max(df_interface_options_of(t->w.arg)));
    df_mask_json(masker, payload, &b);
    struct df_str masked =
        df_buf_failed(&b) ? DF_STR_NULL : df_arena_str(df_req_arena(t->w.req), df_buf_str(&b));
    df_buf_release(&b);
    t->masked = t->masked || !df_str_eq(masked, payload);
    return masked;
}

static void write_whole(void *arg, struct df_result *r)
{
    struct whole *t = arg;
    struct df_arena *a = df_req_arena(t->w.req);

    t->found = true;
    t->entity = df_arena_str(a, df_col_text(r, ticket_BusinessEntity));
    t->doc = df_arena_str(a, df_col_text(r, ticket_BusinessDocId));
    t->phase = df_col_int(r, ticket_PhaseCode);
    t->gateway = df_sent_try(df_col_text(r, ticket_whole_GatewaySendStatus),
                             df_col_int(r, ticket_whole_GatewaySendTryCount),
                             df_col_time(r, ticket_whole_GatewaySendLastAttemptAt),
                             df_col_int(r, ticket_whole_GatewaySendSentStatus),
                             df_col_int(r, ticket_whole_GatewaySendSentMs));
    df_shown_write_ticket(r, &t->payloads, delivery_of(t), &t->w.json);
    df_json_kv_text(&t->w.json, "payload", t->payloads.raw);
    df_json_kv_bool(&t->w.json, "payloadMasked", t->masked);
    write_more(r, &t->w.json);
    note_why(t, r);
}

static void write_sending(void *arg, struct df_result *r)
{
    struct whole *t = arg;
    struct df_json_out *out = &t->w.json;

    t->sendings[t->count++] = (struct sending){
        df_col_int(r, ticket_sendings_Id),
        df_sent_try(df_col_text(r, ticket_sendings_Status), df_col_int(r, ticket_sendings_TryCount),
                    df_col_time(r, ticket_sendings_LastAttemptAt),
                    df_col_int(r, ticket_sendings_SentStatus),
                    df_col_int(r, ticket_sendings_SentMs))};
    df_json_open(out, '{');
    df_json_kv_int(out, "id", df_col_int(r, ticket_sendings_Id));
    df_json_kv_text(out, "targetUrl", df_col_text(r, ticket_sendings_TargetUrl));
    df_json_kv_text(out, "status", df_col_text(r, ticket_sendings_Status));
    df_json_kv_int(out, "attemptCount", df_col_int(r, ticket_sendings_AttemptCount));
    df_json_kv_int(out, "tryCount", df_col_int(r, ticket_sendings_TryCount));
    df_json_kv_time(out, "createdAt", df_col_time(r, ticket_sendings_CreatedAt));
    df_json_kv_time(out, "lastAttemptAt", df_col_time(r, ticket_sendings_LastAttemptAt));
    df_json_kv_time(out, "sentAt", df_col_time(r, ticket_sendings_SentAt));
    df_json_kv_time(out, "nextAttemptAt",
                    df_delivery_next_ms(delivery_of(t), t->channel,
                                        df_col_text(r, ticket_sendings_HeldTarget),
                                        df_col_time(r, ticket_sendings_NextAttemptAt)));
    df_json_kv_time(out, "firstFailedAt", df_col_time(r, ticket_sendings_FirstFailedAt));
    df_json_kv_text(out, "lastError", df_col_text(r, ticket_sendings_LastError));
    df_json_close(out, '}');
}

/* Writes the rows of a query as an array, and keeps what their attempts need. */
static enum df_code write_sendings(struct df_db *db, struct whole *t, const char *name,
                                   const char *channel, const struct df_query *q,
                                   struct df_err *err)
{
    t->count = 0;
    t->channel = channel;
    df_json_key(&t->w.json, name);
    df_json_open(&t->w.json, '[');
    enum df_code code =
        df_db_each(db,
                   DF_ANY(q, {"entity", df_text(t->entity)}, {"doc", df_text(t->doc)},
                          {"phase", df_int(t->phase)}, {"limit", df_int(SENDINGS_SHOWN)}),
                   write_sending, t, err);
    df_json_close(&t->w.json, ']');
    return code;
}

static void write_attempt(void *arg, const struct df_delivery_attempt *a)
{
    struct whole *t = arg;
    struct df_json_out *out = &t->w.json;

    df_json_open(out, '{');
    df_json_kv_text(out, "channel", df_str_c(t->channel));
    df_json_kv_int(out, "id", t->row);
    df_json_kv_int(out, "attempt", a->attempt);
    df_json_kv_time(out, "attemptedAt", a->attempted_ms);
    df_json_kv_text(out, "outcome", a->outcome);
    df_json_kv_int_if(out, "httpStatus", a->http_status > 0, a->http_status);
    df_json_kv_int(out, "durationMs", a->duration_ms);
    df_json_kv_text(out, "answer", a->answer);
    df_json_kv_text(out, "error", a->error);
    df_json_close(out, '}');
}

static enum df_code write_attempts(struct df_db *db, struct whole *t, const char *channel,
                                   const struct sending *s, struct df_err *err)
{
    char key[24];

    t->channel = channel;
    t->row = s->id;
    snprintf(key, sizeof key, "%lld", (long long)s->id);
    return df_history_each(db, df_str_c(channel), df_str_c(key), &s->sent, ATTEMPTS_SHOWN,
                           write_attempt, t, err);
}

/* The acks and the returns of the ticket, then the attempts of all that was sent for it. */
static enum df_code write_sent(struct df_db *db, struct whole *t, struct df_err *err)
{
    struct sending acks[SENDINGS_SHOWN];
    struct sending gateway = {t->id, t->gateway};
    enum df_code code = write_sendings(db, t, "acks", "functional-ack", &df_q_ticket_acks, err);
    size_t ack_count = t->count;

    memcpy(acks, t->sendings, sizeof acks);
    if (code == DF_OK)
        code = write_sendings(db, t, "returns", "ticket-return", &df_q_ticket_returns, err);
    df_json_key(&t->w.json, "attempts");
    df_json_open(&t->w.json, '[');
    if (code == DF_OK)
        code = write_attempts(db, t, "ticket-gateway", &gateway, err);
    for (size_t i = 0; i < t->count && code == DF_OK; i++)
        code = write_attempts(db, t, "ticket-return", &t->sendings[i], err);
    for (size_t i = 0; i < ack_count && code == DF_OK; i++)
        code = write_attempts(db, t, "functional-ack", &acks[i], err);
    df_json_close(&t->w.json, ']');
    return code;
}

static enum df_code show_whole(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct whole *t = (struct whole *)w;
    int64_t room = df_shown_room(df_interface_options_of(w->arg));
    struct df_why why;

    t->found = false;
    df_json_open(&w->json, '{');
    enum df_code code = df_shown_ticket(db, t->id, &room, w->req, &t->payloads, err);
    t->masked = false;
    if (code == DF_OK && !t->reveal) {
        t->payloads.raw = mask_payload(t, t->payloads.raw);
        t->payloads.callback = mask_payload(t, t->payloads.callback);
    }
    if (code == DF_OK)
        code = df_db_each(db, DF_Q(ticket_whole, .id = df_int(t->id)), write_whole, t, err);
    if (code == DF_OK && !t->found)
        code = df_err_set(err, DF_E_NOT_FOUND, "There is no such ticket.");
    if (code == DF_OK)
        code = df_why_find(db, &t->why, delivery_of(t), w->now_ms, df_req_arena(w->req), &why, err);
    if (code == DF_OK)
        df_why_write(&why, &w->json);
    if (code == DF_OK)
        code = write_sent(db, t, err);
    df_json_close(&w->json, '}');
    return code;
}

/* A transaction, so that the payloads belong to the row that is read. */
static enum df_code run_get(struct df_db *db, struct df_work *w, struct df_err *err)
{
    enum df_code code = df_db_begin(db, false, err);

    if (code != DF_OK)
        return code;
    code = show_whole(db, w, err);
    df_db_rollback(db); /* nothing was written */
    return code;
}

static enum df_code run_revealed(struct df_db *db, struct df_work *w, struct df_err *err)
{
    const struct whole *t = (const struct whole *)w;
    struct df_str target = df_arena_printf(df_req_arena(w->req), "tickets/%lld", (long long)t->id);
    enum df_code code = show_whole(db, w, err);

    return code == DF_OK ? df_reveal_audit(db, w, target, err) : code;
}

static const struct df_handler reveal_ticket = {
    .size = sizeof(struct whole), .writes = true, .tells = true, .run = run_revealed};

static bool read_id(struct df_work *w, struct df_input *in)
{
    struct whole *t = (struct whole *)w;

    df_req_buf(w->req, &w->out, 2 * df_shown_answer_max(df_interface_options_of(w->arg)));
    if (df_str_to_i64(df_req_param(w->req, "id"), &t->id))
        return df_reveal_read(w, in, &reveal_ticket, &t->reveal);
    df_req_fail(w->req, DF_E_NOT_FOUND, "There is no such ticket.");
    return false;
}

static const struct df_handler get_ticket = {
    .size = sizeof(struct whole),
    .tells = true,
    .prepare = read_id,
    .run = run_get,
};

#define ADMIN(path, h)                                                                             \
    DF_ROUTE("GET", "/admin/tickets" path, DF_BODY_NONE, DF_ACCESS_ADMIN, NULL, h)

const struct df_route df_ticket_admin_routes[] = {
    ADMIN("", list_tickets),
    ADMIN(".csv", export_tickets),
    ADMIN("/causes", list_causes),
    ADMIN("/{id}", get_ticket),
    {.method = NULL},
};

/*
 * GET /admin/tickets and /admin/tickets/{id}: tickets of all clients, for operators.
 *
 * A list goes on behind a cursor, `after`: the creation time and the id of the last ticket shown.
 * The total is exact up to TOTAL_EXACT. Beyond it is estimated from the ids: the first tickets that
 * match lie so close together, and so many ids there are.
 */
#include "access/handler.h"
#include "delivery/history.h"
#include "interface/interface.h"
#include "interface/shown.h"
#include "interface/tickets.sql.h"

#include <stdio.h>

#define TOTAL_EXACT    10000
#define SENDINGS_SHOWN 20              /* acks and returns of a ticket, each */
#define ATTEMPTS_SHOWN 50              /* of each sending */
#define END_MS         253402300799000 /* of the year 9999 */

/* --- GET /admin/tickets --- */

struct listing {
    struct df_work w;     /* its arg is the interface */
    struct df_str client; /* its identifier; absent: any */
    struct df_str entity, doc, status, return_status, gateway_status;
    int64_t phase; /* -1: any */
    int64_t since_ms, until_ms;
    bool from_start; /* no cursor */
    int64_t after_ms, after_id;
    /* What was found. */
    struct df_str client_id;
    int64_t shown, last_ms, last_id;
    int64_t total, highest, lowest;
};

struct way {
    const struct df_query *page;
    const struct df_query *seen;
};

/* Whether an index finds few rows: most tickets end up in the last state, and the newest of those
 * are found sooner in the order of the table. */
static bool is_rare(struct df_str status, const char *last)
{
    return status.ptr && !df_str_eq(status, df_str_c(last));
}

/* The index that leaves the fewest rows to look at. */
static struct way way_of(const struct listing *l)
{
    if (l->doc.ptr)
        return (struct way){&df_q_doc_tickets_page, &df_q_doc_tickets_seen};
    if (l->client.ptr)
        return (struct way){&df_q_client_tickets_page, &df_q_client_tickets_seen};
    if (is_rare(l->status, "Processed"))
        return (struct way){&df_q_status_tickets_page, &df_q_status_tickets_seen};
    if (is_rare(l->return_status, "Sent"))
        return (struct way){&df_q_return_tickets_page, &df_q_return_tickets_seen};
    if (is_rare(l->gateway_status, "Sent"))
        return (struct way){&df_q_gateway_tickets_page, &df_q_gateway_tickets_seen};
    return (struct way){&df_q_all_tickets_page, &df_q_all_tickets_seen};
}

static enum df_code query_tickets(struct df_db *db, struct listing *l, const struct df_query *q,
                                  int64_t limit, void (*row)(void *arg, struct df_result *r),
                                  struct df_err *err)
{
    return df_db_each(
        db,
        DF_ANY(q, {"entity", df_text(l->entity)}, {"doc", df_text(l->doc)},
               {"phase", l->phase < 0 ? df_null(DF_INT) : df_int(l->phase)},
               {"status", df_text(l->status)}, {"return_status", df_text(l->return_status)},
               {"gateway_status", df_text(l->gateway_status)},
               {"any_client", df_int(l->client.ptr ? 0 : 1)}, {"client", df_uuid(l->client_id)},
               {"since", df_time(l->since_ms)}, {"until", df_time(l->until_ms)},
               {"from_start", df_int(l->from_start ? 1 : 0)}, {"after_at", df_time(l->after_ms)},
               {"after_id", df_int(l->after_id)}, {"limit", df_int(limit)},
               {"offset", df_int(l->w.page.offset)}),
        row, l, err);
}

/* What only operators see of a ticket. */
static void write_more(const struct df_result *r, struct df_json_out *out)
{
    bool processing_over = df_str_eq(df_col_text(r, ticket_Status), DF_STR("Error")) &&
                           df_col_null(r, ticket_NextAttemptAt);
    bool sending_over = df_str_eq(df_col_text(r, ticket_GatewaySendStatus), DF_STR("Error")) &&
                        df_col_null(r, ticket_GatewaySendNextAttemptAt);

    df_json_kv_text(out, "clientId", df_col_text(r, all_tickets_page_ClientIdentifier));
    df_json_kv_int(out, "tryCount", df_col_int(r, all_tickets_page_TryCount));
    df_json_kv_time(out, "firstFailedAt", df_col_time(r, all_tickets_page_FirstFailedAt));
    df_json_kv_int(out, "gatewaySendTryCount", df_col_int(r, all_tickets_page_GatewaySendTryCount));
    df_json_kv_time(out, "gatewaySendFirstFailedAt",
                    df_col_time(r, all_tickets_page_GatewaySendFirstFailedAt));
    df_json_kv_bool(out, "givenUp", processing_over || sending_over);
}

static void write_item(void *arg, struct df_result *r)
{
    struct listing *l = arg;
    struct df_json_out *out = &l->w.json;

    df_json_open(out, '{');
    df_shown_write_ticket(r, NULL, out);
    write_more(r, out);
    df_json_close(out, '}');
    l->shown++;
    l->last_ms = df_col_time(r, ticket_CreatedAt);
    l->last_id = df_col_int(r, ticket_Id);
}

static void read_seen(void *arg, struct df_result *r)
{
    struct listing *l = arg;

    l->total = df_col_int(r, tickets_seen_Total);
    l->highest = df_col_int(r, tickets_seen_Highest);
    l->lowest = df_col_int(r, tickets_seen_Lowest);
}

static enum df_code count_tickets(struct df_db *db, struct listing *l, const struct df_query *q,
                                  bool *ret_estimated, struct df_err *err)
{
    int64_t first = 0;
    enum df_code code = query_tickets(db, l, q, TOTAL_EXACT + 1, read_seen, err);

    *ret_estimated = l->total > TOTAL_EXACT;
    if (code != DF_OK || !*ret_estimated)
        return code;
    code = df_db_query_int(db, DF_Q0(tickets_first), &first, err);
    double dense = (double)l->total / (double)(l->highest - l->lowest + 1);
    int64_t estimate = (int64_t)(dense * (double)(l->highest - first + 1));
    if (estimate > l->total)
        l->total = estimate;
    return code;
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

static enum df_code run_list(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct listing *l = (struct listing *)w;
    struct way way = way_of(l);
    bool estimated = false;
    enum df_code code = find_client(db, l, err);

    l->shown = l->total = 0;
    if (code == DF_OK)
        code = count_tickets(db, l, way.seen, &estimated, err);
    df_page_open(&w->json);
    if (code == DF_OK)
        code = query_tickets(db, l, way.page, w->page.size, write_item, err);
    w->page.total = l->total;
    df_json_close(&w->json, ']');
    df_page_write(&w->page, &w->json);
    if (estimated)
        df_json_kv_bool(&w->json, "totalIsEstimate", true);
    if (l->shown == w->page.size)
        df_json_kv_text(&w->json, "next",
                        df_arena_printf(df_req_arena(w->req), "%lld.%lld", (long long)l->last_ms,
                                        (long long)l->last_id));
    df_json_close(&w->json, '}');
    return code;
}

static void read_cursor(struct listing *l, struct df_input *in)
{
    struct df_str at, after = df_input_filter(l->w.req, "after");

    l->from_start = !after.ptr;
    if (!after.ptr)
        return;
    struct df_str id = df_str_cut(after, '.', &at);
    if (!df_str_to_i64(at, &l->after_ms) || !df_str_to_i64(id, &l->after_id) || l->after_ms < 0 ||
        l->after_ms > END_MS)
        df_input_error(in, "after", "must be the `next` of a page");
    else if (df_input_filter(l->w.req, "page").ptr)
        df_input_error(in, "page", "cannot be given together with after");
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

static bool read_listing(struct df_work *w, struct df_input *in)
{
    static const char *const states[] = {"Awaiting", "Processing", "Processed", "Error", NULL};
    static const char *const sendings[] = {"Pending", "Sending", "Sent", "Error", NULL};
    struct listing *l = (struct listing *)w;

    df_page_read(in, w->req, &w->page);
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
    read_cursor(l, in);
    return true;
}

static const struct df_handler list_tickets = {
    .size = sizeof(struct listing),
    .max_answer = 8 << 20,
    .prepare = read_listing,
    .run = run_list,
};

/* --- GET /admin/tickets/{id} --- */

struct sending {
    int64_t id;
    struct df_sent_try sent;
};

struct whole {
    struct df_work w; /* its arg is the interface */
    int64_t id;
    struct df_shown payloads;
    /* The ticket's key. */
    struct df_str entity, doc;
    int64_t phase;
    bool found;
    struct df_sent_try gateway;
    /* What was sent for it, by channel. */
    struct sending sendings[SENDINGS_SHOWN];
    size_t count;
    const char *channel; /* whose attempts are being written */
    int64_t row;
};

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
    df_shown_write_ticket(r, &t->payloads, &t->w.json);
    write_more(r, &t->w.json);
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
    df_json_kv_time(out, "nextAttemptAt", df_col_time(r, ticket_sendings_NextAttemptAt));
    df_json_kv_time(out, "firstFailedAt", df_col_time(r, ticket_sendings_FirstFailedAt));
    df_json_kv_text(out, "lastError", df_col_text(r, ticket_sendings_LastError));
    df_json_close(out, '}');
}

/* Writes the rows of a query as an array, and keeps what their attempts need. */
static enum df_code write_sendings(struct df_db *db, struct whole *t, const char *name,
                                   const struct df_query *q, struct df_err *err)
{
    t->count = 0;
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
    enum df_code code = write_sendings(db, t, "acks", &df_q_ticket_acks, err);
    size_t ack_count = t->count;

    memcpy(acks, t->sendings, sizeof acks);
    if (code == DF_OK)
        code = write_sendings(db, t, "returns", &df_q_ticket_returns, err);
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

/* A transaction, so that the payloads belong to the row that is read. */
static enum df_code run_get(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct whole *t = (struct whole *)w;
    int64_t room = df_shown_room(df_interface_options_of(w->arg));
    enum df_code code = df_db_begin(db, false, err);

    if (code != DF_OK)
        return code;
    t->found = false;
    df_json_open(&w->json, '{');
    code = df_shown_ticket(db, t->id, &room, w->req, &t->payloads, err);
    if (code == DF_OK)
        code = df_db_each(db, DF_Q(ticket_whole, .id = df_int(t->id)), write_whole, t, err);
    if (code == DF_OK && !t->found)
        code = df_err_set(err, DF_E_NOT_FOUND, "There is no such ticket.");
    if (code == DF_OK)
        code = write_sent(db, t, err);
    df_json_close(&w->json, '}');
    df_db_rollback(db); /* nothing was written */
    return code;
}

static bool read_id(struct df_work *w, struct df_input *in)
{
    struct whole *t = (struct whole *)w;

    (void)in;
    df_req_buf(w->req, &w->out, df_shown_answer_max(df_interface_options_of(w->arg)));
    if (df_str_to_i64(df_req_param(w->req, "id"), &t->id))
        return true;
    df_req_fail(w->req, DF_E_NOT_FOUND, "There is no such ticket.");
    return false;
}

static const struct df_handler get_ticket = {
    .size = sizeof(struct whole),
    .prepare = read_id,
    .run = run_get,
};

#define ADMIN(path, h)                                                                             \
    DF_ROUTE("GET", "/admin/tickets" path, DF_BODY_NONE, DF_ACCESS_ADMIN, NULL, h)

const struct df_route df_ticket_admin_routes[] = {
    ADMIN("", list_tickets),
    ADMIN("/{id}", get_ticket),
    {.method = NULL},
};

/*
 * /api/tickets: receiving tickets and looking at them.
 *
 * A ticket is known by its business entity, document and phase. What was received before is told
 * from another payload by the SHA-256 of the bytes: the same again changes nothing, so that callers
 * may repeat a call whose answer they lost; another one replaces it and starts over. Whose it is
 * never changes by that (owners.h).
 */
#include "access/handler.h"
#include "base/checksum.h"
#include "interface/interface.h"
#include "interface/owners.h"
#include "interface/payload.h"
#include "interface/shown.h"
#include "interface/tickets.sql.h"

#define PHASES_SHOWN 64 /* with their payloads */

/* --- POST /api/tickets --- */

struct receipt {
    struct df_work w; /* its arg is the interface */
    struct df_reach reach;
    struct df_ticket ticket;
    char hash[DF_CHECKSUM_LEN + 1];
    /* What became of it. */
    int64_t id;
    struct df_str status;
    bool created;
    bool changed;
};

/* The third column is the version of what was written, or whose the ticket is that was not. */
static enum df_code take_row(struct receipt *c, struct df_result *r, bool changed,
                             struct df_err *err)
{
    if (!changed && !df_reach_has(&c->reach, df_col_text(r, 2)))
        return df_reach_refuse(err, "ticket");
    c->id = df_col_int(r, 0);
    c->status = df_arena_str(df_req_arena(c->w.req), df_col_text(r, 1));
    c->changed = changed;
    c->created = changed && df_col_int(r, 2) == 1;
    return DF_OK;
}

/* DF_DONE: the query gave no row. */
static enum df_code ask(struct df_db *db, struct receipt *c, const struct df_query *q,
                        const struct df_value *params, size_t count, struct df_err *err)
{
    struct df_result *r = NULL;
    enum df_code code = df_db_query(db, q, params, count, &r, err);
    if (code == DF_OK)
        code = df_result_step(r, err);
    if (code == DF_ROW)
        code = take_row(c, r, q == &df_q_ticket_upsert, err);
    df_result_free(r);
    return code;
}

static enum df_code run_receive(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct receipt *c = (struct receipt *)w;
    const struct df_ticket *t = &c->ticket;
    struct df_value entity = df_text(t->doc.business_entity);
    struct df_value doc = df_text(t->doc.business_doc_id);
    struct df_value phase = df_int(t->phase_code);

    enum df_code code =
        ask(db, c, &df_q_ticket_upsert,
            DF_PARAMS(entity, doc, phase, df_text(t->company_code), df_text(t->branch_code),
                      df_text(t->destination_code), df_text(t->shipment_event),
                      df_bool(t->ack_required), df_text(t->targets[0]),
                      df_text(df_req_body(w->req)), df_text(df_str_c(c->hash)), df_time(w->now_ms),
                      df_reach_client(&c->reach), df_reach_all(&c->reach)),
            err);
    if (code == DF_DONE)
        code = ask(db, c, &df_q_ticket_same, DF_PARAMS(entity, doc, phase), err);
    /* Where lock hints are not heeded, of two that insert at once the second meets the key. */
    if (code == DF_E_DB_UNIQUE || code == DF_DONE)
        code = df_err_set(err, DF_E_DB_CONFLICT, "The ticket was written by another call as well.");
    return code;
}

static void received(struct df_work *w)
{
    const struct receipt *c = (const struct receipt *)w;
    struct df_json_out *json = &w->json;

    if (c->changed)
        df_interface_wake(w->arg, DF_WORK_TICKETS);
    df_json_open(json, '{');
    df_json_kv_int(json, "id", c->id);
    df_json_kv_text(json, "businessEntity", c->ticket.doc.business_entity);
    df_json_kv_text(json, "businessDocId", c->ticket.doc.business_doc_id);
    df_json_kv_int(json, "phaseCode", c->ticket.phase_code);
    df_json_kv_text(json, "status", c->status);
    df_json_kv_bool(json, "created", c->created);
    df_json_close(json, '}');
}

static bool read_ticket(struct df_work *w, struct df_input *in)
{
    struct receipt *c = (struct receipt *)w;

    if (!df_input_json(in, w->req))
        return false;
    df_ticket_read(in, &c->ticket);
    if (in->error_count > 0)
        return true;
    df_checksum_of(df_req_body(w->req), c->hash);
    c->reach = df_reach_of(w->req);
    return true;
}

static const struct df_handler receive = {
    .size = sizeof(struct receipt),
    .writes = true,
    .prepare = read_ticket,
    .run = run_receive,
    .done = received,
};

/* --- GET /api/tickets --- */

/* The payloads of one phase, by the ticket's id. */
struct phase_shown {
    int64_t id;
    struct df_shown payloads;
};

struct question {
    struct df_work w; /* its arg is the interface */
    struct df_reach reach;
    struct df_str entity;
    struct df_str doc;
    struct df_str status;
    int64_t phase; /* -1: any */
    bool paged;
    struct phase_shown *shown; /* not paged */
    size_t shown_count;
};

/* In the order of the queries' columns. */
static const struct {
    const char *name;
    enum df_type type;
} columns[] = {
    {"id", DF_INT},
    {"businessEntity", DF_TEXT},
    {"businessDocId", DF_TEXT},
    {"phaseCode", DF_INT},
    {"companyCode", DF_TEXT},
    {"branchCode", DF_TEXT},
    {"destinationCode", DF_TEXT},
    {"shipmentEvent", DF_TEXT},
    {"functionalAckIsRequired", DF_BOOL},
    {"targetApplicationCode", DF_TEXT},
    {"createdAt", DF_TIME},
    {"updatedAt", DF_TIME},
    {"payloadVersion", DF_INT},
    {"status", DF_TEXT},
    {"attemptCount", DF_INT},
    {"lastError", DF_TEXT},
    {"nextAttemptAt", DF_TIME},
    {"returnStatus", DF_TEXT},
    {"returnAttemptCount", DF_INT},
    {"returnLastError", DF_TEXT},
    {"returnLastAttemptAt", DF_TIME},
    {"returnSentAt", DF_TIME},
    {"gatewaySendStatus", DF_TEXT},
    {"gatewaySendAttemptCount", DF_INT},
    {"gatewaySendLastError", DF_TEXT},
    {"gatewaySendLastAttemptAt", DF_TIME},
    {"gatewaySendSentAt", DF_TIME},
    {"gatewaySendNextAttemptAt", DF_TIME},
    {"callbackStatus", DF_TEXT},
    {"callbackReceivedAt", DF_TIME},
    {"callbackCode", DF_TEXT},
    {"callbackMessage", DF_TEXT},
};

/* shown: NULL in pages, which have no payloads. */
static void write_ticket(struct df_result *r, const struct df_shown *shown, struct df_json_out *out)
{
    df_json_open(out, '{');
    for (size_t i = 0; i < df_result_columns(r); i++) {
        const char *name = columns[i].name;
        if (columns[i].type == DF_INT)
            df_json_kv_int(out, name, df_col_int(r, i));
        else if (columns[i].type == DF_BOOL)
            df_json_kv_bool(out, name, df_col_bool(r, i));
        else if (columns[i].type == DF_TIME)
            df_json_kv_time(out, name, df_col_time(r, i));
        else
            df_json_kv_text(out, name, df_col_text(r, i));
    }
    if (shown) {
        df_json_kv_text(out, "rawPayloadJson", shown->raw);
        df_json_kv_text(out, "callbackPayloadJson", shown->callback);
    }
    df_json_close(out, '}');
}

/* Of one document. */
static enum df_code ask_phases(struct df_db *db, struct question *c, struct df_result **ret,
                               struct df_err *err)
{
    struct df_value params[] = {df_text(c->entity), df_text(c->doc),
                                c->phase < 0 ? df_null(DF_INT) : df_int(c->phase),
                                df_text(c->status), df_reach_client(&c->reach)};
    const struct df_query *q = c->reach.all ? &df_q_ticket_phases : &df_q_own_ticket_phases;
    return df_db_query(db, q, params, q->param_count, ret, err);
}

static enum df_code ask_page(struct df_db *db, struct question *c, struct df_result **ret,
                             struct df_err *err)
{
    struct df_value params[7] = {df_text(c->status), df_text(c->entity), df_text(c->doc),
                                 c->phase < 0 ? df_null(DF_INT) : df_int(c->phase)};
    size_t n = 4;

    if (!c->reach.all)
        params[n++] = df_reach_client(&c->reach);
    enum df_code code =
        df_db_query_int(db, c->reach.all ? &df_q_ticket_page_total : &df_q_own_ticket_page_total,
                        params, n, &c->w.page.total, err);
    if (code != DF_OK)
        return code;
    params[n++] = df_int(c->w.page.size);
    params[n++] = df_int(c->w.page.offset);
    return df_db_query(db, c->reach.all ? &df_q_ticket_page : &df_q_own_ticket_page, params, n, ret,
                       err);
}

/* The payloads of the first phases, oldest first, as far as there is room. */
static enum df_code find_shown(struct df_db *db, struct question *c, struct df_err *err)
{
    int64_t room = df_shown_room(df_interface_options_of(c->w.arg));
    struct df_result *r = NULL;
    enum df_code code = ask_phases(db, c, &r, err);

    c->shown_count = 0;
    c->shown = DF_ARENA_ARRAY(df_req_arena(c->w.req), struct phase_shown, PHASES_SHOWN);
    if (code != DF_OK)
        return code;
    while (c->shown_count < PHASES_SHOWN && (code = df_result_step(r, err)) == DF_ROW)
        c->shown[c->shown_count++].id = df_col_int(r, 0);
    df_result_free(r);
    code = code == DF_DONE || code == DF_ROW ? DF_OK : code;
    for (size_t i = 0; i < c->shown_count && code == DF_OK; i++)
        code = df_shown_ticket(db, c->shown[i].id, &room, c->w.req, &c->shown[i].payloads, err);
    return code;
}

static const struct df_shown *shown_of(const struct question *c, int64_t id)
{
    static const struct df_shown nothing;

    for (size_t i = 0; i < c->shown_count; i++)
        if (c->shown[i].id == id)
            return &c->shown[i].payloads;
    return c->paged ? NULL : &nothing;
}

static enum df_code write_rows(struct df_db *db, struct question *c, struct df_err *err)
{
    struct df_result *r = NULL;
    enum df_code code = c->paged ? DF_OK : find_shown(db, c, err);

    if (code == DF_OK)
        code = c->paged ? ask_page(db, c, &r, err) : ask_phases(db, c, &r, err);
    if (code != DF_OK)
        return code;
    while ((code = df_result_step(r, err)) == DF_ROW)
        write_ticket(r, shown_of(c, df_col_int(r, 0)), &c->w.json);
    df_result_free(r);
    return code == DF_DONE ? DF_OK : code;
}

/* In a transaction, so that the payloads are those of the rows. */
static enum df_code run_look(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct question *c = (struct question *)w;
    enum df_code code = df_db_begin(db, false, err);

    if (code != DF_OK)
        return code;
    df_page_open(&w->json);
    code = write_rows(db, c, err);
    df_json_close(&w->json, ']');
    if (c->paged)
        df_page_write(&w->page, &w->json);
    df_json_close(&w->json, '}');
    df_db_rollback(db); /* nothing was written */
    return code;
}

static bool read_question(struct df_work *w, struct df_input *in)
{
    static const char *const states[] = {"Awaiting", "Processing", "Processed", "Error", NULL};
    static const char hint[] = "is required, unless status is given";
    struct question *c = (struct question *)w;
    struct df_req *req = w->req;

    df_req_buf(req, &w->out, df_shown_answer_max(df_interface_options_of(w->arg)));
    c->reach = df_reach_of(req);
    c->entity = df_input_filter(req, "businessEntity");
    c->doc = df_input_filter(req, "businessDocId");
    c->phase = df_input_query_int(in, req, "phaseCode", 0, INT32_MAX, -1);
    c->status = df_input_choice(in, req, "status", states);
    c->paged = !c->entity.ptr || !c->doc.ptr;
    if (c->paged && !df_input_filter(req, "status").ptr) {
        if (!c->entity.ptr)
            df_input_error(in, "businessEntity", hint);
        if (!c->doc.ptr)
            df_input_error(in, "businessDocId", hint);
    }
    if (c->paged)
        df_page_read(in, req, &w->page);
    return true;
}

static const struct df_handler look = {
    .size = sizeof(struct question),
    .prepare = read_question,
    .run = run_look,
};

#define ROUTE(m, kind, h) DF_ROUTE(m, "/api/tickets", kind, DF_ACCESS_CLIENT, "interface", h)

const struct df_route df_ticket_routes[] = {
    ROUTE("POST", DF_BODY_JSON, receive),
    ROUTE("GET", DF_BODY_NONE, look),
    {.method = NULL},
};

/*
 * /api/tickets: receives and shows tickets.
 *
 * The key of a ticket is its business entity, document and phase. A payload with the same SHA-256
 * as the stored one changes nothing, so that callers may repeat a call whose answer they lost.
 * Another payload replaces the stored one, and processing starts over. The owner does not change
 * (owners.h).
 */
#include "access/handler.h"
#include "base/checksum.h"
#include "interface/interface.h"
#include "interface/owners.h"
#include "interface/payload.h"
#include "interface/shown.h"
#include "interface/tickets.sql.h"

#define PHASES_SHOWN 64 /* phases of a document whose payloads are shown */

/* --- POST /api/tickets --- */

struct receipt {
    struct df_work w; /* its arg is the interface */
    struct df_reach reach;
    struct df_ticket ticket;
    char hash[DF_CHECKSUM_LEN + 1];
    /* The outcome. */
    int64_t id;
    struct df_str status;
    bool created;
    bool changed;
    bool refused; /* the ticket is another client's */
};

static void read_written(void *arg, struct df_result *r)
{
    struct receipt *c = arg;

    c->id = df_col_int(r, ticket_upsert_Id);
    c->status = df_arena_str(df_req_arena(c->w.req), df_col_text(r, ticket_upsert_Status));
    c->changed = true;
    c->created = df_col_int(r, ticket_upsert_PayloadVersion) == 1;
}

static void read_same(void *arg, struct df_result *r)
{
    struct receipt *c = arg;

    c->id = df_col_int(r, ticket_same_Id);
    c->status = df_arena_str(df_req_arena(c->w.req), df_col_text(r, ticket_same_Status));
    c->refused = !df_reach_has(&c->reach, df_col_text(r, ticket_same_ClientId));
}

static enum df_code run_receive_ticket(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct receipt *c = (struct receipt *)w;
    const struct df_ticket *t = &c->ticket;
    struct df_value entity = df_text(t->doc.business_entity);
    struct df_value doc = df_text(t->doc.business_doc_id);
    struct df_value phase = df_int(t->phase_code);
    bool found = false;

    c->created = c->changed = c->refused = false;
    enum df_code code =
        df_db_one(db,
                  DF_Q(ticket_upsert, .entity = entity, .doc = doc, .phase = phase,
                       .company = df_text(t->company_code), .branch = df_text(t->branch_code),
                       .destination = df_text(t->destination_code),
                       .event = df_text(t->shipment_event), .ack = df_bool(t->ack_required),
                       .target = df_text(t->targets[0]), .payload = df_text(df_req_body(w->req)),
                       .hash = df_text(df_str_c(c->hash)), .now = df_time(w->now_ms),
                       .client = df_reach_client(&c->reach), .all = df_reach_all(&c->reach)),
                  read_written, c, &found, err);
    if (code == DF_OK && !found)
        code = df_db_one(db, DF_Q(ticket_same, .entity = entity, .doc = doc, .phase = phase),
                         read_same, c, &found, err);
    /* In a database that ignores lock hints, the second of two inserts at once meets the key. */
    if (code == DF_E_DB_UNIQUE || (code == DF_OK && !found))
        return df_err_set(err, DF_E_DB_CONFLICT, "The ticket was written by another call as well.");
    return code == DF_OK && c->refused ? df_reach_refuse(err, "ticket") : code;
}

static void ticket_received(struct df_work *w)
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

static const struct df_handler receive_ticket = {
    .size = sizeof(struct receipt),
    .writes = true,
    .prepare = read_ticket,
    .run = run_receive_ticket,
    .done = ticket_received,
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

/* The payloads of a ticket; NULL in pages, which have none. */
static const struct df_shown *shown_of(const struct question *c, int64_t id)
{
    static const struct df_shown nothing;

    for (size_t i = 0; i < c->shown_count; i++)
        if (c->shown[i].id == id)
            return &c->shown[i].payloads;
    return c->paged ? NULL : &nothing;
}

static void write_ticket(void *arg, struct df_result *r)
{
    struct question *c = arg;

    df_json_open(&c->w.json, '{');
    df_shown_write_ticket(r, shown_of(c, df_col_int(r, ticket_Id)), &c->w.json);
    df_json_close(&c->w.json, '}');
}

/* Calls row for each row of a query; a query takes those of these parameters that it names. */
static enum df_code query_tickets(struct df_db *db, struct question *c, const struct df_query *q,
                                  void (*row)(void *arg, struct df_result *r), struct df_err *err)
{
    return df_db_each(db,
                      DF_ANY(q, {"entity", df_text(c->entity)}, {"doc", df_text(c->doc)},
                             {"phase", c->phase < 0 ? df_null(DF_INT) : df_int(c->phase)},
                             {"status", df_text(c->status)}, {"client", df_reach_client(&c->reach)},
                             {"limit", df_int(c->w.page.size)},
                             {"offset", df_int(c->w.page.offset)}),
                      row, c, err);
}

static void read_total(void *arg, struct df_result *r)
{
    ((struct question *)arg)->w.page.total = df_col_int(r, ticket_total_Total);
}

static void read_phase(void *arg, struct df_result *r)
{
    struct question *c = arg;

    if (c->shown_count < PHASES_SHOWN)
        c->shown[c->shown_count++].id = df_col_int(r, ticket_Id);
}

static enum df_code write_page(struct df_db *db, struct question *c, struct df_err *err)
{
    bool all = c->reach.all;
    enum df_code code = query_tickets(
        db, c, all ? &df_q_ticket_page_total : &df_q_own_ticket_page_total, read_total, err);

    if (code != DF_OK)
        return code;
    return query_tickets(db, c, all ? &df_q_ticket_page : &df_q_own_ticket_page, write_ticket, err);
}

/* Writes the phases of a document, oldest first, with payloads as far as there is room. */
static enum df_code write_phases(struct df_db *db, struct question *c, struct df_err *err)
{
    const struct df_query *q = c->reach.all ? &df_q_ticket_phases : &df_q_own_ticket_phases;
    int64_t room = df_shown_room(df_interface_options_of(c->w.arg));

    c->shown_count = 0;
    c->shown = DF_ARENA_ARRAY(df_req_arena(c->w.req), struct phase_shown, PHASES_SHOWN);
    enum df_code code = query_tickets(db, c, q, read_phase, err);
    for (size_t i = 0; i < c->shown_count && code == DF_OK; i++)
        code = df_shown_ticket(db, c->shown[i].id, &room, c->w.req, &c->shown[i].payloads, err);
    return code == DF_OK ? query_tickets(db, c, q, write_ticket, err) : code;
}

/* A transaction, so that the payloads belong to the rows that are read. */
static enum df_code run_get_tickets(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct question *c = (struct question *)w;
    enum df_code code = df_db_begin(db, false, err);

    if (code != DF_OK)
        return code;
    df_page_open(&w->json);
    code = c->paged ? write_page(db, c, err) : write_phases(db, c, err);
    df_json_close(&w->json, ']');
    if (c->paged)
        df_page_write(&w->page, &w->json);
    df_json_close(&w->json, '}');
    df_db_rollback(db); /* nothing was written */
    return code;
}

static bool read_ticket_filter(struct df_work *w, struct df_input *in)
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

static const struct df_handler get_tickets = {
    .size = sizeof(struct question),
    .prepare = read_ticket_filter,
    .run = run_get_tickets,
};

#define ROUTE(m, kind, h) DF_ROUTE(m, "/api/tickets", kind, DF_ACCESS_CLIENT, "interface", h)

const struct df_route df_ticket_routes[] = {
    ROUTE("POST", DF_BODY_JSON, receive_ticket),
    ROUTE("GET", DF_BODY_NONE, get_tickets),
    {.method = NULL},
};

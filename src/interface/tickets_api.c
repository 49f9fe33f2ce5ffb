/*
 * /api/tickets: receives and shows tickets.
 *
 * The key of a ticket is its business entity, document and phase. A payload with the same SHA-256
 * as the stored one changes nothing, so that callers may repeat a call whose answer they lost.
 * Another payload replaces the stored one, and processing starts over. The owner does not change
 * (owners.h). ticket_accept.c writes the ticket, with its outcome.
 */
#include "access/handler.h"
#include "access/list.h"
#include "base/mem.h"
#include "interface/processing_private.h"
#include "interface/shown.h"
#include "interface/tickets.sql.h"

#include <stdlib.h>

#define PHASES_SHOWN 64 /* phases of a document whose payloads are shown */

/* --- POST /api/tickets --- */

struct receipt {
    struct df_work w; /* its arg is the interface */
    struct ticket_acceptance c;
};

static enum df_code run_receive_ticket(struct df_db *db, struct df_work *w, struct df_err *err)
{
    return ticket_accept(db, w->arg, &((struct receipt *)w)->c, err);
}

static enum df_code receive_tickets(struct df_db *db, struct df_job **jobs, size_t count,
                                    struct df_err *err)
{
    struct df_interface *i = ((struct df_work *)jobs[0])->arg;
    struct ticket_acceptance **all = df_calloc(count, sizeof(struct ticket_acceptance *));

    for (size_t n = 0; n < count; n++)
        all[n] = &((struct receipt *)jobs[n])->c;
    enum df_code code = ticket_accept_all(db, i, all, count, err);
    free(all);
    return code;
}

static void ticket_received(struct df_work *w)
{
    struct ticket_acceptance *c = &((struct receipt *)w)->c;
    struct df_json_out *json = &w->json;

    ticket_accepted(w->arg, c);
    df_json_open(json, '{');
    df_json_kv_int(json, "id", c->t.id);
    df_json_kv_text(json, "businessEntity", c->parsed.doc.business_entity);
    df_json_kv_text(json, "businessDocId", c->parsed.doc.business_doc_id);
    df_json_kv_int(json, "phaseCode", c->parsed.phase_code);
    df_json_kv_text(json, "status", c->status);
    df_json_kv_bool(json, "created", c->created);
    df_json_close(json, '}');
}

static bool read_ticket(struct df_work *w, struct df_input *in)
{
    struct ticket_acceptance *c = &((struct receipt *)w)->c;

    if (!df_input_json(in, w->req))
        return false;
    df_ticket_read(in, &c->parsed);
    if (in->error_count > 0)
        return true;
    c->arena = df_req_arena(w->req);
    c->payload = df_req_body(w->req);
    df_checksum_of(c->payload, c->hash);
    c->people = df_subjects_in(w->access->keys, c->payload, c->arena);
    c->reach = df_reach_of(w->req);
    c->t.trace_parent = df_trace_parent(df_req_trace(w->req));
    ticket_acceptance_judge(c, in, w->arg);
    return true;
}

static const struct df_handler receive_ticket = {
    .size = sizeof(struct receipt),
    .writes = true,
    .prepare = read_ticket,
    .run = run_receive_ticket,
    .run_all = receive_tickets,
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
    df_shown_write_ticket(r, shown_of(c, df_col_int(r, ticket_Id)),
                          df_interface_options_of(c->w.arg)->delivery, &c->w.json);
    df_json_close(&c->w.json, '}');
}

/* Calls row for each row of a query; a query takes those of these parameters that it names. */
static enum df_code query_tickets(struct df_db *db, struct question *c, const struct df_query *q,
                                  void (*row)(void *arg, struct df_result *r), struct df_err *err)
{
    return df_db_each(db,
                      DF_ANY(q, {"entity", df_text(c->entity)}, {"doc", df_text(c->doc)},
                             {"phase", c->phase < 0 ? df_null(DF_INT) : df_int(c->phase)},
                             {"status", df_text(c->status)},
                             {"client", df_reach_client(&c->reach)}),
                      row, c, err);
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
    struct df_list_query q = {
        .newest = all ? &df_q_ticket_keys : &df_q_own_ticket_keys,
        .oldest = all ? &df_q_ticket_keys_oldest : &df_q_own_ticket_keys_oldest,
        .rows = &df_q_ticket_rows,
        DF_LIST_FILTER({"entity", df_text(c->entity)}, {"doc", df_text(c->doc)},
                       {"phase", c->phase < 0 ? df_null(DF_INT) : df_int(c->phase)},
                       {"status", df_text(c->status)}, {"client", df_reach_client(&c->reach)}),
    };

    return df_list_page(db, &q, &c->w.page, df_req_arena(c->w.req), write_ticket, c, err);
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
        df_page_read_list(in, req, "own-tickets", false, &w->page);
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

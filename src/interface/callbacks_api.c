/*
 * /api/tickets/callback: the gateway reports on a ticket that was sent to it.
 *
 * The last callback counts. A callback with the same bytes changes nothing, not even the time of
 * receipt.
 */
#include "access/handler.h"
#include "interface/interface.h"
#include "interface/payload.h"
#include "interface/tickets.sql.h"

struct call {
    struct df_work w;
    struct df_callback callback;
    struct df_str status; /* CallbackStatus after this call */
    int64_t id;
    bool same; /* the ticket has this callback already */
};

static void read_ticket(void *arg, struct df_result *r)
{
    struct call *c = arg;
    struct df_str before = df_col_text(r, callback_find_CallbackPayloadJson);

    c->id = df_col_int(r, callback_find_Id);
    c->same = before.ptr && df_str_eq(before, df_req_body(c->w.req));
    c->status =
        c->same ? df_arena_str(df_req_arena(c->w.req), df_col_text(r, callback_find_CallbackStatus))
                : c->callback.state;
}

static enum df_code run_callback(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct call *c = (struct call *)w;
    const struct df_callback *b = &c->callback;
    bool found = false;
    enum df_code code =
        df_db_one(db,
                  DF_Q(callback_find, .entity = df_text(b->business_entity),
                       .doc = df_text(b->business_doc_id), .phase = df_int(b->phase_code)),
                  read_ticket, c, &found, err);

    if (code == DF_OK && !found)
        return df_err_set(err, DF_E_NOT_FOUND, "There is no such ticket.");
    if (code != DF_OK || c->same)
        return code;
    return df_db_exec(db,
                      DF_Q(callback_set, .status = df_text(c->status), .now = df_time(w->now_ms),
                           .payload = df_text(df_req_body(w->req)), .message = df_text(b->message),
                           .code = df_text(b->code), .id = df_int(c->id)),
                      NULL, err);
}

static void write_status(struct df_work *w)
{
    const struct call *c = (const struct call *)w;

    df_json_open(&w->json, '{');
    df_json_kv_text(&w->json, "businessEntity", c->callback.business_entity);
    df_json_kv_text(&w->json, "businessDocId", c->callback.business_doc_id);
    df_json_kv_int(&w->json, "phaseCode", c->callback.phase_code);
    df_json_kv_text(&w->json, "callbackStatus", c->status);
    df_json_close(&w->json, '}');
}

static bool read_callback(struct df_work *w, struct df_input *in)
{
    if (!df_input_json(in, w->req))
        return false;
    df_callback_read(in, &((struct call *)w)->callback);
    return true;
}

static const struct df_handler callback = {
    .size = sizeof(struct call),
    .writes = true,
    .prepare = read_callback,
    .run = run_callback,
    .done = write_status,
};

const struct df_route df_callback_routes[] = {
    DF_ROUTE("POST", "/api/tickets/callback", DF_BODY_JSON, DF_ACCESS_CLIENT, "callback", callback),
    {.method = NULL},
};

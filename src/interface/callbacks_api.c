/*
 * /api/tickets/callback: what the gateway made of a ticket that was sent to it.
 *
 * The last callback counts. The same bytes again change nothing, not even the time of receipt.
 */
#include "access/handler.h"
#include "interface/interface.h"
#include "interface/payload.h"
#include "interface/tickets.sql.h"

struct call {
    struct df_work w;
    struct df_callback callback;
    struct df_str status; /* CallbackStatus, as it is now */
};

/* *ret_same: the ticket has this callback already; c->status is then what it has. */
static enum df_code find(struct df_db *db, struct call *c, int64_t *ret_id, bool *ret_same,
                         struct df_err *err)
{
    const struct df_callback *b = &c->callback;
    struct df_result *r = NULL;
    enum df_code code = df_db_query(
        db, &df_q_callback_find,
        DF_PARAMS(df_text(b->business_entity), df_text(b->business_doc_id), df_int(b->phase_code)),
        &r, err);
    if (code == DF_OK)
        code = df_result_step(r, err);
    if (code == DF_ROW) {
        *ret_id = df_col_int(r, 0);
        *ret_same = !df_col_null(r, 2) && df_str_eq(df_col_text(r, 2), df_req_body(c->w.req));
        c->status = *ret_same ? df_arena_str(df_req_arena(c->w.req), df_col_text(r, 1)) : b->state;
        code = DF_OK;
    } else if (code == DF_DONE) {
        code = df_err_set(err, DF_E_NOT_FOUND, "There is no such ticket.");
    }
    df_result_free(r);
    return code;
}

static enum df_code run_callback(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct call *c = (struct call *)w;
    const struct df_callback *b = &c->callback;
    int64_t id = 0;
    bool same = false;

    enum df_code code = find(db, c, &id, &same, err);
    if (code != DF_OK || same)
        return code;
    return df_db_exec(db, &df_q_callback_set,
                      DF_PARAMS(df_text(c->status), df_time(w->now_ms),
                                df_text(df_req_body(w->req)), df_text(b->message), df_text(b->code),
                                df_int(id)),
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

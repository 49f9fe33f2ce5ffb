/*
 * /api/tickets/callback: the gateway reports on a ticket that was sent to it.
 *
 * The last callback counts. A callback with the same bytes changes nothing, not even the time of
 * receipt.
 */
#include "access/handler.h"
#include "base/tally.h"
#include "interface/interface.h"
#include "interface/payload.h"
#include "interface/tickets.sql.h"
#include "privacy/mask.h"
#include "privacy/subjects.h"

struct call {
    struct df_work w;
    struct df_callback callback;
    struct df_str status; /* CallbackStatus after this call */
    int64_t id;
    struct df_str client;            /* the ticket's; absent: nobody's */
    int64_t sent_ms;                 /* when the ticket arrived at the gateway; -1: it has not */
    bool same;                       /* the ticket has this callback already */
    char hash[DF_MASK_HASH_LEN + 1]; /* empty: it is stored as it came */
    struct df_str payload;           /* as it is stored */
};

static void read_ticket(void *arg, struct df_result *r)
{
    struct call *c = arg;
    struct df_str before = df_col_text(r, callback_find_CallbackPayloadJson);
    struct df_str hash = df_col_text(r, callback_find_CallbackHash);

    c->id = df_col_int(r, callback_find_Id);
    c->client = df_arena_str(df_req_arena(c->w.req), df_col_text(r, callback_find_ClientId));
    c->sent_ms = df_col_time(r, callback_find_GatewaySendSentAt);
    /* A new payload of the ticket takes the callback away, but not its hash. */
    c->same = before.ptr && (hash.ptr ? df_str_eq(hash, df_str_c(c->hash))
                                      : df_str_eq(before, df_req_body(c->w.req)));
    c->status =
        c->same ? df_arena_str(df_req_arena(c->w.req), df_col_text(r, callback_find_CallbackStatus))
                : c->callback.state;
}

static enum df_code write_people(struct df_db *db, const struct call *c, struct df_err *err)
{
    struct df_arena *a = df_req_arena(c->w.req);
    struct df_subjects people = df_subjects_in(c->w.access->keys, df_req_body(c->w.req), a);

    return df_subjects_write(db, "callback", df_arena_printf(a, "%lld", (long long)c->id),
                             people.at, people.count, false, err);
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
    code = df_db_exec(db,
                      DF_Q(callback_set, .status = df_text(c->status), .now = df_time(w->now_ms),
                           .payload = df_text(c->payload), .message = df_text(b->message),
                           .code = df_text(b->code),
                           .hash = c->hash[0] ? df_text(df_str_c(c->hash)) : df_null(DF_TEXT),
                           .id = df_int(c->id)),
                      NULL, err);
    return code == DF_OK ? write_people(db, c, err) : code;
}

static void write_status(struct df_work *w)
{
    const struct call *c = (const struct call *)w;

    if (!c->same && c->sent_ms >= 0)
        df_tally_ack(c->client, DF_STR("ticket-gateway"), w->now_ms - c->sent_ms);
    df_json_open(&w->json, '{');
    df_json_kv_text(&w->json, "businessEntity", c->callback.business_entity);
    df_json_kv_text(&w->json, "businessDocId", c->callback.business_doc_id);
    df_json_kv_int(&w->json, "phaseCode", c->callback.phase_code);
    df_json_kv_text(&w->json, "callbackStatus", c->status);
    df_json_close(&w->json, '}');
}

/* What is stored of the callback: masked, and the hash by which it is known again. */
static bool mask_callback(struct call *c)
{
    const struct df_masker *m = df_interface_options_of(c->w.arg)->masker;
    struct df_str body = df_req_body(c->w.req);
    struct df_buf masked;

    c->payload = body;
    c->callback.message = df_mask_note(c->callback.message, SIZE_MAX, df_req_arena(c->w.req));
    c->callback.code = df_mask_note(c->callback.code, SIZE_MAX, df_req_arena(c->w.req));
    if (!m || !df_masker_masks(m))
        return true;
    df_mask_hash(m, body, c->hash);
    df_req_buf(c->w.req, &masked, DF_HASHED_GROWTH * body.len + DF_HASHED_GROWTH);
    df_mask_json(m, body, &masked);
    bool whole = !df_buf_failed(&masked);
    if (whole)
        c->payload = df_arena_str(df_req_arena(c->w.req), df_buf_str(&masked));
    else
        df_req_fail(c->w.req, DF_E_BUSY, "there is no memory for the callback: try again soon");
    df_buf_release(&masked);
    return whole && df_req_charge(c->w.req, c->payload.len);
}

static bool read_callback(struct df_work *w, struct df_input *in)
{
    if (!df_input_json(in, w->req))
        return false;
    df_callback_read(in, &((struct call *)w)->callback);
    return mask_callback((struct call *)w);
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
